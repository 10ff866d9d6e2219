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
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pymc_private.counts.denoise.cell_distributions import CountNoise
from pymc_private.counts.denoise.families import NoisyRows, TablePosterior, table_posterior
from pymc_private.counts.denoise.posterior import (
    MIN_SD,
    NoisyTable,
    family_posterior,
    noisy_posterior,
    row_sum_margins,
)
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE

SHARES = np.geomspace(0.01, 0.9, 5)
"""Shares q: at 0.01 rows hardly differ, at 0.9 they have next to nothing in common."""
SHARE_PRIOR_STRENGTH = 2.0
"""Weight of the uniform prior of q, in families."""
EM_ROUNDS = 50
"""Rounds of expectation and maximization."""
MIN_WEIGHT = 0.05
"""Shares less likely than this are left out: each is a pass over all cells."""
COMMON_ROW_PRIORS = (0.3,)
"""Prior parameter of a cell of the common row; noise hides its sums less, so one is enough."""
UNRELATED_WEIGHT = 0.5
"""Prior weight of the model that takes cells as unrelated."""
MIN_PRIOR, MIN_ROW_SHARE = 1e-3, 1e-3
"""Least prior parameter of a cell, and least share of the records that a row is taken to have."""
EXCESS_KURTOSIS = {DISCRETE_LAPLACE: 3.0}
"""Excess kurtosis of the noise; 0 for Gaussian noise."""


@dataclass(frozen=True)
class MixedPosterior:
    """A mixture of the posteriors of several models.

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
    distribution: str,
    scale: float,
    sd: float,
    total: float | None,
    minimum: float = 0.0,
) -> dict[str, TablePosterior | MixedPosterior]:
    """The posterior of every family, its rows shrunk together as far as noise explains them.

    Parameters
    ----------
    tables : mapping of str to NoisyTable
    distribution, scale, sd
        The noise, and its standard deviation.
    total : float or None
        Public number of records; None where it is protected, and the noisy counts estimate it.
    minimum : float
        Public lower bound of every count.
    """
    noise, sd = CountNoise(distribution, scale, minimum), max(sd, MIN_SD)
    size = _estimated_total(tables) if total is None else max(total, 1.0)
    margins = row_sum_margins(tables, sd)
    found = noisy_posterior(tables, distribution, scale, sd, total, minimum, margins=margins)
    unrelated = james_stein(found, tables, sd)
    several = {
        name: NoisyRows(table.noisy.shape, table.rows, noise, margins[name])
        for name, table in tables.items()
        if len(table.rows) > 1
    }
    if not several:
        return dict(unrelated)
    families = [_row_family(rows, sd, size) for rows in several.values()]
    excess = EXCESS_KURTOSIS.get(distribution, 0.0)
    weights = share_weights(np.stack([f.log_likelihood(sd, excess) for f in families]))
    mixed = {
        name: _mixture(unrelated[name], family, likely, total)
        for name, family, likely in zip(several, families, weights, strict=True)
    }
    return {**unrelated, **mixed}


def _estimated_total(tables: Mapping[str, NoisyTable]) -> float:
    """Number of records by the noisy counts, since every family counts all of them."""
    cells = np.array([t.noisy.size for t in tables.values()], float)
    sums = np.array([t.noisy.sum() for t in tables.values()], float)
    return max(float((sums / cells).sum() / (1.0 / cells).sum()), 1.0)


def _row_family(rows: NoisyRows, sd: float, size: float) -> _RowFamily:
    """A family with its common row and the numbers of records of its rows."""
    count, none = len(rows.noisy), (np.zeros(1), np.full(1, np.inf))
    noise = CountNoise(DISCRETE_GAUSSIAN, sd * count**0.5, rows.noise.minimum * count)
    sums = NoisyRows(rows.shape[-1:], rows.noisy.sum(axis=0)[None], noise, none)
    common = family_posterior(sums, size, COMMON_ROW_PRIORS).mean()
    return _RowFamily(rows, common, _row_sizes(rows.noisy, *rows.margins, sd, size))


def _row_sizes(
    noisy: np.ndarray, center: np.ndarray, variance: np.ndarray, sd: float, size: float
) -> np.ndarray:
    """Numbers of records of the rows: margins averaged with noisy sums, adding up to `size`."""
    margin, own = 1.0 / np.maximum(variance, 1e-300), 1.0 / max(noisy.shape[1] * sd**2, 1e-300)
    found = (margin * center + own * noisy.sum(axis=1)) / (margin + own)
    found = np.maximum(found + (size - found.sum()) / len(found), MIN_ROW_SHARE * size)
    return np.asarray(found * (size / found.sum()))


@dataclass(frozen=True)
class _RowFamily:
    """Noisy counts of a family as rows, their common row, and the numbers of records in each."""

    rows: NoisyRows
    common: np.ndarray
    sizes: np.ndarray

    @cached_property
    def spread(self) -> np.ndarray:
        """f: variance of each row about the common one, relative to that of the rows."""
        weights = self.sizes / self.sizes.sum()
        return np.asarray(np.maximum(1.0 - 2.0 * weights + (weights**2).sum(), 1e-3))

    def log_likelihood(self, sd: float, excess: float) -> np.ndarray:
        """Log likelihood of each share by the sum of squared residuals: shape (shares,)."""
        noisy = self.rows.noisy
        residuals = noisy - np.outer(self.sizes, self.common)
        columns, rows = residuals.mean(axis=0), residuals.mean(axis=1, keepdims=True)
        residuals = residuals - columns - rows + residuals.mean()
        square = (residuals**2).sum()
        free = (noisy.shape[0] - 1) * (noisy.shape[1] - 1)
        if free == 0:
            return np.zeros(len(SHARES))
        signal = float(
            (self.sizes**2 * self.spread).sum() * (self.common * (1 - self.common)).sum()
        )
        expected = np.maximum(free * sd**2 + SHARES * signal, 1e-300)
        degrees = free / (1.0 + 0.5 * excess)
        return np.asarray(-0.5 * degrees * (np.log(expected) + square / expected))

    def prior(self, share: float) -> np.ndarray:
        """Dirichlet parameters of the rows: concentration 1 / (q f) - 1 around the common row."""
        concentration = 1.0 / np.minimum(share * self.spread, 0.95) - 1.0
        return np.maximum(np.outer(concentration, self.common), MIN_PRIOR)


def share_weights(logs: np.ndarray) -> np.ndarray:
    """Posterior probabilities of the shares q in each family, by log likelihoods of that shape.

    Empirical Bayes: the prior of the shares is learned from all families, with a uniform prior of
    a few families' weight, by expectation and maximization.
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


def _mixture(
    unrelated: TablePosterior, family: _RowFamily, weights: np.ndarray, total: float | None
) -> MixedPosterior:
    """The posterior with unrelated cells, and those under each share that is not unlikely."""
    kept = weights >= min(MIN_WEIGHT, weights.max())
    parts = [table_posterior(family.rows, family.prior(q), total) for q in SHARES[kept].tolist()]
    likely = weights[kept] / weights[kept].sum()
    return MixedPosterior(
        [unrelated, *parts], np.append(UNRELATED_WEIGHT, (1.0 - UNRELATED_WEIGHT) * likely)
    )


# ---- shrinkage of rows towards independence -------------------------------------------------


def james_stein(
    posteriors: Mapping[str, TablePosterior], tables: Mapping[str, NoisyTable], sd: float
) -> dict[str, TablePosterior]:
    """Shrink the rows of families towards independence as far as noise explains their differences.

    The prior of `noisy_posterior` takes all cells of a family as unrelated, so noise in one row
    passes for a difference between rows, which is what a classifier goes by. The residuals of the
    noisy counts from independence, n_row n_value / N, keep the share that positive-part James-Stein
    leaves them: 1 - (rows - 1) (values - 1) sd^2 / their sum of squares, both sums over all
    families whose rows are values of the same columns.
    """
    sums: dict[tuple[str, ...], np.ndarray] = {}
    for name, posterior in posteriors.items():
        found = np.array(_independence_residuals(posterior, tables[name]))
        parents = tables[name].dims[:-1]
        sums[parents] = sums.get(parents, np.zeros(2)) + found
    kept = {
        parents: max(0.0, 1.0 - free * sd**2 / square) if free and square > 0.0 else 1.0
        for parents, (free, square) in sums.items()
    }
    return {k: replace(p, share_kept=kept[tables[k].dims[:-1]]) for k, p in posteriors.items()}


def _independence_residuals(posterior: TablePosterior, table: NoisyTable) -> tuple[float, float]:
    """Degrees of freedom of the residuals from independence, and their sum of squares."""
    rows = table.rows.astype(float)
    counts = posterior.counts().reshape(rows.shape)
    total = max(float(counts.sum()), 1e-300)
    independent = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    free = (rows.shape[0] - 1) * (rows.shape[1] - 1)
    return float(free), float(((rows - independent) ** 2).sum()) if free else 0.0
