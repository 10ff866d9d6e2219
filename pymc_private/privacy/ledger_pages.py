"""Reading and writing a ledger's pages over an open connection; every read checks the chain."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pymc_private.errors import Incompatible
from pymc_private.privacy.ledger_entry import (
    Entry,
    Header,
    check_chain,
    link,
    read_charge,
    tampered,
)

Parsed = TypeVar("Parsed")


@dataclass(frozen=True)
class State:
    """What a ledger holds at one moment; ``heads[n]`` is the chain's hash after n charges."""

    header: Header
    entries: tuple[Entry, ...]
    heads: tuple[str, ...]


def read(connection: sqlite3.Connection, expected: Header | None = None) -> State:
    """Read everything but the releases, and check the chain.

    Raises
    ------
    Incompatible
        The chain is broken, or the ledger is not the ``expected`` one.
    """
    top = connection.execute("SELECT header, hash FROM ledger").fetchall()
    if len(top) != 1:
        raise tampered(f"it has {len(top)} headers")
    rows = connection.execute("SELECT number, body, hash FROM charges ORDER BY number").fetchall()
    last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'charges'").fetchone()
    ((text, head),) = top
    heads = check_chain(text, head, rows, last[0] if last else 0)
    header = _parsed(Header.from_json, text)
    if expected is not None and header != expected:
        raise Incompatible(
            "Another ledger stands where this one was.",
            got=f"a ledger made on {header.day}",
            allowed=f"the one made on {expected.day}",
            do="Ledger.open(path), if the other one is meant",
        )
    done = {number for (number,) in connection.execute("SELECT number FROM releases")}
    entries = tuple(
        _parsed(read_charge, body, head, number in done)
        for (number, body, _), head in zip(rows, heads[1:], strict=True)
    )
    return State(header, entries, tuple(heads))


def _parsed(parse: Callable[..., Parsed], text: str, *more: object) -> Parsed:
    """Parse what the chain vouches for; a chain that was forged may vouch for nonsense."""
    try:
        return parse(text, *more)
    except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError) as error:
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
    """
    if 1 <= entry.number < len(state.heads) and state.heads[entry.number] == entry.head:
        return state.entries[entry.number - 1]
    raise Incompatible("This charge is not in this ledger.", got=f"charge {entry.number}")


def append(connection: sqlite3.Connection, number: int, body: str, head: str) -> Entry:
    """Write one charge after the others."""
    new = link(head, body)
    connection.execute("INSERT INTO charges VALUES (?, ?, ?)", (number, body, new))
    return read_charge(body, new, completed=False)


def put(connection: sqlite3.Connection, entry: Entry, content: bytes) -> None:
    """Keep the release of a charge; the same one twice is no harm."""
    digest = _digest(entry, content)
    if entry.completed:
        row = connection.execute("SELECT sha256 FROM releases WHERE number = ?", (entry.number,))
        if row.fetchone() == (digest,):
            return
        raise Incompatible(
            "This charge paid for another release already.",
            got=f"a second release for charge {entry.number}",
            do="charge again for each draw",
        )
    connection.execute("INSERT INTO releases VALUES (?, ?, ?)", (entry.number, digest, content))


def get(connection: sqlite3.Connection, entry: Entry) -> bytes:
    """Read the release of a charge, and check that it is the one that was kept."""
    row = connection.execute(
        "SELECT sha256, content FROM releases WHERE number = ?", (entry.number,)
    )
    found = row.fetchone()
    if found is None:
        raise Incompatible(
            "This charge is not completed.",
            got=f"charge {entry.number} without a release",
            do="its draw was interrupted; a new draw is a new charge",
        )
    digest, content = found
    if not isinstance(content, bytes) or _digest(entry, content) != digest:
        raise tampered(f"the release of charge {entry.number} was edited or moved")
    return content


def _digest(entry: Entry, content: bytes) -> str:
    """Bind a release to its charge."""
    return hashlib.sha256(entry.head.encode() + b"\n" + content).hexdigest()


def check_releases(connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
    """Read every stored release once."""
    for (number,) in connection.execute("SELECT number FROM releases").fetchall():
        if not 1 <= number <= len(entries):
            raise tampered(f"a release stands for charge {number}, which is missing")
        get(connection, entries[number - 1])


def check_history(state: State, within: bool, head: str | None) -> None:
    """Check that the charges are within the budget and continue the history the user knows."""
    if not within:
        raise tampered("the charges are beyond the budget, so something else wrote them")
    if head is not None and head not in state.heads:
        raise tampered("its history does not contain the head you kept: cut off or rewritten")
