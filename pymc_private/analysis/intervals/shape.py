"""Ops that move elements without computing: they act on each end as on the values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
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
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.extra_ops import Repeat
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from pymc_private.analysis.interval import Interval
from pymc_private.analysis.intervals.dispatch import Answer, apply, bound, fold

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


def _move(op: Op, node: Apply, *inputs: Interval) -> Answer:
    """Each output element is one input element: lower ends from lower ends, upper from upper."""
    inputs = _common_dtype(inputs) if isinstance(op, Join | MakeVector) else inputs
    lower = apply(node, [i.lower for i in inputs])
    if all(i.is_point for i in inputs):
        return [Interval(value, value) for value in lower]
    upper = apply(node, [i.upper for i in inputs])
    return [Interval(low, high) for low, high in zip(lower, upper, strict=True)]


def _common_dtype(inputs: tuple[Interval, ...]) -> tuple[Interval, ...]:
    """Doubles where one joined part already has double ends."""
    floating = [not i.is_symbolic and i.lower.dtype == np.float64 for i in inputs]
    if not any(floating):
        return inputs
    return tuple(i if i.is_symbolic or i.lower.ndim == 0 else i.as_float() for i in inputs)


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
    face = _shuffle(op) if not x.is_symbolic else (lambda end: end.dimshuffle(op.new_order))
    lower = face(x.lower)
    upper = lower if x.is_point else face(x.upper)
    rows = bool(op.new_order) and op.new_order[-1] == node.inputs[0].type.ndim - 1
    return Interval(lower, upper, x.within if rows else None)


def _shuffle(op: DimShuffle) -> Callable[[np.ndarray], np.ndarray]:
    """The Op on a NumPy array, without PyTensor's own overhead."""
    kept = [axis for axis in op.new_order if axis != "x"]
    index = tuple(np.newaxis if axis == "x" else slice(None) for axis in op.new_order)

    def face(end: np.ndarray) -> np.ndarray:
        dropped = [axis for axis in range(end.ndim) if axis not in kept]
        moved = end.transpose([*kept, *dropped])
        return moved.reshape(moved.shape[: len(kept)])[index]

    return face


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
    if any(i.is_symbolic for i in inputs):
        return [Interval.point(out) for out in apply(node, [i.lower for i in inputs])]
    if not all(i.is_point for i in inputs):
        return Interval.everything()
    return fold(node, inputs)
