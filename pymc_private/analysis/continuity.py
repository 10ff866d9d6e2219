"""Where a graph is continuous: what the mean-value form must know of a box.

The form f(c + t) <= f(c) + sup <grad f, t> needs more than a bounded gradient: PyTensor calls the
derivative of a step zero. Here a graph is continuous on a box if every node that the value rests on
is constant there, or is finite and comes from an Op that is continuous wherever its interval is
finite. What is not on the lists below counts as a jump. What does not move may be unknown: the
question is asked for each value of it.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor.special as ts
from collections.abc import Callable, Collection, Sequence
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Max, Min, Prod, Sum
from pytensor.tensor.shape import SpecifyShape
from pymc_private.analysis.intervals import ops, ops__normal_tail
from pymc_private.analysis.intervals.propagation import Trail
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.logic__confine import Confine
from pymc_private.analysis.intervals.arrays import PUT, TAKE
from pymc_private.analysis.intervals.arrays__shape import MOVERS
from pymc_private.analysis.intervals.ops__logsumexp import LogSumExp

# The interval of a power is finite only where it is continuous: 0^0 is left open by its rule.
_BASIC = """Abs Add ArcSinh ArcTan ArcTanh Cos Cosh Exp Expm1 Identity Log Log10 Log1p Log2 Mul Neg
    Pow Reciprocal ScalarMaximum ScalarMinimum Second Sin Sinh Sqr Sqrt Sub Tanh TrueDiv"""
_MATH = """BetaInc Erf Erfc Erfcx Erfinv GammaInc GammaIncC GammaLn I0 I0e I1 Log1mexp Psi Sigmoid
    Softplus TriGamma"""
CONTINUOUS_SCALARS = (
    *(
        getattr(module, name)
        for module, names in ((ps, _BASIC), (psm, _MATH))
        for name in names.split()
        if hasattr(module, name)  # PyTensor 3 has a few more
    ),
    ops.AlsoEqual,
    ops.LogAddExp,
    ops.LogPhiBetween,
    ops.LogPhiGap,
    ops.LogSigmoidGap,
    ops.PowerStep,
    ops__normal_tail.LogPhi,
    ops__normal_tail.Mills,
    ops__normal_tail.MillsSlope,
)
CONTINUOUS = (
    *MOVERS, *TAKE, *PUT, DimShuffle, SpecifyShape, Dot, Blockwise, Sum, Prod, Max, Min, CumOp,
    ops.OnSimplex, ts.Softmax, ts.LogSoftmax, LogSumExp,
)  # fmt: skip


STEPPED: list[Callable[[Any], bool]] = []
"""Tests of Ops of other libraries that jump although their interval is finite."""


def moving_variables(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> set[Variable]:
    """The inputs and every variable of the graph that is computed from them."""
    moving = set(inputs)
    for node in io_toposort(list(inputs), list(outputs)):
        if moving.intersection(node.inputs):
            moving.update(node.outputs)
    return moving


def is_continuous(value: Variable, moving: Collection[Variable], trail: Trail) -> bool:
    """Whether `value` is a continuous function of the moving inputs on the box of `trail`.

    Parameters
    ----------
    value : Variable
    moving : set of Variable
        See `moving_variables`.
    trail : Trail
        Intervals of the whole graph on the box.

    Returns
    -------
    bool
        False where this is not proved.
    """
    return bool(continuity(value, moving, trail, 0))


def continuity(
    value: Variable,
    moving: Collection[Variable],
    trail: Trail,
    batch_axes: int,
    order: Sequence[Apply] | None = None,
) -> np.ndarray:
    """`is_continuous` for each of a batch of boxes, whose number is the leading axes' shape.

    Parameters
    ----------
    value, moving, trail
        As for `is_continuous`.
    batch_axes : int
        Leading axes of every moving variable that count boxes.
    order : sequence of Apply, optional
        `io_toposort` of the value, where the same question is asked many times.

    Returns
    -------
    array of bool, of a shape that broadcasts to the batch
    """
    needed: dict[Variable, np.ndarray] = {value: np.asarray(True)}
    continuous = np.asarray(True)
    for node in reversed(io_toposort([], [value]) if order is None else order):
        wanted = [out for out in node.outputs if out in needed and out in moving]
        for out in wanted:
            rests = needed[out] & ~_each(batch_axes, _same_ends(trail[out]))
            if not np.any(rests):
                continue
            jumps, live = _live_inputs(node, trail, moving, batch_axes)
            sane = _each(batch_axes, _is_sane(out, trail[out]))
            continuous = continuous & (~rests | (sane & ~jumps))
            for variable, taken in live:
                needed[variable] = needed.get(variable, np.asarray(False)) | (rests & taken)
    for leaf, mask in needed.items():
        if leaf.owner is None and leaf in moving:
            fine = _each(batch_axes, _is_sane(leaf, trail[leaf]))
            continuous = continuous & (~mask | fine)
    return continuous


def _each(batch_axes: int, elements: Any) -> np.ndarray:
    """All elements of each box."""
    array = np.asarray(elements)
    return np.asarray(array.all(axis=tuple(range(min(batch_axes, array.ndim), array.ndim))))


def _same_ends(fact: Interval) -> np.ndarray:
    """Where an element is one and the same value on the whole box."""
    return np.asarray(np.equal(fact.lower, fact.upper))


def _is_sane(variable: Variable, fact: Interval) -> np.ndarray:
    """Where an element is a finite float, or one and the same value."""
    if not str(getattr(variable.type, "dtype", "")).startswith("float"):
        return np.asarray(False)
    return (np.isfinite(fact.lower) & np.isfinite(fact.upper)) | _same_ends(fact)


Live = tuple[np.ndarray, list[tuple[Variable, np.ndarray]]]
"""The boxes on which a node may jump, and its inputs with the boxes on which it rests on them."""


def _live_inputs(node: Apply, trail: Trail, moving: Collection[Variable], batch_axes: int) -> Live:
    """What a node rests on."""
    no, yes = np.asarray(False), np.asarray(True)
    everything = [(variable, yes) for variable in node.inputs]
    if isinstance(node.op, CheckAndRaise):
        return no, everything[:1]  # a finite interval means that the conditions are proved
    if not isinstance(node.op, Elemwise):
        core = getattr(node.op, "core_op", node.op)
        jumps = not isinstance(node.op, CONTINUOUS) or any(test(core) for test in STEPPED)
        return np.asarray(jumps), everything
    op = node.op.scalar_op
    if isinstance(op, ps.Switch):
        return _live_branches(node, trail, moving, batch_axes)
    if isinstance(op, ps.Clip | Confine):  # with crossed ends a clip is a step
        _, low, high = (trail[v] for v in node.inputs)
        return ~_each(batch_axes, low.upper <= high.lower), everything
    # A cast to an integer never comes here: its output is no float.
    return ~np.asarray(isinstance(op, (*CONTINUOUS_SCALARS, ps.Cast))), everything


def _live_branches(
    node: Apply, trail: Trail, moving: Collection[Variable], batch_axes: int
) -> Live:
    """The branches that a switch takes somewhere; a jump where the box leaves the choice open.

    A condition that does not move is one choice, known or not: then there is no jump.
    """
    condition, yes, no = node.inputs
    lower, upper = np.asarray(trail[condition].lower), np.asarray(trail[condition].upper)
    # Conditions are Booleans (certain, possible) or numbers, of which zero is false.
    true, false = (lower > 0) | (upper < 0), (lower == 0) & (upper == 0)
    jumps = ~_each(batch_axes, true | false) & (condition in moving)
    return jumps, [(yes, ~_each(batch_axes, false)), (no, ~_each(batch_axes, true))]


def is_continuous_on_line(
    outputs: Sequence[Variable], moving: Collection[Variable], trail: Trail
) -> bool:
    """Whether graphs are continuous wherever their inputs are finite numbers.

    Unlike for `is_continuous` the box may be infinite, where an interval may know nothing of 0 inf.
    A sum or product of real numbers is one all the same, and so is every value of a function that
    is defined on the whole line; other values must have an interval without NaN or pole.

    Parameters
    ----------
    outputs : sequence of Variable
    moving : collection of Variable
        See `moving_variables`.
    trail : Trail
        Intervals of the graphs; infinite ends of inputs are limits that no input attains.
    """
    for node in io_toposort([], list(outputs)):
        for out in node.outputs:
            if out not in moving or np.all(_same_ends(trail[out])):
                continue
            fact = trail[out]
            real = not fact.poles and not np.isnan(fact.lower).any()
            jumps, _ = _live_inputs(node, trail, moving, 0)
            if not (real or is_total(node) or _is_inside(node, trail)) or np.any(jumps):
                return False
            if not str(out.type.dtype).startswith("float"):
                return False
    return True


_LINE = """Abs Add ArcSinh ArcTan Cos Cosh Exp Expm1 Identity Mul Neg ScalarMaximum ScalarMinimum
    Second Sin Sinh Sqr Sub Switch Tanh"""
_ON_THE_LINE = (
    *(getattr(ps, name) for name in _LINE.split()),
    psm.Erf, psm.Erfc, psm.Erfcx, psm.Sigmoid, psm.Softplus,
    ops__normal_tail.LogPhi, ops__normal_tail.Mills, ops__normal_tail.MillsSlope,
)  # fmt: skip
_ANYWHERE = (
    *MOVERS, *TAKE, *PUT, DimShuffle, SpecifyShape, Dot, Sum, Prod, Max, Min, CumOp,
    ops.OnSimplex, ts.Softmax, ts.LogSoftmax, LogSumExp,
)  # fmt: skip


def _is_inside(node: Apply, trail: Trail) -> bool:
    """Whether the inputs are proved to lie where the function is finite."""
    op = getattr(node.op, "scalar_op", None)
    facts = [trail[v] for v in node.inputs]
    if isinstance(op, ps.Log | ps.Log1p):
        return bool(np.all(facts[0].lower > (0.0 if isinstance(op, ps.Log) else -1.0)))
    if isinstance(op, psm.Log1mexp):
        return bool(np.all(facts[0].upper < 0.0))
    if isinstance(op, ps.TrueDiv | ps.Reciprocal):
        return bool(np.all((facts[-1].lower > 0.0) | (facts[-1].upper < 0.0)))
    if isinstance(op, ps.Pow):
        exponent, positive = facts[1], bool(np.all(facts[0].lower > 0.0))
        whole = exponent.is_finite and np.all(_same_ends(exponent) & (exponent.lower >= 1.0))
        return positive or bool(whole and np.all(np.equal(np.rint(exponent.lower), exponent.lower)))
    return False


def is_total(node: Apply) -> bool:
    """Whether real inputs always give a real output (real arithmetic)."""
    if isinstance(node.op, Elemwise):
        return isinstance(node.op.scalar_op, _ON_THE_LINE)
    return isinstance(node.op, _ANYWHERE)
