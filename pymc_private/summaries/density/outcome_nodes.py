"""Quadrature nodes of an outcome: values and their probabilities, from a density alone.

The distribution p(y | x, theta) of an outcome is known by its logarithm only, and expectations
under it are wanted for each of many rows. No table of families is used. Listed outcomes are all
taken. Else

1. the outcome moves to a coordinate v on the real line: y itself, log(y - a), -log(b - y) or
   log((y - a) / (b - y)), by the ends of the support;
2. a grid over the domain and far beyond it is narrowed around the largest value, `ZOOMS` times;
3. on either side of this mode, distances on a ladder tell where the log density in v has fallen by
   one nat (the scale s of that side) and by `DEPTH` nats (its reach);
4. each side is integrated by Gauss-Legendre points in t = asinh(distance / s), which resolves light
   and heavy tails alike, allows a kink at the mode and a sharp end at a bound; counts are summed in
   panels, each by a Gauss rule on whole numbers (`_count_rules`).

Points with mass of their own (bounds of censored outcomes, zeros of hurdles) are evaluated apart.
The number of passes and of points in each is fixed, and no step couples two rows: the result for a
row depends on its density alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, reduce

import numpy as np

from pymc_private.errors import Unsupported
from pymc_private.summaries.density.outcome_support import (
    OutcomeRange,
    OutcomeSupport,
    outcome_support,
)

__all__ = [
    "OutcomeNodes",
    "OutcomeSupport",
    "Peaks",
    "check_mass",
    "find_peaks",
    "outcome_nodes",
    "outcome_support",
]

LogDensity = Callable[[np.ndarray], np.ndarray]
"""Log densities at outcomes of shape (N, Q), any Q; row i of both belongs to record i."""
FLOOR = -1e300
"""Stands for log densities that are no finite numbers; differences of two stay finite."""
ZOOMS = 3
"""How often the grid is narrowed to the two cells beside its largest value."""
ZOOM_POINTS = 48
SIDE_POINTS = 32
"""Points on each side of a mode."""
SIDE_PANELS = (22, 10)
"""Points of the two Gauss-Legendre rules on each side."""
SIDE_BLOCK = 256
"""Peaks whose sides are taken together: their arrays stay close to the processor."""
USUAL_BREAK = 0.7
"""Where they meet, as a share of a side, unless an end of the domain lies on it."""
SHORT_PANEL = 0.12
"""Panels of less than this share of a side are short."""
DEPTH = 18.0
"""Nats below the mode, in the coordinate t, at which a tail is cut."""
PANEL_POINTS = 8
PANELS = 2 * SIDE_POINTS // PANEL_POINTS
LONGEST_PANEL = 1024
"""Whole numbers in a panel of its own rule; in longer panels cells of whole numbers are summed."""
FEW_COLUMNS = 8
"""Rows shorter than this NumPy sums in the order of their entries, too."""
LARGEST_ERROR = 1e-3
"""Largest error of a total probability that `check_mass` accepts."""


@dataclass(frozen=True, eq=False)
class OutcomeNodes:
    """Outcomes and their probabilities, row by row.

    Attributes
    ----------
    values : array, shape (N, Q)
        Outcomes, in the whole support of the density.
    mass : array, shape (N, Q)
        Their probabilities, normalized; 0 in rows whose density is no density.
    clipped : array, shape (N, Q)
        The outcomes clipped to the declared domain, as data are.
    total : array, shape (N,)
        Sums of the probabilities before they were normalized: 1 up to the error of the rule.
    """

    values: np.ndarray
    mass: np.ndarray
    clipped: np.ndarray
    total: np.ndarray


def outcome_nodes(
    log_density: LogDensity,
    support: OutcomeSupport,
    rows: int,
    entries: Mapping[str, np.ndarray] | None = None,
    peaks: Peaks | None = None,
) -> OutcomeNodes:
    """Nodes of the outcome for `rows` records.

    Parameters
    ----------
    log_density : callable
        Log densities at outcomes of shape (rows, Q), for any Q. It is called seven times at most.
    support : OutcomeSupport
    rows : int
    entries : mapping of str to array, optional
        Covariates and public entries of the rows, needed where bounds differ from row to row.
    peaks : Peaks, optional
        Where each row has its peaks, about; default: they are searched for.
    """
    with np.errstate(all="ignore"):  # no warning may depend on a record
        if support.kind == "finite":
            levels = np.asarray(support.levels)
            values = np.broadcast_to(levels, (rows, len(levels)))
            clipped = np.broadcast_to(np.clip(levels, *support.domain), values.shape)
            return _normalized(values, np.exp(log_density(values)), clipped)
        place = support.at(rows, entries)
        whole = support.kind == "integer"
        density = _CoordinateDensity(log_density, support, place, whole)
        peaks = _find_peaks(density, support) if peaks is None else peaks
        rule = _count_nodes if whole else _side_nodes
        points, weights = rule(density, peaks, support.domain)
        values = density.outcome(points)
        extra = place.atoms
        logp = np.asarray(log_density(np.concatenate([values, extra], axis=1)), float)
        logp = np.where(np.isnan(logp), -np.inf, logp)
        inner = np.exp(logp[:, : values.shape[1]] + density.log_slope(points)) * weights
        atoms = np.where(_is_repeated(extra), 0.0, np.exp(logp[:, values.shape[1] :]))
        values = np.concatenate([values, extra], axis=1)
        mass = np.concatenate([inner, atoms], axis=1)
        return _normalized(values, mass, np.clip(values, *support.domain))


def find_peaks(log_density: LogDensity, support: OutcomeSupport, rows: int) -> Peaks:
    """Peaks of rows whose bounds do not differ; arguments as of `outcome_nodes`."""
    with np.errstate(all="ignore"):
        whole = support.kind == "integer"
        density = _CoordinateDensity(log_density, support, support.at(rows), whole)
        return _find_peaks(density, support)


def _normalized(values: np.ndarray, mass: np.ndarray, clipped: np.ndarray) -> OutcomeNodes:
    total = sums_of_rows(mass)
    sound = np.isfinite(total) & (total > 0.0)
    if sound.all():
        return OutcomeNodes(values, mass / total[:, None], clipped, total)
    mass = np.where(sound[:, None], mass / np.where(sound, total, 1.0)[:, None], 0.0)
    return OutcomeNodes(values, mass, clipped, total)


def sums_of_rows(rows: np.ndarray) -> np.ndarray:
    """Sums of rows, shape (N,): column by column where rows are so short that NumPy is slow."""
    return reduce(np.add, rows.T) if 0 < rows.shape[1] < FEW_COLUMNS else rows.sum(axis=1)


def check_mass(nodes: OutcomeNodes, outcome: str, reals_for_whole: bool) -> None:
    """Refuse a density whose probabilities do not sum to one. For public rows only.

    `reals_for_whole`: the density is of real numbers, and outcomes are whole by type.

    Raises
    ------
    Unsupported
    """
    error = np.abs(nodes.total - 1.0)
    worst = float(np.max(np.where(np.isfinite(error), error, np.inf), initial=0.0))
    if worst > LARGEST_ERROR:
        raise Unsupported(
            f"the probabilities of '{outcome}' do not sum to one",
            got=f"a sum that is off by {worst:.2g}, at public covariates",
            allowed=f"an error of {LARGEST_ERROR:g}",
            do=NORMALIZED_VALUES if reals_for_whole else NORMALIZED,
        )


NORMALIZED = (
    "a density of the outcome that is normalized and smooth between its bounds; for several narrow "
    "peaks, method='cells'"
)
NORMALIZED_VALUES = (
    "a likelihood of whole numbers (pm.Bernoulli, pm.Binomial, pm.Poisson, pm.OrderedLogistic), as "
    "these outcomes are by type; measurements under a density of real numbers as y.astype(float)"
)


def _is_repeated(atoms: np.ndarray) -> np.ndarray:
    """Whether an atom is listed before in its row, or is no finite number."""
    same = atoms[:, :, None] == atoms[:, None, :]
    earlier = np.tri(atoms.shape[1], k=-1, dtype=bool)
    return (same & earlier).any(axis=2) | ~np.isfinite(atoms)


# ---- the density in its coordinate -------------------------------------------------------------
class _CoordinateDensity:
    """The log density of the coordinate v, for points of shape (N, K, q): K peaks of a row.

    Attributes
    ----------
    low, high : array, shape (N, 1)
        Bounds of v within which a density is integrated, -inf and inf where there are none.
    """

    def __init__(
        self, log_density: LogDensity, support: OutcomeSupport, place: OutcomeRange, whole: bool
    ) -> None:
        self._log_density, self.whole = log_density, whole
        self._ends = (-np.inf, np.inf) if whole else support.ends
        self._atoms = place.atoms
        if whole:  # bounds carry mass of their own: they are left to the atoms
            self.low, self.high = place.lower + 1.0, place.upper - 1.0
            self._inner = self.low, self.high
        else:
            self.low, self.high = self.coordinate(place.lower), self.coordinate(place.upper)
            inward = np.nextafter(place.lower, np.inf), np.nextafter(place.upper, -np.inf)
            self._inner = (
                np.where(np.isfinite(place.lower), inward[0], -np.inf),
                np.where(np.isfinite(place.upper), inward[1], np.inf),
            )

        self._is_bounded = bool(np.isfinite(np.concatenate(self._inner)).any())

    def coordinate(self, y: np.ndarray) -> np.ndarray:
        a, b = self._ends
        below = np.log(y - a) if np.isfinite(a) else (0.0 if np.isfinite(b) else y)
        return below - np.log(b - y) if np.isfinite(b) else np.asarray(below)

    def outcome(self, v: np.ndarray) -> np.ndarray:
        """Outcomes at coordinates of shape (N, q), inside the bounds and off every atom."""
        a, b = self._ends
        if np.isfinite(a) and np.isfinite(b):
            y = a + (b - a) / (1.0 + np.exp(-v))
        elif np.isfinite(a):
            y = a + np.exp(v)
        else:
            y = b - np.exp(-v) if np.isfinite(b) else v
        if self._is_bounded:
            y = np.clip(y, *self._inner)
        if not self.whole:
            for atom in self._atoms.T[:, :, None]:
                step = np.where(atom >= self._inner[1], -np.inf, np.inf)
                y = np.where(y == atom, np.nextafter(y, step), y)
        return y

    def log_slope(self, v: np.ndarray) -> np.ndarray | float:
        """The logarithm of dy/dv."""
        a, b = self._ends
        if np.isfinite(a) and np.isfinite(b):
            far = np.abs(v)
            return np.log(b - a) - far - 2.0 * np.log1p(np.exp(-far))
        if np.isfinite(a):
            return v
        return -v if np.isfinite(b) else 0.0

    def __call__(self, v: np.ndarray) -> np.ndarray:
        """Log densities of v, shape (N, K, q); `FLOOR` where they are no finite numbers."""
        flat = v.reshape(len(v), -1)
        found = self._log_density(self.outcome(flat)) + self.log_slope(flat)
        return np.where(np.isfinite(found), found, FLOOR).reshape(v.shape)

    def first_grid(self, domain: tuple[float, float]) -> np.ndarray:
        """Coordinates over the domain and far beyond it, increasing."""
        low, high = domain
        a, b = self._ends
        if self.whole:
            return _count_grid(low, high)
        if np.isfinite(a) and np.isfinite(b):
            return _spread(0.0, 12.0, 700.0)
        if np.isfinite(a):
            return _spread(np.log(high - a) - 8.0 if high > a else 0.0, 16.0, 600.0)
        if np.isfinite(b):
            return _spread(8.0 - np.log(b - low) if low < b else 0.0, 16.0, 600.0)
        return _spread((low + high) / 2.0, self.unit(domain), 1e8 * self.unit(domain))

    def unit(self, domain: tuple[float, float]) -> float:
        """A length in v: half the domain, or 1 where v is a logarithm."""
        if self.whole or np.isfinite(self._ends).any():
            return 1.0
        half = (domain[1] - domain[0]) / 2.0
        return half if half > 0.0 else max(abs(domain[0]), 1.0)


def _spread(center: float, half: float, reach: float) -> np.ndarray:
    """Points even on center +- half, and further apart as far as center +- reach."""
    outer = half * np.geomspace(1.25, reach / half, 11)
    offsets = np.concatenate([-outer[::-1], np.linspace(-half, half, 43), outer])
    return center + offsets


def _count_grid(low: float, high: float) -> np.ndarray:
    """Whole numbers, dense near the lower end of the domain (0 for most counts)."""
    middle = max(np.floor(low), 0.0) if low >= 0.0 else np.rint((low + high) / 2.0)
    ladder = np.unique(np.concatenate([np.arange(12.0), np.rint(np.geomspace(12.0, 1e12, 52))]))
    return middle + ladder if low >= 0.0 else middle + np.r_[-ladder[:0:-1], ladder]


# ---- peaks -------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Peaks:
    """Modes of each row, with scales and reaches of their sides.

    `mode`, `low` and `high` have shape (N, K): no side leaves [low, high]. `scale` and `reach` have
    shape (2, N, K), first the left sides.
    """

    mode: np.ndarray
    low: np.ndarray
    high: np.ndarray
    scale: np.ndarray
    reach: np.ndarray

    def at(self, rows: np.ndarray) -> Peaks:
        """Those of some rows."""
        sides = self.scale[:, rows], self.reach[:, rows]
        return Peaks(self.mode[rows], self.low[rows], self.high[rows], *sides)

    def towards(self, other: Peaks, share: np.ndarray, whole: bool) -> Peaks:
        """Peaks between these and others, by shares (N, 1) of the way; of counts if `whole`.

        These themselves where what is between is no number: as of all that is searched for, modes,
        scales and reaches are finite.
        """
        share = np.where((share >= 0.0) & (share <= 1.0), share, 0.0)
        mode = _between(self.mode, self.mode + share * (other.mode - self.mode))
        mode = np.clip(mode, self.low, self.high)
        reach = _between(self.reach, self.reach + share * (other.reach - self.reach))
        if whole:
            mode, reach = np.rint(mode), np.ceil(reach)
        scale = _between(self.scale, self.scale * (other.scale / self.scale) ** share)
        room = np.stack([mode - self.low, self.high - mode])
        reach = np.maximum(np.minimum(reach, room), 0.0)
        return Peaks(mode, self.low, self.high, np.maximum(scale, 1e-300), reach)


def _between(own: np.ndarray, found: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(found), found, own)


def _find_peaks(density: _CoordinateDensity, support: OutcomeSupport) -> Peaks:
    grid = density.first_grid(support.domain)
    grid = np.clip(np.broadcast_to(grid, (len(density.low), len(grid))), density.low, density.high)
    values = density(grid[:, None, :])[:, 0]
    picked, low, high = _pick_peaks(grid, values, support.modes)
    left, right = _around(grid, picked)
    low, high = np.maximum(low, density.low), np.minimum(high, density.high)
    left, right = np.clip(left, low, high), np.clip(right, low, high)
    share = np.linspace(0.0, 1.0, ZOOM_POINTS)
    for _ in range(ZOOMS):
        fine = left[..., None] + (right - left)[..., None] * share
        fine = np.rint(fine) if density.whole else fine
        values = density(fine)
        best = values.argmax(axis=2)[..., None]
        left = np.take_along_axis(fine, np.maximum(best - 1, 0), 2)[..., 0]
        right = np.take_along_axis(fine, np.minimum(best + 1, ZOOM_POINTS - 1), 2)[..., 0]
    mode = np.take_along_axis(fine, best, 2)[..., 0]
    top = np.take_along_axis(values, best, 2)[..., 0]
    return _measured_sides(density, support, mode, top, low, high)


def _pick_peaks(
    grid: np.ndarray, values: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions of the highest local maxima, in order, and the valleys around each.

    Where a row has fewer, the rest are the first one again, between bounds that coincide.
    """
    rows = np.arange(len(grid))
    none = np.full((len(grid), 1), -np.inf)
    if count == 1:
        return values.argmax(axis=1)[:, None], none, -none
    padded = np.concatenate([none, values, none], axis=1)
    is_peak = (values >= padded[:, :-2]) & (values > padded[:, 2:]) & (values > FLOOR / 2.0)
    picked = np.empty((len(grid), count), dtype=np.int64)
    missing = np.zeros((len(grid), count), dtype=bool)
    for k in range(count):
        height = np.where(is_peak, values, -np.inf)
        picked[:, k] = height.argmax(axis=1)
        missing[:, k] = ~is_peak.any(axis=1)
        is_peak[rows, picked[:, k]] = False
    picked[missing] = np.broadcast_to(picked[:, :1], picked.shape)[missing]
    order = np.argsort(picked, axis=1, kind="stable")
    picked = np.take_along_axis(picked, order, 1)
    places = np.arange(grid.shape[1])
    low, high = np.broadcast_to(none, picked.shape).copy(), np.broadcast_to(-none, picked.shape)
    high = high.copy()
    for k in range(count - 1):
        between = (places >= picked[:, k, None]) & (places <= picked[:, k + 1, None])
        valley = grid[rows, np.where(between, values, np.inf).argmin(axis=1)]
        high[:, k] = low[:, k + 1] = valley
    return picked, low, high


def _around(grid: np.ndarray, picked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The grid points beside each picked one."""
    left = np.take_along_axis(grid, np.maximum(picked - 1, 0), 1)
    return left, np.take_along_axis(grid, np.minimum(picked + 1, grid.shape[1] - 1), 1)


def _measured_sides(
    density: _CoordinateDensity,
    support: OutcomeSupport,
    mode: np.ndarray,
    top: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
) -> Peaks:
    """Scales and reaches of both sides of each mode, by two ladders of distances."""
    room = np.stack([mode - low, high - mode])
    if density.whole:
        first = 2.0 ** np.arange(SIDE_POINTS)
    else:
        unit = density.unit(support.domain)
        logarithm = np.isfinite(support.ends).any()
        first = unit * np.geomspace(1e-8, 700.0 if logarithm else 1e9, SIDE_POINTS)
    ladder = np.broadcast_to(first, (*room.shape, SIDE_POINTS))
    scale = _fall_distance(ladder, _falls(density, mode, top, ladder, room), room)
    near, far = np.geomspace(0.25, 30.0, 17), np.exp(np.linspace(np.log(30.0), 40.0, 16)[1:])
    ladder = scale[..., None] * np.concatenate([near, far])
    ladder = np.ceil(ladder) if density.whole else ladder
    falls = _falls(density, mode, top, ladder, room)
    scale = _fall_distance(ladder, falls, room)
    deep = falls - np.log(np.maximum(ladder / scale[..., None], 1.0)) > DEPTH
    first_deep = np.where(deep.any(axis=3), deep.argmax(axis=3), SIDE_POINTS - 1)
    reach = np.take_along_axis(ladder, first_deep[..., None], 3)[..., 0]
    return Peaks(mode, low, high, scale, np.maximum(np.minimum(reach, room), 0.0))


def _falls(
    density: _CoordinateDensity,
    mode: np.ndarray,
    top: np.ndarray,
    ladder: np.ndarray,
    room: np.ndarray,
) -> np.ndarray:
    """By how much log densities fall at distances (2, N, K, q) to the left and to the right."""
    steps = np.minimum(ladder, room[..., None])
    points = np.concatenate([mode[..., None] - steps[0], mode[..., None] + steps[1]], axis=2)
    values = top[..., None] - density(points)
    return np.stack(np.split(values, 2, axis=2))


def _fall_distance(ladder: np.ndarray, falls: np.ndarray, room: np.ndarray) -> np.ndarray:
    """The distance at which a side has fallen by one nat, at most the room it has."""
    first = np.argmax(falls > 1.0, axis=3)[..., None]
    before = np.maximum(first - 1, 0)
    x0, x1 = (np.log(np.take_along_axis(ladder, k, 3)[..., 0]) for k in (before, first))
    z0, z1 = (
        np.log(np.maximum(np.take_along_axis(falls, k, 3)[..., 0], 1e-12)) for k in (before, first)
    )
    crossing = x0 - np.where(first[..., 0] > 0, z0 * (x1 - x0) / np.maximum(z1 - z0, 1e-12), 0.0)
    found = np.where((falls > 1.0).any(axis=3), np.exp(crossing), ladder[..., -1])
    return np.maximum(np.minimum(found, room), 1e-300)


# ---- rules -------------------------------------------------------------------------------------
def _side_nodes(
    density: _CoordinateDensity, peaks: Peaks, domain: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Points v of both sides of every peak, increasing, and their weights.

    Data are clipped to the domain, which puts a kink at its ends into all that is averaged: where
    one lies within the reach of a side, the two panels of the side meet there. The longer rule is
    on the panel inside the domain, unless that one is very short.
    """
    length = np.arcsinh(peaks.reach / peaks.scale)
    meet, is_far = _panel_break(density, peaks, domain, length)
    count, modes = peaks.mode.shape
    points, slopes = np.empty((2, count, modes, 2 * SIDE_POINTS))
    step = max(1, SIDE_BLOCK // modes)
    for start in range(0, count, step):
        k = slice(start, start + step)
        distance, slope = _side_distances(length[:, k], peaks.scale[:, k], meet[:, k], is_far[:, k])
        mode = peaks.mode[k, :, None]
        np.subtract(mode, distance[0, ..., ::-1], out=points[k, :, :SIDE_POINTS])
        np.add(mode, distance[1], out=points[k, :, SIDE_POINTS:])
        slopes[k, :, :SIDE_POINTS], slopes[k, :, SIDE_POINTS:] = slope[0, ..., ::-1], slope[1]
    return points.reshape(count, -1), slopes.reshape(count, -1)


def _side_distances(
    length: np.ndarray, scale: np.ndarray, meet: np.ndarray, is_far: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of the points of both sides from their peaks, and their weights."""
    length, meet, half_scale = length[..., None], meet[..., None], scale[..., None] / 2.0
    base, slant, weight, weight_slant = _side_rule(is_far[..., None])
    grown = np.exp(length * (base + slant * meet))
    shrunk = 1.0 / grown
    distance = half_scale * (grown - shrunk)
    grown += shrunk
    grown *= half_scale * length
    grown *= weight + weight_slant * meet
    return distance, grown


def _side_rule(is_far: np.ndarray) -> tuple[np.ndarray, ...]:
    """Two Gauss-Legendre rules on [0, m] and [m, 1]: points a + b m, weights c + d m; a, b, c, d.

    The longer rule is the first one, or the second where `is_far`.
    """
    usual, other = (_two_panels(*points) for points in (SIDE_PANELS, SIDE_PANELS[::-1]))
    if not is_far.any():
        return usual
    return tuple(np.where(is_far, b, a) for a, b in zip(usual, other, strict=True))


@cache
def _two_panels(near: int, far: int) -> tuple[np.ndarray, ...]:
    (x, w), (z, v) = (np.polynomial.legendre.leggauss(points) for points in (near, far))
    x, z, w, v = (x + 1.0) / 2.0, (z + 1.0) / 2.0, w / 2.0, v / 2.0
    none = np.zeros(near)
    parts = [none, z], [x, 1.0 - z], [none, v], [w, -v]
    return tuple(np.concatenate(part) for part in parts)


def _panel_break(
    density: _CoordinateDensity,
    peaks: Peaks,
    domain: tuple[float, float],
    length: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Where the panels of a side meet, as a share of it, and if the far one needs more points."""
    low, high = (density.coordinate(np.asarray(end)) for end in domain)
    mode = peaks.mode
    entered = np.stack([mode - high, low - mode])  # distances to the domain from outside it
    left = np.stack([mode - low, high - mode])
    is_outside = entered > 0.0
    share = np.arcsinh(np.where(is_outside, entered, left) / peaks.scale) / length
    is_met = (share > 0.0) & (share < 1.0)
    return np.where(is_met, share, USUAL_BREAK), is_met & (is_outside | (share < SHORT_PANEL))


def _count_nodes(
    density: _CoordinateDensity, peaks: Peaks, domain: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Whole numbers around every peak, and how many each stands for."""
    first = np.maximum(peaks.mode - peaks.reach[0], peaks.low)
    last = np.minimum(peaks.mode + peaks.reach[1], peaks.high)
    # A valley belongs to the peak on its left; the first peak keeps its lower bound.
    first = np.where((first == peaks.low) & (peaks.low > density.low), first + 1.0, first)
    count = np.maximum(last - first + 1.0, 0.0)[..., None]
    panel = np.arange(PANELS + 1.0)
    left = np.arcsinh((peaks.mode - first) / peaks.scale[0])[..., None]
    right = np.arcsinh((last + 1.0 - peaks.mode) / peaks.scale[1])[..., None]
    t = -left + (left + right) * panel / PANELS
    offset = np.where(t < 0.0, peaks.scale[0][..., None], peaks.scale[1][..., None]) * np.sinh(t)
    edges = _snapped(np.rint(peaks.mode[..., None] + offset), domain) - first[..., None]
    edges = np.where(count <= PANELS * PANEL_POINTS, PANEL_POINTS * panel, edges)
    edges[..., 0], edges[..., -1] = 0.0, np.maximum(edges[..., -1], count[..., 0])
    edges = np.minimum(np.maximum(edges, 0.0), count)
    sizes = np.diff(edges, axis=2)
    stride = np.ceil(sizes / LONGEST_PANEL)
    stride = np.maximum(stride + (stride % 2.0 == 0.0), 1.0)
    cells = np.rint(sizes / stride)
    starts = np.cumsum(stride * cells, axis=2) - stride * cells
    nodes, weights = (table[cells.astype(np.int64)] for table in _count_rules())
    starts = (first[..., None] + starts + (stride - 1.0) / 2.0)[..., None]
    points = starts + stride[..., None] * nodes
    weights = weights * stride[..., None]
    return points.reshape(len(points), -1), weights.reshape(len(points), -1)


def _snapped(edges: np.ndarray, domain: tuple[float, float]) -> np.ndarray:
    """Edges of panels with those nearest to the ends of the domain moved there."""
    for end in (np.ceil(domain[0]), np.floor(domain[1]) + 1.0):
        nearest = np.abs(edges - end).argmin(axis=2)[..., None]
        is_inside = (edges[..., :1] < end) & (end < edges[..., -1:])
        value = np.where(is_inside, end, np.take_along_axis(edges, nearest, 2))
        edges = edges.copy()
        np.put_along_axis(edges, nearest, value, 2)
    return edges


@cache
def _count_rules() -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights that sum a function over 0, ..., n - 1, for n up to `LONGEST_PANEL`.

    Up to `PANEL_POINTS` numbers all are taken. Beyond, the nodes are the whole numbers next to the
    Gauss-Legendre points, and the weights make sums of polynomials of degree below `PANEL_POINTS`
    exact.
    """
    m = PANEL_POINTS
    nodes = np.zeros((LONGEST_PANEL + 1, m))
    weights = np.zeros((LONGEST_PANEL + 1, m))
    gauss = (np.polynomial.legendre.leggauss(m)[0] + 1.0) / 2.0
    for n in range(LONGEST_PANEL + 1):
        if n <= m:
            nodes[n] = np.minimum(np.arange(m), max(n - 1, 0))
            weights[n, :n] = 1.0
            continue
        half = np.rint(gauss[: m // 2] * n - 0.5)
        half = np.maximum.accumulate(np.maximum(half, np.arange(m // 2)) - np.arange(m // 2))
        half += np.arange(m // 2)  # distinct, and symmetric as the rule is
        nodes[n] = np.concatenate([half, n - 1.0 - half[::-1]])
        basis = np.polynomial.legendre.legvander((2.0 * nodes[n] + 1.0) / n - 1.0, m - 1)
        every = np.polynomial.legendre.legvander((2.0 * np.arange(n) + 1.0) / n - 1.0, m - 1)
        weights[n] = np.linalg.solve(basis.T, every.sum(axis=0))
    return nodes, weights
