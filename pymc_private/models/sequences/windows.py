"""Windows: factor rows that read a few neighboring records each, as in a Markov chain or an AR.

Row j of such a factor reads records j + o for the offsets o of a finite public set. Each slice of
what is row-wise, ``x[o:o + m]``, is replaced by an input of m rows of its own. That is a guess
about the graph (`models.sequences.windows__slices`); that the result is the same function is proved by marks
of every element (`analysis.row_equivalence__expressions`), and then row j of the factor is shown to read row j of
each input.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import MIXED, NONE, expressions, refuse_joint_conditions, row_labels
from pymc_private.analysis.rewrites import slicing__joints
from pymc_private.analysis.rewrites.algebra import addends, direct
from pymc_private.analysis.row_equivalence__expressions import mix
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.record_dependence import Concrete, is_labeled
from pymc_private.errors import NotCertified
from pymc_private.models.sequences.windows__slices import Cut, Inputs, Labels, Leaf, of_length, row_numbers
from pymc_private.models.data_variables import Source

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
            variable: of_length(named[name], self.count, f"{name}[{offset:+d}]")
            for (name, offset), variable in self.data.items()
        }


@dataclass(frozen=True, eq=False)
class _Reads:
    """Whether a variable reads a record."""

    trail: Mapping[Variable, Labels]

    def __call__(self, variable: Variable) -> bool:
        return is_labeled(self.trail.get(variable))


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
        self.values, self.labels = dict(values), dict(labels)
        self.concrete = Concrete(values)
        self.leaves = {data[s.name]: Leaf(data[s.name], s.axis, s) for s in sources}
        for v, value in values.items():
            if hasattr(v, "get_value") and np.shape(value).count(n) == 1:
                self.leaves[v] = Leaf(v, np.shape(value).index(n), None)
        self.given = Inputs(self.leaves, self.values, n)
        self._lifted: set[Variable] = set()

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
            parts = self._parted(part, _Reads(trail))
            if parts is None:
                raise uncut(name, bool(np.any(trail[part] == MIXED)))
            queue = [*parts, *queue]
        return found, [part.sum() for part in public]

    def _parted(self, part: Variable, reads: _Reads) -> list[Variable] | None:
        """What adds up to a part that is no window by itself: a step towards windows."""
        given = slicing__joints.Given(self.concrete, self.values)
        plain = None if part in self._lifted else slicing__joints.lifted(part, reads, given)
        if plain is not None:
            self._lifted.add(plain)
            return [plain]
        rows = slicing__joints.blocks(part, reads, given)
        return addends(part, reads, self.concrete) if rows is None else rows

    def _tried(self, name: str, part: Variable) -> Iterator[Window | None]:
        """The part as a window, with its rows along each axis in turn."""
        shape = self.concrete.shape(part)
        for axis in range(len(shape)) if shape else (None,):
            count = 1 if axis is None else shape[axis]
            if axis and shape.count(count) > 1:
                continue  # it comes of broadcasting (n, 1) with (n,): see `records`
            try:
                yield self._window(name, part, axis, count)
            except (NotCertified, *UNCOMPUTABLE):
                yield None

    def _window(self, name: str, part: Variable, axis: int | None, count: int) -> Window | None:
        """The part with slices replaced by inputs, if that can be proved to be the same."""
        cut = Cut(self.given, part, count)
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
        self, part: Variable, shifted: Variable, values: Mapping[Variable, np.ndarray], cut: Cut
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

    def _row_wise(self, window: Window, cut: Cut) -> bool:
        """Whether row j reads row j of every input, and so do the conditions."""
        labels = {v: np.full(np.shape(value), NONE) for v, value in window.values.items()}
        for (leaf, _), variable in cut.inputs.items():
            labels[variable] = row_numbers(np.shape(window.values[variable]), leaf.axis)
        trail = row_labels([window.shifted], labels, window.values)
        found = trail[window.shifted]
        refuse_joint_conditions([window.shifted], trail)
        own = np.arange(cut.count)
        return found.shape == own.shape and bool(np.all((found == own) | (found == NONE)))


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
