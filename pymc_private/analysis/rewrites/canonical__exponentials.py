"""Sums of exponentials that are written out, under a logarithm: mixtures by hand."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Sequence
from functools import reduce
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.elemwise import DimShuffle
from pymc_private.analysis.intervals.ops import log_add_exp
from pymc_private.analysis.traversal import bare, scalar_op

MOST_TERMS = 16


@node_rewriter(None)
def log_of_exponentials(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(e^x + e^y + c), log1p(e^x + e^y) and PyTensor 3's Op for it, as one composite.

    Each PyTensor would guard them against overflow in a form of its own, in which the greatest term
    stands many times.
    """
    out = node.outputs[0]
    if type(node.op).__name__ == "LogAddExp" and len(node.outputs) == 1:
        return _joined(node.inputs, out)
    op = scalar_op(out)
    if not isinstance(op, ps.Log | ps.Log1p) or not isinstance(scalar_op(node.inputs[0]), ps.Add):
        return None
    terms = [_logarithm(term) for term in _terms(node.inputs[0])]
    if any(term is None for term in terms) or all(isinstance(bare(v), Constant) for v in terms):
        return None
    if isinstance(op, ps.Log1p):
        terms.append(pt.constant(np.float64(0.0)))
    return None if _is_softplus(terms) else _joined(terms, out)


def _terms(total: Variable) -> list[Variable]:
    """The terms of a sum, of sums in it, and so on down."""
    if not isinstance(scalar_op(total), ps.Add):
        return [total]
    return [term for part in total.owner.inputs for term in _terms(part)]


def _logarithm(term: Variable) -> Variable | None:
    """The exponent of an exponential; the logarithm of a positive number."""
    if term.owner is not None and isinstance(term.owner.op, DimShuffle):
        inner = _logarithm(term.owner.inputs[0])
        return None if inner is None else term.owner.op(inner)
    if isinstance(scalar_op(term), ps.Exp):
        return term.owner.inputs[0]
    if isinstance(term, Constant) and np.size(term.data) == 1 and term.data.item() > 0:
        return pt.constant(np.log(np.asarray(term.data, dtype="float64")))
    return None


def _is_softplus(terms: Sequence[Variable]) -> bool:
    """Whether this is log(1 + e^x), which PyTensor knows."""
    zeros = [v for v in map(bare, terms) if isinstance(v, Constant) and not np.any(v.data)]
    return len(terms) == 2 and len(zeros) == 1


def _joined(terms: Sequence[Variable], out: Variable) -> list[Variable] | None:
    """The composite of two terms, again and again."""
    if len(terms) > MOST_TERMS or any(v.type.dtype != "float64" for v in (*terms, out)):
        return None
    if len(terms) == 1:
        return [terms[0]]
    joined = reduce(log_add_exp, terms)
    return [joined] if joined.type.broadcastable == out.type.broadcastable else None
