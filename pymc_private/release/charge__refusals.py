"""What the refusal of a charge means, and the cure that is one."""

from __future__ import annotations

import math
from fractions import Fraction
from pymc_private.errors import BudgetExceeded, DomainError
from pymc_private.privacy import Guarantee
from pymc_private.ledger import Ledger
from pymc_private.privacy.rounding__printing import number

def explained(
    error: BudgetExceeded, guarantee: Guarantee, at: float, ledger: Ledger
) -> BudgetExceeded:
    """The ledger's refusal; where the share of delta alone was short, it says so."""
    road, budget = ledger.roads.get("approximate"), ledger.budget
    delta, epsilon = Fraction(repr(at)), guarantee.exact_epsilon(Fraction(at))
    if road is None or road.spent is None or not road.share < delta <= budget.delta:
        return error
    if not (math.isfinite(epsilon) and road.spent.epsilon + Fraction(epsilon) <= budget.epsilon):
        return error
    share, whole = (number(d, up=False) for d in (road.share, budget.delta))
    room = max(road.share - road.spent.delta, Fraction(0))
    cures = [f"Calibrate at delta = {number(room, up=False)}"] if room else []
    if not ledger.entries:
        written = number(delta) if float(number(delta)) == at else repr(at)
        double = f"delta = {number(2 * delta)} or with " if 2 * delta < 1 else ""
        cures.append(
            "make a ledger, if the study is yet to begin, with "
            f"{double}shares={{'approximate': {written}}}"
        )
    return BudgetExceeded(
        error.problem,
        asked=error.asked,
        spent=error.spent,
        left=error.left,
        got=error.got,
        allowed=error.allowed,
        do=f"this plan is priced at delta = {at:g}, but of its delta = {whole} this ledger keeps "
        f"{share} for such plans and the rest for the other road (half each, unless shares= says "
        f"otherwise). {'; or '.join(cures) or 'That share is spent'}",
    )


NO_DISTANCE = (
    "a sampler without a distance: in a box of few parameters sampler='boxes', in one of many "
    "sampler=pmp.Proximal(pure=True); or a delta above (1 + e^epsilon) t, what a distance t costs"
)
"""What a distance from the posterior leaves where there is no delta."""
FAR = (
    "a lower power, pmp.temper(private, ...), since a distance t costs (1 + e^epsilon) t of delta; "
    "or a smaller tv= of a sampler that need not be strict"
)
"""What does where that is more than the delta there is."""
NO_RANGE = (
    "a box of the parameters, in which one is: pmp.trim(private, mass=0.99) or box={...}; or, for "
    "a log-concave posterior, a delta above zero and a low power: pmp.temper(private, ...)"
)


def endless(guarantee: Guarantee, delta: float) -> DomainError:
    """Why a guarantee has no finite epsilon at a delta, and what would give it one."""
    exact = [atom for atom in guarantee.atoms if atom.kind != "distance"]
    bounded = all(math.isfinite(atom.pure) for atom in exact)
    got, do = f"delta = {number(delta)}", "a larger delta; or pmp.trim(private, mass=0.99)"
    if len(exact) < len(guarantee.atoms) and (bounded or delta):
        got += ", and a sampler that is only near the posterior"
        do = FAR if delta else NO_DISTANCE
    elif not bounded and not delta:
        got, do = f"{got}, and no range is proved of what one record changes", NO_RANGE
    return DomainError(
        "these draws have no finite epsilon at this delta, so nothing was charged", got=got, do=do
    )
