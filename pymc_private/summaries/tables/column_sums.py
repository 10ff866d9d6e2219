"""Batches of a table as columns: hashed, and added up, by compiled loops that read them once.

Rows of nearly all tables are finite doubles inside of their domain. They need not become records:
loops read their columns, check them against the domain, and add up their terms. Rows that they
leave become records as in `table_rows`, and are added up by NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.analysis import Ellipsoid
from pymc_private.models.domains import HELD, SQUARED, Ball, Categories, Interval
from pymc_private.summaries.compiled.chunk_threads import each_chunk
from pymc_private.summaries.compiled.compiler import COMPILER, SUMS
from pymc_private.summaries.scores.compiled_terms import CompiledTerms, Domain
from pymc_private.summaries.tables.coins import Coins
from pymc_private.summaries.tables.mixing import FIRST, MIXER, SECOND
from pymc_private.summaries.tables.table_batches import Batch
from pymc_private.summaries.tables.table_columns import (
    COIN,
    LARGEST_WHOLE,
    SourceColumns,
    check_numbers,
)
from pymc_private.summaries.tables.table_rows import Reading, RowReader
from pymc_private.summaries.weighted_sums import WeightedSums

MOST_LEVELS = 16
"""Values of a column that are looked for one after another."""


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a batch.

    Attributes
    ----------
    values : array, shape (K, N)
        Finite doubles.
    numbers : array of uint64, shape (N,)
        That coins come from.
    reading : Reading
    """

    values: np.ndarray
    numbers: np.ndarray
    reading: Reading

    def rows(self, names: Sequence[str], places: np.ndarray | slice) -> Batch:
        """Some rows, as `RowReader.numbers` gives them."""
        chosen = self.values[:, places]
        found = dict(zip(names, chosen, strict=True))
        return found | {COIN: self.numbers[places]}

    def pilots(self, reader: RowReader) -> Batch:
        """Records of the rows that are pilots."""
        chosen = np.flatnonzero(reader.coins.below(self.numbers)) if reader.coins else slice(0)
        return reader.records(self.rows(reader.names, chosen))


def columns_of(reader: RowReader, coins: Coins, given: Batch) -> Columns | None:
    """The columns of a batch; None without compiled loops, or where some are no finite numbers."""
    loops = COMPILER.loops
    arrays = [np.asarray(given[name]) for name in reader.names]
    place = {name: k for k, name in enumerate(reader.names)}
    if loops is None or any(array.dtype.kind not in "fiub" for array in arrays):
        return None
    values = np.empty((len(arrays), len(arrays[0])))
    for row, array in zip(values, arrays, strict=True):
        row[:] = array
    keyed, others = (
        np.array([place[name] for name in names if name in place], dtype=np.int64)
        for names in (coins.columns, reader.hashed_names)
    )
    numbers = np.empty(values.shape[1], dtype=np.uint64)
    if len(keyed) < len(coins.columns):
        keyed, numbers[:] = keyed[:0], coins.numbers(given)
    first, second = np.frombuffer(coins.key, dtype="<u8").astype(np.uint64)
    digest, is_finite = loops.numbers_of_rows(
        values, keyed, others, (first, second), (FIRST, SECOND, MIXER), numbers
    )
    if not is_finite:
        return None
    return Columns(values, numbers, Reading(len(numbers), int(digest)))


def checked_columns(reader: RowReader, given: Batch, first: bool) -> Columns | None:
    """The columns of a batch, checked as `RowReader.checked` does; None as of `columns_of`.

    Raises
    ------
    DomainError
        As `RowReader.checked`.
    """
    found = None if reader.coins is None else columns_of(reader, reader.coins, given)
    if found is None or reader.coins is None:
        return None
    for name in reader.names:
        array = np.asarray(given[name])
        if array.dtype.kind != "f" or name in reader.whole_names:  # others are finite: all is said
            check_numbers(array, name, name in reader.whole_names)
    reader.check_domain(found.rows(reader.names, slice(None)))
    reader.coins.check(given, found.numbers, first)
    return found


def checked_batch(reader: RowReader, given: Batch, first: bool) -> tuple[Reading, Batch | None]:
    """What was read of a batch, and its pilots, if there are coins; refused as by `checked`."""
    found = checked_columns(reader, given, first)
    if found is not None:
        return found.reading, found.pilots(reader)
    batch = reader.checked(given, first)
    return reader.read_of(batch), reader.pilots(batch)


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Weighted sums of a batch of a table.

    Attributes
    ----------
    loops : namespace
    reader : RowReader
    coins : Coins
    terms : callable
        Of a chunk with coins: coins and terms (`weighted_sums.WeightedChunk`).
    sums : WeightedSums
        None of them added yet.
    compiled : CompiledTerms
    places : array of int
        Columns of the covariates, in the order of the score.
    outcome : int
    domain : Domain
        Of the covariates.
    levels : tuple of (int, array)
        Columns of few values with these; of none: columns of whole numbers.
    """

    loops: Any
    reader: RowReader
    coins: Coins
    terms: Any
    sums: WeightedSums
    compiled: CompiledTerms
    places: np.ndarray
    outcome: int
    domain: Domain
    levels: tuple[tuple[int, np.ndarray], ...]

    def __call__(self, given: Batch) -> tuple[Reading, list[list[int]]]:
        """What was read, and sums of the terms of all rows."""
        found = columns_of(self.reader, self.coins, given)
        if found is None:
            batch = self.reader.numbers(given)
            return self.reader.read_of(batch), self._by_records(batch)
        light, values = self.coins.below(found.numbers), found.values
        columns = self._of_covariates(values)
        totals, left = self.compiled.add_up(
            self.loops, columns, values[self.outcome], light, self.domain, self._outside(columns)
        )
        if len(left):
            rest = self._by_records(found.rows(self.reader.names, left))
            totals = [
                [*map(sum, zip(a, b, strict=True))] for a, b in zip(totals, rest, strict=True)
            ]
        return found.reading, totals

    def _of_covariates(self, values: np.ndarray) -> np.ndarray:
        """Columns of covariates; a view where these follow each other."""
        start, end = self.places[0], self.places[0] + len(self.places)
        if np.array_equal(self.places, np.arange(start, end)):
            return values[start:end]
        return values[self.places]

    def _outside(self, columns: np.ndarray) -> np.ndarray | None:
        """Rows with another value in a column of few values, or of whole numbers."""
        found = None
        for place, levels in self.levels:
            column = columns[place]
            known = [column == level for level in levels] or [column == np.rint(column)]
            here = ~np.logical_or.reduce(known)
            found = here if found is None else found | here
        return found

    def _by_records(self, batch: Batch) -> list[list[int]]:
        records = self.reader.records(batch)
        coins = records.pop(COIN)
        return self.sums.of(self.terms((records, coins, len(coins))))

    def added(
        self, batches: Iterable[Batch], told: Callable[[int], None] | None = None
    ) -> tuple[Reading, WeightedSums]:
        """What was read of some batches, and their sums; `told` of rows so far."""
        reading, found = Reading(), self.sums
        found.add([[0] * size for size in self.compiled.sizes])
        for one, totals in each_chunk(self, batches):
            reading += one
            found.add(totals)
            if told is not None:
                told(reading.rows)
        return reading, found


def column_sums(reader: RowReader, terms: Any, sums: WeightedSums) -> ColumnSums | None:
    """Sums by compiled loops; None where none are compiled, or the score has no form for them.

    `terms` are `score_release.WeightedTerms`, or others, which have no such form.
    """
    compiled = getattr(terms, "compiled", lambda _: None)(sums)
    loops = None if compiled is None else COMPILER.of_kind(SUMS)
    if compiled is None or reader.coins is None or loops is None:
        return None
    sources = {c.source.name: c for c in reader.columns}
    covariates = [sources[name] for name in compiled.score.names]
    outcome = [c for c in reader.columns if c not in covariates]
    found = _domain(covariates)
    if found is None or not covariates or len(outcome) != 1 or len(outcome[0].names) != 1:
        return None
    places = [reader.names.index(name) for c in covariates for name in c.names]
    return ColumnSums(
        loops,
        reader,
        reader.coins,
        terms,
        sums,
        compiled,
        np.array(places, dtype=np.int64),
        reader.names.index(outcome[0].names[0]),
        *found,
    )


def _domain(covariates: Sequence[SourceColumns]) -> tuple[Domain, Any] | None:
    """Domains of columns of covariates, those of few values apart; None where there are others."""
    count, start = sum(len(c.names) for c in covariates), 0
    box = np.stack([np.full(count, -np.inf), np.full(count, np.inf)])
    balls, largest = [np.zeros((0, 2, count))], list[float]()
    levels = list[tuple[int, np.ndarray]]()
    for c in covariates:
        domain, columns = c.source.domain, slice(start, start + len(c.names))
        start += len(c.names)
        if not _is_known(c):
            return None
        bounds = domain.bounds(c.source.row_shape)
        if isinstance(domain, Ball) and isinstance(bounds.within, Ellipsoid):
            ball = np.zeros((1, 2, count))
            ball[0, 0, columns] = bounds.within.center
            ball[0, 1, columns] = 1.0 / bounds.within.scale
            is_squared = SQUARED[0] <= domain.radius <= SQUARED[1]
            balls.append(ball)
            largest.append(domain.radius**2 * HELD if is_squared else -1.0)
            continue
        for side, bound in enumerate((bounds.lower, bounds.upper)):
            box[side, columns] = np.broadcast_to(bound, c.source.row_shape).ravel()
        values = np.array(getattr(domain, "values", ()), dtype=float)
        if len(values) or c.source.is_whole:
            levels += [(place, values) for place in range(columns.start, columns.stop)]
    return (box, np.concatenate(balls), np.array(largest, dtype=float)), tuple(levels)


def _is_known(covariate: SourceColumns) -> bool:
    """Whether loops know a covariate: doubles or integers of a domain that they can check."""
    domain, dtype = covariate.source.domain, np.dtype(covariate.source.dtype)
    if dtype.kind != "i" and dtype != np.float64:
        return False
    if isinstance(domain, Categories):
        return len(domain.values) <= MOST_LEVELS
    if dtype.kind == "i":
        most = min(LARGEST_WHOLE, np.iinfo(dtype).max)
        return isinstance(domain, Interval) and _size(domain) <= most
    return isinstance(domain, Interval | Ball)


def _size(domain: Interval) -> float:
    """The largest absolute value in an interval."""
    return float(np.abs(np.concatenate([np.ravel(domain.lower), np.ravel(domain.upper)])).max())
