"""A ledger's pages as one process knows them: what was checked once is remembered."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pymc_private.ledger import sqlite as pages
from pymc_private.ledger.entry import Header
from pymc_private.ledger.ledger_file import FileStore, FileView, MemoryStore

class Book:
    """The pages in a store, and the state in which this process last saw them.

    Parameters
    ----------
    store : FileStore, FileView or MemoryStore
    header : Header, optional
        The header they must have; without one, they are read now, and the one there is taken.

    Raises
    ------
    Incompatible
        There is no ledger, or it is damaged.
    """

    def __init__(
        self, store: FileStore | FileView | MemoryStore, header: Header | None = None
    ) -> None:
        self.store = store
        self._known: pages.State | None = None
        self._doubted = False
        self._expected = header
        self._expected = self.header = self.read().header if header is None else header

    def read(self) -> pages.State:
        """Read everything but the releases, and check the whole chain."""
        with self.opened(write=False, whole=True) as (_, state):
            return state

    @contextlib.contextmanager
    def opened(
        self, *, write: bool, whole: bool = False
    ) -> Iterator[tuple[sqlite3.Connection, pages.State]]:
        """Open one transaction, with the state at its start.

        Parameters
        ----------
        write : bool
            Whether the block writes; then no other process writes meanwhile.
        whole : bool
            Whether the whole chain is checked, or only what is new to this process.

        Raises
        ------
        Incompatible
            The chain is broken, or does not go on from what this process knew.
        """
        with self.store.transact(write) as connection:
            # Threads take turns inside a transaction. What is read here was committed, so it
            # stays true even if the block fails; what the block writes is read the next time.
            # Once a check has failed, all that follow are whole.
            whole, self._doubted = whole or self._doubted, True
            if whole or self._known is None:
                self._known = pages.read(connection, self._known, self._expected)
            else:
                self._known = pages.follow(connection, self._known)
            self._doubted = False
            yield connection, self._known
