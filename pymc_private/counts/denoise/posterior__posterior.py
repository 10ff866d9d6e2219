"""The posterior of probabilities given noisy counts, with what tables tell each other: T26.

Three things are known of the rows of a family besides its own noisy cells: the public total N of
all of them; the same rows' sums in any other family that counts the attributes of these rows (the
class table and the other features of naive Bayes), or the cells where there is one row (classes);
that no count is negative. Margins of other families enter as Gaussians of the right variance; the
rest is exact on the grid of `cells`.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pymc_private.counts.denoise.posterior import TablePosterior, family_posteriors
from pymc_private.counts.denoise.cell_grid import LEAST_SD, cells
from pymc_private.counts.denoise.posterior__rows import Rows
from pymc_private.privacy.noisy_counts__noisy_counts import GAUSSIAN

PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Prior parameters of a cell, equally likely at first; their posterior mean is taken."""


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


def noisy_posterior(
    tables: Mapping[str, NoisyTable],
    law: str,
    scale: float,
    sd: float,
    total: float | None,
    minimum: float = 0.0,
    consistent: bool = True,
    priors: Sequence[float] = PRIORS,
    told: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
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
    told : mapping, optional
        `told_sums` of the tables, if it is known already.
    """
    if not consistent:
        return {name: _apart(table, law, scale, minimum) for name, table in tables.items()}
    sd, noise = max(sd, LEAST_SD), (law, scale, minimum)
    told = told_sums(tables, sd) if told is None else told
    families = [
        Rows(table.noisy.shape, *_told_cells(table, tables, noise, sd), told[name])
        for name, table in tables.items()
    ]
    return dict(zip(tables, family_posteriors(families, total, priors), strict=True))


def _apart(table: NoisyTable, law: str, scale: float, minimum: float) -> TablePosterior:
    rows = table.noisy.reshape(-1, table.noisy.shape[-1])
    none = np.zeros(len(rows))
    laws = cells(rows, law, scale, 1.0, minimum)
    return TablePosterior(table.noisy.shape, laws, none, none, none + np.inf, 1.0)


def _told_cells(
    table: NoisyTable, tables: Mapping[str, NoisyTable], noise: tuple[str, float, float], sd: float
) -> tuple[np.ndarray, tuple[str, float, float]]:
    """Give the rows and their noise: one row averaged with margins of families it tells apart.

    It is taken as Gaussian; so Laplace noise is left alone where others say less than it does. A
    name on another simplex tells nothing: two questions may have one scale.
    """
    rows = table.noisy.reshape(-1, table.noisy.shape[-1])
    others = [
        _margin(other, table.dims, sd)
        for other in tables.values()
        if len(rows) == 1 and other is not table and set(table.dims) <= set(other.dims[:-1])
    ]
    precision = np.array([1.0 / max(variance, 1e-300) for _, variance in others])
    own = 1.0 / max(sd**2, 1e-300)
    both = own + float(precision.sum())
    if not others or (noise[0] != GAUSSIAN and both < 2.0 * own):
        return rows, noise
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
