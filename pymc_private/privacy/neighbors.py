"""Promises by distance: data sets at most so far apart in a metric, as a neighbor relation.

A promise per unit of distance is of another kind than one for a replaced record: the two never add,
and a ledger of the one refuses the other, since their relations differ.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.privacy.validation import exactly, positive
from pymc_private.privacy.event import Atom

_FORM = re.compile(r"distance <= ([0-9]+(?:/[0-9]+)?) in ([^{}\n]+)")


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
    positive(distance=distance)
    if distance == math.inf:
        raise DomainError("a distance is finite", got=distance, allowed="0 < distance < inf")
    relation = f"distance <= {exactly(distance)} in {metric}"
    if parts(relation) is None:
        raise DomainError("a metric has words of one line", got=repr(metric)[:80])
    return relation


def parts(relation: str) -> tuple[Fraction, str] | None:
    """Give the distance and the metric of a relation by distance; None of any other."""
    found = _FORM.fullmatch(relation)
    if found is None:
        return None
    try:
        distance = Fraction(found[1])
    except ZeroDivisionError:
        return None
    return (distance, found[2]) if distance > 0 else None


def in_words(relation: str) -> str:
    """Say what a relation by distance protects."""
    found = parts(relation)
    if found is None:
        raise DomainError("this is no relation by distance", got=repr(relation)[:80])
    distance, metric = found
    return (
        f"data sets at most {float(distance):.6g} apart, where the distance is the sum over "
        f"records of {metric}; the number of records is public"
    )


def changed(relation: str) -> str:
    """Begin a sentence about what neighbors change."""
    found = parts(relation)
    if found is None:
        return "one record changes"
    return f"a change of distance {float(found[0]):.6g} changes"


def scaled(
    atoms: Iterable[Atom], relation: str, distance: float | Fraction
) -> tuple[tuple[Atom, ...], str]:
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
    found = parts(relation)
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
    ratio = exactly(distance) / found[0]
    # A mu besides is not proved per unit of distance.
    return tuple(replace(a, value=_times(a.value, ratio), mu=math.inf) for a in known), moved


def _times(value: Fraction | float, ratio: Fraction) -> Fraction | float:
    return value if math.isinf(value) else Fraction(value) * ratio
