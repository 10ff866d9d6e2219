"""Log-likelihood of a single record as a function of the record and the parameters.

Where all rows of a record graph are proved to be one function, `single_record` takes one of them
out. Its inputs are columns of a record, of a parameter point or shared by both. A contrast is a
signed sum of this function over pairs of records and parameter points: one record substituted (T1),
or one added or removed (T24).
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from weakref import WeakKeyDictionary

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, SpecifyShape
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis import Bounds, ZeroSumRows, simplify
from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild, without_tracebacks
from pymc_private.errors import NotCertified
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Categories
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.sequences.row_identity import (
    STACKED_ROWS,
    is_row_wise,
    public_data,
    row_expressions,
    with_symbolic_count,
)


@dataclass(frozen=True, eq=False)
class SingleRecord:
    """The log-likelihood of one record, without the records axis.

    Parameters
    ----------
    value : Variable, scalar
        log p(record | parameters), in nats.
    data : dict of str to Variable
        The record's entries, each of its source's `row_shape`.
    parameters : dict of str to Variable
    public : dict of Variable to array, shape (n, *shape of the variable)
        Public inputs that differ from row to row, with their values in all rows.
    neighbors : dict of Variable to Source
        Entries of other records that the same factor rows read: any values of their domain, the
        same for both records that are compared.
    """

    value: Variable
    data: dict[str, Variable]
    parameters: dict[str, Variable]
    public: dict[Variable, np.ndarray]
    neighbors: Mapping[Variable, Source] = field(default_factory=dict)


CachedRecord = tuple[Sequence[Source], SingleRecord | None]
"""The sources, so that their ids are not reused, and the result."""
_CACHED_RECORDS: WeakKeyDictionary[RecordGraph, dict[Hashable, CachedRecord]] = WeakKeyDictionary()
"""Results by record graph, which all regions and powers of a model share."""


def single_record(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> SingleRecord | None:
    """One row of a record graph, if all rows are proved to be the same function; else None.

    Rows may differ by public arrays with one entry per row. The result is cached with the graph: it
    depends on the shapes of parameters, but on nothing that trims and powers change.
    """
    cached = _CACHED_RECORDS.setdefault(graph, {})
    arrays = [np.asarray(v.get_value()) for v in public_data([graph.record])]
    public = tuple((v.dtype.str, v.shape, v.tobytes()) for v in arrays)  # `pm.set_data` changes it
    key = (tuple(map(id, sources)), n, tuple(shapes.items()), public)
    if key not in cached:
        cached[key] = tuple(sources), _derive_single_record(graph, sources, n, shapes)
    return cached[key][1]


@contextmanager
def temporary_records(graph: RecordGraph) -> Iterator[None]:
    """Forget the rows derived meanwhile: made-up records are new ones in every rehearsal."""
    known = set(_CACHED_RECORDS.get(graph, {}))
    try:
        yield
    finally:
        cached = _CACHED_RECORDS.get(graph, {})
        for key in set(cached) - known:
            del cached[key]


def _derive_single_record(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> SingleRecord | None:
    # Rows that do not differ were proved to carry one expression for n, 2, 3 and STACKED_ROWS.
    count = n if graph.rows_differ else min(n, STACKED_ROWS)
    whole = graph.record
    if graph.rows_differ and not graph.windows:
        whole = with_symbolic_count(whole, {graph.data[s.name]: s.axis for s in sources}, n)
    arrays = _row_arrays(whole, n) if graph.rows_differ else []
    fixed = [v for v in public_data([whole]) if v not in {a.original for a in arrays}]
    record = rebuild([whole], {a.original: a.variable for a in arrays})[0]
    values = {graph.parameters[name]: np.full(shape, 0.5) for name, shape in shapes.items()}
    values = {v: value.astype(v.type.dtype) for v, value in values.items()}
    values |= {v: v.get_value() for v in fixed}
    axes = {graph.data[s.name]: s.axis for s in sources} | {a.variable: a.axis for a in arrays}
    stand_ins = {graph.data[s.name]: s.stand_in(count) for s in sources}
    stand_ins |= {a.variable: a.values for a in arrays}
    if not (
        is_row_wise(record, values | stand_ins, axes, count)
        and _rows_are_equivalent(record, values, stand_ins, axes, count)
    ):
        return None
    with without_tracebacks():
        constants = {v: pt.constant(v.get_value(), name=v.name) for v in fixed}
        return _extract_row(rebuild([record], constants)[0], graph, sources, shapes, arrays)


def _row_arrays(record: Variable, n: int) -> list[_PublicRowArray]:
    """The public arrays with one axis as long as the records axis."""
    found: list[_PublicRowArray] = []
    for v in ancestors([record]):
        if not (isinstance(v, TensorConstant) or hasattr(v, "get_value")):
            continue
        values = np.asarray(v.data if isinstance(v, TensorConstant) else v.get_value())
        if values.shape.count(n) == 1:
            axis = values.shape.index(n)
            static = [1 if size == 1 else None for size in values.shape]
            fresh = v.type.clone(shape=tuple(static))(name=f"row_{len(found)}")
            found.append(_PublicRowArray(v, fresh, axis, values))
    return found


@dataclass(frozen=True, eq=False)
class _PublicRowArray:
    """A public array with one entry per row, and the input that takes its place."""

    original: Variable
    variable: Variable
    axis: int
    values: np.ndarray


def _rows_are_equivalent(
    record: Variable,
    values: Mapping[Variable, np.ndarray],
    stand_ins: Mapping[Variable, np.ndarray],
    axes: Mapping[Variable, int],
    n: int,
) -> bool:
    """Whether each of n rows, and a single one, carries one and the same expression."""
    seen = []
    for count in (n, 1):
        rows = {v: value.take(range(count), axis=axes[v]) for v, value in stand_ins.items()}
        try:
            seen.append(row_expressions(record, {**values, **rows}, axes))
        except (NotCertified, *EVALUATION_ERRORS):
            return False
    return [len(rows) for rows in seen] == [n, 1] and all(np.all(r == seen[0][:1]) for r in seen)


def _extract_row(
    record: Variable,
    graph: RecordGraph,
    sources: Sequence[Source],
    shapes: Mapping[str, tuple[int, ...]],
    arrays: Sequence[_PublicRowArray],
) -> SingleRecord:
    """The graph on inputs without a records axis: one row of it is built inside."""
    data = {s.name: pt.TensorType(s.dtype, shape=s.row_shape)(name=s.name) for s in sources}
    swaps = {graph.data[s.name]: pt.expand_dims(data[s.name], s.axis) for s in sources}
    public = {}
    for a in arrays:
        values = np.moveaxis(a.values, a.axis, 0)
        kind = pt.TensorType(a.variable.type.dtype, shape=values.shape[1:])
        entry = kind(name=a.variable.name)
        public[entry] = values
        swaps[a.variable] = pt.expand_dims(entry, a.axis)
    parameters = {
        name: v.type.clone(shape=shapes[name])(name=name) for name, v in graph.parameters.items()
    }
    swaps |= {graph.parameters[name]: v for name, v in parameters.items()}

    row = rebuild([record], swaps, static_size)[0]
    return SingleRecord(simplify([row.sum()])[0], data, parameters, public)


def static_size(node: Apply, inputs: list[Variable]) -> Variable | None:
    """A rule of `rebuild` that writes sizes of inputs of known shape as numbers."""
    if isinstance(node.op, Shape) and None not in inputs[0].type.shape:
        return pt.constant(np.array(inputs[0].type.shape, dtype="int64"))
    return inputs[0] if isinstance(node.op, SpecifyShape) else None


RecordAndPoint = tuple[int, int]
"""Numbers of a record and of a parameter point."""


@dataclass(frozen=True)
class Contrast:
    """A signed sum of log p(record | parameters) over pairs of a record and a parameter point.

    Parameters
    ----------
    pairs : tuple of (record, parameter point)
    signs : tuple of float
        The sign of each pair.
    keeps_parameters : bool
        Whether terms of the parameters alone remain in the sum; otherwise they cancel.
    """

    pairs: tuple[RecordAndPoint, ...]
    signs: tuple[float, ...]
    keeps_parameters: bool = False

    @property
    def compares_points(self) -> bool:
        """Whether each record is taken at two points, so that terms of the record alone cancel."""
        return len({point for _, point in self.pairs}) == 2


SUBSTITUTION = Contrast(((0, 0), (1, 0), (0, 1), (1, 1)), (1.0, -1.0, -1.0, 1.0))
"""l(x, t) - l(y, t) - l(x, t') + l(y, t'): one record replaced (T1)."""
ADDITION = Contrast(((0, 0), (0, 1)), (1.0, -1.0), True)
"""l(x, t) - l(x, t'): one record added or removed (T24)."""
SUBSTITUTION_AT_ONE_POINT = (Contrast(((0, 0), (1, 0)), (1.0, -1.0)),)
"""l(x, t) - l(y, t): one record replaced, at given parameters (T24)."""
HALVES = (Contrast(((0, 0), (0, 1)), (1.0, -1.0)), *SUBSTITUTION_AT_ONE_POINT)
"""l(x, t) - l(x, t') and l(x, t) - l(y, t): twice each is at least `SUBSTITUTION` (T24)."""
ADDITION_AT_ONE_POINT = (Contrast(((0, 0),), (1.0,), True), Contrast(((0, 0),), (-1.0,), True))
"""l(x, t) and -l(x, t): one record added or removed, at given parameters."""


class Role(Enum):
    """What an input belongs to: a record, a parameter point, a pair of both, or all of them.

    A contrast holds one copy of an input for each of these.
    """

    RECORD = "record"
    POINT = "point"
    PAIR = "pair"
    SHARED = "shared"

    def copy(self, pair: RecordAndPoint) -> tuple[int, ...]:
        """The copy that a pair reads."""
        record, point = pair
        return {
            Role.RECORD: (record,),
            Role.POINT: (point,),
            Role.PAIR: (record, point),
            Role.SHARED: (),
        }[self]

    def copies(self, contrast: Contrast) -> list[tuple[int, ...]]:
        """All copies in a contrast."""
        return list(dict.fromkeys(map(self.copy, contrast.pairs)))


@dataclass(frozen=True, eq=False)
class InputColumn:
    """One input variable and all its values, within `bounds`.

    With `levels`, entries are numbers of this public finite set, and coordinates are their ranks.
    Rows along the last axis sum to `total`, where the bounds do not say so.
    """

    variable: Variable
    role: Role
    bounds: Bounds
    levels: np.ndarray | None = None
    total: float | None = None

    @property
    def is_whole(self) -> bool:
        """Whether coordinates are whole numbers."""
        return self.levels is not None or not self.variable.type.dtype.startswith("float")

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(np.prod(np.shape(self.bounds.lower)))

    def coordinate_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and greatest coordinates."""
        if self.levels is not None:
            return np.zeros(self.size), np.full(self.size, len(self.levels) - 1.0)
        low, high = np.ravel(self.bounds.lower), np.ravel(self.bounds.upper)
        if self.is_whole:
            return np.ceil(low).astype(float), np.floor(high).astype(float)
        return low.astype(float), high.astype(float)

    def interval(self, lower: np.ndarray, upper: np.ndarray) -> Bounds:
        """Values within bounds of coordinates, each of shape (boxes, size)."""
        if self.levels is not None:
            lower = self.levels[np.ceil(lower).astype(int)]
            upper = self.levels[np.floor(upper).astype(int)]
        shape = (len(lower), *np.shape(self.bounds.lower))
        lower, upper = lower.reshape(shape), upper.reshape(shape)
        if not np.array_equal(lower, upper):
            return Bounds(lower, upper, self.bounds.within)
        dtype = self.variable.type.dtype
        point = lower if dtype.startswith("float") else lower.astype(dtype)
        return Bounds(point, point, self.bounds.within)


def input_columns(
    record: SingleRecord,
    sources: Sequence[Source],
    box: Mapping[str, Bounds],
    held: Collection[str],
) -> list[InputColumn]:
    """All inputs: the entries of a record (`held` ones shared by both), parameters, public ones."""
    columns = [
        InputColumn(
            record.data[s.name],
            Role.SHARED if s.name in held else Role.RECORD,
            s.domain.bounds(s.row_shape),
            _domain_levels(s.domain),
        )
        for s in sources
        if s.name in record.data
    ]
    columns += [_parameter_column(record.parameters[n], b) for n, b in box.items()]
    columns += [
        InputColumn(v, Role.SHARED, s.domain.bounds(s.row_shape), _domain_levels(s.domain))
        for v, s in record.neighbors.items()
    ]
    return columns + [
        InputColumn(v, Role.SHARED, Bounds(rows.min(axis=0), rows.max(axis=0)))
        for v, rows in record.public.items()
    ]


def _parameter_column(variable: Variable, bounds: Bounds) -> InputColumn:
    if isinstance(bounds.within, ZeroSumRows):  # derivatives need a box that does not fix the sum
        return InputColumn(variable, Role.POINT, bounds.forget(), total=bounds.within.total)
    return InputColumn(variable, Role.POINT, bounds)


def _domain_levels(domain: object) -> np.ndarray | None:
    return np.asarray(domain.values) if isinstance(domain, Categories) else None


class Coordinates:
    """The layout of all copies of all columns in one vector of coordinates.

    Attributes
    ----------
    slices : dict of (Variable, copy) to slice
    lower, upper : array, shape (count,)
        Bounds of the coordinates.
    whole : bool array, shape (count,)
        Whether a coordinate is a whole number.
    """

    def __init__(self, columns: Sequence[InputColumn], contrast: Contrast) -> None:
        self.columns, self.contrast = list(columns), contrast
        self.slices: dict[tuple[Variable, tuple[int, ...]], slice] = {}
        lower, upper, whole = [np.empty(0)], [np.empty(0)], [np.empty(0, dtype=bool)]
        start = 0
        for column in self.columns:
            for copy in column.role.copies(contrast):
                self.slices[column.variable, copy] = slice(start, start + column.size)
                start += column.size
                low, high = column.coordinate_bounds()
                lower.append(low)
                upper.append(high)
                whole.append(np.full(column.size, column.is_whole))
        self.count = start
        self._of_pairs = {
            column.variable: [self.of(column, pair) for pair in contrast.pairs]
            for column in self.columns
        }
        self.lower, self.upper = np.concatenate(lower), np.concatenate(upper)
        self.whole = np.concatenate(whole)

    def of(self, column: InputColumn, pair: RecordAndPoint) -> slice:
        """The coordinates at which a pair reads a column."""
        return self.slices[column.variable, column.role.copy(pair)]

    def gather(self, lower: np.ndarray, upper: np.ndarray) -> dict[Variable, Bounds]:
        """Inputs of all pairs, one pair after the other: N boxes of each for N boxes (N, count)."""
        inputs = {}
        for column in self.columns:
            slices = self._of_pairs[column.variable]
            low, high = (
                np.concatenate([bound[:, part] for part in slices]) for bound in (lower, upper)
            )
            inputs[column.variable] = column.interval(low, high)
        return inputs


class SlopeTerms:
    """The slopes of single pairs that add up to the slope along each coordinate of a contrast.

    Attributes
    ----------
    order : list of Variable
        The columns with `known` slopes.
    rounds : list of (array, array)
        Coordinates and the term that is added to each: a column of the result of `signed`. A
        coordinate takes at most one term in each round.
    """

    def __init__(self, coordinates: Coordinates, known: Collection[Variable]) -> None:
        columns = [column for column in coordinates.columns if column.variable in known]
        self.order = [column.variable for column in columns]
        self._signs = coordinates.contrast.signs
        width = sum(column.size for column in columns)
        terms: list[list[int]] = [[] for _ in range(coordinates.count)]
        start = 0
        for column in columns:
            for k, pair in enumerate(coordinates.contrast.pairs):
                first = coordinates.of(column, pair).start
                for j in range(column.size):
                    terms[first + j].append(k * width + start + j)
            start += column.size
        self.rounds = []
        for k in range(max(map(len, terms), default=0)):
            where = [c for c, of_coordinate in enumerate(terms) if len(of_coordinate) > k]
            self.rounds.append((np.array(where), np.array([terms[c][k] for c in where])))

    def signed(
        self, slopes: Sequence[tuple[np.ndarray, np.ndarray]], count: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of all terms with their signs, shape (boxes, pairs x entries)."""
        pairs = len(self._signs)
        low, high = (
            np.concatenate([bounds[side].reshape(pairs, count, -1) for bounds in slopes], axis=2)
            for side in (0, 1)
        )
        negative = np.array(self._signs)[:, None, None] < 0
        low, high = np.where(negative, -high, low), np.where(negative, -low, high)
        return (
            low.transpose(1, 0, 2).reshape(count, -1),
            high.transpose(1, 0, 2).reshape(count, -1),
        )
