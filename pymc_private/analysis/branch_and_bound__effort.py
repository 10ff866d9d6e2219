"""Effort: how much refinement a bound may cost, the same at each run."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

ROWS_PER_UNIT = 256


@dataclass
class Effort:
    """An allowance of walks over a graph.

    A clock would make bounds, and the plans built on them, differ from run to run. Walks are
    counted instead; a deadline is only kept where the user gave one.

    Parameters
    ----------
    units : float
        Walks allowed; a walk over many rows counts for more than one.
    deadline : float
        Time by `time.perf_counter` after which nothing more is allowed.
    """

    units: float = math.inf
    deadline: float = math.inf
    spent: float = 0.0

    def spend(self, rows: int) -> None:
        """Count one walk over so many rows."""
        self.spent += 1.0 + rows / ROWS_PER_UNIT

    @property
    def is_exhausted(self) -> bool:
        """Whether nothing is left."""
        return self.spent >= self.units or time.perf_counter() > self.deadline
