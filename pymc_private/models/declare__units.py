"""Units that own several records: how many, and what is claimed of them (T24)."""

from __future__ import annotations

import numpy as np
from typing import Any
from pymc_private.errors import DomainError
from pymc_private.models.metric import Metric
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE

UNCOUNTED = (
    "no number or array written into the model was computed from the number of records, and that "
    "there are at least 2 is no secret"
)
"""What no reading of a graph can tell of a number in it."""


def whole_units(records_per_unit: Any, metric: Metric | None) -> int:
    """The number of records of a unit, if it is one; distances know of no units."""
    is_whole = isinstance(records_per_unit, int | np.integer)
    if not is_whole or isinstance(records_per_unit, bool) or records_per_unit < 1:
        raise DomainError(
            "records_per_unit= says how many records a unit may own",
            got=repr(records_per_unit),
            allowed="a whole number, at least 1",
            do="give a public cap; drop a unit's records beyond it before modeling",
        )
    if metric is not None and records_per_unit > 1:
        raise DomainError(
            "a metric measures whole data sets, whoever owns the records",
            got=f"records_per_unit={records_per_unit} with {metric}",
            allowed="records_per_unit=1",
            do="read the promise at a unit's distance: guarantee.at(distance)",
        )
    return int(records_per_unit)


def claims_of_units(units: int, relation: str) -> list[str]:
    """What is taken on trust of units, and of the number of records where it is protected."""
    counts = [UNCOUNTED] if relation == ADD_REMOVE else []
    public_rows = "" if relation == ADD_REMOVE else "; how many each owns is public"
    owns = [f"one unit owns at most {units} records{public_rows}"] if units > 1 else []
    return [*counts, *owns]
