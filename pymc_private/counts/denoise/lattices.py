"""The cells of one row on bins of equal width, so that their sums are sums of bin numbers.

A bin stands for its midpoint, and a bin of one count for that count. The prior is not smooth near
0: the first two bins have their exact prior mass there, and the first one the prior's mean.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from pymc_private.counts.denoise.cell_distributions import (
    CellDistributions,
    CountNoise,
    count_windows,
    log_noise_density,
    log_prior,
    noise_scale,
    tilt_range,
)

MAX_UNBINNED_SCALE = 12.0
"""Under noise of a scale up to this one, every count has its own bin."""
BINS_PER_SCALE, BINS_PER_SHARE, BINS_OF_SUM, MAX_BINS = 16.0, 8.0, 8.0, 2048.0
"""Least bins in the scale of the noise, in a fair share of the row's sum and in that sum, since a
draw within a bin does not depend on it; but no more bins of a cell than `MAX_BINS`."""
NEAR_BINS, MAX_EXACT_PRIOR = 8, 1.5
"""Grids that begin within so many bins of 0 have exact prior masses; prior parameters beyond leave
so little there that midpoints are closer."""


@dataclass(frozen=True)
class NoisyRow:
    """Noisy counts of one row, shape (d,), their prior parameters, and a bound of their sum."""

    noisy: np.ndarray
    noise: CountNoise
    prior: np.ndarray
    bound: float

    @property
    def span(self) -> float:
        """Largest range of counts that a cell may have."""
        low, high = count_windows(self.noisy[None], self.noise, np.array([self.bound]))
        return float((high - low).max())

    def steps(self, mean_sum: float) -> tuple[int, ...]:
        """Counts in a bin, the finest first, where the row's sum is about so large."""
        scale = noise_scale(self.noise)
        if scale <= MAX_UNBINNED_SCALE:
            return (1,)
        sharing = BINS_PER_SHARE * max(len(self.noisy), float(self.prior.sum()))
        fine = min(scale / BINS_PER_SCALE, self.bound / sharing, max(mean_sum, 1.0) / BINS_OF_SUM)
        finest = int(max(1.0, fine, np.ceil(self.span / MAX_BINS)))
        return finest, 2 * finest, 4 * finest

    def lattice(self, step: int) -> Lattice:
        """The row on bins of so many counts."""
        low, high = count_windows(self.noisy[None], self.noise, np.array([self.bound]))
        first = low[0]
        starts = first[:, None] + step * np.arange(int(np.ceil((high - low).max() / step)) + 1)
        places = starts + 0.5 * (step - 1)
        logs = log_prior(places, self.prior[:, None]) + np.log(step)
        near = (first < NEAR_BINS * step) & (step > 1) & (self.prior <= MAX_EXACT_PRIOR)
        logs[near, :2], places[near, 0] = _exact_masses(first[near], step, self.prior[near])
        away = (places - self.noisy[:, None]) / noise_scale(self.noise)
        logs += log_noise_density(self.noise.distribution, away)
        limits = tilt_range(self.noisy[None], self.noise, np.array([self.bound]))
        cells = CellDistributions(
            places[None, :, 0], (places - places[:, :1])[None], logs[None], *limits,
            np.ones((1, len(first))),
        )  # fmt: skip
        return Lattice(cells, first.astype(np.int64), step, self.prior)

    def parts(self, size: int) -> Iterator[NoisyRow]:
        """The row, some cells at a time."""
        for start in range(0, len(self.noisy), size):
            some = slice(start, start + size)
            yield replace(self, noisy=self.noisy[some], prior=self.prior[some])


@dataclass(frozen=True)
class Lattice:
    """Distributions of a row's cells, cell i on bins of counts low_i + step j + 0, ..., step - 1.

    `cells` are the weights of its bins, of shape (1, d, w); `low` and `prior` have shape (d,).
    """

    cells: CellDistributions
    low: np.ndarray
    step: int
    prior: np.ndarray

    def draw_within_bins(self, bins: np.ndarray, generator: np.random.Generator) -> np.ndarray:
        """Counts of bins, shape (draws, d): uniform, but from the prior in a first bin near 0."""
        found = self.low + self.step * bins + generator.integers(0, self.step, bins.shape)
        if self.step > 1:
            for cell in np.flatnonzero(self.low < NEAR_BINS * self.step):
                at, low = np.flatnonzero(bins[:, cell] == 0), int(self.low[cell])
                uniform = generator.random(len(at))
                offsets = draw_within_bin(low, self.step, float(self.prior[cell]), uniform)
                found[at, cell] = low + offsets
        return np.asarray(found)


def _log_cumulative_prior(x: np.ndarray, a: float | np.ndarray) -> np.ndarray:
    """Logarithm of the prior's sum from 0 to x - 1: Gamma(x + a) / (Gamma(a + 1) Gamma(x))."""
    found = log_prior(np.maximum(x, 1) - 1.0, np.asarray(a) + 1.0)
    return np.asarray(np.where(np.asarray(x) <= 0, -np.inf, found))


def _exact_masses(low: np.ndarray, step: int, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log prior masses of the first two bins, shape (cells, 2), and the prior's mean in the first.

    The sum of n times the prior below x is that of the prior times (x - 1) a / (a + 1).
    """
    logs = [_log_cumulative_prior(low + k * step, a) for k in range(3)]
    shares = [-np.expm1(logs[k] - logs[k + 1]) for k in range(2)]
    masses = np.stack([logs[k + 1] + np.log(shares[k]) for k in range(2)], axis=1)
    return masses, (low - 1.0 + step / shares[0]) * a / (a + 1.0)


def draw_within_bin(low: int, step: int, a: float, uniform: np.ndarray) -> np.ndarray:
    """Offsets of counts in a bin drawn from the prior, by bisection, one for each uniform."""
    top = _log_cumulative_prior(np.array([low + step]), a)
    below, full = np.exp(_log_cumulative_prior(np.array([low, low + step]), a) - top)
    first, last = np.zeros(len(uniform), np.int64), np.full(len(uniform), step - 1)
    while (first < last).any():
        middle = (first + last) // 2
        upto = np.exp(_log_cumulative_prior(low + middle + 1, a) - top) - below
        enough = upto >= uniform * (full - below)
        first, last = np.where(enough, first, middle + 1), np.where(enough, middle, last)
    return np.minimum(last, step - 1)
