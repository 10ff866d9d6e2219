"""The form of a graph on a box: what is proved there is left out.

What cancels in every difference log p(x | t) - log p(y | t) - log p(x | t') + log p(y | t') is left
out too: intervals would count it twice.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Callable, Collection, Mapping
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pymc_private.analysis.intervals.propagation import Trail, bounds
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.traversal import scalar_op
from pymc_private.analysis.rewrites.small_matrices import written_out
from pymc_private.analysis.rewrites.specialize__pieces import holds_in_pieces
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.rewrites.canonical import simplify

def specialize(value: Variable, box: Mapping[Variable, Interval]) -> Variable:
    """The same function on a box, without proved conditions and without decided switches.

    Parameters
    ----------
    value : Variable
    box : mapping of Variable to Interval
        Of every input.

    Returns
    -------
    Variable
        Equal to `value` wherever the inputs lie in the box (real arithmetic).
    """
    plain = written_out(value, list(box))
    value = value if plain is value else simplify([plain])[0]
    trail = bounds([value], box)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, CheckAndRaise):
            return inputs[0] if _all_true(trail, node.inputs[1:], box) else None
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, ps.Switch):
            return _fitting(_branch(node, inputs, trail), node.outputs[0])
        return None

    special = rebuild([value], {v: v for v in box}, rule)
    return _by_sign(value if special[0] is value else simplify(special)[0], box)


def _all_true(trail: Trail, conditions: list[Variable], box: Mapping[Variable, Interval]) -> bool:
    """Whether every condition is certain, on the box or on pieces that cover it."""
    return all(
        bool(np.all(np.equal(trail[c].lower, True))) or holds_in_pieces(c, box) for c in conditions
    )


def _by_sign(value: Variable, box: Mapping[Variable, Interval]) -> Variable:
    """The same function where factors are known to be positive, each number once.

    log(a b / c) is log a + log b - log c, and sqrt(a^2) is a.
    """
    found = [v for v in ancestors([value]) if _parted(v) is not None]
    if not found:
        return value
    trail = bounds([value], box)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        out = node.outputs[0]
        if out not in found or inputs != node.inputs:
            return None
        parts, form = _parted(out)  # type: ignore[misc]
        if not all(np.all(trail[v].lower > 0.0) for v in parts):
            return None
        return _fitting(form, out)

    parted = rebuild([value], {v: v for v in box}, rule)
    return value if parted[0] is value else simplify(parted)[0]


def _parted(variable: Variable) -> tuple[list[Variable], Variable] | None:
    """What must be positive for another form of a logarithm or a root, and that form."""
    op = scalar_op(variable)
    if isinstance(op, ps.Log):
        factors = _signed_factors(variable.owner.inputs[0], 1)
        terms = [pt.log(v) if sign > 0 else -pt.log(v) for v, sign in factors]
        return ([v for v, _ in factors], pt.add(*terms)) if len(terms) > 1 else None
    if not isinstance(op, ps.Sqrt):
        return None
    square = variable.owner.inputs[0]
    inner = scalar_op(square)
    if isinstance(inner, ps.Sqr) or (
        isinstance(inner, ps.Pow) and _constant(square.owner.inputs[1]) == 2.0
    ):
        return [square.owner.inputs[0]], square.owner.inputs[0]
    return None


def _signed_factors(variable: Variable, sign: int) -> list[tuple[Variable, int]]:
    """The factors of a product, and with -1 those it is divided by."""
    op = scalar_op(variable)
    if not isinstance(op, ps.Mul | ps.TrueDiv):
        return [(variable, sign)]
    signs = [-sign if isinstance(op, ps.TrueDiv) and k else sign for k in range(2)]
    inputs = variable.owner.inputs
    signs += [sign] * (len(inputs) - 2)
    return [pair for v, s in zip(inputs, signs, strict=True) for pair in _signed_factors(v, s)]


def _branch(node: Apply, inputs: list[Variable], trail: Trail) -> Variable | None:
    """The branch that a switch always takes on the box, but for a point where both agree."""
    condition = trail[node.inputs[0]]
    if str(node.inputs[0].type.dtype) != "bool":
        return None
    if np.all(condition.lower):
        return inputs[1]
    if not np.any(condition.upper) or _agrees(node, trail):
        return inputs[2]
    return None


def _agrees(node: Apply, trail: Trail) -> bool:
    """Whether switch(u == c, 0, E) is E: E is a finite multiple of u - c, so it is 0 at u = c."""
    condition, zero, other = node.inputs
    equality = condition.owner
    if equality is None or not isinstance(getattr(equality.op, "scalar_op", None), ps.EQ):
        return False
    if not (_constant(zero) == 0.0 and trail[other].is_finite):
        return False
    for u, c in (equality.inputs, equality.inputs[::-1]):
        number = _constant(c)
        if number is not None and any(_is_offset(f, u, number) for f in _factors(other)):
            return True
    return False


def _constant(variable: Variable) -> float | None:
    """The one number a constant holds, whatever axes it was given."""
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        return float(np.asarray(variable.data).item())
    return None


def _factors(variable: Variable) -> list[Variable]:
    """The factors of a product."""
    node = variable.owner
    if node is not None and isinstance(getattr(node.op, "scalar_op", None), ps.Mul):
        return [factor for part in node.inputs for factor in _factors(part)]
    return [variable]


def _is_offset(factor: Variable, u: Variable, number: float) -> bool:
    """Whether a factor is u - c, in either of the forms PyTensor gives it."""
    node = factor.owner
    if node is None or len(node.inputs) != 2:
        return False
    op, (first, second) = getattr(node.op, "scalar_op", None), node.inputs
    if isinstance(op, ps.Sub):
        return _same(first, u) and _constant(second) == number
    if isinstance(op, ps.Add):
        pairs = ((first, second), (second, first))
        return any(_same(a, u) and _constant(b) == -number for a, b in pairs)
    return False


def _same(first: Variable, second: Variable) -> bool:
    """Whether two variables are one, whatever axes they were given."""
    plain = []
    for variable in (first, second):
        while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
            variable = variable.owner.inputs[0]
        plain.append(variable)
    return first is second or (plain[0] is plain[1] and plain[0].type.ndim == 0)


def _fitting(branch: Variable | None, out: Variable) -> Variable | None:
    """The branch, if it has the shape and type of the whole."""
    if branch is None or branch.type.dtype != out.type.dtype:
        return None
    return branch if branch.type.broadcastable == out.type.broadcastable else None


def joint_terms(
    value: Variable, records: Collection[Variable], parameters: Collection[Variable]
) -> Variable:
    """`value` without the terms that read only records, or only parameters.

    They cancel in the differences that a range is made of, but not in interval arithmetic.

    Parameters
    ----------
    value : Variable, scalar
        log p(record | parameters).
    records, parameters : collections of Variable
        Inputs.

    Returns
    -------
    Variable, scalar
    """

    def is_joint(term: Variable) -> bool:
        read = set(ancestors([term]))
        return not read.isdisjoint(records) and not read.isdisjoint(parameters)

    joint = _joint(value, is_joint)
    return value if joint is value else simplify([joint])[0]


def _joint(value: Variable, is_joint: Callable[[Variable], bool]) -> Variable:
    """The joint terms of a sum, of sums of sums, and so on down."""
    node = value.owner
    if not is_joint(value):
        return pt.zeros_like(value)
    if node is None:
        return value
    op = getattr(node.op, "scalar_op", None)
    if isinstance(node.op, Sum | DimShuffle) or isinstance(op, ps.Neg):
        inner = _joint(node.inputs[0], is_joint)
        return value if inner is node.inputs[0] else node.op(inner)
    if not isinstance(op, ps.Add | ps.Sub):
        return value
    signs = [-1 if isinstance(op, ps.Sub) and k else 1 for k in range(len(node.inputs))]
    kept = [(s, v) for s, v in zip(signs, node.inputs, strict=True) if is_joint(v)]
    inner = [_joint(v, is_joint) for _, v in kept]
    if inner == node.inputs:
        return value
    parts = [v if s > 0 else -v for (s, _), v in zip(kept, inner, strict=True)]
    if not parts:  # a term of records plus a term of parameters
        return pt.zeros_like(value)
    total = parts[0] if len(parts) == 1 else pt.add(*parts)
    return total if total.type.broadcastable == value.type.broadcastable else value
