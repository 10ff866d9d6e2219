"""The domain of rows of counts with a public total."""

from __future__ import annotations

import itertools
import math
import numpy as np
from dataclasses import dataclass
from pymc_private.analysis import Interval as Bounds, SimplexRows
from pymc_private.errors import DomainError
from pymc_private.models.domains import MOST_CELLS, numbers

@dataclass(frozen=True)
class Counts:
    """Rows of whole numbers >= 0 with one public sum, as of a multinomial; others are refused.

    Parameters
    ----------
    total : int
        The sum of every row.

    Examples
    --------
    >>> Counts(5)
    Counts(total=5)
    """

    total: int

    def __post_init__(self) -> None:
        total = numbers(self.total)
        if (
            isinstance(self.total, bool)
            or total.ndim
            or not (0 <= total == np.floor(total) < np.inf)
        ):
            raise DomainError(
                "the total of a row of counts is a whole number",
                got=repr(self.total)[:60],
                allowed="total >= 0",
            )

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Unchanged, or `DomainError` (without quoting a row)."""
        if data.ndim < 2 or np.any(data < 0) or np.any(data != np.floor(data)):
            raise DomainError(
                "rows of counts are whole numbers >= 0, with an axis besides the records axis",
                do="declare Interval(low, high) instead",
            )
        if np.any(np.moveaxis(data, axis, 0).sum(axis=-1) != self.total):
            raise DomainError(
                "a row does not have the declared total",
                allowed=f"rows that sum to {self.total}",
                do="declare the total every record has, or leave such records out",
            )
        return data

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """[0, total] with rows known to have their sum."""
        total = float(self.total)
        return Bounds(np.zeros(shape), np.full(shape, total), SimplexRows(total))

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """Every row, where there are few; else one cell for all."""
        width = shape[-1]
        several = len(shape) > 1 and math.prod(shape[:-1]) > 1
        if several or math.comb(self.total + width - 1, width - 1) > min(most, MOST_CELLS):
            return [self.bounds(shape)]
        return [Bounds.point(row.reshape(shape)) for row in self._rows(width)]

    def _rows(self, width: int) -> list[np.ndarray]:
        """All ways to put `width` - 1 bars between `total` stars."""
        places = itertools.combinations(range(self.total + width - 1), width - 1)
        edges = [(-1, *bars, self.total + width - 1) for bars in places]
        return [np.diff(edge).astype(float) - 1.0 for edge in edges]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """All in one place, and as even as can be."""
        width = shape[-1]
        even = np.full(width, float(self.total // width))
        even[: self.total % width] += 1.0
        rows = [*(np.eye(width) * self.total), even]
        return [np.broadcast_to(row, shape).copy() for row in rows[:MOST_CELLS]]
