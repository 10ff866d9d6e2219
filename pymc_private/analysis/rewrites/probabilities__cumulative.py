"""Ordinal probabilities written as what they are: steps of a sigmoid, or a stick that is broken."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Prod
from pymc_private.analysis.rewrites.probabilities__complements import is_on_simplex
from pymc_private.analysis.intervals.ops import on_simplex
from pymc_private.analysis.continuity__finite import never_infinite
from pymc_private.analysis.rewrites.probabilities import sigmoid_steps
from pymc_private.analysis.traversal import bare, joined_last, scalar_op, slice_of

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
    return _in_place(sigmoid_steps(base.owner.inputs[0]), node.outputs[0])


def _in_place(new: Variable, out: Variable) -> list[Variable] | None:
    """A graph in place of another, if they can have one type."""
    sizes = zip(new.type.shape, out.type.shape, strict=False)
    alike = new.type.dtype == out.type.dtype and new.type.ndim == out.type.ndim
    return [new] if alike and all(a == b or None in (a, b) for a, b in sizes) else None


def _difference(variable: Variable) -> tuple[Variable, Variable] | None:
    """a and b of a - b, which may have been given an axis; b is as large as the difference."""
    variable = _without_axes(variable)
    if not isinstance(scalar_op(variable), ps.Sub):
        return None
    first, second = variable.owner.inputs
    return (first, second) if second.type.broadcastable == variable.type.broadcastable else None


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
        sigmoid = bare(one)
        if at_end and isinstance(scalar_op(sigmoid), psm.Sigmoid):
            # At an infinite z, as log(0) is, the guard is no guard but a case of its own.
            return [other] if never_infinite(sigmoid.owner.inputs[0]) else None
    return None


@node_rewriter([Join])
def sequential_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """(s_1, s_2 (1 - s_1), ..., prod_k (1 - s_k)) of s = sigmoid(z): a stick broken K times."""
    parts = joined_last(node.outputs[0])
    first = slice_of(parts[0]) if parts else None
    if parts is None or first is None or is_on_simplex(graph, node):
        return None
    base, numbers, _ = first
    size = numbers.shape[-1]
    if not isinstance(scalar_op(base), psm.Sigmoid) or len(parts) != size + 1:
        return None
    if not _takes(parts[0], base, numbers[..., 0]) or not _is_left(parts[-1], base, numbers):
        return None
    if not all(_is_broken(parts[k], base, numbers, k) for k in range(1, size)):
        return None
    z = base.owner.inputs[0]
    kept, left = -pt.softplus(-z), -pt.softplus(z)
    logs = [kept[..., k : k + 1] + left[..., :k].sum(-1, keepdims=True) for k in range(1, size)]
    logs = [kept[..., :1], *logs, left.sum(-1, keepdims=True)]
    return _in_place(on_simplex(pt.exp(pt.concatenate(logs, axis=-1))), node.outputs[0])


def _is_broken(part: Variable, base: Variable, numbers: np.ndarray, k: int) -> bool:
    """Whether a part is s_k times what the first k pieces left."""
    factors = _without_axes(part)
    if not isinstance(scalar_op(factors), ps.Mul) or len(factors.owner.inputs) != 2:
        return False
    return any(
        _takes(one, base, numbers[..., k]) and _is_left(other, base, numbers[..., :k])
        for one, other in (factors.owner.inputs, factors.owner.inputs[::-1])
    )


def _is_left(part: Variable, base: Variable, entries: np.ndarray) -> bool:
    """Whether a part is the product over the last axis of 1 - s at these entries."""
    product = _without_axes(part)
    node = product.owner
    if node is None or not isinstance(node.op, Prod):
        return False
    axis = node.op.axis if isinstance(node.op.axis, tuple | list) else (node.op.axis,)
    pair = _difference(node.inputs[0])
    if pair is None or tuple(axis) not in ((base.type.ndim - 1,), (-1,)) or not _is_one(pair[0]):
        return False
    whole = pair[1] is base and entries.shape[-1] == base.type.shape[-1]
    return whole or _takes(pair[1], base, entries)


def _without_axes(variable: Variable) -> Variable:
    """The variable before axes of length one were put anywhere."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    return variable


RAW = (inside_the_unit_interval, cumulative_categories, sequential_categories)
"""For graphs as they are written: PyTensor splits the sum of a concatenation."""
