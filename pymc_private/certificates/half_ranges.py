"""Bounds of the range by twice the range of its halves: fewer numbers, so finer boxes.

The difference of differences of `range_objective`, grouped by record or by parameter point (T24),
is

    [l(x, t) - l(x, t')] + [l(y, t') - l(y, t)]  or  [l(x, t) - l(y, t)] + [l(y, t') - l(x, t')],

two terms that take the same values. So R is at most twice the maximum of one of them, in which one
record or one parameter point fewer is free. The maximum of a half is often attained by both at
once: by opposite outcomes, or where no two records do better than one counted twice. Then the bound
is R itself, and a search among half as many coordinates proves it where branch and bound on all
of them would not end. R is the same for l - g(x) - h(t), so terms of records alone or of parameters
alone are left out first.
"""

from __future__ import annotations

import math

from pymc_private.analysis.branch_and_bound import Effort, maximize
from pymc_private.certificates.range_objective import RangeObjective
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import HALVES, SingleRecord

HALF_EFFORT = 2500.0
"""Effort, in walks, on each half."""

HALF_GAP = 0.01
"""Gap at which the maximum of a half is near enough."""


def range_by_halves(
    private: PrivateModel,
    record: SingleRecord,
    *,
    known: float,
    enough: float,
    deadline: float = math.inf,
) -> float:
    """A proved bound of R under substitution from its halves; `known` if they prove no better.

    Parameters
    ----------
    private : PrivateModel
    record : SingleRecord
        Of this model.
    known : float
        Bound of R that is proved already: a half with a value above half of it is given up.
    enough : float
        Bound of R that is small enough.
    deadline : float
        Time by `time.perf_counter` after which the bound so far is the answer.

    Notes
    -----
    The pair of half-ranges is T24's inequality on cells that are points: g(t) - g(t') of T1 is a
    sum of two terms of one half, and each is at most its maximum.
    """
    best = known
    for half in _halves(private, record):
        if half.is_constant:
            return 0.0
        bracket = maximize(
            half,
            *half.roots(),
            goal=lambda effort: HALF_GAP,
            effort=Effort(HALF_EFFORT / half.cost, deadline),
            known=best / 2.0,
            floor=enough / 2.0,
        )
        best = min(best, 2.0 * bracket.upper)
        if best <= enough:
            break
    return best


def _halves(private: PrivateModel, record: SingleRecord) -> list[RangeObjective]:
    """The objectives that fit on boxes, that of the fewest coordinates first."""
    try:
        made = [RangeObjective(record, private.sources, private.box, each) for each in HALVES]
    except NotImplementedError:  # an Op that PyTensor cannot batch
        return []
    fit = [half for half in made if half.is_constant or half.is_feasible]
    return sorted(fit, key=lambda half: half.coordinates.count)
