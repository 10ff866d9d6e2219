r"""The extended model, fitted to the summary and a check of it: post-processing, and free.

A check against an alternative model released c, the noisy sum of a clipped score, or of effects of
groups the sums of all groups. Together with the p numbers g of the summary they say enough to fit
the model with its additional parameters (`extended_likelihood`). The summary alone would not: g is
as many numbers as records read of the parameters of the fitted model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from scipy.special import logsumexp

from pymc_private.criticism.alternative_model import AlternativeDirection
from pymc_private.criticism.check_plan import CheckPlan
from pymc_private.criticism.check_result import Check, DepartureTest, VarianceTest
from pymc_private.criticism.extended_likelihood import (
    NEAR_END,
    AlternativePart,
    center_of,
    extended_likelihood,
    extended_quadrature,
)
from pymc_private.criticism.group_slopes import PlannedGroups
from pymc_private.criticism.planned_test import Forecast, PlannedTest
from pymc_private.errors import DomainError, Incompatible, NotInformative
from pymc_private.privacy.argument_kinds import TEXT
from pymc_private.summaries.density.quadrature_model import QuadratureModel
from pymc_private.summaries.importance import WeightedDraws
from pymc_private.summaries.protocol import LogLikelihood
from pymc_private.summaries.scores.clipped_scores import RecordModel
from pymc_private.summaries.scores.read_coordinates import hierarchy_draws
from pymc_private.summaries.scores.read_parameters import (
    ReadCoefficients,
    all_parameters,
    of_read,
)
from pymc_private.summaries.scores.score_likelihood import PooledLikelihood, normal_log_density
from pymc_private.summaries.scores.score_model import score_potential

if TYPE_CHECKING:
    import pymc as pm

SEED, DRAWS, FEWEST_EFFECTIVE = 20261127, 4000, 100.0
"""Of weighted draws for a Bayes factor, and how many have to count."""
PRIOR_POINTS, SAME_PRIOR = 6, 1e-5
"""Draws of a prior at which two priors are compared, and what is rounding there."""


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
    gamma taken as normal; of effects of groups as a mean over the prior of their standard
    deviation. The prior of gamma matters, as in every Bayes factor.

    Parameters and errors are those of `extended_model`.
    """
    return log_evidence_ratio(*_pieces(plan, result, name))


def log_evidence_ratio(
    mechanism: Any, released: Mapping[str, np.ndarray], part: AlternativePart, sums: np.ndarray
) -> float:
    """Log Bayes factor of what one check of an alternative model released, in nats.

    Raises
    ------
    Incompatible
        The two models have other priors of the parameters that both have.
    NotInformative
        A posterior of which too few weighted draws count.
    """
    direction = _direction(part)
    _refuse_other_priors(direction, mechanism.parameters)
    if isinstance(part, PlannedGroups):
        return _evidence_of_effects(part, sums)
    if not np.isfinite(direction.coordinate):
        return _evidence_at_an_end(part, float(sums[0]))
    center = center_of(direction, mechanism.pooled(released).center)
    place = all_parameters(direction.density.parameters).slices[direction.name].start
    densities = []
    for seen in (True, False):
        draws = fit_of(mechanism, released, part, sums, seen=seen).posterior()
        if draws.effective < FEWEST_EFFECTIVE:
            raise NotInformative(
                "no Bayes factor is found: too few weighted draws of the extended model count",
                got=f"{draws.effective:.0f} effective draws",
                allowed=f"{FEWEST_EFFECTIVE:g} or more",
                do="the p-value of the check; or effects of groups as pm.Normal(mean, sd)",
            )
        mean, sd = draws.mean[place], draws.sd[place]
        densities.append(-0.5 * ((center[place] - mean) / sd) ** 2 - float(np.log(sd)))
    return float(densities[1] - densities[0])


def _evidence_at_an_end(part: PlannedTest, value: float) -> float:
    """Where the prior of gamma ends at its value: c given the summary moves by gamma, linearly."""
    direction = _direction(part)
    prior = all_parameters(direction.density.parameters)
    gamma = prior.natural(prior.pool)[direction.name] - direction.value
    means = part.null.mean + part.sensitivity * np.append(0.0, gamma)
    logs = -0.5 * ((value - means) / part.sd) ** 2
    return float(logsumexp(logs[1:]) - np.log(len(gamma)) - logs[0])


def _evidence_of_effects(part: PlannedGroups, sums: np.ndarray) -> float:
    """Sums of groups are normal given the summary, effects add gamma^2 A A' to their covariance."""
    direction = _direction(part)
    prior = all_parameters(direction.density.parameters)
    spread = prior.natural(prior.pool)[direction.name]
    variances = np.append(0.0, spread**2)
    shifted = variances[:, None, None] * (part.effects @ part.effects.T) + part.spread
    away = np.broadcast_to(sums - part.mean, (len(variances), len(sums)))
    logs = normal_log_density(away, shifted)
    return float(logsumexp(logs[1:]) - np.log(len(spread)) - logs[0])


def _refuse_other_priors(direction: AlternativeDirection, fitted: Any) -> None:
    """Refuse models whose common parameters have other priors where they are the same model."""
    wider = all_parameters(direction.density.parameters)
    usual = wider.natural(wider.pool)[direction.name]
    points = fitted.pool[:PRIOR_POINTS]
    gaps = []
    for theta in points:
        natural = {name: values[0] for name, values in fitted.natural(theta[None]).items()}
        if direction.effects is None:
            end = not np.isfinite(direction.coordinate)
            near = NEAR_END * (float(np.median(usual)) - direction.value) if end else 0.0
            natural |= {direction.name: np.array(direction.value + near)}
        else:
            nothing = np.zeros(direction.effects.groups)
            natural = direction.effects.natural(natural, nothing, float(np.median(usual)))
        with np.errstate(all="ignore"):
            at = wider.unconstrained({name: natural[name][None] for name in wider.names})
            gaps.append(float(wider.log_prior(at)[0] - fitted.log_prior(theta[None])[0]))
    if not np.ptp(gaps) <= SAME_PRIOR * (1.0 + np.abs(fitted.log_prior(points)).max()):
        raise Incompatible(
            "a Bayes factor compares models with one prior of the parameters that both have",
            got=f"other priors of {', '.join(fitted.names)} where {direction.name} = "
            f"{direction.value:g}",
            allowed="those of the fitted model, with the additional parameter apart from them",
            do="write these priors as in the fitted model",
        )


@dataclass(frozen=True, eq=False)
class ExtendedFit:
    """The likelihood of summary and check under the extended model (see `protocol.Mechanism`).

    Attributes
    ----------
    private : PrivateModel
    model : QuadratureModel
    pooled : PooledLikelihood
    """

    private: Any
    model: QuadratureModel
    pooled: PooledLikelihood

    @property
    def parameters(self) -> Any:
        """The parameters of the extended model."""
        return all_parameters(self.model.parameters)

    def log_likelihood(self, released: Mapping[str, np.ndarray] | None = None) -> LogLikelihood:
        """Log-likelihood up to a constant at unconstrained vectors (S, p)."""
        read = self.model.parameters
        return lambda theta: self.pooled.log_likelihood(self.model, of_read(read, theta))

    def start(
        self, released: Mapping[str, np.ndarray] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """One Gauss-Newton step from the fitted model, and the covariance there."""
        read, pooled = self.model.parameters, self.pooled
        prior = np.linalg.inv(read.covariance)
        covariance = np.linalg.inv(pooled.precision + prior)
        slopes, sigma, residual = _linear(pooled, self.model)
        pull = slopes.T @ np.linalg.solve(sigma, residual)
        pull += prior @ (read.mean - pooled.center)
        center = pooled.center + covariance @ pull
        if isinstance(read, ReadCoefficients):
            return read.extended(center, covariance)
        return center, covariance

    def potential(self, released: Mapping[str, np.ndarray], parameters: Mapping[str, Any]) -> Any:
        """The log-likelihood as a PyTensor scalar of the natural parameters, checked."""
        return score_potential(self.pooled, self.model, self.start(), parameters)

    def posterior(self) -> WeightedDraws:
        """Weighted draws of the posterior, by a public seed; few may count."""
        likelihood, prior = self.log_likelihood(), self.parameters.log_prior

        def density(theta: np.ndarray) -> np.ndarray:
            return np.asarray(likelihood(theta) + prior(theta))

        return hierarchy_draws(self.model.parameters, density, self.start(), SEED, DRAWS)


def extended_fit(plan: CheckPlan, result: Check, name: str | None = None) -> ExtendedFit:
    """The likelihood of the summary and of the check; see `extended_model`."""
    return fit_of(*_pieces(plan, result, name))


def fit_of(
    mechanism: Any,
    released: Mapping[str, np.ndarray],
    part: AlternativePart,
    sums: np.ndarray,
    *,
    seen: bool = True,
) -> ExtendedFit:
    """The likelihood of a summary by scores and of a check: see `extended_likelihood`."""
    model = extended_quadrature(mechanism, part)
    pooled = extended_likelihood(mechanism, released, part, sums, model, seen)
    return ExtendedFit(_direction(part).private, model, pooled)


def _direction(part: AlternativePart) -> AlternativeDirection:
    return cast(AlternativeDirection, part.statistic.direction)


def _pieces(
    plan: CheckPlan, result: Check, name: str | None
) -> tuple[Any, Mapping[str, np.ndarray], AlternativePart, np.ndarray]:
    """Mechanism, summary, planned part and released sums of an alternative model."""
    if not (isinstance(plan, CheckPlan) and isinstance(result, Check)):
        raise DomainError(
            "an extended model is of a plan of a check and of its result",
            got=f"{type(plan).__name__} and {type(result).__name__}",
            allowed="CheckPlan and Check",
            do="plan = pmp.check_plan(summary, extended, at=...); result = pmp.check(plan)",
        )
    part = _alternative_part(plan, TEXT.optional.of(name, "name", "an extended model"))
    _refuse_other_result(plan, result)
    found = result[part.forecasts[0].name]
    sums = found.sums if isinstance(found, VarianceTest) else (found.statistic,)
    return plan.mechanism, plan.summary_released.released, part, np.array(sums)


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


def _alternative_part(plan: CheckPlan, name: str | None) -> AlternativePart:
    """The part of a plan that checks an alternative model."""
    found = [
        part
        for part in plan.parts
        if isinstance(part, PlannedTest | PlannedGroups)
        and isinstance(part.statistic.direction, AlternativeDirection)
        and name in (None, part.forecasts[0].name)
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
    same = same and all(map(_is_planned, plan.tests, result.tests))
    if not same or result.facts["summary"] != plan.summary_released.fingerprint:
        raise DomainError(
            "this is not the check of the plan",
            got=type(result).__name__,
            allowed="what pmp.check returned for it",
        )


def _is_planned(forecast: Forecast, test: DepartureTest) -> bool:
    """Whether a test has the constants that were planned."""
    facts = forecast.facts.items()
    return all(np.all(np.isclose(getattr(test, k), v, rtol=1e-6, atol=1e-12))
               for k, v in facts if not isinstance(v, str))  # fmt: skip
