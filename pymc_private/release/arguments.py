"""Arguments of the functions that release something: keywords, declarations and plans' numbers.

`sample` and `summarize` take a plan, a private model, or a model with the keywords of `privatize`.
What contradicts itself there is refused before anything is made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pymc_private.errors import DomainError, did_you_mean

DECLARATION_KEYWORDS = ("records", "domain", "neighbors", "records_per_unit", "public", "constants")
"""Keywords of `privatize`."""


def refuse_keywords(
    function: Callable[..., Any], given: Iterable[str], equivalents: Mapping[str, str]
) -> None:
    """Refuse keywords that mean nothing to a function, with the equivalent.

    Parameters
    ----------
    function : callable
        Takes the keywords of `privatize` as ``**declaration``.
    given : iterable of str
    equivalents : mapping of str to str
        What to do in place of keywords of PyMC.

    Raises
    ------
    TypeError
    """
    call = f"{function.__name__}()"
    for keyword in given:
        if keyword in equivalents:
            raise TypeError(f"{call} has no '{keyword}': {equivalents[keyword]}")
        if keyword not in DECLARATION_KEYWORDS:
            known = (*inspect.signature(function).parameters, *DECLARATION_KEYWORDS)
            hint = did_you_mean(keyword, [name for name in known if name != "declaration"])
            raise TypeError(f"{call} has no keyword '{keyword}'{hint}")


def refuse_second_declaration(declaration: Mapping[str, Any]) -> None:
    """Refuse keywords of `privatize` beside what was declared already (`DomainError`)."""
    if declaration:
        raise DomainError(
            "the declaration was made already",
            got=", ".join(declaration),
            allowed="records=, domain=, ... with a model only",
            do="call privatize again to declare something else",
        )


def equals(value: Any, fixed: Any) -> bool:
    """Whether they are one value; an array or a missing one equals nothing."""
    try:
        return bool(value == fixed)
    except (TypeError, ValueError):
        return False


def refuse_other_numbers(given: Mapping[str, Any], fixed: Mapping[str, Any]) -> None:
    """Refuse numbers beside a plan that are not its own; None was not given (`DomainError`)."""
    other = [
        key for key, value in given.items() if value is not None and not equals(value, fixed[key])
    ]
    if other:
        raise DomainError(
            "a plan fixes its numbers",
            got=", ".join(f"{key}={given[key]!r}"[:60] for key in other),
            allowed=", ".join(f"{key}={fixed[key]!r}"[:60] for key in other),
            do="calibrate another plan",
        )
