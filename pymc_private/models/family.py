"""A model whose Lipschitz tail is known by formula, and what the lemmas read their formulas from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytensor.scalar.basic as ps
from pytensor.graph.basic import Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc
from pytensor.tensor.elemwise import DimShuffle, Elemwise

HAIR = 2.0**-48
"""Relative slack for the rounding of a few products."""

Monomial = tuple[float, float]
Points = Mapping[str, np.ndarray]
"""Values of the parameters, one row each."""


@dataclass(frozen=True)
class Family:
    """A model recognized as one of the lemmas, for one replaced record.

    Parameters
    ----------
    lemma : str
    formula : str
        ell(theta) in words.
    L0 : float, nats
        Rounded up.
    c : float, 1 / nats
        Rounded down. The prior has P(ell > L) <= e^(-c (L - L0)) for L >= L0.
    log_constant : float
        Logarithm of C >= sup p(x | theta) / p(x), over all data sets of n records; inf if unknown.
    ell : callable
        The formula, of points by name, to be checked against the graph.
    is_exact : bool
        Whether ell(theta) is that; else it is at most that.
    """

    lemma: str
    formula: str
    L0: float
    c: float
    log_constant: float
    ell: Callable[[Points], np.ndarray]
    is_exact: bool = True


def monomial(variable: Variable, theta: Variable) -> Monomial | None:
    """(a, k) if `variable` is a theta^k for theta > 0; None otherwise.

    Parameters
    ----------
    variable : Variable
    theta : Variable, scalar
    """
    if variable is theta:
        return 1.0, 1.0
    if isinstance(variable, Constant):
        value = np.unique(np.asarray(variable.data, dtype=float))
        return (float(value[0]), 0.0) if value.size == 1 else None
    node = variable.owner
    if node is None:
        return None
    if isinstance(node.op, DimShuffle | CheckAndRaise | Alloc):
        return monomial(node.inputs[0], theta)
    if not isinstance(node.op, Elemwise):
        return None
    parts = [monomial(v, theta) for v in node.inputs]
    if any(part is None for part in parts):
        return None
    return _combined(node.op.scalar_op, [part for part in parts if part is not None])


def _combined(op: ps.ScalarOp, parts: list[Monomial]) -> Monomial | None:
    """The monomial that an operation makes of monomials."""
    (a, k), *rest = parts
    if isinstance(op, ps.Identity | ps.Cast):
        return a, k
    if isinstance(op, ps.Abs):
        return abs(a), k
    if isinstance(op, ps.Sign):
        return math.copysign(1.0, a), 0.0
    if isinstance(op, ps.Mul):
        return math.prod([a, *(b for b, _ in rest)]), k + sum(j for _, j in rest)
    if isinstance(op, ps.TrueDiv) and rest[0][0] != 0.0:
        return a / rest[0][0], k - rest[0][1]
    powers = {ps.Reciprocal: -1.0, ps.Sqrt: 0.5, ps.Sqr: 2.0}
    power = powers.get(type(op))
    if isinstance(op, ps.Pow) and rest[0][1] == 0.0:
        power = rest[0][0]
    return None if power is None or a <= 0.0 else (a**power, k * power)
