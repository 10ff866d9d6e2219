"""Weights that sum to one by how they are written: (s, 1 - s) and longer ones."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
from fractions import Fraction
from typing import Any
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle
from pymc_private.analysis.intervals.ops import OnSimplex, on_simplex
from pymc_private.analysis.traversal import bare, joined_last, scalar_op

def is_on_simplex(graph: FunctionGraph, node: Apply) -> bool:
    """Whether a node is known already to give rows that sum to one."""
    clients = graph.clients[node.outputs[0]]
    return any(isinstance(getattr(client, "op", None), OnSimplex) for client, _ in clients)


@node_rewriter([MakeVector, Join])
def complements(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """A vector (s, ..., 1 - s - ...) whose entries sum to one by what they are."""
    out = node.outputs[0]
    if is_on_simplex(graph, node):
        return None
    parts = node.inputs if isinstance(node.op, MakeVector) else joined_last(out)
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
    """Add a linear form: numbers under the key 1, other terms under what they are."""
    op, inputs = scalar_op(variable), variable.owner.inputs if variable.owner is not None else []
    if isinstance(variable, Constant) and np.size(variable.data) == 1:
        number = float(variable.data.item())
        if np.isfinite(number):
            total[1] = total.get(1, Fraction(0)) + factor * Fraction(number)
            return
    if variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        axes = (tuple(variable.owner.op.new_order), *axes) if inputs[0].type.ndim else ()
        return _add_terms(inputs[0], factor, total, axes)
    if isinstance(op, ps.Add | ps.Neg | ps.Sub) and _one_shape(inputs):
        signs = (1, -1) if isinstance(op, ps.Sub) else (-1,) if isinstance(op, ps.Neg) else (1,)
        for k, term in enumerate(inputs):
            _add_terms(term, factor * (signs[k] if k < len(signs) else 1), total, axes)
        return None
    key = (variable, axes)
    total[key] = total.get(key, Fraction(0)) + factor
    return None


def _one_shape(terms: list[Variable]) -> bool:
    """Whether no term but numbers is stretched to the shape of another."""
    shapes = {t.type.broadcastable for t in terms if not isinstance(bare(t), Constant)}
    return len(shapes) <= 1
