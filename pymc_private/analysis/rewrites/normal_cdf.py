"""Rewrites of PyMC's two-branch log Phi as one function.

PyMC writes one form for the tail and another for the rest. Each form is monotone, but its
derivative is a difference of large numbers; that of log Phi is the inverse Mills ratio, which
falls. PyMC divides by a square root of 2 in single precision, so its two forms differ by 2e-8
z^2, and its function jumps. That rest becomes an unknown number between the bounds it has on
the whole box: what is proved for each value of it holds for the true one, whichever it is at
each point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum

from pymc_private.analysis.intervals.functions import UNIT, round_down, round_up
from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.ops import ROOT2, log_phi
from pymc_private.analysis.intervals.propagation import propagate_bounds
from pymc_private.analysis.traversal import Monomial, as_monomial, rebuild, scalar_op

MOST_DISCREPANCY = 1e-5
"""Most that a rest may amount to."""

SINGLE_PRECISION_ERROR = 2.0**-23
"""Most by which a root rounded to single precision moves its square, up to 2^-48. Forms that differ
by more are not meant to be one."""

UnknownInputs = dict[Variable, Bounds]
"""Fresh inputs, and the ends between which each of them lies."""


def recognize_normal_lcdf(
    value: Variable, box: Mapping[Variable, Bounds]
) -> tuple[Variable, UnknownInputs]:
    """The same function on a box with log Phi by its name.

    Parameters
    ----------
    value : Variable
        In canonical form.
    box : mapping of Variable to Interval
        Of every input, with numbers as ends: the rules of log Phi know no symbolic ones.

    Returns
    -------
    Variable
        Equal to `value` at every point of the box for some value of the unknown numbers.
    Unknown
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
        named = log_phi(bulk.variable())
        if (
            not np.all(np.abs(most) < MOST_DISCREPANCY)
            or named.type.broadcastable != out.type.broadcastable
        ):
            return None
        rest = pt.dscalar("rest")
        low, high = np.minimum(np.min(most), 0.0), np.maximum(np.max(most), 0.0)
        unknown[rest] = Bounds(round_down(low, 8.0), round_up(high, 8.0))
        return named + rest

    leaves = {v: v for v in ancestors([value]) if v.owner is None}
    return rebuild([value], leaves, rule)[0], unknown


def continuous_normal_lcdf(value: Variable) -> Variable:
    """The density that PyMC means: log Phi wherever its two forms stand, in any branch.

    This is another function, which differs by less than `SINGLE_PRECISION_ERROR` nats. Of log Phi(z) PyMC's root
    makes log Phi(c z), |c - 1| <= MEANT / 2, which moves it by |c - 1| |z| m(z) < 1.6 |c - 1| above
    -1, and log erfcx(-c z / sqrt 2) - z^2 / 2 by at most |c - 1| below, where m is the inverse
    Mills ratio and x |d log erfcx / dx| <= 1. A private model is this one from the start: what is
    certified is what is drawn from.

    Parameters
    ----------
    value : Variable
        In canonical form.

    Returns
    -------
    Variable
        Continuous, and concave in z, where PyMC's jumps; `value` itself where there is none.
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
        named = log_phi(z if tail[0].number * as_monomial(z).number > 0.0 else -z)
        if named.type.broadcastable != out.type.broadcastable:
            return None
        found = True
        return named

    leaves = {v: v for v in ancestors([value]) if v.owner is None}
    made = rebuild([value], leaves, rule)[0]
    return made if found else value


def _summands(value: Variable) -> Iterator[Variable]:
    """What a sum adds up. In a branch of a switch (a censored outcome) both forms do as well."""
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
    if half.number != -0.5 or len(half.above) != 1 or half.below:
        return None
    if not isinstance(scalar_op(half.above[0]), psm.Erfc):
        return None
    return as_monomial(half.above[0].owner.inputs[0]).times(ROOT2)


def _match_tail(variable: Variable) -> tuple[Monomial, Variable, float] | None:
    """Of log(erfcx(w) / 2) - z^2 / 2, w = k z: -sqrt(2) w, z and k^2 - 1/2.

    log erfcx(w) = w^2 + log(2 Phi(-sqrt(2) w)), so it is log Phi(-sqrt(2) w) + (k^2 - 1/2) z^2.
    """
    if not isinstance(scalar_op(variable), ps.Sub):
        return None
    first, square = variable.owner.inputs
    w, half = _match_log_half_erfcx(first), as_monomial(square)
    if w is None or half.number != 0.5 or len(half.above) != 1 or half.below:
        return None
    if not isinstance(scalar_op(half.above[0]), ps.Sqr):
        return None
    z = half.above[0].owner.inputs[0]
    own = as_monomial(z)
    if own.number == 0.0 or own.times(w.number / own.number) != w:
        return None
    scale = Fraction(w.number) / Fraction(own.number)
    return w.times(-ROOT2), z, float(scale**2 - Fraction(1, 2))


def _match_log_half_erfcx(variable: Variable) -> Monomial | None:
    """w if this is log(erfcx(w) / 2), or log(erfcx(w)) - log 2."""
    if isinstance(scalar_op(variable), ps.Log):
        return _match_erfcx(variable.owner.inputs[0], 0.5)
    if not isinstance(scalar_op(variable), ps.Add) or len(variable.owner.inputs) != 2:
        return None
    half, log = variable.owner.inputs
    number = as_monomial(half)
    if number.above or number.below or abs(number.number + np.log(2.0)) > 2 * UNIT:
        return None
    return _match_erfcx(log.owner.inputs[0], 1.0) if isinstance(scalar_op(log), ps.Log) else None


def _match_erfcx(variable: Variable, number: float) -> Monomial | None:
    """w if this is a number times erfcx(w)."""
    found = as_monomial(variable)
    if found.number != number or len(found.above) != 1 or found.below:
        return None
    (inner,) = found.above
    return as_monomial(inner.owner.inputs[0]) if isinstance(scalar_op(inner), psm.Erfcx) else None
