"""Public scaling of raw columns, so that a ball on them is meant and not met by surprise."""

from __future__ import annotations

import numpy as np
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.models.domains__ball import Ball
from pymc_private.models.domains import numbers

@dataclass(frozen=True)
class Scale:
    """Public column ranges that map raw columns into a ball of radius one.

    ``(x - middle) / half_width / sqrt(columns)`` has norm at most 1 for every x within the ranges,
    so ``Ball(1.0)`` then means what it says. The constants are public: take them from the
    questionnaire, never from the data.

    Parameters
    ----------
    lower, upper : sequence of float
        One pair per column, in raw units.

    Examples
    --------
    >>> scale = Scale([1, 17.5], [5, 42])
    >>> scale([[5, 42]]).round(4).tolist()
    [[0.7071, 0.7071]]
    >>> scale.ball
    Ball(radius=1.0, center=0.0, scale=1.0)
    """

    lower: Sequence[float]
    upper: Sequence[float]

    def __post_init__(self) -> None:
        low, high = numbers(self.lower), numbers(self.upper)
        if low.shape != high.shape or low.ndim != 1 or not np.all(low < high):
            raise DomainError(
                "a scale needs one lower and one greater upper end per column",
                got=f"shapes {low.shape} and {high.shape}",
                allowed="two sequences of equal length, lower < upper",
            )

    @property
    def center(self) -> np.ndarray:
        """Middle of each range."""
        return (np.asarray(self.lower, float) + np.asarray(self.upper, float)) / 2

    @property
    def half_width(self) -> np.ndarray:
        """Half of each range, times sqrt(columns)."""
        width = (np.asarray(self.upper, float) - np.asarray(self.lower, float)) / 2
        return width * np.sqrt(len(width))

    @property
    def ball(self) -> Ball:
        """The domain of scaled columns."""
        return Ball(1.0)

    @property
    def raw_ball(self) -> Ball:
        """The same ball for columns that stay in raw units (an ellipsoid)."""
        return Ball(1.0, tuple(self.center), tuple(self.half_width))

    def __call__(self, raw: Any) -> np.ndarray:
        """Scale raw columns, shape (n, columns)."""
        return (np.asarray(raw, float) - self.center) / self.half_width
