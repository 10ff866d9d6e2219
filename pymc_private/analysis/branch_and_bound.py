"""Branch and bound: a proved upper bound of a maximum over boxes, and a value that is attained.

Boxes are kept with a proved upper bound of the function on each. The boxes with the greatest bounds
are halved, many at a time, until none exceeds the best value found by more than the tolerance. A
coordinate in which the function is monotone on a box is moved to its better end (Ratschek and Rokne
1988, New Computer Methods for Global Optimization).
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol
from pymc_private.analysis.branch_and_bound__effort import Effort

AT_ONCE = 256
"""Boxes halved in one step."""
FEW, AGAIN = 128, 2
"""So few boxes are halved again before they are bounded, up to so many times."""
MOST_BOXES = 200_000
"""Boxes kept: beyond this the bound so far is the answer."""
PASSES = 8
"""Most times a box is bounded again after a coordinate was moved to an end."""
HUGE = 1e300


@dataclass(frozen=True, eq=False)
class Enclosure:
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

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> Enclosure:
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
class _Pool:
    """Boxes that may still hold the maximum."""

    lower: np.ndarray
    upper: np.ndarray
    bound: np.ndarray
    score: np.ndarray

    def take(self, which: np.ndarray) -> _Pool:
        """Some of them."""
        return _Pool(*(part[which] for part in vars(self).values()))

    def joined(self, other: _Pool) -> _Pool:
        """These and those."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return _Pool(*map(np.concatenate, pairs))

    def __len__(self) -> int:
        return len(self.bound)


class _Search:
    """One run of branch and bound."""

    def __init__(self, objective: Objective, widths: np.ndarray, effort: Effort) -> None:
        self.objective, self.widths, self.effort = objective, widths, effort
        self.best, self.point = 0.0, None
        self.closed, self.boxes = 0.0, 0

    def bounded(self, lower: np.ndarray, upper: np.ndarray) -> _Pool:
        """Bound boxes, move monotone coordinates to their ends, try the most promising points."""
        parts = [
            self._bounded(lower[k : k + 2 * AT_ONCE], upper[k : k + 2 * AT_ONCE])
            for k in range(0, len(lower), 2 * AT_ONCE)
        ]
        pool = parts[0]
        for part in parts[1:]:
            pool = pool.joined(part)
        return pool

    def _bounded(self, lower: np.ndarray, upper: np.ndarray) -> _Pool:
        lower, upper, left = self.objective.tighten(lower, upper)
        lower, upper = lower[left], upper[left]
        if not len(lower):
            return _Pool(lower, upper, np.empty(0), np.empty(lower.shape))
        found = self._enclose(lower, upper)
        for _ in range(PASSES):
            known = np.isfinite(found.low) & np.isfinite(found.high)
            free = self.objective.smooth & (upper > lower) & known
            rising, falling = free & (found.low >= 0.0), free & (found.high <= 0.0)
            moved = (rising | falling).any(axis=1)
            if not moved.any():
                break
            lower = np.where(rising, upper, lower)
            upper = np.where(falling & ~rising, lower, upper)
            again = self._enclose(lower[moved], upper[moved])
            found = _patched(found, moved, again)
        self._try(lower, upper, found)
        return _Pool(lower, upper, found.upper, self._score(lower, upper, found))

    def _enclose(self, lower: np.ndarray, upper: np.ndarray) -> Enclosure:
        self.boxes += len(lower)
        self.effort.spend(8 * len(lower))
        return self.objective.enclose(lower, upper)

    def _try(self, lower: np.ndarray, upper: np.ndarray, found: Enclosure) -> None:
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

    def _score(self, lower: np.ndarray, upper: np.ndarray, found: Enclosure) -> np.ndarray:
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
        return np.where(_can_be_cut(self.objective, lower, upper), score, -1.0)

    def parts(self, pool: _Pool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Halves of each box; of few boxes the halves' halves, since a walk over few costs as much.

        Returns lower and upper ends, and the bounds that hold already.
        """
        pool = self.halves(pool)
        for _ in range(AGAIN):
            if len(pool) > FEW:
                break
            open_ = pool.score.max(axis=1) >= 0.0
            pool = pool.take(~open_).joined(self.halves(pool.take(open_)))
        return pool.lower, pool.upper, pool.bound

    def halves(self, pool: _Pool) -> _Pool:
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
        score = np.where(_can_be_cut(self.objective, lower, upper), np.tile(score, (2, 1)), -1.0)
        return _Pool(lower, upper, np.tile(pool.bound, 2), score)

    def close(self, pool: _Pool, which: np.ndarray) -> _Pool:
        """Lay boxes aside: their bounds stand."""
        if which.any():
            self.closed = max(self.closed, float(pool.bound[which].max()))
        return pool.take(~which)


def _can_be_cut(objective: Objective, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Which coordinates of each box have something between their ends."""
    middle = lower / 2 + upper / 2
    return np.where(objective.whole, upper > lower, (lower < middle) & (middle < upper))


def _patched(found: Enclosure, rows: np.ndarray, again: Enclosure) -> Enclosure:
    """New bounds in some rows; both bounds hold, so the lesser upper one counts."""
    upper, low, high = found.upper.copy(), found.low.copy(), found.high.copy()
    blur = found.blur.copy()
    upper[rows] = np.minimum(upper[rows], again.upper)
    low[rows], high[rows], blur[rows] = again.low, again.high, again.blur
    return Enclosure(upper, low, high, blur)


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
    search = _Search(objective, (upper - lower).max(axis=0), effort)
    pool = search.bounded(lower, upper)
    while len(pool):
        enough = max(search.best * (1.0 + goal(effort)) + 1e-12, floor)
        pool = search.close(pool, pool.bound <= enough)
        if known <= enough or effort.is_exhausted or len(pool) > MOST_BOXES or not len(pool):
            break
        progress(max(search.closed, float(pool.bound.max())), search.best)
        pool = _step(search, pool)
    open_bound = float(pool.bound.max()) if len(pool) else 0.0
    bound = min(known, max(search.closed, open_bound, search.best))
    return Bracket(bound, search.best, search.point, search.boxes)


def _step(search: _Search, pool: _Pool) -> _Pool:
    """Halve the boxes with the greatest bounds."""
    pool = search.close(pool, pool.score.max(axis=1) < 0.0)  # points: nothing is left to cut
    if not len(pool):
        return pool
    chosen = np.zeros(len(pool), dtype=bool)
    many = min(AT_ONCE, len(pool))
    chosen[np.argpartition(-pool.bound, many - 1)[:many]] = True
    lower, upper, parents = search.parts(pool.take(chosen))
    children = search.bounded(lower, upper)
    # A child's own bound may be looser by rounding; its parent's holds too.
    if len(children) == len(parents):
        children.bound = np.minimum(children.bound, parents)
    return pool.take(~chosen).joined(children)
