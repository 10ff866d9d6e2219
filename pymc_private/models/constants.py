"""List the arrays that were baked into a model's graph with an axis as long as its records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pymc_private.models import intake
from pymc_private.models.sources import candidates, constants_with_axis


def constants(model: Any = None) -> pd.DataFrame:
    """List anonymous arrays that may hold records, under the names `privatize` knows them by.

    A NumPy predictor used without `pm.Data`, Bambi's design matrix, a lag or a z-score computed
    before the model existed: all are constants of the graph. Each wants a domain, or
    ``constants="public"`` claims them all public.

    Parameters
    ----------
    model : pymc.Model or Bambi model, optional
        Default: the model of the context.

    Returns
    -------
    pandas.DataFrame
        Columns name, shape, axis, dtype. No values.
    """
    model = intake.resolve(model)
    found = candidates(model)
    lengths = sorted({size for c in found for size in c.shape[:1]}, reverse=True)
    outs = [*model.observed_RVs, *model.potentials, *model.free_RVs]
    rows = []
    for n in lengths[:1]:
        for name, (variable, axis) in constants_with_axis(
            outs, n, [c.variable for c in found]
        ).items():
            rows.append((name, np.shape(variable.data), axis, str(variable.type.dtype)))
    return pd.DataFrame(rows, columns=["name", "shape", "axis", "dtype"])
