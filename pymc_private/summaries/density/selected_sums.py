"""Sums of choices that a record makes, as products of matrices.

The log density of a person's answers is often a sum over items of `switch(answer, a, b)`, at each
node of a rule: many numbers for each record and parameter vector. What the record chooses with
(`answer`) reads no parameter, and what it chooses from reads no record, so that the sum is

    sum_j switch(c_j, a_j, b_j) = sum_j b_j + sum_j c_j (a_j - b_j),

for all records and parameter vectors at once a product of two matrices. A branch that is one
undefined constant (minus infinity outside the support, NaN where a check fails) is chosen after the
sum. The logarithm of a sum of which one term is chosen is the chosen logarithm.

For simulated records only: products of matrices round a record with its neighbors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum

from pymc_private.analysis.continuity import dependent_variables
from pymc_private.analysis.traversal import scalar_op
from pymc_private.summaries.density.plain_record import rebuild_by_leaves

LEAST_LOG = -1e5
"""The logarithm of 0 in a product, where 0 times minus infinity would be NaN."""
Shape = tuple[int, ...]
ShapeOf = Callable[[Variable], Shape]


def with_selected_sums(value: Variable, data: Sequence[Variable], shape_of: ShapeOf) -> Variable:
    """The graph of one record with such sums as products, the same up to rounding.

    Parameters
    ----------
    value : Variable
    data : sequence of Variable
        The record's entries.
    shape_of : callable
        The shape of each variable of the graph.
    """
    reads = dependent_variables([value], list(data))

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if not isinstance(node.op, Sum):
            return None
        summed = node.inputs[0]
        axes = range(summed.type.ndim) if node.op.axis is None else node.op.axis
        return _selected(summed, tuple(axes), reads, shape_of)

    return rebuild_by_leaves([value], rule)[0]


def _selected(
    value: Variable, axes: Shape, reads: Set[Variable], shape_of: ShapeOf
) -> Variable | None:
    """The sum of a choice over some axes; None if it is not of this form."""
    op = scalar_op(value)
    if isinstance(op, ps.Log):
        return _selected_log(value, axes, reads, shape_of)
    if not isinstance(op, ps.Switch):
        return None
    condition, first, second = value.owner.inputs
    for undefined, rest in ((first, second), (second, first)):
        constant = _undefined(undefined)
        if constant is None or shape_of(rest) != shape_of(value):
            continue
        inner = _selected(rest, axes, reads, shape_of)
        if inner is None:
            return None
        if undefined is first:
            return pt.switch(pt.any(pt.neq(condition, 0), axis=axes), constant, inner)
        return pt.switch(pt.all(pt.neq(condition, 0), axis=axes), inner, constant)
    if condition not in reads or first in reads or second in reads:
        return None
    return _product(condition, first, second, shape_of(value), axes, shape_of(condition))


def _selected_log(
    value: Variable, axes: Shape, reads: Set[Variable], shape_of: ShapeOf
) -> Variable | None:
    """The sum of log(sum_k switch(c_k, a_k, 0)), c_k telling whether an entry is the number k."""
    total = value.owner.inputs[0]
    if total.owner is None or not isinstance(total.owner.op, Sum):
        return None
    inner, over = total.owner.inputs[0], total.owner.op.axis
    if over is None or len(over) != 1 or not isinstance(scalar_op(inner), ps.Switch):
        return None
    condition, chosen, other = inner.owner.inputs
    is_zero = isinstance(_base(other), Constant) and not np.any(_base(other).data)
    if not is_zero or condition not in reads or chosen in reads:
        return None
    if not _is_one_hot(condition, over[0], reads):
        return None
    lifted = tuple(k if k < over[0] else k + 1 for k in axes)
    logs = pt.maximum(pt.log(chosen), LEAST_LOG)
    found = _product(condition, logs, other, shape_of(inner), (*lifted, *over), shape_of(condition))
    if found is None:
        return None
    known = pt.all(pt.any(pt.neq(condition, 0), axis=over), axis=axes)
    return pt.switch(known, found, -np.inf)


def _is_one_hot(condition: Variable, axis: int, reads: Set[Variable]) -> bool:
    """Whether a condition compares an entry with different constants along an axis."""
    if not isinstance(scalar_op(condition), ps.EQ):
        return False
    left, right = condition.owner.inputs
    entry, levels = (left, right) if left in reads else (right, left)
    base = _base(levels)
    alone = entry.type.ndim == condition.type.ndim and entry.type.broadcastable[axis]
    return alone and isinstance(base, Constant) and np.unique(base.data).size == base.data.size


def _base(variable: Variable) -> Variable:
    """What is below added axes."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    return variable


def _undefined(branch: Variable) -> float | None:
    """The value of a branch that is one constant and no finite number."""
    base = _base(branch)
    if not isinstance(base, Constant) or np.size(base.data) != 1:
        return None
    found = float(np.ravel(base.data)[0])
    return None if np.isfinite(found) else found


def _product(
    condition: Variable, first: Variable, second: Variable, shape: Shape, axes: Shape, own: Shape
) -> Variable | None:
    """sum b + (a - b) c, where the condition has no axis of its own besides those summed over."""
    kept = [k for k in range(len(shape)) if k not in axes]
    if any(own[k] != 1 for k in kept) or any(own[k] != shape[k] for k in axes):
        return None
    size = int(np.prod([shape[k] for k in axes], dtype=int))
    like = pt.constant(np.zeros(shape))
    chosen = pt.neq(condition, 0).astype("float64").dimshuffle(*axes, *kept).reshape((size,))
    gap = pt.second(like, first - second).dimshuffle(*kept, *axes).reshape((-1, size))
    whole = pt.dot(gap, chosen).reshape([shape[k] for k in kept])
    return whole + pt.second(like, second).sum(axis=axes)
