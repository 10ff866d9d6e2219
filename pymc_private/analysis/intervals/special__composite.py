"""Rules of the named composites: exact in each argument where the plain expression is loose."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from dataclasses import replace
from pytensor.graph.basic import Apply
from pymc_private.analysis.intervals import functions__functions as f, ops
from pymc_private.analysis.intervals.interval import Interval, SimplexRows
from pymc_private.analysis.intervals.dispatch import bound, bound_scalar
from pymc_private.analysis.intervals.elementwise__power import POWER
from pymc_private.analysis.intervals.functions import Array, add_down, add_up, library

Enclosure = Callable[[Array, Array], Interval]
"""Bounds of a function at points."""


@bound_scalar.register(ops.LogSigmoidGap)
def _log_sigmoid_gap(op: ops.LogSigmoidGap, z: Interval, g: Interval) -> Interval:
    """See `_gap`: the logistic density is log-concave and even."""
    return _gap(_sigmoid_gap_at, z, g)


@bound_scalar.register(ops.LogPhiGap)
def _log_phi_gap(op: ops.LogPhiGap, z: Interval, g: Interval) -> Interval:
    """See `_gap`: the normal density is log-concave and even."""
    return _gap(_phi_gap_at, z, g)


@bound_scalar.register(ops.LogPhiBetween)
def _log_phi_between(op: ops.LogPhiBetween, a: Interval, b: Interval) -> Interval:
    """log(Phi(a) - Phi(b)) rises in a and falls in b: least at the least a and greatest b.

    Where these cross there is no number.
    """
    lower = _phi_mass_at(Interval(a.lower, a.lower), b.upper).lower
    upper = _phi_mass_at(Interval(a.upper, a.upper), b.lower).upper
    return Interval(lower, upper).where(a.lower > b.upper)


@bound_scalar.register(ops.LogAddExp)
def _log_add_exp(op: ops.LogAddExp, x: Interval, y: Interval) -> Interval:
    """log(e^x + e^y) rises in both."""
    return Interval(
        _log_add_exp_at(x.lower, y.lower).lower, _log_add_exp_at(x.upper, y.upper).upper
    )


def _log_add_exp_at(x: Array, y: Array) -> Interval:
    """max + softplus(min - max); the greater one where it is infinite."""
    xp = library(x, y)
    top, least = xp.maximum(x, y), xp.minimum(x, y)
    more = Interval(add_down(least, -top), add_up(least, -top)).increasing(f.SOFTPLUS)
    endless = xp.isinf(top)
    return Interval(
        xp.where(endless, top, add_down(top, more.lower)),
        xp.where(endless, top, add_up(top, more.upper)),
    )


@bound_scalar.register(ops.AlsoEqual)
def _also_equal(op: ops.AlsoEqual, x: Interval, y: Interval) -> Interval:
    """Both hold the value; where nothing is known of one, the other is left."""
    xp = library(x.lower, x.upper, y.lower, y.upper)
    blind, mute = (xp.isnan(i.lower) | xp.isnan(i.upper) for i in (x, y))
    both = x.intersect(y)
    return Interval(
        xp.where(blind, y.lower, xp.where(mute, x.lower, both.lower)),
        xp.where(blind, y.upper, xp.where(mute, x.upper, both.upper)),
    )


def _gap(at: Enclosure, z: Interval, g: Interval) -> Interval:
    """log(F(z + g) - F(z)) rises in g; in z it rises up to -g/2 and falls after it.

    The mass of [z, z + g] under a log-concave density is log-concave in z (Prekopa 1973), and even
    about z = -g/2 if the density is even. So the least value is at the least g and an end of z, the
    greatest at the greatest g and the z nearest to -g/2.
    """
    xp = library(z.lower, z.upper, g.lower, g.upper)
    best = xp.minimum(xp.maximum(-0.5 * g.upper, z.lower), z.upper)
    left, right = at(z.lower, g.lower), at(z.upper, g.lower)
    return Interval(xp.minimum(left.lower, right.lower), at(best, g.upper).upper).where(
        g.lower > 0.0
    )


def _sigmoid_gap_at(z: Array, g: Array) -> Interval:
    """log(1 - e^-g) - softplus(-(z + g)) - softplus(z): three terms of one sign."""
    above = Interval(-add_up(z, g), -add_down(z, g)).increasing(f.SOFTPLUS)
    here = Interval(z, z).increasing(f.SOFTPLUS)
    width = Interval(-g, -g).decreasing(f.LOG1MEXP)
    return Interval(
        add_down(add_down(width.lower, -above.upper), -here.upper),
        add_up(add_up(width.upper, -above.lower), -here.lower),
    )


def _phi_gap_at(z: Array, g: Array) -> Interval:
    """By both ends, z + g and z."""
    return _phi_mass_at(Interval(add_down(z, g), add_up(z, g)), z)


def _phi_mass_at(end: Interval, z: Array) -> Interval:
    """log Phi(high) + log(1 - Phi(low) / Phi(high)), reflected to the side of the lower tail."""
    xp = library(end.lower, z)
    flip = z > -end.lower
    low = Interval(xp.where(flip, -end.upper, z), xp.where(flip, -end.lower, z))
    high = Interval(xp.where(flip, -z, end.lower), xp.where(flip, -z, end.upper))
    tail, top = _log_phi(low), _log_phi(high)
    ratio = Interval(
        add_down(tail.lower, -top.upper), xp.minimum(add_up(tail.upper, -top.lower), 0.0)
    ).decreasing(f.LOG1MEXP)
    return Interval(add_down(top.lower, ratio.lower), add_up(top.upper, ratio.upper))


def _log_phi(x: Interval) -> Interval:
    """log Phi, increasing: on the right log(1 - Phi(-x)), so that no digit is lost."""
    return Interval(_log_phi_at(x.lower).lower, _log_phi_at(x.upper).upper)


def _log_phi_at(x: Array) -> Interval:
    xp = library(x)
    tail = Interval(-abs(x), -abs(x)).increasing(f.LOG_PHI)
    body = tail.decreasing(f.LOG1MEXP)
    return Interval(
        xp.where(x > 0.0, body.lower, tail.lower), xp.where(x > 0.0, body.upper, tail.upper)
    )


@bound_scalar.register(ops.PowerStep)
def _power_step(op: ops.PowerStep, x: Interval, b: Interval) -> Interval:
    """(x + 1)^b - x^b is monotone in x (rising iff b > 1) and rises in b: extremes at corners.

    Its slope in b is (x + 1)^b log(x + 1) - x^b log x >= 0, for u^b log u rises from u = 1 on and
    is negative before.
    """
    xp = library(x.lower, x.upper, b.lower, b.upper)
    corners = [
        _power_step_at(end, power) for end in (x.lower, x.upper) for power in (b.lower, b.upper)
    ]
    lower, upper = corners[0].lower, corners[0].upper
    for corner in corners[1:]:
        lower, upper = xp.minimum(lower, corner.lower), xp.maximum(upper, corner.upper)
    return Interval(xp.maximum(lower, 0.0), upper).where((x.lower >= 0.0) & (b.lower > 0.0))


def _power_step_at(x: Array, b: Array) -> Interval:
    return Interval(
        add_down(POWER.down(add_down(x, 1.0), b), -POWER.up(x, b)),
        add_up(POWER.up(add_up(x, 1.0), b), -POWER.down(x, b)),
    )


@bound.register(ops.OnSimplex)
def _on_simplex(op: ops.OnSimplex, node: Apply, x: Interval) -> Interval:
    """The same interval; rows that are not negative lie on the simplex, and no entry exceeds it."""
    if x.is_symbolic or not np.all(x.lower >= 0.0):
        return x
    most = 1.0 + op.slack
    return replace(x, upper=np.minimum(x.upper, most), within=SimplexRows(slack=op.slack))
