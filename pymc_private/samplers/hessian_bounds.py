"""Upper bounds of the Hessian of a log density on many boxes.

Many log densities are sums over i of l_i(<a_i1, theta>, ..., <a_ik, theta>) with k = 1 or 2: a
generalized linear model has one linear predictor per record, a location-scale model two. Along
directions u and v their second derivative is sum_i sum_ab C_iab <a_ia, u> <a_ib, v>, and the
graph alone decides whether it has this form: whatever C is called, it is bilinear in the
predictors of u and v. Intervals of C then bound the Hessian term by term, exactly for one
predictor each. For any other graph, intervals are taken along pairs of directions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable, equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

from pymc_private.analysis import Bounds, Trail
from pymc_private.analysis.intervals.functions import UNIT
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.analysis.traversal import rebuild

if TYPE_CHECKING:
    from pymc_private.samplers.log_density import DensityGraphs

SLACK = 1e-12
IntervalEvaluation = Callable[[Sequence[Variable], Mapping[Variable, Bounds]], Trail]
FloatEvaluation = Callable[[Sequence[Variable], Mapping[Variable, np.ndarray]], list[np.ndarray]]


@dataclass(frozen=True, eq=False)
class HessianUpperBound:
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

    def __add__(self, other: HessianUpperBound) -> HessianUpperBound:
        return HessianUpperBound(
            self.matrix + other.matrix, self.loose + other.loose, self.fine & other.fine
        )


class TermwiseHessian:
    """Of sums of functions of few linear predictors (`separable`), exact for one predictor each.

    With intervals C +- r of the k x k matrix of a row, sum_ab C_ab s_a s_b is at most that of
    C + diag(sum_b r_ab); then rows add. No interval is taken of an entry of the Hessian.
    """

    def __init__(self, graphs: DensityGraphs, data: Mapping[Variable, np.ndarray], d: int) -> None:
        self.graphs, self.d = graphs, d
        self.terms = graphs.terms or []
        stand_ins = {v: np.ones(s) for v, s in zip(graphs.inputs, graphs.shapes, strict=True)}
        for side in graphs.along:
            stand_ins |= {v: np.ones(s) for v, s in zip(side, graphs.shapes, strict=True)}
        self.shapes = [
            np.shape(ConcreteValues({**data, **stand_ins})(t.element)) for t in self.terms
        ]
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
            value = ConcreteValues({**data, **given})(predictor)
            found[:, j] = np.broadcast_to(value, shape).reshape(-1)
        return found

    def at(self, points: np.ndarray, numbers: FloatEvaluation) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        g, count = self.graphs, len(points)
        total = np.zeros((count, self.d, self.d))
        for term, rows, shape in zip(self.terms, self.rows, self.shapes, strict=True):
            flat = [c for row in term.coefficients for c in row]
            found = numbers(flat, g.on(g.boxes, points))
            places = [(a, b) for a in range(len(rows)) for b in range(len(rows))]
            for (a, b), c in zip(places, found, strict=True):
                weights = np.broadcast_to(c, (count, *shape)).reshape(count, -1)
                total += _weighted_products(weights, rows[a], rows[b])
        return (total + np.swapaxes(total, 1, 2)) / 2.0

    def above(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        turn: np.ndarray,
        back: np.ndarray,
        walk: IntervalEvaluation,
    ) -> HessianUpperBound:
        """See `HessianUpperBound`; the coordinates are not needed."""
        g, (count, d) = self.graphs, lower.shape
        flat = [c for term in self.terms for row in term.coefficients for c in row]
        low, high = g.on(g.boxes, lower), g.on(g.boxes, upper)
        trail = walk(flat, {v: Bounds(low[v], high[v]) for v in low})
        total = HessianUpperBound(
            np.zeros((count, d, d)), np.zeros((count, d, d)), np.ones(count, bool)
        )
        for term, rows, shape in zip(self.terms, self.rows, self.shapes, strict=True):
            ends = [[self._ends(trail, c, count, shape) for c in row] for row in term.coefficients]
            total += _term_upper_bound(ends, rows)
        return total

    @staticmethod
    def _ends(
        trail: Trail, c: Variable, count: int, shape: tuple[int, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        fact = trail[c]
        ends = (np.asarray(end, float) for end in (fact.lower, fact.upper))
        low, high = (np.broadcast_to(end, (count, *shape)).reshape(count, -1) for end in ends)
        return low, high


def _term_upper_bound(
    ends: list[list[tuple[np.ndarray, np.ndarray]]], rows: list[np.ndarray]
) -> HessianUpperBound:
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
            matrix += _weighted_products(weights, rows[a], rows[b])
            size += np.abs(weights) @ rows[a] ** 2 + np.abs(weights) @ rows[b] ** 2
        more = _weighted_products(extra, rows[a], rows[a])
        matrix, loose = matrix + more, loose + np.abs(more)
        size += 2.0 * extra @ rows[a] ** 2
    d, m = shape[1], len(rows[0])
    matrix = (matrix + np.swapaxes(matrix, 1, 2)) / 2.0
    places = np.arange(d)
    matrix[:, places, places] += size * (d * (m + 8) * UNIT)
    return HessianUpperBound(matrix, loose, fine)


def _weighted_products(weights: np.ndarray, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """sum_m weights_nm left_mi right_mj, shape (N, d, d)."""
    found = np.empty((len(weights), left.shape[1], right.shape[1]))
    for i in range(left.shape[1]):
        found[:, i] = (weights * left[:, i]) @ right
    return found


class PairwiseHessian:
    """Of any graph, along pairs of directions: intervals of <u_i, H u_j>, u the columns of W^-1.

    H = W'(C + E)W with |E_ij| <= r_ij, and <s, E s> <= sum_i s_i^2 sum_j r_ij.
    """

    def __init__(self, graphs: DensityGraphs, d: int) -> None:
        self.graphs, self.d = graphs, d
        self.graph = cast(Variable, graphs.curvature)
        self.pairs = np.triu_indices(d)
        self.count = len(self.pairs[0])

    def at(self, points: np.ndarray, numbers: FloatEvaluation) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        g, shape = self.graphs, (len(points), self.count)
        units = np.eye(self.d)
        left, right = (np.broadcast_to(units[k], (*shape, self.d)) for k in self.pairs)
        given = g.on(g.wide, points[:, None]) | g.on(g.left, left) | g.on(g.right, right)
        return symmetric_from_triangle(
            np.broadcast_to(numbers([self.graph], given)[0], shape), self.d
        )

    def above(
        self,
        lower: np.ndarray,
        upper: np.ndarray,
        turn: np.ndarray,
        back: np.ndarray,
        walk: IntervalEvaluation,
    ) -> HessianUpperBound:
        """See `HessianUpperBound`."""
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
        middle, radius = (
            symmetric_from_triangle(least / 2 + most / 2, d),
            symmetric_from_triangle(most / 2 - least / 2, d),
        )
        radius = radius + SLACK * (np.abs(middle) + radius)
        places = np.arange(d)
        middle[:, places, places] += radius.sum(axis=2)
        matrix = np.swapaxes(turn, 1, 2) @ middle @ turn
        loose = np.swapaxes(np.abs(turn), 1, 2) @ radius @ np.abs(turn)
        return HessianUpperBound((matrix + np.swapaxes(matrix, 1, 2)) / 2.0, loose, fine)


def symmetric_from_triangle(entries: np.ndarray, d: int) -> np.ndarray:
    """Matrices from their upper triangles, row by row."""
    found = np.zeros((*entries.shape[:-1], d, d))
    rows, columns = np.triu_indices(d)
    found[..., rows, columns] = entries
    found[..., columns, rows] = entries
    return found


MOST_PREDICTORS = 3
LINEAR_OPS = (ps.Neg, ps.Identity, ps.Cast)


@dataclass(frozen=True, eq=False)
class SeparableTerm:
    """One sum.

    Parameters
    ----------
    element : Variable
        What is summed, of any shape.
    predictors : list of Variable
        k linear maps of u.
    coefficients : list of list of Variable
        C_ab, graphs of the parameters and the data that broadcast to the shape of `element`.
    """

    element: Variable
    predictors: list[Variable]
    coefficients: list[list[Variable]]


def separate_terms(
    twice: Variable,
    parameters: Sequence[Variable],
    u: Sequence[Variable],
    v: Sequence[Variable],
) -> list[SeparableTerm] | None:
    """Write a second derivative along u and v as such sums, or None where its graph is another.

    Parameters
    ----------
    twice : Variable, scalar
    parameters, u, v : sequence of Variable
        Inputs of the same shapes.
    """
    reading = _BilinearReader(parameters, u, v)
    try:
        return [reading.term(element, factor) for element, factor in reading.sums(twice)]
    except _NotSeparable:
        return None


class _NotSeparable(Exception):
    """The graph has another form."""


class _BilinearReader:
    """What nodes depend on, and the forms they have."""

    def __init__(
        self, parameters: Sequence[Variable], u: Sequence[Variable], v: Sequence[Variable]
    ) -> None:
        self.kinds = [set(parameters), set(u), set(v)]
        self.swap = dict(zip(v, u, strict=True))
        self._known: dict[Variable, tuple[bool, ...]] = {}

    def reads(self, variable: Variable) -> tuple[bool, ...]:
        """Whether a variable depends on parameters, u, v."""
        if variable not in self._known:
            found = tuple(variable in kind for kind in self.kinds)
            if variable.owner is not None:
                for parent in variable.owner.inputs:
                    found = tuple(a or b for a, b in zip(found, self.reads(parent), strict=True))
            self._known[variable] = found
        return self._known[variable]

    def sums(self, variable: Variable) -> list[tuple[Variable, list[Variable]]]:
        """Elements and factors of the sums a scalar is made of."""
        if not any(self.reads(variable)[1:]):
            if isinstance(variable, Constant) and np.all(variable.data == 0):
                return []
            raise _NotSeparable
        node = variable.owner
        if node is not None and isinstance(node.op, Sum) and node.op.axis in (
            None, tuple(range(node.inputs[0].ndim))
        ):  # fmt: skip
            return [(node.inputs[0], [])]
        if node is not None and isinstance(node.op, Elemwise):
            scalar = node.op.scalar_op
            if isinstance(scalar, ps.Add):
                return [pair for part in node.inputs for pair in self.sums(part)]
            moving = [x for x in node.inputs if any(self.reads(x)[1:])]
            if isinstance(scalar, ps.Mul) and len(moving) == 1:
                rest = [x for x in node.inputs if x is not moving[0]]
                return [(element, factor + rest) for element, factor in self.sums(moving[0])]
            if isinstance(scalar, ps.Neg):
                minus = pt.constant(-1.0)
                return [(element, [*f, minus]) for element, f in self.sums(moving[0])]
        return [(variable, [])]

    def term(self, element: Variable, factor: list[Variable]) -> SeparableTerm:
        """Predictors and coefficients of one sum."""
        sides: list[list[Variable]] = [[], []]
        if self._degree(element, sides) != (1, 1):
            raise _NotSeparable
        maps: list[Variable] = []
        for side in sides:
            for found in side:
                if not any(self._same(found, known) for known in maps):
                    maps.append(self._of_u(found))
        if len(maps) > MOST_PREDICTORS:
            raise _NotSeparable
        table = [
            [self._coefficient(element, factor, sides, one, two) for two in maps] for one in maps
        ]
        return SeparableTerm(element, maps, table)

    def _of_u(self, variable: Variable) -> Variable:
        """The same linear map, of u."""
        swaps = {leaf: leaf for leaf in ancestors([variable]) if leaf.owner is None} | self.swap
        return rebuild([variable], swaps)[0]

    def _same(self, variable: Variable, of_u: Variable) -> bool:
        return bool(equal_computations([self._of_u(variable)], [of_u]))

    def _coefficient(
        self,
        element: Variable,
        factor: list[Variable],
        sides: list[list[Variable]],
        one: Variable,
        two: Variable,
    ) -> Variable:
        """The element where one predictor of u and one of v are 1, the others 0."""
        swaps = {leaf: leaf for leaf in ancestors([element]) if leaf.owner is None}
        for side, chosen in zip(sides, (one, two), strict=True):
            for found in side:
                value = float(self._same(found, chosen))
                swaps[found] = pt.constant(np.full((1,) * found.ndim, value))
        result = rebuild([element], swaps, _fold_zeros_and_ones)[0]
        for number in factor:
            result = result * number
        return result

    def _degree(self, variable: Variable, sides: list[list[Variable]]) -> tuple[int, int]:
        """Degrees in the predictors of u and of v, which are collected in `sides`."""
        theta, in_u, in_v = self.reads(variable)
        if not (in_u or in_v):
            return 0, 0
        if not theta and in_u != in_v and not self._is_multiple(variable):
            side = sides[0] if in_u else sides[1]
            if not any(variable is found for found in side):
                side.append(variable)
            return int(in_u), int(in_v)
        node = variable.owner
        if node is None or not isinstance(node.op, Elemwise):
            raise _NotSeparable
        op = node.op.scalar_op
        if isinstance(op, ps.Switch):
            if self._degree(node.inputs[0], sides) != (0, 0):
                raise _NotSeparable
            return self._alike(node.inputs[1:], sides)
        if isinstance(op, ps.Add | ps.Sub):
            return self._alike(node.inputs, sides)
        degrees = [self._degree(x, sides) for x in node.inputs]
        if isinstance(op, ps.Mul):
            return sum(d[0] for d in degrees), sum(d[1] for d in degrees)
        if isinstance(op, ps.TrueDiv) and degrees[1] == (0, 0):
            return degrees[0]
        if isinstance(op, LINEAR_OPS):
            return degrees[0]
        raise _NotSeparable

    def _is_multiple(self, variable: Variable) -> bool:
        """Whether a map is a number times another, which then is the one to name."""
        node = variable.owner
        if node is None or not isinstance(node.op, Elemwise):
            return False
        if not isinstance(node.op.scalar_op, (ps.Mul, *LINEAR_OPS)):
            return False
        moving = [x for x in node.inputs if any(self.reads(x)[1:])]
        return len(moving) == 1

    def _alike(self, terms: Sequence[Variable], sides: list[list[Variable]]) -> tuple[int, int]:
        """One degree for all that are not zero."""
        found = {self._degree(x, sides) for x in terms if not _is_zero(x)}
        if len(found) != 1:
            raise _NotSeparable
        return found.pop()


def _fold_zeros_and_ones(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Zeros and ones taken out of sums and products: what is left broadcasts to the same shape."""
    if not isinstance(node.op, Elemwise):
        return None
    op, zero = node.op.scalar_op, pt.constant(np.zeros((1,) * node.outputs[0].ndim))
    if isinstance(op, ps.Mul):
        kept = [x for x in inputs if not _is_number(x, 1.0)] or inputs[:1]
        empty, whole = any(_is_number(x, 0.0) for x in kept), len(kept) == len(inputs)
    elif isinstance(op, ps.Add):
        kept = [x for x in inputs if not _is_number(x, 0.0)]
        empty, whole = not kept, len(kept) == len(inputs)
    elif isinstance(op, (ps.TrueDiv, *LINEAR_OPS)):
        kept, empty, whole = inputs, _is_number(inputs[0], 0.0), True
    else:
        return None
    if empty:
        return zero
    if whole or any(x.type.dtype != node.outputs[0].type.dtype for x in kept):
        return None
    return kept[0] if len(kept) == 1 else node.op(*kept)


def _is_number(variable: Variable, number: float) -> bool:
    return isinstance(variable, Constant) and bool(np.all(variable.data == number))


def _is_zero(variable: Variable) -> bool:
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    return isinstance(variable, Constant) and bool(np.all(variable.data == 0))
