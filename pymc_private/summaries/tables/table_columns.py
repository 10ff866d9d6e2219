"""Which columns of a table hold the private variables of a model, and rows of them as arrays.

A variable with one number a record is the column of its name. One with several (a matrix of
covariates) is as many columns: those named by the coordinates of its other dim, or those that
``columns=`` gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from pymc_private.errors import DomainError
from pymc_private.models.data_variables import Source
from pymc_private.models.private_model import PrivateModel

COIN = "(coin)"
"""Whether a record is one of the pilots; the name of no column, and of no variable."""
NUMBERS = (int, float, Decimal)
LARGEST_WHOLE = 2**53
"""Beyond it not every integer is a double."""


@dataclass(frozen=True)
class SourceColumns:
    """The columns of one private variable.

    Attributes
    ----------
    source : Source
    names : tuple of str
        One for each number of a record, in the order of its entries.
    """

    source: Source
    names: tuple[str, ...]

    def rows(self, columns: Mapping[str, np.ndarray]) -> np.ndarray:
        """Entries of some records, records along the first axis: (rows, *row_shape)."""
        found = np.stack([columns[name] for name in self.names], axis=-1)
        return found.reshape(len(found), *self.source.row_shape)


def columns_of(private: PrivateModel, given: Mapping[str, Any] | None) -> list[SourceColumns]:
    """The columns of every private variable; reads no data.

    Raises
    ------
    DomainError
        `given` names no variable, or another number of columns than the variable has; a variable
        of several numbers whose columns are not named.
    """
    given = _checked_names(private, given)
    found = [SourceColumns(source, _names(private, source, given)) for source in private.sources]
    if any(COIN in one.names for one in found):
        raise DomainError(
            "a column has a name that is reserved; nothing was charged",
            got=COIN,
            allowed="any other name",
            do="rename it in the table",
        )
    return found


def known_columns(private: PrivateModel, given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of some names that are private variables of a model."""
    known = _known_names(private)
    return {name: columns for name, columns in given.items() if name in known}


def _known_names(private: PrivateModel) -> dict[str, str]:
    """Names of private variables; those of a formula go by their own names, too."""
    return {
        alias: s.name for s in private.sources for alias in (s.name, *s.aliases, _own_name(s.name))
    }


def _checked_names(private: PrivateModel, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was given, by names of variables."""
    if given is not None and not isinstance(given, Mapping):
        raise DomainError(
            "columns= gives the columns of private variables by name",
            got=type(given).__name__,
            allowed="a mapping: columns={'X': ['age', 'income']}",
        )
    given, known = dict(given or {}), _known_names(private)
    if unknown := [name for name in given if name not in known]:
        raise DomainError(
            "columns= names columns of private variables",
            got=", ".join(map(repr, unknown)),
            allowed=", ".join(map(repr, known)),
        )
    return {known[name]: value for name, value in given.items()}


def _own_name(name: str) -> str:
    """The name of a variable in a formula: `x` of ``data[x]``."""
    return name.removeprefix("data[").removesuffix("]") if name.startswith("data[") else name


def _names(private: PrivateModel, source: Source, given: Mapping[str, Any]) -> tuple[str, ...]:
    """The columns of one variable, as many as a record has numbers of it."""
    size = int(np.prod(source.row_shape, dtype=int))
    names = given.get(source.name, _own_name(source.name) if size == 1 else None)
    if names is None:
        names = _coordinates(private, source)
    many = isinstance(names, Iterable) and not isinstance(names, str)
    found = tuple(names) if many else (names,)
    if len(found) == size and all(isinstance(name, str) for name in found):
        return found
    dims = list(private.base.named_vars_to_dims.get(source.name) or ())
    raise DomainError(
        f"'{source.name}' is {size} numbers a record, and so as many columns",
        got="no names of them" if names is None else f"{len(found)}: {found}"[:80],
        allowed=f"columns={{'{source.name}': [{size} names]}}",
        do="or give the model coords with the names of the columns"
        + (f" for the dim '{dims[-1]}'" if len(dims) > 1 else ""),
    )


def _coordinates(private: PrivateModel, source: Source) -> Sequence[str] | None:
    """The coordinates of a matrix's other dim, if they are names."""
    dims = private.base.named_vars_to_dims.get(source.name) or ()
    others = [dim for axis, dim in enumerate(dims) if axis != source.axis]
    labels = private.base.coords.get(others[0]) if len(others) == 1 else None
    return labels if labels is not None and all(isinstance(v, str) for v in labels) else None


def is_missing(values: np.ndarray) -> np.ndarray:
    """Which entries are None, NaN or NaT."""
    if values.dtype.kind in "fmM":
        return np.isnan(values) if values.dtype.kind == "f" else np.isnat(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    from pandas import isna

    try:
        return np.asarray(isna(values))
    except ArithmeticError:  # a decimal that signals NaN
        return np.fromiter(map(_is_none, values), bool, len(values))


def _is_none(value: Any) -> bool:
    """Whether a value is None, NaN, NaT or NA of pandas."""
    from pandas import isna

    return value.is_nan() if isinstance(value, Decimal) else isna(value) is True


def as_numbers(values: np.ndarray) -> np.ndarray:
    """A column as doubles; NaN where it holds no numbers."""
    if values.dtype.kind not in "fiub" and not are_numbers(values):
        return np.full(len(values), np.nan)
    try:
        return np.ascontiguousarray(values, dtype=float)
    except (OverflowError, TypeError, ValueError):  # numbers that no double holds, and missing ones
        return np.array([np.nan if _is_none(v) else as_double(v) for v in values.tolist()])


def as_double(value: Any) -> float:
    """A number as a double; infinite where it is too large, NaN where a decimal signals it."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf
    except ValueError:
        return np.nan


def _are_too_long(values: np.ndarray) -> Any:
    """Integers that are not all doubles, also of decimals, as DuckDB gives a HUGEINT."""
    if values.dtype.kind == "O":
        return any(map(_is_too_long, values))
    return values.dtype.kind in "iu" and (values > LARGEST_WHOLE) | (values < -LARGEST_WHOLE)


def _is_too_long(value: Any) -> bool:
    if isinstance(value, Decimal):
        return (
            value.is_finite() and abs(value) > LARGEST_WHOLE and value == value.to_integral_value()
        )
    return isinstance(value, int) and abs(value) > LARGEST_WHOLE


def are_numbers(values: np.ndarray) -> bool:
    """Whether a column of objects holds numbers alone, or nothing: decimals, say, or pandas' NA."""
    return values.dtype.kind == "O" and all(isinstance(v, NUMBERS) or _is_none(v) for v in values)


def check_numbers(values: np.ndarray, name: str, whole: bool) -> None:
    """Refuse a column that the model cannot read; says neither which rows nor how many.

    Raises
    ------
    DomainError
        Missing or infinite values, other types than numbers, integers that no double holds, or
        fractions where the model has whole numbers.
    """
    if values.dtype.kind not in "fiub" and not are_numbers(values):
        raise DomainError(
            f"the column '{name}' holds no numbers; nothing was charged",
            got="text, or values of several types"
            if values.dtype.kind == "O"
            else str(values.dtype),
            allowed="numbers, as the model's placeholder rows have them",
            do="encode text as the numbers that the model reads; fill or drop missing values. Dask "
            "makes text of decimals unless dask.config.set({'dataframe.convert-string': False})",
        )
    found = as_numbers(values)
    wrong = {
        "integers beyond 2^53": _are_too_long(values),
        "missing or infinite values": ~np.isfinite(found),
        "fractions where the model has whole numbers": whole and found != np.rint(found),
    }
    for what, rows in wrong.items():
        if np.any(rows):
            raise DomainError(
                f"the column '{name}' cannot be summarized; nothing was charged",
                got=what,
                allowed="finite numbers, as the model's placeholder rows have them",
                do="mend them in the table before it is summarized",
            )
