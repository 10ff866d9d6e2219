r"""Shares of categories by noisy numbers of records, which move the weights of a reference.

A record is in one level of each entry, so that numbers of records have the noise of cells (T33),
whatever the number of levels: second moments of indicators (`reference.CovariateMoments`) are too
many where there are dozens. With V entries each is counted at mu / sqrt(V) (T30).

Noise exceeds most numbers where levels are many, and few may have nearly all records. Numbers are
taken as independent Gamma(a) ones with the public mean, that is, shares as a Dirichlet(a)
distribution, its concentration a averaged over by what the noisy numbers say of it: the posterior
means leave equal levels equal, and find a large one among small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaln, logsumexp

from pymc_private.summaries.scores.category_levels import (
    CategoryLevels,
    positive_shares,
    raked,
)
from pymc_private.summaries.scores.drawn_levels import WantedLevels, drawn_levels
from pymc_private.summaries.scores.reference import CovariateReference

CONCENTRATIONS = 2.0 ** np.arange(-6, 11, 2)
"""Of equal prior probability: from one level that has nearly all records to equal shares."""
PUBLIC_PART = 0.5
"""Part of the expected shares that is the reference's; the rest is equal ones, since a public
sample may lack what is frequent among the records."""
FARTHEST, INTERVALS = 8.0, 160
"""Numbers of records are within so many standard deviations of noise, in so many intervals."""
LEAST_MASS = 1e-12
"""Probability of an interval below which differences of distribution functions are rounding."""
LEAST_MEAN = 1e-6
"""Least expected number of records in a level."""


@dataclass(frozen=True, eq=False)
class CategoryShares:
    """The stage of a release that counts levels of categories and moves a reference to them.

    Attributes
    ----------
    blocks : tuple of CategoryLevels
    expected : tuple of array
        Shares of the levels of each before they are counted.
    """

    blocks: tuple[CategoryLevels, ...]
    expected: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, blocks: Sequence[CategoryLevels], reference: CovariateReference) -> CategoryShares:
        """The stage of some entries: labels of groups last, which raking gives their shares."""
        ordered = tuple(sorted(blocks, key=lambda each: (each.is_label, len(each.levels))))
        public = (each.shares(reference.rows, reference.weights) for each in ordered)
        mixed = (PUBLIC_PART * own + (1.0 - PUBLIC_PART) / len(own) for own in public)
        return cls(ordered, tuple(mixed))

    @property
    def parts(self) -> tuple[float, ...]:
        """Shares of mu^2 of the entries, each of which is counted by itself."""
        return (1.0 / len(self.blocks),) * len(self.blocks)

    def moved(
        self, reference: CovariateReference, noisy: np.ndarray, sd: float, n: float
    ) -> CovariateReference:
        """A reference whose levels have the shares that noisy numbers of records tell.

        Entries are drawn independent of each other: numbers of records do not tell how they go
        together. The curvature does.

        Parameters
        ----------
        reference : CovariateReference
        noisy : array
            Noisy numbers of records in the levels of all entries, one after the other.
        sd : float
            Standard deviation of their noise.
        n : float
            The number of records, public or noisy.
        """
        weights = reference.weights
        ends = np.cumsum([len(block.levels) for block in self.blocks])[:-1]
        wanted = []
        for block, own, found in zip(
            self.blocks, self.expected, np.split(noisy, ends), strict=True
        ):
            counts = denoised_counts(found, sd, n * own)
            wanted.append((block, counts / max(counts.sum(), LEAST_MEAN)))
        levels = [WantedLevels(block, positive_shares(shares)) for block, shares in wanted]
        rows = drawn_levels(reference.rows, reference.units, lambda _: weights, levels)
        tilted = weights * raked(rows, weights, wanted)
        return CovariateReference(rows, tilted / tilted.sum(), reference.units)


def denoised_counts(noisy: np.ndarray, sd: float, expected: np.ndarray) -> np.ndarray:
    """Posterior means of numbers of records under Gamma(a) priors, a averaged over.

    What they lack of the number of all records is added in proportion to posterior variances.

    Parameters
    ----------
    noisy : array, shape (L,)
    sd : float
        Standard deviation of the noise.
    expected : array, shape (L,)
        Means of the prior, which add up to the number of records.
    """
    mean = np.maximum(expected, LEAST_MEAN)[:, None]
    low = np.maximum(noisy - FARTHEST * sd, 0.0)
    high = np.maximum(noisy, 0.0) + FARTHEST * sd
    ends = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, INTERVALS + 1)
    evidence, moments = np.empty(len(CONCENTRATIONS)), list[list[np.ndarray]]()
    for k, a in enumerate(CONCENTRATIONS):
        mass, *powers = _of_intervals(a, mean, ends)
        weight = mass - 0.5 * ((noisy[:, None] - powers[0]) / sd) ** 2
        each = logsumexp(weight, axis=1, keepdims=True)
        evidence[k] = each.sum()
        moments.append([(np.exp(weight - each) * power).sum(axis=1) for power in powers])
    first, second = np.tensordot(np.exp(evidence - logsumexp(evidence)), np.array(moments), 1)
    variance = np.maximum(second - first**2, 0.0)
    missing = expected.sum() - first.sum()
    found = first + missing * variance / max(variance.sum(), LEAST_MEAN)
    return np.maximum(found, 0.0)


def _of_intervals(
    a: float, mean: np.ndarray, ends: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of a Gamma(a) distribution's mass in intervals, and its two moments there.

    Near 0 a single interval may have most of the mass, nearly all of it at 0. Where distribution
    functions hardly differ, the density is taken as exponential from the end of the interval that
    is nearest to its mode.

    Parameters
    ----------
    a : float
        Shape.
    mean : array, shape (L, 1)
    ends : array, shape (L, K + 1)
    """
    left, right, rate = ends[:, :-1], ends[:, 1:], a / mean
    parts = [np.diff(gammainc(a + power, ends * rate), axis=1) for power in range(3)]
    told = parts[0] > LEAST_MASS
    whole = np.where(told, parts[0], 1.0)
    first = np.clip(mean * parts[1] / whole, left, right)
    second = np.clip(mean**2 * (1.0 + 1.0 / a) * parts[2] / whole, left**2, right**2)
    near = np.clip(max(a - 1.0, 0.0) / rate, np.maximum(left, LEAST_MEAN * right), right)
    density = a * np.log(rate) + (a - 1.0) * np.log(near) - rate * near - gammaln(a)
    width = np.maximum(right - left, np.finfo(float).eps * right)
    steep = np.maximum(np.abs(rate - (a - 1.0) / near), LEAST_MEAN / width)
    tail = density + np.log(-np.expm1(-steep * width) / steep)
    middle = 0.5 * (left + right)
    mass = np.where(told, np.log(whole), tail)
    return mass, np.where(told, first, middle), np.where(told, second, middle**2)
