"""Where a ledger lives: one SQLite file, or the memory of one process."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from pymc_private.errors import Incompatible, PymcPrivateError
from pymc_private.ledger import ledger_file__ledger_medium as medium, sqlite__ledger_schema as schema
from pymc_private.ledger.ledger_file__ledger_file import absolute, create, inspect, view
from pymc_private.ledger.sqlite__ledger_sqlite import WRITE, connect, explained, one_at_a_time, transaction

LOOKS = 5  # at a file that others change while it is copied


@contextlib.contextmanager
def _once(store: FileStore | MemoryStore) -> Iterator[None]:
    """Enter a store, which only this thread can have entered before.

    Raises
    ------
    PymcPrivateError
        It has: something charges the ledger from inside a charge.
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
        self._inspected = False
        self.entered = False
        self._keepers = 0
        self._kept: tuple[sqlite3.Connection, object] | None = None
        _stores.add(self)

    @property
    def place(self) -> str:
        """Name the file."""
        return self.path

    @property
    def notes(self) -> str:
        """Say what is unusual about the place; empty if nothing is."""
        return medium.notes(self.path)

    @contextlib.contextmanager
    def transact(self, write: bool) -> Iterator[sqlite3.Connection]:
        """Open the file for one transaction, which ends with the block."""
        with (
            one_at_a_time,
            explained(self.path),
            _once(self),
            self._connected() as connection,
            transaction(connection, write),
        ):
            yield connection

    def keep(self) -> None:
        """Keep the file open between calls, until :meth:`let_go`; calls nest."""
        with one_at_a_time:
            self._keepers += 1

    def let_go(self) -> None:
        """Close the file, if nobody else keeps it open."""
        with one_at_a_time:
            self._keepers -= 1
            if self._keepers == 0:
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
        if self._kept is not None and (not self._keepers or self._kept[1] != identity(self.path)):
            self.close()
        if not self._inspected:
            inspect(self.path)
            self._inspected = True
        medium.check_alone(self.path)
        try:
            if self._kept is None:
                self._kept = connect(self.path, WRITE), identity(self.path)
            yield self._kept[0]
        finally:
            if not self._keepers:
                self.close()


_stores: weakref.WeakSet[FileStore] = weakref.WeakSet()


def _before_fork() -> None:
    one_at_a_time.acquire()
    for store in tuple(_stores):
        store.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=one_at_a_time.release,
        after_in_child=one_at_a_time.release,
    )


def identity(path: str) -> object:
    """Give what tells a file from another that took its name; None if there is none."""
    with contextlib.suppress(OSError):
        seen = Path(path).stat()
        return seen.st_dev, seen.st_ino
    return None


class FileView(FileStore):
    """A ledger file that is read and never written, nor is anything beside it."""

    read_only = True

    @property
    def notes(self) -> str:
        """Say what is unusual about the place; that it is only read comes first."""
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
        with one_at_a_time, contextlib.closing(self._look()) as memory, explained(self.path):
            yield memory

    def _look(self) -> sqlite3.Connection:
        """Copy the file; again, if another process wrote to it meanwhile."""
        looks = LOOKS
        while True:
            before, looks = self._state(), looks - 1
            try:
                inspect(self.path, read_only=True)
                memory = view(self.path)
            except Incompatible:
                if not looks or before == self._state():
                    raise
            else:
                if not looks or before == self._state():
                    return memory
                memory.close()
            time.sleep(0.05)

    def _state(self) -> object:
        """Give what changes when another process writes."""
        with contextlib.suppress(OSError):
            seen = Path(self.path).stat()
            return seen.st_ino, seen.st_size, seen.st_mtime_ns, medium.beside(self.path, "-journal")
        return None

    def keep(self) -> None:
        """Do nothing: a view has nothing open between calls."""

    let_go = keep


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
        schema.lay_out(self._connection, header, head)

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
            one_at_a_time,
            explained(self.place),
            _once(self),
            transaction(self._connection, write),
        ):
            yield self._connection

    def keep(self) -> None:
        """Do nothing: there is no file to keep open."""

    let_go = keep


def settle(path: str | os.PathLike[str] | None, header: str, head: str) -> FileStore | MemoryStore:
    """Give the place of a ledger: in memory, in the file that is there, or in a new one."""
    if path is None:
        return MemoryStore(header, head)
    place = absolute(path)
    if not os.path.lexists(place):
        create(place, header, head)
    return FileStore(place)
