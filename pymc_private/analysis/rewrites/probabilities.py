"""Rewrites that recognize probabilities of intervals, ordinal categories and weights.

Each replaces an expression by an equal one (in real arithmetic, where the expression is a
number). PyMC writes sqrt(2) in single precision. Its function of z is then Phi of z times a
number near one, which is kept; so its categories sum to one but for 1e-6.

Ordinal probabilities are differences of a sigmoid, or pieces of a broken stick; weights such as
(s, 1 - s) sum to one by how they are written. Such vectors are marked as rows on the simplex.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Prod
from pytensor.tensor.subtensor import Subtensor

from pymc_private.analysis.continuity import never_infinite
from pymc_private.analysis.intervals.ops import (
    OnSimplex,
    equal_forms,
    log_phi_between,
    log_phi_gap,
    log_sigmoid_gap,
    on_simplex,
    power_step,
)
from pymc_private.analysis.traversal import (
    Monomial,
    arrays_joined_last,
    as_monomial,
    constant_slice,
    library_class_name,
    match_pattern,
    same_variable,
    scalar_op,
    without_dimshuffles,
    without_leading_axes,
)

Pattern = tuple[Variable, tuple[Variable, ...]]
"""A graph and its free variables."""


def _match_monomials(pattern: Pattern, graph: Variable) -> tuple[Monomial, ...] | None:
    """What the free variables of a pattern stand for, in order."""
    found = match_pattern(pattern[0], graph, pattern[1])
    return None if found is None else tuple(found[v] for v in pattern[1])


def _canonicalize(pattern: Variable) -> Variable:
    """A pattern in PyTensor's canonical form."""
    return rewrite_graph(pattern, include=("canonicalize", "stabilize"), clone=False)


def _if_same_rank(new: Variable, old: Variable) -> list[Variable] | None:
    """The replacement, if it has the data type and the number of axes of the old expression."""
    same = old.type.dtype == new.type.dtype and old.type.ndim == new.type.ndim
    return [new] if same else None


def is_on_simplex(graph: FunctionGraph, node: Apply) -> bool:
    """Whether a node is known already to give rows that sum to one."""
    clients = graph.clients[node.outputs[0]]
    return any(isinstance(getattr(client, "op", None), OnSimplex) for client, _ in clients)


# ---- the normal distribution function --------------------------------------------------------


@cache
def _log_normal_difference(exact: bool = True) -> Pattern:
    """log(2 Phi(a) - 2 Phi(b)) as PyMC's `log_diff_normal_cdf` writes it, for a > b."""
    a, b = pt.dvectors("ab")
    root = pt.constant(np.sqrt(2.0)) if exact else pt.sqrt(2.0)
    x, y = a / root, b / root
    above = -pt.square(y) + pt.log(pt.erfcx(y) - pt.exp(pt.square(y) - pt.square(x)) * pt.erfcx(x))
    below = -pt.square(x) + pt.log(
        pt.erfcx(-x) - pt.exp(pt.square(x) - pt.square(y)) * pt.erfcx(-y)
    )
    between = pt.log(pt.erf(x) - pt.erf(y))
    whole = pt.switch(pt.gt(y, 0), above, pt.switch(pt.lt(x, 0), below, between))
    return _canonicalize(whole), (a, b)


@cache
def _log_normal_tail(sign: int) -> Pattern:
    """log Phi(z) for sign 1, log(1 - Phi(z)) for -1, as PyMC's `normal_lcdf`, `normal_lccdf`."""
    z = pt.dvector("z")
    tail, inner = (-z, z) if sign > 0 else (z, -z)
    whole = pt.switch(
        pt.lt(z, -1.0) if sign > 0 else pt.gt(z, 1.0),
        pt.log(pt.erfcx(tail / pt.sqrt(2.0)) / 2.0) - pt.sqr(z) / 2.0,
        pt.log1p(-pt.erfc(inner / pt.sqrt(2.0)) / 2.0),
    )
    return _canonicalize(whole), (z,)


@node_rewriter([Elemwise])
def normal_differences(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(Phi(a) - Phi(b)) as a function of b and the gap a - b."""
    if not isinstance(node.op.scalar_op, ps.Switch):
        return None
    found = _match_monomials(_log_normal_difference(), node.outputs[0])
    if found is None:
        return None
    return _if_same_rank(_log_phi_difference(*found) + np.log(2.0), node.outputs[0])


def _log_phi_difference(a: Monomial, b: Monomial) -> Variable:
    """log(Phi(a) - Phi(b)) by b and the gap; where both are over one scale, by a and b as well."""
    scale_a, scale_b = replace(a, numerator=()), replace(b, numerator=())
    if not (len(a.numerator) == len(b.numerator) == 1 and scale_a == scale_b):
        return log_phi_gap(b.as_graph(), a.as_graph() - b.as_graph())
    width = replace(a, numerator=(reduced_difference(a.numerator[0], b.numerator[0]),)).as_graph()
    found = log_phi_gap(b.as_graph(), width)
    if not a.denominator:
        return found
    return equal_forms(found, log_phi_between(a.as_graph(), b.as_graph()))


MOST_CATEGORIES = 32
"""Categories, less two, for which the errors above were added up."""


@node_rewriter([Elemwise])
def normal_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """The probabilities 1 - Phi(v_1), Phi(v_k) - Phi(v_k+1), Phi(v_K): the sum telescopes.

    A factor 1 + d of z, |d| < 2e-8, moves Phi(z) by less than |z| phi(z) d < 5e-9, or in PyMC's
    tails by less than 2e-8; so does the rounding of log(1/2).
    """
    if not isinstance(node.op.scalar_op, ps.Exp) or is_on_simplex(graph, node):
        return None
    parts = arrays_joined_last(without_leading_axes(node.inputs[0]))
    if parts is None or len(parts) != 3:
        return None
    inner = parts[1].type.shape[-1]
    if not inner or inner > MOST_CATEGORIES:
        return None
    first = _match_monomials(_log_normal_tail(-1), parts[0])
    last = _match_monomials(_log_normal_tail(1), parts[2])
    middle = _halved_difference(parts[1])
    if first is None or last is None or middle is None:
        return None
    if not _telescopes((*first, *middle, *last)):
        return None
    return [OnSimplex(1e-6)(node.clone().outputs[0])]


def _halved_difference(variable: Variable) -> tuple[Monomial, ...] | None:
    """a and b of log(1/2) + log(2 Phi(a) - 2 Phi(b))."""
    if not isinstance(scalar_op(variable), ps.Add) or len(variable.owner.inputs) != 2:
        return None
    half, difference = variable.owner.inputs
    number = as_monomial(half)
    if number.numerator or abs(number.coefficient + np.log(2.0)) > 1e-8:
        return None
    return _match_monomials(_log_normal_difference(exact=False), difference)


def _telescopes(arguments: tuple[Monomial, ...]) -> bool:
    """Whether the arguments are v[:1]; v[:-1] and v[1:]; v[-1:], all scaled by the same numbers."""
    first = arguments[0]
    for argument in arguments:
        if len(argument.numerator) != 1 or replace(argument, numerator=first.numerator) != first:
            return False
    slices = [constant_slice(argument.numerator[0]) for argument in arguments]
    shapes = [without_leading_axes(scale).type.shape for scale in first.denominator]
    if any(size != 1 for shape in shapes for size in shape):
        return False
    if slices[0] is None:
        return False
    base, numbers, _ = slices[0]
    wanted = (numbers[..., :1], numbers[..., :-1], numbers[..., 1:], numbers[..., -1:])
    return all(
        take is not None and take[0] is base and np.array_equal(np.atleast_1d(take[2]), want)
        for take, want in zip(slices, wanted, strict=True)
    )


def reduced_difference(a: Variable, b: Variable) -> Variable:
    """a - b without what both have in common."""
    one, other = scalar_op(a), scalar_op(b)
    if type(one) is type(other) and isinstance(one, ps.Sub | ps.TrueDiv):
        (a1, a2), (b1, b2) = a.owner.inputs, b.owner.inputs
        if same_variable(a2, b2):
            rest = reduced_difference(without_leading_axes(a1), without_leading_axes(b1))
            return rest / a2 if isinstance(one, ps.TrueDiv) else rest
        if same_variable(a1, b1) and isinstance(one, ps.Sub):
            return reduced_difference(without_leading_axes(b2), without_leading_axes(a2))
    slices = [constant_slice(v) for v in (a, b)]
    if slices[0] is not None and slices[1] is not None and slices[0][0] is slices[1][0]:
        return _slice_varying_terms(a) - _slice_varying_terms(b)
    return a - b


def _slice_varying_terms(taken: Variable) -> Variable:
    """The slice of what varies along the last axis, where other axes are taken as a whole."""
    base, numbers, found = constant_slice(taken)  # type: ignore[misc]
    varying = varying_terms(base)
    whole = found.shape[:-1] == numbers.shape[:-1] and isinstance(taken.owner.op, Subtensor)
    if not whole or varying is base or found.ndim != numbers.ndim or not found.shape[-1]:
        return taken
    first, count = int(found.flat[0]), found.shape[-1]
    if not np.array_equal(found, numbers[..., first : first + count]):
        return taken
    return varying[..., first : first + count]


def varying_terms(variable: Variable) -> Variable:
    """The variable without the terms that are one number along its last axis."""
    op = scalar_op(variable)
    if isinstance(op, ps.Sub | ps.Add | ps.Neg):
        inputs = variable.owner.inputs
        varying = [varying_terms(v) for v in inputs if not _is_constant_along_last(v)]
        if isinstance(op, ps.Add) and varying:
            return pt.add(*varying) if len(varying) > 1 else varying[0]
        if isinstance(op, ps.Sub) and len(varying) == 1:
            return varying[0] if not _is_constant_along_last(inputs[0]) else -varying[0]
        return variable.owner.op(*varying) if len(varying) == len(inputs) else variable
    return variable


def _is_constant_along_last(variable: Variable) -> bool:
    """Whether a variable is one number along its last axis."""
    return variable.type.ndim == 0 or variable.type.shape[-1] == 1


# ---- the logistic distribution function ------------------------------------------------------


@node_rewriter([Elemwise])
def logistic_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Differences of (0, sigmoid(z), 1) along the last axis: on the simplex, for increasing z."""
    if not isinstance(node.op.scalar_op, ps.Sub):
        return None
    slices = [constant_slice(without_leading_axes(v)) for v in node.inputs]
    if slices[0] is None or slices[1] is None or slices[0][0] is not slices[1][0]:
        return None
    (base, numbers, high), low = slices[0], slices[1][2]
    parts = arrays_joined_last(base)
    if not (np.array_equal(high, numbers[..., 1:]) and np.array_equal(low, numbers[..., :-1])):
        return None
    if (
        parts is None
        or len(parts) != 3
        or not _is_filled_with(parts[0], 0.0)
        or not _is_filled_with(parts[2], 1.0)
    ):
        return None
    if not isinstance(scalar_op(parts[1]), psm.Sigmoid):
        return None
    z = parts[1].owner.inputs[0]
    size = z.type.shape[-1]
    if size is None or any(p.type.shape[-1] != 1 for p in (parts[0], parts[2])):
        return None
    return _padded_left(sigmoid_differences(z), node.outputs[0])


def _padded_left(new: Variable, old: Variable) -> list[Variable] | None:
    """The replacement, with axes in front as the old expression has."""
    return _if_same_rank(pt.shape_padleft(new, old.type.ndim - new.type.ndim), old)


def sigmoid_differences(z: Variable) -> Variable:
    """sigmoid(z_1), sigmoid(z_k+1) - sigmoid(z_k), ..., 1 - sigmoid(z_K), marked as a simplex."""
    logs = [-pt.softplus(-z[..., :1]), -pt.softplus(z[..., -1:])]
    if z.type.shape[-1] != 1:
        v = varying_terms(z)
        logs.insert(1, log_sigmoid_gap(z[..., :-1], v[..., 1:] - v[..., :-1]))
    return on_simplex(pt.exp(pt.concatenate(logs, axis=-1)))


def _is_filled_with(variable: Variable, value: float) -> bool:
    """Whether a variable is a constant array of one number, that value."""
    inner = variable
    while inner.owner is not None and library_class_name(inner.owner.op) in ("Alloc", "DimShuffle"):
        inner = inner.owner.inputs[0]
    return isinstance(inner, Constant) and bool(np.all(inner.data == value))


@node_rewriter([Join])
def cumulative_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """(s_1, s_2 - s_1, ..., 1 - s_K) of s = sigmoid(z): on the simplex, for increasing z."""
    parts = arrays_joined_last(node.outputs[0])
    if parts is None or len(parts) != 3 or is_on_simplex(graph, node):
        return None
    first = constant_slice(parts[0])
    middle, last = _difference_terms(parts[1]), _difference_terms(parts[2])
    if first is None or middle is None or last is None or not _is_one(last[0]):
        return None
    base, numbers, _ = first
    if not isinstance(scalar_op(base), psm.Sigmoid):
        return None
    slices = (parts[0], *middle, last[1])
    wanted = (numbers[..., 0], numbers[..., 1:], numbers[..., :-1], numbers[..., -1])
    pairs = zip(slices, wanted, strict=True)
    if not all(_is_slice_at(part, base, entries) for part, entries in pairs):
        return None
    return _if_compatible_type(sigmoid_differences(base.owner.inputs[0]), node.outputs[0])


def _if_compatible_type(new: Variable, out: Variable) -> list[Variable] | None:
    """The replacement, if it can have the type of the old expression."""
    sizes = zip(new.type.shape, out.type.shape, strict=False)
    same = new.type.dtype == out.type.dtype and new.type.ndim == out.type.ndim
    return [new] if same and all(a == b or None in (a, b) for a, b in sizes) else None


def _difference_terms(variable: Variable) -> tuple[Variable, Variable] | None:
    """a and b of a - b, which may have been given an axis; b is as large as the difference."""
    variable = without_dimshuffles(variable)
    if not isinstance(scalar_op(variable), ps.Sub):
        return None
    first, second = variable.owner.inputs
    return (first, second) if second.type.broadcastable == variable.type.broadcastable else None


def _is_one(variable: Variable) -> bool:
    """Whether a variable is a constant of ones."""
    inner = without_leading_axes(variable)
    return isinstance(inner, Constant) and bool(np.all(inner.data == 1.0))


def _is_slice_at(variable: Variable, base: Variable, entries: np.ndarray) -> bool:
    """Whether a variable is `base` at these entries, in this order."""
    taken = constant_slice(variable)
    return (
        taken is not None
        and taken[0] is base
        and np.array_equal(np.ravel(taken[2]), np.ravel(entries))
    )


@node_rewriter([Elemwise])
def without_boundary_guard(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """switch(sigmoid(z) == 0, a, b) = b, and so at 1: Bambi writes it against rounding."""
    if not isinstance(node.op.scalar_op, ps.Switch):
        return None
    condition, _, other = node.inputs
    if not isinstance(scalar_op(condition), ps.EQ) or other.type != node.outputs[0].type:
        return None
    for one, limit in (condition.owner.inputs, condition.owner.inputs[::-1]):
        number = without_leading_axes(limit)
        at_limit = isinstance(number, Constant) and bool(np.isin(number.data, (0.0, 1.0)).all())
        sigmoid = without_leading_axes(one)
        if at_limit and isinstance(scalar_op(sigmoid), psm.Sigmoid):
            # At an infinite z, such as log(0), the condition holds and is a case of its own.
            return [other] if never_infinite(sigmoid.owner.inputs[0]) else None
    return None


@node_rewriter([Join])
def sequential_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """(s_1, s_2 (1 - s_1), ..., prod_k (1 - s_k)) of s = sigmoid(z): stick-breaking weights."""
    parts = arrays_joined_last(node.outputs[0])
    first = constant_slice(parts[0]) if parts else None
    if parts is None or first is None or is_on_simplex(graph, node):
        return None
    base, numbers, _ = first
    size = numbers.shape[-1]
    if not isinstance(scalar_op(base), psm.Sigmoid) or len(parts) != size + 1:
        return None
    if not _is_slice_at(parts[0], base, numbers[..., 0]) or not _is_stick_remainder(
        parts[-1], base, numbers
    ):
        return None
    if not all(_is_stick_piece(parts[k], base, numbers, k) for k in range(1, size)):
        return None
    z = base.owner.inputs[0]
    kept, left = -pt.softplus(-z), -pt.softplus(z)
    logs = [kept[..., k : k + 1] + left[..., :k].sum(-1, keepdims=True) for k in range(1, size)]
    logs = [kept[..., :1], *logs, left.sum(-1, keepdims=True)]
    return _if_compatible_type(on_simplex(pt.exp(pt.concatenate(logs, axis=-1))), node.outputs[0])


def _is_stick_piece(part: Variable, base: Variable, numbers: np.ndarray, k: int) -> bool:
    """Whether a part is s_k times the product of 1 - s_j over j < k."""
    factors = without_dimshuffles(part)
    if not isinstance(scalar_op(factors), ps.Mul) or len(factors.owner.inputs) != 2:
        return False
    return any(
        _is_slice_at(one, base, numbers[..., k])
        and _is_stick_remainder(other, base, numbers[..., :k])
        for one, other in (factors.owner.inputs, factors.owner.inputs[::-1])
    )


def _is_stick_remainder(part: Variable, base: Variable, entries: np.ndarray) -> bool:
    """Whether a part is the product over the last axis of 1 - s at these entries."""
    product = without_dimshuffles(part)
    node = product.owner
    if node is None or not isinstance(node.op, Prod):
        return False
    axis = node.op.axis if isinstance(node.op.axis, tuple | list) else (node.op.axis,)
    pair = _difference_terms(node.inputs[0])
    if pair is None or tuple(axis) not in ((base.type.ndim - 1,), (-1,)) or not _is_one(pair[0]):
        return False
    whole = pair[1] is base and entries.shape[-1] == base.type.shape[-1]
    return whole or _is_slice_at(pair[1], base, entries)


# ---- weights that sum to one -----------------------------------------------------------------


@node_rewriter([MakeVector, Join])
def complementary_weights(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """A vector (s, ..., 1 - s - ...) whose entries sum to one by how they are written."""
    out = node.outputs[0]
    if is_on_simplex(graph, node):
        return None
    parts = node.inputs if isinstance(node.op, MakeVector) else arrays_joined_last(out)
    if not out.type.dtype.startswith("float") or parts is None or len(parts) < 2:
        return None
    if isinstance(node.op, Join) and any(part.type.shape[-1] != 1 for part in parts):
        return None
    total: dict[Any, Fraction] = {}
    for part in parts:
        _add_terms(part, Fraction(1), total, ())
    if total.pop(1, 0) != 1 or any(total.values()):
        return None
    return [on_simplex(node.clone().outputs[0])]


def _add_terms(
    variable: Variable, factor: Fraction, total: dict[Any, Fraction], axes: tuple
) -> None:
    """Add a linear form to `total`: numbers under the key 1, others under variable and axes."""
    op, inputs = scalar_op(variable), variable.owner.inputs if variable.owner is not None else []
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        number = float(variable.data.item())
        if np.isfinite(number):
            total[1] = total.get(1, Fraction(0)) + factor * Fraction(number)
            return
    if variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        axes = (tuple(variable.owner.op.new_order), *axes) if inputs[0].type.ndim else ()
        return _add_terms(inputs[0], factor, total, axes)
    if isinstance(op, ps.Add | ps.Neg | ps.Sub) and _share_shape(inputs):
        signs = (1, -1) if isinstance(op, ps.Sub) else (-1,) if isinstance(op, ps.Neg) else (1,)
        for k, term in enumerate(inputs):
            _add_terms(term, factor * (signs[k] if k < len(signs) else 1), total, axes)
        return None
    key = (variable, axes)
    total[key] = total.get(key, Fraction(0)) + factor
    return None


def _share_shape(terms: list[Variable]) -> bool:
    """Whether no term but numbers is broadcast to the shape of another."""
    shapes = {
        t.type.broadcastable for t in terms if not isinstance(without_leading_axes(t), Constant)
    }
    return len(shapes) <= 1


# ---- differences of entries ------------------------------------------------------------------


@node_rewriter([Elemwise])
def entrywise_differences(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """(a, a + b) - (c, a) = (a - c, b): vectors of numbers, without what entries have in common.

    Cutpoints written as a first one and gaps have differences that are the gaps, positive if these
    are.
    """
    if not isinstance(node.op.scalar_op, ps.Sub):
        return None
    vectors = [without_leading_axes(v).owner for v in node.inputs]
    if not all(v is not None and isinstance(v.op, MakeVector) for v in vectors):
        return None
    first, second = (list(v.inputs) for v in vectors)
    if len(first) != len(second):
        return None
    pairs = list(zip(first, second, strict=True))
    found = [_reduced_sum_difference(a, b) for a, b in pairs]
    if all(entry is None for entry in found):
        return None
    entries = [a - b if new is None else new for new, (a, b) in zip(found, pairs, strict=True)]
    return _padded_left(pt.stack(entries), node.outputs[0])


def _reduced_sum_difference(a: Variable, b: Variable) -> Variable | None:
    """a - b without the terms that both sums have; None if they have none in common."""
    first, second = (
        Counter(v.owner.inputs if isinstance(scalar_op(v), ps.Add) else [v]) for v in (a, b)
    )
    if not first & second:
        return None
    kept, dropped = (first - second).elements(), (second - first).elements()
    zero = pt.zeros_like(a)
    return pt.add(zero, *kept) - pt.add(zero, *dropped)


# ---- steps of powers -------------------------------------------------------------------------


@cache
def _log_of_power_steps() -> Pattern:
    """log(q^(x^b) - q^((x + 1)^b)), the discrete Weibull mass."""
    q, x, b = pt.dscalars("qxb")
    return pt.log(pt.power(q, pt.power(x, b)) - pt.power(q, pt.power(x + 1, b))), (q, x, b)


@node_rewriter([Elemwise])
def power_steps(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """x^b log q + log(1 - q^((x + 1)^b - x^b)), in which q^(x^b) stands once."""
    if not isinstance(node.op.scalar_op, ps.Log):
        return None
    found = _match_monomials(_log_of_power_steps(), node.outputs[0])
    if found is None:
        return None
    q, x, b = (part.as_graph() for part in found)
    rate = pt.log(q)
    mass = pt.power(x, b) * rate + pt.log1mexp(power_step(x, b) * rate)
    return _if_same_rank(mass, node.outputs[0])


RAW_REWRITES: tuple[Callable, ...] = (
    power_steps,
    without_boundary_guard,
    cumulative_categories,
    sequential_categories,
)
"""For graphs as they are written: PyTensor splits the sum of a concatenation."""


CANONICAL_REWRITES: tuple[Callable, ...] = (
    entrywise_differences,
    normal_categories,
    normal_differences,
    logistic_categories,
    complementary_weights,
)
"""For graphs in PyTensor's canonical form."""
