"""The prior of a true count, Gamma(n + a) / (n! Gamma(a)), summed over bins of counts."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special

TABLED = 2**18
"""Counts up to this one find their prior in a table."""


def log_prior(first: np.ndarray, step: np.ndarray, a: float) -> np.ndarray:
    """Logarithm of the sum of Gamma(n + a) / (n! Gamma(a)) over bins that begin at `first`.

    Parameters
    ----------
    first : array of int, shape (rows, ...)
    step : array of int, shape (rows,)
    a : float
    """
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
    return _between(_log_upto(first, a), _log_upto(first + step, a))


def _between(below: np.ndarray, upto: np.ndarray) -> np.ndarray:
    """Logarithm of the difference."""
    return np.asarray(upto + np.log1p(-np.minimum(np.exp(below - upto), 1.0 - 1e-15)))


def log_priors(low: np.ndarray, step: int | np.ndarray, a: np.ndarray, width: int) -> np.ndarray:
    """`log_prior` where each cell has a parameter of its own: low and a of shape (rows, d)."""
    ends = low[..., None] + step * np.arange(width + 1)
    upto = _log_upto(ends, a[..., None])
    return _between(upto[..., :-1], upto[..., 1:])


def below(step: int, a: float, uniform: np.ndarray) -> np.ndarray:
    """Draw counts below `step` from the prior, one for each uniform number."""
    upto = _log_upto(np.arange(1, step + 1), a)
    return np.minimum(np.searchsorted(upto, np.log(uniform) + upto[-1]), step - 1)


def _log_upto(x: np.ndarray, a: float | np.ndarray) -> np.ndarray:
    """Logarithm of the sum from 0 to x - 1: Gamma(x + a) / (Gamma(a + 1) Gamma(x))."""
    at = np.maximum(x, 1)
    found = special.gammaln(at + a)
    found -= _log_gamma(at)
    found -= special.gammaln(a + 1.0)
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
