"""A searched lower bound of R: how tight the certificate is. Never a certificate itself."""

from __future__ import annotations

import itertools
import numpy as np
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from pymc_private.analysis import Interval as Bounds, SimplexRows, ZeroSumRows
from pymc_private.errors import DomainError
from pymc_private.certificates.record_bounds__neighbor_rows import NeighborRows
from pymc_private.models.domains__simplex import onto_simplex
from pymc_private.certificates.range_bound__partition import Rows
from pymc_private.certificates.record_bounds__row_bounds import Record
from pymc_private.models.data_variables import Source

MOST_POINTS = 96
FEW = 16
"""Records tried where each costs a walk over all rows."""
MOST_NEIGHBORS = 24
"""Records tried with each of so many neighborhoods."""
MANY = 64
"""Coordinates of one parameter that are moved one by one."""
ROUNDS = 3
"""Times that records and parameters are moved in turn."""
FAR = 1e3
"""Stand-in for an infinite end while searching."""


def searched_range(rows: Rows, box: Mapping[str, Bounds], add_remove: bool = False) -> float:
    """The greatest variation of log p(x) - log p(y) over points tried, in nats.

    Corners, centers and fixed pseudo-random points of the box and of the domain, then an ascent
    that moves one coordinate of a parameter, or one record, at a time. The search reads no data. It
    stops when `rows.effort` is exhausted: any part of it gives a bound.
    """
    records = _record_points(rows.sources)[: FEW if rows.is_slow else MOST_POINTS]
    if isinstance(rows, NeighborRows):
        records = records[:MOST_NEIGHBORS]
        neighbors = _record_points(tuple(rows.record.neighbors.values()))
        rows = rows.at_points(neighbors[:MOST_NEIGHBORS])
    points = _parameter_points(box)
    tables = []
    for point in points:
        tables.append(rows.table(point, records))
        if rows.effort.is_exhausted:
            break
    lower, upper = (np.stack(ends) for ends in zip(*tables, strict=True))
    if add_remove:
        return _widest(lower, upper)
    best, (x, y, row), (high, low) = _variation(lower, upper)
    if rows.is_slow or not best:
        return best
    rows = rows.only(row)
    ends = [points[high], points[low]]
    for _ in range(ROUNDS):
        before = best
        for k, sign in ((0, 1.0), (1, -1.0)):
            ends[k] = _ascend(rows, box, ends[k], [records[x], records[y]], sign)
        pair = [rows.table(end, records) for end in ends]
        lower, upper = (np.stack(each) for each in zip(*pair, strict=True))
        found, (x, y, _), _ = _variation(lower, upper)
        best = max(best, found)
        if best <= before * (1.0 + 1e-6) or rows.effort.is_exhausted:
            break
    return best


def range_at(rows: Rows, points: list[dict[str, Bounds]], add_remove: bool = False) -> float:
    """The greatest variation over pairs of given parameter points, in nats."""
    records = _record_points(rows.sources)[: FEW if rows.is_slow else MOST_POINTS]
    tables = [rows.table(point, records) for point in points]
    lower, upper = (np.stack(ends) for ends in zip(*tables, strict=True))
    return _widest(lower, upper) if add_remove else _variation(lower, upper)[0]


def searched_steepness(
    rows: Rows,
    box: Mapping[str, Bounds],
    between: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
) -> float:
    """The greatest variation per unit of distance over records and parameter points tried."""
    records = _record_points(rows.sources)[: FEW if rows.is_slow else MOST_POINTS]
    tables = []
    for point in _parameter_points(box):
        tables.append(rows.table(point, records))
        if rows.effort.is_exhausted:
            break
    lower, upper = (np.stack(ends) for ends in zip(*tables, strict=True))
    lower, upper = (np.where(np.isfinite(end), end, np.nan) for end in (lower, upper))
    named = [
        {s.name: cell.lower for s, cell in zip(rows.sources, record, strict=True)}
        for record in records
    ]
    best = 0.0
    for x, y in itertools.combinations(range(len(records)), 2):
        distance = between(named[x], named[y])
        with np.errstate(all="ignore"):
            rise = np.nanmax(lower[:, x] - upper[:, y], axis=0)
            fall = np.nanmin(upper[:, x] - lower[:, y], axis=0)
            gap = float(np.nan_to_num((rise - fall).max(), nan=0.0))
        if distance > 0:
            best = max(best, gap / distance * (1.0 - 1e-12))
    return best


def _ascend(
    rows: Rows,
    box: Mapping[str, Bounds],
    point: dict[str, Bounds],
    records: list[Record],
    sign: float,
) -> dict[str, Bounds]:
    """Move one coordinate after the other to the end that separates two records more."""

    def gap(tried: dict[str, Bounds]) -> float:
        lower, upper = rows.table(tried, records)
        with np.errstate(invalid="ignore"):
            value = float(sign * (lower[0, 0] + upper[0, 0] - lower[1, 0] - upper[1, 0]) / 2)
        return value if np.isfinite(value) else -np.inf

    best = gap(point)
    free = [name for name, b in box.items() if b.within is None and point[name].lower.size <= MANY]
    for name in free:
        ends = [np.clip(end, -FAR, FAR) for end in (box[name].lower, box[name].upper)]
        for index in np.ndindex(np.shape(point[name].lower)):
            for end in ends:
                value = np.array(point[name].lower)
                value[index] = end[index]
                tried = point | {name: Bounds(value, value)}
                found = gap(tried)
                if found > best:
                    point, best = tried, found
            if rows.effort.is_exhausted:
                return point
    return point


def _widest(lower: np.ndarray, upper: np.ndarray) -> float:
    """max_x [max_theta lo(x) - min_theta hi(x)]."""
    with np.errstate(invalid="ignore"):
        high = np.where(np.isfinite(lower), lower, -np.inf).max(axis=0)
        low = np.where(np.isfinite(upper), upper, np.inf).min(axis=0)
        return max(0.0, float(np.nan_to_num(high - low, nan=0.0, neginf=0.0).max()))


def _variation(
    lower: np.ndarray, upper: np.ndarray
) -> tuple[float, tuple[int, int, int], tuple[int, int]]:
    """max_{x,y} [max_theta (lo(x) - hi(y)) - min_theta (hi(x) - lo(y))]: proved at these points.

    With the records and row, and the two parameter points, at which it is found.
    """
    lower = np.where(np.isfinite(lower), lower, np.nan)
    upper = np.where(np.isfinite(upper), upper, np.nan)
    best, pair, at = 0.0, (0, 0, 0), (0, 0)
    for x in range(lower.shape[1]):
        with np.errstate(all="ignore"):
            rises = np.nan_to_num(lower[:, x : x + 1] - upper, nan=-np.inf)
            falls = np.nan_to_num(upper[:, x : x + 1] - lower, nan=np.inf)
            gaps = np.nan_to_num(rises.max(axis=0) - falls.min(axis=0), nan=-np.inf)
        y, row = np.unravel_index(int(gaps.argmax()), gaps.shape)
        if gaps[y, row] > best:
            best, pair = float(gaps[y, row]), (x, int(y), int(row))
            at = int(rises[:, y, row].argmax()), int(falls[:, y, row].argmin())
    return best, pair, at


def _record_points(sources: Sequence[Source]) -> list[Record]:
    """Corners of each variable's domain, combined; a fixed sample of the combinations."""
    choices = []
    for source in sources:
        corners = source.domain.corners(source.row_shape)
        if source.is_whole:
            corners = [f(c) for c in corners for f in (np.ceil, np.floor)]
            corners = [c for c in {c.tobytes(): c for c in corners}.values() if _holds(source, c)]
        choices.append([Bounds.point(np.asarray(c, dtype=source.dtype)) for c in corners])
    total = int(np.prod([len(c) for c in choices]))
    if total <= MOST_POINTS:
        return list(itertools.product(*choices))
    rng = np.random.default_rng(20260101)  # a search of the domain: no data, no release
    picks = rng.choice(total, size=MOST_POINTS, replace=False)
    shape = tuple(len(c) for c in choices)
    indexes = zip(*np.unravel_index(picks, shape), strict=True)
    return [tuple(c[i] for c, i in zip(choices, index, strict=True)) for index in indexes]


def _holds(source: Source, entry: np.ndarray) -> bool:
    """Whether a rounded corner is still in the domain."""
    try:
        return np.array_equal(source.domain.clip(entry[None].astype(source.dtype), 0)[0], entry)
    except DomainError:
        return False


def _parameter_points(box: Mapping[str, Bounds]) -> list[dict[str, Bounds]]:
    """All-low, all-high, sign patterns, center, and fixed pseudo-random points."""
    rng = np.random.default_rng(20260102)  # as above
    ends = {
        name: (np.clip(b.lower, -FAR, FAR).astype(float), np.clip(b.upper, -FAR, FAR).astype(float))
        for name, b in box.items()
    }
    size = sum(low.size for low, _ in ends.values())
    patterns = [np.zeros(size), np.ones(size), np.full(size, 0.5)]
    if size <= 6:
        patterns += [np.array(bits, float) for bits in itertools.product((0.0, 1.0), repeat=size)]
    patterns += [rng.integers(0, 2, size).astype(float) for _ in range(MOST_POINTS // 4)]
    patterns += [rng.random(size) for _ in range(MOST_POINTS // 4)]
    return [_point(box, ends, pattern) for pattern in patterns]


def inside(box: Mapping[str, Bounds], share: float) -> dict[str, Bounds]:
    """The point that lies this share of the way from the lower to the upper ends, all alike.

    Of a range without end the nearest ten are taken.
    """
    ends = {}
    for name, b in box.items():
        low, high = (np.asarray(end, dtype=float) for end in (b.lower, b.upper))
        low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 10.0, -5.0))
        ends[name] = low, np.minimum(high, low + 10.0)
    size = sum(low.size for low, _ in ends.values())
    return _point(box, ends, np.full(size, share))


def _point(
    box: Mapping[str, Bounds], ends: Mapping[str, tuple[np.ndarray, np.ndarray]], t: np.ndarray
) -> dict[str, Bounds]:
    point, start = {}, 0
    for name, (low, high) in ends.items():
        part = t[start : start + low.size].reshape(low.shape)
        start += low.size
        value = low + part * (high - low)
        within = box[name].within
        if isinstance(within, SimplexRows | ZeroSumRows):
            value = onto_simplex(value, low, high, within.total)
        point[name] = Bounds(value, value, within)
    return point
