"""Time the ledger: durable charges, readings of a long ledger, and what length costs.

Usage: python benchmarks/ledger.py [CHARGES] [FOLDER]

The folder decides what a durable charge costs, for each waits until the disk has it; beside the
timings stands what one such wait costs there.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

COST = Guarantee.bounded_range_of(2.0**-10)


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def row(what: str, took: float, note: str = "") -> None:
    print(f"{what:<58}{took:>9.3f} s  {note}", flush=True)


def wait_of_disk(folder: Path) -> float:
    """Give the seconds of one append that the disk has."""
    handle = os.open(folder / "wait", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def append() -> None:
        for _ in range(200):
            os.write(handle, bytes(4096))
            os.fsync(handle)

    took = seconds(append) / 200
    os.close(handle)
    return took


def charge(ledger: Ledger, count: int) -> None:
    for _ in range(count):
        ledger.charge(COST, "a draw of the benchmark")


def charging(folder: Path, count: int) -> Ledger:
    """Time charges, in memory and durable, kept open and not; give the last ledger."""
    memory = Ledger(epsilon=10**6, delta=1e-6)
    row(f"{count} charges in memory", seconds(lambda: charge(memory, count)))
    for name, inside in (("with ledger:", True), ("one by one", False)):
        ledger = Ledger(folder / f"{inside}.sqlite", epsilon=10**6, delta=1e-6)
        with ledger if inside else nullcontext():
            first = seconds(lambda ledger=ledger: charge(ledger, count // 10))
            middle = seconds(lambda ledger=ledger: charge(ledger, count - 2 * (count // 10)))
            last = seconds(lambda ledger=ledger: charge(ledger, count // 10))
        row(
            f"{count} durable charges, {name}",
            first + middle + last,
            f"the last tenth took {last / first:.2f} times as long as the first; one wait of the "
            f"disk is {1e3 * wait_of_disk(folder):.2f} ms",
        )
    return ledger


def reading(ledger: Ledger, count: int) -> None:
    """Time what reads a whole ledger, by a process that knows it and by one that does not."""
    path = Path(str(ledger.path))
    ledger.verify()
    for what in ("spent", "left", "methods", "entries", "head"):
        fresh = Ledger.open(path)
        fresh_took = seconds(lambda what=what: getattr(Ledger.open(path), what))
        took = seconds(lambda what=what, fresh=fresh: getattr(fresh, what))
        row(f".{what} of {count} charges", took, f"{fresh_took:.3f} s with opening the file")
    row(".verify(head)", seconds(lambda: ledger.verify(ledger.head)))
    row("repr", seconds(lambda: repr(ledger)))
    row(".to_frame()", seconds(ledger.to_frame))
    row(".to_json()", seconds(ledger.to_json))
    row("Ledger.open(path, read_only=True)", seconds(lambda: Ledger.open(path, read_only=True)))
    row("one more charge", seconds(lambda: charge(ledger, 1)))
    row("its refusal", seconds(lambda: refused(ledger)))


def refused(ledger: Ledger) -> None:
    from pymc_private.errors import BudgetExceeded

    try:
        ledger.charge(Guarantee.pure(1e9), "too much")
    except BudgetExceeded:
        return
    raise AssertionError("the ledger took more than it has")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
        reading(charging(Path(name), count), count)


if __name__ == "__main__":
    main()
