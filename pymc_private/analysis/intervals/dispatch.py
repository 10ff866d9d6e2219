"""The two dispatchers: on the Op of a node, and for elementwise nodes on its scalar Op."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.scalar.basic import ScalarOp
from pytensor.tensor.elemwise import Elemwise

from pymc_private.analysis.interval import Interval

Answer = Interval | list[Interval]


@singledispatch
def bound(op: Op, node: Apply, *inputs: Interval) -> Answer:
    """Bounds of the node's outputs, given bounds of its inputs.

    An Op without a rule is folded if every input is one exact value; else nothing is known of it.
    The trail then names it.
    """
    if all(i.is_point and not i.is_symbolic for i in inputs):
        return fold(node, inputs)
    return [Interval.everything() for _ in node.outputs]


@singledispatch
def bound_scalar(op: ScalarOp, *inputs: Interval) -> Interval:
    """Bounds of an elementwise function; `inputs` have double ends that broadcast."""
    shape = np.broadcast_shapes(*(i.shape for i in inputs if not i.is_symbolic))
    return Interval.everything(shape)


@bound.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, *inputs: Interval) -> Answer:
    """f applied to each element: the rule of the scalar function."""
    if node.outputs[0].type.dtype.startswith("complex"):
        return Interval.everything(np.broadcast_shapes(*(i.shape for i in inputs)))
    return bound_scalar(op.scalar_op, *(_numeric(i) for i in inputs))


def _numeric(interval: Interval) -> Interval:
    """Double ends; Boolean ends are left as they are for the rules of logic."""
    if interval.is_symbolic or interval.lower.dtype == bool:
        return interval
    return interval.as_float()


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


def has_rule(node: Apply) -> bool:
    """Whether the node's Op (and, if elementwise, its scalar Op) has a rule."""
    if isinstance(node.op, Elemwise):
        return bound_scalar.dispatch(type(node.op.scalar_op)) is not bound_scalar.dispatch(object)
    return bound.dispatch(type(node.op)) is not bound.dispatch(object)


def ruled_ops() -> tuple[list[type], list[type]]:
    """All Ops and scalar Ops with a rule: what the contract tests loop over."""
    return list(bound.registry), list(bound_scalar.registry)
