"""Where a factor reads slices of what is row-wise in the records, and inputs in their place.

A guess, made from record labels; `models.sequences.windows` proves what becomes of it.
"""

from __future__ import annotations

import numpy as np
import pytensor
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor
from pymc_private.analysis import MIXED, NONE, row_labels
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.record_dependence import is_labeled
from pymc_private.models.data_variables import Source

Labels = np.ndarray


def of_length(source: Source, count: int, name: str) -> Source:
    """The same private variable with another number of records: holds no data."""
    shape = (*source.shape[: source.axis], count, *source.shape[source.axis + 1 :])
    return replace(source, name=name, shape=shape)


@dataclass(frozen=True, eq=False)
class Leaf:
    """An input with the records axis."""

    variable: Variable
    axis: int
    source: Source | None

    def window(self, values: np.ndarray, offset: int, count: int) -> tuple[Variable, np.ndarray]:
        """An input for records offset, ..., offset + count - 1, and a stand-in for it."""
        part = values.take(range(offset, offset + count), axis=self.axis)
        if self.source is None:
            return pytensor.shared(part, name=self.variable.name), part
        name = f"{self.source.name}[{offset:+d}]"
        return of_length(self.source, count, name).input(), part


@dataclass(frozen=True, eq=False)
class Shift:
    """Elements of an array read record j + offset in row j along an axis (None: one record)."""

    offset: int
    axis: int | None


def shift_of(labels: Labels, count: int) -> Shift | None:
    """How an array of labels is shifted against `count` rows, if that is all that it is."""
    if not is_labeled(labels) or np.any(labels == MIXED):
        return None
    read = labels != NONE
    if count == 1:
        found = np.unique(labels[read])
        return Shift(int(found[0]), None) if len(found) == 1 else None
    for axis in range(labels.ndim):
        if labels.shape[axis] != count:
            continue
        offsets = np.unique((labels - row_numbers(labels.shape, axis))[read])
        if len(offsets) == 1:
            return Shift(int(offsets[0]), axis)
    return None


@dataclass(frozen=True, eq=False)
class Inputs:
    """All inputs of a model's factors, and which of them have the records axis.

    Parameters
    ----------
    leaves : dict of Variable to Leaf
        Private variables, and public data with one entry per record.
    values : dict of Variable to array
        Public stand-ins for every input.
    n : int
        Number of records.
    """

    leaves: Mapping[Variable, Leaf]
    values: Mapping[Variable, np.ndarray]
    n: int

    def labels(self) -> dict[Variable, Labels]:
        """Record numbers of every input's elements, public data included."""
        return {v: self._labels_of(v, np.shape(value)) for v, value in self.values.items()}

    def _labels_of(self, variable: Variable, shape: tuple[int, ...]) -> Labels:
        leaf = self.leaves.get(variable)
        return np.full(shape, NONE) if leaf is None else row_numbers(shape, leaf.axis)


def row_numbers(shape: tuple[int, ...], axis: int) -> Labels:
    """The place of each element of an array along one axis."""
    apart = tuple(k for k in range(len(shape)) if k != axis)
    return np.broadcast_to(np.expand_dims(np.arange(shape[axis]), apart), shape)


class Cut:
    """Where a part of a factor reads slices of what is row-wise, and inputs in their place.

    Parameters
    ----------
    given : Inputs
    part : Variable
    count : int
        Rows of the part.

    Attributes
    ----------
    inputs : dict of (Leaf, offset) to Variable
        The new inputs; `values` has a stand-in for each.
    swaps : dict of Variable to Variable
        What to replace in the part.
    failed : bool
        Whether something else than slices is read.
    """

    def __init__(self, given: Inputs, part: Variable, count: int) -> None:
        self.given, self.count = given, count
        self.trail = row_labels([part], given.labels(), given.values)
        self.inputs: dict[tuple[Leaf, int], Variable] = {}
        self.values: dict[Variable, np.ndarray] = {}
        self.swaps: dict[Variable, Variable] = {}
        self.failed = False
        self._walk(part)

    def _walk(self, part: Variable) -> None:
        """From the part upwards, as far as slices."""
        left, seen = [part], set()
        while left and not self.failed:
            variable = left.pop()
            if variable in seen or not is_labeled(self.trail.get(variable)):
                continue
            seen.add(variable)
            shift = shift_of(self.trail[variable], self.count)
            instead = None if shift is None else self._instead(variable, shift)
            if instead is not None:
                self.swaps[variable] = instead
            elif variable.owner is None:
                self.failed = True
            else:
                left += variable.owner.inputs

    def _instead(self, variable: Variable, shift: Shift) -> Variable | None:
        """What is row-wise, on an input of its own, in place of a slice of it."""
        sliced = self._sliced(variable)
        if sliced is None or not 0 <= shift.offset <= self.given.n - self.count:
            return None
        whole, axis = sliced
        read = [v for v in ancestors([whole]) if v in self.given.leaves]
        swaps = {v: self._input(self.given.leaves[v], shift.offset) for v in read}
        window = rebuild([whole], swaps)[0]
        if variable is whole:
            return window
        node = variable.owner
        if isinstance(node.op, Subtensor) and node.inputs[0] is whole:
            index = list(indices_from_subtensor(node.inputs[1:], node.op.idx_list))
            if axis < len(index):
                index[axis] = slice(None) if isinstance(index[axis], slice) else 0
            window = window[tuple(index)]
        return window if window.type.ndim == variable.type.ndim else None

    def _sliced(self, variable: Variable) -> tuple[Variable, int] | None:
        """What a variable is a slice of: row-wise in all records, with its records axis."""
        inputs = [] if variable.owner is None else variable.owner.inputs
        read = [v for v in inputs if is_labeled(self.trail.get(v))]
        for whole in (variable, *(read if len(read) == 1 else ())):
            shift = shift_of(self.trail[whole], self.given.n)
            if shift is not None and shift.offset == 0 and shift.axis is not None:
                return whole, shift.axis
        return None

    def _input(self, leaf: Leaf, offset: int) -> Variable:
        if (leaf, offset) not in self.inputs:
            values = self.given.values[leaf.variable]
            variable, part = leaf.window(np.asarray(values), offset, self.count)
            self.inputs[leaf, offset] = variable
            self.values[variable] = part
        return self.inputs[leaf, offset]
