"""The noise-aware model: a plain PyMC model of the parameters given a released summary.

It has the free variables, dims, coords, priors, region and Deterministics of the original that read
no record, and one potential: the log-likelihood of what was released. Nothing of the records is in
it, so that sampling it, however often, is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pymc.util import get_transformed_name
from pytensor.graph.basic import Variable

from pymc_private.errors import Incompatible
from pymc_private.models.data_variables import ancestors_with_inner_graphs, underlying_array
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.parameters import ParameterVector
from pymc_private.summaries.prior_model import prior_model
from pymc_private.summaries.protocol import Mechanism


class ScaledTransform(Transform):
    """Another value transform, shifted and scaled to the posterior: public numbers.

    Attributes
    ----------
    inner : Transform or None
    middle, scale : array
        Of the inner transform's values.
    event_ndim : int
        Axes of one draw of the distribution, whose density has as many axes less.
    """

    def __init__(
        self, inner: Transform | None, middle: np.ndarray, scale: np.ndarray, event_ndim: int
    ) -> None:
        self.inner, self.middle, self.scale = inner, middle, scale
        self.event_ndim, self.name = event_ndim, "scaled"

    def forward(self, value: Any, *inputs: Variable) -> Any:
        """From natural units to scaled ones."""
        found = value if self.inner is None else self.inner.forward(value, *inputs)
        return (found - self.middle) / self.scale

    def backward(self, value: Any, *inputs: Variable) -> Any:
        """From scaled units to natural ones."""
        found = value * self.scale + self.middle
        return found if self.inner is None else self.inner.backward(found, *inputs)

    def log_jac_det(self, value: Any, *inputs: Variable) -> Any:
        """That of the inner transform, and the logs of the scales of the entries that it sums."""
        logs = pt.zeros_like(value) + np.log(self.scale)
        found = pt.zeros_like(logs)
        if self.event_ndim:
            found = found.sum(axis=tuple(range(-self.event_ndim, 0)))
        if self.inner is not None:
            found = self.inner.log_jac_det(value * self.scale + self.middle, *inputs)
        summed = tuple(range(found.ndim, logs.ndim))
        return found + (logs.sum(axis=summed) if summed else logs)


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
        With starts at the center of the posterior, in units of its width: see `ScaledTransform`.

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
    start_at_center(model, mechanism.parameters, *mechanism.start(released))
    return model


def start_at_center(
    model: pm.Model, parameters: ParameterVector, center: np.ndarray, covariance: np.ndarray
) -> None:
    """Start chains at the center of the posterior, and measure its coordinates by its width.

    PyMC jitters starts by up to one unit of each value variable. Where the posterior is a hundred
    times narrower, such starts lie where the noise of the curvature, which grows with the distance,
    leaves the likelihood flat at a level that no chain finds back from.
    """
    naturals = parameters.natural(center[None])
    middles = parameters.split(center)
    with np.errstate(invalid="ignore"):
        scales = parameters.split(np.sqrt(np.diag(covariance)))
    own = parameters.model
    for rv in model.free_RVs:
        if rv.name not in naturals or not np.isfinite(naturals[rv.name]).all():
            continue
        model.rvs_to_initial_values[rv] = naturals[rv.name][0]
        inner, known = model.rvs_to_transforms[rv], own.rvs_to_transforms[own[rv.name]]
        middle, scale = middles[rv.name], scales[rv.name]
        same = type(inner) is type(known) and model.rvs_to_values[rv].ndim == middle.ndim
        if same and np.isfinite(scale).all() and np.all(scale > 0):
            _set_transform(model, rv, ScaledTransform(inner, middle, scale, _event_ndim(rv)))


def _event_ndim(rv: Variable) -> int:
    """Axes of one draw of a distribution."""
    return 0 if rv.owner is None else int(getattr(rv.owner.op, "ndim_supp", 0))


def _set_transform(model: pm.Model, rv: Variable, transform: Transform) -> None:
    """Give a free variable another value transform of the same shape."""
    old = model.rvs_to_values[rv]
    value = old.type(name=get_transformed_name(rv.name, transform))
    del model.values_to_rvs[old]
    model.rvs_to_values[rv], model.values_to_rvs[value] = value, rv
    model.rvs_to_transforms[rv] = transform


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
