"""Posterior draws are bounded-range mechanisms: T1 to T3.

A mechanism is R-bounded-range if, for any two neighbors, its privacy loss lies in an interval of
length R that holds 0. One exact posterior draw is, with R the range of one record's log-likelihood
ratio (Durfee and Rogers 2019, Definition 3.1; Dimitrakakis et al. 2017, Theorem 8.1, sharpened).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from pymc_private.errors import DomainError
from pymc_private.privacy.renyi import zcdp_to_delta

MOST_DRAWS_EXACT = 20_000
"""Beyond this many draws the exact curve gives way to the (valid) zCDP bound."""
CHUNK = 4_000_000


def _check(n_draws: int, R: float) -> None:
    if not (isinstance(n_draws, int | np.integer) and n_draws >= 1):
        raise DomainError("the number of draws is a whole number >= 1", got=n_draws)
    if not R >= 0:
        raise DomainError("a range is not negative", got=R, allowed="R >= 0, nats")


def br_tv(R: float) -> float:
    """Total variation of one R-bounded-range draw: at most tanh(R / 4), rounded up.

    Parameters
    ----------
    R : float, nats

    References
    ----------
    Theory T2; attained by the two-point law.
    """
    _check(1, R)
    return min(1.0, math.tanh(R / 4.0) * (1.0 + 1e-14))


def br_zcdp_tight(R: float) -> float:
    """Tight zCDP constant of one R-bounded-range draw: z - 1 - ln z, z = R / (e^R - 1).

    Never above R^2 / 8. Rounded up.

    Parameters
    ----------
    R : float, nats

    Returns
    -------
    float
        rho, so that the Renyi divergence of every order is at most rho times the order.

    References
    ----------
    Harrison and Manurangsi (2025); Cesar and Rogers (2021) for R^2 / 8; theory T2.
    """
    _check(1, R)
    simple = R * R / 8.0 * (1.0 + 1e-15)
    if R < 0.05:
        # The series is R^2/8 - R^4/576 + ...; below .05 cancellation costs more than it gains.
        return simple
    if R > 700.0:
        # z - 1 - ln z < -1 + z + R - ln R with z below any double's concern.
        return min(simple, (R - math.log(R) - 1.0 + 1e-12) * (1.0 + 1e-14))
    log_z = math.log(R) - R - math.log(-math.expm1(-R))
    value = math.expm1(log_z) - log_z
    return min(simple, value + 1e-14 * (1.0 + abs(log_z)))


def br_delta(eps: float, n_draws: int, R: float) -> float:
    """Exact worst-case delta of N draws from one posterior with range R (T3), rounded up.

    delta_N(eps) = max_l sum_i C(N, i) p^(N-i) (1-p)^i (1 - e^(eps - N t + i R))_+, where
    t = clip((eps + (l+1) R) / (N+1), 0, R), l = 0..N, and p = q e^t, q = (e^(R-t)-1) / (e^R-1).

    Parameters
    ----------
    eps : float, nats
    n_draws : int
        Draws fixed in advance (not chosen adaptively).
    R : float, nats

    Returns
    -------
    float
        In [0, 1].

    References
    ----------
    Dong, Durfee and Rogers (2020), non-adaptive homogeneous composition; theory T3.
    """
    _check(n_draws, R)
    if eps < 0:
        raise DomainError("epsilon is not negative", got=eps, allowed="epsilon >= 0")
    if eps >= n_draws * R:
        return 0.0
    n = int(n_draws)
    simple = min(1.0, zcdp_to_delta(n * br_zcdp_tight(R), eps))
    if n > MOST_DRAWS_EXACT:
        return simple
    most = max(1, CHUNK // (n + 1))
    best = 0.0
    levels = np.arange(n + 1, dtype=float)
    for start in range(0, n + 1, most):
        best = max(best, float(_curve(eps, n, R, levels[start : start + most]).max()))
    # Each term is exp of a sum of a few numbers of size at most n (1 + R): the error of the
    # exponent is below 16 ulp of that size, and so is the relative error of a sum of such terms.
    margin = 16.0 * 2.0**-52 * (n * (1.0 + R) + 16.0 * math.log(n + 2.0) * n + 64.0)
    return float(min(1.0, best * (1.0 + margin), simple))


def _curve(eps: float, n: int, R: float, levels: np.ndarray) -> np.ndarray:
    """The sum of T3 for each l."""
    t = np.clip((eps + (levels + 1.0) * R) / (n + 1.0), 0.0, R)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        # log p and log(1-p), written without cancellation: p = (1-e^-(R-t)) / (1-e^-R),
        # 1-p = e^-(R-t) (1-e^-t) / (1-e^-R).
        base = math.log(-math.expm1(-R)) if R > 0 else -math.inf
        log_p = np.log(-np.expm1(-(R - t))) - base
        log_1p = -(R - t) + np.log(-np.expm1(-t)) - base
        i = np.arange(n + 1, dtype=float)[None, :]
        choose = gammaln(n + 1.0) - gammaln(i + 1.0) - gammaln(n - i + 1.0)
        first = np.where(i == n, 0.0, (n - i) * log_p)
        second = np.where(i == 0, 0.0, i * log_1p)
        gap = eps - n * t + i * R
        gain = np.where(gap < 0.0, -np.expm1(np.minimum(gap, 0.0)), 0.0)
        terms = np.exp(choose + first + second) * gain
    return np.nan_to_num(terms, nan=0.0).sum(axis=1)


def br_eps(delta: float, n_draws: int, R: float) -> float:
    """Least epsilon at `delta` of N draws with range R, rounded up; at most N R (pure).

    Parameters
    ----------
    delta : float
        In [0, 1).
    n_draws : int
    R : float, nats

    References
    ----------
    Inverse of `br_delta` (T3).
    """
    _check(n_draws, R)
    if not 0.0 <= delta < 1.0:
        raise DomainError("delta is a probability below 1", got=delta, allowed="0 <= delta < 1")
    high = n_draws * R * (1.0 + 1e-15)
    if delta == 0.0 or high == 0.0:
        return high
    if br_delta(0.0, n_draws, R) <= delta:
        return 0.0
    low = 0.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        if br_delta(middle, n_draws, R) <= delta:
            high = middle
        else:
            low = middle
    return high
