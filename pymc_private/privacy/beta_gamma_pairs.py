"""The exact privacy of Dirichlet draws when one record is substituted: T9.

y ~ Dir(r f(x) + alpha) releases a histogram f; substitution moves one count between two cells.
Every such pair of laws is dominated by Beta(alpha + r, alpha) against Beta(alpha, alpha + r), whose
loss is r logit(Y). With unequal prior parameters a and b are the two smallest, and the pair is
Beta(a + r, b) against Beta(a, b + r), in both directions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import inside_unit, is_double, not_negative, order_of, positive, vectorized
from pymc_private.privacy.rounding__enclosure import real, upper
from pymc_private.privacy.beta_gamma_pairs__pair_series import LARGEST, beta_curve
from pymc_private.privacy.renyi import delta_of_orders
from pymc_private.privacy.rounding import float_down, least_argument

SMALL = 64.0
"""Up to this prior parameter balls are quick; beyond it the series of `pair_series` is."""
EXACT = 1000.0
"""Up to this one balls serve where the series does not: fractions, and unequal parameters."""
MOST_ALPHA = 1e15
"""No prior parameter beyond this is looked for."""


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
    one = _one_way(eps, r, alpha, b)
    return _unit(one if b == alpha else max(one, _one_way(eps, r, b, alpha)))


def beta_pair_curve(eps: float, r: float, alpha: float) -> float:
    """Give delta of a pair by its series, a little above `beta_pair_delta` and faster."""
    found = beta_curve(eps, r, alpha, alpha)
    return _unit(found) if math.isfinite(found) else beta_pair_delta(eps, r, alpha)


@vectorized
def beta_pair_eps(delta: float, r: float, alpha: float, beta: float | None = None) -> float:
    """Least epsilon at `delta` of one Dirichlet draw under substitution, rounded up.

    Parameters
    ----------
    delta : float
        In (0, 1): there is no pure epsilon.
    r, alpha, beta : float
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
    if beta_pair_delta(0.0, r, alpha, beta) <= delta:
        return 0.0
    return least_argument(lambda eps: beta_pair_delta(eps, r, alpha, beta), delta, float(r))


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

    def curve(alpha: float) -> float:
        if alpha > MOST_ALPHA:
            raise DomainError(
                "no prior parameter up to 1e15 meets this budget",
                got=f"epsilon={eps}, delta={delta}, r={r}",
                do="take a smaller power r, or a larger budget",
            )
        return beta_pair_delta(eps, r, alpha)

    return least_argument(curve, delta, 1.0)


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


def beta_pair_one_way(eps: float, r: float, a: float, b: float) -> float:
    """Give delta of Beta(a + r, b) against Beta(a, b + r) alone, in [0, 1], rounded up."""
    return _unit(_one_way(eps, r, a, b))


@lru_cache(maxsize=4096)
def _one_way(eps: float, r: float, a: float, b: float) -> float:
    """Give delta of Beta(a + r, b) against Beta(a, b + r), rounded up, in bounded time."""
    if max(a, b) >= SMALL and all(map(is_double, (eps, r, a, b))):
        found = beta_curve(eps, r, a, b)
        if math.isfinite(found):
            return found
    if max(a, b) <= EXACT or (a == b and a <= LARGEST):
        return upper(lambda: _delta(real(eps), real(r), real(a), real(b)))
    # Larger parameters are dominated by smaller ones (T9).
    least = min(a, b)
    known = min(float_down(least), LARGEST)
    return min(
        beta_pair_delta(eps, r, known),
        delta_of_orders(lambda order: beta_pair_rdp(order, r, least), 1.0 + least / r, eps),
    )


def _unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def _delta(eps: arb, r: arb, a: arb, b: arb) -> arb:
    """Beta(a + r, b) against Beta(a, b + r)."""
    shift = a.lgamma() + (b + r).lgamma() - (a + r).lgamma() - b.lgamma()
    u = 1 / (1 + ((eps - shift) / r).exp())
    return _lower_beta(u, b, a + r) - eps.exp() * _lower_beta(u, b + r, a)


def _lower_beta(u: arb, a: arb, b: arb) -> arb:
    """I_u(a, b); where the parameters are large by the series of positive terms (DLMF 8.17.8)."""
    if not a.min(b) > SMALL:
        return u.beta_lower(a, b, 1)
    norm = a.lgamma() + b.lgamma() - (a + b).lgamma()
    front = (a * u.log() + b * (-u).log1p() - norm).exp() / a
    return front * u.hypgeom_2f1(a + b, 1, a + 1)


def _renyi(order: arb, r: arb, a: arb, b: arb) -> arb:
    shift = (a + r).lgamma() + b.lgamma() - a.lgamma() - (b + r).lgamma()
    if order == 1:
        return r * ((a + r).digamma() - b.digamma()) - shift
    top = (a + order * r).lgamma() + (b - (order - 1) * r).lgamma()
    return (top - (a + r).lgamma() - b.lgamma()) / (order - 1) - shift
