"""The ledger: a budget for one dataset, charged before each draw.

A charge is committed to disk before any data are touched, so budget can be wasted but not
overspent. The public class delegates: the admission rule (T23) is in ``filter``, the stored
form and the hash chain in ``entry`` and ``sqlite``, the file in ``ledger_file``, the printed
form in ``ledger_display``. Here, besides, are the view of a store that remembers what this
process has verified, and the exports of a ledger as a data frame of doubles and as JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from pymc_private.errors import DomainError, Incompatible, PymcPrivateError, suggest_arguments
from pymc_private.ledger.entry import (
    ChargeCost,
    Entry,
    Header,
    chain_hash,
    check_terms_agree,
    check_texts,
    make_header,
    write_charge,
)
from pymc_private.ledger.filter import (
    MethodStatus,
    canonical_guarantee,
    charge_cost,
    method_statuses,
    remaining,
    smallest_spent,
    warn_of_other_units,
)
from pymc_private.ledger.ledger_display import (
    budget_exceeded,
    ledger_html,
    ledger_text,
    unreadable_text,
)
from pymc_private.ledger.ledger_file import (
    FileStore,
    FileView,
    MemoryStore,
    absolute_path,
    open_store,
)
from pymc_private.ledger.sqlite import (
    LedgerState,
    append_charge,
    check_history,
    check_releases,
    get_release,
    keys_by_name,
    own_entry,
    put_release,
    read_ledger,
    read_new_charges,
)
from pymc_private.privacy.accounting import Budget
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import float_up
from pymc_private.privacy.validation import check_flags

if TYPE_CHECKING:
    import pandas as pd

_active_ledgers: ContextVar[tuple[Ledger, ...]] = ContextVar("entered ledgers", default=())


class Ledger:
    """A privacy budget and every charge against it, in one SQLite file or in memory.

    A charge is on disk before any data are touched: whatever happens next, budget can be wasted
    (a charge without a release is shown) but not overspent. Several processes may charge one file;
    a network folder, whose locks may fail, causes a warning. Copies and pickles refer to the same
    file; a hard link is refused. Open the file with SQLite only: other handles may drop its locks.

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
        How delta is divided over the accounting methods "zcdp" and "approximate", for good; a
        method without a share is not used. "pure" always is, and needs none. If not given, the
        cost of the first charge divides it: half each, unless that charge needs more or can be
        taken by one of them only.
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
    A charge is admitted if afterwards some accounting method still proves the budget (T23; the
    proof is in `pymc_private.ledger.filter`). The public claim after adaptive work is the budget.
    Inside ``with ledger:`` it is the default ledger, and its file stays open.

    The chain of hashes finds accidents and naive edits. Who can write the file can write a new
    chain: keep :attr:`head` elsewhere and hand it to :meth:`verify`.

    Examples
    --------
    >>> ledger = Ledger(epsilon=1, data="survey of 1978")
    >>> entry = ledger.charge(Guarantee.pure(0.25), "one draw")
    >>> ledger.left.epsilon
    Fraction(3, 4)
    """

    @suggest_arguments
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
        self._verified = VerifiedStore(open_store(path, text, chain_hash("", text)))
        check_terms_agree(header, self._verified.header, self._verified.store.place)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, read_only: bool = False) -> Ledger:
        """Open the ledger at ``path`` with the budget it has, or raise Incompatible.

        With ``read_only`` nothing is written, in or beside the file; a charge is Incompatible.
        """
        check_flags(read_only=read_only)
        return _reference(absolute_path(path), None, read_only)

    @staticmethod
    def current() -> Ledger | None:
        """Give the ledger of the innermost ``with ledger:`` of this thread or task."""
        return (_active_ledgers.get() or (None,))[-1]

    @property
    def budget(self) -> Budget:
        """What may be spent, and what may be claimed in public: (epsilon, delta)."""
        return self._verified.header.budget

    @property
    def neighbors(self) -> str:
        """The neighboring relation every charge shares."""
        return self._verified.header.neighbors

    @property
    def data(self) -> str:
        """The dataset in words."""
        return self._verified.header.data

    @property
    def path(self) -> str | None:
        """The absolute path of the file; None for a ledger in memory."""
        store = self._verified.store
        return store.path if isinstance(store, FileStore) else None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The charges, oldest first."""
        return self._verified.read().entries

    @property
    def methods(self) -> dict[str, MethodStatus]:
        """Status of each accounting method by name; one that proves the budget is enough (T23)."""
        return method_statuses(self._verified.read().totals, self._verified.header)

    roads = methods
    """The same, by the name that others may rely on."""

    @property
    def shares(self) -> dict[str, Fraction] | None:
        """Shares of delta by accounting method as they were stated; None if by the first charge."""
        shares = self._verified.header.shares
        return None if shares is None else dict(shares)

    @property
    def spent(self) -> Budget:
        """Smallest (epsilon, delta) of an open method: bookkeeping, no public claim (T23)."""
        return smallest_spent(self.methods, only_open=True) or self.budget

    @property
    def left(self) -> Budget:
        """Budget less :attr:`spent`; nothing where rounding alone is left.

        More or less than this may fit, since under "zcdp" epsilons do not add.
        """
        return remaining(self.budget, self.spent)

    @property
    def head(self) -> str:
        """The hash of the whole chain. Keep it elsewhere: :meth:`verify` can hold it against us."""
        return self._verified.read().heads[-1]

    @property
    def names(self) -> dict[str, tuple[str | None, ...]]:
        """The keys charged under each name, oldest first, whether completed or not."""
        return keys_by_name(self.entries)

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
            Where it enters the method "approximate": 0, unless it has no pure epsilon.
        name, key : str, optional
            Name of the release and fingerprint of its plan, for :meth:`find`.

        Raises
        ------
        BudgetExceeded
            After this charge no accounting method would prove the budget. Nothing was spent.
        Incompatible
            Unlike neighbors, a guarantee that no method of this ledger can take, or a damaged file.
        DomainError
            ``delta`` is missing or impossible, or a text is too long.

        Warns
        -----
        PrivacyWarning
            Units own another number of records than those of the charge before: the sums hold for
            the smaller ones.
        """
        guarantee = canonical_guarantee(guarantee)
        cost = charge_cost(guarantee, delta, self._verified.header)
        check_texts(label, name, key)
        with self._verified.transact(write=True) as (connection, state):
            _refuse_overspending(state, cost, self._verified.header)
            warn_of_other_units(state.entries, guarantee)
            number = len(state.entries) + 1
            body = write_charge(number, label, name, key, cost, guarantee.to_dict())
            return append_charge(connection, number, body, state.heads[-1])

    def check(self, guarantee: Guarantee, *, delta: object = None) -> None:
        """Raise what :meth:`charge` would raise now; nothing is charged.

        Another process may charge in between, so that a later charge can be refused all the same.

        Raises
        ------
        BudgetExceeded, Incompatible, DomainError
            As :meth:`charge`.
        """
        cost = charge_cost(canonical_guarantee(guarantee), delta, self._verified.header)
        with self._verified.transact(write=True) as (_, state):
            _refuse_overspending(state, cost, self._verified.header)

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
            raise DomainError(
                "A release is stored as bytes.",
                got=type(content).__name__,
                allowed="bytes, or None",
                do="release.to_bytes()",
            )
        with self._verified.transact(write=True) as (connection, state):
            own = own_entry(state, entry)
            return put_release(connection, own, None if content is None else bytes(content))

    def find(self, name: str, key: str | None) -> Entry | None:
        """Give the latest completed charge of that name and key."""
        fits = (e for e in self.entries if e.completed and (e.name, e.key) == (name, key))
        return max(fits, key=lambda entry: entry.number, default=None)

    def fetch(self, entry: Entry) -> bytes:
        """Give the release a charge paid for; raise Incompatible if there is none, or damaged."""
        with self._verified.transact(write=False) as (connection, state):
            return get_release(connection, own_entry(state, entry))

    def verify(self, head: str | None = None) -> bool:
        """Return True if chain, releases and budget are sound, or raise Incompatible.

        Parameters
        ----------
        head : str, optional
            A :attr:`head` from any earlier moment: the chain must go on from it. Without one, a
            chain that was cut or rewritten with care cannot be told from an honest one.

        Raises
        ------
        DomainError
            What was given is no whole head.
        """
        if not (head is None or isinstance(head, str)):
            raise DomainError(
                "a head of a ledger is text",
                got=type(head).__name__,
                allowed="what ledger.head was at an earlier moment",
                do="ledger.verify(head)",
            )
        if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
            raise DomainError(
                "a head of a ledger has 64 hexadecimal digits",
                got=f"{len(head)} characters",
                allowed="all of what ledger.head was at an earlier moment",
                do="give the whole head; nothing was compared",
            )
        with self._verified.transact(write=False, whole=True) as (connection, state):
            check_releases(connection, state.entries)
        check_history(state, state.totals.proves_budget(self._verified.header), head)
        return True

    def to_frame(self) -> pd.DataFrame:
        """Data frame of the charges, doubles rounded up; :attr:`entries` is exact."""
        return charges_frame(self.entries)

    def to_json(self) -> str:
        """Write all but the releases as JSON: numbers exact, lines as they are hashed."""
        return ledger_json(self._verified.read())

    def __enter__(self) -> Ledger:
        self._verified.store.keep_open()
        _active_ledgers.set((*_active_ledgers.get(), self))
        return self

    def __exit__(self, *error: object) -> None:
        inside = _active_ledgers.get()  # blocks of generators need not nest
        last = max((i for i, ledger in enumerate(inside) if ledger is self), default=len(inside))
        _active_ledgers.set(inside[:last] + inside[last + 1 :])
        self._verified.store.stop_keeping()

    def __copy__(self, memo: object = None) -> Ledger:
        return self

    __deepcopy__ = __copy__

    def __reduce__(self) -> tuple[Any, ...]:
        if self.path is None:
            raise Incompatible(
                "A ledger in memory cannot be pickled: its copy would be a second budget.",
                do="give the ledger a path; pickles of it then refer to the file",
            )
        return _reference, (self.path, self._verified.header, self._verified.store.read_only)

    def __repr__(self) -> str:
        return self._printed(ledger_text)

    def _repr_html_(self) -> str:
        return self._printed(ledger_html)

    def _printed(self, how: Callable[..., str]) -> str:
        place = self.path or "in memory"
        try:
            return how(place, self._verified.read(), self._verified.store.notes)
        except PymcPrivateError as error:  # printing must not fail, least of all in a debugger
            return unreadable_text(place, error)


def _refuse_overspending(state: LedgerState, cost: ChargeCost, header: Header) -> None:
    """Refuse a charge after which no accounting method would prove the budget."""
    if not state.totals.plus(cost).proves_budget(header):
        raise budget_exceeded(header, state.totals, cost)


def _reference(path: str, header: Header | None, read_only: bool = False) -> Ledger:
    """Open a ledger file by reference; with a header, nothing is read before it is used."""
    ledger = Ledger.__new__(Ledger)
    ledger._verified = VerifiedStore((FileView if read_only else FileStore)(path), header)
    return ledger


class VerifiedStore:
    """A store, and the state of the ledger that this process verified last.

    The stored header must equal ``header``; without one, the store is read now and its own is
    taken.

    Raises
    ------
    Incompatible
        There is no ledger, or it is damaged.
    """

    def __init__(
        self, store: FileStore | FileView | MemoryStore, header: Header | None = None
    ) -> None:
        self.store = store
        self._known: LedgerState | None = None
        self._check_failed = False
        self._expected = header
        self._expected = self.header = self.read().header if header is None else header

    def read(self) -> LedgerState:
        """Read everything but the releases, and check the whole chain."""
        with self.transact(write=False, whole=True) as (_, state):
            return state

    @contextlib.contextmanager
    def transact(
        self, *, write: bool, whole: bool = False
    ) -> Iterator[tuple[sqlite3.Connection, LedgerState]]:
        """Open one transaction, with the verified state at its start.

        While a block with ``write`` runs, no other process writes. With ``whole`` the whole chain
        is checked, else only what is new to this process.

        Raises
        ------
        Incompatible
            The chain is broken, or does not go on from what this process knew.
        """
        with self.store.transact(write) as connection:
            # Threads take turns inside a transaction. What is read here was committed, so it
            # stays true even if the block fails; what the block writes is read the next time.
            # Once a check has failed, all later ones check the whole chain.
            whole, self._check_failed = whole or self._check_failed, True
            if whole or self._known is None:
                self._known = read_ledger(connection, self._known, self._expected)
            else:
                self._known = read_new_charges(connection, self._known)
            self._check_failed = False
            yield connection, self._known


FRAME_COLUMNS = (
    *("number", "day", "label", "name", "pure", "rho", "epsilon_i", "delta_i"),
    *("completed", "released"),
)


def charges_frame(entries: Iterable[Entry]) -> pd.DataFrame:
    """Data frame of charges, doubles rounded up; NaN where a charge has no such bound."""
    import pandas as pd

    def rounded(value: Fraction | None) -> float:
        return float("nan") if value is None else float_up(value)

    rows = []
    for entry in entries:
        epsilon, delta = entry.cost.approximate or (None, None)
        costs = (entry.cost.pure, entry.cost.zcdp, epsilon, delta)
        own = (entry.number, entry.day, entry.label, entry.name)
        rows.append((*own, *map(rounded, costs), entry.completed, entry.released))
    return pd.DataFrame(rows, columns=list(FRAME_COLUMNS)).set_index("number")


def ledger_json(state: LedgerState) -> str:
    """Write header and charges as JSON, numbers as exact rationals "p/q".

    Each line stands as the text that was hashed, beside its parts, so anyone can check the chain:
    the hash of a charge is the SHA-256 of the hash before it, a line feed and the line; before the
    header's line stands a line feed alone.
    """
    charges = [
        json.loads(entry.line)
        | {
            "released": entry.released,
            "kept": entry.completed,
            "line": entry.line,
            "hash": entry.head,
        }
        for entry in state.entries
    ]
    content = {
        "ledger": json.loads(state.text),
        "line": state.text,
        "hash": state.heads[0],
        "charges": charges,
        "head": state.heads[-1],
    }
    return json.dumps(content, indent=1, allow_nan=False)
