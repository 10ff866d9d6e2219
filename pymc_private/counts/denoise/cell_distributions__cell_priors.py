"""The prior of a true count, Gamma(n + a) / (n! Gamma(a)), on bins of counts.

A bin's middle stands for it: for smooth laws the midpoint rule is nearly exact, however steep the
prior, the noise and the tilt are one by one. At 0 the prior is not smooth, and two first bins have
weights, and one a place, that give the whole its mass, mean and mean square (`first_bins`).
"""

from __future__ import annotations

import numpy as np
from functools import lru_cache
from scipy import special

TABLED = 2**18
"""Counts up to this one find their prior in a table."""
LEVEL = 9.0
"""From so many times max(a / 2, 1)^(7/6) on, two terms of its series give the prior to 1e-7."""
BLOCK = 8
"""Bins over which mass and mean are made right; what is left falls with its fourth power."""
PEAKED = 1.5
"""Parameters beyond are taken at middles only: of laws that hardly reach 0 these are nearer."""


def log_priors(low: np.ndarray, step: np.ndarray, a: float | np.ndarray, width: int) -> np.ndarray:
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
    return _bins(first, step[:, None, None], np.asarray(a)[..., None])


def each_log_prior(first: np.ndarray, step: int, priors: tuple[float, ...]) -> np.ndarray:
    """`log_priors` for several parameters, of bins that begin at `first`: shape (priors, ...)."""
    most = int(first.max()) + 1
    if most > TABLED:
        return np.stack([_bins(first, np.array(step), np.array(a)) for a in priors])
    return np.take(_tables(priors, step, 1 << most.bit_length()), first, axis=1)


@lru_cache(maxsize=8)
def _tables(priors: tuple[float, ...], step: int, size: int) -> np.ndarray:
    return np.stack([_bins(np.arange(size), np.array(step), np.array(a)) for a in priors])


def _bins(first: np.ndarray, step: np.ndarray, a: np.ndarray) -> np.ndarray:
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
    near = m < LEVEL * np.maximum(b, 1.0) ** (7.0 / 6.0)
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
        Of cells whose grid begins near 0, with a parameter up to `PEAKED`.

    Returns
    -------
    arrays, shape (cells, 2) and (cells,)
    """
    which, back = _different(low, step, a)
    weights, shift = _first_bins(low[which], step[which], a[which])
    return weights[back], shift[back]


def first_masses(low: np.ndarray, step: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Do as `first_bins` with the prior's own masses, and its mean in the first bin.

    What draws within bins of that prior go with: the weights there are no masses.
    """
    logs = [_log_upto(low + k * step, a) for k in range(3)]
    shares = [-np.expm1(logs[k] - logs[k + 1]) for k in range(2)]
    weights = np.stack([logs[k + 1] + np.log(shares[k]) for k in range(2)], axis=1)
    # The sum of n times the prior below x is that of the prior times (x - 1) a / (a + 1).
    mean = (low - 1.0 + step / shares[0]) * a / (a + 1.0)
    return weights, mean - (low + 0.5 * (step - 1.0))


def _different(*values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where cells that are not alike are, and which of them each cell is."""
    order = np.lexsort(values)
    new = np.ones(len(order), dtype=bool)
    new[1:] = np.any([v[order[1:]] != v[order[:-1]] for v in values], axis=0)
    back = np.empty(len(order), dtype=np.int64)
    back[order] = np.cumsum(new) - 1
    return order[new], back


def _first_bins(low: np.ndarray, step: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    wide = step.astype(float)
    start, top = _log_upto(np.stack([low, low + BLOCK * step]), a)
    # Places from the middle of the second bin, in steps: moments differ by no large numbers.
    origin, end = low + 1.5 * wide - 0.5, BLOCK - 1.5
    at = np.array([-1.0, *range(BLOCK - 1), end])
    logs = _log_prior(origin[:, None] + wide[:, None] * at, a[:, None]) + np.log(wide)[:, None]
    exact = np.exp(logs[:, 2:] - top[:, None])
    each, last, places = exact[:, :-1], exact[:, -1], at[2:-1]
    slope = wide * (a - 1.0) / (origin + wide * end + 0.5 * a) * last
    rest = (1.0 - 1.0 / wide**2) / 24.0
    mass, mean, square = _block(low, step, a, start - top, origin)
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


def _block(
    low: np.ndarray, step: np.ndarray, a: np.ndarray, logs: np.ndarray, origin: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mass, mean and mean square of a block about an origin, in steps; 1 is the mass up to its end.

    `logs` are of the shares below it. The sum of n (n - 1) ... (n - k + 1) times the prior below x
    is that of the prior times (x - 1) ... (x - k) a / (a + k).
    """
    high = (low + BLOCK * step).astype(float)
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


def counts_within(low: int, step: int, a: float, uniform: np.ndarray) -> np.ndarray:
    """Draw places of counts in a bin from the prior, one for each uniform number."""
    if step > TABLED:
        return _within_wide(low, step, a, uniform)
    n = np.arange(low, low + step, dtype=float)
    upto = np.cumsum(special.softmax(special.gammaln(n + a) - special.gammaln(n + 1.0)))
    return np.minimum(np.searchsorted(upto, uniform), step - 1)


def _within_wide(low: int, step: int, a: float, uniform: np.ndarray) -> np.ndarray:
    """Find the same places by halving: a list of all counts might fill the memory."""
    ends = np.array([low, low + step])
    below, all_ = np.exp(_log_upto(ends, a) - _log_upto(ends[1:], a))
    first, last = np.zeros(len(uniform), np.int64), np.full(len(uniform), step - 1)
    while (first < last).any():
        middle = (first + last) // 2
        upto = np.exp(_log_upto(low + middle + 1, a) - _log_upto(ends[1:], a)) - below
        enough = upto >= uniform * (all_ - below)
        first, last = np.where(enough, first, middle + 1), np.where(enough, middle, last)
    return np.minimum(last, step - 1)


def _log_upto(x: np.ndarray, a: float | np.ndarray) -> np.ndarray:
    """Logarithm of the sum from 0 to x - 1: Gamma(x + a) / (Gamma(a + 1) Gamma(x))."""
    found = _log_prior(np.maximum(x, 1) - 1.0, np.asarray(a) + 1.0)
    return np.asarray(np.where(np.asarray(x) <= 0, -np.inf, found))
