"""What may stand beside released draws: an allow-list of public facts, each with its shape."""

from __future__ import annotations

import json
import math
import numpy as np
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any
from pymc_private.errors import DomainError

def check_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the facts of a release, refusing whatever is not on the list.

    Reads no draw and no data value, so it can (and should) run before a charge.

    Parameters
    ----------
    facts : mapping
        Keys of :data:`ALLOWED`; values made of text, numbers, booleans, None, lists and dicts.
        NumPy scalars and tuples become their plain equals; arrays are refused.

    Returns
    -------
    dict
        An independent copy in plain JSON types.

    Raises
    ------
    DomainError
        An unknown key, a value of the wrong kind, or an array in disguise.
    """
    unknown = sorted(set(map(str, facts)) - set(ALLOWED))
    if unknown:
        raise DomainError(
            "A release tells public facts only, and these are not on its list.",
            got=", ".join(unknown),
            allowed=", ".join(ALLOWED),
            do="leave them out: what the sampler saw stays with the curator",
        )
    plain = {key: _plain(value, key) for key, value in facts.items()}
    for key, value in plain.items():
        fits, wanted = ALLOWED[key]
        if not fits(value):
            raise DomainError(
                f"The fact {key!r} of a release has the wrong kind.",
                got=type(facts[key]).__name__,
                allowed=wanted,
            )
    return plain


def dump_json(value: object) -> str:
    """Write JSON in one way only (sorted keys, shortest floats), so equal facts are equal bytes."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def as_float(value: object) -> float:
    """Read a number that may be stored exactly, as text: ``"1/3"``, ``"0.5"``, ``"inf"``."""
    if isinstance(value, str):
        try:
            return float(Fraction(value))
        except ValueError:
            return float(value)
    return float(value)  # type: ignore[arg-type]


def _plain(value: Any, where: str) -> Any:
    """Copy into JSON types. The refusal names the type, never the value."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and math.isnan(value):
        raise DomainError(f"The fact {where!r} holds a NaN.", allowed="numbers")
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item, where) for item in value]
    if isinstance(value, Mapping):
        texts = {str(key): _plain(item, f"{where}.{key}") for key, item in value.items()}
        return dict(sorted(texts.items()))  # one order, before and after a file
    raise DomainError(
        f"The fact {where!r} of a release is not plain text or numbers.",
        got=type(value).__name__,
        allowed="text, numbers, booleans, None, lists and dicts of these",
        do="write it as text; an array or object could carry data out",
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_texts(value: object) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_number(value: object) -> bool:
    """Check for a number that is not negative; text is a number if it reads as one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return False
    try:
        return as_float(value) >= 0
    except (ValueError, ZeroDivisionError):
        return False


def _is_anything(value: object) -> bool:
    return True  # already plain JSON


def _is_text_map(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_text, value.values()))


def _is_budget(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, dict)
        and set(value) == {"epsilon", "delta"}
        and all(map(_is_number, value.values()))
    )


def _is_charges(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(charge, dict)
        and set(charge) == {"label", "guarantee"}
        and isinstance(charge["label"], str)
        and isinstance(charge["guarantee"], str | dict)
        for charge in value
    )


def _is_pair(value: object) -> bool:
    if value is None:
        return True
    return (
        isinstance(value, list)
        and len(value) == 2
        and all(isinstance(end, float | int) and not isinstance(end, bool) for end in value)
    )


def _is_ranges(value: object) -> bool:
    if value is None:
        return True
    return isinstance(value, dict) and all(
        box is None or (isinstance(box, list) and len(box) == 2) for box in value.values()
    )


COUNTS = {
    "method": str,
    "budget": str,
    "unit": str,
    "minimum": float,
    "families": dict,
    "expected_kl": dict,
    "r": dict,
    "alpha": dict,
    "noise": str,
    "scale": float,
    "total": float,
}
"""What may be told of a mechanism for counts: all of it fixed before the counts are looked at, but
the total, which is public under substitution."""


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(
        key in COUNTS and isinstance(item, COUNTS[key]) for key, item in value.items()
    )


Check = Callable[[object], bool]
_TEXT: tuple[Check, str] = (_is_text, "text")
_TEXTS: tuple[Check, str] = (_is_texts, "a list of texts")
_NUMBER: tuple[Check, str] = (_is_number, "a number >= 0 (or its text)")
_PLAIN: tuple[Check, str] = (_is_anything, "plain JSON")

ALLOWED: dict[str, tuple[Check, str]] = {
    "name": (lambda value: value is None or _is_text(value), "text or None"),
    "sampler": _TEXT,
    "claim": _TEXT,
    "law": _TEXT,
    "draws": (_is_count, "a whole number >= 1"),
    "epsilon": _NUMBER,
    "delta": _NUMBER,
    "neighbors": _TEXT,
    "records": _PLAIN,
    "domain": _PLAIN,
    "trim": _PLAIN,
    "power": _NUMBER,
    "clip": (_is_pair, "None or [lower, upper]"),
    "withheld": _TEXTS,
    "uncomputed": _TEXTS,
    "grid": _TEXT,
    "model": _TEXT,
    "certificate": _TEXT,
    "counts": (_is_counts, "what a release of counts tells: see `COUNTS`"),
    "charges": (_is_charges, "a list of {'label': text, 'guarantee': text or dict}"),
    "budget": (_is_budget, "None or {'epsilon': number, 'delta': number}"),
    "ledger_head": _TEXT,
    "ranges": (_is_ranges, "None or {variable: [lower, upper] or None}"),
    "versions": (_is_text_map, "{package: version}, both text"),
    "citations": (_is_texts, "a list of BibTeX entries"),
}
