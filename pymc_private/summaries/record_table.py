"""Records in memory as a table that is read in chunks (`protocol.RecordTable`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pymc_private.summaries.noise import chunk_size, chunks_of
from pymc_private.summaries.protocol import Records, RecordTable


@dataclass(frozen=True, eq=False)
class ArrayRecords:
    """Records in arrays.

    Attributes
    ----------
    arrays : mapping of str to array
        By name of the source, records along the first axis.
    """

    arrays: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        """The number of records."""
        return len(next(iter(self.arrays.values())))

    def chunks(self, size: int) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        """As of `protocol.RecordTable`."""
        return chunks_of(self.arrays, len(self), size)

    def chunk_size(self, relation: str) -> int:
        """As of `protocol.RecordTable`: n where neighbors leave other records in place."""
        return chunk_size(len(self), relation)

    def beside(self, rows: Mapping[str, np.ndarray]) -> ArrayRecords:
        """As of `protocol.RecordTable`."""
        return ArrayRecords({**self.arrays, **rows}) if rows else self


def as_record_table(records: Records) -> RecordTable:
    """Records as a table."""
    return ArrayRecords(records) if isinstance(records, Mapping) else records
