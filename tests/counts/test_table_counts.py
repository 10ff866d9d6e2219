"""Releases of counts of a table: as of its counts in memory, whatever the engine."""

from __future__ import annotations

import shutil
import sys
from datetime import date, datetime
from decimal import Decimal

import dask.dataframe as dd
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import pymc_private as pmp
from pymc_private.counts import Bins, counting, table_counts
from pymc_private.errors import BudgetExceeded, DomainError, Incompatible, Unsupported

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
        ({"data": people(), "categories": {"draw": [0, 1]}}, "name of an axis of the draws"),
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
    words = {"data": people(), "categories": declared, "neighbors": "add_remove"}
    book = pmp.Ledger(epsilon=1, delta=1e-6, neighbors="add_remove")
    with pytest.raises(Incompatible, match="other rows for one family"):
        released(tables=tables, ledger=book, **words)


@pytest.mark.filterwarnings("ignore:.*PyArrow.*", "ignore::DeprecationWarning")
@pytest.mark.parametrize("missing", [np.nan, None])
def test_what_is_no_number_lies_in_no_bin(missing):
    """Also where an engine takes NaN for the largest number, and not for a null."""
    table = pa.table({"age": pa.array([17.0, missing], from_pandas=False)})
    frames = pl.from_arrow(table), pl.from_arrow(table).lazy(), duckdb.from_arrow(table)
    for one in (*frames, table, ds.dataset(table)):
        with pytest.raises(DomainError, match="'age' holds a value that was not declared"):
            counted(one, {"age": DECLARED["age"]})


def test_groups_that_were_not_all_fetched_are_refused(monkeypatch):
    """An engine that makes two groups of one category."""
    column = counting.DeclaredColumn("x", (0, 1))
    groups = iter([("x", [(0, 3), (0, 2), (1, 1)])])
    monkeypatch.setattr(counting, "_by_groups", lambda *_: groups)
    with pytest.raises(DomainError, match="not declared"):
        counting.count_tables(pl.DataFrame({"x": [0]}), {"x": ("x",)}, {"x": column})


@pytest.mark.parametrize("verb", [pmp.counts.noisy_counts, pmp.dirichlet])
def test_the_ledger_is_asked_before_a_table_is_read(verb, monkeypatch):
    read, count = [], counting.count_tables
    monkeypatch.setattr(counting, "count_tables", lambda *a: read.append(1) or count(*a))
    words = {"data": people(), "categories": DECLARED, "n": ROWS, "verb": verb}
    spent = pmp.Ledger(epsilon=0.5, delta=1e-6)
    with pytest.raises(BudgetExceeded):
        released(ledger=spent, **words)
    assert not read
    assert not spent.entries
    book = pmp.Ledger(epsilon=1, delta=1e-6)
    first = released(ledger=book, name="a", **words)[1]["p"]
    again = released(ledger=book, name="a", **words)[1]["p"]  # what was paid for
    np.testing.assert_array_equal(first, again)
    assert read == [1]


def test_a_name_belongs_to_its_bins_and_to_the_units_that_were_checked():
    """Households may own more rows than persons; labels say edges that differ late."""
    table = people(200).assign(person=np.arange(200), household=0)
    words = {"data": table, "n": 200, "name": "a", "ledger": pmp.Ledger(epsilon=3, delta=1e-5)}
    edges = {"age": Bins([18.0000001])}
    released(categories=edges, id="person", **words)
    released(categories=edges, id="person", **words)
    for other in ({"id": "household"}, {}, {"id": "person", "categories": {"age": Bins([18])}}):
        with pytest.raises(Incompatible, match="belongs to another charge"):
            released(**({"categories": edges} | other), **words)
    assert len(words["ledger"].entries) == 1


def test_errors_of_an_engine_are_not_quoted():
    table = pl.LazyFrame({"age": ["17", "my secret"], "ill": [0, 1]}).cast({"age": pl.Int64})
    table = table.filter(pl.col("age") > 0)
    book = pmp.Ledger(epsilon=1, delta=1e-6)
    for words in ({"n": 2}, {}, {"n": 2, "id": "age"}):
        with pytest.raises(DomainError, match="engine") as caught:
            released(data=table, categories={"ill": [0, 1]}, ledger=book, **words)
        assert "secret" not in str(caught.value)
        assert caught.value.__context__ is None
    assert not book.entries


UNITS = ["pandas", "lazy polars", "duckdb", "pyarrow", "dataset", "dask"]


@pytest.mark.filterwarnings("ignore:.*PyArrow.*", "ignore::DeprecationWarning")
@pytest.mark.parametrize("engine", UNITS)
def test_a_unit_with_more_rows_than_declared_is_refused_and_costs_nothing(engine):
    own = people(300)
    words = {"categories": {"ill": [0, 1]}, "id": "person", "records_per_unit": 2}
    book = pmp.Ledger(epsilon=2, delta=1e-6)
    for rows, match in ((3, "owns more rows"), (2, None)):
        table = ENGINES[engine](own.assign(person=np.arange(300) // rows))
        if match is None:
            assert released(data=table, ledger=book, **words)[0].private
            continue
        with pytest.raises(DomainError, match=match):
            released(data=table, ledger=book, **words)
        assert not book.entries
    nameless = own.assign(person=[np.nan, *map(float, range(1, 300))])
    with pytest.raises(DomainError, match="rows without a unit"):
        released(data=ENGINES[engine](nameless), ledger=book, **words)


@pytest.mark.parametrize("neighbors", ["substitute", "add_remove"])
@pytest.mark.parametrize("budget", [{"epsilon": 1, "delta": 0}, {"zcdp": 0.1, "delta": 1e-6}])
def test_noise_for_units_covers_all_that_their_rows_change(neighbors, budget):
    """k rows of one cell that all move to another change most."""
    words = {
        "neighbors": neighbors,
        "ledger": pmp.Ledger(epsilon=9, delta=1e-5, neighbors=neighbors),
    }
    counts = {"a": [60, 40], "b": [30, 70]}
    found = pmp.counts.noisy_counts(counts, records_per_unit=3, **budget, **words)
    change = 3 * np.concatenate([[-1, 1] if neighbors == "substitute" else [0, 1]] * 2)
    scale = found.facts["counts"]["scale"]
    if "epsilon" in budget:
        assert np.abs(change).sum() / scale <= 1
        assert found.guarantee.pure_epsilon <= 1
    else:
        rho = (change**2).sum() / (2 * scale**2)
        assert rho <= found.guarantee.zcdp <= 0.1
    assert "a unit owns at most 3 records" in found.guarantee.assumptions
    assert found.facts["counts"]["records_per_unit"] == 3


@pytest.mark.parametrize(
    "words", [{"method": "exact"}, {"prior": 1.0}, {"unit": "attribute", "method": "noisy"}]
)
def test_what_has_no_price_for_units_is_refused(words):
    book = pmp.Ledger(
        epsilon=9, delta=1e-5, neighbors="attribute" if "unit" in words else "substitute"
    )
    with pytest.raises(Unsupported, match=r"one record only|single record"):
        pmp.dirichlet([60, 40], epsilon=1, delta=1e-6, records_per_unit=2, ledger=book, **words)
    found = pmp.dirichlet([60, 40], epsilon=1, delta=1e-6, records_per_unit=2, random_seed=1)
    assert found.facts["counts"]["method"] == "noisy"


BIG = 2**53
DAY = date(2020, 1, 1)
REFUSED = "refused"
VALUES = {  # a column, what is declared, and counts
    "bool of 0 and 1": ([True, False, True, True], [0, 1], [1, 3]),
    "minus zero": ([0.0, -0.0, 1.0, 1.0], [0, 1], [2, 2]),
    "minus zero in bins": ([0.0, -0.0, 1.0, 1.0], Bins([0]), [2, 2]),
    "long in bins": ([1, 1, 1, BIG + 1], Bins([0]), REFUSED),
    "long decimals in bins": ([Decimal(1)] * 3 + [Decimal(BIG + 1)], Bins([0]), REFUSED),
    "dates in bins": ([DAY] * 4, Bins([5]), REFUSED),
    "n_records": (["a", "b", "a", "a"], ["a", "b"], [3, 1]),
}
MORE_VALUES = {
    "0 and 1 as bool": ([0, 1, 1, 1], [False, True], [1, 3]),
    "decimals in bins": ([Decimal("-1.5"), *[Decimal("2.0")] * 3], Bins([0]), [1, 3]),
    "bool in bins": ([True, False, True, True], Bins([0.5]), [1, 3]),
    "long": ([BIG, BIG + 1, BIG, BIG + 1], [BIG, BIG + 1], [2, 2]),
    "long that is no double": ([float(BIG)] * 4, [BIG, BIG + 1], [4, 0]),
    "times in bins": ([datetime(2020, 1, 1)] * 4, Bins([5]), REFUSED),
    "text in bins": (["1", "2", "1", "1"], Bins([1.5]), REFUSED),
    "1 and text 1": ([1, 1, 1, 1], [1, "1"], REFUSED),
    "dates": ([DAY, DAY, date(2021, 1, 1), DAY], [DAY, date(2021, 1, 1)], [3, 1]),
    "decimals": ([Decimal("1.5")] * 3 + [Decimal("2.0")], [1.5, 2], [3, 1]),
    "missing by name": (["a", None, "a", "a"], ["a", None], [3, 1]),
    "NaN by name": ([np.nan, 1.0, 1.0, 1.0], [np.nan, 1.0], REFUSED),
    "NaN as missing": ([np.nan, 1.0, 1.0, 1.0], [None, 1.0], [1, 3]),
    "which": (["a", "b", "a", "a"], ["a", "b"], [3, 1]),
}
SLOW = [pytest.param(name, marks=pytest.mark.audit) for name in MORE_VALUES]


def tables_of(values, name):
    """A column in every engine."""
    arrow = pa.table({name: pa.array(values, from_pandas=False)})
    plain = pd.DataFrame({name: values})
    return {
        "pandas": plain, "arrow in pandas": arrow.to_pandas(types_mapper=pd.ArrowDtype),
        "polars": pl.from_arrow(arrow), "lazy polars": pl.from_arrow(arrow).lazy(),
        "duckdb": duckdb.from_arrow(arrow), "pyarrow": arrow, "dataset": ds.dataset(arrow),
        "dask": dd.from_pandas(plain, npartitions=2),
    }  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*PyArrow.*", "ignore::DeprecationWarning")
@pytest.mark.parametrize("case", [*VALUES, *SLOW])
def test_engines_agree_on_what_a_value_is(case):
    values, declared, expected = (VALUES | MORE_VALUES)[case]
    name = case if case in ("n_records", "which") else "x"
    for engine, table in tables_of(values, name).items():
        text = engine == "dask" and case in ("dates", "decimals", "decimals in bins")
        if expected == REFUSED or text:  # Dask has made text of it
            with pytest.raises(DomainError, match="text" if text else "x") as caught:
                counted(table, {name: declared})
            assert "the engine could not count" not in str(caught.value), engine
            continue
        assert counted(table, {name: declared}).tolist() == expected, engine


def twice():
    """Tables with two columns of one name, by engine."""
    arrow = pa.table([[1, 3], [2, 4]], names=["x", "x"])
    plain = pd.DataFrame([[1, 2], [3, 4]], columns=["x", "x"])
    pair = duckdb.sql("select 1 as x, 2 as z")
    return {
        "pandas": plain, "pyarrow": arrow, "dataset": ds.InMemoryDataset(arrow),
        "duckdb": pair.project("x, z as x"), "dask": dd.from_pandas(plain, npartitions=1),
    }  # fmt: skip


@pytest.mark.parametrize("engine", ["pandas", "pyarrow", "dataset", "duckdb", "dask"])
def test_two_columns_of_one_name_are_refused(engine):
    with pytest.raises(DomainError, match="names of their own") as caught:
        counted(twice()[engine], {"x": [1, 2, 3, 4]})
    assert caught.value.got == "x twice"


def counted(table, declared):
    return table_counts.counted_tables(table, declared, None, None, "substitute").counts["p"]


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
