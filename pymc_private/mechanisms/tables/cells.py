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

from pymc_private.mechanisms.tables.cell_priors import each_log_prior, log_prior, log_priors
from pymc_private.privacy.noisy_counts import LAPLACE

FINE = 12.0
"""Scales up to this one are resolved count by count; beyond, a scale is 6 to 12 bins."""
BELOW, ABOVE = 14.0, 10.0
"""How far from the noisy count a true one is looked for, in scales of Gaussian noise."""
FAR = 28.0
"""The same for Laplace noise: at the largest tilt what is cut off weighs e^(-0.3 FAR)."""
MOST_TILT, LEAST_TILT = {LAPLACE: 0.7}, -60.0
"""Ends of the tilt, in reciprocal scales: upward those the windows are made for (6 for Gaussian
noise); downward there is the end at 0 where noise is large, and elsewhere no reason to go far."""
WIDE = 512
"""Bins of a cell at most, so that small counts are still told apart where noise is large."""
MOST_FACTOR, LEAST_SUM = 600.0, 1e-290
"""Logarithm of a factor, and share of the largest factor, up to which products of weights and
factors are those of their logarithms: what they lose is below 1e-15 of a sum."""


@dataclass(frozen=True)
class Cells:
    """Laws of cells on their grids.

    Attributes
    ----------
    low : array, shape (rows, d)
        First count of each grid.
    step : int
        Counts in a bin; bin j of a cell holds low + step j, ..., low + step (j + 1) - 1.
    logs : array, shape (rows, d, w)
        Logarithms of weights, prior times noise.
    most_tilt, least_tilt : float
    times : array, shape (rows, d), or 1
        How many cells each law stands for: cells of one noisy count have one law.
    """

    low: np.ndarray
    step: int
    logs: np.ndarray
    most_tilt: float
    least_tilt: float
    times: np.ndarray | int = 1

    @cached_property
    def middle(self) -> np.ndarray:
        """Middles of the bins, shape (rows, d, w)."""
        bins = self.step * np.arange(self.logs.shape[-1])
        return np.asarray(self.low[..., None] + bins + 0.5 * (self.step - 1))

    def with_prior(self, a: float | np.ndarray) -> Cells:
        """Multiply by the prior of each cell; its parameter is one number, or one for each cell."""
        if isinstance(a, np.ndarray):
            return replace(self, logs=self.logs + log_priors(self.low, self.step, a, self.width))
        return replace(self, logs=self.logs + log_prior(self._first, self.step, a))

    @property
    def _first(self) -> np.ndarray:
        """First counts of the bins, shape (rows, d, w)."""
        return np.asarray(self.low[..., None] + self.step * np.arange(self.width))

    @property
    def width(self) -> int:
        """Bins of a cell."""
        return int(self.logs.shape[-1])

    def with_each(self, priors: Sequence[float]) -> Cells:
        """Multiply one row by several priors: a row for each."""
        logs = self.logs + each_log_prior(self._first[0], self.step, tuple(priors))
        return replace(self, low=np.repeat(self.low, len(logs), 0), logs=logs)

    def flat(self) -> Cells:
        """Take all cells as one row."""
        return replace(
            self, low=self.low.reshape(1, -1), logs=self.logs.reshape(1, -1, self.logs.shape[-1])
        )

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights as shares of the largest of their cell, and its logarithm."""
        top = self.logs.max(axis=-1, keepdims=True)
        return np.exp(self.logs - top), top[..., 0]

    def probabilities(self, tilt: np.ndarray) -> np.ndarray:
        """Give the laws times e^(tilt n), shape (rows, d, w)."""
        weights = self.logs + tilt[:, None, None] * (self.step * np.arange(self.width, dtype=float))
        return np.asarray(special.softmax(weights, axis=-1))

    def moments(self, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Give means, variances and log sums of the laws times e^(tilt n), shape (rows, d).

        A tilt is one factor for each bin of a row, so a search for the right one costs a product of
        matrices for each step. Where a factor or a sum would leave what a double can hold, weights
        are formed from their logarithms.
        """
        bins, powers = _powers(self.width)
        each = self.step * tilt[:, None]
        most = bins[-1] * np.maximum(each, 0.0)
        weights, logs = self._weights
        sums = None
        if most.max() < MOST_FACTOR:
            factors = np.exp(each * bins)[:, None] * powers
            sums = weights @ factors.swapaxes(-1, -2)
        if sums is None or (sums[..., 0] < LEAST_SUM * np.exp(most)).any():
            weights = self.logs + each[..., None] * bins
            logs = weights.max(axis=-1)
            sums = np.exp(weights - logs[..., None]) @ powers.T
        total = sums[..., 0]
        up, square = sums[..., 1] / total, sums[..., 2] / total
        first = self.low + 0.5 * (self.step - 1)
        logs = np.log(total) + logs + tilt[:, None] * first
        return first + self.step * up, self.step**2 * np.maximum(square - up**2, 0.0), logs


@lru_cache(maxsize=256)
def _powers(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the bins, and their powers 0, 1, 2, shape (3, w)."""
    bins = np.arange(width, dtype=float)
    return bins, np.stack([np.ones_like(bins), bins, bins**2])


def cells(
    noisy: np.ndarray, law: str, scale: float, prior: float, minimum: float = 0.0,
    total: float | None = None,
) -> Cells:  # fmt: skip
    """Lay out the law of each cell.

    Parameters
    ----------
    noisy : array of int, shape (rows, d)
    law : {"discrete_gaussian", "laplace"}
    scale : float
    prior : float
        a, the prior parameter of each cell.
    minimum : float
        Public lower bound of every count.
    total : float, optional
        Public sum of all counts.
    """
    return noise_cells(noisy, law, scale, minimum, total).with_prior(prior)


def distinct_cells(
    noisy: np.ndarray, law: str, scale: float, minimum: float, total: float
) -> Cells:
    """Lay out the noise in one row, one law for each noisy count there is."""
    values, times = np.unique(noisy, return_counts=True)
    laws = noise_cells(values[None], law, scale, minimum, total, noisy.size)
    return replace(laws, times=times[None])


def noise_cells(
    noisy: np.ndarray, law: str, scale: float, minimum: float = 0.0, total: float | None = None,
    count: int | None = None,
) -> Cells:  # fmt: skip
    """Lay out the noise alone: see `cells`. `count` cells share the total, if these are some."""
    down, up = (FAR, FAR) if law == LAPLACE else (BELOW, ABOVE)
    least = int(np.ceil(minimum))
    low = np.maximum(least, np.floor(noisy - down * scale)).astype(np.int64)
    high = np.maximum(noisy, least) + up * scale
    if total is not None:
        # Beyond the total is room for the tilt to work: cut at it, means would be cruder.
        low = np.minimum(low, max(least, int(total)))
        high = np.maximum(np.minimum(high, 5.0 * total + 10.0), low + 1)
    step = _step(scale, float((high - low).max()), count or noisy.size, total)
    width = int(np.ceil((high - low).max() / step)) + 1
    middle = low[..., None] + step * np.arange(width) + 0.5 * (step - 1)
    away = np.abs(middle - noisy[..., None]) / scale
    noise = -away if law == LAPLACE else -0.5 * away**2
    return Cells(low, step, noise, MOST_TILT.get(law, 6.0) / scale, LEAST_TILT / scale)


def _step(scale: float, reach: float, count: int, total: float | None) -> int:
    """Counts in a bin: what noise cannot tell apart, nor a fair share of the total hide."""
    if scale <= FINE:
        return 1
    coarse = scale / 6.0
    if total is not None:
        coarse = max(1.0, min(coarse, total / (2.0 * count)), reach / WIDE)
    return int(2 ** np.floor(np.log2(coarse)))


def match_sum(laws: Cells, total: float, close: float = 1e-5) -> np.ndarray:
    """Give the tilt of each row at which its mean sum is `total`, or comes as near as it can.

    `close` is the last step, as a share of the largest tilt; what is left is of its square.

    Newton steps, in every row at once, between bounds: the mean rises with the tilt.
    """
    tilt = np.zeros(len(laws.low))
    low, high = np.full_like(tilt, laws.least_tilt), np.full_like(tilt, laws.most_tilt)
    for _ in range(60):
        means, variances, _ = laws.moments(tilt)
        excess = (laws.times * means).sum(axis=1) - total
        low, high = np.where(excess < 0, tilt, low), np.where(excess > 0, tilt, high)
        step = tilt - excess / np.maximum((laws.times * variances).sum(axis=1), 1e-300)
        inside = (step > low) & (step < high)
        moved = np.where(inside, step, 0.5 * (low + high))
        change = np.abs(moved - tilt).max()
        tilt = moved
        if change < close * laws.most_tilt:
            break
    return tilt


def match_totals(
    laws: Cells, center: np.ndarray, variance: np.ndarray, total: float | None
) -> np.ndarray:
    """Give tilts where each row knows its sum up to a Gaussian, and all rows that of all sums.

    tilt_j = tau + (center_j - mean_j(tilt_j)) / variance_j, with tau such that the mean sums add up
    to `total` (0 if that is not public).

    Parameters
    ----------
    laws : Cells
    center, variance : array, shape (rows,)
        What is known of the sums from elsewhere; an infinite variance says nothing.
    total : float or None
    """
    weight = 1.0 / variance
    tau = 0.0
    tilt = np.zeros(len(laws.low))
    for _ in range(40):
        means, variances, _ = laws.moments(tilt)
        mean, spread = means.sum(axis=1), variances.sum(axis=1)
        gap = tilt - tau - (center - mean) * weight
        slope = 1.0 + weight * spread
        move = -gap / slope
        if total is not None:
            # How the sums answer to tau, and what is missing after the rows' own move.
            answer = float((spread / slope).sum())
            missing = total - float(mean.sum() + (spread * move).sum())
            shift = missing / max(answer, 1e-12)
            shift = min(max(shift, -laws.most_tilt), laws.most_tilt)
            tau += shift
            move = move + shift / slope
        moved = np.minimum(np.maximum(tilt + move, laws.least_tilt), laws.most_tilt)
        change = np.abs(moved - tilt).max()
        tilt = moved
        if change < 1e-5 * laws.most_tilt:
            break
    return tilt


def log_evidence(laws: Cells, tilt: np.ndarray, total: float, priors: np.ndarray) -> np.ndarray:
    """Log probabilities of the noisy counts given the sum of each row's cells, by saddle point.

    Parameters
    ----------
    laws : Cells
    tilt, priors : array, shape (rows,)
        What `match_sum` gives, and each row's prior parameter of a cell.
    total : float
    """
    _, variances, logs = laws.moments(tilt)
    size = priors * float(np.sum(laws.times * np.ones(laws.low.shape[1])))
    found = special.gammaln(total + 1.0) + special.gammaln(size) - special.gammaln(size + total)
    spread = np.maximum((laws.times * variances).sum(axis=1), 1e-6)
    found += (laws.times * logs).sum(axis=1) - tilt * total
    return np.asarray(found - 0.5 * np.log(2.0 * np.pi * spread))
