"""Label rules of indexing: the record that x[i] reads, when x or i is private."""

from __future__ import annotations

import numpy as np
from collections.abc import Sequence
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor.subtensor import Subtensor
from pymc_private.analysis.intervals.dispatch import perform
from pymc_private.analysis.intervals.arrays import PUT, TAKE
from pymc_private.analysis.record_dependence import Concrete, Labels, is_array, is_labeled, join, join_all, join_over, label

def _take(op: Op, node: Apply, concrete: Concrete, x: Labels, *indexes: Labels) -> list[Labels]:
    """x[i]: an unknown index joins over the axes it indexes, and adds its own label."""
    variables = node.inputs[1:]
    unknown = [is_unknown(v, i, concrete) for v, i in zip(variables, indexes, strict=True)]
    arguments = _arguments(variables, indexes, concrete, unknown)
    if not any(unknown):
        return [np.asarray(perform(node, [x, *arguments])[0]).astype(np.int64)]
    layout = index_layout(node, [k for k, is_open in enumerate(unknown) if is_open])
    if layout is None:
        # An unknown slice bound, scalar position or mask moves whole blocks.
        return [np.full(concrete.shape(node.outputs[0]), join_all((x, *indexes)))]
    axes, start = layout
    over = tuple(axes[k] for k, is_open in enumerate(unknown) if is_open)
    merged = np.broadcast_to(join_over(x, over, keepdims=True), x.shape)
    taken = np.asarray(perform(node, [merged, *arguments])[0]).astype(np.int64)
    own = indexes[next(iter(axes))]
    for position in axes:
        own = join(own, indexes[position])
    return [join(taken, own.reshape(own.shape + (1,) * (taken.ndim - start - own.ndim)))]


def is_unknown(variable: Variable, fact: Labels, concrete: Concrete) -> bool:
    """Whether an index is private, or depends on the value of a parameter."""
    return is_labeled(fact) or (is_array(fact) and not concrete.is_fixed(variable))


def _arguments(
    variables: Sequence[Variable],
    facts: Sequence[Labels],
    concrete: Concrete,
    unknown: Sequence[bool],
) -> list[Any]:
    """Values of the index inputs: zero where unknown; slices and None are their own facts."""
    return [
        np.zeros_like(fact) if is_open else concrete(variable) if is_array(fact) else fact
        for variable, fact, is_open in zip(variables, facts, unknown, strict=True)
    ]


def index_layout(node: Apply, unknown: Sequence[int]) -> tuple[dict[int, int], int] | None:
    """Which axis of x each index array speaks of, and where their own axes stand in the result.

    Parameters
    ----------
    node : Apply
        An Op of the family of Subtensor.
    unknown : sequence of int
        Positions among the index inputs that have no known value.

    Returns
    -------
    tuple or None
        Axis of x by position among the index inputs; and the axis of the result at which the
        broadcast index arrays begin: NumPy puts them in the place of the first one if they stand
        side by side, and in front otherwise. None if an unknown index is no array of positions.
    """
    axes: dict[int, int] = {}
    places, axis = [], 0
    for place, entry in enumerate(_entries(node)):
        if isinstance(entry, int):
            axes[entry] = axis
            places.append(place)
        axis += entry is not np.newaxis
    masks = any(str(getattr(v.type, "dtype", "")) == "bool" for v in node.inputs[1:])
    if isinstance(node.op, Subtensor) or masks or any(k not in axes for k in unknown):
        return None
    together = places == list(range(places[0], places[0] + len(places)))
    return axes, places[0] if together else 0


def _entries(node: Apply) -> list[int | slice | None]:
    """What stands between the brackets: the position of an index array, a slice, or a new axis."""
    listed = getattr(node.op, "idx_list", None)
    if listed is not None:  # PyTensor 3, and basic indexing
        return [entry if isinstance(entry, int) else slice(None) for entry in listed]
    kinds = [type(v.type).__name__ for v in node.inputs[1:]]
    return [
        np.newaxis if kind == "NoneTypeT" else slice(None) if kind == "SliceType" else k
        for k, kind in enumerate(kinds)
    ]


def _put(
    op: Op, node: Apply, concrete: Concrete, x: Labels, y: Labels, *indexes: Labels
) -> list[Labels]:
    """x with y put at i: cells that are written join y's label; an unknown i may write anywhere."""
    variables = node.inputs[2:]
    unknown = [is_unknown(v, i, concrete) for v, i in zip(variables, indexes, strict=True)]
    if any(unknown):
        return [np.full(x.shape, join_all((x, y, *indexes)))]
    arguments = _arguments(variables, indexes, concrete, unknown)
    ones = perform(node, [np.zeros(x.shape), np.ones(np.shape(y)), *arguments])[0]
    touched = np.asarray(ones) != 0
    if getattr(op, "set_instead_of_inc", False):
        written = np.asarray(perform(node, [x.copy(), y, *arguments])[0]).astype(np.int64)
        return [np.where(touched, written, x)]
    return [np.where(touched, join(x, _added(node, x, y, arguments)), x)]


def _added(node: Apply, x: Labels, y: Labels, arguments: list[Any]) -> np.ndarray:
    """Labels of what is added: y's own where each cell gets one term, else the join of all."""
    counts = perform(node, [np.zeros(x.shape), np.ones(np.shape(y)), *arguments])[0]
    if np.max(counts, initial=0.0) > 1:
        return np.full(x.shape, join_all((y,)))
    return np.asarray(perform(node, [np.zeros_like(x), y, *arguments])[0]).astype(np.int64)


for _op in TAKE:
    label.register(_op, _take)
for _op in PUT:
    label.register(_op, _put)
