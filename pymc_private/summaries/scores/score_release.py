r"""The release of noisy scores: moments, ten pilots, the final score and its curvature (T36).

A run reads the records in chunks, once for each stage. Between two stages there are only functions
of noisy sums and of the design, so that the whole is a sequence of noisy sums in the sense of T30:
data sets with the same noisy sums give the same release.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from pymc_private.errors import Unsupported
from pymc_private.summaries.compiled.compiler import COMPILER, SUMS
from pymc_private.summaries.compiled_agreement import expect_rows
from pymc_private.summaries.exact_totals import GivenTotals
from pymc_private.summaries.lattice import pack_symmetric
from pymc_private.summaries.noise import (
    CHUNK,
    LatticeNoise,
    NoiseScale,
    chunks_of,
    split_mu,
)
from pymc_private.summaries.protocol import Progress, Records, Released, SummaryNoise
from pymc_private.summaries.record_table import as_record_table
from pymc_private.summaries.scores.category_shares import CategoryShares
from pymc_private.summaries.scores.clipped_scores import (
    ClippedScore,
    FramedRows,
    RecordModel,
    RememberedNodes,
    Rows,
    clip_rows,
    score_rows,
)
from pymc_private.summaries.scores.marginal_moments import MarginalMoments, moment_rounds
from pymc_private.summaries.scores.pilot import (
    REFERENCE_ERROR,
    NoisyScore,
    NormalPrior,
    PilotPath,
    posterior_mode,
)
from pymc_private.summaries.scores.pilot_part import PilotPart, RecordKinds
from pymc_private.summaries.scores.reference import GIVEN, CovariateReference
from pymc_private.summaries.scores.score_bounds import NoiseSd, joint_bounds, pilot_bound
from pymc_private.summaries.scores.score_budget import ROUNDS, ScoreBudget
from pymc_private.summaries.scores.score_terms import (
    CurvatureFactors,
    LevelCodes,
    MomentTerms,
    RoundTotals,
    ScoreTerms,
    WeightedTerms,
    compiled_total,
    parted,
)
from pymc_private.summaries.scores.structure import Structure, read_structure
from pymc_private.summaries.term_totals import (
    CountTotals,
    MatrixTotals,
    SentOnce,
    TermTotals,
    ones,
)
from pymc_private.summaries.weighted_sums import (
    WEIGHT_ONE,
    BoundedSum,
    WeightedSums,
)

LARGE_CHUNK, LARGEST_CHUNK = 2048, 16_384
"""Rows in a chunk of a large table: calls of NumPy take as long as their work on fewer."""
LEAST_CHUNK, MOST_ENTRIES = 256, 20_000_000
"""Derivatives of the rows of a chunk have at most so many entries, and chunks no fewer rows."""
FEW_OUTCOMES = 6
"""The largest chunks are of outcomes with so many values at most: what a row needs stays small."""
MANY_OUTCOMES = 128
"""Chunks are small where a row has more nodes, as answers of persons have."""
STRUCTURE_STEPS = (0.1, -0.7)
"""Where it is seen which parameters a record reads, in prior standard deviations from the mean."""


class MomentsStage(Protocol):
    """The moments of a model's covariates (`reference.CovariateMoments`)."""

    bound: float

    def terms(self, rows: Rows) -> np.ndarray:
        """What each record adds, packed, of norm at most `bound`."""

    def moved(
        self, reference: CovariateReference, noisy: np.ndarray, sd: float, n: float
    ) -> CovariateReference:
        """A reference with the moments of the noisy sum."""

    def refined(self, moved: CovariateReference) -> MomentsStage:
        """The same stage around a moved reference."""


class BoundedNoise(Protocol):
    """What tells the standard deviation of the noise of a sum."""

    def sd(self, bound: float, positive: bool, mu: float, k: int) -> float:
        """As of `protocol.SummaryNoise`."""

    def term_sd(self, one: Any, k: int) -> float:
        """As of `protocol.SummaryNoise`."""


@dataclass(frozen=True, eq=False)
class ScoreDesign:
    """All that is fixed before the data are read.

    Attributes
    ----------
    model : RecordModel
        Density of one record, with nodes of its outcome.
    prior : NormalPrior
    large, small : Reference
        Public covariates: of the pilots and bounds, and of the likelihood.
    budget : ScoreBudget
    outcome : str
        Name of the outcome among the records; all others are covariates.
    moments : MomentsStage, MarginalMoments or None
        None where no private covariate has moments to release.
    public_rows : mapping of str to array
        Public arrays with one row for each record.
    scale : NoiseScale
        Relation and unit.
    part : PilotPart or None
        The records that pilots read; None: all of them, as the final score does.
    given : mapping of str to array
        The public sample of which the references were made, if there is one.
    known : bool
        Whether that sample is taken for the distribution of the private covariates.
    """

    model: RecordModel
    prior: NormalPrior
    large: CovariateReference
    small: CovariateReference
    budget: ScoreBudget
    outcome: str
    moments: MomentsStage | MarginalMoments | None = None
    public_rows: Rows = field(default_factory=dict)
    scale: NoiseScale = field(default_factory=NoiseScale)
    part: PilotPart | None = None
    given: Rows = field(default_factory=dict)
    known: bool = False

    @property
    def kinds(self) -> RecordKinds:
        """Weights of records in the pilots and the final score."""
        return self.part.kinds(ROUNDS) if self.part is not None else RecordKinds.alike(ROUNDS + 1)

    @property
    def size(self) -> int:
        """p, the number of parameters."""
        return len(self.prior.mean)

    @cached_property
    def structure(self) -> Structure:
        """Which parameters records read together."""
        points = [self.prior.mean + step * self.prior.sd for step in STRUCTURE_STEPS]
        return read_structure([self.model.jacobian(at, self.large.rows) for at in points])

    @cached_property
    def large_chunk(self) -> int:
        """Rows in a chunk of a large table."""
        rows = self.large.rows
        predictors = self.model.predictors(self.prior.mean, rows)
        outcomes = self.model.nodes(predictors, rows).mass.shape[1]
        if outcomes > MANY_OUTCOMES:
            return CHUNK
        large = LARGEST_CHUNK if outcomes <= FEW_OUTCOMES else LARGE_CHUNK
        entries = predictors.shape[1] * len(self.prior.mean)
        return min(large, max(LEAST_CHUNK, MOST_ENTRIES // entries))

    @property
    def reference_error(self) -> float:
        """Relative error of the reference that pilots admit: 0 without covariates."""
        has_rows = self.moments is not None or len(self.large.weights) > 1
        return REFERENCE_ERROR if has_rows else 0.0

    @property
    def stages(self) -> tuple[str, ...]:
        """What the release does, in order."""
        optional = {
            "number of records": self.budget.count,
            "moments of the covariates": self.budget.moments,
            "curvature": self.budget.curvature,
        }
        pilots = [f"pilot round {k + 1} of {ROUNDS}" for k in range(ROUNDS)]
        final = ["score", "curvature"] if self.part is None else ["score and curvature"]
        names = ["number of records", "moments of the covariates", *pilots, *final]
        return tuple(name for name in names if optional.get(name, 0.0) is not None)

    def totals_of(self, score: ClippedScore) -> RoundTotals:
        """What records add to a score and its curvature."""
        return RoundTotals(score, self.outcome, self.budget.curvature is not None)

    def score_sd(self, noise: BoundedNoise, mu: float) -> NoiseSd:
        """Noise of a sum of scores as a function of its bound."""
        return lambda bound: noise.sd(bound, False, mu, self.size)

    def least_sd(self, noise: BoundedNoise, of_pilots: bool = False) -> NoiseSd:
        """The same of pilots and final score together, were they at one bound.

        Pilots of a part of the records are by themselves, and so is the final score then.
        """
        pilots, score = self.budget.pilots, (self.budget.score,)
        together = (*pilots, *score) if self.part is None else pilots if of_pilots else score
        each = np.array(together)
        return self.score_sd(noise, float(np.sqrt((each**2).sum())))

    def curvature_sd(self, noise: BoundedNoise) -> NoiseSd | None:
        """Noise of the curvature as a function of its bound; None if it is public."""
        mu = self.budget.curvature
        if mu is None:
            return None
        return lambda bound: noise.term_sd(BoundedSum(bound, True, mu), self.size**2)


@dataclass(frozen=True, eq=False)
class SharedReference:
    """Number of records and moved references that another release of the same records gave.

    Attributes
    ----------
    count : float
    large, small : CovariateReference
    moments : dict of str to array
        ``moments`` and ``moments_sd``.
    """

    count: float
    large: CovariateReference
    small: CovariateReference
    moments: Released


def release_scores(
    design: ScoreDesign,
    records: Records,
    noise: SummaryNoise,
    progress: Progress | None = None,
    shared: SharedReference | None = None,
) -> tuple[Released, list[NoisyScore]]:
    """All stages in order: noisy sums, and the public numbers between them.

    With `shared` the number of records and the moments are not released again.

    Returns
    -------
    dict
        ``count``; ``thetas``, ``metrics``, ``bounds``, ``sds`` and ``scores`` of the pilots and,
        last, of the final score; ``weight_bound``, ``curvature`` and ``curvature_sd`` of the final
        curvature, ``quantiles`` of both bounds; the moved references, ``large:name``,
        ``large_weights`` and the same of ``small``; ``moments`` and ``moments_sd``.
    list of NoisyScore
        The same scores, prepared on the moved reference: functions of the first result.
    """
    run = _Run(design, records, noise, progress)
    return run.run(shared), run.scores


def release_round(
    design: ScoreDesign,
    score: ClippedScore,
    reference: CovariateReference,
    count: float,
    records: Records,
    noise: SummaryNoise,
    progress: Progress | None = None,
) -> Released:
    """One more score with its curvature, of the budget of the design.

    `score`, the moved `reference` and the `count` of records are functions of earlier releases, so
    that this is one more step of the sequence of noisy sums of T30.

    Returns
    -------
    dict
        ``thetas``, ``metrics``, ``bounds``, ``sds``, ``scores``, ``weight_bound``, ``curvature``
        and ``curvature_sd`` as of `release_scores`, of this score alone.
    """
    run = _Run(design, records, noise, progress)
    run.count, run.large, run.weights = count, reference, count * reference.weights
    if isinstance(noise, LatticeNoise):  # both sums are known before: one reading, also by workers
        totals = run.table.sum_up(design.totals_of(score), run.size)
        run.noise = GivenTotals(noise, totals)
    frame = score_rows(design.model, score.theta, reference.rows).framed(score.metric)
    curvature, sd = run.curvature(run.noisy_score(score, design.budget.score, frame))
    found = {name: np.array(values) for name, values in run.released.items()}
    return found | {
        "weight_bound": np.array(min(score.weight_bound, np.finfo(float).max)),
        "curvature": curvature,
        "curvature_sd": np.array(sd),
    }


def weighed(score: NoisyScore, kinds: RecordKinds, k: int) -> NoisyScore:
    """A score with the weights of records in round k; in rounds that were added all count 1."""
    if k >= len(kinds.means):
        return score
    return replace(
        score, mean_weight=float(kinds.means[k]), square_weight=float(kinds.products[k, k])
    )


class _Run:
    """One run through the stages."""

    def __init__(
        self,
        design: ScoreDesign,
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None,
    ) -> None:
        self.design, self.progress = design, progress
        self.noise: Any = noise
        self.table = as_record_table(records).beside(design.public_rows)
        self.n = len(self.table)
        expect_rows(self.n)
        self.size = self.table.chunk_size(design.scale.relation, design.large_chunk)
        self.pilots = self.table
        if design.part is not None:
            self.pilots = self.table.pilots(design.part.threshold)
            self.noise = noise.of_parts()
            self.size = design.large_chunk
        self.finished = 0
        self.common = SentOnce(design.model)
        self.scores: list[NoisyScore] = []
        self.reference_model = RememberedNodes(design.model)
        self.released: dict[str, list[Any]] = {
            name: [] for name in ("thetas", "metrics", "bounds", "sds", "scores")
        }

    def run(self, shared: SharedReference | None = None) -> Released:
        """All stages in order."""
        self._refuse_shared_part(shared)
        if shared is None:
            self.count = self._count()
            large, small, fixed = self._references()
        else:
            self.count, large, small = shared.count, shared.large, shared.small
            fixed = dict(shared.moments)
        self.large, self.weights = large, self.count * large.weights
        mode, covariance = self._pilots()
        fixed |= self._final(mode, covariance)
        fixed |= {"count": np.array(self.count)}
        fixed |= {GIVEN + name: rows for name, rows in self.design.given.items()}
        for name, reference in (("large", large), ("small", small)):
            fixed |= {f"{name}:{key}": np.asarray(v) for key, v in reference.rows.items()}
            fixed[f"{name}_weights"] = reference.weights
        return fixed | {name: np.array(values) for name, values in self.released.items()}

    def _refuse_shared_part(self, shared: SharedReference | None) -> None:
        if shared is not None and self.design.part is not None:
            raise Unsupported(
                "a summary whose first stage reads a part of the records is not released together "
                "with others",
                do="summarize its plan by itself",
            )

    def _chunks(self) -> Iterator[tuple[Rows, np.ndarray, int]]:
        """Rows, outcomes and number of true rows of each chunk that pilots read."""
        for chunk, count in self.pilots.chunks(self.size):
            yield *parted(chunk, self.design.outcome), count

    def _sum(self, terms: TermTotals, mu: float) -> np.ndarray:
        """The noisy sum of the terms of the records that pilots read."""
        return terms.noisy(self.pilots, self.noise, self.size, mu)

    def _done(self) -> None:
        self.finished += 1
        if self.progress is not None:
            self.progress(self.finished)

    def _count(self) -> float:
        mu = self.design.budget.count
        if mu is None:
            return float(self.n)
        noisy = float(self._sum(TermTotals(ones, 1.0, True), mu)[0])
        self._done()
        return max(noisy, 1.0) / self._pilot_share

    @property
    def _pilot_share(self) -> float:
        """The mean weight of a record in the pilots."""
        return 1.0 if self.design.part is None else self.design.part.share

    def _references(self) -> tuple[CovariateReference, CovariateReference, dict[str, np.ndarray]]:
        """Both references moved by noisy moments of the covariates."""
        design = self.design
        moments, mu = design.moments, design.budget.moments
        if moments is None or mu is None:
            return design.large, design.small, {}
        large, small = design.large, design.small
        shares, stages = zip(*moment_rounds(moments), strict=True)
        count = self.count * self._pilot_share
        for stage_at, part in zip(stages, split_mu(mu, shares), strict=True):
            stage = stage_at(large)
            read = self._noisy_levels if isinstance(stage, CategoryShares) else self._noisy_moments
            noisy, sd = read(stage, part)
            large, small = (stage.moved(r, noisy, sd, count) for r in (large, small))
        self._done()
        return large, small, {"moments": noisy, "moments_sd": np.array(sd)}

    def _noisy_moments(self, stage: MomentsStage, mu: float) -> tuple[np.ndarray, float]:
        """Packed moments and the standard deviation of their noise; of many rows by factors."""
        factors = getattr(stage, "factors", None)  # moments of persons have none
        if self.design.part is None or factors is None:
            terms = MomentTerms(stage, self.design.outcome)
            noisy = self._sum(TermTotals(terms, stage.bound, True, self.common), mu)
            return noisy, self.noise.sd(stage.bound, True, mu, len(noisy))
        one = BoundedSum(stage.bound, True, mu)
        chunks = (
            (np.zeros(count, dtype=bool), [factors(rows)[:count]])
            for rows, _, count in self._chunks()
        )
        (matrix,) = self.noise.totals(chunks, [one], WEIGHT_ONE)
        return pack_symmetric(matrix), self.noise.term_sd(one, len(matrix))

    def _noisy_levels(self, stage: CategoryShares, mu: float) -> tuple[np.ndarray, float]:
        """Noisy numbers of records in the levels of all entries, and their standard deviation."""
        each = split_mu(mu, stage.parts)
        codes = LevelCodes(stage.blocks, self.design.outcome)
        totals = CountTotals(codes, [len(block.levels) for block in stage.blocks], self.common)
        found = totals.noisy(self.pilots, self.noise, self.size, each)
        return np.concatenate(found), max(map(self.noise.counts_sd, each))

    def _pilots(self) -> tuple[np.ndarray, np.ndarray]:
        """The mode of all pilots and the covariance there."""
        design, prior, large = self.design, self.design.prior, self.large
        theta, mode = prior.mean, prior.mean
        covariance = prior.covariance
        path = PilotPath(mode, np.zeros_like(mode))
        for k, mu in enumerate(design.budget.pilots):
            scored = score_rows(self.reference_model, theta, large.rows)
            metric, _ = scored.metric(large.weights, design.structure)
            frame = scored.framed(metric)
            sd = design.score_sd(self.noise, mu)
            white = metric @ prior.precision @ metric.T
            least_sd = design.least_sd(self.noise, of_pilots=True)
            weights = self.weights * self._pilot_share
            choice = pilot_bound(frame, weights, white, sd, least_sd)
            score = self._in_few_steps(ClippedScore(design.model, theta, metric, choice.bound))
            self.noisy_score(score, mu, frame)
            mode, covariance = posterior_mode(
                self.reference_model,
                large.rows,
                self.weights,
                prior,
                self.scores,
                mode,
                design.reference_error,
            )
            theta = path.next(mode, covariance, prior.sd, last=k >= ROUNDS - 2)
        return mode, covariance

    def _in_few_steps(self, score: ClippedScore) -> ClippedScore:
        """Of tables of many rows the form that costs least, if the score has it."""
        return score if self.design.part is None else score.in_few_steps()

    def noisy_score(self, score: ClippedScore, mu: float, frame: FramedRows) -> NoisyScore:
        """The noisy sum of a score, and the reference prepared for it."""
        loops = COMPILER.of_kind(SUMS) if score.two_valued is not None else None
        if loops is not None and isinstance(self.noise, LatticeNoise):
            total = compiled_total(loops, score, self._chunks())
            value = self.noise.noisy_total(total, score.bound, False, mu)
        else:
            terms = ScoreTerms(score, self.design.outcome)
            value = self._sum(TermTotals(terms, score.bound, False, self.common), mu)
        self._done()
        return self._noted(score, value, mu, frame)

    def _noted(
        self, score: ClippedScore, value: np.ndarray, mu: float, frame: FramedRows
    ) -> NoisyScore:
        """Keep a noisy sum among what is released, with the reference prepared for it."""
        sd = self.noise.sd(score.bound, False, mu, len(value))
        for name, released in (
            ("thetas", score.theta),
            ("metrics", score.metric),
            ("bounds", score.bound),
            ("sds", sd),
            ("scores", value),
        ):
            self.released[name].append(released)
        clipped = clip_rows(frame, score.bound, score.weight_bound)
        found = NoisyScore(score, clipped, value, sd)
        self.scores.append(weighed(found, self.design.kinds, len(self.scores)))
        return self.scores[-1]

    def _final(self, mode: np.ndarray, covariance: np.ndarray) -> dict[str, np.ndarray]:
        """g and H~ at the last mode."""
        design, large = self.design, self.large
        budget, prior = design.budget, design.prior
        scored = score_rows(self.reference_model, mode, large.rows)
        metric, root = scored.metric(large.weights, design.structure)
        frame = scored.framed(metric)
        choice = joint_bounds(
            frame,
            self.weights * design.kinds.means[-1],
            metric @ prior.precision @ metric.T,
            root.T @ covariance @ root,
            design.score_sd(self.noise, budget.score),
            design.curvature_sd(self.noise),
            design.least_sd(self.noise),
        )
        limits = choice.bound, choice.weight_bound
        score = self._in_few_steps(ClippedScore(design.model, mode, metric, *limits))
        if design.part is None:
            curvature, sd = self.curvature(self.noisy_score(score, budget.score, frame))
        else:
            curvature, sd = self._weighted_score(design.part, score, frame)
        return {
            "weight_bound": np.array(min(choice.weight_bound, np.finfo(float).max)),
            "curvature": curvature,
            "curvature_sd": np.array(sd),
            "quantiles": np.array([choice.quantile, choice.weight_quantile]),
        }

    def _weighted_score(
        self, part: PilotPart, score: ClippedScore, frame: FramedRows
    ) -> tuple[np.ndarray, float]:
        """The weighted score and curvature of all records, in one reading: H~ and its noise."""
        budget = self.design.budget
        sums = [BoundedSum(score.bound, False, budget.score)]
        if budget.curvature is not None:
            sums.append(BoundedSum(score.weight_bound, True, budget.curvature))
        work = WeightedTerms(score, self.design.outcome, len(sums) > 1, self.n)
        if isinstance(self.noise, LatticeNoise):
            found = WeightedSums(sums, part.weight)
            found = self.table.add_up(work, found, self.size, part.threshold)
            value, *matrices = self.noise.noisy(found)
        else:
            chunks = self.table.with_coins(self.size, part.threshold)
            value, *matrices = self.noise.totals(map(work, chunks), sums, part.weight)
        self._done()
        final = self._noted(score, value, budget.score, frame)
        if not matrices and self.design.known:
            return self._public_curvature(final) * final.mean_weight, 0.0
        if not matrices:
            return final.clipped.moments(self.weights * final.mean_weight)[0], 0.0
        return matrices[0], self.noise.term_sd(sums[1], len(matrices[0]))

    def curvature(self, final: NoisyScore) -> tuple[np.ndarray, float]:
        """H~ and its noise; without private covariates H itself, which is public."""
        score, mu = final.score, self.design.budget.curvature
        if mu is None:
            return self._public_curvature(final), 0.0
        factors = CurvatureFactors(score, self.design.outcome)
        totals = MatrixTotals(factors, score.weight_bound, self.common)
        found = totals.noisy(self.pilots, self.noise, self.size, mu)
        self._done()
        return found

    def _public_curvature(self, final: NoisyScore) -> np.ndarray:
        """H where nothing of it is private.

        Over all public rows; of known covariates n times the mean over their sample; without either
        n times that of the one row.
        """
        design = self.design
        if design.known:
            length = len(next(iter(design.given.values())))
            return self._curvature_of(final, design.given, length) * (self.count / length)
        if not design.public_rows:
            return final.clipped.moments(self.weights)[0]
        return self._curvature_of(final, design.public_rows, self.n)

    def _curvature_of(self, final: NoisyScore, rows: Rows, length: int) -> np.ndarray:
        """The sum over rows of the curvature of one record, in chunks."""
        parts = [
            final.score.at(chunk).moments(1.0 * (np.arange(self.size) < count))[0]
            for chunk, count in chunks_of(rows, length, self.size)
        ]
        return np.asarray(np.sum(parts, axis=0))
