"""Interval rules of comparisons, switches and casts, and the clamp of arbitrary values.

Comparisons are three-valued: certainly true, certainly false, unknown. A Boolean interval is
(certain, possible). With NaN bounds nothing is certain and all is possible, so "possible" is
always written as the negation of "certainly not".

`clamp` confines a number between two others, whatever it was, even NaN, which PyTensor's clip
passes on. As a function of everything its interval is never wider than its two limits, even
for an Op that has no rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Apply, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import Elemwise

from pymc_private.analysis.intervals.dispatch import bound_op, bound_scalar_op
from pymc_private.analysis.intervals.functions import array_namespace, elementwise_equal
from pymc_private.analysis.intervals.interval import Bounds


@bound_scalar_op.register(ps.LT)
def _less(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """Certain if upper(x) < lower(y); impossible if lower(x) >= upper(y)."""
    return Bounds(x.upper < y.lower, ~(x.lower >= y.upper))


@bound_scalar_op.register(ps.LE)
def _less_equal(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """Certain if upper(x) <= lower(y); impossible if lower(x) > upper(y)."""
    return Bounds(x.upper <= y.lower, ~(x.lower > y.upper))


@bound_scalar_op.register(ps.GT)
def _greater(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """x > y is y < x."""
    return _less(op, y, x)


@bound_scalar_op.register(ps.GE)
def _greater_equal(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """x >= y is y <= x."""
    return _less_equal(op, y, x)


@bound_scalar_op.register(ps.EQ)
def _equal(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """Certain for two equal points; impossible for disjoint intervals."""
    certain = (
        elementwise_equal(x.lower, x.upper)
        & elementwise_equal(y.lower, y.upper)
        & elementwise_equal(x.lower, y.lower)
    )
    return Bounds(certain, ~((x.upper < y.lower) | (y.upper < x.lower)))


@bound_scalar_op.register(ps.NEQ)
def _not_equal(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """Not EQ."""
    return _invert(op, _equal(op, x, y))


@bound_scalar_op.register(ps.Invert)
def _invert(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """Not: certain where x is impossible."""
    return Bounds(~x.upper, ~x.lower)


@bound_scalar_op.register(ps.AND)
def _and(op: ps.ScalarOp, *terms: Bounds) -> Bounds:
    """Monotone in each argument."""
    certain, possible = terms[0].lower, terms[0].upper
    for term in terms[1:]:
        certain, possible = certain & term.lower, possible & term.upper
    return Bounds(certain, possible)


@bound_scalar_op.register(ps.OR)
def _or(op: ps.ScalarOp, *terms: Bounds) -> Bounds:
    """Monotone in each argument."""
    certain, possible = terms[0].lower, terms[0].upper
    for term in terms[1:]:
        certain, possible = certain | term.lower, possible | term.upper
    return Bounds(certain, possible)


@bound_scalar_op.register(ps.IsNan)
def _is_nan(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """Only the top element may be NaN."""
    xp = array_namespace(x.lower, x.upper)
    possible = xp.isnan(x.lower) | xp.isnan(x.upper)
    return Bounds(possible & ~possible, possible)


@bound_scalar_op.register(ps.IsInf)
def _is_inf(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """Possible unless both bounds are finite; certain for two equal infinite bounds."""
    xp = array_namespace(x.lower, x.upper)
    unbounded = xp.isinf(x.lower) | xp.isinf(x.upper) | xp.isnan(x.lower) | xp.isnan(x.upper)
    exact = elementwise_equal(x.lower, x.upper) & xp.isinf(x.lower)
    return Bounds(exact, unbounded)


@bound_scalar_op.register(ps.Switch)
def _switch(op: ps.ScalarOp, condition: Bounds, x: Bounds, y: Bounds) -> Bounds:
    """The branch that a decided condition takes, else the hull; NaN in the other does no harm."""
    xp = array_namespace(*(b for i in (condition, x, y) for b in (i.lower, i.upper)))
    either, holds = x.hull(y), truth_value(condition)
    lower = xp.where(holds.lower, x.lower, xp.where(holds.upper, either.lower, y.lower))
    upper = xp.where(holds.lower, x.upper, xp.where(holds.upper, either.upper, y.upper))
    return Bounds(lower, upper)


def truth_value(x: Bounds) -> Bounds:
    """The truth of a number: certain if zero lies outside its bounds, impossible if it is zero."""
    if all(getattr(b, "dtype", bool) in (bool, "bool") for b in (x.lower, x.upper)):
        return x
    certain = (x.lower > 0) | (x.upper < 0)
    return Bounds(certain, ~(elementwise_equal(x.lower, 0) & elementwise_equal(x.upper, 0)))


@bound_scalar_op.register(ps.Cast)
def _cast(op: ps.Cast, x: Bounds) -> Bounds:
    """Rounding to a float and truncation to an integer are non-decreasing."""
    target = np.dtype(op.o_type.dtype)
    if target.kind == "b":
        return truth_value(x)
    if target.kind == "f":
        return x if x.is_symbolic or target == np.float64 else _round_to_short_float(x, target)
    xp = array_namespace(x.lower, x.upper)
    # What does not fit wraps around; beyond 2**53 doubles do not tell integers apart.
    fits = (abs(x.lower) < 2.0**53) & (abs(x.upper) < 2.0**53)
    return Bounds(xp.trunc(x.lower), xp.trunc(x.upper)).where(fits)


def _round_to_short_float(x: Bounds, target: np.dtype) -> Bounds:
    """Bounds of the number and of its rounding to a shorter float."""
    low, high = (b.astype(target).astype(np.float64) for b in (x.lower, x.upper))
    return Bounds(np.minimum(x.lower, low), np.maximum(x.upper, high))


@bound_op.register(CheckAndRaise)
def _check(op: CheckAndRaise, node: Apply, value: Bounds, *conditions: Bounds) -> Bounds:
    """The value itself if every condition is proved; where one may fail PyMC raises: unknown.

    With symbolic bounds, conditions stay with the graph that was certified with numbers.
    """
    if value.is_symbolic or any(c.is_symbolic for c in conditions):
        return value
    proved = all(bool(np.all(truth_value(c).lower)) for c in conditions)
    return value if proved else Bounds.everything(value.shape)


class Clamp(ps.ScalarOp):
    """min(max(x, low), high), with NaN taken for low.

    For analysis and for Python: no back end is asked to compile it.
    """

    nin = 3

    def impl(self, x: Any, low: Any, high: Any) -> Any:
        """The value at one point."""
        floored = x if x >= low else low  # a NaN x is not above
        return min(floored, high)

    def c_code(self, *_: Any) -> str:
        """Not given: Python computes it."""
        raise NotImplementedError

    def pullback(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        cotangents: Sequence[Variable],
    ) -> list[Variable]:
        """One for the argument that is returned, zero for the others, almost everywhere."""
        (x, low, high), (given,) = inputs, cotangents
        above, below = ps.ge(x, low), ps.le(x, high)
        zero = given.zeros_like()
        return [
            ps.switch(ps.and_(above, below), given, zero),
            ps.switch(above, zero, given),
            ps.switch(below, zero, given),
        ]


if not hasattr(ps.ScalarOp, "pullback"):  # PyTensor 2
    Clamp.L_op = Clamp.pullback  # type: ignore[method-assign]

# Fingerprints of clipped models hash this name: under another one, stored releases are not found.
clamp_scalar = Clamp(ps.upgrade_to_float, name="confine")
clamp = Elemwise(clamp_scalar)


def is_clamp(node: Apply | None) -> bool:
    """Whether a node is a `clamp`."""
    return isinstance(getattr(getattr(node, "op", None), "scalar_op", None), Clamp)


@bound_scalar_op.register(Clamp)
def _clamp(op: ps.ScalarOp, x: Bounds, low: Bounds, high: Bounds) -> Bounds:
    """Non-decreasing in each argument and exact; [min(low, high), high] if x may be anything."""
    xp = array_namespace(x.lower, x.upper, low.lower, high.lower)
    known = ~(xp.isnan(x.lower) | xp.isnan(x.upper))
    least = xp.where(known, xp.maximum(x.lower, low.lower), low.lower)
    most = xp.where(known, xp.minimum(xp.maximum(x.upper, low.upper), high.upper), high.upper)
    return Bounds(xp.minimum(least, high.lower), most)
