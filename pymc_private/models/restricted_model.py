"""Restricted, tempered and clipped models as plain PyMC models.

The joint prior is restricted to a region by interval transforms, and by potentials of -inf where a
transform has to stay (simplex, Cholesky, zero sum, Lipschitz regions). The power of the likelihood
is a potential; so is a clipped likelihood, which replaces the factors it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import Interval as IntervalTransform
from pymc.model.transform.conditioning import change_value_transforms, do
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_private.analysis import Bounds, SimplexRows, ZeroSumRows
from pymc_private.models.compat import copy_model, copy_with_variables, with_named_dims
from pymc_private.models.data_variables import Source
from pymc_private.models.distributions import KEPT_TRANSFORMS, transform_name
from pymc_private.models.domains import project_onto_simplex
from pymc_private.models.record_graph import RecordGraph, factor_terms, record_in_plain_ops
from pymc_private.models.sequences.row_identity import public_data

# Names of the potentials that are added.
POWER_POTENTIAL = "likelihood_power"
REGION_POTENTIAL = "region"
LIPSCHITZ_POTENTIAL = "region_lipschitz"
LIKELIHOOD_POTENTIAL = "private_likelihood"
PUBLIC_POTENTIAL = "public_potential"


class LipschitzSet(Protocol):
    """The set of parameters at which a record's log-likelihood varies by at most a limit.

    This is what a `PrivateModel` reads of the set Theta_L, which `certificates.lipschitz` builds.
    """

    @property
    def limit(self) -> float:
        """L, in nats per record, at power 1."""

    @property
    def inner(self) -> float:
        """The limit that the variation is held to in floating point, slightly below L."""

    @property
    def variation(self) -> Any:
        """An upper bound of the variation; ``variation.at(points)`` evaluates it."""

    @property
    def record(self) -> Variable:
        """The record's graph that the set was built for."""

    @property
    def prior(self) -> Variable:
        """The log prior density without the restriction to the set."""

    @property
    def start(self) -> Mapping[str, np.ndarray]:
        """A point of the set."""

    @property
    def words(self) -> str:
        """The set, described."""

    def log_indicator(self, parameters: Mapping[str, Variable]) -> Variable:
        """0 inside the set, -inf outside."""


def restricted_model(
    base: pm.Model,
    power: float,
    factors: Sequence[str],
    region: Mapping[str, Bounds],
    initvals: Mapping[str, Any],
    theta_l: LipschitzSet | None = None,
    public_part_of: RecordGraph | None = None,
) -> pm.Model:
    """The model with its joint prior restricted to a region and its likelihood to a power.

    The prior terms stay as they are: restricting the joint prior only needs a new normalizer, which
    no sampler reads. Interval transforms keep gradient samplers inside without a discontinuity;
    rows of a simplex and packed Cholesky factors keep their transform and get a potential of -inf
    outside. `pm.sample_prior_predictive` ignores both, draws from the untrimmed prior and warns of
    potentials: a box has one for that reason, which is 0.

    Parts of the factors that read no record belong to the prior (`RecordGraph.public_part`), so the
    power does not apply to those of the graph `public_part_of`.
    """
    kept = [name for name in region if transform_name(base, base[name]) in KEPT_TRANSFORMS]
    transforms = {
        name: _interval_transform(bounds)
        for name, bounds in region.items()
        if name not in kept and not _is_unbounded(bounds)
    }
    named = with_named_dims(base)
    model = change_value_transforms(named, transforms) if transforms else copy_model(named)[0]
    for name, start in initvals.items():
        if name not in region:
            model.rvs_to_initial_values[model[name]] = start
    for name, bounds in region.items():
        # The default start would be the prior's center, which may lie outside the box.
        model.rvs_to_initial_values[model[name]] = _interior_point(bounds)
    for name, start in _lipschitz_starts(theta_l, region).items():
        model.rvs_to_initial_values[model[name]] = start
    with model:
        if transforms:
            pm.Potential(_free_name(model, REGION_POTENTIAL), pt.zeros(()))
        for name in kept:
            restriction = pt.switch(_is_in_box(model[name], region[name]), 0.0, -np.inf)
            pm.Potential(_free_name(model, f"{REGION_POTENTIAL}_{name}"), restriction)
        if theta_l is not None:
            restriction = theta_l.log_indicator({rv.name: rv for rv in model.free_RVs})
            pm.Potential(_free_name(model, LIPSCHITZ_POTENTIAL), restriction)
        if power != 1.0:
            tempered = [*_factor_logps(model, factors), *_minus_public_part(model, public_part_of)]
            total = pt.sum([term.sum() for term in tempered])
            pm.Potential(_free_name(model, POWER_POTENTIAL), (power - 1.0) * total)
    return model


def model_with_likelihood_potential(
    base: pm.Model, graph: RecordGraph, sources: Sequence[Source]
) -> tuple[pm.Model, str]:
    """A copy whose likelihood is a single potential, the sum over the record graph; and its name.

    The factors themselves are removed: where one is -inf, no added term would give the lower bound
    of a clip. Observed variables stay as data, under their names and dims.
    """
    public_part = [] if graph.public_part is None else [graph.public_part]
    public = public_data([graph.record, *public_part])
    model, variables = copy_with_variables(base, [*(s.variable for s in sources), *public])
    read = [*(graph.data[s.name] for s in sources), *public]
    swaps = dict(zip(read, variables, strict=True))
    swaps |= {graph.parameters[rv.name]: rv for rv in model.free_RVs}
    outs = [record_in_plain_ops(graph), *public_part]
    logp, *public_part = graph_replace(outs, swaps, strict=False)
    name = _free_name(model, LIKELIHOOD_POTENTIAL)
    with model:
        pm.Potential(name, logp.sum())
        for part in public_part:
            pm.Potential(_free_name(model, PUBLIC_POTENTIAL), part)
    for factor in graph.factors:
        if model[factor] in model.potentials:
            model.potentials.remove(model.named_vars.pop(factor))
            model.named_vars_to_dims.pop(factor, None)
    model = with_named_dims(model)
    observed = [rv for rv in model.observed_RVs if rv.name in graph.factors]
    # Nameless copies: `do` would give a data variable the name of the variable that observes it.
    data = {rv: pt.tensor_copy(model.rvs_to_values[rv]) for rv in observed}
    return do(model, data) if observed else model, name


def _free_name(model: pm.Model, name: str) -> str:
    """The name, extended where the model has a variable of that name already."""
    while name in model.named_vars:
        name += "_"
    return name


def _factor_logps(model: pm.Model, names: Sequence[str]) -> list[Variable]:
    """Log-densities of some factors as functions of the model's own random variables.

    `model.logp` would give functions of value variables, which no later transform of the model
    could follow.
    """
    inputs = {rv.name: rv.type(name=rv.name) for rv in model.free_RVs}
    terms = dict(factor_terms(model, inputs))
    swaps = {variable: model[name] for name, variable in inputs.items()}
    return graph_replace([terms[name] for name in names], swaps, strict=False)


def _minus_public_part(model: pm.Model, graph: RecordGraph | None) -> list[Variable]:
    """The negative public part of the record's factors, in the model's own variables."""
    if graph is None or graph.public_part is None:
        return []
    swaps = {graph.parameters[rv.name]: rv for rv in model.free_RVs}
    return [-part for part in graph_replace([graph.public_part], swaps, strict=False)]


def _lipschitz_starts(
    theta_l: LipschitzSet | None, region: Mapping[str, Bounds]
) -> Mapping[str, np.ndarray]:
    """A start inside Theta_L, unless a later trim excludes it."""
    if theta_l is None:
        return {}
    start = theta_l.start
    held = all(np.all((b.lower < start[k]) & (start[k] < b.upper)) for k, b in region.items())
    return start if held else {}


def _interval_transform(bounds: Bounds) -> Any:
    low, high = np.asarray(bounds.lower), np.asarray(bounds.upper)
    finite = [None if np.isinf(bound).all() else bound for bound in (low, high)]
    if low.ndim == 0:
        return IntervalTransform(*(None if bound is None else float(bound) for bound in finite))
    # PyMC takes arrays of bounds through bounds_fn only.
    constants = tuple(None if bound is None else pt.constant(bound) for bound in finite)
    return IntervalTransform(bounds_fn=lambda *_: constants)


def _interior_point(bounds: Bounds) -> np.ndarray:
    """A point well inside: the middle, or one unit from the only finite bound."""
    low, high = np.asarray(bounds.lower, dtype=float), np.asarray(bounds.upper, dtype=float)
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0, -1.0))
    high = np.where(np.isfinite(high), high, low + 2.0)
    if isinstance(bounds.within, SimplexRows | ZeroSumRows):
        return project_onto_simplex((low + high) / 2, low, high, bounds.within.total)
    return (low + high) / 2


def _is_in_box(variable: Variable, bounds: Bounds) -> Variable:
    """Whether every entry of a variable lies in its box."""
    low, high = np.asarray(bounds.lower), np.asarray(bounds.upper)
    return pt.all(pt.and_(variable >= low, variable <= high))


def _is_unbounded(bounds: Bounds) -> bool:
    return bool(np.isneginf(bounds.lower).all() and np.isposinf(bounds.upper).all())
