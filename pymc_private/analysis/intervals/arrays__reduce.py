"""Sums, products, extremes and quantifiers over axes."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from pytensor.graph.basic import Apply
from pytensor.tensor.elemwise import CAReduce
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import All, Any, Max, Min, Prod, Sum
from pymc_private.analysis.intervals.interval import Interval, SimplexRows
from pymc_private.analysis.intervals.dispatch import Answer, apply, bound
from pymc_private.analysis.intervals.functions import Array, TINY, UNIT, down, library, up

def sum_down(terms: Array, axis: tuple[int, ...] | None) -> Array:
    """A lower bound: n terms in any order err by at most n u sum|x| (Higham 2002, 4.2)."""
    total, slack = _sum_and_slack(terms, axis)
    return down(total - slack)


def sum_up(terms: Array, axis: tuple[int, ...] | None) -> Array:
    """An upper bound of the sum."""
    total, slack = _sum_and_slack(terms, axis)
    return up(total + slack)


def _sum_and_slack(terms: Array, axis: tuple[int, ...] | None) -> tuple[Array, Array]:
    xp = library(terms)
    total = terms.sum(axis=axis)
    if xp is np and _exact(terms):
        return total, np.zeros_like(total)
    count = terms.size / max(np.size(total), 1) if xp is np else terms.size / total.size
    # The factor 2 pays for the rounding of sum|x| itself and for higher orders of n u.
    slack = abs(terms).sum(axis=axis) * (2.0 * count * UNIT) + TINY * count
    # An infinite term makes an exact infinity; without one, the sum may have overflowed on the way.
    return total, xp.where(xp.isinf(terms).any(axis=axis), 0.0, slack)


def _exact(terms: np.ndarray) -> bool:
    """Integers below 2**53 in absolute sum are added without error."""
    whole = np.all(terms == np.floor(terms)) and np.all(np.isfinite(terms))
    return bool(whole) and float(np.abs(terms).sum()) < 2.0**52


@bound.register(Sum)
def _sum(op: Sum, node: Apply, x: Interval) -> Interval:
    """Sums of ends, with the summation error; a row of a simplex has its total."""
    axis = op.axis
    last = node.inputs[0].type.ndim - 1
    axes = tuple(range(last + 1)) if axis is None else tuple(axis)
    if isinstance(x.within, SimplexRows) and axes == (last,):
        sums = x.lower.sum(axis=axis) * 0.0 + x.within.total
        if node.outputs[0].type.dtype.startswith("int"):
            return Interval(sums, sums)
        slack = x.within.slack + 4 * UNIT * x.within.total
        return Interval(sums - slack, sums + slack)
    number = x.as_float()
    if not x.is_symbolic and _exact(number.lower) and _exact(number.upper):
        return Interval(number.lower.sum(axis=axis), number.upper.sum(axis=axis))
    return Interval(sum_down(number.lower, axis), sum_up(number.upper, axis))


@bound.register(Prod)
def _prod(op: Prod, node: Apply, x: Interval) -> Answer:
    """The product, one factor after the other along the axis."""
    if x.is_symbolic:
        return Interval.everything()
    number = x.as_float()
    axes = range(len(x.shape)) if op.axis is None else op.axis
    lower = np.moveaxis(number.lower, tuple(axes), range(len(axes)))
    upper = np.moveaxis(number.upper, tuple(axes), range(len(axes)))
    rest = lower.shape[len(axes) :]
    lower, upper = lower.reshape(-1, *rest), upper.reshape(-1, *rest)
    product = Interval.point(np.ones(rest))
    for low, high in zip(lower, upper, strict=True):
        product = product.times(Interval(low, high))
    return product


EXTREMES: dict[type, Callable[..., np.ndarray]] = {
    Max: np.max,
    Min: np.min,
    All: np.all,
    Any: np.any,
}


def _order(op: CAReduce, node: Apply, x: Interval) -> Interval:
    """Extremes and quantifiers are non-decreasing in each element, and exact."""
    if x.is_symbolic:
        return Interval(apply(node, [x.lower])[0], apply(node, [x.upper])[0])
    # Not the Op itself: it would cast double ends of integers, NaN among them.
    face, axis = EXTREMES[type(op)], None if op.axis is None else tuple(op.axis)
    return Interval(np.asarray(face(x.lower, axis=axis)), np.asarray(face(x.upper, axis=axis)))


for _op in EXTREMES:
    bound.register(_op, _order)


@bound.register(CumOp)
def _cumulative(op: CumOp, node: Apply, x: Interval) -> Answer:
    """Cumulative sums: as Sum, for each prefix."""
    if x.is_symbolic or op.mode != "add":
        return Interval.everything(x.shape if not x.is_symbolic else ())
    number, axis = x.as_float(), op.axis
    if axis is None:
        return Interval.everything((int(np.prod(x.shape)),))
    count = float(x.shape[axis])

    def ends(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slack = np.cumsum(abs(terms), axis=axis) * (2.0 * count * UNIT) + TINY * count
        return np.cumsum(terms, axis=axis), slack

    (low, low_slack), (high, high_slack) = ends(number.lower), ends(number.upper)
    return Interval(down(low - low_slack), up(high + high_slack))
