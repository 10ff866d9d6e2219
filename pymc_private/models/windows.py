"""Windows: factor rows that read a few neighboring records each (Markov chains, AR of public order).

Row j of such a factor reads records j + o for the offsets o of a finite public set. Each slice of
what is row-wise, ``x[o:o + m]``, is replaced by an input of m rows of its own. That is a guess about
the graph; that the result is the same function is proved by marks of every element
(`analysis.expressions`), and then row j of the factor is shown to read row j of each input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor

from pymc_private.analysis import MIXED, NONE, expressions, refuse_joint_conditions, row_labels
from pymc_private.analysis.addends import addends, direct
from pymc_private.analysis.expressions import mix
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.rebuild import rebuild
from pymc_private.analysis.rows import Concrete, is_labeled
from pymc_private.errors import NotCertified
from pymc_private.models.sources import Source

Labels = np.ndarray


@dataclass(frozen=True, eq=False)
class Window:
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
            variable: named[name].of_length(self.count, f"{name}[{offset:+d}]")
            for (name, offset), variable in self.data.items()
        }


@dataclass(frozen=True, eq=False)
class _Leaf:
    """An input with the records axis."""

    variable: Variable
    axis: int
    source: Source | None

    def window(self, values: np.ndarray, offset: int, count: int) -> tuple[Variable, np.ndarray]:
        """An input for records offset, ..., offset + count - 1, and a stand-in for it."""
        part = values.take(range(offset, offset + count), axis=self.axis)
        if self.source is None:
            return pytensor.shared(part, name=self.variable.name), part
        return self.source.of_length(count, f"{self.source.name}[{offset:+d}]").input(), part


@dataclass(frozen=True, eq=False)
class _Shift:
    """Elements of an array read record j + offset in row j along an axis (None: one record)."""

    offset: int
    axis: int | None


def shift_of(labels: Labels, count: int) -> _Shift | None:
    """How an array of labels is shifted against `count` rows, if that is all that it is."""
    if not is_labeled(labels) or np.any(labels == MIXED):
        return None
    read = labels != NONE
    if count == 1:
        found = np.unique(labels[read])
        return _Shift(int(found[0]), None) if len(found) == 1 else None
    for axis in range(labels.ndim):
        if labels.shape[axis] != count:
            continue
        rows = np.expand_dims(np.arange(count), tuple(k for k in range(labels.ndim) if k != axis))
        offsets = np.unique((labels - rows)[read])
        if len(offsets) == 1:
            return _Shift(int(offsets[0]), axis)
    return None


class Cutter:
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
        self.values, self.labels, self.n = dict(values), dict(labels), n
        self.concrete = Concrete(values)
        self.leaves = {data[s.name]: _Leaf(data[s.name], s.axis, s) for s in sources}
        for v, value in values.items():
            if hasattr(v, "get_value") and np.shape(value).count(n) == 1:
                self.leaves[v] = _Leaf(v, np.shape(value).index(n), None)

    def windows(self, name: str, term: Variable) -> tuple[list[Window], list[Variable]]:
        """Windows that a factor is made of, and parts of it that read no record.

        Raises
        ------
        NotCertified
            Some part of the factor is neither a sum nor a window.
        """
        found, public = [], []
        queue = direct([term], self.concrete)
        while queue:
            part = queue.pop(0)
            trail = row_labels([part], self.labels, self.values)
            if not is_labeled(trail[part]):
                public.append(part)
                continue
            window = next((w for w in self._tried(name, part) if w is not None), None)
            if window is not None:
                found.append(window)
                continue
            parts = addends(part, lambda v, t=trail: is_labeled(t.get(v)), self.concrete)
            if parts is None:
                raise uncut(name, bool(np.any(trail[part] == MIXED)))
            queue = [*parts, *queue]
        return found, [part.sum() for part in public]

    def _tried(self, name: str, part: Variable) -> Iterator[Window | None]:
        """The part as a window, with its rows along each axis in turn."""
        shape = self.concrete.shape(part)
        for axis in range(len(shape)) if shape else (None,):
            count = 1 if axis is None else shape[axis]
            try:
                yield self._window(name, part, axis, count)
            except (NotCertified, *UNCOMPUTABLE):
                yield None

    def _window(self, name: str, part: Variable, axis: int | None, count: int) -> Window | None:
        """The part with slices replaced by inputs, if that can be proved to be the same."""
        cut = _Cut(self, part, count)
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
        window = Window(name, rows, own, data, count, values)
        return window if data and self._row_wise(window, cut) else None

    def _same(
        self, part: Variable, shifted: Variable, values: Mapping[Variable, np.ndarray], cut: _Cut
    ) -> bool:
        """Whether every element of both graphs carries one and the same expression."""
        marks = {
            v: mix(k, np.arange(np.size(value)).reshape(np.shape(value)))
            for k, (v, value) in enumerate(self.values.items())
            if not hasattr(v, "get_value")
        }
        parts = {v: m for v, m in marks.items() if v not in self.leaves}
        for (leaf, offset), variable in cut.inputs.items():
            if leaf.source is not None:
                rows = range(offset, offset + cut.count)
                parts[variable] = marks[leaf.variable].take(rows, axis=leaf.axis)
        before = expressions([part], marks, self.values)[0]
        after = expressions([shifted], parts, values)[0]
        return before.shape == after.shape and bool(np.all(before == after))

    def _row_wise(self, window: Window, cut: _Cut) -> bool:
        """Whether row j reads row j of every input, and so do the conditions."""
        labels = {v: np.full(np.shape(value), NONE) for v, value in window.values.items()}
        for (leaf, _), variable in cut.inputs.items():
            shape = np.shape(window.values[variable])
            apart = tuple(k for k in range(len(shape)) if k != leaf.axis)
            row = np.expand_dims(np.arange(cut.count), apart)
            labels[variable] = np.broadcast_to(row, shape)
        trail = row_labels([window.shifted], labels, window.values)
        found = trail[window.shifted]
        refuse_joint_conditions([window.shifted], trail)
        own = np.arange(cut.count)
        return found.shape == own.shape and bool(np.all((found == own) | (found == NONE)))


class _Cut:
    """Where a part of a factor reads slices of what is row-wise, and inputs in their place."""

    def __init__(self, cutter: Cutter, part: Variable, count: int) -> None:
        self.cutter, self.count = cutter, count
        labels = cutter.labels | {
            v: np.broadcast_to(
                np.expand_dims(
                    np.arange(cutter.n), tuple(k for k in range(np.ndim(x)) if k != leaf.axis)
                ),
                np.shape(x),
            )
            for v, leaf in cutter.leaves.items()
            for x in [cutter.values[v]]
        }
        self.trail = row_labels([part], labels, cutter.values)
        self.inputs: dict[tuple[_Leaf, int], Variable] = {}
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

    def _instead(self, variable: Variable, shift: _Shift) -> Variable | None:
        """What is row-wise, on an input of its own, in place of a slice of it."""
        sliced = self._sliced(variable)
        if sliced is None or not 0 <= shift.offset <= self.cutter.n - self.count:
            return None
        whole, axis = sliced
        read = [v for v in ancestors([whole]) if v in self.cutter.leaves]
        swaps = {v: self._input(self.cutter.leaves[v], shift.offset) for v in read}
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
            shift = shift_of(self.trail[whole], self.cutter.n)
            if shift is not None and shift.offset == 0 and shift.axis is not None:
                return whole, shift.axis
        return None

    def _input(self, leaf: _Leaf, offset: int) -> Variable:
        if (leaf, offset) not in self.inputs:
            values = self.cutter.values[leaf.variable]
            variable, part = leaf.window(np.asarray(values), offset, self.count)
            self.inputs[leaf, offset] = variable
            self.values[variable] = part
        return self.inputs[leaf, offset]


def uncut(name: str, is_mixed: bool) -> NotCertified:
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
