"""Graphs of a log density, its gradient and its second derivatives, vectorized over boxes.

Graphs carry a leading axis of boxes or points. Many log densities are sums over i of
l_i(<a_i1, theta>, ..., <a_ik, theta>) with k = 1 or 2: a generalized linear model has one linear
predictor per record, a location-scale model two. Along directions u and v their second derivative
is sum_i sum_ab C_iab <a_ia, u> <a_ib, v>, and the graph alone decides whether it has this form:
whatever C is called, it is bilinear in the predictors of u and v. `separate_terms` recognizes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pytensor
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable, equal_computations
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.shape import Shape, Shape_i

from pymc_private.analysis import simplify
from pymc_private.analysis.continuity import dependent_variables
from pymc_private.analysis.rewrites.constant_terms import without_constant_terms
from pymc_private.analysis.traversal import rebuild, without_tracebacks

MOST_PREDICTORS = 3
"""Linear predictors in one sum."""


LINEAR_OPS = (ps.Neg, ps.Identity, ps.Cast)
"""Scalar Ops that keep the degree of their input."""


# PyTensor 3 renamed it.
_pushforward = getattr(pytensor.gradient, "pushforward", None) or pytensor.gradient.Rop


class DensityGraphs:
    """Graphs of a log density of parameters, with a leading axis of boxes or points.

    Parameters
    ----------
    value : Variable, scalar
    inputs : sequence of Variable
        The parameters.
    shapes : sequence of tuple of int
        Shapes of the parameters.

    Notes
    -----
    Second derivatives are taken in forward mode, along pairs of directions: for a sum over
    records the graph is sum_i h''(eta_i) <a_i, u> <a_i, v>, in which each record occurs once. A
    gradient of the gradient would bound each entry of the Hessian separately, hence loosely.
    """

    def __init__(
        self, value: Variable, inputs: Sequence[Variable], shapes: Sequence[tuple[int, ...]]
    ) -> None:
        self.source, self.inputs, self.shapes = value, list(inputs), list(shapes)
        self.sizes = [int(np.prod(shape)) for shape in shapes]
        with without_tracebacks():
            self._build(value)

    def _build(self, value: Variable) -> None:
        """Graphs of the value, its gradient and its second derivatives."""
        value = without_constant_terms(simplify([value])[0], self.inputs)
        self.boxes = self._placeholders((None,))
        first = [value, *_gradient_graphs(value, self.inputs)]
        graphs = vectorize_graph(_checks_as_switches(first), replace=self.boxes)
        self.value, *self.gradient = simplify(graphs)
        self.dependent = dependent_variables(
            [self.value, *self.gradient], list(self.boxes.values())
        )
        self.paired_boxes = self._placeholders((None, 1))
        self.left = self._placeholders((None, None))
        self.right = self._placeholders((None, None))
        self.directions = tuple([x.type() for x in self.inputs] for _ in range(2))
        self.terms: list[SeparableTerm] | None = None
        self.curvature: Variable | None = None
        if self.gradient:
            self._differentiate(value)

    def _placeholders(self, axes: tuple[int | None, ...]) -> dict[Variable, Variable]:
        return {
            v: pt.TensorType(v.type.dtype, shape=(*axes, *shape))(name=v.name)
            for v, shape in zip(self.inputs, self.shapes, strict=True)
        }

    def _differentiate(self, value: Variable) -> None:
        """Graphs of second derivatives: by terms, else by pairs of directions, else none."""
        u, v = self.directions
        try:
            second_derivative = simplify(
                [_pushforward(_pushforward(value, self.inputs, u), self.inputs, v)]
            )[0]
            terms = separate_terms(second_derivative, self.inputs, u, v)
            if terms is not None:
                self.terms = [self._vectorize_term(term) for term in terms]
                return
            swaps = {
                **self.paired_boxes,
                **dict(zip(u, self.left.values(), strict=True)),
                **dict(zip(v, self.right.values(), strict=True)),
            }
            self.curvature = simplify(
                vectorize_graph(_checks_as_switches([second_derivative]), replace=swaps)
            )[0]
        except Exception:  # of a third-party Op; bounds need no second derivative
            self.terms = self.curvature = None

    def _vectorize_term(self, term: SeparableTerm) -> SeparableTerm:
        flat = [c for row in term.coefficients for c in row]
        # A coefficient gets all axes of the summand, so that its first axis is that of the boxes.
        flat = [c if c.ndim == term.element.ndim else pt.shape_padleft(
            c, term.element.ndim - c.ndim) for c in flat]  # fmt: skip
        # Already simplified: the second derivative was, and zeros and ones are folded.
        found = vectorize_graph(_checks_as_switches(flat), replace=self.boxes)
        k = len(term.predictors)
        return SeparableTerm(
            term.element, term.predictors, [found[i : i + k] for i in range(0, k * k, k)]
        )

    @property
    def has_curvature(self) -> bool:
        """Whether there are graphs of second derivatives."""
        return self.terms is not None or self.curvature is not None

    @property
    def outputs(self) -> list[Variable]:
        """All output graphs."""
        more = [] if self.curvature is None else [self.curvature]
        for term in self.terms or []:
            more += [c for row in term.coefficients for c in row]
        return [self.value, *self.gradient, *more]

    def split(self, flat: np.ndarray) -> list[np.ndarray]:
        """Split rows of coordinates into arrays of the parameters' shapes."""
        parts = np.split(flat, np.cumsum(self.sizes)[:-1], axis=-1)
        return [
            part.reshape((*flat.shape[:-1], *shape))
            for part, shape in zip(parts, self.shapes, strict=True)
        ]

    def assign(self, placeholders: Mapping[Variable, Variable], flat: np.ndarray) -> dict:
        """Values of placeholders from rows of coordinates."""
        return dict(zip(placeholders.values(), self.split(flat), strict=True))


def _gradient_graphs(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """Gradient graphs; an empty list where an Op has no gradient."""
    try:
        gradient = pytensor.grad(value, list(inputs), disconnected_inputs="ignore")
    except Exception:  # of a third-party Op; a bound needs no gradient
        return []
    return simplify(gradient)


def _reads_values(condition: Variable) -> bool:
    """Whether it depends on more of the inputs than the lengths of their axes."""
    whole = set(ancestors([condition]))
    shapes = [v for v in whole if v.owner is not None and isinstance(v.owner.op, Shape | Shape_i)]
    reached = ancestors([condition], blockers=shapes)
    return any(v.owner is None and not isinstance(v, Constant) for v in reached)


def _checks_as_switches(outputs: Sequence[Variable]) -> list[Variable]:
    """Replace checks by switches to NaN, so that one of many boxes can fail them by itself.

    Checks of whole numbers by lengths of axes are left out. They are PyTensor's own; no box changes
    them, and a graph with an axis of boxes in front compares them wrongly.
    """

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if not isinstance(node.op, CheckAndRaise):
            return None
        whole = not inputs[0].type.dtype.startswith("float")
        if whole and not any(_reads_values(condition) for condition in node.inputs[1:]):
            return inputs[0]
        return pt.switch(reduce(pt.and_, inputs[1:]), inputs[0], np.nan)

    leaves = {v: v for v in ancestors(list(outputs)) if v.owner is None}
    return rebuild(list(outputs), leaves, rule)


@dataclass(frozen=True, eq=False)
class SeparableTerm:
    """One sum over elements of a bilinear form in k linear predictors of u and v.

    Parameters
    ----------
    element : Variable
        The summand, of any shape.
    predictors : list of Variable
        k linear maps of u.
    coefficients : list of list of Variable
        C_ab, graphs of the parameters and the data that broadcast to the shape of `element`.
    """

    element: Variable
    predictors: list[Variable]
    coefficients: list[list[Variable]]


def separate_terms(
    second_derivative: Variable,
    parameters: Sequence[Variable],
    u: Sequence[Variable],
    v: Sequence[Variable],
) -> list[SeparableTerm] | None:
    """Write a scalar second derivative along u and v as a list of sums, or None.

    `parameters`, `u` and `v` are inputs of the same shapes.
    """
    reading = _BilinearReader(parameters, u, v)
    try:
        return [
            reading.term(element, factor) for element, factor in reading.sums(second_derivative)
        ]
    except _NotSeparable:
        return None


class _NotSeparable(Exception):
    """The graph is no sum of bilinear forms in linear predictors."""


class _BilinearReader:
    """Reads sums, predictors and coefficients off the graph of a second derivative."""

    def __init__(
        self, parameters: Sequence[Variable], u: Sequence[Variable], v: Sequence[Variable]
    ) -> None:
        self._inputs = [set(parameters), set(u), set(v)]
        self.u_of_v = dict(zip(v, u, strict=True))
        self._known: dict[Variable, tuple[bool, ...]] = {}

    def reads(self, variable: Variable) -> tuple[bool, ...]:
        """Whether a variable depends on parameters, u, v."""
        if variable not in self._known:
            found = tuple(variable in inputs for inputs in self._inputs)
            if variable.owner is not None:
                for parent in variable.owner.inputs:
                    found = tuple(a or b for a, b in zip(found, self.reads(parent), strict=True))
            self._known[variable] = found
        return self._known[variable]

    def sums(self, variable: Variable) -> list[tuple[Variable, list[Variable]]]:
        """Summands and constant factors of the sums that make up a scalar."""
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
            dependent = [x for x in node.inputs if any(self.reads(x)[1:])]
            if isinstance(scalar, ps.Mul) and len(dependent) == 1:
                rest = [x for x in node.inputs if x is not dependent[0]]
                return [(element, factor + rest) for element, factor in self.sums(dependent[0])]
            if isinstance(scalar, ps.Neg):
                minus = pt.constant(-1.0)
                return [(element, [*f, minus]) for element, f in self.sums(dependent[0])]
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
        """The same linear map, applied to u."""
        swaps = {leaf: leaf for leaf in ancestors([variable]) if leaf.owner is None} | self.u_of_v
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
        """The summand with one predictor of u and one of v set to 1, the others to 0."""
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
            return self._common_degree(node.inputs[1:], sides)
        if isinstance(op, ps.Add | ps.Sub):
            return self._common_degree(node.inputs, sides)
        degrees = [self._degree(x, sides) for x in node.inputs]
        if isinstance(op, ps.Mul):
            return sum(d[0] for d in degrees), sum(d[1] for d in degrees)
        if isinstance(op, ps.TrueDiv) and degrees[1] == (0, 0):
            return degrees[0]
        if isinstance(op, LINEAR_OPS):
            return degrees[0]
        raise _NotSeparable

    def _is_multiple(self, variable: Variable) -> bool:
        """Whether a map is a multiple of another one, which then is taken as the predictor."""
        node = variable.owner
        if node is None or not isinstance(node.op, Elemwise):
            return False
        if not isinstance(node.op.scalar_op, (ps.Mul, *LINEAR_OPS)):
            return False
        dependent = [x for x in node.inputs if any(self.reads(x)[1:])]
        return len(dependent) == 1

    def _common_degree(
        self, terms: Sequence[Variable], sides: list[list[Variable]]
    ) -> tuple[int, int]:
        """The common degree of all terms that are not zero."""
        found = {self._degree(x, sides) for x in terms if not _is_zero(x)}
        if len(found) != 1:
            raise _NotSeparable
        return found.pop()


def _fold_zeros_and_ones(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Remove zeros and ones from sums and products; the result broadcasts to the same shape."""
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
