"""The inputs of one record's log-likelihood, and what each belongs to."""

from __future__ import annotations

import numpy as np
from collections.abc import Collection, Mapping, Sequence
from pytensor.graph.basic import Variable
from pymc_private.analysis import Interval as Bounds, ZeroSumRows
from pymc_private.models.record_likelihood import Column, Role
from pymc_private.models.domains import Categories
from pymc_private.models.record_likelihood__single_record import SingleRecord
from pymc_private.models.data_variables import Source

def columns_of(
    record: SingleRecord,
    sources: Sequence[Source],
    box: Mapping[str, Bounds],
    held: Collection[str],
) -> list[Column]:
    """All inputs: a record's entries, the parameters, and what is public row by row."""
    columns = [
        Column(
            record.data[s.name],
            Role.SHARED if s.name in held else Role.RECORD,
            s.domain.bounds(s.row_shape),
            _levels(s.domain),
        )
        for s in sources
        if s.name in record.data
    ]
    columns += [_of_parameter(record.parameters[n], b) for n, b in box.items()]
    columns += [
        Column(v, Role.SHARED, s.domain.bounds(s.row_shape), _levels(s.domain))
        for v, s in record.neighbors.items()
    ]
    return columns + [
        Column(v, Role.SHARED, Bounds(rows.min(axis=0), rows.max(axis=0)))
        for v, rows in record.public.items()
    ]


def _of_parameter(variable: Variable, bounds: Bounds) -> Column:
    if isinstance(bounds.within, ZeroSumRows):  # the box around them has slopes
        return Column(variable, Role.POINT, bounds.forget(), total=bounds.within.total)
    return Column(variable, Role.POINT, bounds)


def _levels(domain: object) -> np.ndarray | None:
    return np.asarray(domain.values) if isinstance(domain, Categories) else None
