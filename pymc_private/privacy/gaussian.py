"""Gaussian differential privacy: the curve of N(0, 1) against N(mu, 1)."""

from __future__ import annotations

import math
from scipy.special import log_ndtr
from pymc_private.privacy.validation import inside_unit, not_negative, vectorized
from pymc_private.privacy.renyi import zcdp_to_eps
from pymc_private.privacy.rounding import LEAST, least_epsilon, times_up

ERROR = 4e-15
"""Bound on the relative error of `log_ndtr`, with room for the rounding of its argument."""


@vectorized
def gdp_delta(eps: float, mu: float) -> float:
    """Give Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), rounded up.

    Parameters
    ----------
    eps : float, nats
    mu : float

    Returns
    -------
    float
        delta in [0, 1].

    Raises
    ------
    DomainError
        eps or mu is negative or not a number.

    References
    ----------
    Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13; theory T4.
    """
    not_negative(mu=mu)
    not_negative(epsilon=eps)
    if mu == 0.0 or math.isinf(eps):
        return 0.0
    if math.isinf(mu):
        return 1.0
    first = float(log_ndtr(-eps / mu + mu / 2.0))
    second = eps + float(log_ndtr(-eps / mu - mu / 2.0))
    scale = math.exp(first)
    if scale == 0.0:
        return LEAST
    # The second term is smaller, so expm1 of their log ratio loses nothing but its own rounding;
    # where mu is tiny that is still too much, and delta <= TV <= mu / sqrt(2 pi) serves.
    size = 1.0 + abs(first) + eps + abs(second - eps)
    value = scale * (-math.expm1(min(second - first, 0.0)) + ERROR * size)
    return min(1.0, min(value, mu / math.sqrt(2.0 * math.pi) * (1.0 + ERROR)) + LEAST)


@vectorized
def gdp_eps(delta: float, mu: float) -> float:
    """Least epsilon at `delta` of mu-GDP, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1).
    mu : float

    Returns
    -------
    float
        epsilon in nats, at which `gdp_delta` was evaluated and found at most delta, or the bound
        of its zCDP, mu^2 / 2.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `gdp_delta` (T4); Bun and Steinke (2016) for mu^2 / 2.
    """
    not_negative(mu=mu)
    inside_unit(delta=delta)
    if mu == 0.0 or math.isinf(mu):
        return mu
    high = zcdp_to_eps(half_square(mu), delta)
    return least_epsilon(lambda eps: gdp_delta(eps, mu), delta, high)


def half_square(mu: float) -> float:
    """Give the zCDP of mu-GDP: rho = mu^2 / 2, rounded up (Bun and Steinke 2016)."""
    return times_up(0.5, times_up(mu, mu))
