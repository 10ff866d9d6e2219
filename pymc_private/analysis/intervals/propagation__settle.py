"""What holds of every node's interval, whatever the rule that made it."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
from collections.abc import Sequence
from dataclasses import replace
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Prod, Sum
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.arrays import PUT
from pymc_private.analysis.intervals.logic import truth

POLES = (
    ps.ArcTanh,
    ps.Log,
    ps.Log1p,
    ps.Log2,
    ps.Log10,
    psm.Erfinv,
    psm.Log1mexp,
)
"""Functions that are infinite at some finite argument."""

MEETING = (ps.Add, ps.Mul, ps.Sub, ps.TrueDiv, Blockwise, CumOp, Dot, Prod, Sum, *PUT)
"""Ops in which two infinite values may meet, or one and a zero."""


def has_lost_shape(variable: Variable, fact: Interval) -> bool:
    """Whether nothing is known of a node, not even its shape: one NaN for an array."""
    ndim = getattr(variable.type, "ndim", None)
    return ndim is not None and getattr(fact.lower, "ndim", ndim) != ndim


def settle(node: Apply, facts: Sequence[Interval], out: Variable, answer: Interval) -> Interval:
    """The answer of a rule, made to fit the data type of the node and to own up to NaN.

    Parameters
    ----------
    node : Apply
    facts : sequence of Interval
        Of its inputs.
    out : Variable
        The output the answer is about.
    answer : Interval

    Returns
    -------
    Interval
        Boolean ends for a Boolean node, whole ends for an integer node; NaN in both ends or none.
    """
    if answer.is_symbolic or not isinstance(answer.lower, np.ndarray | np.generic):
        return answer
    kind = np.dtype(out.type.dtype).kind
    if kind == "b":
        return truth(answer)
    if kind in "iu" and not answer.is_point:
        answer = _whole(answer, out.type.dtype, all(f.is_finite for f in facts if _is_number(f)))
    return answer if answer.is_finite else _own_up(node, facts, answer)


def _is_number(fact: Interval) -> bool:
    return isinstance(fact.lower, np.ndarray | np.generic)


def _whole(answer: Interval, dtype: str, from_finite: bool) -> Interval:
    """Integers between the ends. Beyond the range of its type an integer would wrap around.

    An unbounded 64-bit count is taken to be unbounded: nobody counts to 2**63.
    """
    info = np.iinfo(dtype)
    lower, upper = np.ceil(answer.lower), np.floor(answer.upper)
    unbounded = info.bits == 64 and not from_finite
    fits_below = (lower >= float(info.min)) | (unbounded & np.isneginf(lower))
    fits_above = (upper < float(info.max) + 1.0) | (unbounded & np.isposinf(upper))
    whole = replace(answer, lower=lower, upper=upper)
    fits = fits_below & fits_above & (lower <= upper)
    return whole if fits.all() else whole.where(fits)


def _own_up(node: Apply, facts: Sequence[Interval], answer: Interval) -> Interval:
    """NaN in one end is NaN in both; so is inf - inf where the infinities may be values."""
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    poles = any(fact.poles for fact in facts)
    known = ~(np.isnan(answer.lower) | np.isnan(answer.upper))
    if poles and isinstance(op, MEETING):
        known &= ~(np.isneginf(answer.lower) & np.isposinf(answer.upper))
    poles = poles or isinstance(op, POLES) or answer.is_point
    if not known.all() and not answer.is_point:
        answer = replace(answer.where(known), within=answer.within)
    return replace(answer, poles=poles)
