"""Value variables of a summary's model that suit its posterior: public numbers.

A chain moves in value variables. Here they are shifted and scaled to a normal approximation of the
posterior, and normal effects with a prior that depends on other parameters are partially centered:
less their conditional mean, in units of their conditional standard deviation, given the mean and
standard deviation of their prior. Where a summary tells much of effects, that is the centered
parametrization; where it tells nothing, the non-centered one; and in between what lies between
them. Other coordinates change how fast chains find a posterior, and not what it is.

Source: Papaspiliopoulos, Roberts and Sköld (2007), "A general framework for the parametrization of
hierarchical models", Statistical Science 22.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform
from pymc.util import get_transformed_name
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.basic import NormalRV

from pymc_private.summaries.density.batched import VectorizedFunction
from pymc_private.summaries.parameters import ParameterVector, forward_graphs, slopes_along
from pymc_private.summaries.protocol import LogLikelihood

DIFFERENCE = 1e-3
"""Step of numerical derivatives, in standard deviations of the posterior."""


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


class PartiallyCentered(Transform):
    """A normal effect, standardized given the mean and standard deviation of its prior.

    With all other parameters at the center, the log-likelihood of an effect is about
    ``slope (x - anchor) - curvature (x - anchor)^2 / 2``, so that given mean and standard deviation
    its posterior is normal; its standardized value is then independent of both.

    Attributes
    ----------
    anchor, slope, curvature : array
        Of the effects' shape; curvatures are at least zero.
    """

    name = "centered"

    def __init__(self, anchor: np.ndarray, slope: np.ndarray, curvature: np.ndarray) -> None:
        self.anchor, self.slope, self.curvature = anchor, slope, curvature

    def forward(self, value: Any, *inputs: Variable) -> Any:
        """From effects to standardized ones."""
        mean, sd = self._conditional(*inputs)
        return (value - mean) / sd

    def backward(self, value: Any, *inputs: Variable) -> Any:
        """From standardized effects to effects."""
        mean, sd = self._conditional(*inputs)
        return mean + value * sd

    def log_jac_det(self, value: Any, *inputs: Variable) -> Any:
        """The logs of the conditional standard deviations."""
        return pt.zeros_like(value) + pt.log(self._conditional(*inputs)[1])

    def _conditional(self, *inputs: Variable) -> tuple[Any, Any]:
        """Mean and standard deviation given those of the prior, the last two inputs."""
        mean, sd = inputs[-2:]
        curvature = _nonzero(self.curvature)
        conditional_sd = sd / pt.sqrt(1.0 + curvature * sd**2)
        gradient = _nonzero(self.slope + self.curvature * self.anchor) - curvature * mean
        return mean + conditional_sd**2 * gradient, conditional_sd


def _nonzero(constant: np.ndarray) -> np.ndarray:
    """Hardly more than zero, where all are: PyTensor 2 rewrites products with zeros for ever."""
    return constant if constant.any() else np.full_like(constant, 1e-30)


def start_at_center(
    model: pm.Model,
    parameters: ParameterVector,
    center: np.ndarray,
    covariance: np.ndarray,
    log_likelihood: LogLikelihood,
) -> None:
    """Start chains at the center of the posterior, and give the model coordinates made for it.

    PyMC jitters starts by up to one unit of each value variable. Where the posterior is a hundred
    times narrower, such starts lie where the noise of the curvature, which grows with the distance,
    leaves the likelihood flat at a level that no chain finds back from.

    Parameters
    ----------
    model : pymc.Model
        Changed in place. It has all parameters by name, free or computed from others. Priors need
        not be those of the parameters: a variable whose support leaves out the center is left
        alone, and one with another transform keeps it.
    parameters : ParameterVector
    center, covariance : array, shapes (p,) and (p, p)
        Of a normal approximation, in unconstrained coordinates.
    log_likelihood : callable
        Of unconstrained vectors (S, p), as the summary tells it.
    """
    naturals = {name: each[0] for name, each in parameters.natural(center[None]).items()}
    for rv in model.free_RVs:
        known = rv.name in naturals and np.isfinite(naturals[rv.name]).all()
        if not known or not rv.dtype.startswith("float"):
            continue
        value = _value(model, rv, naturals)
        if not np.isfinite(value).all():
            continue
        model.rvs_to_initial_values[rv] = naturals[rv.name]
        found = _transform(model, rv, parameters, center, covariance, log_likelihood)
        if found is not None and np.allclose(value, parameters.split(center)[rv.name]):
            _set_transform(model, rv, found)


def _value(model: pm.Model, rv: Variable, naturals: Mapping[str, np.ndarray]) -> np.ndarray | float:
    """A free variable's value at the center; NaN where its support leaves out the center.

    NaN, too, where its support depends on variables that no center is known of.
    """
    natural, inner = naturals[rv.name], model.rvs_to_transforms[rv]
    if inner is None or rv.owner is None:
        return natural
    graph = inner.forward(pt.as_tensor(natural), *rv.owner.inputs)
    known = {
        other: pt.as_tensor(naturals[other.name]).astype(other.dtype)
        for other in model.free_RVs
        if other.name in naturals and other is not rv
    }
    (graph,) = graph_replace([graph], known, strict=False)
    if not set(model.free_RVs).isdisjoint(ancestors([graph])):
        return np.nan
    with np.errstate(all="ignore"):
        return np.asarray(graph.eval(mode="FAST_COMPILE"))


def _transform(
    model: pm.Model,
    rv: Variable,
    parameters: ParameterVector,
    center: np.ndarray,
    covariance: np.ndarray,
    log_likelihood: LogLikelihood,
) -> Transform | None:
    """A value transform of a free variable made for the posterior, or None to keep its own."""
    own = parameters.model
    inner, known = model.rvs_to_transforms[rv], own.rvs_to_transforms[own[rv.name]]
    middle = parameters.split(center)[rv.name]
    if type(inner) is not type(known) or model.rvs_to_values[rv].ndim != middle.ndim:
        return None
    if inner is None and _is_effect(model, rv):
        places = parameters.split(np.arange(len(center)))[rv.name]
        told = _told(log_likelihood, center, covariance, np.ravel(places))
        if np.isfinite(told).all():
            return PartiallyCentered(middle, *(part.reshape(middle.shape) for part in told))
    with np.errstate(invalid="ignore"):
        scale = parameters.split(np.sqrt(np.diag(covariance)))[rv.name]
    if not (np.isfinite(scale).all() and np.all(scale > 0)):
        return None
    return ScaledTransform(inner, middle, scale, _event_ndim(rv))


def _is_effect(model: pm.Model, rv: Variable) -> bool:
    """Whether a free variable is normal, with a prior that depends on other free variables."""
    if rv.owner is None or not isinstance(rv.owner.op, NormalRV):
        return False
    return not set(model.free_RVs).isdisjoint(ancestors(rv.owner.inputs))


def _told(
    log_likelihood: LogLikelihood, center: np.ndarray, covariance: np.ndarray, places: np.ndarray
) -> np.ndarray:
    """Slopes and curvatures of the log-likelihood along some coordinates, each on its own.

    Found over one standard deviation, given all other parameters, to both sides. Where the
    likelihood is not concave, as noise can make it, it is taken to tell nothing: both are zero.
    NaN where the covariance is not positive definite.
    """
    try:
        with np.errstate(all="ignore"):
            steps = np.diag(np.linalg.inv(covariance))[places] ** -0.5
    except np.linalg.LinAlgError:
        return np.full((2, len(places)), np.nan)
    away = np.zeros((len(places), len(center)))
    away[np.arange(len(places)), places] = steps
    with np.errstate(all="ignore"):
        found = log_likelihood(np.concatenate([center[None], center + away, center - away]))
        ahead, behind = np.split(found[1:] - found[0], 2)
        slope, curvature = (ahead - behind) / (2.0 * steps), -(ahead + behind) / steps**2
    return np.where(curvature <= 0, 0.0, np.stack([slope, curvature]))


def value_covariance(
    model: pm.Model, parameters: ParameterVector, center: np.ndarray, covariance: np.ndarray
) -> np.ndarray | None:
    """Covariance of a model's value variables, in its order, of a normal approximation.

    Value variables are taken to be linear in unconstrained parameters about the center.

    Parameters
    ----------
    model : pymc.Model
    parameters : ParameterVector
    center, covariance : array, shapes (p,) and (p, p)
        Of unconstrained parameters, in their order.

    Returns
    -------
    array, shape (p, p), or None
        None where the model has other free variables, or the covariance is not positive definite.
    """
    names = tuple(rv.name for rv in model.free_RVs)
    if set(names) != set(parameters.names):
        return None
    try:
        root = np.linalg.cholesky(covariance)
        slopes = slopes_along(_values(model, parameters, names), center, root, DIFFERENCE)
        found = slopes.T @ slopes
        np.linalg.cholesky(found)
    except np.linalg.LinAlgError:
        return None
    return np.asarray(found)


def _values(
    model: pm.Model, parameters: ParameterVector, names: Sequence[str]
) -> Callable[[np.ndarray], np.ndarray]:
    """Value variables of a model as a function of unconstrained parameters: (S, p) to (S, p)."""
    forward = VectorizedFunction(*forward_graphs(model, tuple(names)))

    def values(theta: np.ndarray) -> np.ndarray:
        natural = parameters.natural(theta)
        parts = forward(*(natural[name] for name in names))
        return np.concatenate([part.reshape(len(theta), -1) for part in parts], axis=1)

    return values


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
