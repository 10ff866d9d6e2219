"""Predictors X z + b as exact numbers, as floats with bounds, and as balls.

Row i is X_i = W a_i with the coefficients a_i of a record and the scales W of the prior, and
b_i = offset_i + <a_i, center>: all of a, W, center and offset are doubles, and none of the
arithmetic is rounded but in the floats.
"""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from flint import arb, arb_mat
from pymc_private.samplers.verified.arithmetic import LOOSE, StrictCurve, TINY, gamma

AT_ONCE = 2**19
"""Numbers in one matrix of balls."""
KEPT = 2**20
"""Numbers up to which balls are kept."""
BLOCK = 32
"""Least number of records whose slopes are added at once: errors of sums grow with their length."""


@dataclass(frozen=True, eq=False)
class Records:
    """What a posterior is made of.

    Parameters
    ----------
    raw : array, shape (N, d)
        Coefficients of the parameters.
    offset : array, shape (N,)
    center, scale : array, shape (d,)
        The parameters are center + scale z, z standard normal under the prior.
    curve : StrictCurve
    lower, upper : array, shape (d,)
        Ends of the parameters; may be infinite.
    """

    raw: np.ndarray
    offset: np.ndarray
    center: np.ndarray
    scale: np.ndarray
    curve: StrictCurve
    lower: np.ndarray
    upper: np.ndarray

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return self.raw.shape[1]

    @cached_property
    def is_bounded(self) -> bool:
        """Whether there is a wall anywhere."""
        return bool(np.isfinite(self.lower).any() or np.isfinite(self.upper).any())

    @cached_property
    def walls(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Ends of z in floats, and a bound of what each pair of them is off."""
        low, high = ((end - self.center) / self.scale for end in (self.lower, self.upper))
        far = sum(np.where(np.isfinite(end), np.abs(end), 0.0) for end in (low, high))
        return low, high, 2.0**-51 * (far + np.abs(self.center / self.scale)) + TINY

    def wall_balls(self) -> tuple[list[arb | None], list[arb | None]]:
        """Ends of z in balls; None where there is none."""
        center, scale = exact(self.center), exact(self.scale)
        low, high = (
            [
                (arb(float(e)) - c) / s if math.isfinite(e) else None
                for e, c, s in zip(end, center, scale, strict=True)
            ]
            for end in (self.lower, self.upper)
        )
        return low, high

    @cached_property
    def rows(self) -> np.ndarray:
        """X in floats, shape (N, d)."""
        return self.raw * self.scale

    @cached_property
    def level(self) -> np.ndarray:
        """Offsets b in floats, shape (N,)."""
        return self.offset + self.raw @ self.center

    @cached_property
    def bounds(self) -> np.ndarray:
        """Bounds of floats, shape (N, 4).

        Of |X_i|; of the error of X_i; per unit of |z|, of the error of <X_i, z> in floats with that
        of X_i in it; and of the error that b_i adds to the predictor.
        """
        size = norm(self.rows) * LOOSE + TINY
        own = 2.0**-52 * size + TINY
        at = np.abs(self.offset) + norm(self.raw) * norm(self.center) + TINY
        shift = gamma(self.dimension + 2) * at * LOOSE + 2.0**-51 * np.abs(self.level)
        return np.stack([size, own, gamma(self.dimension + 2) * size + own, shift], axis=1)

    def predictors(self, z: np.ndarray) -> np.ndarray:
        """X z + b in floats, shape (N, chains)."""
        return self.rows @ z.T + self.level[:, None]

    def gradient(self, slope: np.ndarray) -> np.ndarray:
        """X' slope in floats, shape (chains, d), as a sum of short sums."""
        size = block(len(self.rows))
        parts = [
            slope[k : k + size].T @ self.rows[k : k + size] for k in range(0, len(self.rows), size)
        ]
        return np.sum(parts, axis=0) if parts else np.zeros((slope.shape[1], self.dimension))

    def theta(self, z: list[arb]) -> list[arb]:
        """The parameters in balls, from whitened coordinates."""
        center, scale = exact(self.center), exact(self.scale)
        return [c + s * x for c, s, x in zip(center, scale, z, strict=True)]

    def balls(self) -> Iterator[tuple[int, arb_mat, list[arb]]]:
        """Blocks of records, exact: number of the first, raw, offset."""
        yield from self._kept if self._kept is not None else self._blocks()

    @cached_property
    def _kept(self) -> list[tuple[int, arb_mat, list[arb]]] | None:
        return list(self._blocks()) if self.raw.size <= KEPT else None

    def _blocks(self) -> Iterator[tuple[int, arb_mat, list[arb]]]:
        n, d = self.raw.shape
        step = max(1, AT_ONCE // max(d, 1))
        for start in range(0, n, step):
            part = self.raw[start : start + step]
            yield (
                start,
                arb_mat(len(part), d, exact(part.ravel())),
                exact(self.offset[start : start + step]),
            )


def block(n: int) -> int:
    """Length of the short sums that n terms are added in."""
    return max(BLOCK, math.isqrt(n))


def additions(n: int) -> int:
    """Additions that a term of a sum of n goes through, at most."""
    return min(n, block(n)) + n // block(n) + 1


def norm(values: np.ndarray) -> np.ndarray:
    """Euclidean norms along the last axis, of any scale; above the real ones when LOOSE times."""
    largest = np.abs(values).max(axis=-1, initial=0.0)
    safe = np.where((largest > 0.0) & np.isfinite(largest), largest, 1.0)
    unit = np.sqrt(np.sum((values / safe[..., None]) ** 2, axis=-1))
    return np.where(np.isfinite(largest), safe * unit * LOOSE, np.inf)


def exact(values: np.ndarray) -> list[arb]:
    """Doubles as balls without a radius."""
    return [arb(float(v)) for v in values]
