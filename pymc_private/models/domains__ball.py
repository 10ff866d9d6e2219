"""Ball: rows of numbers within a distance of a public center."""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass
from typing import Any
from pymc_private.analysis import Ellipsoid, Interval as Bounds
from pymc_private.errors import DomainError
from pymc_private.models.domains import MOST_CELLS, numbers

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
        radius, center, scale = (numbers(part) for part in (self.radius, self.center, self.scale))
        finite = all(np.isfinite(part).all() for part in (radius, center, scale))
        if not (radius.ndim == 0 and finite and radius > 0 and np.all(scale > 0)):
            raise DomainError(
                "a ball needs a finite center, a positive radius and positive scales",
                got=f"radius {self.radius!r}, center {self.center!r}, scale {self.scale!r}"[:120],
                allowed="one radius > 0, scale > 0, all finite",
                do="declare the largest norm a record could have",
            )

    def _key(self) -> tuple[bytes, ...]:
        parts = (self.radius, self.center, self.scale)
        return tuple(np.asarray(part, float).tobytes() for part in parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ball) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _parts(self, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
        if len(shape) != 1:
            raise DomainError(
                "a ball is for variables with one row of numbers per record",
                got=f"shape {shape} per record",
                allowed="one axis besides the records axis",
                do="declare Interval(lower, upper) instead",
            )
        try:
            center = np.broadcast_to(np.asarray(self.center, float), shape)
            return center, np.broadcast_to(np.asarray(self.scale, float), shape)
        except ValueError as error:
            raise DomainError(
                "the center or the scale of a ball does not fit the variable",
                got=f"shapes {np.shape(self.center)} and {np.shape(self.scale)}",
                allowed=f"a number, or one per column: shape {shape}",
            ) from error

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
        with np.errstate(all="ignore"):  # no warning may depend on the data
            moved = self._moved(rows, center, scale)
        return np.moveaxis(moved, 0, axis)

    def _moved(self, rows: np.ndarray, center: np.ndarray, scale: np.ndarray) -> np.ndarray:
        z = (rows - center) / scale
        norm = np.linalg.norm(z, axis=1)
        # Rows on the sphere may come out a hair beyond it; the bound allows the same hair.
        factor = np.where(norm > self.radius, self.radius / np.maximum(norm, self.radius), 1.0)
        inward = np.nan_to_num(scale * z * factor[:, None], posinf=0.0, neginf=0.0)  # z overflowed
        return np.where((factor < 1.0)[:, None], center + inward, rows)

    def _reach(self, center: np.ndarray, scale: np.ndarray) -> float:
        """The radius with the rounding of `clip` added: relative, and that of a far center."""
        far = float(np.sqrt(((center / scale) ** 2).sum()))
        return self.radius * (1.0 + 1e-12) + far * 1e-15

    def bounds(self, shape: tuple[int, ...]) -> Bounds:
        """The box around the ball, knowing that it is a ball."""
        center, scale = self._parts(shape)
        radius = self._reach(center, scale)
        reach = scale * radius * (1.0 + 1e-12) + np.abs(center) * 1e-15
        return Bounds(center - reach, center + reach, Ellipsoid(center, scale, radius))

    def cells(self, shape: tuple[int, ...], whole: bool, most: int) -> list[Bounds]:
        """One cell: the ball."""
        return [self.bounds(shape)]

    def corners(self, shape: tuple[int, ...]) -> list[np.ndarray]:
        """Center, diagonals both ways, and axes."""
        center, scale = self._parts(shape)
        width = shape[0]
        eye = np.eye(width)
        signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * min(width, 5))).reshape(min(width, 5), -1).T
        diagonals = np.ones((len(signs), width))
        diagonals[:, : signs.shape[1]] = signs
        diagonals = diagonals / np.sqrt(width)
        opposite = -diagonals if width > 5 else diagonals[:0]  # of five entries there are all signs
        directions = np.vstack([np.zeros((1, width)), diagonals, opposite, eye, -eye])
        return [center + scale * self.radius * d for d in directions[:MOST_CELLS]]
