"""Exact conditional distribution of each true count given its noisy count (T26).

Cells of a family are a priori Dirichlet-multinomial: n! Gamma(A) / Gamma(A + n) times a product
of Gamma(n_i + a) / (n_i! Gamma(a)); noise multiplies each factor by its density. Given the sum,
cells are independent up to that condition, so an exponential tilt e^(lambda n) that gives them
the right mean sum gives nearly the right marginals (`saddlepoint`), and is removed exactly where
counts are drawn (`sum_distributions`).

Sums over all counts are sums over a few: every small count by itself, and farther out nodes whose
distance grows in proportion to the count, up to a share of the noise's scale. Whatever the prior,
the noise and the tilt, they are smooth between such nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, MIN_SCALE

MAX_UNBINNED_SCALE = 4.0
"""Under noise of a scale up to this one, every count is a node."""
NODES_PER_SCALE = {DISCRETE_GAUSSIAN: 2.0, DISCRETE_LAPLACE: 4.0}
"""Nodes in a larger scale, far from 0; Laplace noise has a kink, and needs more."""
NODES_PER_FOLD = 12.0
"""Nodes while counts grow by a factor of e, and number of counts that are nodes by themselves."""
MIN_TILT, MIN_TILT_TIMES_SCALE = -20.0, -60.0
"""Lower ends of tilts; a prior that is much larger than its row's sum takes log(sum / prior)."""
MAX_TILT_TIMES_SUM = 10.0
"""Largest tilt, times the row's sum, of windows that end where that sum does."""


class CountNoise(NamedTuple):
    """Noise on the counts of a family, and the public lower bound of every true count."""

    distribution: str
    scale: float
    minimum: float


class CountWindow(NamedTuple):
    """Range of true counts around a noisy one, and the largest tilt that this range allows.

    In scales of the noise, and reciprocal scales.
    """

    below: float
    above: float
    max_tilt: float


WINDOWS = {
    DISCRETE_LAPLACE: CountWindow(28.0, 28.0, 0.7),
    DISCRETE_GAUSSIAN: CountWindow(14.0, 10.0, 6.0),
}


@dataclass(frozen=True)
class CellDistributions:
    """Distributions of the true counts of cells, as weights of a few counts.

    Attributes
    ----------
    low : array, shape (rows, d)
        Least count of each cell.
    away : array, shape (rows, d, w)
        Further counts, as distances from the least.
    log_weights : array, shape (rows, d, w)
        Log prior plus log noise density plus log number of counts that each stands for.
    min_tilt, max_tilt : array, shape (rows,)
        Range of exponential tilts.
    multiplicity : array, shape (rows, d)
        Number of cells that each distribution stands for: equal noisy counts share one.
    """

    low: np.ndarray
    away: np.ndarray
    log_weights: np.ndarray
    min_tilt: np.ndarray
    max_tilt: np.ndarray
    multiplicity: np.ndarray

    @property
    def counts(self) -> np.ndarray:
        """Counts with a weight, shape (rows, d, w)."""
        return np.asarray(self.low[..., None] + self.away)

    def probabilities(self, tilt: np.ndarray) -> np.ndarray:
        """The tilted distributions, proportional to e^(tilt n): shape (rows, d, w)."""
        return np.asarray(
            special.softmax(self.log_weights + tilt[:, None, None] * self.away, axis=-1)
        )

    def moments(self, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, variances and log sums of the weights times e^(tilt n), shape (rows, d)."""
        weights = tilt[:, None, None] * self.away
        weights += self.log_weights
        top = weights.max(axis=-1)
        weights -= top[..., None]
        np.exp(weights, out=weights)
        total = weights.sum(axis=-1)
        weights *= self.away
        mean = weights.sum(axis=-1) / total
        square = np.einsum("rcw,rcw->rc", weights, self.away) / total
        logs = np.log(total) + top + tilt[:, None] * self.low
        return self.low + mean, np.maximum(square - mean**2, 0.0), logs

    def sum_moments(self, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Means and variances of the rows' sums, shape (rows,)."""
        means, variances, _ = self.moments(tilt)
        times = self.multiplicity
        return (times * means).sum(axis=1), (times * variances).sum(axis=1)


def cell_distributions(
    noisy: np.ndarray,
    noise: CountNoise,
    prior: float | np.ndarray,
    bound: float | np.ndarray = np.inf,
    multiplicity: np.ndarray | None = None,
) -> CellDistributions:
    """The distribution of each cell of one family, given noisy counts of shape (rows, d).

    `prior` is the parameter of each cell, a number or of shape (rows, d) or (rows, 1); `bound`,
    a number or of shape (rows,), is a sure or likely upper bound of each row's sum.
    """
    scale = noise_scale(noise)
    bound = np.broadcast_to(np.asarray(bound, float), len(noisy))
    least = float(np.ceil(noise.minimum))
    low, high = count_windows(noisy, noise, bound)
    nodes = _Nodes(scale, NODES_PER_SCALE[noise.distribution], float(np.max(prior)))
    first = nodes.index(low - least)
    width = int((nodes.index(high - least) - first).max()) + 1
    distinct, back = np.unique(first, return_inverse=True)
    counts, logs = nodes.at(distinct[:, None] + np.arange(width))
    back = back.reshape(first.shape)
    away, counts = (counts - counts[:, :1])[back], least + counts[back]
    log_weights = log_prior(counts, np.asarray(prior, float)[..., None]) + logs[back]
    log_weights += log_noise_density(noise.distribution, (counts - noisy[..., None]) / scale)
    log_weights[counts > _window_limit(bound)[:, None, None]] = -np.inf
    times = np.ones(noisy.shape) if multiplicity is None else multiplicity
    return CellDistributions(
        counts[..., 0], away, log_weights, *tilt_range(noisy, noise, bound), times
    )


def noise_scale(noise: CountNoise) -> float:
    """Scale of the noise; averages of many tables may have less than the least there is."""
    return max(noise.scale, MIN_SCALE[noise.distribution])


def count_windows(
    noisy: np.ndarray, noise: CountNoise, bound: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """First and last count that each cell may have, shape (rows, d)."""
    scale, window, least = noise_scale(noise), WINDOWS[noise.distribution], np.ceil(noise.minimum)
    known = np.maximum(least, bound)[:, None]
    low = np.clip(np.floor(noisy - window.below * scale), least, known)
    high = np.minimum(np.maximum(noisy, least) + window.above * scale, _window_limit(known))
    return low, np.maximum(high, low + 1.0)


def tilt_range(
    noisy: np.ndarray, noise: CountNoise, bound: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest exponential tilt of each row, shape (rows,)."""
    scale, window = noise_scale(noise), WINDOWS[noise.distribution]
    at_sum = np.maximum(noisy.min(axis=1), 0.0) + window.above * scale >= _window_limit(bound)
    steep = np.where(at_sum, MAX_TILT_TIMES_SUM / np.maximum(bound, 1.0), 0.0)
    least = min(MIN_TILT, MIN_TILT_TIMES_SCALE / scale)
    return np.full(len(noisy), least), np.maximum(window.max_tilt / scale, steep)


def _window_limit(bound: np.ndarray) -> np.ndarray:
    """Last count of a window at most: beyond the row's sum, since a tilt needs room to be exact."""
    return np.asarray(5.0 * bound + 10.0)


def log_prior(counts: np.ndarray, a: float | np.ndarray) -> np.ndarray:
    """log Gamma(n + a) - log Gamma(n + 1) - log Gamma(a), also between whole numbers.

    For large counts, where the first two would cancel, (a - 1) log(n + a / 2) is all that is left.
    """
    found = special.gammaln(counts + a) - special.gammaln(counts + 1.0)
    far = counts > 1e4 * np.maximum(a, 1.0) ** 1.5
    if far.any():
        found = np.where(far, (a - 1.0) * np.log(counts + 0.5 * a), found)
    return np.asarray(found - special.gammaln(a))


def log_noise_density(distribution: str, away: np.ndarray) -> np.ndarray:
    """Log density of noise `away` scales from 0, less its maximum."""
    return -np.abs(away) if distribution == DISCRETE_LAPLACE else -0.5 * away**2


class _Nodes:
    """Counts over which sums are taken, by the midpoint rule.

    Beyond the first k, node j is at the count x where x / s + k log(1 + x / k) equals j up to a
    constant: the distance of nodes is 1 / (1 / s + 1 / (1 + x / k)), with s a share of the noise's
    scale. Peaked priors take a larger k.
    """

    def __init__(self, scale: float, per_scale: float, prior: float) -> None:
        self.single = scale <= MAX_UNBINNED_SCALE
        self.k = max(NODES_PER_FOLD, np.ceil(prior**0.5))
        self.step = scale / per_scale
        self.start = self._place(self.k - 0.5)

    def _place(self, x: np.ndarray | float) -> np.ndarray:
        share = (1.0 + np.asarray(x) / self.k) / self.step
        return np.asarray(share + np.log(share))

    def index(self, x: np.ndarray) -> np.ndarray:
        """Number of the last node up to a count, nearly."""
        if self.single:
            return np.floor(x)
        beyond = self.k + np.floor(self.k * (self._place(x) - self.start))
        return np.where(x < self.k, np.floor(x), beyond)

    def at(self, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Counts of the nodes of these numbers, and logarithms of how many they stand for."""
        if self.single:
            return index, np.zeros(index.shape)
        share = special.wrightomega(self.start + (index - self.k + 0.5) / self.k)
        counts = np.where(index < self.k, index, self.k * (self.step * share - 1.0))
        return counts, np.where(index < self.k, 0.0, np.log(self.step * share / (1.0 + share)))
