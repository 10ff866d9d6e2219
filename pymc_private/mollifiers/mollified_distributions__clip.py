"""The law in a window that is closest to a target: clip(P / C, ...) with C solved (T15d)."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from scipy.optimize import brentq, minimize_scalar
from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.mollifiers.window import Window

SLACK = 1e-12
"""nats by which the clip keeps inside its window, so that what rounding does stays inside too."""
FEW = 20_000
FARTHEST = 1e4
"""nats. Log ratios of an estimate beyond it are not told apart."""


def slack(window: Window) -> float:
    """What the ends of a window are moved inward by, nats.

    It covers |log Z| <= `SLACK` / 2 of the sum below, the exponential's last bit, and a uniform
    number of 52 bits that is compared with an acceptance probability of at least e^-epsilon.
    """
    return SLACK + 2.0**-50 * math.exp(window.epsilon)


def clip_to_window(
    log_ratio: np.ndarray, mass: np.ndarray, window: Window
) -> tuple[np.ndarray, float]:
    """Give log Q/Q0 of the law in the window that is closest to an estimate of the target.

    Parameters
    ----------
    log_ratio : array, shape (n,)
        log P/Q0 up to a constant, of the estimate. -inf and NaN: no mass.
    mass : array, shape (n,)
        Probabilities of the reference, >= 0; normalized here.
    window : Window

    Returns
    -------
    log_weight : array, shape (n,)
        Inside the window after exact normalization, whatever the estimate was: the sum of
        mass exp(log Q/Q0) is one within `SLACK` / 2, and the ends have been moved inward by more.
    level : float
        log C: elsewhere the law is clip(log_ratio - level, ...). -inf in the degenerate case.

    Raises
    ------
    DomainError
        The masses are no law.

    References
    ----------
    Theory T15d, with the degenerate case: where the support of the target is too small to take
    all the mass, it gets the upper end and the rest is spread in proportion to the reference.
    """
    mass = _law(mass)
    low, high = window.lower + slack(window), window.upper - slack(window)
    if low >= 0.0 or high <= 0.0:
        return np.zeros(len(mass)), 0.0
    ratio = _tamed(log_ratio)
    support = ratio > -np.inf
    inside = float(mass[support].sum())
    outside = float(mass[~support].sum())
    if math.exp(high) * inside + math.exp(low) * outside <= 1.0:
        weight, level = _left_over(support, inside, outside, (low, high)), -math.inf
    else:
        weight, level = _centered(ratio, mass, low, high)
    if not abs(log_total(weight, mass)) <= SLACK / 2:
        weight = _mixed(weight, mass, low, high)
    return weight, level


def log_total(log_weight: np.ndarray, mass: np.ndarray) -> float:
    """log of the sum of mass exp(log_weight): correctly rounded terms, exactly summed."""
    return math.log(math.fsum((mass * np.exp(log_weight)).tolist()))


def _mean(values: np.ndarray, mass: np.ndarray) -> float:
    """Sum of mass times values; no matrix library, whose threads wait for each other."""
    return float((mass * values).sum())


def _tamed(log_ratio: np.ndarray) -> np.ndarray:
    """NaN and -inf are no mass; what is finite, or infinite, stays within `FARTHEST`."""
    ratio = np.asarray(log_ratio, float)
    none = np.isnan(ratio) | (ratio == -np.inf)
    return np.where(none, -np.inf, np.clip(ratio, -FARTHEST, FARTHEST))


def _law(mass: np.ndarray) -> np.ndarray:
    mass = np.asarray(mass, float)
    total = float(mass.sum()) if mass.ndim == 1 else 0.0
    if not 0.0 < total < math.inf or (mass < 0.0).any():
        raise DomainError(
            "the reference is a law: finite, not negative, not all zero",
            got=f"an array of shape {mass.shape}",
        )
    return mass if total == 1.0 else mass / total


def _left_over(
    support: np.ndarray, inside: float, outside: float, ends: tuple[float, float]
) -> np.ndarray:
    """The upper end on the support, the rest spread over what is off it.

    Where little is off it, the rest is a difference of near equals, and rounding alone could take
    its share below the lower end: it is clipped, and the total checked by the caller.
    """
    low, high = ends
    if outside <= 0.0:
        return np.zeros(len(support))
    share = math.log1p(-math.exp(high) * inside) - math.log(outside)
    return np.where(support, high, min(max(share, low), high))


def _centered(
    ratio: np.ndarray, mass: np.ndarray, low: float, high: float
) -> tuple[np.ndarray, float]:
    """Clip(ratio - c, low, high) with c such that it has unit mass."""

    def excess(c: float, r: np.ndarray = ratio, q: np.ndarray = mass) -> float:
        return _mean(np.exp(np.clip(r - c, low, high)), q) - 1.0

    c = _root(excess, ratio, mass, low, high)
    weight = np.clip(ratio - c, low, high)
    for _ in range(20):
        error = math.log(_mean(np.exp(weight), mass))
        if abs(error) <= SLACK / 8:
            break
        free = (weight > low) & (weight < high)
        share = _mean(np.exp(weight[free]), mass[free])
        c += error / max(share, 1e-6)
        weight = np.clip(ratio - c, low, high)
    return weight, c


def _root(
    excess: Callable[..., float], ratio: np.ndarray, mass: np.ndarray, low: float, high: float
) -> float:
    """C where the mass is one, found on few points first."""
    finite = np.flatnonzero((ratio > -np.inf) & (mass > 0.0))
    ends = float(ratio[finite].min()) - high - 1.0, float(ratio[finite].max()) - low + 1.0
    if len(finite) > FEW:
        some = finite[:: len(finite) // FEW]
        part = mass[some] / mass[some].sum()
        if excess(ends[0], ratio[some], part) > 0.0 > excess(ends[1], ratio[some], part):
            guess = brentq(excess, *ends, args=(ratio[some], part), xtol=1e-3, rtol=1e-9)
            close = guess - 0.05, guess + 0.05
            if excess(close[0]) > 0.0 > excess(close[1]):
                return float(brentq(excess, *close, xtol=1e-8, rtol=1e-14))
    if not excess(ends[0]) > 0.0 > excess(ends[1]):
        return ends[0] if excess(ends[0]) <= 0.0 else ends[1]
    return float(brentq(excess, *ends, xtol=1e-13, rtol=1e-14, maxiter=500))


def _mixed(weight: np.ndarray, mass: np.ndarray, low: float, high: float) -> np.ndarray:
    """Mend a mass that jumps between neighboring doubles of c (ratios of enormous size).

    The law is mixed with one at an end of the window: a mixture of laws in a window stays in it.
    """
    total = math.exp(log_total(weight, mass))
    end = math.exp(low if total > 1.0 else high)
    share = (1.0 - total) / (end - total)
    mended = np.log((1.0 - share) * np.exp(weight) + share * end)
    if not 0.0 <= share <= 1.0 or abs(log_total(mended, mass)) > SLACK / 2:
        raise PymcPrivateError("the mollified law could not be normalized")
    return np.clip(mended, low, high)


def best_level(log_ratio: np.ndarray, mass: np.ndarray, width: float) -> float:
    """Where a tilt of range `width` gains most for an estimate: any level is equally private.

    The tilt is clip(log_ratio - level, -width / 2, width / 2). Its gain on the estimated target is
    E_P[tilt] - log E_Q0[e^tilt].
    """
    ratio = _tamed(log_ratio)
    finite = ratio > -np.inf
    if not finite.any():
        return 0.0
    target = np.where(finite, mass * np.exp(ratio - ratio[finite].max()), 0.0)
    if not target.sum() > 0.0:
        return 0.0
    target /= target.sum()
    total = float(mass.sum())

    def loss(level: float) -> float:
        tilt = np.clip(ratio - level, -width / 2.0, width / 2.0)
        return math.log(_mean(np.exp(tilt), mass) / total) - _mean(tilt, target)

    order = np.sort(ratio[finite])
    levels = np.unique(order[np.linspace(0, len(order) - 1, 41).astype(int)])
    best = int(np.argmin([loss(level) for level in levels]))
    ends = levels[max(best - 1, 0)], levels[min(best + 1, len(levels) - 1)]
    found = minimize_scalar(loss, bounds=(ends[0] - width, ends[1] + width), method="bounded")
    return float(found.x) if found.fun < loss(levels[best]) else float(levels[best])
