"""The records of a table for a private model that holds placeholder rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import narwhals as nw

from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.models.placeholder_rows import require_own_records
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.tables.table_batches import as_table, require_columns
from pymc_private.summaries.tables.table_columns import columns_of
from pymc_private.summaries.tables.table_records import TableRecords


def records_of_table(
    private: PrivateModel, data: Any, columns: Mapping[str, Any] | None, unit: str | None
) -> TableRecords | None:
    """The records to summarize, if they are those of a table; reads none of them yet.

    Parameters
    ----------
    private : PrivateModel
    data : table or None
    columns : mapping or None
        Columns by private variable.
    unit : str or None
        The column that names units.

    Raises
    ------
    Incompatible
        Placeholder rows without a table, or a table beside a model that holds its records.
    DomainError
        No table, or one that lacks columns.
    """
    if data is None:
        if columns is not None or unit is not None:
            raise DomainError("columns= and id= are of a table", got="data=None")
        require_own_records(private, "summarize")
        return None
    if private.table_rows is None:
        raise Incompatible(
            "the model holds records of its own; nothing was charged",
            got="data= beside them",
            allowed="a model of a few made-up rows, and privatize(model, ..., n=rows of the table)",
            do="leave data= out, or build the model on placeholder rows",
        )
    table, found = as_table(data), columns_of(private, columns)
    wanted = [name for one in found for name in one.names]
    require_columns(table, wanted if unit is None else [*wanted, unit])
    units = None if unit is None else partial(check_units, table, unit, private.records_per_unit)
    return TableRecords(private, table, found, units)


def check_units(table: Any, unit: str, most: int) -> None:
    """Refuse a table in which a unit owns more rows than were declared.

    Raises
    ------
    DomainError
        More rows of a unit, or rows without one.
    Unsupported
        A table that counts no groups.
    """
    if not hasattr(table, "group_by"):
        raise Unsupported(
            "id= counts rows of a unit by the table's own engine, which this table has not",
            got=type(table).__name__,
            do="give the dataset as a DuckDB relation or a lazy frame of Polars",
        )
    frame = table.lazy() if isinstance(table, nw.DataFrame) else table
    sizes = frame.select(nw.col(unit).alias("unit")).group_by("unit").agg(nw.len().alias("rows"))
    found = sizes.select(
        nw.col("rows").max().alias("most"),
        nw.col("unit").is_null().cast(nw.Int64).sum().alias("missing"),
    ).collect()
    if found["missing"][0]:
        raise DomainError(
            f"the column '{unit}' names the unit of every row; nothing was charged",
            got="rows without a unit",
            do="drop them, or name their units",
        )
    if (found["most"][0] or 0) > most:
        raise DomainError(
            "a unit owns more rows than was declared; nothing was charged",
            got=f"more than {most}",
            allowed=f"records_per_unit={most}",
            do="declare a larger records_per_unit, or keep fewer rows of each unit",
        )
