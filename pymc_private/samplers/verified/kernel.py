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
"""Bits of the first attempt in ball arithmetic."""
BallVector = list[arb]
PublishFunction = Callable[[np.ndarray], np.ndarray]


def sample_verified(
    posterior: VerifiedPosterior,
    in_floats: WhitenedPosterior,
    schedule: ProximalSchedule,
    omega: float,
    draws: int,
    randomness: Randomness,
    publish: PublishFunction,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Independent draws of the parameters, shape (draws, d), each the end of its own chain.

    `in_floats` is the same posterior in floats; `omega` the public bound of the distance of a state
    from the ideal one, l2 in whitened coordinates; `publish` maps parameters of shape (m, d) to
    released values and is increasing in each coordinate.

    Each draw is within t + t_fp of the (published) posterior in total variation, with t that of the
    schedule and t_fp = k omega / sqrt(2 pi eta) for its k steps (T21). *Proof.* Let A_j be the
    distribution of the published draw if the first j iterations are those made here and all later
    ones are ideal, starting from the state of doubles after them; A_0 starts with the ideal draw of
    the prior. A_j and the distribution with an ideal state in place of the rounded one have the
    same iterations before and after, and the next iteration first adds N(0, eta I): normal
    distributions whose centers are omega apart are within 2 Phi(omega / (2 sqrt(eta))) - 1 <= omega
    / sqrt(2 pi eta) of each other. The state is rounded k times, at the start and before every
    later iteration; the last point is not rounded but published as it is. Sum, and add the ideal
    chain's t.
    """
    block = max(1, LARGEST_MATRIX // max(len(posterior.rows), 1))
    kernel = VerifiedKernel(posterior, in_floats, schedule.eta)
    found = []
    for first in range(0, draws, block):
        count = min(block, draws - first)
        points = draw_prior_points(posterior, count, randomness)
        for step in range(schedule.steps):
            points = kernel.step(points.rounded(omega), randomness)
            progress(first + count * (step + 1) // schedule.steps)
        found.append(points.published(posterior, publish))
    return np.concatenate(found) if found else np.empty((0, posterior.dimension))


def draw_prior_points(
    posterior: VerifiedPosterior, count: int, randomness: Randomness
) -> ExactPoints:
    """Ideal draws of the prior, one for each chain."""
    words = randomness.words(count * posterior.dimension).reshape(count, -1)
    z, bound_error = normal_floats(words), np.zeros(1)
    if posterior.is_bounded:
        with np.errstate(all="ignore"):
            low, high, bound_error = posterior.whitened_box
            z = truncated_normal_floats(words, low, high)
    error = norm_bound(z.error + bound_error) * OUTWARD
    return ExactPoints(
        z.value, error, lambda k: ExactPriorDraw(posterior, LazyNoise(words[k], randomness)).point
    )


@dataclass(frozen=True, eq=False)
class ChainState:
    """States of chains: two doubles for each coordinate, whose sum is the state."""

    high: np.ndarray
    low: np.ndarray


@dataclass(frozen=True, eq=False)
class ExactPoints:
    """Ideal points of chains: floats, error bounds in l2, and the real points to any precision."""

    value: np.ndarray
    error: np.ndarray
    exact: Callable[[int], Callable[[int], BallVector]]

    def rounded(self, omega: float) -> ChainState:
        """States within omega of the points."""
        high, low = self.value.copy(), np.zeros_like(self.value)
        for k in map(int, np.flatnonzero(~(self.error <= omega))):
            high[k], low[k] = nearest_double_pair(self.exact(k), omega)
        return ChainState(high, low)

    def published(self, posterior: VerifiedPosterior, publish: PublishFunction) -> np.ndarray:
        """Published parameters of the points, each that of the ideal point itself."""
        theta = posterior.center + posterior.scale * self.value
        moved = posterior.scale * self.error[:, None] * OUTWARD
        moved += 2.0**-51 * (np.abs(theta) + np.abs(posterior.scale * self.value)) + UNDERFLOW
        found, above = publish(theta - moved), publish(theta + moved)
        for k in map(int, np.flatnonzero(~np.all(found == above, axis=1))):
            point = self.exact(k)
            found[k] = publish_exactly(_exact_parameters(posterior, point), publish)
        return found


def _exact_parameters(
    posterior: VerifiedPosterior, point: Callable[[int], BallVector]
) -> Callable[[int], BallVector]:
    return lambda bits: posterior.theta(point(bits))


class VerifiedKernel:
    """One ideal iteration for many chains at once, a chain per row.

    `in_floats` is the same posterior in floats, which serves to find modes.
    """

    def __init__(
        self, posterior: VerifiedPosterior, in_floats: WhitenedPosterior, eta: float
    ) -> None:
        self.posterior, self.eta = posterior, eta
        self.root, self.precision = math.sqrt(eta), 1.0 + 1.0 / eta
        self.search = ProximalKernel(in_floats, eta)
        with np.errstate(all="ignore"):
            size, own = posterior.error_bounds[:, 0], posterior.error_bounds[:, 1]
        self.size = size
        self.steady = size * (FUNCTION_ERROR + sum_error(most_additions(len(size)))) + own

    def step(self, state: ChainState, randomness: Randomness) -> ExactPoints:
        """Add noise, then draw ideally."""
        with np.errstate(all="ignore"):
            now = self._prepare(state, randomness)
            value, error = np.empty_like(now.mode), np.empty(len(now.mode))
            noise, uniform = np.empty_like(now.noise), np.empty(len(error), np.uint64)
            pending = np.arange(len(error))
            while len(pending):
                words = randomness.words(noise[pending].size).reshape(len(pending), -1)
                coins = randomness.words(len(pending))
                delta, moved = self._propose(now, pending, words)
                gap, margin = self._gap(now, pending, delta, moved, coins)
                accepted = gap > margin
                for j in np.flatnonzero(~(np.abs(gap) > margin)):
                    k = int(pending[j])
                    one = self._exactly(now, k, randomness).proposal(words[j], coins[j])
                    accepted[j] = one.is_accepted()
                    if accepted[j]:
                        now.proposals[k] = one
                at = pending[accepted]
                value[at] = now.mode[at] + delta[accepted]
                error[at] = (moved[accepted] + 2.0**-52 * norm_bound(value[at])) * OUTWARD
                noise[at], uniform[at] = words[accepted], coins[accepted]
                pending = pending[~accepted]

        def exact(k: int) -> Callable[[int], BallVector]:
            if k not in now.proposals:
                step = self._exactly(now, k, randomness)
                now.proposals[k] = step.proposal(noise[k], uniform[k])
            return now.proposals[k].point

        return ExactPoints(value, error, exact)

    def _exactly(self, now: _Iteration, k: int, randomness: Randomness) -> ExactStep:
        """The exact step of one chain, built once, so that further bits of its noise are kept."""
        if k not in now.exact_steps:
            state = now.state.high[k], now.state.low[k]
            now.exact_steps[k] = ExactStep(
                self.posterior, self.eta, state, now.noise[k], now.mode[k], randomness
            )
        return now.exact_steps[k]

    def _prepare(self, state: ChainState, randomness: Randomness) -> _Iteration:
        """Add noise, find modes, and bound the slopes there."""
        words = randomness.words(state.high.size).reshape(state.high.shape)
        z = normal_floats(words)
        noise = self.root * z.value
        y = state.high + noise
        y_error = self.root * norm_bound(z.error) + norm_bound(state.low)
        y_error += 2.0**-51 * (norm_bound(noise) + norm_bound(y)) + UNDERFLOW
        mode, _, _ = self.search.descend(y)
        u = self.search.predictors(mode)
        h = self.posterior.curve.slope(u)
        moved = self._predictor_error(norm_bound(mode))
        pull = self.size @ (h.curvature * moved) + self.steady @ (h.size + UNDERFLOW)
        back = (mode - y) / self.eta
        slope = mode + back - self.posterior.gradient(h.value)
        error = pull + 2.0**-50 * (norm_bound(mode) + norm_bound(back) + norm_bound(slope))
        error += y_error / self.eta * (1.0 + 2.0**-50)
        return _Iteration(state, words, mode, u, BoundedFloats(slope, error * OUTWARD))

    def _predictor_error(self, size: np.ndarray) -> np.ndarray:
        """Error bounds of predictors at floats of norm `size`, shape (N, chains)."""
        bounds = self.posterior.error_bounds
        found = bounds[:, 2:3] * size + bounds[:, 3:] + UNDERFLOW
        return np.where(found <= PREDICTOR_RADIUS / 2.0, found * OUTWARD, np.inf)

    def _propose(
        self, now: _Iteration, pending: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Proposed moves from the modes, and error bounds in l2."""
        center, root = -now.slope.value[pending] / self.precision, math.sqrt(self.precision)
        if self.posterior.is_bounded:
            z = self._truncated_noise(now.mode[pending], center, words)
        else:
            z = normal_floats(words)
        noise = z.value / root
        error = now.slope.error[pending] / self.precision + norm_bound(z.error) / root
        return center + noise, (
            error + 2.0**-49 * (norm_bound(center) + norm_bound(noise)) + UNDERFLOW
        ) * OUTWARD

    def _truncated_noise(
        self, mode: np.ndarray, center: np.ndarray, words: np.ndarray
    ) -> BoundedFloats:
        """Truncated normal numbers that keep moves inside the box, with error bounds.

        Quantiles of a truncated normal distribution, as of every log-concave one, are increasing
        and 1-Lipschitz in each bound and in the center: so an error of the slope has no more
        effect than on the whole line, and errors of the bounds add at most their size.
        """
        low, high, bound_error = self.posterior.whitened_box
        root = math.sqrt(self.precision)
        z = truncated_normal_floats(
            words, *((bound - mode - center) * root for bound in (low, high))
        )
        size = sum(np.where(np.isfinite(b), np.abs(b), 0.0) for b in (low, high))
        bound_error = bound_error + 2.0**-49 * (size + np.abs(mode) + np.abs(center))
        return BoundedFloats(z.value, z.error + 2.0 * root * bound_error)

    def _gap(
        self,
        now: _Iteration,
        pending: np.ndarray,
        delta: np.ndarray,
        moved: np.ndarray,
        coins: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Log acceptance minus log U, and a bound of its error."""
        u = now.u if len(pending) == now.u.shape[1] else now.u[:, pending]
        remainder = self.posterior.curve.remainder(u, self.posterior.rows @ delta.T)
        error = self.posterior.error_bounds[:, :1] * moved
        error += self._predictor_error(norm_bound(now.mode[pending]) + norm_bound(delta))
        log_u, total = log_uniform_floats(coins), remainder.value.sum(axis=0)
        margin = self._remainder_error(remainder, error) + log_u.error
        margin += 2.0**-51 * (np.abs(total) + np.abs(log_u.value))
        return -total - log_u.value, margin * OUTWARD

    def _remainder_error(self, remainder: TangentRemainder, error: np.ndarray) -> np.ndarray:
        """Error bound of the sum of remainders whose arguments are off by at most `error`."""
        n = len(error)
        error = np.where(error <= PREDICTOR_RADIUS, error, np.inf)
        loss = (remainder.slope_bound * error).sum(axis=0)
        summation = sum_error(n) * np.abs(remainder.value).sum(axis=0)
        loss += FUNCTION_ERROR * remainder.size.sum(axis=0) + summation
        return loss + n * UNDERFLOW


@dataclass(eq=False)
class _Iteration:
    """State, noise, modes and slopes of one iteration, and its exact steps."""

    state: ChainState
    noise: np.ndarray
    mode: np.ndarray
    u: np.ndarray
    slope: BoundedFloats  # g, with error bounds in l2
    exact_steps: dict[int, ExactStep] = field(default_factory=dict)
    proposals: dict[int, ExactProposal] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class ExactPriorDraw:
    """A draw of the prior, as the initial state of a chain."""

    posterior: VerifiedPosterior
    noise: LazyNoise

    def point(self, bits: int) -> BallVector:
        """The state in balls."""
        if self.posterior.is_bounded:
            return self.noise.truncated(bits, *self.posterior.whitened_box_balls())
        return self.noise.normals(bits)


class ExactStep:
    """One ideal step of one chain in ball arithmetic, with as many bits as decisions need.

    With precision t = 1 + 1 / eta: y = x + sqrt(eta) Z, g the slope of F(.; y) at the mode,
    delta = (-g + sqrt(t) Z') / t, accepted when log U < -sum of the remainders; then the next state
    is mode + delta.

    Parameters
    ----------
    posterior : VerifiedPosterior
    eta : float
    state : pair of array, shape (d,)
        Two doubles for each coordinate, whose sum is the state.
    noise : array of uint64, shape (d,)
        Known bits of Z.
    mode : array, shape (d,)
    randomness : Randomness
        Source of further bits.
    """

    def __init__(
        self,
        posterior: VerifiedPosterior,
        eta: float,
        state: tuple[np.ndarray, np.ndarray],
        noise: np.ndarray,
        mode: np.ndarray,
        randomness: Randomness,
    ) -> None:
        self.posterior, self.eta, self.state, self.mode = posterior, eta, state, mode
        self._randomness = randomness
        self._noise = LazyNoise(noise, randomness)

    def proposal(self, noise: np.ndarray, uniform: np.ndarray) -> ExactProposal:
        """The proposal of these bits."""
        return ExactProposal(
            self, LazyNoise(noise, self._randomness), LazyNoise(uniform, self._randomness)
        )

    def slope(self, bits: int) -> BallVector:
        """The slope g at the current precision."""
        scale, mode = exact_balls(self.posterior.scale), exact_balls(self.mode)
        pull = [arb(0)] * len(mode)
        for start, raw, offset in self.posterior.balls():
            u = _ball_predictors(raw, self.posterior.theta(mode), offset)
            h = [self.posterior.curve.slope_ball(start + i, x) for i, x in enumerate(u)]
            part = (raw.transpose() * _ball_column(h)).entries()
            pull = [a + b for a, b in zip(pull, part, strict=True)]
        root, eta = arb(self.eta).sqrt(), arb(self.eta)
        z = self._noise.normals(bits)
        y = [arb(a) + arb(b) + root * n
             for a, b, n in zip(*map(_as_floats, self.state), z, strict=True)]  # fmt: skip
        return [m + (m - at) / eta - s * p
                for m, at, s, p in zip(mode, y, scale, pull, strict=True)]  # fmt: skip

    def remainder(self, delta: BallVector) -> arb:
        """Sum of h(u) + h'(u) du - h(u + du) over all records."""
        scale, curve, total = exact_balls(self.posterior.scale), self.posterior.curve, arb(0)
        moved = [s * x for s, x in zip(scale, delta, strict=True)]
        for start, raw, offset in self.posterior.balls():
            u = _ball_predictors(raw, self.posterior.theta(exact_balls(self.mode)), offset)
            for i, (at, du) in enumerate(
                zip(u, (raw * _ball_column(moved)).entries(), strict=True)
            ):
                k = start + i
                total += curve.value_ball(k, at) - curve.value_ball(k, at + du)
                total += curve.slope_ball(k, at) * du
        return total


@dataclass(frozen=True, eq=False)
class ExactProposal:
    """A proposal of an exact step, and the uniform number that decides on it."""

    step: ExactStep
    noise: LazyNoise
    uniform: LazyNoise

    def delta(self, bits: int) -> BallVector:
        """The move from the mode."""
        precision, mode = 1 + 1 / arb(self.step.eta), exact_balls(self.step.mode)
        center, root = [-g / precision for g in self.step.slope(bits)], precision.sqrt()
        if self.step.posterior.is_bounded:
            low, high = (
                [
                    None if bound is None else (bound - m - c) * root
                    for bound, m, c in zip(bounds, mode, center, strict=True)
                ]
                for bounds in self.step.posterior.whitened_box_balls()
            )
            z = self.noise.truncated(bits, low, high)
        else:
            z = self.noise.normals(bits)
        return [c + x / root for c, x in zip(center, z, strict=True)]

    def is_accepted(self) -> bool:
        """Whether log U < log acceptance; decided at some precision with probability one."""
        bits = FIRST_BITS
        while True:
            with ctx.workprec(bits):
                log_accept = -self.step.remainder(self.delta(bits))
                log_uniform = self.uniform.log_uniform(bits)
                if log_uniform < log_accept:
                    return True
                if log_uniform > log_accept:
                    return False
            bits *= 2

    def point(self, bits: int) -> BallVector:
        """The next state in balls."""
        return [m + x for m, x in zip(exact_balls(self.step.mode), self.delta(bits), strict=True)]


def nearest_double_pair(
    point: Callable[[int], BallVector], most: float
) -> tuple[np.ndarray, np.ndarray]:
    """Two doubles for each coordinate, whose sums lie within `most` of a point (in l2)."""
    bits = FIRST_BITS
    while True:
        with ctx.workprec(bits):
            balls = point(bits)
            high = [_nearest_double(x) for x in balls]
            low = [_nearest_double(x - h) for x, h in zip(balls, high, strict=True)]
            if all(np.isfinite([*high, *low])):
                rest = [x - h - w for x, h, w in zip(balls, high, low, strict=True)]
                square = sum((x * x for x in rest), arb(0))
                if square < arb(most) ** 2:
                    return np.array(high), np.array(low)
        bits *= 2


def publish_exactly(
    point: Callable[[int], BallVector], publish: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Published value of the double nearest to a point, with as many bits as decide it.

    `point` gives the balls of the point from a number of bits; `publish` maps doubles of shape
    (2, d) and is increasing in each coordinate.
    """
    bits = FIRST_BITS
    while True:
        with ctx.workprec(bits):
            doubles = [_enclosing_doubles(x) for x in point(bits)]
        low, high = publish(np.array(doubles).T)
        if np.array_equal(low, high):
            return np.asarray(low)
        bits *= 2


def _enclosing_doubles(ball: arb) -> tuple[float, float]:
    """Doubles between which the double nearest to any point of the ball lies."""
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
