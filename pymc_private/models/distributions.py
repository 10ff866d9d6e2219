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
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis import Bounds, SimplexRows, ZeroSumRows
from pymc_private.analysis.record_dependence import ConcreteValues
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
"""The interval outside of which a likelihood is zero."""
CONJUGATE_SUPPORTS = {
    "normal": (-INF, INF), "mvnormal": (-INF, INF), "beta": (0.0, 1.0), "uniform": (0.0, 1.0),
    "gamma": (0.0, INF), "exponential": (0.0, INF), "dirichlet": (0.0, 1.0),
}  # fmt: skip
"""Supports of conjugate priors; a uniform prior counts only on the unit interval."""
CONTINUOUS = ("exponential", "normal", "laplace", "mvnormal")
EXACT_INTEGERS = {"float64": 2.0**53, "float32": 2.0**24, "float16": 2.0**11}
"""Up to this magnitude a float type holds every whole number."""
MOST_IMPLIED = 1000
"""Most values of a discrete uniform distribution that are taken for categories."""
BOX_TRANSFORMS = {"NoneType", "LogTransform", "LogOddsTransform", "LogOddsInterval", "Interval"}
"""Transforms whose variable is free in each coordinate, so that a box may replace its support."""
ZERO_SUM = "ZeroSumTransform"
"""The transform of effects that sum to zero along their last axis."""
KEPT_TRANSFORMS = {"SimplexTransform", "CholeskyCovPacked", ZERO_SUM}
"""Transforms that a trim keeps; a potential of -inf outside the box restricts the prior."""
INTERVAL_TRANSFORMS = {"Interval", "IntervalTransform"}
"""Transforms of intervals, in which either endpoint may be missing."""
ORDERED = "Ordered"
"""The transform of increasing vectors; disjoint boxes keep the order by themselves."""


def distribution_class(rv: Variable) -> str:
    """Name of the distribution's class, marked as the user's unless its density is PyMC's own.

    A subclass that takes over the `rv_op` of a distribution of PyMC registers its own density for
    that `rv_op`, so the class alone does not identify a density.
    """
    name = library_class_name(rv.owner.op)
    density = _logprob.dispatch(type(rv.owner.op))
    return name if _is_defined_by_pymc(density) else f"{name} of the user's"


def distribution_name(rv: Variable) -> str:
    """Name of a distribution as in `LIKELIHOOD_SUPPORTS`: the class in lower case."""
    return distribution_class(rv).removesuffix("RV").lower()


def _is_defined_by_pymc(function: Callable) -> bool:
    """Whether a function, and every function it closes over, is PyMC's."""
    inside = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    own = str(getattr(function, "__module__", "")).split(".")[0] == "pymc"
    return own and all(_is_defined_by_pymc(part) for part in inside if callable(part))


def implied_support(rv: Variable) -> Domain | None:
    """A finite support that the likelihood itself states."""
    name = distribution_class(rv)
    if name == "BernoulliRV":
        return Categories([0, 1])
    if name not in ("CategoricalRV", "BinomialRV", "BetaBinomialRV", "DiscreteUniformRV"):
        return None
    parameters = rv.owner.op.dist_params(rv.owner)
    if name == "DiscreteUniformRV":
        first, last = (public_number(bound) for bound in parameters)
        if first is None or last is None or not 0 <= last - first <= MOST_IMPLIED:
            return None
        return Categories(range(int(first), int(last) + 1))
    if name == "CategoricalRV":
        levels = parameters[0].type.shape[-1]
        return None if levels is None else Categories(range(levels))
    if name in ("BinomialRV", "BetaBinomialRV"):
        trials = public_number(parameters[0])
        return None if trials is None else Categories(range(int(trials) + 1))
    return None


def domain_is_in_support(rv: Variable, variable: Any, domain: Domain, row: tuple[int, ...]) -> bool:
    """Whether a known distribution can give every record of a domain."""
    low, high = LIKELIHOOD_SUPPORTS.get(distribution_name(rv), (math.nan, math.nan))
    bounds = domain.bounds(row)
    inside = bool(np.all(bounds.lower >= low) and np.all(bounds.upper <= high))
    return inside and (distribution_name(rv) in CONTINUOUS or is_integer_valued(variable, domain))


def is_integer_valued(variable: Any, domain: Domain) -> bool:
    """Whether every entry of a record in the domain is a whole number."""
    if not str(variable.type.dtype).startswith("float") or isinstance(domain, Counts):
        return True
    return isinstance(domain, Categories) and all(v == int(v) for v in domain.values)


def casts_between(value: Variable, variable: Variable) -> list[str] | None:
    """Data types that observed values are cast to, in order; None if more is done to them.

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
    """Whether a distribution observes the array `variable` unchanged, for all data in a domain.

    A closed form may read the array in place of the observed values only then: a cast that merges
    values (1.9 to 1, 1000 to True) is part of the density. `row` is the shape of one record.
    """
    casts = casts_between(value, variable)
    if casts is None:
        return False
    bounds = domain.bounds(row)
    low, high = float(np.min(bounds.lower)), float(np.max(bounds.upper))
    whole = is_integer_valued(variable, domain)
    dtypes = [str(variable.type.dtype), *casts]
    return all(_cast_is_exact(old, new, low, high, whole) for old, new in pairwise(dtypes))


def _cast_is_exact(old: str, new: str, low: float, high: float, whole: bool) -> bool:
    """Whether a cast changes no number (no whole number, if `whole`) in [low, high]."""
    if new.startswith("float"):
        wider = old.startswith("float") and np.dtype(new).itemsize >= np.dtype(old).itemsize
        return wider or (whole and max(abs(low), abs(high)) <= EXACT_INTEGERS.get(new, 0.0))
    if not whole:
        return False
    if new == "bool":
        return low >= 0.0 and high <= 1.0
    info = np.iinfo(new)
    return low >= info.min and high <= info.max


def is_constant(variable: Variable) -> bool:
    """Whether a variable is computed from constants alone."""
    return all(isinstance(v, Constant) for v in ancestors([variable]) if v.owner is None)


def constant_value(variable: Variable) -> float | None:
    """The one number that a graph of constants evaluates to, or None."""
    leaves = [v for v in ancestors([variable]) if v.owner is None]
    if not all(isinstance(leaf, Constant) for leaf in leaves):
        return None
    values = np.unique(np.asarray(ConcreteValues({})(variable)))
    return float(values[0]) if values.size == 1 else None


def public_number(variable: Variable) -> float | None:
    """The one number that a graph of single constants evaluates to, or None.

    A longer array may belong to the records, so its values must imply nothing.
    """
    arrays = [v for v in ancestors([variable]) if isinstance(v, TensorConstant)]
    return constant_value(variable) if all(v.data.size == 1 for v in arrays) else None


def transform_name(model: pm.Model, rv: Variable) -> str:
    """Class name of the value transform, with what sets a variant of it apart."""
    transform = model.rvs_to_transforms[rv]
    name = library_class_name(transform)
    if name == ZERO_SUM and len(transform.zerosum_axes) > 1:
        return f"{name} over {len(transform.zerosum_axes)} axes"
    if name == ORDERED and (transform.positive or not transform.ascending):
        return f"{name}, positive or descending"
    return "Interval" if name in INTERVAL_TRANSFORMS else name


def prior_support(model: pm.Model, rv: Variable, shape: tuple[int, ...]) -> Bounds:
    """Bounds of a free variable of the given shape in its natural space, before any trim.

    They are infinite where the prior has no bound, and constrain rows of a simplex or of zero sum.
    """
    kind = transform_name(model, rv)
    if kind == "LogTransform":
        return _uniform_box(0.0, INF, shape)
    if kind == "LogOddsTransform":
        return _uniform_box(0.0, 1.0, shape)
    if kind == "SimplexTransform":
        return Bounds(np.zeros(shape), np.ones(shape), SimplexRows())
    if kind == ZERO_SUM:
        return Bounds(np.full(shape, -INF), np.full(shape, INF), ZeroSumRows())
    if kind == "CholeskyCovPacked":
        return _packed_cholesky_support(shape)
    if kind == "Interval":
        return _interval_support(model.rvs_to_transforms[rv], rv, shape)
    if str(rv.type.dtype).startswith(("int", "uint", "bool")):
        return _discrete_support(rv, shape)
    return _uniform_box(-INF, INF, shape)


def _uniform_box(low: float, high: float, shape: tuple[int, ...]) -> Bounds:
    return Bounds(np.full(shape, low), np.full(shape, high))


def _packed_cholesky_support(shape: tuple[int, ...]) -> Bounds:
    """Bounds of a lower triangle packed row by row: positive on the diagonal, else unbounded."""
    lower = np.full(shape, -INF)
    diagonal = np.cumsum(np.arange(1, shape[-1] + 1)) - 1
    lower[..., diagonal[diagonal < shape[-1]]] = 0.0
    return Bounds(lower, np.full(shape, INF))


def _interval_support(transform: Any, rv: Variable, shape: tuple[int, ...]) -> Bounds:
    """Bounds of an interval transform, where they are constants."""
    bounds = transform.args_fn(*rv.owner.inputs)
    values = [None if bound is None else _constant_array(bound) for bound in bounds]
    low = -INF if values[0] is None else values[0]
    high = INF if values[1] is None else values[1]
    return Bounds(np.broadcast_to(low, shape).copy(), np.broadcast_to(high, shape).copy())


def _constant_array(bound: Any) -> Any:
    return bound if isinstance(bound, int | float | np.ndarray) else constant_value(bound)


def _discrete_support(rv: Variable, shape: tuple[int, ...]) -> Bounds:
    implied = implied_support(rv)
    return implied.bounds(shape) if implied is not None else _uniform_box(-INF, INF, shape)


def has_full_support(model: pm.Model, rv: Variable, shape: tuple[int, ...]) -> bool:
    """Whether a conjugate prior keeps its full support: no transform truncates or orders it.

    A transform of the user's own restricts a posterior as a trim does, but the region of the model
    does not show it.
    """
    kind = distribution_name(rv)
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


def has_central_box(model: pm.Model, rv: Variable) -> bool:
    """Whether `trim(mass=)` restricts a variable: one with free or zero-sum coordinates."""
    boxable = transform_name(model, rv) in BOX_TRANSFORMS | {ZERO_SUM}
    return boxable and str(rv.type.dtype).startswith("float")


def is_default_transform(transform: Any, rv: Variable) -> bool:
    """Whether a transform is the one PyMC gives this distribution, with the same bounds."""
    default = _default_transform(rv.owner.op, rv)
    if type(transform) is not type(default):
        return False
    if not hasattr(transform, "args_fn"):
        return type(transform).__module__.startswith("pymc.")
    bounds = [list(t.args_fn(*rv.owner.inputs)) for t in (transform, default)]
    pairs = list(zip(*bounds, strict=True))
    return all(
        one is two or (isinstance(one, Variable) and isinstance(two, Variable)
                       and equal_computations([one], [two]))
        for one, two in pairs
    )  # fmt: skip


def refuse_transforms(model: pm.Model) -> None:
    """Refuse transforms whose bounds or formulas are not constants.

    Densities are read in natural space, where a restriction that depends on data or on another
    parameter cannot be seen: no range covers it, and no sampler keeps to it. The default transform
    of a prior is exempt: its bounds, such as those of Uniform(0, a), belong to the distribution.
    """
    for rv in model.free_RVs:
        transform = model.rvs_to_transforms[rv]
        if transform is None or is_default_transform(transform, rv):
            continue
        inputs, value = list(rv.owner.inputs), rv.type()
        if library_class_name(transform) in INTERVAL_TRANSFORMS:
            bounds = [bound for bound in transform.args_fn(*inputs) if isinstance(bound, Variable)]
            varying = [bound for bound in bounds if constant_value(bound) is None]
        else:
            outs = [transform.backward(value, *inputs), transform.log_jac_det(value, *inputs)]
            read = ancestors([v for v in outs if isinstance(v, Variable)], [value, *inputs])
            leaves = [v for v in read if v.owner is None and v not in (value, *inputs)]
            varying = [v for v in leaves if not isinstance(v, Constant)]
        if varying:
            raise Unsupported(
                f"the transform of '{rv.name}' is made of more than constants",
                got=", ".join(v.name or str(v.type) for v in varying),
                allowed="transforms whose bounds and formulas are constants",
                do="write the restriction into the prior: pm.Truncated, or pm.Uniform with these "
                "bounds",
            )
