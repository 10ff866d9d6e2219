"""A searched lower bound of R: how tight the certificate is. Never a certificate itself."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from pymc_private.analysis import Interval as Bounds
from pymc_private.analysis import SimplexRows
from pymc_private.errors import DomainError
from pymc_private.models.row_bounds import Record, RowBounds
from pymc_private.models.simplex import onto_simplex
from pymc_private.models.sources import Source

MOST_POINTS = 96
FEW = 16
"""Records tried where each costs a walk over all rows."""
FAR = 1e3
"""Stand-in for an infinite end while searching."""


def searched_range(rows: RowBounds, box: Mapping[str, Bounds]) -> float:
    """The greatest variation of log p(x) - log p(y) over points tried, in nats.

    Corners, centers and fixed pseudo-random points of the box and of the domain; the search
    reads no data. It stops when `rows.effort` is exhausted: any part of it gives a bound.
    """
    records = _record_points(rows)[: FEW if rows.graph.pinned else MOST_POINTS]
    points = _parameter_points(box)
    lower, upper = [], []
    for point in points:
        low, high = rows.table(point, records)
        lower.append(low)
        upper.append(high)
        if rows.effort.is_exhausted:
            break
    return _variation(np.stack(lower), np.stack(upper))


def _variation(lower: np.ndarray, upper: np.ndarray) -> float:
    """max_{x,y} [max_theta (lo(x) - hi(y)) - min_theta (hi(x) - lo(y))]: proved at these points."""
    lower = np.where(np.isfinite(lower), lower, np.nan)
    upper = np.where(np.isfinite(upper), upper, np.nan)
    best = 0.0
    for x in range(lower.shape[1]):
        with np.errstate(all="ignore"):
            rise = np.nanmax(lower[:, x : x + 1] - upper, axis=0, initial=-np.inf)
            fall = np.nanmin(upper[:, x : x + 1] - lower, axis=0, initial=np.inf)
        best = max(best, float(np.nanmax(rise - fall, initial=0.0)))
    return best


def _record_points(rows: RowBounds) -> list[Record]:
    """Corners of each variable's domain, combined; a fixed sample of the combinations."""
    choices = []
    for source in rows.sources:
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


def _point(
    box: Mapping[str, Bounds], ends: Mapping[str, tuple[np.ndarray, np.ndarray]], t: np.ndarray
) -> dict[str, Bounds]:
    point, start = {}, 0
    for name, (low, high) in ends.items():
        part = t[start : start + low.size].reshape(low.shape)
        start += low.size
        value = low + part * (high - low)
        within = box[name].within
        if isinstance(within, SimplexRows):
            value = onto_simplex(value, low, high)
        point[name] = Bounds(value, value, within)
    return point
