"""The ledger as its users meet it: charge, refuse, reopen, find, print."""

from __future__ import annotations

import threading
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from pymc_private.errors import BudgetExceeded, DomainError, Incompatible
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

SMALL = Guarantee.pure(0.25)


@pytest.fixture(params=["file", "memory"])
def ledger(request, tmp_path):
    path = tmp_path / "study.sqlite" if request.param == "file" else None
    return Ledger(path, epsilon=2, delta="1e-5", data="women of the Fair survey")


def test_four_quarters_fill_a_budget_of_one_exactly():
    ledger = Ledger(epsilon=1)
    for i in range(4):
        ledger.charge(SMALL, f"draw {i}")
    assert ledger.spent == (1, 0)
    assert ledger.left == (0, 0)
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.pure(1e-300), "a trifle more")
    assert ledger.charge(Guarantee.pure(0.0), "post-processing").number == 5


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (Decimal("0.1"), Fraction(1, 10)),
        (Fraction(1, 3), Fraction(1, 3)),
        ("1/3", Fraction(1, 3)),
        (3, Fraction(3)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int32(3), Fraction(3)),
        (1e-6, Fraction(1, 10**6)),
    ],
)
def test_a_budget_is_the_decimal_its_user_wrote(written, meant, tmp_path):
    ledger = Ledger(tmp_path / "a.sqlite", epsilon=written)
    assert ledger.budget == (meant, 0)
    assert Ledger.open(tmp_path / "a.sqlite").budget == (meant, 0)


@pytest.mark.parametrize(
    "terms",
    [
        {"epsilon": 0},
        {"epsilon": -1},
        {"epsilon": float("inf")},
        {"epsilon": float("nan")},
        {"epsilon": True},
        {"epsilon": "much"},
        {"epsilon": "1e999999999"},
        {"epsilon": "1e9_99999"},
        {"epsilon": "1/0"},
        {"epsilon": None},
        {"epsilon": 1 + 0j},
        {"epsilon": 1, "delta": 1},
        {"epsilon": 1, "delta": -1e-9},
        {"epsilon": 1, "delta": 1e-6, "shares": {"zcdp": 1e-6, "approximate": 1e-9}},
        {"epsilon": 1, "delta": 1e-6, "shares": {"gdp": 1e-6}},
        {"epsilon": 1, "delta": 1e-6, "shares": {"zcdp": -1e-6}},
        {"epsilon": 1, "delta": 1e-6, "shares": 0.5},
        {"epsilon": 1, "neighbors": "nearby"},
        {"epsilon": 1, "data": "a\nb"},
    ],
)
def test_an_impossible_budget_is_refused_and_no_file_is_made(terms, tmp_path):
    with pytest.raises(DomainError):
        Ledger(tmp_path / "a.sqlite", **terms)
    assert not list(tmp_path.iterdir())


def test_a_refused_charge_changes_nothing_and_says_what_to_do(tmp_path):
    path = tmp_path / "a.sqlite"
    ledger = Ledger(path, epsilon=1)
    ledger.charge(Guarantee.pure(0.75), "first")
    before, head = path.read_bytes(), ledger.head
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(Guarantee.pure(0.5), "second")
    assert path.read_bytes() == before
    assert ledger.head == head
    error = refusal.value
    assert error.asked == (Fraction(1, 2), 0)
    assert error.spent == (Fraction(3, 4), 0)
    assert error.left == (Fraction(1, 4), 0)
    assert all(isinstance(part, Fraction) for part in (*error.asked, *error.spent, *error.left))
    for word in ("0.5", "0.75", "substitute", "a smaller epsilon (left: 0.25 nats)", "at cost"):
        assert word in str(error)
    assert "delta (left" not in str(error)
    ledger.charge(SMALL, "what still fits")


APPROXIMATE = Guarantee.approximate(0.5, 1e-6)
CURES = {
    "epsilon alone": (
        {}, [(0.75, None)], (Guarantee.pure(0.5), None),
        ["smaller epsilon (left: 0.25"], ["delta ("],
    ),
    "all of epsilon is spent": (
        {}, [(1, None)], (Guarantee.pure(0.5), None), ["nothing is left"], ["smaller"]
    ),
    "delta alone": (
        {"delta": "1e-6", "shares": {"approximate": "1e-6"}}, [(0.25, "4e-7")],
        (APPROXIMATE, "1e-6"), ["smaller delta (left for such charges: 6e-7"], ["smaller epsilon"],
    ),
    "both": (
        {"delta": "1e-6", "shares": {"approximate": "1e-6"}}, [(0.75, "4e-7")],
        (APPROXIMATE, "1e-6"), ["epsilon (left: 0.25", "delta (left for such charges: 6e-7"], [],
    ),
    "a method that is closed": (
        {"delta": "1e-6", "shares": {"zcdp": "1e-6"}}, [], (Guarantee.zcdp_of(9.0), None),
        ["smaller epsilon (left: 1 nats)"], ["smaller delta"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CURES)
def test_the_cure_of_a_refusal_is_one(case):
    budget, before, (asked, delta), there, not_there = CURES[case]
    ledger = Ledger(epsilon=1, **budget)
    for epsilon, at in before:
        one = Guarantee.pure(epsilon) if at is None else Guarantee.approximate(epsilon, float(at))
        ledger.charge(one, "before", delta=at)
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(asked, "asked", delta=delta)
    assert all(words in str(refusal.value) for words in there), str(refusal.value)
    assert not any(words in str(refusal.value) for words in not_there), str(refusal.value)


def test_a_promise_that_no_open_method_takes_is_to_be_another():
    ledger = Ledger(epsilon=1, delta="2e-6")
    ledger.charge(Guarantee.zcdp_of(1e-3), "closes the other methods", delta=0)
    with pytest.raises(BudgetExceeded, match="another kind: one that the method 'zcdp' takes"):
        ledger.charge(APPROXIMATE, "asked", delta="1e-6")


def test_unlike_neighbors_are_refused(ledger):
    with pytest.raises(Incompatible, match="neighbors"):
        ledger.charge(Guarantee.pure(0.1, neighbors="add_remove"), "x")
    assert ledger.entries == ()


def test_what_is_not_private_cannot_be_charged(ledger):
    with pytest.raises(Incompatible, match="No accounting method"):
        ledger.charge(Guarantee.none("a seed was given"), "x")
    with pytest.raises(Incompatible, match="No accounting method"):
        ledger.charge(Guarantee.none("a seed was given"), "x", delta=1e-6)
    with pytest.raises(DomainError, match="guarantees"):
        ledger.charge(0.5, "x")
    assert ledger.entries == ()


@pytest.mark.parametrize(
    "texts",
    [
        {"label": ""},
        {"label": " "},
        {"label": "a\nb"},
        {"label": "x" * 201},
        {"label": 3},
        {"label": "x", "name": ""},
        {"label": "x", "name": "y" * 201},
        {"label": "x", "key": "y" * 4001},
        {"label": "x", "name": b"main"},
    ],
)
def test_labels_names_and_keys_are_short_lines_of_text(texts, ledger):
    with pytest.raises(DomainError, match="one line"):
        ledger.charge(SMALL, **texts)
    assert ledger.entries == ()


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9, float("nan"), "little"])
def test_a_charge_at_an_impossible_delta_is_refused(delta, ledger):
    with pytest.raises(DomainError):
        ledger.charge(SMALL, "x", delta=delta)
    assert ledger.entries == ()


def test_reopening_takes_the_same_terms_or_none(tmp_path):
    path = tmp_path / "a.sqlite"
    terms = {"epsilon": 2, "delta": 1e-5, "shares": {"zcdp": 1e-5}, "data": "survey"}
    head = Ledger(path, **terms).head
    assert Ledger(path, **terms).head == head
    assert Ledger(path, **terms | {"data": ""}).data == "survey"
    assert list(Ledger(path, **terms | {"shares": None}).methods) == ["pure", "zcdp"]
    assert Ledger(path, **terms | {"epsilon": Fraction(2), "delta": "0.00001"}).head == head
    assert Ledger.open(path).budget == (2, Fraction(1, 10**5))
    for other in (
        {"epsilon": 3},
        {"delta": 1e-6, "shares": {"zcdp": 1e-6}},
        {"shares": {"zcdp": 5e-6}},
        {"neighbors": "add_remove"},
        {"data": "another survey"},
    ):
        with pytest.raises(Incompatible, match="other terms"):
            Ledger(path, **terms | other)
    assert Ledger.open(path).head == head


def test_a_release_is_found_by_name_and_key_once_it_is_stored(ledger):
    first = ledger.charge(SMALL, "draw", name="main", key="plan 1")
    assert ledger.find("main", "plan 1") is None
    assert ledger.names == {"main": ("plan 1",)}
    with pytest.raises(Incompatible, match="not completed"):
        ledger.fetch(first)
    done = ledger.store(first, b"draws")
    assert done.completed
    assert ledger.find("main", "plan 1") == done
    assert ledger.fetch(first) == b"draws"
    assert ledger.find("main", "plan 2") is None
    assert ledger.find("other", "plan 1") is None


def test_the_latest_completed_charge_is_found(ledger):
    for content in (b"old", b"new"):
        ledger.store(ledger.charge(SMALL, "draw", name="main", key="k"), content)
    ledger.charge(SMALL, "interrupted", name="main", key="k")
    ledger.charge(SMALL, "changed plan", name="main", key="l")
    found = ledger.find("main", "k")
    assert found.number == 2
    assert ledger.fetch(found) == b"new"
    assert ledger.names == {"main": ("k", "l")}


def test_one_charge_pays_for_one_release(ledger):
    entry = ledger.charge(SMALL, "draw")
    ledger.store(entry, b"draws")
    ledger.store(entry, b"draws")
    with pytest.raises(Incompatible, match="another release"):
        ledger.store(entry, b"other draws")
    with pytest.raises(DomainError, match="bytes"):
        ledger.store(entry, "draws")
    assert ledger.fetch(entry) == b"draws"


def test_an_entry_of_another_ledger_is_refused(ledger):
    stranger = Ledger(epsilon=2).charge(SMALL, "draw")
    ledger.charge(SMALL, "draw")
    with pytest.raises(Incompatible, match="not in this ledger"):
        ledger.store(stranger, b"draws")
    with pytest.raises(Incompatible, match="not in this ledger"):
        ledger.fetch(stranger)


def test_an_entry_keeps_the_whole_guarantee(ledger):
    guarantee = Guarantee.bounded_range_of(0.1, draws=10, assumptions=("the prior is public",))
    ledger.charge(guarantee, "draws")
    (entry,) = ledger.entries
    assert entry.guarantee == guarantee
    assert entry.guarantee.epsilon(1e-6) == guarantee.epsilon(1e-6)
    assert len(entry.day) == len("2026-01-01")  # a day, nothing finer


def test_the_ledger_of_the_innermost_with_is_current():
    outer, inner = Ledger(epsilon=1), Ledger(epsilon=2)
    assert Ledger.current() is None
    with outer as given:
        assert given is outer
        with inner, outer:
            assert Ledger.current() is outer
        with pytest.raises(DomainError), inner:
            Ledger.current().charge(SMALL, "an error must not leave the ledger current" * 9)
        assert Ledger.current() is outer
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(Ledger.current()))
        thread.start()
        thread.join()
        assert elsewhere == [None]
    assert Ledger.current() is None


@pytest.mark.parametrize("name", ["a.sqlite", None])
def test_threads_cannot_overspend_together(name, tmp_path):
    ledger = Ledger(name and tmp_path / name, epsilon=2)
    outcomes = []

    def spend():
        for _ in range(3):
            try:
                outcomes.append(ledger.charge(SMALL, "draw").number)
            except BudgetExceeded:
                outcomes.append(None)

    threads = [threading.Thread(target=spend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for number in outcomes if number) == [*range(1, 9)]
    assert outcomes.count(None) == 4
    assert ledger.left == (0, 0)


def test_a_ledger_is_one_file_between_calls(tmp_path):
    ledger = Ledger(tmp_path / "odd name %20 #1?.sqlite", epsilon=1)
    ledger.store(ledger.charge(SMALL, "draw"), b"draws" * 10_000)
    assert [file.name for file in tmp_path.iterdir()] == ["odd name %20 #1?.sqlite"]
    assert ledger.path == str(Path(ledger.path).absolute())
    assert ledger.verify(ledger.head)


@pytest.mark.parametrize("odd", [3, [], "\ud800", "a\0b", b"a", ""])
def test_what_is_no_path_of_a_ledger_is_refused(odd):
    for make in (lambda: Ledger(odd, epsilon=1), lambda: Ledger.open(odd)):
        with pytest.raises(DomainError):
            make()
    with pytest.raises(DomainError):
        Ledger.open(None)


@pytest.mark.parametrize("odd", [None, 3, "a"])
def test_what_is_no_charge_is_refused(odd):
    for call in (Ledger(epsilon=1).fetch, lambda entry: Ledger(epsilon=1).store(entry, b"x")):
        with pytest.raises(DomainError, match="no charge"):
            call(odd)


def test_a_budget_by_position_is_told_to_be_given_by_name(tmp_path):
    with pytest.raises(
        TypeError, match=r"^Ledger\(\) takes 1 argument by position \(path\), got 3;"
    ) as e:
        Ledger(tmp_path / "a.sqlite", 2, 1e-5)
    assert "by name: epsilon=, delta=" in str(e.value)
    with pytest.raises(TypeError, match=r"no keyword 'eps'; did you mean 'epsilon'"):
        Ledger(eps=2)
    assert not list(tmp_path.iterdir())
