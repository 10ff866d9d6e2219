"""Divergences of conjugate posteriors other than the Dirichlet: T13.

Gamma posteriors with different rates, normal-gamma posteriors, and the posterior of a normal mean.
Results are exact and rounded up.
"""

from __future__ import annotations

import math
from fractions import Fraction

from flint import arb

from pymc_private.errors import DomainError
from pymc_private.privacy.beta_gamma_pairs import lower_gamma
from pymc_private.privacy.rounding import arb_upper, real
from pymc_private.privacy.validation import (
    check_count,
    check_nonnegative,
    check_positive,
    check_renyi_order,
    vectorized,
)


@vectorized
def gamma_rate_rdp(order: float, shape: float, rate1: float, rate2: float) -> float:
    """Renyi divergence of Gamma(shape, rate1) from Gamma(shape, rate2), rounded up.

    shape [l ln b1 + (1-l) ln b2 - ln(l b1 + (1-l) b2)] / (l - 1), finite while
    l b1 + (1-l) b2 > 0. The worst pair of a Gamma-exponential model has the rates b + n x_min and
    b + (n-1) x_min + x_max.

    Parameters
    ----------
    order : float
        At least 1; 1 is the Kullback-Leibler divergence.
    shape, rate1, rate2 : float
        > 0.

    Returns
    -------
    float
        nats.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T13.
    """
    check_renyi_order(order)
    check_positive(shape=shape, rate1=rate1, rate2=rate2)
    if rate1 == rate2:
        return 0.0
    if math.isinf(order):
        return _largest_log_ratio(shape, rate1, rate2)
    mixed = Fraction(order) * Fraction(rate1) + (1 - Fraction(order)) * Fraction(rate2)
    if mixed <= 0:
        return math.inf

    def formula() -> arb:
        one, two = real(rate1), real(rate2)
        if order == 1.0:
            return real(shape) * (two / one - 1 - (two / one).log())
        top = real(order) * one.log() + (1 - real(order)) * two.log() - real(mixed).log()
        return real(shape) * top / (real(order) - 1)

    return max(0.0, arb_upper(formula))


@vectorized
def gamma_rate_delta(epsilon: float, shape: float, rate1: float, rate2: float) -> float:
    """Delta of P = Gamma(shape, rate1) against Gamma(shape, rate2), rounded up.

    Parameters
    ----------
    epsilon : float, nats
        At least 0.
    shape, rate1, rate2 : float
        > 0.

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T13: the most powerful test is a threshold.
    """
    check_nonnegative(epsilon=epsilon)
    check_positive(shape=shape, rate1=rate1, rate2=rate2)
    if rate1 == rate2 or math.isinf(epsilon):
        return 0.0

    def formula() -> arb:
        one, two, a = real(rate1), real(rate2), real(shape)
        at = (a * (one / two).log() - real(epsilon)) / (one - two)
        if at <= 0:  # rate1 > rate2 and the loss never reaches epsilon
            return arb(0)
        e = real(epsilon).exp()
        if rate1 > rate2:
            return lower_gamma(one * at, a) - e * lower_gamma(two * at, a)
        return (one * at).gamma_upper(a, 1) - e * (two * at).gamma_upper(a, 1)

    return min(1.0, max(0.0, arb_upper(formula)))


@vectorized
def normal_gamma_rdp(
    order: float, a: float, kappa: float, b1: float, b2: float, m1: float, m2: float
) -> float:
    """Renyi divergence of two normal-gamma distributions of one shape and one kappa, rounded up.

    a [l ln b1 + (1-l) ln b2 - ln b*] / (l - 1), b* = l b1 + (1-l) b2 + k l (1-l) (m1 - m2)^2 / 2,
    finite while b* > 0. The worst pair of a data domain has no closed form.

    Parameters
    ----------
    order : float
        Above 1.
    a, kappa, b1, b2 : float
        > 0.
    m1, m2 : float
        Means.

    Returns
    -------
    float
        nats.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T13.
    """
    check_renyi_order(order)
    check_positive(excess_of_order=order - 1, a=a, kappa=kappa, b1=b1, b2=b2)
    if not (math.isfinite(m1) and math.isfinite(m2)):
        raise DomainError("means are finite", got=f"m1={m1}, m2={m2}", allowed="two numbers")
    slope, gap = Fraction(order), Fraction(m1) - Fraction(m2)
    star = slope * Fraction(b1) + (1 - slope) * Fraction(b2)
    star += Fraction(kappa) * slope * (1 - slope) * gap * gap / 2
    if star <= 0:
        return math.inf

    def formula() -> arb:
        top = real(order) * real(b1).log() + (1 - real(order)) * real(b2).log() - real(star).log()
        return real(a) * top / (real(order) - 1)

    return max(0.0, arb_upper(formula))


@vectorized
def normal_mean_mu(n: int, sigma: float, prior_sd: float, diameter: float) -> float:
    """Exact mu of one draw of a normal mean: (D / s^2) / sqrt(1 / p^2 + n / s^2), rounded up.

    Parameters
    ----------
    n : int
        Public number of records, at least 1.
    sigma : float
        Known standard deviation s of a record.
    prior_sd : float
        Prior standard deviation p.
    diameter : float
        D, largest distance between two records.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T8, T13; N draws have sqrt(N) times as much.
    """
    n = check_count(n, "the number of records")
    check_positive(sigma=sigma, prior_sd=prior_sd)
    check_nonnegative(diameter=diameter)
    s, p = Fraction(sigma), Fraction(prior_sd)
    precision = 1 / p**2 + Fraction(n) / s**2
    return arb_upper(lambda: real(diameter) / real(s**2) / real(precision).sqrt())


def _largest_log_ratio(shape: float, rate1: float, rate2: float) -> float:
    """Supremum of the log ratio shape ln(b1 / b2) - (b1 - b2) x: finite if b1 > b2, at x = 0."""
    if rate1 < rate2:
        return math.inf
    return arb_upper(lambda: real(shape) * (real(rate1) / real(rate2)).log())
