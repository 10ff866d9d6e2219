"""Command line: ``python -m pymc_private demo``, ``report FILE``, ``ledger FILE``."""

from __future__ import annotations

import argparse
import io
import os
import sys
from pathlib import Path


def main(arguments: list[str] | None = None) -> int:
    """Run one command; the exit status is 0 if it did what it says."""
    # Graphs are interpreted: to compile one that is evaluated once takes longer than the job.
    if "mode=" not in (flags := os.environ.get("PYTENSOR_FLAGS", "")):
        os.environ["PYTENSOR_FLAGS"] = ",".join(filter(None, [flags, "mode=FAST_COMPILE"]))
    parser = argparse.ArgumentParser(prog="python -m pymc_private", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo = commands.add_parser("demo", help="the Fair survey: ten draws and a noisy summary")
    demo.add_argument("--folder", type=Path, default=Path(), help="where to write (default: here)")
    report = commands.add_parser("report", help="print a saved release and write its HTML report")
    report.add_argument("file", type=Path)
    ledger = commands.add_parser(
        "ledger", help="print a ledger and check its chain; writes nothing"
    )
    ledger.add_argument("file", type=Path)
    ledger.add_argument("--head", help="a head you kept: the chain must go on from it")
    ledger.add_argument("--json", action="store_true", help="print all charges as JSON instead")
    chosen = parser.parse_args(arguments)
    return {"demo": _demo, "report": _report, "ledger": _ledger}[chosen.command](chosen)


def _demo(chosen: argparse.Namespace) -> int:
    from pymc_private.demo import demo

    demo(chosen.folder)
    return 0


def _report(chosen: argparse.Namespace) -> int:
    import pymc_private as pmp

    page = pmp.report(pmp.load(chosen.file))
    print(page.text)
    page.save(chosen.file.with_suffix(".html"))
    return 0


def _ledger(chosen: argparse.Namespace) -> int:
    from pymc_private.errors import PymcPrivateError
    from pymc_private.ledger.ledger import Ledger

    if isinstance(sys.stdout, io.TextIOWrapper):  # labels may hold what a terminal cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        ledger = Ledger.open(chosen.file, read_only=True)
        ledger.verify(chosen.head)
        print(ledger.to_json() if chosen.json else ledger)
    except PymcPrivateError as error:
        print(error, file=sys.stderr)
        print("the chain of charges is not intact, or there is none", file=sys.stderr)
        return 1
    if not chosen.json:
        print(f"  head {ledger.head}")
        print("the chain of charges is intact")
    return 0


if __name__ == "__main__":
    sys.exit(main())
