"""Moments of numbers and shares of categories by sums of their own, where one sum would be noise.

Second moments of numbers and of indicators of many categories together have norms of the order of
the number of categories, and noise with them: of 1,000 records in 10 groups at epsilon = 1/2 it hid
that a covariate lay at one end of its interval, the reference stayed uniform, and .61 of 90%
intervals held. Of numbers alone the bound is that of two or three columns. What is given up, how
numbers differ between categories, such noise hides anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymc_private.summaries.scores.reference import (
    MOMENT_SHARES,
    CovariateMoments,
    CovariateReference,
)

MANY_CATEGORIES = 5
"""Indicators from which on sums may be parted: of fewer, one sum has little more noise."""
MOST_NOISE = 0.05
"""Noise of one sum, in units of the number of records, up to which it is not parted. Whitened
means of skewed covariates are of the order of 1; at .1 a third of one was shrunk away."""
MARGINAL_SHARES = (0.25, 0.4, 0.35)
"""Shares of mu^2 of two sums of numbers, the second around the first, and of the categories'."""

Round = tuple[float, Callable[[CovariateReference], Any]]
"""A share of mu^2, and the stage of a sum given the reference so far."""


@dataclass(frozen=True, eq=False)
class MarginalMoments:
    """The moments stage (`score_release.MomentsStage`) of numbers and of categories, apart.

    Attributes
    ----------
    numbers, categories : CovariateMoments
    """

    numbers: CovariateMoments
    categories: CovariateMoments

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Its sums in order."""
        stages = lambda _: self.numbers, self.numbers.refined, lambda _: self.categories
        return tuple(zip(MARGINAL_SHARES, stages, strict=True))


def moment_rounds(moments: Any) -> tuple[Round, ...]:
    """The sums of a moments stage: its own, or two, the second around what the first one moved."""
    if isinstance(moments, MarginalMoments):
        return moments.rounds
    return tuple(zip(MOMENT_SHARES, (lambda _: moments, moments.refined), strict=True))


def settled_moments(
    moments: Any, reference: CovariateReference, noise: Callable[[float, int], float], count: float
) -> Any:
    """A moments stage, parted where the noise of one sum would hide what it tells.

    Parameters
    ----------
    moments : MomentsStage or None
    reference : CovariateReference
        What it was made of.
    noise : callable
        Standard deviation of the noise of its second sum, for a bound and a size.
    count : float
        Records that it reads.
    """
    if not isinstance(moments, CovariateMoments):
        return moments
    numbers, categories = moments.parted(reference)
    if numbers is None or categories is None or categories.columns < MANY_CATEGORIES:
        return moments
    if noise(moments.bound, moments.size) <= MOST_NOISE * count:
        return moments
    return MarginalMoments(numbers, categories)
