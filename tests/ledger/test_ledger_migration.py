"""A ledger file of an older format opens as one of today's, and nothing it says changes."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import warnings
from contextlib import closing
from fractions import Fraction

import pytest

from pymc_private.errors import Incompatible
from pymc_private.ledger import sqlite
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

SMALL = Guarantee.pure(0.25)
# Format 1, word for word.
SCHEMA_1 = """
PRAGMA application_id=1347244108;
PRAGMA user_version=1;
CREATE TABLE ledger (header TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE charges (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL,
                      hash TEXT NOT NULL);
CREATE TABLE releases (number INTEGER PRIMARY KEY REFERENCES charges, sha256 TEXT NOT NULL,
                       content BLOB NOT NULL);
"""


def line(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def digest(head, text):
    return hashlib.sha256(f"{head}\n{text}".encode()).hexdigest()


@pytest.fixture
def path(tmp_path):
    """A file as format 1 wrote it: two charges of 1/4, the first with its release."""
    path = tmp_path / "old.sqlite"
    header = line(
        {
            "epsilon": "2/1",
            "delta": "1/100000",
            "shares": {"zcdp": "1/200000", "approximate": "1/200000"},
            "neighbors": "substitute",
            "data": "an old survey",
            "day": "2026-01-01",
            "token": "0" * 32,
        }
    )
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(SCHEMA_1)
        head = digest("", header)
        connection.execute("INSERT INTO ledger VALUES (?, ?)", (header, head))
        for number in (1, 2):
            body = line(
                {
                    "number": number,
                    "label": f"draw {number}",
                    "day": "2026-01-02",
                    "name": "main",
                    "key": str(number),
                    "pure": "1/4",
                    "zcdp": "1/32",
                    "approximate": ["1/4", "0/1"],
                    "guarantee": SMALL.to_dict(),
                }
            )
            head = digest(head, body)
            connection.execute("INSERT INTO charges VALUES (?, ?, ?)", (number, body, head))
            if number == 1:
                kept = hashlib.sha256(head.encode() + b"\ndraws").hexdigest()
                connection.execute("INSERT INTO releases VALUES (1, ?, ?)", (kept, b"draws"))
    return path, head


def version(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA user_version").fetchone()[0]


def test_an_older_ledger_opens_with_all_it_said_and_goes_on(path):
    path, head = path
    ledger = Ledger.open(path)
    assert version(path) == sqlite.FORMAT_VERSION == 3
    assert ledger.head == head
    assert ledger.verify(head)
    assert ledger.spent.epsilon == Fraction(1, 2)
    assert [(e.completed, e.released) for e in ledger.entries] == [(True, True), (False, False)]
    assert ledger.fetch(ledger.find("main", "1")) == b"draws"
    assert ledger.entries[0].guarantee == SMALL
    ledger.store(ledger.entries[1])  # what format 1 could not say
    ledger.charge(SMALL, "today")
    assert ledger.verify(head)
    assert len(Ledger(path, epsilon=2, delta=1e-5).entries) == 3
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_view_of_an_older_ledger_leaves_it_as_it_is(path):
    path, head = path
    before = path.read_bytes()
    view = Ledger.open(path, read_only=True)
    assert view.verify(head)
    assert len(view.entries) == 2
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_migration_that_fails_halfway_leaves_the_older_ledger(path, monkeypatch):
    path, head = path
    steps = sqlite.MIGRATIONS[1]
    for stop in range(len(steps)):
        broken = (*steps[:stop], "SELECT nonsense FROM nowhere")
        monkeypatch.setattr(sqlite, "MIGRATIONS", sqlite.MIGRATIONS | {1: broken})
        with pytest.raises(Incompatible):
            Ledger.open(path)
        assert version(path) == 1
    monkeypatch.undo()
    assert Ledger.open(path).verify(head)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_processes_that_open_an_older_ledger_together_migrate_it_once(path):
    path, head = path
    children = []
    for _ in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
            child = os.fork()
        if child == 0:
            code = 1
            try:
                Ledger.open(path).charge(SMALL, "by a child")
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0] * 4
    ledger = Ledger.open(path)
    assert ledger.verify(head)
    assert len(ledger.entries) == 6


@pytest.mark.parametrize("number", [0, -1])
def test_a_format_that_never_was_is_refused(path, number):
    path, _ = path
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(f"PRAGMA user_version={number}")
    for read_only in (False, True):
        with pytest.raises(Incompatible, match="does not exist"):
            Ledger.open(path, read_only=read_only)
