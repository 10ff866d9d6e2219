"""Concavity: the constants of a log-concave posterior, for T7 (Gaussian privacy) and T21."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pymc_private.certificates.record_gradient__precision import NearlySingular, SHRINK, least_eigenvalue, whitener
from pymc_private.certificates.record_gradient import Predictor, are_disjoint
from pymc_private.certificates.log_concave__prior_curvature import PriorCurvature
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

@dataclass(frozen=True, eq=False)
class Concavity:
    """What is proved of a log-concave posterior, for every dataset of the domain.

    Attributes
    ----------
    shapes : dict of str to tuple of int
        Of the parameters, in the order in which theta holds them, raveled, in natural units.
    prior_precision : array, shape (d, d)
        Minus the Hessian of the log prior is at least this.
    prior : PriorCurvature
        Where that comes from; its `gaussian` is the precision of a Gaussian prior.
    sure : array, shape (d, d)
        What all n records together add to the precision, whatever they are, at power one.
    predictors : tuple of Predictor
    neighbors : str
    records_per_unit : int
    n : int or None
        Number of records, where it is public.
    """

    shapes: Mapping[str, tuple[int, ...]]
    prior_precision: np.ndarray
    prior: PriorCurvature
    sure: np.ndarray
    predictors: tuple[Predictor, ...]
    neighbors: str
    records_per_unit: int
    n: int | None

    def precision(self, power: float | Fraction = 1) -> np.ndarray:
        """P: minus the Hessian of the log posterior is at least this."""
        whole = self.prior_precision + float(power) * self.sure
        try:
            whitener(whole)
        except NearlySingular:  # what the prior alone has is a lower bound as well
            return self.prior_precision
        return whole

    def strength(self, power: float | Fraction = 1) -> float:
        """m: the least eigenvalue of P, rounded down."""
        return least_eigenvalue(self.precision(power))

    def gradient(self, power: float | Fraction = 1) -> float:
        """G: sup of the l2 norm of the gradient that one unit can change; maybe infinite."""
        return self._reach(np.eye(len(self.prior_precision)), power)

    def mu(self, power: float | Fraction = 1) -> float:
        """mu of one exact draw (T7): sup |P^(-1/2) grad|, at most G / sqrt(m); maybe infinite."""
        return self._reach(whitener(self.precision(power)), power) * (1.0 + SHRINK)

    def smoothness(self, power: float | Fraction = 1) -> float:
        """beta of one record: an upper bound of minus its Hessian; infinite at kinks."""
        eye = np.eye(len(self.prior_precision))
        return float(power) * sum(p.trace(eye) for p in self.predictors)

    def trace(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of tr(M^-1 (A - P)) for the likelihood, whatever the n records are (T21).

        Without kinks, which are left to `jumps`.

        Parameters
        ----------
        metric : array, shape (d, d)
            M, positive definite.
        n : int
            Number of records.
        power : float
        """
        w = whitener(metric)
        return float(power) * n * sum(p.trace(w, kinks=False) for p in self.predictors)

    def jumps(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of what slopes change at kinks, summed over n records, in the norm of M^-1."""
        w = whitener(metric)
        return float(power) * n * sum(p.jumps(w) for p in self.predictors)

    def steepness(self, metric: np.ndarray, n: int, power: float | Fraction = 1) -> float:
        """Bound of |M^(-1/2) w sum_i grad log p(x_i)| for n records, whatever they are (T21).

        The start of a proximal sampler is an exact draw of a law of precision M on the region, of
        which the posterior is a known slope away; the log-Sobolev inequality (Bakry and Emery)
        then bounds their divergence.
        """
        w = whitener(metric)
        return _up(power) * n * sum(p.reach(w, of_difference=False) for p in self.predictors)

    def prior_gap(self, n: int, power: float | Fraction = 1) -> float:
        """Bound of KL(prior || posterior) for n records, whatever they are: half its square."""
        return 0.5 * self.steepness(self.prior_precision, n, power) ** 2 * (1.0 + SHRINK)

    def _reach(self, w: np.ndarray, power: float | Fraction) -> float:
        """sup |W (change of the gradient)| over neighbors."""
        substitute = self.neighbors != ADD_REMOVE
        parts = [p.reach(w, of_difference=substitute) for p in self.predictors]
        touched = [p.coefficients.touched(w).any(axis=0) for p in self.predictors]
        total = math.hypot(*parts) if are_disjoint(np.array(touched)) else sum(parts)
        return total * self.records_per_unit * _up(power) * (1.0 + SHRINK)


def _up(power: float | Fraction) -> float:
    nearest = float(power)
    return nearest if Fraction(nearest) >= power else math.nextafter(nearest, math.inf)
