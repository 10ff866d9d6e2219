"""One graph on many boxes at a time: ends, slopes, and where the slopes may be used."""

from __future__ import annotations

import math
import numpy as np
import numpy.typing as npt
import pytensor
import pytensor.tensor as pt
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pymc_private.analysis.intervals.propagation import Trail, bounds, facts_of_constants
from pymc_private.analysis.continuity import continuity, moving_variables
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.traversal__walk import steps

Ends = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class Slopes:
    """What is proved of a graph on each of N boxes.

    Parameters
    ----------
    value : pair of array, shape (N,)
        Lower and upper ends of the function; infinite where nothing is known.
    slopes : dict of Variable to pair of array, shape (N, *shape of the variable)
        Ends of its partial derivatives; infinite on boxes where it may jump.
    """

    value: Ends
    slopes: dict[Variable, Ends]


class Batch:
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
    `continuity` says so. There it is piecewise smooth, and bounded slopes make it Lipschitz: the
    mean-value theorem holds with Clarke's generalized gradient (Clarke 1983, Theorem 2.3.7), which
    lies in the interval of PyTensor's gradient graph.
    """

    def __init__(
        self,
        value: Variable,
        inputs: Sequence[Variable],
        smooth: Collection[Variable],
        unknown: Mapping[Variable, Interval] | None = None,
    ) -> None:
        self._known = dict(unknown or {})
        self.inputs = list(inputs)
        self.boxes = {
            v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name) for v in inputs
        }
        wanted = [v for v in inputs if v in smooth]
        gradient = _gradient(value, wanted)
        outputs = vectorize_graph([value, *gradient.values()], replace=self.boxes)
        self.value, *slopes = _tidy(outputs)
        self.gradient = dict(zip(gradient, slopes, strict=True))
        self.elements = _count_elements([value, *gradient.values()])
        self._moving = moving_variables([self.value], [self.boxes[v] for v in self.gradient])
        shapes = [getattr(v.type, "shape", ()) for v in ancestors([self.value, *slopes])]
        self._lengths = {length for shape in shapes for length in shape}
        self._steps = steps([self.value], self.boxes.values())
        self._slope_steps = steps([self.value, *slopes], self.boxes.values())
        self._known |= facts_of_constants([self.value, *slopes])

    def values(self, given: Mapping[Variable, Interval]) -> Ends:
        """Ends of the function on each box.

        Parameters
        ----------
        given : mapping of Variable to Interval, ends of shape (N, *shape of the variable)
        """
        trail = self._walk([self.value], given, self._steps)
        return self._ends(trail, self.value, _count(given))

    def slopes(self, given: Mapping[Variable, Interval]) -> Slopes:
        """Ends of the function and of its slopes on each box."""
        wanted = _count(given)
        given = self._told_apart(given)
        count = _count(given)
        trail = self._walk([self.value, *self.gradient.values()], given, self._slope_steps)
        value = self._ends(trail, self.value, count)
        smooth = continuity(
            self.value, self._moving, trail, int(self._leads(trail, count)), self._steps
        )
        slopes = {}
        for variable, gradient in self.gradient.items():
            shape = (count, *variable.type.shape)
            low, high = self._ends(trail, gradient, *shape)
            known = np.broadcast_to(smooth, (count,)).reshape(-1, *(1,) * (len(shape) - 1))
            ends = np.where(known, low, -np.inf), np.where(known, high, np.inf)
            slopes[variable] = ends[0][:wanted], ends[1][:wanted]
        return Slopes((value[0][:wanted], value[1][:wanted]), slopes)

    def _told_apart(self, given: Mapping[Variable, Interval]) -> Mapping[Variable, Interval]:
        """The boxes, the last repeated until their number is no other length of the graph.

        Rewrites may move the axis of the boxes, and only its length tells it from the others.
        """
        count, more = _count(given), 0
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
        given: Mapping[Variable, Interval],
        order: Sequence[Apply],
    ) -> Trail:
        boxes = {self.boxes[v]: given[v] for v in self.inputs}
        return bounds(outputs, boxes | self._known, order)

    @staticmethod
    def _ends(trail: Trail, variable: Variable, *shape: int) -> Ends:
        fact = trail[variable]
        return _shaped(fact.lower, -np.inf, shape), _shaped(fact.upper, np.inf, shape)


LARGEST = float(np.finfo(float).max)


def _shaped(ends: npt.ArrayLike, unknown: float, shape: tuple[int, ...]) -> np.ndarray:
    """Ends of that shape, `unknown` for NaN.

    What no box moves has no leading axis; what has lost its shape is NaN throughout.
    """
    found = np.asarray(ends, float)
    # A lower end beyond all numbers is the largest of them: nothing infinite is subtracted from it.
    known = np.nan_to_num(
        found, nan=unknown, posinf=max(unknown, LARGEST), neginf=min(unknown, -LARGEST)
    )
    return np.full(shape, unknown) if np.isnan(found).all() else np.broadcast_to(known, shape)


def _tidy(outputs: Sequence[Variable]) -> list[Variable]:
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


def _count(given: Mapping[Variable, Interval]) -> int:
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
