"""The chain of hashes that binds a ledger's lines.

The hash of a charge covers the hash before it and its own line; the chain starts from the header,
so it covers the budget too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pymc_private.errors import Incompatible

Row = tuple[int, str, str]  # number, body, hash


def link(head: str, text: str) -> str:
    """Extend the chain of hashes by one line; the header extends the empty text."""
    return hashlib.sha256(f"{head}\n{text}".encode()).hexdigest()


def check_start(header: str, head: str) -> str:
    """Give the first head of a chain.

    Raises
    ------
    Incompatible
        The header was edited.
    """
    if head != link("", header):
        raise tampered("its budget or its terms were edited")
    return head


def check_rows(head: str, rows: Sequence[Row], first: int, last: int) -> tuple[str, ...]:
    """Give the heads that charges add to a chain.

    Parameters
    ----------
    head : str
        The hash before them.
    rows : sequence of (number, body, hash)
        The charges, by number.
    first, last : int
        The number of the first of them, and the highest number ever given to a charge.

    Raises
    ------
    Incompatible
        Something was edited, deleted, inserted or moved.
    """
    heads = []
    for place, (number, body, stored) in enumerate(rows, start=first):
        if number != place:
            raise tampered(f"charge {place} is missing")
        head = link(head, body)
        if stored != head:
            raise tampered(f"charge {place} was edited or moved")
        heads.append(head)
    if last != first + len(rows) - 1:
        raise tampered(f"charges after number {first + len(rows) - 1} are missing")
    return tuple(heads)


def tampered(what: str) -> Incompatible:
    """Say that a ledger can no longer be believed."""
    return Incompatible(
        "The ledger was tampered with or damaged.",
        got=what,
        do="restore an untouched copy; until then treat the whole budget as spent",
    )
