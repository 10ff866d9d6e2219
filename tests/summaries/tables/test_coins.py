"""Coins of rows: functions of the unit and the key, whatever the engine and the order."""

from datetime import datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import pymc_private as pmp
from pymc_private.errors import DomainError
from pymc_private.summaries import summary_job
from pymc_private.summaries.scores import model_scores, pilot_part
from pymc_private.summaries.scores.pilot_part import PilotPart
from pymc_private.summaries.summary_job import clipped_records_of
from pymc_private.summaries.tables.coins import (
    KEY_BYTES,
    Coins,
    draw_key,
    drawn_coins,
    place_coins,
)
from tests.summaries.tables.table_models import BUDGET, frame, own_records

KEY = bytes(range(1, KEY_BYTES + 1))


def coins(*columns, share=0.25, **words):
    return Coins(columns or ("id",), round(share * 2**16), key=words.pop("key", KEY), **words)


@pytest.mark.parametrize(
    "values",
    [
        np.arange(1000),
        np.arange(1000) * 0.5,
        np.array([f"person {k}" for k in range(1000)], dtype=object),
        np.datetime64("2020-01-01", "us") + np.arange(1000),
    ],
    ids=["whole", "real", "text", "time"],
)
def test_a_coin_is_a_function_of_its_unit_and_the_key(values):
    found = coins().numbers({"id": values})
    order = np.random.default_rng(0).permutation(1000)
    np.testing.assert_array_equal(coins().numbers({"id": values[order]}), found[order])
    np.testing.assert_array_equal(coins().numbers({"id": values[3:4]}), found[3:4])
    assert len(set(found)) == 1000
    other = coins(key=draw_key()).numbers({"id": values})
    assert (found != other).all()
    for numbers in (found, other):
        assert abs(coins().below(numbers).mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 1000)


def test_engines_may_give_another_type():
    whole = np.arange(50)
    found = coins().numbers({"id": whole})
    for other in (whole.astype("int32"), whole.astype("uint8"), whole * 1.0, whole.astype(object)):
        np.testing.assert_array_equal(coins().numbers({"id": other}), found)
    texts = np.array(["a", "bc", "d"])
    np.testing.assert_array_equal(
        coins().numbers({"id": texts}), coins().numbers({"id": texts.astype(object)})
    )
    days = np.array(["2020-01-01", "2021-05-05"], dtype="datetime64[D]")
    np.testing.assert_array_equal(
        coins().numbers({"id": days}), coins().numbers({"id": days.astype("datetime64[ns]")})
    )


@pytest.mark.parametrize(
    "own",
    [
        list(range(40)),
        [k + 0.5 for k in range(40)],
        [bool(k % 2) for k in range(40)],
        [Decimal(k) for k in range(40)],
        list(pd.date_range("2020-01-01", periods=40)),
        list(pd.timedelta_range("1h", periods=40)),
        [f"person {k}" for k in range(40)],
        [0.5, np.inf, -np.inf, 1e301],
        [7, 10**301, -(10**400), float("inf"), Decimal("Infinity"), Decimal("1e400")],
    ],
    ids=["whole", "real", "truth", "decimal", "time", "duration", "text", "infinite", "long"],
)
@pytest.mark.parametrize("other", ["A1", 7, pd.Timestamp("2021-01-01"), pd.Timedelta("2h")])
def test_no_coin_depends_on_the_type_of_another_unit(own, other):
    alone = coins().numbers({"id": np.asarray(pd.Series(own))})
    mixed = coins().numbers({"id": np.asarray(pd.Series([*own, other], dtype=object))})
    np.testing.assert_array_equal(mixed[:-1], alone)
    (last,) = coins().numbers({"id": np.asarray(pd.Series([other]))})
    assert mixed[-1] == last
    each = [coins().numbers({"id": np.asarray(pd.Series([one]))})[0] for one in own]
    np.testing.assert_array_equal(each, alone)


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ([5, 17, -3], ["5", "17", "-3"]),
        ([0.5, 2.0, 1e20], ["0.5", "2.0", "1e20"]),
        ([True, False], ["1", "0"]),
        (list(pd.date_range("2020-01-01", periods=3)), ["2020-01-01", "2020-01-02", "2020-01-03"]),
        ([pd.Timestamp("2020-01-01 12:30", tz="UTC")], ["2020-01-01T12:30:00+00:00"]),
        ([1, 0.143, -2], [" 1", "0.143\t", "  -2 "]),  # engines strip blanks of numbers
        (list(pd.date_range("2020-01-01", periods=1)), [" 2020-01-01"]),
        ([np.inf, -np.inf, 1.5], ["Infinity", " -inf", "+1.5"]),
    ],
)
def test_text_that_one_unit_makes_of_a_column_changes_no_coin_of_others(typed, text):
    found = coins().numbers({"id": np.asarray(pd.Series(typed))})
    read = coins().numbers({"id": np.asarray(pd.Series([*text, "A1"]))})
    np.testing.assert_array_equal(read[:-1], found)


def test_units_that_are_no_doubles_have_coins_too():
    early = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=5)))  # before the year 1 in UTC
    values = [10**400, "nan", "inf", "1-2", "7 b", b"x", 10**401, Decimal("sNaN"), early]
    values = np.array(values, dtype=object)
    assert len(set(coins().numbers({"id": values}).tolist())) == len(values)


def test_every_column_counts():
    x, y = np.zeros(40), np.arange(40.0)
    assert len(set(coins("x", "y").numbers({"x": x, "y": y}))) == 40
    assert len(set(coins("x", "y").numbers({"x": y, "y": x}))) == 40
    assert len(set(coins("x").numbers({"x": x}))) == 1
    np.testing.assert_array_equal(coins("x").numbers({"x": -x}), coins("x").numbers({"x": x}))


MISSING = [
    np.array([1.0, np.nan]),
    np.array(["a", None], dtype=object),
    np.array([1, pd.NA], dtype=object),
    np.array([Decimal(1), Decimal("sNaN")], dtype=object),
    np.array(["2020-01-01", "NaT"], dtype="datetime64[us]"),
]


@pytest.mark.parametrize("missing", MISSING)
def test_rows_without_a_unit_are_refused(missing):
    numbers = coins().numbers({"id": missing})
    with pytest.raises(DomainError, match="rows without a unit"):
        coins().check({"id": missing}, numbers, first=False)
    coins().check({"id": missing[:1]}, numbers[:1], first=True)


def test_covariates_that_rows_share_make_no_coins():
    few = {"x": np.arange(100) // 2}
    made = coins("x", of_units=False)
    with pytest.raises(DomainError, match="pass id="):
        made.check(few, made.numbers(few), first=True)
    many = {"x": np.linspace(0, 1, 100)}
    made.check(many, made.numbers(many), first=True)


def test_places_make_coins_of_records_in_memory():
    found = place_coins(5000, 2**14)
    np.testing.assert_array_equal(place_coins(3000, 2**14), found[:3000])
    assert abs(found.mean() - 0.25) < 0.03


def test_coins_in_memory_are_bits_of_the_system(monkeypatch):
    """A share of the records, others each time; of a seed the same."""
    first, second = (drawn_coins(20_000, 2**14) for _ in range(2))
    assert abs(first.mean() - 0.25) < 6 * np.sqrt(0.25 * 0.75 / 20_000)
    assert (first != second).any()
    seeded = [drawn_coins(100, 2**14, np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(*seeded)
    given = np.array([0, 2**14 - 1, 2**14, 2**16 - 1], dtype="<u2").tobytes()
    monkeypatch.setattr("secrets.token_bytes", lambda size: given[:size])
    assert drawn_coins(4, 2**14).tolist() == [True, True, False, False]


def test_a_charged_release_draws_coins_of_its_own():
    """What records hold has no part in them, and those of a release are not those of the next."""
    part, private = PilotPart(2**15), own_records(frame(300))
    found = [clipped_records_of(private, None, "summarize", part).coins for _ in range(2)]
    assert (found[0] != found[1]).any()
    assert isinstance(clipped_records_of(private, None, "summarize"), dict)


@pytest.mark.audit
def test_pilots_of_records_in_memory_are_drawn_for_each_release(monkeypatch):
    private = own_records(frame(4000))
    few = pmp.calibrate(private, release="summary", method="scores", **BUDGET)
    assert few.mechanism.part is None
    monkeypatch.setattr(model_scores, "LEAST_IN_MEMORY", 4000)
    monkeypatch.setattr(pilot_part, "LEAST_RECORDS", 4000)
    monkeypatch.setattr(pilot_part, "LEAST_PILOTS", 1000)
    drawn, draw = [], summary_job.drawn_coins
    monkeypatch.setattr(summary_job, "drawn_coins", lambda *a: drawn.append(a) or draw(*a))
    plan = pmp.calibrate(private, release="summary", method="scores", **BUDGET)
    book = pmp.Ledger(epsilon=1, delta=1e-6)
    found = pmp.summarize(plan, ledger=book, progressbar=False)
    assert drawn == [(4000, plan.mechanism.part.threshold, None)]
    assert "T37" in found.guarantee.theorem
    assert found.private
