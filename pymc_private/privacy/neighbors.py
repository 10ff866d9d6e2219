"""Neighbor relations between data sets.

Four named relations (substitute, add or remove, attribute, any), and data sets at most a given
distance apart in a metric. Groups of k records: `Guarantee.group` (T24).

A guarantee per unit of distance is of another kind than one for a replaced record: the two never
add, and a ledger of the one refuses the other, since their relations differ. The range R of exact
draws is proved per unit of distance, so it scales with the distance (T1).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction

from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.privacy.event import PrivacyEvent
from pymc_private.privacy.validation import check_positive, exact_fraction

_DISTANCE_RELATION = re.compile(r"distance <= ([0-9]+(?:/[0-9]+)?) in ([^{}\n]+)")


def distance_relation(distance: float | Fraction, metric: str) -> str:
    """Name the relation of data sets at most `distance` apart.

    Parameters
    ----------
    distance : float or Fraction
        Positive and finite, in the unit of the metric.
    metric : str
        The metric in words; equal metrics have equal words.

    Raises
    ------
    DomainError
        The distance is not positive and finite, or the words are empty.
    """
    check_positive(distance=distance)
    if distance == math.inf:
        raise DomainError("a distance is finite", got=distance, allowed="0 < distance < inf")
    relation = f"distance <= {exact_fraction(distance)} in {metric}"
    if parse_distance_relation(relation) is None:
        raise DomainError("a metric has words of one line", got=repr(metric)[:80])
    return relation


def parse_distance_relation(relation: str) -> tuple[Fraction, str] | None:
    """Give the distance and the metric of a relation by distance; None of any other."""
    found = _DISTANCE_RELATION.fullmatch(relation)
    if found is None:
        return None
    try:
        distance = Fraction(found[1])
    except ZeroDivisionError:
        return None
    return (distance, found[2]) if distance > 0 else None


def describe_distance_relation(relation: str) -> str:
    """Say what a relation by distance protects."""
    found = parse_distance_relation(relation)
    if found is None:
        raise DomainError("this is no relation by distance", got=repr(relation)[:80])
    distance, metric = found
    return (
        f"data sets at most {float(distance):.6g} apart, where the distance is the sum over "
        f"records of {metric}; the number of records is public"
    )


def describe_change(relation: str) -> str:
    """Begin a sentence about what neighbors change."""
    found = parse_distance_relation(relation)
    if found is None:
        return "one record changes"
    return f"a change of distance {float(found[0]):.6g} changes"


def rescale_to_distance(
    atoms: Iterable[PrivacyEvent], relation: str, distance: float | Fraction
) -> tuple[tuple[PrivacyEvent, ...], str]:
    """Read a promise by distance at another distance.

    The range R of exact draws is proved per unit of distance, so it scales with it (T1). The result
    is a promise by distance again: it adds to its like only.

    Parameters
    ----------
    atoms : iterable of Atom
    relation : str
        What they are promised for.
    distance : float or Fraction
        In the unit of the metric.

    Returns
    -------
    atoms : tuple of Atom
    relation : str

    Raises
    ------
    Incompatible
        The promise is not by distance.
    Unsupported
        A part of it is not the range of exact draws.
    DomainError
        The distance is not positive and finite.
    """
    found = parse_distance_relation(relation)
    if found is None:
        raise Incompatible(
            "only a promise by distance can be read at another distance",
            got=relation,
            allowed="promises of models with neighbors=Metric(...)",
            do="for groups of k records: .group(k)",
        )
    known = tuple(atoms)
    other = [atom.kind for atom in known if atom.kind != "bounded_range"]
    if other:
        raise Unsupported(
            "only the range of exact draws is proved per unit of distance",
            got=", ".join(sorted(set(other))),
            allowed="bounded_range",
        )
    moved = distance_relation(distance, found[1])
    ratio = exact_fraction(distance) / found[0]
    # A mu besides is not proved per unit of distance.
    return tuple(
        replace(a, value=_scale_exactly(a.value, ratio), mu=math.inf) for a in known
    ), moved


def _scale_exactly(value: Fraction | float, ratio: Fraction) -> Fraction | float:
    return value if math.isinf(value) else Fraction(value) * ratio


SUBSTITUTE = "substitute"
ADD_REMOVE = "add_remove"
ANY = "any"
ATTRIBUTE = "attribute"

RELATION_DESCRIPTIONS = {
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
        neighbors in RELATION_DESCRIPTIONS or parse_distance_relation(neighbors) is not None
    )
    if not known:
        raise DomainError(
            "this is no neighbor relation",
            got=repr(neighbors),
            allowed=f"{', '.join(RELATION_DESCRIPTIONS)}, or a distance in a metric",
        )
    return neighbors


def implies_neighbors(wider: str, narrower: str) -> bool:
    """Whether a promise for one relation is one for the other, too.

    Examples
    --------
    >>> covers("any", "add_remove"), covers("substitute", "attribute"), covers("attribute", "any")
    (True, True, False)
    """
    return wider in (narrower, ANY) or (wider, narrower) == (SUBSTITUTE, ATTRIBUTE)


def check_record_neighbors(neighbors: str) -> str:
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


def describe_neighbors(neighbors: str) -> str:
    """Say what is protected.

    Raises
    ------
    DomainError
        There is no such relation.
    """
    check_neighbors(neighbors)
    return (
        RELATION_DESCRIPTIONS[neighbors]
        if neighbors in RELATION_DESCRIPTIONS
        else describe_distance_relation(neighbors)
    )
