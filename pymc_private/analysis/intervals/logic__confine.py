"""Confine: a number between two ends, whatever it was, even none.

PyTensor's clip passes NaN on. This one is a function of everything, so its interval is never wider
than its ends, even for an Op that has no rule.
"""

from __future__ import annotations

import pytensor.scalar.basic as ps
from collections.abc import Sequence
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.tensor.elemwise import Elemwise
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.dispatch import bound_scalar
from pymc_private.analysis.intervals.functions import library

class Confine(ps.ScalarOp):
    """min(max(x, low), high), with NaN taken for low.

    For analysis and for Python: no back end is asked to compile it.
    """

    nin = 3

    def impl(self, x: Any, low: Any, high: Any) -> Any:
        """The value at one point."""
        floored = x if x >= low else low  # NaN is not above
        return min(floored, high)

    def c_code(self, *_: Any) -> str:
        """None: Python computes it."""
        raise NotImplementedError

    def pullback(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        cotangents: Sequence[Variable],
    ) -> list[Variable]:
        """One to the argument that is given back, zero to the others, almost everywhere."""
        (x, low, high), (given,) = inputs, cotangents
        above, below = ps.ge(x, low), ps.le(x, high)
        zero = given.zeros_like()
        return [
            ps.switch(ps.and_(above, below), given, zero),
            ps.switch(above, zero, given),
            ps.switch(below, zero, given),
        ]


if not hasattr(ps.ScalarOp, "pullback"):  # PyTensor 2
    Confine.L_op = Confine.pullback  # type: ignore[method-assign]

confine_scalar = Confine(ps.upgrade_to_float, name="confine")
confine = Elemwise(confine_scalar)


def is_confined(node: Apply | None) -> bool:
    """Whether a node is a `confine`."""
    return isinstance(getattr(getattr(node, "op", None), "scalar_op", None), Confine)


@bound_scalar.register(Confine)
def _confine(op: ps.ScalarOp, x: Interval, low: Interval, high: Interval) -> Interval:
    """Non-decreasing in each argument and exact; [min(low, high), high] if x may be anything."""
    xp = library(x.lower, x.upper, low.lower, high.lower)
    known = ~(xp.isnan(x.lower) | xp.isnan(x.upper))
    least = xp.where(known, xp.maximum(x.lower, low.lower), low.lower)
    most = xp.where(known, xp.minimum(xp.maximum(x.upper, low.upper), high.upper), high.upper)
    return Interval(xp.minimum(least, high.lower), most)
