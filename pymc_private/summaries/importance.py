"""Adaptive importance sampling: weighted draws from a density on R^p with t proposals.

Proposals are multivariate t with five degrees of freedom. Their center and covariance follow the
weighted draws of a few rounds; while few draws carry the weight, weights are flattened first. The
draws of the last round are kept with their weights. Good for posteriors of one mode, at a
thousandth of the cost of MCMC; the effective sample size tells whether to trust it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

DEGREES = 5.0
"""Degrees of freedom of the proposals."""
DRAWS, ROUNDS = 1500, 4
FIRST_INFLATION, INFLATION = 1.4, 1.1
"""Factors of the covariance of a proposal, in the first round and later."""
FEW, VERY_FEW = 60.0, 15.0
"""Effective draws below which weights are raised to 1/2, and to 1/4, for adaptation."""

LogDensity = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class WeightedDraws:
    """Draws with weights that sum to one.

    Attributes
    ----------
    points : array, shape (S, p)
    weights : array, shape (S,)
    """

    points: np.ndarray
    weights: np.ndarray

    @property
    def effective(self) -> float:
        """Effective number of independent draws, 1 / sum of squared weights."""
        return float(1.0 / (self.weights**2).sum())

    @property
    def mean(self) -> np.ndarray:
        """Weighted mean, shape (p,)."""
        return self.weights @ self.points

    @property
    def covariance(self) -> np.ndarray:
        """Weighted covariance, shape (p, p)."""
        away = self.points - self.mean
        return (away * self.weights[:, None]).T @ away

    @property
    def sd(self) -> np.ndarray:
        """Weighted standard deviations, shape (p,)."""
        return np.sqrt(np.diag(self.covariance))

    def quantiles(self, shares: np.ndarray | list[float]) -> np.ndarray:
        """Weighted quantiles of each coordinate, shape (len(shares), p)."""
        shares = np.asarray(shares, dtype=float)
        found = np.empty((len(shares), self.points.shape[1]))
        for j, column in enumerate(self.points.T):
            order = np.argsort(column)
            total = np.cumsum(self.weights[order])
            places = np.searchsorted(total, shares * total[-1]).clip(0, len(column) - 1)
            found[:, j] = column[order[places]]
        return found


def importance_draws(
    log_density: LogDensity,
    center: np.ndarray,
    covariance: np.ndarray,
    rng: np.random.Generator,
    draws: int = DRAWS,
    rounds: int = ROUNDS,
    climb: bool = True,
    enough: float = math.inf,
) -> WeightedDraws:
    """Weighted draws from a density known up to a constant.

    Parameters
    ----------
    log_density : callable
        (S, p) to (S,); what is not finite counts as no density.
    center, covariance : array, shapes (p,) and (p, p)
        A normal approximation to start from.
    rng : numpy.random.Generator
    draws, rounds : int
        Draws of the last round; earlier ones take half as many.
    climb : bool
        Whether to look for the mode first.
    enough : float
        Effective draws, of weights as they are, with which a round after the first is the last one.
    """
    center = np.array(center, dtype=float)
    if climb:
        center = _climbed(log_density, center, np.linalg.cholesky(covariance))
    for k in range(rounds):
        last = k == rounds - 1
        inflation = INFLATION if k else FIRST_INFLATION
        count = draws if last else max(draws // 2, 1)
        points, proposal = proposed(center, covariance * inflation, rng, count, DEGREES)
        logs = np.asarray(log_density(points), dtype=float) - proposal
        found = WeightedDraws(points, effective_weights(logs, flatten=not last))
        if k and enough < math.inf:
            plain = WeightedDraws(points, effective_weights(logs, flatten=False))
            if plain.effective >= enough:
                return plain
        center, covariance = found.mean, proper_covariance(found.covariance)
    return found


def proposed(
    center: np.ndarray,
    covariance: np.ndarray,
    rng: np.random.Generator,
    count: int,
    degrees: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of a multivariate t and their log density up to a constant."""
    p = len(center)
    scale = np.sqrt(degrees / rng.chisquare(degrees, count))
    white = rng.standard_normal((count, p)) * scale[:, None]
    logs = -0.5 * (degrees + p) * np.log1p((white**2).sum(axis=1) / degrees)
    return center + white @ np.linalg.cholesky(covariance).T, logs


def effective_weights(logs: np.ndarray, flatten: bool) -> np.ndarray:
    """Normalized weights of log weights; equal ones where nothing has density.

    `flatten`: raised to a power below one where few draws would carry them, for adaptation.
    """
    logs = np.where(np.isnan(logs), -np.inf, logs)
    top = logs.max()
    if not np.isfinite(top):
        return np.full(len(logs), 1.0 / len(logs))
    weights = np.exp(logs - top)
    weights /= weights.sum()
    effective = 1.0 / (weights**2).sum()
    if flatten and effective < FEW:
        weights **= 0.5 if effective > VERY_FEW else 0.25
        weights /= weights.sum()
    return np.asarray(weights)


def proper_covariance(covariance: np.ndarray) -> np.ndarray:
    """A covariance with a little more of its own size on the diagonal."""
    p = len(covariance)
    return covariance + (1e-10 + 1e-9 * np.trace(covariance) / p) * np.eye(p)


def _climbed(log_density: LogDensity, center: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """A point nearer to the mode, by a few quasi-Newton steps in whitened coordinates."""

    def fall(white: np.ndarray) -> float:
        value = float(log_density((center + factor @ white)[None])[0])
        return -value if np.isfinite(value) else 1e300

    def slope(white: np.ndarray) -> np.ndarray:
        step = 1e-4
        shifts = np.concatenate([np.eye(len(white)), -np.eye(len(white))]) * step
        values = np.asarray(log_density(center + (white + shifts) @ factor.T))
        ahead, behind = values[: len(white)], values[len(white) :]
        return np.nan_to_num(-(ahead - behind) / (2.0 * step), posinf=0.0, neginf=0.0)

    options = {"maxiter": 15, "gtol": 0.1}
    start = np.zeros(len(center))
    found = scipy.optimize.minimize(fall, start, jac=slope, method="BFGS", options=options)
    return center + factor @ found.x if np.isfinite(found.fun) else center
