"""Simulations of both error rates; their runs are no alarms of the suite and cost it nothing."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.statistics import Allowance, proportion

RUNS = 1000


def how_often(happens: Callable[[np.random.Generator], bool], runs: int = RUNS) -> int:
    """In how many of `runs` runs, each with its own seed, something happens."""
    with Allowance(math.inf):
        return sum(bool(happens(np.random.default_rng(seed))) for seed in range(runs))


def within(count: int, most: float, runs: int = RUNS) -> bool:
    """Whether a count fits a probability of `most` or less, but for one in 1e9."""
    return proportion(count, runs, most).passes or count <= most * runs
