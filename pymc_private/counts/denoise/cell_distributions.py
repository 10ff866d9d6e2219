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
"""Counts up to this one find their prior in a table."""
SERIES_START = 9.0
"""From so many times max(a / 2, 1)^(7/6) on, two terms of its series give the prior to 1e-7."""
MATCHED_BINS = 8
"""Bins over which mass and mean are made right; what is left falls with its fourth power."""
MAX_MATCHED_PRIOR = 1.5
"""Parameters beyond are taken at middles only: of laws that hardly reach 0 these are nearer."""


def log_bin_priors(
    low: np.ndarray, step: np.ndarray, a: float | np.ndarray, width: int
) -> np.ndarray:
    """Logarithm of the prior of the middles of `width` bins from `low` on, times the step.

    Parameters
    ----------
    low : array of int, shape (rows, d)
    step : array of int, shape (rows,)
    a : float, or array, shape (rows, d) or (rows, 1)
    width : int

    Returns
    -------
    array, shape (rows, d, width)
    """
    first = low[..., None] + step[:, None, None] * np.arange(width)
    return _log_bin_prior(first, step[:, None, None], np.asarray(a)[..., None])


def log_bin_priors_of_each(first: np.ndarray, step: int, priors: tuple[float, ...]) -> np.ndarray:
    """`log_bin_priors` for several parameters, of bins that begin at `first`: shape (priors, ...)."""
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
    """log Gamma(x + a) - log Gamma(x + 1) - log Gamma(a), of no large differences.

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


def first_bins(low: np.ndarray, step: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Logarithms of the weights of the first two bins, and how far the first is from its middle.

    With them, the middles of the next bins and the rule of Euler and Maclaurin at the end of the
    last, a block of bins has the mass, the mean and the mean square it has count by count.

    Parameters
    ----------
    low, step, a : array, shape (cells,)
        Of cells whose grid begins near 0, with a parameter up to `MAX_MATCHED_PRIOR`.

    Returns
    -------
    arrays, shape (cells, 2) and (cells,)
    """
    which, back = _unique_with_inverse(low, step, a)
    weights, shift = _distinct_first_bins(low[which], step[which], a[which])
    return weights[back], shift[back]


def first_masses(low: np.ndarray, step: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Do as `first_bins` with the prior's own masses, and its mean in the first bin.

    What draws within bins of that prior go with: the weights there are no masses.
    """
    logs = [_log_cumulative_prior(low + k * step, a) for k in range(3)]
    shares = [-np.expm1(logs[k] - logs[k + 1]) for k in range(2)]
    weights = np.stack([logs[k + 1] + np.log(shares[k]) for k in range(2)], axis=1)
    # The sum of n times the prior below x is that of the prior times (x - 1) a / (a + 1).
    mean = (low - 1.0 + step / shares[0]) * a / (a + 1.0)
    return weights, mean - (low + 0.5 * (step - 1.0))


def _unique_with_inverse(*values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where cells that are not alike are, and which of them each cell is."""
    order = np.lexsort(values)
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([v[order[1:]] != v[order[:-1]] for v in values], axis=0)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.cumsum(new) - 1
    return order[new], back


def _distinct_first_bins(
    low: np.ndarray, step: np.ndarray, a: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    wide = step.astype(float)
    start, top = _log_cumulative_prior(np.stack([low, low + MATCHED_BINS * step]), a)
    # Places from the middle of the second bin, in steps: moments differ by no large numbers.
    origin, end = low + 1.5 * wide - 0.5, MATCHED_BINS - 1.5
    at = np.array([-1.0, *range(MATCHED_BINS - 1), end])
    logs = _log_prior(origin[:, None] + wide[:, None] * at, a[:, None]) + np.log(wide)[:, None]
    exact = np.exp(logs[:, 2:] - top[:, None])
    each, last, places = exact[:, :-1], exact[:, -1], at[2:-1]
    slope = wide * (a - 1.0) / (origin + wide * end + 0.5 * a) * last
    rest = (1.0 - 1.0 / wide**2) / 24.0
    mass, mean, square = _block_moments(low, step, a, start - top, origin)
    mass -= each.sum(axis=1) + rest * slope
    mean -= each @ places + rest * (last + end * slope)
    square -= each @ places**2 + rest * (2.0 * end * last + end**2 * slope)
    with np.errstate(divide="ignore", invalid="ignore"):
        weight, place = mean**2 / square, square / mean
        # Where a block is level to all digits, there may be no such weights; middles do.
        found = (weight > 0.0) & (weight < mass) & (np.abs(place + 1.0) <= 0.5)
        weights = np.log(np.stack([weight, mass - weight], axis=1)) + top[:, None]
    weights = np.where(found[:, None], weights, logs[:, :2])
    return weights, np.where(found, wide * (place + 1.0), 0.0)


def _block_moments(
    low: np.ndarray, step: np.ndarray, a: np.ndarray, logs: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass, mean and mean square of a block about an origin, in steps; 1 is the mass up to its end.

    `logs` are of the shares below it. The sum of n (n - 1) ... (n - k + 1) times the prior below x
    is that of the prior times (x - 1) ... (x - k) a / (a + k).
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
    """Draw places of counts in a bin from the prior, one for each uniform number."""
    if step > MAX_TABULATED:
        return _draw_within_wide_bin(low, step, a, uniform)
    n = np.arange(low, low + step, dtype=float)
    upto = np.cumsum(special.softmax(special.gammaln(n + a) - special.gammaln(n + 1.0)))
    return np.minimum(np.searchsorted(upto, uniform), step - 1)


def _draw_within_wide_bin(low: int, step: int, a: float, uniform: np.ndarray) -> np.ndarray:
    """Find the same places by halving: a list of all counts might fill the memory."""
    ends = np.array([low, low + step])
    below, all_ = np.exp(_log_cumulative_prior(ends, a) - _log_cumulative_prior(ends[1:], a))
    first, last = np.zeros(len(uniform), np.int64), np.full(len(uniform), step - 1)
    while (first < last).any():
        middle = (first + last) // 2
        upto = (
            np.exp(_log_cumulative_prior(low + middle + 1, a) - _log_cumulative_prior(ends[1:], a))
            - below
        )
        enough = upto >= uniform * (all_ - below)
        first, last = np.where(enough, first, middle + 1), np.where(enough, middle, last)
    return np.minimum(last, step - 1)


def _log_cumulative_prior(x: np.ndarray, a: float | np.ndarray) -> np.ndarray:
    """Logarithm of the sum from 0 to x - 1: Gamma(x + a) / (Gamma(a + 1) Gamma(x))."""
    found = _log_prior(np.maximum(x, 1) - 1.0, np.asarray(a) + 1.0)
    return np.asarray(np.where(np.asarray(x) <= 0, -np.inf, found))


MAX_LOG_FACTOR, LEAST_SUM = 600.0, 1e-290
"""Logarithm of a factor, and share of the largest factor, up to which products of weights and
factors are those of their logarithms: what they lose is below 1e-15 of a sum."""

FirstBinRule = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Weights of the first two bins near 0, and how far the first is from its middle."""


@dataclass(frozen=True)
class CellDistributions:
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
        return np.asarray((self.low < MATCHED_BINS * self.step[:, None]) & (self.step[:, None] > 1))

    def with_prior(
        self, a: float | np.ndarray, rule: FirstBinRule = first_bins
    ) -> CellDistributions:
        """Multiply by the prior of each cell; its parameter is one number, or one for each cell."""
        logs = log_bin_priors(self.low, self.step, a, self.width)
        logs += self.logs
        return replace(self, logs=logs, prior=a)._with_first_bins(rule)

    def finer(self, times: int) -> CellDistributions:
        """Give the same laws on bins so many times narrower, or of one count, to draw within."""
        step = np.maximum(self.step // times, 1)
        if (self.step == 1).all():
            return self
        there = np.isfinite(self.logs).any(axis=1)
        own = np.ceil((self.width - there[:, ::-1].argmax(axis=1)) * self.step / step)
        width = int(own.max())
        first = (self.low - self.noisy + 0.5 * (step[:, None] - 1)) / self.scale[:, None]
        away = first[..., None] + (step / self.scale)[:, None, None] * np.arange(width)
        noise = log_noise_density(self.law, away)
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

    def with_each(self, priors: Sequence[float]) -> CellDistributions:
        """Multiply rows by several priors: all of them by the first, then by the next."""
        first, count = self._first, len(priors)
        found = np.empty((count, *first.shape))
        for step in np.unique(self.step):
            rows = self.step == step
            found[:, rows] = log_bin_priors_of_each(first[rows], int(step), tuple(priors))
        found += self.logs
        again = lambda values: np.tile(values, (count, *[1] * (values.ndim - 1)))  # noqa: E731
        return CellDistributions(
            self.law, again(self.noisy), again(self.scale), again(self.low), again(self.step),
            found.reshape(-1, *first.shape[1:]), again(self.most_tilt), again(self.least_tilt),
            again(self.times), again(self.shift), np.repeat(priors, len(first))[:, None],
        )._with_first_bins()  # fmt: skip

    def _with_first_bins(self, rule: FirstBinRule = first_bins) -> CellDistributions:
        """Put first bins near 0 right, in place: their weights and where they are."""
        a = np.broadcast_to(self.prior, self.low.shape)
        near = self.steep & (a <= MAX_MATCHED_PRIOR)
        if not near.any():
            return self
        rows = np.nonzero(near)[0]
        step, scale = self.step[rows], self.scale[rows]
        weights, shift = rule(self.low[near], step, a[near])
        away = self.low[near] - self.noisy[near] + 0.5 * (step - 1)
        away = np.stack([away + shift, away + step], axis=1) / scale[:, None]
        self.logs[near, :2] = weights + log_noise_density(self.law, away)
        moved = np.zeros(self.low.shape)
        moved[near] = shift
        return replace(self, shift=moved)

    def of(self, rows: slice, d: int, width: int) -> CellDistributions:
        """Take some rows, of d cells and so many bins."""
        prior = self.prior
        return CellDistributions(
            self.law, self.noisy[rows, :d], self.scale[rows], self.low[rows, :d], self.step[rows],
            self.logs[rows, :d, :width], self.most_tilt[rows], self.least_tilt[rows],
            self.times[rows, :d], self.shift[rows, :d],
            prior[rows, :d] if isinstance(prior, np.ndarray) else prior,
        )  # fmt: skip

    def row(self, k: int) -> CellDistributions:
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
        bins, powers = _bin_powers(self.width)
        each = (self.step * tilt)[:, None]
        most = bins[-1] * np.maximum(each, 0.0)
        weights, logs = self._weights
        sums = None
        if most.max() < MAX_LOG_FACTOR:
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


def log_noise_density(law: str, away: np.ndarray) -> np.ndarray:
    """Logarithm of the density of noise, less its largest, so many scales away; in place."""
    if law == DISCRETE_LAPLACE:
        return np.negative(np.abs(away, out=away), out=away)
    away *= away
    away *= -0.5
    return away


@lru_cache(maxsize=256)
def _bin_powers(width: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the bins, and their powers 0, 1, 2 but of the first, shape (3, w)."""
    bins = np.arange(width, dtype=float)
    return bins, np.stack([np.sign(bins), bins, bins**2])
