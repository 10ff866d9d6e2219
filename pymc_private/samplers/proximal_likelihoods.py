"""Concave log-likelihoods of linear predictors, with stable tangent remainders.

The tangent remainder of h is h(u) + h'(u) du - h(u + du), a Bregman divergence. Computed as a
difference of sums its error would be that of the sums; the forms here are accurate relative to
its own size (T21). Logistic, Poisson and normal likelihoods are recognized from the graph and
from slopes at a few points; any other concave likelihood is differenced record by record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.scalar.basic import Exp
from pytensor.scalar.math import Sigmoid
from scipy.special import expit, softmax

from pymc_private.analysis.affine import AffineKind, affine_kinds
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.certificates.conjugate_families import (
    constants_in,
    distribution_arguments,
    elementwise_of,
)
from pymc_private.models.distributions import (
    distribution_name,
    domain_is_in_support,
    observes_unchanged,
)
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import SingleRecord
from pymc_private.privacy.rounding import float_down

MOST_EXPONENT = 300.0
"""Beyond this many nats e^x is no longer formed."""


class Curve(Protocol):
    """h, the log-likelihood of each row or record, at its power; concave."""

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u), rows first."""

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """h(u) + h'(u) du - h(u + du), at least 0."""


@dataclass(frozen=True, eq=False)
class LogisticCurve:
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
class QuadraticCurve:
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
class ExponentialCurve:
    """Weight times (y u - e^u): counts with log rate u."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> np.ndarray:
        """w (y - e^u)."""
        return self.weight * (self.y[:, None] - np.exp(u))

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """w e^u (e^du - 1 - du)."""
        return self.weight * np.exp(u) * _exp_remainder(du)


@dataclass(frozen=True, eq=False)
class SoftmaxCurve:
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
    def of_slope(
        cls, derivative: Callable[[np.ndarray], np.ndarray], n: int, k: int
    ) -> SoftmaxCurve:
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
        far = top > MOST_EXPONENT
        near = np.log1p((p * _exp_remainder(np.where(far[:, None], 0.0, x))).sum(axis=1))
        if far.any():
            with np.errstate(divide="ignore"):
                total = (p * np.exp(x - top[:, None])).sum(axis=1)
                near = np.where(far, top + np.log(total), near)
        return self.weight[:, None] * near


@dataclass(frozen=True, eq=False)
class GeneralCurve:
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
class PriorResidualCurve:
    """What a log prior h is besides its sure curvature: h(u) + q (u - c)^2 / 2, concave.

    Parameters
    ----------
    prior : General
        h, all of its elements as one record.
    sure : array, shape (k,)
        q, at most -h''.
    center : array, shape (k,)
    """

    prior: GeneralCurve
    sure: np.ndarray
    center: np.ndarray

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u) + q (u - c)."""
        return self.prior.slope(u) + self.sure[:, None] * (u - self.center[:, None])

    def bend(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """That of h less q du^2 / 2, at least 0."""
        return np.maximum(self.prior.bend(u, du) - 0.5 * self.sure @ du**2, 0.0)


@dataclass(frozen=True, eq=False)
class JoinedCurve:
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


def _exp_remainder(x: np.ndarray) -> np.ndarray:
    """e^x - 1 - x; by its series near zero."""
    small = np.abs(x) < 1e-3
    s = np.where(small, x, 0.0)
    series = s * s * (0.5 + s * (1 / 6 + s * (1 / 24 + s / 120)))
    with np.errstate(over="ignore"):
        return np.where(small, series, np.expm1(x) - x)


PROBES = (-30.0, -2.0, -0.5, 0.0, 0.7, 3.0, 30.0)
SLOPE_TOLERANCE = 2.0**-48
"""Relative rounding of a slope in doubles, at most; no c other than 1 is meant to be this near."""
ReferenceSlope = Callable[[float, float], tuple[float, float]]


def stable_curve(
    private: PrivateModel,
    h: Variable,
    inputs: list[Variable],
    record: SingleRecord,
    data: dict[Variable, np.ndarray],
) -> Curve | None:
    """The stable form of a likelihood, if its distribution and link say so, else None."""
    found = stable_form(private, h, inputs, record)
    if found is None:
        return None
    kind, observed, weight = found
    return kind(np.asarray(data[observed], dtype=float), weight * float_down(private.power))


def stable_form(
    private: PrivateModel, h: Variable, inputs: list[Variable], record: SingleRecord
) -> tuple[type, Variable, float] | None:
    """Curve, observed entry of a record and weight at power one, or None. Reads no data.

    The graph says that h is that of a known likelihood at a predictor that is affine in the
    parameters, hence at c u + e, whose c and e the slopes at a few points of u then tell to be 1
    and 0.
    """
    model = private.base
    plain = len(private.graph.factors) == 1 and len(model.observed_RVs) == 1
    if not plain or len(inputs) != 1 or int(np.prod(inputs[0].type.shape)) != 1:
        return None
    rv = model.observed_RVs[0]
    known = _known_likelihood(rv)
    observed = _observed_entry(private, rv, record)
    if known is None or observed is None or observed.type.ndim:
        return None
    kind, reference, weight, levels, predictor = known
    if (
        affine_kinds([predictor], model.free_RVs).get(predictor, AffineKind.CONSTANT)
        is AffineKind.OTHER
    ):
        return None
    if not _slope_agrees(h, inputs[0], observed, reference, weight, levels):
        return None
    return kind, observed, weight


def _observed_entry(private: PrivateModel, rv: Variable, record: SingleRecord) -> Variable | None:
    """The record's entry that a likelihood observes as it is, of a domain that it can give."""
    value = private.base.rvs_to_values[rv]
    for source in private.sources:
        what = source.variable, source.domain, source.row_shape
        if observes_unchanged(value, *what):
            return record.data[source.name] if domain_is_in_support(rv, *what) else None
    return None


KnownLikelihood = tuple[type, ReferenceSlope, float, tuple[float, ...], Variable]


def _known_likelihood(rv: Variable) -> KnownLikelihood | None:
    """Curve, its slope at weight one as (part of y, other part), weight, values of y, predictor."""
    name, arguments = distribution_name(rv), distribution_arguments(rv)
    link, inside = elementwise_of(arguments[0])
    if name == "bernoulli" and link is Sigmoid:
        return LogisticCurve, lambda u, y: (y, -float(expit(u))), 1.0, (0.0, 1.0), inside[0]
    if name == "poisson" and link is Exp:
        return ExponentialCurve, lambda u, y: (y, -float(np.exp(u))), 1.0, (0.0, 3.0), inside[0]
    if name == "normal":
        sigma = constants_in(arguments[1])
        if sigma is not None and sigma.size == 1:
            weight = 1.0 / float(sigma.ravel()[0]) ** 2
            levels = (0.0, -1.0, 2.0)
            return QuadraticCurve, lambda u, y: (y, -u), weight, levels, arguments[0]
    return None


def _slope_agrees(
    h: Variable,
    u: Variable,
    y: Variable,
    reference: ReferenceSlope,
    weight: float,
    levels: tuple[float, ...],
) -> bool:
    """Whether the slope of h is the reference at the points tried, to the last digits.

    Relative to the size of its parts: at y = 0 the slopes are -w c s(c u + e), with s the sigmoid,
    e^u or u, which tell c from 1 and e from 0 however small the weight w is.
    """
    try:
        slope = pytensor.grad(pt.sum(h), u)
        for level in levels:
            held = np.array(level).astype(y.type.dtype)
            for probe in PROBES:
                at = {u: np.full(u.type.shape, probe), y: held}
                found = float(np.sum(ConcreteValues(at)(slope)))
                parts = [weight * part for part in reference(probe, level)]
                if not abs(found - sum(parts)) <= SLOPE_TOLERANCE * sum(map(abs, parts)):
                    return False
    except Exception:  # another input than these: some other likelihood
        return False
    return True
