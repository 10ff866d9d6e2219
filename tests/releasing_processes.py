"""A program for the tests of hard conditions: a process that releases, and is disturbed.

Usage: releasing_processes.py FOLDER JOB

It releases noisy summaries and draws against FOLDER/study.sqlite, saves them to FOLDER, and prints
one JSON line: of each release its name and "ok", or the class and the words of what was raised.

memory:BYTES   with no more address space than BYTES above what it has
disk:BYTES     no file may be longer than BYTES
memory_of_further:BYTES, disk_of_further:BYTES
               the same, of what is made of a summary, and of summaries of other kinds
stopped:COUNT  until Ctrl-C was pressed COUNT times, at random moments
forked         in four processes forked from one that has released already; prints their numbers
threads        four threads release the same plans with four seeds, and each for itself before
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp

SECRET = 0.123456789012345
ROUNDS = 2


def study(public: Sequence[str] = ()) -> pmp.PrivateModel:
    """One small study."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, (200, 2)) / np.sqrt(2)
    x[3, 0] = SECRET
    with pm.Model(coords={"person": range(200), "feature": ["a", "b"]}) as model:
        X = pm.Data("X", x, dims=("person", "feature"))
        slope = pm.Normal("slope", 0, 1, dims="feature")
        y = rng.integers(0, 2, 200)
        pm.Bernoulli("y", logit_p=X @ slope, observed=y, dims="person")
    domain = {} if public else {"X": pmp.Ball(1.0)}
    return pmp.privatize(model, records="person", domain=domain, public=public)


Releases = list[tuple[str, Callable[[Any], Any]]]
"""Names, and functions of the keywords of a release."""


def plans() -> Releases:
    """A summary and two draws of one small study."""
    private = study()
    summary = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary")
    trimmed = pmp.trim(private, mass=0.9)
    draws = pmp.calibrate(trimmed, epsilon=1, delta=1e-6, draws=2, sampler="boxes")
    quiet = {"progressbar": False, "accept_prior": True}
    return [
        ("summary", lambda words: pmp.summarize(summary, **quiet, **words)),
        ("draws", lambda words: pmp.sample(draws, **quiet, **words)),
    ]


def coin(kind: str) -> pmp.SummaryPlan:
    """A plan of noisy sums or cells of outcomes."""
    with pm.Model(coords={"person": range(200)}) as model:
        outcome = pm.Data("outcome", np.arange(200) % 2, dims="person")
        pm.Bernoulli("y", pm.Beta("rate", 1, 1), observed=outcome, dims="person")
    private = pmp.privatize(model, records="person")
    return pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary", method=kind)


def further() -> Releases:
    """A check and a second round of a summary, and summaries of sums and of cells."""
    private, quiet = study(public=["X"]), {"progressbar": False}
    plan = pmp.calibrate(private, epsilon=4, delta=1e-6, release="summary", method="scores")
    first = pmp.summarize(plan, ledger=pmp.Ledger(epsilon=9, delta=0.1), accept=True, **quiet)
    checked = pmp.check_plan(first, "link", epsilon=5, delta=1e-6, accept=True)
    round_plan = pmp.summaries.refinement_plan(first, epsilon=9)
    sums, cells = coin("sums"), coin("cells")
    return [
        ("check", lambda words: pmp.check(checked, **quiet, **words)),
        ("refined", lambda words: pmp.refine(round_plan, accept=True, **quiet, **words)),
        ("sums", lambda words: pmp.summarize(sums, **quiet, **words)),
        ("cells", lambda words: pmp.summarize(cells, **quiet, **words)),
    ]


def tell(release: Callable[[Any], Any], ledger: pmp.Ledger, path: Path) -> list[str]:
    """Release under the name of a file; what came of it."""
    try:
        release({"ledger": ledger, "name": path.stem, "save": path})
        return [path.stem, "ok", ""]
    except (Exception, KeyboardInterrupt) as error:
        return [path.stem, type(error).__name__, str(error)]


def limited(
    folder: Path, limit: Callable[[], None], planned: Callable[[], Releases] = plans
) -> list[list[str]]:
    """What comes of releases under a limit that is set when all is planned."""
    ledger, made = pmp.Ledger(folder / "study.sqlite", epsilon=100, delta=0.01), planned()
    limit()
    return [
        tell(release, ledger, folder / f"{name}{turn}.nc")
        for turn in range(ROUNDS)
        for name, release in made
    ]


def limit_memory(size: int) -> None:
    """Allow some more address space than there is."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + size, used + size))


def limit_disk(size: int) -> None:
    """Allow files up to a size."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def stopped(folder: Path, count: int) -> list[list[str]]:
    """Release, and be stopped at random moments, in and between the calls."""
    ledger, made = pmp.Ledger(folder / "study.sqlite", epsilon=1e5, delta=0.4), plans()
    told = [tell(release, ledger, folder / f"{name}.nc") for name, release in made]
    pressed = 0

    def press() -> None:
        nonlocal pressed
        for _ in range(count):
            time.sleep(random.expovariate(2.0))
            os.kill(os.getpid(), signal.SIGINT)
            pressed += 1

    threading.Thread(target=press, daemon=True).start()
    turn = 0
    while pressed < count:
        try:
            turn += 1
            for name, release in made:
                told.append(tell(release, ledger, folder / f"{name}{turn}.nc"))
        except KeyboardInterrupt:  # between two releases
            continue
    return told


def forked() -> list[dict[str, list[float]]]:
    """The noise of each of four processes, three of them forked from the fourth."""
    made, table = plans(), np.full((20, 20), 50)

    def noises() -> dict[str, list[float]]:
        ledger = pmp.Ledger(epsilon=100, delta=0.1)
        found = {
            "geometric": pmp.counts.noisy_counts(table, epsilon=0.01, ledger=ledger),
            "gaussian": pmp.counts.noisy_counts(table, epsilon=0.1, delta=1e-6, ledger=ledger),
            "dirichlet": pmp.dirichlet([50] * 40, epsilon=1, delta=0, ledger=ledger),
        }
        numbers = {k: r.posterior["p"].values.ravel().tolist() for k, r in found.items()}
        summary, draws = (release({"ledger": ledger}) for _, release in made)
        numbers["summary"] = summary.released["scores"].ravel().tolist()
        numbers["draws"] = draws.posterior["slope"].values.ravel().tolist()
        return numbers

    noises()
    found = []
    for _ in range(3):
        reading, writing = os.pipe()
        if os.fork() == 0:
            with os.fdopen(writing, "w") as file:
                json.dump(noises(), file)
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as file:
            found.append(json.load(file))
        os.wait()
    return [*found, noises()]


def threads() -> list[bool]:
    """Whether four threads at once release what each would alone."""
    made = plans()
    alone = [[release({"random_seed": k}) for _, release in made] for k in range(4)]
    together: dict[int, list[Any]] = {}

    def work(k: int) -> None:
        together[k] = [release({"random_seed": k}) for _, release in plans()]

    started = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    return [together.get(k) == alone[k] for k in range(4)]


def main(folder: Path, job: str, number: int) -> None:
    """Do a job and print what came of it."""
    jobs: dict[str, Callable[[], Any]] = {
        "memory": lambda: limited(folder, lambda: limit_memory(number)),
        "disk": lambda: limited(folder, lambda: limit_disk(number)),
        "memory_of_further": lambda: limited(folder, lambda: limit_memory(number), further),
        "disk_of_further": lambda: limited(folder, lambda: limit_disk(number), further),
        "stopped": lambda: stopped(folder, number),
        "forked": forked,
        "threads": threads,
    }
    print(json.dumps(jobs[job]()), flush=True)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, _, size = sys.argv[2].partition(":")
    main(Path(sys.argv[1]), name, int(size or 0))
