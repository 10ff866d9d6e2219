"""Exponential pieces on a box: masses, draws and densities of the envelopes of `target`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

TINY = 2.0**-1000
"""Below this, slope times width is zero to the last bit, and dividing by it may fail."""


@dataclass(frozen=True)
class Envelope:
    """An upper bound of the log density on a box: constant + sum_j max(low_j t_j, high_j t_j).

    Parameters
    ----------
    constant : float
    low, high : array, shape (d,)
        Slopes left and right of the center, per coordinate; t is the distance from the center.
    """

    constant: float
    low: np.ndarray
    high: np.ndarray


def _log_side(slope: np.ndarray, half: np.ndarray) -> np.ndarray:
    """log of the integral of e^{slope t} over [0, half], stable for slopes of either sign."""
    x = slope * half
    size = np.abs(x)
    flat = size < TINY
    safe = np.where(flat, 1.0, size)
    # (e^x - 1) / x, written so that nothing overflows for large x.
    log_mean = np.maximum(x, 0.0) + np.log(-np.expm1(-safe) / safe)
    return np.log(half) + np.where(flat, 0.0, log_mean)


def log_mass(envelope: Envelope, half: np.ndarray) -> float:
    """log of the integral of e^envelope over the box with half-widths `half`."""
    if not np.isfinite(envelope.constant):
        return float(envelope.constant)
    left, right = _log_side(-envelope.low, half), _log_side(envelope.high, half)
    return float(envelope.constant + np.logaddexp(left, right).sum())


def draw(envelope: Envelope, half: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """One draw of t from e^envelope on the box, by inverse CDF per coordinate.

    Parameters
    ----------
    envelope : Envelope
    half : array, shape (d,)
        Half-widths.
    uniforms : array, shape (d, 2)
        Independent, in (0, 1).

    Returns
    -------
    array, shape (d,)
        Distances from the center.
    """
    left, right = _log_side(-envelope.low, half), _log_side(envelope.high, half)
    go_right = np.log(uniforms[:, 0]) < right - np.logaddexp(left, right)
    slope = np.where(go_right, envelope.high, -envelope.low)
    distance = _inverse(slope, half, uniforms[:, 1])
    return np.where(go_right, distance, -distance)


def _inverse(slope: np.ndarray, half: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Inverse CDF of the density proportional to e^{slope t} on [0, half]."""
    x = slope * half
    size = np.abs(x)
    flat = size < TINY
    safe = np.where(flat, 1.0, size)
    # For a rising slope draw the mirror image, so that no e^x overflows.
    v = np.where(x > 0, 1.0 - u, u)
    fall = np.where(flat, v, -np.log1p(v * np.expm1(-safe)) / safe) * half
    return np.clip(np.where(x > 0, half - fall, fall), 0.0, half)


def height(envelope: Envelope, t: np.ndarray) -> float:
    """The envelope at distance t from the center."""
    slopes = np.where(t > 0, envelope.high, envelope.low)
    return float(envelope.constant + slopes @ t)
