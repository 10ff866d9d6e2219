"""Integer noise for all cells of some tables within one budget: T26."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pymc_private.errors import DomainError
from pymc_private.privacy.noisy_counts import CountBudget
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.inverse import mu_affordable

GAUSSIAN, LAPLACE = "discrete_gaussian", "laplace"
THEOREM = "T26"
LEAST_SCALE = {GAUSSIAN: 1.0 / 12.0, LAPLACE: 1.0 / 64.0}
"""Such noise is 0 but once in 10^27 times: a larger budget buys nothing."""
MOST_SCALE = 1e12
"""Counts with more noise, and sums of them, are no longer safe in integers of 64 bits."""


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

    found: list[NoisePlan] = []
    if budget.epsilon is not None:
        found += _plan(LAPLACE, cells / budget.epsilon, laplace, budget)
    if not budget.pure:
        sigma = _first_sigma(budget, cells)
        if not found or sigma < found[0].sd:  # a search only raises it
            found += _plan(GAUSSIAN, sigma, gaussian, budget)
    if not found:
        raise _refused(budget, cells)
    return min(found, key=lambda plan: plan.sd)


def _first_sigma(budget: CountBudget, cells: int) -> float:
    if budget.zcdp is not None:
        return math.sqrt(0.5 * cells / budget.zcdp)
    if budget.order is not None and budget.rdp is not None:
        return math.sqrt(0.5 * cells * budget.order / budget.rdp)
    mu = mu_affordable(float(budget.epsilon or 0.0), budget.delta)
    return math.sqrt(cells) / mu if mu > 0.0 else math.inf


def _refused(budget: CountBudget, cells: int) -> DomainError:
    if budget.epsilon is not None:
        least = f"epsilon >= {cells / MOST_SCALE:.1g}"
    elif budget.zcdp is not None:
        least = f"zcdp >= {0.5 * cells / MOST_SCALE**2:.1g}"
    else:
        least = f"a divergence >= {0.5 * cells * (budget.order or 1.0) / MOST_SCALE**2:.1g}"
    return DomainError(
        "no noise fits this budget; nothing was charged",
        got=str(budget),
        allowed=f"{least}, nearly, which is noise of a scale up to {MOST_SCALE:g}",
        do="take a larger budget, or fewer tables",
    )


def _plan(
    law: str, start: float, promise: Callable[[float], Guarantee], budget: CountBudget
) -> list[NoisePlan]:
    """Raise the scale until the proved price fits; it starts where theory says."""
    scale = max(start, LEAST_SCALE[law])
    for _ in range(60):
        if scale > MOST_SCALE:
            break
        guarantee = promise(scale)
        if budget.fits(guarantee):
            return [NoisePlan(law, scale, guarantee)]
        scale *= 1.0 + max(1e-12, min(budget.cost(guarantee) - 1.0, 0.5) * 1.01)
    return []
