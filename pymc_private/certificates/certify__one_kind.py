"""The range of records that are read in one way: by intervals, a clip, Theta_L or a metric."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pymc_private.analysis import Trail
from pymc_private.analysis.branch_and_bound__effort import Effort
from pymc_private.certificates.clip import clipped_range
from pymc_private.certificates.certify__kinds import Kind
from pymc_private.certificates.lipschitz.region__edge import points_of
from pymc_private.certificates.metric_range import metric_range
from pymc_private.models.private_model import PrivateModel
from pymc_private.certificates.range_bound__refine import Progress, Refined, SEARCH, refined
from pymc_private.certificates.range_bound import range_at, searched_steepness
from pymc_private.certificates.certify__unbounded import not_certified, open_ended
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

def range_of_kind(
    private: PrivateModel,
    kind: Kind,
    trail: Trail,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float,
) -> Refined:
    """Bound R at power 1, by every road that is open (T1, T24, T25).

    Parameters
    ----------
    private : PrivateModel
    kind : Kind
    trail : Trail
        Of the kind's rows on the whole box.
    tolerance, deadline, progress
        As for `refined`.
    floor : float, nats
        What other kinds have reached: it is enough to prove that this one has no more.

    Returns
    -------
    Refined

    Raises
    ------
    NotCertified
        No road is finite.
    """
    cap = _capped(private, kind)
    if cap is None and private.metric is None and open_ended(private, trail, kind.rows.output):
        raise not_certified(private, kind.rows)  # no cutting of the other parameters would help
    found = _by_intervals(private, kind, tolerance, deadline, progress, floor)
    if cap is not None:
        found = replace(found, upper=min(found.upper, round_up(cap)))
    if not math.isfinite(found.upper):
        raise not_certified(private, kind.rows)
    return replace(found, found=min(found.upper, _found(private, kind, found.found)))


def round_up(value: Fraction) -> float:
    """The least double that is not smaller."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else math.nextafter(nearest, math.inf)


def _by_intervals(
    private: PrivateModel,
    kind: Kind,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float,
) -> Refined:
    """R for one record, or per unit of distance where there is a metric."""
    if private.metric is None:
        return refined(private, kind.rows, kind.record, tolerance, deadline, progress, floor)
    found = metric_range(private, private.metric, tolerance, deadline, progress)
    kind.rows.effort = Effort(SEARCH, deadline)
    tried = searched_steepness(kind.rows, private.box, private.metric.between)
    return Refined(found.upper, min(found.upper, max(found.found, tried)))


def _capped(private: PrivateModel, kind: Kind) -> Fraction | None:
    """What a clip or Theta_L bounds R by, whatever intervals prove; None without either."""
    if private.metric is not None:  # neither speaks of distances
        return None
    theta = private.theta_l
    limited = None if theta is None else theta.range_of(private.graph.record)
    caps = [cap for cap in (clipped_range(private, len(kind.readers)), limited) if cap is not None]
    return min(caps) if caps else None


def _found(private: PrivateModel, kind: Kind, in_box: float) -> float:
    """What a search found in the box, or on Theta_L where that is the region."""
    if private.theta_l is None:
        return in_box
    points = points_of(private, private.theta_l)
    return range_at(kind.rows, points, private.neighbors == ADD_REMOVE)
