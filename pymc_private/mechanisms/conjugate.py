"""Models whose posterior is a Dirichlet law: recognized, and answered by exact draws (T9, T13).

Beta-Bernoulli and Dirichlet-categorical (or Multinomial of one trial), one parameter, its prior
constant. The draws are from the posterior itself where the budget allows, else from that of the
likelihood to the largest power that fits; nothing is trimmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Variable
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random.basic import (
    BernoulliRV,
    BetaRV,
    CategoricalRV,
    DirichletRV,
    MultinomialRV,
)

from pymc_private.errors import BudgetExceeded, NotCertified, PymcPrivateError, Unsupported
from pymc_private.mechanisms.calibrate import calibrate
from pymc_private.mechanisms.charging import Where
from pymc_private.mechanisms.dirichlet import plan_for
from pymc_private.mechanisms.release import Release
from pymc_private.mechanisms.tables.contents import drawn_content
from pymc_private.mechanisms.tables.families import Family, Tables, tables_of
from pymc_private.mechanisms.tables.plan import CountPlan
from pymc_private.mechanisms.tables.publish import Arrays, Content, publish
from pymc_private.models.assumptions import ASSUMPTIONS
from pymc_private.models.conjugacy.posterior import recognize as closed_form
from pymc_private.models.information import information
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.count_budget import CountBudget

LIKELIHOODS = ("bernoulli", "categorical", "multinomial")


@dataclass(frozen=True)
class Conjugate:
    """A recognized model.

    Attributes
    ----------
    name : str
        Of the parameter.
    prior : array, shape (k,)
        Dirichlet parameters; of a Beta law (beta, alpha): "no" comes first.
    scalar : bool
        Whether the parameter is the probability of the second cell.
    dim : str or None
        The axis of the simplex, where the model names it.
    """

    name: str
    prior: np.ndarray
    scalar: bool
    dim: str | None


def recognize(private: PrivateModel) -> Conjugate | None:
    """Say whether a model's posterior is a Dirichlet law; looks at its graph, never at data."""
    model = private.base
    plain = not private.region and private.power == 1 and private.graph.clip is None
    plain = plain and private.theta_l is None and private.metric is None
    alone = len(model.free_RVs) == len(model.observed_RVs) == len(private.sources) == 1
    if not (plain and alone and private.records_per_unit == 1) or model.potentials:
        return None
    found = closed_form(private)  # every record of the domain is one that the likelihood can give
    if found is None or found.likelihood not in LIKELIHOODS or model.deterministics:
        return None
    free, observed = model.free_RVs[0], model.observed_RVs[0]
    of_one = found.likelihood != "multinomial"
    if private.sources[0].row_shape != (() if of_one else private.shapes[free.name]):
        return None
    likelihood, prior = observed.owner, free.owner
    given = likelihood.op.dist_params(likelihood)
    if _peeled(given[-1]) is not free:
        return None
    constants = _constants(prior.op.dist_params(prior))
    if constants is None:
        return None
    if isinstance(likelihood.op, BernoulliRV) and isinstance(prior.op, BetaRV):
        if free.ndim:
            return None
        return Conjugate(
            free.name, np.array([float(constants[1]), float(constants[0])]), True, None
        )
    if not isinstance(prior.op, DirichletRV) or free.ndim != 1:
        return None
    if isinstance(likelihood.op, MultinomialRV):
        trials = _constants(given[:1])
        if trials is None or np.ravel(trials[0]).tolist() != [1]:
            return None
    elif not isinstance(likelihood.op, CategoricalRV):
        return None
    dims = model.named_vars_to_dims.get(free.name)
    return Conjugate(free.name, np.asarray(constants[0], float), False, dims[0] if dims else None)


def sample_conjugate(
    private: Any, draws: int | None, epsilon: float | None, delta: float, where: Where
) -> Release | None:
    """Answer a recognized model where this is the better road; else None, and nothing happened."""
    if not isinstance(private, PrivateModel) or draws is None or epsilon is None:
        return None
    found = recognize(private)
    if found is None or not delta > 0.0:
        return None
    try:
        plan = plan_for(
            _public(found, private), CountBudget.of(epsilon, delta), "exact", private.neighbors,
            "row", prior=found.prior, draws=draws, profile=1.0,
        )  # fmt: skip
    except PymcPrivateError:
        return None
    # No sampler takes a simplex, so only the one probability has another road.
    if found.scalar and not _better(plan.r[0], private, draws, epsilon, delta):
        return None
    tables = _counted(found, private)
    return publish(_assuming(plan, private), _content(found, plan, tables, private), where)


def _assuming(plan: CountPlan, private: PrivateModel) -> CountPlan:
    """Say of the model what every draw from a posterior says: its prior sets the price."""
    said = (*plan.guarantee.assumptions, *ASSUMPTIONS, *private.claims)
    return replace(plan, guarantee=replace(plan.guarantee, assumptions=said))


def _better(power: float, private: PrivateModel, draws: int, epsilon: float, delta: float) -> bool:
    """Whether this power on the whole prior promises more than any plan does."""
    try:
        plan = calibrate(private, epsilon=epsilon, delta=delta, draws=draws, clip=False)
        whole = information(private, plan.n)
    except (Unsupported, NotCertified, BudgetExceeded):
        return True
    return whole.gain(private, float(power)) >= plan.chosen.information


def _peeled(variable: Variable) -> Variable:
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    return variable


def _constants(variables: list[Variable]) -> list[np.ndarray] | None:
    try:
        return [np.asarray(v) for v in constant_fold(variables, raise_not_constant=True)]
    except Exception:  # PyMC raises its own, which moved between generations
        return None


def _counted(found: Conjugate, private: PrivateModel) -> Tables:
    source = private.sources[0]
    data, cells = np.moveaxis(np.asarray(source.values()), source.axis, 0), len(found.prior)
    one = data.ndim == 1
    counts = np.bincount(data.astype(int), minlength=cells) if one else data.sum(axis=0)
    return _tables(found, private, counts)


def _public(found: Conjugate, private: PrivateModel) -> Tables:
    """As many records, all in the first cell: what of a plan fails, fails whatever the data."""
    return _tables(found, private, np.eye(1, len(found.prior), dtype=int)[0] * private.n)


def _tables(found: Conjugate, private: PrivateModel, counts: np.ndarray) -> Tables:
    dim = found.dim or f"{found.name}_dim_0"
    labels = private.base.coords.get(dim)
    coords = None if labels is None else {dim: np.asarray(labels)}
    return tables_of({found.name: xr.DataArray(counts, dims=(dim,), coords=coords)})


def _content(found: Conjugate, plan: CountPlan, tables: Tables, private: PrivateModel) -> Content:
    content = drawn_content(plan, tables)
    told: Mapping[str, Any] = {
        "power": str(plan.r[0]), "records": private.records, "domain": private.domain,
    }  # fmt: skip
    if not found.scalar:
        return replace(content, told=told)

    def second(seed: int | None) -> Arrays:
        return {found.name: content.make(seed)[found.name][..., 1]}

    return replace(content, families=(Family(found.name, (), ()),), make=second, told=told)
