"""Laws on the line as balls of proved radius: the masses of both tails and the density (Arb)."""

from __future__ import annotations

import math
import numpy as np
import scipy.special as sc
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar
from flint import arb, ctx, fmpq

LARGE = 200.0
"""Parameters from which a series of positive terms is faster."""


class Law(ABC):
    """A law on an interval of the line, by the mass below and above a point.

    Attributes
    ----------
    support : pair of float
    total : int
        Of all mass: masses need not be normalized.
    """

    support: ClassVar[tuple[float, float]]
    total: ClassVar[int] = 1

    @abstractmethod
    def below(self, x: arb) -> arb:
        """Mass of (-inf, x], for x inside the support."""

    @abstractmethod
    def above(self, x: arb) -> arb:
        """Mass of [x, inf)."""

    @abstractmethod
    def density(self, x: arb) -> arb:
        """Slope of `below`; of an interval of points, a ball that holds it at each of them."""

    @abstractmethod
    def guess(self, low: float, high: float, uniform: float) -> float:
        """The point of this share of the mass in [low, high], in floats; any number will do."""

    @property
    @abstractmethod
    def center(self) -> float:
        """Some point between the tails."""


@dataclass(frozen=True)
class Beta(Law):
    """Beta(a, b)."""

    support = (0.0, 1.0)
    a: Fraction
    b: Fraction

    @property
    def center(self) -> float:
        """The mean."""
        return float(self.a / (self.a + self.b))

    def below(self, x: arb) -> arb:
        """I_x(a, b)."""
        return _lower_beta(x, ball_of(self.a), ball_of(self.b))

    def above(self, x: arb) -> arb:
        """I_{1-x}(b, a)."""
        return _lower_beta(1 - x, ball_of(self.b), ball_of(self.a))

    def density(self, x: arb) -> arb:
        """x^(a-1) (1-x)^(b-1) / B(a, b)."""
        a, b = ball_of(self.a), ball_of(self.b)
        norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return ((a - 1) * x.log() + (b - 1) * (-x).log1p() - norm).exp()

    def guess(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        a, b = float(self.a), float(self.b)
        ends = sc.betainc(a, b, [low, high])
        return float(sc.betaincinv(a, b, ends[0] + uniform * (ends[1] - ends[0])))


@dataclass(frozen=True)
class Gamma(Law):
    """Gamma(shape, rate)."""

    support = (0.0, math.inf)
    shape: Fraction
    rate: Fraction

    @property
    def center(self) -> float:
        """The mean."""
        return float(self.shape / self.rate)

    def below(self, x: arb) -> arb:
        """P(shape, rate x)."""
        z, a = x * ball_of(self.rate), ball_of(self.shape)
        if not self.shape > LARGE:
            return z.gamma_lower(a, 1)
        if not z < a - 3 * a.sqrt():
            return 1 - z.gamma_upper(a, 1)
        return (a * z.log() - z - (a + 1).lgamma()).exp() * _lower_series(z, a)

    def above(self, x: arb) -> arb:
        """Q(shape, rate x)."""
        return (x * ball_of(self.rate)).gamma_upper(ball_of(self.shape), 1)

    def density(self, x: arb) -> arb:
        """rate (rate x)^(shape-1) e^-(rate x) / Gamma(shape)."""
        rate, a = ball_of(self.rate), ball_of(self.shape)
        return rate * ((a - 1) * (x * rate).log() - x * rate - a.lgamma()).exp()

    def guess(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        a, rate = float(self.shape), float(self.rate)
        ends = sc.gammainc(a, np.array([low, high]) * rate)
        return float(sc.gammaincinv(a, ends[0] + uniform * (ends[1] - ends[0]))) / rate


@dataclass(frozen=True)
class Normal(Law):
    """Normal with a rational mean and variance."""

    support = (-math.inf, math.inf)
    total = 2
    mean: Fraction
    variance: Fraction

    @property
    def center(self) -> float:
        """The mean."""
        return float(self.mean)

    def below(self, x: arb) -> arb:
        """Phi((x - mean) / sd), times 2."""
        return (-self._standard(x)).erfc()

    def above(self, x: arb) -> arb:
        """Phi((mean - x) / sd), times 2."""
        return self._standard(x).erfc()

    def density(self, x: arb) -> arb:
        """2 / (sqrt(pi) sd sqrt(2)) e^(-z^2 / 2)."""
        scale = (2 * ball_of(self.variance)).sqrt()
        return 2 / scale / arb.pi().sqrt() * (-(self._standard(x) ** 2)).exp()

    def _standard(self, x: arb) -> arb:
        return (x - ball_of(self.mean)) / (2 * ball_of(self.variance)).sqrt()

    def guess(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        sd = math.sqrt(self.variance)
        ends = sc.ndtr((np.array([low, high]) - self.center) / sd)
        return self.center + sd * float(sc.ndtri(ends[0] + uniform * (ends[1] - ends[0])))


def ball_of(value: Fraction) -> arb:
    """A fraction as a ball of the present precision."""
    return arb(fmpq(value.numerator, value.denominator))


def _lower_series(z: arb, a: arb) -> arb:
    """Sum of z^k / ((a + 1) ... (a + k)), positive terms (DLMF 8.11.4), for z < a."""
    total, term, k = arb(1), arb(1), 0
    while not term < total * arb(2) ** -ctx.prec:
        k += 1
        term = term * z / (a + k)
        total += term
    rest = term * z / (a + k + 1 - z)  # a geometric series is above what is left
    return total + rest.union(arb(0))


def _lower_beta(x: arb, a: arb, b: arb) -> arb:
    """I_x(a, b); for large parameters by the series of positive terms (DLMF 8.17.8)."""
    if not a.min(b) > LARGE:
        return x.beta_lower(a, b, 1)
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    front = (a * x.log() + b * (-x).log1p() - norm).exp() / a
    return front * x.hypgeom_2f1(a + b, 1, a + 1)
