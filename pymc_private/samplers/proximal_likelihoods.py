"""Concave log-likelihoods of linear predictors, with stable tangent remainders.

The tangent remainder of h is h(u) + h'(u) du - h(u + du), a Bregman divergence. Computed as a
difference of sums its error would be that of the sums; the forms here are accurate relative to
its own size (T21). Logistic, Poisson and normal likelihoods are recognized from the graph and
from slopes at a few points; any other concave likelihood is differenced record by record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

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
"""Nats beyond which e^x is no longer computed."""
PROBES = (-30.0, -2.0, -0.5, 0.0, 0.7, 3.0, 30.0)
"""Predictors at which slopes are compared."""
SLOPE_TOLERANCE = 2.0**-48
"""Bound of the relative rounding of a slope in doubles; no c but 1 is this near to 1."""
ReferenceSlope = Callable[[float, float], tuple[float, float]]
"""From u and y to the slope at weight one, in two parts: of y, and the other one."""


class Curve(Protocol):
    """Concave h, the log-likelihood of each row or record, times the power."""

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u), of the shape (rows, chains) of u."""

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """Tangent remainder h(u) + h'(u) du - h(u + du), at least 0."""


@dataclass(frozen=True, eq=False)
class LogisticCurve:
    """Weight times the log-likelihood of 0/1 records with logit u."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> np.ndarray:
        """w (y - sigmoid(u))."""
        return self.weight * (self.y[:, None] - expit(u))

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """w (log(1 + sigmoid(u) (e^du - 1)) - sigmoid(u) du), which does not depend on the outcome.

        For du > 0 it is computed with -du and sigmoid(-u), so that nothing overflows.
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

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
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

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """w e^u (e^du - 1 - du)."""
        return self.weight * np.exp(u) * _exp_remainder(du)


@dataclass(frozen=True, eq=False)
class SoftmaxCurve:
    """c'u - w log sum e^u for each record, with K consecutive rows for the scores of its softmax.

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
        """Recover c and w from the slope c - w p at two points of a density of this form."""
        zero, tilted = np.zeros((n, k)), np.zeros((n, k))
        tilted[:, 0] = np.log(3.0)
        one, two = (derivative(u.reshape(-1, 1)).reshape(n, k) for u in (zero, tilted))
        weight = (one - two)[:, 0] / (3.0 / (k + 2.0) - 1.0 / k)
        return cls(one + weight[:, None] / k, weight)

    def _by_record(self, u: np.ndarray) -> np.ndarray:
        return u.reshape(*self.counts.shape, u.shape[1])

    def slope(self, u: np.ndarray) -> np.ndarray:
        """c - w softmax(u)."""
        p = softmax(self._by_record(u), axis=1)
        return (self.counts[:, :, None] - self.weight[:, None, None] * p).reshape(u.shape)

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """w log(1 + sum p (e^x - 1 - x)), with x = du minus its mean under p = softmax(u)."""
        p, x = softmax(self._by_record(u), axis=1), self._by_record(du)
        x = x - (p * x).sum(axis=1, keepdims=True)
        largest = np.maximum(x.max(axis=1), 0.0)
        far = largest > MOST_EXPONENT
        near = np.log1p((p * _exp_remainder(np.where(far[:, None], 0.0, x))).sum(axis=1))
        if far.any():
            with np.errstate(divide="ignore"):
                total = (p * np.exp(x - largest[:, None])).sum(axis=1)
                near = np.where(far, largest + np.log(total), near)
        return self.weight[:, None] * near


@dataclass(frozen=True, eq=False)
class GeneralCurve:
    """Any concave h: its tangent remainder is a difference of three numbers per record.

    Parameters
    ----------
    value : callable
        h at the power, one number per record, from predictors (records times elements, chains).
    derivative : callable
        Its derivative in every predictor.
    """

    value: Callable[[np.ndarray], np.ndarray]
    derivative: Callable[[np.ndarray], np.ndarray]

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u)."""
        return self.derivative(u)

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """h(u) + h'(u) du - h(u + du) for each record, at least 0."""
        first = self.value(u)
        tangent = (self.derivative(u) * du).reshape(len(first), -1, u.shape[1]).sum(axis=1)
        return np.maximum(first + tangent - self.value(u + du), 0.0)


@dataclass(frozen=True, eq=False)
class PriorResidualCurve:
    """Log prior h without its proved curvature: h(u) + q (u - c)^2 / 2, concave.

    Parameters
    ----------
    prior : GeneralCurve
        h, with all elements as one record.
    curvature : array, shape (k,)
        q, at most -h''.
    center : array, shape (k,)
    """

    prior: GeneralCurve
    curvature: np.ndarray
    center: np.ndarray

    def slope(self, u: np.ndarray) -> np.ndarray:
        """h'(u) + q (u - c)."""
        return self.prior.slope(u) + self.curvature[:, None] * (u - self.center[:, None])

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """The remainder of h minus q du^2 / 2, at least 0."""
        return np.maximum(self.prior.remainder(u, du) - 0.5 * self.curvature @ du**2, 0.0)


@dataclass(frozen=True, eq=False)
class JoinedCurve:
    """One curve for the first `count` rows, and another one for the others."""

    first: Curve
    second: Curve
    count: int

    def slope(self, u: np.ndarray) -> np.ndarray:
        """Slopes of all rows."""
        return np.concatenate(
            [self.first.slope(u[: self.count]), self.second.slope(u[self.count :])]
        )

    def remainder(self, u: np.ndarray, du: np.ndarray) -> np.ndarray:
        """Remainders of both parts."""
        k = self.count
        return np.concatenate(
            [self.first.remainder(u[:k], du[:k]), self.second.remainder(u[k:], du[k:])]
        )


def _exp_remainder(x: np.ndarray) -> np.ndarray:
    """e^x - 1 - x, by its series near zero."""
    small = np.abs(x) < 1e-3
    s = np.where(small, x, 0.0)
    series = s * s * (0.5 + s * (1 / 6 + s * (1 / 24 + s / 120)))
    with np.errstate(over="ignore"):
        return np.where(small, series, np.expm1(x) - x)


def stable_curve(
    private: PrivateModel,
    h: Variable,
    inputs: list[Variable],
    record: SingleRecord,
    data: dict[Variable, np.ndarray],
) -> Curve | None:
    """Curve with a stable remainder, if distribution and link are recognized, else None."""
    found = stable_form(private, h, inputs, record)
    if found is None:
        return None
    curve, observed, weight = found
    return curve(np.asarray(data[observed], dtype=float), weight * float_down(private.power))


def stable_form(
    private: PrivateModel, h: Variable, inputs: list[Variable], record: SingleRecord
) -> tuple[type, Variable, float] | None:
    """Curve class, observed entry of a record and weight at power one, or None. Reads no data.

    The graph shows that h is a known likelihood at a predictor that is affine in the parameters,
    hence at c u + e; slopes at a few points of u then show that c is 1 and e is 0.
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
    affine = affine_kinds([known.predictor], model.free_RVs)
    if affine.get(known.predictor, AffineKind.CONSTANT) is AffineKind.OTHER:
        return None
    if not _slope_agrees(h, inputs[0], observed, known):
        return None
    return known.curve, observed, known.weight


def _observed_entry(private: PrivateModel, rv: Variable, record: SingleRecord) -> Variable | None:
    """Entry of the record that is observed unchanged, if its domain lies in the support."""
    value = private.base.rvs_to_values[rv]
    for source in private.sources:
        entry = source.variable, source.domain, source.row_shape
        if observes_unchanged(value, *entry):
            return record.data[source.name] if domain_is_in_support(rv, *entry) else None
    return None


class KnownLikelihood(NamedTuple):
    """A likelihood with a stable curve: what its graph must agree with."""

    curve: type
    slope: ReferenceSlope
    weight: float
    levels: tuple[float, ...]
    predictor: Variable


def _known_likelihood(rv: Variable) -> KnownLikelihood | None:
    """Reference for the distribution and link of a variable; None if there is none."""
    name, arguments = distribution_name(rv), distribution_arguments(rv)
    link, inside = elementwise_of(arguments[0])
    if name == "bernoulli" and link is Sigmoid:
        return KnownLikelihood(
            LogisticCurve, lambda u, y: (y, -float(expit(u))), 1.0, (0.0, 1.0), inside[0]
        )
    if name == "poisson" and link is Exp:
        return KnownLikelihood(
            ExponentialCurve, lambda u, y: (y, -float(np.exp(u))), 1.0, (0.0, 3.0), inside[0]
        )
    if name == "normal":
        sigma = constants_in(arguments[1])
        if sigma is not None and sigma.size == 1:
            weight = 1.0 / float(sigma.ravel()[0]) ** 2
            levels = (0.0, -1.0, 2.0)
            return KnownLikelihood(
                QuadraticCurve, lambda u, y: (y, -u), weight, levels, arguments[0]
            )
    return None


def _slope_agrees(h: Variable, u: Variable, y: Variable, known: KnownLikelihood) -> bool:
    """Whether the slope of h agrees with the reference at the points tried, to the last digits.

    The comparison is relative to the size of its parts: at y = 0 the slopes are -w c s(c u + e),
    with s the sigmoid, e^u or u, which distinguish c from 1 and e from 0 however small w is.
    """
    try:
        slope = pytensor.grad(pt.sum(h), u)
        for level in known.levels:
            held = np.array(level).astype(y.type.dtype)
            for probe in PROBES:
                at = {u: np.full(u.type.shape, probe), y: held}
                found = float(np.sum(ConcreteValues(at)(slope)))
                parts = [known.weight * part for part in known.slope(probe, level)]
                if not abs(found - sum(parts)) <= SLOPE_TOLERANCE * sum(map(abs, parts)):
                    return False
    except Exception:  # the slope reads further inputs: another likelihood
        return False
    return True
