"""Interval rules of Ops that move, index and reduce the elements of arrays.

Ops that move elements without computing act on each bound as on the values. Indexing takes
exact indexes or intervals of indexes, for which the hull of every entry that may be named is
taken. Sums carry the error of floating-point summation (Higham 2002, 4.2); extremes and
quantifiers are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor import subtensor as ts
from pytensor.tensor.basic import (
    Alloc,
    ARange,
    ExtractDiag,
    Eye,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import CAReduce, DimShuffle
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import All, Max, Min, Prod, Sum
from pytensor.tensor.math import Any as AnyOp
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from pymc_private.analysis.intervals.dispatch import (
    OpBounds,
    apply_node,
    bound_op,
    exact_value,
    is_exact,
)
from pymc_private.analysis.intervals.functions import (
    TINY,
    UNIT,
    Array,
    array_namespace,
    round_down,
    round_up,
)
from pymc_private.analysis.intervals.interval import Bounds, SimplexRows

# ---- layout ----------------------------------------------------------------------------------

LAYOUT_OPS = (
    Alloc,
    ExtractDiag,
    Join,
    MakeVector,
    Repeat,
    Reshape,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
"""Ops each of whose output elements is one input element."""


def layout_inputs(op: Op, count: int) -> tuple[int, ...]:
    """Which inputs say where to move (axes, shapes, repeats) rather than what."""
    if isinstance(op, Join):
        return () if hasattr(op, "axis") else (0,)
    return tuple(range(1, count)) if isinstance(op, Alloc | Reshape | Repeat | Split) else ()


def _move(op: Op, node: Apply, *inputs: Bounds) -> OpBounds:
    """Each output element is one input element; so are its lower and its upper bound."""
    layout = layout_inputs(op, len(inputs))
    if not all(is_exact(inputs[k]) for k in layout):
        return [Bounds.everything() for _ in node.outputs]
    where = {k: exact_value(inputs[k], node.inputs[k]) for k in layout}
    evaluate = _concatenate if isinstance(op, Join) else apply_node
    lower = evaluate(node, [where.get(k, i.lower) for k, i in enumerate(inputs)])
    if all(i.is_point for i in inputs):
        return [Bounds(value, value) for value in lower]
    upper = evaluate(node, [where.get(k, i.upper) for k, i in enumerate(inputs)])
    return [Bounds(low, high) for low, high in zip(lower, upper, strict=True)]


def _concatenate(node: Apply, values: list[Any]) -> list[Any]:
    """Concatenation, without the Op's own cast of doubles to the node's integers."""
    if any(isinstance(value, Variable) for value in values):
        return apply_node(node, values)
    axis, parts = (node.op.axis, values) if hasattr(node.op, "axis") else (values[0], values[1:])
    return [np.concatenate(parts, axis=int(axis))]


for _op in LAYOUT_OPS:
    bound_op.register(_op, _move)


@bound_op.register(MakeVector)
def _make_vector(op: MakeVector, node: Apply, *inputs: Bounds) -> Bounds:
    """The scalars, one after the other."""
    if any(i.is_symbolic for i in inputs):
        return Bounds(
            pt.stack([pt.as_tensor(i.lower) for i in inputs]),
            pt.stack([pt.as_tensor(i.upper) for i in inputs]),
        )
    lower = np.asarray([i.lower for i in inputs])
    if all(i.is_point for i in inputs):
        return Bounds.point(lower)
    return Bounds(lower, np.asarray([i.upper for i in inputs]))


@bound_op.register(DimShuffle)
def _dimshuffle(op: DimShuffle, node: Apply, x: Bounds) -> Bounds:
    """Axes move, elements stay; rows stay rows if the last axis stays last."""
    lower = _permute_axes(op, x.lower)
    upper = lower if x.is_point else _permute_axes(op, x.upper)
    rows = bool(op.new_order) and op.new_order[-1] == node.inputs[0].type.ndim - 1
    return Bounds(lower, upper, x.within if rows else None)


def _permute_axes(op: DimShuffle, values: Array) -> Array:
    """The Op on a NumPy array, without PyTensor's own overhead, or on a variable."""
    if isinstance(values, Variable):
        return values.dimshuffle(op.new_order)
    kept = [axis for axis in op.new_order if axis != "x"]
    dropped = [axis for axis in range(values.ndim) if axis not in kept]
    moved = values.transpose([*kept, *dropped])
    index = tuple(np.newaxis if axis == "x" else slice(None) for axis in op.new_order)
    return moved.reshape(moved.shape[: len(kept)])[index]


@bound_op.register(SpecifyShape)
def _specify_shape(op: SpecifyShape, node: Apply, x: Bounds, *shape: Bounds) -> Bounds:
    """An identity: the specified shape is that of the model's data, which the walk may resize."""
    return x


@bound_op.register(Shape)
def _shape(op: Shape, node: Apply, x: Bounds) -> Bounds:
    """Shapes are public and exact."""
    return Bounds.point(pt.shape(x.lower) if x.is_symbolic else np.asarray(x.shape))


@bound_op.register(Shape_i)
def _shape_i(op: Shape_i, node: Apply, x: Bounds) -> Bounds:
    """One entry of the shape."""
    return Bounds.point(pt.shape(x.lower)[op.i] if x.is_symbolic else np.asarray(x.shape[op.i]))


@bound_op.register(ARange)
@bound_op.register(Eye)
def _generate(op: Op, node: Apply, *inputs: Bounds) -> OpBounds:
    """Arrays that exact numbers determine."""
    if not all(is_exact(i) for i in inputs):
        return Bounds.everything()
    made = apply_node(node, [exact_value(i, v) for i, v in zip(inputs, node.inputs, strict=True)])
    return [Bounds.point(out) for out in made]


# ---- indexing --------------------------------------------------------------------------------

# PyTensor 3 folded the two special Ops of one index vector into the general ones.
INDEXING_OPS = [
    getattr(ts, name)
    for name in ("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
    if hasattr(ts, name)
]
INDEX_UPDATE_OPS = [
    getattr(ts, name)
    for name in ("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1")
    if hasattr(ts, name)
]


def _take(op: Op, node: Apply, x: Bounds, *indexes: Bounds) -> OpBounds:
    """x[i] for a known i; for an unknown i the hull over every entry it may name."""
    if not all(is_exact(i) for i in indexes):
        return _take_unknown(node, x, indexes)
    index = [exact_value(i, v) for i, v in zip(indexes, node.inputs[1:], strict=True)]
    try:
        (lower,) = apply_node(node, [x.lower, *index])
        upper = lower if x.is_point else apply_node(node, [x.upper, *index])[0]
    except IndexError:  # a record of the domain would leave the array
        return _unknown_in_result_shape(node, x, indexes)
    return Bounds(lower, upper, _kept_simplex_rows(node, x))


def _kept_simplex_rows(node: Apply, x: Bounds) -> SimplexRows | None:
    """What is known of rows along the last axis, where whole rows are taken."""
    whole = _is_leading_take(node) and node.inputs[0].type.ndim > 1
    return x.within if whole and isinstance(x.within, SimplexRows) else None


def _take_unknown(node: Apply, x: Bounds, indexes: tuple[Bounds, ...]) -> Bounds:
    """The hull of x[i] over all i within the bounds (first axis, one index array)."""
    if x.is_symbolic or any(i.is_symbolic for i in indexes):
        return _unknown_in_result_shape(node, x, indexes)
    if not _is_leading_take(node):
        return _take_one_unknown(node, x, indexes)
    (index,) = indexes
    low, high = index.as_float().lower, index.as_float().upper
    size = x.shape[0]
    shape = (*np.shape(low), *x.shape[1:])
    if not (np.all(low >= 0) and np.all(high <= size - 1)):
        return Bounds.everything(shape)
    lower, upper = np.full(shape, np.inf), np.full(shape, -np.inf)
    x = x.as_float()
    for entry in range(size):
        named = (low <= entry) & (entry <= high)
        mask = named.reshape(named.shape + (1,) * (len(x.shape) - 1))
        lower = np.where(mask, np.minimum(lower, x.lower[entry]), lower)
        upper = np.where(mask, np.maximum(upper, x.upper[entry]), upper)
    return Bounds(lower, upper, _kept_simplex_rows(node, x))


def _take_one_unknown(node: Apply, x: Bounds, indexes: tuple[Bounds, ...]) -> Bounds:
    """The hull over every number that one array of positions may hold, the same in all of it."""
    pairs = list(zip(indexes, node.inputs[1:], strict=True))
    unknown = [k for k, (i, _) in enumerate(pairs) if not is_exact(i)]
    if len(unknown) != 1 or not _is_position_array(node.inputs[1 + unknown[0]]):
        return _unknown_in_result_shape(node, x, indexes)
    (which,) = unknown
    low, high = np.asarray(indexes[which].lower), np.asarray(indexes[which].upper)
    inside = bool(np.isfinite(low).all() and np.isfinite(high).all() and np.min(low) >= 0)
    if not inside or np.max(high) - np.min(low) >= x.lower.size:
        return _unknown_in_result_shape(node, x, indexes)
    hull = None
    for entry in range(int(np.min(low)), int(np.max(high)) + 1):
        known = [
            np.full(np.shape(low), entry) if k == which else exact_value(i, v)
            for k, (i, v) in enumerate(pairs)
        ]
        try:
            pair = [apply_node(node, [bound, *known])[0] for bound in (x.lower, x.upper)]
        except IndexError:
            return _unknown_in_result_shape(node, x, indexes)
        taken = Bounds(*pair).as_float()
        hull = taken if hull is None else hull.hull(taken)
    return hull if hull is not None else _unknown_in_result_shape(node, x, indexes)


def _is_leading_take(node: Apply) -> bool:
    """Whether the node is x[i] with one array of positions on the first axis."""
    entries = getattr(node.op, "idx_list", None)
    if isinstance(node.op, ts.Subtensor) or (entries is not None and len(entries) != 1):
        return False
    rank = node.outputs[0].type.ndim - node.inputs[0].type.ndim + 1
    return (
        len(node.inputs) == 2 and _is_position_array(node.inputs[1]) and rank == node.inputs[1].ndim
    )


def _is_position_array(variable: Variable) -> bool:
    """Whether an index is an array of positions; a mask or a bound of a slice chooses a length."""
    dtype, ndim = getattr(variable.type, "dtype", ""), getattr(variable.type, "ndim", 0)
    return ndim > 0 and str(dtype).startswith(("int", "uint"))


def _unknown_in_result_shape(node: Apply, x: Bounds, indexes: tuple[Bounds, ...]) -> Bounds:
    """Nothing known, in the shape that known indexes and the shapes of the others give."""
    pairs = list(zip(node.inputs[1:], indexes, strict=True))
    unknown = any(not is_exact(i) and not _is_position_array(v) for v, i in pairs)
    if unknown or x.is_symbolic or any(i.is_symbolic for _, i in pairs):
        return Bounds.everything()
    try:
        index = [
            np.zeros(i.shape, int) if _is_position_array(v) else exact_value(i, v) for v, i in pairs
        ]
        return Bounds.everything(np.shape(apply_node(node, [x.lower, *index])[0]))
    except IndexError:
        return Bounds.everything()


def _update(op: Op, node: Apply, x: Bounds, y: Bounds, *indexes: Bounds) -> OpBounds:
    """x with y written to, or added at, known positions."""
    if x.is_symbolic or y.is_symbolic:
        return Bounds.everything()
    if not all(is_exact(i) for i in indexes):
        return Bounds.everything(x.shape)
    index = [exact_value(i, v) for i, v in zip(indexes, node.inputs[2:], strict=True)]
    x, y = x.as_float(), y.as_float()
    (lower,) = apply_node(node, [x.lower.copy(), y.lower, *index])
    (upper,) = apply_node(node, [x.upper.copy(), y.upper, *index])
    if getattr(op, "set_instead_of_inc", False):
        return Bounds(lower, upper)
    # Repeated indexes add several terms to one element: Higham's bound by their number in each.
    (terms,) = apply_node(node, [np.zeros(x.shape), np.ones(y.shape), *index])
    (total,) = apply_node(node, [x.magnitude(), y.magnitude(), *index])
    slack = (terms + 1.0) * (2.0 * UNIT * total + TINY)
    return Bounds(round_down(lower - slack), round_up(upper + slack))


for _op in INDEXING_OPS:
    bound_op.register(_op, _take)
for _op in INDEX_UPDATE_OPS:
    bound_op.register(_op, _update)


# ---- reductions ------------------------------------------------------------------------------


def sum_down(terms: Array, axis: tuple[int, ...] | None) -> Array:
    """A lower bound: n terms in any order err by at most n u sum|x| (Higham 2002, 4.2)."""
    total, slack = _sum_and_slack(terms, axis)
    return round_down(total - slack)


def sum_up(terms: Array, axis: tuple[int, ...] | None) -> Array:
    """An upper bound of the sum."""
    total, slack = _sum_and_slack(terms, axis)
    return round_up(total + slack)


def _sum_and_slack(terms: Array, axis: tuple[int, ...] | None) -> tuple[Array, Array]:
    """The floating-point sum, and a bound of its error."""
    xp = array_namespace(terms)
    total = terms.sum(axis=axis)
    if xp is np and _is_exact_sum(terms):
        return total, np.zeros_like(total)
    count = terms.size / max(np.size(total), 1) if xp is np else terms.size / total.size
    # The factor 2 pays for the rounding of sum|x| itself and for higher orders of n u.
    slack = abs(terms).sum(axis=axis) * (2.0 * count * UNIT) + TINY * count
    # An infinite term makes an exact infinity; without one, the sum may have overflowed on the way.
    return total, xp.where(xp.isinf(terms).any(axis=axis), 0.0, slack)


def _is_exact_sum(terms: np.ndarray) -> bool:
    """Whether all terms are integers whose absolute values add up to less than 2**52."""
    whole = np.all(terms == np.floor(terms)) and np.all(np.isfinite(terms))
    return bool(whole) and float(np.abs(terms).sum()) < 2.0**52


@bound_op.register(Sum)
def _sum(op: Sum, node: Apply, x: Bounds) -> Bounds:
    """Sums of bounds, with the summation error; a row of a simplex has its total."""
    axis = op.axis
    last = node.inputs[0].type.ndim - 1
    axes = tuple(range(last + 1)) if axis is None else tuple(axis)
    if isinstance(x.within, SimplexRows) and axes == (last,):
        sums = x.lower.sum(axis=axis) * 0.0 + x.within.total
        if node.outputs[0].type.dtype.startswith("int"):
            return Bounds(sums, sums)
        slack = x.within.slack + 4 * UNIT * x.within.total
        return Bounds(sums - slack, sums + slack)
    number = x.as_float()
    if not x.is_symbolic and _is_exact_sum(number.lower) and _is_exact_sum(number.upper):
        return Bounds(number.lower.sum(axis=axis), number.upper.sum(axis=axis))
    return Bounds(sum_down(number.lower, axis), sum_up(number.upper, axis))


@bound_op.register(Prod)
def _prod(op: Prod, node: Apply, x: Bounds) -> OpBounds:
    """The product, one factor after the other along the axis."""
    if x.is_symbolic:
        return Bounds.everything()
    number = x.as_float()
    axes = range(len(x.shape)) if op.axis is None else op.axis
    lower = np.moveaxis(number.lower, tuple(axes), range(len(axes)))
    upper = np.moveaxis(number.upper, tuple(axes), range(len(axes)))
    rest = lower.shape[len(axes) :]
    lower, upper = lower.reshape(-1, *rest), upper.reshape(-1, *rest)
    product = Bounds.point(np.ones(rest))
    for low, high in zip(lower, upper, strict=True):
        product = product.times(Bounds(low, high))
    return product


ORDER_REDUCTIONS: dict[type, Callable[..., np.ndarray]] = {
    Max: np.max,
    Min: np.min,
    All: np.all,
    AnyOp: np.any,
}


def _order_reduction(op: CAReduce, node: Apply, x: Bounds) -> Bounds:
    """Extremes and quantifiers are non-decreasing in each element, and exact."""
    if x.is_symbolic:
        return Bounds(apply_node(node, [x.lower])[0], apply_node(node, [x.upper])[0])
    # Not the Op itself: it would cast double bounds of integers, NaN among them.
    reduce, axis = ORDER_REDUCTIONS[type(op)], None if op.axis is None else tuple(op.axis)
    return Bounds(np.asarray(reduce(x.lower, axis=axis)), np.asarray(reduce(x.upper, axis=axis)))


for _op in ORDER_REDUCTIONS:
    bound_op.register(_op, _order_reduction)


@bound_op.register(CumOp)
def _cumulative(op: CumOp, node: Apply, x: Bounds) -> OpBounds:
    """Cumulative sums: as `Sum`, for each prefix; of products nothing is known."""
    if x.is_symbolic or op.mode != "add":
        return Bounds.everything(x.shape if not x.is_symbolic else ())
    number, axis = x.as_float(), op.axis
    if axis is None:
        return Bounds.everything((int(np.prod(x.shape)),))
    count = float(x.shape[axis])

    def sum_and_slack(terms: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        slack = np.cumsum(abs(terms), axis=axis) * (2.0 * count * UNIT) + TINY * count
        return np.cumsum(terms, axis=axis), slack

    (low, low_slack), (high, high_slack) = (
        sum_and_slack(number.lower),
        sum_and_slack(number.upper),
    )
    return Bounds(round_down(low - low_slack), round_up(high + high_slack))
