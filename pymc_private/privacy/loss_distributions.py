"""Privacy loss distributions on a grid, and their convolution.

A pair of distributions P, Q is known by its hockey-stick curve delta(epsilon), convex in x =
e^epsilon. The lower convex hull of upper bounds of the curve at the points of a grid lies on or
above the curve, and is itself the curve of a pair whose loss lives on the grid. That pair dominates
the given one, alone and in any composition (Zhu, Dong and Wang 2022, Theorem 10; Doroshenko, Ghazi,
Kamath, Kumar and Manurangsi 2022 for the construction). For losses below zero the same is done to
the reversed curve.

The loss of a list of releases declared in advance is the sum of independent losses (Dwork and
Rothblum 2016; Meiser and Mohammadi 2018; Koskela, Jalko and Honkela 2020). The error of the Fourier
transform has a proved bound, which is added, so no result is below the truth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from pymc_private.errors import Unsupported
from pymc_private.privacy.rounding import (
    SMALLEST_DOUBLE,
    UNIT_ROUNDOFF,
    least_epsilon,
    sum_up,
    times_up,
)

MAX_GRID_POINTS = 2**22
"""Points of the longest convolution, within a factor of two; beyond it the grid is coarser."""
NEGLIGIBLE_DELTA = 1e-18
"""A curve is followed until it falls below this; what is left is a loss of infinity."""
MAX_FINITE_LOSS = 600.0
"""Losses beyond this many nats count as infinite: e^loss must be a double."""
GRID_CELLS = 1500
"""Cells of the grid between zero and the end of the longest curve."""

PrivacyCurve = Callable[[float], float]
"""From epsilon >= 0 in nats to an upper bound of delta in [0, 1]; never increasing."""


# ---- one pair: its curve on a grid ----------------------------------------------------------
@dataclass(frozen=True)
class LossDistribution:
    """Distribution of the privacy loss on the multiples of a step, and at infinity.

    Parameters
    ----------
    step : float
        Nats between two points of the grid.
    first : int
        The first point is ``first * step``.
    mass : ndarray, shape (n,)
        Probabilities under P, each rounded up.
    infinite : float
        Probability of an infinite loss.
    """

    step: float
    first: int
    mass: np.ndarray
    infinite: float


def curve_end(curve: PrivacyCurve) -> float:
    """Epsilon from which on a curve is negligible, at most `MAX_FINITE_LOSS`."""
    end = 1e-6
    while end < MAX_FINITE_LOSS and curve(end) > NEGLIGIBLE_DELTA:
        end *= 1.3
    return min(end, MAX_FINITE_LOSS)


def discretize_curve(curve: PrivacyCurve, reverse: PrivacyCurve, step: float) -> LossDistribution:
    """Loss distribution on a grid that dominates the pair (P, Q).

    `curve` gives upper bounds of delta(epsilon) of P against Q, `reverse` of Q against P; `step` is
    in nats.
    """
    points = _curve_on_grid(curve, step)
    above, infinite = _upper_masses(points, step)
    below = _lower_masses(points if reverse is curve else _curve_on_grid(reverse, step), step)
    rest = max(0.0, 1.0 - math.fsum(above) - math.fsum(below) - infinite)
    # Rounding in the sums of masses near one; too much mass is on the safe side.
    middle = rest + 1e-15
    mass = np.concatenate([below[::-1], [middle], above])
    return LossDistribution(step, -len(below), mass, infinite)


def _curve_on_grid(curve: PrivacyCurve, step: float) -> np.ndarray:
    """Upper bounds at 0, step, 2 step, ... up to the end, which never increase."""
    count = max(1, math.ceil(curve_end(curve) / step))
    values = np.array([min(1.0, curve(k * step * (1.0 - 1e-15))) for k in range(count + 1)])
    return np.minimum.accumulate(values)


def _hull_slopes(values: np.ndarray, step: float) -> np.ndarray:
    """Falls of the lower convex hull in x = e^(k step), cell by cell: never increasing, >= 0."""
    k = np.arange(len(values), dtype=float)
    x = np.exp(k * step)
    hull: list[int] = []
    for i in range(len(values)):
        while len(hull) > 1 and _above_chord(x, values, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    falls = np.empty(len(values) - 1)
    for a, b in itertools.pairwise(hull):
        falls[a:b] = (values[a] - values[b]) / (x[b] - x[a])
    return falls


def _above_chord(x: np.ndarray, y: np.ndarray, a: int, b: int, c: int) -> bool:
    return bool((y[b] - y[a]) * (x[c] - x[a]) >= (y[c] - y[a]) * (x[b] - x[a]))


def _upper_masses(values: np.ndarray, step: float) -> tuple[np.ndarray, float]:
    """P-masses at step, 2 step, ..., and at infinity.

    In the cell (k, k+1) the curve falls with slope Q(L > k step), so Q(L = k step) is the change of
    the slope and P(L = k step) is e^(k step) as much. At the last point the curve becomes flat.
    """
    falls = np.append(_hull_slopes(values, step), 0.0)
    k = np.arange(1, len(values))
    mass = np.exp(k * step) * (falls[:-1] - falls[1:])
    return np.maximum(mass, 0.0) * (1.0 + 1e-13), float(values[-1])


def _lower_masses(values: np.ndarray, step: float) -> np.ndarray:
    """P-masses at -step, -2 step, ...: P(L < -k step) is the fall of the reversed curve.

    What lies below the last point is moved up to it.
    """
    falls = np.append(_hull_slopes(values, step), 0.0)
    return np.maximum(falls[:-1] - falls[1:], 0.0) * (1.0 + 1e-13)


# ---- many pairs: the sum of their losses ----------------------------------------------------
@dataclass(frozen=True)
class ComposedLoss:
    """Distribution of a sum of losses, from which epsilon and delta are read.

    Parameters
    ----------
    step : float
        Nats between two points.
    first : int
        The first point is ``first * step``.
    mass : ndarray, shape (n,)
    infinite : float
        Probability of an infinite loss.
    error : float
        Bound on the sum of the errors of all masses.
    """

    step: float
    first: int
    mass: np.ndarray
    infinite: float
    error: float

    def delta(self, epsilon: float) -> float:
        """Delta at `epsilon` (nats, >= 0), rounded up."""
        losses = (self.first + np.arange(len(self.mass))) * self.step
        # A loss is moved up by its rounding, so that no mass falls on the wrong side.
        gain = -np.expm1(np.minimum(epsilon - losses - 1e-14 * np.abs(losses), 0.0))
        total = math.fsum(np.maximum(self.mass, 0.0) * gain)
        return min(1.0, total * (1.0 + 1e-14) + self.infinite + self.error + SMALLEST_DOUBLE)

    def epsilon(self, delta: float) -> float:
        """Least epsilon at `delta` in (0, 1), rounded up; inf if more mass is at infinity."""
        end = (self.first + len(self.mass)) * self.step
        if self.delta(end) > delta:
            return math.inf
        return least_epsilon(self.delta, delta, max(end, 0.0))


def convolve_losses(parts: Sequence[tuple[LossDistribution, int]]) -> ComposedLoss:
    """Convolve losses on grids of one step, each as many times as its count says."""
    step = parts[0][0].step
    length = 1 + sum(count * (len(losses.mass) - 1) for losses, count in parts)
    if length > 2 * MAX_GRID_POINTS:
        raise Unsupported(
            "so many releases are composed that their loss distributions cannot be convolved",
            got=f"a grid of {length} points",
            allowed=f"{2 * MAX_GRID_POINTS} points",
            do="compose fewer releases at a time, or losses on a coarser grid",
        )
    size = scipy.fft.next_fast_len(length, real=True)
    spectrum = np.ones(size // 2 + 1, dtype=complex)
    for losses, count in parts:
        spectrum *= _spectrum_power(scipy.fft.rfft(losses.mass, size), count)
    mass = scipy.fft.irfft(spectrum, size)[:length]
    first = sum(losses.first * count for losses, count in parts)
    infinite = sum_up(times_up(count, losses.infinite) for losses, count in parts)
    return ComposedLoss(step, first, mass, min(1.0, infinite), _transform_error(parts, size))


def _spectrum_power(values: np.ndarray, count: int) -> np.ndarray:
    """Square and multiply: each product errs by a few units of itself."""
    result = np.ones_like(values)
    while count:
        if count & 1:
            result = result * values
        values, count = values * values, count >> 1
    return result


def _transform_error(parts: Sequence[tuple[LossDistribution, int]], size: int) -> float:
    """Bound the sum of the errors of all masses.

    A transform errs by at most eta of its 2-norm, eta = 7 log2(size) units (Higham 2002, Theorem
    24.2). The transform of a distribution is at most its total mass everywhere, so each of the n
    factors of a product passes its error on, times the masses of the others; a product of n
    factors adds 8 n units. The inverse transform adds eta once more. With Parseval the masses err
    by that in the 2-norm, and their sum by sqrt(size) times as much; twice that covers second
    order terms.
    """
    eta = 7.0 * UNIT_ROUNDOFF * math.log2(size + 1.0)
    norms = [(float(np.linalg.norm(losses.mass)), count) for losses, count in parts]
    total = math.prod(max(1.0, math.fsum(losses.mass)) ** count for losses, count in parts)
    factors = sum(count for _, count in parts)
    passed = sum(count * eta * norm for norm, count in norms)
    own = (8.0 * UNIT_ROUNDOFF * factors + eta) * min(norm for norm, _ in norms)
    return 2.0 * total * math.sqrt(size) * (passed + own)
