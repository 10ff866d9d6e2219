"""Where a parameter can be, by its prior's transform: the box before anybody trims."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable

from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis import SimplexRows, ZeroSumRows
from pymc_private.models.sources import constant_value

INF = float("inf")
BOXABLE = {"NoneType", "LogTransform", "LogOddsTransform", "LogOddsInterval", "Interval"}
"""Transforms whose variable is free in each coordinate, so that a box may replace its support."""


ZERO_SUM = "ZeroSumTransform"
"""The transform of effects that sum to zero along their last axis."""
WALLED = {"SimplexTransform", "CholeskyCovPacked", ZERO_SUM}
"""Transforms that a trim keeps: a potential of -inf outside restricts the box."""
ORDERED = "Ordered"
"""The transform of increasing vectors: boxes that do not overlap keep the order by themselves."""


def transform_name(model: pm.Model, rv: Variable) -> str:
    """Class name of the value transform."""
    transform = model.rvs_to_transforms[rv]
    name = type(transform).__name__
    if name == ZERO_SUM and len(transform.zerosum_axes) > 1:
        return f"{name} over {len(transform.zerosum_axes)} axes"
    return "Interval" if name == "IntervalTransform" else name


def support(model: pm.Model, rv: Variable, shape: tuple[int, ...]) -> Bounds:
    """Bounds of one free variable in its natural space.

    Parameters
    ----------
    model : pymc.Model
    rv : free random variable
    shape : tuple of int
        Of the variable.

    Returns
    -------
    Bounds
        Infinite ends where the prior has no bound; rows on the simplex are known to be so.
    """
    kind = transform_name(model, rv)
    if kind == "LogTransform":
        return _box(0.0, INF, shape)
    if kind == "LogOddsTransform":
        return _box(0.0, 1.0, shape)
    if kind == "SimplexTransform":
        return Bounds(np.zeros(shape), np.ones(shape), SimplexRows())
    if kind == ZERO_SUM:
        return Bounds(np.full(shape, -INF), np.full(shape, INF), ZeroSumRows())
    if kind == "CholeskyCovPacked":
        return _packed_support(shape)
    if kind == "Interval":
        return _interval_support(model.rvs_to_transforms[rv], rv, shape)
    if str(rv.type.dtype).startswith(("int", "uint", "bool")):
        return _discrete_support(rv, shape)
    return _box(-INF, INF, shape)


NATURAL = {
    "normal": (-INF, INF), "mvnormal": (-INF, INF), "beta": (0.0, 1.0), "uniform": (0.0, 1.0),
    "gamma": (0.0, INF), "exponential": (0.0, INF), "dirichlet": (0.0, 1.0),
}  # fmt: skip
"""Where laws of conjugate priors live; the uniform one on the unit interval."""


def is_whole(model: pm.Model, rv: Variable, shape: tuple[int, ...]) -> bool:
    """Whether a conjugate prior keeps its own support: no transform cuts or orders it.

    A transform of the user's own restricts a posterior as a trim does, and no trim tells of it.
    """
    kind = type(rv.owner.op).__name__.removesuffix("RV").lower()
    if kind not in NATURAL:
        return False
    name = transform_name(model, rv)
    if kind == "dirichlet":
        return name in ("SimplexTransform", "NoneType")
    if name not in BOXABLE:
        return False
    if name == "NoneType":  # no transform: the prior's own zeros are all there is
        return True
    low, high = NATURAL[kind]
    box = support(model, rv, shape)
    return bool(np.all(box.lower == low) and np.all(box.upper == high))


def _box(low: float, high: float, shape: tuple[int, ...]) -> Bounds:
    return Bounds(np.full(shape, low), np.full(shape, high))


def _packed_support(shape: tuple[int, ...]) -> Bounds:
    """A lower triangle, row by row: its diagonal is positive, the rest is free."""
    lower = np.full(shape, -INF)
    diagonal = np.cumsum(np.arange(1, shape[-1] + 1)) - 1
    lower[..., diagonal[diagonal < shape[-1]]] = 0.0
    return Bounds(lower, np.full(shape, INF))


def _interval_support(transform: Any, rv: Variable, shape: tuple[int, ...]) -> Bounds:
    """Ends of an interval transform, where they are constants."""
    ends = transform.args_fn(*rv.owner.inputs)
    values = [None if end is None else _constant_array(end) for end in ends]
    low = -INF if values[0] is None else values[0]
    high = INF if values[1] is None else values[1]
    return Bounds(np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy())


def _constant_array(end: Any) -> Any:
    if isinstance(end, int | float | np.ndarray):
        return end
    return constant_value(end)


def _discrete_support(rv: Variable, shape: tuple[int, ...]) -> Bounds:
    from pymc_private.models.sources import implied_support

    implied = implied_support(rv)
    return implied.bounds(shape) if implied is not None else _box(-INF, INF, shape)
