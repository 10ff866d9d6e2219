"""The ledger: a budget for one dataset, charged before each draw and never twice by mistake."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pymc_private.errors import DomainError, Incompatible, PymcPrivateError
from pymc_private.privacy import ledger_display as display
from pymc_private.privacy import ledger_filter as filters
from pymc_private.privacy import ledger_pages as pages
from pymc_private.privacy import ledger_store as stores
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.ledger_entry import (
    Entry,
    Header,
    agree,
    check_texts,
    link,
    make_header,
    write_charge,
)
from pymc_private.privacy.ledger_exact import Budget

if TYPE_CHECKING:
    import pandas as pd

_entered: ContextVar[tuple[Ledger, ...]] = ContextVar("entered ledgers", default=())


class Ledger:
    """A privacy budget and every charge against it, in one SQLite file or in memory.

    A charge is checked and written in one transaction, before any data are touched: whatever
    happens next, budget can be wasted but not overspent. Several processes may charge one file
    (not in a network folder: those lock badly). Copies and pickles refer to the same file.

    Parameters
    ----------
    path : path, optional
        The file; made if missing, else opened, and then all that follows must agree with it.
        Without a path the ledger lives in this process only.
    epsilon : number or text, nats
        The budget, taken as the decimal it is written in: 0.1 means 1/10.
    delta : number or text
        Likewise, in [0, 1).
    neighbors : str
        The neighboring relation every charge must share.
    shares : mapping of str to number, optional
        How delta is divided over the roads "zcdp" and "approximate", for good. Half each if not
        given; a road without a share is not there. "pure" is always there and needs none.
    data : str
        The dataset in words. A second ledger on the same data is a second budget: they add up.

    Raises
    ------
    DomainError
        The budget or its shares make no sense.
    Incompatible
        The file is no ledger, is damaged, or holds another budget.

    Notes
    -----
    A charge is admitted if afterwards some road still proves the budget (T23; the proof is in
    ``ledger_filter``). The public claim after adaptive work is the budget.

    The chain of hashes finds accidents and naive edits. Who can write the file can write a whole
    new chain: keep :attr:`head` elsewhere and hand it to :meth:`verify`.

    Examples
    --------
    >>> ledger = Ledger(epsilon=1, data="survey of 1978")
    >>> entry = ledger.charge(Guarantee.pure(0.25), "one draw")
    >>> ledger.left.epsilon
    Fraction(3, 4)
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        epsilon: object,
        delta: object = 0,
        neighbors: str = "substitute",
        shares: Mapping[str, object] | None = None,
        data: str = "",
    ) -> None:
        header = make_header(epsilon, delta, neighbors, shares, data, secrets.token_hex(16))
        text = header.to_json()
        self._store = stores.settle(path, text, link("", text))
        with self._store.transact(write=False) as connection:
            self._header = pages.read(connection).header
        agree(header, self._header, self._store.place)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Ledger:
        """Open the ledger at ``path`` with the budget it has, or raise Incompatible."""
        store = stores.FileStore(stores.absolute(path))
        with store.transact(write=False) as connection:
            header = pages.read(connection).header
        return _refer(store.path, header)

    @staticmethod
    def current() -> Ledger | None:
        """Give the ledger of the innermost ``with ledger:`` of this thread or task."""
        return (_entered.get() or (None,))[-1]

    @property
    def budget(self) -> Budget:
        """What may be spent, and what may be claimed in public: (epsilon, delta)."""
        return self._header.budget

    @property
    def neighbors(self) -> str:
        """The neighboring relation every charge shares."""
        return self._header.neighbors

    @property
    def data(self) -> str:
        """The dataset in words."""
        return self._header.data

    @property
    def path(self) -> str | None:
        """The absolute path of the file; None for a ledger in memory."""
        return self._store.path if isinstance(self._store, stores.FileStore) else None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The charges, oldest first."""
        return self._read().entries

    def _read(self) -> pages.State:
        with self._store.transact(write=False) as connection:
            return pages.read(connection, self._header)

    @property
    def roads(self) -> dict[str, filters.Road]:
        """How far each way of adding up has gone; one that proves the budget is enough."""
        return filters.tally([entry.cost for entry in self.entries], self._header)

    @property
    def spent(self) -> Budget:
        """The smallest (epsilon, delta) of an open road: bookkeeping, no public claim (T23)."""
        return filters.standing(self.roads, only_open=True) or self.budget

    @property
    def left(self) -> Budget:
        """Budget less :attr:`spent`; more or less may fit, for on "zcdp" epsilons do not add."""
        return filters.remaining(self.budget, self.spent)

    @property
    def head(self) -> str:
        """The hash of the whole chain. Keep it elsewhere: :meth:`verify` can hold it against us."""
        return self._read().heads[-1]

    @property
    def names(self) -> dict[str, tuple[str | None, ...]]:
        """The keys charged under each name, oldest first, whether completed or not."""
        return pages.names(self.entries)

    def charge(
        self,
        guarantee: Guarantee,
        label: str,
        *,
        delta: object = None,
        name: str | None = None,
        key: str | None = None,
    ) -> Entry:
        """Spend a guarantee, or refuse it whole; on return it is on disk. Charge, then draw.

        Parameters
        ----------
        guarantee : Guarantee
            What is about to be promised, for this ledger's neighbors.
        label : str
            What it is for, in one line.
        delta : number or text, optional
            Where it enters the road "approximate": 0, unless it has no pure epsilon.
        name, key : str, optional
            Name of the release and fingerprint of its plan, for :meth:`find`.

        Raises
        ------
        BudgetExceeded
            After this charge no road would prove the budget. Nothing was spent.
        Incompatible
            Unlike neighbors, a guarantee that no road of this ledger can take, or a damaged file.
        DomainError
            ``delta`` is missing or impossible, or a text is too long.
        """
        cost = filters.price(guarantee, delta, self._header)
        check_texts(label, name, key)
        with self._store.transact(write=True) as connection:
            state = pages.read(connection, self._header)
            costs = [entry.cost for entry in state.entries]
            if not filters.proves([*costs, cost], self._header):
                raise display.refusal(self._header, costs, cost)
            number = len(costs) + 1
            body = write_charge(number, label, name, key, cost, guarantee.to_dict())
            return pages.append(connection, number, body, state.heads[-1])

    def store(self, entry: Entry, content: bytes) -> Entry:
        """Complete a charge: keep the release it paid for.

        Raises
        ------
        Incompatible
            The charge is not in this ledger, or paid for another release already.
        DomainError
            ``content`` is not bytes.
        """
        if not isinstance(content, bytes | bytearray | memoryview):
            raise DomainError("A release is stored as bytes.", got=type(content).__name__)
        with self._store.transact(write=True) as connection:
            kept = pages.own(pages.read(connection, self._header), entry)
            pages.put(connection, kept, bytes(content))
        return replace(kept, completed=True)

    def find(self, name: str, key: str | None) -> Entry | None:
        """Give the latest completed charge of that name and key."""
        fits = (e for e in self.entries if e.completed and (e.name, e.key) == (name, key))
        return max(fits, key=lambda entry: entry.number, default=None)

    def fetch(self, entry: Entry) -> bytes:
        """Give the release a charge paid for; raise Incompatible if there is none, or damaged."""
        with self._store.transact(write=False) as connection:
            return pages.get(connection, pages.own(pages.read(connection, self._header), entry))

    def verify(self, head: str | None = None) -> bool:
        """Return True if chain, releases and budget are sound, or raise Incompatible.

        Parameters
        ----------
        head : str, optional
            A :attr:`head` from any earlier moment: the chain must go on from it. Without one, a
            chain that was cut or rewritten with care cannot be told from an honest one.
        """
        with self._store.transact(write=False) as connection:
            state = pages.read(connection, self._header)
            pages.check_releases(connection, state.entries)
        within = filters.proves([entry.cost for entry in state.entries], self._header)
        pages.check_history(state, within, head)
        return True

    def to_frame(self) -> pd.DataFrame:
        """List the charges as a table of doubles, rounded up; :attr:`entries` is exact."""
        return display.frame(self.entries)

    def __enter__(self) -> Ledger:
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        _entered.set(_entered.get()[:-1])

    def __copy__(self, memo: object = None) -> Ledger:
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise Incompatible(
                "A ledger in memory cannot be pickled: its copy would be a second budget.",
                do="give the ledger a path; pickles of it then refer to the file",
            )
        return _refer, (self.path, self._header)

    def __repr__(self) -> str:
        return self._printed(display.text)

    def _repr_html_(self) -> str:
        return self._printed(display.html)

    def _printed(self, how: Callable[..., str]) -> str:
        place = self.path or "in memory"
        try:
            return how(place, self._header, self.entries)
        except PymcPrivateError as error:  # printing must not fail, least of all in a debugger
            return display.unreadable(place, error)


def _refer(path: str, header: Header) -> Ledger:
    """Refer to a ledger file; nothing is read before it is used."""
    ledger = Ledger.__new__(Ledger)
    ledger._header, ledger._store = header, stores.FileStore(path)
    return ledger
