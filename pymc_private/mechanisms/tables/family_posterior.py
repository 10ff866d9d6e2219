"""The posterior of one family of tables: laws of its cells, tilted until they agree with its sums.

Families of one data set are solved together (`stacks`), each as it would be by itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from pymc_private.mechanisms.tables.cells import Cells
from pymc_private.mechanisms.tables.layout import cells, distinct_cells, likely_most
from pymc_private.mechanisms.tables.matching import (
    log_evidence,
    match_all_totals,
    match_sum,
    match_sums,
)
from pymc_private.mechanisms.tables.stacks import stacks
from pymc_private.mechanisms.tables.sums import draw_given_sums

GRAIN = 32.0
"""Noisy counts are told apart by this share of the noise's scale where priors are weighed."""
FEW = 0.5
"""Laws of the distinct noisy counts are solved in place of all cells, if they are no more than this
share of them."""


@dataclass(frozen=True)
class Rows:
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
        return likely_most(*self.told)

    @property
    def alone(self) -> bool:
        """Nothing is known of the rows' sums but what they add up to."""
        return len(self.noisy) == 1 or not np.isfinite(self.told[1]).any()

    def shaped(self, prior: float | np.ndarray) -> float | np.ndarray:
        """Give parameters of rows the shape of the family."""
        return prior.reshape(self.shape) if isinstance(prior, np.ndarray) else prior


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
    """

    shape: tuple[int, ...]
    laws: Cells
    tilt: np.ndarray
    center: np.ndarray
    variance: np.ndarray
    prior: float | np.ndarray
    kept: float = 1.0
    means: np.ndarray | None = None

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
    prior = _prior_means(families, total, priors)
    laws = [
        cells(rows.noisy, rows.noise[0], rows.noise[1], a, rows.noise[2], total, rows.most)
        for rows, a in zip(families, prior, strict=True)
    ]
    return settled(families, laws, prior, total)


def settled(
    families: Sequence[Rows],
    laws: Sequence[Cells],
    priors: Sequence[float] | Sequence[np.ndarray],
    total: float | None,
) -> list[TablePosterior]:
    """Tilt the laws of families until they agree with what is known of the sums of their rows."""
    every: list[Laid] = list(zip(families, laws, priors, strict=True))
    free = [total is not None and rows.alone for rows in families]
    alone = iter(_alone([one for one, yes in zip(every, free, strict=True) if yes], total))
    bound = iter(_bound([one for one, yes in zip(every, free, strict=True) if not yes], total))
    return [next(alone) if yes else next(bound) for yes in free]


Laid = tuple[Rows, Cells, float | np.ndarray]
"""Noisy rows, their laws, and the prior parameter of their cells."""


def _alone(families: Sequence[Laid], total: float | None) -> list[TablePosterior]:
    """Families of whose rows only the sum of all is known, exactly."""
    if total is None:
        return []
    flat = [laws.flat() for _, laws, _ in families]
    solved = [_few(rows, one, a, total) for (rows, _, a), one in zip(families, flat, strict=True)]
    known = np.array([total]), np.zeros(1)
    return [
        TablePosterior(
            rows.shape, laws, tilt, *known, rows.shaped(prior),
            means=means if one is laws else None,
        )
        for (rows, _, prior), laws, one, (tilt, means) in zip(
            families, flat, solved, match_sums(solved, total), strict=True
        )
    ]  # fmt: skip


def _bound(families: Sequence[Laid], total: float | None) -> list[TablePosterior]:
    """Families whose rows others have told of."""
    center, variance = ([rows.told[which] for rows, _, _ in families] for which in (0, 1))
    matched = match_all_totals([laws for _, laws, _ in families], center, variance, total)
    return [
        TablePosterior(rows.shape, laws, tilt, *rows.told, rows.shaped(prior), means=means)
        for (rows, laws, prior), (tilt, means) in zip(families, matched, strict=True)
    ]


def _few(rows: Rows, flat: Cells, prior: float | np.ndarray, total: float) -> Cells:
    """Laws of the distinct noisy counts, if they are few and have one prior; else of all cells."""
    if isinstance(prior, np.ndarray):
        return flat
    if len(np.unique(rows.noisy)) > FEW * rows.noisy.size:
        return flat
    return distinct_cells(rows.noisy, *rows.noise, total).with_prior(prior)


def _prior_means(
    families: Sequence[Rows], total: float | None, priors: Sequence[float]
) -> list[float]:
    """Posterior means of the prior parameter of a cell, given the noisy counts; 1 without a total.

    A mean, not the most likely one: where noise hides everything, that would be a lucky guess.
    """
    if total is None:
        return [1.0] * len(families)
    if len(priors) == 1:
        return [priors[0]] * len(families)
    each, found = np.array(priors), [1.0] * len(families)
    for stack in stacks([_distinct(rows, total) for rows in families], priors):
        tilt = match_sum(stack.laws, total, 1e-2)  # where it is right, the evidence is level in it
        scores = log_evidence(stack.laws, tilt, total, np.tile(each, len(stack.members)))
        for i, own in stack.apart(scores):
            found[i] = float(f"{special.softmax(own) @ each:.2g}")  # few: their tables are kept
    return found


def _distinct(rows: Rows, total: float) -> Cells:
    """Laws of the distinct noisy counts; finer differences weigh the same under every prior."""
    grain = max(1, int(rows.noise[1] / GRAIN))
    near = (np.round(rows.noisy / grain) * grain).astype(np.int64)
    return distinct_cells(near, *rows.noise, total)
