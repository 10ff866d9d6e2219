"""Interval bounds of a neighborhood: log p of the factor rows around one record.

The same face as `row_bounds.RowBounds`, so that tables, the search and T24's inequalities serve
both. What stands there for a row (something public, the same for both records) is here a cell of
the neighbors and of what is public: R is the greatest over rows.
"""

from __future__ import annotations

import itertools
import math
import numpy as np
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, SimplexRows, Trail, bounds
from pymc_private.analysis.batched_bounds import Batch
from pymc_private.analysis.branch_and_bound__effort import Effort
from pymc_private.models.domains import MOST_CELLS
from pymc_private.certificates.record_bounds__public_rows import distinct_rows
from pymc_private.certificates.record_bounds__row_bounds import Record
from pymc_private.models.record_likelihood__single_record import SingleRecord
from pymc_private.models.data_variables import Source

MOST_AT_ONCE = 4096
"""Combinations of a record's cell and a cell of its neighbors."""
MOST_PUBLIC = 8
"""Distinct public rows that a search tries."""

Context = tuple[Bounds, ...]
"""One interval for each neighbor's entry and each public array."""


class NeighborRows:
    """Evaluates a neighborhood on cells of the record, of its neighbors and of the parameters.

    Parameters
    ----------
    record : SingleRecord
    sources : sequence of Source
    """

    def __init__(self, record: SingleRecord, sources: Sequence[Source]) -> None:
        self.record, self.sources = record, tuple(sources)
        self.effort = Effort()
        self.cells: list[Record] = cells_of(self.sources, math.isqrt(MOST_AT_ONCE))
        room = MOST_AT_ONCE // len(self.cells)
        self._contexts = self._with_public(cells_of(tuple(record.neighbors.values()), room))
        inputs = [*record.data.values(), *record.parameters.values()]
        self._inputs = [*inputs, *record.neighbors, *record.public]
        self._batch = Batch(record.value, self._inputs, ())

    @property
    def output(self) -> Variable:
        """What the trail ends in."""
        return self.record.value

    @property
    def is_slow(self) -> bool:
        """Whether each record costs a walk of its own."""
        return False

    @property
    def width(self) -> int:
        """Rows of a table."""
        return len(self._contexts)

    def trail(self, box: Mapping[str, Bounds]) -> Trail:
        """Bounds of every node for the whole domain, kept as an explanation."""
        given = {self.record.data[s.name]: s.domain.bounds(s.row_shape) for s in self.sources}
        given |= {v: s.domain.bounds(s.row_shape) for v, s in self.record.neighbors.items()}
        given |= {self.record.parameters[name]: b for name, b in box.items()}
        return bounds([self.record.value], given | dict(self._hulls()))

    def table(
        self, box: Mapping[str, Bounds], records: Sequence[Record] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of log p, shape (record cells, cells of the neighbors)."""
        records = self.cells if records is None else records
        shape = len(records), len(self._contexts)
        pairs = list(itertools.product(records, self._contexts))
        self.effort.spend(len(pairs))
        given = {}
        for k, entry in enumerate(self.record.data.values()):
            given[entry] = _stacked([record[k] for record, _ in pairs], entry)
        for k, entry in enumerate([*self.record.neighbors, *self.record.public]):
            given[entry] = _stacked([context[k] for _, context in pairs], entry)
        for name, entry in self.record.parameters.items():
            given[entry] = _stacked([box[name]] * len(pairs), entry)
        lower, upper = self._batch.values(given)
        return lower.reshape(shape), upper.reshape(shape)

    def at_points(self, points: Sequence[Context]) -> NeighborRows:
        """The same with neighbors at points, and public rows as they are: for a search."""
        return self._of([(*point, *row) for point in points for row in self._public_points()])

    def only(self, row: int) -> NeighborRows:
        """The same with one cell of the neighbors."""
        return self._of([self._contexts[row]])

    def _of(self, contexts: list[Context]) -> NeighborRows:
        other = object.__new__(NeighborRows)
        other.__dict__ |= self.__dict__ | {"_contexts": contexts}
        return other

    def _with_public(self, contexts: list[Context]) -> list[Context]:
        hulls = tuple(hull for _, hull in self._hulls())
        return [(*context, *hulls) for context in contexts]

    def _hulls(self) -> list[tuple[Variable, Bounds]]:
        return [
            (v, Bounds(rows.min(axis=0), rows.max(axis=0)))
            for v, rows in self.record.public.items()
        ]

    def _public_points(self) -> list[Context]:
        """Some of the public rows there are."""
        arrays = list(self.record.public.values())
        rows = distinct_rows(arrays)
        picked = rows[np.linspace(0, len(rows) - 1, MOST_PUBLIC).astype(int)]
        points = []
        for row in np.unique(picked, axis=0) if arrays else rows:
            sizes = np.cumsum([int(np.prod(a.shape[1:])) for a in arrays])[:-1]
            parts = np.split(row, sizes) if arrays else []
            shaped = [p.reshape(a.shape[1:]) for p, a in zip(parts, arrays, strict=True)]
            points.append(tuple(Bounds(p, p) for p in shaped))
        return points


def cells_of(sources: Sequence[Source], most: int) -> list[Record]:
    """The product of every source's cells: at most so many, fewer of each if need be."""
    each = MOST_CELLS
    while True:
        choices = [s.domain.cells(s.row_shape, s.is_whole, each) for s in sources]
        if math.prod(map(len, choices)) <= most:
            return list(itertools.product(*choices))
        if each == 1:
            return [tuple(s.domain.bounds(s.row_shape) for s in sources)]
        each //= 2


def _stacked(parts: Sequence[Bounds], entry: Variable) -> Bounds:
    """Intervals of one input, one after the other."""
    shape = entry.type.shape
    lower = np.stack([np.broadcast_to(p.lower, shape) for p in parts])
    upper = np.stack([np.broadcast_to(p.upper, shape) for p in parts])
    within = parts[0].within
    if not isinstance(within, SimplexRows) or any(p.within is not within for p in parts):
        within = None
    if np.array_equal(lower, upper):
        point = lower if entry.type.dtype.startswith("float") else lower.astype(entry.type.dtype)
        return Bounds(point, point, within)
    return Bounds(lower, upper, within)
