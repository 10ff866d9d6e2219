"""What a Bambi model's formula is made of, in both generations of Bambi."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

def fitted_terms(given: Any) -> list[str]:
    """Terms that remember something of the data: scale(x), bs(x), hsgp(x), ...

    Each of their rows holds a mean, a range or knots of all records, unless these were given.
    """
    return [
        term
        for term, pieces in _formula_terms(given)
        if any(
            getattr(getattr(piece, "call", None), "stateful_transform", None) is not None
            for piece in pieces
        )
    ]


def parts_of(given: Any) -> dict[str, Any]:
    """Parameters of the likelihood; Bambi called them components before 0.18."""
    return getattr(given, "parameters", None) or given.components


def _formula_terms(given: Any) -> Iterator[tuple[str, list[Any]]]:
    """Each term of the formula with what it is composed of, the response last."""
    for part in parts_of(given).values():
        for name, holder in getattr(part, "terms", {}).items():
            yield name, _pieces(getattr(holder, "term", None))
    response = getattr(given, "response_term", None) or given.response_component.term
    yield response.name, _pieces(getattr(response.term, "term", response.term))


def _pieces(term: Any) -> list[Any]:
    """Variables and calls of a term; a group-specific one has an expression and a factor."""
    sides = (term, getattr(term, "expr", None), getattr(term, "factor", None))
    return [piece for side in sides for piece in getattr(side, "components", None) or []]
