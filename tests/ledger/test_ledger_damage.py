"""Flipped bytes, cut tails, clocks that go backward: found, or without any effect."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing

import pytest

from pymc_private.errors import Incompatible
from pymc_private.ledger import entry as ledger_entry
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

SMALL = Guarantee.pure(0.25)


@pytest.fixture
def path(tmp_path):
    """A ledger of five charges; two releases kept, one noted."""
    path = tmp_path / "study.sqlite"
    ledger = Ledger(path, epsilon=2, delta=1e-5, data="survey")
    entries = [ledger.charge(SMALL, f"draw {i}", name="main", key=str(i)) for i in range(5)]
    ledger.store(entries[0], b"draws")
    ledger.store(entries[1], bytes(range(256)) * 20)
    ledger.store(entries[2])
    return path


def contents(path, head=None):
    """All that a ledger says, or None if it is refused."""
    try:
        ledger = Ledger.open(path)
        ledger.verify(head)
        kept = [ledger.fetch(entry) for entry in ledger.entries if entry.completed]
        return ledger.to_json(), ledger.methods, kept
    except Incompatible:
        return None


def damage(path, positions, chance):
    """Flip a bit at each position in turn; give how many flips were found."""
    whole = path.read_bytes()
    said, head = contents(path), Ledger.open(path).head
    found, broken = 0, path.with_name("broken.sqlite")
    for position in positions:
        flipped = bytearray(whole)
        flipped[position] ^= 1 << chance.randrange(8)
        for end in ("", "-wal", "-shm", "-journal"):
            broken.with_name(broken.name + end).unlink(missing_ok=True)
        broken.write_bytes(flipped)
        outcome = contents(broken, head)
        assert outcome in (None, said), position
        found += outcome is None
    return found


def used(path):
    """The positions of all bytes that stand for something a ledger says."""
    whole = path.read_bytes()
    with closing(sqlite3.connect(path)) as connection:
        texts = [
            part if isinstance(part, bytes) else part.encode()
            for table in ("ledger", "charges", "releases")
            for row in connection.execute(f"SELECT * FROM {table}")
            for part in row
            if isinstance(part, str | bytes) and len(part) < 3000  # longer ones span pages
        ]
    spans = [(whole.index(text), len(text)) for text in texts]
    return [position for start, length in spans for position in range(start, start + length)]


def test_a_flipped_bit_is_found_or_changes_nothing(path):
    chance = random.Random(4)
    size = len(path.read_bytes())
    positions = [*range(100), *chance.sample(range(size), 150)]
    assert damage(path, positions, chance) > 50


def test_a_flipped_bit_in_anything_the_ledger_says_is_found(path):
    chance = random.Random(5)
    positions = chance.sample(used(path), 150)
    assert damage(path, positions, chance) == len(positions)


@pytest.mark.audit
def test_every_byte_that_says_something_and_a_sixth_of_the_others_flipped(path):
    chance = random.Random(6)
    said = used(path)
    assert damage(path, said, chance) == len(said)
    size = len(path.read_bytes())
    found = damage(path, range(chance.randrange(6), size, 6), chance)
    print(f"{size} bytes, {len(said)} of them said; every sixth: {found} flips found")


def test_a_file_that_lost_its_tail_is_found(path):
    whole, head, said = path.read_bytes(), Ledger.open(path).head, contents(path)
    for length in [*range(0, len(whole), 1000), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert contents(path, head) is None
    path.write_bytes(whole + bytes(512))
    assert contents(path, head) in (None, said)


def test_charges_lost_with_the_log_are_found_by_a_kept_head(path):
    early = path.read_bytes()
    ledger = Ledger.open(path)
    ledger.charge(SMALL, "later")
    head = ledger.head
    path.write_bytes(early)
    with pytest.raises(Incompatible, match="head you kept"):
        Ledger.open(path).verify(head)
    with pytest.raises(Incompatible, match="seen before"):
        ledger.charge(SMALL, "by the process that knows better")


def test_a_clock_that_goes_backward_does_no_harm(path, monkeypatch):
    ledger = Ledger.open(path)
    for day in ("2030-01-01", "1970-01-01", "2026-11-21"):
        monkeypatch.setattr(ledger_entry, "utc_today", lambda day=day: day)
        assert ledger.charge(Guarantee.pure(2.0**-20), "draw").day == day
        assert Ledger(path, epsilon=2, delta=1e-5).verify(ledger.head)
    assert [entry.number for entry in ledger.entries] == [*range(1, 9)]
    assert [entry.day for entry in ledger.entries[-2:]] == ["1970-01-01", "2026-11-21"]
