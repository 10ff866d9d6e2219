"""Coins of rows: numbers that are functions of a row's unit and a key alone (T37).

A row is one of the pilots if its number is small. Whatever a unit and the key give, the release is
mu-GDP; that the numbers look random, whatever the model reads of the rows, makes the pilots a
sample of them. No number may depend on the place of a row: engines give rows in any order.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from math import isfinite
from typing import Any

import numpy as np

from pymc_private.counts.rows_of_units import missing_units
from pymc_private.errors import DomainError
from pymc_private.summaries.compiled.compiler import COMPILER
from pymc_private.summaries.scores.pilot_part import COIN_BITS
from pymc_private.summaries.tables.mixing import MIXER, fold, mixed
from pymc_private.summaries.tables.table_batches import Batch
from pymc_private.summaries.tables.table_columns import (
    NUMBERS,
    as_double,
    as_numbers,
    is_missing,
)
from pymc_private.summaries.tables.table_texts import BEGINS, Texts

KEY_BYTES = 16
TIMES = "mM"
NUMBERS_BEGIN = set("0123456789+-.iI")
"""How text begins that may be a number, infinity too, or a time."""
BLANKS = "\t\n\v\f\r\x1c\x1d\x1e\x1f "
"""That engines may strip from numbers."""
READERS: tuple[Callable[[str], Any], ...] = (float, datetime.fromisoformat)


def draw_key() -> bytes:
    """A key from the operating system. It is not stored; T37 does not need it to be secret."""
    return secrets.token_bytes(KEY_BYTES)


@dataclass(frozen=True)
class Coins:
    """What makes the coin of a row.

    Attributes
    ----------
    columns : tuple of str
        The unit's column, or those of the covariates.
    threshold : int
        A row is one of the pilots if the highest 16 bits of its number are below it.
    of_units : bool
        Whether there is a column of units.
    key : bytes
        16 of them.
    """

    columns: tuple[str, ...]
    threshold: int
    of_units: bool = True
    key: bytes = field(default_factory=draw_key, repr=False)

    def numbers(self, batch: Batch) -> np.ndarray:
        """The number of each row, uint64."""
        first, second = np.frombuffer(self.key, dtype="<u8").astype(np.uint64)
        start = np.full(len(batch[self.columns[0]]), first)
        bits = (_bits(batch[name], self.key) for name in self.columns)
        return mixed(mixed(folded(start, bits)) ^ second)

    def check(self, batch: Batch, numbers: np.ndarray, first: bool) -> None:
        """Refuse rows without a unit, and in the first batch covariates that make no coins."""
        if self.of_units:
            refuse_missing_units(batch[self.columns[0]], self.columns[0])
        elif first:
            refuse_few_distinct(numbers, self.columns)

    def below(self, numbers: np.ndarray) -> np.ndarray:
        """Which rows are pilots."""
        return np.asarray(numbers >> np.uint64(64 - COIN_BITS) < np.uint64(self.threshold))


def drawn_coins(count: int, threshold: int, rng: np.random.Generator | None = None) -> np.ndarray:
    """Which records in memory are pilots: by random bits of their own, that nobody else reads.

    They come from the operating system unless a seeded generator is given. A bit string that is
    drawn for a record depends neither on what it holds nor on other records, and stays with it
    however it is replaced; it is forgotten with the release.
    """
    given = secrets.token_bytes if rng is None else rng.bytes
    return np.frombuffer(given(2 * count), dtype="<u2") < threshold


def place_coins(count: int, threshold: int) -> np.ndarray:
    """Which of some made-up records, that keep their places, are pilots."""
    coins = Coins(("place",), threshold, key=bytes(range(KEY_BYTES)))
    return coins.below(coins.numbers({"place": np.arange(count)}))


def folded(start: np.ndarray, columns: Iterable[np.ndarray]) -> np.ndarray:
    """Hashes of rows, uint64, that begin with some and take in columns of 64 bits."""
    found, loops = start, COMPILER.loops
    for column in columns:
        bits = np.ascontiguousarray(column).view(np.uint64)
        if loops is None:
            found = fold(found, bits)
        else:
            found = found.copy() if found is start else found
            loops.fold_column(found, bits, MIXER)
    return found


def _bits(given: np.ndarray | Texts, key: bytes) -> np.ndarray:
    """A column as 64 bits for each entry, the same whatever type an engine gives it.

    An entry's bits are those of its own value, whatever other entries are: in a column of several
    types too, and in one of text, which one record may make of a column of numbers or times.
    """
    if isinstance(given, Texts):
        return _bits_of_texts(given, key)
    values = np.asarray(given)
    if values.dtype.kind in TIMES:
        unit = "datetime64[us]" if values.dtype.kind == "M" else "timedelta64[us]"
        return values.astype(unit).view(np.uint64)
    numbers = as_numbers(values) + 0.0
    if np.isfinite(numbers).all():  # else infinite ones would be read otherwise beside text
        return numbers.view(np.uint64)
    texts = None if values.dtype.kind not in "OUT" else Texts.of_any(values.tolist())
    return _bits_of_entries(values.tolist(), key) if texts is None else _bits_of_texts(texts, key)


def _bits_of_texts(texts: Texts, key: bytes) -> np.ndarray:
    """Hashes of text; the bits of the number or time that it is.

    Whole numbers are read all at once, and what looks like another number or a time one by one.
    """
    found = texts.hashes(key)
    rows = np.flatnonzero(BEGINS[texts.data[texts.starts]] & (texts.starts < texts.ends))
    if not len(rows):
        return found
    some = texts.chosen(rows).trimmed()
    is_whole, numbers = some.whole_numbers()
    found[rows[is_whole]] = numbers[is_whole].view(np.uint64)
    rest = np.flatnonzero(~is_whole)
    some = some.chosen(rest)
    other = some.may_be_numbers() | some.may_be_times()
    if other.any():
        left = rows[rest[other]]
        found[left] = _bits_of_entries(texts.strings(left), key)
    return found


def _bits_of_entries(values: Sequence[Any], key: bytes) -> np.ndarray:
    """Bits of entries one by one, of any types."""
    read = [_read(value) for value in values]
    kinds = np.array([_kind(value) for value in read])
    entries = np.empty(len(read), dtype=object)
    entries[:] = read
    found = np.empty(len(values), dtype=np.uint64)
    for kind in set(kinds.tolist()):
        found[kinds == kind] = _bits_of_kind(entries[kinds == kind], kind, key)
    return found


def _read(value: Any) -> Any:
    """A value; of text that is a number or a time that, and of a number that is no double its text.

    Blanks around either do not count. Times with a zone as those of UTC.
    """
    if isinstance(value, str) and (text := value.strip(BLANKS))[:1] in NUMBERS_BEGIN:
        for reader in READERS:
            try:
                value = reader(text)
                break
            except ValueError:
                continue
    if isinstance(value, (*NUMBERS, np.floating)) and not isfinite(as_double(value)):
        return str(value)
    if isinstance(value, datetime) and (ahead := value.utcoffset()) is not None:
        return np.datetime64(value.replace(tzinfo=None), "us") - np.timedelta64(ahead, "us")
    return value


def _kind(value: Any) -> str:
    """Number, time, duration or text, as a letter of NumPy."""
    if isinstance(value, (*NUMBERS, np.number, np.bool_)):
        return "f"
    if isinstance(value, date | np.datetime64):
        return "M"
    return "m" if isinstance(value, timedelta | np.timedelta64) else "U"


def _bits_of_kind(values: np.ndarray, kind: str, key: bytes) -> np.ndarray:
    if kind == "f":
        return (np.array([float(value) for value in values]) + 0.0).view(np.uint64)
    if kind in TIMES:
        unit = "datetime64[us]" if kind == "M" else "timedelta64[us]"
        return np.array([np.array(value, dtype=unit) for value in values]).view(np.uint64)
    return Texts.of([str(value) for value in values]).hashes(key)


def refuse_missing_units(values: np.ndarray | Texts, unit: str) -> None:
    """Refuse rows without a unit.

    Raises
    ------
    DomainError
        None, NaN or NaT in the column of units.
    """
    if not isinstance(values, Texts) and is_missing(np.asarray(values)).any():
        raise missing_units(unit)


LEAST_DISTINCT = 0.9
"""Share of distinct rows below which covariates make no coins."""


def refuse_few_distinct(numbers: np.ndarray, columns: Sequence[str]) -> None:
    """Refuse coins of covariates that many rows have in common.

    Raises
    ------
    DomainError
        All rows with the same covariates would be pilots, or none of them.
    """
    distinct = 1 + np.count_nonzero(np.diff(np.sort(numbers)))
    if len(numbers) and distinct < LEAST_DISTINCT * len(numbers):
        raise DomainError(
            "rows of a large table are told apart by their units; nothing was charged",
            got=f"no id=, and many rows with equal {', '.join(map(repr, columns))}"[:200],
            allowed="id='the column that names persons', or covariates that are rarely equal",
            do="pass id=; a column of row numbers that stay with their rows serves, too",
        )
