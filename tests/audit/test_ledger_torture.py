"""Eight writers, a thousand kills: no charge lost, none double, no overspend, a file that reads.

``LEDGER_KILLS`` in the environment sets another number of kills.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import pytest

from pymc_private.errors import BudgetExceeded
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

pytestmark = [
    pytest.mark.audit,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork"),
]

KILLS = int(os.environ.get("LEDGER_KILLS", "500"))
COST, FULL = Fraction(1, 1024), 2500


@pytest.fixture(scope="module")
def tortured(tmp_path_factory, root):
    """The folder after the torture, the exit codes of the killed, and the seconds it took."""
    folder, start = tmp_path_factory.mktemp("torture"), time.monotonic()
    program = Path(root) / "tests" / "ledger" / "charging_processes.py"
    done = subprocess.run(
        [sys.executable, str(program), str(folder), "1849", f"torture:{KILLS}"],
        env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout)["torture"], time.monotonic() - start


def reports(log: Path) -> set[tuple[str, int, str]]:
    """What was reported: label, number and head of each charge that returned."""
    lines = log.read_text().splitlines() if log.exists() else []
    told = [line.split() for line in lines]
    assert len({label for label, _, _ in told}) == len(told)
    return {(label, int(number), head) for label, number, head in told}


def sound(path: Path) -> Ledger:
    """Open a ledger as a newcomer would, check all there is to check, and let SQLite check."""
    ledger = Ledger.open(path)
    assert ledger.verify(ledger.head)
    for entry in ledger.entries:
        if entry.completed:
            ledger.fetch(entry)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    return ledger


def test_nothing_is_lost_doubled_or_overspent_whoever_is_killed(tortured):
    folder, codes, seconds = tortured
    assert codes == [-signal.SIGKILL] * KILLS
    ledger = sound(folder / "torture.sqlite")
    charged = [(entry.label, entry.number, entry.head) for entry in ledger.entries]
    reported = reports(folder / "torture.txt")
    assert reported <= set(charged)  # none lost
    assert len({label for label, _, _ in charged}) == len(charged)  # none double
    assert len(charged) <= len(reported) + KILLS  # a kill wastes one charge at most
    assert ledger.spent == (COST * len(charged), 0)
    assert ledger.spent <= ledger.budget
    released = [entry for entry in ledger.entries if entry.released]
    assert {(e.label, e.number, e.head) for e in released} <= reported
    print(
        f"{KILLS} kills in {seconds:.0f} s: {len(charged)} charges, {len(reported)} reported, "
        f"{len(charged) - len(reported)} wasted unreported, {len(released)} releases on record"
    )
    for _ in range(FULL - len(charged)):
        ledger.charge(Guarantee.pure(float(COST)), "the rest")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.pure(float(COST)), "one more")
    assert len(ledger.entries) == FULL
    assert ledger.left == (0, 0)
    assert sorted(file.name for file in folder.glob("torture*")) == [
        "torture.sqlite",
        "torture.txt",
    ]


def test_a_ledger_that_was_made_under_fire_is_whole_or_not_there(tortured):
    folder, _, _ = tortured
    whole = missing = 0
    for turn in range(-(-KILLS // 8)):
        path, reported = folder / f"made{turn}.sqlite", reports(folder / f"made{turn}.txt")
        if not path.exists():
            assert not reported
            missing += 1
            continue
        ledger = sound(path)
        assert reported <= {(entry.label, entry.number, entry.head) for entry in ledger.entries}
        assert len(ledger.entries) <= 2
        whole += 1
    print(f"{whole} ledgers made, {missing} not")
    assert whole > 0
