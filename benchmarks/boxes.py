"""The box sampler: CPU seconds, acceptance and memory, by records and parameters.

``python -m benchmarks.boxes`` prints the table of ``docs/boxes.md``; numbers after it choose rows.
"""

from __future__ import annotations

import resource
import sys
import time
from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.samplers import rejection
from pymc_private.samplers.log_density import Target
from pymc_private.samplers.randomness import SystemRandomness

DRAWS = 1000
SIZES = [
    (10_000, 2), (400, 3), (10_000, 4), (400, 5), (10_000, 5), (400, 6), (10_000, 6),
]  # fmt: skip


def logistic(n: int, d: int) -> pmp.PrivateModel:
    """A logistic regression in the unit ball, every coefficient in (-3, 3)."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n, d))
    rows /= np.maximum(1.0, np.linalg.norm(rows, axis=1))[:, None]
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-rows @ np.linspace(-1, 1, d)))
    with pm.Model(coords={"i": range(n)}) as model:
        x = pm.Data("x", rows, dims=("i", None))
        b = pm.Normal("b", 0, 1, shape=d)
        pm.Bernoulli("y", logit_p=x @ b, observed=y.astype(int), dims="i")
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})
    return pmp.trim(private, box={"b": (-3, 3)})


def measure(n: int, d: int) -> dict[str, Any]:
    """One row: trials are counted from outside, and stay here."""
    seen = {"trials": 0, "cells": 0}
    true = rejection._propose_and_accept

    def counted(
        cells: rejection.Partition, target: Target, randomness: Any, size: int
    ) -> np.ndarray:
        seen["trials"] += size
        seen["cells"] = len(cells)
        return true(cells, target, randomness, size)

    private, start = logistic(n, d), time.process_time()
    rejection._propose_and_accept = counted
    try:
        rejection.sample_by_rejection(Target(private), DRAWS, SystemRandomness())
    finally:
        rejection._propose_and_accept = true
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": time.process_time() - start, "peak": peak, **seen}


def main() -> None:
    """Print the table."""
    rows = [SIZES[int(k)] for k in sys.argv[1:]] or SIZES
    print("| n | d | CPU s | trials | cells | peak MB |\n|---|---|---|---|---|---|")
    for n, d in rows:
        f = measure(n, d)
        print(
            f"| {n} | {d} | {f['seconds']:.2f} | {f['trials']} | {f['cells']} | {f['peak']:.0f} |"
        )


if __name__ == "__main__":
    main()
