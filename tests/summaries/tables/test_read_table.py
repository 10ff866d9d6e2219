"""The user's side of a summary of a table."""

from __future__ import annotations

import traceback

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.counts import rows_of_units
from pymc_private.counts.rows_of_units import check_units
from pymc_private.errors import DomainError, Incompatible, PymcPrivateError, Unrepeatable
from pymc_private.summaries.tables import table_records
from pymc_private.summaries.tables.read_table import records_of_table
from pymc_private.summaries.tables.table_batches import EngineTable
from pymc_private.summaries.tables.table_records import check_together
from tests.summaries.tables.table_models import BUDGET, coin, frame, own_records, placeholders

ROWS = 400


@pytest.fixture(scope="module")
def plan():
    return pmp.calibrate(coin(ROWS), release="summary", **BUDGET)


def ledger():
    return pmp.Ledger(epsilon=5, delta=1e-5)


def summarized(plan, table, **words):
    return pmp.summarize(plan, data=table, progressbar=False, **({"ledger": ledger()} | words))


def test_a_lazy_table_is_summarized(plan):
    table = pl.from_pandas(frame(ROWS)).lazy()
    book = ledger()
    summary = summarized(plan, table, ledger=book, name="main")
    again = pmp.summarize(plan, data=table, ledger=book, name="main", progressbar=False)
    assert len(book.entries) == 1
    for key, value in summary.released.items():
        np.testing.assert_array_equal(again.released[key], value)
    with summary.model() as model:
        assert [v.name for v in model.free_RVs] == ["p"]
    other = table.rename({"y": "z"})
    with pytest.raises(pmp.errors.Incompatible, match="other columns"):  # not the first one's
        summarized(plan, other, ledger=book, name="main", columns={"y": "z"})
    with pytest.raises(pmp.errors.Incompatible, match="other columns or units"):
        summarized(plan, table, ledger=book, name="main", id="person")  # they were not checked
    assert len(book.entries) == 1


@pytest.mark.parametrize("together", [False, True])
def test_errors_of_an_engine_are_not_quoted(plan, together):
    table = pl.LazyFrame({"y": ["0", "my secret"]}).cast({"y": pl.Int64})
    book = ledger()
    both = [records_of_table(plan.private, table, None, None) for _ in range(2)]
    with pytest.raises(DomainError, match="could not read the table") as caught:
        check_together(both) if together else summarized(plan, table, ledger=book)
    assert "secret" not in str(caught.value)
    assert caught.value.__context__ is None
    assert not book.entries


def duckdb_secret(rows, place):
    """Rows of DuckDB one of which cannot be read."""
    text = f"case when range = {place} then 'my secret' else '1' end"
    return duckdb.sql(f"select range person, cast({text} as int) y from range({rows})")


def polars_secret(kind):
    """Rows of which a function of the user cannot read one."""

    def function(value):
        if value == ROWS - 1:
            raise kind("my secret")
        return 1

    person = pl.col("person")
    lazy = pl.LazyFrame({"person": range(ROWS)})
    return lazy.with_columns(y=person.map_elements(function, return_dtype=pl.Int64))


@pytest.mark.parametrize(
    "table",
    [
        duckdb_secret(100_000, 90_000),
        *map(polars_secret, (OSError, FileNotFoundError, ImportError, SystemExit)),
    ],
)
def test_no_error_of_an_engine_is_quoted_whatever_its_type(plan, table):
    """DuckDB's come as an OSError from batches after the first."""
    book = ledger()
    with pytest.raises(DomainError, match="could not read the table; nothing") as caught:
        summarized(plan, table, ledger=book, id="person")
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert not book.entries


def test_a_seeded_summary_does_not_quote_its_engine_either(plan, monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    readings = [[dict(frame(ROWS)[["y"]])]]

    def batches(*_):
        if readings:
            return readings.pop()
        raise OSError("my secret")

    monkeypatch.setattr(EngineTable, "batches", batches)
    with pytest.raises(Unrepeatable, match="could not read the table again") as caught:
        summarized(plan, frame(ROWS), random_seed=1)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def closed():
    """A relation whose connection was closed."""
    with duckdb.connect() as connection:
        return connection.sql("select 1 y")


@pytest.mark.parametrize(
    ("table", "match"),
    [
        (closed(), "could not read the table"),
        (pl.LazyFrame({"x": [1]}).select("y"), "could not read the table"),
        (pa.Table.from_arrays([pa.array([1])] * 2, names=["y", "y"]), "y twice"),
    ],
    ids=["closed", "a column that is not there", "two of one name"],
)
def test_tables_whose_columns_cannot_be_told(plan, table, match):
    book = ledger()
    with pytest.raises(DomainError, match=match):
        summarized(plan, table, ledger=book)
    assert not book.entries


@pytest.mark.parametrize(
    ("table", "words", "match"),
    [
        (frame(ROWS).drop(columns="y"), {}, "lacks columns"),
        (frame(ROWS).assign(y="yes"), {}, "no numbers"),
        (frame(ROWS - 1), {}, f"n={ROWS - 1}"),
        (frame(0), {}, "it has no rows"),
        (frame(ROWS).assign(y=pd.array([True, None] * 200, "boolean")), {}, "missing or infinite"),
        (frame(ROWS), {"columns": {"z": "y"}}, "private variables"),
        (frame(ROWS).assign(person=1), {"id": "person"}, "owns more rows"),
        (frame(ROWS).assign(person=None), {"id": "person"}, "rows without a unit"),
        (
            frame(ROWS).assign(person=[[k] for k in range(ROWS)]),
            {"id": "person"},
            "rows of each unit",
        ),
        (frame(ROWS), {"id": "persons"}, "lacks columns"),
        ([[1, 2]], {}, "no table"),
        (None, {}, "placeholder rows"),
    ],
)
def test_what_is_refused_costs_nothing(plan, table, words, match):
    book = ledger()
    with pytest.raises(PymcPrivateError, match=match):
        summarized(plan, table, ledger=book, **words)
    assert not book.entries


def test_a_table_that_changes_is_charged_and_not_released(plan, monkeypatch):
    tables = [frame(ROWS, seed) for seed in range(9)]
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    monkeypatch.setattr(EngineTable, "batches", lambda _, names: [dict(tables.pop()[names])])
    book = ledger()
    with pytest.raises(Unrepeatable, match="other rows than the first time") as caught:
        summarized(plan, frame(ROWS), ledger=book, name="main")
    assert "the charge stands" in str(caught.value)
    assert caught.value.__context__ is None
    assert len(book.entries) == 1
    assert "nothing was charged" not in str(caught.value)
    monkeypatch.undo()
    with pytest.raises(Incompatible, match="again=True to charge anew"):  # noise is not kept
        summarized(plan, frame(ROWS), ledger=book, name="main")
    assert summarized(plan, frame(ROWS), ledger=book, name="main", again=True).private
    assert len(book.entries) == 2


def test_units_own_as_many_rows_as_was_declared():
    two = pmp.calibrate(coin(ROWS, records_per_unit=2), release="summary", **BUDGET)
    table = frame(ROWS)
    assert summarized(two, table.assign(person=table.person // 2), id="person").private


@pytest.mark.parametrize(
    "engine",
    [lambda t: t, pl.from_pandas, duckdb.from_df, lambda t: dd.from_pandas(t, npartitions=3)],
)
def test_units_are_counted_by_the_engine(engine):
    table = frame(ROWS)
    check_units(engine(table.iloc[:0]), "person", 2)
    check_units(engine(table.assign(person=table.person // 2)), "person", 2)
    with pytest.raises(DomainError, match="owns more rows"):
        check_units(engine(table.assign(person=table.person // 3)), "person", 2)
    missing = engine(table.assign(person=[np.nan, *map(float, range(1, ROWS))]))
    with pytest.raises(DomainError, match="rows without a unit"):
        check_units(missing, "person", 2)


TEXT_ENGINES = [pl.from_pandas, lambda t: pl.from_pandas(t).lazy(), duckdb.from_df]


@pytest.mark.parametrize("engine", TEXT_ENGINES)
def test_units_that_are_text_are_counted_by_their_hashes_first(engine, monkeypatch):
    name = 'the "person"'
    rows = frame(ROWS).assign(**{name: [f"p{k // 2}" for k in range(ROWS)]})
    counted, count = [], rows_of_units.most_rows
    monkeypatch.setattr(rows_of_units, "most_rows", lambda *a: counted.append(a) or count(*a))
    check_units(engine(rows), name, 2)
    assert len(counted) == 1
    with pytest.raises(DomainError, match="owns more rows"):
        check_units(engine(rows), name, 1)
    assert len(counted) == 3  # by names, too
    with pytest.raises(DomainError, match="rows without a unit"):
        check_units(engine(rows.assign(**{name: [None, *rows[name][1:]]})), name, 2)
    check_units(engine(rows.iloc[:0]), name, 2)


@pytest.mark.parametrize("engine", TEXT_ENGINES)
def test_equal_hashes_refuse_no_unit(engine, monkeypatch):
    rows = frame(ROWS).assign(person=[f"p{k}" for k in range(ROWS)])
    alike = engine(rows.assign(person=1))
    monkeypatch.setattr(rows_of_units, "_hashed_text", lambda *_: alike)
    check_units(engine(rows), "person", 1)


def test_nan_is_no_unit_and_neither_is_null():
    for missing in (np.nan, None):
        persons = pl.Series([missing, *map(float, range(1, ROWS))], strict=False)
        table = pl.from_pandas(frame(ROWS)).with_columns(person=persons)
        for one in (table, table.lazy(), duckdb.from_arrow(table.to_arrow())):
            with pytest.raises(DomainError, match="rows without a unit"):
                check_units(one, "person", 2)


def test_a_seeded_summary_checks_its_table_too(plan):
    with pytest.raises(PymcPrivateError, match="owns more rows"):
        summarized(plan, frame(ROWS).assign(person=1), id="person", random_seed=1)
    assert not summarized(plan, frame(ROWS), id="person", random_seed=1).private


@pytest.mark.filterwarnings("ignore:.*PyArrow.*", "ignore::DeprecationWarning")
def test_a_dataset_counts_its_units_and_a_stream_is_no_table(plan):
    """Files have dictionaries of their own."""
    rows = pa.Table.from_pandas(frame(ROWS).assign(person=[f"p{k // 2}" for k in range(ROWS)]))
    rows = rows.set_column(3, "person", rows["person"].dictionary_encode())
    files = ds.dataset([ds.dataset(rows[:100]), ds.dataset(rows[100:])])
    for one in (files, rows):
        check_units(one, "person", 2)
        with pytest.raises(DomainError, match="owns more rows"):
            check_units(one, "person", 1)
    with pytest.raises(DomainError, match="owns more rows"):
        summarized(plan, files, id="person")
    with pytest.raises(DomainError, match="a stream is not"):
        summarized(plan, rows.to_reader(), id="person")


def test_a_table_beside_records_is_refused():
    table = frame(ROWS)
    plan = pmp.calibrate(own_records(table), release="summary", **BUDGET)
    with pytest.raises(Incompatible, match="records of its own"):
        summarized(plan, table)
    with pytest.raises(DomainError, match="name columns of a table"):
        pmp.summarize(plan, id="person", ledger=ledger())


def test_a_model_is_summarized_by_a_table_in_one_go():
    with pm.Model(coords={"person": range(2)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=[0, 1], dims="person")
    words = {"records": "person", "n": ROWS, "ledger": ledger(), "progressbar": False} | BUDGET
    assert pmp.summarize(model, data=frame(ROWS), **words).facts["n"] == ROWS


def test_a_table_whose_number_of_rows_was_not_said_names_the_keyword():
    with pm.Model(coords={"person": range(7)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=[0, 1, 0, 1, 0, 1, 1], dims="person")
    private = pmp.privatize(model, records="person")
    for method in ("scores", "cells"):
        with pytest.raises(DomainError, match=r"privatize\(\.\.\., n=rows of the table\)"):
            pmp.calibrate(private, release="summary", method=method, **BUDGET)


def test_columns_of_any_name(plan):
    table = frame(ROWS).rename(columns={"y": "answer"})
    assert summarized(plan, table, columns={"y": "answer"}).private


def test_add_remove_protects_the_number_of_rows():
    private = placeholders(1000, neighbors="add_remove")
    plan = pmp.calibrate(private, release="summary", method="scores", **BUDGET)
    assert (plan.n, plan.guess) == (None, 1000)
    assert any("not computed from the data" in claim for claim in plan.claims)
