"""Counts of records in tables of declared columns, on any data frame engine.

Counting takes one pass and memory that does not grow with the data. Frames of pandas (and
NumPy, and partitions of Dask) are encoded column by column, one byte or two for each entry.
All others are grouped by their own engine: Polars evaluates all groupings of a lazy frame
together, in batches, DuckDB and PySpark read it once by GROUPING SETS, batches of a dataset of
PyArrow are grouped one after another; only counts come back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple
from uuid import uuid4

import narwhals as nw
import numpy as np
import pandas as pd

from pymc_private.counts.declared_columns import (
    LARGEST_WHOLE,
    DeclaredColumn,
    no_numbers,
    undeclared_value,
)
from pymc_private.counts.engine_errors import UNREADABLE, hide_quotes, refuse_names_twice
from pymc_private.errors import DomainError
from pymc_private.privacy.argument_kinds import COLUMN, MAPPING, SEQUENCE

READ_AHEAD = {"batch_size": 2**18, "batch_readahead": 2, "fragment_readahead": 1}
"""Rows of a batch of a dataset, and how many batches are read before they are needed."""
MAX_GROUPING_COLUMNS = 60
"""Most columns in GROUPING SETS, since GROUPING_ID is an integer with a bit for each."""
FamilyColumns = Mapping[str, tuple[str, ...]]
"""The columns of each family of tables, the simplex last."""
FamilyGroups = Iterator[tuple[str, list[tuple[Any, ...]]]]
"""Each family, and its groups: values of its columns, and the number of records."""


def count_tables(
    data: Any, families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> dict[str, np.ndarray]:
    """Count every record once in each family of tables.

    Parameters
    ----------
    data : DataFrame or lazy frame of any engine that narwhals knows
        pandas, Polars (eager or lazy), PyArrow (also a dataset), DuckDB, Dask, PySpark.
    families : mapping of str to tuple of str
        The columns of each family, the simplex last.
    columns : mapping of str to DeclaredColumn
        What each column may hold.

    Returns
    -------
    dict of str to array
        Shape: the number of categories of each column of the family.

    Raises
    ------
    DomainError
        A column is missing, or holds what was not declared (which is not quoted).
    """
    families = MAPPING.of(families, "families", "count_tables")
    columns = MAPPING.of(columns, "columns", "count_tables")
    needed = list(dict.fromkeys(name for names in families.values() for name in _names(names)))
    if not all(isinstance(columns.get(name), DeclaredColumn) for name in needed):
        raise DomainError(
            "each column of a family is declared",
            got=", ".join(name for name in needed if name not in columns) or "other values",
            allowed="DeclaredColumn for each of them",
            do="pmp.counts.noisy_counts(data=..., categories=...) declares them and counts",
        )
    counted = hide_quotes(partial(_counter, data), *UNREADABLE)
    _require(needed, counted.names)
    return hide_quotes(
        partial(counted.counts, families, columns),
        "the engine could not count the columns",
        "numbers in a column with bins, declared categories in the others",
    )


def _names(names: Any) -> list[str]:
    """Names of columns of a family."""
    found = SEQUENCE.of(names, "families", "count_tables")
    return [COLUMN.of(name, "families", "count_tables") for name in found]


def number_of_rows(data: Any, needed: Sequence[str]) -> Callable[[], int]:
    """What counts the rows of a table that has some columns; reads none of them yet.

    Raises
    ------
    DomainError
        No table, or one that lacks columns.
    """
    counted = hide_quotes(partial(_counter, data), *UNREADABLE)
    _require(needed, counted.names)
    return partial(hide_quotes, counted.rows, *UNREADABLE)


def _require(needed: Sequence[str], names: Collection[str]) -> None:
    """Refuse data without declared columns."""
    if missing := [name for name in needed if name not in names]:
        raise DomainError(
            "columns were declared that the data do not have",
            got=", ".join(missing),
            allowed="columns of the data",
            do="take them out of categories=, or name them as the data do",
        )


class TableCounter(NamedTuple):
    """Data of an engine: names of columns, what counts them, and what counts rows."""

    names: set[str]
    counts: Callable[[FamilyColumns, Mapping[str, DeclaredColumn]], dict[str, np.ndarray]]
    rows: Callable[[], int]


def _counter(data: Any) -> TableCounter:
    """What counts a frame by its own engine."""
    module = type(data).__module__
    refuse_names_twice(data)
    if module.startswith("pyarrow") and hasattr(data, "scanner"):
        return TableCounter(set(data.schema.names), partial(_count_batches, data), data.count_rows)
    if module.startswith("dask") and hasattr(data, "npartitions") and hasattr(data, "columns"):
        return TableCounter(set(data.columns), partial(_count_partitions, data), partial(len, data))
    frame = nw.from_native(data, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise DomainError(
            "records come as a data frame", got=type(data).__name__,
            allowed="pandas, Polars, PyArrow, DuckDB, Dask or PySpark",
        )  # fmt: skip
    names = set(frame.collect_schema().names())
    if isinstance(frame, nw.DataFrame) and frame.implementation.is_pandas_like():
        return TableCounter(names, partial(_count_pandas, nw.to_native(frame)), partial(len, frame))
    return TableCounter(names, partial(_count_lazy, frame), partial(_rows_of, frame))


def _rows_of(frame: Any) -> int:
    return int(frame.lazy().select(nw.len()).collect().item())


def _count_lazy(
    frame: Any, families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> dict[str, np.ndarray]:
    """Count by groupings of the engine."""
    needed = dict.fromkeys(name for family in families.values() for name in family)
    if frame.implementation.is_pyarrow():  # which groups by one dictionary of a column alone
        frame = nw.from_native(nw.to_native(frame.select(*needed)).unify_dictionaries())
    kinds = frame.collect_schema()
    chosen = (_column_expression(columns[name], kinds[name]) for name in needed)
    binned = frame.lazy().select(*chosen)
    return _count_groups(binned, families, columns)


def _count_batches(
    dataset: Any, families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> dict[str, np.ndarray]:
    """Count a dataset of PyArrow, which groups nothing itself, by groupings of its batches."""
    table_of = import_module("pyarrow").Table.from_batches
    needed = list(dict.fromkeys(name for family in families.values() for name in family))
    found = {f: np.zeros([columns[n].size for n in names]) for f, names in families.items()}
    for batch in dataset.to_batches(columns=needed, **READ_AHEAD):
        part = _count_lazy(nw.from_native(table_of([batch])), families, columns)
        found = {family: found[family] + part[family] for family in families}
    return found


def _count_pandas(
    frame: pd.DataFrame, families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> dict[str, np.ndarray]:
    """Count a frame of pandas; category numbers of a column are kept while families need them."""
    codes: dict[str, np.ndarray] = {}
    last = {name: family for family, names in families.items() for name in names}
    found = {}
    for family, names in families.items():
        for name in names:
            if name not in codes:
                codes[name] = columns[name].encode(frame[name])
                if codes[name].size and codes[name].min() < 0:
                    raise undeclared_value(name)
        shape = tuple(columns[name].size for name in names)
        cell: Any = codes[names[0]].astype(np.int32 if np.prod(shape) < 2**31 else np.int64)
        for name, size in zip(names[1:], shape[1:], strict=True):
            cell *= size
            cell += codes[name]
        counts = np.bincount(cell, minlength=int(np.prod(shape)))
        found[family] = counts.reshape(shape).astype(float)
        for name in names:
            if last[name] == family:
                del codes[name]
    return found


def _count_partitions(
    frame: Any, families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> dict[str, np.ndarray]:
    """Count each partition of a Dask frame, a frame of pandas, where it lies, and add up."""
    from dask.base import compute
    from dask.delayed import delayed

    for column in columns.values():
        _refuse_text_of_dask(frame, column)
    count = delayed(_count_pandas)
    frame = frame[list(dict.fromkeys(name for family in families.values() for name in family))]
    parts = compute(*[count(part, families, columns) for part in frame.to_delayed()])
    return {family: np.sum([part[family] for part in parts], axis=0) for family in families}


def _refuse_text_of_dask(frame: Any, column: DeclaredColumn) -> None:
    """Refuse a column of text of which Dask may have made it: no declared value is text."""
    kind = frame.dtypes[column.name]
    if not isinstance(kind, pd.StringDtype):
        return
    do = "dask.config.set({'dataframe.convert-string': False}) before the frame is made, if Dask "
    do += "made text of dates or decimals"
    if column.edges:
        raise no_numbers(column.name, do)
    if not any(isinstance(value, str) for value in column.values):
        raise DomainError(
            f"the column {column.name!r} is text, and no declared value is; nothing was charged",
            got="a column of text",
            allowed="values of the types that were declared",
            do=do,
        )


def _column_expression(column: DeclaredColumn, kind: Any) -> Any:
    """The column, or of a number the count of edges below it; missing numbers stay missing.

    Engines differ in whether -0.0 is 0.0, and NaN null; and in how a double of a long integer is
    rounded, which is taken for missing.
    """
    value = nw.col(column.name)
    if kind.is_float():
        value = nw.when(~value.is_nan()).then(value + 0.0)
    if not column.edges:
        return value.alias(column.name)
    if not (kind.is_numeric() or kind == nw.Boolean):
        raise no_numbers(column.name)
    if kind.is_integer() or kind.is_decimal():
        signed = kind.is_decimal() or kind.is_signed_integer()
        low = value >= -LARGEST_WHOLE if signed else value >= 0
        value = nw.when(low & (value <= LARGEST_WHOLE)).then(value)
    number = value.cast(nw.Float64)
    below = sum(((number > edge).cast(nw.Int32) for edge in column.edges[1:]),
                (number > column.edges[0]).cast(nw.Int32))  # fmt: skip
    return below.alias(column.name)


def _count_groups(
    frame: nw.LazyFrame[Any], families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> dict[str, np.ndarray]:
    names = list(dict.fromkeys(name for family in families.values() for name in family))
    if frame.implementation.name in ("DUCKDB", "PYSPARK") and len(names) <= MAX_GROUPING_COLUMNS:
        rows = _by_grouping_sets(frame, families, names, columns)
    else:
        rows = _by_groups(frame, families, columns)
    found = {}
    for family, groups in rows:
        shape = tuple(columns[name].size for name in families[family])
        counts = np.zeros(shape)
        for *values, count in groups:
            cell = tuple(
                columns[name].code(value)
                for name, value in zip(families[family], values, strict=True)
            )
            if min(cell) < 0:
                raise undeclared_value(families[family][cell.index(min(cell))])
            counts[cell] += count
        if len(groups) > counts.size:  # several groups of one category: not all were fetched
            raise undeclared_value(families[family][0])
        found[family] = counts
    return {family: found[family] for family in families}


def _max_groups(names: Sequence[str], columns: Mapping[str, DeclaredColumn]) -> int:
    """Most groups that are fetched: one more than were declared is an error already."""
    return int(np.prod([columns[name].size for name in names])) + 1


def _by_groups(
    frame: nw.LazyFrame[Any], families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> FamilyGroups:
    count = _free_name("n_records", columns)
    queries = [
        frame.group_by(*names).agg(nw.len().alias(count)).head(_max_groups(names, columns))
        for names in families.values()
    ]
    for (family, names), answer in zip(families.items(), _collect_all(queries), strict=True):
        wanted = [*names, count]
        yield family, list(answer.select(*wanted).iter_rows())


def _free_name(name: str, taken: Collection[str]) -> str:
    """A name that no column has, whatever its case."""
    lower = {one.lower() for one in taken}
    while name in lower:
        name += "_"
    return name


def _collect_all(queries: list[nw.LazyFrame[Any]]) -> list[nw.DataFrame[Any]]:
    """Evaluate lazy frames together where their engine can."""
    native = [nw.to_native(query) for query in queries]
    if queries[0].implementation.is_polars():
        import polars

        answers = polars.collect_all(native, engine="streaming")
        return [nw.from_native(answer) for answer in answers]
    return [query.collect() for query in queries]


def _by_grouping_sets(
    frame: nw.LazyFrame[Any],
    families: FamilyColumns,
    names: list[str],
    columns: Mapping[str, DeclaredColumn],
) -> FamilyGroups:
    """Groups of all families by one pass over the data, with GROUPING SETS.

    The bits of GROUPING_ID are the columns by which a row of the answer is not grouped.
    """
    quoted = {name: _quote(name, frame.implementation.name) for name in names}
    sets = list(dict.fromkeys(tuple(sorted(f, key=names.index)) for f in families.values()))
    grouping = ", ".join("(" + ", ".join(quoted[name] for name in group) + ")" for group in sets)
    every = ", ".join(quoted.values())
    most = sum(_max_groups(group, columns) for group in sets)
    mask = "GROUPING_ID()" if frame.implementation.name == "PYSPARK" else f"GROUPING({every})"
    view = f"counted_{uuid4().hex}"
    text = (
        f"SELECT {every}, {mask} AS {_free_name('which', names)}, "
        f"COUNT(*) AS {_free_name('n_records', names)} FROM {view} "
        f"GROUP BY GROUPING SETS ({grouping}) LIMIT {most}"
    )
    if frame.implementation.name == "PYSPARK":
        text = text.replace("GROUP BY GROUPING SETS", f"GROUP BY {every} GROUPING SETS")
    answers: dict[int, list[tuple[Any, ...]]] = {}
    for *values, which, count in _run_sql(frame, view, text):
        answers.setdefault(int(which), []).append((*values, count))
    for family, wanted in families.items():
        bits = sum(1 << (len(names) - 1 - i) for i, name in enumerate(names) if name not in wanted)
        at = [names.index(name) for name in wanted]
        groups = answers.get(bits, [])
        yield family, [(*(row[i] for i in at), row[-1]) for row in groups]


def _quote(name: str, engine: str) -> str:
    mark = "`" if engine == "PYSPARK" else '"'
    return mark + name.replace(mark, 2 * mark) + mark


def _run_sql(frame: nw.LazyFrame[Any], view: str, text: str) -> list[tuple[Any, ...]]:
    native: Any = nw.to_native(frame)
    if frame.implementation.name != "PYSPARK":
        return list(native.query(view, text).fetchall())
    native.createOrReplaceTempView(view)
    try:
        return [tuple(row) for row in native.sparkSession.sql(text).collect()]
    finally:
        native.sparkSession.catalog.dropTempView(view)
