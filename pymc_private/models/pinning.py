"""Whether rows of a record graph may be exchanged, or something public tells them apart."""

from __future__ import annotations

from collections.abc import Sequence

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
    """Whether a row's bound depends on which row it is.

    Parameters
    ----------
    record : Variable, shape (n,)
        One record's log-likelihood, private variables symbolic.
    n : int
        Number of records in the model.

    Returns
    -------
    bool
        True if a public array has an axis of length n, or if a length or a position along an axis
        enters a number (rather than a shape or an index). Then the graph is walked with all n rows.
    """
    baked = bool(constants_with_axis([record], n, skip=()))
    public = any(n in np.shape(v.get_value(borrow=True)) for v in public_data([record]))
    return baked or public or _counts_rows(record)


CARRY = (MakeVector, ScalarFromTensor, TensorFromScalar, DimShuffle)
"""Ops that pass a length on unchanged."""


def _counts_rows(record: Variable) -> bool:
    """Whether a length or a position is used as a number."""
    nodes = {v.owner for v in ancestors([record]) if v.owner is not None}
    return any(
        _is_length(v) and not _harmless(node, position)
        for node in nodes
        for position, v in enumerate(node.inputs)
    )


def _is_length(variable: Variable) -> bool:
    """Whether a variable holds lengths or positions along a records axis."""
    node = variable.owner
    if node is None:
        return False
    if isinstance(node.op, Shape | Shape_i | ARange):
        return True
    carries = isinstance(node.op, (*CARRY, TAKE[0]))
    return carries and any(_is_length(v) for v in node.inputs)


def _harmless(node: Apply, position: int) -> bool:
    """Whether this input of the node is a shape, a range or an index, not a number."""
    if isinstance(node.op, (ARange, *CARRY)):
        return True
    if isinstance(node.op, (Alloc, Reshape, SpecifyShape, *TAKE[1:])):
        return position >= 1
    return isinstance(node.op, TAKE[0])
