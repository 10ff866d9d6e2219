"""Powers of symmetric matrices, and a noisy one pulled towards a public shape."""

from __future__ import annotations

import numpy as np

LEAST_RELATIVE_EIGENVALUE = 1e-9
"""Eigenvalues below this share of the largest are raised to it before a power is taken."""


def symmetric_part(matrix: np.ndarray) -> np.ndarray:
    """The mean of a matrix and its transpose."""
    return (matrix + np.swapaxes(matrix, -1, -2)) / 2.0


def matrix_power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """A real power of a positive semidefinite matrix, small eigenvalues raised."""
    values, vectors = np.linalg.eigh(symmetric_part(matrix))
    least = max(1e-300, LEAST_RELATIVE_EIGENVALUE * values[-1])
    return (vectors * np.maximum(values, least) ** exponent) @ vectors.T


def floor_eigenvalues(matrix: np.ndarray, least: float) -> np.ndarray:
    """The matrix with eigenvalues below `least` raised to it."""
    values, vectors = np.linalg.eigh(symmetric_part(matrix))
    return (vectors * np.maximum(values, least)) @ vectors.T


def shrink(
    noisy: np.ndarray, public: np.ndarray, sd: float, most: float, entries: int
) -> tuple[np.ndarray, float]:
    """A noisy matrix pulled towards the shape of a public one, and the weight of the latter.

    With T the public matrix scaled to the trace of the noisy H, the result is
    (1 - lambda) H + lambda T, lambda = E|noise|_F^2 / |H - T|_F^2 and at most `most`. The noise
    that remains has standard deviation (1 - lambda) sd; what the public shape gets wrong is charged
    for by the caller, who takes sd sqrt(1 - lambda). `entries` on and below the diagonal are noisy,
    the others known.
    """
    target = public * (np.trace(noisy) / np.trace(public))
    distance = float(((noisy - target) ** 2).sum())
    weight = min(most, sd**2 * entries / max(distance, 1e-300))
    return (1.0 - weight) * noisy + weight * target, weight
