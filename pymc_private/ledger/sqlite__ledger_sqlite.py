"""Connections to a ledger's SQLite file: one at a time, one transaction each, errors explained.

No connection outlives a call, but for one inside ``with ledger:``. So copies of a ledger need not
share anything but the path, and between calls the ledger is a single file. SQLite connections do
not survive a fork, so what is open is closed before one. A kill at any moment leaves either the
whole transaction or none of it: a transaction is on disk before it is reported.

There is a rollback journal and never a write-ahead log (WAL). A WAL holds what was reported, for as
long as the file is kept open and after a crash: one flipped byte in it, and SQLite takes that
charge and all later ones for never made, without a word; a copy of the file alone, or a hard link
to it, is a second budget. A rollback journal holds what was before the transaction under way. It
is deleted, and with synchronous=EXTRA its folder synced, before a charge is reported; so nothing
reported stands in a journal, and a damaged one erases no reported charge that the chain would not
miss. Of its kinds DELETE leaves the least behind; TRUNCATE and PERSIST are hardly quicker.

Nobody but SQLite opens the file of a ledger: on POSIX, closing any other handle of it drops all
locks that this process has on it, and then two processes write at once.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from pymc_private.errors import Incompatible, PymcPrivateError

BUSY_SECONDS = 60.0
WRITE = "mode=rw"
CREATE = "mode=rwc"
READ = "mode=ro"
SNAPSHOT = "mode=ro&immutable=1"  # neither locks nor looks for a journal, so it creates no file

# Held while any connection is used, and while the process forks: a fork in another thread's
# transaction would leave the child believing in locks that nobody holds.
one_at_a_time = threading.RLock()


def connect(path: str, mode: str) -> sqlite3.Connection:
    """Connect to a file; what is committed is on disk."""
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
        if mode.startswith((WRITE, CREATE)):
            _without_log(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _without_log(connection: sqlite3.Connection, path: str) -> None:
    """Move what stands in a write-ahead log into the file, and go on without one.

    Raises
    ------
    PymcPrivateError
        Another program keeps the log open.
    """
    patience = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone() != ("delete",):
        with contextlib.suppress(sqlite3.OperationalError):  # SQLite does not wait for this one
            connection.execute("PRAGMA journal_mode=DELETE")
            continue
        if time.monotonic() > patience:
            raise Incompatible(
                "This ledger has a write-ahead log, which could not be ended.",
                got=path,
                do="close every program that has it open, and open it where file and folder can be "
                "written; Ledger.open(path, read_only=True) shows it",
            )
        time.sleep(0.05)


@contextlib.contextmanager
def opened(path: str, mode: str) -> Iterator[sqlite3.Connection]:
    """Connect to a file until the block ends."""
    with contextlib.closing(connect(path, mode)) as connection:
        yield connection


@contextlib.contextmanager
def transaction(connection: sqlite3.Connection, write: bool) -> Iterator[None]:
    """Commit when the block ends; leave no trace if it fails.

    A Ctrl-C falls anywhere: what one between two lines left open is undone by the next.
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
def explained(place: str) -> Iterator[None]:
    """Turn the errors of SQLite and of the system into ours.

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
        raise _in_words(place, name, error) from error
    except UnicodeDecodeError as error:  # SQLite's message quotes what it found in the file
        raise damaged(place, "it holds text that is no text") from error
    except OSError as error:
        raise PymcPrivateError(
            "The ledger could not be read or written.",
            got=f"{place}: {error.strerror or type(error).__name__}",
            do="mend the cause (a full disk, missing rights); nothing was charged",
        ) from error


def _in_words(place: str, name: str, error: sqlite3.Error) -> PymcPrivateError:
    # Text that is no UTF-8, or a missing table, comes as an error without a name of its own.
    broken = name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or any(
        words in str(error)
        for words in ("no such", "malformed", "unsupported file", "Could not decode", "UTF-8")
    )
    if broken:
        return damaged(place, str(error))
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


def damaged(place: str, why: str) -> Incompatible:
    """Say that a file cannot be believed."""
    return Incompatible(
        "This file is not a ledger, or it is damaged.",
        got=f"{place}: {why}",
        do="restore a copy, or choose another path; the file was left as it is. If it was the "
        "ledger, treat the whole budget as spent",
    )
