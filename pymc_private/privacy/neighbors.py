"""Neighboring datasets: what a promise protects, in words and in arithmetic (T24)."""

from __future__ import annotations

from pymc_private.errors import DomainError

SUBSTITUTE = "substitute"
ADD_REMOVE = "add_remove"

WORDS = {
    SUBSTITUTE: "one record replaced by any other within the domain; the number of records is "
    "public",
    ADD_REMOVE: "one record added or removed; the number of records is protected too",
}


def check_neighbors(neighbors: str) -> str:
    """Return the relation if it is one.

    Raises
    ------
    DomainError
        It is not.
    """
    if neighbors not in WORDS:
        raise DomainError(
            "this is no neighbor relation", got=repr(neighbors), allowed=", ".join(WORDS)
        )
    return neighbors


def in_words(neighbors: str) -> str:
    """Say what is protected."""
    return WORDS[check_neighbors(neighbors)]
