"""Record dependence: the record that each element of each node reads.

Every element carries a label: a record number, NONE (public) or MIXED (more than one record). A
factor is row-wise along the records axis iff its element i carries i or NONE. The labels are sound:
an Op without a rule mixes everything it reads.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import AND, Cast
from pytensor.tensor.basic import MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import All
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE, perform
from pymc_private.analysis.record_dependence__row_sizes import check_sizes
from pymc_private.analysis.traversal__walk import walk
from pymc_private.errors import NotCertified

NONE, MIXED = -1, -2

Labels = Any
"""Integer array of the node's shape; a slice or None for index nodes."""


def join(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Least upper bound: NONE < i < MIXED, elementwise with broadcasting."""
    first, second = np.broadcast_arrays(first, second)
    same = (first == second) | (second == NONE)
    return np.where(same, first, np.where(first == NONE, second, MIXED))


def join_over(labels: np.ndarray, axes: tuple[int, ...], keepdims: bool = False) -> np.ndarray:
    """Join along axes."""
    far = np.iinfo(np.int64).max
    # The greatest label leaves MIXED out (it is the least number); the least leaves NONE out.
    top = np.max(labels, axis=axes, keepdims=True, initial=NONE)
    low = np.where(labels == NONE, far, labels)
    least = np.min(low, axis=axes, keepdims=True, initial=far)
    joined = np.where((least == top) | (least == far), top, MIXED)
    return joined if keepdims else joined.squeeze(axes)


def join_all(facts: Sequence[Labels]) -> np.ndarray:
    """Join of every element of several label arrays."""
    return join_over(
        np.concatenate([np.ravel(f) for f in facts if isinstance(f, np.ndarray)]), (0,)
    )


def row_labels(
    outputs: Sequence[Variable],
    labels: Mapping[Variable, np.ndarray],
    values: Mapping[Variable, Any],
) -> dict[Variable, Labels]:
    """Labels of every element of `outputs` and of all that they are computed from.

    Parameters
    ----------
    outputs : sequence of Variable
        Factors of a model.
    labels : mapping of Variable to int array
        Labels of the inputs, of each input's shape.
    values : mapping of Variable to array
        Public stand-ins for the inputs, read only where an unlabeled index or a shape is needed.

    Returns
    -------
    dict of Variable to int array

    Raises
    ------
    NotCertified
        A size depends on a record or on a parameter.
    """
    concrete = Concrete(values)

    def rule(node: Apply, facts: Sequence[Labels]) -> Sequence[Labels]:
        check_sizes(node, concrete.is_fixed)
        if not any(is_labeled(fact) for fact in facts):
            return [_public(out, concrete) for out in node.outputs]
        answers = label(node.op, node, concrete, *facts)
        if any(np.size(answer) == 0 for answer in answers):
            # No element would carry on that a record was read.
            raise NotCertified(
                "the size of a part of the model depends on the records, or is zero",
                blame=(str(node.op),),
                cure="choose by pm.math.switch on each record instead of by a mask",
            )
        return answers

    return walk(outputs, dict(labels), rule, _constant)


def refuse_joint_conditions(outputs: Sequence[Variable], trail: Mapping[Variable, Labels]) -> None:
    """Refuse conditions that may hold for each record alone and fail for several together.

    Bounds prove a condition for the records they were given; only a conjunction of conditions on
    single records is thereby proved for any others.

    Parameters
    ----------
    outputs : sequence of Variable
        Factors of a model.
    trail : mapping of Variable to labels
        What `row_labels` gave for them.

    Raises
    ------
    NotCertified
        Naming the condition.
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


CONJOINING = (All, DimShuffle, MakeVector, ScalarFromTensor, TensorFromScalar)


def conjuncts(conditions: Sequence[Variable]) -> list[Variable]:
    """The parts of conditions below every "all" and "and"."""
    found, left = [], list(conditions)
    while left:
        variable = left.pop()
        node = variable.owner
        conjoins = node is not None and (
            isinstance(node.op, CONJOINING)
            or isinstance(getattr(node.op, "scalar_op", None), AND | Cast)
        )
        if conjoins:
            left += node.inputs
        else:
            found.append(variable)
    return found


def _constant(constant: Constant) -> Labels:
    data = constant.data
    if isinstance(data, np.ndarray | np.generic | int | float):
        return np.full(np.shape(data), NONE)
    return data


def is_labeled(fact: Labels) -> bool:
    """Whether any element reads a record."""
    return isinstance(fact, np.ndarray) and bool(np.any(fact != NONE))


def _public(variable: Variable, concrete: Concrete) -> Labels:
    """NONE in the shape of the variable."""
    value = concrete(variable)
    return np.full(np.shape(value), NONE) if is_array(value) else value


def is_array(value: object) -> bool:
    """Whether a value is numbers, not a slice or None."""
    return isinstance(value, np.ndarray | np.generic | int | float | bool)


class Concrete:
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
            except UNCOMPUTABLE as error:
                raise NotCertified(
                    "a shape or an index of the model could not be evaluated on public values",
                    blame=(str(variable),),
                    cure="write the index or shape as a constant",
                ) from error
        self._values.update(trail)
        return trail[variable]

    def shape(self, variable: Variable) -> tuple[int, ...]:
        """Its shape."""
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
        return perform(node, list(values))


@singledispatch
def label(op: Op, node: Apply, concrete: Concrete, *facts: Labels) -> list[Labels]:
    """Labels of a node's outputs; without a rule everything mixes with everything."""
    return [np.full(concrete.shape(out), join_all(facts)) for out in node.outputs]
