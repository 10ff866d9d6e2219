"""Centers of clipped scores and moments around them, row by row: `scores.clipped_scores`.

Of outcomes with more values than two, whose scores have one or two components. A row's numbers are
those of NumPy to the bit: its operations in its order, and its sums in pairs (`_total`).
"""

from __future__ import annotations

import numpy as np
from numba.extending import register_jitable

from pymc_private.summaries.compiled.loops import compiled_loop

LEAST_SPLIT = 128
"""Sums of more numbers are those of two parts, as NumPy has them."""


# ---- sums in NumPy's order ----------------------------------------------------------------------
@compiled_loop
def short_total(part: np.ndarray) -> float:
    """The sum of at most `LEAST_SPLIT` numbers: eight by eight, and the last few one by one."""
    size = len(part)
    if size < 8:
        total = 0.0
        for q in range(size):
            total += part[q]
        return total
    a, b, c, d, e, f, g, h = part[0], part[1], part[2], part[3], part[4], part[5], part[6], part[7]
    for k in range(1, size // 8):
        eight = part[8 * k : 8 * k + 8]
        a, b, c, d = a + eight[0], b + eight[1], c + eight[2], d + eight[3]
        e, f, g, h = e + eight[4], f + eight[5], g + eight[6], h + eight[7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    rest = part[size - size % 8 :]
    for q in range(len(rest)):
        total += rest[q]
    return total


@compiled_loop
def long_total(part: np.ndarray) -> float:
    """The sum of any numbers, `part.sum()`."""
    size = len(part)
    if size <= LEAST_SPLIT:
        return short_total(part)
    half = size // 2
    half -= half % 8
    return long_total(part[:half]) + long_total(part[half:])


@register_jitable
def _product_total(first: np.ndarray, second: np.ndarray, room: np.ndarray) -> float:
    """`(first * second).sum()`."""
    for q in range(len(room)):
        room[q] = first[q] * second[q]
    return long_total(room)


# ---- one row ------------------------------------------------------------------------------------
@register_jitable
def _larger(x: float, y: float) -> float:
    """The larger of two numbers; NaN if one is."""
    return x if x >= y or x != x else y


@register_jitable
def _smaller(x: float, y: float) -> float:
    """The smaller of two numbers; NaN if one is."""
    return x if x <= y or x != x else y


@register_jitable
def _length(vector: np.ndarray) -> float:
    """Its Euclidean norm."""
    if len(vector) == 1:
        return abs(vector[0])
    return np.sqrt(vector[0] * vector[0] + vector[1] * vector[1])


@register_jitable
def _move(scores: np.ndarray, row: int, center: np.ndarray, away: np.ndarray) -> None:
    """Scores less a center, and in the last row of `away` their norms."""
    m = len(scores)
    norm = away[m]
    for k in range(m):
        part, own, at = away[k], scores[k, row], center[k]
        for q in range(len(norm)):
            part[q] = own[q] - at
    first, last = away[0], away[m - 1]
    if m == 1:
        for q in range(len(norm)):
            norm[q] = abs(first[q])
    else:
        for q in range(len(norm)):
            norm[q] = np.sqrt(first[q] * first[q] + last[q] * last[q])


@register_jitable
def _second_moments(
    away: np.ndarray, weight: np.ndarray, room: np.ndarray, found: np.ndarray
) -> None:
    """Sums of weight times v v'."""
    weighted, product = room[0], room[1]
    for i in range(len(found)):
        own = away[i]
        for q in range(len(weight)):
            weighted[q] = own[q] * weight[q]
        for j in range(i + 1):
            found[i, j] = found[j, i] = _product_total(weighted, away[j], product)


@register_jitable
def _huber(
    mass: np.ndarray,
    bound: float,
    away: np.ndarray,
    room: np.ndarray,
    slope: np.ndarray,
    hessian: np.ndarray,
) -> tuple[float, float]:
    """E rho and E omega; E psi and E D go to `slope` and `hessian`."""
    m = len(slope)
    norm, pull, outside, value = away[m], room[2], room[3], room[0]
    for q in range(len(mass)):  # one array in a loop: the compiler takes several numbers at once
        pull[q] = mass[q] * (bound / _larger(norm[q], bound))
    for q in range(len(mass)):
        inner = _smaller(norm[q], bound)
        value[q] = mass[q] * (inner * (norm[q] - 0.5 * inner))
    for q in range(len(mass)):
        far = _larger(norm[q], bound)
        outside[q] = pull[q] / (far * far) * (1.0 if norm[q] > bound else 0.0)
    least, share = long_total(value), long_total(pull)
    _second_moments(away, outside, room, hessian)
    for i in range(m):
        for j in range(m):
            hessian[i, j] = share * (1.0 if i == j else 0.0) - hessian[i, j]
        slope[i] = _product_total(away[i], pull, room[1])
    return least, share


@register_jitable
def _step(hessian: np.ndarray, slope: np.ndarray, mixture: float, share: float) -> tuple:
    """A step towards the center, and 0 beside it where there is one component."""
    kept, added = 1.0 - mixture, mixture * share
    a = hessian[0, 0] * kept + added
    if len(slope) == 1:
        return slope[0] / a, 0.0
    b, d = hessian[0, 1] * kept + added * 0.0, hessian[1, 1] * kept + added
    scale = a * d - b * b
    return (d * slope[0] - b * slope[1]) / scale, (a * slope[1] - b * slope[0]) / scale


@register_jitable
def _find_center(
    scores: np.ndarray,
    mass: np.ndarray,
    row: int,
    limits: tuple[float, int, float, float],
    center: np.ndarray,
    spaces: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Newton's steps of one row from a center: `clipped_scores._newton_center`."""
    (bound, steps, tolerance, least), (away, room, own) = limits, spaces
    m, weights = len(scores), mass[row]
    slope, hessian, moved = own[0], own[1 : m + 1], own[m + 1]
    new_slope, new_hessian = own[m + 2], own[m + 3 :]
    enough = tolerance * bound * long_total(weights)
    _move(scores, row, center, away)
    value, share = _huber(weights, bound, away, room, slope, hessian)
    mixture = least
    for _ in range(steps):
        if not _length(slope) > enough:
            break
        step = _step(hessian, slope, mixture, share)
        for k in range(m):
            moved[k] = center[k] + step[k]
        _move(scores, row, moved, away)
        new_value, new_share = _huber(weights, bound, away, room, new_slope, new_hessian)
        if new_value <= value + 1e-14 * abs(value):
            for i in range(m):
                center[i], slope[i] = moved[i], new_slope[i]
                for j in range(m):
                    hessian[i, j] = new_hessian[i, j]
            value, share = new_value, new_share
            mixture = _larger(least, mixture / 8.0)
        else:
            mixture = 1.0


@compiled_loop
def clipped_centers(
    scores: np.ndarray,
    mass: np.ndarray,
    limits: tuple[float, int, float, float],
    is_started: bool,
    centers: np.ndarray,
    curvature: np.ndarray,
    second: np.ndarray,
) -> None:
    """Centers (N, m) of scores (m, N, Q) with mass (N, Q), and moments (N, m, m) around them.

    `limits` are C, the most steps, the tolerance and the least mixture. Where `is_started` is true,
    steps begin at `centers`, else at the means of the scores.
    """
    m, count, nodes = scores.shape
    bound = limits[0]
    away, room, own = np.empty((m + 1, nodes)), np.empty((4, nodes)), np.empty((2 * m + 3, m))
    omega, square = room[2], room[3]
    for row in range(count):
        weights, center = mass[row], centers[row]
        if not is_started:
            total = long_total(weights)
            total = total if total > 0.0 else 1.0
            for k in range(m):
                center[k] = _product_total(scores[k, row], weights, room[0]) / total
        _find_center(scores, mass, row, limits, center, (away, room, own))
        _move(scores, row, center, away)
        norm = away[m]
        for q in range(nodes):
            omega[q] = bound / _larger(norm[q], bound)
        for q in range(nodes):
            square[q] = weights[q] * (omega[q] * omega[q])
        for q in range(nodes):
            omega[q] = weights[q] * omega[q]
        _second_moments(away, omega, room, curvature[row])
        _second_moments(away, square, room, second[row])
