"""Posterior of one family of tables as noisy rows, and what is known of their sums (T26).

Three things are known of the rows besides their own noisy cells: the public total N of all of
them; their sums by other families, as Gaussians (`posterior`); and that no count is negative. The
distributions of the cells are exponentially tilted until they agree with that (`saddlepoint`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from pymc_private.counts.denoise.cell_distributions import CountNoise, cell_distributions
from pymc_private.counts.denoise.lattices import Lattice, NoisyRow
from pymc_private.counts.denoise.saddlepoint import (
    log_sum_weight,
    log_sum_weight_slope,
    match_row_sums,
    match_total,
)
from pymc_private.counts.denoise.sum_distributions import (
    draw_given_sum,
    draw_independently,
    fitting_lattice,
    match_total_of_sums,
    sum_distribution,
)


@dataclass(frozen=True)
class NoisyRows:
    """Noisy counts of one family as rows, and what is known of their sums.

    Attributes
    ----------
    shape : tuple of int
        Of the family.
    noisy : array of int, shape (rows, d)
    noise : CountNoise
    margins : tuple of arrays, each of shape (rows,)
        Mean and variance of each row's sum; variance 0 is exact, an infinite one says nothing.
    """

    shape: tuple[int, ...]
    noisy: np.ndarray
    noise: CountNoise
    margins: tuple[np.ndarray, np.ndarray]

    @property
    def only_total_known(self) -> bool:
        """Whether nothing is known of the rows' sums but what they add up to."""
        return len(self.noisy) == 1 or not np.isfinite(self.margins[1]).any()

    def as_one_row(self, total: float) -> NoisyRows:
        """All cells as one row, whose sum is known."""
        known = np.array([total]), np.zeros(1)
        return replace(self, noisy=self.noisy.reshape(1, -1), margins=known)

    def sum_bounds(self, total: float | None) -> np.ndarray:
        """Sure or likely upper bound of each row's sum; infinite where nothing is known."""
        center, variance = self.margins
        known = np.full(len(center), np.inf if total is None else total)
        if not np.isfinite(variance).all():
            return known
        likely = np.maximum(center, 0.0) + 4.0 * np.sqrt(variance) + 1.0
        return np.asarray(np.minimum(known, likely))


@dataclass(frozen=True)
class TablePosterior:
    """The posterior of one family.

    Attributes
    ----------
    rows : NoisyRows
        One row of all cells if only their total is known.
    prior : float or array, of the family's shape
        Parameter of each cell.
    total : float or None
        Public sum of all rows.
    tilt : array, shape (rows,)
    means : array, shape (rows, d)
        Of the cells' counts at the tilt.
    sum_variance : array, shape (rows,)
        Of the rows' sums at the tilt.
    concentrations : array, shape (rows,)
        Sums of the parameters of rows that are Dirichlet-multinomial given their own sums; 1 where
        all cells of the family are, given their total.
    share_kept : float
        Share of the differences between rows that is kept: see `james_stein`.
    """

    rows: NoisyRows
    prior: float | np.ndarray
    total: float | None
    tilt: np.ndarray
    means: np.ndarray
    sum_variance: np.ndarray
    concentrations: np.ndarray
    share_kept: float = 1.0

    def counts(self) -> np.ndarray:
        """Posterior means of the true counts."""
        return self._in_family_shape(self.means)

    def mean(self) -> np.ndarray:
        """Posterior means of the probabilities, strictly inside (0, 1)."""
        smooth = self.counts() + self.prior
        return np.asarray(smooth / smooth.sum(axis=-1, keepdims=True))

    def draw(self, draws: int, generator: np.random.Generator) -> np.ndarray:
        """Draw tables of Dirichlet parameters n + a, n the true counts: shape (draws, ...).

        This is post-processing of noisy counts, so any generator serves.
        """
        drawn = []
        for k, tilt in enumerate(self.tilt.tolist()):
            row, lattice = self._row_on_lattice(k)
            if lattice is None:
                mean = float(self.means[k].sum())
                drawn.append(draw_independently(row, tilt, mean, draws, generator))
            else:
                found = sum_distribution(lattice, tilt, partial(self._log_weight, k, self._tau))
                drawn.append(draw_given_sum(lattice, found, draws, generator))
        tables = [self._in_family_shape(counts) for counts in np.stack(drawn, axis=1)]
        return np.stack(tables) + self.prior

    def _row_on_lattice(self, k: int) -> tuple[NoisyRow, Lattice | None]:
        """A row, and its bins if its sum can be followed on any."""
        prior = np.broadcast_to(self.prior, self.rows.shape).reshape(self.means.shape)[k]
        bound = float(self.rows.sum_bounds(self.total)[k])
        row = NoisyRow(self.rows.noisy[k], self.rows.noise, prior, bound)
        return row, fitting_lattice(row, float(self.means[k].sum()), float(self.sum_variance[k]))

    def _in_family_shape(self, counts: np.ndarray) -> np.ndarray:
        """Counts in the shape of the family, their rows shrunk towards independence."""
        # As floats, since products may overflow integers of 64 bits.
        rows = counts.reshape(-1, self.rows.shape[-1]).astype(float)
        if self.share_kept < 1.0:
            total = max(float(rows.sum()), 1e-300)
            independent = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / total
            rows = self.share_kept * rows + (1.0 - self.share_kept) * independent
        return np.asarray(rows.reshape(self.rows.shape))

    def _log_weight(self, k: int, tau: float, sums: np.ndarray) -> np.ndarray:
        """Log weights of a row's sums, by what is known of it."""
        center, variance = (float(known[k]) for known in self.rows.margins)
        if variance == 0.0:
            off = np.abs(sums - center)
            return np.where(off <= off.min() + 1e-9, self.tilt[k] * sums, -np.inf)
        margin = 0.5 * (sums - center) ** 2 / variance
        size = float(self.concentrations[k])
        return np.asarray(tau * sums - margin - log_sum_weight(size, np.maximum(sums, 0.0)))

    @cached_property
    def _tau(self) -> float:
        """Tilt of all rows' sums that enforces their total; 0 if each is known, or nothing is.

        Tilts of cells match the likely sums; the means of skewed distributions are others.
        """
        center, variance = self.rows.margins
        if self.total is None or not variance.all():
            return 0.0
        mean = self.means.sum(axis=1)
        slope = log_sum_weight_slope(self.concentrations, mean)
        # The median, since some rows are at the ends of tilts.
        tau = float(np.median(self.tilt + slope - (center - mean) / variance))
        return tau + match_total_of_sums(self._sums_at(tau), self.total)

    def _sums_at(self, tau: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Sums of each row, and their probabilities."""
        for k, tilt in enumerate(self.tilt.tolist()):
            _, lattice = self._row_on_lattice(k)
            if lattice is None:
                yield self.means[k].sum()[None], np.ones(1)
            else:
                found = sum_distribution(lattice, tilt, partial(self._log_weight, k, tau))
                yield found.sums, found.probabilities


def table_posterior(
    rows: NoisyRows, prior: float | np.ndarray, total: float | None
) -> TablePosterior:
    """The posterior of a family with a prior parameter of its cells, or one of each, (rows, d).

    `total` is the public sum of all rows.
    """
    if total is not None and rows.only_total_known:
        return _posterior_given_total(rows.as_one_row(total), prior, total)
    cells = cell_distributions(rows.noisy, rows.noise, prior, rows.sum_bounds(total))
    size = np.sum(prior, axis=1) if np.ndim(prior) else np.ones(len(rows.noisy))
    tilt = match_total(cells, *rows.margins, total, size)
    means, variances, _ = cells.moments(tilt)
    own = np.reshape(prior, rows.shape) if np.ndim(prior) else prior
    return TablePosterior(rows, own, total, tilt, means, variances.sum(axis=1), size)


def _posterior_given_total(
    row: NoisyRows, prior: float | np.ndarray, total: float
) -> TablePosterior:
    """The posterior of a family of whose rows only the sum of all is known, exactly."""
    noisy, back, times, own = row.noisy[0], np.arange(row.noisy.size), None, prior
    if np.ndim(prior):
        own, prior = np.reshape(prior, row.shape), np.reshape(prior, (1, -1))
    else:  # cells of one noisy count have one distribution
        noisy, back, counts = np.unique(noisy, return_inverse=True, return_counts=True)
        times = counts[None]
    cells = cell_distributions(noisy[None], row.noise, prior, total, times)
    tilt = match_row_sums(cells, total)
    means, (_, variance) = cells.moments(tilt)[0][:, back], cells.sum_moments(tilt)
    return TablePosterior(row, own, total, tilt, means, variance, np.ones(1))
