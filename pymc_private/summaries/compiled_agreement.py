"""Compiled loops compared with NumPy, to the bit, on made-up rows of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_private.summaries.lattice import TermLattice, pack_symmetric
from pymc_private.summaries.scores.clipped_scores import ScoredRows, clip_rows
from pymc_private.summaries.scores.compiled_scores import two_valued_terms
from pymc_private.summaries.tables.coins import FIRST, MIXER, SECOND, fold, mixed
from pymc_private.summaries.weighted_sums import GramLattice, gram_totals, vector_totals

ROWS, COLUMNS = 1200, 5
BOUNDS = (1.3, 0.02), (0.25, 0.5)
"""Pairs of C and K at which scores are compared."""
EXTREME = np.array([0.0, -0.0, 1e-310, 1e160, -1e308, np.inf, -np.inf, np.nan])


def differing(loops: Any) -> list[str]:
    """Names of the loops whose results are not those of NumPy."""
    checks = {
        "scores": _scores_agree,
        "vectors": _vectors_agree,
        "matrices": _matrices_agree,
        "signs": _signs_agree,
        "hashes": _hashes_agree,
    }
    return [name for name, agree in checks.items() if not agree(loops)]


class _GivenScores:
    """Scores of outcomes that are the place of the score in a table."""

    def __init__(self, scores: np.ndarray) -> None:
        self.table = scores

    def scores(self, predictors: np.ndarray, rows: Mapping[str, Any], y: np.ndarray) -> np.ndarray:
        """As of `clipped_scores.RecordModel`."""
        return np.take_along_axis(self.table, y.astype(int)[:, :, None], 1)


def scored_rows(rng: np.random.Generator, count: int = ROWS, p: int = COLUMNS) -> ScoredRows:
    """Rows of an outcome of 0 or 1, some of them with numbers that are none."""
    jacobian = rng.normal(size=(p, 1, count)).T * rng.choice([1e-9, 0.1, 1.0, 30.0], (count, 1, 1))
    scores = rng.normal(size=(count, 2, 1)) * rng.choice([1e-3, 1.0, 40.0], (count, 1, 1))
    mass = rng.dirichlet([0.5, 0.5], count)
    jacobian[:3] = 0.0
    for array in (jacobian, scores, mass):
        places = rng.integers(0, array.size, count // 40)
        np.put(array, places, rng.choice(EXTREME, len(places)))
    values = np.broadcast_to(np.array([0.0, 1.0]), (count, 2))
    model: Any = _GivenScores(scores)
    predictors = np.zeros((count, 1))
    return ScoredRows(model, {}, predictors, jacobian, values, mass, scores)


def _scores_agree(loops: Any) -> bool:
    rng = np.random.default_rng(5)
    scored, y = scored_rows(rng), (rng.random(ROWS) < 0.4).astype(float)
    root = rng.normal(size=(COLUMNS, COLUMNS))
    same = True
    for bound, weight_bound in BOUNDS:
        found: Any = two_valued_terms(loops, scored, root @ root.T, (bound, weight_bound), y)
        clipped = clip_rows(scored.framed(root @ root.T), bound, weight_bound)
        same &= np.array_equal(found[0], clipped.vectors(y[:, None])[:, 0])
        same &= np.array_equal(found[1], clipped.curvature_factors())
    return bool(same)


def rows_near_a_bound(rng: np.random.Generator, bound: float, count: int = ROWS) -> np.ndarray:
    """Vectors shorter and longer than a bound, many at it to the last bits, some no numbers."""
    rows = rng.normal(size=(count, COLUMNS))
    rows *= bound / np.sqrt((rows**2).sum(axis=1, keepdims=True))
    rows *= 1.0 + 2.0**-52 * rng.integers(-4, 5, (count, 1))
    rows[::3] *= rng.choice([0.1, 0.9, 1.0 + 2.0**-20, 7.0, 1e200], (len(rows[::3]), 1))
    places = rng.integers(0, rows.size, count // 60)
    np.put(rows, places, rng.choice(EXTREME, len(places)))
    return rows


def _vectors_agree(loops: Any) -> bool:
    rng = np.random.default_rng(6)
    light, lattice = rng.random(ROWS) < 0.3, TermLattice(0.7)
    rows = rows_near_a_bound(rng, 0.7)
    return vector_totals(lattice, rows, light, loops) == vector_totals(lattice, rows, light, None)


def _matrices_agree(loops: Any) -> bool:
    rng = np.random.default_rng(7)
    light, lattice = rng.random(ROWS) < 0.3, GramLattice(0.49)
    rows = rows_near_a_bound(rng, 0.7)[:, None, :]
    return gram_totals(lattice, rows, light, loops) == gram_totals(lattice, rows, light, None)


def _signs_agree(loops: Any) -> bool:
    """Of packed matrices that are positive, nearly so, and not."""
    rng, lattice = np.random.default_rng(9), TermLattice(1.0)
    vectors = rng.normal(size=(ROWS, 3)) * rng.choice([1e-3, 0.4, 2.0], (ROWS, 1))
    matrices = vectors[:, :, None] * vectors[:, None, :]
    shifts = rng.choice([0.0, 1e-3, 2.0**-20, 2.0**-20 * (1.0 + 1e-6)], (ROWS, 1))
    matrices -= shifts[:, :, None] * np.eye(3)
    rows = pack_symmetric(matrices)
    places = rng.integers(0, rows.size, ROWS // 60)
    np.put(rows, places, rng.choice(EXTREME, len(places)))
    light = rng.random(ROWS) < 0.3
    found, expected = (vector_totals(lattice, rows, light, one, True) for one in (loops, None))
    return found == expected


def _hashes_agree(loops: Any) -> bool:
    found, column = np.random.default_rng(8).integers(0, 2**64, (2, ROWS), dtype=np.uint64)
    mix, folded = found.copy(), found.copy()
    loops.mix_column(mix, column, SECOND, FIRST, SECOND)
    loops.fold_column(folded, column, MIXER)
    same = np.array_equal(mix, mixed((found ^ column) + SECOND))
    return same and np.array_equal(folded, fold(found, column))
