"""From a point of a box to one that records and parameters can be."""

from __future__ import annotations

import numpy as np
from pymc_private.analysis import SimplexRows
from pymc_private.certificates.range_objective__atoms import Atoms, beside
from pymc_private.models.record_likelihood import Column, Coordinates
from pymc_private.models.domains__simplex import onto_simplex

def allowed(points: np.ndarray, coordinates: Coordinates, atoms: Atoms) -> np.ndarray:
    """Points whose rows have their sums, and whose entries are of the kind they are said to be.

    Parameters
    ----------
    points : array, shape (N, D)
    coordinates : Coordinates
    atoms : Atoms
        See `certificates.range_objective__atoms`.

    Returns
    -------
    array, shape (N, D)
    """
    points = points.copy()
    columns = {column.variable: column for column in coordinates.columns}
    for (variable, copy), place in coordinates.places.items():
        column = columns[variable]
        ends = coordinates.lower[place], coordinates.upper[place]
        if has_sums(column):
            points[:, place] = _with_sums(column, points[:, place], *ends)
        if variable in atoms and (atoms[variable][0], copy) in coordinates.places:
            which, levels = atoms[variable]
            kind = points[:, coordinates.places[which, copy]]
            middle = float(ends[0][0] / 2 + ends[1][0] / 2)
            points[:, place] = beside(levels, kind, points[:, place], middle)
    return points


def has_sums(column: Column) -> bool:
    """Whether rows are counts of a known sum, probabilities, or effects that sum to zero."""
    if column.total is not None:
        return True
    rows = column.bounds.within
    if not isinstance(rows, SimplexRows) or column.levels is not None:
        return False
    return column.is_whole or rows.total == 1.0


def _with_sums(
    column: Column, points: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """The nearest probabilities; or counts, one entry after the other moved as far as it takes."""
    width = np.shape(column.bounds.lower)[-1]
    rows = points.reshape(len(points), -1, width).copy()
    low, high = (np.broadcast_to(end.reshape(-1, width), rows.shape) for end in (lower, upper))
    if not column.is_whole:
        total = 1.0 if column.total is None else column.total
        return onto_simplex(rows, low, high, total).reshape(points.shape)
    total = float(column.bounds.within.total)  # type: ignore[union-attr]
    for k in range(width):
        missing = total - rows.sum(axis=-1)
        rows[..., k] += np.clip(missing, low[..., k] - rows[..., k], high[..., k] - rows[..., k])
    return rows.reshape(points.shape)
