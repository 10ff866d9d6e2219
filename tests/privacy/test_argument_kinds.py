"""Arguments of planning and audits: read as numbers, functions or mappings, or refused by name."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

import pymc_private as pmp
from pymc_private import privacy
from pymc_private.errors import DomainError
from pymc_private.privacy.argument_kinds import (
    CLAIM,
    DOUBLE,
    EXECUTOR,
    NUMBER,
    NUMBERS,
    SEEDS,
    TEXT,
    takes,
)


@takes(size=NUMBER, others=NUMBERS.optional)
def area(size, others=None):
    return size, others


def test_what_is_read_keeps_its_value():
    assert area(Fraction(1, 3)) == (Fraction(1, 3), None)
    assert area(size=Decimal("Infinity")) == (math.inf, None)
    assert type(area(np.float32(0.5))[0]) is float
    assert area(1, [1, 2])[1].tolist() == [1, 2]
    assert DOUBLE.of(Decimal("0.1"), "x", "f") == 0.1
    assert SEEDS.of(range(3), "seeds", "f") == [0, 1, 2]
    assert CLAIM.of(pmp.Guarantee.pure(1), "claim", "f").pure_epsilon == 1


@pytest.mark.parametrize("size", [None, True, "1", 1j, [1], 10**400, Decimal("NaN"), {"a": 1}])
def test_what_is_no_number_is_refused_by_name(size):
    with pytest.raises(DomainError, match="area cannot compute with this size") as refused:
        area(size)
    assert f"got: {type(size).__name__}" in str(refused.value)
    assert "allowed: one number" in str(refused.value)


@pytest.mark.parametrize("others", ["x", {"a": 1}, [[1], [1, 2]], [1j], np.array(["a"]), True])
def test_what_is_no_array_of_numbers_is_refused(others):
    with pytest.raises(DomainError, match="others"):
        area(1, others)


def test_masked_arrays_classes_and_missing_arguments_are_refused():
    with pytest.raises(DomainError, match="mask"):
        area(1, np.ma.masked_array([1.0, 2.0], [True, False]))
    with pytest.raises(DomainError, match="executor"):
        EXECUTOR.of([1], "executor", "f")
    with pytest.raises(DomainError, match="text"):
        TEXT.of(np.array(["auto", "x"]), "method", "f")
    with pytest.raises(TypeError, match="size"):
        area()


# ---- formulas of numbers ------------------------------------------------------------------------
@pytest.mark.parametrize("junk", [None, True, "x", {}, [[1, 2], [3]], 1j, 10**400, Decimal("NaN")])
def test_formulas_refuse_what_is_no_number_before_they_compute(junk):
    with pytest.raises(DomainError, match="number"):
        privacy.gdp_delta(junk, 1.0)
    with pytest.raises(DomainError, match="number"):
        privacy.draws_affordable(1.0, junk, 0.5)
    with pytest.raises(DomainError, match="number"):
        privacy.dirichlet_expected_kl(junk, 0.5, 1.0)


def test_formulas_take_numbers_of_every_type():
    expected = privacy.gdp_delta(0.5, 1.0)
    for half in (Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.array(0.5)):
        assert privacy.gdp_delta(half, 1) == expected
    with pytest.raises(DomainError, match="shapes that broadcast"):
        privacy.gdp_delta([0.5, 1.0], [1.0, 2.0, 3.0])
