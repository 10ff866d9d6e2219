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
import scipy
from threadpoolctl import threadpool_info, threadpool_limits

from pymc_private.samplers.proximal_likelihoods import Curve, ExponentialCurve, LogisticCurve
from pymc_private.samplers.randomness import (
    Progress,
    Randomness,
    standard_normal,
    truncated_normal_mean,
    truncated_normal_quantile,
)

SMOOTH_COST = 4.0
"""c of eta = c / tr(A - P): acceptance is at least e^(-c/2), in a box too (`ProximalKernel`)."""
KINK_COST = 5.0
"""c of eta = (c / sum of slope jumps)^2: an acceptance of about e^-2 with all kinks nearby."""
MOST_DESCENTS, NEAR_NATS = 40, 0.25
"""Most steps towards the center of proposals, and the loss of acceptance, in nats, that ends them:
any center is correct, a nearer one is cheaper."""
LARGEST_ETA = 2.0**10
"""Largest step size: it divides the divergence by a million, and a larger one would only push the
noise further out of the box."""
LARGEST_MATRIX, UNKEPT_FACTOR = 4_000_000, 4
"""Numbers in one matrix of predictors, which sets the chains in a block; and the factor by which a
block is larger where no matrix is kept."""
MACHINE_EPSILON = 2.0**-52
MOST_PRODUCT_NATS = 600.0
"""Largest logarithm of a product of factors 1 + e^u; doubles hold 709."""
SUM_BLOCK, MOST_ROUNDINGS = 128, 1024
"""Numbers that are added one by one, and a bound of the roundings of any nested sum, without those
of adding the groups one after another."""
PIECE_SIZE = 2**15
"""Numbers in one piece of a sum: as many as stay in the processor's cache."""
PIECES_PER_GROUP = 8
"""Pieces that one thread adds at a time. Independent of the number of threads, so that the same
numbers are added in the same order."""
MapFunction = Callable[..., Any]
"""`map`, or that of a thread pool."""


@dataclass(frozen=True, eq=False)
class WhitenedPosterior:
    """A posterior in coordinates in which its prior is standard normal.

    Parameters
    ----------
    rows : array, sparse array or BlockMatrix, shape (N, d)
        Coefficients of the predictors.
    offset : array, shape (N,)
    curve : Curve
    smoothness : float or array, shape (N,)
        beta >= -h''. It sets the cost alone.
    lower, upper : array, shape (d,)
        Bounds of the box; infinite on R^d.
    prior_curvature : float or array, shape (d,)
        Coefficients of z_j^2 / 2 in minus the log prior; less than 1 where precision was added.
    """

    rows: np.ndarray | scipy.sparse.csr_array | BlockMatrix
    offset: np.ndarray
    curve: Curve
    smoothness: float | np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    prior_curvature: float | np.ndarray = 1.0

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.rows.shape[1]

    @cached_property
    def is_bounded(self) -> bool:
        """Whether any coordinate has a finite bound."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())


@dataclass(frozen=True)
class ProximalSchedule:
    """Step size and number of steps: public, fixed before the data are read.

    `tv` is the total variation of each draw from the posterior, proved in real arithmetic.
    """

    eta: float
    steps: int
    tv: float


def step_size(trace: float, *, jumps: float = 0.0) -> float:
    """Step size eta for a public bound of tr(A - P) in whitened coordinates.

    Any eta > 0 is correct. This one bounds the acceptance probability from below by a public
    number: a kink, where the slope jumps by L, costs at most about 0.4 L sqrt(eta) nats.
    """
    smooth = math.inf if trace <= 0.0 else SMOOTH_COST / trace
    eta = min(smooth, (KINK_COST / jumps) ** 2 if jumps > 0.0 else math.inf)
    return min(eta, LARGEST_ETA) if math.isfinite(eta) else 1.0


def sample_proximal(
    posterior: WhitenedPosterior,
    schedule: ProximalSchedule,
    draws: int,
    randomness: Randomness,
    progress: Progress = lambda done: None,
) -> np.ndarray:
    """Independent draws in whitened coordinates, shape (draws, d), each the end of its own chain.

    `progress` counts finished draws, and parts of draws as their share.
    """
    found = []
    with thread_map() as over:
        kernel = ProximalKernel(posterior, schedule.eta, over)
        block = kernel.chains_per_block * (1 if kernel.fast_sums is None else UNKEPT_FACTOR)
        for start in range(0, draws, block):
            count = min(block, draws - start)
            z = _draw_prior(posterior, count, randomness)
            for step in range(schedule.steps):
                z = kernel.step(z, randomness)
                progress(start + count * (step + 1) // schedule.steps)
            found.append(z)
    return np.concatenate(found) if found else np.empty((0, posterior.dimension))


def _chains_per_block(posterior: WhitenedPosterior) -> int:
    """Number of chains whose predictors fit into one matrix."""
    return max(1, LARGEST_MATRIX // max(posterior.rows.shape[0], 1))


def _draw_prior(posterior: WhitenedPosterior, count: int, randomness: Randomness) -> np.ndarray:
    """Exact draws of the Gaussian reference on the box."""
    shape = (count, posterior.dimension)
    if not posterior.is_bounded:
        return standard_normal(randomness, *shape)
    uniforms = randomness.uniform(count * posterior.dimension).reshape(shape)
    return truncated_normal_quantile(uniforms, posterior.lower, posterior.upper)


class ProximalKernel:
    """One iteration for many chains at once, a chain per row.

    Proposals about a point x are normal, truncated to the box: moves delta of independent
    coordinates, each of variance at most 1 / precision. A trial succeeds with probability e^-r, r
    the sum of the tangent remainders, and r <= delta'(A - P) delta / 2. At the point x that is the
    mean of its own proposals delta has mean zero, so that E r <= tr(A - P) / (2 precision), and by
    Jensen's inequality a trial succeeds with probability at least e^(-eta tr(A - P) / 2). Without
    a box that point is the mode. (About a mode near the bounds all coordinates may lean to one
    side, which costs up to d times as much.) For a softmax E r itself is bounded, and that bound
    takes the place of the trace: `Predictor.trace`.
    """

    def __init__(self, posterior: WhitenedPosterior, eta: float, over: MapFunction = map) -> None:
        self.posterior, self.eta = posterior, eta
        d = posterior.dimension
        self.chains_per_block = _chains_per_block(posterior)
        self.prior_curvature = np.broadcast_to(np.asarray(posterior.prior_curvature, float), d)
        self.fast_sums = FastSums.of(posterior.rows, posterior.offset, posterior.curve, over)
        # Strong convexity of F(x) = f(x) + |x - y|^2 / 2 eta, by coordinate.
        self.precision = self.prior_curvature + 1.0 / eta
        beta = np.broadcast_to(posterior.smoothness, posterior.rows.shape[0])
        self.newton_inverse = np.linalg.inv(
            _weighted_gram(posterior.rows, beta) + np.diag(self.precision)
        )

    def step(self, z: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Add noise, then draw exactly by rejection."""
        y = z + math.sqrt(self.eta) * standard_normal(randomness, *z.shape)
        mode, kept, slope = self.descend(y)
        center = self._acceptance_test(mode, kept, slope, y)
        found, k = np.empty_like(z), np.arange(len(z))
        while len(k):
            delta = self._propose(mode[k], slope[k], randomness)
            with np.errstate(divide="ignore"):
                limit = -np.log(randomness.uniform(len(k)))
            if center is None:
                u = kept if len(k) == kept.shape[1] else kept[:, k]
                accepted = self._accept_by_remainders(u, delta, limit)
            else:
                accepted = self._accept_by_sums(center, k, delta, limit)
            found[k[accepted]] = mode[k[accepted]] + delta[accepted]
            k = k[~accepted]
        return found

    def predictors(self, x: np.ndarray) -> np.ndarray:
        """Predictors at points x, (chains, d): shape (N, chains)."""
        return np.asarray(self.posterior.rows @ x.T + self.posterior.offset[:, None])

    def _acceptance_test(
        self, mode: np.ndarray, kept: np.ndarray, slope: np.ndarray, y: np.ndarray
    ) -> FastAcceptance | None:
        if self.fast_sums is None:
            return None
        prior, noise = self.prior_curvature * mode, (mode - y) / self.eta
        parts = np.abs(prior) + np.abs(noise) + np.abs(slope)
        return self.fast_sums.at(mode, kept[0], prior + noise - slope, parts)

    def _accept_by_remainders(
        self, u: np.ndarray, delta: np.ndarray, limit: np.ndarray
    ) -> np.ndarray:
        """Whether remainders at predictors u sum to less than standard exponential limits."""
        remainder = self.posterior.curve.remainder(u, self.posterior.rows @ delta.T).sum(axis=0)
        with np.errstate(invalid="ignore"):
            return np.asarray(np.maximum(remainder, 0.0) < limit)

    def _accept_by_sums(
        self, center: FastAcceptance, k: np.ndarray, delta: np.ndarray, limit: np.ndarray
    ) -> np.ndarray:
        """The decision of `_accept_by_remainders` of chains k, by sums where these are certain."""
        accepted, certain = center.decide(k, delta, limit)
        open_ = np.flatnonzero(~certain)
        for j in range(0, len(open_), self.chains_per_block):
            part = open_[j : j + self.chains_per_block]
            u = self.predictors(center.x[k[part]])
            accepted[part] = self._accept_by_remainders(u, delta[part], limit[part])
        return accepted

    def descend(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A point near the mean of its own proposals; what `_slope` returns there."""
        x = np.array(self._inside(y))
        kept, slope = self._slope(x, y)
        corrected = self._corrected_slope(x, slope)
        left = np.arange(len(y))
        for _ in range(MOST_DESCENTS):
            moved = self._inside(x[left] - corrected @ self.newton_inverse)
            # Loss of acceptance in nats at the current point, without a box.
            lost = 0.5 * np.sum(
                corrected**2 / self.precision - corrected * (x[left] - moved), axis=1
            )
            far = lost > NEAR_NATS
            left, moved, corrected = left[far], moved[far], corrected[far]
            if not len(left):
                break
            new_kept, new_slope = self._slope(moved, y[left])
            new_corrected = self._corrected_slope(moved, new_slope)
            better = np.sum(new_corrected**2, axis=1) < np.sum(corrected**2, axis=1)
            left, corrected = left[better], new_corrected[better]
            x[left], kept[:, left] = moved[better], new_kept[:, better]
            slope[left] = new_slope[better]
        return x, kept, slope

    def _corrected_slope(self, x: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Slope of F, corrected for the box: zero where x is the mean of its own proposals."""
        if not self.posterior.is_bounded:
            return slope
        center, sd = x - slope / self.precision, 1.0 / np.sqrt(self.precision)
        low, high = (self.posterior.lower - center) / sd, (self.posterior.upper - center) / sd
        return self.precision * (x - center - sd * truncated_normal_mean(low, high))

    def _inside(self, x: np.ndarray) -> np.ndarray:
        if not self.posterior.is_bounded:
            return x
        return np.clip(x, self.posterior.lower, self.posterior.upper)

    def _slope(self, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Totals (1, chains), or predictors (N, chains) without fast sums; and the slope of F."""
        if self.fast_sums is not None:
            total, gradient = self.fast_sums.total_and_gradient(x)
            kept = total[None]
        else:
            kept = self.predictors(x)
            gradient = self.posterior.curve.slope(kept).T @ self.posterior.rows
        return kept, self.prior_curvature * x + (x - y) / self.eta - gradient

    def _propose(self, mode: np.ndarray, slope: np.ndarray, randomness: Randomness) -> np.ndarray:
        """Draw delta ~ exp(-<slope, delta> - sum precision delta^2 / 2) on the box about `mode`.

        By strong convexity F(mode + delta) is at least F(mode) minus this exponent, whatever point
        is taken for the mode.
        """
        center, sd = -slope / self.precision, 1.0 / np.sqrt(self.precision)
        if not self.posterior.is_bounded:
            return center + sd * standard_normal(randomness, *mode.shape)
        uniforms = randomness.uniform(mode.size).reshape(mode.shape)
        low = (self.posterior.lower - mode - center) / sd
        high = (self.posterior.upper - mode - center) / sd
        delta = center + sd * truncated_normal_quantile(uniforms, low, high)
        return np.clip(mode + delta, self.posterior.lower, self.posterior.upper) - mode


def _weighted_gram(
    rows: np.ndarray | scipy.sparse.csr_array | BlockMatrix, weight: np.ndarray
) -> np.ndarray:
    """A' diag(weight) A of the rows A, in the form in which they are stored."""
    if isinstance(rows, BlockMatrix):
        return rows.gram(weight)
    found = rows.T @ (weight[:, None] * rows)
    return np.asarray(found.toarray() if scipy.sparse.issparse(found) else found)


class FastSums:
    """Sums of the convex part L over all records, for logistic and exponential curves.

    Parameters
    ----------
    rows : array, shape (N, d)
    offset : array, shape (N,)
    curve : LogisticCurve or ExponentialCurve
    over : callable
        `map`, or that of a thread pool.
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
        self.outcome_size = curve.weight * (np.abs(curve.y) @ np.abs(rows))
        self.largest_row = float(np.max(np.abs(rows).sum(axis=1), initial=0.0))
        self.largest_offset = float(np.max(np.abs(offset), initial=0.0))

    @classmethod
    def of(
        cls,
        rows: np.ndarray | scipy.sparse.csr_array | BlockMatrix,
        offset: np.ndarray,
        curve: Curve,
        over: MapFunction = map,
    ) -> FastSums | None:
        """The sums, or None if remainders must be added record by record."""
        if isinstance(rows, np.ndarray) and isinstance(curve, LogisticCurve | ExponentialCurve):
            return cls(rows, offset, curve, over)
        return None

    def at(
        self, x: np.ndarray, total: np.ndarray, gradient: np.ndarray, parts: np.ndarray
    ) -> FastAcceptance:
        """Acceptance test of proposals from x, (chains, d).

        `total` and `gradient` are those of `total_and_gradient`; `parts` bounds the terms from
        which `gradient` was computed.
        """
        return FastAcceptance(self, x, total, self.outcome - gradient, self.outcome_size + parts)

    @property
    def is_exponential(self) -> bool:
        """Whether L is e^u; else it is log(1 + e^u)."""
        return isinstance(self.curve, ExponentialCurve)

    def total(self, x: np.ndarray) -> np.ndarray:
        """w sum L(u) at points x, (chains, d); infinite or NaN on overflow."""

        def add(part: slice) -> np.ndarray:
            u = self._predictors(x, part)
            return _sum_by_blocks(np.exp(u)) if self.is_exponential else _softplus_sum(u)

        return self.curve.weight * self._sum(add, len(x))

    def total_and_gradient(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`total`, and the gradient of sum h(u), (chains, d): w sum (y_i - L'(u_i)) x_i."""

        def add(part: slice) -> np.ndarray:
            u = self._predictors(x, part)
            total, slope = (
                _sum_and_exponential if self.is_exponential else _softplus_sum_and_sigmoid
            )(u)
            off = np.subtract(self.curve.y[part, None], slope, out=slope)
            return np.column_stack([total, off.T @ self.rows[part]])

        found = self.curve.weight * self._sum(add, len(x), self.rows.shape[1] + 1)
        return found[:, 0], found[:, 1:]

    def _predictors(self, x: np.ndarray, part: slice) -> np.ndarray:
        u = self.rows[part] @ x.T
        u += self.offset[part, None]
        return u

    def _sum(self, add: Callable[[slice], np.ndarray], chains: int, *width: int) -> np.ndarray:
        """Sum of `add` over pieces of the rows, shape (chains, *width), in a fixed order."""

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
    """Acceptance test of proposals from given points, with the sums there.

    Parameters
    ----------
    fast_sums : FastSums
    x : array, shape (chains, d)
    total : array, shape (chains,)
    p, parts : array, shape (chains, d)
        The gradient of w sum L, and a bound of the terms from which it was computed.
    """

    fast_sums: FastSums
    x: np.ndarray
    total: np.ndarray
    p: np.ndarray
    parts: np.ndarray

    def decide(
        self, k: np.ndarray, delta: np.ndarray, limit: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Whether the remainders of moves are below their limits, and whether that is certain."""
        sums, x = self.fast_sums, self.x[k] + delta
        n, d = sums.rows.shape
        with np.errstate(all="ignore"):
            total = sums.total(x)
            remainders = total - self.total[k] - np.sum(self.p[k] * delta, axis=1)
            widest = np.abs(self.x[k]).max(axis=1) + np.abs(delta).max(axis=1)
            size = sums.curve.weight * n + total + self.total[k]
            size *= 1.0 + sums.largest_offset + sums.largest_row * widest
            size += np.sum(self.parts[k] * np.abs(delta), axis=1)
            certain = (
                np.abs(remainders - limit)
                > 16.0
                * MACHINE_EPSILON
                * (d + MOST_ROUNDINGS + n // (SUM_BLOCK * PIECES_PER_GROUP))
                * size
            )
            return remainders < limit, certain


def _row_pieces(rows: int, chains: int) -> list[slice]:
    """Slices of the rows whose predictors, for all chains, stay in the processor's cache."""
    step = max(PIECE_SIZE // max(chains, 1) // SUM_BLOCK, 1) * SUM_BLOCK
    return [slice(a, a + step) for a in range(0, rows, step)]


def _sum_by_blocks(part: np.ndarray) -> np.ndarray:
    """Sum over rows, by blocks."""
    whole = len(part) // SUM_BLOCK * SUM_BLOCK
    blocks = part[:whole].reshape(-1, SUM_BLOCK, part.shape[1]).sum(axis=1)
    return np.asarray(blocks.sum(axis=0) + part[whole:].sum(axis=0))


def _sum_and_exponential(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of e^u over rows, and e^u; overwrites u."""
    part = np.exp(u, out=u)
    return _sum_by_blocks(part), part


def _softplus_sum(u: np.ndarray) -> np.ndarray:
    """Sum of log(1 + e^u) over rows; overwrites u."""
    factors = _factors_per_product(u)
    if factors < 2:
        return _sum_by_blocks(np.logaddexp(0.0, u))
    part = np.exp(u, out=u)
    part += 1.0
    return _log_of_products(part, factors)


def _softplus_sum_and_sigmoid(u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`_softplus_sum`, and 1 / (1 + e^-u) to a few units in the last place."""
    factors = _factors_per_product(u)
    if factors < 2:
        return _sum_by_blocks(np.logaddexp(0.0, u)), 1.0 / (1.0 + np.exp(-u))
    part = np.exp(u, out=u)
    more = part + 1.0
    part /= more
    return _log_of_products(more, factors), part


def _factors_per_product(u: np.ndarray) -> int:
    """Number of factors 1 + e^u whose product does not overflow."""
    top = float(np.max(u, initial=0.0))
    return int(MOST_PRODUCT_NATS / (1.0 + top)) if math.isfinite(top) else 0


def _log_of_products(part: np.ndarray, factors: int) -> np.ndarray:
    """Sum of logarithms over rows, from products of `factors` numbers."""
    whole = len(part) // factors * factors
    products = part[:whole].reshape(factors, -1, part.shape[1]).prod(axis=0)
    return _sum_by_blocks(np.log(products)) + np.log(part[whole:].prod(axis=0))


@dataclass(frozen=True, eq=False)
class BlockMatrix:
    """Softmax coefficients, (n K, d): row i K + k reads only columns that belong to class k.

    Row i K + k is ``parts[k, i]`` at ``columns[k]`` and zero elsewhere. If all classes share
    one matrix, products are computed with that matrix of n rows.

    Parameters
    ----------
    parts : array, shape (K, n, m), or (1, n, m) for all classes
    columns : array of int, shape (K, m)
        No column twice; d stands for no column.
    width : int
        d.
    """

    parts: np.ndarray
    columns: np.ndarray
    width: int

    __array_ufunc__ = None  # so that array @ self calls __rmatmul__

    @classmethod
    def of(cls, rows: np.ndarray, classes: int) -> BlockMatrix | None:
        """Block form of a matrix of shape (n K, d); None if a column belongs to several classes."""
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
        """Product of s, shape (chains, n K), with this matrix."""
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
        """A' diag(weight) A for this matrix A, shape (d, d); weight of shape (n K,)."""
        weights = weight.reshape(-1, len(self.columns)).T
        out = np.zeros((self.width + 1, self.width + 1))
        for k, columns in enumerate(self.columns):
            part = self.parts[k % len(self.parts)]
            out[np.ix_(columns, columns)] = part.T @ (weights[k][:, None] * part)
        return out[:-1, :-1]


def blas_threads() -> int:
    """Number of BLAS threads; 1 if unknown."""
    known = [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]
    return max(known, default=1)


@contextmanager
def thread_map() -> Iterator[MapFunction]:
    """Yield a `map` on as many threads as BLAS has; inside, BLAS of the process has one thread.

    So `OMP_NUM_THREADS` and its like, and Dask, set the number.
    """
    count = blas_threads()
    if count < 2:
        yield map
        return
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(count) as pool:
        yield pool.map
