"""Integer noise for all cells of some tables within one budget: T26."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pymc_private.errors import DomainError
from pymc_private.privacy.count_budget import CountBudget
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.planning import mu_affordable

GAUSSIAN, LAPLACE = "discrete_gaussian", "laplace"
THEOREM = "T26"


@dataclass(frozen=True)
class NoisePlan:
    """Which noise every cell gets, and what the noisy counts reveal.

    Attributes
    ----------
    law : {"discrete_gaussian", "laplace"}
        The latter is the discrete Laplace law, e^(-|z| / scale).
    scale : float
        sigma, or the scale of the Laplace law.
    guarantee : Guarantee
    """

    law: str
    scale: float
    guarantee: Guarantee

    @property
    def sd(self) -> float:
        """Standard deviation of the noise, nearly."""
        return self.scale if self.law == GAUSSIAN else noise_sd(self.scale)


def noise_sd(scale: float) -> float:
    """Standard deviation of the discrete Laplace law: q = e^(-1/scale), sqrt(2 q) / (1 - q)."""
    return math.sqrt(2.0 * math.exp(-1.0 / scale)) / -math.expm1(-1.0 / scale)


def noise_plan(budget: CountBudget, families: int, neighbors: str = SUBSTITUTE) -> NoisePlan:
    """Choose the noise with the least standard deviation that meets a budget.

    Parameters
    ----------
    budget : CountBudget
    families : int
        Most families of tables that one change of the data touches; in each of them a substituted
        record moves one unit between two cells, an added one changes one cell.
    neighbors : str

    Returns
    -------
    NoisePlan
        Its guarantee was evaluated and fits the budget.

    Raises
    ------
    DomainError
        Nothing fits.

    References
    ----------
    Canonne, Kamath and Steinke (2020); theory T26.
    """
    words = {"neighbors": neighbors, "theorem": THEOREM}
    cells = families * (1 if neighbors == ADD_REMOVE else 2)

    def laplace(scale: float) -> Guarantee:
        return Guarantee.noisy_counts_of(families, scale, LAPLACE, **words)

    def gaussian(sigma: float) -> Guarantee:
        return Guarantee.noisy_counts_of(families, sigma, **words)

    found = []
    if budget.epsilon is not None:
        found.append(_plan(LAPLACE, cells / budget.epsilon, laplace, budget))
    if not budget.pure:
        found.append(_plan(GAUSSIAN, _first_sigma(budget, cells), gaussian, budget))
    return min(found, key=lambda plan: plan.sd)


def _first_sigma(budget: CountBudget, cells: int) -> float:
    if budget.zcdp is not None:
        return math.sqrt(0.5 * cells / budget.zcdp)
    if budget.order is not None and budget.rdp is not None:
        return math.sqrt(0.5 * cells * budget.order / budget.rdp)
    return math.sqrt(cells) / mu_affordable(float(budget.epsilon or 0.0), budget.delta)


def _plan(
    law: str, start: float, promise: Callable[[float], Guarantee], budget: CountBudget
) -> NoisePlan:
    """Raise the scale until the proved price fits; it starts where theory says."""
    scale = start
    for _ in range(60):
        guarantee = promise(scale)
        if budget.fits(guarantee):
            return NoisePlan(law, scale, guarantee)
        scale *= 1.0 + max(1e-12, min(budget.cost(guarantee) - 1.0, 0.5) * 1.01)
    raise DomainError(
        "no noise fits this budget; nothing was charged",
        got=str(budget),
        do="take a larger budget, or fewer tables",
    )
