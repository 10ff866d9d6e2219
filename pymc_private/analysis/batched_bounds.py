"""Bounds of one graph and its slopes on many boxes at a time, and cuts to few dimensions.

`BatchedFunction` bounds a scalar function and its partial derivatives on a batch of boxes, and
says where the slopes may be used. `low_dimensional_cut` cuts a graph where many numbers become
few: linear predictors, entries picked from a vector. What lies above a cut counts by its range
alone, so the rest is a function of few numbers. That ignores how the cut numbers depend on one
another; the range of the rest is still an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytensor
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape

from pymc_private.analysis.continuity import continuous_on_boxes, dependent_variables
from pymc_private.analysis.intervals.arrays import INDEXING_OPS
from pymc_private.analysis.intervals.functions import LARGEST_DOUBLE
from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.propagation import Trail, constant_bounds, propagate_bounds
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.traversal import node_order, scalar_op, without_dimshuffles

BoundsPair = tuple[np.ndarray, np.ndarray]
"""Lower and upper bounds."""


@dataclass(frozen=True, eq=False)
class BatchSlopes:
    """What is proved of a graph on each of N boxes.

    Parameters
    ----------
    value : pair of array, shape (N,)
        Lower and upper bounds of the function; infinite where nothing is known.
    slopes : dict of Variable to pair of array, shape (N, *shape of the variable)
        Bounds of its partial derivatives; infinite on boxes where it may jump.
    """

    value: BoundsPair
    slopes: dict[Variable, BoundsPair]


class BatchedFunction:
    """A scalar function of several inputs, on many boxes in one walk.

    Parameters
    ----------
    value : Variable, scalar
    inputs : sequence of Variable
        All its inputs, of known shapes.
    smooth : collection of Variable
        Inputs whose slopes are wanted.
    unknown : mapping of Variable to Bounds, optional
        Further scalar inputs, with the same bounds for all boxes: what is proved holds for each
        value of them.

    Notes
    -----
    The function is continuous in the smooth inputs, for each value of the others, where
    `continuous_on_boxes` says so. There it is piecewise smooth, and bounded slopes make it
    Lipschitz: the mean-value theorem holds with Clarke's generalized gradient (Clarke 1983, Theorem
    2.3.7), which lies within the bounds of PyTensor's gradient graph.
    """

    def __init__(
        self,
        value: Variable,
        inputs: Sequence[Variable],
        smooth: Collection[Variable],
        unknown: Mapping[Variable, Bounds] | None = None,
    ) -> None:
        self._known = dict(unknown or {})
        self.inputs = list(inputs)
        self.boxes = {
            v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name) for v in inputs
        }
        wanted = [v for v in inputs if v in smooth]
        gradient = _gradient(value, wanted)
        outputs = vectorize_graph([value, *gradient.values()], replace=self.boxes)
        self.value, *slopes = _simplify_batched(outputs)
        self.gradient = dict(zip(gradient, slopes, strict=True))
        self.elements = _count_elements([value, *gradient.values()])
        self._varying = dependent_variables([self.value], [self.boxes[v] for v in self.gradient])
        shapes = [getattr(v.type, "shape", ()) for v in ancestors([self.value, *slopes])]
        self._lengths = {length for shape in shapes for length in shape}
        self._order = node_order([self.value], self.boxes.values())
        self._slope_order = node_order([self.value, *slopes], self.boxes.values())
        self._known |= constant_bounds([self.value, *slopes])

    def values(self, given: Mapping[Variable, Bounds]) -> BoundsPair:
        """Bounds of the function on each box, given in shape (N, *shape of the variable)."""
        trail = self._walk([self.value], given, self._order)
        return self._bounds(trail, self.value, _box_count(given))

    def slopes(self, given: Mapping[Variable, Bounds]) -> BatchSlopes:
        """Bounds of the function and of its slopes on each box."""
        wanted = _box_count(given)
        given = self._padded(given)
        count = _box_count(given)
        trail = self._walk([self.value, *self.gradient.values()], given, self._slope_order)
        value = self._bounds(trail, self.value, count)
        smooth = continuous_on_boxes(
            self.value, self._varying, trail, int(self._boxes_lead(trail, count)), self._order
        )
        slopes = {}
        for variable, gradient in self.gradient.items():
            shape = (count, *variable.type.shape)
            low, high = self._bounds(trail, gradient, *shape)
            known = np.broadcast_to(smooth, (count,)).reshape(-1, *(1,) * (len(shape) - 1))
            low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
            slopes[variable] = low[:wanted], high[:wanted]
        return BatchSlopes((value[0][:wanted], value[1][:wanted]), slopes)

    def _padded(self, given: Mapping[Variable, Bounds]) -> Mapping[Variable, Bounds]:
        """The boxes, the last repeated until their number is no other length of the graph.

        Rewrites may move the axis of the boxes, and only its length distinguishes it from others.
        """
        count, more = _box_count(given), 0
        while count + more in self._lengths:
            more += 1
        if not more:
            return given
        rows = np.minimum(np.arange(count + more), count - 1)
        return {v: replace(b, lower=b.lower[rows], upper=b.upper[rows]) for v, b in given.items()}

    def _boxes_lead(self, trail: Trail, count: int) -> bool:
        """Whether the first axis of all that varies counts boxes; else one answer is for all."""
        shapes = [np.shape(trail[v].lower) for v in self._varying if v in trail.facts]
        return all(shape[:1] in ((), (1,), (count,)) for shape in shapes)

    def _walk(
        self,
        outputs: Sequence[Variable],
        given: Mapping[Variable, Bounds],
        order: Sequence[Apply],
    ) -> Trail:
        """Bounds of the graph on all boxes."""
        boxes = {self.boxes[v]: given[v] for v in self.inputs}
        return propagate_bounds(outputs, boxes | self._known, order)

    @staticmethod
    def _bounds(trail: Trail, variable: Variable, *shape: int) -> BoundsPair:
        """Bounds of one node, infinite where nothing is known."""
        fact = trail[variable]
        return _filled(fact.lower, -np.inf, shape), _filled(fact.upper, np.inf, shape)


def _filled(bounds: npt.ArrayLike, unknown: float, shape: tuple[int, ...]) -> np.ndarray:
    """Bounds in a shape, `unknown` for NaN.

    What does not vary with the boxes has no leading axis; what has lost its shape is all NaN.
    """
    found = np.asarray(bounds, float)
    # A lower bound beyond all doubles becomes the largest: nothing infinite is subtracted from it.
    known = np.nan_to_num(
        found,
        nan=unknown,
        posinf=max(unknown, LARGEST_DOUBLE),
        neginf=min(unknown, -LARGEST_DOUBLE),
    )
    return np.full(shape, unknown) if np.isnan(found).all() else np.broadcast_to(known, shape)


def _simplify_batched(outputs: Sequence[Variable]) -> list[Variable]:
    """Simplified graphs on many boxes; elementwise ones are simple already and are merged only."""
    nodes = [v.owner for v in ancestors(list(outputs)) if v.owner is not None]
    if not all(isinstance(node.op, Elemwise | DimShuffle) for node in nodes):
        return simplify(outputs)
    graph = FunctionGraph(outputs=list(outputs), clone=True, copy_inputs=False)
    MergeOptimizer().rewrite(graph)
    return list(graph.outputs)


def _count_elements(outputs: Sequence[Variable]) -> int:
    """Numbers in one evaluation of a graph, an axis of unknown length counted as one."""
    return sum(
        math.prod(size or 1 for size in getattr(v.type, "shape", ()))
        for v in ancestors(list(outputs))
    )


def _box_count(given: Mapping[Variable, Bounds]) -> int:
    """Number of boxes."""
    return len(next(iter(given.values())).lower)


def _gradient(value: Variable, inputs: Sequence[Variable]) -> dict[Variable, Variable]:
    """Gradient graphs, one input at a time if an Op has no gradient for some.

    The gradient of c ? a : b is c ? grad a : grad b for a condition that reads none of the inputs.
    PyTensor adds (c ? 1 : 0) grad a and (c ? 0 : 1) grad b, of which nothing is known where
    nothing is known of one of them.
    """
    if not inputs:
        return {}
    if isinstance(scalar_op(value), ps.Switch):
        condition, yes, no = value.owner.inputs
        branches = yes.type.ndim == no.type.ndim == 0
        if branches and set(inputs).isdisjoint(ancestors([condition])):
            above, below = _gradient(yes, inputs), _gradient(no, inputs)
            both = [v for v in inputs if v in above and v in below]
            return {v: pt.switch(condition, above[v], below[v]) for v in both}
    try:
        gradient = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # raised by an Op of another library; bounds need no gradient
        if len(inputs) == 1:
            return {}
        return {v: g for single in inputs for v, g in _gradient(value, [single]).items()}
    return dict(zip(inputs, simplify(gradient), strict=True))


# ---- cuts to few dimensions ------------------------------------------------------------------

MOST_ENTRIES = 6
"""Entries of a variable that counts as low-dimensional."""


def _size(variable: Variable) -> float:
    """Number of entries; infinite where it is unknown."""
    shape: tuple = getattr(variable.type, "shape", (None,))
    return float("inf") if None in shape else math.prod(shape)


def is_low_dimensional(variable: Variable) -> bool:
    """Whether a variable is known to have at most `MOST_ENTRIES` entries."""
    return _size(variable) <= MOST_ENTRIES


def indexed_inputs(value: Variable) -> set[Variable]:
    """Inputs whose entries are picked by an index that is computed."""
    picked = set()
    for variable in ancestors([value]):
        node = variable.owner
        if node is None or not isinstance(node.op, tuple(INDEXING_OPS)):
            continue
        if not all(isinstance(v, Constant) for v in node.inputs[1:]):
            picked.add(without_dimshuffles(node.inputs[0]))
    return {v for v in picked if v.owner is None and not isinstance(v, Constant)}


def _is_entrywise(node: Apply) -> bool:
    """Whether a node moves entries, or changes each by itself: a ball would become a box."""
    return isinstance(node.op, DimShuffle | Elemwise | Reshape)


def low_dimensional_cut(value: Variable, many: Collection[Variable]) -> list[Variable]:
    """The first low-dimensional variables on every path from `many` to `value`.

    `many` are inputs with many entries, or whose domain is no box. Each path from one of them to
    `value` passes through a variable of the cut; it is `value` itself, if nothing better is found.
    """
    wide, cuts = set(many), set()
    for node in io_toposort(list(many), [value]):
        if wide.isdisjoint(node.inputs):
            continue
        for out in node.outputs:
            is_float = str(getattr(out.type, "dtype", "")).startswith("float")
            if (
                is_float
                and is_low_dimensional(out)
                and (_size(out) == 1 or not _is_entrywise(node))
            ):
                cuts.add(out)
            else:
                wide.add(out)
    reached = set(ancestors([value], blockers=list(cuts)))
    # A condition, a shape or an index that reads many entries by another path cannot be cut.
    if reached & wide - cuts:
        return [value]
    return [cut for cut in cuts if cut in reached]


def one_sided_nodes(value: Variable, *sides: Collection[Variable]) -> list[Variable]:
    """The last nodes on the way to `value` that read one side alone, of fewer entries than it.

    `sides` are disjoint collections of inputs. The nodes are floats that read inputs of one side
    only (and constants), while a node that reads them reads more.
    """
    reads: dict[Variable, frozenset[int]] = {
        v: frozenset([k]) for k, side in enumerate(sides) for v in side
    }
    last: set[Variable] = set()
    for node in io_toposort([], [value]):
        joined: frozenset[int] = frozenset()
        for v in node.inputs:
            if not isinstance(v, Constant):
                # An input of no side keeps a node from being one-sided.
                joined |= reads.get(v, frozenset([-1]) if v.owner is None else frozenset())
        reads.update(dict.fromkeys(node.outputs, joined))
        if len(joined) > 1:
            last |= {v for v in node.inputs if len(reads.get(v, ())) == 1}
    return [v for v in last if v.owner is not None and -1 not in reads[v] and _reduces_dimension(v)]


def _reduces_dimension(variable: Variable) -> bool:
    """Whether this is a float with fewer entries than the inputs it is computed from."""
    if not str(getattr(variable.type, "dtype", "")).startswith("float"):
        return False
    inputs = [v for v in ancestors([variable]) if v.owner is None and not isinstance(v, Constant)]
    return sum(_size(v) for v in inputs) > _size(variable)
