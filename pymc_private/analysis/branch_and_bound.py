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

ROWS_PER_UNIT = 256
"""Rows of a walk that count as one more unit of effort."""


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


BoundsPair = tuple[np.ndarray, np.ndarray]
"""Lower and upper bounds."""


def halve_boxes(
    lower: np.ndarray, upper: np.ndarray, axis: np.ndarray, whole: np.ndarray
) -> BoundsPair:
    """Upper bounds of the left halves and lower bounds of the right ones, across one axis per box.

    Coordinates that take integers only, by `whole`, are cut between two integers.
    """
    rows = np.arange(len(lower))
    middle = lower[rows, axis] / 2 + upper[rows, axis] / 2
    left, right = upper.copy(), lower.copy()
    left[rows, axis] = np.where(whole[axis], np.floor(middle), middle)
    right[rows, axis] = np.where(whole[axis], np.floor(middle) + 1.0, middle)
    return left, right


# ---- the maximum of one function -------------------------------------------------------------


BOXES_PER_STEP = 256
"""Boxes halved in one step."""


FEW_BOXES, MOST_REHALVINGS = 128, 2
"""So few boxes are halved again before they are bounded, up to so many times."""


MOST_BOXES = 200_000
"""Boxes kept: beyond this the bound so far is the answer."""


MOST_PASSES = 8
"""Most times a box is bounded again after a coordinate was moved to one of its bounds."""


HUGE = 1e300
"""Score of a coordinate whose slope is unknown, per share of its width."""


@dataclass(frozen=True, eq=False)
class BoxEnclosure:
    """What is proved of a function on each of N boxes of D coordinates.

    Parameters
    ----------
    upper : array, shape (N,)
        Upper bound of the function.
    low, high : array, shape (N, D)
        Bounds of its partial derivatives: infinite where the function may jump, zero where none is
        wanted.
    uncertainty : array, shape (N,)
        Width of the bounds at the center, left by the coordinates without slopes.
    """

    upper: np.ndarray
    low: np.ndarray
    high: np.ndarray
    uncertainty: np.ndarray


class Objective(Protocol):
    """A function to be maximized."""

    smooth: np.ndarray
    """Which coordinates have slopes, shape (D,)."""
    whole: np.ndarray
    """Which coordinates take integers only, shape (D,)."""

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> BoxEnclosure:
        """Bounds on boxes, given by lower and upper bounds of shape (N, D)."""

    def attained(self, points: np.ndarray) -> np.ndarray:
        """Proved lower bounds of the function at points, shape (N, D); -inf where it has none."""

    def tighten(
        self, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Smaller boxes that hold the same allowed points, and which of them hold any."""


@dataclass(frozen=True, eq=False)
class Bracket:
    """A proved upper bound of a maximum, and a value that is attained.

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
        far. Once the effort is exhausted the bound so far is the answer.
    effort : Effort
    known : float
        An upper bound that is proved already.
    floor : float
        Bounds at or below it are small enough.
    progress : callable
        Called with the bound and the value found, after each step.
    """
    search = _BranchAndBound(objective, (upper - lower).max(axis=0), effort)
    pool = search.bound(lower, upper)
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
    pool = search.close(pool, pool.score.max(axis=1) < 0.0)  # points: nothing is left to halve
    if not len(pool):
        return pool
    chosen = np.zeros(len(pool), dtype=bool)
    many = min(BOXES_PER_STEP, len(pool))
    chosen[np.argpartition(-pool.bound, many - 1)[:many]] = True
    lower, upper, parents = search.parts(pool.take(chosen))
    children = search.bound(lower, upper)
    # A child's own bound may be looser by rounding; its parent's holds too.
    if len(children) == len(parents):
        children.bound = np.minimum(children.bound, parents)
    return pool.take(~chosen).joined(children)


class _BranchAndBound:
    """One run of branch and bound."""

    def __init__(self, objective: Objective, widths: np.ndarray, effort: Effort) -> None:
        self.objective, self.widths, self.effort = objective, widths, effort
        self.best, self.point = 0.0, None
        self.closed, self.boxes = 0.0, 0

    def bound(self, lower: np.ndarray, upper: np.ndarray) -> _BoxPool:
        """Bound boxes, move monotone coordinates to their better bounds, evaluate some points."""
        parts = [
            self._bound_batch(lower[k : k + 2 * BOXES_PER_STEP], upper[k : k + 2 * BOXES_PER_STEP])
            for k in range(0, len(lower), 2 * BOXES_PER_STEP)
        ]
        pool = parts[0]
        for part in parts[1:]:
            pool = pool.joined(part)
        return pool

    def _bound_batch(self, lower: np.ndarray, upper: np.ndarray) -> _BoxPool:
        """See `bound`, for boxes that are bounded in one walk."""
        lower, upper, left = self.objective.tighten(lower, upper)
        lower, upper = lower[left], upper[left]
        if not len(lower):
            return _BoxPool(lower, upper, np.empty(0), np.empty(lower.shape))
        found = self._enclose(lower, upper)
        for _ in range(MOST_PASSES):
            known = np.isfinite(found.low) & np.isfinite(found.high)
            free = self.objective.smooth & (upper > lower) & known
            increasing, decreasing = free & (found.low >= 0.0), free & (found.high <= 0.0)
            moved = (increasing | decreasing).any(axis=1)
            if not moved.any():
                break
            lower = np.where(increasing, upper, lower)
            upper = np.where(decreasing & ~increasing, lower, upper)
            again = self._enclose(lower[moved], upper[moved])
            found = _merged_bounds(found, moved, again)
        self._evaluate_corners(lower, upper, found)
        return _BoxPool(lower, upper, found.upper, self._score(lower, upper, found))

    def _enclose(self, lower: np.ndarray, upper: np.ndarray) -> BoxEnclosure:
        """Bounds on boxes, with their effort counted."""
        self.boxes += len(lower)
        self.effort.spend(8 * len(lower))
        return self.objective.enclose(lower, upper)

    def _evaluate_corners(self, lower: np.ndarray, upper: np.ndarray, found: BoxEnclosure) -> None:
        """Evaluate the corners that the mean slopes point to; without slopes, both bounds."""
        middle = lower / 2 + upper / 2
        with np.errstate(invalid="ignore"):
            slope = found.low + found.high
        corner = np.where(slope > 0, upper, np.where(slope < 0, lower, middle))
        points = np.where(self.objective.smooth, corner, middle)
        points = np.where(self.objective.whole, np.floor(middle), points)
        lost = self.objective.smooth & ~np.isfinite(slope)
        if lost.any():  # a jump may be at a bound
            some = lost.any(axis=1)
            corners = [np.where(lost, bound, points)[some] for bound in (lower, upper)]
            points = np.concatenate([points, *corners])
        values = self.objective.attained(points)
        self.effort.spend(4 * len(points))
        top = int(np.argmax(values))
        if values[top] > self.best:
            self.best, self.point = float(values[top]), points[top]

    def _score(self, lower: np.ndarray, upper: np.ndarray, found: BoxEnclosure) -> np.ndarray:
        """What each coordinate adds to the slack of a box; negative where it cannot be halved."""
        share = (upper - lower) / np.where(self.widths > 0, self.widths, 1.0)
        smooth = self.objective.smooth
        with np.errstate(invalid="ignore"):
            reach = np.maximum(abs(found.low), abs(found.high)) * (upper - lower)
        lost = ~np.isfinite(reach)
        reach = np.where(lost, HUGE * share, reach)
        # Slopes are mostly lost where an integer is not fixed: it may decide a switch.
        uncertainty = np.where(np.isfinite(found.uncertainty), found.uncertainty, HUGE)[:, None] * (
            0.5 + share
        )
        uncertainty = np.where(
            (lost & smooth).any(axis=1)[:, None], HUGE * (1.0 + share), uncertainty
        )
        score = np.where(smooth, reach, uncertainty) + 1e-12 * share
        return np.where(_can_be_halved(self.objective, lower, upper), score, -1.0)

    def parts(self, pool: _BoxPool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Halves of each box, halved again if few, since a walk over few boxes costs as much.

        Returns their lower and upper bounds, and the bounds of the function that hold already.
        """
        pool = self.halves(pool)
        for _ in range(MOST_REHALVINGS):
            if len(pool) > FEW_BOXES:
                break
            divisible = pool.score.max(axis=1) >= 0.0
            pool = pool.take(~divisible).joined(self.halves(pool.take(divisible)))
        return pool.lower, pool.upper, pool.bound

    def halves(self, pool: _BoxPool) -> _BoxPool:
        """Both halves of each box, across the coordinate with the greatest score."""
        rows, axis = np.arange(len(pool)), pool.score.argmax(axis=1)
        left, right = halve_boxes(pool.lower, pool.upper, axis, self.objective.whole)
        score = pool.score.copy()
        score[rows, axis] /= 2
        lower, upper = np.concatenate([pool.lower, right]), np.concatenate([left, pool.upper])
        score = np.where(_can_be_halved(self.objective, lower, upper), np.tile(score, (2, 1)), -1.0)
        return _BoxPool(lower, upper, np.tile(pool.bound, 2), score)

    def close(self, pool: _BoxPool, which: np.ndarray) -> _BoxPool:
        """The pool without some boxes, whose bounds stand as they are."""
        if which.any():
            self.closed = max(self.closed, float(pool.bound[which].max()))
        return pool.take(~which)


@dataclass(eq=False)
class _BoxPool:
    """Boxes that may still hold the maximum."""

    lower: np.ndarray
    upper: np.ndarray
    bound: np.ndarray
    score: np.ndarray

    def take(self, which: np.ndarray) -> _BoxPool:
        """Some of the boxes."""
        return _BoxPool(*(part[which] for part in vars(self).values()))

    def joined(self, other: _BoxPool) -> _BoxPool:
        """The boxes of both pools."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _BoxPool(*map(np.concatenate, pairs))

    def __len__(self) -> int:
        return len(self.bound)


def _can_be_halved(objective: Objective, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which coordinates of each box have a point between their bounds."""
    middle = lower / 2 + upper / 2
    return np.where(objective.whole, upper > lower, (lower < middle) & (middle < upper))


def _merged_bounds(found: BoxEnclosure, rows: np.ndarray, again: BoxEnclosure) -> BoxEnclosure:
    """Bounds with some rows bounded again; both upper bounds hold, so the lesser one counts."""
    upper, low, high = found.upper.copy(), found.low.copy(), found.high.copy()
    uncertainty = found.uncertainty.copy()
    upper[rows] = np.minimum(upper[rows], again.upper)
    low[rows], high[rows], uncertainty[rows] = again.low, again.high, again.uncertainty
    return BoxEnclosure(upper, low, high, uncertainty)


# ---- suprema of many functions ---------------------------------------------------------------


BoundFunctions = Callable[[np.ndarray, np.ndarray], BoundsPair]
"""Lower and upper bounds of N boxes, shape (N, D) -> those of the functions, shape (N, Q)."""


StoppingRule = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Bounds on boxes, shape (N, Q), and what was found, shape (Q,) -> which need no more work."""


BOXES_PER_WALK = 512
"""Boxes bounded in one walk over the graphs."""


FIRST_PIECES = 64
"""Pieces of the first coordinate at the start."""


@dataclass(frozen=True, eq=False)
class Suprema:
    """Brackets of the suprema of Q functions.

    Parameters
    ----------
    upper : array, shape (Q,)
        No function exceeds it anywhere.
    found : array, shape (Q,)
        Lower bounds at points: some value is at least that.
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
    """Bound Q functions over a union of boxes of D coordinates.

    Parameters
    ----------
    enclose : callable
        Interval bounds of all functions on boxes; NaN where nothing is known.
    lower, upper : array, shape (boxes, D)
        The first coordinate is cut into pieces at the start.
    whole : array of bool, shape (D,)
        Which coordinates take integers only.
    settled : callable
        When a function needs no more work, as `within_tolerance`.
    most : int
        Boxes bounded at most.
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
    """A function needs no more work if its bound is that close to a value found, relatively."""

    def settled(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # beside a value of zero no bound is close
            return bound <= found + tolerance * np.abs(found) + 1e-12

    return settled


def _relative_excess(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
    """How far a bound exceeds the value found, relatively; infinite for an infinite bound."""
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = (bound - found) / (np.abs(found) + 1e-9)
    return np.where(np.isfinite(bound), ratio, np.inf)


def _cut_first_coordinate(lower: np.ndarray, upper: np.ndarray, whole: np.ndarray) -> BoundsPair:
    """The boxes with their first coordinate cut into equal parts."""
    if not lower.shape[1] or whole[0] or not np.all(upper[:, 0] > lower[:, 0]):
        return lower, upper
    edges = np.linspace(0.0, 1.0, FIRST_PIECES + 1)
    low, high = np.repeat(lower, FIRST_PIECES, axis=0), np.repeat(upper, FIRST_PIECES, axis=0)
    start = np.repeat(lower[:, 0], FIRST_PIECES)
    width = np.repeat(upper[:, 0] - lower[:, 0], FIRST_PIECES)
    cuts = np.tile(edges, (len(lower), 1))
    low[:, 0] = start + width * cuts[:, :-1].ravel()
    high[:, 0] = start + width * cuts[:, 1:].ravel()
    high[FIRST_PIECES - 1 :: FIRST_PIECES, 0] = upper[:, 0]
    return low, high


def _bound_boxes(
    enclose: BoundFunctions, lower: np.ndarray, upper: np.ndarray, whole: np.ndarray
) -> BoundsPair:
    """Upper bounds on boxes, and the greatest lower bounds at their middles."""
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
    left, right = halve_boxes(lower, upper, share.argmax(axis=1), whole)
    return (
        np.concatenate([lower, right]),
        np.concatenate([left, upper]),
        np.concatenate([bound, bound]),
    )
