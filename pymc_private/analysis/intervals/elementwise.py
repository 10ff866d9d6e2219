"""Elementary arithmetic: each rule is one of Interval's maps, or one inequality."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
from pymc_private.analysis.intervals import functions__functions as f
from pymc_private.analysis.intervals.functions__functions import Function
from pymc_private.analysis.intervals.interval import Interval, corners
from pymc_private.analysis.intervals.dispatch import bound_scalar
from pymc_private.analysis.intervals.functions import Array, add_down, add_up, down, library, up

# Non-decreasing where it is defined; NumPy answers NaN elsewhere.
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


def _increasing(op: ps.ScalarOp, x: Interval) -> Interval:
    """x <= y implies f(x) <= f(y)."""
    return _all_or_nothing(x.increasing(INCREASING[type(op)]))


def _decreasing(op: ps.ScalarOp, x: Interval) -> Interval:
    """x <= y implies f(x) >= f(y)."""
    return _all_or_nothing(x.decreasing(DECREASING[type(op)]))


for _op in INCREASING:
    bound_scalar.register(_op, _increasing)
for _op in DECREASING:
    bound_scalar.register(_op, _decreasing)


@bound_scalar.register(psm.Log1mexp)
def _log1mexp(op: ps.ScalarOp, x: Interval) -> Interval:
    """log(1 - e^x) falls on x <= 0; undefined above."""
    return _all_or_nothing(x.decreasing(f.LOG1MEXP)).where(x.upper <= 0.0)


def _all_or_nothing(x: Interval) -> Interval:
    """NaN in one end means that some value is undefined: then nothing is known."""
    xp = library(x.lower, x.upper)
    return x.where(~(xp.isnan(x.lower) | xp.isnan(x.upper)))


@bound_scalar.register(ps.Add)
def _add(op: ps.ScalarOp, *terms: Interval) -> Interval:
    """Sums of lower ends and of upper ends (inf - inf is NaN: nothing known)."""
    lower, upper = terms[0].lower, terms[0].upper
    for term in terms[1:]:
        lower, upper = add_down(lower, term.lower), add_up(upper, term.upper)
    return Interval(lower, upper)


@bound_scalar.register(ps.Sub)
def _sub(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """x - y >= lower(x) - upper(y)."""
    return Interval(add_down(x.lower, -y.upper), add_up(x.upper, -y.lower))


@bound_scalar.register(ps.Neg)
def _neg(op: ps.ScalarOp, x: Interval) -> Interval:
    """Reflection is exact."""
    return Interval(-x.upper, -x.lower)


@bound_scalar.register(ps.Mul)
def _mul(op: ps.ScalarOp, *factors: Interval) -> Interval:
    """Bilinear: extremes at corners."""
    product = factors[0]
    for factor in factors[1:]:
        product = product.times(factor)
    return product.forget()


@bound_scalar.register(ps.TrueDiv)
def _true_div(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """See `divide`."""
    return divide(x, y)


def divide(x: Interval, y: Interval) -> Interval:
    """Corners where y keeps its sign; x/0 is no number (its infinity has the sign of the zero)."""
    return corners(_DIVIDE, x, y).where((y.lower > 0.0) | (y.upper < 0.0))


_DIVIDE = Function("divide", np.true_divide, lambda a, b: a / b, ulps=1.0)


@bound_scalar.register(ps.Reciprocal)
def _reciprocal(op: ps.ScalarOp, x: Interval) -> Interval:
    """See `reciprocal`."""
    return reciprocal(x)


def reciprocal(x: Interval) -> Interval:
    """1/x falls on each side of zero and keeps the sign."""
    xp = library(x.lower, x.upper)
    positive, negative = x.lower > 0.0, x.upper < 0.0
    lower, upper = down(1.0 / x.upper), up(1.0 / x.lower)
    lower = xp.where(positive, xp.maximum(lower, 0.0), lower)
    upper = xp.where(negative, xp.minimum(upper, 0.0), upper)
    return Interval(lower, upper).where(positive | negative)


@bound_scalar.register(ps.Sqr)
def _sqr(op: ps.ScalarOp, x: Interval) -> Interval:
    """x^2 has its minimum at 0."""
    return x.valley(_SQUARE, 0.0)


_SQUARE = Function("square", lambda x: x * x, lambda x: x * x, ulps=1.0, low=0.0)


@bound_scalar.register(ps.Abs)
def _abs(op: ps.ScalarOp, x: Interval) -> Interval:
    """|x| has its minimum at 0 and is exact."""
    xp = library(x.lower, x.upper)
    nearest = xp.minimum(xp.maximum(x.lower, 0.0), x.upper)
    return Interval(abs(nearest), x.magnitude())


@bound_scalar.register(ps.Sign)
def _sign(op: ps.ScalarOp, x: Interval) -> Interval:
    """Non-decreasing and exact."""
    xp = library(x.lower, x.upper)
    return Interval(xp.sign(x.lower), xp.sign(x.upper))


@bound_scalar.register(ps.Cosh)
def _cosh(op: ps.ScalarOp, x: Interval) -> Interval:
    """Minimum at 0."""
    return x.valley(f.COSH, 0.0)


@bound_scalar.register(ps.Cos)
def _cos(op: ps.ScalarOp, x: Interval) -> Interval:
    """[-1, 1] unless no multiple of pi lies in the interval: then monotone between its ends."""
    return _cosine(x, 0.0)


@bound_scalar.register(ps.Sin)
def _sin(op: ps.ScalarOp, x: Interval) -> Interval:
    """sin x = cos(x - pi/2)."""
    return _cosine(x, np.pi / 2)


def _cosine(x: Interval, shift: float) -> Interval:
    """Range of cos(x - shift) by the peaks and troughs that may lie inside, counted with slack."""
    xp = library(x.lower, x.upper)
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
    return Interval(xp.where(usable, lower, -1.0), xp.where(usable, upper, 1.0)).where(
        (abs(low) < np.inf) & (abs(high) < np.inf)
    )


def _order(x: Interval, y: Interval, least: bool) -> Interval:
    xp = library(x.lower, x.upper, y.lower, y.upper)
    choose = xp.minimum if least else xp.maximum
    return Interval(choose(x.lower, y.lower), choose(x.upper, y.upper))


@bound_scalar.register(ps.ScalarMaximum)
def _maximum(op: ps.ScalarOp, *terms: Interval) -> Interval:
    """max is non-decreasing in each argument, and exact."""
    result = terms[0]
    for term in terms[1:]:
        result = _order(result, term, least=False)
    return result.forget()


@bound_scalar.register(ps.ScalarMinimum)
def _minimum(op: ps.ScalarOp, *terms: Interval) -> Interval:
    """min is non-decreasing in each argument, and exact."""
    result = terms[0]
    for term in terms[1:]:
        result = _order(result, term, least=True)
    return result.forget()


@bound_scalar.register(ps.Clip)
def _clip(op: ps.ScalarOp, x: Interval, low: Interval, high: Interval) -> Interval:
    """min(max(x, a), b), non-decreasing in each argument; where a > b PyTensor answers a or b."""
    xp = library(x.lower, low.upper, high.lower)
    clipped = _order(_order(x, low, least=False), high, least=True)
    crossed, ordered = clipped.hull(low).hull(high), low.upper <= high.lower
    return Interval(
        xp.where(ordered, clipped.lower, crossed.lower),
        xp.where(ordered, clipped.upper, crossed.upper),
    )


STEPS = {ps.Floor: "floor", ps.Ceil: "ceil", ps.RoundHalfToEven: "round"}


def _step(op: ps.ScalarOp, x: Interval) -> Interval:
    """Non-decreasing and exact."""
    face = getattr(library(x.lower, x.upper), STEPS[type(op)])
    return Interval(face(x.lower), face(x.upper))


for _op in STEPS:
    bound_scalar.register(_op, _step)


@bound_scalar.register(ps.Second)
def _second(op: ps.ScalarOp, x: Interval, y: Interval) -> Interval:
    """fill(x, y): the value of y in the common shape."""
    xp = library(x.lower, y.lower)
    if xp is not np:
        return Interval(xp.second(x.lower, y.lower), xp.second(x.lower, y.upper))
    shape = np.broadcast_shapes(x.shape, y.shape)
    return Interval(np.broadcast_to(y.lower, shape), np.broadcast_to(y.upper, shape))


@bound_scalar.register(ps.Identity)
def _identity(op: ps.ScalarOp, x: Interval) -> Interval:
    """The same interval."""
    return x
