"""The main job, as a newcomer runs it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys

import pytest

import pymc_private as pmp
from pymc_private import demo
from pymc_private.command_line import main
from pymc_private.demo import CURATOR_FILE

pytestmark = pytest.mark.audit  # .ci/run runs the whole demo
PUBLISHED = ("draws.nc", "summary.nc", "report-draws.html", "report-summary.html")
SHORT_DEMO = """
import sys
from pymc_private import demo
from pymc_private.command_line import main

demo.MCMC |= {"chains": 2, "tune": 40, "draws": 50}
demo.SIMULATIONS = 2
sys.exit(main(["demo"]))
"""
"""``pymc-private demo`` with less MCMC; CI runs the whole of it."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the demo once for all workers, as a process of its own in an empty folder."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder, record = shared / "demo", shared / "demo.json"
    command = [sys.executable, "-c", SHORT_DEMO]
    environment = os.environ | {"PYTENSOR_FLAGS": "mode=FAST_COMPILE"}
    with (shared / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not record.exists():
            folder.mkdir()
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=600, env=environment
            )
            written = sorted(path.name for path in folder.iterdir())  # later tests write more
            record.write_text(json.dumps([written, done.returncode, done.stdout, done.stderr]))
    written, *outcome = json.loads(record.read_text())
    return folder, subprocess.CompletedProcess(command, *outcome), written


@pytest.fixture
def folder(finished, monkeypatch):
    """Stand in the folder where another process ran the demo."""
    monkeypatch.chdir(finished[0])
    return finished[0]


def test_the_demo_goes_the_whole_way(finished):
    _, done, written = finished
    assert done.returncode == 0, done.stderr
    for words in ("Certificate", "Plan", "SummaryPlan", "Ledger", "Answer", "information of", "T3"):
        assert words in done.stdout
    assert "worth more: the summary" in done.stdout
    assert set(written) == {"fair.sqlite", "posteriors.png", CURATOR_FILE, *PUBLISHED}


def test_running_the_demo_again_is_free(folder, monkeypatch):
    monkeypatch.setattr(demo, "MCMC", demo.MCMC | {"chains": 2, "tune": 40, "draws": 50})
    monkeypatch.setattr(demo, "SIMULATIONS", 2)

    def state():
        found = [pmp.load(folder / name) for name in ("draws.nc", "summary.nc")]
        return *found, pmp.Ledger.open(folder / "fair.sqlite").spent

    before = state()
    assert main(["demo"]) == 0
    assert state() == before


def test_the_promises_of_the_demo_are_within_their_budget(folder):
    draws, summary = pmp.load(folder / "draws.nc"), pmp.load(folder / "summary.nc")
    for release in (draws, summary):
        assert release.private
        assert release.guarantee.epsilon(1e-6) <= 1.0
    assert pmp.Ledger.open(folder / "fair.sqlite").spent.epsilon <= 2.0
    assert draws.posterior.sizes["draw"] == 10
    assert set(draws.posterior.coords) == {"chain", "draw", "feature"}  # no label of a woman
    assert not any(6366 in array.shape for array in summary.released.values())


def test_the_summary_is_near_the_non_private_posterior(finished):
    """Errors are about .8 non-private standard deviations, so 6 are never seen by chance."""
    *_, line = [line for line in finished[1].stdout.splitlines() if "is off by up to" in line]
    assert float(line.split()[-1]) < 6.0


def test_the_non_private_posterior_is_the_curators_alone(finished):
    folder, done, _ = finished
    head, _, shown = done.stdout.partition("CURATOR ONLY, NOT PRIVATE")
    assert "other_mean" in shown
    assert "other_mean" not in head
    for name in PUBLISHED:
        content = (folder / name).read_bytes()
        assert b"other_mean" not in content
        assert b"CURATOR" not in content


@pytest.mark.parametrize("name", ["report-draws.html", "report-summary.html"])
def test_the_reports_stand_alone(folder, name):
    page = (folder / name).read_text()
    assert "<img" in page
    for outside in ("http://", 'src="http', "<script", "<link"):
        assert outside not in page.replace("http://www.w3.org", "")


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["draws", "summary"])
def test_a_saved_release_is_reported_from_the_command_line(folder, capsys, name):
    assert main(["report", f"{name}.nc"]) == 0
    assert "epsilon = 1" in capsys.readouterr().out
    assert (folder / f"{name}.html").exists()


def test_a_ledger_is_printed_and_checked_from_the_command_line(folder, capsys):
    assert main(["ledger", "fair.sqlite"]) == 0
    assert "the chain of charges is intact" in capsys.readouterr().out
