"""Two of the three statistical tests: draws against a CDF, and against a mean."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from typing import Any
from scipy import optimize, special
from pymc_private.audit.statistical_tests__allowance import FALSE_ALARM, POWER, pay
from pymc_private.audit.statistical_tests__samples import numbers
from pymc_private.audit.statistical_tests__verdict import Verdict
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import inside_unit, not_negative

def cdf_envelope(
    draws: Any,
    cdf: Callable[[np.ndarray], np.ndarray],
    *,
    slack: float = 0.0,
    false_alarm: float = FALSE_ALARM,
    power: float = POWER,
) -> Verdict:
    """Compare independent draws with a CDF: largest distance of the empirical one.

    The Dvoretzky-Kiefer-Wolfowitz inequality bounds the false alarm; at the point where a wrong
    CDF is off most, Hoeffding's inequality bounds the miss.

    Parameters
    ----------
    draws : array, shape (n,)
        Other shapes are taken flat; all draws must be independent.
    cdf : callable
        From an array, shape (k,), to probabilities, shape (k,). May have jumps: it is read at each
        draw and at the double below it.
    slack : float
        Error of `cdf` itself, where it comes from quadrature.
    false_alarm, power : float

    Returns
    -------
    Verdict
        In units of probability.

    Raises
    ------
    DomainError
        No draws, a draw or a probability that is no number, or an impossible rate.

    References
    ----------
    Massart (1990), Corollary 1; Hoeffding (1963), Theorem 1.

    Examples
    --------
    >>> draws = np.random.default_rng(1).random(10_000)
    >>> verdict = cdf_envelope(draws, lambda x: np.clip(x, 0, 1))
    >>> verdict.passes, round(verdict.tolerated, 3), round(verdict.detects, 3)
    (True, 0.033, 0.051)
    """
    _check_rates(power, slack)
    places, counts = np.unique(numbers(draws, "draws"), return_counts=True)
    n = int(counts.sum())
    pay(false_alarm)
    with np.errstate(over="ignore"):
        below = _probabilities(cdf, np.nextafter(places, -np.inf))
    at = _probabilities(cdf, places)
    steps = np.cumsum(counts)
    seen = max(np.max(steps / n - at), np.max(below - (steps - counts) / n))
    tolerated = math.sqrt(math.log(2.0 / false_alarm) / (2.0 * n)) + slack
    detects = tolerated + math.sqrt(-math.log1p(-power) / (2.0 * n)) + slack
    return Verdict(float(seen), tolerated, detects, false_alarm, power)


def mean_envelope(
    draws: Any,
    expected: float,
    *,
    bounds: tuple[float, float],
    deviation: float | None = None,
    false_alarm: float = FALSE_ALARM,
    power: float = POWER,
) -> Verdict:
    """Compare the mean of independent, bounded draws with what it should be.

    Hoeffding's inequalities bound both errors; the false alarm uses the standard deviation of the
    right law where it is given, the miss never does, for a wrong law may have another.

    Parameters
    ----------
    draws : array, shape (n,)
        Other shapes are taken flat; all draws must be independent.
    expected : float
        Mean of the right law.
    bounds : tuple of float
        The right law and the wrong ones alike stay within; the unit is that of the draws.
    deviation : float, optional
        At least the standard deviation of the right law.
    false_alarm, power : float

    Returns
    -------
    Verdict
        In units of the draws.

    Raises
    ------
    DomainError
        No draws, a draw that is no number or outside `bounds`, a mean that is not inside them, or
        an impossible rate.

    References
    ----------
    Hoeffding (1963), Theorems 1 and 3.

    Examples
    --------
    >>> draws = np.random.default_rng(1).random(10_000)
    >>> verdict = mean_envelope(draws, 0.5, bounds=(0, 1), deviation=12**-0.5)
    >>> verdict.passes, round(verdict.tolerated, 3), round(verdict.detects, 3)
    (True, 0.019, 0.038)
    """
    _check_rates(power)
    x, (low, high) = numbers(draws, "draws"), map(float, bounds)
    width = high - low
    if not low < expected < high or not math.isfinite(width):
        raise DomainError("a mean lies inside its bounds", got=expected, allowed=f"({low}, {high})")
    if np.any((x < low) | (x > high)):
        raise DomainError(
            "a draw lies outside the bounds that the test rests on",
            allowed=f"[{low}, {high}]",
            do="widen the bounds, or test a bounded function of the draws",
        )
    if deviation is not None and not deviation > 0.0:
        raise DomainError("a standard deviation is positive", got=deviation)
    pay(false_alarm)
    n, mean = x.size, (expected - low) / width
    spread = math.inf if deviation is None else (deviation / width) ** 2
    need = math.log(2.0 / false_alarm) / n
    tolerated = max(_reach(mean, spread, need), _reach(1.0 - mean, spread, need)) * width
    # What is seen is rounded, and may lie at a bound that no draw exceeds.
    tolerated = tolerated * (1.0 + 1e-12) + 4.0 * math.ulp(max(abs(low), abs(high)))
    miss = -math.log1p(-power) / n
    band = tolerated / width
    detects = max(_visible(mean, band, miss), _visible(1.0 - mean, band, miss))
    scale = math.frexp(width)[1]  # a power of two, so that no sum of large draws overflows
    seen = math.ldexp(abs(math.fsum(np.ldexp(x - expected, -scale))) / n, scale)
    return Verdict(seen, tolerated, detects * width, false_alarm, power)


def _relative_entropy(p: float, q: float) -> float:
    """KL between coins, nats."""
    return float(special.rel_entr(p, q) + special.rel_entr(1.0 - p, 1.0 - q))


def _reach(mean: float, spread: float, need: float) -> float:
    """Least excess t over the mean of a law on [0, 1] with n KL(t) >= n need (Theorem 3).

    KL is that of the coins (s + b t) / (b^2 + s) and s / (b^2 + s), b = 1 - mean, s the variance:
    the two-point law that is furthest out. Without a variance s = mean (1 - mean): Theorem 1.
    """
    room, spread = 1.0 - mean, min(spread, mean * (1.0 - mean))
    total = room * room + spread

    def lacking(t: float) -> float:
        return _relative_entropy(min(1.0, (spread + room * t) / total), spread / total) - need

    if lacking(room) <= 0.0:
        return room  # no draw exceeds the bounds
    return _outward(optimize.brentq(lacking, 0.0, room, xtol=1e-15), room)


def _visible(mean: float, tolerated: float, need: float) -> float:
    """Least shift d of the mean for which a law on [0, 1] stays within `tolerated` but rarely."""
    edge, room = mean + tolerated, 1.0 - mean
    if tolerated >= room:
        return math.inf

    def lacking(d: float) -> float:
        return _relative_entropy(edge, min(1.0, mean + d)) - need

    # At d = room the law sits at its upper bound, and is seen for certain.
    closest = room - (room - tolerated) * 1e-12
    if lacking(closest) <= 0.0:
        return room
    return _outward(optimize.brentq(lacking, tolerated, closest, xtol=1e-15), room)


def _outward(root: float, most: float) -> float:
    """The safe side of what a root finder returned."""
    return min(most, root * (1.0 + 1e-9) + 1e-14)


def _probabilities(cdf: Callable[[np.ndarray], np.ndarray], places: np.ndarray) -> np.ndarray:
    found = np.asarray(cdf(places), float)
    if found.shape != places.shape or not np.all((found >= -1e-9) & (found <= 1.0 + 1e-9)):
        raise DomainError(
            "a CDF gives one probability per place",
            got=f"shape {found.shape} for {places.shape}, or values outside [0, 1]",
        )
    return found


def _check_rates(power: float, slack: float = 0.0) -> None:
    inside_unit(power=power)
    not_negative(slack=slack)
