r"""A second round for a summary of noisy scores, planned from what was released (T30, T36).

The first release tells where the posterior is. One more score is taken at its mode, in the metric
and at the clipping bounds that are best there, and released with its curvature. All scores then
enter one likelihood: given the parameters they are sums over the same records with independent
noise, so the pooled likelihood of `score_likelihood.py` serves as it is, the first final score
being one more pilot.

Every number of the round is a function of the first release and of the model. So the round is one
more step of an adaptive sequence of noisy sums, and both together are sqrt(mu_1^2 + mu_2^2)-GDP.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_private.privacy import Guarantee
from pymc_private.summaries.noise import split_mu
from pymc_private.summaries.protocol import Progress, Records, Released, SummaryNoise
from pymc_private.summaries.scores.clipped_scores import ClippedScore, score_rows
from pymc_private.summaries.scores.reference import CovariateReference
from pymc_private.summaries.scores.score_bounds import joint_bounds
from pymc_private.summaries.scores.score_budget import ScoreBudget
from pymc_private.summaries.scores.score_mechanism import (
    ScoreMechanism,
    carried_curvature,
    reference_of,
)
from pymc_private.summaries.scores.score_release import ScoreDesign, release_round
from pymc_private.summaries.scores.score_terms import RoundTotals
from pymc_private.summaries.scores.symmetric import symmetric_part
from pymc_private.summaries.second_round import RoundAtMode

CURVATURE_SHARE = 0.15
"""Share of mu^2 of a round for its curvature, which is pooled with that of the first release."""
STACKED = ("thetas", "metrics", "bounds", "sds", "scores")
"""Arrays that hold one row for each score."""
OF_CURVATURES = ("weight_bound", "curvature", "curvature_sd")
"""Arrays of the final scores, each of which has a curvature."""


@dataclass(frozen=True, eq=False)
class RefinementRound(RoundAtMode):
    """One more score, fixed before the records are read again (see `RoundAtMode`).

    Attributes
    ----------
    design : ScoreDesign
        The same with the budget of the round.
    score : ClippedScore
    reference : CovariateReference
        The moved reference of the summary.
    count : float
        Number of records, noisy where it is protected.
    """

    design: ScoreDesign
    score: ClippedScore
    reference: CovariateReference
    count: float

    @property
    def coordinates(self) -> Any:
        """What records read of the parameters."""
        return self.mechanism.read

    @property
    def guarantee(self) -> Guarantee:
        """What the round alone reveals at most."""
        return Guarantee.gdp_of(
            self.mu,
            neighbors=self.design.scale.relation,
            theorem="T30 (noisy sums), T31 (sensitivities), T36 (clipped scores)",
        )

    @property
    def work(self) -> RoundTotals:
        """What workers of a cluster compute of each chunk of records."""
        return self.design.totals_of(self.score)

    @property
    def stages(self) -> tuple[str, ...]:
        """What the round releases, in order."""
        return ("score",) if self.design.budget.curvature is None else ("score", "curvature")

    def release(
        self,
        first: Mapping[str, np.ndarray],
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None = None,
    ) -> Released:
        """What the summary held, with the scores and curvatures of the round behind its own."""
        found = release_round(
            self.design, self.score, self.reference, self.count, records, noise, progress
        )
        return dict(first) | joined(first, found)


def joined(first: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray]) -> Released:
    """Scores and curvatures of two releases in the order of their making."""
    rows = {name: np.concatenate([first[name], found[name]]) for name in STACKED}
    for name in OF_CURVATURES:
        shape = found[name].shape
        old = np.reshape(first[name], (-1, *shape))
        rows[name] = np.concatenate([old, found[name][None]])
    return rows


def planned_round(
    mechanism: ScoreMechanism, released: Mapping[str, np.ndarray], mu: float
) -> RefinementRound:
    """The next round of a summary at a budget of mu, from what was released alone.

    Parameters
    ----------
    mechanism : ScoreMechanism
    released : mapping of str to array
    mu : float
        Gaussian privacy of the round.
    """
    reference, count = reference_of(released, "large"), float(released["count"])
    pooled, prior = mechanism.pooled(released), mechanism.design.prior.precision
    budget = round_budget(mu, mechanism.design.budget.curvature is not None)
    design = mechanism.design
    whole = replace(design.scale, parts=False)  # the round reads all records, with weight 1
    design = replace(design, budget=budget, part=None, scale=whole)
    scored = score_rows(mechanism.model, pooled.center, reference.rows)
    metric, root = scored.metric(reference.weights, design.structure)
    before = np.linalg.inv(pooled.precision + prior)
    choice = joint_bounds(
        scored.framed(metric),
        count * reference.weights,
        metric @ prior @ metric.T,
        root.T @ before @ root,
        design.score_sd(design.scale, budget.score),
        design.curvature_sd(design.scale),
        design.least_sd(design.scale),
    )
    score = ClippedScore(mechanism.model, pooled.center, metric, choice.bound, choice.weight_bound)
    expected = dict(released) | joined(
        released, _expected_round(mechanism, design, score, released)
    )
    later = mechanism.refined(mu).pooled(dict(released) | expected).precision
    after = symmetric_part(np.linalg.inv(later + prior))
    return RefinementRound(mechanism, before, after, mu, design, score, reference, count)


def _expected_round(
    mechanism: ScoreMechanism,
    design: ScoreDesign,
    score: ClippedScore,
    released: Mapping[str, np.ndarray],
) -> Released:
    """What a round releases in expectation: a score of 0, and the curvature as known so far."""
    reference = reference_of(released, "large")
    weights = float(released["count"]) * reference.weights
    public, _ = score.at(reference.rows).moments(weights)
    known = mechanism.curvature(released, mechanism.noisy_scores(released, reference.rows), weights)
    noise = design.curvature_sd(design.scale)
    sd = design.score_sd(design.scale, design.budget.score)(score.bound)
    rows = (score.theta, score.metric, score.bound, sd, np.zeros(design.size))
    return dict(zip(STACKED, (np.array([row]) for row in rows), strict=True)) | {
        "weight_bound": np.array(score.weight_bound),
        "curvature": carried_curvature(known.value, known.public, public),
        "curvature_sd": np.array(0.0 if noise is None else noise(score.weight_bound)),
    }


def round_budget(mu: float, private_curvature: bool) -> ScoreBudget:
    """Split the mu of a round: the exact sum of the squares is at most mu^2 (T30)."""
    if not private_curvature:
        return ScoreBudget((), split_mu(mu, (1.0,))[0])
    score, curvature = split_mu(mu, (1.0 - CURVATURE_SHARE, CURVATURE_SHARE))
    return ScoreBudget((), score, curvature=curvature)
