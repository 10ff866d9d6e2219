"""Proximal sampler: draws from log-concave posteriors at a proved distance (T21).

pi ~ exp(-|z|^2 / 2 + sum_i h_i(x_i'z + b_i)) on a box or on all of R^d, h_i concave: a
posterior in coordinates in which its Gaussian prior is standard. (Other priors:
`proximal_target`.) One iteration adds noise, y = z + sqrt(eta) e, and then draws z' ~ pi(z')
exp(-|z' - y|^2 / 2 eta) *exactly*, by rejection. pi is 1-strongly log-concave, so it has a
log-Sobolev constant a = 1, with walls or without (Bakry and Emery), and

    KL_k <= KL_0 (1 + a eta)^(-2k)                (Chen, Chewi, Salim and Wibisono 2022)

for every eta > 0; Pinsker's inequality turns that into a total variation. The chain starts
with a draw of the prior, and the number of iterations is public. Every draw is the end of its
own chain.

*Acceptance test.* A trial is accepted if its tangent remainders add up to at most a limit.
Added record by record (`proximal_likelihoods`) the sum is accurate relative to its own size,
at three special functions per record. With L the convex part of -h it is also

    w (sum L(u') - sum L(u)) - <p, delta>,    p = w sum L'(u_i) x_i,

at one exponential per record, but with the rounding error of the large sums. Where the limit
lies within many such roundings, the remainders are added after all: both ways decide alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from threadpoolctl import threadpool_info, threadpool_limits

from pymc_private.samplers.proximal_likelihoods import Curve, ExponentialCurve, LogisticCurve
from pymc_private.samplers.randomness import (
    Progress,
    Randomness,
    standard_normal,
    truncated_normal_mean,
    truncated_normal_quantile,
)

MapFunction = Callable[..., Any]
"""What `map` does, on threads or without."""


def blas_threads() -> int:
    """How many threads BLAS has; 1 where none is known."""
    known = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    return max(known, default=1)


@contextmanager
def thread_map() -> Iterator[MapFunction]:
    """Give `map` on as many threads as BLAS has, which does with one of its own meanwhile.

    `OMP_NUM_THREADS` and its kind, and Dask, so set how many. Inside, BLAS of the whole process has
    one thread.
    """
    count = blas_threads()
    if count < 2:
        yield map
        return
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(count) as pool:
        yield pool.map


@dataclass(frozen=True, eq=False)
class BlockMatrix:
    """A matrix of n K rows and d columns: row i K + k reads columns that belong to class k.

    Row i K + k is ``parts[k, i]`` at ``columns[k]`` and zero elsewhere. Where one matrix serves all
    classes a product is one of that matrix, of n rows.

    Parameters
    ----------
    parts : array, shape (K, n, m), or (1, n, m) for all classes
    columns : array of int, shape (K, m)
        No column twice; d for none at all.
    width : int
        d.
    """

    parts: np.ndarray
    columns: np.ndarray
    width: int

    __array_ufunc__ = None  # an array times this is made here, too

    @classmethod
    def of(cls, rows: np.ndarray, classes: int) -> BlockMatrix | None:
        """Find them in a matrix of shape (n K, d); None if a column belongs to several classes."""
        width = rows.shape[1]
        split = rows.reshape(-1, classes, width)
        used = (split != 0.0).any(axis=0)
        counts = used.sum(axis=1)
        most = int(counts.max())
        if (used.sum(axis=0) > 1).any() or not np.isin(counts, (0, most)).all():
            return None
        columns = np.full((classes, most), width)
        parts = np.zeros((classes, len(split), most))
        reading = np.flatnonzero(counts)
        for k in reading:
            columns[k] = np.flatnonzero(used[k])
            parts[k] = split[:, k, columns[k]]
        same = all(np.array_equal(parts[k], parts[reading[0]]) for k in reading)
        return cls(parts[reading[:1]] if same and len(reading) else parts, columns, width)

    @property
    def shape(self) -> tuple[int, int]:
        """(n K, d)."""
        return len(self.columns) * self.parts.shape[1], self.width

    def __len__(self) -> int:
        return self.shape[0]

    def __matmul__(self, v: np.ndarray) -> np.ndarray:
        """Product with v of shape (d, chains)."""
        (classes, m), chains = self.columns.shape, v.shape[1]
        picked = np.concatenate([v, np.zeros((1, chains))])[self.columns]
        if len(self.parts) == 1:
            joined = picked.transpose(1, 0, 2).reshape(m, classes * chains)
            return np.asarray((self.parts[0] @ joined).reshape(-1, chains))
        return np.matmul(self.parts, picked).transpose(1, 0, 2).reshape(-1, chains)

    def __rmatmul__(self, s: np.ndarray) -> np.ndarray:
        """Product of s, shape (chains, n K), with this."""
        chains, classes = len(s), len(self.columns)
        split = s.T.reshape(-1, classes, chains)
        if len(self.parts) == 1:
            joined = self.parts[0].T @ split.reshape(len(split), classes * chains)
            found = joined.reshape(-1, classes, chains).transpose(1, 0, 2)
        else:
            found = np.matmul(self.parts.transpose(0, 2, 1), split.transpose(1, 0, 2))
        out = np.zeros((self.width + 1, chains))
        out[self.columns] = found
        return out[:-1].T

    def gram(self, weight: np.ndarray) -> np.ndarray:
        """A' diag(weight) A of this matrix A, shape (d, d); weight of shape (n K,)."""
        weights = weight.reshape(-1, len(self.columns)).T
        out = np.zeros((self.width + 1, self.width + 1))
        for k, columns in enumerate(self.columns):
            part = self.parts[k % len(self.parts)]
            out[np.ix_(columns, columns)] = part.T @ (weights[k][:, None] * part)
        return out[:-1, :-1]


MACHINE_EPSILON = 2.0**-52
MOST_PRODUCT_NATS = 600.0
"""Of a product of numbers 1 + e^u: doubles hold 709."""
SUM_BLOCK, MOST_ROUNDINGS = 128, 1024
"""Numbers that are added one by one, and roundings of the longest chain of sums of sums but for
those of one group after another."""
PIECE_SIZE = 2**15
"""Numbers in one piece of a sum, which stay in the processor's cache."""
PIECES_PER_GROUP = 8
"""Pieces that one thread adds up at a time: as many whatever threads there are, so that all add
the same numbers in the same order."""


class FastSums:
    """Sums over all records, for logistic and exponential curves.

    Parameters
    ----------
    rows : array, shape (N, d)
    offset : array, shape (N,)
    curve : Logistic or Exponential
    over : callable
        `map`, or that of several threads.
    """

    def __init__(
        self,
        rows: np.ndarray,
        offset: np.ndarray,
        curve: LogisticCurve | ExponentialCurve,
        over: MapFunction = map,
    ) -> None:
        self.rows, self.offset, self.curve, self.over = rows, offset, curve, over
        self.outcome = curve.weight * (curve.y @ rows)
        self.largest = curve.weight * (np.abs(curve.y) @ np.abs(rows))
        self.reach = float(np.max(np.abs(rows).sum(axis=1), initial=0.0))
        self.far = float(np.max(np.abs(offset), initial=0.0))

    @classmethod
    def of(
        cls,
        rows: np.ndarray | csr_array | BlockMatrix,
        offset: np.ndarray,
        curve: Curve,
        over: MapFunction = map,
    ) -> FastSums | None:
        """None where bends are always added up."""
        if isinstance(rows, np.ndarray) and isinstance(curve, LogisticCurve | ExponentialCurve):
            return cls(rows, offset, curve, over)
        return None

    def at(
        self, x: np.ndarray, total: np.ndarray, push: np.ndarray, parts: np.ndarray
    ) -> FastAcceptance:
        """Stand at x, (chains, d), with its total and push.

        `parts` is the size of what the push was computed from.
        """
        return FastAcceptance(self, x, total, self.outcome - push, self.largest + parts)

    @property
    def is_plain(self) -> bool:
        """Whether L is e^u; else it is log(1 + e^u)."""
        return isinstance(self.curve, ExponentialCurve)

    def total(self, x: np.ndarray) -> np.ndarray:
        """w sum L(u) at points x, (chains, d); infinite or NaN where doubles cannot tell."""

        def add(part: slice) -> np.ndarray:
            u = self._predictors(x, part)
            return _sum_by_blocks(np.exp(u)) if self.is_plain else _softplus_sum(u)

        return self.curve.weight * self._sum(add, len(x))

    def push(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same, and the gradient of sum h(u), (chains, d): w sum (y_i - L'(u_i)) x_i."""

        def add(part: slice) -> np.ndarray:
            u = self._predictors(x, part)
            total, slope = (_sum_and_exponential if self.is_plain else _softplus_sum_and_sigmoid)(u)
            off = np.subtract(self.curve.y[part, None], slope, out=slope)
            return np.column_stack([total, off.T @ self.rows[part]])

        found = self.curve.weight * self._sum(add, len(x), self.rows.shape[1] + 1)
        return found[:, 0], found[:, 1:]

    def _predictors(self, x: np.ndarray, part: slice) -> np.ndarray:
        u = self.rows[part] @ x.T
        u += self.offset[part, None]
        return u

    def _sum(self, add: Callable[[slice], np.ndarray], chains: int, *width: int) -> np.ndarray:
        """Add up what `add` gives for the pieces of the rows, of shape (chains, *width)."""

        def some(parts: list[slice]) -> np.ndarray:
            found = np.zeros((chains, *width))
            with np.errstate(all="ignore"):  # each thread has its own
                for part in parts:
                    found += add(part)
            return found

        pieces = _row_pieces(len(self.rows), chains)
        groups = [pieces[k : k + PIECES_PER_GROUP] for k in range(0, len(pieces), PIECES_PER_GROUP)]
        total = np.zeros((chains, *width))
        for found in self.over(some, groups) if len(groups) > 1 else map(some, groups):
            total += found
        return total


@dataclass(frozen=True, eq=False)
class FastAcceptance:
    """Where trials start, and what has been summed there.

    Parameters
    ----------
    sums : Shortcut
    x : array, shape (chains, d)
    total : array, shape (chains,)
    p, parts : array, shape (chains, d)
        The gradient of w sum L, and the size of what it was computed from.
    """

    sums: FastSums
    x: np.ndarray
    total: np.ndarray
    p: np.ndarray
    parts: np.ndarray

    def decide(
        self, k: np.ndarray, delta: np.ndarray, limit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether chains k may move by delta, their bends below a limit, and if that is sure."""
        s, x = self.sums, self.x[k] + delta
        n, d = s.rows.shape
        with np.errstate(all="ignore"):
            total = s.total(x)
            bends = total - self.total[k] - np.sum(self.p[k] * delta, axis=1)
            widest = np.abs(self.x[k]).max(axis=1) + np.abs(delta).max(axis=1)
            size = (s.curve.weight * n + total + self.total[k]) * (1.0 + s.far + s.reach * widest)
            size += np.sum(self.parts[k] * np.abs(delta), axis=1)
            sure = (
                np.abs(bends - limit)
                > 16.0
                * MACHINE_EPSILON
                * (d + MOST_ROUNDINGS + n // (SUM_BLOCK * PIECES_PER_GROUP))
                * size
            )
            return bends < limit, sure


def _row_pieces(rows: int, chains: int) -> list[slice]:
    """Pieces of the rows that stay in the processor's cache with all chains."""
    step = max(PIECE_SIZE // max(chains, 1) // SUM_BLOCK, 1) * SUM_BLOCK
    return [slice(a, a + step) for a in range(0, rows, step)]


def _sum_by_blocks(part: np.ndarray) -> np.ndarray:
    """Sum over the rows of a piece, by blocks."""
    whole = len(part) // SUM_BLOCK * SUM_BLOCK
    blocks = part[:whole].reshape(-1, SUM_BLOCK, part.shape[1]).sum(axis=1)
    return np.asarray(blocks.sum(axis=0) + part[whole:].sum(axis=0))


def _sum_and_exponential(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of e^u over the rows of a piece, and e^u."""
    part = np.exp(u, out=u)
    return _sum_by_blocks(part), part


def _softplus_sum(u: np.ndarray) -> np.ndarray:
    """Sum of log(1 + e^u) over the rows of a piece."""
    factors = _factors_per_product(u)
    if factors < 2:
        return _sum_by_blocks(np.logaddexp(0.0, u))
    part = np.exp(u, out=u)
    part += 1.0
    return _log_of_products(part, factors)


def _softplus_sum_and_sigmoid(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, and 1 / (1 + e^-u) to a few units of its last digit."""
    factors = _factors_per_product(u)
    if factors < 2:
        return _sum_by_blocks(np.logaddexp(0.0, u)), 1.0 / (1.0 + np.exp(-u))
    part = np.exp(u, out=u)
    more = part + 1.0
    part /= more
    return _log_of_products(more, factors), part


def _factors_per_product(u: np.ndarray) -> int:
    """How many numbers 1 + e^u have a product that doubles hold."""
    top = float(np.max(u, initial=0.0))
    return int(MOST_PRODUCT_NATS / (1.0 + top)) if math.isfinite(top) else 0


def _log_of_products(part: np.ndarray, factors: int) -> np.ndarray:
    """Sum of the logarithms of the rows, so many at a time."""
    whole = len(part) // factors * factors
    products = part[:whole].reshape(factors, -1, part.shape[1]).prod(axis=0)
    return _sum_by_blocks(np.log(products)) + np.log(part[whole:].prod(axis=0))


SMOOTH_COST = 4.0
"""c of eta = c / tr(A - P): acceptance is at least e^(-c/2), walls or not (see `ProximalKernel`)."""
KINK_COST = 5.0
"""c of eta = (c / sum of the jumps of slopes)^2: an acceptance of some e^-2 with all kinks near."""
MOST_DESCENTS, NEAR_NATS = 40, 0.25
"""Most steps towards the center, and nats of acceptance from which on it is near enough: any point
is correct, a nearer one is cheaper."""
LARGEST_ETA = 2.0**10
"""Largest eta: a step divides the divergence by a million already, and a longer one would only take
the noise further beyond the walls."""
LARGEST_MATRIX, UNKEPT_FACTOR = 4_000_000, 4
"""Numbers in one matrix of predictors: chains go in blocks, of so many times as many chains where
no matrix is kept."""


@dataclass(frozen=True, eq=False)
class WhitenedPosterior:
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

    rows: np.ndarray | csr_array | BlockMatrix
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
class ProximalSchedule:
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
    smooth = math.inf if trace <= 0.0 else SMOOTH_COST / trace
    eta = min(smooth, (KINK_COST / jumps) ** 2 if jumps > 0.0 else math.inf)
    return min(eta, LARGEST_ETA) if math.isfinite(eta) else 1.0


def sample_proximal(
    structure: WhitenedPosterior,
    schedule: ProximalSchedule,
    draws: int,
    randomness: Randomness,
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
    with thread_map() as over:
        kernel = ProximalKernel(structure, schedule.eta, over)
        block = kernel.at_once * (1 if kernel.sums is None else UNKEPT_FACTOR)
        for start in range(0, draws, block):
            count = min(block, draws - start)
            z = _draw_prior(structure, count, randomness)
            for step in range(schedule.steps):
                z = kernel.step(z, randomness)
                progress(start + count * (step + 1) // schedule.steps)
            found.append(z)
    return np.concatenate(found) if found else np.empty((0, structure.dimension))


def _chains_per_block(structure: WhitenedPosterior) -> int:
    """How many chains' predictors fit into one matrix."""
    return max(1, LARGEST_MATRIX // max(structure.rows.shape[0], 1))


def _draw_prior(structure: WhitenedPosterior, count: int, randomness: Randomness) -> np.ndarray:
    """Exact draws of the prior on the box."""
    shape = (count, structure.dimension)
    if not structure.is_bounded:
        return standard_normal(randomness, *shape)
    uniforms = randomness.uniform(count * structure.dimension).reshape(shape)
    return truncated_normal_quantile(uniforms, structure.lower, structure.upper)


class ProximalKernel:
    """One iteration for many chains at once, a chain per row.

    Proposals about a point x are normal, truncated to the box: moves delta of independent
    coordinates, each of variance at most 1 / tight. A trial succeeds with probability e^-bend, and
    bend <= delta'(A - P) delta / 2. At the point x that is the mean of its own proposals delta has
    mean zero, so that E bend <= tr(A - P) / (2 tight), and by Jensen's inequality a trial succeeds
    with probability at least e^(-eta tr(A - P) / 2). Without walls that point is the mode. (About
    the mode near walls all coordinates may lean to one side, which costs up to d times as much.)
    Of a softmax E bend itself is bounded, and that bound stands for the trace: `Predictor.trace`.
    """

    def __init__(self, structure: WhitenedPosterior, eta: float, over: MapFunction = map) -> None:
        self.s, self.eta = structure, eta
        d = structure.dimension
        self.at_once = _chains_per_block(structure)
        self.own = np.broadcast_to(np.asarray(structure.own, float), d)
        self.sums = FastSums.of(structure.rows, structure.offset, structure.curve, over)
        self.tight = self.own + 1.0 / eta  # strong convexity of F(x) = f(x) + |x - y|^2 / 2 eta
        beta = np.broadcast_to(structure.smooth, structure.rows.shape[0])
        self.descent = np.linalg.inv(_weighted_gram(structure.rows, beta) + np.diag(self.tight))

    def step(self, z: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Noise, then the exact draw."""
        y = z + math.sqrt(self.eta) * standard_normal(randomness, *z.shape)
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
    ) -> FastAcceptance | None:
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
        self, center: FastAcceptance, k: np.ndarray, delta: np.ndarray, limit: np.ndarray
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
        for _ in range(MOST_DESCENTS):
            moved = self._inside(x[far] - pull @ self.descent)
            # Nats of acceptance that it costs not to be there, where no wall is in the way.
            lost = 0.5 * np.sum(pull**2 / self.tight - pull * (x[far] - moved), axis=1)
            far, moved, pull = (
                far[lost > NEAR_NATS],
                moved[lost > NEAR_NATS],
                pull[lost > NEAR_NATS],
            )
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
        return self.tight * (x - center - sd * truncated_normal_mean(low, high))

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

    def _propose(self, mode: np.ndarray, slope: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Draw delta ~ exp(-<slope, delta> - sum tight delta^2 / 2) on the box about the mode.

        By strong convexity F(mode + delta) is at least F(mode) plus this exponent, at every point
        that is taken for the mode.
        """
        center, sd = -slope / self.tight, 1.0 / np.sqrt(self.tight)
        if not self.s.is_bounded:
            return center + sd * standard_normal(randomness, *mode.shape)
        uniforms = randomness.uniform(mode.size).reshape(mode.shape)
        low = (self.s.lower - mode - center) / sd
        high = (self.s.upper - mode - center) / sd
        delta = center + sd * truncated_normal_quantile(uniforms, low, high)
        return np.clip(mode + delta, self.s.lower, self.s.upper) - mode


def _weighted_gram(rows: np.ndarray | csr_array | BlockMatrix, weight: np.ndarray) -> np.ndarray:
    """A' diag(weight) A of the rows A, without their zeros if they are kept so."""
    if isinstance(rows, BlockMatrix):
        return rows.gram(weight)
    found = rows.T @ (weight[:, None] * rows)
    return np.asarray(found.toarray() if issparse(found) else found)
