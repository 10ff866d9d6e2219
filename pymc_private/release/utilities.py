"""What may be answered: finitely many responses, subsets of options, or a box of numbers."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, product
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import whole

MOST_RESPONSES = 100_000
"""Tried one by one."""
TRIED = {1: 257, 2: 31, 3: 9, 4: 5}
"""Points along each side of a box of responses, by its dimension; beyond it two."""


@dataclass(frozen=True)
class Subsets:
    """Set-valued responses: all subsets of some options, as frozensets, small ones first.

    Parameters
    ----------
    options : iterable of hashable
    sizes : int or (int, int)
        How many members: exactly so many, or from .. to ..; default any number.

    Raises
    ------
    DomainError
        No options, impossible sizes, or more than 100,000 subsets.

    Examples
    --------
    >>> [sorted(subset) for subset in Subsets("ab")]
    [[], ['a'], ['b'], ['a', 'b']]
    >>> len(Subsets(range(10), sizes=3))
    120
    """

    options: Any
    sizes: Any = None

    def __post_init__(self) -> None:
        options = tuple(dict.fromkeys(self.options))
        object.__setattr__(self, "options", options)
        low, high = self._ends()
        if not options or not 0 <= low <= high <= len(options):
            raise DomainError(
                "subsets have between none and all of the options as members",
                got=f"sizes={self.sizes} of {len(options)} options",
                allowed=f"0 ... {len(options)}",
            )
        if len(self) > MOST_RESPONSES:
            raise DomainError(
                "too many subsets to try one by one",
                got=f"{len(self):,}",
                allowed=f"{MOST_RESPONSES:,}",
                do="bound their sizes, or ask about each option by a query of its own",
            )

    def _ends(self) -> tuple[int, int]:
        if self.sizes is None:
            return 0, len(self.options)
        low, high = self.sizes if isinstance(self.sizes, tuple) else (self.sizes, self.sizes)
        return int(low), int(high)

    def __len__(self) -> int:
        low, high = self._ends()
        return sum(math.comb(len(self.options), size) for size in range(low, high + 1))

    def __iter__(self) -> Iterator[frozenset]:
        low, high = self._ends()
        for size in range(low, high + 1):
            yield from map(frozenset, combinations(self.options, size))


@dataclass(frozen=True, eq=False)
class Box:
    """A box of numbers to respond with, and the points that are tried in it.

    Parameters
    ----------
    lower, upper : array, shape (k,)
    is_scalar : bool
        Whether a response is a number rather than a tuple of one.
    """

    lower: np.ndarray
    upper: np.ndarray
    is_scalar: bool

    @property
    def widths(self) -> np.ndarray:
        """Lengths of the sides, shape (k,)."""
        return self.upper - self.lower

    @property
    def sides(self) -> int:
        """Points tried along each side."""
        return TRIED.get(len(self.lower), 2)

    @property
    def radius(self) -> float:
        """Every response is this close to a point that is tried, in each coordinate."""
        return float(np.max(self.widths)) / (2 * self.sides) * (1 + 1e-12)

    def points(self) -> Iterator[Any]:
        """Centers of equal cells."""
        shares = (np.arange(self.sides) + 0.5) / self.sides
        axes = [low + shares * width for low, width in zip(self.lower, self.widths, strict=True)]
        return map(self.response, product(*axes))

    def response(self, place: Any) -> Any:
        """The response at a place: a number, or a tuple of numbers; clipped to the box."""
        inside = np.clip(np.atleast_1d(np.asarray(place, float)), self.lower, self.upper)
        return float(inside[0]) if self.is_scalar else tuple(float(x) for x in inside)


def space_of(responses: Any) -> list[Any] | Box:
    """Understand what a user calls responses.

    Raises
    ------
    DomainError
        None; unhashable; a box without an inside or with too many sides; too many.
    """
    if hasattr(responses, "lower") and hasattr(responses, "upper"):
        return _box(responses.lower, responses.upper)
    return finite(responses)


def finite(responses: Iterable[Hashable]) -> list[Any]:
    """List finitely many responses, each once.

    Raises
    ------
    DomainError
        None, unhashable, or too many.
    """
    try:
        options = list(dict.fromkeys(responses))
    except TypeError as cause:
        raise DomainError(
            "Responses are finitely many hashable values, or a box of numbers.",
            got=type(responses).__name__,
            allowed="a list, Subsets(...), or Interval(lower, upper)",
            do="use names or tuples, and look them up inside the utility",
        ) from cause
    if not options:
        raise DomainError("There is no response to choose from.", allowed="one or more")
    if len(options) > MOST_RESPONSES:
        raise DomainError(
            "Too many responses to try one by one.",
            got=f"{len(options):,}",
            allowed=f"{MOST_RESPONSES:,}",
            do="respond with numbers of an Interval(lower, upper) and say lipschitz=",
        )
    return options


def _box(lower: Any, upper: Any) -> Box:
    low, high = (np.asarray(end, float) for end in (lower, upper))
    low, high = np.broadcast_arrays(low, high)
    flat = Box(low.ravel(), high.ravel(), low.ndim == 0)
    inside = np.isfinite(flat.widths).all() and np.all(flat.widths > 0)
    if not inside or low.ndim > 1 or not flat.lower.size:
        raise DomainError(
            "A box of responses has finite ends, lower < upper, in one row.",
            got=f"widths of shape {low.shape}",
            allowed="numbers, or vectors of one length",
        )
    whole(flat.lower.size, "the number of coordinates of a response")
    if flat.sides ** len(flat.lower) > MOST_RESPONSES:
        raise DomainError(
            "Responses have too many coordinates to search them.",
            got=len(flat.lower),
            allowed="16 or fewer",
            do="ask about some coordinates at a time, or list finitely many responses",
        )
    return flat
