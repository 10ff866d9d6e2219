"""Rounding of privacy numbers to the safe side: never below the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from scipy.optimize import brentq

LEAST = 5e-324
"""The smallest positive double: a positive number that underflows is rounded up to it."""


def float_up(value: Fraction | float) -> float:
    """Give the least double that is not below an exact number; inf beyond the largest."""
    if isinstance(value, float):
        return value
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def infinite(value: Fraction | float) -> bool:
    """Whether a number is infinite; whole numbers and fractions beyond the doubles are not."""
    return isinstance(value, float) and math.isinf(value)


def written_up(value: Fraction | float) -> float:
    """Give the double that is written as an exact decimal if there is one, else as `float_up`.

    Only for numbers that a user stated: there 0.3 means 3/10, in and out.
    """
    if isinstance(value, Fraction) and abs(value) < Fraction(10) ** 300:
        nearest = float(value)
        if Fraction(repr(nearest)) == value:
            return nearest
    return float_up(value)


def float_down(value: Fraction | float) -> float:
    """Give the greatest double that is not above an exact number."""
    return -float_up(-value) if value else 0.0


def sum_up(values: Iterable[Fraction | float]) -> float:
    """Sum exactly, then round up; inf if any term is."""
    terms = list(values)
    if any(infinite(term) for term in terms):
        return math.inf
    return written_up(sum((Fraction(term) for term in terms), Fraction(0)))


def difference_down(value: Fraction | float, other: Fraction | float) -> float:
    """Subtract exactly, then round down."""
    if infinite(value) or infinite(other):
        return -math.inf if infinite(other) else float(value)
    return float_down(Fraction(value) - Fraction(other))


def times_up(factor: float, value: float) -> float:
    """Multiply two numbers >= 0 exactly, then round up; 0 times inf is 0."""
    if factor == 0 or value == 0:
        return 0.0
    if infinite(factor) or infinite(value):
        return math.inf
    return float_up(Fraction(factor) * Fraction(value))


def root_up(value: Fraction) -> float:
    """Give the square root of an exact number, rounded up."""
    root = math.sqrt(float_up(value))
    below = math.nextafter(root, 0.0)
    if math.isfinite(below) and Fraction(below) ** 2 >= value:
        return below
    return root if math.isinf(root) or Fraction(root) ** 2 >= value else math.nextafter(root, 9e999)


def widen(value: float, relative: float) -> float:
    """Raise a computed number > 0 by its relative error, and past an underflow."""
    return math.nextafter(value * (1.0 + relative), math.inf)


def least_epsilon(curve: Callable[[float], float], delta: float, high: float) -> float:
    """Give an epsilon at which a decreasing curve of upper bounds is at most delta.

    It lies above the crossing by about one part in 10^11. What is returned has been evaluated, or
    is `high`: a point found by a root finder alone may lie on the unsafe side.

    Parameters
    ----------
    curve : callable
        An upper bound of delta at every epsilon, in nats.
    delta : float
        In (0, 1).
    high : float
        Already proved to suffice.
    """
    if curve(0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return math.log(max(curve(epsilon), LEAST)) - math.log(delta)

    if math.isinf(high) or excess(high) >= 0.0:
        return high
    root = float(brentq(excess, 0.0, high, xtol=LEAST, rtol=1e-13, maxiter=200, disp=False))
    step = 1e-12 * root
    end = root
    while curve(end) > delta:
        end, step = end + step, 4.0 * step
        if end >= high:
            return high
    return end


def least_argument(curve: Callable[[float], float], target: float, start: float) -> float:
    """Give an argument > 0 at which a decreasing curve of upper bounds is at most `target`.

    It lies above the crossing by about one part in 10^11, and has been evaluated.

    Parameters
    ----------
    curve : callable
        An upper bound of delta at every argument; falls to zero.
    target : float
        In (0, 1).
    start : float
        Where to begin, > 0.
    """
    high = low = start
    while curve(high) > target:
        low, high = high, 2.0 * high
    while low == high or curve(low) <= target:
        low, high = low / 2.0, low if curve(low) <= target else high
        if low < 1e-300:
            return high

    def excess(log_argument: float) -> float:
        return math.log(max(curve(math.exp(log_argument)), LEAST)) - math.log(target)

    found = math.exp(brentq(excess, math.log(low), math.log(high), xtol=1e-13, disp=False))
    step = 1e-12 * found
    while curve(found) > target:
        found, step = found + step, 4.0 * step
    return min(found, high)
