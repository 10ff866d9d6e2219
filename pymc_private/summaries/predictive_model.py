"""Prediction with a summary: a PyMC model of outcomes at public covariates, without a record.

It has the parameters of ``summary.model()``, data containers with the public values that are given,
and the outcomes as variables that nobody observed, so that `pm.sample_posterior_predictive` draws
them at draws of the parameters, and `pm.set_data` moves the covariates.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorConstant

from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import underlying_array
from pymc_private.models.private_model import PrivateModel, record_dims
from pymc_private.release.predict import (
    covariate_replacements,
    refuse_private_inputs,
    substitute,
    warn_of_embedded_numbers,
    without_fixed_size,
)
from pymc_private.summaries.noise_aware_model import refuse_private_arrays
from pymc_private.summaries.prior_model import prior_model


def predictive_model(private: PrivateModel, covariates: Mapping[str, Any]) -> pm.Model:
    """A model of the outcomes at public covariates; see `Summary.predictive_model`.

    Parameters
    ----------
    private : PrivateModel
        Its data are not read.
    covariates : mapping of str to array
        Public values of its ``pm.Data``, any number of rows.

    Raises
    ------
    DomainError
        A covariate is missing, unknown, or written into the model as an array.
    Unsupported
        The model has no outcome with a distribution.
    """
    base = private.base
    if not base.observed_RVs:
        raise Unsupported(
            "this model predicts no outcome",
            got="a likelihood of potentials alone",
            allowed="one or more observed variables",
        )
    checked = covariate_replacements(base, covariates)
    for rv in base.observed_RVs:
        refuse_private_inputs(base, rv, set(checked))
        warn_of_embedded_numbers(rv, [*checked, *base.free_RVs])
    model = prior_model(private)
    swaps = _with_covariates(model, base, covariates)
    swaps |= {rv: model[rv.name] for rv in base.free_RVs}
    for rv in base.observed_RVs:
        free = _without_private_size(without_fixed_size(rv), private, set(swaps))
        graph = _without_observations(substitute(free, swaps | _fresh_generators(rv)))
        model.register_rv(graph, rv.name, dims=_dims_of(graph, rv.name, model, private))
    refuse_private_arrays(model, private)
    return model


def _with_covariates(
    model: pm.Model, base: Any, covariates: Mapping[str, Any]
) -> dict[Variable, Variable]:
    """Declare the covariates in the new model; what replaces them and the lengths of their dims."""
    swaps: dict[Variable, Variable] = {}
    for name, values in covariates.items():
        old = base[name]
        array = np.asarray(values).astype(old.type.dtype)
        dims = base.named_vars_to_dims.get(name)
        with model:
            if name in model.named_vars:  # a Deterministic of parameters reads it
                pm.set_data({name: array})
            else:
                pm.Data(name, array, dims=dims)
        swaps[old] = model[name]
    lengths = {d: v for d, v in base.dim_lengths.items() if not isinstance(v, TensorConstant)}
    swaps |= {old: model.dim_lengths[d] for d, old in lengths.items() if d in model.dim_lengths}
    return swaps


def _without_observations(graph: Variable) -> Variable:
    """A new graph without the observed values that PyMC notes at its outcomes, and copies do."""
    for variable in ancestors([graph]):
        if hasattr(variable.tag, "observations"):
            variable.tag = copy(variable.tag)
            del variable.tag.observations
    return graph


def _without_private_size(rv: Any, private: PrivateModel, given: set[Variable]) -> Any:
    """A random variable whose size is that of its parameters, where the model's is the records'."""
    node = rv.owner
    if node is None or not isinstance(node.op, RandomVariable):
        return rv
    base = private.base
    hidden = {source.variable for source in private.sources}
    hidden |= {underlying_array(base.rvs_to_values[v]) for v in base.observed_RVs}
    hidden |= {v for v in map(base.dim_lengths.get, record_dims(private)) if v is not None}
    if not (hidden - given).intersection(ancestors([node.op.size_param(node)], blockers=given)):
        return rv
    fresh = node.op.make_node(node.op.rng_param(node), None, *node.op.dist_params(node))
    return fresh.outputs[1]


def _dims_of(
    graph: Variable, name: str, model: pm.Model, private: PrivateModel
) -> tuple[str | None, ...] | None:
    """Dims of an outcome, those of its entries declared; of records, whose labels stay behind.

    Without covariates an outcome is that of one record.
    """
    base, hidden = private.base, record_dims(private)
    dims = base.named_vars_to_dims.get(name)
    if dims is None:
        return None
    if graph.type.ndim < len(dims):
        dims = tuple(dim for dim in dims if dim not in hidden)
    if None in dims or len(dims) != graph.type.ndim:
        return None
    for dim, length in zip(dims, graph.type.shape, strict=True):
        if dim in model.dim_lengths:
            continue
        if dim not in hidden:
            model.add_coord(dim, base.coords.get(dim), length=int(base.dim_lengths[dim].eval()))
        elif length == 1:
            model.add_coord(dim, length=1)
        else:
            return None
    return tuple(dims)


def _fresh_generators(variable: Variable) -> dict[Variable, Variable]:
    """New random generators in place of those of the original model, which stays as it is."""
    return {
        v: pytensor.shared(np.random.default_rng())
        for v in ancestors([variable])
        if v.owner is None and isinstance(v.type, RandomType)
    }
