"""Whether a graph has a given form: patterns with free variables, and slices by what they take."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.subtensor import Subtensor
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE, perform
from pymc_private.analysis.intervals.functions import UNIT

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
        one, other = np.asarray(first.data), np.asarray(second.data)
        return bool(one.size == other.size == 1 and one.item() == other.item()) or bool(
            np.array_equal(one, other)
        )
    return first is second


@dataclass(frozen=True, eq=False)
class Multiple:
    """A number times a product of variables, divided by others."""

    number: float
    above: tuple[Variable, ...]
    below: tuple[Variable, ...]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Multiple)
            and abs(self.number - other.number) <= 4 * UNIT * abs(self.number)
            and len(self.above) == len(other.above)
            and len(self.below) == len(other.below)
            and all(map(same, self.above + self.below, other.above + other.below))
        )

    def times(self, number: float) -> Multiple:
        """Scaled; a factor of one but for rounding is one."""
        value = self.number * number
        return replace(self, number=1.0 if abs(value - 1.0) <= 4 * UNIT else value)

    def variable(self) -> Variable:
        """Its graph."""
        total = self.above[0] if len(self.above) == 1 else pt.mul(*self.above)
        for factor in self.below:
            total = total / factor
        return total if self.number == 1.0 else self.number * total


def multiple(variable: Variable) -> Multiple:
    """A variable with its numeric factors taken out."""
    variable, op = bare(variable), scalar_op(bare(variable))
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        return Multiple(float(np.asarray(variable.data).item()), (), ())
    if not isinstance(op, ps.Mul | ps.Neg | ps.TrueDiv):
        return Multiple(1.0, (variable,), ())
    number = -1.0 if isinstance(op, ps.Neg) else 1.0
    above: tuple[Variable, ...] = ()
    below: tuple[Variable, ...] = ()
    for place, factor in enumerate(variable.owner.inputs):
        part = multiple(factor)
        if isinstance(op, ps.TrueDiv) and place == 1:
            if part.number == 0.0:
                return Multiple(1.0, (variable,), ())
            part = Multiple(1.0 / part.number, part.below, part.above)
        number *= part.number
        above += part.above
        below += part.below
    return Multiple(number, above, below)


def match(
    pattern: Variable, graph: Variable, free: Sequence[Variable]
) -> dict[Variable, Multiple] | None:
    """What the free variables of a pattern stand for, if the graph has its form.

    Axes put in front are looked through: elementwise functions put them back. Numeric factors next
    to a free variable belong to it, for canonical forms merge them.
    """
    found: dict[Variable, Multiple] = {}
    return found if _match(pattern, graph, free, found) else None


def _match(
    pattern: Variable, graph: Variable, free: Sequence[Variable], found: dict[Variable, Multiple]
) -> bool:
    pattern, graph = bare(pattern), bare(graph)
    wanted = multiple(pattern)
    if len(wanted.above) == 1 and not wanted.below and wanted.above[0] in free:
        bound = multiple(graph).times(1.0 / wanted.number)
        return bool(bound.above) and found.setdefault(wanted.above[0], bound) == bound
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
    shuffles: list[Apply] = []
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        shuffles.insert(0, variable.owner)
        variable = variable.owner.inputs[0]
    node = variable.owner
    if node is None or not isinstance(node.op, Subtensor):
        return None
    x, indexes = node.inputs[0], node.inputs[1:]
    if x.type.ndim == 0 or x.type.shape[-1] is None:
        return None
    shape = [2 if size is None else size for size in x.type.shape]
    if not all(isinstance(index, Constant) for index in indexes) or np.prod(shape) > MOST_ELEMENTS:
        return None
    numbers = np.arange(np.prod(shape), dtype=x.type.dtype).reshape(shape)
    try:
        taken = perform(node, [numbers, *(i.data for i in indexes)])[0]
        for shuffle in shuffles:
            taken = perform(shuffle, [np.asarray(taken)])[0]
    except UNCOMPUTABLE:
        return None
    return x, numbers, np.asarray(taken)


def joined_last(variable: Variable) -> list[Variable] | None:
    """The parts of a concatenation along the last axis."""
    return joined_along(variable, variable.type.ndim - 1)


def joined_along(variable: Variable, wanted: int) -> list[Variable] | None:
    """The parts of a concatenation along an axis."""
    node = variable.owner
    if node is None or not isinstance(node.op, Join):
        return None
    if hasattr(node.op, "axis"):
        axis, parts = node.op.axis, node.inputs
    elif isinstance(node.inputs[0], Constant):  # PyTensor 2 has the axis among the inputs
        axis, parts = int(node.inputs[0].data), node.inputs[1:]
    else:
        return None
    return list(parts) if axis % variable.type.ndim == wanted else None
