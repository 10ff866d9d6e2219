"""True counts given noisy ones: the law of each cell on a grid, tilted until cells agree on a sum.

Cells of a family are a priori Dirichlet-multinomial, n! Gamma(A) / Gamma(A + n) times a product of
Gamma(n_i + a) / (n_i! Gamma(a)); noise multiplies each factor by its density. Given the sum, cells
are independent up to that condition, so an exponential tilt e^(lambda n) that gives them the right
mean sum gives nearly the right marginals, and is removed exactly where draws are made. Where each
row is Dirichlet-multinomial given its own sum, and that is not known, the first factor is part of
what is weighed (`matching.sum_pull`). All of this is post-processing of noisy counts (T26).
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from scipy import special
from pymc_private.counts.denoise.cell_distributions__cell_priors import BLOCK, PEAKED, each_log_prior, first_bins, first_masses, log_priors
from pymc_private.privacy.noisy_counts__noisy_counts import LAPLACE

MOST_FACTOR, LEAST_SUM = 600.0, 1e-290
"""Logarithm of a factor, and share of the largest factor, up to which products of weights and
factors are those of their logarithms: what they lose is below 1e-15 of a sum."""

Rule = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Weights of the first two bins near 0, and how far the first is from its middle."""


@dataclass(frozen=True)
class Cells:
    """Laws of cells on their grids.

    Attributes
    ----------
    law : {"discrete_gaussian", "laplace"}
    noisy : array of int, shape (rows, d)
    scale : array, shape (rows,)
        Of the noise.
    low : array of int, shape (rows, d)
        First count of each grid.
    step : array of int, shape (rows,)
        Counts in a bin; bin j of a cell holds low + step j, ..., low + step (j + 1) - 1.
    logs : array, shape (rows, d, w)
        Logarithms of weights, prior times noise.
    most_tilt, least_tilt : array, shape (rows,)
    times : array, shape (rows, d)
        How many cells each law stands for: cells of one noisy count have one law.
    prior : float or array, shape (rows, d) or (rows, 1)
        Prior parameter of a cell; 1 before there is one.
    shift : array, shape (rows, d)
        How far the place of the first bin is from its middle.
    """

    law: str
    noisy: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    step: np.ndarray
    logs: np.ndarray
    most_tilt: np.ndarray
    least_tilt: np.ndarray
    times: np.ndarray
    shift: np.ndarray
    prior: float | np.ndarray = 1.0

    @cached_property
    def middle(self) -> np.ndarray:
        """Places of the bins, shape (rows, d, w)."""
        found = self._first + 0.5 * (self.step[:, None, None] - 1.0)
        found[..., 0] += self.shift
        return np.asarray(found)

    @property
    def steep(self) -> np.ndarray:
        """Whether the first bin is one near 0, where a prior is not level, shape (rows, d)."""
        return np.asarray((self.low < BLOCK * self.step[:, None]) & (self.step[:, None] > 1))

    def with_prior(self, a: float | np.ndarray, rule: Rule = first_bins) -> Cells:
        """Multiply by the prior of each cell; its parameter is one number, or one for each cell."""
        logs = log_priors(self.low, self.step, a, self.width)
        logs += self.logs
        return replace(self, logs=logs, prior=a)._with_first_bins(rule)

    def finer(self, times: int) -> Cells:
        """Give the same laws on bins so many times narrower, or of one count, to draw within."""
        step = np.maximum(self.step // times, 1)
        if (self.step == 1).all():
            return self
        there = np.isfinite(self.logs).any(axis=1)
        own = np.ceil((self.width - there[:, ::-1].argmax(axis=1)) * self.step / step)
        width = int(own.max())
        first = (self.low - self.noisy + 0.5 * (step[:, None] - 1)) / self.scale[:, None]
        away = first[..., None] + (step / self.scale)[:, None, None] * np.arange(width)
        noise = log_noise(self.law, away)
        # Rows end where they did.
        noise[np.broadcast_to(np.arange(width) >= own[:, None, None], noise.shape)] = -np.inf
        plain = replace(self, step=step, logs=noise, shift=np.zeros(self.low.shape))
        return plain.with_prior(self.prior, first_masses)

    @property
    def _first(self) -> np.ndarray:
        """First counts of the bins, shape (rows, d, w)."""
        return np.asarray(self.low[..., None] + self.step[:, None, None] * np.arange(self.width))

    @property
    def width(self) -> int:
        """Bins of a cell."""
        return int(self.logs.shape[-1])

    def with_each(self, priors: Sequence[float]) -> Cells:
        """Multiply rows by several priors: all of them by the first, then by the next."""
        first, count = self._first, len(priors)
        found = np.empty((count, *first.shape))
        for step in np.unique(self.step):
            rows = self.step == step
            found[:, rows] = each_log_prior(first[rows], int(step), tuple(priors))
        found += self.logs
        again = lambda values: np.tile(values, (count, *[1] * (values.ndim - 1)))  # noqa: E731
        return Cells(
            self.law, again(self.noisy), again(self.scale), again(self.low), again(self.step),
            found.reshape(-1, *first.shape[1:]), again(self.most_tilt), again(self.least_tilt),
            again(self.times), again(self.shift), np.repeat(priors, len(first))[:, None],
        )._with_first_bins()  # fmt: skip

    def _with_first_bins(self, rule: Rule = first_bins) -> Cells:
        """Put first bins near 0 right, in place: their weights and where they are."""
        a = np.broadcast_to(self.prior, self.low.shape)
        near = self.steep & (a <= PEAKED)
        if not near.any():
            return self
        rows = np.nonzero(near)[0]
        step, scale = self.step[rows], self.scale[rows]
        weights, shift = rule(self.low[near], step, a[near])
        away = self.low[near] - self.noisy[near] + 0.5 * (step - 1)
        away = np.stack([away + shift, away + step], axis=1) / scale[:, None]
        self.logs[near, :2] = weights + log_noise(self.law, away)
        moved = np.zeros(self.low.shape)
        moved[near] = shift
        return replace(self, shift=moved)

    def of(self, rows: slice, d: int, width: int) -> Cells:
        """Take some rows, of d cells and so many bins."""
        prior = self.prior
        return Cells(
            self.law, self.noisy[rows, :d], self.scale[rows], self.low[rows, :d], self.step[rows],
            self.logs[rows, :d, :width], self.most_tilt[rows], self.least_tilt[rows],
            self.times[rows, :d], self.shift[rows, :d],
            prior[rows, :d] if isinstance(prior, np.ndarray) else prior,
        )  # fmt: skip

    def row(self, k: int) -> Cells:
        """Take one row."""
        return self.of(slice(k, k + 1), *self.logs.shape[1:])

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


def log_noise(law: str, away: np.ndarray) -> np.ndarray:
    """Logarithm of the density of noise, less its largest, so many scales away; in place."""
    if law == LAPLACE:
        return np.negative(np.abs(away, out=away), out=away)
    away *= away
    away *= -0.5
    return away


@lru_cache(maxsize=256)
def _powers(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the bins, and their powers 0, 1, 2 but of the first, shape (3, w)."""
    bins = np.arange(width, dtype=float)
    return bins, np.stack([np.sign(bins), bins, bins**2])
