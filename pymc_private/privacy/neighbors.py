"""Neighboring datasets: which change of the data a promise hides."""

from __future__ import annotations

from pymc_private.errors import DomainError

SUBSTITUTE = "substitute"
ADD_REMOVE = "add_remove"

WORDS = {
    SUBSTITUTE: "one record replaced by any other within the domain; the number of records is "
    "public",
    ADD_REMOVE: "one record added or removed; the number of records is protected too",
}
"""What each relation protects. Groups of k records: `Guarantee.group` (T24)."""


def check_neighbors(neighbors: str) -> str:
    """Return the relation if it is one.

    Raises
    ------
    DomainError
        It is not.
    """
    if not isinstance(neighbors, str) or neighbors not in WORDS:
        raise DomainError(
            "this is no neighbor relation", got=repr(neighbors), allowed=", ".join(WORDS)
        )
    return neighbors


def in_words(neighbors: str) -> str:
    """Say what is protected.

    Raises
    ------
    DomainError
        There is no such relation.
    """
    return WORDS[check_neighbors(neighbors)]
