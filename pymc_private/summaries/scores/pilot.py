r"""Where the final score is taken: rounds of noisy scores, and the mode of all of them (T36).

Each round releases z_s = sum psi_s + N(0, s_s^2 I), psi_s a clipped score at theta_s. The next
theta is the mode of the prior and of *all* releases so far with their nonlinear means

    m_s(theta) = n E_ref[ E_y[psi_s | x, theta] ],

the expectation by theta's own nodes. Gauss-Newton steps weigh release s by
(V_s(theta) + (s_s^2 + r^2 |m_s|^2 / 2) I)^-1; the last term admits that the covariates'
distribution is known only to a relative error r. Everything here is a function of released numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_private.summaries.scores.clipped_scores import (
    ClippedRows,
    ClippedScore,
    RecordModel,
    Rows,
)
from pymc_private.summaries.scores.row_products import RowBlocks

REFERENCE_ERROR = 0.2
"""r: relative error of the reference's distribution of covariates, of each pilot by itself."""
MODE_STEPS = 4
"""Gauss-Newton steps after a round."""
LONGEST_STEP, LONGEST_UNIT = 1.5, 2.0
"""Longest step, in prior standard deviations and in units of a record's information."""
SETTLED = 0.02
"""A step is the last one if its squared length, per parameter, is below this."""


@dataclass(frozen=True, eq=False)
class NoisyScore:
    """A released score with the rows of the reference prepared for it.

    Attributes
    ----------
    score : ClippedScore
    clipped : ClippedRows
        The reference.
    value : array, shape (p,)
        z.
    sd : float
        s.
    mean_weight, square_weight : float
        Mean of a record's weight in the sum, and of its square (T37).
    """

    score: ClippedScore
    clipped: ClippedRows
    value: np.ndarray
    sd: float
    mean_weight: float = 1.0
    square_weight: float = 1.0

    def mean_at(self, at: ModelAtPoint, weights: np.ndarray) -> MeanAt:
        """Moments of the sum when parameters are those of `at`; see `score_mean`."""
        found = score_mean(self.clipped, at, weights)
        if self.mean_weight == self.square_weight == 1.0:
            return found
        mean, slope = self.mean_weight * found.mean, self.mean_weight * found.slope
        return MeanAt(mean, slope, self.square_weight * found.covariance)


@dataclass(frozen=True, eq=False)
class MeanAt:
    """Mean, its derivative in theta and covariance of a sum of scores: (p,), (p, p), (p, p)."""

    mean: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray


def score_mean(clipped: ClippedRows, at: ModelAtPoint, weights: np.ndarray) -> MeanAt:
    """Moments of a sum of scores psi when parameters are those of `at`.

    With psi at the nodes of theta and s its own score, d E psi / d theta = E[psi s'] A(theta).
    `weights` are n times those of the reference.
    """
    psi, blocks = clipped.psi(at.values), clipped.frame.blocks
    weighted = np.ascontiguousarray(np.moveaxis(psi * (at.mass * weights[:, None]), 0, 1))
    mean = weighted.sum(axis=2).reshape(-1) @ blocks.flat
    slope = blocks.products(weighted @ at.scores, at.blocks)
    inner = weighted @ np.transpose(psi, (1, 2, 0))
    return MeanAt(mean, slope, clipped.frame.weighted_sum(inner, np.ones(len(inner))))


@dataclass(frozen=True, eq=False)
class ModelAtPoint:
    """The distribution of the outcome at one parameter vector, on the rows of a reference.

    Attributes
    ----------
    values, mass : array, shape (N, Q)
        Nodes as data would show them, and their mass, which sums to one in a row.
    scores : array, shape (N, Q, m)
        Derivatives of the log density at the nodes in the predictors; 0 where not finite.
    jacobian : array, shape (N, m, p)
    """

    values: np.ndarray
    mass: np.ndarray
    scores: np.ndarray
    jacobian: np.ndarray

    @cached_property
    def blocks(self) -> RowBlocks:
        """The Jacobian, for sums over the rows."""
        return RowBlocks(self.jacobian)

    def information(self, weights: np.ndarray) -> np.ndarray:
        """The sum over rows of weights times the information of one record, shape (p, p)."""
        weighted = self.scores * (self.mass * weights[:, None])[:, :, None]
        inner = np.einsum("nqk,nql->nkl", weighted, self.scores, optimize=True)
        return self.blocks.products(inner, self.blocks)


def model_at_point(model: RecordModel, theta: np.ndarray, rows: Rows) -> ModelAtPoint:
    """Nodes of the outcome at one parameter vector, with their scores."""
    with np.errstate(all="ignore"):
        predictors = model.predictors(theta, rows)
        nodes = model.nodes(predictors, rows)
        scores = model.scores(predictors, rows, nodes.values)
        mass = nodes.mass / nodes.mass.sum(axis=1, keepdims=True)
        jacobian = model.jacobian(theta, rows)
    finite = np.isfinite(scores).all(axis=2, keepdims=True)
    return ModelAtPoint(
        nodes.clipped,
        np.where(np.isfinite(mass), mass, 0.0),
        np.where(finite, scores, 0.0),
        np.where(np.isfinite(jacobian), jacobian, 0.0),
    )


@dataclass(frozen=True, eq=False)
class NormalPrior:
    """Prior mean and covariance: what modes and choices of bounds read of the prior."""

    mean: np.ndarray
    covariance: np.ndarray

    @property
    def precision(self) -> np.ndarray:
        """P0."""
        return np.linalg.inv(self.covariance)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations."""
        return np.sqrt(np.diag(self.covariance))


def posterior_mode(
    model: RecordModel,
    rows: Rows,
    weights: np.ndarray,
    prior: NormalPrior,
    releases: Sequence[NoisyScore],
    start: np.ndarray,
    reference_error: float = REFERENCE_ERROR,
    steps: int = MODE_STEPS,
) -> tuple[np.ndarray, np.ndarray]:
    """The mode of a normal prior and all releases, and the inverse of the precision there.

    Parameters
    ----------
    rows, weights
        The reference; weights times n.
    start : array, shape (p,)
    """
    theta, p = np.array(start, dtype=float), len(start)
    precision = prior.precision
    total = np.array(precision)
    for _ in range(steps):
        at = model_at_point(model, theta, rows)
        total, slope = np.array(precision), -precision @ (theta - prior.mean)
        for release in releases:
            found = release.mean_at(at, weights)
            noise = release.sd**2 + reference_error**2 / 2.0 * (found.mean @ found.mean)
            solved = np.linalg.solve(
                found.covariance + noise * np.eye(p),
                np.column_stack([found.slope, release.value - found.mean]),
            )
            total += found.slope.T @ solved[:, :-1]
            slope += found.slope.T @ solved[:, -1]
        total = (total + total.T) / 2.0
        step = np.linalg.solve(total, slope)
        share = shortening(step, prior.sd, at.information(weights / weights.sum()))
        theta = theta + share * step
        if share == 1.0 and step @ total @ step < SETTLED * p:
            break
    return theta, np.linalg.inv(total)


def shortening(step: np.ndarray, prior_sd: np.ndarray, information: np.ndarray) -> float:
    """The factor that keeps a step within both of its limits."""
    longest = float(np.max(np.abs(step) / prior_sd))
    unit = float(np.sqrt(max(step @ information @ step, 0.0) / len(step)))
    return min(1.0, LONGEST_STEP / max(longest, 1e-9), LONGEST_UNIT / max(unit, 1e-9))


@dataclass
class PilotPath:
    """Where the next round is: at the last mode, or beyond it where modes keep moving one way.

    A coordinate that moved in the same direction twice, the second time by more than a standard
    deviation, goes on by as much again.
    """

    mode: np.ndarray
    move: np.ndarray

    def next(
        self, mode: np.ndarray, covariance: np.ndarray, prior_sd: np.ndarray, last: bool
    ) -> np.ndarray:
        """The place of the next round; exactly the mode if it is the last one."""
        move = mode - self.mode
        goes_on = (np.sign(move) == np.sign(self.move)) & (
            np.abs(move) > np.sqrt(np.diag(covariance))
        )
        self.mode, self.move = mode, move
        further = np.clip(move, -LONGEST_STEP * prior_sd, LONGEST_STEP * prior_sd)
        return mode if last else mode + np.where(goes_on, further, 0.0)
