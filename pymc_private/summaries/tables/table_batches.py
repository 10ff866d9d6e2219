"""Tables of any engine: names of columns, and batches of rows.

Columns come as NumPy arrays of one length. Engines that evaluate lazily are asked for one batch
after another, so that no more than a few batches are in memory: Polars (also lazy frames and
``scan_parquet``), DuckDB relations, PyArrow tables and datasets, pandas, Dask and Spark (a
partition at a time), and whatever else narwhals knows that gives a stream of Arrow batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Protocol

import numpy as np

from pymc_private.counts.engine_errors import UNREADABLE, hide_quotes, refuse_names_twice
from pymc_private.errors import DomainError, Unsupported, nearest_names
from pymc_private.summaries.tables.table_progress import Told, collected, computed
from pymc_private.summaries.tables.table_texts import Texts

ROWS = 65_536
"""Rows of a batch that is asked for; engines may give others."""
TABLES = "a table of pandas, Polars, PyArrow, DuckDB, Dask or Spark"
TEXT_TYPES = ("String", "str", "string")
"""Names of the types of text, of narwhals, Polars and pandas."""
DOUBLES_OF_SPARK = ("tinyint", "smallint", "int", "float", "double")
"""Spark's types of numbers that are all doubles; wider integers are looked at before."""
Batch = dict[str, Any]
"""Columns by name, one entry a row: arrays of NumPy, and `Texts`."""
PartFunction = Callable[[bytes, Iterable[Batch]], bytes]
"""What runs on workers: pickled work and the batches of a partition to a pickled result."""


class Table(Protocol):
    """A table of some engine."""

    @property
    def names(self) -> list[str]:
        """Names of its columns; reads no rows."""

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """The columns of all rows, a batch at a time; a lazy table is evaluated anew each time."""


def as_table(data: Any) -> Table:
    """A table of any engine.

    Raises
    ------
    DomainError
        No table, a stream, or a table of an engine that narwhals does not know; two columns of one
        name; an engine that fails.
    Unsupported
        A relation of DuckDB, without PyArrow.
    """
    module = type(data).__module__
    refuse_names_twice(data)
    if module.startswith("pyarrow") and hasattr(data, "scanner"):
        return ArrowDataset(data)
    if module.startswith("dask") and hasattr(data, "npartitions"):
        return DaskTable(data)
    if module.startswith(("duckdb", "_duckdb")) and not find_spec("pyarrow"):
        raise Unsupported(
            "rows of DuckDB come by PyArrow, which is not installed; nothing was charged",
            got="a relation of DuckDB",
            do="pip install pyarrow, which pymc-private[duckdb] brings",
        )
    if module.startswith("pyarrow") and hasattr(data, "read_next_batch"):
        raise DomainError(
            "a table is read more than once, and a stream is not; nothing was charged",
            got=type(data).__name__,
            allowed=TABLES,
            do="write it to Parquet files, or data=reader.read_all() where it fits the memory",
        )
    frame = hide_quotes(partial(_known_frame, data), *UNREADABLE)
    if frame is None:
        raise DomainError(
            "data= is no table that can be read", got=type(data).__name__, allowed=TABLES
        )
    return (SparkTable if frame.implementation.is_pyspark() else EngineTable)(frame)


def _known_frame(data: Any) -> Any:
    """A frame of narwhals; None of what it does not know."""
    import narwhals as nw

    try:
        return nw.from_native(data)
    except TypeError:
        return None


def require_columns(table: Table, wanted: Sequence[str]) -> None:
    """Refuse a table that lacks columns.

    Raises
    ------
    DomainError
        Names the nearest columns that there are; or the engine failed.
    """
    known = hide_quotes(lambda: table.names, *UNREADABLE)
    missing = [name for name in wanted if name not in known]
    if not missing:
        return
    near = filter(None, (nearest_names(name, map(str, known)) for name in missing))
    raise DomainError(
        "the table lacks columns that the model reads; nothing was charged",
        got=f"no {', '.join(map(repr, missing))} among {', '.join(map(repr, known[:20]))}",
        allowed=", ".join(map(repr, wanted)),
        do="; ".join((
            "rename them in the table, or pass columns={'variable of the model': 'column'}", *near
        )),
    )  # fmt: skip


@dataclass(frozen=True)
class EngineTable:
    """A table of an engine that narwhals knows."""

    frame: Any

    @property
    def names(self) -> list[str]:
        """As of `Table`."""
        return list(self.frame.collect_schema().names())

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """As of `Table`."""
        chosen = self.frame.select(*columns)
        if not hasattr(chosen, "collect"):  # in memory
            return _of_frame(chosen, columns)
        kind, native = chosen.implementation, chosen.to_native()
        if kind.is_polars():
            return _of_polars(native, columns)
        return _of_reader(_arrow_reader(native))


class SparkTable(EngineTable):
    """A data frame of Spark."""

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """As of `Table`: batches of Arrow, as bytes, a partition after another."""

        def as_bytes(batches: Iterable[Any]) -> Iterator[Any]:
            pyarrow, ipc = import_module("pyarrow"), import_module("pyarrow.ipc")
            for batch in batches:
                sink = pyarrow.BufferOutputStream()
                with ipc.new_stream(sink, batch.schema) as stream:
                    stream.write_batch(batch)
                found = sink.getvalue().to_pybytes()
                yield pyarrow.RecordBatch.from_pydict({"found": [found]})

        native = self.frame.select(*columns).to_native().mapInArrow(as_bytes, "found binary")
        open_stream = import_module("pyarrow.ipc").open_stream
        for row in native.toLocalIterator(prefetchPartitions=True):
            yield from map(_of_arrow, open_stream(bytes(row[0])))

    def on_workers(
        self, columns: Sequence[str], work: bytes, run: PartFunction, told: Told | None = None
    ) -> list[bytes]:
        """What `run` gives of work and each partition, computed where that lies."""
        native = self.frame.select(*columns).to_native()
        numbers, others = _numbers_and_others(native.dtypes)
        columns_of = partial(_of_others_and_array, tuple(others), tuple(numbers))

        def on_partition(batches: Iterable[Any]) -> Iterator[Any]:
            pyarrow = import_module("pyarrow")
            found = run(work, map(columns_of, batches))
            yield pyarrow.RecordBatch.from_pydict({"found": [found]})

        handed = _others_and_array(native, others, numbers)
        rows = collected(handed.mapInArrow(on_partition, "found binary"), told)
        return [bytes(row[0]) for row in rows]


def _numbers_and_others(types: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
    """Columns of Spark whose numbers are doubles without loss, and the others."""
    given = dict(types)
    numbers = [name for name, kind in given.items() if kind in DOUBLES_OF_SPARK]
    return numbers, [name for name in given if name not in numbers]


def _others_and_array(native: Any, others: Sequence[str], numbers: Sequence[str]) -> Any:
    """A frame of Spark in which the numbers of each row are one array, behind the other columns.

    Spark hands rows to Python entry by entry, and arrays in two thirds of the time of columns.
    """
    functions = import_module("pyspark.sql.functions")

    def column(name: str) -> Any:
        return functions.col("`" + name.replace("`", "``") + "`")

    chosen = [column(name).alias(f"other{k}") for k, name in enumerate(others)]
    if numbers:
        array = functions.array(*(column(name).cast("double") for name in numbers))
        chosen.append(array.alias("numbers"))
    return native.select(*chosen)


def _of_others_and_array(others: Sequence[str], numbers: Sequence[str], batch: Any) -> Batch:
    """Columns of a batch of `_others_and_array`; nulls of numbers become NaN."""
    found = {name: _of_array(batch.column(k)) for k, name in enumerate(others)}
    if not numbers:
        return found
    values = batch.column(len(others)).flatten().to_numpy(zero_copy_only=False)
    rows = values.reshape(batch.num_rows, len(numbers))
    return found | dict(zip(numbers, np.ascontiguousarray(rows.T), strict=True))


@dataclass(frozen=True)
class ArrowDataset:
    """A dataset of PyArrow, such as a folder of Parquet files."""

    dataset: Any

    @property
    def names(self) -> list[str]:
        """As of `Table`."""
        return list(self.dataset.schema.names)

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """As of `Table`."""
        chosen = {"columns": list(columns), "batch_size": ROWS}
        ahead = {"batch_readahead": 2, "fragment_readahead": 1}  # more takes memory and no time off
        return map(_of_arrow, self.dataset.to_batches(**chosen, **ahead))


@dataclass(frozen=True)
class DaskTable:
    """A data frame of Dask."""

    frame: Any

    @property
    def names(self) -> list[str]:
        """As of `Table`."""
        return [str(name) for name in self.frame.columns]

    def batches(self, columns: Sequence[str]) -> Iterator[Batch]:
        """As of `Table`."""
        chosen = self.frame[list(columns)]
        for k in range(chosen.npartitions):
            part = chosen.partitions[k].compute()
            yield {name: _of_series(part[name]) for name in columns}

    def on_workers(
        self, columns: Sequence[str], work: bytes, run: PartFunction, told: Told | None = None
    ) -> list[bytes]:
        """What `run` gives of work and each partition, computed where that lies."""
        dask = import_module("dask")
        packed = dask.delayed(work)
        on_partition = dask.delayed(partial(_on_partition, run, tuple(columns)))
        parts = self.frame[list(columns)].to_delayed()
        return computed([on_partition(packed, part) for part in parts], told)


def _on_partition(run: PartFunction, columns: Sequence[str], work: bytes, part: Any) -> bytes:
    """On a worker of Dask: the result for a partition, a frame of pandas."""
    starts = range(0, len(part), ROWS)
    frames = (part.iloc[start : start + ROWS] for start in starts)
    return run(work, ({name: _of_series(one[name]) for name in columns} for one in frames))


def _of_frame(frame: Any, names: Sequence[str]) -> Iterator[Batch]:
    """Batches of a frame in memory."""
    for start in range(0, len(frame), ROWS):
        part = frame[start : start + ROWS]
        yield {name: _of_series(part.get_column(name)) for name in names}


def _of_polars(native: Any, names: Sequence[str]) -> Iterator[Batch]:
    """Batches of a lazy frame of Polars; of older ones all rows at once."""
    if hasattr(native, "collect_batches"):
        frames = native.collect_batches(chunk_size=ROWS, maintain_order=False)
    else:
        frames = native.collect(engine="streaming").iter_slices(ROWS)
    for frame in frames:
        yield {name: _of_series(frame.get_column(name)) for name in names}


def _of_series(series: Any) -> Any:
    """A column of narwhals, Polars or pandas; of text its bytes, where PyArrow gives them."""
    native = getattr(series, "to_native", lambda: series)()
    kind = str(getattr(native, "dtype", series.dtype))  # objects may be of several types
    is_text = kind in TEXT_TYPES and find_spec("pyarrow")
    texts = Texts.of_arrow(_as_arrow(series)) if is_text else None
    return series.to_numpy() if texts is None else texts


def _as_arrow(series: Any) -> Any:
    """A column of text as one of PyArrow."""
    if hasattr(series, "to_arrow"):
        return series.to_arrow()
    return import_module("pyarrow").array(series.array, from_pandas=True)


def _arrow_reader(native: Any) -> Any:
    """A stream of Arrow batches of a DuckDB relation, or of what else gives one."""
    for method in ("to_arrow_reader", "fetch_record_batch"):
        if hasattr(native, method):
            return getattr(native, method)(ROWS)
    return import_module("pyarrow").RecordBatchReader.from_stream(native)


def _of_reader(reader: Any) -> Iterator[Batch]:
    """Batches of a stream, which is closed however reading ends."""
    try:
        yield from map(_of_arrow, reader)
    finally:
        reader.close()


def _of_array(column: Any) -> Any:
    """A column of Arrow; of text its bytes."""
    texts = Texts.of_arrow(column)
    return column.to_numpy(zero_copy_only=False) if texts is None else texts


def _of_arrow(batch: Any) -> Batch:
    """Columns of a batch of Arrow; nulls of numbers become NaN."""
    return {
        name: _of_array(column)
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    }
