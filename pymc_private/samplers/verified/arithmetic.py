"""Log-likelihoods with running bounds of what floats lose (T21, "in floating point").

A curve gives, for floats u and du, the floats of h'(u) and of the rest of its tangent, and with
each how much it can move: by its arguments, and by its own evaluation. The bounds are of

    rest(u, du) = h(u) + h'(u) du - h(u + du) >= 0, h concave, b >= -h'' between u and u + du:
    |d rest / d du| = |h'(u) - h'(u + du)| <= b |du|,
    |d rest / d u| = |h'(u) - h'(u + du) + h''(u) du| <= b |du|,

both because h'(u) - h'(u + du) and -h''(u) du have one sign and sizes in [0, b |du|].

Notes
-----
Elementary functions of NumPy and SciPy are taken to be right within FUNCTION, relative to
their value: thirty times what is seen, tried against balls at every release (log Phi right of
zero: relative to 1, which is all that its mass needs). Sums and products in any order obey
gamma_k = k e / (1 - k e), e = 2^-53 (Higham 2002, section 3.1); `gamma` is above it.
"""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass
from typing import Protocol
from flint import arb
from scipy.special import expit, log_expit

FUNCTION = 2.0**-47
TINY = 1e-270
"""Absolute slack that covers underflow."""
LOOSE = 1.0 + 2.0**-20
"""Covers the rounding of the bounds themselves, which are sums of positive terms."""

RADIUS = 2.0**-10
"""How far a predictor may be from its float for the bounds to hold."""


def gamma(count: int) -> float:
    """Above the error of a sum of `count` < 2^40 products, relative to that of their sizes."""
    return (count + 2) * 2.0**-53 * (1.0 + 2.0**-10)


@dataclass(frozen=True)
class Slope:
    """h'(u) for floats u, rows first.

    Parameters
    ----------
    value : array
    bend : array
        Bound of |h''| within `RADIUS` of u.
    size : array
        Bound of |h'(u)| as it is evaluated, every term of it.
    """

    value: np.ndarray
    bend: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class Rest:
    """What is left of h beside its tangent.

    Parameters
    ----------
    value : array
    steep : array
        Bound of its slopes in u and du within `RADIUS` of them.
    size : array
        It is evaluated within FUNCTION times this.
    """

    value: np.ndarray
    steep: np.ndarray
    size: np.ndarray


class StrictCurve(Protocol):
    """h of every record, in floats with bounds and in balls."""

    def slope(self, u: np.ndarray) -> Slope:
        """Of shape (N, chains)."""

    def rest(self, u: np.ndarray, du: np.ndarray) -> Rest:
        """Of shape (N, chains)."""

    def value_ball(self, record: int, u: arb) -> arb:
        """h up to a constant."""

    def slope_ball(self, record: int, u: arb) -> arb:
        """h'."""


@dataclass(frozen=True, eq=False)
class StrictLogistic:
    """Weight times (y u - log(1 + e^u))."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> Slope:
        """w (y - sigmoid(u)), with |h''| <= w / 4."""
        p = expit(u)
        size = self.weight * (np.abs(self.y[:, None]) + 1.0)
        bend = np.full_like(size, 0.25 * self.weight)
        return Slope(self.weight * (self.y[:, None] - p), bend, size)

    def rest(self, u: np.ndarray, du: np.ndarray) -> Rest:
        """w (log(1 + p (e^x - 1)) - p x), x = -|du|, and p = sigmoid(-u) for du > 0.

        Where the logarithm's argument is below 1/2 it is q + p e^x with q = 1 - p by itself, a sum
        of positive terms, added as logarithms. Evaluated within FUNCTION times 32 w p |x|: the
        logarithm is at most 2 p |x|, and where it is that of the sum, 1 is at most 3 p |x|.
        """
        v = np.where(du > 0.0, -u, u)
        x, p = -np.abs(du), expit(v)
        t, px = p * np.expm1(x), p * x
        low = t < -0.5
        log = np.log1p(np.where(low, 0.0, t))
        if low.any():
            log[low] = np.logaddexp(log_expit(-v[low]), log_expit(v[low]) + x[low])
        steep = 0.25 * self.weight * (RADIUS - x)
        return Rest(self.weight * (log - px), steep, (-32.0 * self.weight) * px)

    def value_ball(self, record: int, u: arb) -> arb:
        """By the branch whose exponential is small."""
        y = arb(float(self.y[record]))
        soft = u + (-u).exp().log1p() if u > 0 else u.exp().log1p()
        return arb(self.weight) * (y * u - soft)

    def slope_ball(self, record: int, u: arb) -> arb:
        """By the branch whose exponential is small."""
        e = (-u).exp() if u > 0 else u.exp()
        p = 1 / (1 + e) if u > 0 else e / (1 + e)
        return arb(self.weight) * (arb(float(self.y[record])) - p)


@dataclass(frozen=True, eq=False)
class StrictQuadratic:
    """Minus weight times (u - y)^2 / 2."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> Slope:
        """w (y - u)."""
        size = self.weight * (np.abs(self.y[:, None]) + np.abs(u))
        bend = np.full((len(u), 1), self.weight)
        return Slope(self.weight * (self.y[:, None] - u), bend, size)

    def rest(self, u: np.ndarray, du: np.ndarray) -> Rest:
        """w du^2 / 2, three roundings."""
        value = 0.5 * self.weight * du**2
        return Rest(value, self.weight * (np.abs(du) + RADIUS), value)

    def value_ball(self, record: int, u: arb) -> arb:
        """As it is."""
        return -arb(self.weight) * (u - arb(float(self.y[record]))) ** 2 / 2

    def slope_ball(self, record: int, u: arb) -> arb:
        """As it is."""
        return arb(self.weight) * (arb(float(self.y[record])) - u)


@dataclass(frozen=True, eq=False)
class StrictExponential:
    """Weight times (y u - e^u): counts with log rate u."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> Slope:
        """w (y - e^u)."""
        rate = self.weight * np.exp(u)
        y = self.weight * self.y[:, None]
        return Slope(y - rate, 1.01 * rate, np.abs(y) + 2.0 * rate)

    def rest(self, u: np.ndarray, du: np.ndarray) -> Rest:
        """w e^u (e^du - 1 - du); its slopes are w e^u (e^du - 1) and itself.

        |e^(x + r) - 1| <= e^r |e^x - 1| + e^r - 1, and e^r < 1.001 for r <= RADIUS.
        """
        rate, rise = self.weight * np.exp(u), np.expm1(du)
        both = np.abs(rise) + np.abs(du)
        steep = 1.01 * rate * (1.01 * both + 3.0 * RADIUS)
        return Rest(rate * (rise - du), steep, 4.0 * rate * both)

    def value_ball(self, record: int, u: arb) -> arb:
        """As it is."""
        return arb(self.weight) * (arb(float(self.y[record])) * u - u.exp())

    def slope_ball(self, record: int, u: arb) -> arb:
        """As it is."""
        return arb(self.weight) * (arb(float(self.y[record])) - u.exp())
