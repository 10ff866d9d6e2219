"""The posterior of one family of tables: laws of its cells, tilted until they agree with its sums.

Families of one data set are solved together (`stacks`), each as it would be by itself.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pymc_private.counts.denoise.cell_distributions import Cells
from pymc_private.counts.denoise.cell_grid import Observed, noise_cells
from pymc_private.counts.denoise.saddlepoint import log_sum_weight, match_stack, match_sum, sum_pull
from pymc_private.counts.denoise.saddlepoint__prior_means import prior_means
from pymc_private.counts.denoise.posterior__rows import Rows
from pymc_private.counts.denoise.saddlepoint__stacks import Stack, solve
from pymc_private.counts.denoise.sum_distributions import match_sums, sum_law
from pymc_private.counts.denoise.sum_distributions__sums import LogWeights, draw_given_sums, sums_fit

FINER, WITHIN = 4, 8.0
"""Times finer bins of draws are: within a bin, a draw knows nothing of its row's sum. If that is
less than so many bins they are finer still, where that makes no more than `AT_ONCE` numbers."""
AT_ONCE = 2**22
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
        Share of the differences between rows that is kept: see `shrunk`.
    means : array, shape (rows of laws, d), optional
        Means of the laws at the tilt, where they are known already.
    sizes : array, shape (rows of laws,), optional
        See `Rows.sizes`.
    total : float or None
        Public sum of all rows, where these are several and others tell of them.
    """

    shape: tuple[int, ...]
    laws: Cells
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

    def _pieces(self) -> Iterator[tuple[int, Cells, np.ndarray]]:
        """Some rows after others: the first of them, their laws on bins to draw in, and tilts."""
        rows, d, width = self.laws.logs.shape
        sums = np.maximum(self.counts().reshape(rows, -1).sum(axis=1), 1.0)
        wanted = np.ceil((WITHIN * self.laws.step / sums).max())
        most = max(FINER, int(min(wanted, AT_ONCE / (rows * d * width))))
        some = max(1, AT_ONCE // (most * d * width))
        for start in range(0, rows, some):
            part = slice(start, start + some)
            laws, tilt = self.laws.of(part, d, width), self.tilt[part]
            times = next((n for n in (most, FINER, FINER // 2) if sums_fit(laws, tilt, n)), 1)
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
        pull = 0.0 if self.sizes is None else sum_pull(self.sizes, mean)
        # Some are at ends, so the middle one.
        tau = float(np.median(self.tilt + pull - (self.center - mean) / self.variance))
        rows = (
            sum_law(laws.row(k), float(own), self._log_weights(start, tau)(k))
            for start, laws, tilt in self._pieces()
            for k, own in enumerate(tilt)
        )
        return tau + match_sums(rows, self.total)


def family_posteriors(
    families: Sequence[Rows], total: float | None, priors: Sequence[float]
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
    return settled(
        families, prior_means([(r.noisy, r.noise) for r in families], total, priors), total
    )


def settled(
    families: Sequence[Rows],
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
    every: list[Laid] = list(zip(families, priors, strict=True))
    free = [total is not None and rows.alone for rows in families]
    alone = iter(_alone([one for one, yes in zip(every, free, strict=True) if yes], total))
    bound = iter(_bound([one for one, yes in zip(every, free, strict=True) if not yes], total))
    return [next(alone) if yes else next(bound) for yes in free]


Laid = tuple[Rows, float | np.ndarray]
"""Noisy rows, and the prior parameter of their cells."""


def _alone(families: Sequence[Laid], total: float | None) -> list[TablePosterior]:
    """Families of whose rows only the sum of all is known, exactly."""
    if total is None:
        return []
    few = [rows.few(a) for rows, a in families]
    flat = [a.reshape(1, -1) if isinstance(a, np.ndarray) else a for _, a in families]
    asked = [
        Observed.distinct(rows.noisy, rows.noise, total) if yes else rows.flat(prior, total)
        for (rows, prior), yes in zip(families, few, strict=True)
    ]
    known = np.array([total]), np.zeros(1)

    def one(stack: Stack, near: bool) -> tuple[np.ndarray, Iterator[tuple[int, TablePosterior]]]:
        stack = stack.with_priors(flat)
        tilt = match_sum(stack.laws, total)
        means = stack.laws.moments(tilt)[0]

        def own(k: int, i: int, mean: np.ndarray) -> TablePosterior:
            rows, prior = families[i]
            # Of few laws every cell's is made here, and its mean where it is asked for.
            laws = stack.family(k)
            if few[i]:
                flat = replace(rows.flat(prior, total), grid=stack.grids[k])
                laws = noise_cells(flat, near).with_prior(prior)
            return TablePosterior(
                rows.shape, laws, tilt[stack.rows(k)], *known, rows.shaped(prior),
                means=None if few[i] else mean,
            )  # fmt: skip

        return tilt, ((i, own(k, i, mean)) for k, (i, mean) in enumerate(stack.apart(means)))

    return solve(asked, one, finer=True)


def _bound(families: Sequence[Laid], total: float | None) -> list[TablePosterior]:
    """Families whose rows others have told of."""
    each = [rows.sizes(prior) for rows, prior in families]

    def one(stack: Stack, near: bool) -> tuple[np.ndarray, Iterator[tuple[int, TablePosterior]]]:
        stack = stack.with_priors([prior for _, prior in families])
        center, variance = (stack.of([rows.told[k] for rows, _ in families]) for k in (0, 1))
        sizes = stack.of(each)
        tilt, means = match_stack(stack, center, variance, total, sizes)

        def own(k: int, i: int, mean: np.ndarray) -> TablePosterior:
            rows, prior = families[i]
            return TablePosterior(
                rows.shape, stack.family(k), tilt[stack.rows(k)], *rows.told, rows.shaped(prior),
                means=mean, sizes=each[i], total=total,
            )  # fmt: skip

        return tilt, ((i, own(k, i, mean)) for k, (i, mean) in enumerate(stack.apart(means)))

    return solve([rows.observed(prior, total) for rows, prior in families], one, finer=True)
