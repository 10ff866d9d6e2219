"""Where a ledger lives: one SQLite file, or the memory of one process.

No connection outlives a call. So nothing is open when a process forks (SQLite connections do not
survive a fork), copies of a ledger need not share anything but the path, and between calls the
ledger is a single file. A kill at any moment leaves either the whole transaction or none of it:
the file is in WAL mode and a transaction is on disk before it is reported (synchronous=FULL).
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from pymc_private.errors import DomainError, Incompatible, PymcPrivateError

APPLICATION = 0x504D504C  # "PMPL", in the header of the SQLite file
VERSION = 1
BUSY_SECONDS = 60.0
SCHEMA = """
CREATE TABLE ledger (header TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE charges (number INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT NOT NULL,
                      hash TEXT NOT NULL);
CREATE TABLE releases (number INTEGER PRIMARY KEY REFERENCES charges, sha256 TEXT NOT NULL,
                       content BLOB NOT NULL);
"""

# Held while any connection is open, and while the process forks: a fork in another thread's
# transaction would leave the child believing in locks that nobody holds.
_one_at_a_time = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_one_at_a_time.acquire,
        after_in_parent=_one_at_a_time.release,
        after_in_child=_one_at_a_time.release,
    )


class FileStore:
    """A ledger file, named by its absolute path."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._inspected = False

    @property
    def place(self) -> str:
        """Name the file."""
        return self.path

    @contextlib.contextmanager
    def transact(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which ends with the block."""
        if not self._inspected:
            inspect(self.path)
            self._inspected = True
        with _one_at_a_time, _explained(self.path), _opened(self.path, "mode=rw") as connection:
            connection.execute("PRAGMA synchronous=FULL")
            connection.execute("PRAGMA fullfsync=1")  # macOS; elsewhere without effect
            with _transaction(connection, write):
                yield connection


class MemoryStore:
    """A ledger in the memory of the process that made it."""

    place = "memory"

    def __init__(self, header: str, head: str) -> None:
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, self._connection.close)
        self._process = os.getpid()
        _lay_out(self._connection, header, head)

    @contextlib.contextmanager
    def transact(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Open one transaction, which ends with the block.

        Raises
        ------
        Incompatible
            In a forked child: what it charged, its parent would never see.
        """
        if os.getpid() != self._process:
            raise Incompatible(
                "A ledger in memory cannot follow into another process.",
                do="give the ledger a path; then every process charges the same file",
            )
        with _one_at_a_time, _explained(self.place), _transaction(self._connection, write):
            yield self._connection


def settle(path: str | os.PathLike[str] | None, header: str, head: str) -> FileStore | MemoryStore:
    """Give the place of a ledger: in memory, in the file that is there, or in a new one."""
    if path is None:
        return MemoryStore(header, head)
    place = absolute(path)
    if not os.path.lexists(place):
        create(place, header, head)
    return FileStore(place)


def absolute(path: str | os.PathLike[str]) -> str:
    """Name a file so that it is found again from any folder."""
    text = os.fspath(path)
    if not isinstance(text, str) or not text or text == ":memory:" or text.startswith("file:"):
        raise DomainError(
            "This is not a path for a ledger.",
            got=repr(text),
            do="give a file name; or no path at all for a ledger in memory",
        )
    return str(Path(text).resolve())


def create(path: str, header: str, head: str) -> None:
    """Write a new ledger file whole, or leave what another process put there meanwhile.

    The file is made under another name and linked into place, so nobody sees half of it and two
    processes that create the same ledger end up with one.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise Incompatible(
            "The folder of the ledger does not exist.", got=str(folder), do="create it first"
        )
    draft = f"{path}.new-{secrets.token_hex(8)}"
    try:
        with _one_at_a_time, _explained(path):
            with _opened(draft, "mode=rwc") as connection:
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                _lay_out(connection, header, head)
            with contextlib.suppress(FileExistsError):
                _put_in_place(draft, path)
            _sync_folder(folder)
    finally:
        for end in ("", "-wal", "-shm"):
            Path(draft + end).unlink(missing_ok=True)


def _put_in_place(draft: str, path: str) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: what is there is still never overwritten
        with open(path, "xb") as file:
            file.write(Path(draft).read_bytes())
            file.flush()
            os.fsync(file.fileno())


def inspect(path: str) -> None:
    """Make sure that a file is a sound ledger of a version we read, without writing to it.

    Raises
    ------
    Incompatible
        No such file, not SQLite, another program's, too new, or damaged.
    """
    if not Path(path).is_file():
        raise Incompatible(
            "There is no ledger here.",
            got=path,
            do="Ledger(path, epsilon=..., delta=...) makes one; a moved ledger has a new path",
        )
    with _one_at_a_time:
        application, version = _identify(path)
        if application != APPLICATION:
            raise Incompatible(
                "This SQLite file is not a ledger.",
                got=f"{path}, application id {application}",
                do="choose another path; the file was left as it is",
            )
        if version > VERSION:
            raise Incompatible(
                "The ledger was made by a newer version of pymc_private.",
                got=f"format {version}",
                allowed=f"format {VERSION}",
                do="update pymc_private; the file was left as it is",
            )
        with _explained(path), _opened(path, "mode=ro") as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if verdict != "ok":
            raise damaged(path, verdict)


def _identify(path: str) -> tuple[int, int]:
    """Read the application id and the format from the file's header.

    ``immutable`` keeps SQLite from creating files beside a stranger's; but it can meet a header
    that is ahead of the file while another process moves its WAL, so a failure is tried again.
    """
    for mode in ("mode=ro&immutable=1", "mode=ro"):
        with contextlib.suppress(sqlite3.DatabaseError), _opened(path, mode) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            return application, version
    raise damaged(path, "SQLite cannot read its header")


def _lay_out(connection: sqlite3.Connection, header: str, head: str) -> None:
    connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute(f"PRAGMA user_version={VERSION}")
    connection.executescript(SCHEMA)
    connection.execute("INSERT INTO ledger VALUES (?, ?)", (header, head))


@contextlib.contextmanager
def _opened(path: str, mode: str) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?{mode}", uri=True, timeout=BUSY_SECONDS, isolation_level=None
    )
    with contextlib.closing(connection):
        yield connection


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, write: bool) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _explained(place: str) -> Iterator[None]:
    """Turn SQLite's errors into ours."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "") or type(error).__name__
        if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")) or "no such" in str(error):
            raise damaged(place, str(error)) from error
        if name.startswith("SQLITE_CANTOPEN"):
            raise Incompatible(
                "The ledger cannot be opened.", got=f"{place}: {error}", do="check path and rights"
            ) from error
        raise PymcPrivateError(
            "The ledger could not be read or written.",
            got=f"{place}: {name}, {error}",
            do="mend the cause (a full disk, missing rights, another process that holds the "
            "ledger) and look at .entries before you charge again",
        ) from error


def damaged(place: str, why: str) -> Incompatible:
    """Say that a file cannot be believed."""
    return Incompatible(
        "This file is not a ledger, or it is damaged.",
        got=f"{place}: {why}",
        do="restore a copy, or choose another path; the file was left as it is. If it was the "
        "ledger, treat the whole budget as spent",
    )


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file durable, where folders can be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
