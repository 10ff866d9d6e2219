"""Exact sums of what is released, apart from its noise: workers add up, this process adds noise.

A release that reads its records once, in chunks, is run twice: on chunks, wherever they lie, with
`ExactTotals` in the place of the noise, and here on none, with `GivenTotals`. Totals are integers
(T30), so that it does not matter who added up what in which order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.summaries.noise import LatticeNoise, exact_total
from pymc_private.summaries.weighted_sums import BoundedSum, unweighted

Totals = list[list[int]]
"""Integers of each sum, in the order of their release."""


class ExactTotals:
    """What `LatticeNoise.total` adds up, without noise: private.

    Attributes
    ----------
    found : list of list of int
    """

    def __init__(self) -> None:
        self.found: Totals = []

    def total(
        self, chunks: Iterable[np.ndarray], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        """Keep an exact sum; zeros of its shape."""
        self.found.append(exact_total(chunks, bound, positive))
        return np.zeros(len(self.found[-1]))


class GivenTotals:
    """Noise on sums that were added up before.

    Parameters
    ----------
    noise : LatticeNoise
    totals : list of list of int
        In the order in which they are asked for.
    """

    def __init__(self, noise: LatticeNoise, totals: Totals) -> None:
        self._noise, self._left = noise, list(totals)

    def total(
        self, chunks: Iterable[np.ndarray], bound: float, positive: bool, mu: float
    ) -> np.ndarray:
        """The next sum, with its noise; no chunk is read."""
        return self._noise.noisy_total(self._left.pop(0), bound, positive, mu)

    def totals(self, chunks: Iterable[Any], sums: Sequence[BoundedSum], weight: int) -> list:
        """The next sums of matrices of unweighted records, with their noise; no chunk is read."""
        return [m for one in sums for m in self._noise.noisy(unweighted(one, self._left.pop(0)))]

    def sd(self, bound: float, positive: bool, mu: float, k: int) -> float:
        """As of the noise."""
        return self._noise.sd(bound, positive, mu, k)

    def term_sd(self, one: BoundedSum, k: int) -> float:
        """As of the noise."""
        return self._noise.term_sd(one, k)


def added_totals(parts: Iterable[Totals]) -> Totals:
    """Totals of all parts of a table.

    Raises
    ------
    DomainError
        There are none.
    """
    found: Totals | None = None
    for part in parts:
        found = part if found is None else [_added(a, b) for a, b in zip(found, part, strict=True)]
    if found is None:
        raise DomainError(
            "a sum needs one chunk at least", got="none", allowed="one chunk of records or more"
        )
    return found


def _added(one: Sequence[Any], other: Sequence[Any]) -> list[int]:
    return [a + b for a, b in zip(one, other, strict=True)]
