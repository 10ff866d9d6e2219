"""log Phi and its derivatives: monotone, of known range."""

from __future__ import annotations

import numpy as np
import scipy.special as sc
from collections.abc import Callable
from pymc_private.analysis.intervals import ops__normal_tail as nt
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.dispatch import bound_scalar
from pymc_private.analysis.intervals.functions import UNIT

FLUSHED = 1e-307
"""Results below it are flushed to zero."""


def _relative(ulps: float) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """Float error: above zero all three hold e^(-z^2 / 2), and z^2 / 2 is rounded."""
    return lambda z, value: np.abs(value) * UNIT * (ulps + 4.0 * np.clip(z, 0.0, 40.0) ** 2)


def _slope_error(z: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Of -m (z + m): below zero z + m cancels."""
    return np.where(z < 0.0, 256.0 * UNIT * (4.0 + 3.0 * z * z), _relative(256.0)(z, value))


def _ends(
    face: Callable[[np.ndarray], np.ndarray],
    error: Callable[[np.ndarray, np.ndarray], np.ndarray],
    first: np.ndarray,
    last: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """face(first) rounded down and face(last) rounded up."""
    with np.errstate(all="ignore"):
        low, high = face(first), face(last)
        below, above = (
            np.where(np.isinf(v), 0.0, error(z, v) + FLUSHED)
            for z, v in ((first, low), (last, high))
        )
        return low - below, high + above


@bound_scalar.register(nt.LogPhi)
def _log_phi(op: nt.LogPhi, z: Interval) -> Interval:
    """Rises to 0."""
    if z.is_symbolic:
        return Interval.everything()
    low, high = _ends(sc.log_ndtr, _relative(64.0), z.lower, z.upper)
    return Interval(low, np.minimum(high, 0.0))


@bound_scalar.register(nt.Mills)
def _mills(op: nt.Mills, z: Interval) -> Interval:
    """Falls to 0: log Phi is concave."""
    if z.is_symbolic:
        return Interval.everything()
    low, high = _ends(nt.mills, _relative(64.0), z.upper, z.lower)
    return Interval(np.maximum(low, 0.0), high)


@bound_scalar.register(nt.MillsSlope)
def _mills_slope(op: nt.MillsSlope, z: Interval) -> Interval:
    """Rises from -1 to 0, since m is convex (Sampford 1953)."""
    if z.is_symbolic:
        return Interval.everything()
    inside = np.maximum(z.lower, nt.FAR), np.maximum(z.upper, nt.FAR)
    low, high = _ends(nt.mills_slope, _slope_error, *inside)
    low = np.where(z.lower < nt.FAR, -1.0, np.maximum(low, -1.0))
    return Interval(low, np.minimum(high, 0.0))
