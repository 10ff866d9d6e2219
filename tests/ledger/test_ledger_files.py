"""Ledger files: damage, strangers' files, interruptions, copies and pickles."""

from __future__ import annotations

import copy
import os
import pickle
import sqlite3
import sys
from contextlib import closing

import pytest

from pymc_private.errors import Incompatible, PymcPrivateError
from pymc_private.ledger import ledger_file, sqlite
from pymc_private.ledger.entry import chain_hash
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee
from tests.ledger.behind import edit

SMALL = Guarantee.pure(0.25)


def foreign(path, mode):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA journal_mode={mode}")
        connection.execute("CREATE TABLE ledger (header TEXT, hash TEXT)")
        connection.commit()


def too_new(path):
    Ledger(path, epsilon=1)
    edit(path, ("PRAGMA user_version=99",))


def of_no_format(path):
    Ledger(path, epsilon=1)
    edit(path, ("PRAGMA user_version=0",))


def without_table(path):
    Ledger(path, epsilon=1)
    edit(path, ("DROP TABLE releases",))


def cut_short(path):
    ledger = Ledger(path, epsilon=1)
    ledger.store(ledger.charge(SMALL, "draw"), b"x" * 50_000)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def scratched(path):
    ledger = Ledger(path, epsilon=1)
    ledger.charge(SMALL, "draw")
    content = bytearray(path.read_bytes())
    for start in range(4096, len(content), 4096):  # every page but the first
        content[start : start + 64] = b"\xa5" * 64
    path.write_bytes(content)


BAD = {
    "not a ledger": [
        lambda path: foreign(path, "DELETE"),
        lambda path: foreign(path, "WAL"),
        lambda path: path.write_bytes(b""),
    ],
    "damaged": [
        lambda path: path.write_text("epsilon = 2\n" * 100),
        lambda path: path.write_bytes(os.urandom(5000)),
        lambda path: path.write_bytes(b"SQLite format 3\0"),
        cut_short,
        scratched,
        without_table,
    ],
    "newer version": [too_new],
    "does not exist": [of_no_format],
}


@pytest.mark.parametrize(("finding", "make"), [(f, make) for f in BAD for make in BAD[f]])
def test_a_file_that_is_no_sound_ledger_is_refused_and_left_as_it_is(finding, make, path):
    make(path)
    before = path.read_bytes()
    for opens in (lambda: Ledger(path, epsilon=1), lambda: Ledger.open(path)):
        with pytest.raises(Incompatible, match=finding) as refusal:
            opens()
        assert "what to do" in str(refusal.value)
        assert path.read_bytes() == before


def test_a_missing_file_or_folder_or_a_folder_is_refused(tmp_path):
    with pytest.raises(Incompatible, match="no ledger here"):
        Ledger.open(tmp_path / "missing.sqlite")
    with pytest.raises(Incompatible, match="no ledger here"):
        Ledger(tmp_path, epsilon=1)
    with pytest.raises(Incompatible, match="folder"):
        Ledger(tmp_path / "missing" / "a.sqlite", epsilon=1)
    for name in ("", ":memory:", "file:a.sqlite"):
        with pytest.raises(PymcPrivateError, match="path"):
            Ledger(name, epsilon=1)
    assert not list(tmp_path.iterdir())


def test_a_ledger_that_was_replaced_is_not_charged(ledger, path):
    path.unlink()
    Ledger(path, epsilon=2, delta=1e-5)
    with pytest.raises(Incompatible, match="Another ledger"):
        ledger.charge(SMALL, "x")
    assert Ledger.open(path).entries == ()


def test_a_locked_ledger_gives_up_and_charges_nothing(ledger, path, monkeypatch):
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.01)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(PymcPrivateError, match="could not be read or written"):
            ledger.charge(SMALL, "x")
        other.execute("ROLLBACK")
    assert len(ledger.entries) == 4


def test_a_charge_that_fails_halfway_leaves_nothing(ledger, monkeypatch):
    def interrupted(*arguments):
        append(*arguments)
        raise KeyboardInterrupt

    head, append = ledger.head, sqlite.append_charge
    monkeypatch.setattr(sys.modules[Ledger.__module__], "append_charge", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ledger.charge(SMALL, "x")
    monkeypatch.undo()
    assert ledger.head == head
    assert ledger.charge(SMALL, "x").number == 5


def test_without_links_a_new_ledger_still_overwrites_nothing(path, monkeypatch):
    def unsupported(*arguments):
        raise PermissionError("no links here")

    monkeypatch.setattr(os, "link", unsupported)
    Ledger(path, epsilon=1).charge(SMALL, "x")
    header = '{"a":1}'
    ledger_file.create_file(str(path), header, chain_hash("", header))
    assert len(Ledger(path, epsilon=1).entries) == 1
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_second_creator_finds_the_ledger_of_the_first(path):
    first = Ledger(path, epsilon=1)
    header = '{"a":1}'
    ledger_file.create_file(str(path), header, chain_hash("", header))
    assert first.verify()


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda ledger: pickle.loads(pickle.dumps(ledger))]
)
def test_copies_of_a_file_ledger_spend_the_same_budget(duplicate, ledger, monkeypatch, tmp_path):
    other = duplicate({"nested": ledger})["nested"]
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    other.charge(SMALL, "by the copy")
    assert len(ledger.entries) == 5
    assert other.head == ledger.head
    assert other.budget == ledger.budget


def test_a_relative_path_is_fixed_when_the_ledger_is_made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ledger = Ledger("a.sqlite", epsilon=1)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ledger.charge(SMALL, "x")
    assert len(Ledger.open("../a.sqlite").entries) == 1


def test_a_pickle_loads_where_the_ledger_is_not_and_says_so_when_used(ledger, path):
    kept = pickle.dumps(ledger)
    path.unlink()
    moved = pickle.loads(kept)
    with pytest.raises(Incompatible, match="no ledger here"):
        moved.charge(SMALL, "x")


def test_a_ledger_in_memory_is_its_own_copy_and_refuses_pickling():
    ledger = Ledger(epsilon=1)
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy([ledger])[0] is ledger
    with pytest.raises(Incompatible, match="pickled"):
        pickle.dumps(ledger)


def test_entries_methods_and_refusals_are_values_that_copy_and_pickle(ledger):
    for value in (ledger.entries, ledger.methods, ledger.budget):
        assert pickle.loads(pickle.dumps(value)) == value
        assert copy.deepcopy(value) == value
