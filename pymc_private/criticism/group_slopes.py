r"""Do slopes vary among groups? A score test of a variance, from noisy sums within groups (T38).

A hierarchy whose slope of x is common is extended by slopes b_g ~ N(0, gamma) of groups. gamma is 0
in the fitted model, at the boundary of what it can be, and its score is no sum over records:

    sum_g (S_g^2 - I_g) / 2,    S_g = sum_i in g h_i x_i,

h the derivative of the log density in the linear predictor. What is released are the sums
themselves, each with noise: a record adds f = clip(u - c, -C, C) to that of its group alone, with
u = h x less what the fitted model's score explains of S_g. So all groups are paid for as one:
replacing a record moves the vector by 2 C at most, wherever its group was (T31). Given the summary
the vector T is normal with the moments of `null_distribution`, one row for each group, and effects
b move its mean by A b. The locally most powerful test is by

    Q = |A' Sigma^-1 (T - m)|^2,

whose law at any gamma is that of `VarianceLaw`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_private.criticism.check_result import DepartureTest, VarianceTest
from pymc_private.criticism.check_statistic import (
    LEAST_LEFT,
    QUANTILES,
    CheckStatistic,
    clipped_values,
    direction_at_nodes,
    projected_values,
    weighted_quantiles,
)
from pymc_private.criticism.covariate_columns import CovariateColumn
from pymc_private.criticism.directions import Direction
from pymc_private.criticism.fitted_summary import FittedSummary
from pymc_private.criticism.null_distribution import LEAST_SHARE, NullDistribution
from pymc_private.criticism.planned_test import LEVEL, POWER, Chunks, Forecast
from pymc_private.criticism.variance_law import VarianceLaw
from pymc_private.errors import Unsupported
from pymc_private.summaries.noise import NoiseScale
from pymc_private.summaries.protocol import SumNoise
from pymc_private.summaries.scores.clipped_scores import Rows, ScoredRows

FEWEST_GROUPS = 3


@dataclass(frozen=True, eq=False)
class GroupStatistic(CheckStatistic):
    """A bounded statistic of one record, which adds to the sum of its group.

    Attributes
    ----------
    tilt : array, shape (G, p)
        What is removed of the model's own score, in each group.
    label : CovariateColumn
    """

    label: CovariateColumn

    @property
    def groups(self) -> int:
        """G."""
        return len(self.tilt)

    def levels(self, rows: Rows) -> tuple[np.ndarray, np.ndarray]:
        """The group of each row, and whether it is one, shape (N,)."""
        return group_levels(self.label, rows, self.groups)

    def group_terms(self, rows: Rows, y: np.ndarray) -> np.ndarray:
        """What each record adds to the sums of all groups, shape (N, G); norms are at most C."""
        level, known = self.levels(rows)
        member = (level[:, None] == np.arange(self.groups)) & known[:, None]
        return np.where(member, self.terms(rows, y)[:, None], 0.0)

    def _projected(self, scored: ScoredRows, y: np.ndarray) -> np.ndarray:
        tilt = self.tilt[self.levels(scored.rows)[0]]
        return projected_values(self.direction, self.theta, tilt, scored, y)


def group_levels(label: CovariateColumn, rows: Rows, groups: int) -> tuple[np.ndarray, np.ndarray]:
    """The group of each row, 0 where it is none of them, and whether it is one."""
    found = label.of(rows)
    known = (found >= 0) & (found < groups)
    return np.where(known, found, 0.0).astype(np.int64), known


@dataclass(frozen=True, eq=False)
class VarianceForecast(Forecast):
    """What noisy sums of groups will tell of a variance.

    Sizes are standard deviations of the effects, sqrt(gamma).

    Attributes
    ----------
    law : VarianceLaw
    """

    law: VarianceLaw
    sides = "one-sided"

    @property
    def sd(self) -> float:
        """Standard deviation of Q under the fitted model."""
        return float(np.sqrt(self.null.variance))

    @property
    def price_of_noise(self) -> float:
        """By which share noise makes the standard deviation of a group's sum larger."""
        return float(np.hypot(1.0, self.noise_sd / np.sqrt(self.null.whole))) - 1.0

    def smallest(self, level: float = LEVEL, power: float = POWER) -> float:
        """The smallest standard deviation that is seen with this power."""
        return float(np.sqrt(self.law.gamma(self.law.critical(level), power)))

    def power(self, departure: float, level: float = LEVEL) -> float:
        """The probability that a standard deviation of this size is seen."""
        return self.law.tail(self.law.critical(level), departure**2)


@dataclass(frozen=True, eq=False)
class PlannedGroups:
    """Noisy sums of all groups, and the quadratic form that is read of them.

    Attributes
    ----------
    statistic : GroupStatistic
    mu : float
    mean : array, shape (G,)
        m.
    spread : array, shape (G, G)
        Sigma.
    effects : array, shape (G, G)
        A.
    forecast : VarianceForecast
    """

    statistic: GroupStatistic
    mu: float
    mean: np.ndarray
    spread: np.ndarray
    effects: np.ndarray
    forecast: VarianceForecast

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        """What is told: one number."""
        return (self.forecast,)

    @cached_property
    def constants(self) -> list[Any]:
        """Public constants of the statistic, for a fingerprint."""
        statistic = self.statistic
        own = [statistic.theta.tolist(), statistic.tilt.tolist(), self.mean.tolist()]
        return [self.forecast.facts, *own, list(self.forecast.law.weights)]

    def release(self, chunks: Chunks, noise: SumNoise) -> np.ndarray:
        """The noisy sums of all groups, shape (G,)."""
        terms = (self.statistic.group_terms(rows, y)[:count] for rows, y, count in chunks)
        return noise.total(terms, self.statistic.bound, False, self.mu)

    def numbers(self, released: np.ndarray) -> list[float]:
        """Q."""
        away = self.effects.T @ np.linalg.solve(self.spread, released - self.mean)
        return [float(away @ away)]

    def tested_all(self, released: np.ndarray, level: float) -> list[DepartureTest]:
        """What the released sums say."""
        (number,), forecast = self.numbers(released), self.forecast
        sums = tuple(float(value) for value in released)
        found = VarianceTest(
            statistic=number, level=level, weights=forecast.law.weights, sums=sums, **forecast.facts
        )
        return [found]

    def cells(self, released: np.ndarray) -> None:
        """No cells."""


def planned_groups(
    fit: FittedSummary,
    direction: Direction,
    label: CovariateColumn,
    groups: int,
    scale: NoiseScale,
    mu: float,
) -> PlannedGroups:
    """The statistic of effects that vary among groups at a budget of mu, with its law.

    Parameters
    ----------
    fit : FittedSummary
    direction : NamedDirection
        The score of an effect that is common to all groups.
    label : CovariateColumn
        The group of a record.
    groups : int
        G.
    scale : NoiseScale
    mu : float

    Raises
    ------
    Unsupported
        Fewer than three groups, or effects that vary in the fitted model.
    """

    def noise_sd(bound: float) -> float:
        return scale.sd(bound, False, mu, groups)

    if groups < FEWEST_GROUPS:
        raise Unsupported(
            f"'{direction.name}' is about many groups; nothing was charged",
            got=f"{groups} groups",
            allowed=f"{FEWEST_GROUPS} or more",
        )
    sums = _GroupSums(fit, *group_levels(label, fit.rows, groups), groups)
    statistic = _statistic(sums, direction, label, noise_sd)
    values = statistic.at(fit.scored)
    sd = noise_sd(statistic.bound)
    mean, spread, effects = _moments(sums, values, direction_at_nodes(fit, direction))
    spread = spread + sd**2 * np.eye(groups)
    law = VarianceLaw.of(spread, effects)
    weights = np.array(law.weights)
    whole = float(sums.of(values**2).mean())
    null = NullDistribution(float(weights.sum()), float(2.0 * (weights**2).sum()), whole)
    forecast = VarianceForecast(
        direction.name, direction.unit, statistic.bound, mu, sd, null,
        float((weights**2).sum()), law,
    )  # fmt: skip
    return PlannedGroups(statistic, mu, mean, spread, effects, forecast)


@dataclass(frozen=True, eq=False)
class _GroupSums:
    """Expectations within groups, over the rows of the reference that are in each."""

    fit: FittedSummary
    level: np.ndarray
    known: np.ndarray
    groups: int

    @cached_property
    def _member(self) -> np.ndarray:
        return (self.level == np.arange(self.groups)[:, None]) & self.known

    def _grouped(self, rows: np.ndarray) -> np.ndarray:
        return np.asarray(self._member @ rows)

    def of(self, values: np.ndarray) -> np.ndarray:
        """n E[values; g] of values at the nodes (N, Q), shape (G,)."""
        return self._grouped((self.fit.mass * values).sum(axis=1))

    def score_sums(self, values: np.ndarray) -> np.ndarray:
        """n E[values score'; g], shape (G, p)."""
        at = self.fit.at
        inner = np.einsum("nq,nqm->nm", self.fit.mass * values, at.scores)
        return self._grouped(np.einsum("nm,nmp->np", inner, at.jacobian))

    def released_sums(self, values: np.ndarray) -> np.ndarray:
        """n E[values psi'; g] with all released terms, shape (G, T p)."""
        return self._grouped(np.einsum("nq,nqt->nt", self.fit.mass * values, self.fit.released))


def _statistic(
    sums: _GroupSums,
    direction: Direction,
    label: CovariateColumn,
    noise_sd: Callable[[float], float],
) -> GroupStatistic:
    """The statistic whose bound tells most of a small variance at this noise."""
    fit = sums.fit
    values = direction_at_nodes(fit, direction)
    _refuse_contained(sums, direction, values)
    information = fit.at.information(fit.weights)
    tilt = np.linalg.solve(information + fit.prior_precision, sums.score_sums(values).T).T
    left = projected_values(direction, fit.mean, tilt[sums.level], fit.scored, fit.scored.values)
    left = np.where(np.isfinite(left), left, 0.0)
    bounds = weighted_quantiles(np.abs(left).ravel(), fit.mass.ravel(), QUANTILES)

    def told(bound: float) -> float:
        found = clipped_values(left, fit.at.mass, bound)
        each = sums.of(found * left) ** 2 / (sums.of(found**2) + noise_sd(bound) ** 2)
        return float((each**2).sum())

    bound = max((float(c) for c in np.unique(bounds[bounds > 0.0])), key=told)
    return GroupStatistic(fit.model, direction, fit.mean, tilt, bound, label)


def _moments(
    sums: _GroupSums, values: np.ndarray, direction: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and covariance of the sums without noise given the summary, and what effects add.

    As in `null_distribution` and `sensitivity`, one row for each group.
    """
    fit = sums.fit
    cross = sums.released_sums(values) @ fit.spread.T
    gain = np.linalg.solve(fit.noisy_covariance, cross.T).T
    away = sums.score_sums(values) - gain @ fit.slope
    whole = sums.of(values**2)
    spread = np.diag(whole) - gain @ cross.T + away @ fit.covariance @ away.T
    spread = 0.5 * (spread + spread.T) + LEAST_SHARE * np.diag(whole)
    seen = fit.scaling @ sums.released_sums(direction).T
    moved = fit.covariance @ fit.slope.T @ np.linalg.solve(fit.noisy_covariance, seen)
    effects = np.diag(sums.of(values * direction)) - gain @ seen - away @ moved
    return gain @ fit.residual, spread, effects


def _refuse_contained(sums: _GroupSums, direction: Direction, values: np.ndarray) -> None:
    """Refuse effects of groups that the fitted model has: its own score explains them."""
    scored, mass = sums.fit.scored, sums.fit.mass
    scores = np.nan_to_num(scored.scores)
    each = np.einsum("nq,nqk,nqm->nkm", mass, scores, scores)
    own = np.einsum("nkp,nkm,nmr->pr", scored.jacobian, each, scored.jacobian, optimize=True)
    inner = np.einsum("nq,nqm->nm", mass * values, scores)
    cross = sums._grouped(np.einsum("nm,nmp->np", inner, scored.jacobian))
    whole = sums.of(values**2)
    explained = np.einsum("gp,pr,gr->g", cross, np.linalg.pinv(own, hermitian=True), cross)
    if float((whole - explained).sum()) <= LEAST_LEFT * float(whole.sum()):
        raise Unsupported(
            f"there is nothing to see of '{direction.name}'; nothing was charged",
            got="effects that vary among groups in the fitted model, or a covariate that is zero",
            allowed="a departure that the model does not contain",
            do="another covariate; or a summary of a model with one common slope",
        )
