"""Guarantee: a promise as a value."""

from __future__ import annotations

import copy
import html
import json
import math
import pickle
import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from pymc_private.errors import DomainError, Incompatible
from pymc_private.ledger import Ledger
from pymc_private.privacy import Guarantee, br_delta, br_eps, br_zcdp_tight

SAMPLE = (
    Guarantee.pure(0.3, theorem="T1", assumptions=("N is public",)),
    Guarantee.approximate(0.1, 1e-7),
    Guarantee.zcdp_of(0.02, neighbors="substitute"),
    Guarantee.gdp_of(0.5),
    Guarantee.bounded_range_of(0.1, draws=10, theorem="T3"),
    Guarantee.none("a seed was given"),
)
kinds = pytest.mark.parametrize("one", SAMPLE, ids=lambda one: one.events[0].kind)


# ---- what each kind promises ----------------------------------------------------------------
def test_each_constructor_promises_its_own_number():
    assert Guarantee.pure(0.3).pure_epsilon == 0.3
    assert Guarantee.zcdp_of(0.3).zcdp == 0.3
    assert Guarantee.gdp_of(0.3).gdp == 0.3
    assert Guarantee.approximate(0.3, 1e-5).epsilon(1e-5) == 0.3
    assert Guarantee.approximate(0.3, 0) == Guarantee.pure(0.3)
    assert Guarantee.pure(0.25).epsilon() == Guarantee.pure(0.25).epsilon(0) == 0.25


def test_a_posterior_draw_has_three_roads():
    ten = Guarantee.bounded_range_of(0.1, draws=10)
    assert ten.pure_epsilon == pytest.approx(1.0, rel=1e-15)
    assert Fraction(ten.pure_epsilon) >= 10 * Fraction(0.1)
    assert ten.zcdp == pytest.approx(10 * br_zcdp_tight(0.1), rel=1e-15)
    assert ten.zcdp <= 10 * 0.1**2 / 8 * (1 + 1e-14)
    assert ten.epsilon(1e-6) == br_eps(1e-6, 10, 0.1)
    assert ten.delta(0.4) == br_delta(0.4, 10, 0.1)
    assert ten.accounting_method(1e-6) == "exact curve of N draws (T3)"
    assert ten.accounting_method(0.0) == "pure"


def test_what_is_absent_is_infinite():
    for one in SAMPLE[1:4]:
        assert one.pure_epsilon == one.epsilon(0) == math.inf
    assert SAMPLE[1].zcdp == SAMPLE[1].rdp(2.0) == math.inf
    assert SAMPLE[0].gdp == SAMPLE[4].gdp == math.inf


def test_no_promise_has_infinite_epsilon_even_beside_others():
    for one in (SAMPLE[5], SAMPLE[5] + SAMPLE[0], 3 * SAMPLE[5], SAMPLE[5].group(2)):
        assert one.epsilon(0.999) == one.pure_epsilon == one.zcdp == one.gdp == math.inf
        assert one.delta(100.0) == 1.0
        assert "NOT PRIVATE" in repr(one)
        assert "a seed was given" in repr(one)


def test_an_infinite_epsilon_is_not_dropped_from_a_sum():
    lost = Guarantee.approximate(math.inf, 1e-9) + Guarantee.pure(0.1)
    assert lost.epsilon(1e-3) == math.inf
    assert lost.delta(5.0) == 1.0


def test_pure_privacy_is_a_bounded_range_of_twice_epsilon():
    for epsilon in (0.01, 0.5, 2.0):
        assert Guarantee.pure(epsilon).zcdp == br_zcdp_tight(2 * epsilon)
        assert Guarantee.pure(epsilon).zcdp <= epsilon**2 / 2 * (1 + 1e-14)
        # randomized response: KL = epsilon tanh(epsilon / 2) bounds every valid rho from below
        assert Guarantee.pure(epsilon).zcdp >= epsilon * math.tanh(epsilon / 2)


def test_renyi_divergence_is_the_least_of_zcdp_and_pure():
    ten = Guarantee.bounded_range_of(0.1, draws=10)
    assert ten.rdp(2.0) == pytest.approx(2 * ten.zcdp)
    assert ten.rdp(1e9) == ten.rdp(math.inf) == ten.pure_epsilon
    assert Guarantee.pure(0.0).rdp(math.inf) == 0.0
    with pytest.raises(DomainError, match="order"):
        ten.rdp(0.99)


# ---- neighbors, words, carrying around ------------------------------------------------------
def test_unlike_neighbors_refuse_to_add():
    with pytest.raises(Incompatible, match="add_remove"):
        Guarantee.pure(0.1) + Guarantee.pure(0.1, neighbors="add_remove")


def test_a_sum_keeps_every_theorem_and_assumption_once():
    one = Guarantee.pure(0.1, theorem="A", assumptions=("x", "y"))
    two = Guarantee.pure(0.1, theorem="B", assumptions=("y", "z"))
    assert (one + two).theorem == "A; B"
    assert (one + two + one).assumptions == ("x", "y", "z")
    assert (2 * one).assumptions == ("x", "y")
    assert Guarantee.pure(0.1, assumptions="one sentence").assumptions == ("one sentence",)


@kinds
def test_a_guarantee_survives_every_way_of_carrying_it(one):
    assert Guarantee.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one
    assert hash(copy.deepcopy(one)) == hash(one)
    with pytest.raises(AttributeError):
        one.theorem = "another"
    with pytest.raises(TypeError):
        float(one)


@kinds
def test_a_guarantee_prints_what_it_protects_and_rests_on(one):
    text = repr(one + Guarantee.pure(0.0, theorem="T<1>", assumptions=("a & b",)))
    assert "a & b" in text
    if one != SAMPLE[5]:
        assert "one record replaced" in text
        assert "T<1>" in text
    markup = one._repr_html_()
    words = html.unescape(re.sub(r"</?(?:div|dl|dd)\b[^>]*>", " ", markup)).split()
    assert words == repr(one).split()


def test_printed_epsilons_are_not_below_the_true_ones():
    one = Guarantee.pure(1 / 3)
    printed = float(repr(one).split("epsilon = ")[1].split()[0])
    assert 1 / 3 <= printed < 0.33334


@pytest.mark.parametrize(
    "stored",
    [
        {},
        {"events": 3},
        SAMPLE[0].to_dict() | {"neighbors": "whom"},
        SAMPLE[0].to_dict() | {"events": [["pure", "-0x1p0", "0x0p0", 1]]},
        SAMPLE[0].to_dict() | {"events": [["purest", "0x1p0", "0x0p0", 1]]},
        SAMPLE[0].to_dict() | {"events": [["pure", "0x1p0", "0x1p-3", 1]]},
        SAMPLE[0].to_dict() | {"events": [["pure", "0x1p0", "0x0p0", 0]]},
        SAMPLE[0].to_dict() | {"events": [["pure", "nan", "0x0p0", 1]]},
    ],
)
def test_a_damaged_record_is_refused(stored):
    with pytest.raises(Incompatible, match="not a stored guarantee"):
        Guarantee.from_dict(stored)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Guarantee.pure(-0.1),
        lambda: Guarantee.pure(math.nan),
        lambda: Guarantee.pure("one"),
        lambda: Guarantee.pure(True),
        lambda: Guarantee.pure(None),
        lambda: Guarantee.approximate(0.1, 1.0),
        lambda: Guarantee.approximate(0.1, -1e-9),
        lambda: Guarantee.zcdp_of(-1),
        lambda: Guarantee.gdp_of(Decimal("-1")),
        lambda: Guarantee.bounded_range_of(-1.0),
        lambda: Guarantee.bounded_range_of(1.0, draws=0),
        lambda: Guarantee.bounded_range_of(1.0, draws=1.5),
        lambda: Guarantee.bounded_range_of(1.0, draws=True),
        lambda: Guarantee.pure(1.0, neighbors="replace"),
        lambda: Guarantee.pure(1.0).epsilon(1.0),
        lambda: Guarantee.pure(1.0).epsilon(-1e-9),
        lambda: Guarantee.pure(1.0).delta(-1e-9),
        lambda: Guarantee.pure(1.0) * 0,
        lambda: Guarantee.pure(1.0) * 1.5,
        lambda: Guarantee.pure(1.0).group(0),
        lambda: Guarantee.pure(1.0).group(2.5),
    ],
)
def test_impossible_promises_are_refused_with_what_is_allowed(call):
    with pytest.raises(DomainError, match="allowed"):
        call()


def test_exact_numbers_enter_rounded_up():
    for exact in (Fraction(1, 3), Decimal("0.1"), 3):
        assert Fraction(Guarantee.pure(exact).pure_epsilon) >= Fraction(exact)
    assert Guarantee.bounded_range_of(0.1, draws=np.int64(10)).events[0].count == 10
    assert Guarantee.pure(np.float64(0.1)) == Guarantee.pure(0.1)


@pytest.mark.parametrize(
    ("name", "texts", "numbers"),
    [
        ("pure", ("0.01",), (Fraction(1, 100),)),
        ("pure", ("1/3",), (Fraction(1, 3),)),
        ("approximate", ("0.5", "1e-6"), (Fraction(1, 2), Fraction(1, 10**6))),
        ("zcdp_of", ("0.1",), (Fraction(1, 10),)),
        ("gdp_of", ("0.3",), (Fraction(3, 10),)),
        ("rdp_of", ("2", "0.1"), (2, Fraction(1, 10))),
        ("posterior_of", ("0.4", "0.2"), (Fraction(2, 5), Fraction(1, 5))),
        ("mollifier_of", ("0.2",), (Fraction(1, 5),)),
        ("gaussian_of", ("1", "10"), (1, 10)),
        ("dirichlet_of", ("0.5", "1"), (0.5, 1)),
        ("gamma_of", ("0.5", "1"), (0.5, 1)),
        ("randomized_response_of", ("0.7",), (Fraction(7, 10),)),
    ],
)
def test_text_is_the_number_that_a_ledger_reads_in_it(name, texts, numbers):
    make = getattr(Guarantee, name)
    assert make(*texts) == make(*numbers)


@pytest.mark.parametrize("text", ["x", "-1", "inf", "nan", "1e999999999", ""])
def test_text_that_a_ledger_refuses_is_refused(text):
    with pytest.raises(DomainError):
        Guarantee.pure(text)


def test_a_text_can_be_charged_exactly():
    ledger = Ledger(epsilon="0.01")
    ledger.charge(Guarantee.pure("0.01"), "all of it")
    assert ledger.left.epsilon == 0
