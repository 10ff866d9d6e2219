r"""What the noise of a curvature with known zeros does to released scores (T36).

The noise N of H~ is symmetric, with standard deviation tau on the diagonal, tau/sqrt 2 elsewhere,
and 0 where zeros are known. Rounds t add P_t N e_t to the projected numbers, e_t = E_t m_t, which
is linear in the entries of N. One column for each entry i <= j,

    b_ij = tau / sqrt 2 sum_t (P_t[:, i] e_t[j] + P_t[:, j] e_t[i]),
    b_ii = tau sum_t P_t[:, i] e_t[i],

gives the covariance sum b_ij b_ij'. Without zeros that is the covariance of `RoundNoise`, which
costs less then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor.tensor as pt

Pullback = Callable[[np.ndarray], np.ndarray]


class StructuredNoise:
    """Covariance of projected numbers from the noise of a curvature with known zeros.

    Value and derivatives, as of `RoundNoise` and of `score_slopes.NoiseSlopes`.

    Parameters
    ----------
    sd : float
        tau.
    scaling : array, shape (T, p, p)
        E_t.
    projection : array, shape (T, k, p)
        P_t.
    pairs : bool array, shape (p, p)
        Entries with noise.
    """

    def __init__(
        self, sd: float, scaling: np.ndarray, projection: np.ndarray, pairs: np.ndarray
    ) -> None:
        self.sd, self.scaling, self.projection, self.pairs = sd, scaling, projection, pairs
        rounds, self.k, p = projection.shape
        i, j = np.nonzero(np.tril(pairs))
        self.entries = len(i)
        size = np.where(i == j, 0.5, np.sqrt(0.5)) * sd
        columns, rows = np.swapaxes(scaling, 1, 2), projection
        found = columns[:, :, None, j] * rows[:, None, :, i]
        found += columns[:, :, None, i] * rows[:, None, :, j]
        self.map = (found * size).reshape(rounds * p, self.k * self.entries)

    def columns(self, means: np.ndarray) -> np.ndarray:
        """The columns b at means of shape (S, T, p), shape (S, k, entries)."""
        flat = means.reshape(len(means), -1) @ self.map
        return np.asarray(flat).reshape(-1, self.k, self.entries)

    def covariance(self, means: np.ndarray) -> np.ndarray:
        """The covariance at means of shape (S, T, p), shape (S, k, k)."""
        columns = self.columns(means)
        return columns @ np.swapaxes(columns, 1, 2)

    def __call__(self, means: np.ndarray) -> tuple[np.ndarray, Pullback]:
        """The covariance at means (T, p), and what takes M to derivatives of <M, C>."""
        columns = self.columns(means[None])[0]

        def pullback(outer: np.ndarray) -> np.ndarray:
            return np.asarray(self.map @ (2.0 * outer @ columns).ravel())

        return columns @ columns.T, pullback

    def symbolic(self, means: Any) -> Any:
        """The covariance as a graph of means (T, p)."""
        columns = pt.dot(means.flatten(), self.map).reshape((self.k, self.entries))
        return pt.dot(columns, columns.T)
