"""A column of text as the bytes of its entries: hashed, and read as numbers, by NumPy alone.

Engines hold text as UTF-8 in one buffer. Eight bytes of it are a word, and a loop over the words of
entries takes all entries at once; of an object for each entry both passes over a table would
take longer than all else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

from pymc_private.summaries.tables.mixing import mixed

WORD = 8
MOST_WORDS = 32
"""Longer entries are hashed one by one: a loop over the words of one of them costs as much."""
DIGITS = 16
"""Whole numbers of so many digits are integers of 64 bits, which NumPy rounds to doubles as Python
rounds text."""
MOST_BLANKS = 4
MOST_LOOKED_AT = 40
"""Bytes after which text that may be a number is taken for one that may be."""
SHORTEST_TIME, SHORTEST_BASIC = 7, 11
INFINITE = (3, 8)
"""Lengths of "inf" and "infinity"."""
U64 = np.uint64
ONES, HIGH, ZEROS = U64(0x0101010101010101), U64(0x8080808080808080), U64(0x3030303030303030)
FIRST_BYTES = np.array([(1 << 8 * k) - 1 for k in range(WORD + 1)], dtype=np.uint64)
LAST_BYTES = ~FIRST_BYTES[::-1]


def _among(characters: bytes) -> np.ndarray:
    """Whether a byte is one of some."""
    found = np.zeros(256, dtype=bool)
    found[list(characters)] = True
    return found


BLANK = _among(b"\t\n\v\f\r\x1c\x1d\x1e\x1f ")
DIGIT, SIGN, EXPONENT = _among(b"0123456789"), _among(b"+-"), _among(b"eE")
BEGINS = DIGIT | SIGN | BLANK | _among(b".iI")
"""How text begins that may be a number or a time."""
OF_NUMBERS = DIGIT | SIGN | EXPONENT | BLANK | _among(b"._") | (np.arange(256) >= 128)
"""Bytes that Python reads in a number, which may have digits of other scripts."""


@dataclass(frozen=True, eq=False)
class Texts:
    """Entries of a column of text, none of them missing.

    Attributes
    ----------
    data : array of uint8
        UTF-8, with two words before the first entry and after the last.
    starts, ends : array of int
        Places of the entries.
    """

    data: np.ndarray
    starts: np.ndarray
    ends: np.ndarray

    @classmethod
    def of_any(cls, values: Sequence[Any]) -> Texts | None:
        """Those of some strings; None if others are among them."""
        try:
            return cls.of(values)
        except AttributeError:
            return None

    @classmethod
    def of(cls, values: Iterable[str]) -> Texts:
        """Those of some strings."""
        encoded = [value.encode("utf-8", "surrogatepass") for value in values]
        lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        return cls._of_bytes(np.frombuffer(b"".join(encoded), np.uint8), offsets)

    @classmethod
    def of_arrow(cls, column: Any) -> Texts | None:
        """Those of an array of PyArrow; None of other types, and where some are missing."""
        pa = import_module("pyarrow")
        kind = column.type
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if not is_text and not getattr(pa.types, "is_string_view", lambda _: False)(kind):
            return None
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()  # of older versions of PyArrow still in chunks
        if column.null_count or isinstance(column, pa.ChunkedArray):
            return None
        column = column.cast(pa.large_string())
        _, offsets, data = column.buffers()
        if not len(column):
            return cls.of([])
        places = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        data = b"" if data is None else data
        return cls._of_bytes(np.frombuffer(data, np.uint8)[places[0] : places[-1]], places)

    @classmethod
    def _of_bytes(cls, data: np.ndarray, offsets: np.ndarray) -> Texts:
        room = 2 * WORD
        padded = np.zeros(room + WORD * -(-len(data) // WORD) + room, dtype=np.uint8)
        padded[room : room + len(data)] = data
        places = offsets - offsets[0] + room
        return cls(padded, places[:-1], places[1:])

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.starts)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Strings, an object for each."""
        found = np.empty(len(self), dtype=object)
        found[:] = self.strings()
        return found if dtype is None else found.astype(dtype)

    def strings(self, rows: np.ndarray | slice = slice(None)) -> list[str]:
        """Some entries."""
        data = self.data.tobytes()
        places = zip(self.starts[rows].tolist(), self.ends[rows].tolist(), strict=True)
        return [data[start:end].decode("utf-8", "surrogatepass") for start, end in places]

    @cached_property
    def _words(self) -> np.ndarray:
        return self.data.view("<u8").astype(np.uint64, copy=False)

    def _word(self, places: np.ndarray) -> np.ndarray:
        """The eight bytes from each of some places on, the first of them lowest."""
        at, shift = places >> 3, (places & 7).astype(np.uint64) << U64(3)
        above = (self._words[at + 1] << U64(1)) << (U64(63) - shift)  # no shift is of 64 bits
        return (self._words[at] >> shift) | above

    def hashes(self, key: bytes) -> np.ndarray:
        """A hash of each entry with a key of 16 bytes, uint64."""
        first, second = np.frombuffer(key, dtype="<u8").astype(np.uint64)
        lengths = self.ends - self.starts
        found = mixed(second ^ mixed(first ^ lengths.astype(np.uint64)))
        most = int(lengths.max(initial=1))  # the first word of an entry of none counts, too
        for k in range(min(-(-most // WORD), MOST_WORDS)):
            rows = slice(None) if k == 0 else np.flatnonzero(lengths > k * WORD)
            places = self.starts[rows] + k * WORD
            kept = FIRST_BYTES[np.clip(self.ends[rows] - places, 0, WORD)]
            found[rows] = mixed(found[rows] ^ (self._word(places) & kept))
        for row in np.flatnonzero(lengths > MOST_WORDS * WORD):
            found[row] = _long_hash(self.data[self.starts[row] : self.ends[row]].tobytes(), key)
        return found

    def trimmed(self) -> Texts:
        """Entries without blanks at their ends, up to a few."""
        starts, ends = self.starts, self.ends
        for _ in range(MOST_BLANKS):
            before = BLANK[self.data[starts]] & (starts < ends)
            after = BLANK[self.data[ends - 1]] & (starts + before < ends)
            if not (before.any() or after.any()):
                break
            starts, ends = starts + before, ends - after
        return Texts(self.data, starts, ends)

    def chosen(self, rows: np.ndarray) -> Texts:
        """Some entries, of the same bytes."""
        return Texts(self.data, self.starts[rows], self.ends[rows])

    def whole_numbers(self) -> tuple[np.ndarray, np.ndarray]:
        """Which entries are digits alone, up to 16 of them, and their doubles."""
        lengths = self.ends - self.starts
        low, is_low = self._eight_digits(self.ends - WORD, lengths)
        high, is_high = self._eight_digits(self.ends - 2 * WORD, lengths - WORD)
        is_whole = is_low & is_high & (lengths > 0) & (lengths <= DIGITS)
        return is_whole, (high * U64(10**8) + low).astype(float)

    def _eight_digits(self, places: np.ndarray, lengths: np.ndarray) -> tuple[Any, Any]:
        """The number that the last of eight bytes are, so many of them, and whether they are."""
        kept = LAST_BYTES[np.clip(lengths, 0, WORD)]
        digits = ((self._word(places) & kept) | (ZEROS & ~kept)) ^ ZEROS
        is_one = (((digits + U64(0x76) * ONES) | digits) & HIGH) == 0
        digits = (digits * U64(10 * 2**8 + 1)) >> U64(8) & U64(0x00FF00FF00FF00FF)
        digits = (digits * U64(100 * 2**16 + 1)) >> U64(16) & U64(0x0000FFFF0000FFFF)
        return (digits * U64(10**4 * 2**32 + 1)) >> U64(32), is_one

    def may_be_numbers(self) -> np.ndarray:
        """Which entries Python might read as a number; of all others it reads none."""
        first, second = self.data[self.starts], self.data[self.starts + 1]
        lengths = self.ends - self.starts
        is_word = np.isin(lengths, INFINITE) & np.isin(first, list(b"iI"))
        is_word |= SIGN[first] & np.isin(second, list(b"iInN"))
        found = (DIGIT | SIGN | _among(b"."))[first]
        left = np.flatnonzero(found)
        for k in range(1, min(int(lengths.max(initial=0)), MOST_LOOKED_AT)):
            places = self.starts[left] + k
            this, before = self.data[places], self.data[places - 1]
            fits = OF_NUMBERS[this] & (~SIGN[this] | EXPONENT[before])
            fits |= places >= self.ends[left]
            found[left[~fits]] = False
            left = left[fits & (lengths[left] > k + 1)]
            if not len(left):
                break
        return found | is_word | BLANK[first]

    def may_be_times(self) -> np.ndarray:
        """Which entries may be a time of ISO 8601 as Python reads it; no others are."""
        lengths = self.ends - self.starts
        byte = [self.data[np.minimum(self.starts + k, len(self.data) - 1)] for k in range(WORD)]
        is_digit = [DIGIT[one] for one in byte]
        days = (byte[4] == ord("-")) & ((byte[7] == ord("-")) | (byte[5] == ord("W")))
        basic = np.logical_and.reduce(is_digit[4:]) & (lengths >= SHORTEST_BASIC)
        basic &= (byte[4] <= ord("1")) & (byte[6] <= ord("3"))  # of a month and of a day
        found = np.logical_and.reduce(is_digit[:4]) & (days | (byte[4] == ord("W")) | basic)
        return found & (lengths >= SHORTEST_TIME)


def _long_hash(entry: bytes, key: bytes) -> np.uint64:
    """Of an entry of many words."""
    from hashlib import blake2b

    return np.uint64(int.from_bytes(blake2b(entry, digest_size=8, key=key).digest(), "little"))
