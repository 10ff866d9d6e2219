"""Cholesky factors and inverses of matrices of intervals."""

from __future__ import annotations

import numpy as np
from itertools import product
from pytensor.graph.op import Op
from pymc_private.analysis.intervals import functions__functions as f
from pymc_private.analysis.intervals.interval import Interval
from pymc_private.analysis.intervals.elementwise import divide
from pymc_private.analysis.intervals.functions import add_down, add_up

MOST_ROWS = 16
"""Larger matrices would take long, and their bounds would say little."""

Cells = dict[tuple[int, int], Interval]


def cholesky(op: Op, a: Interval) -> Interval:
    """L with L L' = A, by the recursion l_ij = (a_ij - sum_k l_ik l_jk) / l_jj in intervals.

    Each step encloses the real one, so L lies inside as soon as every pivot is positive. Only one
    triangle is read, as by LAPACK (Alefeld and Mayer 1993 on the interval Cholesky method).
    """
    size = a.shape[-1]
    if size > MOST_ROWS or a.shape[-2] != size:
        return Interval.everything(a.shape)
    a, found = a.as_float(), {}
    for i, j in product(range(size), repeat=2):
        if j > i:
            found[i, j] = Interval.point(np.zeros(a.shape[:-2]))
            continue
        rest = _cell(a, i, j) if op.lower else _cell(a, j, i)
        for k in range(j):
            rest = _less(rest, found[i, k].times(found[j, k]), square=i == j)
        found[i, j] = _root(rest) if i == j else divide(rest, found[j, j])
    return _matrix(found if op.lower else {(j, i): cell for (i, j), cell in found.items()}, size)


def inverse(op: Op, a: Interval) -> Interval:
    """A^-1 by elimination without exchanges: each pivot must keep away from zero."""
    size = a.shape[-1]
    if size > MOST_ROWS or a.shape[-2] != size:
        return Interval.everything(a.shape)
    a = a.as_float()
    left = {(i, j): _cell(a, i, j) for i, j in product(range(size), repeat=2)}
    eye = np.eye(size)
    right = {
        (i, j): Interval.point(np.full(a.shape[:-2], eye[i, j]))
        for i, j in product(range(size), repeat=2)
    }
    for k in range(size):
        pivot = left[k, k]
        for cells in (left, right):
            cells.update({(k, j): divide(cells[k, j], pivot) for j in range(size)})
        for i in set(range(size)) - {k}:
            factor = left[i, k]
            for cells in (left, right):
                for j in range(size):
                    cells[i, j] = _less(cells[i, j], factor.times(cells[k, j]))
    return _matrix(right, size)


def _cell(a: Interval, i: int, j: int) -> Interval:
    return Interval(a.lower[..., i, j], a.upper[..., i, j])


def _matrix(cells: Cells, size: int) -> Interval:
    """One interval from its cells; nothing is known of any where one is unknown."""
    shape = np.broadcast_shapes(*(cell.shape for cell in cells.values()))
    lower, upper = (
        np.stack(
            [
                np.stack([np.broadcast_to(end(cells[i, j]), shape) for j in range(size)], -1)
                for i in range(size)
            ],
            -2,
        )
        for end in (lambda cell: cell.lower, lambda cell: cell.upper)
    )
    known = ~(np.isnan(lower) | np.isnan(upper)).any(axis=(-1, -2), keepdims=True)
    return Interval(lower, upper).where(known)


def _less(x: Interval, y: Interval, square: bool = False) -> Interval:
    """x - y; the product of one and the same number is a square."""
    lower = np.maximum(y.lower, 0.0) if square else y.lower
    return Interval(add_down(x.lower, -y.upper), add_up(x.upper, -lower))


def _root(x: Interval) -> Interval:
    """The square root of a pivot, which must be positive."""
    return x.increasing(f.SQRT).where(x.lower > 0.0)
