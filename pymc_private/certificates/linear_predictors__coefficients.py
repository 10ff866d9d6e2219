"""The coefficients a(x) of linear predictors, for every record of the domain.

Mostly a(x) is affine in a record: a(x) = a_0 + M x, with x in a product of boxes and balls, for
each choice of the record's categories (`jacobian` finds them). Then the greatest norm of W a(x)
over the domain follows from W a_0 and W M; otherwise from an interval for each entry.
"""

from __future__ import annotations

import itertools
import numpy as np
from collections.abc import Sequence
from dataclasses import dataclass

MOST_CORNERS = 12
"""Coordinates of a box whose corners are tried one by one."""
ROUNDING = 1e-9
"""Relative slack of a norm: far more than a few thousand float operations can lose."""


@dataclass(frozen=True, eq=False)
class Part:
    """One variable of a record, in coordinates r with |r|_2 <= 1 (a ball) or |r_i| <= 1 (a box).

    Parameters
    ----------
    matrix : array, shape (cells, predictors, parameters, coordinates)
        What r adds to the coefficients.
    is_ball : bool
    """

    matrix: np.ndarray
    is_ball: bool


@dataclass(frozen=True, eq=False)
class Coefficients:
    """a(x) of all predictors of a factor.

    Parameters
    ----------
    center : array, shape (cells, predictors, parameters)
    radius : array, shape (cells, predictors, parameters)
        Half-widths of intervals around it: rounding, or what is not affine in a record.
    parts : tuple of Part
    is_public : bool
        Whether no record changes a(x); then cells are the distinct public rows.
    """

    center: np.ndarray
    radius: np.ndarray
    parts: tuple[Part, ...]
    is_public: bool

    def norms(self, whitener: np.ndarray) -> np.ndarray:
        """sup |W a_j(x)| in each cell, shape (cells, predictors).

        Parameters
        ----------
        whitener : array, shape (any, parameters)
            W; mu of T7 takes P^(-1/2), or any W with W'W = P^-1.
        """
        with np.errstate(over="ignore", invalid="ignore"):  # NaN: nothing is known
            center = self.center @ whitener.T
            # Of sums that cancel, the rounding is that of their terms.
            size = np.abs(self.center) + sum(np.abs(p.matrix).sum(axis=-1) for p in self.parts)
            rounding = 2.0 * (len(whitener.T) + 4) * float(np.finfo(float).eps)
            loose = (self.radius + rounding * size) @ np.abs(whitener).T
            parts = [np.einsum("oi,cpij->cpoj", whitener, part.matrix) for part in self.parts]
            found = np.zeros(center.shape[:2])
            for rows, members in _blocks(center, loose, parts):
                own = [(parts[k][..., rows, :], k) for k in members]
                found = np.hypot(found, self._block(center[..., rows], loose[..., rows], own))
            return found * (1.0 + ROUNDING)

    def _block(
        self, center: np.ndarray, loose: np.ndarray, parts: Sequence[tuple[np.ndarray, int]]
    ) -> np.ndarray:
        """sup |c + sum_k N_k r_k| of some rows."""
        far = length(loose)
        boxes = [m for m, k in parts if not self.parts[k].is_ball]
        balls = [m for m, k in parts if self.parts[k].is_ball]
        for matrix in balls:
            far = far + _spectral(matrix)
        if not boxes:
            return far + length(center)
        joined = np.concatenate(boxes, axis=-1)
        return far + _over_box(center, joined)

    def touched(self, whitener: np.ndarray) -> np.ndarray:
        """Which rows of W a_j(x) may differ from zero, shape (predictors, rows)."""
        used = np.abs(self.center) + self.radius
        for part in self.parts:
            used = used + np.abs(part.matrix).sum(axis=-1)
        return (used.max(axis=0) @ np.abs(whitener).T) > 0.0

    def fixed(self, whitener: np.ndarray) -> np.ndarray:
        """Rows of W a(x) that are one number for all records, shape (rows,)."""
        center = self.center @ whitener.T
        moving = np.any(self.radius @ np.abs(whitener).T > 0.0, axis=(0, 1))
        moving |= np.any(np.ptp(center, axis=0) > 0.0, axis=0)
        for part in self.parts:
            touched = np.abs(part.matrix).sum(axis=-1) @ np.abs(whitener).T
            moving |= np.any(touched > 0.0, axis=(0, 1))
        return ~moving

    def outer(self, weights: np.ndarray) -> np.ndarray:
        """sum_j weight_j a_j a_j', where a is one and the same for every record."""
        return np.einsum("pi,p,pj->ij", self.center[0], weights, self.center[0])

    @property
    def is_constant(self) -> bool:
        """Whether a is one and the same for every record, public rows included."""
        return self.is_public and len(self.center) == 1 and not self.parts


def length(x: np.ndarray, axis: int = -1) -> np.ndarray:
    """The l2 norm, whose squares neither overflow nor vanish."""
    scale = _scale(x, axis)
    return np.linalg.norm(x / scale, axis=axis) * np.squeeze(scale, axis=axis)


def _spectral(matrix: np.ndarray) -> np.ndarray:
    """The greatest singular value; infinite where an entry is."""
    scale = _scale(matrix, (-2, -1))
    known = np.isfinite(matrix)
    values = np.linalg.norm(np.where(known, matrix / scale, 0.0), ord=2, axis=(-2, -1))
    return np.where(known.all(axis=(-2, -1)), values * scale[..., 0, 0], np.inf)


def _scale(x: np.ndarray, axis: int | tuple[int, ...]) -> np.ndarray:
    scale = np.max(np.abs(x), axis=axis, keepdims=True, initial=0.0)
    return np.where((scale > 0.0) & np.isfinite(scale), scale, 1.0)


def _over_box(center: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """sup of |c + N r| over |r_i| <= 1: at a corner, or not above the corner of the sums."""
    count = matrix.shape[-1]
    each = length(np.abs(center) + np.abs(matrix).sum(axis=-1))
    if count > MOST_CORNERS:
        return each
    signs = np.array(list(itertools.product([-1.0, 1.0], repeat=count)))
    most = np.zeros(center.shape[:2])
    for sign in signs:
        most = np.maximum(most, length(center + matrix @ sign))
    return np.minimum(most, each)


def _blocks(
    center: np.ndarray, loose: np.ndarray, parts: Sequence[np.ndarray]
) -> list[tuple[np.ndarray, list[int]]]:
    """Rows that share no part of a record: their squared norms add, each at its own greatest."""
    touched = [np.any(m != 0.0, axis=(0, 1, 3)) for m in parts]
    groups: list[tuple[np.ndarray, list[int]]] = []
    for k, rows in enumerate(touched):
        merged, members = rows.copy(), [k]
        rest = []
        for other, ks in groups:
            if np.any(other & merged):
                merged, members = merged | other, members + ks
            else:
                rest.append((other, ks))
        groups = [*rest, (merged, members)]
    taken = np.zeros(center.shape[-1], dtype=bool)
    for rows, _ in groups:
        taken |= rows
    free = ~taken & (np.any(center != 0.0, axis=(0, 1)) | np.any(loose != 0.0, axis=(0, 1)))
    if free.any():
        groups.append((free, []))
    return [(rows, members) for rows, members in groups if rows.any()]
