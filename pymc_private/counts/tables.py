"""Families of tables: one record is counted in one cell of each family.

A family is one array of counts. Its last axis is a simplex; the others tell the tables of the
family apart (the classes of naive Bayes, the parents' values of a node in a network).
"""

from __future__ import annotations

import warnings
import numpy as np
import xarray as xr
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from pymc_private.errors import DomainError, Incompatible, PrivacyWarning
from pymc_private.privacy.validation import refuse_mask
from pymc_private.privacy.neighbors__neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.validation__texts import storable

SAME_TOTAL = 1e-9


@dataclass(frozen=True)
class Family:
    """What is public of one family: its name, its shape, and how its axes are called.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dims : tuple of str
        Axes of several families that have one name count the same attribute.
    labels : tuple of (str, tuple)
        Declared labels of the axes that have some.
    named : bool
        Whether the names of the axes were given, and so tell attributes.
    """

    name: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    labels: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    named: bool = False

    @property
    def variable(self) -> str:
        """Name of its probabilities in a release: an axis may have taken its own."""
        return f"p_{self.name}" if self.name in self.dims else self.name

    @property
    def cells(self) -> int:
        """Cells of each table."""
        return self.shape[-1]

    @property
    def tables(self) -> int:
        """Tables of the family."""
        return int(np.prod(self.shape[:-1]))

    @property
    def coords(self) -> dict[str, np.ndarray]:
        """Labels of the axes."""
        found = {dim: np.arange(size) for dim, size in zip(self.dims, self.shape, strict=True)}
        return found | {dim: np.asarray(labels) for dim, labels in self.labels}


@dataclass(frozen=True)
class Tables:
    """Counts and what is public of them.

    Attributes
    ----------
    families : tuple of Family
    counts : mapping of str to array
        Private.
    """

    families: tuple[Family, ...]
    counts: Mapping[str, np.ndarray] = field(repr=False)

    @property
    def total(self) -> float:
        """Records counted; public under substitution only."""
        return float(self.counts[self.families[0].name].sum())


def tables_of(counts: Any) -> Tables:
    """Take counts as a user has them.

    Parameters
    ----------
    counts : array, DataArray, Series, DataFrame, or mapping of names to these
        Each shape (..., d): counts >= 0, real numbers allowed.

    Raises
    ------
    DomainError
        No tables, one category only, or numbers that are no counts.
    Incompatible
        Two families call different axes by one name.
    """
    named = counts if isinstance(counts, Mapping) else {_name(counts): counts}
    if not named:
        raise DomainError("there are no tables of counts", got="an empty mapping")
    for name in named:
        storable(str(name), "the name of a table of counts")
    pairs = [_family(str(name), table) for name, table in named.items()]
    families = tuple(family for family, _ in pairs)
    _agree(families)
    return Tables(families, {family.name: array for family, array in pairs})


def counted(
    counts: Mapping[str, np.ndarray], dims: Mapping[str, tuple[str, ...]],
    labels: Mapping[str, Sequence[Any]],
) -> Tables:  # fmt: skip
    """Take counts that were made here, of columns whose labels were declared: see `tables_of`."""
    families = tuple(
        Family(name, counts[name].shape, axes, tuple((a, tuple(labels[a])) for a in axes), True)
        for name, axes in dims.items()
    )
    _agree(families)
    return Tables(families, dict(counts))


def at_least(tables: Tables, minimum: float) -> None:
    """Refuse counts below what was declared of every data set: the price rests on it (T9).

    Raises
    ------
    DomainError
        There are some; which, is not told.
    """
    if any((array < minimum).any() for array in tables.counts.values()):
        raise DomainError(
            f"minimum={minimum:g} was declared of every count in every data set",
            got="a smaller count",
            do="declare only what is public knowledge, or leave minimum= out",
        )


def same_total(tables: Tables) -> float:
    """Give the public number of records.

    Raises
    ------
    DomainError
        Families count different numbers of records, or none.
    """
    totals = [float(array.sum()) for array in tables.counts.values()]
    if max(totals) - min(totals) > SAME_TOTAL * max(totals):
        raise DomainError(
            "every family counts every record once, so their totals are one number",
            got="different totals",
            do="make one table of groups that have no record in common, with a row for each: "
            "[[412, 88], [371, 129]]; count each record in each family; or price families apart, "
            "one call for each",
        )
    if not totals[0] > 0.0:
        raise DomainError(
            "no records were counted",
            got="a total of 0",
            do='count some, or protect their number too: neighbors="add_remove"',
        )
    return totals[0]


def check_relation(neighbors: str, unit: str) -> None:
    """Refuse what tables of counts are not priced for.

    Raises
    ------
    DomainError
        It is not one record that is replaced or added, or one attribute that is replaced.
    """
    if neighbors not in (SUBSTITUTE, ADD_REMOVE):
        raise DomainError(
            "tables of counts are priced for one record",
            got=f"neighbors={neighbors!r}",
            allowed=f"{SUBSTITUTE}, {ADD_REMOVE}",
        )
    if unit == "attribute" and neighbors != SUBSTITUTE:
        raise DomainError(
            "an attribute is replaced, not added", got=neighbors, allowed='neighbors="substitute"'
        )


def most_touched(families: Sequence[Family], unit: str) -> int:
    """Most families that one change of the data reaches (T11).

    A changed row reaches all of them. A changed attribute reaches those with an axis of its name:
    of naive Bayes a feature its own, the class all.

    Raises
    ------
    DomainError
        No such unit, or axes without names.
    """
    if unit == "row":
        return len(families)
    if unit != "attribute":
        raise DomainError("unit=", got=repr(unit), allowed='"row" or "attribute"')
    unnamed = [f.name for f in families if not f.named and (len(f.shape) > 1 or len(families) > 1)]
    if unnamed:
        raise DomainError(
            "which attributes a table counts is told by the names of its axes",
            got=f"no names for {', '.join(unnamed)}",
            do="pass xarray.DataArray with dims=",
        )
    dims = [set(f.dims) if f.named else {f.name} for f in families]
    return max(sum(dim in other for other in dims) for dim in set().union(*dims))


def _name(counts: Any) -> str:
    name = getattr(counts, "name", None)
    return str(name) if isinstance(name, str) and name else "p"


def _family(name: str, table: Any) -> tuple[Family, np.ndarray]:
    _warn_of_ranks(table)
    refuse_mask(table, f"the counts of {name!r}")
    array = xr.DataArray(table) if _is_frame(table) else table
    given = isinstance(array, xr.DataArray)
    values = _as_array(name, array)
    _are_numbers(name, table, values)
    values = values.astype(float)
    if values.size == 0 or values.shape[-1] < 2:
        raise DomainError(
            f"a table of {name!r} has one cell or none: its probability is 1 whatever the data",
            got=f"shape {values.shape}",
            allowed="two categories or more along the last axis",
        )
    if not np.isfinite(values).all() or (values < 0.0).any():
        raise DomainError(
            f"the counts of {name!r} are finite and not negative", got="NaN, inf or negative counts"
        )
    dims = tuple(f"{name}_dim_{i}" for i in range(values.ndim))
    labels: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    if given:
        names = tuple(map(str, array.dims))
        own = not any(dim.startswith("dim_") for dim in names)
        dims = names if own else dims
        labels = tuple((str(d), tuple(array.coords[d].values.tolist())) for d in array.dims
                       if d in array.coords) if own else ()  # fmt: skip
        given = own
    if {"chain", "draw"} & set(dims) or len(set(dims)) < len(dims):
        raise DomainError("axes have names of their own", got=", ".join(dims))
    return Family(name, values.shape, dims, labels, given), values


def _as_array(name: str, table: Any) -> np.ndarray:
    try:
        return np.asarray(table)
    except ValueError:  # whose words may hold a count
        problem = f"the rows of the table of {name!r} have unequal lengths"
    raise DomainError(
        problem,
        got=type(table).__name__,
        allowed="as many categories in every row",
        do="fill absent cells with 0, or make a family of each row",
    )


def _are_numbers(name: str, table: Any, values: np.ndarray) -> None:
    plain = values.dtype.kind in "iufb"
    if values.ndim == 0:
        raise DomainError(
            f"the counts of {name!r} are a list, one number for each category",
            got="a single number" if plain else type(table).__name__,
            allowed='a list of counts, or {family: counts}: [1, 2] or {"age": [1, 2]}',
        )
    if not plain:
        whole = values.size and all(isinstance(value, int) for value in values.ravel())
        got = "whole numbers of more than 64 bits" if whole else f"dtype {values.dtype}"
        raise DomainError(f"the counts of {name!r} are numbers", got=got)


def _is_frame(table: Any) -> bool:
    return type(table).__module__.startswith("pandas")


def _warn_of_ranks(table: Any) -> None:
    """Warn of pandas' value_counts: it lists what occurs, the most frequent first."""
    counted = _is_frame(table) and getattr(table, "name", None) in ("count", "proportion")
    if not counted or hasattr(table.index, "categories") or not table.is_monotonic_decreasing:
        return
    warnings.warn(
        "the cells come in the order of their counts, as value_counts() lists them, and labels "
        "leave with a release: which categories occur, and their ranks, would be told for free; "
        "take counts.reindex(declared, fill_value=0)",
        PrivacyWarning,
        stacklevel=5,
    )


def _agree(families: Sequence[Family]) -> None:
    known: dict[str, list[Any]] = {}
    for family in families:
        for dim, labels in family.coords.items():
            if known.setdefault(dim, labels.tolist()) != labels.tolist():
                raise Incompatible(
                    "an axis of two families has one name and different categories", got=dim
                )
    clash = {f.variable for f in families} & set(known)
    if clash or len({f.variable for f in families}) < len(families):
        raise Incompatible(
            "a family and an axis, or two families, have one name",
            got=", ".join(sorted(clash)),
            do="rename the family, for example p_age for the table of age",
        )
