"""Conditions that one walk over a box cannot prove: it is cut until each piece is proved."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Mapping
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pymc_private.analysis.intervals.propagation import bounds
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.logic import truth

MOST_PIECES, MOST_COORDINATES = 4096, 12


def holds_in_pieces(condition: Variable, box: Mapping[Variable, Interval]) -> bool:
    """Whether a condition is true everywhere on a box, proved piece by piece.

    Parameters
    ----------
    condition : Variable
    box : mapping of Variable to Interval
        Of every input.

    Returns
    -------
    bool
        False where it is not proved with `MOST_PIECES` pieces. The pieces cover the box, so what
        holds on each of them holds on it.
    """
    read = set(ancestors([condition]))
    leaves = [v for v in box if v in read]
    pieces = _Pieces(leaves, box)
    if not leaves or pieces.count > MOST_COORDINATES or not pieces.is_finite:
        return False
    many = {
        v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name) for v in leaves
    }
    try:
        (graph,) = vectorize_graph([condition], replace=many)
    except NotImplementedError:
        return False
    lower, upper, tried = pieces.lower[None], pieces.upper[None], 0
    while len(lower):
        tried += len(lower)
        given = {many[v]: fact for v, fact in pieces.facts(lower, upper).items()}
        proved = np.asarray(truth(bounds([graph], given)[graph]).lower)
        proved = np.broadcast_to(proved.reshape(*proved.shape[:1], -1).all(-1), len(lower))
        lower, upper, parted = pieces.halved(lower[~proved], upper[~proved])
        if not parted or tried + len(lower) > MOST_PIECES:
            return False
    return True


class _Pieces:
    """Boxes as rows of ends, one number for each entry of each variable."""

    def __init__(self, leaves: list[Variable], box: Mapping[Variable, Interval]) -> None:
        self._leaves, self._shapes = leaves, [np.shape(box[v].lower) for v in leaves]
        ends = [(np.ravel(box[v].lower), np.ravel(box[v].upper)) for v in leaves]
        self.lower = np.concatenate([low for low, _ in ends] or [np.empty(0)]).astype(float)
        self.upper = np.concatenate([high for _, high in ends] or [np.empty(0)]).astype(float)
        whole = [np.full(len(low), _is_whole(v)) for v, (low, _) in zip(leaves, ends, strict=True)]
        self._whole = np.concatenate(whole or [np.empty(0, bool)])
        self.count = len(self.lower)
        self.is_finite = bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    def facts(self, lower: np.ndarray, upper: np.ndarray) -> dict[Variable, Interval]:
        """Intervals of the variables, all pieces along a leading axis."""
        found, start = {}, 0
        for variable, shape in zip(self._leaves, self._shapes, strict=True):
            place = slice(start, start := start + int(np.prod(shape)))
            low, high = (end[:, place].reshape(len(lower), *shape) for end in (lower, upper))
            found[variable] = Interval(low, high)
        return found

    def halved(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Both halves of each piece, across its relatively widest coordinate; whether all part."""
        rows = np.arange(len(lower))
        width = self.upper - self.lower
        share = (upper - lower) / np.where(width > 0.0, width, 1.0)
        axis = share.argmax(axis=1)
        middle = lower[rows, axis] / 2 + upper[rows, axis] / 2
        whole = self._whole[axis]
        left, right = upper.copy(), lower.copy()
        left[rows, axis] = np.where(whole, np.floor(middle), middle)
        right[rows, axis] = np.where(whole, np.floor(middle) + 1.0, middle)
        parted = bool(np.all(left[rows, axis] < upper[rows, axis]))
        return np.concatenate([lower, right]), np.concatenate([left, upper]), parted


def _is_whole(variable: Variable) -> bool:
    return not str(variable.type.dtype).startswith("float")
