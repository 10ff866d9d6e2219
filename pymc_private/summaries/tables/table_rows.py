"""Rows of a table as records of a model: checked, counted, clipped, in chunks of one shape.

What is here goes to workers of a cluster, too: it holds no data, and reads batches it is given.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.models.data_clipping import clipped_records
from pymc_private.models.domains import Ball, Interval
from pymc_private.summaries.tables.coins import Coins, folded
from pymc_private.summaries.tables.mixing import mixed
from pymc_private.summaries.tables.table_batches import Batch
from pymc_private.summaries.tables.table_columns import (
    COIN,
    SourceColumns,
    as_numbers,
    check_numbers,
)


@dataclass(frozen=True)
class Reading:
    """What one reading of a table gave: private, and compared with the next.

    Attributes
    ----------
    rows : int
    digest : int
        Sum of a hash of each row's doubles modulo 2^64, whatever the order of rows. Each bit of it
        depends on the whole row: else values that two rows interchange may leave the sum as it was.
        The number that its coin comes from takes the place of what that is made of.
    """

    rows: int = 0
    digest: int = 0

    def __add__(self, other: Reading) -> Reading:
        """That of two parts of a table."""
        return Reading(self.rows + other.rows, (self.digest + other.digest) % 2**64)


@dataclass(frozen=True, eq=False)
class RowReader:
    """How rows become records.

    Attributes
    ----------
    columns : tuple of SourceColumns
    coins : Coins or None
        Which rows are pilots (T37), of a mechanism that reads them apart.
    """

    columns: tuple[SourceColumns, ...]
    coins: Coins | None = None

    @cached_property
    def names(self) -> list[str]:
        """Columns that hold private variables."""
        return list(dict.fromkeys(name for c in self.columns for name in c.names))

    @cached_property
    def read_names(self) -> list[str]:
        """All columns that are read."""
        return list(dict.fromkeys([*self.names, *(self.coins.columns if self.coins else ())]))

    def checked(self, given: Batch, first: bool) -> Batch:
        """A batch as doubles, refused if it cannot be summarized.

        `first`: whether it is the first batch.

        Raises
        ------
        DomainError
            Missing or infinite values, other types, a category that was not declared, rows without
            a unit.
        """
        for name in self.names:
            check_numbers(np.asarray(given[name]), name, name in self.whole_names)
        batch = self.numbers(given)
        self.check_domain(batch)
        if self.coins is not None:
            self.coins.check(given, batch[COIN], first)
        return batch

    @cached_property
    def whole_names(self) -> set[str]:
        """Columns of variables that are integers."""
        return {name for c in self.columns if c.source.is_whole for name in c.names}

    def numbers(self, batch: Batch) -> Batch:
        """A batch as doubles, with the number of each row that its coin comes from."""
        found = {name: as_numbers(np.asarray(batch[name])) for name in self.names}
        return found if self.coins is None else found | {COIN: self.coins.numbers(batch)}

    @cached_property
    def hashed_names(self) -> list[str]:
        """Columns that numbers of coins are not made of."""
        return [n for n in self.names if self.coins is None or n not in self.coins.columns]

    def read_of(self, batch: Batch) -> Reading:
        """The number of rows of a batch, as `numbers` gives it, and the sum of their hashes."""
        size = len(batch[self.names[0]])
        start = np.zeros(size, dtype=np.uint64) if self.coins is None else batch[COIN]
        hashes = mixed(folded(start, (batch[name] for name in self.hashed_names)))
        return Reading(size, int(hashes.sum(dtype=np.uint64)))

    def pilots(self, batch: Batch) -> Batch | None:
        """Its records that are pilots."""
        if self.coins is None:
            return None
        chosen = self.coins.below(batch[COIN])
        return self.records({name: values[chosen] for name, values in batch.items()})

    def records(self, columns: Batch) -> Batch:
        """Arrays of the model's types by name of the variable, inside the domain; and coins."""
        if not len(columns[self.names[0]]):
            return self.empty(0)
        found = {c.source.name: clipped_records(c.source, c.rows(columns)) for c in self.columns}
        if self.coins is not None:
            found[COIN] = self.coins.below(columns[COIN])
        return found

    def chunks(
        self, batches: Iterable[Batch], size: int, expected: Reading | None = None
    ) -> Iterator[tuple[Batch, int, Reading]]:
        """Records in chunks of `size`, with their number of true rows and what was read so far.

        With an `expected` reading the last chunk is given only if the batches were those.
        """
        reading, waiting = Reading(), list[Batch]()
        for given in batches:
            batch = self.numbers(given)
            reading += self.read_of(batch)
            waiting.append(batch)
            if sum(len(part[self.names[0]]) for part in waiting) < size:
                continue
            whole = joined(waiting)
            count = len(whole[self.names[0]])
            for start in range(0, count - size + 1, size):
                chunk = {k: v[start : start + size] for k, v in whole.items()}
                yield self.records(chunk), size, reading
            left = count % size
            waiting = [{k: v[count - left :] for k, v in whole.items()}] if left else []
        if expected is not None and reading != expected:
            raise ChangedRows
        if waiting or not reading.rows:
            yield *self._last(joined(waiting) if waiting else {}, size), reading

    def empty(self, size: int) -> Batch:
        """Records of no rows, filled up with zeros."""
        sources = [c.source for c in self.columns]
        found = {s.name: np.zeros((size, *s.row_shape), s.dtype) for s in sources}
        return found | ({} if self.coins is None else {COIN: np.zeros(size, dtype=bool)})

    def _last(self, columns: Batch, size: int) -> tuple[Batch, int]:
        """The last rows, filled up to the size of a chunk with copies of one of them."""
        count = len(columns[self.names[0]]) if columns else 0
        if not count:
            return self.empty(size), 0
        index = np.minimum(np.arange(size), count - 1)
        return self.records({name: v[index] for name, v in columns.items()}), count

    def check_domain(self, batch: Batch) -> None:
        """Refuse what no clip mends: a category that was not declared, a row of another total."""
        for c in self.columns:
            if isinstance(c.source.domain, Interval | Ball) or not len(batch[self.names[0]]):
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


class ChangedRows(Exception):
    """A table gave other rows than the first time."""


def joined(parts: Sequence[Batch]) -> Batch:
    """Batches one after another."""
    if len(parts) == 1:
        return parts[0]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
