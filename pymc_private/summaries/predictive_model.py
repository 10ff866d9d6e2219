"""Prediction with a summary: a PyMC model of outcomes at public covariates, without a record.

It has the parameters of ``summary.model()``, data containers with the public values that are given,
and the outcomes as variables that nobody observed, so that `pm.sample_posterior_predictive` draws
them at draws of the parameters, and `pm.set_data` moves the covariates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.variable import TensorConstant

from pymc_private.errors import DomainError, Unsupported
from pymc_private.models.private_model import PrivateModel
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
        graph = substitute(without_fixed_size(rv), swaps | _fresh_generators(rv))
        dims = base.named_vars_to_dims.get(rv.name)
        for dim in dims or ():
            if dim is not None and dim not in model.coords:
                model.add_coord(dim, base.coords.get(dim), length=_fixed_length(base, dim))
        model.register_rv(graph, rv.name, dims=dims)
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


def _fixed_length(base: Any, dim: str) -> int | None:
    """The length of a dim that no covariate has; None where coordinates tell it."""
    length = base.dim_lengths[dim]
    if not isinstance(length, TensorConstant):
        raise DomainError(
            "the number of rows to predict is that of public covariates",
            got=f"no covariate with the dim {dim!r}",
            do="pass the covariates of the outcome",
        )
    return int(length.data)


def _fresh_generators(variable: Variable) -> dict[Variable, Variable]:
    """New random generators in place of those of the original model, which stays as it is."""
    return {
        v: pytensor.shared(np.random.default_rng())
        for v in ancestors([variable])
        if v.owner is None and isinstance(v.type, RandomType)
    }
