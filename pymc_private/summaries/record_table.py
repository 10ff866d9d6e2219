"""Records in memory as a table that is read in chunks (`protocol.RecordTable`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.summaries.exact_totals import Totals, added_totals
from pymc_private.summaries.noise import CHUNK, chunk_size, chunks_of
from pymc_private.summaries.protocol import Records, RecordTable
from pymc_private.summaries.tables.coins import place_coins
from pymc_private.summaries.tables.table_columns import COIN
from pymc_private.summaries.weighted_sums import WeightedSums


@dataclass(frozen=True, eq=False)
class ArrayRecords:
    """Records in arrays.

    Attributes
    ----------
    arrays : mapping of str to array
        By name of the source, records along the first axis.
    coins : array of bool, optional
        Which records are pilots (T37): the operating system's choice before a charged release.
        Default: by their places, for records that are made up.
    """

    arrays: Mapping[str, np.ndarray]
    coins: np.ndarray | None = None

    def __len__(self) -> int:
        """The number of records."""
        return len(next(iter(self.arrays.values())))

    def chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """As of `protocol.RecordTable`."""
        return chunks_of(self.arrays, len(self), size)

    def chunk_size(self, relation: str, large: int = CHUNK) -> int:
        """As of `protocol.RecordTable`: n where neighbors leave other records in place."""
        return chunk_size(len(self), relation, large)

    def pilots(self, threshold: int) -> ArrayRecords:
        """As of `protocol.RecordTable`."""
        chosen = np.flatnonzero(self._coins(threshold))
        return ArrayRecords({name: np.asarray(v)[chosen] for name, v in self.arrays.items()})

    def with_coins(
        self, size: int, threshold: int
    ) -> Iterator[tuple[dict[str, np.ndarray], np.ndarray, int]]:
        """As of `protocol.RecordTable`."""
        beside = ArrayRecords({**self.arrays, COIN: self._coins(threshold)})
        for chunk, count in beside.chunks(size):
            coins = chunk.pop(COIN)
            yield chunk, coins, count

    def add_up(self, terms: Any, sums: WeightedSums, size: int, threshold: int) -> WeightedSums:
        """As of `protocol.RecordTable`."""
        return sums.added(self.with_coins(size, threshold), terms)

    def sum_up(self, work: Any, size: int) -> Totals:
        """As of `protocol.RecordTable`."""
        return added_totals(work(chunk, count) for chunk, count in self.chunks(size))

    def _coins(self, threshold: int) -> np.ndarray:
        """Coins of the records."""
        if self.coins is not None:
            return self.coins
        if COIN in self.arrays:
            return np.asarray(self.arrays[COIN])
        return place_coins(len(self), threshold)

    def beside(self, rows: Mapping[str, np.ndarray]) -> ArrayRecords:
        """As of `protocol.RecordTable`."""
        return ArrayRecords({**self.arrays, **rows}, self.coins) if rows else self


def as_record_table(records: Records) -> RecordTable:
    """Records as a table."""
    return ArrayRecords(records) if isinstance(records, Mapping) else records
