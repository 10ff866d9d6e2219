"""Nodes of outcomes whose peaks are interpolated between knots of one predictor.

To find where the density of a row has its peak and how far its sides reach takes some 500
evaluations (`outcome_nodes`), and its nodes 65. Where a density reads its row by predictors alone,
of which one differs from row to row (all regressions with one linear predictor), peaks are searched
for at multiples of a public step of this predictor, those beside the rows', and interpolated. In a
location family that is where they are.

Peaks say where nodes lie; the masses of nodes are values of the row's own density. They sum to one
to `NEAR_ONE`, or the row's peak is searched for after all. A row's nodes are functions of the row
alone, to the bit: of its predictors and of densities at the two knots beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.summaries.density.outcome_nodes import (
    OutcomeNodes,
    Peaks,
    find_peaks,
    outcome_nodes,
)
from pymc_private.summaries.density.outcome_support import OutcomeSupport

Rows = Mapping[str, np.ndarray]
KNOTS = 32
"""Knots over the spread of the predictor among rows of the reference."""
DRAWS, SEED = 9, 20261127
"""Parameters from the prior at which the spread is taken; its median counts."""
NEAR_ONE = 1e-7
"""Largest error of a total probability of interpolated nodes."""


@dataclass(frozen=True)
class PeakKnots:
    """Knots of one predictor.

    Attributes
    ----------
    place : int
        Which predictor differs from row to row.
    step : float
        Distance of two knots.
    """

    place: int
    step: float

    def nodes(
        self, density: Any, support: OutcomeSupport, predictors: np.ndarray, rows: Rows
    ) -> OutcomeNodes:
        """Nodes of the outcome of each row; `density` is a `RecordDensity`."""
        predictors = np.asarray(predictors, dtype=float)
        with np.errstate(all="ignore"):
            peaks = self._peaks(density, support, predictors, rows)
        found = outcome_nodes(_density(density, predictors, rows), support, len(predictors), rows, peaks)
        far = np.flatnonzero(~(np.abs(found.total - 1.0) <= NEAR_ONE))
        if not len(far):
            return found
        some = {name: np.asarray(array)[far] for name, array in rows.items()}
        own = outcome_nodes(_density(density, predictors[far], some), support, len(far), some)
        parts = found.values, found.mass, found.clipped, found.total
        for whole, part in zip(parts, (own.values, own.mass, own.clipped, own.total), strict=True):
            whole[far] = part
        return found

    def _peaks(
        self, density: Any, support: OutcomeSupport, predictors: np.ndarray, rows: Rows
    ) -> Peaks:
        """Peaks of each row between those at the knots beside it."""
        place = predictors[:, self.place] / self.step
        below = np.floor(place)
        ends = np.concatenate([predictors, predictors])
        ends[:, self.place] = np.concatenate([below, below + 1.0])
        knots, which = _distinct(ends, self.place)
        knots[:, self.place] *= self.step
        none = {
            name: np.zeros((len(knots), *np.shape(array)[1:]), np.asarray(array).dtype)
            for name, array in rows.items()
        }
        peaks = find_peaks(_density(density, knots, none), support, len(knots))
        low, high = peaks.at(which[: len(place)]), peaks.at(which[len(place) :])
        return low.towards(high, (place - below)[:, None], support.kind == "integer")


def _density(density: Any, predictors: np.ndarray, rows: Rows) -> Any:
    return lambda y: density.log_density_at(predictors, rows, y)


def _distinct(points: np.ndarray, place: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an array without repetitions, and which of them each row is."""
    if (points == points[:1])[:, np.arange(points.shape[1]) != place].all():
        values, which = np.unique(points[:, place], return_inverse=True)
        found = np.repeat(points[:1], len(values), axis=0)
        found[:, place] = values
        return found, which.reshape(-1)
    found, which = np.unique(points, axis=0, return_inverse=True)
    return found, which.reshape(-1)


def peak_knots(density: Any, support: OutcomeSupport, rows: Rows) -> PeakKnots | None:
    """Knots for a density, `RecordDensity`, and public rows; None where peaks are searched for."""
    reads = np.flatnonzero(density.reads_rows)
    is_one = support.kind != "finite" and support.modes == 1 and not support.differs_by_row
    if not is_one or len(reads) != 1 or not density.reads_row_by_predictors:
        return None
    place, parameters = int(reads[0]), density.parameters
    sd = np.sqrt(np.diag(parameters.covariance))
    steps = np.random.default_rng(SEED).standard_normal((DRAWS, len(sd)))
    with np.errstate(all="ignore"):
        spreads = [
            float(np.ptp(density.predictors(theta, rows)[:, place]))
            for theta in parameters.mean + steps * sd
        ]
    spread = float(np.median(spreads))
    return PeakKnots(place, spread / KNOTS) if 0.0 < spread < np.inf else None
