"""Monomials of one parameter, entry by entry, read off a graph.

`monomial` and `monomials` give (a, k) where an entry is a theta^k for a scalar theta > 0. Only
constants, powers, products and Ops that move entries are read: a match is a proof.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis.intervals.arrays import (
    INDEX_UPDATE_OPS,
    INDEXING_OPS,
    LAYOUT_OPS,
    layout_inputs,
)
from pymc_private.analysis.traversal import EVALUATION_ERRORS, evaluate_node

Monomial = tuple[float, float]


MonomialEntries = tuple[np.ndarray, np.ndarray]


def monomial(variable: Variable, theta: Variable) -> Monomial | None:
    """(a, k) if every entry of `variable` is a theta^k for a scalar theta > 0; else None."""
    found = monomials(variable, theta)
    if found is None:
        return None
    number, power = (np.unique(part) for part in found)
    return (float(number[0]), float(power[0])) if number.size == power.size == 1 else None


def monomials(variable: Variable, theta: Variable) -> MonomialEntries | None:
    """Number and power of each entry of `variable`; None if some entry is no monomial."""
    if variable is theta:
        return np.array(1.0), np.array(1.0)
    if isinstance(variable, Constant):
        values = np.asarray(variable.data)
        number = values.astype(float) if values.dtype.kind in "fiub" else None
        return None if number is None else (number, np.zeros_like(number))
    node = variable.owner
    if node is None:
        return None
    if isinstance(node.op, Elemwise):
        parts = [monomials(v, theta) for v in node.inputs]
        known = [part for part in parts if part is not None]
        return _combined_monomials(node.op.scalar_op, known) if len(known) == len(parts) else None
    return _moved_monomials(node, theta)


def _moved_monomials(node: Apply, theta: Variable) -> MonomialEntries | None:
    """Entries that an Op moves: numbers and powers move in the same way."""
    indices = _index_inputs(node)
    if indices is None or not all(isinstance(node.inputs[k], Constant) for k in indices):
        return None
    moving = {k: monomials(v, theta) for k, v in enumerate(node.inputs) if k not in indices}
    if any(part is None for part in moving.values()):
        return None
    given = [v.data if isinstance(v, Constant) else None for v in node.inputs]
    parts = []
    for which in (0, 1):
        values = [moving[k][which] if k in moving else old for k, old in enumerate(given)]  # type: ignore[index]
        try:
            parts.append(np.asarray(evaluate_node(node, values)[0]))
        except EVALUATION_ERRORS:
            return None
    return parts[0], parts[1]


def _index_inputs(node: Apply) -> Collection[int] | None:
    """The inputs that are indices, shapes or conditions; None for an Op that computes."""
    count = len(node.inputs)
    if isinstance(node.op, CheckAndRaise):
        return range(1, count)
    if isinstance(node.op, DimShuffle):
        return ()
    if isinstance(node.op, (*LAYOUT_OPS, SpecifyShape)):
        return layout_inputs(node.op, count)
    if isinstance(node.op, tuple(INDEXING_OPS)):
        return range(1, count)
    # Added entries would no longer be powers.
    sets = isinstance(node.op, tuple(INDEX_UPDATE_OPS)) and not getattr(
        node.op, "set_instead_of_inc", True
    )
    return None if not isinstance(node.op, tuple(INDEX_UPDATE_OPS)) or sets else range(2, count)


def _combined_monomials(op: ps.ScalarOp, parts: list[MonomialEntries]) -> MonomialEntries | None:
    """The monomials that a scalar Op gives of monomials; None if it gives none."""
    (a, k), *rest = parts
    if isinstance(op, ps.Identity | ps.Cast):
        return a, k
    if isinstance(op, ps.Abs):
        return abs(a), k
    if isinstance(op, ps.Neg):
        return -a, k
    if isinstance(op, ps.Sign):
        return np.sign(a), 0.0 * k
    if isinstance(op, ps.Mul):
        for b, j in rest:
            a, k = a * b, k + j
        return a, k
    if isinstance(op, ps.TrueDiv) and np.all(rest[0][0] != 0.0):
        return a / rest[0][0], k - rest[0][1]
    if isinstance(op, ps.Sqr):
        return a**2, 2.0 * k
    powers = {ps.Reciprocal: -1.0, ps.Sqrt: 0.5}
    power = powers.get(type(op))
    if isinstance(op, ps.Pow) and np.size(rest[0][0]) == 1 and np.all(rest[0][1] == 0.0):
        power = float(rest[0][0].item())
    if power is None or not np.all(a >= 0.0 if power > 0.0 else a > 0.0):
        return None
    return a**power, k * power
