"""Correctly rounded inverse CDFs: draws proved in floating point.

The ideal draw is F^-1(U) for a uniform real U. Only as many bits of U are drawn as decide
between which two neighbors of a rounding grid it falls; the CDF is a ball of proved radius
(Arb), with more digits wherever ball and bits leave the comparison open. The grid point that
results is the ideal draw, correctly rounded: post-processing of the ideal draw, whatever the
data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.special as sc
from flint import arb, ctx, fmpq

from pymc_private.samplers.randomness import Randomness

LARGE_PARAMETER = 200.0
"""Parameters from which a series of positive terms is faster."""


class UnivariateDistribution(ABC):
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
class BetaDistribution(UnivariateDistribution):
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
        return _lower_beta(x, fraction_ball(self.a), fraction_ball(self.b))

    def above(self, x: arb) -> arb:
        """I_{1-x}(b, a)."""
        return _lower_beta(1 - x, fraction_ball(self.b), fraction_ball(self.a))

    def density(self, x: arb) -> arb:
        """x^(a-1) (1-x)^(b-1) / B(a, b)."""
        a, b = fraction_ball(self.a), fraction_ball(self.b)
        norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return ((a - 1) * x.log() + (b - 1) * (-x).log1p() - norm).exp()

    def guess(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        a, b = float(self.a), float(self.b)
        ends = sc.betainc(a, b, [low, high])
        return float(sc.betaincinv(a, b, ends[0] + uniform * (ends[1] - ends[0])))


@dataclass(frozen=True)
class GammaDistribution(UnivariateDistribution):
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
        z, a = x * fraction_ball(self.rate), fraction_ball(self.shape)
        if not self.shape > LARGE_PARAMETER:
            return z.gamma_lower(a, 1)
        if not z < a - 3 * a.sqrt():
            return 1 - z.gamma_upper(a, 1)
        return (a * z.log() - z - (a + 1).lgamma()).exp() * _lower_gamma_series(z, a)

    def above(self, x: arb) -> arb:
        """Q(shape, rate x)."""
        return (x * fraction_ball(self.rate)).gamma_upper(fraction_ball(self.shape), 1)

    def density(self, x: arb) -> arb:
        """rate (rate x)^(shape-1) e^-(rate x) / Gamma(shape)."""
        rate, a = fraction_ball(self.rate), fraction_ball(self.shape)
        return rate * ((a - 1) * (x * rate).log() - x * rate - a.lgamma()).exp()

    def guess(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        a, rate = float(self.shape), float(self.rate)
        ends = sc.gammainc(a, np.array([low, high]) * rate)
        return float(sc.gammaincinv(a, ends[0] + uniform * (ends[1] - ends[0]))) / rate


@dataclass(frozen=True)
class NormalDistribution(UnivariateDistribution):
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
        scale = (2 * fraction_ball(self.variance)).sqrt()
        return 2 / scale / arb.pi().sqrt() * (-(self._standard(x) ** 2)).exp()

    def _standard(self, x: arb) -> arb:
        return (x - fraction_ball(self.mean)) / (2 * fraction_ball(self.variance)).sqrt()

    def guess(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        sd = math.sqrt(self.variance)
        ends = sc.ndtr((np.array([low, high]) - self.center) / sd)
        return self.center + sd * float(sc.ndtri(ends[0] + uniform * (ends[1] - ends[0])))


def fraction_ball(value: Fraction) -> arb:
    """A fraction as a ball of the present precision."""
    return arb(fmpq(value.numerator, value.denominator))


def _lower_gamma_series(z: arb, a: arb) -> arb:
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
    if not a.min(b) > LARGE_PARAMETER:
        return x.beta_lower(a, b, 1)
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    front = (a * x.log() + b * (-x).log1p() - norm).exp() / a
    return front * x.hypgeom_2f1(a + b, 1, a + 1)


WORD_BITS = 64
"""Bits of the uniform number that are drawn at a time."""
TRANSFORMED_GRID_BITS = 40
NEARBY_CELLS = 2**14
"""Cells within which the slope says what the mass is."""


@dataclass(frozen=True)
class RoundingGrid:
    """Multiples of a width, on the line itself or on a transformed one.

    Parameters
    ----------
    forward : callable
        From a point to its place on the transformed line, in floats.
    edge : callable
        From a place to the point, as a ball.
    """

    width: Fraction
    forward: Callable[[float], float]
    edge: Callable[[arb], arb]

    @classmethod
    def even(cls, width: Fraction) -> RoundingGrid:
        """Multiples of a width."""
        return cls(width, float, lambda place: place)

    @classmethod
    def logarithmic(cls) -> RoundingGrid:
        """Multiples in log x: the same number of digits at every scale."""
        return cls(Fraction(1, 2**TRANSFORMED_GRID_BITS), math.log, lambda place: place.exp())

    @classmethod
    def logistic(cls) -> RoundingGrid:
        """Multiples in logit x."""
        return cls(
            Fraction(1, 2**TRANSFORMED_GRID_BITS),
            lambda x: math.log(x) - math.log1p(-x),
            lambda place: 1 / (1 + (-place).exp()),
        )


class RoundedDraws:
    """Draws from a law on [low, high], rounded to a lattice without error.

    Parameters
    ----------
    law : Law
    lattice : Lattice
    low, high : float
        Public ends of the region; infinite, or the ends of the support, where it has none.
    """

    def __init__(
        self, law: UnivariateDistribution, lattice: RoundingGrid, low: float, high: float
    ) -> None:
        self.law, self.lattice = law, lattice
        self.low, self.high = max(low, law.support[0]), min(high, law.support[1])
        self._totals: dict[int, tuple[arb, arb]] = {}
        self._anchor: tuple[int, arb] | None = None
        self._shares: dict[int, arb] = {}

    @cached_property
    def _rising(self) -> bool:
        """Whether masses are counted from below: from the side that is no far tail."""
        return not self.low >= self.law.center

    def _share(self, place: Fraction, bits: int) -> arb:
        """Share of the region's mass that lies below a place, as a ball."""
        with ctx.workprec(bits):
            x = self.lattice.edge(fraction_ball(place))
            low, high = _bound_ball(self.low), _bound_ball(self.high)
            if not x > low:
                return arb(0) if x <= low else arb("nan")
            if not x < high:
                return arb(1) if x >= high else arb("nan")
            start, total = self._mass_of_region(bits)
            found = self.law.below(x) - start if self._rising else start - self.law.above(x)
            return found / total

    def _mass_of_region(self, bits: int) -> tuple[arb, arb]:
        """What `below` (or `above`) gives at the lower end, and the mass of the region."""
        if bits not in self._totals:
            least, most = self.law.support
            low, high = (arb(0), arb(self.law.total))[:: 1 if self._rising else -1]
            mass = self.law.below if self._rising else self.law.above
            low = mass(_bound_ball(self.low)) if self.low > least else low
            high = mass(_bound_ball(self.high)) if self.high < most else high
            self._totals[bits] = (low, high - low if self._rising else low - high)
        return self._totals[bits]

    def draw(self, randomness: Randomness) -> Fraction:
        """The place of one draw on the (transformed) line: an exact multiple of the width."""
        uniform = _LazyUniform(randomness)
        low, high = self._bracket(uniform)
        turn = 0
        while high - low > 1:
            middle = (low + high) // 2
            if turn % 3 and high - low > 4:  # two secants, then a halving
                middle = min(max(self._secant(uniform, low, high), low + 1), high - 1)
            turn += 1
            low, high = (low, middle) if self._is_below(uniform, middle) else (middle, high)
        return high * self.lattice.width

    def _is_below(self, uniform: _LazyUniform, k: int) -> bool:
        """Whether the draw lies below the upper border of the k-th cell."""
        bits = 128
        answer = uniform.is_below(self._near(k))
        while answer is None:
            ball = self._share(self._border(k), bits)
            if bits == 128 and ball.is_finite():
                self._anchor = (k, ball)
            self._shares[k] = ball
            answer = uniform.is_below(ball)
            if answer is None:  # the ball is too wide, or the bits are too few: more of both
                bits *= 2
                uniform.extend()
        return answer

    def _border(self, k: int) -> Fraction:
        return (k + Fraction(1, 2)) * self.lattice.width

    def _near(self, k: int) -> arb:
        """Share below a border, from that of a border close by: the mean-value theorem."""
        if self._anchor is None:
            return arb("nan")
        at, share = self._anchor
        if at == k:
            return share
        if abs(at - k) > NEARBY_CELLS:
            return arb("nan")
        with ctx.workprec(128):
            one, two = (self.lattice.edge(fraction_ball(self._border(j))) for j in (at, k))
            between = one.union(two)
            if not (between > _bound_ball(self.low) and between < _bound_ball(self.high)):
                return arb("nan")
            _, total = self._mass_of_region(128)
            found = share + (two - one) * self.law.density(between) / total
        self._shares[k] = found
        return found

    def _secant(self, uniform: _LazyUniform, low: int, high: int) -> int:
        """Where a line through the shares of two borders meets the uniform number."""
        first, last = self._shares.get(low), self._shares.get(high)
        if first is None or last is None:
            return (low + high) // 2
        with ctx.workprec(128):
            rise = last - first
            if not rise > 0:
                return (low + high) // 2
            share = float(((uniform.ball - first) / rise).mid())
        return low + round(min(max(share, 0.0), 1.0) * (high - low))

    def _bracket(self, uniform: _LazyUniform) -> tuple[int, int]:
        """Cells below and up to which the draw lies, from a guess in floats."""
        self._anchor, self._shares = None, {}
        start, step = self._guess(uniform), 1
        if self._is_below(uniform, start):
            low = start - step
            while self._is_below(uniform, low):
                step *= 64
                start, low = low, low - step
            return low, start
        high = start + step
        while not self._is_below(uniform, high):
            step *= 64
            start, high = high, high + step
        return start, high

    def _guess(self, uniform: _LazyUniform) -> int:
        with np.errstate(all="ignore"):
            try:
                x = self.law.guess(self.low, self.high, uniform.middle)
                place = self.lattice.forward(min(max(x, self.low), self.high))
            except (ValueError, ZeroDivisionError, OverflowError):
                place = math.nan
            if not math.isfinite(place):
                inside = min(max(self.law.center, self.low), self.high)
                try:
                    place = self.lattice.forward(inside)
                except (ValueError, ZeroDivisionError):
                    place = 0.0
        return round(Fraction(place if math.isfinite(place) else 0.0) / self.lattice.width)


class _LazyUniform:
    """A uniform real number in [0, 1), of which ever more bits can be known."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness, self._word, self._bits = randomness, 0, 0
        self.extend()

    def extend(self) -> None:
        """Draw more bits."""
        self._word = (self._word << WORD_BITS) | self._randomness.below(2**WORD_BITS)
        self._bits += WORD_BITS

    @property
    def ball(self) -> arb:
        """A number next to it."""
        return arb(fmpq(2 * self._word + 1, 2 ** (self._bits + 1)))

    @property
    def middle(self) -> float:
        """A float next to it."""
        return float(Fraction(2 * self._word + 1, 2 ** (self._bits + 1)))

    def is_below(self, ball: arb) -> bool | None:
        """Whether the number is below whatever is in a ball; None if that is open."""
        with ctx.workprec(self._bits + 8):
            unit = fmpq(1, 2**self._bits)
            if ball >= arb((self._word + 1) * unit):
                return True
            return False if ball <= arb(self._word * unit) else None


def _bound_ball(value: float) -> arb:
    return arb(value) if math.isinf(value) else fraction_ball(Fraction(value))
