"""The ledger: a budget for one dataset, charged before each draw and never twice by mistake."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TYPE_CHECKING
from pymc_private.errors import DomainError, Incompatible, PymcPrivateError
from pymc_private.ledger import filter as filters, ledger__ledger_export as exports, ledger_display as display, ledger_file as stores, sqlite as pages
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.ledger.ledger__ledger_book import Book
from pymc_private.ledger.entry__ledger_chain import link
from pymc_private.ledger.entry import Entry, Header, agree, check_texts, make_header, write_charge
from pymc_private.privacy.exact_numbers import Budget
from pymc_private.ledger.ledger_file__ledger_file import absolute

if TYPE_CHECKING:
    import pandas as pd

_entered: ContextVar[tuple[Ledger, ...]] = ContextVar("entered ledgers", default=())


class Ledger:
    """A privacy budget and every charge against it, in one SQLite file or in memory.

    A charge is on disk before any data are touched: whatever happens next, budget can be wasted
    (a charge without a release is shown) but not overspent. Several processes may charge one file;
    a network folder, which may lock badly, warns. Copies and pickles refer to the same file; a hard
    link is refused. Open it with SQLite only: other handles may drop its locks.

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
    ``ledger_filter``). The public claim after adaptive work is the budget. Inside ``with ledger:``
    it is the default ledger, and its file stays open.

    The chain of hashes finds accidents and naive edits. Who can write the file can write a new
    chain: keep :attr:`head` elsewhere and hand it to :meth:`verify`.

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
        self._book = Book(stores.settle(path, text, link("", text)))
        agree(header, self._book.header, self._book.store.place)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Ledger:
        """Open the ledger at ``path`` with the budget it has, or raise Incompatible.

        With ``read_only`` nothing is written, in or beside the file; a charge is Incompatible.
        """
        return _refer(absolute(path), None, read_only)

    @staticmethod
    def current() -> Ledger | None:
        """Give the ledger of the innermost ``with ledger:`` of this thread or task."""
        return (_entered.get() or (None,))[-1]

    @property
    def budget(self) -> Budget:
        """What may be spent, and what may be claimed in public: (epsilon, delta)."""
        return self._book.header.budget

    @property
    def neighbors(self) -> str:
        """The neighboring relation every charge shares."""
        return self._book.header.neighbors

    @property
    def data(self) -> str:
        """The dataset in words."""
        return self._book.header.data

    @property
    def path(self) -> str | None:
        """The absolute path of the file; None for a ledger in memory."""
        store = self._book.store
        return store.path if isinstance(store, stores.FileStore) else None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The charges, oldest first."""
        return self._book.read().entries

    @property
    def roads(self) -> dict[str, filters.Road]:
        """How far each way of adding up has gone; one that proves the budget is enough."""
        return filters.tally(self._book.read().totals, self._book.header)

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
        return self._book.read().heads[-1]

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
        cost = filters.price(guarantee := filters.plain(guarantee), delta, self._book.header)
        check_texts(label, name, key)
        with self._book.opened(write=True) as (connection, state):
            if not state.totals.plus(cost).prove(self._book.header):
                raise display.refusal(self._book.header, state.totals, cost)
            number = len(state.entries) + 1
            body = write_charge(number, label, name, key, cost, guarantee.to_dict())
            return pages.append(connection, number, body, state.heads[-1])

    def store(self, entry: Entry, content: bytes | None = None) -> Entry:
        """Complete a charge: put the release it paid for on record.

        Parameters
        ----------
        entry : Entry
            What :meth:`charge` returned.
        content : bytes, optional
            The release, to be kept; without it the ledger notes that there was one.

        Raises
        ------
        DomainError, Incompatible
            Not bytes; not a charge of this ledger, or one that paid for another release already.
        """
        if not isinstance(content, bytes | bytearray | memoryview | None):
            raise DomainError("A release is stored as bytes.", got=type(content).__name__)
        with self._book.opened(write=True) as (connection, state):
            own = pages.own(state, entry)
            return pages.put(connection, own, None if content is None else bytes(content))

    def find(self, name: str, key: str | None) -> Entry | None:
        """Give the latest completed charge of that name and key."""
        fits = (e for e in self.entries if e.completed and (e.name, e.key) == (name, key))
        return max(fits, key=lambda entry: entry.number, default=None)

    def fetch(self, entry: Entry) -> bytes:
        """Give the release a charge paid for; raise Incompatible if there is none, or damaged."""
        with self._book.opened(write=False) as (connection, state):
            return pages.get(connection, pages.own(state, entry))

    def verify(self, head: str | None = None) -> bool:
        """Return True if chain, releases and budget are sound, or raise Incompatible.

        Parameters
        ----------
        head : str, optional
            A :attr:`head` from any earlier moment: the chain must go on from it. Without one, a
            chain that was cut or rewritten with care cannot be told from an honest one.
        """
        with self._book.opened(write=False, whole=True) as (connection, state):
            pages.check_releases(connection, state.entries)
        pages.check_history(state, state.totals.prove(self._book.header), head)
        return True

    def to_frame(self) -> pd.DataFrame:
        """List the charges as a table of doubles, rounded up; :attr:`entries` is exact."""
        return exports.frame(self.entries)

    def to_json(self) -> str:
        """Write all but the releases as JSON: numbers exact, lines as they are hashed."""
        return exports.to_json(self._book.read())

    def __enter__(self) -> Ledger:
        self._book.store.keep()
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        inside = _entered.get()  # blocks of generators need not nest
        last = max((i for i, ledger in enumerate(inside) if ledger is self), default=len(inside))
        _entered.set(inside[:last] + inside[last + 1 :])
        self._book.store.let_go()

    def __copy__(self, memo: object = None) -> Ledger:
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise Incompatible(
                "A ledger in memory cannot be pickled: its copy would be a second budget.",
                do="give the ledger a path; pickles of it then refer to the file",
            )
        return _refer, (self.path, self._book.header, self._book.store.read_only)

    def __repr__(self) -> str:
        return self._printed(display.text)

    def _repr_html_(self) -> str:
        return self._printed(display.html)

    def _printed(self, how: Callable[..., str]) -> str:
        place = self.path or "in memory"
        try:
            return how(place, self._book.read(), self._book.store.notes)
        except PymcPrivateError as error:  # printing must not fail, least of all in a debugger
            return display.unreadable(place, error)


def _refer(path: str, header: Header | None, read_only: bool = False) -> Ledger:
    """Refer to a ledger file; with a header, nothing is read before it is used."""
    ledger = Ledger.__new__(Ledger)
    ledger._book = Book((stores.FileView if read_only else stores.FileStore)(path), header)
    return ledger
