"""Sums of choices by one condition, as gradients of a choice are, written as one choice.

Intervals add what never happens at once: of c ? a : 0 and c ? 0 : b they know a + b.
"""

from __future__ import annotations

import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from itertools import combinations
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.elemwise import Elemwise
from pymc_private.analysis.rewrites.small_matrices__cells import is_zero
from pymc_private.analysis.traversal import scalar_op

@node_rewriter([Elemwise])
def one_choice(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """(c ? a : b) + (c ? d : e) = c ? a + d : b + e, and q ? (c ? 0 : a) : (c ? 0 : b) likewise."""
    op, out = node.op.scalar_op, node.outputs[0]
    if isinstance(op, ps.Add):
        found = _of_terms(list(node.inputs))
    elif isinstance(op, ps.Switch):
        found = _of_branches(*node.inputs)
    else:
        return None
    if found is None or found.type.dtype != out.type.dtype:
        return None
    return [found] if found.type.broadcastable == out.type.broadcastable else None


def _of_terms(terms: list[Variable]) -> Variable | None:
    """The sum, where two of its terms are chosen by one condition."""
    for first, second in combinations(terms, 2):
        if not (_is_choice(first) and _is_choice(second)):
            continue
        (condition, a, b), (other, d, e) = first.owner.inputs, second.owner.inputs
        if condition is other:
            joined = pt.switch(condition, _added(a, d), _added(b, e))
            rest = [v for v in terms if v is not first and v is not second]
            return pt.add(joined, *rest) if rest else joined
    return None


def _of_branches(condition: Variable, yes: Variable, no: Variable) -> Variable | None:
    """The choice made later, where both branches are zero on one side of one other condition."""
    if not (_is_choice(yes) and _is_choice(no)) or yes.owner.inputs[0] is not no.owner.inputs[0]:
        return None
    (inner, a, b), (_, d, e) = yes.owner.inputs, no.owner.inputs
    if is_zero(a) and is_zero(d):
        return pt.switch(inner, a, pt.switch(condition, b, e))
    if is_zero(b) and is_zero(e):
        return pt.switch(inner, pt.switch(condition, a, d), b)
    return None


def _is_choice(variable: Variable) -> bool:
    return isinstance(scalar_op(variable), ps.Switch)


def _added(first: Variable, second: Variable) -> Variable:
    """The sum of two branches, one of which is often zero."""
    if is_zero(second) and second.type.ndim <= first.type.ndim:
        return first
    if is_zero(first) and first.type.ndim <= second.type.ndim:
        return second
    return first + second
