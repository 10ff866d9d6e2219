"""Graphs that are finite wherever their inputs are, in real arithmetic."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
from typing import Any
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pymc_private.analysis.intervals.arrays import TAKE
from pymc_private.analysis.intervals.arrays__shape import MOVERS

EVERYWHERE = (
    ps.Abs, ps.Add, ps.Cast, ps.Exp, ps.Mul, ps.Neg, ps.Second, ps.Sqr, ps.Sqrt, ps.Sub, ps.Switch,
    ps.Tanh, psm.Sigmoid, psm.Softplus,
)  # fmt: skip
"""Functions of finite numbers that are finite, or no number."""
KEPT = (CumOp, DimShuffle, Dot, Shape, Shape_i, SpecifyShape, Sum, *MOVERS, *TAKE)


def never_infinite(variable: Variable) -> bool:
    """Whether finite inputs give finite values, or NaN: no log, no division, no infinity.

    Parameters
    ----------
    variable : Variable

    Returns
    -------
    bool
        False also where it is not known.
    """
    return all(_is_finite(v) for v in ancestors([variable]))


def _is_finite(variable: Any) -> bool:
    node = variable.owner
    if node is not None:
        return _keeps_finite(node)
    if isinstance(variable, Constant):
        return _has_no_infinity(variable.data)
    return not hasattr(variable, "get_value") or _has_no_infinity(variable.get_value())


def _keeps_finite(node: Apply) -> bool:
    op: Any = node.op
    if isinstance(op, Elemwise):
        divides = isinstance(op.scalar_op, ps.TrueDiv) and _is_nonzero(node.inputs[1])
        return divides or isinstance(op.scalar_op, EVERYWHERE)
    return isinstance(op, KEPT) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot))


def _is_nonzero(variable: Any) -> bool:
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    return isinstance(variable, Constant) and bool(np.all(variable.data != 0))


def _has_no_infinity(data: Any) -> bool:
    """Of an array; slices and the like hold no numbers."""
    array = np.asarray(data)
    return array.dtype.kind not in "fc" or not np.isinf(array).any()
