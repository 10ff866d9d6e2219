"""Windows of sequences: factor rows that read a few neighboring records each.

As in a Markov chain or an AR, row j of such a factor reads records j + o for the offsets o of a
finite public set. Each slice of what is row-wise, ``x[o:o + m]``, is replaced by an input of m rows
of its own. The replacement is a guess made from record labels; that the result is the same function
is proved by marks of every element (`analysis.row_equivalence`), and then row j of the factor is
shown to read row j of each input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor

from pymc_private.analysis import (
    MIXED,
    NONE,
    element_labels,
    refuse_joint_conditions,
    value_numbers,
)
from pymc_private.analysis.intervals.dispatch import EVALUATION_ERRORS
from pymc_private.analysis.record_dependence import ConcreteValues, is_labeled
from pymc_private.analysis.rewrites import slicing
from pymc_private.analysis.rewrites.algebra import addends, without_trivial_repeats
from pymc_private.analysis.row_equivalence import hash_combine
from pymc_private.analysis.traversal import rebuild
from pymc_private.errors import NotCertified
from pymc_private.models.data_variables import Source

Labels = np.ndarray


def resized_source(source: Source, count: int, name: str) -> Source:
    """The same private variable with another number of records: holds no data."""
    shape = (*source.shape[: source.axis], count, *source.shape[source.axis + 1 :])
    return replace(source, name=name, shape=shape)


@dataclass(frozen=True, eq=False)
class RecordInput:
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
        return resized_source(self.source, count, name).input(), part


@dataclass(frozen=True, eq=False)
class Shift:
    """Elements of an array read record j + offset in row j along an axis (None: one record)."""

    offset: int
    axis: int | None


def find_shift(labels: Labels, count: int) -> Shift | None:
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
class FactorInputs:
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

    leaves: Mapping[Variable, RecordInput]
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


class SliceReplacement:
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

    def __init__(self, given: FactorInputs, part: Variable, count: int) -> None:
        self.given, self.count = given, count
        self.trail = element_labels([part], given.labels(), given.values)
        self.inputs: dict[tuple[RecordInput, int], Variable] = {}
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
            shift = find_shift(self.trail[variable], self.count)
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
            shift = find_shift(self.trail[whole], self.given.n)
            if shift is not None and shift.offset == 0 and shift.axis is not None:
                return whole, shift.axis
        return None

    def _input(self, leaf: RecordInput, offset: int) -> Variable:
        if (leaf, offset) not in self.inputs:
            values = self.given.values[leaf.variable]
            variable, part = leaf.window(np.asarray(values), offset, self.count)
            self.inputs[leaf, offset] = variable
            self.values[variable] = part
        return self.inputs[leaf, offset]


@dataclass(frozen=True, eq=False)
class RecordWindow:
    """Factor rows of one kind: row j reads records j + o, for each offset o.

    Parameters
    ----------
    name : str
        Of the factor.
    rows : Variable, shape (count,)
        The rows as a function of the model's own private inputs; their sum is part of the
        log-likelihood, in nats.
    shifted : Variable, shape (count,)
        The same as a function of one input for each private variable and offset.
    data : dict of (name of source, offset) to Variable
        These inputs. Row j of each is record j + offset's entry.
    count : int
    values : dict of Variable to array
        Public stand-ins for every input of `shifted`.
    pinned : bool
        Whether its rows differ in what they compute.
    """

    name: str
    rows: Variable
    shifted: Variable
    data: Mapping[tuple[str, int], Variable]
    count: int
    values: Mapping[Variable, np.ndarray] = field(repr=False)
    pinned: bool = False

    @property
    def offsets(self) -> tuple[int, ...]:
        """All of them, in order."""
        return tuple(sorted({offset for _, offset in self.data}))

    def is_row_wise(self, n: int) -> bool:
        """Whether row j reads record j of all n, and no other."""
        return self.offsets == (0,) and self.count == n

    def sources(self, sources: Sequence[Source]) -> dict[Variable, Source]:
        """The private variable behind each input, with as many records as there are rows."""
        named = {s.name: s for s in sources}
        return {
            variable: resized_source(named[name], self.count, f"{name}[{offset:+d}]")
            for (name, offset), variable in self.data.items()
        }


@dataclass(frozen=True, eq=False)
class _ReadsRecord:
    """Whether a variable reads a record."""

    trail: Mapping[Variable, Labels]

    def __call__(self, variable: Variable) -> bool:
        return is_labeled(self.trail.get(variable))


class WindowSplitter:
    """Cuts factors of one model into windows.

    Parameters
    ----------
    data : dict of str to Variable
        Inputs for the private variables.
    sources : sequence of Source
    values : dict of Variable to array
        Public stand-ins for every input of the graphs.
    labels : dict of Variable to int array
        Record numbers of the private inputs' elements.
    n : int
        Number of records.
    """

    def __init__(
        self,
        data: Mapping[str, Variable],
        sources: Sequence[Source],
        values: Mapping[Variable, np.ndarray],
        labels: Mapping[Variable, Labels],
        n: int,
    ) -> None:
        self.values, self.labels = dict(values), dict(labels)
        self.concrete = ConcreteValues(values)
        self.leaves = {data[s.name]: RecordInput(data[s.name], s.axis, s) for s in sources}
        for v, value in values.items():
            if hasattr(v, "get_value") and np.shape(value).count(n) == 1:
                self.leaves[v] = RecordInput(v, np.shape(value).index(n), None)
        self.given = FactorInputs(self.leaves, self.values, n)
        self._lifted: set[Variable] = set()

    def windows(self, name: str, term: Variable) -> tuple[list[RecordWindow], list[Variable]]:
        """Windows that a factor is made of, and parts of it that read no record.

        Raises
        ------
        NotCertified
            Some part of the factor is neither a sum nor a window.
        """
        found, public = [], []
        queue = without_trivial_repeats([term], self.concrete)
        while queue:
            part = queue.pop(0)
            trail = element_labels([part], self.labels, self.values)
            if not is_labeled(trail[part]):
                public.append(part)
                continue
            window = next((w for w in self._tried(name, part) if w is not None), None)
            if window is not None:
                found.append(window)
                continue
            parts = self._parted(part, _ReadsRecord(trail))
            if parts is None:
                raise no_window_error(name, bool(np.any(trail[part] == MIXED)))
            queue = [*parts, *queue]
        return found, [part.sum() for part in public]

    def _parted(self, part: Variable, reads: _ReadsRecord) -> list[Variable] | None:
        """What adds up to a part that is no window by itself: a step towards windows."""
        given = slicing.SliceProver(self.concrete, self.values)
        plain = None if part in self._lifted else slicing.slices_of_leaves(part, reads, given)
        if plain is not None:
            self._lifted.add(plain)
            return [plain]
        rows = slicing.split_at_joins(part, reads, given)
        return addends(part, reads, self.concrete) if rows is None else rows

    def _tried(self, name: str, part: Variable) -> Iterator[RecordWindow | None]:
        """The part as a window, with its rows along each axis in turn."""
        shape = self.concrete.shape(part)
        for axis in range(len(shape)) if shape else (None,):
            count = 1 if axis is None else shape[axis]
            if axis and shape.count(count) > 1:
                continue  # it comes of broadcasting (n, 1) with (n,): see `records`
            try:
                yield self._window(name, part, axis, count)
            except (NotCertified, *EVALUATION_ERRORS):
                yield None

    def _window(
        self, name: str, part: Variable, axis: int | None, count: int
    ) -> RecordWindow | None:
        """The part with slices replaced by inputs, if that can be proved to be the same."""
        cut = SliceReplacement(self.given, part, count)
        if cut.failed:
            return None
        shifted = rebuild([part], cut.swaps)[0]
        if any(leaf in self.leaves for leaf in ancestors([shifted])):
            return None  # the whole sequence is still read, if only for its length
        values = {v: x for v, x in self.values.items() if v not in self.leaves} | cut.values
        if not self._same(part, shifted, values, cut):
            return None
        others = () if axis is None else tuple(k for k in range(part.type.ndim) if k != axis)
        rows, own = (
            v.reshape((1,)) if axis is None else v.sum(axis=others) for v in (part, shifted)
        )
        data = {
            (leaf.source.name, offset): variable
            for (leaf, offset), variable in cut.inputs.items()
            if leaf.source is not None
        }
        window = RecordWindow(name, rows, own, data, count, values)
        return window if data and self._row_wise(window, cut) else None

    def _same(
        self,
        part: Variable,
        shifted: Variable,
        values: Mapping[Variable, np.ndarray],
        cut: SliceReplacement,
    ) -> bool:
        """Whether every element of both graphs carries one and the same expression."""
        marks = {
            v: hash_combine(k, np.arange(np.size(value)).reshape(np.shape(value)))
            for k, (v, value) in enumerate(self.values.items())
            if not hasattr(v, "get_value")
        }
        parts = {v: m for v, m in marks.items() if v not in self.leaves}
        for (leaf, offset), variable in cut.inputs.items():
            if leaf.source is not None:
                rows = range(offset, offset + cut.count)
                parts[variable] = marks[leaf.variable].take(rows, axis=leaf.axis)
        before = value_numbers([part], marks, self.values)[0]
        after = value_numbers([shifted], parts, values)[0]
        return before.shape == after.shape and bool(np.all(before == after))

    def _row_wise(self, window: RecordWindow, cut: SliceReplacement) -> bool:
        """Whether row j reads row j of every input, and so do the conditions."""
        labels = {v: np.full(np.shape(value), NONE) for v, value in window.values.items()}
        for (leaf, _), variable in cut.inputs.items():
            labels[variable] = row_numbers(np.shape(window.values[variable]), leaf.axis)
        trail = element_labels([window.shifted], labels, window.values)
        found = trail[window.shifted]
        refuse_joint_conditions([window.shifted], trail)
        own = np.arange(cut.count)
        return found.shape == own.shape and bool(np.all((found == own) | (found == NONE)))


def no_window_error(name: str, is_mixed: bool) -> NotCertified:
    """The refusal of a factor in which records meet in no way that can be followed."""
    several = "reads several records at once" if is_mixed else "is not aligned with them"
    return NotCertified(
        f"the factor '{name}' {several}, so one record has no log-likelihood of its own",
        blame=(name,),
        cure="factors must be row-wise along the records axis, or read neighboring records by "
        "slices of public length (x[1:] given x[:-1], pm.AR of public order): no Gaussian process "
        "over records, no sorting, no cumulated sum, no mean or z-score of the data inside the "
        "graph; scale by public constants",
    )
