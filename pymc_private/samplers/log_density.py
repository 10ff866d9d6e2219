"""Log posterior density of a private model with its data: interval bounds and point values.

This is the third use of the interval rules: data fixed, parameters in a box. The graphs
(`density_graphs`) carry a leading axis of boxes or points, so that one evaluation serves many of
them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot

from pymc_private.analysis import Bounds, Trail, propagate_bounds
from pymc_private.analysis.continuity import continuous_on_boxes, dependent_variables
from pymc_private.analysis.intervals.elementwise import DECREASING, INCREASING
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.analysis.traversal import evaluate_node, walk
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.rounding import float_down
from pymc_private.samplers.density_graphs import DensityGraphs
from pymc_private.samplers.hessian_bounds import HessianUpperBound, PairwiseHessian, TermwiseHessian

LowerUpper = tuple[np.ndarray, np.ndarray]
VariableValues = Mapping[Variable, np.ndarray]
NUMPY_FUNCTIONS: dict[type, Any] = {
    **{kind: f.numpy for kind, f in (INCREASING | DECREASING).items()},
    ps.Add: lambda *terms: reduce(np.add, terms),
    ps.Mul: lambda *factors: reduce(np.multiply, factors),
    ps.Neg: np.negative,
    ps.Second: lambda shape, value: np.broadcast_to(value, np.broadcast(shape, value).shape),
}
"""Vectorized functions of scalar Ops, which PyTensor evaluates one element at a time."""
WALK_SIZE = 2**17
"""Numbers in one array of an evaluation: boxes times records times directions."""
CHUNK_ROWS = 2**16
"""Records in one evaluation, where the likelihood may be split by records."""


class Target:
    """Log posterior density up to a constant, on the box of a trimmed model.

    Parameters
    ----------
    private : PrivateModel
        Every free variable in a finite box.

    Notes
    -----
    Reads the data: only a charged draw may build one. Memory does not grow with the number of
    boxes (they are evaluated in parts of `WALK_SIZE` numbers), nor with the records beyond
    `CHUNK_ROWS` of them, where all records have the same graph: then the likelihood is a sum over
    chunks of records, whose bounds are added outward.
    """

    def __init__(self, private: PrivateModel) -> None:
        graph = private.graph
        self.names = list(private.shapes)
        self.shapes = [private.shapes[name] for name in self.names]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.lower = np.concatenate([np.ravel(private.box[n].lower) for n in self.names])
        self.upper = np.concatenate([np.ravel(private.box[n].upper) for n in self.names])
        inputs = [graph.parameters[name] for name in self.names]
        likelihood = graph.record.sum() * float_down(private.power)
        parts = list(_record_chunks(private))
        values = [likelihood + graph.prior] if len(parts) == 1 else [likelihood, graph.prior]
        graphs = [DensityGraphs(value, inputs, self.shapes) for value in values]
        self.terms = [LogDensity(graphs[0], part) for part in parts]
        self.terms += [LogDensity(other, _public_values([other.source])) for other in graphs[1:]]

    @property
    def dimension(self) -> int:
        """Number of scalar coordinates."""
        return len(self.lower)

    @property
    def has_curvature(self) -> bool:
        """Whether the gradient and second derivatives have graphs."""
        return all(term.graphs.has_curvature for term in self.terms)

    def value_bounds(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Proved lower and upper bounds of the log density at points, shape (N,)."""
        return self.on_boxes(points, points).value

    def values(self, points: np.ndarray) -> np.ndarray:
        """Log density at points of shape (N, d), in floats; -inf where undefined."""
        if not len(points):
            return np.empty(0)
        with np.errstate(all="ignore"):
            found = self._sum(1, lambda term, part: term.at(points[part]), len(points))
        return np.where(np.isnan(found), -np.inf, found)

    def slopes_at(self, points: np.ndarray) -> np.ndarray:
        """Gradients at points, shape (N, d), in floats."""
        with np.errstate(all="ignore"):
            return self._sum(1, lambda term, part: term.slopes_at(points[part]), len(points))

    def hessians_at(self, points: np.ndarray) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        with np.errstate(all="ignore"):
            return self._sum(
                self._pairs, lambda term, part: term.hessians_at(points[part]), len(points)
            )

    def on_boxes(self, lower: np.ndarray, upper: np.ndarray) -> DensitySlopes:
        """Proved bounds of value and gradient on boxes with bounds of shape (N, d)."""
        parts = []
        for part in self._parts(len(lower), 1):
            found = [term.on_boxes(lower[part], upper[part]) for term in self.terms]
            total = found[0]
            for more in found[1:]:
                total = DensitySlopes(
                    _add_outward(total.value, more.value), _add_outward(total.slopes, more.slopes),
                    total.continuous & more.continuous, total.smooth & more.smooth,
                )  # fmt: skip
            parts.append(total)
        return concatenate_slopes(parts)

    def hessian_upper_bound(
        self, lower: np.ndarray, upper: np.ndarray, w: np.ndarray, w_inverse: np.ndarray
    ) -> HessianUpperBound:
        """Upper bounds of the Hessians on boxes, computed in the coordinates s = W t."""
        parts = []
        for k in self._parts(len(lower), self._pairs):
            box = lower[k], upper[k], w[k], w_inverse[k]
            found = [term.hessian_upper_bound(*box) for term in self.terms]
            parts.append(reduce(HessianUpperBound.__add__, found))
        matrix, looseness, finite = (
            np.concatenate([getattr(p, f) for p in parts])
            for f in ("matrix", "looseness", "finite")
        )
        return HessianUpperBound(matrix, looseness, finite)

    def unpack(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays by name from rows of coordinates, shape (draws, d) -> (draws, *shape)."""
        parts = np.split(points, np.cumsum(self.sizes)[:-1], axis=1)
        return {
            name: part.reshape(len(points), *shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    @property
    def _pairs(self) -> int:
        """Numbers per record in an evaluation of second derivatives."""
        by_pairs = any(term.graphs.terms is None for term in self.terms)
        return self.dimension * (self.dimension + 1) // 2 if by_pairs else 1

    def _parts(self, count: int, directions: int) -> Iterator[slice]:
        largest = max(term.count for term in self.terms)
        step = max(1, WALK_SIZE // (largest * directions))
        return (slice(k, k + step) for k in range(0, count, step))

    def _sum(self, directions: int, evaluate: Any, count: int) -> np.ndarray:
        parts = [
            sum((evaluate(term, part) for term in self.terms[1:]), evaluate(self.terms[0], part))
            for part in self._parts(count, directions)
        ]
        return np.concatenate(parts)


def _record_chunks(private: PrivateModel) -> Iterator[dict[Variable, np.ndarray]]:
    """Data of the likelihood, in chunks of records if all records have the same graph."""
    graph, n = private.graph, private.n
    public = _public_values([graph.record, graph.prior])
    values = {s.name: s.values() for s in private.sources}
    split = n > CHUNK_ROWS and not graph.rows_differ and not graph.windows
    for start in range(0, n if split else 1, CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS) if split else slice(None)
        rows = {
            graph.data[s.name]: values[s.name][(slice(None),) * s.axis + (part,)]
            for s in private.sources
        }
        yield public | rows


def _public_values(graphs: list[Variable]) -> dict[Variable, np.ndarray]:
    return {v: v.get_value() for v in public_data(graphs)}


def _add_outward(one: LowerUpper, two: LowerUpper) -> tuple[np.ndarray, np.ndarray]:
    """Sum of bounds, rounded outward; NaN becomes infinite."""
    with np.errstate(all="ignore"):
        low, high = np.nextafter(one[0] + two[0], -np.inf), np.nextafter(one[1] + two[1], np.inf)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


class LogDensity:
    """Graphs of a log density with their data: all they read besides the parameters."""

    def __init__(self, graphs: DensityGraphs, data: Mapping[Variable, np.ndarray]) -> None:
        self.graphs = graphs
        inputs = [*graphs.boxes.values(), *graphs.paired_boxes.values()]
        inputs += [*graphs.left.values(), *graphs.right.values()]
        dependent = dependent_variables(graphs.outputs, inputs)
        read = {v for m in dependent if m.owner is not None for v in m.owner.inputs}
        constants = [v for v in (read | set(graphs.outputs)) if v not in dependent]
        trail = propagate_bounds(constants, {v: Bounds.point(value) for v, value in data.items()})
        concrete = ConcreteValues(data)
        # What depends on no parameter is evaluated once: as intervals, and as numbers.
        self._constant_bounds = {v: trail[v] for v in constants}
        self._constant_values = {v: concrete(v) for v in constants}
        d = sum(graphs.sizes)
        self.hessian: TermwiseHessian | PairwiseHessian
        if graphs.terms is not None:
            self.hessian = TermwiseHessian(graphs, data, d)
        elif graphs.curvature is not None:
            self.hessian = PairwiseHessian(graphs, d)
        self.count = max((np.size(value) for value in self._constant_values.values()), default=1)

    # ---- intervals --------------------------------------------------------------------------
    def on_boxes(self, lower: np.ndarray, upper: np.ndarray) -> DensitySlopes:
        """Bounds of value and gradient on boxes with bounds of shape (N, d)."""
        g, count = self.graphs, len(lower)
        outputs = [g.value, *g.gradient]
        trail, padded = self._propagate_unambiguously(outputs, lower, upper)
        value = _bounds_without_nan(trail, g.value, (padded,))
        if not g.gradient:
            empty = np.zeros(count, bool)
            unknown = np.full(lower.shape, np.inf)
            return DensitySlopes(
                (value[0][:count], value[1][:count]), (-unknown, unknown), empty, empty
            )
        axes = int(_boxes_lead(trail, g.dependent, padded))
        if not axes and count > 1:
            # One answer about continuity for all boxes: where it is no, the halves may differ.
            if not np.all(continuous_on_boxes(g.value, g.dependent, trail, 0)):
                return self._in_halves(lower, upper)
            if not all(np.all(continuous_on_boxes(x, g.dependent, trail, 0)) for x in g.gradient):
                return self._in_halves(lower, upper)
        continuous = continuous_on_boxes(g.value, g.dependent, trail, axes)
        continuous = np.broadcast_to(continuous, (padded,))
        smooth = continuous.copy()
        for gradient in g.gradient:
            smooth &= continuous_on_boxes(gradient, g.dependent, trail, axes)
        low, high = (
            np.concatenate([np.reshape(part, (padded, -1)) for part in parts], axis=1)
            for parts in zip(*self._slopes(trail, padded), strict=True)
        )
        kept = slice(count)
        return DensitySlopes(
            (value[0][kept], value[1][kept]), (low[kept], high[kept]), continuous[kept],
            smooth[kept],
        )  # fmt: skip

    def _in_halves(self, lower: np.ndarray, upper: np.ndarray) -> DensitySlopes:
        middle = len(lower) // 2
        return concatenate_slopes(
            [
                self.on_boxes(lower[part], upper[part])
                for part in (slice(middle), slice(middle, None))
            ]
        )

    def _propagate_unambiguously(
        self, outputs: Sequence[Variable], lower: np.ndarray, upper: np.ndarray
    ) -> tuple[Trail, int]:
        """Propagate bounds, with boxes repeated until no other axis is as long as theirs.

        PyTensor may move the axis of the boxes (a product with a public matrix, transposed). Where
        an array that depends on parameters does not lead with it, all boxes share one answer about
        continuity.
        """
        g = self.graphs
        while True:
            low, high = g.assign(g.boxes, lower), g.assign(g.boxes, upper)
            trail = self._propagate(outputs, {v: Bounds(low[v], high[v]) for v in low})
            count = len(lower)
            if count == 1 or not _has_ambiguous_axis(trail, g.dependent, count):
                return trail, count
            lower, upper = (np.concatenate([side, side[-1:]]) for side in (lower, upper))

    def _slopes(self, trail: Trail, count: int) -> list[LowerUpper]:
        pairs = zip(self.graphs.gradient, self.graphs.shapes, strict=True)
        return [_bounds_without_nan(trail, gradient, (count, *shape)) for gradient, shape in pairs]

    def hessian_upper_bound(
        self, lower: np.ndarray, upper: np.ndarray, w: np.ndarray, w_inverse: np.ndarray
    ) -> HessianUpperBound:
        """Upper bounds of the Hessians on boxes, computed in the coordinates s = W t."""
        return self.hessian.upper_bound(lower, upper, w, w_inverse, self._propagate)

    def _propagate(self, outputs: Sequence[Variable], given: Mapping[Variable, Bounds]) -> Trail:
        return propagate_bounds(outputs, self._constant_bounds | dict(given))

    # ---- numbers ----------------------------------------------------------------------------
    def at(self, points: np.ndarray) -> np.ndarray:
        """Values at points of shape (N, d), in floats; NaN where undefined."""
        g = self.graphs
        return _broadcast(self._evaluate([g.value], g.assign(g.boxes, points))[0], (len(points),))

    def slopes_at(self, points: np.ndarray) -> np.ndarray:
        """Gradients at points, shape (N, d), in floats."""
        g, count = self.graphs, len(points)
        found = self._evaluate(g.gradient, g.assign(g.boxes, points))
        pairs = zip(found, g.shapes, strict=True)
        return np.concatenate([_broadcast(x, (count, *s)).reshape(count, -1) for x, s in pairs], 1)

    def hessians_at(self, points: np.ndarray) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        return self.hessian.at(points, self._evaluate)

    def _evaluate(self, outputs: Sequence[Variable], given: VariableValues) -> list[np.ndarray]:
        return evaluate_in_floats(outputs, self._constant_values | dict(given))


def evaluate_in_floats(outputs: Sequence[Variable], given: VariableValues) -> list[np.ndarray]:
    """Values of graphs in floats, by NumPy's vectorized functions where they exist."""
    with np.errstate(all="ignore"):
        trail = walk(outputs, given, _perform_vectorized, lambda constant: constant.data)
    return [np.asarray(trail[v], float) for v in outputs]


def _perform_vectorized(node: Apply, values: Sequence[Any]) -> Sequence[Any]:
    if isinstance(node.op, Elemwise):
        function = NUMPY_FUNCTIONS.get(type(node.op.scalar_op))
        if function is not None:
            return [np.asarray(function(*values)).astype(node.outputs[0].type.dtype, copy=False)]
    if isinstance(node.op, Blockwise) and isinstance(node.op.core_op, Dot):
        return [np.matmul(*values)]
    return evaluate_node(node, list(values))


def _has_ambiguous_axis(trail: Trail, dependent: set[Variable], count: int) -> bool:
    """Whether an axis other than that of the boxes has the same length."""
    for variable, fact in trail.facts.items():
        shape = np.shape(fact.lower)
        others = shape[1:] if variable in dependent and shape[:1] == (count,) else shape
        if count in others and (variable not in dependent or shape[:1] == (count,)):
            return True
    return False


def _boxes_lead(trail: Trail, dependent: set[Variable], count: int) -> bool:
    """Whether every array that depends on parameters has the boxes first, or no such axis."""
    shapes = (np.shape(trail[v].lower) for v in dependent if v in trail.facts)
    return all(shape[:1] in ((), (1,), (count,)) for shape in shapes)


def _bounds_without_nan(trail: Trail, variable: Variable, shape: tuple[int, ...]) -> LowerUpper:
    """Bounds of a variable on all boxes; NaN becomes infinite."""
    fact = trail[variable]
    lower = np.nan_to_num(np.asarray(fact.lower, float), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    upper = np.nan_to_num(np.asarray(fact.upper, float), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    return _broadcast(lower, shape), _broadcast(upper, shape)


def _broadcast(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Values with the axis of the boxes, which those that depend on no parameter lack."""
    return np.broadcast_to(values, shape)


@dataclass(frozen=True, eq=False)
class DensitySlopes:
    """Bounds of a log density and its gradient on each of N boxes.

    Parameters
    ----------
    value : pair of array, shape (N,)
    slopes : pair of array, shape (N, d)
        Bounds of the gradient; infinite where nothing is known.
    continuous, smooth : array of bool, shape (N,)
        Whether the function, and also its gradient, is proved continuous on the box.
    """

    value: LowerUpper
    slopes: LowerUpper
    continuous: np.ndarray
    smooth: np.ndarray


def concatenate_slopes(parts: Sequence[DensitySlopes]) -> DensitySlopes:
    """Bounds on several sets of boxes as those on one set."""
    value, slopes = (
        tuple(np.concatenate([getattr(p, name)[side] for p in parts]) for side in (0, 1))
        for name in ("value", "slopes")
    )
    continuous, smooth = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("continuous", "smooth")
    )
    return DensitySlopes((value[0], value[1]), (slopes[0], slopes[1]), continuous, smooth)
