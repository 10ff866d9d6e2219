"""What a ledger prints: budget, spent, left, neighbors, one row per charge."""

from __future__ import annotations

import hashlib
import json
import re
from fractions import Fraction

import numpy as np
import pytest

from pymc_private.command_line import main
from pymc_private.errors import BudgetExceeded, Incompatible
from pymc_private.ledger.ledger import Ledger
from pymc_private.ledger.ledger_display import BAR_WIDTH, SHOWN_CHARGES
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import format_number

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
    assert page.count("<tr") + page.count("<dt") == shown.count("\n") - 1  # all but the bar


def test_what_was_charged_and_not_released_is_shown(ledger):
    kept, noted, *lost = (ledger.charge(SMALL, f"draw {i}") for i in range(4))
    assert "unreleased" in repr(ledger)
    kept, noted = ledger.store(kept, b"draws"), ledger.store(noted)
    assert (kept.released, kept.completed) == (True, True)
    assert (noted.released, noted.completed) == (True, False)
    assert ledger.entries == (kept, noted, *lost)
    assert ledger.spent == (1, 0)  # wasted is spent
    shown = repr(ledger)
    assert "2 of 4 (charge 3, 4): spent, and wasted unless" in shown
    assert [line.split()[-1] for line in shown.splitlines()[-4:]] == [
        "kept",
        "released",
        "none",
        "none",
    ]
    assert "wasted unless" in ledger._repr_html_()
    frame = ledger.to_frame()
    assert list(frame["released"]) == [True, True, False, False]
    assert list(frame["completed"]) == [True, False, False, False]
    for entry in lost:
        ledger.store(entry)
    assert "unreleased" not in repr(ledger)


def test_a_release_that_is_only_noted_is_neither_found_nor_fetched(ledger):
    entry = ledger.charge(SMALL, "draw", name="main", key="k")
    noted = ledger.store(entry)
    assert ledger.store(entry) == noted
    assert ledger.find("main", "k") is None
    with pytest.raises(Incompatible, match="not kept here"):
        ledger.fetch(entry)
    for content in (b"", b"draws"):
        with pytest.raises(Incompatible, match="another release"):
            ledger.store(entry, content)
    assert ledger.verify()


def test_the_bar_is_full_only_when_all_is_spent():
    ledger = Ledger(epsilon=1)
    assert f"[{'.' * BAR_WIDTH}] 0% of" in repr(ledger)
    ledger.charge(Guarantee.pure(1e-9), "a trifle")
    assert f"[#{'.' * (BAR_WIDTH - 1)}] 0.1% of" in repr(ledger)
    ledger.charge(Guarantee.pure(0.5), "half")
    assert "] 50.1% of" in repr(ledger)
    ledger.charge(Guarantee.pure(0.499999), "nearly all")
    assert f"[{'#' * (BAR_WIDTH - 1)}.] 99.9% of" in repr(ledger)
    assert "width:99.9%" in ledger._repr_html_()
    full = Ledger(epsilon=1)
    full.charge(Guarantee.pure(1.0), "all")
    assert f"[{'#' * BAR_WIDTH}] 100% of" in repr(full)


def test_a_long_ledger_prints_its_latest_charges(ledger):
    for i in range(SHOWN_CHARGES + 7):
        ledger.charge(Guarantee.pure(2.0**-20), f"draw {i}")
    for shown in (repr(ledger), ledger._repr_html_()):
        assert "... and 7 earlier" in shown
        assert "draw 7" in shown
        assert "draw 6" not in shown
        assert f"{SHOWN_CHARGES + 7} charges" in shown


def test_json_is_exact_and_lets_anyone_check_the_chain(ledger):
    ledger.store(ledger.charge(Guarantee.pure(0.1), "first", name="main"), b"draws")
    ledger.charge(Guarantee.zcdp_of(0.01), "second", delta="1e-6")
    told = json.loads(ledger.to_json())
    head = ""
    for line in (told, *told["charges"]):
        head = hashlib.sha256(f"{head}\n{line['line']}".encode()).hexdigest()
        assert line["hash"] == head
    assert told["head"] == head == ledger.head
    first, second = told["charges"]
    assert Fraction(first["pure"]) == Fraction(1, 10)
    assert (first["released"], first["kept"], second["released"]) == (True, True, False)
    assert Guarantee.from_dict(second["guarantee"]) == Guarantee.zcdp_of(0.01)
    assert told["ledger"]["epsilon"] == "2/1"
    assert json.loads(first["line"])["label"] == first["label"] == "first"


def test_nothing_printed_or_exported_is_finer_than_a_day(ledger):
    ledger.store(ledger.charge(SMALL, "draw"), b"draws")
    for shown in (repr(ledger), ledger._repr_html_(), ledger.to_json(), str(ledger.to_frame())):
        assert re.search(r"\d{4}-\d\d-\d\d", shown)
        assert not re.search(r"\d\d:\d\d", shown)


def command(capsys, *arguments):
    code = main(["ledger", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_the_command_line_prints_and_checks_a_ledger_and_writes_nothing(tmp_path, capsys):
    path = tmp_path / "a.sqlite"
    ledger = Ledger(path, epsilon=1)
    ledger.store(ledger.charge(SMALL, "done"), b"draws")
    ledger.charge(SMALL, "interrupted")
    head, before = ledger.head, path.read_bytes()
    code, out, err = command(capsys, path, "--head", head)
    assert (code, err) == (0, "")
    for words in ("unreleased", "1 of 2 (charge 2)", "##..", "chain of charges is intact", head):
        assert words in out
    code, out, _ = command(capsys, path, "--json")
    assert (code, json.loads(out)["head"]) == (0, head)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["a.sqlite"]


def test_the_command_line_says_what_is_wrong(tmp_path, capsys):
    path = tmp_path / "a.sqlite"
    Ledger(path, epsilon=1)
    path.with_name("text").write_text("epsilon = 2\n" * 100)
    for arguments, (expected, words) in {
        (path, "--head", "0" * 64): (1, "head you kept"),
        (path.with_name("missing"),): (2, "there is no ledger"),
        (path.with_name("text"),): (1, "damaged"),
    }.items():
        code, out, err = command(capsys, *arguments)
        assert (code, out) == (expected, "")
        assert words in err
        assert ("not intact" in err) == (expected == 1)


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
    assert format_number(value) == up
    assert format_number(value, up=False) == down


def _spend(ledger, times):
    for _ in range(times):
        ledger.charge(Guarantee.bounded_range_of(0.5), "draw", delta="0.5")


def test_a_refusal_at_a_large_delta_says_what_was_asked():
    ledger = Ledger(epsilon="0.01", delta="0.9")
    with pytest.raises(BudgetExceeded, match="asked epsilon") as caught:
        _spend(ledger, 60)
    assert "asked epsilon = 0 " not in str(caught.value)
    assert caught.value.asked.epsilon == Fraction(1, 2)
