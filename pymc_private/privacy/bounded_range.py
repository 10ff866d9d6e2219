"""Privacy of N exact draws from one posterior as bounded-range mechanisms: T1-T3.

A mechanism is R-bounded-range if, for any two neighbors, its privacy loss lies in an interval of
length R that holds 0. One exact posterior draw is, with R the range of one record's log-likelihood
ratio (Durfee and Rogers 2019, Definition 3.1; Dimitrakakis et al. 2017, Theorem 8.1, sharpened).

The sum of T3, for N draws of range R, is evaluated in logarithms with a proved error margin. At
threshold l the two-point distribution of T2 is taken where the sum over i <= l is largest in t:
with s = ((N-l) R - epsilon) / (N+1) this is t = R - s, and the gain of the term i = l - k is
1 - e^(-s-kR) = (1 - e^-s) + e^-s (1 - e^-kR), two positive parts that never cancel. So
  a_i = C(N, i) p^(N-i) (1-p)^i,  p = (1 - e^-s) / (1 - e^-R),  1-p = e^-s (1 - e^-t) / (1 - e^-R),
  delta_l = sum_k a_(l-k) [(1 - e^-s) + e^-s (1 - e^-kR)],  delta = max_l delta_l over s > 0
(s <= 0 means t >= R, where there is no mass on a positive loss: delta_l = 0).
Successive a_i have decreasing ratios, so a geometric series bounds what is left out: it picks the
thresholds worth a full sum, and closes each sum after a window of 12 standard deviations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from scipy.special import gammaln

from pymc_private.privacy.renyi import pure_to_delta, zcdp_to_delta, zcdp_to_eps
from pymc_private.privacy.rounding import float_down, least_epsilon, times_up, widen
from pymc_private.privacy.validation import (
    check_count,
    check_delta,
    check_nonnegative,
    double_up,
    vectorized,
)

MAX_EXACT_DRAWS = 20_000
"""Beyond this many draws the zCDP bound, some 5% larger, replaces the exact curve."""
LARGEST_RANGE = 1e6
"""Beyond this range, which is no protection, the curve of a pure N R is used."""


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
    Theory T2; attained by a two-point distribution.
    """
    R = _check_range(R)
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
    R = _check_range(R)
    if R == 0.0 or math.isinf(R):
        return R
    simple = widen(R * R / 8.0, 1e-15)
    if R < 1e-3:
        # rho = R^2/8 - R^4/576 + ...: the correction is below a part in 10^7 of it.
        return simple
    # With w = -ln z: rho = w + (e^-w - 1), whose leading terms cancel; where w is small the series
    # w^2/2 - w^3/6 + ... is used instead. w errs by a few units of 1 + R, rho by min(1, w) as much.
    w = math.log(math.expm1(R) / R) if R < 1.0 else R - math.log(R) + math.log(-math.expm1(-R))
    if w < 0.5:
        value = math.fsum((-w) ** k / math.factorial(k) for k in range(2, 20))
    else:
        value = w + math.expm1(-w)
    return min(simple, widen(value + 2e-15 * min(1.0, w) * (1.0 + R), 1e-15))


@vectorized
def br_delta(epsilon: float, n_draws: int, R: float) -> float:
    """Exact worst-case delta of N draws from one posterior with range R (T3), rounded up.

    delta_N(epsilon) = max_l sum_i C(N, i) p^(N-i) (1-p)^i (1 - e^(epsilon - N t + i R))_+, where
    t = clip((epsilon + (l+1) R) / (N+1), 0, R), l = 0..N, and p = q e^t, q = (e^(R-t)-1) / (e^R-1).
    Beyond `MAX_EXACT_DRAWS` draws the zCDP bound N min(R^2/8, tight) replaces it.

    Parameters
    ----------
    epsilon : float, nats
    n_draws : int
        Draws fixed in advance (not chosen adaptively).
    R : float, nats

    Returns
    -------
    float
        In [0, 1]. The margin added is below 1e-8 of the result, and 1e-11 for N <= 10, unless
        epsilon comes within a millionth of N R.

    Raises
    ------
    DomainError
        epsilon or R is negative, or n_draws is not a whole number >= 1.

    References
    ----------
    Dong, Durfee and Rogers (2020), non-adaptive homogeneous composition; theory T3.
    """
    n, R = _check_draws(n_draws), _check_range(R)
    check_nonnegative(epsilon=epsilon)
    if math.isinf(epsilon) or (math.isfinite(R) and Fraction(epsilon) >= n * Fraction(R)):
        return 0.0
    if math.isinf(R):
        return 1.0
    return _cached_delta(float_down(epsilon), n, R)


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
    n, R = _check_draws(n_draws), _check_range(R)
    check_delta(delta)
    pure = times_up(n, R)
    return pure if delta == 0.0 or math.isinf(pure) else _cached_eps(float_down(delta), n, R, pure)


@lru_cache(maxsize=4096)
def _cached_delta(epsilon: float, n: int, R: float) -> float:
    if R > LARGEST_RANGE:
        return pure_to_delta(times_up(n, R), epsilon)
    if n > MAX_EXACT_DRAWS:
        return zcdp_to_delta(times_up(n, br_zcdp_tight(R)), epsilon)
    return worst_threshold_delta(epsilon, n, R)


@lru_cache(maxsize=4096)
def _cached_eps(delta: float, n: int, R: float, pure: float) -> float:
    high = min(pure, zcdp_to_eps(times_up(n, br_zcdp_tight(R)), delta))
    if n > MAX_EXACT_DRAWS:
        return high
    return least_epsilon(lambda epsilon: br_delta(epsilon, n, R), delta, high)


def _check_draws(n_draws: int) -> int:
    return check_count(n_draws, "the number of draws")


def _check_range(R: float) -> float:
    return double_up(R, "a range")


# ---- the sum of T3 --------------------------------------------------------------------------
MACHINE_EPSILON = 2.0**-52
THRESHOLDS_FIRST = 32
"""Thresholds summed before the others are compared with the best of them."""
MAX_TERMS_AT_ONCE = 1_000_000
"""Terms in memory at once."""
MAX_LOG_ODDS = 600.0
"""Larger log odds are cut to this, beyond which exp would overflow."""
UNDERFLOW_MARGIN = 1e-300
"""At least the sum of all terms lost to underflow."""


@dataclass(frozen=True)
class _Thresholds:
    """Arrays over the thresholds l with s > 0, and what all of them share."""

    n: int
    R: float
    level: np.ndarray
    s: np.ndarray
    odds: np.ndarray  # ln(p / (1-p))
    start: np.ndarray  # (N-l) ln p + l ln(1-p)
    choose: np.ndarray  # ln C(N, i)


def worst_threshold_delta(epsilon: float, n: int, R: float) -> float:
    """Largest delta over all thresholds, rounded up; 0 <= epsilon < n R, and R is finite and > 0.

    Dong, Durfee and Rogers (2020); theory T3.
    """
    if R < 1e-140:  # s may underflow; TV <= N tanh(R/4) decides (T2)
        return min(1.0, n * R / 4.0 * (1.0 + 4.0 * MACHINE_EPSILON) + UNDERFLOW_MARGIN)
    rows = _thresholds(epsilon, n, R)
    bound = _geometric_bounds(rows)
    order = np.argsort(-bound)
    best = float(_threshold_sums(rows, order[:THRESHOLDS_FIRST]).max())
    rest = order[THRESHOLDS_FIRST:]
    rest = rest[bound[rest] > best]
    step = max(1, MAX_TERMS_AT_ONCE // (_window_width(n) + 1))
    for begin in range(0, len(rest), step):
        best = max(best, float(_threshold_sums(rows, rest[begin : begin + step]).max()))
    # An exponent adds ln C(N, i), of size up to N ln N with a few units from each ln Gamma, and N
    # logarithms of p and 1-p of the size in brackets, each good to a few units of that size.
    size = n * (3.0 * math.log(n + 2.0) + R + abs(math.log(-math.expm1(-R))) + 42.0) + 42.0
    return min(1.0, best * (1.0 + 16.0 * MACHINE_EPSILON * size) + UNDERFLOW_MARGIN)


def _thresholds(epsilon: float, n: int, R: float) -> _Thresholds:
    # With epsilon lowered a little, every s below is the exact optimum of some epsilon' <= epsilon
    # despite the rounding of s, and delta_l does not grow with epsilon: the bound stays above the
    # truth.
    epsilon -= 4.0 * MACHINE_EPSILON * (epsilon + n * R)
    level = np.arange(n + 1, dtype=float)
    s = ((n - level) * R - epsilon) / (n + 1.0)
    level, s = level[s > 0.0], s[s > 0.0]
    t = R - s
    log_top, log_whole = np.log(-np.expm1(-s)), math.log(-math.expm1(-R))
    odds = log_top + s - np.log(-np.expm1(-t))
    start = n * (log_top - log_whole) - level * odds
    index = np.arange(n + 1, dtype=float)
    choose = gammaln(n + 1.0) - gammaln(index + 1.0) - gammaln(n - index + 1.0)
    return _Thresholds(n, R, level, s, odds, start, choose)


def _geometric_bounds(rows: _Thresholds) -> np.ndarray:
    """Bound each delta_l by the geometric series of its first two terms: O(1) per threshold."""
    i = rows.level
    ratio = i / (rows.n - i + 1.0) * np.exp(np.minimum(rows.odds, MAX_LOG_ODDS))
    first = np.exp(rows.choose[i.astype(int)] + rows.start)
    gain = -np.expm1(-rows.s) - ratio * np.exp(-rows.s) * np.expm1(rows.s - rows.R)
    below = np.where(ratio < 1.0, (1.0 - ratio) * (1.0 - ratio * math.exp(-rows.R)), 1.0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        bound = first * gain / below
    return np.where(ratio < 1.0, np.fmin(bound * 1.000001, 1.0), 1.0)


def _window_width(n: int) -> int:
    """Terms below a threshold that are summed one by one: 12 standard deviations and 64."""
    return min(n, 64 + 6 * math.isqrt(n))


def _threshold_sums(rows: _Thresholds, chosen: np.ndarray) -> np.ndarray:
    """Sum T3 for the chosen thresholds; the terms beyond the window by their geometric bound."""
    width = _window_width(rows.n)
    level, s = rows.level[chosen].astype(int)[:, None], rows.s[chosen][:, None]
    odds, start = rows.odds[chosen][:, None], rows.start[chosen][:, None]
    k = np.arange(width + 1)[None, :]
    exponent = rows.choose[np.maximum(level - k, 0)] + (start + k * odds)
    terms = np.exp(np.where(k <= level, exponent, -np.inf))
    gains = -np.expm1(-s) + np.exp(-s) * -np.expm1(-k * rows.R)
    last = level[:, 0] - width
    ratio = last / (rows.n - last + 1.0) * np.exp(np.minimum(odds[:, 0], MAX_LOG_ODDS))
    inside = ratio < 1.0
    left = np.where(inside, terms[:, -1] * ratio / np.where(inside, 1.0 - ratio, 1.0), 1.0)
    return (terms * gains).sum(axis=1) + np.where(last > 0, left, 0.0)
