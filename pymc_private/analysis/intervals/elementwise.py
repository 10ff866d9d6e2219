"""Interval rules of elementary arithmetic and powers.

Each rule is one of the maps of `Bounds` (increasing, decreasing, minimum at a point, extremes
at corners), or one inequality. A power is a family of functions, one for each kind of
exponent.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm

from pymc_private.analysis.intervals import functions as f
from pymc_private.analysis.intervals.dispatch import bound_scalar_op
from pymc_private.analysis.intervals.functions import (
    Array,
    ElementaryFunction,
    add_down,
    add_up,
    array_namespace,
    round_down,
    round_up,
)
from pymc_private.analysis.intervals.interval import Bounds, corner_image

# Non-decreasing where they are defined; NumPy answers NaN elsewhere.
INCREASING = {
    ps.Exp: f.EXP,
    ps.Expm1: f.EXPM1,
    ps.Sinh: f.SINH,
    ps.ArcTan: f.ARCTAN,
    ps.ArcSinh: f.ARCSINH,
    ps.Tanh: f.TANH,
    psm.Sigmoid: f.SIGMOID,
    psm.Softplus: f.SOFTPLUS,
    psm.Erf: f.ERF,
    ps.Log: f.LOG,
    ps.Log2: f.LOG2,
    ps.Log10: f.LOG10,
    ps.Log1p: f.LOG1P,
    ps.Sqrt: f.SQRT,
    ps.ArcTanh: f.ARCTANH,
    psm.Erfinv: f.ERFINV,
}
DECREASING = {psm.Erfc: f.ERFC, psm.Erfcx: f.ERFCX}


def _increasing(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """x <= y implies f(x) <= f(y)."""
    return _unknown_if_nan(x.increasing(INCREASING[type(op)]))


def _decreasing(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """x <= y implies f(x) >= f(y)."""
    return _unknown_if_nan(x.decreasing(DECREASING[type(op)]))


for _op in INCREASING:
    bound_scalar_op.register(_op, _increasing)
for _op in DECREASING:
    bound_scalar_op.register(_op, _decreasing)


@bound_scalar_op.register(psm.Log1mexp)
def _log1mexp(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """log(1 - e^x) is decreasing on x <= 0 and undefined above."""
    return _unknown_if_nan(x.decreasing(f.LOG1MEXP)).where(x.upper <= 0.0)


def _unknown_if_nan(x: Bounds) -> Bounds:
    """NaN in one bound means that some value is undefined: then nothing is known."""
    xp = array_namespace(x.lower, x.upper)
    return x.where(~(xp.isnan(x.lower) | xp.isnan(x.upper)))


@bound_scalar_op.register(ps.Add)
def _add(op: ps.ScalarOp, *terms: Bounds) -> Bounds:
    """Sums of lower bounds and of upper bounds (inf - inf is NaN: nothing known)."""
    lower, upper = terms[0].lower, terms[0].upper
    for term in terms[1:]:
        lower, upper = add_down(lower, term.lower), add_up(upper, term.upper)
    return Bounds(lower, upper)


@bound_scalar_op.register(ps.Sub)
def _sub(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """x - y >= lower(x) - upper(y)."""
    return Bounds(add_down(x.lower, -y.upper), add_up(x.upper, -y.lower))


@bound_scalar_op.register(ps.Neg)
def _neg(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """Reflection is exact."""
    return Bounds(-x.upper, -x.lower)


@bound_scalar_op.register(ps.Mul)
def _mul(op: ps.ScalarOp, *factors: Bounds) -> Bounds:
    """Bilinear: extremes at corners."""
    product = factors[0]
    for factor in factors[1:]:
        product = product.times(factor)
    return product.forget()


@bound_scalar_op.register(ps.TrueDiv)
def _true_div(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """See `divide`."""
    return divide(x, y)


def divide(x: Bounds, y: Bounds) -> Bounds:
    """Corners where y keeps its sign; x/0 is no number (its infinity has the sign of the zero)."""
    return corner_image(_DIVIDE, x, y).where((y.lower > 0.0) | (y.upper < 0.0))


_DIVIDE = ElementaryFunction("divide", np.true_divide, lambda a, b: a / b, ulps=1.0)


@bound_scalar_op.register(ps.Reciprocal)
def _reciprocal(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """See `reciprocal`."""
    return reciprocal(x)


def reciprocal(x: Bounds) -> Bounds:
    """1/x is decreasing on each side of zero and keeps the sign."""
    xp = array_namespace(x.lower, x.upper)
    positive, negative = x.lower > 0.0, x.upper < 0.0
    lower, upper = round_down(1.0 / x.upper), round_up(1.0 / x.lower)
    lower = xp.where(positive, xp.maximum(lower, 0.0), lower)
    upper = xp.where(negative, xp.minimum(upper, 0.0), upper)
    return Bounds(lower, upper).where(positive | negative)


@bound_scalar_op.register(ps.Sqr)
def _sqr(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """x^2 has its minimum at 0."""
    return x.valley(_SQUARE, 0.0)


_SQUARE = ElementaryFunction("square", lambda x: x * x, lambda x: x * x, ulps=1.0, low=0.0)


@bound_scalar_op.register(ps.Abs)
def _abs(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """|x| has its minimum at 0 and is exact."""
    xp = array_namespace(x.lower, x.upper)
    nearest = xp.minimum(xp.maximum(x.lower, 0.0), x.upper)
    return Bounds(abs(nearest), x.magnitude())


@bound_scalar_op.register(ps.Sign)
def _sign(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """Non-decreasing and exact."""
    xp = array_namespace(x.lower, x.upper)
    return Bounds(xp.sign(x.lower), xp.sign(x.upper))


@bound_scalar_op.register(ps.Cosh)
def _cosh(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """Minimum at 0."""
    return x.valley(f.COSH, 0.0)


@bound_scalar_op.register(ps.Cos)
def _cos(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """[-1, 1] unless no multiple of pi lies within the bounds: then monotone between them."""
    return _cosine(x, 0.0)


@bound_scalar_op.register(ps.Sin)
def _sin(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """sin x = cos(x - pi/2)."""
    return _cosine(x, np.pi / 2)


def _cosine(x: Bounds, shift: float) -> Bounds:
    """Range of cos(x - shift) by the maxima and minima that may lie inside, counted with slack."""
    xp = array_namespace(x.lower, x.upper)
    low, high = x.lower - shift, x.upper - shift
    slack = 1e-9 * (1.0 + abs(low) + abs(high))

    def holds(offset: float) -> Array:
        first = xp.ceil((low - slack - offset) / (2 * np.pi))
        return first * (2 * np.pi) + offset <= high + slack

    a, b = xp.cos(low), xp.cos(high)
    # The argument is off by rounding of (x - shift): the slope of cos is at most one.
    error = 4e-16 * (4.0 + abs(low) + abs(high))
    lower = xp.where(holds(np.pi), -1.0, xp.maximum(xp.minimum(a, b) - error, -1.0))
    upper = xp.where(holds(0.0), 1.0, xp.minimum(xp.maximum(a, b) + error, 1.0))
    usable = (abs(low) < 1e6) & (abs(high) < 1e6)
    return Bounds(xp.where(usable, lower, -1.0), xp.where(usable, upper, 1.0)).where(
        (abs(low) < np.inf) & (abs(high) < np.inf)
    )


def _min_or_max(x: Bounds, y: Bounds, least: bool) -> Bounds:
    """The minimum or the maximum, non-decreasing in both arguments."""
    xp = array_namespace(x.lower, x.upper, y.lower, y.upper)
    choose = xp.minimum if least else xp.maximum
    return Bounds(choose(x.lower, y.lower), choose(x.upper, y.upper))


@bound_scalar_op.register(ps.ScalarMaximum)
def _maximum(op: ps.ScalarOp, *terms: Bounds) -> Bounds:
    """max is non-decreasing in each argument, and exact."""
    result = terms[0]
    for term in terms[1:]:
        result = _min_or_max(result, term, least=False)
    return result.forget()


@bound_scalar_op.register(ps.ScalarMinimum)
def _minimum(op: ps.ScalarOp, *terms: Bounds) -> Bounds:
    """min is non-decreasing in each argument, and exact."""
    result = terms[0]
    for term in terms[1:]:
        result = _min_or_max(result, term, least=True)
    return result.forget()


@bound_scalar_op.register(ps.Clip)
def _clip(op: ps.ScalarOp, x: Bounds, low: Bounds, high: Bounds) -> Bounds:
    """min(max(x, a), b), non-decreasing in each argument; where a > b PyTensor answers a or b."""
    xp = array_namespace(x.lower, low.upper, high.lower)
    clipped = _min_or_max(_min_or_max(x, low, least=False), high, least=True)
    crossed, ordered = clipped.hull(low).hull(high), low.upper <= high.lower
    return Bounds(
        xp.where(ordered, clipped.lower, crossed.lower),
        xp.where(ordered, clipped.upper, crossed.upper),
    )


ROUNDING_FUNCTIONS = {ps.Floor: "floor", ps.Ceil: "ceil", ps.RoundHalfToEven: "round"}


def _rounding(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """Non-decreasing and exact."""
    function = getattr(array_namespace(x.lower, x.upper), ROUNDING_FUNCTIONS[type(op)])
    return Bounds(function(x.lower), function(x.upper))


for _op in ROUNDING_FUNCTIONS:
    bound_scalar_op.register(_op, _rounding)


@bound_scalar_op.register(ps.Second)
def _second(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """fill(x, y): the value of y in the shape that both broadcast to."""
    xp = array_namespace(x.lower, y.lower)
    if xp is not np:
        return Bounds(xp.second(x.lower, y.lower), xp.second(x.lower, y.upper))
    shape = np.broadcast_shapes(x.shape, y.shape)
    return Bounds(np.broadcast_to(y.lower, shape), np.broadcast_to(y.upper, shape))


@bound_scalar_op.register(ps.Identity)
def _identity(op: ps.ScalarOp, x: Bounds) -> Bounds:
    """The same bounds."""
    return x


POWER = ElementaryFunction("power", np.power, lambda a, b: a**b, ulps=16.0)


@bound_scalar_op.register(ps.Pow)
def _pow(op: ps.ScalarOp, x: Bounds, y: Bounds) -> Bounds:
    """x^y: corners for x >= 0; monotone or with a minimum at 0 where y is one integer."""
    xp = array_namespace(x.lower, x.upper, y.lower, y.upper)
    general = corner_image(POWER, Bounds(xp.maximum(x.lower, 0.0), x.upper), y)
    # A base that may be zero with an exponent that may be <= 0 can be infinite or 0^0.
    safe = (x.lower > 0.0) | ((x.lower >= 0.0) & (y.lower > 0.0))
    general = Bounds(xp.maximum(general.lower, 0.0), general.upper).where(safe)
    if y.is_symbolic:
        return general
    whole = (y.lower == y.upper) & (y.lower == np.floor(y.lower)) & np.isfinite(y.lower)
    if not np.any(whole):
        return general
    with_sign = _integer_power(x, y.lower)
    return Bounds(
        xp.where(whole, with_sign.lower, general.lower),
        xp.where(whole, with_sign.upper, general.upper),
    )


def _integer_power(x: Bounds, exponent: Array) -> Bounds:
    """Even: minimum at 0. Odd: increasing. Negative: the reciprocal of the positive power."""
    xp = array_namespace(x.lower, x.upper)
    size = abs(exponent)
    even = np.mod(size, 2.0) == 0.0
    nearest = xp.where(even, xp.minimum(xp.maximum(x.lower, 0.0), x.upper), x.lower)
    lower, upper = POWER.down(nearest, size), POWER.up(x.upper, size)
    lower = xp.where(even | (x.lower >= 0.0), xp.maximum(lower, 0.0), lower)
    upper = xp.where(even, xp.maximum(upper, POWER.up(x.lower, size)), upper)
    upper = xp.where(~even & (x.upper <= 0.0), xp.minimum(upper, 0.0), upper)
    positive = Bounds(xp.where(size == 0.0, 1.0, lower), xp.where(size == 0.0, 1.0, upper))
    flipped = reciprocal(positive)
    below = exponent < 0.0
    return Bounds(
        xp.where(below, flipped.lower, positive.lower),
        xp.where(below, flipped.upper, positive.upper),
    )
