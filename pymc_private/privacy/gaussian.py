"""Gaussian differential privacy: the curve of N(0, 1) against N(mu, 1)."""

from __future__ import annotations

import math

from scipy.special import log_ndtr

from pymc_private.errors import DomainError


def gdp_delta(eps: float, mu: float) -> float:
    """Give Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), rounded up.

    Parameters
    ----------
    eps : float, nats
    mu : float

    References
    ----------
    Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13; theory T4.
    """
    if not mu >= 0:
        raise DomainError("mu is not negative", got=mu, allowed="mu >= 0")
    if mu == 0.0:
        return 0.0
    if math.isinf(mu):
        return 1.0
    first = float(log_ndtr(-eps / mu + mu / 2.0))
    second = eps + float(log_ndtr(-eps / mu - mu / 2.0))
    if first == -math.inf:
        return 5e-324
    # The second term is smaller, so expm1 of their log ratio loses nothing but its own rounding.
    gap = min(second - first, 0.0)
    error = 4e-15 * (1.0 + abs(first) + abs(second))
    value = math.exp(first) * (-math.expm1(gap) + error)
    return min(1.0, max(value, 5e-324))


def gdp_eps(delta: float, mu: float) -> float:
    """Least epsilon at `delta` of mu-GDP, rounded up (safe end of a bisection)."""
    if not 0.0 < delta < 1.0:
        raise DomainError("delta is a probability", got=delta, allowed="0 < delta < 1")
    if mu == 0.0 or gdp_delta(0.0, mu) <= delta:
        return 0.0
    if math.isinf(mu):
        return math.inf
    high = 1.0
    while gdp_delta(high, mu) > delta:
        high *= 2.0
    low = 0.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if gdp_delta(middle, mu) <= delta else (middle, high)
    return high
