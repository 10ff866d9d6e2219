"""log Phi and its derivatives: monotone, of known range."""

from __future__ import annotations

import numpy as np
import scipy.special as sc

from pymc_private.analysis import functions as f
from pymc_private.analysis import normal_tail as nt
from pymc_private.analysis.functions import Function
from pymc_private.analysis.interval import Interval
from pymc_private.analysis.intervals.dispatch import bound_scalar
from pymc_private.analysis.rounding import UNIT, down, up

# Both hold e^(-z^2 / 2): the rounding of z^2 < 1500 costs that many units.
LOG_PHI = Function("log_phi", sc.log_ndtr, f.LOG_PHI.tensor, ulps=2048.0, high=0.0, absolute=1e-307)
MILLS = Function("mills", nt.mills, nt.mills, ulps=2048.0, low=0.0, absolute=1e-307)


@bound_scalar.register(nt.LogPhi)
def _log_phi(op: nt.LogPhi, z: Interval) -> Interval:
    """Rises."""
    return Interval.everything(z.shape) if z.is_symbolic else z.increasing(LOG_PHI)


@bound_scalar.register(nt.Mills)
def _mills(op: nt.Mills, z: Interval) -> Interval:
    """Falls: log Phi is concave."""
    return Interval.everything(z.shape) if z.is_symbolic else z.decreasing(MILLS)


@bound_scalar.register(nt.MillsSlope)
def _mills_slope(op: nt.MillsSlope, z: Interval) -> Interval:
    """Rises, since m is convex (Sampford 1953), from -1 to 0."""
    if z.is_symbolic:
        return Interval.everything(z.shape)
    low, high = np.maximum(z.lower, nt.FAR), np.maximum(z.upper, nt.FAR)
    with np.errstate(invalid="ignore", over="ignore"):
        lower, upper = (
            np.where(end > 40.0, 0.0, nt.mills_slope(np.minimum(end, 40.0))) for end in (low, high)
        )
        slack = [1e3 * UNIT * (4.0 + np.minimum(end, 40.0) ** 2) for end in (low, high)]
    lower = np.where(z.lower < nt.FAR, -1.0, np.maximum(down(lower - slack[0]), -1.0))
    upper = np.minimum(up(upper + slack[1]), 0.0)
    return Interval(
        np.where(np.isnan(z.lower), np.nan, lower), np.where(np.isnan(z.upper), np.nan, upper)
    )
