"""True counts given noisy ones: the law of each cell on a grid, tilted until cells agree on a sum.

Cells of a family are a priori Dirichlet-multinomial, n! Gamma(A) / Gamma(A + n) times a product of
Gamma(n_i + a) / (n_i! Gamma(a)); noise multiplies each factor by its density. Given the sum, cells
are independent up to that condition, so an exponential tilt e^(lambda n) that gives them the right
mean sum gives nearly the right marginals, and is removed exactly where draws are made. All of this
is post-processing of noisy counts (T26).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import optimize, special

from pymc_private.mechanisms.tables.cell_priors import (
    bin_mean,
    each_log_prior,
    log_prior,
    log_priors,
)

STEEP = 64
"""Bins that begin at so many of their steps have their mean in the middle, whatever the prior."""
CLOSE, DOUBLINGS = 1e-5, 12
"""Last step of a tilt, as a share of the largest; how far out a common tilt is looked for."""
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
    most_tilt, least_tilt : float
    times : array, shape (rows, d), or 1
        How many cells each law stands for: cells of one noisy count have one law.
    prior : float or array, shape (rows, d) or (rows, 1)
        Prior parameter of a cell; 1 before there is one.
    """

    low: np.ndarray
    step: np.ndarray
    logs: np.ndarray
    most_tilt: float
    least_tilt: float
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
            prior = log_prior(self._first, self.step, a)
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
        return np.exp(self.logs - top), top[..., 0]

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
        step, away = self.step[:, None], self.shift / self.step[:, None]
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


def match_sum(laws: Cells, total: float, close: float = 1e-5) -> np.ndarray:
    """Give the tilt of each row at which its mean sum is `total`, or comes as near as it can.

    `close` is the last step, as a share of the largest tilt; what is left is of its square.

    Newton steps, in every row at once, between bounds: the mean rises with the tilt.
    """

    def excess(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        means, variances, _ = laws.moments(tilt)
        return (laws.times * means).sum(axis=1) - total, (laws.times * variances).sum(axis=1)

    return _roots(laws, excess, np.zeros(len(laws.low)), close)


Rising = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _roots(laws: Cells, rising: Rising, tilt: np.ndarray, close: float) -> np.ndarray:
    """Give the tilts where functions that rise, one for each row, are 0; or the nearest end.

    Newton steps between bounds; halves where a step leaves them, or the last did not halve.
    """
    low, high = np.full_like(tilt, laws.least_tilt), np.full_like(tilt, laws.most_tilt)
    last = np.full_like(tilt, np.inf)
    for _ in range(80):
        found, slope = rising(tilt)
        low, high = np.where(found < 0, tilt, low), np.where(found > 0, tilt, high)
        step = tilt - found / np.maximum(slope, 1e-300)
        inside = (step > low) & (step < high) & (np.abs(found) <= 0.5 * last)
        moved = np.where(inside, step, 0.5 * (low + high))
        last = np.where(inside, np.abs(found), np.inf)
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
    start = np.zeros(len(laws.low))
    if total is None:
        return _apart(laws, center, weight, 0.0, start)
    tilt, met = _together(laws, center, weight, total)
    return tilt if met else _nested(laws, center, weight, total)


def _gap(
    laws: Cells, center: np.ndarray, weight: np.ndarray, tau: float, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """How far each row is from its tilt, with the slope; mean sums and their variances."""
    means, variances, _ = laws.moments(tilt)
    mean, spread = means.sum(axis=1), variances.sum(axis=1)
    return tilt - tau - (center - mean) * weight, 1.0 + weight * spread, mean, spread


def _apart(
    laws: Cells, center: np.ndarray, weight: np.ndarray, tau: float, tilt: np.ndarray
) -> np.ndarray:
    """Give the tilts at one tau, each row by itself."""
    return _roots(laws, lambda t: _gap(laws, center, weight, tau, t)[:2], tilt, CLOSE)


def _together(
    laws: Cells, center: np.ndarray, weight: np.ndarray, total: float
) -> tuple[np.ndarray, bool]:
    """Newton steps in all tilts and tau at once, and whether they met: most do, in a few."""
    tau, tilt, change = 0.0, np.zeros(len(laws.low)), np.inf
    for _ in range(40):
        gap, slope, mean, spread = _gap(laws, center, weight, tau, tilt)
        move = -gap / slope
        # How the sums answer to tau, and what is missing after the rows' own move.
        answer = float((spread / slope).sum())
        missing = total - float(mean.sum() + (spread * move).sum())
        if change < CLOSE * laws.most_tilt:
            inside = (tilt > laws.least_tilt) & (tilt < laws.most_tilt)
            off = np.abs(move[inside]).max(initial=0.0)
            return tilt, bool(off < 1e-3 * laws.most_tilt and abs(missing) < 0.01 * total + 0.5)
        shift = min(max(missing / max(answer, 1e-12), -laws.most_tilt), laws.most_tilt)
        tau += shift
        moved = np.clip(tilt + move + shift / slope, laws.least_tilt, laws.most_tilt)
        change = np.abs(moved - tilt).max()
        tilt = moved
    return tilt, False


def _nested(laws: Cells, center: np.ndarray, weight: np.ndarray, total: float) -> np.ndarray:
    """Solve the rows at every tau that is tried; the sum of all means rises with it."""
    tilt = np.zeros(len(laws.low))

    def missing(tau: float) -> float:
        nonlocal tilt
        tilt = _apart(laws, center, weight, tau, tilt)
        return float(laws.moments(tilt)[0].sum()) - total

    low, high = -laws.most_tilt, laws.most_tilt
    for _ in range(DOUBLINGS):
        if missing(low) < 0.0:
            break
        low *= 2.0
    for _ in range(DOUBLINGS):
        if missing(high) > 0.0:
            break
        high *= 2.0
    if missing(low) < 0.0 < missing(high):
        missing(optimize.brentq(missing, low, high, xtol=CLOSE * laws.most_tilt))
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
