"""Ordinal probabilities written as sigmoid(z)_1, its steps, and one minus the last."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_private.analysis.complements import is_on_simplex
from pymc_private.analysis.joining import sigmoid_steps
from pymc_private.analysis.matching import bare, joined_last, scalar_op, slice_of


@node_rewriter([Join])
def cumulative_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """(s_1, s_2 - s_1, ..., 1 - s_K) of s = sigmoid(z): on the simplex, since z rises."""
    parts = joined_last(node.outputs[0])
    if parts is None or len(parts) != 3 or is_on_simplex(graph, node):
        return None
    first, middle, last = slice_of(parts[0]), _difference(parts[1]), _difference(parts[2])
    if first is None or middle is None or last is None or not _is_one(last[0]):
        return None
    base, numbers, _ = first
    if not isinstance(scalar_op(base), psm.Sigmoid):
        return None
    ends = (parts[0], *middle, last[1])
    wanted = (numbers[..., 0], numbers[..., 1:], numbers[..., :-1], numbers[..., -1])
    if not all(_takes(end, base, entries) for end, entries in zip(ends, wanted, strict=True)):
        return None
    new = sigmoid_steps(base.owner.inputs[0])
    out = node.outputs[0]
    alike = new.type.dtype == out.type.dtype and new.type.ndim == out.type.ndim
    return [new] if alike else None


def _difference(variable: Variable) -> tuple[Variable, Variable] | None:
    """a and b of a - b, which may have been given an axis."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    if not isinstance(scalar_op(variable), ps.Sub):
        return None
    return variable.owner.inputs[0], variable.owner.inputs[1]


def _is_one(variable: Variable) -> bool:
    inner = bare(variable)
    return isinstance(inner, Constant) and bool(np.all(inner.data == 1.0))


def _takes(variable: Variable, base: Variable, entries: np.ndarray) -> bool:
    """Whether a variable is `base` at these entries, in this order."""
    taken = slice_of(variable)
    return (
        taken is not None
        and taken[0] is base
        and np.array_equal(np.ravel(taken[2]), np.ravel(entries))
    )


@node_rewriter([Elemwise])
def inside_the_unit_interval(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """switch(sigmoid(z) == 0, a, b) = b, and so at 1: a guard against rounding, as Bambi writes."""
    if not isinstance(node.op.scalar_op, ps.Switch):
        return None
    condition, _, other = node.inputs
    if not isinstance(scalar_op(condition), ps.EQ) or other.type != node.outputs[0].type:
        return None
    for one, end in (condition.owner.inputs, condition.owner.inputs[::-1]):
        number = bare(end)
        at_end = isinstance(number, Constant) and bool(np.isin(number.data, (0.0, 1.0)).all())
        if at_end and isinstance(scalar_op(bare(one)), psm.Sigmoid):
            return [other]
    return None


RAW = (inside_the_unit_interval, cumulative_categories)
"""For graphs as they are written: PyTensor splits the sum of a concatenation."""
