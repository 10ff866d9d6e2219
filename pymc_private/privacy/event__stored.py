"""Promises on paper: an atom as plain JSON types, exact to the last bit."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any
from pymc_private.privacy.event import Atom

def write_atom(atom: Atom) -> list[Any]:
    """Kind, value, delta, count, shape; and what some kinds have besides."""
    numbers = [_write(atom.value), _write(atom.delta), atom.count, atom.shape.hex()]
    if atom.kind == "beta_pair" and atom.other:
        return [atom.kind, *numbers, atom.other.hex()]
    return [atom.kind, *numbers, *([] if atom.mu == math.inf else [_write(atom.mu)])]


def read_atom(stored: Sequence[Any]) -> Atom:
    """What `write_atom` wrote; the oldest records have no shape."""
    kind, value, delta, count, *rest = stored
    if len(rest) > 2:
        raise ValueError(rest)
    more: dict[str, Any] = {"shape": _read_double(rest[0])} if rest else {}
    if len(rest) == 2:
        name = "other" if kind == "beta_pair" else "mu"
        more[name] = _read_double(rest[1]) if name == "other" else _read(rest[1])
    return Atom(kind, _read(value), _read(delta), count, **more)


def _write(value: Fraction | float) -> str:
    """Write a number exactly: a fraction as "p/q", a double in hexadecimal."""
    if isinstance(value, Fraction):
        return f"{value.numerator}/{value.denominator}"
    return float(value).hex()


def _read(text: str) -> Fraction | float:
    """Read what `_write` wrote, and nothing else: "0.1" would be another number in hexadecimal."""
    if re.fullmatch(r"[0-9]+/[0-9]+", text):
        return Fraction(text)
    return _read_double(text)


def _read_double(text: str) -> float:
    if text == "inf" or text.startswith("0x"):
        return float.fromhex(text)
    raise ValueError(text)
