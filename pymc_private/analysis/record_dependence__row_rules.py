"""Label rules of every Op that is not an index."""

from __future__ import annotations

import numpy as np
import pytensor.tensor.special as special
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, ExtractDiag, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, Repeat
from pytensor.tensor.math import Argmax, Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pymc_private.analysis.intervals.ops import OnSimplex
from pymc_private.analysis.intervals.dispatch import perform
from pymc_private.analysis.intervals.arrays__shape import parameters_of
from pymc_private.analysis.intervals.ops__logsumexp import LogSumExp
from pymc_private.analysis.record_dependence import Concrete, Labels, NONE, is_labeled, join, join_over, label

@label.register(Elemwise)
def elementwise(op: Op, node: Apply, concrete: Concrete, *facts: Labels) -> list[Labels]:
    """Element meets element."""
    result = facts[0]
    for fact in facts[1:]:
        result = join(result, fact)
    return [result] * len(node.outputs)


@label.register(CAReduce)
def _reduce(op: CAReduce, node: Apply, concrete: Concrete, fact: Labels) -> list[Labels]:
    """Reduced elements mix."""
    axes = tuple(range(fact.ndim)) if op.axis is None else tuple(op.axis)
    return [join_over(fact, axes)]


@label.register(Argmax)
def _argmax(op: Argmax, node: Apply, concrete: Concrete, fact: Labels) -> list[Labels]:
    """As a reduction."""
    axes = tuple(range(fact.ndim)) if op.axis is None else tuple(op.axis)
    return [join_over(fact, axes)]


@label.register(Dot)
def _dot(op: Dot, node: Apply, concrete: Concrete, x: Labels, y: Labels) -> list[Labels]:
    """Row i of x meets column j of y."""
    rows = join_over(x, (x.ndim - 1,)) if x.ndim else x
    columns = join_over(y, (max(y.ndim - 2, 0),)) if y.ndim else y
    return [join(rows[..., None], columns) if y.ndim == 2 else join(rows, columns)]


@label.register(CumOp)
def _cumulative(op: CumOp, node: Apply, concrete: Concrete, fact: Labels) -> list[Labels]:
    """Prefixes mix along the axis."""
    if op.axis is None:
        return [np.full(fact.size, join_over(fact.ravel(), (0,)))]
    return [np.broadcast_to(join_over(fact, (op.axis,), keepdims=True), fact.shape)]


MOVERS = (
    Alloc,
    DimShuffle,
    ExtractDiag,
    Join,
    MakeVector,
    Repeat,
    Reshape,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)


def _move(op: Op, node: Apply, concrete: Concrete, *facts: Labels) -> list[Labels]:
    """Labels move as the data do; shape arguments are read from the stand-ins."""
    if isinstance(op, MakeVector):
        return [np.asarray(facts)]
    parameters = parameters_of(op, len(facts))
    if any(is_labeled(facts[position]) for position in parameters):
        return label.dispatch(object)(op, node, concrete, *facts)
    arguments = [
        concrete(v) if position in parameters else fact
        for position, (v, fact) in enumerate(zip(node.inputs, facts, strict=True))
    ]
    if isinstance(op, Join):  # by itself it would cast labels to the type of the numbers
        axis, parts = (op.axis, arguments) if not parameters else (arguments[0], arguments[1:])
        return [np.concatenate(parts, axis=int(axis))]
    return [np.asarray(out).astype(np.int64) for out in perform(node, arguments)]


for _op in MOVERS:
    label.register(_op, _move)


@label.register(OnSimplex)
@label.register(SpecifyShape)
@label.register(CheckAndRaise)
def _first(op: Op, node: Apply, concrete: Concrete, *facts: Labels) -> list[Labels]:
    """The value passes; a condition that could fail is refused by the interval rule."""
    return [facts[0]]


@label.register(Shape)
@label.register(Shape_i)
def _shape(op: Op, node: Apply, concrete: Concrete, *facts: Labels) -> list[Labels]:
    """Shapes are public."""
    return [np.full(concrete.shape(node.outputs[0]), NONE)]


@label.register(special.Softmax)
@label.register(special.LogSoftmax)
def _softmax(op: Op, node: Apply, concrete: Concrete, fact: Labels) -> list[Labels]:
    """Mixes along its axis."""
    axes = op.axis if isinstance(op.axis, tuple | type(None)) else (op.axis,)
    axes = tuple(range(fact.ndim)) if axes is None else axes
    return [np.broadcast_to(join_over(fact, axes, keepdims=True), fact.shape)]


@label.register(LogSumExp)
def _log_sum_exp(op: Op, node: Apply, concrete: Concrete, fact: Labels) -> list[Labels]:
    """Reduces the last axis."""
    return [join_over(fact, (fact.ndim - 1,))]


@label.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, concrete: Concrete, *facts: Labels) -> list[Labels]:
    """Batch axes keep, core axes mix (a product of matrices keeps rows and columns)."""
    if isinstance(op.core_op, Dot):
        x, y = facts
        return [
            join(join_over(x, (x.ndim - 1,))[..., None], join_over(y, (y.ndim - 2,))[..., None, :])
        ]
    batch = node.outputs[0].type.ndim - len(op.outputs_sig[0])
    joined = np.full((1,) * batch, NONE)
    for fact, core in zip(facts, op.inputs_sig, strict=True):
        axes = tuple(range(fact.ndim - len(core), fact.ndim))
        joined = join(joined, join_over(fact, axes))
    shapes = [concrete.shape(out) for out in node.outputs]
    pairs = zip(shapes, op.outputs_sig, strict=True)
    return [
        np.broadcast_to(joined.reshape(joined.shape + (1,) * len(core)), shape)
        for shape, core in pairs
    ]
