"""Interval bounds of log p(record | parameters) on cells of records and cells of parameters.

`RecordBounds` evaluates the graph of one record. A record of a sequence is read by several
factor rows, each of which reads other records too. Where two datasets differ in that record
alone, only these rows differ, and in both the neighboring records are the same. So R is the
maximum over neighborhoods of a range as of a single record, the neighboring records being any
(T1); it is at most the sum of the ranges of the factor rows one by one (T24).
`NeighborhoodBounds` evaluates such a neighborhood with the interface of `RecordBounds`, so
that tables, the search and T24's inequalities serve both. What is a row there (something
public, the same for both records) is here a cell of the neighboring records and of what is
public: R is the greatest over rows.

Public arrays with one entry per row enter by their distinct rows, or by few boxes around them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds, SimplexRows, Trail, propagate_bounds, simplify
from pymc_private.analysis.batched_bounds import BatchedFunction
from pymc_private.analysis.branch_and_bound import Effort
from pymc_private.analysis.traversal import rebuild
from pymc_private.errors import NotCertified
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import MOST_CELLS
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.record_likelihood import SingleRecord, single_record
from pymc_private.models.sequences.row_identity import STACKED_ROWS, public_data
from pymc_private.models.sequences.windows import RecordWindow

MOST_RECORD_CELLS = STACKED_ROWS - 1
"""Most combinations of the variables' cells."""

MOST_CELL_PAIRS = 4096
"""Combinations of a record's cell and a cell of its neighbors."""

MOST_SEARCHED_ROWS = 8
"""Distinct public rows that a search tries."""

MOST_PUBLIC_ROWS = 4096
"""Distinct rows that are bounded one by one; more are put into fewer boxes."""

RecordCell = tuple[Bounds, ...]
"""One interval per source: a cell of the space of records."""

NeighborCell = tuple[Bounds, ...]
"""One interval for each neighbor's entry and each public array."""


class RecordBounds:
    """Interval bounds of one record's graph on cells.

    Graphs with equivalent rows take any records in any rows, so all record cells are evaluated in
    one walk. A graph whose rows differ, or that computes with their number, is walked with
    all n rows, one record cell at a time.
    """

    def __init__(self, graph: RecordGraph, sources: Sequence[Source], n: int) -> None:
        self.graph, self.sources, self.n = graph, tuple(sources), n
        self._shared = {v: Bounds.point(v.get_value()) for v in public_data([graph.record])}
        self.cells = self._record_cells()
        self.effort = Effort()
        self._stacks: dict[
            tuple[int, ...], tuple[tuple[RecordCell, ...], dict[Variable, Bounds]]
        ] = {}

    @property
    def output(self) -> Variable:
        """The last node of the trail."""
        return self.graph.record

    @property
    def is_slow(self) -> bool:
        """Whether each record costs a walk of its own."""
        return self.graph.rows_differ

    @property
    def width(self) -> int:
        """Rows of a table."""
        return self.n if self.graph.rows_differ else 1

    def only(self, row: int) -> RecordBounds:
        """These bounds themselves; see `NeighborhoodBounds.only`."""
        return self

    def _record_cells(self) -> list[RecordCell]:
        """The product of every source's cells."""
        choices = cells_of_each(
            lambda most: [s.domain.cells(s.row_shape, s.is_whole, most) for s in self.sources],
            [s.domain.bounds(s.row_shape) for s in self.sources],
            MOST_CELLS,
            MOST_RECORD_CELLS,
        )
        return list(itertools.product(*choices))

    def trail(self, box: Mapping[str, Bounds]) -> Trail:
        """Bounds of every node for the whole domain, kept as an explanation."""
        whole: RecordCell = tuple(s.domain.bounds(s.row_shape) for s in self.sources)
        return self._trail(box, [whole] * (self.n if self.graph.rows_differ else 2))

    def table(
        self, box: Mapping[str, Bounds], records: Sequence[RecordCell] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of log p, shape (record cells, rows).

        Rows has length 1 unless something public makes rows differ.
        """
        if self.graph.windows:
            raise ValueError("factor rows that read several records have no table of one record")
        records = self.cells if records is None else records
        if not self.graph.rows_differ:
            # Always the number of rows for which rows were proved equivalent.
            padding = [records[-1]] * (STACKED_ROWS - len(records))
            lower, upper = self._output(self._trail(box, [*records, *padding]), STACKED_ROWS)
            return lower[: len(records), None], upper[: len(records), None]
        each = [self._output(self._trail(box, [record] * self.n), self.n) for record in records]
        return np.stack([low for low, _ in each]), np.stack([high for _, high in each])

    def _trail(self, box: Mapping[str, Bounds], records: Sequence[RecordCell]) -> Trail:
        self.effort.spend(len(records))
        return propagate_bounds([self.graph.record], self._given(box, records))

    def _output(self, trail: Trail, count: int) -> tuple[np.ndarray, np.ndarray]:
        fact, shape = trail[self.graph.record], (count,)
        lower = np.broadcast_to(np.nan_to_num(fact.lower, nan=-np.inf, neginf=-np.inf), shape)
        upper = np.broadcast_to(np.nan_to_num(fact.upper, nan=np.inf, posinf=np.inf), shape)
        return lower, upper

    def _given(self, box: Mapping[str, Bounds], records: Sequence[RecordCell]) -> dict:
        given = {self.graph.parameters[name]: b for name, b in box.items()}
        return given | self._stacked(records) | self._shared

    def _stacked(self, records: Sequence[RecordCell]) -> dict[Variable, Bounds]:
        """The records as inputs of the graph, kept: the same few lists come many times."""
        key = tuple(map(id, records))
        if key in self._stacks:
            return self._stacks[key][1]
        data = {}
        for position, source in enumerate(self.sources):
            stacked = source.stack([record[position] for record in records])
            if source.is_whole and stacked.is_point:
                stacked = Bounds.point(stacked.lower.astype(source.dtype))
            data[self.graph.data[source.name]] = stacked
        if not self.graph.rows_differ:
            # The records are kept too: an id means nothing once its owner is gone.
            self._stacks[key] = (tuple(records), data)
        return data


def cells_of_each(
    choices: Callable[[int], list[list[Bounds]]], whole: Sequence[Bounds], each: int, most: int
) -> list[list[Bounds]]:
    """Cells of each variable whose product is at most `most`: fewer of each, or a whole domain.

    `choices` gives at most so many cells of each variable, `whole` its domain; `each` is the first
    number tried, and is halved.
    """
    found = choices(each)
    while each > 1 and math.prod(map(len, found)) > most:
        each //= 2
        found = choices(each)
    while math.prod(map(len, found)) > most:
        widest = int(np.argmax([len(cells) for cells in found]))
        found[widest] = [whole[widest]]
    return found


@dataclass(frozen=True, eq=False)
class Neighborhood:
    """Records that are read in the same way.

    Parameters
    ----------
    record : SingleRecord
        The sum of all factor rows that read one of them.
    readers : tuple of str
        The factor of each of these rows.
    first, count : int
        The first of the records, and how many there are.
    """

    record: SingleRecord
    readers: tuple[str, ...]
    first: int
    count: int


def neighborhoods(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> list[Neighborhood]:
    """The neighborhoods of a graph with windows: every way in which some record is read.

    Raises
    ------
    NotCertified
        Rows of a factor differ by more than public arrays with one entry per row.
    """
    readers = [
        _FactorReader(window, row, offset)
        for window in graph.windows
        for row in [_factor_row(graph, window, sources, shapes)]
        for offset in window.offsets
    ]
    members: dict[tuple[int, ...], list[range]] = {}
    for run in _runs_of_records(readers, n):
        key = tuple(k for k, r in enumerate(readers) if r.reads(run.start))
        members.setdefault(key, []).append(run)
    return [
        _sum_of_readers([readers[k] for k in key], members[key], graph, sources, shapes)
        for key in members
        if key
    ]


@dataclass(frozen=True, eq=False)
class _FactorReader:
    """The rows of one factor that read a record at one offset."""

    window: RecordWindow
    row: SingleRecord
    offset: int

    def reads(self, record: int) -> bool:
        """Whether row record - offset exists."""
        return 0 <= record - self.offset < self.window.count


def _runs_of_records(readers: Sequence[_FactorReader], n: int) -> Iterator[range]:
    """Runs of records that the same readers read."""
    changes = {k for r in readers for k in (r.offset, r.offset + r.window.count)}
    edges = sorted({0, n, *(k for k in changes if k < n)})
    return (range(a, b) for a, b in itertools.pairwise(edges))


def _factor_row(
    graph: RecordGraph,
    window: RecordWindow,
    sources: Sequence[Source],
    shapes: Mapping[str, tuple[int, ...]],
) -> SingleRecord:
    """A factor row without the rows axis."""
    inputs = window.sources(sources)
    own = replace(
        graph,
        record=window.shifted,
        data={source.name: variable for variable, source in inputs.items()},
        rows_differ=window.rows_differ,
        windows=(),
    )
    row = single_record(own, list(inputs.values()), window.count, shapes)
    if row is None:
        raise NotCertified(
            f"the rows of the factor '{window.name}' differ by more than public arrays",
            blame=(window.name,),
            cure="hold what differs from row to row in pm.Data with the records dim",
        )
    return row


def _sum_of_readers(
    readers: Sequence[_FactorReader],
    members: Sequence[range],
    graph: RecordGraph,
    sources: Sequence[Source],
    shapes: Mapping[str, tuple[int, ...]],
) -> Neighborhood:
    """The sum of the rows that read a record."""
    named = {s.name: s for s in sources}
    data = {s.name: _entry_variable(s, s.name) for s in sources}
    parameters = {
        name: v.type.clone(shape=shapes[name])(name=name) for name, v in graph.parameters.items()
    }
    records = np.concatenate([np.asarray(run) for run in members])
    others: dict[tuple[str, int], Variable] = {}
    public: dict[Variable, np.ndarray] = {}
    terms = []
    for reader in readers:
        swaps = {reader.row.parameters[name]: v for name, v in parameters.items()}
        for (name, offset), variable in reader.window.data.items():
            entry = reader.row.data[_name_in_row(reader.window, variable, sources)]
            lag = offset - reader.offset
            if lag and (name, lag) not in others:
                others[name, lag] = _entry_variable(named[name], f"{name}[{lag:+d}]")
            swaps[entry] = others[name, lag] if lag else data[name]
        for entry, values in reader.row.public.items():
            fresh = entry.type(name=entry.name)
            public[fresh] = values[records - reader.offset]
            swaps[entry] = fresh
        terms.append(rebuild([reader.row.value], swaps)[0])
    total = simplify([pt.add(*terms) if len(terms) > 1 else terms[0]])[0]
    neighbors = {v: replace(named[name], name=str(v.name)) for (name, _), v in others.items()}
    record = SingleRecord(total, data, parameters, public, neighbors)
    names = tuple(reader.window.name for reader in readers)
    return Neighborhood(record, names, members[0].start, len(records))


def _name_in_row(window: RecordWindow, variable: Variable, sources: Sequence[Source]) -> str:
    """The name of one of the window's inputs in its factor row."""
    return window.sources(sources)[variable].name


def _entry_variable(source: Source, name: str) -> Variable:
    """A variable for one record's entry of a source."""
    return pt.TensorType(source.dtype, shape=source.row_shape)(name=name)


class NeighborhoodBounds:
    """Interval bounds of a neighborhood on cells of the record, its neighbors and the parameters.

    Parameters
    ----------
    record : SingleRecord
    sources : sequence of Source
    """

    def __init__(self, record: SingleRecord, sources: Sequence[Source]) -> None:
        self.record, self.sources = record, tuple(sources)
        self.effort = Effort()
        self.cells: list[RecordCell] = product_cells(self.sources, math.isqrt(MOST_CELL_PAIRS))
        room = MOST_CELL_PAIRS // len(self.cells)
        self._neighbor_cells = self._with_public(
            product_cells(tuple(record.neighbors.values()), room)
        )
        inputs = [*record.data.values(), *record.parameters.values()]
        self._inputs = [*inputs, *record.neighbors, *record.public]
        self._batch = BatchedFunction(record.value, self._inputs, ())

    @property
    def output(self) -> Variable:
        """The last node of the trail."""
        return self.record.value

    @property
    def is_slow(self) -> bool:
        """Whether each record costs a walk of its own."""
        return False

    @property
    def width(self) -> int:
        """Rows of a table."""
        return len(self._neighbor_cells)

    def trail(self, box: Mapping[str, Bounds]) -> Trail:
        """Bounds of every node for the whole domain, kept as an explanation."""
        given = {self.record.data[s.name]: s.domain.bounds(s.row_shape) for s in self.sources}
        given |= {v: s.domain.bounds(s.row_shape) for v, s in self.record.neighbors.items()}
        given |= {self.record.parameters[name]: b for name, b in box.items()}
        return propagate_bounds([self.record.value], given | dict(self._hulls()))

    def table(
        self, box: Mapping[str, Bounds], records: Sequence[RecordCell] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of log p, shape (record cells, cells of the neighbors)."""
        records = self.cells if records is None else records
        shape = len(records), len(self._neighbor_cells)
        pairs = list(itertools.product(records, self._neighbor_cells))
        self.effort.spend(len(pairs))
        given = {}
        for k, entry in enumerate(self.record.data.values()):
            given[entry] = _stack_intervals([record[k] for record, _ in pairs], entry)
        for k, entry in enumerate([*self.record.neighbors, *self.record.public]):
            given[entry] = _stack_intervals([cell[k] for _, cell in pairs], entry)
        for name, entry in self.record.parameters.items():
            given[entry] = _stack_intervals([box[name]] * len(pairs), entry)
        lower, upper = self._batch.values(given)
        return lower.reshape(shape), upper.reshape(shape)

    def at_points(self, points: Sequence[NeighborCell]) -> NeighborhoodBounds:
        """The same with neighbors at points, and some public rows themselves: for a search."""
        return self._of([(*point, *row) for point in points for row in self._public_points()])

    def only(self, row: int) -> NeighborhoodBounds:
        """The same with one cell of the neighbors."""
        return self._of([self._neighbor_cells[row]])

    def _of(self, cells: list[NeighborCell]) -> NeighborhoodBounds:
        other = object.__new__(NeighborhoodBounds)
        other.__dict__ |= self.__dict__ | {"_neighbor_cells": cells}
        return other

    def _with_public(self, cells: list[NeighborCell]) -> list[NeighborCell]:
        hulls = tuple(hull for _, hull in self._hulls())
        return [(*cell, *hulls) for cell in cells]

    def _hulls(self) -> list[tuple[Variable, Bounds]]:
        return [
            (v, Bounds(rows.min(axis=0), rows.max(axis=0)))
            for v, rows in self.record.public.items()
        ]

    def _public_points(self) -> list[NeighborCell]:
        """Some of the distinct public rows."""
        arrays = list(self.record.public.values())
        rows = distinct_rows(arrays)
        picked = rows[np.linspace(0, len(rows) - 1, MOST_SEARCHED_ROWS).astype(int)]
        points = []
        for row in np.unique(picked, axis=0) if arrays else rows:
            sizes = np.cumsum([int(np.prod(a.shape[1:])) for a in arrays])[:-1]
            parts = np.split(row, sizes) if arrays else []
            shaped = [p.reshape(a.shape[1:]) for p, a in zip(parts, arrays, strict=True)]
            points.append(tuple(Bounds(p, p) for p in shaped))
        return points


def product_cells(sources: Sequence[Source], most: int) -> list[RecordCell]:
    """The product of every source's cells, at most so many: fewer of each, or whole domains."""
    each = MOST_CELLS
    while True:
        choices = [s.domain.cells(s.row_shape, s.is_whole, each) for s in sources]
        if math.prod(map(len, choices)) <= most:
            return list(itertools.product(*choices))
        if each == 1:
            return [tuple(s.domain.bounds(s.row_shape) for s in sources)]
        each //= 2


def _stack_intervals(parts: Sequence[Bounds], entry: Variable) -> Bounds:
    """Intervals of one input, stacked along a new first axis."""
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


def distinct_rows(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """The distinct rows, shape (rows, entries), of arrays of shape (n, ...) laid side by side.

    One row without entries if there are no arrays.
    """
    if not arrays:
        return np.empty((1, 0))
    flat = [np.reshape(array, (len(array), -1)).astype(float) for array in arrays]
    return np.unique(np.concatenate(flat, axis=1), axis=0)


def boxes_around(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Boxes around rows: one for each, or around neighbors if there are too many."""
    groups = [rows]
    while len(rows) > MOST_PUBLIC_ROWS and len(groups) < MOST_PUBLIC_ROWS:
        groups = [half for group in groups for half in _halved(group)]
    if len(rows) <= MOST_PUBLIC_ROWS:
        return rows, rows
    return (
        np.stack([group.min(axis=0) for group in groups]),
        np.stack([group.max(axis=0) for group in groups]),
    )


def _halved(rows: np.ndarray) -> list[np.ndarray]:
    """Both halves across the widest column."""
    if len(rows) == 1:
        return [rows]
    axis = int(np.argmax(np.ptp(rows, axis=0)))
    ordered = rows[np.argsort(rows[:, axis], kind="stable")]
    return [ordered[: len(rows) // 2], ordered[len(rows) // 2 :]]
