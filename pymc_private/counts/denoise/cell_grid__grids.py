"""Grids for rows whose tilts are known: bins in which these are gentle, as far as counts weigh.

A steep tilt leaves little of a window that was to hold all counts there may be. Cut off where
nothing weighs, as many bins are finer. Over bins of steep tilts means are those of what their
middles hold, and the first bins alone may hold more than a row's sum.
"""

from __future__ import annotations

import numpy as np
from dataclasses import dataclass
from pymc_private.counts.denoise.cell_distributions import Cells

STEEPEST, GENTLER = 0.75, 2.0 / 3.0
"""Tilt over a bin beyond which it is to be finer; the share of that a finer one is to have."""
CARE = 0.5
"""Share of a tilt at which a window is cut off: the next may be as much less steep."""
NOTHING = 16.0
"""Less than the largest weight of a cell by so much, logarithms are of nothing."""


@dataclass(frozen=True, eq=False)
class Grid:
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
    def unknown(cls, rows: int) -> Grid:
        """Before there are tilts."""
        return cls(*(np.full(rows, np.inf) for _ in range(3)))


def steep(laws: Cells, tilt: np.ndarray, steepest: float) -> np.ndarray:
    """Whether tilts are steep for the bins of rows, and these could be finer."""
    return np.asarray((np.abs(tilt) * laws.step > steepest) & (laws.step > 1))


def better_grid(
    laws: Cells, tilt: np.ndarray, room: np.ndarray, known: Grid, steepest: float = STEEPEST
) -> Grid | None:
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
    too_steep, crowded = steep(laws, tilt, steepest), tilt > known.tilt
    if not (too_steep | crowded).any():
        return None
    step, most, least = known.step.copy(), known.most.copy(), known.tilt.copy()
    step[too_steep] = np.minimum(step[too_steep], GENTLER * steepest / np.abs(tilt[too_steep]))
    most[crowded] = least[crowded] = np.inf
    for row in np.flatnonzero(too_steep & (tilt < 0.0) & np.isinf(known.tilt)).tolist():
        own = laws.row(row)
        least[row] = _gentlest(own, tilt[row], room[row])
        most[row] = _weighs(own, least[row])
    return Grid(step, most, least)


def _gentlest(row: Cells, tilt: float, room: float) -> float:
    """Give a tilt that is less steep than the row's at any sum it is likely to have.

    Where noise tells nothing, cells of parameters A and of sum S have the tilt -log(1 + A / S);
    coarse bins may have led to a steeper one.
    """
    size = float((row.times * np.broadcast_to(row.prior, row.times.shape)).sum())
    here = float((row.times * row.moments(np.array([tilt]))[0]).sum())
    usual, far = np.log1p(size / np.maximum([here, max(room, here)], 1.0))
    return float(-CARE * min(-tilt, usual) * far / usual)


def _weighs(row: Cells, tilt: float) -> float:
    """Give the largest count of any cell that weighs anything at a tilt."""
    logs = row.logs[0] + tilt * row.middle[0]
    there = logs > logs.max(axis=-1, keepdims=True) - NOTHING
    bins = row.width - there[:, ::-1].argmax(axis=1)
    return float((row.low[0] + row.step[0] * bins).max())
