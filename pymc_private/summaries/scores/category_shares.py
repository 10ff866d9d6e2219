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

from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, logsumexp

from pymc_private.summaries.scores.category_levels import CategoryLevels, raked
from pymc_private.summaries.scores.reference import CovariateReference

CONCENTRATIONS = 2.0 ** np.arange(-6, 11)
"""Of equal prior probability: from one level that has nearly all records to equal shares."""
FARTHEST, INTERVALS = 8.0, 160
"""Numbers of records are within so many standard deviations of noise, in so many intervals."""
LEAST_MEAN = 1e-6
"""Least expected number of records in a level."""


@dataclass(frozen=True, eq=False)
class CategoryShares:
    """The stage of a release that counts levels of categories and moves a reference to them.

    Attributes
    ----------
    blocks : tuple of CategoryLevels
    """

    blocks: tuple[CategoryLevels, ...]

    @property
    def parts(self) -> tuple[float, ...]:
        """Shares of mu^2 of the entries, each of which is counted by itself."""
        return (1.0 / len(self.blocks),) * len(self.blocks)

    def moved(
        self, reference: CovariateReference, noisy: np.ndarray, sd: float, n: float
    ) -> CovariateReference:
        """A reference whose levels have the shares that noisy numbers of records tell.

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
        rows, weights = reference.rows, reference.weights
        ends = np.cumsum([len(block.levels) for block in self.blocks])[:-1]
        wanted = []
        for block, found in zip(self.blocks, np.split(noisy, ends), strict=True):
            counts = denoised_counts(found, sd, n * block.shares(rows, weights))
            wanted.append((block, counts / max(counts.sum(), LEAST_MEAN)))
        tilted = weights * raked(rows, weights, wanted)
        return CovariateReference(rows, tilted / tilted.sum())


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
    mean = np.maximum(expected, LEAST_MEAN)
    low = np.maximum(noisy - FARTHEST * sd, 0.0)
    high = np.maximum(noisy, 0.0) + FARTHEST * sd
    ends = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, INTERVALS + 1)
    middle = 0.5 * (ends[:, 1:] + ends[:, :-1])
    fit = -0.5 * ((noisy[:, None] - middle) / sd) ** 2
    evidence, moments = np.empty(len(CONCENTRATIONS)), list[np.ndarray]()
    for k, a in enumerate(CONCENTRATIONS):
        share = np.diff(gammainc(a, a * ends / mean[:, None]), axis=1)
        weight = np.log(np.maximum(share, 1e-300)) + fit
        each = logsumexp(weight, axis=1, keepdims=True)
        evidence[k] = each.sum()
        chances = np.exp(weight - each)
        moments.append(np.stack([(chances * middle**power).sum(axis=1) for power in (1, 2)]))
    first, second = np.tensordot(np.exp(evidence - logsumexp(evidence)), moments, 1)
    variance = np.maximum(second - first**2, 0.0)
    missing = expected.sum() - first.sum()
    found = first + missing * variance / max(variance.sum(), LEAST_MEAN)
    return np.maximum(found, 0.0)
