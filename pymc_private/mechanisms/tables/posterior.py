"""The posterior of probabilities given noisy counts, with what tables tell each other: T26.

Three things are known of the rows of a family besides its own noisy cells: the public total N of
all of them; the same rows' sums in any other family that counts the attributes of these rows (the
class table and the other features of naive Bayes), or the cells where there is one row (classes);
that no count is negative. Margins of other families enter as Gaussians of the right variance; the
rest is exact on the grid of `cells`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from pymc_private.mechanisms.tables.cells import Cells
from pymc_private.mechanisms.tables.layout import LEAST_SD, cells, distinct_cells, likely_most
from pymc_private.mechanisms.tables.matching import log_evidence, match_sum, match_totals
from pymc_private.mechanisms.tables.sums import draw_given_sums
from pymc_private.privacy.noisy_counts import GAUSSIAN

PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Prior parameters of a cell, equally likely at first; their posterior mean is taken."""

GRAIN = 32.0
"""Noisy counts are told apart by this share of the noise's scale where priors are weighed."""


@dataclass(frozen=True)
class NoisyTable:
    """One family of tables after noise.

    Attributes
    ----------
    noisy : array of int, shape (..., d)
        The last axis is the simplex; the others are the attributes a row is known by.
    dims : tuple of str
        One name per axis. Axes of several families that have one name count the same attribute.
    """

    noisy: np.ndarray
    dims: tuple[str, ...]


@dataclass(frozen=True)
class TablePosterior:
    """The posterior of one family.

    Attributes
    ----------
    shape : tuple of int
    laws : Cells
        Of its rows; of one row if the rows know nothing but their common total.
    tilt : array, shape (rows of laws,)
    center, variance : array, shape (rows of laws,)
        What is known of the rows' sums; variance 0 is exact, inf is nothing.
    prior : float or array of that shape
        Parameter of each cell.
    kept : float
        Share of the differences between rows that is kept: see `shrunk`.
    """

    shape: tuple[int, ...]
    laws: Cells
    tilt: np.ndarray
    center: np.ndarray
    variance: np.ndarray
    prior: float | np.ndarray
    kept: float = 1.0

    def counts(self) -> np.ndarray:
        """Posterior means of the true counts."""
        return self._shaped(self.laws.moments(self.tilt)[0])

    def mean(self) -> np.ndarray:
        """Posterior means of the probabilities, strictly inside (0, 1)."""
        smooth = self.counts() + self.prior
        return np.asarray(smooth / smooth.sum(axis=-1, keepdims=True))

    def draw(self, draws: int, generator: np.random.Generator) -> np.ndarray:
        """Draw tables of Dirichlet parameters n + a, n the true counts: shape (draws, ...)."""
        counts = draw_given_sums(self.laws, self.tilt, self._log_sum, draws, generator)
        return np.stack([self._shaped(drawn) for drawn in counts]) + self.prior

    def _shaped(self, counts: np.ndarray) -> np.ndarray:
        """Give counts the shape of the family, its rows drawn together."""
        rows = counts.reshape(-1, self.shape[-1])
        if self.kept < 1.0:
            alike = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / max(float(rows.sum()), 1e-300)
            rows = self.kept * rows + (1.0 - self.kept) * alike
        return np.asarray(rows.reshape(self.shape))

    def _log_sum(self, row: int, sums: np.ndarray) -> np.ndarray:
        """Log weight of a row's sums. A tilt common to all rows stands for their total."""
        center, variance = float(self.center[row]), float(self.variance[row])
        if variance == 0.0:
            off = np.abs(sums - center)
            return np.where(off <= off.min() + 1e-9, self.tilt[row] * sums, -np.inf)
        if math.isinf(variance):
            return np.asarray(self.tilt[row] * sums)
        mean = float(self.laws.moments(self.tilt)[0][row].sum())
        common = self.tilt[row] - (center - mean) / variance
        return np.asarray(common * sums - 0.5 * (sums - center) ** 2 / variance)


def noisy_posterior(
    tables: Mapping[str, NoisyTable],
    law: str,
    scale: float,
    sd: float,
    total: float | None,
    minimum: float = 0.0,
    consistent: bool = True,
    priors: Sequence[float] = PRIORS,
) -> dict[str, TablePosterior]:
    """Give the posterior of every family.

    Parameters
    ----------
    tables : mapping of str to NoisyTable
    law, scale, sd
        The noise, and its standard deviation.
    total : float or None
        Public number of records; None where it is protected.
    minimum : float
        Public lower bound of every count.
    consistent : bool
        False: each cell by itself, as a baseline.
    priors : sequence of float
        Prior parameters of a cell to weigh by the probability of the noisy counts.
    """
    found, sd = {}, max(sd, LEAST_SD)
    told = told_sums(tables, sd)
    for name, table in tables.items():
        rows = table.noisy.reshape(-1, table.noisy.shape[-1])
        if not consistent:
            found[name] = _apart(table, rows, law, scale, minimum, 1.0)
            continue
        noise = (law, scale, minimum)
        if len(rows) == 1:
            rows, noise = _told_cells(table, tables, noise, sd)
        found[name] = family_posterior(table, rows, noise, total, told[name], priors)
    return found


def _told_cells(
    table: NoisyTable, tables: Mapping[str, NoisyTable], noise: tuple[str, float, float], sd: float
) -> tuple[np.ndarray, tuple[str, float, float]]:
    """Average one row of counts with the margins of all families whose rows it tells apart.

    It is taken as Gaussian; so Laplace noise is left alone where others say less than it does. A
    name on another simplex tells nothing: two questions may have one scale.
    """
    others = [
        _margin(other, table.dims, sd)
        for other in tables.values()
        if other is not table and set(table.dims) <= set(other.dims[:-1])
    ]
    precision = np.array([1.0 / max(variance, 1e-300) for _, variance in others])
    own = 1.0 / max(sd**2, 1e-300)
    both = own + float(precision.sum())
    if not others or (noise[0] != GAUSSIAN and both < 2.0 * own):
        return table.noisy.reshape(1, -1), noise
    every = own * table.noisy.ravel() + precision @ np.stack([margin for margin, _ in others])
    return np.round(every / both).astype(np.int64)[None], (GAUSSIAN, both**-0.5, noise[2])


def shrunk(
    posteriors: Mapping[str, TablePosterior], tables: Mapping[str, NoisyTable], sd: float
) -> dict[str, TablePosterior]:
    """Draw the rows of families together as far as noise explains their differences.

    The prior of `noisy_posterior` takes all cells of a family as unlike each other, so noise in one
    row passes for a difference between rows, which is what a classifier goes by. The residuals of
    the noisy counts from independence, n_row n_value / N, keep the share that positive-part
    James-Stein leaves them: 1 - (rows - 1) (values - 1) sd^2 / their sum of squares, both sums over
    all families whose rows are values of the same columns.
    """
    sums: dict[tuple[str, ...], np.ndarray] = {}
    for name, posterior in posteriors.items():
        found = np.array(_residuals(posterior, tables[name]))
        parents = tables[name].dims[:-1]
        sums[parents] = sums.get(parents, np.zeros(2)) + found
    kept = {
        parents: max(0.0, 1.0 - free * sd**2 / left) if free and left > 0.0 else 1.0
        for parents, (free, left) in sums.items()
    }
    return {k: replace(p, kept=kept[tables[k].dims[:-1]]) for k, p in posteriors.items()}


def _residuals(posterior: TablePosterior, table: NoisyTable) -> tuple[float, float]:
    """Degrees of freedom of the differences between rows, and their sum of squares."""
    rows = table.noisy.reshape(-1, table.noisy.shape[-1]).astype(float)
    counts = posterior.counts().reshape(rows.shape)
    alike = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / max(float(counts.sum()), 1e-300)
    free = (rows.shape[0] - 1) * (rows.shape[1] - 1)
    return float(free), float(((rows - alike) ** 2).sum()) if free else 0.0


def _apart(
    table: NoisyTable, rows: np.ndarray, law: str, scale: float, minimum: float, prior: float
) -> TablePosterior:
    laws = cells(rows, law, scale, prior, minimum)
    none = np.zeros(len(rows))
    return TablePosterior(table.noisy.shape, laws, none, none, none + np.inf, prior)


def family_posterior(
    table: NoisyTable,
    rows: np.ndarray,
    noise: tuple[str, float, float],
    total: float | None,
    told: tuple[np.ndarray, np.ndarray],
    priors: Sequence[float] = PRIORS,
) -> TablePosterior:
    """Give the posterior of one family, of whose rows' sums others have told.

    noise: the law, its scale and the least count; told: mean and variance of each row's sum.
    """
    center, variance = told
    prior = _prior_mean(rows, noise, total, priors)
    laws = cells(rows, noise[0], noise[1], prior, noise[2], total, likely_most(center, variance))
    if total is not None and alone(rows, variance):
        laws = laws.flat()
        few = distinct_cells(rows, *noise, total)
        tilt = match_sum(few.with_prior(prior), total)
        center, variance = np.array([total]), np.zeros(1)
    else:
        tilt = match_totals(laws, center, variance, total)
    return TablePosterior(table.noisy.shape, laws, tilt, center, variance, prior)


def alone(rows: np.ndarray, variance: np.ndarray) -> bool:
    """Nothing is known of the rows' sums but what they add up to."""
    return len(rows) == 1 or not np.isfinite(variance).any()


def _prior_mean(
    rows: np.ndarray, noise: tuple[str, float, float], total: float | None, priors: Sequence[float]
) -> float:
    """Posterior mean of the prior parameter of a cell, given the noisy counts; 1 without a total.

    A mean, not the most likely one: where noise hides everything, that would be a lucky guess.
    """
    if total is None:
        return 1.0
    if len(priors) == 1:
        return priors[0]
    each = np.array(priors)
    grain = max(1, int(noise[1] / GRAIN))  # finer differences weigh the same under every prior
    near = (np.round(rows / grain) * grain).astype(np.int64)
    laws = distinct_cells(near, *noise, total).with_each(priors)
    tilt = match_sum(laws, total, 1e-2)  # where the tilt is right, the evidence is level in it
    scores = log_evidence(laws, tilt, total, each)
    return float(f"{special.softmax(scores) @ each:.2g}")  # few values: their tables are kept


def told_sums(
    tables: Mapping[str, NoisyTable], sd: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """What other families say of the sums of each family's rows: mean and variance of a Gaussian.

    Every family that counts the attributes by which rows are known has a margin of them, of
    variance sd^2 times the number of cells summed; they are averaged by their precision.
    """
    margins: dict[tuple[str, ...], dict[str, tuple[np.ndarray, float]]] = {}
    found = {}
    for name, table in tables.items():
        parents = table.dims[:-1]
        if parents not in margins:
            margins[parents] = {
                other: _margin(others, parents, sd)
                for other, others in tables.items()
                if parents and set(parents) <= set(others.dims)
            }
        others = [told for other, told in margins[parents].items() if other != name]
        size = int(np.prod(table.noisy.shape[:-1]))
        if not others:
            found[name] = np.zeros(size), np.full(size, np.inf)
            continue
        precision = np.array([1.0 / max(variance, 1e-300) for _, variance in others])
        center = precision @ np.stack([margin for margin, _ in others]) / precision.sum()
        found[name] = center, np.full(size, 1.0 / precision.sum())
    return found


def _margin(table: NoisyTable, parents: tuple[str, ...], sd: float) -> tuple[np.ndarray, float]:
    """Noisy counts of the parents' values, and their variance."""
    axes = tuple(i for i, dim in enumerate(table.dims) if dim not in parents)
    kept = [dim for dim in table.dims if dim in parents]
    margin = np.transpose(table.noisy.sum(axis=axes), [kept.index(dim) for dim in parents])
    return margin.ravel(), table.noisy.size / margin.size * sd**2
