"""What the refusal of a charge means where a ledger keeps delta for another road."""

from __future__ import annotations

from fractions import Fraction

from pymc_private.errors import BudgetExceeded
from pymc_private.privacy import Ledger
from pymc_private.privacy.printing import number


def explained(error: BudgetExceeded, at: float, ledger: Ledger) -> BudgetExceeded:
    """The ledger's refusal; where the share of delta is what was short, it says so."""
    road, budget = ledger.roads.get("approximate"), ledger.budget
    delta = Fraction(repr(at))
    if road is None or not road.share < delta <= budget.delta:
        return error
    share, whole, wanted = (number(d, up=False) for d in (road.share, budget.delta, delta))
    return BudgetExceeded(
        error.problem,
        asked=error.asked,
        spent=error.spent,
        left=error.left,
        got=error.got,
        allowed=error.allowed,
        do=f"this plan is priced at delta = {wanted}, but of its delta = {whole} this ledger keeps "
        f"{share} for such plans and the rest for the other road (half each, unless shares= says "
        f"otherwise). Calibrate at delta = {share}; or make a ledger, if the study is yet to "
        f"begin, with delta = {number(2 * delta)} or with shares={{'approximate': {wanted}}}",
    )
