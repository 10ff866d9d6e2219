"""PyMC's own log-likelihood of each record, to search for what a certificate might have missed."""

from __future__ import annotations

import numpy as np
import pytensor
from pymc.model.transform.conditioning import remove_value_transforms

from benchmarks.zoo import N
from pymc_private.models.domains import project_onto_simplex

FAR = 5.0  # where a parameter that the likelihood does not read is unbounded


def random_points(private, rng, count):
    """Points of the box: corners, and uniform ones."""
    for k in range(count):
        point = {}
        for name, box in private.box.items():
            low, high = np.clip(box.lower, -FAR, FAR), np.clip(box.upper, -FAR, FAR)
            share = rng.random(low.shape) if k % 2 else rng.integers(0, 2, low.shape)
            value = low + share * (high - low)
            total = getattr(box.within, "total", None)
            point[name] = value if total is None else project_onto_simplex(value, low, high, total)
        yield point


def own_logp(private, data=None):
    """PyMC's log-likelihood of each record by natural parameters; ours are only the names.

    data: by name of a private `pm.Data`, in place of the model's own.
    """
    model = remove_value_transforms(private.base)  # a copy, its data too
    for name, values in (data or {}).items():
        model[name].set_value(values)
    terms = model.logp(vars=[model[name] for name in private.graph.factors], sum=False)
    inputs = [model.rvs_to_values[model[name]] for name in private.box]
    function = pytensor.function(inputs, terms, mode="FAST_COMPILE", on_unused_input="ignore")
    return lambda point: sum(map(by_record, function(*(point[name] for name in private.box))))


def by_record(term):
    return np.moveaxis(term, term.shape.index(N), 0).reshape(N, -1).sum(axis=1)


def natural_logp(model, without=()):
    """Log-density of a model in natural parameters: function of a dict."""
    plain = remove_value_transforms(model)
    terms = [v for v in (*plain.basic_RVs, *plain.potentials) if v.name not in without]
    names = [rv.name for rv in plain.free_RVs]
    inputs = [plain.rvs_to_values[plain[name]] for name in names]
    function = pytensor.function(
        inputs, plain.logp(vars=terms), mode="FAST_COMPILE", on_unused_input="ignore"
    )
    return lambda point: float(function(*(point[name] for name in names)))


def stripped(model):
    """The same model without starts, which PyMC's transforms refuse."""
    for rv in model.rvs_to_initial_values:
        model.rvs_to_initial_values[rv] = None
    return model
