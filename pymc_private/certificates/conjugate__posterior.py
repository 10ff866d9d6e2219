"""Conjugate models, recognized in the graph: their posterior is a named law in closed form.

A model is recognized by what it is made of (one prior, one likelihood, nothing else), never by
numbers: a match is a proof. Nothing here reads data but `Conjugate.posterior`.
"""

from __future__ import annotations

import numpy as np
from dataclasses import replace
from pymc_private.certificates.conjugate_families import Conjugate, RULES, normal_gamma
from pymc_private.certificates.conjugate import linear_regression
from pymc_private.models.distributions__laws import CONTINUOUS, SUPPORTS, is_kept, kind_of
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.data_variables import Source
from pymc_private.models.distributions import is_whole

__all__ = ["Conjugate", "recognize"]


def recognize(private: PrivateModel) -> Conjugate | None:
    """Name the conjugate family of a model, or None. Reads no data.

    Parameters
    ----------
    private : PrivateModel

    Returns
    -------
    Conjugate or None
        None unless the model has one likelihood, of one private variable, with conjugate priors
        whose parameters are numbers, and nothing else (no potential, no clip, no transform that
        cuts or orders them); or it is a linear regression of known variance.
    """
    model = private.base
    if not all(is_whole(model, rv, private.shapes[rv.name]) for rv in model.free_RVs):
        return None
    return _one_variable(private) or linear_regression(private)


def _one_variable(private: PrivateModel) -> Conjugate | None:
    model, graph = private.base, private.graph
    alone = len(private.sources) == 1 and len(graph.factors) == 1 and graph.clip is None
    if private.theta_l is not None or graph.windows:  # a set is no box: no inverse CDF stays in it
        return None
    if not alone or model.potentials or len(model.observed_RVs) != 1:
        return None
    rv = model.observed_RVs[0]
    source, shapes = private.sources[0], private.shapes
    value = model.rvs_to_values[rv]
    kept = is_kept(value, source.variable, source.domain, source.row_shape)
    if rv.name not in graph.factors or not kept:
        return None
    found = None
    if len(model.free_RVs) == 1:
        rule = RULES.get((kind_of(model.free_RVs[0]), kind_of(rv)))
        found = rule(model.free_RVs[0], rv) if rule is not None else None
    elif len(model.free_RVs) == 2:
        found = normal_gamma(model.free_RVs, rv)
    if found is None or not _fits(found, source, shapes):
        return None
    return _spread(found, shapes)


def _fits(found: Conjugate, source: Source, shapes: dict[str, tuple[int, ...]]) -> bool:
    """Whether each entry of a parameter belongs to its own entry of every record."""
    shape = shapes[found.names[0]]
    if not _is_supported(found, source, shape):
        return False
    if found.family == "normal_gamma":
        return all(shapes[name] == () for name in found.names)
    if found.likelihood == "categorical":
        return len(shape) == 1 and source.row_shape == ()
    if shape == () and found.family in ("beta", "gamma", "normal"):
        return True
    return source.axis == 0 and source.row_shape == shape and len(shape) == 1


def _is_supported(found: Conjugate, source: Source, shape: tuple[int, ...]) -> bool:
    """Whether every record of the domain is one that the likelihood can give."""
    low, high = SUPPORTS[found.likelihood]
    if found.likelihood in ("binomial", "multinomial"):
        high = float(found.constants["trials"][()])
    elif found.likelihood == "categorical":
        high = shape[0] - 1.0
    bounds = source.domain.bounds(source.row_shape)
    if found.likelihood == "multinomial" and getattr(bounds.within, "total", None) != high:
        return False
    inside = bool(np.all(bounds.lower >= low) and np.all(bounds.upper <= high))
    return inside and (source.is_whole or found.likelihood in CONTINUOUS)


def _spread(found: Conjugate, shapes: dict[str, tuple[int, ...]]) -> Conjugate:
    """Give every parameter of a prior the shape of what it is a prior of."""
    if found.family == "mvnormal":
        return found
    shape = shapes[found.names[0]]
    prior = {k: np.broadcast_to(v, shape).copy() for k, v in found.prior.items()}
    return replace(found, prior=prior)
