r"""A bounded statistic of one record with mean zero under the fitted model (T38).

From the score v of an extended model the part is removed that the fitted model's own score s
explains, u = v - b' s with public b = (I + P0)^-1 n E[v s], and what is left is clipped around its
own center:

    f(x, y) = clip(u - c(x), -C, C),    E[f | x] = 0 at theta^.

|f| <= C for every record, center and quadrature, so that the sum moves by 2 C at most when a record
is replaced, and by C when one is added or removed (T31). C maximizes what a sum with its noise
tells of gamma, n (E f u)^2 / (E f^2 + s(C)^2 / n). Terms are functions of their own record alone,
to the last bit: elementwise operations, and sums over parameters in a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pymc_private.criticism.directions import Direction
from pymc_private.criticism.fitted_summary import FittedSummary
from pymc_private.errors import Unsupported
from pymc_private.summaries.scores.clipped_scores import (
    RecordModel,
    Rows,
    ScoredRows,
    score_center,
    score_rows,
)

QUANTILES = (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0)
"""C is one of these quantiles of |u|."""
LEAST_LEFT = 1e-6
"""Share of the variance of v that has to be left after the model's own score."""
MOST_UNDEFINED = 0.01
"""Mass of public outcomes at which v may be undefined."""


@dataclass(frozen=True, eq=False)
class CheckStatistic:
    """The public constants of one statistic.

    Attributes
    ----------
    model : RecordModel
    direction : Direction
    theta : array, shape (p,)
        theta^.
    tilt : array, shape (p,)
        b.
    bound : float
        C.
    """

    model: RecordModel
    direction: Direction
    theta: np.ndarray
    tilt: np.ndarray
    bound: float

    def terms(self, rows: Rows, y: np.ndarray) -> np.ndarray:
        """What each record adds, in [-C, C]: shape (N,)."""
        return self.values_at(rows, y[:, None])[:, 0]

    def values_at(self, rows: Rows, y: np.ndarray) -> np.ndarray:
        """f at outcomes of shape (N, Q), of the same shape."""
        with np.errstate(all="ignore"):  # no warning may depend on a record
            scored = score_rows(self.model, self.theta, rows)
            inner, mass = self._usable(self._projected(scored, scored.values), scored.mass)
            center = score_center(inner[None], mass, self.bound)[0]
            away = self._projected(scored, y) - center[:, None]
        return np.where(np.isfinite(away), np.clip(away, -self.bound, self.bound), 0.0)

    def at(self, scored: ScoredRows) -> np.ndarray:
        """f at the nodes of some rows, shape (N, Q)."""
        return clipped_values(*self._usable(self._projected(scored, scored.values), scored.mass),
                              self.bound)  # fmt: skip

    def _projected(self, scored: ScoredRows, y: np.ndarray) -> np.ndarray:
        return projected_values(self.direction, self.theta, self.tilt, scored, y)

    @staticmethod
    def _usable(values: np.ndarray, mass: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values at the nodes, with no mass where they are not finite."""
        usable = np.isfinite(values) & np.isfinite(mass)
        return np.where(usable, values, 0.0), np.where(usable, mass, 0.0)


def projected_values(
    direction: Direction, theta: np.ndarray, tilt: np.ndarray, scored: ScoredRows, y: np.ndarray
) -> np.ndarray:
    """u = v - b' s at outcomes of shape (N, Q), with b (p,), or (N, p) for each row."""
    with np.errstate(all="ignore"):
        found = direction.values(theta, scored.predictors, scored.rows, y)
        scores = scored.model.scores(scored.predictors, scored.rows, y)
        for k in range(scored.predictors.shape[1]):
            along = np.zeros(len(scored.predictors))
            for j, weight in enumerate(tilt.T):
                along = along + scored.jacobian[:, k, j] * weight
            found = found - scores[:, :, k] * along[:, None]
    return found


def clipped_values(values: np.ndarray, mass: np.ndarray, bound: float) -> np.ndarray:
    """clip(u - c, -C, C) at nodes, c such that the mean of each row is zero."""
    center = score_center(values[None], mass, bound)[0]
    return np.clip(values - center[:, None], -bound, bound)


def check_statistic(
    fit: FittedSummary, direction: Direction, noise_sd: Callable[[float], float]
) -> CheckStatistic:
    """The statistic of a departure, with the bound that tells most at this noise.

    Parameters
    ----------
    fit : FittedSummary
    direction : Direction
    noise_sd : callable
        Standard deviation of the noise as a function of C.

    Raises
    ------
    Unsupported
        The model already contains the departure, or its score is undefined; nothing was charged.
    """
    values = direction_at_nodes(fit, direction)
    refuse_contained(fit, direction, values)
    information = _information(fit)
    tilt = np.linalg.solve(information + fit.prior_precision, fit.score_sum(values))
    left = projected_values(direction, fit.mean, tilt, fit.scored, fit.scored.values)
    left = np.where(np.isfinite(left), left, 0.0)
    bounds = weighted_quantiles(np.abs(left).ravel(), fit.mass.ravel(), QUANTILES)
    bound = max(
        np.unique(bounds[bounds > 0.0]), key=lambda c: _told(fit, left, c, noise_sd(float(c)))
    )
    return CheckStatistic(fit.model, direction, fit.mean, tilt, float(bound))


def direction_at_nodes(fit: FittedSummary, direction: Direction) -> np.ndarray:
    """v at the nodes of the reference, shape (N, Q).

    Raises
    ------
    Unsupported
        It is undefined at many of them.
    """
    scored = fit.scored
    with np.errstate(all="ignore"):
        found = direction.values(fit.mean, scored.predictors, scored.rows, scored.values)
    undefined = float(fit.mass[~np.isfinite(found)].sum()) / fit.count
    if undefined > MOST_UNDEFINED:
        raise Unsupported(
            f"the score of '{direction.name}' is undefined at the fitted model; nothing was "
            "charged",
            got=f"no finite number at {undefined:.0%} of public outcomes",
            allowed="an extended model whose log density is differentiable there",
            do="another parameter of the departure: one that is finite where the fitted model is",
        )
    return np.where(np.isfinite(found), found, 0.0)


def refuse_contained(fit: FittedSummary, direction: Direction, values: np.ndarray) -> None:
    """Refuse a departure whose score the model's own score explains."""
    at = fit.scored.scores * fit.mass[:, :, None] ** 0.5
    own = np.einsum("nqm,nmp->nqp", at, fit.scored.jacobian).reshape(-1, len(fit.mean))
    wanted = (values * fit.mass**0.5).ravel()
    whole = float(wanted @ wanted)
    explained, *_ = np.linalg.lstsq(np.nan_to_num(own), wanted, rcond=None)
    left = wanted - np.nan_to_num(own) @ explained
    if float(left @ left) <= LEAST_LEFT * whole or whole == 0.0:
        raise Unsupported(
            f"there is nothing to see of '{direction.name}'; nothing was charged",
            got="a score that is zero, or that the model's own parameters explain",
            allowed="a departure that the model does not contain",
            do="another departure; or a model without the parameter that stands for it; another "
            "distribution of group effects is fitted by summary.reuse(model), which is free",
        )


def _information(fit: FittedSummary) -> np.ndarray:
    """n times the information of a record at theta^, shape (p, p)."""
    return fit.at.information(fit.weights)


def _told(fit: FittedSummary, values: np.ndarray, bound: float, sd: float) -> float:
    """What a clipped sum tells of the departure: squared mean per squared standard deviation."""
    found = clipped_values(values, fit.at.mass, bound)
    slope = float((fit.mass * found * values).sum())
    return slope**2 / (float((fit.mass * found**2).sum()) + sd**2)


def weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, shares: tuple[float, ...]
) -> np.ndarray:
    """Values below which given shares of the weights lie."""
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    places = np.searchsorted(total, np.array(shares) * total[-1]).clip(0, len(values) - 1)
    return np.asarray(values[order][places])
