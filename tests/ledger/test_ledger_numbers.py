"""Numbers as users write them, exact or refused; and copies that never double a budget."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import pymc_private as pmp
from pymc_private.errors import BudgetExceeded, DomainError, Incompatible, PrivacyWarning
from pymc_private.ledger.filter import records_of_unit
from pymc_private.ledger.ledger import Ledger
from pymc_private.models.declare import unit_claims
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.validation import exact_decimal

EXACT = [
    (5e-324, Fraction(5, 10**324)),  # subnormal: the decimal it is written in
    (1e308, Fraction(10**308)),
    (Decimal("0.1"), Fraction(1, 10)),
    (Decimal("1e-300"), Fraction(1, 10**300)),
    (Decimal("-0"), Fraction(0)),
    (Fraction(1, 7), Fraction(1, 7)),
    (np.float64(0.1), Fraction(1, 10)),
    (np.float32(0.1), Fraction(1, 10)),
    (np.float16(0.5), Fraction(1, 2)),
    (np.longdouble("0.1"), Fraction(1, 10)),
    (np.int8(3), Fraction(3)),
    (np.uint64(2**64 - 1), Fraction(2**64 - 1)),
    (10**300, Fraction(10**300)),
    (" 1/3 ", Fraction(1, 3)),
    ("1e-9", Fraction(1, 10**9)),
    (-0.0, Fraction(0)),
]
REFUSED = [
    *(math.nan, math.inf, -math.inf, -1, -1e-300, -5e-324, True, None, 1j, b"1", [1], ()),
    *(Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("-1"), Decimal("1e400")),
    *(Decimal("1e-500"), Fraction(-1, 3), Fraction(1, 10**500), 10**500, 10**9999, 2**99999),
    *(np.float64("nan"), np.float32("inf"), np.float64(-1), np.int64(-1), np.bool_(True)),
    *(np.array(1.0), np.array([1.0]), np.complex128(1), np.datetime64("2026-01-01")),
    *("", " ", "nan", "inf", "1e400", "1e-99999999999", "0x1", "1_0", "1/0", "1//2", "١", "1e1e1"),
    *("0." + "1" * 500, "1" * 900),
]


@pytest.mark.parametrize(("written", "meant"), EXACT, ids=repr)
def test_a_number_is_taken_exactly_as_it_is_written(written, meant):
    taken = exact_decimal(written, "epsilon")
    assert taken == meant
    assert type(taken.numerator) is int
    if meant:
        assert Ledger(epsilon=written).budget.epsilon == meant
    if meant < 1:
        assert Ledger(epsilon=1, delta=written).budget.delta == meant


@pytest.mark.parametrize("written", REFUSED, ids=lambda value: f"{type(value).__name__}")
def test_what_is_no_number_of_a_budget_is_refused(written):
    with pytest.raises(DomainError):
        Ledger(epsilon=written)
    if written is not None:
        with pytest.raises(DomainError):
            Ledger(epsilon=1, delta=written)
        ledger = Ledger(epsilon=1, delta=1e-6)
        with pytest.raises(DomainError):
            ledger.charge(Guarantee.pure(0.5), "x", delta=written)
        assert ledger.entries == ()


@pytest.mark.parametrize("tiny", [5e-324, 1e-320, 2.0**-1022])
def test_subnormal_charges_add_up_exactly(tiny):
    ledger = Ledger(epsilon=1)
    for _ in range(7):
        ledger.charge(Guarantee.pure(tiny), "a trifle")
    assert ledger.methods["pure"].total == 7 * Fraction(repr(tiny))
    assert ledger.left.epsilon == 1 - 7 * Fraction(repr(tiny))
    ledger.charge(Guarantee.pure(math.nextafter(1.0, 0.0)), "nearly all")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.pure(2.0**-53), "nothing that doubles would see")


def test_huge_charges_add_up_exactly():
    ledger = Ledger(epsilon=10**309)
    for _ in range(5):
        ledger.charge(Guarantee.pure(1e308), "much")
    assert ledger.spent.epsilon == 5 * 10**308
    assert "epsilon" in repr(ledger)
    for _ in range(4):
        ledger.charge(Guarantee.pure(1e308), "much")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.pure(1.1e308), "too much")


@pytest.mark.parametrize(("rest", "said"), [("4.996e-15", "0"), ("2e-12", "2e-12")])
def test_what_rounding_leaves_of_a_budget_is_said_to_be_nothing(rest, said):
    ledger = Ledger(epsilon=1)
    ledger.charge(Guarantee.pure(1 - Fraction(rest)), "nearly all")
    assert f"left epsilon = {said} nats" in " ".join(str(ledger).split())
    ledger.charge(Guarantee.pure(Fraction(rest)), "the rest fits, too")


@pytest.mark.parametrize("written", [Fraction(1, 8), Decimal("0.125"), np.float64(0.125)])
def test_eight_eighths_fill_a_budget_of_one_however_they_are_written(written):
    ledger = Ledger(epsilon=1)
    for _ in range(8):
        ledger.charge(Guarantee.pure(written), "draw")
    assert ledger.left == (0, 0)


def test_thirds_of_delta_fill_a_share_exactly():
    ledger = Ledger(epsilon=1, delta="1/1000", shares={"approximate": "1/1000"})
    for _ in range(3):
        ledger.charge(Guarantee.approximate(0.25, 3e-4), "draw", delta="1/3000")
    assert ledger.spent == (Fraction(3, 4), Fraction(1, 1000))


class Study:
    """What an estimator does with a ledger: scikit-learn's conventions, without scikit-learn."""

    def __init__(self, ledger=None):
        self.ledger = ledger

    def get_params(self, deep=True):
        return {"ledger": self.ledger}


def cloned(study):
    """Clone as scikit-learn does: deep copies of the parameters."""
    try:
        from sklearn.base import clone
    except ImportError:
        return type(study)(**{k: copy.deepcopy(v) for k, v in study.get_params().items()})
    return clone(study)


WAYS = {
    "clone": cloned,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{
        f"pickle {protocol}": lambda study, protocol=protocol: pickle.loads(
            pickle.dumps(study, protocol)
        )
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1)
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_clones_and_pickles_of_an_estimator_never_double_its_budget(way, tmp_path):
    ledger = Ledger(tmp_path / "a.sqlite", epsilon=1)
    studies = [Study(ledger)]
    studies += [WAYS[way](studies[0]) for _ in range(3)]
    for study in studies:
        study.ledger.charge(Guarantee.pure(0.25), "draw")
    for study in studies:
        assert study.ledger.left == (0, 0)
        with pytest.raises(BudgetExceeded):
            study.ledger.charge(Guarantee.pure(0.25), "one more")
    assert [entry.number for entry in ledger.entries] == [1, 2, 3, 4]


@pytest.mark.parametrize("way", WAYS)
def test_clones_of_a_ledger_in_memory_share_it_or_refuse(way):
    study = Study(Ledger(epsilon=1))
    if way.startswith("pickle"):
        with pytest.raises(Incompatible, match="second budget"):
            WAYS[way](study)
        return
    other = WAYS[way](study)
    other.ledger.charge(Guarantee.pure(1.0), "all")
    assert study.ledger.left == (0, 0)


def test_sums_of_unlike_units_hold_for_the_smaller_and_say_so():
    ledger = Ledger(epsilon=10)
    ledger.charge(Guarantee.pure(1), "a record")
    with pytest.warns(PrivacyWarning, match="units of 3 and the one before it units of 1 records"):
        ledger.charge(Guarantee.pure(1).group(3), "a person")
    assert "sums hold for a single record (charges protect units of different size)" in repr(ledger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ledger.charge(Guarantee.pure(0.1).group(3), "a person again")
        with pytest.raises(PrivacyWarning):
            ledger.charge(Guarantee.pure(1), "a record again")
    assert len(ledger.entries) == 3
    persons = Ledger(epsilon=10)
    assert "units" not in repr(persons)
    persons.charge(Guarantee.pure(1).group(3), "a person")
    assert "sums hold for a unit of at most 3 records" in repr(persons)


def test_models_and_counts_state_their_units_as_the_ledger_reads_them():
    ledger = Ledger(epsilon=10)
    table = pd.DataFrame({"id": [1, 1, 2, 3], "a": ["x", "y", "x", "x"]})
    given = {"categories": {"a": ["x", "y"]}, "tables": {"a": ["a"]}, "id": "id"}
    pmp.counts.noisy_counts(
        data=table, epsilon=1, records_per_unit=2, ledger=ledger, neighbors="substitute", **given
    )
    assert records_of_unit(ledger.entries[0].guarantee.assumptions) == 2
    assert records_of_unit(unit_claims(3, "substitute")) == 3
    assert records_of_unit(["another unit", "one unit owns at most 4 records"]) == 4
