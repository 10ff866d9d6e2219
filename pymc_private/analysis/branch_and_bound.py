"""Branch and bound: a proved upper bound of a maximum over boxes, and a value that is attained.

Boxes are kept with a proved upper bound of the function on each. The boxes with the greatest
bounds are halved, many at a time, until none exceeds the best value found by more than the
tolerance. A coordinate in which the function is monotone on a box is moved to its better end
(Ratschek and Rokne 1988, New Computer Methods for Global Optimization). `bound_suprema` does
so for many functions of a few numbers at once (Moore 1966: the interval of a piece is no
wider, and shrinks with it).

Whatever effort is left, the bounds stand. `Effort` counts walks over a graph instead of time,
so that bounds, and the plans built on them, are the same at each run.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

BoundsPair = tuple[np.ndarray, np.ndarray]
BoundFunctions = Callable[[np.ndarray, np.ndarray], BoundsPair]
"""Ends of boxes, shape (N, D) -> lower and upper ends of the functions, shape (N, Q)."""

StoppingRule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Bounds on boxes, shape (N, Q), and what was found, shape (Q,) -> which need no more work."""

BOXES_PER_WALK = 512
FIRST_PIECES = 64
"""Pieces of the first coordinate at the start."""


@dataclass(frozen=True, eq=False)
class Suprema:
    """What is proved.

    Parameters
    ----------
    upper : array, shape (Q,)
        No function exceeds it anywhere.
    found : array, shape (Q,)
        Lower ends at points: some value is at least that.
    boxes : int
        Boxes bounded.
    """

    upper: np.ndarray
    found: np.ndarray
    boxes: int


def bound_suprema(
    enclose: BoundFunctions,
    lower: np.ndarray,
    upper: np.ndarray,
    whole: np.ndarray,
    *,
    settled: StoppingRule,
    most: int = 30_000,
) -> Suprema:
    """Bound Q functions over a union of boxes.

    Parameters
    ----------
    enclose : callable
        Interval bounds of all functions on boxes; NaN where nothing is known.
    lower, upper : array, shape (boxes, D)
        The first coordinate is cut into pieces at the start.
    whole : array of bool, shape (D,)
        Which coordinates take whole numbers only.
    settled : callable
        When to leave a function: `within_tolerance` is the usual answer.
    most : int
        Boxes bounded at most.

    Returns
    -------
    Suprema
    """
    widths = np.maximum((upper - lower).max(axis=0), 1e-300)
    lower, upper = _cut_first_coordinate(lower, upper, whole)
    bound, found = _bound_boxes(enclose, lower, upper, whole)
    closed = np.full(bound.shape[1], -np.inf)
    count = len(lower)
    while len(lower) and not np.isposinf(closed).all():
        open_boxes = (~settled(bound, found) & (bound > closed)).any(axis=1)
        share = (upper - lower) / widths
        share = np.where(whole & (upper - lower < 1.0), 0.0, share)
        open_boxes &= (share > 1e-9).any(axis=1)
        closed = np.maximum(closed, bound[~open_boxes].max(axis=0, initial=-np.inf))
        lower, upper, bound, share = (a[open_boxes] for a in (lower, upper, bound, share))
        if not len(lower) or count >= most:
            break
        chosen = np.zeros(len(lower), dtype=bool)
        excess = np.nanmax(_relative_excess(bound, found), axis=1)
        chosen[np.argsort(-excess, kind="stable")[:BOXES_PER_WALK]] = True
        low, high, parents = _halve_widest(
            lower[chosen], upper[chosen], bound[chosen], share[chosen], whole
        )
        child, best = _bound_boxes(enclose, low, high, whole)
        found = np.maximum(found, best)
        count += len(low)
        lower = np.concatenate([lower[~chosen], low])
        upper = np.concatenate([upper[~chosen], high])
        bound = np.concatenate([bound[~chosen], np.minimum(child, parents)])
    return Suprema(np.maximum(closed, bound.max(axis=0, initial=-np.inf)), found, count)


def within_tolerance(tolerance: float) -> StoppingRule:
    """Leave a function whose bound is that close to a value, relatively."""

    def settled(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # next to nothing found none is close
            return bound <= found + tolerance * np.abs(found) + 1e-12

    return settled


def _relative_excess(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
    """How far a bound is above what was found, by its size; infinite bounds first."""
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = (bound - found) / (np.abs(found) + 1e-9)
    return np.where(np.isfinite(bound), ratio, np.inf)


def _cut_first_coordinate(lower: np.ndarray, upper: np.ndarray, whole: np.ndarray) -> BoundsPair:
    """The first coordinate in equal parts."""
    if not lower.shape[1] or whole[0] or not np.all(upper[:, 0] > lower[:, 0]):
        return lower, upper
    edges = np.linspace(0.0, 1.0, FIRST_PIECES + 1)
    low, high = np.repeat(lower, FIRST_PIECES, axis=0), np.repeat(upper, FIRST_PIECES, axis=0)
    start, width = (
        np.repeat(lower[:, 0], FIRST_PIECES),
        np.repeat(upper[:, 0] - lower[:, 0], FIRST_PIECES),
    )
    marks = np.tile(edges, (len(lower), 1))
    low[:, 0] = start + width * marks[:, :-1].ravel()
    high[:, 0] = start + width * marks[:, 1:].ravel()
    high[FIRST_PIECES - 1 :: FIRST_PIECES, 0] = upper[:, 0]
    return low, high


def _bound_boxes(
    enclose: BoundFunctions, lower: np.ndarray, upper: np.ndarray, whole: np.ndarray
) -> BoundsPair:
    """Upper ends on boxes, and the greatest lower ends at their middles."""
    middle = lower / 2.0 + upper / 2.0
    middle = np.where(whole, np.floor(middle), middle)
    bounds, found = [], []
    for k in range(0, len(lower), BOXES_PER_WALK):
        part = slice(k, k + BOXES_PER_WALK)
        bounds.append(enclose(lower[part], upper[part])[1])
        found.append(enclose(middle[part], middle[part])[0])
    bound, value = np.concatenate(bounds), np.concatenate(found)
    value = np.where(np.isnan(value), -np.inf, value)
    return np.where(np.isnan(bound), np.inf, bound), value.max(axis=0, initial=-np.inf)


def _halve_widest(
    lower: np.ndarray, upper: np.ndarray, bound: np.ndarray, share: np.ndarray, whole: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both halves of each box, across its widest coordinate."""
    rows, axis = np.arange(len(lower)), share.argmax(axis=1)
    middle = lower[rows, axis] / 2.0 + upper[rows, axis] / 2.0
    left, right = upper.copy(), lower.copy()
    left[rows, axis] = np.where(whole[axis], np.floor(middle), middle)
    right[rows, axis] = np.where(whole[axis], np.floor(middle) + 1.0, middle)
    return (
        np.concatenate([lower, right]),
        np.concatenate([left, upper]),
        np.concatenate([bound, bound]),
    )


ROWS_PER_UNIT = 256


@dataclass
class Effort:
    """An allowance of walks over a graph.

    A clock would make bounds, and the plans built on them, differ from run to run. Walks are
    counted instead; a deadline is only kept where the user gave one.

    Parameters
    ----------
    units : float
        Walks allowed; a walk over many rows counts for more than one.
    deadline : float
        Time by `time.perf_counter` after which nothing more is allowed.
    """

    units: float = math.inf
    deadline: float = math.inf
    spent: float = 0.0

    def spend(self, rows: int) -> None:
        """Count one walk over so many rows."""
        self.spent += 1.0 + rows / ROWS_PER_UNIT

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.units or time.perf_counter() > self.deadline


BOXES_PER_STEP = 256
"""Boxes halved in one step."""
FEW_BOXES, MOST_REHALVINGS = 128, 2
"""So few boxes are halved again before they are bounded, up to so many times."""
MOST_BOXES = 200_000
"""Boxes kept: beyond this the bound so far is the answer."""
MOST_PASSES = 8
"""Most times a box is bounded again after a coordinate was moved to an end."""
HUGE = 1e300


@dataclass(frozen=True, eq=False)
class BoxEnclosure:
    """What is proved of a function on each of N boxes of D coordinates.

    Parameters
    ----------
    upper : array, shape (N,)
        Upper bound of the function.
    low, high : array, shape (N, D)
        Ends of its slopes: infinite where the function may jump, zero where none is wanted.
    blur : array, shape (N,)
        What the coordinates without slopes leave open at the center of the others.
    """

    upper: np.ndarray
    low: np.ndarray
    high: np.ndarray
    blur: np.ndarray


class Objective(Protocol):
    """A function to be maximized."""

    smooth: np.ndarray
    """Which coordinates have slopes, shape (D,)."""
    whole: np.ndarray
    """Which coordinates take whole numbers only, shape (D,)."""

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> BoxEnclosure:
        """Bounds on boxes, ends of shape (N, D)."""

    def attained(self, points: np.ndarray) -> np.ndarray:
        """Proved lower ends of the function at points, shape (N, D); -inf where it has none."""

    def tighten(
        self, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Boxes without points that are not allowed, and which of them are left at all."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """The answer.

    Parameters
    ----------
    upper : float
        Proved: the function is nowhere greater.
    lower : float
        The greatest value found, proved at its point.
    point : array, shape (D,), or None
        Where it was found.
    boxes : int
        How many boxes were bounded.
    """

    upper: float
    lower: float
    point: np.ndarray | None
    boxes: int


@dataclass(eq=False)
class _BoxPool:
    """Boxes that may still hold the maximum."""

    lower: np.ndarray
    upper: np.ndarray
    bound: np.ndarray
    score: np.ndarray

    def take(self, which: np.ndarray) -> _BoxPool:
        """Some of them."""
        return _BoxPool(*(part[which] for part in vars(self).values()))

    def joined(self, other: _BoxPool) -> _BoxPool:
        """These and those."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _BoxPool(*map(np.concatenate, pairs))

    def __len__(self) -> int:
        return len(self.bound)


class _BranchAndBound:
    """One run of branch and bound."""

    def __init__(self, objective: Objective, widths: np.ndarray, effort: Effort) -> None:
        self.objective, self.widths, self.effort = objective, widths, effort
        self.best, self.point = 0.0, None
        self.closed, self.boxes = 0.0, 0

    def bounded(self, lower: np.ndarray, upper: np.ndarray) -> _BoxPool:
        """Bound boxes, move monotone coordinates to their ends, try the most promising points."""
        parts = [
            self._bounded(lower[k : k + 2 * BOXES_PER_STEP], upper[k : k + 2 * BOXES_PER_STEP])
            for k in range(0, len(lower), 2 * BOXES_PER_STEP)
        ]
        pool = parts[0]
        for part in parts[1:]:
            pool = pool.joined(part)
        return pool

    def _bounded(self, lower: np.ndarray, upper: np.ndarray) -> _BoxPool:
        lower, upper, left = self.objective.tighten(lower, upper)
        lower, upper = lower[left], upper[left]
        if not len(lower):
            return _BoxPool(lower, upper, np.empty(0), np.empty(lower.shape))
        found = self._enclose(lower, upper)
        for _ in range(MOST_PASSES):
            known = np.isfinite(found.low) & np.isfinite(found.high)
            free = self.objective.smooth & (upper > lower) & known
            rising, falling = free & (found.low >= 0.0), free & (found.high <= 0.0)
            moved = (rising | falling).any(axis=1)
            if not moved.any():
                break
            lower = np.where(rising, upper, lower)
            upper = np.where(falling & ~rising, lower, upper)
            again = self._enclose(lower[moved], upper[moved])
            found = _merged_bounds(found, moved, again)
        self._try(lower, upper, found)
        return _BoxPool(lower, upper, found.upper, self._score(lower, upper, found))

    def _enclose(self, lower: np.ndarray, upper: np.ndarray) -> BoxEnclosure:
        self.boxes += len(lower)
        self.effort.spend(8 * len(lower))
        return self.objective.enclose(lower, upper)

    def _try(self, lower: np.ndarray, upper: np.ndarray, found: BoxEnclosure) -> None:
        """The corner that the middle slopes point to; where there are none, each end in turn."""
        middle = lower / 2 + upper / 2
        with np.errstate(invalid="ignore"):
            slope = found.low + found.high
        corner = np.where(slope > 0, upper, np.where(slope < 0, lower, middle))
        points = np.where(self.objective.smooth, corner, middle)
        points = np.where(self.objective.whole, np.floor(middle), points)
        lost = self.objective.smooth & ~np.isfinite(slope)
        if lost.any():  # the point of a jump may be an end
            some = lost.any(axis=1)
            ends = [np.where(lost, end, points)[some] for end in (lower, upper)]
            points = np.concatenate([points, *ends])
        values = self.objective.attained(points)
        self.effort.spend(4 * len(points))
        top = int(np.argmax(values))
        if values[top] > self.best:
            self.best, self.point = float(values[top]), points[top]

    def _score(self, lower: np.ndarray, upper: np.ndarray, found: BoxEnclosure) -> np.ndarray:
        """What each coordinate adds to the slack of a box; negative where it cannot be cut."""
        share = (upper - lower) / np.where(self.widths > 0, self.widths, 1.0)
        smooth = self.objective.smooth
        with np.errstate(invalid="ignore"):
            reach = np.maximum(abs(found.low), abs(found.high)) * (upper - lower)
        lost = ~np.isfinite(reach)
        reach = np.where(lost, HUGE * share, reach)
        # Slopes are mostly lost where a whole number is open: it may decide a switch.
        blur = np.where(np.isfinite(found.blur), found.blur, HUGE)[:, None] * (0.5 + share)
        blur = np.where((lost & smooth).any(axis=1)[:, None], HUGE * (1.0 + share), blur)
        score = np.where(smooth, reach, blur) + 1e-12 * share
        return np.where(_can_be_halved(self.objective, lower, upper), score, -1.0)

    def parts(self, pool: _BoxPool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Halves of each box; of few boxes the halves' halves, since a walk over few costs as much.

        Returns lower and upper ends, and the bounds that hold already.
        """
        pool = self.halves(pool)
        for _ in range(MOST_REHALVINGS):
            if len(pool) > FEW_BOXES:
                break
            open_ = pool.score.max(axis=1) >= 0.0
            pool = pool.take(~open_).joined(self.halves(pool.take(open_)))
        return pool.lower, pool.upper, pool.bound

    def halves(self, pool: _BoxPool) -> _BoxPool:
        """Both halves of each box, across the coordinate with the greatest score."""
        rows, axis = np.arange(len(pool)), pool.score.argmax(axis=1)
        middle = pool.lower[rows, axis] / 2 + pool.upper[rows, axis] / 2
        whole = self.objective.whole[axis]
        left, right = pool.upper.copy(), pool.lower.copy()
        left[rows, axis] = np.where(whole, np.floor(middle), middle)
        right[rows, axis] = np.where(whole, np.floor(middle) + 1.0, middle)
        score = pool.score.copy()
        score[rows, axis] /= 2
        lower, upper = np.concatenate([pool.lower, right]), np.concatenate([left, pool.upper])
        score = np.where(_can_be_halved(self.objective, lower, upper), np.tile(score, (2, 1)), -1.0)
        return _BoxPool(lower, upper, np.tile(pool.bound, 2), score)

    def close(self, pool: _BoxPool, which: np.ndarray) -> _BoxPool:
        """Lay boxes aside: their bounds stand."""
        if which.any():
            self.closed = max(self.closed, float(pool.bound[which].max()))
        return pool.take(~which)


def _can_be_halved(objective: Objective, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which coordinates of each box have something between their ends."""
    middle = lower / 2 + upper / 2
    return np.where(objective.whole, upper > lower, (lower < middle) & (middle < upper))


def _merged_bounds(found: BoxEnclosure, rows: np.ndarray, again: BoxEnclosure) -> BoxEnclosure:
    """New bounds in some rows; both bounds hold, so the lesser upper one counts."""
    upper, low, high = found.upper.copy(), found.low.copy(), found.high.copy()
    blur = found.blur.copy()
    upper[rows] = np.minimum(upper[rows], again.upper)
    low[rows], high[rows], blur[rows] = again.low, again.high, again.blur
    return BoxEnclosure(upper, low, high, blur)


def maximize(
    objective: Objective,
    lower: np.ndarray,
    upper: np.ndarray,
    *,
    goal: Callable[[Effort], float],
    effort: Effort,
    known: float = np.inf,
    floor: float = 0.0,
    progress: Callable[[float, float], None] = lambda bound, found: None,
) -> Bracket:
    """Bound the maximum of a non-negative function over boxes.

    Parameters
    ----------
    objective : Objective
    lower, upper : array, shape (boxes, D)
        Together they hold every allowed point.
    goal : callable
        The relative gap between bound and value found that is small enough, given the effort so
        far. At an effort that is exhausted the bound so far is the answer.
    effort : Effort
    known : float
        An upper bound that is proved already.
    floor : float
        Bounds at or below it are small enough.
    progress : callable
        Called with the bound and the value found, after each step.

    Returns
    -------
    Bracket
    """
    search = _BranchAndBound(objective, (upper - lower).max(axis=0), effort)
    pool = search.bounded(lower, upper)
    while len(pool):
        enough = max(search.best * (1.0 + goal(effort)) + 1e-12, floor)
        pool = search.close(pool, pool.bound <= enough)
        if known <= enough or effort.is_exhausted or len(pool) > MOST_BOXES or not len(pool):
            break
        progress(max(search.closed, float(pool.bound.max())), search.best)
        pool = _halve_greatest(search, pool)
    open_bound = float(pool.bound.max()) if len(pool) else 0.0
    bound = min(known, max(search.closed, open_bound, search.best))
    return Bracket(bound, search.best, search.point, search.boxes)


def _halve_greatest(search: _BranchAndBound, pool: _BoxPool) -> _BoxPool:
    """Halve the boxes with the greatest bounds."""
    pool = search.close(pool, pool.score.max(axis=1) < 0.0)  # points: nothing is left to cut
    if not len(pool):
        return pool
    chosen = np.zeros(len(pool), dtype=bool)
    many = min(BOXES_PER_STEP, len(pool))
    chosen[np.argpartition(-pool.bound, many - 1)[:many]] = True
    lower, upper, parents = search.parts(pool.take(chosen))
    children = search.bounded(lower, upper)
    # A child's own bound may be looser by rounding; its parent's holds too.
    if len(children) == len(parents):
        children.bound = np.minimum(children.bound, parents)
    return pool.take(~chosen).joined(children)
