"""One step of one chain with balls of proved radius: what floats could not decide."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from flint import arb, arb_mat, ctx
from pymc_private.samplers.randomness import Uniform
from pymc_private.samplers.verified.arithmetic__noise import Lazy
from pymc_private.samplers.verified.arithmetic__records import Records, exact

BITS = 128

Vector = list[arb]


class Step:
    """The ideal step of a chain, to as many bits as it takes.

    y = x + sqrt(eta) Z, g the slope of F(.; y) at the mode, delta = (-g + sqrt(tight) Z') / tight,
    accepted when log U < -sum of the rests; then the next state is mode + delta. See `kernel`.

    Parameters
    ----------
    records : Records
    eta : float
    state : pair of array, shape (d,)
        Two doubles for each coordinate, whose sum the state is.
    noise : array of uint64, shape (d,)
        Bits of Z that are known.
    mode : array, shape (d,)
    randomness : Uniform
        Where further bits come from.
    """

    def __init__(
        self,
        records: Records,
        eta: float,
        state: tuple[np.ndarray, np.ndarray],
        noise: np.ndarray,
        mode: np.ndarray,
        randomness: Uniform,
    ) -> None:
        self.records, self.eta, self.state, self.mode = records, eta, state, mode
        self._randomness = randomness
        self._noise = Lazy(noise, randomness)

    def proposal(self, noise: np.ndarray, uniform: np.ndarray) -> Proposal:
        """What these bits propose."""
        return Proposal(self, Lazy(noise, self._randomness), Lazy(uniform, self._randomness))

    def slope(self, bits: int) -> Vector:
        """G at the present precision."""
        scale, mode = exact(self.records.scale), exact(self.mode)
        pull = [arb(0)] * len(mode)
        for start, raw, offset in self.records.balls():
            u = _predictors(raw, self.records.theta(mode), offset)
            h = [self.records.curve.slope_ball(start + i, x) for i, x in enumerate(u)]
            part = (raw.transpose() * _column(h)).entries()
            pull = [a + b for a, b in zip(pull, part, strict=True)]
        root, eta = arb(self.eta).sqrt(), arb(self.eta)
        z = self._noise.normals(bits)
        y = [arb(a) + arb(b) + root * n
             for a, b, n in zip(*map(_floats, self.state), z, strict=True)]  # fmt: skip
        return [m + (m - at) / eta - s * p
                for m, at, s, p in zip(mode, y, scale, pull, strict=True)]  # fmt: skip

    def rest(self, delta: Vector) -> arb:
        """Sum of h(u) + h'(u) du - h(u + du) over all records."""
        scale, curve, total = exact(self.records.scale), self.records.curve, arb(0)
        moved = [s * x for s, x in zip(scale, delta, strict=True)]
        for start, raw, offset in self.records.balls():
            u = _predictors(raw, self.records.theta(exact(self.mode)), offset)
            for i, (at, du) in enumerate(zip(u, (raw * _column(moved)).entries(), strict=True)):
                k = start + i
                total += curve.value_ball(k, at) - curve.value_ball(k, at + du)
                total += curve.slope_ball(k, at) * du
        return total


@dataclass(frozen=True, eq=False)
class Proposal:
    """A proposal of a step, and the uniform number that decides on it."""

    step: Step
    noise: Lazy
    uniform: Lazy

    def delta(self, bits: int) -> Vector:
        """The move from the mode."""
        tight, mode = 1 + 1 / arb(self.step.eta), exact(self.step.mode)
        center, root = [-g / tight for g in self.step.slope(bits)], tight.sqrt()
        if self.step.records.is_bounded:
            low, high = (
                [
                    None if end is None else (end - m - c) * root
                    for end, m, c in zip(ends, mode, center, strict=True)
                ]
                for ends in self.step.records.wall_balls()
            )
            z = self.noise.truncated(bits, low, high)
        else:
            z = self.noise.normals(bits)
        return [c + x / root for c, x in zip(center, z, strict=True)]

    def is_accepted(self) -> bool:
        """Whether log U < log acceptance: certain with probability one, at some precision."""
        bits = BITS
        while True:
            with ctx.workprec(bits):
                log_accept = -self.step.rest(self.delta(bits))
                log_uniform = self.uniform.log_uniform(bits)
                if log_uniform < log_accept:
                    return True
                if log_uniform > log_accept:
                    return False
            bits *= 2

    def point(self, bits: int) -> Vector:
        """The next state."""
        return [m + x for m, x in zip(exact(self.step.mode), self.delta(bits), strict=True)]


@dataclass(frozen=True, eq=False)
class Start:
    """A draw of the prior, as a state to come from."""

    records: Records
    noise: Lazy

    def point(self, bits: int) -> Vector:
        """The state."""
        if self.records.is_bounded:
            return self.noise.truncated(bits, *self.records.wall_balls())
        return self.noise.normals(bits)


def pair(point: Callable[[int], Vector], most: float) -> tuple[np.ndarray, np.ndarray]:
    """Two doubles for each coordinate, whose sums are nearer to a point than `most` (in l2)."""
    bits = BITS
    while True:
        with ctx.workprec(bits):
            balls = point(bits)
            high = [_nearest(x) for x in balls]
            low = [_nearest(x - h) for x, h in zip(balls, high, strict=True)]
            if all(np.isfinite([*high, *low])):
                left = [x - h - w for x, h, w in zip(balls, high, low, strict=True)]
                square = sum((x * x for x in left), arb(0))
                if square < arb(most) ** 2:
                    return np.array(high), np.array(low)
        bits *= 2


def settled(
    point: Callable[[int], Vector], publish: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """What is published of a point that floats around it do not agree on.

    Parameters
    ----------
    point : callable
        The point as balls from so many bits, shape (d,).
    publish : callable
        From doubles of shape (2, d), increasing in each coordinate; it is applied to the double
        next to the point.
    """
    bits = BITS
    while True:
        with ctx.workprec(bits):
            ends = [_ends(x) for x in point(bits)]
        low, high = publish(np.array(ends).T)
        if np.array_equal(low, high):
            return np.asarray(low)
        bits *= 2


def _ends(ball: arb) -> tuple[float, float]:
    """Doubles between which the double next to a point of the ball lies."""
    return _nearest(ball.lower()), _nearest(ball.upper())


def _nearest(ball: arb) -> float:
    return float(ball.mid())


def _floats(values: np.ndarray) -> list[float]:
    return [float(v) for v in values]


def _column(values: Vector) -> arb_mat:
    return arb_mat(len(values), 1, values)


def _predictors(raw: arb_mat, theta: Vector, offset: Vector) -> Vector:
    found = (raw * _column(theta)).entries()
    return [u + o for u, o in zip(found, offset, strict=True)]
