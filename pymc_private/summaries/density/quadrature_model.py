"""The density of one record together with the quadrature nodes of its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.summaries.density.outcome_nodes import OutcomeNodes, outcome_nodes
from pymc_private.summaries.density.outcome_support import OutcomeSupport
from pymc_private.summaries.density.peak_knots import PeakKnots
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.scores.clipped_scores import Rows


@dataclass(frozen=True, eq=False)
class QuadratureModel:
    """What clipped scores read of a model: see `clipped_scores.RecordModel`.

    Parameters
    ----------
    density : RecordDensity
    support : OutcomeSupport
    knots : PeakKnots, optional
        Between which peaks of rows are interpolated; default: they are searched for.
    """

    density: RecordDensity
    support: OutcomeSupport
    knots: PeakKnots | None = None

    @property
    def parameters(self) -> Any:
        """The parameters as one vector."""
        return self.density.parameters

    def predictors(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Values of the predictors, shape (N, m)."""
        return self.density.predictors(theta, rows)

    def jacobian(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Derivatives of the predictors in the parameters, shape (N, m, p)."""
        return self.density.jacobian(theta, rows)

    def scores(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Derivatives of log p(y | .) in the predictors, shape (N, Q, m)."""
        return self.density.scores(predictors, rows, y)

    def log_density(self, theta: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Log p(y | rows, theta), shape (S, N, Q)."""
        return self.density.log_density(theta, rows, y)

    def nodes(self, predictors: np.ndarray, rows: Rows) -> OutcomeNodes:
        """Nodes of the outcome of each row, from the density of that row alone."""
        if self.knots is not None:
            return self.knots.nodes(self.density, self.support, predictors, rows)
        return outcome_nodes(
            lambda y: self.density.log_density_at(predictors, rows, y),
            self.support,
            rows=len(predictors),
            entries=rows,
        )
