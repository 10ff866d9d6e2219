"""Truncated standard normal numbers by the inverse CDF, in the tails too."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

HALF_LOG_TAU = 0.5 * np.log(2.0 * np.pi)


def truncated_normal(u: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The u-quantile of a standard normal number that lies in [low, high].

    Right of zero it is minus the quantile left of zero, so that masses are those of lower tails,
    whose logarithms are known to the last digits however far out they are.

    Parameters
    ----------
    u : array
        In (0, 1).
    low, high : array
        Broadcast against u; may be infinite.

    Returns
    -------
    array
    """
    low, high = np.broadcast_to(low, u.shape), np.broadcast_to(high, u.shape)
    flip = low > -high  # not their sum, which is no number between two infinite ends
    a, b, v = np.where(flip, -high, low), np.where(flip, -low, high), np.where(flip, 1.0 - u, u)
    with np.errstate(all="ignore"):
        first, last = log_ndtr(a), log_ndtr(b)
        # log(Phi(a) + v (Phi(b) - Phi(a))), without leaving logarithms
        log_mass = last + np.log1p(np.expm1(first - last) * (1.0 - v))
        found = np.where(log_mass > -1.0, ndtri(np.exp(log_mass)), ndtri_exp(log_mass))
        # A narrow interval far out: the density is an exponential there to first order.
        found = np.where(np.isfinite(found), found, b)
    found = np.clip(found, a, b)
    return np.where(flip, -found, found)


FAR = 8.0
"""An end so far from the center moves the mean by less than 1e-14."""


def truncated_mean(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The mean of a standard normal number that lies in [low, high], to some eight digits.

    (phi(low) - phi(high)) / (Phi(high) - Phi(low)), by logarithms of lower tails as above. Nothing
    that is promised rests on it.

    Parameters
    ----------
    low, high : array
        Of one shape; may be infinite.

    Returns
    -------
    array
    """
    found = np.zeros(low.shape)
    near = (low > -FAR) | (high < FAR)
    if not near.any():
        return found
    low, high = low[near], high[near]
    flip = low > -high
    a, b = np.where(flip, -high, low), np.where(flip, -low, high)
    with np.errstate(all="ignore"):
        first, last = log_ndtr(a), log_ndtr(b)
        log_mass = last + np.log(-np.expm1(first - last))
        phi = [np.exp(-0.5 * end**2 - HALF_LOG_TAU - log_mass) for end in (a, b)]
        mean = np.clip(phi[0] - phi[1], a, b)
        mean = np.where(np.isfinite(mean), mean, b)
    found[near] = np.where(flip, -mean, mean)
    return found
