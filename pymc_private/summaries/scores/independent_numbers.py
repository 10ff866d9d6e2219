"""Projected numbers made independent, where their noise does not depend on the parameters.

Numbers have covariance v A + N then, v the ratio of variances of outcomes. With V' N V = I and
V' A V = diag(d), a generalized eigenproblem, V' times the numbers are independent with variances
v d + 1: with p numbers a density and its derivatives take p^2 operations instead of p^3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
import scipy


@dataclass(frozen=True, eq=False)
class IndependentNumbers:
    """The normal density of such numbers, given sums m over the nodes and v.

    Residuals are observed - projection m - slope (theta - center).

    Attributes
    ----------
    projection : array, shape (k, T p)
    observed : array, shape (k,)
    slope : array, shape (k, p)
    center : array, shape (p,)
    variances : array, shape (k,)
        d.
    constant : float
        What the log density has beside the terms of its numbers.
    """

    projection: np.ndarray
    observed: np.ndarray
    slope: np.ndarray
    center: np.ndarray
    variances: np.ndarray
    constant: float

    @classmethod
    def of(cls, pooled: Any) -> IndependentNumbers | None:
        """Those of a `score_likelihood.PooledLikelihood`; None where its noise is not positive."""
        try:
            values, vectors = scipy.linalg.eigh(pooled.outcome_covariance, pooled.noise_covariance)
        except (np.linalg.LinAlgError, ValueError):
            return None
        projection = vectors.T @ pooled.projection
        return cls(
            projection,
            vectors.T @ pooled.observed - projection @ pooled.correction,
            projection @ pooled.slope,
            pooled.center,
            np.maximum(values, 0.0),
            float(np.linalg.slogdet(vectors)[1]),
        )

    def log_density(self, sums: np.ndarray, ratio: np.ndarray, theta: np.ndarray) -> np.ndarray:
        """At sums (S, T p), ratios (S,) and parameters (S, p), shape (S,); not finite as it is."""
        away = theta - self.center
        residual = self.observed - sums @ self.projection.T - away @ self.slope.T
        spread = ratio[:, None] * self.variances + 1.0
        return self.constant - 0.5 * (residual**2 / spread + np.log(spread)).sum(axis=1)

    def slopes(
        self, sums: np.ndarray, ratio: float, theta: np.ndarray
    ) -> tuple[float, np.ndarray, float, np.ndarray]:
        """The same at one point, with derivatives in sums, ratio and parameters."""
        residual = self.observed - self.projection @ sums - self.slope @ (theta - self.center)
        spread = ratio * self.variances + 1.0
        a = residual / spread
        value = self.constant - 0.5 * float(residual @ a + np.log(spread).sum())
        of_ratio = 0.5 * float((self.variances * (a**2 - 1.0 / spread)).sum())
        return value, a @ self.projection, of_ratio, a @ self.slope

    def symbolic(self, sums: Any, ratio: Any, theta: Any) -> Any:
        """The same as a graph."""
        away = pt.dot(self.slope, theta - self.center)
        residual = self.observed - pt.dot(self.projection, sums) - away
        spread = ratio * self.variances + 1.0
        return self.constant - 0.5 * pt.sum(residual**2 / spread + pt.log(spread))
