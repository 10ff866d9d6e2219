"""Values of a discrete variable in order, between which it moves step by step."""

from __future__ import annotations

import math
import numpy as np
from pytensor.graph.basic import Variable
from pymc_private.errors import NotCertified, Unsupported
from pymc_private.models.domains import Categories, Interval
from pymc_private.models.metric import compiled
from pymc_private.models.data_variables import Source

MOST_LEVELS = 256


def is_discrete(source: Source) -> bool:
    """Whether a variable takes separate values."""
    return source.is_whole or isinstance(source.domain, Categories)


def levels(source: Source) -> list[float]:
    """All values of a discrete variable, in order."""
    domain = source.domain
    if isinstance(domain, Categories) and source.row_shape == ():
        return list(domain.values)
    if isinstance(domain, Interval) and source.row_shape == ():
        ends = domain.bounds(())
        low, high = math.ceil(float(ends.lower)), math.floor(float(ends.upper))
        if high - low < MOST_LEVELS:
            return [float(k) for k in range(low, high + 1)]
    raise Unsupported(
        f"no norm of '{source.name}' is bounded: it is discrete",
        got="a row of whole numbers, or too many values",
        allowed=f"single whole numbers, at most {MOST_LEVELS} of them",
        do="measure it by 'hamming'",
    )


def distances(ordered: list[float], kind: object, data: Variable) -> list[float]:
    """The distance from each level to the next, rounded down."""
    if not callable(kind):
        return [float(step) for step in np.diff(ordered)]
    steps = np.diff([compiled(kind)(level) for level in ordered])
    if not (np.all(steps > 0) or np.all(steps < 0)):
        raise NotCertified(
            "a statistic of a discrete variable must rise or fall with it",
            blame=(str(data.name),),
            cure="a strictly monotone statistic, or 'hamming'",
        )
    return [abs(float(step)) * (1.0 - 2.0**-40) for step in steps]
