"""Posterior draws are bounded-range mechanisms: T1 to T3.

A mechanism is R-bounded-range if, for any two neighbors, its privacy loss lies in an interval of
length R that holds 0. One exact posterior draw is, with R the range of one record's log-likelihood
ratio (Durfee and Rogers 2019, Definition 3.1; Dimitrakakis et al. 2017, Theorem 8.1, sharpened).
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from pymc_private.privacy.validation import not_negative, number_up, probability, vectorized, whole
from pymc_private.privacy.bounded_range__bounded_range_sum import worst_delta
from pymc_private.privacy.renyi import pure_to_delta, zcdp_to_delta, zcdp_to_eps
from pymc_private.privacy.rounding import float_down, least_epsilon, times_up, widen

MOST_DRAWS_EXACT = 20_000
"""Beyond this many draws the exact curve gives way to the zCDP bound, valid but some 5% larger."""
LARGEST_RANGE = 1e6
"""Beyond this range, which protects nobody, the curve of a pure N R takes its place."""


@vectorized
def br_tv(R: float) -> float:
    """Total variation of one R-bounded-range draw: at most tanh(R / 4), rounded up.

    Parameters
    ----------
    R : float, nats

    Raises
    ------
    DomainError
        R is negative or not a number.

    References
    ----------
    Theory T2; attained by the two-point law.
    """
    R = _range(R)
    # One rounding of the quotient moves tanh relatively by less than one unit, tanh errs by 2.
    return min(1.0, widen(math.tanh(R / 4.0), 1e-15)) if R else 0.0


@vectorized
def br_zcdp_tight(R: float) -> float:
    """Tight zCDP constant of one R-bounded-range draw: z - 1 - ln z, z = R / (e^R - 1).

    Parameters
    ----------
    R : float, nats

    Returns
    -------
    float
        rho, never above R^2 / 8, rounded up: the Renyi divergence of every order is at most rho
        times that order.

    Raises
    ------
    DomainError
        R is negative or not a number.

    References
    ----------
    Harrison and Manurangsi (2025); Cesar and Rogers (2021) for R^2 / 8; theory T2.
    """
    R = _range(R)
    if R == 0.0 or math.isinf(R):
        return R
    simple = widen(R * R / 8.0, 1e-15)
    if R < 1e-3:
        # rho = R^2/8 - R^4/576 + ...: the correction is below a part in 10^7 of it.
        return simple
    # With w = -ln z: rho = w + (e^-w - 1), whose leading terms cancel; where w is small the series
    # w^2/2 - w^3/6 + ... serves instead. w errs by a few units of 1 + R, rho by min(1, w) as much.
    w = math.log(math.expm1(R) / R) if R < 1.0 else R - math.log(R) + math.log(-math.expm1(-R))
    if w < 0.5:
        value = math.fsum((-w) ** k / math.factorial(k) for k in range(2, 20))
    else:
        value = w + math.expm1(-w)
    return min(simple, widen(value + 2e-15 * min(1.0, w) * (1.0 + R), 1e-15))


@vectorized
def br_delta(eps: float, n_draws: int, R: float) -> float:
    """Exact worst-case delta of N draws from one posterior with range R (T3), rounded up.

    delta_N(eps) = max_l sum_i C(N, i) p^(N-i) (1-p)^i (1 - e^(eps - N t + i R))_+, where
    t = clip((eps + (l+1) R) / (N+1), 0, R), l = 0..N, and p = q e^t, q = (e^(R-t)-1) / (e^R-1).
    Beyond `MOST_DRAWS_EXACT` draws the zCDP bound N min(R^2/8, tight) takes its place.

    Parameters
    ----------
    eps : float, nats
    n_draws : int
        Draws fixed in advance (not chosen adaptively).
    R : float, nats

    Returns
    -------
    float
        In [0, 1]. The margin added is below 1e-8 of the result, and 1e-11 for N <= 10, unless eps
        comes within a millionth of N R.

    Raises
    ------
    DomainError
        eps or R is negative, or n_draws is not a whole number >= 1.

    References
    ----------
    Dong, Durfee and Rogers (2020), non-adaptive homogeneous composition; theory T3.
    """
    n, R = _draws(n_draws), _range(R)
    not_negative(epsilon=eps)
    if math.isinf(eps) or (math.isfinite(R) and Fraction(eps) >= n * Fraction(R)):
        return 0.0
    if math.isinf(R):
        return 1.0
    return _delta(float_down(eps), n, R)


@vectorized
def br_eps(delta: float, n_draws: int, R: float) -> float:
    """Least epsilon at `delta` of N draws with range R, rounded up; at most N R (pure).

    Parameters
    ----------
    delta : float
        In [0, 1).
    n_draws : int
        Draws fixed in advance (not chosen adaptively).
    R : float, nats

    Returns
    -------
    float
        epsilon in nats, at which `br_delta` was evaluated and found at most delta, or N R.

    Raises
    ------
    DomainError
        delta is outside [0, 1), R is negative, or n_draws is not a whole number >= 1.

    References
    ----------
    Inverse of `br_delta` (T3).
    """
    n, R = _draws(n_draws), _range(R)
    probability(delta)
    pure = times_up(n, R)
    return pure if delta == 0.0 or math.isinf(pure) else _eps(float_down(delta), n, R, pure)


@lru_cache(maxsize=4096)
def _delta(eps: float, n: int, R: float) -> float:
    if R > LARGEST_RANGE:
        return pure_to_delta(times_up(n, R), eps)
    if n > MOST_DRAWS_EXACT:
        return zcdp_to_delta(times_up(n, br_zcdp_tight(R)), eps)
    return worst_delta(eps, n, R)


@lru_cache(maxsize=4096)
def _eps(delta: float, n: int, R: float, pure: float) -> float:
    high = min(pure, zcdp_to_eps(times_up(n, br_zcdp_tight(R)), delta))
    if n > MOST_DRAWS_EXACT:
        return high
    return least_epsilon(lambda eps: br_delta(eps, n, R), delta, high)


def _draws(n_draws: int) -> int:
    return whole(n_draws, "the number of draws")


def _range(R: float) -> float:
    return number_up(R, "a range")
