"""Counting: the same tables from every engine, and nothing that was not declared."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from pymc_private.counts.counting import count_tables
from pymc_private.counts.declared_columns import Bins, declare_column
from pymc_private.errors import DomainError

COLUMNS = {
    "sex": declare_column("sex", ["f", "m"]),
    "age": declare_column("age", Bins([20, 40.5, 65])),
    "code": declare_column("code", [3, 1, 2]),
    "smoker": declare_column("smoker", [True, False]),
}
FAMILIES = {
    "sex": ("sex",), "age": ("sex", "age"), "code": ("age", "sex", "code"),
    "smoker": ("smoker",), "back": ("age", "sex"),
}  # fmt: skip


def people(n=400):
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n), "age": rng.choice([20.0, 20.1, 33, 40.5, 70], n),
            "code": rng.choice([1, 3], n), "smoker": rng.random(n) < 0.3,
            "other": rng.normal(size=n),
        }
    )  # fmt: skip


def by_hand(frame):
    age = np.searchsorted([20, 40.5, 65], frame["age"])
    sex = (frame["sex"] == "m").to_numpy().astype(int)
    code = frame["code"].map({3: 0, 1: 1, 2: 2}).to_numpy()
    out = {name: np.zeros([COLUMNS[c].size for c in FAMILIES[name]]) for name in FAMILIES}
    for s, a, c, k in zip(sex, age, code, ~frame["smoker"], strict=True):
        out["sex"][s] += 1
        out["age"][s, a] += 1
        out["code"][a, s, c] += 1
        out["smoker"][int(k)] += 1
        out["back"][a, s] += 1
    return out


def lazy_polars(frame):
    return pytest.importorskip("polars").from_pandas(frame).lazy()


def eager_polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


def pyarrow(frame):
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def duckdb(frame):
    return pytest.importorskip("duckdb").connect().from_df(frame)


def dask(frame):
    return pytest.importorskip("dask.dataframe").from_pandas(frame, npartitions=3)


def categorical(frame):
    return frame.assign(sex=pd.Categorical(frame["sex"], categories=["x", "m", "f"]))


ENGINES = [lambda frame: frame, categorical, eager_polars, lazy_polars, pyarrow, duckdb]


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_counts_the_same(engine):
    frame = people()
    found, expected = count_tables(engine(frame), FAMILIES, COLUMNS), by_hand(frame)
    for name in FAMILIES:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("engine", [lambda frame: frame, eager_polars, duckdb])
@pytest.mark.parametrize(
    "fault", ["unknown text", "missing text", "missing number", "unknown code"]
)
def test_what_was_not_declared_is_refused_and_not_quoted(engine, fault):
    frame = people()
    column, value = {
        "unknown text": ("sex", "secret"), "missing text": ("sex", None),
        "missing number": ("age", np.nan), "unknown code": ("code", 77),
    }[fault]  # fmt: skip
    frame.loc[7, column] = value
    with pytest.raises(DomainError, match=column) as caught:
        count_tables(engine(frame), FAMILIES, COLUMNS)
    assert "secret" not in str(caught.value)
    assert "77" not in str(caught.value)


def test_columns_that_are_not_there_and_data_that_are_no_frame():
    with pytest.raises(DomainError, match="sex"):
        count_tables(people().drop(columns="sex"), FAMILIES, COLUMNS)
    with pytest.raises(DomainError):
        count_tables([[1, 2]], FAMILIES, COLUMNS)


def test_no_records_are_no_counts():
    found = count_tables(people().head(0), FAMILIES, COLUMNS)
    assert all(table.sum() == 0 for table in found.values())


LEARNED = [None, "auto", 5, 3.2, np.random.default_rng, ["a"], ["a", "a"], [], object()]


@pytest.mark.parametrize("spec", LEARNED)
def test_categories_are_never_learned(spec):
    with pytest.raises(DomainError):
        declare_column("x", spec)


@pytest.mark.parametrize("edges", [[], [1, 1], [2, 1], [np.nan], [np.inf], [[1, 2]]])
def test_bins_have_increasing_edges(edges):
    with pytest.raises(DomainError):
        Bins(edges)


def test_bins_are_named_and_values_on_an_edge_go_down():
    column = declare_column("x", Bins([0, 10]))
    assert column.values == ("<= 0", "(0, 10]", "> 10")
    codes = column.encode(np.array([-1.0, 0.0, 0.1, 10.0, 11.0, np.inf, -np.inf, np.nan]))
    assert codes.tolist() == [0, 0, 1, 1, 2, 2, 0, -1]
    with pytest.raises(DomainError):
        column.encode(np.array(["a"]))


@pytest.mark.parametrize("kind", ["uint8", "uint64", "int8", "int64", "float64", "object"])
def test_whole_numbers_of_any_kind_are_their_own_places(kind):
    column = declare_column("x", (0, 1, 2))
    assert column.encode(np.array([2, 0, 3, 100], kind)).tolist() == [2, 0, -1, -1]
    hidden = np.ma.masked_array(np.array([1, 2]), [False, True])
    assert column.encode(hidden).tolist()[0] == 1


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_dask_counts_the_same():
    frame = people()
    found, expected = count_tables(dask(frame), FAMILIES, COLUMNS), by_hand(frame)
    for name in FAMILIES:
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_a_real_local_spark_counts_the_same():
    import shutil

    sql = pytest.importorskip("pyspark.sql", reason="PySpark has no wheel; install the extra spark")
    if shutil.which("java") is None:
        pytest.skip("PySpark needs Java, and there is none")
    session = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = session.getOrCreate()
    try:
        frame = people()
        found = count_tables(spark.createDataFrame(frame), FAMILIES, COLUMNS)
        for name, expected in by_hand(frame).items():
            np.testing.assert_array_equal(found[name], expected)
    finally:
        spark.stop()
