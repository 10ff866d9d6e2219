"""Directed rounding by float arithmetic that works on arrays and on PyTensor graphs alike.

The processor rounds to nearest. An end of an interval is therefore moved outward by a stated
number of units in the last place after every inexact step, so the exact real value stays inside.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, reduce
from typing import Any
from pytensor.graph.basic import Variable

UNIT = 2.0**-52
"""One relative spacing of doubles: the half-width of one correctly rounded step is UNIT / 2."""
TINY = 2.0**-1074 * 4
"""Absolute slack that covers underflow, where relative spacing means nothing."""
MOST = float(np.finfo(np.float64).max)

Array = Any
"""A NumPy array, or a PyTensor variable of the same shape."""

_REAL = ContextVar("real_symbols", default=False)


@contextmanager
def real_symbols() -> Iterator[None]:
    """Leave symbolic ends where real arithmetic puts them: a graph of the bounds as functions.

    Such a graph is a fifth as large. Whoever evaluates it answers for the rounding: by `bounds`,
    which rounds outward, or by a margin.
    """
    token = _REAL.set(True)
    try:
        yield
    finally:
        _REAL.reset(token)


def is_symbolic(*arrays: Array) -> bool:
    """Whether any argument is a PyTensor variable."""
    for array in arrays:
        kind: Any = type(array)
        if kind is not np.ndarray and _is_variable(kind):
            return True
    return False


@cache
def _is_variable(kind: type) -> bool:
    """Whether values of this type are symbolic: to ask an abstract class each time is slow."""
    return issubclass(kind, Variable)


def library(*arrays: Array) -> Any:
    """NumPy, or ``pytensor.tensor`` as soon as one argument is symbolic."""
    return pt if is_symbolic(*arrays) else np


def down(value: Array, ulps: float = 1.0) -> Array:
    """A lower bound of the real number that `value` approximates within `ulps` units.

    An overflow to +inf stands for a finite number beyond the largest double, so it comes back to
    the largest double. NaN stays NaN (nothing is known).
    """
    xp = library(value)
    if xp is pt and _REAL.get():
        return value
    slack = xp.minimum(abs(value), MOST) * (ulps * UNIT) + ulps * TINY
    return xp.minimum(value - slack, MOST)


def up(value: Array, ulps: float = 1.0) -> Array:
    """An upper bound of the real number that `value` approximates within `ulps` units."""
    xp = library(value)
    if xp is pt and _REAL.get():
        return value
    slack = xp.minimum(abs(value), MOST) * (ulps * UNIT) + ulps * TINY
    return xp.maximum(value + slack, -MOST)


def add_down(a: Array, b: Array) -> Array:
    """A lower bound of a + b, exact whenever the sum is a double."""
    if is_symbolic(a, b):
        return down(a + b)
    total, error = _two_sum(a, b)
    return np.where(error == 0.0, total, np.nextafter(total, -np.inf))


def add_up(a: Array, b: Array) -> Array:
    """An upper bound of a + b, exact whenever the sum is a double."""
    if is_symbolic(a, b):
        return up(a + b)
    total, error = _two_sum(a, b)
    return np.where(error == 0.0, total, np.nextafter(total, np.inf))


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Knuth's error-free sum: total + error = a + b exactly."""
    total = a + b
    part = total - a
    error = (a - (total - part)) + (b - part)
    # An infinite term gives NaN above although inf + finite is exact; an overflow is not.
    exact = np.isinf(total) & (np.isinf(a) | np.isinf(b))
    return total, np.where(exact, 0.0, error)


def multiply_down(a: Array, b: Array) -> Array:
    """A lower bound of a * b; exact for factors 0, 1, -1 and never across zero."""
    return multiply_ends(a, b)[0]


def multiply_up(a: Array, b: Array) -> Array:
    """An upper bound of a * b; exact for factors 0, 1, -1 and never across zero."""
    return multiply_ends(a, b)[1]


def multiply_ends(a: Array, b: Array) -> tuple[Array, Array]:
    """Both bounds of a * b."""
    product = a * b
    if is_symbolic(a, b):
        return down(product), up(product)
    exact = _is_simple(a) | _is_simple(b)
    if exact.all():
        return np.asarray(product), np.array(product)  # two arrays: a point is one
    negative = np.signbit(product)
    lower, upper = np.nextafter(product, -np.inf), np.nextafter(product, np.inf)
    lower = np.where(negative, lower, np.maximum(lower, 0.0))
    upper = np.where(negative, np.minimum(upper, 0.0), upper)
    return np.where(exact, product, lower), np.where(exact, product, upper)


def product_ends(firsts: Sequence[Array], seconds: Sequence[Array]) -> tuple[Array, Array]:
    """Bounds of all products of a first and a second factor."""
    if not is_symbolic(*firsts, *seconds) and len(firsts) + len(seconds) > 2:
        # A product rounded to nearest is next to the real one, or equal to it; so are extremes.
        products = [a * b for a in firsts for b in seconds]
        least, greatest = reduce(np.minimum, products), reduce(np.maximum, products)
        no_zero = least.all() and greatest.all()  # whose sign would be lost
        if no_zero and not any(_is_simple(x).any() for x in (*firsts, *seconds)):
            return np.nextafter(least, -np.inf), np.nextafter(greatest, np.inf)
    ends = [multiply_ends(a, b) for a in firsts for b in seconds]
    if len(ends) == 1:
        return ends[0]
    xp = library(*firsts, *seconds)
    return reduce(xp.minimum, (e[0] for e in ends)), reduce(xp.maximum, (e[1] for e in ends))


def _is_simple(x: np.ndarray) -> np.ndarray:
    """Whether a factor is 0, 1 or -1."""
    return (x == 0.0) | (np.abs(x) == 1.0)


def equal(a: Array, b: Array) -> Array:
    """Elementwise equality (a PyTensor variable's own ``==`` compares identity)."""
    return pt.eq(a, b) if is_symbolic(a, b) else np.equal(a, b)
