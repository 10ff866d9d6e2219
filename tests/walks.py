"""How many files of the package a job passes through: a measure of how far a reader has to walk.

``python -m tests.walks`` prints the main job, one charge and a naive Bayes fit; with ``--files``,
the files themselves. A file counts if one of its functions is called; importing it does not count.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import pymc_private as pmp

HOUSE = str(Path(pmp.__file__).parent) + os.sep


def files_called(job: Callable[[], object]) -> set[str]:
    """Files of the package in which a function runs during a job, relative to the package."""
    codes: set[Any] = set()
    with _noted(codes):
        job()
    own = (c for c in codes if c.co_filename.startswith(HOUSE) and c.co_name != "<module>")
    return {c.co_filename.removeprefix(HOUSE) for c in own}


@contextmanager
def _noted(codes: set[Any]) -> Iterator[None]:
    """Note the code of each function that is called, in any thread."""
    if sys.version_info >= (3, 12):  # once for each function, which is then left alone
        watch, tool = sys.monitoring, sys.monitoring.PROFILER_ID
        watch.use_tool_id(tool, "walks")
        watch.restart_events()

        def started(code: Any, _: int) -> Any:
            codes.add(code)
            return watch.DISABLE

        watch.register_callback(tool, watch.events.PY_START, started)
        watch.set_events(tool, watch.events.PY_START)
        try:
            yield
        finally:
            watch.set_events(tool, watch.events.NO_EVENTS)
            watch.free_tool_id(tool)
        return

    def note(frame: Any, event: str, _: object) -> None:
        if event == "call":
            codes.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def main_job(folder: Path) -> Callable[[], object]:
    """The demo of the README: from a model to a report."""
    from pymc_private.demo import demo

    return lambda: demo(folder)


def charge(folder: Path) -> Callable[[], object]:
    """One charge of a guarantee to a ledger in a file."""
    ledger = pmp.Ledger(folder / "study.sqlite", epsilon=2, delta=1e-5)
    guarantee = pmp.Guarantee.pure(0.5)
    return lambda: ledger.charge(guarantee, "a charge")


def naive_bayes(folder: Path) -> Callable[[], object]:
    """A naive Bayes fit on a table of categories."""
    from pymc_private.estimators import DirichletNaiveBayes

    rng = np.random.default_rng(1)
    x = rng.integers(0, 3, (200, 4))
    ledger = pmp.Ledger(epsilon=2, delta=1e-5, shares={"approximate": 1e-6})
    categories, classes = [range(3)] * 4, range(2)
    model = DirichletNaiveBayes(1.0, 1e-6, categories, classes=classes, ledger=ledger, name="fit")
    return lambda: model.fit(x, (x[:, 0] > 0).astype(int))


JOBS = {"main job": main_job, "charge": charge, "naive Bayes": naive_bayes}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for name, job in JOBS.items():
        with tempfile.TemporaryDirectory() as folder:
            found = files_called(job(Path(folder)))
        print(f"{name}: {len(found)} files")
        if "--files" in sys.argv:
            print("\n".join(f"    {file}" for file in sorted(found)))
