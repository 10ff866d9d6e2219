"""Families of count tables, and integer noise on them.

A family is one array of counts. Its last axis is a simplex; the other axes index the tables of
the family (the classes of naive Bayes, the parents' values of a node in a network). A record
is counted in one cell of each family, so a change of one record reaches every family once
(T11).

Noise is sampled by OpenDP: exact discrete Gaussian and Laplace samplers on system entropy. No
other module imports OpenDP.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from pymc_private.errors import DomainError, Incompatible, PrivacyWarning
from pymc_private.privacy.neighbors import ADD_REMOVE, SUBSTITUTE
from pymc_private.privacy.noisy_counts import DISCRETE_GAUSSIAN, DISCRETE_LAPLACE
from pymc_private.privacy.validation import check_storable_text, refuse_mask

TOTAL_TOLERANCE = 1e-9
"""Relative difference up to which totals of families are the same."""
MAX_EXACT_INTEGER = 2**53
"""From here on not every integer is a double."""


@dataclass(frozen=True)
class CountFamily:
    """What is public of one family: its name, its shape, and its axes.

    Attributes
    ----------
    name : str
    shape : tuple of int
    dims : tuple of str
        Axes of several families that have one name count the same attribute.
    labels : tuple of (str, tuple)
        Declared labels of the axes that have some.
    named : bool
        Whether the names of the axes were given, and so identify attributes.
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


class LaterCounts(Mapping[str, np.ndarray]):
    """Counts of a table that are counted when one of them is first asked for.

    Parameters
    ----------
    names : sequence of str
        Of the families.
    count : callable
        Counts, or refuses.
    """

    def __init__(self, names: Sequence[str], count: Callable[[], Mapping[str, np.ndarray]]) -> None:
        self._names, self._count = tuple(names), count

    @cached_property
    def _found(self) -> Mapping[str, np.ndarray]:
        return self._count()

    def __getitem__(self, name: str) -> np.ndarray:
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@dataclass(frozen=True)
class CountTables:
    """Private counts, and their families, which are public.

    Attributes
    ----------
    families : tuple of CountFamily
    counts : mapping of str to array
        Private.
    rows : int or None
        Public number of records of a table that is counted later.
    unit : str or None
        The column of that table that names units: whose rows were counted.
    """

    families: tuple[CountFamily, ...]
    counts: Mapping[str, np.ndarray] = field(repr=False)
    rows: int | None = None
    unit: str | None = None

    @property
    def counted_later(self) -> bool:
        """Whether whole numbers will be counted once the ledger has been asked."""
        return isinstance(self.counts, LaterCounts)

    @property
    def total(self) -> float:
        """Records counted; public under substitution only."""
        return float(self.counts[self.families[0].name].sum())


def as_tables(counts: Any) -> CountTables:
    """Read counts as a user passes them: an array, Series or DataArray, or a mapping of these.

    Each has shape (..., d) and counts >= 0; fractions are allowed.
    """
    named = counts if isinstance(counts, Mapping) else {_default_name(counts): counts}
    if not named:
        raise DomainError(
            "there are no tables of counts",
            got="an empty mapping",
            allowed="a list of counts, or {name: counts, ...}",
        )
    for name in named:
        check_storable_text(str(name), "the name of a table of counts")
    pairs = [_as_family(str(name), table) for name, table in named.items()]
    families = tuple(family for family, _ in pairs)
    _check_axes(families)
    return CountTables(families, {family.name: array for family, array in pairs})


def _default_name(counts: Any) -> str:
    name = getattr(counts, "name", None)
    return str(name) if isinstance(name, str) and name else "p"


def _as_family(name: str, table: Any) -> tuple[CountFamily, np.ndarray]:
    _warn_of_value_counts(table)
    refuse_mask(table, f"the counts of {name!r}")
    array = xr.DataArray(table) if _is_frame(table) else table
    values = _as_array(name, array)
    _check_numeric(name, table, values)
    values = values.astype(float)
    if values.size == 0 or values.shape[-1] < 2:
        raise DomainError(
            f"a table of {name!r} has one cell or none: its probability is 1 whatever the data",
            got=f"shape {values.shape}",
            allowed="two categories or more along the last axis",
        )
    if not np.isfinite(values).all() or (values < 0.0).any():
        raise DomainError(
            f"the counts of {name!r} are finite and not negative",
            got="NaN, inf or negative counts",
            allowed="counts >= 0",
            do="take missing values out of the table, or count them as a category",
        )
    dims = tuple(f"{name}_dim_{i}" for i in range(values.ndim))
    labels: tuple[tuple[str, tuple[Any, ...]], ...] = ()
    names = tuple(map(str, array.dims)) if isinstance(array, xr.DataArray) else ("dim_0",)
    named = not any(dim.startswith("dim_") for dim in names)
    if named:
        dims = names
        labels = tuple((str(d), tuple(array.coords[d].values.tolist())) for d in array.dims
                       if d in array.coords)  # fmt: skip
    if {"chain", "draw"} & set(dims) or len(set(dims)) < len(dims):
        raise DomainError(
            "two axes of a table have one name, or one has the name of an axis of the draws",
            got=", ".join(dims),
            allowed="names that differ, other than 'chain' and 'draw'",
            do="rename the dims: array.rename(draw='...')",
        )
    return CountFamily(name, values.shape, dims, labels, named), values


def _as_array(name: str, table: Any) -> np.ndarray:
    try:
        return np.asarray(table)
    except ValueError:  # its message may quote a count
        problem = f"the rows of the table of {name!r} have unequal lengths"
    raise DomainError(
        problem,
        got=type(table).__name__,
        allowed="as many categories in every row",
        do="fill absent cells with 0, or make a family of each row",
    )


def _check_numeric(name: str, table: Any, values: np.ndarray) -> None:
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
        raise DomainError(
            f"the counts of {name!r} are numbers",
            got=got,
            allowed="whole numbers of at most 64 bits, or floats",
            do="convert them: array.astype(float)",
        )


def _is_frame(table: Any) -> bool:
    return type(table).__module__.startswith("pandas")


def _warn_of_value_counts(table: Any) -> None:
    """Warn of pandas' value_counts: it lists the categories that occur, the most frequent first."""
    listed = _is_frame(table) and getattr(table, "name", None) in ("count", "proportion")
    if not listed or hasattr(table.index, "categories") or not table.is_monotonic_decreasing:
        return
    warnings.warn(
        "the cells come in the order of their counts, as value_counts() lists them, and labels "
        "leave with a release: which categories occur, and their ranks, would be told for free; "
        "take counts.reindex(declared, fill_value=0)",
        PrivacyWarning,
        stacklevel=5,
    )


def declared_tables(
    counts: Mapping[str, np.ndarray],
    dims: Mapping[str, tuple[str, ...]],
    labels: Mapping[str, Sequence[Any]],
    rows: int | None = None,
    unit: str | None = None,
) -> CountTables:
    """Tables of records that are counted here, of columns whose labels were declared."""
    families = tuple(
        CountFamily(
            name,
            tuple(len(labels[a]) for a in axes),
            axes,
            tuple((a, tuple(labels[a])) for a in axes),
            True,
        )
        for name, axes in dims.items()
    )
    _check_axes(families)
    return CountTables(families, counts, rows, unit)


def _check_axes(families: Sequence[CountFamily]) -> None:
    known: dict[str, list[Any]] = {}
    for family in families:
        for dim, labels in family.coords.items():
            if known.setdefault(dim, labels.tolist()) != labels.tolist():
                raise Incompatible(
                    "an axis of two families has one name and different categories",
                    got=dim,
                    allowed="the same categories, in the same order, wherever a name occurs",
                    do="rename the axis of one table, or reindex it",
                )
    clash = {f.variable for f in families} & set(known)
    if clash or len({f.variable for f in families}) < len(families):
        raise Incompatible(
            "a family and an axis, or two families, have one name",
            got=", ".join(sorted(clash)),
            do="rename the family, for example p_age for the table of age",
        )


def check_minimum(tables: CountTables, minimum: float) -> None:
    """Refuse counts below the declared minimum of every data set: the price rests on it (T9)."""
    if any((array < minimum).any() for array in tables.counts.values()):
        raise DomainError(
            f"minimum={minimum:g} was declared of every count in every data set",
            got="a smaller count",
            do="declare only what is public knowledge, or leave minimum= out",
        )


def common_total(tables: CountTables) -> float:
    """The public number of records, which every family counts."""
    if tables.rows is not None:
        return float(tables.rows)
    totals = [float(array.sum()) for array in tables.counts.values()]
    if max(totals) - min(totals) > TOTAL_TOLERANCE * max(totals):
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
    """Refuse neighboring relations that tables of counts are not priced for."""
    if not isinstance(neighbors, str) or neighbors not in (SUBSTITUTE, ADD_REMOVE):
        raise DomainError(
            "tables of counts are priced for one record",
            got=f"neighbors={neighbors!r}",
            allowed=f"{SUBSTITUTE}, {ADD_REMOVE}",
        )
    if unit == "attribute" and neighbors != SUBSTITUTE:
        raise DomainError(
            "an attribute is replaced, not added", got=neighbors, allowed='neighbors="substitute"'
        )


def max_families_affected(families: Sequence[CountFamily], unit: str) -> int:
    """Most families that one change of the data reaches (T11).

    A changed row reaches all of them. A changed attribute reaches the families with an axis of
    its name: in naive Bayes a feature reaches its own, the class all.
    """
    if unit == "row":
        return len(families)
    if unit != "attribute":
        raise DomainError("unit= is not known", got=repr(unit), allowed='"row" or "attribute"')
    unnamed = [f.name for f in families if not f.named and (len(f.shape) > 1 or len(families) > 1)]
    if unnamed:
        raise DomainError(
            "which attributes a table counts is told by the names of its axes",
            got=f"no names for {', '.join(unnamed)}",
            do="pass xarray.DataArray with dims=",
        )
    dims = [set(f.dims) if f.named else {f.name} for f in families]
    return max(sum(dim in other for other in dims) for dim in set().union(*dims))


def add_noise(
    counts: Mapping[str, np.ndarray], distribution: str, scale: float
) -> dict[str, np.ndarray]:
    """Add independent integer noise to every count of all tables, which are whole numbers.

    The distribution is "discrete_gaussian" or "laplace": Algorithms 2 and 3 of Canonne, Kamath
    and Steinke (2020), as OpenDP implements them.
    """
    whole = {name: as_integers(table) for name, table in counts.items()}
    flat = np.concatenate([table.ravel() for table in whole.values()])
    dp = import_opendp()
    metric: Any = (
        dp.l1_distance(T="i64") if distribution == DISCRETE_LAPLACE else dp.l2_distance(T="i64")
    )
    make = {DISCRETE_LAPLACE: dp.m.make_laplace, DISCRETE_GAUSSIAN: dp.m.make_gaussian}[
        distribution
    ]
    space = (dp.vector_domain(dp.atom_domain(T="i64")), metric)
    answers = np.asarray(make(*space, float(scale))(flat.tolist()), dtype=np.int64)
    stops = np.cumsum([table.size for table in whole.values()])
    parts = np.split(answers, stops[:-1])
    return {n: part.reshape(whole[n].shape) for n, part in zip(whole, parts, strict=True)}


def add_seeded_noise(
    counts: np.ndarray, distribution: str, scale: float, generator: np.random.Generator
) -> np.ndarray:
    """Add noise that anybody can reproduce: nothing made with it is private."""
    whole = as_integers(counts)
    if distribution == DISCRETE_LAPLACE:
        up, down = generator.geometric(-np.expm1(-1.0 / scale), size=(2, *whole.shape))
        return np.asarray(whole + up - down)
    return np.asarray(whole + np.round(generator.normal(0.0, scale, whole.shape)).astype(np.int64))


def as_integers(counts: np.ndarray) -> np.ndarray:
    """Whole numbers as integers of 64 bits; others are refused."""
    values = np.asarray(counts, float)
    if not (np.abs(values) < MAX_EXACT_INTEGER).all() or (values != np.round(values)).any():
        raise DomainError(
            "integer noise is for whole numbers",
            got="counts with a fractional part, or beyond 2**53",
            do='count records without weights, or take method="exact"',
        )
    return values.astype(np.int64)


def import_opendp() -> Any:
    """Import OpenDP; called once before the charge, so that a broken installation costs nothing."""
    import opendp.prelude as dp

    dp.enable_features("contrib")  # OpenDP asks for this where proofs were reviewed in part
    return dp
