"""Declared columns: what one may hold, categories or bins of a number, before data are seen."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from pymc_private.errors import DomainError
from pymc_private.privacy.argument_kinds import NUMBERS as REAL_NUMBERS
from pymc_private.privacy.rounding import format_count

NUMBERS = (int, float, Decimal, np.number, np.bool_)
LARGEST_WHOLE = 2**53
"""Beyond it not every integer is a double, and engines differ in how they round."""
DECLARE_INSTEAD = (
    "give the categories as a list, or the edges of bins as Bins([...]): from a codebook, the law "
    "or public data; what is learned from these data is not private"
)


@dataclass(frozen=True)
class Bins:
    """A number cut at public edges: ``[-inf, e1], (e1, e2], ..., (em, inf]``.

    Parameters
    ----------
    edges : sequence of float
        Finite and increasing.

    Examples
    --------
    >>> Bins([18, 65]).labels
    ('<= 18', '(18, 65]', '> 65')
    """

    edges: tuple[float, ...]

    def __init__(self, edges: Sequence[float]) -> None:
        values = np.asarray(REAL_NUMBERS.of(edges, "edges", "Bins"), float)
        rises = values.ndim == 1 and len(values) and np.all(np.diff(values) > 0)
        if not rises or not np.isfinite(values).all():
            raise DomainError(
                "the edges of bins are finite and increasing", got=repr(edges)[:80],
                allowed="for example Bins([18, 30, 65])",
            )  # fmt: skip
        object.__setattr__(self, "edges", tuple(values.tolist()))

    @property
    def labels(self) -> tuple[str, ...]:
        """One name for each bin."""
        e = [_edge_text(edge) for edge in self.edges]
        inner = [f"({a}, {b}]" for a, b in itertools.pairwise(e)]
        return (f"<= {e[0]}", *inner, f"> {e[-1]}")


def _edge_text(edge: float) -> str:
    """An edge in few digits where these say it: others would be another edge."""
    short = f"{edge:g}"
    return short if float(short) == edge else repr(edge)


@dataclass(frozen=True)
class DeclaredColumn:
    """One declared column.

    Attributes
    ----------
    name : str
    values : tuple
        Declared categories; labels of the bins where there are edges.
    edges : tuple of float
        Empty for categories.
    """

    name: str
    values: tuple[Any, ...]
    edges: tuple[float, ...] = ()
    _codes: dict[Any, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def size(self) -> int:
        """Number of categories."""
        return len(self.values)

    def encode(self, series: Any) -> np.ndarray:
        """Category number of each entry, -1 for undeclared ones, in the smallest integer type.

        Entries are compared as Python compares them (True is 1, and 1.0 is), as those of other
        engines are; all missing ones are None.
        """
        kind = np.int8 if self.size < 127 else np.int16 if self.size < 32767 else np.int32
        if self.edges:
            return self._bins_of(pd.Series(series)).astype(kind)
        if isinstance(series, pd.Series) and isinstance(series.dtype, pd.CategoricalDtype):
            own = np.array([self.code(value) for value in (*series.cat.categories, None)])
            return np.asarray(own[series.cat.codes.to_numpy()], dtype=kind)
        entries = np.asarray(series)
        plain = entries.ndim == 1 and not np.ma.isMaskedArray(series)
        if plain and entries.dtype.kind in "iu" and self._counts_up:
            codes = entries.astype(kind)
            codes[(entries < 0) | (entries >= self.size)] = -1
            return codes
        places, values = pd.factorize(pd.Series(series))
        own = np.array([self.code(value) for value in (*values.tolist(), None)], dtype=kind)
        return own[places]

    def _bins_of(self, series: pd.Series) -> np.ndarray:
        """The bin of each number; -1 of missing ones. Integers that no double holds are refused."""
        numeric = pd.api.types.is_numeric_dtype(series.dtype)
        entries = None if numeric else series.dropna()
        if entries is not None and not all(isinstance(value, NUMBERS) for value in entries):
            raise no_numbers(self.name)
        whole = series.dropna().to_numpy()
        long = whole.dtype.kind in "iu" and ((whole > LARGEST_WHOLE) | (whole < -LARGEST_WHOLE))
        if whole.dtype.kind == "O":
            long = any(map(_is_too_long, whole))
        if np.any(long):
            raise undeclared_value(self.name)
        numbers = series.to_numpy(float, na_value=np.nan)
        codes = np.searchsorted(self.edges, numbers, side="left")
        codes[np.isnan(numbers)] = -1
        return codes

    @cached_property
    def _counts_up(self) -> bool:
        """Whether the categories are 0, 1, 2, ..., so that values are their own numbers."""
        return self.values == tuple(range(self.size)) and all(type(v) is int for v in self.values)

    def code(self, value: Any) -> int:
        """Category number of a value as an engine returned it; -1 if it was not declared."""
        if self.edges:
            return -1 if value is None or value != value else int(value)
        if not self._codes:
            self._codes.update({v: i for i, v in enumerate(self.values)})
        try:
            return self._codes.get(None if value != value else value, -1)
        except TypeError:  # not hashable
            return -1


def _is_too_long(value: Any) -> bool:
    """Whether a number is an integer, or a decimal, beyond those that are all doubles."""
    if isinstance(value, Decimal):
        return value.is_finite() and abs(value) > LARGEST_WHOLE
    return isinstance(value, int | np.integer) and abs(int(value)) > LARGEST_WHOLE


def declare_column(name: str, spec: Any) -> DeclaredColumn:
    """Read a user's declaration of a column: `Bins`, `Categories`, or a sequence of values."""
    if isinstance(spec, Bins):
        return DeclaredColumn(name, spec.labels, spec.edges)
    values = getattr(spec, "values", spec)
    if isinstance(values, set | frozenset):
        values = sorted(values, key=lambda value: (str(type(value)), value))
    if callable(values) or isinstance(values, str | bytes | int | float | type(None)):
        raise DomainError(
            f"the categories of {name!r} are declared, not learned",
            got=repr(spec)[:60],
            do=DECLARE_INSTEAD,
        )
    try:
        listed = tuple(np.asarray(values).tolist()) if hasattr(values, "dtype") else tuple(values)
        hash(listed)
    except TypeError:
        raise DomainError(
            f"the categories of {name!r} are declared, not learned",
            got=type(spec).__name__,
            do=DECLARE_INSTEAD,
        ) from None
    if len(set(listed)) < len(listed):
        raise DomainError(
            f"the categories of {name!r} are named once each",
            got=f"{len(listed)} values, some of them twice",
            do="take the duplicates out of the list; it is the codebook's, not the column itself",
        )
    if len(listed) < 2:
        raise DomainError(
            f"the column {name!r} has two categories or more",
            got=format_count(len(listed), "value"),
            do="leave a column out that is the same for everybody",
        )
    found = DeclaredColumn(name, listed)
    _refuse_equal_labels(found)
    return found


def _refuse_equal_labels(column: DeclaredColumn) -> None:
    """Refuse categories that a release could not tell apart, and NaN, which equals nothing."""
    labels = [str(value) for value in axis_labels(column)]
    missing = any(value != value for value in column.values)
    if missing or len(set(labels)) < len(labels):
        raise DomainError(
            f"the categories of {column.name!r} have labels of their own in a release",
            got="NaN, which equals nothing" if missing else "1 and '1', or others of one text",
            allowed="values that differ as text; None for missing ones",
            do="declare one of them, and replace the other in the table",
        )


def no_numbers(name: str, do: str | None = None) -> DomainError:
    """The error that a column that is cut into bins holds something else than numbers."""
    return DomainError(
        f"the column {name!r} is cut into bins, so it holds numbers; nothing was charged",
        got="text, dates or other values",
        do=do or "make numbers of them in the table, such as years of dates",
    )


def undeclared_value(name: str) -> DomainError:
    """The error that a column holds an undeclared value, which is not quoted."""
    return DomainError(
        f"the column {name!r} holds a value that was not declared; nothing was charged",
        got="an undeclared or missing value",
        do="declare every category that a record could have, and replace others by one of them "
        '("other", "missing") before; in bins fill missing numbers, and integers beyond 2^53',
    )


def axis_labels(column: DeclaredColumn) -> list[Any]:
    """Labels that can be stored: of one plain type, else text."""
    types = {type(value) for value in column.values}
    plain = types <= {str} or types <= {int} or types <= {float}
    return list(column.values) if plain else [str(value) for value in column.values]
