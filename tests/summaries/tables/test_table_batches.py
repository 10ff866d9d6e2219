"""All engines give the same rows, whatever their batches."""

from __future__ import annotations

import sys
from datetime import date
from decimal import Decimal

import dask.dataframe as dd
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from pymc_private.errors import DomainError, Unsupported
from pymc_private.summaries.tables import table_batches
from pymc_private.summaries.tables.table_batches import (
    SparkTable,
    as_table,
    require_columns,
)
from pymc_private.summaries.tables.table_columns import as_numbers, check_numbers
from tests.summaries.tables.table_models import NAMES, frame

COLUMNS = [*NAMES, "y"]


class OldLazyFrame:
    """A lazy frame of Polars before `collect_batches`."""

    def __init__(self, frame):
        self.frame = frame

    def collect(self, engine):
        return self.frame.collect(engine=engine)


class SparkLike:
    """A frame of Spark, of some batches of Arrow."""

    def __init__(self, batches):
        self.given = batches

    def select(self, *names):
        return SparkLike([batch.select(names) for batch in self.given])

    def to_native(self):
        return self

    def mapInArrow(self, function, schema):  # noqa: N802
        assert schema == "found binary"
        return SparkLike(list(function(iter(self.given))))

    def toLocalIterator(self, prefetchPartitions):  # noqa: N802
        return ((batch["found"][0].as_py(),) for batch in self.given)


ENGINES = {
    "pandas": lambda t: t,
    "polars": pl.from_pandas,
    "polars, lazy": lambda t: pl.from_pandas(t).lazy(),
    "pyarrow": pa.Table.from_pandas,
    "pyarrow, dataset": lambda t: ds.dataset(pa.Table.from_pandas(t)),
    "duckdb": duckdb.from_df,
    "dask": lambda t: dd.from_pandas(t, npartitions=3),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_all_rows(engine, monkeypatch):
    monkeypatch.setattr(table_batches, "ROWS", 512)
    given = frame(3000)
    batches = list(as_table(ENGINES[engine](given)).batches(COLUMNS))
    assert len(batches) > 1
    found = {name: np.concatenate([b[name] for b in batches]) for name in COLUMNS}
    order = np.argsort(found["age"])
    expected = given.sort_values("age")
    for name in COLUMNS:
        np.testing.assert_array_equal(found[name][order], expected[name].to_numpy())


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_column_is_named(engine):
    table = as_table(ENGINES[engine](frame(10)))
    assert set(COLUMNS) <= set(table.names)
    with pytest.raises(DomainError, match=r"no 'incomes'(.|\n)*did you mean 'income'"):
        require_columns(table, ["age", "incomes"])


def test_names_that_no_table_should_have():
    numbered = frame(10).rename(columns={"age": 3})
    with pytest.raises(DomainError, match="no 'age'"):
        require_columns(as_table(numbered), ["age"])
    twice = frame(10).rename(columns={"income": "age"})
    for table in (twice, dd.from_pandas(twice, npartitions=2)):
        with pytest.raises(DomainError, match="age twice"):
            as_table(table)


def test_older_frames_and_batches_of_spark():
    given = frame(100)
    lazy = OldLazyFrame(pl.from_pandas(given).lazy())
    (batch,) = table_batches._of_polars(lazy, COLUMNS)
    np.testing.assert_array_equal(batch["age"], given.age)
    rows = pa.RecordBatch.from_pydict({"x": [1.0, None], "y": [2, 3], "z": ["a", "b"]})
    first, second = SparkTable(SparkLike([rows, rows[:1]])).batches(["y", "x"])
    np.testing.assert_array_equal(first["x"], [1.0, np.nan])
    assert list(first) == ["y", "x"]
    assert first["y"].dtype.kind == "i"
    np.testing.assert_array_equal(second["y"], [2])


@pytest.mark.parametrize("numbers", [["x", "y"], ["y"], []])
def test_numbers_that_spark_hands_over_in_an_array_are_columns_again(numbers):
    given = {"y": [2, 3, 4], "x": [1.0, None, -0.0], "z": ["a", "b", None]}
    others = [name for name in given if name not in numbers]
    rows = list(zip(*(given[name] for name in numbers), strict=True)) or [()] * 3
    array = pa.array([list(row) for row in rows], pa.list_(pa.float64()))
    columns = [pa.array(given[name]) for name in others] + [array] * bool(numbers)
    batch = pa.RecordBatch.from_arrays(columns, [str(k) for k in range(len(columns))])
    whole = table_batches._of_arrow(pa.RecordBatch.from_pydict(given))
    for part in (slice(0, 3), slice(1, 3), slice(0, 0)):
        found = table_batches._of_others_and_array(others, numbers, batch[part.start : part.stop])
        assert set(found) == set(given)
        for name in ("x", "y"):
            np.testing.assert_array_equal(found[name], whole[name][part])
            np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(whole[name][part]))
            assert found[name].flags["C_CONTIGUOUS"]


def test_long_integers_and_text_of_spark_are_handed_over_as_they_are():
    kinds = ["double", "bigint", "int", "string", "decimal(20,0)", "boolean", "float", "tinyint"]
    numbers, others = table_batches._numbers_and_others((kind, kind) for kind in kinds)
    assert numbers == ["double", "int", "float", "tinyint"]
    assert others == ["bigint", "string", "decimal(20,0)", "boolean"]


def test_a_stream_of_batches_is_closed_although_reading_stops():
    connection = duckdb.connect()
    relation = connection.sql("select range::double as x from range(300000)")
    reading = as_table(relation).batches(["x"])
    next(reading)
    reading.close()
    assert connection.sql("select 1").fetchall() == [(1,)]  # the connection is free again


def test_no_table():
    with pytest.raises(DomainError, match="no table"):
        as_table({"x": [1.0]})


def test_duckdb_without_pyarrow_is_refused_in_words(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(Unsupported, match="PyArrow, which is not installed"):
        as_table(duckdb.sql("select 1 as x"))


LONG = 2**53 + 1
VALUES = {  # a column, and its numbers or why it is none
    "true and false": ([True, False, True], [1, 0, 1]),
    "minus zero": ([-0.0, 0.0, 1.0], [0, 0, 1]),
    "long": ([LONG, 1, 2], "cannot be summarized"),
    "unsigned": (pa.array([2**64 - 1, 1, 2], pa.uint64()), "cannot be summarized"),
    "decimals": ([Decimal("1.5"), Decimal("2.25"), Decimal(3)], [1.5, 2.25, 3]),
    "missing": ([1, None, 2], "cannot be summarized"),
    "dates": ([date(2020, 1, k) for k in (1, 2, 3)], "holds no numbers"),
    "text": (["1", "2", "3"], "holds no numbers"),
}


@pytest.mark.parametrize("case", VALUES)
def test_engines_agree_on_what_a_number_is(case):
    """What Dask made text of is refused."""
    values, expected = VALUES[case]
    rows = pa.table({"x": values})
    for engine, make in ENGINES.items():
        given = rows if engine == "pyarrow" else make(rows.to_pandas())
        match = "holds no numbers" if (engine, case) == ("dask", "decimals") else expected
        batches = [np.asarray(one["x"]) for one in as_table(given).batches(["x"])]
        if isinstance(match, str):
            with pytest.raises(DomainError, match=match):
                [check_numbers(one, "x", False) for one in batches]
            continue
        [check_numbers(one, "x", False) for one in batches]
        found = np.concatenate([as_numbers(one) for one in batches])
        assert found.tolist() == expected, engine
