"""Numbers to as many digits as it takes, each inside a ball with a proved radius (Arb).

A formula is written once, as a function of no argument that returns a ball. It is evaluated with
more and more bits until the ball is narrow; the double outside it on the safe side is the answer.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any
from flint import arb, ctx, fmpq
from pymc_private.privacy.rounding import LEAST, float_up

PRECISIONS = (80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480, 40960)
"""Bits, tried in turn."""
ENOUGH = 54
"""Correct bits that are as good as a double can show."""


def real(value: Any) -> arb:
    """Give a number as a ball: exact for integers and floats, else as narrow as the bits allow."""
    if isinstance(value, arb):
        return value
    if isinstance(value, Fraction | Decimal):
        exact = Fraction(value)
        return arb(fmpq(exact.numerator, exact.denominator))
    return arb(int(value)) if isinstance(value, int) else arb(float(value))


def upper(formula: Callable[[], arb], enough: int = ENOUGH) -> float:
    """Give a double that is not below the value of a formula, and close to it: `enough` bits."""
    ball = _narrow(formula, enough)
    return math.inf if ball is None else above(ball)


def lower(formula: Callable[[], arb]) -> float:
    """Give a double that is not above the value of a formula, and next to it if at all possible."""
    ball = _narrow(formula)
    return -math.inf if ball is None else -above(-ball)


def nearest(formula: Callable[[], arb]) -> float:
    """Give the double next to the value of a formula, for numbers without a safe side."""
    ball = _narrow(formula)
    return math.nan if ball is None else float(ball.mid())


def above(ball: arb) -> float:
    """Give the least double that is not below a finite ball."""
    mantissa, exponent = ball.upper().man_exp()
    man, exp = int(mantissa), int(exponent)
    size = exp + abs(man).bit_length()
    if man and size < -1080:  # beyond the smallest double
        return LEAST if man > 0 else 0.0
    if man and size > 1030:
        return math.inf if man > 0 else -sys.float_info.max
    return float_up(Fraction(man) * Fraction(2) ** exp)


def _narrow(formula: Callable[[], arb], enough: int = ENOUGH) -> arb | None:
    """Evaluate with more bits until the ball is narrow; None if it never becomes finite."""
    best = None
    for ball in _balls(formula):
        if ball.is_finite():
            best = ball
            if ball.is_exact() or ball.rel_accuracy_bits() >= enough:
                break
    return best


def _balls(formula: Callable[[], arb]) -> Iterator[arb]:
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            ball = formula()
        yield ball
