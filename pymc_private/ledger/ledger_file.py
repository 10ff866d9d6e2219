"""Stores of a ledger: one SQLite file, a read-only copy of it, or memory.

A file is created whole or not at all, and checked before it is used (format, application id,
integrity, a single name). Locks over a network are often no locks: there a ledger warns that
one computer at a time should use it. The journal of a file is named after it, so under a
second name (a hard link) an interrupted charge would never be undone: a ledger file has one
name.
"""

from __future__ import annotations

import contextlib
import glob
import os
import secrets
import sqlite3
import struct
import sys
import time
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from pymc_private.errors import DomainError, Incompatible, PrivacyWarning, PymcPrivateError
from pymc_private.ledger.sqlite import (
    APPLICATION_ID,
    CREATE_MODE,
    READ_MODE,
    SNAPSHOT_MODE,
    WRITE_MODE,
    check_format,
    connect,
    connected,
    connection_lock,
    create_tables,
    damage_error,
    format_version,
    transaction,
    translated_errors,
)
from pymc_private.privacy.validation import check_file_path

DRAFT_SUFFIX = ".new-"
SQLITE_MAGIC, HEADER_BYTES = b"SQLite format 3\0", 100
SNAPSHOT_ATTEMPTS = 5
"""Tries at copying a file that other processes change meanwhile."""
MOUNT_TABLE = "/proc/self/mountinfo"
NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p", "afs", "beegfs", "ceph", "cifs", "davfs", "fuse.ceph", "fuse.davfs2", "fuse.gcsfuse",
        "fuse.glusterfs", "fuse.rclone", "fuse.s3fs", "fuse.sshfs", "glusterfs", "gpfs", "lustre",
        "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs", "vboxsf",
    }
)  # fmt: skip


def network_file_system(path: str, mounts: str | None = None) -> str | None:
    """Kind of network file system an absolute path is on, or None as far as can be known.

    ``mounts`` holds the lines of /proc/self/mountinfo. Elsewhere than on Linux nothing is known
    but that a name with two slashes in front is on another computer.
    """
    if path.startswith(("\\\\", "//")) and sys.platform == "win32":
        return "a share"
    if mounts is None:
        mounts = ""
        with contextlib.suppress(OSError):
            mounts = Path(MOUNT_TABLE).read_text(errors="replace")
    found, depth = None, -1
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        words = left.split(" ")
        if len(words) < 5 or not right:
            continue
        # Spaces in mount points are written \040. Of two mounts at one point the later counts.
        point = PurePosixPath(words[4].replace("\\040", " "))
        if PurePosixPath(path).is_relative_to(point) and len(point.parts) >= depth:
            found, depth = right.split(" ")[0], len(point.parts)
    return found if found in NETWORK_FILE_SYSTEMS else None


def warn_of_network(path: str) -> None:
    """Warn where locks cannot be trusted."""
    kind = network_file_system(path)
    if kind is not None:
        warnings.warn(
            f"the ledger {path} is on a network file system ({kind}), whose locks may fail: let "
            "one computer at a time charge it, or keep it on a local disk",
            PrivacyWarning,
            stacklevel=2,
        )


def has_journal(path: str) -> bool:
    """Whether there is a journal beside the file, not empty."""
    with contextlib.suppress(OSError):
        return Path(f"{path}-journal").stat().st_size > 0
    return False


def check_single_name(path: str) -> None:
    """Check that a file has one name; a draft that a killed process left of it is removed.

    Raises
    ------
    Incompatible
        There is a hard link to it.
    """
    file = Path(path)
    with contextlib.suppress(OSError):
        if file.stat().st_nlink < 2:
            return
        for draft in file.parent.glob(f"{glob.escape(file.name)}{DRAFT_SUFFIX}*"):
            with contextlib.suppress(OSError):
                if draft.samefile(file):
                    draft.unlink()
        if file.stat().st_nlink > 1:
            raise Incompatible(
                "There is a hard link to this ledger, so it has two names, and would have two "
                "budgets.",
                got=f"{path}, {file.stat().st_nlink} names",
                do="remove all names but one (find -samefile); the file itself stays",
            )


def location_notes(path: str) -> str:
    """What is unusual about the location of a ledger, in words; empty if nothing is."""
    kind = network_file_system(path)
    if kind is None:
        return ""
    return f"network file system ({kind}): let one computer at a time charge it"


def absolute_path(path: str | os.PathLike[str]) -> str:
    """Absolute path of a ledger file.

    Raises
    ------
    DomainError
        It is not the name of a file.
    """
    text = (
        str(check_file_path(path, "a ledger's place")) if not isinstance(path, str) or path else ""
    )
    if not text or text == ":memory:" or text.startswith("file:"):
        raise DomainError(
            "This is not a path for a ledger.",
            got=repr(text),
            do="give a file name; or no path at all for a ledger in memory",
        )
    return str(Path(text).resolve())


def create_file(path: str, header: str, head: str) -> None:
    """Write a new ledger file whole, or leave the one that another process put there meanwhile.

    The file is made under another name and linked into place, so nobody sees half of it and two
    processes that create the same ledger end up with one.

    Raises
    ------
    Incompatible
        The folder is missing, or nothing can be written there.
    PymcPrivateError
        The disk is full, for example.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise Incompatible(
            "The folder of the ledger does not exist.", got=str(folder), do="create it first"
        )
    draft = f"{path}{DRAFT_SUFFIX}{secrets.token_hex(8)}"
    warn_of_network(path)
    try:
        with connection_lock, translated_errors(path):
            with connected(draft, CREATE_MODE) as connection, transaction(connection, write=True):
                create_tables(connection, header, head)
            with contextlib.suppress(FileExistsError):
                _put_in_place(draft, path)
            _sync_folder(folder)
    finally:
        for suffix in ("", "-journal"):
            with contextlib.suppress(OSError):
                Path(draft + suffix).unlink(missing_ok=True)


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
                Path(path).unlink()  # our own, half written
                raise


def check_file(path: str, *, read_only: bool = False) -> None:
    """Check that a file is a sound ledger.

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
    with connection_lock:
        check_single_name(path)
        application, version = _application_and_format(path)
        if application != APPLICATION_ID:
            raise Incompatible(
                "This SQLite file is not a ledger.",
                got=f"{path}, application id {application}",
                do="choose another path; the file was left as it is",
            )
        check_format(version, path)
        if read_only:
            return
        with translated_errors(path), connected(path, WRITE_MODE) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise damage_error(path, verdict)


def copy_to_memory(path: str) -> sqlite3.Connection:
    """Copy a ledger into memory, and write nothing beside it.

    Raises
    ------
    Incompatible
        The file is damaged, or a charge that was interrupted cannot be undone on this medium.
    """
    memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    try:
        with translated_errors(path), connected(path, READ_MODE) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise damage_error(path, verdict)
            connection.backup(memory)
    except BaseException:
        memory.close()
        raise
    return memory


def _application_and_format(path: str) -> tuple[int, int]:
    """Application id and format from the file's header.

    ``immutable`` keeps SQLite from creating files beside a stranger's. But where a writer is at
    work, or was killed, it may meet a header that is ahead of the file, and a connection that
    only reads may not undo what was begun. Both numbers are in the first bytes since it was made.
    """
    for mode in (SNAPSHOT_MODE, READ_MODE):
        unreadable = contextlib.suppress(sqlite3.DatabaseError, UnicodeDecodeError)
        with unreadable, connected(path, mode) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            return application, format_version(connection)
    header = b""
    if not any(store.holds_locks for store in _stores):  # closing the file would give them up
        with contextlib.suppress(OSError), open(path, "rb") as file:
            header = file.read(HEADER_BYTES)
    if len(header) < HEADER_BYTES or not header.startswith(SQLITE_MAGIC):
        raise damage_error(path, "SQLite cannot read its header")
    version, application = struct.unpack(">i4xi", header[60:72])
    return application, version


def _sync_folder(folder: Path) -> None:
    """Make the new name of a file durable, where folders can be synced."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextlib.contextmanager
def _not_reentrant(store: FileStore | MemoryStore) -> Iterator[None]:
    """Enter a store, unless this thread is inside it already.

    Raises
    ------
    PymcPrivateError
        It is: something charges the ledger from inside a charge.
    """
    if store.entered:
        raise PymcPrivateError(
            "The ledger is being read or written by this very thread.",
            got=f"{store.place}, from inside a call of its own",
            do="charge from outside; nothing was charged",
        )
    try:
        store.entered = True
        yield
    finally:
        store.entered = False


class FileStore:
    """A ledger file, named by its absolute path."""

    read_only = False

    def __init__(self, path: str) -> None:
        self.path = path
        self._checked = False
        self.entered = False
        self._users = 0
        self._kept: tuple[sqlite3.Connection, object] | None = None
        _stores.add(self)

    @property
    def place(self) -> str:
        """Name of the store in messages."""
        return self.path

    @property
    def notes(self) -> str:
        """What is unusual about the location; empty if nothing is."""
        return location_notes(self.path)

    @contextlib.contextmanager
    def transact(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which ends with the block."""
        with (
            connection_lock,
            translated_errors(self.path),
            _not_reentrant(self),
            self._connected() as connection,
            transaction(connection, write),
        ):
            yield connection

    @property
    def holds_locks(self) -> bool:
        """Whether a transaction of this process is under way; meant under `connection_lock`."""
        return self._kept is not None and self._kept[0].in_transaction

    def keep_open(self) -> None:
        """Keep the file open between calls, until :meth:`stop_keeping`; calls nest."""
        with connection_lock:
            self._users += 1

    def stop_keeping(self) -> None:
        """Close the file, if nobody else keeps it open."""
        with connection_lock:
            self._users -= 1
            if self._users == 0:
                self.close()

    def close(self) -> None:
        """Close the file between two calls; the next call opens it again."""
        if self._kept is not None:
            self._kept[0].close()
            self._kept = None

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        # What a Ctrl-C left open would go on holding its locks. And a connection goes on writing to
        # a file that was moved away, where nobody reads it.
        if self._kept is not None and (
            not self._users or self._kept[1] != file_identity(self.path)
        ):
            self.close()
        if not self._checked:
            check_file(self.path)
            self._checked = True
        check_single_name(self.path)
        try:
            if self._kept is None:
                self._kept = connect(self.path, WRITE_MODE), file_identity(self.path)
            yield self._kept[0]
        finally:
            if not self._users:
                self.close()


_stores: weakref.WeakSet[FileStore] = weakref.WeakSet()


def _before_fork() -> None:
    connection_lock.acquire()
    for store in tuple(_stores):
        store.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=connection_lock.release,
        after_in_child=connection_lock.release,
    )


def file_identity(path: str) -> object:
    """Device and inode, which differ for another file of the same name; None if there is none."""
    with contextlib.suppress(OSError):
        seen = Path(path).stat()
        return seen.st_dev, seen.st_ino
    return None


class FileView(FileStore):
    """A ledger file that is read and never written, nor is anything beside it."""

    read_only = True

    @property
    def notes(self) -> str:
        """What is unusual about the location; that it is only read comes first."""
        return "; ".join(filter(None, ["read-only view", super().notes]))

    @contextlib.contextmanager
    def transact(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Copy the file into memory, and give the copy.

        Raises
        ------
        Incompatible
            Something would be written.
        """
        if write:
            raise Incompatible(
                "This ledger was opened read-only: nothing can be charged or stored.",
                got=self.path,
                do="Ledger.open(path), where the file can be written",
            )
        with (
            connection_lock,
            contextlib.closing(self._copy()) as memory,
            translated_errors(self.path),
        ):
            yield memory

    def _copy(self) -> sqlite3.Connection:
        """Copy the file; again, if another process wrote to it meanwhile."""
        attempts = SNAPSHOT_ATTEMPTS
        while True:
            before, attempts = self._modification(), attempts - 1
            try:
                check_file(self.path, read_only=True)
                memory = copy_to_memory(self.path)
            except Incompatible:
                if not attempts or before == self._modification():
                    raise
            else:
                if not attempts or before == self._modification():
                    return memory
                memory.close()
            time.sleep(0.05)

    def _modification(self) -> object:
        """A value that changes when another process writes."""
        with contextlib.suppress(OSError):
            seen = Path(self.path).stat()
            return seen.st_ino, seen.st_size, seen.st_mtime_ns, has_journal(self.path)
        return None

    def keep_open(self) -> None:
        """Do nothing: a view has nothing open between calls."""

    stop_keeping = keep_open


class MemoryStore:
    """A ledger in the memory of the process that made it."""

    place = "memory"
    notes = ""
    read_only = False

    def __init__(self, header: str, head: str) -> None:
        self._connection = sqlite3.connect(
            ":memory:", isolation_level=None, check_same_thread=False
        )
        weakref.finalize(self, self._connection.close)
        self._process = os.getpid()
        self.entered = False
        create_tables(self._connection, header, head)

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
        with (
            connection_lock,
            translated_errors(self.place),
            _not_reentrant(self),
            transaction(self._connection, write),
        ):
            yield self._connection

    def keep_open(self) -> None:
        """Do nothing: there is no file to keep open."""

    stop_keeping = keep_open


def open_store(
    path: str | os.PathLike[str] | None, header: str, head: str
) -> FileStore | MemoryStore:
    """Open the store of a ledger: in memory, the file that is there, or a new one."""
    if path is None:
        return MemoryStore(header, head)
    place = absolute_path(path)
    if not os.path.lexists(place):
        create_file(place, header, head)
    return FileStore(place)
