"""Ops that move elements without computing: they act on each end as on the values."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor.basic import ARange, Alloc, ExtractDiag, Eye, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.extra_ops import Repeat
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.dispatch import Answer, apply, bound, exact, is_exact
from pymc_private.analysis.intervals.functions import Array

MOVERS = (
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


def parameters_of(op: Op, count: int) -> tuple[int, ...]:
    """Which inputs say where to move (axes, shapes, repeats) rather than what."""
    if isinstance(op, Join):
        return () if hasattr(op, "axis") else (0,)
    return tuple(range(1, count)) if isinstance(op, Alloc | Reshape | Repeat | Split) else ()


def _move(op: Op, node: Apply, *inputs: Interval) -> Answer:
    """Each output element is one input element: lower ends from lower ends, upper from upper."""
    places = parameters_of(op, len(inputs))
    if not all(is_exact(inputs[k]) for k in places):
        return [Interval.everything() for _ in node.outputs]
    where = {k: exact(inputs[k], node.inputs[k]) for k in places}
    face = _join if isinstance(op, Join) else apply
    lower = face(node, [where.get(k, i.lower) for k, i in enumerate(inputs)])
    if all(i.is_point for i in inputs):
        return [Interval(value, value) for value in lower]
    upper = face(node, [where.get(k, i.upper) for k, i in enumerate(inputs)])
    return [Interval(low, high) for low, high in zip(lower, upper, strict=True)]


def _join(node: Apply, values: list[Any]) -> list[Any]:
    """Concatenation, without the Op's own cast of doubles to the node's integers."""
    if any(isinstance(value, Variable) for value in values):
        return apply(node, values)
    axis, parts = (node.op.axis, values) if hasattr(node.op, "axis") else (values[0], values[1:])
    return [np.concatenate(parts, axis=int(axis))]


for _op in MOVERS:
    bound.register(_op, _move)


@bound.register(MakeVector)
def _make_vector(op: MakeVector, node: Apply, *inputs: Interval) -> Interval:
    """The scalars, one after the other."""
    if any(i.is_symbolic for i in inputs):
        return Interval(
            pt.stack([pt.as_tensor(i.lower) for i in inputs]),
            pt.stack([pt.as_tensor(i.upper) for i in inputs]),
        )
    lower = np.asarray([i.lower for i in inputs])
    if all(i.is_point for i in inputs):
        return Interval.point(lower)
    return Interval(lower, np.asarray([i.upper for i in inputs]))


@bound.register(DimShuffle)
def _dimshuffle(op: DimShuffle, node: Apply, x: Interval) -> Interval:
    """Axes move, elements stay; rows stay rows if the last axis stays last."""
    lower = _shuffle(op, x.lower)
    upper = lower if x.is_point else _shuffle(op, x.upper)
    rows = bool(op.new_order) and op.new_order[-1] == node.inputs[0].type.ndim - 1
    return Interval(lower, upper, x.within if rows else None)


def _shuffle(op: DimShuffle, end: Array) -> Array:
    """The Op on a NumPy array, without PyTensor's own overhead, or on a variable."""
    if isinstance(end, Variable):
        return end.dimshuffle(op.new_order)
    kept = [axis for axis in op.new_order if axis != "x"]
    dropped = [axis for axis in range(end.ndim) if axis not in kept]
    moved = end.transpose([*kept, *dropped])
    index = tuple(np.newaxis if axis == "x" else slice(None) for axis in op.new_order)
    return moved.reshape(moved.shape[: len(kept)])[index]


@bound.register(SpecifyShape)
def _specify_shape(op: SpecifyShape, node: Apply, x: Interval, *shape: Interval) -> Interval:
    """An identity: the shape that is specified is the model's own, which the walk may resize."""
    return x


@bound.register(Shape)
def _shape(op: Shape, node: Apply, x: Interval) -> Interval:
    """Shapes are public and exact."""
    return Interval.point(pt.shape(x.lower) if x.is_symbolic else np.asarray(x.shape))


@bound.register(Shape_i)
def _shape_i(op: Shape_i, node: Apply, x: Interval) -> Interval:
    """One entry of the shape."""
    return Interval.point(pt.shape(x.lower)[op.i] if x.is_symbolic else np.asarray(x.shape[op.i]))


@bound.register(ARange)
@bound.register(Eye)
def _generate(op: Op, node: Apply, *inputs: Interval) -> Answer:
    """Made of exact shapes only."""
    if not all(is_exact(i) for i in inputs):
        return Interval.everything()
    made = apply(node, [exact(i, v) for i, v in zip(inputs, node.inputs, strict=True)])
    return [Interval.point(out) for out in made]
