"""The curves of Beta and Gamma pairs in double precision, each above the truth by a proved margin.

Both tails of such a curve share one factor at the threshold of the test, so their difference is
that factor times a series of positive terms: nothing cancels, and rounding costs a few units per
term. With c_0 = 1/b and u the threshold,
  Beta(a+r, b) against Beta(a, b+r): u^b (1-u)^(a+r) / B(a+r, b) * sum of c_n g_n u^n,
    c_(n+1) = c_n (a+b+r+n) / (b+1+n),  g_n = 1 - prod over j <= n of (b+j) / (b+r+j);
  Gamma(a) against Gamma(a+r) the same with b = a and c_(n+1) = c_n / (a+1+n);
  Gamma(a+r) against Gamma(a) downward: c_(m+1) = c_m (a+r-m-1) / g. (Series of the incomplete
functions: DLMF 8.11.4, 8.11.5 and 8.17.8.)
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from functools import lru_cache
from flint import arb
from pymc_private.privacy.rounding__enclosure import lower, real, upper
from pymc_private.privacy.rounding import LEAST, widen

UNIT = 2.0**-53
MOST_TERMS = 2**21
"""Longer series are not summed."""
LARGEST = 1e9
"""Of the prior parameters: the number of terms grows with the root."""
ENOUGH = 45
"""Correct bits of the factor in front of a series."""


def beta_curve(eps: float, r: float, a: float, b: float) -> float:
    """Give delta of Beta(a + r, b) against Beta(a, b + r), rounded up; inf if the sum is too long.

    Parameters
    ----------
    eps : float
        Finite, nats, at least 0.
    r, a, b : float
        > 0.

    References
    ----------
    Theory T9.
    """

    def threshold() -> arb:
        shift = _lgamma(a) + _lgamma(b, r) - _lgamma(a, r) - _lgamma(b)
        return 1 / (1 + ((real(eps) - shift) / real(r)).exp())

    def factor() -> arb:
        u, big = threshold(), real(a) + real(r)
        norm = _lgamma(a, r) + _lgamma(b) - (big + real(b)).lgamma()
        return (real(b) * u.log() + big * (-u).log1p() - norm).exp()

    u = min(1.0, upper(threshold, ENOUGH))
    total = a + b + r

    def ratios(j: np.ndarray) -> np.ndarray:
        ratio: np.ndarray = (total + j) * u / (b + 1.0 + j)
        return ratio

    return _product(factor, _upward(ratios, u, r, b))


def gamma_curve(eps: float, r: float, alpha: float, *, first: bool) -> float:
    """Give delta of Gamma(alpha + r) against Gamma(alpha), or of the reverse, rounded up.

    Parameters
    ----------
    eps : float
        Finite, nats, at least 0.
    r, alpha : float
        > 0.
    first : bool
        Whether the law of more is P.

    Returns
    -------
    float
        inf if the sum is too long, or not long enough for a small alpha.

    References
    ----------
    Theory T10.
    """
    sign = 1 if first else -1

    def threshold() -> arb:
        return ((_lgamma(alpha, r) - _lgamma(alpha) + sign * real(eps)) / real(r)).exp()

    def factor() -> arb:
        g, a = threshold(), real(alpha)
        if first:
            return ((a + real(r) - 1) * g.log() - g - _lgamma(alpha, r)).exp()
        return (a * g.log() - g - _lgamma(alpha)).exp()

    if first:
        return _product(factor, _downward(lower(threshold), r, alpha))
    g = upper(threshold, ENOUGH)
    return _product(factor, _upward(lambda j: g / (alpha + 1.0 + j), 0.0, r, alpha))


def _lgamma(a: float, r: float = 0.0) -> arb:
    return (real(a) + real(r)).lgamma()


def _product(factor: Callable[[], arb], total: float) -> float:
    if not math.isfinite(total):
        return math.inf
    return widen(upper(factor, ENOUGH) * total, 4.0 * UNIT) + LEAST


def _upward(ratios: Callable[[np.ndarray], np.ndarray], limit: float, r: float, b: float) -> float:
    """Sum c_n g_n, rounded up; the ratios of the c_n tend to `limit` from one side."""
    count = _first_count(b)
    while count <= MOST_TERMS and b <= LARGEST:
        with np.errstate(over="ignore", invalid="ignore"):
            ratio = ratios(np.arange(count, dtype=float))
            terms = np.cumprod(np.concatenate([[1.0 / b], ratio[:-1]]))
            total = float((terms * _gains(r, b, count)).sum())
        if not math.isfinite(total):
            return math.inf
        found = _closed(total, float(terms[-1]), max(float(ratio[-1]), limit), count)
        if found is not None:
            return found
        count *= 2
    return math.inf


def _downward(g: float, r: float, a: float) -> float:
    """Sum c_m h_m, h_m = 1 - prod over i <= m of (a-i) / (a+r-i), rounded up.

    Terms end at a / 2, so that no difference loses more than a digit. What is left of the
    incomplete Gamma function is at most its next term over one minus the ratio.
    """
    count = 64 if a < 128.0 else min(_first_count(a), int(a / 2.0))
    while g > 0.0 and r <= a <= LARGEST and count <= min(MOST_TERMS, a / 2.0):
        i = np.arange(1, count + 1, dtype=float)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = np.cumprod((a + r - i) / g)
            total = float((terms * _losses(r, a, count)).sum())
        found = _closed(total, float(terms[-1]), (a + r - count - 1.0) / g, count)
        if found is not None:
            return found
        count *= 2
    return math.inf


def _first_count(b: float) -> int:
    """Terms to begin with: those within some standard deviations of the largest."""
    return int(64.0 + 6.0 * math.sqrt(min(b, LARGEST)))


def _closed(total: float, last: float, ratio: float, count: int) -> float | None:
    """Close a sum by its geometric bound, and add the rounding of all terms; None if too soon.

    A term has at most ten roundings, of twice their size each, from every factor before it.
    """
    if not (math.isfinite(total) and ratio < 1.0 - 1e-7):
        return None
    rest = last * max(ratio, 0.0) / (1.0 - ratio) * 1.00001
    if rest > 1e-15 * total:
        return None
    return (total + rest) * (1.0 + (24.0 * count + 64.0) * UNIT) + count * 1e-300


@lru_cache(maxsize=16)
def _gains(r: float, b: float, count: int) -> np.ndarray:
    j = np.arange(count, dtype=float)
    gains: np.ndarray = -np.expm1(-np.cumsum(np.log1p(r / (b + j))))
    return gains


@lru_cache(maxsize=16)
def _losses(r: float, a: float, count: int) -> np.ndarray:
    i = np.arange(1, count + 1, dtype=float)
    losses: np.ndarray = -np.expm1(np.cumsum(np.log1p(-r / (a + r - i))))
    return losses
