"""The two generations of PyMC (an Op of its own) and ArviZ (0.2x: InferenceData, 1.x: DataTree)."""

from __future__ import annotations

import logging
import warnings
import arviz as az
import cloudpickle
import numpy as np
import pandas as pd
import xarray as xr
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from os import PathLike
from typing import Any, BinaryIO
from pymc.distributions.continuous import _PolyaGammaLogDistFunc
from pymc.distributions.dist_math import I0e, SplineWrapper
from pymc_private.analysis import continuity, record_dependence__row_rules, record_dependence__row_sizes, row_equivalence
from pymc_private.analysis.row_equivalence__expressions import express
from pymc_private.analysis.intervals import bound, bound_scalar, linear_algebra
from pymc_private.analysis.intervals.special import i0e
from pymc_private.analysis.intervals.special__spline import is_stepped, of_spline
from pymc_private.analysis.record_dependence import label

ARVIZ_GENERATION = 0 if az.__version__.startswith("0.") else 1
SAMPLE_DIMS = ("chain", "draw")
FEWEST_DRAWS_FOR_ESS = 4  # ArviZ refuses an effective sample size below this


def to_arviz(dataset: xr.Dataset) -> Any:
    """Wrap a dataset as the group ``posterior`` of this ArviZ generation's container.

    Parameters
    ----------
    dataset : xarray.Dataset
        Variables with leading dims ``chain, draw``.

    Returns
    -------
    arviz.InferenceData or xarray.DataTree
        One group, nothing added: ArviZ's builders would stamp the time of creation.
    """
    return to_groups(posterior=dataset)


def to_groups(**groups: xr.Dataset) -> Any:
    """Wrap datasets as groups of this ArviZ generation's container, nothing added."""
    if ARVIZ_GENERATION == 0:
        return az.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


def to_dataset(samples: Any) -> xr.Dataset:
    """Give the posterior of an InferenceData, a DataTree, a Dataset or a dict of arrays."""
    if isinstance(samples, xr.Dataset):
        return samples
    if isinstance(samples, xr.DataTree) and "posterior" in samples.children:
        return samples["posterior"].to_dataset()
    return az.convert_to_dataset(samples, group="posterior")


def read_posterior(file: str | PathLike[str] | BinaryIO) -> xr.Dataset:
    """Read the group ``posterior`` of a netCDF file into memory and close the file.

    Raises
    ------
    OSError
        The file is no netCDF-4 file or has no such group.
    """
    with xr.open_dataset(file, group="posterior", engine="h5netcdf") as opened:
        return opened.load()


def summary(dataset: xr.Dataset, *, prob: float = 0.9) -> pd.DataFrame:
    """Summarize each scalar element of a posterior, alike on both generations.

    Parameters
    ----------
    dataset : xarray.Dataset
        Variables with dims ``chain, draw, ...``.
    prob : float
        Mass of the equal-tailed interval, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        Rows named as ArviZ names them (``beta[age]``); columns ``mean, sd, mcse_mean, ess_bulk,
        lower, upper``. Columns are NaN where the draws are too few to estimate them (sd: 2,
        the effective sample size and mcse: 4).
    """
    draws = dataset.sizes["chain"] * dataset.sizes["draw"]
    enough = draws >= FEWEST_DRAWS_FOR_ESS and dataset.sizes["draw"] >= FEWEST_DRAWS_FOR_ESS
    numbers = dataset.astype(float)
    with _quiet():
        ess = az.ess(numbers, method="bulk") if enough else None
        mcse = az.mcse(numbers, method="mean") if enough else None
    rows: dict[str, dict[str, float]] = {}
    for name, array in numbers.data_vars.items():
        values = flat_draws(array)
        columns = {
            "mean": values.mean(axis=0),
            "sd": values.std(axis=0, ddof=1) if draws > 1 else _nan(values),
            "mcse_mean": _nan(values) if mcse is None else np.ravel(mcse[name].values),
            "ess_bulk": _nan(values) if ess is None else np.ravel(ess[name].values),
            "lower": np.quantile(values, (1 - prob) / 2, axis=0),
            "upper": np.quantile(values, (1 + prob) / 2, axis=0),
        }
        for i, element in enumerate(element_labels(array)):
            rows[element] = {column: float(numbers[i]) for column, numbers in columns.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def element_labels(array: xr.DataArray) -> list[str]:
    """Name the scalar elements of a variable in C order, as ArviZ does: ``beta[age, low]``."""
    dims = [dim for dim in array.dims if dim not in SAMPLE_DIMS]
    if not dims:
        return [str(array.name)]
    labels = [array[dim].values if dim in array.coords else range(array.sizes[dim]) for dim in dims]
    return [f"{array.name}[{', '.join(map(str, cell))}]" for cell in product(*labels)]


def flat_draws(array: xr.DataArray) -> np.ndarray:
    """Lay a variable out as a table, shape (chains * draws, elements), elements in C order."""
    ordered = array.transpose(*SAMPLE_DIMS, ...).values
    return ordered.reshape(ordered.shape[0] * ordered.shape[1], -1)


def _nan(values: np.ndarray) -> np.ndarray:
    return np.full(values.shape[1], np.nan)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence ArviZ about constant or short chains: the result says it already (NaN)."""
    logger = logging.getLogger("arviz")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def copy_model(model: Any) -> tuple[Any, dict[str, Any]]:
    """An independent copy of a PyMC model without its starts, and the starts by name.

    PyMC's own ``model.copy()`` and every transform built on function graphs refuse a model that has
    an ``initval``; a cloudpickle round trip keeps everything, after which the starts are taken out.
    """
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    starts = {
        rv.name: value for rv, value in copy.rvs_to_initial_values.items() if value is not None
    }
    for rv in copy.rvs_to_initial_values:
        copy.rvs_to_initial_values[rv] = None
    return copy, starts


def copy_together(model: Any, variables: list[Any]) -> tuple[Any, list[Any]]:
    """An independent copy of a PyMC model, and of some variables of its graph within the copy."""
    return cloudpickle.loads(cloudpickle.dumps((model, variables)))


def with_named_dims(model: Any) -> Any:
    """The model, or a copy in which dims that are None have the names that ArviZ would give them.

    PyMC's transforms built on function graphs, and nutpie, assert that every dim has a name.
    """
    if not any(None in dims for dims in model.named_vars_to_dims.values()):
        return model
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    for name, dims in copy.named_vars_to_dims.items():
        variable = copy.named_vars[name]
        known = hasattr(variable, "get_value")
        shape = np.shape(variable.get_value()) if known else variable.shape.eval()
        named = tuple(dim or f"{name}_dim_{k}" for k, dim in enumerate(dims))
        for dim, old, length in zip(named, dims, shape, strict=True):
            if old is None:
                copy.add_coord(dim, length=int(length))
        copy.named_vars_to_dims[name] = named
    return copy


def dumps(state: tuple[type, dict[str, Any]]) -> bytes:
    """Pickle a value that holds a PyMC model."""
    return cloudpickle.dumps(state)


def unpickle(payload: bytes) -> Any:
    """Rebuild what `dumps` took."""
    kind, state = cloudpickle.loads(payload)
    value = object.__new__(kind)
    value.__dict__.update(state)
    return value


# Ops that PyMC itself defines. The analysis room does not know PyMC, so rules are registered here.
# On PyMC 6 VonMises is written with I0e; Interpolated with an interpolating spline, elementwise.
bound_scalar.register(I0e, i0e)
bound.register(SplineWrapper, of_spline)
linear_algebra.OF_ANY_SHAPE.append(SplineWrapper)
continuity.STEPPED.append(is_stepped)
# The density of PolyaGamma is a black box in C without a rule; but it keeps records apart.
for _op in (SplineWrapper, _PolyaGammaLogDistFunc):
    record_dependence__row_sizes.ELEMENTWISE.append(_op)
    label.register(_op, record_dependence__row_rules.elementwise)
    express.register(_op, row_equivalence.elementwise)
