"""Coordinates of two records and two parameter points, and how each of four pairs reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from pytensor.graph.basic import Variable

from pymc_private.analysis import Interval as Bounds

PAIRS = ((0, 0), (1, 0), (0, 1), (1, 1))
"""(record, parameter point) of each term of the difference of differences."""
SIGNS = (1.0, -1.0, -1.0, 1.0)


class Role(Enum):
    """What a variable belongs to, hence how many copies of it there are."""

    RECORD = "record"
    POINT = "point"
    PAIR = "pair"
    SHARED = "shared"

    def copy(self, record: int, point: int) -> tuple[int, ...]:
        """Which copy a pair reads."""
        return {
            Role.RECORD: (record,),
            Role.POINT: (point,),
            Role.PAIR: (record, point),
            Role.SHARED: (),
        }[self]

    @property
    def copies(self) -> list[tuple[int, ...]]:
        """All of them."""
        return list(dict.fromkeys(self.copy(*pair) for pair in PAIRS))


@dataclass(frozen=True, eq=False)
class Column:
    """One input variable.

    Parameters
    ----------
    variable : Variable
    role : Role
    bounds : Bounds
        All that it can be.
    levels : array or None
        If given, entries are numbers of a public finite set, and coordinates are their ranks.
    """

    variable: Variable
    role: Role
    bounds: Bounds
    levels: np.ndarray | None = None

    @property
    def is_whole(self) -> bool:
        """Whether its coordinates are whole numbers."""
        return self.levels is not None or not self.variable.type.dtype.startswith("float")

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(np.shape(self.bounds.lower)))

    def ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Its least and greatest coordinates."""
        if self.levels is not None:
            return np.zeros(self.size), np.full(self.size, len(self.levels) - 1.0)
        low, high = np.ravel(self.bounds.lower), np.ravel(self.bounds.upper)
        if self.is_whole:
            return np.ceil(low).astype(float), np.floor(high).astype(float)
        return low.astype(float), high.astype(float)

    def interval(self, lower: np.ndarray, upper: np.ndarray) -> Bounds:
        """Its values, given coordinates of shape (boxes, size)."""
        if self.levels is not None:
            lower = self.levels[np.ceil(lower).astype(int)]
            upper = self.levels[np.floor(upper).astype(int)]
        shape = (len(lower), *np.shape(self.bounds.lower))
        lower, upper = lower.reshape(shape), upper.reshape(shape)
        if not np.array_equal(lower, upper):
            return Bounds(lower, upper, self.bounds.within)
        dtype = self.variable.type.dtype
        point = lower if dtype.startswith("float") else lower.astype(dtype)
        return Bounds(point, point, self.bounds.within)


class Coordinates:
    """Where the copies of every column stand in one row of numbers."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self.columns = list(columns)
        self.places: dict[tuple[Variable, tuple[int, ...]], slice] = {}
        lower, upper, whole = [np.empty(0)], [np.empty(0)], [np.empty(0, dtype=bool)]
        start = 0
        for column in self.columns:
            for copy in column.role.copies:
                self.places[column.variable, copy] = slice(start, start + column.size)
                start += column.size
                low, high = column.ends()
                lower.append(low)
                upper.append(high)
                whole.append(np.full(column.size, column.is_whole))
        self.count = start
        self.lower, self.upper = np.concatenate(lower), np.concatenate(upper)
        self.whole = np.concatenate(whole)

    def of(self, column: Column, pair: tuple[int, int]) -> slice:
        """The places a pair reads a column at."""
        return self.places[column.variable, column.role.copy(*pair)]

    def gather(self, lower: np.ndarray, upper: np.ndarray) -> dict[Variable, Bounds]:
        """Inputs of the four pairs, one after the other: boxes (N, D) -> 4 N boxes."""
        return {
            column.variable: column.interval(
                np.concatenate([lower[:, self.of(column, pair)] for pair in PAIRS]),
                np.concatenate([upper[:, self.of(column, pair)] for pair in PAIRS]),
            )
            for column in self.columns
        }
