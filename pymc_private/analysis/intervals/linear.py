"""Matrix products and triangular solves."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot

from pymc_private.analysis.interval import Ellipsoid, Interval
from pymc_private.analysis.intervals.cholesky import cholesky, inverse
from pymc_private.analysis.intervals.dispatch import Answer, bound, fold
from pymc_private.analysis.intervals.elementwise import divide
from pymc_private.analysis.intervals.reduce import sum_down, sum_up
from pymc_private.analysis.rounding import UNIT, Array, library, up


@bound.register(Dot)
def _dot(op: Dot, node: Apply, x: Interval, y: Interval) -> Answer:
    """Sums of corner products, met with Cauchy and Schwarz where the rows of x lie in a ball."""
    x, y = x.as_float(), y.as_float()
    if x.lower.ndim < 1 or y.lower.ndim < 1:
        return x.times(y)
    product = _contract(x, y)
    if isinstance(x.within, Ellipsoid):
        ball = _rows_in_ball(x.within, y, many=x.lower.ndim == 2)
        product = product.intersect(ball)
    return product


def _contract(x: Interval, y: Interval) -> Interval:
    """sum_k x_ik y_kj from the corners of each product."""
    columns = y.lower.ndim == 2
    left = _expand(x, (..., None) if columns else ())
    axis = (-2,) if columns else (-1,)
    terms = left.times(y)
    return Interval(sum_down(terms.lower, axis), sum_up(terms.upper, axis))


def _expand(x: Interval, index: tuple) -> Interval:
    return (
        Interval.point(x.lower[index]) if x.is_point else Interval(x.lower[index], x.upper[index])
    )


def _rows_in_ball(rows: Ellipsoid, y: Interval, many: bool) -> Interval:
    """<r, y> = <c, y> + <(r-c)/s, s y> lies within radius * |s y|_2 of <c, y>, for each row r."""
    columns = y.lower.ndim == 2
    xp = library(y.lower, y.upper)
    center = np.asarray(rows.center, dtype=np.float64)
    scale = np.asarray(rows.scale, dtype=np.float64)
    index = (slice(None), None) if columns else slice(None)
    middle = _contract(Interval.point(center[None, :] if many else center), y)
    axis = 0
    squares = (scale[index] * y.magnitude()) ** 2
    slack = 1.0 + 4.0 * (len(center) + 4) * UNIT
    reach: Array = up(rows.radius * xp.sqrt(squares.sum(axis=axis) * slack), 8.0)
    return Interval(
        middle.lower - up(reach + abs(middle.lower) * UNIT, 2.0),
        middle.upper + up(reach + abs(middle.upper) * UNIT, 2.0),
    )


@bound.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, *inputs: Interval) -> Answer:
    """The rule of the core Op on each batch element."""
    if all(i.is_point and not i.is_symbolic for i in inputs):
        return fold(node, inputs)
    # By name: PyTensor 3 moved the classes and warns at the old path.
    rule = SOLVERS.get(type(op.core_op).__name__)
    if rule is not None and not any(i.is_symbolic for i in inputs):
        return rule(op.core_op, *inputs)
    if isinstance(op.core_op, Dot):
        return _dot(op.core_op, node, *inputs) if _plain(inputs) else Interval.everything()
    return Interval.everything()


def _plain(inputs: tuple[Interval, ...]) -> bool:
    return all(not i.is_symbolic and i.lower.ndim <= 2 for i in inputs)


def _solve_triangular(op: Op, a: Interval, b: Interval) -> Interval:
    """Forward (or backward) substitution in interval arithmetic, batched over leading axes."""
    a, b = a.as_float(), b.as_float()
    vector = op.b_ndim == 1
    right = Interval(b.lower[..., None], b.upper[..., None]) if vector else b
    size = a.shape[-1]
    order = range(size) if op.lower else range(size - 1, -1, -1)
    solved: dict[int, Interval] = {}
    for i in order:
        rest = Interval(right.lower[..., i, :], right.upper[..., i, :])
        for j, known in solved.items():
            term = _entry(a, i, j).times(known)
            rest = Interval(
                np.nextafter(rest.lower - term.upper, -np.inf),
                np.nextafter(rest.upper - term.lower, np.inf),
            )
        solved[i] = rest if op.unit_diagonal else divide(rest, _entry(a, i, i))
    lower = np.stack(np.broadcast_arrays(*(solved[i].lower for i in range(size))), axis=-2)
    upper = np.stack(np.broadcast_arrays(*(solved[i].upper for i in range(size))), axis=-2)
    return Interval(lower[..., 0], upper[..., 0]) if vector else Interval(lower, upper)


SOLVERS: dict[str, Callable[..., Interval]] = {
    "Cholesky": cholesky,
    "MatrixInverse": inverse,
    "SolveTriangular": _solve_triangular,
}


def _entry(a: Interval, i: int, j: int) -> Interval:
    return Interval(a.lower[..., i, j, None], a.upper[..., i, j, None])
