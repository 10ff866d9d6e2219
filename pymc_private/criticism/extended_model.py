r"""The extended model, fitted to the summary and a check of it: post-processing, and free.

A check against an alternative model released c, the noisy sum of a clipped score. Together with the
p numbers g of the summary it says enough to fit the model with its additional parameter gamma: c is
one number more of the likelihood of T36, with the mean n E[f | x, theta, gamma] by reweighting
nodes with the extended density. The summary alone would not: g is as many numbers as the fitted
model has parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from pymc_private.criticism.alternative_model import AlternativeDirection
from pymc_private.criticism.check_plan import CheckPlan
from pymc_private.criticism.check_result import Check
from pymc_private.criticism.check_statistic import CheckStatistic
from pymc_private.criticism.planned_test import PlannedTest
from pymc_private.errors import DomainError, Incompatible
from pymc_private.summaries.density.quadrature_model import QuadratureModel
from pymc_private.summaries.importance import WeightedDraws, importance_draws
from pymc_private.summaries.protocol import LogLikelihood
from pymc_private.summaries.scores.clipped_scores import RecordModel, Rows
from pymc_private.summaries.scores.curvature_noise import StructuredNoise
from pymc_private.summaries.scores.pilot import model_at_point, score_mean
from pymc_private.summaries.scores.read_parameters import all_parameters
from pymc_private.summaries.scores.score_likelihood import PooledLikelihood, RoundNoise
from pymc_private.summaries.scores.score_mechanism import reference_of
from pymc_private.summaries.scores.score_model import score_potential

if TYPE_CHECKING:
    import pymc as pm

SEED, DRAWS = 20261127, 4000
"""Of weighted draws for a Bayes factor."""
UNSEEN = 1e12
"""Factor of the variance of c at which it says nothing."""


def extended_model(plan: CheckPlan, result: Check, name: str | None = None) -> pm.Model:
    """The alternative model as a plain PyMC model, given the summary and its check. Free.

    Parameters
    ----------
    plan : CheckPlan
        Of an alternative model.
    result : Check
        What `check` returned for this plan.
    name : str, optional
        The additional parameter; needed if the plan has several alternatives.

    Returns
    -------
    pymc.Model
        ``with extended_model(plan, result): pm.sample()``; no record is in it.

    Raises
    ------
    DomainError
        The plan has no such alternative model, or the result is of another plan.
    Incompatible
        Transforms of the two models differ.
    """
    from pymc_private.summaries.noise_aware_model import noise_aware_model

    fit = extended_fit(plan, result, name)
    return noise_aware_model(fit.private, fit, {})  # type: ignore[arg-type]


def log_bayes_factor(plan: CheckPlan, result: Check, name: str | None = None) -> float:
    """Log of p(c | summary, alternative) / p(c | summary, fitted model), in nats.

    What the check says beyond the summary, whose own numbers were chosen by the same records and
    are no evidence between the two. By the ratio of Savage and Dickey, with posterior densities of
    gamma taken as normal; the prior of gamma matters, as in every Bayes factor.

    Parameters and errors are those of `extended_model`.
    """
    return log_evidence_ratio(*_pieces(plan, result, name))


def log_evidence_ratio(
    mechanism: Any, released: Mapping[str, np.ndarray], part: PlannedTest, value: float
) -> float:
    """Log Bayes factor of the number that one check of an alternative model released, in nats."""
    densities = []
    for seen in (True, False):
        fit = fit_of(mechanism, released, part, value, seen=seen)
        draws = fit.posterior()
        place, at = fit.place, fit.pooled.center[fit.place]
        mean, sd = draws.mean[place], draws.sd[place]
        densities.append(-0.5 * ((at - mean) / sd) ** 2 - float(np.log(sd)))
    return float(densities[1] - densities[0])


@dataclass(frozen=True, eq=False)
class ExtendedFit:
    """The likelihood of summary and check under the extended model (see `protocol.Mechanism`).

    Attributes
    ----------
    private : PrivateModel
    model : QuadratureModel
    pooled : PooledLikelihood
    place : int
        Of the additional parameter in the vector.
    """

    private: Any
    model: QuadratureModel
    pooled: PooledLikelihood
    place: int

    @property
    def parameters(self) -> Any:
        """The parameters of the extended model."""
        return self.model.parameters

    def log_likelihood(self, released: Mapping[str, np.ndarray] | None = None) -> LogLikelihood:
        """Log-likelihood up to a constant at unconstrained vectors (S, p + 1)."""
        return lambda theta: self.pooled.log_likelihood(self.model, theta)

    def start(
        self, released: Mapping[str, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """One Gauss-Newton step from the fitted model, and the covariance there."""
        prior, pooled = np.linalg.inv(self.parameters.covariance), self.pooled
        covariance = np.linalg.inv(pooled.precision + prior)
        slopes, sigma, residual = _linear(pooled, self.model)
        pull = slopes.T @ np.linalg.solve(sigma, residual)
        pull += prior @ (self.parameters.mean - pooled.center)
        return pooled.center + covariance @ pull, covariance

    def potential(self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        """The log-likelihood as a PyTensor scalar of the natural parameters, checked."""
        return score_potential(self.pooled, self.model, self.start(), parameters)

    def posterior(self) -> WeightedDraws:
        """Weighted draws of the posterior, by a public seed."""
        likelihood, prior = self.log_likelihood(), self.parameters.log_prior
        rng = np.random.default_rng(SEED)

        def density(theta: np.ndarray) -> np.ndarray:
            return np.asarray(likelihood(theta) + prior(theta))

        return importance_draws(density, *self.start(), rng, DRAWS)


def extended_fit(plan: CheckPlan, result: Check, name: str | None = None) -> ExtendedFit:
    """The likelihood of the summary and of the check; see `extended_model`."""
    return fit_of(*_pieces(plan, result, name))


def fit_of(
    mechanism: Any,
    released: Mapping[str, np.ndarray],
    part: PlannedTest,
    value: float,
    *,
    seen: bool = True,
) -> ExtendedFit:
    """The likelihood of a summary by scores and, if `seen`, of the number of a check.

    Parameters
    ----------
    mechanism : ScoreMechanism
    released : mapping of str to array
        The summary.
    part : PlannedTest
        Of an alternative model.
    value : float
        What it released.
    seen : bool
        Whether the check says anything.
    """
    direction = cast(AlternativeDirection, part.statistic.direction)
    place = _place_of(direction, part.statistic.theta)
    model = QuadratureModel(direction.density, mechanism.model.support)
    whole = _Whole(mechanism, released, part, direction, place, value)
    return ExtendedFit(direction.private, model, whole.pooled(seen), place[-1])


def _pieces(
    plan: CheckPlan, result: Check, name: str | None
) -> tuple[Any, Mapping[str, np.ndarray], PlannedTest, float]:
    """Mechanism, summary, planned test and released number of an alternative model."""
    part = _alternative_part(plan, name)
    _refuse_other_result(plan, result)
    value = float(result[part.name].statistic)
    return plan.mechanism, plan.summary_released.released, part, value


class _Whole:
    """The pieces of the likelihood, with c as a round of its own.

    Rounds have p numbers, and p + 1 with the last one 0 here; that of c has it in the first place.
    """

    def __init__(
        self,
        mechanism: Any,
        released: Mapping[str, np.ndarray],
        part: PlannedTest,
        direction: AlternativeDirection,
        place: np.ndarray,
        value: float,
    ) -> None:
        self.fitted: PooledLikelihood = mechanism.pooled(released)
        self.model, self.part, self.place, self.value = mechanism.model, part, place, value
        self.direction, self.p = direction, len(self.fitted.center)
        self.rounds = len(self.fitted.correction) // self.p
        self.count = float(released["count"])
        self.small = self._moments(reference_of(released, "small"))
        large = reference_of(released, "large")
        self.large = self._moments(large)
        releases = mechanism.noisy_scores(released, large.rows)
        at = model_at_point(self.model, self.fitted.center, large.rows)
        weights = self.count * large.weights
        self.slope = np.concatenate([score_mean(r.clipped, at, weights).slope for r in releases])
        psi = np.concatenate([r.clipped.vectors(at.values) for r in releases], axis=2)
        mass = (at.mass * weights[:, None])[:, :, None]
        self.released_by_gamma = (mass * self.large.score[:, :, None] * psi).sum(axis=(0, 1))
        self.cross = self.fitted.outcome_projection @ (
            mass * self.large.values[:, :, None] * psi
        ).sum(axis=(0, 1))

    def _moments(self, reference: Any) -> _Moments:
        weights = self.count * reference.weights
        statistic, center = self.part.statistic, self.fitted.center
        return _moments(self.model, statistic, self.direction, center, reference.rows, weights)

    def pooled(self, seen: bool) -> PooledLikelihood:
        """The likelihood of g and c; c without weight unless it is `seen`."""
        old, p, size = self.fitted, self.p, self.p + 1
        last = self.rounds * size
        center = np.empty(size)
        center[self.place[:p]] = old.center
        center[self.place[p]] = float(next(iter(self.direction.added.values())))
        terms = np.zeros((len(old.node_terms), last + size + 1))
        terms[:, :last] = self._padded(old.node_terms[:, :-1], 1)
        weights = np.repeat(self.small.weights, old.values.shape[1])
        terms[:, last] = self._values_at_nodes().ravel() * weights
        terms[:, -1] = old.node_terms[:, -1]
        correction = np.zeros(last + size)
        correction[:last] = self._padded(old.correction, 0)
        correction[last] = self.large.mean - self.small.mean
        slope = np.zeros((last + size, size))
        slope[:last, self.place[:p]] = self._padded(old.slope, 0)
        slope[:last, self.place[p]] = self._padded(self._gap_by_gamma(), 0)
        slope[last, self.place] = self.large.slope - self.small.slope
        noise = self.part.noise_sd**2
        if not seen:
            noise = UNSEEN * max(noise, self.large.variance)
        whole = PooledLikelihood(
            rows=self._renamed(old.rows),
            values=old.values,
            base=old.base,
            node_terms=terms,
            correction=correction,
            slope=slope,
            center=center,
            projection=self._with_check(old.projection),
            outcome_projection=self._with_check(old.outcome_projection),
            observed=np.append(old.observed, self.value),
            outcome_covariance=_bordered(old.outcome_covariance, self.cross, self.large.variance),
            noise_covariance=_bordered(old.noise_covariance, np.zeros(p), noise),
            precision=np.eye(size),
            curvature_noise=_padded_noise(old.curvature_noise, size),
            reference_noise=cast(RoundNoise, _padded_noise(old.reference_noise, size)),
        )
        return self._with_precision(whole)

    def _with_check(self, projection: np.ndarray) -> np.ndarray:
        """A projection of all rounds to p numbers, with c as one number more."""
        size, last = self.p + 1, self.rounds * (self.p + 1)
        found = np.zeros((size, last + size))
        found[: self.p, :last] = self._padded(projection, 1)
        found[self.p, last] = 1.0
        return found

    def _with_precision(self, whole: PooledLikelihood) -> PooledLikelihood:
        slopes = np.zeros((self.p + 1, self.p + 1))
        slopes[: self.p, self.place[: self.p]] = self.fitted.projection @ self.slope
        slopes[: self.p, self.place[self.p]] = self.fitted.projection @ self.released_by_gamma
        slopes[self.p, self.place] = self.large.slope
        sigma = whole.outcome_covariance + whole.noise_covariance
        return replace(whole, precision=slopes.T @ np.linalg.solve(sigma, slopes))

    def _padded(self, array: np.ndarray, axis: int) -> np.ndarray:
        """Rounds of p numbers along an axis as rounds of p + 1 numbers."""
        shape = list(array.shape)
        shape[axis : axis + 1] = [self.rounds, self.p]
        widths = [(0, 0)] * len(shape)
        widths[axis + 1] = (0, 1)
        padded = np.pad(array.reshape(shape), widths)
        shape = list(array.shape)
        shape[axis] = self.rounds * (self.p + 1)
        return padded.reshape(shape)

    def _values_at_nodes(self) -> np.ndarray:
        """f at the nodes of the likelihood, as data would show them."""
        domain = self.model.support.domain
        return self.part.statistic.values_at(self.fitted.rows, np.clip(self.fitted.values, *domain))

    def _gap_by_gamma(self) -> np.ndarray:
        """Derivatives in gamma of the means of all rounds: the larger reference's less the other's.

        Those of the nodes of the likelihood are what reweighting them gives.
        """
        old = self.fitted
        mass = old.node_mass(self.model, old.center[None])[0]
        predictors = self.model.predictors(old.center, old.rows)
        score = self.direction.values(old.center, predictors, old.rows, old.values)
        score = np.where(np.isfinite(score), score, 0.0).ravel()
        return self.released_by_gamma - (mass * score) @ old.node_terms[:, :-1]

    def _renamed(self, rows: Rows) -> Rows:
        names = self.direction.names
        return {names.get(name, name): values for name, values in rows.items()}


@dataclass(frozen=True, eq=False)
class _Moments:
    """c on a reference at theta^: mean, slopes in (theta, gamma), variance; f and v at nodes."""

    weights: np.ndarray
    values: np.ndarray
    score: np.ndarray
    mean: float
    slope: np.ndarray
    variance: float


def _moments(
    model: RecordModel,
    statistic: CheckStatistic,
    direction: AlternativeDirection,
    theta: np.ndarray,
    rows: Rows,
    weights: np.ndarray,
) -> _Moments:
    at, predictors = model_at_point(model, theta, rows), model.predictors(theta, rows)
    values = statistic.values_at(rows, at.values)
    score = direction.values(theta, predictors, rows, model.nodes(predictors, rows).values)
    score = np.where(np.isfinite(score), score, 0.0)
    mass = at.mass * weights[:, None]
    inner = np.einsum("nq,nqm->nm", mass * values, at.scores)
    slope = np.append(np.einsum("nm,nmp->p", inner, at.jacobian), (mass * values * score).sum())
    mean = float((mass * values).sum())
    variance = float((mass * values**2).sum()) - mean**2 / float(weights.sum())
    return _Moments(weights, values, score, mean, slope, variance)


def _linear(
    pooled: PooledLikelihood, model: RecordModel
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Slopes, covariance and residual of the numbers at the center, slopes by differences."""
    center, step = pooled.center, 1e-4
    shifts = np.concatenate([np.zeros((1, len(center))), *(np.eye(len(center)) * s
                            for s in (step, -step))])  # fmt: skip
    means, ratio = pooled.moments(pooled.node_mass(model, center + shifts), center + shifts)
    found = means @ pooled.projection.T
    slopes = (found[1 : len(center) + 1] - found[len(center) + 1 :]).T / (2 * step)
    return slopes, pooled.covariance(means[:1], ratio[:1])[0], pooled.observed - found[0]


def _bordered(matrix: np.ndarray, border: np.ndarray, corner: float) -> np.ndarray:
    return np.block([[matrix, border[:, None]], [border[None], np.array([[corner]])]])


def _padded_noise(noise: RoundNoise | StructuredNoise, size: int) -> RoundNoise | StructuredNoise:
    missing = size - noise.scaling.shape[1]
    widths = ((0, 0), (0, missing), (0, missing))
    scaling, projection = np.pad(noise.scaling, widths), np.pad(noise.projection, widths)
    if isinstance(noise, StructuredNoise):
        return StructuredNoise(noise.sd, scaling, projection, np.pad(noise.pairs, (0, missing)))
    return RoundNoise(noise.sd, scaling, projection, noise.common)


def _place_of(direction: AlternativeDirection, theta: np.ndarray) -> np.ndarray:
    """Places of the fitted parameters, and last of gamma, in the extended vector.

    Raises
    ------
    Incompatible
        A parameter has another transform there, or gamma has one.
    """
    own, wider = direction.parameters, all_parameters(direction.density.parameters)
    numbers = np.arange(wider.size)
    places = [numbers[wider.slices[name]] for name in own.names]
    place = np.concatenate([*places, numbers[wider.slices[direction.name]]])
    found = np.zeros(wider.size)
    found[place[:-1]] = theta
    natural, wanted = wider.natural(found[None]), own.natural(theta[None])
    same = [np.allclose(natural[name], wanted[name], rtol=1e-10, atol=0.0) for name in own.names]
    same.append(float(natural[direction.name][0]) == 0.0)
    if not all(same):
        raise Incompatible(
            "the extended model has other transforms than the fitted one",
            got=f"another prior's support of a parameter, or one of {direction.name}",
            allowed=f"priors of the same support, and a prior of {direction.name} on all numbers",
            do=f"{direction.name} = pm.Normal(...), for example",
        )
    return place


def _alternative_part(plan: CheckPlan, name: str | None) -> PlannedTest:
    """The part of a plan that checks an alternative model."""
    found = [
        part
        for part in plan.parts
        if isinstance(part, PlannedTest)
        and isinstance(part.statistic.direction, AlternativeDirection)
        and name in (None, part.name)
    ]
    if len(found) != 1:
        raise DomainError(
            "an extended model is fitted to a check against it: the numbers of the summary are no "
            "more than the parameters of the fitted model",
            got=", ".join(test.name for test in plan.tests),
            allowed="one alternative model, or its name",
            do="pmp.check_plan(summary, extended, at={'gamma': 0.0}, ...)",
        )
    return found[0]


def _refuse_other_result(plan: CheckPlan, result: Any) -> None:
    names = [test.name for test in plan.tests]
    same = isinstance(result, Check) and [t.name for t in result.tests] == names
    if not same or result.facts["summary"] != plan.summary_released.fingerprint:
        raise DomainError(
            "this is not the check of the plan",
            got=type(result).__name__,
            allowed="what pmp.check returned for it",
        )
