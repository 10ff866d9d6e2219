"""Neighboring datasets: which change of the data a promise hides."""

from __future__ import annotations

from pymc_private.errors import DomainError
from pymc_private.privacy import distances

SUBSTITUTE = "substitute"
ADD_REMOVE = "add_remove"
ANY = "any"

WORDS = {
    SUBSTITUTE: "one record replaced by any other within the domain; the number of records is "
    "public",
    ADD_REMOVE: "one record added or removed; the number of records is protected too",
    ANY: "the whole data set replaced by any other, of any size (integral privacy)",
}
"""What each relation protects. Groups of k records: `Guarantee.group` (T24).

`ANY` implies the other two, and is a promise of its own kind: it adds to theirs only after
`Guarantee.restated` says so. Nothing with sensitivity per record can promise it.
"""


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


def check_records(neighbors: str) -> str:
    """Return the relation if it changes one record, as sensitivities presuppose.

    Raises
    ------
    DomainError
        It is `ANY`, or none.
    """
    if check_neighbors(neighbors) == ANY:
        raise DomainError(
            "a bound per record promises nothing about whole data sets",
            got=f"neighbors={neighbors!r}",
            allowed=f"{SUBSTITUTE}, {ADD_REMOVE}",
            do="mollifiers promise that much: see pymc_private.mollify",
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
