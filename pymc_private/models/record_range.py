"""What bounds R: branch and bound, a metric, a clip, or the region."""

from __future__ import annotations

from fractions import Fraction

from pymc_private.analysis.effort import Effort
from pymc_private.models.edge import points_of
from pymc_private.models.metric_range import metric_range
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.refine import SEARCH, Progress, Refined, refined
from pymc_private.models.row_bounds import RowBounds
from pymc_private.models.search import range_at, searched_steepness
from pymc_private.privacy.neighbors import ADD_REMOVE

THEOREM, CLIPPED = "T1-T3", "T1-T3, T25"


def record_range(
    private: PrivateModel, rows: RowBounds, tolerance: float, deadline: float, progress: Progress
) -> Refined:
    """R for one record, or per unit of distance where there is a metric."""
    if private.metric is None:
        return refined(private, rows, tolerance, deadline, progress)
    found = metric_range(private, private.metric, tolerance, deadline, progress)
    rows.effort = Effort(SEARCH, deadline)
    tried = searched_steepness(rows, private.box, private.metric.between)
    return Refined(found.upper, min(found.upper, max(found.found, tried)))


def capped(private: PrivateModel, clipped: Fraction | None) -> Fraction | None:
    """What a clip or Theta_L bounds R by, whatever intervals prove; None without either."""
    if private.metric is not None:  # neither speaks of distances
        return None
    theta = private.theta_l
    limited = None if theta is None else theta.range_of(private.graph.record)
    caps = [cap for cap in (clipped, limited) if cap is not None]
    return min(caps) if caps else None


def found_on(private: PrivateModel, rows: RowBounds, in_box: float) -> float:
    """What a search found in the box, or on Theta_L where that is the region."""
    if private.theta_l is None:
        return in_box
    points = points_of(private, private.theta_l)
    return range_at(rows, points, private.neighbors == ADD_REMOVE)


def theorem_of(private: PrivateModel, clipped: Fraction | None) -> str:
    """The theorems a range rests on."""
    theta = private.theta_l
    limited = theta is not None and theta.range_of(private.graph.record) is not None
    return (THEOREM if clipped is None else CLIPPED) + (", T24" if limited else "")
