"""Rewrites for infinite ends: e^u and sigmoid(u) written so that their tails cancel nothing."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from collections.abc import Sequence
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pymc_private.analysis.rewrites.algebra__choices import one_choice
from pymc_private.analysis.intervals.ops import OnSimplex
from pymc_private.analysis.intervals.arrays import TAKE
from pymc_private.analysis.traversal import bare, scalar_op
from pymc_private.analysis.rewrites.canonical import simplify
from pymc_private.analysis.traversal__rewriting import walk_where_needed, walked

def number_of(variable: Variable) -> float | None:
    """The one number a constant holds."""
    variable = bare(variable)
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        return float(np.asarray(variable.data).item())
    return None


def by_exponents(value: Variable) -> Variable:
    """Quotients and logarithms of e^u by u itself: at infinite ends inf / inf says nothing.

    Parameters
    ----------
    value : Variable

    Returns
    -------
    Variable
        `value` itself where there are none.
    """
    found = walked(value, _odds, _quotient_of_exp, _log_of_exp)
    return value if found is value else simplify([found])[0]


def tidy(outputs: Sequence[Variable]) -> list[Variable]:
    """Simplified graphs in which 1 - sigmoid(x) is sigmoid(-x), no smaller than zero in floats.

    Choices that are added are one choice.
    """
    graph = FunctionGraph(outputs=simplify(outputs), clone=False)
    for rule in (_complement, one_choice):
        walk_where_needed(rule, graph)
    return list(graph.outputs)


@node_rewriter([Elemwise])
def _complement(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """1 - sigmoid(x) = sigmoid(-x)."""
    if not isinstance(node.op.scalar_op, ps.Sub) or number_of(node.inputs[0]) != 1.0:
        return None
    inner = node.inputs[1]
    if not isinstance(scalar_op(inner), psm.Sigmoid):
        return None
    return _fitting(pt.sigmoid(-bare(inner).owner.inputs[0]), node.outputs[0])


@node_rewriter([Elemwise])
def _odds(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """e^u / (c + e^u) = sigmoid(u - log c); k / (c + e^u) = (k / c) sigmoid(log c - u); c > 0."""
    if not isinstance(node.op.scalar_op, ps.TrueDiv):
        return None
    above, below = node.inputs
    if not isinstance(scalar_op(below), ps.Add) or len(bare(below).owner.inputs) != 2:
        return None
    for first, power in (bare(below).owner.inputs, bare(below).owner.inputs[::-1]):
        c, k = number_of(first), number_of(above)
        if c is None or c <= 0.0 or not isinstance(scalar_op(power), ps.Exp):
            continue
        shifted = bare(power).owner.inputs[0] - np.log(c)
        if bare(above) is bare(power):
            return _fitting(pt.sigmoid(shifted), node.outputs[0])
        if k is not None:
            return _fitting((k / c) * pt.sigmoid(-shifted), node.outputs[0])
    return None


@node_rewriter([Elemwise])
def _quotient_of_exp(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """x / (k e^u) = (x / k) e^(-u)."""
    if not isinstance(node.op.scalar_op, ps.TrueDiv):
        return None
    exponents, rest = _exponents(node.inputs[1])
    if not exponents:
        return None
    total = node.inputs[0] * pt.exp(-_sum(exponents))
    return _fitting(total / _product(rest) if rest else total, node.outputs[0])


@node_rewriter([Elemwise])
def _log_of_exp(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(k e^u) = log k + u."""
    if not isinstance(node.op.scalar_op, ps.Log):
        return None
    exponents, rest = _exponents(node.inputs[0])
    if not exponents:
        moved = _exponent_taken(node.inputs[0])
        return None if moved is None else _fitting(moved, node.outputs[0])
    total = _sum(exponents)
    return _fitting(pt.log(_product(rest)) + total if rest else total, node.outputs[0])


def _exponent_taken(variable: Variable) -> Variable | None:
    """The elements of v that are taken, where `variable` takes them from e^v."""
    node = variable.owner
    if node is None:
        return None
    if isinstance(scalar_op(variable), ps.Exp):
        return node.inputs[0]
    if isinstance(node.op, OnSimplex):
        return _exponent_taken(node.inputs[0])
    takes = isinstance(node.op, (DimShuffle, *TAKE))
    inner = _exponent_taken(node.inputs[0]) if takes else None
    return None if inner is None else node.op.make_node(inner, *node.inputs[1:]).outputs[0]


def _exponents(variable: Variable) -> tuple[list[Variable], list[Variable]]:
    """The exponents of the exponentials among the factors, and the other factors."""
    op = scalar_op(variable)
    if isinstance(op, ps.Exp):
        return [variable.owner.inputs[0]], []
    if isinstance(op, ps.Mul):
        parts = [_exponents(v) for v in variable.owner.inputs]
        return [e for some, _ in parts for e in some], [r for _, some in parts for r in some]
    return [], [variable]


def _sum(terms: list[Variable]) -> Variable:
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _product(factors: list[Variable]) -> Variable:
    return pt.mul(*factors) if len(factors) > 1 else factors[0]


def _fitting(new: Variable, old: Variable) -> list[Variable] | None:
    alike = new.type.dtype == old.type.dtype and new.type.broadcastable == old.type.broadcastable
    return [new] if alike else None
