"""Families of the outcome of one row: log density in the predictor t, with derivatives.

Each formula is written once, for arrays (`ARRAYS`) and for graphs (`GRAPHS`). All log densities are
concave in t. Bernoulli has a logit link, counts a logarithmic one; e^t is the mean of counts.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np
import pytensor.tensor as pt
from scipy.special import betainc, digamma, expit, gammaln, pdtr

MOST_MEAN = 1e12
"""Larger means of counts are drawn as this one."""
HALVINGS = 64
"""Most halvings of a bracket of a count."""

ARRAYS = SimpleNamespace(
    exp=np.exp,
    log=np.log,
    sqrt=np.sqrt,
    where=np.where,
    gammaln=gammaln,
    wide=lambda v: v,
    total=lambda v: v,
    beside_nodes=lambda y: y[..., None],
)
"""Functions of arrays of one place."""
GRAPHS = SimpleNamespace(
    exp=pt.exp,
    log=pt.log,
    sqrt=pt.sqrt,
    where=pt.switch,
    gammaln=pt.gammaln,
    wide=lambda v: v[..., None],
    total=lambda v: v.sum(axis=-1),
    beside_nodes=lambda y: y[..., None, :],
)
"""Functions of graphs of all places, along the last axis: `wide` adds it, `total` sums over it."""


class RowFamily(Protocol):
    """The distribution of one row given its predictor t and further parameters."""

    extra: int
    """Parameters beside t."""
    canonical: bool
    """Whether log p is y t - b(t) + h(y)."""

    def log_density(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """Log p(y | t) up to what reads y alone."""

    def slope(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """Its derivative in t."""

    def slope_and_weight(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> tuple[Any, Any]:
        """The same, and minus the second derivative in t."""

    def extra_slopes(self, t: Any, y: Any, extra: list[Any]) -> list[Any]:
        """Its derivatives in the further parameters, of arrays."""

    def start(self, ops: Any, eta: list[Any], y: list[Any], extra: list[Any]) -> list[Any]:
        """How far t is from eta as the outcomes suggest, and with which weight, of each row.

        Outcomes are 0 in places without a row.
        """

    def base(self, y: np.ndarray) -> np.ndarray:
        """What of log p reads y alone."""

    def outcomes(self, t: np.ndarray, unit: np.ndarray, extra: list[Any]) -> np.ndarray:
        """Quantiles of the outcome at uniform numbers."""


class BernoulliRows:
    """Answers 0 or 1 with a logit link."""

    extra, canonical = 0, True

    def log_density(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """y t - log(1 + e^t)."""
        return y * t - ops.where(t > 0.0, t, 0.0) - ops.log(1.0 + ops.exp(-abs(t)))

    def _mean(self, ops: Any, t: Any) -> Any:
        small = ops.exp(-abs(t))
        return ops.where(t > 0.0, 1.0, small) / (1.0 + small)

    def slope(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """y - p."""
        return y - self._mean(ops, t)

    def slope_and_weight(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> tuple[Any, Any]:
        """y - p and p (1 - p)."""
        mean = self._mean(ops, t)
        return y - mean, mean * (1.0 - mean)

    def extra_slopes(self, t: Any, y: Any, extra: list[Any]) -> list[Any]:
        """None."""
        return []

    def start(self, ops: Any, eta: list[Any], y: list[Any], extra: list[Any]) -> list[Any]:
        """From the logit of (y + 1/2) / 2."""
        means = [(own + 0.5) / 2.0 for own in y]
        return [
            (ops.log(mean / (1.0 - mean)) - own, mean * (1.0 - mean))
            for own, mean in zip(eta, means, strict=True)
        ]

    def base(self, y: np.ndarray) -> np.ndarray:
        """0."""
        return np.zeros(np.shape(y))

    def outcomes(self, t: np.ndarray, unit: np.ndarray, extra: list[Any]) -> np.ndarray:
        """1 below the probability."""
        return np.where(unit < expit(t), 1.0, 0.0)


class PoissonRows:
    """Counts with a log link."""

    extra, canonical = 0, True

    def log_density(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """y t - e^t."""
        return y * t - ops.exp(t)

    def slope(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """y - e^t."""
        return y - ops.exp(t)

    def slope_and_weight(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> tuple[Any, Any]:
        """y - e^t and e^t."""
        mean = ops.exp(t)
        return y - mean, mean

    def extra_slopes(self, t: Any, y: Any, extra: list[Any]) -> list[Any]:
        """None."""
        return []

    def start(self, ops: Any, eta: list[Any], y: list[Any], extra: list[Any]) -> list[Any]:
        """From log(y + 1/2)."""
        return [(ops.log(v + 0.5) - own, v + 0.5) for own, v in zip(eta, y, strict=True)]

    def base(self, y: np.ndarray) -> np.ndarray:
        """-log y!."""
        return np.asarray(-gammaln(y + 1.0))

    def outcomes(self, t: np.ndarray, unit: np.ndarray, extra: list[Any]) -> np.ndarray:
        """Quantiles."""
        mean = np.minimum(np.exp(t), MOST_MEAN)
        return count_quantiles(lambda k, mean: pdtr(k, mean), unit, mean, np.sqrt(mean), [mean])


class NegativeBinomialRows:
    """Counts with a log link and variance mean + mean^2 / alpha."""

    extra, canonical = 1, False

    def log_density(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """The logarithm of Gamma(y + a) / Gamma(a) a^a e^(y t) / (a + e^t)^(y + a)."""
        (alpha,) = extra
        constant = ops.gammaln(y + alpha) - ops.gammaln(alpha) - y * ops.log(alpha)
        return constant + y * t - (y + alpha) * ops.log(1.0 + ops.exp(t) / alpha)

    def slope(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> Any:
        """a (y - e^t) / (a + e^t)."""
        (alpha,) = extra
        share = 1.0 / (1.0 + ops.exp(t) / alpha)
        return y * share - alpha * (1.0 - share)

    def slope_and_weight(self, ops: Any, t: Any, y: Any, extra: list[Any]) -> tuple[Any, Any]:
        """The same and (y + a) a e^t / (a + e^t)^2."""
        (alpha,) = extra
        share = 1.0 / (1.0 + ops.exp(t) / alpha)
        slope = y * share - alpha * (1.0 - share)
        return slope, (y + alpha) * share * (1.0 - share)

    def extra_slopes(self, t: Any, y: Any, extra: list[Any]) -> list[Any]:
        """The derivative in a."""
        (alpha,) = extra
        ratio = np.exp(t) / alpha
        rest = ratio - y / alpha
        shape = digamma(y + alpha) - digamma(alpha)
        return [shape - np.log(1.0 + ratio) + rest / (1.0 + ratio)]

    def start(self, ops: Any, eta: list[Any], y: list[Any], extra: list[Any]) -> list[Any]:
        """From log(y + 1/2)."""
        (alpha,) = extra
        return [
            (ops.log(v + 0.5) - own, (v + 0.5) * alpha / (v + 0.5 + alpha))
            for own, v in zip(eta, y, strict=True)
        ]

    def base(self, y: np.ndarray) -> np.ndarray:
        """-log y!."""
        return np.asarray(-gammaln(y + 1.0))

    def outcomes(self, t: np.ndarray, unit: np.ndarray, extra: list[Any]) -> np.ndarray:
        """Quantiles."""
        mean = np.minimum(np.exp(t), MOST_MEAN)
        alpha = np.broadcast_to(extra[0], mean.shape)
        sd = np.sqrt(mean + mean**2 / alpha)

        def below(k: np.ndarray, mean: np.ndarray, alpha: np.ndarray) -> np.ndarray:
            return np.asarray(betainc(alpha, k + 1.0, alpha / (alpha + mean)))

        return count_quantiles(below, unit, mean, sd, [mean, alpha])


def count_quantiles(
    below: Callable[..., np.ndarray],
    unit: np.ndarray,
    mean: np.ndarray,
    sd: np.ndarray,
    parameters: list[np.ndarray],
) -> np.ndarray:
    """The least whole numbers k with P(Y <= k) >= unit, each from its own numbers alone.

    They lie within sd times the root of the odds of the mean (Cantelli's inequality); the bracket
    is halved. What is no number gives NaN.
    """
    odds = np.sqrt(unit / (1.0 - unit))
    low = np.maximum(np.floor(mean - sd / odds) - 1.0, -1.0).ravel()  # P(Y <= low) < unit
    high = (np.ceil(mean + sd * odds) + 1.0).ravel()
    unit, flat = np.ravel(unit), [np.ravel(v) for v in parameters]
    for _ in range(HALVINGS):
        left = np.flatnonzero(high - low > 1.0)
        if not len(left):
            break
        middle = np.floor((low[left] + high[left]) / 2.0)
        enough = below(middle, *(v[left] for v in flat)) >= unit[left]
        high[left] = np.where(enough, middle, high[left])
        low[left] = np.where(enough, low[left], middle)
    return np.where(np.isfinite(high - low), high, np.nan).reshape(mean.shape)
