"""Whether the posterior of noisy scores lies where its pilots stopped.

Pilots weigh what they release by the public curvature, the likelihood by the noisy one. Where
covariates lie close to one end of their domain, noise in a small eigenvalue of the latter can make
a likelihood whose mass is elsewhere: on one public table (spam, epsilon 1) four in ten posteriors
were 3 standard deviations off all parameters, at 5 to 10 squared standard deviations per parameter
from the last pilot. In some 250 simulated summaries of ten models the largest such distance was
2.3. It is a function of released numbers, free. With little noise it says nothing: pilots are then
many standard deviations off for what the reference gets wrong, and the final score mends it; so it
is looked at only where the noisy curvature is weak.
"""

from __future__ import annotations

import numpy as np

from pymc_private.summaries.importance import LogDensity, importance_draws
from pymc_private.summaries.protocol import Caution

WARN_PILOTS, REFUSE_PILOTS = 3.5, 5.0
"""Squared distance of the posterior mean from the last pilot, per parameter, in its covariance."""
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
