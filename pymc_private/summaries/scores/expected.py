"""A quick estimate of what noisy scores of a model would tell, from scores already simulated.

`calibrate` simulates records and their scores to judge draws. The same scores, clipped and summed
with the noise of a summary, give the information that a summary would keep: no mechanism is built
for it. It is an estimate for a sentence of a plan; a plan of a summary has its own figure.
"""

from __future__ import annotations

import numpy as np

from pymc_private.errors import PymcPrivateError
from pymc_private.models.information import simulated_information
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE

SCORE_SHARE = 0.7
"""Share of mu^2 that pilots and final score have between them, less what pilots lose."""
QUANTILES = (0.5, 0.7, 0.9, 0.99, 1.0)
"""Quantiles of the norm of a score at which it may be clipped."""
LEAST_EIGENVALUE = 1e-9


def expected_score_information(
    private: PrivateModel, epsilon: float, delta: float, n: int | None
) -> float | None:
    """Nats that noisy scores within (epsilon, delta) would give, about; None where none are made.

    Reads no data. None: no delta, other neighbors than records, a likelihood that was tempered,
    clipped or scored, an outcome that is no number, or records that cannot be simulated.
    """
    from pymc_private.summaries.noise import largest_mu

    relation = private.neighbors
    if delta <= 0.0 or relation not in (SUBSTITUTE, ADD_REMOVE) or private.changed_likelihood:
        return None
    if not has_one_outcome(private):
        return None
    try:
        simulated = simulated_information(private, n)
    except PymcPrivateError:
        return None
    changed = 2.0 if relation == SUBSTITUTE else 1.0
    mu = largest_mu(epsilon, delta) * np.sqrt(SCORE_SHARE)
    noise = changed * private.records_per_unit / mu
    return float(np.mean([_gain(s, simulated.n, noise) for s in simulated.scores]))


def has_one_outcome(private: PrivateModel) -> bool:
    """Whether the model observes one number in each record."""
    names = {name for rv in private.base.observed_RVs for name in [rv.name]}
    outcomes = [s for s in private.sources if names & {s.name, *s.aliases}]
    return len(names) == 1 and len(outcomes) == 1 and outcomes[0].row_shape == ()


def _gain(scores: np.ndarray, n: int, noise: float) -> float:
    """1/2 log det(I + F), F what clipped scores with noise tell, in prior units.

    `scores` have shape (records, p); `noise` is the standard deviation for a bound of 1.
    """
    values, vectors = np.linalg.eigh(scores.T @ scores / len(scores))
    kept = values > LEAST_EIGENVALUE * max(values.max(initial=0.0), 1e-300)
    if not kept.any():
        return 0.0
    root = vectors[:, kept] * np.sqrt(values[kept])
    white = scores @ (vectors[:, kept] / np.sqrt(values[kept]))
    norms = np.linalg.norm(white, axis=1)
    best = 0.0
    bounds = np.quantile(norms, QUANTILES)
    for bound in bounds[bounds > 0.0]:  # most scores are zero where a clip holds most records
        factor = 1.0 / np.maximum(norms, bound)  # of scores in units of the bound
        slope = n * (white * factor[:, None]).T @ white / len(white)
        second = n * (white * factor[:, None] ** 2).T @ white / len(white)
        spread = second + noise**2 * np.eye(len(slope))
        told = root @ slope @ np.linalg.solve(spread, slope) @ root.T
        best = max(best, 0.5 * float(np.linalg.slogdet(np.eye(len(told)) + told)[1]))
    return best
