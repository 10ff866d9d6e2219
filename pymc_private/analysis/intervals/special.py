"""Special functions, softmax and log-sum-exp."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.math as psm
import pytensor.tensor.special as ts
from dataclasses import replace
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pymc_private.analysis.intervals import functions__functions as f
from pymc_private.analysis.intervals.functions__functions import Function
from pymc_private.analysis.intervals.interval import Interval, SimplexRows
from pymc_private.analysis.intervals.dispatch import Answer, apply, bound, bound_scalar
from pymc_private.analysis.intervals.ops__logsumexp import LogSumExp
from pymc_private.analysis.intervals.functions import UNIT, down, library, up

@bound_scalar.register(psm.GammaLn)
def _gammaln(op: psm.GammaLn, x: Interval) -> Interval:
    """Falls, then rises, on the positive axis; poles elsewhere."""
    return x.valley(f.GAMMALN, f.GAMMALN_MINIMUM).where(x.lower > 0.0)


@bound_scalar.register(psm.Gamma)
def _gamma(op: psm.Gamma, x: Interval) -> Interval:
    """Falls, then rises, on the positive axis; poles elsewhere."""
    return x.valley(f.GAMMA, f.GAMMALN_MINIMUM).where(x.lower > 0.0)


@bound_scalar.register(psm.Psi)
def _psi(op: psm.Psi, x: Interval) -> Interval:
    """Increasing on the positive axis."""
    return x.increasing(f.PSI).where(x.lower > 0.0)


@bound_scalar.register(psm.TriGamma)
def _trigamma(op: psm.TriGamma, x: Interval) -> Interval:
    """Decreasing on the positive axis."""
    return x.decreasing(f.TRIGAMMA).where(x.lower > 0.0)


@bound_scalar.register(psm.I0)
def _i0(op: psm.I0, x: Interval) -> Interval:
    """Even, rising in |x|."""
    return x.valley(f.I0, 0.0)


@bound_scalar.register(psm.I1)
def _i1(op: psm.I1, x: Interval) -> Interval:
    """Odd and increasing."""
    return x.increasing(f.I1)


def i0e(op: Op, x: Interval) -> Interval:
    """Even, falling in |x|. The Op is PyMC's own, so `models.compat` registers this rule."""
    xp = library(x.lower, x.upper)
    nearest = abs(xp.minimum(xp.maximum(x.lower, 0.0), x.upper))
    return Interval(nearest, x.magnitude()).decreasing(f.I0E)


@bound_scalar.register(psm.GammaIncC)
def _gammaincc(op: psm.GammaIncC, k: Interval, x: Interval) -> Interval:
    """Q(k, x) rises in k and falls in x, for k > 0 and x >= 0."""
    return _regularized(f.GAMMAINCC, k, x).where((k.lower > 0.0) & (x.lower >= 0.0))


@bound_scalar.register(psm.GammaInc)
def _gammainc(op: psm.GammaInc, k: Interval, x: Interval) -> Interval:
    """P(k, x) rises in x and falls in k, for k > 0 and x >= 0."""
    return _regularized(_GAMMAINC_OF_X, x, k).where((k.lower > 0.0) & (x.lower >= 0.0))


_GAMMAINC_OF_X = replace(
    f.GAMMAINC,
    numpy=lambda x, k: f.GAMMAINC.numpy(k, x),
    tensor=lambda x, k: f.GAMMAINC.tensor(k, x),
)


def _regularized(face: Function, rising: Interval, falling: Interval) -> Interval:
    """A function in [0, 1], from arguments up to the largest for which `face` is accurate.

    Beyond it an argument is moved back where that loosens the bound, else 0 or 1 is the bound.
    """
    most = f.GAMMAINC_LARGEST
    xp = library(rising.lower, rising.upper, falling.lower, falling.upper)
    low = face.down(xp.minimum(rising.lower, most), falling.upper)
    high = face.up(rising.upper, xp.minimum(falling.lower, most))
    lower = xp.where(falling.upper <= most, low, 0.0)
    upper = xp.where(rising.upper <= most, high, 1.0)
    # At two infinite arguments there is no value.
    return Interval(lower, upper).where((rising.upper < np.inf) | (falling.upper < np.inf))


@bound_scalar.register(psm.BetaInc)
def _betainc(op: psm.BetaInc, a: Interval, b: Interval, x: Interval) -> Interval:
    """I_x(a, b) falls in a, rises in b and in x, for a, b > 0 and 0 <= x <= 1 (DLMF 8.17.20-21).

    P(Beta(a, b) <= x): a larger a moves the law up, a larger b down (likelihood ratio order).
    Beyond the largest shapes for which the function is checked one end is moved back where that
    loosens the bound, else 0 or 1 is the bound.
    """
    most = f.BETAINC_LARGEST
    xp = library(a.lower, a.upper, b.lower, b.upper, x.lower, x.upper)
    low = f.BETAINC.down(a.upper, xp.minimum(b.lower, most), x.lower)
    high = f.BETAINC.up(xp.minimum(a.lower, most), b.upper, x.upper)
    lower, upper = xp.where(a.upper <= most, low, 0.0), xp.where(b.upper <= most, high, 1.0)
    return Interval(lower, upper).where(
        (a.lower > 0.0) & (b.lower > 0.0) & (x.lower >= 0.0) & (x.upper <= 1.0)
    )


def _axes(op: Op, x: Interval) -> tuple[int, ...]:
    """The axes a softmax-like Op runs over (an int on PyTensor 2, a tuple on 3, None for all)."""
    ndim = x.lower.ndim
    if op.axis is None:
        return tuple(range(ndim))
    given = op.axis if isinstance(op.axis, tuple) else (op.axis,)
    return tuple(axis % ndim for axis in given)


def _log_sum_exp(x: np.ndarray, axes: tuple[int, ...], sign: float) -> np.ndarray:
    """log sum e^x with its rounding moved to `sign`."""
    xp = library(x)
    top = x.max(axis=axes, keepdims=True)
    top = xp.where(xp.isinf(top), 0.0, top)
    total = xp.exp(x - top).sum(axis=axes, keepdims=True)
    value = xp.log(total) + top
    # Each e^(x - top) errs by |x - top| + 4 ulp in its exponent; far terms weigh next to nothing.
    count = x.size / total.size
    slack = (16.0 + 4.0 * count) * UNIT * (1.0 + abs(top))
    return down(value - slack, 4.0) if sign < 0 else up(value + slack, 4.0)


def _without_own(x: Interval, axes: tuple[int, ...]) -> Interval:
    """Log-softmax: element k rises in x_k and falls in every other x_j (exact at corners).

    log softmax_k = -log(1 + sum_{j != k} e^{x_j - x_k}), so the least value pairs lower(x_k) with
    upper(x_j) and the greatest the other way round.
    """
    (axis,) = axes
    low, high = np.moveaxis(x.lower, axis, -1), np.moveaxis(x.upper, axis, -1)
    size = low.shape[-1]
    eye = np.eye(size, dtype=bool)
    worst = np.where(eye, low[..., None, :], high[..., None, :])
    best = np.where(eye, high[..., None, :], low[..., None, :])
    lower = down(low - _log_sum_exp(worst, (worst.ndim - 1,), +1)[..., 0], 2.0)
    upper = up(high - _log_sum_exp(best, (best.ndim - 1,), -1)[..., 0], 2.0)
    return Interval(np.moveaxis(lower, -1, axis), np.minimum(np.moveaxis(upper, -1, axis), 0.0))


@bound.register(ts.LogSoftmax)
def _log_softmax(op: ts.LogSoftmax, node: Apply, x: Interval) -> Answer:
    """See `_without_own`."""
    axes = _axes(op, x)
    if x.is_symbolic or len(axes) != 1:
        return Interval.everything(() if x.is_symbolic else x.shape)
    x = x.as_float()
    return _without_own(x, axes).where(_has_softmax(x, axes))


@bound.register(ts.Softmax)
def _softmax(op: ts.Softmax, node: Apply, x: Interval) -> Answer:
    """exp of log-softmax; rows lie on the simplex."""
    axes = _axes(op, x)
    if x.is_symbolic or len(axes) != 1:
        return Interval.everything(() if x.is_symbolic else x.shape)
    x = x.as_float()
    known = _has_softmax(x, axes)
    image = _without_own(x, axes).increasing(f.EXP)
    rows = SimplexRows() if axes[0] == x.lower.ndim - 1 and known.all() else None
    image = Interval(image.lower, np.minimum(image.upper, 1.0)).where(known)
    return replace(image, within=rows)


def _has_softmax(x: Interval, axes: tuple[int, ...]) -> np.ndarray:
    """Where a row is no row of -inf only (0/0), and has no entry +inf that may be a value."""
    if not x.poles:
        return np.asarray(True)
    some = x.lower.max(axis=axes, keepdims=True) > -np.inf
    return np.asarray(some & (x.upper.max(axis=axes, keepdims=True) < np.inf))


def _logsumexp(op: Op, node: Apply, x: Interval) -> Answer:
    """Non-decreasing in every term."""
    if x.is_symbolic:
        return [
            Interval(*pair)
            for pair in zip(apply(node, [x.lower]), apply(node, [x.upper]), strict=True)
        ]
    x = x.as_float()
    axes = (x.lower.ndim - 1,) if isinstance(op, LogSumExp) else _axes(op, x)
    return Interval(
        _log_sum_exp(x.lower, axes, -1).squeeze(axes), _log_sum_exp(x.upper, axes, +1).squeeze(axes)
    )


bound.register(LogSumExp, _logsumexp)
# PyTensor 3 has an Op of its own, which `rewrites.simplify` replaces by the composite.
if hasattr(ts, "LogSumExp"):
    bound.register(ts.LogSumExp, _logsumexp)
