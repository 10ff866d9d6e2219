"""Grids of true counts for noisy cells, and their refinement where exponential tilts are steep.

Each cell has a window of counts around its noisy count, cut into bins that are narrow against
the noise and against a fair share of the row's sum.

A steep tilt leaves little of a window that was made to hold all possible counts. Such a window
is cut off where nothing has weight, and the same number of bins is then finer. In bins over
which a tilt is steep, the midpoint rule gives wrong means, and the first bins alone may hold
more than a row's sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pymc_private.counts.denoise.cell_distributions import CellDistributions, log_noise_density
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, MIN_SCALE

MAX_UNBINNED_SCALE = 12.0
"""Scales up to this one are resolved count by count."""
MIN_BINS_PER_SCALE = 4.0
"""Least bins in a larger scale: means are off by less than 0.005 scales, and by up to 0.1 where
noise of many scales, or a steep tilt, puts the weight of a cell into its first bin."""
MIN_TILT = -20.0
"""Lower end of tilts where no window is cut off below: a prior that is much larger than its row's
sum takes log(sum / prior)."""
MAX_TILT_OVER_BIN = 200.0
"""Largest negative tilt over a bin: beyond, only the first bin has any weight."""
MAX_TILT_TIMES_SUM = 10.0
"""Largest tilt, times the row's sum, of windows that end above that sum, not where noise does."""
MIN_SD = 0.01
"""Sums of whole numbers with less noise are known; arithmetic with its square would break down."""
MAX_BINS = 512
"""Bins of a cell at most, so that small counts are still told apart where noise is large."""
MAX_STEEP_BINS, MAX_FAMILY_NUMBERS = 2048.0, 2.0**18
"""Bins of a cell at most where tilts are steep, and numbers in the distributions of a family; more
of these where `MAX_BINS` allows it."""
MAX_INT64_COUNT = 2.0**62
"""Counts beyond overflow integers of 64 bits."""
COARSE_TILT, REFINED_SHARE = 0.75, 2.0 / 3.0
"""Tilt over a bin beyond which it is too coarse; the share of it that finer bins shall have."""
CUTOFF_SHARE = 0.5
"""Share of a tilt at which a window is cut off: the next tilt may be as much less steep."""
NEGLIGIBLE_LOG_WEIGHT = 16.0
"""Bins whose log weight is below the largest of their cell by more than this are negligible."""


class CountNoise(NamedTuple):
    """Noise on the counts of a family, and the public lower bound of every true count."""

    distribution: str
    scale: float
    minimum: float


@dataclass(frozen=True)
class CountWindow:
    """How far from a noisy count true counts are looked for, and the tilts for which that serves.

    Attributes
    ----------
    below, above : float
        In scales of the noise.
    min_tilt, max_tilt : float
        In reciprocal scales; `min_tilt` where windows are cut off below, not at the minimum count.
    """

    below: float
    above: float
    min_tilt: float
    max_tilt: float


NARROW_WINDOWS = {DISCRETE_GAUSSIAN: CountWindow(8.0, 6.5, -2.5, 2.5)}
"""Windows that serve nearly all families: at their tilts what is cut off weighs e^-8 or less.
Laplace noise has none: its tails are long, and tilts near the ends of its windows are common."""
WIDE_WINDOWS = {
    DISCRETE_LAPLACE: CountWindow(28.0, 28.0, -60.0, 0.7),
    DISCRETE_GAUSSIAN: CountWindow(14.0, 10.0, -60.0, 6.0),
}
"""Windows of families whose tilts leave the narrow ones."""


@dataclass(frozen=True, eq=False)
class GridRequest:
    """Demands on the grids of rows, each of shape (rows,) and infinite where there is none.

    Attributes
    ----------
    step : array
        Most counts in a bin.
    largest : array
        Larger counts of the row's cells are negligible ...
    valid_tilt : array
        ... at tilts up to this one.
    """

    step: np.ndarray
    largest: np.ndarray
    valid_tilt: np.ndarray

    @classmethod
    def unknown(cls, rows: int) -> GridRequest:
        """No demands, before tilts are known."""
        return cls(*(np.full(rows, np.inf) for _ in range(3)))


@dataclass(frozen=True, eq=False)
class ObservedCounts:
    """Noisy counts of one family, and all that their grids depend on.

    Attributes
    ----------
    noisy : array of int, shape (rows, d)
    noise : CountNoise
    total : float or None
        Public sum of all counts.
    likely_max : array, shape (rows,), or None
        Likely upper bound of the sum of each row, where that is known.
    multiplicity : array, shape (rows, d), or None
        Number of cells that each noisy count stands for, if not one.
    prior : array, shape (rows, d), or None
        Prior parameter of each cell, if some are above 1.
    bins_per_scale : float
        Least bins in a large scale.
    coarse_tilt : float
        Tilt over a bin beyond which the bin is too coarse.
    request : GridRequest or None
        Demands of the tilts, if they are known and steep.
    """

    noisy: np.ndarray
    noise: CountNoise
    total: float | None = None
    likely_max: np.ndarray | None = None
    multiplicity: np.ndarray | None = None
    prior: np.ndarray | None = None
    bins_per_scale: float = MIN_BINS_PER_SCALE
    coarse_tilt: float = COARSE_TILT
    request: GridRequest | None = None

    @classmethod
    def distinct(
        cls,
        noisy: np.ndarray,
        noise: CountNoise,
        total: float,
        bins_per_scale: float = MIN_BINS_PER_SCALE,
    ) -> ObservedCounts:
        """The distinct noisy counts as one row: cells of one count have one distribution."""
        values, times = np.unique(noisy, return_counts=True)
        return cls(
            values[None], noise, total, multiplicity=times[None], bins_per_scale=bins_per_scale
        )

    @cached_property
    def cells_sharing(self) -> np.ndarray:
        """Number of cells that share a row's known sum, or the sum of their prior parameters."""
        axis = None if self.likely_max is None else 1
        if self.multiplicity is None:
            cells = np.asarray(self.noisy.size if axis is None else self.noisy.shape[1])
        else:
            cells = self.multiplicity.sum(axis=axis)
        if self.prior is not None:
            cells = np.maximum(cells, self.prior.sum(axis=axis))
        return np.broadcast_to(cells, len(self.noisy))

    @cached_property
    def sum_bound(self) -> np.ndarray:
        """Upper bound of each row's sum, sure or likely; infinite where nothing is known."""
        total, most = (np.inf if v is None else v for v in (self.total, self.likely_max))
        return np.asarray(np.minimum(np.full(len(self.noisy), total), most))


class CellGrid:
    """Grids of families whose noise has one distribution, each row's as if its family were alone.

    A family that has fewer columns than others is padded with its last one, of multiplicity 0.
    Windows are narrow if `narrow` and there are such.
    """

    def __init__(self, families: Sequence[ObservedCounts], narrow: bool = False) -> None:
        self.sizes = np.array([f.noisy.shape[1] for f in families])
        self.rows = np.array([len(f.noisy) for f in families])
        self.starts = np.cumsum([0, *self.rows])
        self.distribution = families[0].noise.distribution
        wide = WIDE_WINDOWS[self.distribution]
        self.window = NARROW_WINDOWS.get(self.distribution, wide) if narrow else wide
        # Averages of many tables may have less than the least noise.
        scales = self._per_row([f.noise.scale for f in families])
        self.scale = np.maximum(scales, MIN_SCALE[self.distribution])
        self.noisy, self.multiplicity = self._padded(families)
        minimum = self._per_row([f.noise.minimum for f in families])
        self.minimum = np.ceil(minimum).astype(np.int64)
        bound = np.concatenate([f.sum_bound for f in families])
        requests = [f.request or GridRequest.unknown(len(f.noisy)) for f in families]
        self.low, high = self._windows(bound[:, None])
        largest = np.concatenate([request.largest for request in requests])[:, None]
        high = np.maximum(np.minimum(high, largest), self.low + 1)
        steep = np.where(
            self._ends_above_sum(bound), MAX_TILT_TIMES_SUM / np.maximum(bound, 1.0), 0.0
        )
        self.max_tilt = np.maximum(self.window.max_tilt / self.scale, steep)
        span = (high - self.low).max(axis=1)
        self.step, self.bins = self._cut(families, requests, span, bound)
        self.widths = np.maximum.reduceat(self.bins, self.starts[:-1])

    def _per_row(self, values: Sequence[float]) -> np.ndarray:
        """A number of each family, for each of its rows."""
        return np.repeat(np.array(values, float), self.rows)

    def _padded(self, families: Sequence[ObservedCounts]) -> tuple[np.ndarray, np.ndarray]:
        """Noisy counts of all families, and their multiplicities."""
        noisy = np.empty((self.starts[-1], int(self.sizes.max())), np.int64)
        multiplicity = np.zeros_like(noisy)
        for family, start, stop in zip(families, self.starts, self.starts[1:], strict=False):
            d = family.noisy.shape[1]
            noisy[start:stop, :d] = family.noisy
            noisy[start:stop, d:] = family.noisy[:, -1:]
            times = family.multiplicity
            multiplicity[start:stop, :d] = 1 if times is None else times
        return noisy, multiplicity

    def _windows(self, bound: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """First and last count of each cell's window."""
        scale, least = self.scale[:, None], self.minimum[:, None]
        low = np.maximum(least, np.floor(self.noisy - self.window.below * scale)).astype(np.int64)
        high = np.maximum(self.noisy, least) + self.window.above * scale
        if np.isfinite(bound).any():
            known = np.minimum(bound, MAX_INT64_COUNT).astype(np.int64)
            low = np.minimum(low, np.maximum(least, known))
            high = np.maximum(np.minimum(high, _window_limit(bound)), low + 1)
        return low, high

    def _ends_above_sum(self, bound: np.ndarray) -> np.ndarray:
        """Whether every window of a row ends above the row's sum, not where its noise does."""
        noise_end = np.maximum(self.noisy.min(axis=1), 0.0) + self.window.above * self.scale
        return np.asarray(noise_end >= _window_limit(bound))

    def _cut(
        self,
        families: Sequence[ObservedCounts],
        requests: Sequence[GridRequest],
        span: np.ndarray,
        bound: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Counts in a bin of each row, and the number of bins in windows of these spans."""
        # Rows that may be taken as one have one step.
        widest = np.repeat(np.maximum.reduceat(span, self.starts[:-1]), self.rows)
        span = np.where(self._per_row([f.likely_max is None for f in families]) > 0.0, widest, span)
        sharing = np.concatenate([f.cells_sharing for f in families])
        resolution = self.scale / self._per_row([f.bins_per_scale for f in families])
        step = _bin_widths(self.scale, resolution, span, sharing, bound)
        wanted = np.concatenate([request.step for request in requests])
        numbers = MAX_FAMILY_NUMBERS / (self.rows * self.sizes)
        max_bins = np.repeat(np.clip(numbers, MAX_BINS, MAX_STEEP_BINS), self.rows)
        step = np.ceil(np.minimum(np.maximum(wanted, span / max_bins), step)).astype(np.int64)
        return step, np.ceil(span / step).astype(np.int64) + 1

    def noise_distributions(self, members: Sequence[int]) -> CellDistributions:
        """The noise alone, without a prior, of some families as of one."""
        rows = np.concatenate([np.arange(*self.starts[i : i + 2]) for i in members])
        d, width = self.sizes[list(members)].max(), self.widths[list(members)].max()
        noisy, scale = self.noisy[rows, :d], self.scale[rows]
        low, step = self.low[rows, :d], self.step[rows]
        first = (low - noisy + 0.5 * (step[:, None] - 1)) / scale[:, None]
        away = first[..., None] + (step / scale)[:, None, None] * np.arange(width)
        noise = log_noise_density(self.distribution, away)
        for row, own in enumerate(self.bins[rows].tolist()):  # no weight beyond its own window
            if own < width:
                noise[row, :, own:] = -np.inf
        cut = (low > self.minimum[rows, None]).any(axis=1)
        uncut = np.minimum(MIN_TILT, -60.0 / scale)
        uncut = np.where(step > 1, np.maximum(uncut, -MAX_TILT_OVER_BIN / step), uncut)
        return CellDistributions(
            self.distribution, noisy, scale, low, step, noise, self.max_tilt[rows],
            np.where(cut, self.window.min_tilt / scale, uncut), self.multiplicity[rows, :d],
            np.zeros(low.shape),
        )  # fmt: skip


def _window_limit(bound: np.ndarray) -> np.ndarray:
    """Last count of a window at most: beyond the row's sum, since a tilt needs room to be exact."""
    return np.asarray(5.0 * bound + 10.0)


def _bin_widths(
    scale: np.ndarray, resolution: np.ndarray, span: np.ndarray, sharing: np.ndarray,
    sums: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Counts in a bin of each row: below the resolution of the noise and a fair share of its sum.

    `span` is the extent of a row's window. Its `sums` over the number of cells `sharing` them are
    the scale on which counts vary where noise hides them.
    """
    coarse = np.minimum(resolution, sums / (2.0 * sharing))
    coarse = np.where(
        np.isfinite(sums), np.maximum(coarse, np.maximum(span / MAX_BINS, 1.0)), coarse
    )
    return np.where(scale <= MAX_UNBINNED_SCALE, 1.0, np.floor(coarse)).astype(np.int64)


def cell_distributions(
    noisy: np.ndarray, distribution: str, scale: float, prior: float | np.ndarray,
    minimum: float = 0.0, total: float | None = None, likely_max: np.ndarray | None = None,
) -> CellDistributions:  # fmt: skip
    """The distribution of each cell of one family, given noisy counts of shape (rows, d).

    `prior` is the parameter of each cell, a number or of shape (rows, d); `total` is the public
    sum of all counts, and `likely_max`, shape (rows,), a likely upper bound of each row's sum.
    """
    noise = CountNoise(distribution, scale, minimum)
    return noise_distributions(ObservedCounts(noisy, noise, total, likely_max)).with_prior(prior)


def noise_distributions(observed: ObservedCounts, narrow: bool = False) -> CellDistributions:
    """The noise alone, without a prior, of one family."""
    return CellGrid([observed], narrow).noise_distributions([0])


def at_window_edge(cells: CellDistributions, tilt: np.ndarray) -> np.ndarray:
    """Whether the tilt of each row is next to the ends of narrow windows."""
    narrow = NARROW_WINDOWS.get(cells.distribution)
    if narrow is None:
        return np.zeros(len(tilt), dtype=bool)
    low, high = (0.98 * end / cells.scale for end in (narrow.min_tilt, narrow.max_tilt))
    bounded = cells.max_tilt <= 1.001 * narrow.max_tilt / cells.scale
    cut = cells.min_tilt >= 1.001 * narrow.min_tilt / cells.scale
    return np.asarray(bounded & (tilt >= high) | cut & (tilt <= low))


def likely_upper_bound(center: np.ndarray, variance: np.ndarray) -> np.ndarray | None:
    """Likely upper bounds of sums known by mean and variance; None if some are not known."""
    if not np.isfinite(variance).all():
        return None
    return np.asarray(np.maximum(center, 0.0) + 4.0 * np.sqrt(variance) + 1.0)


def bins_too_coarse(cells: CellDistributions, tilt: np.ndarray, coarse_tilt: float) -> np.ndarray:
    """Whether the tilts of rows are steep for their bins, and these could be finer."""
    return np.asarray((np.abs(tilt) * cells.step > coarse_tilt) & (cells.step > 1))


def refined_request(
    cells: CellDistributions,
    tilt: np.ndarray,
    bound: np.ndarray,
    known: GridRequest,
    coarse_tilt: float = COARSE_TILT,
) -> GridRequest | None:
    """Demands of rows at their tilts; None if the grids they have will do.

    `bound` is the upper bound of each row's sum, `known` the request by which the grids of these
    cells were made.
    """
    too_coarse, outside = bins_too_coarse(cells, tilt, coarse_tilt), tilt > known.valid_tilt
    if not (too_coarse | outside).any():
        return None
    step, largest, valid = known.step.copy(), known.largest.copy(), known.valid_tilt.copy()
    step[too_coarse] = np.minimum(
        step[too_coarse], REFINED_SHARE * coarse_tilt / np.abs(tilt[too_coarse])
    )
    largest[outside] = valid[outside] = np.inf
    for row in np.flatnonzero(too_coarse & (tilt < 0.0) & np.isinf(known.valid_tilt)).tolist():
        own = cells.row(row)
        valid[row] = _gentlest_tilt(own, tilt[row], bound[row])
        largest[row] = _largest_relevant_count(own, valid[row])
    return GridRequest(step, largest, valid)


def _gentlest_tilt(row: CellDistributions, tilt: float, bound: float) -> float:
    """A tilt that is less steep than the row's at any sum it is likely to have.

    Where noise hides everything, cells of prior parameters A and of sum S have the tilt
    -log(1 + A / S); coarse bins may have led to a steeper one.
    """
    size = float((row.multiplicity * np.broadcast_to(row.prior, row.multiplicity.shape)).sum())
    here = float((row.multiplicity * row.moments(np.array([tilt]))[0]).sum())
    usual, far = np.log1p(size / np.maximum([here, max(bound, here)], 1.0))
    return float(-CUTOFF_SHARE * min(-tilt, usual) * far / usual)


def _largest_relevant_count(row: CellDistributions, tilt: float) -> float:
    """The largest count of any cell that is not negligible at a tilt."""
    logs = row.log_weights[0] + tilt * row.midpoints[0]
    relevant = logs > logs.max(axis=-1, keepdims=True) - NEGLIGIBLE_LOG_WEIGHT
    bins = row.width - relevant[:, ::-1].argmax(axis=1)
    return float((row.low[0] + row.step[0] * bins).max())
