r"""Pooled scores of whole records: a summary of any density without private covariates (T34).

Records may have several answers. Eight rounds of clipped scores, each at the mode of all that was
released before, and a final one; every release is a noisy sum of terms of single records (T30,
T31). Where all outcomes are real numbers and it promises more, releases from the third on are
clipped second moments instead. The likelihood pools all nine (`pooled_likelihood.py`). No curvature
is released: what terms are on average at given parameters is known from the model itself.

Shares of mu^2: 1/16 a round and 1/2 for the final release; under add/remove 0.02 before all for the
number of records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.errors import NotInformative
from pymc_private.models.information import ASSUMED_N
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.summaries.noise import NoiseScale, split_mu
from pymc_private.summaries.protocol import (
    Caution,
    LogLikelihood,
    Progress,
    Records,
    Released,
    SummaryNoise,
    is_same_release,
)
from pymc_private.summaries.record_table import as_record_table
from pymc_private.summaries.records.pooled_likelihood import (
    PooledRecordLikelihood,
    pooled_potential,
    pooled_record_likelihood,
)
from pymc_private.summaries.records.pooled_mode import (
    MetricAt,
    NoisySum,
    PooledModel,
    RecordCount,
    pooled_mode,
)
from pymc_private.summaries.records.pooled_terms import ClippedScores, PooledTerms
from pymc_private.summaries.records.record_scores import WholeRecordDensity
from pymc_private.summaries.records.record_simulator import RecordSimulator
from pymc_private.summaries.scores.near_zero import prior_near_zero, scales_near_zero, small_scales
from pymc_private.summaries.scores.pilot import PilotPath
from pymc_private.summaries.scores.score_bounds import NoiseSd
from pymc_private.summaries.scores.score_mechanism import noise_precision
from pymc_private.summaries.scores.score_release import BoundedNoise
from pymc_private.summaries.term_totals import SentOnce, TermTotals, ones

ROUNDS = 8
"""Pilot rounds."""
COUNT_SHARE, ROUND_SHARE, FINAL_SHARE = 0.02, 0.0625, 0.5
"""Shares of mu^2; the first is taken from all others."""
FIRST_MOMENTS = 2
"""The round from which second moments may take the place of scores."""
MOST_MOMENTS = 300
"""Most numbers of a release of second moments."""
PILOT_LOSS, FINAL_LOSS = 0.1, 0.02
"""Log determinant, per parameter, that a larger bound may cost."""
INFORMATION_DRAWS, INFORMATION_SEED = 12, 20260103
"""Prior draws over which the expected information is averaged."""
KINDS = ""
"""Name of the array that says of which kind each record is."""
SEEDS_APART = 1000
"""Between the seeds of stages."""
WARN_ERROR, REFUSE_ERROR = 2.0, 3.3
"""Predicted error r = 2 sqrt(p / n) / mu, in posterior standard deviations without privacy."""
WARN_DISTANCE, REFUSE_DISTANCE = 0.7, 1.5
"""Distance of the mode from the last release, in units of one record's information."""
REFUSE_EFFECTIVE = 0.4
"""Share of the reference that carries the weight."""
WARN_MISFIT = 4.0
"""Standard deviations of chi^2 above its mean."""


class RecordMechanism:
    """Pooled scores of whole records, fixed before the data are read.

    Parameters
    ----------
    model : PooledModel
        Density and generator of a record.
    mu : float
        Gaussian privacy of the whole release.
    count : float
        Number of records; under add/remove a public guess.
    relation : str
    records_per_unit : int

    Raises
    ------
    NotInformative
        The predicted error is beyond what was found calibrated.
    """

    method = "records"
    refinements: tuple[float, ...] = ()
    """The mu of further rounds, each planned from what was released before it."""

    def __init__(
        self,
        model: PooledModel,
        mu: float,
        count: float,
        *,
        relation: str,
        records_per_unit: int = 1,
    ) -> None:
        self.model, self.parameters = model, model.parameters
        self.mu, self.count = mu, float(count)
        self.scale = NoiseScale(relation, records_per_unit)
        counts = relation == ADD_REMOVE
        shares = [ROUND_SHARE] * ROUNDS + [FINAL_SHARE]
        shares += [COUNT_SHARE / (1.0 - COUNT_SHARE)] if counts else []
        parts = split_mu(mu, shares)
        self.budget = parts[: ROUNDS + 1]
        self.count_mu = parts[-1] if counts else None
        _refuse_hopeless(self.predicted_error, self.parameters.size, self.count)
        self._stored: tuple[Mapping[str, np.ndarray], PooledRecordLikelihood] | None = None

    # ---- before the data are read ----------------------------------------------------------------
    @property
    def guarantee(self) -> Guarantee:
        """mu-GDP of all stages together, for units of up to `records_per_unit` records.

        Rounds that were added later compose adaptively (T30).
        """
        first, *more = map(self.guarantee_at, (self.mu, *self.refinements))
        return sum(more, first)

    def guarantee_at(self, mu: float) -> Guarantee:
        """mu-GDP."""
        return Guarantee.gdp_of(
            mu,
            neighbors=self.scale.relation,
            theorem="T30 (noisy sums), T31 (sensitivities), T34 (pooled scores)",
        )

    def refined(self, mu: float) -> RecordMechanism:
        """The mechanism of a summary with one more round of this budget."""
        made = copy(self)
        made.refinements, made._stored = (*self.refinements, mu), None
        return made

    @property
    def stages(self) -> tuple[str, ...]:
        """What the release does, in order."""
        counted = () if self.count_mu is None else ("number of records",)
        rounds = tuple(f"pilot round {k + 1} of {ROUNDS}" for k in range(ROUNDS))
        return (*counted, *rounds, "final release", "likelihood")

    @property
    def predicted_error(self) -> float:
        """r: the error to expect, in posterior standard deviations without privacy."""
        each = 2.0 * self.scale.records_per_unit / self.mu / math.sqrt(self.count)
        found = each * math.sqrt(self.parameters.size)
        if self.uses_moments:
            found = min(found, each * (self._outcomes + 1) / 2.0)
        return found

    @property
    def _outcomes(self) -> int:
        """d, the numbers of a record."""
        return sum(int(np.prod(s.row_shape)) for s in self.model.density.outcomes)

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts in plain JSON types."""
        left = 1.0 - COUNT_SHARE if self.count_mu else 1.0
        return {
            "method": self.method,
            "mu": self.mu,
            "parameters": int(self.parameters.size),
            "rounds": ROUNDS,
            "terms": "second moments" if self.uses_moments else "scores",
            "shares": {"pilots": ROUNDS * ROUND_SHARE * left, "final": FINAL_SHARE * left,
                       "number of records": 1.0 - left},
            "predicted_error": self.predicted_error,
            "neighbors": self.scale.relation,
            "records_per_unit": self.scale.records_per_unit,
        } | ({"refinements": list(self.refinements)} if self.refinements else {})  # fmt: skip

    @cached_property
    def uses_moments(self) -> bool:
        """Whether later releases are second moments: of real outcomes, if they promise more."""
        size = (self._outcomes + 1) * (self._outcomes + 2) // 2
        real = all(not s.is_whole for s in self.model.density.outcomes)
        if not real or self._outcomes < 2 or size > MOST_MOMENTS:
            return False
        scores, moments = self._expected
        return moments > scores

    @property
    def information(self) -> float:
        """Expected information gain (nats) about all parameters, averaged over the prior."""
        return max(self._expected) if self.uses_moments else self._expected[0]

    @cached_property
    def _expected(self) -> tuple[float, float]:
        """Expected information of scores, and of second moments."""
        found = [[nats for nats, _ in at] for at in self._expectations]
        scores, moments = np.mean(found, axis=0)
        return float(scores), float(moments)

    @cached_property
    def variance_left(self) -> np.ndarray:
        """Expected posterior variance of each coordinate in prior ones, shape (p,)."""
        found = np.mean([at[int(self.uses_moments)][1] for at in self._expectations], axis=0)
        return np.asarray(found / np.diag(self.parameters.covariance))

    @cached_property
    def _expectations(self) -> list[list[tuple[float, np.ndarray]]]:
        """Information and posterior variances at prior draws, of scores and of second moments."""
        real = all(not s.is_whole for s in self.model.density.outcomes)
        draws = self.parameters.draws(INFORMATION_DRAWS, INFORMATION_SEED)
        return [self._information_at(theta, k, real) for k, theta in enumerate(draws)]

    def _information_at(
        self, theta: np.ndarray, k: int, real: bool
    ) -> list[tuple[float, np.ndarray]]:
        """1/2 log det(I + S0 F) and variances, of scores and of moments; F is of all rounds."""
        at, n = MetricAt.of(self.model, theta, INFORMATION_SEED + k), self.count
        prior = at.metric @ self.model.prior_precision @ at.metric
        found = []
        for choose in (at.score, at.moments) if real else (at.score,):
            parts = [
                choose(self.noise_sd(self.scale, mu, choose == at.moments), n, loss)[1]
                for mu, loss in ((self.budget[0], PILOT_LOSS), (self.budget[-1], FINAL_LOSS))
            ]
            total = ROUNDS * noise_precision(parts[0], n) + noise_precision(parts[1], n)
            whole = np.linalg.inv(np.linalg.inv(total) + np.eye(len(prior)) / n)
            dets = np.linalg.slogdet(prior + whole)[1] - np.linalg.slogdet(prior)[1]
            covariance = at.metric.T @ np.linalg.inv(prior + whole) @ at.metric
            found.append((0.5 * float(dets), np.diag(covariance)))
        return [found[0], found[-1]]

    def takes_moments(self, k: int) -> bool:
        """Whether the terms of release k are second moments."""
        return self.uses_moments and k >= FIRST_MOMENTS

    def terms_at(
        self, at: MetricAt, k: int, mu: float, count: RecordCount, noise: BoundedNoise
    ) -> PooledTerms:
        """The terms that suit release k at a budget of mu."""
        positive = self.takes_moments(k)
        loss = FINAL_LOSS if k >= ROUNDS else PILOT_LOSS
        choose = at.moments if positive else at.score
        return choose(self.noise_sd(noise, mu, positive), count.value, loss)[0]

    def noise_sd(self, noise: BoundedNoise, mu: float, positive: bool) -> NoiseSd:
        """Noise of a sum as a function of its bound."""
        size = (self._outcomes + 1) * (self._outcomes + 2) // 2
        k = size if positive else self.parameters.size
        return lambda bound: noise.sd(bound, positive, mu, k)

    def cautions(self) -> list[Caution]:
        """Reasons for doubt that are known before the charge."""
        found = []
        if self.predicted_error > WARN_ERROR:
            found.append(_far_from_private(self.predicted_error))
        return [*found, *prior_near_zero(self.parameters)]

    @property
    def trial_work(self) -> TermTotals:
        """A sum that workers are tried with before the charge."""
        density, size = self.model.density, self.parameters.size
        terms = ClippedScores(density.at(self.model.start), np.eye(size), 1.0)
        names = tuple(source.name for source in density.outcomes)
        return TermTotals(RowTerms(terms, names), terms.bound, False, SentOnce(density))

    # ---- the release -----------------------------------------------------------------------------
    def release(
        self, records: Records, noise: SummaryNoise, progress: Progress | None = None
    ) -> Released:
        """Read the records and give all that leaves.

        Returns
        -------
        dict
            ``thetas``, ``metrics``, ``bounds``, ``sds`` and ``sum:k`` of all rounds; ``count``; the
            constants of the likelihood; ``quality``.
        """
        return ReleaseRounds(self, records, noise, progress).run()

    # ---- after the release -----------------------------------------------------------------------
    def stored(self, released: Mapping[str, np.ndarray]) -> PooledRecordLikelihood:
        """The likelihood of a released summary, kept for the last one that was asked for."""
        if self._stored is None or not is_same_release(self._stored[0], released):
            self._stored = released, PooledRecordLikelihood.stored(released)
        return self._stored[1]

    def log_likelihood(self, released: Mapping[str, np.ndarray]) -> LogLikelihood:
        """Log-likelihood up to a constant at unconstrained vectors (S, p)."""
        stored = self.stored(released)
        return lambda theta: stored.log_likelihood(self.model.density, theta)

    def start(self, released: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The mode of all releases, and the covariance of a normal approximation there."""
        stored = self.stored(released)
        return stored.center, stored.covariance

    def potential(self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        """The log-likelihood as a PyTensor scalar, checked against the NumPy one."""
        return pooled_potential(self.stored(released), self.model.density, parameters)

    def warnings(self, released: Mapping[str, np.ndarray]) -> Sequence[Caution]:
        """Reasons to distrust what was released."""
        distance, effective, misfit, freedom = (float(v) for v in released["quality"])
        found = self.cautions()
        if distance > WARN_DISTANCE:
            found.append(_far_mode(distance))
        if effective < REFUSE_EFFECTIVE:
            found.append(_few_effective(effective))
        if freedom > 0 and misfit > freedom + WARN_MISFIT * math.sqrt(2.0 * freedom):
            found.append(_misfit(misfit, freedom))
        center, covariance = self.start(released)
        rng = np.random.default_rng(INFORMATION_SEED)
        draws = rng.multivariate_normal(center, covariance, 2000, method="eigh")
        return [*found, *small_scales(scales_near_zero(self.parameters, draws), "posterior")]


@dataclass(frozen=True, eq=False)
class RowTerms:
    """The terms of the records of a chunk."""

    terms: PooledTerms
    names: tuple[str, ...]

    def __call__(self, chunk: Mapping[str, np.ndarray]) -> np.ndarray:
        """Those of all rows; without an array of kinds all are of one."""
        records = {name: chunk[name] for name in self.names}
        rows = len(next(iter(records.values())))
        kinds = chunk[KINDS] if KINDS in chunk else np.zeros(rows, dtype=int)
        return self.terms.terms(records, kinds)


class ReleaseRounds:
    """One run through the stages.

    Parameters
    ----------
    mechanism : RecordMechanism
    records : mapping of str to array
    noise : SummaryNoise
    progress : callable, optional
    """

    def __init__(
        self,
        mechanism: RecordMechanism,
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None,
    ) -> None:
        self.mechanism, self.noise, self.progress = mechanism, noise, progress
        self.model, density = mechanism.model, mechanism.model.density
        self.names = [s.name for s in density.outcomes]
        kinds = {KINDS: density.kinds} if density.kind_rows else {}
        self.table = as_record_table(records).beside(kinds)
        self.n = len(self.table)
        self.size = self.table.chunk_size(mechanism.scale.relation)
        self.finished = 0
        self.common = SentOnce(density)

    def done(self) -> None:
        """Tell that a stage is finished."""
        self.finished += 1
        if self.progress is not None:
            self.progress(self.finished)

    def run(self) -> Released:
        """All stages in order."""
        mechanism, count = self.mechanism, self._count()
        releases: list[NoisySum] = []
        places: list[MetricAt] = []
        theta = mode = self.model.start
        path = PilotPath(mode, np.zeros_like(mode))
        for k, mu in enumerate(mechanism.budget):
            at = MetricAt.of(self.model, theta, SEEDS_APART * k)
            places.append(at)
            terms = mechanism.terms_at(at, k, mu, count, self.noise)
            releases.append(self.noisy_sum(terms, mu))
            if k < ROUNDS:
                mode, covariance = pooled_mode(
                    self.model, mode, releases, count, SEEDS_APART * k + 1
                )
                theta = path.next(mode, covariance, self.model.prior_sd, last=k >= ROUNDS - 1)
        last = places[-1]
        likelihood, quality = pooled_record_likelihood(
            self.model, releases, last.theta, last.root, count, SEEDS_APART * (ROUNDS + 1)
        )
        self.done()
        found = {f"sum:{k}": r.value for k, r in enumerate(releases)} | likelihood.arrays()
        numbers = (quality.distance, quality.effective, quality.misfit, quality.freedom)
        return found | {
            "thetas": np.array([at.theta for at in places]),
            "metrics": np.array([at.metric for at in places]),
            "bounds": np.array([r.terms.bound for r in releases]),
            "sds": np.array([r.sd for r in releases]),
            "count": np.array([count.value, count.sd]),
            "quality": np.array(numbers),
        }

    def _count(self) -> RecordCount:
        mu = self.mechanism.count_mu
        if mu is None:
            return RecordCount(float(self.n))
        noisy = float(TermTotals(ones, 1.0, True).noisy(self.table, self.noise, self.size, mu)[0])
        self.done()
        return RecordCount(max(noisy, 1.0), self.noise.sd(1.0, True, mu, 1))

    def noisy_sum(self, terms: PooledTerms, mu: float) -> NoisySum:
        """The noisy sum of the terms of all records."""
        sd = self.mechanism.noise_sd(self.noise, mu, terms.positive)
        rows = RowTerms(terms, tuple(self.names))
        made = TermTotals(rows, terms.bound, terms.positive, self.common)
        value = made.noisy(self.table, self.noise, self.size, mu)
        self.done()
        return NoisySum(terms, value, sd(terms.bound))


def record_mechanism(private: PrivateModel, mu: float, *, n: int | None = None) -> RecordMechanism:
    """Pooled scores of the records of a model at a budget of mu.

    Parameters
    ----------
    private : PrivateModel
    mu : float
        Gaussian privacy of the whole release.
    n : int, optional
        Under add/remove: a public guess of the number of records.

    Raises
    ------
    Unsupported
        Private covariates, coupled records, or a likelihood without a generator.
    NotInformative
        So many parameters that the summary would be mostly noise.
    DomainError
        An improper prior.
    """
    density = WholeRecordDensity(private)
    model = PooledModel(density, RecordSimulator(private, density))
    count = (n or ASSUMED_N) if private.neighbors == ADD_REMOVE else private.record_count
    return RecordMechanism(
        model,
        mu,
        count,
        relation=private.neighbors,
        records_per_unit=private.records_per_unit,
    )


# ---- warnings -----------------------------------------------------------------------------------
def _refuse_hopeless(error: float, size: int, count: float) -> None:
    if error <= REFUSE_ERROR:
        return
    raise NotInformative(
        "a summary of whole records would be mostly noise; nothing was charged",
        got=f"{size} parameters and {count:.0f} records: expected {error:.2g} posterior standard "
        "deviations off",
        allowed=f"up to {REFUSE_ERROR}",
        do="a larger epsilon, more records, or fewer parameters",
    )


def _far_from_private(error: float) -> Caution:
    return Caution(
        f"noise is expected to move the posterior by {error:.2g} of the standard deviations that "
        f"it has without privacy ({WARN_ERROR:g} or less is usual): more records, a larger epsilon "
        "or fewer parameters help"
    )


def _far_mode(distance: float) -> Caution:
    return Caution(
        f"the mode lies {distance:.2g} records' worth of information from the last release (up to "
        f"{WARN_DISTANCE:g} is usual): pilots stopped far from it, or the model does not fit",
        refuse=distance > REFUSE_DISTANCE,
    )


def _few_effective(effective: float) -> Caution:
    return Caution(
        f"only {effective:.0%} of the simulated reference carries the likelihood "
        f"({REFUSE_EFFECTIVE:.0%} or more is safe)",
        refuse=True,
    )


def _misfit(misfit: float, freedom: float) -> Caution:
    return Caution(
        f"the releases disagree with each other under this model: chi^2 {misfit:.0f} on "
        f"{freedom:.0f} degrees of freedom"
    )
