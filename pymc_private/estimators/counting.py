"""Counting records into tables on any engine, in one pass and in memory that does not grow.

Frames of pandas (and NumPy, and partitions of Dask) are encoded column by column, one byte or two
for each entry. All else is grouped where it lives: Polars evaluates all groupings of a lazy frame
together, DuckDB and PySpark read it once by GROUPING SETS; what comes back are counts.
"""

from __future__ import annotations

import narwhals as nw
import numpy as np
import pandas as pd
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.estimators.counting__columns import Column

Families = Mapping[str, tuple[str, ...]]
MOST_GROUPED = 60
"""GROUPING_ID is a number of so many bits."""


def count_tables(
    data: Any, families: Families, columns: Mapping[str, Column]
) -> dict[str, np.ndarray]:
    """Count every record once in each family of tables.

    Parameters
    ----------
    data : DataFrame or lazy frame of any engine that narwhals knows
        pandas, Polars (eager or lazy), PyArrow, DuckDB, Dask, PySpark.
    families : mapping of str to tuple of str
        The columns of each family, the simplex last.
    columns : mapping of str to Column
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
    frame = nw.from_native(data, pass_through=True)
    if not isinstance(frame, nw.DataFrame | nw.LazyFrame):
        raise DomainError(
            "records come as a data frame", got=type(data).__name__,
            allowed="pandas, Polars, PyArrow, DuckDB, Dask or PySpark",
        )  # fmt: skip
    present = set(frame.collect_schema().names())
    needed = list(dict.fromkeys(name for family in families.values() for name in family))
    missing = [name for name in needed if name not in present]
    if missing:
        raise DomainError("columns were declared that the data do not have", got=", ".join(missing))
    if isinstance(frame, nw.DataFrame) and frame.implementation.is_pandas_like():
        return _encoded(nw.to_native(frame), families, columns)
    if frame.implementation.is_dask():
        return _by_partitions(nw.to_native(frame)[needed], families, columns)
    lazy = frame.lazy() if isinstance(frame, nw.DataFrame) else frame
    try:
        binned = lazy.select(*(_expression(columns[name]) for name in needed))
        return _grouped(binned, families, columns)
    except PymcPrivateError:
        raise
    except Exception as error:  # engines quote the values they stumble over
        cause = type(error).__name__
    raise DomainError(
        "the engine could not count the columns; nothing was charged", got=cause,
        allowed="numbers in a column with bins, declared categories in the others",
    )  # fmt: skip


def _encoded(
    frame: pd.DataFrame, families: Families, columns: Mapping[str, Column]
) -> dict[str, np.ndarray]:
    """Count codes; those of a column are kept as long as a family still needs them."""
    codes: dict[str, np.ndarray] = {}
    last = {name: family for family, names in families.items() for name in names}
    found = {}
    for family, names in families.items():
        for name in names:
            if name not in codes:
                codes[name] = columns[name].encode(frame[name])
                if codes[name].size and codes[name].min() < 0:
                    raise undeclared(name)
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


def _by_partitions(
    frame: Any, families: Families, columns: Mapping[str, Column]
) -> dict[str, np.ndarray]:
    """Count each partition, a frame of pandas, where it lies, and add up."""
    from dask.base import compute
    from dask.delayed import delayed

    count = delayed(_encoded)
    parts = compute(*[count(part, families, columns) for part in frame.to_delayed()])
    return {family: np.sum([part[family] for part in parts], axis=0) for family in families}


def undeclared(name: str) -> DomainError:
    """Say that a column holds more than was declared, and not what."""
    return DomainError(
        f"the column {name!r} holds a value that was not declared; nothing was charged",
        got="an undeclared or missing value",
        do="declare every category that a record could have, and replace others by one of them "
        '("other", "missing") before',
    )


def _expression(column: Column) -> Any:
    """Give the column as it is, or the number of edges below it; missing numbers stay missing."""
    value = nw.col(column.name)
    if not column.edges:
        return value
    number = value.cast(nw.Float64)
    below = sum(((number > edge).cast(nw.Int32) for edge in column.edges[1:]),
                (number > column.edges[0]).cast(nw.Int32))  # fmt: skip
    return nw.when(~number.is_nan()).then(below).alias(column.name)


def _grouped(
    frame: nw.LazyFrame[Any], families: Families, columns: Mapping[str, Column]
) -> dict[str, np.ndarray]:
    names = list(dict.fromkeys(name for family in families.values() for name in family))
    if frame.implementation.name in ("DUCKDB", "PYSPARK") and len(names) <= MOST_GROUPED:
        rows = _by_grouping_sets(frame, families, names, columns)
    else:
        rows = _by_groups(frame, families, columns)
    found = {}
    for family, groups in rows:
        shape = tuple(columns[name].size for name in families[family])
        counts = np.zeros(shape)
        for *values, count in groups:
            place = tuple(
                columns[name].place(value)
                for name, value in zip(families[family], values, strict=True)
            )
            if min(place) < 0:
                raise undeclared(families[family][place.index(min(place))])
            counts[place] += count
        found[family] = counts
    return {family: found[family] for family in families}


def _most(names: Sequence[str], columns: Mapping[str, Column]) -> int:
    """One group more than was declared is one too many; no more are ever fetched."""
    return int(np.prod([columns[name].size for name in names])) + 1


Groups = Iterator[tuple[str, list[tuple[Any, ...]]]]


def _by_groups(
    frame: nw.LazyFrame[Any], families: Families, columns: Mapping[str, Column]
) -> Groups:
    queries = [
        frame.group_by(*names).agg(nw.len().alias("n_records")).head(_most(names, columns))
        for names in families.values()
    ]
    for (family, names), answer in zip(families.items(), _together(queries), strict=True):
        wanted = [*names, "n_records"]
        yield family, list(answer.select(*wanted).iter_rows())


def _together(queries: list[nw.LazyFrame[Any]]) -> list[nw.DataFrame[Any]]:
    """Evaluate lazy frames in one run of their engine where it has such a thing."""
    native = [nw.to_native(query) for query in queries]
    if queries[0].implementation.is_polars():
        import polars

        return [nw.from_native(answer) for answer in polars.collect_all(native)]
    return [query.collect() for query in queries]


def _by_grouping_sets(
    frame: nw.LazyFrame[Any],
    families: Families,
    names: list[str],
    columns: Mapping[str, Column],
) -> Groups:
    """Read the data once. The bits of GROUPING_ID tell which columns a row does not count."""
    quoted = {name: _quoted(name, frame.implementation.name) for name in names}
    sets = list(dict.fromkeys(tuple(sorted(f, key=names.index)) for f in families.values()))
    grouping = ", ".join("(" + ", ".join(quoted[name] for name in group) + ")" for group in sets)
    every = ", ".join(quoted.values())
    most = sum(_most(group, columns) for group in sets)
    mask = "GROUPING_ID()" if frame.implementation.name == "PYSPARK" else f"GROUPING({every})"
    text = (
        f"SELECT {every}, {mask} AS which, COUNT(*) AS n_records FROM counted_records "
        f"GROUP BY GROUPING SETS ({grouping}) LIMIT {most}"
    )
    if frame.implementation.name == "PYSPARK":
        text = text.replace("GROUP BY GROUPING SETS", f"GROUP BY {every} GROUPING SETS")
    answers: dict[int, list[tuple[Any, ...]]] = {}
    for *values, which, count in _ask(frame, text):
        answers.setdefault(int(which), []).append((*values, count))
    for family, wanted in families.items():
        bits = sum(1 << (len(names) - 1 - i) for i, name in enumerate(names) if name not in wanted)
        at = [names.index(name) for name in wanted]
        groups = answers.get(bits, [])
        yield family, [(*(row[i] for i in at), row[-1]) for row in groups]


def _quoted(name: str, engine: str) -> str:
    mark = "`" if engine == "PYSPARK" else '"'
    return mark + name.replace(mark, 2 * mark) + mark


def _ask(frame: nw.LazyFrame[Any], text: str) -> list[tuple[Any, ...]]:
    native: Any = nw.to_native(frame)
    if frame.implementation.name == "PYSPARK":
        native.createOrReplaceTempView("counted_records")
        return [tuple(row) for row in native.sparkSession.sql(text).collect()]
    return list(native.query("counted_records", text).fetchall())
