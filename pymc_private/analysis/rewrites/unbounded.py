"""Rewrites and comparisons for boxes with infinite bounds that no input attains.

On the whole line e^u has the bounds [0, inf], which cannot tell that e^u = 0 never happens, nor
that a finite number is not infinite. A parameter is a real number, so both comparisons are false:
they are decided by which bounds are never attained. Quotients and logarithms of e^u are written
by u itself, since inf / inf says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
import pytensor.tensor.special as ts
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise

from pymc_private.analysis.intervals.arrays import INDEXING_OPS
from pymc_private.analysis.intervals.interval import Bounds, SimplexRows
from pymc_private.analysis.intervals.ops import OnSimplex
from pymc_private.analysis.intervals.propagation import Trail, propagate_bounds
from pymc_private.analysis.rewrites.algebra import merge_switches
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.rewrites.specialize import specialize
from pymc_private.analysis.traversal import (
    apply_rewriters,
    rebuild,
    rewrite_in_place,
    scalar_op,
    substitute,
    without_dimshuffles,
    without_leading_axes,
)


def specialize_on_reals(value: Variable, box: Mapping[Variable, Bounds]) -> Variable:
    """`specialize` for boxes with infinite bounds that no input attains.

    `box` has the bounds of every input. In real arithmetic the graph is equal to `value` for all
    real inputs in the box.
    """
    found = cancel_exponentials(value)
    value = simplify([value])[0] if found is value else found
    for _ in range(MOST_NESTED):
        before, value = value, _without_decided_comparisons(value, box)
        if value is before:
            break
    return cancel_exponentials(specialize(value, box))


MOST_NESTED = 4
"""Nested comparisons that are decided: what one decides may decide the next."""


# ---- exponentials ----------------------------------------------------------------------------


def constant_number(variable: Variable) -> float | None:
    """The number that a constant holds, whatever axes were put in front of it."""
    variable = without_leading_axes(variable)
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        return float(np.asarray(variable.data).item())
    return None


def cancel_exponentials(value: Variable) -> Variable:
    """Quotients and logarithms of e^u by u itself; `value` itself where there are none.

    At infinite bounds inf / inf says nothing.
    """
    found = apply_rewriters(value, _logistic_odds, _quotient_of_exp, _log_of_exp)
    return value if found is value else simplify([found])[0]


@node_rewriter([Elemwise])
def _logistic_odds(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """e^u / (c + e^u) = sigmoid(u - log c); k / (c + e^u) = (k / c) sigmoid(log c - u); c > 0."""
    if not isinstance(node.op.scalar_op, ps.TrueDiv):
        return None
    above, below = node.inputs
    if not isinstance(scalar_op(below), ps.Add) or len(below.owner.inputs) != 2:
        return None
    for first, power in (below.owner.inputs, below.owner.inputs[::-1]):
        c, k = constant_number(first), constant_number(above)
        if c is None or c <= 0.0 or not isinstance(scalar_op(power), ps.Exp):
            continue
        shifted = power.owner.inputs[0] - np.log(c)
        if without_leading_axes(above) is without_leading_axes(power):
            return substitute(pt.sigmoid(shifted), node.outputs[0])
        if k is not None:
            return substitute((k / c) * pt.sigmoid(-shifted), node.outputs[0])
    return None


@node_rewriter([Elemwise])
def _quotient_of_exp(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """x / (k e^u) = (x / k) e^(-u)."""
    if not isinstance(node.op.scalar_op, ps.TrueDiv):
        return None
    exponents, rest = _split_exponentials(node.inputs[1])
    if not exponents:
        return None
    total = node.inputs[0] * pt.exp(-_add_all(exponents))
    return substitute(total / _multiply_all(rest) if rest else total, node.outputs[0])


@node_rewriter([Elemwise])
def _log_of_exp(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(k e^u) = log k + u."""
    if not isinstance(node.op.scalar_op, ps.Log):
        return None
    exponents, rest = _split_exponentials(node.inputs[0])
    if not exponents:
        return substitute(_indexed_exponent(node.inputs[0]), node.outputs[0])
    total = _add_all(exponents)
    return substitute(pt.log(_multiply_all(rest)) + total if rest else total, node.outputs[0])


def _indexed_exponent(variable: Variable) -> Variable | None:
    """The elements of v that correspond, where `variable` takes elements from e^v."""
    node = variable.owner
    if node is None:
        return None
    if isinstance(scalar_op(variable), ps.Exp):
        return node.inputs[0]
    if isinstance(node.op, OnSimplex):
        return _indexed_exponent(node.inputs[0])
    takes = isinstance(node.op, (DimShuffle, *INDEXING_OPS))
    inner = _indexed_exponent(node.inputs[0]) if takes else None
    return None if inner is None else node.op.make_node(inner, *node.inputs[1:]).outputs[0]


def _split_exponentials(variable: Variable) -> tuple[list[Variable], list[Variable]]:
    """The exponents of the exponentials among the factors, and the other factors."""
    op = scalar_op(variable)
    if isinstance(op, ps.Exp):
        return [variable.owner.inputs[0]], []
    if isinstance(op, ps.Mul):
        parts = [_split_exponentials(v) for v in variable.owner.inputs]
        return [e for some, _ in parts for e in some], [r for _, some in parts for r in some]
    return [], [variable]


def _add_all(terms: list[Variable]) -> Variable:
    """The sum of one or more terms."""
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _multiply_all(factors: list[Variable]) -> Variable:
    """The product of one or more factors."""
    return pt.mul(*factors) if len(factors) > 1 else factors[0]


def simplify_and_merge_switches(outputs: Sequence[Variable]) -> list[Variable]:
    """Simplified graphs in which 1 - sigmoid(x) is sigmoid(-x), never below zero in floats.

    Switches by one condition that are added become one switch.
    """
    graph = FunctionGraph(outputs=simplify(outputs), clone=False)
    for rule in (_sigmoid_complement, merge_switches):
        rewrite_in_place(rule, graph)
    return list(graph.outputs)


@node_rewriter([Elemwise])
def _sigmoid_complement(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """1 - sigmoid(x) = sigmoid(-x)."""
    if not isinstance(node.op.scalar_op, ps.Sub) or constant_number(node.inputs[0]) != 1.0:
        return None
    inner = node.inputs[1]
    if not isinstance(scalar_op(inner), psm.Sigmoid):
        return None
    return substitute(pt.sigmoid(-inner.owner.inputs[0]), node.outputs[0])


# ---- comparisons -----------------------------------------------------------------------------


INCREASING_ON_REALS = (ps.Exp, ps.Expm1, psm.Sigmoid, psm.Softplus, psm.Erf, ps.Tanh, ps.ArcTan)


DECREASING_ON_REALS = (psm.Erfc, psm.Erfcx)


UNATTAINED_LIMITS: dict[type, tuple[float, float]] = {
    ps.Exp: (0.0, np.inf),
    psm.Sigmoid: (0.0, 1.0),
    psm.Softplus: (0.0, np.inf),
    psm.Erf: (-1.0, 1.0),
    ps.Tanh: (-1.0, 1.0),
    psm.Erfc: (0.0, 2.0),
    psm.Erfcx: (0.0, np.inf),
}
"""Limits that no real argument attains; a bound rounded to them is not attained either."""


def _without_decided_comparisons(value: Variable, box: Mapping[Variable, Bounds]) -> Variable:
    """The graph without comparisons that are always true or always false, or the graph itself."""
    trail = propagate_bounds([value], dict(box) | _simplex_bounds(value))
    endpoints = _OpenEndpoints(trail)
    found = []

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        answer = endpoints.decide(node)
        if answer is None:
            return None
        found.append(answer)
        return pt.ones_like(node.outputs[0]) if answer else pt.zeros_like(node.outputs[0])

    decided = rebuild([value], {v: v for v in box}, rule)[0]
    return specialize(decided, box) if found else value


def _simplex_bounds(value: Variable) -> dict[Variable, Bounds]:
    """Bounds of rows on the simplex: of a softmax of real numbers, and of `OnSimplex`."""
    found = {}
    for variable in ancestors([value]):
        node, shape = variable.owner, variable.type.shape if variable.owner else ()
        if node is None or None in shape or not isinstance(node.op, ts.Softmax | OnSimplex):
            continue
        slack = getattr(node.op, "slack", 0.0)
        axis = getattr(node.op, "axis", -1)
        if (axis if isinstance(axis, tuple) else (axis,)) in ((-1,), (variable.type.ndim - 1,)):
            rows = SimplexRows(slack=slack)
            found[variable] = Bounds(np.zeros(shape), np.full(shape, 1.0 + slack), rows)
    return found


class _OpenEndpoints:
    """Decides comparisons by whether the bounds of a trail are attained."""

    def __init__(self, trail: Trail) -> None:
        self.trail = trail

    def decide(self, node: Apply) -> bool | None:
        """The truth of a comparison with a number, if it is the same everywhere."""
        op = getattr(node.op, "scalar_op", None)
        if not isinstance(node.op, Elemwise):
            return None
        if isinstance(op, ps.IsInf | ps.IsNan):
            return False if self._is_real(node.inputs[0]) else None
        if isinstance(op, ps.EQ | ps.GT | ps.GE | ps.LT | ps.LE):
            first, second = node.inputs
            number = constant_number(second)
            if number is not None:
                return self._compare(op, first, number)
            number = constant_number(first)
            return None if number is None else self._compare(_MIRRORED[type(op)], second, number)
        return None

    def _compare(self, op: ps.ScalarOp, x: Variable, c: float) -> bool | None:
        """The truth of x op c."""
        x = without_dimshuffles(x)
        inner = _isolated(x, c)
        if inner is not None:
            x, c, reverses = inner
            op = _MIRRORED[type(op)] if reverses else op
            return self._compare(op, x, c)
        if not self._is_real(x):
            return None
        if np.isinf(c):
            above = c < 0
        else:
            fact = self.trail[x]
            above = bool(np.all(fact.lower > c) or (np.all(fact.lower >= c) and self.open(x, -1)))
            below = np.all(fact.upper < c) or (np.all(fact.upper <= c) and self.open(x, 1))
            if not above and not below:
                return self._weakly(op, fact, c)
        return isinstance(op, ps.GT | ps.GE) if above else isinstance(op, ps.LT | ps.LE)

    @staticmethod
    def _weakly(op: ps.ScalarOp, fact: Bounds, c: float) -> bool | None:
        """The truth of x op c where x may equal c."""
        if np.all(fact.lower >= c) and isinstance(op, ps.GE | ps.LT):
            return isinstance(op, ps.GE)
        if np.all(fact.upper <= c) and isinstance(op, ps.LE | ps.GT):
            return isinstance(op, ps.LE)
        return None

    def _is_real(self, variable: Variable) -> bool:
        """Whether a node is a real number everywhere."""
        fact = self.trail.facts.get(variable)
        if fact is None or not str(variable.type.dtype).startswith("float"):
            return False
        return not fact.poles and not np.isnan(fact.lower).any() and not np.isnan(fact.upper).any()

    def _arguments_are_real(self, node: Apply) -> bool:
        """Whether no argument of a softmax is infinite; the trail may begin at its outputs."""
        (arguments,) = node.inputs
        if arguments not in self.trail.facts:
            self.trail.facts.update(propagate_bounds([arguments], self.trail.given).facts)
        return self._is_real(arguments)

    def open(self, variable: Variable, side: int) -> bool:
        """Whether the lower (side -1) or upper (side 1) bound of a node is never attained."""
        fact = self.trail.facts.get(variable)
        if fact is None or not self._is_real(variable):
            return False
        if np.all(np.isinf(fact.lower if side < 0 else fact.upper)):
            return True
        node = variable.owner
        if node is None:
            return False
        if isinstance(node.op, DimShuffle):
            return self.open(node.inputs[0], side)
        if isinstance(node.op, ts.Softmax):  # of real numbers no entry is zero
            return side < 0 and bool(np.all(fact.lower <= 0.0)) and self._arguments_are_real(node)
        op = getattr(node.op, "scalar_op", None)
        low, high = UNATTAINED_LIMITS.get(type(op), (-np.inf, np.inf))
        if np.all(fact.lower <= low) if side < 0 else np.all(fact.upper >= high):
            return True
        if isinstance(op, INCREASING_ON_REALS):
            return self.open(node.inputs[0], side)
        if isinstance(op, (*DECREASING_ON_REALS, ps.Neg)):
            return self.open(node.inputs[0], -side)
        if isinstance(op, ps.Add):
            return any(self.open(v, side) for v in node.inputs)
        if isinstance(op, ps.Sub):
            return self.open(node.inputs[0], side) or self.open(node.inputs[1], -side)
        if isinstance(op, ps.Mul | ps.TrueDiv):
            return self._open_multiple(node, side)
        return False

    def _open_multiple(self, node: Apply, side: int) -> bool:
        """`open` for c x, x / c, and c / x with x of one sign, for a number c that is not 0."""
        numbers = [constant_number(v) for v in node.inputs]
        unknown = [v for v, c in zip(node.inputs, numbers, strict=True) if c is None]
        product = float(np.prod([c for c in numbers if c is not None]))
        if len(unknown) != 1 or product == 0.0 or not np.isfinite(product):
            return False
        sign = side if product > 0 else -side
        if isinstance(node.op.scalar_op, ps.TrueDiv) and numbers[1] is None:
            fact = self.trail[unknown[0]]
            one_sign = bool(np.all(fact.lower >= 0.0) or np.all(fact.upper <= 0.0))
            return one_sign and self.open(unknown[0], -sign)
        return self.open(unknown[0], sign)


_MIRRORED: dict[type, Any] = {ps.EQ: ps.eq, ps.GT: ps.lt, ps.GE: ps.le, ps.LT: ps.gt, ps.LE: ps.ge}


def _isolated(x: Variable, c: float) -> tuple[Variable, float, bool] | None:
    """x op c as y op' c' for a part y of x, without rounding; and whether the order reverses."""
    node, op = x.owner, scalar_op(x)
    if node is None or len(node.inputs) > 2 or not np.isfinite(c):
        return None
    if isinstance(op, ps.Exp) and c == 1.0:
        return node.inputs[0], 0.0, False
    if isinstance(op, ps.Neg):
        return node.inputs[0], -c, True
    if len(node.inputs) != 2:
        return None
    for y, k, first in ((*node.inputs, False), (*node.inputs[::-1], True)):
        number = constant_number(k)
        if number is None or constant_number(y) is not None:
            continue
        if (
            isinstance(op, ps.Mul)
            and number != 0.0
            and Fraction(c) / Fraction(number) == c / number
        ):
            return y, c / number, number < 0.0
        if isinstance(op, ps.Add) and Fraction(c) - Fraction(number) == Fraction(c - number):
            return y, c - number, False
        exact = Fraction(number) - Fraction(c) == Fraction(number - c)
        if isinstance(op, ps.Sub) and first and exact:
            return y, number - c, True
        if isinstance(op, ps.TrueDiv) and first and c == 0.0 and number > 0.0:
            return y, 0.0, False  # the sign of a reciprocal
    return None
