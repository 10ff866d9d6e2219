"""Data clipped into their domain once more, in a charged draw.

`privatize` clips the data it is given and refuses what no clip can mend. Data that were set since
are clipped here, where nothing may be refused: a refusal after the charge would tell of them.
"""

from __future__ import annotations

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.models.data_variables import Source
from pymc_private.models.declare import logger, store_values
from pymc_private.models.domains import Domain
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

    Each record is mapped by itself, and none is refused: see `clip_to_domain`.
    """
    found, _ = _clip_records(source, np.moveaxis(rows, 0, source.axis))
    if source.dtype != "float64":  # the nearest number of another type may lie outside
        found, _ = _clip_records(source, found.astype(source.dtype))
    return np.ascontiguousarray(np.moveaxis(found, source.axis, 0), dtype=source.dtype)


def _clip_records(source: Source, data: np.ndarray) -> tuple[np.ndarray, int]:
    """The records inside the domain, and how many could not be clipped.

    Each record is one contiguous row, so that sums along it are rounded in one way however many
    rows are clipped at once: that number depends on which other records are refused.
    """
    domain, axis = source.domain, source.axis
    fixed = domain.clip(np.ascontiguousarray(np.moveaxis(source.stand_in(1), axis, 0)), 0)
    rows = np.array(np.moveaxis(data, axis, 0), order="C")
    lost = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
    rows[lost] = fixed
    clipped, more = _clip_or_replace(domain, rows, fixed)
    return np.moveaxis(clipped, 0, axis), int(lost.sum()) + more


def _clip_or_replace(domain: Domain, rows: np.ndarray, fixed: np.ndarray) -> tuple[np.ndarray, int]:
    """Clip all records at once or, where one of them is refused, by halves."""
    try:
        return np.asarray(domain.clip(rows, 0)), 0
    except DomainError:
        if len(rows) == 1:
            return np.asarray(fixed), 1
    parts = [_clip_or_replace(domain, half, fixed) for half in np.split(rows, [len(rows) // 2])]
    return np.concatenate([part for part, _ in parts]), sum(lost for _, lost in parts)
