"""Speed of queries on a release, and how often the bounds of losses hold in simulation.

Run ``python benchmarks/queries.py``; coverage takes a minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import xarray as xr

import pymc_private as pmp
from pymc_private.release.release import Release

DRAWS = QUERIES = 1000
RUNS = 2000


def released(values: np.ndarray) -> Release:
    """A release of one variable in [0, 1], or of a vector of them."""
    dims = ("chain", "draw", "k")[: values.ndim + 1]
    data = xr.Dataset({"x": (dims, values[None])})
    return Release(data, pmp.Guarantee.pure(1.0), {"ranges": {"x": [0, 1]}}, True)


def seconds(call: Callable[[], Any]) -> float:
    """CPU seconds."""
    start = time.process_time()
    call()
    return time.process_time() - start


def speed() -> None:
    rng = np.random.default_rng(1)
    release = released(rng.random((DRAWS, 3)))
    queries = list(rng.random(QUERIES))
    work = {
        "function, 2 responses": lambda: pmp.answer(
            release, lambda t, r, q: (t["x"][:, 0] > q) == r, [True, False], queries
        ),
        "function, 10 responses": lambda: pmp.answer(
            release, lambda t, r, q: np.abs(t["x"][:, 1] - r) < q, np.linspace(0, 1, 10), queries
        ),
        "expression, 2 responses": lambda: pmp.answer(
            release, "(x[0] > query) == response", [True, False], queries
        ),
    }
    print(f"{QUERIES:,} queries on {DRAWS:,} draws, CPU time")
    for name, call in work.items():
        print(f"  {name:28}{seconds(call):8.2f} s")
    one = seconds(
        lambda: pmp.answer(release, "1 - abs(x[0] - response)", pmp.Interval(0, 1), lipschitz=1)
    )
    print(f"  {'one from an interval':28}{one:8.3f} s")


def coverage() -> None:
    """True losses against their bounds; x is uniform, so every expected utility is known."""
    print(f"\nloss against its bound, {RUNS:,} runs at delta = 0.5")
    print(f"{'responses':>22}{'draws':>8}{'bound':>9}{'mean loss':>11}{'largest':>9}{'beyond':>8}")
    grid = list(np.round(np.linspace(0, 1, 11), 3))
    for draws in (1, 10, 100, 1000):
        runs = RUNS if draws < 1000 else RUNS // 10
        for name, responses in (("11 numbers", grid), ("every number", pmp.Interval(0, 1))):
            if name == "every number":
                runs = RUNS // 20
            losses, beyond, bound = [], 0, 0.0
            for seed in range(runs):
                draw = np.random.default_rng(seed).random(draws)
                got: Any = pmp.answer(
                    released(draw),
                    lambda t, r: 1 - np.abs(t["x"] - r),
                    responses,
                    lipschitz=1,
                    delta=0.5,
                )
                bound = got.loss_bound
                losses.append((got.response - 0.5) ** 2)  # E|x - r| = 1/4 + (r - 1/2)^2
                beyond += losses[-1] > bound
            print(
                f"{name:>22}{draws:8d}{bound:9.4f}{np.mean(losses):11.5f}{max(losses):9.4f}"
                f"{beyond / runs:8.3f}"
            )


if __name__ == "__main__":
    speed()
    coverage()
