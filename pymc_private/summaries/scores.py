r"""Noisy scores: a summary of any model with one scalar outcome in a record (T36).

Stages, each a noisy sum of terms of single records whose bound is fixed beforehand or chosen from
earlier noisy sums:

1. under add/remove, the number of records;
2. moments of the covariates, by which the public reference is moved towards the data;
3. ten rounds of scores at the mode of what was released before (`pilot.py`);
4. the final score g at the last mode, clipped at C, rows weighted by K (`score_bounds.py`);
5. its curvature H.

Shares of mu^2: 0.08, 0.34, 0.42 and 0.16, and 0.02 before all for the number of records. Without
private covariates stages 2 and 5 fall away: H is a function of public numbers. The released arrays
are all that the likelihood (`score_likelihood.py`) reads besides the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np

from pymc_private.privacy import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.summaries.clipped_scores import (
    ClippedScore,
    FramedRows,
    RecordLaw,
    Rows,
    clip_rows,
    score_rows,
)
from pymc_private.summaries.lattice import unpack_symmetric
from pymc_private.summaries.noise import NoiseScale, chunk_size, chunks_of, split_mu
from pymc_private.summaries.pilot import (
    LAW_ERROR,
    NoisyScore,
    NormalPrior,
    PilotPath,
    posterior_mode,
)
from pymc_private.summaries.protocol import (
    Caution,
    LogLikelihood,
    Progress,
    Records,
    Released,
    SummaryNoise,
)
from pymc_private.summaries.reference import Reference
from pymc_private.summaries.score_bounds import joint_bounds, pilot_bound
from pymc_private.summaries.score_likelihood import Curvature, PooledLikelihood, pooled_likelihood
from pymc_private.summaries.score_model import HasDensity, score_potential
from pymc_private.summaries.symmetric import floor_eigenvalues, shrink

ROUNDS = 10
"""Rounds of pilot scores."""
COUNT_SHARE, MOMENTS_SHARE, PILOT_SHARE, SCORE_SHARE, CURVATURE_SHARE = 0.02, 0.08, 0.34, 0.42, 0.16
"""Shares of mu^2; the first is taken from all others."""
FINAL_MODE_STEPS = 8
"""Gauss-Newton steps to the mode of all releases."""
MOST_SHRINKAGE, PUBLIC_ERROR = 0.6, 0.15
"""H~ is pulled towards its public shape by at most the larger of the first and of what a relative
error of the second in H_pub would justify."""
LEAST_CURVATURE = 0.05
"""Eigenvalues of H are at least this share of the mean eigenvalue of H_pub."""
INFORMATION_DRAWS, INFORMATION_SEED = 12, 20260103
"""Prior draws over which the expected information is averaged."""
WARN_EIGENVALUE, REFUSE_EIGENVALUE = 4.0, 1.0
"""Least eigenvalue of H~ in units of tau."""
WARN_DISTANCE, REFUSE_DISTANCE = 10.0, 25.0
"""Squared length of g at theta_t, per parameter, in units of its covariance."""
PARAMETERS_PER_RECORD, SCARCE_MU = 15.0 / 1e4, 0.24
"""More parameters than this at mu up to about that of (1, 1e-6) deserve a warning."""


class Moments(Protocol):
    """The moments stage of a model's covariates (`reference.CovariateMoments`)."""

    bound: float

    def terms(self, rows: Rows) -> np.ndarray:
        """What each record adds, packed, of norm at most `bound`."""

    def moved(self, reference: Reference, noisy: np.ndarray, sd: float, n: float) -> Reference:
        """A reference with the moments of the noisy sum."""


@dataclass(frozen=True)
class ScoreBudget:
    """The mu of each stage; None for a stage that a model does not need."""

    pilots: tuple[float, ...]
    score: float
    count: float | None = None
    moments: float | None = None
    curvature: float | None = None


def score_budget(mu: float, counts_records: bool, covariates: bool) -> ScoreBudget:
    """Split mu among the stages: the exact sum of their squares is at most mu^2 (T30)."""
    rest = 1.0 - COUNT_SHARE if counts_records else 1.0
    shares = {("pilot", k): rest * PILOT_SHARE / ROUNDS for k in range(ROUNDS)}
    shares |= {("score", 0): rest * SCORE_SHARE}
    if covariates:
        shares |= {("moments", 0): rest * MOMENTS_SHARE, ("curvature", 0): rest * CURVATURE_SHARE}
    if counts_records:
        shares |= {("count", 0): COUNT_SHARE * sum(shares.values()) / rest}
    parts = dict(zip(shares, split_mu(mu, tuple(shares.values())), strict=True))
    return ScoreBudget(
        pilots=tuple(parts["pilot", k] for k in range(ROUNDS)),
        score=parts["score", 0],
        count=parts.get(("count", 0)),
        moments=parts.get(("moments", 0)),
        curvature=parts.get(("curvature", 0)),
    )


class ScoreMechanism:
    """Noisy scores of a model, fixed before the data are read (see `protocol.Mechanism`).

    Parameters
    ----------
    law : RecordLaw
        Density of one record, with nodes of its outcome.
    large, small : Reference
        Public covariates: of the pilots and bounds, and of the likelihood.
    mu : float
        Gaussian privacy of all stages together.
    count : float
        Number of records; under add/remove a public guess, for the expected information.
    outcome : str
        Name of the outcome among the records; all others are covariates.
    moments : Moments or None
        None without private covariates.
    public_rows : mapping of str to array
        Public arrays with one row for each record.
    relation : str
    records_per_unit : int
    """

    method = "scores"

    def __init__(
        self,
        law: RecordLaw,
        large: Reference,
        small: Reference,
        mu: float,
        count: float,
        *,
        outcome: str = "y",
        moments: Moments | None = None,
        public_rows: Rows | None = None,
        relation: str = SUBSTITUTE,
        records_per_unit: int = 1,
    ) -> None:
        self.law, self.large, self.small = law, large, small
        self.mu, self.count, self.outcome = mu, float(count), outcome
        self.moments, self.public_rows = moments, dict(public_rows or {})
        self.scale = NoiseScale(relation, records_per_unit)
        self.parameters = law.parameters
        self.prior = NormalPrior(law.parameters.mean, law.parameters.covariance)
        self.budget = score_budget(mu, relation == ADD_REMOVE, moments is not None)
        self._pooled: tuple[Mapping[str, np.ndarray], PooledLikelihood] | None = None

    @property
    def guarantee(self) -> Guarantee:
        """mu-GDP of all stages together, for units of up to `records_per_unit` records."""
        return Guarantee.gdp_of(
            self.mu,
            neighbors=self.scale.relation,
            theorem="T30 (noisy sums), T31 (sensitivities), T36 (clipped scores)",
        )

    @property
    def law_error(self) -> float:
        """Relative error of the law of covariates that pilots admit: 0 where there are none."""
        rows = len(self.large.weights)
        return LAW_ERROR if self.moments is not None or rows > 1 else 0.0

    @property
    def stages(self) -> tuple[str, ...]:
        """What the release does, in order."""
        optional = {
            "number of records": self.budget.count,
            "moments of the covariates": self.budget.moments,
            "curvature": self.budget.curvature,
        }
        pilots = [f"pilot round {k + 1} of {ROUNDS}" for k in range(ROUNDS)]
        names = ["number of records", "moments of the covariates", *pilots, "score", "curvature"]
        return tuple(name for name in names if optional.get(name, 0.0) is not None)

    @property
    def facts(self) -> dict[str, Any]:
        """Public facts in plain JSON types."""
        return {
            "method": self.method,
            "mu": self.mu,
            "parameters": int(self.parameters.size),
            "rounds": ROUNDS,
            "shares": {
                "number of records": COUNT_SHARE if self.budget.count else 0.0,
                "moments": MOMENTS_SHARE if self.moments is not None else 0.0,
                "pilots": PILOT_SHARE,
                "score": SCORE_SHARE,
                "curvature": CURVATURE_SHARE if self.moments is not None else 0.0,
            },
            "reference rows": [len(self.large.weights), len(self.small.weights)],
            "neighbors": self.scale.relation,
            "records_per_unit": self.scale.records_per_unit,
        }

    # ---- before the data are read ----------------------------------------------------------------
    @cached_property
    def information(self) -> float:
        """Expected information gain (nats) about all parameters, averaged over the prior."""
        draws = self.parameters.draws(INFORMATION_DRAWS, INFORMATION_SEED)
        return float(np.mean([self._information_at(theta) for theta in draws]))

    def _information_at(self, theta: np.ndarray) -> float:
        """1/2 log det(I + S0 F), F the precision of pilots and final score taken at theta."""
        rows, weights = self.large.rows, self.count * self.large.weights
        scored = score_rows(self.law, theta, rows)
        metric, _ = scored.metric(self.large.weights)
        frame = scored.framed(metric)
        prior, p = metric @ self.prior.precision @ metric, len(theta)
        sd = self._sd_of(self.scale, self.budget.pilots[0])
        pilot = pilot_bound(frame, weights, prior, sd)
        total = prior + ROUNDS * pilot.precision
        final = joint_bounds(
            frame,
            weights,
            total,
            np.linalg.inv(total),
            self._sd_of(self.scale, self.budget.score),
            self._curvature_sd_of(self.scale),
        )
        return 0.5 * float(final.log_det - np.linalg.slogdet(prior)[1]) if p else 0.0

    def cautions(self) -> list[Caution]:
        """Reasons for doubt that are known before the charge."""
        p, most = self.parameters.size, PARAMETERS_PER_RECORD * self.count
        if self.mu > SCARCE_MU or p <= most:
            return []
        return [
            Caution(
                f"{p} parameters for {self.count:.0f} records at this budget: noise may hide most "
                f"of what the data say (about {max(most, 1):.0f} parameters would be safe)"
            )
        ]

    def _sd_of(self, noise: Any, mu: float) -> Callable[[float], float]:
        p = int(self.parameters.size)
        return lambda bound: noise.sd(bound, False, mu, p)

    def _curvature_sd_of(self, noise: Any) -> Callable[[float], float] | None:
        mu, p = self.budget.curvature, int(self.parameters.size)
        if mu is None:
            return None
        return lambda bound: noise.sd(bound, True, mu, p * (p + 1) // 2)

    # ---- the release -----------------------------------------------------------------------------
    def release(
        self, records: Records, noise: SummaryNoise, progress: Progress | None = None
    ) -> Released:
        """Read the records and give all that leaves: see the module."""
        return _ScoreRelease(self, records, noise, progress).run()

    # ---- after the release -----------------------------------------------------------------------
    def log_likelihood(self, released: Mapping[str, np.ndarray]) -> LogLikelihood:
        """Log-likelihood up to a constant at unconstrained vectors (S, p)."""
        pooled = self.pooled(released)
        return lambda theta: pooled.log_likelihood(self.law, theta)

    def start(self, released: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The mode of all releases, and the covariance of a normal approximation there."""
        pooled = self.pooled(released)
        return pooled.center, np.linalg.inv(pooled.precision + self.prior.precision)

    def potential(self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        """The log-likelihood as a PyTensor scalar of the natural parameters, checked."""
        law = cast(HasDensity, self.law)
        return score_potential(self.pooled(released), law, self.start(released), parameters)

    def pooled(self, released: Mapping[str, np.ndarray]) -> PooledLikelihood:
        """The constants of the likelihood, computed once for each release."""
        if self._pooled is None or self._pooled[0] is not released:
            self._pooled = released, self._pooled_likelihood(released)
        return self._pooled[1]

    def _pooled_likelihood(self, released: Mapping[str, np.ndarray]) -> PooledLikelihood:
        large, small = (reference_of(released, name) for name in ("large", "small"))
        count = float(released["count"])
        wide = large.rows, count * large.weights
        releases = self._noisy_scores(released, large.rows)
        center, covariance = posterior_mode(
            self.law,
            *wide,
            self.prior,
            releases,
            released["thetas"][-1],
            self.law_error,
            FINAL_MODE_STEPS,
        )
        return pooled_likelihood(
            self.law,
            releases,
            self._curvature(released, releases[-1], wide[1]),
            center,
            covariance,
            wide,
            (small.rows, count * small.weights),
            self.law_error,
        )

    def _noisy_scores(self, released: Mapping[str, np.ndarray], rows: Rows) -> list[NoisyScore]:
        """All released scores, prepared on the rows of a reference."""
        found = []
        bounds = [np.inf] * ROUNDS + [float(released["weight_bound"])]
        for k, weight_bound in enumerate(bounds):
            score = ClippedScore(
                self.law,
                released["thetas"][k],
                released["metrics"][k],
                float(released["bounds"][k]),
                weight_bound,
            )
            value, sd = released["scores"][k], float(released["sds"][k])
            found.append(NoisyScore(score, score.at(rows), value, sd))
        return found

    def _curvature(
        self, released: Mapping[str, np.ndarray], final: NoisyScore, weights: np.ndarray
    ) -> Curvature:
        """H~ pulled towards H_pub, positive definite."""
        public, _ = final.clipped.moments(weights)
        sd = float(released["curvature_sd"])
        mean = float(np.trace(public)) / len(public)
        if sd == 0.0:
            least = LEAST_CURVATURE * mean
            return Curvature(floor_eigenvalues(released["curvature"], least), public, 0.0)
        most = max(MOST_SHRINKAGE, sd**2 / (sd**2 + (PUBLIC_ERROR * mean) ** 2))
        value, weight = shrink(released["curvature"], public, sd, most)
        value = floor_eigenvalues(value, LEAST_CURVATURE * mean)
        return Curvature(value, public, sd * float(np.sqrt(1.0 - weight)))

    def warnings(self, released: Mapping[str, np.ndarray]) -> Sequence[Caution]:
        """Reasons to distrust what was released: a noisy H, a far g."""
        found = self.cautions()
        sd = float(released["curvature_sd"])
        if sd > 0.0:
            least = float(np.linalg.eigvalsh(released["curvature"])[0]) / sd
            if least < WARN_EIGENVALUE:
                found.append(_weak_curvature(least))
        distance = self._distance(released)
        if distance > WARN_DISTANCE:
            found.append(_far_score(distance))
        return found

    def _distance(self, released: Mapping[str, np.ndarray]) -> float:
        """g' (J + s^2 I)^-1 g / p at theta_t."""
        large = reference_of(released, "large")
        final = self._noisy_scores(released, large.rows)[-1]
        _, second = final.clipped.moments(float(released["count"]) * large.weights)
        noise = final.sd**2 * np.eye(len(second))
        return float(final.value @ np.linalg.solve(second + noise, final.value)) / len(second)


def _weak_curvature(least: float) -> Caution:
    return Caution(
        f"the noisy curvature has an eigenvalue of {least:.2g} noise standard deviations "
        f"({WARN_EIGENVALUE:g} or more is well determined): some direction of the parameters is "
        "hardly measured. More records, a larger epsilon or fewer parameters help",
        refuse=least < REFUSE_EIGENVALUE,
    )


def _far_score(distance: float) -> Caution:
    return Caution(
        f"the final score lies {distance:.3g} squared standard deviations per parameter from 0 "
        f"(up to {WARN_DISTANCE:g} is usual): pilots stopped far from the posterior mode, or the "
        "model does not fit the data",
        refuse=distance > REFUSE_DISTANCE,
    )


def reference_of(released: Mapping[str, np.ndarray], name: str) -> Reference:
    """A moved reference as it was released."""
    prefix = f"{name}:"
    rows = {key[len(prefix) :]: released[key] for key in released if key.startswith(prefix)}
    return Reference(rows, released[f"{name}_weights"])


class _ScoreRelease:
    """One run through the stages."""

    def __init__(
        self,
        mechanism: ScoreMechanism,
        records: Records,
        noise: SummaryNoise,
        progress: Progress | None,
    ) -> None:
        self.mechanism, self.noise, self.progress = mechanism, noise, progress
        self.n = len(records[mechanism.outcome])
        self.records = {**records, **mechanism.public_rows}
        self.size = chunk_size(self.n, mechanism.scale.relation)
        self.finished = 0
        self.released: dict[str, list[Any]] = {
            name: [] for name in ("thetas", "metrics", "bounds", "sds", "scores")
        }

    def run(self) -> Released:
        """All stages in order."""
        self.count = self._count()
        large, small, fixed = self._references()
        self.large, self.weights = large, self.count * large.weights
        mode, covariance = self._pilots()
        fixed |= self._final(mode, covariance)
        fixed |= {"count": np.array(self.count)}
        for name, reference in (("large", large), ("small", small)):
            fixed |= {f"{name}:{key}": np.asarray(v) for key, v in reference.rows.items()}
            fixed[f"{name}_weights"] = reference.weights
        return fixed | {name: np.array(values) for name, values in self.released.items()}

    def _chunks(self) -> Iterator[tuple[Rows, np.ndarray, int]]:
        """Rows, outcomes and number of true rows of each chunk."""
        for chunk, count in chunks_of(self.records, self.n, self.size):
            y = np.asarray(chunk[self.mechanism.outcome], dtype=float)
            rest = {name: v for name, v in chunk.items() if name != self.mechanism.outcome}
            yield rest, y, count

    def _done(self) -> None:
        self.finished += 1
        if self.progress is not None:
            self.progress(self.finished)

    def _count(self) -> float:
        mu = self.mechanism.budget.count
        if mu is None:
            return float(self.n)
        ones = (np.ones((count, 1)) for _, _, count in self._chunks())
        noisy = float(self.noise.total(ones, 1.0, True, mu)[0])
        self._done()
        return max(noisy, 1.0)

    def _references(self) -> tuple[Reference, Reference, dict[str, np.ndarray]]:
        """Both references moved by noisy moments of the covariates."""
        mechanism = self.mechanism
        moments, mu = mechanism.moments, mechanism.budget.moments
        if moments is None or mu is None:
            return mechanism.large, mechanism.small, {}
        terms = (moments.terms(rows)[:count] for rows, _, count in self._chunks())
        noisy = self.noise.total(terms, moments.bound, True, mu)
        sd = self.noise.sd(moments.bound, True, mu, len(noisy))
        self._done()
        large, small = (
            moments.moved(reference, noisy, sd, self.count)
            for reference in (mechanism.large, mechanism.small)
        )
        return large, small, {"moments": noisy, "moments_sd": np.array(sd)}

    def _pilots(self) -> tuple[np.ndarray, np.ndarray]:
        """The mode of all pilots and the covariance there."""
        mechanism, prior, large = self.mechanism, self.mechanism.prior, self.large
        theta, mode = prior.mean, prior.mean
        covariance = prior.covariance
        path, releases = PilotPath(mode, np.zeros_like(mode)), list[NoisyScore]()
        for k, mu in enumerate(mechanism.budget.pilots):
            scored = score_rows(mechanism.law, theta, large.rows)
            metric, _ = scored.metric(large.weights)
            frame = scored.framed(metric)
            sd = mechanism._sd_of(self.noise, mu)
            choice = pilot_bound(frame, self.weights, metric @ prior.precision @ metric, sd)
            score = ClippedScore(mechanism.law, theta, metric, choice.bound)
            releases.append(self._noisy_score(score, mu, frame))
            mode, covariance = posterior_mode(
                mechanism.law,
                large.rows,
                self.weights,
                prior,
                releases,
                mode,
                mechanism.law_error,
            )
            theta = path.next(mode, covariance, prior.sd, last=k >= ROUNDS - 2)
        return mode, covariance

    def _noisy_score(self, score: ClippedScore, mu: float, frame: FramedRows) -> NoisyScore:
        """The noisy sum of a score, and the reference prepared for it."""
        terms = (score.terms(rows, y)[:count] for rows, y, count in self._chunks())
        value = self.noise.total(terms, score.bound, False, mu)
        sd = self.noise.sd(score.bound, False, mu, len(value))
        for name, released in (
            ("thetas", score.theta),
            ("metrics", score.metric),
            ("bounds", score.bound),
            ("sds", sd),
            ("scores", value),
        ):
            self.released[name].append(released)
        self._done()
        clipped = clip_rows(frame, score.bound, score.weight_bound)
        return NoisyScore(score, clipped, value, sd)

    def _final(self, mode: np.ndarray, covariance: np.ndarray) -> dict[str, np.ndarray]:
        """g and H~ at the last mode."""
        mechanism, large = self.mechanism, self.large
        budget, prior = mechanism.budget, mechanism.prior
        scored = score_rows(mechanism.law, mode, large.rows)
        metric, root = scored.metric(large.weights)
        frame = scored.framed(metric)
        choice = joint_bounds(
            frame,
            self.weights,
            metric @ prior.precision @ metric,
            root @ covariance @ root,
            mechanism._sd_of(self.noise, budget.score),
            mechanism._curvature_sd_of(self.noise),
        )
        score = ClippedScore(mechanism.law, mode, metric, choice.bound, choice.weight_bound)
        final = self._noisy_score(score, budget.score, frame)
        curvature, sd = self._curvature(final)
        return {
            "weight_bound": np.array(choice.weight_bound),
            "curvature": curvature,
            "curvature_sd": np.array(sd),
            "quantiles": np.array([choice.quantile, choice.weight_quantile]),
        }

    def _curvature(self, final: NoisyScore) -> tuple[np.ndarray, float]:
        """H~ and its noise; without private covariates H itself, which is public."""
        score, mu = final.score, self.mechanism.budget.curvature
        bound = score.weight_bound
        if mu is None:
            return final.clipped.moments(self.weights)[0], 0.0
        terms = (score.curvature_terms(rows)[:count] for rows, _, count in self._chunks())
        packed = self.noise.total(terms, bound, True, mu)
        self._done()
        return unpack_symmetric(packed), self.noise.sd(bound, True, mu, len(packed))
