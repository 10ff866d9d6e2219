"""Exponential tilts at which distributions of cells agree with what is known of their sums.

The saddlepoint equations of rows are solved by safeguarded Newton steps, in all rows at once.
Families are batched as one stack of rows: they are small, most of what a pass over one of them
costs does not depend on its size, and a search then takes as many passes as its slowest row.
The saddlepoint approximation of the probability of the noisy counts weighs the prior
parameters of the cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from scipy import optimize, special

from pymc_private.counts.denoise.cell_distributions import CellDistributions
from pymc_private.counts.denoise.cell_grid import (
    CellGrid,
    GridRequest,
    ObservedCounts,
    at_window_edge,
    bins_too_coarse,
    refined_request,
)

Found = TypeVar("Found")

MAX_REFINEMENTS = 2
"""Most times that bins are made finer."""

MAX_PADDING = 6
"""Most numbers a row has in a stack, for each that a row of its smallest family has."""
MAX_STACK_NUMBERS = 2**18
"""Most numbers in a stack of several: beyond, a pass costs what its numbers do."""


@dataclass(frozen=True)
class FamilyStack:
    """Rows of several families, filled up to one shape.

    Attributes
    ----------
    members : tuple of int
        Which of the families these are.
    laws : Cells
        What a row was filled up with is there 0 times.
    starts : array of int, shape (members + 1,)
        First row of each, and the number of rows.
    shapes : sequence of tuple of int
        Columns and bins of each.
    grids : sequence of Grid or None
        What was asked of each.
    """

    members: tuple[int, ...]
    laws: CellDistributions
    starts: np.ndarray
    shapes: Sequence[tuple[int, int]]
    grids: Sequence[GridRequest | None] = (None,)

    @classmethod
    def alone(cls, laws: CellDistributions) -> FamilyStack:
        """One family."""
        rows, d, width = laws.logs.shape
        return cls((0,), laws, np.array([0, rows]), [(d, width)])

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each family."""
        return np.diff(self.starts)

    def with_priors(self, priors: Sequence[float | np.ndarray]) -> FamilyStack:
        """Multiply by the priors of each of all families: one number, or one for each cell."""
        own = [priors[i] for i in self.members]
        d = self.laws.low.shape[1] if any(isinstance(a, np.ndarray) for a in own) else 1
        found = np.ones((len(self.laws.low), d))
        for k, a in enumerate(own):
            found[self.rows(k), : a.shape[1] if isinstance(a, np.ndarray) else d] = a
        return replace(self, laws=self.laws.with_prior(found))

    def of(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Put together what is known of the rows of every family."""
        return np.concatenate([values[i] for i in self.members])

    def rows(self, k: int) -> slice:
        """Where the k-th family is."""
        return slice(int(self.starts[k]), int(self.starts[k + 1]))

    def family(self, k: int) -> CellDistributions:
        """Give the laws of the k-th family."""
        return self.laws.of(self.rows(k), *self.shapes[k])

    def apart(self, found: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """Give each family what was found of its rows, or cells."""
        for k, i in enumerate(self.members):
            own = found[self.rows(k)]
            yield i, own if own.ndim == 1 else own[:, : self.shapes[k][0]]


def solve_in_stacks(
    families: Sequence[ObservedCounts],
    one: Callable[[FamilyStack, bool], tuple[np.ndarray, Iterable[tuple[int, Found]]]],
    times: int = 1,
    finer: bool = False,
) -> list[Found]:
    """Solve families in stacks, with near windows; in far ones those whose tilts press their ends.

    Parameters
    ----------
    families : sequence of Observed
    one : callable
        ``(stack, near)`` to the tilts of its rows, each taken `times` times, and what was found of
        each member.
    times : int
        Rows that are to be made of one.
    finer : bool
        Whether families whose tilts are steep for their bins are to be solved in finer ones.
    """
    asked = list(families)
    found: dict[int, Found] = {}
    left, near = list(range(len(families))), True
    for last in [False] * MAX_REFINEMENTS + [True]:
        again: list[int] = []
        for stack in make_stacks([asked[i] for i in left], times, near):
            stack = replace(stack, members=tuple(left[i] for i in stack.members))
            tilt, own = one(stack, near)
            found.update(own)
            each = tilt.reshape(-1, len(stack.laws.low))
            if near:
                at_end = np.any([at_window_edge(stack.laws, one_tilt) for one_tilt in each], axis=0)
                again += [i for i, rows in stack.apart(at_end) if at_end.any() and rows.any()]
            if finer and not last:
                for i, better in _with_finer_grids(stack, asked, tilt):
                    asked[i] = better
                    again.append(i)
        left, near = list(dict.fromkeys(again)), False
    return [found[i] for i in range(len(families))]


def _with_finer_grids(
    stack: FamilyStack, asked: Sequence[ObservedCounts], tilt: np.ndarray
) -> Iterator[tuple[int, ObservedCounts]]:
    """Families whose tilts want other grids than they have, and would get them."""
    steepest = min(asked[i].steepest for i in stack.members)
    if (
        not any(asked[i].grid for i in stack.members)
        and not bins_too_coarse(stack.laws, tilt, steepest).any()
    ):
        return
    for k, (i, own) in enumerate(stack.apart(tilt)):
        laws, known = stack.family(k), asked[i].grid or GridRequest.unknown(len(own))
        grid = refined_request(laws, own, asked[i].room, known, asked[i].steepest)
        if grid is not None:
            better = replace(asked[i], grid=grid)
            wider = (grid.most > known.most).any()
            if wider or (CellGrid([better]).step < laws.step).any():
                yield i, better


def make_stacks(
    families: Sequence[ObservedCounts], times: int = 1, near: bool = False
) -> Iterator[FamilyStack]:
    """Stack families of one kind of noise and like shape, one stack at a time.

    Parameters
    ----------
    families : sequence of Observed
    times : int
        Rows that are to be made of one.
    near : bool
        Whether near windows are to do.
    """
    for kind in _similar_families(families):
        layout = CellGrid([families[i] for i in kind], near)
        for group in _stack_members(layout, times):
            starts = np.cumsum([0, *(len(families[kind[k]].noisy) for k in group)])
            shapes = [(int(layout.sizes[k]), int(layout.widths[k])) for k in group]
            members = tuple(kind[k] for k in group)
            grids = [families[i].grid for i in members]
            yield FamilyStack(members, layout.laws(group), starts, shapes, grids)


def _similar_families(families: Sequence[ObservedCounts]) -> list[list[int]]:
    """Which families have one law of noise, and numbers of columns that are not far apart."""
    kinds: list[list[int]] = []
    law, least = "", 0
    for (own, d), i in sorted((_noise_and_columns(family), i) for i, family in enumerate(families)):
        if own == law and d <= MAX_PADDING * least:
            kinds[-1].append(i)
        else:
            kinds.append([i])
            law, least = own, d
    return kinds


def _noise_and_columns(family: ObservedCounts) -> tuple[str, int]:
    return family.noise[0], int(family.noisy.shape[1])


def _stack_members(layout: CellGrid, times: int) -> list[list[int]]:
    """Which families go together, each row of them taken several times."""
    groups: list[list[int]] = []
    least, shape, rows = 0, (0, 0, 0), np.diff(layout.starts)
    for k in sorted(range(len(rows)), key=lambda k: layout.sizes[k] * layout.widths[k]):
        d, width = int(layout.sizes[k]), int(layout.widths[k])
        filled = shape[0] + times * int(rows[k]), max(shape[1], d), max(shape[2], width)
        if filled[1] * filled[2] <= MAX_PADDING * least and np.prod(filled) <= MAX_STACK_NUMBERS:
            groups[-1].append(k)
            shape = filled
        else:
            groups.append([k])
            least, shape = d * width, (times * int(rows[k]), d, width)
    return groups


TILT_TOLERANCE, BISECTION_FACTOR, COMMON_TILT_TOLERANCE, DOUBLINGS = 1e-3, 0.01, 1e-3, 8
"""Last Newton step of a tilt, as a share of the largest (what is left is of its square), and how
much closer bounds must be; the last step of a tilt common to all rows, and how often it doubles."""
LEAST_SLOPE = 1e-6
"""Of a row's function, which rises however little noisy counts tell."""


def match_row_sums(
    laws: CellDistributions, total: float, close: float = TILT_TOLERANCE, start: float = 0.0
) -> np.ndarray:
    """Give the tilt of each row at which its mean sum is `total`, or comes as near as it can.

    `close` is the last step, as a share of the largest tilt; what is left is of its square. The
    search is faster from a `start` that is near.

    Newton steps, in every row at once, between bounds: the mean rises with the tilt.
    """

    def excess(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, spread, _ = _sum_moments(laws, tilt)
        return mean - total, spread

    return _newton_roots(laws, excess, np.full(len(laws.low), start), close)


Increasing = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _sum_moments(
    laws: CellDistributions, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the rows' sums, and their variances; means of the cells."""
    means, variances, _ = laws.moments(tilt)
    return (laws.times * means).sum(axis=1), (laws.times * variances).sum(axis=1), means


def _newton_roots(
    laws: CellDistributions, rising: Increasing, tilt: np.ndarray, close: float
) -> np.ndarray:
    """Give the tilts where functions that rise, one for each row, are 0; or the nearest end.

    Newton steps between bounds; halves where a step leaves them, or the last did not halve. A row
    that is there stays: of what rounding leaves of its function no step is to be made.
    """
    low, high = laws.least_tilt, laws.most_tilt
    last = np.full_like(tilt, np.inf)
    there = np.zeros(len(tilt), bool)
    for _ in range(80):
        found, slope = rising(tilt)
        low, high = np.where(found < 0, tilt, low), np.where(found > 0, tilt, high)
        step = tilt - found / np.maximum(slope, 1e-300)
        inside = (step > low) & (step < high) & (np.abs(found) <= 0.5 * last)
        moved = np.where(inside, step, 0.5 * (low + high))
        last = np.where(inside, np.abs(found), np.inf)
        moved = np.where(there, tilt, moved)
        enough = np.where(inside, close, BISECTION_FACTOR * close) * laws.most_tilt
        there = np.abs(moved - tilt) < enough
        tilt = moved
        if there.all():
            break
    return tilt


def match_total(
    laws: CellDistributions,
    center: np.ndarray,
    variance: np.ndarray,
    total: float | None,
    sizes: np.ndarray | None = None,
) -> np.ndarray:
    """Give tilts where each row knows its sum up to a Gaussian, and all rows that of all sums.

    tilt_j = tau + (center_j - mean_j(tilt_j)) / variance_j - pull_j, with tau such that the mean
    sums add up to `total` (0 if that is not public), and `log_sum_weight_slope` at the mean sum.

    Parameters
    ----------
    laws : Cells
    center, variance : array, shape (rows,)
        What is known of the sums from elsewhere; an infinite variance says nothing.
    total : float or None
    sizes : array, shape (rows,), optional
        Sums of the prior parameters of rows that are Dirichlet-multinomial given their own sums,
        which are level a priori; 1 where all cells of the family are, given their total.
    """
    sizes = np.ones(len(center)) if sizes is None else sizes
    return match_stack_total(FamilyStack.alone(laws), center, variance, total, sizes)[0]


@dataclass(frozen=True)
class _KnownSums:
    """What is known of rows' sums, apart from their noisy counts, each of shape (rows,).

    Means of Gaussians, and their precisions; sums of prior parameters.
    """

    center: np.ndarray
    weight: np.ndarray
    sizes: np.ndarray

    def of(self, rows: slice) -> _KnownSums:
        return _KnownSums(self.center[rows], self.weight[rows], self.sizes[rows])


def match_stack_total(
    stack: FamilyStack,
    center: np.ndarray,
    variance: np.ndarray,
    total: float | None,
    sizes: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Do as `match_total` for several families at once; give tilts of rows, and means of cells."""
    laws, told = stack.laws, _KnownSums(center, 1.0 / variance, sizes)
    if total is None:
        tilt = _solve_rows(laws, told, 0.0, _starting_tilts(laws, told))
        return tilt, laws.moments(tilt)[0]
    tilt, means, met = _joint_newton(stack, told, total)
    for k in np.flatnonzero(~met).tolist():
        rows, own = stack.rows(k), stack.family(k)
        tilt[rows] = _nested_search(own, told.of(rows), total)
        means[rows, : own.low.shape[1]] = own.moments(tilt[rows])[0]
    return tilt, means


def log_sum_weight_slope(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Derivative of `log_sum_weight`: how the product of cells' priors pulls a row's sum up."""
    return np.asarray(special.digamma(sums + concentration) - special.digamma(sums + 1.0))


def log_sum_weight(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Logarithm of the weight that the product of cells' priors gives a row's sum, unwanted.

    Of a Dirichlet-multinomial law with parameters of sum A it is Gamma(n + A) / (n! Gamma(A)).
    """
    found = special.gammaln(sums + concentration) - special.gammaln(sums + 1.0)
    return np.asarray(found - special.gammaln(concentration))


def _tilt_residual(
    laws: CellDistributions, told: _KnownSums, tau: float | np.ndarray, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """How far each row is from its tilt, with the slope; and `_sum_moments`."""
    mean, spread, means = _sum_moments(laws, tilt)
    gap = tilt - tau - (told.center - mean) * told.weight + log_sum_weight_slope(told.sizes, mean)
    bend = _approximate_trigamma(mean + told.sizes) - _approximate_trigamma(mean + 1.0)
    slope = np.maximum(1.0 + (told.weight + bend) * spread, LEAST_SLOPE)
    return gap, slope, mean, spread, means


def _approximate_trigamma(x: np.ndarray) -> np.ndarray:
    """Within 2%, which is enough of a slope."""
    y = x + 1.0
    return np.asarray(1.0 / x**2 + (1.0 + (0.5 + 1.0 / (6.0 * y)) / y) / y)


def _starting_tilts(laws: CellDistributions, told: _KnownSums) -> np.ndarray:
    """Tilts of rows whose sums are what others tell, or their noisy counts, where noise is all."""
    noisy = (laws.times * laws.noisy).sum(axis=1)
    sums = np.maximum(np.where(told.weight > 0.0, told.center, noisy), 1.0)
    return np.clip(-log_sum_weight_slope(told.sizes, sums), laws.least_tilt, 0.0)


def _solve_rows(
    laws: CellDistributions, told: _KnownSums, tau: float, tilt: np.ndarray
) -> np.ndarray:
    """Give the tilts at one tau, each row by itself."""
    return _newton_roots(
        laws, lambda t: _tilt_residual(laws, told, tau, t)[:2], tilt, TILT_TOLERANCE
    )


def _joint_newton(
    stack: FamilyStack, told: _KnownSums, total: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton steps in all tilts and tau at once; means; whether families met: most do, in a few.

    They may meet at another sum than `total`, where coarse bins or the ends of tilts allow no
    nearer one.
    """
    laws, starts, sizes = stack.laws, stack.starts[:-1], stack.sizes
    tau, there = np.zeros(len(starts)), np.zeros(len(starts), bool)
    tilt = _starting_tilts(laws, told)
    most = laws.most_tilt
    for _ in range(40):
        gap, slope, mean, spread, means = _tilt_residual(laws, told, np.repeat(tau, sizes), tilt)
        move = -gap / slope
        if there.all():
            break
        # How the sums answer to tau, and what is missing after the rows' own move.
        answer = np.add.reduceat(spread / slope, starts)
        missing = total - np.add.reduceat(mean + spread * move, starts)
        shift = np.clip(missing / np.maximum(answer, 1e-12), -most[starts], most[starts])
        tau = np.where(there, tau, tau + shift)
        moved = tilt + move + np.repeat(shift, sizes) / slope
        moved = np.clip(moved, laws.least_tilt, laws.most_tilt)
        moved = np.where(np.repeat(there, sizes), tilt, moved)
        there = np.maximum.reduceat(np.abs(moved - tilt) / most, starts) < TILT_TOLERANCE
        tilt = moved
    else:
        means = laws.moments(tilt)[0]
    ended = ((tilt >= most) & (gap < 0.0)) | ((tilt <= laws.least_tilt) & (gap > 0.0))
    left = np.where(ended, 0.0, np.abs(move) / most)
    return tilt, means, np.maximum.reduceat(left, starts) < 0.05


def _nested_search(laws: CellDistributions, told: _KnownSums, total: float) -> np.ndarray:
    """Solve the rows of a family at every tau tried; the sum of all means rises with it.

    Always from the same start, and the nearest of all is kept: where neither noise nor others tell
    the sums, many tilts nearly serve, and the sum leaps from few records to all that windows hold.
    """
    start = _starting_tilts(laws, told)
    best = np.inf, start

    def missing(tau: float) -> float:
        nonlocal best
        tilt = _solve_rows(laws, told, tau, start)
        found = float(laws.moments(tilt)[0].sum()) - total
        best = min(best, (abs(found), tilt), key=lambda pair: pair[0])
        return found

    most = float(np.max(laws.most_tilt))
    low, high = -most, most
    for _ in range(DOUBLINGS):
        if missing(low) < 0.0:
            break
        low *= 2.0
    for _ in range(DOUBLINGS):
        if missing(high) > 0.0:
            break
        high *= 2.0
    if missing(low) < 0.0 < missing(high):
        missing(float(optimize.brentq(missing, low, high, xtol=COMMON_TILT_TOLERANCE * most)))
    return best[1]


def log_evidence(
    laws: CellDistributions, tilt: np.ndarray, total: float, priors: np.ndarray
) -> np.ndarray:
    """Log probabilities of the noisy counts given the sum of each row's cells, by saddle point.

    Parameters
    ----------
    laws : Cells
    tilt, priors : array, shape (rows,)
        What `match_row_sums` gives, and each row's prior parameter of a cell.
    total : float
    """
    _, variances, logs = laws.moments(tilt)
    size = priors * laws.times.sum(axis=1)
    found = special.gammaln(total + 1.0) + special.gammaln(size) - special.gammaln(size + total)
    spread = np.maximum((laws.times * variances).sum(axis=1), 1e-6)
    found += (laws.times * logs).sum(axis=1) - tilt * total
    return np.asarray(found - 0.5 * np.log(2.0 * np.pi * spread))


NoisyFamily = tuple[np.ndarray, tuple[str, float, float]]
GRAINS_PER_SCALE = 32.0
"""Noisy counts are told apart by this share of the noise's scale."""
SCORING_BINS = 2.0
"""Bins of a scale."""
SCORE_TOLERANCE = 0.1
"""What a log probability may miss."""


def prior_means(
    families: Sequence[NoisyFamily], total: float | None, priors: Sequence[float]
) -> list[float]:
    """Give the posterior mean of the prior parameter of a cell, of each family; 1 without a total.

    A mean, not the most likely one: where noise hides everything, that would be a lucky guess.

    Parameters
    ----------
    families : sequence of (array of int, shape (rows, d), tuple)
        Noisy counts; the law of the noise, its scale, and the least count.
    total : float or None
        Public sum of all rows of each.
    priors : sequence of float
    """
    if total is None:
        return [1.0] * len(families)
    if len(priors) == 1:
        return [priors[0]] * len(families)
    asked = [_distinct_counts(*rows, total) for rows in families]
    found = _score_on_one_grid(asked, total, priors)
    crude = [(i, k) for i, each in enumerate(found) for k in np.flatnonzero(each.crude).tolist()]
    for (i, k), score in zip(crude, _score_on_own_grids(asked, crude, total, priors), strict=True):
        found[i].scores[k] = score
    # More digits would say nothing.
    return [float(f"{special.softmax(each.scores) @ np.array(priors):.2g}") for each in found]


@dataclass(frozen=True)
class _PriorScores:
    """Of one family, log probabilities of its noisy counts under each prior.

    Where bins are too wide for the tilt, `crude` says so: over a bin of s counts a tilt t is taken
    for that of its middle, which leaves (s t)^2 / 24 out of the logarithm of each cell's mass.
    """

    scores: np.ndarray
    crude: np.ndarray


def _score_on_one_grid(
    families: Sequence[ObservedCounts], total: float, priors: Sequence[float]
) -> list[_PriorScores]:
    """Score all priors on one grid for each family."""
    each = np.array(priors)

    def one(
        stack: FamilyStack, near: bool
    ) -> tuple[np.ndarray, Iterator[tuple[int, _PriorScores]]]:
        laws, count = stack.laws.with_each(priors), len(stack.members)
        tilt = match_row_sums(laws, total, 1e-2)  # where it is right, the evidence is level in it
        scores = log_evidence(laws, tilt, total, np.repeat(each, count)).reshape(-1, count)
        over = np.abs(tilt).reshape(-1, count) * stack.laws.step
        limits = np.array([families[i].steepest for i in stack.members])
        crude = (over > limits) & (stack.laws.step > 1)
        own = [_PriorScores(scores[:, k].copy(), crude[:, k]) for k in range(count)]
        return tilt, zip(stack.members, own, strict=True)

    return solve_in_stacks(families, one, len(priors))


def _score_on_own_grids(
    families: Sequence[ObservedCounts],
    pairs: Sequence[tuple[int, int]],
    total: float,
    priors: Sequence[float],
) -> list[float]:
    """Score some families under some priors, each pair on bins that are right for its tilt."""

    def one(stack: FamilyStack, near: bool) -> tuple[np.ndarray, Iterator[tuple[int, float]]]:
        own = [priors[k] for _, k in pairs]
        laws = stack.with_priors(own).laws
        tilt = match_row_sums(laws, total, 1e-2)
        scores = log_evidence(laws, tilt, total, np.array([own[m] for m in stack.members]))
        return tilt, zip(stack.members, scores.tolist(), strict=True)

    return solve_in_stacks([families[i] for i, _ in pairs], one, finer=True)


def _distinct_counts(
    noisy: np.ndarray, noise: tuple[str, float, float], total: float
) -> ObservedCounts:
    """The distinct noisy counts; finer differences weigh the same under every prior."""
    grain = max(1, int(noise[1] / GRAINS_PER_SCALE))
    near = (np.round(noisy / grain) * grain).astype(np.int64)
    steepest = float(np.sqrt(24.0 * SCORE_TOLERANCE / noisy.size))
    return replace(ObservedCounts.distinct(near, noise, total, SCORING_BINS), steepest=steepest)
