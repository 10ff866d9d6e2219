r"""A second round for a summary of pooled scores of whole records, planned from it (T30, T34).

One more final release at the mode of all that was released, whose bounds are best there at the
budget of the round; then the likelihood of all releases together is made anew
(`pooled_likelihood.py`). Every number of the round is a function of the first release and of public
seeds, so that both together are sqrt(mu_1^2 + mu_2^2)-GDP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_private.errors import Incompatible
from pymc_private.privacy import Guarantee
from pymc_private.summaries.protocol import Progress, Records, Released, SummaryNoise
from pymc_private.summaries.records.pooled_likelihood import (
    FEWEST_RECORDS,
    OUTCOME,
    RECORDS_FOR_EACH,
    Quality,
    pooled_record_likelihood,
)
from pymc_private.summaries.records.pooled_mode import (
    MetricAt,
    NoisySum,
    RecordCount,
    outcome_frame,
    simulated_moments,
    sum_covariance,
)
from pymc_private.summaries.records.pooled_records import (
    ROUNDS,
    SEEDS_APART,
    RecordMechanism,
    ReleaseRounds,
)
from pymc_private.summaries.records.pooled_terms import ClippedMoments, ClippedScores, PooledTerms
from pymc_private.summaries.scores.symmetric import symmetric_part
from pymc_private.summaries.second_round import RoundAtMode

SEEDS_OF_A_ROUND = 20 * SEEDS_APART
"""Between the seeds of rounds; the stages of the first use those below."""
SAME = 1e-6
"""Relative difference of a metric, from another machine, that is rounding."""


@dataclass(frozen=True, eq=False)
class RecordRound(RoundAtMode):
    """One more release, fixed before the records are read again (see `RoundAtMode`).

    Attributes
    ----------
    at : MetricAt
        The mode of the summary, and the metric there.
    terms : PooledTerms
        What each record adds.
    earlier : tuple of NoisySum
        All that was released.
    count : RecordCount
    seed : int
        Public.
    """

    at: MetricAt
    terms: PooledTerms
    earlier: tuple[NoisySum, ...]
    count: RecordCount
    seed: int

    @property
    def guarantee(self) -> Guarantee:
        """What the round alone reveals at most."""
        found: Guarantee = self.mechanism.guarantee_at(self.mu)
        return found

    @property
    def stages(self) -> tuple[str, ...]:
        """What the round releases, in order."""
        return ("score", "likelihood")

    def release(
        self,
        first: Mapping[str, np.ndarray],
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None = None,
    ) -> Released:
        """All that was released, one more sum, and the likelihood of both."""
        rounds = ReleaseRounds(self.mechanism, records, noise, progress)
        found = rounds.noisy_sum(self.terms, self.mu)
        likelihood, quality = pooled_record_likelihood(
            self.mechanism.model,
            [*self.earlier, found],
            self.at.theta,
            self.at.root,
            self.count,
            self.seed + SEEDS_APART,
        )
        rounds.done()
        kept = {name: v for name, v in first.items() if not name.startswith(OUTCOME)}
        return (
            kept | likelihood.arrays() | _joined(first, found, self.at) | {"quality": _row(quality)}
        )


def _joined(first: Mapping[str, np.ndarray], found: NoisySum, at: MetricAt) -> Released:
    """Public numbers of all releases in the order of their making, and the sum of the last."""
    rows = {
        "thetas": at.theta,
        "metrics": at.metric,
        "bounds": found.terms.bound,
        "sds": found.sd,
    }
    every = {name: np.concatenate([first[name], [row]]) for name, row in rows.items()}
    return every | {f"sum:{len(first['bounds'])}": found.value}


def _row(quality: Quality) -> np.ndarray:
    return np.array([quality.distance, quality.effective, quality.misfit, quality.freedom])


def planned_record_round(
    mechanism: RecordMechanism, released: Mapping[str, np.ndarray], mu: float
) -> RecordRound:
    """The next round of a summary at a budget of mu, from what was released alone.

    Parameters
    ----------
    mechanism : RecordMechanism
    released : mapping of str to array
    mu : float
        Gaussian privacy of the round.

    Raises
    ------
    Incompatible
        Here the model's generator simulates other records than where the summary was made.
    """
    stored, model = mechanism.stored(released), mechanism.model
    number = len(released["bounds"])
    seed = _seed_of(number)
    count = RecordCount(*(float(v) for v in released["count"]))
    at = MetricAt.of(model, stored.center, seed)
    terms = mechanism.terms_at(at, number, mu, count, mechanism.scale)
    earlier = tuple(_earlier(mechanism, released, k) for k in range(number))
    sd = mechanism.noise_sd(mechanism.scale, mu, terms.positive)(terms.bound)
    expected = NoisySum(terms, np.zeros(terms.made_up(at.sample).shape[1]), sd)
    before, after = _covariances(at, [*earlier, expected], count, seed + 1)
    return RecordRound(mechanism, before, after, mu, at, terms, earlier, count, seed)


def _seed_of(k: int) -> int:
    """The public seed of the metric of release k."""
    return SEEDS_APART * k if k <= ROUNDS else SEEDS_OF_A_ROUND * (k - ROUNDS)


def _earlier(mechanism: RecordMechanism, released: Mapping[str, np.ndarray], k: int) -> NoisySum:
    """Release k, its terms made again."""
    model, theta, metric = mechanism.model, released["thetas"][k], released["metrics"][k]
    bound, value, sd = float(released["bounds"][k]), released[f"sum:{k}"], float(released["sds"][k])
    if not mechanism.takes_moments(k):
        return NoisySum(ClippedScores(model.density.at(theta), metric, bound), value, sd)
    at = MetricAt.of(model, theta, _seed_of(k))  # its sample gave the frame of the moments
    if not np.abs(at.metric - metric).max() <= SAME * np.abs(metric).max():
        raise Incompatible(
            "here the generator of this model simulates other records, so that no round can be "
            "pooled with this summary; nothing was charged",
            got="another metric at the same parameters and seed",
            allowed="the versions of PyMC and NumPy that the summary was made by",
        )
    return NoisySum(ClippedMoments(*outcome_frame(at.sample), bound), value, sd)


def _covariances(
    at: MetricAt, releases: Sequence[NoisySum], count: RecordCount, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Posterior covariance at the mode without the last release, and with it."""
    model, n = at.model, count.value
    sample = model.simulator.draw(at.theta, max(FEWEST_RECORDS, int(RECORDS_FOR_EACH * n)), seed)
    found = simulated_moments(model.density, at.theta, [r.terms for r in releases], sample)
    noise = np.concatenate([np.full(len(r.value), r.sd**2) for r in releases])
    spread, prior = sum_covariance(found, noise, count), model.prior_slope(at.theta)[1]
    covariances = []
    for size in (len(noise) - len(releases[-1].value), len(noise)):
        slope = n * found.slope[:size]
        told = slope.T @ np.linalg.solve(spread[:size, :size], slope)
        covariances.append(np.linalg.inv(symmetric_part(prior + told)))
    return covariances[0], covariances[1]
