"""Loops of `compiled/` compared with NumPy, to the bit, on made-up rows of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import numpy as np

from pymc_private.summaries.compiled.compiler import CENTERS, COMPILER, ROWS, SCORES, SUMS
from pymc_private.summaries.lattice import TermLattice, pack_symmetric
from pymc_private.summaries.scores.clipped_scores import (
    ScoredRows,
    center_limits,
    centers_and_moments,
    clip_rows,
)
from pymc_private.summaries.scores.compiled_centers import MOST_COMPONENTS, compiled_centers
from pymc_private.summaries.scores.compiled_scores import two_valued_terms
from pymc_private.summaries.scores.compiled_terms import CompiledTerms, Domain, everywhere
from pymc_private.summaries.scores.two_valued_score import TwoValuedScore, link_table
from pymc_private.summaries.tables.mixing import FIRST, MIXER, SECOND, fold, mixed
from pymc_private.summaries.weighted_sums import (
    WEIGHT_ONE,
    BoundedSum,
    GramLattice,
    gram_totals,
    vector_totals,
)

LOOP_FILES = "loops", "two_valued_sums", "clipped_centers"
COUNT, COLUMNS, WEIGHT = 1200, 5, 229
NODES = 1, 3, 7, 8, 13, 64, 66, 128, 131, 300
"""Numbers of nodes at which centers are compared: sums of NumPy take other ways below 8 and above
128."""
BOUNDS = (1.3, 0.02), (0.25, 0.5)
"""Pairs of C and K at which scores are compared."""
EXTREME = np.array([0.0, -0.0, 1e-310, 1e160, -1e308, np.inf, -np.inf, np.nan])


def expect_rows(rows: int) -> None:
    """Take note of how many rows are to be read: for many of them loops are compiled."""
    COMPILER.expect(rows, agreeing_loops)


def agreeing_loops(kind: str) -> tuple[Any, list[str]]:
    """Compiled loops, and the names of those of a kind that differ from NumPy."""
    loops = compiled()
    return loops, differing(loops, kind)


def compiled() -> SimpleNamespace:
    """All loops by name; numba is loaded for those who compile alone."""
    room = "pymc_private.summaries.compiled"
    parts = (import_module(f"{room}.{name}") for name in LOOP_FILES)
    return SimpleNamespace(**{name: loop for part in parts for name, loop in vars(part).items()})


def differing(loops: Any, kind: str | None = None) -> list[str]:
    """Names of the loops, of one kind or of all, whose results are not those of NumPy."""
    checks = {
        "scores": (SCORES, _scores_agree),
        "vectors": (ROWS, _vectors_agree),
        "matrices": (ROWS, _matrices_agree),
        "signs": (ROWS, _signs_agree),
        "hashes": (ROWS, _hashes_agree),
        "numbers": (ROWS, _numbers_agree),
        "sums": (SUMS, _sums_agree),
        "centers": (CENTERS, _centers_agree),
    }
    chosen = {name: agree for name, (own, agree) in checks.items() if kind in (None, own)}
    return [name for name, agree in chosen.items() if not agree(loops)]


class _GivenScores:
    """Scores of outcomes that are the place of the score in a table."""

    def __init__(self, scores: np.ndarray) -> None:
        self.table = scores

    def scores(self, predictors: np.ndarray, rows: Mapping[str, Any], y: np.ndarray) -> np.ndarray:
        """As of `clipped_scores.RecordModel`."""
        return np.take_along_axis(self.table, y.astype(int)[:, :, None], 1)


def scored_rows(rng: np.random.Generator, count: int = COUNT, p: int = COLUMNS) -> ScoredRows:
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
    scored, y = scored_rows(rng), (rng.random(COUNT) < 0.4).astype(float)
    root = rng.normal(size=(COLUMNS, COLUMNS))
    same = True
    for bound, weight_bound in BOUNDS:
        found: Any = two_valued_terms(loops, scored, root @ root.T, (bound, weight_bound), y)
        clipped = clip_rows(scored.framed(root @ root.T), bound, weight_bound)
        same &= np.array_equal(found[0], clipped.vectors(y[:, None])[:, 0])
        same &= np.array_equal(found[1], clipped.curvature_factors())
    return bool(same)


def rows_of_nodes(
    rng: np.random.Generator, m: int, count: int, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Scores (m, N, Q) with mass (N, Q): near and far, some at one point, some without mass."""
    scores = rng.standard_t(1.5, (m, count, nodes)) * rng.choice([1e-9, 0.3, 1.0, 50.0], (count, 1))
    scores[:, ::5] = np.rint(scores[:, ::5])  # kinks of Huber's function, which take many steps
    mass = rng.dirichlet(np.full(nodes, 0.3), count)
    mass[1::7] = 0.0
    mass[2::7, 0] = 1e-300
    for array in (scores, mass):
        places = rng.integers(0, array.size, count // 4)
        np.put(array, places, rng.choice(EXTREME, len(places)))
    return scores, mass


def _centers_agree(loops: Any) -> bool:
    """Of one and two components, from the means and from centers at another bound."""
    rng, same = np.random.default_rng(12), True
    for m in range(1, MOST_COMPONENTS + 1):
        for nodes in NODES:
            scores, mass = rows_of_nodes(rng, m, 60, nodes)
            start = None
            for bound in (2.0, 0.4):
                with np.errstate(all="ignore"):
                    expected = centers_and_moments(scores, mass, bound, start)
                found = compiled_centers(loops, scores, mass, center_limits(bound), start)
                pairs = zip(found, expected, strict=True)
                same &= all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)
                start = expected[0]
    return bool(same)


def rows_near_a_bound(rng: np.random.Generator, bound: float, count: int = COUNT) -> np.ndarray:
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
    light, lattice = rng.random(COUNT) < 0.3, TermLattice(0.7)
    rows = rows_near_a_bound(rng, 0.7)
    return vector_totals(lattice, rows, light, loops) == vector_totals(lattice, rows, light, None)


def _matrices_agree(loops: Any) -> bool:
    rng = np.random.default_rng(7)
    light, lattice = rng.random(COUNT) < 0.3, GramLattice(0.49)
    rows = rows_near_a_bound(rng, 0.7)[:, None, :]
    return gram_totals(lattice, rows, light, loops) == gram_totals(lattice, rows, light, None)


def _signs_agree(loops: Any) -> bool:
    """Of packed matrices that are positive, nearly so, and not."""
    rng, lattice = np.random.default_rng(9), TermLattice(1.0)
    vectors = rng.normal(size=(COUNT, 3)) * rng.choice([1e-3, 0.4, 2.0], (COUNT, 1))
    matrices = vectors[:, :, None] * vectors[:, None, :]
    shifts = rng.choice([0.0, 1e-3, 2.0**-20, 2.0**-20 * (1.0 + 1e-6)], (COUNT, 1))
    matrices -= shifts[:, :, None] * np.eye(3)
    rows = pack_symmetric(matrices)
    places = rng.integers(0, rows.size, COUNT // 60)
    np.put(rows, places, rng.choice(EXTREME, len(places)))
    light = rng.random(COUNT) < 0.3
    found, expected = (vector_totals(lattice, rows, light, one, True) for one in (loops, None))
    return found == expected


def _hashes_agree(loops: Any) -> bool:
    """Of columns that may be written to, and of those that engines lend."""
    found, column = np.random.default_rng(8).integers(0, 2**64, (2, COUNT), dtype=np.uint64)
    same = True
    for is_own in (True, False):
        column.flags.writeable = is_own
        folded = found.copy()
        loops.fold_column(folded, column, MIXER)
        same &= np.array_equal(folded, fold(found, column))
    return same


def made_up_score(rng: np.random.Generator, bound: float, weight_bound: float) -> TwoValuedScore:
    """The score of a link without exponentials, p = 1/2 + x / (2 + 2 |x|)."""

    def link(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        size = 1.0 + x * x
        return 0.5 + 0.5 * x / np.sqrt(size), 1.0 + 3.0 / size

    table = link_table(link, -4.0, 3.0)
    if table is None:
        raise ArithmeticError("no polynomials are close to a smooth function")
    matrix = rng.normal(size=(1 + COLUMNS, COLUMNS))
    return TwoValuedScore(("x",), (0.0, 1.0), matrix, table, bound, weight_bound)


def _sums_agree(loops: Any) -> bool:
    """Of sums of weighted terms, some rows being left to NumPy.

    Once terms are longer than the bounds of their sums: no term may count that the lattice has not
    found short, whatever computed it.
    """
    rng = np.random.default_rng(10)
    y, light = rng.integers(0, 3, COUNT) * 1.0, rng.random(COUNT) < 0.3
    rows = rng.normal(size=(COUNT, COLUMNS - 1)) * rng.choice([1e-9, 0.1, 1.0, 30.0], (COUNT, 1))
    places = rng.integers(0, rows.size, COUNT // 60)
    np.put(rows, places, rng.choice(EXTREME, len(places)))
    rows[-1], y[-1] = 0.1, 1.0  # the last row of the last block is not left
    box, balls, largest = everywhere(COLUMNS - 1)
    box[:, 0], box[:, 1] = (-2.0, 1.0), (-0.5, np.inf)
    ball = np.stack([np.full(COLUMNS - 1, 0.1), np.full(COLUMNS - 1, 0.05)])[None]
    same = True
    domains = (box, balls, largest), (box, ball, np.array([1.0]))
    for domain, shares in zip(domains, ((1.0, 1.0), (1.0, 0.6)), strict=True):
        for limits, share in zip(BOUNDS, shares, strict=True):
            score = made_up_score(rng, *limits)
            bound, weight_bound = (share * limit for limit in limits)
            sums = [BoundedSum(bound, False, 1.0), BoundedSum(weight_bound, True, 1.0)]
            found, left = CompiledTerms(score, sums, WEIGHT).add_up(loops, rows.T, y, light, domain)
            done = np.setdiff1d(np.arange(COUNT), left)
            terms = score.terms_and_factors({"x": rows[done]}, y[done])
            vectors = vector_totals(TermLattice(bound), terms[0], light[done], None)
            matrices = gram_totals(GramLattice(weight_bound), terms[1], light[done], None)
            for total, (every, some) in zip(found, (vectors, matrices), strict=True):
                pairs = zip(every, some, strict=True)
                same &= total == [WEIGHT_ONE * a - (WEIGHT_ONE - WEIGHT) * b for a, b in pairs]
            same &= len(done) > COUNT // 10 and bool(_inside(rows[done], domain).all())
    return bool(same)


def _inside(rows: np.ndarray, domain: Domain) -> np.ndarray:
    """Whether rows are inside of a domain of the loop."""
    (low, high), balls, largest = domain
    found = ((rows >= low) & (rows <= high)).all(axis=1)
    for (middle, rate), most in zip(balls, largest, strict=True):
        found &= (((rows - middle) * rate) ** 2).sum(axis=1) <= most * (1.0 + 1e-12)
    return found


def _numbers_agree(loops: Any) -> bool:
    """Of numbers of rows, and of what was read."""
    rng, key = np.random.default_rng(11), (FIRST, SECOND)
    columns, numbers = rng.normal(size=(3, COUNT)), np.empty(COUNT, dtype=np.uint64)
    columns[:, ::7] = -0.0
    given = np.array([0, 2]), np.array([1]), key, (FIRST, SECOND, MIXER), numbers
    digest, finite = loops.numbers_of_rows(columns, *given)
    expected = np.full(COUNT, key[0])
    for column in columns[[0, 2]]:
        expected = fold(expected, (column + 0.0).view(np.uint64))
    expected = mixed(mixed(expected) ^ key[1])
    hashes = mixed(fold(expected, columns[1].view(np.uint64)))
    same = finite and np.array_equal(numbers, expected)
    same &= int(digest) == int(hashes.sum(dtype=np.uint64))
    columns[1, -1] = np.nan
    return bool(same and not loops.numbers_of_rows(columns, *given)[1])
