r"""Coordinates in which the posterior of a hierarchy is nearly normal: what records read, and rest.

With effects mean + sd * offset the parameters offset and sd are bound to each other by the records:
where these say much, no normal proposal in (mean, sd, offset) comes near the posterior. The same
posterior in (mean, sd, a), a = mean + sd * offset what records read, has the likelihood of a alone.
Where a is affine in some of the parameters given the others,

    a = b(r) + J(r) z,    theta = (r, z),    u = (r, a),

J square and regular, theta is a function of u with log |d theta / d u| = -log |det J(r)|.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.summaries.importance import (
    LogDensity,
    WeightedDraws,
    importance_draws,
    proper_covariance,
)
from pymc_private.summaries.scores.read_parameters import ReadCoefficients

INDEPENDENT = 1e-6
"""Share of a column that has to be left when earlier ones are projected out."""
POINTS = 5
"""Draws of the prior at which it is tried whether coefficients are affine."""
AFFINE = 1e-6
"""Most difference of an affine function, relative to its size, that is rounding."""
MOST_NUMBERS = 4_000_000
"""Of the derivatives of one batch."""
FEW_EFFECTIVE, MORE_DRAWS, ATTEMPTS = 300.0, 8, 3
"""Effective draws below which more are taken, by how many, and how often."""


@dataclass(frozen=True, eq=False)
class ReadCoordinates:
    """The bijection of theta (p,) and u = (r, a).

    Attributes
    ----------
    read : ReadCoefficients
    within, rest : int array, shapes (q,) and (p - q,)
        Places of z and of r in theta.
    """

    read: ReadCoefficients
    within: np.ndarray
    rest: np.ndarray

    @classmethod
    def of(cls, read: ReadCoefficients) -> ReadCoordinates | None:
        """Those of a hierarchy; None where coefficients are not affine in as many parameters.

        Parameters of large arrays come first, so that r are means and scales.
        """
        points = read.whole.pool[:POINTS]
        slopes = _slopes(read, points, np.arange(read.whole.size))
        order = _larger_first(read)
        within = order[_independent(slopes[0][:, order])]
        if len(within) < read.size:
            return None
        found = cls(read, np.sort(within), np.setdiff1d(order, within))
        return found if found._is_affine(points) else None

    def _is_affine(self, points: np.ndarray) -> bool:
        """Whether a moves by J(r) times what z moves by, at draws with z of other draws."""
        moved = np.array(points)
        moved[:, self.within] = np.roll(points, 1, axis=0)[:, self.within]
        slopes = _slopes(self.read, points, self.within)
        steps = np.einsum("sab,sb->sa", slopes, (moved - points)[:, self.within])
        before, after = self.read.of(points), self.read.of(moved)
        size = 1.0 + np.abs(before) + np.abs(after)
        return bool((np.abs(after - before - steps) <= AFFINE * size).all())

    def coordinates(self, theta: np.ndarray) -> np.ndarray:
        """u of vectors theta (S, p)."""
        return np.concatenate([theta[:, self.rest], self.read.of(theta)], axis=1)

    def parameters(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Theta of vectors u (S, p), and log |d theta / d u| (S,); NaN where J is singular."""
        size = max(1, MOST_NUMBERS // self.read.size**2)
        parts = [self._batch(u[k : k + size]) for k in range(0, len(u), size)]
        return np.concatenate([p for p, _ in parts]), np.concatenate([d for _, d in parts])

    def _batch(self, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        theta = np.zeros_like(u)
        theta[:, self.rest] = u[:, : len(self.rest)]
        slopes = _slopes(self.read, theta, self.within, step=1.0)  # affine: differences are exact
        away = u[:, len(self.rest) :] - self.read.of(theta)
        with np.errstate(all="ignore"):
            sign, logs = np.linalg.slogdet(slopes)
        regular = (sign != 0.0) & np.isfinite(logs) & np.isfinite(away).all(axis=1)
        theta[~regular] = np.nan
        theta[np.ix_(regular, self.within)] = np.linalg.solve(
            slopes[regular], away[regular][..., None]
        )[..., 0]
        return theta, np.where(regular, -logs, np.nan)

    def normal(self, center: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A normal approximation in theta as one in u, to first order."""
        moved = self._first_order(center)
        return self.coordinates(center[None])[0], moved @ covariance @ moved.T

    def _first_order(self, center: np.ndarray) -> np.ndarray:
        own = np.eye(len(center))[self.rest]
        slopes = _slopes(self.read, center[None], np.arange(len(center)))[0]
        return np.concatenate([own, slopes])


def hierarchy_draws(
    read: Any, density: LogDensity, start: tuple[np.ndarray, np.ndarray], seed: int, draws: int
) -> WeightedDraws:
    """Weighted draws of a posterior, in either coordinates where few have the weight.

    Parameters
    ----------
    read : ParameterVector or ReadCoefficients
    density : callable
        Log density of all parameters, (S, p) to (S,).
    start : tuple of array
        Center (p,) and covariance (p, p) of a normal approximation.
    seed : int
        A public one.
    draws : int

    Returns
    -------
    WeightedDraws
        Those with most effective draws, which may be few.
    """
    rng = np.random.default_rng(seed)
    found = importance_draws(density, *start, rng, draws)
    for _ in range(ATTEMPTS):
        if found.effective >= FEW_EFFECTIVE:
            break
        again = [importance_draws(density, *start, rng, MORE_DRAWS * draws)]
        again += _draws_of_coefficients(read, density, start, rng, draws)
        found = max(found, *again, key=lambda one: one.effective)
        start = found.mean, proper_covariance(found.covariance)
    return found


def _draws_of_coefficients(
    read: Any,
    density: LogDensity,
    start: tuple[np.ndarray, np.ndarray],
    rng: np.random.Generator,
    draws: int,
) -> list[WeightedDraws]:
    """Weighted draws by proposals of what records read; none where that is all."""
    coordinates = ReadCoordinates.of(read) if isinstance(read, ReadCoefficients) else None
    if coordinates is None:
        return []

    def moved(u: np.ndarray) -> np.ndarray:
        theta, logs = coordinates.parameters(u)
        with np.errstate(all="ignore"):
            return np.where(np.isfinite(logs), density(np.nan_to_num(theta)) + logs, -np.inf)

    found = importance_draws(moved, *coordinates.normal(*start), rng, draws)
    theta, _ = coordinates.parameters(found.points)
    return [WeightedDraws(np.nan_to_num(theta), found.weights)]


def _slopes(
    read: ReadCoefficients, theta: np.ndarray, places: np.ndarray, step: float = 1e-4
) -> np.ndarray:
    """Derivatives of coefficients in some parameters at (S, p), by differences: (S, q, places)."""
    found = np.empty((len(theta), read.size, len(places)))
    for k, place in enumerate(places):
        shift = np.zeros(theta.shape[1])
        shift[place] = step
        found[:, :, k] = (read.of(theta + shift) - read.of(theta - shift)) / (2.0 * step)
    return found


def _larger_first(read: ReadCoefficients) -> np.ndarray:
    """Places of all parameters, those of large arrays first."""
    slices = sorted(read.whole.slices.values(), key=lambda part: part.start - part.stop)
    return np.concatenate([np.arange(part.start, part.stop) for part in slices])


def _independent(columns: np.ndarray) -> list[int]:
    """The first columns that are linearly independent."""
    basis, chosen = np.zeros((len(columns), 0)), []
    for k, column in enumerate(columns.T):
        left = column - basis @ (basis.T @ column)
        left = left - basis @ (basis.T @ left)
        size = float(np.linalg.norm(left))
        if size > INDEPENDENT * float(np.linalg.norm(column)) and size > 0.0:
            basis = np.column_stack([basis, left / size])
            chosen.append(k)
    return chosen
