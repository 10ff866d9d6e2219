"""Reading and writing a ledger's pages over an open connection; every read checks the chain.

A whole read checks every line. A process that goes on charging remembers what it has checked, and
reads only what came after: the chain binds that to the last line it knows. So a long ledger is as
quick to charge as a short one, and a file that no longer continues what was known is refused.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar
from pymc_private.errors import DomainError, Incompatible
from pymc_private.ledger.entry__ledger_chain import Row, check_rows, check_start, link, tampered
from pymc_private.ledger.filter__ledger_doubt import check_costs
from pymc_private.ledger.entry import Entry, Header, read_charge
from pymc_private.ledger.filter import Totals, add_up

Parsed = TypeVar("Parsed")
NONSENSE = (
    *(ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError),
    DomainError,
)


@dataclass(frozen=True)
class State:
    """What a ledger held at one moment.

    Attributes
    ----------
    header : Header
    text : str
        The header as it is hashed.
    heads : tuple of str
        ``heads[n]`` is the chain's hash after n charges.
    entries : tuple of Entry
        The charges; which of them are released is as of the last whole read.
    totals : Totals
        What the charges come to.
    """

    header: Header
    text: str
    heads: tuple[str, ...]
    entries: tuple[Entry, ...]
    totals: Totals


def read(
    connection: sqlite3.Connection, known: State | None = None, expected: Header | None = None
) -> State:
    """Read everything but the releases, and check the whole chain.

    Raises
    ------
    Incompatible
        The chain is broken, is not the ``expected`` ledger's, or does not go on from what was
        ``known``.
    """
    top = connection.execute("SELECT header, hash FROM ledger").fetchall()
    if len(top) != 1:
        raise tampered(f"it has {len(top)} headers")
    rows = _charges(connection, 0)
    ((text, head),) = top
    start = check_start(text, head)
    heads = (start, *check_rows(start, rows, 1, _last(connection)))
    header = _parsed(Header.from_json, text)
    if expected is not None and header != expected:
        raise Incompatible(
            "Another ledger stands where this one was.",
            got=f"a ledger made on {header.day}",
            allowed=f"the one made on {expected.day}",
            do="Ledger.open(path), if the other one is meant",
        )
    if known is None:
        known = State(header, text, heads[:1], (), Totals())
    if heads[: len(known.heads)] != known.heads:
        raise tampered("its history is not the one seen before: cut off or rewritten")
    state = _extended(known, rows[len(known.entries) :], heads[len(known.heads) :])
    kept = dict(
        connection.execute("SELECT number, typeof(content) <> 'null' FROM releases").fetchall()
    )
    return replace(state, entries=tuple(_marked(e, kept.get(e.number)) for e in state.entries))


def follow(connection: sqlite3.Connection, known: State) -> State:
    """Read and check only what came after what is known; if it does not fit, check all.

    Raises
    ------
    Incompatible
        As :func:`read`.
    """
    number = len(known.entries)
    top = connection.execute("SELECT header, hash FROM ledger").fetchall()
    rows = _charges(connection, number)
    fits = top == [(known.text, known.heads[0])]
    if fits and number:
        seam, rows = rows[:1], rows[1:]
        fits = [(n, stored) for n, _, stored in seam] == [(number, known.heads[-1])]
        fits = fits and link(known.heads[-2], seam[0][1]) == known.heads[-1]
    if not fits:
        return read(connection, known, known.header)
    heads = check_rows(known.heads[-1], rows, number + 1, _last(connection))
    return _extended(known, rows, heads)


def _charges(connection: sqlite3.Connection, first: int) -> list[Row]:
    """Read the charges from that number on; from 0 on means all."""
    where = "WHERE number >= ?" if first else "WHERE ? = 0"
    query = f"SELECT number, body, hash FROM charges {where} ORDER BY number"
    return connection.execute(query, (first,)).fetchall()


def _last(connection: sqlite3.Connection) -> int:
    """Read the highest number ever given to a charge."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'charges'").fetchone()
    return row[0] if row else 0


def _extended(known: State, rows: Sequence[Row], heads: tuple[str, ...]) -> State:
    """Add what was read and checked."""
    if not rows:
        return known
    new = tuple(
        _parsed(read_charge, body, head) for (_, body, _), head in zip(rows, heads, strict=True)
    )
    for number, entry in enumerate(new, start=len(known.entries) + 1):
        if entry.number != number:
            raise tampered(f"charge {number} says that it is another")
    return State(
        known.header,
        known.text,
        known.heads + heads,
        known.entries + new,
        add_up((entry.cost for entry in new), known.totals),
    )


def _marked(entry: Entry, kept: int | None) -> Entry:
    """Note whether a release is on record, and whether it is kept here."""
    released, completed = kept is not None, bool(kept)
    if (entry.released, entry.completed) == (released, completed):
        return entry
    return replace(entry, released=released, completed=completed)


def _parsed(parse: Callable[..., Parsed], text: str, *more: object) -> Parsed:
    """Parse what the chain vouches for; a chain that was forged may vouch for nonsense."""
    try:
        return parse(text, *more)
    except NONSENSE as error:
        raise tampered("it holds a line that no ledger writes") from error


def names(entries: Iterable[Entry]) -> dict[str, tuple[str | None, ...]]:
    """List the keys under each name, in order of their first charge."""
    found: dict[str, tuple[str | None, ...]] = {}
    for entry in entries:
        if entry.name is not None and entry.key not in found.setdefault(entry.name, ()):
            found[entry.name] += (entry.key,)
    return found


def own(state: State, entry: Entry) -> Entry:
    """Find an entry in the ledger as it is now.

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
    raise Incompatible("This charge is not in this ledger.", got=f"charge {entry.number}")


def append(connection: sqlite3.Connection, number: int, body: str, head: str) -> Entry:
    """Write one charge after the others."""
    new = link(head, body)
    connection.execute("INSERT INTO charges VALUES (?, ?, ?)", (number, body, new))
    return read_charge(body, new)


def put(connection: sqlite3.Connection, entry: Entry, content: bytes | None) -> Entry:
    """Put the release of a charge on record; the same one twice is no harm.

    Raises
    ------
    Incompatible
        Another release of this charge is on record.
    """
    digest = _digest(entry, content)
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
    return _marked(entry, content is not None)


def get(connection: sqlite3.Connection, entry: Entry) -> bytes:
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
    edited = not isinstance(content, bytes | None) or _digest(entry, content) != digest
    if edited:
        raise tampered(f"the release of charge {entry.number} was edited or moved")
    if content is None:
        raise Incompatible(
            "The release of this charge is on record, but is not kept here.",
            got=f"charge {entry.number}, released elsewhere",
            do="look where it was released; a new draw is a new charge",
        )
    return bytes(content)


def _digest(entry: Entry, content: bytes | None) -> str:
    """Bind a release to its charge; a line break parts the two, so that no two cases agree."""
    said = b"" if content is None else b"\n" + content
    return hashlib.sha256(entry.head.encode() + said).hexdigest()


def check_releases(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Read every stored release once, and have SQLite check its pages.

    Raises
    ------
    Incompatible
        Something was edited, moved or damaged.
    """
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise tampered(f"SQLite finds: {verdict}")
    for (number,) in connection.execute("SELECT number FROM releases").fetchall():
        if not isinstance(number, int) or not 1 <= number <= len(entries):
            raise tampered(f"a release stands for charge {number}, which is missing")
        entry = entries[number - 1]
        query = "SELECT sha256 FROM releases WHERE number = ? AND typeof(content) = 'null'"
        noted = connection.execute(query, (number,)).fetchone()
        if noted is None:
            get(connection, entry)
        elif noted != (_digest(entry, None),):
            raise tampered(f"the release of charge {number} was edited or moved")


def check_history(state: State, within: bool, head: str | None) -> None:
    """Check that charges cost enough, are within the budget, and continue what the user knows."""
    check_costs(state.entries, state.header)
    if not within:
        raise tampered("the charges are beyond the budget, so something else wrote them")
    if head is not None and head not in state.heads:
        raise tampered("its history does not contain the head you kept: cut off or rewritten")
