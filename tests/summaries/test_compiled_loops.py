"""Compiled loops give the bits of NumPy, whatever the chunks, and are dropped where they do not."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest

from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries import compiling
from pymc_private.summaries.compiled_agreement import differing, rows_near_a_bound, scored_rows
from pymc_private.summaries.compiling import COMPILED_FROM, COMPILER, LoopCompiler
from pymc_private.summaries.lattice import TermLattice
from pymc_private.summaries.noise import LatticeNoise
from pymc_private.summaries.scores.compiled_scores import two_valued_terms
from pymc_private.summaries.summary_job import made_up_noise
from pymc_private.summaries.tables.read_table import records_of_table
from pymc_private.summaries.weighted_sums import GramLattice, gram_totals, vector_totals
from tests.summaries.tables.table_models import frame, split_plan


@pytest.fixture(scope="module")
def loops():
    """The loops, compiled."""
    from pymc_private.summaries import compiled_loops

    assert differing(compiled_loops) == []
    return compiled_loops


@pytest.fixture
def compiler(loops, monkeypatch):
    """A process in which loops are compiled."""
    monkeypatch.setattr(COMPILER, "wanted", True)
    monkeypatch.setattr(COMPILER, "_tried", True)
    monkeypatch.setattr(COMPILER, "_found", loops)


@pytest.mark.parametrize("count", [1, 511, 512, 513, 1200])
def test_sums_do_not_depend_on_blocks_or_their_tails(loops, count):
    rng = np.random.default_rng(count)
    light, rows = rng.random(count) < 0.4, rows_near_a_bound(rng, 0.7, count)
    for lattice, totals, terms in (
        (TermLattice(0.7), vector_totals, rows),
        (GramLattice(0.49), gram_totals, rows[:, None, :]),
        (GramLattice(0.49), gram_totals, np.stack([rows, 0.5 * rows], axis=1)),
    ):
        expected = totals(lattice, terms, light, None)
        assert totals(lattice, terms, light, loops) == expected
        order, cut = rng.permutation(count), count // 3
        parts = [
            totals(lattice, terms[some], light[some], loops) for some in (order[:cut], order[cut:])
        ]
        for k in (0, 1):
            assert [a + b for a, b in zip(parts[0][k], parts[1][k], strict=True)] == expected[k]


def test_sums_of_the_longest_terms_do_not_overflow(loops):
    """2^22 terms of 2^41 units, whose sum no 64 bits hold; of matrices, at the end of doubles."""
    lattice, count = TermLattice(1.9999), 2**22 + 2**12
    rows = np.broadcast_to(np.array([[1.9999]]), (count, 1))
    every, some = vector_totals(lattice, rows, np.ones(count, dtype=bool), loops)
    assert every == some == [lattice.most * count]
    assert every[0] > 2**63
    unit, count = 2**18 - 1, 2**18 + 3  # odd numbers
    matrices, light = GramLattice(3.9999999), np.ones(count, dtype=bool)
    vectors = np.full((count, 1, 1), np.ldexp(float(unit), matrices.vector_exponent))
    found = gram_totals(matrices, vectors, light, loops)
    assert found[0] == found[1] == [unit**2 * count]
    assert found[0][0] > 2**53


def test_scores_of_a_row_are_the_same_among_other_rows(loops):
    rng = np.random.default_rng(3)
    scored, y, metric = scored_rows(rng, 700, 9), rng.integers(0, 2, 700) * 1.0, np.eye(9) + 0.1
    whole = two_valued_terms(loops, scored, metric, (1.0, 0.3), y)
    for rows in (slice(0, 1), slice(100, 613), slice(690, None)):
        part = type(scored)(
            SimpleNamespace(scores=None), {}, scored.predictors[rows], scored.jacobian[rows],
            scored.values[rows], scored.mass[rows], scored.scores[rows],
        )  # fmt: skip
        for one, two in zip(
            two_valued_terms(loops, part, metric, (1.0, 0.3), y[rows]), whole, strict=True
        ):
            assert one.tobytes() == np.ascontiguousarray(two[rows]).tobytes()


def twice_the_last_row(loops):
    def vector_sums(values, light, kept, limits, sums, left):
        loops.vector_sums(values, light, kept, limits, sums, left)
        last = np.ascontiguousarray(values[:, -1:])
        loops.vector_sums(last, light[-1:], kept[-1:], limits, sums, left[-1:])

    return {"vector_sums": vector_sums}


def no_tail(loops):
    def gram_vectors(factors, limits, found, left):
        whole = factors.shape[1] // 512 * 512
        found[:] = 0.0
        part = np.empty((len(factors), whole))
        loops.gram_vectors(np.ascontiguousarray(factors[:, :whole]), limits, part, left[:whole])
        found[:, :whole] = part

    return {"gram_vectors": gram_vectors}


def short_integers(loops):
    def vector_sums(values, light, kept, limits, sums, left):
        loops.vector_sums(values, light, kept, limits, sums, left)
        sums[:] = sums.astype(np.int32)

    return {"vector_sums": vector_sums}


def one_bit(loops):
    def two_valued_terms(*arguments):
        loops.two_valued_terms(*arguments)
        arguments[-2][2, 77] = np.nextafter(arguments[-2][2, 77], np.inf)

    return {"two_valued_terms": two_valued_terms}


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        (twice_the_last_row, "vectors"),
        (short_integers, "vectors"),
        (no_tail, "matrices"),
        (one_bit, "scores"),
    ],
)
def test_a_loop_that_differs_is_found_and_not_used(loops, fault, found, monkeypatch, caplog):
    wrong = SimpleNamespace(**{**vars(loops), **fault(loops)})
    assert found in differing(wrong)
    made = LoopCompiler()
    made.expect(COMPILED_FROM)
    agreement = SimpleNamespace(differing=lambda _: differing(wrong))
    monkeypatch.setattr(compiling, "import_module", lambda name: agreement)
    with caplog.at_level(logging.WARNING):
        assert made.loops is None
    assert "differ from NumPy, which is used" in caplog.text


def test_loops_are_compiled_for_many_rows_only_and_done_without_where_numba_fails(monkeypatch):
    made = LoopCompiler()
    made.expect(COMPILED_FROM - 1)
    assert made.loops is None
    assert not made._tried
    made.expect(COMPILED_FROM)
    made.expect(10)

    def fails(name):
        raise ImportError(name)

    monkeypatch.setattr(compiling, "import_module", fails)
    assert made.wanted
    assert made.loops is None
    assert made._tried


def test_a_sum_with_noise_is_the_same_either_way(compiler, monkeypatch):
    rows = rows_near_a_bound(np.random.default_rng(1), 0.7)
    found = []
    for wanted in (True, False):
        monkeypatch.setattr(COMPILER, "wanted", wanted)
        noise = LatticeNoise(SeededRandomness.from_seed(3))
        found.append(noise.total([rows[:700], rows[700:]], 0.7, False, 0.5))
    np.testing.assert_array_equal(*found)


def test_a_release_is_the_same_with_and_without_compiled_loops(compiler, monkeypatch):
    """All stages of a table whose pilots are a part: coins, moments, pilots, main sums."""
    plan, found = split_plan(), []
    for wanted, table in ((False, frame(4000)), (True, frame(4000).iloc[::-1])):
        monkeypatch.setattr(COMPILER, "wanted", wanted)
        records = records_of_table(plan.private, table, None, "person", plan.mechanism.part, seed=3)
        records.check()
        found.append((records.first, plan.mechanism.release(records, made_up_noise(plan.private))))
    (before, one), (after, two) = found
    assert before == after
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])
