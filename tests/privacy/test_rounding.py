"""Privacy numbers are rounded to the safe side."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.privacy.rounding import (
    difference_down,
    float_down,
    float_up,
    least_epsilon,
    root_up,
    sum_up,
    times_up,
    widen,
)

numbers = st.floats(0.0, 1e200)
rationals = st.fractions(min_value=-(10**9), max_value=10**9)


@given(value=rationals)
def test_a_rational_lies_between_its_two_roundings_which_touch(value):
    low, high = float_down(value), float_up(value)
    assert Fraction(low) <= value <= Fraction(high)
    assert high <= math.nextafter(low, math.inf)


def test_numbers_beyond_the_doubles_round_outward():
    assert float_up(Fraction(10**400)) == math.inf
    assert float_down(Fraction(10**400)) < math.inf
    assert float_up(Fraction(-(10**400))) > -math.inf
    assert float_up(Fraction(1, 10**400)) == 5e-324


@given(terms=st.lists(numbers, max_size=6))
def test_a_sum_is_the_least_double_not_below_the_exact_sum(terms):
    exact, got = sum((Fraction(term) for term in terms), Fraction(0)), sum_up(terms)
    assert Fraction(got) >= exact
    assert got == 0.0 or Fraction(math.nextafter(got, 0.0)) < exact


@given(factor=numbers, value=st.floats(0.0, 1e100))
def test_a_product_is_never_below_the_exact_product(factor, value):
    got = times_up(factor, value)
    assert Fraction(got) >= Fraction(factor) * Fraction(value)
    assert got == 0.0 or Fraction(math.nextafter(got, 0.0)) < Fraction(factor) * Fraction(value)


@given(value=st.fractions(min_value=0, max_value=10**12))
def test_a_root_is_the_least_double_whose_square_is_not_below(value):
    got = root_up(value)
    assert Fraction(got) ** 2 >= value
    assert got == 0.0 or Fraction(math.nextafter(got, 0.0)) ** 2 < value


@given(value=numbers, other=numbers)
def test_a_difference_is_never_above_the_exact_difference(value, other):
    assert Fraction(difference_down(value, other)) <= Fraction(value) - Fraction(other)


def test_infinite_terms_stay_infinite():
    assert sum_up([1.0, math.inf]) == times_up(2, math.inf) == math.inf
    assert times_up(0, math.inf) == 0.0
    assert difference_down(math.inf, 1.0) == math.inf
    assert difference_down(1.0, math.inf) == difference_down(math.inf, math.inf) == -math.inf
    assert widen(0.0, 1e-15) > 0.0


@given(rate=st.floats(0.1, 1e3), delta=st.floats(1e-12, 0.99))
def test_the_least_epsilon_is_a_point_where_the_curve_was_seen_to_be_low(rate, delta):
    epsilon = least_epsilon(lambda e: math.exp(-rate * e), delta, 1e4)
    assert math.exp(-rate * epsilon) <= delta
    assert epsilon == pytest.approx(-math.log(delta) / rate, rel=1e-10)


def test_the_least_epsilon_survives_a_curve_with_steps():
    # A curve of upper bounds need not be smooth; the end must still be on the safe side.
    def steps(epsilon: float) -> float:
        return 0.9 if epsilon < 0.3 else 0.2 if epsilon < 1.7 else 0.0

    assert steps(least_epsilon(steps, 0.5, 2.0)) <= 0.5
    assert steps(least_epsilon(steps, 0.1, 2.0)) <= 0.1
    assert least_epsilon(steps, 0.1, 1.0) == 1.0  # already proved, so not questioned
    assert least_epsilon(steps, 0.95, 1.0) == 0.0
