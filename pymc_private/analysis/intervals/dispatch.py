"""The two dispatchers: on the Op of a node, and for elementwise nodes on its scalar Op."""

from __future__ import annotations

import numpy as np
from functools import singledispatch
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.scalar.basic import BinaryBitOp, ScalarOp, UnaryBitOp
from pytensor.tensor.elemwise import Elemwise
from pymc_private.analysis.intervals.interval import Interval

Answer = Interval | list[Interval]

UNCOMPUTABLE = (
    AssertionError,
    AttributeError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    np.linalg.LinAlgError,
)
"""What Ops raise when values, or the number of rows, do not suit them, or a library is missing."""


@singledispatch
def bound(op: Op, node: Apply, *inputs: Interval) -> Answer:
    """Bounds of the node's outputs, given bounds of its inputs.

    An Op without a rule is folded if every input is one exact value; else nothing is known of it.
    The trail then names it.
    """
    if all(i.is_point and not i.is_symbolic for i in inputs):
        try:
            return fold(node, inputs)
        except UNCOMPUTABLE:
            pass
    return [Interval.everything() for _ in node.outputs]


@singledispatch
def bound_scalar(op: ScalarOp, *inputs: Interval) -> Interval:
    """Bounds of an elementwise function; `inputs` have double ends that broadcast."""
    return Interval.everything(np.broadcast_shapes(*(i.shape for i in inputs)))


@bound.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, *inputs: Interval) -> Answer:
    """f applied to each element: the rule of the scalar function, on doubles or Booleans."""
    scalar = op.scalar_op
    bits = isinstance(scalar, BinaryBitOp | UnaryBitOp)
    dtypes = [v.type.dtype for v in (*node.inputs, *node.outputs)]
    if any(d.startswith("complex") for d in dtypes) or (bits and dtypes[-1] != "bool"):
        return _elementwise_everything(node, inputs)
    if bound_scalar.dispatch(type(scalar)) is bound_scalar.dispatch(object):
        exact = all(i.is_point and not i.is_symbolic for i in inputs)
        return fold(node, inputs) if exact else _elementwise_everything(node, inputs)
    answer = bound_scalar(scalar, *(i if bits else i.as_float() for i in inputs))
    return _without_overflow(answer, dtypes[-1])


def _without_overflow(answer: Interval, dtype: str) -> Interval:
    """Integers of a type wrap around beyond its ends: there nothing is known of the result."""
    if answer.is_symbolic or not dtype.startswith(("int", "uint")):
        return answer
    ends = np.iinfo(dtype)
    return answer.where((answer.lower >= float(ends.min)) & (answer.upper <= float(ends.max)))


def _elementwise_everything(node: Apply, inputs: tuple[Interval, ...]) -> list[Interval]:
    """Everything, in the shape the inputs broadcast to."""
    symbolic = any(i.is_symbolic for i in inputs)
    shape = () if symbolic else np.broadcast_shapes(*(i.shape for i in inputs))
    return [Interval.everything(shape) for _ in node.outputs]


def fold(node: Apply, inputs: tuple[Interval, ...]) -> list[Interval]:
    """The value of a node whose inputs are exact: constant folding, as PyTensor itself does.

    The graph that is certified is the folded one; the samplers interpret the same graph.
    """
    return [Interval.point(value) for value in perform(node, [i.lower for i in inputs])]


def perform(node: Apply, values: list[Any]) -> list[Any]:
    """Evaluate one node on concrete values."""
    storage: list[list[Any]] = [[None] for _ in node.outputs]
    node.op.perform(node, values, storage)
    return [cell[0] for cell in storage]


def apply(node: Apply, values: list[Any]) -> list[Any]:
    """Evaluate one node on concrete values, or build it on symbolic ones."""
    if any(isinstance(v, Variable) for v in values):
        return list(node.op.make_node(*values).outputs)
    return perform(node, values)


def is_exact(interval: Interval) -> bool:
    """Whether one value is left: a point, or equal ends."""
    if interval.is_point:
        return True
    return not interval.is_symbolic and bool(np.array_equal(interval.lower, interval.upper))


def exact(interval: Interval, variable: Variable) -> Any:
    """The one value, in the data type of its variable (rules carry integers as doubles)."""
    end, dtype = interval.lower, getattr(variable.type, "dtype", None)
    if isinstance(end, np.ndarray | np.generic) and dtype is not None and end.dtype != dtype:
        return np.asarray(end).astype(dtype)
    return end


def has_rule(node: Apply) -> bool:
    """Whether the node's Op (and, if elementwise, its scalar Op) has a rule."""
    if isinstance(node.op, Elemwise):
        return bound_scalar.dispatch(type(node.op.scalar_op)) is not bound_scalar.dispatch(object)
    return bound.dispatch(type(node.op)) is not bound.dispatch(object)


def ruled_ops() -> tuple[list[type], list[type]]:
    """All Ops and scalar Ops with a rule: what the contract tests loop over."""
    return list(bound.registry), list(bound_scalar.registry)
