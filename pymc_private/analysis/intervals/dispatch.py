"""Dispatchers of interval rules: on the Op of a node, and on the scalar Op of elementwise nodes.

An Op without a rule is folded if all its inputs are exact values; otherwise nothing is known
of its outputs. Nodes whose inputs are exact are evaluated as PyTensor's constant folding does.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.scalar.basic import BinaryBitOp, ScalarOp, UnaryBitOp
from pytensor.tensor.elemwise import Elemwise

from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.traversal import EVALUATION_ERRORS, evaluate_node

OpBounds = Bounds | list[Bounds]

"""Bounds of the only output of a node, or of each output."""


@singledispatch
def bound_op(op: Op, node: Apply, *inputs: Bounds) -> OpBounds:
    """Bounds of the node's outputs, given bounds of its inputs.

    An Op without a rule is folded if every input is one exact value; else nothing is known of it.
    The trail then names it.
    """
    if all(i.is_point and not i.is_symbolic for i in inputs):
        try:
            return constant_fold(node, inputs)
        except EVALUATION_ERRORS:
            pass
    return [Bounds.everything() for _ in node.outputs]


@singledispatch
def bound_scalar_op(op: ScalarOp, *inputs: Bounds) -> Bounds:
    """Bounds of an elementwise function; `inputs` are in doubles, of shapes that broadcast."""
    return Bounds.everything(np.broadcast_shapes(*(i.shape for i in inputs)))


@bound_op.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, *inputs: Bounds) -> OpBounds:
    """f applied to each element: the rule of the scalar function, on doubles or Booleans."""
    scalar = op.scalar_op
    bits = isinstance(scalar, BinaryBitOp | UnaryBitOp)
    dtypes = [v.type.dtype for v in (*node.inputs, *node.outputs)]
    if any(d.startswith("complex") for d in dtypes) or (bits and dtypes[-1] != "bool"):
        return _unknown_elementwise(node, inputs)
    if bound_scalar_op.dispatch(type(scalar)) is bound_scalar_op.dispatch(object):
        exact = all(i.is_point and not i.is_symbolic for i in inputs)
        return constant_fold(node, inputs) if exact else _unknown_elementwise(node, inputs)
    answer = bound_scalar_op(scalar, *(i if bits else i.as_float() for i in inputs))
    return _unknown_on_overflow(answer, dtypes[-1])


def _unknown_on_overflow(answer: Bounds, dtype: str) -> Bounds:
    """Nothing is known of integers beyond the limits of their type, where they wrap around."""
    if answer.is_symbolic or not dtype.startswith(("int", "uint")):
        return answer
    limits = np.iinfo(dtype)
    return answer.where((answer.lower >= float(limits.min)) & (answer.upper <= float(limits.max)))


def _unknown_elementwise(node: Apply, inputs: tuple[Bounds, ...]) -> list[Bounds]:
    """Nothing known of any output, in the shape the inputs broadcast to."""
    symbolic = any(i.is_symbolic for i in inputs)
    shape = () if symbolic else np.broadcast_shapes(*(i.shape for i in inputs))
    return [Bounds.everything(shape) for _ in node.outputs]


def constant_fold(node: Apply, inputs: tuple[Bounds, ...]) -> list[Bounds]:
    """The value of a node whose inputs are exact: constant folding, as PyTensor itself does.

    The graph that is certified is the folded one; the samplers interpret the same graph.
    """
    return [Bounds.point(value) for value in evaluate_node(node, [i.lower for i in inputs])]


def apply_node(node: Apply, values: list[Any]) -> list[Any]:
    """Evaluate one node on concrete values, or build it on symbolic ones."""
    if any(isinstance(v, Variable) for v in values):
        return list(node.op.make_node(*values).outputs)
    return evaluate_node(node, values)


def is_exact(interval: Bounds) -> bool:
    """Whether one value is left: a point, or equal bounds."""
    if interval.is_point:
        return True
    return not interval.is_symbolic and bool(np.array_equal(interval.lower, interval.upper))


def exact_value(interval: Bounds, variable: Variable) -> Any:
    """The one value, in the data type of its variable (rules carry integers as doubles)."""
    value, dtype = interval.lower, getattr(variable.type, "dtype", None)
    if isinstance(value, np.ndarray | np.generic) and dtype is not None and value.dtype != dtype:
        return np.asarray(value).astype(dtype)
    return value


def has_rule(node: Apply) -> bool:
    """Whether the node's Op (and, if elementwise, its scalar Op) has a rule."""
    if isinstance(node.op, Elemwise):
        return bound_scalar_op.dispatch(type(node.op.scalar_op)) is not bound_scalar_op.dispatch(
            object
        )
    return bound_op.dispatch(type(node.op)) is not bound_op.dispatch(object)


def ops_with_rules() -> tuple[list[type], list[type]]:
    """All Ops and scalar Ops with a rule: what the contract tests loop over."""
    return list(bound_op.registry), list(bound_scalar_op.registry)
