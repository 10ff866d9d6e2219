"""Distributions of true counts given noisy ones, on grids, under an exponential tilt (T26).

Cells of a family are a priori Dirichlet-multinomial, n! Gamma(A) / Gamma(A + n) times a
product of Gamma(n_i + a) / (n_i! Gamma(a)); noise multiplies each factor by its density. Given
the sum, cells are independent up to that condition, so an exponential tilt e^(lambda n) that
gives them the right mean sum gives nearly the right marginals, and is removed exactly where
draws are made. Where each row is Dirichlet-multinomial given its own sum, and that sum is not
known, the first factor is part of the weight of the sum (`saddlepoint.log_sum_weight_slope`).
All of this is post-processing of noisy counts.

The midpoint of a bin stands for it: for smooth distributions the midpoint rule is nearly
exact, however steep the prior, the noise and the tilt are one by one. At 0 the prior is not
smooth; the first two bins get weights, and the first one a position, that give the whole its
mass, mean and mean square (`first_bins`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from scipy import special

from pymc_private.privacy.noisy_counts import DISCRETE_LAPLACE

MAX_TABULATED = 2**18
"""The prior of counts up to this one is tabulated."""
SERIES_START = 9.0
"""From this multiple of max(a / 2, 1)^(7/6) on, two terms of a series give the prior to 1e-7."""
MATCHED_BINS = 8
"""Bins near 0 whose mass and mean are matched; the error left falls with its fourth power."""
MAX_MATCHED_PRIOR = 1.5
"""Larger prior parameters use midpoints only: such distributions hardly reach 0, and midpoints are
closer."""
MAX_LOG_FACTOR, MIN_SUM = 600.0, 1e-290
"""Largest logarithm of a factor, and least sum as a share of the largest factor, for which weights
are multiplied by factors directly: what that loses is below 1e-15 of a sum. Beyond, they are
multiplied by their logarithms."""


def log_bin_priors(
    low: np.ndarray, step: np.ndarray, a: float | np.ndarray, width: int
) -> np.ndarray:
    """Log prior mass of `width` bins from `low` on, by midpoints: shape (rows, d, width).

    `low` has shape (rows, d), `step` (rows,); the parameter `a` is a number, or has shape
    (rows, d) or (rows, 1).
    """
    first = low[..., None] + step[:, None, None] * np.arange(width)
    return _log_bin_prior(first, step[:, None, None], np.asarray(a)[..., None])


def log_bin_priors_of_each(first: np.ndarray, step: int, priors: tuple[float, ...]) -> np.ndarray:
    """`log_bin_priors` for each of several parameters, of bins that start at `first`."""
    most = int(first.max()) + 1
    if most > MAX_TABULATED:
        return np.stack([_log_bin_prior(first, np.array(step), np.array(a)) for a in priors])
    return np.take(_tabulated_priors(priors, step, 1 << most.bit_length()), first, axis=1)


@lru_cache(maxsize=8)
def _tabulated_priors(priors: tuple[float, ...], step: int, size: int) -> np.ndarray:
    return np.stack([_log_bin_prior(np.arange(size), np.array(step), np.array(a)) for a in priors])


def _log_bin_prior(first: np.ndarray, step: np.ndarray, a: np.ndarray) -> np.ndarray:
    wide = step.astype(float)
    found = _log_prior(first + 0.5 * (wide - 1.0), a)
    found += np.log(wide)
    return found


def _log_prior(x: np.ndarray, a: np.ndarray) -> np.ndarray:
    """log Gamma(x + a) - log Gamma(x + 1) - log Gamma(a), without cancellation.

    About m = x + a / 2 the first two differ by (a - 1) log m - B_3(b) / (3 m^2) - B_5(b) /
    (10 m^4) - ..., with Bernoulli's polynomials at b = a / 2.
    """
    b = 0.5 * a
    m = x + b
    found = np.log(m)
    found *= a - 1.0
    found -= special.gammaln(a)
    near = m < SERIES_START * np.maximum(b, 1.0) ** (7.0 / 6.0)
    third = b * (b - 0.5) * (b - 1.0)
    np.multiply(m, m, out=m)
    np.divide(1.0, m, out=m)
    series = (third * (b * b - b - 1.0 / 3.0) / 10.0) * m
    series += third / 3.0
    series *= m
    found -= series
    if near.any():
        x, a = (np.broadcast_to(value, near.shape)[near] for value in (x, a))
        found[near] = special.gammaln(x + a) - special.gammaln(x + 1.0) - special.gammaln(a)
    return np.asarray(found)


def _log_cumulative_prior(x: np.ndarray, a: float | np.ndarray) -> np.ndarray:
    """Logarithm of the prior's sum from 0 to x - 1: Gamma(x + a) / (Gamma(a + 1) Gamma(x))."""
    found = _log_prior(np.maximum(x, 1) - 1.0, np.asarray(a) + 1.0)
    return np.asarray(np.where(np.asarray(x) <= 0, -np.inf, found))


FirstBinRule = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Of low, step and a, the log weights of two first bins near 0, and the shift of the first."""


def first_bins(low: np.ndarray, step: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Log weights of the first two bins, and the shift of the first from its midpoint.

    With these, the midpoints of the next bins and the Euler-Maclaurin rule at the end of the last,
    a block of `MATCHED_BINS` has the mass, mean and mean square that it has count by count. For
    cells whose grid begins near 0, with a parameter up to `MAX_MATCHED_PRIOR`: arrays of shape
    (cells,) give (cells, 2) and (cells,).
    """
    which, back = _unique_with_inverse(low, step, a)
    weights, shift = _distinct_first_bins(low[which], step[which], a[which])
    return weights[back], shift[back]


def first_masses(low: np.ndarray, step: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact log masses of the first two bins, and the shift to the prior's mean in the first.

    Draws within bins of that prior need these: the weights of `first_bins` are no masses.
    """
    logs = [_log_cumulative_prior(low + k * step, a) for k in range(3)]
    shares = [-np.expm1(logs[k] - logs[k + 1]) for k in range(2)]
    weights = np.stack([logs[k + 1] + np.log(shares[k]) for k in range(2)], axis=1)
    # The sum of n times the prior below x is that of the prior times (x - 1) a / (a + 1).
    mean = (low - 1.0 + step / shares[0]) * a / (a + 1.0)
    return weights, mean - (low + 0.5 * (step - 1.0))


def _unique_with_inverse(*values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Indices of distinct cells, and for each cell the one that it equals."""
    order = np.lexsort(values)
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([v[order[1:]] != v[order[:-1]] for v in values], axis=0)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.cumsum(new) - 1
    return order[new], back


def _distinct_first_bins(
    low: np.ndarray, step: np.ndarray, a: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`first_bins` of distinct cells: mass, mean and square less those of all later bins."""
    wide = step.astype(float)
    start, top = _log_cumulative_prior(np.stack([low, low + MATCHED_BINS * step]), a)
    # Positions from the midpoint of the second bin, in steps: moments then do not cancel.
    origin, stop = low + 1.5 * wide - 0.5, MATCHED_BINS - 1.5
    at = np.array([-1.0, *range(MATCHED_BINS - 1), stop])
    logs = _log_prior(origin[:, None] + wide[:, None] * at, a[:, None]) + np.log(wide)[:, None]
    exact = np.exp(logs[:, 2:] - top[:, None])
    each, last, positions = exact[:, :-1], exact[:, -1], at[2:-1]
    slope = wide * (a - 1.0) / (origin + wide * stop + 0.5 * a) * last
    rest = (1.0 - 1.0 / wide**2) / 24.0
    mass, mean, square = _block_moments(low, step, a, start - top, origin)
    mass -= each.sum(axis=1) + rest * slope
    mean -= each @ positions + rest * (last + stop * slope)
    square -= each @ positions**2 + rest * (2.0 * stop * last + stop**2 * slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight, position = mean**2 / square, square / mean
        # Where a prior is constant to all digits there may be no such weights; midpoints serve.
        found = (weight > 0.0) & (weight < mass) & (np.abs(position + 1.0) <= 0.5)
        weights = np.log(np.stack([weight, mass - weight], axis=1)) + top[:, None]
    weights = np.where(found[:, None], weights, logs[:, :2])
    return weights, np.where(found, wide * (position + 1.0), 0.0)


def _block_moments(
    low: np.ndarray, step: np.ndarray, a: np.ndarray, logs: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass, mean and mean square of a block about an origin, in steps, per mass up to its end.

    `logs` are the log shares of that mass below the block. The sum of n (n - 1) ... (n - k + 1)
    times the prior below x is that of the prior times (x - 1) ... (x - k) a / (a + k).
    """
    high = (low + MATCHED_BINS * step).astype(float)
    below = np.exp(logs)
    sums = [-np.expm1(logs)]
    falling = np.ones((2, len(high)))
    for k in (1, 2):
        falling = falling * (np.stack([high, low.astype(float)]) - k)
        sums.append((falling[0] - below * falling[1]) * a / (a + k))
    mean, square = sums[1], sums[2] + sums[1]
    first = mean - origin * sums[0]
    second = square - 2.0 * origin * mean + origin**2 * sums[0]
    return sums[0], first / step, second / step.astype(float) ** 2


def draw_within_bin(low: int, step: int, a: float, uniform: np.ndarray) -> np.ndarray:
    """Draw offsets of counts in a bin from the prior, one for each uniform number."""
    if step > MAX_TABULATED:
        return _draw_within_wide_bin(low, step, a, uniform)
    n = np.arange(low, low + step, dtype=float)
    upto = np.cumsum(special.softmax(special.gammaln(n + a) - special.gammaln(n + 1.0)))
    return np.minimum(np.searchsorted(upto, uniform), step - 1)


def _draw_within_wide_bin(low: int, step: int, a: float, uniform: np.ndarray) -> np.ndarray:
    """`draw_within_bin` by bisection: a list of all counts in the bin might fill the memory."""
    top = _log_cumulative_prior(np.array([low + step]), a)
    below, full = np.exp(_log_cumulative_prior(np.array([low, low + step]), a) - top)
    first, last = np.zeros(len(uniform), np.int64), np.full(len(uniform), step - 1)
    while (first < last).any():
        middle = (first + last) // 2
        upto = np.exp(_log_cumulative_prior(low + middle + 1, a) - top) - below
        enough = upto >= uniform * (full - below)
        first, last = np.where(enough, first, middle + 1), np.where(enough, middle, last)
    return np.minimum(last, step - 1)


@dataclass(frozen=True)
class CellDistributions:
    """Distributions of the true counts of cells, on their grids.

    Attributes
    ----------
    distribution : {"discrete_gaussian", "laplace"}
    noisy : array of int, shape (rows, d)
    scale : array, shape (rows,)
        Of the noise, whose distribution that is.
    low : array of int, shape (rows, d)
        First count of each grid.
    step : array of int, shape (rows,)
        Counts in a bin; bin j of a cell holds low + step j, ..., low + step (j + 1) - 1.
    log_weights : array, shape (rows, d, w)
        Log prior plus log noise density of each bin.
    max_tilt, min_tilt : array, shape (rows,)
        Range of exponential tilts for which the grids serve.
    multiplicity : array, shape (rows, d)
        Number of cells that each distribution stands for: equal noisy counts share one.
    prior : float or array, shape (rows, d) or (rows, 1)
        Prior parameter of a cell; 1 before there is one.
    shift : array, shape (rows, d)
        Offset of the position of the first bin from its midpoint.
    """

    distribution: str
    noisy: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    step: np.ndarray
    log_weights: np.ndarray
    max_tilt: np.ndarray
    min_tilt: np.ndarray
    multiplicity: np.ndarray
    shift: np.ndarray
    prior: float | np.ndarray = 1.0

    @cached_property
    def midpoints(self) -> np.ndarray:
        """Positions of the bins, shape (rows, d, w)."""
        found = self._bin_starts + 0.5 * (self.step[:, None, None] - 1.0)
        found[..., 0] += self.shift
        return np.asarray(found)

    @property
    def near_zero(self) -> np.ndarray:
        """Whether the first bin is near 0, where the prior is not smooth; shape (rows, d)."""
        return np.asarray((self.low < MATCHED_BINS * self.step[:, None]) & (self.step[:, None] > 1))

    def with_prior(
        self, a: float | np.ndarray, rule: FirstBinRule = first_bins
    ) -> CellDistributions:
        """The distributions times a prior, of one parameter or of one for each cell."""
        logs = log_bin_priors(self.low, self.step, a, self.width)
        logs += self.log_weights
        return replace(self, log_weights=logs, prior=a)._correct_first_bins(rule)

    def refined(self, times: int) -> CellDistributions:
        """The same distributions on bins that many times narrower, or of one count, for draws."""
        step = np.maximum(self.step // times, 1)
        if (self.step == 1).all():
            return self
        inside = np.isfinite(self.log_weights).any(axis=1)
        widths = np.ceil((self.width - inside[:, ::-1].argmax(axis=1)) * self.step / step)
        width = int(widths.max())
        first = (self.low - self.noisy + 0.5 * (step[:, None] - 1)) / self.scale[:, None]
        away = first[..., None] + (step / self.scale)[:, None, None] * np.arange(width)
        noise = log_noise_density(self.distribution, away)
        # Windows end where they did.
        noise[np.broadcast_to(np.arange(width) >= widths[:, None, None], noise.shape)] = -np.inf
        plain = replace(self, step=step, log_weights=noise, shift=np.zeros(self.low.shape))
        return plain.with_prior(self.prior, first_masses)

    @property
    def _bin_starts(self) -> np.ndarray:
        """First counts of the bins, shape (rows, d, w)."""
        return np.asarray(self.low[..., None] + self.step[:, None, None] * np.arange(self.width))

    @property
    def width(self) -> int:
        """Bins of a cell."""
        return int(self.log_weights.shape[-1])

    def with_each_prior(self, priors: Sequence[float]) -> CellDistributions:
        """All rows times the first prior, then all rows times the next, and so on."""
        first, count = self._bin_starts, len(priors)
        found = np.empty((count, *first.shape))
        for step in np.unique(self.step):
            rows = self.step == step
            found[:, rows] = log_bin_priors_of_each(first[rows], int(step), tuple(priors))
        found += self.log_weights
        tiled = lambda values: np.tile(values, (count, *[1] * (values.ndim - 1)))  # noqa: E731
        return CellDistributions(
            self.distribution, tiled(self.noisy), tiled(self.scale), tiled(self.low),
            tiled(self.step), found.reshape(-1, *first.shape[1:]), tiled(self.max_tilt),
            tiled(self.min_tilt), tiled(self.multiplicity), tiled(self.shift),
            np.repeat(priors, len(first))[:, None],
        )._correct_first_bins()  # fmt: skip

    def _correct_first_bins(self, rule: FirstBinRule = first_bins) -> CellDistributions:
        """Correct weights (in place) and positions of first bins near 0."""
        a = np.broadcast_to(self.prior, self.low.shape)
        near = self.near_zero & (a <= MAX_MATCHED_PRIOR)
        if not near.any():
            return self
        rows = np.nonzero(near)[0]
        step, scale = self.step[rows], self.scale[rows]
        weights, shift = rule(self.low[near], step, a[near])
        away = self.low[near] - self.noisy[near] + 0.5 * (step - 1)
        away = np.stack([away + shift, away + step], axis=1) / scale[:, None]
        self.log_weights[near, :2] = weights + log_noise_density(self.distribution, away)
        moved = np.zeros(self.low.shape)
        moved[near] = shift
        return replace(self, shift=moved)

    def select(self, rows: slice, d: int, width: int) -> CellDistributions:
        """Some rows, of their first d cells and first `width` bins."""
        prior = self.prior
        return CellDistributions(
            self.distribution, self.noisy[rows, :d], self.scale[rows], self.low[rows, :d],
            self.step[rows], self.log_weights[rows, :d, :width], self.max_tilt[rows],
            self.min_tilt[rows], self.multiplicity[rows, :d], self.shift[rows, :d],
            prior[rows, :d] if isinstance(prior, np.ndarray) else prior,
        )  # fmt: skip

    def row(self, k: int) -> CellDistributions:
        """One row."""
        return self.select(slice(k, k + 1), *self.log_weights.shape[1:])

    @cached_property
    def _weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights relative to the largest of their cell, and the logarithm of that one."""
        top = self.log_weights.max(axis=-1, keepdims=True)
        weights = self.log_weights - top
        return np.exp(weights, out=weights), top[..., 0]

    def probabilities(self, tilt: np.ndarray) -> np.ndarray:
        """The tilted distributions, proportional to e^(tilt n), shape (rows, d, w)."""
        logs = self.log_weights + tilt[:, None, None] * self.midpoints
        return np.asarray(special.softmax(logs, axis=-1))

    def moments(self, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means, variances and log sums of the weights times e^(tilt n), shape (rows, d).

        A tilt is one factor for each bin of a row, so each step of a search for a tilt costs one
        product of matrices. Where a factor or a sum would overflow or underflow, weights are
        formed from their logarithms.
        """
        bins, powers = _bin_powers(self.width)
        each = (self.step * tilt)[:, None]
        most = bins[-1] * np.maximum(each, 0.0)
        weights, logs = self._weights
        sums = None
        if most.max() < MAX_LOG_FACTOR:
            factors = np.exp(each * bins)[:, None] * powers
            sums = weights @ factors.swapaxes(-1, -2)
        if sums is None or (sums[..., 0] + weights[..., 0] < MIN_SUM * np.exp(most)).any():
            weights = self.log_weights + each[..., None] * bins
            logs = weights.max(axis=-1)
            weights = np.exp(weights - logs[..., None])
            sums = weights @ powers.T
        step = self.step[:, None].astype(float)  # its square may overflow 64 bits
        away = self.shift / self.step[:, None]
        moved = weights[..., 0] * np.exp(each * away)
        total = sums[..., 0] + moved
        up = (sums[..., 1] + moved * away) / total
        square = (sums[..., 2] + moved * away**2) / total
        first = self.low + 0.5 * (step - 1)
        logs = np.log(total) + logs + tilt[:, None] * first
        return first + step * up, step**2 * np.maximum(square - up**2, 0.0), logs


def log_noise_density(distribution: str, away: np.ndarray) -> np.ndarray:
    """Log density of noise `away` scales from 0, less its maximum; overwrites `away`."""
    if distribution == DISCRETE_LAPLACE:
        return np.negative(np.abs(away, out=away), out=away)
    away *= away
    away *= -0.5
    return away


@lru_cache(maxsize=256)
def _bin_powers(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Bin numbers, and their powers 0, 1 and 2 (all 0 for the first bin), shape (3, w)."""
    bins = np.arange(width, dtype=float)
    return bins, np.stack([np.sign(bins), bins, bins**2])
