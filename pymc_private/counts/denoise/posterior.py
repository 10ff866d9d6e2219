"""Posterior of probabilities given noisy counts of several families of tables (T26).

Families tell of each other: the sums of a family's rows are known, as of a Gaussian, by every other
family that counts the attributes of these rows (the class table and the other features of naive
Bayes), and so are its cells where the family is a single row (classes).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pymc_private.counts.denoise.cell_distributions import CountNoise, cell_distributions
from pymc_private.counts.denoise.families import NoisyRows, TablePosterior, table_posterior
from pymc_private.counts.denoise.saddlepoint import prior_mean
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN

PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Prior parameters of a cell, equally likely a priori; their posterior mean is taken."""
MIN_SD = 0.01
"""Sums of whole numbers with less noise are known; arithmetic with its square would break down."""


@dataclass(frozen=True)
class NoisyTable:
    """One family of tables after noise.

    Attributes
    ----------
    noisy : array of int, shape (..., d)
        The last axis is the simplex; the others are the attributes that identify a row.
    dims : tuple of str
        One name per axis. Axes of several families that have one name count the same attribute.
    """

    noisy: np.ndarray
    dims: tuple[str, ...]

    @property
    def rows(self) -> np.ndarray:
        """The noisy counts, shape (rows, d)."""
        return self.noisy.reshape(-1, self.noisy.shape[-1])


def noisy_posterior(
    tables: Mapping[str, NoisyTable],
    distribution: str,
    scale: float,
    sd: float,
    total: float | None,
    minimum: float = 0.0,
    consistent: bool = True,
    priors: Sequence[float] = PRIORS,
    margins: Mapping[str, tuple[np.ndarray, np.ndarray]] | None = None,
) -> dict[str, TablePosterior]:
    """The posterior of every family.

    Parameters
    ----------
    tables : mapping of str to NoisyTable
    distribution, scale, sd
        The noise, and its standard deviation.
    total : float or None
        Public number of records; None where it is protected.
    minimum : float
        Public lower bound of every count.
    consistent : bool
        False: each cell by itself, as a baseline.
    priors : sequence of float
        Prior parameters of a cell to weigh by the probability of the noisy counts.
    margins : mapping, optional
        `row_sum_margins` of the tables, if they are known already.
    """
    noise = CountNoise(distribution, scale, minimum)
    if not consistent:
        return {name: _unrelated_cells(table, noise) for name, table in tables.items()}
    sd = max(sd, MIN_SD)
    margins = row_sum_margins(tables, sd) if margins is None else margins
    return {
        name: family_posterior(
            NoisyRows(
                table.noisy.shape, *_averaged_rows(table, tables, noise, sd), margins[name]
            ),
            total, priors,
        )
        for name, table in tables.items()
    }  # fmt: skip


def family_posterior(
    rows: NoisyRows, total: float | None, priors: Sequence[float]
) -> TablePosterior:
    """The posterior of a family whose margins are known.

    `total` is the public sum of all rows; `priors` are prior parameters of a cell to weigh by the
    probability of the noisy counts.
    """
    return table_posterior(rows, prior_mean(rows.noisy, rows.noise, total, priors), total)


def _unrelated_cells(table: NoisyTable, noise: CountNoise) -> TablePosterior:
    """The posterior of each cell by itself, with a prior parameter of 1."""
    none = np.zeros(len(table.rows))
    rows = NoisyRows(table.noisy.shape, table.rows, noise, (none, none + np.inf))
    means, variances, _ = cell_distributions(table.rows, noise, 1.0).moments(none)
    return TablePosterior(rows, 1.0, None, none, means, variances.sum(axis=1), none + 1.0)


def _averaged_rows(
    table: NoisyTable, tables: Mapping[str, NoisyTable], noise: CountNoise, sd: float
) -> tuple[np.ndarray, CountNoise]:
    """The rows and their noise; a single row is averaged with margins of other families.

    These are the families that have its simplex among the axes of their rows: the same name as
    their own simplex is no such axis, since two questions may have one scale of answers. The
    average is taken as Gaussian, so Laplace noise is left alone where others say less than it does.
    """
    rows = table.rows
    others = [
        _margin(other, table.dims, sd)
        for other in tables.values()
        if len(rows) == 1 and other is not table and set(table.dims) <= set(other.dims[:-1])
    ]
    own = 1.0 / max(sd**2, 1e-300)
    if not others:
        return rows, noise
    center, variance = _precision_average([(table.noisy.ravel(), 1.0 / own), *others])
    if noise.distribution != DISCRETE_GAUSSIAN and 1.0 / variance < 2.0 * own:
        return rows, noise
    averaged = np.round(center).astype(np.int64)[None]
    return averaged, CountNoise(DISCRETE_GAUSSIAN, variance**0.5, noise.minimum)


def row_sum_margins(
    tables: Mapping[str, NoisyTable], sd: float
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and variance, as of a Gaussian, of the sums of each family's rows by other families.

    Every family that counts the attributes by which rows are identified has a margin of them, of
    variance sd^2 times the number of cells summed; they are averaged by their precision.
    """
    margins: dict[tuple[str, ...], dict[str, tuple[np.ndarray, float]]] = {}
    found = {}
    for name, table in tables.items():
        parents, size = table.dims[:-1], len(table.rows)
        if parents not in margins:
            margins[parents] = {
                other: _margin(others, parents, sd)
                for other, others in tables.items()
                if parents and set(parents) <= set(others.dims)
            }
        others = [margin for other, margin in margins[parents].items() if other != name]
        center, variance = _precision_average(others) if others else (np.zeros(size), np.inf)
        found[name] = center, np.full(size, variance)
    return found


def _margin(table: NoisyTable, parents: tuple[str, ...], sd: float) -> tuple[np.ndarray, float]:
    """Noisy counts of the parents' values, and their variance."""
    axes = tuple(i for i, dim in enumerate(table.dims) if dim not in parents)
    kept = [dim for dim in table.dims if dim in parents]
    margin = np.transpose(table.noisy.sum(axis=axes), [kept.index(dim) for dim in parents])
    return margin.ravel(), table.noisy.size / margin.size * sd**2


def _precision_average(values: Sequence[tuple[np.ndarray, float]]) -> tuple[np.ndarray, float]:
    """Average of values of known variances, weighed by their precision, and its variance."""
    precision = np.array([1.0 / max(variance, 1e-300) for _, variance in values])
    center = precision @ np.stack([value for value, _ in values]) / precision.sum()
    return center, float(1.0 / precision.sum())
