"""What real arithmetic decides that intervals with infinite ends leave open.

On the whole line e^u has the interval [0, inf], and so an interval cannot tell that e^u = 0 never
happens; nor that a finite number is not infinite. A parameter is a real number, so both are false.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
import pytensor.tensor.special as ts
from collections.abc import Mapping
from fractions import Fraction
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pymc_private.analysis.intervals.propagation import Trail, bounds
from pymc_private.analysis.intervals.ops import OnSimplex
from pymc_private.analysis.rewrites.unbounded__exponents import by_exponents, number_of
from pymc_private.analysis.intervals.interval import Interval, SimplexRows
from pymc_private.analysis.traversal import scalar_op
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.rewrites.specialize import specialize

RISING = (ps.Exp, ps.Expm1, psm.Sigmoid, psm.Softplus, psm.Erf, ps.Tanh, ps.ArcTan)
FALLING = (psm.Erfc, psm.Erfcx)
LIMITS: dict[type, tuple[float, float]] = {
    ps.Exp: (0.0, np.inf),
    psm.Sigmoid: (0.0, 1.0),
    psm.Softplus: (0.0, np.inf),
    psm.Erf: (-1.0, 1.0),
    ps.Tanh: (-1.0, 1.0),
    psm.Erfc: (0.0, 2.0),
    psm.Erfcx: (0.0, np.inf),
}
"""What no real number attains; an end that rounding has moved there is not attained either."""


def specialize_on_line(value: Variable, box: Mapping[Variable, Interval]) -> Variable:
    """`specialize` for boxes with infinite ends that no input attains.

    Parameters
    ----------
    value : Variable
    box : mapping of Variable to Interval
        Of every input.

    Returns
    -------
    Variable
        Equal to `value` for all real inputs in the box (real arithmetic).
    """
    found = by_exponents(value)
    value = simplify([value])[0] if found is value else found
    for _ in range(NESTED):
        before, value = value, _decided(value, box)
        if value is before:
            break
    return by_exponents(specialize(value, box))


NESTED = 4
"""Choices in choices that are looked at: what one decides may decide the next."""


def _decided(value: Variable, box: Mapping[Variable, Interval]) -> Variable:
    """The graph without comparisons that always come out alike, or the graph itself."""
    trail = bounds([value], dict(box) | _softmax_facts(value))
    edges = _Edges(trail)
    found = []

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        answer = edges.decide(node)
        if answer is None:
            return None
        found.append(answer)
        return pt.ones_like(node.outputs[0]) if answer else pt.zeros_like(node.outputs[0])

    decided = rebuild([value], {v: v for v in box}, rule)[0]
    return specialize(decided, box) if found else value


def _softmax_facts(value: Variable) -> dict[Variable, Interval]:
    """Rows of a softmax of real numbers lie on the simplex, and so do rows proved to be there."""
    found = {}
    for variable in ancestors([value]):
        node, shape = variable.owner, variable.type.shape if variable.owner else ()
        if node is None or None in shape or not isinstance(node.op, ts.Softmax | OnSimplex):
            continue
        slack = getattr(node.op, "slack", 0.0)
        axis = getattr(node.op, "axis", -1)
        if (axis if isinstance(axis, tuple) else (axis,)) in ((-1,), (variable.type.ndim - 1,)):
            rows = SimplexRows(slack=slack)
            found[variable] = Interval(np.zeros(shape), np.full(shape, 1.0 + slack), rows)
    return found


class _Edges:
    """Whether the ends of intervals are attained."""

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
            number = number_of(second)
            if number is not None:
                return self._compare(op, first, number)
            number = number_of(first)
            return None if number is None else self._compare(_MIRROR[type(op)], second, number)
        return None

    def _compare(self, op: ps.ScalarOp, x: Variable, c: float) -> bool | None:
        """The truth of x op c."""
        while x.owner is not None and isinstance(x.owner.op, DimShuffle):
            x = x.owner.inputs[0]
        inner = _without_number(x, c)
        if inner is not None:
            x, c, falls = inner
            op = _MIRROR[type(op)] if falls else op
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
    def _weakly(op: ps.ScalarOp, fact: Interval, c: float) -> bool | None:
        """Where equality is possible."""
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

    def _scores_are_real(self, node: Apply) -> bool:
        """Whether no score of a softmax is infinite; the trail may begin at its shares."""
        (scores,) = node.inputs
        if scores not in self.trail.facts:
            self.trail.facts.update(bounds([scores], self.trail.given).facts)
        return self._is_real(scores)

    def open(self, variable: Variable, side: int) -> bool:
        """Whether the lower (side -1) or upper (side 1) end of a node is never attained."""
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
        if isinstance(node.op, ts.Softmax):  # of real numbers no share is zero
            return side < 0 and bool(np.all(fact.lower <= 0.0)) and self._scores_are_real(node)
        op = getattr(node.op, "scalar_op", None)
        low, high = LIMITS.get(type(op), (-np.inf, np.inf))
        if np.all(fact.lower <= low) if side < 0 else np.all(fact.upper >= high):
            return True
        if isinstance(op, RISING):
            return self.open(node.inputs[0], side)
        if isinstance(op, (*FALLING, ps.Neg)):
            return self.open(node.inputs[0], -side)
        if isinstance(op, ps.Add):
            return any(self.open(v, side) for v in node.inputs)
        if isinstance(op, ps.Sub):
            return self.open(node.inputs[0], side) or self.open(node.inputs[1], -side)
        if isinstance(op, ps.Mul | ps.TrueDiv):
            return self._open_multiple(node, side)
        return False

    def _open_multiple(self, node: Apply, side: int) -> bool:
        """c x, x / c and c / x for a number c that is not 0, and x of one sign."""
        numbers = [number_of(v) for v in node.inputs]
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


_MIRROR: dict[type, Any] = {ps.EQ: ps.eq, ps.GT: ps.lt, ps.GE: ps.le, ps.LT: ps.gt, ps.LE: ps.ge}


def _without_number(x: Variable, c: float) -> tuple[Variable, float, bool] | None:
    """x op c as y op' c' for a part y of x, without rounding; and whether the order turns."""
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
        number = number_of(k)
        if number is None or number_of(y) is not None:
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
