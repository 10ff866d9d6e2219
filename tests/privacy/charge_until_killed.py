"""A program for test_ledger_processes.py: processes that charge one ledger until they are killed.

It forks two children per round, kills both with SIGKILL after a random time, and starts again.
Each child charges, then publishes (one line in a log, synced), then stores. With "fault" it
publishes first: the mistake that the test must catch.

Usage: charge_until_killed.py LEDGER LOG ROUNDS SEED [fault]
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.ledger import Ledger

COST = Guarantee.pure(2.0**-10)


def publish(log: str, label: str) -> None:
    """Append one line: what the world sees of a release."""
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(handle, f"{label}\n".encode())
    os.fsync(handle)
    os.close(handle)


def work(ledger: Ledger, log: str, who: str, fault: bool) -> None:
    """Charge, publish, store; over and over."""
    step = 0
    while True:
        step += 1
        label = f"{who}.{step}"
        if fault:
            publish(log, label)
            time.sleep(0.05)
            ledger.charge(COST, label)
            continue
        entry = ledger.charge(COST, label, name=who, key=str(step))
        publish(log, label)
        ledger.store(entry, os.urandom(random.randrange(40_000)))


def main() -> None:
    """Run the rounds."""
    path, log, rounds, seed, *fault = sys.argv[1:]
    chance = random.Random(int(seed))
    ledger = Ledger.open(path)
    for turn in range(int(rounds)):
        children = []
        for twin in "ab":
            child = os.fork()
            if child == 0:
                try:
                    work(ledger, log, f"{turn}{twin}", bool(fault))
                finally:  # a child that fails must not go on as a parent
                    os._exit(3)
            children.append(child)
        for child in children:
            time.sleep(chance.uniform(0.0, 0.3))
            os.kill(child, signal.SIGKILL)
        for child in children:
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            if status != -signal.SIGKILL:
                sys.exit(f"a child of round {turn} ended by itself with {status}")


if __name__ == "__main__":
    main()
