"""The largest power of the likelihood that a budget affords for tables drawn together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scipy.optimize import minimize_scalar

from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy.beta_pair import beta_pair_alpha, beta_pair_rdp
from pymc_private.privacy.count_budget import CountBudget
from pymc_private.privacy.count_profile import CountProfile
from pymc_private.privacy.gamma_pair import gamma_pair_rdp
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.joint_pairs import guess_alpha, guess_delta
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.renyi import rdp_to_eps
from pymc_private.privacy.rounding import least_argument

THEOREM = "T9-T11"


LEAST_ALPHA = 1e-3
"""A public minimum of the counts may pay for all privacy; a prior parameter is positive still."""
SPARE = 1.0 - 1e-10
"""Of a divergence that is divided: sums and products of its parts are rounded up later."""


@dataclass(frozen=True)
class JointPlan:
    """Powers and prior parameters for each family, and what drawing with them reveals.

    Attributes
    ----------
    r, alpha : tuple of float
        Draw each table f of family k from Dir(r[k] f + alpha[k]).
    guarantee : Guarantee
        Of all draws of all families.
    expected_kl : tuple of float
        Of one draw at the public profile, per family, nats.
    """

    r: tuple[float, ...]
    alpha: tuple[float, ...]
    guarantee: Guarantee
    expected_kl: tuple[float, ...]


@dataclass(frozen=True)
class Touched:
    """How a change of the data reaches the tables.

    Attributes
    ----------
    families : int
        Most families that one change touches: one pair of laws each.
    draws : int
    neighbors : str
    minimum : float
        Public lower bound of every count in every data set.
    """

    families: int
    draws: int = 1
    neighbors: str = SUBSTITUTE
    minimum: float = 0.0

    @property
    def pairs(self) -> int:
        """Pairs of laws of all draws together."""
        return self.families * self.draws

    def promise(self, r: float, alpha: float, pairs: int | None = None) -> Guarantee:
        """Give the guarantee of so many draws of Dir(r f + alpha): alpha gains r times minimum."""
        return self.priced(r, alpha + r * self.minimum * (1.0 - 1e-12), pairs)

    def priced(self, r: float, least: float, pairs: int | None = None) -> Guarantee:
        """Give the guarantee of pairs whose parameters are at least `least`."""
        count = self.pairs if pairs is None else pairs
        return Guarantee.dirichlet_of(r, least, count, neighbors=self.neighbors, theorem=THEOREM)


def refuse_other(budget: CountBudget) -> None:
    """Refuse the budgets that no Dirichlet draw can keep."""
    if budget.pure or budget.zcdp is not None:
        raise Unsupported(
            "a Dirichlet draw is neither pure nor concentrated: its divergences end at the order "
            "1 + alpha / r",
            got=str(budget),
            do='take method="noisy", or a budget of (epsilon, delta) or of one Renyi order',
        )


def above_minimum(least: float, r: float, minimum: float) -> float:
    """Give the prior parameter to draw with, where a public minimum pays for some of it."""
    return max(least * (1 + 1e-13) - r * minimum, LEAST_ALPHA) if minimum else least


def least_of(budget: CountBudget, touched: Touched) -> Callable[[float], float]:
    """Give the least parameter of a pair for a power: exact for one pair, else a close guess."""
    if budget.order is not None:
        order, share = budget.order, float(budget.rdp or 0.0) / touched.pairs * SPARE
        pair = gamma_pair_rdp if touched.neighbors == ADD_REMOVE else beta_pair_rdp

        def least(r: float) -> float:
            return least_argument(
                lambda a: min(1e9 * share, pair(order, r, a)), share, 2.0 * order * r
            )
    else:
        epsilon, delta = float(budget.epsilon or 0.0), budget.delta
        alone = touched.pairs == 1 and touched.neighbors != ADD_REMOVE

        def least(r: float) -> float:
            if alone:
                return float(beta_pair_alpha(epsilon, delta, r))
            return guess_alpha(epsilon, delta, r, touched.pairs, touched.neighbors)

    return least


def search_power(
    alpha_of: Callable[[float], float],
    cost: Callable[[float, float], float],
    ends: tuple[float, float],
) -> tuple[float, float]:
    """Search the power between two logarithms; the cost is judged in public."""
    found = minimize_scalar(
        lambda x: cost(math.exp(x), alpha_of(math.exp(x))),
        bounds=ends, method="bounded", options={"xatol": 2e-3},
    )  # fmt: skip
    r = math.exp(float(found.x))
    return r, alpha_of(r)


def proved(budget: CountBudget, touched: Touched, r: float, least: float) -> float:
    """Raise the parameter until the proved price fits; it starts a few parts in 10,000 too low."""
    for _ in range(60):
        promise = touched.promise(r, above_minimum(least, r, touched.minimum))
        if budget.fits(promise):
            return least
        least *= 1.0 + max(1e-9, 2.0 * min(budget.cost(promise) - 1.0, 0.5) + 1e-6)
    raise DomainError(
        "nothing fits this budget; nothing was charged",
        got=str(budget),
        do="take a larger budget, or fewer tables or draws",
    )


def order_and(
    budget: CountBudget,
    at: Callable[[float, float], tuple[float, float]],
    profiles: Sequence[CountProfile],
) -> tuple[float, tuple[float, float]]:
    """Give the Renyi order that is best at the profile, and (r, alpha) there."""

    def divergence(order: float) -> float:
        """The divergence at which this order proves exactly (epsilon, delta)."""
        overhead = float(rdp_to_eps(order, 0.0, budget.delta)) if order > 1 else math.inf
        return (float(budget.epsilon or 0.0) - overhead) * (1.0 - 1e-12)

    def cost(log_excess: float) -> float:
        order = 1.0 + math.exp(log_excess)
        if not divergence(order) > 0.0:
            return 1e6 - log_excess
        return sum(p.dirichlet_kl(*at(order, divergence(order))) for p in profiles)

    found = minimize_scalar(cost, bounds=(-3.0, 12.0), method="bounded", options={"xatol": 1e-4})
    order = 1.0 + math.exp(float(found.x))
    if not divergence(order) > 0.0:
        raise DomainError("no Renyi order proves this budget", got=str(budget))
    return order, at(order, divergence(order))


def several(
    parts: Sequence[tuple[float, float]], profiles: Sequence[CountProfile], touched: Touched
) -> JointPlan:
    """A plan with a power and a prior parameter for each family."""
    alike = len(set(parts)) == 1
    if alike:
        guarantee = touched.promise(*parts[0])
    else:
        guarantee = Guarantee.jointly(*(touched.promise(*p, touched.draws) for p in parts))
    kl = tuple(p.dirichlet_kl(*part) for p, part in zip(profiles, parts, strict=True))
    return JointPlan(tuple(p[0] for p in parts), tuple(p[1] for p in parts), guarantee, kl)


def posterior_power(budget: CountBudget, least: float, touched: Touched) -> tuple[float, Guarantee]:
    """Give the largest power r <= 1 at which a stated prior meets the budget; 1 is the posterior.

    Parameters
    ----------
    budget : CountBudget
    least : float
        Least prior parameter of any cell.
    touched : Touched

    Returns
    -------
    tuple of float and Guarantee
        Evaluated, and within the budget.

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP.
    DomainError
        No power down to 1e-9 fits.

    References
    ----------
    Theory T9-T11.
    """
    refuse_other(budget)
    high, low = 0.0, 0.0  # logarithms; the quick curve finds the way, the proved one decides
    while not _seems_to_fit(budget, touched, math.exp(low), least):
        low, high = low - 1.0, low
        if low < -20.0:
            raise DomainError(
                "no power of the counts meets this budget with this prior; nothing was charged",
                got=str(budget),
                do="take larger prior parameters, or a larger budget",
            )
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        fits = _seems_to_fit(budget, touched, math.exp(middle), least)
        low, high = (middle, high) if fits else (low, middle)
    power = math.exp(low)
    while not budget.fits(promise := touched.promise(power, least)):
        power *= 1.0 - 1e-4
    return power, promise


def _seems_to_fit(budget: CountBudget, touched: Touched, r: float, least: float) -> bool:
    if budget.epsilon is None:
        return budget.fits(touched.promise(r, least))
    alpha = least + r * touched.minimum
    found = guess_delta(budget.epsilon, r, alpha, touched.pairs, touched.neighbors)
    return found <= budget.delta
