"""Record dependence: the record that each element of each node reads.

Every element carries a label: a record number, NONE (public) or MIXED (more than one record).
A factor is row-wise along the records axis iff its element i carries i or NONE. The labels are
sound: an Op without a rule mixes everything it reads.

No size may depend on a record or on a parameter. Labels are found with public stand-ins, so
they hold for the sizes that those give. If a size varied with a record (the length of a mask, or
of the distinct values) or with a parameter (a repeat, a slice), the labels would not hold for
other sizes, and a shape would depend on data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
import pytensor.tensor.special as special
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import AND, Cast
from pytensor.scan.op import Scan
from pytensor.tensor.basic import (
    Join,
    MakeVector,
    ScalarFromTensor,
    TensorFromScalar,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp, FillDiagonal
from pytensor.tensor.math import All, Argmax, Dot
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.sort import ArgSortOp, SortOp
from pytensor.tensor.subtensor import Subtensor

from pymc_private.analysis.intervals.arrays import (
    INDEX_UPDATE_OPS,
    INDEXING_OPS,
    LAYOUT_OPS,
    layout_inputs,
)
from pymc_private.analysis.intervals.ops import LogSumExp, OnSimplex
from pymc_private.analysis.traversal import EVALUATION_ERRORS, evaluate_node, walk
from pymc_private.errors import NotCertified

NONE, MIXED = -1, -2
"""Labels of an element that reads no record, and of one that reads several."""


Labels = Any
"""Integer array of the node's shape; a slice or None for index nodes."""


def element_labels(
    outputs: Sequence[Variable],
    labels: Mapping[Variable, np.ndarray],
    values: Mapping[Variable, Any],
) -> dict[Variable, Labels]:
    """Labels of every element of `outputs` and of all that they are computed from.

    `labels` are those of the inputs, of each input's shape; `values` are public stand-ins for the
    inputs, read only where an unlabeled index or a shape is needed. Raises `NotCertified` if a size
    depends on a record or on a parameter.
    """
    concrete = ConcreteValues(values)

    def rule(node: Apply, facts: Sequence[Labels]) -> Sequence[Labels]:
        check_sizes(node, concrete.is_fixed)
        if not any(is_labeled(fact) for fact in facts):
            return [_public_labels(out, concrete) for out in node.outputs]
        answers = label_op(node.op, node, concrete, *facts)
        if any(np.size(answer) == 0 for answer in answers):
            # An empty array has no element to carry the label of a record that was read.
            raise NotCertified(
                "the size of a part of the model depends on the records, or is zero",
                blame=(str(node.op),),
                cure="choose by pm.math.switch on each record instead of by a mask",
            )
        return answers

    return walk(outputs, dict(labels), rule, _constant_labels)


def _constant_labels(constant: Constant) -> Labels:
    """NONE in the shape of the constant; a slice or None is itself."""
    data = constant.data
    if isinstance(data, np.ndarray | np.generic | int | float):
        return np.full(np.shape(data), NONE)
    return data


def _public_labels(variable: Variable, concrete: ConcreteValues) -> Labels:
    """NONE in the shape of the variable."""
    value = concrete(variable)
    return np.full(np.shape(value), NONE) if is_array(value) else value


def is_labeled(fact: Labels) -> bool:
    """Whether any element reads a record."""
    return isinstance(fact, np.ndarray) and bool(np.any(fact != NONE))


def is_array(value: object) -> bool:
    """Whether a value is numbers, not a slice or None."""
    return isinstance(value, np.ndarray | np.generic | int | float | bool)


class ConcreteValues:
    """Values of public nodes on stand-in inputs, computed once each.

    Shared variables stand for themselves; every other given input has a stand-in, whose value means
    nothing.
    """

    def __init__(self, values: Mapping[Variable, Any]) -> None:
        self._values = dict(values)
        self._free = {v: not hasattr(v, "get_value") for v in values}

    def __call__(self, variable: Variable) -> Any:
        """Value of a variable."""
        with np.errstate(all="ignore"):
            try:
                trail = walk([variable], self._values, self._perform, lambda c: c.data)
            except EVALUATION_ERRORS as error:
                raise NotCertified(
                    "a shape or an index of the model could not be evaluated on public values",
                    blame=(str(variable),),
                    cure="write the index or shape as a constant",
                ) from error
        self._values.update(trail)
        return trail[variable]

    def shape(self, variable: Variable) -> tuple[int, ...]:
        """Shape of a variable."""
        return np.shape(self(variable))

    def is_fixed(self, variable: Variable) -> bool:
        """Whether the value depends on no stand-in's value (sizes are fixed: `check_sizes`)."""
        self._free.update(walk([variable], self._free, self._reads, lambda constant: False))
        return not self._free[variable]

    @staticmethod
    def _reads(node: Apply, free: Sequence[bool]) -> Sequence[bool]:
        answer = any(free) and not isinstance(node.op, Shape | Shape_i)
        return [answer] * len(node.outputs)

    @staticmethod
    def _perform(node: Apply, values: Sequence[Any]) -> Sequence[Any]:
        if isinstance(node.op, CheckAndRaise | SpecifyShape):
            return [values[0]]  # conditions, and the model's own shape: rows may be fewer here
        return evaluate_node(node, list(values))


def join_labels(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Least upper bound: NONE < i < MIXED, elementwise with broadcasting."""
    first, second = np.broadcast_arrays(first, second)
    same = (first == second) | (second == NONE)
    return np.where(same, first, np.where(first == NONE, second, MIXED))


def join_labels_over(
    labels: np.ndarray, axes: tuple[int, ...], keepdims: bool = False
) -> np.ndarray:
    """Join along axes."""
    far = np.iinfo(np.int64).max
    # The greatest label leaves MIXED out (it is the least number); the least leaves NONE out.
    top = np.max(labels, axis=axes, keepdims=True, initial=NONE)
    low = np.where(labels == NONE, far, labels)
    least = np.min(low, axis=axes, keepdims=True, initial=far)
    joined = np.where((least == top) | (least == far), top, MIXED)
    return joined if keepdims else joined.squeeze(axes)


def join_all_labels(facts: Sequence[Labels]) -> np.ndarray:
    """Join of every element of several label arrays."""
    return join_labels_over(
        np.concatenate([np.ravel(f) for f in facts if isinstance(f, np.ndarray)]), (0,)
    )


# ---- conditions ------------------------------------------------------------------------------


CONJUNCTION_OPS = (All, DimShuffle, Join, MakeVector, ScalarFromTensor, TensorFromScalar)
"""Ops whose output is true iff all elements of their inputs are, beside "and" and casts."""


def refuse_joint_conditions(outputs: Sequence[Variable], trail: Mapping[Variable, Labels]) -> None:
    """Refuse conditions that may hold for each record alone and fail for several together.

    Bounds prove a condition for the records they were given; only a conjunction of conditions on
    single records is thereby proved for any others. `trail` is the answer of `element_labels`.
    """
    for variable in ancestors(list(outputs)):
        node = variable.owner
        if node is None or not isinstance(node.op, CheckAndRaise):
            continue
        for leaf in conjuncts(node.inputs[1:]):
            if leaf in trail and isinstance(trail[leaf], np.ndarray) and MIXED in trail[leaf]:
                raise NotCertified(
                    "a condition of the model reads several records at once",
                    blame=(str(node.op),),
                    cure="check each record by itself, or leave the check out of the model",
                )


def conjuncts(conditions: Sequence[Variable]) -> list[Variable]:
    """The conditions that, joined by every "all" and "and", make up the given ones."""
    found, left = [], list(conditions)
    while left:
        variable = left.pop()
        node = variable.owner
        conjoins = node is not None and (
            isinstance(node.op, CONJUNCTION_OPS)
            or isinstance(getattr(node.op, "scalar_op", None), AND | Cast)
        )
        if conjoins:
            left += node.inputs
        else:
            found.append(variable)
    return found


# ---- rules of Ops ----------------------------------------------------------------------------


@singledispatch
def label_op(op: Op, node: Apply, concrete: ConcreteValues, *facts: Labels) -> list[Labels]:
    """Labels of a node's outputs; without a rule each element reads everything."""
    return [np.full(concrete.shape(out), join_all_labels(facts)) for out in node.outputs]


@label_op.register(Elemwise)
def label_elementwise(
    op: Op, node: Apply, concrete: ConcreteValues, *facts: Labels
) -> list[Labels]:
    """Each element reads the elements it broadcasts with."""
    result = facts[0]
    for fact in facts[1:]:
        result = join_labels(result, fact)
    return [result] * len(node.outputs)


@label_op.register(CAReduce)
def _reduce(op: CAReduce, node: Apply, concrete: ConcreteValues, fact: Labels) -> list[Labels]:
    """Each element reads all that were reduced to it."""
    axes = tuple(range(fact.ndim)) if op.axis is None else tuple(op.axis)
    return [join_labels_over(fact, axes)]


@label_op.register(Argmax)
def _argmax(op: Argmax, node: Apply, concrete: ConcreteValues, fact: Labels) -> list[Labels]:
    """As for a reduction."""
    axes = tuple(range(fact.ndim)) if op.axis is None else tuple(op.axis)
    return [join_labels_over(fact, axes)]


@label_op.register(Dot)
def _dot(op: Dot, node: Apply, concrete: ConcreteValues, x: Labels, y: Labels) -> list[Labels]:
    """Element (i, j) reads row i of x and column j of y."""
    rows = join_labels_over(x, (x.ndim - 1,)) if x.ndim else x
    columns = join_labels_over(y, (max(y.ndim - 2, 0),)) if y.ndim else y
    return [join_labels(rows[..., None], columns) if y.ndim == 2 else join_labels(rows, columns)]


@label_op.register(CumOp)
def _cumulative(op: CumOp, node: Apply, concrete: ConcreteValues, fact: Labels) -> list[Labels]:
    """Each element reads all along the axis."""
    if op.axis is None:
        return [np.full(fact.size, join_labels_over(fact.ravel(), (0,)))]
    return [np.broadcast_to(join_labels_over(fact, (op.axis,), keepdims=True), fact.shape)]


def _move(op: Op, node: Apply, concrete: ConcreteValues, *facts: Labels) -> list[Labels]:
    """Labels move as the elements do; shape arguments are read from the stand-ins."""
    if isinstance(op, MakeVector):
        return [np.asarray(facts)]
    parameters = layout_inputs(op, len(facts))
    if any(is_labeled(facts[position]) for position in parameters):
        return label_op.dispatch(object)(op, node, concrete, *facts)
    arguments = [
        concrete(v) if position in parameters else fact
        for position, (v, fact) in enumerate(zip(node.inputs, facts, strict=True))
    ]
    if isinstance(op, Join):  # by itself it would cast labels to the type of the numbers
        axis, parts = (op.axis, arguments) if not parameters else (arguments[0], arguments[1:])
        return [np.concatenate(parts, axis=int(axis))]
    return [np.asarray(out).astype(np.int64) for out in evaluate_node(node, arguments)]


for _op in (DimShuffle, *LAYOUT_OPS):
    label_op.register(_op, _move)


@label_op.register(OnSimplex)
@label_op.register(SpecifyShape)
@label_op.register(CheckAndRaise)
def _first(op: Op, node: Apply, concrete: ConcreteValues, *facts: Labels) -> list[Labels]:
    """The first input passes; a condition that could fail is refused by the interval rule."""
    return [facts[0]]


@label_op.register(Shape)
@label_op.register(Shape_i)
def _shape(op: Op, node: Apply, concrete: ConcreteValues, *facts: Labels) -> list[Labels]:
    """Shapes are public."""
    return [np.full(concrete.shape(node.outputs[0]), NONE)]


@label_op.register(special.Softmax)
@label_op.register(special.LogSoftmax)
def _softmax(op: Op, node: Apply, concrete: ConcreteValues, fact: Labels) -> list[Labels]:
    """Each element reads all along the axis."""
    axes = op.axis if isinstance(op.axis, tuple | type(None)) else (op.axis,)
    axes = tuple(range(fact.ndim)) if axes is None else axes
    return [np.broadcast_to(join_labels_over(fact, axes, keepdims=True), fact.shape)]


@label_op.register(LogSumExp)
def _log_sum_exp(op: Op, node: Apply, concrete: ConcreteValues, fact: Labels) -> list[Labels]:
    """Each element reads all along the last axis."""
    return [join_labels_over(fact, (fact.ndim - 1,))]


@label_op.register(Blockwise)
def _blockwise(
    op: Blockwise, node: Apply, concrete: ConcreteValues, *facts: Labels
) -> list[Labels]:
    """Each batch element reads its core arrays (of a product of matrices, row and column)."""
    if isinstance(op.core_op, Dot):
        x, y = facts
        return [
            join_labels(
                join_labels_over(x, (x.ndim - 1,))[..., None],
                join_labels_over(y, (y.ndim - 2,))[..., None, :],
            )
        ]
    batch = node.outputs[0].type.ndim - len(op.outputs_sig[0])
    joined = np.full((1,) * batch, NONE)
    for fact, core in zip(facts, op.inputs_sig, strict=True):
        axes = tuple(range(fact.ndim - len(core), fact.ndim))
        joined = join_labels(joined, join_labels_over(fact, axes))
    shapes = [concrete.shape(out) for out in node.outputs]
    pairs = zip(shapes, op.outputs_sig, strict=True)
    return [
        np.broadcast_to(joined.reshape(joined.shape + (1,) * len(core)), shape)
        for shape, core in pairs
    ]


# ---- rules of indexing -----------------------------------------------------------------------


def _take(
    op: Op, node: Apply, concrete: ConcreteValues, x: Labels, *indexes: Labels
) -> list[Labels]:
    """x[i]: an unknown index joins over the axes it indexes, and adds its own label."""
    variables = node.inputs[1:]
    unknown = [is_unknown_index(v, i, concrete) for v, i in zip(variables, indexes, strict=True)]
    arguments = _index_values(variables, indexes, concrete, unknown)
    if not any(unknown):
        return [np.asarray(evaluate_node(node, [x, *arguments])[0]).astype(np.int64)]
    layout = index_layout(node, [k for k, is_open in enumerate(unknown) if is_open])
    if layout is None:
        # An unknown slice bound, scalar position or mask moves whole blocks.
        return [np.full(concrete.shape(node.outputs[0]), join_all_labels((x, *indexes)))]
    axes, start = layout
    over = tuple(axes[k] for k, is_open in enumerate(unknown) if is_open)
    merged = np.broadcast_to(join_labels_over(x, over, keepdims=True), x.shape)
    taken = np.asarray(evaluate_node(node, [merged, *arguments])[0]).astype(np.int64)
    own = indexes[next(iter(axes))]
    for position in axes:
        own = join_labels(own, indexes[position])
    return [join_labels(taken, own.reshape(own.shape + (1,) * (taken.ndim - start - own.ndim)))]


def is_unknown_index(variable: Variable, fact: Labels, concrete: ConcreteValues) -> bool:
    """Whether an index is private, or depends on the value of a parameter."""
    return is_labeled(fact) or (is_array(fact) and not concrete.is_fixed(variable))


def _index_values(
    variables: Sequence[Variable],
    facts: Sequence[Labels],
    concrete: ConcreteValues,
    unknown: Sequence[bool],
) -> list[Any]:
    """Values of the index inputs: zero where unknown; slices and None stand for themselves."""
    return [
        np.zeros_like(fact) if is_open else concrete(variable) if is_array(fact) else fact
        for variable, fact, is_open in zip(variables, facts, unknown, strict=True)
    ]


def index_layout(node: Apply, unknown: Sequence[int]) -> tuple[dict[int, int], int] | None:
    """The axis of x that each index array indexes, and where their own axes stand in the result.

    The first is by position among the index inputs of a node x[...]; the second is the axis of the
    result at which the broadcast index arrays begin: NumPy puts them in the place of the first one
    if they stand side by side, and in front otherwise. None if an `unknown` index (by position
    among the index inputs) is no array of positions.
    """
    axes: dict[int, int] = {}
    positions, axis = [], 0
    for position, entry in enumerate(_index_entries(node)):
        if isinstance(entry, int):
            axes[entry] = axis
            positions.append(position)
        axis += entry is not np.newaxis
    masks = any(str(getattr(v.type, "dtype", "")) == "bool" for v in node.inputs[1:])
    if isinstance(node.op, Subtensor) or masks or any(k not in axes for k in unknown):
        return None
    adjacent = positions == list(range(positions[0], positions[0] + len(positions)))
    return axes, positions[0] if adjacent else 0


def _index_entries(node: Apply) -> list[int | slice | None]:
    """What stands between the brackets: the position of an index array, a slice, or a new axis."""
    listed = getattr(node.op, "idx_list", None)
    if listed is not None:  # PyTensor 3, and basic indexing
        return [entry if isinstance(entry, int) else slice(None) for entry in listed]
    types = [type(v.type).__name__ for v in node.inputs[1:]]
    return [
        np.newaxis if name == "NoneTypeT" else slice(None) if name == "SliceType" else k
        for k, name in enumerate(types)
    ]


def _update(
    op: Op, node: Apply, concrete: ConcreteValues, x: Labels, y: Labels, *indexes: Labels
) -> list[Labels]:
    """x with y put at i: elements written to join y's label; an unknown i may write anywhere."""
    variables = node.inputs[2:]
    unknown = [is_unknown_index(v, i, concrete) for v, i in zip(variables, indexes, strict=True)]
    if any(unknown):
        return [np.full(x.shape, join_all_labels((x, y, *indexes)))]
    arguments = _index_values(variables, indexes, concrete, unknown)
    ones = evaluate_node(node, [np.zeros(x.shape), np.ones(np.shape(y)), *arguments])[0]
    touched = np.asarray(ones) != 0
    if getattr(op, "set_instead_of_inc", False):
        written = np.asarray(evaluate_node(node, [x.copy(), y, *arguments])[0]).astype(np.int64)
        return [np.where(touched, written, x)]
    return [np.where(touched, join_labels(x, _added_labels(node, x, y, arguments)), x)]


def _added_labels(node: Apply, x: Labels, y: Labels, arguments: list[Any]) -> np.ndarray:
    """Labels of what is added: y's own where each element gets one term, else the join of all."""
    counts = evaluate_node(node, [np.zeros(x.shape), np.ones(np.shape(y)), *arguments])[0]
    if np.max(counts, initial=0.0) > 1:
        return np.full(x.shape, join_all_labels((y,)))
    return np.asarray(evaluate_node(node, [np.zeros_like(x), y, *arguments])[0]).astype(np.int64)


for _op in INDEXING_OPS:
    label_op.register(_op, _take)


for _op in INDEX_UPDATE_OPS:
    label_op.register(_op, _update)


# ---- sizes -----------------------------------------------------------------------------------


SIZED_BY_SHAPES = (
    Elemwise, CAReduce, DimShuffle, Argmax, Dot, CumOp, FillDiagonal, SortOp, ArgSortOp, Blockwise,
    SpecifyShape, OnSimplex, CheckAndRaise, Shape, Shape_i, MakeVector, ScalarFromTensor,
    TensorFromScalar, LogSumExp, *INDEX_UPDATE_OPS,
)  # fmt: skip
"""Ops whose output sizes follow from those of their inputs alone."""


EXTRA_ELEMENTWISE_OPS: list[type] = []
"""More of them: elementwise Ops of libraries that this package does not import."""


LINEAR_ALGEBRA_MODULES = (
    "pytensor.tensor.linalg",
    "pytensor.tensor.slinalg",
    "pytensor.tensor.nlinalg",
)
"""Modules whose Ops have output sizes that follow from those of their inputs, too."""


SOFTMAX_OPS = tuple(
    getattr(special, name)
    for name in ("Softmax", "LogSoftmax", "SoftmaxGrad")
    if hasattr(special, name)
)


def check_sizes(node: Apply, is_fixed: Callable[[Variable], bool]) -> None:
    """Refuse a node whose output size depends on a record or a parameter.

    `is_fixed` tells whether a variable's value depends on neither.
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
    if isinstance(op, tuple(INDEXING_OPS)):
        return _sizing_indexes(node)
    if isinstance(op, LAYOUT_OPS) and not isinstance(op, MakeVector):
        return [node.inputs[k] for k in layout_inputs(op, len(node.inputs))]
    if isinstance(op, (*SIZED_BY_SHAPES, *SOFTMAX_OPS, *EXTRA_ELEMENTWISE_OPS)) or type(
        op
    ).__module__.startswith(LINEAR_ALGEBRA_MODULES):
        return ()
    if isinstance(op, Scan) and not op.info.as_while:
        return node.inputs[:1]
    known = all(
        getattr(out.type, "ndim", None) is not None and None not in out.type.shape
        for out in node.outputs
    )
    return () if known else node.inputs


def _sizing_indexes(node: Apply) -> Sequence[Variable]:
    """Limits of slices, and masks; a position or an array of positions has its own public size."""
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
