"""List the arrays that were baked into a model's graph with an axis as long as its records."""

from __future__ import annotations

import numpy as np
import pandas as pd
from collections.abc import Mapping
from typing import Any
from pymc_private.models import declare, declare__intake
from pymc_private.models.bambi__terms import is_bambi, named_terms
from pymc_private.models.data_variables import candidates, constants_with_axis

def constants(model: Any = None, *, records: str | Mapping[str, int] | None = None) -> pd.DataFrame:
    """List anonymous arrays that may hold records, under the names `privatize` knows them by.

    A NumPy predictor used without `pm.Data`, a lag or a z-score computed before the model existed:
    all are constants of the graph. Each wants a domain, or ``constants="public"`` claims them all
    public. Of a Bambi model the variables of the formula are listed under their own names.

    Parameters
    ----------
    model : pymc.Model or Bambi model, optional
        Default: the model of the context.
    records : str or dict, optional
        As for `privatize`: the dim whose entries are the records, or ``{data variable: axis}``.
        Default: whatever is as long as the longest first axis of the data; say `records` if
        something public is longer.

    Returns
    -------
    pandas.DataFrame
        Columns name, shape, axis, dtype. No values.

    Raises
    ------
    DomainError
        `records` names no dim, array or axis of the model.
    """
    given, model = model, declare__intake.resolve(model)
    named: dict[str, str] = {}
    if is_bambi(given):
        terms = named_terms(given, model)
        model, named = terms.model, {data: name for name, data in terms.names.items()}
    found = candidates(model)
    if records is not None:
        axes = declare._axes(found, records, model)
        lengths = [declare._record_count(axes, found)]
    else:
        lengths = sorted({size for c in found for size in c.shape[:1]}, reverse=True)
    outs = [*model.observed_RVs, *model.potentials, *model.free_RVs]
    rows = [
        (named[c.name], c.shape, 0, str(c.variable.type.dtype)) for c in found if c.name in named
    ]
    for n in lengths[:1]:
        for name, (variable, axis) in constants_with_axis(
            outs, n, [c.variable for c in found]
        ).items():
            rows.append((name, np.shape(variable.data), axis, str(variable.type.dtype)))
    return pd.DataFrame(rows, columns=["name", "shape", "axis", "dtype"])
