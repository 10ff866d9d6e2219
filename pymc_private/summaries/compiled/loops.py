"""Loops over many rows as numba compiles them: the operations of NumPy, one row after another.

Each is additions, products, quotients, square roots and comparisons of doubles or integers in the
order in which NumPy does them, so that its results are those of NumPy to the bit; `compiler.py`
compares both before it uses one. Rows lie along the last axis, where a processor takes several of
them at once; no operation mixes rows.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
from numba import njit
from numba.extending import register_jitable

BLOCK = 512
"""Rows of which all intermediate numbers stay close to the processor."""


def compiled_loop(function: Callable[..., Any], **options: Any) -> Any:
    """A compiled function that leaves other threads alone, kept on disk for other processes.

    Numba keeps it beside this file or in the user's cache, whichever can be written; where neither
    can, each process compiles its own.
    """
    made = njit(nogil=True, error_model="numpy", **options)(function)
    with suppress(RuntimeError):  # nowhere to write
        made.enable_caching()
    return made


# ---- scores of outcomes with two values (`scores.clipped_scores`) -------------------------------
@register_jitable
def _larger(x: float, y: float) -> float:
    """The larger of two numbers; NaN if one is."""
    return x if x >= y or x != x else y


@register_jitable
def _is_finite(x: float) -> bool:
    return x * 0.0 == 0.0


@register_jitable
def _turn(jacobian: np.ndarray, metric: np.ndarray, start: int, turned: np.ndarray) -> None:
    """W a of a block of rows a, sums in the order of the columns; four columns in one go."""
    p, count = turned.shape
    end = start + count
    for k in range(p):
        row = turned[k]
        row[:] = 0.0
        for j in range(0, p - 3, 4):
            w, x, y, z = metric[k, j], metric[k, j + 1], metric[k, j + 2], metric[k, j + 3]
            a, b = jacobian[j, start:end], jacobian[j + 1, start:end]
            c, d = jacobian[j + 2, start:end], jacobian[j + 3, start:end]
            for i in range(count):
                row[i] = (((row[i] + a[i] * w) + b[i] * x) + c[i] * y) + d[i] * z
        for j in range(p - p % 4, p):
            w, a = metric[k, j], jacobian[j, start:end]
            for i in range(count):
                row[i] += a[i] * w


@register_jitable
def _normalize(turned: np.ndarray, length: np.ndarray, valid: np.ndarray) -> None:
    """Rows of length one, their lengths before, and 0 in `valid` where all is finite, else NaN."""
    p, count = turned.shape
    length[:] = 0.0
    valid[:] = 0.0
    for k in range(p):
        row = turned[k]
        for i in range(count):
            length[i] += row[i] * row[i]
    scale = np.empty(count)
    for i in range(count):
        size = np.sqrt(length[i])
        size = 0.0 if size <= 1e-11 * size else size
        scale[i] = 0.0 if size == 0.0 else 1.0 / size
        length[i] = size
    for k in range(p):
        row = turned[k]
        for i in range(count):
            row[i] *= scale[i]
            valid[i] += row[i] * 0.0
    for i in range(count):
        valid[i] += length[i] * 0.0


@register_jitable
def _center(first: float, second: float, low: float, high: float, bound: float) -> float:
    """The center of two scores of given mass: `clipped_scores.score_center`."""
    total = low + high
    p = high / (total if total > 0.0 else 1.0)
    difference = second - first
    distance = abs(difference) * _larger(p, 1.0 - p)
    step = bound / _larger(distance, bound) * difference
    return first + p * step if p <= 0.5 else second - (1.0 - p) * step


@register_jitable
def _weighted_pair(
    pair: tuple[float, float, float, float, float], bound: float, most: float
) -> tuple[float, float]:
    """w psi of the outcome, and the root of w B, along the row's direction; `most` is K."""
    first, second, given, low, high = pair
    center = _center(first, second, low, high, bound)
    below, above = first - center, second - center
    curvature = below * (low * (bound / _larger(abs(below), bound))) * below
    curvature += above * (high * (bound / _larger(abs(above), bound))) * above
    size = np.sqrt(curvature * curvature)
    weight = most / size if size > most else 1.0
    if not (_is_finite(size) and _is_finite(center)):
        center = curvature = weight = 0.0
    away = given - center
    psi = away * (bound / _larger(abs(away), bound) * weight)
    square = curvature * weight
    root = square * (1.0 / np.sqrt(square)) if square > 0.0 else 0.0
    return (psi if _is_finite(psi) else 0.0), root


@compiled_loop
def two_valued_terms(
    jacobian: np.ndarray,
    metric: np.ndarray,
    mass: np.ndarray,
    scores: np.ndarray,
    given: np.ndarray,
    limits: tuple[float, float],
    vectors: np.ndarray,
    factors: np.ndarray,
) -> None:
    """Vectors w psi and factors of w B of rows whose outcome has two values, each (p, N).

    `jacobian` (p, N), `mass` and `scores` (N, 2) of the values, `given` (N,) the score of the
    outcome; `limits` are C and K.
    """
    p, count = jacobian.shape
    bound, most = limits
    for start in range(0, count, BLOCK):
        width = min(BLOCK, count - start)
        turned, length, valid = np.empty((p, width)), np.empty(width), np.empty(width)
        _turn(jacobian, metric, start, turned)
        _normalize(turned, length, valid)
        for i in range(width):
            size, low, high = length[i], mass[start + i, 0], mass[start + i, 1]
            first, second = 0.0 + size * scores[start + i, 0], 0.0 + size * scores[start + i, 1]
            sound = valid[i] == 0.0 and _is_finite(low) and _is_finite(high)
            if not (sound and _is_finite(first)):
                first = low = 0.0
            if not (sound and _is_finite(second)):
                second = high = 0.0
            pair = (first, second, 0.0 + size * given[start + i], low, high)
            psi, root = _weighted_pair(pair, bound, most)
            length[i], valid[i] = (psi, root) if sound else (0.0, 0.0)
            if not sound:
                turned[:, i] = 0.0
        for k in range(p):
            row = turned[k]
            vector, factor = vectors[k, start : start + width], factors[k, start : start + width]
            for i in range(width):
                vector[i] = length[i] * row[i]
                factor[i] = 0.0 + valid[i] * row[i]


# ---- sums on lattices (`lattice`, `weighted_sums`) ----------------------------------------------
@compiled_loop
def vector_sums(
    values: np.ndarray,
    light: np.ndarray,
    kept: np.ndarray,
    limits: tuple[float, float, float],
    sums: np.ndarray,
    left: np.ndarray,
) -> None:
    """Adds up truncated vectors, (k, N), that are surely no longer than M, and marks the others.

    `limits` are 1 / gamma, the largest entry, and the largest |t|^2 in doubles that is surely at
    most M^2; `sums` (2, k) are of the rows that are `kept`, and of those that are `light`, too. N
    is at most 2^20: terms are below 2^42.
    """
    width, count = values.shape
    scale, largest, most = limits
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        units, square, top = np.empty((width, size)), np.zeros(size), np.zeros(size)
        for k in range(width):
            row, unit = values[k, start : start + size], units[k]
            for i in range(size):
                unit[i] = np.trunc(row[i] * scale)
                square[i] += unit[i] * unit[i]
                top[i] = _larger(abs(row[i]), top[i])
        for i in range(size):
            short = top[i] <= largest and square[i] <= most
            left[start + i] = not short
            square[i] = 1.0 if short and kept[start + i] else 0.0
        part = light[start : start + size]
        for k in range(width):
            unit, every, some = units[k], np.int64(0), np.int64(0)
            for i in range(size):
                term = np.int64(unit[i] if square[i] == 1.0 else 0.0)
                every += term
                some += term if part[i] else np.int64(0)
            sums[0, k] += every
            sums[1, k] += some


@compiled_loop
def gram_vectors(
    factors: np.ndarray, limits: tuple[float, float, float], found: np.ndarray, left: np.ndarray
) -> None:
    """Integer vectors, (p, N), of factors that are surely short enough, and marks the others.

    `limits` are 1 / width, the largest entry and M.
    """
    width, count = factors.shape
    scale, largest, most = limits
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        square, top = np.zeros(size), np.zeros(size)
        for k in range(width):
            row, unit = factors[k, start : start + size], found[k, start : start + size]
            for i in range(size):
                unit[i] = np.rint(row[i] * scale)
                square[i] += unit[i] * unit[i]
                top[i] = _larger(abs(row[i]), top[i])
        for i in range(size):
            short = top[i] <= largest and square[i] <= most
            left[start + i] = not short
            square[i] = 1.0 if short else 0.0
        for k in range(width):
            unit = found[k, start : start + size]
            for i in range(size):
                unit[i] = unit[i] if square[i] == 1.0 else 0.0


# ---- hashes of rows (`tables.coins`, `tables.table_rows`) ---------------------------------------
@compiled_loop
def fold_column(found: np.ndarray, column: np.ndarray, mixer: int) -> None:
    """One step of `coins.folded`: in place, of unsigned integers."""
    for i in range(len(found)):
        x = (found[i] ^ column[i]) * mixer
        found[i] = x ^ (x >> np.uint64(31))
