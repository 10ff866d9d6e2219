"""Coordinates of two records and two parameter points, and what each pair of them reads."""

from __future__ import annotations

import numpy as np
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds

Pair = tuple[int, int]


@dataclass(frozen=True)
class Contrast:
    """A signed sum of log p(record | parameters) over pairs of a record and a parameter point.

    Parameters
    ----------
    pairs : tuple of (record, parameter point)
    signs : tuple of float
    keeps_parameters : bool
        Whether terms of the parameters alone stay in the sum; otherwise they cancel.
    """

    pairs: tuple[Pair, ...]
    signs: tuple[float, ...]
    keeps_parameters: bool = False

    @property
    def compares_points(self) -> bool:
        """Whether each record stands at two parameter points: what reads it alone then cancels."""
        return len({point for _, point in self.pairs}) == 2


SUBSTITUTION = Contrast(((0, 0), (1, 0), (0, 1), (1, 1)), (1.0, -1.0, -1.0, 1.0))
"""l(x, t) - l(y, t) - l(x, t') + l(y, t'): one record replaced (T1)."""
ADDITION = Contrast(((0, 0), (0, 1)), (1.0, -1.0), True)
"""l(x, t) - l(x, t'): one record added or removed (T24)."""
AT_ONE_POINT = (Contrast(((0, 0), (1, 0)), (1.0, -1.0)),)
"""l(x, t) - l(y, t): one record replaced, at given parameters (T24)."""
ALONE = (Contrast(((0, 0),), (1.0,), True), Contrast(((0, 0),), (-1.0,), True))
"""l(x, t) and -l(x, t): one record added or removed, at given parameters."""


class Role(Enum):
    """What a variable belongs to, hence how many copies of it there are."""

    RECORD = "record"
    POINT = "point"
    PAIR = "pair"
    SHARED = "shared"

    def copy(self, pair: Pair) -> tuple[int, ...]:
        """Which copy a pair reads."""
        record, point = pair
        return {
            Role.RECORD: (record,),
            Role.POINT: (point,),
            Role.PAIR: (record, point),
            Role.SHARED: (),
        }[self]

    def copies(self, contrast: Contrast) -> list[tuple[int, ...]]:
        """All of them."""
        return list(dict.fromkeys(map(self.copy, contrast.pairs)))


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
    total : float or None
        What rows along the last axis sum to, where bounds make no use of it.
    """

    variable: Variable
    role: Role
    bounds: Bounds
    levels: np.ndarray | None = None
    total: float | None = None

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

    def __init__(self, columns: Sequence[Column], contrast: Contrast) -> None:
        self.columns, self.contrast = list(columns), contrast
        self.places: dict[tuple[Variable, tuple[int, ...]], slice] = {}
        lower, upper, whole = [np.empty(0)], [np.empty(0)], [np.empty(0, dtype=bool)]
        start = 0
        for column in self.columns:
            for copy in column.role.copies(contrast):
                self.places[column.variable, copy] = slice(start, start + column.size)
                start += column.size
                low, high = column.ends()
                lower.append(low)
                upper.append(high)
                whole.append(np.full(column.size, column.is_whole))
        self.count = start
        self._of = {
            column.variable: [self.of(column, pair) for pair in contrast.pairs]
            for column in self.columns
        }
        self.lower, self.upper = np.concatenate(lower), np.concatenate(upper)
        self.whole = np.concatenate(whole)

    def of(self, column: Column, pair: Pair) -> slice:
        """The places a pair reads a column at."""
        return self.places[column.variable, column.role.copy(pair)]

    def gather(self, lower: np.ndarray, upper: np.ndarray) -> dict[Variable, Bounds]:
        """Inputs of all pairs, one pair after the other: boxes (N, D) -> N boxes for each."""
        return {
            column.variable: column.interval(
                *(
                    np.concatenate([end[:, place] for place in self._of[column.variable]])
                    for end in (lower, upper)
                )
            )
            for column in self.columns
        }


class SlopeTerms:
    """Which slopes of which pairs add up to the slope along each coordinate of a contrast.

    Parameters
    ----------
    coordinates : Coordinates
    known : collection of Variable
        Inputs whose slopes are known.

    Attributes
    ----------
    order : list of Variable
        Those of the columns that are known.
    rounds : list of (array, array)
        Coordinates, and the term that each takes next: a column of what `signed` gives.
    """

    def __init__(self, coordinates: Coordinates, known: Collection[Variable]) -> None:
        columns = [column for column in coordinates.columns if column.variable in known]
        self.order = [column.variable for column in columns]
        self._signs = coordinates.contrast.signs
        width = sum(column.size for column in columns)
        taken: list[list[int]] = [[] for _ in range(coordinates.count)]
        start = 0
        for column in columns:
            for k, pair in enumerate(coordinates.contrast.pairs):
                place = coordinates.of(column, pair)
                for j in range(column.size):
                    taken[place.start + j].append(k * width + start + j)
            start += column.size
        most = max(map(len, taken), default=0)
        self.rounds = []
        for k in range(most):
            where = [c for c, terms in enumerate(taken) if len(terms) > k]
            self.rounds.append((np.array(where), np.array([taken[c][k] for c in where])))

    def signed(
        self, slopes: Sequence[tuple[np.ndarray, np.ndarray]], count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Ends of all terms with their signs, shape (boxes, pairs x entries)."""
        pairs = len(self._signs)
        low, high = (
            np.concatenate([ends[side].reshape(pairs, count, -1) for ends in slopes], axis=2)
            for side in (0, 1)
        )
        back = np.array(self._signs)[:, None, None] < 0
        low, high = np.where(back, -high, low), np.where(back, -low, high)
        return (
            low.transpose(1, 0, 2).reshape(count, -1),
            high.transpose(1, 0, 2).reshape(count, -1),
        )
