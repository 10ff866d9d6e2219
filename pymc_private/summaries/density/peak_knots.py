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
KNOTS = 16
"""Knots over the spread of the predictor among rows of the reference."""
DRAWS, SEED = 9, 20261127
"""Parameters from the prior at which the spread is taken; its median counts."""
MARGIN = 2.0
"""Knots on either side of those that a second chunk of records needs."""
MOST_KNOTS = 4096
"""No more are kept beside those of a chunk of records: scattered ones would share none."""
NEAR_ONE = 1e-6
"""Largest error of a total probability of interpolated nodes."""


class PeakKnots:
    """Knots of one predictor.

    Peaks at the last knots are kept, since chunks of records share most of theirs.

    Parameters
    ----------
    place : int
        Which predictor differs from row to row.
    step : float
        Distance of two knots.
    """

    def __init__(self, place: int, step: float) -> None:
        self.place, self.step = place, step
        self._kept: tuple[np.ndarray, np.ndarray, Peaks] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_kept": None}

    def nodes(
        self, density: Any, support: OutcomeSupport, predictors: np.ndarray, rows: Rows
    ) -> OutcomeNodes:
        """Nodes of the outcome of each row; `density` is a `RecordDensity`."""
        predictors = np.asarray(predictors, dtype=float)
        with np.errstate(all="ignore"):
            peaks = self._peaks(density, support, predictors, rows)
        if peaks is None:
            return _nodes(density, support, predictors, rows)
        found = _nodes(density, support, predictors, rows, peaks)
        far = np.flatnonzero(~(np.abs(found.total - 1.0) <= NEAR_ONE))
        if len(far):
            some = {name: np.asarray(array)[far] for name, array in rows.items()}
            own = _nodes(density, support, predictors[far], some)
            for name in ("values", "mass", "clipped", "total"):
                getattr(found, name)[far] = getattr(own, name)
        return found

    def _peaks(
        self, density: Any, support: OutcomeSupport, predictors: np.ndarray, rows: Rows
    ) -> Peaks | None:
        """Peaks of each row between those at the knots beside it.

        None where another predictor differs, which densities of this kind do not have.
        """
        others = np.delete(predictors, self.place, axis=1)
        if not (others == others[:1]).all():
            return None
        place = predictors[:, self.place] / self.step
        below = np.floor(place) + 0.0  # one zero
        below = np.where(np.isfinite(below), below, 0.0)  # of such rows no total is near one
        ends = np.concatenate([below, below + 1.0])
        knots, kept = self._knots(density, support, others[:1], ends, rows)
        at = np.searchsorted(knots, ends)
        low, high = kept.at(at[: len(place)]), kept.at(at[len(place) :])
        return low.towards(high, (place - below)[:, None], support.kind == "integer")

    def _knots(
        self,
        density: Any,
        support: OutcomeSupport,
        others: np.ndarray,
        ends: np.ndarray,
        rows: Rows,
    ) -> tuple[np.ndarray, Peaks]:
        """Knots, increasing, `ends` among them, and their peaks."""
        wanted, last = np.unique(ends), self._kept
        if last is not None and last[0].tobytes() == others.tobytes():
            if np.isin(wanted, last[1]).all():
                return last[1:]
            ends = np.concatenate([wanted, wanted - MARGIN, wanted + MARGIN, last[1]])
            more = np.unique(ends)
            wanted = more if len(more) <= MOST_KNOTS else wanted
        predictors = np.insert(np.repeat(others, len(wanted), axis=0), self.place, 0.0, axis=1)
        predictors[:, self.place] = wanted * self.step
        none = {
            name: np.zeros((len(wanted), *np.shape(array)[1:]), np.asarray(array).dtype)
            for name, array in rows.items()
        }
        peaks = find_peaks(_density(density, predictors, none), support, len(wanted))
        self._kept = others, wanted, peaks
        return wanted, peaks


def _density(density: Any, predictors: np.ndarray, rows: Rows) -> Any:
    return lambda y: density.log_density_at(predictors, rows, y)


def _nodes(
    density: Any,
    support: OutcomeSupport,
    predictors: np.ndarray,
    rows: Rows,
    peaks: Peaks | None = None,
) -> OutcomeNodes:
    return outcome_nodes(_density(density, predictors, rows), support, len(predictors), rows, peaks)


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
