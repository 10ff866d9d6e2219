"""Matrix products and triangular solves."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Callable
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot
from pymc_private.analysis.intervals.interval import Ellipsoid, Interval
from pymc_private.analysis.intervals.linear_algebra__cholesky import cholesky, inverse
from pymc_private.analysis.intervals.dispatch import Answer, UNCOMPUTABLE, bound, fold
from pymc_private.analysis.intervals.elementwise import divide
from pymc_private.analysis.intervals.arrays__reduce import sum_down, sum_up
from pymc_private.analysis.intervals.functions import Array, UNIT, library, up

@bound.register(Dot)
def _dot(op: Dot, node: Apply, x: Interval, y: Interval) -> Answer:
    """Sums of corner products, met with Cauchy and Schwarz where the rows of x lie in a ball."""
    x, y = x.as_float(), y.as_float()
    if x.lower.ndim < 1 or y.lower.ndim < 1:
        return x.times(y)
    if not isinstance(x.within, Ellipsoid):
        return _contract(x, y)
    ball = _rows_in_ball(x.within, y, many=x.lower.ndim == 2)
    if y.is_symbolic and _is_whole_ball(x.within, x):
        return ball  # the corners lie outside: they would make a larger graph, no tighter one
    return _contract(x, y).intersect(ball)


def _is_whole_ball(ball: Ellipsoid, x: Interval) -> bool:
    """Whether the ends of x cut nothing off the ball."""
    reach = ball.radius * np.asarray(ball.scale)
    return bool(np.all(x.lower <= ball.center - reach) and np.all(x.upper >= ball.center + reach))


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
    # Where the graph of this is bounded in turn, a sum of squares rounds to below zero.
    total = xp.maximum(squares.sum(axis=axis) * slack, 0.0)
    reach: Array = up(rows.radius * xp.sqrt(total), 8.0)
    return Interval(
        middle.lower - up(reach + abs(middle.lower) * UNIT, 2.0),
        middle.upper + up(reach + abs(middle.upper) * UNIT, 2.0),
    )


@bound.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, *inputs: Interval) -> Answer:
    """The rule of the core Op on each batch element."""
    if isinstance(op.core_op, tuple(OF_ANY_SHAPE)):
        return bound(op.core_op, node, *inputs)
    if all(i.is_point and not i.is_symbolic for i in inputs):
        try:
            return fold(node, inputs)
        except UNCOMPUTABLE:
            return [Interval.everything() for _ in node.outputs]
    if any(i.is_symbolic for i in inputs):
        return Interval.everything()
    # By name: PyTensor 3 moved the classes and warns at the old path.
    rule = SOLVERS.get(type(op.core_op).__name__)
    if rule is not None:
        return rule(op.core_op, *inputs)
    if isinstance(op.core_op, Dot):
        return _matmul(*(i.as_float() for i in inputs))
    return _each(op, node, *inputs)


OF_ANY_SHAPE: list[type] = []
"""Ops whose rule takes a batch as it takes one element."""


def _matmul(x: Interval, y: Interval) -> Interval:
    """sum_k x_ik y_kj from the corners of each product, at each batch element."""
    if isinstance(x.within, Ellipsoid) and x.lower.ndim <= 2 and y.lower.ndim <= 2:
        return _contract(x, y).intersect(_rows_in_ball(x.within, y, many=x.lower.ndim == 2))
    terms = _expand(x, (..., None)).times(_expand(y, (..., None, slice(None), slice(None))))
    return Interval(sum_down(terms.lower, (-2,)), sum_up(terms.upper, (-2,)))


def _each(op: Blockwise, node: Apply, *inputs: Interval) -> Answer:
    """One batch element after the other."""
    cores = [len(core) for core in op.inputs_sig]
    pairs = list(zip(inputs, cores, strict=True))
    if any(i.lower.ndim < core for i, core in pairs):
        return [Interval.everything() for _ in node.outputs]
    batch = np.broadcast_shapes(*(i.shape[: i.lower.ndim - core] for i, core in pairs))
    kinds = [
        pt.TensorType(v.type.dtype, shape=tuple(1 if k == 1 else None for k in _core(i, core)))()
        for v, i, core in zip(node.inputs, inputs, cores, strict=True)
    ]
    inner = op.core_op.make_node(*kinds)
    whole = [
        (np.broadcast_to(i.lower, batch + i.shape[i.lower.ndim - core :]),
         np.broadcast_to(i.upper, batch + i.shape[i.lower.ndim - core :]), i)
        for i, core in pairs
    ]  # fmt: skip
    found: list[list[Interval]] = []
    for place in np.ndindex(*batch):
        parts = [_part(low[place], high[place], i) for low, high, i in whole]
        try:
            answer = bound(op.core_op, inner, *parts)
        except UNCOMPUTABLE:  # the core Op's own checks of shapes
            return [Interval.everything() for _ in node.outputs]
        found.append(answer if isinstance(answer, list) else [answer])
    return [_stacked([each[k] for each in found], batch) for k in range(len(node.outputs))]


def _core(whole: Interval, core: int) -> tuple[int, ...]:
    """Shape of one batch element."""
    return whole.shape[whole.lower.ndim - core :]


def _part(lower: np.ndarray, upper: np.ndarray, whole: Interval) -> Interval:
    """One batch element; exact where its ends are equal."""
    if whole.is_point or np.array_equal(lower, upper):
        return Interval(lower, lower, poles=whole.poles)
    return Interval(lower, upper, poles=whole.poles)


def _stacked(parts: list[Interval], batch: tuple[int, ...]) -> Interval:
    """The batch put together; nothing is known if one element lost its shape."""
    shapes = {part.shape for part in parts}
    if len(shapes) != 1:
        return Interval.everything()
    (shape,) = shapes
    lower = np.stack([part.lower for part in parts]).reshape(batch + shape)
    upper = np.stack([part.upper for part in parts]).reshape(batch + shape)
    return Interval(lower, upper, poles=any(part.poles for part in parts))


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
