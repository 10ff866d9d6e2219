"""The number of records, where a model writes it out, read off the data instead."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Mapping
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.variable import TensorConstant
from pymc_private.analysis import simplify
from pymc_private.analysis.traversal__rebuild import rebuild

def of_any_count(record: Variable, axes: Mapping[Variable, int], n: int) -> Variable:
    """A graph that is the given one at n records, and may say what it is at other counts.

    `pt.zeros((n, 1))` beside the scores of other classes, a reshape to n rows, and the positions
    0, 1, ..., n - 1 hold on to the model's own number of records. Here n comes from the length of
    a private variable. What rows compute then is for a proof to say (`pinning.is_pinned`).

    Parameters
    ----------
    record : Variable
    axes : mapping of Variable to int
        The private inputs, and their records axes.
    n : int
        Number of records in the model.

    Returns
    -------
    Variable
        The given one if no n is written in it.
    """
    variable, axis = next(iter(axes.items()))
    size = variable.shape[axis]

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, Alloc) and any(_is(v, n) for v in node.inputs[1:]):
            return pt.alloc(inputs[0], *(size if _is(v, n) else v for v in inputs[1:]))
        if isinstance(node.op, Reshape) and isinstance(node.inputs[1], TensorConstant):
            sizes = [int(k) for k in node.inputs[1].data]
            if n in sizes:
                return inputs[0].reshape([size if k == n else k for k in sizes])
        if isinstance(node.op, SpecifyShape):
            return inputs[0]
        return None

    positions = {v: _positions(v, n, size) for v in ancestors([record]) if _counts_up(v, n)}
    found = rebuild([record], positions, rule)[0]
    return record if found is record else simplify([found])[0]


def _is(variable: Variable, n: int) -> bool:
    return isinstance(variable, TensorConstant) and variable.data.size == 1 and variable.data == n


def _counts_up(variable: Variable, n: int) -> bool:
    """Whether a constant is 0, 1, ..., n - 1 along one axis, of whole numbers."""
    if not (isinstance(variable, TensorConstant) and variable.data.size == n > 1):
        return False
    whole = np.issubdtype(variable.data.dtype, np.integer)
    return n in variable.data.shape and whole and np.array_equal(variable.data.ravel(), range(n))


def _positions(constant: TensorConstant, n: int, size: Variable) -> Variable:
    axis = constant.data.shape.index(n)
    others = tuple(a for a in range(constant.data.ndim) if a != axis)
    return pt.expand_dims(pt.arange(size, dtype=constant.type.dtype), others)
