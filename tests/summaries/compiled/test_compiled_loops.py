"""Compiled loops give the bits of NumPy, whatever the chunks, and are dropped where they do not."""

import logging
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numba.core.dispatcher import Dispatcher

import pymc_private as pmp
from pymc_private.errors import Incompatible
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries.compiled.compiler import (
    COMPILED_FROM,
    COMPILER,
    ROWS,
    SCORES,
    SUMS,
    LoopCompiler,
)
from pymc_private.summaries.compiled.loops import compiled_loop
from pymc_private.summaries.compiled_agreement import (
    agreeing_loops,
    compiled,
    differing,
    rows_near_a_bound,
    scored_rows,
)
from pymc_private.summaries.lattice import TermLattice
from pymc_private.summaries.noise import LatticeNoise
from pymc_private.summaries.scores import pilot_part
from pymc_private.summaries.scores.compiled_scores import two_valued_terms
from pymc_private.summaries.summary_job import made_up_noise
from pymc_private.summaries.tables import table_batches, table_records
from pymc_private.summaries.tables.read_table import records_of_table
from pymc_private.summaries.tables.table_batches import as_table
from pymc_private.summaries.weighted_sums import GramLattice, gram_totals, vector_totals
from tests.summaries.tables.table_models import BUDGET, NAMES, frame, split_plan


@pytest.fixture(scope="module")
def loops():
    """The loops, compiled but for sums of scores."""
    found = compiled()
    assert differing(found, ROWS) + differing(found, SCORES) == []
    return found


@pytest.fixture(scope="module")
def all_loops(loops):
    """All of them."""
    assert differing(loops, SUMS) == []
    return loops


@pytest.fixture
def compiler(loops, monkeypatch):
    """A process in which loops are compiled."""
    monkeypatch.setattr(COMPILER, "agreeing", agreeing_loops)
    monkeypatch.setattr(COMPILER, "_found", {ROWS: loops, SCORES: loops, SUMS: None})


@pytest.fixture
def every_kind(compiler, all_loops):
    """Of all kinds."""
    COMPILER._found[SUMS] = all_loops


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


def one_row_twice(loops):
    def two_valued_sums(*arguments):
        *before, sums, matrices, left = arguments
        loops.two_valued_sums(*arguments)
        some = [np.ascontiguousarray(v[..., -1:]) for v in before[:3]]
        loops.two_valued_sums(*some, *before[3:], sums, matrices, left[-1:])

    return {"two_valued_sums": two_valued_sums}


def no_bounds(loops):
    """Rows beyond the domain are added up, unclipped."""

    def two_valued_sums(rows, second, weights, domain, *others):
        open_box = np.stack([np.full(len(rows), -np.inf), np.full(len(rows), np.inf)])
        loops.two_valued_sums(rows, second, weights, (open_box, *domain[1:]), *others)

    return {"two_valued_sums": two_valued_sums}


def no_length(loops, which):
    """Terms longer than their bound count as they are: vectors, or factors."""

    def two_valued_sums(*arguments):
        lattices = list(arguments[7])
        lattices[which] = (lattices[which][0], np.inf, np.inf)
        loops.two_valued_sums(*arguments[:7], tuple(lattices), *arguments[8:])

    return {"two_valued_sums": two_valued_sums}


def no_length_of_vectors(loops):
    return no_length(loops, 0)


def no_length_of_factors(loops):
    return no_length(loops, 1)


def heavy_pilots(loops):
    """Records of the pilot part count as the others."""

    def two_valued_sums(rows, second, weights, *others):
        loops.two_valued_sums(rows, second, np.full_like(weights, 256.0), *others)

    return {"two_valued_sums": two_valued_sums}


def one_column(loops):
    def numbers_of_rows(columns, keyed, *others):
        return loops.numbers_of_rows(columns, keyed[:1], *others)

    return {"numbers_of_rows": numbers_of_rows}


SLOW = pytest.mark.audit


@pytest.mark.parametrize(
    ("fault", "kind", "found"),
    [
        (twice_the_last_row, ROWS, "vectors"),
        (short_integers, ROWS, "vectors"),
        (no_tail, ROWS, "matrices"),
        (one_bit, SCORES, "scores"),
        (one_column, ROWS, "numbers"),
        pytest.param(one_row_twice, SUMS, "sums", marks=SLOW),
        pytest.param(no_bounds, SUMS, "sums", marks=SLOW),
        pytest.param(no_length_of_vectors, SUMS, "sums", marks=SLOW),
        pytest.param(no_length_of_factors, SUMS, "sums", marks=SLOW),
        pytest.param(heavy_pilots, SUMS, "sums", marks=SLOW),
    ],
)
def test_a_loop_that_differs_is_found_and_not_used(loops, fault, kind, found, caplog):
    wrong = SimpleNamespace(**{**vars(loops), **fault(loops)})
    assert found in differing(wrong, kind)
    made = LoopCompiler()
    made.expect(COMPILED_FROM, lambda kind: (wrong, differing(wrong, kind)))
    with caplog.at_level(logging.WARNING):
        assert made.of_kind(kind) is None
    assert "differ from NumPy, which is used" in caplog.text


def test_loops_are_compiled_for_many_rows_only_and_done_without_where_numba_fails():
    def fails(kind):
        raise ImportError(kind)

    made = LoopCompiler()
    made.expect(COMPILED_FROM - 1, fails)
    assert made.loops is None
    assert not made._found
    made.expect(COMPILED_FROM, fails)
    made.expect(10, agreeing_loops)
    assert made.agreeing is fails
    assert made.loops is None
    assert made._found == {ROWS: None}


def test_a_loop_is_compiled_where_nothing_can_be_written(monkeypatch):
    def fails(self):
        raise RuntimeError("no locator")

    monkeypatch.setattr(Dispatcher, "enable_caching", fails)
    assert compiled_loop(lambda x: x + 1.0)(2.0) == 3.0


def test_a_sum_with_noise_is_the_same_either_way(compiler, monkeypatch):
    rows = rows_near_a_bound(np.random.default_rng(1), 0.7)
    found = []
    for wanted in (True, False):
        monkeypatch.setattr(COMPILER, "agreeing", agreeing_loops if wanted else None)
        noise = LatticeNoise(SeededRandomness.from_seed(3))
        found.append(noise.total([rows[:700], rows[700:]], 0.7, False, 0.5))
    np.testing.assert_array_equal(*found)


def mixed_plan():
    """A plan of a probit model with intervals, whole numbers and numbers of three values."""
    with pm.Model(coords={"row": range(3)}) as model:
        age, visits = (
            pm.Data("age", np.zeros(3), dims="row"),
            pm.Data("visits", [0, 1, 2], dims="row"),
        )
        dose = pm.Data("dose", [0.0, 0.5, 2.0], dims="row")
        b = pm.Normal("b", 0, 1, shape=4)
        eta = b[0] + b[1] * age + b[2] * visits + b[3] * dose
        pm.Bernoulli("y", pm.math.invprobit(eta), observed=[0, 1, 1], dims="row")
    domain = {"age": (-0.5, 1.0), "visits": (0, 3), "dose": {0.0, 0.5, 2.0}}
    private = pmp.privatize(model, records="row", domain=domain, n=4000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pilot_part, "LEAST_RECORDS", 4000)
        patch.setattr(pilot_part, "LEAST_PILOTS", 1000)
        return pmp.calibrate(private, release="summary", method="scores", **BUDGET)


@pytest.mark.audit
def test_columns_of_other_domains_are_added_up_as_records_are(every_kind, monkeypatch):
    rng, plan = np.random.default_rng(2), mixed_plan()
    table = frame(4000).assign(
        visits=rng.integers(-1, 6, 4000), dose=rng.choice([0.0, 0.5, 2.0], 4000)
    )
    without = released(table, monkeypatch, False, plan)
    used = []
    monkeypatch.setattr(COMPILER._found[SUMS], "two_valued_sums", counted(used, "two_valued_sums"))
    assert_released_alike(without, released(table.iloc[::-1], monkeypatch, True, plan))
    assert len(used) > 10  # pilots, and the main pass


def released(table, monkeypatch, wanted, plan=None):
    """All stages of a table whose pilots are a part: coins, moments, pilots, main sums."""
    plan = plan or split_plan()
    monkeypatch.setattr(COMPILER, "agreeing", agreeing_loops if wanted else None)
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    records = records_of_table(plan.private, table, None, "person", plan.mechanism.part, seed=3)
    records.check()
    return records.first, plan.mechanism.release(records, made_up_noise(plan.private))


def assert_released_alike(one, two):
    assert one[0] == two[0]
    for name in one[1]:
        np.testing.assert_array_equal(one[1][name], two[1][name])


def test_a_release_is_the_same_with_and_without_compiled_loops(compiler, monkeypatch):
    without = released(frame(4000), monkeypatch, False)
    assert_released_alike(without, released(frame(4000).iloc[::-1], monkeypatch, True))


@pytest.mark.audit
def test_a_release_is_the_same_where_columns_are_added_up(every_kind, monkeypatch):
    """Some rows lie outside the ball, some on it; whole numbers, batches of any size."""
    table = frame(4000)
    table.loc[::50, NAMES] = [0.6, 0.8]
    table.loc[1::50, NAMES] = [-1.0, 0.0]
    without, used = released(table, monkeypatch, False), []
    for loop in ("two_valued_sums", "numbers_of_rows"):
        monkeypatch.setattr(COMPILER._found[SUMS], loop, counted(used, loop))
    for rows in (65_536, 700):
        monkeypatch.setattr(table_batches, "ROWS", rows)
        for given in (table, table.iloc[::-1], table.astype({"y": "int8", "age": "float64"})):
            assert_released_alike(without, released(given, monkeypatch, True))
    assert {"two_valued_sums", "numbers_of_rows"} == set(used)


def counted(used, name):
    loop = getattr(COMPILER._found[SUMS], name)

    def function(*arguments):
        used.append(name)
        return loop(*arguments)

    return function


@pytest.mark.audit
@pytest.mark.parametrize("wrong", ["more", "missing", "other"])
def test_columns_that_changed_since_the_check_are_refused(every_kind, monkeypatch, wrong):
    plan, table = split_plan(), frame(4000)
    monkeypatch.setattr(COMPILER, "agreeing", agreeing_loops)
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    records = records_of_table(plan.private, table, None, "person", plan.mechanism.part, seed=3)
    records.check()
    changed = {
        "more": pd.concat([table, table.iloc[:1]]),
        "missing": table.assign(age=table.age.where(table.person != 7)),
        "other": table.assign(y=table.y.where(table.person != 7, 1 - table.y)),
    }[wrong]
    records.table = as_table(changed)
    with pytest.raises(Incompatible, match="other rows than the first time"):
        plan.mechanism.release(records, made_up_noise(plan.private))
