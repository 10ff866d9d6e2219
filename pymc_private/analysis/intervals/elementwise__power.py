"""Powers: a family of functions, one for each kind of exponent."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
from pymc_private.analysis.intervals.functions__functions import Function
from pymc_private.analysis.intervals.interval import Interval, corners
from pymc_private.analysis.intervals.dispatch import bound_scalar
from pymc_private.analysis.intervals.elementwise import reciprocal
from pymc_private.analysis.intervals.functions import Array, library

POWER = Function("power", np.power, lambda a, b: a**b, ulps=16.0)


@bound_scalar.register(ps.Pow)
def _pow(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """x^y: corners for x >= 0; valley or monotone where y is one whole number."""
    xp = library(x.lower, x.upper, y.lower, y.upper)
    general = corners(POWER, Interval(xp.maximum(x.lower, 0.0), x.upper), y)
    # A base that may be zero with an exponent that may be <= 0 can be infinite or 0^0.
    safe = (x.lower > 0.0) | ((x.lower >= 0.0) & (y.lower > 0.0))
    general = Interval(xp.maximum(general.lower, 0.0), general.upper).where(safe)
    if y.is_symbolic:
        return general
    whole = (y.lower == y.upper) & (y.lower == np.floor(y.lower)) & np.isfinite(y.lower)
    if not np.any(whole):
        return general
    with_sign = _whole_power(x, y.lower)
    return Interval(
        xp.where(whole, with_sign.lower, general.lower),
        xp.where(whole, with_sign.upper, general.upper),
    )


def _whole_power(x: Interval, exponent: Array) -> Interval:
    """Even: valley at 0. Odd: increasing. Negative: the reciprocal of the positive power."""
    xp = library(x.lower, x.upper)
    size = abs(exponent)
    even = np.mod(size, 2.0) == 0.0
    nearest = xp.where(even, xp.minimum(xp.maximum(x.lower, 0.0), x.upper), x.lower)
    lower, upper = POWER.down(nearest, size), POWER.up(x.upper, size)
    lower = xp.where(even | (x.lower >= 0.0), xp.maximum(lower, 0.0), lower)
    upper = xp.where(even, xp.maximum(upper, POWER.up(x.lower, size)), upper)
    upper = xp.where(~even & (x.upper <= 0.0), xp.minimum(upper, 0.0), upper)
    positive = Interval(xp.where(size == 0.0, 1.0, lower), xp.where(size == 0.0, 1.0, upper))
    flipped = reciprocal(positive)
    below = exponent < 0.0
    return Interval(
        xp.where(below, flipped.lower, positive.lower),
        xp.where(below, flipped.upper, positive.upper),
    )
