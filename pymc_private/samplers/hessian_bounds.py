"""Second derivatives of sums of functions of few linear predictors, term by term.

Many log densities are sums over i of l_i(<a_i1, theta>, ..., <a_ik, theta>) with k = 1 or 2: a
generalized linear model has one predictor a record, a location-scale model two. Along directions u
and v their second derivative is sum_i sum_ab C_iab <a_ia, u> <a_ib, v>, and what matters is only
that the graph says so: whatever C is called, the form is bilinear in the predictors of u and v.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Sequence
from dataclasses import dataclass
from pytensor.graph.basic import Apply, Constant, Variable, equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pymc_private.analysis.traversal__rebuild import rebuild

MOST_PREDICTORS = 3
LINEAR = (ps.Neg, ps.Identity, ps.Cast)


@dataclass(frozen=True, eq=False)
class Term:
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


def separate(
    twice: Variable,
    parameters: Sequence[Variable],
    u: Sequence[Variable],
    v: Sequence[Variable],
) -> list[Term] | None:
    """Write a second derivative along u and v as such sums, or None where its graph is another.

    Parameters
    ----------
    twice : Variable, scalar
    parameters, u, v : sequence of Variable
        Inputs of the same shapes.
    """
    reading = _Reading(parameters, u, v)
    try:
        return [reading.term(element, factor) for element, factor in reading.sums(twice)]
    except _NotSeparable:
        return None


class _NotSeparable(Exception):
    """The graph has another form."""


class _Reading:
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

    def term(self, element: Variable, factor: list[Variable]) -> Term:
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
        return Term(element, maps, table)

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
        result = rebuild([element], swaps, _folded)[0]
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
        if isinstance(op, LINEAR):
            return degrees[0]
        raise _NotSeparable

    def _is_multiple(self, variable: Variable) -> bool:
        """Whether a map is a number times another, which then is the one to name."""
        node = variable.owner
        if node is None or not isinstance(node.op, Elemwise):
            return False
        if not isinstance(node.op.scalar_op, (ps.Mul, *LINEAR)):
            return False
        moving = [x for x in node.inputs if any(self.reads(x)[1:])]
        return len(moving) == 1

    def _alike(self, terms: Sequence[Variable], sides: list[list[Variable]]) -> tuple[int, int]:
        """One degree for all that are not zero."""
        found = {self._degree(x, sides) for x in terms if not _is_zero(x)}
        if len(found) != 1:
            raise _NotSeparable
        return found.pop()


def _folded(node: Apply, inputs: list[Variable]) -> Variable | None:
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
    elif isinstance(op, (ps.TrueDiv, *LINEAR)):
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
