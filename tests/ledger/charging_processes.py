"""A program for the tests of ledgers: processes that charge one ledger, and may be killed.

Usage: charging_processes.py FOLDER SEED JOB[:ROUNDS]...

Each job makes the ledger FOLDER/JOB.sqlite and prints one JSON line.

honest   two children per round charge, then publish (one line in a log, synced), then store,
         until both are killed with SIGKILL at a random moment
faulty   the same, but publish before they charge: the mistake the test must catch
race     two children make one ledger and charge it until it refuses
forks    children are forked while a thread of their parent charges
torture  eight writers, each with a ledger object come by in another way, are killed and replaced
         until ROUNDS of them are dead; some are killed while they make a ledger
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

from pymc_private.errors import BudgetExceeded, Incompatible
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

COST = Guarantee.pure(2.0**-10)
WRITERS = 8
FULL = 2500  # charges that fit the ledger under torture


def fork(work: Callable[[], int]) -> int:
    """Start a child that works, and ends with the code its work returns."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = work()
        finally:  # whatever happens, the child must not go on as a parent
            os._exit(code)
    return child


def wait(child: int) -> int:
    """Give the exit code of a child; minus the signal if it was killed."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def publish(log: Path, label: str) -> None:
    """Append one line: what the world sees of a release."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{label}\n".encode())
    os.fsync(handle)
    os.close(handle)


def work_on(ledger: Ledger, log: Path, who: str, faulty: bool) -> int:
    """Charge, publish, store; over and over."""
    step = 0
    while True:
        step += 1
        label = f"{who}.{step}"
        if faulty:
            publish(log, label)
            time.sleep(0.05)
            ledger.charge(COST, label)
            continue
        entry = ledger.charge(COST, label, name=who, key=str(step))
        publish(log, label)
        ledger.store(entry, os.urandom(random.randrange(40_000)))


def kill_rounds(folder: Path, chance: random.Random, job: str, rounds: int) -> list[int]:
    """Start two children and kill them, again and again; give their exit codes."""
    ledger = Ledger(folder / f"{job}.sqlite", epsilon=100, delta=1e-6)
    log = folder / f"{job}.txt"
    codes = []
    for turn in range(rounds):
        twins = [
            fork(lambda who=f"{turn}{twin}": work_on(ledger, log, who, job == "faulty"))
            for twin in "ab"
        ]
        for child in twins:
            time.sleep(chance.uniform(0.0, 0.3))
            os.kill(child, signal.SIGKILL)
        codes += [wait(child) for child in twins]
    return codes


def writer(folder: Path, ledger: Ledger, turn: int, place: int) -> int:
    """Charge, report, store until killed; when the budget is spent, go on asking for more."""
    if place % 4 == 0:
        made = Ledger(folder / f"made{turn}.sqlite", epsilon=1)
        entry = made.charge(COST, f"{turn}.{place}")
        publish(folder / f"made{turn}.txt", f"{entry.label} {entry.number} {entry.head}")
    elif place % 4 == 1:
        ledger = Ledger.open(folder / "torture.sqlite")
    elif place % 4 == 2:
        ledger = pickle.loads(pickle.dumps(ledger))
    with ledger if place >= WRITERS // 2 else contextlib.nullcontext():
        step = 0
        while True:
            step += 1
            try:
                entry = ledger.charge(COST, f"{turn}.{place}.{step}")
            except BudgetExceeded:
                continue
            publish(folder / "torture.txt", f"{entry.label} {entry.number} {entry.head}")
            if step % 3:
                ledger.store(entry, os.urandom(random.randrange(9_000)) if step % 2 else None)


def torture(folder: Path, chance: random.Random, kills: int) -> list[int]:
    """Kill that many writers at random moments; give their exit codes."""
    ledger = Ledger(folder / "torture.sqlite", epsilon=FULL * Fraction(1, 1024))
    codes: list[int] = []
    for turn in range(-(-kills // WRITERS)):
        places = range(min(WRITERS, kills - len(codes)))
        moments = sorted(chance.uniform(0.0, 0.3) for _ in places)
        children = [
            fork(lambda turn=turn, place=place: writer(folder, ledger, turn, place))
            for place in places
        ]
        chance.shuffle(children)
        start = time.monotonic()
        for child, moment in zip(children, moments, strict=True):
            time.sleep(max(0.0, start + moment - time.monotonic()))
            os.kill(child, signal.SIGKILL)
        codes += [wait(child) for child in children]
        if turn % 8 == 7:  # now and then somebody looks, after a crash
            ledger.verify()
    return codes


def race(folder: Path) -> list[int]:
    """Let two children make and charge one ledger; give how often each was admitted."""

    def spend() -> int:
        ledger = Ledger(folder / "race.sqlite", epsilon="25/1024")
        count = 0
        try:
            while True:
                ledger.charge(COST, "draw")
                count += 1
        except BudgetExceeded:
            return count

    twins = [fork(spend) for _ in range(2)]
    return [wait(child) for child in twins]


def forks(folder: Path) -> list[int]:
    """Fork while a thread charges; give the children's exit codes, 0 if all went well."""
    ledger, memory = Ledger(folder / "forks.sqlite", epsilon=1), Ledger(epsilon=1)
    stop = threading.Event()

    def charge_on() -> None:
        while not stop.is_set():
            ledger.charge(COST, "by the parent")
            time.sleep(0.001)

    def child() -> int:
        for _ in range(3):
            ledger.charge(COST, "by a child")
        try:
            memory.charge(COST, "by a child")
        except Incompatible:
            return 0
        return 1

    thread = threading.Thread(target=charge_on)
    thread.start()
    codes = [wait(fork(child)) for _ in range(4)]
    stop.set()
    thread.join()
    return [*codes, len(memory.entries)]


def main() -> None:
    """Do the jobs."""
    folder, seed, *jobs = sys.argv[1:]
    chance = random.Random(int(seed))
    for name in jobs:
        job, _, rounds = name.partition(":")
        if job == "torture":
            outcome = torture(Path(folder), chance, int(rounds))
        elif job in ("honest", "faulty"):
            outcome = kill_rounds(Path(folder), chance, job, int(rounds))
        else:
            outcome = {"race": race, "forks": forks}[job](Path(folder))
        print(json.dumps({job: outcome}), flush=True)


if __name__ == "__main__":
    main()
