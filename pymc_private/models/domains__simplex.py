"""Rows of a given sum inside a box: probabilities, effects that sum to zero."""

from __future__ import annotations

import numpy as np

HALVINGS = 80


def onto_simplex(
    target: np.ndarray, lower: np.ndarray, upper: np.ndarray, total: float = 1.0
) -> np.ndarray:
    """Shift each row of `target` by one number and clip it into the box, so that it sums to one.

    Parameters
    ----------
    target, lower, upper : array, shape (..., k)
        ``sum(lower) <= total <= sum(upper)`` in each row.
    total : float
        Another sum.

    Returns
    -------
    array, shape (..., k)
        The nearest such point in Euclidean distance, to rounding.
    """
    low = (lower - target).min(axis=-1, keepdims=True)
    high = (upper - target).max(axis=-1, keepdims=True)
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        over = np.clip(target + middle, lower, upper).sum(axis=-1, keepdims=True) > total
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.clip(target + low, lower, upper)
