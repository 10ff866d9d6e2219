"""What is released of covariates: second moments, and shares of categories by their own counts.

Second moments of numbers and of indicators of many categories together have norms of the order of
the number of categories, and noise with them: of 1,000 records in 10 groups at epsilon = 1/2 it hid
that a covariate lay at one end of its interval, the reference stayed uniform, and .61 of 90%
intervals held. Of numbers alone the bound is that of two or three columns, and records in levels
are counted. What is given up, how numbers differ between categories, such noise hides anyway.
Categories of dozens of levels are always counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.summaries.scores.category_levels import CategoryLevels, category_levels
from pymc_private.summaries.scores.category_shares import CategoryShares
from pymc_private.summaries.scores.reference import (
    MOMENT_SHARES,
    MOST_LEVELS,
    CovariateMoments,
    CovariateReader,
    CovariateReference,
    covariate_moments,
)

MANY_CATEGORIES = 5
"""Indicators from which on sums may be parted: of fewer, one sum has little more noise."""
MOST_NOISE = 0.05
"""Noise of one sum, in units of the number of records, up to which it is not parted. Whitened
means of skewed covariates are of the order of 1; at .1 a third of one was shrunk away."""
MARGINAL_SHARES = (0.35, 0.25, 0.4)
"""Shares of mu^2 of the categories' numbers, and of two sums of moments, the second around the
first: rows have the weights of their categories before numbers are moved."""

Round = tuple[float, Callable[[CovariateReference], Any]]
"""A share of mu^2, and the stage of a sum given the reference so far."""


@dataclass(frozen=True, eq=False)
class MarginalMoments:
    """Moments of some covariates, and shares of the categories of others.

    Attributes
    ----------
    moments : CovariateMoments or None
    categories : CategoryShares
    """

    moments: CovariateMoments | None
    categories: CategoryShares

    @property
    def rounds(self) -> tuple[Round, ...]:
        """Its sums in order."""
        moments = self.moments
        if moments is None:
            return ((1.0, lambda _: self.categories),)
        stages = lambda _: self.categories, lambda _: moments, moments.refined
        return tuple(zip(MARGINAL_SHARES, stages, strict=True))


def moment_rounds(moments: Any) -> tuple[Round, ...]:
    """The sums of a moments stage: its own, or two, the second around what the first one moved."""
    if isinstance(moments, MarginalMoments):
        return moments.rounds
    return tuple(zip(MOMENT_SHARES, (lambda _: moments, moments.refined), strict=True))


def covariate_stage(
    density: CovariateReader, reference: CovariateReference
) -> CovariateMoments | MarginalMoments | None:
    """What is released of the covariates of a model; None if there is nothing to release.

    Levels that the reference has no rows of cannot be moved: such categories keep its shares.
    """
    moments = covariate_moments(density, reference)
    entries = category_levels(density.covariates, density.labels)
    many = [
        each for each in entries if len(each.levels) > MOST_LEVELS and _has_all(reference, each)
    ]
    return MarginalMoments(moments, CategoryShares.of(many, reference)) if many else moments


def counted_entries(stage: Any) -> frozenset[tuple[str, int, bool]]:
    """Names and places of the entries whose levels a stage counts, and which are labels."""
    blocks = stage.categories.blocks if isinstance(stage, MarginalMoments) else ()
    return frozenset((block.source.name, block.position, block.is_label) for block in blocks)


def _has_all(reference: CovariateReference, block: CategoryLevels) -> bool:
    """Whether a reference has rows of every level."""
    return bool((block.shares(reference.rows, reference.weights) > 0.0).all())


def settled_moments(
    stage: Any,
    reference: CovariateReference,
    noise: Callable[[float, int, float], float],
    count: float,
) -> Any:
    """A moments stage, parted where the noise of one sum would hide what it tells.

    Parameters
    ----------
    stage : MomentsStage, MarginalMoments or None
    reference : CovariateReference
        What it was made of.
    noise : callable
        Standard deviation of the noise of a sum, for its bound and size and a share of mu^2.
    count : float
        Records that it reads.
    """
    is_marginal = isinstance(stage, MarginalMoments)
    moments = stage.moments if is_marginal else stage
    if not isinstance(moments, CovariateMoments):
        return stage
    numbers, few = moments.parted(reference)
    if numbers is None or _indicators(few) < MANY_CATEGORIES:
        return stage
    share, _ = moment_rounds(stage)[-1]
    if noise(moments.bound, moments.size, share) <= MOST_NOISE * count:
        return stage
    many = stage.categories.blocks if is_marginal else ()
    return MarginalMoments(numbers, CategoryShares.of((*few, *many), reference))


def _indicators(blocks: Sequence[CategoryLevels]) -> int:
    return int(np.sum([block.width for block in blocks]))
