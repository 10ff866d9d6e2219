"""Canonical form of a graph for interval bounds: the same function, with correlated terms joined.

`simplify` applies PyTensor's canonical and stable forms, and the rewrites that join what
PyTensor leaves apart: sums of exponentials under a logarithm (mixtures written by hand among
them), complements of sigmoids, and the probabilities of `rewrites.probabilities`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.compile import optdb
from pytensor.compile.builders import OpFromGraph
from pytensor.graph.basic import Apply, Constant, Variable, clone
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import GraphRewriter, node_rewriter
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

from pymc_private.analysis.intervals import has_rule
from pymc_private.analysis.intervals.ops import log_add_exp, log_sum_exp
from pymc_private.analysis.rewrites import probabilities
from pymc_private.analysis.rewrites.known_forms import by_structure
from pymc_private.analysis.rewrites.small_matrices import is_zero
from pymc_private.analysis.traversal import (
    library_class_name,
    negated,
    rebuild,
    rewrite_in_place,
    scalar_op,
    substitute,
    without_dimshuffles,
    without_leading_axes,
)


def simplify(outputs: Sequence[Variable]) -> list[Variable]:
    """Graphs of the same functions (real arithmetic) in canonical form, correlated terms joined.

    `outputs` are left untouched.
    """
    return by_structure(_simplified, outputs)


def _simplified(outputs: Sequence[Variable]) -> list[Variable]:
    """The canonical form of graphs that are met for the first time."""
    # Nodes are copied, leaves are not: callers find their inputs again.
    _, copies = clone(
        [v for v in ancestors(list(outputs)) if v.owner is None], outputs, False, False
    )
    written = FunctionGraph(outputs=list(copies), clone=False)
    for rewriter in (
        _inlined_op,
        _log_of_sum_of_exp,
        log_of_exponentials,
        *probabilities.RAW_REWRITES,
        _small_integers_as_floats,
        _zero_quotient,
    ):
        rewrite_in_place(rewriter, written)
    graph = FunctionGraph(outputs=list(written.outputs), clone=False)
    _pytensor_rewriter().rewrite(graph)
    while rewrite_in_place(_zero_quotient, graph):
        _pytensor_rewriter().rewrite(graph)
    for rewriter in (
        _log_of_complement,
        _complement_of_complement,
        log_of_exponentials,
        *probabilities.CANONICAL_REWRITES,
    ):
        rewrite_in_place(rewriter, graph)
    return list(graph.outputs)


@cache
def _pytensor_rewriter() -> GraphRewriter:
    """PyTensor's canonical and stable forms, made once: making them takes as long as using them.

    `_zero_quotient` replaces PyTensor's 0 / x = 0: in PyTensor 2 that is written with the shape of
    the quotient itself, which is one more quotient, so that the rewriting never terminates.
    """
    forms = RewriteDatabaseQuery(include=("canonicalize", "stabilize"), exclude=("local_zero_div",))
    return optdb.query(forms)


@node_rewriter([Elemwise])
def _zero_quotient(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """0 / x = 0, by the shape of x."""
    if not isinstance(node.op.scalar_op, ps.TrueDiv | ps.IntDiv) or not is_zero(node.inputs[0]):
        return None
    zero = pt.cast(node.inputs[0], node.outputs[0].type.dtype)
    return [pt.second(node.inputs[1], zero)]


@node_rewriter([OpFromGraph])
def _inlined_op(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """The inner graph of an Op of PyTensor's that is made of others and has no interval rule."""
    is_own = type(node.op).__module__.startswith("pytensor.tensor")
    if not is_own or has_rule(node) or library_class_name(node.op) == "LogAddExp":
        return None
    inside = node.op.fgraph
    return rebuild(inside.outputs, dict(zip(inside.inputs, node.inputs, strict=True)))


@node_rewriter([Elemwise])
def _small_integers_as_floats(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """x * b of a float and a Boolean or small integer: cast b, which changes nothing by itself.

    PyTensor's canonical form turns 2 (1 - b) into 2 - (b + b) and adds Booleans as Booleans, where
    true + true is true, and small integers until they wrap around.
    """
    out = node.outputs[0]
    arithmetic = isinstance(node.op.scalar_op, ps.Add | ps.Mul | ps.Sub | ps.TrueDiv)
    if not arithmetic or not out.dtype.startswith("float"):
        return None
    inputs = [_as_float(v, out.dtype) for v in node.inputs]
    if inputs == node.inputs:
        return None
    return [node.op(*inputs)]


def _as_float(variable: Variable, dtype: str) -> Variable:
    """A Boolean or small integer cast to a float, unless it is a literal; else the variable."""
    # 64 signed bits hold every sum that a rewrite makes; a cast would hide terms it could join.
    narrow = not variable.type.dtype.startswith(("float", "complex", "int64"))
    return pt.cast(variable, dtype) if narrow and not _is_literal(variable) else variable


def _is_literal(variable: Variable) -> bool:
    """Whether this is an integer written into the code, whatever axes it was given."""
    variable = without_dimshuffles(variable)
    if variable.owner is not None:
        return all(map(_is_literal, variable.owner.inputs)) and variable.type.ndim == 0
    return (
        isinstance(variable, Constant)
        and np.size(variable.data) == 1
        and variable.type.dtype != "bool"
    )


# ---- sums of exponentials under a logarithm --------------------------------------------------


@node_rewriter(None)
def _log_of_sum_of_exp(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log sum e^x as one Op: it is one in PyTensor 3, and three Ops in PyTensor 2."""
    if library_class_name(node.op) == "LogSumExp" and hasattr(node.op, "axis"):
        return _as_log_sum_exp(node.inputs[0], node.op.axis, [], node.outputs[0])
    if not (isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, ps.Log)):
        return None
    total, moves = node.inputs[0].owner, []
    while total is not None and isinstance(total.op, DimShuffle):
        moves.append(total.op)
        total = total.inputs[0].owner
    terms = total.inputs[0].owner if total is not None and isinstance(total.op, Sum) else None
    if terms is None or not isinstance(getattr(terms.op, "scalar_op", None), ps.Exp):
        return None
    return _as_log_sum_exp(terms.inputs[0], total.op.axis, moves, node.outputs[0])


def _as_log_sum_exp(
    x: Variable, axis: Any, moves: Sequence[DimShuffle], out: Variable
) -> list[Variable] | None:
    """The Op `LogSumExp` over `axis`, with the axes moved as those of the sum were."""
    if out.type.dtype != x.type.dtype:
        return None
    axes = range(x.type.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    joined = log_sum_exp(x, tuple(sorted(k % x.type.ndim for k in axes)))
    for move in reversed(moves):
        joined = move(joined)
    return [joined]


MOST_TERMS = 16
"""Terms of a sum of exponentials that are joined."""


@node_rewriter(None)
def log_of_exponentials(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(e^x + e^y + c), log1p(e^x + e^y) and PyTensor 3's Op for it, by the Op `LogAddExp`.

    PyTensor 2 and 3 guard such sums against overflow in forms of their own, in which the greatest
    term stands many times.
    """
    out = node.outputs[0]
    if type(node.op).__name__ == "LogAddExp" and len(node.outputs) == 1:
        return _as_log_add_exp(node.inputs, out)
    op = scalar_op(out)
    if not isinstance(op, ps.Log | ps.Log1p) or not isinstance(scalar_op(node.inputs[0]), ps.Add):
        return None
    terms = [_log_of_term(term) for term in _nested_terms(node.inputs[0])]
    if any(term is None for term in terms) or all(
        isinstance(without_leading_axes(v), Constant) for v in terms
    ):
        return None
    if isinstance(op, ps.Log1p):
        terms.append(pt.constant(np.float64(0.0)))
    return None if _is_softplus(terms) else _as_log_add_exp(terms, out)


def _nested_terms(total: Variable) -> list[Variable]:
    """The terms of a sum, of sums in it, and so on down."""
    if not isinstance(scalar_op(total), ps.Add):
        return [total]
    return [term for part in total.owner.inputs for term in _nested_terms(part)]


def _log_of_term(term: Variable) -> Variable | None:
    """The exponent of an exponential; the logarithm of a positive number."""
    if term.owner is not None and isinstance(term.owner.op, DimShuffle):
        inner = _log_of_term(term.owner.inputs[0])
        return None if inner is None else term.owner.op(inner)
    if isinstance(scalar_op(term), ps.Exp):
        return term.owner.inputs[0]
    if isinstance(term, Constant) and np.size(term.data) == 1 and term.data.item() > 0:
        return pt.constant(np.log(np.asarray(term.data, dtype="float64")))
    return None


def _is_softplus(terms: Sequence[Variable]) -> bool:
    """Whether this is log(1 + e^x), which PyTensor has as softplus."""
    zeros = [
        v
        for v in map(without_leading_axes, terms)
        if isinstance(v, Constant) and not np.any(v.data)
    ]
    return len(terms) == 2 and len(zeros) == 1


def _as_log_add_exp(terms: Sequence[Variable], out: Variable) -> list[Variable] | None:
    """The Op `LogAddExp` of two terms, applied repeatedly."""
    if len(terms) > MOST_TERMS or any(v.type.dtype != "float64" for v in (*terms, out)):
        return None
    if len(terms) == 1:
        return [terms[0]]
    return substitute(reduce(log_add_exp, terms), out)


# ---- complements -----------------------------------------------------------------------------


@node_rewriter([Elemwise])
def _log_of_complement(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(1 - sigmoid(z)) = -softplus(z) and log(1 - (1 - e^z)) = z.

    PyTensor 2 misses both once -p is written -1 * p.
    """
    if not isinstance(node.op.scalar_op, ps.Log1p):
        return None
    argument, joined = _negated_sigmoid(node.inputs[0]), _twice_complement(node.inputs[0])
    if argument is not None:
        joined = -pt.softplus(argument)
    return substitute(joined, node.outputs[0])


@node_rewriter([Elemwise])
def _complement_of_complement(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(1 - e^log(1 - e^x)) = x."""
    outer, inner = node.op.scalar_op, node.inputs[0]
    if not (isinstance(outer, psm.Log1mexp) and isinstance(scalar_op(inner), psm.Log1mexp)):
        return None
    x = inner.owner.inputs[0]
    return [x] if x.type.dtype == node.outputs[0].type.dtype else None


def _twice_complement(variable: Variable) -> Variable | None:
    """The exponent z if `variable` is -(1 - e^z)."""
    inner = negated(variable)
    if inner is None or not isinstance(scalar_op(inner), ps.Sub):
        return None
    one, power = inner.owner.inputs
    plain = isinstance(one, Constant) and np.size(one.data) == 1 and one.data.item() == 1
    return power.owner.inputs[0] if plain and isinstance(scalar_op(power), ps.Exp) else None


def _negated_sigmoid(variable: Variable) -> Variable | None:
    """The argument z if `variable` is -sigmoid(z)."""
    inner = negated(variable)
    if inner is None or not isinstance(scalar_op(inner), psm.Sigmoid):
        return None
    return inner.owner.inputs[0]
