"""Exact draws from the posterior on a public finite grid, also in floating point.

The log-likelihood of each record is bounded at every point of the grid by intervals, and
rounded to a multiple of a public unit: an integer that depends on that record alone. Integers
add without error, and a draw compares them by coins whose probability is exactly e^-gamma. So
the claim holds for the very bits that are released, at the price of `tau`: |integer *
unit - log-likelihood| <= tau moves the range of a record by at most 4 tau.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from pymc_private.analysis import Bounds
from pymc_private.analysis.batched_bounds import BatchedFunction
from pymc_private.analysis.traversal import rebuild
from pymc_private.errors import Unsupported
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import SingleRecord, single_record
from pymc_private.models.sequences.row_identity import public_data
from pymc_private.privacy.rounding import format_count
from pymc_private.privacy.validation import check_count
from pymc_private.samplers.randomness import Randomness, exp_coin

TAU_BITS = 20
"""tau is 2**-20 nats."""
MOST_POINTS = 2**16
"""Points beyond which a grid is refused."""
DEFAULT_POINTS = 2**12
"""Points of a grid by default, about."""
CHUNK_POINTS = 2**12
"""Points in one evaluation."""
MOST_STAND_IN_TRIALS = 64
"""Records of the domain tried as the stand-in."""
LARGEST_LOG_LIKELIHOOD = 2.0**30
"""Largest log-likelihood in size: half a unit in its last place is at most tau / 16."""
RecordArrays = tuple[np.ndarray, ...]
"""One record: an array per source, each of the shape of its rows."""


def sample_grid(
    private: PrivateModel,
    draws: int,
    randomness: Randomness,
    progress: Callable[[int], None] = lambda done: None,
    points: int | None = None,
) -> Mapping[str, np.ndarray]:
    """Draws from the posterior on a public grid, by name, shape (draws, *shape). Reads the data."""
    grid = make_parameter_grid(private, points)
    scores = GridScores(private, grid)
    totals = total_scores(scores, private, lambda share: progress(0))
    drawn = draw_points(grid, totals, private.power, draws, randomness, progress)
    at = ParameterGrid(grid.names, grid.shapes, drawn, np.zeros(draws, dtype=np.int64))
    return dict(at.columns(0, draws))


def draw_points(
    grid: ParameterGrid,
    totals: list[int],
    power: Fraction,
    draws: int,
    randomness: Randomness,
    progress: Callable[[int], None] = lambda done: None,
) -> np.ndarray:
    """Independent draws with probabilities exactly proportional to e^(prior + power * likelihood).

    Proposes a point uniformly and accepts it with probability e^(its log weight - the largest) by
    rational coins: at most K expected trials per draw, whatever the data. `totals` are multiples of
    the unit of the grid; draws have shape (draws, d).
    """
    weights = [
        (int(prior) + power * total) * grid.unit
        for prior, total in zip(grid.log_prior, totals, strict=True)
    ]
    largest = max(weights)
    gaps = [largest - weight for weight in weights]
    found: list[int] = []
    while len(found) < draws:
        k = randomness.below(len(gaps))
        if exp_coin(randomness, gaps[k]):
            found.append(k)
            progress(len(found))
    return grid.points[found]


def total_scores(
    scores: GridScores,
    private: PrivateModel,
    progress: Callable[[float], None] = lambda share: None,
) -> list[int]:
    """Exact sums over records at each point; equal records are evaluated once. Reads the data."""
    rows = [np.moveaxis(s.values(), s.axis, 0) for s in private.sources]
    seen: dict[bytes, tuple[int, int]] = {}
    for i in range(private.n):
        key = scores.public_key(i) + b"".join(np.ascontiguousarray(r[i]).tobytes() for r in rows)
        first, times = seen.get(key, (i, 0))
        seen[key] = (first, times + 1)
    total = np.zeros(scores.size, dtype=object)  # Python integers never overflow
    for done, (i, times) in enumerate(seen.values()):
        total = total + scores.log_likelihood(tuple(r[i] for r in rows), i).astype(object) * times
        progress((done + 1) / len(seen))
    return [int(k) for k in total]


class GridScores:
    """Integer log-likelihoods of single records at every point of a grid.

    One evaluation holds one record and many points, so the result for a record cannot depend on
    another record, not even in its last bit. A record whose log-likelihood intervals do not bound
    to within tau at every point is replaced by `stand_in`, a public record: a map of each record by
    itself.

    Raises
    ------
    Unsupported
        Rows of the model differ, or intervals bound no record of the domain to within tau.
    """

    def __init__(self, private: PrivateModel, grid: ParameterGrid) -> None:
        record = single_record(private.graph, private.sources, private.n, private.shapes)
        if record is None:
            raise Unsupported(
                "a grid needs rows that are one and the same function of a record",
                got="rows that differ by how the model was written",
                do="hold what tells the records apart in pm.Data",
            )
        self._record, self._private, self._grid = record, private, grid
        self._inputs = [record.data[s.name] for s in private.sources]
        inputs = [*self._inputs, *record.public, *record.parameters.values()]
        self._batch = BatchedFunction(record.value, inputs, ())
        self._public = _public_rows(record, private.n)
        self.stand_in = self._find_stand_in()

    @property
    def size(self) -> int:
        """Number of points."""
        return len(self._grid.points)

    def public_key(self, row: int) -> bytes:
        """Public values of a row, as bytes."""
        return self._public[row].tobytes()

    def log_likelihood(self, record: RecordArrays, row: int) -> np.ndarray:
        """Log-likelihood of a record in multiples of the unit, shape (K,).

        `row` is its index, which gives its public values.
        """
        found = self._rounded(record, row)
        return found if found is not None else self._stand_in_at(row)

    def _stand_in_at(self, row: int) -> np.ndarray:
        found = self._rounded(self.stand_in, row)
        if found is None:
            raise Unsupported("the public record is not known")  # `_find_stand_in` tried every row
        return found

    def _rounded(self, record: RecordArrays, row: int) -> np.ndarray | None:
        low, high = self._bounds(record, row)
        near = high - low <= float(self._grid.tau)
        if not np.all(near & (low >= -LARGEST_LOG_LIKELIHOOD) & (high <= LARGEST_LOG_LIKELIHOOD)):
            return None
        # tau / 2 for the midpoint, tau / 8 for rounding, tau / 16 for the midpoint in floats.
        return np.round((low / 2 + high / 2) / float(self._grid.unit)).astype(np.int64)

    def _bounds(self, record: RecordArrays, row: int) -> tuple[np.ndarray, np.ndarray]:
        low, high = [], []
        public = {v: values[row] for v, values in self._record.public.items()}
        fixed = dict(zip(self._inputs, record, strict=True)) | public
        for start in range(0, len(self._grid.points), CHUNK_POINTS):
            columns = dict(self._grid.columns(start, start + CHUNK_POINTS))
            count = len(next(iter(columns.values())))
            given = {
                v: as_point_interval(v, np.broadcast_to(x, (count, *np.shape(x))))
                for v, x in fixed.items()
            }
            given |= {
                v: as_point_interval(v, columns[n]) for n, v in self._record.parameters.items()
            }
            below, above = self._batch.values(given)
            low.append(below)
            high.append(above)
        return np.concatenate(low), np.concatenate(high)

    def _find_stand_in(self) -> RecordArrays:
        """A corner of the domain, bounded to within tau at every point for every public row."""
        corners = [
            [np.asarray(c).astype(s.dtype) for c in s.domain.corners(s.row_shape)[:4]]
            for s in self._private.sources
        ]
        rows = np.unique(self._public, axis=0, return_index=True)[1].tolist()
        for record in itertools.islice(itertools.product(*corners), MOST_STAND_IN_TRIALS):
            if all(self._rounded(record, row) is not None for row in rows):
                return record
        raise Unsupported(
            "interval arithmetic bounds the log-likelihood of none of the records tried to within "
            f"tau = {float(self._grid.tau):.3g} nats at every point of the grid",
            got=", ".join(self._private.graph.factors),
            do="trim away from where the likelihood is zero or infinite, or take another sampler",
        )


def _public_rows(record: SingleRecord, n: int) -> np.ndarray:
    """Public values of each row, shape (n, numbers)."""
    parts = [np.reshape(values, (n, -1)) for values in record.public.values()]
    return np.hstack([np.zeros((n, 1)), *parts])


def as_point_interval(variable: Variable, value: np.ndarray) -> Bounds:
    """Values as intervals of width zero, in the dtype of a variable."""
    return Bounds.point(np.asarray(value).astype(variable.type.dtype))


@dataclass(frozen=True)
class ParameterGrid:
    """The public points that carry a posterior, with their prior.

    Parameters
    ----------
    names : tuple of str
    shapes : tuple of tuple of int
    points : array, shape (K, d)
        Every combination of the coordinates' values.
    log_prior : array of int, shape (K,)
        Log prior density in multiples of `unit`.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    points: np.ndarray
    log_prior: np.ndarray
    tau: Fraction = field(default_factory=lambda: Fraction(1, 2**TAU_BITS))

    @property
    def unit(self) -> Fraction:
        """The unit of the integer log-densities."""
        return self.tau / 4

    def columns(self, start: int, stop: int) -> Iterator[tuple[str, np.ndarray]]:
        """Values of each parameter at some of the points, shape (count, *shape)."""
        rows, column = self.points[start:stop], 0
        for name, shape in zip(self.names, self.shapes, strict=True):
            size = math.prod(shape)
            yield name, rows[:, column : column + size].reshape(len(rows), *shape)
            column += size


def make_parameter_grid(private: PrivateModel, points: int | None = None) -> ParameterGrid:
    """Lay a grid over the box of a model: all values where discrete, else midpoints of equal cells.

    Reads no data. By default continuous coordinates get as many points as make about 4,096 in all.

    Raises
    ------
    Unsupported
        An unbounded parameter, a simplex, too many points, or a prior that is zero on all of them.
    """
    names = tuple(private.shapes)
    each = points_per_coordinate(private, points)
    lengths = [length for name in names for length in _axis_lengths(private, name, each)]
    if math.prod(lengths) > MOST_POINTS:  # before the axes fill the memory
        raise Unsupported(
            "the grid has too many points",
            got=math.prod(lengths),
            allowed=f"at most {MOST_POINTS}, the product over {len(lengths)} coordinates",
            do="fewer points per coordinate, fewer parameters, or another sampler",
        )
    axes = [axis for name in names for axis in _axis_values(private, name, each)]
    count = math.prod(map(len, axes))
    table = np.stack([a.ravel() for a in np.meshgrid(*axes, indexing="ij")], axis=1)
    shapes = tuple(private.shapes[n] for n in names)
    draft = ParameterGrid(names, shapes, table, np.zeros(count, dtype=np.int64))
    log_prior = _log_prior(private, draft)
    positive = np.isfinite(log_prior)
    if not positive.any():
        raise Unsupported(
            "the prior is zero at every point of the grid",
            got=format_count(count, "point"),
            do="trim to where the prior is not zero, or take more points",
        )
    log_prior = np.round((log_prior[positive] - log_prior[positive].max()) / float(draft.unit))
    return ParameterGrid(names, shapes, table[positive], log_prior.astype(np.int64))


def points_per_coordinate(private: PrivateModel, points: int | None = None) -> int:
    """Points along each continuous coordinate, 0 if there is none."""
    free = [n for n in private.shapes if not _is_discrete(private, n)]
    size = sum(math.prod(private.shapes[name]) for name in free)
    default = max(3, math.floor(DEFAULT_POINTS ** (1.0 / max(size, 1)) + 1e-9))
    each = default if points is None else check_count(points, "the number of points of a grid")
    return each if size else 0


def _is_discrete(private: PrivateModel, name: str) -> bool:
    return not str(private.graph.parameters[name].type.dtype).startswith("float")


def _axis_lengths(private: PrivateModel, name: str, points: int) -> Iterator[int]:
    """Largest number of grid values of each coordinate of one parameter."""
    for low, high in _coordinate_bounds(private, name):
        discrete = _is_discrete(private, name)
        yield max(0, math.floor(high) - math.ceil(low) + 1) if discrete else points


def _axis_values(private: PrivateModel, name: str, points: int) -> Iterator[np.ndarray]:
    """Grid values of each coordinate of one parameter."""
    for low, high in _coordinate_bounds(private, name):
        if _is_discrete(private, name):
            yield np.arange(math.ceil(low), math.floor(high) + 1, dtype=float)
        else:
            middles = low + (high - low) * (np.arange(points) + 0.5) / points
            yield np.unique(np.clip(middles, low, high))


def _coordinate_bounds(private: PrivateModel, name: str) -> Iterator[tuple[float, float]]:
    """Lower and upper bound of each coordinate of one parameter."""
    box = private.box[name]
    if not box.is_finite or box.within is not None:
        raise Unsupported(
            f"a grid needs two finite bounds for each coordinate of '{name}'",
            got="an unbounded parameter" if box.within is None else "a simplex",
            allowed="finite boxes",
            do="pmp.trim(private, box={...}); write a two-cell Dirichlet as a Beta probability",
        )
    yield from zip(np.ravel(box.lower), np.ravel(box.upper), strict=True)


def _log_prior(private: PrivateModel, grid: ParameterGrid) -> np.ndarray:
    """Log prior density at each point; floats suffice, since the prior on the grid is public."""
    graph = private.graph
    sized = {v: v.type.clone(shape=private.shapes[n])(name=n) for n, v in graph.parameters.items()}
    shared = {v: pt.constant(v.get_value()) for v in public_data([graph.prior])}
    prior = rebuild([graph.prior], sized | shared)[0]
    batch = BatchedFunction(prior, list(sized.values()), ())
    found = []
    for start in range(0, len(grid.points), CHUNK_POINTS):
        given = {
            sized[graph.parameters[n]]: as_point_interval(graph.parameters[n], values)
            for n, values in grid.columns(start, start + CHUNK_POINTS)
        }
        low, high = batch.values(given)
        found.append(np.where(low == high, low, low / 2 + high / 2))
    log_prior = np.nan_to_num(np.concatenate(found), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    if np.isposinf(log_prior).any():
        raise Unsupported(
            "the prior density is infinite at a point of the grid",
            got=", ".join(grid.names),
            do="trim away from the edge where it is infinite",
        )
    return log_prior
