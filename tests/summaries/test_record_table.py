"""Records in memory as a table."""

from __future__ import annotations

import numpy as np

from pymc_private.summaries.noise import CHUNK
from pymc_private.summaries.record_table import ArrayRecords, as_record_table


def test_arrays_come_in_chunks_with_public_rows_beside():
    records = as_record_table({"x": np.arange(5.0)})
    assert len(records) == 5
    assert as_record_table(records) is records
    assert records.beside({}) is records
    assert records.chunk_size("substitute") == 5
    assert records.chunk_size("add_remove") == CHUNK
    both = records.beside({"w": 10 * np.arange(5.0)})
    assert isinstance(both, ArrayRecords)
    chunks = [(rows["x"].tolist(), rows["w"].tolist(), count) for rows, count in both.chunks(3)]
    assert chunks == [([0, 1, 2], [0, 10, 20], 3), ([3, 4, 3], [30, 40, 30], 2)]


def test_pilots_in_memory_are_the_records_that_were_drawn():
    coins = np.array([True, False, True, False, False])
    records = ArrayRecords({"x": np.arange(5.0)}, coins).beside({"w": 10 * np.arange(5.0)})
    assert records.pilots(9).arrays["x"].tolist() == [0, 2]
    assert records.pilots(9).arrays["w"].tolist() == [0, 20]
    ((chunk, light, count),) = records.with_coins(5, 9)
    assert light.tolist() == coins.tolist()
    assert set(chunk) == {"x", "w"}
    assert count == 5
    assert all(set(rows) == {"x", "w"} for rows, _ in records.chunks(3))
