"""Exact sums of scores of outcomes with two values by a compiled loop: those of NumPy, to the bit.

The loop (`compiled/two_valued_sums.py`) adds up what is surely a term of the fast kind, and marks
the other rows: those outside of the domain, whose outcome is neither value, or whose vectors may be
longer than their bounds. NumPy adds these up, as it would add up all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.summaries.lattice import TermLattice
from pymc_private.summaries.scores.two_valued_score import TwoValuedScore
from pymc_private.summaries.weighted_sums import (
    WEIGHT_ONE,
    BoundedSum,
    GramLattice,
    gram_limits,
    vector_limits,
)

MOST_ROWS = 2**16
"""Rows whose weighted terms are added in 64-bit integers."""
LIMB_BITS = 24

Domain = tuple[np.ndarray, np.ndarray, np.ndarray]
"""As of `two_valued_sums.two_valued_sums`."""


def everywhere(columns: int) -> Domain:
    """No bounds: of rows that are inside of their domain."""
    box = np.stack([np.full(columns, -np.inf), np.full(columns, np.inf)])
    return box, np.zeros((0, 2, columns)), np.zeros(0)


@dataclass(frozen=True, eq=False)
class CompiledTerms:
    """Sums of one score and, where there is a second, of its curvature.

    Attributes
    ----------
    score : TwoValuedScore
    sums : sequence of BoundedSum
    weight : int
        As of `weighted_sums.WeightedSums`.
    """

    score: TwoValuedScore
    sums: Sequence[BoundedSum]
    weight: int = WEIGHT_ONE

    def add_up(
        self,
        loops: Any,
        columns: np.ndarray,
        y: np.ndarray,
        light: np.ndarray,
        domain: Domain,
        outside: np.ndarray | None = None,
    ) -> tuple[list[list[int]], np.ndarray]:
        """Sums in units of gamma / 256 of rows (k, N), and the places of rows that are left.

        Those are rows that the loop leaves, and those that are `outside` of the domain.
        """
        low, high = self.score.levels
        second = y == high
        left = ~(second | (y == low))
        if outside is not None:
            left |= outside
        weights = np.where(light, float(self.weight), float(WEIGHT_ONE))
        totals = [[0] * size for size in self.sizes]
        for start in range(0, len(y), MOST_ROWS):
            rows = slice(start, start + MOST_ROWS)
            part = np.ascontiguousarray(columns[:, rows])
            given = part, second[rows], weights[rows], domain
            found = self._part(loops, given, left[rows])
            totals = [
                [*map(sum, zip(a, b, strict=True))] for a, b in zip(totals, found, strict=True)
            ]
        return totals, np.flatnonzero(left)

    @property
    def sizes(self) -> list[int]:
        """Numbers of each sum."""
        p = len(self.score.matrix) - 1
        return [p, p * (p + 1) // 2][: len(self.sums)]

    def _part(self, loops: Any, given: tuple[Any, ...], left: np.ndarray) -> list[list[int]]:
        """Sums of at most `MOST_ROWS` rows."""
        score, link = self.score, self.score.link
        p = len(score.matrix) - 1
        sums = np.zeros((2, p), dtype=np.int64)
        matrices = np.zeros(self.sizes[1] if len(self.sums) > 1 else 0, dtype=np.int64)
        limits = score.bound, score.weight_bound
        table = link.coefficients, link.low, link.rate
        loops.two_valued_sums(
            *given, score.matrix, table, limits, self._lattices(p), sums, matrices, left
        )
        high, low = sums.tolist()
        found = [(a << LIMB_BITS) + b for a, b in zip(high, low, strict=True)]
        return [found, matrices.tolist()][: len(self.sums)]

    def _lattices(self, p: int) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
        """Limits of vectors and of factors; of the latter any where none are summed."""
        vectors = vector_limits(TermLattice(self.sums[0].bound), p)
        if len(self.sums) == 1:
            return vectors, (1.0, math.inf, math.inf)
        return vectors, gram_limits(GramLattice(self.sums[1].bound))
