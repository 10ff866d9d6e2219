"""Whether the posterior of noisy scores lies where its pilots stopped.

Pilots weigh what they release by the public curvature, the likelihood by the noisy one. Where
covariates lie close to one end of their domain, noise in a small eigenvalue of the latter can make
a likelihood whose mass is elsewhere: on one public table (spam, epsilon 1) four in ten posteriors
were 3 standard deviations off all parameters, at 5 to 10 squared standard deviations per parameter
from the last pilot. In some 250 simulated summaries of ten models the largest such distance was
2.3. It is a function of released numbers, free. With little noise it says nothing: pilots are then
many standard deviations off for what the reference gets wrong, and the final score mends it; so it
is looked at only where the noisy curvature is weak.

Nor may the last pilot be so far from the posterior mode that the final score there is no linear
function of the records any more. Where pilots read all records their score is nearly 0 there. Where
they read a share f of them (T37), what they have seen tells less than the final score by a factor
of 1/f and by their noise: theta_t is off by as much, and the score is compared with that. What is
left of the mean of the score is then of the order of r^2 / sqrt n posterior standard deviations, if
theta_t is off by r of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pymc_private.summaries.importance import LogDensity, importance_draws
from pymc_private.summaries.protocol import Caution
from pymc_private.summaries.scores.pilot import ModelAtPoint, NoisyScore, NormalPrior

WARN_PILOTS, REFUSE_PILOTS = 3.5, 5.0
"""Squared distance of the posterior mean from the last pilot, per parameter, in its covariance."""
WARN_SCORE, REFUSE_SCORE = 10.0, 25.0
"""Squared length of g at theta_t, per parameter, in units of what is expected of it."""
WARN_NONLINEARITY, REFUSE_NONLINEARITY = 0.5, 1.0
"""r^2 / sqrt n of pilots that read a part of the records."""
DRAWS, SEED = 600, 20260105
FEW_EFFECTIVE = 50.0
"""Effective draws below which the posterior is not known well enough to judge."""


def distance_from_pilots(
    log_posterior: LogDensity, start: tuple[np.ndarray, np.ndarray], theta: np.ndarray
) -> float | None:
    """Squared distance of the posterior mean from `theta`, per parameter, or None.

    Parameters
    ----------
    log_posterior : callable
        (S, p) to (S,).
    start : tuple of array, shapes (p,) and (p, p)
        A normal approximation of the posterior.
    theta : array, shape (p,)
        The last pilot.
    """
    rng = np.random.default_rng(SEED)
    found = importance_draws(log_posterior, *start, rng, DRAWS, rounds=3)
    if not found.effective > FEW_EFFECTIVE:
        return None
    away = found.mean - theta
    return float(away @ np.linalg.solve(found.covariance, away)) / len(away)


def pilot_cautions(distance: float | None) -> list[Caution]:
    """What is said of a posterior far from its pilots."""
    if distance is None or distance <= WARN_PILOTS:
        return []
    return [
        Caution(
            f"the posterior lies {distance:.3g} squared standard deviations per parameter from the "
            f"last pilot (up to {WARN_PILOTS:g} is usual): noise in the curvature moved it, and "
            "its intervals may be far from the data. A larger epsilon, narrower domains of the "
            "covariates or fewer parameters help",
            refuse=distance > REFUSE_PILOTS,
        )
    ]


@dataclass(frozen=True)
class ScoreDistance:
    """How far from 0 the final score is.

    Attributes
    ----------
    relative : float
        Squared length per parameter, in units of its expected covariance.
    nonlinearity : float
        r^2 / sqrt n where pilots read a part of the records, else 0.
    """

    relative: float
    nonlinearity: float


def score_distance(
    final: NoisyScore, weights: np.ndarray, pilot_error: np.ndarray | None = None
) -> ScoreDistance:
    """Compare g at theta_t with its covariance, J + s^2 I, and with how far off pilots are.

    Parameters
    ----------
    final : NoisyScore
    weights : array, shape (N,)
        Of the rows of the reference; they add up to n.
    pilot_error : array, shape (p, p), optional
        The covariance of the mean of g, if theta_t rests on a part of the records.
    """
    _, second = final.clipped.moments(weights * final.square_weight)
    covariance = second + final.sd**2 * np.eye(len(second))
    squared = float(final.value @ np.linalg.solve(covariance, final.value))
    if pilot_error is None:
        return ScoreDistance(squared / len(second), 0.0)
    nonlinearity = squared / float(np.sqrt(weights.sum()))
    squared = float(final.value @ np.linalg.solve(covariance + pilot_error, final.value))
    return ScoreDistance(squared / len(second), nonlinearity)


def pilot_error(
    pilots: Sequence[NoisyScore],
    final: NoisyScore,
    share: float,
    at: ModelAtPoint,
    weights: np.ndarray,
    prior: NormalPrior,
    reference_error: float,
) -> np.ndarray:
    """T V T' + J / f: by how much noise in the pilots and sampling of their records move E g.

    V is the covariance of theta_t by the noise of all pilots, which is independent; T the slope of
    E g in theta. Their records are the same, so that sampling is counted once. Shape (p, p).
    """
    precision = np.array(prior.precision)
    for pilot in pilots:
        found = pilot.mean_at(at, weights)
        noise = pilot.sd**2 + reference_error**2 / 2.0 * (found.mean @ found.mean)
        precision += found.slope.T @ found.slope / noise
    slope = final.mean_at(at, weights).slope
    _, second = final.clipped.moments(weights)
    return slope @ np.linalg.solve(precision, slope.T) + second / share


def score_cautions(distance: ScoreDistance) -> list[Caution]:
    """What is said of a final score that is far from 0."""
    found = []
    why = "pilots stopped far from the posterior mode, or the model does not fit the data"
    if distance.relative > WARN_SCORE:
        found.append(
            Caution(
                f"the final score lies {distance.relative:.3g} squared standard deviations per "
                f"parameter from 0 (up to {WARN_SCORE:g} is usual): {why}",
                refuse=distance.relative > REFUSE_SCORE,
            )
        )
    if distance.nonlinearity > WARN_NONLINEARITY:
        found.append(
            Caution(
                "the final score is taken too far from the posterior mode to be linear between "
                f"them: r^2 / sqrt(n) = {distance.nonlinearity:.2g}, where r is their distance in "
                f"posterior standard deviations (up to {WARN_NONLINEARITY:g} is usual): {why}",
                refuse=distance.nonlinearity > REFUSE_NONLINEARITY,
            )
        )
    return found
