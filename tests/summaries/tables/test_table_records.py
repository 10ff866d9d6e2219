"""Records of a table: the same chunks, and the same sums to the bit, however it is read."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pymc_private as pmp
from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.summaries.noise import CHUNK, LatticeNoise
from pymc_private.summaries.scores.clipped_scores import ClippedScore
from pymc_private.summaries.scores.score_terms import WeightedTerms
from pymc_private.summaries.summary_job import records_of
from pymc_private.summaries.tables import table_batches, table_records
from pymc_private.summaries.tables.coins import Coins
from pymc_private.summaries.tables.read_table import records_of_table
from pymc_private.summaries.tables.table_batches import EngineTable
from pymc_private.summaries.tables.table_columns import COIN, columns_of
from pymc_private.summaries.tables.table_rows import RowReader
from pymc_private.summaries.weighted_sums import BoundedSum
from tests.summaries.tables.table_models import (
    BUDGET,
    NAMES,
    N,
    coin,
    frame,
    own_records,
    placeholders,
    split_plan,
)


def noise() -> LatticeNoise:
    return LatticeNoise(SeededRandomness.from_seed(5))


def read(private, table, **words):
    return records_of_table(private, table, words.get("columns"), words.get("unit"))


def batches_of(table: pd.DataFrame, cuts: list[int]):
    """The rows in batches that end at some places."""
    places = sorted({0, *cuts, len(table)})
    return [
        {name: table[name].to_numpy()[a:b] for name in (*NAMES, "y")} for a, b in pairwise(places)
    ]


TABLE_500 = frame(500)
placeholders_of_500 = cache(lambda: placeholders(500))
own_500 = cache(lambda: records_of(own_records(TABLE_500)))


@given(cuts=st.lists(st.integers(0, 500), max_size=6), size=st.integers(1, 130))
def test_chunks_hold_each_row_once_whatever_the_batches(cuts, size):
    records = read(placeholders_of_500(), TABLE_500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_records, "MOST_KEPT", 0)
        patch.setattr(EngineTable, "batches", lambda *_: batches_of(TABLE_500, cuts))
        chunks = list(records.chunks(size))
    assert all(len(rows["X"]) == size for rows, _ in chunks)
    assert all(count == size for _, count in chunks[:-1])
    expected = own_500()
    for name in ("X", "y"):
        found = np.concatenate([rows[name][:count] for rows, count in chunks])
        np.testing.assert_array_equal(found, expected[name])  # clipped as privatize clips
        assert found.dtype == expected[name].dtype


def test_a_summary_is_the_same_to_the_bit_in_any_order(monkeypatch):
    table = frame()
    plan = pmp.calibrate(placeholders(), release="summary", **BUDGET)
    own = pmp.calibrate(own_records(table), release="summary", **BUDGET)
    expected = own.mechanism.release(records_of(own.private), noise())
    shuffled = table.sample(frac=1.0, random_state=2)
    for kept in (0, 10**9):
        monkeypatch.setattr(table_records, "MOST_KEPT", kept)
        found = plan.mechanism.release(read(plan.private, shuffled), noise())
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)


def test_no_rows_are_one_chunk_of_none():
    ((rows, count),) = read(placeholders(neighbors="add_remove"), frame(0)).chunks(16)
    assert count == 0
    assert rows["X"].shape == (16, 2)


@pytest.mark.parametrize("change", ["a value", "a row less", "a column in another order"])
def test_other_rows_at_the_second_reading_are_refused(change, monkeypatch):
    table, readings = frame(500), []

    def batches(*_):
        readings.append(1)
        other = table.copy()
        if len(readings) > 1 and change == "a value":
            other.loc[3, "age"] = 0.123
        elif len(readings) > 1 and change == "a row less":
            other = other.iloc[1:]
        elif len(readings) > 1:
            other["income"] = other["income"].to_numpy()[::-1].copy()
        return batches_of(other, [100])

    monkeypatch.setattr(EngineTable, "batches", batches)
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    records = read(placeholders(500), table)
    with pytest.raises(Incompatible, match="other rows than the first time"):
        noise().total((rows["X"] for rows, _ in records.chunks(64)), 1.0, False, 1.0)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t: t.assign(age=np.nan), "missing or infinite"),
        (lambda t: t.assign(y=2), "not among the declared categories"),
        (lambda t: t.assign(y=0.5), "fractions"),
        (lambda t: t.iloc[1:], "another number of rows"),
    ],
)
def test_what_is_refused_before_a_charge(change, match):
    with pytest.raises(DomainError, match=match) as caught:
        read(placeholders(500), change(frame(500))).check()
    assert "nothing was charged" in str(caught.value)


def test_values_that_two_rows_interchange_are_noticed():
    """What an outcome adds to the sum of hashes is never the same for two rows."""
    columns = tuple(columns_of(placeholders_of_500(), None))
    rows = {"age": np.tile(np.linspace(-1, 1, 30), 30), "person": np.arange(900.0)}
    rows["income"] = np.repeat(np.linspace(-1, 1, 30), 30)
    for coins in None, Coins(("person",), 2**14, key=bytes(range(16))):
        reader = RowReader(columns, coins)
        steps = set()
        for k in range(900):
            row = {name: values[k : k + 1] for name, values in rows.items()}
            ill, well = (reader.read_of(reader.numbers(row | {"y": np.array([y])})) for y in (1, 0))
            steps.add((ill.digest - well.digest) % 2**64)
        assert len(steps) == 900


def test_a_small_table_is_read_once(monkeypatch):
    readings = []

    def batches(*_):
        readings.append(1)
        return batches_of(TABLE_500, [100, 300])

    monkeypatch.setattr(EngineTable, "batches", batches)
    records = read(placeholders_of_500(), TABLE_500)
    records.check()
    found = [np.concatenate([rows["y"][:n] for rows, n in records.chunks(64)]) for _ in range(3)]
    assert all(np.array_equal(one, own_500()["y"]) for one in found)
    assert len(readings) == 1


def test_under_add_remove_the_number_of_rows_is_not_compared():
    records = read(coin(1000, neighbors="add_remove"), frame(500))
    records.check()
    assert len(records) == 500


def test_public_rows_beside_a_table_are_refused():
    records = read(placeholders(500), frame(500))
    assert records.beside({}) is records
    with pytest.raises(Unsupported, match="kinds"):
        records.beside({"kinds": np.zeros(500)})


@pytest.mark.thin(2)
@pytest.mark.parametrize("rows", [500, 5000])
def test_terms_of_a_record_are_the_same_at_any_place(rows):
    table, private = frame(rows), placeholders(rows)
    score = pmp.calibrate(private, release="summary", **BUDGET).mechanism.design
    found = []
    for order in (table, table.sample(frac=1.0, random_state=3)):
        records, theta = read(private, order), score.prior.mean + 0.3
        assert records.chunk_size("substitute") == CHUNK
        assert records.chunk_size("add_remove", 2**20) == CHUNK  # of more rows than there are
        assert records.chunk_size("add_remove", rows) == rows
        terms = ClippedScore(score.model, theta, np.eye(3), 1.0)
        parts = [
            terms.terms({"X": chunk["X"]}, chunk["y"].astype(float))[:count]
            for chunk, count in records.chunks(CHUNK)
        ]
        found.append(np.concatenate(parts)[np.argsort(order.index)])
    np.testing.assert_array_equal(*found)


def test_n_is_that_of_the_table():
    assert pmp.calibrate(placeholders(), release="summary", **BUDGET).n == N


@pytest.fixture
def small_split(monkeypatch):
    """That plan; tables are not kept in memory."""
    monkeypatch.setattr(table_records, "MOST_KEPT", 0)
    return split_plan()


def split(plan, table, unit="person"):
    return records_of_table(plan.private, table, None, unit, plan.mechanism.part, seed=3)


def test_a_split_summary_is_the_same_to_the_bit_in_any_order(small_split, monkeypatch):
    table, plan = frame(4000), small_split
    assert plan.mechanism.facts["pilot part"] == [plan.mechanism.part.share, 229]
    expected = plan.mechanism.release(split(plan, table), noise())
    shuffled = table.sample(frac=1.0, random_state=2)
    monkeypatch.setattr(table_batches, "ROWS", 700)
    for engine in (pl.from_pandas, duckdb.from_df):
        found = plan.mechanism.release(split(plan, engine(shuffled)), noise())
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value)
    monkeypatch.setattr(table_records, "MOST_KEPT", 10**9)
    found = plan.mechanism.release(split(plan, shuffled), noise())
    np.testing.assert_array_equal(found["scores"], expected["scores"])


class Readings:
    """A table that counts its readings, and gives another one at the second."""

    def __init__(self, *tables):
        self.tables, self.count = tables, 0

    def batches(self, _, names):
        table = self.tables[min(self.count, len(self.tables) - 1)]
        self.count += 1
        return iter([{name: table[name].to_numpy() for name in names}])


def test_a_split_table_is_read_twice_and_must_keep_its_units(small_split, monkeypatch):
    table, plan = frame(4000), small_split
    readings = Readings(table)
    monkeypatch.setattr(EngineTable, "batches", lambda t, names: readings.batches(t, names))
    records = split(plan, table)
    records.check()
    plan.mechanism.release(records, noise())
    assert readings.count == 2
    readings = Readings(table, table.assign(person=table.person + 1))
    records = split(plan, table)
    with pytest.raises(Incompatible, match="other rows than the first time"):
        plan.mechanism.release(records, noise())


def test_pilots_are_the_rows_whose_coin_says_so(small_split):
    records = split(small_split, frame(4000))
    threshold = small_split.mechanism.part.threshold
    chunks = [
        ({name: v[:n] for name, v in chunk.items()}, coins[:n])
        for chunk, coins, n in records.with_coins(512, threshold)
    ]
    pilots = records.pilots(threshold).arrays
    for name in ("y", "X"):  # as they are clipped
        of_main = np.concatenate([chunk[name][coins] for chunk, coins in chunks])
        np.testing.assert_array_equal(pilots[name], of_main)
    assert np.linalg.norm(frame(4000)[NAMES], axis=1).max() > 1.1
    assert np.linalg.norm(pilots["X"], axis=1).max() < 1.0 + 1e-12
    assert sum(len(coins) for _, coins in chunks) == 4000
    with pytest.raises(Incompatible, match="another share"):
        records.pilots(threshold + 1)


def test_batches_without_rows_and_rows_without_pilots(small_split):
    records, few = split(small_split, frame(4000)), frame(3)
    reader = records.reader
    batch = {name: few[name].to_numpy() for name in reader.read_names}
    for rows in (slice(0, 0), slice(0, 1), slice(1, 2), slice(2, 3)):
        some = reader.checked({name: values[rows] for name, values in batch.items()}, first=True)
        pilots, all_of_them = reader.pilots(some), reader.records(some)
        assert len(pilots["y"]) == all_of_them[COIN].sum() <= len(all_of_them["y"])
        assert pilots["X"].shape[1:] == (2,)
        assert {k: v.dtype for k, v in pilots.items()} == {
            k: v.dtype for k, v in all_of_them.items()
        }


def test_weighted_terms_of_a_record_are_the_same_at_any_place(small_split):
    """Scores and factors of curvatures, in the chunks of large tables: the condition of T30."""
    design, table = small_split.mechanism.design, frame(4000)
    score = ClippedScore(design.model, design.prior.mean + 0.3, np.eye(3) + 0.1, 1.0, 0.2)
    work, found = WeightedTerms(score, design.outcome, True), []
    for order in (table, table.sample(frac=1.0, random_state=3), table.iloc[::-1]):
        ((light, (vectors, factors)),) = map(
            work, split(small_split, order).with_coins(design.large_chunk, design.part.threshold)
        )
        place = np.argsort(order.index)
        sums = BoundedSum(0.2, True, 1.0).lattice
        found.append((light[place], vectors[place], factors[place], sums.vectors(factors)[place]))
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(one, two)
    assert np.abs(found[0][2]).max() > 0.1


def test_covariates_make_coins_where_rows_differ(small_split):
    made = split(small_split, frame(4000), None)
    made.check()
    assert 800 < len(made.pilots(small_split.mechanism.part.threshold)) < 1200
    with pytest.raises(DomainError, match="pass id="):
        split(small_split, frame(4000).round(1), None).check()
    split(small_split, frame(4000).round(1)).check()
