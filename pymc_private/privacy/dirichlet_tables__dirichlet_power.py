"""The largest power of the counts at which a stated prior meets a budget: T9-T11."""

from __future__ import annotations

import math
from pymc_private.errors import DomainError
from pymc_private.privacy.noisy_counts import CountBudget
from pymc_private.privacy.dirichlet_tables import THEOREM, Touched, refuse_other
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.dirichlet_tables__joint_pairs import guess_delta

def posterior_power(
    budget: CountBudget, least: float, touched: Touched, second: float | None = None
) -> tuple[float, Guarantee]:
    """Give the largest power r <= 1 at which a stated prior meets the budget; 1 is the posterior.

    Parameters
    ----------
    budget : CountBudget
    least : float
        Least prior parameter of any cell.
    touched : Touched
    second : float, optional
        The second least, of two cells of one family; default `least`.

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
    two = (least, least if second is None or touched.families > 1 else second)
    high, low = 0.0, 0.0  # logarithms; the quick curve finds the way, the proved one decides
    while not _seems_to_fit(budget, touched, math.exp(low), two):
        low, high = low - 1.0, low
        if low < -20.0:
            raise DomainError(
                "no power of the counts meets this budget with this prior; nothing was charged",
                got=str(budget),
                do="take larger prior parameters, or a larger budget",
            )
    while high - low > 1e-4:
        middle = 0.5 * (low + high)
        fits = _seems_to_fit(budget, touched, math.exp(middle), two)
        low, high = (middle, high) if fits else (low, middle)
    power = math.exp(low)
    while not budget.fits(promise := priced(touched, power, *two)):
        power *= 1.0 - 1e-4
    return power, promise


def priced(touched: Touched, r: float, least: float, second: float) -> Guarantee:
    """Give the guarantee of all draws with a prior whose two least parameters are known (T9).

    A record moves between two cells; whatever their parameters, two that are componentwise at most
    as large dominate. Of one family, both directions of the pair are evaluated; of several, each
    has its own, so there the least parameter stands for both.
    """
    if touched.families > 1 or second == least:
        return touched.promise(r, least)
    more = r * touched.minimum * (1.0 - 1e-12)
    words = {"neighbors": touched.neighbors, "theorem": THEOREM}
    return Guarantee.dirichlet_of(r, least + more, 1, touched.draws, beta=second + more, **words)


def _seems_to_fit(
    budget: CountBudget, touched: Touched, r: float, two: tuple[float, float]
) -> bool:
    if budget.epsilon is None:
        return budget.fits(priced(touched, r, *two))
    alpha, beta = (parameter + r * touched.minimum for parameter in two)
    found = guess_delta(budget.epsilon, r, alpha, touched.pairs, touched.neighbors, beta)
    return found <= budget.delta
