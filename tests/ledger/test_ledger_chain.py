"""The chain of hashes: every kind of tampering is found, as far as a chain can."""

from __future__ import annotations

import pickle
import sqlite3
from contextlib import closing

import pytest

from pymc_private.errors import BudgetExceeded, DomainError, Incompatible
from pymc_private.ledger.entry import chain_hash
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee
from tests.ledger.behind import edit

SMALL = Guarantee.pure(0.25)


def rows(path):
    with closing(sqlite3.connect(path)) as connection:
        header = connection.execute("SELECT hash FROM ledger").fetchone()[0]
        return header, connection.execute("SELECT body, hash FROM charges").fetchall()


BODY = "UPDATE charges SET body = replace(body, ?, ?) WHERE number = ?"


@pytest.mark.parametrize(
    ("statements", "finding"),
    [
        ([(BODY, ("draw 1", "draw one", 2))], "charge 2 was edited"),
        ([(BODY, ('"pure":"1/4"', '"pure":"1/8"', 3))], "charge 3 was edited"),
        ([("UPDATE charges SET hash = ? WHERE number = 4", ("0" * 64,))], "charge 4 was edited"),
        ([("DELETE FROM charges WHERE number = 2",)], "charge 2 is missing"),
        ([("DELETE FROM charges WHERE number = 1",)], "charge 1 is missing"),
        ([("DELETE FROM charges WHERE number > 2",)], "after number 2"),
        ([("DELETE FROM charges",)], "after number 0"),
        (
            [
                ("UPDATE charges SET number = 9 WHERE number = 2",),
                ("UPDATE charges SET number = 2 WHERE number = 3",),
                ("UPDATE charges SET number = 3 WHERE number = 9",),
            ],
            "charge 2 was edited or moved",
        ),
        (
            [("INSERT INTO charges SELECT 5, body, hash FROM charges WHERE number = 4",)],
            "charge 5 was edited",
        ),
        ([("UPDATE ledger SET header = replace(header, '2/1', '9/1')",)], "budget or its terms"),
        ([("DELETE FROM ledger",)], "0 headers"),
        ([("INSERT INTO ledger SELECT * FROM ledger",)], "2 headers"),
    ],
)
def test_a_tampered_chain_stops_every_use_of_the_ledger(statements, finding, ledger, path):
    head, copy = ledger.head, pickle.loads(pickle.dumps(ledger))
    edit(path, *statements)
    for use in (
        ledger.verify,
        lambda: ledger.verify(head),
        lambda: ledger.spent,
        lambda: ledger.charge(SMALL, "one more"),
        lambda: copy.charge(SMALL, "one more"),
        lambda: Ledger.open(path),
        lambda: Ledger.open(path, read_only=True),
    ):
        with pytest.raises(Incompatible, match=finding):
            use()
    assert "tampered" in repr(ledger)


@pytest.mark.parametrize(
    ("statements", "finding"),
    [
        ([("UPDATE charges SET hash = ? WHERE number = 4", ("0" * 64,))], "charge 4 was edited"),
        ([(BODY, ("draw 3", "draw three", 4))], "charge 4 was edited"),
        ([("DELETE FROM charges WHERE number > 2",)], "after number 2"),
        ([("DELETE FROM charges",)], "after number 0"),
        ([("UPDATE sqlite_sequence SET seq = 9",)], "after number 4"),
        (
            [("INSERT INTO charges SELECT 5, body, hash FROM charges WHERE number = 4",)],
            "charge 5 was edited",
        ),
        ([("UPDATE ledger SET header = replace(header, '2/1', '9/1')",)], "budget or its terms"),
        ([("DELETE FROM ledger",)], "0 headers"),
    ],
)
def test_a_file_that_does_not_go_on_from_what_was_checked_is_not_charged(
    statements, finding, ledger, path
):
    ledger.verify()  # all that is there is known
    edit(path, *statements)
    with pytest.raises(Incompatible, match=finding):  # with no whole check in between
        ledger.charge(SMALL, "one more")


def test_an_edit_of_what_was_checked_changes_no_total_and_stops_all_once_it_is_seen(ledger, path):
    edit(path, (BODY, ('"pure":"1/4"', '"pure":"1/8"', 2)))
    for number in (5, 6, 7, 8):  # this process remembers what it has checked
        assert ledger.charge(SMALL, "more").number == number
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.bounded_range_of(1.0), "what the edit would have left")
    with pytest.raises(Incompatible, match="charge 2 was edited"):
        ledger.verify()
    with pytest.raises(Incompatible, match="charge 2 was edited"):
        ledger.charge(Guarantee.pure(0.0), "nothing")


@pytest.mark.parametrize(
    ("statement", "finding"),
    [
        ("UPDATE releases SET content = zeroblob(9000) WHERE number = 2", "release of charge 2"),
        ("UPDATE releases SET content = 'text' WHERE number = 2", "release of charge 2"),
        ("UPDATE releases SET number = 7 WHERE number = 2", "charge 7, which is missing"),
        ("UPDATE releases SET number = 3 WHERE number = 2", "release of charge 3"),
    ],
)
def test_a_tampered_release_is_found(statement, finding, ledger, path):
    edit(path, (statement,))
    with pytest.raises(Incompatible, match=finding):
        ledger.verify()
    for entry in ledger.entries[1:]:
        with pytest.raises(Incompatible):
            ledger.fetch(entry)


def cut(path, number):
    """Cut off the chain with care: nothing inside the file betrays it."""
    edit(
        path,
        ("DELETE FROM charges WHERE number > ?", (number,)),
        ("DELETE FROM releases WHERE number > ?", (number,)),
        ("UPDATE sqlite_sequence SET seq = ? WHERE name = 'charges'", (number,)),
    )


def rewrite(path, old, new):
    """Edit every charge and forge the chain; releases, bound to the true one, are dropped."""
    head, charges = rows(path)
    edit(path, ("DELETE FROM releases",))
    for number, (body, _) in enumerate(charges, start=1):
        body = body.replace(old, new)
        head = chain_hash(head, body)
        edit(
            path,
            ("UPDATE charges SET body = ?, hash = ? WHERE number = ?", (body, head, number)),
        )


def test_a_head_that_was_kept_detects_a_careful_cut(ledger, path):
    early, late = Ledger.open(path).entries[1].head, ledger.head
    cut(path, 2)
    fresh = Ledger.open(path)
    assert fresh.verify()  # the limit of a chain without a witness
    assert fresh.verify(early)
    with pytest.raises(Incompatible, match="head you kept"):
        fresh.verify(late)
    for use in (ledger.verify, lambda: ledger.charge(SMALL, "x")):  # this process is a witness
        with pytest.raises(Incompatible, match="seen before"):
            use()


def test_a_head_that_was_kept_detects_a_rewritten_history(ledger, path):
    head = ledger.head
    rewrite(path, '"label":"', '"label":"not ')
    fresh = Ledger.open(path)
    assert fresh.verify()
    with pytest.raises(Incompatible, match="head you kept"):
        fresh.verify(head)
    for use in (ledger.verify, lambda: ledger.charge(SMALL, "x")):
        with pytest.raises(Incompatible, match="seen before"):
            use()


def test_a_head_that_was_kept_goes_on_being_part_of_the_history(ledger):
    first = ledger.head
    ledger.charge(SMALL, "more")
    assert ledger.verify(first)
    assert ledger.head != first
    with pytest.raises(Incompatible):
        ledger.verify("0" * 64)


@pytest.mark.parametrize("kept", [slice(12), slice(None, None, -63)])
def test_a_part_of_a_head_is_no_sign_of_tampering(ledger, kept):
    with pytest.raises(DomainError, match="64 hexadecimal digits"):
        ledger.verify(ledger.head[kept])
    with pytest.raises(DomainError, match="64 hexadecimal digits"):
        ledger.verify("3f5a...")


def test_charges_beyond_the_budget_are_found_though_the_chain_is_forged(ledger, path):
    for method in ("pure", "zcdp", "approximate"):
        rewrite(path, f'"{method}":', f'"{method}":null,"was {method}":')
    fresh = Ledger.open(path)
    with pytest.raises(Incompatible, match="beyond the budget"):
        fresh.verify()
    with pytest.raises(BudgetExceeded):
        fresh.charge(Guarantee.pure(0.0), "even nothing")
    assert fresh.left == (0, 0)


def test_a_forged_line_of_nonsense_is_an_error_of_ours(ledger, path):
    rewrite(path, '"1/4"', '"1/0"')
    with pytest.raises(Incompatible, match="no ledger writes"):
        Ledger.open(path)


def test_two_ledgers_of_one_budget_do_not_share_a_head(tmp_path):
    one, two = (Ledger(tmp_path / name, epsilon=1) for name in ("a.sqlite", "b.sqlite"))
    assert one.head != two.head
