"""Which distribution a random variable follows, and how it is observed: never by a name alone."""

from __future__ import annotations

import math
import numpy as np
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.scalar.basic import Cast
from pymc_private.analysis.traversal__own_names import own_name
from pymc_private.models.domains__counts import Counts
from pymc_private.models.domains import Categories, Domain

INF = math.inf
SUPPORTS = {
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
EXACT = {"float64": 2.0**53, "float32": 2.0**24, "float16": 2.0**11}
"""Up to where floats hold every whole number."""


def law_name(rv: Variable) -> str:
    """Name of the distribution's class, if PyMC's own density is registered for it.

    A subclass that takes `rv_op` of one of PyMC's registers its density for that one.
    """
    name = own_name(rv.owner.op)
    return name if _is_pymcs(_logprob.dispatch(type(rv.owner.op))) else f"{name} of the user's"


def kind_of(rv: Variable) -> str:
    """Name of a distribution, in lower case."""
    return law_name(rv).removesuffix("RV").lower()


def _is_pymcs(function: Callable) -> bool:
    inside = [cell.cell_contents for cell in getattr(function, "__closure__", None) or ()]
    own = str(getattr(function, "__module__", "")).split(".")[0] == "pymc"
    return own and all(_is_pymcs(part) for part in inside if callable(part))


def is_constant(variable: Variable) -> bool:
    """Whether constants alone are what a variable is computed from."""
    return all(isinstance(v, Constant) for v in ancestors([variable]) if v.owner is None)


def casts_of(value: Variable, variable: Variable) -> list[str] | None:
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


def is_kept(value: Variable, variable: Variable, domain: Domain, row: tuple[int, ...]) -> bool:
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
    casts = casts_of(value, variable)
    if casts is None:
        return False
    bounds = domain.bounds(row)
    ends = float(np.min(bounds.lower)), float(np.max(bounds.upper))
    whole = is_whole_numbers(variable, domain)
    kinds = [str(variable.type.dtype), *casts]
    return all(_keeps(old, new, ends, whole) for old, new in pairwise(kinds))


def is_given(rv: Variable, variable: Any, domain: Domain, row: tuple[int, ...]) -> bool:
    """Whether every record of a domain is one that a known distribution can give."""
    low, high = SUPPORTS.get(kind_of(rv), (math.nan, math.nan))
    ends = domain.bounds(row)
    inside = bool(np.all(ends.lower >= low) and np.all(ends.upper <= high))
    return inside and (kind_of(rv) in CONTINUOUS or is_whole_numbers(variable, domain))


def is_whole_numbers(variable: Any, domain: Domain) -> bool:
    """Whether every entry of a record in the domain is a whole number."""
    if not str(variable.type.dtype).startswith("float") or isinstance(domain, Counts):
        return True
    return isinstance(domain, Categories) and all(v == int(v) for v in domain.values)


def _keeps(old: str, new: str, ends: tuple[float, float], whole: bool) -> bool:
    """Whether a cast changes no number between two ends."""
    low, high = ends
    if new.startswith("float"):
        wider = old.startswith("float") and np.dtype(new).itemsize >= np.dtype(old).itemsize
        return wider or (whole and max(abs(low), abs(high)) <= EXACT.get(new, 0.0))
    if not whole:
        return False
    if new == "bool":
        return low >= 0.0 and high <= 1.0
    info = np.iinfo(new)
    return low >= info.min and high <= info.max
