"""Points of the probability simplex inside a box."""

from __future__ import annotations

import numpy as np

HALVINGS = 200


def onto_simplex(target: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Shift each row of `target` by one number and clip it into the box, so that it sums to one.

    Parameters
    ----------
    target, lower, upper : array, shape (..., k)
        ``sum(lower) <= 1 <= sum(upper)`` in each row.

    Returns
    -------
    array, shape (..., k)
        The nearest such point in Euclidean distance, to rounding.
    """
    low = np.full((*target.shape[:-1], 1), -2.0 - np.max(np.abs(target)))
    high = -low
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        over = np.clip(target + middle, lower, upper).sum(axis=-1, keepdims=True) > 1.0
        low, high = np.where(over, low, middle), np.where(over, middle, high)
    return np.clip(target + low, lower, upper)
