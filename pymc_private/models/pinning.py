"""Whether rows of a record graph may be exchanged, or something public tells them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc, ARange, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape

from pymc_private.analysis.intervals.indexing import TAKE
from pymc_private.models.sources import constants_with_axis


def public_data(outs: Sequence[Variable]) -> list[Variable]:
    """Shared variables that are left: public data."""
    return [v for v in ancestors(list(outs)) if v.owner is None and hasattr(v, "get_value")]


def is_pinned(record: Variable, n: int) -> bool:
    """Whether a public array gives each row its own number.

    Parameters
    ----------
    record : Variable, shape (n,)
        One record's log-likelihood, private variables symbolic.
    n : int
        Number of records in the model.

    Returns
    -------
    bool
        True if a public array has an axis of length n. Then the graph is walked with all n rows.
    """
    if n <= 2:  # too few rows for the labels to tell a row from the whole
        return True
    baked = bool(constants_with_axis([record], n, skip=()))
    return baked or any(n in np.shape(v.get_value(borrow=True)) for v in public_data([record]))


def counted(record: Variable, data: Iterable[Variable]) -> list[Variable]:
    """Lengths and positions that are used as numbers, or to pick from what is not a record's own.

    A walk with another number of rows than the model has is only valid if all of these keep the
    values they have in the model.
    """
    private = set(data)
    nodes = {v.owner for v in ancestors([record]) if v.owner is not None}
    return [
        v
        for node in nodes
        for position, v in enumerate(node.inputs)
        if _is_length(v) and not _harmless(node, position, private)
    ]


CARRY = (MakeVector, ScalarFromTensor, TensorFromScalar, DimShuffle)
"""Ops that pass a length on unchanged."""


def _is_length(variable: Variable) -> bool:
    """Whether a variable holds lengths or positions."""
    node = variable.owner
    if node is None:
        return False
    if isinstance(node.op, Shape | Shape_i | ARange):
        return True
    carries = isinstance(node.op, (*CARRY, TAKE[0]))
    return carries and any(_is_length(v) for v in node.inputs)


def _harmless(node: Apply, position: int, private: set[Variable]) -> bool:
    """Whether this input only says how long, or which row of the records' own."""
    if isinstance(node.op, (ARange, *CARRY)):
        return True
    if isinstance(node.op, Alloc | Reshape | SpecifyShape):
        return position >= 1
    if isinstance(node.op, TAKE[0]) and _is_length(node.inputs[0]):
        return True
    if isinstance(node.op, tuple(TAKE)):
        return position >= 1 and any(v in private for v in ancestors([node.inputs[0]]))
    return False
