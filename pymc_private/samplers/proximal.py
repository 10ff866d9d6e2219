"""proximal: draws from log-concave posteriors with a proved distance from their law (T21).

pi ~ exp(-|z|^2 / 2 + sum_i h_i(x_i'z + b_i)) on a box or on all of R^d, h_i concave: a posterior in
coordinates in which its Gaussian prior is standard. (For other priors see `reference`.) One
iteration adds noise, y = z + sqrt(eta) e, and then draws z' ~ pi(z') exp(-|z' - y|^2 / 2 eta)
*exactly*, by rejection. pi is 1-strongly log-concave, so it has a log-Sobolev constant a = 1, walls
or not (Bakry and Emery), and

    KL_k <= KL_0 (1 + a eta)^(-2k)                (Chen, Chewi, Salim and Wibisono 2022)

for every eta > 0; Pinsker's inequality turns that into a total variation. The chain starts with a
draw of the prior, and the number of iterations is public. Every draw is a chain of its own.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from scipy.sparse import csr_array, issparse
from pymc_private.samplers.proximal__blocks import Blocks
from pymc_private.samplers.proximal_likelihoods import Curve
from pymc_private.samplers.randomness import Uniform, normal
from pymc_private.samplers.proximal__shortcut import Center, Shortcut
from pymc_private.samplers.proximal__threads import Map, threads
from pymc_private.samplers.conjugate__truncated import truncated_mean, truncated_normal

LOOSENESS = 4.0
"""c of eta = c / tr(A - P): acceptance is at least e^(-c/2), walls or not (see `Kernel`)."""
KINKED = 5.0
"""c of eta = (c / sum of the jumps of slopes)^2: an acceptance of some e^-2 with all kinks near."""
DESCENTS, NEAR = 40, 0.25
"""Most steps towards the center, and nats of acceptance from which on it is near enough: any point
is correct, a nearer one is cheaper."""
LONGEST = 2.0**10
"""Largest eta: a step divides the divergence by a million already, and a longer one would only take
the noise further beyond the walls."""
MOST_NUMBERS, UNKEPT = 4_000_000, 4
"""Numbers in one matrix of predictors: chains go in blocks, of so many times as many chains where
no matrix is kept."""

Progress = Callable[[int], None]


@dataclass(frozen=True, eq=False)
class Structure:
    """A posterior in coordinates in which its prior is standard normal.

    Parameters
    ----------
    rows : array, sparse array or Blocks, shape (N, d)
        Coefficients of the predictors.
    offset : array, shape (N,)
    curve : Curve
    smooth : float or array, shape (N,)
        beta >= -h''. Sets the cost alone.
    lower, upper : array, shape (d,)
        Ends of the box; infinite on R^d.
    own : float or array, shape (d,)
        Coefficients of z^2 / 2, which is |z|^2 / 2 unless a prior is flat along some of them.
    """

    rows: np.ndarray | csr_array | Blocks
    offset: np.ndarray
    curve: Curve
    smooth: float | np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    own: float | np.ndarray = 1.0

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.rows.shape[1]

    @cached_property
    def is_bounded(self) -> bool:
        """Whether there is a wall anywhere."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())


@dataclass(frozen=True)
class Schedule:
    """Step size and number of steps: public, fixed before the data are read.

    Parameters
    ----------
    eta : float
    steps : int
    tv : float
        Distance of each draw from its law, in total variation: proved in real arithmetic.
    """

    eta: float
    steps: int
    tv: float


def step_size(trace: float, *, jumps: float = 0.0) -> float:
    """Eta for a public bound of tr(A - P) in the coordinates of the prior.

    Any eta > 0 is correct. This one makes a trial succeed with at least a public probability: a
    kink, where the slope jumps by L, costs at most some 0.4 L sqrt(eta) nats.
    """
    smooth = math.inf if trace <= 0.0 else LOOSENESS / trace
    eta = min(smooth, (KINKED / jumps) ** 2 if jumps > 0.0 else math.inf)
    return min(eta, LONGEST) if math.isfinite(eta) else 1.0


def sample_proximal(
    structure: Structure,
    schedule: Schedule,
    draws: int,
    randomness: Uniform,
    progress: Progress = lambda done: None,
) -> np.ndarray:
    """Independent draws, each the end of a chain of its own.

    Parameters
    ----------
    structure : Structure
    schedule : Schedule
    draws : int
    randomness : Uniform
    progress : callable
        Called with the number of finished draws (parts of one count).

    Returns
    -------
    array, shape (draws, d)
    """
    found = []
    with threads() as over:
        kernel = Kernel(structure, schedule.eta, over)
        block = kernel.at_once * (1 if kernel.sums is None else UNKEPT)
        for start in range(0, draws, block):
            count = min(block, draws - start)
            z = _prior(structure, count, randomness)
            for step in range(schedule.steps):
                z = kernel.step(z, randomness)
                progress(start + count * (step + 1) // schedule.steps)
            found.append(z)
    return np.concatenate(found) if found else np.empty((0, structure.dimension))


def _at_once(structure: Structure) -> int:
    """How many chains' predictors fit into one matrix."""
    return max(1, MOST_NUMBERS // max(structure.rows.shape[0], 1))


def _prior(structure: Structure, count: int, randomness: Uniform) -> np.ndarray:
    """Exact draws of the prior on the box."""
    shape = (count, structure.dimension)
    if not structure.is_bounded:
        return normal(randomness, *shape)
    uniforms = randomness.uniform(count * structure.dimension).reshape(shape)
    return truncated_normal(uniforms, structure.lower, structure.upper)


class Kernel:
    """One iteration for many chains at once, a chain per row.

    Proposals about a point x are normal, truncated to the box: moves delta of independent
    coordinates, each of variance at most 1 / tight. A trial succeeds with probability e^-bend, and
    bend <= delta'(A - P) delta / 2. At the point x that is the mean of its own proposals delta has
    mean zero, so that E bend <= tr(A - P) / (2 tight), and by Jensen's inequality a trial succeeds
    with probability at least e^(-eta tr(A - P) / 2). Without walls that point is the mode. (About
    the mode near walls all coordinates may lean to one side, which costs up to d times as much.)
    Of a softmax E bend itself is bounded, and that bound stands for the trace: `Predictor.trace`.
    """

    def __init__(self, structure: Structure, eta: float, over: Map = map) -> None:
        self.s, self.eta = structure, eta
        d = structure.dimension
        self.at_once = _at_once(structure)
        self.own = np.broadcast_to(np.asarray(structure.own, float), d)
        self.sums = Shortcut.of(structure.rows, structure.offset, structure.curve, over)
        self.tight = self.own + 1.0 / eta  # strong convexity of F(x) = f(x) + |x - y|^2 / 2 eta
        beta = np.broadcast_to(structure.smooth, structure.rows.shape[0])
        self.descent = np.linalg.inv(_gram(structure.rows, beta) + np.diag(self.tight))

    def step(self, z: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Noise, then the exact draw."""
        y = z + math.sqrt(self.eta) * normal(randomness, *z.shape)
        mode, kept, slope = self.descend(y)
        center = self._center(mode, kept, slope, y)
        found, k = np.empty_like(z), np.arange(len(z))
        while len(k):
            delta = self._propose(mode[k], slope[k], randomness)
            with np.errstate(divide="ignore"):
                limit = -np.log(randomness.uniform(len(k)))
            if center is None:
                u = kept if len(k) == kept.shape[1] else kept[:, k]
                accepted = self._by_bends(u, delta, limit)
            else:
                accepted = self._by_sums(center, k, delta, limit)
            found[k[accepted]] = mode[k[accepted]] + delta[accepted]
            k = k[~accepted]
        return found

    def predictors(self, x: np.ndarray) -> np.ndarray:
        """Give those of points x, (chains, d): shape (N, chains)."""
        return np.asarray(self.s.rows @ x.T + self.s.offset[:, None])

    def _center(
        self, mode: np.ndarray, kept: np.ndarray, slope: np.ndarray, y: np.ndarray
    ) -> Center | None:
        if self.sums is None:
            return None
        own, noise = self.own * mode, (mode - y) / self.eta
        parts = np.abs(own) + np.abs(noise) + np.abs(slope)
        return self.sums.at(mode, kept[0], own + noise - slope, parts)

    def _by_bends(self, u: np.ndarray, delta: np.ndarray, limit: np.ndarray) -> np.ndarray:
        """Whether bends from predictors u add up to less than the limit, a standard exponential."""
        bend = self.s.curve.bend(u, self.s.rows @ delta.T).sum(axis=0)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.maximum(bend, 0.0) < limit)

    def _by_sums(
        self, center: Center, k: np.ndarray, delta: np.ndarray, limit: np.ndarray
    ) -> np.ndarray:
        """The same of chains k, by sums where these are sure."""
        accepted, sure = center.decide(k, delta, limit)
        open_ = np.flatnonzero(~sure)
        for some in (open_[j : j + self.at_once] for j in range(0, len(open_), self.at_once)):
            u = self.predictors(center.x[k[some]])
            accepted[some] = self._by_bends(u, delta[some], limit[some])
        return accepted

    def descend(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A point near the center, what `_slope` keeps of it, and the slope of F there."""
        x = np.array(self._inside(y))
        kept, slope = self._slope(x, y)
        pull = self._pull(x, slope)
        far = np.arange(len(y))
        for _ in range(DESCENTS):
            moved = self._inside(x[far] - pull @ self.descent)
            # Nats of acceptance that it costs not to be there, where no wall is in the way.
            lost = 0.5 * np.sum(pull**2 / self.tight - pull * (x[far] - moved), axis=1)
            far, moved, pull = far[lost > NEAR], moved[lost > NEAR], pull[lost > NEAR]
            if not len(far):
                break
            new_kept, new_slope = self._slope(moved, y[far])
            new_pull = self._pull(moved, new_slope)
            better = np.sum(new_pull**2, axis=1) < np.sum(pull**2, axis=1)
            far, pull = far[better], new_pull[better]
            x[far], kept[:, far] = moved[better], new_kept[:, better]
            slope[far] = new_slope[better]
        return x, kept, slope

    def _pull(self, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Zero where x is the mean of its own proposals: the slope of F, corrected for walls."""
        if not self.s.is_bounded:
            return slope
        center, sd = x - slope / self.tight, 1.0 / np.sqrt(self.tight)
        low, high = (self.s.lower - center) / sd, (self.s.upper - center) / sd
        return self.tight * (x - center - sd * truncated_mean(low, high))

    def _inside(self, x: np.ndarray) -> np.ndarray:
        return np.clip(x, self.s.lower, self.s.upper) if self.s.is_bounded else x

    def _slope(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give a matrix of a column per chain, its total or else its predictors; and the slope."""
        if self.sums is not None:
            total, push = self.sums.push(x)
            kept = total[None]
        else:
            kept = self.predictors(x)
            push = self.s.curve.slope(kept).T @ self.s.rows
        return kept, self.own * x + (x - y) / self.eta - push

    def _propose(self, mode: np.ndarray, slope: np.ndarray, randomness: Uniform) -> np.ndarray:
        """Draw delta ~ exp(-<slope, delta> - sum tight delta^2 / 2) on the box about the mode.

        By strong convexity F(mode + delta) is at least F(mode) plus this exponent, at every point
        that is taken for the mode.
        """
        center, sd = -slope / self.tight, 1.0 / np.sqrt(self.tight)
        if not self.s.is_bounded:
            return center + sd * normal(randomness, *mode.shape)
        uniforms = randomness.uniform(mode.size).reshape(mode.shape)
        low = (self.s.lower - mode - center) / sd
        high = (self.s.upper - mode - center) / sd
        delta = center + sd * truncated_normal(uniforms, low, high)
        return np.clip(mode + delta, self.s.lower, self.s.upper) - mode


def _gram(rows: np.ndarray | csr_array | Blocks, weight: np.ndarray) -> np.ndarray:
    """A' diag(weight) A of the rows A, without their zeros if they are kept so."""
    if isinstance(rows, Blocks):
        return rows.gram(weight)
    found = rows.T @ (weight[:, None] * rows)
    return np.asarray(found.toarray() if issparse(found) else found)
