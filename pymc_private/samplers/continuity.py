"""Where a graph is continuous: what the mean-value form must know of a box.

The form f(c + t) <= f(c) + sup <grad f, t> needs more than a bounded gradient: PyTensor calls the
derivative of a step zero. Here a graph is continuous on a box if every node that the value rests on
is constant there, or is finite and comes from an Op that is continuous wherever its interval is
finite. What is not on the lists below counts as a jump.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor.special as ts
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Max, Min, Prod, Sum
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis import Interval, Trail, composites
from pymc_private.analysis.intervals.indexing import PUT, TAKE
from pymc_private.analysis.intervals.shape import MOVERS

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
    composites.AlsoEqual,
    composites.LogPhiBetween,
    composites.LogPhiGap,
    composites.LogSigmoidGap,
    composites.PowerStep,
)
CONTINUOUS = (
    *MOVERS, *TAKE, *PUT, DimShuffle, SpecifyShape, Dot, Blockwise, Sum, Prod, Max, Min, CumOp,
    composites.OnSimplex, ts.Softmax, ts.LogSoftmax,
    *([ts.LogSumExp] if hasattr(ts, "LogSumExp") else []),
)  # fmt: skip


def moving_variables(outputs: Sequence[Variable], inputs: Sequence[Variable]) -> set[Variable]:
    """The inputs and every variable of the graph that is computed from them."""
    moving = set(inputs)
    for node in io_toposort(list(inputs), list(outputs)):
        if moving.intersection(node.inputs):
            moving.update(node.outputs)
    return moving


def is_continuous(value: Variable, moving: Iterable[Variable], trail: Trail) -> bool:
    """Whether `value` is a continuous function of the parameters on the box of `trail`.

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
    queue, seen = [value], set()
    while queue:
        variable = queue.pop()
        if variable in seen or variable not in moving or _is_decided(trail[variable]):
            continue
        seen.add(variable)
        if not (_is_float(variable) and trail[variable].is_finite):
            return False
        if variable.owner is not None:
            live = _live_inputs(variable.owner, trail)
            if live is None:
                return False
            queue += live
    return True


def _is_float(variable: Variable) -> bool:
    return str(getattr(variable.type, "dtype", "")).startswith("float")


def _is_decided(fact: Interval) -> bool:
    """Whether the node is one and the same value on the whole box."""
    return bool(np.array_equal(fact.lower, fact.upper))


def _live_inputs(node: Apply, trail: Trail) -> list[Variable] | None:
    """The inputs a continuous node rests on; None if the node may jump."""
    if isinstance(node.op, CheckAndRaise):
        return node.inputs[:1]  # a finite interval means that the conditions are proved
    if not isinstance(node.op, Elemwise):
        return node.inputs if isinstance(node.op, CONTINUOUS) else None
    op = node.op.scalar_op
    if isinstance(op, ps.Switch):
        return _live_branches(node, trail)
    if isinstance(op, ps.Clip):  # with crossed ends a clip is a step
        _, low, high = (trail[v] for v in node.inputs)
        return node.inputs if np.all(low.upper <= high.lower) else None
    # A cast to an integer never comes here: its output is no float.
    return node.inputs if isinstance(op, (*CONTINUOUS_SCALARS, ps.Cast)) else None


def _live_branches(node: Apply, trail: Trail) -> list[Variable] | None:
    """The branches that a switch takes somewhere; None if the box leaves the choice open."""
    condition, yes, no = node.inputs
    lower, upper = trail[condition].lower, trail[condition].upper
    # Conditions are Booleans (certain, possible) or numbers, of which zero is false.
    true, false = (lower > 0) | (upper < 0), (lower == 0) & (upper == 0)
    if not np.all(true | false):
        return None
    return [branch for branch, taken in ((yes, true), (no, false)) if np.any(taken)]
