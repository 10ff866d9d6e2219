"""Privacy losses on a grid: a discrete law that dominates a pair known by its curve.

A pair of laws P, Q is known by its hockey-stick curve delta(eps), convex in x = e^eps. The lower
convex hull of upper bounds of the curve at the points of a grid lies on or above the curve, and is
itself the curve of a pair whose loss lives on the grid. That pair dominates the given one, alone
and in any composition (Zhu, Dong and Wang 2022, Theorem 10; Doroshenko, Ghazi, Kamath, Kumar and
Manurangsi 2022 for the construction). For losses below zero the same is done to the reversed curve.
"""

from __future__ import annotations

import itertools
import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass

Curve = Callable[[float], float]
"""epsilon >= 0 in nats to an upper bound of delta in [0, 1]; never increasing."""

NEGLIGIBLE = 1e-18
"""A curve is followed until it falls below this; what is left is a loss of infinity."""
FARTHEST = 600.0
"""Losses beyond this many nats count as infinite: e^loss must be a double."""
CELLS = 1500
"""Cells of the grid between zero and the end of the longest curve."""


@dataclass(frozen=True)
class Losses:
    """A law of losses on the multiples of a step, and at infinity.

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


def end_of(curve: Curve) -> float:
    """Give an epsilon from which on a curve is negligible, at most `FARTHEST`."""
    end = 1e-6
    while end < FARTHEST and curve(end) > NEGLIGIBLE:
        end *= 1.3
    return min(end, FARTHEST)


def on_grid(curve: Curve, reverse: Curve, step: float) -> Losses:
    """Give the discrete pair that dominates (P, Q).

    Parameters
    ----------
    curve : callable
        Upper bounds of delta(eps) of P against Q.
    reverse : callable
        The same of Q against P.
    step : float
        Nats.

    Returns
    -------
    Losses
    """
    points = _points(curve, step)
    above, infinite = _upper_masses(points, step)
    below = _lower_masses(points if reverse is curve else _points(reverse, step), step)
    rest = max(0.0, 1.0 - math.fsum(above) - math.fsum(below) - infinite)
    # Rounding in the sums of masses near one; too much mass is on the safe side.
    middle = rest + 1e-15
    mass = np.concatenate([below[::-1], [middle], above])
    return Losses(step, -len(below), mass, infinite)


def _points(curve: Curve, step: float) -> np.ndarray:
    """Upper bounds at 0, step, 2 step, ... up to the end, which never increase."""
    count = max(1, math.ceil(end_of(curve) / step))
    values = np.array([min(1.0, curve(k * step * (1.0 - 1e-15))) for k in range(count + 1)])
    return np.minimum.accumulate(values)


def _slopes(values: np.ndarray, step: float) -> np.ndarray:
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
    falls = np.append(_slopes(values, step), 0.0)
    k = np.arange(1, len(values))
    mass = np.exp(k * step) * (falls[:-1] - falls[1:])
    return np.maximum(mass, 0.0) * (1.0 + 1e-13), float(values[-1])


def _lower_masses(values: np.ndarray, step: float) -> np.ndarray:
    """P-masses at -step, -2 step, ...: P(L < -k step) is the fall of the reversed curve.

    What lies below the last point is moved up to it.
    """
    falls = np.append(_slopes(values, step), 0.0)
    return np.maximum(falls[:-1] - falls[1:], 0.0) * (1.0 + 1e-13)
