"""Data clipped into their domain once more, in a charged draw.

`privatize` clips the data it is given and refuses what no clip can mend. Data that were set since
are clipped here, where nothing may be refused: a refusal after the charge would tell of them.
"""

from __future__ import annotations

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.models.data_variables import Source
from pymc_private.models.declare import logger, store_values
from pymc_private.models.domains import Ball, Interval
from pymc_private.models.private_model import PrivateModel


def clip_to_domain(private: PrivateModel, caller: str = "sample") -> None:
    """Clip the data to the domain, should they have left it since `privatize`.

    Part of the charged draw: it reads the data, and so it refuses nothing. A record that
    `privatize` would refuse (NaN, a category that was not declared, a row of another total) is
    replaced by one fixed record of the domain: each record is mapped by itself, as by any clip.
    The number of these goes to the logger alone, with the name of the `caller`. Data inside the
    domain are unchanged.
    """
    for source in private.sources:
        data = source.values()
        clipped, lost = _clip_records(source, data)
        if lost:
            logger.warning(
                "%s: %d of %d records of %s could not be clipped and were replaced",
                *(caller, lost, private.n, source.name),
            )
        store_values(source, clipped.astype(data.dtype))


def clipped_records(source: Source, rows: np.ndarray) -> np.ndarray:
    """Rows of doubles in the type and the domain of a variable, records along the first axis.

    Each record is mapped by itself, and none is refused: see `clip_to_domain`. Those that a clip
    surely leaves as they are, usually nearly all, are not clipped.
    """
    if source.dtype != "float64" or not isinstance(source.domain, Interval | Ball):
        return _clipped_rows(source, rows)
    held = source.domain.holds(rows)
    if held.all():
        return np.ascontiguousarray(rows)
    found = np.array(rows, order="C")
    found[~held] = _clipped_rows(source, rows[~held])
    return found


def _clipped_rows(source: Source, rows: np.ndarray) -> np.ndarray:
    """All rows clipped, in the type of the variable."""
    found, _ = _clip_records(source, np.moveaxis(rows, 0, source.axis))
    if source.dtype != "float64":  # the nearest number of another type may lie outside
        found, _ = _clip_records(source, found.astype(source.dtype))
    return np.ascontiguousarray(np.moveaxis(found, source.axis, 0), dtype=source.dtype)


def _clip_records(source: Source, data: np.ndarray) -> tuple[np.ndarray, int]:
    """The records inside the domain, and how many could not be clipped.

    Each record is one contiguous row, so that sums along it are rounded in one way however many
    rows are clipped at once: that number depends on which other records are refused.
    """
    rows = np.array(np.moveaxis(data, source.axis, 0), order="C")
    lost = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
    if lost.any():
        rows[lost] = _fixed(source)
    clipped, more = _clip_or_replace(source, rows)
    return np.moveaxis(clipped, 0, source.axis), int(lost.sum()) + more


def _fixed(source: Source) -> np.ndarray:
    """One fixed record of the domain, shape (1, *row_shape)."""
    rows = np.ascontiguousarray(np.moveaxis(source.stand_in(1), source.axis, 0))
    return np.asarray(source.domain.clip(rows, 0))


def _clip_or_replace(source: Source, rows: np.ndarray) -> tuple[np.ndarray, int]:
    """Clip all records at once or, where one of them is refused, by halves."""
    try:
        return np.asarray(source.domain.clip(rows, 0)), 0
    except DomainError:
        if len(rows) == 1:
            return _fixed(source), 1
    parts = [_clip_or_replace(source, half) for half in np.split(rows, [len(rows) // 2])]
    return np.concatenate([part for part, _ in parts]), sum(lost for _, lost in parts)
