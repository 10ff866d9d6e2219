"""Specialization of a graph to a box: proved conditions and decided switches are left out.

A condition that one propagation over the box cannot prove may be proved on the pieces of a
subdivision. `interaction_terms` leaves out what cancels in every difference

    log p(x | t) - log p(y | t) - log p(x | t') + log p(y | t'),

which interval arithmetic would count twice.
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

from pymc_private.analysis.branch_and_bound import halve_boxes
from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.logic import truth_value
from pymc_private.analysis.intervals.propagation import Trail, propagate_bounds
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.rewrites.small_matrices import write_out_matrices
from pymc_private.analysis.traversal import (
    is_substitute,
    rebuild,
    scalar_op,
    without_dimshuffles,
)


def specialize(value: Variable, box: Mapping[Variable, Bounds]) -> Variable:
    """The same function on a box, without proved conditions and without decided switches.

    `box` has the bounds of every input. In real arithmetic the graph is equal to `value` wherever
    the inputs lie in the box.
    """
    plain = write_out_matrices(value, list(box))
    value = value if plain is value else simplify([plain])[0]
    trail = propagate_bounds([value], box)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, CheckAndRaise):
            return inputs[0] if _all_proved(trail, node.inputs[1:], box) else None
        if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, ps.Switch):
            branch = _decided_branch(node, inputs, trail)
            fits = branch is not None and is_substitute(branch, node.outputs[0])
            return branch if fits else None
        return None

    special = rebuild([value], {v: v for v in box}, rule)
    return _split_logs_and_roots(value if special[0] is value else simplify(special)[0], box)


def _decided_branch(node: Apply, inputs: list[Variable], trail: Trail) -> Variable | None:
    """The branch that a switch always takes on the box, or equals wherever it takes the other."""
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
    """The number that a constant holds, whatever axes it was given."""
    variable = without_dimshuffles(variable)
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
    """Whether two variables are one, or the same scalar with other axes."""
    one, other = without_dimshuffles(first), without_dimshuffles(second)
    return first is second or (one is other and one.type.ndim == 0)


def _split_logs_and_roots(value: Variable, box: Mapping[Variable, Bounds]) -> Variable:
    """The same function with logarithms and roots split where factors are proved positive.

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
        return form if is_substitute(form, out) else None

    split = rebuild([value], {v: v for v in box}, rule)
    return value if split[0] is value else simplify(split)[0]


def _split_form(variable: Variable) -> tuple[list[Variable], Variable] | None:
    """The split form of a logarithm or a root, and before it what must be positive for it."""
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
    """The factors of a product with sign 1, and those it is divided by with sign -1."""
    op = scalar_op(variable)
    if not isinstance(op, ps.Mul | ps.TrueDiv):
        return [(variable, sign)]
    signs = [-sign if isinstance(op, ps.TrueDiv) and k else sign for k in range(2)]
    inputs = variable.owner.inputs
    signs += [sign] * (len(inputs) - 2)
    return [pair for v, s in zip(inputs, signs, strict=True) for pair in _signed_factors(v, s)]


# ---- conditions on subdivisions --------------------------------------------------------------


MOST_PIECES, MOST_COORDINATES = 4096, 12
"""Pieces that a box is cut into, and coordinates of a box that is cut."""


def _all_proved(trail: Trail, conditions: list[Variable], box: Mapping[Variable, Bounds]) -> bool:
    """Whether every condition is certain, on the box or on pieces that cover it."""
    return all(
        bool(np.all(np.equal(trail[c].lower, True))) or holds_on_subdivision(c, box)
        for c in conditions
    )


def holds_on_subdivision(condition: Variable, box: Mapping[Variable, Bounds]) -> bool:
    """Whether a condition is true everywhere on a box, proved piece by piece.

    False where it is not proved with `MOST_PIECES` pieces. The pieces cover the box, so what holds
    on each of them holds on it.
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
        lower, upper, divided = pieces.halved(lower[~proved], upper[~proved])
        if not divided or tried + len(lower) > MOST_PIECES:
            return False
    return True


class _Subdivision:
    """Boxes as rows of lower and of upper bounds, a number for each entry of each variable."""

    def __init__(self, leaves: list[Variable], box: Mapping[Variable, Bounds]) -> None:
        self._leaves, self._shapes = leaves, [np.shape(box[v].lower) for v in leaves]
        pairs = [(np.ravel(box[v].lower), np.ravel(box[v].upper)) for v in leaves]
        self.lower = np.concatenate([low for low, _ in pairs] or [np.empty(0)]).astype(float)
        self.upper = np.concatenate([high for _, high in pairs] or [np.empty(0)]).astype(float)
        whole = [
            np.full(len(low), _is_integer(v)) for v, (low, _) in zip(leaves, pairs, strict=True)
        ]
        self._whole = np.concatenate(whole or [np.empty(0, bool)])
        self.count = len(self.lower)
        self.is_finite = bool(np.isfinite(self.lower).all() and np.isfinite(self.upper).all())

    def facts(self, lower: np.ndarray, upper: np.ndarray) -> dict[Variable, Bounds]:
        """Bounds of the variables, all pieces along a leading axis."""
        found, start = {}, 0
        for variable, shape in zip(self._leaves, self._shapes, strict=True):
            columns = slice(start, start := start + int(np.prod(shape)))
            low, high = (b[:, columns].reshape(len(lower), *shape) for b in (lower, upper))
            found[variable] = Bounds(low, high)
        return found

    def halved(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray, bool]:
        """Both halves of each piece across its relatively widest coordinate; whether all divide."""
        width = self.upper - self.lower
        share = (upper - lower) / np.where(width > 0.0, width, 1.0)
        axis = share.argmax(axis=1)
        left, right = halve_boxes(lower, upper, axis, self._whole)
        rows = np.arange(len(lower))
        divided = bool(np.all(left[rows, axis] < upper[rows, axis]))
        return np.concatenate([lower, right]), np.concatenate([left, upper]), divided


def _is_integer(variable: Variable) -> bool:
    """Whether the values of a variable are integers."""
    return not str(variable.type.dtype).startswith("float")


# ---- interaction terms -----------------------------------------------------------------------


def interaction_terms(
    value: Variable, records: Collection[Variable], parameters: Collection[Variable]
) -> Variable:
    """A scalar log p(record | parameters) without terms of records alone or of parameters alone.

    Such terms cancel in the differences that a range is made of, but not in interval arithmetic.
    """

    def is_interaction(term: Variable) -> bool:
        read = set(ancestors([term]))
        return not read.isdisjoint(records) and not read.isdisjoint(parameters)

    part = _interaction_part(value, is_interaction)
    return value if part is value else simplify([part])[0]


def _interaction_part(value: Variable, is_interaction: Callable[[Variable], bool]) -> Variable:
    """The interaction terms of a sum, of sums in it, and so on down."""
    node = value.owner
    if not is_interaction(value):
        return pt.zeros_like(value)
    if node is None:
        return value
    op = getattr(node.op, "scalar_op", None)
    if isinstance(node.op, Sum | DimShuffle) or isinstance(op, ps.Neg):
        inner = _interaction_part(node.inputs[0], is_interaction)
        return value if inner is node.inputs[0] else node.op(inner)
    if not isinstance(op, ps.Add | ps.Sub):
        return value
    signs = [-1 if isinstance(op, ps.Sub) and k else 1 for k in range(len(node.inputs))]
    kept = [(s, v) for s, v in zip(signs, node.inputs, strict=True) if is_interaction(v)]
    inner = [_interaction_part(v, is_interaction) for _, v in kept]
    if inner == node.inputs:
        return value
    parts = [v if s > 0 else -v for (s, _), v in zip(kept, inner, strict=True)]
    if not parts:  # a term of records plus a term of parameters
        return pt.zeros_like(value)
    total = parts[0] if len(parts) == 1 else pt.add(*parts)
    return total if total.type.broadcastable == value.type.broadcastable else value
