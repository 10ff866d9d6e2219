"""Noisy counts of cells as part of a check: contrasts that are read of them, and their null."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.criticism.check_result import DepartureTest
from pymc_private.criticism.check_statistic import weighted_quantiles
from pymc_private.criticism.directions import PredictorDensity, location_of
from pymc_private.criticism.fitted_summary import FittedSummary
from pymc_private.criticism.null_distribution import null_distribution
from pymc_private.criticism.pit_cells import BINS, CONTRASTS, PitCells, contrast_weights
from pymc_private.criticism.planned_test import Chunks, Forecast
from pymc_private.errors import Unsupported
from pymc_private.summaries.noise import NoiseScale
from pymc_private.summaries.protocol import SumNoise

CELLS = "cells"
UNIT = "departure of the shares of cells, relative, root mean square"
MOST_RECORDS = 50_000
"""Records of a continuous outcome beyond which an error of .004 in F is no longer small."""
CELL_BOUND = 1.0
"""Largest norm of what a record adds."""


@dataclass(frozen=True, eq=False)
class PlannedCells:
    """Noisy counts of all cells, and contrasts of them (T38).

    Attributes
    ----------
    pit : PitCells
    mu : float
    noise_sd : float
        Of each count.
    weights : tuple of array, shape (B, O)
        Of each contrast.
    forecasts : tuple of Forecast
        Of each contrast.
    """

    pit: PitCells
    mu: float
    noise_sd: float
    weights: tuple[np.ndarray, ...]
    forecasts: tuple[Forecast, ...]

    @property
    def constants(self) -> list[Any]:
        """Public constants, for a fingerprint."""
        pit = self.pit
        facts = [forecast.facts for forecast in self.forecasts]
        return [facts, pit.theta.tolist(), pit.edges.tolist(), pit.size]

    def release(self, chunks: Chunks, noise: SumNoise) -> np.ndarray:
        """Noisy counts of the records, shape (B, O)."""
        terms = (self.pit.terms(rows, y)[:count] for rows, y, count in chunks)
        return self.pit.counts(noise.total(terms, CELL_BOUND, True, self.mu))

    def numbers(self, released: np.ndarray) -> list[float]:
        """The noisy number of each contrast."""
        return [float((weights * released).sum()) for weights in self.weights]

    def tested_all(self, released: np.ndarray, level: float) -> list[DepartureTest]:
        """What the released counts say by each contrast."""
        pairs = zip(self.forecasts, self.numbers(released), strict=True)
        return [forecast.tested(number, level) for forecast, number in pairs]

    def cells(self, released: np.ndarray) -> dict[str, Any]:
        """The noisy counts, for plots."""
        return {"counts": np.asarray(released).tolist(), "noise_sd": self.noise_sd}


def planned_cells(
    fit: FittedSummary,
    density: PredictorDensity,
    continuous: bool,
    scale: NoiseScale,
    mu: float,
) -> PlannedCells:
    """Cells and contrasts at a budget of mu; see `PitCells` for `continuous`.

    Raises
    ------
    Unsupported
        No single predictor depends on covariates; or F is too rough for so many records.
    """
    if continuous:
        _refuse_many_records(fit.count)
    location = location_of(density)
    eta = fit.scored.predictors[:, location]
    shares = tuple((k + 1) / BINS for k in range(BINS - 1))
    edges = weighted_quantiles(eta, fit.weights, shares)
    pit = PitCells(fit.model, fit.mean, location, edges, continuous)
    size = pit.bins * pit.size
    noise_sd = scale.sd(CELL_BOUND, True, mu, size * (size + 1) // 2)
    weights, forecasts = [], []
    for name, degrees in CONTRASTS.items():
        if fit.scored.values.shape[1] <= 2 and degrees[1] > 1:
            continue  # an outcome of two values has one contrast of F
        each = contrast_weights(pit.bins, pit.size, degrees)
        values, within = pit.contrast(each, fit.scored)
        null = null_distribution(fit, values, float((fit.mass * within).sum()))
        weights.append(each)
        forecasts.append(
            Forecast(
                name=f"{CELLS}: {name}",
                unit=UNIT,
                bound=CELL_BOUND,
                mu=mu,
                noise_sd=noise_sd,
                null=null,
                sensitivity=fit.count / float(np.sqrt(size)),
            )
        )
    return PlannedCells(pit, mu, noise_sd, tuple(weights), tuple(forecasts))


def _refuse_many_records(count: float) -> None:
    """Refuse so many records that the error of an interpolated F would show."""
    if count > MOST_RECORDS:
        raise Unsupported(
            "cells of a continuous outcome rest on an interpolated distribution function, which is "
            "too rough for so many records; nothing was charged",
            got=f"more than {MOST_RECORDS} records",
            allowed=f"up to {MOST_RECORDS}",
            do="named departures: 'tails', 'skewness', 'link', 'heteroscedasticity(x)'",
        )
