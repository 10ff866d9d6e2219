r"""Sums of squares that grow with a variance: the law of a test that effects vary among groups.

e_k ~ N(0, 1 + gamma w_k) are independent, with gamma = 0 where nothing varies. The score of gamma
at 0 is, up to constants, Q = sum w_k e_k^2, which is large only if something varies: the test is
one-sided, and that gamma = 0 lies at the boundary does not matter to a score. At any gamma

    Q ~ sum w_k (1 + gamma w_k) chi^2_1,

whose tails are found by a saddlepoint approximation (Kuonen 1999). They rise with gamma, so that
the values of gamma at which Q is not in a tail form an interval.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

LEAST_WEIGHT = 1e-8
"""Weights below this share of the largest are left out."""
BISECTIONS = 80
NEAR_MEAN = 1e-3
"""Distance from the mean, in standard deviations, within which the tail is interpolated."""


@dataclass(frozen=True)
class VarianceLaw:
    """The law of sum w_k e_k^2.

    Attributes
    ----------
    weights : tuple of float
        w, positive.
    """

    weights: tuple[float, ...]

    @classmethod
    def of(cls, spread: np.ndarray, effects: np.ndarray) -> VarianceLaw:
        """Of noisy sums N(A b, Sigma) with b ~ N(0, gamma): w are eigenvalues of A' Sigma^-1 A."""
        found = np.linalg.eigvalsh(effects.T @ np.linalg.solve(spread, effects))
        return cls(tuple(float(w) for w in found if w > LEAST_WEIGHT * found.max()))

    def tail(self, value: float, gamma: float = 0.0) -> float:
        """P(Q > value) at gamma."""
        weights = np.array(self.weights)
        return _tail(weights * (1.0 + gamma * weights), value)

    def critical(self, level: float) -> float:
        """The value that Q exceeds with this probability at gamma = 0."""
        top = float(np.sum(self.weights))
        while self.tail(top) > level:
            top *= 2.0
        return _falling_root(self.tail, level, 0.0, top)

    def gamma(self, value: float, share: float) -> float:
        """The gamma at which Q exceeds a value with this probability; 0 where more do at once."""
        if self.tail(value) >= share:
            return 0.0
        top = 1.0 / max(self.weights)
        while self.tail(value, top) < share:
            top *= 2.0
        return _falling_root(lambda g: -self.tail(value, g), -share, 0.0, top)


def _falling_root(
    function: Callable[[float], float], target: float, low: float, high: float
) -> float:
    """Where a falling function has a value, by bisection."""
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if function(middle) > target else (low, middle)
    return 0.5 * (low + high)


def _tail(weights: np.ndarray, value: float) -> float:
    """P(sum of weights times chi^2_1 > value), by saddlepoint."""
    if value <= 0.0:
        return 1.0
    mean, sd = float(weights.sum()), float(np.sqrt(2.0 * (weights**2).sum()))
    away = NEAR_MEAN * sd
    if abs(value - mean) < away:  # the formula is 0/0 at the mean itself
        ends = [_saddlepoint_tail(weights, mean + sign * away) for sign in (-1.0, 1.0)]
        share = (value - mean + away) / (2.0 * away)
        return float(ends[0] + share * (ends[1] - ends[0]))
    return _saddlepoint_tail(weights, value)


def _saddlepoint_tail(weights: np.ndarray, value: float) -> float:
    """The formula of Lugannani and Rice with K(t) = -sum log(1 - 2 t w) / 2."""

    def slope(t: float) -> float:
        return float((weights / (1.0 - 2.0 * t * weights)).sum())

    high = (1.0 - 1e-14) / (2.0 * weights.max())
    low = -float(len(weights)) / (2.0 * value) - high  # slope is below the value there
    t = _falling_root(lambda s: -slope(s), -value, low, high)
    rest = 1.0 - 2.0 * t * weights
    cumulant = -0.5 * float(np.log(rest).sum())
    w = np.sign(t) * np.sqrt(max(2.0 * (t * value - cumulant), 0.0))
    v = t * np.sqrt(2.0 * float((weights**2 / rest**2).sum()))
    return float(np.clip(ndtr(-(w + np.log(v / w) / w)), 0.0, 1.0))
