"""What a crash leaves beside a ledger: a journal that is replayed, and never a reported charge."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import sqlite3
import struct
from contextlib import closing

import pytest

from pymc_private.errors import BudgetExceeded, Incompatible, PymcPrivateError
from pymc_private.ledger import ledger_file, sqlite
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.guarantee import Guarantee

TENTH = Guarantee.pure(0.1)
MAGIC, SECTOR = bytes.fromhex("d9d505f920a163d7"), 512


def transitions(path, act):
    """The file before and after one transaction, and the journal as it was when it was synced.

    In the mode PERSIST SQLite leaves the journal and puts zeros over its header, which is made up
    again from its records: each ends with a checksum, a sum of its bytes and of the header's nonce.
    """
    before = path.read_bytes()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=PERSIST")
        connection.execute("BEGIN IMMEDIATE")
        act(connection)
        connection.execute("COMMIT")
    journal = path.with_name(path.name + "-journal")
    whole, after = journal.read_bytes(), path.read_bytes()
    journal.unlink()
    (size,) = struct.unpack(">H", before[16:18])
    records = (len(whole) - SECTOR) // (size + 8)
    page = whole[SECTOR + 4 : SECTOR + 4 + size]
    (checksum,) = struct.unpack(">I", whole[SECTOR + 4 + size : SECTOR + 8 + size])
    nonce = (checksum - sum(page[i] for i in range(size - 200, 0, -200))) % 2**32
    header = MAGIC + struct.pack(">5I", records, nonce, len(before) // size, SECTOR, size)
    return before, after, header + whole[len(header) :], size


def charge_of(path, label):
    """What a charge writes, taken from a copy of the ledger that was charged."""
    copy = path.with_name("copy.sqlite")
    shutil.copy(path, copy)
    Ledger.open(copy).charge(TENTH, label)
    with closing(sqlite3.connect(copy)) as connection:
        query = "SELECT number, body, hash FROM charges ORDER BY number DESC LIMIT 1"
        row = connection.execute(query).fetchone()
    copy.unlink()
    return lambda connection: connection.execute("INSERT INTO charges VALUES (?, ?, ?)", row)


def left(path, content, journal):
    """Lay out what a crash leaves."""
    path.write_bytes(content)
    beside = path.with_name(path.name + "-journal")
    beside.unlink(missing_ok=True)
    if journal is not None:
        beside.write_bytes(journal)


def patched(before, after, pages, size):
    """A file of which only some pages were written."""
    whole = bytearray(before)
    for page in pages:
        whole[page * size : (page + 1) * size] = after[page * size : (page + 1) * size]
    return bytes(whole)


@pytest.fixture
def charged(path):
    """A ledger of five reported charges, and what the sixth writes (the page of charges splits)."""
    ledger = Ledger(path, epsilon=2)
    for i in range(5):
        ledger.charge(TENTH, f"reported {i}")
    return path, ledger.head, transitions(path, charge_of(path, "under way"))


def labels(path):
    ledger = Ledger.open(path)
    assert ledger.verify()
    return [entry.label for entry in ledger.entries]


def test_a_crash_between_any_two_steps_of_a_charge_undoes_it_or_leaves_it_whole(charged):
    path, head, (before, after, journal, size) = charged
    reported = [f"reported {i}" for i in range(5)]
    changed = [page for page in range(len(after) // size)
               if before[page * size :][:size] != after[page * size :][:size]]  # fmt: skip
    assert len(changed) > 2
    unsynced = journal[:8] + bytes(4) + journal[12:]  # SQLite counts the records last
    steps = [(before, None), (before, b"")]
    steps += [(before, unsynced[:length]) for length in range(1, len(unsynced), 797)]
    steps += [(before, unsynced), (before, journal)]
    for count in range(1, len(changed) + 1):
        steps += [(patched(before, after, changed[:count], size), journal)]
        steps += [(patched(before, after, changed[-count:], size), journal)]
    for content, beside in steps:
        left(path, content, beside)
        assert labels(path) == reported
        assert Ledger.open(path).verify(head)
        assert Ledger.open(path).charge(TENTH, "next").number == 6
        assert [file.name for file in path.parent.iterdir()] == [path.name]
    left(path, after, None)
    assert labels(path) == [*reported, "under way"]


def grow(connection):
    """Write what needs pages behind the end of the file, as a release that is stored does."""
    connection.execute("CREATE TABLE more AS SELECT zeroblob(40000) AS x")


def test_a_crash_before_the_file_grew_is_undone(path):
    """The header then says that the file is longer than it is, so it is no snapshot to read."""
    ledger = Ledger(path, epsilon=2)
    for i in range(5):
        ledger.charge(TENTH, f"reported {i}")
    before, after, journal, size = transitions(path, grow)
    assert len(after) > len(before)
    for pages in ([0], [0, 1], range(len(before) // size)):
        left(path, patched(before, after, pages, size), journal)
        assert labels(path) == [f"reported {i}" for i in range(5)]
        assert Ledger.open(path).verify(ledger.head)


def test_a_file_that_nobody_can_read_is_not_looked_into_while_a_transaction_holds_locks(path):
    """Closing it would give up the locks of this process."""
    ledger = Ledger(path, epsilon=1)
    before, after, journal, size = transitions(path, grow)
    with ledger._verified.transact(write=True):
        broken = path.with_name("broken.sqlite")
        left(broken, patched(before, after, [0], size), journal)
        with pytest.raises(Incompatible, match="cannot read its header"):
            Ledger.open(broken)
    assert Ledger.open(broken).entries == ()


def test_a_file_that_may_not_be_read_is_refused_in_words(path, monkeypatch):
    Ledger(path, epsilon=1)
    before, after, journal, size = transitions(path, grow)
    left(path, patched(before, after, [0], size), journal)

    def forbidden(*_):
        raise PermissionError

    monkeypatch.setattr(ledger_file, "open", forbidden, raising=False)
    with pytest.raises(Incompatible, match="cannot read its header"):
        Ledger.open(path)


def flips(charged, positions, chance):
    """Flip a bit of the journal that a crash left; give how many flips were found."""
    path, head, (before, after, journal, size) = charged
    reported, found = [f"reported {i}" for i in range(5)], 0
    contents = [before, after, patched(before, after, range(1, len(after) // size), size)]
    for position in positions:
        flipped = bytearray(journal)
        flipped[position] ^= 1 << chance.randrange(8)
        left(path, chance.choice(contents), bytes(flipped))
        try:
            assert labels(path)[:5] == reported, position
            assert Ledger.open(path).verify(head)
        except Incompatible:
            found += 1
    return found


def test_a_flipped_bit_in_a_leftover_journal_erases_no_reported_charge(charged):
    chance = random.Random(8)
    size = len(charged[2][2])
    positions = [*range(28), *range(SECTOR, SECTOR + 8), *chance.sample(range(size), 60)]
    assert flips(charged, positions, chance) > 5


@pytest.mark.audit
def test_bits_flipped_all_over_a_leftover_journal(charged):
    positions = range(0, len(charged[2][2]), 13)
    found = flips(charged, positions, random.Random(9))
    print(f"{len(positions)} bytes of a journal: {found} flips found, the others erase nothing")


def test_a_leftover_journal_that_makes_the_header_unreadable_is_damage(charged):
    path, _, (_, after, journal, size) = charged
    # SQLite's checksum of a page adds up every 200th byte only; the rest is the chain's to find.
    first = SECTOR + 4  # of page 1, wherever it stands in the journal
    while journal[first : first + 6] != b"SQLite":
        first += size + 8
    flipped = bytearray(journal)
    flipped[first + 47] ^= 64  # the schema format
    left(path, after, bytes(flipped))
    with pytest.raises(Incompatible, match="damaged"):
        labels(path)


def test_a_journal_cut_short_erases_no_reported_charge(charged):
    path, head, (before, after, journal, size) = charged
    for content in (before, after, patched(before, after, [1], size)):
        for length in range(0, len(journal), 1009):
            left(path, content, journal[:length])
            try:
                assert labels(path)[:5] == [f"reported {i}" for i in range(5)]
                assert Ledger.open(path).verify(head)
            except Incompatible:
                pass


KILLED = """
import os, signal, sys
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.ledger.ledger import Ledger
with Ledger.open(sys.argv[1]) as ledger:
    for i in range(10):
        print(ledger.charge(Guarantee.pure(0.1), f"A{i}").number, flush=True)
    with ledger._verified.transact(write=True) as (connection, _):
        connection.execute("PRAGMA cache_size=1")
        connection.execute("INSERT INTO releases VALUES (1, 'x', ?)", (bytes(100_000),))
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system does not kill")
def test_after_a_kill_inside_with_all_reported_charges_are_in_the_file_itself(path, elsewhere):
    Ledger(path, epsilon=2)
    assert elsewhere("-c", KILLED, path, codes=(-signal.SIGKILL,)).split() == [
        str(i) for i in range(1, 11)
    ]
    assert ledger_file.has_journal(str(path))
    assert not path.with_name(path.name + "-wal").exists()
    with pytest.raises(Incompatible, match="interrupted here"):
        Ledger.open(path, read_only=True)
    assert labels(path) == [f"A{i}" for i in range(10)]
    assert len(Ledger.open(path, read_only=True).entries) == 10
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_inside_with_no_log_ever_stands_beside_the_file(path):
    with Ledger(path, epsilon=2) as ledger:
        for _ in range(3):
            ledger.charge(TENTH, "draw")
            assert [file.name for file in path.parent.iterdir()] == [path.name]
            assert path.read_bytes()[18:20] == b"\x01\x01"
            # Whoever has the file alone has all that was reported.
            assert path.read_bytes().count(b'"draw"') == len(ledger.entries)


# ---- write-ahead logs ------------------------------------------------------------------------
def test_a_file_whose_log_another_program_keeps_open_is_refused(path, monkeypatch):
    Ledger(path, epsilon=2).charge(TENTH, "first")
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.2)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode=WAL")
        other.execute("CREATE TABLE other (x)")
        with pytest.raises(Incompatible, match="close every program"):
            Ledger.open(path)
        other.execute("DROP TABLE other")
    assert Ledger.open(path).charge(TENTH, "second").number == 2


def test_a_ledger_turned_to_a_log_behind_its_back_is_turned_back(path):
    ledger = Ledger(path, epsilon=2)
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA journal_mode=WAL")
    assert path.read_bytes()[18:20] == b"\x02\x02"
    ledger.charge(TENTH, "draw")
    assert path.read_bytes()[18:20] == b"\x01\x01"


# ---- locks, names, interruptions ---------------------------------------------------------------
ANOTHER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=0)
try:
    connection.execute("BEGIN IMMEDIATE")
    print("admitted")
except sqlite3.OperationalError as error:
    print("locked")
"""
LOOKS = {
    "str": lambda ledger: str(ledger),
    "html": lambda ledger: ledger._repr_html_(),
    "notes": lambda ledger: ledger._verified.store.notes,
    "view": lambda ledger: Ledger.open(ledger.path, read_only=True).entries,
    "open": lambda ledger: Ledger.open(ledger.path).verify(),
}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="only POSIX drops locks so")
@pytest.mark.parametrize("look", LOOKS)
def test_no_look_at_a_ledger_drops_the_locks_of_its_process(look, path, elsewhere):
    with Ledger(path, epsilon=2) as ledger:
        ledger.charge(TENTH, "draw")
        with closing(sqlite.connect(str(path), sqlite.WRITE_MODE)) as held:
            held.execute("BEGIN IMMEDIATE")
            assert elsewhere("-c", ANOTHER, path).split() == ["locked"]
            LOOKS[look](ledger)
            assert elsewhere("-c", ANOTHER, path).split() == ["locked"]
            held.execute("ROLLBACK")
        assert elsewhere("-c", ANOTHER, path).split() == ["admitted"]


CHARGES = """
import sys
from pymc_private.errors import BudgetExceeded
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.ledger.ledger import Ledger
count, ledger = 0, Ledger.open(sys.argv[1])
try:
    while count < 5:
        ledger.charge(Guarantee.pure(0.1), "B")
        count += 1
except BudgetExceeded:
    pass
print(count)
"""


@pytest.mark.audit
@pytest.mark.parametrize("look", ["str", "view"])
def test_a_look_inside_with_admits_nobody_beyond_the_budget(look, path, elsewhere):
    mine = 0
    with Ledger(path, epsilon=1) as ledger:
        ledger.charge(TENTH, "A")
        LOOKS[look](ledger)
        others = int(elsewhere("-c", CHARGES, path).split()[0])
        for _ in range(12):
            with contextlib.suppress(BudgetExceeded):
                ledger.charge(TENTH, "A")
                mine += 1
        assert elsewhere("-c", CHARGES, path).split() == ["0"]
    assert 1 + mine + others == len(Ledger.open(path).entries) == 10


def test_a_ledger_under_two_names_is_refused_under_both(path):
    ledger, second = Ledger(path, epsilon=1), path.with_name("second.sqlite")
    view = Ledger.open(path, read_only=True)
    with ledger:
        ledger.charge(TENTH, "A")
        os.link(path, second)
        for use in (
            lambda: ledger.charge(TENTH, "A"),
            lambda: ledger.entries,
            lambda: view.entries,
            lambda: Ledger.open(path),
            lambda: Ledger.open(second),
            lambda: Ledger(second, epsilon=1),
            lambda: Ledger.open(second, read_only=True),
        ):
            with pytest.raises(Incompatible, match="hard link"):
                use()
        second.unlink()
        assert ledger.charge(TENTH, "A").number == 2
    assert len(view.entries) == 2


def test_the_draft_that_a_killed_process_left_is_no_second_name(path):
    Ledger(path, epsilon=1)
    draft = path.with_name(f"{path.name}{ledger_file.DRAFT_SUFFIX}0123456789abcdef")
    os.link(path, draft)
    other = path.with_name(f"{path.name}{ledger_file.DRAFT_SUFFIX}another")
    other.write_text("a draft of another ledger, perhaps still being written")
    assert Ledger.open(path).charge(TENTH, "A").number == 1
    assert not draft.exists()
    assert other.exists()


@pytest.mark.parametrize("inside", [False, True])
def test_a_ctrl_c_while_a_charge_waits_wedges_nothing(inside, path, monkeypatch):
    ledger, begun = Ledger(path, epsilon=1), []
    ledger.charge(TENTH, "first")

    class Interrupted(sqlite3.Connection):
        def execute(self, query, *arguments):
            found = super().execute(query, *arguments)
            if query == "BEGIN IMMEDIATE" and not begun:
                begun.append(self)
                raise KeyboardInterrupt  # it was waiting in C, and got the lock
            return found

    connect = sqlite3.connect
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, factory=Interrupted, **k))
        if inside:
            ledger.__enter__()
        with pytest.raises(KeyboardInterrupt):
            ledger.charge(TENTH, "second")
        assert begun
        assert ledger.charge(TENTH, "third").number == 2
        assert Ledger.open(path).charge(TENTH, "by another").number == 3
        if inside:
            ledger.__exit__()
    assert labels(path) == ["first", "third", "by another"]


@pytest.mark.parametrize("inside", [False, True])
def test_a_transaction_left_open_between_two_lines_is_undone_by_the_next(inside, path):
    ledger = Ledger(path, epsilon=1)
    with ledger:
        ledger.charge(TENTH, "first")
        store = ledger._verified.store
        if not inside:
            store._users = 0  # as if a plain charge had been cut off before its cleaning up
        store._kept[0].execute("BEGIN IMMEDIATE")
        store._kept[0].execute("DELETE FROM charges")
        assert ledger.charge(TENTH, "second").number == 2
        store._users = 1
    assert labels(path) == ["first", "second"]
    memory = Ledger(epsilon=1)
    memory.charge(TENTH, "first")
    memory._verified.store._connection.execute("BEGIN")
    memory._verified.store._connection.execute("DELETE FROM charges")
    assert memory.charge(TENTH, "second").number == 2


@pytest.mark.parametrize("kind", ["memory", "plain", "inside"])
def test_a_charge_from_inside_a_transaction_is_refused(kind, path):
    ledger = Ledger(None if kind == "memory" else path, epsilon=1)
    if kind == "inside":
        ledger.__enter__()
    with (
        ledger._verified.transact(write=True),
        pytest.raises(PymcPrivateError, match="this very thread"),
    ):
        ledger.charge(TENTH, "inner")
    assert ledger.charge(TENTH, "next").number == 1
    if kind == "inside":
        ledger.__exit__()
