"""Grids of counts for noisy cells, and the noise on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pymc_private.mechanisms.tables.cells import Cells
from pymc_private.privacy.noisy_counts import LAPLACE, LEAST_SCALE

FINE = 12.0
"""Scales up to this one are resolved count by count; beyond, a scale is 6 to 12 bins."""
BELOW, ABOVE = 14.0, 10.0
"""How far from the noisy count a true one is looked for, in scales of Gaussian noise."""
FAR = 28.0
"""The same for Laplace noise: at the largest tilt what is cut off weighs e^(-0.3 FAR)."""
MOST_TILT, LEAST_TILT = {LAPLACE: 0.7}, -60.0
"""Ends of the tilt, in reciprocal scales: upward those the windows are made for (6 for Gaussian
noise); downward there is the end at 0 where noise is large, and elsewhere no reason to go far."""
LEAST_SD = 0.01
"""Sums of whole numbers with less noise are known; arithmetic with its square would break down."""
WIDE = 512
"""Bins of a cell at most, so that small counts are still told apart where noise is large."""


def cells(
    noisy: np.ndarray, law: str, scale: float, prior: float, minimum: float = 0.0,
    total: float | None = None, most: np.ndarray | None = None,
) -> Cells:  # fmt: skip
    """Lay out the law of each cell.

    Parameters
    ----------
    noisy : array of int, shape (rows, d)
    law : {"discrete_gaussian", "laplace"}
    scale : float
    prior : float
        a, the prior parameter of each cell.
    minimum : float
        Public lower bound of every count.
    total : float, optional
        Public sum of all counts.
    most : array, shape (rows,), optional
        What the sum of each row hardly exceeds, where that is known.
    """
    return noise_cells(noisy, law, scale, minimum, total, most).with_prior(prior)


def distinct_cells(
    noisy: np.ndarray, law: str, scale: float, minimum: float, total: float
) -> Cells:
    """Lay out the noise in one row, one law for each noisy count there is."""
    values, times = np.unique(noisy, return_counts=True)
    laws = noise_cells(values[None], law, scale, minimum, total, count=noisy.size)
    return replace(laws, times=times[None])


def likely_most(center: np.ndarray, variance: np.ndarray) -> np.ndarray | None:
    """What sums hardly exceed, where others tell every one of them."""
    if not np.isfinite(variance).all() or len(center) == 1:
        return None
    return np.asarray(np.maximum(center, 0.0) + 4.0 * np.sqrt(variance) + 1.0)


def noise_cells(
    noisy: np.ndarray, law: str, scale: float, minimum: float = 0.0, total: float | None = None,
    most: np.ndarray | None = None, count: int | None = None,
) -> Cells:  # fmt: skip
    """Lay out the noise alone: see `cells`. `count` cells share the total, if these are some."""
    scale = max(scale, LEAST_SCALE[law])  # averages of many tables may have less
    down, up = (FAR, FAR) if law == LAPLACE else (BELOW, ABOVE)
    least = int(np.ceil(minimum))
    low = np.maximum(least, np.floor(noisy - down * scale)).astype(np.int64)
    high = np.maximum(noisy, least) + up * scale
    sums: float | np.ndarray | None = total
    sharing = count or noisy.size
    if most is not None:
        sums = most if total is None else np.minimum(most, total)
        sharing = noisy.shape[1]
    if sums is not None:
        # Beyond the total is room for the tilt to work: cut at it, means would be cruder.
        room = np.broadcast_to(sums, len(noisy))[:, None]
        low = np.minimum(low, np.maximum(least, room.astype(np.int64)))
        high = np.maximum(np.minimum(high, 5.0 * room + 10.0), low + 1)
    reach = (high - low).max(axis=1)
    if most is None:  # rows that may be taken as one have one step
        reach = np.full_like(reach, reach.max())
    step = _steps(scale, reach, sharing, sums)
    width = int(np.ceil(reach / step).max()) + 1
    away = (low - noisy + 0.5 * (step[:, None] - 1))[..., None] / scale
    noise = away + (step / scale)[:, None, None] * np.arange(width)
    if law == LAPLACE:
        np.negative(np.abs(noise, out=noise), out=noise)
    else:
        noise *= noise
        noise *= -0.5
    return Cells(low, step, noise, MOST_TILT.get(law, 6.0) / scale, LEAST_TILT / scale)


def _steps(
    scale: float, reach: np.ndarray, count: int, sums: float | np.ndarray | None
) -> np.ndarray:
    """Counts in a bin of each row: what noise cannot tell apart, nor a fair share of its sum hide.

    reach : array, shape (rows,)
        What a window of the row holds.
    """
    if scale <= FINE:
        return np.ones(len(reach), np.int64)
    coarse = np.full(len(reach), scale / 6.0)
    if sums is not None:
        coarse = np.minimum(coarse, np.asarray(sums) / (2.0 * count))
        coarse = np.maximum(coarse, np.maximum(reach / WIDE, 1.0))
    return np.asarray(2.0 ** np.floor(np.log2(coarse)), np.int64)
