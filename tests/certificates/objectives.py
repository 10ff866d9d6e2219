"""The forms of a record's log-likelihood that branch and bound is tried on."""

from __future__ import annotations

from collections.abc import Iterator

from pymc_private.certificates import range_bound
from pymc_private.certificates.range_objective import RangeObjective
from pymc_private.models.record_likelihood import single_record


def objectives(private) -> Iterator[RangeObjective]:
    """The range of one record's log-likelihood, in each of its forms."""
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    return (objective for objective, _ in range_bound._objectives(private, record))


def first_objective(private) -> RangeObjective:
    """The first of them."""
    return next(objectives(private))
