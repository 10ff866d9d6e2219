"""No size may depend on a record or on a parameter.

Labels are found with public stand-ins, so they speak of the very sizes those give. Were a size to
move with a record (the length of a mask, of the distinct values) or with a parameter (a repeat, a
slice), elements would change places that the labels never saw, and a shape would tell of data.
"""

from __future__ import annotations

import pytensor.tensor.special as special
from collections.abc import Callable, Sequence
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.scan.op import Scan
from pytensor.tensor.basic import MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, FillDiagonal
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import Subtensor
from pymc_private.analysis.intervals.ops import OnSimplex
from pymc_private.analysis.intervals.arrays import PUT, TAKE
from pymc_private.analysis.intervals.arrays__shape import MOVERS, parameters_of
from pymc_private.analysis.intervals.ops__logsumexp import LogSumExp
from pymc_private.errors import NotCertified

BY_SHAPE = (
    Elemwise, CAReduce, DimShuffle, Argmax, Dot, CumOp, FillDiagonal, SortOp, ArgSortOp, Blockwise,
    SpecifyShape, OnSimplex, CheckAndRaise, Shape, Shape_i, MakeVector, ScalarFromTensor,
    TensorFromScalar, LogSumExp, *PUT,
)  # fmt: skip
"""Ops whose output sizes follow from those of their inputs alone."""
ELEMENTWISE: list[type] = []
"""More of them, of libraries that this room does not know."""
ALGEBRA = ("pytensor.tensor.linalg", "pytensor.tensor.slinalg", "pytensor.tensor.nlinalg")
"""Modules whose Ops are such, too."""
SPECIAL = tuple(
    getattr(special, name)
    for name in ("Softmax", "LogSoftmax", "SoftmaxGrad")
    if hasattr(special, name)
)


def check_sizes(node: Apply, is_fixed: Callable[[Variable], bool]) -> None:
    """Refuse a node whose output size depends on a record or a parameter.

    Parameters
    ----------
    node : Apply
    is_fixed : callable
        Whether a variable's value depends on no record and no parameter.

    Raises
    ------
    NotCertified
        Naming the Op.
    """
    for variable in sizing_inputs(node):
        if not isinstance(variable, Constant) and not is_fixed(variable):
            raise NotCertified(
                "the size of a part of the model depends on the records or on a parameter",
                blame=(str(node.op),),
                cure="write sizes, repeats and slices as constants, and choose by pm.math.switch "
                "on each record instead of by a mask",
            )


def sizing_inputs(node: Apply) -> Sequence[Variable]:
    """The inputs whose values, not shapes alone, decide how large the outputs are."""
    op: Op = node.op
    if isinstance(op, tuple(TAKE)):
        return _sizing_indexes(node)
    if isinstance(op, MOVERS) and not isinstance(op, MakeVector):
        return [node.inputs[k] for k in parameters_of(op, len(node.inputs))]
    if isinstance(op, (*BY_SHAPE, *SPECIAL, *ELEMENTWISE)) or type(op).__module__.startswith(
        ALGEBRA
    ):
        return ()
    if isinstance(op, Scan) and not op.info.as_while:
        return node.inputs[:1]
    known = all(
        getattr(out.type, "ndim", None) is not None and None not in out.type.shape
        for out in node.outputs
    )
    return () if known else node.inputs


def _sizing_indexes(node: Apply) -> Sequence[Variable]:
    """Ends of slices, and masks; a position or an array of positions has its own public size."""
    indexes = node.inputs[1:]
    listed = getattr(node.op, "idx_list", None) or ()
    open_slice = any(
        isinstance(entry, slice) and entry != slice(None, None, None) for entry in listed
    )
    if isinstance(node.op, Subtensor):
        return indexes if open_slice else ()
    masks = [v for v in indexes if getattr(v.type, "dtype", "") == "bool"]
    slices = [v for v in indexes if not hasattr(v.type, "dtype")]
    scalars = [v for v in indexes if open_slice and getattr(v.type, "ndim", 1) == 0]
    return [*masks, *slices, *scalars]
