"""Shrinkage posterior of families whose rows may share one common row, for classifiers (T26).

`noisy_posterior` takes the cells of a family as unrelated, so noise in one row passes for a
difference between rows, which is what a classifier goes by. Two models are averaged with equal
prior weight: that one, its rows shrunk towards independence by James-Stein (`james_stein`),
and one where row j of n_j records is a priori Dirichlet around the common row m of its family,
with variance q f_j m (1 - m) and f_j = 1 - 2 w_j + sum w^2, w = n / N, as for deviations from
a weighted mean. The share q is weighed by the noisy counts themselves, and families lend each
other strength: the sum of squares of their doubly centered residuals from n_j m_i is about
free sd^2 + q sum_j n_j^2 f_j sum_i m_i (1 - m_i) times a chi-square over its degrees of
freedom. All of it is post-processing of noisy counts and costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pymc_private.counts.denoise.cell_grid import LEAST_SD
from pymc_private.counts.denoise.posterior import (
    NoisyRows,
    NoisyTable,
    TablePosterior,
    family_posteriors,
    james_stein,
    noisy_posterior,
    posteriors_given_priors,
    row_sum_margins,
)
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE

SHARES = np.geomspace(0.01, 0.9, 5)
"""Shares q: 0.01 is next to no difference between rows, 0.9 no likeness."""
SHARE_PRIOR_STRENGTH = 2.0
"""Families that stand for what is believed of q before, each share as likely as the others."""
EM_ROUNDS = 50
LEAST_WEIGHT = 0.05
"""Shares less likely than this are left out: each is a pass over all cells."""
COMMON_ROW_PRIORS = (0.3,)
"""Prior parameter of a cell of the common row, whose sums noise hides less."""
UNRELATED_WEIGHT = 0.5
"""Weight of the model that takes cells as unlike each other."""
LEAST_PRIOR, LEAST_SIZE = 1e-3, 1e-3
EXCESS_KURTOSIS = {DISCRETE_LAPLACE: 3.0}
"""Excess kurtosis of the noise."""


@dataclass(frozen=True)
class MixedPosterior:
    """A posterior over models: one of each, and how likely it is.

    Attributes
    ----------
    parts : sequence of TablePosterior
    weights : array, shape (parts,)
        Their sum is 1.
    """

    parts: Sequence[TablePosterior]
    weights: np.ndarray

    def mean(self) -> np.ndarray:
        """Posterior means of the probabilities, strictly inside (0, 1)."""
        return np.asarray(
            sum(w * part.mean() for w, part in zip(self.weights, self.parts, strict=True))
        )

    def draw(self, draws: int, generator: np.random.Generator) -> np.ndarray:
        """Draw tables of Dirichlet parameters n + a, n the true counts: shape (draws, ...)."""
        times = generator.multinomial(draws, self.weights)
        found = [
            part.draw(int(n), generator) for n, part in zip(times, self.parts, strict=True) if n
        ]
        return np.asarray(generator.permutation(np.concatenate(found)))


def shrinkage_posterior(
    tables: Mapping[str, NoisyTable],
    law: str,
    scale: float,
    sd: float,
    total: float | None,
    minimum: float = 0.0,
) -> dict[str, TablePosterior | MixedPosterior]:
    """Give the posterior of every family, rows drawn together as far as noise explains them.

    Parameters
    ----------
    tables : mapping of str to NoisyTable
    law, scale, sd
        The noise, and its standard deviation.
    total : float or None
        Public number of records; None where it is protected, then the noisy counts tell it.
    minimum : float
        Public lower bound of every count.
    """
    noise, sd = (law, scale, minimum), max(sd, LEAST_SD)
    size = _estimated_total(tables) if total is None else max(total, 1.0)
    told = row_sum_margins(tables, sd)
    found = noisy_posterior(tables, law, scale, sd, total, minimum, told=told)
    apart = james_stein(found, tables, sd)
    several = {
        name: NoisyRows(table.noisy.shape, _as_rows(table), noise, told[name])
        for name, table in tables.items()
        if len(_as_rows(table)) > 1
    }
    if not several:
        return dict(apart)
    families = _row_families(list(several.values()), sd, size)
    logs = np.stack([f.log_likelihood(sd, EXCESS_KURTOSIS.get(law, 0.0)) for f in families])
    weights = share_weights(logs)
    mixed = {
        name: MixedPosterior(
            [apart[name], *parts],
            np.append(UNRELATED_WEIGHT, (1.0 - UNRELATED_WEIGHT) * likely / likely.sum()),
        )
        for name, (parts, likely) in zip(
            several, _share_posteriors(families, weights, total), strict=True
        )
    }
    return {**apart, **mixed}


def share_weights(logs: np.ndarray) -> np.ndarray:
    """Give how likely each share is in each family, the law of shares learned from all families.

    Empirical Bayes with a few imagined families, by expectation and maximization.

    Parameters
    ----------
    logs : array, shape (families, shares)
        Log likelihoods.

    Returns
    -------
    array of that shape
        Rows sum to 1.
    """
    prior = np.full(logs.shape[1], 1.0 / logs.shape[1])
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    for _ in range(EM_ROUNDS):
        each = likely * prior
        weights = each / each.sum(axis=1, keepdims=True)
        prior = (weights.sum(axis=0) + SHARE_PRIOR_STRENGTH / len(prior)) / (
            len(logs) + SHARE_PRIOR_STRENGTH
        )
    each = likely * prior
    return np.asarray(each / each.sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class _RowFamily:
    """Noisy counts of a family as rows, their common row, and their numbers of records."""

    rows: NoisyRows
    common: np.ndarray
    sizes: np.ndarray

    @cached_property
    def spread(self) -> np.ndarray:
        """f: variance of each row about the common one, as a share of that among rows."""
        weights = self.sizes / self.sizes.sum()
        return np.asarray(np.maximum(1.0 - 2.0 * weights + (weights**2).sum(), 1e-3))

    def log_likelihood(self, sd: float, excess: float) -> np.ndarray:
        """Log likelihood of each share, shape (shares,)."""
        noisy = self.rows.noisy
        left = noisy - np.outer(self.sizes, self.common)
        left = left - left.mean(axis=0) - left.mean(axis=1, keepdims=True) + left.mean()
        free = (noisy.shape[0] - 1) * (noisy.shape[1] - 1)
        if free == 0:
            return np.zeros(len(SHARES))
        signal = float(
            (self.sizes**2 * self.spread).sum() * (self.common * (1 - self.common)).sum()
        )
        expected = np.maximum(free * sd**2 + SHARES * signal, 1e-300)
        degrees = free / (1.0 + 0.5 * excess)
        return np.asarray(-0.5 * degrees * (np.log(expected) + (left**2).sum() / expected))

    def prior(self, share: float) -> np.ndarray:
        """Dirichlet parameters of the rows: concentration 1 / (q f) - 1 around the common row."""
        concentration = 1.0 / np.minimum(share * self.spread, 0.95) - 1.0
        return np.maximum(np.outer(concentration, self.common), LEAST_PRIOR)


def _share_posteriors(
    families: Sequence[_RowFamily], weights: np.ndarray, total: float | None
) -> list[tuple[list[TablePosterior], np.ndarray]]:
    """Give the posteriors of each family's shares, and how likely these are; no unlikely ones."""
    kept = weights >= np.minimum(LEAST_WEIGHT, weights.max(axis=1, keepdims=True))
    rows: list[NoisyRows] = []
    priors: list[np.ndarray] = []
    for family, shares in zip(families, kept, strict=True):
        own = [family.prior(float(share)) for share in SHARES[shares]]
        rows += [family.rows] * len(own)
        priors += own
    found = iter(posteriors_given_priors(rows, priors, total))
    return [
        ([next(found) for _ in range(shares.sum())], likely[shares])
        for shares, likely in zip(kept, weights, strict=True)
    ]


def _as_rows(table: NoisyTable) -> np.ndarray:
    return table.noisy.reshape(-1, table.noisy.shape[-1])


def _estimated_total(tables: Mapping[str, NoisyTable]) -> float:
    """Number of records as the noisy counts tell it: every family counts all of them."""
    cells = np.array([t.noisy.size for t in tables.values()], float)
    sums = np.array([t.noisy.sum() for t in tables.values()], float)
    return max(float((sums / cells).sum() / (1.0 / cells).sum()), 1.0)


def _row_families(several: Sequence[NoisyRows], sd: float, size: float) -> list[_RowFamily]:
    """Find the common row of each family, and the numbers of records of its rows."""
    none = (np.zeros(1), np.full(1, np.inf))
    sums = [
        NoisyRows(
            rows.shape[-1:], rows.noisy.sum(axis=0)[None],
            (DISCRETE_GAUSSIAN, sd * len(rows.noisy) ** 0.5, rows.noise[2] * len(rows.noisy)), none,
        )
        for rows in several
    ]  # fmt: skip
    return [
        _RowFamily(rows, common.mean(), _row_sizes(rows.noisy, *rows.told, sd, size))
        for rows, common in zip(
            several, family_posteriors(sums, size, COMMON_ROW_PRIORS), strict=True
        )
    ]


def _row_sizes(
    noisy: np.ndarray, center: np.ndarray, variance: np.ndarray, sd: float, size: float
) -> np.ndarray:
    """Numbers of records of the rows: what others tell and their own sums, adding up to `size`."""
    told, own = 1.0 / np.maximum(variance, 1e-300), 1.0 / max(noisy.shape[1] * sd**2, 1e-300)
    found = (told * center + own * noisy.sum(axis=1)) / (told + own)
    found = np.maximum(found + (size - found.sum()) / len(found), LEAST_SIZE * size)
    return np.asarray(found * (size / found.sum()))
