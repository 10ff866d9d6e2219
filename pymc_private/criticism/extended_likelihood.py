r"""The likelihood of a summary and of a check of it, under an extended model (T36, T38).

The p numbers g of the summary and the k numbers c of the check, a noisy sum of a clipped score or
the sums of all groups, are normal given the parameters of the extended model. Means of c are
n E[f | x, theta, gamma], by reweighting nodes with the extended density, as those of g are. At the
center both models are the same density, so that nodes, masses and variances are those of the fitted
model; derivatives are by the scores of the extended one, in the coordinates that records read of
its parameters. The stretch of the nodes' terms is that of the fitted model: of additional
parameters, and of c, what the large reference adds stays linear.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from pymc_private.criticism.alternative_model import AlternativeDirection
from pymc_private.criticism.group_slopes import PlannedGroups
from pymc_private.criticism.planned_test import PlannedTest
from pymc_private.errors import Incompatible
from pymc_private.summaries.density.quadrature_model import QuadratureModel
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.scores.clipped_scores import RecordModel, Rows
from pymc_private.summaries.scores.pilot import ModelAtPoint, model_at_point, score_mean
from pymc_private.summaries.scores.quadratic_noise import RoundNoise, StructuredNoise
from pymc_private.summaries.scores.read_parameters import all_parameters, natural_at, of_read
from pymc_private.summaries.scores.score_likelihood import PooledLikelihood
from pymc_private.summaries.scores.score_mechanism import reference_of

UNSEEN = 1e12
"""Factor of the variance of c at which it says nothing."""
NEAR_END = 1e-8
"""Share of the way from the end of a prior to its median."""
SAME = 1e-6
"""Most difference of two log densities, relative to their size, that is rounding."""
AlternativePart = PlannedTest | PlannedGroups
"""What was planned of a check against an alternative model."""


def extended_quadrature(mechanism: Any, part: AlternativePart) -> QuadratureModel:
    """The extended model, of what records read of its parameters."""
    density = RecordDensity(_direction(part).private, of_coefficients=True)
    return QuadratureModel(density, mechanism.model.support)


def extended_likelihood(
    mechanism: Any,
    released: Mapping[str, np.ndarray],
    part: AlternativePart,
    sums: np.ndarray,
    model: QuadratureModel,
    seen: bool = True,
) -> PooledLikelihood:
    """The likelihood of a summary by scores and, if `seen`, of a check against an extended model.

    Parameters
    ----------
    mechanism : ScoreMechanism
    released : mapping of str to array
        The summary.
    part : PlannedTest or PlannedGroups
        Of the alternative model.
    sums : array, shape (k,)
        What it released.
    model : QuadratureModel
        See `extended_quadrature`.
    seen : bool
        Whether the check says anything.

    Raises
    ------
    Incompatible
        The extended model cannot take the parameters of the fitted one.
    """
    return _Whole(mechanism, released, part, np.atleast_1d(sums), model).pooled(seen)


def _direction(part: AlternativePart) -> AlternativeDirection:
    return cast(AlternativeDirection, part.statistic.direction)


def center_of(direction: AlternativeDirection, theta: np.ndarray) -> np.ndarray:
    """All parameters of the extended model where it is the fitted one at coordinates theta.

    Where the prior ends at the value of gamma, one that is nearly that. Effects of groups are 0 at
    any standard deviation: the median of its prior.

    Raises
    ------
    Incompatible
        A prior does not reach there.
    """
    wider = all_parameters(direction.density.parameters)
    usual = float(np.median(wider.natural(wider.pool)[direction.name]))
    natural = natural_at(direction.parameters, theta)
    if direction.effects is not None:
        nothing = np.zeros(direction.effects.groups)
        found = _unconstrained(wider, direction.effects.natural(natural, nothing, usual))
    else:
        value = direction.value
        found = _unconstrained(wider, natural | {direction.name: np.array(value)})
        if not np.isfinite(found).all():
            near = value + NEAR_END * (usual - value)
            found = _unconstrained(wider, natural | {direction.name: np.array(near)})
    if not np.isfinite(found).all():
        raise Incompatible(
            "the extended model has other transforms than the fitted one",
            got="another support of a prior",
            allowed="priors of the same support of the parameters that both models have",
            do="write these priors as in the fitted model",
        )
    return found


def _unconstrained(wider: Any, natural: Mapping[str, np.ndarray]) -> np.ndarray:
    with np.errstate(all="ignore"):
        values = {name: np.asarray(natural[name])[None] for name in wider.names}
        return np.asarray(wider.unconstrained(values)[0])


class _Whole:
    """The pieces of the likelihood: k numbers behind the rounds of the summary."""

    def __init__(
        self,
        mechanism: Any,
        released: Mapping[str, np.ndarray],
        part: AlternativePart,
        sums: np.ndarray,
        model: QuadratureModel,
    ) -> None:
        self.old: PooledLikelihood = mechanism.pooled(released)
        self.fitted: RecordModel = mechanism.model
        self.part, self.sums, self.wider, self.k = part, sums, model, len(sums)
        self.direction = _direction(part)
        theta = center_of(self.direction, self.old.center)
        self.center = of_read(model.parameters, theta[None])[0]
        count = float(released["count"])
        small, large = (reference_of(released, name) for name in ("small", "large"))
        self.small_weights = np.repeat(count * small.weights, self.old.values.shape[1])
        self.large = self._sums_on(large.rows, count * large.weights)
        releases = mechanism.noisy_scores(released, large.rows)
        found = [score_mean(r.clipped, self.large.at, self.large.weights) for r in releases]
        pairs = list(zip(releases, found, strict=True))
        # Mean weights: of pilots that read a part of the records (T37).
        self.slope = np.concatenate([r.mean_weight * one.slope for r, one in pairs])
        values = self.large.at.values
        psi = np.concatenate([r.mean_weight * r.clipped.vectors(values) for r in releases], axis=2)
        shape = (-1, psi.shape[2])
        self.cross = (psi.reshape(shape).T * self.large.mass) @ self.large.values
        self.terms = self._terms()

    def _sums_on(self, rows: Rows, weights: np.ndarray) -> _CheckSums:
        """c on the rows of a reference."""
        own = model_at_point(self.fitted, self.old.center, rows)
        at = replace(own, **self._scores_at(rows, self._unclipped(rows)))
        values = self._by_group(rows, self.part.statistic.values_at(rows, own.values))
        return _CheckSums.of(at, values, weights)

    def _unclipped(self, rows: Rows) -> np.ndarray:
        """Outcomes of the nodes at the center in the support of the density."""
        predictors = self.fitted.predictors(self.old.center, rows)
        return self.fitted.nodes(predictors, rows).values  # type: ignore[attr-defined]

    def _scores_at(self, rows: Rows, y: np.ndarray) -> dict[str, np.ndarray]:
        """Scores (N, Q, m) and derivatives of predictors (N, m, q) of the extended model."""
        renamed = self._renamed(rows)
        with np.errstate(all="ignore"):
            predictors = self.wider.predictors(self.center, renamed)
            scores = self.wider.scores(predictors, renamed, y)
            jacobian = self.wider.jacobian(self.center, renamed)
        finite = np.isfinite(scores).all(axis=2, keepdims=True)
        return {
            "scores": np.where(finite, scores, 0.0),
            "jacobian": np.where(np.isfinite(jacobian), jacobian, 0.0),
        }

    def _by_group(self, rows: Rows, values: np.ndarray) -> np.ndarray:
        """f at nodes as terms of the k sums, shape (N Q, k)."""
        if not isinstance(self.part, PlannedGroups):
            return values.reshape(-1, 1)
        level, known = self.part.statistic.levels(rows)
        member = (level[:, None] == np.arange(self.k)) & known[:, None]
        return (values[:, :, None] * member[:, None]).reshape(-1, self.k)

    def _terms(self) -> np.ndarray:
        """Terms of rounds and check at the nodes of the likelihood, (N Q, T p + k)."""
        domain = self.fitted.support.domain  # type: ignore[attr-defined]
        shown = np.clip(self.old.values, *domain)
        values = self.part.statistic.values_at(self.old.rows, shown)
        own = self._by_group(self.old.rows, values) * self.small_weights[:, None]
        return np.concatenate([self.old.node_terms[:, :-1], own], axis=1)

    def pooled(self, seen: bool) -> PooledLikelihood:
        """The likelihood of g and c; c without weight unless it is `seen`."""
        old, k, large = self.old, self.k, self.large
        mass = old.node_mass(self.fitted, old.center[None])[0]
        self._refuse_other_density()
        means = mass @ self.terms[:, -k:]
        slope = np.concatenate([self.slope, large.slope]) - self._slope_of_nodes(mass)
        noise = np.full(k, self.part.forecasts[0].noise_sd ** 2)
        if not seen:
            noise = UNSEEN * np.maximum(noise, np.diag(large.covariance))
        whole = PooledLikelihood(
            rows=self._renamed(old.rows),
            values=old.values,
            base=old.base,
            node_terms=np.concatenate([self.terms, old.node_terms[:, -1:]], axis=1),
            correction=np.concatenate([old.correction, large.mean - means]),
            slope=slope,
            center=self.center,
            projection=_beside(old.projection, np.eye(k)),
            outcome_projection=_beside(old.outcome_projection, np.eye(k)),
            observed=np.append(old.observed, self.sums),
            outcome_covariance=_bordered(
                old.outcome_covariance, old.outcome_projection @ self.cross, large.covariance
            ),
            noise_covariance=_beside(old.noise_covariance, np.diag(noise)),
            precision=np.eye(len(self.center)),
            curvature_noise=_with_numbers(old.curvature_noise, k),
            reference_noise=cast(RoundNoise, _with_numbers(old.reference_noise, k)),
        )
        slopes = whole.projection @ np.concatenate([self.slope, large.slope])
        sigma = whole.outcome_covariance + whole.noise_covariance
        return replace(whole, precision=slopes.T @ np.linalg.solve(sigma, slopes))

    def _slope_of_nodes(self, mass: np.ndarray) -> np.ndarray:
        """What reweighting the nodes of the likelihood gives for the derivatives of all means."""
        found = self._scores_at(self.old.rows, self.old.values)
        shape = self.old.values.shape
        mass = mass.reshape(shape)
        away = found["scores"] - np.einsum("nq,nqm->nm", mass, found["scores"])[:, None]
        terms = self.terms.reshape(*shape, -1)
        inner = np.swapaxes(away * mass[:, :, None], 1, 2) @ terms  # (N, m, T p + k)
        slope = np.tensordot(inner, found["jacobian"], axes=([0, 1], [0, 1]))
        return np.asarray(slope)

    def _refuse_other_density(self) -> None:
        """Refuse coordinates at which the extended model is not the fitted one."""
        old, rows = self.old, self._renamed(self.old.rows)
        with np.errstate(all="ignore"):
            own = self.fitted.log_density(old.center[None], old.rows, old.values)[0]
            other = self.wider.log_density(self.center[None], rows, old.values)[0]
        apart = np.abs(own - other) > SAME * (1.0 + np.abs(own))
        if (np.isfinite(own) & (apart | ~np.isfinite(other))).any():
            raise Incompatible(
                "the extended model is not the fitted one where their parameters agree",
                got=f"other densities of records at {self.direction.name} = "
                f"{self.direction.value:g}",
                allowed="the same density",
                do="write the parameters that both have as in the fitted model",
            )

    def _renamed(self, rows: Rows) -> Rows:
        names = self.direction.names
        return {names.get(name, name): values for name, values in rows.items()}


@dataclass(frozen=True, eq=False)
class _CheckSums:
    """c on a reference at the center: f at the nodes (N Q, k), and moments of its sums."""

    at: ModelAtPoint
    weights: np.ndarray
    values: np.ndarray
    mass: np.ndarray
    mean: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray

    @classmethod
    def of(cls, at: ModelAtPoint, values: np.ndarray, weights: np.ndarray) -> _CheckSums:
        """By scores of the extended model."""
        mass = at.mass * weights[:, None]
        terms = (values * mass.reshape(-1, 1)).reshape(*mass.shape, -1)
        inner = np.swapaxes(at.scores, 1, 2) @ terms  # (N, m, k)
        slope = np.tensordot(inner, at.jacobian, axes=([0, 1], [0, 1]))
        mean = terms.sum(axis=(0, 1))
        second = values.T @ (values * mass.reshape(-1, 1))
        covariance = second - np.outer(mean, mean) / float(weights.sum())
        return cls(at, weights, values, mass.ravel(), mean, slope, covariance)


def _beside(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """A block diagonal matrix of two."""
    corner = np.zeros((len(first), second.shape[1]))
    return np.block([[first, corner], [np.zeros((len(second), first.shape[1])), second]])


def _bordered(first: np.ndarray, border: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.block([[first, border], [border.T, second]])


def _with_numbers(
    noise: RoundNoise | StructuredNoise, numbers: int
) -> RoundNoise | StructuredNoise:
    """The noise of projected numbers where some more, without it, follow them."""
    projection = np.pad(noise.projection, ((0, 0), (0, numbers), (0, 0)))
    if isinstance(noise, StructuredNoise):
        return StructuredNoise(noise.sd, noise.scaling, projection, noise.pairs)
    return replace(noise, projection=projection)
