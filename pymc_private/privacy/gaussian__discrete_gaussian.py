"""The exact curve of discrete Gaussian noise on an integer that one record moves by one."""

from __future__ import annotations

import math
import numpy as np
from functools import lru_cache
from pymc_private.privacy.validation import not_negative, positive, vectorized
from pymc_private.privacy.gaussian import gdp_delta
from pymc_private.privacy.rounding import LEAST

SUMMED = 500.0
"""Up to this sigma the terms are added; beyond it their integral is close enough."""
REACH = 14.0
"""Standard deviations added beyond the first term."""


@vectorized
def discrete_gaussian_delta(eps: float, sigma: float) -> float:
    """Delta of an integer plus discrete Gaussian noise, where a record moves the integer by one.

    With f(z) = e^(-z^2 / (2 sigma^2)), a = floor(eps sigma^2 - 1/2) + 1 and Z = sum f: the sum over
    z >= a of f(z) - e^eps f(z + 1), over Z. All its terms are positive. They rise and fall once, so
    that they sum to at most their integral, which is `gdp_delta(eps, 1/sigma)` Z, and the largest.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    sigma : float
        Scale of the noise, > 0.

    Returns
    -------
    float
        In [0, 1], rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Canonne, Kamath and Steinke (2020), Theorem 7; theory T26.
    """
    not_negative(eps=eps)
    positive(sigma=sigma)
    if math.isinf(eps):
        return 0.0
    if eps * sigma > 60.0:  # f is below e^-1700 there
        return LEAST
    return min(1.0, _summed(eps, sigma) if sigma <= SUMMED else _integral(eps, sigma))


@lru_cache(maxsize=8192)
def _summed(eps: float, sigma: float) -> float:
    variance = sigma * sigma
    # One term too many on the left is not positive by more than rounding: it is cut to zero.
    first = math.floor(eps * variance - 0.5)
    last = max(first, 0) + math.ceil(REACH * sigma) + 2
    z = np.arange(first, last, dtype=float)
    gain = -np.expm1(np.minimum(0.0, eps - (2.0 * z + 1.0) / (2.0 * variance)))
    total = float((np.exp(-z * z / (2.0 * variance)) * gain).sum())
    rest = math.exp(-last * last / (2.0 * variance)) * (1.0 + 1.2534 * sigma)
    # Squares up to 60^2 / 2 in the exponent: each exp errs by less than 1e-12; a difference that
    # cancels in `gain`, by less than 1e-11.
    return (total + rest) * (1.0 + 1e-10) / _norm(sigma) + 1e-300


def _integral(eps: float, sigma: float) -> float:
    """Add the largest term, at most f(z) (z - z0) / sigma^2 with z0 = eps sigma^2 - 1/2."""
    start = max(0.0, eps * sigma - 0.5 / sigma)
    largest = 0.62 * math.exp(-0.5 * start**2 * (1.0 - 1e-12)) / sigma
    return float(gdp_delta(eps, math.nextafter(1.0 / sigma, 1.0))) + largest / (2.5066 * sigma)


@lru_cache(maxsize=64)
def _norm(sigma: float) -> float:
    """Give a lower bound of the sum of f, which exceeds sqrt(2 pi) sigma (Poisson summation)."""
    z = np.arange(1.0, 2.0 + math.ceil(8.0 * sigma))
    direct = 1.0 + 2.0 * float(np.exp(-z * z / (2.0 * sigma * sigma)).sum())
    return max(math.sqrt(2.0 * math.pi) * sigma, direct) * (1.0 - 1e-12)
