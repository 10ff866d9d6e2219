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

import numpy as np

from pymc_private.counts.denoise.cell_distributions import CellDistributions, log_noise_density
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE, MIN_SCALE

COARSE_TILT, REFINED_SHARE = 0.75, 2.0 / 3.0
"""Tilt over a bin beyond which it is to be finer; the share of that a finer one is to have."""
CUTOFF_SHARE = 0.5
"""Share of a tilt at which a window is cut off: the next may be as much less steep."""
NEGLIGIBLE_LOG_WEIGHT = 16.0
"""Less than the largest weight of a cell by so much, logarithms are of nothing."""


@dataclass(frozen=True, eq=False)
class GridRequest:
    """What grids of rows are to be, each of shape (rows,) and infinite where that is not known.

    Attributes
    ----------
    step : array
        Most counts in a bin.
    most : array
        Counts of its cells that are larger weigh nothing.
    tilt : array
        At tilts up to this one.
    """

    step: np.ndarray
    most: np.ndarray
    tilt: np.ndarray

    @classmethod
    def unknown(cls, rows: int) -> GridRequest:
        """Before there are tilts."""
        return cls(*(np.full(rows, np.inf) for _ in range(3)))


def bins_too_coarse(laws: CellDistributions, tilt: np.ndarray, steepest: float) -> np.ndarray:
    """Whether tilts are steep for the bins of rows, and these could be finer."""
    return np.asarray((np.abs(tilt) * laws.step > steepest) & (laws.step > 1))


def refined_request(
    laws: CellDistributions,
    tilt: np.ndarray,
    room: np.ndarray,
    known: GridRequest,
    steepest: float = COARSE_TILT,
) -> GridRequest | None:
    """Give the grids that rows want at their tilts; None if those they have will do.

    Parameters
    ----------
    laws : Cells
    tilt : array, shape (rows,)
    room : array, shape (rows,)
        What the sum of each row hardly exceeds.
    known : Grid
        What was asked for when these laws were made.
    steepest : float
        Tilt over a bin beyond which it is to be finer.
    """
    too_steep, crowded = bins_too_coarse(laws, tilt, steepest), tilt > known.tilt
    if not (too_steep | crowded).any():
        return None
    step, most, least = known.step.copy(), known.most.copy(), known.tilt.copy()
    step[too_steep] = np.minimum(
        step[too_steep], REFINED_SHARE * steepest / np.abs(tilt[too_steep])
    )
    most[crowded] = least[crowded] = np.inf
    for row in np.flatnonzero(too_steep & (tilt < 0.0) & np.isinf(known.tilt)).tolist():
        own = laws.row(row)
        least[row] = _gentlest_tilt(own, tilt[row], room[row])
        most[row] = _largest_relevant_count(own, least[row])
    return GridRequest(step, most, least)


def _gentlest_tilt(row: CellDistributions, tilt: float, room: float) -> float:
    """Give a tilt that is less steep than the row's at any sum it is likely to have.

    Where noise tells nothing, cells of parameters A and of sum S have the tilt -log(1 + A / S);
    coarse bins may have led to a steeper one.
    """
    size = float((row.times * np.broadcast_to(row.prior, row.times.shape)).sum())
    here = float((row.times * row.moments(np.array([tilt]))[0]).sum())
    usual, far = np.log1p(size / np.maximum([here, max(room, here)], 1.0))
    return float(-CUTOFF_SHARE * min(-tilt, usual) * far / usual)


def _largest_relevant_count(row: CellDistributions, tilt: float) -> float:
    """Give the largest count of any cell that weighs anything at a tilt."""
    logs = row.logs[0] + tilt * row.middle[0]
    there = logs > logs.max(axis=-1, keepdims=True) - NEGLIGIBLE_LOG_WEIGHT
    bins = row.width - there[:, ::-1].argmax(axis=1)
    return float((row.low[0] + row.step[0] * bins).max())


MAX_UNBINNED_SCALE = 12.0
"""Scales up to this one are resolved count by count."""
MIN_BINS_PER_SCALE = 4.0
"""Least bins of a larger scale: means are off by less than 0.005 scales, and by up to 0.1 where
noise of many scales, or a steep tilt, presses a law into its first bin."""
LEAST_TILT = -20.0
"""Lower end of tilts where no window is cut off below: a prior that is much larger than its row's
sum takes log(sum / prior)."""
MAX_TILT_OVER_BIN = 200.0
"""Least tilt over a bin: from there on nothing is left of any but the first."""
MAX_TILT_TIMES_SUM = 10.0
"""Most tilt of windows that end above their row's sum, not where noise does; times that sum."""
LEAST_SD = 0.01
"""Sums of whole numbers with less noise are known; arithmetic with its square would break down."""
MAX_BINS = 512
"""Bins of a cell at most, so that small counts are still told apart where noise is large."""
MAX_STEEP_BINS, MAX_FAMILY_NUMBERS = 2048.0, 2.0**18
"""Bins of a cell at most where tilts are steep, and numbers in the laws of a family; more of these
where `MAX_BINS` allows it."""
MAX_INT64_COUNT = 2.0**62
"""Counts beyond are no integers of 64 bits."""


@dataclass(frozen=True)
class CountWindow:
    """How far from a noisy count true ones are looked for, and the tilts that is enough for.

    Attributes
    ----------
    down, up : float
        In scales of the noise.
    least, most : float
        Tilts, in reciprocal scales; `least` where windows are cut off below, not at the least count
        there may be.
    """

    down: float
    up: float
    least: float
    most: float


NARROW_WINDOWS = {DISCRETE_GAUSSIAN: CountWindow(8.0, 6.5, -2.5, 2.5)}
"""Windows that serve nearly all families: at their tilts what is cut off weighs e^-8 or less.
Laplace noise has no such: its tails are long, and tilts near the ends of its windows common."""
WIDE_WINDOWS = {
    DISCRETE_LAPLACE: CountWindow(28.0, 28.0, -60.0, 0.7),
    DISCRETE_GAUSSIAN: CountWindow(14.0, 10.0, -60.0, 6.0),
}
"""Windows of families whose tilts would leave those."""


@dataclass(frozen=True, eq=False)
class ObservedCounts:
    """Noisy counts of one family, and what their grids depend on.

    Attributes
    ----------
    noisy : array of int, shape (rows, d)
    noise : tuple
        The law, its scale, and the public lower bound of every count.
    total : float or None
        Public sum of all counts.
    most : array, shape (rows,), or None
        What the sum of each row hardly exceeds, where that is known.
    times : array, shape (rows, d), or None
        How many cells each law stands for, if not one.
    prior : array, shape (rows, d), or None
        Prior parameter of each cell, if some are above 1.
    bins : float
        Least bins of a large scale.
    steepest : float
        Tilt over a bin beyond which it is to be finer.
    grid : Grid or None
        What tilts want, if they are known and steep.
    """

    noisy: np.ndarray
    noise: tuple[str, float, float]
    total: float | None = None
    most: np.ndarray | None = None
    times: np.ndarray | None = None
    prior: np.ndarray | None = None
    bins: float = MIN_BINS_PER_SCALE
    steepest: float = COARSE_TILT
    grid: GridRequest | None = None

    @classmethod
    def distinct(
        cls,
        noisy: np.ndarray,
        noise: tuple[str, float, float],
        total: float,
        bins: float = MIN_BINS_PER_SCALE,
    ) -> ObservedCounts:
        """Take each noisy count there is once: cells of one count have one law."""
        values, times = np.unique(noisy, return_counts=True)
        return cls(values[None], noise, total, times=times[None], bins=bins)

    @cached_property
    def sharing(self) -> np.ndarray:
        """Cells that share what is known of a row's sum, or the sum of their parameters."""
        axis = None if self.most is None else 1
        if self.times is None:
            cells = np.asarray(self.noisy.size if axis is None else self.noisy.shape[1])
        else:
            cells = self.times.sum(axis=axis)
        if self.prior is not None:
            cells = np.maximum(cells, self.prior.sum(axis=axis))
        return np.broadcast_to(cells, len(self.noisy))

    @cached_property
    def room(self) -> np.ndarray:
        """What the sum of each row does not exceed, or hardly; infinite where nothing is known."""
        total, most = (np.inf if v is None else v for v in (self.total, self.most))
        return np.asarray(np.minimum(np.full(len(self.noisy), total), most))


class CellGrid:
    """Grids of families whose noise has one law, each row's own as if the family were alone.

    A family that has fewer columns than others repeats its last one, 0 times.

    Parameters
    ----------
    families : sequence of Observed
    near : bool
        Whether near windows are to do.
    """

    def __init__(self, families: Sequence[ObservedCounts], near: bool = False) -> None:
        self.sizes = np.array([f.noisy.shape[1] for f in families])
        rows = np.array([len(f.noisy) for f in families])
        self.starts = np.cumsum([0, *rows])
        self.law = families[0].noise[0]
        self.window = (
            NARROW_WINDOWS.get(self.law, WIDE_WINDOWS[self.law]) if near else WIDE_WINDOWS[self.law]
        )
        every = lambda values: np.repeat(np.array(values, float), rows)  # noqa: E731
        # Averages of many tables may have less than the least noise.
        self.scale = np.maximum(every([f.noise[1] for f in families]), MIN_SCALE[self.law])
        wide = int(self.sizes.max())
        self.noisy = np.empty((self.starts[-1], wide), np.int64)
        self.times = np.zeros_like(self.noisy)
        for family, start, stop in zip(families, self.starts, self.starts[1:], strict=False):
            d = family.noisy.shape[1]
            self.noisy[start:stop, :d] = family.noisy
            self.noisy[start:stop, d:] = family.noisy[:, -1:]
            self.times[start:stop, :d] = 1 if family.times is None else family.times
        self.least = np.ceil(every([f.noise[2] for f in families])).astype(np.int64)
        room = np.concatenate([f.room for f in families])
        grids = [f.grid or GridRequest.unknown(len(f.noisy)) for f in families]
        self.low, high = self._windows(self.least[:, None], room[:, None])
        most = np.concatenate([grid.most for grid in grids])[:, None]
        high = np.maximum(np.minimum(high, most), self.low + 1)
        steep = np.where(self._ends_with(room), MAX_TILT_TIMES_SUM / np.maximum(room, 1.0), 0.0)
        self.most_tilt = np.maximum(self.window.most / self.scale, steep)
        reach = (high - self.low).max(axis=1)
        # Rows that may be taken as one have one step.
        alike = np.repeat(np.maximum.reduceat(reach, self.starts[:-1]), rows)
        reach = np.where(every([f.most is None for f in families]) > 0.0, alike, reach)
        sharing = np.concatenate([f.sharing for f in families])
        finest = self.scale / every([f.bins for f in families])
        self.step = _bin_widths(self.scale, finest, reach, sharing, room)
        wanted = np.concatenate([grid.step for grid in grids])
        most_bins = np.repeat(
            np.clip(MAX_FAMILY_NUMBERS / (rows * self.sizes), MAX_BINS, MAX_STEEP_BINS), rows
        )
        own = np.ceil(np.minimum(np.maximum(wanted, reach / most_bins), self.step))
        self.step = own.astype(np.int64)
        self.bins = np.ceil(reach / self.step).astype(np.int64) + 1
        self.widths = np.maximum.reduceat(self.bins, self.starts[:-1])

    def _windows(self, least: np.ndarray, room: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where counts are looked for."""
        scale = self.scale[:, None]
        low = np.maximum(least, np.floor(self.noisy - self.window.down * scale)).astype(np.int64)
        high = np.maximum(self.noisy, least) + self.window.up * scale
        if np.isfinite(room).any():
            known = np.minimum(room, MAX_INT64_COUNT).astype(np.int64)
            low = np.minimum(low, np.maximum(least, known))
            high = np.maximum(np.minimum(high, _window_limit(room)), low + 1)
        return low, high

    def _ends_with(self, room: np.ndarray) -> np.ndarray:
        """Whether every window of a row ends above the row's sum, not where its noise does."""
        return np.asarray(
            np.maximum(self.noisy.min(axis=1), 0.0) + self.window.up * self.scale
            >= _window_limit(room)
        )

    def laws(self, members: Sequence[int]) -> CellDistributions:
        """Lay out the noise alone, of some families as of one."""
        rows = np.concatenate([np.arange(*self.starts[i : i + 2]) for i in members])
        d, width = self.sizes[list(members)].max(), self.widths[list(members)].max()
        noisy, scale = self.noisy[rows, :d], self.scale[rows]
        low, step = self.low[rows, :d], self.step[rows]
        first = (low - noisy + 0.5 * (step[:, None] - 1)) / scale[:, None]
        away = first[..., None] + (step / scale)[:, None, None] * np.arange(width)
        noise = log_noise_density(self.law, away)
        for row, own in enumerate(self.bins[rows].tolist()):  # none beyond its own window
            if own < width:
                noise[row, :, own:] = -np.inf
        cut = (low > self.least[rows, None]).any(axis=1)
        open_ = np.minimum(LEAST_TILT, -60.0 / scale)
        open_ = np.where(step > 1, np.maximum(open_, -MAX_TILT_OVER_BIN / step), open_)
        return CellDistributions(
            self.law, noisy, scale, low, step, noise, self.most_tilt[rows],
            np.where(cut, self.window.least / scale, open_), self.times[rows, :d],
            np.zeros(low.shape),
        )  # fmt: skip


def cell_distributions(
    noisy: np.ndarray, law: str, scale: float, prior: float | np.ndarray, minimum: float = 0.0,
    total: float | None = None, most: np.ndarray | None = None,
) -> CellDistributions:  # fmt: skip
    """Lay out the law of each cell of one family.

    Parameters
    ----------
    noisy : array of int, shape (rows, d)
    law : {"discrete_gaussian", "laplace"}
    scale : float
    prior : float, or array, shape (rows, d)
        a, the prior parameter of each cell.
    minimum : float
        Public lower bound of every count.
    total : float, optional
        Public sum of all counts.
    most : array, shape (rows,), optional
        What the sum of each row hardly exceeds, where that is known.
    """
    return noise_distributions(
        ObservedCounts(noisy, (law, scale, minimum), total, most)
    ).with_prior(prior)


def noise_distributions(observed: ObservedCounts, near: bool = False) -> CellDistributions:
    """Lay out the noise alone, of one family."""
    return CellGrid([observed], near).laws([0])


def at_window_edge(laws: CellDistributions, tilt: np.ndarray) -> np.ndarray:
    """Whether tilts are next to the ends of near windows, each row's."""
    near = NARROW_WINDOWS.get(laws.law)
    if near is None:
        return np.zeros(len(tilt), dtype=bool)
    low, high = (0.98 * end / laws.scale for end in (near.least, near.most))
    open_ = laws.most_tilt <= 1.001 * near.most / laws.scale
    cut = laws.least_tilt >= 1.001 * near.least / laws.scale
    return np.asarray(open_ & (tilt >= high) | cut & (tilt <= low))


def likely_upper_bound(center: np.ndarray, variance: np.ndarray) -> np.ndarray | None:
    """What sums hardly exceed, where others tell every one of them."""
    if not np.isfinite(variance).all():
        return None
    return np.asarray(np.maximum(center, 0.0) + 4.0 * np.sqrt(variance) + 1.0)


def _window_limit(room: np.ndarray) -> np.ndarray:
    """Where windows end at the latest: with room for the tilt, or means would be cruder."""
    return np.asarray(5.0 * room + 10.0)


def _bin_widths(
    scale: np.ndarray, finest: np.ndarray, reach: np.ndarray, sharing: np.ndarray, sums: np.ndarray
) -> np.ndarray:
    """Counts in a bin of each row: what noise cannot tell apart, nor a fair share of its sum hide.

    finest : array, shape (rows,)
        What noise cannot tell apart.
    reach : array, shape (rows,)
        What a window of the row holds.
    sharing : array, shape (rows,)
        Sums over it are scales on which counts of cells vary, if no noise tells them.
    """
    coarse = np.minimum(finest, sums / (2.0 * sharing))
    coarse = np.where(
        np.isfinite(sums), np.maximum(coarse, np.maximum(reach / MAX_BINS, 1.0)), coarse
    )
    return np.where(scale <= MAX_UNBINNED_SCALE, 1.0, np.floor(coarse)).astype(np.int64)
