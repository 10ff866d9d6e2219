"""Predictions from released draws and public covariates: post-processing, at no further cost."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_private.errors import DomainError, PrivacyWarning
from pymc_private.mechanisms.release import Release
from pymc_private.models.compat import copy_model


def predict(
    release: Release,
    data: Mapping[str, Any],
    model: Any,
    *,
    var_names: Sequence[str] | None = None,
    random_seed: int | None = None,
) -> xr.Dataset:
    """Draw new responses for public covariates, one for each released draw.

    Works on a copy of the model, which is left as it is. All that is read of it are its graph and
    the values given here; where the model still holds other data along the same dim, they would
    be read too, and a warning says so.

    Parameters
    ----------
    release : Release
    data : mapping of str to array
        New values of the model's data variables (``pm.Data``): fresh, public covariates.
    model : pymc.Model
        The model that was privatized, or its skeleton.
    var_names : sequence of str, optional
        Default: the observed variables.
    random_seed : int, optional
        Of the predictions only; the draws are released already.

    Returns
    -------
    xarray.Dataset
        Dims ``chain, draw, ...``.

    Raises
    ------
    DomainError
        A name that is no data variable of the model, or a length that does not fit.
    """
    names = {variable.name for variable in model.data_vars}
    unknown = sorted(set(data) - names)
    if unknown:
        raise DomainError(
            "no such data variable",
            got=", ".join(unknown),
            allowed=", ".join(sorted(names)) or "none: this model has no pm.Data",
            do="hold covariates in pm.Data(name, ..., dims=...)",
        )
    copy, _ = copy_model(model)
    values = {name: np.asarray(value) for name, value in data.items()}
    sizes = _sizes(copy, values)
    responses = _responses(copy, sizes, set(values))
    _warn_of_what_stays(copy, sizes, set(values) | set(responses))
    with copy:
        pm.set_data(values | responses, coords={dim: np.arange(n) for dim, n in sizes.items()})
        drawn = pm.sample_posterior_predictive(
            release.to_arviz(),
            predictions=True,
            var_names=None if var_names is None else list(var_names),
            random_seed=random_seed,
            progressbar=False,
        )
    found = drawn["predictions"]
    return found.to_dataset() if isinstance(found, xr.DataTree) else found


def _sizes(model: pm.Model, values: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Dims whose length the new values change."""
    sizes: dict[str, int] = {}
    for name, value in values.items():
        dims = model.named_vars_to_dims.get(name) or ()
        old = model[name].get_value(borrow=True).shape
        for dim, n, before in zip(dims, value.shape, old, strict=False):
            if dim is None or (n == before and dim not in sizes):
                continue
            if sizes.setdefault(dim, n) != n:
                raise DomainError(
                    "new values of different lengths along one dim",
                    got=f"{sizes[dim]} and {n} along '{dim}'",
                    allowed="one length",
                )
    return sizes


def _responses(model: pm.Model, sizes: Mapping[str, int], given: set[str]) -> dict[str, np.ndarray]:
    """Observed data variables along the new dims: zeros, for nothing is to be read of them."""
    observed = {_root(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    found = {}
    for variable in model.data_vars:
        dims = model.named_vars_to_dims.get(variable.name) or ()
        if variable in observed and variable.name not in given and set(dims) & set(sizes):
            old = variable.get_value(borrow=True)
            shape = [sizes.get(d, n) for d, n in zip(dims, old.shape, strict=True)]
            found[variable.name] = np.zeros(shape, dtype=old.dtype)
    return found


def _root(value: Any) -> Any:
    while value.owner is not None:
        value = value.owner.inputs[0]
    return value


def _warn_of_what_stays(model: pm.Model, sizes: Mapping[str, int], given: set[str]) -> None:
    """Say which data of the model predictions would still read."""
    observed = {_root(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    left = sorted(
        variable.name
        for variable in model.data_vars
        if variable.name not in given and variable not in observed
    )
    if left:
        warnings.warn(
            f"the predictions also read {', '.join(left)} as the model holds them: if they are "
            "private, the result is not covered by the guarantee; give public values for them",
            PrivacyWarning,
            stacklevel=4,
        )
