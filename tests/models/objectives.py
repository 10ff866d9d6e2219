"""The forms of a record's log-likelihood that branch and bound is tried on."""

from __future__ import annotations

from collections.abc import Iterator

from pymc_private.certificates import range_bound__refine
from pymc_private.certificates.range_objective import Quadruples
from pymc_private.models.record_likelihood__single_record import single_record


def objectives(private) -> Iterator[Quadruples]:
    """The range of one record's log-likelihood, in each of its forms."""
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    return range_bound__refine._objectives(private, record)


def first_objective(private) -> Quadruples:
    """The first of them."""
    return next(objectives(private))
