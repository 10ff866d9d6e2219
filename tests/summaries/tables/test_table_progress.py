"""Bars of the readings of a table: in percent, by batches and by partitions, and silent if told."""

from __future__ import annotations

from contextlib import contextmanager
from time import sleep
from types import SimpleNamespace

import dask.dataframe as dd
import pandas as pd
import pytest

import pymc_private as pmp
from pymc_private.summaries.tables import table_progress, table_records
from pymc_private.summaries.tables.read_table import records_of_table
from pymc_private.summaries.tables.table_progress import READING, collected, reading_bars
from tests.summaries.tables.table_models import BUDGET, coin

ROWS = 1000


@pytest.fixture
def bars(monkeypatch):
    """What every bar was told, by its text; batches of 100 rows."""
    told: dict[str, list[int]] = {}

    @contextmanager
    def recorded(show):
        def bar(what, total):
            assert show
            return told.setdefault(what, []).append

        yield bar if show else lambda what, total: lambda done: None

    monkeypatch.setattr(table_progress, "progress_bars", recorded)
    monkeypatch.setattr(table_records, "ROWS", 10)
    monkeypatch.setattr("pymc_private.summaries.tables.table_batches.ROWS", 100)
    return told


def records(table, **words):
    return records_of_table(coin(ROWS, **words), table, None, None)


def tosses(n=ROWS):
    return pd.DataFrame({"y": [0, 1] * (n // 2)})


def test_a_reading_is_told_by_batches(bars):
    made = records(tosses())
    with reading_bars([made, None], True, 2, "summary") as stages:
        made.check()
        stages(1)
    assert bars == {READING: [*range(10, 101, 10)], "summary": [1]}
    made.check()
    assert len(bars[READING]) == 10  # nobody asks any more
    with reading_bars([made], True):
        assert sum(count for _, count in made.chunks(500)) == ROWS
    assert bars[READING][10:] == [50, 100]


def test_a_protected_number_of_rows_is_not_told(bars):
    """A guess of 1,000 rows, of which there are fewer or more: percents of what is known."""
    for count in (100, 4000):
        made = records(tosses(count), neighbors="add_remove")
        with reading_bars([made], True):
            made.check()
    assert max(bars[READING]) == 100


def test_partitions_of_dask_are_told(bars, monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    made = records(dd.from_pandas(tosses(), npartitions=4))
    with reading_bars([made], True):
        made.check()
    assert bars[READING] == [25, 50, 75, 100]


def test_an_error_ends_the_bars(bars):
    made = records(tosses(ROWS - 2))
    with pytest.raises(pmp.errors.DomainError, match="another number"), reading_bars([made], True):
        made.check()
    assert made.told is None


def test_no_bar_where_none_is_asked_for(bars):
    plan = pmp.calibrate(coin(ROWS), release="summary", method="cells", **BUDGET)
    for show, texts in ((False, set()), (True, {READING, "noisy summary"})):
        book = pmp.Ledger(epsilon=1, delta=1e-5)
        pmp.summarize(plan, data=tosses(), ledger=book, progressbar=show)
        assert set(bars) == texts


def test_tasks_of_spark_are_told(monkeypatch):
    """While it collects: of the stages of its own job, not of another's."""
    stages = {1: SimpleNamespace(numTasks=3, numCompletedTasks=1), 2: None}
    stages[3] = SimpleNamespace(numTasks=99, numCompletedTasks=0)
    jobs = {7: SimpleNamespace(stageIds=[1, 2]), 8: SimpleNamespace(stageIds=[3])}
    groups, own = {"another": [8]}, {"spark.jobGroup.id": "another"}
    tracker = SimpleNamespace(
        getJobIdsForGroup=lambda group: groups.get(group, []),
        getJobInfo=jobs.get,
        getStageInfo=stages.get,
    )
    context = SimpleNamespace(
        statusTracker=lambda: tracker,
        getLocalProperty=own.get,
        setLocalProperty=own.__setitem__,
        setJobGroup=lambda group, _: (
            own.update({"spark.jobGroup.id": group}),
            groups.update({group: [7]}),
        ),
    )
    told: list[float] = []

    class Frame:
        sparkSession = SimpleNamespace(sparkContext=context)  # noqa: N815

        def collect(self):
            for _ in range(1000 if self.sparkSession else 0):
                if told:
                    break
                sleep(0.01)
            return ["row"]

    monkeypatch.setattr(table_progress, "EVERY", 0.001)
    assert collected(Frame(), told.append) == ["row"]
    assert told[0] == pytest.approx(1 / 3)
    assert told[-1] == 1.0
    assert own["spark.jobGroup.id"] == "another"
    Frame.sparkSession = None
    assert collected(Frame(), told.append) == ["row"]
