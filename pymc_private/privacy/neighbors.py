"""Neighboring datasets: which change of the data a promise hides."""

from __future__ import annotations

from pymc_private.errors import DomainError
from pymc_private.privacy import distances

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
    known = isinstance(neighbors, str) and (
        neighbors in WORDS or distances.parts(neighbors) is not None
    )
    if not known:
        raise DomainError(
            "this is no neighbor relation",
            got=repr(neighbors),
            allowed=f"{', '.join(WORDS)}, or a distance in a metric",
        )
    return neighbors


def in_words(neighbors: str) -> str:
    """Say what is protected.

    Raises
    ------
    DomainError
        There is no such relation.
    """
    check_neighbors(neighbors)
    return WORDS[neighbors] if neighbors in WORDS else distances.in_words(neighbors)
