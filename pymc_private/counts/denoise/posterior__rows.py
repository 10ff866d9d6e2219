"""Noisy counts of one family as rows, and what is known of them."""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass
from pymc_private.counts.denoise.cell_grid import Observed, likely_most

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

    def observed(self, prior: float | np.ndarray, total: float | None) -> Observed:
        """What the grids of the cells depend on."""
        own = prior if isinstance(prior, np.ndarray) else None
        return Observed(self.noisy, self.noise, total, self.most, prior=own)

    def flat(self, prior: float | np.ndarray, total: float) -> Observed:
        """All cells as one row."""
        own = prior.reshape(1, -1) if isinstance(prior, np.ndarray) else None
        return Observed(self.noisy.reshape(1, -1), self.noise, total, prior=own)

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
        return len(np.unique(self.noisy)) <= FEW * self.noisy.size

    def shaped(self, prior: float | np.ndarray) -> float | np.ndarray:
        """Give parameters of rows the shape of the family."""
        return prior.reshape(self.shape) if isinstance(prior, np.ndarray) else prior
