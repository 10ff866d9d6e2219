"""Second derivatives of a log density on many boxes: matrices above every Hessian of each box."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, Trail
from pymc_private.analysis.intervals.functions import UNIT
from pymc_private.analysis.record_dependence import Concrete

if TYPE_CHECKING:
    from pymc_private.samplers.log_density__graphs import Graphs

SLACK = 1e-12
Walk = Callable[[Sequence[Variable], Mapping[Variable, Bounds]], Trail]
Numbers = Callable[[Sequence[Variable], Mapping[Variable, np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class Above:
    """Matrices M with <s, H s> <= <s, M s> for every s and every Hessian H on a box.

    Parameters
    ----------
    matrix : array, shape (N, d, d)
        Symmetric.
    loose : array, shape (N, d, d)
        By how much, entry by entry, roughly.
    fine : array of bool, shape (N,)
        Whether it is finite.
    """

    matrix: np.ndarray
    loose: np.ndarray
    fine: np.ndarray

    def __add__(self, other: Above) -> Above:
        return Above(self.matrix + other.matrix, self.loose + other.loose, self.fine & other.fine)


class ByTerms:
    """Of sums of functions of few linear predictors (`separable`), exact for one predictor each.

    With intervals C +- r of the k x k matrix of a row, sum_ab C_ab s_a s_b is at most that of
    C + diag(sum_b r_ab); then rows add. No interval is taken of an entry of the Hessian.
    """

    def __init__(self, graphs: Graphs, data: Mapping[Variable, np.ndarray], d: int) -> None:
        self.graphs, self.d = graphs, d
        self.terms = graphs.terms or []
        stand_ins = {v: np.ones(s) for v, s in zip(graphs.inputs, graphs.shapes, strict=True)}
        for side in graphs.along:
            stand_ins |= {v: np.ones(s) for v, s in zip(side, graphs.shapes, strict=True)}
        self.shapes = [np.shape(Concrete({**data, **stand_ins})(t.element)) for t in self.terms]
        self.rows = [
            [self._rows(p, shape, data) for p in term.predictors]
            for term, shape in zip(self.terms, self.shapes, strict=True)
        ]
        self.count = max((int(np.prod(shape)) for shape in self.shapes), default=1)

    def _rows(
        self, predictor: Variable, shape: tuple[int, ...], data: Mapping[Variable, np.ndarray]
    ) -> np.ndarray:
        """Coefficients of a linear map, shape (m, d), by its values on unit vectors."""
        found = np.empty((int(np.prod(shape)), self.d))
        for j, unit in enumerate(np.eye(self.d)):
            given = dict(zip(self.graphs.along[0], self.graphs.split(unit), strict=True))
            value = Concrete({**data, **given})(predictor)
            found[:, j] = np.broadcast_to(value, shape).reshape(-1)
        return found

    def at(self, points: np.ndarray, numbers: Numbers) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        g, count = self.graphs, len(points)
        total = np.zeros((count, self.d, self.d))
        for term, rows, shape in zip(self.terms, self.rows, self.shapes, strict=True):
            flat = [c for row in term.coefficients for c in row]
            found = numbers(flat, g.on(g.boxes, points))
            places = [(a, b) for a in range(len(rows)) for b in range(len(rows))]
            for (a, b), c in zip(places, found, strict=True):
                weights = np.broadcast_to(c, (count, *shape)).reshape(count, -1)
                total += _weighted(weights, rows[a], rows[b])
        return (total + np.swapaxes(total, 1, 2)) / 2.0

    def above(
        self, lower: np.ndarray, upper: np.ndarray, turn: np.ndarray, back: np.ndarray, walk: Walk
    ) -> Above:
        """See `Above`; the coordinates are not needed."""
        g, (count, d) = self.graphs, lower.shape
        flat = [c for term in self.terms for row in term.coefficients for c in row]
        low, high = g.on(g.boxes, lower), g.on(g.boxes, upper)
        trail = walk(flat, {v: Bounds(low[v], high[v]) for v in low})
        total = Above(np.zeros((count, d, d)), np.zeros((count, d, d)), np.ones(count, bool))
        for term, rows, shape in zip(self.terms, self.rows, self.shapes, strict=True):
            ends = [[self._ends(trail, c, count, shape) for c in row] for row in term.coefficients]
            total += _term_above(ends, rows)
        return total

    @staticmethod
    def _ends(
        trail: Trail, c: Variable, count: int, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        fact = trail[c]
        ends = (np.asarray(end, float) for end in (fact.lower, fact.upper))
        low, high = (np.broadcast_to(end, (count, *shape)).reshape(count, -1) for end in ends)
        return low, high


def _term_above(ends: list[list[tuple[np.ndarray, np.ndarray]]], rows: list[np.ndarray]) -> Above:
    k = range(len(rows))
    middle = [[sum(ends[a][b]) / 4 + sum(ends[b][a]) / 4 for b in k] for a in k]
    radius = [[np.ptp(ends[a][b], 0) / 4 + np.ptp(ends[b][a], 0) / 4 for b in k] for a in k]
    fine = np.logical_and.reduce([np.isfinite(r).all(axis=1) for row in radius for r in row])
    shape = len(fine), rows[0].shape[1], rows[0].shape[1]
    matrix, loose, size = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    for a in k:
        extra = np.where(fine[:, None], np.add.reduce(radius[a]), 0.0)
        # Roundings of the middles and of the sums over rows (any order; Higham 2002, 4.2).
        extra = extra * (1.0 + SLACK)
        for b in k:
            weights = np.where(fine[:, None], middle[a][b], 0.0)
            extra = extra + SLACK * np.abs(weights)
            matrix += _weighted(weights, rows[a], rows[b])
            size += np.abs(weights) @ rows[a] ** 2 + np.abs(weights) @ rows[b] ** 2
        more = _weighted(extra, rows[a], rows[a])
        matrix, loose = matrix + more, loose + np.abs(more)
        size += 2.0 * extra @ rows[a] ** 2
    d, m = shape[1], len(rows[0])
    matrix = (matrix + np.swapaxes(matrix, 1, 2)) / 2.0
    places = np.arange(d)
    matrix[:, places, places] += size * (d * (m + 8) * UNIT)
    return Above(matrix, loose, fine)


def _weighted(weights: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """sum_m weights_nm left_mi right_mj, shape (N, d, d)."""
    found = np.empty((len(weights), left.shape[1], right.shape[1]))
    for i in range(left.shape[1]):
        found[:, i] = (weights * left[:, i]) @ right
    return found


class ByPairs:
    """Of any graph, along pairs of directions: intervals of <u_i, H u_j>, u the columns of W^-1.

    H = W'(C + E)W with |E_ij| <= r_ij, and <s, E s> <= sum_i s_i^2 sum_j r_ij.
    """

    def __init__(self, graphs: Graphs, d: int) -> None:
        self.graphs, self.d = graphs, d
        self.graph = cast(Variable, graphs.curvature)
        self.pairs = np.triu_indices(d)
        self.count = len(self.pairs[0])

    def at(self, points: np.ndarray, numbers: Numbers) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        g, shape = self.graphs, (len(points), self.count)
        units = np.eye(self.d)
        left, right = (np.broadcast_to(units[k], (*shape, self.d)) for k in self.pairs)
        given = g.on(g.wide, points[:, None]) | g.on(g.left, left) | g.on(g.right, right)
        return symmetric(np.broadcast_to(numbers([self.graph], given)[0], shape), self.d)

    def above(
        self, lower: np.ndarray, upper: np.ndarray, turn: np.ndarray, back: np.ndarray, walk: Walk
    ) -> Above:
        """See `Above`."""
        g, shape, d = self.graphs, (len(lower), self.count), self.d
        directions = np.swapaxes(back, 1, 2)
        low, high = g.on(g.wide, lower[:, None]), g.on(g.wide, upper[:, None])
        given = {v: Bounds(low[v], high[v]) for v in low}
        for side, index in ((g.left, self.pairs[0]), (g.right, self.pairs[1])):
            given |= {v: Bounds.point(x) for v, x in g.on(side, directions[:, index]).items()}
        fact = walk([self.graph], given)[self.graph]
        least, most = (np.broadcast_to(end, shape) for end in (fact.lower, fact.upper))
        fine = np.isfinite(least).all(axis=1) & np.isfinite(most).all(axis=1)
        least, most = (np.where(fine[:, None], end, 0.0) for end in (least, most))
        middle, radius = symmetric(least / 2 + most / 2, d), symmetric(most / 2 - least / 2, d)
        radius = radius + SLACK * (np.abs(middle) + radius)
        places = np.arange(d)
        middle[:, places, places] += radius.sum(axis=2)
        matrix = np.swapaxes(turn, 1, 2) @ middle @ turn
        loose = np.swapaxes(np.abs(turn), 1, 2) @ radius @ np.abs(turn)
        return Above((matrix + np.swapaxes(matrix, 1, 2)) / 2.0, loose, fine)


def symmetric(entries: np.ndarray, d: int) -> np.ndarray:
    """Matrices from their upper triangles, row by row."""
    found = np.zeros((*entries.shape[:-1], d, d))
    rows, columns = np.triu_indices(d)
    found[..., rows, columns] = entries
    found[..., columns, rows] = entries
    return found
