"""A Gaussian kernel density on a grid: linear binning, convolution, bandwidth by held-out rows."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable, Sequence
from scipy import fft
from scipy.interpolate import RegularGridInterpolator
from pymc_private.errors import DomainError

POINTS = {1: 8192, 2: 512, 3: 96}
"""Grid points along each axis by dimension."""
FACTORS = tuple(2.0 ** (-k / 2.0) for k in range(-1, 11))
"""Bandwidths tried, in units of Scott's: from two fifths more down to a thirty-second."""
HELD_OUT = 4
"""Every fourth row judges the bandwidth."""
NOISE = 1e-13
"""What a Fourier transform leaves of a zero, relative to the peak."""

LogDensity = Callable[[np.ndarray], np.ndarray]


def kernel_density(
    rows: np.ndarray, bandwidth: float | Sequence[float] | None = None
) -> LogDensity:
    """Estimate a density in one to three dimensions.

    The estimate is the curator's: it is a function of single rows.

    Parameters
    ----------
    rows : array, shape (n, d)
    bandwidth : float or sequence of float, optional
        Standard deviation of the kernel along each axis. Default: that among `FACTORS` times
        Scott's under which held-out rows are most likely.

    Returns
    -------
    callable
        Points, shape (m, d), to log densities; -inf beyond the grid.

    Raises
    ------
    DomainError
        A column is constant: it has no density.
    """
    n, d = rows.shape
    if not (np.ptp(rows, axis=0) > 0.0).all():
        raise DomainError(
            "a constant has no density",
            got="a column with one value only",
            do="drop the column, use a finite reference, or give a law around it, such as "
            "scipy.stats.norm(value, width) with a public width",
        )
    width = np.broadcast_to(np.asarray(bandwidth or 0.0, float), (d,))
    scott = rows.std(axis=0) * n ** (-1.0 / (d + 4))
    reach = 6.0 * np.maximum(scott, width)
    axes = [
        np.linspace(low - pad, high + pad, POINTS[d])
        for low, high, pad in zip(rows.min(axis=0), rows.max(axis=0), reach, strict=True)
    ]
    if bandwidth is None:
        width = scott * _best_factor(rows, axes, scott)
    return _interpolated(axes, _smooth(fft.rfftn(_bin(rows, axes)), axes, width))


def _best_factor(rows: np.ndarray, axes: list[np.ndarray], scott: np.ndarray) -> float:
    judge = np.arange(len(rows)) % HELD_OUT == HELD_OUT - 1
    if judge.sum() < 2:
        return 1.0
    binned = fft.rfftn(_bin(rows[~judge], axes))

    def fit(factor: float) -> float:
        found = _interpolated(axes, _smooth(binned, axes, factor * scott))(rows[judge])
        return float(np.maximum(found, -50.0).mean())

    scores: list[float] = []
    for factor in FACTORS:  # from wide to narrow, until it gets worse twice
        scores.append(fit(factor))
        if len(scores) > 2 and scores[-1] < scores[-2] < scores[-3]:
            break
    return FACTORS[int(np.argmax(scores))]


def _bin(rows: np.ndarray, axes: list[np.ndarray]) -> np.ndarray:
    """Spread each row over the corners of its cell, so that means are kept."""
    shape = tuple(len(axis) for axis in axes)
    grid = np.zeros(int(np.prod(shape)))
    place = [(rows[:, j] - axis[0]) / (axis[1] - axis[0]) for j, axis in enumerate(axes)]
    floor = [np.clip(p.astype(np.int64), 0, size - 2) for p, size in zip(place, shape, strict=True)]
    for corner in np.ndindex((2,) * len(axes)):
        weight = np.ones(len(rows))
        for p, f, up in zip(place, floor, corner, strict=True):
            weight *= (p - f) if up else (1.0 - (p - f))
        index = np.ravel_multi_index(
            tuple(f + up for f, up in zip(floor, corner, strict=True)), shape
        )
        grid += np.bincount(index, weight, minlength=grid.size)
    return grid.reshape(shape) / len(rows)


def _smooth(spectrum: np.ndarray, axes: list[np.ndarray], width: np.ndarray) -> np.ndarray:
    """Convolve with a Gaussian; the grid reaches far enough beyond the rows to close on itself."""
    shape = [len(axis) for axis in axes]
    steps = np.array([axis[1] - axis[0] for axis in axes])
    damped = spectrum
    for j, (size, sigma) in enumerate(zip(shape, np.maximum(width / steps, 0.5), strict=True)):
        waves = fft.rfftfreq(size) if j == len(shape) - 1 else fft.fftfreq(size)
        along = np.exp(-2.0 * (np.pi * sigma * waves) ** 2)
        damped = damped * along.reshape([-1 if i == j else 1 for i in range(len(shape))])
    smooth = fft.irfftn(damped, shape)
    return np.where(smooth > NOISE * smooth.max(), smooth, 0.0) / np.prod(steps)


def _interpolated(axes: list[np.ndarray], density: np.ndarray) -> LogDensity:
    between = RegularGridInterpolator(axes, density, bounds_error=False, fill_value=0.0)

    def log_density(points: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(np.maximum(between(points), 0.0))

    return log_density
