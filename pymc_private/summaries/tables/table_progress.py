"""How far a reading of a table is, on the curator's screen.

In percent: the number of rows may be protected. Dask and Spark tell of partitions, in this process.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from threading import Event, Thread
from typing import Any, Protocol
from uuid import uuid4

from pymc_private.release.charge import progress_bars
from pymc_private.summaries.protocol import Progress

READING = "reading the table, percent"
JOB_PROPERTIES = (
    "spark.jobGroup.id",
    "spark.job.description",
    "spark.job.interruptOnCancel",
)
"""What a group of jobs changes in the user's thread."""
EVERY = 0.3
"""Seconds between two questions to Spark."""
Told = Callable[[float], None]
"""Called with the share of a reading that is done."""


class TellsReading(Protocol):
    """What tells how far it has read, while somebody wants to know."""

    told: Told | None

    def check(self, work: Any = None) -> None:
        """Read all rows once, and refuse what cannot be read."""


def check_table(table: TellsReading | None, show: bool, work: Any = None) -> None:
    """Check a table, if there is one, with a bar."""
    if table is not None:
        with reading_bars([table], show):
            table.check(work)


@contextmanager
def reading_bars(
    tables: Sequence[TellsReading | None],
    show: bool,
    stages: int | None = None,
    what: str = "noisy summary",
) -> Iterator[Progress]:
    """Progress bars of finished stages, if there are any, and of the readings of some tables.

    Parameters
    ----------
    tables : sequence
        None stands for records that are no table.
    show : bool
    stages : int, optional
    what : str
    """
    read = [table for table in tables if table is not None]
    with progress_bars(show) as bar:
        told = (lambda done: None) if stages is None else bar(what, stages)
        try:
            for table in read:
                table.told = _percent(bar) if show else None
            yield told
        finally:
            for table in read:
                table.told = None


def _percent(bar: Callable[[str, int], Progress]) -> Told:
    """A bar that appears when a reading begins."""
    made: list[Progress] = []
    last = -1

    def told(share: float) -> None:
        nonlocal last
        if not made:
            made.append(bar(READING, 100))
        if (percent := int(100.0 * share)) != last:
            last = percent
            made[0](percent)

    return told


def computed(parts: Sequence[Any], told: Told | None) -> list[bytes]:
    """Results of delayed values of Dask; `told` of each that is done."""
    dask, done = import_module("dask"), set[Any]()
    if told is None or not parts:
        return list(dask.compute(*parts))
    tell = told

    def finished(key: Any) -> None:
        done.add(key)
        tell(len(done) / len(parts))

    client = _client()
    if client is not None:
        futures = client.compute(list(parts))
        for one in import_module("distributed").as_completed(futures):
            finished(one.key)
        return list(client.gather(futures))
    keys = {part.key for part in parts}

    def posttask(key: Any, *_: Any) -> None:
        if key in keys:
            finished(key)

    with import_module("dask.callbacks").Callback(posttask=posttask):
        return list(dask.compute(*parts))


def _client() -> Any:
    """The client that Dask would compute with, if there is one: not where threads are asked for."""
    if "distributed" not in sys.modules:
        return None
    scheduler = getattr(import_module("dask.base").get_scheduler(), "__self__", None)
    return scheduler if isinstance(scheduler, import_module("distributed").Client) else None


def _share_done(tracker: Any, group: str) -> float | None:
    """Share of the tasks of a group of jobs that are done; None before they are known."""
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    tasks = sum(one.numTasks for one in stages if one)
    return sum(one.numCompletedTasks for one in stages if one) / tasks if tasks else None


def collected(native: Any, told: Told | None) -> list[Any]:
    """Rows of a frame of Spark; `told` of the tasks of its own jobs that are done."""
    context = getattr(getattr(native, "sparkSession", None), "sparkContext", None)
    if told is None or context is None:
        return list(native.collect())
    group, stop, tell = f"pymc_private {uuid4().hex}", Event(), told

    def watch() -> None:
        while not stop.wait(EVERY):
            if (share := _share_done(context.statusTracker(), group)) is not None:
                tell(share)

    before = {name: context.getLocalProperty(name) for name in JOB_PROPERTIES}
    context.setJobGroup(group, READING)
    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        found = list(native.collect())
    finally:
        stop.set()
        thread.join()
        for name, value in before.items():
            context.setLocalProperty(name, value)
    tell(1.0)
    return found
