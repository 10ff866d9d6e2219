"""Arrays written into a graph that could hold values of records."""

from __future__ import annotations

import numpy as np
from collections.abc import Iterable, Sequence
from pytensor.graph.basic import Variable
from pytensor.tensor.variable import TensorConstant
from pymc_private.analysis.traversal__own_names import own_name
from pymc_private.models.data_variables import every_ancestor, plain_shared

PLACES = {
    **dict.fromkeys(("Reshape", "Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1"), 1),
    **dict.fromkeys(("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1"), 2),
}
"""PyTensor's Ops, and their first input that says where and not what."""


def written_arrays(outs: Iterable[Variable], n: int, known: Iterable[Variable]) -> list[Variable]:
    """Arrays written into a graph that could hold values of records.

    Shared ones that are not `known`, constants of several numbers, and any with n entries or more.
    Fewer whole numbers that are read as places alone are indexes.
    """
    outs = list(outs)
    every = list(every_ancestor(outs))
    values = read_as_values(every)
    found: list[Variable] = [
        v
        for v in every
        if isinstance(v, TensorConstant)
        and (np.size(v.data) >= n or (np.size(v.data) > 1 and v in values))
    ]
    return found + plain_shared(outs, known)


def read_as_values(every: Sequence[Variable]) -> set[Variable]:
    """Variables that some Op reads, and not as places of another's entries."""
    found = set()
    for node in {v.owner: None for v in every if v.owner is not None}:
        found |= set(node.inputs[: PLACES.get(own_name(node.op), len(node.inputs))])
    return found
