"""Predictors that meet in a function that is not affine in them together: seen at two points.

A slope that reads no other predictor has one value wherever the others are. Where its intervals at
two points are apart, it reads them for certain, and no rewrite of the graph would find otherwise.
"""

from __future__ import annotations

import numpy as np
import pytensor
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, bounds
from pymc_private.models.record_likelihood import Column

STEP = 0.625
"""How far a predictor is moved toward its upper end, as a share of the way from the middle."""


def meeting(
    value: Variable,
    inputs: Sequence[Variable],
    ends: Mapping[Variable, Bounds],
    columns: Sequence[Column],
) -> list[Variable]:
    """The inputs that are proved to meet; there may be more.

    Parameters
    ----------
    value : Variable, scalar
        Any form of the function.
    inputs : sequence of Variable
        The predictors.
    ends : mapping of Variable to Bounds
        Of each predictor; they may be infinite.
    columns : sequence of Column
        All other inputs.

    Returns
    -------
    list of Variable
        In the order of `inputs`.
    """
    given = _one_record(columns)
    if given is None or len(inputs) < 2:
        return []
    try:
        slopes = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # of an Op that is not ours
        return []
    middle = {u: _at(ends[u], 0.0) for u in inputs}
    before = bounds(slopes, given | middle)
    met: set[Variable] = set()
    for u in inputs:
        after = bounds(slopes, given | middle | {u: _at(ends[u], STEP)})
        for v, slope in zip(inputs, slopes, strict=True):
            if v is not u and _are_apart(before[slope], after[slope]):
                met |= {u, v}  # d/du of dh/dv is d/dv of dh/du
    return [u for u in inputs if u in met]


def inside(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """A point between ends that may be infinite, at neither of them."""
    low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0, -1.0))
    high = np.where(np.isfinite(upper), upper, low + 2.0)
    return np.asarray((low + high) / 2.0)


def _at(ends: Bounds, step: float) -> Bounds:
    middle = inside(ends.lower, ends.upper)
    room = np.where(np.isfinite(ends.upper), ends.upper - middle, 1.0)
    return Bounds.point(middle + step * room)


def _one_record(columns: Sequence[Column]) -> dict[Variable, Bounds] | None:
    """Some record of the domain; None where rows have sums, or ends are infinite."""
    given = {}
    for c in columns:
        if c.bounds.within is not None or not c.bounds.is_finite:
            return None
        low, _ = c.ends()
        given[c.variable] = Bounds.point(
            np.asarray(c.interval(low[None], low[None]).lower[0], c.variable.type.dtype)
        )
    return given


def _are_apart(first: Bounds, second: Bounds) -> bool:
    return bool(np.any((first.upper < second.lower) | (second.upper < first.lower)))
