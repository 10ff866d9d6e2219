"""Whether a graph has a given form: patterns with free variables, and slices by what they take."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import Op
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor

from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE, perform

MOST_ELEMENTS = 4096


def bare(variable: Variable) -> Variable:
    """The variable without axes of length one that were put in front of it."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        order, ndim = tuple(variable.owner.op.new_order), variable.owner.inputs[0].type.ndim
        if order != ("x",) * (len(order) - ndim) + tuple(range(ndim)):
            break
        variable = variable.owner.inputs[0]
    return variable


def same(first: Variable, second: Variable) -> bool:
    """Whether two variables are one, or equal constants (up to axes put in front)."""
    first, second = bare(first), bare(second)
    if isinstance(first, Constant) and isinstance(second, Constant):
        return bool(np.array_equal(first.data, second.data))
    return first is second


def match(
    pattern: Variable, graph: Variable, free: Sequence[Variable]
) -> dict[Variable, Variable] | None:
    """What the free variables of a pattern stand for, if the graph has its form.

    Axes put in front are looked through: elementwise functions put them back.
    """
    found: dict[Variable, Variable] = {}
    return found if _match(pattern, graph, free, found) else None


def _match(
    pattern: Variable, graph: Variable, free: Sequence[Variable], found: dict[Variable, Variable]
) -> bool:
    pattern, graph = bare(pattern), bare(graph)
    if pattern in free:
        return same(found.setdefault(pattern, graph), graph)
    if pattern.owner is None or graph.owner is None:
        return isinstance(pattern, Constant) and same(pattern, graph)
    one, other = pattern.owner, graph.owner
    return (
        one.op == other.op
        and len(one.inputs) == len(other.inputs)
        and all(_match(p, g, free, found) for p, g in zip(one.inputs, other.inputs, strict=True))
    )


def scalar_op(variable: Variable) -> Op | None:
    """The scalar function of an elementwise node."""
    node = variable.owner
    return node.op.scalar_op if node is not None and isinstance(node.op, Elemwise) else None


def slice_of(variable: Variable) -> tuple[Variable, np.ndarray, np.ndarray] | None:
    """For x[i] with constant i: x, the numbers of all its elements, and those that are taken.

    The numbers stand for an x whose unknown axes have length two; the last must be known.
    """
    node = variable.owner
    if node is None or not isinstance(node.op, Subtensor):
        return None
    x, indexes = node.inputs[0], node.inputs[1:]
    if x.type.ndim == 0 or x.type.shape[-1] is None:
        return None
    if not all(isinstance(index, Constant) for index in indexes):
        return None
    shape = [2 if size is None else size for size in x.type.shape]
    if np.prod(shape) > MOST_ELEMENTS:
        return None
    numbers = np.arange(np.prod(shape), dtype=x.type.dtype).reshape(shape)
    try:
        return x, numbers, np.asarray(perform(node, [numbers, *(i.data for i in indexes)])[0])
    except UNCOMPUTABLE:
        return None


def joined_last(variable: Variable) -> list[Variable] | None:
    """The parts of a concatenation along the last axis."""
    node = variable.owner
    if node is None or not isinstance(node.op, Join):
        return None
    if hasattr(node.op, "axis"):
        axis, parts = node.op.axis, node.inputs
    elif isinstance(node.inputs[0], Constant):  # PyTensor 2 has the axis among the inputs
        axis, parts = int(node.inputs[0].data), node.inputs[1:]
    else:
        return None
    return list(parts) if axis in (-1, variable.type.ndim - 1) else None
