"""Public arrays with one entry per row: their distinct rows, or few boxes around them."""

from __future__ import annotations

import numpy as np
from collections.abc import Sequence

MOST_ROWS = 4096
"""Distinct rows that are bounded one by one; more are put into fewer boxes."""


def distinct_rows(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The distinct rows of arrays laid side by side.

    Parameters
    ----------
    arrays : sequence of array, shape (n, ...)

    Returns
    -------
    array, shape (rows, entries)
        One row without entries if there are no arrays.
    """
    if not arrays:
        return np.empty((1, 0))
    flat = [np.reshape(array, (len(array), -1)).astype(float) for array in arrays]
    return np.unique(np.concatenate(flat, axis=1), axis=0)


def boxes_around(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes around rows: one for each, or around neighbors if there are too many."""
    groups = [rows]
    while len(rows) > MOST_ROWS and len(groups) < MOST_ROWS:
        groups = [half for group in groups for half in _halved(group)]
    if len(rows) <= MOST_ROWS:
        return rows, rows
    return (
        np.stack([group.min(axis=0) for group in groups]),
        np.stack([group.max(axis=0) for group in groups]),
    )


def _halved(rows: np.ndarray) -> list[np.ndarray]:
    """Both halves across the widest column."""
    if len(rows) == 1:
        return [rows]
    axis = int(np.argmax(np.ptp(rows, axis=0)))
    ordered = rows[np.argsort(rows[:, axis], kind="stable")]
    return [ordered[: len(rows) // 2], ordered[len(rows) // 2 :]]
