"""Indexing, by exact indexes and by intervals of indexes."""

from __future__ import annotations

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor import subtensor as ts
from pymc_private.analysis.intervals.interval import Interval, SimplexRows
from pymc_private.analysis.intervals.dispatch import Answer, apply, bound, exact, is_exact
from pymc_private.analysis.intervals.functions import TINY, UNIT, down, up

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
    if not all(is_exact(i) for i in indexes):
        return _take_any(node, x, indexes)
    index = [exact(i, v) for i, v in zip(indexes, node.inputs[1:], strict=True)]
    try:
        (lower,) = apply(node, [x.lower, *index])
        upper = lower if x.is_point else apply(node, [x.upper, *index])[0]
    except IndexError:  # a record of the domain would leave the array
        return _somewhere(node, x, indexes)
    return Interval(lower, upper, _rows_of(node, x))


def _rows_of(node: Apply, x: Interval) -> SimplexRows | None:
    """What is known of rows along the last axis, where whole rows are taken."""
    whole = _single_leading(node) and node.inputs[0].type.ndim > 1
    return x.within if whole and isinstance(x.within, SimplexRows) else None


def _take_any(node: Apply, x: Interval, indexes: tuple[Interval, ...]) -> Interval:
    """The hull of x[i] over all i between the ends (first axis, one index array)."""
    if x.is_symbolic or any(i.is_symbolic for i in indexes):
        return _somewhere(node, x, indexes)
    if not _single_leading(node):
        return _take_filled(node, x, indexes)
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
    return Interval(lower, upper, _rows_of(node, x))


def _take_filled(node: Apply, x: Interval, indexes: tuple[Interval, ...]) -> Interval:
    """The hull over every number that one array of positions may hold, put in all its places."""
    pairs = list(zip(indexes, node.inputs[1:], strict=True))
    unknown = [k for k, (i, _) in enumerate(pairs) if not is_exact(i)]
    if len(unknown) != 1 or not _is_positions(node.inputs[1 + unknown[0]]):
        return _somewhere(node, x, indexes)
    (place,) = unknown
    low, high = np.asarray(indexes[place].lower), np.asarray(indexes[place].upper)
    inside = bool(np.isfinite(low).all() and np.isfinite(high).all() and np.min(low) >= 0)
    if not inside or np.max(high) - np.min(low) >= x.lower.size:
        return _somewhere(node, x, indexes)
    hull = None
    for entry in range(int(np.min(low)), int(np.max(high)) + 1):
        known = [
            np.full(np.shape(low), entry) if k == place else exact(i, v)
            for k, (i, v) in enumerate(pairs)
        ]
        try:
            ends = [apply(node, [end, *known])[0] for end in (x.lower, x.upper)]
        except IndexError:
            return _somewhere(node, x, indexes)
        taken = Interval(*ends).as_float()
        hull = taken if hull is None else hull.hull(taken)
    return hull if hull is not None else _somewhere(node, x, indexes)


def _single_leading(node: Apply) -> bool:
    """Whether the node is x[i] with one array of positions on the first axis."""
    places = getattr(node.op, "idx_list", None)
    if isinstance(node.op, ts.Subtensor) or (places is not None and len(places) != 1):
        return False
    rank = node.outputs[0].type.ndim - node.inputs[0].type.ndim + 1
    return len(node.inputs) == 2 and _is_positions(node.inputs[1]) and rank == node.inputs[1].ndim


def _is_positions(variable: Variable) -> bool:
    """Whether an index is an array of positions; a mask or a bound of a slice chooses a length."""
    dtype, ndim = getattr(variable.type, "dtype", ""), getattr(variable.type, "ndim", 0)
    return ndim > 0 and str(dtype).startswith(("int", "uint"))


def _somewhere(node: Apply, x: Interval, indexes: tuple[Interval, ...]) -> Interval:
    """Everything, in the shape that the known indexes and the shapes of the others give."""
    pairs = list(zip(node.inputs[1:], indexes, strict=True))
    unknown = any(not is_exact(i) and not _is_positions(v) for v, i in pairs)
    if unknown or x.is_symbolic or any(i.is_symbolic for _, i in pairs):
        return Interval.everything()
    try:
        index = [np.zeros(i.shape, int) if _is_positions(v) else exact(i, v) for v, i in pairs]
        return Interval.everything(np.shape(apply(node, [x.lower, *index])[0]))
    except IndexError:
        return Interval.everything()


def _put(op: Op, node: Apply, x: Interval, y: Interval, *indexes: Interval) -> Answer:
    """x with y written to, or added at, known places."""
    if x.is_symbolic or y.is_symbolic:
        return Interval.everything()
    if not all(is_exact(i) for i in indexes):
        return Interval.everything(x.shape)
    index = [exact(i, v) for i, v in zip(indexes, node.inputs[2:], strict=True)]
    x, y = x.as_float(), y.as_float()
    (lower,) = apply(node, [x.lower.copy(), y.lower, *index])
    (upper,) = apply(node, [x.upper.copy(), y.upper, *index])
    if getattr(op, "set_instead_of_inc", False):
        return Interval(lower, upper)
    # Repeated indexes add several terms into one cell: Higham's bound with their number in each.
    (terms,) = apply(node, [np.zeros(x.shape), np.ones(y.shape), *index])
    (total,) = apply(node, [x.magnitude(), y.magnitude(), *index])
    slack = (terms + 1.0) * (2.0 * UNIT * total + TINY)
    return Interval(down(lower - slack), up(upper + slack))


for _op in TAKE:
    bound.register(_op, _take)
for _op in PUT:
    bound.register(_op, _put)
