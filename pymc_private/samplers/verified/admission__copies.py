"""Graphs that copy numbers and compute none: their values are exact in floats."""

from __future__ import annotations

import numpy as np
from typing import Any
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast, Identity, Mul, Neg, Second
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedIncSubtensor, IncSubtensor
from pymc_private.analysis.intervals.arrays import TAKE

FIRST = (Alloc, DimShuffle, Reshape, ScalarFromTensor, SpecifyShape, TensorFromScalar, *TAKE)
"""Ops that copy their first input; the others are sizes and indices."""


def is_copied(variable: Variable) -> bool:
    """Whether every element is a constant, an input's element, or one times a power of two.

    Of a double that is exact; indices may be computed, from whole numbers.

    Parameters
    ----------
    variable : Variable

    Returns
    -------
    bool
        False also where it is not known.
    """
    node = variable.owner
    if node is None:
        return True
    op: Any = node.op
    if isinstance(op, FIRST):
        return is_copied(node.inputs[0]) and _are_whole(node.inputs[1:])
    if isinstance(op, Join | MakeVector):  # some versions hold the axis among the inputs
        return all(map(is_copied, node.inputs))
    if isinstance(op, IncSubtensor):
        fresh = op.set_instead_of_inc or _adds_to_zeros(node)
        return fresh and all(map(is_copied, node.inputs[:2])) and _are_whole(node.inputs[2:])
    if isinstance(op, AdvancedIncSubtensor):
        single = len(node.inputs) == 3 and set(node.inputs[2].type.shape) <= {1}
        fresh = op.set_instead_of_inc or (single and _is_zero(node.inputs[0]))
        return fresh and all(map(is_copied, node.inputs[:2])) and _are_whole(node.inputs[2:])
    return isinstance(op, Elemwise) and _is_copied_each(op.scalar_op, node)


def _is_copied_each(op: Any, node: Apply) -> bool:
    if isinstance(op, Cast):
        return node.outputs[0].type.dtype == "float64" and is_copied(node.inputs[0])
    if isinstance(op, Identity | Neg):
        return is_copied(node.inputs[0])
    if isinstance(op, Second):
        return is_copied(node.inputs[1])
    if isinstance(op, Mul):
        others = [v for v in node.inputs if not _is_power_of_two(v)]
        return len(others) <= 1 and all(map(is_copied, others))
    return False


def _are_whole(variables: list[Variable]) -> bool:
    kinds = {str(getattr(v.type, "dtype", "int64"))[0] for v in ancestors(variables)}
    return kinds <= set("iub")


def _value(variable: Variable) -> np.ndarray | None:
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle | Alloc):
        variable = variable.owner.inputs[0]
    return np.asarray(variable.data) if isinstance(variable, Constant) else None


def _is_power_of_two(variable: Variable) -> bool:
    value = _value(variable)
    return value is not None and bool(np.all(np.isin(np.abs(np.frexp(value)[0]), (0.0, 0.5))))


def _is_zero(variable: Variable) -> bool:
    value = _value(variable)
    return value is not None and bool(np.all(value == 0.0))


def _adds_to_zeros(node: Apply) -> bool:
    """Whether an increment is of elements that are zero: each place of a row of them is another."""
    places: list[tuple[int, ...] | None] = []
    base: Variable = node.outputs[0]
    while base.owner is not None and isinstance(base.owner.op, IncSubtensor):
        places.append(_place(base.owner))
        base = base.owner.inputs[0]
    if not _is_zero(base):
        return False
    known = [place for place in places if place is not None]
    return len(places) == 1 or len(known) == len(places) == len(set(known))


def _place(node: Apply) -> tuple[int, ...] | None:
    """The one element that is incremented, if it is known."""
    op: Any = node.op
    if any(isinstance(index, slice) for index in op.idx_list):
        return None
    values = [_value(v) for v in node.inputs[2:]]
    numbers = [int(v) for v in values if v is not None and v.ndim == 0 and v >= 0]
    whole = len(numbers) == len(values) == node.inputs[0].type.ndim
    return tuple(numbers) if whole else None
