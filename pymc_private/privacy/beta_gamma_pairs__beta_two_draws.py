"""Two independent Dirichlet draws under substitution, by rigorous quadrature: T9."""

from __future__ import annotations

import math
from flint import acb, arb, ctx
from pymc_private.privacy.validation import not_negative, positive, vectorized
from pymc_private.privacy.rounding__enclosure import above, real

MOST_BY_QUADRATURE = 16.0
"""Up to this prior parameter two draws are integrated."""
MOST_POINTS = 4000
"""Of one quadrature."""


@vectorized
def beta_pair_delta_two_draws(eps: float, r: float, alpha: float) -> float:
    """Delta of two independent Dirichlet draws under substitution, rounded up.

    The mean of `beta_pair_delta` at eps - L over the loss L of one draw, by rigorous quadrature;
    where that would take long, `Guarantee.delta` of two planned draws gives a larger bound.

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
    for bits in (80, 160) if alpha <= MOST_BY_QUADRATURE else ():
        with ctx.workprec(bits):
            found = _two_draws(real(eps), real(r), real(alpha))
        if found.is_finite() and found.rel_accuracy_bits() >= 34:
            return min(1.0, max(0.0, above(found)))

    from pymc_private.privacy.guarantee import Guarantee

    return (2 * Guarantee.dirichlet_of(r, alpha)).delta(eps)


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
    tiny, little = arb(2) ** -4000, arb(2) ** -38
    inner = acb.integral(integrand, -end, end, rel_tol=little, abs_tol=tiny, eval_limit=MOST_POINTS)
    return inner.real + left_out.union(arb(0))


def _log_sigmoid(t: acb) -> acb:
    return -(1 + (-t).exp()).log() if float(t.real.mid()) > 0.0 else t - (1 + t.exp()).log()


def _below_sigmoid(t: acb, a: arb, b: arb) -> acb:
    """I_u(a, b) at u = sigmoid(t), by its smaller tail."""
    if float(t.real.mid()) < 0.0:
        return (1 / (1 + (-t).exp())).beta_lower(a, b, 1)
    return 1 - (1 / (1 + t.exp())).beta_lower(b, a, 1)
