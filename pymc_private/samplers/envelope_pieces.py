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
"""Size of slope times width below which it counts as zero, since dividing by it may fail."""
LEAST_CURVATURE, FAR_DEVIATIONS = 1e-3, 30.0
"""A curvature is dropped if it amounts to fewer nats over the box, or if the box lies more standard
deviations away from the peak."""


@dataclass
class Envelopes:
    """Upper bounds of the log density on N boxes.

    Parameters
    ----------
    to_lower, to_upper : array, shape (N, d)
        Distances from the anchor to the lower and upper bounds of its box.
    constant : array, shape (N,)
    low, high : array, shape (N, d)
        Slopes left and right of the anchor; equal where there is a curvature or a matrix.
    curve : array, shape (N, d)
        At most 0, and 0 where the slopes differ.
    matrix : array, shape (N, d, d)
        Negative definite where `normal`; otherwise unused.
    normal : array of bool, shape (N,)
        Whether the envelope is a normal density; otherwise a product.
    """

    to_lower: np.ndarray
    to_upper: np.ndarray
    constant: np.ndarray
    low: np.ndarray
    high: np.ndarray
    curve: np.ndarray
    matrix: np.ndarray
    normal: np.ndarray

    def __len__(self) -> int:
        return len(self.constant)

    def take(self, index: np.ndarray) -> Envelopes:
        """The envelopes of some boxes."""
        return Envelopes(*(getattr(self, f.name)[index] for f in fields(self)))

    def followed_by(self, other: Envelopes) -> Envelopes:
        """These envelopes, then the others."""
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Envelopes(*(np.concatenate(pair) for pair in pairs))

    def where(self, keep: np.ndarray, other: Envelopes) -> Envelopes:
        """These envelopes where `keep` holds, the others elsewhere."""
        found = []
        for f in fields(self):
            one, two = getattr(self, f.name), getattr(other, f.name)
            found.append(np.where(keep.reshape(-1, *(1,) * (one.ndim - 1)), one, two))
        return Envelopes(*found)


def constant_envelopes(
    constant: np.ndarray, to_lower: np.ndarray, to_upper: np.ndarray
) -> Envelopes:
    """Constant envelopes."""
    count, d = to_lower.shape
    zero = np.zeros((count, d))
    return Envelopes(
        to_lower,
        to_upper,
        constant,
        zero,
        zero,
        zero,
        np.zeros((count, d, d)),
        np.zeros(count, bool),
    )


def keeps_curvature(
    slope: np.ndarray, curve: np.ndarray, to_lower: np.ndarray, to_upper: np.ndarray
) -> np.ndarray:
    """Where slope t + curve t^2 / 2 is drawn as a normal piece; elsewhere the curvature is dropped.

    Dropping a negative curvature raises the envelope, by little where it is small or where the box
    lies far in the tail. So large masses never cancel.
    """
    with np.errstate(all="ignore"):
        sd = 1.0 / np.sqrt(-curve)
        peak = -slope / curve
        beyond = np.maximum(np.maximum(-to_lower - peak, peak - to_upper), 0.0) / sd
        return (
            (curve < 0.0)
            & (-curve * (to_lower + to_upper) ** 2 > LEAST_CURVATURE)
            & (beyond < FAR_DEVIATIONS)
        )


def _log_exponential_integral(slope: np.ndarray, length: np.ndarray) -> np.ndarray:
    """log of the integral of e^{slope t} over [0, length], stable for slopes of either sign."""
    x = slope * length
    size = np.abs(x)
    flat = size < TINY
    safe = np.where(flat, 1.0, size)
    # (e^x - 1) / x, written so that nothing overflows for large x.
    log_mean = np.maximum(x, 0.0) + np.log(-np.expm1(-safe) / safe)
    return np.log(length) + np.where(flat, 0.0, log_mean)


def _log_normal_integral(
    slope: np.ndarray, curve: np.ndarray, to_lower: np.ndarray, to_upper: np.ndarray
) -> np.ndarray:
    """log of the integral of e^{slope t + curve t^2 / 2} over [-to_lower, to_upper], curve < 0."""
    # From the bound nearer to the peak: there the exponent is greatest, or rises inward.
    flip = slope + curve * (to_upper - to_lower) / 2.0 < 0.0
    slope = np.where(flip, -slope, slope)
    to_lower, to_upper = np.where(flip, to_upper, to_lower), np.where(flip, to_lower, to_upper)
    width, sd = to_lower + to_upper, 1.0 / np.sqrt(-curve)
    fall = slope + curve * to_upper  # slope at the bound; > 0: the peak is outside
    start = slope * to_upper + curve * to_upper**2 / 2.0
    a, b = fall * sd, (fall - curve * width) * sd
    drop = np.exp(-fall * width + curve * width**2 / 2.0)
    outside = np.sqrt(np.pi / 2.0) * (erfcx(a / np.sqrt(2.0)) - drop * erfcx(b / np.sqrt(2.0)))
    inside = np.sqrt(2.0 * np.pi) * (ndtr(b) - ndtr(a))
    peak_value = np.where(fall > 0.0, start, slope**2 * sd**2 / 2.0)
    return peak_value + np.log(sd) + np.log(np.where(fall > 0.0, outside, inside))


def log_mass(envelopes: Envelopes) -> np.ndarray:
    """Log integrals, shape (N,): of a product over its box, of a normal density over the space."""
    with np.errstate(all="ignore"):
        left = _log_exponential_integral(-envelopes.low, envelopes.to_lower)
        right = _log_exponential_integral(envelopes.high, envelopes.to_upper)
        sides = np.logaddexp(left, right)
        curved = _log_normal_integral(
            envelopes.low, envelopes.curve, envelopes.to_lower, envelopes.to_upper
        )
        pieces = np.where(envelopes.curve < 0.0, curved, sides)
        product = envelopes.constant + pieces.sum(axis=1)
        found = np.where(np.isfinite(envelopes.constant), product, envelopes.constant)
        if np.any(envelopes.normal):
            some = envelopes.take(envelopes.normal)
            factor, peak = _normal_factors(some)
            volume = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
            peak_value = some.constant + np.einsum("nj,nj->n", some.low, peak) / 2.0
            d = envelopes.to_lower.shape[1]
            found[envelopes.normal] = peak_value + d / 2.0 * np.log(2.0 * np.pi) - volume
    return found


def _normal_factors(normal: Envelopes) -> tuple[np.ndarray, np.ndarray]:
    """Cholesky factors of the precisions, and the modes."""
    factor = np.linalg.cholesky(-normal.matrix)
    peak = np.linalg.solve(-normal.matrix, normal.low[:, :, None])[:, :, 0]
    return factor, peak


def draw_from_envelopes(
    envelopes: Envelopes, uniforms: np.ndarray, noise: np.ndarray
) -> np.ndarray:
    """One draw of t from each envelope, shape (N, d).

    From independent `uniforms` in (0, 1), shape (N, d, 2), and standard normal `noise`, (N, d).
    Draws of a normal density may lie outside of the box.
    """
    with np.errstate(all="ignore"):
        left = _log_exponential_integral(-envelopes.low, envelopes.to_lower)
        right = _log_exponential_integral(envelopes.high, envelopes.to_upper)
        go_right = np.log(uniforms[..., 0]) < right - np.logaddexp(left, right)
        slope = np.where(go_right, envelopes.high, -envelopes.low)
        length = np.where(go_right, envelopes.to_upper, envelopes.to_lower)
        distance = _exponential_quantile(slope, length, uniforms[..., 1])
        t = np.where(go_right, distance, -distance)
        curved = envelopes.curve < 0.0
        if np.any(curved):
            sd, peak = 1.0 / np.sqrt(-envelopes.curve), -envelopes.low / envelopes.curve
            low, high = (-envelopes.to_lower - peak) / sd, (envelopes.to_upper - peak) / sd
            normal = peak[curved] + sd[curved] * truncated_normal_quantile(
                uniforms[..., 1][curved], low[curved], high[curved]
            )
            t[curved] = np.clip(normal, -envelopes.to_lower[curved], envelopes.to_upper[curved])
        if np.any(envelopes.normal):
            factor, peak = _normal_factors(envelopes.take(envelopes.normal))
            moves = np.linalg.solve(np.swapaxes(factor, 1, 2), noise[envelopes.normal][:, :, None])
            t[envelopes.normal] = peak + moves[:, :, 0]
    return t


def _exponential_quantile(slope: np.ndarray, length: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Inverse CDF of the density proportional to e^{slope t} on [0, length]."""
    x = slope * length
    size = np.abs(x)
    flat = size < TINY
    safe = np.where(flat, 1.0, size)
    # For a rising slope draw the mirror image, so that no e^x overflows.
    v = np.where(x > 0, 1.0 - u, u)
    fall = np.where(flat, v, -np.log1p(v * np.expm1(-safe)) / safe) * length
    return np.clip(np.where(x > 0, length - fall, fall), 0.0, length)


def envelope_height(envelopes: Envelopes, t: np.ndarray) -> np.ndarray:
    """Each envelope at a distance t from its anchor, shape (N,)."""
    slopes = np.where(t > 0, envelopes.high, envelopes.low)
    product = (slopes * t + envelopes.curve * t * t / 2.0).sum(axis=1)
    normal = (slopes * t).sum(axis=1) + np.einsum("nj,njk,nk->n", t, envelopes.matrix, t) / 2.0
    return envelopes.constant + np.where(envelopes.normal, normal, product)
