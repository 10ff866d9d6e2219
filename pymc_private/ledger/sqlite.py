"""SQLite tables, transactions and verified reads of a ledger.

Connections. No connection outlives a call, but for one inside ``with ledger:``. So copies of a
ledger need not share anything but the path, and between calls the ledger is a single file.
SQLite connections do not survive a fork, so open ones are closed before it. A kill at any
moment leaves either the whole transaction or none of it: a transaction is on disk before it is
reported.

Journal. There is a rollback journal and never a write-ahead log (WAL). A WAL holds reported
charges for as long as the file is kept open and after a crash: with one flipped byte in it,
SQLite silently takes that charge and all later ones for never made; a copy of the file alone,
or a hard link to it, is a second budget. A rollback journal holds the state before the
transaction under way. It is deleted, and with synchronous=EXTRA its folder synced, before a
charge is reported; so no reported charge is only in a journal, and a damaged one erases no
reported charge that the chain would not miss. Of its kinds DELETE leaves the least behind;
TRUNCATE and PERSIST are hardly quicker.

Locks. Only SQLite opens the file of a ledger: on POSIX, closing any other handle of it drops
all locks that this process has on it, and then two processes write at once.

Reads. Every read checks the hash chain. A full read checks every line. A process that goes on
charging remembers what it has checked and reads only what came after: the chain binds that to
the last line it knows. So a long ledger is as quick to charge as a short one, and a file that
no longer continues what was known is refused.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from pymc_private.errors import DomainError, Incompatible, PymcPrivateError
from pymc_private.ledger.entry import (
    ChargeRow,
    Entry,
    Header,
    chain_hash,
    check_chain,
    check_chain_start,
    read_charge,
    tampering_error,
)
from pymc_private.ledger.filter import ChargeTotals, check_costs, sum_costs

BUSY_SECONDS = 60.0
WRITE_MODE = "mode=rw"
CREATE_MODE = "mode=rwc"
READ_MODE = "mode=ro"
SNAPSHOT_MODE = "mode=ro&immutable=1"
"""Neither locks nor looks for a journal, so it creates no file."""

# Held while any connection is used, and while the process forks: a fork in another thread's
# transaction would leave the child believing in locks that nobody holds.
connection_lock = threading.RLock()


def connect(path: str, mode: str) -> sqlite3.Connection:
    """Connect to a file, so that what is committed is on disk."""
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        # EXTRA is FULL, and with a rollback journal it syncs the folder too: else a power cut
        # could bring the journal back, and with it undo a charge that was reported.
        connection.execute("PRAGMA synchronous=EXTRA")
        connection.execute("PRAGMA fullfsync=1")  # macOS; elsewhere without effect
        if mode.startswith((WRITE_MODE, CREATE_MODE)):
            _end_write_ahead_log(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _end_write_ahead_log(connection: sqlite3.Connection, path: str) -> None:
    """Move a write-ahead log into the file, and go on without one.

    Raises
    ------
    Incompatible
        Another program keeps the log open.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
        with contextlib.suppress(sqlite3.OperationalError):  # SQLite does not wait for this one
            connection.execute("PRAGMA journal_mode=DELETE")
            continue
        if time.monotonic() > deadline:
            raise Incompatible(
                "This ledger has a write-ahead log, which could not be ended.",
                got=path,
                do="close every program that has it open, and open it where file and folder can be "
                "written; Ledger.open(path, read_only=True) shows it",
            )
        time.sleep(0.05)


@contextlib.contextmanager
def connected(path: str, mode: str) -> Iterator[sqlite3.Connection]:
    """Connect to a file until the block ends."""
    with contextlib.closing(connect(path, mode)) as connection:
        yield connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, write: bool) -> Iterator[None]:
    """Commit when the block ends; leave no trace if it fails.

    A Ctrl-C may come anywhere: a transaction that one left open is rolled back by the next call.
    """
    try:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def translated_errors(place: str) -> Iterator[None]:
    """Translate the errors of SQLite and of the system into errors of this package.

    Raises
    ------
    Incompatible
        The file is damaged, cannot be opened, or cannot be written.
    PymcPrivateError
        A full disk, or another process that holds the ledger.
    """
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        raise _translated(place, name, error) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes what it found in the file
        raise damage_error(place, "it holds text that is no text") from error
    except OSError as error:
        raise PymcPrivateError(
            "The ledger could not be read or written.",
            got=f"{place}: {error.strerror or type(error).__name__}",
            do="mend the cause (a full disk, missing rights); nothing was charged",
        ) from error


def _translated(place: str, name: str, error: sqlite3.Error) -> PymcPrivateError:
    # Text that is no UTF-8, or a missing table, comes as an error without a name of its own.
    broken = name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or any(
        words in str(error)
        for words in ("no such", "malformed", "unsupported file", "Could not decode", "UTF-8")
    )
    if broken:
        return damage_error(place, str(error))
    if name == "SQLITE_READONLY_ROLLBACK":
        return Incompatible(
            "A charge was interrupted here, and has not been undone yet.",
            got=f"{place}: {error}",
            do="Ledger.open(path), where file and folder can be written, undoes it; no charge that "
            "was reported is touched",
        )
    if name.startswith("SQLITE_READONLY"):
        return Incompatible(
            "The ledger cannot be written here, so nothing can be charged.",
            got=f"{place}: {error}",
            do="Ledger.open(path, read_only=True) shows it; to charge, move it (with its "
            "-journal file, if there is one) to a folder that can be written",
        )
    if name.startswith("SQLITE_CANTOPEN"):
        return Incompatible(
            "The ledger cannot be opened.",
            got=f"{place}: {error}",
            do="check path and rights, and keep it on a local disk",
        )
    return PymcPrivateError(
        "The ledger could not be read or written.",
        got=f"{place}: {name}, {error}",
        do="mend the cause (a full disk, missing rights, another process that holds the "
        "ledger) and look at .entries before you charge again",
    )


def damage_error(place: str, why: str) -> Incompatible:
    """Error of a file that cannot be trusted."""
    return Incompatible(
        "This file is not a ledger, or it is damaged.",
        got=f"{place}: {why}",
        do="restore a copy, or choose another path; the file was left as it is. If it was the "
        "ledger, treat the whole budget as spent",
    )


APPLICATION_ID = 0x504D504C  # "PMPL", in the header of the SQLite file
FORMAT_VERSION = 1
CREATE_TABLES = (
    "CREATE TABLE ledger (header TEXT NOT NULL, hash TEXT NOT NULL)",
    """CREATE TABLE charges (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL,
                      hash TEXT NOT NULL)""",
    """CREATE TABLE releases (number INTEGER PRIMARY KEY REFERENCES charges,
                       sha256 TEXT NOT NULL, content BLOB)""",
)


def create_tables(connection: sqlite3.Connection, header: str, head: str) -> None:
    """Create an empty ledger; the content of a release that is not kept is NULL."""
    connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version={FORMAT_VERSION}")
    for table in CREATE_TABLES:
        connection.execute(table)
    connection.execute("INSERT INTO ledger VALUES (?, ?)", (header, head))


def format_version(connection: sqlite3.Connection) -> int:
    """Format of a ledger."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def check_format(version: int, place: str) -> None:
    """Refuse an unknown format.

    Raises
    ------
    Incompatible
        It is newer than this program, or there never was such a format.
    """
    if version > FORMAT_VERSION:
        raise Incompatible(
            "The ledger was made by a newer version of pymc_private.",
            got=f"format {version}",
            allowed=f"format {FORMAT_VERSION}",
            do="update pymc_private; the file was left as it is",
        )
    if version < FORMAT_VERSION:
        raise damage_error(place, f"format {version} does not exist")


Parsed = TypeVar("Parsed")
PARSE_ERRORS = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    DomainError,
)


@dataclass(frozen=True)
class LedgerState:
    """What a ledger held at one moment.

    Attributes
    ----------
    header : Header
    text : str
        The header as it is hashed.
    heads : tuple of str
        ``heads[n]`` is the chain's hash after n charges.
    entries : tuple of Entry
        The charges; which of them are released is as of the last full read.
    totals : ChargeTotals
        Exact totals of the charges under each accounting method.
    """

    header: Header
    text: str
    heads: tuple[str, ...]
    entries: tuple[Entry, ...]
    totals: ChargeTotals


def read_ledger(
    connection: sqlite3.Connection, known: LedgerState | None = None, expected: Header | None = None
) -> LedgerState:
    """Read everything but the releases, and check the whole chain.

    Raises
    ------
    Incompatible
        The chain is broken, is not the ``expected`` ledger's, or does not go on from what was
        ``known``.
    """
    top = connection.execute("SELECT header, hash FROM ledger").fetchall()
    if len(top) != 1:
        raise tampering_error(f"it has {len(top)} headers")
    rows = _charge_rows(connection, 0)
    ((text, head),) = top
    start = check_chain_start(text, head)
    heads = (start, *check_chain(start, rows, 1, _last_number(connection)))
    header = _parsed_line(Header.from_json, text)
    if expected is not None and header != expected:
        raise Incompatible(
            "Another ledger stands where this one was.",
            got=f"a ledger made on {header.day}",
            allowed=f"the one made on {expected.day}",
            do="Ledger.open(path), if the other one is meant",
        )
    if known is None:
        known = LedgerState(header, text, heads[:1], (), ChargeTotals())
    if heads[: len(known.heads)] != known.heads:
        raise tampering_error("its history is not the one seen before: cut off or rewritten")
    state = _with_charges(known, rows[len(known.entries) :], heads[len(known.heads) :])
    kept = dict(
        connection.execute("SELECT number, typeof(content) <> 'null' FROM releases").fetchall()
    )
    return replace(
        state, entries=tuple(_with_release_status(e, kept.get(e.number)) for e in state.entries)
    )


def read_new_charges(connection: sqlite3.Connection, known: LedgerState) -> LedgerState:
    """Read and check only what came after the known state; if it does not continue it, check all.

    Raises
    ------
    Incompatible
        As :func:`read_ledger`.
    """
    number = len(known.entries)
    top = connection.execute("SELECT header, hash FROM ledger").fetchall()
    rows = _charge_rows(connection, number)
    fits = top == [(known.text, known.heads[0])]
    if fits and number:
        last, rows = rows[:1], rows[1:]
        fits = [(n, stored) for n, _, stored in last] == [(number, known.heads[-1])]
        fits = fits and chain_hash(known.heads[-2], last[0][1]) == known.heads[-1]
    if not fits:
        return read_ledger(connection, known, known.header)
    heads = check_chain(known.heads[-1], rows, number + 1, _last_number(connection))
    return _with_charges(known, rows, heads)


def _charge_rows(connection: sqlite3.Connection, first: int) -> list[ChargeRow]:
    """Rows of the charges from that number on; from 0 on means all."""
    where = "WHERE number >= ?" if first else "WHERE ? = 0"
    query = f"SELECT number, body, hash FROM charges {where} ORDER BY number"
    return connection.execute(query, (first,)).fetchall()


def _last_number(connection: sqlite3.Connection) -> int:
    """Highest number ever given to a charge."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'charges'").fetchone()
    return row[0] if row else 0


def _with_charges(
    known: LedgerState, rows: Sequence[ChargeRow], heads: tuple[str, ...]
) -> LedgerState:
    """State extended by charges that were read and checked."""
    if not rows:
        return known
    new = tuple(
        _parsed_line(read_charge, body, head)
        for (_, body, _), head in zip(rows, heads, strict=True)
    )
    for number, entry in enumerate(new, start=len(known.entries) + 1):
        if entry.number != number:
            raise tampering_error(f"charge {number} says that it is another")
    return LedgerState(
        known.header,
        known.text,
        known.heads + heads,
        known.entries + new,
        sum_costs((entry.cost for entry in new), known.totals),
    )


def _with_release_status(entry: Entry, kept: int | None) -> Entry:
    """Entry with whether a release is on record, and whether it is kept in this file."""
    released, completed = kept is not None, bool(kept)
    if (entry.released, entry.completed) == (released, completed):
        return entry
    return replace(entry, released=released, completed=completed)


def _parsed_line(parse: Callable[..., Parsed], text: str, *more: object) -> Parsed:
    """Parse a line that passed the hash check; a forged chain may still hold nonsense."""
    try:
        return parse(text, *more)
    except PARSE_ERRORS as error:
        raise tampering_error("it holds a line that no ledger writes") from error


def keys_by_name(entries: Iterable[Entry]) -> dict[str, tuple[str | None, ...]]:
    """Keys under each name, in order of their first charge."""
    found: dict[str, tuple[str | None, ...]] = {}
    for entry in entries:
        if entry.name is not None and entry.key not in found.setdefault(entry.name, ()):
            found[entry.name] += (entry.key,)
    return found


def own_entry(state: LedgerState, entry: Entry) -> Entry:
    """Look up an entry in the ledger as it is now.

    Raises
    ------
    Incompatible
        It belongs to another ledger.
    DomainError
        It is no charge.
    """
    if not isinstance(entry, Entry):
        raise DomainError(
            "This is no charge of a ledger.",
            got=type(entry).__name__,
            allowed="one of ledger.entries, or what ledger.charge returned",
        )
    if 1 <= entry.number < len(state.heads) and state.heads[entry.number] == entry.head:
        return state.entries[entry.number - 1]
    raise Incompatible(
        "This charge is not in this ledger.",
        got=f"charge {entry.number}",
        do="pass one of this ledger's own .entries",
    )


def append_charge(connection: sqlite3.Connection, number: int, body: str, head: str) -> Entry:
    """Append one charge to the chain."""
    new = chain_hash(head, body)
    connection.execute("INSERT INTO charges VALUES (?, ?, ?)", (number, body, new))
    return read_charge(body, new)


def put_release(connection: sqlite3.Connection, entry: Entry, content: bytes | None) -> Entry:
    """Put the release of a charge on record; storing the same one twice has no effect.

    Raises
    ------
    Incompatible
        Another release of this charge is on record.
    """
    digest = _release_digest(entry, content)
    query = "SELECT sha256 FROM releases WHERE number = ?"
    found = connection.execute(query, (entry.number,)).fetchone()
    if found is None:
        query = "INSERT INTO releases VALUES (?, ?, ?)"
        connection.execute(query, (entry.number, digest, content))
    elif found != (digest,):
        raise Incompatible(
            "This charge paid for another release already.",
            got=f"a second release for charge {entry.number}",
            do="charge again for each draw",
        )
    return _with_release_status(entry, content is not None)


def get_release(connection: sqlite3.Connection, entry: Entry) -> bytes:
    """Read the release of a charge, and check that it is the one that was kept.

    Raises
    ------
    Incompatible
        There is none, or it was edited.
    """
    query = "SELECT sha256, content FROM releases WHERE number = ?"
    found = connection.execute(query, (entry.number,)).fetchone()
    if found is None:
        raise Incompatible(
            "This charge is not completed.",
            got=f"charge {entry.number} without a release",
            do="its draw was interrupted; a new draw is a new charge",
        )
    digest, content = found
    edited = not isinstance(content, bytes | None) or _release_digest(entry, content) != digest
    if edited:
        raise tampering_error(f"the release of charge {entry.number} was edited or moved")
    if content is None:
        raise Incompatible(
            "The release of this charge is on record, but is not kept here.",
            got=f"charge {entry.number}, released elsewhere",
            do="look where it was released; a new draw is a new charge",
        )
    return bytes(content)


def _release_digest(entry: Entry, content: bytes | None) -> str:
    """Hash that binds a release to its charge; the line break separates the two unambiguously."""
    suffix = b"" if content is None else b"\n" + content
    return hashlib.sha256(entry.head.encode() + suffix).hexdigest()


def check_releases(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Read every stored release once, and let SQLite check the file.

    Raises
    ------
    Incompatible
        Something was edited, moved or damaged.
    """
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise tampering_error(f"SQLite finds: {verdict}")
    for (number,) in connection.execute("SELECT number FROM releases").fetchall():
        if not isinstance(number, int) or not 1 <= number <= len(entries):
            raise tampering_error(f"a release stands for charge {number}, which is missing")
        entry = entries[number - 1]
        query = "SELECT sha256 FROM releases WHERE number = ? AND typeof(content) = 'null'"
        noted = connection.execute(query, (number,)).fetchone()
        if noted is None:
            get_release(connection, entry)
        elif noted != (_release_digest(entry, None),):
            raise tampering_error(f"the release of charge {number} was edited or moved")


def check_history(state: LedgerState, within_budget: bool, head: str | None) -> None:
    """Check the costs of the charges, the budget, and that ``head`` is part of the chain."""
    check_costs(state.entries, state.header)
    if not within_budget:
        raise tampering_error("the charges are beyond the budget, so something else wrote them")
    if head is not None and head not in state.heads:
        raise tampering_error(
            "its history does not contain the head you kept: cut off or rewritten"
        )
