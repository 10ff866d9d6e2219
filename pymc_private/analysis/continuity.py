"""Proofs that a graph is continuous, or finite, on a box of inputs.

The mean-value form f(c + t) <= f(c) + sup <grad f, t> needs more than a bounded gradient:
PyTensor calls the derivative of a step zero. Here a graph is continuous on a box if every node
that the value depends on is constant there, or is finite and comes from an Op that is continuous
wherever its interval is finite. What is not on the lists below counts as a jump. What does not
vary may be unknown: the proof holds for each value of it.

`never_infinite` finds graphs that are finite, or NaN, wherever their inputs are finite, in
real arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor.special as ts
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Max, Min, Prod, Sum
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape

from pymc_private.analysis.intervals import ops
from pymc_private.analysis.intervals.arrays import INDEX_UPDATE_OPS, INDEXING_OPS, LAYOUT_OPS
from pymc_private.analysis.intervals.interval import Bounds
from pymc_private.analysis.intervals.logic import Clamp
from pymc_private.analysis.intervals.propagation import Trail
from pymc_private.analysis.traversal import without_dimshuffles

# The interval of a power is finite only where it is continuous: 0^0 is left open by its rule.
_CONTINUOUS_BASIC = """Abs Add ArcSinh ArcTan ArcTanh Cos Cosh Exp Expm1 Identity Log Log10 Log1p
    Log2 Mul Neg Pow Reciprocal ScalarMaximum ScalarMinimum Second Sin Sinh Sqr Sqrt Sub Tanh
    TrueDiv"""
_CONTINUOUS_MATH = """BetaInc Erf Erfc Erfcx Erfinv GammaInc GammaIncC GammaLn I0 I0e I1 Log1mexp
    Psi Sigmoid Softplus TriGamma"""
CONTINUOUS_SCALARS = (
    *(
        getattr(module, name)
        for module, names in ((ps, _CONTINUOUS_BASIC), (psm, _CONTINUOUS_MATH))
        for name in names.split()
        if hasattr(module, name)  # PyTensor 3 has a few more
    ),
    ops.EqualForms,
    ops.LogAddExp,
    ops.LogPhiBetween,
    ops.LogPhiGap,
    ops.LogSigmoidGap,
    ops.PowerStep,
    ops.LogPhi,
    ops.InverseMills,
    ops.InverseMillsSlope,
)
"""Functions that are continuous wherever their interval is finite."""
_TOTAL_OPS = (
    *LAYOUT_OPS, *INDEXING_OPS, *INDEX_UPDATE_OPS, DimShuffle, SpecifyShape, Dot, Sum, Prod, Max,
    Min, CumOp, ops.OnSimplex, ts.Softmax, ts.LogSoftmax, ops.LogSumExp,
)  # fmt: skip
"""Ops that are continuous and give real numbers for all real inputs."""
CONTINUOUS_OPS = (*_TOTAL_OPS, Blockwise)
"""Ops that are continuous wherever their interval is finite."""

DISCONTINUITY_TESTS: list[Callable[[Any], bool]] = []
"""Tests of Ops of other libraries that jump although their interval is finite."""


def dependent_variables(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> set[Variable]:
    """The inputs and every variable of the graph that is computed from them."""
    varying = set(inputs)
    for node in io_toposort(list(inputs), list(outputs)):
        if varying.intersection(node.inputs):
            varying.update(node.outputs)
    return varying


def is_continuous(value: Variable, varying: Collection[Variable], trail: Trail) -> bool:
    """Whether `value` is proved to be a continuous function of the varying inputs on a box.

    `varying` are `dependent_variables`; `trail` has the bounds of the whole graph on the box.
    """
    return bool(continuous_on_boxes(value, varying, trail, 0))


def continuous_on_boxes(
    value: Variable,
    varying: Collection[Variable],
    trail: Trail,
    batch_axes: int,
    order: Sequence[Apply] | None = None,
) -> np.ndarray:
    """`is_continuous` for each of a batch of boxes, in a shape that broadcasts to the batch.

    The leading `batch_axes` axes of every varying variable count boxes. `order` is `io_toposort` of
    the value, where it is asked for many times.
    """
    needed: dict[Variable, np.ndarray] = {value: np.asarray(True)}
    continuous = np.asarray(True)
    for node in reversed(io_toposort([], [value]) if order is None else order):
        wanted = [out for out in node.outputs if out in needed and out in varying]
        for out in wanted:
            dependent = needed[out] & ~_all_per_box(batch_axes, _is_constant(trail[out]))
            if not np.any(dependent):
                continue
            jumps, live = _live_inputs(node, trail, varying, batch_axes)
            finite = _all_per_box(batch_axes, _is_finite_float(out, trail[out]))
            continuous = continuous & (~dependent | (finite & ~jumps))
            for variable, taken in live:
                needed[variable] = needed.get(variable, np.asarray(False)) | (dependent & taken)
    for leaf, mask in needed.items():
        if leaf.owner is None and leaf in varying:
            fine = _all_per_box(batch_axes, _is_finite_float(leaf, trail[leaf]))
            continuous = continuous & (~mask | fine)
    return continuous


def _all_per_box(batch_axes: int, elements: Any) -> np.ndarray:
    """Whether all elements of a box are true, for each box."""
    array = np.asarray(elements)
    return np.asarray(array.all(axis=tuple(range(min(batch_axes, array.ndim), array.ndim))))


def _is_constant(fact: Bounds) -> np.ndarray:
    """Where an element is one and the same value on the whole box."""
    return np.asarray(np.equal(fact.lower, fact.upper))


def _is_finite_float(variable: Variable, fact: Bounds) -> np.ndarray:
    """Where an element is a finite float, or one and the same value."""
    if not str(getattr(variable.type, "dtype", "")).startswith("float"):
        return np.asarray(False)
    return (np.isfinite(fact.lower) & np.isfinite(fact.upper)) | _is_constant(fact)


LiveInputs = tuple[np.ndarray, list[tuple[Variable, np.ndarray]]]
"""The boxes on which a node may jump, and its inputs with the boxes on which it depends on them."""


def _live_inputs(
    node: Apply, trail: Trail, varying: Collection[Variable], batch_axes: int
) -> LiveInputs:
    """The inputs that a node depends on."""
    no, yes = np.asarray(False), np.asarray(True)
    everything = [(variable, yes) for variable in node.inputs]
    if isinstance(node.op, CheckAndRaise):
        return no, everything[:1]  # a finite interval means that the conditions are proved
    if not isinstance(node.op, Elemwise):
        core = getattr(node.op, "core_op", node.op)
        jumps = not isinstance(node.op, CONTINUOUS_OPS) or any(
            test(core) for test in DISCONTINUITY_TESTS
        )
        return np.asarray(jumps), everything
    op = node.op.scalar_op
    if isinstance(op, ps.Switch):
        return _live_branches(node, trail, varying, batch_axes)
    if isinstance(op, ps.Clip | Clamp):  # with crossed limits a clip is a step
        _, low, high = (trail[v] for v in node.inputs)
        return ~_all_per_box(batch_axes, low.upper <= high.lower), everything
    # A cast to an integer never comes here: its output is no float.
    return ~np.asarray(isinstance(op, (*CONTINUOUS_SCALARS, ps.Cast))), everything


def _live_branches(
    node: Apply, trail: Trail, varying: Collection[Variable], batch_axes: int
) -> LiveInputs:
    """The branches that a switch takes somewhere; a jump where its condition may change.

    A condition that does not vary is true or false on the whole box: then there is no jump.
    """
    condition, yes, no = node.inputs
    lower, upper = np.asarray(trail[condition].lower), np.asarray(trail[condition].upper)
    # Conditions are Booleans (certain, possible) or numbers, of which zero is false.
    true, false = (lower > 0) | (upper < 0), (lower == 0) & (upper == 0)
    jumps = ~_all_per_box(batch_axes, true | false) & (condition in varying)
    return jumps, [(yes, ~_all_per_box(batch_axes, false)), (no, ~_all_per_box(batch_axes, true))]


def is_continuous_on_reals(
    outputs: Sequence[Variable], varying: Collection[Variable], trail: Trail
) -> bool:
    """Whether graphs are continuous wherever their inputs are finite numbers.

    Unlike for `is_continuous` the box may be infinite, where an interval may know nothing of 0 inf.
    A sum or product of real numbers is one all the same, and so is every value of a function that
    is defined on the whole line; other values must have bounds without NaN or pole. Infinite bounds
    of inputs are limits that no input attains.
    """
    for node in io_toposort([], list(outputs)):
        for out in node.outputs:
            if out not in varying or np.all(_is_constant(trail[out])):
                continue
            fact = trail[out]
            real = not fact.poles and not np.isnan(fact.lower).any()
            jumps, _ = _live_inputs(node, trail, varying, 0)
            if not (real or is_total(node) or _is_inside_domain(node, trail)) or np.any(jumps):
                return False
            if not str(out.type.dtype).startswith("float"):
                return False
    return True


_TOTAL_NAMES = """Abs Add ArcSinh ArcTan Cos Cosh Exp Expm1 Identity Mul Neg ScalarMaximum
    ScalarMinimum Second Sin Sinh Sqr Sub Switch Tanh"""
_TOTAL_SCALARS = (
    *(getattr(ps, name) for name in _TOTAL_NAMES.split()),
    psm.Erf, psm.Erfc, psm.Erfcx, psm.Sigmoid, psm.Softplus,
    ops.LogPhi, ops.InverseMills, ops.InverseMillsSlope,
)  # fmt: skip
"""Functions that give real numbers for all real inputs."""


def _is_inside_domain(node: Apply, trail: Trail) -> bool:
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
        whole = exponent.is_finite and np.all(_is_constant(exponent) & (exponent.lower >= 1.0))
        return positive or bool(whole and np.all(np.equal(np.rint(exponent.lower), exponent.lower)))
    return False


def is_total(node: Apply) -> bool:
    """Whether real inputs always give a real output (real arithmetic)."""
    if isinstance(node.op, Elemwise):
        return isinstance(node.op.scalar_op, _TOTAL_SCALARS)
    return isinstance(node.op, _TOTAL_OPS)


FINITE_SCALARS = (
    ps.Abs, ps.Add, ps.Cast, ps.Exp, ps.Mul, ps.Neg, ps.Second, ps.Sqr, ps.Sqrt, ps.Sub, ps.Switch,
    ps.Tanh, psm.Sigmoid, psm.Softplus,
)  # fmt: skip
"""Functions of finite numbers that are finite, or NaN."""
FINITE_OPS = (CumOp, DimShuffle, Dot, Shape, Shape_i, SpecifyShape, Sum, *LAYOUT_OPS, *INDEXING_OPS)
"""Ops of finite numbers that are finite, beside matrix products."""


def never_infinite(variable: Variable) -> bool:
    """Whether finite inputs are proved to give finite values, or NaN.

    So there is no logarithm, no division by what may be zero, and no infinite constant.
    """
    return all(_is_finite_variable(v) for v in ancestors([variable]))


def _is_finite_variable(variable: Any) -> bool:
    """Whether a variable is never infinite if its inputs are not."""
    node = variable.owner
    if node is not None:
        return _keeps_finite(node)
    if isinstance(variable, Constant):
        return _has_no_infinity(variable.data)
    return not hasattr(variable, "get_value") or _has_no_infinity(variable.get_value())


def _keeps_finite(node: Apply) -> bool:
    """Whether a node of finite inputs is finite, or NaN."""
    op: Any = node.op
    if isinstance(op, Elemwise):
        divides = isinstance(op.scalar_op, ps.TrueDiv) and _is_nonzero(node.inputs[1])
        return divides or isinstance(op.scalar_op, FINITE_SCALARS)
    return isinstance(op, FINITE_OPS) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot))


def _is_nonzero(variable: Any) -> bool:
    """Whether a variable is a constant without zeros."""
    variable = without_dimshuffles(variable)
    return isinstance(variable, Constant) and bool(np.all(variable.data != 0))


def _has_no_infinity(data: Any) -> bool:
    """Whether no number is infinite; slices and the like hold no numbers."""
    array = np.asarray(data)
    return array.dtype.kind not in "fc" or not np.isinf(array).any()
