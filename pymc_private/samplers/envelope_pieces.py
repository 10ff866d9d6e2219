"""Exponential and normal envelope pieces: masses, draws and heights, vectorized.

On each box the envelope is a function of the distance t from an anchor:

    constant + sum_j max(low_j t_j, high_j t_j) + curve_j t_j^2 / 2        (a product)
    constant + <slope, t> + <t, matrix t> / 2                              (a normal density)

A product has its mass on the box. A normal density is taken on the whole space, so that its
mass is known; what it proposes outside of its box is rejected.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from scipy.special import erfcx, ndtr

from pymc_private.samplers.randomness import truncated_normal_quantile

TINY = 2.0**-1000
"""Below this, slope times width is zero to the last bit, and dividing by it may fail."""
LEAST_CURVATURE, FAR_DEVIATIONS = 1e-3, 30.0
"""A bend of fewer nats is none; nor is one whose top is so many standard deviations away."""


@dataclass
class Envelopes:
    """Upper bounds of the log density on N boxes.

    Parameters
    ----------
    back, ahead : array, shape (N, d)
        Distances from the anchor to the lower and upper ends of its box.
    constant : array, shape (N,)
    low, high : array, shape (N, d)
        Slopes left and right of the anchor; equal where there is a bend or a matrix.
    curve : array, shape (N, d)
        At most 0, and 0 where the slopes differ.
    matrix : array, shape (N, d, d)
        Negative definite where `normal`; else not used.
    normal : array of bool, shape (N,)
        Which of the two forms.
    """

    back: np.ndarray
    ahead: np.ndarray
    constant: np.ndarray
    low: np.ndarray
    high: np.ndarray
    curve: np.ndarray
    matrix: np.ndarray
    normal: np.ndarray

    def __len__(self) -> int:
        return len(self.constant)

    def take(self, index: np.ndarray) -> Envelopes:
        """Some of them."""
        return Envelopes(*(getattr(self, f.name)[index] for f in fields(self)))

    def followed_by(self, other: Envelopes) -> Envelopes:
        """These, then the others."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Envelopes(*(np.concatenate(pair) for pair in pairs))

    def where(self, keep: np.ndarray, other: Envelopes) -> Envelopes:
        """These where `keep` holds, the others elsewhere."""
        found = []
        for f in fields(self):
            one, two = getattr(self, f.name), getattr(other, f.name)
            found.append(np.where(keep.reshape(-1, *(1,) * (one.ndim - 1)), one, two))
        return Envelopes(*found)


def constant_envelopes(constant: np.ndarray, back: np.ndarray, ahead: np.ndarray) -> Envelopes:
    """One number on each box."""
    count, d = back.shape
    zero = np.zeros((count, d))
    return Envelopes(
        back, ahead, constant, zero, zero, zero, np.zeros((count, d, d)), np.zeros(count, bool)
    )


def keeps_curvature(
    slope: np.ndarray, curve: np.ndarray, back: np.ndarray, ahead: np.ndarray
) -> np.ndarray:
    """Where slope t + curve t^2 / 2 is drawn as a normal density; else the bend is left out.

    A bend that is left out raises the envelope (curve < 0), by little where it is small or where
    the box lies far in the tail. So cancellation of large masses never happens.
    """
    with np.errstate(all="ignore"):
        sd = 1.0 / np.sqrt(-curve)
        peak = -slope / curve
        beyond = np.maximum(np.maximum(-back - peak, peak - ahead), 0.0) / sd
        return (
            (curve < 0.0)
            & (-curve * (back + ahead) ** 2 > LEAST_CURVATURE)
            & (beyond < FAR_DEVIATIONS)
        )


def _log_exponential_integral(slope: np.ndarray, half: np.ndarray) -> np.ndarray:
    """log of the integral of e^{slope t} over [0, half], stable for slopes of either sign."""
    x = slope * half
    size = np.abs(x)
    flat = size < TINY
    safe = np.where(flat, 1.0, size)
    # (e^x - 1) / x, written so that nothing overflows for large x.
    log_mean = np.maximum(x, 0.0) + np.log(-np.expm1(-safe) / safe)
    return np.log(half) + np.where(flat, 0.0, log_mean)


def _log_normal_integral(
    slope: np.ndarray, curve: np.ndarray, back: np.ndarray, ahead: np.ndarray
) -> np.ndarray:
    """log of the integral of e^{slope t + curve t^2 / 2} over [-back, ahead], curve < 0."""
    # From the end that is nearer to the top: there the exponent is greatest, or rises inward.
    flip = slope + curve * (ahead - back) / 2.0 < 0.0
    slope = np.where(flip, -slope, slope)
    back, ahead = np.where(flip, ahead, back), np.where(flip, back, ahead)
    width, sd = back + ahead, 1.0 / np.sqrt(-curve)
    fall = slope + curve * ahead  # slope at the end; > 0: the top is outside
    start = slope * ahead + curve * ahead**2 / 2.0
    a, b = fall * sd, (fall - curve * width) * sd
    drop = np.exp(-fall * width + curve * width**2 / 2.0)
    outside = np.sqrt(np.pi / 2.0) * (erfcx(a / np.sqrt(2.0)) - drop * erfcx(b / np.sqrt(2.0)))
    inside = np.sqrt(2.0 * np.pi) * (ndtr(b) - ndtr(a))
    top = np.where(fall > 0.0, start, slope**2 * sd**2 / 2.0)
    return top + np.log(sd) + np.log(np.where(fall > 0.0, outside, inside))


def log_mass(pieces: Envelopes) -> np.ndarray:
    """log of the integrals, shape (N,): over the box of a product, over the space of a normal."""
    with np.errstate(all="ignore"):
        left, right = (
            _log_exponential_integral(-pieces.low, pieces.back),
            _log_exponential_integral(pieces.high, pieces.ahead),
        )
        sides = np.logaddexp(left, right)
        bends = _log_normal_integral(pieces.low, pieces.curve, pieces.back, pieces.ahead)
        product = pieces.constant + np.where(pieces.curve < 0.0, bends, sides).sum(axis=1)
        found = np.where(np.isfinite(pieces.constant), product, pieces.constant)
        if np.any(pieces.normal):
            some = pieces.take(pieces.normal)
            factor, peak = _normal_factors(some)
            volume = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
            top = some.constant + np.einsum("nj,nj->n", some.low, peak) / 2.0
            d = pieces.back.shape[1]
            found[pieces.normal] = top + d / 2.0 * np.log(2.0 * np.pi) - volume
    return found


def _normal_factors(normal: Envelopes) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors of the precisions, and the peaks."""
    factor = np.linalg.cholesky(-normal.matrix)
    peak = np.linalg.solve(-normal.matrix, normal.low[:, :, None])[:, :, 0]
    return factor, peak


def draw_from_envelopes(pieces: Envelopes, uniforms: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """One draw of t from each envelope.

    Parameters
    ----------
    pieces : Envelopes
    uniforms : array, shape (N, d, 2)
        Independent, in (0, 1).
    noise : array, shape (N, d)
        Independent of them, standard normal.

    Returns
    -------
    array, shape (N, d)
        Distances from the anchor; of a normal density perhaps outside of the box.
    """
    with np.errstate(all="ignore"):
        left, right = (
            _log_exponential_integral(-pieces.low, pieces.back),
            _log_exponential_integral(pieces.high, pieces.ahead),
        )
        go_right = np.log(uniforms[..., 0]) < right - np.logaddexp(left, right)
        slope = np.where(go_right, pieces.high, -pieces.low)
        half = np.where(go_right, pieces.ahead, pieces.back)
        distance = _exponential_quantile(slope, half, uniforms[..., 1])
        t = np.where(go_right, distance, -distance)
        bend = pieces.curve < 0.0
        if np.any(bend):
            sd, peak = 1.0 / np.sqrt(-pieces.curve), -pieces.low / pieces.curve
            low, high = (-pieces.back - peak) / sd, (pieces.ahead - peak) / sd
            normal = peak[bend] + sd[bend] * truncated_normal_quantile(
                uniforms[..., 1][bend], low[bend], high[bend]
            )
            t[bend] = np.clip(normal, -pieces.back[bend], pieces.ahead[bend])
        if np.any(pieces.normal):
            factor, peak = _normal_factors(pieces.take(pieces.normal))
            turned = np.linalg.solve(np.swapaxes(factor, 1, 2), noise[pieces.normal][:, :, None])
            t[pieces.normal] = peak + turned[:, :, 0]
    return t


def _exponential_quantile(slope: np.ndarray, half: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Inverse CDF of the density proportional to e^{slope t} on [0, half]."""
    x = slope * half
    size = np.abs(x)
    flat = size < TINY
    safe = np.where(flat, 1.0, size)
    # For a rising slope draw the mirror image, so that no e^x overflows.
    v = np.where(x > 0, 1.0 - u, u)
    fall = np.where(flat, v, -np.log1p(v * np.expm1(-safe)) / safe) * half
    return np.clip(np.where(x > 0, half - fall, fall), 0.0, half)


def envelope_height(pieces: Envelopes, t: np.ndarray) -> np.ndarray:
    """Each envelope at a distance t from its anchor, shape (N,)."""
    slopes = np.where(t > 0, pieces.high, pieces.low)
    product = (slopes * t + pieces.curve * t * t / 2.0).sum(axis=1)
    normal = (slopes * t).sum(axis=1) + np.einsum("nj,njk,nk->n", t, pieces.matrix, t) / 2.0
    return pieces.constant + np.where(pieces.normal, normal, product)
