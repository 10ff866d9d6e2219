"""The exact privacy of Dirichlet draws when one record is substituted: T9.

y ~ Dir(r f(x) + alpha) releases a histogram f; substitution moves one count between two cells.
Every such pair of laws is dominated by Beta(alpha + r, alpha) against Beta(alpha, alpha + r), whose
loss is r logit(Y). With unequal prior parameters a and b are the two smallest, and the pair is
Beta(a + r, b) against Beta(a, b + r), in both directions.
"""

from __future__ import annotations

import math
from fractions import Fraction

from flint import acb, arb

from pymc_private.privacy.arguments import inside_unit, not_negative, order_of, positive, vectorized
from pymc_private.privacy.enclosure import real, upper
from pymc_private.privacy.rounding import least_argument


@vectorized
def beta_pair_delta(eps: float, r: float, alpha: float, beta: float | None = None) -> float:
    """Delta of one Dirichlet draw under substitution: I_u(a, a+r) - e^eps I_u(a+r, a).

    Here u = 1 / (1 + e^(eps/r)); exact, so no smaller value is true of the mechanism.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    r : float
        Power of the counts, > 0; 1 is the posterior itself.
    alpha : float
        Least prior parameter of any cell, > 0.
    beta : float, optional
        The second least; default alpha. The larger of both directions is given.

    Returns
    -------
    float
        In [0, 1], rounded up.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T9; corrects Ponnoprat (2023), Theorem 1.
    """
    not_negative(eps=eps)
    b = alpha if beta is None else beta
    positive(r=r, alpha=alpha, beta=b)
    if math.isinf(eps):
        return 0.0
    one = upper(lambda: _delta(real(eps), real(r), real(alpha), real(b)))
    if b == alpha:
        return _unit(one)
    return _unit(max(one, upper(lambda: _delta(real(eps), real(r), real(b), real(alpha)))))


@vectorized
def beta_pair_eps(delta: float, r: float, alpha: float) -> float:
    """Least epsilon at `delta` of one Dirichlet draw under substitution, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1): there is no pure epsilon.
    r, alpha : float
        As in `beta_pair_delta`.

    Returns
    -------
    float
        epsilon in nats, at which `beta_pair_delta` was evaluated and found at most delta.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Inverse of `beta_pair_delta` (T9).
    """
    inside_unit(delta=delta)
    positive(r=r, alpha=alpha)
    if beta_pair_delta(0.0, r, alpha) <= delta:
        return 0.0
    return least_argument(lambda eps: beta_pair_delta(eps, r, alpha), delta, float(r))


@vectorized
def beta_pair_alpha(eps: float, delta: float, r: float) -> float:
    """Least prior parameter that makes one Dirichlet draw (eps, delta)-private, rounded up.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    delta : float
        In (0, 1).
    r : float
        Power of the counts, > 0.

    Returns
    -------
    float
        alpha, at which `beta_pair_delta` was evaluated and found at most delta; delta falls in it.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T12.
    """
    not_negative(eps=eps)
    inside_unit(delta=delta)
    positive(r=r)
    return least_argument(lambda alpha: beta_pair_delta(eps, r, alpha), delta, 1.0)


@vectorized
def beta_pair_rdp(order: float, r: float, alpha: float, beta: float | None = None) -> float:
    """Renyi divergence of one Dirichlet draw under substitution, rounded up.

    [ln G(a + l r) + ln G(a - (l-1) r) - ln G(a + r) - ln G(a)] / (l - 1), finite only for orders
    l < 1 + a / r; at l = 1 it is r (psi(a + r) - psi(a)).

    Parameters
    ----------
    order : float
        At least 1.
    r, alpha, beta : float
        As in `beta_pair_delta`.

    Returns
    -------
    float
        nats; inf from the order 1 + alpha / r on.

    Raises
    ------
    DomainError
        An argument is out of its range.

    References
    ----------
    Theory T9; Geumlek, Song and Chaudhuri (2017).
    """
    order_of(order)
    b = alpha if beta is None else beta
    positive(r=r, alpha=alpha, beta=b)
    if math.isinf(order) or (Fraction(order) - 1) * Fraction(r) >= Fraction(min(alpha, b)):
        return math.inf
    one = upper(lambda: _renyi(real(order), real(r), real(alpha), real(b)))
    if b == alpha:
        return one
    return max(one, upper(lambda: _renyi(real(order), real(r), real(b), real(alpha))))


@vectorized
def beta_pair_delta_two_draws(eps: float, r: float, alpha: float) -> float:
    """Delta of two independent Dirichlet draws under substitution, rounded up.

    The mean of `beta_pair_delta` at eps - L over the loss L of one draw, by rigorous quadrature.

    Parameters
    ----------
    eps : float, nats
        At least 0.
    r, alpha : float
        As in `beta_pair_delta`.

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
    Theory T9; Johansson (2018) for the quadrature.
    """
    not_negative(eps=eps)
    positive(r=r, alpha=alpha)
    if math.isinf(eps):
        return 0.0
    return _unit(upper(lambda: _two_draws(real(eps), real(r), real(alpha)), enough=34))


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def _delta(eps: arb, r: arb, a: arb, b: arb) -> arb:
    """Beta(a + r, b) against Beta(a, b + r)."""
    shift = a.lgamma() + (b + r).lgamma() - (a + r).lgamma() - b.lgamma()
    u = 1 / (1 + ((eps - shift) / r).exp())
    return u.beta_lower(b, a + r, 1) - eps.exp() * u.beta_lower(b + r, a, 1)


def _renyi(order: arb, r: arb, a: arb, b: arb) -> arb:
    shift = (a + r).lgamma() + b.lgamma() - a.lgamma() - (b + r).lgamma()
    if order == 1:
        return r * ((a + r).digamma() - b.digamma()) - shift
    top = (a + order * r).lgamma() + (b - (order - 1) * r).lgamma()
    return (top - (a + r).lgamma() - b.lgamma()) / (order - 1) - shift


def _two_draws(eps: arb, r: arb, alpha: arb) -> arb:
    """Integrate over t = logit(Y): analytic where |Im t| < pi, so Arb's quadrature is rigorous."""
    norm = (alpha + r).lgamma() + alpha.lgamma() - (2 * alpha + r).lgamma()

    def integrand(t: acb, _: bool) -> acb:
        if not float(t.imag.abs_upper()) < 3.0:
            return acb("nan")
        density = ((alpha + r) * _log_sigmoid(t) + alpha * _log_sigmoid(-t) - norm).exp()
        at = t - eps / r
        beyond = _below_sigmoid(at, alpha, alpha + r)
        return density * (beyond - (eps - r * t).exp() * _below_sigmoid(at, alpha + r, alpha))

    end = 20.0 + 40.0 / float(alpha.mid()) + abs(float((eps / r).mid()))
    edge = 1 / (1 + arb(end).exp())
    # Beyond the ends delta is at most 1; there is next to no mass.
    left_out = edge.beta_lower(alpha + r, alpha, 1) + edge.beta_lower(alpha, alpha + r, 1)
    inner = acb.integral(integrand, -end, end, rel_tol=arb(2) ** -38, abs_tol=arb(2) ** -4000)
    return inner.real + left_out.union(arb(0))


def _log_sigmoid(t: acb) -> acb:
    return -(1 + (-t).exp()).log() if float(t.real.mid()) > 0.0 else t - (1 + t.exp()).log()


def _below_sigmoid(t: acb, a: arb, b: arb) -> acb:
    """I_u(a, b) at u = sigmoid(t), by its smaller tail."""
    if float(t.real.mid()) < 0.0:
        return (1 / (1 + (-t).exp())).beta_lower(a, b, 1)
    return 1 - (1 / (1 + t.exp())).beta_lower(b, a, 1)
