"""Little memory, a full disk, Ctrl-C, forks and threads: charged before drawn, and never twice.

Whatever happens to a process that releases, the ledger reads, holds a charge for all that was
drawn, and what is said to be charged is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import pymc_private as pmp
from pymc_private.criticism import Check
from pymc_private.errors import BudgetExceeded, PymcPrivateError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.release import charge
from pymc_private.release.charge import ReleaseJob, ReleaseOptions, UnsavedRelease, publish


@pytest.fixture
def ledger():
    return pmp.Ledger(epsilon=1, delta=0)


def counts_release(**words) -> pmp.Release:
    return pmp.counts.noisy_counts([[4, 2], [3, 1]], epsilon=0.5, **words)


def job(**parts) -> ReleaseJob:
    """A job that releases noisy counts made elsewhere, with some parts replaced."""
    made = counts_release(ledger=pmp.Ledger(epsilon=1, delta=0))
    whole = {
        "guarantee": Guarantee.pure(0.5), "delta": 0.0, "exact_delta": 0, "key": "key",
        "label": "counts", "another": "another table", "rehearse": lambda: None,
        "draw": lambda seed: made, "build": lambda drawn, facts: drawn,
        "restore": pmp.Release.from_bytes,
    }  # fmt: skip
    return ReleaseJob(**whole | parts)


def out_of_memory(*arguments, **words):
    raise MemoryError


def test_too_little_memory_to_rehearse_charges_nothing(ledger):
    with pytest.raises(PymcPrivateError, match=r"too little memory.*nothing was charged"):
        publish(job(rehearse=out_of_memory), ReleaseOptions(ledger))
    assert ledger.entries == ()


@pytest.mark.parametrize("part", ["draw", "build"])
def test_too_little_memory_to_draw_or_to_build_says_that_it_is_charged(ledger, part):
    with pytest.raises(PymcPrivateError, match="charge"):
        publish(job(**{part: out_of_memory}), ReleaseOptions(ledger))
    assert len(ledger.entries) == 1


def test_too_little_memory_to_store_hands_the_release_over(ledger, monkeypatch, tmp_path):
    made = job()
    monkeypatch.setattr(pmp.Release, "to_bytes", out_of_memory)
    with pytest.raises(UnsavedRelease) as caught:
        publish(made, ReleaseOptions(ledger, name="main", save=tmp_path / "main.nc"))
    assert isinstance(caught.value.release, pmp.Release)
    assert len(ledger.entries) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_charge_that_is_stopped_says_where_to_look(ledger, monkeypatch):
    def stop(*arguments, **words):
        raise KeyboardInterrupt

    monkeypatch.setattr(pmp.Ledger, "charge", stop)
    with pytest.raises(charge.StoppedDraw, match=r"ledger\.entries"):
        publish(job(), ReleaseOptions(ledger))


def test_of_four_threads_a_budget_for_two_serves_two(ledger):
    told = []

    def work() -> None:
        try:
            counts_release(ledger=ledger)
            told.append("ok")
        except BudgetExceeded:
            told.append("refused")

    started = [threading.Thread(target=work) for _ in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    assert sorted(told) == ["ok", "ok", "refused", "refused"]
    assert len(ledger.entries) == 2


# ---- other processes ---------------------------------------------------------------------------
def told_by(folder: Path, what: str, root: Path, codes: tuple[int, ...] = (0,)):
    """What the program printed; None if its process died."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.releasing_processes", str(folder), what],
        cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode in codes, done.stderr
    assert "0.12345" not in done.stdout  # of a record
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def sound(folder: Path) -> dict[str, bool]:
    """Names of the charges, and whether the ledger has what they bought; all files are whole."""
    ledger = pmp.Ledger.open(folder / "study.sqlite")
    assert ledger.verify()
    for entry in ledger.entries:
        if entry.completed:
            ledger.fetch(entry)
    files = {path.name for path in folder.iterdir()} - {"study.sqlite", "study.sqlite-journal"}
    for name in files:  # no draft is left
        load = Check.load if name.startswith("check") else pmp.load
        assert load(folder / name).facts["name"] == Path(name).stem
    charged = {entry.name: entry.completed for entry in ledger.entries}
    assert {Path(name).stem for name in files} <= set(charged)
    return charged


def check_words(told: list[list[str]], charged: dict[str, bool]) -> None:
    """What was said of each release is so."""
    for name, kind, words in told:
        if kind == "ok":
            assert charged[name]
        elif kind == "UnsavedRelease":
            assert name in charged
            assert "charge stands" in words or "drawn and charged" in words
        elif "nothing was charged" in words:
            assert name not in charged
        elif "It is charged" in words or "after it was charged" in words:
            assert not charged[name]


@pytest.mark.audit
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("size", [0, 12_288, 24_576, 65_536])
def test_a_full_disk_loses_no_charge_and_no_release(size, tmp_path, root):
    told = told_by(tmp_path, f"disk:{size}", root)
    check_words(told, sound(tmp_path))
    assert {kind for _, kind, _ in told} <= {"ok", "UnsavedRelease", "PymcPrivateError"}
    assert ("ok" in {kind for _, kind, _ in told}) == (size >= 40_960)


@pytest.mark.audit
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("size", [0, 40_960, 400_000])
def test_a_full_disk_loses_nothing_that_is_made_of_a_summary(size, tmp_path, root):
    told = told_by(tmp_path, f"disk_of_further:{size}", root)
    check_words(told, sound(tmp_path))
    kinds = {kind for _, kind, _ in told}
    assert kinds <= {"ok", "UnsavedRelease", "PymcPrivateError"}
    assert (kinds == {"ok"}) == (size == 400_000)


@pytest.mark.audit
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("megabytes", [16, 512])
def test_little_memory_loses_nothing_that_is_made_of_a_summary(megabytes, tmp_path, root):
    codes = (0, 1, -6, -11) if megabytes < 512 else (0,)
    told = told_by(tmp_path, f"memory_of_further:{megabytes * 2**20}", root, codes)
    check_words(told or [], sound(tmp_path))
    if megabytes == 512:
        assert all(kind == "ok" for _, kind, _ in told)


@pytest.mark.audit
@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.parametrize("megabytes", [0, 8, 32, 512])
def test_little_memory_loses_no_charge_and_no_release(megabytes, tmp_path, root):
    # The allocators of BLAS, of HDF5 and of Python itself may end the process: nothing is told.
    codes = (0, 1, -6, -11) if megabytes < 512 else (0,)
    told = told_by(tmp_path, f"memory:{megabytes * 2**20}", root, codes)
    charged = sound(tmp_path)
    check_words(told or [], charged)
    if megabytes == 512:
        assert all(kind == "ok" for _, kind, _ in told)


@pytest.mark.audit
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_ctrl_c_says_what_became_of_the_charge(tmp_path, root):
    told = told_by(tmp_path, "stopped:30", root)
    check_words(told, sound(tmp_path))
    kinds = {kind for _, kind, _ in told}
    assert "StoppedDraw" in kinds
    assert kinds <= {"ok", "StoppedDraw", "KeyboardInterrupt"}


@pytest.mark.audit
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_forked_processes_draw_no_noise_twice(tmp_path, root):
    found = told_by(tmp_path, "forked", root)
    assert len(found) == 4
    for one, other in combinations(found, 2):
        assert not set(one["summary"]) & set(other["summary"])
        assert not set(one["draws"]) & set(other["draws"])
        assert not set(one["dirichlet"]) & set(other["dirichlet"])
        for kind in ("geometric", "gaussian"):  # integers: 400 numbers of each are uncorrelated
            assert abs(np.corrcoef(one[kind], other[kind])[0, 1]) < 6 / 20


@pytest.mark.audit
def test_threads_release_what_each_would_alone(tmp_path, root):
    assert told_by(tmp_path, "threads", root) == [True] * 4
