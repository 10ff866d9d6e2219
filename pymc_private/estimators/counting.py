"""Declared columns, and counts of records in tables on any data frame engine.

What a column may hold is declared before the data are seen: categories, or bins of a number.
Counting takes one pass and memory that does not grow with the data. Frames of pandas (and
NumPy, and partitions of Dask) are encoded column by column, one byte or two for each entry.
All others are grouped by their own engine: Polars evaluates all groupings of a lazy frame
together, DuckDB and PySpark read it once by GROUPING SETS; only counts come back.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.privacy.rounding import format_count

DECLARE_INSTEAD = (
    "give the categories as a list, or the edges of bins as Bins([...]): from a codebook, the law "
    "or public data; what is learned from these data is not private"
)
MAX_GROUPING_COLUMNS = 60
"""Most columns in GROUPING SETS, since GROUPING_ID is an integer with a bit for each."""
FamilyColumns = Mapping[str, tuple[str, ...]]
"""The columns of each family of tables, the simplex last."""
FamilyGroups = Iterator[tuple[str, list[tuple[Any, ...]]]]
"""Each family, and its groups: values of its columns, and the number of records."""


@dataclass(frozen=True)
class Bins:
    """A number cut at public edges: ``(-inf, e1], (e1, e2], ..., (em, inf)``.

    Parameters
    ----------
    edges : sequence of float
        Finite and increasing.

    Examples
    --------
    >>> Bins([18, 65]).labels
    ('<= 18', '(18, 65]', '> 65')
    """

    edges: tuple[float, ...]

    def __init__(self, edges: Sequence[float]) -> None:
        values = np.asarray(edges, float)
        rises = values.ndim == 1 and len(values) and np.all(np.diff(values) > 0)
        if not rises or not np.isfinite(values).all():
            raise DomainError(
                "the edges of bins are finite and increasing", got=repr(edges)[:80],
                allowed="for example Bins([18, 30, 65])",
            )  # fmt: skip
        object.__setattr__(self, "edges", tuple(values.tolist()))

    @property
    def labels(self) -> tuple[str, ...]:
        """One name for each bin."""
        e = [f"{edge:g}" for edge in self.edges]
        inner = [f"({a}, {b}]" for a, b in itertools.pairwise(e)]
        return (f"<= {e[0]}", *inner, f"> {e[-1]}")


@dataclass(frozen=True)
class DeclaredColumn:
    """One declared column.

    Attributes
    ----------
    name : str
    values : tuple
        Declared categories; labels of the bins where there are edges.
    edges : tuple of float
        Empty for categories.
    """

    name: str
    values: tuple[Any, ...]
    edges: tuple[float, ...] = ()
    _codes: dict[Any, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size(self) -> int:
        """Number of categories."""
        return len(self.values)

    def encode(self, series: Any) -> np.ndarray:
        """Category number of each entry, -1 for undeclared ones, in the smallest integer type."""
        kind = np.int8 if self.size < 127 else np.int16 if self.size < 32767 else np.int32
        if self.edges:
            try:
                numbers = pd.to_numeric(pd.Series(series), errors="raise").to_numpy(float)
            except (TypeError, ValueError):
                raise DomainError(
                    f"the column {self.name!r} is cut into bins, so it holds numbers"
                ) from None
            codes = np.searchsorted(self.edges, numbers, side="left").astype(kind)
            codes[np.isnan(numbers)] = -1
            return codes
        if isinstance(series, pd.Series) and isinstance(series.dtype, pd.CategoricalDtype):
            own = np.array([self.code(value) for value in series.cat.categories] + [-1])
            return np.asarray(own[series.cat.codes.to_numpy()], dtype=kind)
        entries = np.asarray(series)
        plain = entries.ndim == 1 and not np.ma.isMaskedArray(series)
        if plain and entries.dtype.kind in "iu" and self._counts_up:
            codes = entries.astype(kind)
            codes[(entries < 0) | (entries >= self.size)] = -1
            return codes
        return np.asarray(pd.Index(self.values).get_indexer(pd.Index(series)), dtype=kind)

    @cached_property
    def _counts_up(self) -> bool:
        """Whether the categories are 0, 1, 2, ..., so that values are their own numbers."""
        return self.values == tuple(range(self.size)) and all(type(v) is int for v in self.values)

    def code(self, value: Any) -> int:
        """Category number of a value as an engine returned it; -1 if it was not declared."""
        if self.edges:
            return -1 if value is None or value != value else int(value)
        if not self._codes:
            self._codes.update({v: i for i, v in enumerate(self.values)})
        try:
            return self._codes.get(value, -1)
        except TypeError:  # not hashable
            return -1


def declare_column(name: str, spec: Any) -> DeclaredColumn:
    """Read a user's declaration of a column: `Bins`, `Categories`, or a sequence of values."""
    if isinstance(spec, Bins):
        return DeclaredColumn(name, spec.labels, spec.edges)
    values = getattr(spec, "values", spec)
    if isinstance(values, set | frozenset):
        values = sorted(values, key=lambda value: (str(type(value)), value))
    if callable(values) or isinstance(values, str | bytes | int | float | type(None)):
        raise DomainError(
            f"the categories of {name!r} are declared, not learned",
            got=repr(spec)[:60],
            do=DECLARE_INSTEAD,
        )
    try:
        listed = tuple(np.asarray(values).tolist()) if hasattr(values, "dtype") else tuple(values)
    except TypeError:
        raise DomainError(
            f"the categories of {name!r} are declared, not learned",
            got=type(spec).__name__,
            do=DECLARE_INSTEAD,
        ) from None
    if len(set(listed)) < len(listed):
        raise DomainError(
            f"the categories of {name!r} are named once each",
            got=f"{len(listed)} values, some of them twice",
            do="take the duplicates out of the list; it is the codebook's, not the column itself",
        )
    if len(listed) < 2:
        raise DomainError(
            f"the column {name!r} has two categories or more",
            got=format_count(len(listed), "value"),
            do="leave a column out that is the same for everybody",
        )
    return DeclaredColumn(name, listed)


def undeclared_value(name: str) -> DomainError:
    """The error that a column holds an undeclared value, which is not quoted."""
    return DomainError(
        f"the column {name!r} holds a value that was not declared; nothing was charged",
        got="an undeclared or missing value",
        do="declare every category that a record could have, and replace others by one of them "
        '("other", "missing") before',
    )


def count_tables(
    data: Any, families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
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
        return _count_pandas(nw.to_native(frame), families, columns)
    if frame.implementation.is_dask():
        return _count_partitions(nw.to_native(frame)[needed], families, columns)
    lazy = frame.lazy() if isinstance(frame, nw.DataFrame) else frame
    try:
        binned = lazy.select(*(_column_expression(columns[name]) for name in needed))
        return _count_groups(binned, families, columns)
    except PymcPrivateError:
        raise
    except Exception as error:  # engines quote the values that they cannot handle
        cause = type(error).__name__
    raise DomainError(
        "the engine could not count the columns; nothing was charged", got=cause,
        allowed="numbers in a column with bins, declared categories in the others",
    )  # fmt: skip


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

    count = delayed(_count_pandas)
    parts = compute(*[count(part, families, columns) for part in frame.to_delayed()])
    return {family: np.sum([part[family] for part in parts], axis=0) for family in families}


def _column_expression(column: DeclaredColumn) -> Any:
    """The column, or of a number the count of edges below it; missing numbers stay missing."""
    value = nw.col(column.name)
    if not column.edges:
        return value
    number = value.cast(nw.Float64)
    below = sum(((number > edge).cast(nw.Int32) for edge in column.edges[1:]),
                (number > column.edges[0]).cast(nw.Int32))  # fmt: skip
    return nw.when(~number.is_nan()).then(below).alias(column.name)


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
        found[family] = counts
    return {family: found[family] for family in families}


def _max_groups(names: Sequence[str], columns: Mapping[str, DeclaredColumn]) -> int:
    """Most groups that are fetched: one more than were declared is an error already."""
    return int(np.prod([columns[name].size for name in names])) + 1


def _by_groups(
    frame: nw.LazyFrame[Any], families: FamilyColumns, columns: Mapping[str, DeclaredColumn]
) -> FamilyGroups:
    queries = [
        frame.group_by(*names).agg(nw.len().alias("n_records")).head(_max_groups(names, columns))
        for names in families.values()
    ]
    for (family, names), answer in zip(families.items(), _collect_all(queries), strict=True):
        wanted = [*names, "n_records"]
        yield family, list(answer.select(*wanted).iter_rows())


def _collect_all(queries: list[nw.LazyFrame[Any]]) -> list[nw.DataFrame[Any]]:
    """Evaluate lazy frames together where their engine can."""
    native = [nw.to_native(query) for query in queries]
    if queries[0].implementation.is_polars():
        import polars

        return [nw.from_native(answer) for answer in polars.collect_all(native)]
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
    text = (
        f"SELECT {every}, {mask} AS which, COUNT(*) AS n_records FROM counted_records "
        f"GROUP BY GROUPING SETS ({grouping}) LIMIT {most}"
    )
    if frame.implementation.name == "PYSPARK":
        text = text.replace("GROUP BY GROUPING SETS", f"GROUP BY {every} GROUPING SETS")
    answers: dict[int, list[tuple[Any, ...]]] = {}
    for *values, which, count in _run_sql(frame, text):
        answers.setdefault(int(which), []).append((*values, count))
    for family, wanted in families.items():
        bits = sum(1 << (len(names) - 1 - i) for i, name in enumerate(names) if name not in wanted)
        at = [names.index(name) for name in wanted]
        groups = answers.get(bits, [])
        yield family, [(*(row[i] for i in at), row[-1]) for row in groups]


def _quote(name: str, engine: str) -> str:
    mark = "`" if engine == "PYSPARK" else '"'
    return mark + name.replace(mark, 2 * mark) + mark


def _run_sql(frame: nw.LazyFrame[Any], text: str) -> list[tuple[Any, ...]]:
    native: Any = nw.to_native(frame)
    if frame.implementation.name == "PYSPARK":
        native.createOrReplaceTempView("counted_records")
        return [tuple(row) for row in native.sparkSession.sql(text).collect()]
    return list(native.query("counted_records", text).fetchall())
