"""Dirichlet draws of vector statistics that are known by their sensitivity alone: T11."""

from __future__ import annotations

import math
from collections.abc import Sequence
from flint import arb
from pymc_private.errors import DomainError
from pymc_private.privacy.validation import positive
from pymc_private.privacy.noisy_counts import CountBudget
from pymc_private.privacy.noisy_counts__count_profile import CountProfile
from pymc_private.privacy.dirichlet_tables import JointPlan, SPARE, THEOREM, Touched, above_minimum, order_and, refuse_other, search_power
from pymc_private.privacy.rounding__enclosure import real, upper
from pymc_private.privacy.beta_gamma_pairs__gamma_pair import gamma_pair_rdp
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import least_argument

def vector_rdp(order: float, r: float, alpha: float, d2sq: float, dinf: float) -> float:
    """Renyi divergence of one draw of Dir(r f + alpha) of a vector f of declared sensitivity.

    A coordinate that moves by v costs h(r v) / (l - 1), h(s) = ln G(a - (l-1) s)
    + (l-1) ln G(a + s) - l ln G(a), or less the other way round. For l >= 2 h(s) / s^2 grows in s,
    for h''' = (l-1)^3 |psi''(a - (l-1) s)| - (l-1) |psi''(a + s)| >= 0; so the sum over
    coordinates is at most d2sq / dinf^2 times that of dinf. For smaller orders h'' is bounded by
    (l-1)^2 psi'(a - (l-1) r dinf) + (l-1) psi'(a).

    Parameters
    ----------
    order : float
        > 1.
    r, alpha : float
        > 0.
    d2sq, dinf : float
        Squared Euclidean and largest change of f.

    Returns
    -------
    float
        nats, rounded up; inf from the order 1 + alpha / (r dinf) on.

    References
    ----------
    Theory T11; sharper than Ponnoprat (2023), Theorem 1.
    """
    positive(r=r, alpha=alpha, d2sq=d2sq, dinf=dinf)
    reach = r * dinf * (1.0 + 1e-15)
    if (order - 1.0) * reach >= alpha:
        return math.inf
    if order >= 2.0:
        each = float(gamma_pair_rdp(order, reach, alpha, "more_second"))
        return each * d2sq / dinf**2 * (1.0 + 1e-14)

    def bound() -> arb:
        far = real(alpha) - (real(order) - 1) * real(reach)
        bend = (real(order) - 1) * arb(2).zeta(far) + arb(2).zeta(real(alpha))
        return bend * real(d2sq) * real(r) ** 2 / 2

    return upper(bound)


def vector_plan(
    budget: CountBudget,
    profiles: Sequence[CountProfile],
    d2sq: float,
    dinf: float,
    touched: Touched,
) -> JointPlan:
    """Choose r and alpha for a vector statistic of declared sensitivity, at one Renyi order.

    Under (epsilon, delta) the order is searched too; the guarantee keeps that order alone.

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP.
    DomainError
        Nothing fits.
    """
    refuse_other(budget)
    positive(d2sq=d2sq, dinf=dinf)

    def at(order: float, divergence: float) -> tuple[float, float]:
        share = divergence / touched.pairs * SPARE

        def alpha_of(r: float) -> float:
            def price(a: float) -> float:
                return min(1e9 * share, vector_rdp(order, r, a, d2sq, dinf))

            return above_minimum(
                least_argument(price, share, 2.0 * order * r * dinf), r, touched.minimum
            )

        middle = 0.5 * math.log(share / d2sq)
        cost = profiles[0].dirichlet_kl
        return search_power(alpha_of, cost, (middle - 5.0, middle + 6.0))

    if budget.order is not None and budget.rdp is not None:
        order = budget.order
        r, alpha = at(order, budget.rdp)
    else:
        order, (r, alpha) = order_and(budget, at, profiles)
    least = alpha + r * touched.minimum * (1.0 - 1e-12)
    divergence = vector_rdp(order, r, least, d2sq, dinf) * touched.pairs
    guarantee = Guarantee.rdp_of(
        order, divergence * (1.0 + 1e-15), neighbors=touched.neighbors, theorem=THEOREM
    )
    if not budget.fits(guarantee):
        raise DomainError("nothing fits this budget; nothing was charged", got=str(budget))
    return JointPlan((r,), (alpha,), guarantee, (profiles[0].dirichlet_kl(r, alpha),))
