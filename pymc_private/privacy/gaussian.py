"""Gaussian differential privacy (T4), and discrete Gaussian noise on a count (T26).

The curve of N(0, 1) against N(mu, 1), its inverse, and the exact curve of discrete Gaussian noise
on an integer that one record moves by one.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import log_ndtr

from pymc_private.privacy.renyi import zcdp_to_eps
from pymc_private.privacy.rounding import (
    SMALLEST_DOUBLE,
    UNIT_ROUNDOFF,
    least_epsilon,
    times_up,
)
from pymc_private.privacy.validation import (
    check_nonnegative,
    check_open_unit,
    check_positive,
    double_down,
    vectorized,
)

LOG_NDTR_ERROR = 4e-15
"""Bound on the relative error of `log_ndtr`, with room for the rounding of its argument."""


@vectorized
def gdp_delta(epsilon: float, mu: float) -> float:
    """Delta at `epsilon` of mu-GDP, rounded up.

    Phi(-epsilon/mu + mu/2) - e^epsilon Phi(-epsilon/mu - mu/2).

    Parameters
    ----------
    epsilon : float, nats
    mu : float

    Returns
    -------
    float
        delta in [0, 1].

    Raises
    ------
    DomainError
        epsilon or mu is negative or not a number.

    References
    ----------
    Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), Corollary 2.13; theory T4.
    """
    check_nonnegative(mu=mu)
    check_nonnegative(epsilon=epsilon)
    if mu == 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    first = float(log_ndtr(-epsilon / mu + mu / 2.0))
    second = epsilon + float(log_ndtr(-epsilon / mu - mu / 2.0))
    scale = math.exp(first)
    if scale == 0.0:
        return SMALLEST_DOUBLE
    # The second term is smaller, so expm1 of their log ratio loses nothing but its own rounding;
    # where mu is tiny that is still too much, and delta <= TV <= mu / sqrt(2 pi) is used.
    size = 1.0 + abs(first) + epsilon + abs(second - epsilon)
    value = scale * (-math.expm1(min(second - first, 0.0)) + LOG_NDTR_ERROR * size)
    return min(
        1.0, min(value, mu / math.sqrt(2.0 * math.pi) * (1.0 + LOG_NDTR_ERROR)) + SMALLEST_DOUBLE
    )


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
    check_nonnegative(mu=mu)
    check_open_unit(delta=delta)
    if mu == 0.0 or math.isinf(mu):
        return mu
    high = zcdp_to_eps(gdp_to_zcdp(mu), delta)
    return least_epsilon(lambda epsilon: gdp_delta(epsilon, mu), delta, high)


def gdp_to_zcdp(mu: float) -> float:
    """zCDP of mu-GDP: rho = mu^2 / 2, rounded up (Bun and Steinke 2016)."""
    return times_up(0.5, times_up(mu, mu))


MAX_SUMMED_SIGMA = 500.0
"""Up to this sigma the terms are summed; beyond it their integral is close enough."""
NEGLIGIBLE_FROM = 60.0
"""Standard deviations from zero to the first term of delta, from which all of them are nothing."""
LEAST_SUMMED_SIGMA = 1e-100
"""Noise of less is none."""
SUMMED_DEVIATIONS = 14.0
"""Standard deviations that are summed beyond the first term."""


@vectorized
def discrete_gaussian_delta(epsilon: float, sigma: float) -> float:
    """Delta of an integer plus discrete Gaussian noise, where a record moves the integer by one.

    With f(z) = e^(-z^2 / (2 sigma^2)), a = floor(epsilon sigma^2 - 1/2) + 1 and Z = sum f: the sum
    over z >= a of f(z) - e^epsilon f(z + 1), over Z. All its terms are positive. They rise and fall
    once, so that they sum to at most their integral, which is `gdp_delta(epsilon, 1/sigma)` Z, and
    the largest.

    Parameters
    ----------
    epsilon : float, nats
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
    check_nonnegative(epsilon=epsilon)
    check_positive(sigma=sigma)
    if math.isinf(epsilon):
        return 0.0
    epsilon, sigma = double_down(epsilon), float(sigma)  # of sigma, within the margin of the sums
    if epsilon * sigma - 0.5 / sigma > NEGLIGIBLE_FROM:  # f(a) is below e^-1700
        return SMALLEST_DOUBLE
    if sigma < LEAST_SUMMED_SIGMA:  # as good as no noise
        return 1.0
    return min(
        1.0,
        _delta_by_sum(epsilon, sigma)
        if sigma <= MAX_SUMMED_SIGMA
        else _delta_by_integral(epsilon, sigma),
    )


def discrete_gaussian_negligible(sigma: float) -> float:
    """An epsilon at which `discrete_gaussian_delta` is at most the smallest double, or inf."""
    return (NEGLIGIBLE_FROM + 0.5 / sigma) / sigma * (1.0 + 1e-12)


@lru_cache(maxsize=8192)
def _delta_by_sum(epsilon: float, sigma: float) -> float:
    variance = sigma * sigma
    # One term too many on the left is not positive by more than rounding: it is cut to zero.
    first = math.floor(epsilon * variance - 0.5)
    last = max(first, 0) + math.ceil(SUMMED_DEVIATIONS * sigma) + 2
    z = np.arange(first, last, dtype=float)
    loss = (2.0 * z + 1.0) / (2.0 * variance)
    # Where epsilon is next to a loss their difference is mostly rounding: it is lowered by more.
    slack = 8.0 * UNIT_ROUNDOFF * (epsilon + np.abs(loss))
    gain = -np.expm1(np.minimum(0.0, epsilon - loss - slack))
    total = float((np.exp(-z * z / (2.0 * variance)) * gain).sum())
    rest = math.exp(-last * last / (2.0 * variance)) * (1.0 + 1.2534 * sigma)
    # Squares up to 75^2 / 2 in the exponent: each exp errs by less than 1e-11.
    return (total + rest) * (1.0 + 1e-10) / _normalizer_lower(sigma) + 1e-300


def _delta_by_integral(epsilon: float, sigma: float) -> float:
    """Integral and largest term, at most f(z) (z - z0) / sigma^2, z0 = epsilon sigma^2 - 1/2."""
    start = max(0.0, epsilon * sigma - 0.5 / sigma)
    largest = 0.62 * math.exp(-0.5 * start**2 * (1.0 - 1e-12)) / sigma
    return float(gdp_delta(epsilon, math.nextafter(1.0 / sigma, 1.0))) + largest / (2.5066 * sigma)


@lru_cache(maxsize=64)
def _normalizer_lower(sigma: float) -> float:
    """Lower bound of the sum of f, which exceeds sqrt(2 pi) sigma (Poisson summation)."""
    z = np.arange(1.0, 2.0 + math.ceil(8.0 * sigma))
    direct = 1.0 + 2.0 * float(np.exp(-z * z / (2.0 * sigma * sigma)).sum())
    return max(math.sqrt(2.0 * math.pi) * sigma, direct) * (1.0 - 1e-12)
