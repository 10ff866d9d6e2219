"""A log density, its slopes and its curvature on many boxes, or at many points, in one walk."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pymc_private.analysis import Interval as Bounds, Trail, bounds
from pymc_private.analysis.continuity import continuity, moving_variables
from pymc_private.analysis.intervals.dispatch import perform
from pymc_private.analysis.intervals.elementwise import DECREASING, INCREASING
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.analysis.traversal__walk import walk
from pymc_private.samplers.hessian_bounds__curvature import Above, ByPairs, ByTerms
from pymc_private.samplers.log_density__graphs import Graphs

Ends = tuple[np.ndarray, np.ndarray]
Points = Mapping[Variable, np.ndarray]
FACES: dict[type, Any] = {
    **{kind: f.numpy for kind, f in (INCREASING | DECREASING).items()},
    ps.Add: lambda *terms: reduce(np.add, terms),
    ps.Mul: lambda *factors: reduce(np.multiply, factors),
    ps.Neg: np.negative,
    ps.Second: lambda shape, value: np.broadcast_to(value, np.broadcast(shape, value).shape),
}
"""Vectorized functions of Ops that PyTensor would compute one element at a time."""


@dataclass(frozen=True, eq=False)
class Slopes:
    """What is proved on each of N boxes.

    Parameters
    ----------
    value : pair of array, shape (N,)
    slopes : pair of array, shape (N, d)
        Ends of the gradient; infinite where nothing is known.
    continuous, smooth : array of bool, shape (N,)
        Whether the function, and also its gradient, is proved to be continuous.
    """

    value: Ends
    slopes: Ends
    continuous: np.ndarray
    smooth: np.ndarray


def joined(parts: Sequence[Slopes]) -> Slopes:
    """What is proved of some boxes, then of others."""
    value, slopes = (
        tuple(np.concatenate([getattr(p, name)[side] for p in parts]) for side in (0, 1))
        for name in ("value", "slopes")
    )
    continuous, smooth = (
        np.concatenate([getattr(p, name) for p in parts]) for name in ("continuous", "smooth")
    )
    return Slopes((value[0], value[1]), (slopes[0], slopes[1]), continuous, smooth)


class LogDensity:
    """Graphs with their data.

    Parameters
    ----------
    graphs : Graphs
    data : mapping of Variable to array
        Everything the graphs read besides the parameters.
    """

    def __init__(self, graphs: Graphs, data: Mapping[Variable, np.ndarray]) -> None:
        self.graphs = graphs
        inputs = [*graphs.boxes.values(), *graphs.wide.values()]
        inputs += [*graphs.left.values(), *graphs.right.values()]
        moving = moving_variables(graphs.outputs, inputs)
        read = {v for m in moving if m.owner is not None for v in m.owner.inputs}
        edge = [v for v in (read | set(graphs.outputs)) if v not in moving]
        trail = bounds(edge, {v: Bounds.point(value) for v, value in data.items()})
        concrete = Concrete(data)
        # What no parameter moves is found once: as intervals, and as numbers.
        self._facts = {v: trail[v] for v in edge}
        self._numbers = {v: concrete(v) for v in edge}
        d = sum(graphs.sizes)
        self.bend: ByTerms | ByPairs
        if graphs.terms is not None:
            self.bend = ByTerms(graphs, data, d)
        elif graphs.curvature is not None:
            self.bend = ByPairs(graphs, d)
        self.count = max((np.size(value) for value in self._numbers.values()), default=1)

    # ---- intervals --------------------------------------------------------------------------
    def on_boxes(self, lower: np.ndarray, upper: np.ndarray) -> Slopes:
        """Value and slopes on boxes, ends of shape (N, d)."""
        g, count = self.graphs, len(lower)
        outputs = [g.value, *g.gradient]
        trail, padded = self._told_apart(outputs, lower, upper)
        value = _ends(trail, g.value, (padded,))
        if not g.gradient:
            empty = np.zeros(count, bool)
            unknown = np.full(lower.shape, np.inf)
            return Slopes((value[0][:count], value[1][:count]), (-unknown, unknown), empty, empty)
        axes = int(_leads(trail, g.moving, padded))
        if not axes and count > 1:
            # One answer for all: where it is no, each half may have another.
            if not np.all(continuity(g.value, g.moving, trail, 0)):
                return self._in_halves(lower, upper)
            if not all(np.all(continuity(x, g.moving, trail, 0)) for x in g.gradient):
                return self._in_halves(lower, upper)
        continuous = np.broadcast_to(continuity(g.value, g.moving, trail, axes), (padded,))
        smooth = continuous.copy()
        for gradient in g.gradient:
            smooth &= continuity(gradient, g.moving, trail, axes)
        low, high = (
            np.concatenate([np.reshape(part, (padded, -1)) for part in parts], axis=1)
            for parts in zip(*self._slopes(trail, padded), strict=True)
        )
        kept = slice(count)
        return Slopes(
            (value[0][kept], value[1][kept]), (low[kept], high[kept]), continuous[kept],
            smooth[kept],
        )  # fmt: skip

    def _in_halves(self, lower: np.ndarray, upper: np.ndarray) -> Slopes:
        middle = len(lower) // 2
        return joined(
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
            trail = self._walk(outputs, _hull(g.on(g.boxes, lower), g.on(g.boxes, upper)))
            count = len(lower)
            if count == 1 or not _is_ambiguous(trail, g.moving, count):
                return trail, count
            lower, upper = (np.concatenate([end, end[-1:]]) for end in (lower, upper))

    def _slopes(self, trail: Trail, count: int) -> list[Ends]:
        pairs = zip(self.graphs.gradient, self.graphs.shapes, strict=True)
        return [_ends(trail, gradient, (count, *shape)) for gradient, shape in pairs]

    def above(
        self, lower: np.ndarray, upper: np.ndarray, turn: np.ndarray, back: np.ndarray
    ) -> Above:
        """Matrices above all Hessians on boxes; W and W^-1 are coordinates that suit them."""
        return self.bend.above(lower, upper, turn, back, self._walk)

    def _walk(self, outputs: Sequence[Variable], given: Mapping[Variable, Bounds]) -> Trail:
        return bounds(outputs, self._facts | dict(given))

    # ---- numbers ----------------------------------------------------------------------------
    def at(self, points: np.ndarray) -> np.ndarray:
        """Values at points of shape (N, d), in floats; NaN where there is no number."""
        g = self.graphs
        return _shaped(self._numbers_of([g.value], g.on(g.boxes, points))[0], (len(points),))

    def slopes_at(self, points: np.ndarray) -> np.ndarray:
        """Gradients at points, shape (N, d), in floats."""
        g, count = self.graphs, len(points)
        found = self._numbers_of(g.gradient, g.on(g.boxes, points))
        pairs = zip(found, g.shapes, strict=True)
        return np.concatenate([_shaped(x, (count, *s)).reshape(count, -1) for x, s in pairs], 1)

    def hessians_at(self, points: np.ndarray) -> np.ndarray:
        """Hessians at points, shape (N, d, d), in floats."""
        return self.bend.at(points, self._numbers_of)

    def _numbers_of(self, outputs: Sequence[Variable], given: Points) -> list[np.ndarray]:
        return numbers_of(outputs, self._numbers | dict(given))


def numbers_of(outputs: Sequence[Variable], given: Points) -> list[np.ndarray]:
    """Values of graphs in floats, by NumPy's own vectorized functions wherever there are any."""
    with np.errstate(all="ignore"):
        trail = walk(outputs, given, _perform, lambda constant: constant.data)
    return [np.asarray(trail[v], float) for v in outputs]


def _is_ambiguous(trail: Trail, moving: set[Variable], count: int) -> bool:
    """Whether another axis is as long as that of the boxes."""
    for variable, fact in trail.facts.items():
        shape = np.shape(fact.lower)
        others = shape[1:] if variable in moving and shape[:1] == (count,) else shape
        if count in others and (variable not in moving or shape[:1] == (count,)):
            return True
    return False


def _leads(trail: Trail, moving: set[Variable], count: int) -> bool:
    """Whether every array that moves has the boxes along its first axis, or is alike for all."""
    shapes = (np.shape(trail[v].lower) for v in moving if v in trail.facts)
    return all(shape[:1] in ((), (1,), (count,)) for shape in shapes)


def _hull(lower: Points, upper: Points) -> dict[Variable, Bounds]:
    return {v: Bounds(lower[v], upper[v]) for v in lower}


def _ends(trail: Trail, variable: Variable, shape: tuple[int, ...]) -> Ends:
    fact = trail[variable]
    lower = np.nan_to_num(np.asarray(fact.lower, float), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    upper = np.nan_to_num(np.asarray(fact.upper, float), nan=np.inf, posinf=np.inf, neginf=-np.inf)
    return _shaped(lower, shape), _shaped(upper, shape)


def _shaped(values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """What no box moves has no leading axis; what has lost its shape is NaN."""
    return np.broadcast_to(values, shape)


def _perform(node: Apply, values: Sequence[Any]) -> Sequence[Any]:
    if isinstance(node.op, Elemwise):
        face = FACES.get(type(node.op.scalar_op))
        if face is not None:
            return [np.asarray(face(*values)).astype(node.outputs[0].type.dtype, copy=False)]
    if isinstance(node.op, Blockwise) and isinstance(node.op.core_op, Dot):
        return [np.matmul(*values)]
    return perform(node, list(values))
