"""What a ledger prints: budget, spent, left, neighbors, one row per charge."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.ledger import Ledger
from pymc_private.privacy.ledger_display import number

SMALL = Guarantee.pure(0.25)


@pytest.fixture(params=["file", "memory"])
def ledger(request, tmp_path):
    path = tmp_path / "study.sqlite" if request.param == "file" else None
    return Ledger(path, epsilon=2, delta="1e-5", data="women of the Fair survey")


def test_the_table_lists_every_charge_rounded_up(ledger):
    ledger.charge(Guarantee.pure(0.1), "first", name="main")
    ledger.charge(Guarantee.zcdp_of(0.01), "second", delta="1e-6")
    frame = ledger.to_frame()
    assert list(frame.index) == [1, 2]
    assert list(frame["label"]) == ["first", "second"]
    assert frame.loc[1, "pure"] == 0.1
    assert np.isnan(frame.loc[2, "pure"])
    assert Fraction(frame.loc[2, "delta_i"]) >= Fraction(1, 10**6)
    assert list(frame["completed"]) == [False, False]


def test_a_ledger_prints_budget_spent_left_neighbors_and_charges(ledger):
    ledger.store(ledger.charge(SMALL, "<b>bold</b>", name="main"), b"draws")
    shown = repr(ledger)
    for word in (
        "epsilon = 2 nats, delta = 1e-5: the public claim",
        "epsilon = 0.25 nats, delta = 0 (bookkeeping)",
        "epsilon = 1.75 nats",
        "one record replaced",
        "women of the Fair survey",
        "1 charge\n",
        "[main]",
        "kept",
        str(ledger.path or "in memory"),
    ):
        assert word in shown
    page = ledger._repr_html_()
    assert "&lt;b&gt;bold&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "<script" not in page
    assert page.count("<tr") == shown.count("\n")


def test_printing_rounds_what_is_spent_up_and_what_is_left_down():
    ledger = Ledger(epsilon=1)
    ledger.charge(Guarantee.pure(0.123456), "draw")
    shown = repr(ledger)
    assert "0.1235" in shown
    assert "0.8765" in shown


def test_a_ledger_that_cannot_be_read_still_prints(tmp_path):
    path = tmp_path / "a<b.sqlite"
    ledger = Ledger(path, epsilon=1)
    path.unlink()
    assert "cannot be read" in repr(ledger)
    assert "a&lt;b.sqlite" in ledger._repr_html_()


@pytest.mark.parametrize(
    ("value", "up", "down"),
    [
        (Fraction(2, 3), "0.6667", "0.6666"),
        (Fraction(0.1), "0.1", "0.1"),
        (Fraction(0.1) + 1, "1.1", "1.1"),
        (Fraction(1, 10**5), "1e-5", "1e-5"),
        (Fraction(123456789), "1.235e8", "1.234e8"),
        (Fraction(10) ** 399, "1e399", "1e399"),
        (Fraction(0), "0", "0"),
    ],
)
def test_numbers_are_short_and_on_the_safe_side(value, up, down):
    assert number(value) == up
    assert number(value, up=False) == down
