"""Proved upper bounds of many functions of a few numbers at once, by halving boxes.

One walk bounds all functions on all boxes. Boxes on which some function may exceed the best value
found of it, by more than the tolerance, are halved (Moore 1966: the interval of a piece is no
wider, and shrinks with it). Whatever effort is left, the bounds stand.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from dataclasses import dataclass

Ends = tuple[np.ndarray, np.ndarray]
Enclose = Callable[[np.ndarray, np.ndarray], Ends]
"""Ends of boxes, shape (N, D) -> lower and upper ends of the functions, shape (N, Q)."""

Settled = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Bounds on boxes, shape (N, Q), and what was found, shape (Q,) -> which need no more work."""

AT_ONCE = 512
FIRST = 64
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


def suprema(
    enclose: Enclose,
    lower: np.ndarray,
    upper: np.ndarray,
    whole: np.ndarray,
    *,
    settled: Settled,
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
        When to leave a function: `within` is the usual answer.
    most : int
        Boxes bounded at most.

    Returns
    -------
    Suprema
    """
    widths = np.maximum((upper - lower).max(axis=0), 1e-300)
    lower, upper = _pieces(lower, upper, whole)
    bound, found = _bounded(enclose, lower, upper, whole)
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
        excess = np.nanmax(_excess(bound, found), axis=1)
        chosen[np.argsort(-excess, kind="stable")[:AT_ONCE]] = True
        low, high, parents = _halves(
            lower[chosen], upper[chosen], bound[chosen], share[chosen], whole
        )
        child, best = _bounded(enclose, low, high, whole)
        found = np.maximum(found, best)
        count += len(low)
        lower = np.concatenate([lower[~chosen], low])
        upper = np.concatenate([upper[~chosen], high])
        bound = np.concatenate([bound[~chosen], np.minimum(child, parents)])
    return Suprema(np.maximum(closed, bound.max(axis=0, initial=-np.inf)), found, count)


def within(tolerance: float) -> Settled:
    """Leave a function whose bound is that close to a value, relatively."""

    def settled(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore", invalid="ignore"):  # next to nothing found none is close
            return bound <= found + tolerance * np.abs(found) + 1e-12

    return settled


def _excess(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
    """How far a bound is above what was found, by its size; infinite bounds first."""
    with np.errstate(invalid="ignore", over="ignore"):
        ratio = (bound - found) / (np.abs(found) + 1e-9)
    return np.where(np.isfinite(bound), ratio, np.inf)


def _pieces(lower: np.ndarray, upper: np.ndarray, whole: np.ndarray) -> Ends:
    """The first coordinate in equal parts."""
    if not lower.shape[1] or whole[0] or not np.all(upper[:, 0] > lower[:, 0]):
        return lower, upper
    edges = np.linspace(0.0, 1.0, FIRST + 1)
    low, high = np.repeat(lower, FIRST, axis=0), np.repeat(upper, FIRST, axis=0)
    start, width = np.repeat(lower[:, 0], FIRST), np.repeat(upper[:, 0] - lower[:, 0], FIRST)
    marks = np.tile(edges, (len(lower), 1))
    low[:, 0] = start + width * marks[:, :-1].ravel()
    high[:, 0] = start + width * marks[:, 1:].ravel()
    high[FIRST - 1 :: FIRST, 0] = upper[:, 0]
    return low, high


def _bounded(enclose: Enclose, lower: np.ndarray, upper: np.ndarray, whole: np.ndarray) -> Ends:
    """Upper ends on boxes, and the greatest lower ends at their middles."""
    middle = lower / 2.0 + upper / 2.0
    middle = np.where(whole, np.floor(middle), middle)
    bounds, found = [], []
    for k in range(0, len(lower), AT_ONCE):
        part = slice(k, k + AT_ONCE)
        bounds.append(enclose(lower[part], upper[part])[1])
        found.append(enclose(middle[part], middle[part])[0])
    bound, value = np.concatenate(bounds), np.concatenate(found)
    value = np.where(np.isnan(value), -np.inf, value)
    return np.where(np.isnan(bound), np.inf, bound), value.max(axis=0, initial=-np.inf)


def _halves(
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
