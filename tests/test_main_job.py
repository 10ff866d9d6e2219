"""The main job, as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(folder, *arguments: str) -> subprocess.CompletedProcess:
    """Run ``python -m pymc_private`` in an empty folder."""
    command = [sys.executable, "-m", "pymc_private", *arguments]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, env=dict(os.environ)
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the demo once."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run(folder, "demo")


def test_the_demo_goes_the_whole_way(finished):
    folder, done = finished
    assert done.returncode == 0, done.stderr
    for words in ("Certificate", "Plan", "Ledger", "Answer", "information of", "T3"):
        assert words in done.stdout
    written = {path.name for path in folder.iterdir()}
    assert written == {"fair.nc", "fair.sqlite", "report.html", "plan.png", "posterior.png"}


def test_running_the_demo_again_is_free(finished):
    import pymc_private as pmp

    folder, _ = finished
    before = pmp.load(folder / "fair.nc"), pmp.Ledger.open(folder / "fair.sqlite").spent
    again = run(folder, "demo")
    assert again.returncode == 0, again.stderr
    assert (pmp.load(folder / "fair.nc"), pmp.Ledger.open(folder / "fair.sqlite").spent) == before


def test_the_promise_of_the_demo_is_within_its_budget(finished):
    import pymc_private as pmp

    folder, _ = finished
    release = pmp.load(folder / "fair.nc")
    assert release.private
    assert release.guarantee.epsilon(1e-6) <= 1.0
    assert release.posterior.sizes["draw"] == 10
    assert set(release.posterior.coords) == {"chain", "draw", "feature"}  # no label of a woman


def test_the_report_stands_alone(finished):
    folder, _ = finished
    page = (folder / "report.html").read_text()
    assert "<img" in page
    for outside in ("http://", 'src="http', "<script", "<link"):
        assert outside not in page.replace("http://www.w3.org", "")


def test_a_saved_release_is_reported_from_the_command_line(finished):
    folder, _ = finished
    done = run(folder, "report", "fair.nc")
    assert done.returncode == 0, done.stderr
    assert "epsilon = 1" in done.stdout
    assert (folder / "fair.html").exists()


def test_a_ledger_is_printed_and_checked_from_the_command_line(finished):
    folder, _ = finished
    done = run(folder, "ledger", "fair.sqlite")
    assert done.returncode == 0, done.stderr
    assert "the chain of charges is intact" in done.stdout
