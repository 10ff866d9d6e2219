"""Log-likelihood of noisy cell counts (T33).

Counts of records in disjoint cells, plus independent noise of variance s^2, given the probabilities
of the cells. By the central limit theorem the counts are normal; where noise is small and the
covariates are in one cell, they are the whole numbers they are. The formulas are written once for
NumPy and PyTensor: `xp` is one of the two modules.

With G cells of covariates and J of the outcome, the number of records m_g of each covariate cell is
unknown, with the flat prior that goes with shares Dirichlet(1, ..., 1), and is integrated out:
given q, the probabilities of the outcome's cells, counts are N(m q, D) with D = m q + s^2 up to the
multinomial's -m q q', so that m is normal about m0 + (sum q r/D)/(sum q^2/D), r = N - m0 q.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_grad
from scipy import special

from pymc_private.errors import DomainError

LEAST_PROBABILITY = 1e-300
CONVOLVED_BELOW = 1.0
"""Standard deviation of the noise below which counts are convolved as whole numbers."""
REACH = 7.0
"""Whole numbers within so many standard deviations (and 2) of a noisy count are summed."""
ROUNDING_VARIANCE = 1.0 / 12.0
"""Least variance of a sum of whole numbers that is treated as normal."""
LOG_ROOT_TAU = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class NoisyCells:
    """Noisy counts of cells, and what is public of them.

    Attributes
    ----------
    counts : array, shape (G, J)
        Of G covariate cells and J outcome cells, with noise.
    variance : float
        s^2, of the noise of each count.
    n : float or None
        The number of records where it is public (substitution).
    """

    counts: np.ndarray
    variance: float
    n: float | None

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or not np.isfinite(self.counts).all() or not self.variance >= 0.0:
            raise DomainError(
                "noisy counts form a table of finite numbers, with noise of a known variance",
                got=f"shape {self.counts.shape}, variance {self.variance}",
                allowed="covariate cells by outcome cells, variance >= 0",
            )

    @property
    def totals(self) -> np.ndarray:
        """Public estimates of the number of records of each covariate cell, positive."""
        groups, cells = self.counts.shape
        if groups == 1 and self.n is not None:
            return np.array([float(self.n)])
        found = self.counts.sum(axis=1)
        if self.n is not None:
            found = found + (self.n - found.sum()) / groups
        spread = np.sqrt(max(cells * self.variance, ROUNDING_VARIANCE))
        ratio = found / spread
        found = found + spread * np.exp(-0.5 * ratio**2 - LOG_ROOT_TAU - special.log_ndtr(ratio))
        return found if self.n is None else found * (self.n / found.sum())

    @property
    def is_convolved(self) -> bool:
        """Whether counts are treated as whole numbers."""
        return len(self.counts) == 1 and self.variance < CONVOLVED_BELOW**2


def cell_log_likelihood(cells: NoisyCells, probabilities: np.ndarray) -> np.ndarray:
    """Log-likelihood at probabilities of shape (S, G, J), each row of which sums to 1: (S,).

    Up to a constant of the released counts.
    """
    with np.errstate(all="ignore"):
        return np.asarray(_log_likelihood(np, cells, probabilities))


def symbolic_cell_log_likelihood(cells: NoisyCells, probabilities: Any) -> Any:
    """The same as a PyTensor scalar, at a variable of shape (G, J)."""
    return _log_likelihood(pt, cells, probabilities)


def _log_likelihood(xp: Any, cells: NoisyCells, probabilities: Any) -> Any:
    q = xp.maximum(probabilities, LEAST_PROBABILITY)
    if cells.is_convolved:
        return _convolved(xp, cells, q[..., 0, :])
    if len(cells.counts) == 1 and cells.n is not None:
        return _of_known_total(xp, cells, q[..., 0, :])
    return _of_unknown_totals(xp, cells, q)


def _of_known_total(xp: Any, cells: NoisyCells, q: Any) -> Any:
    """log N(N; n q, n (diag q - q q') + s^2 I) by the formula of Sherman and Morrison.

    With D = n q + s^2 and sum q = 1, 1 - n sum q^2/D is s^2 sum q/D, which cannot cancel.
    """
    n = float(cells.n or 0.0)
    spread = n * q + cells.variance
    rest = cells.counts[0] - n * q
    alpha = cells.variance * xp.sum(q / spread, axis=-1)
    beta = xp.sum(q * rest / spread, axis=-1)
    square = xp.sum(rest**2 / spread, axis=-1) + n * beta**2 / alpha
    return -0.5 * (square + xp.sum(xp.log(spread), axis=-1) + xp.log(alpha))


def _of_unknown_totals(xp: Any, cells: NoisyCells, q: Any) -> Any:
    """The totals integrated over positive numbers, and over those of the public sum."""
    totals = cells.totals[:, None]
    spread = totals * q + cells.variance
    rest = cells.counts - totals * q
    precision = xp.sum(q**2 / spread, axis=-1)
    slope = xp.sum(q * rest / spread, axis=-1)
    square = xp.sum(rest**2 / spread, axis=-1) - slope**2 / precision
    value = -0.5 * (square + xp.sum(xp.log(spread), axis=-1) + xp.log(precision))
    mean = totals[:, 0] + slope / precision
    variance = 1.0 / precision
    if cells.n is not None:  # multinomial counts add up to the total: only noise is left
        variance = variance * cells.variance * xp.sum(q / spread, axis=-1)
    sd = xp.sqrt(variance)
    ratio = mean / sd
    mass = _log_ndtr(xp, ratio)
    found = xp.sum(value + mass, axis=-1)
    if cells.n is None:
        return found
    hazard = xp.exp(-0.5 * ratio**2 - LOG_ROOT_TAU - mass)
    left = float(cells.n) - xp.sum(mean + sd * hazard, axis=-1)
    around = xp.sum(variance * xp.maximum(1.0 - hazard * (hazard + ratio), 1e-6), axis=-1)
    return found - 0.5 * (left**2 / around + xp.log(around))


def _convolved(xp: Any, cells: NoisyCells, q: Any) -> Any:
    """Poisson counts convolved with the noise, cell by cell, given their sum.

    Multinomial counts are Poisson counts given that they sum to n; the sum of what the noisy counts
    leave open is taken as normal. Under add/remove the sum is unknown, with a flat prior.
    """
    noisy, total = cells.counts[0], float(cells.totals[0])
    sd = np.sqrt(max(cells.variance, 1e-6))
    reach = int(np.ceil(REACH * sd)) + 2
    whole = np.maximum(np.round(noisy), 0.0)[:, None] + np.arange(-reach, reach + 1.0)
    constant = -0.5 * ((noisy[:, None] - whole) / sd) ** 2
    constant = constant - special.gammaln(np.maximum(whole, 0.0) + 1.0)
    constant[whole < 0.0] = -1e30  # not -inf, whose gradient would be no number
    rate = (total * q)[..., None]
    terms = constant + np.maximum(whole, 0.0) * xp.log(rate) - rate
    log_mass = _log_sum_exp(xp, terms)
    weight = xp.exp(terms - log_mass[..., None])
    mean = xp.sum(weight * whole, axis=-1)
    variance = xp.sum(weight * (whole - mean[..., None]) ** 2, axis=-1)
    mean, variance = xp.sum(mean, axis=-1), xp.sum(variance, axis=-1)
    found = xp.sum(log_mass, axis=-1)
    if cells.n is not None:
        around = variance + ROUNDING_VARIANCE
        return found - 0.5 * ((total - mean) ** 2 / around + xp.log(around))
    variance = xp.minimum(variance, 0.5 * total)
    left = (mean - total) ** 2 / (total - variance)
    return found + 0.5 * (left - xp.log1p(-variance / total))


def _log_ndtr(xp: Any, x: Any) -> Any:
    if xp is np:
        return special.log_ndtr(x)
    # Two branches, each kept where its function and its gradient are numbers.
    low, high = pt.minimum(x, -1.0), pt.maximum(x, -1.0)
    tail = pt.log(pt.erfcx(-low / np.sqrt(2.0)) / 2.0) - low**2 / 2.0
    return pt.switch(x < -1.0, tail, pt.log1p(-pt.erfc(high / np.sqrt(2.0)) / 2.0))


def _log_sum_exp(xp: Any, terms: Any) -> Any:
    if xp is np:
        return special.logsumexp(terms, axis=-1)
    top = disconnected_grad(pt.max(terms, axis=-1))
    return top + pt.log(pt.sum(pt.exp(terms - top[..., None]), axis=-1))
