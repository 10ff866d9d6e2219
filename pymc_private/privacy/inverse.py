"""Inverse accounting: the most draws, range, power, mu or rho that a budget affords.

Results are rounded toward more privacy: the forward formula was evaluated at each of them and found
within the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import scipy

from pymc_private.errors import DomainError
from pymc_private.privacy.bounded_range import br_delta, br_eps
from pymc_private.privacy.gaussian import gdp_delta
from pymc_private.privacy.mollifier import moll_delta_k
from pymc_private.privacy.renyi import zcdp_to_eps
from pymc_private.privacy.rounding import float_down, times_up
from pymc_private.privacy.validation import (
    MAX_COUNT,
    check_count,
    check_delta,
    check_nonnegative,
    check_open_unit,
    check_positive,
    double_up,
    exact_fraction,
    takes_numbers,
)


@takes_numbers
def draws_affordable(epsilon: float, delta: float, R: float) -> int:
    """Most posterior draws of range R that fit (epsilon, delta).

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    delta : float
        In [0, 1).
    R : float, nats
        > 0.

    Returns
    -------
    int
        0 if not even one fits; at most 10**18, though more may fit. Beyond 1000 draws it may be up
        to 0.2% below the most.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `br_eps` (T3), of N R at delta = 0.
    """
    check_nonnegative(epsilon=epsilon)
    check_positive(R=R)
    if math.isinf(epsilon):
        raise DomainError(
            "epsilon is infinite, which limits no number of draws",
            got=epsilon,
            allowed="0 <= epsilon < inf",
            do="give the epsilon that the draws may cost together",
        )
    check_delta(delta)
    limit, R = float_down(exact_fraction(epsilon)), double_up(R, "R")
    pure = min(MAX_COUNT, math.floor(Fraction(limit) / Fraction(R)))
    if delta == 0.0:
        return pure
    below = (1 - 1e-11) * limit  # epsilons are found to 12 digits, and up

    def fits(n: int) -> bool:
        return n == 0 or br_delta(below, n, R) <= delta

    found = max(pure, _largest_near(fits, _guessed_draws(limit, delta, R)))
    while found < SEARCHED_EXACTLY and br_eps(delta, found + 1, R) <= epsilon:
        found += 1
    return found


SEARCHED_EXACTLY = 1000
"""Larger numbers of draws are found to 0.2%: each trial takes longer."""


def _guessed_draws(epsilon: float, delta: float, R: float) -> int:
    """About how many draws fit: N R in all, or as many as Gaussian mechanisms of mu = R / 2."""
    mu = mu_affordable(epsilon, delta)
    return int(min(MAX_COUNT, max(1.0, epsilon / R, (2.0 * mu / R) * (2.0 * mu / R))))


def _largest_near(fits: Callable[[int], bool], guess: int) -> int:
    """A whole number up to `MAX_COUNT` that fits, searched outward from a guess.

    It is the largest up to 1000, and within 0.2% of it beyond.
    """
    step = max(1, guess // 1000)
    if fits(guess):
        low, high = guess, guess + step
        while high <= MAX_COUNT and fits(high):
            low, step = high, 4 * step
            high = low + step
        return _largest_whole(fits, low, min(high, MAX_COUNT + 1))
    low, high = guess - step, guess
    while low > 0 and not fits(low):
        high, step = low, 4 * step
        low = high - step
    return _largest_whole(fits, max(low, 0), high)


def _largest_whole(fits: Callable[[int], bool], low: int, high: int) -> int:
    """The largest whole number that fits, or 0.2% less; `low` fits and `high` does not."""
    while high - low > max(1, low // 500):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@takes_numbers
def range_affordable(epsilon: float, delta: float, draws: int = 1) -> float:
    """Largest range R (nats) of which so many draws fit (epsilon, delta).

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    delta : float
        In [0, 1).
    draws : int

    Returns
    -------
    float
        Rounded down: `br_eps` was evaluated at it and found at most epsilon.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `br_eps` (T3).
    """
    check_nonnegative(epsilon=epsilon)
    if math.isinf(epsilon):
        check_delta(delta)
        check_count(draws, "the number of draws")
        return math.inf
    return _largest_argument(lambda R: br_eps(delta, draws, R), epsilon)


@takes_numbers
def mollifier_affordable(
    epsilon: float, delta: float, draws: int = 1, share: float | None = None
) -> float:
    """Width of the widest mollifier (nats) of which so many draws fit (epsilon, delta).

    Arguments and errors as those of `range_affordable`. Rounded down: `moll_delta_k` was evaluated
    at it and found at most delta.

    Parameters
    ----------
    epsilon, delta, draws
    share : float, optional
        s in (0, 1) of a window [a, a e^width], a = 1 / (1 + s (e^width - 1)). Default: symmetric.

    References
    ----------
    Inverse of `moll_delta_k` (T15b), of draws times epsilon at delta = 0.
    """
    check_nonnegative(epsilon=epsilon)
    draws = check_count(draws, "the number of draws")
    check_delta(delta)
    if share is not None:
        check_open_unit(share=share)
    if math.isinf(epsilon):
        return math.inf
    pure = float_down(exact_fraction(epsilon) / draws)
    below = (1 - 1e-11) * float_down(exact_fraction(epsilon))  # found to 12 digits, and up

    def curve(width: float) -> float:
        top = None if share is None else -math.log1p((1.0 - share) * math.expm1(-width))
        return moll_delta_k(below, width, draws, top)

    return max(pure, _largest_argument(curve, delta))


@takes_numbers
def power_affordable(epsilon: float, delta: float, draws: int, R: float) -> float:
    """Largest power in (0, 1] of a likelihood of range R whose draws fit (epsilon, delta).

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    delta : float
        In [0, 1).
    draws : int
    R : float, nats
        Range at power 1, > 0.

    Returns
    -------
    float
        Rounded down; 0 if none fits.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T1: a power w makes the range w R.
    """
    check_nonnegative(epsilon=epsilon)
    check_positive(R=R)
    R = double_up(R, "R")
    if br_eps(delta, draws, R) <= epsilon:
        return 1.0
    return _largest_argument(lambda power: br_eps(delta, draws, times_up(power, R)), epsilon)


@takes_numbers
def mu_affordable(epsilon: float, delta: float) -> float:
    """Largest mu whose Gaussian curve passes below (epsilon, delta).

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Rounded down.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `gdp_delta` (T4).
    """
    check_nonnegative(epsilon=epsilon)
    check_open_unit(delta=delta)
    return _largest_argument(lambda mu: gdp_delta(epsilon, mu), delta)


@takes_numbers
def rho_affordable(epsilon: float, delta: float) -> float:
    """Largest rho of zCDP that fits (epsilon, delta).

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        Rounded down.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `zcdp_to_eps` (T4).
    """
    check_nonnegative(epsilon=epsilon)
    check_open_unit(delta=delta)
    return _largest_argument(lambda rho: zcdp_to_eps(rho, delta), epsilon)


def _largest_argument(curve: Callable[[float], float], target: float) -> float:
    """Large argument at which an increasing curve is at most `target`; it was evaluated."""
    if not target > 0.0:
        return 0.0
    low, high = 1.0, 1.0
    while curve(low) > target:
        low /= 2.0
        if low < 1e-300:
            return 0.0
    high = 2.0 * low if low < 1.0 else high  # known to be too large; near, so few steps suffice
    while curve(high) <= target:
        high *= 2.0
        if high > 1e300:
            return high
    stops = {"xtol": 1e-300, "rtol": 1e-13, "disp": False}
    found = float(scipy.optimize.brentq(lambda x: curve(x) - target, low, high, **stops))
    step = 1e-13 * found
    while curve(found) > target:
        found, step = max(found - step, low), 2.0 * step
    return max(found, low)
