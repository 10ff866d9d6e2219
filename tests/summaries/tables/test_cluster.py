"""Checks and sums on workers: the same bits, nothing double; workers that differ are refused."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import sys
from functools import cache, lru_cache

import dask.dataframe as dd
import narwhals as nw
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError, Incompatible
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries.noise import LatticeNoise
from pymc_private.summaries.tables import cluster, table_records
from pymc_private.summaries.tables.read_table import records_of_table
from pymc_private.summaries.tables.table_batches import DaskTable, SparkTable
from pymc_private.summaries.weighted_sums import BoundedSum, WeightedSums
from tests.summaries.tables.table_models import frame, placeholders, split_plan

ROWS = 4000


def records(table, **words):
    return records_of_table(
        split_plan().private, table, None, "person", split_plan().mechanism.part, seed=3
    )


def released(table):
    noise = LatticeNoise(SeededRandomness.from_seed(5))
    return split_plan().mechanism.release(records(table), noise)


@cache
def expected():
    return released(frame(ROWS))


def assert_equal(found):
    for name, value in expected().items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_workers_give_the_same_sums_to_the_bit(monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    table = dd.from_pandas(frame(ROWS).sample(frac=1.0, random_state=1), npartitions=3)
    reads = []
    monkeypatch.setattr(type(records(table).table), "batches", lambda *_: reads.append(1))
    assert_equal(released(table))
    assert not reads  # no rows but those of pilots come to this process


def test_what_workers_refuse_is_refused_here():
    table = dd.from_pandas(frame(ROWS).assign(age=np.nan), npartitions=3)
    with pytest.raises(DomainError, match="missing or infinite"):
        records(table).check()


def test_workers_that_round_otherwise_are_refused(monkeypatch):
    made = cluster.CheckedPart(arithmetic="numpy 1.0, another machine")
    with pytest.raises(Incompatible, match="compute otherwise"):
        cluster.results([pickle.dumps(made)])
    assert cluster.results([pickle.dumps(cluster.CheckedPart())])[0].reading.rows == 0
    cluster.arithmetic.cache_clear()
    monkeypatch.setattr(pmp, "__version__", "0.0.1")  # of a worker
    older = pickle.dumps(cluster.CheckedPart())
    monkeypatch.undo()
    cluster.arithmetic.cache_clear()
    with pytest.raises(Incompatible, match="compute otherwise"):
        cluster.results([older])


def test_a_partition_that_is_counted_twice_is_seen():
    """A scheduler that gave a part twice would not be believed."""
    table = dd.from_pandas(frame(ROWS), npartitions=3)
    one = records(table)
    one.check()
    once = type(one.table).on_workers

    def twice(*arguments):
        found = once(*arguments)
        return [*found, found[0]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(one.table), "on_workers", twice)
        with pytest.raises(Incompatible, match="other rows than the first time"):
            split_plan().mechanism.release(one, LatticeNoise(SeededRandomness.from_seed(5)))


def test_a_table_without_partitions_has_no_rows(monkeypatch):
    """An empty frame of Spark, which must not fail after the charge."""
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    monkeypatch.setattr(DaskTable, "on_workers", lambda *_: [])
    table = dd.from_pandas(frame(0), npartitions=1)
    made = placeholders(neighbors="add_remove")
    found = records_of_table(made, table, None, "person")
    assert len(found) == 0
    assert found.sum_up(lambda chunk, count: [[count, 7]], 16) == [[0, 7]]
    sums = WeightedSums([BoundedSum(1.0, False, 0.5)], 229)
    part = split_plan().mechanism.part
    split = records_of_table(made, table, None, "person", part, seed=3)
    added = split.add_up(lambda c: (c[1][: c[2]], [np.ones((c[2], 2))]), sums, 16, part.threshold)
    assert added.totals == [[0, 0]]


class Killed:
    """Terms whose worker dies the first time that it computes some."""

    def __init__(self, terms, mark):
        self.terms, self.mark = terms, mark

    def __call__(self, chunk):
        try:
            os.close(os.open(self.mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return self.terms(chunk)
        os.kill(os.getpid(), signal.SIGKILL)


def kill_once(monkeypatch, mark):
    """The first worker that adds up terms is killed."""
    made = cluster.SumPart

    def killed(reader, terms, sums, size):
        return made(reader, Killed(terms, str(mark)), sums, size)

    monkeypatch.setattr(table_records, "SumPart", killed)


@pytest.mark.audit
def test_the_terms_of_a_killed_dask_worker_are_counted_once(tmp_path, monkeypatch):
    from distributed import Client, LocalCluster

    frame(ROWS).to_parquet(tmp_path / "a.parquet")
    kill_once(monkeypatch, tmp_path / "killed")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as made,
        Client(made),
    ):
        table = dd.read_parquet(tmp_path / "a.parquet").repartition(npartitions=4)
        assert_equal(released(table))
    assert (tmp_path / "killed").exists()


@pytest.fixture
def spark(monkeypatch):
    """A local Spark session, where there are PySpark and Java."""
    pytest.importorskip(
        "pyspark", reason="PySpark is not installed: pip install pymc-private[spark]"
    )
    if shutil.which("java") is None:
        pytest.skip("Spark needs Java: apt-get install default-jre-headless")
    from pyspark.sql import SparkSession

    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.task.maxFailures": "4",
    }
    builder = SparkSession.builder.master("local[2,4]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_same_sums_to_the_bit(spark, tmp_path):
    frame(ROWS).to_parquet(tmp_path / "a.parquet")
    assert_equal(released(spark.read.parquet(str(tmp_path / "a.parquet"))))


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_spark_gives_the_same_sums_to_the_bit_also_of_a_killed_task(spark, tmp_path, monkeypatch):
    frame(ROWS).to_parquet(tmp_path / "a.parquet")
    table = spark.read.parquet(str(tmp_path / "a.parquet")).repartition(3)
    assert_equal(released(table))
    kill_once(monkeypatch, tmp_path / "killed")
    assert_equal(released(table))
    assert (tmp_path / "killed").exists()
    book = pmp.Ledger(epsilon=1, delta=1e-6)
    summary = pmp.summarize(split_plan(), data=table, id="person", ledger=book, progressbar=False)
    assert summary.private
    assert len(book.entries) == 1
    doubled = table.withColumn("person", table.person % 2000)
    with pytest.raises(DomainError, match="owns more rows"):
        pmp.summarize(
            split_plan(), data=doubled, id="person", ledger=pmp.Ledger(epsilon=1, delta=1e-6)
        )


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_workers_of_spark_get_every_type_of_column(spark):
    table = spark.range(5).selectExpr(
        "cast(id as double) `per cent`", "id whole", "id > 2 large",
        "concat('person ', id) name", "if(id = 3, null, cast(id as float) / 4) missing",
        "cast(id as decimal(20, 0)) exact",
    )  # fmt: skip
    names = ["per cent", "missing", "whole", "large", "name", "exact"]

    def read(work, batches):
        rows = [zip(*(np.asarray(batch[n]).tolist() for n in names), strict=True)
                for batch in batches]  # fmt: skip
        return pickle.dumps([row for part in rows for row in part])

    parts = SparkTable(nw.from_native(table)).on_workers(names, b"", read)
    found = [row for part in parts for row in pickle.loads(part)]
    assert sorted(row[2] for row in found) == [0, 1, 2, 3, 4]
    for number, missing, whole, large, name, exact in found:
        assert (number, large, name, exact) == (whole, whole > 2, f"person {whole}", whole)
        assert np.isnan(missing) if whole == 3 else missing == whole / 4


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_small_tables_of_spark_come_as_batches(spark):
    from tests.summaries.tables.table_models import NAMES

    given = frame(300)
    rows = [tuple(map(float, row)) for row in given[[*NAMES, "y"]].to_numpy()]
    table = spark.createDataFrame(rows, [*NAMES, "y"]).selectExpr(*NAMES, "cast(y as int) y")
    found = records_of_table(placeholders(300), table, None, None)
    found.check()
    read = np.sort(np.concatenate([chunk["y"][:n] for chunk, n in found.chunks(64)]))
    np.testing.assert_array_equal(read, np.sort(given.y))


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_checks_and_cells_of_spark_are_those_of_pandas_to_the_bit(spark, monkeypatch):
    from pymc_private.criticism.charged_check import noisy_sums
    from pymc_private.summaries.cells.cell_mechanism import CellCounts
    from tests.summaries.tables.table_models import BUDGET, NAMES, coin
    from tests.summaries.tables.test_further_releases import check_plan, noise

    given, plan = frame(ROWS), check_plan()
    counted = pmp.calibrate(coin(ROWS), release="summary", method="cells", **BUDGET)
    rows = [tuple(map(float, row)) for row in given[[*NAMES, "y"]].to_numpy()]
    table = spark.createDataFrame(rows, [*NAMES, "y"]).selectExpr(*NAMES, "cast(y as int) y")
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    found = []
    for one in (given, table.repartition(3)):
        sums = noisy_sums(plan, records_of_table(plan.private, one, None, None), noise())
        cells = records_of_table(counted.private, one, None, None)
        told: list[float] = []
        cells.told = told.append
        found.append([*sums, *cells.sum_up(CellCounts(counted.mechanism.partition), 512)])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def grouped(n):
    """Groups of a table, and whole records of two answers."""
    with pm.Model(coords={"person": range(6)}) as groups:
        g = pm.Data("g", np.arange(6) % 3, dims="person")
        eta = pm.Normal("a", 0, 1, shape=3)[g]
        pm.Bernoulli("y", logit_p=eta, observed=[0, 1] * 3, dims="person")
    labels = {"g": pmp.Categories(range(3))}
    with pm.Model(coords={"person": range(6), "answer": ["z0", "z1"]}) as answers:
        mean = pm.Normal("m", 0, 1, shape=2)
        pm.Normal("z", mean, 1.0, observed=np.zeros((6, 2)), dims=("person", "answer"))
    return [
        (pmp.privatize(groups, records="person", domain=labels, n=n), "scores", None),
        (
            pmp.privatize(answers, records="person", domain={"z": (-4, 4)}, n=n),
            "records",
            {"z": ["z0", "z1"]},
        ),
    ]


@pytest.mark.audit
@pytest.mark.parametrize("which", [0, 1])
def test_no_rows_travel_for_groups_and_whole_records(which, monkeypatch):
    """Twelve stages and nine: workers add up each, with one graph for all of them."""
    n = 600
    rng = np.random.default_rng(1)
    own = pd.DataFrame({"g": rng.integers(3, size=n), "y": rng.integers(2, size=n)})
    own = own.assign(z0=rng.normal(size=n), z1=rng.normal(size=n))
    private, method, columns = grouped(n)[which]
    plan = pmp.calibrate(private, release="summary", method=method, epsilon=2, delta=1e-6)
    found, unpacked = [], []
    common = cluster._common.__wrapped__
    for table in (own, dd.from_pandas(own, npartitions=3)):
        monkeypatch.setattr(table_records, "MOST_KEPT", 0)
        made = records_of_table(private, table, columns, None)
        made.check(plan.mechanism.trial_work)
        if made.reads_on_workers:
            monkeypatch.setattr(type(made.table), "batches", None)  # rows that would travel
            counted = lambda given: unpacked.append(1) or common(given)  # noqa: E731
            monkeypatch.setattr(cluster, "_common", lru_cache(maxsize=2)(counted))
        noise = LatticeNoise(SeededRandomness.from_seed(5))
        found.append(plan.mechanism.release(made, noise))
    for name, value in found[0].items():
        np.testing.assert_array_equal(found[1][name], value, err_msg=name)
    assert unpacked == [1]
