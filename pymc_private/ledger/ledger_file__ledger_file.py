"""The file of a ledger: made whole or not at all, and looked over before it is used."""

from __future__ import annotations

import contextlib
import os
import secrets
import sqlite3
from pathlib import Path
from pymc_private.errors import DomainError, Incompatible
from pymc_private.ledger import sqlite__ledger_schema as schema
from pymc_private.ledger.ledger_file__ledger_medium import DRAFT, beside, check_alone, warn_of_network
from pymc_private.ledger.sqlite__ledger_sqlite import CREATE, READ, SNAPSHOT, WRITE, damaged, explained, one_at_a_time, opened, transaction
from pymc_private.privacy.validation__texts import file_path

def absolute(path: str | os.PathLike[str]) -> str:
    """Name a file so that it is found again from any folder.

    Raises
    ------
    DomainError
        It is not the name of a file.
    """
    text = str(file_path(path, "a ledger's place")) if path != "" else ""
    if not text or text == ":memory:" or text.startswith("file:"):
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

    Raises
    ------
    Incompatible
        The folder is missing, or nothing can be written there.
    PymcPrivateError
        The disk is full, say.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise Incompatible(
            "The folder of the ledger does not exist.", got=str(folder), do="create it first"
        )
    draft = f"{path}{DRAFT}{secrets.token_hex(8)}"
    warn_of_network(path)
    try:
        with one_at_a_time, explained(path):
            with opened(draft, CREATE) as connection, transaction(connection, write=True):
                schema.lay_out(connection, header, head)
            with contextlib.suppress(FileExistsError):
                _put_in_place(draft, path)
            _sync_folder(folder)
    finally:
        for end in ("", "-journal"):
            with contextlib.suppress(OSError):
                Path(draft + end).unlink(missing_ok=True)


def _put_in_place(draft: str, path: str) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: what is there is still never overwritten
        with open(path, "xb") as file:
            try:
                file.write(Path(draft).read_bytes())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                Path(path).unlink()  # ours, and half written
                raise


def inspect(path: str, *, read_only: bool = False) -> None:
    """Make sure that a file is a sound ledger of today's format; an older one is migrated.

    Raises
    ------
    Incompatible
        No such file, not SQLite, another program's, too new, damaged, or under two names.
    """
    if not os.path.isfile(path):  # Path's own would raise where rights are missing
        raise Incompatible(
            "There is no ledger here.",
            got=path,
            do="Ledger(path, epsilon=..., delta=...) makes one; a moved ledger has a new path",
        )
    with one_at_a_time:
        check_alone(path)
        application, version = _identify(path)
        if application != schema.APPLICATION:
            raise Incompatible(
                "This SQLite file is not a ledger.",
                got=f"{path}, application id {application}",
                do="choose another path; the file was left as it is",
            )
        schema.check_version(version, path)
        if read_only:
            return
        with explained(path), opened(path, WRITE) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise damaged(path, verdict)
            schema.migrate(connection)


def view(path: str) -> sqlite3.Connection:
    """Copy a ledger into memory as it is now, in today's format, and write nothing beside it.

    Raises
    ------
    Incompatible
        The file is damaged, or charges stand in a log that cannot be read from this medium.
    """
    # With a rollback journal readers leave nothing. A reader of an older file in WAL mode would
    # leave two files in the folder; while there is no log, the file alone is the ledger.
    mode = SNAPSHOT if not beside(path, "-wal") and _logs(path) else READ
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        with explained(path):
            with opened(path, mode) as connection:
                (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
                if verdict != "ok":
                    raise damaged(path, verdict)
                connection.backup(memory)
            schema.migrate(memory)
    except BaseException:
        memory.close()
        raise
    return memory


def _logs(path: str) -> bool:
    """Whether the file is in WAL mode: bytes 18 and 19 of its header, read by SQLite."""
    with opened(path, SNAPSHOT) as connection:
        return bytes(connection.serialize()[18:20]) == b"\x02\x02"


def _identify(path: str) -> tuple[int, int]:
    """Read the application id and the format from the file's header.

    ``immutable`` keeps SQLite from creating files beside a stranger's; but it can meet a header
    that is ahead of the file while another process moves its WAL, so a failure is tried again.
    """
    for mode in (SNAPSHOT, READ):
        unreadable = contextlib.suppress(sqlite3.DatabaseError, UnicodeDecodeError)
        with unreadable, opened(path, mode) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            return application, schema.version_of(connection)
    raise damaged(path, "SQLite cannot read its header")


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file durable, where folders can be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
