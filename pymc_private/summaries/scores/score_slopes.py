"""The likelihood of released scores and its derivatives at one point, by NumPy (T36).

Of the log densities at the nodes and the parameters, which is what the model's own density gives
and what the correction reads. Derivatives by hand: with r ~ N(0, C), a = C^-1 r and
M = (a a' - C^-1) / 2, a change of r and C changes the log density by -a' dr + <M, dC>.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from scipy.linalg import lapack

from pymc_private.summaries.scores.quadratic_noise import RoundNoise, StructuredNoise
from pymc_private.summaries.scores.score_likelihood import (
    LEAST_VARIANCE_RATIO,
    MOST_VARIANCE_RATIO,
    PooledLikelihood,
)

Pullback = Callable[[np.ndarray], np.ndarray]
_cholesky = pt.linalg.cholesky if hasattr(pt, "linalg") else pt.slinalg.cholesky
_solve_triangular = (
    pt.linalg.solve_triangular if hasattr(pt, "linalg") else pt.slinalg.solve_triangular
)


class PooledSlopes:
    """`PooledLikelihood` as a function of log densities at its nodes (N, Q) and parameters (p,).

    Parameters
    ----------
    pooled : PooledLikelihood
    """

    def __init__(self, pooled: PooledLikelihood) -> None:
        self.pooled = pooled
        self.noises = [
            noise if isinstance(noise, StructuredNoise) else NoiseSlopes(noise)
            for noise in (pooled.curvature_noise, pooled.reference_noise)
            if noise.sd != 0.0 and len(noise.projection)
        ]

    def __call__(
        self, logs: np.ndarray, theta: np.ndarray
    ) -> tuple[float, tuple[np.ndarray, np.ndarray]]:
        """Value and derivatives; the value is NaN where the covariance is not positive."""
        pooled = self.pooled
        with np.errstate(all="ignore"):
            mass = logs + pooled.base
            mass -= mass.max(axis=1, keepdims=True)
            np.exp(mass, out=mass)
            mass /= mass.sum(axis=1, keepdims=True)
            found = mass.ravel() @ pooled.quick_terms
            value, of_means, of_ratio, of_theta = self._normal(found[:-1], found[-1], theta)
            weight = pooled.quick_terms @ np.append(of_means, of_ratio)
            weight = weight.reshape(mass.shape)
            weight -= (mass * weight).sum(axis=1, keepdims=True)
            return value, (mass * weight, of_theta)

    def _normal(
        self, sums: np.ndarray, raw: float, theta: np.ndarray
    ) -> tuple[float, np.ndarray, float, np.ndarray]:
        """The normal log density, and its derivatives in sums, ratio and parameters."""
        pooled = self.pooled
        ratio = min(max(raw, LEAST_VARIANCE_RATIO), MOST_VARIANCE_RATIO)
        if pooled.independent is not None:
            value, of_sums, of_ratio, of_theta = pooled.independent.slopes(sums, ratio, theta)
            return value, of_sums, of_ratio if raw == ratio else 0.0, of_theta
        means = sums + pooled.correction + pooled.slope @ (theta - pooled.center)
        residual = pooled.observed - pooled.projection @ means
        covariance = ratio * pooled.outcome_covariance + pooled.noise_covariance
        by_round, pullbacks = pooled.by_round(means), []
        for noise in self.noises:
            added, pullback = noise(by_round)
            covariance += added
            pullbacks.append(pullback)
        factor, failed = lapack.dpotrf(covariance, lower=1)
        if failed or not np.isfinite(residual).all():
            return np.nan, np.zeros_like(means), 0.0, np.zeros_like(theta)
        inverse = lapack.dpotri(factor, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        a = inverse @ residual
        value = -0.5 * float(residual @ a) - float(np.log(factor.diagonal()).sum())
        outer = 0.5 * (np.outer(a, a) - inverse)
        of_means = a @ pooled.projection
        for pullback in pullbacks:
            of_means[: by_round.size] += pullback(outer)
        of_ratio = float((outer * pooled.outcome_covariance).sum()) if raw == ratio else 0.0
        return value, of_means, of_ratio, of_means @ pooled.slope

    def symbolic(self, logs: Variable, theta: Variable) -> Variable:
        """The value as a graph."""
        pooled = self.pooled
        mass = pt.special.softmax(logs + pooled.base, axis=1).flatten()
        found = pt.dot(mass, pooled.node_terms)
        ratio = pt.clip(found[-1], LEAST_VARIANCE_RATIO, MOST_VARIANCE_RATIO)
        if pooled.independent is not None:
            return pooled.independent.symbolic(found[:-1], ratio, theta)
        means = found[:-1] + pooled.correction + pt.dot(pooled.slope, theta - pooled.center)
        residual = pooled.observed - pt.dot(pooled.projection, means)
        covariance = ratio * pooled.outcome_covariance + pooled.noise_covariance
        rounds, p, _ = pooled.curvature_noise.scaling.shape
        by_round = means[: rounds * p].reshape((rounds, p))
        for noise in self.noises:
            covariance = covariance + noise.symbolic(by_round)
        factor = _cholesky(covariance)
        white = _solve_triangular(factor, residual, lower=True)
        return -0.5 * pt.sum(white**2) - pt.sum(pt.log(pt.diagonal(factor)))


class NoiseSlopes:
    """`RoundNoise` at one point, with derivatives.

    With e_t = E_t m_t and C = c sum_tu [(e_t . e_u) P_t P_u' + (P_t e_u)(P_u e_t)'], a symmetric M
    gives d<M, C>/de_t = 2 c sum_u [<M, P_t P_u'> e_u + P_u' M P_t e_u].

    Parameters
    ----------
    noise : RoundNoise
    """

    def __init__(self, noise: RoundNoise) -> None:
        self.noise, blocks = noise, noise.projection
        self.rounds, self.k, self.p = blocks.shape
        self.weight = noise.sd**2 / 2.0
        if noise.common:
            pairs = np.einsum("tij,ukj->tuik", blocks, blocks, optimize=True)
        else:
            pairs = np.einsum("tij,tkj->tik", blocks, blocks)
        self.pairs = np.ascontiguousarray(pairs.reshape(-1, self.k**2))
        self.flat = np.ascontiguousarray(blocks.reshape(-1, self.p))  # (T k, p)

    def __call__(self, means: np.ndarray) -> tuple[np.ndarray, Pullback]:
        """The covariance at means (T, p), and what takes M to derivatives in the means."""
        scaling = self.noise.scaling
        scaled = (scaling @ means[: self.rounds, :, None])[..., 0]
        inner = scaled @ scaled.T if self.noise.common else (scaled**2).sum(axis=1)
        left, right = self._crossed(scaled)
        first = (inner.ravel() @ self.pairs).reshape(self.k, self.k)

        def pullback(outer: np.ndarray) -> np.ndarray:
            paired = self.pairs @ outer.ravel()
            if self.noise.common:
                slopes = paired.reshape(self.rounds, self.rounds) @ scaled
                turned = (left @ outer).reshape(self.rounds, -1)  # M P_t e_u: (t, u k)
                slopes += turned @ self.flat
            else:
                slopes = paired[:, None] * scaled
                slopes += ((left @ outer)[:, None, :] @ self.noise.projection)[:, 0]
            found = np.zeros_like(means)
            found[: self.rounds] = (slopes[:, None, :] @ scaling)[:, 0] * (2.0 * self.weight)
            return found.ravel()

        return self.weight * (first + left.T @ right), pullback

    def _crossed(self, scaled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """P_t e_u and P_u e_t, a row for each pair of rounds (t, u)."""
        if not self.noise.common:
            own = (self.noise.projection @ scaled[..., None])[..., 0]
            return own, own
        crossed = (self.flat @ scaled.T).reshape(self.rounds, self.k, self.rounds)
        left = np.swapaxes(crossed, 1, 2)
        shape = (self.rounds**2, self.k)
        return left.reshape(shape), np.swapaxes(left, 0, 1).reshape(shape)

    def symbolic(self, means: Variable) -> Variable:
        """The covariance as a graph of means (T, p)."""
        rounds, k = self.rounds, self.k
        blocks = self.noise.projection
        scaled = pt.sum(self.noise.scaling * means[:rounds, None, :], axis=2)  # (T, p)
        if self.noise.common:
            inner = pt.dot(scaled, scaled.T)
            crossed = pt.dot(self.flat, scaled.T).reshape((rounds, k, rounds))
            left = crossed.dimshuffle(0, 2, 1).reshape((rounds * rounds, k))
            right = crossed.dimshuffle(2, 0, 1).reshape((rounds * rounds, k))
        else:
            inner = pt.sum(scaled**2, axis=1)
            left = right = pt.sum(blocks * scaled[:, None, :], axis=2)
        first = pt.dot(inner.flatten(), self.pairs).reshape((k, k))
        return self.weight * (first + pt.dot(left.T, right))
