"""The prior of a true count, Gamma(n + a) / (n! Gamma(a)), summed over bins of counts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

TABLED = 2**18
"""Counts up to this one find their prior in a table."""
HUGE = 2**26
"""Counts beyond are far under every parameter, to all digits."""
FAR = 2**14
"""Counts from here on (times the parameter) have it from a formula for large ones."""


def log_prior(low: np.ndarray, step: np.ndarray, a: float, width: int) -> np.ndarray:
    """Logarithm of the sum of Gamma(n + a) / (n! Gamma(a)) over `width` bins from `low` on.

    Parameters
    ----------
    low : array of int, shape (rows, d)
    step : array of int, shape (rows,)
    a : float
    width : int
    """
    if low.size * width < low.max(initial=0):  # a table would be of more counts than are asked for
        return log_priors(low, step, np.full(low.shape, a), width)
    first = low[..., None] + step[:, None, None] * np.arange(width)
    found = np.empty(first.shape)
    for one in np.unique(step):
        rows = step == one
        found[rows] = each_log_prior(first[rows], int(one), (a,))[0]
    return found


def each_log_prior(first: np.ndarray, step: int, priors: tuple[float, ...]) -> np.ndarray:
    """`log_prior` for several parameters: shape (priors, ...)."""
    most = int(first.max()) + 1
    if most > TABLED:
        return np.stack([_bins(first, step, a) for a in priors])
    return np.take(_tables(priors, step, 1 << most.bit_length()), first, axis=1)


@lru_cache(maxsize=64)
def _table(a: float, step: int, size: int) -> np.ndarray:
    return _bins(np.arange(size), step, a)


@lru_cache(maxsize=16)
def _tables(priors: tuple[float, ...], step: int, size: int) -> np.ndarray:
    return np.stack([_table(a, step, size) for a in priors])


def _bins(first: np.ndarray, step: int, a: float) -> np.ndarray:
    found = _between(_log_upto(first, a), _log_upto(first + step, a))
    return _far(found, first, np.asarray(step), np.asarray(a))


def _between(below: np.ndarray, upto: np.ndarray) -> np.ndarray:
    """Logarithm of the difference."""
    found = below - upto
    np.exp(found, out=found)
    np.negative(np.minimum(found, 1.0 - 1e-15, out=found), out=found)
    np.log1p(found, out=found)
    found += upto
    return np.asarray(found)


def _far(found: np.ndarray, first: np.ndarray, step: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Put large counts right, whose sums differ by less than their rounding.

    Gamma(x + a) / Gamma(x) is (x + (a - 1) / 2)^a but for a factor 1 + O(a^3 / x^2).
    """
    far = first > FAR * np.maximum(a, 1.0)
    if far.any():
        x, s, a = (np.broadcast_to(v, found.shape)[far] for v in (first, step, a))
        middle = x + 0.5 * (a - 1.0)
        up = a * np.log(middle + s) - special.gammaln(a + 1.0)
        found[far] = up + np.log(-np.expm1(-a * np.log1p(s / middle)))
    return found


def log_priors(low: np.ndarray, step: np.ndarray, a: np.ndarray, width: int) -> np.ndarray:
    """`log_prior` where each cell has a parameter of its own: low and a of shape (rows, d)."""
    ends = low[..., None] + step[:, None, None] * np.arange(width + 1)
    upto = _log_upto(ends, a[..., None])
    found = _between(upto[..., :-1], upto[..., 1:])
    return _far(found, ends[..., :-1], step[:, None, None], a[..., None])


def bin_mean(low: np.ndarray, step: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Mean under the prior of the counts low, ..., low + step - 1.

    The sum of n times the prior below x is that of the prior times (x - 1) a / (a + 1).
    """
    high = low + step
    share = np.exp(_log_upto(low, a) - _log_upto(high, a))
    return np.asarray((high - 1.0 - share * (low - 1.0)) / (1.0 - share) * a / (a + 1.0))


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
    at = np.maximum(x, 1)
    found = special.gammaln(at + a)
    found -= _log_gamma(at)
    found -= special.gammaln(a + 1.0)
    large = at > HUGE  # there logarithms of factorials cancel; see `_far`
    if large.any():
        x_, a_ = (np.broadcast_to(v, found.shape)[large] for v in (at, np.asarray(a)))
        found[large] = a_ * np.log(x_ + 0.5 * (a_ - 1.0)) - special.gammaln(a_ + 1.0)
    found[x <= 0] = -np.inf
    return np.asarray(found)


def _log_gamma(x: np.ndarray) -> np.ndarray:
    """log Gamma of whole numbers, from a table where it has them."""
    most = int(x.max())
    if most > TABLED:
        return np.asarray(special.gammaln(x.astype(float)))
    return np.asarray(_log_gammas(1 << most.bit_length())[x])


@lru_cache(maxsize=20)
def _log_gammas(size: int) -> np.ndarray:
    return np.asarray(special.gammaln(np.arange(size, dtype=float)))
