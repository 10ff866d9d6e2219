"""Checks and sums on the workers of Dask and Spark: parts of a table, one after another.

What goes to a worker is pickled once for all parts, and built once in each process: columns, coins,
and the terms of a score with the model's own graph. What comes back are counts, hashes, the rows of
the pilots, and integer sums. A part that is computed again, since its worker was lost, gives the
same numbers, and each part is counted once; a table that was not read wholly, or a part twice, is
seen by its number of rows and its sum of hashes.

A record's terms must not depend on where they are computed (T30), so every worker says by which
versions, and how its elementary functions round; a worker that differs is refused.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import platform
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from typing import Any

import numpy as np
from scipy import special

from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.summaries.exact_totals import Totals, added_totals
from pymc_private.summaries.tables.column_sums import checked_batch, column_sums
from pymc_private.summaries.tables.table_batches import Batch
from pymc_private.summaries.tables.table_columns import COIN
from pymc_private.summaries.tables.table_progress import Told
from pymc_private.summaries.tables.table_rows import Reading, RowReader, joined
from pymc_private.summaries.term_totals import SentOnce
from pymc_private.summaries.weighted_sums import WeightedSums

PACKAGES = ("numpy", "scipy", "pytensor")
_BUILDING = threading.Lock()
"""Graphs are built, and NumPy's warnings silenced, by one thread of a process at a time."""


def runs_on_workers(table: Any) -> bool:
    """Whether a table's engine has workers that run Python."""
    return hasattr(table, "on_workers")


@cache
def arithmetic() -> str:
    """Versions, machine and a hash of what elementary functions give: equal on all workers."""
    points = np.linspace(-30.0, 30.0, 4096)
    functions = (np.exp, np.sin, np.tanh, np.log1p, np.expm1, special.erfc, special.gammaln)
    digest = hashlib.sha256()
    with np.errstate(all="ignore"):
        for function in functions:
            digest.update(np.ascontiguousarray(function(points)).tobytes())
    known = [f"{name} {version(name)}" for name in PACKAGES]
    known.append(f"pymc_private {import_module('pymc_private').__version__}")  # also from a zip
    return ", ".join([*known, platform.machine(), digest.hexdigest()[:16]])


@dataclass
class CheckedPart:
    """What a worker found in its part of a table.

    Attributes
    ----------
    arithmetic : str
    reading : Reading
    pilots : dict of str to array, or None
    refusal : tuple of str, or None
        Parts of a `DomainError`.
    """

    arithmetic: str = field(default_factory=arithmetic)
    reading: Reading = field(default_factory=Reading)
    pilots: Batch | None = None
    refusal: tuple[Any, ...] | None = None


@dataclass
class SummedPart:
    """Sums of a part of a table: `WeightedSums`, or lists of integers."""

    sums: Any
    reading: Reading
    arithmetic: str = field(default_factory=arithmetic)
    refusal: tuple[Any, ...] | None = None


@dataclass(frozen=True, eq=False)
class CheckPart:
    """The check of a part, before the charge."""

    reader: RowReader

    def __call__(self, batches: Iterable[Batch]) -> CheckedPart:
        """Check and count all rows of some batches."""
        found, pilots = CheckedPart(), []
        try:
            for given in batches:
                reading, chosen = checked_batch(self.reader, given, not found.reading.rows)
                found.reading += reading
                pilots.append(chosen or {})
        except DomainError as error:
            return CheckedPart(refusal=(error.problem, error.got, error.allowed, error.do))
        found.pilots = joined(pilots) if pilots and self.reader.coins is not None else None
        return found


@dataclass(frozen=True, eq=False)
class SumPart:
    """The sums of a part, after the charge.

    Attributes
    ----------
    reader : RowReader
    terms : callable
        Of a chunk with coins: coins and terms (`weighted_sums.WeightedChunk`).
    sums : WeightedSums
        None of them added yet.
    size : int
        Rows in a chunk.
    """

    reader: RowReader
    terms: Callable[[Any], Any]
    sums: WeightedSums
    size: int

    def __call__(self, batches: Iterable[Batch]) -> SummedPart:
        """Add up the terms of all rows of some batches."""
        found, reading = WeightedSums(self.sums.sums, self.sums.weight), Reading()
        work = column_sums(self.reader, self.terms, found)
        if work is not None:
            reading, found = work.added(batches)
            return SummedPart(found, reading)
        for chunk, count, reading in self.reader.chunks(batches, self.size):  # noqa: B007
            coins = chunk.pop(COIN)
            found.added([self.terms((chunk, coins, count))])
        return SummedPart(found, reading)


@dataclass(frozen=True, eq=False)
class TotalPart:
    """Exact totals of a part, after the charge.

    Attributes
    ----------
    reader : RowReader
    work : callable
        Of a chunk and its number of true rows: lists of integers.
    size : int
        Rows in a chunk.
    """

    reader: RowReader
    work: Callable[[Batch, int], Totals]
    size: int

    def __call__(self, batches: Iterable[Batch]) -> SummedPart:
        """Add up the totals of all rows of some batches."""
        reading, totals = Reading(), []
        for chunk, count, reading in self.reader.chunks(batches, self.size):  # noqa: B007
            chunk.pop(COIN, None)
            totals.append(self.work(chunk, count))
            totals = [added_totals(totals)]
        return SummedPart(totals[0], reading)


def results_of_workers(
    table: Any, columns: Sequence[str], work: Any, told: Told | None = None
) -> list[Any]:
    """Results of work on each part of a table, computed where it lies.

    Raises
    ------
    DomainError
        What a worker refused.
    Incompatible
        A worker computes otherwise than this process.
    """
    return results(table.on_workers(columns, packed(work), run_part, told))


def try_on_workers(work: Any) -> None:
    """Do to no rows what workers will do to theirs, with all that is sent to them.

    Raises
    ------
    Unsupported
        It fails; nothing was charged.
    """
    try:
        pickle.loads(run_part(packed(work), ()))
    except Exception as error:
        raise Unsupported(
            "workers cannot compute this of their rows; nothing was charged",
            got=type(error).__name__,
            do="give the table as Parquet files to Polars or DuckDB, which read it in this process",
        ) from error


def run_part(work: bytes, batches: Iterable[Batch]) -> bytes:
    """On a worker: the result for one part of a table, pickled."""
    with _BUILDING:
        return pickle.dumps(_unpacked(work)(batches))


def packed(work: Any) -> bytes:
    """Work as bytes; what it has in common with other work stands beside it (`SentOnce`)."""
    import cloudpickle

    common: SentOnce | None = getattr(getattr(work, "work", None), "common", None)
    if common is None:
        return pickle.dumps((None, bytes(cloudpickle.dumps(work))))

    places = {id(common.value): 0, id(common): 1}

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc, name-defined]
        def persistent_id(self, value: Any) -> int | None:
            return places.get(id(value))

    file = io.BytesIO()
    Pickler(file).dump(work)
    return pickle.dumps((common.packed, file.getvalue()))


@lru_cache(maxsize=1)
def _unpacked(work: bytes) -> Any:
    """What `packed` made bytes of."""
    common, own = pickle.loads(work)

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, pid: int) -> Any:
            return _common(common) if pid == 0 else None

    return Unpickler(io.BytesIO(own)).load()


@lru_cache(maxsize=2)
def _common(common: bytes) -> Any:
    return pickle.loads(common)


def results(parts: Iterable[bytes]) -> list[Any]:
    """In this process: the results of all parts."""
    found = [pickle.loads(part) for part in parts]
    for part in found:
        if part.arithmetic != arithmetic():
            raise Incompatible(
                "workers compute otherwise than this process; nothing was released",
                got=part.arithmetic,
                allowed=arithmetic(),
                do="the same versions on machines of one kind",
            )
        if part.refusal is not None:
            problem, got, allowed, do = part.refusal
            raise DomainError(problem, got=got, allowed=allowed, do=do)
    return found
