"""Concave log-likelihoods of a linear predictor, with the rest of a tangent in stable form.

`bend` is h(u) + h'(u) du - h(u + du), a Bregman divergence. Computed as a difference of sums its
error would be that of the sums; these forms are relative to its own size (theory T21).
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from scipy.special import expit, softmax

FAR = 300.0
"""Beyond this many nats e^x is no longer formed."""


class Curve(Protocol):
    """h, the log-likelihood of each row or record, at its power; concave."""

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u), rows first."""

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """h(u) + h'(u) du - h(u + du), at least 0."""


@dataclass(frozen=True, eq=False)
class Logistic:
    """Weight times the log-likelihood of 0/1 records with logit u."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> np.ndarray:
        """w (y - sigmoid(u))."""
        return self.weight * (self.y[:, None] - expit(u))

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """w (log(1 + sigmoid(u) (e^du - 1)) - sigmoid(u) du), which no record's outcome moves.

        Of du and -du, with sigmoid(-u) for sigmoid(u), the one that does not overflow is taken.
        """
        up = du > 0.0
        p = expit(np.where(up, -u, u))
        x = -np.abs(du)
        return self.weight * (np.log1p(p * np.expm1(x)) - p * x)


@dataclass(frozen=True, eq=False)
class Quadratic:
    """Minus weight times (u - y)^2 / 2."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> np.ndarray:
        """w (y - u)."""
        return self.weight * (self.y[:, None] - u)

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """w du^2 / 2."""
        return 0.5 * self.weight * du**2


@dataclass(frozen=True, eq=False)
class Exponential:
    """Weight times (y u - e^u): counts with log rate u."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> np.ndarray:
        """w (y - e^u)."""
        return self.weight * (self.y[:, None] - np.exp(u))

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """w e^u (e^du - 1 - du)."""
        return self.weight * np.exp(u) * _second_order(du)


@dataclass(frozen=True, eq=False)
class Scores:
    """c'u - w log sum e^u for each record: the scores of a softmax, K rows one after another.

    Parameters
    ----------
    counts : array, shape (n, K)
        c, at the power.
    weight : array, shape (n,)
        w, at the power.
    """

    counts: np.ndarray
    weight: np.ndarray

    @classmethod
    def of_slope(cls, derivative: Callable[[np.ndarray], np.ndarray], n: int, k: int) -> Scores:
        """Read c and w off the slope c - w p at two points, of a density that has this form."""
        zero, tilted = np.zeros((n, k)), np.zeros((n, k))
        tilted[:, 0] = np.log(3.0)
        one, two = (derivative(u.reshape(-1, 1)).reshape(n, k) for u in (zero, tilted))
        weight = (one - two)[:, 0] / (3.0 / (k + 2.0) - 1.0 / k)
        return cls(one + weight[:, None] / k, weight)

    def _shaped(self, u: np.ndarray) -> np.ndarray:
        return u.reshape(*self.counts.shape, u.shape[1])

    def slope(self, u: np.ndarray) -> np.ndarray:
        """Give c - w softmax(u)."""
        p = softmax(self._shaped(u), axis=1)
        return (self.counts[:, :, None] - self.weight[:, None, None] * p).reshape(u.shape)

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """Give w log(1 + sum p (e^x - 1 - x)), with x = du less its mean under p = softmax(u)."""
        p, x = softmax(self._shaped(u), axis=1), self._shaped(du)
        x = x - (p * x).sum(axis=1, keepdims=True)
        top = np.maximum(x.max(axis=1), 0.0)
        far = top > FAR
        near = np.log1p((p * _second_order(np.where(far[:, None], 0.0, x))).sum(axis=1))
        if far.any():
            with np.errstate(divide="ignore"):
                total = (p * np.exp(x - top[:, None])).sum(axis=1)
                near = np.where(far, top + np.log(total), near)
        return self.weight[:, None] * near


@dataclass(frozen=True, eq=False)
class General:
    """Any concave h: its rest is a difference of three numbers of one record.

    Parameters
    ----------
    value : callable
        h at the power, one number per record, from predictors (records times elements, chains).
    derivative : callable
        Its slope in every predictor.
    """

    value: Callable[[np.ndarray], np.ndarray]
    derivative: Callable[[np.ndarray], np.ndarray]

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u)."""
        return self.derivative(u)

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """h(u) + h'(u) du - h(u + du) for each record, at least 0."""
        first = self.value(u)
        tangent = (self.derivative(u) * du).reshape(len(first), -1, u.shape[1]).sum(axis=1)
        return np.maximum(first + tangent - self.value(u + du), 0.0)


@dataclass(frozen=True, eq=False)
class Residual:
    """What a log prior h is besides its sure curvature: h(u) + q (u - c)^2 / 2, concave.

    Parameters
    ----------
    prior : General
        h, all of its elements as one record.
    sure : array, shape (k,)
        q, at most -h''.
    center : array, shape (k,)
    """

    prior: General
    sure: np.ndarray
    center: np.ndarray

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u) + q (u - c)."""
        return self.prior.slope(u) + self.sure[:, None] * (u - self.center[:, None])

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """That of h less q du^2 / 2, at least 0."""
        return np.maximum(self.prior.bend(u, du) - 0.5 * self.sure @ du**2, 0.0)


@dataclass(frozen=True, eq=False)
class Joined:
    """The curve of the first rows, and another one of the rest."""

    first: Curve
    rest: Curve
    count: int

    def slope(self, u: np.ndarray) -> np.ndarray:
        """Of all rows."""
        return np.concatenate([self.first.slope(u[: self.count]), self.rest.slope(u[self.count :])])

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """Of all records, and of the rest."""
        k = self.count
        return np.concatenate([self.first.bend(u[:k], du[:k]), self.rest.bend(u[k:], du[k:])])


def _second_order(x: np.ndarray) -> np.ndarray:
    """e^x - 1 - x; by its series near zero."""
    small = np.abs(x) < 1e-3
    s = np.where(small, x, 0.0)
    series = s * s * (0.5 + s * (1 / 6 + s * (1 / 24 + s / 120)))
    with np.errstate(over="ignore"):
        return np.where(small, series, np.expm1(x) - x)
