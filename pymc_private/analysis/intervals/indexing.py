"""Indexing, by exact indexes and by intervals of indexes."""

from __future__ import annotations

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor import subtensor as ts

from pymc_private.analysis.interval import Interval
from pymc_private.analysis.intervals.dispatch import Answer, apply, bound
from pymc_private.analysis.rounding import down, up


def _exact_index(index: Interval) -> bool:
    """Whether the index is known: an exact array, or equal integer ends."""
    if index.is_point:
        return True
    return not index.is_symbolic and bool(np.array_equal(index.lower, index.upper))


def _as_index(index: Interval) -> object:
    """Integer ends again: numeric rules carry integers as doubles."""
    end = index.lower
    if isinstance(end, np.ndarray) and end.dtype == np.float64:
        return end.astype(np.int64)
    return end


# PyTensor 3 folded the two special Ops of one index vector into the general ones.
TAKE = [
    getattr(ts, name)
    for name in ("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
    if hasattr(ts, name)
]
PUT = [
    getattr(ts, name)
    for name in ("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1")
    if hasattr(ts, name)
]


def _take(op: Op, node: Apply, x: Interval, *indexes: Interval) -> Answer:
    """x[i] for a known i; for an unknown i the hull over every entry it may name."""
    if not all(_exact_index(i) for i in indexes):
        return _take_any(node, x, indexes)
    index = [_as_index(i) for i in indexes]
    try:
        (lower,) = apply(node, [x.lower, *index])
        upper = lower if x.is_point else apply(node, [x.upper, *index])[0]
    except IndexError:  # a record of the domain would leave the array
        return Interval.everything(_taken_shape(node, x, indexes))
    return Interval(lower, upper)


def _take_any(node: Apply, x: Interval, indexes: tuple[Interval, ...]) -> Answer:
    """The hull of x[i] over all i between the ends (first axis, one index array)."""
    if x.is_symbolic or any(i.is_symbolic for i in indexes) or not _single_leading(node):
        return Interval.everything(_taken_shape(node, x, indexes))
    (index,) = indexes
    low, high = index.as_float().lower, index.as_float().upper
    size = x.shape[0]
    shape = (*np.shape(low), *x.shape[1:])
    if not (np.all(low >= 0) and np.all(high <= size - 1)):
        return Interval.everything(shape)
    lower, upper = np.full(shape, np.inf), np.full(shape, -np.inf)
    x = x.as_float()
    for entry in range(size):
        named = (low <= entry) & (entry <= high)
        mask = named.reshape(named.shape + (1,) * (len(x.shape) - 1))
        lower = np.where(mask, np.minimum(lower, x.lower[entry]), lower)
        upper = np.where(mask, np.maximum(upper, x.upper[entry]), upper)
    return Interval(lower, upper)


def _single_leading(node: Apply) -> bool:
    """Whether the node is x[i] with one index array on the first axis."""
    places = getattr(node.op, "idx_list", None)
    if isinstance(node.op, ts.Subtensor) or (places is not None and len(places) != 1):
        return False
    rank = node.outputs[0].type.ndim - node.inputs[0].type.ndim + 1
    return len(node.inputs) == 2 and getattr(node.inputs[1].type, "ndim", -1) == rank


def _taken_shape(node: Apply, x: Interval, indexes: tuple[Interval, ...]) -> tuple[int, ...]:
    if x.is_symbolic or any(i.is_symbolic for i in indexes):
        return ()
    zeros = [np.zeros(np.shape(i.lower), dtype=np.int64) for i in indexes]
    (taken,) = apply(node, [x.lower, *zeros])
    return np.shape(taken)


def _put(op: Op, node: Apply, x: Interval, y: Interval, *indexes: Interval) -> Answer:
    """x with y written to, or added at, known places."""
    if not all(_exact_index(i) for i in indexes) or x.is_symbolic or y.is_symbolic:
        return Interval.everything(x.shape if not x.is_symbolic else ())
    index = [_as_index(i) for i in indexes]
    x, y = x.as_float(), y.as_float()
    (lower,) = apply(node, [x.lower.copy(), y.lower, *index])
    (upper,) = apply(node, [x.upper.copy(), y.upper, *index])
    if getattr(op, "set_instead_of_inc", False):
        return Interval(lower, upper)
    # Repeated indexes add up to y.size terms into one cell.
    ulps = 2.0 * max(np.size(y.lower), 1)
    reach = 4.0 * max(np.size(y.lower), 1) * np.finfo(float).eps
    slack = reach * max(np.max(y.magnitude(), initial=0.0), np.max(x.magnitude(), initial=0.0))
    return Interval(down(lower, ulps) - slack * ulps, up(upper, ulps) + slack * ulps)


for _op in TAKE:
    bound.register(_op, _take)
for _op in PUT:
    bound.register(_op, _put)
