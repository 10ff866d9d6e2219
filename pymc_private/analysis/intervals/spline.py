"""Interpolating splines of degree one, on which PyMC builds a density."""

from __future__ import annotations

from typing import Any

import numpy as np
from pytensor.graph.basic import Apply

from pymc_private.analysis.interval import Interval
from pymc_private.analysis.rounding import down, up

MOST_KNOTS = 2**20


def piecewise_linear(op: Any, node: Apply, x: Interval) -> Interval:
    """Between two points a piecewise linear function is extreme at one of them or at a knot.

    The Op is PyMC's own, so `models.compat` registers this rule. Splines of a higher degree, and
    arguments beyond the knots, are left alone.
    """
    if x.is_symbolic:
        return Interval.everything()
    data = getattr(op.spline, "_eval_args", None)
    if data is None or data[2] != 1:
        return Interval.everything(x.shape)
    knots = np.unique(data[0])
    low, high = (np.clip(end, knots[0], knots[-1]) for end in (x.lower, x.upper))
    inside = (x.lower >= knots[0]) & (x.upper <= knots[-1])
    values = op.spline(knots)
    if values.size * x.lower.size > MOST_KNOTS:
        return Interval.everything(x.shape)
    between = (knots > low[..., None]) & (knots < high[..., None])
    ends = np.stack([op.spline(low), op.spline(high)])
    least = np.minimum(np.where(between, values, np.inf).min(axis=-1), ends.min(axis=0))
    most = np.maximum(np.where(between, values, -np.inf).max(axis=-1), ends.max(axis=0))
    # A value is a mean of two neighboring ones: it errs by a few ulps of the greatest.
    slack = 64.0 * 2.0**-52 * np.abs(values).max()
    return Interval(down(least - slack), up(most + slack)).where(inside)
