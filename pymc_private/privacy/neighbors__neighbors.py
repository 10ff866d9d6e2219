"""Neighboring datasets: which change of the data a promise hides."""

from __future__ import annotations

from pymc_private.errors import DomainError
from pymc_private.privacy import neighbors as distances

SUBSTITUTE = "substitute"
ADD_REMOVE = "add_remove"
ANY = "any"
ATTRIBUTE = "attribute"

WORDS = {
    SUBSTITUTE: "one record replaced by any other within the domain; the number of records is "
    "public",
    ADD_REMOVE: "one record added or removed; the number of records is protected too",
    ANY: "the whole data set replaced by any other, of any size (integral privacy)",
    ATTRIBUTE: "one attribute of one record replaced by any other; what else a record says is not "
    "hidden, and the number of records is public",
}
"""What each relation protects. Groups of k records: `Guarantee.group` (T24).

`ANY` implies the other two, and is a promise of its own kind: it adds to theirs only after
`Guarantee.restated` says so. Nothing with sensitivity per record can promise it. `ATTRIBUTE` is
less than `SUBSTITUTE`: a promise about records may be restated for it, never the other way round.
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


def covers(wider: str, narrower: str) -> bool:
    """Whether a promise for one relation is one for the other, too.

    Examples
    --------
    >>> covers("any", "add_remove"), covers("substitute", "attribute"), covers("attribute", "any")
    (True, True, False)
    """
    return wider in (narrower, ANY) or (wider, narrower) == (SUBSTITUTE, ATTRIBUTE)


def check_records(neighbors: str) -> str:
    """Return the relation if it changes one record, as sensitivities presuppose.

    Raises
    ------
    DomainError
        It is `ANY` or `ATTRIBUTE`, or none.
    """
    if check_neighbors(neighbors) == ATTRIBUTE:
        raise DomainError(
            "a bound per record is no bound per attribute",
            got=f"neighbors={neighbors!r}",
            allowed=f"{SUBSTITUTE}, {ADD_REMOVE}",
            do='tables of counts promise that much: dirichlet(..., unit="attribute")',
        )
    if neighbors == ANY:
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
