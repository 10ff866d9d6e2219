r"""Where the next release is taken: the mode of all of them, with means by simulation (T34).

Released are z_s = sum psi_s + N(0, s_s^2 I). With records simulated at theta, u their scores,

    m_s(theta) = mean psi_s - B_s A^-1 mean u,   B_s = Cov(psi_s, u) = d m_s / d theta,   A = Var u,

the second term being a control variate, since E u = 0. Gauss-Newton steps weigh a release by the
inverse of n Var psi_s + s_s^2 I. Everything here is a function of released numbers and public
seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.records.pooled_terms import (
    ClippedMoments,
    ClippedScores,
    PooledTerms,
    clipped,
    flat_outcomes,
)
from pymc_private.summaries.records.record_scores import WholeRecordDensity
from pymc_private.summaries.records.record_simulator import MadeUpRecords, RecordSimulator
from pymc_private.summaries.scores.pilot import shortening
from pymc_private.summaries.scores.score_bounds import NoiseSd
from pymc_private.summaries.scores.symmetric import matrix_power, symmetric_part

METRIC_RECORDS, MODE_RECORDS = 2000, 1200
"""Simulated records for the metric and the bound of a release, and for a step to the mode."""
MODE_STEPS = 4
"""Gauss-Newton steps after a round."""
SETTLED = 0.02
"""A step is the last one if its squared length, per parameter, is below this."""
SCORE_QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Quantiles of |u| that are tried as C."""
MOMENT_QUANTILES = (0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99)
"""Quantiles of |v|^2 that are tried as K."""
LEAST_BOUND = 0.05
LEAST_PRIOR = 0.05
"""The prior's curvature counts as at least this share of the inverse of its variance."""
DIFFERENCE = 1e-3
"""Step of central differences of the log prior, in prior standard deviations."""


@dataclass(frozen=True, eq=False)
class PooledModel:
    """The model of a record: density, generator, prior.

    Attributes
    ----------
    density : WholeRecordDensity
    simulator : RecordSimulator
    """

    density: WholeRecordDensity
    simulator: RecordSimulator

    @property
    def parameters(self) -> ParameterVector:
        """The parameters as one vector."""
        return self.density.parameters

    @cached_property
    def start(self) -> np.ndarray:
        """The prior median."""
        return np.asarray(np.median(self.parameters.draws(4000), axis=0))

    @cached_property
    def prior_precision(self) -> np.ndarray:
        """P0, the inverse of the prior covariance."""
        return np.linalg.inv(self.parameters.covariance)

    @cached_property
    def prior_sd(self) -> np.ndarray:
        """Prior standard deviations."""
        return np.sqrt(np.diag(self.parameters.covariance))

    def prior_slope(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The gradient of the log prior, and its curvature, floored: (p,), (p, p).

        Where a record does not read all parameters, the prior is a hierarchy, whose density has no
        mode (it grows without end as a scale shrinks with what it scales): there those of a normal
        prior of the same mean and covariance.
        """
        if not self.density.reads_all:
            precision = self.prior_precision
            return precision @ (self.parameters.mean - theta), precision
        p, step = len(theta), DIFFERENCE * self.prior_sd
        shifts = np.concatenate([np.zeros((1, p)), np.diag(step), -np.diag(step)])
        with np.errstate(all="ignore"):
            values = self.parameters.log_prior(theta + shifts)
            middle, above, below = values[0], values[1 : p + 1], values[p + 1 :]
            slope = (above - below) / (2.0 * step)
            curvature = (2.0 * middle - above - below) / step**2
        least = LEAST_PRIOR / self.prior_sd**2
        curvature = np.where(np.isfinite(curvature), np.maximum(curvature, least), least)
        return np.where(np.isfinite(slope), slope, 0.0), np.diag(curvature)


@dataclass(frozen=True, eq=False)
class NoisySum:
    """One released sum: what it is of, its value and the standard deviation of its noise."""

    terms: PooledTerms
    value: np.ndarray
    sd: float


@dataclass(frozen=True, eq=False)
class RecordCount:
    """The number of records, and the standard deviation of its noise where it is protected."""

    value: float
    sd: float = 0.0


@dataclass(frozen=True, eq=False)
class SimulatedMoments:
    """Moments of one record's terms at a parameter vector.

    Attributes
    ----------
    mean : array, shape (q,)
    slope : array, shape (q, p)
        Derivatives of the mean.
    covariance : array, shape (q, q)
    information : array, shape (p, p)
        Of one record.
    left : array, shape (q, q)
        Covariance of what the control variate leaves of the terms.
    """

    mean: np.ndarray
    slope: np.ndarray
    covariance: np.ndarray
    information: np.ndarray
    left: np.ndarray


def simulated_moments(
    density: WholeRecordDensity,
    theta: np.ndarray,
    terms: Sequence[PooledTerms],
    sample: MadeUpRecords,
) -> SimulatedMoments:
    """Moments of some terms, joint, from records simulated at theta."""
    scores = density.at(theta).scores(sample.outcomes, sample.kinds)
    psi = np.column_stack([one.made_up(sample) for one in terms])
    mean, off = psi.mean(axis=0), scores.mean(axis=0)
    away = psi - mean
    slope = away.T @ (scores - off) / len(psi)
    information = scores.T @ scores / len(psi)
    regressed = slope @ matrix_power(information, -1.0)
    covariance = away.T @ away / len(psi)
    left = symmetric_part(covariance - regressed @ slope.T)
    return SimulatedMoments(mean - regressed @ off, slope, covariance, information, left)


# ---- the bound of a release ---------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class MetricAt:
    """Records simulated at theta and their scores in units of one record's information.

    Attributes
    ----------
    theta, metric, root : array
        theta, W = M^(-1/2) and its inverse, M the information of one record.
    scores : array, shape (N, p)
        u = W score.
    """

    model: PooledModel
    theta: np.ndarray
    metric: np.ndarray
    root: np.ndarray
    scores: np.ndarray
    sample: MadeUpRecords

    @classmethod
    def of(cls, model: PooledModel, theta: np.ndarray, seed: int) -> MetricAt:
        """The metric at a parameter vector."""
        sample = model.simulator.draw(theta, METRIC_RECORDS, seed)
        raw = model.density.at(theta).scores(sample.outcomes, sample.kinds)
        information = raw.T @ raw / len(raw)
        metric, root = matrix_power(information, -0.5), matrix_power(information, 0.5)
        return cls(model, theta, metric, root, raw @ metric, sample)

    def precision(self, psi: np.ndarray, sd: float, n: float) -> np.ndarray:
        """What a release of psi tells about W^-1 (theta - theta_t): H'(J + s^2 I)^-1 H."""
        away = psi - psi.mean(axis=0)
        slope = n * away.T @ self.scores / len(psi)
        spread = n * away.T @ away / len(psi) + sd**2 * np.eye(psi.shape[1])
        return symmetric_part(slope.T @ np.linalg.solve(spread, slope))

    def _best(
        self, tried: Sequence[PooledTerms], noise: NoiseSd, n: float, loss: float
    ) -> tuple[PooledTerms, np.ndarray]:
        """The largest bound within a loss of log determinant (per parameter), and its precision."""
        prior = self.metric @ self.model.prior_precision @ self.metric
        found = [self.precision(one.made_up(self.sample), noise(one.bound), n) for one in tried]
        dets = np.array([np.linalg.slogdet(one + prior)[1] for one in found])
        k = int(np.flatnonzero(dets >= dets.max() - loss * len(prior)).max())
        return tried[k], found[k]

    def score(self, noise: NoiseSd, n: float, loss: float) -> tuple[PooledTerms, np.ndarray]:
        """The score clipped at the largest norm that costs little information."""
        norms = np.sqrt((self.scores**2).sum(axis=1))
        at = self.model.density.at(self.theta)
        bounds = [max(float(np.quantile(norms, q)), LEAST_BOUND) for q in SCORE_QUANTILES]
        tried = [_KnownScores(at, self.metric, c, self.scores) for c in bounds]
        best, precision = self._best(tried, noise, n, loss)
        return ClippedScores(at, self.metric, best.bound), precision

    def moments(self, noise: NoiseSd, n: float, loss: float) -> tuple[PooledTerms, np.ndarray]:
        """The second moments clipped at the largest norm that costs little information."""
        center, frame = outcome_frame(self.sample)
        norms = ClippedMoments(center, frame, 1.0).norms(self.sample)
        bounds = [float(np.quantile(norms, q)) for q in MOMENT_QUANTILES]
        return self._best([ClippedMoments(center, frame, k) for k in bounds], noise, n, loss)


@dataclass(frozen=True, eq=False)
class _KnownScores(ClippedScores):
    """Clipped scores of a sample whose scores are known."""

    known: np.ndarray

    def made_up(self, sample: MadeUpRecords) -> np.ndarray:
        return clipped(self.known, self.bound)


def outcome_frame(sample: MadeUpRecords) -> tuple[np.ndarray, np.ndarray]:
    """Center of simulated outcomes, and a frame in which they are uncorrelated with variance 1."""
    flat = flat_outcomes(sample.outcomes)
    center = flat.mean(axis=0)
    covariance = np.atleast_2d(np.cov(flat, rowvar=False))
    scale = np.sqrt(np.maximum(np.diag(covariance), 1e-300))
    inner = covariance / scale / scale[:, None]
    return center, matrix_power(inner, -0.5) / scale[:, None]


# ---- the mode -----------------------------------------------------------------------------------
def pooled_mode(
    model: PooledModel,
    start: np.ndarray,
    releases: Sequence[NoisySum],
    count: RecordCount,
    seed: int,
    *,
    records: int = MODE_RECORDS,
    steps: int = MODE_STEPS,
    joint: bool = False,
) -> tuple[np.ndarray, np.ndarray]:
    """The mode of the prior and all releases, and the inverse of the precision there.

    Parameters
    ----------
    start : array, shape (p,)
    joint : bool
        Whether the covariance between releases, which read the same records, is used.
    """
    theta, p = np.array(start, dtype=float), len(start)
    value = np.concatenate([r.value for r in releases])
    noise = np.concatenate([np.full(len(r.value), r.sd**2) for r in releases])
    ends = np.cumsum([len(r.value) for r in releases])
    blocks = [slice(0, ends[-1])] if joint else [
        slice(end - len(r.value), end) for end, r in zip(ends, releases, strict=True)
    ]  # fmt: skip
    total = np.array(model.prior_precision)
    for _ in range(steps):
        sample = model.simulator.draw(theta, records, seed)
        found = simulated_moments(model.density, theta, [r.terms for r in releases], sample)
        spread = sum_covariance(found, noise, count)
        slope, curvature = model.prior_slope(theta)
        total, gradient = curvature, slope
        for b in blocks:
            right = np.column_stack([found.slope[b], (value / count.value - found.mean)[b]])
            solved = count.value * np.linalg.solve(spread[b, b], right)
            total = total + count.value * found.slope[b].T @ solved[:, :-1]
            gradient = gradient + count.value * found.slope[b].T @ solved[:, -1]
        total = symmetric_part(total)
        step = np.linalg.solve(total, gradient)
        if not np.isfinite(step).all():
            break
        share = shortening(step, model.prior_sd, found.information)
        theta = theta + share * step
        if share == 1.0 and step @ total @ step < SETTLED * p:
            break
    return theta, np.linalg.inv(total)


def sum_covariance(found: SimulatedMoments, noise: np.ndarray, count: RecordCount) -> np.ndarray:
    """Covariance of released sums: records, noise, and a number of records that is noisy itself."""
    off = count.sd**2 * np.outer(found.mean, found.mean)
    return count.value * found.covariance + np.diag(noise) + off
