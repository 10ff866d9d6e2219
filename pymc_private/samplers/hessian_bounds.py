"""Upper bounds of the Hessian of a log density on many boxes.

Where the second derivative is a sum of bilinear forms in few linear predictors
(`density_graphs.separate_terms`), intervals of the coefficients C bound the Hessian term by term,
exactly for one predictor each. For any other graph, intervals are taken along pairs of
directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds, Trail
from pymc_private.analysis.intervals.functions import UNIT
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.samplers.density_graphs import DensityGraphs

SLACK = 1e-12
"""Relative widening for the rounding of midpoints and sums."""
IntervalEvaluation = Callable[[Sequence[Variable], Mapping[Variable, Bounds]], Trail]
FloatEvaluation = Callable[[Sequence[Variable], Mapping[Variable, np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class HessianUpperBound:
    """Matrices M with <s, H s> <= <s, M s> for every s and every Hessian H on a box.

    Parameters
    ----------
    matrix : array, shape (N, d, d)
        Symmetric.
    looseness : array, shape (N, d, d)
        How much larger M is than the Hessian, entry by entry, roughly.
    finite : array of bool, shape (N,)
    """

    matrix: np.ndarray
    looseness: np.ndarray
    finite: np.ndarray

    def __add__(self, other: HessianUpperBound) -> HessianUpperBound:
        return HessianUpperBound(
            self.matrix + other.matrix, self.looseness + other.looseness, self.finite & other.finite
        )


class TermwiseHessian:
    """Bounds for sums of functions of few linear predictors, exact for one predictor each.

    With intervals C +- r of the k x k matrix of a row, sum_ab C_ab s_a s_b is at most that of
    C + diag(sum_b r_ab); then rows are added. No interval is taken of an entry of the Hessian.
    """

    def __init__(self, graphs: DensityGraphs, data: Mapping[Variable, np.ndarray], d: int) -> None:
        self.graphs, self.d = graphs, d
        self.terms = graphs.terms or []
        placeholders = {v: np.ones(s) for v, s in zip(graphs.inputs, graphs.shapes, strict=True)}
        for side in graphs.directions:
            placeholders |= {v: np.ones(s) for v, s in zip(side, graphs.shapes, strict=True)}
        self.shapes = [
            np.shape(ConcreteValues({**data, **placeholders})(t.element)) for t in self.terms
        ]
        self.rows = [
            [self._rows(p, shape, data) for p in term.predictors]
            for term, shape in zip(self.terms, self.shapes, strict=True)
        ]
        self.count = max((int(np.prod(shape)) for shape in self.shapes), default=1)

    def _rows(
        self, predictor: Variable, shape: tuple[int, ...], data: Mapping[Variable, np.ndarray]
    ) -> np.ndarray:
        """Coefficients of a linear map, shape (m, d), from its values on unit vectors."""
        found = np.empty((int(np.prod(shape)), self.d))
        for j, unit in enumerate(np.eye(self.d)):
            given = dict(zip(self.graphs.directions[0], self.graphs.split(unit), strict=True))
            value = ConcreteValues({**data, **given})(predictor)
            found[:, j] = np.broadcast_to(value, shape).reshape(-1)
        return found

    def at(self, points: np.ndarray, evaluate: FloatEvaluation) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        g, count = self.graphs, len(points)
        total = np.zeros((count, self.d, self.d))
        for term, rows, shape in zip(self.terms, self.rows, self.shapes, strict=True):
            flat = [c for row in term.coefficients for c in row]
            found = evaluate(flat, g.assign(g.boxes, points))
            pairs = [(a, b) for a in range(len(rows)) for b in range(len(rows))]
            for (a, b), c in zip(pairs, found, strict=True):
                weights = np.broadcast_to(c, (count, *shape)).reshape(count, -1)
                total += _weighted_products(weights, rows[a], rows[b])
        return (total + np.swapaxes(total, 1, 2)) / 2.0

    def upper_bound(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        w: np.ndarray,
        w_inverse: np.ndarray,
        evaluate: IntervalEvaluation,
    ) -> HessianUpperBound:
        """Upper bounds on boxes; the coordinates W and W^-1 are not needed."""
        g, (count, d) = self.graphs, lower.shape
        flat = [c for term in self.terms for row in term.coefficients for c in row]
        low, high = g.assign(g.boxes, lower), g.assign(g.boxes, upper)
        trail = evaluate(flat, {v: Bounds(low[v], high[v]) for v in low})
        total = HessianUpperBound(
            np.zeros((count, d, d)), np.zeros((count, d, d)), np.ones(count, bool)
        )
        for term, rows, shape in zip(self.terms, self.rows, self.shapes, strict=True):
            bounds = [
                [self._bounds(trail, c, count, shape) for c in row] for row in term.coefficients
            ]
            total += _term_upper_bound(bounds, rows)
        return total

    @staticmethod
    def _bounds(
        trail: Trail, c: Variable, count: int, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        fact = trail[c]
        low, high = (
            np.broadcast_to(np.asarray(side, float), (count, *shape)).reshape(count, -1)
            for side in (fact.lower, fact.upper)
        )
        return low, high


def _term_upper_bound(
    bounds: list[list[tuple[np.ndarray, np.ndarray]]], rows: list[np.ndarray]
) -> HessianUpperBound:
    """Upper bound of one sum from bounds of C_ab, each of shape (N, m), and rows a_ia, (m, d)."""
    k = range(len(rows))
    midpoint = [[sum(bounds[a][b]) / 4 + sum(bounds[b][a]) / 4 for b in k] for a in k]
    radius = [[np.ptp(bounds[a][b], 0) / 4 + np.ptp(bounds[b][a], 0) / 4 for b in k] for a in k]
    finite = np.logical_and.reduce([np.isfinite(r).all(axis=1) for row in radius for r in row])
    shape = len(finite), rows[0].shape[1], rows[0].shape[1]
    matrix, looseness, size = np.zeros(shape), np.zeros(shape), np.zeros(shape[:2])
    for a in k:
        extra = np.where(finite[:, None], np.add.reduce(radius[a]), 0.0)
        # Rounding of midpoints and of sums over rows (any order; Higham 2002, 4.2).
        extra = extra * (1.0 + SLACK)
        for b in k:
            weights = np.where(finite[:, None], midpoint[a][b], 0.0)
            extra = extra + SLACK * np.abs(weights)
            matrix += _weighted_products(weights, rows[a], rows[b])
            size += np.abs(weights) @ rows[a] ** 2 + np.abs(weights) @ rows[b] ** 2
        more = _weighted_products(extra, rows[a], rows[a])
        matrix, looseness = matrix + more, looseness + np.abs(more)
        size += 2.0 * extra @ rows[a] ** 2
    d, m = shape[1], len(rows[0])
    matrix = (matrix + np.swapaxes(matrix, 1, 2)) / 2.0
    diagonal = np.arange(d)
    matrix[:, diagonal, diagonal] += size * (d * (m + 8) * UNIT)
    return HessianUpperBound(matrix, looseness, finite)


def _weighted_products(weights: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """sum_m weights_nm left_mi right_mj, shape (N, d, d)."""
    found = np.empty((len(weights), left.shape[1], right.shape[1]))
    for i in range(left.shape[1]):
        found[:, i] = (weights * left[:, i]) @ right
    return found


class PairwiseHessian:
    """Bounds for any graph, from intervals of <u_i, H u_j>, u the columns of W^-1.

    H = W'(C + E)W with |E_ij| <= r_ij, and <s, E s> <= sum_i s_i^2 sum_j r_ij.
    """

    def __init__(self, graphs: DensityGraphs, d: int) -> None:
        self.graphs, self.d = graphs, d
        self.graph = cast(Variable, graphs.curvature)
        self.pairs = np.triu_indices(d)
        self.count = len(self.pairs[0])

    def at(self, points: np.ndarray, evaluate: FloatEvaluation) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        g, shape = self.graphs, (len(points), self.count)
        units = np.eye(self.d)
        left, right = (np.broadcast_to(units[k], (*shape, self.d)) for k in self.pairs)
        given = g.assign(g.paired_boxes, points[:, None])
        given |= g.assign(g.left, left) | g.assign(g.right, right)
        return symmetric_from_triangle(
            np.broadcast_to(evaluate([self.graph], given)[0], shape), self.d
        )

    def upper_bound(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        w: np.ndarray,
        w_inverse: np.ndarray,
        evaluate: IntervalEvaluation,
    ) -> HessianUpperBound:
        """Upper bounds on boxes, in the coordinates s = W t."""
        g, shape, d = self.graphs, (len(lower), self.count), self.d
        directions = np.swapaxes(w_inverse, 1, 2)
        low = g.assign(g.paired_boxes, lower[:, None])
        high = g.assign(g.paired_boxes, upper[:, None])
        given = {v: Bounds(low[v], high[v]) for v in low}
        for side, index in ((g.left, self.pairs[0]), (g.right, self.pairs[1])):
            given |= {v: Bounds.point(x) for v, x in g.assign(side, directions[:, index]).items()}
        fact = evaluate([self.graph], given)[self.graph]
        least, most = (np.broadcast_to(side, shape) for side in (fact.lower, fact.upper))
        finite = np.isfinite(least).all(axis=1) & np.isfinite(most).all(axis=1)
        least, most = (np.where(finite[:, None], side, 0.0) for side in (least, most))
        midpoint = symmetric_from_triangle(least / 2 + most / 2, d)
        radius = symmetric_from_triangle(most / 2 - least / 2, d)
        radius = radius + SLACK * (np.abs(midpoint) + radius)
        diagonal = np.arange(d)
        midpoint[:, diagonal, diagonal] += radius.sum(axis=2)
        matrix = np.swapaxes(w, 1, 2) @ midpoint @ w
        looseness = np.swapaxes(np.abs(w), 1, 2) @ radius @ np.abs(w)
        return HessianUpperBound((matrix + np.swapaxes(matrix, 1, 2)) / 2.0, looseness, finite)


def symmetric_from_triangle(entries: np.ndarray, d: int) -> np.ndarray:
    """Symmetric matrices from their upper triangles, row by row."""
    found = np.zeros((*entries.shape[:-1], d, d))
    rows, columns = np.triu_indices(d)
    found[..., rows, columns] = entries
    found[..., columns, rows] = entries
    return found
