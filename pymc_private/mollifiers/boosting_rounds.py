"""Rounds of boosting: clipped classifiers, their edges, and the gain of each round (T14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.mollifiers.density_estimates import classifier_log_odds
from pymc_private.mollifiers.mollified import BLUE, GRAY
from pymc_private.mollifiers.mollified_distributions import log_total_mass, window_slack
from pymc_private.mollifiers.window import Window
from pymc_private.privacy.mollifier import mbde_drop_bound
from pymc_private.privacy.plots import axes_or_new

LOG2 = math.log(2.0)
"""Classifiers are clipped to [-log 2, log 2]: the sum of rounds then stays below epsilon / 4."""


@dataclass(frozen=True)
class BoostedScore:
    """S(x) = sum of theta_t c_t(x), |c_t| <= log 2: the log weight of Q_T.

    Attributes
    ----------
    learners : tuple
        Fitted classifiers.
    thetas : tuple of float
        Their weights.
    """

    learners: tuple[Any, ...] = ()
    thetas: tuple[float, ...] = ()

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Give S at rows."""
        total = np.zeros(len(x))
        for learner, theta in zip(self.learners, self.thetas, strict=True):
            total += theta * clipped_log_odds(learner, x)
        return total

    @property
    def half(self) -> float:
        """Bound of abs(S)."""
        return LOG2 * math.fsum(self.thetas)

    def plus(self, learner: Any, theta: float) -> BoostedScore:
        """Add a round."""
        return BoostedScore((*self.learners, learner), (*self.thetas, theta))


@dataclass(frozen=True)
class StretchedScore:
    """A score scaled and normalized: clip(factor S - level, least, most)."""

    score: BoostedScore
    factor: float
    level: float
    bounds: tuple[float, float]

    def __call__(self, x: np.ndarray) -> np.ndarray:
        """Give log Q/Q0 at rows."""
        return np.clip(self.factor * self.score(x) - self.level, *self.bounds)


@dataclass(frozen=True)
class BoostingRound:
    """Edges and gain of one round, estimated on rows that did not train it; for the curator's eyes.

    Attributes
    ----------
    theta : float
        Weight of the round.
    bound : float
        c*, the largest abs(c_t) seen.
    edge_data, edge_law : float
        gamma_P = E_P c / c* and gamma_Q = E_Q[-c] / c*, Q the distribution before the round: the
        constants of the weak learning assumption.
    gain : float, nats
        KL(P, Q_(t-1)) - KL(P, Q_t), as realized.
    least_gain : float, nats
        The lower bound of T14 for these edges: never more than `gain`.
    """

    theta: float
    bound: float
    edge_data: float
    edge_law: float
    gain: float
    least_gain: float


def judge_round(theta: float, on_data: np.ndarray, on_draws: np.ndarray) -> BoostingRound:
    """Judge a round by the values of its classifier on rows of P and on draws of Q before it."""
    bound = float(max(np.abs(on_data).max(), np.abs(on_draws).max(), 1e-12))
    edges = float(on_data.mean() / bound), float(-on_draws.mean() / bound)
    gain = float(theta * on_data.mean() - np.log(np.mean(np.exp(theta * on_draws))))
    least = mbde_drop_bound(theta, bound, *(float(np.clip(edge, -1.0, 1.0)) for edge in edges))
    return BoostingRound(theta, bound, *edges, gain, float(least))


def clipped_log_odds(learner: Any, x: np.ndarray) -> np.ndarray:
    """Log odds of a classifier, clipped to [-log 2, log 2]; NaN counts as 0."""
    odds = classifier_log_odds(learner, x)
    return np.clip(np.where(np.isnan(odds), 0.0, odds), -LOG2, LOG2)


def round_weight(epsilon: float, t: int) -> float:
    """(epsilon / (epsilon + 4 log 2))^t."""
    return float((epsilon / (epsilon + 4.0 * LOG2)) ** t)


def rounds_table(rounds: Sequence[BoostingRound]) -> str:
    """The rounds as a text table."""
    lines = ["round   theta    c*   edge P   edge Q     gain  at least"]
    for t, r in enumerate(rounds, 1):
        lines.append(
            f"{t:5d}  {r.theta:6.4f}  {r.bound:4.2f}  {r.edge_data:7.3f}  {r.edge_law:7.3f}  "
            f"{r.gain:7.4f}  {r.least_gain:8.4f}"
        )
    lines.append(f"gain in all {math.fsum(r.gain for r in rounds):.4f} nats")
    return "\n".join(lines)


def stretch_factor(score: np.ndarray, mass: np.ndarray, window: Window) -> float:
    """Largest factor at which the normalized score touches the window, by bisection."""
    reach = window.upper - 2.0 * window_slack(window)

    def farthest(factor: float) -> float:
        used = mass > 0.0
        total = log_total_mass(factor * (score - score.max()), mass) + factor * score.max()
        return float(np.abs(factor * score[used] - total).max())

    if np.ptp(score) <= 0.0 or reach <= 0.0:
        return 1.0
    low, high = 0.0, 1.0
    while farthest(high) < reach and high < 1e6:
        low, high = high, 2.0 * high
    for _ in range(50):
        middle = (low + high) / 2.0
        low, high = (middle, high) if farthest(middle) < reach else (low, middle)
    return low


def plot_rounds(found: Sequence[BoostingRound], ax: Any = None) -> Any:
    """Plot the gain of each round beside the lower bound that follows from its edges (T14)."""
    ax = axes_or_new(ax)
    position = np.arange(1, len(found) + 1)
    ax.bar(position - 0.2, [r.gain for r in found], 0.4, color=BLUE, label="realized gain")
    ax.bar(position + 0.2, [r.least_gain for r in found], 0.4, color=GRAY, label="at least, by T14")
    ax.set_xticks(position)
    ax.set(xlabel="round", ylabel="nats")
    ax.legend(frameon=False)
    return ax
