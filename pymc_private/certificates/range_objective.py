"""The objective of the range: a maximum over two records and two parameter points.

R = max over records x, y and parameters t, t' of l(x, t) - l(y, t) - l(x, t') + l(y, t') (T1).
Each box of the four is bounded twice, by the interval bounds of l and by the mean-value form

    f(c + h) <= f(c) + sum_j sup |df/dx_j| |h_j|

in which what a parameter does to every record alike cancels from the slopes.

Point masses: a censored outcome equals an endpoint with a probability, and has a density
elsewhere. Every box that holds the endpoint and more would hold both forms, so a whole number
says which.

Dimension reduction: what many inputs amount to, or what reads records alone or parameters
alone, may be replaced by few numbers with a range (`analysis.batched_bounds`). The bound stays
valid, but a value that is found is then no lower bound of R.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors

from pymc_private.analysis import Bounds, Ellipsoid, SimplexRows, propagate_bounds, simplify
from pymc_private.analysis.batched_bounds import (
    MOST_ENTRIES,
    BatchedFunction,
    indexed_inputs,
    is_low_dimensional,
    low_dimensional_cut,
    one_sided_nodes,
)
from pymc_private.analysis.branch_and_bound import BoxEnclosure
from pymc_private.analysis.rewrites.algebra import expand_products
from pymc_private.analysis.rewrites.normal_cdf import recognize_normal_lcdf
from pymc_private.analysis.rewrites.specialize import interaction_terms, specialize
from pymc_private.analysis.rewrites.weighted_means import (
    enclose_weighted_means,
    first_of_touched_forms,
)
from pymc_private.analysis.traversal import rebuild, scalar_op, without_leading_axes
from pymc_private.certificates.ball_range import replace_rows_by_norms
from pymc_private.certificates.free_branches import comparisons, free_branches
from pymc_private.certificates.record_bounds import MOST_PUBLIC_ROWS, boxes_around, distinct_rows
from pymc_private.certificates.worst_case import WorstCaseValue
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import project_onto_simplex
from pymc_private.models.record_likelihood import (
    SUBSTITUTION,
    Contrast,
    Coordinates,
    InputColumn,
    Role,
    SingleRecord,
    SlopeTerms,
    input_columns,
)

MOST_COORDINATES = 160
"""Beyond this many coordinates halving them does not help."""

SMALL_GRAPH = 64.0
"""Numbers in a small graph, in one walk over one box."""

ROUNDING_SLACK = 2.0**-44
"""Relative slack that covers the rounding of a few dozen sums and products."""

TINY_SLOPE = 1e-300
"""Bound of a slope that may have either sign."""

MOST_POINT_MASSES = 4

PointMasses = dict[Variable, tuple[Variable, np.ndarray]]
"""Entries of a record with the variable that says which mass it is (0: none), and the masses."""

Reduction = tuple[Variable, list[InputColumn], bool]
"""The rest of a graph, its columns, and whether anything was replaced by its range."""


class RangeObjective:
    """The objective whose maximum is R; see `analysis.branch_and_bound.Objective`.

    Parameters
    ----------
    record : SingleRecord
    sources : sequence of Source
    box : mapping of str to Bounds
        Of the parameters.
    contrast : Contrast
        `SUBSTITUTION`; or `ADDITION` for R of add/remove, the maximum of l(x, t) - l(x, t'); or
        those at one parameter point, `AT_ONE_POINT` and `ALONE`.
    together : bool
        Replace what reads records alone, or parameters alone, by few numbers with a range.
    expanded : bool
        Expand products of sums: what reads neighbors alone then cancels.
    branches : bool
        Make coordinates of comparisons (`free_branches`).
    held : collection of str
        Variables that both records share.

    Attributes
    ----------
    is_cut : bool
        Whether some coordinates replace functions of others, with their range within `box`.
    has_branches : bool
        Whether comparisons of records with parameters choose between branches.
    is_relaxed : bool
        Whether the maximum is over more than records and parameters can be (a reduction, a ball):
        then a value that is found is no lower bound of R.
    """

    def __init__(
        self,
        record: SingleRecord,
        sources: Sequence[Source],
        box: Mapping[str, Bounds],
        contrast: Contrast = SUBSTITUTION,
        *,
        together: bool = False,
        expanded: bool = False,
        branches: bool = False,
        held: Collection[str] = (),
    ) -> None:
        self._public = record.public
        columns = input_columns(record, sources, box, held)
        value, columns, self._masses, by_length = _prepare_form(
            record.value, columns, expanded, contrast.compares_points
        )
        points = [c.variable for c in columns if c.role is Role.POINT]
        # Under add/remove a term of the parameters alone does not cancel.
        every = contrast.keeps_parameters
        varying = [c.variable for c in columns if every or c.role is Role.RECORD]
        value = interaction_terms(value, varying, points)
        value, columns, self.has_branches, freed = _free(value, columns, branches)
        self.value, columns, cut = _reduce_dimension(value, columns, together)
        self.coordinates = Coordinates(columns, contrast)
        self.whole = self.coordinates.whole
        smooth = {c.variable for c in columns if not c.is_whole and c.bounds.within is None}
        named, unknown = recognize_normal_lcdf(self.value, {c.variable: c.bounds for c in columns})
        self._batch = BatchedFunction(named, [c.variable for c in columns], smooth, unknown)
        self.smooth = np.zeros(self.coordinates.count, dtype=bool)
        for (variable, _), place in self.coordinates.slices.items():
            self.smooth[place] = variable in self._batch.gradient
        self._mirror = _mirrored_coordinate(self.coordinates)
        self._slope_terms = SlopeTerms(self.coordinates, self._batch.gradient)
        self._rows = distinct_rows([record.public[c.variable] for c in self._shared()])
        odd = any(c.bounds.within is not None and not has_fixed_sums(c) for c in columns)
        # Boxes around rows hold what is no row.
        self.is_cut = cut or freed
        self.is_relaxed = self.is_cut or odd or by_length or len(self._rows) > MOST_PUBLIC_ROWS

    @property
    def cost(self) -> float:
        """Cost of one walk, relative to that of a small graph."""
        return max(1.0, self._batch.elements / SMALL_GRAPH)

    def worst_case(self, point: np.ndarray | None) -> tuple[WorstCaseValue, ...]:
        """The values at a point, entry by entry, with their names."""
        if point is None:
            return ()
        found, point = [], project_onto_domain(point[None], self.coordinates, self._masses)[0]
        for column in self.coordinates.columns:
            values = [
                np.ravel(column.interval(point[None, place], point[None, place]).lower)
                for place in (
                    self.coordinates.slices[column.variable, copy]
                    for copy in column.role.copies(self.coordinates.contrast)
                )
            ]
            lows, highs = np.ravel(column.bounds.lower), np.ravel(column.bounds.upper)
            for k, name in enumerate(_entry_names(column)):
                each = tuple(float(value[k]) for value in values)
                low, high = float(lows[k]), float(highs[k])
                found.append(WorstCaseValue(name, column.role.value, low, high, each))
        return tuple(found)

    @property
    def is_constant(self) -> bool:
        """Whether nothing is left that reads both a record and a parameter: R is zero."""
        return self.coordinates.count == 0

    @property
    def is_feasible(self) -> bool:
        """Whether halving boxes can help: finite widths, not too many coordinates."""
        c = self.coordinates
        with np.errstate(over="ignore", invalid="ignore"):
            finite = bool(np.isfinite(c.upper - c.lower).all())
        return 0 < c.count <= MOST_COORDINATES and finite

    def roots(self) -> tuple[np.ndarray, np.ndarray]:
        """Boxes that hold all records and parameters: one for each distinct public row."""
        lower, upper = self.coordinates.lower[None], self.coordinates.upper[None]
        shared = self._shared()
        if not shared:
            return lower, upper
        low, high = boxes_around(self._rows)
        places = np.concatenate(
            [np.arange(self.coordinates.count)[self.coordinates.of(c, (0, 0))] for c in shared]
        )
        lower, upper = lower.repeat(len(low), axis=0), upper.repeat(len(low), axis=0)
        lower[:, places], upper[:, places] = low, high
        return lower, upper

    def _shared(self) -> list[InputColumn]:
        """What is public and differs from row to row."""
        return [
            c
            for c in self.coordinates.columns
            if c.role is Role.SHARED and c.variable in self._public
        ]

    def tighten(
        self, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Tighten bounds to what can be reached, and drop empty boxes.

        Rows have known sums; of a quadruple (x, y, t, t') and its mirror image (y, x, t', t), on
        which the contrast is the same, the one in order is kept.
        """
        if self._mirror is not None:
            first, second = self._mirror
            lower, upper = lower.copy(), upper.copy()
            upper[:, first] = np.minimum(upper[:, first], upper[:, second])
            lower[:, second] = np.maximum(lower[:, first], lower[:, second])
        left = np.all(lower <= upper, axis=1)
        for column in self.coordinates.columns:
            if not isinstance(column.bounds.within, SimplexRows) or column.levels is not None:
                continue
            total = column.bounds.within.total
            slack = 0.0 if column.is_whole else 1e-12 * max(total, 1.0)
            width = np.shape(column.bounds.lower)[-1]
            for copy in column.role.copies(self.coordinates.contrast):
                place = self.coordinates.slices[column.variable, copy]
                low = lower[:, place].reshape(len(lower), -1, width)
                high = upper[:, place].reshape(len(upper), -1, width)
                rest_low = low.sum(axis=-1, keepdims=True) - low
                rest_high = high.sum(axis=-1, keepdims=True) - high
                low, high = (
                    np.maximum(low, total - rest_high - slack),
                    np.minimum(high, total - rest_low + slack),
                )
                left &= np.all(low <= high, axis=(1, 2))
                lower, upper = lower.copy(), upper.copy()
                lower[:, place] = low.reshape(len(lower), -1)
                upper[:, place] = high.reshape(len(upper), -1)
        return lower, upper, left

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> BoxEnclosure:
        """Bounds on boxes: the lesser of the interval bound and the mean-value form.

        The mean-value form is the bound at the center, plus the steepest slope of each smooth
        coordinate times its half-width; the other coordinates keep their intervals. Both forms are
        widened by `ROUNDING_SLACK` times the absolute values that were added up.
        """
        found = self._batch.slopes(self.coordinates.gather(lower, upper))
        low, high = self._slopes(found.slopes, len(lower))
        natural, size = self._contrast(*found.value)
        center = np.where(self.smooth, lower / 2 + upper / 2, 0.0)
        at = np.where(self.smooth, center, lower), np.where(self.smooth, center, upper)
        values = self._batch.values(self.coordinates.gather(*at))
        middle, middle_size = self._contrast(*values)
        lowest, _ = self._contrast(*values[::-1])
        with np.errstate(invalid="ignore", over="ignore"):
            half = np.where(self.smooth, np.maximum(upper - center, center - lower), 0.0)
            steepest = np.maximum(abs(low), abs(high))
            rise = np.where(half > 0.0, steepest * half, 0.0).sum(axis=1)
            sloped = middle + rise + ROUNDING_SLACK * (middle_size + rise)
            natural = natural + ROUNDING_SLACK * size
            blur = np.where(np.isfinite(middle) & np.isfinite(lowest), middle - lowest, np.inf)
        bound = np.fmin(natural, np.where(np.isnan(sloped), np.inf, sloped))
        bound = np.where(np.isnan(bound), np.inf, bound)
        low, high = self._kept_in_order(lower, upper, low, high)
        return BoxEnclosure(bound, low, high, np.maximum(blur, 0))

    def _kept_in_order(
        self, lower: np.ndarray, upper: np.ndarray, low: np.ndarray, high: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Slopes so wide that no ordered pair of mirrored numbers is moved out of order.

        `tighten` drops what is out of order. A maximum moved there on two boxes, each for the sake
        of its image on the other, would be lost on both.
        """
        if self._mirror is None:
            return low, high
        first, second = self._mirror
        apart = upper[:, first] <= lower[:, second]
        low, high = low.copy(), high.copy()
        low[:, first] = np.where(apart, low[:, first], np.minimum(low[:, first], -TINY_SLOPE))
        high[:, second] = np.where(apart, high[:, second], np.maximum(high[:, second], TINY_SLOPE))
        return low, high

    def attained(self, points: np.ndarray) -> np.ndarray:
        """Lower bounds of the difference of differences at points."""
        points = project_onto_domain(points, self.coordinates, self._masses)
        lower, upper = self._batch.values(self.coordinates.gather(points, points))
        found, size = self._contrast(upper, lower)
        with np.errstate(invalid="ignore"):
            value = found - ROUNDING_SLACK * size
        return np.where(np.isfinite(value), value, -np.inf)

    def _contrast(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bound of the contrast (lower, if exchanged), and the sum of absolute values."""
        signs = self.coordinates.contrast.signs
        low, high = lower.reshape(len(signs), -1), upper.reshape(len(signs), -1)
        each = zip(low, high, signs, strict=True)
        terms = [above if sign > 0 else -below for below, above, sign in each]
        with np.errstate(invalid="ignore", over="ignore"):
            return np.sum(terms, axis=0), np.sum(np.abs(terms), axis=0)

    def _slopes(self, slopes: dict, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the slopes of the difference of differences."""
        low = np.zeros((count, self.coordinates.count))
        high = np.zeros((count, self.coordinates.count))
        terms = self._slope_terms
        if not terms.order:
            return low, high
        down, up = terms.signed([slopes[variable] for variable in terms.order], count)
        for where, which in terms.rounds:
            low[:, where] = _add_outward(low[:, where], down[:, which], -np.inf)
            high[:, where] = _add_outward(high[:, where], up[:, which], np.inf)
        return low, high


def _mirrored_coordinate(coordinates: Coordinates) -> tuple[int, int] | None:
    """Both copies of one number, of which the first may be taken as the lesser.

    Exchanging both records and both points at once only exchanges terms of `SUBSTITUTION`.
    """
    if coordinates.contrast is not SUBSTITUTION:
        return None
    for role in (Role.POINT, Role.RECORD):
        for column in coordinates.columns:
            if column.role is role:
                copies = role.copies(SUBSTITUTION)
                first, second = (coordinates.slices[column.variable, copy] for copy in copies)
                return first.start, second.start
    return None


def _prepare_form(
    value: Variable, columns: list[InputColumn], expanded: bool, centered: bool
) -> tuple[Variable, list[InputColumn], PointMasses, bool]:
    """The function specialized to the box, rows in balls by their norms, point masses split off."""
    box = {column.variable: column.bounds for column in columns}
    value = specialize(value, box)
    if expanded:
        value = simplify([expand_products(value)])[0]
    value, columns, by_length = replace_rows_by_norms(value, columns, centered=centered)
    return *split_at_point_masses(value, columns), by_length


def _free(
    value: Variable, columns: list[InputColumn], wanted: bool
) -> tuple[Variable, list[InputColumn], bool, bool]:
    """The function with free branches, if wanted; whether branches are left, and whether freed."""
    some = bool(comparisons(value, columns))
    if wanted and some:
        return *free_branches(value, columns), False, True
    return value, columns, some, False


def _add_outward(total: np.ndarray, term: np.ndarray, far: float) -> np.ndarray:
    """total + term, moved outward unless it is exact; anything if it is no number."""
    with np.errstate(invalid="ignore", over="ignore"):
        value = total + term
    moved = np.where((total == 0.0) | (term == 0.0), value, np.nextafter(value, far))
    return np.where(np.isnan(value), far, moved)


def _entry_names(column: InputColumn) -> list[str]:
    """The name of each entry of a column."""
    name, shape = str(column.variable.name), np.shape(column.bounds.lower)
    if column.size == 1:
        return [name]
    return [f"{name}[{', '.join(map(str, index))}]" for index in np.ndindex(shape)]


def split_at_point_masses(
    value: Variable, columns: list[InputColumn]
) -> tuple[Variable, list[InputColumn], PointMasses]:
    """The same function of an entry x and a whole number k: of mass k, or of x if k is zero.

    Every x that is no mass is found at k = 0, every mass at its own k: no record is lost. At k = 0
    an x that equals a mass is no record; `move_off_point_masses` moves it.
    """
    entries = {c.variable: c for c in columns if _may_have_point_masses(c)}
    compared: dict[Variable, list[float]] = {}
    for variable in ancestors([value]):
        x, number = _equality_with_constant(variable)
        if x in entries and _is_within_column(number, entries[x]):
            compared.setdefault(x, []).append(number)
    masses: PointMasses = {}
    for x, numbers in compared.items():
        levels = np.unique(numbers)
        if len(levels) <= MOST_POINT_MASSES:
            masses[x] = pt.TensorType("int8", shape=())(name=f"which {x.name}"), levels
    if not masses:
        return value, columns, {}
    added = [
        InputColumn(which, Role.RECORD, Bounds(np.array(0.0), np.array(float(len(levels)))))
        for which, levels in masses.values()
    ]
    return _switch_on_mass(value, masses), columns + added, masses


def _may_have_point_masses(column: InputColumn) -> bool:
    """Whether this is one number of a record, in an interval."""
    return (
        column.role is Role.RECORD
        and not column.is_whole
        and np.shape(column.bounds.lower) == ()
        and float(column.bounds.lower) < float(column.bounds.upper)
    )


def _equality_with_constant(variable: Variable) -> tuple[Variable | None, float]:
    """x and c, if this is x == c."""
    if isinstance(scalar_op(variable), ps.EQ):
        first, second = map(without_leading_axes, variable.owner.inputs)
        for x, number in ((first, second), (second, first)):
            if isinstance(number, Constant) and number.data.size == 1:
                return x, float(number.data.item())
    return None, np.nan


def _is_within_column(number: float, column: InputColumn) -> bool:
    return bool(column.bounds.lower <= number <= column.bounds.upper)


def _switch_on_mass(value: Variable, masses: PointMasses) -> Variable:
    """The graph with masses in place of entries where the whole number selects one."""
    swaps: dict[Variable, Variable] = {}
    for x, (which, levels) in masses.items():
        swaps[x] = x
        for k, level in enumerate(levels):
            swaps[x] = pt.switch(pt.eq(which, k + 1), np.float64(level), swaps[x])

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        x, number = _equality_with_constant(node.outputs[0])
        if x not in masses:
            return None
        which, levels = masses[x]
        if number not in levels:
            return None
        found = pt.eq(which, int(np.flatnonzero(levels == number)[0]) + 1)
        return pt.shape_padleft(found, node.outputs[0].type.ndim)

    return simplify(rebuild([value], swaps, rule))[0]


def move_off_point_masses(
    masses: np.ndarray, which: np.ndarray, x: np.ndarray, middle: float
) -> np.ndarray:
    """x, moved by the least amount toward the middle where it equals a mass but counts as none."""
    hit = (which == 0) & np.isin(x, masses)
    return np.where(hit, np.nextafter(x, np.where(x < middle, np.inf, -np.inf)), x)


def project_onto_domain(
    points: np.ndarray, coordinates: Coordinates, masses: PointMasses
) -> np.ndarray:
    """Points, shape (N, D), moved to where records and parameters can be.

    Rows get their sums, and entries that count as no point mass are moved off the masses.
    """
    points = points.copy()
    columns = {column.variable: column for column in coordinates.columns}
    for (variable, copy), place in coordinates.slices.items():
        column = columns[variable]
        low, high = coordinates.lower[place], coordinates.upper[place]
        if has_fixed_sums(column):
            points[:, place] = _project_onto_sums(column, points[:, place], low, high)
        if variable in masses and (masses[variable][0], copy) in coordinates.slices:
            which, levels = masses[variable]
            selected = points[:, coordinates.slices[which, copy]]
            middle = float(low[0] / 2 + high[0] / 2)
            points[:, place] = move_off_point_masses(levels, selected, points[:, place], middle)
    return points


def has_fixed_sums(column: InputColumn) -> bool:
    """Whether rows are counts of a known sum, probabilities, or effects that sum to zero."""
    if column.total is not None:
        return True
    rows = column.bounds.within
    if not isinstance(rows, SimplexRows) or column.levels is not None:
        return False
    return column.is_whole or rows.total == 1.0


def _project_onto_sums(
    column: InputColumn, points: np.ndarray, lower: np.ndarray, upper: np.ndarray
) -> np.ndarray:
    """The nearest probabilities; or counts, one entry after the other moved as far as it takes."""
    width = np.shape(column.bounds.lower)[-1]
    rows = points.reshape(len(points), -1, width).copy()
    low, high = (np.broadcast_to(side.reshape(-1, width), rows.shape) for side in (lower, upper))
    if not column.is_whole:
        total = 1.0 if column.total is None else column.total
        return project_onto_simplex(rows, low, high, total).reshape(points.shape)
    total = float(column.bounds.within.total)  # type: ignore[union-attr]
    for k in range(width):
        missing = total - rows.sum(axis=-1)
        rows[..., k] += np.clip(missing, low[..., k] - rows[..., k], high[..., k] - rows[..., k])
    return rows.reshape(points.shape)


def _reduce_dimension(
    value: Variable, columns: list[InputColumn], together: bool
) -> tuple[Variable, list[InputColumn], bool]:
    """The function of fewer coordinates, where some replace functions of others.

    Weighted means are enclosed last: of what is left, which no replacement tears apart any more.
    """
    value, columns, cut = reduce_many_inputs(value, columns)
    if together:
        value, columns, joined = reduce_one_sided(value, columns)
        cut = cut or joined
    value = enclose_weighted_means(value, {c.variable: c.bounds for c in columns})
    return value, _read_columns(value, columns), cut


def _read_columns(value: Variable, columns: Sequence[InputColumn]) -> list[InputColumn]:
    """The columns that a value reads."""
    read = set(ancestors([value]))
    return [column for column in columns if column.variable in read]


def reduce_many_inputs(value: Variable, columns: list[InputColumn]) -> Reduction:
    """Replace functions of many inputs by few numbers with a range, where there are any."""
    many = {
        c.variable
        for c in columns
        if c.size > MOST_ENTRIES or isinstance(c.bounds.within, Ellipsoid)
    }
    many |= {c.variable for c in columns if c.role is Role.POINT} & indexed_inputs(value)
    if many.isdisjoint(ancestors([value])):
        return value, columns, False
    return _replace_by_ranges(value, columns, low_dimensional_cut(value, many))


def reduce_one_sided(value: Variable, columns: list[InputColumn]) -> Reduction:
    """Replace what reads records alone, or parameters alone, by its range, if that saves any."""
    sides = [{c.variable for c in columns if c.role is role} for role in (Role.RECORD, Role.POINT)]
    cuts = [cut for cut in one_sided_nodes(value, *sides) if is_low_dimensional(cut)]
    return _replace_by_ranges(value, columns, cuts)


def _replace_by_ranges(
    value: Variable, columns: list[InputColumn], cuts: Sequence[Variable]
) -> Reduction:
    """Fresh columns in place of the variables `cuts`, which range over their bounds."""
    if not cuts or value in cuts:
        return value, columns, False
    trail = propagate_bounds(cuts, {c.variable: c.bounds for c in columns})
    named = {c.variable for c in columns}
    fresh = {v: v.type(name=_reduced_name(v, named)) for v in cuts}
    roles = {c.variable: c.role for c in columns}
    added = [
        InputColumn(new, _reduced_role(v, roles), trail[v].forget()) for v, new in fresh.items()
    ]
    return rebuild([value], fresh, first_of_touched_forms)[0], columns + added, True


def _reduced_name(variable: Variable, inputs: Collection[Variable]) -> str:
    """The name of what is computed from several variables."""
    read = sorted(str(v.name) for v in ancestors([variable]) if v in inputs)
    return f"from {', '.join(read)}"


def _reduced_role(variable: Variable, roles: Mapping[Variable, Role]) -> Role:
    """The role of what is computed from several variables."""
    read = {roles[v] for v in ancestors([variable]) if v in roles} - {Role.SHARED}
    if {Role.RECORD, Role.POINT} <= read or Role.PAIR in read:
        return Role.PAIR
    return read.pop() if read else Role.SHARED
