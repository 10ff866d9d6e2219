r"""Parameters that records read, and those above them: hierarchies.

The density of a record given all parameters may read only some of them: with
alpha_g ~ N(mu, tau), records read alpha, and mu and tau act through the prior of alpha alone.
Scores are about the coordinates that are read, a, with the marginal prior of a as a normal
approximation for pilots and bounds; their likelihood L(a) is that of all parameters,

    p(z | a, b) = L(a),    p(a, b | z) ~ p(a, b) L(a),

and the exact prior p(a, b), the hierarchy itself, is PyMC's. What a summary tells of b it tells
through a.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.summaries.clipped_scores import RecordModel, Rows


@dataclass(frozen=True, eq=False)
class ReadParameters:
    """The coordinates of a parameter vector that records read.

    Parameters
    ----------
    whole : ParameterVector
        All p coordinates.
    places : array of int, shape (q,)
        Those that are read, increasing.
    """

    whole: Any
    places: np.ndarray

    @property
    def size(self) -> int:
        """q."""
        return len(self.places)

    @cached_property
    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        return self.whole.mean, self.whole.covariance

    @property
    def mean(self) -> np.ndarray:
        """Marginal prior mean, shape (q,)."""
        return self._moments[0][self.places]

    @property
    def covariance(self) -> np.ndarray:
        """Marginal prior covariance, shape (q, q)."""
        return self._moments[1][np.ix_(self.places, self.places)]

    def filled(self, part: np.ndarray) -> np.ndarray:
        """Whole vectors (..., p) with these coordinates (..., q), others at their prior mean."""
        mean, _ = self._moments
        found = np.broadcast_to(mean, (*np.shape(part)[:-1], len(mean))).copy()
        found[..., self.places] = part
        return found

    def extended(self, center: np.ndarray, covariance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Center and covariance of all coordinates, given those of the ones that are read.

        The others follow by linear regression in the prior, b = E b + B (a - E a) + rest.
        """
        mean, prior = self._moments
        others = np.setdiff1d(np.arange(len(mean)), self.places)
        cross = prior[np.ix_(others, self.places)]
        slope = np.linalg.solve(self.covariance, cross.T).T
        rest = prior[np.ix_(others, others)] - slope @ cross.T
        found, whole = mean.copy(), np.empty_like(prior)
        found[self.places] = center
        found[others] += slope @ (center - self.mean)
        whole[np.ix_(self.places, self.places)] = covariance
        whole[np.ix_(others, self.places)] = slope @ covariance
        whole[np.ix_(self.places, others)] = (slope @ covariance).T
        whole[np.ix_(others, others)] = rest + slope @ covariance @ slope.T
        return found, whole


@dataclass(frozen=True, eq=False)
class PartialModel:
    """A model of records as a function of the coordinates that records read.

    See `clipped_scores.RecordModel`.

    Parameters
    ----------
    inner : RecordModel
        As a function of all parameters.
    parameters : ReadParameters
    """

    inner: Any
    parameters: ReadParameters

    @property
    def density(self) -> Any:
        """The density of one record, of all parameters."""
        return self.inner.density

    def predictors(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Values of the predictors, shape (N, m)."""
        return self.inner.predictors(self.parameters.filled(theta), rows)

    def jacobian(self, theta: np.ndarray, rows: Rows) -> np.ndarray:
        """Their derivatives in the coordinates that are read, shape (N, m, q)."""
        whole = self.inner.jacobian(self.parameters.filled(theta), rows)
        return whole[:, :, self.parameters.places]

    def scores(self, predictors: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Derivatives of log p(y | .) in the predictors, shape (N, Q, m)."""
        return self.inner.scores(predictors, rows, y)

    def log_density(self, theta: np.ndarray, rows: Rows, y: np.ndarray) -> np.ndarray:
        """Log p(y | rows, theta), shape (S, N, Q)."""
        return self.inner.log_density(self.parameters.filled(theta), rows, y)

    def nodes(self, predictors: np.ndarray, rows: Rows) -> Any:
        """Nodes of the outcome of each row."""
        return self.inner.nodes(predictors, rows)


def model_of_read_parameters(model: RecordModel, places: np.ndarray) -> RecordModel:
    """The model itself where records read every coordinate, else a `PartialModel`."""
    whole = model.parameters
    if len(places) == whole.size:
        return model
    return PartialModel(model, ReadParameters(whole, places))


def read_part(parameters: Any, theta: Any) -> Any:
    """The coordinates that records read, of whole vectors (..., p) in numbers or as a graph."""
    return theta[..., parameters.places] if isinstance(parameters, ReadParameters) else theta
