"""Predictions at public covariates, from released draws and the skeleton of a model.

A prediction is post-processing of the draws and of public numbers. Graphs that read private
data or arrays with one entry per record are refused; numbers written into the model that look
as if they were computed from data (more than two digits) are warned of.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import xarray as xr
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.variable import TensorConstant

from pymc_private.errors import DomainError, PrivacyWarning
from pymc_private.models.data_variables import constants_with_axis
from pymc_private.models.declare import resolve_model
from pymc_private.models.distributions import implied_support
from pymc_private.models.lint import is_plain_number
from pymc_private.models.lint_facts import held_values, value_leaves
from pymc_private.models.private_model import PrivateModel
from pymc_private.release.allowed import SAMPLE_DIMS, ReleaseContents
from pymc_private.release.estimates import Estimate, mean_of_array
from pymc_private.release.expressions import draws_dict, reason_not_released


def warn_of_embedded_numbers(variable: Variable, given: Collection[Variable]) -> None:
    """Warn of numbers that hardly anybody would write without having seen data.

    Such as a mean to center by, which a prediction that reads it reveals. Looks at the model alone
    (a skeleton is enough) and shows none of the numbers. The absence of a warning proves nothing;
    plain numbers are defined in `pymc_private.lint`.

    Parameters
    ----------
    variable : Variable
        What is predicted.
    given : collection of Variable
        Free variables and covariates, whose values come from elsewhere.
    """
    unusual = 0
    for leaf in value_leaves(variable, set(given), set()):
        values = held_values(leaf)
        if values.dtype.kind == "f":
            unusual += sum(
                not is_plain_number(value) for value in np.unique(values[np.isfinite(values)])
            )
    if unusual:
        many = f"{unusual} numbers that are" if unusual > 1 else "a number that is"
        warnings.warn(
            f"the prediction of {variable.name} reads {many} written into the model and of more "
            "than two digits. If any was computed from the records (a mean to center by, a sd to "
            "divide by), whoever sees the prediction may learn it, outside the guarantee: write it "
            "as pm.Data and pass a public value",
            PrivacyWarning,
            stacklevel=4,
        )


@dataclass(frozen=True, eq=False, repr=False)
class Prediction:
    """What a release predicts at public covariates.

    Attributes
    ----------
    draws : xarray.DataArray
        One predicted value per released draw: dims ``chain`` (size 1), ``draw``, ...
    mean : Estimate
        Predictive mean of each element, with its error.
    """

    draws: xr.DataArray
    mean: Estimate

    def plot(self, ax: Any = None) -> Any:
        """Draw the predictive means with their errors."""
        return self.mean.plot(ax)

    def __repr__(self) -> str:
        return repr(self.mean)

    def _repr_html_(self) -> str:
        return self.mean._repr_html_()


def predict(
    release: ReleaseContents,
    what: str | None = None,
    *,
    model: Any = None,
    bounds: tuple[float, float] | None = None,
    delta: float = 0.05,
    **covariates: Any,
) -> Prediction:
    """Predict an observed variable, or compute a Deterministic, at public covariates; free.

    Parameters
    ----------
    release : Release
    what : str, optional
        Name of an observed variable or of a Deterministic (withheld ones as well: at public
        covariates they hold nothing private). Default: the only observed variable.
    model : pymc.Model, PrivateModel or Bambi model, optional
        The model, or a skeleton of it on made-up data. Default: the model of the context. That of
        a summary has no outcome to predict.
    bounds : tuple of float, optional
        Public bounds of the prediction; those of a finite support are known.
    delta : float
        The error bounds fail with at most this probability, all elements together.
    **covariates : array
        Public values of the ``pm.Data`` it depends on; any number of rows.

    Returns
    -------
    Prediction

    Raises
    ------
    DomainError
        No model, or no such variable; a covariate that is missing, unknown or written into the
        model as an array; a parameter that was not released; covariates of shapes that do not fit.

    Notes
    -----
    *Promise*: post-processing of the draws and of public numbers. Covariates of the private
    records are not public: a prediction at them is outside the guarantee, and so are numbers
    computed from the records and written into the model; a `PrivacyWarning` names what looks so.
    """
    model = model.base if isinstance(model, PrivateModel) else resolve_model(model)
    variable = _predicted_variable(model, what)
    replacements = covariate_replacements(model, covariates)
    parameters = _parameter_inputs(release, model, variable)
    refuse_private_inputs(model, variable, set(replacements))
    warn_of_embedded_numbers(variable, [*replacements, *model.free_RVs])
    graph = substitute(without_fixed_size(variable), {**replacements, **parameters[0]})
    found = _evaluate_draws(graph, list(parameters[0].values()), parameters[1], release)
    dims = model.named_vars_to_dims.get(variable.name) or ()
    draws = _as_dataarray(variable.name, found, dims)
    stated = None if bounds is None else _stated_bounds(bounds)
    known = stated or _implied_bounds(model, variable, found.shape[1:])
    return Prediction(
        draws, mean_of_array(release, f"prediction of {variable.name}", draws, known, delta)
    )


def _predicted_variable(model: Any, what: str | None) -> Any:
    """The variable of that name; by default the only observed one."""
    names = [v.name for v in (*model.observed_RVs, *model.deterministics)]
    if what is None:
        if len(model.observed_RVs) == 1:
            return model.observed_RVs[0]
        if not model.observed_RVs:
            raise DomainError(
                "this model predicts no outcome; that of a summary holds none",
                got="what=None",
                allowed=", ".join(names) or None,
                do="pass model=, the original model or a skeleton of it on made-up data",
            )
        raise DomainError("Which variable?", got="what=None", allowed=", ".join(names))
    if not (isinstance(what, str) and what in names):
        raise DomainError(
            "Only an observed variable or a Deterministic is predicted.",
            got=what if isinstance(what, str) else type(what).__name__,
            allowed=", ".join(names),
        )
    return model[what]


def _stated_bounds(bounds: Any) -> tuple[float, float]:
    """Ends of a public range, which may be infinite."""
    try:
        low, high = (float(end) for end in bounds)
    except (TypeError, ValueError, OverflowError):
        low = high = np.nan
    if not low < high:
        raise DomainError(
            "bounds= are two numbers, lower < upper.", got=repr(bounds)[:60], allowed="(0, 1)"
        )
    return low, high


def _as_array(value: Any) -> np.ndarray:
    """What NumPy makes of a covariate; an object that it cannot read stays one."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError):  # ragged lists, tables that have no array
        return np.array(None)


def covariate_replacements(model: Any, covariates: Mapping[str, Any]) -> dict[Variable, Variable]:
    """Replacements of data variables by public values, and of the lengths of their dims."""
    data = {variable.name: variable for variable in model.data_vars}
    replacements: dict[Variable, Variable] = {}
    for name, value in covariates.items():
        if name not in data:
            raise DomainError(
                f"The model has no data variable {name!r}.",
                allowed=", ".join(data) or "none: write covariates as pm.Data",
            )
        old = data[name]
        array = _as_array(value)
        if array.ndim != old.type.ndim or array.dtype.kind not in "iufb":
            raise DomainError(
                f"Covariate {name!r} has another number of axes, or is no array of numbers.",
                got=f"{array.dtype} of shape {array.shape}",
                allowed=f"{old.type.ndim} axes",
            )
        replacements[old] = pytensor.tensor.as_tensor_variable(array.astype(old.type.dtype))
        for dim, size in zip(model.named_vars_to_dims.get(name) or (), array.shape, strict=False):
            length = model.dim_lengths.get(dim)
            if length is not None and not isinstance(length, TensorConstant):
                replacements[length] = pytensor.tensor.constant(size, dtype=length.type.dtype)
    return replacements


def _parameter_inputs(
    release: ReleaseContents, model: Any, variable: Variable
) -> tuple[dict[Variable, Variable], list[np.ndarray]]:
    """Inputs that replace the free variables it reads, and the draws of these."""
    values, read = draws_dict(release), set(ancestors([variable]))
    inputs, draws = {}, []
    for rv in model.free_RVs:
        if rv not in read:
            continue
        if rv.name not in values:
            raise DomainError(
                f"The prediction needs {rv.name!r}, which was not released"
                f"{reason_not_released(release, rv.name)}.",
                allowed=", ".join(values),
            )
        inputs[rv] = rv.type(name=rv.name)
        draws.append(values[rv.name])
    return inputs, draws


def refuse_private_inputs(model: Any, variable: Variable, given: set[Variable]) -> None:
    """Refuse data variables, observed variables and arrays of records among what else it reads."""
    read = set(ancestors([variable]))
    missing = [v.name for v in model.data_vars if v in read - given]
    observed = [v.name for v in model.observed_RVs if v in read and v is not variable]
    if missing or observed:
        raise DomainError(
            "A prediction reads public covariates only.",
            got=f"nothing for {', '.join(missing + observed)}",
            do=f"pass {', '.join(f'{name}=...' for name in missing + observed)}",
        )
    size = variable.owner.op.size_param(variable.owner) if _is_random_variable(variable) else None
    lengths = {int(np.shape(v.get_value())[0]) for v in given if hasattr(v, "get_value") and v.ndim}
    # Without covariates the number of records is known from the observed variables alone.
    lengths |= {rows for v in model.observed_RVs if (rows := _record_count(model.rvs_to_values[v]))}
    for rows in lengths:
        embedded = [c for c, _ in constants_with_axis([variable], rows, skip=[size]).values()]
        if embedded:
            raise DomainError(
                "The model has an array with one entry per record written into it.",
                got=", ".join(f"shape {np.shape(c.data)}" for c in embedded),
                do="write it as pm.Data in the skeleton and pass its public value",
            )


def _record_count(value: Any) -> int:
    """The length of an observed variable's data, constant or shared; 0 without an axis."""
    data = value.get_value() if hasattr(value, "get_value") else getattr(value, "data", 0)
    return int(np.shape(data)[0]) if np.ndim(data) else 0


def _is_random_variable(variable: Variable) -> bool:
    return variable.owner is not None and isinstance(variable.owner.op, RandomVariable)


def without_fixed_size(variable: Any) -> Any:
    """A random variable whose parameters give its size, where the model fixed a number."""
    if not _is_random_variable(variable):
        return variable
    node = variable.owner
    if not isinstance(node.op.size_param(node), TensorConstant):
        return variable
    fresh = node.op.make_node(node.op.rng_param(node), None, *node.op.dist_params(node))
    return fresh.outputs[1]


def substitute(variable: Variable, replacements: Mapping[Variable, Variable]) -> Variable:
    """The graph of the variable with some of what it reads replaced."""
    read = set(ancestors([variable], blockers=set(replacements)))  # nothing above what is replaced
    inside = {old: new for old, new in replacements.items() if old in read}
    return graph_replace([variable], inside, strict=False)[0]


def _evaluate_draws(
    graph: Variable, inputs: list[Any], draws: list[np.ndarray], release: ReleaseContents
) -> np.ndarray:
    """Evaluate the graph at each released draw, with new randomness for random variables."""
    count = release.posterior.sizes["draw"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = pm.pytensorf.compile(
            inputs,
            graph,
            random_seed=int(np.random.SeedSequence().generate_state(1)[0]),  # from the OS
            mode="FAST_COMPILE",
            on_unused_input="ignore",
        )
        try:
            rows = [np.array(run(*(values[i] for values in draws))) for i in range(count)]
        except (ArithmeticError, AssertionError, LookupError, TypeError, ValueError) as cause:
            raise DomainError(
                "These covariates do not fit the model.",
                do="keep every axis but that of the rows, and the same rows in each covariate",
            ) from cause
    return np.stack(rows)


def _as_dataarray(name: str, found: np.ndarray, dims: tuple[str | None, ...]) -> xr.DataArray:
    inner = [dim or f"{name}_dim_{k}" for k, dim in enumerate(dims)]
    inner = inner if len(inner) == found.ndim - 1 else [
        f"{name}_dim_{k}" for k in range(found.ndim - 1)
    ]  # fmt: skip
    return xr.DataArray(found[None], dims=(*SAMPLE_DIMS, *inner), name=name)


def _implied_bounds(
    model: Any, variable: Variable, shape: tuple[int, ...]
) -> tuple[Any, Any] | None:
    """Bounds of a finite support that the distribution implies; None if it has none."""
    if variable not in model.observed_RVs:
        return None
    try:
        implied = implied_support(variable)
    except Exception:  # of an unknown distribution
        return None
    if implied is None:
        return None
    box = implied.bounds(shape)
    return np.asarray(box.lower, float), np.asarray(box.upper, float)
