"""Posterior of probabilities given noisy counts of several families of tables (T26).

Besides its own noisy cells, three things are known of the rows of a family: the public total N
of all of them; the sums of the same rows in every other family that counts the attributes of
these rows (the class table and the other features of naive Bayes), or its cells where the
family is a single row (classes); and that no count is negative. Margins of other families
enter as Gaussians of the right variance; the rest is exact on the grids of `cell_grid`.

The distributions of the cells are exponentially tilted until they agree with what is known of
their sums (`saddlepoint`). Families of one data set are solved together, each as if it were by
itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from pymc_private.counts.denoise.cell_distributions import CellDistributions
from pymc_private.counts.denoise.cell_grid import (
    MIN_SD,
    CountNoise,
    ObservedCounts,
    cell_distributions,
    likely_upper_bound,
    noise_distributions,
)
from pymc_private.counts.denoise.saddlepoint import (
    FamilyStack,
    log_sum_weight,
    log_sum_weight_slope,
    match_row_sums,
    match_stack_total,
    prior_means,
    solve_in_stacks,
)
from pymc_private.counts.denoise.sum_distributions import (
    LogWeights,
    draw_given_sums,
    match_total_of_sums,
    partial_sums_fit,
    sum_distribution,
)
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN

PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0)
"""Prior parameters of a cell, equally likely a priori; their posterior mean is taken."""
DISTINCT_SHARE = 0.5
"""Distinct noisy counts are solved in place of all cells if they are no more than this share."""
REFINEMENT, MIN_BINS_OF_SUM = 4, 8.0
"""Bins are this much finer where counts are drawn: within a bin, a draw does not depend on its
row's sum. If a sum is less than so many bins they are finer still, where that makes no more than
`MAX_NUMBERS_AT_ONCE` numbers."""
MAX_NUMBERS_AT_ONCE = 2**22
"""Numbers in the distributions of rows that are drawn at once."""


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
        Mean and variance of each row's sum by other families; an infinite variance says nothing.
    """

    shape: tuple[int, ...]
    noisy: np.ndarray
    noise: CountNoise
    margins: tuple[np.ndarray, np.ndarray]

    @property
    def likely_max(self) -> np.ndarray | None:
        """Likely upper bounds of the sums, where all of them are known."""
        return likely_upper_bound(*self.margins)

    @property
    def only_total_known(self) -> bool:
        """Whether nothing is known of the rows' sums but what they add up to."""
        return len(self.noisy) == 1 or not np.isfinite(self.margins[1]).any()

    def observed(self, prior: float | np.ndarray, total: float | None) -> ObservedCounts:
        """The noisy counts and all that their grids depend on."""
        own = prior if isinstance(prior, np.ndarray) else None
        return ObservedCounts(self.noisy, self.noise, total, self.likely_max, prior=own)

    def as_one_row(self, prior: float | np.ndarray, total: float) -> ObservedCounts:
        """All cells as one row."""
        own = prior.reshape(1, -1) if isinstance(prior, np.ndarray) else None
        return ObservedCounts(self.noisy.reshape(1, -1), self.noise, total, prior=own)

    def concentrations(self, prior: float | np.ndarray) -> np.ndarray:
        """Sums of the parameters of rows that are Dirichlet-multinomial given their own sums.

        Rows with a single parameter are not: all cells of the family are, given their total. For
        these it is 1.
        """
        if isinstance(prior, np.ndarray):
            return np.asarray(prior.sum(axis=1))
        return np.ones(len(self.noisy))

    def few_distinct(self, prior: float | np.ndarray) -> bool:
        """Whether there are few distinct noisy counts, of a single prior parameter."""
        if isinstance(prior, np.ndarray):
            return False
        return len(np.unique(self.noisy)) <= DISTINCT_SHARE * self.noisy.size

    def in_family_shape(self, prior: float | np.ndarray) -> float | np.ndarray:
        """Prior parameters in the shape of the family."""
        return prior.reshape(self.shape) if isinstance(prior, np.ndarray) else prior


RowsWithPrior = tuple[NoisyRows, float | np.ndarray]
"""Noisy rows, and the prior parameter of their cells."""


@dataclass(frozen=True)
class TablePosterior:
    """The posterior of one family.

    Attributes
    ----------
    shape : tuple of int
    cells : CellDistributions
        Of its rows; of one row if nothing is known of the rows but their common total.
    tilt : array, shape (rows of cells,)
    center, variance : array, shape (rows of cells,)
        What is known of the rows' sums; variance 0 is exact, inf is nothing.
    prior : float or array of that shape
        Parameter of each cell.
    share_kept : float
        Share of the differences between rows that is kept: see `james_stein`.
    means : array, shape (rows of cells, d), optional
        Means of the cells at the tilt, where they are known already.
    concentrations : array, shape (rows of cells,), optional
        See `NoisyRows.concentrations`.
    total : float or None
        Public sum of all rows, where these are several with known margins.
    """

    shape: tuple[int, ...]
    cells: CellDistributions
    tilt: np.ndarray
    center: np.ndarray
    variance: np.ndarray
    prior: float | np.ndarray
    share_kept: float = 1.0
    means: np.ndarray | None = None
    concentrations: np.ndarray | None = None
    total: float | None = None

    def counts(self) -> np.ndarray:
        """Posterior means of the true counts."""
        means = self.cells.moments(self.tilt)[0] if self.means is None else self.means
        return self._in_family_shape(means)

    def mean(self) -> np.ndarray:
        """Posterior means of the probabilities, strictly inside (0, 1)."""
        smooth = self.counts() + self.prior
        return np.asarray(smooth / smooth.sum(axis=-1, keepdims=True))

    def draw(self, draws: int, generator: np.random.Generator) -> np.ndarray:
        """Draw tables of Dirichlet parameters n + a, n the true counts: shape (draws, ...)."""
        counts = np.concatenate(
            [
                draw_given_sums(
                    cells, tilt, self._log_weights(start, self._total_tilt), draws, generator
                )
                for start, cells, tilt in self._pieces()
            ],
            axis=1,
        )
        return np.stack([self._in_family_shape(drawn) for drawn in counts]) + self.prior

    def _pieces(self) -> Iterator[tuple[int, CellDistributions, np.ndarray]]:
        """Rows in pieces that fit the memory: first row, distributions on fine bins, tilts."""
        rows, d, width = self.cells.log_weights.shape
        sums = np.maximum(self.counts().reshape(rows, -1).sum(axis=1), 1.0)
        wanted = np.ceil((MIN_BINS_OF_SUM * self.cells.step / sums).max())
        most = max(REFINEMENT, int(min(wanted, MAX_NUMBERS_AT_ONCE / (rows * d * width))))
        some = max(1, MAX_NUMBERS_AT_ONCE // (most * d * width))
        for start in range(0, rows, some):
            part = slice(start, start + some)
            cells, tilt = self.cells.select(part, d, width), self.tilt[part]
            candidates = (most, REFINEMENT, REFINEMENT // 2)
            times = next((n for n in candidates if partial_sums_fit(cells, tilt, n)), 1)
            yield start, cells.refined(times), tilt

    def _in_family_shape(self, counts: np.ndarray) -> np.ndarray:
        """Counts in the shape of the family, their rows shrunk towards independence."""
        # As floats, since products may overflow integers of 64 bits.
        rows = counts.reshape(-1, self.shape[-1]).astype(float)
        if self.share_kept < 1.0:
            total = max(float(rows.sum()), 1e-300)
            independent = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / total
            rows = self.share_kept * rows + (1.0 - self.share_kept) * independent
        return np.asarray(rows.reshape(self.shape))

    def _log_weights(self, start: int, tau: float) -> LogWeights:
        """Log weights of rows' sums, of rows from `start` on."""

        def logs(row: int, sums: np.ndarray) -> np.ndarray:
            center, variance = float(self.center[row]), float(self.variance[row])
            if variance == 0.0:
                off = np.abs(sums - center)
                return np.where(off <= off.min() + 1e-9, self.tilt[row] * sums, -np.inf)
            size = 1.0 if self.concentrations is None else float(self.concentrations[row])
            margin = 0.5 * (sums - center) ** 2 / variance
            return np.asarray(tau * sums - margin - log_sum_weight(size, np.maximum(sums, 0.0)))

        return lambda row: partial(logs, start + row)

    @cached_property
    def _total_tilt(self) -> float:
        """Tilt of all rows' sums that enforces their total.

        Tilts of cells match the likely sums; the means of skewed distributions are others.
        """
        if self.total is None:
            return 0.0
        mean = self.cells.moments(self.tilt)[0].sum(axis=1)
        concentrations = self.concentrations
        slope = 0.0 if concentrations is None else log_sum_weight_slope(concentrations, mean)
        # The median, since some rows are at the ends of tilts.
        tau = float(np.median(self.tilt + slope - (self.center - mean) / self.variance))
        rows = (
            sum_distribution(cells.row(k), float(own), self._log_weights(start, tau)(k))
            for start, cells, tilt in self._pieces()
            for k, own in enumerate(tilt)
        )
        return tau + match_total_of_sums(rows, self.total)


# ---- all families of one data set -----------------------------------------------------------


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
    families = [
        NoisyRows(table.noisy.shape, *_rows_with_margins(table, tables, noise, sd), margins[name])
        for name, table in tables.items()
    ]
    return dict(zip(tables, family_posteriors(families, total, priors), strict=True))


def _unrelated_cells(table: NoisyTable, noise: CountNoise) -> TablePosterior:
    """The posterior of each cell by itself, with a prior parameter of 1."""
    none = np.zeros(len(table.rows))
    cells = cell_distributions(table.rows, noise.distribution, noise.scale, 1.0, noise.minimum)
    return TablePosterior(table.noisy.shape, cells, none, none, none + np.inf, 1.0)


def _rows_with_margins(
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
    precision = np.array([1.0 / max(variance, 1e-300) for _, variance in others])
    own = 1.0 / max(sd**2, 1e-300)
    both = own + float(precision.sum())
    if not others or (noise.distribution != DISCRETE_GAUSSIAN and both < 2.0 * own):
        return rows, noise
    every = own * table.noisy.ravel() + precision @ np.stack([margin for margin, _ in others])
    averaged = np.round(every / both).astype(np.int64)[None]
    return averaged, CountNoise(DISCRETE_GAUSSIAN, both**-0.5, noise.minimum)


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
        parents = table.dims[:-1]
        if parents not in margins:
            margins[parents] = {
                other: _margin(others, parents, sd)
                for other, others in tables.items()
                if parents and set(parents) <= set(others.dims)
            }
        others = [margin for other, margin in margins[parents].items() if other != name]
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


# ---- families as rows with margins ----------------------------------------------------------


def family_posteriors(
    families: Sequence[NoisyRows], total: float | None, priors: Sequence[float]
) -> list[TablePosterior]:
    """The posteriors of families whose margins are known.

    `total` is the public sum of all rows of each; `priors` are prior parameters of a cell to weigh
    by the probability of the noisy counts.
    """
    chosen = prior_means([(rows.noisy, rows.noise) for rows in families], total, priors)
    return posteriors_given_priors(families, chosen, total)


def posteriors_given_priors(
    families: Sequence[NoisyRows],
    priors: Sequence[float] | Sequence[np.ndarray],
    total: float | None,
) -> list[TablePosterior]:
    """The posteriors of families with a prior parameter of their cells, or one of each cell.

    The cells are tilted until they agree with what is known of the sums of their rows.
    """
    every: list[RowsWithPrior] = list(zip(families, priors, strict=True))
    free = [total is not None and rows.only_total_known for rows in families]
    from_total = iter(
        _posteriors_from_total([one for one, yes in zip(every, free, strict=True) if yes], total)
    )
    others = [one for one, yes in zip(every, free, strict=True) if not yes]
    from_margins = iter(_posteriors_from_margins(others, total))
    return [next(from_total) if yes else next(from_margins) for yes in free]


def _posteriors_from_total(
    families: Sequence[RowsWithPrior], total: float | None
) -> list[TablePosterior]:
    """Posteriors of families of whose rows only the sum of all is known, exactly."""
    if total is None:
        return []
    few = [rows.few_distinct(a) for rows, a in families]
    flat = [a.reshape(1, -1) if isinstance(a, np.ndarray) else a for _, a in families]
    observed = [
        ObservedCounts.distinct(rows.noisy, rows.noise, total)
        if yes
        else rows.as_one_row(prior, total)
        for (rows, prior), yes in zip(families, few, strict=True)
    ]
    known = np.array([total]), np.zeros(1)

    def solve(
        stack: FamilyStack, narrow: bool
    ) -> tuple[np.ndarray, Iterator[tuple[int, TablePosterior]]]:
        stack = stack.with_priors(flat)
        tilt = match_row_sums(stack.cells, total)
        means = stack.cells.moments(tilt)[0]

        def posterior(k: int, i: int, mean: np.ndarray) -> TablePosterior:
            rows, prior = families[i]
            cells = stack.family(k)
            if few[i]:  # of distinct counts: each cell's own are made here, its mean when needed
                one_row = replace(rows.as_one_row(prior, total), request=stack.requests[k])
                cells = noise_distributions(one_row, narrow).with_prior(prior)
            return TablePosterior(
                rows.shape, cells, tilt[stack.rows(k)], *known, rows.in_family_shape(prior),
                means=None if few[i] else mean,
            )  # fmt: skip

        return tilt, ((i, posterior(k, i, mean)) for k, (i, mean) in enumerate(stack.split(means)))

    return solve_in_stacks(observed, solve, refine=True)


def _posteriors_from_margins(
    families: Sequence[RowsWithPrior], total: float | None
) -> list[TablePosterior]:
    """Posteriors of families whose rows' sums are known by margins of others, or not at all."""
    each = [rows.concentrations(prior) for rows, prior in families]

    def solve(
        stack: FamilyStack, narrow: bool
    ) -> tuple[np.ndarray, Iterator[tuple[int, TablePosterior]]]:
        stack = stack.with_priors([prior for _, prior in families])
        center, variance = (
            stack.concatenate([rows.margins[k] for rows, _ in families]) for k in (0, 1)
        )
        sizes = stack.concatenate(each)
        tilt, means = match_stack_total(stack, center, variance, total, sizes)

        def posterior(k: int, i: int, mean: np.ndarray) -> TablePosterior:
            rows, prior = families[i]
            return TablePosterior(
                rows.shape, stack.family(k), tilt[stack.rows(k)], *rows.margins,
                rows.in_family_shape(prior), means=mean, concentrations=each[i], total=total,
            )  # fmt: skip

        return tilt, ((i, posterior(k, i, mean)) for k, (i, mean) in enumerate(stack.split(means)))

    observed = [rows.observed(prior, total) for rows, prior in families]
    return solve_in_stacks(observed, solve, refine=True)


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
