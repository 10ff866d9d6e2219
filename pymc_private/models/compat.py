"""Compatibility with the generations of PyMC and ArviZ, and progress bars.

Two generations of ArviZ (0.2x: InferenceData; 1.x: DataTree) share one posterior container and one
summary. Rules for Ops that PyMC defines itself are registered here, because `analysis` does not
know PyMC. Models are copied and pickled with cloudpickle. The progress bar shows a bound that is
being tightened.
"""

from __future__ import annotations

import io
import logging
import pickle
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from importlib.util import find_spec
from itertools import product
from os import PathLike
from typing import Any, BinaryIO

import cloudpickle
import numpy as np
import pandas as pd
import xarray as xr
from pymc.distributions.continuous import _PolyaGammaLogDistFunc
from pymc.distributions.dist_math import I0e, SplineWrapper
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import continuity, record_dependence, row_equivalence
from pymc_private.analysis.intervals import bound_op, bound_scalar_op, linear_algebra
from pymc_private.analysis.intervals.special import i0e, is_step_spline, spline_bounds
from pymc_private.analysis.record_dependence import label_op
from pymc_private.analysis.row_equivalence import number_op
from pymc_private.privacy.rounding import format_number
from pymc_private.privacy.validation import check_flags

ARVIZ_GENERATION = 0 if version("arviz").startswith("0.") else 1
"""ArviZ itself takes most of a second to import, so it is loaded where it is first used."""
SAMPLE_DIMS = ("chain", "draw")
FEWEST_DRAWS_FOR_ESS = 4  # ArviZ refuses an effective sample size below this
BAR_DELAY = 1.0
"""Seconds before a bar is shown: most bounds take less."""
_BARS_WANTED = ContextVar("_BARS_WANTED", default=True)
_STAGE: ContextVar[Callable[[str], None] | None] = ContextVar("_STAGE", default=None)


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
        import arviz as az

        return az.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)


def to_dataset(samples: Any) -> xr.Dataset:
    """Give the posterior of an InferenceData, a DataTree, a Dataset or a dict of arrays."""
    if isinstance(samples, xr.Dataset):
        return samples
    if isinstance(samples, xr.DataTree) and "posterior" in samples.children:
        return samples["posterior"].to_dataset()
    import arviz as az

    try:
        return az.convert_to_dataset(samples, group="posterior")
    except IndexError:  # of ArviZ 0, for what is empty
        raise ValueError("there are no draws in it") from None


def read_posterior(file: str | PathLike[str] | BinaryIO) -> xr.Dataset:
    """Read the group ``posterior`` of a netCDF file into memory and close the file.

    Raises
    ------
    OSError
        The file is no netCDF-4 file or has no such group.
    """
    with xr.open_dataset(file, group="posterior", engine="h5netcdf") as opened:
        return opened.load()


def summarize_posterior(dataset: xr.Dataset, *, prob: float = 0.9) -> pd.DataFrame:
    """Summarize each scalar element of a posterior, in the same way on both generations.

    Parameters
    ----------
    dataset : xarray.Dataset
        Variables with dims ``chain, draw, ...``.
    prob : float
        Mass of the equal-tailed interval, in (0, 1).

    Returns
    -------
    pandas.DataFrame
        Rows with the names of ArviZ (``beta[age]``); columns ``mean, sd, mcse_mean, ess_bulk,
        lower, upper``. Columns are NaN where the draws are too few to estimate them (sd: 2,
        the effective sample size and mcse: 4).
    """
    import arviz as az

    draws = dataset.sizes["chain"] * dataset.sizes["draw"]
    enough = draws >= FEWEST_DRAWS_FOR_ESS and dataset.sizes["draw"] >= FEWEST_DRAWS_FOR_ESS
    numbers = dataset.astype(float)
    with _silenced_arviz():
        ess = az.ess(numbers, method="bulk") if enough else None
        mcse = az.mcse(numbers, method="mean") if enough else None
    rows: dict[str, dict[str, float]] = {}
    for name, array in numbers.data_vars.items():
        values = flat_draws(array)
        columns = {
            "mean": values.mean(axis=0),
            "sd": values.std(axis=0, ddof=1) if draws > 1 else _nan_per_element(values),
            "mcse_mean": _nan_per_element(values) if mcse is None else np.ravel(mcse[name].values),
            "ess_bulk": _nan_per_element(values) if ess is None else np.ravel(ess[name].values),
            "lower": np.quantile(values, (1 - prob) / 2, axis=0),
            "upper": np.quantile(values, (1 + prob) / 2, axis=0),
        }
        for i, element in enumerate(element_labels(array)):
            rows[element] = {column: float(numbers[i]) for column, numbers in columns.items()}
    return pd.DataFrame.from_dict(rows, orient="index")


def has_group(samples: Any, group: str) -> bool:
    """Whether a container of draws has a group of that name, with variables in it."""
    if isinstance(samples, xr.Dataset):
        return False
    children = getattr(samples, "children", None)
    if children is None:
        children = samples.groups() if callable(getattr(samples, "groups", None)) else ()
    return group in children and len(samples[group].data_vars) > 0


def monte_carlo_errors(values: np.ndarray, quantile: float | None = None) -> np.ndarray:
    """Monte Carlo standard errors from effective sample sizes: of means, or of a quantile.

    `values` have shape (chains, draws, elements); NaN where there are too few draws.
    """
    _, draws, elements = values.shape
    if draws < FEWEST_DRAWS_FOR_ESS:
        return np.full(elements, np.nan)
    dataset = xr.Dataset({"x": ((*SAMPLE_DIMS, "element"), values)})
    words = {"method": "mean"} if quantile is None else {"method": "quantile", "prob": quantile}
    import arviz as az

    with _silenced_arviz():
        return np.asarray(az.mcse(dataset, **words)["x"].values, dtype=float)


def chain_quality(values: np.ndarray) -> tuple[float, float]:
    """The least bulk effective sample size and the largest R-hat of chains (chains, draws, k)."""
    import arviz as az

    dataset = xr.Dataset({"x": ((*SAMPLE_DIMS, "element"), values)})
    with _silenced_arviz():
        effective, spread = az.ess(dataset, method="bulk")["x"], az.rhat(dataset)["x"]
    return float(np.min(effective.values)), float(np.max(spread.values))


@contextmanager
def quiet_sampling() -> Iterator[None]:
    """Silence logs and warnings of samplers (divergences, speed): they depend on the data."""
    loggers = [logging.getLogger(name) for name in ("pymc", "nutpie", "numpyro", "jax")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


def smoothed_weights(log_ratios: np.ndarray) -> tuple[np.ndarray, float]:
    """Pareto-smoothed importance weights that sum to one, shape (S,), and the shape of their tail.

    `log_ratios`: log importance ratios up to a constant, shape (S,).
    """
    ratios = np.asarray(log_ratios, dtype=float) - np.max(log_ratios)
    if np.ptp(ratios) == 0.0:
        return np.full(len(ratios), 1.0 / len(ratios)), -np.inf
    with _silenced_arviz():
        if ARVIZ_GENERATION == 0:
            import arviz as az

            logs, shape = az.psislw(ratios)
        else:
            from arviz_stats.base.array import array_stats

            logs, shape = array_stats.psislw(-ratios)  # of log-likelihoods, as for loo
    weights = np.exp(np.asarray(logs) - np.max(logs))
    return weights / weights.sum(), float(shape)


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


def _nan_per_element(values: np.ndarray) -> np.ndarray:
    return np.full(values.shape[1], np.nan)


@contextmanager
def _silenced_arviz() -> Iterator[None]:
    """Silence ArviZ about constant or short chains, for which the result is NaN."""
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
    an ``initval``; a cloudpickle round trip keeps everything, after which the starts are removed.
    """
    copy = cloudpickle.loads(cloudpickle.dumps(model))
    starts = {
        rv.name: value for rv, value in copy.rvs_to_initial_values.items() if value is not None
    }
    for rv in copy.rvs_to_initial_values:
        copy.rvs_to_initial_values[rv] = None
    return copy, starts


def copy_with_variables(model: Any, variables: list[Any]) -> tuple[Any, list[Any]]:
    """An independent copy of a PyMC model, and of some variables of its graph within the copy."""
    return cloudpickle.loads(cloudpickle.dumps((model, variables)))


def copy_with_arrays(
    model: Any, variables: list[Any], arrays: list[np.ndarray], n: int
) -> tuple[Any, list[Any]]:
    """An independent copy of a PyMC model with other arrays in some shared variables, and these.

    Arrays that the variables hold are not read: the pickled model refers to them by position. So it
    does to the arrays that observed variables were made of, which PyMC keeps and does not use, and
    to arrays with an axis of length `n` that Deterministics alone read: zeros in the copy.
    """
    old = [variable.get_value(borrow=True) for variable in variables]
    kept = [getattr(rv.tag, "observations", None) for rv in model.observed_RVs]
    factors = set(ancestors([*model.free_RVs, *model.observed_RVs, *model.potentials]))
    apart = [v for v in ancestors(model.deterministics) if v not in factors]
    unused = [
        constant.data
        for constant in dict.fromkeys([*kept, *apart])
        if isinstance(constant, Constant)
        and isinstance(constant.data, np.ndarray)
        and (constant not in apart or n in constant.data.shape)
    ]
    held = {id(array): k for k, array in enumerate([*old, *unused])}
    arrays = [*arrays, *(np.zeros(array.shape, array.dtype) for array in unused)]
    stream = io.BytesIO()
    _ArrayPickler(stream, held).dump((model, variables))
    stream.seek(0)
    return _ArrayUnpickler(stream, arrays).load()


class _ArrayPickler(cloudpickle.Pickler):
    """Pickles some arrays, known by identity, as their positions."""

    def __init__(self, stream: BinaryIO, held: dict[int, int]) -> None:
        super().__init__(stream)
        self._held = held

    def persistent_id(self, value: object) -> int | None:
        """The position of an array, None for any other object."""
        return self._held.get(id(value)) if isinstance(value, np.ndarray) else None


class _ArrayUnpickler(pickle.Unpickler):
    """Puts arrays where positions were pickled."""

    def __init__(self, stream: BinaryIO, arrays: list[np.ndarray]) -> None:
        super().__init__(stream)
        self._arrays = arrays

    def persistent_load(self, position: int) -> np.ndarray:
        """The array at a position."""
        return self._arrays[position]


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


def pickle_state(state: tuple[type, dict[str, Any]]) -> bytes:
    """Pickle the class and the attributes of a value that holds a PyMC model."""
    return cloudpickle.dumps(state)


def unpickle(payload: bytes) -> Any:
    """Rebuild the value that `pickle_state` pickled."""
    kind, state = cloudpickle.loads(payload)
    value = object.__new__(kind)
    value.__dict__.update(state)
    return value


@contextmanager
def progress_bars(shown: bool) -> Iterator[None]:
    """Show progress bars inside only if `shown`, for functions that plan before they draw."""
    before = _BARS_WANTED.set(_BARS_WANTED.get() and shown)
    try:
        yield
    finally:
        _BARS_WANTED.reset(before)


def _is_watched(shown: bool) -> bool:
    """Whether a bar is wanted, and somebody can see it: a file gets empty lines."""
    from rich import get_console

    check_flags(progressbar=shown)
    watched = get_console().is_terminal or get_console().is_jupyter
    return bool(shown and watched and not is_notebook_without_bars() and _BARS_WANTED.get())


def is_notebook_without_bars() -> bool:
    """Whether this is a notebook in which rich would warn of each bar instead of showing it."""
    from rich import get_console

    return get_console().is_jupyter and find_spec("ipywidgets") is None


@contextmanager
def stages(shown: bool) -> Iterator[None]:
    """Show what `say_stage` says inside, and the time, once it takes `BAR_DELAY` seconds."""
    if _STAGE.get() is not None or not _is_watched(shown):
        with progress_bars(shown):
            yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    bar = Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), transient=True
    )
    task = bar.add_task("Planning", total=None)
    before = _STAGE.set(lambda words: bar.update(task, description=f"Planning: {words}"))
    start = threading.Timer(BAR_DELAY, bar.start)
    start.daemon = True
    start.start()
    try:
        yield
    finally:
        _STAGE.reset(before)
        start.cancel()
        start.join()
        if bar.live.is_started:
            bar.stop()


def say_stage(words: str) -> None:
    """Say what a plan is being made of, where `stages` shows it; public facts alone."""
    tell = _STAGE.get()
    if tell is not None:
        tell(words)


@contextmanager
def progress_bar(shown: bool) -> Iterator[Callable[[float, float], None]]:
    """Show the proved bound of R beside the found one, after `BAR_DELAY` seconds.

    Yields a function of ``(proved, found)``; both are about the model, not about data.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    if _STAGE.get() is not None or not _is_watched(shown):  # one display at a time
        yield lambda proved, found: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    bar = Progress(*columns, transient=True)
    start, task = time.perf_counter(), bar.add_task("Bounding R", total=1.0)

    def tell(proved: float, found: float) -> None:
        if time.perf_counter() - start < BAR_DELAY:
            return
        bar.start()
        share = found / proved if proved > 0 else 1.0
        words = (
            f"Bounding R: proved {format_number(proved)}, found {format_number(found, up=False)}"
        )
        bar.update(task, completed=share, description=words)

    try:
        yield tell
    finally:
        if bar.live.is_started:  # a bar that never started would print an empty line
            bar.stop()


# Ops that PyMC itself defines. `analysis` does not know PyMC, so rules are registered here.
# On PyMC 6 VonMises is written with I0e; Interpolated with an interpolating spline, elementwise.
bound_scalar_op.register(I0e, i0e)
bound_op.register(SplineWrapper, spline_bounds)
linear_algebra.BATCH_AWARE_OPS.append(SplineWrapper)
continuity.DISCONTINUITY_TESTS.append(is_step_spline)
# The density of PolyaGamma is a black box in C without bounds, but it is elementwise.
for _op in (SplineWrapper, _PolyaGammaLogDistFunc):
    record_dependence.EXTRA_ELEMENTWISE_OPS.append(_op)
    label_op.register(_op, record_dependence.label_elementwise)
    number_op.register(_op, row_equivalence.number_elementwise)
