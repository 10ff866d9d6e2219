"""Ball: rows of numbers within a distance of a public center."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.analysis import Ellipsoid
from pymc_private.analysis import Interval as Bounds
from pymc_private.errors import DomainError
from pymc_private.models.domain import MOST_CELLS


@dataclass(frozen=True)
class Ball:
    """Rows r with ||(r - center) / scale||_2 <= radius; rows outside are moved in along their ray.

    Parameters
    ----------
    radius : float
        In units of `scale`.
    center, scale : float or sequence, one per column
        Public constants. Without them the ball is in the raw units of the columns: a column of ages
        would be crushed into [-radius, radius]. See `Scale` for columns that have natural ranges.
    """

    radius: float
    center: Any = 0.0
    scale: Any = 1.0

    def __post_init__(self) -> None:
        if not (
            np.isfinite(self.radius) and self.radius > 0 and np.all(np.asarray(self.scale) > 0)
        ):
            raise DomainError(
                "a ball needs a finite positive radius and positive scales",
                got=f"radius {self.radius}",
                allowed="radius > 0, scale > 0",
                do="declare the largest norm a record could have",
            )

    def __hash__(self) -> int:
        parts = (self.radius, self.center, self.scale)
        return hash(tuple(np.asarray(part, float).tobytes() for part in parts))

    def _parts(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        if len(shape) != 1:
            raise DomainError(
                "a ball is for variables with one row of numbers per record",
                got=f"shape {shape} per record",
                allowed="one axis besides the records axis",
                do="declare Interval(lower, upper) instead",
            )
        center = np.broadcast_to(np.asarray(self.center, float), shape)
        return center, np.broadcast_to(np.asarray(self.scale, float), shape)

    def clip(self, data: np.ndarray, axis: int) -> np.ndarray:
        """Shrink each row towards the center until it is inside (rounding included)."""
        if data.dtype != np.float64:
            raise DomainError(
                "a ball is for variables in double precision",
                got=str(data.dtype),
                allowed="float64, so that clipped rows are not rounded out of the ball again",
                do="give the variable as floats: X.astype(float)",
            )
        rows = np.moveaxis(data, axis, 0)
        center, scale = self._parts(rows.shape[1:])
        z = (rows - center) / scale
        norm = np.linalg.norm(z, axis=1)
        # Rows on the sphere may come out a hair beyond it; the bound allows the same hair.
        factor = np.where(norm > self.radius, self.radius / np.maximum(norm, self.radius), 1.0)
        moved = np.where((factor < 1.0)[:, None], center + scale * z * factor[:, None], rows)
        return np.moveaxis(moved, 0, axis)

    @property
    def _reach(self) -> float:
        """The radius with the rounding of `clip` added."""
        return self.radius * (1.0 + 1e-12)

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """The box around the ball, knowing that it is a ball."""
        center, scale = self._parts(shape)
        reach = scale * self._reach
        reach = reach * (1.0 + 1e-12) + np.abs(center) * 1e-12
        return Bounds(
            center - reach, center + reach, Ellipsoid(center, scale, self._reach * (1 + 1e-12))
        )

    def cells(self, shape: tuple[int, ...], whole: bool) -> list[Bounds]:
        """One cell: the ball."""
        return [self.bounds(shape)]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Center, axes and diagonals."""
        center, scale = self._parts(shape)
        width = shape[0]
        eye = np.eye(width)
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * min(width, 5))).reshape(min(width, 5), -1).T
        diagonals = np.ones((len(signs), width))
        diagonals[:, : signs.shape[1]] = signs
        directions = np.vstack([np.zeros((1, width)), eye, -eye, diagonals / np.sqrt(width)])
        return [center + scale * self.radius * d for d in directions[:MOST_CELLS]]
