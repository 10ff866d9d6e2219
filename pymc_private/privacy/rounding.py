"""Directed rounding, ball arithmetic (Arb) and the printing of privacy numbers.

No privacy number is below the truth: what is spent is rounded up, what is left is rounded down.
A formula in ball arithmetic is a function of no argument that returns a ball; it is evaluated with
more and more bits until the ball is narrow, and the double outside it on the safe side is the
result. `least_epsilon` and `least_argument` invert curves of upper bounds on the safe side.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction
from typing import Any

import scipy
from flint import arb, ctx, fmpq

UNIT_ROUNDOFF = 2.0**-53
"""Most by which an operation of doubles errs, relative to its result."""
SMALLEST_DOUBLE = 5e-324
"""The smallest positive double: a positive number that underflows is rounded up to it."""


def float_up(value: Fraction | float) -> float:
    """Least double that is not below an exact number; inf beyond the largest."""
    if isinstance(value, float):
        return value
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.nextafter(math.inf, 0.0)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def is_infinite(value: Fraction | float) -> bool:
    """Whether a number is infinite; whole numbers and fractions beyond the doubles are not."""
    return isinstance(value, float) and math.isinf(value)


def decimal_up(value: Fraction | float) -> float:
    """Double whose shortest decimal is the exact number if there is one, else `float_up`.

    Only for numbers that a user stated: there 0.3 means 3/10, as input and as output.
    """
    if isinstance(value, Fraction) and abs(value) < Fraction(10) ** 300:
        nearest = float(value)
        if Fraction(repr(nearest)) == value:
            return nearest
    return float_up(value)


def float_down(value: Fraction | float) -> float:
    """Greatest double that is not above an exact number."""
    return -float_up(-value) if value else 0.0


def sum_up(values: Iterable[Fraction | float]) -> float:
    """Sum exactly, then round up; inf if any term is."""
    terms = list(values)
    if any(is_infinite(term) for term in terms):
        return math.inf
    return decimal_up(sum((Fraction(term) for term in terms), Fraction(0)))


def difference_down(value: Fraction | float, other: Fraction | float) -> float:
    """Subtract exactly, then round down."""
    if is_infinite(value) or is_infinite(other):
        return -math.inf if is_infinite(other) else float(value)
    return float_down(Fraction(value) - Fraction(other))


def times_up(factor: float, value: float) -> float:
    """Multiply two numbers >= 0 exactly, then round up; 0 times inf is 0."""
    if factor == 0 or value == 0:
        return 0.0
    if is_infinite(factor) or is_infinite(value):
        return math.inf
    return float_up(Fraction(factor) * Fraction(value))


def root_up(value: Fraction) -> float:
    """Square root of an exact number, rounded up."""
    root = math.sqrt(float_up(value))
    below = math.nextafter(root, 0.0)
    if math.isfinite(below) and Fraction(below) ** 2 >= value:
        return below
    return root if math.isinf(root) or Fraction(root) ** 2 >= value else math.nextafter(root, 9e999)


def widen(value: float, relative: float) -> float:
    """Raise a computed number > 0 by its relative error, and past an underflow."""
    return math.nextafter(value * (1.0 + relative), math.inf)


def least_epsilon(curve: Callable[[float], float], delta: float, high: float) -> float:
    """Epsilon at which a decreasing curve of upper bounds is at most delta.

    It lies above the crossing by about one part in 10^11. What is returned has been evaluated, or
    is `high`: a point found by a root finder alone may lie on the unsafe side. `curve` gives an
    upper bound of delta in (0, 1) at every epsilon in nats; `high` is already proved to suffice.
    """
    if curve(0.0) <= delta:
        return 0.0

    def excess(epsilon: float) -> float:
        return math.log(max(curve(epsilon), SMALLEST_DOUBLE)) - math.log(delta)

    if math.isinf(high) or excess(high) >= 0.0:
        return high
    root = float(
        scipy.optimize.brentq(
            excess, 0.0, high, xtol=SMALLEST_DOUBLE, rtol=1e-13, maxiter=200, disp=False
        )
    )
    step = 1e-12 * root
    end = root
    while curve(end) > delta:
        end, step = end + step, 4.0 * step
        if end >= high:
            return high
    return end


def least_argument(curve: Callable[[float], float], target: float, start: float) -> float:
    """Argument > 0 at which a decreasing curve of upper bounds is at most `target` in (0, 1).

    It lies above the crossing by about one part in 10^11, and has been evaluated. The curve falls
    to zero; the search begins at `start` > 0.
    """
    high = low = start
    while curve(high) > target:
        low, high = high, 2.0 * high
    while low == high or curve(low) <= target:
        low, high = low / 2.0, low if curve(low) <= target else high
        if low < 1e-300:
            return high

    def excess(log_argument: float) -> float:
        return math.log(max(curve(math.exp(log_argument)), SMALLEST_DOUBLE)) - math.log(target)

    found = math.exp(
        scipy.optimize.brentq(excess, math.log(low), math.log(high), xtol=1e-13, disp=False)
    )
    step = 1e-12 * found
    while curve(found) > target:
        found, step = found + step, 4.0 * step
    return min(found, high)


PRECISIONS = (80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480, 40960)
"""Working precisions of ball arithmetic in bits, tried in turn."""
DOUBLE_BITS = 54
"""Correct bits that determine a double."""


def real(value: Any) -> arb:
    """Number as a ball: exact for integers and floats, else as narrow as the precision allows."""
    if isinstance(value, arb):
        return value
    if isinstance(value, Fraction | Decimal):
        exact = Fraction(value)
        return arb(fmpq(exact.numerator, exact.denominator))
    return arb(int(value)) if isinstance(value, int) else arb(float(value))


def arb_upper(formula: Callable[[], arb], enough: int = DOUBLE_BITS) -> float:
    """Double that is not below the value of a formula, and close to it: `enough` correct bits."""
    ball = _narrow_ball(formula, enough)
    return math.inf if ball is None else ball_upper(ball)


def arb_lower(formula: Callable[[], arb]) -> float:
    """Double that is not above the value of a formula, and next to it if at all possible."""
    ball = _narrow_ball(formula)
    return -math.inf if ball is None else -ball_upper(-ball)


def arb_nearest(formula: Callable[[], arb]) -> float:
    """Double nearest to the value of a formula, for numbers without a safe side."""
    ball = _narrow_ball(formula)
    return math.nan if ball is None else float(ball.mid())


def ball_upper(ball: arb) -> float:
    """Least double that is not below a finite ball."""
    mantissa, exponent = ball.upper().man_exp()
    man, exp = int(mantissa), int(exponent)
    size = exp + abs(man).bit_length()
    if man and size < -1080:  # beyond the smallest double
        return SMALLEST_DOUBLE if man > 0 else 0.0
    if man and size > 1030:
        return math.inf if man > 0 else -sys.float_info.max
    return float_up(Fraction(man << exp) if exp >= 0 else Fraction(man, 1 << -exp))


def _narrow_ball(formula: Callable[[], arb], enough: int = DOUBLE_BITS) -> arb | None:
    """Evaluate with more bits until the ball is narrow; None if it never becomes finite."""
    best = None
    for ball in _balls_by_precision(formula):
        if ball.is_finite():
            best = ball
            if ball.is_exact() or ball.rel_accuracy_bits() >= enough:
                break
    return best


def _balls_by_precision(formula: Callable[[], arb]) -> Iterator[arb]:
    for bits in PRECISIONS:
        with ctx.workprec(bits):
            ball = formula()
        yield ball


STATED_SUFFIX = " (stated, not proved)"
"""Appended to a distance that a user claims."""


def format_number(value: float | str | Fraction, digits: int = 4, *, up: bool = True) -> str:
    """Write a privacy number in few digits, rounded up (what is spent) or down (what is left).

    A double within rounding of a short number is written as that number: the double 0.1 is
    written 0.1, although it exceeds 1/10.

    Examples
    --------
    >>> format_number(0.99841), format_number(1e-6), format_number(0.99841, up=False)
    ('0.9985', '1e-6', '0.9984')
    >>> format_number(float("inf")), format_number(Fraction(2, 3)), format_number("1/3", up=False)
    ('infinite', '0.6667', '0.3333')
    >>> format_number(Fraction(0.1) + 1)
    '1.1'
    """
    if value in ("inf", math.inf):
        return "infinite"
    exact = Fraction(value)
    top, bottom = Decimal(exact.numerator), Decimal(exact.denominator)
    short = Context(prec=digits, rounding=ROUND_HALF_EVEN).divide(top, bottom)
    if abs(Fraction(short) - exact) > abs(exact) / 2**52:
        rounding = ROUND_CEILING if up else ROUND_FLOOR
        short = Context(prec=digits, rounding=rounding).divide(top, bottom)
    return format_decimal(short.normalize())


def format_count(count: int, noun: str) -> str:
    """Write a count with its noun in the singular or plural.

    Examples
    --------
    >>> format_count(1, "draw"), format_count(1200, "proved draw")
    ('1 draw', '1200 proved draws')
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_decimal(short: Decimal) -> str:
    """Write a short decimal without superfluous notation: 1E-06 as 1e-6, 1E+2 as 100."""
    if short == 0:
        return "0"
    if -4 <= short.adjusted() < 7:
        return f"{short:f}"
    mantissa, exponent = f"{short:e}".split("e")
    return f"{mantissa}e{int(exponent)}"
