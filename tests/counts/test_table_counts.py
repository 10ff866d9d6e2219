"""Releases of counts of a table: as of its counts in memory, whatever the engine."""

from __future__ import annotations

import shutil
import sys

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import pymc_private as pmp
from pymc_private.counts import counting, table_counts
from pymc_private.errors import DomainError, Incompatible

ROWS = 3000
DECLARED = {
    "region": ["north", "south", "west"],
    "age": pmp.counts.Bins([18, 65]),
    "ill": [0, 1],
}
FAMILIES = {"ill": ["ill"], "both": ("region", "ill"), "all": ["region", "age", "ill"]}


def people(n: int = ROWS) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    region = rng.choice(["north", "south"], n)  # nobody lives in the west
    return pd.DataFrame(
        {
            "region": region,
            "age": rng.choice([17.0, 18, 40, 65, 66], n),
            "ill": rng.integers(2, size=n),
        }
    )


def by_hand(frame: pd.DataFrame) -> dict[str, np.ndarray]:
    region = frame.region.map({"north": 0, "south": 1}).to_numpy()
    found = np.zeros((3, 3, 2))
    np.add.at(found, (region, np.searchsorted([18, 65], frame.age), frame.ill.to_numpy()), 1)
    return {"ill": found.sum((0, 1)), "both": found.sum(1), "all": found}


def dataset(frame):
    """Files whose dictionaries differ."""
    parts = (frame[frame.region == r] for r in ("north", "south"))
    tables = [pa.Table.from_pandas(p, preserve_index=False) for p in parts]
    coded = [t.set_column(0, "region", t["region"].dictionary_encode()) for t in tables]
    return ds.dataset([ds.dataset(t) for t in coded])


def arrow(frame):
    return dataset(frame).to_table()


ENGINES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy polars": lambda frame: pl.from_pandas(frame).lazy(),
    "categories of polars": lambda f: pl.from_pandas(f).lazy().cast({"region": pl.Categorical}),
    "duckdb": duckdb.from_df,
    "pyarrow": arrow,
    "dataset": dataset,
    "dask": lambda frame: dd.from_pandas(frame, npartitions=3),
}
WORDS = {"categories": DECLARED, "tables": FAMILIES}


def released(verb=pmp.counts.noisy_counts, **words):
    found = verb(epsilon=1, delta=1e-6, **words)
    return found, {str(k): v.values for k, v in found.posterior.data_vars.items()}


@pytest.mark.filterwarnings("ignore:.*PyArrow.*", "ignore::DeprecationWarning")
@pytest.mark.parametrize("engine", ENGINES)
def test_counts_of_a_table_are_those_of_its_rows(engine):
    table, expected = ENGINES[engine](people()), by_hand(people())
    found = table_counts.counted_tables(table, DECLARED, FAMILIES, ROWS, "substitute")
    for name, array in expected.items():
        np.testing.assert_array_equal(found.counts[name], array)
    assert [f.dims for f in found.families] == [tuple(names) for names in FAMILIES.values()]


def test_a_release_of_a_table_is_that_of_its_counts():
    import xarray as xr

    coords = {
        "region": DECLARED["region"],
        "age": list(DECLARED["age"].labels),
        "ill": DECLARED["ill"],
    }
    counts = {
        name: xr.DataArray(
            array, dims=FAMILIES[name], coords={d: coords[d] for d in FAMILIES[name]}
        )
        for name, array in by_hand(people()).items()
    }
    lazy = pl.from_pandas(people()).lazy()
    for verb in (pmp.counts.noisy_counts, pmp.dirichlet):
        one, own = released(verb, counts=counts, random_seed=4)
        other, found = released(verb, data=lazy, n=ROWS, random_seed=4, **WORDS)
        assert own.keys() == found.keys()
        for name, array in own.items():
            np.testing.assert_array_equal(found[name], array)
        assert one.facts["model"] == other.facts["model"]


def test_a_table_is_charged_once_and_named():
    book = pmp.Ledger(epsilon=1, delta=1e-6)
    words = {"data": duckdb.from_df(people()), "categories": DECLARED, "ledger": book, "name": "a"}
    first = released(**words)[1]["p"]
    assert first.shape == (1, 1, 3, 3, 2)
    np.testing.assert_array_equal(released(**words)[1]["p"], first)
    assert len(book.entries) == 1


def test_under_add_remove_the_number_of_rows_is_protected():
    words = {"data": people(), "categories": DECLARED, "neighbors": "add_remove"}
    book = pmp.Ledger(epsilon=1, delta=1e-6, neighbors="add_remove")
    found, _ = released(ledger=book, **words)
    assert "total" not in found.facts["counts"]
    with pytest.raises(DomainError, match="which is protected here"):
        released(n=ROWS, **words)


def changed(column, value):
    frame = people()
    frame[column] = frame[column].astype(object)
    frame.loc[7, column] = value
    return frame.astype({"ill": "Int64"}) if column == "ill" else frame


@pytest.mark.parametrize("engine", ["pandas", "lazy polars", "duckdb", "dataset", "dask"])
@pytest.mark.parametrize(
    ("table", "words", "match"),
    [
        (changed("region", "secret"), {}, "'region' holds a value that was not declared"),
        (changed("region", None), {}, "'region' holds a value that was not declared"),
        (changed("ill", 77), {}, "'ill' holds a value that was not declared"),
        (changed("ill", None), {}, "'ill' holds a value that was not declared"),
        (people().assign(age=np.nan), {}, "'age' holds a value that was not declared"),
        (people().drop(columns="ill"), {}, "do not have"),
        (people(ROWS - 1), {"n": ROWS}, "another number of rows"),
    ],
)
def test_what_is_refused_costs_nothing_and_is_not_quoted(engine, table, words, match):
    if engine == "dataset":
        given = ds.dataset(pa.Table.from_pandas(table, preserve_index=False))
    else:
        given = ENGINES[engine](table)
    book = pmp.Ledger(epsilon=1, delta=1e-6)
    with pytest.raises(DomainError, match=match) as caught:
        released(data=given, categories=DECLARED, ledger=book, **words)
    assert not book.entries
    assert "secret" not in str(caught.value)
    assert "77" not in str(caught.value)


@pytest.mark.parametrize(
    ("words", "match"),
    [
        ({"data": [[1, 2]], "categories": DECLARED}, "data frame"),
        ({"data": people()}, "declared, not learned"),
        ({"data": people(), "categories": {"ill": "auto"}}, "declared, not learned"),
        ({"data": people(), "categories": {"draw": [0, 1]}}, "names of their own"),
        ({"data": people(), "categories": DECLARED, "tables": ["ill"]}, "tables= names"),
        ({"data": people(), "categories": DECLARED, "tables": {"a": ["x"]}}, "declared columns"),
        ({"data": people(), "categories": DECLARED, "tables": {"a": ["ill", "ill"]}}, "each once"),
        ({"data": people(), "categories": DECLARED, "n": 0.5}, "public number of rows"),
        ({"data": people(), "categories": {f"x{k}": range(50) for k in range(6)}}, "memory"),
        ({"counts": [1, 2], "n": 3}, "no table is given"),
        ({"counts": [1, 2], "data": people()}, "counts and a table"),
    ],
)
def test_what_is_no_table_or_not_declared_is_refused(words, match):
    with pytest.raises(DomainError, match=match):
        released(**words)


def test_other_rows_for_another_family_are_refused(monkeypatch):
    def changing(*_):
        return {"ill": np.array([1.0, 2]), "both": np.array([[1.0, 1], [1, 1]])}

    monkeypatch.setattr(counting, "count_tables", changing)
    tables = {"ill": ["ill"], "both": ["region", "ill"]}
    declared = {"ill": [0, 1], "region": ["north", "south"]}
    with pytest.raises(Incompatible, match="other rows for one family"):
        released(data=people(), categories=declared, tables=tables, neighbors="add_remove")


@pytest.mark.filterwarnings("ignore:.*PyArrow.*", "ignore::DeprecationWarning")
@pytest.mark.parametrize("missing", [np.nan, None])
def test_what_is_no_number_lies_in_no_bin(missing):
    """Also where an engine takes NaN for the largest number, and not for a null."""
    table = pa.table({"age": pa.array([17.0, missing], from_pandas=False)})
    frames = pl.from_arrow(table), pl.from_arrow(table).lazy(), duckdb.from_arrow(table)
    for one in (*frames, table, ds.dataset(table)):
        with pytest.raises(DomainError, match="'age' holds a value that was not declared"):
            table_counts.counted_tables(one, {"age": DECLARED["age"]}, None, None, "substitute")


def test_groups_that_were_not_all_fetched_are_refused(monkeypatch):
    """An engine that makes two groups of one category."""
    column = counting.DeclaredColumn("x", (0, 1))
    groups = iter([("x", [(0, 3), (0, 2), (1, 1)])])
    monkeypatch.setattr(counting, "_by_groups", lambda *_: groups)
    with pytest.raises(DomainError, match="not declared"):
        counting.count_tables(pl.DataFrame({"x": [0]}), {"x": ("x",)}, {"x": column})


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_spark_counts_a_table_too(monkeypatch):
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.getOrCreate()
    try:
        table = session.createDataFrame(people())
        found = table_counts.counted_tables(table, DECLARED, FAMILIES, ROWS, "substitute")
        for name, array in by_hand(people()).items():
            np.testing.assert_array_equal(found.counts[name], array)
        assert not session.catalog.listTables()
    finally:
        session.stop()
