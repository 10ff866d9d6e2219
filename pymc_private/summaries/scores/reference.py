"""Reference of covariates: public rows that stand for the records, moved by noisy moments.

The distribution of the covariates is unknown, and a mechanism needs expectations over it. A
reference is a set of weighted rows that depends on no private data: quasi-random points of the
declared domain, a public sample if one is given, and rows of the public arrays. One noisy sum of
bounded second moments then moves it towards the data. With a = (1, numbers, indicators of
categories), whitened under the reference to a~, and w = min(1, K0 / |a~|^2), a record adds w a~
a~', a positive semidefinite matrix of norm at most K0 (T31). The noisy sum gives weighted means
and covariances as ratios, so that the number of records is not needed; rows of the reference are
moved to have them. A second sum around the moved reference (`CovariateMoments.refined`) is in its
units: in a domain that is wide for the data, the noise of one sum exceeds what the data vary (with
4 correlated columns in a box four times too wide, n 2,000, epsilon 1, 90% intervals held .78 after
one sum and .93 after two).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce, singledispatch
from itertools import product
from math import prod
from typing import Any, Protocol

import numpy as np
from scipy.special import gammainc, ndtri

from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Ball, Categories, Counts, Domain, Interval, Simplex
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.reference_rows import PublishedRows, checked_reference, nearest_entries
from pymc_private.summaries.lattice import unpack_symmetric
from pymc_private.summaries.scores.category_levels import (
    CategoryLevels,
    category_levels,
    positive_shares,
    raked,
)
from pymc_private.summaries.scores.clipped_scores import Rows
from pymc_private.summaries.scores.drawn_levels import (
    WantedLevels,
    drawn_levels,
    in_drawing_order,
)
from pymc_private.summaries.scores.symmetric import floor_eigenvalues, matrix_power, symmetric_part

SOBOL_SEED = 20260101
MOST_LEVELS = 12
"""Indicators of more levels have too many second moments: they are counted (`category_shares`)."""
BOUND_QUANTILE, REFINED_QUANTILE = 0.8, 0.9
"""K0 is this quantile of |a~|^2 under the reference; the second around a moved one."""
MOMENT_SHARES = (0.35, 0.65)
"""Shares of mu^2 of two noisy sums, the second around the reference that the first one moved."""
LEAST_VARIANCE, LARGEST_VARIANCE = 0.01, 4.0
"""Variances of the moved reference, in units of those it had."""
MOST_GIVEN = 16_384
"""Most rows of a public sample that are used, evenly spread: a stored summary holds them."""
GIVEN = "given:"
"""Before the names of these rows in a stored summary."""
RANK_TOLERANCE = 1e-9
"""Directions with less than this share of the largest second moment do not vary."""


@dataclass(frozen=True, eq=False)
class CovariateReference:
    """Weighted public rows.

    Attributes
    ----------
    rows : mapping of str to array, shape (N, *row_shape)
        Private covariates and public entries, by name.
    weights : array, shape (N,)
        They sum to one.
    units : mapping of str to array, shape (N, entries)
        Uniform numbers of which the levels of categories were drawn, by name.
    """

    rows: Rows
    weights: np.ndarray
    units: Rows = field(default_factory=dict)


class CovariateReader(Protocol):
    """What a reference reads of a record's density (`record_density.RecordDensity`)."""

    @property
    def covariates(self) -> tuple[Source, ...]:
        """Private covariates."""

    @property
    def public_rows(self) -> Rows:
        """Public arrays with one entry for each record."""

    @property
    def labels(self) -> Mapping[str, int]:
        """Entries that are positions in arrays of parameters, with the arrays' lengths."""


# ---- rows --------------------------------------------------------------------------------------
def reference_rows(
    private: PrivateModel,
    density: CovariateReader,
    count: int,
    skip: int = 0,
    given: Any = None,
    most_combinations: int | None = None,
) -> CovariateReference:
    """Rows that stand for the records, independent of their data.

    Covariates are spread over their domains; where `given` holds them, its rows are used as they
    are, and public arrays give whole rows. All are spread together by one Sobol sequence. Fewer
    rows than asked for are exact where all combinations are few.

    Parameters
    ----------
    private : PrivateModel
    density : RecordDensity
    count : int
        Most rows.
    skip : int
        Points of the sequence to leave out, for a second reference.
    given : mapping of str to array, or data frame, optional
        A *public* sample of covariates.
    most_combinations : int, optional
        Most combinations of levels that are all there is, with levels that are not drawn anew;
        default: `count`.

    Raises
    ------
    DomainError
        The given sample does not fit the model.
    """
    blocks, free = known_rows(private, density, given)
    if not free and len(blocks) < 2:
        return _whole_block(blocks, count, skip)
    levels = [_levels(source) for source in free]
    most = count if most_combinations is None else most_combinations
    if not blocks and all(levels) and prod(map(len, levels)) <= most:
        return _all_combinations(free, levels)
    sizes = [unit_dimensions(source.domain, source.row_shape) for source in free]
    points = sobol_points(len(blocks) + sum(sizes), count, skip)
    rows: dict[str, np.ndarray] = {}
    for block, share in zip(blocks, points.T, strict=False):
        length = len(next(iter(block.values())))
        picked = np.minimum((share * length).astype(np.int64), length - 1)
        rows |= {name: values[picked] for name, values in block.items()}
    parts = np.split(points[:, len(blocks) :], np.cumsum(sizes)[:-1], axis=1) if free else []
    for source, part in zip(free, parts, strict=True):
        rows[source.name] = entries_from_unit(
            source.domain, source.row_shape, part, source.is_whole
        )
    return CovariateReference(rows, np.full(count, 1.0 / count), units_of(free, parts))


def units_of(sources: Sequence[Source], parts: Sequence[np.ndarray]) -> Rows:
    """The uniform numbers of those sources that are categories."""
    pairs = zip(sources, parts, strict=True)
    return {source.name: part for source, part in pairs if isinstance(source.domain, Categories)}


def known_rows(
    private: PrivateModel, density: CovariateReader, given: Any
) -> tuple[list[Rows], list[Source]]:
    """Blocks of rows that are known together, each of one length, and covariates that are not."""
    known = given_rows(private, density, given)
    public = {name: np.asarray(values) for name, values in density.public_rows.items()}
    free = [source for source in density.covariates if source.name not in known]
    return [block for block in (known, public) if block], free


def given_rows(
    private: PrivateModel, density: CovariateReader, given: Any
) -> dict[str, np.ndarray]:
    """The rows of a public sample, in the domain, `MOST_GIVEN` of them at most."""
    found = {
        source.name: np.moveaxis(nearest_entries(source, values), source.axis, 0).astype(float)
        for source, values in checked_reference(private, given).items()
        if source in density.covariates
    }
    length = max(map(len, found.values()), default=0)
    if length <= MOST_GIVEN:
        return found
    picked = np.arange(MOST_GIVEN) * length // MOST_GIVEN
    return {name: rows[picked] for name, rows in found.items()}


def stored_rows(private: PrivateModel, released: Mapping[str, np.ndarray]) -> Any:
    """The public sample that a stored summary was planned by, as `reference=`; None without one."""
    found = {
        source.name: np.moveaxis(released[GIVEN + source.name], 0, source.axis)
        for source in private.sources
        if GIVEN + source.name in released
    }
    return PublishedRows(found) if found else None


def digest_of(rows: Rows) -> str:
    """SHA-256 of names and numbers of public rows."""
    found = hashlib.sha256()
    for name in sorted(rows):
        found.update(f"{name}|{rows[name].shape}|".encode())
        found.update(np.ascontiguousarray(rows[name], dtype="<f8").tobytes())
    return found.hexdigest()


def _whole_block(blocks: Sequence[Rows], count: int, skip: int) -> CovariateReference:
    """All rows of the only block, or `count` of them, spread evenly."""
    if not blocks:
        return CovariateReference({}, np.ones(1))
    length = len(next(iter(blocks[0].values())))
    picked = np.arange(length)
    if length > count:
        share = np.sort(sobol_points(1, count, skip)[:, 0])
        picked = np.minimum((share * length).astype(np.int64), length - 1)
    rows = {name: values[picked] for name, values in blocks[0].items()}
    return CovariateReference(rows, np.full(len(picked), 1.0 / len(picked)))


def _levels(source: Source) -> list[np.ndarray]:
    """All entries of a record in one source of categories; none for other domains."""
    if not isinstance(source.domain, Categories):
        return []
    size = prod(source.row_shape)
    if len(source.domain.values) ** size > 1e6:
        return []
    each = product(source.domain.values, repeat=size)
    return [np.reshape(entry, source.row_shape) for entry in each]


def _all_combinations(
    sources: Sequence[Source], levels: Sequence[list[np.ndarray]]
) -> CovariateReference:
    every = list(product(*levels))
    rows = {s.name: np.stack([each[k] for each in every]) for k, s in enumerate(sources)}
    return CovariateReference(rows, np.full(len(every), 1.0 / len(every)))


def sobol_points(dimensions: int, count: int, skip: int) -> np.ndarray:
    """Points of a scrambled Sobol sequence, shape (count, dimensions)."""
    from scipy.stats import qmc  # slow to import

    sequence = qmc.Sobol(dimensions, scramble=True, seed=SOBOL_SEED)
    if skip:
        sequence.fast_forward(skip)
    power = max(0, int(np.ceil(np.log2(count))))
    return np.asarray(sequence.random(2**power)[:count])  # whole powers of two are balanced


@singledispatch
def unit_dimensions(domain: Domain, shape: tuple[int, ...]) -> int:
    """How many uniform numbers make one entry of a record in a domain."""
    if isinstance(domain, Interval | Categories | Ball | Simplex | Counts):
        return prod(shape)
    raise Unsupported(
        "no public rows can be made up in a domain of this kind",
        got=type(domain).__name__,
        allowed="Interval, Categories, Ball, Simplex, Counts",
        do="give a public sample of the covariates by reference=",
    )


@singledispatch
def entries_from_unit(
    domain: Domain, shape: tuple[int, ...], unit: np.ndarray, whole: bool
) -> np.ndarray:
    """Entries of records, uniform on a domain, from uniform numbers of shape (N, dimensions)."""
    raise NotImplementedError(type(domain).__name__)


@entries_from_unit.register
def _interval_entries(
    domain: Interval, shape: tuple[int, ...], unit: np.ndarray, whole: bool
) -> np.ndarray:
    bounds, share = domain.bounds(shape), unit.reshape(-1, *shape)
    low, high = bounds.lower, bounds.upper
    if whole:
        low, high = np.ceil(low), np.floor(high)
        return np.clip(np.floor(low + share * (high - low + 1.0)), low, high)
    return low * (1.0 - share) + high * share


@entries_from_unit.register
def _category_entries(
    domain: Categories, shape: tuple[int, ...], unit: np.ndarray, whole: bool
) -> np.ndarray:
    values = np.asarray(domain.values)
    picked = np.minimum((unit * len(values)).astype(np.int64), len(values) - 1)
    return values[picked].reshape(-1, *shape)


@entries_from_unit.register
def _ball_entries(
    domain: Ball, shape: tuple[int, ...], unit: np.ndarray, whole: bool
) -> np.ndarray:
    """Normal directions; the norm's own distribution function makes the radius uniform."""
    width = shape[0]
    z = ndtri(np.clip(unit, 1e-12, 1.0 - 1e-12))
    squared = np.maximum((z**2).sum(axis=1, keepdims=True), 1e-300)
    radius = domain.radius * gammainc(width / 2.0, squared / 2.0) ** (1.0 / width)
    rows = z * radius / np.sqrt(squared)
    return np.asarray(domain.center, float) + np.asarray(domain.scale, float) * rows


@entries_from_unit.register
def _simplex_entries(
    domain: Simplex, shape: tuple[int, ...], unit: np.ndarray, whole: bool
) -> np.ndarray:
    gaps = -np.log(np.clip(unit, 1e-12, 1.0 - 1e-12)).reshape(-1, *shape)
    return gaps / gaps.sum(axis=-1, keepdims=True)


@entries_from_unit.register
def _count_entries(
    domain: Counts, shape: tuple[int, ...], unit: np.ndarray, whole: bool
) -> np.ndarray:
    """Simplex points times the total, rounded by largest remainders."""
    shares = _simplex_entries(Simplex(), shape, unit, whole) * domain.total
    floors = np.floor(shares)
    missing = domain.total - floors.sum(axis=-1, keepdims=True)
    order = np.argsort(np.argsort(floors - shares, axis=-1, kind="stable"), axis=-1)
    return floors + (order < missing)


# ---- moments -----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Numbers:
    """Columns of numbers of one covariate, scaled by its domain."""

    source: Source
    center: np.ndarray
    half: np.ndarray

    @property
    def width(self) -> int:
        return len(self.center)

    def columns(self, rows: Rows) -> np.ndarray:
        """(x - center) / half, shape (N, width)."""
        raw = np.asarray(rows[self.source.name], float)
        return (raw.reshape(len(raw), -1) - self.center) / self.half

    def entries(self, columns: np.ndarray) -> np.ndarray:
        """Entries inside the domain from columns."""
        raw = (columns * self.half + self.center).reshape(-1, *self.source.row_shape)
        return _into_domain(self.source, raw)


def _column_blocks(density: CovariateReader) -> tuple[list[_Numbers], list[CategoryLevels]]:
    """Columns of covariates: numbers, and indicators of categories."""
    numbers = list[_Numbers]()
    for source in density.covariates:
        if isinstance(source.domain, Interval | Ball | Simplex):
            bounds = source.domain.bounds(source.row_shape)
            low, high = np.ravel(bounds.lower), np.ravel(bounds.upper)
            half = np.where(high > low, (high - low) / 2.0, 1.0)
            numbers.append(_Numbers(source, (low + high) / 2.0, half))
    entries = category_levels(density.covariates, density.labels)
    return numbers, [each for each in entries if len(each.levels) <= MOST_LEVELS]


def covariate_moments(
    density: CovariateReader, reference: CovariateReference
) -> CovariateMoments | None:
    """The moments stage of a model; None if no private covariate has moments to release."""
    numbers, indicators = _column_blocks(density)
    return CovariateMoments(numbers, indicators, reference) if numbers or indicators else None


def _packed_products(vectors: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Packed matrices w a a' of rows a (N, r), as `pack_symmetric` gives them; fast along rows."""
    columns = np.ascontiguousarray(vectors.T)
    r, count = columns.shape
    found, place = np.empty((r * (r + 1) // 2, count)), 0
    for i in range(r):
        part = found[place : place + r - i]
        np.multiply(weights * columns[i], columns[i:], out=part)
        part[1:] *= np.sqrt(2.0)
        place += r - i
    return found.T


class CovariateMoments:
    """Second moments of covariates: what each record adds, and how they move a reference.

    See `covariate_moments`.

    Attributes
    ----------
    bound : float
        K0, the largest norm of what one record adds.
    size : int
        Numbers in the packed sum.
    """

    def __init__(
        self,
        numbers: Sequence[_Numbers],
        indicators: Sequence[CategoryLevels],
        reference: CovariateReference,
        quantile: float = BOUND_QUANTILE,
    ) -> None:
        self._numbers, self._indicators = tuple(numbers), tuple(indicators)
        columns = self._columns(reference.rows)
        second = (columns * reference.weights[:, None]).T @ columns
        values, vectors = np.linalg.eigh(symmetric_part(second))
        kept = values > RANK_TOLERANCE * values[-1]
        root = np.sqrt(values[kept])
        self._whitening = vectors[:, kept] / root  # a~ = a W
        self._unwhitening = root[:, None] * vectors[:, kept].T
        squared = (self._whitened(columns) ** 2).sum(axis=1)
        order = np.argsort(squared)
        reached = np.cumsum(reference.weights[order]) >= quantile
        self.bound = float(squared[order][np.argmax(reached)])
        rank = int(kept.sum())
        self.size = rank * (rank + 1) // 2

    def parted(
        self, reference: CovariateReference
    ) -> tuple[CovariateMoments | None, tuple[CategoryLevels, ...]]:
        """The stage of the numbers alone, None if there are none, and the categories."""
        numbers = CovariateMoments(self._numbers, (), reference) if self._numbers else None
        return numbers, self._indicators

    def refined(self, moved: CovariateReference) -> CovariateMoments:
        """The same stage around a reference that was moved: for a second noisy sum.

        Terms are in units of the moved reference, so that noise hides less of covariates that vary
        little in a wide domain.
        """
        return CovariateMoments(self._numbers, self._indicators, moved, REFINED_QUANTILE)

    def terms(self, rows: Rows) -> np.ndarray:
        """What each record adds: packed matrices of norm at most `bound`, shape (c, size).

        Each is a function of its own row alone: no product of matrices mixes rows.
        """
        with np.errstate(all="ignore"):  # no warning may depend on a record
            whitened = self._whitened(self._columns(rows))
            return _packed_products(whitened, self._weights(whitened))

    def factors(self, rows: Rows) -> np.ndarray:
        """Vectors f with f f' the terms, shape (c, 1, r): exact sums of these need no check."""
        with np.errstate(all="ignore"):
            whitened = self._whitened(self._columns(rows)).T
            return (whitened * np.sqrt(self._weights(whitened.T))).T[:, None, :]

    def moved(
        self, reference: CovariateReference, noisy: np.ndarray, sd: float, n: float | None = None
    ) -> CovariateReference:
        """A reference with the weighted means and covariances of the noisy sum.

        Parameters
        ----------
        reference : CovariateReference
            Rows to move; any of this model.
        noisy : array, shape (size,)
            The noisy sum of `terms`.
        sd : float
            Standard deviation of its noise.
        n : float, optional
            The number of records, public or noisy: it bounds the size of the sum.
        """
        whitened = self._columns(reference.rows) @ self._whitening
        weights = reference.weights * self._weights(whitened)
        public = (whitened * weights[:, None]).T @ whitened
        total = self._denoised(unpack_symmetric(noisy), public, sd, n)
        count, mean, covariance = _mean_and_covariance(self._unwhitened(total))
        reference = self._redrawn(reference, mean, covariance, sd / count)
        weights = reference.weights * self._weights(self._columns(reference.rows) @ self._whitening)
        tilted = self._raked(reference, weights, mean[self._width :])
        factor = tilted / np.maximum(reference.weights, 1e-300)
        rows = dict(reference.rows)
        if self._width:
            moved = self._transported(reference, weights * factor, mean, covariance, sd / count)
            ends = np.cumsum([block.width for block in self._numbers])
            for block, part in zip(self._numbers, np.split(moved, ends[:-1], axis=1), strict=True):
                rows[block.source.name] = block.entries(part)
        return CovariateReference(rows, tilted, reference.units)

    # ---- pieces ----------------------------------------------------------------------------------
    @property
    def _width(self) -> int:
        """Columns of numbers."""
        return sum(block.width for block in self._numbers)

    def _columns(self, rows: Rows) -> np.ndarray:
        """a = (1, numbers, indicators), shape (N, q)."""
        parts = [block.columns(rows) for block in self._numbers]
        parts += [block.columns(rows) for block in self._indicators]
        return np.concatenate([np.ones((len(parts[0]), 1)), *parts], axis=1)

    def _whitened(self, columns: np.ndarray) -> np.ndarray:
        """a~, by sums over columns: linear algebra may round a row by its place."""
        found = np.zeros((self._whitening.shape[1], len(columns)))
        for column, row in zip(np.ascontiguousarray(columns.T), self._whitening, strict=True):
            found += row[:, None] * column
        return found.T

    def _weights(self, whitened: np.ndarray) -> np.ndarray:
        squared = reduce(np.add, whitened.T**2)
        return np.where(squared > self.bound, self.bound / squared * (1.0 - 1e-12), 1.0)

    def _denoised(
        self, noisy: np.ndarray, public: np.ndarray, sd: float, n: float | None
    ) -> np.ndarray:
        """The noisy sum, pulled towards the reference's by what noise explains; definite."""
        trace = float(np.trace(noisy))
        if n is not None:
            trace = float(np.clip(trace, 0.25 * n * np.trace(public), n * self.bound))
        target = public * (max(trace, sd) / np.trace(public))
        distance = float(((noisy - target) ** 2).sum()) / max(sd, 1e-300) ** 2
        excess = distance - 2.0 * np.sqrt(2.0 * self.size)  # what noise alone rarely exceeds
        weight = self.size / max(excess, self.size)
        least = min(sd / 2.0, float(np.linalg.eigvalsh(target)[0]))
        return floor_eigenvalues((1.0 - weight) * noisy + weight * target, least)

    def _unwhitened(self, matrix: np.ndarray) -> np.ndarray:
        return self._unwhitening.T @ matrix @ self._unwhitening

    def _by_entry(self, shares: np.ndarray) -> list[np.ndarray]:
        """Shares of all levels of each category from those of the indicators."""
        ends = np.cumsum([block.width for block in self._indicators])[:-1]
        parts = np.split(shares, ends) if self._indicators else []
        return [np.concatenate([[1.0 - found.sum()], found]) for found in parts]

    def _redrawn(
        self, reference: CovariateReference, mean: np.ndarray, covariance: np.ndarray, noise: float
    ) -> CovariateReference:
        """Rows whose levels have the noisy shares, and the noisy covariances with each other."""
        if not self._indicators:
            return reference
        w, blocks = self._width, self._indicators
        shares = self._by_entry(mean[w:])
        starts = w + np.cumsum([0, *(block.width for block in blocks)])
        wanted, before = list[WantedLevels](), np.zeros(0, dtype=np.int64)
        for k in in_drawing_order(blocks, reference.units):
            own = np.arange(starts[k], starts[k + 1])
            both = np.concatenate([own, before])
            slopes = _regression(covariance[np.ix_(both, both)], len(own), noise).T
            wanted.append(WantedLevels(blocks[k], positive_shares(shares[k]), slopes))
            before = np.concatenate([before, own])

        def weigh(rows: Rows) -> np.ndarray:
            return reference.weights * self._weights(self._columns(rows) @ self._whitening)

        rows = drawn_levels(reference.rows, reference.units, weigh, wanted)
        return replace(reference, rows=rows)

    def _raked(
        self, reference: CovariateReference, weights: np.ndarray, shares: np.ndarray
    ) -> np.ndarray:
        """Weights of the rows for which the categories have the noisy shares."""
        wanted = list(zip(self._indicators, self._by_entry(shares), strict=True))
        tilted = reference.weights * raked(reference.rows, weights, wanted)
        return tilted / tilted.sum()

    def _transported(
        self,
        reference: CovariateReference,
        weights: np.ndarray,
        mean: np.ndarray,
        covariance: np.ndarray,
        noise: float,
    ) -> np.ndarray:
        """Columns of numbers with given moments, in the categories each row has.

        Numbers are moved with their regression on the indicators, whose slopes are damped where
        noise hides a rare category.
        """
        w = self._width
        columns = self._columns(reference.rows)
        _, own_mean, own_covariance = _mean_and_covariance((columns * weights[:, None]).T @ columns)
        slopes = _regression(covariance, w, noise)
        own_slopes = _regression(own_covariance, w, noise)
        rest, own_rest = (
            _residual(each, w, b)
            for each, b in ((covariance, slopes), (own_covariance, own_slopes))
        )
        inverse, root = matrix_power(own_rest, -0.5), matrix_power(own_rest, 0.5)
        values, vectors = np.linalg.eigh(symmetric_part(inverse @ rest @ inverse))
        bounded = (vectors * np.clip(values, LEAST_VARIANCE, LARGEST_VARIANCE)) @ vectors.T
        linear = inverse @ matrix_power(root @ bounded @ root, 0.5)
        numbers, indicators = columns[:, 1 : w + 1], columns[:, w + 1 :]
        residual = numbers - own_mean[:w] - (indicators - own_mean[w:]) @ own_slopes.T
        return mean[:w] + (indicators - mean[w:]) @ slopes.T + residual @ linear


def _mean_and_covariance(second: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """The sum of weights, weighted mean and covariance from second moments of (1, x)."""
    total = float(second[0, 0])
    mean = second[0, 1:] / total
    return total, mean, second[1:, 1:] / total - np.outer(mean, mean)


def _regression(covariance: np.ndarray, width: int, ridge: float) -> np.ndarray:
    """Slopes of the first `width` columns on the others, shape (width, others)."""
    inner = covariance[width:, width:]
    damped = symmetric_part(inner) + ridge * np.eye(len(inner))
    return covariance[:width, width:] @ np.linalg.pinv(damped, rcond=1e-10, hermitian=True)


def _residual(covariance: np.ndarray, width: int, slopes: np.ndarray) -> np.ndarray:
    """The covariance of numbers less their regression, for any slopes."""
    cross = slopes @ covariance[width:, :width]
    inner = slopes @ covariance[width:, width:] @ slopes.T
    return symmetric_part(covariance[:width, :width] - cross - cross.T + inner)


def _into_domain(source: Source, raw: np.ndarray) -> np.ndarray:
    """The nearest entries inside the domain, records along the first axis."""
    domain = source.domain
    if isinstance(domain, Simplex):
        raw = np.maximum(raw, 0.0)
        return raw / np.maximum(raw.sum(axis=-1, keepdims=True), 1e-300)
    if isinstance(domain, Interval):
        bounds = domain.bounds(source.row_shape)
        low, high = bounds.lower, bounds.upper
        if source.is_whole:
            raw, low, high = np.rint(raw), np.ceil(low), np.floor(high)
        return np.clip(raw, low, high)
    return domain.clip(raw, 0)
