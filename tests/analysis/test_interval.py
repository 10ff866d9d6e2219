"""The value Interval and its maps."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytensor.tensor as pt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pymc_private.analysis import Bounds, Ellipsoid
from pymc_private.analysis.intervals.functions import (
    COS,
    COSH,
    EXP,
    LARGEST_DOUBLE,
    ElementaryFunction,
    round_down,
    round_up,
)
from pymc_private.analysis.intervals.interval import corner_image

finite = st.floats(-1e6, 1e6)


@st.composite
def boxes(draw):
    a, b = draw(finite), draw(finite)
    return Bounds(np.array(min(a, b)), np.array(max(a, b)))


@st.composite
def inside(draw):
    box = draw(boxes())
    return box, draw(st.floats(float(box.lower), float(box.upper)))


def holds(box: Bounds, value: float) -> bool:
    return bool(box.lower <= value <= box.upper)


@given(inside(), inside())
def test_hull_holds_both_and_intersection_what_is_in_both(first, second):
    (a, x), (b, y) = first, second
    assert holds(a.hull(b), x)
    assert holds(a.hull(b), y)
    if holds(b, x):
        assert holds(a.intersect(b), x)


@given(inside(), inside())
def test_a_product_lies_between_the_extreme_corners(first, second):
    (a, x), (b, y) = first, second
    assert holds(a.times(b), x * y)
    assert holds(Bounds.point(np.array(x)).times(b), x * y)
    multiply = ElementaryFunction("multiply", np.multiply, lambda p, q: p * q, ulps=1.0)
    assert holds(corner_image(multiply, a, b), x * y)


EDGES = st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, -5e-324, 1e-200, -3e-170, 1e200, -1.7e308])
FACTORS = st.tuples(*[st.one_of(EDGES, st.floats(-3, 3))] * 2).map(sorted)


@given(FACTORS, FACTORS)
@example([1e-200, 3e-170], [1e-200, 2e-180])
@example([-1e-200, 3e-170], [1e-200, 2e-180])
def test_products_hold_their_corners_exactly(first, second):
    """By exact fractions: sums of errors, underflow of either sign, overflow."""
    with np.errstate(all="ignore"):  # as every walk does
        found = Bounds(*map(np.array, first)).times(Bounds(*map(np.array, second)))
    exact = [Fraction(a) * Fraction(b) for a in first for b in second]
    assert not np.isfinite(found.lower) or Fraction(float(found.lower)) <= min(exact)
    assert not np.isfinite(found.upper) or Fraction(float(found.upper)) >= max(exact)
    assert found.lower < np.inf
    assert found.upper > -np.inf
    same_sign = min(first) >= 0 and min(second) >= 0
    assert not same_sign or found.lower >= 0.0


@given(inside())
def test_maps_hold_the_image(pair):
    box, x = pair
    square = ElementaryFunction("square", np.square, pt.sqr, ulps=1.0)
    assert holds(box.valley(square, 0.0), x * x)
    assert holds(box.valley(square, 3.0) if box.lower >= 3 else box.valley(square, 0.0), x * x)
    assert box.magnitude() >= abs(x)
    cube = ElementaryFunction("cube", lambda v: v**3, lambda v: v**3, ulps=4.0)
    assert holds(box.increasing(cube), x**3)
    minus = ElementaryFunction("minus", lambda v: -v, lambda v: -v)
    assert holds(box.decreasing(minus), -x)


def test_the_valley_is_found_when_it_lies_inside():
    box = Bounds(np.array([-2.0, 1.0, -3.0]), np.array([1.0, 2.0, -1.0]))
    image = box.valley(COSH, 0.0)
    np.testing.assert_allclose(image.lower, np.cosh([0.0, 1.0, 1.0]))
    np.testing.assert_allclose(image.upper, np.cosh([2.0, 2.0, 3.0]))


def test_everything_is_no_point():
    """One shared array of NaN would be folded as if it were an exact value."""
    top = Bounds.everything((2,))
    assert not top.is_point
    assert not top.is_finite
    assert top.shape == (2,)


def test_what_is_a_point():
    value = np.array([1.0, 2.0])
    assert Bounds.point(value).is_point
    assert not Bounds(value, value.copy()).is_point
    assert Bounds.point(slice(0, 2)).is_point
    assert Bounds.point(None).is_point
    assert Bounds.point(3).lower.shape == ()


def test_as_float_keeps_points_knowledge_and_infinite_values():
    rows = Ellipsoid(np.zeros(2), np.ones(2), 1.0)
    whole = Bounds.point(np.array([1, 2])).as_float()
    assert whole.is_point
    assert whole.lower.dtype == float
    narrow = Bounds(np.zeros(2, "float32"), np.ones(2, "float32"), rows, poles=True).as_float()
    assert narrow.within is rows
    assert narrow.poles
    assert narrow.forget().within is None
    already = Bounds(np.zeros(2), np.ones(2))
    assert already.as_float() is already
    assert Bounds(np.array(False), np.array(True)).as_float().upper == 1.0


def test_as_float_of_symbolic_ends_is_symbolic_and_double():
    flag = pt.vector("flag", dtype="bool")
    ends = Bounds(flag, flag).as_float()
    assert ends.is_symbolic
    assert ends.is_point
    assert ends.lower.type.dtype == "float64"


@given(st.integers(-(2**63), 2**63 - 1))
def test_integers_stay_inside_their_doubles(value):
    box = Bounds.point(np.array([value])).as_float()
    assert int(box.lower[0]) <= value <= int(box.upper[0])
    assert box.is_point == (abs(value) <= 2**53) or abs(value) == 2**53


def test_where_is_everything_elsewhere():
    box = Bounds(np.zeros(2), np.ones(2)).where(np.array([True, False]))
    np.testing.assert_array_equal(np.isnan(box.lower), [False, True])
    np.testing.assert_array_equal(np.isnan(box.upper), [False, True])


@given(st.floats(allow_nan=False), st.just(0.0) | st.floats(1, 1000))
def test_rounding_moves_outward_and_overflow_comes_back(value, ulps):
    with np.errstate(all="ignore"):
        low, high = round_down(np.float64(value), ulps), round_up(np.float64(value), ulps)
    assert low <= value <= high
    assert low <= LARGEST_DOUBLE  # a lower end never claims to be above every double
    assert high >= -LARGEST_DOUBLE
    if np.isfinite(value):
        assert low < value < high or ulps == 0


def test_nan_stays_nan():
    nan = np.array(np.nan)
    for end in (round_down(nan), round_up(nan), EXP.down(nan), COS.up(nan)):
        assert np.isnan(end)


@pytest.mark.parametrize("function", [EXP, COSH])
def test_functions_are_clamped_to_their_range(function):
    assert function.down(np.array(-800.0 if function is EXP else 0.0)) >= function.low
