"""Interval rules of matrix products, triangular solves, Cholesky factors and inverses.

Products are sums of corner products, intersected with the Cauchy-Schwarz bound where the rows
of the left factor lie in an ellipsoid. Factors and inverses follow the recursions of the exact
algorithms in interval arithmetic (Alefeld and Mayer 1993), so they hold as soon as every pivot
keeps its sign.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.math import Dot

from pymc_private.analysis.intervals import functions as f
from pymc_private.analysis.intervals.arrays import sum_down, sum_up
from pymc_private.analysis.intervals.dispatch import OpBounds, bound_op, constant_fold
from pymc_private.analysis.intervals.elementwise import divide
from pymc_private.analysis.intervals.functions import (
    UNIT,
    Array,
    add_down,
    add_up,
    array_namespace,
    round_up,
)
from pymc_private.analysis.intervals.interval import Bounds, Ellipsoid
from pymc_private.analysis.traversal import EVALUATION_ERRORS

# ---- products --------------------------------------------------------------------------------


@bound_op.register(Dot)
def _dot(op: Dot, node: Apply, x: Bounds, y: Bounds) -> OpBounds:
    """Sums of corner products; Cauchy-Schwarz too where the rows of x lie in an ellipsoid."""
    x, y = x.as_float(), y.as_float()
    if x.lower.ndim < 1 or y.lower.ndim < 1:
        return x.times(y)
    if not isinstance(x.within, Ellipsoid):
        return _contract(x, y)
    ball = _ball_product(x.within, y, many=x.lower.ndim == 2)
    if y.is_symbolic and _contains_ball(x.within, x):
        return ball  # the corners lie outside it: they would make a larger graph, no tighter one
    return _contract(x, y).intersect(ball)


def _contains_ball(ball: Ellipsoid, x: Bounds) -> bool:
    """Whether the bounds of x cut nothing off the ellipsoid."""
    reach = ball.radius * np.asarray(ball.scale)
    return bool(np.all(x.lower <= ball.center - reach) and np.all(x.upper >= ball.center + reach))


def _contract(x: Bounds, y: Bounds) -> Bounds:
    """sum_k x_ik y_kj from the corners of each product."""
    columns = y.lower.ndim == 2
    left = _indexed(x, (..., None) if columns else ())
    axis = (-2,) if columns else (-1,)
    terms = left.times(y)
    return Bounds(sum_down(terms.lower, axis), sum_up(terms.upper, axis))


def _indexed(x: Bounds, index: tuple) -> Bounds:
    """Both bounds under one index; a point stays a point."""
    return Bounds.point(x.lower[index]) if x.is_point else Bounds(x.lower[index], x.upper[index])


def _ball_product(rows: Ellipsoid, y: Bounds, many: bool) -> Bounds:
    """<r, y> = <c, y> + <(r-c)/s, s y> lies within radius * |s y|_2 of <c, y>, for each row r."""
    columns = y.lower.ndim == 2
    xp = array_namespace(y.lower, y.upper)
    center = np.asarray(rows.center, dtype=np.float64)
    scale = np.asarray(rows.scale, dtype=np.float64)
    index = (slice(None), None) if columns else slice(None)
    middle = _contract(Bounds.point(center[None, :] if many else center), y)
    axis = 0
    squares = (scale[index] * y.magnitude()) ** 2
    slack = 1.0 + 4.0 * (len(center) + 4) * UNIT
    # Where the graph of this is bounded in turn, a sum of squares rounds to below zero.
    total = xp.maximum(squares.sum(axis=axis) * slack, 0.0)
    reach: Array = round_up(rows.radius * xp.sqrt(total), 8.0)
    return Bounds(
        middle.lower - round_up(reach + abs(middle.lower) * UNIT, 2.0),
        middle.upper + round_up(reach + abs(middle.upper) * UNIT, 2.0),
    )


def _matmul(x: Bounds, y: Bounds) -> Bounds:
    """sum_k x_ik y_kj from the corners of each product, at each batch element."""
    if isinstance(x.within, Ellipsoid) and x.lower.ndim <= 2 and y.lower.ndim <= 2:
        return _contract(x, y).intersect(_ball_product(x.within, y, many=x.lower.ndim == 2))
    terms = _indexed(x, (..., None)).times(_indexed(y, (..., None, slice(None), slice(None))))
    return Bounds(sum_down(terms.lower, (-2,)), sum_up(terms.upper, (-2,)))


# ---- batches ---------------------------------------------------------------------------------


BATCH_AWARE_OPS: list[type] = []
"""Ops whose rule takes a batch as it takes one element."""


@bound_op.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, *inputs: Bounds) -> OpBounds:
    """The rule of the core Op on each batch element."""
    if isinstance(op.core_op, tuple(BATCH_AWARE_OPS)):
        return bound_op(op.core_op, node, *inputs)
    if all(i.is_point and not i.is_symbolic for i in inputs):
        try:
            return constant_fold(node, inputs)
        except EVALUATION_ERRORS:
            return [Bounds.everything() for _ in node.outputs]
    if any(i.is_symbolic for i in inputs):
        return Bounds.everything()
    # By name: PyTensor 3 moved the classes and warns at the old path.
    rule = SOLVERS.get(type(op.core_op).__name__)
    if rule is not None:
        return rule(op.core_op, *inputs)
    if isinstance(op.core_op, Dot):
        return _matmul(*(i.as_float() for i in inputs))
    return _each_batch_element(op, node, *inputs)


def _each_batch_element(op: Blockwise, node: Apply, *inputs: Bounds) -> OpBounds:
    """The rule of the core Op, one batch element after the other."""
    cores = [len(core) for core in op.inputs_sig]
    pairs = list(zip(inputs, cores, strict=True))
    if any(i.lower.ndim < core for i, core in pairs):
        return [Bounds.everything() for _ in node.outputs]
    batch = np.broadcast_shapes(*(i.shape[: i.lower.ndim - core] for i, core in pairs))
    core_inputs = [
        pt.TensorType(
            v.type.dtype, shape=tuple(1 if k == 1 else None for k in _core_shape(i, core))
        )()
        for v, i, core in zip(node.inputs, inputs, cores, strict=True)
    ]
    inner = op.core_op.make_node(*core_inputs)
    whole = [
        (np.broadcast_to(i.lower, batch + i.shape[i.lower.ndim - core :]),
         np.broadcast_to(i.upper, batch + i.shape[i.lower.ndim - core :]), i)
        for i, core in pairs
    ]  # fmt: skip
    if bound_op.dispatch(type(op.core_op)) is bound_op.dispatch(object) and not np.any(
        _exact_elements(whole, cores, batch)
    ):
        return [Bounds.everything(batch) for _ in node.outputs]
    found: list[list[Bounds]] = []
    for position in np.ndindex(*batch):
        parts = [_batch_element(low[position], high[position], i) for low, high, i in whole]
        try:
            answer = bound_op(op.core_op, inner, *parts)
        except EVALUATION_ERRORS:  # the core Op's own checks of shapes
            return [Bounds.everything() for _ in node.outputs]
        found.append(answer if isinstance(answer, list) else [answer])
    return [_stack_batch([each[k] for each in found], batch) for k in range(len(node.outputs))]


def _core_shape(whole: Bounds, core: int) -> tuple[int, ...]:
    """Shape of one batch element."""
    return whole.shape[whole.lower.ndim - core :]


def _exact_elements(
    whole: list[tuple[np.ndarray, np.ndarray, Bounds]], cores: list[int], batch: tuple[int, ...]
) -> np.ndarray:
    """Of each batch element, whether all inputs are exact: an Op without a rule is folded then."""
    exact = np.ones(batch, dtype=bool)
    for (lower, upper, _), core in zip(whole, cores, strict=True):
        exact &= (lower == upper).all(axis=tuple(range(len(batch), len(batch) + core)))
    return exact


def _batch_element(lower: np.ndarray, upper: np.ndarray, whole: Bounds) -> Bounds:
    """One batch element; exact where its bounds are equal."""
    if whole.is_point or np.array_equal(lower, upper):
        return Bounds(lower, lower, poles=whole.poles)
    return Bounds(lower, upper, poles=whole.poles)


def _stack_batch(parts: list[Bounds], batch: tuple[int, ...]) -> Bounds:
    """The batch elements as one array; nothing is known if one of them lost its shape."""
    shapes = {part.shape for part in parts}
    if len(shapes) != 1:
        return Bounds.everything()
    (shape,) = shapes
    lower = np.stack([part.lower for part in parts]).reshape(batch + shape)
    upper = np.stack([part.upper for part in parts]).reshape(batch + shape)
    return Bounds(lower, upper, poles=any(part.poles for part in parts))


# ---- factors, inverses and solves ------------------------------------------------------------


MOST_ROWS = 16
"""Larger matrices would take long, and their bounds would say little."""


EntryBounds = dict[tuple[int, int], Bounds]
"""Bounds of the entries of a matrix, by row and column."""


def cholesky_bounds(op: Op, a: Bounds) -> Bounds:
    """L with L L' = A, by the recursion l_ij = (a_ij - sum_k l_ik l_jk) / l_jj in intervals.

    Each step encloses the real one, so L lies inside as soon as every pivot is positive. Only one
    triangle is read, as by LAPACK (Alefeld and Mayer 1993 on the interval Cholesky method).
    """
    size = a.shape[-1]
    if size > MOST_ROWS or a.shape[-2] != size:
        return Bounds.everything(a.shape)
    a, found = a.as_float(), {}
    for i, j in product(range(size), repeat=2):
        if j > i:
            found[i, j] = Bounds.point(np.zeros(a.shape[:-2]))
            continue
        rest = _entry(a, i, j) if op.lower else _entry(a, j, i)
        for k in range(j):
            rest = _subtract(rest, found[i, k].times(found[j, k]), square=i == j)
        found[i, j] = _pivot_root(rest) if i == j else divide(rest, found[j, j])
    return _assemble(
        found if op.lower else {(j, i): entry for (i, j), entry in found.items()}, size
    )


def inverse_bounds(op: Op, a: Bounds) -> Bounds:
    """A^-1 by Gauss-Jordan elimination without row exchanges: no pivot may contain zero."""
    size = a.shape[-1]
    if size > MOST_ROWS or a.shape[-2] != size:
        return Bounds.everything(a.shape)
    a = a.as_float()
    left = {(i, j): _entry(a, i, j) for i, j in product(range(size), repeat=2)}
    eye = np.eye(size)
    right = {
        (i, j): Bounds.point(np.full(a.shape[:-2], eye[i, j]))
        for i, j in product(range(size), repeat=2)
    }
    for k in range(size):
        pivot = left[k, k]
        for entries in (left, right):
            entries.update({(k, j): divide(entries[k, j], pivot) for j in range(size)})
        for i in set(range(size)) - {k}:
            factor = left[i, k]
            for entries in (left, right):
                for j in range(size):
                    entries[i, j] = _subtract(entries[i, j], factor.times(entries[k, j]))
    return _assemble(right, size)


def _entry(a: Bounds, i: int, j: int) -> Bounds:
    """Bounds of an entry, for each batch element."""
    return Bounds(a.lower[..., i, j], a.upper[..., i, j])


def _assemble(entries: EntryBounds, size: int) -> Bounds:
    """One array of bounds from its entries; nothing is known of any where one is unknown."""
    shape = np.broadcast_shapes(*(entry.shape for entry in entries.values()))
    lower, upper = (
        np.stack(
            [
                np.stack([np.broadcast_to(part(entries[i, j]), shape) for j in range(size)], -1)
                for i in range(size)
            ],
            -2,
        )
        for part in (lambda entry: entry.lower, lambda entry: entry.upper)
    )
    known = ~(np.isnan(lower) | np.isnan(upper)).any(axis=(-1, -2), keepdims=True)
    return Bounds(lower, upper).where(known)


def _subtract(x: Bounds, y: Bounds, square: bool = False) -> Bounds:
    """x - y, where y is a square if `square`, hence not negative."""
    lower = np.maximum(y.lower, 0.0) if square else y.lower
    return Bounds(add_down(x.lower, -y.upper), add_up(x.upper, -lower))


def _pivot_root(x: Bounds) -> Bounds:
    """The square root of a pivot, which must be positive."""
    return x.increasing(f.SQRT).where(x.lower > 0.0)


def _solve_triangular(op: Op, a: Bounds, b: Bounds) -> Bounds:
    """Forward (or backward) substitution in interval arithmetic, batched over leading axes."""
    a, b = a.as_float(), b.as_float()
    vector = op.b_ndim == 1
    right = Bounds(b.lower[..., None], b.upper[..., None]) if vector else b
    size = a.shape[-1]
    order = range(size) if op.lower else range(size - 1, -1, -1)
    solved: dict[int, Bounds] = {}
    for i in order:
        rest = Bounds(right.lower[..., i, :], right.upper[..., i, :])
        for j, known in solved.items():
            term = _entry_column(a, i, j).times(known)
            rest = Bounds(
                np.nextafter(rest.lower - term.upper, -np.inf),
                np.nextafter(rest.upper - term.lower, np.inf),
            )
        solved[i] = rest if op.unit_diagonal else divide(rest, _entry_column(a, i, i))
    lower = np.stack(np.broadcast_arrays(*(solved[i].lower for i in range(size))), axis=-2)
    upper = np.stack(np.broadcast_arrays(*(solved[i].upper for i in range(size))), axis=-2)
    return Bounds(lower[..., 0], upper[..., 0]) if vector else Bounds(lower, upper)


def _entry_column(a: Bounds, i: int, j: int) -> Bounds:
    """Bounds of an entry, with an axis for the columns of the right-hand side."""
    return Bounds(a.lower[..., i, j, None], a.upper[..., i, j, None])


SOLVERS: dict[str, Callable[..., Bounds]] = {
    "Cholesky": cholesky_bounds,
    "MatrixInverse": inverse_bounds,
    "SolveTriangular": _solve_triangular,
}
