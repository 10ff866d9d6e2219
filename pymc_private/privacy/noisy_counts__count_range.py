"""Budgets beyond all sense: which numbers plans of counts are made with, and what is refused.

A budget above the range is planned for as its end: what is drawn then costs less than was allowed.
Below it no numbers can be formed, or only after hours, and the budget is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar
from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.privacy.noisy_counts import CountBudget

LEAST_EPSILON, MOST_EPSILON = 1e-15, 1e3
"""Of Dirichlet draws; at the latter a draw is hardly told from the shares of the data."""
LEAST_DIVERGENCE, MOST_DIVERGENCE = 1e-15, 1e3
"""The same where one Renyi divergence is the budget."""
MOST_ORDER = 1e6
"""Beyond this order a draw has a divergence only if its counts weigh nothing."""
ALLOWED = (
    f"epsilon >= {LEAST_EPSILON:g}, or a divergence >= {LEAST_DIVERGENCE:g} of an order up to "
    f"{MOST_ORDER:g}"
)
Plan = TypeVar("Plan")


def workable(budget: CountBudget) -> CountBudget:
    """Give the budget that Dirichlet draws are planned for; it asks no less of them.

    Raises
    ------
    DomainError
        It lies below the range.
    """
    if budget.pure or budget.zcdp is not None:  # refused elsewhere, whatever the number
        return budget
    if budget.epsilon is not None:
        if budget.epsilon < LEAST_EPSILON:
            raise _refused(budget)
        return replace(budget, epsilon=min(budget.epsilon, MOST_EPSILON))
    if not ((budget.rdp or 0.0) >= LEAST_DIVERGENCE and (budget.order or 0.0) <= MOST_ORDER):
        raise _refused(budget)
    return replace(budget, rdp=min(budget.rdp or 0.0, MOST_DIVERGENCE))


def planned(make: Callable[..., Plan], budget: CountBudget, *given: object) -> Plan:
    """Plan Dirichlet draws for the workable budget; a search that breaks down is a refusal.

    Nothing private is read here, and nothing was charged.

    Raises
    ------
    DomainError
        No numbers can be formed.
    """
    try:
        return make(workable(budget), *given)
    except PymcPrivateError:
        raise
    except (ArithmeticError, ValueError, RuntimeError) as cause:
        raise _refused(budget) from cause


def _refused(budget: CountBudget) -> DomainError:
    return DomainError(
        "no Dirichlet draw can be planned for this budget; nothing was charged",
        got=str(budget),
        allowed=ALLOWED,
        do='take a budget nearer to one, or method="noisy"',
    )
