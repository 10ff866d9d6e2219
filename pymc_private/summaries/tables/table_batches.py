"""Batches of rows of a table, whatever engine holds it.

Columns come as NumPy arrays of one length. Engines that evaluate lazily are asked for one batch
after another, so that no more than a few batches are in memory: Polars (also lazy frames and
``scan_parquet``), DuckDB relations, PyArrow tables and datasets, pandas, Dask (a partition at a
time), Spark (rows to this process), and whatever else gives a stream of Arrow batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import narwhals as nw
import numpy as np

from pymc_private.errors import DomainError, nearest_names

ROWS = 65_536
"""Rows of a batch that is asked for; engines may give others."""
TABLES = "a table of pandas, Polars, PyArrow, DuckDB, Dask or Spark"
Batch = dict[str, np.ndarray]
"""Columns by name, one entry a row."""


def as_table(data: Any) -> Any:
    """A table as narwhals sees it; a dataset of PyArrow as it is.

    Raises
    ------
    DomainError
        No table, or one that narwhals does not know.
    """
    if _is_arrow_dataset(data):
        return data
    try:
        return nw.from_native(data)
    except TypeError as error:
        raise DomainError(
            "data= is no table that can be read", got=type(data).__name__, allowed=TABLES
        ) from error


def column_names(table: Any) -> list[str]:
    """Names of the columns of a table; reads no rows."""
    if _is_arrow_dataset(table):
        return list(table.schema.names)
    return list(table.collect_schema().names())


def require_columns(table: Any, wanted: Sequence[str]) -> None:
    """Refuse a table that lacks columns.

    Raises
    ------
    DomainError
        Names the nearest columns that there are.
    """
    known = column_names(table)
    missing = [name for name in wanted if name not in known]
    if not missing:
        return
    near = [nearest_names(name, known) for name in missing]
    raise DomainError(
        "the table lacks columns that the model reads; nothing was charged",
        got=f"no {', '.join(map(repr, missing))} among {', '.join(map(repr, known[:20]))}",
        allowed=", ".join(map(repr, wanted)),
        do="rename them in the table, or pass columns={'variable of the model': 'column'}"
        + (f"; {'; '.join(filter(None, near))}" if any(near) else ""),
    )


def read_batches(table: Any, columns: Sequence[str]) -> Iterator[Batch]:
    """The columns of all rows, a batch at a time; a lazy table is evaluated anew each time."""
    names = list(columns)
    if _is_arrow_dataset(table):
        yield from map(_of_arrow, table.to_batches(columns=names, batch_size=ROWS))
        return
    chosen = table.select(*names)
    if isinstance(chosen, nw.DataFrame):
        for start in range(0, len(chosen), ROWS):
            part = chosen[start : start + ROWS]
            yield {name: part.get_column(name).to_numpy() for name in names}
        return
    kind, native = chosen.implementation, chosen.to_native()
    if kind.is_polars():
        yield from _of_polars(native, names)
    elif kind.is_dask():
        for k in range(native.npartitions):
            part = native.partitions[k].compute()
            yield {name: part[name].to_numpy() for name in names}
    elif kind.is_pyspark():
        yield from _of_spark(native, names)
    else:
        yield from _of_reader(_arrow_reader(native))


def _is_arrow_dataset(data: Any) -> bool:
    """Whether it is a dataset of PyArrow, which narwhals does not know."""
    return (
        type(data).__module__.startswith("pyarrow")
        and hasattr(data, "to_batches")
        and hasattr(data, "scanner")
    )


def _of_polars(native: Any, names: Sequence[str]) -> Iterator[Batch]:
    """Batches of a lazy frame of Polars; of older ones all rows at once."""
    if hasattr(native, "collect_batches"):
        frames = native.collect_batches(chunk_size=ROWS, maintain_order=False)
    else:
        frames = native.collect(engine="streaming").iter_slices(ROWS)
    for frame in frames:
        yield {name: frame.get_column(name).to_numpy() for name in names}


def _of_spark(native: Any, names: Sequence[str]) -> Iterator[Batch]:
    """Batches of rows that Spark sends to this process, a partition after another."""
    rows = native.toLocalIterator(prefetchPartitions=True)
    while some := list(islice(rows, ROWS)):
        for_each = zip(*some, strict=True)
        yield {name: _as_array(values) for name, values in zip(names, for_each, strict=True)}


def _as_array(values: Sequence[Any]) -> np.ndarray:
    """Values of a column, None as NaN."""
    if any(v is None for v in values):
        return np.array([np.nan if v is None else v for v in values])
    return np.array(values)


def _arrow_reader(native: Any) -> Any:
    """A stream of Arrow batches of a DuckDB relation, or of what else gives one."""
    for method in ("to_arrow_reader", "fetch_record_batch"):
        if hasattr(native, method):
            return getattr(native, method)(ROWS)
    import pyarrow as pa

    return pa.RecordBatchReader.from_stream(native)


def _of_reader(reader: Any) -> Iterator[Batch]:
    """Batches of a stream, which is closed however reading ends."""
    try:
        yield from map(_of_arrow, reader)
    finally:
        reader.close()


def _of_arrow(batch: Any) -> Batch:
    """Columns of a batch of Arrow; nulls of numbers become NaN."""
    return {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
