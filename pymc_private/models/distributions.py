"""Where a parameter can be, by its prior's transform: the box before anybody trims."""

from __future__ import annotations

import numpy as np
import pymc as pm
from typing import Any
from pymc.distributions.transforms import _default_transform
from pytensor.graph.basic import Constant, Variable, equal_computations
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Interval as Bounds, SimplexRows, ZeroSumRows
from pymc_private.analysis.traversal__own_names import own_name
from pymc_private.errors import Unsupported
from pymc_private.models.distributions__laws import law_name
from pymc_private.models.data_variables import constant_value

INF = float("inf")
BOXABLE = {"NoneType", "LogTransform", "LogOddsTransform", "LogOddsInterval", "Interval"}
"""Transforms whose variable is free in each coordinate, so that a box may replace its support."""


ZERO_SUM = "ZeroSumTransform"
"""The transform of effects that sum to zero along their last axis."""
WALLED = {"SimplexTransform", "CholeskyCovPacked", ZERO_SUM}
"""Transforms that a trim keeps: a potential of -inf outside restricts the box."""
INTERVALS = {"Interval", "IntervalTransform"}
"""Transforms with two ends, of which each may be missing."""
ORDERED = "Ordered"
"""The transform of increasing vectors: boxes that do not overlap keep the order by themselves."""


def transform_name(model: pm.Model, rv: Variable) -> str:
    """Class name of the value transform."""
    transform = model.rvs_to_transforms[rv]
    name = own_name(transform)
    if name == ZERO_SUM and len(transform.zerosum_axes) > 1:
        return f"{name} over {len(transform.zerosum_axes)} axes"
    if name == ORDERED and (transform.positive or not transform.ascending):
        return f"{name}, positive or descending"
    return "Interval" if name in INTERVALS else name


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


def refuse_transforms(model: pm.Model) -> None:
    """Refuse transforms that say more of a prior than its distribution and constants do.

    Densities are read in natural space, where a wall made of data, or of another parameter, is not
    seen: no range covers it, and no sampler keeps to it.

    Raises
    ------
    Unsupported
        Ends, or a formula, of a transform that are not constants; the walls of a prior's own, such
        as those of Uniform(0, a), are its distribution's.
    """
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        if transform is None or is_default(transform, rv):
            continue
        given, value = list(rv.owner.inputs), rv.type()
        if own_name(transform) in INTERVALS:
            ends = [end for end in transform.args_fn(*given) if isinstance(end, Variable)]
            odd = [end for end in ends if constant_value(end) is None]
        else:
            made = [transform.backward(value, *given), transform.log_jac_det(value, *given)]
            leaves = ancestors([v for v in made if isinstance(v, Variable)], [value, *given])
            free = [v for v in leaves if v.owner is None and v not in (value, *given)]
            odd = [v for v in free if not isinstance(v, Constant)]
        if odd:
            raise Unsupported(
                f"the transform of '{rv.name}' is made of more than constants",
                got=", ".join(v.name or str(v.type) for v in odd),
                allowed="transforms whose ends and formulas are constants",
                do="write the wall into the prior: pm.Truncated, or pm.Uniform with these ends",
            )


def is_default(transform: Any, rv: Variable) -> bool:
    """Whether a transform is the one PyMC gives this distribution, with the same ends."""
    default = _default_transform(rv.owner.op, rv)
    if type(transform) is not type(default):
        return False
    if not hasattr(transform, "args_fn"):
        return type(transform).__module__.startswith("pymc.")
    ends = [list(t.args_fn(*rv.owner.inputs)) for t in (transform, default)]
    pairs = list(zip(*ends, strict=True))
    return all(
        one is two or (isinstance(one, Variable) and isinstance(two, Variable)
                       and equal_computations([one], [two]))
        for one, two in pairs
    )  # fmt: skip


NATURAL = {
    "normal": (-INF, INF), "mvnormal": (-INF, INF), "beta": (0.0, 1.0), "uniform": (0.0, 1.0),
    "gamma": (0.0, INF), "exponential": (0.0, INF), "dirichlet": (0.0, 1.0),
}  # fmt: skip
"""Where laws of conjugate priors live; the uniform one on the unit interval."""


def is_whole(model: pm.Model, rv: Variable, shape: tuple[int, ...]) -> bool:
    """Whether a conjugate prior keeps its own support: no transform cuts or orders it.

    A transform of the user's own restricts a posterior as a trim does, and no trim tells of it.
    """
    kind = law_name(rv).removesuffix("RV").lower()
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
    from pymc_private.models.data_variables import implied_support

    implied = implied_support(rv)
    return implied.bounds(shape) if implied is not None else _box(-INF, INF, shape)


def has_central_box(model: pm.Model, rv: Variable) -> bool:
    """Whether `trim(mass=)` cuts it: coordinates free of each other but for a sum of zero."""
    boxable = transform_name(model, rv) in BOXABLE | {ZERO_SUM}
    return boxable and str(rv.type.dtype).startswith("float")
