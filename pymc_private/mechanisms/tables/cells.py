"""True counts given noisy ones: the law of each cell on a grid, tilted until cells agree on a sum.

Cells of a family are a priori Dirichlet-multinomial, n! Gamma(A) / Gamma(A + n) times a product of
Gamma(n_i + a) / (n_i! Gamma(a)); noise multiplies each factor by its density. Given the sum, cells
are independent up to that condition, so an exponential tilt e^(lambda n) that gives them the right
mean sum gives nearly the right marginals, and is removed exactly where draws are made. All of this
is post-processing of noisy counts (T26).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from pymc_private.mechanisms.tables.cell_priors import (
    bin_mean,
    each_log_prior,
    log_prior,
    log_priors,
)

STEEP = 64
"""Bins that begin at so many of their steps have their mean in the middle, whatever the prior."""
MOST_FACTOR, LEAST_SUM = 600.0, 1e-290
"""Logarithm of a factor, and share of the largest factor, up to which products of weights and
factors are those of their logarithms: what they lose is below 1e-15 of a sum."""


@dataclass(frozen=True)
class Cells:
    """Laws of cells on their grids.

    Attributes
    ----------
    low : array of int, shape (rows, d)
        First count of each grid.
    step : array of int, shape (rows,)
        Counts in a bin; bin j of a cell holds low + step j, ..., low + step (j + 1) - 1.
    logs : array, shape (rows, d, w)
        Logarithms of weights, prior times noise.
    most_tilt, least_tilt : float, or array, shape (rows,)
    times : array, shape (rows, d), or 1
        How many cells each law stands for: cells of one noisy count have one law.
    prior : float or array, shape (rows, d) or (rows, 1)
        Prior parameter of a cell; 1 before there is one.
    """

    low: np.ndarray
    step: np.ndarray
    logs: np.ndarray
    most_tilt: float | np.ndarray
    least_tilt: float | np.ndarray
    times: np.ndarray | int = 1
    prior: float | np.ndarray = 1.0

    @cached_property
    def middle(self) -> np.ndarray:
        """Means of the bins under the prior, shape (rows, d, w)."""
        found = self._first + 0.5 * (self.step[:, None, None] - 1.0)
        found[..., 0] += self.shift
        return np.asarray(found)

    @property
    def steep(self) -> np.ndarray:
        """Whether the prior is not nearly level over the first bin, shape (rows, d)."""
        return np.asarray(self.low < STEEP * self.step[:, None])

    @cached_property
    def shift(self) -> np.ndarray:
        """How far the mean of the first bin is from its middle, shape (rows, d).

        A prior of a small parameter has the counts of a bin that begins at 0 near 0.
        """
        step, a = self.step[:, None], np.broadcast_to(self.prior, self.low.shape)
        found = np.zeros(self.low.shape)
        near = self.steep & (step > 1)
        if near.any():
            low, wide = self.low[near], np.broadcast_to(step, near.shape)[near]
            found[near] = bin_mean(low, wide, a[near]) - (low + 0.5 * (wide - 1.0))
        return found

    def with_prior(self, a: float | np.ndarray) -> Cells:
        """Multiply by the prior of each cell; its parameter is one number, or one for each cell."""
        if isinstance(a, np.ndarray):
            prior = log_priors(self.low, self.step, a, self.width)
        else:
            prior = log_prior(self.low, self.step, a, self.width)
        return replace(self, logs=self.logs + prior, prior=a)

    @property
    def _first(self) -> np.ndarray:
        """First counts of the bins, shape (rows, d, w)."""
        return np.asarray(self.low[..., None] + self.step[:, None, None] * np.arange(self.width))

    @property
    def width(self) -> int:
        """Bins of a cell."""
        return int(self.logs.shape[-1])

    def with_each(self, priors: Sequence[float]) -> Cells:
        """Multiply one row by several priors: a row for each."""
        logs = self.logs + each_log_prior(self._first[0], int(self.step[0]), tuple(priors))
        low, step = np.repeat(self.low, len(logs), 0), np.repeat(self.step, len(logs))
        return replace(self, low=low, step=step, logs=logs, prior=np.array(priors)[:, None])

    def flat(self) -> Cells:
        """Take all cells, of rows of one step, as one row."""
        a = self.prior.reshape(1, -1) if isinstance(self.prior, np.ndarray) else self.prior
        return replace(
            self, low=self.low.reshape(1, -1), step=self.step[:1],
            logs=self.logs.reshape(1, -1, self.width), prior=a,
        )  # fmt: skip

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights as shares of the largest of their cell, and its logarithm."""
        top = self.logs.max(axis=-1, keepdims=True)
        weights = self.logs - top
        return np.exp(weights, out=weights), top[..., 0]

    def probabilities(self, tilt: np.ndarray) -> np.ndarray:
        """Give the laws times e^(tilt n), shape (rows, d, w)."""
        return np.asarray(special.softmax(self.logs + tilt[:, None, None] * self.middle, axis=-1))

    def moments(self, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give means, variances and log sums of the laws times e^(tilt n), shape (rows, d).

        A tilt is one factor for each bin of a row, so a search for the right one costs a product of
        matrices for each step. Where a factor or a sum would leave what a double can hold, weights
        are formed from their logarithms.
        """
        bins, powers = _powers(self.width)
        each = (self.step * tilt)[:, None]
        most = bins[-1] * np.maximum(each, 0.0)
        weights, logs = self._weights
        sums = None
        if most.max() < MOST_FACTOR:
            factors = np.exp(each * bins)[:, None] * powers
            sums = weights @ factors.swapaxes(-1, -2)
        if sums is None or (sums[..., 0] + weights[..., 0] < LEAST_SUM * np.exp(most)).any():
            weights = self.logs + each[..., None] * bins
            logs = weights.max(axis=-1)
            weights = np.exp(weights - logs[..., None])
            sums = weights @ powers.T
        step = self.step[:, None].astype(float)  # its square may be no integer of 64 bits
        away = self.shift / self.step[:, None]
        moved = weights[..., 0] * np.exp(each * away)
        total = sums[..., 0] + moved
        up = (sums[..., 1] + moved * away) / total
        square = (sums[..., 2] + moved * away**2) / total
        first = self.low + 0.5 * (step - 1)
        logs = np.log(total) + logs + tilt[:, None] * first
        return first + step * up, step**2 * np.maximum(square - up**2, 0.0), logs


@lru_cache(maxsize=256)
def _powers(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the bins, and their powers 0, 1, 2 but of the first, shape (3, w)."""
    bins = np.arange(width, dtype=float)
    return bins, np.stack([np.sign(bins), bins, bins**2])
