"""Log posterior density of a private model with its data: interval bounds and point values.

This is the third use of the interval rules: data fixed, parameters in a box. Graphs of the log
density, its gradient and its second derivatives carry a leading axis of boxes or points, so
that one evaluation serves many of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import pytensor
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot

from pymc_private.analysis import Bounds, Trail, propagate_bounds, simplify
from pymc_private.analysis.continuity import continuous_on_boxes, dependent_variables
from pymc_private.analysis.intervals.elementwise import DECREASING, INCREASING
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.analysis.traversal import evaluate_node, rebuild, walk
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.rounding import float_down
from pymc_private.samplers.hessian_bounds import (
    HessianUpperBound,
    PairwiseHessian,
    SeparableTerm,
    TermwiseHessian,
    separate_terms,
)

# PyTensor 3 renamed it.
_pushforward = getattr(pytensor.gradient, "pushforward", None) or pytensor.gradient.Rop


class DensityGraphs:
    """The graphs of a log density of parameters, along a leading axis of boxes or points.

    Parameters
    ----------
    value : Variable, scalar
    inputs : sequence of Variable
        The parameters.
    shapes : sequence of tuple of int
        Theirs.

    Notes
    -----
    Second derivatives are taken forward, along pairs of directions: of a sum over records the
    graph is one of sum_i h''(eta_i) <a_i, u> <a_i, v>, in which each record stands once. A
    gradient of the gradient would bound each entry of the Hessian apart.
    """

    def __init__(
        self, value: Variable, inputs: Sequence[Variable], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.source, self.inputs, self.shapes = value, list(inputs), list(shapes)
        self.sizes = [int(np.prod(shape)) for shape in shapes]
        value = simplify([value])[0]
        self.boxes = self._stand_ins((None,))
        first = [value, *_gradient_graphs(value, self.inputs)]
        graphs = vectorize_graph(_checks_as_switches(first), replace=self.boxes)
        self.value, *self.gradient = simplify(graphs)
        self.moving = dependent_variables([self.value, *self.gradient], list(self.boxes.values()))
        self.wide, self.left, self.right = (
            self._stand_ins((None, 1)), self._stand_ins((None, None)), self._stand_ins((None, None))
        )  # fmt: skip
        self.along = tuple([x.type() for x in self.inputs] for _ in range(2))
        self.terms: list[SeparableTerm] | None = None
        self.curvature: Variable | None = None
        if self.gradient:
            self._differentiate(value)

    def _stand_ins(self, axes: tuple[int | None, ...]) -> dict[Variable, Variable]:
        return {
            v: pt.TensorType(v.type.dtype, shape=(*axes, *shape))(name=v.name)
            for v, shape in zip(self.inputs, self.shapes, strict=True)
        }

    def _differentiate(self, value: Variable) -> None:
        """Second derivatives: by terms, else by pairs of directions, else none."""
        u, v = self.along
        try:
            twice = simplify([_pushforward(_pushforward(value, self.inputs, u), self.inputs, v)])[0]
            terms = separate_terms(twice, self.inputs, u, v)
            if terms is not None:
                self.terms = [self._along_boxes(term) for term in terms]
                return
            swaps = {
                **self.wide,
                **dict(zip(u, self.left.values(), strict=True)),
                **dict(zip(v, self.right.values(), strict=True)),
            }
            self.curvature = simplify(vectorize_graph(_checks_as_switches([twice]), replace=swaps))[
                0
            ]
        except Exception:  # of an Op that is not ours; bounds need no second derivative
            self.terms = self.curvature = None

    def _along_boxes(self, term: SeparableTerm) -> SeparableTerm:
        flat = [c for row in term.coefficients for c in row]
        # A coefficient keeps all axes of what is summed, so that the first counts boxes.
        flat = [c if c.ndim == term.element.ndim else pt.shape_padleft(
            c, term.element.ndim - c.ndim) for c in flat]  # fmt: skip
        # Already simple: the second derivative was, and zeros and ones are folded.
        found = vectorize_graph(_checks_as_switches(flat), replace=self.boxes)
        k = len(term.predictors)
        return SeparableTerm(
            term.element, term.predictors, [found[i : i + k] for i in range(0, k * k, k)]
        )

    @property
    def has_curvature(self) -> bool:
        """Whether there are second derivatives."""
        return self.terms is not None or self.curvature is not None

    @property
    def outputs(self) -> list[Variable]:
        """All of them."""
        more = [] if self.curvature is None else [self.curvature]
        for term in self.terms or []:
            more += [c for row in term.coefficients for c in row]
        return [self.value, *self.gradient, *more]

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Rows of coordinates as arrays of the parameters' shapes."""
        parts = np.split(flat, np.cumsum(self.sizes)[:-1], axis=-1)
        return [
            part.reshape((*flat.shape[:-1], *shape))
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def on(self, stand_ins: Mapping[Variable, Variable], flat: np.ndarray) -> dict:
        """The same as inputs of a graph."""
        return dict(zip(stand_ins.values(), self.split(flat), strict=True))


def _gradient_graphs(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Gradient graphs, or none where an Op has no gradient."""
    try:
        gradient = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # of an Op that is not ours; a bound needs no gradient
        return []
    return simplify(gradient)


def _checks_as_switches(outputs: Sequence[Variable]) -> list[Variable]:
    """Conditions become choices, so that one of many boxes can fail them by itself."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, CheckAndRaise):
            return pt.switch(reduce(pt.and_, inputs[1:]), inputs[0], np.nan)
        return None

    leaves = {v: v for v in ancestors(list(outputs)) if v.owner is None}
    return rebuild(list(outputs), leaves, rule)


LowerUpper = tuple[np.ndarray, np.ndarray]
VariableValues = Mapping[Variable, np.ndarray]
NUMPY_FUNCTIONS: dict[type, Any] = {
    **{kind: f.numpy for kind, f in (INCREASING | DECREASING).items()},
    ps.Add: lambda *terms: reduce(np.add, terms),
    ps.Mul: lambda *factors: reduce(np.multiply, factors),
    ps.Neg: np.negative,
    ps.Second: lambda shape, value: np.broadcast_to(value, np.broadcast(shape, value).shape),
}
"""Vectorized functions of Ops that PyTensor would compute one element at a time."""


@dataclass(frozen=True, eq=False)
class DensitySlopes:
    """What is proved on each of N boxes.

    Parameters
    ----------
    value : pair of array, shape (N,)
    slopes : pair of array, shape (N, d)
        Ends of the gradient; infinite where nothing is known.
    continuous, smooth : array of bool, shape (N,)
        Whether the function, and also its gradient, is proved to be continuous.
    """

    value: LowerUpper
    slopes: LowerUpper
    continuous: np.ndarray
    smooth: np.ndarray


def concatenate_slopes(parts: Sequence[DensitySlopes]) -> DensitySlopes:
    """What is proved of some boxes, then of others."""
    value, slopes = (
        tuple(np.concatenate([getattr(p, name)[side] for p in parts]) for side in (0, 1))
        for name in ("value", "slopes")
    )
    continuous, smooth = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("continuous", "smooth")
    )
    return DensitySlopes((value[0], value[1]), (slopes[0], slopes[1]), continuous, smooth)


class LogDensity:
    """Graphs with their data.

    Parameters
    ----------
    graphs : Graphs
    data : mapping of Variable to array
        Everything the graphs read besides the parameters.
    """

    def __init__(self, graphs: DensityGraphs, data: Mapping[Variable, np.ndarray]) -> None:
        self.graphs = graphs
        inputs = [*graphs.boxes.values(), *graphs.wide.values()]
        inputs += [*graphs.left.values(), *graphs.right.values()]
        moving = dependent_variables(graphs.outputs, inputs)
        read = {v for m in moving if m.owner is not None for v in m.owner.inputs}
        edge = [v for v in (read | set(graphs.outputs)) if v not in moving]
        trail = propagate_bounds(edge, {v: Bounds.point(value) for v, value in data.items()})
        concrete = ConcreteValues(data)
        # What no parameter moves is found once: as intervals, and as numbers.
        self._facts = {v: trail[v] for v in edge}
        self._numbers = {v: concrete(v) for v in edge}
        d = sum(graphs.sizes)
        self.bend: TermwiseHessian | PairwiseHessian
        if graphs.terms is not None:
            self.bend = TermwiseHessian(graphs, data, d)
        elif graphs.curvature is not None:
            self.bend = PairwiseHessian(graphs, d)
        self.count = max((np.size(value) for value in self._numbers.values()), default=1)

    # ---- intervals --------------------------------------------------------------------------
    def on_boxes(self, lower: np.ndarray, upper: np.ndarray) -> DensitySlopes:
        """Value and slopes on boxes, ends of shape (N, d)."""
        g, count = self.graphs, len(lower)
        outputs = [g.value, *g.gradient]
        trail, padded = self._told_apart(outputs, lower, upper)
        value = _finite_bounds(trail, g.value, (padded,))
        if not g.gradient:
            empty = np.zeros(count, bool)
            unknown = np.full(lower.shape, np.inf)
            return DensitySlopes(
                (value[0][:count], value[1][:count]), (-unknown, unknown), empty, empty
            )
        axes = int(_boxes_lead(trail, g.moving, padded))
        if not axes and count > 1:
            # One answer for all: where it is no, each half may have another.
            if not np.all(continuous_on_boxes(g.value, g.moving, trail, 0)):
                return self._in_halves(lower, upper)
            if not all(np.all(continuous_on_boxes(x, g.moving, trail, 0)) for x in g.gradient):
                return self._in_halves(lower, upper)
        continuous = np.broadcast_to(continuous_on_boxes(g.value, g.moving, trail, axes), (padded,))
        smooth = continuous.copy()
        for gradient in g.gradient:
            smooth &= continuous_on_boxes(gradient, g.moving, trail, axes)
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

    def _told_apart(
        self, outputs: Sequence[Variable], lower: np.ndarray, upper: np.ndarray
    ) -> tuple[Trail, int]:
        """A walk of so many boxes that no other axis is as long: boxes cannot be mistaken.

        PyTensor may move the axis of the boxes (a product with a public matrix, transposed). Where
        an array that moves does not lead with it, all boxes share one answer about continuity.
        """
        g = self.graphs
        while True:
            trail = self._walk(outputs, _box_intervals(g.on(g.boxes, lower), g.on(g.boxes, upper)))
            count = len(lower)
            if count == 1 or not _has_ambiguous_axis(trail, g.moving, count):
                return trail, count
            lower, upper = (np.concatenate([end, end[-1:]]) for end in (lower, upper))

    def _slopes(self, trail: Trail, count: int) -> list[LowerUpper]:
        pairs = zip(self.graphs.gradient, self.graphs.shapes, strict=True)
        return [_finite_bounds(trail, gradient, (count, *shape)) for gradient, shape in pairs]

    def above(
        self, lower: np.ndarray, upper: np.ndarray, turn: np.ndarray, back: np.ndarray
    ) -> HessianUpperBound:
        """Matrices above all Hessians on boxes; W and W^-1 are coordinates that suit them."""
        return self.bend.above(lower, upper, turn, back, self._walk)

    def _walk(self, outputs: Sequence[Variable], given: Mapping[Variable, Bounds]) -> Trail:
        return propagate_bounds(outputs, self._facts | dict(given))

    # ---- numbers ----------------------------------------------------------------------------
    def at(self, points: np.ndarray) -> np.ndarray:
        """Values at points of shape (N, d), in floats; NaN where there is no number."""
        g = self.graphs
        return _broadcast(self._numbers_of([g.value], g.on(g.boxes, points))[0], (len(points),))

    def slopes_at(self, points: np.ndarray) -> np.ndarray:
        """Gradients at points, shape (N, d), in floats."""
        g, count = self.graphs, len(points)
        found = self._numbers_of(g.gradient, g.on(g.boxes, points))
        pairs = zip(found, g.shapes, strict=True)
        return np.concatenate([_broadcast(x, (count, *s)).reshape(count, -1) for x, s in pairs], 1)

    def hessians_at(self, points: np.ndarray) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        return self.bend.at(points, self._numbers_of)

    def _numbers_of(self, outputs: Sequence[Variable], given: VariableValues) -> list[np.ndarray]:
        return evaluate_in_floats(outputs, self._numbers | dict(given))


def evaluate_in_floats(outputs: Sequence[Variable], given: VariableValues) -> list[np.ndarray]:
    """Values of graphs in floats, by NumPy's own vectorized functions wherever there are any."""
    with np.errstate(all="ignore"):
        trail = walk(outputs, given, _perform_vectorized, lambda constant: constant.data)
    return [np.asarray(trail[v], float) for v in outputs]


def _has_ambiguous_axis(trail: Trail, moving: set[Variable], count: int) -> bool:
    """Whether another axis is as long as that of the boxes."""
    for variable, fact in trail.facts.items():
        shape = np.shape(fact.lower)
        others = shape[1:] if variable in moving and shape[:1] == (count,) else shape
        if count in others and (variable not in moving or shape[:1] == (count,)):
            return True
    return False


def _boxes_lead(trail: Trail, moving: set[Variable], count: int) -> bool:
    """Whether every array that moves has the boxes along its first axis, or is alike for all."""
    shapes = (np.shape(trail[v].lower) for v in moving if v in trail.facts)
    return all(shape[:1] in ((), (1,), (count,)) for shape in shapes)


def _box_intervals(lower: VariableValues, upper: VariableValues) -> dict[Variable, Bounds]:
    return {v: Bounds(lower[v], upper[v]) for v in lower}


def _finite_bounds(trail: Trail, variable: Variable, shape: tuple[int, ...]) -> LowerUpper:
    fact = trail[variable]
    lower = np.nan_to_num(np.asarray(fact.lower, float), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    upper = np.nan_to_num(np.asarray(fact.upper, float), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    return _broadcast(lower, shape), _broadcast(upper, shape)


def _broadcast(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What no box moves has no leading axis; what has lost its shape is NaN."""
    return np.broadcast_to(values, shape)


def _perform_vectorized(node: Apply, values: Sequence[Any]) -> Sequence[Any]:
    if isinstance(node.op, Elemwise):
        face = NUMPY_FUNCTIONS.get(type(node.op.scalar_op))
        if face is not None:
            return [np.asarray(face(*values)).astype(node.outputs[0].type.dtype, copy=False)]
    if isinstance(node.op, Blockwise) and isinstance(node.op.core_op, Dot):
        return [np.matmul(*values)]
    return evaluate_node(node, list(values))


WALK_SIZE = 2**17
"""Numbers in one array of a walk: boxes times records times directions."""
CHUNK_ROWS = 2**16
"""Records in one walk, where they may be taken apart."""


class Target:
    """log posterior density up to a constant, on the box of a trimmed model.

    Parameters
    ----------
    private : PrivateModel
        Every free variable inside a finite box.

    Notes
    -----
    Reads the data: only a charged draw may build one. Memory does not grow with the number of
    boxes asked for (they are walked in parts of `WALK_SIZE` numbers), nor with the records beyond
    `CHUNK_ROWS` of them, where the model tells no records apart: then the likelihood is a sum over
    chunks of records, whose ends are added outward.
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
        """Whether slopes and second derivatives have graphs."""
        return all(term.graphs.has_curvature for term in self.terms)

    def ends(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Proved lower and upper ends of the log density at points, shape (N,)."""
        return self.on_boxes(points, points).value

    def values(self, points: np.ndarray) -> np.ndarray:
        """The log density at points of shape (N, d), in floats; -inf where it is no number."""
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
        """Proved ends of value and slopes on boxes with ends of shape (N, d)."""
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

    def above(
        self, lower: np.ndarray, upper: np.ndarray, turn: np.ndarray, back: np.ndarray
    ) -> HessianUpperBound:
        """Matrices above all Hessians on boxes; see `curvature`."""
        parts = []
        for k in self._parts(len(lower), self._pairs):
            found = [term.above(lower[k], upper[k], turn[k], back[k]) for term in self.terms]
            parts.append(reduce(HessianUpperBound.__add__, found))
        return HessianUpperBound(
            *(np.concatenate([getattr(p, f) for p in parts]) for f in ("matrix", "loose", "fine"))
        )

    def unpack(self, points: np.ndarray) -> dict[str, np.ndarray]:
        """Arrays by name from rows of coordinates, shape (draws, d) -> (draws, *shape)."""
        parts = np.split(points, np.cumsum(self.sizes)[:-1], axis=1)
        return {
            name: part.reshape(len(points), *shape)
            for name, part, shape in zip(self.names, parts, self.shapes, strict=True)
        }

    @property
    def _pairs(self) -> int:
        """Numbers per record in a walk for the curvature."""
        by_pairs = any(term.graphs.terms is None for term in self.terms)
        return self.dimension * (self.dimension + 1) // 2 if by_pairs else 1

    def _parts(self, count: int, directions: int) -> Iterator[slice]:
        largest = max(term.count for term in self.terms)
        step = max(1, WALK_SIZE // (largest * directions))
        return (slice(k, k + step) for k in range(0, count, step))

    def _sum(self, directions: int, of: Any, count: int) -> np.ndarray:
        parts = [
            sum((of(term, part) for term in self.terms[1:]), of(self.terms[0], part))
            for part in self._parts(count, directions)
        ]
        return np.concatenate(parts)


def _record_chunks(private: PrivateModel) -> Iterator[dict[Variable, np.ndarray]]:
    """What the likelihood reads, in chunks of records where rows are alike."""
    graph, n = private.graph, private.n
    public = _public_values([graph.record, graph.prior])
    values = {s.name: s.values() for s in private.sources}
    apart = n > CHUNK_ROWS and not graph.rows_differ and not graph.windows
    for start in range(0, n if apart else 1, CHUNK_ROWS):
        part = slice(start, start + CHUNK_ROWS) if apart else slice(None)
        rows = {
            graph.data[s.name]: values[s.name][(slice(None),) * s.axis + (part,)]
            for s in private.sources
        }
        yield public | rows


def _public_values(graphs: list[Variable]) -> dict[Variable, np.ndarray]:
    return {v: v.get_value() for v in public_data(graphs)}


def _add_outward(one: Any, two: Any) -> tuple[np.ndarray, np.ndarray]:
    """Sums of ends, outward; a sum that is no number is infinite."""
    with np.errstate(all="ignore"):
        low, high = np.nextafter(one[0] + two[0], -np.inf), np.nextafter(one[1] + two[1], np.inf)
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)
