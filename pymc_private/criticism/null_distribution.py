r"""The distribution of a noisy statistic under the fitted model, given the summary (T38).

f is a statistic of one record with E[f | x] = 0 at theta^. A released sum c = sum f + N(0, s^2) and
the p numbers g of the summary's likelihood depend on the same records, so that

    c | summary ~ N(K r, V_c - K C' + (A_c - K A_g) V (A_c - K A_g)' + s^2),    K = C Sigma^-1,

with V_c = n E f^2, C = n E f psi', r = g - m(theta^), Sigma the covariance of g, A_c and A_g
derivatives of both means in theta, and (theta^, V) what the summary tells of theta. Under a
departure gamma, c - K r moves by `sensitivity` gamma: the summary has taken up what it could.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pymc_private.criticism.fitted_summary import FittedSummary

LEAST_SHARE = 1e-3
"""Least variance given the summary, as a share of V_c: what rounding and the reference spare."""


@dataclass(frozen=True)
class NullDistribution:
    """Mean and variance of a sum under the fitted model given the summary, without its noise.

    Attributes
    ----------
    mean, variance : float
    whole : float
        V_c, the variance when theta is known and nothing was released.
    """

    mean: float
    variance: float
    whole: float


def null_distribution(
    fit: FittedSummary, values: np.ndarray, within: float = 0.0
) -> NullDistribution:
    """The null distribution of the sum of a statistic.

    Parameters
    ----------
    fit : FittedSummary
    values : array, shape (N, Q)
        f at the nodes of the reference.
    within : float
        What f varies among outcomes that share a node: n E[Var(f | node)].
    """
    whole = float((fit.mass * values**2).sum()) + within
    gain, cross = _gain(fit, values)
    away = fit.score_sum(values) - gain @ fit.slope
    variance = whole - float(gain @ cross) + float(away @ fit.covariance @ away)
    return NullDistribution(float(gain @ fit.residual), max(variance, LEAST_SHARE * whole), whole)


def sensitivity(fit: FittedSummary, values: np.ndarray, direction: np.ndarray) -> float:
    """What a departure of size one adds to the sum, less what the summary makes of it.

    `direction` is the score of the departure at the nodes, shape (N, Q). Had the summary seen the
    departure in its own numbers, by a_g, theta^ would have moved by V A_g' Sigma^-1 a_g.
    """
    gain, _ = _gain(fit, values)
    seen = fit.scaling @ fit.released_sum(direction)
    moved = fit.covariance @ fit.slope.T @ np.linalg.solve(fit.noisy_covariance, seen)
    own = float((fit.mass * values * direction).sum())
    away = fit.score_sum(values) - gain @ fit.slope
    return own - float(gain @ seen) - float(away @ moved)


def _gain(fit: FittedSummary, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """K and C, each of shape (p,)."""
    cross = fit.spread @ fit.released_sum(values)
    return np.linalg.solve(fit.noisy_covariance, cross), cross
