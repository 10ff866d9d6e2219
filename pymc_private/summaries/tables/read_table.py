"""The records of a table for a private model that holds placeholder rows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pymc_private.errors import DomainError, Incompatible
from pymc_private.models.placeholder_rows import require_own_records
from pymc_private.models.private_model import PrivateModel
from pymc_private.summaries.tables.table_batches import Table, as_table, require_columns
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


def check_units(table: Table, unit: str, most: int) -> None:
    """Refuse a table in which a unit owns more rows than were declared.

    Raises
    ------
    DomainError
        More rows of a unit, or rows without one.
    Unsupported
        A table that counts no groups.
    """
    found, missing = table.most_rows(unit)
    if missing:
        raise DomainError(
            f"the column '{unit}' names the unit of every row; nothing was charged",
            got="rows without a unit",
            do="drop them, or name their units",
        )
    if found > most:
        raise DomainError(
            "a unit owns more rows than was declared; nothing was charged",
            got=f"more than {most}",
            allowed=f"records_per_unit={most}",
            do="declare a larger records_per_unit, or keep fewer rows of each unit",
        )
