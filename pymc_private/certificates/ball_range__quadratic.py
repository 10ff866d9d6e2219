"""A log-likelihood that is quadratic in one row in a ball; its ell(theta) in closed form."""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Mapping
from dataclasses import dataclass
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Ellipsoid, Interval as Bounds, simplify
from pymc_private.analysis.row_equivalence__expressions import expressions, mix
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.traversal import scalar_op
from pymc_private.analysis.quadratic import quadratics
from pymc_private.errors import NotCertified

HAIR = 1.0 + 1e-12
"""Slack for a few sums and products in doubles."""


@dataclass(frozen=True, eq=False)
class InBall:
    """sum_k square_k z_k^2 + <slope, z> with |z| <= radius, up to what does not read the row.

    Parameters
    ----------
    square, slope : Variable of 0 or 1 axes
        One for each entry, or one for all.
    size : int
        Number of entries.
    radius : float
    """

    square: Variable
    slope: Variable
    size: int
    radius: float


def whole_in_ball(value: Variable, rows: Mapping[Variable, Bounds]) -> InBall | None:
    """The whole of a function as a quadratic in one row in a ball; None if it is none.

    Parameters
    ----------
    value : Variable, scalar
    rows : mapping of Variable to Bounds
        A record's entries.
    """
    read = rows.keys() & set(ancestors([value]))
    if len(read) != 1:
        return None
    (row,) = read
    ball = rows[row].within
    if not isinstance(ball, Ellipsoid) or row.type.dtype != "float64":
        return None
    part = quadratics(value, row, *frame(ball, row.type.shape)).get(value)
    if part is None or not part.is_sum or part.square is None:
        return None
    slope = pt.constant(0.0) if part.slope is None else part.slope
    square, slope = simplify([part.square, slope])
    if square.type.ndim and _are_equal(square):
        square = simplify([square[0]])[0]
    return InBall(square, slope, row.type.shape[0], float(ball.radius))


def _are_equal(vector: Variable) -> bool:
    """Whether all entries are one and the same expression."""
    inputs = [v for v in ancestors([vector]) if v.owner is None and not isinstance(v, Constant)]
    values = {v: np.full(v.type.shape, 0.5) for v in inputs}
    marks = {
        v: mix(k, np.arange(x.size).reshape(x.shape)) for k, (v, x) in enumerate(values.items())
    }
    try:
        (found,) = expressions([vector], marks, values)
    except (NotCertified, *UNCOMPUTABLE):
        return False
    return bool(np.all(found == found[:1]))


def variation_in_ball(value: Variable, rows: Mapping[Variable, Bounds]) -> Variable | None:
    """sup - inf over the ball, where all squares count alike: |a| ((h + r)^2 - max(h - r, 0)^2).

    Here a |z + b / (2 a)|^2 is the function, h = |b| / (2 |a|) is how far its center is off the
    ball's, and r the radius. Exact, in real arithmetic. None where the function has another form.
    """
    whole = whole_in_ball(value, rows)
    if whole is None or whole.square.type.ndim:
        return None
    scale = abs(whole.square)
    factor, rest = factored(whole.slope)
    off = abs(factor) * norm(rest, whole.size) / (2.0 * scale)
    near = pt.maximum(off - whole.radius, 0.0)
    return simplify([scale * (pt.sqr(off + whole.radius) - pt.sqr(near))])[0]


def frame(ball: Ellipsoid, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Center and scale of each entry."""
    center, scale = (
        np.broadcast_to(np.asarray(e, float), shape) for e in (ball.center, ball.scale)
    )
    return center, scale


def norm(vector: Variable, size: int) -> Variable:
    """|vector|_2, an upper bound where it is a constant."""
    if vector.type.ndim == 0:
        return abs(vector) * (np.sqrt(size) * HAIR)
    return pt.sqrt(pt.maximum(pt.sqr(vector).sum(), 0.0))


def factors(vector: Variable) -> tuple[list[Variable], list[Variable]]:
    """Factors of one number, and those with one for each entry: their product is the vector."""
    numbers: list[Variable] = []
    vectors: list[Variable] = []
    stack = [(vector, False)]
    while stack:
        variable, inverted = stack.pop()
        if all(variable.type.broadcastable):
            number = variable.dimshuffle([])
            numbers.append(1.0 / number if inverted else number)
        elif isinstance(op := scalar_op(variable), ps.Mul | ps.TrueDiv):
            for k, factor in enumerate(variable.owner.inputs):
                stack.append((factor, inverted != (isinstance(op, ps.TrueDiv) and k > 0)))
        else:
            vectors.append(1.0 / variable if inverted else variable)
    return numbers, vectors


def factored(vector: Variable) -> tuple[Variable, Variable]:
    """One number that all entries share, and the rest: their product is the vector."""
    numbers, rest = (_product(some) for some in factors(vector))
    return numbers, rest


def _product(some: list[Variable]) -> Variable:
    return pt.mul(*some) if len(some) > 1 else some[0] if some else pt.constant(1.0)
