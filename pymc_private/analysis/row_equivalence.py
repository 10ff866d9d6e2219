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
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import All, Argmax, Dot, Max, Min
from pytensor.tensor.math import Any as AnyOf
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape

from pymc_private.analysis.intervals.arrays import (
    INDEX_UPDATE_OPS,
    INDEXING_OPS,
    LAYOUT_OPS,
    layout_inputs,
)
from pymc_private.analysis.intervals.ops import LogSumExp, OnSimplex
from pymc_private.analysis.record_dependence import (
    ConcreteValues,
    index_layout,
    is_array,
)
from pymc_private.analysis.traversal import evaluate_node, walk

ValueNumbers = Any
"""Array of uint64, of the node's shape; a slice or None for index nodes."""


@dataclass(frozen=True, eq=False)
class NumberedNode:
    """Value numbers of a node, and whether its value is public: it reads no numbered input."""

    numbers: ValueNumbers
    is_public: bool


@dataclass(frozen=True, eq=False)
class NumberingContext:
    """Values of what is public, and whether public values are numbered by value."""

    concrete: ConcreteValues
    by_value: bool


def value_numbers(
    outputs: Sequence[Variable],
    numbers: Mapping[Variable, np.ndarray],
    values: Mapping[Variable, Any],
    *,
    by_value: bool = True,
) -> list[np.ndarray]:
    """Value numbers of every element of `outputs`.

    `numbers` are those of the inputs that are not public, and of any constants to be distinguished.
    `values` are stand-ins for every input that is no constant, of the shapes wanted. If `by_value`,
    two public values have the same number iff they are equal. If not, all public values have one
    number, but for the constants in `numbers`: what depends on these shows.
    """
    context = NumberingContext(ConcreteValues(values), by_value)

    def leaf(variable: Variable, value: Any) -> NumberedNode:
        if variable in numbers:
            return NumberedNode(numbers[variable], isinstance(variable, Constant))
        if not is_array(value):
            return NumberedNode(value, True)
        return NumberedNode(
            hash_values(value) if by_value else hash_values(np.zeros(np.shape(value))), True
        )

    def rule(node: Apply, facts: Sequence[NumberedNode]) -> list[NumberedNode]:
        sized = isinstance(node.op, Shape | Shape_i)
        is_public = sized or all(fact.is_public for fact in facts)
        public = [context.concrete(out) for out in node.outputs] if is_public else []
        if is_public and (by_value or sized or not all(is_array(value) for value in public)):
            return [leaf(out, value) for out, value in zip(node.outputs, public, strict=True)]
        return [NumberedNode(out, is_public) for out in number_op(node.op, node, context, *facts)]

    given = {v: leaf(v, value) for v, value in values.items()}
    given |= {v: leaf(v, v.data) for v in numbers if isinstance(v, Constant)}
    trail = walk(outputs, given, rule, lambda constant: leaf(constant, constant.data))
    return [trail[output].numbers for output in outputs]


# ---- hashes ----------------------------------------------------------------------------------


HASH_SEED, HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


def hash_combine(*parts: ValueNumbers) -> np.ndarray:
    """One number from several, in order, elementwise with broadcasting."""
    with np.errstate(over="ignore"):
        total: Any = HASH_SEED * np.uint64(len(parts))
        for part in parts:
            total = _splitmix64(total * HASH_FACTOR + np.asarray(part, dtype=np.uint64))
    return np.asarray(total)


def _splitmix64(numbers: np.ndarray) -> np.ndarray:
    """A bijection of 64 bits (Steele, Lea and Flood 2014, the finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def hash_sequence(numbers: np.ndarray, axes: Sequence[int], keepdims: bool = False) -> np.ndarray:
    """One number from the sequence along axes."""
    size = int(np.prod([numbers.shape[axis] for axis in axes]))
    moved = np.moveaxis(numbers, tuple(axes), range(-len(axes), 0))
    terms = hash_combine(
        moved.reshape(*moved.shape[: numbers.ndim - len(axes)], size), np.arange(size)
    )
    folded = hash_combine(terms.sum(axis=-1, dtype=np.uint64))
    return np.expand_dims(folded, tuple(axes)) if keepdims else folded


def hash_all(facts: Sequence[NumberedNode]) -> np.ndarray:
    """One number from every element of several nodes."""
    arrays = [f.numbers for f in facts if isinstance(f.numbers, np.ndarray)]
    return hash_combine(*(hash_sequence(numbers.reshape(-1), (0,)) for numbers in arrays))


def hash_values(value: Any) -> np.ndarray:
    """Value numbers of public numbers: the numbers themselves."""
    array = np.asarray(value)
    if array.dtype.kind in "iub":
        return hash_combine(array.astype(np.int64).view(np.uint64))
    return hash_combine((array.astype(np.float64) + 0.0).view(np.uint64))


def hash_op(op: Op) -> np.uint64:
    """A number for the function that an Op computes.

    Integer settings are hashed as they are written, for Python's hashes of -1 and -2 are one.
    """
    settings = [getattr(op, name, None) for name in getattr(op, "__props__", None) or ()]
    written = [repr(v) for v in settings if isinstance(v, int | str | tuple | type(None))]
    return np.uint64(hash((type(op).__name__, op, *written)) & 0xFFFFFFFFFFFFFFFF)


# ---- rules of Ops ----------------------------------------------------------------------------


@singledispatch
def number_op(
    op: Op, node: Apply, context: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """Value numbers of a node's outputs; without a rule each element is its own function of all."""
    everything = hash_all(facts)
    found = []
    for k, out in enumerate(node.outputs):
        shape = context.concrete.shape(out)
        positions = np.arange(int(np.prod(shape))).reshape(shape)
        found.append(hash_combine(hash_op(op), everything, k, positions))
    return found


@number_op.register(Elemwise)
def number_elementwise(
    op: Op, node: Apply, context: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """The function of the elements that are broadcast together."""
    numbers = [fact.numbers for fact in facts]
    return [hash_combine(hash_op(op), k, *numbers) for k in range(len(node.outputs))]


@number_op.register(CAReduce)
@number_op.register(Argmax)
def _reduce(
    op: Any, node: Apply, context: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The function of the sequence of elements."""
    axes = range(fact.numbers.ndim) if op.axis is None else op.axis
    return [hash_combine(hash_op(op), hash_sequence(fact.numbers, tuple(axes)))]


@number_op.register(All)
@number_op.register(AnyOf)
@number_op.register(Max)
@number_op.register(Min)
def _extreme(
    op: Any, node: Apply, context: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The function of the set of elements: how often one occurs does not matter."""
    axes = tuple(range(fact.numbers.ndim)) if op.axis is None else tuple(op.axis)
    kept = [axis for axis in range(fact.numbers.ndim) if axis not in axes]
    moved = fact.numbers.transpose(*kept, *axes)
    flat = np.sort(moved.reshape(*moved.shape[: len(kept)], -1), axis=-1)
    first = np.ones(flat.shape, dtype=bool)
    first[..., 1:] = flat[..., 1:] != flat[..., :-1]
    members = np.where(first, hash_combine(flat), np.uint64(0))
    return [hash_combine(hash_op(op), members.sum(axis=-1, dtype=np.uint64))]


@number_op.register(Dot)
def _dot(
    op: Dot, node: Apply, context: NumberingContext, x: NumberedNode, y: NumberedNode
) -> list[ValueNumbers]:
    """Element (i, j) is the function of row i of x and column j of y."""
    rows = hash_sequence(x.numbers, (x.numbers.ndim - 1,))
    columns = hash_sequence(y.numbers, (max(y.numbers.ndim - 2, 0),))
    return [hash_combine(hash_op(op), rows[..., None] if y.numbers.ndim == 2 else rows, columns)]


@number_op.register(CumOp)
def _cumulative(
    op: CumOp, node: Apply, context: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The function of the sequence so far."""
    numbers = fact.numbers.reshape(-1) if op.axis is None else fact.numbers
    axis = op.axis or 0
    positions = np.arange(numbers.shape[axis]).reshape(-1, *(1,) * (numbers.ndim - axis - 1))
    return [
        hash_combine(
            hash_op(op), np.cumsum(hash_combine(numbers, positions), axis=axis, dtype=np.uint64)
        )
    ]


def _move(
    op: Op, node: Apply, context: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """Value numbers move as the elements do."""
    if isinstance(op, MakeVector):
        return [np.asarray([fact.numbers for fact in facts], dtype=np.uint64)]
    parameters = layout_inputs(op, len(facts))
    if not all(facts[position].is_public for position in parameters):
        return number_op.dispatch(object)(op, node, context, *facts)
    arguments = [
        context.concrete(v) if position in parameters else _as_signed(fact.numbers)
        for position, (v, fact) in enumerate(zip(node.inputs, facts, strict=True))
    ]
    if isinstance(op, Join):  # by itself it would cast numbers to the type of the numbers
        axis, parts = (op.axis, arguments) if not parameters else (arguments[0], arguments[1:])
        return [_as_unsigned(np.concatenate(parts, axis=int(axis)))]
    return [_as_unsigned(out) for out in evaluate_node(node, arguments)]


for _op in (DimShuffle, *LAYOUT_OPS):
    number_op.register(_op, _move)


def _as_signed(numbers: np.ndarray) -> np.ndarray:
    """Value numbers as signed integers, which all Ops handle."""
    return np.asarray(numbers).view(np.int64)


def _as_unsigned(moved: Any) -> np.ndarray:
    """Value numbers again."""
    return np.asarray(moved, dtype=np.int64).view(np.uint64)


@number_op.register(OnSimplex)
@number_op.register(SpecifyShape)
def _specify(
    op: SpecifyShape, node: Apply, context: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """An identity."""
    return [facts[0].numbers]


@number_op.register(CheckAndRaise)
def _check(
    op: CheckAndRaise, node: Apply, context: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """The value, under its conditions."""
    conditions = [hash_all([fact]) for fact in facts[1:]]
    return [hash_combine(hash_op(op), facts[0].numbers, *conditions)]


@number_op.register(special.Softmax)
@number_op.register(special.LogSoftmax)
def _softmax(
    op: Any, node: Apply, context: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The function of the sequence along the axis, and of the element itself."""
    axes = op.axis if isinstance(op.axis, tuple | type(None)) else (op.axis,)
    axes = tuple(range(fact.numbers.ndim)) if axes is None else axes
    axes = tuple(axis % fact.numbers.ndim for axis in axes)
    return [
        hash_combine(hash_op(op), hash_sequence(fact.numbers, axes, keepdims=True), fact.numbers)
    ]


@number_op.register(LogSumExp)
def _log_sum_exp(
    op: Any, node: Apply, context: NumberingContext, fact: NumberedNode
) -> list[ValueNumbers]:
    """The function of the sequence along the last axis."""
    return [hash_combine(hash_op(op), hash_sequence(fact.numbers, (fact.numbers.ndim - 1,)))]


@number_op.register(Blockwise)
def _blockwise(
    op: Blockwise, node: Apply, context: NumberingContext, *facts: NumberedNode
) -> list[ValueNumbers]:
    """The function of the core arrays, at each batch element."""
    if isinstance(op.core_op, Dot):
        x, y = (fact.numbers for fact in facts)
        rows, columns = hash_sequence(x, (x.ndim - 1,)), hash_sequence(y, (y.ndim - 2,))
        return [hash_combine(hash_op(op), rows[..., None], columns[..., None, :])]
    cores = [
        hash_sequence(fact.numbers, tuple(range(fact.numbers.ndim - len(core), fact.numbers.ndim)))
        for fact, core in zip(facts, op.inputs_sig, strict=True)
    ]
    found = []
    for k, (out, core) in enumerate(zip(node.outputs, op.outputs_sig, strict=True)):
        shape = context.concrete.shape(out)[out.type.ndim - len(core) :]
        positions = np.arange(int(np.prod(shape))).reshape(shape)
        joined = hash_combine(hash_op(op), k, *cores)
        found.append(hash_combine(joined.reshape(joined.shape + (1,) * len(core)), positions))
    return found


# ---- rules of indexing -----------------------------------------------------------------------


def _take(
    op: Op, node: Apply, context: NumberingContext, x: NumberedNode, *indexes: NumberedNode
) -> list[ValueNumbers]:
    """x[i]: the element indexed, or for an unknown i the function of i and all it may index."""
    unknown = [k for k, index in enumerate(indexes) if not index.is_public]
    arguments = _index_values(node.inputs[1:], indexes, context)
    if not unknown and context.by_value:
        return [_as_unsigned(evaluate_node(node, [_as_signed(x.numbers), *arguments])[0])]
    layout = index_layout(node, unknown)
    if layout is None and unknown:
        shape = context.concrete.shape(node.outputs[0])
        return [np.broadcast_to(hash_combine(hash_op(op), hash_all([x, *indexes])), shape)]
    numbers = x.numbers
    if unknown and layout is not None:
        over = tuple(layout[0][k] for k in unknown)
        numbers = np.broadcast_to(hash_sequence(numbers, over, keepdims=True), numbers.shape).copy()
    taken = _as_unsigned(evaluate_node(node, [_as_signed(numbers), *arguments])[0])
    if layout is None:
        return [hash_combine(taken, hash_all(indexes))]
    axes, start = layout
    # The value of a known index has chosen its elements already.
    distinct = [k for k in axes if k in unknown or not context.by_value]
    own = hash_combine(hash_op(op), *(indexes[k].numbers for k in distinct))
    own = np.broadcast_to(own, np.broadcast_shapes(*(indexes[k].numbers.shape for k in axes)))
    return [hash_combine(taken, own.reshape(own.shape + (1,) * (taken.ndim - start - own.ndim)))]


def _index_values(
    variables: Sequence, facts: Sequence[NumberedNode], context: NumberingContext
) -> list[Any]:
    """Values of the index inputs, zero where unknown."""
    return [
        context.concrete(variable)
        if fact.is_public
        else np.zeros(np.shape(fact.numbers), dtype=np.int64)
        for variable, fact in zip(variables, facts, strict=True)
    ]


def _update(
    op: Op,
    node: Apply,
    context: NumberingContext,
    x: NumberedNode,
    y: NumberedNode,
    *indexes: NumberedNode,
) -> list[ValueNumbers]:
    """x with y put at i: each element is its own function of all, unless it is left untouched."""
    everything = hash_combine(hash_op(op), hash_all([x, y, *indexes]))
    positions = np.arange(x.numbers.size).reshape(x.numbers.shape)
    if not all(index.is_public for index in indexes):
        return [hash_combine(everything, positions)]
    arguments = _index_values(node.inputs[2:], indexes, context)
    ones = np.ones(y.numbers.shape)
    counts = np.asarray(evaluate_node(node, [np.zeros(x.numbers.shape), ones, *arguments])[0])
    moved = _as_unsigned(
        evaluate_node(node, [_as_signed(x.numbers) * 0, _as_signed(y.numbers), *arguments])[0]
    )
    if getattr(op, "set_instead_of_inc", False):
        return [np.where(counts != 0, moved, x.numbers)]
    added = np.where(
        counts > 1, hash_combine(everything, positions), hash_combine(hash_op(op), x.numbers, moved)
    )
    return [np.where(counts != 0, added, x.numbers)]


for _op in INDEXING_OPS:
    number_op.register(_op, _take)


for _op in INDEX_UPDATE_OPS:
    number_op.register(_op, _update)
