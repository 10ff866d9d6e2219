r"""Clipping bounds by expected information: C of a pilot, C and K of the final release (T36).

A score clipped at C with noise of standard deviation s informs about W^-1 (theta - theta_t) with
precision H (J + s^2 I)^-1 H, H = n E[w B] and J = n E[w^2 psi psi'] under the public reference. A
small C needs little noise and loses what it clips.

Final releases multiply theta by a noisy H, tau its noise, so that what earlier releases leave open,
of covariance S, counts as noise too: log det of

    W P0 W + H (J + (s^2 + tau^2 tr(S) / 2) I + tau^2 S / 2)^-1 H.

*Among pairs within 0.3 of the best, the largest K and then the largest C are taken*:
weights and clipping change what is estimated where the model is wrong, and no simulation from the
model shows that. For the same reason a larger C is taken, whatever it costs its own release, if all
releases together at that bound would give intervals at most `WIDER` times as wide as records
without noise do: of many records noise costs little, and a clip moves a wrong model's posterior by
many of its narrow standard deviations (credit card defaults, n 30,000, epsilon 1: 4.0 of them, 1.1
by this rule, at the same width of 1.1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy

from pymc_private.errors import Unsupported
from pymc_private.summaries.scores.clipped_scores import ClippedRows, FramedRows, clip_rows

PILOT_QUANTILES = (0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.95, 0.99, 1.0, 2.0)
"""Quantiles of |u| that a pilot tries as C; above 1 in units of the largest: with little noise all
pilots would agree on what the same clip makes of records that lie farther out than the reference
(real sets at epsilon 1e4: up to .7 posterior standard deviations off, .3 without that clip)."""
SCORE_QUANTILES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0, 2.0, 4.0)
"""Quantiles of |u| that the final release tries as C; above 1 in units of the largest. Covariates
may lie far out of their moved reference: at epsilon 1e4 twice the largest leaves the posterior of
the spam data .42 of its standard deviations off, four times .19."""
CURVATURE_QUANTILES = (0.5, 0.7, 0.85, 0.95, 1.0, 2.0, 4.0)
"""Quantiles of |B|_F that it tries as K; above 1 in units of the largest. Records that lie farther
out than the reference are clipped where noise matters, and not where it does not."""
PILOT_LOSS, JOINT_LOSS = 1.0, 0.3
"""Log determinant (twice the nats of information) that a larger bound may cost."""
PILOT_WIDER, WIDER = 1.1, 1.15
"""What noise may make of the width of intervals before a smaller bound is tried, if all releases
had that of a pilot, or of the final one: noisier pilots also leave more to a noisy curvature."""

NoiseSd = Callable[[float], float]
"""Standard deviation of the noise for a bound."""


@dataclass(frozen=True, eq=False)
class BoundChoice:
    """Bounds and where they lie.

    Attributes
    ----------
    bound, weight_bound : float
        C and K.
    quantile, weight_quantile : float
        Their quantiles under the reference at theta_t.
    precision : array, shape (p, p)
        Expected precision of the released score, in units of the metric.
    log_det : float
        Log determinant of the expected posterior precision.
    together : float
        The same after all releases, were they at this bound.
    """

    bound: float
    weight_bound: float
    quantile: float
    weight_quantile: float
    precision: np.ndarray
    log_det: float
    together: float


def weighted_quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """The least value with at least `share` of the weight at or below it.

    A share above 1 stands for that multiple of the largest value.
    """
    return _weighted_quantiles(values, weights, (share,))[0]


def _weighted_quantiles(
    values: np.ndarray, weights: np.ndarray, shares: tuple[float, ...]
) -> list[float]:
    """The same for several shares."""
    order = np.argsort(values, axis=None)
    ordered, total = values.ravel()[order], np.cumsum(weights.ravel()[order])
    at = np.minimum(np.array(shares), 1.0) * total[-1] * (1.0 - 1e-12)
    found = ordered[np.minimum(np.searchsorted(total, at), len(order) - 1)]
    pairs = zip(shares, found, strict=True)
    return [share * float(ordered[-1]) if share > 1.0 else float(v) for share, v in pairs]


def score_quantiles(frame: FramedRows, weights: np.ndarray, shares: tuple[float, ...]) -> list:
    """Quantiles of |u|: covariates by the weighted rows, outcomes by the model.

    Raises
    ------
    Unsupported
        No outcome has a positive probability.
    """
    norms, mass = frame.norms(), frame.mass * weights[:, None]
    keep = mass > 0.0
    if not keep.any():
        raise Unsupported(
            "no outcome of the domain is possible at some parameters that the prior draws",
            allowed="priors under which records of the domain are possible",
            do="a narrower prior, or a wider domain of the outcome",
        )
    floor = 1e-9 * float(norms[keep].max(initial=1e-300))
    return [max(found, floor) for found in _weighted_quantiles(norms[keep], mass[keep], shares)]


def _bounds_downwards(
    frame: FramedRows, weights: np.ndarray, shares: tuple[float, ...]
) -> list[tuple[float, float]]:
    """Shares and quantiles of |u|, the largest first: centers of scores move little in between."""
    quantiles = score_quantiles(frame, weights, shares)
    return list(zip(shares, quantiles, strict=True))[::-1]


def pilot_bound(
    frame: FramedRows, weights: np.ndarray, prior: np.ndarray, noise_sd: NoiseSd, least_sd: NoiseSd
) -> BoundChoice:
    """The largest C within `PILOT_LOSS` of the best, or `PILOT_WIDER`, for scores alone.

    Parameters
    ----------
    frame : FramedRows
        The reference.
    weights : array, shape (N,)
        n times the weights of the reference.
    prior : array, shape (p, p)
        W P0 W: prior precision in units of the metric.
    noise_sd : callable
        s for a bound C.
    least_sd : callable
        The same of all releases together, were they at one bound.
    """
    found, unit, clipped = list[BoundChoice](), np.eye(len(prior)), None
    for share, bound in _bounds_downwards(frame, weights, PILOT_QUANTILES):
        clipped = clip_rows(frame, bound, near=clipped)
        moments = clipped.moments(weights)
        precision = _precision(*moments, noise_sd(bound) ** 2 * unit)
        gain = _log_det(prior + precision)
        together = _log_det(prior + _precision(*moments, least_sd(bound) ** 2 * unit))
        found.append(BoundChoice(bound, np.inf, share, 1.0, precision, gain, together))
    return _largest(found, PILOT_LOSS, _enough(frame, weights, prior, PILOT_WIDER))


def joint_bounds(
    frame: FramedRows,
    weights: np.ndarray,
    prior: np.ndarray,
    spread: np.ndarray,
    noise_sd: NoiseSd,
    curvature_sd: NoiseSd | None,
    least_sd: NoiseSd,
) -> BoundChoice:
    """C and K of the final release, by the rule of this module.

    Parameters
    ----------
    frame, weights, prior, noise_sd, least_sd
        As of `pilot_bound`.
    spread : array, shape (p, p)
        S = W^-1 Cov W^-1: what earlier releases leave open, in units of the metric.
    curvature_sd : callable or None
        tau for a bound K; None: H is public, and there are no weights.
    """
    found, unit, clipped = list[BoundChoice](), np.eye(len(prior)), None
    for share, bound in _bounds_downwards(frame, weights, SCORE_QUANTILES):
        clipped = clip_rows(frame, bound, near=clipped)
        noise, least_noise = noise_sd(bound) ** 2 * unit, least_sd(bound) ** 2 * unit
        for weight_share, weight_bound in _curvature_bounds(clipped, weights, curvature_sd):
            tau = curvature_sd(weight_bound) if curvature_sd is not None else 0.0
            moments = _reweighted(clipped, weight_bound).moments(weights)
            of_curvature = tau**2 / 2.0 * (np.trace(spread) * unit + spread)
            precision = _precision(*moments, noise + of_curvature)
            least = _precision(*moments, least_noise + of_curvature)
            gain, together = _log_det(prior + precision), _log_det(prior + least)
            places = bound, weight_bound, share, weight_share
            found.append(BoundChoice(*places, precision, gain, together))
    return _largest(found, JOINT_LOSS, _enough(frame, weights, prior, WIDER))


def _largest(found: list[BoundChoice], loss: float, enough: float) -> BoundChoice:
    """The largest K, then C, within a loss of the best; at that K, a larger C that costs little.

    A larger K is never taken for that: its noise can hide a direction of the curvature.
    """
    best = max(choice.log_det for choice in found)
    within = [c for c in found if c.log_det >= best - loss]
    choice = max(within, key=lambda c: (c.weight_quantile, c.quantile))
    same = [c for c in found if c.weight_quantile == choice.weight_quantile]
    cheap = [c for c in same if c.together >= enough]
    return max([choice, *cheap], key=lambda c: c.quantile)


def _enough(frame: FramedRows, weights: np.ndarray, prior: np.ndarray, wider: float) -> float:
    """The log determinant of intervals wider than those of records without noise or clip.

    Infinite, so that nothing is enough, where the scores of records do not vary.
    """
    beyond = 2.0 * float(frame.norms()[frame.mass > 0.0].max(initial=1e-9))
    whole, second = clip_rows(frame, beyond).moments(weights)
    try:
        unclipped = _log_det(prior + _precision(whole, second, np.zeros_like(second)))
    except np.linalg.LinAlgError:
        return np.inf
    return unclipped - 2.0 * np.log(wider) * len(prior)


def _precision(curvature: np.ndarray, second: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """H (J + noise)^-1 H."""
    try:
        factor = np.linalg.cholesky(second + noise)
    except np.linalg.LinAlgError:  # positive but for rounding
        return np.asarray(curvature @ np.linalg.solve(second + noise, curvature))
    half = scipy.linalg.solve_triangular(factor, curvature, lower=True, check_finite=False)
    return np.asarray(half.T @ half)


def _curvature_bounds(
    clipped: ClippedRows, weights: np.ndarray, curvature_sd: NoiseSd | None
) -> list[tuple[float, float]]:
    if curvature_sd is None:
        return [(1.0, np.inf)]
    size = np.sqrt((clipped.curvature**2).sum(axis=(1, 2)))
    bounds = _weighted_quantiles(size, weights, CURVATURE_QUANTILES)
    least = 1e-9 * max(bounds[-1], 1e-300)
    return [(s, max(b, least)) for s, b in zip(CURVATURE_QUANTILES, bounds, strict=True)]


def _reweighted(clipped: ClippedRows, weight_bound: float) -> ClippedRows:
    """The same rows with the weights of another K."""
    size = np.sqrt((clipped.curvature**2).sum(axis=(1, 2)))
    weight = np.where(size > weight_bound, weight_bound / np.maximum(size, 1e-300), 1.0)
    return replace(clipped, weight=np.where(clipped.frame.valid, weight, 0.0))


def _log_det(matrix: np.ndarray) -> float:
    sign, value = np.linalg.slogdet(matrix)
    return float(value) if sign > 0 and np.isfinite(value) else -np.inf
