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
"""What each relation protects.

`ANY` implies the others, and is a guarantee of its own kind: it adds to theirs only after
`Guarantee.restated`. No mechanism with a sensitivity per record has it. `ATTRIBUTE` is weaker than
`SUBSTITUTE`: a guarantee about records may be restated for it, never the other way round.
"""


def check_neighbors(neighbors: str) -> str:
    """Return the relation; refuse what is none."""
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
    """Whether a guarantee for the wider relation is one for the narrower, too.

    Examples
    --------
    >>> implies_neighbors("any", "add_remove"), implies_neighbors("substitute", "attribute")
    (True, True)
    >>> implies_neighbors("attribute", "any")
    False
    """
    return wider in (narrower, ANY) or (wider, narrower) == (SUBSTITUTE, ATTRIBUTE)


def check_record_neighbors(neighbors: str) -> str:
    """Return the relation if it changes one record, as sensitivities presuppose; refuse others."""
    if check_neighbors(neighbors) == ATTRIBUTE:
        raise DomainError(
            "a bound per record is no bound per attribute",
            got=f"neighbors={neighbors!r}",
            allowed=f"{SUBSTITUTE}, {ADD_REMOVE}",
            do='tables of counts promise that much: dirichlet(..., unit="attribute")',
        )
    if neighbors == ANY:
        raise DomainError(
            "a bound per record guarantees nothing about whole data sets",
            got=f"neighbors={neighbors!r}",
            allowed=f"{SUBSTITUTE}, {ADD_REMOVE}",
            do="mollifiers guarantee that much: see pymc_private.mollify",
        )
    return neighbors


def describe_neighbors(neighbors: str) -> str:
    """Description of what a relation protects."""
    check_neighbors(neighbors)
    if neighbors in RELATION_DESCRIPTIONS:
        return RELATION_DESCRIPTIONS[neighbors]
    return _describe_distance_relation(neighbors)


# ---- relations by distance -------------------------------------------------------------------
_DISTANCE_RELATION = re.compile(r"distance <= ([0-9]+(?:/[0-9]+)?) in ([^{}\n]+)")


def distance_relation(distance: float | Fraction, metric: str) -> str:
    """Name of the relation of data sets at most `distance` apart, in the unit of the metric.

    The metric is described in words of one line; equal metrics have equal words.
    """
    check_positive(distance=distance)
    if distance == math.inf:
        raise DomainError("a distance is finite", got=distance, allowed="0 < distance < inf")
    relation = f"distance <= {exact_fraction(distance)} in {metric}"
    if parse_distance_relation(relation) is None:
        raise DomainError(
            "a metric is described by one line of text",
            got=repr(metric)[:80],
            allowed="text without line breaks, such as '|income - income'| / 1000'",
        )
    return relation


def parse_distance_relation(relation: str) -> tuple[Fraction, str] | None:
    """Distance and metric of a relation by distance; None of any other relation."""
    found = _DISTANCE_RELATION.fullmatch(relation)
    if found is None:
        return None
    try:
        distance = Fraction(found[1])
    except ZeroDivisionError:
        return None
    return (distance, found[2]) if distance > 0 else None


def _describe_distance_relation(relation: str) -> str:
    found = parse_distance_relation(relation)
    if found is None:
        raise DomainError(
            "this names no data sets at a distance",
            got=repr(relation)[:80],
            allowed="'distance <= 1/2 in l2 of x', or the like",
            do="pmp.privatize(..., neighbors=pmp.Metric({'x': 'l2'})) gives guarantees by distance",
        )
    distance, metric = found
    return (
        f"data sets at most {float(distance):.6g} apart, where the distance is the sum over "
        f"records of {metric}; the number of records is public"
    )


def describe_change(relation: str) -> str:
    """Beginning of a sentence about what changes between neighbors."""
    found = parse_distance_relation(relation)
    if found is None:
        return "one record changes"
    return f"a change of distance {float(found[0]):.6g} changes"


def rescale_to_distance(
    events: Iterable[PrivacyEvent], relation: str, distance: float | Fraction
) -> tuple[tuple[PrivacyEvent, ...], str]:
    """Events and relation of a guarantee by distance, at another distance in that metric.

    The range R of exact draws is proved per unit of distance, so it scales with it (T1); an event
    of any other kind is Unsupported, and a relation that is not by distance Incompatible.
    """
    found = parse_distance_relation(relation)
    if found is None:
        raise Incompatible(
            "only a guarantee by distance can be read at another distance",
            got=relation,
            allowed="guarantees of models with neighbors=Metric(...)",
            do="for groups of k records: .group(k)",
        )
    known = tuple(events)
    other = [event.kind for event in known if event.kind != "bounded_range"]
    if other:
        raise Unsupported(
            "only the range of exact draws is proved per unit of distance",
            got=", ".join(sorted(set(other))),
            allowed="bounded_range",
        )
    rescaled = distance_relation(distance, found[1])
    ratio = exact_fraction(distance) / found[0]
    # The mu of such a draw is not proved per unit of distance.
    return tuple(
        replace(event, value=_scale_exactly(event.value, ratio), mu=math.inf) for event in known
    ), rescaled


def _scale_exactly(value: Fraction | float, ratio: Fraction) -> Fraction | float:
    return value if math.isinf(value) else Fraction(value) * ratio
