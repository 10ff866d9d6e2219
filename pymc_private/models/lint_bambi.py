"""Rules of `lint` about what Bambi computes from the data on its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pymc_private.models.lint_facts import Facts, Finding
from pymc_private.models.lint_numbers import is_plain


def automatic_prior(facts: Facts) -> Iterator[Finding]:
    """Bambi scaled a prior by the data: its `auto_scale` mark stands, and its numbers are odd."""
    if not facts.is_bambi or not facts.given.auto_scale:
        return
    for name, part in _parts(facts.given).items():
        for term, holder in getattr(part, "terms", {name: part}).items():
            prior = getattr(holder, "prior", None)
            if getattr(prior, "auto_scale", False) and not _is_plain_prior(prior):
                yield Finding(
                    "automatic prior",
                    "warning",
                    f"the prior of '{term}'",
                    "Bambi chose this prior from the data's own means and sds",
                    f'bmb.Model(..., priors={{"{term}": {_code(prior)}}}, auto_scale=False)',
                )


def fitted_transform(facts: Facts) -> Iterator[Finding]:
    """A term of the formula remembers something of the data: scale(x), bs(x), hsgp(x), ..."""
    if not facts.is_bambi:
        return
    for term, pieces in _formula_terms(facts.given):
        calls = [getattr(piece, "call", None) for piece in pieces]
        if any(getattr(call, "stateful_transform", None) is not None for call in calls):
            yield Finding(
                "transform",
                "hint" if "knots" in term else "warning",
                f"the term '{term}'",
                "the transform takes its constants (means, sds, knots, ranges) from the data",
                "compute the column before the model by public constants, and name it in the "
                "formula: table['z'] = (table['x'] - low) / (high - low)",
            )


def _parts(given: Any) -> dict[str, Any]:
    """Parameters of the likelihood; Bambi called them components before 0.18."""
    return getattr(given, "parameters", None) or given.components


def _formula_terms(given: Any) -> Iterator[tuple[str, list[Any]]]:
    """Each term of the formula with what it is composed of, the response last."""
    for part in _parts(given).values():
        for name, holder in getattr(part, "terms", {}).items():
            yield name, _pieces(getattr(holder, "term", None))
    response = getattr(given, "response_term", None) or given.response_component.term
    yield response.name, _pieces(getattr(response.term, "term", response.term))


def _pieces(term: Any) -> list[Any]:
    """Variables and calls of a term; a group-specific one has an expression and a factor."""
    sides = (term, getattr(term, "expr", None), getattr(term, "factor", None))
    return [piece for side in sides for piece in getattr(side, "components", None) or []]


def _is_plain_prior(prior: Any) -> bool:
    """Whether all numbers of a Bambi prior, and of priors within it, are plain."""
    if hasattr(prior, "args"):
        return all(_is_plain_prior(value) for value in prior.args.values())
    values = np.asarray(prior)
    return values.dtype.kind not in "iuf" or all(map(is_plain, values.ravel().tolist()))


def _code(prior: Any) -> str:
    """A prior of the same kind to write, its scale left open."""
    if prior.name.startswith("Half"):
        return 'bmb.Prior("HalfNormal", sigma=...)'
    inner = prior.args.get("sigma")
    return f'bmb.Prior("Normal", mu=0, sigma={_code(inner) if hasattr(inner, "args") else "..."})'
