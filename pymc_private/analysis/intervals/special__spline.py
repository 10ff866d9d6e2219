"""Interpolating splines of degree one, on which PyMC builds a density."""

from __future__ import annotations

import numpy as np
from typing import Any
from pytensor.graph.basic import Apply
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.functions import down, up

MOST_KNOTS = 2**20


def of_spline(op: Any, node: Apply, x: Interval) -> Interval:
    """A spline of degree one or zero, elementwise on an array of any shape.

    The Op is PyMC's own, so `models.compat` registers this rule. Splines of a higher degree, and
    arguments beyond the knots, are left alone.
    """
    if x.is_symbolic:
        return Interval.everything()
    data = getattr(op.spline, "_eval_args", None)
    if data is None or data[2] not in (0, 1):
        return Interval.everything(x.shape)
    knots = np.unique(data[0])
    return (_of_lines if data[2] else _of_steps)(op, knots, x.as_float())


def is_stepped(op: Any) -> bool:
    """Whether this is a spline that jumps: the gradient of one that does not."""
    data = getattr(getattr(op, "spline", None), "_eval_args", None)
    return data is not None and data[2] == 0


def _of_steps(op: Any, knots: np.ndarray, x: Interval) -> Interval:
    """Every step that the closed interval touches: Clarke's gradient of the line with a kink."""
    steps = op.spline((knots[:-1] + knots[1:]) / 2)
    touched = (knots[:-1] <= x.upper[..., None]) & (knots[1:] >= x.lower[..., None])
    inside = (x.lower >= knots[0]) & (x.upper <= knots[-1])
    least = np.where(touched, steps, np.inf).min(axis=-1)
    most = np.where(touched, steps, -np.inf).max(axis=-1)
    slack = 64.0 * 2.0**-52 * np.abs(steps).max()
    return Interval(down(least - slack), up(most + slack)).where(inside)


def _of_lines(op: Any, knots: np.ndarray, x: Interval) -> Interval:
    """Between two points a piecewise linear function is extreme at one of them or at a knot."""
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
