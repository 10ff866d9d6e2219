"""Levels of covariates of categories: their indicators, and weights of rows with given shares."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Categories
from pymc_private.summaries.scores.clipped_scores import Rows

LEAST_SHARE = 0.05
"""Least share of a category, in units of equal shares."""
RAKING_ROUNDS = 5


@dataclass(frozen=True, eq=False)
class CategoryLevels:
    """The levels of one entry of a covariate of categories.

    Attributes
    ----------
    source : Source
    position : int
        Of the entry among those of a record.
    levels : array
        In increasing order.
    is_label : bool
        Whether they are groups whose coefficients records read.
    """

    source: Source
    position: int
    levels: np.ndarray
    is_label: bool = False

    @property
    def width(self) -> int:
        """Indicators: of all levels but the first."""
        return len(self.levels) - 1

    def codes(self, rows: Rows) -> np.ndarray:
        """Numbers of the levels, shape (N,)."""
        return np.searchsorted(self.levels, self._entries(rows))

    def level_codes(self, rows: Rows) -> np.ndarray:
        """Numbers of the levels; -1 for a value that is none."""
        inside = np.minimum(self.codes(rows), self.width)
        return np.where(self._entries(rows) == self.levels[inside], inside, -1)

    def columns(self, rows: Rows) -> np.ndarray:
        """Indicators, shape (N, width)."""
        return (self._entries(rows)[:, None] == self.levels[1:]).astype(float)

    def shares(self, rows: Rows, weights: np.ndarray) -> np.ndarray:
        """The weight of each level."""
        return np.bincount(self.codes(rows), weights, len(self.levels))

    def _entries(self, rows: Rows) -> np.ndarray:
        raw = np.asarray(rows[self.source.name], float)
        return raw.reshape(len(raw), -1)[:, self.position]


def category_levels(sources: Sequence[Source], labels: Container[str] = ()) -> list[CategoryLevels]:
    """Those of all entries of covariates of categories that have two levels at least.

    `labels`: names of covariates that are labels of groups.
    """
    return [
        CategoryLevels(source, position, np.asarray(source.domain.values), source.name in labels)
        for source in sources
        if isinstance(source.domain, Categories) and len(source.domain.values) > 1
        for position in range(prod(source.row_shape))
    ]


def positive_shares(given: np.ndarray) -> np.ndarray:
    """Shares no less than `LEAST_SHARE` of equal ones."""
    return np.maximum(given, LEAST_SHARE / len(given))


def raked(
    rows: Rows,
    weights: np.ndarray,
    wanted: Sequence[tuple[CategoryLevels, np.ndarray]],
) -> np.ndarray:
    """Factors of the weights of rows by which levels have given shares, in turn for each entry.

    Parameters
    ----------
    rows : mapping of str to array
    weights : array, shape (N,)
    wanted : sequence of (CategoryLevels, array)
        Shares of all levels of an entry; no less than `LEAST_SHARE` of equal ones is taken.
    """
    tilt = np.ones(len(weights))
    for _ in range(RAKING_ROUNDS if len(wanted) > 1 else 1):
        for block, given in wanted:
            shares = positive_shares(given)
            codes = block.codes(rows)
            present = np.bincount(codes, weights * tilt, len(shares))
            shares = np.where(present > 0.0, shares, 0.0)
            ratio = shares / shares.sum() / np.where(present > 0.0, present, 1.0)
            tilt = tilt * ratio[codes] * present.sum()
    return tilt
