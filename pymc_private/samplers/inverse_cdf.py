"""Inverse CDFs rounded to a lattice exactly: draws proved in floating point.

The ideal draw is F^-1(U) for a uniform real U. Only as many bits of U are drawn as it takes to say
between which two neighbors of a lattice it falls; the CDF is a ball of proved radius (Arb), with
more digits wherever the ball and the bits leave it open. The lattice point that comes out is the
ideal draw, correctly rounded: post-processing of the ideal draw, whatever the data.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from flint import arb, ctx, fmpq
from pymc_private.samplers.inverse_cdf__laws import Law, ball_of
from pymc_private.samplers.randomness import Uniform

BITS = 64
"""Bits of the uniform number that are drawn at a time."""
LATTICE_BITS = 40
CLOSE = 2**14
"""Cells within which the slope says what the mass is."""


@dataclass(frozen=True)
class Lattice:
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
    def even(cls, width: Fraction) -> Lattice:
        """Multiples of a width."""
        return cls(width, float, lambda place: place)

    @classmethod
    def logarithmic(cls) -> Lattice:
        """Multiples in log x: the same number of digits at every scale."""
        return cls(Fraction(1, 2**LATTICE_BITS), math.log, lambda place: place.exp())

    @classmethod
    def logistic(cls) -> Lattice:
        """Multiples in logit x."""
        return cls(
            Fraction(1, 2**LATTICE_BITS),
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

    def __init__(self, law: Law, lattice: Lattice, low: float, high: float) -> None:
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
            x = self.lattice.edge(ball_of(place))
            low, high = _end(self.low), _end(self.high)
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
            low = mass(_end(self.low)) if self.low > least else low
            high = mass(_end(self.high)) if self.high < most else high
            self._totals[bits] = (low, high - low if self._rising else low - high)
        return self._totals[bits]

    def draw(self, randomness: Uniform) -> Fraction:
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
        if abs(at - k) > CLOSE:
            return arb("nan")
        with ctx.workprec(128):
            one, two = (self.lattice.edge(ball_of(self._border(j))) for j in (at, k))
            between = one.union(two)
            if not (between > _end(self.low) and between < _end(self.high)):
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

    def __init__(self, randomness: Uniform) -> None:
        self._randomness, self._word, self._bits = randomness, 0, 0
        self.extend()

    def extend(self) -> None:
        """Draw more bits."""
        self._word = (self._word << BITS) | self._randomness.below(2**BITS)
        self._bits += BITS

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


def _end(value: float) -> arb:
    return arb(value) if math.isinf(value) else ball_of(Fraction(value))
