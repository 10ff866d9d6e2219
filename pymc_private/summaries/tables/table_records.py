"""Records of a table, checked before a charge and read in chunks of one shape after it.

A small table is kept in memory as it was when it was checked. Of a larger one a lazy engine
evaluates all rows anew for each stage of a mechanism. Terms of records are integers whose sum does
not depend on the order of rows or the size of batches (T30), so all engines give the same sums, to
the bit. Each reading is compared with the first one, by the number of rows and a sum of
hashes of rows: a table that gives other rows the next time is refused before noise is released.

Dask and Spark check and add up on their workers (`cluster.py`): of large tables whose pilots read a
part, nothing but integer sums and the pilots' rows come to this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np

from pymc_private.counts.engine_errors import (
    UNREADABLE,
    batches_again,
    hide_quotes,
    read_again,
)
from pymc_private.errors import DomainError, Incompatible, Unrepeatable, Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.summaries.compiled_agreement import expect_rows
from pymc_private.summaries.exact_totals import Totals, added_totals
from pymc_private.summaries.noise import CHUNK
from pymc_private.summaries.protocol import RecordTable
from pymc_private.summaries.record_table import ArrayRecords
from pymc_private.summaries.tables.cluster import (
    CheckedPart,
    CheckPart,
    SummedPart,
    SumPart,
    TotalPart,
    results_of_workers,
    runs_on_workers,
    try_on_workers,
)
from pymc_private.summaries.tables.coins import Coins
from pymc_private.summaries.tables.column_sums import checked_batch, column_sums
from pymc_private.summaries.tables.table_batches import ROWS, Batch, Table
from pymc_private.summaries.tables.table_columns import COIN, SourceColumns
from pymc_private.summaries.tables.table_progress import Told
from pymc_private.summaries.tables.table_rows import (
    ChangedRows,
    Reading,
    RowReader,
    joined,
)
from pymc_private.summaries.weighted_sums import WeightedSums

MOST_KEPT = 2**24
"""Numbers of a table that is kept in memory."""


class TableRecords:
    """Records of a table in chunks (`protocol.RecordTable`).

    Parameters
    ----------
    private : PrivateModel
        Holds placeholder rows.
    table : Table
    columns : sequence of SourceColumns
    check_units : callable, optional
        Checks how many rows a unit owns.
    coins : Coins, optional
        Which rows are pilots (T37), of a mechanism that reads them apart.
    unit : str, optional
        The column of the units that are checked.
    """

    def __init__(
        self,
        private: PrivateModel,
        table: Table,
        columns: Sequence[SourceColumns],
        check_units: Callable[[], None] | None = None,
        coins: Coins | None = None,
        unit: str | None = None,
    ) -> None:
        self.private, self.table, self.unit = private, table, unit
        self.reader = RowReader(tuple(columns), coins)
        self._check_units, self._coins = check_units, coins
        self.told: Told | None = None
        self._kept: ArrayRecords | None = None
        self._pilots: ArrayRecords | None = None
        large = coins is not None or self.is_large
        self.reads_on_workers = large and runs_on_workers(table)

    @property
    def is_large(self) -> bool:
        """Whether so many rows, public or guessed, would not be kept."""
        return (self.private.table_rows or 0) * len(self.reader.read_names) > MOST_KEPT

    def __len__(self) -> int:
        """The number of records."""
        return self.first.rows

    def check(self, work: Any = None) -> None:
        """Read all rows once, and refuse what cannot be summarized (see `first`).

        `work`, of `sum_up`, is tried on no rows as workers would do it.

        Raises
        ------
        Unsupported
            It cannot be sent to workers.
        """
        if work is not None and self.reads_on_workers:
            try_on_workers(TotalPart(self.reader, work, 1))
        self.__dict__.pop("first", None)
        self._kept = None
        len(self)

    @cached_property
    def first(self) -> Reading:
        """The first reading of all rows, which checks them.

        Raises
        ------
        DomainError
            Missing or infinite values, other types, a category that was not declared, another
            number of rows than is public, a unit with more rows than was declared.
        Incompatible
            Workers that compute otherwise than this process.
        """
        expect_rows(self.private.table_rows or 0)
        self.check_units()
        check = self._checked_on_workers if self.reads_on_workers else self._checked_here
        found = hide_quotes(check, *UNREADABLE)
        self._refuse_other_count(found.rows)
        return found

    def check_units(self) -> None:
        """Refuse a unit with more rows than was declared."""
        if self._check_units is not None:
            self._check_units()

    def count_no_units(self) -> None:
        """Leave it to other records of the same table to count rows of units."""
        self._check_units = None

    def checked_with(self, found: FirstReading) -> None:
        """Take a first reading that was made together with others."""
        self._refuse_other_count(found.reading.rows)
        self.__dict__["first"] = self._keep(found)

    def _checked_here(self) -> Reading:
        """Check all rows, and keep the pilots, and all of a small table."""
        found = FirstReading(self.reader, not self.is_large)
        for given in self.table.batches(self.reader.read_names):
            found.take(given)
            self.tell(found.reading.rows)
        return self._keep(found)

    def _keep(self, found: FirstReading) -> Reading:
        """Keep what the first reading kept."""
        self._kept = ArrayRecords(joined(found.kept)) if found.kept else None
        self._pilots = ArrayRecords(joined(found.pilots)) if found.pilots else None
        return found.reading

    def _checked_on_workers(self) -> Reading:
        """The same by the workers; what is refused was found by the first of them that did."""
        parts: list[CheckedPart] = self._on_workers(CheckPart(self.reader))
        pilots = [part.pilots for part in parts if part.pilots]
        self._pilots = ArrayRecords(joined(pilots)) if pilots else None
        return reduce(add, (part.reading for part in parts), Reading())

    def _on_workers(self, work: Any) -> list[Any]:
        """Results of all parts; of a table without parts that of no rows."""
        names = self.reader.read_names
        return results_of_workers(self.table, names, work, self.told) or [work(())]

    def tell(self, rows: int) -> None:
        """Tell whoever asked that so many rows of this reading are done."""
        known = self.__dict__.get("first")
        most = max(rows, known.rows if known else self.private.table_rows or 0)
        if self.told is not None and most > ROWS:  # else it is one batch
            self.told(rows / most)

    def chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """As of `protocol.RecordTable`, clipped to the domain.

        Raises
        ------
        Unrepeatable
            The table gave other rows than the first time, or its engine failed.
        """
        for chunk, count in self._all_chunks(size):
            chunk.pop(COIN, None)
            yield chunk, count

    def with_coins(
        self, size: int, threshold: int
    ) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray, int]]:
        """As of `protocol.RecordTable`; see `chunks`."""
        self._require_coins(threshold)
        for chunk, count in self._all_chunks(size):
            coins = chunk.pop(COIN)
            yield chunk, coins, count

    def add_up(self, terms: Any, sums: WeightedSums, size: int, threshold: int) -> WeightedSums:
        """As of `protocol.RecordTable`: here, or on the workers of a cluster."""
        if not self.reads_on_workers:
            return self._added_here(terms, sums, size, threshold)
        self._require_coins(threshold)
        first = self.first
        work = SumPart(self.reader, terms, sums, size)
        parts: list[SummedPart] = read_again(lambda: self._on_workers(work))
        if reduce(add, (part.reading for part in parts), Reading()) != first:
            raise _changed()
        return reduce(WeightedSums.merged, (part.sums for part in parts), sums)

    def _added_here(
        self, terms: Any, sums: WeightedSums, size: int, threshold: int
    ) -> WeightedSums:
        """By loops that read columns, if there are such; else of records."""
        self._require_coins(threshold)
        first, work = self.first, column_sums(self.reader, terms, sums)
        if work is None or self._kept is not None:
            return sums.added(self.with_coins(size, threshold), terms)
        reading, found = work.added(self._batches_again(), self.tell)
        if reading != first:
            raise _changed()
        return found

    def sum_up(self, work: Any, size: int) -> Totals:
        """As of `protocol.RecordTable`: here, or on the workers of a cluster."""
        first = self.first
        if not self.reads_on_workers:
            return added_totals(work(chunk, count) for chunk, count in self.chunks(size))
        made = TotalPart(self.reader, work, size)
        parts: list[SummedPart] = read_again(lambda: self._on_workers(made))
        if reduce(add, (part.reading for part in parts), Reading()) != first:
            raise _changed()
        return added_totals(part.sums for part in parts)

    def pilots(self, threshold: int) -> RecordTable:
        """As of `protocol.RecordTable`; they were kept when the table was checked."""
        self._require_coins(threshold)
        len(self)
        arrays = self.reader.empty(0) if self._pilots is None else self._pilots.arrays
        return ArrayRecords({name: v for name, v in arrays.items() if name != COIN})

    def _require_coins(self, threshold: int) -> None:
        if self._coins is None or self._coins.threshold != threshold:
            raise Incompatible(
                "the table was checked for another share of pilots",
                got="a plan with another share",
                allowed="the plan that the table was checked for",
                do="give the table itself, which is checked anew",
            )

    def _all_chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Chunks with coins, if there are any."""
        done = 0
        for chunk, count in self._chunks_of(size):
            yield chunk, count
            done += count
            self.tell(done)

    def _chunks_of(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Those of a table that was kept, or read again."""
        first = self.first
        if self._kept is not None:
            yield from self._kept.chunks(size)
            return
        try:
            for chunk, count, _ in self.reader.chunks(self._batches_again(), size, first):
                yield chunk, count
        except ChangedRows:
            raise _changed() from None

    def _batches_again(self) -> Iterator[Batch]:
        """Batches of a later reading."""
        return batches_again(lambda: self.table.batches(self.reader.read_names))

    def chunk_size(self, relation: str, large: int = CHUNK) -> int:
        """By public numbers alone: engines may give a neighbor's rows in another order."""
        return large if (self.private.table_rows or 0) >= large else CHUNK

    def beside(self, rows: Mapping[str, np.ndarray]) -> TableRecords:
        """The same records; public arrays with a row for each record are refused."""
        if rows:
            raise Unsupported(
                "public variables with an entry for each record do not lie in the table",
                got=", ".join(rows),
                do="declare a domain for them, and have them as columns",
            )
        return self

    def _refuse_other_count(self, rows: int) -> None:
        """Refuse another number of rows than the public one."""
        stated = self.private.table_rows
        if self.private.neighbors == SUBSTITUTE and rows != stated:
            raise DomainError(
                "the table has another number of rows than was declared; nothing was charged",
                got=f"{rows} rows",
                allowed=f"{stated}, as privatize(..., n={stated}) says: it is public",
                do=f"if their number is public: privatize(..., n={rows}), and calibrate anew; else "
                "neighbors='add_remove'"
                if rows
                else "look at what the table selects: it has no rows",
            )


class FirstReading:
    """What the first reading of a table gives: it checks rows, and keeps pilots and small tables.

    Attributes
    ----------
    reading : Reading
    kept : list of batches of records, or None
        All rows, unless they are too many, or will be.
    pilots : list of batches of records
    """

    def __init__(self, reader: RowReader, keep: bool = True) -> None:
        self.reader, self.reading = reader, Reading()
        self.kept: list[dict[str, np.ndarray]] | None = [] if keep else None
        self.pilots: list[dict[str, np.ndarray]] = []

    def take(self, given: dict[str, np.ndarray]) -> None:
        """Read a batch, which may have further columns."""
        first = not self.reading.rows
        if self.kept is None:  # no records are needed but those of pilots
            reading, chosen = checked_batch(self.reader, given, first)
            self.reading += reading
            self.pilots += [] if chosen is None else [chosen]
            return
        batch = self.reader.checked(given, first)
        self.reading += self.reader.read_of(batch)
        chosen = self.reader.pilots(batch)
        self.pilots += [] if chosen is None else [chosen]
        if self.kept is None or self.reading.rows * len(batch) > MOST_KEPT:
            self.kept = None
        else:
            self.kept.append(self.reader.records(batch))


def check_together(tables: Sequence[TableRecords]) -> None:
    """Check what several models read of one table: here in one reading, the same rows for all.

    Raises
    ------
    DomainError, Incompatible
        As `TableRecords.first`.
    """
    if any(one.reads_on_workers for one in tables):
        for one in tables:
            one.check()
        return
    for one in tables:
        expect_rows(one.private.table_rows or 0)
        one.check_units()
    found = [FirstReading(one.reader, not one.is_large) for one in tables]
    names = dict.fromkeys(name for one in tables for name in one.reader.read_names)

    def read() -> None:
        for given in tables[0].table.batches(list(names)):
            for each in found:
                each.take(given)
            tables[0].tell(found[0].reading.rows)

    hide_quotes(read, *UNREADABLE)
    for one, each in zip(tables, found, strict=True):
        one.checked_with(each)


def _changed() -> Unrepeatable:
    return Unrepeatable(
        "the table gave other rows than the first time it was read",
        got="another number of rows, or other values",
        allowed="a table that does not change while it is summarized",
        do="write it to a file, or collect it, and give that",
    )
