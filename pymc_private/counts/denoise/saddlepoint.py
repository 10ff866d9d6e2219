"""Saddlepoint approximation: exponential tilts at which cells agree with what is known of sums.

Newton steps between bounds solve the saddlepoint equations, in all rows of a family at once. The
saddlepoint approximation of the probability of the noisy counts weighs the prior parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import scipy
from scipy import special

from pymc_private.counts.denoise.cell_distributions import (
    CellDistributions,
    CountNoise,
    cell_distributions,
)

TILT_TOLERANCE, BISECTION_FACTOR = 1e-3, 0.01
"""Last Newton step of a tilt, as a share of the largest tilt (the error left is of its square), and
the factor of that for a bisection step."""
MAX_STEPS, MAX_JOINT_STEPS = 80, 40
COMMON_TILT_TOLERANCE, DOUBLINGS = 1e-3, 8
"""Last step of a tilt that is common to all rows, and how often the bounds of it are doubled."""
MIN_SLOPE = 1e-6
"""Of a row's residual, which increases with its tilt however little noisy counts say."""
GRAINS_PER_SCALE = 32.0
"""Noisy counts are rounded to this share of the noise's scale where prior parameters are scored:
finer differences weigh the same under every prior."""

Increasing = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Increasing functions, one for each row: arguments to values and slopes."""


# ---- tilts of rows whose sums are known -----------------------------------------------------


def match_row_sums(
    cells: CellDistributions, total: float, tolerance: float = TILT_TOLERANCE, start: float = 0.0
) -> np.ndarray:
    """The tilt of each row at which its mean sum is `total`, or as near to it as possible.

    `tolerance` is the last step, as a share of the largest tilt; the error left is of its square.
    """

    def excess(tilt: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        mean, variance = cells.sum_moments(tilt)
        return mean - total, variance

    return _newton_roots(cells, excess, np.full(len(cells.low), start), tolerance)


def _newton_roots(
    cells: CellDistributions, increasing: Increasing, tilt: np.ndarray, tolerance: float
) -> np.ndarray:
    """The roots of increasing functions of the rows' tilts, or the nearest end of their range.

    Newton steps between bounds, and bisection where a step leaves them or the last did not halve
    the value. A row that has converged stays: steps would follow rounding errors.
    """
    low, high = cells.min_tilt, cells.max_tilt
    last = np.full_like(tilt, np.inf)
    converged = np.zeros(len(tilt), bool)
    for _ in range(MAX_STEPS):
        value, slope = increasing(tilt)
        low, high = np.where(value < 0, tilt, low), np.where(value > 0, tilt, high)
        step = tilt - value / np.maximum(slope, 1e-300)
        inside = (step > low) & (step < high) & (np.abs(value) <= 0.5 * last)
        moved = np.where(inside, step, 0.5 * (low + high))
        last = np.where(inside, np.abs(value), np.inf)
        moved = np.where(converged, tilt, moved)
        enough = np.where(inside, tolerance, BISECTION_FACTOR * tolerance) * cells.max_tilt
        converged = np.abs(moved - tilt) < enough
        tilt = moved
        if converged.all():
            break
    return tilt


# ---- tilts of rows whose sums are partly known ----------------------------------------------


class _RowSums(NamedTuple):
    """Knowledge of rows' sums apart from their noisy counts, each of shape (rows,).

    Means and precisions of Gaussians, and sums of prior parameters: see `match_total`.
    """

    center: np.ndarray
    precision: np.ndarray
    concentration: np.ndarray


def match_total(
    cells: CellDistributions,
    center: np.ndarray,
    variance: np.ndarray,
    total: float | None,
    concentrations: np.ndarray | None = None,
) -> np.ndarray:
    """Tilts of rows whose sums are known up to Gaussians, and the sum of all rows exactly.

    tilt_j = tau + (center_j - mean_j(tilt_j)) / variance_j - slope_j, with tau such that the mean
    sums add up to `total` (tau = 0 if that is not public), and slope_j the `log_sum_weight_slope`
    at the mean sum. An infinite variance means that nothing is known of a row's sum. The
    `concentrations` are sums of the prior parameters of rows that are Dirichlet-multinomial given
    their own sums, whose prior is flat; 1 where all cells of the family are, given their total.
    """
    size = np.ones(len(center)) if concentrations is None else concentrations
    known = _RowSums(center, 1.0 / variance, size)
    start = _starting_tilts(cells, known)
    if total is None:
        return _solve_rows(cells, known, 0.0, start)
    tilt, converged = _joint_newton(cells, known, total, start)
    return tilt if converged else _nested_search(cells, known, total, start)


def log_sum_weight(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Log weight that the product of the cells' priors gives a row's sum, to be divided out.

    For a Dirichlet-multinomial with parameters of sum A it is Gamma(n + A) / (n! Gamma(A)).
    """
    found = special.gammaln(sums + concentration) - special.gammaln(sums + 1.0)
    return np.asarray(found - special.gammaln(concentration))


def log_sum_weight_slope(concentration: float | np.ndarray, sums: np.ndarray) -> np.ndarray:
    """Derivative of `log_sum_weight` in a row's sum."""
    return np.asarray(special.digamma(sums + concentration) - special.digamma(sums + 1.0))


def _starting_tilts(cells: CellDistributions, known: _RowSums) -> np.ndarray:
    """Tilts at the known centers of the rows' sums, or at their means before tilting."""
    sums = known.center
    if not known.precision.all():
        sums, _ = cells.sum_moments(np.zeros(len(cells.low)))
    slope = log_sum_weight_slope(known.concentration, np.maximum(sums, 1.0))
    return np.clip(-slope, cells.min_tilt, 0.0)


def _tilt_residual(
    cells: CellDistributions, known: _RowSums, tau: float, tilt: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Residual of each row's equation for its tilt, its slope, and mean and variance of the sum."""
    mean, variance = cells.sum_moments(tilt)
    size = known.concentration
    residual = tilt - tau - (known.center - mean) * known.precision
    residual = residual + log_sum_weight_slope(size, mean)
    curvature = special.polygamma(1, mean + size) - special.polygamma(1, mean + 1.0)
    slope = np.maximum(1.0 + (known.precision + curvature) * variance, MIN_SLOPE)
    return residual, slope, mean, variance


def _solve_rows(
    cells: CellDistributions, known: _RowSums, tau: float, tilt: np.ndarray
) -> np.ndarray:
    """Tilts at one tau, each row by itself."""
    return _newton_roots(
        cells, lambda t: _tilt_residual(cells, known, tau, t)[:2], tilt, TILT_TOLERANCE
    )


def _joint_newton(
    cells: CellDistributions, known: _RowSums, total: float, tilt: np.ndarray
) -> tuple[np.ndarray, bool]:
    """Newton steps in all tilts and tau at once: the tilts, and whether they converged.

    Most do, in a few steps. They may converge at another sum than `total`, where the ends of tilts
    allow no nearer one.
    """
    tau, most = 0.0, cells.max_tilt
    for _ in range(MAX_JOINT_STEPS):
        residual, slope, mean, variance = _tilt_residual(cells, known, tau, tilt)
        move = -residual / slope
        # How the sum responds to tau, and what is missing after the rows' own move.
        response = float((variance / slope).sum())
        missing = total - float((mean + variance * move).sum())
        shift = float(np.clip(missing / max(response, 1e-12), -most.max(), most.max()))
        moved = np.clip(tilt + move + shift / slope, cells.min_tilt, most)
        tau, step, tilt = tau + shift, np.abs(moved - tilt), moved
        if (step < TILT_TOLERANCE * most).all():
            break
    residual, slope, _, _ = _tilt_residual(cells, known, tau, tilt)
    at_end = ((tilt >= most) & (residual < 0.0)) | ((tilt <= cells.min_tilt) & (residual > 0.0))
    left = np.where(at_end, 0.0, np.abs(residual / slope) / most)
    return tilt, bool((left < 0.05).all())


def _nested_search(
    cells: CellDistributions, known: _RowSums, total: float, start: np.ndarray
) -> np.ndarray:
    """Tilts of a family by a search for tau that solves all rows at each: the sum increases.

    Every row starts at the same tilt, and the best of all trials is kept: where neither noise nor
    other families determine the sums, many tilts nearly serve, and the sum jumps from few records
    to all that windows hold.
    """
    trials = [(np.inf, start)]

    def excess(tau: float) -> float:
        tilt = _solve_rows(cells, known, tau, start)
        found = float(cells.sum_moments(tilt)[0].sum()) - total
        trials.append((abs(found), tilt))
        return found

    most = float(np.max(cells.max_tilt))
    ends = []
    for sign in (-1.0, 1.0):
        ends.append(sign * most)
        for _ in range(DOUBLINGS):
            if sign * excess(ends[-1]) > 0.0:
                break
            ends[-1] *= 2.0
    low, high = ends
    if excess(low) < 0.0 < excess(high):
        excess(float(scipy.optimize.brentq(excess, low, high, xtol=COMMON_TILT_TOLERANCE * most)))
    return min(trials, key=lambda trial: trial[0])[1]


# ---- prior parameters, weighed by the probability of the noisy counts -----------------------


def prior_mean(
    noisy: np.ndarray, noise: CountNoise, total: float | None, priors: Sequence[float]
) -> float:
    """Posterior mean of the prior parameter of a cell; 1 without a public total.

    The mean, not the mode: where noise hides everything, the mode would be a lucky guess. `total`
    is the public sum of the noisy family's cells, `priors` are the parameters to choose from.
    """
    if total is None or len(priors) == 1:
        return 1.0 if total is None else priors[0]
    grain = max(1, int(noise.scale / GRAINS_PER_SCALE))
    values, times = np.unique(np.round(noisy / grain) * grain, return_counts=True)
    each = np.array(priors)
    rows, multiplicity = (np.tile(one, (len(each), 1)) for one in (values, times))
    cells = cell_distributions(rows, noise, each[:, None], total, multiplicity)
    tilt = match_row_sums(cells, total, 1e-2)  # the evidence is stationary at the right tilt
    scores = log_evidence(cells, tilt, total, each)
    return float(f"{special.softmax(scores) @ each:.2g}")  # more digits would mean nothing


def log_evidence(
    cells: CellDistributions, tilt: np.ndarray, total: float, priors: np.ndarray
) -> np.ndarray:
    """Saddlepoint log probability of the noisy counts given the sum of each row's cells.

    `tilt` is that of `match_row_sums`, `priors` each row's prior parameter of a cell.
    """
    _, variances, logs = cells.moments(tilt)
    times = cells.multiplicity
    size = priors * times.sum(axis=1)
    found = special.gammaln(total + 1.0) + special.gammaln(size) - special.gammaln(size + total)
    variance = np.maximum((times * variances).sum(axis=1), 1e-6)
    found += (times * logs).sum(axis=1) - tilt * total
    return np.asarray(found - 0.5 * np.log(2.0 * np.pi * variance))
