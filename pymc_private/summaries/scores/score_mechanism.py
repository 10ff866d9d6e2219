r"""Noisy scores: a summary of any model with one scalar outcome in a record (T36).

Stages, each a noisy sum of terms of single records whose bound is fixed beforehand or chosen from
earlier noisy sums:

1. under add/remove, the number of records;
2. moments of the covariates, by which the public reference is moved towards the data;
3. ten rounds of scores at the mode of what was released before (`pilot.py`);
4. the final score g at the last mode, clipped at C, rows weighted by K (`score_bounds.py`);
5. its curvature H.

Shares of mu^2: 0.08, 0.34, 0.42 and 0.16, and 0.02 before all for the number of records; of many
records the first two have 0.20 together and the others 0.80 (`score_budget.py`). Without
private covariates stages 2 and 5 fall away: H is a function of public numbers. The released arrays
are all that the likelihood (`score_likelihood.py`) reads besides the model.

A summary that was refined (`refinement.py`) holds further scores with curvatures of their own: all
scores are pooled, and curvatures by the inverse of their noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, cast

import numpy as np

from pymc_private.privacy import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.summaries.noise import NoiseScale
from pymc_private.summaries.protocol import (
    Caution,
    LogLikelihood,
    Progress,
    Records,
    Released,
    SummaryNoise,
    is_same_release,
)
from pymc_private.summaries.scores.clipped_scores import (
    ClippedScore,
    FramedRows,
    RecordModel,
    Rows,
    clip_rows,
    score_rows,
)
from pymc_private.summaries.scores.curvature_check import (
    WARN_EIGENVALUE,
    expected_caution,
    hidden_caution,
    shrunken,
    told_directions,
    usable_share,
    weak_curvature,
)
from pymc_private.summaries.scores.group_labels import small_group_cautions
from pymc_private.summaries.scores.marginal_moments import MarginalMoments, settled_moments
from pymc_private.summaries.scores.near_zero import prior_near_zero
from pymc_private.summaries.scores.pilot import (
    NoisyScore,
    NormalPrior,
    model_at_point,
    posterior_mode,
)
from pymc_private.summaries.scores.pilot_distance import (
    distance_from_pilots,
    pilot_cautions,
    pilot_error,
    score_cautions,
    score_distance,
)
from pymc_private.summaries.scores.pilot_part import PilotPart, RecordKinds
from pymc_private.summaries.scores.read_parameters import (
    ReadCoefficients,
    all_parameters,
    coefficient_names,
    of_read,
)
from pymc_private.summaries.scores.reference import CovariateReference, digest_of
from pymc_private.summaries.scores.score_bounds import BoundChoice, joint_bounds, pilot_bound
from pymc_private.summaries.scores.score_budget import (
    COUNT_SHARE,
    CURVATURE_SHARE,
    MOMENTS_SHARE,
    PILOT_SHARE,
    ROUNDS,
    SCORE_SHARE,
    ScoreBudget,
    score_budget,
)
from pymc_private.summaries.scores.score_likelihood import (
    MANY_GROUPS,
    Curvature,
    PooledLikelihood,
    pooled_likelihood,
)
from pymc_private.summaries.scores.score_model import (
    GRADIENT_AGREEMENT,
    HasDensity,
    score_potential,
)
from pymc_private.summaries.scores.score_release import (
    MomentsStage,
    ScoreDesign,
    SharedReference,
    release_scores,
    weighed,
)
from pymc_private.summaries.scores.score_terms import ScoreTerms
from pymc_private.summaries.scores.structure import refuse_untold
from pymc_private.summaries.scores.symmetric import floor_eigenvalues, matrix_power
from pymc_private.summaries.term_totals import SentOnce, TermTotals
from pymc_private.summaries.weighted_sums import refuse_size


@dataclass(frozen=True)
class ExpectedRelease:
    """What is expected of a release at one vector of parameters.

    Attributes
    ----------
    nats : float
        Information about all parameters.
    usable : float
        Share of summaries whose curvature noise does not spoil.
    variance : array, shape (q,)
        Posterior variance of each coordinate.
    """

    nats: float
    usable: float
    variance: np.ndarray


KNOWN_CAUTION = (
    "the distribution of the covariates is taken to be that of reference=, and nothing is released "
    "that would show another one: posteriors would then be off, and intervals too narrow"
)
"""What is said of `KnownCovariates`."""
FINAL_MODE_STEPS = 8
"""Gauss-Newton steps to the mode of all releases."""
LEAST_CURVATURE = 0.05
"""Eigenvalues of H are at least this share of the mean eigenvalue of H_pub."""
INFORMATION_DRAWS, INFORMATION_SEED = 12, 20260103
"""Prior draws over which the expected information is averaged."""
MOST_OF_INFORMATION = 0.999
"""A score has at most this share of the information of its records."""


class ScoreMechanism:
    """Noisy scores of a model, fixed before the data are read (see `protocol.Mechanism`).

    Parameters
    ----------
    model : RecordModel
        Density of one record, with nodes of its outcome.
    large, small : Reference
        Public covariates: of the pilots and bounds, and of the likelihood.
    mu : float
        Gaussian privacy of all stages together.
    count : float
        Number of records; under add/remove a public guess, for the expected information.
    outcome : str
        Name of the outcome among the records; all others are covariates.
    moments : MomentsStage, MarginalMoments or None
        None where no private covariate has moments to release.
    covariates : bool, optional
        Whether there are private covariates, which make the curvature private; default: whether
        there are moments.
    public_rows : mapping of str to array
        Public arrays with one row for each record.
    relation : str
    records_per_unit : int
    part : PilotPart, optional
        The records that pilots read (T37); default: all of them.
    many : bool
        Whether there are so many records that pilots need less of the budget.
    given : mapping of str to array, optional
        The public sample of which the references were made.
    known : bool
        Whether it is taken for the distribution of the covariates, of which nothing is released.
    """

    method = "scores"
    refinements: tuple[float, ...] = ()
    """The mu of further rounds, each planned from what was released before it."""
    doubts: tuple[Caution, ...] = ()
    """Reasons for doubt that whoever made the mechanism knows of."""
    integrates_effects = False
    """Whether records have effects of their own, integrated out, with a scale."""
    most_gap = GRADIENT_AGREEMENT
    """Most difference of the likelihood's gradients, as of `score_model.score_potential`."""

    def __init__(
        self,
        model: RecordModel,
        large: CovariateReference,
        small: CovariateReference,
        mu: float,
        count: float,
        *,
        outcome: str = "y",
        moments: MomentsStage | MarginalMoments | None = None,
        covariates: bool | None = None,
        public_rows: Rows | None = None,
        relation: str = SUBSTITUTE,
        records_per_unit: int = 1,
        part: PilotPart | None = None,
        many: bool = False,
        given: Rows | None = None,
        known: bool = False,
    ) -> None:
        read = model.parameters
        self.model, self.read = model, read
        self.parameters = all_parameters(read)
        self.mu, self.count, self._many = mu, float(count), many
        has_moments = moments is not None
        covariates = has_moments if covariates is None else covariates
        budget = score_budget(mu, relation == ADD_REMOVE, covariates, has_moments, part, many)
        scale = NoiseScale(relation, records_per_unit, parts=part is not None)
        moments = self._settled(moments, large, budget, scale, 1.0 if part is None else part.share)
        prior, public = NormalPrior(read.mean, read.covariance), dict(public_rows or {})
        self.design = ScoreDesign(
            model, prior, large, small, budget, outcome, moments, public, scale, part,
            dict(given or {}), known,
        )  # fmt: skip
        one = {name: rows[:1] for name, rows in large.rows.items()}
        refuse_size(*model.jacobian(read.mean, one).shape[1:])  # before a charge
        refuse_untold(self.design.structure, partial(coefficient_names, read))
        self._pooled: tuple[Mapping[str, np.ndarray], PooledLikelihood] | None = None
        self._prepared: tuple[Mapping[str, np.ndarray], list[NoisyScore]] | None = None

    def _settled(
        self, moments: Any, large: CovariateReference, budget: ScoreBudget, scale: NoiseScale,
        share: float,
    ) -> Any:  # fmt: skip
        """The moments stage, in parts where the noise of one sum would hide what it tells."""
        if budget.moments is None:
            return moments
        noise = partial(_noise_of_moments, scale, budget.moments)
        return settled_moments(moments, large, noise, share * self.count)

    @property
    def guarantee(self) -> Guarantee:
        """mu-GDP of all stages together, for units of up to `records_per_unit` records.

        Rounds that were added later compose adaptively (T30).
        """
        first, *more = (
            Guarantee.gdp_of(
                mu,
                neighbors=self.design.scale.relation,
                theorem="T30 (noisy sums), T31 (sensitivities), T36 (clipped scores)"
                + (", T37 (weighted split)" if self.design.part is not None else ""),
            )
            for mu in (self.mu, *self.refinements)
        )
        return sum(more, first)

    @property
    def part(self) -> PilotPart | None:
        """The records that pilots read, of a table of many rows (T37)."""
        return self.design.part

    def refined(self, mu: float) -> ScoreMechanism:
        """The mechanism of a summary with one more round of this budget (`refinement.py`)."""
        made = copy(self)
        made.refinements, made._pooled, made._prepared = (*self.refinements, mu), None, None
        return made

    @property
    def stages(self) -> tuple[str, ...]:
        """What the release does, in order."""
        return self.design.stages

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts in plain JSON types."""
        design = self.design
        shares = {
            "number of records": COUNT_SHARE if design.budget.count else 0.0,
            "moments": MOMENTS_SHARE if design.budget.moments else 0.0,
            "pilots": PILOT_SHARE,
            "score": SCORE_SHARE,
            "curvature": CURVATURE_SHARE if design.budget.curvature else 0.0,
        }
        if design.part is not None or self._many or design.known:
            shares = {name: mu**2 / self.mu**2 for name, mu in design.budget.totals.items()}
        return {
            "method": self.method,
            "mu": self.mu,
            "parameters": int(self.parameters.size),
            "hierarchy": isinstance(self.read, ReadCoefficients) and self.read.is_hierarchy,
            "rounds": ROUNDS,
            "shares": shares,
            "reference rows": [len(design.large.weights), len(design.small.weights)],
            "neighbors": design.scale.relation,
            "records_per_unit": design.scale.records_per_unit,
        } | self._further_facts()

    def _further_facts(self) -> dict[str, Any]:
        """Second rounds, and the share of the records that pilots read, with its weight."""
        part = self.design.part
        found: dict[str, Any] = {"refinements": list(self.refinements)} if self.refinements else {}
        found |= {"known covariates": True} if self.design.known else {}
        found |= {"public sample": digest_of(self.design.given)} if self.design.given else {}
        return found | ({} if part is None else {"pilot part": [part.share, part.weight]})

    # ---- before the data are read ----------------------------------------------------------------
    @cached_property
    def information(self) -> float:
        """Expected information gain (nats) about all parameters, averaged over the prior.

        A summary whose curvature noise spoils is charged, and tells nothing.
        """
        return float(np.mean([one.nats * one.usable for one in self._expected_releases]))

    @cached_property
    def variance_left(self) -> np.ndarray:
        """Expected posterior variance of each coordinate in prior ones; none of a hierarchy.

        What its hyperparameters have of their groups is not linear in these. A summary whose
        curvature noise spoils leaves the prior.
        """
        if self.read is not self.parameters:
            return np.empty(0)
        prior = np.diag(self.parameters.covariance)
        expected = self._expected_releases
        found = [one.usable * one.variance + (1.0 - one.usable) * prior for one in expected]
        return np.asarray(np.mean(found, axis=0) / prior)

    @property
    def usable(self) -> float:
        """Expected share of summaries that noise in their curvature does not spoil."""
        return float(np.mean([one.usable for one in self._expected_releases]))

    @cached_property
    def _expected_releases(self) -> list[ExpectedRelease]:
        """What is expected at draws from the prior."""
        draws = of_read(self.read, self.parameters.draws(INFORMATION_DRAWS, INFORMATION_SEED))
        return [self._expected_at(theta) for theta in draws]

    def _expected_at(self, theta: np.ndarray) -> ExpectedRelease:
        """1/2 log det(I + S0 F), F the precision of pilots and final score taken at theta.

        All of them are sums over the same records: their noise is independent, the sampling error
        of the records, (n I)^-1 in units of the metric, is common and counts once.
        """
        design, large = self.design, self.design.large
        scored, weights = score_rows(self.model, theta, large.rows), self.count * large.weights
        metric, _ = scored.metric(large.weights, design.structure)
        frame = scored.framed(metric)
        prior = metric @ design.prior.precision @ metric.T
        sd = design.score_sd(design.scale, design.budget.pilots[0])
        least_sd = design.least_sd(design.scale)
        of_pilots = design.least_sd(design.scale, of_pilots=True)
        shares = design.kinds.means
        pilot = pilot_bound(frame, weights * shares[0], prior, sd, of_pilots).precision
        total = prior + ROUNDS * pilot
        final = joint_bounds(  # as the release chooses them
            frame,
            weights * shares[-1],
            prior,
            np.linalg.inv(total),
            design.score_sd(design.scale, design.budget.score),
            design.curvature_sd(design.scale),
            least_sd,
        )
        parts = ROUNDS * noise_precision(pilot, self.count * shares[0])
        parts = parts + noise_precision(final.precision, self.count * shares[-1])
        found = np.linalg.inv(np.linalg.inv(parts) + np.eye(len(prior)) / self.count)
        nats = 0.5 * float(np.linalg.slogdet(prior + found)[1] - np.linalg.slogdet(prior)[1])
        covariance = metric.T @ np.linalg.inv(prior + found) @ metric
        usable = self._usable_at(frame, weights * shares[-1], final)
        return ExpectedRelease(nats, usable, np.diag(covariance))

    def _usable_at(self, frame: FramedRows, weights: np.ndarray, final: BoundChoice) -> float:
        """The share of usable summaries at the bounds of a final release."""
        noise = self.design.curvature_sd(self.design.scale)
        if noise is None:
            return 1.0
        expected, _ = clip_rows(frame, final.bound, final.weight_bound).moments(weights)
        return usable_share(expected, noise(final.weight_bound), self.design.structure)

    @cached_property
    def nodes(self) -> int:
        """Outcomes at rows of the reference that the likelihood sums over."""
        return int(score_rows(self.model, self.read.mean, self.design.small.rows).mass.size)

    @property
    def has_many_groups(self) -> bool:
        """Whether the likelihood's noise does not depend on parameters (T36, *Many groups*)."""
        return self.design.structure.groups >= MANY_GROUPS

    def cautions(self) -> list[Caution]:
        """Reasons for doubt that are known before the charge."""
        found = [*self._taken_as_known(), *self.doubts, *expected_caution(self.usable)]
        if self.integrates_effects:
            found += prior_near_zero(self.parameters)
        if self.design.structure.is_full:
            return found
        found += small_group_cautions(self.read.size, self.count, self.mu)
        return [*found, *prior_near_zero(self.parameters)]

    def _taken_as_known(self) -> list[Caution]:
        """What is said of covariates whose distribution is not read."""
        return [Caution(KNOWN_CAUTION)] if self.design.known else []

    @property
    def labels(self) -> Mapping[str, int]:
        """Entries that are positions in arrays of parameters, with the arrays' lengths."""
        return cast(HasDensity, self.model).density.labels

    @property
    def least_group(self) -> float | None:
        """About how many records noise hides in a group; None without groups, or without noise.

        A record adds at most K to the curvature, so that the noise is so many records or more.
        """
        noise = self.design.curvature_sd(self.design.scale)
        if noise is None or not self.labels or not self.design.structure.partly.any():
            return None
        return noise(1.0)

    @property
    def trial_work(self) -> TermTotals | None:
        """A sum that workers are tried with before the charge; None where they have another."""
        if self.part is not None:
            return None
        design = self.design
        score = ClippedScore(design.model, design.prior.mean, np.eye(design.size), 1.0)
        terms = ScoreTerms(score, design.outcome)
        return TermTotals(terms, score.bound, False, SentOnce(design.model))

    # ---- the release -----------------------------------------------------------------------------
    def release(
        self,
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None = None,
        shared: SharedReference | None = None,
    ) -> Released:
        """Read the records and give all that leaves: see the module.

        `shared`: number of records and moments that were released with another summary.
        """
        released, scores = release_scores(self.design, records, noise, progress, shared)
        self._prepared = released, scores
        return released

    # ---- after the release -----------------------------------------------------------------------
    def log_likelihood(self, released: Mapping[str, np.ndarray]) -> LogLikelihood:
        """Log-likelihood up to a constant at unconstrained vectors (S, p)."""
        pooled = self.pooled(released)
        return lambda theta: pooled.log_likelihood(self.model, of_read(self.read, theta))

    def start(self, released: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The mode of all releases, and the covariance of a normal approximation there."""
        pooled = self.pooled(released)
        covariance = np.linalg.inv(pooled.precision + self.design.prior.precision)
        if isinstance(self.read, ReadCoefficients):
            return self.read.extended(pooled.center, covariance)
        return pooled.center, covariance

    def potential(self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        """The log-likelihood as a PyTensor scalar of the natural parameters, checked."""
        model = cast(HasDensity, self.model)
        start, pooled = self.start(released), self.pooled(released)
        return score_potential(pooled, model, start, parameters, self.most_gap)

    def pooled(self, released: Mapping[str, np.ndarray]) -> PooledLikelihood:
        """The constants of the likelihood, computed once for each release."""
        if self._pooled is None or not is_same_release(self._pooled[0], released):
            self._pooled = released, self._pooled_likelihood(released)
        return self._pooled[1]

    def _pooled_likelihood(self, released: Mapping[str, np.ndarray]) -> PooledLikelihood:
        large, small = (reference_of(released, name) for name in ("large", "small"))
        count = float(released["count"])
        wide = large.rows, count * large.weights
        releases = self._noisy_scores(released, large)
        center, covariance = posterior_mode(
            self.model,
            *wide,
            self.design.prior,
            releases,
            released["thetas"][-1],
            self.design.reference_error,
            FINAL_MODE_STEPS,
        )
        return pooled_likelihood(
            self.model,
            releases,
            self.curvature(released, releases, wide[1]),
            center,
            covariance,
            wide,
            (small.rows, count * small.weights),
            self.design.reference_error,
            ROUNDS,
            self._kinds(len(releases)),
            self.design.prior,
        )

    def _kinds(self, rounds: int) -> RecordKinds:
        """Weights of records in all scores."""
        return self.design.kinds.with_rounds(rounds - ROUNDS - 1)

    def _noisy_scores(
        self, released: Mapping[str, np.ndarray], large: CovariateReference
    ) -> list[NoisyScore]:
        """All released scores on the rows of their reference, prepared once for each release."""
        if self._prepared is None or not is_same_release(self._prepared[0], released):
            self._prepared = released, self.noisy_scores(released, large.rows)
        return self._prepared[1]

    def noisy_scores(self, released: Mapping[str, np.ndarray], rows: Rows) -> list[NoisyScore]:
        """All released scores, prepared on the rows of a reference."""
        return [self._noisy_score(released, k, rows) for k in range(len(released["scores"]))]

    def _noisy_score(self, released: Mapping[str, np.ndarray], k: int, rows: Rows) -> NoisyScore:
        """One released score; those behind the pilots have weights."""
        score = ClippedScore(
            self.model,
            released["thetas"][k],
            released["metrics"][k],
            float(released["bounds"][k]),
            float(np.ravel(released["weight_bound"])[k - ROUNDS]) if k >= ROUNDS else np.inf,
        )
        value, sd = released["scores"][k], float(released["sds"][k])
        return weighed(NoisyScore(score, score.at(rows), value, sd), self.design.kinds, k)

    def curvature(
        self,
        released: Mapping[str, np.ndarray],
        releases: Sequence[NoisyScore],
        weights: np.ndarray,
    ) -> Curvature:
        """H~ pulled towards H_pub, positive definite, of scores on rows with n times weights."""
        noisy, public, sd = self._noisy_curvature(released, releases, weights)
        mean = float(np.trace(public)) / len(public)
        if sd == 0.0:
            value = floor_eigenvalues(noisy, LEAST_CURVATURE * mean)
            return Curvature(value, public, 0.0, self.design.structure.pairs)
        value, weight = shrunken(noisy, public, sd, self.design.structure)
        value = floor_eigenvalues(value, LEAST_CURVATURE * mean)
        left = sd * float(np.sqrt(1.0 - weight))
        return Curvature(value, public, left, self.design.structure.pairs)

    def _noisy_curvature(
        self,
        released: Mapping[str, np.ndarray],
        releases: Sequence[NoisyScore],
        weights: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        """H~, H_pub and the noise of the last score; earlier curvatures are pooled with its own.

        Each says how the records' curvature differs from that of the reference, H_pub^-1/2 H
        H_pub^-1/2, which is carried from its own score to the last one. With known zeros, which
        that would fill, the last one stands alone.
        """
        p = self.design.size
        public = [r.mean_weight * r.clipped.moments(weights)[0] for r in releases[ROUNDS:]]
        noisy = np.reshape(released["curvature"], (-1, p, p))
        sds = np.ravel(released["curvature_sd"])
        if len(noisy) == 1 or sds[-1] == 0.0 or not self.design.structure.is_full:
            return noisy[-1], public[-1], float(sds[-1])
        return pooled_curvature(noisy, public, sds)

    def warnings(self, released: Mapping[str, np.ndarray]) -> Sequence[Caution]:
        """Reasons to distrust what was released: a noisy H, a far g, a posterior far from both."""
        found = self._taken_as_known()
        large = reference_of(released, "large")
        weights = float(released["count"]) * large.weights
        releases = self._noisy_scores(released, large)
        least, hidden = self.told(released)
        found += hidden_caution(hidden)
        if least < WARN_EIGENVALUE:
            found += [weak_curvature(least), *self._pilot_cautions(released)]
        distance = score_distance(releases[-1], weights, self.pilot_error(large, weights, releases))
        return found + score_cautions(distance)

    def pilot_error(
        self,
        large: CovariateReference,
        weights: np.ndarray,
        releases: Sequence[NoisyScore],
    ) -> np.ndarray | None:
        """How far off 0 the mean of g is where theta_t rests on pilots of a part of the records."""
        if self.design.part is None or len(releases) > ROUNDS + 1:
            return None
        *pilots, final = releases
        at = model_at_point(self.model, final.score.theta, large.rows)
        words = at, weights, self.design.prior, self.design.reference_error
        return pilot_error(pilots, final, self.design.part.share, *words)

    def told(self, released: Mapping[str, np.ndarray]) -> tuple[float, list[str]]:
        """The least eigenvalue of the noisy curvature in units of its noise, and hidden groups.

        The eigenvalue is that of what the coefficients of hidden groups leave.
        """
        large = reference_of(released, "large")
        weights = float(released["count"]) * large.weights
        releases = self._noisy_scores(released, large)
        noisy, public, sd = self._noisy_curvature(released, releases, weights)
        if sd == 0.0:
            return np.inf, []
        least, hidden = told_directions(noisy, public, sd, self.design.structure)
        return least, [coefficient_names(self.read)[k] for k in hidden]

    def _pilot_cautions(self, released: Mapping[str, np.ndarray]) -> list[Caution]:
        """A posterior far from its pilots; not for hierarchies, whose pilots read other numbers."""
        if self.read is not self.parameters:
            return []
        likelihood = self.log_likelihood(released)
        distance = distance_from_pilots(
            lambda theta: likelihood(theta) + self.parameters.log_prior(theta),
            self.start(released),
            released["thetas"][-1],
        )
        return pilot_cautions(distance)


def _noise_of_moments(scale: NoiseScale, mu: float, bound: float, size: int, share: float) -> float:
    """The noise of a sum of packed matrices with a share of mu^2."""
    return scale.sd(bound, True, mu * share**0.5, size)


def pooled_curvature(
    noisy: np.ndarray, public: Sequence[np.ndarray], sds: np.ndarray
) -> tuple[np.ndarray, np.ndarray, float]:
    """Noisy curvatures of several scores as one of the last: H~, H_pub and its noise.

    Curvatures are weighted by the inverse of their noise, in units of the last one's size.
    """
    last = public[-1]
    carried = [carried_curvature(h, own, last) for h, own in zip(noisy, public, strict=True)]
    sizes = np.array([np.trace(own) for own in public]) / np.trace(last)
    precisions = (sizes / sds) ** 2
    total = float(precisions.sum())
    return np.einsum("r,rij->ij", precisions / total, np.array(carried)), last, total**-0.5


def carried_curvature(value: np.ndarray, public: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The curvature of another score that differs as much from the public one as this one does."""
    linear = matrix_power(last, 0.5) @ matrix_power(public, -0.5)
    return linear @ value @ linear.T


def noise_precision(precision: np.ndarray, count: float) -> np.ndarray:
    """Precision of a score without the sampling error of the records, (n I)^-1 of its variance."""
    values, vectors = np.linalg.eigh((precision + precision.T) / 2.0)
    values = np.clip(values, 1e-12 * count, MOST_OF_INFORMATION * count)
    return (vectors / (1.0 / values - 1.0 / count)) @ vectors.T


def reference_of(released: Mapping[str, np.ndarray], name: str) -> CovariateReference:
    """A moved reference as it was released."""
    prefix = f"{name}:"
    rows = {key[len(prefix) :]: released[key] for key in released if key.startswith(prefix)}
    return CovariateReference(rows, released[f"{name}_weights"])
