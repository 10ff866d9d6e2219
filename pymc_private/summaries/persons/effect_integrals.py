r"""Densities of a person's rows with the person's normal effect integrated out, and their scores.

A person has rows j with predictors eta_j and an effect s z, z ~ N(0, 1). For a family with its
canonical link,

    log p(y | eta, s) = sum_j y_j eta_j + log E_z exp(S s z - sum_j b(eta_j + s z)) + h(y),

reads the outcomes in the integral by their sum S alone. E_z is a Gauss-Hermite rule, whose weights
add up to one: what is computed is the exact density of a model in which z is discrete. Scores are
those of that density,

    d/d eta_j = y_j - E[b'(eta_j + s z) | y],   d/ds = E[z (S - sum_j b'(eta_j + s z)) | y].

Normal rows need no rule: with r = y - eta, R = sum r, k rows and V = sigma^2 + k s^2, log p is
-[(k - 1) log sigma^2 + log V + sum r^2 / sigma^2 - s^2 R^2 / (sigma^2 V)] / 2 up to a constant.

Arrays: predictors (N, m) = (eta_1, ..., eta_K, s[, sigma]); `has` (N, K), which places hold a row;
outcomes (N, Q, K). All sums run along one person, in one order.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pytensor.tensor as pt
from scipy.special import expit, gammaln, ndtri, pdtr, pdtrik

LEAST_POINTS = 61
"""Points of the rule of counts, at least."""
MOST_MEAN = 1e12
"""Larger means of counts are drawn as this one."""


class EffectIntegral(Protocol):
    """A family of outcomes of a row, with the effect of the person integrated out."""

    @property
    def extra(self) -> int:
        """Predictors beyond those of rows and the scale of effects."""

    @property
    def most_pairs(self) -> int:
        """Most pairs of nodes that are affordable."""

    def log_density(self, predictors: np.ndarray, has: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log p of the rows of each person, shape (N, Q)."""

    def scores(self, predictors: np.ndarray, has: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Derivatives in the predictors, shape (N, Q, m)."""

    def outcomes(self, predictors: np.ndarray, z: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Outcomes (N, Q, K) of effects z (N, Q) at uniform numbers (N, Q, K)."""

    def symbolic(self, predictors: Any, has: np.ndarray, y: np.ndarray) -> Any:
        """The log density as a graph of predictors, a list of m vectors (N,)."""


class _Canonical:
    """A family with its canonical link and no scale of its own."""

    extra, most_pairs = 0, 256

    def __init__(self, points: int) -> None:
        self.z, weights = np.polynomial.hermite_e.hermegauss(points)
        self.log_weights = np.log(weights / weights.sum())

    # ---- what a family is --------------------------------------------------------------------
    def cumulant(self, at: Any) -> Any:
        """b."""
        raise NotImplementedError

    def mean(self, at: np.ndarray) -> np.ndarray:
        """b'."""
        raise NotImplementedError

    def symbolic_cumulant(self, at: Any) -> Any:
        """The function b as a graph."""
        raise NotImplementedError

    def base(self, y: np.ndarray) -> np.ndarray:
        """The part of h of one row."""
        return np.zeros(np.shape(y))

    # ---- densities ---------------------------------------------------------------------------
    def log_density(self, predictors: np.ndarray, has: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log p of the rows of each person, shape (N, Q)."""
        known = np.where(has[:, None], y, 0.0)
        logs = self._posterior_logs(predictors, has, known)
        most = logs.max(axis=2)
        inner = np.log(np.exp(logs - most[..., None]).sum(axis=2)) + most
        rows = np.where(has[:, None], self.base(known), 0.0)
        for k in range(has.shape[1]):
            inner += known[..., k] * predictors[:, None, k] + rows[..., k]
        return inner

    def _at(self, predictors: np.ndarray, width: int) -> np.ndarray:
        """The values eta + s z, shape (N, G, K)."""
        return predictors[:, None, :width] + (predictors[:, width, None] * self.z)[..., None]

    def _posterior_logs(
        self, predictors: np.ndarray, has: np.ndarray, known: np.ndarray
    ) -> np.ndarray:
        """Log of weight times what reads z, shape (N, Q, G)."""
        width = has.shape[1]
        at = self._at(predictors, width)
        total = np.zeros(at.shape[:2])
        count = np.zeros(known.shape[:2])
        for k in range(width):
            total += np.where(has[:, k, None], self.cumulant(at[..., k]), 0.0)
            count += known[..., k]
        effects = predictors[:, width, None] * self.z
        return (self.log_weights - total)[:, None] + count[..., None] * effects[:, None]

    def scores(self, predictors: np.ndarray, has: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Derivatives in the predictors, shape (N, Q, m)."""
        width, known = has.shape[1], np.where(has[:, None], y, 0.0)
        logs = self._posterior_logs(predictors, has, known)
        share = np.exp(logs - logs.max(axis=2, keepdims=True))
        share /= share.sum(axis=2, keepdims=True)
        means = np.where(has[:, None], self.mean(self._at(predictors, width)), 0.0)
        found = np.zeros((*known.shape[:2], width + 1))
        found[..., :width] = known
        total = np.zeros(means.shape[:2])
        for k in range(width):
            total += means[..., k]
            found[..., width] += known[..., k]
        count = np.array(found[..., width])
        found[..., width] = 0.0
        for g, z in enumerate(self.z):
            found[..., :width] -= share[..., g, None] * means[:, None, g]
            found[..., width] += share[..., g] * (z * (count - total[:, None, g]))
        return found

    def symbolic(self, predictors: Any, has: np.ndarray, y: np.ndarray) -> Any:
        """The log density as a graph of predictors, a list of m vectors (N,)."""
        width, known = has.shape[1], np.where(has[:, None], y, 0.0)
        scale, total = predictors[width], 0.0
        effects = scale[:, None] * self.z
        rows = np.where(has[:, None], self.base(known), 0.0).sum(axis=2)
        for k in range(width):
            b = self.symbolic_cumulant(predictors[k][:, None] + effects)
            total = total + pt.switch(has[:, k, None], b, 0.0)
            rows = rows + known[..., k] * predictors[k][:, None]
        logs = (self.log_weights - total)[:, None] + known.sum(axis=2)[..., None] * effects[:, None]
        return rows + pt.logsumexp(logs, axis=2)


class BernoulliEffects(_Canonical):
    """Answers 0 or 1 with a logit link."""

    def cumulant(self, at: Any) -> Any:
        """log(1 + e^t)."""
        return np.logaddexp(0.0, at)

    def mean(self, at: np.ndarray) -> np.ndarray:
        """1 / (1 + e^-t)."""
        return np.asarray(expit(at))

    def symbolic_cumulant(self, at: Any) -> Any:
        """log(1 + e^t)."""
        return pt.softplus(at)

    def outcomes(self, predictors: np.ndarray, z: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Outcomes (N, Q, K) of effects z (N, Q) at uniform numbers (N, Q, K)."""
        return np.where(unit < expit(_rows_at(predictors, z, unit)), 1.0, 0.0)


class PoissonEffects(_Canonical):
    """Counts with a log link; large ones know their effect well and need many points."""

    most_pairs = 64

    def __init__(self, points: int) -> None:
        super().__init__(max(points, LEAST_POINTS))

    def cumulant(self, at: Any) -> Any:
        """e^t."""
        return np.exp(at)

    def mean(self, at: np.ndarray) -> np.ndarray:
        """e^t."""
        return np.exp(at)

    def symbolic_cumulant(self, at: Any) -> Any:
        """e^t."""
        return pt.exp(at)

    def base(self, y: np.ndarray) -> np.ndarray:
        """-log y!."""
        return np.asarray(-gammaln(y + 1.0))

    def outcomes(self, predictors: np.ndarray, z: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Outcomes (N, Q, K) of effects z (N, Q) at uniform numbers (N, Q, K)."""
        mean = np.minimum(np.exp(_rows_at(predictors, z, unit)), MOST_MEAN)
        above = np.maximum(np.ceil(pdtrik(unit, mean)), 0.0)
        below = np.maximum(above - 1.0, 0.0)
        return np.where(pdtr(below, mean) >= unit, below, above)


class NormalEffects:
    """Real outcomes with a standard deviation common to all rows."""

    extra, most_pairs = 1, 256

    def __init__(self, points: int) -> None:
        del points  # exact

    def _parts(
        self, predictors: np.ndarray, has: np.ndarray, y: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """Residuals, their sums and sums of squares, rows, s, sigma^2 and V."""
        width = has.shape[1]
        r = np.where(has[:, None], y - predictors[:, None, :width], 0.0)
        total, squares, rows = (np.zeros(r.shape[:2]) for _ in range(3))
        for k in range(width):
            total += r[..., k]
            squares += r[..., k] ** 2
            rows += has[:, None, k]
        s, variance = predictors[:, width, None], predictors[:, width + 1, None] ** 2
        return r, total, squares, rows, s, variance, variance + rows * s**2

    def log_density(self, predictors: np.ndarray, has: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Log p of the rows of each person, shape (N, Q)."""
        _, total, squares, rows, s, variance, whole = self._parts(predictors, has, y)
        size = (rows - 1.0) * np.log(variance) + np.log(whole) + rows * np.log(2.0 * np.pi)
        square = squares / variance - s**2 * total**2 / (variance * whole)
        return -0.5 * (size + square)

    def scores(self, predictors: np.ndarray, has: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Derivatives in the predictors, shape (N, Q, m)."""
        width = has.shape[1]
        r, total, squares, rows, s, variance, whole = self._parts(predictors, has, y)
        found = np.empty((*total.shape, width + 2))
        pull = s**2 * total / (variance * whole)
        found[..., :width] = r / variance[..., None] - pull[..., None] * has[:, None]
        found[..., width] = -rows * s / whole + s * total**2 / whole**2
        sigma = predictors[:, width + 1, None]
        found[..., width + 1] = (
            -(rows - 1.0) / sigma
            - sigma / whole
            + squares / sigma**3
            - s**2 * total**2 * (whole + variance) / (sigma**3 * whole**2)
        )
        return found

    def outcomes(self, predictors: np.ndarray, z: np.ndarray, unit: np.ndarray) -> np.ndarray:
        """Outcomes (N, Q, K) of effects z (N, Q) at uniform numbers (N, Q, K)."""
        sigma = predictors[:, unit.shape[2] + 1, None, None]
        return _rows_at(predictors, z, unit) + sigma * ndtri(unit)

    def symbolic(self, predictors: Any, has: np.ndarray, y: np.ndarray) -> Any:
        """The log density as a graph of predictors, a list of m vectors (N,)."""
        width, rows = has.shape[1], has.sum(axis=1)[:, None].astype(float)
        s, variance = predictors[width][:, None], predictors[width + 1][:, None] ** 2
        total, squares, whole = 0.0, 0.0, variance + rows * s**2
        for k in range(width):
            known = np.where(has[:, None, k], y[..., k], 0.0)
            r = pt.switch(has[:, k, None], known - predictors[k][:, None], 0.0)
            total, squares = total + r, squares + r**2
        size = (rows - 1.0) * pt.log(variance) + pt.log(whole) + rows * np.log(2.0 * np.pi)
        return -0.5 * (size + squares / variance - s**2 * total**2 / (variance * whole))


def _rows_at(predictors: np.ndarray, z: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The values eta + s z of all rows, shape (N, Q, K)."""
    width = unit.shape[2]
    return predictors[:, None, :width] + (predictors[:, width, None] * z)[..., None]


FAMILIES: dict[str, type[Any]] = {
    "BernoulliRV": BernoulliEffects,
    "PoissonRV": PoissonEffects,
    "NormalRV": NormalEffects,
}
"""The families by the class of their distribution."""
