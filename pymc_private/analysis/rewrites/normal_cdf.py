"""Rewrites of log Phi as one Op, where a model writes it by erf and erfc or PyMC in two branches.

PyMC writes one form for the tail and another for the rest. Each form is monotone, but its
derivative is a difference of large numbers; that of log Phi is the inverse Mills ratio, which
is decreasing. PyMC divides by a square root of 2 in single precision, so its two forms differ
by 2e-8 z^2, and its function jumps. That difference becomes an unknown number between the bounds
it has on the whole box: what is proved for each value of it holds for the true one, whichever it
is at each point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum

from pymc_private.analysis.intervals.functions import UNIT, round_down, round_up
from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.ops import ROOT2, LogPhi, log_phi
from pymc_private.analysis.intervals.propagation import propagate_bounds
from pymc_private.analysis.traversal import (
    Monomial,
    apply_rewriters,
    as_monomial,
    is_substitute,
    rebuild_by_rule,
    scalar_op,
)

MOST_DISCREPANCY = 1e-5
"""Most by which the two forms of PyMC may differ on a box."""

SINGLE_PRECISION_ERROR = 2.0**-23
"""Most by which a root rounded to single precision moves its square, up to 2^-48. Forms that differ
by more are not meant to be one."""

UnknownInputs = dict[Variable, Bounds]
"""Fresh inputs, and the bounds between which each of them lies."""


def recognize_normal_lcdf(
    value: Variable, box: Mapping[Variable, Bounds]
) -> tuple[Variable, UnknownInputs]:
    """The same function on a box with log Phi as one Op, and the unknown numbers it reads.

    `value` is in canonical form; the graph is equal to it at every point of the box for some value
    of the unknown numbers. `box` has numbers as bounds of every input: the rules of log Phi know
    no symbolic ones.
    """
    unknown: UnknownInputs = {}
    terms = {v for v in _summands(value) if isinstance(scalar_op(v), ps.Switch)}
    if not terms:
        return value, unknown

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        out = node.outputs[0]
        if out not in terms or out.type.dtype != "float64":
            return None
        bulk, tail = _match_bulk(node.inputs[2]), _match_tail(node.inputs[1])
        # One number for each node: an array of them would be one and the same for all entries.
        if bulk is None or tail is None or tail[0] != bulk or not all(out.type.broadcastable):
            return None
        _, z, excess = tail
        most = propagate_bounds([z], box)[z].magnitude() ** 2 * excess
        named = log_phi(bulk.as_graph())
        if (
            not np.all(np.abs(most) < MOST_DISCREPANCY)
            or named.type.broadcastable != out.type.broadcastable
        ):
            return None
        rest = pt.dscalar("rest")
        low, high = np.minimum(np.min(most), 0.0), np.maximum(np.max(most), 0.0)
        unknown[rest] = Bounds(round_down(low, 8.0), round_up(high, 8.0))
        return named + rest

    return rebuild_by_rule(value, rule), unknown


def continuous_normal_lcdf(value: Variable) -> Variable:
    """The density that PyMC means, with log Phi in place of its two forms, in any branch.

    This is another function, which differs by less than `SINGLE_PRECISION_ERROR` nats. Of
    log Phi(z) PyMC's root makes log Phi(c z), |c - 1| <= SINGLE_PRECISION_ERROR / 2, which moves it
    by |c - 1| |z| m(z) < 1.6 |c - 1| above -1, and log erfcx(-c z / sqrt 2) - z^2 / 2 by at most
    |c - 1| below, where m is the inverse Mills ratio and x |d log erfcx / dx| <= 1. A private model
    is this one from the start: what is certified is what is drawn from.

    `value` is in canonical form. The result is continuous, and concave in z, where PyMC's function
    jumps; it is `value` itself where there is no such form.
    """
    found = False

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        nonlocal found
        out = node.outputs[0]
        if not isinstance(scalar_op(out), ps.Switch) or out.type.dtype != "float64":
            return None
        bulk, tail = _match_bulk(node.inputs[2]), _match_tail(node.inputs[1])
        if (
            bulk is None
            or tail is None
            or tail[0] != bulk
            or abs(tail[2]) > SINGLE_PRECISION_ERROR / 2.0
        ):
            return None
        z = tail[1]  # as squared, without the root
        named = log_phi(z if tail[0].coefficient * as_monomial(z).coefficient > 0.0 else -z)
        if named.type.broadcastable != out.type.broadcastable:
            return None
        found = True
        return named

    made = rebuild_by_rule(value, rule)
    return made if found else value


def _summands(value: Variable) -> Iterator[Variable]:
    """The terms of a sum. In a branch of a switch (a censored outcome) both forms do as well."""
    node = value.owner
    added = isinstance(scalar_op(value), ps.Add | ps.Sub | ps.Neg)
    if node is not None and (added or isinstance(node.op, Sum | DimShuffle)):
        for term in node.inputs:
            yield from _summands(term)
    else:
        yield value


def _match_bulk(variable: Variable) -> Monomial | None:
    """sqrt(2) w if this is log(1 - erfc(w) / 2), which is log Phi(sqrt(2) w)."""
    if not isinstance(scalar_op(variable), ps.Log1p):
        return None
    half = as_monomial(variable.owner.inputs[0])
    if half.coefficient != -0.5 or len(half.numerator) != 1 or half.denominator:
        return None
    if not isinstance(scalar_op(half.numerator[0]), psm.Erfc):
        return None
    return as_monomial(half.numerator[0].owner.inputs[0]).scaled(ROOT2)


def _match_tail(variable: Variable) -> tuple[Monomial, Variable, float] | None:
    """Of log(erfcx(w) / 2) - z^2 / 2, w = k z: -sqrt(2) w, z and k^2 - 1/2.

    log erfcx(w) = w^2 + log(2 Phi(-sqrt(2) w)), so it is log Phi(-sqrt(2) w) + (k^2 - 1/2) z^2.
    """
    if not isinstance(scalar_op(variable), ps.Sub):
        return None
    first, square = variable.owner.inputs
    w, half = _match_log_half_erfcx(first), as_monomial(square)
    if w is None or half.coefficient != 0.5 or len(half.numerator) != 1 or half.denominator:
        return None
    if not isinstance(scalar_op(half.numerator[0]), ps.Sqr):
        return None
    z = half.numerator[0].owner.inputs[0]
    own = as_monomial(z)
    if own.coefficient == 0.0 or own.scaled(w.coefficient / own.coefficient) != w:
        return None
    scale = Fraction(w.coefficient) / Fraction(own.coefficient)
    return w.scaled(-ROOT2), z, float(scale**2 - Fraction(1, 2))


def _match_log_half_erfcx(variable: Variable) -> Monomial | None:
    """w if this is log(erfcx(w) / 2), or log(erfcx(w)) - log 2."""
    if isinstance(scalar_op(variable), ps.Log):
        return _match_erfcx(variable.owner.inputs[0], 0.5)
    if not isinstance(scalar_op(variable), ps.Add) or len(variable.owner.inputs) != 2:
        return None
    half, log = variable.owner.inputs
    number = as_monomial(half)
    if number.numerator or number.denominator or abs(number.coefficient + np.log(2.0)) > 2 * UNIT:
        return None
    return _match_erfcx(log.owner.inputs[0], 1.0) if isinstance(scalar_op(log), ps.Log) else None


def _match_erfcx(variable: Variable, number: float) -> Monomial | None:
    """w if this is a number times erfcx(w)."""
    found = as_monomial(variable)
    if found.coefficient != number or len(found.numerator) != 1 or found.denominator:
        return None
    (inner,) = found.numerator
    return as_monomial(inner.owner.inputs[0]) if isinstance(scalar_op(inner), psm.Erfcx) else None


# ---- log Phi by erf and erfc -----------------------------------------------------------------


def has_log_phi(value: Variable) -> bool:
    """Whether a graph has log Phi as one Op."""
    return any(isinstance(scalar_op(v), LogPhi) for v in ancestors([value]))


def expand_log_phi(value: Variable) -> Variable:
    """The same graph with log Phi in Ops that every back end compiles, accurate in both tails."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if not isinstance(scalar_op(node.outputs[0]), LogPhi):
            return None
        z = inputs[0]
        tail = pt.log(pt.erfcx(-z / ROOT2) / 2.0) - z**2 / 2.0
        return pt.switch(pt.lt(z, -1.0), tail, pt.log1p(-pt.erfc(z / ROOT2) / 2.0))

    return rebuild_by_rule(value, rule)


def recognize_log_phi(value: Variable) -> Variable:
    """The same graph with log Phi as one Op where it is written by erf or erfc."""
    return apply_rewriters(value, _log_phi_rewrite)


@node_rewriter([Elemwise])
def _log_phi_rewrite(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(erfc(w) / 2) = log Phi(-sqrt2 w), log(1 - erfc(w) / 2) = log Phi(sqrt2 w); so for erf."""
    op, out = node.op.scalar_op, node.outputs[0]
    if not isinstance(op, ps.Log | ps.Log1p):
        return None
    found = _normal_cdf_argument(node.inputs[0], 1.0 if isinstance(op, ps.Log) else -1.0)
    if found is None or found.type.dtype != "float64" or not is_substitute(found, out):
        return None
    return [log_phi(found)]


def _normal_cdf_argument(variable: Variable, sign: float) -> Variable | None:
    """The z of Phi(z) if `variable` is Phi(z) (sign 1) or -Phi(-z), hence 1 - Phi(-z) (sign -1)."""
    part, number = _scaled_node(variable)
    if part is not None and number == 0.5 * sign and isinstance(scalar_op(part), psm.Erfc):
        return (-sign * ROOT2) * part.owner.inputs[0]
    if sign < 0:  # -(1/2 + erf(w) / 2)
        inner = _normal_cdf_argument(part, 1.0) if part is not None and number == -1.0 else None
        return None if inner is None else -inner
    if not isinstance(scalar_op(variable), ps.Add) or len(variable.owner.inputs) != 2:
        return None
    for half, other in (variable.owner.inputs, variable.owner.inputs[::-1]):
        part, number = _scaled_node(other)
        halved = _pure_number(half) == 0.5 and abs(number) == 0.5
        if halved and part is not None and isinstance(scalar_op(part), psm.Erf):
            return (np.sign(number) * ROOT2) * part.owner.inputs[0]
    return None


def _scaled_node(variable: Variable) -> tuple[Variable | None, float]:
    """A variable as a number times one node."""
    found = as_monomial(variable)
    if len(found.numerator) == 1 and not found.denominator and found.numerator[0].owner is not None:
        return found.numerator[0], found.coefficient
    return None, 0.0


def _pure_number(variable: Variable) -> float | None:
    """The number that a variable is."""
    found = as_monomial(variable)
    return found.coefficient if not found.numerator and not found.denominator else None
