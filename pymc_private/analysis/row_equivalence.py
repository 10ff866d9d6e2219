"""Row equivalence by value numbering: a hash of the expression that computes each element.

A value number is 64 bits that stand for a function of numbered inputs and of public values.
Elements with the same number are the same function (but for a collision, about 2**-64 a pair).
So rows of a likelihood may be exchanged, and evaluated in any number, if all carry one number,
the same with any number of rows. There is one rule per Op, as for the labels of
`record_dependence`; an Op without a rule gives each output element a function of everything it
reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor import special
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import All, Argmax, Dot, Max, Min
from pytensor.tensor.math import Any as AnyOf
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape

from pymc_private.analysis.intervals.arrays import INDEX_UPDATE_OPS, INDEXING_OPS, layout_inputs
from pymc_private.analysis.intervals.ops import LogSumExp, OnSimplex
from pymc_private.analysis.record_dependence import (
    LAYOUT_OPS_WITH_DIMSHUFFLE,
    ConcreteValues,
    index_layout,
    is_array,
)
from pymc_private.analysis.traversal import evaluate_node, walk

ValueNumbers = Any
"""Array of uint64, of the node's shape; a slice or None for index nodes."""

HASH_SEED, HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


@dataclass(frozen=True, eq=False)
class NumberedNode:
    """Marks of a node, and whether it is free of marked inputs (its value is then public)."""

    marks: ValueNumbers
    closed: bool


@dataclass(frozen=True, eq=False)
class NumberingContext:
    """How a graph is read: values of what is public, and whether these values make marks."""

    concrete: ConcreteValues
    by_value: bool


def hash_combine(*parts: ValueNumbers) -> np.ndarray:
    """One mark from several, in order, elementwise with broadcasting."""
    with np.errstate(over="ignore"):
        total: Any = HASH_SEED * np.uint64(len(parts))
        for part in parts:
            total = _splitmix64(total * HASH_FACTOR + np.asarray(part, dtype=np.uint64))
    return np.asarray(total)


def _splitmix64(marks: np.ndarray) -> np.ndarray:
    """A bijection of 64 bits (Steele, Lea and Flood 2014, the finalizer of SplitMix64)."""
    marks = (marks ^ (marks >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    marks = (marks ^ (marks >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return marks ^ (marks >> np.uint64(31))


def hash_sequence(marks: np.ndarray, axes: Sequence[int], keepdims: bool = False) -> np.ndarray:
    """One mark from the sequence along axes."""
    size = int(np.prod([marks.shape[axis] for axis in axes]))
    moved = np.moveaxis(marks, tuple(axes), range(-len(axes), 0))
    terms = hash_combine(
        moved.reshape(*moved.shape[: marks.ndim - len(axes)], size), np.arange(size)
    )
    folded = hash_combine(terms.sum(axis=-1, dtype=np.uint64))
    return np.expand_dims(folded, tuple(axes)) if keepdims else folded


def hash_all(facts: Sequence[NumberedNode]) -> np.ndarray:
    """One mark from every element of several nodes."""
    arrays = [f.marks for f in facts if isinstance(f.marks, np.ndarray)]
    return hash_combine(*(hash_sequence(marks.reshape(-1), (0,)) for marks in arrays))


def hash_values(value: Any) -> np.ndarray:
    """Marks of public numbers: the numbers themselves."""
    array = np.asarray(value)
    if array.dtype.kind in "iub":
        return hash_combine(array.astype(np.int64).view(np.uint64))
    return hash_combine((array.astype(np.float64) + 0.0).view(np.uint64))


def value_numbers(
    outputs: Sequence[Variable],
    marks: Mapping[Variable, np.ndarray],
    values: Mapping[Variable, Any],
    *,
    by_value: bool = True,
) -> list[np.ndarray]:
    """Marks of every element of `outputs`.

    Parameters
    ----------
    outputs : sequence of Variable
        The graph.
    marks : mapping of Variable to array of uint64
        Inputs that are not public, and any constants to be told apart.
    values : mapping of Variable to array
        Stand-ins for every input that is no constant, of the shapes wanted.
    by_value : bool
        Whether two public numbers have the same mark iff they are equal. If not, all public numbers
        have one mark, but for those in `marks`: what depends on these shows.

    Returns
    -------
    list of array of uint64
    """
    reading = NumberingContext(ConcreteValues(values), by_value)

    def leaf(variable: Variable, value: Any) -> NumberedNode:
        if variable in marks:
            return NumberedNode(marks[variable], isinstance(variable, Constant))
        if not is_array(value):
            return NumberedNode(value, True)
        return NumberedNode(
            hash_values(value) if by_value else hash_values(np.zeros(np.shape(value))), True
        )

    def rule(node: Apply, facts: Sequence[NumberedNode]) -> list[NumberedNode]:
        sized = isinstance(node.op, Shape | Shape_i)
        closed = sized or all(fact.closed for fact in facts)
        public = [reading.concrete(out) for out in node.outputs] if closed else []
        if closed and (by_value or sized or not all(is_array(value) for value in public)):
            return [leaf(out, value) for out, value in zip(node.outputs, public, strict=True)]
        return [NumberedNode(out, closed) for out in number_op(node.op, node, reading, *facts)]

    given = {v: leaf(v, value) for v, value in values.items()}
    given |= {v: leaf(v, v.data) for v in marks if isinstance(v, Constant)}
    trail = walk(outputs, given, rule, lambda constant: leaf(constant, constant.data))
    return [trail[output].marks for output in outputs]


@singledispatch
def number_op(
    op: Op, node: Apply, reading: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """Marks of a node's outputs; without a rule each place reads everything in its own way."""
    everything = hash_all(facts)
    found = []
    for k, out in enumerate(node.outputs):
        shape = reading.concrete.shape(out)
        places = np.arange(int(np.prod(shape))).reshape(shape)
        found.append(hash_combine(hash_op(op), everything, k, places))
    return found


def hash_op(op: Op) -> np.uint64:
    """A mark for the function that an Op computes.

    Whole numbers are marked as they are written, for Python's hashes of -1 and -2 are one.
    """
    settings = [getattr(op, name, None) for name in getattr(op, "__props__", None) or ()]
    written = [repr(v) for v in settings if isinstance(v, int | str | tuple | type(None))]
    return np.uint64(hash((type(op).__name__, op, *written)) & 0xFFFFFFFFFFFFFFFF)


@number_op.register(Elemwise)
def number_elementwise(
    op: Op, node: Apply, reading: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """The function of the elements that meet."""
    marks = [fact.marks for fact in facts]
    return [hash_combine(hash_op(op), k, *marks) for k in range(len(node.outputs))]


@number_op.register(CAReduce)
@number_op.register(Argmax)
def _reduce(
    op: Any, node: Apply, reading: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The function of the sequence."""
    axes = range(fact.marks.ndim) if op.axis is None else op.axis
    return [hash_combine(hash_op(op), hash_sequence(fact.marks, tuple(axes)))]


@number_op.register(All)
@number_op.register(AnyOf)
@number_op.register(Max)
@number_op.register(Min)
def _extreme(
    op: Any, node: Apply, reading: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The function of the set: how often an element occurs does not matter."""
    axes = tuple(range(fact.marks.ndim)) if op.axis is None else tuple(op.axis)
    kept = [axis for axis in range(fact.marks.ndim) if axis not in axes]
    moved = fact.marks.transpose(*kept, *axes)
    flat = np.sort(moved.reshape(*moved.shape[: len(kept)], -1), axis=-1)
    first = np.ones(flat.shape, dtype=bool)
    first[..., 1:] = flat[..., 1:] != flat[..., :-1]
    members = np.where(first, hash_combine(flat), np.uint64(0))
    return [hash_combine(hash_op(op), members.sum(axis=-1, dtype=np.uint64))]


@number_op.register(Dot)
def _dot(
    op: Dot, node: Apply, reading: NumberingContext, x: NumberedNode, y: NumberedNode
) -> list[ValueNumbers]:
    """Row i of x meets column j of y."""
    rows = hash_sequence(x.marks, (x.marks.ndim - 1,))
    columns = hash_sequence(y.marks, (max(y.marks.ndim - 2, 0),))
    return [hash_combine(hash_op(op), rows[..., None] if y.marks.ndim == 2 else rows, columns)]


@number_op.register(CumOp)
def _cumulative(
    op: CumOp, node: Apply, reading: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The sequence so far."""
    marks = fact.marks.reshape(-1) if op.axis is None else fact.marks
    axis = op.axis or 0
    places = np.arange(marks.shape[axis]).reshape(-1, *(1,) * (marks.ndim - axis - 1))
    return [
        hash_combine(
            hash_op(op), np.cumsum(hash_combine(marks, places), axis=axis, dtype=np.uint64)
        )
    ]


def _move(
    op: Op, node: Apply, reading: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """Marks move as the data do."""
    if isinstance(op, MakeVector):
        return [np.asarray([fact.marks for fact in facts], dtype=np.uint64)]
    parameters = layout_inputs(op, len(facts))
    if not all(facts[position].closed for position in parameters):
        return number_op.dispatch(object)(op, node, reading, *facts)
    arguments = [
        reading.concrete(v) if position in parameters else _as_signed(fact.marks)
        for position, (v, fact) in enumerate(zip(node.inputs, facts, strict=True))
    ]
    if isinstance(op, Join):  # by itself it would cast marks to the type of the numbers
        axis, parts = (op.axis, arguments) if not parameters else (arguments[0], arguments[1:])
        return [_as_unsigned(np.concatenate(parts, axis=int(axis)))]
    return [_as_unsigned(out) for out in evaluate_node(node, arguments)]


for _op in LAYOUT_OPS_WITH_DIMSHUFFLE:
    number_op.register(_op, _move)


def _as_signed(marks: np.ndarray) -> np.ndarray:
    """Marks as the integers that Ops handle everywhere."""
    return np.asarray(marks).view(np.int64)


def _as_unsigned(moved: Any) -> np.ndarray:
    return np.asarray(moved, dtype=np.int64).view(np.uint64)


@number_op.register(OnSimplex)
@number_op.register(SpecifyShape)
def _specify(
    op: SpecifyShape, node: Apply, reading: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """An identity."""
    return [facts[0].marks]


@number_op.register(CheckAndRaise)
def _check(
    op: CheckAndRaise, node: Apply, reading: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """The value, under its conditions."""
    conditions = [hash_all([fact]) for fact in facts[1:]]
    return [hash_combine(hash_op(op), facts[0].marks, *conditions)]


@number_op.register(special.Softmax)
@number_op.register(special.LogSoftmax)
def _softmax(
    op: Any, node: Apply, reading: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The sequence along the axis, and the element's own part in it."""
    axes = op.axis if isinstance(op.axis, tuple | type(None)) else (op.axis,)
    axes = tuple(range(fact.marks.ndim)) if axes is None else axes
    axes = tuple(axis % fact.marks.ndim for axis in axes)
    return [hash_combine(hash_op(op), hash_sequence(fact.marks, axes, keepdims=True), fact.marks)]


@number_op.register(LogSumExp)
def _log_sum_exp(
    op: Any, node: Apply, reading: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The sequence along the last axis."""
    return [hash_combine(hash_op(op), hash_sequence(fact.marks, (fact.marks.ndim - 1,)))]


@number_op.register(Blockwise)
def _blockwise(
    op: Blockwise, node: Apply, reading: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """The function of the core arrays, at each batch element."""
    if isinstance(op.core_op, Dot):
        x, y = (fact.marks for fact in facts)
        rows, columns = hash_sequence(x, (x.ndim - 1,)), hash_sequence(y, (y.ndim - 2,))
        return [hash_combine(hash_op(op), rows[..., None], columns[..., None, :])]
    cores = [
        hash_sequence(fact.marks, tuple(range(fact.marks.ndim - len(core), fact.marks.ndim)))
        for fact, core in zip(facts, op.inputs_sig, strict=True)
    ]
    found = []
    for k, (out, core) in enumerate(zip(node.outputs, op.outputs_sig, strict=True)):
        shape = reading.concrete.shape(out)[out.type.ndim - len(core) :]
        places = np.arange(int(np.prod(shape))).reshape(shape)
        joined = hash_combine(hash_op(op), k, *cores)
        found.append(hash_combine(joined.reshape(joined.shape + (1,) * len(core)), places))
    return found


def _take(
    op: Op, node: Apply, reading: NumberingContext, x: NumberedNode, *indexes: NumberedNode
) -> list[ValueNumbers]:
    """x[i]: the element named, or for an unknown i the function of i and of all it may name."""
    unknown = [k for k, index in enumerate(indexes) if not index.closed]
    arguments = _index_values(node.inputs[1:], indexes, reading)
    if not unknown and reading.by_value:
        return [_as_unsigned(evaluate_node(node, [_as_signed(x.marks), *arguments])[0])]
    layout = index_layout(node, unknown)
    if layout is None and unknown:
        shape = reading.concrete.shape(node.outputs[0])
        return [np.broadcast_to(hash_combine(hash_op(op), hash_all([x, *indexes])), shape)]
    marks = x.marks
    if unknown and layout is not None:
        over = tuple(layout[0][k] for k in unknown)
        marks = np.broadcast_to(hash_sequence(marks, over, keepdims=True), marks.shape).copy()
    taken = _as_unsigned(evaluate_node(node, [_as_signed(marks), *arguments])[0])
    if layout is None:
        return [hash_combine(taken, hash_all(indexes))]
    axes, start = layout
    # The value of a known index has named its elements already.
    telling = [k for k in axes if k in unknown or not reading.by_value]
    own = hash_combine(hash_op(op), *(indexes[k].marks for k in telling))
    own = np.broadcast_to(own, np.broadcast_shapes(*(indexes[k].marks.shape for k in axes)))
    return [hash_combine(taken, own.reshape(own.shape + (1,) * (taken.ndim - start - own.ndim)))]


def _index_values(
    variables: Sequence, facts: Sequence[NumberedNode], reading: NumberingContext
) -> list[Any]:
    """Values of the index inputs, zero where unknown."""
    return [
        reading.concrete(variable)
        if fact.closed
        else np.zeros(np.shape(fact.marks), dtype=np.int64)
        for variable, fact in zip(variables, facts, strict=True)
    ]


def _update(
    op: Op,
    node: Apply,
    reading: NumberingContext,
    x: NumberedNode,
    y: NumberedNode,
    *indexes: NumberedNode,
) -> list[ValueNumbers]:
    """x with y put at i: each place has its own way of reading, but for what is left untouched."""
    everything = hash_combine(hash_op(op), hash_all([x, y, *indexes]))
    places = np.arange(x.marks.size).reshape(x.marks.shape)
    if not all(index.closed for index in indexes):
        return [hash_combine(everything, places)]
    arguments = _index_values(node.inputs[2:], indexes, reading)
    ones = np.ones(y.marks.shape)
    counts = np.asarray(evaluate_node(node, [np.zeros(x.marks.shape), ones, *arguments])[0])
    moved = _as_unsigned(
        evaluate_node(node, [_as_signed(x.marks) * 0, _as_signed(y.marks), *arguments])[0]
    )
    if getattr(op, "set_instead_of_inc", False):
        return [np.where(counts != 0, moved, x.marks)]
    added = np.where(
        counts > 1, hash_combine(everything, places), hash_combine(hash_op(op), x.marks, moved)
    )
    return [np.where(counts != 0, added, x.marks)]


for _op in INDEXING_OPS:
    number_op.register(_op, _take)
for _op in INDEX_UPDATE_OPS:
    number_op.register(_op, _update)
