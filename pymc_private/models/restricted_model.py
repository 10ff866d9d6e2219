"""Restricted, tempered and clipped models as plain PyMC models.

The joint prior is restricted to a region by interval transforms, and by potentials of -inf where a
transform has to stay (simplex, Cholesky, zero sum, Lipschitz regions). The power of the likelihood
is a potential; so is a clipped likelihood, which replaces the factors it is made of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pymc_private.certificates.lipschitz.region import ThetaL

POWER_POTENTIAL, REGION_POTENTIAL, LIKELIHOOD_POTENTIAL = (
    "likelihood_power",
    "region",
    "private_likelihood",
)
LIPSCHITZ_POTENTIAL, PUBLIC_POTENTIAL = "region_lipschitz", "public_potential"
"""Names of the potentials that are added."""


def restricted_model(
    base: pm.Model,
    power: float,
    factors: Sequence[str],
    region: Mapping[str, Bounds],
    initvals: Mapping[str, Any],
    theta_l: ThetaL | None = None,
    apart: RecordGraph | None = None,
) -> pm.Model:
    """Joint prior restricted to a box, likelihood to a power.

    What of a factor reads no record belongs to the prior (`RecordGraph.apart`), so no power
    touches it.

    The prior terms stay as they are: restricting the joint prior only needs a new normalizer, which
    no sampler reads. Interval transforms keep gradient samplers inside without a wall; rows of a
    simplex and packed Cholesky factors keep their transform and get a potential of -inf outside.
    `pm.sample_prior_predictive` knows nothing of either; it draws from the untrimmed prior, and
    warns of the potentials: a box has one for that reason, which is 0.
    """
    walled = [name for name in region if transform_name(base, base[name]) in KEPT_TRANSFORMS]
    transforms = {
        name: _interval_transform(bounds)
        for name, bounds in region.items()
        if name not in walled and not _is_unbounded(bounds)
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
        for name in walled:
            inside = _is_in_box(model[name], region[name])
            pm.Potential(
                _free_name(model, f"{REGION_POTENTIAL}_{name}"), pt.switch(inside, 0.0, -np.inf)
            )
        if theta_l is not None:
            wall = theta_l.wall({rv.name: rv for rv in model.free_RVs})
            pm.Potential(_free_name(model, LIPSCHITZ_POTENTIAL), wall)
        if power != 1.0:
            tempered = [*_factor_logps(model, factors), *_minus_public_part(model, apart)]
            whole = pt.sum([term.sum() for term in tempered])
            pm.Potential(_free_name(model, POWER_POTENTIAL), (power - 1.0) * whole)
    return model


def _is_in_box(variable: Variable, bounds: Bounds) -> Variable:
    """Whether every entry of a variable lies in its box."""
    low, high = np.asarray(bounds.lower), np.asarray(bounds.upper)
    return pt.all(pt.and_(variable >= low, variable <= high))


def model_with_likelihood_potential(
    base: pm.Model, graph: RecordGraph, sources: Sequence[Source]
) -> tuple[pm.Model, str]:
    """A copy whose whole likelihood is one potential, the sum of the graph's; and its name.

    The factors themselves are taken out: where one is -inf, nothing added to it would give the
    lower end. Observed variables stay as data, under their names and dims.
    """
    apart = [] if graph.apart is None else [graph.apart]
    public = public_data([graph.record, *apart])
    model, variables = copy_with_variables(base, [*(s.variable for s in sources), *public])
    read = [*(graph.data[s.name] for s in sources), *public]
    swaps = dict(zip(read, variables, strict=True))
    swaps |= {graph.parameters[rv.name]: rv for rv in model.free_RVs}
    score, *apart = graph_replace([record_in_plain_ops(graph), *apart], swaps, strict=False)
    name = _free_name(model, LIKELIHOOD_POTENTIAL)
    with model:
        pm.Potential(name, score.sum())
        for part in apart:
            pm.Potential(_free_name(model, PUBLIC_POTENTIAL), part)
    for factor in graph.factors:
        if model[factor] in model.potentials:
            model.potentials.remove(model.named_vars.pop(factor))
            model.named_vars_to_dims.pop(factor, None)
    model = with_named_dims(model)
    observed = [rv for rv in model.observed_RVs if rv.name in graph.factors]
    # Copies without a name: `do` would give a data variable the name of what observes it.
    data = {rv: pt.tensor_copy(model.rvs_to_values[rv]) for rv in observed}
    return do(model, data) if observed else model, name


def _free_name(model: pm.Model, name: str) -> str:
    """The name, or a longer one where the model has a variable of that name."""
    while name in model.named_vars:
        name += "_"
    return name


def _minus_public_part(model: pm.Model, graph: RecordGraph | None) -> list[Variable]:
    """Minus what of the record's factors reads no record, in the model's own variables."""
    if graph is None or graph.apart is None:
        return []
    swaps = {graph.parameters[rv.name]: rv for rv in model.free_RVs}
    return [-part for part in graph_replace([graph.apart], swaps, strict=False)]


def _factor_logps(model: pm.Model, names: Sequence[str]) -> list[Variable]:
    """Log-densities of some factors as functions of the model's own random variables.

    `model.logp` would give functions of value variables, which no later transform of the model
    could follow.
    """
    inputs = {rv.name: rv.type(name=rv.name) for rv in model.free_RVs}
    terms = dict(factor_terms(model, inputs))
    swaps = {variable: model[name] for name, variable in inputs.items()}
    return graph_replace([terms[name] for name in names], swaps, strict=False)


def _lipschitz_starts(
    theta_l: ThetaL | None, region: Mapping[str, Bounds]
) -> Mapping[str, np.ndarray]:
    """A start inside Theta_L, unless a later trim has cut it off."""
    if theta_l is None:
        return {}
    start = theta_l.start
    held = all(np.all((b.lower < start[k]) & (start[k] < b.upper)) for k, b in region.items())
    return start if held else {}


def _is_unbounded(bounds: Bounds) -> bool:
    return bool(np.isneginf(bounds.lower).all() and np.isposinf(bounds.upper).all())


def _interior_point(bounds: Bounds) -> np.ndarray:
    """A point well inside: the middle, or one unit from the only end."""
    low, high = np.asarray(bounds.lower, dtype=float), np.asarray(bounds.upper, dtype=float)
    low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2.0, -1.0))
    high = np.where(np.isfinite(high), high, low + 2.0)
    if isinstance(bounds.within, SimplexRows | ZeroSumRows):
        return project_onto_simplex((low + high) / 2, low, high, bounds.within.total)
    return (low + high) / 2


def _interval_transform(bounds: Bounds) -> Any:
    low, high = np.asarray(bounds.lower), np.asarray(bounds.upper)
    ends = [None if np.isinf(end).all() else end for end in (low, high)]
    if low.ndim == 0:
        return IntervalTransform(*(None if end is None else float(end) for end in ends))
    # Array ends are only taken through bounds_fn.
    constants = tuple(None if end is None else pt.constant(end) for end in ends)
    return IntervalTransform(bounds_fn=lambda *_: constants)
