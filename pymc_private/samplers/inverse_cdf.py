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

WORD_BITS = 64
"""Bits of the uniform number that are drawn at a time."""
TRANSFORMED_GRID_BITS = 40
"""The width of a grid on a transformed line is 2**-40."""
NEARBY_CELLS = 2**14
"""Largest distance, in grid cells, over which the mean-value theorem extrapolates a mass."""
LARGE_PARAMETER = 200.0
"""Parameter values above which a series of positive terms is faster."""


@dataclass(frozen=True)
class RoundingGrid:
    """Multiples of a width, on the line itself or on a transformed one.

    Parameters
    ----------
    width : Fraction
    transform : callable
        From a point to its position on the transformed line, in floats.
    inverse : callable
        From a position to the point, as a ball.
    """

    width: Fraction
    transform: Callable[[float], float]
    inverse: Callable[[arb], arb]

    @classmethod
    def linear(cls, width: Fraction) -> RoundingGrid:
        """Multiples of a width."""
        return cls(width, float, lambda position: position)

    @classmethod
    def logarithmic(cls) -> RoundingGrid:
        """Multiples in log x: the same number of digits at every scale."""
        return cls(Fraction(1, 2**TRANSFORMED_GRID_BITS), math.log, lambda position: position.exp())

    @classmethod
    def logistic(cls) -> RoundingGrid:
        """Multiples in logit x."""
        return cls(
            Fraction(1, 2**TRANSFORMED_GRID_BITS),
            lambda x: math.log(x) - math.log1p(-x),
            lambda position: 1 / (1 + (-position).exp()),
        )


class RoundedDraws:
    """Draws from a distribution truncated to [low, high], rounded to a grid without error.

    Parameters
    ----------
    distribution : UnivariateDistribution
    grid : RoundingGrid
    low, high : float
        Public bounds of the region; infinite, or those of the support, where it has none.
    """

    def __init__(
        self, distribution: UnivariateDistribution, grid: RoundingGrid, low: float, high: float
    ) -> None:
        self.distribution, self.grid = distribution, grid
        self.low, self.high = max(low, distribution.support[0]), min(high, distribution.support[1])
        self._totals: dict[int, tuple[arb, arb]] = {}
        self._anchor: tuple[int, arb] | None = None
        self._known_cdf: dict[int, arb] = {}

    @cached_property
    def _counts_from_below(self) -> bool:
        """Whether masses are counted from below: from the side away from the far tail."""
        return not self.low >= self.distribution.center

    def _cdf(self, position: Fraction, bits: int) -> arb:
        """Truncated CDF at a position of the grid line, as a ball."""
        with ctx.workprec(bits):
            x = self.grid.inverse(fraction_ball(position))
            low, high = _bound_ball(self.low), _bound_ball(self.high)
            if not x > low:
                return arb(0) if x <= low else arb("nan")
            if not x < high:
                return arb(1) if x >= high else arb("nan")
            start, total = self._mass_of_region(bits)
            found = (
                self.distribution.mass_below(x) - start
                if self._counts_from_below
                else start - self.distribution.mass_above(x)
            )
            return found / total

    def _mass_of_region(self, bits: int) -> tuple[arb, arb]:
        """`mass_below` (or `mass_above`) at the lower bound, and the mass of the region."""
        if bits not in self._totals:
            least, most = self.distribution.support
            low, high = (arb(0), arb(self.distribution.total))[
                :: 1 if self._counts_from_below else -1
            ]
            mass = (
                self.distribution.mass_below
                if self._counts_from_below
                else self.distribution.mass_above
            )
            low = mass(_bound_ball(self.low)) if self.low > least else low
            high = mass(_bound_ball(self.high)) if self.high < most else high
            self._totals[bits] = (low, high - low if self._counts_from_below else low - high)
        return self._totals[bits]

    def draw(self, randomness: Randomness) -> Fraction:
        """Position of one draw on the (transformed) line: an exact multiple of the width."""
        uniform = _LazyUniform(randomness)
        low, high = self._bracket(uniform)
        iteration = 0
        while high - low > 1:
            middle = (low + high) // 2
            if iteration % 3 and high - low > 4:  # two secants, then a halving
                middle = min(max(self._secant(uniform, low, high), low + 1), high - 1)
            iteration += 1
            low, high = (low, middle) if self._is_below(uniform, middle) else (middle, high)
        return high * self.grid.width

    def _is_below(self, uniform: _LazyUniform, k: int) -> bool:
        """Whether the ideal draw lies below the upper boundary of the k-th cell."""
        bits = 128
        answer = uniform.is_below(self._cdf_nearby(k))
        while answer is None:
            ball = self._cdf(self._boundary(k), bits)
            if bits == 128 and ball.is_finite():
                self._anchor = (k, ball)
            self._known_cdf[k] = ball
            answer = uniform.is_below(ball)
            if answer is None:  # the ball is too wide, or the bits too few: more of both
                bits *= 2
                uniform.extend()
        return answer

    def _boundary(self, k: int) -> Fraction:
        return (k + Fraction(1, 2)) * self.grid.width

    def _cdf_nearby(self, k: int) -> arb:
        """CDF at a cell boundary from that at a nearby one, by the mean-value theorem."""
        if self._anchor is None:
            return arb("nan")
        at, cdf = self._anchor
        if at == k:
            return cdf
        if abs(at - k) > NEARBY_CELLS:
            return arb("nan")
        with ctx.workprec(128):
            one, two = (self.grid.inverse(fraction_ball(self._boundary(j))) for j in (at, k))
            between = one.union(two)
            if not (between > _bound_ball(self.low) and between < _bound_ball(self.high)):
                return arb("nan")
            _, total = self._mass_of_region(128)
            found = cdf + (two - one) * self.distribution.density(between) / total
        self._known_cdf[k] = found
        return found

    def _secant(self, uniform: _LazyUniform, low: int, high: int) -> int:
        """Cell where the line through the CDF at two boundaries meets the uniform number."""
        first, last = self._known_cdf.get(low), self._known_cdf.get(high)
        if first is None or last is None:
            return (low + high) // 2
        with ctx.workprec(128):
            difference = last - first
            if not difference > 0:
                return (low + high) // 2
            fraction = float(((uniform.ball - first) / difference).mid())
        return low + round(min(max(fraction, 0.0), 1.0) * (high - low))

    def _bracket(self, uniform: _LazyUniform) -> tuple[int, int]:
        """Cells between whose upper boundaries the draw lies, from an approximate quantile."""
        self._anchor, self._known_cdf = None, {}
        start, step = self._approximate_cell(uniform), 1
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

    def _approximate_cell(self, uniform: _LazyUniform) -> int:
        with np.errstate(all="ignore"):
            try:
                x = self.distribution.approximate_quantile(self.low, self.high, uniform.middle)
                position = self.grid.transform(min(max(x, self.low), self.high))
            except (ValueError, ZeroDivisionError, OverflowError):
                position = math.nan
            if not math.isfinite(position):
                inside = min(max(self.distribution.center, self.low), self.high)
                try:
                    position = self.grid.transform(inside)
                except (ValueError, ZeroDivisionError):
                    position = 0.0
        return round(Fraction(position if math.isfinite(position) else 0.0) / self.grid.width)


class _LazyUniform:
    """Uniform real number in [0, 1) whose bits are drawn as they are needed."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness, self._word, self._bits = randomness, 0, 0
        self.extend()

    def extend(self) -> None:
        """Draw more bits."""
        self._word = (self._word << WORD_BITS) | self._randomness.below(2**WORD_BITS)
        self._bits += WORD_BITS

    @property
    def ball(self) -> arb:
        """The midpoint of the numbers with the known bits."""
        return arb(fmpq(2 * self._word + 1, 2 ** (self._bits + 1)))

    @property
    def middle(self) -> float:
        """The midpoint as a float."""
        return float(Fraction(2 * self._word + 1, 2 ** (self._bits + 1)))

    def is_below(self, ball: arb) -> bool | None:
        """Whether the number is below every point of a ball (False: above); None if undecided."""
        with ctx.workprec(self._bits + 8):
            unit = fmpq(1, 2**self._bits)
            if ball >= arb((self._word + 1) * unit):
                return True
            return False if ball <= arb(self._word * unit) else None


def _bound_ball(value: float) -> arb:
    return arb(value) if math.isinf(value) else fraction_ball(Fraction(value))


class UnivariateDistribution(ABC):
    """Distribution on an interval, by balls of its mass below and above a point and its density.

    Attributes
    ----------
    support : pair of float
    total : int
        The total mass: masses need not be normalized.
    """

    support: ClassVar[tuple[float, float]]
    total: ClassVar[int] = 1

    @abstractmethod
    def mass_below(self, x: arb) -> arb:
        """Mass of (-inf, x], for x inside the support."""

    @abstractmethod
    def mass_above(self, x: arb) -> arb:
        """Mass of [x, inf)."""

    @abstractmethod
    def density(self, x: arb) -> arb:
        """Derivative of `mass_below`; for a ball x, a ball that contains it at every point of x."""

    @abstractmethod
    def approximate_quantile(self, low: float, high: float, uniform: float) -> float:
        """Approximate quantile of the truncated distribution; it sets the cost alone."""

    @property
    @abstractmethod
    def center(self) -> float:
        """A point between the tails."""


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

    def mass_below(self, x: arb) -> arb:
        """I_x(a, b)."""
        return _lower_beta(x, fraction_ball(self.a), fraction_ball(self.b))

    def mass_above(self, x: arb) -> arb:
        """I_{1-x}(b, a)."""
        return _lower_beta(1 - x, fraction_ball(self.b), fraction_ball(self.a))

    def density(self, x: arb) -> arb:
        """x^(a-1) (1-x)^(b-1) / B(a, b)."""
        a, b = fraction_ball(self.a), fraction_ball(self.b)
        norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
        return ((a - 1) * x.log() + (b - 1) * (-x).log1p() - norm).exp()

    def approximate_quantile(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        a, b = float(self.a), float(self.b)
        tails = sc.betainc(a, b, [low, high])
        return float(sc.betaincinv(a, b, tails[0] + uniform * (tails[1] - tails[0])))


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

    def mass_below(self, x: arb) -> arb:
        """P(shape, rate x)."""
        z, a = x * fraction_ball(self.rate), fraction_ball(self.shape)
        if not self.shape > LARGE_PARAMETER:
            return z.gamma_lower(a, 1)
        if not z < a - 3 * a.sqrt():
            return 1 - z.gamma_upper(a, 1)
        return (a * z.log() - z - (a + 1).lgamma()).exp() * _lower_gamma_series(z, a)

    def mass_above(self, x: arb) -> arb:
        """Q(shape, rate x)."""
        return (x * fraction_ball(self.rate)).gamma_upper(fraction_ball(self.shape), 1)

    def density(self, x: arb) -> arb:
        """rate (rate x)^(shape-1) e^-(rate x) / Gamma(shape)."""
        rate, a = fraction_ball(self.rate), fraction_ball(self.shape)
        return rate * ((a - 1) * (x * rate).log() - x * rate - a.lgamma()).exp()

    def approximate_quantile(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        a, rate = float(self.shape), float(self.rate)
        tails = sc.gammainc(a, np.array([low, high]) * rate)
        return float(sc.gammaincinv(a, tails[0] + uniform * (tails[1] - tails[0]))) / rate


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

    def mass_below(self, x: arb) -> arb:
        """Phi((x - mean) / sd), times 2."""
        return (-self._standard(x)).erfc()

    def mass_above(self, x: arb) -> arb:
        """Phi((mean - x) / sd), times 2."""
        return self._standard(x).erfc()

    def density(self, x: arb) -> arb:
        """2 / (sqrt(pi) sd sqrt(2)) e^(-z^2 / 2)."""
        scale = (2 * fraction_ball(self.variance)).sqrt()
        return 2 / scale / arb.pi().sqrt() * (-(self._standard(x) ** 2)).exp()

    def _standard(self, x: arb) -> arb:
        return (x - fraction_ball(self.mean)) / (2 * fraction_ball(self.variance)).sqrt()

    def approximate_quantile(self, low: float, high: float, uniform: float) -> float:
        """By SciPy."""
        sd = math.sqrt(self.variance)
        tails = sc.ndtr((np.array([low, high]) - self.center) / sd)
        return self.center + sd * float(sc.ndtri(tails[0] + uniform * (tails[1] - tails[0])))


def fraction_ball(value: Fraction) -> arb:
    """A fraction as a ball of the current precision."""
    return arb(fmpq(value.numerator, value.denominator))


def _lower_gamma_series(z: arb, a: arb) -> arb:
    """Sum of z^k / ((a + 1) ... (a + k)), positive terms (DLMF 8.11.4), for z < a."""
    total, term, k = arb(1), arb(1), 0
    while not term < total * arb(2) ** -ctx.prec:
        k += 1
        term = term * z / (a + k)
        total += term
    rest = term * z / (a + k + 1 - z)  # a geometric series bounds what is left
    return total + rest.union(arb(0))


def _lower_beta(x: arb, a: arb, b: arb) -> arb:
    """I_x(a, b); for large parameters by the series of positive terms (DLMF 8.17.8)."""
    if not a.min(b) > LARGE_PARAMETER:
        return x.beta_lower(a, b, 1)
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    front = (a * x.log() + b * (-x).log1p() - norm).exp() / a
    return front * x.hypgeom_2f1(a + b, 1, a + 1)
