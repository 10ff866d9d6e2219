"""From bounds on cells to a bound of R: T24's inequalities, cells shared by both records."""

from __future__ import annotations

import itertools
import math
import numpy as np
from collections.abc import Mapping
from pymc_private.analysis import Interval as Bounds
from pymc_private.certificates.record_bounds__neighbor_rows import NeighborRows
from pymc_private.models.domains import evenly
from pymc_private.certificates.record_bounds__row_bounds import RowBounds

Rows = RowBounds | NeighborRows

MOST_PARAMETER_CELLS = 4096
MOST_ENTRIES = 2**24
"""Numbers in one table of bounds."""


def coarse_range(rows: Rows, box: Mapping[str, Bounds], add_remove: bool = False) -> float:
    """R from one walk over the whole box: 2 (sup - inf) per record cell; once under add/remove."""
    lower, upper = rows.table(box)
    if add_remove:
        with np.errstate(invalid="ignore"):
            widths = upper - lower
        scale = np.max(np.abs(np.nan_to_num(np.stack([lower, upper]), posinf=0, neginf=0)))
        widest = float(np.where(np.isnan(widths), np.inf, widths).max())
        return widest + (widest + 2.0 * float(scale)) * 2.0**-50
    return range_of_table(lower[None], upper[None])


def range_of_table(lower: np.ndarray, upper: np.ndarray) -> float:
    """A bound of R from ends on a grid of cells (T24).

    Parameters
    ----------
    lower, upper : array, shape (parameter cells K, record cells X, rows)
        Ends of log p(x | theta) on the cells.

    Returns
    -------
    float
        The least of (a) 2 sup_theta (sup_x - inf_x), (b) 2 sup_x (sup_theta - inf_theta) and
        (c) max_{X,X'} [max_K (upper(X,K) - lower(X',K)) - min_K (lower(X,K) - upper(X',K))],
        rounded up; the greatest over rows.
    """
    with np.errstate(invalid="ignore"):
        by_theta = 2.0 * (upper.max(axis=1) - lower.min(axis=1)).max(axis=0)
        by_record = 2.0 * (upper.max(axis=0) - lower.min(axis=0)).max(axis=0)
        pairs = _by_pairs(lower, upper)
    candidates = np.stack([by_theta, by_record, pairs])
    candidates = np.where(np.isnan(candidates), np.inf, candidates)
    best = float(candidates.min(axis=0).max())
    # Three subtractions of rounded ends: each errs by half an ulp of its result or of its terms.
    scale = float(np.max(np.abs(np.nan_to_num(np.stack([lower, upper]), posinf=0, neginf=0))))
    return best + (best + 2.0 * scale) * 2.0**-50


def _by_pairs(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Inequality (c), one record cell X at a time to save memory."""
    worst = np.full(lower.shape[2], 0.0)
    for x in range(lower.shape[1]):
        rise = (upper[:, x : x + 1] - lower).max(axis=0)
        fall = (lower[:, x : x + 1] - upper).min(axis=0)
        worst = np.maximum(worst, (rise - fall).max(axis=0))
    return worst


def refined_range(rows: Rows, box: Mapping[str, Bounds], found: float, tolerance: float) -> float:
    """R from ever finer cells of the parameters, until it is near `found` or the effort is spent.

    Cells double along the axis that has the widest interval effect; every level is a valid bound.
    """
    axes = _axes(box)
    counts = dict.fromkeys(axes, 1)
    best = np.inf
    while axes and not rows.effort.is_exhausted:
        best_axis, best_value = None, np.inf
        for axis in axes[:4] if len(axes) > 4 else axes:
            trial = counts | {axis: counts[axis] * 2}
            if math.prod(trial.values()) > _most_cells(rows):
                continue
            value = range_on(rows, box, trial)
            if value < best_value or best_axis is None:
                best_axis, best_value = axis, value
            if rows.effort.is_exhausted:
                break
        if best_axis is None:
            break
        counts[best_axis] *= 2
        stalled = best_value > best * 0.995 and np.prod(list(counts.values())) > 64
        best = min(best, best_value)
        if best <= found * (1.0 + tolerance) or stalled:
            break
    return float(best)


def _most_cells(rows: Rows) -> int:
    return min(MOST_PARAMETER_CELLS, MOST_ENTRIES // (len(rows.cells) * rows.width))


def _axes(box: Mapping[str, Bounds]) -> list[tuple[str, tuple[int, ...]]]:
    """Coordinates that may be cut: finite ones, single numbers (scales, intercepts) first."""
    axes = [
        (name, index)
        for name, bounds in sorted(box.items(), key=lambda item: np.size(item[1].lower))
        if bounds.is_finite and bounds.within is None
        for index in np.ndindex(np.shape(bounds.lower))
    ]
    return axes


def range_on(
    rows: Rows,
    box: Mapping[str, Bounds],
    counts: Mapping[tuple[str, tuple], int],
) -> float:
    """R with each coordinate cut into so many equal parts; inf if the effort runs out."""
    cut = [axis for axis, count in counts.items() if count > 1]
    edges = {
        (name, i): evenly(box[name].lower[i], box[name].upper[i], counts[name, i])
        for name, i in cut
    }
    lowers, uppers = [], []
    for cell in itertools.product(*(range(counts[axis]) for axis in cut)):
        if rows.effort.is_exhausted:
            return np.inf
        piece = dict(box)
        for (name, i), k in zip(cut, cell, strict=True):
            piece[name] = _restrict(piece[name], i, edges[name, i][k], edges[name, i][k + 1])
        lower, upper = rows.table(piece)
        lowers.append(lower)
        uppers.append(upper)
    return range_of_table(np.stack(lowers), np.stack(uppers))


def _restrict(bounds: Bounds, index: tuple[int, ...], low: float, high: float) -> Bounds:
    lower, upper = np.array(bounds.lower, dtype=float), np.array(bounds.upper, dtype=float)
    lower[index], upper[index] = low, high
    return Bounds(lower, upper)
