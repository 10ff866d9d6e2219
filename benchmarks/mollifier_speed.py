"""Seconds of the four jobs a user waits for; all in one run, on one core.

``OMP_NUM_THREADS=1 python -m benchmarks.mollifier_speed``
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from benchmarks.mollifier_targets import TARGETS
from pymc_private import MollifiedBoosting, mollify
from pymc_private.mollifiers.mollified_distributions import rejection_draws
from pymc_private.samplers.randomness import SystemRandomness


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The best of a few runs."""
    found = []
    for _ in range(times):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def main() -> None:
    ring, line = TARGETS["ring"], TARGETS["mix1d"]
    rows, flat = ring.sample(10_000, 0), line.sample(10_000, 0)
    model = MollifiedBoosting(1.0, 3, random_state=0, progressbar=False)
    jobs: dict[str, tuple[Callable[[], object], float]] = {
        "MBDE, 10,000 points, 2-d, 3 rounds": (lambda: model.fit(rows), 15.0),
        "plug-in clip (KDE), 1-d": (lambda: mollify(flat, line.reference, 1.0), 0.5),
        "plug-in clip (KDE), 2-d": (lambda: mollify(rows, ring.reference, 1.0), 0.5),
    }
    rng = np.random.default_rng(0)
    many = rng.pareto(1.0, size=(2, 10**6))
    target, base = many / many.sum(axis=1, keepdims=True)
    jobs["mollify of a million atoms"] = (lambda: mollify(target, base, 1.0), 0.5)
    for name, (work, allowed) in jobs.items():
        print(f"{name}: {seconds(work):.3f} s of CPU (asked: {allowed:g})")
    laws = {
        "MBDE, 2-d": model.mollified_,
        "clip on cells, 2-d": mollify(rows, ring.reference, 1.0),
        "clip of a million atoms": mollify(target, base, 1.0),
    }
    for name, law in laws.items():
        target = law._distribution
        took = seconds(lambda target=target: rejection_draws(target, 10_000, SystemRandomness()))
        print(f"10,000 exact draws, {name}: {took:.3f} s of CPU (asked: 1)")


if __name__ == "__main__":
    main()
