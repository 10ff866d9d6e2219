"""Sums of scores of outcomes with two values in one compiled loop: the operations of NumPy.

A block of rows passes through all stages (`scores.two_valued_score`, `lattice`, `weighted_sums`)
while it is close to the processor, and leaves integers. Operations are those of NumPy in its order;
sums of integers are exact in any order, so that these alone may be taken in several lanes. What is
not surely a term of the fast kind (a row outside of its domain, a vector near its bound) is marked,
and left to NumPy.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numba.extending import register_jitable

from pymc_private.summaries.compiled.loops import _larger, compiled_loop

ROWS = 256
"""Rows of a block: sums of weighted products, each hardly above 2^44, stay exact doubles."""
LIMB = 2.0**24
"""Integers below 2^41 are summed in two parts."""


@register_jitable
def _products(rows: np.ndarray, matrix: np.ndarray, found: np.ndarray) -> None:
    """Constants and slopes (K, 1 + k) times rows (k, N), in the order of the columns."""
    outputs, count = found.shape
    inputs = rows.shape[0]
    for o in range(outputs):
        out = found[o]
        out[:] = matrix[o, 0]
        for j in range(0, inputs - 3, 4):
            w, x, y, z = matrix[o, j + 1], matrix[o, j + 2], matrix[o, j + 3], matrix[o, j + 4]
            a, b, c, d = rows[j], rows[j + 1], rows[j + 2], rows[j + 3]
            for i in range(count):
                out[i] = (((out[i] + a[i] * w) + b[i] * x) + c[i] * y) + d[i] * z
        for j in range(inputs - inputs % 4, inputs):
            w, a = matrix[o, j + 1], rows[j]
            for i in range(count):
                out[i] += a[i] * w


@register_jitable
def _link(
    predictor: np.ndarray,
    table: np.ndarray,
    scale: tuple[float, float],
    mass: np.ndarray,
    gap: np.ndarray,
) -> None:
    """Polynomials of the cell in which each predictor lies: `two_valued_score.LinkTable`."""
    low, rate = scale
    last = table.shape[1] - 1
    for i in range(len(predictor)):
        place = (predictor[i] - low) * rate
        place = place if place > 0.0 else 0.0
        place = place if place < last + 1.0 else last + 1.0
        cell = min(np.int64(place), last)
        x = place - cell
        p, d = table[0, cell], table[6, cell]
        for k in range(1, 6):
            p = p * x + table[k, cell]
            d = d * x + table[6 + k, cell]
        p = p if p > 0.0 else 0.0
        mass[i] = p if p < 1.0 else 1.0
        gap[i] = d


@register_jitable
def _factors(
    directions: np.ndarray, mass: np.ndarray, gap: np.ndarray, second: np.ndarray,
    limits: tuple[float, float],
) -> None:  # fmt: skip
    """What the direction of each row is multiplied by, in place of `gap` and `mass`.

    w psi is the first of them times the direction, and a factor of w B the second.
    """
    bound, most = limits
    square = np.zeros(len(mass))
    for k in range(directions.shape[0]):
        row = directions[k]
        for i in range(len(mass)):
            square[i] += row[i] * row[i]
    for i in range(len(mass)):
        p, d = mass[i], gap[i]
        rest = 1.0 - p
        distance = (abs(d) * np.sqrt(square[i])) * (p if p > rest else rest)
        step = bound / _larger(distance, bound)
        share = (p * rest) * step
        weight = most / _larger((share * (d * d)) * square[i], most)
        gap[i] = ((rest if second[i] else -p) * step) * (weight * d)
        mass[i] = np.sqrt(share * weight) * abs(d)


@register_jitable
def _inside(
    rows: np.ndarray, box: np.ndarray, balls: np.ndarray, largest: np.ndarray, kept: np.ndarray
) -> None:
    """Unmarks rows that a clip may move: beyond bounds (2, k), or in balls (b, 2, k) too large."""
    for j in range(rows.shape[0]):
        row, low, high = rows[j], box[0, j], box[1, j]
        for i in range(len(kept)):
            kept[i] = kept[i] and row[i] >= low and row[i] <= high
    for b in range(len(largest)):
        square = np.zeros(len(kept))
        for j in range(rows.shape[0]):
            row, middle, rate = rows[j], balls[b, 0, j], balls[b, 1, j]
            for i in range(len(kept)):
                z = (row[i] - middle) * rate
                square[i] += z * z
        for i in range(len(kept)):
            kept[i] = kept[i] and square[i] <= largest[b]


@register_jitable
def _units(
    directions: np.ndarray, factor: np.ndarray, limits: tuple[float, float, float],
    nearest: bool, kept: np.ndarray, found: np.ndarray,
) -> None:  # fmt: skip
    """Integer vectors of multiples of directions; unmarks those that may be too long.

    `limits` as of `loops.vector_sums` and `gram_vectors`, which these are.
    """
    scale, largest, most = limits
    count = len(factor)
    square, top = np.zeros(count), np.zeros(count)
    for k in range(directions.shape[0]):
        row, unit = directions[k], found[k]
        for i in range(count):
            value = factor[i] * row[i]
            unit[i] = np.rint(value * scale) if nearest else np.trunc(value * scale)
            square[i] += unit[i] * unit[i]
            top[i] = _larger(abs(value), top[i])
    for i in range(count):
        kept[i] = kept[i] and top[i] <= largest and square[i] <= most


@partial(compiled_loop, fastmath={"reassoc", "contract"})
def _exact_product(one: np.ndarray, other: np.ndarray) -> float:
    """The sum of products of integers whose sums stay below 2^53: exact in any order."""
    total = 0.0
    for i in range(len(one)):
        total += one[i] * other[i]
    return total


@register_jitable
def _add_vectors(units: np.ndarray, weights: np.ndarray, sums: np.ndarray) -> None:
    """Adds sums of weighted integers below 2^41: the high and the low part of each."""
    high, low = np.empty(len(weights)), np.empty(len(weights))
    for k in range(units.shape[0]):
        row = units[k]
        for i in range(len(weights)):
            high[i] = np.trunc(row[i] * (1.0 / LIMB))
            low[i] = row[i] - high[i] * LIMB
        sums[0, k] += np.int64(_exact_product(high, weights))
        sums[1, k] += np.int64(_exact_product(low, weights))


@register_jitable
def _add_matrices(
    units: np.ndarray, weights: np.ndarray, weighted: np.ndarray, sums: np.ndarray
) -> None:
    """Adds sums of weighted products v v', row by row on and above the diagonal."""
    p, place = units.shape[0], 0
    for k in range(p):
        row, out = units[k], weighted[k]
        for i in range(len(weights)):
            out[i] = row[i] * weights[i]
    for j in range(p):
        for k in range(j, p):
            sums[place] += np.int64(_exact_product(weighted[j], units[k]))
            place += 1


@register_jitable
def _drop(units: np.ndarray, kept: np.ndarray) -> None:
    """Zeros where rows are not kept: NaN, too."""
    for k in range(units.shape[0]):
        row = units[k]
        for i in range(len(kept)):
            row[i] = row[i] if kept[i] else 0.0


@compiled_loop
def two_valued_sums(
    rows: np.ndarray,
    second: np.ndarray,
    weights: np.ndarray,
    domain: tuple[np.ndarray, np.ndarray, np.ndarray],
    matrix: np.ndarray,
    link: tuple[np.ndarray, float, float],
    limits: tuple[float, float],
    lattices: tuple[tuple[float, float, float], tuple[float, float, float]],
    sums: np.ndarray,
    matrices: np.ndarray,
    left: np.ndarray,
) -> None:
    """Adds up weighted terms of rows (k, N) with outcomes of two values, and marks what is left.

    Parameters
    ----------
    rows : array, shape (k, N)
    second : bool array, shape (N,)
        Whether the outcome is the second value.
    weights : array, shape (N,)
        Whole numbers up to 2^8.
    domain : tuple of array
        Bounds (2, k); centers and inverse scales of balls (b, 2, k), 0 in columns that are not
        theirs; the largest squared norms (b,) that are surely inside.
    matrix : array, shape (1 + p, 1 + k)
        Constants and slopes of the predictor and of W times its derivatives.
    link : tuple
        Coefficients (12, cells), the lowest predictor and cells per unit.
    limits : tuple of float
        C and K.
    lattices : tuple
        Limits of vectors and of factors, as of `vector_sums` and `gram_vectors`.
    sums : array, shape (2, p), int64
        High and low parts of what is added to; N is at most 2^16.
    matrices : array, shape (p (p + 1) / 2,), int64
        The same of factors; empty where none are summed.
    left : bool array, shape (N,)
        Rows that are not added; those that are marked before are left.
    """
    p, count = matrix.shape[0] - 1, rows.shape[1]
    for start in range(0, count, ROWS):
        width = min(ROWS, count - start)
        end = start + width
        part, kept = np.empty((rows.shape[0], width)), np.logical_not(left[start:end])
        for j in range(rows.shape[0]):  # a copy, whose rows lie where the loops expect them
            part[j] = rows[j, start:end]
        _inside(part, domain[0], domain[1], domain[2], kept)
        found, units = np.empty((p + 1, width)), np.empty((p, width))
        mass, gap, given = np.empty(width), np.empty(width), np.empty(width)
        _products(part, matrix, found)
        directions = found[1:]
        _link(found[0], link[0], (link[1], link[2]), mass, gap)
        _factors(directions, mass, gap, second[start:end], limits)
        _units(directions, gap, lattices[0], False, kept, units)
        if len(matrices):
            other = np.empty((p, width))
            _units(directions, mass, lattices[1], True, kept, other)
        for i in range(width):
            left[start + i] = not kept[i]
            given[i] = weights[start + i] if kept[i] else 0.0
        _drop(units, kept)
        _add_vectors(units, given, sums)
        if len(matrices):
            _drop(other, kept)
            _add_matrices(other, given, units, matrices)


@register_jitable
def _fold(found: np.ndarray, column: np.ndarray, mixer: int) -> None:
    """`coins.fold`, in place."""
    for i in range(len(found)):
        x = (found[i] ^ column[i]) * mixer
        found[i] = x ^ (x >> np.uint64(31))


@register_jitable
def _note_finite(values: np.ndarray, sound: np.ndarray) -> None:
    """Leaves `sound` zero if all values are finite, else makes it NaN."""
    for i in range(len(values)):
        sound[i] += values[i] * 0.0


@register_jitable
def _without_signed_zeros(values: np.ndarray, found: np.ndarray) -> None:
    for i in range(len(values)):
        found[i] = values[i] + 0.0


@register_jitable
def _mix(x: Any, first: int, second: int) -> Any:
    """`coins.mixed`."""
    x = (x ^ (x >> np.uint64(30))) * first
    x = (x ^ (x >> np.uint64(27))) * second
    return x ^ (x >> np.uint64(31))


@register_jitable
def _finish(found: np.ndarray, key: int, first: int, second: int) -> None:
    """Numbers of hashes, as `coins.Coins.numbers` makes them, in place."""
    for i in range(len(found)):
        found[i] = _mix(_mix(found[i], first, second) ^ key, first, second)


@compiled_loop
def numbers_of_rows(
    columns: np.ndarray,
    keyed: np.ndarray,
    others: np.ndarray,
    key: tuple[int, int],
    mixers: tuple[int, int, int],
    numbers: np.ndarray,
) -> tuple[np.uint64, bool]:
    """The number of each row (`coins.Coins.numbers`) of finite columns, and a sum of hashes.

    Parameters
    ----------
    columns : array, shape (K, N)
    keyed, others : array of int
        Columns whose bits make the number; none: `numbers` are given. Those that the hash of a row
        takes in besides its number.
    key : tuple of uint64
    mixers : tuple of uint64
        Those of splitmix64, and that of `coins.fold`.
    numbers : array of uint64, shape (N,)

    Returns
    -------
    uint64
        As of `table_rows.RowReader.read_of`.
    bool
        Whether all entries are finite; if not, numbers are none.
    """
    first, second, mixer = mixers
    bits, total, sound = columns.view(np.uint64), np.uint64(0), np.zeros(ROWS)
    for start in range(0, columns.shape[1], ROWS):
        end = min(start + ROWS, columns.shape[1])
        found, plain = numbers[start:end], np.empty(end - start)
        for k in range(columns.shape[0]):
            _note_finite(columns[k, start:end], sound)
        if len(keyed):
            found[:] = key[0]
            for k in keyed:
                _without_signed_zeros(columns[k, start:end], plain)
                _fold(found, plain.view(np.uint64), mixer)
            _finish(found, key[1], first, second)
        hashes = found.copy()
        for k in others:
            _fold(hashes, bits[k, start:end], mixer)
        for i in range(end - start):
            total += _mix(hashes[i], first, second)
    return total, sound.sum() == 0.0
