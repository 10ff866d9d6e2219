"""Bounds of the range R, refined from one walk over the whole box until near the truth.

In order: T24's inequalities on cells that both records share, a closed form for quadratic rows
in a ball, branch and bound on `RangeObjective`, and finer cells of the parameters. A search
over records and parameters gives a lower bound of R, which says how tight the proof is; it is
never a certificate itself, and a search that beats a proof stops the certification.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_private.analysis import Bounds, SimplexRows, ZeroSumRows
from pymc_private.analysis.branch_and_bound import Bracket, Effort, maximize
from pymc_private.analysis.traversal import without_tracebacks
from pymc_private.certificates.ball_range import range_in_ball
from pymc_private.certificates.half_ranges import range_by_halves
from pymc_private.certificates.range_objective import RangeObjective
from pymc_private.certificates.record_bounds import NeighborhoodBounds, RecordBounds, RecordCell
from pymc_private.certificates.worst_case import WorstCaseValue
from pymc_private.errors import DomainError, NotCertified
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import even_edges, project_onto_simplex
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import ADDITION, SUBSTITUTION, SingleRecord
from pymc_private.privacy.neighbors import ADD_REMOVE

SEARCH_EFFORT, ROW_EFFORT, EASY_EFFORT, BOX_EFFORT = 1000.0, 2000.0, 500.0, 3000.0
"""Effort, in walks: of the search, on cells of rows, on boxes to `FINE_GAP`, on boxes at all."""
CHECK_EFFORT = 100.0
"""Effort of the search where the bound is settled: points of its own that would show a wrong rule,
which a branch and bound that lost a box does not."""

FINE_GAP = 0.01
"""Gap between bound and truth that is aimed at while it costs little."""

COARSE_TOLERANCE = 0.15
"""Tolerance from which a bound is not refined any further, however little it costs."""

MOST_PARAMETER_CELLS = 4096

MOST_ENTRIES = 2**24
"""Numbers in one table of bounds."""

MOST_POINTS = 96

FEW_RECORDS = 16
"""Records tried where each costs a walk over all rows."""

MOST_NEIGHBORS = 24
"""Records tried with each of so many neighborhoods."""

FEW_COORDINATES = 6
"""Coordinates of parameters of which all corners are tried."""

MANY_COORDINATES = 64
"""Coordinates of one parameter that are moved one by one."""

ASCENT_ROUNDS = 3
"""Times that records and parameters are moved in turn."""

INFINITE_STAND_IN = 1e3
"""Stand-in for an infinite bound while searching."""

AnyRecordBounds = RecordBounds | NeighborhoodBounds

Progress = Callable[[float, float], None]


@dataclass(frozen=True)
class RangeBound:
    """What is known of R at power 1, for one record.

    Parameters
    ----------
    upper : float
        Proved.
    found : float
        The greatest variation that a search found.
    where : tuple of WorstCaseValue
        The records and parameters at which branch and bound found it, or found the bound.
    is_relaxed : bool
        Whether `where` is of the bound alone.
    """

    upper: float
    found: float
    where: tuple[WorstCaseValue, ...] = ()
    is_relaxed: bool = False

    def greater(self, other: RangeBound) -> RangeBound:
        """What is known of the greater of two ranges."""
        found = max(self.found, other.found)
        return replace(self if self.upper >= other.upper else other, found=found)


def bound_range(
    private: PrivateModel,
    rows: AnyRecordBounds,
    record: SingleRecord | None,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float = 0.0,
    known: float = math.inf,
) -> RangeBound:
    """Bound R as tightly as the effort allows.

    Parameters
    ----------
    private : PrivateModel
    rows : RecordBounds or NeighborhoodBounds
        Of the same model.
    record : SingleRecord or None
        The same as a function of one record; None where rows differ.
    tolerance : float
        Relative gap between bound and truth that is small enough.
    deadline : float
        Time by `time.perf_counter` after which the bound so far is the answer.
    progress : callable
        Called with the bound and what is found.
    floor : float
        Bound of R proved for other records: it is enough to prove that R is no more here.
    known : float
        Bound of R on the whole box proved by other means, from which this starts.

    Raises
    ------
    NotCertified
        The search contradicts the proof.
    """
    with without_tracebacks():
        return _bound_range(private, rows, record, tolerance, deadline, progress, floor, known)


def _bound_range(
    private: PrivateModel,
    rows: AnyRecordBounds,
    record: SingleRecord | None,
    tolerance: float,
    deadline: float,
    progress: Progress,
    floor: float,
    known: float,
) -> RangeBound:
    add_remove = private.neighbors == ADD_REMOVE
    best, found = _first_bounds(private, rows, record, deadline, known)
    if found > 0.0 and best <= max(floor, found * (1.0 + tolerance)):
        return RangeBound(best, found)
    tried, is_relaxed = False, False
    where: tuple[WorstCaseValue, ...] = ()
    halves = _lazy_halves(private, record, deadline)
    for objective, effort in _objectives(private, record, deadline):
        tried = True
        if objective.is_constant:  # all that reads a record cancels
            return RangeBound(0.0, 0.0)
        bracket = _refine(objective, best, tolerance, effort, progress, floor, halves)
        best = bracket.upper
        if not objective.is_relaxed:
            found = max(found, bracket.lower)
        if not where or not objective.is_relaxed:
            where, is_relaxed = objective.worst_case(bracket.point), objective.is_relaxed
        if best <= max(floor, found * (1.0 + tolerance), bracket.lower * (1.0 + tolerance)):
            break
    _check_against_search(found, best)
    settled = best <= max(floor, found * (1.0 + tolerance))
    units = CHECK_EFFORT if settled else SEARCH_EFFORT
    found = max(found, _search(rows, private, Effort(units, deadline)))
    _check_against_search(found, best)
    loose = best > max(floor, found * (1.0 + tolerance)) and not add_remove
    if loose and (not tried or not math.isfinite(best)):
        rows.effort = Effort(ROW_EFFORT, deadline)
        best = min(best, range_on_finer_cells(rows, private.box, found, tolerance))
        _check_against_search(found, best)
    return RangeBound(best, found, where, is_relaxed)


def _first_bounds(
    private: PrivateModel,
    rows: AnyRecordBounds,
    record: SingleRecord | None,
    deadline: float,
    known: float,
) -> tuple[float, float]:
    """Proved and searched bounds of R: by one walk over the whole box, or for rows in a ball."""
    add_remove = private.neighbors == ADD_REMOVE
    best = min(coarse_range(rows, private.box, add_remove), known)
    if record is None or add_remove:
        return best, 0.0
    in_ball = range_in_ball(record, private.sources, private.box)
    if not in_ball < best:
        return best, 0.0
    found = _search(rows, private, Effort(SEARCH_EFFORT, deadline))
    _check_against_search(found, in_ball)
    return in_ball, found


def _refine(
    objective: RangeObjective,
    best: float,
    tolerance: float,
    effort: Effort,
    progress: Progress,
    floor: float,
    halves: Callable[[float, float], float],
) -> Bracket:
    """Branch and bound: while it is easy, then of the halves, then with all effort."""
    easy = replace(effort, units=min(EASY_EFFORT, effort.units))
    first = _branch_and_bound(objective, best, tolerance, easy, progress, floor)
    enough = max(floor, first.lower * (1.0 + tolerance))
    if first.upper <= enough or easy.units == effort.units:
        return first
    best = min(first.upper, halves(first.upper, enough))
    if best <= enough:
        return replace(first, upper=best)
    return _branch_and_bound(objective, best, tolerance, effort, progress, floor)


def _lazy_halves(
    private: PrivateModel, record: SingleRecord | None, deadline: float
) -> Callable[[float, float], float]:
    """The bound of R by its halves, computed when it is asked for, once."""
    proved: list[float] = []

    def halves(known: float, enough: float) -> float:
        if record is None or private.neighbors == ADD_REMOVE:
            return known
        if not proved:
            proved.append(
                range_by_halves(private, record, known=known, enough=enough, deadline=deadline)
            )
        return proved[0]

    return halves


def _branch_and_bound(
    objective: RangeObjective,
    best: float,
    tolerance: float,
    effort: Effort,
    progress: Progress,
    floor: float,
) -> Bracket:
    """Branch and bound, finely while it is cheap, unless a coarse bound is asked for."""
    fine = min(FINE_GAP, tolerance) if tolerance < COARSE_TOLERANCE else tolerance
    return maximize(
        objective,
        *objective.roots(),
        goal=lambda effort: fine if effort.spent < EASY_EFFORT else tolerance,
        effort=effort,
        known=best,
        floor=floor,
        progress=progress,
    )


def _objectives(
    private: PrivateModel, record: SingleRecord | None, deadline: float = math.inf
) -> Iterator[tuple[RangeObjective, Effort]]:
    """Objectives whose maximum is the range, where rows are equivalent and coordinates few.

    With the effort that each is worth. First as it is, then with branches that are free, then with
    what reads records alone, or parameters alone, reduced to its range. Products are expanded
    first where a record has neighbors. At a jump it is the free branches that matter.
    """
    if record is None:
        return
    contrast = ADDITION if private.neighbors == ADD_REMOVE else SUBSTITUTION
    forms: list[dict[str, Any]] = [{}, {"branches": True}, {"together": True}]
    if record.neighbors:
        forms = [{"expanded": True}, *forms]
    made: list[RangeObjective] = []
    for form in forms:
        at_jumps = any(each.has_branches for each in made)
        if "branches" in form and not at_jumps:
            continue
        try:
            objective = RangeObjective(record, private.sources, private.box, contrast, **form)
        except NotImplementedError:  # an Op that PyTensor cannot batch
            return
        fewest = min((each.coordinates.count for each in made), default=math.inf)
        is_other = "branches" in form or objective.coordinates.count < fewest
        if is_other and (objective.is_constant or objective.is_feasible):
            made.append(objective)
            units = BOX_EFFORT / objective.cost
            units = min(EASY_EFFORT, units) if objective.has_branches else units
            yield objective, Effort(units, deadline)
    for objective in made:
        if objective.has_branches:
            yield objective, Effort(BOX_EFFORT / objective.cost, deadline)


def _search(rows: AnyRecordBounds, private: PrivateModel, effort: Effort) -> float:
    """The greatest variation that a search finds, within an effort."""
    rows.effort = effort
    return searched_range(rows, private.box, private.neighbors == ADD_REMOVE)


def _check_against_search(found: float, best: float) -> None:
    """Raise where a search beats the proof by more than rounding: then a rule is wrong."""
    if math.isfinite(best) and found > best * (1.0 + 1e-9) + 1e-9:
        raise NotCertified(
            "the bound contradicts a search, so one of its rules is wrong",
            blame=(f"proved {best:.9g} nats, found {found:.9g}",),
            cure="do not use this model; please report it with the model's code",
        )


def coarse_range(
    rows: AnyRecordBounds, box: Mapping[str, Bounds], add_remove: bool = False
) -> float:
    """R from one walk over the whole box: 2 (sup - inf) per record cell; once under add/remove."""
    lower, upper = rows.table(box)
    if add_remove:
        with np.errstate(invalid="ignore"):
            widths = upper - lower
        scale = np.max(np.abs(np.nan_to_num(np.stack([lower, upper]), posinf=0, neginf=0)))
        widest = float(np.where(np.isnan(widths), np.inf, widths).max())
        return widest + (widest + 2.0 * float(scale)) * 2.0**-50
    return range_of_table(lower[None], upper[None])


def range_of_table(lower: np.ndarray, upper: np.ndarray) -> float:
    """A bound of R from bounds on a grid of cells (T24).

    Parameters
    ----------
    lower, upper : array, shape (parameter cells K, record cells X, rows)
        Bounds of log p(x | theta) on the cells.

    Returns
    -------
    float
        The least of (a) 2 sup_theta (sup_x - inf_x), (b) 2 sup_x (sup_theta - inf_theta) and
        (c) max_{X,X'} [max_K (upper(X,K) - lower(X',K)) - min_K (lower(X,K) - upper(X',K))],
        rounded up; the greatest over rows.
    """
    with np.errstate(invalid="ignore"):
        by_theta = 2.0 * (upper.max(axis=1) - lower.min(axis=1)).max(axis=0)
        by_record = 2.0 * (upper.max(axis=0) - lower.min(axis=0)).max(axis=0)
        pairs = _pairwise_bound(lower, upper)
    candidates = np.stack([by_theta, by_record, pairs])
    candidates = np.where(np.isnan(candidates), np.inf, candidates)
    best = float(candidates.min(axis=0).max())
    # Three subtractions of rounded bounds: each errs by half an ulp of its result or of its terms.
    scale = float(np.max(np.abs(np.nan_to_num(np.stack([lower, upper]), posinf=0, neginf=0))))
    return best + (best + 2.0 * scale) * 2.0**-50


def _pairwise_bound(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """Inequality (c), one record cell X at a time to save memory."""
    worst = np.full(lower.shape[2], 0.0)
    for x in range(lower.shape[1]):
        rise = (upper[:, x : x + 1] - lower).max(axis=0)
        fall = (lower[:, x : x + 1] - upper).min(axis=0)
        worst = np.maximum(worst, (rise - fall).max(axis=0))
    return worst


def range_on_finer_cells(
    rows: AnyRecordBounds, box: Mapping[str, Bounds], found: float, tolerance: float
) -> float:
    """R from ever finer cells of the parameters, until it is near `found` or the effort is spent.

    Cells double along the axis that has the widest interval effect; every level is a valid bound.
    """
    axes = _splittable_axes(box)
    counts = dict.fromkeys(axes, 1)
    best = np.inf
    while axes and not rows.effort.is_exhausted:
        best_axis, best_value = None, np.inf
        for axis in axes[:4] if len(axes) > 4 else axes:
            trial = counts | {axis: counts[axis] * 2}
            if math.prod(trial.values()) > _most_cells(rows):
                continue
            value = range_on_cells(rows, box, trial)
            if value < best_value or best_axis is None:
                best_axis, best_value = axis, value
            if rows.effort.is_exhausted:
                break
        if best_axis is None:
            break
        counts[best_axis] *= 2
        stalled = best_value > best * 0.995 and np.prod(list(counts.values())) > 64
        best = min(best, best_value)
        if best <= found * (1.0 + tolerance) or stalled:
            break
    return float(best)


def range_on_cells(
    rows: AnyRecordBounds,
    box: Mapping[str, Bounds],
    counts: Mapping[tuple[str, tuple], int],
) -> float:
    """R with each coordinate split into so many equal parts; inf if the effort runs out."""
    cut = [axis for axis, count in counts.items() if count > 1]
    edges = {
        (name, i): even_edges(box[name].lower[i], box[name].upper[i], counts[name, i])
        for name, i in cut
    }
    lowers, uppers = [], []
    for cell in itertools.product(*(range(counts[axis]) for axis in cut)):
        if rows.effort.is_exhausted:
            return np.inf
        piece = dict(box)
        for (name, i), k in zip(cut, cell, strict=True):
            piece[name] = _with_interval(piece[name], i, edges[name, i][k], edges[name, i][k + 1])
        lower, upper = rows.table(piece)
        lowers.append(lower)
        uppers.append(upper)
    return range_of_table(np.stack(lowers), np.stack(uppers))


def _with_interval(bounds: Bounds, index: tuple[int, ...], low: float, high: float) -> Bounds:
    lower, upper = np.array(bounds.lower, dtype=float), np.array(bounds.upper, dtype=float)
    lower[index], upper[index] = low, high
    return Bounds(lower, upper)


def _most_cells(rows: AnyRecordBounds) -> int:
    return min(MOST_PARAMETER_CELLS, MOST_ENTRIES // (len(rows.cells) * rows.width))


def _splittable_axes(box: Mapping[str, Bounds]) -> list[tuple[str, tuple[int, ...]]]:
    """Coordinates that may be split: finite ones, single numbers (scales, intercepts) first."""
    return [
        (name, index)
        for name, bounds in sorted(box.items(), key=lambda item: np.size(item[1].lower))
        if bounds.is_finite and bounds.within is None
        for index in np.ndindex(np.shape(bounds.lower))
    ]


def searched_range(
    rows: AnyRecordBounds, box: Mapping[str, Bounds], add_remove: bool = False
) -> float:
    """The greatest variation of log p(x) - log p(y) over points tried, in nats.

    Corners, centers and fixed pseudo-random points of the box and of the domain, then an ascent
    that moves one coordinate of a parameter, or one record, at a time. The search reads no data. It
    stops when `rows.effort` is exhausted: any part of it gives a bound.
    """
    records = _record_points(rows.sources)[: FEW_RECORDS if rows.is_slow else MOST_POINTS]
    if isinstance(rows, NeighborhoodBounds):
        records = records[:MOST_NEIGHBORS]
        neighbors = _record_points(tuple(rows.record.neighbors.values()))
        rows = rows.at_points(neighbors[:MOST_NEIGHBORS])
    points = _parameter_points(box)
    tables = []
    for point in points:
        tables.append(rows.table(point, records))
        if rows.effort.is_exhausted:
            break
    lower, upper = (np.stack(each) for each in zip(*tables, strict=True))
    if add_remove:
        return _add_remove_variation(lower, upper)
    best, (x, y, row), (high, low) = _substitution_variation(lower, upper)
    if rows.is_slow or not best:
        return best
    rows = rows.only(row)
    extremes = [points[high], points[low]]
    for _ in range(ASCENT_ROUNDS):
        before = best
        for k, sign in ((0, 1.0), (1, -1.0)):
            extremes[k] = _ascend(rows, box, extremes[k], [records[x], records[y]], sign)
        pair = [rows.table(point, records) for point in extremes]
        lower, upper = (np.stack(each) for each in zip(*pair, strict=True))
        found, (x, y, _), _ = _substitution_variation(lower, upper)
        best = max(best, found)
        if best <= before * (1.0 + 1e-6) or rows.effort.is_exhausted:
            break
    return best


def range_at_points(
    rows: AnyRecordBounds, points: list[dict[str, Bounds]], add_remove: bool = False
) -> float:
    """The greatest variation over pairs of given parameter points, in nats."""
    records = _record_points(rows.sources)[: FEW_RECORDS if rows.is_slow else MOST_POINTS]
    tables = [rows.table(point, records) for point in points]
    lower, upper = (np.stack(each) for each in zip(*tables, strict=True))
    return (
        _add_remove_variation(lower, upper)
        if add_remove
        else _substitution_variation(lower, upper)[0]
    )


def searched_range_per_distance(
    rows: AnyRecordBounds,
    box: Mapping[str, Bounds],
    between: Callable[[Mapping[str, Any], Mapping[str, Any]], float],
) -> float:
    """The greatest variation per unit of distance over records and parameter points tried."""
    records = _record_points(rows.sources)[: FEW_RECORDS if rows.is_slow else MOST_POINTS]
    tables = []
    for point in _parameter_points(box):
        tables.append(rows.table(point, records))
        if rows.effort.is_exhausted:
            break
    lower, upper = (np.stack(each) for each in zip(*tables, strict=True))
    lower, upper = (np.where(np.isfinite(each), each, np.nan) for each in (lower, upper))
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


def _substitution_variation(
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


def _add_remove_variation(lower: np.ndarray, upper: np.ndarray) -> float:
    """max_x [max_theta lo(x) - min_theta hi(x)]."""
    with np.errstate(invalid="ignore"):
        high = np.where(np.isfinite(lower), lower, -np.inf).max(axis=0)
        low = np.where(np.isfinite(upper), upper, np.inf).min(axis=0)
        return max(0.0, float(np.nan_to_num(high - low, nan=0.0, neginf=0.0).max()))


def _ascend(
    rows: AnyRecordBounds,
    box: Mapping[str, Bounds],
    point: dict[str, Bounds],
    records: list[RecordCell],
    sign: float,
) -> dict[str, Bounds]:
    """Move one coordinate after the other to the bound that separates two records more."""

    def gap(tried: dict[str, Bounds]) -> float:
        lower, upper = rows.table(tried, records)
        with np.errstate(invalid="ignore"):
            value = float(sign * (lower[0, 0] + upper[0, 0] - lower[1, 0] - upper[1, 0]) / 2)
        return value if np.isfinite(value) else -np.inf

    best = gap(point)
    free = [
        name
        for name, b in box.items()
        if b.within is None and point[name].lower.size <= MANY_COORDINATES
    ]
    for name in free:
        sides = _finite_sides(box[name])
        for index in np.ndindex(np.shape(point[name].lower)):
            for side in sides:
                value = np.array(point[name].lower)
                value[index] = side[index]
                tried = point | {name: Bounds(value, value)}
                found = gap(tried)
                if found > best:
                    point, best = tried, found
            if rows.effort.is_exhausted:
                return point
    return point


def _record_points(sources: Sequence[Source]) -> list[RecordCell]:
    """Corners of each variable's domain, combined; a fixed sample of the combinations."""
    choices = []
    for source in sources:
        corners = source.domain.corners(source.row_shape)
        if source.is_whole:
            corners = [f(c) for c in corners for f in (np.ceil, np.floor)]
            corners = [
                c for c in {c.tobytes(): c for c in corners}.values() if _domain_holds(source, c)
            ]
        choices.append([Bounds.point(np.asarray(c, dtype=source.dtype)) for c in corners])
    total = int(np.prod([len(c) for c in choices]))
    if total <= MOST_POINTS:
        return list(itertools.product(*choices))
    rng = np.random.default_rng(20260101)  # a search of the domain: no data, no release
    picks = rng.choice(total, size=MOST_POINTS, replace=False)
    shape = tuple(len(c) for c in choices)
    indexes = zip(*np.unravel_index(picks, shape), strict=True)
    return [tuple(c[i] for c, i in zip(choices, index, strict=True)) for index in indexes]


def _domain_holds(source: Source, entry: np.ndarray) -> bool:
    """Whether a rounded corner is still in the domain."""
    try:
        return np.array_equal(source.domain.clip(entry[None].astype(source.dtype), 0)[0], entry)
    except DomainError:
        return False


def _parameter_points(box: Mapping[str, Bounds]) -> list[dict[str, Bounds]]:
    """All-low, all-high, sign patterns, center, and fixed pseudo-random points."""
    rng = np.random.default_rng(20260102)  # as above
    sides = {name: _finite_sides(b) for name, b in box.items()}
    size = sum(low.size for low, _ in sides.values())
    corners = rng.integers(0, 2, (MOST_POINTS // 4, size)).astype(float)
    inside = rng.random((MOST_POINTS // 4, size))
    if size <= FEW_COORDINATES:  # all of them
        corners = np.array(list(itertools.product((0.0, 1.0), repeat=size)))
    patterns = np.vstack([np.zeros(size), np.ones(size), np.full(size, 0.5), corners, inside])
    _, first = np.unique(patterns, axis=0, return_index=True)
    patterns = patterns[np.sort(first)]
    return [_point_from_shares(box, sides, pattern) for pattern in patterns]


def _finite_sides(bounds: Bounds) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds, with a stand-in for infinite ones."""
    low, high = (
        np.clip(side, -INFINITE_STAND_IN, INFINITE_STAND_IN).astype(float)
        for side in (bounds.lower, bounds.upper)
    )
    return low, high


def point_at_share(box: Mapping[str, Bounds], share: float) -> dict[str, Bounds]:
    """The point at one and the same share of the way from all lower to all upper bounds.

    An infinite interval is replaced by one of length ten at its finite endpoint, or around zero.
    """
    sides = {}
    for name, b in box.items():
        low, high = (np.asarray(side, dtype=float) for side in (b.lower, b.upper))
        low = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 10.0, -5.0))
        sides[name] = low, np.minimum(high, low + 10.0)
    size = sum(low.size for low, _ in sides.values())
    return _point_from_shares(box, sides, np.full(size, share))


def _point_from_shares(
    box: Mapping[str, Bounds],
    sides: Mapping[str, tuple[np.ndarray, np.ndarray]],
    shares: np.ndarray,
) -> dict[str, Bounds]:
    """The point whose coordinates lie at these shares of the way between the sides."""
    point, start = {}, 0
    for name, (low, high) in sides.items():
        part = shares[start : start + low.size].reshape(low.shape)
        start += low.size
        value = low + part * (high - low)
        within = box[name].within
        if isinstance(within, SimplexRows | ZeroSumRows):
            value = project_onto_simplex(value, low, high, within.total)
        point[name] = Bounds(value, value, within)
    return point
