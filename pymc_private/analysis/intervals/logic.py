"""Comparisons and choices in three values: certainly true, certainly false, unknown.

A Boolean interval is (certain, possible). With NaN ends nothing is certain and all is possible, so
"possible" is always written as the negation of "certainly not".
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Apply
from pytensor.raise_op import CheckAndRaise
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.dispatch import bound, bound_scalar
from pymc_private.analysis.intervals.functions import equal, library

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
    either, holds = x.hull(y), truth(condition)
    lower = xp.where(holds.lower, x.lower, xp.where(holds.upper, either.lower, y.lower))
    upper = xp.where(holds.lower, x.upper, xp.where(holds.upper, either.upper, y.upper))
    return Interval(lower, upper)


def truth(x: Interval) -> Interval:
    """Whether a number is true: certain if zero is outside, impossible if x is zero."""
    if all(getattr(end, "dtype", bool) in (bool, "bool") for end in (x.lower, x.upper)):
        return x
    certain = (x.lower > 0) | (x.upper < 0)
    return Interval(certain, ~(equal(x.lower, 0) & equal(x.upper, 0)))


@bound_scalar.register(ps.Cast)
def _cast(op: ps.Cast, x: Interval) -> Interval:
    """Rounding to a float and truncation to an integer are non-decreasing."""
    target = np.dtype(op.o_type.dtype)
    if target.kind == "b":
        return truth(x)
    if target.kind == "f":
        return x if x.is_symbolic or target == np.float64 else _narrow(x, target)
    xp = library(x.lower, x.upper)
    # What does not fit wraps around; beyond 2**53 doubles do not tell integers apart.
    fits = (abs(x.lower) < 2.0**53) & (abs(x.upper) < 2.0**53)
    return Interval(xp.trunc(x.lower), xp.trunc(x.upper)).where(fits)


def _narrow(x: Interval, target: np.dtype) -> Interval:
    """Holds the number and its rounding to a shorter float."""
    low, high = (end.astype(target).astype(np.float64) for end in (x.lower, x.upper))
    return Interval(np.minimum(x.lower, low), np.maximum(x.upper, high))


@bound.register(CheckAndRaise)
def _check(op: CheckAndRaise, node: Apply, value: Interval, *conditions: Interval) -> Interval:
    """The value itself if every condition is proved; where one may fail PyMC raises: unknown.

    In mode B (symbolic ends) conditions stay with the graph that was certified with numbers.
    """
    if value.is_symbolic or any(c.is_symbolic for c in conditions):
        return value
    proved = all(bool(np.all(truth(c).lower)) for c in conditions)
    return value if proved else Interval.everything(value.shape)
