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
    LEAST_SD,
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

DISTINCT_SHARE = 0.5
"""Laws of the distinct noisy counts are solved in place of all cells, if they are no more than this
share of them."""


@dataclass(frozen=True)
class NoisyRows:
    """Noisy counts of one family, and what is known of them.

    Attributes
    ----------
    shape : tuple of int
        Of the family.
    noisy : array of int, shape (rows, d)
    noise : tuple
        The law, its scale, and the least count.
    told : tuple of arrays, each of shape (rows,)
        Mean and variance of each row's sum as others tell it; an infinite variance says nothing.
    """

    shape: tuple[int, ...]
    noisy: np.ndarray
    noise: tuple[str, float, float]
    told: tuple[np.ndarray, np.ndarray]

    @property
    def most(self) -> np.ndarray | None:
        """What sums hardly exceed, where others tell every one of them."""
        return likely_upper_bound(*self.told)

    @property
    def alone(self) -> bool:
        """Nothing is known of the rows' sums but what they add up to."""
        return len(self.noisy) == 1 or not np.isfinite(self.told[1]).any()

    def observed(self, prior: float | np.ndarray, total: float | None) -> ObservedCounts:
        """What the grids of the cells depend on."""
        own = prior if isinstance(prior, np.ndarray) else None
        return ObservedCounts(self.noisy, self.noise, total, self.most, prior=own)

    def flat(self, prior: float | np.ndarray, total: float) -> ObservedCounts:
        """All cells as one row."""
        own = prior.reshape(1, -1) if isinstance(prior, np.ndarray) else None
        return ObservedCounts(self.noisy.reshape(1, -1), self.noise, total, prior=own)

    def sizes(self, prior: float | np.ndarray) -> np.ndarray:
        """Sums of the parameters of rows that are Dirichlet-multinomial given their own sums.

        Those of one parameter are not: all cells of the family are, given their total.
        """
        if isinstance(prior, np.ndarray):
            return np.asarray(prior.sum(axis=1))
        return np.ones(len(self.noisy))

    def few(self, prior: float | np.ndarray) -> bool:
        """Whether there are few distinct noisy counts, of one prior."""
        if isinstance(prior, np.ndarray):
            return False
        return len(np.unique(self.noisy)) <= DISTINCT_SHARE * self.noisy.size

    def shaped(self, prior: float | np.ndarray) -> float | np.ndarray:
        """Give parameters of rows the shape of the family."""
        return prior.reshape(self.shape) if isinstance(prior, np.ndarray) else prior


REFINEMENT, MIN_BINS_OF_SUM = 4, 8.0
"""Times finer bins of draws are: within a bin, a draw knows nothing of its row's sum. If that is
less than so many bins they are finer still, where that makes no more than `MAX_NUMBERS_AT_ONCE` numbers."""
MAX_NUMBERS_AT_ONCE = 2**22
"""Numbers in the laws of rows that are drawn at once."""


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
        Share of the differences between rows that is kept: see `james_stein`.
    means : array, shape (rows of laws, d), optional
        Means of the laws at the tilt, where they are known already.
    sizes : array, shape (rows of laws,), optional
        See `NoisyRows.sizes`.
    total : float or None
        Public sum of all rows, where these are several and others tell of them.
    """

    shape: tuple[int, ...]
    laws: CellDistributions
    tilt: np.ndarray
    center: np.ndarray
    variance: np.ndarray
    prior: float | np.ndarray
    kept: float = 1.0
    means: np.ndarray | None = None
    sizes: np.ndarray | None = None
    total: float | None = None

    def counts(self) -> np.ndarray:
        """Posterior means of the true counts."""
        means = self.laws.moments(self.tilt)[0] if self.means is None else self.means
        return self._shaped(means)

    def mean(self) -> np.ndarray:
        """Posterior means of the probabilities, strictly inside (0, 1)."""
        smooth = self.counts() + self.prior
        return np.asarray(smooth / smooth.sum(axis=-1, keepdims=True))

    def draw(self, draws: int, generator: np.random.Generator) -> np.ndarray:
        """Draw tables of Dirichlet parameters n + a, n the true counts: shape (draws, ...)."""
        counts = np.concatenate(
            [
                draw_given_sums(laws, tilt, self._log_weights(start, self._tau), draws, generator)
                for start, laws, tilt in self._pieces()
            ],
            axis=1,
        )
        return np.stack([self._shaped(drawn) for drawn in counts]) + self.prior

    def _pieces(self) -> Iterator[tuple[int, CellDistributions, np.ndarray]]:
        """Some rows after others: the first of them, their laws on bins to draw in, and tilts."""
        rows, d, width = self.laws.logs.shape
        sums = np.maximum(self.counts().reshape(rows, -1).sum(axis=1), 1.0)
        wanted = np.ceil((MIN_BINS_OF_SUM * self.laws.step / sums).max())
        most = max(REFINEMENT, int(min(wanted, MAX_NUMBERS_AT_ONCE / (rows * d * width))))
        some = max(1, MAX_NUMBERS_AT_ONCE // (most * d * width))
        for start in range(0, rows, some):
            part = slice(start, start + some)
            laws, tilt = self.laws.of(part, d, width), self.tilt[part]
            times = next(
                (n for n in (most, REFINEMENT, REFINEMENT // 2) if partial_sums_fit(laws, tilt, n)),
                1,
            )
            yield start, laws.finer(times), tilt

    def _shaped(self, counts: np.ndarray) -> np.ndarray:
        """Give counts the shape of the family, its rows drawn together."""
        rows = counts.reshape(-1, self.shape[-1]).astype(
            float
        )  # products are no integers of 64 bits
        if self.kept < 1.0:
            alike = np.outer(rows.sum(axis=1), rows.sum(axis=0)) / max(float(rows.sum()), 1e-300)
            rows = self.kept * rows + (1.0 - self.kept) * alike
        return np.asarray(rows.reshape(self.shape))

    def _log_weights(self, start: int, tau: float) -> LogWeights:
        """Log weights of rows' sums, of rows from `start` on."""

        def logs(row: int, sums: np.ndarray) -> np.ndarray:
            center, variance = float(self.center[row]), float(self.variance[row])
            if variance == 0.0:
                off = np.abs(sums - center)
                return np.where(off <= off.min() + 1e-9, self.tilt[row] * sums, -np.inf)
            size = 1.0 if self.sizes is None else float(self.sizes[row])
            told = 0.5 * (sums - center) ** 2 / variance
            return np.asarray(tau * sums - told - log_sum_weight(size, np.maximum(sums, 0.0)))

        return lambda row: partial(logs, start + row)

    @cached_property
    def _tau(self) -> float:
        """Tilt of all rows' sums, which stands for their total.

        Tilts of cells are right for the likely sums; of skew laws, the means are others.
        """
        if self.total is None:
            return 0.0
        mean = self.laws.moments(self.tilt)[0].sum(axis=1)
        pull = 0.0 if self.sizes is None else log_sum_weight_slope(self.sizes, mean)
        # Some are at ends, so the middle one.
        tau = float(np.median(self.tilt + pull - (self.center - mean) / self.variance))
        rows = (
            sum_distribution(laws.row(k), float(own), self._log_weights(start, tau)(k))
            for start, laws, tilt in self._pieces()
            for k, own in enumerate(tilt)
        )
        return tau + match_total_of_sums(rows, self.total)


def family_posteriors(
    families: Sequence[NoisyRows], total: float | None, priors: Sequence[float]
) -> list[TablePosterior]:
    """Give the posteriors of families, of whose rows' sums others have told.

    Parameters
    ----------
    families : sequence of Rows
    total : float or None
        Public sum of all rows of each.
    priors : sequence of float
        Prior parameters of a cell to weigh by the probability of the noisy counts.
    """
    return posteriors_given_priors(
        families, prior_means([(r.noisy, r.noise) for r in families], total, priors), total
    )


def posteriors_given_priors(
    families: Sequence[NoisyRows],
    priors: Sequence[float] | Sequence[np.ndarray],
    total: float | None,
) -> list[TablePosterior]:
    """Tilt the laws of families until they agree with what is known of the sums of their rows.

    Parameters
    ----------
    families : sequence of Rows
    priors : sequence of float, or of arrays of the shapes of noisy counts
        Prior parameter of each cell.
    total : float or None
        Public sum of all rows of each.
    """
    every: list[RowsWithPrior] = list(zip(families, priors, strict=True))
    free = [total is not None and rows.alone for rows in families]
    alone = iter(
        _posteriors_from_total([one for one, yes in zip(every, free, strict=True) if yes], total)
    )
    bound = iter(
        _posteriors_from_margins(
            [one for one, yes in zip(every, free, strict=True) if not yes], total
        )
    )
    return [next(alone) if yes else next(bound) for yes in free]


RowsWithPrior = tuple[NoisyRows, float | np.ndarray]
"""Noisy rows, and the prior parameter of their cells."""


def _posteriors_from_total(
    families: Sequence[RowsWithPrior], total: float | None
) -> list[TablePosterior]:
    """Families of whose rows only the sum of all is known, exactly."""
    if total is None:
        return []
    few = [rows.few(a) for rows, a in families]
    flat = [a.reshape(1, -1) if isinstance(a, np.ndarray) else a for _, a in families]
    asked = [
        ObservedCounts.distinct(rows.noisy, rows.noise, total) if yes else rows.flat(prior, total)
        for (rows, prior), yes in zip(families, few, strict=True)
    ]
    known = np.array([total]), np.zeros(1)

    def one(
        stack: FamilyStack, near: bool
    ) -> tuple[np.ndarray, Iterator[tuple[int, TablePosterior]]]:
        stack = stack.with_priors(flat)
        tilt = match_row_sums(stack.laws, total)
        means = stack.laws.moments(tilt)[0]

        def own(k: int, i: int, mean: np.ndarray) -> TablePosterior:
            rows, prior = families[i]
            # Of few laws every cell's is made here, and its mean where it is asked for.
            laws = stack.family(k)
            if few[i]:
                flat = replace(rows.flat(prior, total), grid=stack.grids[k])
                laws = noise_distributions(flat, near).with_prior(prior)
            return TablePosterior(
                rows.shape, laws, tilt[stack.rows(k)], *known, rows.shaped(prior),
                means=None if few[i] else mean,
            )  # fmt: skip

        return tilt, ((i, own(k, i, mean)) for k, (i, mean) in enumerate(stack.apart(means)))

    return solve_in_stacks(asked, one, finer=True)


def _posteriors_from_margins(
    families: Sequence[RowsWithPrior], total: float | None
) -> list[TablePosterior]:
    """Families whose rows others have told of."""
    each = [rows.sizes(prior) for rows, prior in families]

    def one(
        stack: FamilyStack, near: bool
    ) -> tuple[np.ndarray, Iterator[tuple[int, TablePosterior]]]:
        stack = stack.with_priors([prior for _, prior in families])
        center, variance = (stack.of([rows.told[k] for rows, _ in families]) for k in (0, 1))
        sizes = stack.of(each)
        tilt, means = match_stack_total(stack, center, variance, total, sizes)

        def own(k: int, i: int, mean: np.ndarray) -> TablePosterior:
            rows, prior = families[i]
            return TablePosterior(
                rows.shape, stack.family(k), tilt[stack.rows(k)], *rows.told, rows.shaped(prior),
                means=mean, sizes=each[i], total=total,
            )  # fmt: skip

        return tilt, ((i, own(k, i, mean)) for k, (i, mean) in enumerate(stack.apart(means)))

    return solve_in_stacks(
        [rows.observed(prior, total) for rows, prior in families], one, finer=True
    )


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
        `row_sum_margins` of the tables, if it is known already.
    """
    if not consistent:
        return {
            name: _unrelated_cells(table, law, scale, minimum) for name, table in tables.items()
        }
    sd, noise = max(sd, LEAST_SD), (law, scale, minimum)
    told = row_sum_margins(tables, sd) if told is None else told
    families = [
        NoisyRows(table.noisy.shape, *_rows_with_margins(table, tables, noise, sd), told[name])
        for name, table in tables.items()
    ]
    return dict(zip(tables, family_posteriors(families, total, priors), strict=True))


def _unrelated_cells(table: NoisyTable, law: str, scale: float, minimum: float) -> TablePosterior:
    rows = table.noisy.reshape(-1, table.noisy.shape[-1])
    none = np.zeros(len(rows))
    laws = cell_distributions(rows, law, scale, 1.0, minimum)
    return TablePosterior(table.noisy.shape, laws, none, none, none + np.inf, 1.0)


def _rows_with_margins(
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
    if not others or (noise[0] != DISCRETE_GAUSSIAN and both < 2.0 * own):
        return rows, noise
    every = own * table.noisy.ravel() + precision @ np.stack([margin for margin, _ in others])
    return np.round(every / both).astype(np.int64)[None], (DISCRETE_GAUSSIAN, both**-0.5, noise[2])


def james_stein(
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
        found = np.array(_independence_residuals(posterior, tables[name]))
        parents = tables[name].dims[:-1]
        sums[parents] = sums.get(parents, np.zeros(2)) + found
    kept = {
        parents: max(0.0, 1.0 - free * sd**2 / left) if free and left > 0.0 else 1.0
        for parents, (free, left) in sums.items()
    }
    return {k: replace(p, kept=kept[tables[k].dims[:-1]]) for k, p in posteriors.items()}


def _independence_residuals(posterior: TablePosterior, table: NoisyTable) -> tuple[float, float]:
    """Degrees of freedom of the differences between rows, and their sum of squares."""
    rows = table.noisy.reshape(-1, table.noisy.shape[-1]).astype(float)
    counts = posterior.counts().reshape(rows.shape)
    alike = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / max(float(counts.sum()), 1e-300)
    free = (rows.shape[0] - 1) * (rows.shape[1] - 1)
    return float(free), float(((rows - alike) ** 2).sum()) if free else 0.0


def row_sum_margins(
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
