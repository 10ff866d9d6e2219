"""What each record adds to the sums of a release of noisy scores (T36), a chunk of rows at a time.

All are functions of a row alone and of public numbers, so that whoever holds the rows, workers of a
cluster too, may compute them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from pymc_private.summaries.compiled_agreement import expect_rows
from pymc_private.summaries.exact_totals import Totals
from pymc_private.summaries.noise import exact_total
from pymc_private.summaries.scores.category_levels import CategoryLevels
from pymc_private.summaries.scores.clipped_scores import ClippedScore, Rows
from pymc_private.summaries.scores.compiled_terms import CompiledTerms, everywhere
from pymc_private.summaries.weighted_sums import (
    WEIGHT_ONE,
    BoundedSum,
    WeightedChunk,
    WeightedSums,
    exact_matrix,
)


class BoundedTerms(Protocol):
    """What gives terms of bounded norm (`reference.CovariateMoments`)."""

    def terms(self, rows: Rows) -> np.ndarray:
        """What each record adds, packed."""


def parted(chunk: Rows, outcome: str) -> tuple[Rows, np.ndarray]:
    """Covariates and outcomes of a chunk."""
    y = np.asarray(chunk[outcome], dtype=float)
    return {name: v for name, v in chunk.items() if name != outcome}, y


@dataclass(frozen=True, eq=False)
class RoundTotals:
    """What records of a chunk add to a score and its curvature, in integers."""

    score: ClippedScore
    outcome: str
    curvature: bool

    def __call__(self, chunk: Rows, count: int) -> Totals:
        """Sums over the true rows."""
        rows, y = parted(chunk, self.outcome)
        score = self.score
        if not self.curvature:
            return [exact_total([score.terms(rows, y)[:count]], score.bound, False)]
        terms, factors = score.terms_and_factors(rows, y)
        return [
            exact_total([terms[:count]], score.bound, False),
            exact_matrix(factors[:count], score.weight_bound),
        ]


@dataclass(frozen=True, eq=False)
class ScoreTerms:
    """The terms of a score."""

    score: ClippedScore
    outcome: str

    def __call__(self, chunk: Rows) -> np.ndarray:
        """Those of the rows of a chunk."""
        return self.score.terms(*parted(chunk, self.outcome))


@dataclass(frozen=True, eq=False)
class CurvatureFactors:
    """Factors of the terms of its curvature."""

    score: ClippedScore
    outcome: str

    def __call__(self, chunk: Rows) -> np.ndarray:
        """Those of the rows of a chunk."""
        return self.score.curvature_factors(parted(chunk, self.outcome)[0])


@dataclass(frozen=True, eq=False)
class MomentTerms:
    """The terms of moments of covariates."""

    stage: BoundedTerms
    outcome: str

    def __call__(self, chunk: Rows) -> np.ndarray:
        """Those of the rows of a chunk."""
        return self.stage.terms(parted(chunk, self.outcome)[0])


@dataclass(frozen=True, eq=False)
class LevelCodes:
    """Levels of some entries of covariates of categories."""

    blocks: tuple[CategoryLevels, ...]
    outcome: str

    def __call__(self, chunk: Rows) -> np.ndarray:
        """Those of the rows of a chunk, shape (rows, entries); -1 for what is no level."""
        rows = parted(chunk, self.outcome)[0]
        return np.stack([block.level_codes(rows) for block in self.blocks], axis=1)


@dataclass(frozen=True, eq=False)
class WeightedTerms:
    """What each record adds to a main score and its curvature: of a chunk with coins."""

    score: ClippedScore
    outcome: str
    curvature: bool
    records: int = 0

    def __call__(self, chunk: tuple[Rows, np.ndarray, int]) -> WeightedChunk:
        """Coins and terms of the true rows."""
        given, light, count = chunk
        rows, y = parted(given, self.outcome)
        expect_rows(self.records)
        vectors, factors = self.score.terms_and_factors(rows, y)
        terms = [vectors[:count], factors[:count]]
        return light[:count], terms if self.curvature else terms[:1]

    def compiled(self, sums: WeightedSums) -> CompiledTerms | None:
        """The same sums by a compiled loop; None where the score has no form for it."""
        expect_rows(self.records)
        form = self.score.two_valued
        return None if form is None else CompiledTerms(form, sums.sums, sums.weight)


def compiled_total(
    loops: Any, score: ClippedScore, chunks: Iterable[tuple[Rows, np.ndarray, int]]
) -> list[int]:
    """The exact sum of a score that has a form of few steps: `noise.exact_total` of its terms."""
    form, one = score.two_valued, BoundedSum(score.bound, False, 1.0)
    if form is None:
        raise ValueError("a score in few steps is needed")
    sums, compiled = WeightedSums([one], WEIGHT_ONE), CompiledTerms(form, [one])
    for rows, y, count in chunks:
        columns, none = form.columns(rows)[:, :count], np.zeros(count, dtype=bool)
        domain = everywhere(len(columns))
        found, left = compiled.add_up(loops, columns, y[:count], none, domain)
        sums.add(found)
        if len(left):
            rest = {name: np.asarray(v)[left] for name, v in rows.items()}
            sums.add(sums.of((none[left], [score.terms(rest, y[left])])))
    totals = sums.totals or [exact_total((), score.bound, False)]  # refused
    return [total // WEIGHT_ONE for total in totals[0]]
