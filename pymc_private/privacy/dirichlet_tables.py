"""Dirichlet draws of many tables within one budget: T11, T12.

A record that touches m families of tables costs m pairs, whatever the number of tables in each, and
N draws cost N m. Under a Renyi budget each family has an equal share and its own (r, alpha); under
(epsilon, delta) all families share one pair, whose joint curve is convolved. alpha follows from r;
r is chosen by the expected divergence at a public profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from scipy.optimize import minimize_scalar
from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy.beta_gamma_pairs import beta_pair_alpha, beta_pair_rdp
from pymc_private.privacy.noisy_counts import CountBudget
from pymc_private.privacy.noisy_counts__count_profile import CountProfile
from pymc_private.privacy.dirichlet import ponnoprat_r
from pymc_private.privacy.beta_gamma_pairs__gamma_pair import gamma_pair_rdp
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.dirichlet_tables__joint_pairs import guess_alpha
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.renyi import rdp_to_eps
from pymc_private.privacy.rounding import least_argument

THEOREM = "T9-T11"
SPARE = 1.0 - 1e-10
"""Of a divergence that is divided: sums and products of its parts are rounded up later."""
LEAST_ALPHA = 1e-3
"""A public minimum of the counts may pay for all privacy; a prior parameter is positive still."""


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


def joint_plan(
    budget: CountBudget, profiles: Sequence[CountProfile], touched: Touched
) -> JointPlan:
    """Choose r and alpha of every family: the exact price, the least expected divergence.

    Parameters
    ----------
    budget : CountBudget
    profiles : sequence of CountProfile
        One per family; public.
    touched : Touched

    Returns
    -------
    JointPlan
        Its guarantee was evaluated and fits the budget.

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP: a Dirichlet draw has neither.
    DomainError
        Nothing fits.

    References
    ----------
    Theory T9-T12.
    """
    refuse_other(budget)
    if budget.order is not None and touched.families == len(profiles):
        parts = [_renyi_part(budget, profile, touched) for profile in profiles]
        return _several(parts, profiles, touched)
    least_of = _least_of(budget, touched)
    size = budget.epsilon if budget.epsilon is not None else math.sqrt(budget.rdp or 1.0)
    r, _ = search_power(
        lambda r: above_minimum(least_of(r), r, touched.minimum),
        lambda r, alpha: sum(p.dirichlet_kl(r, alpha) for p in profiles),
        (math.log(size) - 7.0, math.log(size) + 4.0),
    )
    alpha = above_minimum(_proved(budget, touched, r, least_of(r)), r, touched.minimum)
    return _several([(r, alpha)] * len(profiles), profiles, touched)


def algorithm1_plan(
    budget: CountBudget, profiles: Sequence[CountProfile], touched: Touched
) -> JointPlan:
    """Ponnoprat's Algorithm 1: alpha = 1 + 4 (l-1) r, r from the older bound of the divergence.

    Each family has an equal share of the divergence; under (epsilon, delta) the order is the one
    that is best at the public profile. The guarantee says what these numbers really cost (T9),
    which is less than what the algorithm was told to spend.

    Parameters
    ----------
    budget : CountBudget
    profiles : sequence of CountProfile
    touched : Touched

    Raises
    ------
    Unsupported
        Pure epsilon or zCDP.

    References
    ----------
    Ponnoprat (2023), Algorithm 1 and Remark 2 (a public minimum).
    """
    refuse_other(budget)
    cells = 1.0 if touched.neighbors == ADD_REMOVE else 2.0

    def at(order: float, divergence: float) -> tuple[float, float]:
        r = float(ponnoprat_r(order, divergence / touched.pairs, cells, 1.0))
        alpha = 1.0 + 4.0 * (order - 1.0) * r
        return r, max(alpha - r * touched.minimum, LEAST_ALPHA)

    if budget.order is not None and budget.rdp is not None:
        found = at(budget.order, budget.rdp)
    else:
        found = order_and(budget, at, profiles)[1]
    return _several([found] * len(profiles), profiles, touched)


def refuse_other(budget: CountBudget) -> None:
    """Refuse the budgets that no Dirichlet draw can keep."""
    if budget.pure or budget.zcdp is not None:
        raise Unsupported(
            "a Dirichlet draw is neither pure nor concentrated: its divergences end at the order "
            "1 + alpha / r",
            got=str(budget),
            do='take method="noisy", or a budget of (epsilon, delta) or of one Renyi order',
        )


def _renyi_part(
    budget: CountBudget, profile: CountProfile, touched: Touched
) -> tuple[float, float]:
    share = float(budget.rdp or 0.0) / touched.pairs * SPARE
    order = float(budget.order or 0.0)
    return _one_family(order, share, profile, touched.neighbors, touched.minimum)


@lru_cache(maxsize=1024)
def _one_family(
    order: float, share: float, profile: CountProfile, neighbors: str, minimum: float
) -> tuple[float, float]:
    pair: Callable[[float, float, float], float]
    pair = gamma_pair_rdp if neighbors == ADD_REMOVE else beta_pair_rdp

    def alpha_of(r: float) -> float:
        least = least_argument(
            lambda a: min(1e9 * share, pair(order, r, a)), share, 2.0 * order * r
        )
        return above_minimum(least, r, minimum)

    scale = math.sqrt(share)
    return search_power(
        alpha_of, profile.dirichlet_kl, (math.log(scale) - 5.0, math.log(scale) + 6.0)
    )


def above_minimum(least: float, r: float, minimum: float) -> float:
    """Give the prior parameter to draw with, where a public minimum pays for some of it."""
    return max(least * (1 + 1e-13) - r * minimum, LEAST_ALPHA) if minimum else least


def _least_of(budget: CountBudget, touched: Touched) -> Callable[[float], float]:
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


def _proved(budget: CountBudget, touched: Touched, r: float, least: float) -> float:
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


def _several(
    parts: Sequence[tuple[float, float]], profiles: Sequence[CountProfile], touched: Touched
) -> JointPlan:
    alike = len(set(parts)) == 1
    if alike:
        guarantee = touched.promise(*parts[0])
    else:
        guarantee = Guarantee.jointly(*(touched.promise(*p, touched.draws) for p in parts))
    kl = tuple(p.dirichlet_kl(*part) for p, part in zip(profiles, parts, strict=True))
    return JointPlan(tuple(p[0] for p in parts), tuple(p[1] for p in parts), guarantee, kl)
