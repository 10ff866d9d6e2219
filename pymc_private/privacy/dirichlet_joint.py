"""Dirichlet draws of many tables within one budget: T11, T12.

A record that touches m families of tables costs m pairs, whatever the number of tables in each, and
N draws cost N m. Under a Renyi budget each family has an equal share and its own (r, alpha); under
(epsilon, delta) all families share one pair, whose joint curve is convolved. alpha follows from r;
r is chosen by the expected divergence at a public profile.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

from pymc_private.privacy.beta_pair import beta_pair_rdp
from pymc_private.privacy.count_budget import CountBudget
from pymc_private.privacy.count_profile import CountProfile
from pymc_private.privacy.dirichlet import ponnoprat_r
from pymc_private.privacy.dirichlet_power import (
    LEAST_ALPHA,
    SPARE,
    JointPlan,
    Touched,
    above_minimum,
    least_of,
    order_and,
    proved,
    refuse_other,
    search_power,
    several,
)
from pymc_private.privacy.gamma_pair import gamma_pair_rdp
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import least_argument


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
        return several(parts, profiles, touched)
    least = least_of(budget, touched)
    size = budget.epsilon if budget.epsilon is not None else math.sqrt(budget.rdp or 1.0)
    r, _ = search_power(
        lambda r: above_minimum(least(r), r, touched.minimum),
        lambda r, alpha: sum(p.dirichlet_kl(r, alpha) for p in profiles),
        (math.log(size) - 7.0, math.log(size) + 4.0),
    )
    alpha = above_minimum(proved(budget, touched, r, least(r)), r, touched.minimum)
    return several([(r, alpha)] * len(profiles), profiles, touched)


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
    return several([found] * len(profiles), profiles, touched)


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
