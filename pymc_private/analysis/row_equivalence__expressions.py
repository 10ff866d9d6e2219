"""The expression that computes each element of a node, as a mark.

A mark is 64 bits that stand for a function of marked inputs and of public values. Elements with the
same mark are the same function (but for a collision, about 2**-64 a pair). So rows of a likelihood
may be exchanged, and evaluated in any number, if all carry one mark, the same with any number of
rows.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.tensor.shape import Shape, Shape_i
from pymc_private.analysis.record_dependence import Concrete, is_array
from pymc_private.analysis.traversal__walk import walk

Marks = Any
"""Array of uint64, of the node's shape; a slice or None for index nodes."""

START, FACTOR = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)


@dataclass(frozen=True, eq=False)
class Fact:
    """Marks of a node, and whether it is free of marked inputs (its value is then public)."""

    marks: Marks
    closed: bool


@dataclass(frozen=True, eq=False)
class Reading:
    """How a graph is read: values of what is public, and whether these values make marks."""

    concrete: Concrete
    by_value: bool


def mix(*parts: Marks) -> np.ndarray:
    """One mark from several, in order, elementwise with broadcasting."""
    with np.errstate(over="ignore"):
        total: Any = START * np.uint64(len(parts))
        for part in parts:
            total = _scramble(total * FACTOR + np.asarray(part, dtype=np.uint64))
    return np.asarray(total)


def _scramble(marks: np.ndarray) -> np.ndarray:
    """A bijection of 64 bits (Steele, Lea and Flood 2014, the finalizer of SplitMix64)."""
    marks = (marks ^ (marks >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    marks = (marks ^ (marks >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return marks ^ (marks >> np.uint64(31))


def fold(marks: np.ndarray, axes: Sequence[int], keepdims: bool = False) -> np.ndarray:
    """One mark from the sequence along axes."""
    size = int(np.prod([marks.shape[axis] for axis in axes]))
    moved = np.moveaxis(marks, tuple(axes), range(-len(axes), 0))
    terms = mix(moved.reshape(*moved.shape[: marks.ndim - len(axes)], size), np.arange(size))
    folded = mix(terms.sum(axis=-1, dtype=np.uint64))
    return np.expand_dims(folded, tuple(axes)) if keepdims else folded


def fold_all(facts: Sequence[Fact]) -> np.ndarray:
    """One mark from every element of several nodes."""
    arrays = [f.marks for f in facts if isinstance(f.marks, np.ndarray)]
    return mix(*(fold(marks.reshape(-1), (0,)) for marks in arrays))


def of_value(value: Any) -> np.ndarray:
    """Marks of public numbers: the numbers themselves."""
    array = np.asarray(value)
    if array.dtype.kind in "iub":
        return mix(array.astype(np.int64).view(np.uint64))
    return mix((array.astype(np.float64) + 0.0).view(np.uint64))


def expressions(
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
    reading = Reading(Concrete(values), by_value)

    def leaf(variable: Variable, value: Any) -> Fact:
        if variable in marks:
            return Fact(marks[variable], isinstance(variable, Constant))
        if not is_array(value):
            return Fact(value, True)
        return Fact(of_value(value) if by_value else of_value(np.zeros(np.shape(value))), True)

    def rule(node: Apply, facts: Sequence[Fact]) -> list[Fact]:
        sized = isinstance(node.op, Shape | Shape_i)
        closed = sized or all(fact.closed for fact in facts)
        public = [reading.concrete(out) for out in node.outputs] if closed else []
        if closed and (by_value or sized or not all(is_array(value) for value in public)):
            return [leaf(out, value) for out, value in zip(node.outputs, public, strict=True)]
        return [Fact(out, closed) for out in express(node.op, node, reading, *facts)]

    given = {v: leaf(v, value) for v, value in values.items()}
    given |= {v: leaf(v, v.data) for v in marks if isinstance(v, Constant)}
    trail = walk(outputs, given, rule, lambda constant: leaf(constant, constant.data))
    return [trail[output].marks for output in outputs]


@singledispatch
def express(op: Op, node: Apply, reading: Reading, *facts: Fact) -> list[Marks]:
    """Marks of a node's outputs; without a rule each place reads everything in its own way."""
    everything = fold_all(facts)
    found = []
    for k, out in enumerate(node.outputs):
        shape = reading.concrete.shape(out)
        places = np.arange(int(np.prod(shape))).reshape(shape)
        found.append(mix(mark_of(op), everything, k, places))
    return found


def mark_of(op: Op) -> np.uint64:
    """A mark for the function that an Op computes.

    Whole numbers are marked as they are written, for Python's hashes of -1 and -2 are one.
    """
    settings = [getattr(op, name, None) for name in getattr(op, "__props__", None) or ()]
    written = [repr(v) for v in settings if isinstance(v, int | str | tuple | type(None))]
    return np.uint64(hash((type(op).__name__, op, *written)) & 0xFFFFFFFFFFFFFFFF)
