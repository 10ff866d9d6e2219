"""Many chains of the ideal proximal sampler at once, in floats that know how far off they are.

For a state x of doubles, with Z, Z' and U the real numbers of `noise`, the ideal iteration is

    y = x + sqrt(eta) Z,   g = slope of F(.; y) at a mode m of doubles,   t = 1 + 1 / eta,
    delta = (sqrt(t) Z' - g) / t,   accepted when log U < -sum_i rest_i(u_i, <X_i, delta>),

and the next state is m + delta. Any m is correct (`proximal`), also one that depends on y. Floats
follow each of these numbers with a bound of their distance, in l2 for vectors. A comparison outside
its bound is that of the real numbers; the others, and next states farther than omega from theirs,
are left to `balls`. So the only thing that is not ideal is that the next iteration starts within
omega of where it should.

The bounds, with e_i for predictors, r_i >= |X_i| and gamma of `running`:

    |y - y^| <= sqrt(eta) |Z - Z^| + |low part of x| + rounding
    e_i <= (gamma r_i + |X_i - X^_i|) |m| + that of b_i
    |g - g^| <= sum_i r_i (sup |h''| e_i + error of h') + (gamma r_i + |X_i - X^_i|) |h'_i|
                + |y - y^| / eta + rounding
    |delta - delta^| <= |g - g^| / t + |Z' - Z'^| / sqrt(t) + rounding
    error of the log acceptance <= sum_i sup |slopes of rest_i| (e_i + that of <X_i, delta>)
                                   + errors of evaluation and of the sum.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass, field
from pymc_private.samplers.proximal import Kernel, Structure
from pymc_private.samplers.randomness import Uniform
from pymc_private.samplers.verified.kernel__balls import Proposal, Start, Step, Vector, pair, settled
from pymc_private.samplers.verified.arithmetic__noise import Floats, Lazy, log_uniforms, normals, truncated
from pymc_private.samplers.verified.arithmetic__records import Records, additions, norm
from pymc_private.samplers.verified.arithmetic import FUNCTION, LOOSE, RADIUS, Rest, TINY, gamma

Publish = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class State:
    """Where chains are: two doubles for each coordinate, whose sum the state is."""

    high: np.ndarray
    low: np.ndarray


@dataclass(frozen=True, eq=False)
class Points:
    """Where chains should be: floats, bounds in l2, and the real points to any number of bits."""

    value: np.ndarray
    error: np.ndarray
    exact: Callable[[int], Callable[[int], Vector]]

    def rounded(self, omega: float) -> State:
        """States within omega of the points."""
        high, low = self.value.copy(), np.zeros_like(self.value)
        for k in map(int, np.flatnonzero(~(self.error <= omega))):
            high[k], low[k] = pair(self.exact(k), omega)
        return State(high, low)

    def published(self, records: Records, publish: Publish) -> np.ndarray:
        """The parameters of the points as they leave: each as the point itself says."""
        theta = records.center + records.scale * self.value
        moved = records.scale * self.error[:, None] * LOOSE
        moved += 2.0**-51 * (np.abs(theta) + np.abs(records.scale * self.value)) + TINY
        found, above = publish(theta - moved), publish(theta + moved)
        for k in map(int, np.flatnonzero(~np.all(found == above, axis=1))):
            point = self.exact(k)
            found[k] = settled(_parameters(records, point), publish)
        return found


def _parameters(records: Records, point: Callable[[int], Vector]) -> Callable[[int], Vector]:
    return lambda bits: records.theta(point(bits))


def start(records: Records, count: int, randomness: Uniform) -> Points:
    """Draws of the prior."""
    words = randomness.words(count * records.dimension).reshape(count, -1)
    z, off = normals(words), np.zeros(1)
    if records.is_bounded:
        with np.errstate(all="ignore"):
            low, high, off = records.walls
            z = truncated(words, low, high)
    error = norm(z.error + off) * LOOSE
    return Points(z.value, error, lambda k: Start(records, Lazy(words[k], randomness)).point)


@dataclass(eq=False)
class _Iteration:
    """What one iteration knows of its chains."""

    state: State
    noise: np.ndarray
    mode: np.ndarray
    u: np.ndarray
    slope: Floats  # g, with bounds in l2
    steps: dict[int, Step] = field(default_factory=dict)
    proposals: dict[int, Proposal] = field(default_factory=dict)


class StrictKernel:
    """One iteration for many chains at once, a chain per row.

    Parameters
    ----------
    records : Records
    structure : Structure
        The same in floats: it looks for modes.
    eta : float
    """

    def __init__(self, records: Records, structure: Structure, eta: float) -> None:
        self.records, self.eta = records, eta
        self.root, self.tight = math.sqrt(eta), 1.0 + 1.0 / eta
        self.search = Kernel(structure, eta)
        with np.errstate(all="ignore"):
            size, own = records.bounds[:, 0], records.bounds[:, 1]
        self.size = size
        self.steady = size * (FUNCTION + gamma(additions(len(size)))) + own

    def step(self, state: State, randomness: Uniform) -> Points:
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
                error[at] = (moved[accepted] + 2.0**-52 * norm(value[at])) * LOOSE
                noise[at], uniform[at] = words[accepted], coins[accepted]
                left = left[~accepted]

        def exact(k: int) -> Callable[[int], Vector]:
            if k not in now.proposals:
                step = self._exactly(now, k, randomness)
                now.proposals[k] = step.proposal(noise[k], uniform[k])
            return now.proposals[k].point

        return Points(value, error, exact)

    def _exactly(self, now: _Iteration, k: int, randomness: Uniform) -> Step:
        """The step of one chain in balls, once: further bits of its noise stay what they are."""
        if k not in now.steps:
            state = now.state.high[k], now.state.low[k]
            now.steps[k] = Step(
                self.records, self.eta, state, now.noise[k], now.mode[k], randomness
            )
        return now.steps[k]

    def _prepare(self, state: State, randomness: Uniform) -> _Iteration:
        """Noise, a mode, and the slope there."""
        words = randomness.words(state.high.size).reshape(state.high.shape)
        z = normals(words)
        far = self.root * z.value
        y = state.high + far
        y_error = self.root * norm(z.error) + norm(state.low)
        y_error += 2.0**-51 * (norm(far) + norm(y)) + TINY
        mode, _, _ = self.search.descend(y)
        u = self.search.predictors(mode)
        h = self.records.curve.slope(u)
        moved = self._predictor_error(norm(mode))
        pull = self.size @ (h.bend * moved) + self.steady @ (h.size + TINY)
        back = (mode - y) / self.eta
        slope = mode + back - self.records.gradient(h.value)
        error = pull + 2.0**-50 * (norm(mode) + norm(back) + norm(slope))
        error += y_error / self.eta * (1.0 + 2.0**-50)
        return _Iteration(state, words, mode, u, Floats(slope, error * LOOSE))

    def _predictor_error(self, size: np.ndarray) -> np.ndarray:
        """Bounds for predictors at floats of norm `size`, shape (N, chains)."""
        bounds = self.records.bounds
        found = bounds[:, 2:3] * size + bounds[:, 3:] + TINY
        return np.where(found <= RADIUS / 2.0, found * LOOSE, np.inf)

    def _propose(
        self, now: _Iteration, left: np.ndarray, words: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Moves from the mode, and bounds in l2."""
        center, root = -now.slope.value[left] / self.tight, math.sqrt(self.tight)
        if self.records.is_bounded:
            z = self._between_walls(now.mode[left], center, words)
        else:
            z = normals(words)
        far = z.value / root
        error = now.slope.error[left] / self.tight + norm(z.error) / root
        return center + far, (error + 2.0**-49 * (norm(center) + norm(far)) + TINY) * LOOSE

    def _between_walls(self, mode: np.ndarray, center: np.ndarray, words: np.ndarray) -> Floats:
        """Normal numbers that keep moves inside; they follow their ends no faster than these move.

        For a truncated normal law, as for every log-concave one, quantiles rise with each end and
        with the center, by no more than these: so a slope that is off moves no more than it does on
        the whole line, and ends that are off add what they are off.
        """
        low, high, off = self.records.walls
        root = math.sqrt(self.tight)
        z = truncated(words, *((end - mode - center) * root for end in (low, high)))
        size = sum(np.where(np.isfinite(end), np.abs(end), 0.0) for end in (low, high))
        off = off + 2.0**-49 * (size + np.abs(mode) + np.abs(center))
        return Floats(z.value, z.error + 2.0 * root * off)

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
        error += self._predictor_error(norm(now.mode[left]) + norm(delta))
        log_u, total = log_uniforms(coins), rest.value.sum(axis=0)
        margin = self._rest_error(rest, error) + log_u.error
        margin += 2.0**-51 * (np.abs(total) + np.abs(log_u.value))
        return -total - log_u.value, margin * LOOSE

    def _rest_error(self, rest: Rest, error: np.ndarray) -> np.ndarray:
        """Bound for the sum of the rests, whose arguments are wrong by no more than `error`."""
        n = len(error)
        loss = (rest.steep * np.where(error <= RADIUS, error, np.inf)).sum(axis=0)
        loss += FUNCTION * rest.size.sum(axis=0) + gamma(n) * np.abs(rest.value).sum(axis=0)
        return loss + n * TINY
