"""Interval bounds of log p(record | parameters) for cells of records and cells of parameters."""

from __future__ import annotations

import itertools
import math
import numpy as np
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, Trail, bounds
from pymc_private.analysis.branch_and_bound__effort import Effort
from pymc_private.models.sequences.row_identity import STACKED, public_data
from pymc_private.models.domains import MOST_CELLS
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.data_variables import Source

MOST_RECORD_CELLS = STACKED - 1
"""Most combinations of the variables' cells."""

Record = tuple[Bounds, ...]
"""One interval per source: a cell of the space of records."""


class RowBounds:
    """Evaluates one record's graph on cells; knows how rows may be stacked.

    Unpinned graphs take any records in any rows, so all record cells are evaluated in one walk. A
    graph whose rows differ, or that computes with their number, is walked with all n rows, one
    record cell at a time.
    """

    def __init__(self, graph: RecordGraph, sources: Sequence[Source], n: int) -> None:
        self.graph, self.sources, self.n = graph, tuple(sources), n
        self._shared = {v: Bounds.point(v.get_value()) for v in public_data([graph.record])}
        self.cells = self._record_cells()
        self.effort = Effort()
        self._stacks: dict[tuple[int, ...], tuple[tuple[Record, ...], dict[Variable, Bounds]]] = {}

    @property
    def output(self) -> Variable:
        """What the trail ends in."""
        return self.graph.record

    @property
    def is_slow(self) -> bool:
        """Whether each record costs a walk of its own."""
        return self.graph.pinned

    @property
    def width(self) -> int:
        """Rows of a table."""
        return self.n if self.graph.pinned else 1

    def only(self, row: int) -> RowBounds:
        """The same: rows are not chosen from."""
        return self

    def _record_cells(self) -> list[Record]:
        """The product of every source's cells: fewer of each, or left whole, if too many."""
        most = MOST_CELLS
        choices = self._choices(most)
        while most > 1 and math.prod(map(len, choices)) > MOST_RECORD_CELLS:
            most //= 2
            choices = self._choices(most)
        while math.prod(map(len, choices)) > MOST_RECORD_CELLS:
            widest = int(np.argmax([len(c) for c in choices]))
            source = self.sources[widest]
            choices[widest] = [source.domain.bounds(source.row_shape)]
        return list(itertools.product(*choices))

    def _choices(self, most: int) -> list[list[Bounds]]:
        return [s.domain.cells(s.row_shape, s.is_whole, most) for s in self.sources]

    def trail(self, box: Mapping[str, Bounds]) -> Trail:
        """Bounds of every node for the whole domain, kept as an explanation."""
        whole: Record = tuple(s.domain.bounds(s.row_shape) for s in self.sources)
        return self._trail(box, [whole] * (self.n if self.graph.pinned else 2))

    def table(
        self, box: Mapping[str, Bounds], records: Sequence[Record] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of log p, shape (record cells, rows).

        Rows has length 1 unless something public makes rows differ.
        """
        if self.graph.windows:
            raise ValueError("factor rows that read several records have no table of one record")
        records = self.cells if records is None else records
        if not self.graph.pinned:
            # Always the number of rows for which rows were proved alike.
            padding = [records[-1]] * (STACKED - len(records))
            lower, upper = self._ends(self._trail(box, [*records, *padding]), STACKED)
            return lower[: len(records), None], upper[: len(records), None]
        ends = [self._ends(self._trail(box, [record] * self.n), self.n) for record in records]
        return np.stack([low for low, _ in ends]), np.stack([high for _, high in ends])

    def _trail(self, box: Mapping[str, Bounds], records: Sequence[Record]) -> Trail:
        self.effort.spend(len(records))
        return bounds([self.graph.record], self._given(box, records))

    def _ends(self, trail: Trail, count: int) -> tuple[np.ndarray, np.ndarray]:
        fact, shape = trail[self.graph.record], (count,)
        lower = np.broadcast_to(np.nan_to_num(fact.lower, nan=-np.inf, neginf=-np.inf), shape)
        upper = np.broadcast_to(np.nan_to_num(fact.upper, nan=np.inf, posinf=np.inf), shape)
        return lower, upper

    def _given(self, box: Mapping[str, Bounds], records: Sequence[Record]) -> dict:
        given = {self.graph.parameters[name]: b for name, b in box.items()}
        return given | self._stacked(records) | self._shared

    def _stacked(self, records: Sequence[Record]) -> dict[Variable, Bounds]:
        """The records as inputs of the graph; the same few lists come again and again."""
        key = tuple(map(id, records))
        if key in self._stacks:
            return self._stacks[key][1]
        data = {}
        for position, source in enumerate(self.sources):
            stacked = source.stack([record[position] for record in records])
            if source.is_whole and stacked.is_point:
                stacked = Bounds.point(stacked.lower.astype(source.dtype))
            data[self.graph.data[source.name]] = stacked
        if not self.graph.pinned:
            # The records are kept too: an id means nothing once its owner is gone.
            self._stacks[key] = (tuple(records), data)
        return data
