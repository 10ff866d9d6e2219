"""Counts of a table's rows, of columns whose categories are declared, by the table's own engine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from pymc_private.counts.declared_columns import DeclaredColumn, axis_labels, declare_column
from pymc_private.counts.publish import check_memory
from pymc_private.counts.tables import CountTables, LaterCounts, declared_tables
from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.argument_kinds import COLUMN
from pymc_private.privacy.neighbors import SUBSTITUTE
from pymc_private.privacy.validation import MAX_COUNT, check_storable_text, is_number

NAME = "p"
"""Of the table of all columns, where no others are asked for."""
RESERVED = {"chain", "draw"}


def counted_tables(
    data: Any,
    categories: Any,
    tables: Any,
    n: int | None,
    neighbors: str,
    unit: str | None = None,
    records_per_unit: int = 1,
) -> CountTables:
    """Counts of a table's rows, which are counted when they are first asked for.

    Under substitution without `n` the engine counts its rows at once: their number is public.

    Parameters
    ----------
    data : table
        Of pandas, Polars (also lazy), PyArrow (also a dataset), DuckDB, Dask or Spark.
    categories : mapping of str to sequence, or Bins
        What each column may hold, in the order of the axes.
    tables : mapping of str to sequence of str, or None
        Columns of each family; default: one table of all of them.
    n : int or None
        The public number of rows.
    neighbors : str
    unit : str, optional
        The column that names the unit of each row.
    records_per_unit : int
        Rows that a unit may own.

    Raises
    ------
    DomainError
        Columns that are not there, values that were not declared (which are not quoted), missing
        ones, another number of rows than n.
    Incompatible
        The table gave other rows to one family than to another.
    """
    columns = _declared(categories)
    families = _families(tables, columns)
    unit = COLUMN.optional.of(unit, "id", "a count of rows")
    wanted = {name: columns[name] for names in families.values() for name in names}
    _check_count(n, neighbors)
    check_memory(1, sum(math.prod(columns[c].size for c in names) for names in families.values()))
    from pymc_private.counts.counting import count_tables, number_of_rows
    from pymc_private.counts.rows_of_units import check_units

    names = [*wanted, *(() if unit is None else (unit,))]
    rows = number_of_rows(data, names)  # of no columns: refuses what is no table, too
    if neighbors == SUBSTITUTE:
        n = _public_rows(rows() if n is None else n)

    def counted() -> Mapping[str, np.ndarray]:
        if unit is not None:
            check_units(data, unit, records_per_unit)
        found = count_tables(data, families, wanted)
        _refuse_other_rows(found, n)
        return found

    labels = {name: axis_labels(column) for name, column in wanted.items()}
    return declared_tables(LaterCounts(tuple(families), counted), families, labels, n, unit)


def _public_rows(rows: int) -> int:
    """The number of rows, of which there are some."""
    if rows:
        return int(rows)
    raise DomainError(
        "no records were counted; nothing was charged",
        got="a table of no rows",
        do='count some, or protect their number too: neighbors="add_remove"',
    )


def refuse_table_words(**words: Any) -> None:
    """Refuse what is said of a table where counts are given."""
    if said := [f"{name}=" for name, value in words.items() if value is not None]:
        raise DomainError(
            f"{', '.join(said)} of a table, and no table is given; nothing was charged",
            got="counts" if words.get("data") is None else "counts and a table",
            allowed="counts, or data= with categories=",
        )


def _declared(categories: Any) -> dict[str, DeclaredColumn]:
    """The declared columns by name."""
    if not isinstance(categories, Mapping) or not categories:
        raise DomainError(
            "what columns may hold is declared, not learned; nothing was charged",
            got="no categories="
            if categories is None
            else f"{type(categories).__name__}, or empty",
            allowed="categories={'smoker': ['no', 'yes'], 'age': pmp.counts.Bins([18, 65])}",
        )
    for name in categories:
        check_storable_text(name, "the name of a column")
        if name in RESERVED:
            raise DomainError(
                "a column has the name of an axis of the draws",
                got=name,
                allowed=f"names other than {', '.join(sorted(map(repr, RESERVED)))}",
                do="rename the column",
            )
    return {name: declare_column(name, spec) for name, spec in categories.items()}


def _families(tables: Any, columns: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Columns of each family, the simplex last."""
    if tables is None:
        return {NAME: tuple(columns)}
    if not isinstance(tables, Mapping) or not tables:
        raise DomainError(
            "tables= names the columns of each family; nothing was charged",
            got=type(tables).__name__,
            allowed="tables={'smoker': ['smoker'], 'both': ['age', 'smoker']}",
        )
    found = {}
    for family, names in tables.items():
        check_storable_text(family, "the name of a table of counts")
        listed = isinstance(names, Iterable) and not isinstance(names, str)
        found[family] = axes = tuple(names) if listed else (names,)
        for name in axes:
            check_storable_text(name, "the name of a column")
        unknown = [name for name in axes if name not in columns]
        if unknown or not axes or len(set(axes)) < len(axes):
            raise DomainError(
                f"the table {family!r} counts declared columns, each once; nothing was charged",
                got=", ".join(map(repr, unknown or axes)) or "none",
                allowed=", ".join(map(repr, columns)),
            )
    return found


def _check_count(n: Any, neighbors: str) -> None:
    """Refuse a public number of rows that is none, or that is protected."""
    if n is None:
        return
    if not (is_number(n) and 0 < n <= MAX_COUNT and n == int(n)):
        raise DomainError("n= is the public number of rows", got=repr(n)[:40], allowed="1, 2, ...")
    if neighbors != SUBSTITUTE:
        raise DomainError(
            "n= is the public number of rows, which is protected here; nothing was charged",
            got=f"n= beside neighbors={neighbors!r}",
            allowed=f"n= with neighbors={SUBSTITUTE!r}",
            do="leave it out; a guess of it is profile=, of pmp.dirichlet",
        )


def _refuse_other_rows(counts: Mapping[str, np.ndarray], n: int | None) -> None:
    """Refuse families of other rows, and another number of rows than was declared."""
    totals = {float(array.sum()) for array in counts.values()}
    if len(totals) > 1:
        raise Incompatible(
            "the table gave other rows for one family than for another; nothing was charged",
            allowed="a table that does not change while it is counted",
            do="write it to a file, or collect it, and count that",
        )
    if n is not None and totals != {float(n)}:
        raise DomainError(
            "the table has another number of rows than was declared; nothing was charged",
            got=f"{totals.pop():.0f} rows",
            allowed=f"n={n}: it is public",
            do="if their number is public, say it, or leave n= out; else neighbors='add_remove'",
        )
