"""Ideal proximal iterations of many chains, in doubles with running error bounds.

For a state x of doubles, with Z, Z' and U the real numbers behind the noise, the ideal
iteration is

    y = x + sqrt(eta) Z,   g = slope of F(.; y) at a mode m of doubles,   t = 1 + 1 / eta,
    delta = (sqrt(t) Z' - g) / t,
    accepted when log U < -sum_i remainder_i(u_i, <X_i, delta>),

and the next state is m + delta. Any m is correct (`proximal`), also one that depends on y.
Doubles follow each of these numbers with a bound of their distance, in l2 for vectors. A
comparison outside its bound is that of the real numbers; the others, and next states farther
than omega from the real ones, are computed in ball arithmetic (`ExactStep`). So the only
deviation from the ideal chain is that the next iteration starts within omega of the ideal
state.

The bounds, with e_i for predictors, r_i >= |X_i| and gamma the error factor of sums:

    |y - y^| <= sqrt(eta) |Z - Z^| + |low part of x| + rounding
    e_i <= (gamma r_i + |X_i - X^_i|) |m| + that of b_i
    |g - g^| <= sum_i r_i (sup |h''| e_i + error of h') + (gamma r_i + |X_i - X^_i|) |h'_i|
                + |y - y^| / eta + rounding
    |delta - delta^| <= |g - g^| / t + |Z' - Z'^| / sqrt(t) + rounding
    error of log acceptance <= sum_i sup |slopes of remainder_i| (e_i + that of <X_i, delta>)
                               + errors of evaluation and of the sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from flint import arb, arb_mat, ctx

from pymc_private.samplers.proximal import (
    LARGEST_MATRIX,
    ProximalKernel,
    ProximalSchedule,
    WhitenedPosterior,
)
from pymc_private.samplers.randomness import Randomness
from pymc_private.samplers.verified.arithmetic import (
    FUNCTION_ERROR,
    OUTWARD,
    PREDICTOR_RADIUS,
    UNDERFLOW,
    BoundedFloats,
    LazyNoise,
    TangentRemainder,
    VerifiedPosterior,
    exact_balls,
    log_uniform_floats,
    most_additions,
    norm_bound,
    normal_floats,
    sum_error,
    truncated_normal_floats,
)

FIRST_BITS = 128

BallVector = list[arb]


class ExactStep:
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
        records: VerifiedPosterior,
        eta: float,
        state: tuple[np.ndarray, np.ndarray],
        noise: np.ndarray,
        mode: np.ndarray,
        randomness: Randomness,
    ) -> None:
        self.records, self.eta, self.state, self.mode = records, eta, state, mode
        self._randomness = randomness
        self._noise = LazyNoise(noise, randomness)

    def proposal(self, noise: np.ndarray, uniform: np.ndarray) -> ExactProposal:
        """What these bits propose."""
        return ExactProposal(
            self, LazyNoise(noise, self._randomness), LazyNoise(uniform, self._randomness)
        )

    def slope(self, bits: int) -> BallVector:
        """G at the present precision."""
        scale, mode = exact_balls(self.records.scale), exact_balls(self.mode)
        pull = [arb(0)] * len(mode)
        for start, raw, offset in self.records.balls():
            u = _ball_predictors(raw, self.records.theta(mode), offset)
            h = [self.records.curve.slope_ball(start + i, x) for i, x in enumerate(u)]
            part = (raw.transpose() * _ball_column(h)).entries()
            pull = [a + b for a, b in zip(pull, part, strict=True)]
        root, eta = arb(self.eta).sqrt(), arb(self.eta)
        z = self._noise.normals(bits)
        y = [arb(a) + arb(b) + root * n
             for a, b, n in zip(*map(_as_floats, self.state), z, strict=True)]  # fmt: skip
        return [m + (m - at) / eta - s * p
                for m, at, s, p in zip(mode, y, scale, pull, strict=True)]  # fmt: skip

    def rest(self, delta: BallVector) -> arb:
        """Sum of h(u) + h'(u) du - h(u + du) over all records."""
        scale, curve, total = exact_balls(self.records.scale), self.records.curve, arb(0)
        moved = [s * x for s, x in zip(scale, delta, strict=True)]
        for start, raw, offset in self.records.balls():
            u = _ball_predictors(raw, self.records.theta(exact_balls(self.mode)), offset)
            for i, (at, du) in enumerate(
                zip(u, (raw * _ball_column(moved)).entries(), strict=True)
            ):
                k = start + i
                total += curve.value_ball(k, at) - curve.value_ball(k, at + du)
                total += curve.slope_ball(k, at) * du
        return total


@dataclass(frozen=True, eq=False)
class ExactProposal:
    """A proposal of a step, and the uniform number that decides on it."""

    step: ExactStep
    noise: LazyNoise
    uniform: LazyNoise

    def delta(self, bits: int) -> BallVector:
        """The move from the mode."""
        tight, mode = 1 + 1 / arb(self.step.eta), exact_balls(self.step.mode)
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
        bits = FIRST_BITS
        while True:
            with ctx.workprec(bits):
                log_accept = -self.step.rest(self.delta(bits))
                log_uniform = self.uniform.log_uniform(bits)
                if log_uniform < log_accept:
                    return True
                if log_uniform > log_accept:
                    return False
            bits *= 2

    def point(self, bits: int) -> BallVector:
        """The next state."""
        return [m + x for m, x in zip(exact_balls(self.step.mode), self.delta(bits), strict=True)]


@dataclass(frozen=True, eq=False)
class ExactPriorDraw:
    """A draw of the prior, as a state to come from."""

    records: VerifiedPosterior
    noise: LazyNoise

    def point(self, bits: int) -> BallVector:
        """The state."""
        if self.records.is_bounded:
            return self.noise.truncated(bits, *self.records.wall_balls())
        return self.noise.normals(bits)


def nearest_double_pair(
    point: Callable[[int], BallVector], most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Two doubles for each coordinate, whose sums are nearer to a point than `most` (in l2)."""
    bits = FIRST_BITS
    while True:
        with ctx.workprec(bits):
            balls = point(bits)
            high = [_nearest_double(x) for x in balls]
            low = [_nearest_double(x - h) for x, h in zip(balls, high, strict=True)]
            if all(np.isfinite([*high, *low])):
                left = [x - h - w for x, h, w in zip(balls, high, low, strict=True)]
                square = sum((x * x for x in left), arb(0))
                if square < arb(most) ** 2:
                    return np.array(high), np.array(low)
        bits *= 2


def publish_exactly(
    point: Callable[[int], BallVector], publish: Callable[[np.ndarray], np.ndarray]
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
    bits = FIRST_BITS
    while True:
        with ctx.workprec(bits):
            ends = [_enclosing_doubles(x) for x in point(bits)]
        low, high = publish(np.array(ends).T)
        if np.array_equal(low, high):
            return np.asarray(low)
        bits *= 2


def _enclosing_doubles(ball: arb) -> tuple[float, float]:
    """Doubles between which the double next to a point of the ball lies."""
    return _nearest_double(ball.lower()), _nearest_double(ball.upper())


def _nearest_double(ball: arb) -> float:
    return float(ball.mid())


def _as_floats(values: np.ndarray) -> list[float]:
    return [float(v) for v in values]


def _ball_column(values: BallVector) -> arb_mat:
    return arb_mat(len(values), 1, values)


def _ball_predictors(raw: arb_mat, theta: BallVector, offset: BallVector) -> BallVector:
    found = (raw * _ball_column(theta)).entries()
    return [u + o for u, o in zip(found, offset, strict=True)]


PublishFunction = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class ChainState:
    """Where chains are: two doubles for each coordinate, whose sum the state is."""

    high: np.ndarray
    low: np.ndarray


@dataclass(frozen=True, eq=False)
class ExactPoints:
    """Where chains should be: floats, bounds in l2, and the real points to any number of bits."""

    value: np.ndarray
    error: np.ndarray
    exact: Callable[[int], Callable[[int], BallVector]]

    def rounded(self, omega: float) -> ChainState:
        """States within omega of the points."""
        high, low = self.value.copy(), np.zeros_like(self.value)
        for k in map(int, np.flatnonzero(~(self.error <= omega))):
            high[k], low[k] = nearest_double_pair(self.exact(k), omega)
        return ChainState(high, low)

    def published(self, records: VerifiedPosterior, publish: PublishFunction) -> np.ndarray:
        """The parameters of the points as they leave: each as the point itself says."""
        theta = records.center + records.scale * self.value
        moved = records.scale * self.error[:, None] * OUTWARD
        moved += 2.0**-51 * (np.abs(theta) + np.abs(records.scale * self.value)) + UNDERFLOW
        found, above = publish(theta - moved), publish(theta + moved)
        for k in map(int, np.flatnonzero(~np.all(found == above, axis=1))):
            point = self.exact(k)
            found[k] = publish_exactly(_exact_parameters(records, point), publish)
        return found


def _exact_parameters(
    records: VerifiedPosterior, point: Callable[[int], BallVector]
) -> Callable[[int], BallVector]:
    return lambda bits: records.theta(point(bits))


def draw_prior_points(
    records: VerifiedPosterior, count: int, randomness: Randomness
) -> ExactPoints:
    """Draws of the prior."""
    words = randomness.words(count * records.dimension).reshape(count, -1)
    z, off = normal_floats(words), np.zeros(1)
    if records.is_bounded:
        with np.errstate(all="ignore"):
            low, high, off = records.walls
            z = truncated_normal_floats(words, low, high)
    error = norm_bound(z.error + off) * OUTWARD
    return ExactPoints(
        z.value, error, lambda k: ExactPriorDraw(records, LazyNoise(words[k], randomness)).point
    )


@dataclass(eq=False)
class _Iteration:
    """What one iteration knows of its chains."""

    state: ChainState
    noise: np.ndarray
    mode: np.ndarray
    u: np.ndarray
    slope: BoundedFloats  # g, with bounds in l2
    steps: dict[int, ExactStep] = field(default_factory=dict)
    proposals: dict[int, ExactProposal] = field(default_factory=dict)


class VerifiedKernel:
    """One iteration for many chains at once, a chain per row.

    Parameters
    ----------
    records : Records
    structure : Structure
        The same in floats: it looks for modes.
    eta : float
    """

    def __init__(
        self, records: VerifiedPosterior, structure: WhitenedPosterior, eta: float
    ) -> None:
        self.records, self.eta = records, eta
        self.root, self.tight = math.sqrt(eta), 1.0 + 1.0 / eta
        self.search = ProximalKernel(structure, eta)
        with np.errstate(all="ignore"):
            size, own = records.bounds[:, 0], records.bounds[:, 1]
        self.size = size
        self.steady = size * (FUNCTION_ERROR + sum_error(most_additions(len(size)))) + own

    def step(self, state: ChainState, randomness: Randomness) -> ExactPoints:
        """Noise, then the ideal draw."""
        with np.errstate(all="ignore"):
            now = self._prepare(state, randomness)
            value, error = np.empty_like(now.mode), np.empty(len(now.mode))
            noise, uniform = np.empty_like(now.noise), np.empty(len(error), np.uint64)
            left = np.arange(len(error))
            while len(left):
                words = randomness.words(noise[left].size).reshape(len(left), -1)
                coins = randomness.words(len(left))
                delta, moved = self._propose(now, left, words)
                gap, margin = self._gap(now, left, delta, moved, coins)
                accepted = gap > margin
                for j in np.flatnonzero(~(np.abs(gap) > margin)):
                    k = int(left[j])
                    one = self._exactly(now, k, randomness).proposal(words[j], coins[j])
                    accepted[j] = one.is_accepted()
                    if accepted[j]:
                        now.proposals[k] = one
                at = left[accepted]
                value[at] = now.mode[at] + delta[accepted]
                error[at] = (moved[accepted] + 2.0**-52 * norm_bound(value[at])) * OUTWARD
                noise[at], uniform[at] = words[accepted], coins[accepted]
                left = left[~accepted]

        def exact(k: int) -> Callable[[int], BallVector]:
            if k not in now.proposals:
                step = self._exactly(now, k, randomness)
                now.proposals[k] = step.proposal(noise[k], uniform[k])
            return now.proposals[k].point

        return ExactPoints(value, error, exact)

    def _exactly(self, now: _Iteration, k: int, randomness: Randomness) -> ExactStep:
        """The step of one chain in balls, once: further bits of its noise stay what they are."""
        if k not in now.steps:
            state = now.state.high[k], now.state.low[k]
            now.steps[k] = ExactStep(
                self.records, self.eta, state, now.noise[k], now.mode[k], randomness
            )
        return now.steps[k]

    def _prepare(self, state: ChainState, randomness: Randomness) -> _Iteration:
        """Noise, a mode, and the slope there."""
        words = randomness.words(state.high.size).reshape(state.high.shape)
        z = normal_floats(words)
        far = self.root * z.value
        y = state.high + far
        y_error = self.root * norm_bound(z.error) + norm_bound(state.low)
        y_error += 2.0**-51 * (norm_bound(far) + norm_bound(y)) + UNDERFLOW
        mode, _, _ = self.search.descend(y)
        u = self.search.predictors(mode)
        h = self.records.curve.slope(u)
        moved = self._predictor_error(norm_bound(mode))
        pull = self.size @ (h.bend * moved) + self.steady @ (h.size + UNDERFLOW)
        back = (mode - y) / self.eta
        slope = mode + back - self.records.gradient(h.value)
        error = pull + 2.0**-50 * (norm_bound(mode) + norm_bound(back) + norm_bound(slope))
        error += y_error / self.eta * (1.0 + 2.0**-50)
        return _Iteration(state, words, mode, u, BoundedFloats(slope, error * OUTWARD))

    def _predictor_error(self, size: np.ndarray) -> np.ndarray:
        """Bounds for predictors at floats of norm `size`, shape (N, chains)."""
        bounds = self.records.bounds
        found = bounds[:, 2:3] * size + bounds[:, 3:] + UNDERFLOW
        return np.where(found <= PREDICTOR_RADIUS / 2.0, found * OUTWARD, np.inf)

    def _propose(
        self, now: _Iteration, left: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Moves from the mode, and bounds in l2."""
        center, root = -now.slope.value[left] / self.tight, math.sqrt(self.tight)
        if self.records.is_bounded:
            z = self._between_walls(now.mode[left], center, words)
        else:
            z = normal_floats(words)
        far = z.value / root
        error = now.slope.error[left] / self.tight + norm_bound(z.error) / root
        return center + far, (
            error + 2.0**-49 * (norm_bound(center) + norm_bound(far)) + UNDERFLOW
        ) * OUTWARD

    def _between_walls(
        self, mode: np.ndarray, center: np.ndarray, words: np.ndarray
    ) -> BoundedFloats:
        """Normal numbers that keep moves inside; they follow their ends no faster than these move.

        For a truncated normal law, as for every log-concave one, quantiles rise with each end and
        with the center, by no more than these: so a slope that is off moves no more than it does on
        the whole line, and ends that are off add what they are off.
        """
        low, high, off = self.records.walls
        root = math.sqrt(self.tight)
        z = truncated_normal_floats(words, *((end - mode - center) * root for end in (low, high)))
        size = sum(np.where(np.isfinite(end), np.abs(end), 0.0) for end in (low, high))
        off = off + 2.0**-49 * (size + np.abs(mode) + np.abs(center))
        return BoundedFloats(z.value, z.error + 2.0 * root * off)

    def _gap(
        self,
        now: _Iteration,
        left: np.ndarray,
        delta: np.ndarray,
        moved: np.ndarray,
        coins: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log acceptance less log U, and a bound of its error."""
        u = now.u if len(left) == now.u.shape[1] else now.u[:, left]
        rest = self.records.curve.rest(u, self.records.rows @ delta.T)
        error = self.records.bounds[:, :1] * moved
        error += self._predictor_error(norm_bound(now.mode[left]) + norm_bound(delta))
        log_u, total = log_uniform_floats(coins), rest.value.sum(axis=0)
        margin = self._rest_error(rest, error) + log_u.error
        margin += 2.0**-51 * (np.abs(total) + np.abs(log_u.value))
        return -total - log_u.value, margin * OUTWARD

    def _rest_error(self, rest: TangentRemainder, error: np.ndarray) -> np.ndarray:
        """Bound for the sum of the rests, whose arguments are wrong by no more than `error`."""
        n = len(error)
        loss = (rest.steep * np.where(error <= PREDICTOR_RADIUS, error, np.inf)).sum(axis=0)
        loss += FUNCTION_ERROR * rest.size.sum(axis=0) + sum_error(n) * np.abs(rest.value).sum(
            axis=0
        )
        return loss + n * UNDERFLOW


def sample_verified(
    records: VerifiedPosterior,
    structure: WhitenedPosterior,
    schedule: ProximalSchedule,
    omega: float,
    draws: int,
    randomness: Randomness,
    publish: PublishFunction,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Independent draws of the parameters, each the end of a chain of its own.

    Parameters
    ----------
    records : Records
    structure : Structure
        The same in floats.
    schedule : Schedule
    omega : float
        How far, in l2 and whitened coordinates, a state may be from where it should be: public.
    draws : int
    randomness : Uniform
    publish : callable
        From parameters of shape (m, d) to what leaves; increasing in each coordinate.
    progress : callable
        Called with the number of finished draws (parts of one count).

    Returns
    -------
    array, shape (draws, d)

    Notes
    -----
    Each draw is within t + t_fp of the (published) posterior in total variation, with t that of the
    schedule and t_fp = k omega / sqrt(2 pi eta) for its k steps (T21). *Proof.* Let A_j be the law
    of what is published if the first j iterations are those made here, and all later ones are
    ideal, from the state of doubles that stands after them; A_0 starts with the ideal draw of the
    prior. A_j and the law that differs by an ideal state in place of the rounded one have the same
    iterations before and after, and the iteration that follows first adds N(0, eta I): normal laws
    whose centers are omega apart are within 2 Phi(omega / (2 sqrt(eta))) - 1 <= omega / sqrt(2 pi
    eta) of each other. The state is rounded k times, at the start and before every later iteration;
    the last point is not rounded but published as it is. Sum, and add the ideal chain's t.
    """
    block = max(1, LARGEST_MATRIX // max(len(records.rows), 1))
    kernel = VerifiedKernel(records, structure, schedule.eta)
    found = []
    for first in range(0, draws, block):
        count = min(block, draws - first)
        points = draw_prior_points(records, count, randomness)
        for step in range(schedule.steps):
            points = kernel.step(points.rounded(omega), randomness)
            progress(first + count * (step + 1) // schedule.steps)
        found.append(points.published(records, publish))
    return np.concatenate(found) if found else np.empty((0, records.dimension))
