"""What is checked once more at `sample`: that a plan still is what was certified."""

from __future__ import annotations

import numpy as np
import xarray as xr
from typing import Any
from pymc_private.errors import DomainError, Incompatible
from pymc_private.models.declare import logger, store
from pymc_private.posterior.plan import Plan
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import Source

def check_unchanged(plan: Plan) -> None:
    """Refuse a plan whose model was changed after `calibrate`: a new region, a public array set.

    Looks at what is public only: which factors there are, public arrays, region, power, shapes,
    price; all of it in ``plan.private.base`` (`pm.set_data` there is seen).
    ``plan.private.model`` is made of it for the user: what is done to that is not looked at, and
    nothing is drawn from it.

    Raises
    ------
    Incompatible
        The certificate or the price speaks of another model.
    """
    private = plan.private
    moved = [s.name for s in private.sources if _shape(s) != s.shape]
    base = private.base
    factors = [v.name for v in (*base.free_RVs, *base.observed_RVs, *base.potentials)]
    covered = plan.certificate.covers(private) and factors == list(private.graph.terms)
    if covered and not moved and plan.certificate.guarantee(plan.draws) == plan.guarantee:
        return
    what = f"another shape of {', '.join(moved)}" if moved else "public data, a region, a power"
    raise Incompatible(
        "the model of this plan was changed after it was certified; nothing was charged",
        got=f"{what}, or another part that the certificate does not speak of",
        allowed="the model as calibrate saw it",
        do="call privatize, and then calibrate, on the changed model",
    )


def clip_again(private: PrivateModel) -> None:
    """Move the data into the domain, should they have left it since `privatize`.

    Part of the charged draw: it reads the data, and so it refuses nothing. What `privatize` would
    refuse of one record (NaN, a category that was not declared, a row of another total) counts as
    one fixed record of the domain: each record is mapped by itself, as by any clip. How many there
    were goes to the logger alone. Data that never left stay as they are.
    """
    for source in private.sources:
        data = source.values()
        clipped, lost = _inside(source, data)
        if lost:
            logger.warning(
                "sample: %d of %d records of %s could not be clipped and were replaced",
                *(lost, private.n, source.name),
            )
        store(source, clipped.astype(data.dtype))


def _inside(source: Source, data: np.ndarray) -> tuple[np.ndarray, int]:
    """Records inside the domain, and how many were beyond clipping."""
    axis = source.axis
    fixed = source.domain.clip(source.stand_in(1), axis)
    rows = np.moveaxis(np.array(data), axis, 0)
    lost = ~np.isfinite(rows).reshape(len(rows), -1).all(axis=1)
    rows[lost] = np.moveaxis(fixed, axis, 0)
    clipped, more = _clipped(source, np.moveaxis(rows, 0, axis), fixed)
    return clipped, int(lost.sum()) + more


def _clipped(source: Source, data: np.ndarray, fixed: np.ndarray) -> tuple[np.ndarray, int]:
    """Clip all records at once, or where one of them is refused, by halves."""
    try:
        return np.asarray(source.domain.clip(data, source.axis)), 0
    except DomainError:
        count = data.shape[source.axis]
    if count == 1:
        return np.asarray(fixed), 1
    halves = np.split(data, [count // 2], axis=source.axis)
    parts = [_clipped(source, half, fixed) for half in halves]
    whole = np.concatenate([part for part, _ in parts], axis=source.axis)
    return whole, sum(lost for _, lost in parts)


def check_names(posterior: xr.Dataset) -> None:
    """Refuse names that a netCDF file would read as folders.

    Raises
    ------
    DomainError
        A variable or a dim with a slash in its name.
    """
    names = sorted({str(name) for name in (*posterior.variables, *posterior.dims)})
    odd = [name for name in names if "/" in name]
    if odd:
        raise DomainError(
            "a release cannot be stored under such a name; nothing was charged",
            got=", ".join(odd),
            allowed="names of variables and dims without '/'",
            do="rename it in the model, for example with '_' or '::'",
        )


def _shape(source: Source) -> tuple[int, ...]:
    variable: Any = source.variable
    return tuple(variable.get_value(borrow=True).shape)
