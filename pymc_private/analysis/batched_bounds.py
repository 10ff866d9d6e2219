"""Bounds of one graph and its slopes on many boxes at a time, and cuts to few dimensions.

`BatchedFunction` bounds a scalar function and its partial derivatives on a batch of boxes, and
says where the slopes may be used. `low_dimensional_cut` cuts a graph where many numbers become
few: linear predictors, entries picked from a vector. What lies above a cut counts by its range
alone, so the rest is a function of few numbers. That forgets how the cut numbers depend on one
another; the range of the rest is still an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytensor
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
from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.propagation import Trail, constant_bounds, propagate_bounds
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.traversal import node_order

BoundsPair = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class BatchSlopes:
    """What is proved of a graph on each of N boxes.

    Parameters
    ----------
    value : pair of array, shape (N,)
        Lower and upper ends of the function; infinite where nothing is known.
    slopes : dict of Variable to pair of array, shape (N, *shape of the variable)
        Ends of its partial derivatives; infinite on boxes where it may jump.
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
    unknown : mapping of Variable to Interval, optional
        Further scalar inputs, the same interval for all boxes: what is proved holds for each value.

    Notes
    -----
    The function is continuous in the smooth inputs, for each value of the others, where
    `continuous_on_boxes` says so. There it is piecewise smooth, and bounded slopes make it Lipschitz: the
    mean-value theorem holds with Clarke's generalized gradient (Clarke 1983, Theorem 2.3.7), which
    lies in the interval of PyTensor's gradient graph.
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
        self._moving = dependent_variables([self.value], [self.boxes[v] for v in self.gradient])
        shapes = [getattr(v.type, "shape", ()) for v in ancestors([self.value, *slopes])]
        self._lengths = {length for shape in shapes for length in shape}
        self._steps = node_order([self.value], self.boxes.values())
        self._slope_steps = node_order([self.value, *slopes], self.boxes.values())
        self._known |= constant_bounds([self.value, *slopes])

    def values(self, given: Mapping[Variable, Bounds]) -> BoundsPair:
        """Ends of the function on each box.

        Parameters
        ----------
        given : mapping of Variable to Interval, ends of shape (N, *shape of the variable)
        """
        trail = self._walk([self.value], given, self._steps)
        return self._ends(trail, self.value, _box_count(given))

    def slopes(self, given: Mapping[Variable, Bounds]) -> BatchSlopes:
        """Ends of the function and of its slopes on each box."""
        wanted = _box_count(given)
        given = self._told_apart(given)
        count = _box_count(given)
        trail = self._walk([self.value, *self.gradient.values()], given, self._slope_steps)
        value = self._ends(trail, self.value, count)
        smooth = continuous_on_boxes(
            self.value, self._moving, trail, int(self._leads(trail, count)), self._steps
        )
        slopes = {}
        for variable, gradient in self.gradient.items():
            shape = (count, *variable.type.shape)
            low, high = self._ends(trail, gradient, *shape)
            known = np.broadcast_to(smooth, (count,)).reshape(-1, *(1,) * (len(shape) - 1))
            ends = np.where(known, low, -np.inf), np.where(known, high, np.inf)
            slopes[variable] = ends[0][:wanted], ends[1][:wanted]
        return BatchSlopes((value[0][:wanted], value[1][:wanted]), slopes)

    def _told_apart(self, given: Mapping[Variable, Bounds]) -> Mapping[Variable, Bounds]:
        """The boxes, the last repeated until their number is no other length of the graph.

        Rewrites may move the axis of the boxes, and only its length tells it from the others.
        """
        count, more = _box_count(given), 0
        while count + more in self._lengths:
            more += 1
        if not more:
            return given
        rows = np.minimum(np.arange(count + more), count - 1)
        return {v: replace(b, lower=b.lower[rows], upper=b.upper[rows]) for v, b in given.items()}

    def _leads(self, trail: Trail, count: int) -> bool:
        """Whether boxes are along the first axis of all that moves; else one answer is for all."""
        shapes = [np.shape(trail[v].lower) for v in self._moving if v in trail.facts]
        return all(shape[:1] in ((), (1,), (count,)) for shape in shapes)

    def _walk(
        self,
        outputs: Sequence[Variable],
        given: Mapping[Variable, Bounds],
        order: Sequence[Apply],
    ) -> Trail:
        boxes = {self.boxes[v]: given[v] for v in self.inputs}
        return propagate_bounds(outputs, boxes | self._known, order)

    @staticmethod
    def _ends(trail: Trail, variable: Variable, *shape: int) -> BoundsPair:
        fact = trail[variable]
        return _filled(fact.lower, -np.inf, shape), _filled(fact.upper, np.inf, shape)


LARGEST_FLOAT = float(np.finfo(float).max)


def _filled(ends: npt.ArrayLike, unknown: float, shape: tuple[int, ...]) -> np.ndarray:
    """Ends of that shape, `unknown` for NaN.

    What no box moves has no leading axis; what has lost its shape is NaN throughout.
    """
    found = np.asarray(ends, float)
    # A lower end beyond all numbers is the largest of them: nothing infinite is subtracted from it.
    known = np.nan_to_num(
        found, nan=unknown, posinf=max(unknown, LARGEST_FLOAT), neginf=min(unknown, -LARGEST_FLOAT)
    )
    return np.full(shape, unknown) if np.isnan(found).all() else np.broadcast_to(known, shape)


def _simplify_batched(outputs: Sequence[Variable]) -> list[Variable]:
    """Simplified graphs on many boxes, nothing twice: of elementwise graphs each is so already."""
    nodes = [v.owner for v in ancestors(list(outputs)) if v.owner is not None]
    if not all(isinstance(node.op, Elemwise | DimShuffle) for node in nodes):
        return simplify(outputs)
    graph = FunctionGraph(outputs=list(outputs), clone=True, copy_inputs=False)
    MergeOptimizer().rewrite(graph)
    return list(graph.outputs)


def _count_elements(outputs: Sequence[Variable]) -> int:
    """Numbers in one evaluation of a graph, where shapes are known; else one a variable."""
    return sum(
        math.prod(size or 1 for size in getattr(v.type, "shape", ()))
        for v in ancestors(list(outputs))
    )


def _box_count(given: Mapping[Variable, Bounds]) -> int:
    return len(next(iter(given.values())).lower)


def _gradient(value: Variable, inputs: Sequence[Variable]) -> dict[Variable, Variable]:
    """Gradient graphs, one input at a time if an Op has no gradient for some."""
    if not inputs:
        return {}
    try:
        gradient = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # of an Op that is not ours; bounds need no gradient
        if len(inputs) == 1:
            return {}
        return {v: g for single in inputs for v, g in _gradient(value, [single]).items()}
    return dict(zip(inputs, simplify(gradient), strict=True))


MOST_ENTRIES = 6
"""Entries of a variable that counts as few numbers."""


def _size(variable: Variable) -> float:
    """Number of entries, where it is known."""
    shape: tuple = getattr(variable.type, "shape", (None,))
    return float("inf") if None in shape else math.prod(shape)


def is_low_dimensional(variable: Variable) -> bool:
    """Whether a variable is known to hold few numbers."""
    return _size(variable) <= MOST_ENTRIES


def indexed_inputs(value: Variable) -> set[Variable]:
    """Inputs out of which entries are picked by an index that is computed."""
    picked = set()
    for variable in ancestors([value]):
        node = variable.owner
        if node is None or not isinstance(node.op, tuple(INDEXING_OPS)):
            continue
        source = node.inputs[0]
        while source.owner is not None and isinstance(source.owner.op, DimShuffle):
            source = source.owner.inputs[0]
        if not all(isinstance(v, Constant) for v in node.inputs[1:]):
            picked.add(source)
    return {v for v in picked if v.owner is None and not isinstance(v, Constant)}


def _is_entrywise(node: Apply) -> bool:
    """Whether a node moves numbers, or changes each by itself: a ball would become a box."""
    return isinstance(node.op, DimShuffle | Elemwise | Reshape)


def low_dimensional_cut(value: Variable, many: Collection[Variable]) -> list[Variable]:
    """The first variables of few numbers on every path from `many` to `value`.

    Parameters
    ----------
    value : Variable
    many : collection of Variable
        Inputs that hold many numbers, or whose shape is no box.

    Returns
    -------
    list of Variable
        Each path from an input in `many` to `value` passes through one of them. `value` itself, if
        nothing better is found.
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
    # A condition, a shape or an index that reads many numbers on its own way cannot be cut.
    if reached & wide - cuts:
        return [value]
    return [cut for cut in cuts if cut in reached]


def one_sided_nodes(value: Variable, *sides: Collection[Variable]) -> list[Variable]:
    """The last variables that read one side alone, each computed from several numbers.

    Parameters
    ----------
    value : Variable
    *sides : collections of Variable
        Inputs, disjoint.

    Returns
    -------
    list of Variable
        Floats that read inputs of one side only (and constants), while something they go into reads
        more.
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
    """Whether this is a float that more than one number went into."""
    if not str(getattr(variable.type, "dtype", "")).startswith("float"):
        return False
    inputs = [v for v in ancestors([variable]) if v.owner is None and not isinstance(v, Constant)]
    return sum(_size(v) for v in inputs) > _size(variable)
