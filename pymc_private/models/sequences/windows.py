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
from pymc_private.analysis.record_dependence import ConcreteValues, is_labeled
from pymc_private.analysis.rewrites import slicing
from pymc_private.analysis.rewrites.algebra import addends, without_trivial_repeats
from pymc_private.analysis.row_equivalence import hash_combine
from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild
from pymc_private.errors import NotCertified
from pymc_private.models.data_variables import Source

Labels = np.ndarray


@dataclass(frozen=True, eq=False)
class RecordWindow:
    """Factor rows of which row j reads records j + o, for each offset o.

    Parameters
    ----------
    name : str
        Name of the factor.
    rows : Variable, shape (count,)
        The rows as a function of the model's own private inputs; their sum is part of the
        log-likelihood, in nats.
    shifted : Variable, shape (count,)
        The same as a function of one input for each private variable and offset.
    data : dict of (name of source, offset) to Variable
        These inputs. Row j of each is the entry of record j + offset.
    count : int
        Number of rows.
    values : dict of Variable to array
        Public stand-ins for every input of `shifted`.
    rows_differ : bool
        Whether its rows differ in what they compute.
    """

    name: str
    rows: Variable
    shifted: Variable
    data: Mapping[tuple[str, int], Variable]
    count: int
    values: Mapping[Variable, np.ndarray] = field(repr=False)
    rows_differ: bool = False

    @property
    def offsets(self) -> tuple[int, ...]:
        """All offsets, in order."""
        return tuple(sorted({offset for _, offset in self.data}))

    def is_row_wise(self, n: int) -> bool:
        """Whether row j reads record j only, for all n records."""
        return self.offsets == (0,) and self.count == n

    def sources(self, sources: Sequence[Source]) -> dict[Variable, Source]:
        """The private variable of each input, with as many records as there are rows."""
        named = {s.name: s for s in sources}
        return {
            variable: resized_source(named[name], self.count, f"{name}[{offset:+d}]")
            for (name, offset), variable in self.data.items()
        }


class WindowSplitter:
    """Splits the factors of one model into windows.

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
        by_record = {data[s.name]: RecordInput(data[s.name], s.axis, s) for s in sources}
        for v, value in values.items():
            if hasattr(v, "get_value") and np.shape(value).count(n) == 1:
                by_record[v] = RecordInput(v, np.shape(value).index(n), None)
        self.originals = FactorInputs(by_record, self.values, n)
        self._lifted: set[Variable] = set()

    def windows(self, name: str, term: Variable) -> tuple[list[RecordWindow], list[Variable]]:
        """The windows of which a factor is the sum, and its parts that read no record.

        A factor with a part that is neither a window nor a sum is refused as `NotCertified`.
        """
        found, public = [], []
        queue = without_trivial_repeats([term], self.concrete)
        while queue:
            part = queue.pop(0)
            trail = element_labels([part], self.labels, self.values)
            if not is_labeled(trail[part]):
                public.append(part)
                continue
            window = next((w for w in self._candidates(name, part) if w is not None), None)
            if window is not None:
                found.append(window)
                continue
            parts = self._summands(part, _ReadsRecord(trail))
            if parts is None:
                raise no_window_error(name, bool(np.any(trail[part] == MIXED)))
            queue = [*parts, *queue]
        return found, [part.sum() for part in public]

    def _summands(self, part: Variable, reads: _ReadsRecord) -> list[Variable] | None:
        """Summands of a part that is no window itself, or the part with slices of inputs only."""
        prover = slicing.SliceProver(self.concrete, self.values)
        sliced = None if part in self._lifted else slicing.slices_of_leaves(part, reads, prover)
        if sliced is not None:
            self._lifted.add(sliced)
            return [sliced]
        rows = slicing.split_at_joins(part, reads, prover)
        return addends(part, reads, self.concrete) if rows is None else rows

    def _candidates(self, name: str, part: Variable) -> Iterator[RecordWindow | None]:
        """The part as a window, with its rows along each axis in turn."""
        shape = self.concrete.shape(part)
        for axis in range(len(shape)) if shape else (None,):
            count = 1 if axis is None else shape[axis]
            if axis and shape.count(count) > 1:
                continue  # broadcasting (n, 1) with (n,): the axes cannot be told apart
            try:
                yield self._window(name, part, axis, count)
            except (NotCertified, *EVALUATION_ERRORS):
                yield None

    def _window(
        self, name: str, part: Variable, axis: int | None, count: int
    ) -> RecordWindow | None:
        """The part with slices replaced by inputs, if it is proved to be the same function."""
        replacement = SliceReplacement(self.originals, part, count)
        if replacement.failed:
            return None
        shifted, by_record = rebuild([part], replacement.swaps)[0], self.originals.by_record
        if any(variable in by_record for variable in ancestors([shifted])):
            return None  # the whole sequence is still read, if only for its length
        values = {v: x for v, x in self.values.items() if v not in by_record}
        values |= replacement.values
        if not self._is_same_function(part, shifted, values, replacement):
            return None
        others = () if axis is None else tuple(k for k in range(part.type.ndim) if k != axis)
        rows, own = (
            v.reshape((1,)) if axis is None else v.sum(axis=others) for v in (part, shifted)
        )
        data = {
            (read.source.name, offset): variable
            for (read, offset), variable in replacement.inputs.items()
            if read.source is not None
        }
        window = RecordWindow(name, rows, own, data, count, values)
        return window if data and self._is_row_wise(window, replacement) else None

    def _is_same_function(
        self,
        part: Variable,
        shifted: Variable,
        values: Mapping[Variable, np.ndarray],
        replacement: SliceReplacement,
    ) -> bool:
        """Whether every element of both graphs carries one and the same expression."""
        marks = {
            v: hash_combine(k, np.arange(np.size(value)).reshape(np.shape(value)))
            for k, (v, value) in enumerate(self.values.items())
            if not hasattr(v, "get_value")
        }
        sliced = {v: m for v, m in marks.items() if v not in self.originals.by_record}
        for (read, offset), variable in replacement.inputs.items():
            if read.source is not None:
                rows = range(offset, offset + replacement.count)
                sliced[variable] = marks[read.variable].take(rows, axis=read.axis)
        before = value_numbers([part], marks, self.values)[0]
        after = value_numbers([shifted], sliced, values)[0]
        return before.shape == after.shape and bool(np.all(before == after))

    def _is_row_wise(self, window: RecordWindow, replacement: SliceReplacement) -> bool:
        """Whether row j, with its conditions, reads row j of every input only."""
        labels = {v: np.full(np.shape(value), NONE) for v, value in window.values.items()}
        for (read, _), variable in replacement.inputs.items():
            labels[variable] = row_numbers(np.shape(window.values[variable]), read.axis)
        trail = element_labels([window.shifted], labels, window.values)
        found = trail[window.shifted]
        refuse_joint_conditions([window.shifted], trail)
        own = np.arange(replacement.count)
        return found.shape == own.shape and bool(np.all((found == own) | (found == NONE)))


def no_window_error(name: str, is_mixed: bool) -> NotCertified:
    """The error for a factor that is no sum of windows of records."""
    several = "reads several records at once" if is_mixed else "is not aligned with them"
    return NotCertified(
        f"the factor '{name}' {several}, so one record has no log-likelihood of its own",
        blame=(name,),
        cure="factors must be row-wise along the records axis, or read neighboring records by "
        "slices of public length (x[1:] given x[:-1], pm.AR of public order): no Gaussian process "
        "over records, no sorting, no cumulated sum, no mean or z-score of the data inside the "
        "graph; scale by public constants",
    )


@dataclass(frozen=True, eq=False)
class _ReadsRecord:
    """A predicate on variables: whether one reads a record."""

    trail: Mapping[Variable, Labels]

    def __call__(self, variable: Variable) -> bool:
        return is_labeled(self.trail.get(variable))


class SliceReplacement:
    """A guess which slices a part of a factor reads, with an input in the place of each.

    The slices are found by record labels; `WindowSplitter` proves that the replacement is right.

    Attributes
    ----------
    inputs : dict of (RecordInput, offset) to Variable
        The new inputs, of `count` rows; `values` has a stand-in for each.
    swaps : dict of Variable to Variable
        What to replace in the part.
    failed : bool
        Whether the part reads something else than slices.
    """

    def __init__(self, originals: FactorInputs, part: Variable, count: int) -> None:
        self.originals, self.count = originals, count
        self.trail = element_labels([part], originals.labels(), originals.values)
        self.inputs: dict[tuple[RecordInput, int], Variable] = {}
        self.values: dict[Variable, np.ndarray] = {}
        self.swaps: dict[Variable, Variable] = {}
        self.failed = False
        self._find_slices(part)

    def _find_slices(self, part: Variable) -> None:
        """Go from the part up its graph, and replace the first slices on the way."""
        pending, seen = [part], set()
        while pending and not self.failed:
            variable = pending.pop()
            if variable in seen or not is_labeled(self.trail.get(variable)):
                continue
            seen.add(variable)
            shift = find_shift(self.trail[variable], self.count)
            replacement = None if shift is None else self._replacement(variable, shift)
            if replacement is not None:
                self.swaps[variable] = replacement
            elif variable.owner is None:
                self.failed = True
            else:
                pending += variable.owner.inputs

    def _replacement(self, variable: Variable, shift: Shift) -> Variable | None:
        """For a slice of a row-wise variable, that variable on inputs of the slice's rows."""
        sliced = self._sliced(variable)
        if sliced is None or not 0 <= shift.offset <= self.originals.n - self.count:
            return None
        whole, axis = sliced
        read = [v for v in ancestors([whole]) if v in self.originals.by_record]
        swaps = {v: self._input(self.originals.by_record[v], shift.offset) for v in read}
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
        """The row-wise variable of which a variable is a slice, with its records axis."""
        inputs = [] if variable.owner is None else variable.owner.inputs
        read = [v for v in inputs if is_labeled(self.trail.get(v))]
        for whole in (variable, *(read if len(read) == 1 else ())):
            shift = find_shift(self.trail[whole], self.originals.n)
            if shift is not None and shift.offset == 0 and shift.axis is not None:
                return whole, shift.axis
        return None

    def _input(self, read: RecordInput, offset: int) -> Variable:
        """The input for the rows of a slice, made once."""
        if (read, offset) not in self.inputs:
            values = self.originals.values[read.variable]
            variable, part = read.window(np.asarray(values), offset, self.count)
            self.inputs[read, offset] = variable
            self.values[variable] = part
        return self.inputs[read, offset]


@dataclass(frozen=True, eq=False)
class FactorInputs:
    """All inputs of a model's factors.

    `by_record` are those with the records axis: private variables, and public data with one entry
    per record. `values` are public stand-ins for every input, and `n` is the number of records.
    """

    by_record: Mapping[Variable, RecordInput]
    values: Mapping[Variable, np.ndarray]
    n: int

    def labels(self) -> dict[Variable, Labels]:
        """Record numbers of the elements of every input, public data included."""
        return {v: self._labels_of(v, np.shape(value)) for v, value in self.values.items()}

    def _labels_of(self, variable: Variable, shape: tuple[int, ...]) -> Labels:
        read = self.by_record.get(variable)
        return np.full(shape, NONE) if read is None else row_numbers(shape, read.axis)


@dataclass(frozen=True, eq=False)
class RecordInput:
    """An input of a factor with the records axis; `source` is None for public data."""

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


def resized_source(source: Source, count: int, name: str) -> Source:
    """A private variable with another number of records, for its shape and domain only."""
    shape = (*source.shape[: source.axis], count, *source.shape[source.axis + 1 :])
    return replace(source, name=name, shape=shape)


@dataclass(frozen=True, eq=False)
class Shift:
    """The offset of an array whose row j reads record j + offset along an axis (None: one row)."""

    offset: int
    axis: int | None


def find_shift(labels: Labels, count: int) -> Shift | None:
    """The shift of an array of record labels against `count` rows; None if it is no plain shift."""
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


def row_numbers(shape: tuple[int, ...], axis: int) -> Labels:
    """The index of each element of an array along one axis."""
    others = tuple(k for k in range(len(shape)) if k != axis)
    return np.broadcast_to(np.expand_dims(np.arange(shape[axis]), others), shape)
