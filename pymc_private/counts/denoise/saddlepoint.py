"""The tilts at which laws of cells agree with what is known of their sums."""

from __future__ import annotations

import numpy as np
from collections.abc import Callable
from dataclasses import dataclass
from scipy import optimize, special
from pymc_private.counts.denoise.cell_distributions import Cells
from pymc_private.counts.denoise.saddlepoint__stacks import Stack

CLOSE, HALF, NEAR, DOUBLINGS = 1e-3, 0.01, 1e-3, 8
"""Last Newton step of a tilt, as a share of the largest (what is left is of its square), and how
much closer bounds must be; the last step of a tilt common to all rows, and how often it doubles."""
LEAST_SLOPE = 1e-6
"""Of a row's function, which rises however little noisy counts tell."""


def match_sum(laws: Cells, total: float, close: float = CLOSE, start: float = 0.0) -> np.ndarray:
    """Give the tilt of each row at which its mean sum is `total`, or comes as near as it can.

    `close` is the last step, as a share of the largest tilt; what is left is of its square. The
    search is faster from a `start` that is near.

    Newton steps, in every row at once, between bounds: the mean rises with the tilt.
    """

    def excess(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, spread, _ = _sums(laws, tilt)
        return mean - total, spread

    return _roots(laws, excess, np.full(len(laws.low), start), close)


Rising = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


def _sums(laws: Cells, tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Means of the rows' sums, and their variances; means of the cells."""
    means, variances, _ = laws.moments(tilt)
    return (laws.times * means).sum(axis=1), (laws.times * variances).sum(axis=1), means


def _roots(laws: Cells, rising: Rising, tilt: np.ndarray, close: float) -> np.ndarray:
    """Give the tilts where functions that rise, one for each row, are 0; or the nearest end.

    Newton steps between bounds; halves where a step leaves them, or the last did not halve. A row
    that is there stays: of what rounding leaves of its function no step is to be made.
    """
    low, high = laws.least_tilt, laws.most_tilt
    last = np.full_like(tilt, np.inf)
    there = np.zeros(len(tilt), bool)
    for _ in range(80):
        found, slope = rising(tilt)
        low, high = np.where(found < 0, tilt, low), np.where(found > 0, tilt, high)
        step = tilt - found / np.maximum(slope, 1e-300)
        inside = (step > low) & (step < high) & (np.abs(found) <= 0.5 * last)
        moved = np.where(inside, step, 0.5 * (low + high))
        last = np.where(inside, np.abs(found), np.inf)
        moved = np.where(there, tilt, moved)
        enough = np.where(inside, close, HALF * close) * laws.most_tilt
        there = np.abs(moved - tilt) < enough
        tilt = moved
        if there.all():
            break
    return tilt


def match_totals(
    laws: Cells,
    center: np.ndarray,
    variance: np.ndarray,
    total: float | None,
    sizes: np.ndarray | None = None,
) -> np.ndarray:
    """Give tilts where each row knows its sum up to a Gaussian, and all rows that of all sums.

    tilt_j = tau + (center_j - mean_j(tilt_j)) / variance_j - pull_j, with tau such that the mean
    sums add up to `total` (0 if that is not public), and `sum_pull` at the mean sum.

    Parameters
    ----------
    laws : Cells
    center, variance : array, shape (rows,)
        What is known of the sums from elsewhere; an infinite variance says nothing.
    total : float or None
    sizes : array, shape (rows,), optional
        Sums of the prior parameters of rows that are Dirichlet-multinomial given their own sums,
        which are level a priori; 1 where all cells of the family are, given their total.
    """
    sizes = np.ones(len(center)) if sizes is None else sizes
    return match_stack(Stack.alone(laws), center, variance, total, sizes)[0]


@dataclass(frozen=True)
class _Told:
    """What is known of rows' sums, apart from their noisy counts, each of shape (rows,).

    Means of Gaussians, and their precisions; sums of prior parameters.
    """

    center: np.ndarray
    weight: np.ndarray
    sizes: np.ndarray

    def of(self, rows: slice) -> _Told:
        return _Told(self.center[rows], self.weight[rows], self.sizes[rows])


def match_stack(
    stack: Stack, center: np.ndarray, variance: np.ndarray, total: float | None, sizes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Do as `match_totals` for several families at once; give tilts of rows, and means of cells."""
    laws, told = stack.laws, _Told(center, 1.0 / variance, sizes)
    if total is None:
        tilt = _each_row(laws, told, 0.0, _start(laws, told))
        return tilt, laws.moments(tilt)[0]
    tilt, means, met = _together(stack, told, total)
    for k in np.flatnonzero(~met).tolist():
        rows, own = stack.rows(k), stack.family(k)
        tilt[rows] = _nested(own, told.of(rows), total)
        means[rows, : own.low.shape[1]] = own.moments(tilt[rows])[0]
    return tilt, means


def sum_pull(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Derivative of `log_sum_weight`: how the product of cells' priors pulls a row's sum up."""
    return np.asarray(special.digamma(sums + concentration) - special.digamma(sums + 1.0))


def log_sum_weight(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Logarithm of the weight that the product of cells' priors gives a row's sum, unwanted.

    Of a Dirichlet-multinomial law with parameters of sum A it is Gamma(n + A) / (n! Gamma(A)).
    """
    found = special.gammaln(sums + concentration) - special.gammaln(sums + 1.0)
    return np.asarray(found - special.gammaln(concentration))


def _gap(
    laws: Cells, told: _Told, tau: float | np.ndarray, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """How far each row is from its tilt, with the slope; and `_sums`."""
    mean, spread, means = _sums(laws, tilt)
    gap = tilt - tau - (told.center - mean) * told.weight + sum_pull(told.sizes, mean)
    bend = _trigamma(mean + told.sizes) - _trigamma(mean + 1.0)
    slope = np.maximum(1.0 + (told.weight + bend) * spread, LEAST_SLOPE)
    return gap, slope, mean, spread, means


def _trigamma(x: np.ndarray) -> np.ndarray:
    """Within 2%, which is enough of a slope."""
    y = x + 1.0
    return np.asarray(1.0 / x**2 + (1.0 + (0.5 + 1.0 / (6.0 * y)) / y) / y)


def _start(laws: Cells, told: _Told) -> np.ndarray:
    """Tilts of rows whose sums are what others tell, or their noisy counts, where noise is all."""
    noisy = (laws.times * laws.noisy).sum(axis=1)
    sums = np.maximum(np.where(told.weight > 0.0, told.center, noisy), 1.0)
    return np.clip(-sum_pull(told.sizes, sums), laws.least_tilt, 0.0)


def _each_row(laws: Cells, told: _Told, tau: float, tilt: np.ndarray) -> np.ndarray:
    """Give the tilts at one tau, each row by itself."""
    return _roots(laws, lambda t: _gap(laws, told, tau, t)[:2], tilt, CLOSE)


def _together(stack: Stack, told: _Told, total: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Newton steps in all tilts and tau at once; means; whether families met: most do, in a few.

    They may meet at another sum than `total`, where coarse bins or the ends of tilts allow no
    nearer one.
    """
    laws, starts, sizes = stack.laws, stack.starts[:-1], stack.sizes
    tau, there = np.zeros(len(starts)), np.zeros(len(starts), bool)
    tilt = _start(laws, told)
    most = laws.most_tilt
    for _ in range(40):
        gap, slope, mean, spread, means = _gap(laws, told, np.repeat(tau, sizes), tilt)
        move = -gap / slope
        if there.all():
            break
        # How the sums answer to tau, and what is missing after the rows' own move.
        answer = np.add.reduceat(spread / slope, starts)
        missing = total - np.add.reduceat(mean + spread * move, starts)
        shift = np.clip(missing / np.maximum(answer, 1e-12), -most[starts], most[starts])
        tau = np.where(there, tau, tau + shift)
        moved = tilt + move + np.repeat(shift, sizes) / slope
        moved = np.clip(moved, laws.least_tilt, laws.most_tilt)
        moved = np.where(np.repeat(there, sizes), tilt, moved)
        there = np.maximum.reduceat(np.abs(moved - tilt) / most, starts) < CLOSE
        tilt = moved
    else:
        means = laws.moments(tilt)[0]
    ended = ((tilt >= most) & (gap < 0.0)) | ((tilt <= laws.least_tilt) & (gap > 0.0))
    left = np.where(ended, 0.0, np.abs(move) / most)
    return tilt, means, np.maximum.reduceat(left, starts) < 0.05


def _nested(laws: Cells, told: _Told, total: float) -> np.ndarray:
    """Solve the rows of a family at every tau tried; the sum of all means rises with it.

    Always from the same start, and the nearest of all is kept: where neither noise nor others tell
    the sums, many tilts nearly serve, and the sum leaps from few records to all that windows hold.
    """
    start = _start(laws, told)
    best = np.inf, start

    def missing(tau: float) -> float:
        nonlocal best
        tilt = _each_row(laws, told, tau, start)
        found = float(laws.moments(tilt)[0].sum()) - total
        best = min(best, (abs(found), tilt), key=lambda pair: pair[0])
        return found

    most = float(np.max(laws.most_tilt))
    low, high = -most, most
    for _ in range(DOUBLINGS):
        if missing(low) < 0.0:
            break
        low *= 2.0
    for _ in range(DOUBLINGS):
        if missing(high) > 0.0:
            break
        high *= 2.0
    if missing(low) < 0.0 < missing(high):
        missing(float(optimize.brentq(missing, low, high, xtol=NEAR * most)))
    return best[1]


def log_evidence(laws: Cells, tilt: np.ndarray, total: float, priors: np.ndarray) -> np.ndarray:
    """Log probabilities of the noisy counts given the sum of each row's cells, by saddle point.

    Parameters
    ----------
    laws : Cells
    tilt, priors : array, shape (rows,)
        What `match_sum` gives, and each row's prior parameter of a cell.
    total : float
    """
    _, variances, logs = laws.moments(tilt)
    size = priors * laws.times.sum(axis=1)
    found = special.gammaln(total + 1.0) + special.gammaln(size) - special.gammaln(size + total)
    spread = np.maximum((laws.times * variances).sum(axis=1), 1e-6)
    found += (laws.times * logs).sum(axis=1) - tilt * total
    return np.asarray(found - 0.5 * np.log(2.0 * np.pi * spread))
