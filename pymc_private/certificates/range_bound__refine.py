"""From one walk over the whole box to a bound of R that is near the truth."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any
from pymc_private.analysis.branch_and_bound import Bracket, maximize
from pymc_private.analysis.branch_and_bound__effort import Effort
from pymc_private.analysis.traversal__rebuild import untraced
from pymc_private.errors import NotCertified
from pymc_private.certificates import range_bound, range_bound__partition
from pymc_private.certificates.ball_range import range_in_ball
from pymc_private.models.record_likelihood import ADDITION, SUBSTITUTION
from pymc_private.certificates.worst_case import Place
from pymc_private.models.private_model import PrivateModel
from pymc_private.certificates.range_objective import Quadruples
from pymc_private.models.record_likelihood__single_record import SingleRecord
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

SEARCH, REFINE_ROWS, EASY, REFINE = 1000.0, 2000.0, 500.0, 6000.0
"""Effort, in walks: on points, on cells of all rows, on boxes to `FINE`, and on boxes at all."""
FINE = 0.01
"""Gap between bound and truth that is aimed at while it costs little."""

Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class Refined:
    """What is known of R at power 1, for one record.

    Parameters
    ----------
    upper : float
        Proved.
    found : float
        The greatest variation that a search found.
    where : tuple of Place
        The records and parameters at which branch and bound found it, or found the bound.
    is_relaxed : bool
        Whether `where` is of the bound alone.
    """

    upper: float
    found: float
    where: tuple[Place, ...] = ()
    is_relaxed: bool = False

    def greater(self, other: Refined) -> Refined:
        """What is known of the greater of two ranges."""
        found = max(self.found, other.found)
        return replace(self if self.upper >= other.upper else other, found=found)


def refined(
    private: PrivateModel,
    rows: range_bound__partition.Rows,
    record: SingleRecord | None,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float = 0.0,
) -> Refined:
    """Bound R as tightly as the effort allows.

    Parameters
    ----------
    private : PrivateModel
    rows : RowBounds or NeighborRows
        Of the same model.
    record : SingleRecord or None
        The same as a function of one record, where all records are alike.
    tolerance : float
        Relative gap between bound and truth that is small enough.
    deadline : float
        Time by `time.perf_counter` after which the bound so far is the answer.
    progress : callable
        Called with the bound and what is found.
    floor : float
        What R is known to be at most elsewhere: to show that it is no more here is enough.

    Raises
    ------
    NotCertified
        What is found contradicts what is proved.
    """
    with untraced():
        return _refined(private, rows, record, tolerance, deadline, progress, floor)


def _refined(
    private: PrivateModel,
    rows: range_bound__partition.Rows,
    record: SingleRecord | None,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float,
) -> Refined:
    add_remove = private.neighbors == ADD_REMOVE
    best, found = _first(private, rows, record, deadline)
    if found > 0.0 and best <= max(floor, found * (1.0 + tolerance)):
        return Refined(best, found)
    tried, is_relaxed = False, False
    where: tuple[Place, ...] = ()
    for objective in _objectives(private, record):
        tried = True
        if objective.is_constant:  # all that reads a record cancels
            return Refined(0.0, 0.0)
        bracket = _bracket(objective, best, tolerance, deadline, progress, floor)
        best = bracket.upper
        if not objective.is_relaxed:
            found = max(found, bracket.lower)
        if not where or not objective.is_relaxed:
            where, is_relaxed = objective.places(bracket.point), objective.is_relaxed
        if best <= max(floor, found * (1.0 + tolerance), bracket.lower * (1.0 + tolerance)):
            break
    _check_against(found, best)
    if best <= floor:
        return Refined(best, found, where, is_relaxed)
    if best > found * (1.0 + tolerance):
        found = max(found, _searched(rows, private, deadline))
        _check_against(found, best)
    loose = best > found * (1.0 + tolerance) and not add_remove
    if loose and (not tried or not math.isfinite(best)):
        rows.effort = Effort(REFINE_ROWS, deadline)
        best = min(best, range_bound__partition.refined_range(rows, private.box, found, tolerance))
        _check_against(found, best)
    return Refined(best, found, where, is_relaxed)


def _first(
    private: PrivateModel, rows: range_bound__partition.Rows, record: SingleRecord | None, deadline: float
) -> tuple[float, float]:
    """One walk over the whole box; for rows in a ball by their length, and what a search finds."""
    add_remove = private.neighbors == ADD_REMOVE
    best = range_bound__partition.coarse_range(rows, private.box, add_remove)
    if record is None or add_remove:
        return best, 0.0
    in_ball = range_in_ball(record, private.sources, private.box)
    if not in_ball < best:
        return best, 0.0
    found = _searched(rows, private, deadline)
    _check_against(found, in_ball)
    return in_ball, found


def _searched(rows: range_bound__partition.Rows, private: PrivateModel, deadline: float) -> float:
    """The greatest variation that a search finds."""
    rows.effort = Effort(SEARCH, deadline)
    return range_bound.searched_range(rows, private.box, private.neighbors == ADD_REMOVE)


def _bracket(
    objective: Quadruples,
    best: float,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float,
) -> Bracket:
    """Branch and bound, finely while it is cheap."""
    return maximize(
        objective,
        *objective.roots(),
        goal=lambda effort: min(FINE, tolerance) if effort.spent < EASY else tolerance,
        effort=Effort(REFINE / objective.cost, deadline),
        known=best,
        floor=floor,
        progress=progress,
    )


def _objectives(private: PrivateModel, record: SingleRecord | None) -> Iterator[Quadruples]:
    """The range as a maximum over boxes, where rows are alike and coordinates few.

    First as it is, then with all that reads records alone, or parameters alone, taken together.
    Products are written out first where a record has neighbors.
    """
    if record is None:
        return
    contrast = ADDITION if private.neighbors == ADD_REMOVE else SUBSTITUTION
    fewest = math.inf
    forms: list[dict[str, Any]] = [{}, {"together": True}]
    if record.neighbors:
        forms = [{"expanded": True}, *forms]
    for form in forms:
        try:
            made = Quadruples(record, private.sources, private.box, contrast, **form)
        except NotImplementedError:  # an Op that PyTensor cannot batch
            return
        if made.is_constant or (made.is_feasible and made.coordinates.count < fewest):
            fewest = made.coordinates.count
            yield made


def _check_against(found: float, best: float) -> None:
    """Stop where a search beats the proof by more than rounding: then a rule is wrong."""
    if math.isfinite(best) and found > best * (1.0 + 1e-9) + 1e-9:
        raise NotCertified(
            "the bound contradicts a search, so one of its rules is wrong",
            blame=(f"proved {best:.9g} nats, found {found:.9g}",),
            cure="do not use this model; please report it with the model's code",
        )
