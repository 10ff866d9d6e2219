"""Distributions of random variables: names, supports and value transforms.

A distribution is recognized by the density that PyMC registers for it, never by a name alone, and
observed values count as data only where casts keep every value of the domain. The support of a
parameter follows from its value transform: it is the box before any trim. Transforms made of more
than constants are refused, because densities are read in natural space, where such a restriction
cannot be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.transforms import _default_transform
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant, Variable, equal_computations
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast

from pymc_private.analysis import Bounds, SimplexRows, ZeroSumRows
from pymc_private.analysis.traversal import library_class_name
from pymc_private.errors import Unsupported
from pymc_private.models.domains import Categories, Counts, Domain

INF = math.inf
LIKELIHOOD_SUPPORTS = {
    "bernoulli": (0.0, 1.0),
    "binomial": (0.0, INF),  # up to the number of trials
    "geometric": (1.0, INF),
    "poisson": (0.0, INF),
    "exponential": (0.0, INF),
    "normal": (-INF, INF),
    "laplace": (-INF, INF),
    "mvnormal": (-INF, INF),
    "categorical": (0.0, INF),  # below the number of categories
    "multinomial": (0.0, INF),
}
"""Where a likelihood is not zero."""
CONTINUOUS = ("exponential", "normal", "laplace", "mvnormal")
EXACT_INTEGERS = {"float64": 2.0**53, "float32": 2.0**24, "float16": 2.0**11}
"""Up to where floats hold every whole number."""


def distribution_class(rv: Variable) -> str:
    """Name of the distribution's class, if PyMC's own density is registered for it.

    A subclass that takes `rv_op` of one of PyMC's registers its density for that one.
    """
    name = library_class_name(rv.owner.op)
    return (
        name
        if _is_defined_by_pymc(_logprob.dispatch(type(rv.owner.op)))
        else f"{name} of the user's"
    )


def distribution_name(rv: Variable) -> str:
    """Name of a distribution, in lower case."""
    return distribution_class(rv).removesuffix("RV").lower()


def _is_defined_by_pymc(function: Callable) -> bool:
    inside = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    own = str(getattr(function, "__module__", "")).split(".")[0] == "pymc"
    return own and all(_is_defined_by_pymc(part) for part in inside if callable(part))


def is_constant(variable: Variable) -> bool:
    """Whether constants alone are what a variable is computed from."""
    return all(isinstance(v, Constant) for v in ancestors([variable]) if v.owner is None)


def casts_between(value: Variable, variable: Variable) -> list[str] | None:
    """Data types that observed values are cast to, first cast first; None if more is done to them.

    PyMC puts a Cast above `pm.Data` of another type than the distribution's.
    """
    found: list[str] = []
    while value is not variable:
        if value.owner is None or not isinstance(getattr(value.owner.op, "scalar_op", None), Cast):
            return None
        found.insert(0, str(value.type.dtype))
        value = value.owner.inputs[0]
    return found


def observes_unchanged(
    value: Variable, variable: Variable, domain: Domain, row: tuple[int, ...]
) -> bool:
    """Whether observed values are the array itself, for all records of a domain.

    What stands in a closed form in their place must be the same numbers: a cast to fewer of them
    (of 1.9 to 1, of 1000 to True) is part of the density.

    Parameters
    ----------
    value : Variable
        What a distribution observes.
    variable : Variable
        The array of the records.
    domain : Domain
    row : tuple of int
        Shape of one record.
    """
    casts = casts_between(value, variable)
    if casts is None:
        return False
    bounds = domain.bounds(row)
    ends = float(np.min(bounds.lower)), float(np.max(bounds.upper))
    whole = is_integer_valued(variable, domain)
    kinds = [str(variable.type.dtype), *casts]
    return all(_cast_is_exact(old, new, ends, whole) for old, new in pairwise(kinds))


def domain_is_in_support(rv: Variable, variable: Any, domain: Domain, row: tuple[int, ...]) -> bool:
    """Whether every record of a domain is one that a known distribution can give."""
    low, high = LIKELIHOOD_SUPPORTS.get(distribution_name(rv), (math.nan, math.nan))
    ends = domain.bounds(row)
    inside = bool(np.all(ends.lower >= low) and np.all(ends.upper <= high))
    return inside and (distribution_name(rv) in CONTINUOUS or is_integer_valued(variable, domain))


def is_integer_valued(variable: Any, domain: Domain) -> bool:
    """Whether every entry of a record in the domain is a whole number."""
    if not str(variable.type.dtype).startswith("float") or isinstance(domain, Counts):
        return True
    return isinstance(domain, Categories) and all(v == int(v) for v in domain.values)


def _cast_is_exact(old: str, new: str, ends: tuple[float, float], whole: bool) -> bool:
    """Whether a cast changes no number between two ends."""
    low, high = ends
    if new.startswith("float"):
        wider = old.startswith("float") and np.dtype(new).itemsize >= np.dtype(old).itemsize
        return wider or (whole and max(abs(low), abs(high)) <= EXACT_INTEGERS.get(new, 0.0))
    if not whole:
        return False
    if new == "bool":
        return low >= 0.0 and high <= 1.0
    info = np.iinfo(new)
    return low >= info.min and high <= info.max


BOX_TRANSFORMS = {"NoneType", "LogTransform", "LogOddsTransform", "LogOddsInterval", "Interval"}
"""Transforms whose variable is free in each coordinate, so that a box may replace its support."""


ZERO_SUM = "ZeroSumTransform"
"""The transform of effects that sum to zero along their last axis."""
KEPT_TRANSFORMS = {"SimplexTransform", "CholeskyCovPacked", ZERO_SUM}
"""Transforms that a trim keeps: a potential of -inf outside restricts the box."""
INTERVAL_TRANSFORMS = {"Interval", "IntervalTransform"}
"""Transforms with two ends, of which each may be missing."""
ORDERED = "Ordered"
"""The transform of increasing vectors: boxes that do not overlap keep the order by themselves."""


def transform_name(model: pm.Model, rv: Variable) -> str:
    """Class name of the value transform."""
    transform = model.rvs_to_transforms[rv]
    name = library_class_name(transform)
    if name == ZERO_SUM and len(transform.zerosum_axes) > 1:
        return f"{name} over {len(transform.zerosum_axes)} axes"
    if name == ORDERED and (transform.positive or not transform.ascending):
        return f"{name}, positive or descending"
    return "Interval" if name in INTERVAL_TRANSFORMS else name


def prior_support(model: pm.Model, rv: Variable, shape: tuple[int, ...]) -> Bounds:
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
        return _uniform_box(0.0, INF, shape)
    if kind == "LogOddsTransform":
        return _uniform_box(0.0, 1.0, shape)
    if kind == "SimplexTransform":
        return Bounds(np.zeros(shape), np.ones(shape), SimplexRows())
    if kind == ZERO_SUM:
        return Bounds(
            np.full(shape, -INF),
            np.full(shape, INF),
            ZeroSumRows(),
        )
    if kind == "CholeskyCovPacked":
        return _packed_cholesky_support(shape)
    if kind == "Interval":
        return _interval_support(model.rvs_to_transforms[rv], rv, shape)
    if str(rv.type.dtype).startswith(("int", "uint", "bool")):
        return _discrete_support(rv, shape)
    return _uniform_box(-INF, INF, shape)


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
        if transform is None or is_default_transform(transform, rv):
            continue
        given, value = list(rv.owner.inputs), rv.type()
        if library_class_name(transform) in INTERVAL_TRANSFORMS:
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


def is_default_transform(transform: Any, rv: Variable) -> bool:
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


CONJUGATE_SUPPORTS = {
    "normal": (-INF, INF), "mvnormal": (-INF, INF), "beta": (0.0, 1.0), "uniform": (0.0, 1.0),
    "gamma": (0.0, INF), "exponential": (0.0, INF), "dirichlet": (0.0, 1.0),
}  # fmt: skip
"""Where laws of conjugate priors live; the uniform one on the unit interval."""


def has_full_support(model: pm.Model, rv: Variable, shape: tuple[int, ...]) -> bool:
    """Whether a conjugate prior keeps its own support: no transform cuts or orders it.

    A transform of the user's own restricts a posterior as a trim does, and no trim tells of it.
    """
    kind = distribution_class(rv).removesuffix("RV").lower()
    if kind not in CONJUGATE_SUPPORTS:
        return False
    name = transform_name(model, rv)
    if kind == "dirichlet":
        return name in ("SimplexTransform", "NoneType")
    if name not in BOX_TRANSFORMS:
        return False
    if name == "NoneType":  # no transform: the prior's own zeros are all there is
        return True
    low, high = CONJUGATE_SUPPORTS[kind]
    box = prior_support(model, rv, shape)
    return bool(np.all(box.lower == low) and np.all(box.upper == high))


def _uniform_box(low: float, high: float, shape: tuple[int, ...]) -> Bounds:
    return Bounds(np.full(shape, low), np.full(shape, high))


def _packed_cholesky_support(shape: tuple[int, ...]) -> Bounds:
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
    return implied.bounds(shape) if implied is not None else _uniform_box(-INF, INF, shape)


def has_central_box(model: pm.Model, rv: Variable) -> bool:
    """Whether `trim(mass=)` cuts it: coordinates free of each other but for a sum of zero."""
    boxable = transform_name(model, rv) in BOX_TRANSFORMS | {ZERO_SUM}
    return boxable and str(rv.type.dtype).startswith("float")


def constant_value(variable: Variable) -> float | None:
    """The one number a graph of constants holds, or None."""
    from pymc_private.analysis.record_dependence import ConcreteValues

    leaves = [v for v in ancestors([variable]) if v.owner is None]
    if not all(isinstance(leaf, Constant) for leaf in leaves):
        return None
    values = np.unique(np.asarray(ConcreteValues({})(variable)))
    return float(values[0]) if values.size == 1 else None
