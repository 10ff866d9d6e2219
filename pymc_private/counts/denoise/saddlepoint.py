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
import scipy
from scipy import special

from pymc_private.counts.denoise.cell_distributions import CellDistributions
from pymc_private.counts.denoise.cell_grid import (
    CellGrid,
    CountNoise,
    GridRequest,
    ObservedCounts,
    at_window_edge,
    bins_too_coarse,
    refined_request,
)

Solution = TypeVar("Solution")

MAX_REFINEMENTS = 2
"""Most times that bins are made finer."""
MAX_PADDING = 6
"""Most numbers in a row of a stack, relative to a row of its smallest family."""
MAX_STACK_NUMBERS = 2**18
"""Most numbers in a stack of several families: beyond, a pass costs what its numbers do."""
TILT_TOLERANCE, BISECTION_FACTOR = 1e-3, 0.01
"""Last Newton step of a tilt, as a share of the largest tilt (the error left is of its square), and
the factor of that for a bisection step."""
COMMON_TILT_TOLERANCE, DOUBLINGS = 1e-3, 8
"""Last step of a tilt that is common to all rows, and how often the bounds of it are doubled."""
MIN_SLOPE = 1e-6
"""Of a row's residual, which increases with its tilt however little noisy counts say."""
GRAINS_PER_SCALE = 32.0
"""Noisy counts are rounded to this share of the noise's scale where prior parameters are scored."""
SCORING_BINS = 2.0
"""Bins in a scale where prior parameters are scored."""
SCORE_TOLERANCE = 0.1
"""Error that a log probability may have where prior parameters are scored."""

NoisyFamily = tuple[np.ndarray, CountNoise]
"""Noisy counts of a family, shape (rows, d), and their noise."""
Increasing = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Increasing functions, one for each row: arguments to values and slopes."""


@dataclass(frozen=True)
class FamilyStack:
    """Rows of several families, padded to one shape.

    Attributes
    ----------
    members : tuple of int
        Indices of these families among all.
    cells : CellDistributions
        Padding has multiplicity 0.
    starts : array of int, shape (members + 1,)
        First row of each, and the number of rows.
    shapes : sequence of tuple of int
        Columns and bins of each.
    requests : sequence of GridRequest or None
        By which the grids of each were made.
    """

    members: tuple[int, ...]
    cells: CellDistributions
    starts: np.ndarray
    shapes: Sequence[tuple[int, int]]
    requests: Sequence[GridRequest | None] = (None,)

    @classmethod
    def of_one(cls, cells: CellDistributions) -> FamilyStack:
        """A single family."""
        rows, d, width = cells.log_weights.shape
        return cls((0,), cells, np.array([0, rows]), [(d, width)])

    @property
    def sizes(self) -> np.ndarray:
        """Rows of each family."""
        return np.diff(self.starts)

    def with_priors(self, priors: Sequence[float | np.ndarray]) -> FamilyStack:
        """The stack times a prior of each of all families: a number, or one for each cell."""
        own = [priors[i] for i in self.members]
        d = self.cells.low.shape[1] if any(isinstance(a, np.ndarray) for a in own) else 1
        found = np.ones((len(self.cells.low), d))
        for k, a in enumerate(own):
            found[self.rows(k), : a.shape[1] if isinstance(a, np.ndarray) else d] = a
        return replace(self, cells=self.cells.with_prior(found))

    def concatenate(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Values of the rows of the members, from those of all families."""
        return np.concatenate([values[i] for i in self.members])

    def rows(self, k: int) -> slice:
        """Rows of the k-th member."""
        return slice(int(self.starts[k]), int(self.starts[k + 1]))

    def family(self, k: int) -> CellDistributions:
        """The distributions of the k-th member."""
        return self.cells.select(self.rows(k), *self.shapes[k])

    def split(self, values: np.ndarray) -> Iterable[tuple[int, np.ndarray]]:
        """Index of each member, and its part of values of rows or cells."""
        for k, i in enumerate(self.members):
            own = values[self.rows(k)]
            yield i, own if own.ndim == 1 else own[:, : self.shapes[k][0]]


# ---- stacks of families ---------------------------------------------------------------------


def solve_in_stacks(
    families: Sequence[ObservedCounts],
    solve: Callable[[FamilyStack, bool], tuple[np.ndarray, Iterable[tuple[int, Solution]]]],
    copies: int = 1,
    refine: bool = False,
) -> list[Solution]:
    """Solve families in stacks, and those again whose grids did not serve their tilts.

    All are solved in narrow windows first. Solved again, in wide ones, are families whose tilts
    are at the edges of narrow windows and, if `refine`, those whose bins are too coarse, on finer
    bins. ``solve(stack, narrow)`` gives tilts of the stack's rows, of each row `copies` of them,
    and the solution of each member.
    """
    observed = list(families)
    found: dict[int, Solution] = {}
    left, narrow = list(range(len(families))), True
    for attempt in range(MAX_REFINEMENTS + 1):
        again: list[int] = []
        for stack in make_stacks([observed[i] for i in left], copies, narrow):
            stack = replace(stack, members=tuple(left[i] for i in stack.members))
            tilt, solutions = solve(stack, narrow)
            found.update(solutions)
            if narrow:
                again += _members_at_window_edge(stack, tilt)
            if refine and attempt < MAX_REFINEMENTS:
                for i, refined in _with_finer_grids(stack, observed, tilt):
                    observed[i] = refined
                    again.append(i)
        left, narrow = list(dict.fromkeys(again)), False
    return [found[i] for i in range(len(families))]


def _members_at_window_edge(stack: FamilyStack, tilt: np.ndarray) -> list[int]:
    """Families of which some tilt is at the edge of narrow windows; tilts of several copies."""
    copies = tilt.reshape(-1, len(stack.cells.low))
    at_edge = np.any([at_window_edge(stack.cells, one) for one in copies], axis=0)
    return [i for i, rows in stack.split(at_edge) if rows.any()]


def _with_finer_grids(
    stack: FamilyStack, observed: Sequence[ObservedCounts], tilt: np.ndarray
) -> Iterator[tuple[int, ObservedCounts]]:
    """Families whose tilts want other grids than they have, and would get them."""
    coarse_tilt = min(observed[i].coarse_tilt for i in stack.members)
    if (
        not any(observed[i].request for i in stack.members)
        and not bins_too_coarse(stack.cells, tilt, coarse_tilt).any()
    ):
        return
    for k, (i, own) in enumerate(stack.split(tilt)):
        cells, known = stack.family(k), observed[i].request or GridRequest.unknown(len(own))
        bound, coarse_tilt = observed[i].sum_bound, observed[i].coarse_tilt
        request = refined_request(cells, own, bound, known, coarse_tilt)
        if request is not None:
            refined = replace(observed[i], request=request)
            wider = (request.largest > known.largest).any()
            if wider or (CellGrid([refined]).step < cells.step).any():
                yield i, refined


def make_stacks(
    families: Sequence[ObservedCounts], copies: int = 1, narrow: bool = False
) -> Iterator[FamilyStack]:
    """Stack families of one noise distribution and similar shape, one stack at a time.

    `copies` of each row will be made; windows are narrow if `narrow`.
    """
    for similar in _similar_families(families):
        grid = CellGrid([families[i] for i in similar], narrow)
        for group in _stack_members(grid, copies):
            starts = np.cumsum([0, *(len(families[similar[k]].noisy) for k in group)])
            shapes = [(int(grid.sizes[k]), int(grid.widths[k])) for k in group]
            members = tuple(similar[k] for k in group)
            requests = [families[i].request for i in members]
            yield FamilyStack(members, grid.noise_distributions(group), starts, shapes, requests)


def _similar_families(families: Sequence[ObservedCounts]) -> list[list[int]]:
    """Families grouped by noise distribution, with numbers of columns that are not far apart."""
    groups: list[list[int]] = []
    distribution, least = "", 0
    for (own, d), i in sorted((_noise_and_columns(family), i) for i, family in enumerate(families)):
        if own == distribution and d <= MAX_PADDING * least:
            groups[-1].append(i)
        else:
            groups.append([i])
            distribution, least = own, d
    return groups


def _noise_and_columns(family: ObservedCounts) -> tuple[str, int]:
    return family.noise.distribution, int(family.noisy.shape[1])


def _stack_members(grid: CellGrid, copies: int) -> list[list[int]]:
    """Families grouped into stacks that are neither padded much nor large."""
    groups: list[list[int]] = []
    least, shape, rows = 0, (0, 0, 0), np.diff(grid.starts)
    for k in sorted(range(len(rows)), key=lambda k: grid.sizes[k] * grid.widths[k]):
        d, width = int(grid.sizes[k]), int(grid.widths[k])
        padded = shape[0] + copies * int(rows[k]), max(shape[1], d), max(shape[2], width)
        if padded[1] * padded[2] <= MAX_PADDING * least and np.prod(padded) <= MAX_STACK_NUMBERS:
            groups[-1].append(k)
            shape = padded
        else:
            groups.append([k])
            least, shape = d * width, (copies * int(rows[k]), d, width)
    return groups


# ---- tilts of rows --------------------------------------------------------------------------


def match_row_sums(
    cells: CellDistributions, total: float, tolerance: float = TILT_TOLERANCE, start: float = 0.0
) -> np.ndarray:
    """The tilt of each row at which its mean sum is `total`, or as near to it as possible.

    `tolerance` is the last step, as a share of the largest tilt; the error left is of its square.
    The search is faster from a `start` that is near.
    """

    def excess(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance, _ = _sum_moments(cells, tilt)
        return mean - total, variance

    return _newton_roots(cells, excess, np.full(len(cells.low), start), tolerance)


def _sum_moments(
    cells: CellDistributions, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means and variances of the rows' sums, and means of the cells."""
    means, variances, _ = cells.moments(tilt)
    times = cells.multiplicity
    return (times * means).sum(axis=1), (times * variances).sum(axis=1), means


def _newton_roots(
    cells: CellDistributions, increasing: Increasing, tilt: np.ndarray, tolerance: float
) -> np.ndarray:
    """The roots of increasing functions of the rows' tilts, or the nearest end of their range.

    Newton steps between bounds, and bisection where a step leaves them or the last did not halve
    the value. A row that has converged stays: steps would follow rounding errors.
    """
    low, high = cells.min_tilt, cells.max_tilt
    last = np.full_like(tilt, np.inf)
    converged = np.zeros(len(tilt), bool)
    for _ in range(80):
        value, slope = increasing(tilt)
        low, high = np.where(value < 0, tilt, low), np.where(value > 0, tilt, high)
        step = tilt - value / np.maximum(slope, 1e-300)
        inside = (step > low) & (step < high) & (np.abs(value) <= 0.5 * last)
        moved = np.where(inside, step, 0.5 * (low + high))
        last = np.where(inside, np.abs(value), np.inf)
        moved = np.where(converged, tilt, moved)
        enough = np.where(inside, tolerance, BISECTION_FACTOR * tolerance) * cells.max_tilt
        converged = np.abs(moved - tilt) < enough
        tilt = moved
        if converged.all():
            break
    return tilt


# ---- tilts of rows whose sums are partly known ----------------------------------------------


def match_total(
    cells: CellDistributions,
    center: np.ndarray,
    variance: np.ndarray,
    total: float | None,
    concentrations: np.ndarray | None = None,
) -> np.ndarray:
    """Tilts of rows whose sums are known up to Gaussians, and the sum of all rows exactly.

    tilt_j = tau + (center_j - mean_j(tilt_j)) / variance_j - slope_j, with tau such that the mean
    sums add up to `total` (tau = 0 if that is not public), and slope_j the `log_sum_weight_slope`
    at the mean sum. An infinite variance means that nothing is known of a row's sum. The
    `concentrations` are sums of the prior parameters of rows that are Dirichlet-multinomial given
    their own sums, whose prior is flat; 1 where all cells of the family are, given their total.
    """
    concentrations = np.ones(len(center)) if concentrations is None else concentrations
    stack = FamilyStack.of_one(cells)
    return match_stack_total(stack, center, variance, total, concentrations)[0]


@dataclass(frozen=True)
class _KnownSums:
    """Knowledge of rows' sums apart from their noisy counts, each of shape (rows,).

    Means and precisions of Gaussians, and concentrations: see `match_total`.
    """

    center: np.ndarray
    precision: np.ndarray
    concentration: np.ndarray

    def select(self, rows: slice) -> _KnownSums:
        return _KnownSums(self.center[rows], self.precision[rows], self.concentration[rows])


def match_stack_total(
    stack: FamilyStack,
    center: np.ndarray,
    variance: np.ndarray,
    total: float | None,
    concentrations: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """`match_total` for several families at once: tilts of rows, and means of cells."""
    cells, known = stack.cells, _KnownSums(center, 1.0 / variance, concentrations)
    if total is None:
        tilt = _solve_rows(cells, known, 0.0, _starting_tilts(cells, known))
        return tilt, cells.moments(tilt)[0]
    tilt, means, converged = _joint_newton(stack, known, total)
    for k in np.flatnonzero(~converged).tolist():
        rows, own = stack.rows(k), stack.family(k)
        tilt[rows] = _nested_search(own, known.select(rows), total)
        means[rows, : own.low.shape[1]] = own.moments(tilt[rows])[0]
    return tilt, means


def log_sum_weight_slope(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Derivative of `log_sum_weight` in a row's sum."""
    return np.asarray(special.digamma(sums + concentration) - special.digamma(sums + 1.0))


def log_sum_weight(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Log weight that the product of the cells' priors gives a row's sum, to be divided out.

    For a Dirichlet-multinomial with parameters of sum A it is Gamma(n + A) / (n! Gamma(A)).
    """
    found = special.gammaln(sums + concentration) - special.gammaln(sums + 1.0)
    return np.asarray(found - special.gammaln(concentration))


def _tilt_residual(
    cells: CellDistributions, known: _KnownSums, tau: float | np.ndarray, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Residual of each row's equation for its tilt, with the slope; and `_sum_moments`."""
    mean, variance, means = _sum_moments(cells, tilt)
    size = known.concentration
    residual = tilt - tau - (known.center - mean) * known.precision
    residual = residual + log_sum_weight_slope(size, mean)
    curvature = _approximate_trigamma(mean + size) - _approximate_trigamma(mean + 1.0)
    slope = np.maximum(1.0 + (known.precision + curvature) * variance, MIN_SLOPE)
    return residual, slope, mean, variance, means


def _approximate_trigamma(x: np.ndarray) -> np.ndarray:
    """Trigamma within 2%, which is enough for a slope."""
    y = x + 1.0
    return np.asarray(1.0 / x**2 + (1.0 + (0.5 + 1.0 / (6.0 * y)) / y) / y)


def _starting_tilts(cells: CellDistributions, known: _KnownSums) -> np.ndarray:
    """Tilts at the known centers of the rows' sums, or at their noisy sums, if noise were all."""
    noisy = (cells.multiplicity * cells.noisy).sum(axis=1)
    sums = np.maximum(np.where(known.precision > 0.0, known.center, noisy), 1.0)
    return np.clip(-log_sum_weight_slope(known.concentration, sums), cells.min_tilt, 0.0)


def _solve_rows(
    cells: CellDistributions, known: _KnownSums, tau: float, tilt: np.ndarray
) -> np.ndarray:
    """Tilts at one tau, each row by itself."""
    return _newton_roots(
        cells, lambda t: _tilt_residual(cells, known, tau, t)[:2], tilt, TILT_TOLERANCE
    )


def _joint_newton(
    stack: FamilyStack, known: _KnownSums, total: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton steps in all tilts and tau at once: tilts, means, and whether families converged.

    Most do, in a few steps. They may converge at another sum than `total`, where coarse bins or
    the ends of tilts allow no nearer one.
    """
    cells, starts, sizes = stack.cells, stack.starts[:-1], stack.sizes
    tau, converged = np.zeros(len(starts)), np.zeros(len(starts), bool)
    tilt = _starting_tilts(cells, known)
    most = cells.max_tilt
    for _ in range(40):
        residual, slope, mean, variance, means = _tilt_residual(
            cells, known, np.repeat(tau, sizes), tilt
        )
        move = -residual / slope
        if converged.all():
            break
        # How the sums respond to tau, and what is missing after the rows' own move.
        response = np.add.reduceat(variance / slope, starts)
        missing = total - np.add.reduceat(mean + variance * move, starts)
        shift = np.clip(missing / np.maximum(response, 1e-12), -most[starts], most[starts])
        tau = np.where(converged, tau, tau + shift)
        moved = tilt + move + np.repeat(shift, sizes) / slope
        moved = np.clip(moved, cells.min_tilt, cells.max_tilt)
        moved = np.where(np.repeat(converged, sizes), tilt, moved)
        converged = np.maximum.reduceat(np.abs(moved - tilt) / most, starts) < TILT_TOLERANCE
        tilt = moved
    else:
        means = cells.moments(tilt)[0]
    at_end = ((tilt >= most) & (residual < 0.0)) | ((tilt <= cells.min_tilt) & (residual > 0.0))
    left = np.where(at_end, 0.0, np.abs(move) / most)
    return tilt, means, np.maximum.reduceat(left, starts) < 0.05


def _nested_search(cells: CellDistributions, known: _KnownSums, total: float) -> np.ndarray:
    """Tilts of a family by a search for tau that solves all rows at each: the sum increases.

    Every row starts at the same tilt, and the best of all trials is kept: where neither noise nor
    other families determine the sums, many tilts nearly serve, and the sum jumps from few records
    to all that windows hold.
    """
    start = _starting_tilts(cells, known)
    trials = [(np.inf, start)]

    def excess(tau: float) -> float:
        tilt = _solve_rows(cells, known, tau, start)
        found = float(cells.moments(tilt)[0].sum()) - total
        trials.append((abs(found), tilt))
        return found

    most = float(np.max(cells.max_tilt))
    low, high = -most, most
    for _ in range(DOUBLINGS):
        if excess(low) < 0.0:
            break
        low *= 2.0
    for _ in range(DOUBLINGS):
        if excess(high) > 0.0:
            break
        high *= 2.0
    if excess(low) < 0.0 < excess(high):
        excess(float(scipy.optimize.brentq(excess, low, high, xtol=COMMON_TILT_TOLERANCE * most)))
    return min(trials, key=lambda trial: trial[0])[1]


# ---- prior parameters, weighed by the probability of the noisy counts -----------------------


def prior_means(
    families: Sequence[NoisyFamily], total: float | None, priors: Sequence[float]
) -> list[float]:
    """Posterior mean of the prior parameter of a cell, of each family; 1 without a public total.

    The mean, not the mode: where noise hides everything, the mode would be a lucky guess. `total`
    is the public sum of all rows of each family, `priors` are the parameters to choose from.
    """
    if total is None:
        return [1.0] * len(families)
    if len(priors) == 1:
        return [priors[0]] * len(families)
    observed = [_distinct_counts(*rows, total) for rows in families]
    found = _score_on_one_grid(observed, total, priors)
    crude = [(i, k) for i, each in enumerate(found) for k in np.flatnonzero(each.crude).tolist()]
    again = _score_on_own_grids(observed, crude, total, priors)
    for (i, k), score in zip(crude, again, strict=True):
        found[i].scores[k] = score
    # More digits would mean nothing.
    return [float(f"{special.softmax(each.scores) @ np.array(priors):.2g}") for each in found]


@dataclass(frozen=True)
class _PriorScores:
    """Log probabilities of the noisy counts of one family under each prior.

    They are `crude` where bins are too wide for the tilt: over a bin of s counts a tilt t is taken
    for that of its midpoint, which leaves (s t)^2 / 24 out of the log mass of each cell.
    """

    scores: np.ndarray
    crude: np.ndarray


def _score_on_one_grid(
    families: Sequence[ObservedCounts], total: float, priors: Sequence[float]
) -> list[_PriorScores]:
    """Scores of all priors, on one grid for each family."""
    each = np.array(priors)

    def solve(
        stack: FamilyStack, narrow: bool
    ) -> tuple[np.ndarray, Iterator[tuple[int, _PriorScores]]]:
        cells, count = stack.cells.with_each_prior(priors), len(stack.members)
        tilt = match_row_sums(cells, total, 1e-2)  # the evidence is stationary at the right tilt
        scores = log_evidence(cells, tilt, total, np.repeat(each, count)).reshape(-1, count)
        over_bin = np.abs(tilt).reshape(-1, count) * stack.cells.step
        limits = np.array([families[i].coarse_tilt for i in stack.members])
        crude = (over_bin > limits) & (stack.cells.step > 1)
        own = [_PriorScores(scores[:, k].copy(), crude[:, k]) for k in range(count)]
        return tilt, zip(stack.members, own, strict=True)

    return solve_in_stacks(families, solve, len(priors))


def _score_on_own_grids(
    families: Sequence[ObservedCounts],
    pairs: Sequence[tuple[int, int]],
    total: float,
    priors: Sequence[float],
) -> list[float]:
    """Scores of pairs of a family and a prior, each on bins that are right for its tilt."""

    def solve(stack: FamilyStack, narrow: bool) -> tuple[np.ndarray, Iterator[tuple[int, float]]]:
        own = [priors[k] for _, k in pairs]
        cells = stack.with_priors(own).cells
        tilt = match_row_sums(cells, total, 1e-2)
        scores = log_evidence(cells, tilt, total, np.array([own[m] for m in stack.members]))
        return tilt, zip(stack.members, scores.tolist(), strict=True)

    return solve_in_stacks([families[i] for i, _ in pairs], solve, refine=True)


def log_evidence(
    cells: CellDistributions, tilt: np.ndarray, total: float, priors: np.ndarray
) -> np.ndarray:
    """Saddlepoint log probability of the noisy counts given the sum of each row's cells.

    `tilt` is that of `match_row_sums`, `priors` each row's prior parameter of a cell.
    """
    _, variances, logs = cells.moments(tilt)
    times = cells.multiplicity
    size = priors * times.sum(axis=1)
    found = special.gammaln(total + 1.0) + special.gammaln(size) - special.gammaln(size + total)
    variance = np.maximum((times * variances).sum(axis=1), 1e-6)
    found += (times * logs).sum(axis=1) - tilt * total
    return np.asarray(found - 0.5 * np.log(2.0 * np.pi * variance))


def _distinct_counts(noisy: np.ndarray, noise: CountNoise, total: float) -> ObservedCounts:
    """The distinct noisy counts, rounded: finer differences weigh the same under every prior."""
    grain = max(1, int(noise.scale / GRAINS_PER_SCALE))
    near = (np.round(noisy / grain) * grain).astype(np.int64)
    coarse_tilt = float(np.sqrt(24.0 * SCORE_TOLERANCE / noisy.size))
    observed = ObservedCounts.distinct(near, noise, total, SCORING_BINS)
    return replace(observed, coarse_tilt=coarse_tilt)
