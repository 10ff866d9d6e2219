"""Settings of the whole suite. They must stand before NumPy and PyTensor are imported."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import product
from pathlib import Path
from unittest import mock

# One BLAS thread, no window, and a mode that interprets: a cold numba cache costs 50 s a graph.
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault("MPLBACKEND", "Agg")
# Nor is each variable asked which lines of code made it.
flags = os.environ.get("PYTENSOR_FLAGS", "")
for name, value in {"mode": "FAST_COMPILE", "traceback__limit": "0"}.items():
    if f"{name}=" not in flags:
        flags = ",".join(filter(None, [flags, f"{name}={value}"]))
os.environ["PYTENSOR_FLAGS"] = flags

# filelock, which PyTensor imports, has Python ask at each id() and open() whether a lock changes
# hands within a fork: one second in fifty. No test forks with a lock in its hands.
with suppress(ImportError), mock.patch("sys.addaudithook"):
    import filelock  # noqa: F401
import hypothesis  # noqa: E402
import pytest  # noqa: E402

# The desk draws the same examples each time, so a red test stays red until it is mended;
# ./check --audit explores. Neither measures time.
hypothesis.settings.register_profile("desk", deadline=None, max_examples=30, derandomize=True)
hypothesis.settings.register_profile("audit", deadline=None, max_examples=500, print_blob=True)
hypothesis.settings.load_profile("desk")

gc.disable()  # what is imported stays: nothing to collect before the first test


@pytest.fixture(autouse=True)
def _close_figures() -> Iterator[None]:
    """No figure stays open behind a test: pyplot warns of many, and warnings are errors."""
    yield
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


def pytest_collection_finish() -> None:
    """Leave what was imported out of every later collection, which would walk all of it again."""
    gc.freeze()
    gc.set_threshold(100_000, 20, 100)  # graphs are many objects, and few of them die young
    gc.enable()
    read_c_files_once()


@pytest.hookimpl(tryfirst=True)  # before audits are deselected
def pytest_collection_modifyitems(items) -> None:
    """Make audits of the cases that `thin` leaves out of the fast suite.

    Of crossed parametrizations it keeps a Latin square: each value of one with some of the other.
    A case that is named alone is run.
    """
    tests: dict[object, list[pytest.Function]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("thin"):
            tests[item.parent, item.originalname].append(item)
    for cases in tests.values():
        one_in = cases[0].get_closest_marker("thin").args[0]
        for case, places in zip(cases, places_of(cases), strict=True):
            if sum(places) % one_in:
                case.add_marker(pytest.mark.audit)


def places_of(cases: list) -> list[tuple[int, ...]]:
    """Places of the cases of a test in each of its parametrizations."""
    marks = {}
    for mark in cases[0].iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        marks[names[0].strip()] = len(list(mark.args[1]))
    sizes = [marks[name] for name in cases[0].callspec.params if name in marks]
    places = list(product(*map(range, sizes)))  # pytest varies the last one first
    return places if len(places) == len(cases) else [(i,) for i in range(len(cases))]


def read_c_files_once() -> None:
    """Remember the C code of an operation, which PyTensor reads and parses for each of its uses."""
    from pytensor.link.c.op import ExternalCOp

    load = ExternalCOp.load_c_code

    @cache
    def loaded(kind, files):
        one = object.__new__(kind)
        one.func_codes, one.code_sections = [], {}
        load(one, files)
        return one

    def remembered(self, files):
        one = loaded(type(self), tuple(files))
        self.func_codes, self.code_sections = list(one.func_codes), dict(one.code_sections)

    ExternalCOp.load_c_code = remembered


@pytest.fixture(scope="session")
def root() -> Path:
    """Give the checkout's folder."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def quick():
    """Refine bounds only a little, where how far is not what is tested."""
    from pymc_private.certificates import range_bound

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(range_bound, "BOX_EFFORT", 60.0)
        patch.setattr(range_bound, "SEARCH_EFFORT", 60.0)
        patch.setattr(range_bound, "CHECK_EFFORT", 30.0)
        yield


QUICK = ("counts", "mollifiers", "posterior", "release", "report", "samplers")
"""Rooms that test draws and releases, not how far bounds are refined."""


@pytest.fixture(autouse=True, scope="module")
def _quick_rooms(request, root):
    """Refine bounds only a little in `QUICK` rooms."""
    place = request.path.parts[len(root.parts) :]
    if place[0] == "tests" and place[1] in QUICK:
        request.getfixturevalue("quick")


CHOICE = ("test_calibrate", "test_frontier", "test_verdict")
"""Tests of what is chosen, and of what is refused: they run as a user runs."""


@pytest.fixture(autouse=True, scope="module")
def _few_records_and_one_mass(request):
    """Draw from plans that tell next to nothing, as tests have few records.

    One central box is tried, and a clip of a few ends, moved in great steps.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in CHOICE:
            patch.setattr("pymc_private.posterior.sample._refuse_prior", lambda plan: None)
            candidates = "pymc_private.posterior.candidates"
            patch.setattr(f"{candidates}.PRIOR_MASSES", (0.95,))
            if request.path.stem != "test_clip_search":
                patch.setattr(f"{candidates}.CLIP_SHARES", (0.0, 0.02, 0.1, 0.3, 0.6, 0.9, 1.0))
                patch.setattr(f"{candidates}.LAST_STEP", 0.1)
        yield


UNREHEARSED = ("test_changes", "test_charge_then_draw", "test_checked_again", "test_verdict")
"""Tests of what is refused, charged and drawn: a rehearsal would draw a second time in each."""


@pytest.fixture(autouse=True, scope="module")
def _no_rehearsal(request):
    """Go from the charge's checks straight to the draw; `test_rehearsal` has the samplers' own."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem in UNREHEARSED:
            patch.setattr("pymc_private.posterior.sample.rehearse_draw", lambda *arguments: None)
        yield


SUMMARIES = ("criticism", "summaries")
"""Rooms that test many summaries: rehearsals build the PyMC model of each in `test_whole_road`."""


@pytest.fixture(autouse=True, scope="module")
def _no_trial_models(request, root):
    """Rehearse a summary without its PyMC model, which takes a third of the time."""
    place = request.path.parts[len(root.parts) :]
    with pytest.MonkeyPatch.context() as patch:
        if place[1] in SUMMARIES and request.path.stem != "test_whole_road":
            trial = "pymc_private.summaries.rehearse.try_model"
            patch.setattr(trial, lambda plan, summary: None)
        yield


PAINTED = ("test_main_job", "test_rendering", "test_report")
"""Tests that see the pictures of a report; others read its words."""


@pytest.fixture(autouse=True, scope="module")
def _unpainted(request):
    """Make the figures of a report but do not set them in pixels, which takes a second."""
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in PAINTED:
            module = import_module("pymc_private.report.report")
            patch.setattr(module, "_png", lambda figure: "")
        yield


@pytest.fixture(scope="session")
def shared(root) -> Path:
    """Give the folder of reference data beside the checkout, or skip where there is none."""
    folder = Path(os.environ.get("PYMC_PRIVATE_SHARED", root.parent / "shared"))
    if not folder.is_dir():
        pytest.skip("no reference data: set PYMC_PRIVATE_SHARED to their folder")
    return folder


@pytest.fixture(scope="session")
def golden(shared) -> list[dict]:
    """Give the golden values, computed by code that is independent of this package."""
    return json.loads((shared / "golden" / "golden_values.json").read_text())


@pytest.fixture(scope="session")
def rooms(root, tmp_path_factory) -> Path:
    """Give a path on which the package's rooms stand without its front door.

    A child process that needs one room, such as the ledger, is spared the import of PyMC.
    """
    folder = tmp_path_factory.mktemp("rooms")
    (folder / "pymc_private").mkdir()
    door = f"__path__ = [{str(root / 'pymc_private')!r}]\n"
    (folder / "pymc_private" / "__init__.py").write_text(door)
    return folder
