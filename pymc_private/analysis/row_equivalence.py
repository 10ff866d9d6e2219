"""Which expression computes each element: one rule per Op, as `row_rules` for labels."""

from __future__ import annotations

import numpy as np
from collections.abc import Sequence
from typing import Any
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import special
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import All, Any as AnyOf, Argmax, Dot, Max, Min
from pytensor.tensor.shape import SpecifyShape
from pymc_private.analysis.intervals.ops import OnSimplex
from pymc_private.analysis.row_equivalence__expressions import Fact, Marks, Reading, express, fold, fold_all, mark_of, mix
from pymc_private.analysis.intervals.dispatch import perform
from pymc_private.analysis.intervals.arrays import PUT, TAKE
from pymc_private.analysis.intervals.arrays__shape import parameters_of
from pymc_private.analysis.intervals.ops__logsumexp import LogSumExp
from pymc_private.analysis.record_dependence__row_indexing import index_layout
from pymc_private.analysis.record_dependence__row_rules import MOVERS

@express.register(Elemwise)
def elementwise(op: Op, node: Apply, reading: Reading, *facts: Fact) -> list[Marks]:
    """The function of the elements that meet."""
    marks = [fact.marks for fact in facts]
    return [mix(mark_of(op), k, *marks) for k in range(len(node.outputs))]


@express.register(CAReduce)
@express.register(Argmax)
def _reduce(op: Any, node: Apply, reading: Reading, fact: Fact) -> list[Marks]:
    """The function of the sequence."""
    axes = range(fact.marks.ndim) if op.axis is None else op.axis
    return [mix(mark_of(op), fold(fact.marks, tuple(axes)))]


@express.register(All)
@express.register(AnyOf)
@express.register(Max)
@express.register(Min)
def _extreme(op: Any, node: Apply, reading: Reading, fact: Fact) -> list[Marks]:
    """The function of the set: how often an element occurs does not matter."""
    axes = tuple(range(fact.marks.ndim)) if op.axis is None else tuple(op.axis)
    kept = [axis for axis in range(fact.marks.ndim) if axis not in axes]
    moved = fact.marks.transpose(*kept, *axes)
    flat = np.sort(moved.reshape(*moved.shape[: len(kept)], -1), axis=-1)
    first = np.ones(flat.shape, dtype=bool)
    first[..., 1:] = flat[..., 1:] != flat[..., :-1]
    members = np.where(first, mix(flat), np.uint64(0))
    return [mix(mark_of(op), members.sum(axis=-1, dtype=np.uint64))]


@express.register(Dot)
def _dot(op: Dot, node: Apply, reading: Reading, x: Fact, y: Fact) -> list[Marks]:
    """Row i of x meets column j of y."""
    rows = fold(x.marks, (x.marks.ndim - 1,))
    columns = fold(y.marks, (max(y.marks.ndim - 2, 0),))
    return [mix(mark_of(op), rows[..., None] if y.marks.ndim == 2 else rows, columns)]


@express.register(CumOp)
def _cumulative(op: CumOp, node: Apply, reading: Reading, fact: Fact) -> list[Marks]:
    """The sequence so far."""
    marks = fact.marks.reshape(-1) if op.axis is None else fact.marks
    axis = op.axis or 0
    places = np.arange(marks.shape[axis]).reshape(-1, *(1,) * (marks.ndim - axis - 1))
    return [mix(mark_of(op), np.cumsum(mix(marks, places), axis=axis, dtype=np.uint64))]


def _move(op: Op, node: Apply, reading: Reading, *facts: Fact) -> list[Marks]:
    """Marks move as the data do."""
    if isinstance(op, MakeVector):
        return [np.asarray([fact.marks for fact in facts], dtype=np.uint64)]
    parameters = parameters_of(op, len(facts))
    if not all(facts[position].closed for position in parameters):
        return express.dispatch(object)(op, node, reading, *facts)
    arguments = [
        reading.concrete(v) if position in parameters else _signed(fact.marks)
        for position, (v, fact) in enumerate(zip(node.inputs, facts, strict=True))
    ]
    if isinstance(op, Join):  # by itself it would cast marks to the type of the numbers
        axis, parts = (op.axis, arguments) if not parameters else (arguments[0], arguments[1:])
        return [_unsigned(np.concatenate(parts, axis=int(axis)))]
    return [_unsigned(out) for out in perform(node, arguments)]


for _op in MOVERS:
    express.register(_op, _move)


def _signed(marks: np.ndarray) -> np.ndarray:
    """Marks as the integers that Ops handle everywhere."""
    return np.asarray(marks).view(np.int64)


def _unsigned(moved: Any) -> np.ndarray:
    return np.asarray(moved, dtype=np.int64).view(np.uint64)


@express.register(OnSimplex)
@express.register(SpecifyShape)
def _specify(op: SpecifyShape, node: Apply, reading: Reading, *facts: Fact) -> list[Marks]:
    """An identity."""
    return [facts[0].marks]


@express.register(CheckAndRaise)
def _check(op: CheckAndRaise, node: Apply, reading: Reading, *facts: Fact) -> list[Marks]:
    """The value, under its conditions."""
    conditions = [fold_all([fact]) for fact in facts[1:]]
    return [mix(mark_of(op), facts[0].marks, *conditions)]


@express.register(special.Softmax)
@express.register(special.LogSoftmax)
def _softmax(op: Any, node: Apply, reading: Reading, fact: Fact) -> list[Marks]:
    """The sequence along the axis, and the element's own part in it."""
    axes = op.axis if isinstance(op.axis, tuple | type(None)) else (op.axis,)
    axes = tuple(range(fact.marks.ndim)) if axes is None else axes
    axes = tuple(axis % fact.marks.ndim for axis in axes)
    return [mix(mark_of(op), fold(fact.marks, axes, keepdims=True), fact.marks)]


@express.register(LogSumExp)
def _log_sum_exp(op: Any, node: Apply, reading: Reading, fact: Fact) -> list[Marks]:
    """The sequence along the last axis."""
    return [mix(mark_of(op), fold(fact.marks, (fact.marks.ndim - 1,)))]


@express.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, reading: Reading, *facts: Fact) -> list[Marks]:
    """The function of the core arrays, at each batch element."""
    if isinstance(op.core_op, Dot):
        x, y = (fact.marks for fact in facts)
        rows, columns = fold(x, (x.ndim - 1,)), fold(y, (y.ndim - 2,))
        return [mix(mark_of(op), rows[..., None], columns[..., None, :])]
    cores = [
        fold(fact.marks, tuple(range(fact.marks.ndim - len(core), fact.marks.ndim)))
        for fact, core in zip(facts, op.inputs_sig, strict=True)
    ]
    found = []
    for k, (out, core) in enumerate(zip(node.outputs, op.outputs_sig, strict=True)):
        shape = reading.concrete.shape(out)[out.type.ndim - len(core) :]
        places = np.arange(int(np.prod(shape))).reshape(shape)
        joined = mix(mark_of(op), k, *cores)
        found.append(mix(joined.reshape(joined.shape + (1,) * len(core)), places))
    return found


def _take(op: Op, node: Apply, reading: Reading, x: Fact, *indexes: Fact) -> list[Marks]:
    """x[i]: the element named, or for an unknown i the function of i and of all it may name."""
    unknown = [k for k, index in enumerate(indexes) if not index.closed]
    arguments = _arguments(node.inputs[1:], indexes, reading)
    if not unknown and reading.by_value:
        return [_unsigned(perform(node, [_signed(x.marks), *arguments])[0])]
    layout = index_layout(node, unknown)
    if layout is None and unknown:
        shape = reading.concrete.shape(node.outputs[0])
        return [np.broadcast_to(mix(mark_of(op), fold_all([x, *indexes])), shape)]
    marks = x.marks
    if unknown and layout is not None:
        over = tuple(layout[0][k] for k in unknown)
        marks = np.broadcast_to(fold(marks, over, keepdims=True), marks.shape).copy()
    taken = _unsigned(perform(node, [_signed(marks), *arguments])[0])
    if layout is None:
        return [mix(taken, fold_all(indexes))]
    axes, start = layout
    # The value of a known index has named its elements already.
    telling = [k for k in axes if k in unknown or not reading.by_value]
    own = mix(mark_of(op), *(indexes[k].marks for k in telling))
    own = np.broadcast_to(own, np.broadcast_shapes(*(indexes[k].marks.shape for k in axes)))
    return [mix(taken, own.reshape(own.shape + (1,) * (taken.ndim - start - own.ndim)))]


def _arguments(variables: Sequence, facts: Sequence[Fact], reading: Reading) -> list[Any]:
    """Values of the index inputs, zero where unknown."""
    return [
        reading.concrete(variable)
        if fact.closed
        else np.zeros(np.shape(fact.marks), dtype=np.int64)
        for variable, fact in zip(variables, facts, strict=True)
    ]


def _put(op: Op, node: Apply, reading: Reading, x: Fact, y: Fact, *indexes: Fact) -> list[Marks]:
    """x with y put at i: each place has its own way of reading, but for what is left untouched."""
    everything = mix(mark_of(op), fold_all([x, y, *indexes]))
    places = np.arange(x.marks.size).reshape(x.marks.shape)
    if not all(index.closed for index in indexes):
        return [mix(everything, places)]
    arguments = _arguments(node.inputs[2:], indexes, reading)
    ones = np.ones(y.marks.shape)
    counts = np.asarray(perform(node, [np.zeros(x.marks.shape), ones, *arguments])[0])
    moved = _unsigned(perform(node, [_signed(x.marks) * 0, _signed(y.marks), *arguments])[0])
    if getattr(op, "set_instead_of_inc", False):
        return [np.where(counts != 0, moved, x.marks)]
    added = np.where(counts > 1, mix(everything, places), mix(mark_of(op), x.marks, moved))
    return [np.where(counts != 0, added, x.marks)]


for _op in TAKE:
    express.register(_op, _take)
for _op in PUT:
    express.register(_op, _put)
