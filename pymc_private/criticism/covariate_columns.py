"""Columns of covariates by the names that users know them by.

A covariate with one number in a record is a column of its own name. One with several has the
columns ``X[0]``, ``X[1]``, ...; where its dim has coordinates, ``X[age]`` too, and plain ``age``
where no other column is called so. Variables of a Bambi formula have their own names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_private.errors import DomainError, did_you_mean
from pymc_private.models.bambi import formula_name
from pymc_private.models.data_variables import Source
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.density.record_density import RecordDensity

Rows = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class CovariateColumn:
    """One number of each record.

    Attributes
    ----------
    name : str
        As it is printed.
    rows : str
        Name of the array among the rows of a record density.
    index : tuple of int
        Its place in a record's entry.
    """

    name: str
    rows: str
    index: tuple[int, ...] = ()

    def of(self, rows: Rows) -> np.ndarray:
        """The column of some rows, shape (N,)."""
        found = np.asarray(rows[self.rows], dtype=float)
        for place in self.index:
            found = found[:, place]
        return found


class CovariateColumns:
    """The columns of a model's covariates, private and public.

    Parameters
    ----------
    private : PrivateModel
    density : RecordDensity
    """

    def __init__(self, private: PrivateModel, density: RecordDensity) -> None:
        arrays = [_private_array(private, s) for s in density.covariates]
        arrays += _public_arrays(private, density)
        found = [column for array in arrays for column in array.columns()]
        labels = Counter(label for _, label in found if label)
        self.known = {column.name: column for column, _ in found}
        for array in arrays:
            self.known |= array.numbered()
        for column, label in found:
            if label and labels[label] == 1:
                self.known.setdefault(label, column)

    def named(self, name: str) -> CovariateColumn:
        """The column of a name.

        Raises
        ------
        DomainError
            There is none.
        """
        plain = name.replace("'", "").replace('"', "").replace(" ", "")
        for known, column in self.known.items():
            if known.replace(" ", "") == plain:
                return column
        hint = did_you_mean(name, self.known) if self.known else ""
        raise DomainError(
            f"no covariate is called so; nothing was charged{hint}",
            got=name,
            allowed=", ".join(self.known) or "none: this model has no covariates",
            do="name a column as in 'quadratic(X[0])'",
        )


@dataclass(frozen=True)
class _NamedArray:
    """An array of covariates: names for users and among rows, shape and labels of an entry."""

    name: str
    rows: str
    shape: tuple[int, ...]
    labels: tuple[tuple[str, ...], ...]

    def columns(self) -> Iterator[tuple[CovariateColumn, str]]:
        """All columns under the names that are printed, each with its label."""
        for index in np.ndindex(*self.shape):
            labels = [names[k] for names, k in zip(self.labels, index, strict=True)]
            inside = ", ".join(labels)
            name = f"{self.name}[{inside}]" if index else self.name
            plain = tuple(map(int, index))
            yield CovariateColumn(name, self.rows, plain), inside if index else ""

    def numbered(self) -> dict[str, CovariateColumn]:
        """All columns by their place."""
        found = {}
        for (column, _), index in zip(self.columns(), np.ndindex(*self.shape), strict=True):
            inside = ", ".join(map(str, index))
            found[f"{self.name}[{inside}]" if index else self.name] = column
        return found


def _private_array(private: PrivateModel, source: Source) -> _NamedArray:
    labels = _labels(private, source.name, source.axis, source.row_shape)
    return _NamedArray(_printed(source.name), source.name, source.row_shape, labels)


def _public_arrays(private: PrivateModel, density: RecordDensity) -> list[_NamedArray]:
    """Public arrays with one entry for each record that are data variables of the model."""
    found = []
    hidden = {name for s in private.sources for name in (s.name, *s.aliases)}
    # Values of private variables are not read: whether one equals a public one is private.
    public = [v for v in private.base.data_vars if v.name not in hidden]
    for rows, values in density.public_rows.items():
        for variable in public:
            known = np.asarray(variable.get_value())
            if known.shape == values.shape and np.array_equal(known, values):
                labels = _labels(private, variable.name, 0, values.shape[1:])
                name = _printed(str(variable.name))
                found.append(_NamedArray(name, rows, values.shape[1:], labels))
                break
    return found


def _printed(name: str) -> str:
    return formula_name(name) or name


def _labels(
    private: PrivateModel, name: str, axis: int, shape: tuple[int, ...]
) -> tuple[tuple[str, ...], ...]:
    """Labels along each axis of a record's entry: coordinates, else numbers."""
    base: Any = private.base
    dims = list(base.named_vars_to_dims.get(name, ()))
    del dims[axis : axis + 1]
    found = []
    for k, size in enumerate(shape):
        labels = base.coords.get(dims[k]) if k < len(dims) else None
        found.append(tuple(map(str, labels if labels is not None else range(size))))
    return tuple(found)
