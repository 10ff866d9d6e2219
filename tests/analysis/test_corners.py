"""Corner cases that random boxes would meet too rarely: infinities, NaN, integers, identity."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_private.analysis import Bounds, propagate_bounds


def test_infinite_values_that_meet_are_no_number():
    x, y = pt.vector("x"), pt.vector("y")
    box = Bounds(np.array([0.0]), np.array([1.0]))
    for out in (pt.log(x) - pt.log(y), pt.log(x) * y, pt.log(x) / pt.log(y)):
        fact = propagate_bounds([pt.clip(out, -1, 1)], {x: box, y: box})
        assert np.isnan(fact[fact_output(fact)].lower).all()


def fact_output(trail):
    return list(trail.facts)[-1]


def test_infinite_limits_that_meet_are_numbers():
    """Unbounded parameters are never infinite: their sigmoid lies in [0, 1]."""
    x, y = pt.vector("x"), pt.vector("y")
    line = Bounds(np.array([-np.inf]), np.array([np.inf]))
    out = pt.sigmoid(x + y)
    fact = propagate_bounds([out], {x: line, y: line})[out]
    assert (fact.lower, fact.upper) == (0.0, 1.0)


def test_a_nan_that_may_be_is_seen_by_isnan():
    x, y = pt.vector("x"), pt.vector("y")
    box = Bounds(np.array([0.0]), np.array([1.0]))
    out = pt.switch(pt.isnan(pt.log(x) - pt.log(y)), 7.0, 0.0)
    fact = propagate_bounds([out], {x: box, y: box})[out]
    assert (fact.lower, fact.upper) == (0.0, 7.0)


@pytest.mark.parametrize("value", [2**53 + 1, 2**62 + 1, -(2**53) - 1, 2**63 - 1])
def test_integers_that_no_double_holds_are_rounded_outward(value):
    x = pt.lvector("x")
    out = x * 1.0
    fact = propagate_bounds([out], {x: Bounds.point(np.array([value]))})[out]
    assert int(fact.lower[0]) <= value <= int(fact.upper[0])
    assert fact.lower[0] < fact.upper[0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
@pytest.mark.parametrize(
    "function",
    [lambda x: x + x, lambda x: x * x, lambda x: pt.sqr(x) * x, abs, pt.sqr, lambda x: -x],
)
def test_integers_that_wrap_around_are_not_bounded_by_what_they_would_be(dtype, function):
    x = pt.vector("x", dtype=dtype)
    info = np.iinfo(dtype)
    values = np.array([info.min, info.max, 0, 1], dtype)
    out = function(x)
    with np.errstate(all="ignore"):
        found = out.eval({x: values})
    fact = propagate_bounds([out], {x: Bounds.point(values)})[out]
    inside = (fact.lower <= found) & (found <= fact.upper)
    assert np.all(inside | np.isnan(fact.lower))
    assert not np.isnan(fact.lower[2:]).any() or dtype == "uint8"  # small ones are known


def test_whole_results_of_inexact_steps_are_whole():
    n = pt.lvector("n")
    fact = propagate_bounds([n * 3 + 2], {n: Bounds.point(np.array([5, 7]))})
    out = list(fact.facts)[-1]
    np.testing.assert_array_equal(fact[out].lower, [17, 23])
    np.testing.assert_array_equal(fact[out].upper, [17, 23])


def test_clip_with_crossed_ends_holds_both_answers():
    x = pt.vector("x")
    out = pt.clip(x, 6.0, 3.0)
    fact = propagate_bounds([out], {x: Bounds(np.array([0.0]), np.array([9.0]))})[out]
    assert fact.lower <= 3.0
    assert fact.upper >= 6.0


def test_equal_ends_that_are_two_arrays_are_still_sound():
    """Identity of arrays is only a promise of exactness, never needed for soundness."""
    x = pt.vector("x")
    for out in (x * x, pt.eq(x, x), pt.exp(x), x**3.0, pt.switch(pt.eq(x, 0.1), 1.0, 2.0)):
        value = np.array([0.1, -0.0, 3.0])
        one = propagate_bounds([out], {x: Bounds.point(value)})[out]
        two = propagate_bounds([out], {x: Bounds(value, value.copy())})[out]
        assert np.all(two.lower <= one.lower)
        assert np.all(two.upper >= one.upper)


def test_a_result_that_was_rounded_is_never_certainly_equal():
    x = pt.vector("x")
    out = pt.eq(x / 3.0, 0.1)
    fact = propagate_bounds([out], {x: Bounds.point(np.array([0.3]))})[out]
    assert not fact.lower.any()


def test_float32_constants_are_read_exactly():
    x = pt.vector("x")
    out = x * pt.constant(np.float32(0.1))
    fact = propagate_bounds([out], {x: Bounds.point(np.array([1.0]))})[out]
    assert fact.lower <= float(np.float32(0.1)) <= fact.upper
    assert not fact.lower <= 0.1 <= fact.upper


def test_unknown_scalar_ops_of_points_are_folded_and_of_boxes_are_top():
    x = pt.vector("x")
    out = pt.mod(x, 3.0)
    box = Bounds(np.array([4.0, 5.0]), np.array([4.5, 5.5]))
    assert np.isnan(propagate_bounds([out], {x: box})[out].lower).all()
    point = propagate_bounds([out], {x: Bounds.point(np.array([4.0, 5.0]))})[out]
    np.testing.assert_array_equal(point.lower, [1.0, 2.0])
