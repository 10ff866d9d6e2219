"""Checks, second rounds and several plans of a table: as of the same records in memory."""

from __future__ import annotations

import sys
from copy import copy
from functools import cache
from threading import Lock

import dask.dataframe as dd
import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import pymc_private as pmp
from pymc_private.criticism import charged_check
from pymc_private.criticism.charged_check import _job as _check_job
from pymc_private.criticism.charged_check import noisy_sums
from pymc_private.criticism.fitted_summary import fitted_summary
from pymc_private.errors import DomainError, Incompatible, PymcPrivateError, Unsupported
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries import refinement_plan
from pymc_private.summaries.cells.cell_mechanism import CellCounts, CellMechanism
from pymc_private.summaries.joint_plan import JointSummaryPlan, _same_entries, may_read
from pymc_private.summaries.joint_release import _JointJob
from pymc_private.summaries.noise import LatticeNoise, NoiseScale, largest_mu
from pymc_private.summaries.refine import _refinement_job
from pymc_private.summaries.scores.score_release import _Run
from pymc_private.summaries.summarize import _summary_job
from pymc_private.summaries.summary_job import (
    build_summary,
    private_noise,
    records_of,
    repeated_records,
)
from pymc_private.summaries.tables import read_table, table_records
from pymc_private.summaries.tables.cluster import SummedPart
from pymc_private.summaries.tables.read_table import records_of_plans, records_of_table
from pymc_private.summaries.tables.table_batches import DaskTable, EngineTable
from pymc_private.summaries.tables.table_records import check_together
from pymc_private.summaries.tables.table_rows import Reading
from tests.summaries.tables import table_models
from tests.summaries.tables.table_models import (
    BUDGET,
    NAMES,
    coin,
    frame,
    own_records,
    placeholders,
    split_plan,
)

ROWS = 4000
DEPARTURES = ["link", "quadratic(age)"]


def noise() -> LatticeNoise:
    return LatticeNoise(SeededRandomness.from_seed(5))


def ledger(**words):
    return pmp.Ledger(**({"epsilon": 30, "delta": 1e-4} | words))


@cache
def own():
    return own_records(frame(ROWS))


@cache
def plan():
    """A plan whose pilots read a part of the rows (T37)."""
    return split_plan(epsilon=8.0)


@cache
def summary():
    made = plan()
    records = records_of_table(made.private, frame(ROWS), None, "person", made.mechanism.part, 3)
    released = build_summary(made, made.mechanism.release(records, noise()), None, {})
    return released.with_origin(made.private, made.mechanism)


@cache
def check_plan():
    return pmp.check_plan(summary(), DEPARTURES, epsilon=2, delta=1e-6)


@cache
def second_round():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["pymc_private.summaries.refine"], "LEAST_GAIN", 0.0)
        return refinement_plan(summary(), epsilon=8)


ENGINES = {
    "pandas": lambda t: t,
    "lazy polars": lambda t: pl.from_pandas(t).lazy(),
    "duckdb": duckdb.from_df,
    "dataset": lambda t: ds.dataset(pa.Table.from_pandas(t)),
    "dask": lambda t: dd.from_pandas(t, npartitions=3),
}


def audited(*values):
    return pytest.param(*values, marks=pytest.mark.audit)


def read(private, table):
    return records_of_table(private, table, None, None)


@pytest.mark.parametrize(
    "engine", [*map(audited, ("pandas", "duckdb", "dataset")), "lazy polars", "dask"]
)
def test_a_check_of_a_table_is_that_of_its_records_to_the_bit(engine, monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    made = check_plan()
    expected = noisy_sums(made, records_of(own()), noise())
    table = ENGINES[engine](frame(ROWS).sample(frac=1.0, random_state=2))
    found = noisy_sums(made, read(made.private, table), noise())
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_round_of_a_table_is_that_of_its_records_to_the_bit(monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    made, released = second_round(), summary().released
    expected = made.round.release(released, records_of(own()), noise())
    table = ENGINES["lazy polars"](frame(ROWS).sample(frac=1.0, random_state=2))
    found = made.round.release(released, read(made.private, table), noise())
    assert found.keys() == expected.keys()
    assert len(found["scores"]) == len(released["scores"]) + 1
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_a_round_is_added_up_where_the_rows_lie(monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    monkeypatch.setattr(DaskTable, "batches", None)
    made = second_round()
    records = read(made.private, ENGINES["dask"](frame(ROWS)))
    found = made.round.release(summary().released, records, noise())
    expected = made.round.release(summary().released, records_of(own()), noise())
    for name in ("scores", "curvature"):
        np.testing.assert_array_equal(found[name], expected[name])


def test_what_workers_cannot_do_is_refused_before_the_charge(monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    records = read(check_plan().private, ENGINES["dask"](frame(ROWS)))
    records.check(lambda chunk, count: [[count]])
    for work in (lambda chunk, count: 1 // count, Lock()):
        with pytest.raises(Unsupported, match="nothing was charged"):
            records.check(work)


def test_a_round_reads_all_records_at_its_own_price():
    """Neither the share of pilots nor their larger sensitivity is the round's."""
    made, mechanism = second_round(), plan().mechanism
    mu = largest_mu(8.0, 1e-6)
    assert made.round.design.part is None
    assert made.round.design.scale == NoiseScale("substitute")
    assert made.guarantee.gdp == mu
    assert made.total.gdp == pytest.approx(np.hypot(mechanism.mu, mu))
    kinds = mechanism._kinds(len(summary().released["scores"]) + 1)
    np.testing.assert_array_equal(kinds.weights[:, -1], 1.0)
    np.testing.assert_array_equal(kinds.weights[:, :-1], mechanism.design.kinds.weights)


def test_the_null_law_of_a_check_knows_the_weights_of_records():
    """Pilots of a quarter of the rows tell of a statistic of all rows a quarter as much."""
    mechanism = plan().mechanism
    found = fitted_summary(mechanism, summary().released)
    p, share = len(found.mean), mechanism.part.share
    releases = mechanism.noisy_scores(summary().released, found.rows)
    for k, mean in ((0, share), (len(releases) - 1, 1.0 - share * 27 / 256)):
        bare = releases[k].clipped.vectors(found.at.values)
        np.testing.assert_allclose(found.released[:, :, k * p : (k + 1) * p], mean * bare)


def releases_of(what, table, **words):
    if what == "check":
        return pmp.check(check_plan(), data=table, progressbar=False, **words)
    if what == "refine":
        return pmp.refine(second_round(), data=table, progressbar=False, **words)
    return pmp.summarize(plans(), data=table, progressbar=False, **words)


@cache
def plans():
    """One of covariates and outcome, whose pilots read a part, and one of the outcome alone."""
    return [plan(), pmp.calibrate(coin(ROWS), release="summary", method="cells", **BUDGET)]


JOBS = {
    "summarize": lambda table: (plan(), _summary_job(plan(), table, None, False, False)),
    "refine": lambda table: (second_round(), _refinement_job(second_round(), table, None, False)),
    "check": lambda table: (
        check_plan(),
        _check_job(check_plan(), plan().private, table, None, False),
    ),
    "several": lambda table: (
        plans()[1],
        _JointJob(JointSummaryPlan(tuple(plans())), None, False, False, [table, table]).job,
    ),
}


@pytest.mark.parametrize("what", JOBS)
def test_the_noise_of_a_charged_release_is_that_of_its_units(what, monkeypatch):
    """As much as the relation and the records of a unit demand, which `private_noise` knows."""
    table, seen = read(plan().private, frame(ROWS)), []
    (made, job), round_type = JOBS[what](table), type(second_round().round)
    for module in ("summarize", "refine", "joint_release"):
        name = f"pymc_private.summaries.{module}"
        monkeypatch.setattr(sys.modules[name], "private_noise", lambda p: ("noise of", p))
    monkeypatch.setattr(charged_check, "private_noise", lambda p: ("noise of", p))
    monkeypatch.setattr(charged_check, "noisy_sums", lambda *a: seen.append(a[2]) or [])
    monkeypatch.setattr(type(plan().mechanism), "release", lambda *a: seen.append(a[2]) or {})
    monkeypatch.setattr(CellMechanism, "release", lambda *a: seen.append(a[2]) or {})
    monkeypatch.setattr(round_type, "release", lambda *a: seen.append(a[3]) or {})
    job.draw(None)
    assert ("noise of", made.private) in seen
    assert all(one[0] == "noise of" for one in seen)


def test_private_noise_is_of_the_relation_and_the_records_of_a_unit():
    made = private_noise(coin(neighbors="add_remove", records_per_unit=3))
    assert made.scale == NoiseScale("add_remove", 3)


def test_pilots_that_read_a_part_have_the_noise_of_parts():
    """A record that changes may leave the part: numbers move twice (T37)."""
    own = {"X": np.zeros((5, 2)), "y": np.zeros(5)}
    for design, parts in ((plan().mechanism.design, True), (second_round().round.design, False)):
        assert _Run(design, own, noise(), None).noise.scale.parts is parts


UNWARNED = pytest.mark.filterwarnings("ignore:this ledger was not charged for the summary")


@UNWARNED
@pytest.mark.parametrize("what", ["check", "refine"])
def test_a_table_is_charged_once_and_released(what):
    book, table = ledger(), pl.from_pandas(frame(ROWS)).lazy()
    found = releases_of(what, table, id="person", ledger=book, name="main")
    again = releases_of(what, table, id="person", ledger=book, name="main")
    assert len(book.entries) == 1
    assert found.to_bytes() == again.to_bytes()


WRONG = {
    "a column less": (lambda t: t.drop(columns="y"), {}, "lacks columns"),
    "a category": (lambda t: t.assign(y=2), {}, "not among the declared categories"),
    "a row less": (lambda t: t.iloc[1:], {}, "another number of rows"),
    "one person": (lambda t: t.assign(person=1), {"id": "person"}, "owns more rows"),
    "a name": (lambda t: t, {"columns": {"z": "y"}}, "private variables"),
    "no table": (lambda t: None, {}, "placeholder rows"),
    "no table of persons": (lambda t: None, {"id": "person"}, "name columns of a table"),
}


@UNWARNED
@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        *[("check", wrong) for wrong in WRONG],
        *[("refine", wrong) for wrong in ("a row less", "no table")],
        *[("several", wrong) for wrong in ("a name", "no table")],
        audited("several", "one person"),
    ],
)
def test_what_is_refused_costs_nothing(what, wrong):
    book, (change, words, match) = ledger(), WRONG[wrong]
    with pytest.raises(PymcPrivateError, match=match):
        releases_of(what, change(frame(ROWS)), ledger=book, **words)
    assert not book.entries


@UNWARNED
@pytest.mark.parametrize("what", ["check", *map(audited, ("refine", "several"))])
def test_a_table_that_changes_is_charged_and_not_released(what, monkeypatch):
    tables = [frame(ROWS, seed) for seed in range(30)]
    summary(), check_plan(), second_round()  # of the table that does not change
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    monkeypatch.setattr(
        EngineTable, "batches", lambda _, names: [dict(tables.pop()[list(names)].items())]
    )
    book = ledger()
    with pytest.raises(PymcPrivateError) as caught:
        releases_of(what, frame(ROWS), ledger=book, id="person")
    assert len(book.entries) == 1
    assert "nothing was charged" not in str(caught.value)


def test_several_plans_are_released_as_each_alone(monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    reads = []
    once = EngineTable.batches

    def counted(table, names):
        reads.append(list(names))
        return once(table, names)

    monkeypatch.setattr(EngineTable, "batches", counted)
    book = ledger()
    found = releases_of("several", frame(ROWS), id="person", ledger=book)
    assert len(book.entries) == 1
    assert sorted(map(len, reads)) == [1, 4, 4]  # the check of both, then each
    assert [one.facts["method"] for one in found] == ["scores", "cells"]
    assert found[1].released["counts"].sum() == pytest.approx(ROWS, abs=60)
    with found[1].model() as model:
        assert [v.name for v in model.free_RVs] == ["p"]


def test_columns_of_several_plans():
    words = {"X": ["a", "income"], "y": "ill"}
    tables = records_of_plans(
        plans(), frame(3).rename(columns={"y": "ill", "age": "a"}), words, None
    )
    assert [one.reader.names for one in tables] == [["ill", "a", "income"], ["ill"]]


def test_units_of_several_plans_are_counted_once(monkeypatch):
    counted, count = [], read_table.check_units
    monkeypatch.setattr(read_table, "check_units", lambda *a: counted.append(1) or count(*a))
    check_together(records_of_plans(plans(), frame(ROWS), None, "person"))
    assert counted == [1]
    with pytest.raises(DomainError, match="owns more rows"):
        check_together(records_of_plans(plans(), frame(ROWS).assign(person=1), None, "person"))


def test_coordinates_tell_other_columns_of_one_name(monkeypatch):
    private = placeholders(ROWS)
    (source,) = (s for s in private.sources if s.name == "X")
    for names, same in ((NAMES, True), (["height", "weight"], False), (NAMES[::-1], False)):
        monkeypatch.setattr(table_models, "NAMES", names)
        assert _same_entries(private, placeholders(ROWS), source) == same


@cache
def whole_plan():
    """A plan all of whose stages read all rows."""
    return pmp.calibrate(placeholders(ROWS), release="summary", method="scores", **BUDGET)


@pytest.mark.audit
def test_plans_of_parts_share_no_moments():
    assert not may_read(plan(), whole_plan())
    assert not may_read(whole_plan(), plan())


@pytest.mark.audit
def test_plans_of_other_columns_share_no_moments():
    """Matrices of one name, whose coordinates name other columns of the table."""
    other = copy(whole_plan())
    for names, shared in ((NAMES, True), (["height", "weight"], False), (NAMES[::-1], False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(table_models, "NAMES", names)
            object.__setattr__(other, "private", placeholders(ROWS))
        assert may_read(other, whole_plan()) == may_read(whole_plan(), other) == shared


@pytest.mark.parametrize("pure", [False, True])
def test_cells_are_counted_where_the_rows_lie(pure, monkeypatch):
    """Of large tables on workers; no rows come to this process."""
    words = {"method": "cells", "epsilon": 1.0, "delta": 0.0 if pure else 1e-6}
    mechanism = pmp.calibrate(coin(ROWS), release="summary", **words).mechanism
    counts = np.bincount(frame(ROWS).y)
    exact = CellCounts(mechanism.partition)({"y": frame(ROWS).y.to_numpy()}, ROWS)
    np.testing.assert_array_equal(exact, [counts])
    mechanism = mechanism if pure else CellMechanism(mechanism.private, 1e6)
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    monkeypatch.setattr(DaskTable, "batches", None)
    table = ENGINES["dask"](frame(ROWS))
    released = mechanism.release(read(mechanism.private, table), noise())["counts"]
    np.testing.assert_allclose(released.ravel(), counts, atol=60 if pure else 0.01)


def test_a_check_is_added_up_where_the_rows_lie(monkeypatch):
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    monkeypatch.setattr(DaskTable, "batches", None)
    made = check_plan()
    records = read(made.private, ENGINES["dask"](frame(ROWS)))
    noisy_sums(made, records, noise())
    monkeypatch.setattr(
        table_records, "results_of_workers", lambda *_: [SummedPart([[0], [0]], Reading(1))]
    )
    with pytest.raises(Incompatible, match="other rows than the first time"):
        noisy_sums(made, records, noise())


def test_a_rehearsal_counts_as_many_records_as_the_table_has():
    """Cells of a million rows: a thousand made-up ones are no data of theirs."""
    private = coin(10**6)
    (counts,) = repeated_records(private).sum_up(lambda rows, count: [[count]], 512)
    assert 0.99e6 < counts[0] <= 1e6
    plan = pmp.calibrate(private, release="summary", method="cells", **BUDGET)
    with pytest.raises(DomainError, match="another number of rows"):  # and not by the rehearsal
        pmp.summarize(plan, data=frame(10), ledger=ledger(), progressbar=False)


@UNWARNED
def test_a_second_round_of_cells_reads_the_table_again():
    made = pmp.calibrate(coin(ROWS), release="summary", method="cells", epsilon=0.01, delta=1e-6)
    book = ledger()
    found = pmp.summarize(made, data=frame(ROWS), ledger=book, accept_prior=True, progressbar=False)
    words = {"epsilon": 1, "ledger": book, "progressbar": False}
    refined = pmp.refine(found, data=frame(ROWS), **words)
    assert refined.released["noise_sd"] < found.released["noise_sd"]
    with pytest.raises(DomainError, match="lacks columns"):
        pmp.refine(found, data=frame(ROWS)[NAMES], **words)
    assert len(book.entries) == 2
