"""The greatest slopes and curvatures over all predictors and records, by intervals."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Interval as Bounds, bounds, simplify
from pymc_private.analysis.branch_and_bound__suprema import suprema, within
from pymc_private.models.record_likelihood import Column, Role

NEARLY = 2e-3
"""Relative gap at which a bound of a slope or curvature is close enough."""
PER_LINE = 4.0
"""Half of the pieces of an infinite line lie within this distance of zero."""


class Line:
    """Predictors between their ends, of which some may be infinite.

    Parameters
    ----------
    inputs : sequence of Variable
        The predictors, of known shapes.
    low, high : array, shape (k,)
        Ends of all their elements, one after the other.
    """

    def __init__(self, inputs: Sequence[Variable], low: np.ndarray, high: np.ndarray) -> None:
        self.inputs, self.low, self.high = list(inputs), low, high
        self.sizes = [int(np.prod(u.type.shape)) for u in inputs]
        self.size = sum(self.sizes)

    def shaped(self, lower: np.ndarray, upper: np.ndarray) -> list[Bounds]:
        """One interval for each predictor variable."""
        cuts = np.cumsum(self.sizes)[:-1]
        parts = zip(self.inputs, np.split(lower, cuts, -1), np.split(upper, cuts, -1), strict=True)
        lead = lower.shape[:-1]
        return [
            Bounds(low.reshape((*lead, *u.type.shape)), high.reshape((*lead, *u.type.shape)))
            for u, low, high in parts
        ]

    def place(self, t: np.ndarray) -> np.ndarray:
        """Predictors at a share t of their way, which rises in t: shape (N, 1) -> (N, k)."""
        low, high = self.low[None], self.high[None]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            s = 2.0 * t - 1.0
            line = PER_LINE * s / (1.0 - np.abs(s))
            right, left = low + PER_LINE * t / (1.0 - t), high - PER_LINE * (1.0 - t) / t
            inside = np.where(t < 0.5, low + (high - low) * t, high - (high - low) * (1.0 - t))
        value = np.where(np.isinf(low), np.where(np.isinf(high), line, left), right)
        return np.where(np.isfinite(low) & np.isfinite(high), inside, value)


class Extremes:
    """Graphs of predictors and records, bounded on many boxes at once.

    The first coordinate is the place of every predictor between its ends: no function reads more
    than its own, so one coordinate serves all of them.
    """

    def __init__(
        self,
        line: Line,
        columns: Sequence[Column],
        outputs: Sequence[Variable],
        rows: np.ndarray | None,
    ) -> None:
        self.line = line
        read = set(ancestors(list(outputs)))
        self.columns = [c for c in columns if c.variable in read]
        self.shared = [c for c in columns if c.role is Role.SHARED]
        inputs = [*line.inputs, *(c.variable for c in self.columns)]
        self.boxes = {
            v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name) for v in inputs
        }
        flat = [out.flatten() for out in outputs]
        self.outputs = simplify(vectorize_graph(flat, replace=self.boxes))
        self.widths = [int(np.prod(out.type.shape)) for out in outputs]
        self.root = self._root(rows)

    def at_one_point(self) -> None:
        """Let every predictor stay at one place inside its ends."""
        self.root[0][:, 0] = self.root[1][:, 0] = 0.5

    def _root(self, rows: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends of the whole space, and which coordinates are whole numbers."""
        ends = [c.ends() for c in self.columns]
        lower = np.concatenate([[0.0], *(low for low, _ in ends)])
        upper = np.concatenate([[1.0], *(high for _, high in ends)])
        whole = np.concatenate([[False], *(np.full(c.size, c.is_whole) for c in self.columns)])
        if rows is None or not self.shared:
            return lower[None], upper[None], whole.astype(bool)
        lower, upper = np.tile(lower, (len(rows), 1)), np.tile(upper, (len(rows), 1))
        place, column_of = 0, {}
        for c in self.shared:
            column_of[c.variable] = slice(place, place + c.size)
            place += c.size
        start = 1
        for c in self.columns:
            if c.variable in column_of:
                values = rows[:, column_of[c.variable]]
                lower[:, start : start + c.size] = upper[:, start : start + c.size] = values
            start += c.size
        return lower, upper, whole.astype(bool)

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Ends of all outputs, side by side."""
        shaped = self.line.shaped(*(self.line.place(end[:, :1]) for end in (lower, upper)))
        given = {self.boxes[u]: b for u, b in zip(self.line.inputs, shaped, strict=True)}
        start = 1
        for c in self.columns:
            part = slice(start, start + c.size)
            given[self.boxes[c.variable]] = c.interval(lower[:, part], upper[:, part])
            start += c.size
        trail = bounds(self.outputs, given)
        shapes = [(len(lower), width) for width in self.widths]
        lows = [_spread(trail[o].lower, s) for o, s in zip(self.outputs, shapes, strict=True)]
        highs = [_spread(trail[o].upper, s) for o, s in zip(self.outputs, shapes, strict=True)]
        return np.concatenate(lows, axis=1), np.concatenate(highs, axis=1)

    def extremes(self) -> np.ndarray:
        """sup h', sup -h', sup -h'' and sup h'', for outputs h' and h''."""
        k = self.line.size

        def enclose(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            low, high = self.enclose(lower, upper)
            (slope, bend), (rise, top) = (low[:, :k], -high[:, k:]), (low[:, k:], high[:, :k])
            return (
                np.concatenate([slope, -top, bend, rise], axis=1),
                np.concatenate([top, -slope, -rise, -bend], axis=1),
            )

        def settled(bound: np.ndarray, found: np.ndarray) -> np.ndarray:
            close = within(NEARLY)(bound, found)
            slope = np.maximum(np.maximum(found[:k], found[k : 2 * k]), 0.0)
            with np.errstate(invalid="ignore", over="ignore"):
                near = found[: 2 * k] + NEARLY * np.tile(slope, 2)
            close[:, : 2 * k] |= bound[:, : 2 * k] <= near
            # Of the rise of h' little more is asked than its sign.
            sign, bend = found[3 * k :], np.maximum(found[2 * k : 3 * k], 0.0)
            flat = (bound[:, 3 * k :] <= 0.0) & ((sign >= -0.01 * bend) | close[:, 3 * k :])
            close[:, 3 * k :] = flat | (sign > 0.0)
            return close

        return suprema(enclose, *self.root, settled=settled).upper

    def magnitudes(self) -> np.ndarray:
        """sup of the absolute value of each output."""

        def enclose(lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            return _magnitude(*self.enclose(lower, upper))

        return suprema(enclose, *self.root, settled=within(NEARLY)).upper


def extremes_of_numbers(second: Sequence[Variable], box: Mapping[Variable, Bounds]) -> np.ndarray:
    """`Extremes.extremes` for h'' that read nothing; of slopes h' nothing is asked, nor proved."""
    trail = bounds(second, box)  # of the predictors they may read the shapes
    low, high = (
        np.concatenate(e) for e in zip(*(real_ends(trail[s], s) for s in second), strict=True)
    )
    return np.concatenate([np.full(2 * len(low), np.inf), -low, high])


def real_ends(fact: Bounds, variable: Variable) -> tuple[np.ndarray, np.ndarray]:
    """Ends of real numbers, one after the other: where nothing is known, the whole line."""
    shape = variable.type.shape
    low = np.broadcast_to(np.nan_to_num(fact.lower, nan=-np.inf, neginf=-np.inf), shape)
    high = np.broadcast_to(np.nan_to_num(fact.upper, nan=np.inf, posinf=np.inf), shape)
    return np.ravel(low), np.ravel(high)


def _spread(end: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """An end in the shape of all boxes; what lost its shape is NaN."""
    array = np.asarray(end, dtype=float)
    return np.broadcast_to(array if array.ndim else array[None, None], shape)


def _magnitude(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends of the absolute value."""
    return np.maximum(np.maximum(low, -high), 0.0), np.maximum(np.abs(low), np.abs(high))
