"""Rounding of privacy numbers to the safe side: never below the truth."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction


def float_up(value: Fraction | float) -> float:
    """Give the least float that is not below an exact number."""
    if isinstance(value, float):
        return value
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def sum_up(values: Iterable[float]) -> float:
    """Sum exactly, then round up; inf if any term is."""
    terms = list(values)
    if any(math.isinf(term) for term in terms):
        return math.inf
    return float_up(sum((Fraction(term) for term in terms), Fraction(0)))


def times_up(count: int, value: float) -> float:
    """Multiply by a whole number, rounded up."""
    return value if math.isinf(value) else float_up(count * Fraction(value))
