"""Interval rules of special functions, softmax, log-sum-exp, and the Ops of `intervals.ops`.

Most are monotone, or have one extremum. The rules of log Phi and its derivatives, of the
log-probabilities of an interval and of steps of a power are exact in each argument, where the
plain expression is loose. Splines of degree one and zero, on which PyMC builds a density, take
their extremes at knots or at the bounds of the argument.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytensor.scalar.math as psm
import pytensor.tensor.special as ts
import scipy.special as sc
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from pymc_private.analysis.intervals import functions as f
from pymc_private.analysis.intervals import ops
from pymc_private.analysis.intervals.dispatch import OpBounds, apply_node, bound_op, bound_scalar_op
from pymc_private.analysis.intervals.elementwise import POWER
from pymc_private.analysis.intervals.functions import (
    UNIT,
    Array,
    ElementaryFunction,
    add_down,
    add_up,
    array_namespace,
    round_down,
    round_up,
)
from pymc_private.analysis.intervals.interval import Bounds, SimplexRows
from pymc_private.analysis.intervals.linear_algebra import BATCH_AWARE_OPS
from pymc_private.analysis.intervals.ops import LogSumExp


@bound_scalar_op.register(psm.GammaLn)
def _gammaln(op: psm.GammaLn, x: Bounds) -> Bounds:
    """Decreasing, then increasing, on the positive axis; poles elsewhere."""
    return x.valley(f.GAMMALN, f.GAMMALN_MINIMIZER).where(x.lower > 0.0)


@bound_scalar_op.register(psm.Gamma)
def _gamma(op: psm.Gamma, x: Bounds) -> Bounds:
    """Decreasing, then increasing, on the positive axis; poles elsewhere."""
    return x.valley(f.GAMMA, f.GAMMALN_MINIMIZER).where(x.lower > 0.0)


@bound_scalar_op.register(psm.Psi)
def _psi(op: psm.Psi, x: Bounds) -> Bounds:
    """Increasing on the positive axis."""
    return x.increasing(f.PSI).where(x.lower > 0.0)


@bound_scalar_op.register(psm.TriGamma)
def _trigamma(op: psm.TriGamma, x: Bounds) -> Bounds:
    """Decreasing on the positive axis."""
    return x.decreasing(f.TRIGAMMA).where(x.lower > 0.0)


@bound_scalar_op.register(psm.I0)
def _i0(op: psm.I0, x: Bounds) -> Bounds:
    """Even, increasing in |x|."""
    return x.valley(f.I0, 0.0)


@bound_scalar_op.register(psm.I1)
def _i1(op: psm.I1, x: Bounds) -> Bounds:
    """Odd and increasing."""
    return x.increasing(f.I1)


def i0e(op: Op, x: Bounds) -> Bounds:
    """Even, decreasing in |x|. The Op is PyMC's own, so `models.compat` registers this rule."""
    xp = array_namespace(x.lower, x.upper)
    nearest = abs(xp.minimum(xp.maximum(x.lower, 0.0), x.upper))
    return Bounds(nearest, x.magnitude()).decreasing(f.I0E)


@bound_scalar_op.register(psm.GammaIncC)
def _gammaincc(op: psm.GammaIncC, k: Bounds, x: Bounds) -> Bounds:
    """Q(k, x) is increasing in k and decreasing in x, for k > 0 and x >= 0."""
    return _regularized_gamma(f.GAMMAINCC, k, x).where((k.lower > 0.0) & (x.lower >= 0.0))


@bound_scalar_op.register(psm.GammaInc)
def _gammainc(op: psm.GammaInc, k: Bounds, x: Bounds) -> Bounds:
    """P(k, x) is increasing in x and decreasing in k, for k > 0 and x >= 0."""
    return _regularized_gamma(_GAMMAINC_OF_X, x, k).where((k.lower > 0.0) & (x.lower >= 0.0))


_GAMMAINC_OF_X = replace(
    f.GAMMAINC,
    numpy=lambda x, k: f.GAMMAINC.numpy(k, x),
    tensor=lambda x, k: f.GAMMAINC.tensor(k, x),
)


def _regularized_gamma(
    function: ElementaryFunction, increasing: Bounds, decreasing: Bounds
) -> Bounds:
    """A function in [0, 1], from arguments up to the largest for which it is accurate.

    Beyond it an argument is moved back where that loosens the bound, else 0 or 1 is the bound.
    """
    most = f.GAMMAINC_LARGEST
    xp = array_namespace(increasing.lower, increasing.upper, decreasing.lower, decreasing.upper)
    low = function.down(xp.minimum(increasing.lower, most), decreasing.upper)
    high = function.up(increasing.upper, xp.minimum(decreasing.lower, most))
    lower = xp.where(decreasing.upper <= most, low, 0.0)
    upper = xp.where(increasing.upper <= most, high, 1.0)
    # At two infinite arguments there is no value.
    return Bounds(lower, upper).where((increasing.upper < np.inf) | (decreasing.upper < np.inf))


@bound_scalar_op.register(psm.BetaInc)
def _betainc(op: psm.BetaInc, a: Bounds, b: Bounds, x: Bounds) -> Bounds:
    """I_x(a, b) is decreasing in a, increasing in b and x (DLMF 8.17.20-21).

    For a, b > 0 and 0 <= x <= 1 it is P(Beta(a, b) <= x): a larger a moves the distribution up, a
    larger b down (likelihood ratio order). Beyond the largest shapes for which the function is
    checked an argument is moved back where that loosens the bound, else 0 or 1 is the bound.
    """
    most = f.BETAINC_LARGEST
    xp = array_namespace(a.lower, a.upper, b.lower, b.upper, x.lower, x.upper)
    low = f.BETAINC.down(a.upper, xp.minimum(b.lower, most), x.lower)
    high = f.BETAINC.up(xp.minimum(a.lower, most), b.upper, x.upper)
    lower, upper = xp.where(a.upper <= most, low, 0.0), xp.where(b.upper <= most, high, 1.0)
    return Bounds(lower, upper).where(
        (a.lower > 0.0) & (b.lower > 0.0) & (x.lower >= 0.0) & (x.upper <= 1.0)
    )


# ---- softmax and log-sum-exp -----------------------------------------------------------------


def _softmax_axes(op: Op, x: Bounds) -> tuple[int, ...]:
    """The axes a softmax-like Op runs over (an int on PyTensor 2, a tuple on 3, None for all)."""
    ndim = x.lower.ndim
    if op.axis is None:
        return tuple(range(ndim))
    given = op.axis if isinstance(op.axis, tuple) else (op.axis,)
    return tuple(axis % ndim for axis in given)


def _rounded_log_sum_exp(x: np.ndarray, axes: tuple[int, ...], sign: float) -> np.ndarray:
    """log sum e^x, rounded down for a negative `sign` and up for a positive one."""
    xp = array_namespace(x)
    top = x.max(axis=axes, keepdims=True)
    top = xp.where(xp.isinf(top), 0.0, top)
    total = xp.exp(x - top).sum(axis=axes, keepdims=True)
    value = xp.log(total) + top
    # Each e^(x - top) errs by |x - top| + 4 ulp in its exponent; far terms weigh next to nothing.
    count = x.size / total.size
    slack = (16.0 + 4.0 * count) * UNIT * (1.0 + abs(top))
    return round_down(value - slack, 4.0) if sign < 0 else round_up(value + slack, 4.0)


def _log_softmax_bounds(x: Bounds, axes: tuple[int, ...]) -> Bounds:
    """Log-softmax: element k is increasing in x_k and decreasing in every other x_j.

    log softmax_k = -log(1 + sum_{j != k} e^{x_j - x_k}), so the least value pairs lower(x_k) with
    upper(x_j) and the greatest the other way round.
    """
    (axis,) = axes
    low, high = np.moveaxis(x.lower, axis, -1), np.moveaxis(x.upper, axis, -1)
    size = low.shape[-1]
    eye = np.eye(size, dtype=bool)
    worst = np.where(eye, low[..., None, :], high[..., None, :])
    best = np.where(eye, high[..., None, :], low[..., None, :])
    lower = round_down(low - _rounded_log_sum_exp(worst, (worst.ndim - 1,), +1)[..., 0], 2.0)
    upper = round_up(high - _rounded_log_sum_exp(best, (best.ndim - 1,), -1)[..., 0], 2.0)
    return Bounds(np.moveaxis(lower, -1, axis), np.minimum(np.moveaxis(upper, -1, axis), 0.0))


@bound_op.register(ts.LogSoftmax)
def _log_softmax(op: ts.LogSoftmax, node: Apply, x: Bounds) -> OpBounds:
    """See `_log_softmax_bounds`."""
    axes = _softmax_axes(op, x)
    if x.is_symbolic or len(axes) != 1:
        return Bounds.everything(() if x.is_symbolic else x.shape)
    x = x.as_float()
    return _log_softmax_bounds(x, axes).where(_is_softmax_defined(x, axes))


@bound_op.register(ts.Softmax)
def _softmax(op: ts.Softmax, node: Apply, x: Bounds) -> OpBounds:
    """exp of log-softmax; rows lie on the simplex."""
    axes = _softmax_axes(op, x)
    if x.is_symbolic or len(axes) != 1:
        return Bounds.everything(() if x.is_symbolic else x.shape)
    x = x.as_float()
    known = _is_softmax_defined(x, axes)
    image = _log_softmax_bounds(x, axes).increasing(f.EXP)
    rows = SimplexRows() if axes[0] == x.lower.ndim - 1 and known.all() else None
    image = Bounds(image.lower, np.minimum(image.upper, 1.0)).where(known)
    return replace(image, within=rows)


def _is_softmax_defined(x: Bounds, axes: tuple[int, ...]) -> np.ndarray:
    """Where a row is no row of -inf only (0/0), and has no entry +inf that may be a value."""
    if not x.poles:
        return np.asarray(True)
    some = x.lower.max(axis=axes, keepdims=True) > -np.inf
    return np.asarray(some & (x.upper.max(axis=axes, keepdims=True) < np.inf))


def _bound_log_sum_exp(op: Op, node: Apply, x: Bounds) -> OpBounds:
    """Non-decreasing in every term."""
    if x.is_symbolic:
        return [
            Bounds(*pair)
            for pair in zip(apply_node(node, [x.lower]), apply_node(node, [x.upper]), strict=True)
        ]
    x = x.as_float()
    axes = (x.lower.ndim - 1,) if isinstance(op, LogSumExp) else _softmax_axes(op, x)
    return Bounds(
        _rounded_log_sum_exp(x.lower, axes, -1).squeeze(axes),
        _rounded_log_sum_exp(x.upper, axes, +1).squeeze(axes),
    )


bound_op.register(LogSumExp, _bound_log_sum_exp)
# PyTensor 3 has an Op of its own, which `rewrites.canonical.simplify` replaces.
if hasattr(ts, "LogSumExp"):
    bound_op.register(ts.LogSumExp, _bound_log_sum_exp)


# ---- log Phi and its derivatives -------------------------------------------------------------

UNDERFLOW = 1e-307
"""SciPy's results below it may be flushed to zero."""


def _relative_error(ulps: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Float error: above zero all three hold e^(-z^2 / 2), and z^2 / 2 is rounded."""
    return lambda z, value: np.abs(value) * UNIT * (ulps + 4.0 * np.clip(z, 0.0, 40.0) ** 2)


def _inverse_mills_slope_error(z: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Float error of -m (z + m): below zero z + m cancels."""
    return np.where(z < 0.0, 256.0 * UNIT * (4.0 + 3.0 * z * z), _relative_error(256.0)(z, value))


def _monotone_bounds(
    function: Callable[[np.ndarray], np.ndarray],
    error: Callable[[np.ndarray, np.ndarray], np.ndarray],
    first: np.ndarray,
    last: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """function(first) rounded down and function(last) rounded up."""
    with np.errstate(all="ignore"):
        low, high = function(first), function(last)
        below, above = (
            np.where(np.isinf(v), 0.0, error(z, v) + UNDERFLOW)
            for z, v in ((first, low), (last, high))
        )
        return low - below, high + above


@bound_scalar_op.register(ops.LogPhi)
def _log_phi(op: ops.LogPhi, z: Bounds) -> Bounds:
    """Increasing to 0."""
    if z.is_symbolic:
        return Bounds.everything()
    low, high = _monotone_bounds(sc.log_ndtr, _relative_error(64.0), z.lower, z.upper)
    return Bounds(low, np.minimum(high, 0.0))


@bound_scalar_op.register(ops.InverseMills)
def _inverse_mills(op: ops.InverseMills, z: Bounds) -> Bounds:
    """Decreasing to 0, since log Phi is concave."""
    if z.is_symbolic:
        return Bounds.everything()
    low, high = _monotone_bounds(ops.inverse_mills_ratio, _relative_error(64.0), z.upper, z.lower)
    return Bounds(np.maximum(low, 0.0), high)


@bound_scalar_op.register(ops.InverseMillsSlope)
def _inverse_mills_slope(op: ops.InverseMillsSlope, z: Bounds) -> Bounds:
    """Increasing from -1 to 0, since m is convex (Sampford 1953)."""
    if z.is_symbolic:
        return Bounds.everything()
    inside = np.maximum(z.lower, ops.MILLS_CUTOFF), np.maximum(z.upper, ops.MILLS_CUTOFF)
    low, high = _monotone_bounds(ops.inverse_mills_slope, _inverse_mills_slope_error, *inside)
    low = np.where(z.lower < ops.MILLS_CUTOFF, -1.0, np.maximum(low, -1.0))
    return Bounds(low, np.minimum(high, 0.0))


# ---- probabilities of intervals, steps of powers, marks --------------------------------------

PointBounds = Callable[[Array, Array], Bounds]
"""Bounds of a function at points."""


@bound_scalar_op.register(ops.LogSigmoidGap)
def _log_sigmoid_gap(op: ops.LogSigmoidGap, z: Bounds, g: Bounds) -> Bounds:
    """See `_log_mass_bounds`: the logistic density is log-concave and even."""
    return _log_mass_bounds(_sigmoid_gap_at, z, g)


@bound_scalar_op.register(ops.LogPhiGap)
def _log_phi_gap(op: ops.LogPhiGap, z: Bounds, g: Bounds) -> Bounds:
    """See `_log_mass_bounds`: the normal density is log-concave and even."""
    return _log_mass_bounds(_phi_gap_at, z, g)


@bound_scalar_op.register(ops.LogPhiBetween)
def _log_phi_between(op: ops.LogPhiBetween, a: Bounds, b: Bounds) -> Bounds:
    """log(Phi(a) - Phi(b)) is increasing in a and decreasing in b.

    Where the least a does not exceed the greatest b there may be no number.
    """
    lower = _phi_mass_at(Bounds(a.lower, a.lower), b.upper).lower
    upper = _phi_mass_at(Bounds(a.upper, a.upper), b.lower).upper
    return Bounds(lower, upper).where(a.lower > b.upper)


@bound_scalar_op.register(ops.LogAddExp)
def _log_add_exp(op: ops.LogAddExp, x: Bounds, y: Bounds) -> Bounds:
    """log(e^x + e^y) is increasing in both."""
    return Bounds(_log_add_exp_at(x.lower, y.lower).lower, _log_add_exp_at(x.upper, y.upper).upper)


def _log_add_exp_at(x: Array, y: Array) -> Bounds:
    """max + softplus(min - max); the greater argument where that is infinite."""
    xp = array_namespace(x, y)
    top, least = xp.maximum(x, y), xp.minimum(x, y)
    more = Bounds(add_down(least, -top), add_up(least, -top)).increasing(f.SOFTPLUS)
    infinite = xp.isinf(top)
    return Bounds(
        xp.where(infinite, top, add_down(top, more.lower)),
        xp.where(infinite, top, add_up(top, more.upper)),
    )


@bound_scalar_op.register(ops.EqualForms)
def _equal_forms(op: ops.EqualForms, x: Bounds, y: Bounds) -> Bounds:
    """Both bounds hold the value; where nothing is known of one, the other is left."""
    xp = array_namespace(x.lower, x.upper, y.lower, y.upper)
    x_unknown, y_unknown = (xp.isnan(i.lower) | xp.isnan(i.upper) for i in (x, y))
    both = x.intersect(y)
    return Bounds(
        xp.where(x_unknown, y.lower, xp.where(y_unknown, x.lower, both.lower)),
        xp.where(x_unknown, y.upper, xp.where(y_unknown, x.upper, both.upper)),
    )


def _log_mass_bounds(at: PointBounds, z: Bounds, g: Bounds) -> Bounds:
    """log(F(z + g) - F(z)) for an even log-concave density: increasing in g, in z up to -g/2.

    The mass of [z, z + g] under a log-concave density is log-concave in z (Prekopa 1973), and even
    about z = -g/2 if the density is even. So the least value is at the least g and a bound of z,
    the greatest at the greatest g and the z nearest to -g/2.
    """
    xp = array_namespace(z.lower, z.upper, g.lower, g.upper)
    best = xp.minimum(xp.maximum(-0.5 * g.upper, z.lower), z.upper)
    left, right = at(z.lower, g.lower), at(z.upper, g.lower)
    return Bounds(xp.minimum(left.lower, right.lower), at(best, g.upper).upper).where(g.lower > 0.0)


def _sigmoid_gap_at(z: Array, g: Array) -> Bounds:
    """log(1 - e^-g) - softplus(-(z + g)) - softplus(z): three terms of one sign."""
    above = Bounds(-add_up(z, g), -add_down(z, g)).increasing(f.SOFTPLUS)
    here = Bounds(z, z).increasing(f.SOFTPLUS)
    width = Bounds(-g, -g).decreasing(f.LOG1MEXP)
    return Bounds(
        add_down(add_down(width.lower, -above.upper), -here.upper),
        add_up(add_up(width.upper, -above.lower), -here.lower),
    )


def _phi_gap_at(z: Array, g: Array) -> Bounds:
    """log(Phi(z + g) - Phi(z)), with z + g between its float bounds."""
    return _phi_mass_at(Bounds(add_down(z, g), add_up(z, g)), z)


def _phi_mass_at(a: Bounds, z: Array) -> Bounds:
    """log(Phi(a) - Phi(z)) = log Phi(a) + log(1 - Phi(z) / Phi(a)), reflected to the lower tail."""
    xp = array_namespace(a.lower, z)
    flip = z > -a.lower
    low = Bounds(xp.where(flip, -a.upper, z), xp.where(flip, -a.lower, z))
    high = Bounds(xp.where(flip, -z, a.lower), xp.where(flip, -z, a.upper))
    tail, top = _log_phi_bounds(low), _log_phi_bounds(high)
    ratio = Bounds(
        add_down(tail.lower, -top.upper), xp.minimum(add_up(tail.upper, -top.lower), 0.0)
    ).decreasing(f.LOG1MEXP)
    return Bounds(add_down(top.lower, ratio.lower), add_up(top.upper, ratio.upper))


def _log_phi_bounds(x: Bounds) -> Bounds:
    """log Phi, increasing: on the right log(1 - Phi(-x)), so that no digit is lost."""
    return Bounds(_log_phi_at(x.lower).lower, _log_phi_at(x.upper).upper)


def _log_phi_at(x: Array) -> Bounds:
    """log Phi at points."""
    xp = array_namespace(x)
    tail = Bounds(-abs(x), -abs(x)).increasing(f.LOG_PHI)
    body = tail.decreasing(f.LOG1MEXP)
    return Bounds(
        xp.where(x > 0.0, body.lower, tail.lower), xp.where(x > 0.0, body.upper, tail.upper)
    )


@bound_scalar_op.register(ops.PowerStep)
def _power_step(op: ops.PowerStep, x: Bounds, b: Bounds) -> Bounds:
    """(x + 1)^b - x^b is monotone in x (increasing iff b > 1) and increasing in b.

    So its extremes are at corners. Its derivative in b is (x + 1)^b log(x + 1) - x^b log x >= 0,
    for u^b log u is increasing from u = 1 on and negative before.
    """
    xp = array_namespace(x.lower, x.upper, b.lower, b.upper)
    corners = [
        _power_step_at(base, power) for base in (x.lower, x.upper) for power in (b.lower, b.upper)
    ]
    lower, upper = corners[0].lower, corners[0].upper
    for corner in corners[1:]:
        lower, upper = xp.minimum(lower, corner.lower), xp.maximum(upper, corner.upper)
    return Bounds(xp.maximum(lower, 0.0), upper).where((x.lower >= 0.0) & (b.lower > 0.0))


def _power_step_at(x: Array, b: Array) -> Bounds:
    """(x + 1)^b - x^b at points."""
    return Bounds(
        add_down(POWER.down(add_down(x, 1.0), b), -POWER.up(x, b)),
        add_up(POWER.up(add_up(x, 1.0), b), -POWER.down(x, b)),
    )


@bound_op.register(ops.OnSimplex)
def _on_simplex(op: ops.OnSimplex, node: Apply, x: Bounds) -> Bounds:
    """The same bounds; non-negative rows lie on the simplex, so no entry exceeds 1 + slack."""
    if x.is_symbolic or not x.lower.ndim:
        return x
    positive = np.all(x.lower >= 0.0, axis=-1, keepdims=True)
    upper = np.where(positive, np.minimum(x.upper, 1.0 + op.slack), x.upper)
    rows = SimplexRows(slack=op.slack) if positive.all() else x.within
    return replace(x, upper=upper, within=rows)


BATCH_AWARE_OPS.append(ops.OnSimplex)


# ---- splines ---------------------------------------------------------------------------------

MOST_KNOTS = 2**20
"""Knots times elements beyond which nothing is said of a spline."""


def spline_bounds(op: Any, node: Apply, x: Bounds) -> Bounds:
    """A spline of degree one or zero, elementwise on an array of any shape.

    The Op is PyMC's own, so `models.compat` registers this rule. Splines of a higher degree, and
    arguments beyond the knots, are left alone.
    """
    if x.is_symbolic:
        return Bounds.everything()
    data = getattr(op.spline, "_eval_args", None)
    if data is None or data[2] not in (0, 1):
        return Bounds.everything(x.shape)
    knots = np.unique(data[0])
    return (_linear_spline_bounds if data[2] else _step_spline_bounds)(op, knots, x.as_float())


def is_step_spline(op: Any) -> bool:
    """Whether this is a spline of degree zero, which jumps: the gradient of one of degree one."""
    data = getattr(getattr(op, "spline", None), "_eval_args", None)
    return data is not None and data[2] == 0


def _step_spline_bounds(op: Any, knots: np.ndarray, x: Bounds) -> Bounds:
    """Every step that the closed interval touches: Clarke's gradient of the linear spline."""
    steps = op.spline((knots[:-1] + knots[1:]) / 2)
    touched = (knots[:-1] <= x.upper[..., None]) & (knots[1:] >= x.lower[..., None])
    inside = (x.lower >= knots[0]) & (x.upper <= knots[-1])
    least = np.where(touched, steps, np.inf).min(axis=-1)
    most = np.where(touched, steps, -np.inf).max(axis=-1)
    slack = 64.0 * UNIT * np.abs(steps).max()
    return Bounds(round_down(least - slack), round_up(most + slack)).where(inside)


def _linear_spline_bounds(op: Any, knots: np.ndarray, x: Bounds) -> Bounds:
    """Between two points a piecewise linear function is extreme at one of them or at a knot."""
    low, high = (np.clip(bound, knots[0], knots[-1]) for bound in (x.lower, x.upper))
    inside = (x.lower >= knots[0]) & (x.upper <= knots[-1])
    values = op.spline(knots)
    if values.size * x.lower.size > MOST_KNOTS:
        return Bounds.everything(x.shape)
    between = (knots > low[..., None]) & (knots < high[..., None])
    at_bounds = np.stack([op.spline(low), op.spline(high)])
    least = np.minimum(np.where(between, values, np.inf).min(axis=-1), at_bounds.min(axis=0))
    most = np.maximum(np.where(between, values, -np.inf).max(axis=-1), at_bounds.max(axis=0))
    # A value is a mean of two neighboring ones: it errs by a few ulps of the greatest.
    slack = 64.0 * UNIT * np.abs(values).max()
    return Bounds(round_down(least - slack), round_up(most + slack)).where(inside)
