"""Comparisons and choices in three values: certainly true, certainly false, unknown.

A Boolean interval is (certain, possible). With NaN ends nothing is certain and all is possible, so
"possible" is always written as the negation of "certainly not".
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise

from pymc_private.analysis.interval import Interval
from pymc_private.analysis.intervals.dispatch import bound, bound_scalar
from pymc_private.analysis.rounding import Array, equal, library


@bound_scalar.register(ps.LT)
def _less(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """Certain if upper(x) < lower(y); impossible if lower(x) >= upper(y)."""
    return Interval(x.upper < y.lower, ~(x.lower >= y.upper))


@bound_scalar.register(ps.LE)
def _less_equal(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """Certain if upper(x) <= lower(y); impossible if lower(x) > upper(y)."""
    return Interval(x.upper <= y.lower, ~(x.lower > y.upper))


@bound_scalar.register(ps.GT)
def _greater(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """x > y is y < x."""
    return _less(op, y, x)


@bound_scalar.register(ps.GE)
def _greater_equal(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """x >= y is y <= x."""
    return _less_equal(op, y, x)


@bound_scalar.register(ps.EQ)
def _equal(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """Certain for two equal points; impossible for disjoint intervals."""
    certain = equal(x.lower, x.upper) & equal(y.lower, y.upper) & equal(x.lower, y.lower)
    return Interval(certain, ~((x.upper < y.lower) | (y.upper < x.lower)))


@bound_scalar.register(ps.NEQ)
def _not_equal(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """Not EQ."""
    return _invert(op, _equal(op, x, y))


@bound_scalar.register(ps.Invert)
def _invert(op: ps.ScalarOp, x: Interval) -> Interval:
    """Not: certain where x is impossible."""
    return Interval(~x.upper, ~x.lower)


@bound_scalar.register(ps.AND)
def _and(op: ps.ScalarOp, *terms: Interval) -> Interval:
    """Monotone in each argument."""
    certain, possible = terms[0].lower, terms[0].upper
    for term in terms[1:]:
        certain, possible = certain & term.lower, possible & term.upper
    return Interval(certain, possible)


@bound_scalar.register(ps.OR)
def _or(op: ps.ScalarOp, *terms: Interval) -> Interval:
    """Monotone in each argument."""
    certain, possible = terms[0].lower, terms[0].upper
    for term in terms[1:]:
        certain, possible = certain | term.lower, possible | term.upper
    return Interval(certain, possible)


@bound_scalar.register(ps.IsNan)
def _is_nan(op: ps.ScalarOp, x: Interval) -> Interval:
    """Only the top element may be NaN."""
    xp = library(x.lower, x.upper)
    possible = xp.isnan(x.lower) | xp.isnan(x.upper)
    return Interval(possible & ~possible, possible)


@bound_scalar.register(ps.IsInf)
def _is_inf(op: ps.ScalarOp, x: Interval) -> Interval:
    """Possible unless both ends are finite; certain for two equal infinite ends."""
    xp = library(x.lower, x.upper)
    unbounded = xp.isinf(x.lower) | xp.isinf(x.upper) | xp.isnan(x.lower) | xp.isnan(x.upper)
    exact = equal(x.lower, x.upper) & xp.isinf(x.lower)
    return Interval(exact, unbounded)


@bound_scalar.register(ps.Switch)
def _switch(op: ps.ScalarOp, condition: Interval, x: Interval, y: Interval) -> Interval:
    """The branch a decided condition takes, else the hull; a poisoned dead branch does no harm."""
    xp = library(*(end for i in (condition, x, y) for end in (i.lower, i.upper)))
    certain, possible = _truth(condition.lower), _truth(condition.upper)
    either = x.hull(y)
    lower = xp.where(certain, x.lower, xp.where(possible, either.lower, y.lower))
    upper = xp.where(certain, x.upper, xp.where(possible, either.upper, y.upper))
    return Interval(lower, upper)


def _truth(end: Array) -> Array:
    """Conditions arrive as Booleans, or as 0/1 numbers where PyMC switches on the data itself."""
    if getattr(end, "dtype", bool) in (bool, "bool"):
        return end
    return ~equal(end, 0)


@bound_scalar.register(ps.Cast)
def _cast(op: ps.Cast, x: Interval) -> Interval:
    """Exact between Booleans, integers and doubles in range; truncation is non-decreasing."""
    target = op.o_type.dtype
    if x.is_symbolic or target == "float64":
        return x if x.is_symbolic else x.as_float()
    if target == "float32":
        lower, upper = x.lower.astype(np.float32), x.upper.astype(np.float32)
        return Interval(
            np.nextafter(lower, np.float32(-np.inf)).astype(np.float64),
            np.nextafter(upper, np.float32(np.inf)).astype(np.float64),
        )
    if target == "bool":
        may_be_zero = ~((x.lower > 0) | (x.upper < 0))
        return Interval(~may_be_zero, ~((x.lower == 0) & (x.upper == 0)))
    whole = x.as_float()
    fits = (abs(whole.lower) < 2.0**53) & (abs(whole.upper) < 2.0**53)
    return Interval(np.trunc(whole.lower), np.trunc(whole.upper)).where(fits)


@bound.register(CheckAndRaise)
def _check(op: CheckAndRaise, node: Apply, value: Interval, *conditions: Interval) -> Interval:
    """The value itself if every condition is proved; where one may fail PyMC raises: unknown.

    In mode B (symbolic ends) conditions stay with the graph that was certified with numbers.
    """
    if value.is_symbolic or any(c.is_symbolic for c in conditions):
        return value
    proved = all(bool(np.all(_truth(c.lower))) for c in conditions)
    return value if proved else Interval.everything(value.shape)
