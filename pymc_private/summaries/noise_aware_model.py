"""The noise-aware model: a plain PyMC model of the parameters given a released summary.

It has the free variables, dims, coords, priors, region and Deterministics of the original that read
no record, and one potential: the log-likelihood of what was released. Nothing of the records is in
it, so that sampling it, however often, is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pymc as pm

from pymc_private.errors import Incompatible
from pymc_private.models.data_variables import ancestors_with_inner_graphs, underlying_array
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.posterior_coordinates import start_at_center
from pymc_private.summaries.prior_model import prior_model
from pymc_private.summaries.protocol import Mechanism

SUMMARY_POTENTIAL = "noisy_summary"
"""Name of the potential, extended where the model has a variable of that name."""


def noise_aware_model(
    private: PrivateModel, mechanism: Mechanism, released: Mapping[str, np.ndarray]
) -> pm.Model:
    """The posterior of the parameters given a released summary, as a plain PyMC model.

    Parameters
    ----------
    private : PrivateModel
        The model the summary is of. Its data are not read.
    mechanism : Mechanism
    released : mapping of str to array
        What `mechanism.release` returned.

    Returns
    -------
    pymc.Model
        With starts at the center of the posterior, in coordinates made for it: see
        `start_at_center`.

    Raises
    ------
    Incompatible
        The potential refers to the private data, or is not of these parameters.
    """
    return add_summary(prior_model(private), private, mechanism, released)


def add_summary(
    model: pm.Model,
    private: PrivateModel,
    mechanism: Mechanism,
    released: Mapping[str, np.ndarray],
) -> pm.Model:
    """Add the likelihood of a released summary to a model that names all of its parameters."""
    names = mechanism.parameters.names
    potential = mechanism.potential(released, {name: model[name] for name in names})
    name = SUMMARY_POTENTIAL
    while name in model.named_vars:
        name += "_"
    with model:
        pm.Potential(name, potential)
    refuse_private_arrays(model, private)
    start_at_center(
        model, mechanism.parameters, *mechanism.start(released), mechanism.log_likelihood(released)
    )
    return model


def refuse_private_arrays(model: pm.Model, private: PrivateModel) -> None:
    """Refuse a model whose graphs reach private data or observed values of another one."""
    base = private.base
    hidden = {source.variable for source in private.sources}
    hidden |= {underlying_array(base.rvs_to_values[rv]) for rv in base.observed_RVs}
    outs = [*model.named_vars.values(), *model.rvs_to_values.values()]
    every = set(ancestors_with_inner_graphs(outs))
    noted = any(getattr(variable.tag, "observations", None) is not None for variable in every)
    if noted or hidden.intersection(every):
        raise Incompatible(
            "the model of a summary would hold private data",
            got="a potential that reads them",
            allowed="what was released, and public constants",
            do="please report this model",
        )
