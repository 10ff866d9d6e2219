"""Specialization of a graph to a box: proved conditions and decided switches are left out.

A condition that one propagation over the box cannot prove is proved on the pieces of a
subdivision. What cancels in every difference log p(x | t) - log p(y | t) - log p(x | t') + log
p(y | t') is left out too (`interaction_terms`): intervals would count it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.logic import truth_value
from pymc_private.analysis.intervals.propagation import Trail, propagate_bounds
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.rewrites.small_matrices import write_out_matrices
from pymc_private.analysis.traversal import rebuild, scalar_op

MOST_PIECES, MOST_COORDINATES = 4096, 12


def holds_on_subdivision(condition: Variable, box: Mapping[Variable, Bounds]) -> bool:
    """Whether a condition is true everywhere on a box, proved piece by piece.

    Parameters
    ----------
    condition : Variable
    box : mapping of Variable to Interval
        Of every input.

    Returns
    -------
    bool
        False where it is not proved with `MOST_PIECES` pieces. The pieces cover the box, so what
        holds on each of them holds on it.
    """
    read = set(ancestors([condition]))
    leaves = [v for v in box if v in read]
    pieces = _Subdivision(leaves, box)
    if not leaves or pieces.count > MOST_COORDINATES or not pieces.is_finite:
        return False
    many = {
        v: pt.TensorType(v.type.dtype, shape=(None, *v.type.shape))(name=v.name) for v in leaves
    }
    try:
        (graph,) = vectorize_graph([condition], replace=many)
    except NotImplementedError:
        return False
    lower, upper, tried = pieces.lower[None], pieces.upper[None], 0
    while len(lower):
        tried += len(lower)
        given = {many[v]: fact for v, fact in pieces.facts(lower, upper).items()}
        proved = np.asarray(truth_value(propagate_bounds([graph], given)[graph]).lower)
        proved = np.broadcast_to(proved.reshape(*proved.shape[:1], -1).all(-1), len(lower))
        lower, upper, parted = pieces.halved(lower[~proved], upper[~proved])
        if not parted or tried + len(lower) > MOST_PIECES:
            return False
    return True


class _Subdivision:
    """Boxes as rows of ends, one number for each entry of each variable."""

    def __init__(self, leaves: list[Variable], box: Mapping[Variable, Bounds]) -> None:
        self._leaves, self._shapes = leaves, [np.shape(box[v].lower) for v in leaves]
        ends = [(np.ravel(box[v].lower), np.ravel(box[v].upper)) for v in leaves]
        self.lower = np.concatenate([low for low, _ in ends] or [np.empty(0)]).astype(float)
        self.upper = np.concatenate([high for _, high in ends] or [np.empty(0)]).astype(float)
        whole = [
            np.full(len(low), _is_integer(v)) for v, (low, _) in zip(leaves, ends, strict=True)
        ]
        self._whole = np.concatenate(whole or [np.empty(0, bool)])
        self.count = len(self.lower)
        self.is_finite = bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    def facts(self, lower: np.ndarray, upper: np.ndarray) -> dict[Variable, Bounds]:
        """Intervals of the variables, all pieces along a leading axis."""
        found, start = {}, 0
        for variable, shape in zip(self._leaves, self._shapes, strict=True):
            place = slice(start, start := start + int(np.prod(shape)))
            low, high = (end[:, place].reshape(len(lower), *shape) for end in (lower, upper))
            found[variable] = Bounds(low, high)
        return found

    def halved(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Both halves of each piece, across its relatively widest coordinate; whether all part."""
        rows = np.arange(len(lower))
        width = self.upper - self.lower
        share = (upper - lower) / np.where(width > 0.0, width, 1.0)
        axis = share.argmax(axis=1)
        middle = lower[rows, axis] / 2 + upper[rows, axis] / 2
        whole = self._whole[axis]
        left, right = upper.copy(), lower.copy()
        left[rows, axis] = np.where(whole, np.floor(middle), middle)
        right[rows, axis] = np.where(whole, np.floor(middle) + 1.0, middle)
        parted = bool(np.all(left[rows, axis] < upper[rows, axis]))
        return np.concatenate([lower, right]), np.concatenate([left, upper]), parted


def _is_integer(variable: Variable) -> bool:
    return not str(variable.type.dtype).startswith("float")


def specialize(value: Variable, box: Mapping[Variable, Bounds]) -> Variable:
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
    plain = write_out_matrices(value, list(box))
    value = value if plain is value else simplify([plain])[0]
    trail = propagate_bounds([value], box)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, CheckAndRaise):
            return inputs[0] if _all_proved(trail, node.inputs[1:], box) else None
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, ps.Switch):
            return _if_same_type(_decided_branch(node, inputs, trail), node.outputs[0])
        return None

    special = rebuild([value], {v: v for v in box}, rule)
    return _split_logs_and_roots(value if special[0] is value else simplify(special)[0], box)


def _all_proved(trail: Trail, conditions: list[Variable], box: Mapping[Variable, Bounds]) -> bool:
    """Whether every condition is certain, on the box or on pieces that cover it."""
    return all(
        bool(np.all(np.equal(trail[c].lower, True))) or holds_on_subdivision(c, box)
        for c in conditions
    )


def _split_logs_and_roots(value: Variable, box: Mapping[Variable, Bounds]) -> Variable:
    """The same function where factors are known to be positive, each number once.

    log(a b / c) is log a + log b - log c, and sqrt(a^2) is a.
    """
    found = [v for v in ancestors([value]) if _split_form(v) is not None]
    if not found:
        return value
    trail = propagate_bounds([value], box)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        out = node.outputs[0]
        if out not in found or inputs != node.inputs:
            return None
        parts, form = _split_form(out)  # type: ignore[misc]
        if not all(np.all(trail[v].lower > 0.0) for v in parts):
            return None
        return _if_same_type(form, out)

    parted = rebuild([value], {v: v for v in box}, rule)
    return value if parted[0] is value else simplify(parted)[0]


def _split_form(variable: Variable) -> tuple[list[Variable], Variable] | None:
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
        isinstance(inner, ps.Pow) and _number_behind_axes(square.owner.inputs[1]) == 2.0
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


def _decided_branch(node: Apply, inputs: list[Variable], trail: Trail) -> Variable | None:
    """The branch that a switch always takes on the box, but for a point where both agree."""
    condition = trail[node.inputs[0]]
    if str(node.inputs[0].type.dtype) != "bool":
        return None
    if np.all(condition.lower):
        return inputs[1]
    if not np.any(condition.upper) or _equals_other_branch(node, trail):
        return inputs[2]
    return None


def _equals_other_branch(node: Apply, trail: Trail) -> bool:
    """Whether switch(u == c, 0, E) is E: E is a finite multiple of u - c, so it is 0 at u = c."""
    condition, zero, other = node.inputs
    equality = condition.owner
    if equality is None or not isinstance(getattr(equality.op, "scalar_op", None), ps.EQ):
        return False
    if not (_number_behind_axes(zero) == 0.0 and trail[other].is_finite):
        return False
    for u, c in (equality.inputs, equality.inputs[::-1]):
        number = _number_behind_axes(c)
        if number is not None and any(_is_offset(f, u, number) for f in _factors(other)):
            return True
    return False


def _number_behind_axes(variable: Variable) -> float | None:
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
        return _same_up_to_axes(first, u) and _number_behind_axes(second) == number
    if isinstance(op, ps.Add):
        pairs = ((first, second), (second, first))
        return any(_same_up_to_axes(a, u) and _number_behind_axes(b) == -number for a, b in pairs)
    return False


def _same_up_to_axes(first: Variable, second: Variable) -> bool:
    """Whether two variables are one, whatever axes they were given."""
    plain = []
    for variable in (first, second):
        while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
            variable = variable.owner.inputs[0]
        plain.append(variable)
    return first is second or (plain[0] is plain[1] and plain[0].type.ndim == 0)


def _if_same_type(branch: Variable | None, out: Variable) -> Variable | None:
    """The branch, if it has the shape and type of the whole."""
    if branch is None or branch.type.dtype != out.type.dtype:
        return None
    return branch if branch.type.broadcastable == out.type.broadcastable else None


def interaction_terms(
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

    joint = _interaction_part(value, is_joint)
    return value if joint is value else simplify([joint])[0]


def _interaction_part(value: Variable, is_joint: Callable[[Variable], bool]) -> Variable:
    """The joint terms of a sum, of sums of sums, and so on down."""
    node = value.owner
    if not is_joint(value):
        return pt.zeros_like(value)
    if node is None:
        return value
    op = getattr(node.op, "scalar_op", None)
    if isinstance(node.op, Sum | DimShuffle) or isinstance(op, ps.Neg):
        inner = _interaction_part(node.inputs[0], is_joint)
        return value if inner is node.inputs[0] else node.op(inner)
    if not isinstance(op, ps.Add | ps.Sub):
        return value
    signs = [-1 if isinstance(op, ps.Sub) and k else 1 for k in range(len(node.inputs))]
    kept = [(s, v) for s, v in zip(signs, node.inputs, strict=True) if is_joint(v)]
    inner = [_interaction_part(v, is_joint) for _, v in kept]
    if inner == node.inputs:
        return value
    parts = [v if s > 0 else -v for (s, _), v in zip(kept, inner, strict=True)]
    if not parts:  # a term of records plus a term of parameters
        return pt.zeros_like(value)
    total = parts[0] if len(parts) == 1 else pt.add(*parts)
    return total if total.type.broadcastable == value.type.broadcastable else value
