"""Rewrites that put named composites where a graph spells them out.

Each replaces an expression by an equal one (in real arithmetic, where the expression is a number).
PyMC writes sqrt(2) in single precision. Its function of z is then Phi of z times a number near one,
which is kept; so its categories sum to one but for 1e-6.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.subtensor import Subtensor
from pymc_private.analysis.rewrites.probabilities__complements import complements, is_on_simplex
from pymc_private.analysis.intervals.ops import OnSimplex, also_equal, log_phi_between, log_phi_gap, log_sigmoid_gap, on_simplex, power_step
from pymc_private.analysis.traversal import Multiple, bare, joined_last, match, multiple, same, scalar_op, slice_of
from pymc_private.analysis.traversal__own_names import own_name

Pattern = tuple[Variable, tuple[Variable, ...]]


def _fits(old: Variable, new: Variable) -> list[Variable] | None:
    """The replacement, if it is of the same type."""
    alike = old.type.dtype == new.type.dtype and old.type.ndim == new.type.ndim
    return [new] if alike else None


# ---- the normal distribution function ------------------------------------------------------


@cache
def _log_normal_difference(exact: bool = True) -> Pattern:
    """log(2 Phi(a) - 2 Phi(b)) as PyMC's `log_diff_normal_cdf` spells it, for a > b."""
    a, b = pt.dvectors("ab")
    root = pt.constant(np.sqrt(2.0)) if exact else pt.sqrt(2.0)
    x, y = a / root, b / root
    above = -pt.square(y) + pt.log(pt.erfcx(y) - pt.exp(pt.square(y) - pt.square(x)) * pt.erfcx(x))
    below = -pt.square(x) + pt.log(
        pt.erfcx(-x) - pt.exp(pt.square(x) - pt.square(y)) * pt.erfcx(-y)
    )
    between = pt.log(pt.erf(x) - pt.erf(y))
    whole = pt.switch(pt.gt(y, 0), above, pt.switch(pt.lt(x, 0), below, between))
    return _canonical(whole), (a, b)


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
    return _canonical(whole), (z,)


def _canonical(pattern: Variable) -> Variable:
    return rewrite_graph(pattern, include=("canonicalize", "stabilize"), clone=False)


def _read(pattern: Pattern, graph: Variable) -> tuple[Multiple, ...] | None:
    """What the free variables of a pattern stand for, in order."""
    found = match(pattern[0], graph, pattern[1])
    return None if found is None else tuple(found[v] for v in pattern[1])


@node_rewriter([Elemwise])
def normal_differences(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(Phi(a) - Phi(b)), of which only the gap a - b and b are left."""
    if not isinstance(node.op.scalar_op, ps.Switch):
        return None
    found = _read(_log_normal_difference(), node.outputs[0])
    return None if found is None else _fits(node.outputs[0], _phi_gap(*found) + np.log(2.0))


def _phi_gap(a: Multiple, b: Multiple) -> Variable:
    """By b and the gap; where a free scale is in both, by both ends as well."""
    shared = len(a.above) == len(b.above) == 1 and replace(a, above=()) == replace(b, above=())
    if not shared:
        return log_phi_gap(b.variable(), a.variable() - b.variable())
    width = replace(a, above=(difference(a.above[0], b.above[0]),)).variable()
    found = log_phi_gap(b.variable(), width)
    return also_equal(found, log_phi_between(a.variable(), b.variable())) if a.below else found


@node_rewriter([Elemwise])
def normal_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """The probabilities 1 - Phi(v_1), Phi(v_k) - Phi(v_k+1), Phi(v_K): the sum telescopes.

    A factor 1 + d of z, |d| < 2e-8, moves Phi(z) by less than |z| phi(z) d < 5e-9, or in PyMC's
    tails by less than 2e-8; so does the rounding of log(1/2).
    """
    if not isinstance(node.op.scalar_op, ps.Exp) or is_on_simplex(graph, node):
        return None
    parts = joined_last(bare(node.inputs[0]))
    if parts is None or len(parts) != 3 or (parts[1].type.shape[-1] or MOST + 1) > MOST:
        return None
    first = _read(_log_normal_tail(-1), parts[0])
    last = _read(_log_normal_tail(1), parts[2])
    middle = _halved_difference(parts[1])
    if first is None or last is None or middle is None:
        return None
    if not _telescopes((*first, *middle, *last)):
        return None
    return [OnSimplex(1e-6)(node.clone().outputs[0])]


MOST = 32
"""Categories, less two, whose errors were added up."""


def _halved_difference(variable: Variable) -> tuple[Multiple, ...] | None:
    """a and b of log(1/2) + log(2 Phi(a) - 2 Phi(b))."""
    if not isinstance(scalar_op(variable), ps.Add) or len(variable.owner.inputs) != 2:
        return None
    half, difference = variable.owner.inputs
    number = multiple(half)
    if number.above or abs(number.number + np.log(2.0)) > 1e-8:
        return None
    return _read(_log_normal_difference(exact=False), difference)


def _padded(old: Variable, new: Variable) -> list[Variable] | None:
    """The replacement, with axes in front as the old expression had."""
    return _fits(old, pt.shape_padleft(new, old.type.ndim - new.type.ndim))


def _telescopes(ends: tuple[Multiple, ...]) -> bool:
    """Whether the four arguments are v[:1]; v[:-1] and v[1:]; v[-1:], alike scaled by numbers."""
    if any(len(end.above) != 1 or replace(end, above=ends[0].above) != ends[0] for end in ends):
        return False
    takes = [slice_of(end.above[0]) for end in ends]
    if any(size != 1 for scale in ends[0].below for size in bare(scale).type.shape):
        return False
    if takes[0] is None:
        return False
    base, numbers, _ = takes[0]
    wanted = (numbers[..., :1], numbers[..., :-1], numbers[..., 1:], numbers[..., -1:])
    return all(
        take is not None and take[0] is base and np.array_equal(np.atleast_1d(take[2]), want)
        for take, want in zip(takes, wanted, strict=True)
    )


# ---- the logistic distribution function -----------------------------------------------------


@node_rewriter([Elemwise])
def logistic_categories(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Differences of (0, sigmoid(z), 1) along the last axis: on the simplex, since z rises."""
    if not isinstance(node.op.scalar_op, ps.Sub):
        return None
    takes = [slice_of(bare(v)) for v in node.inputs]
    if takes[0] is None or takes[1] is None or takes[0][0] is not takes[1][0]:
        return None
    (base, numbers, high), low = takes[0], takes[1][2]
    parts = joined_last(base)
    if not (np.array_equal(high, numbers[..., 1:]) and np.array_equal(low, numbers[..., :-1])):
        return None
    if parts is None or len(parts) != 3 or not _is_all(parts[0], 0.0) or not _is_all(parts[2], 1.0):
        return None
    if not isinstance(scalar_op(parts[1]), psm.Sigmoid):
        return None
    z = parts[1].owner.inputs[0]
    size = z.type.shape[-1]
    if size is None or any(p.type.shape[-1] != 1 for p in (parts[0], parts[2])):
        return None
    return _padded(node.outputs[0], sigmoid_steps(z))


def sigmoid_steps(z: Variable) -> Variable:
    """1 / (1 + e^-z_1), the steps of the sigmoid from z_k to z_k+1, and what is left of one."""
    logs = [-pt.softplus(-z[..., :1]), -pt.softplus(z[..., -1:])]
    if z.type.shape[-1] != 1:
        v = varying(z)
        logs.insert(1, log_sigmoid_gap(z[..., :-1], v[..., 1:] - v[..., :-1]))
    return on_simplex(pt.exp(pt.concatenate(logs, axis=-1)))


def _is_all(variable: Variable, value: float) -> bool:
    """Whether a node is a constant array of one number."""
    inner = variable
    while inner.owner is not None and own_name(inner.owner.op) in ("Alloc", "DimShuffle"):
        inner = inner.owner.inputs[0]
    return isinstance(inner, Constant) and bool(np.all(inner.data == value))


def varying(variable: Variable) -> Variable:
    """The variable without the terms that are one number along its last axis."""
    op = scalar_op(variable)
    if isinstance(op, ps.Sub | ps.Add | ps.Neg):
        inputs = variable.owner.inputs
        moving = [varying(v) for v in inputs if not _is_flat(v)]
        if isinstance(op, ps.Add) and moving:
            return pt.add(*moving) if len(moving) > 1 else moving[0]
        if isinstance(op, ps.Sub) and len(moving) == 1:
            return moving[0] if not _is_flat(inputs[0]) else -moving[0]
        return variable.owner.op(*moving) if len(moving) == len(inputs) else variable
    return variable


def _is_flat(variable: Variable) -> bool:
    return variable.type.ndim == 0 or variable.type.shape[-1] == 1


def difference(a: Variable, b: Variable) -> Variable:
    """a - b without what both have in common."""
    one, other = scalar_op(a), scalar_op(b)
    if type(one) is type(other) and isinstance(one, ps.Sub | ps.TrueDiv):
        (a1, a2), (b1, b2) = a.owner.inputs, b.owner.inputs
        if same(a2, b2):
            rest = difference(bare(a1), bare(b1))
            return rest / a2 if isinstance(one, ps.TrueDiv) else rest
        if same(a1, b1) and isinstance(one, ps.Sub):
            return difference(bare(b2), bare(a2))
    slices = [slice_of(v) for v in (a, b)]
    if slices[0] is not None and slices[1] is not None and slices[0][0] is slices[1][0]:
        return _take_varying(a) - _take_varying(b)
    return a - b


def _take_varying(taken: Variable) -> Variable:
    """The slice of what varies along the last axis, where the other axes are left whole."""
    base, numbers, found = slice_of(taken)  # type: ignore[misc]
    moving = varying(base)
    whole = found.shape[:-1] == numbers.shape[:-1] and isinstance(taken.owner.op, Subtensor)
    if not whole or moving is base or found.ndim != numbers.ndim or not found.shape[-1]:
        return taken
    first, count = int(found.flat[0]), found.shape[-1]
    if not np.array_equal(found, numbers[..., first : first + count]):
        return taken
    return moving[..., first : first + count]


# ---- powers ------------------------------ ----------------------------------------------------


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
    found = _read(_log_of_power_steps(), node.outputs[0])
    if found is None:
        return None
    q, x, b = (part.variable() for part in found)
    rate = pt.log(q)
    return _fits(node.outputs[0], pt.power(x, b) * rate + pt.log1mexp(power_step(x, b) * rate))


RAW: tuple[Callable, ...] = (power_steps,)
"""For graphs as they are written."""
CANONICAL: tuple[Callable, ...] = (
    normal_categories,
    normal_differences,
    logistic_categories,
    complements,
)
"""For graphs in PyTensor's canonical form."""
