"""A reference for records in groups: the same number of rows in every group.

Where records read the coefficients of their own group, expectations within each group matter, and a
few dozen rows spread over groups and covariates together would hold one group ten times and another
once. Here every level of the grouping variable has as many rows, of one weight in a level: known
shares where labels are public, equal ones where they are not (`marginal_moments` reads these).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Categories
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.scores.clipped_scores import Rows
from pymc_private.summaries.scores.reference import (
    CovariateReader,
    CovariateReference,
    entries_from_unit,
    known_rows,
    sobol_points,
    unit_dimensions,
    units_of,
)

HALF_A_ROW = 0.5
"""Added to the number of rows of a public sample in each level: none is impossible."""


@dataclass(frozen=True)
class RowsPerLevel:
    """How many rows a reference by levels has.

    Attributes
    ----------
    rows : int
        About so many in all.
    least : int
        So many in each level.
    most : int
        No more than so many in all, whatever the others say.
    """

    rows: int
    least: int
    most: int

    def of(self, levels: int) -> int:
        """Rows of each level: a power of 2, so that parts of a Sobol sequence are balanced."""
        found = 2 ** round(np.log2(max(self.rows / levels, 1.0)))
        found = max(found, self.least)
        while found > 1 and found * levels > self.most:
            found //= 2
        return found


@dataclass(frozen=True, eq=False)
class _Grouping:
    """The grouping variable: its levels, their weights, and the block of known rows it is in."""

    name: str
    levels: np.ndarray
    weights: np.ndarray
    source: Source | None = None
    block: Rows | None = None


def rows_by_level(
    private: PrivateModel,
    density: CovariateReader,
    size: RowsPerLevel,
    skip: int = 0,
    given: Any = None,
) -> CovariateReference | None:
    """Rows that stand for the records, as many in each level of the grouping variable.

    Parameters
    ----------
    private, density, skip, given
        As of `reference.reference_rows`.
    size : RowsPerLevel

    Returns
    -------
    CovariateReference or None
        None where records have no label.
    """
    blocks, free = known_rows(private, density, given)
    grouping = _grouping(blocks, free, density)
    if grouping is None:
        return None
    count = size.of(len(grouping.levels))
    others = [source for source in free if source is not grouping.source]
    loose = [block for block in blocks if block is not grouping.block]
    sizes = [unit_dimensions(source.domain, source.row_shape) for source in others]
    total = count * len(grouping.levels)
    points = sobol_points(max(len(loose) + sum(sizes), 1), total, skip)
    rows = _rows_of_levels(grouping, count)
    for block, share in zip(loose, points.T, strict=False):
        length = len(next(iter(block.values())))
        picked = np.minimum((share * length).astype(np.int64), length - 1)
        rows |= {name: values[picked] for name, values in block.items()}
    ends = np.cumsum([len(loose), *sizes])
    units = [points[:, start:end] for start, end in pairwise(ends)]
    for source, unit in zip(others, units, strict=True):
        rows[source.name] = entries_from_unit(
            source.domain, source.row_shape, unit, source.is_whole
        )
    weights = np.repeat(grouping.weights / count, count)
    return CovariateReference(rows, weights / weights.sum(), units_of(others, units))


def _rows_of_levels(grouping: _Grouping, count: int) -> dict[str, np.ndarray]:
    """The grouping variable, `count` rows for each level, with what is known beside it."""
    if grouping.block is None:
        shape = () if grouping.source is None else grouping.source.row_shape
        return {grouping.name: np.repeat(grouping.levels, count).reshape(-1, *shape)}
    labels = np.ravel(grouping.block[grouping.name])
    picked = []
    for level in grouping.levels:
        mine = np.flatnonzero(labels == level)
        mine = mine if len(mine) else np.arange(len(labels))
        share = (np.arange(count) + 0.5) / count
        picked.append(mine[(share * len(mine)).astype(np.int64)])
    rows = {name: np.array(v[np.concatenate(picked)]) for name, v in grouping.block.items()}
    shape = rows[grouping.name].shape
    rows[grouping.name] = np.repeat(grouping.levels, count).reshape(shape)
    return rows


def _grouping(
    blocks: Sequence[Rows], free: Sequence[Source], density: CovariateReader
) -> _Grouping | None:
    """The label of most levels."""
    declared = {
        source.name: np.asarray(source.domain.values)
        for source in density.covariates
        if source.name in density.labels and isinstance(source.domain, Categories)
    }
    found = [
        _Grouping(s.name, declared[s.name], np.ones(len(declared[s.name])), s)
        for s in free
        if s.name in declared and prod(s.row_shape) == 1
    ]
    for block in blocks:
        for name, values in block.items():
            if name in density.labels and values[0].size == 1:
                levels = declared.get(name, np.unique(values))
                counts = (np.ravel(values)[:, None] == levels).sum(axis=0)
                extra = HALF_A_ROW if name in declared else 0.0
                found.append(_Grouping(name, levels, counts + extra, block=block))
    return max(found, key=lambda each: len(each.levels)) if found else None
