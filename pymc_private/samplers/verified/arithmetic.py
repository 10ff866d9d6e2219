"""Noise, log-likelihoods and predictors in doubles with error bounds and in Arb balls (T21).

*Noise.* Normal and uniform numbers of which further bits can be drawn, with a double beside
each.

*Log-likelihoods.* For doubles u and du a curve gives the doubles of h'(u) and of the tangent
remainder, and with each how much it can move: by its arguments, and by its own evaluation.
With

    remainder(u, du) = h(u) + h'(u) du - h(u + du) >= 0,
    h concave, b >= -h'' between u and u + du:
    |d remainder / d du| = |h'(u) - h'(u + du)| <= b |du|,
    |d remainder / d u| = |h'(u) - h'(u + du) + h''(u) du| <= b |du|,

both because h'(u) - h'(u + du) and -h''(u) du have one sign and sizes in [0, b |du|].

*Predictors.* X z + b as exact numbers, as doubles with bounds, and as balls. Row i is X_i = W
a_i with the coefficients a_i of a record and the scales W of the prior, and b_i = offset_i +
<a_i, center>: all of a, W, center and offset are doubles, and arithmetic is rounded in the
doubles alone.

Notes
-----
Elementary functions of NumPy and SciPy are assumed to be accurate within FUNCTION_ERROR,
relative to their value: thirty times what is observed, tested against balls at every release
(log Phi right of zero: relative to 1, which is all that its mass needs). Sums and products in
any order obey gamma_k = k e / (1 - k e), e = 2^-53 (Higham 2002, section 3.1); `sum_error` is
above it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from flint import arb, arb_mat, ctx, fmpq
from scipy.special import expit, log_expit, log_ndtr, ndtri, ndtri_exp

from pymc_private.samplers.randomness import HALF_LOG_TAU, Randomness

FUNCTION_ERROR = 2.0**-47
"""Assumed relative error of elementary functions of NumPy and SciPy."""
UNDERFLOW = 1e-270
"""Absolute error that covers underflow."""
OUTWARD = 1.0 + 2.0**-20
"""Factor that covers the rounding of the bounds themselves, which are sums of positive terms."""
PREDICTOR_RADIUS = 2.0**-10
"""Largest error of a predictor for which the bounds hold."""
WORD_BITS = 64
"""Bits of a word of noise."""
QUANTILE_ERROR = 2.0**-45
"""Bound of the error of SciPy's `ndtri`, relative to 1 + |z|: about 100 times what is observed."""
LEAST_HAZARD = 0.79
"""Lower bound of the normal hazard rate (density over upper tail) on the positive half-line."""
NEWTON_BELOW = -1000.0
"""Log mass below which a Newton step corrects SciPy's normal quantile."""
BALL_MATRIX_SIZE = 2**19
"""Numbers in one matrix of balls."""
MOST_KEPT_BALLS = 2**20
"""Numbers of coefficients up to which their balls are kept."""
SHORTEST_SUM = 32
"""Least length of the short sums of slopes: errors of sums grow with their length."""
BallBound = arb | None
"""A bound of a truncated normal distribution; None where it is infinite."""


def sum_error(count: int) -> float:
    """Upper bound of the error of a sum of `count` < 2^40 products, relative to that of sizes."""
    return (count + 2) * 2.0**-53 * (1.0 + 2.0**-10)


def short_sum_length(n: int) -> int:
    """Length of the short sums in which n terms are added."""
    return max(SHORTEST_SUM, math.isqrt(n))


def most_additions(n: int) -> int:
    """Largest number of additions that a term of a sum of n terms goes through."""
    return min(n, short_sum_length(n)) + n // short_sum_length(n) + 1


def norm_bound(values: np.ndarray) -> np.ndarray:
    """Euclidean norms along the last axis, of any scale, rounded up by the factor OUTWARD."""
    largest = np.abs(values).max(axis=-1, initial=0.0)
    safe = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
    unit = np.sqrt(np.sum((values / safe[..., None]) ** 2, axis=-1))
    return np.where(np.isfinite(largest), safe * unit * OUTWARD, np.inf)


def exact_balls(values: np.ndarray) -> list[arb]:
    """Doubles as balls of radius zero."""
    return [arb(float(v)) for v in values]


@dataclass(frozen=True)
class BoundedFloats:
    """Doubles, and a bound of the distance of each from the real number it represents."""

    value: np.ndarray
    error: np.ndarray


def normal_floats(words: np.ndarray) -> BoundedFloats:
    """Standard normal draws from words of 64 bits: a sign, and the first bits of a tail mass.

    The real number is -+ Phi^-1(V), V = (k + f) / 2^64 with k the lower 63 bits and f in [0, 1] the
    later bits. A change of V by e moves it by at most 2 e / phi as long as phi does not halve on
    the way, and phi(z) >= V max(z, 0.79): the normal hazard rate is above both. The error bound is
    infinite where the later bits matter, far out.
    """
    k = words & np.uint64(2**63 - 1)
    mass = (k.astype(np.float64) + 0.5) * 2.0**-WORD_BITS
    size = -ndtri(mass)
    moved = 2.0 * (2.0**-65 / mass + 2.0**-51) / np.maximum(size, LEAST_HAZARD)
    error = np.where((size + moved) * moved < 0.5, moved, np.inf) + QUANTILE_ERROR * (1.0 + size)
    return BoundedFloats(np.where(words >> np.uint64(63) == 1, -size, size), error)


def truncated_normal_floats(words: np.ndarray, low: np.ndarray, high: np.ndarray) -> BoundedFloats:
    """Standard normal draws truncated to [low, high], from words of 64 bits: quantiles at U.

    U = (word + f) / 2^64, and bounds may be infinite. Phi(z) = (1 - U) Phi(low) + U Phi(high), and
    its complement has the same form: sums of positive terms, added as logarithms; that of the
    smaller tail is used. An error r of its logarithm moves z by at most 2 r Phi(z) / phi(z) <= 2 r
    / max(|z|, 0.79), as in `normal_floats`. The unknown bits of U move Phi(z) by at most 2^-65,
    relative to it by at most 2^-65 / U.
    """
    left = (words.astype(np.float64) + 0.5) * 2.0**-WORD_BITS
    right = (np.invert(words).astype(np.float64) + 0.5) * 2.0**-WORD_BITS
    below = np.logaddexp(np.log(right) + log_ndtr(low), np.log(left) + log_ndtr(high))
    above = np.logaddexp(np.log(right) + log_ndtr(-low), np.log(left) + log_ndtr(-high))
    lower = below < above
    mass, share = np.where(lower, below, above), np.where(lower, left, right)
    size = -_normal_quantile(mass)
    cell = 2.0**-64 * np.minimum(np.exp(-mass), 1.0 / share)
    cell = np.where(cell < 0.25, cell, np.inf)
    moved = 2.0 * (6.0 * FUNCTION_ERROR * (1.0 - mass) + cell) / np.maximum(size, LEAST_HAZARD)
    error = np.where((np.abs(size) + moved) * moved < 0.5, moved, np.inf)
    return BoundedFloats(
        np.where(lower, -size, size), error + QUANTILE_ERROR * (1.0 + np.abs(size))
    )


def _normal_quantile(log_mass: np.ndarray) -> np.ndarray:
    """Phi^-1 of masses up to 1/2; far out SciPy has ten digits, and Newton's method the others."""
    z = ndtri_exp(log_mass)
    far = log_mass < NEWTON_BELOW
    if far.any():
        at, goal = z[far], log_mass[far]
        hazard = np.exp(-0.5 * at**2 - HALF_LOG_TAU - log_ndtr(at))
        hazard = np.where(hazard > 0.5 * np.abs(at), hazard, np.abs(at))  # |z| + 1 / |z| - ...
        z[far] = at - (log_ndtr(at) - goal) / hazard
    return z


def log_uniform_floats(words: np.ndarray) -> BoundedFloats:
    """log U for U = (word + f) / 2^64."""
    uniform = (words.astype(np.float64) + 0.5) * 2.0**-WORD_BITS
    value = np.log(uniform)
    cell = 2.0**-64 / uniform
    error = np.where(cell < 0.25, cell, np.inf)  # |log(1 + x)| <= 2 |x| there
    return BoundedFloats(value, error + 2.0**-50 + FUNCTION_ERROR * np.abs(value))


class LazyNoise:
    """The numbers of given words as balls, with further bits drawn as precision demands.

    Parameters
    ----------
    words : array of uint64
        The known bits.
    randomness : Randomness
        The source of further bits.
    """

    def __init__(self, words: np.ndarray, randomness: Randomness) -> None:
        self._randomness, self._bits = randomness, WORD_BITS
        self._words = [int(w) for w in np.ravel(words)]

    def _extended(self, bits: int) -> None:
        while self._bits < bits:
            self._words = [
                (w << WORD_BITS) | self._randomness.below(2**WORD_BITS) for w in self._words
            ]
            self._bits += WORD_BITS

    def normals(self, bits: int) -> list[arb]:
        """Balls of the numbers of `normal_floats`, from at least `bits` bits."""
        self._extended(bits)
        with ctx.workprec(bits + WORD_BITS):
            return [self._normal(word) for word in self._words]

    def _normal(self, word: int) -> arb:
        sign, k = divmod(word, 2 ** (self._bits - 1))
        size = arb(2).sqrt() * (2 * _uniform_ball(k, self._bits)).erfcinv()
        return -size if sign else size

    def truncated(self, bits: int, low: list[BallBound], high: list[BallBound]) -> list[arb]:
        """Balls of the numbers of `truncated_normal_floats`; bounds are balls, or None."""
        self._extended(bits)
        with ctx.workprec(bits + WORD_BITS):
            return [self._truncated(*at) for at in zip(self._words, low, high, strict=True)]

    def _truncated(self, word: int, low: BallBound, high: BallBound) -> arb:
        uniform, root = _uniform_ball(word, self._bits), arb(2).sqrt()
        below, above = (
            (1 - uniform) * _twice_tail_mass(low, sign, -1)
            + uniform * _twice_tail_mass(high, sign, 1)
            for sign in (-1, 1)
        )
        if float(below.mid()) < float(above.mid()):
            return -root * below.erfcinv()
        return root * above.erfcinv()

    def log_uniform(self, bits: int) -> arb:
        """Ball of the number of `log_uniform_floats`, for a single word."""
        self._extended(bits)
        with ctx.workprec(bits + WORD_BITS):
            return _uniform_ball(self._words[0], self._bits).log()


def _twice_tail_mass(bound: BallBound, sign: int, side: int) -> arb:
    """Twice the mass left (sign -1) or right (1) of a bound; None is infinity on its side."""
    if bound is None:
        return arb(0) if sign == side else arb(2)
    return (sign * bound / arb(2).sqrt()).erfc()


def _uniform_ball(k: int, bits: int) -> arb:
    """The interval [k, k + 1] / 2^bits, exactly, as a ball."""
    return arb(fmpq(2 * k + 1, 2 ** (bits + 1)), fmpq(1, 2 ** (bits + 1)))


@dataclass(frozen=True)
class BoundedSlope:
    """h'(u) for floats u, of shape (N, chains).

    Parameters
    ----------
    value : array
    curvature : array
        Bound of |h''| within `PREDICTOR_RADIUS` of u.
    size : array
        Bound of the sizes of all terms in the evaluation of h'(u).
    """

    value: np.ndarray
    curvature: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class TangentRemainder:
    """h(u) + h'(u) du - h(u + du) for floats u and du, of shape (N, chains).

    Parameters
    ----------
    value : array
    slope_bound : array
        Bound of its derivatives in u and du within `PREDICTOR_RADIUS` of them.
    size : array
        The error of its evaluation is at most FUNCTION_ERROR times this.
    """

    value: np.ndarray
    slope_bound: np.ndarray
    size: np.ndarray


class VerifiedCurve(Protocol):
    """Concave h of every record, in floats with error bounds and in balls."""

    def slope(self, u: np.ndarray) -> BoundedSlope:
        """h'(u)."""

    def remainder(self, u: np.ndarray, du: np.ndarray) -> TangentRemainder:
        """Tangent remainder from u to u + du."""

    def value_ball(self, record: int, u: arb) -> arb:
        """h up to a constant."""

    def slope_ball(self, record: int, u: arb) -> arb:
        """h'."""


@dataclass(frozen=True, eq=False)
class VerifiedLogistic:
    """Weight times (y u - log(1 + e^u))."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> BoundedSlope:
        """w (y - sigmoid(u)), with |h''| <= w / 4."""
        p = expit(u)
        size = self.weight * (np.abs(self.y[:, None]) + 1.0)
        curvature = np.full_like(size, 0.25 * self.weight)
        return BoundedSlope(self.weight * (self.y[:, None] - p), curvature, size)

    def remainder(self, u: np.ndarray, du: np.ndarray) -> TangentRemainder:
        """w (log(1 + p (e^x - 1)) - p x), x = -|du|, and p = sigmoid(-u) for du > 0.

        Where the argument of the logarithm is below 1/2 it is computed as q + p e^x, q = 1 - p, a
        sum of positive terms, added as logarithms. The error is within FUNCTION_ERROR times
        32 w p |x|: the logarithm is at most 2 p |x|, and where it is that of the sum, 1 is at most
        3 p |x|.
        """
        v = np.where(du > 0.0, -u, u)
        x, p = -np.abs(du), expit(v)
        t, px = p * np.expm1(x), p * x
        low = t < -0.5
        log = np.log1p(np.where(low, 0.0, t))
        if low.any():
            log[low] = np.logaddexp(log_expit(-v[low]), log_expit(v[low]) + x[low])
        slope_bound = 0.25 * self.weight * (PREDICTOR_RADIUS - x)
        return TangentRemainder(self.weight * (log - px), slope_bound, (-32.0 * self.weight) * px)

    def value_ball(self, record: int, u: arb) -> arb:
        """By the branch whose exponential is at most 1."""
        y = arb(float(self.y[record]))
        soft = u + (-u).exp().log1p() if u > 0 else u.exp().log1p()
        return arb(self.weight) * (y * u - soft)

    def slope_ball(self, record: int, u: arb) -> arb:
        """By the branch whose exponential is at most 1."""
        e = (-u).exp() if u > 0 else u.exp()
        p = 1 / (1 + e) if u > 0 else e / (1 + e)
        return arb(self.weight) * (arb(float(self.y[record])) - p)


@dataclass(frozen=True, eq=False)
class VerifiedQuadratic:
    """Minus weight times (u - y)^2 / 2."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> BoundedSlope:
        """w (y - u)."""
        size = self.weight * (np.abs(self.y[:, None]) + np.abs(u))
        curvature = np.full((len(u), 1), self.weight)
        return BoundedSlope(self.weight * (self.y[:, None] - u), curvature, size)

    def remainder(self, u: np.ndarray, du: np.ndarray) -> TangentRemainder:
        """w du^2 / 2, three roundings."""
        value = 0.5 * self.weight * du**2
        return TangentRemainder(value, self.weight * (np.abs(du) + PREDICTOR_RADIUS), value)

    def value_ball(self, record: int, u: arb) -> arb:
        """Direct evaluation."""
        return -arb(self.weight) * (u - arb(float(self.y[record]))) ** 2 / 2

    def slope_ball(self, record: int, u: arb) -> arb:
        """Direct evaluation."""
        return arb(self.weight) * (arb(float(self.y[record])) - u)


@dataclass(frozen=True, eq=False)
class VerifiedExponential:
    """Weight times (y u - e^u): counts with log rate u."""

    y: np.ndarray
    weight: float

    def slope(self, u: np.ndarray) -> BoundedSlope:
        """w (y - e^u)."""
        rate = self.weight * np.exp(u)
        y = self.weight * self.y[:, None]
        return BoundedSlope(y - rate, 1.01 * rate, np.abs(y) + 2.0 * rate)

    def remainder(self, u: np.ndarray, du: np.ndarray) -> TangentRemainder:
        """w e^u (e^du - 1 - du); its derivatives are w e^u (e^du - 1) and itself.

        |e^(x + r) - 1| <= e^r |e^x - 1| + e^r - 1, and e^r < 1.001 for r <= RADIUS.
        """
        rate, rise = self.weight * np.exp(u), np.expm1(du)
        both = np.abs(rise) + np.abs(du)
        slope_bound = 1.01 * rate * (1.01 * both + 3.0 * PREDICTOR_RADIUS)
        return TangentRemainder(rate * (rise - du), slope_bound, 4.0 * rate * both)

    def value_ball(self, record: int, u: arb) -> arb:
        """Direct evaluation."""
        return arb(self.weight) * (arb(float(self.y[record])) * u - u.exp())

    def slope_ball(self, record: int, u: arb) -> arb:
        """Direct evaluation."""
        return arb(self.weight) * (arb(float(self.y[record])) - u.exp())


@dataclass(frozen=True, eq=False)
class VerifiedPosterior:
    """Posterior of a verified model: predictors, curve and box, in doubles and in balls.

    Parameters
    ----------
    coefficients : array, shape (N, d)
        Those of the parameters themselves.
    offset : array, shape (N,)
    center, scale : array, shape (d,)
        The parameters are center + scale z, z standard normal under the prior.
    curve : VerifiedCurve
    lower, upper : array, shape (d,)
        Bounds of the parameters; may be infinite.
    """

    coefficients: np.ndarray
    offset: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    curve: VerifiedCurve
    lower: np.ndarray
    upper: np.ndarray

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.coefficients.shape[1]

    @cached_property
    def is_bounded(self) -> bool:
        """Whether any parameter has a finite bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @cached_property
    def whitened_box(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Bounds of z in floats, and an error bound for each pair of them."""
        low, high = ((side - self.center) / self.scale for side in (self.lower, self.upper))
        far = sum(np.where(np.isfinite(side), np.abs(side), 0.0) for side in (low, high))
        return low, high, 2.0**-51 * (far + np.abs(self.center / self.scale)) + UNDERFLOW

    def whitened_box_balls(self) -> tuple[list[arb | None], list[arb | None]]:
        """Bounds of z in balls; None where it is unbounded."""
        center, scale = exact_balls(self.center), exact_balls(self.scale)
        low, high = (
            [
                (arb(float(e)) - c) / s if math.isfinite(e) else None
                for e, c, s in zip(side, center, scale, strict=True)
            ]
            for side in (self.lower, self.upper)
        )
        return low, high

    @cached_property
    def rows(self) -> np.ndarray:
        """X in floats, shape (N, d)."""
        return self.coefficients * self.scale

    @cached_property
    def whitened_offset(self) -> np.ndarray:
        """Offsets b in floats, shape (N,)."""
        return self.offset + self.coefficients @ self.center

    @cached_property
    def error_bounds(self) -> np.ndarray:
        """Bounds for floats, shape (N, 4).

        Columns: |X_i|; the error of X_i; the error of <X_i, z> per unit of |z|, including that of
        X_i; and the error that b_i adds to the predictor.
        """
        size = norm_bound(self.rows) * OUTWARD + UNDERFLOW
        own = 2.0**-52 * size + UNDERFLOW
        gamma = sum_error(self.dimension + 2)
        at = norm_bound(self.coefficients) * norm_bound(self.center)
        at = np.abs(self.offset) + at + UNDERFLOW
        shift = gamma * at * OUTWARD + 2.0**-51 * np.abs(self.whitened_offset)
        return np.stack([size, own, gamma * size + own, shift], axis=1)

    def predictors(self, z: np.ndarray) -> np.ndarray:
        """X z + b in floats, shape (N, chains)."""
        return self.rows @ z.T + self.whitened_offset[:, None]

    def gradient(self, slope: np.ndarray) -> np.ndarray:
        """X' slope in floats, shape (chains, d), by short sums whose results are added."""
        size = short_sum_length(len(self.rows))
        parts = [
            slope[k : k + size].T @ self.rows[k : k + size] for k in range(0, len(self.rows), size)
        ]
        return np.sum(parts, axis=0) if parts else np.zeros((slope.shape[1], self.dimension))

    def theta(self, z: list[arb]) -> list[arb]:
        """Parameters in balls, from whitened coordinates."""
        center, scale = exact_balls(self.center), exact_balls(self.scale)
        return [c + s * x for c, s, x in zip(center, scale, z, strict=True)]

    def balls(self) -> Iterator[tuple[int, arb_mat, list[arb]]]:
        """Blocks of records, exact: index of the first, coefficients, offsets."""
        yield from self._kept if self._kept is not None else self._blocks()

    @cached_property
    def _kept(self) -> list[tuple[int, arb_mat, list[arb]]] | None:
        return list(self._blocks()) if self.coefficients.size <= MOST_KEPT_BALLS else None

    def _blocks(self) -> Iterator[tuple[int, arb_mat, list[arb]]]:
        n, d = self.coefficients.shape
        step = max(1, BALL_MATRIX_SIZE // max(d, 1))
        for start in range(0, n, step):
            part = self.coefficients[start : start + step]
            yield (
                start,
                arb_mat(len(part), d, exact_balls(part.ravel())),
                exact_balls(self.offset[start : start + step]),
            )
