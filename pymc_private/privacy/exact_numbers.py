"""Exact numbers of budgets: rationals, stored as the text ``"p/q"``.

A budget means the decimal its user wrote; a proved cost means the very double that was proved,
since that one was rounded up.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, NamedTuple

from pymc_private.errors import DomainError
from pymc_private.privacy.rounding import float_up
from pymc_private.privacy.validation import exact_fraction

MAX_DIGITS = 400
"""Longer fractions are refused, or rounded up to doubles."""


class Budget(NamedTuple):
    """A pair (epsilon in nats, delta) of exact rationals."""

    epsilon: Fraction
    delta: Fraction


def rational_text(value: Fraction) -> str:
    """Write an exact rational as ``"p/q"``."""
    return f"{value.numerator}/{value.denominator}"


def parse_rational(text: str) -> Fraction:
    """Rational that `rational_text` wrote."""
    top, bottom = text.split("/")
    return Fraction(int(top), int(bottom))


def exact_decimal(value: object, what: str) -> Fraction:
    """Number as the decimal its user wrote: 0.1 means 1/10, not the nearest double.

    It is finite, not negative, and has at most 400 digits.

    Examples
    --------
    >>> exact_decimal(0.1, "epsilon"), exact_decimal("1e-6", "delta")
    (Fraction(1, 10), Fraction(1, 1000000))
    >>> exact_decimal("1/3", "delta")
    Fraction(1, 3)
    """
    number = _parsed_number(value)
    if number is None or number < 0:
        raise DomainError(
            f"{what} is not a number that a budget can have.",
            got=_described(value),
            allowed=f"a finite number >= 0 of at most {MAX_DIGITS} digits "
            "(int, float, Decimal, Fraction or text)",
        )
    return number


def _described(value: object) -> str:
    """Type and beginning of a value: Python refuses to write very long integers."""
    if isinstance(value, Rational):
        bits = max(int(part).bit_length() for part in (value.numerator, value.denominator))
        if bits > 4 * MAX_DIGITS:
            return f"{type(value).__name__} of {bits} bits"
    return f"{type(value).__name__} {str(value)[:40]!r}"


def _parsed_number(value: object) -> Fraction | None:
    if isinstance(value, Rational) and not isinstance(value, bool):
        number = exact_fraction(value)
    elif isinstance(value, Real | Decimal | str) and not isinstance(value, bool):
        text = str(value)
        # An exponent of many digits would fill the memory before it could be refused.
        huge = re.search(r"e[+-]?0*[1-9]\d{3}|_", text, re.IGNORECASE)
        if huge or not text.isascii() or len(text) > 2 * MAX_DIGITS:
            return None
        try:
            number = Fraction(text)
        except (ValueError, ZeroDivisionError):
            return None
    else:
        return None
    return number if _has_few_digits(number) else None


def exact_cost(value: Any, what: str) -> Fraction | None:
    """Proved cost (a float already rounded up, or a rational), exact; None if infinite.

    What has more than 400 digits is rounded up to a double. A negative cost, or one that is not a
    number, proves nothing and is refused.
    """
    if not isinstance(value, Rational):
        value = float(value)
        if value == math.inf:
            return None
    if not value >= 0:
        raise DomainError(f"A guarantee states an impossible {what}.", got=value, allowed=">= 0")
    number = exact_fraction(value)
    if _has_few_digits(number):
        return number
    rounded = float_up(number)
    return None if math.isinf(rounded) else Fraction(rounded)


def _has_few_digits(number: Fraction) -> bool:
    return max(abs(number.numerator), number.denominator) < 10**MAX_DIGITS
