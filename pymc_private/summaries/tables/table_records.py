"""Records of a table, checked before a charge and read in chunks of one shape after it.

A small table is kept in memory as it was when it was checked. Of a larger one a lazy engine
evaluates all rows anew for each stage of a mechanism. Terms of records are integers whose sum does
not depend on the order of rows or the size of batches (T30), so all engines give the same sums, to
the bit. Each reading is compared with the first one, by the number of rows and a sum of
hashes of rows: a table that gives other rows the next time is refused before noise is released.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.models.data_clipping import clipped_records
from pymc_private.models.domains import Ball, Interval
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.summaries.noise import CHUNK
from pymc_private.summaries.protocol import RecordTable
from pymc_private.summaries.record_table import COIN, ArrayRecords
from pymc_private.summaries.tables.coins import Coins
from pymc_private.summaries.tables.table_batches import Batch, Table
from pymc_private.summaries.tables.table_columns import SourceColumns, as_numbers, check_numbers

MOST_KEPT = 2**24
"""Numbers of a table that is kept in memory."""
MIXER = np.uint64(0x9E3779B97F4A7C15)
"""An odd number by which bits of a row are mixed."""


@dataclass(frozen=True)
class Reading:
    """What one reading of a table gave: private, and compared with the next.

    Attributes
    ----------
    rows : int
    digest : int
        Sum of a hash of each row's doubles modulo 2^64, whatever the order of rows.
    """

    rows: int
    digest: int


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
    """

    def __init__(
        self,
        private: PrivateModel,
        table: Table,
        columns: Sequence[SourceColumns],
        check_units: Callable[[], None] | None = None,
        coins: Coins | None = None,
    ) -> None:
        self.private, self.table, self.columns = private, table, tuple(columns)
        self._check_units, self._coins = check_units, coins
        self._kept: ArrayRecords | None = None
        self._pilots: ArrayRecords | None = None
        self.names = list(dict.fromkeys(name for c in columns for name in c.names))
        self.read_names = list(dict.fromkeys([*self.names, *(coins.columns if coins else ())]))
        whole = {name for c in columns if c.source.is_whole for name in c.names}
        self._is_whole = {name: name in whole for name in self.names}

    def __len__(self) -> int:
        """The number of records."""
        return self.first.rows

    def check(self) -> None:
        """Read all rows once, and refuse what cannot be summarized (see `first`)."""
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
        """
        if self._check_units is not None:
            self._check_units()
        rows, digest = 0, 0
        kept: list[dict[str, np.ndarray]] | None = []
        pilots: list[dict[str, np.ndarray]] = []
        for given in self.table.batches(self.read_names):
            for name in self.names:
                check_numbers(np.asarray(given[name]), name, self._is_whole[name])
            batch = self._numbers(given)
            self._check_domain(batch)
            if self._coins is not None:
                self._coins.check(given, batch[COIN], first=not rows)
                pilots.append(self._chunk(_chosen(batch, self._coins.below(batch[COIN]))))
            rows, digest = _counted(rows, digest, batch)
            small = rows * len(batch) <= MOST_KEPT
            kept = [*kept, self._chunk(batch)] if small and kept is not None else None
        self._refuse_other_count(rows)
        if kept:
            self._kept = ArrayRecords(_joined(kept))
        self._pilots = ArrayRecords(_joined(pilots)) if pilots else None
        return Reading(rows, digest)

    def chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """As of `protocol.RecordTable`, clipped to the domain.

        Raises
        ------
        Incompatible
            The table gave other rows than the first time.
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

    def pilots(self, threshold: int) -> RecordTable:
        """As of `protocol.RecordTable`; they were kept when the table was checked."""
        self._require_coins(threshold)
        len(self)
        if self._pilots is None:
            arrays, _ = self._last({}, 0)
            return ArrayRecords({name: v for name, v in arrays.items() if name != COIN})
        return ArrayRecords({k: v for k, v in self._pilots.arrays.items() if k != COIN})

    def _require_coins(self, threshold: int) -> None:
        if self._coins is None or self._coins.threshold != threshold:
            raise Incompatible("the table was checked for another share of pilots")

    def _all_chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """Chunks with coins, if there are any."""
        first, rows, digest = self.first, 0, 0
        if self._kept is not None:
            yield from self._kept.chunks(size)
            return
        waiting: list[Batch] = []
        for given in self.table.batches(self.read_names):
            batch = self._numbers(given)
            rows, digest = _counted(rows, digest, batch)
            waiting.append(batch)
            if sum(len(part[self.names[0]]) for part in waiting) < size:
                continue
            whole = _joined(waiting)
            count = len(whole[self.names[0]])
            for start in range(0, count - size + 1, size):
                yield self._chunk({k: v[start : start + size] for k, v in whole.items()}), size
            left = count % size
            waiting = [{k: v[count - left :] for k, v in whole.items()}] if left else []
        if Reading(rows, digest) != first:
            raise Incompatible(
                "the table gave other rows than the first time it was read; nothing was released",
                got="another number of rows, or other values",
                allowed="a table that does not change while it is summarized",
                do="write it to a file, or collect it, and summarize that",
            )
        if waiting or not rows:
            yield self._last(_joined(waiting) if waiting else {}, size)

    def chunk_size(self, relation: str) -> int:
        """The same for all tables: engines may give a neighbor's rows in another order."""
        return CHUNK

    def beside(self, rows: Mapping[str, np.ndarray]) -> TableRecords:
        """The same records; public arrays with a row for each record are refused."""
        if rows:
            raise Unsupported(
                "public variables with an entry for each record do not lie in the table",
                got=", ".join(rows),
                do="declare a domain for them, and have them as columns",
            )
        return self

    def _last(self, columns: Batch, size: int) -> tuple[dict[str, np.ndarray], int]:
        """The last rows, filled up to the size of a chunk with copies of one of them."""
        if not columns:
            sources = [c.source for c in self.columns]
            empty = {s.name: np.zeros((size, *s.row_shape), s.dtype) for s in sources}
            return empty | {COIN: np.zeros(size, dtype=bool)}, 0
        count = len(columns[self.names[0]])
        index = np.minimum(np.arange(size), count - 1)
        return self._chunk({name: v[index] for name, v in columns.items()}), count

    def _chunk(self, columns: Batch) -> dict[str, np.ndarray]:
        """Arrays of the model's types by name of the variable, inside the domain; and coins."""
        found = {c.source.name: clipped_records(c.source, c.rows(columns)) for c in self.columns}
        if self._coins is not None:
            found[COIN] = self._coins.below(columns[COIN])
        return found

    def _numbers(self, batch: Batch) -> Batch:
        """A batch as doubles, with the number of each row that its coin comes from."""
        found = {name: as_numbers(np.asarray(batch[name])) for name in self.names}
        return found if self._coins is None else found | {COIN: self._coins.numbers(batch)}

    def _check_domain(self, batch: Batch) -> None:
        """Refuse what no clip mends: a category that was not declared, a row of another total."""
        for c in self.columns:
            if isinstance(c.source.domain, Interval | Ball):
                continue
            try:
                c.source.domain.clip(c.rows(batch), 0)
            except DomainError as error:
                raise DomainError(
                    f"{', '.join(map(repr, c.names))}: {error.problem}; nothing was charged",
                    got=error.got,
                    allowed=error.allowed,
                    do=error.do,
                ) from None

    def _refuse_other_count(self, rows: int) -> None:
        """Refuse another number of rows than the public one."""
        stated = self.private.table_rows
        if self.private.neighbors == SUBSTITUTE and rows != stated:
            raise DomainError(
                "the table has another number of rows than was declared; nothing was charged",
                got=f"{rows} rows",
                allowed=f"{stated}, as privatize(..., n={stated}) says: it is public",
                do=f"if their number is public: privatize(..., n={rows}), and calibrate anew; else "
                "neighbors='add_remove'",
            )


def _counted(rows: int, digest: int, batch: Batch) -> tuple[int, int]:
    """The number of rows and the sum of their hashes with those of one more batch."""
    count = len(next(iter(batch.values())))
    found = np.zeros(count, dtype=np.uint64)
    for values in batch.values():  # as splitmix64 does (Steele, Lea and Flood 2014), by columns
        found = (found ^ values.view(np.uint64)) * MIXER
        found ^= found >> np.uint64(31)
    return rows + count, (digest + int((found * MIXER).sum(dtype=np.uint64))) % 2**64


def _chosen(batch: Batch, rows: np.ndarray) -> Batch:
    """Some rows of a batch."""
    return {name: values[rows] for name, values in batch.items()}


def _joined(parts: Sequence[Batch]) -> Batch:
    """Batches one after another."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
