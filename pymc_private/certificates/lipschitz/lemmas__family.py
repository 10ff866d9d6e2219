"""A model whose Lipschitz tail is known by formula, and what lemmas read it from."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE, perform
from pymc_private.analysis.intervals.arrays import PUT, TAKE
from pymc_private.analysis.intervals.arrays__shape import MOVERS, parameters_of

HAIR = 2.0**-48
"""Relative slack for the rounding of a few products."""

Monomial = tuple[float, float]
Entries = tuple[np.ndarray, np.ndarray]
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
    """(a, k) if every entry of `variable` is a theta^k for theta > 0; None otherwise.

    Parameters
    ----------
    variable : Variable
    theta : Variable, scalar
    """
    found = monomials(variable, theta)
    if found is None:
        return None
    number, power = (np.unique(part) for part in found)
    return (float(number[0]), float(power[0])) if number.size == power.size == 1 else None


def monomials(variable: Variable, theta: Variable) -> Entries | None:
    """Number and power of each entry."""
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
        return _combined(node.op.scalar_op, known) if len(known) == len(parts) else None
    return _moved(node, theta)


def _moved(node: Apply, theta: Variable) -> Entries | None:
    """Entries that an Op puts elsewhere: numbers and powers move alike."""
    places = _places(node)
    if places is None or not all(isinstance(node.inputs[k], Constant) for k in places):
        return None
    moving = {k: monomials(v, theta) for k, v in enumerate(node.inputs) if k not in places}
    if any(part is None for part in moving.values()):
        return None
    given = [v.data if isinstance(v, Constant) else None for v in node.inputs]
    ends = []
    for which in (0, 1):
        values = [moving[k][which] if k in moving else old for k, old in enumerate(given)]  # type: ignore[index]
        try:
            ends.append(np.asarray(perform(node, values)[0]))
        except UNCOMPUTABLE:
            return None
    return ends[0], ends[1]


def _places(node: Apply) -> Collection[int] | None:
    """Which inputs say where to move, or hold conditions; None for an Op that computes."""
    count = len(node.inputs)
    if isinstance(node.op, CheckAndRaise):
        return range(1, count)
    if isinstance(node.op, DimShuffle):
        return ()
    if isinstance(node.op, (*MOVERS, SpecifyShape)):
        return parameters_of(node.op, count)
    if isinstance(node.op, tuple(TAKE)):
        return range(1, count)
    # Added entries would no longer be powers.
    sets = isinstance(node.op, tuple(PUT)) and not getattr(node.op, "set_instead_of_inc", True)
    return None if not isinstance(node.op, tuple(PUT)) or sets else range(2, count)


def _combined(op: ps.ScalarOp, parts: list[Entries]) -> Entries | None:
    """The monomials that an operation makes of monomials."""
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
