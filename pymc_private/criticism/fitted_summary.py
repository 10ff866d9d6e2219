r"""A model as a summary of noisy scores leaves it: what is known of theta, and a public reference.

Everything that the null distribution of a statistic needs (T38), from released numbers alone: the
posterior mean theta^ and covariance V, the moved reference with nodes of the outcome at theta^, and
the released scores there, projected to p numbers as in the likelihood of the summary (T36).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.errors import NotInformative, Unsupported
from pymc_private.summaries.importance import WeightedDraws
from pymc_private.summaries.scores.clipped_scores import RecordModel, Rows, ScoredRows, score_rows
from pymc_private.summaries.scores.pilot import ModelAtPoint, model_at_point, score_mean
from pymc_private.summaries.scores.read_coordinates import hierarchy_draws
from pymc_private.summaries.scores.read_parameters import of_read
from pymc_private.summaries.scores.score_mechanism import ScoreMechanism, reference_of

POSTERIOR_SEED, POSTERIOR_DRAWS = 20261125, 2000
"""Public seed and number of weighted draws of the posterior."""
FEWEST_EFFECTIVE = 40.0
"""Effective draws below which moments are not trusted."""


@dataclass(frozen=True, eq=False)
class FittedSummary:
    """What a released summary says, prepared for null distributions.

    Attributes
    ----------
    model : RecordModel
    mean, covariance : array, shapes (p,) and (p, p)
        theta^ and V, of the unconstrained parameters; of a hierarchy, of those that records read.
    prior_precision : array, shape (p, p)
    rows : mapping of str to array
        The moved reference.
    weights : array, shape (N,)
        n times its weights.
    scored : ScoredRows
        The reference at theta^, outcomes as data would show them.
    at : ModelAtPoint
        The same, with scores at outcomes in the whole support.
    released : array, shape (N, Q, T p)
        Terms of all released scores at the nodes, times the mean weight of a record.
    scaling, spread : array, shape (p, T p)
        What takes their means, and their deviations from them, to the p numbers of the likelihood.
    residual : array, shape (p,)
        The p numbers, less their mean at theta^.
    noisy_covariance : array, shape (p, p)
        Their covariance at theta^.
    slope : array, shape (p, p)
        Derivatives of their mean in theta.
    """

    model: RecordModel
    mean: np.ndarray
    covariance: np.ndarray
    prior_precision: np.ndarray
    rows: Rows
    weights: np.ndarray
    scored: ScoredRows
    at: ModelAtPoint
    released: np.ndarray
    scaling: np.ndarray
    spread: np.ndarray
    residual: np.ndarray
    noisy_covariance: np.ndarray
    slope: np.ndarray

    @cached_property
    def mass(self) -> np.ndarray:
        """n times the mass of each node, shape (N, Q)."""
        return np.asarray(self.at.mass * self.weights[:, None])

    @property
    def count(self) -> float:
        """Number of records, noisy where it is protected."""
        return float(self.weights.sum())

    def score_sum(self, values: np.ndarray) -> np.ndarray:
        """n E[values score'] of values at the nodes (N, Q), shape (p,)."""
        inner = np.einsum("nq,nqm->nm", self.mass * values, self.at.scores)
        return np.asarray(np.einsum("nm,nmp->p", inner, self.at.jacobian))

    def released_sum(self, values: np.ndarray) -> np.ndarray:
        """n E[values psi'] of values at the nodes and all released terms, shape (T p,)."""
        flat = self.released.reshape(-1, self.released.shape[2])
        return np.asarray((self.mass * values).ravel() @ flat)


def fitted_summary(mechanism: Any, released: Mapping[str, np.ndarray]) -> FittedSummary:
    """What a summary says of its model.

    Parameters
    ----------
    mechanism : ScoreMechanism
    released : mapping of str to array

    Raises
    ------
    Unsupported
        A summary of another kind, or private covariates without moments.
    NotInformative
        Its posterior is too far from what a few thousand draws can tell.
    """
    refuse_other_summaries(mechanism)
    draws = posterior_of(mechanism, released)
    if draws.effective < FEWEST_EFFECTIVE:
        raise NotInformative(
            "the posterior of this summary is too wide for a check; nothing was charged",
            got=f"{draws.effective:.0f} effective draws",
            allowed=f"{FEWEST_EFFECTIVE:g} or more",
            do="a summary of more records, fewer parameters or a larger epsilon",
        )
    # What records read of the parameters, with the posterior that a hierarchy above gives it.
    read = WeightedDraws(of_read(mechanism.read, draws.points), draws.weights)
    model, theta = mechanism.model, read.mean
    reference = reference_of(released, "large")
    weights = float(released["count"]) * reference.weights
    pooled, rows = mechanism.pooled(released), reference.rows
    at = model_at_point(model, theta, rows)
    releases = mechanism.noisy_scores(released, rows)
    shares = [r.mean_weight for r in releases]  # of pilots that read a part of the records (T37)
    slopes = [score_mean(r.clipped, at, weights).slope for r in releases]
    vectors = [r.clipped.vectors(at.values) for r in releases]
    means, ratio = pooled.moments(pooled.node_mass(model, theta[None]), theta[None])
    return FittedSummary(
        model=model,
        mean=theta,
        covariance=read.covariance,
        prior_precision=np.linalg.inv(mechanism.read.covariance),
        rows=rows,
        weights=weights,
        scored=score_rows(model, theta, rows),
        at=at,
        released=np.concatenate(_times(shares, vectors), axis=2),
        scaling=pooled.projection,
        spread=pooled.outcome_projection,
        residual=pooled.observed - pooled.projection @ means[0],
        noisy_covariance=pooled.covariance(means, ratio)[0],
        slope=pooled.projection @ np.concatenate(_times(shares, slopes)),
    )


def _times(shares: Sequence[float], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Arrays of each release times the mean weight of a record in it."""
    return [share * array for share, array in zip(shares, arrays, strict=True)]


def posterior_of(mechanism: Any, released: Mapping[str, np.ndarray]) -> WeightedDraws:
    """Weighted draws of the posterior of a summary, by a public seed."""
    likelihood, prior = mechanism.log_likelihood(released), mechanism.parameters.log_prior

    def density(theta: np.ndarray) -> np.ndarray:
        return np.asarray(likelihood(theta) + prior(theta))

    start = mechanism.start(released)
    return hierarchy_draws(mechanism.read, density, start, POSTERIOR_SEED, POSTERIOR_DRAWS)


def refuse_other_summaries(mechanism: Any) -> None:
    """Refuse summaries that do not tell how a new statistic goes with what they released."""
    if not isinstance(mechanism, ScoreMechanism):
        raise Unsupported(
            "a check needs a summary by scores; nothing was charged",
            got=f"a summary by {mechanism.method}",
            allowed="method='scores'",
            do="calibrate(..., release='summary', method='scores'), where the model allows it",
        )
    if mechanism.integrates_effects:
        raise Unsupported(
            "no check is known of persons with several rows; nothing was charged",
            got="scores of persons, an effect of each integrated out",
            allowed="records of one row",
        )
    private_covariates = mechanism.design.budget.curvature is not None
    if private_covariates and mechanism.design.moments is None:
        raise Unsupported(
            "a check needs moments of the covariates, and this summary has none; nothing was "
            "charged",
            got="private covariates that have no moments to release, such as Counts",
            do="declare them as Interval, Ball, Simplex, or Categories of fewer levels",
        )
