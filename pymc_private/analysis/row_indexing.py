"""Label rules of indexing: the record that x[i] reads, when x or i is private."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor.subtensor import Subtensor

from pymc_private.analysis.intervals.dispatch import perform
from pymc_private.analysis.intervals.indexing import PUT, TAKE
from pymc_private.analysis.rows import (
    Concrete,
    Labels,
    is_array,
    is_labeled,
    join,
    join_all,
    join_over,
    label,
)


def _take(op: Op, node: Apply, concrete: Concrete, x: Labels, *indexes: Labels) -> list[Labels]:
    """x[i]: a labeled index joins over the axes it indexes, and adds its own label."""
    private = [is_labeled(i) for i in indexes]
    variables = node.inputs[1:]
    if not any(private):
        arguments = _arguments(variables, indexes, concrete)
        return [np.asarray(perform(node, [x, *arguments])[0]).astype(np.int64)]
    axes = _indexed_axes(node)
    secret_axes = tuple(a for a, secret in zip(axes, private, strict=True) if secret)
    if isinstance(op, Subtensor) or any(axis is None for axis in secret_axes):
        # A private slice bound or scalar position moves whole blocks.
        return [np.full(concrete.shape(node.outputs[0]), join_all((x, *indexes)))]
    arguments = [
        np.zeros_like(fact) if secret else argument
        for fact, secret, argument in zip(
            indexes, private, _arguments(variables, indexes, concrete), strict=True
        )
    ]
    merged = np.broadcast_to(join_over(x, secret_axes, keepdims=True), x.shape)  # type: ignore[arg-type]
    taken = np.asarray(perform(node, [merged, *arguments])[0]).astype(np.int64)
    secrets = [fact for fact, secret in zip(indexes, private, strict=True) if secret]
    return [join(taken, _placed(axes, secrets, taken.ndim))]


def _arguments(
    variables: Sequence[Variable], facts: Sequence[Labels], concrete: Concrete
) -> list[Any]:
    """Values of the index inputs (slices and None are their own facts)."""
    pairs = zip(variables, facts, strict=True)
    return [concrete(variable) if is_array(fact) else fact for variable, fact in pairs]


def _indexed_axes(node: Apply) -> list[int | None]:
    """The axis of x that each index input speaks of; None for a part of a slice."""
    places = getattr(node.op, "idx_list", None)
    count = len(node.inputs) - 1
    if places is None:
        return list(range(count))
    axes: list[int | None] = [None] * count
    for axis, place in enumerate(places):
        if isinstance(place, int):
            axes[place] = axis
    return axes


def _placed(axes: list[int | None], secrets: list[np.ndarray], ndim: int) -> np.ndarray:
    """Index labels, laid along the axes of the result that the index arrays made."""
    own = secrets[0]
    for secret in secrets[1:]:
        own = join(own, secret)
    if axes == list(range(len(axes))):  # x[i, j, ...]: the index axes lead
        return own.reshape(own.shape + (1,) * (ndim - own.ndim))
    return join_all((own,))


def _put(
    op: Op, node: Apply, concrete: Concrete, x: Labels, y: Labels, *indexes: Labels
) -> list[Labels]:
    """x with y put at i: cells that are written join y's label; a labeled i may write anywhere."""
    if any(is_labeled(i) for i in indexes):
        return [np.full(x.shape, join_all((x, y, *indexes)))]
    arguments = _arguments(node.inputs[2:], indexes, concrete)
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
