"""The main job, as a newcomer runs it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import pymc_private as pmp
from pymc_private.__main__ import main


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """Run the demo once, as ``python -m pymc_private demo`` in an empty folder."""
    folder = tmp_path_factory.mktemp("demo")
    command = [sys.executable, "-m", "pymc_private", "demo"]
    return folder, subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=600, env=dict(os.environ)
    )


@pytest.fixture
def folder(finished, monkeypatch):
    """Stand in the folder where another process ran the demo."""
    monkeypatch.chdir(finished[0])
    return finished[0]


def test_the_demo_goes_the_whole_way(finished):
    folder, done = finished
    assert done.returncode == 0, done.stderr
    for words in ("Certificate", "Plan", "Ledger", "Answer", "information of", "T3"):
        assert words in done.stdout
    written = {path.name for path in folder.iterdir()}
    assert written == {"fair.nc", "fair.sqlite", "report.html", "plan.png", "posterior.png"}


@pytest.mark.audit
def test_running_the_demo_again_is_free(folder):
    before = pmp.load(folder / "fair.nc"), pmp.Ledger.open(folder / "fair.sqlite").spent
    assert main(["demo"]) == 0
    assert (pmp.load(folder / "fair.nc"), pmp.Ledger.open(folder / "fair.sqlite").spent) == before


def test_the_promise_of_the_demo_is_within_its_budget(folder):
    release = pmp.load(folder / "fair.nc")
    assert release.private
    assert release.guarantee.epsilon(1e-6) <= 1.0
    assert release.posterior.sizes["draw"] == 10
    assert set(release.posterior.coords) == {"chain", "draw", "feature"}  # no label of a woman


def test_the_report_stands_alone(folder):
    page = (folder / "report.html").read_text()
    assert "<img" in page
    for outside in ("http://", 'src="http', "<script", "<link"):
        assert outside not in page.replace("http://www.w3.org", "")


def test_a_saved_release_is_reported_from_the_command_line(folder, capsys):
    assert main(["report", "fair.nc"]) == 0
    assert "epsilon = 1" in capsys.readouterr().out
    assert (folder / "fair.html").exists()


def test_a_ledger_is_printed_and_checked_from_the_command_line(folder, capsys):
    assert main(["ledger", "fair.sqlite"]) == 0
    assert "the chain of charges is intact" in capsys.readouterr().out
