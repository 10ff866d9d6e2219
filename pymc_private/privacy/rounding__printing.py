"""Privacy numbers in few digits, rounded to the safe side."""

from __future__ import annotations

import math
from decimal import Context, Decimal, ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN
from fractions import Fraction

STATED = " (stated, not proved)"
"""What follows a distance that a user claims."""


def number(value: float | str | Fraction, digits: int = 4, *, up: bool = True) -> str:
    """Write a privacy number in few digits, rounded up (what is spent) or down (what is left).

    What doubles can hardly tell from a short number goes by that: the double 0.1 is written 0.1,
    although it exceeds 1/10.

    Examples
    --------
    >>> number(0.99841), number(1e-6), number(0.99841, up=False), number(float("inf"))
    ('0.9985', '1e-6', '0.9984', 'infinite')
    >>> number(Fraction(2, 3)), number("1/3", up=False), number(Fraction(0.1) + 1)
    ('0.6667', '0.3333', '1.1')
    """
    if value in ("inf", math.inf):
        return "infinite"
    exact = Fraction(value)
    top, bottom = Decimal(exact.numerator), Decimal(exact.denominator)
    short = Context(prec=digits, rounding=ROUND_HALF_EVEN).divide(top, bottom)
    if abs(Fraction(short) - exact) > abs(exact) / 2**52:
        rounding = ROUND_CEILING if up else ROUND_FLOOR
        short = Context(prec=digits, rounding=rounding).divide(top, bottom)
    return plain(short.normalize())


def counted(count: int, noun: str) -> str:
    """Write how many there are of something.

    Examples
    --------
    >>> counted(1, "draw"), counted(1200, "proved draw")
    ('1 draw', '1200 proved draws')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def plain(short: Decimal) -> str:
    """Drop what scientific notation does not need: 1E-06 becomes 1e-6, 1E+2 becomes 100."""
    if short == 0:
        return "0"
    if -4 <= short.adjusted() < 7:
        return f"{short:f}"
    mantissa, exponent = f"{short:e}".split("e")
    return f"{mantissa}e{int(exponent)}"
