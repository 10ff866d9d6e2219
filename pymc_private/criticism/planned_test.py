"""What a noisy number of a check will tell: its noise, null distribution and power."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from pymc_private.criticism.check_result import DepartureTest
from pymc_private.criticism.check_statistic import (
    CheckStatistic,
    check_statistic,
    direction_at_nodes,
)
from pymc_private.criticism.directions import Direction
from pymc_private.criticism.fitted_summary import FittedSummary
from pymc_private.criticism.null_distribution import (
    NullDistribution,
    null_distribution,
    sensitivity,
)
from pymc_private.summaries.noise import NoiseScale
from pymc_private.summaries.protocol import SumNoise
from pymc_private.summaries.scores.clipped_scores import Rows

LEVEL, POWER = 0.05, 0.8
"""The level of a check, all departures together (Holm), and the power at what it "sees"."""
MOST_NOISE = 2.0
"""Noise of more than this many standard deviations of the statistic drowns it."""
Chunks = Iterator[tuple[Rows, np.ndarray, int]]
"""Rows, outcomes and number of true rows of chunks of one shape."""


@dataclass(frozen=True, eq=False)
class Forecast:
    """One noisy number: what it is, its noise, and its distribution under the fitted model.

    Attributes
    ----------
    name, unit : str
    bound : float
        Largest size of what one record adds.
    mu : float
        Gaussian privacy of the release that it is part of.
    noise_sd : float
    null : NullDistribution
    sensitivity : float
        What a departure of size one adds.
    """

    name: str
    unit: str
    bound: float
    mu: float
    noise_sd: float
    null: NullDistribution
    sensitivity: float
    sides = "two-sided"

    @property
    def sd(self) -> float:
        """Standard deviation of the noisy number under the fitted model."""
        return float(np.hypot(np.sqrt(self.null.variance), self.noise_sd))

    @property
    def drowned(self) -> bool:
        """Whether the noise hides the statistic."""
        return bool(self.noise_sd > MOST_NOISE * np.sqrt(self.null.whole))

    @property
    def price_of_noise(self) -> float:
        """By which share noise makes the standard deviation larger."""
        return self.sd / float(np.sqrt(self.null.variance)) - 1.0

    def smallest(self, level: float = LEVEL, power: float = POWER) -> float:
        """The smallest departure that a two-sided test sees with this power."""
        quantiles = ndtri(1.0 - level / 2.0) + ndtri(power)
        return float(quantiles * self.sd / max(abs(self.sensitivity), 1e-300))

    def power(self, departure: float, level: float = LEVEL) -> float:
        """The probability that a two-sided test sees a departure of this size."""
        shift, critical = self.sensitivity * departure / self.sd, ndtri(1.0 - level / 2.0)
        return float(ndtr(shift - critical) + ndtr(-shift - critical))

    def tested(self, number: float, level: float) -> DepartureTest:
        """What a released number says."""
        return DepartureTest(statistic=number, level=level, **self.facts)

    @property
    def facts(self) -> dict[str, Any]:
        """Public constants, in JSON types."""
        return {
            "name": self.name,
            "unit": self.unit,
            "bound": self.bound,
            "mu": self.mu,
            "noise_sd": self.noise_sd,
            "null_mean": self.null.mean,
            "null_sd": float(np.sqrt(self.null.variance)),
            "whole_sd": float(np.sqrt(self.null.whole)),
            "sensitivity": self.sensitivity,
        }


@dataclass(frozen=True, eq=False)
class PlannedTest(Forecast):
    """The noisy sum of one clipped score (T38).

    Attributes
    ----------
    statistic : CheckStatistic
    """

    statistic: CheckStatistic

    @property
    def forecasts(self) -> tuple[Forecast, ...]:
        """What is told: one number."""
        return (self,)

    @property
    def constants(self) -> list[Any]:
        """Public constants of the statistic, for a fingerprint."""
        return [self.facts, self.statistic.theta.tolist(), self.statistic.tilt.tolist()]

    def release(self, chunks: Chunks, noise: SumNoise) -> np.ndarray:
        """The noisy sum over the records, shape (1,)."""
        terms = (self.statistic.terms(rows, y)[:count, None] for rows, y, count in chunks)
        return noise.total(terms, self.bound, False, self.mu)

    def numbers(self, released: np.ndarray) -> list[float]:
        """The number of each forecast."""
        return [float(released[0])]

    def tested_all(self, released: np.ndarray, level: float) -> list[DepartureTest]:
        """What the released sum says."""
        return [self.tested(float(released[0]), level)]

    def cells(self, released: np.ndarray) -> None:
        """No cells."""


def planned_test(
    fit: FittedSummary, direction: Direction, scale: NoiseScale, mu: float
) -> PlannedTest:
    """The statistic of a departure at a budget of mu, with its null distribution."""

    def noise_sd(bound: float) -> float:
        return scale.sd(bound, False, mu, 1)

    statistic = check_statistic(fit, direction, noise_sd)
    values = statistic.at(fit.scored)
    return PlannedTest(
        name=direction.name,
        unit=direction.unit,
        bound=statistic.bound,
        mu=mu,
        noise_sd=noise_sd(statistic.bound),
        null=null_distribution(fit, values),
        sensitivity=sensitivity(fit, values, direction_at_nodes(fit, direction)),
        statistic=statistic,
    )
