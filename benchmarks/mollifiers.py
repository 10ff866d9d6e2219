"""Mollified sampling on known targets: the three papers' experiments, with and without their flaws.

``python -m benchmarks.mollifiers [FOLDER] [--reps 4] [--noisy-reps 4] [--only ring,mix1d]
[--reference CSV]``

Each finished piece is a line of FOLDER/mollifiers.csv; run again, it goes on where it stopped. Then
the tables and figures are made; with the reference results, so is a table of agreement. Densities
with noise, and boosted trees, vary most: --noisy-reps is their number of replications, of the GAN
at epsilon = 1 only.
"""

from __future__ import annotations

import argparse
import csv
import warnings
from pathlib import Path

from benchmarks import mollifier_methods
from benchmarks.mollifier_definitions import as_there, trees_there
from benchmarks.mollifier_targets import TARGETS

EPSILONS = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0)
SOME = {"wide": (0.5, 1.0, 2.0, 5.0), "gan": EPSILONS[2:], "gan_at_one": (1.0,)}
"""Epsilons of the kinds of work that are not done at all of them."""
FIELDS = ("domain", "method", "epsilon", "rep", "metric", "value")
GRIDDED = ("ring", "mix1d", "random1d", "random2d")
WIDE = ("wide5", "wide10")
DESCRIBED = ("ring", "mix1d")
WORK = {
    "known": mollifier_methods.known,
    "plug_ins": mollifier_methods.plug_ins,
    "trees": mollifier_methods.trees,
    "boosted": mollifier_methods.boosted,
    "cells": mollifier_methods.cells,
    "noisy": mollifier_methods.noisy,
    "gan": mollifier_methods.gan,
    "gan_at_one": mollifier_methods.gan,
    "as_there": as_there,
    "trees_there": trees_there,
    "wide": mollifier_methods.wide,
}


def pieces(domains: tuple[str, ...], reps: int, noisy: int) -> list[tuple[str, str, int]]:
    """What there is to do: (domain, kind, replication)."""
    made = []
    for name in domains:
        if name in WIDE:
            made += [(name, "wide", rep) for rep in range(reps)]
            continue
        made.append((name, "known", 0))
        kinds = ["plug_ins", "boosted", "cells", "gan"] + ["as_there"] * (name in DESCRIBED)
        made += [(name, kind, rep) for rep in range(reps) for kind in kinds]
    for rep in range(noisy):  # domain by domain, so that all are as far when it is stopped
        for name in domains:
            if name not in WIDE:
                made += [(name, "trees", rep), (name, "noisy", rep)]
                made += [(name, "gan_at_one", rep)] * (rep >= reps)
                made += [(name, "trees_there", rep)] * (name in DESCRIBED)
    return made


def run(file: Path, domains: tuple[str, ...], reps: int, noisy: int) -> None:
    """Do what is not in the file yet."""
    from rich.progress import track

    done = set()
    if file.exists():
        with file.open() as stored:
            done = {tuple(row) for row in csv.reader(stored) if row and row[0] == "done"}
    else:
        file.write_text(",".join(FIELDS) + "\n")
    for name, kind, rep in track(pieces(domains, reps, noisy), description="mollifiers"):
        if ("done", name, kind, str(rep), "", "") in done:
            continue
        target, work = TARGETS[name], WORK[kind]
        epsilons = SOME.get(kind, EPSILONS)
        words = (target, epsilons) if kind == "known" else (target, rep, epsilons)
        lines = [
            (name, method, eps, rep, metric, f"{value:.8g}")
            for method, eps, found in work(*words)
            for metric, value in found.items()
        ]
        with file.open("a", newline="") as out:
            writer = csv.writer(out)
            writer.writerows(lines)
            writer.writerow(("done", name, kind, rep, "", ""))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", default="mollifier_results", type=Path)
    parser.add_argument("--reps", type=int, default=4)
    parser.add_argument("--noisy-reps", type=int, help="as many as --reps, if not given")
    parser.add_argument("--only", default=",".join((*GRIDDED, *WIDE)))
    parser.add_argument("--reference", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    noisy = given.reps if given.noisy_reps is None else given.noisy_reps
    run(given.folder / "mollifiers.csv", tuple(given.only.split(",")), given.reps, noisy)
    from benchmarks import mollifier_report

    mollifier_report.make(given.folder, given.reference)


if __name__ == "__main__":
    main()
