"""The range of one record's log-likelihood as a maximum over two records and two parameters.

R = max over records x, y and parameters t, t' of l(x, t) - l(y, t) - l(x, t') + l(y, t') (T1). Each
box of the four is bounded twice, by the ends of l and by the mean-value form

    f(c + h) <= f(c) + sum_j sup |df/dx_j| |h_j|

in which what a parameter does to every record alike cancels from the slopes.
"""

from __future__ import annotations

import numpy as np
from collections.abc import Collection, Mapping, Sequence
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pymc_private.analysis import Interval as Bounds, SimplexRows, simplify
from pymc_private.analysis.batched_bounds import Batch
from pymc_private.analysis.branch_and_bound import Enclosure
from pymc_private.analysis.rewrites.algebra__expand import expand
from pymc_private.analysis.rewrites.normal_cdf import name_normal_lcdf
from pymc_private.analysis.rewrites.specialize import joint_terms, specialize
from pymc_private.certificates.range_objective__allowed import allowed, has_sums
from pymc_private.certificates.range_objective__atoms import Atoms, split_at_atoms
from pymc_private.certificates.ball_range__lengths import by_norms
from pymc_private.models.record_likelihood__columns import columns_of
from pymc_private.models.record_likelihood import Column, Contrast, Coordinates, Role, SUBSTITUTION, SlopeTerms
from pymc_private.certificates.range_objective__cuts import cut_where_many, cut_where_one_sided
from pymc_private.certificates.worst_case import Place
from pymc_private.certificates.record_bounds__public_rows import MOST_ROWS, boxes_around, distinct_rows
from pymc_private.models.record_likelihood__single_record import SingleRecord
from pymc_private.models.data_variables import Source

MOST_COORDINATES = 160
"""Beyond this many coordinates halving them does not help."""
SMALL = 64.0
"""Numbers in a small graph, in one walk over one box."""
PAD = 2.0**-44
"""Relative slack that covers the rounding of a few dozen sums and products."""


class Quadruples:
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
        Take what reads records alone, or parameters alone, for few numbers with a range.
    expanded : bool
        Write products of sums out: what reads neighbors alone then cancels.
    held : collection of str
        Variables that both records share.

    Attributes
    ----------
    is_cut : bool
        Whether some coordinates stand for what others amount to within `box`.
    is_relaxed : bool
        Whether more is allowed than records and parameters can be (a cut, a ball): then a value
        that is found is no lower bound of R.
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
        held: Collection[str] = (),
    ) -> None:
        self._public = record.public
        columns = columns_of(record, sources, box, held)
        value, columns, self._atoms, by_length = _split(
            record.value, columns, expanded, contrast.compares_points
        )
        points = [c.variable for c in columns if c.role is Role.POINT]
        # Under add/remove a term of the parameters alone does not cancel.
        every = contrast.keeps_parameters
        varying = [c.variable for c in columns if every or c.role is Role.RECORD]
        value = joint_terms(value, varying, points)
        self.value, columns, cut = _cut(value, columns, together)
        self.coordinates = Coordinates(columns, contrast)
        self.whole = self.coordinates.whole
        smooth = {c.variable for c in columns if not c.is_whole and c.bounds.within is None}
        named, unknown = name_normal_lcdf(self.value, {c.variable: c.bounds for c in columns})
        self._batch = Batch(named, [c.variable for c in columns], smooth, unknown)
        self.smooth = np.zeros(self.coordinates.count, dtype=bool)
        for (variable, _), place in self.coordinates.places.items():
            self.smooth[place] = variable in self._batch.gradient
        self._slope_terms = SlopeTerms(self.coordinates, self._batch.gradient)
        self._rows = distinct_rows([record.public[c.variable] for c in self._shared()])
        odd = any(c.bounds.within is not None and not has_sums(c) for c in columns)
        # Boxes around rows hold what is no row.
        self.is_cut = cut
        self.is_relaxed = cut or odd or by_length or len(self._rows) > MOST_ROWS

    @property
    def cost(self) -> float:
        """How much dearer one walk is than that of a small graph."""
        return max(1.0, self._batch.elements / SMALL)

    def places(self, point: np.ndarray | None) -> tuple[Place, ...]:
        """Name the values at a point, entry by entry."""
        if point is None:
            return ()
        found, point = [], allowed(point[None], self.coordinates, self._atoms)[0]
        for column in self.coordinates.columns:
            values = [
                np.ravel(column.interval(point[None, place], point[None, place]).lower)
                for place in (
                    self.coordinates.places[column.variable, copy]
                    for copy in column.role.copies(self.coordinates.contrast)
                )
            ]
            ends = [np.ravel(end) for end in (column.bounds.lower, column.bounds.upper)]
            for k, name in enumerate(_entries(column)):
                each = tuple(float(value[k]) for value in values)
                low, high = float(ends[0][k]), float(ends[1][k])
                found.append(Place(name, column.role.value, low, high, each))
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

    def _shared(self) -> list[Column]:
        """What is public and differs from row to row."""
        return [
            c
            for c in self.coordinates.columns
            if c.role is Role.SHARED and c.variable in self._public
        ]

    def tighten(
        self, lower: np.ndarray, upper: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows of one sum: ends that cannot be reached move, empty boxes go."""
        left = np.all(lower <= upper, axis=1)
        for column in self.coordinates.columns:
            if not isinstance(column.bounds.within, SimplexRows) or column.levels is not None:
                continue
            total = column.bounds.within.total
            slack = 0.0 if column.is_whole else 1e-12 * max(total, 1.0)
            width = np.shape(column.bounds.lower)[-1]
            for copy in column.role.copies(self.coordinates.contrast):
                place = self.coordinates.places[column.variable, copy]
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

    def enclose(self, lower: np.ndarray, upper: np.ndarray) -> Enclosure:
        """Bounds on boxes: the lesser of the natural one and the mean-value form."""
        count = len(lower)
        found = self._batch.slopes(self.coordinates.gather(lower, upper))
        natural, scale = self._contrast(*found.value)
        low, high = self._slopes(found.slopes, count)
        center = np.where(self.smooth, lower / 2 + upper / 2, 0.0)
        at = np.where(self.smooth, center, lower), np.where(self.smooth, center, upper)
        values = self._batch.values(self.coordinates.gather(*at))
        middle, near = self._contrast(*values)
        lowest, _ = self._contrast(*values[::-1])
        with np.errstate(invalid="ignore", over="ignore"):
            half = np.where(self.smooth, np.maximum(upper - center, center - lower), 0.0)
            steep = np.maximum(abs(low), abs(high))
            reach = np.where(half > 0.0, steep * half, 0.0).sum(axis=1)
            sloped = middle + reach + PAD * (near + reach)
            natural = natural + PAD * scale
            blur = np.where(np.isfinite(middle) & np.isfinite(lowest), middle - lowest, np.inf)
        bound = np.fmin(natural, np.where(np.isnan(sloped), np.inf, sloped))
        return Enclosure(np.where(np.isnan(bound), np.inf, bound), low, high, np.maximum(blur, 0))

    def attained(self, points: np.ndarray) -> np.ndarray:
        """Lower ends of the difference of differences at points."""
        points = allowed(points, self.coordinates, self._atoms)
        lower, upper = self._batch.values(self.coordinates.gather(points, points))
        found, scale = self._contrast(upper, lower)
        with np.errstate(invalid="ignore"):
            value = found - PAD * scale
        return np.where(np.isfinite(value), value, -np.inf)

    def _contrast(self, lower: np.ndarray, upper: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper end of the contrast (with the ends exchanged, its lower end), and its scale."""
        signs = self.coordinates.contrast.signs
        low, high = lower.reshape(len(signs), -1), upper.reshape(len(signs), -1)
        ends = [h if sign > 0 else -end for end, h, sign in zip(low, high, signs, strict=True)]
        with np.errstate(invalid="ignore", over="ignore"):
            return np.sum(ends, axis=0), np.sum(np.abs(ends), axis=0)

    def _slopes(self, slopes: dict, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Ends of the slopes of the difference of differences."""
        low = np.zeros((count, self.coordinates.count))
        high = np.zeros((count, self.coordinates.count))
        terms = self._slope_terms
        if not terms.order:
            return low, high
        down, up = terms.signed([slopes[variable] for variable in terms.order], count)
        for where, which in terms.rounds:
            low[:, where] = _outward(low[:, where], down[:, which], -np.inf)
            high[:, where] = _outward(high[:, where], up[:, which], np.inf)
        return low, high


def _cut(
    value: Variable, columns: list[Column], together: bool
) -> tuple[Variable, list[Column], bool]:
    """The function of fewer coordinates, where some stand for what others amount to."""
    value, columns, cut = cut_where_many(value, columns)
    if together:
        value, columns, joined = cut_where_one_sided(value, columns)
        cut = cut or joined
    return value, _read(value, columns), cut


def _read(value: Variable, columns: Sequence[Column]) -> list[Column]:
    """The columns that a value reads."""
    read = set(ancestors([value]))
    return [column for column in columns if column.variable in read]


def _split(
    value: Variable, columns: list[Column], expanded: bool, centered: bool
) -> tuple[Variable, list[Column], Atoms, bool]:
    """The form of the function on the whole box, with atoms apart, and rows in balls by length."""
    value = specialize(value, {column.variable: column.bounds for column in columns})
    if expanded:
        value = simplify([expand(value)])[0]
    value, columns, by_length = by_norms(value, columns, centered=centered)
    return *split_at_atoms(value, columns), by_length


def _outward(total: np.ndarray, term: np.ndarray, far: float) -> np.ndarray:
    """total + term, moved outward unless it is exact; anything if it is no number."""
    with np.errstate(invalid="ignore", over="ignore"):
        value = total + term
    moved = np.where((total == 0.0) | (term == 0.0), value, np.nextafter(value, far))
    return np.where(np.isnan(value), far, moved)


def _entries(column: Column) -> list[str]:
    """A name for each entry of a column."""
    name, shape = str(column.variable.name), np.shape(column.bounds.lower)
    if column.size == 1:
        return [name]
    return [f"{name}[{', '.join(map(str, index))}]" for index in np.ndindex(shape)]
