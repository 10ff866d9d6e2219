"""The weights of ``weighted(y, w) ~ ...``, which Bambi keeps inside its likelihood's own code.

log p of a record is w log p(y). Bambi makes a distribution whose density holds the whole column of
weights, where no graph of the model shows it. Here the density is written once as a graph, and the
column that stands in it becomes a parameter of the distribution.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from collections.abc import Callable
from pymc.distributions.custom import CustomSymbolicDistRV
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant
from pymc_private.analysis.traversal__rebuild import rebuild

Write = Callable[..., Variable]


def name_weights(model: pm.Model, values: np.ndarray, weights: Callable[[], Variable]) -> None:
    """Make the column of weights in each density that holds one a parameter of it, in place.

    Parameters
    ----------
    model : pymc.Model
        Changed: the distribution takes the weights; its name, data and draws are what they were.
    values : array, shape (n,)
        The column.
    weights : callable
        Gives a variable that holds it; called only where it is needed.
    """
    for rv in list(model.observed_RVs):
        if isinstance(rv.owner.op, CustomSymbolicDistRV):
            density = _density(rv, model.rvs_to_values[rv], values)
            if density is not None:
                _exchange(model, rv, _weighted(rv, density, weights()))


def _density(rv: Variable, value: Variable, values: np.ndarray) -> Write | None:
    """log p of value, weights and parameters; None where no such column stands in it."""
    size, *parameters = rv.owner.inputs
    inputs = [v.type() for v in (value, *_plain(parameters))]
    whole = _logprob(rv.owner.op, [inputs[0]], size, *inputs[1:])
    held = [
        v
        for v in ancestors([whole])
        if isinstance(v, TensorConstant) and np.array_equal(np.asarray(v.data), values)
    ]
    if len(held) != 1:
        return None

    def density(value: Variable, weights: Variable, *parameters: Variable) -> Variable:
        fresh = (weights, value, *parameters)
        return rebuild([whole], dict(zip([held[0], *inputs], fresh, strict=True)))[0]

    return density


def _weighted(rv: Variable, density: Write, weights: Variable) -> Variable:
    """The same distribution with its weights as the first parameter; draws do not read them."""
    size, *parameters = rv.owner.inputs
    inner, (drawn, *_) = rv.owner.op.inner_inputs, rv.owner.op.inner_outputs
    states = parameters[len(_plain(parameters)) :]

    def draw(weights: Variable, *rest: Variable) -> Variable:
        *given, size = rest
        size = size if isinstance(size.type, TensorType) else weights.shape
        return rebuild([drawn], dict(zip(inner, (size, *given, *states), strict=True)))[0]

    kind = str(rv.owner.op)
    return pm.CustomDist.dist(
        pt.cast(weights, "float64"),
        *_plain(parameters),
        logp=density,
        dist=draw,
        size=size,
        class_name=kind.split("{")[0],
    )


def _plain(parameters: list[Variable]) -> list[Variable]:
    """Parameters without the states of random generators, which stand last."""
    return [v for v in parameters if not isinstance(v.type, RandomType)]


def _exchange(model: pm.Model, old: Variable, new: Variable) -> None:
    """Let a variable take the place of another in a model, under its name and with its data."""
    new.name = old.name
    list.__setitem__(model.observed_RVs, model.observed_RVs.index(old), new)  # a treelist refuses
    value = model.rvs_to_values.pop(old)
    model.rvs_to_values[new], model.values_to_rvs[value] = value, new
    model.rvs_to_transforms[new] = model.rvs_to_transforms.pop(old, None)
    if old in model.rvs_to_initial_values:
        model.rvs_to_initial_values[new] = model.rvs_to_initial_values.pop(old)
    model.named_vars[new.name] = new
