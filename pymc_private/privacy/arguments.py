"""Checks of the arguments of formulas, and their use on arrays."""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, TypeVar

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.privacy.rounding import LEAST, float_down, float_up

MOST = 10**18
Formula = TypeVar("Formula", bound=Callable[..., Any])


def vectorized(formula: Formula) -> Formula:
    """Let a formula of numbers take arrays as well: they broadcast, and floats come back."""
    names = inspect.signature(formula)

    @functools.wraps(formula)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = names.bind(*args, **kwargs)
        arrays = {k: np.asarray(v, object) for k, v in given.arguments.items() if _is_array(v)}
        if not arrays:
            return formula(*args, **kwargs)
        shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
        flat = {k: np.broadcast_to(array, shape).ravel() for k, array in arrays.items()}
        rest = {k: v for k, v in given.arguments.items() if k not in arrays}
        count = int(np.prod(shape))
        values = [formula(**rest, **{k: a[i] for k, a in flat.items()}) for i in range(count)]
        return np.array(values, float).reshape(shape)

    return call  # type: ignore[return-value]


def _is_array(value: Any) -> bool:
    return np.ndim(value) > 0 and not isinstance(value, str)


def positive(**named: Any) -> None:
    """Refuse numbers that are not above zero, or infinite.

    Raises
    ------
    DomainError
        Names the first of them.
    """
    for name, value in named.items():
        if not 0.0 < value < float("inf"):
            raise DomainError(f"{name} is positive", got=value, allowed=f"0 < {name} < inf")


def not_negative(**named: Any) -> None:
    """Refuse numbers below zero, and those that are none.

    Raises
    ------
    DomainError
        Names the first of them.
    """
    for name, value in named.items():
        if not value >= 0.0:
            raise DomainError(f"{name} is not negative", got=value, allowed=f"{name} >= 0")


def inside_unit(**named: Any) -> None:
    """Refuse numbers outside the open unit interval.

    Raises
    ------
    DomainError
        Names the first of them.
    """
    for name, value in named.items():
        if not 0.0 < value < 1.0:
            raise DomainError(f"{name} lies in (0, 1)", got=value, allowed=f"0 < {name} < 1")


def order_of(order: Any) -> None:
    """Refuse Renyi orders below one.

    Raises
    ------
    DomainError
        It is below one, or no number.
    """
    if not order >= 1.0:
        raise DomainError("a Renyi order is at least 1", got=order, allowed="order >= 1")


def stated(value: Any, name: str) -> Fraction | float:
    """Take a number >= 0 as its user wrote it: 0.1 means 1/10; inf stands for no promise.

    Raises
    ------
    DomainError
        Negative, or no number.
    """
    number = number_up(value, name)
    if math.isinf(number):
        return math.inf
    if isinstance(value, Decimal) and number == LEAST:
        return number
    if isinstance(value, Rational | Decimal):
        top, bottom = Fraction(value).as_integer_ratio()
        return Fraction(int(top), int(bottom))  # NumPy's integers would overflow
    return Fraction(repr(float(value)))


def number_up(value: Any, name: str) -> float:
    """Take a number >= 0 as a double that is not below it; inf stands for no promise.

    Raises
    ------
    DomainError
        Negative, or no number.
    """
    exact = isinstance(value, Rational | Decimal) and not isinstance(value, bool)
    try:
        far = isinstance(value, Decimal) and value.is_finite() and abs(value.adjusted()) > 1000
        if far and value > 0:  # its digits might fill the memory
            return math.inf if value > 1 else LEAST
        finite = exact and math.isfinite(value)
        number = float_up(Fraction(value)) if finite else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool | str) or not number >= 0.0:
        raise DomainError(f"{name} is a number >= 0", got=value, allowed=f"{name} >= 0")
    return number


def number_down(value: Any) -> float:
    """Take a number as a double that is not above it."""
    if isinstance(value, Rational | Decimal) and math.isfinite(value):
        return float_down(Fraction(value))
    return float(value)


def probability(value: Any) -> float:
    """Take a delta, rounded up.

    Raises
    ------
    DomainError
        Not in [0, 1).
    """
    number = number_up(value, "delta")
    if not number < 1.0:
        raise DomainError("delta is a probability below 1", got=value, allowed="0 <= delta < 1")
    return number


def whole(value: Any, name: str) -> int:
    """Take a whole number >= 1.

    Raises
    ------
    DomainError
        It is not, or too large.
    """
    try:
        number = 0 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise DomainError(f"{name} is a whole number >= 1", got=value, allowed="1, 2, 3, ...")
    if number > MOST:
        raise DomainError(f"{name} is too large", got=value, allowed=f"1, 2, 3, ..., {MOST}")
    return number
