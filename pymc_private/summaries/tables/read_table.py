"""The records of a table for a private model that holds placeholder rows."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pymc_private.counts.rows_of_units import check_units
from pymc_private.errors import DomainError, Incompatible
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy.argument_kinds import COLUMN
from pymc_private.release.allowed import dump_json
from pymc_private.summaries.scores.pilot_part import PilotPart
from pymc_private.summaries.tables.coins import KEY_BYTES, Coins, draw_key
from pymc_private.summaries.tables.table_batches import as_table, require_columns
from pymc_private.summaries.tables.table_columns import SourceColumns, columns_of, known_columns
from pymc_private.summaries.tables.table_records import TableRecords


def records_of_table(
    private: PrivateModel,
    data: Any,
    columns: Mapping[str, Any] | None,
    unit: str | None,
    part: PilotPart | None = None,
    seed: int | Sequence[int] | None = None,
    caller: str = "summarize",
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
    part : PilotPart, optional
        The share of the rows that pilots of the mechanism read (T37).
    seed : int or sequence of int, optional
        Of a release that is reproducible and not private.
    caller : str
        The function that the user called.

    Raises
    ------
    Incompatible
        Placeholder rows without a table, or a table beside a model that holds its records.
    DomainError
        No table, or one that lacks columns.
    """
    unit = COLUMN.optional.of(unit, "id", caller)
    if data is None:
        if columns is not None or unit is not None:
            raise DomainError(
                "columns= and id= name columns of a table, and no table is given",
                got="data=None",
                allowed="data= beside them",
                do="pass the table as data=, or leave them out",
            )
        _require_own_records(private, caller)
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
    units = None if unit is None else partial(check_units, data, unit, private.records_per_unit)
    coins = None if part is None else _coins(private, found, unit, part, seed)
    return TableRecords(private, table, found, units, coins, unit)


def records_of_plans(
    plans: Sequence[Any],
    data: Any,
    columns: Mapping[str, Any] | None,
    unit: str | None,
    seed: int | None = None,
) -> list[TableRecords | None]:
    """The records of each of several plans: all of one table, or those of the models.

    Parameters
    ----------
    plans : sequence of SummaryPlan
    data, columns, unit, seed
        As of `records_of_table`; `columns` may name variables of any of the models.

    Raises
    ------
    Incompatible, DomainError
        As `records_of_table`; a name that no model knows.
    """
    known: list[Mapping[str, Any] | None] = [columns for _ in plans]
    if isinstance(columns, Mapping):
        known = [known_columns(plan.private, columns) for plan in plans]
        if unknown := [name for name in columns if not any(name in one for one in known if one)]:
            raise DomainError(
                "columns= names columns of private variables",
                got=", ".join(map(repr, unknown)),
                allowed="names of private variables of one of the models",
            )
    found = []
    for k, (plan, own) in enumerate(zip(plans, known, strict=True)):
        part = getattr(plan.mechanism, "part", None)
        seeds = None if seed is None else [seed, k]
        found.append(records_of_table(plan.private, data, own, unit, part, seeds))
    for one in found[1:]:
        if one is not None:
            one.count_no_units()  # the first of them does: it is one table
    return found


def key_with_columns(fingerprint: str, tables: Sequence[TableRecords | None]) -> str:
    """The key of a plan of some records: what other columns give is no release of the same name.

    Nor is what other units own, whose rows were not counted.
    """
    names = [
        [] if table is None else [[one.source.name, *one.names] for one in table.reader.columns]
        for table in tables
    ]
    units = sorted({table.unit for table in tables if table is not None and table.unit is not None})
    if not any(names):
        return fingerprint
    known = dump_json([names, units] if units else names)
    return hashlib.sha256(f"{fingerprint}|{known}".encode()).hexdigest()


def _require_own_records(private: PrivateModel, caller: str) -> None:
    """Refuse placeholder rows without a table.

    Raises
    ------
    Incompatible
        Names the keyword.
    """
    if private.table_rows is not None:
        raise Incompatible(
            f"this model holds placeholder rows, which {caller} would take for records; nothing "
            "was charged",
            got=f"privatize(..., n={private.table_rows}), and no data=",
            allowed="data=, the table whose records they stand for",
            do=f"pmp.{caller}(..., data=table, id='the column that names persons')",
        )


def _coins(
    private: PrivateModel,
    columns: Sequence[SourceColumns],
    unit: str | None,
    part: PilotPart,
    seed: int | Sequence[int] | None,
) -> Coins:
    """Coins of units, or of covariates that are no whole numbers: never of outcomes.

    Raises
    ------
    DomainError
        Neither is there.
    """
    key = draw_key() if seed is None else np.random.default_rng(seed).bytes(KEY_BYTES)
    if unit is not None:
        return Coins((unit,), part.threshold, key=key)
    outcomes = {rv.name for rv in private.base.observed_RVs}
    covariates = [c for c in columns if not outcomes & {c.source.name, *c.source.aliases}]
    if not any(not c.source.is_whole for c in covariates):
        raise DomainError(
            "rows of a large table are told apart by their units; nothing was charged",
            got="no id=, and no covariate that is a real number",
            allowed="id='the column that names persons'",
            do="pass id=; a column of row numbers that stay with their rows serves, too",
        )
    names = tuple(name for c in covariates for name in c.names)
    return Coins(names, part.threshold, of_units=False, key=key)
