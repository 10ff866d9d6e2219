"""How many rows of a table a unit owns, counted by the table's own engine."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pymc_private.counts.engine_errors import hide_quotes
from pymc_private.errors import DomainError


def check_units(data: Any, unit: str, most: int) -> None:
    """Refuse a table in which a unit owns more rows than were declared.

    Parameters
    ----------
    data : table
        Of pandas, Polars (also lazy), PyArrow (also a dataset), DuckDB, Dask or Spark.
    unit : str
        The column that names units.
    most : int
        Rows that a unit may own.

    Raises
    ------
    DomainError
        More rows of a unit, or rows without one; which, and how many, is not told.
    """
    found, missing = hide_quotes(
        lambda: _counted(data, unit, most),
        f"the engine could not count the rows of each unit, which '{unit}' names",
        f"a table that its engine can evaluate, and numbers, text or times in '{unit}', no lists",
        "evaluate it once by its engine, which says why",
    )
    if missing:
        raise missing_units(unit)
    if found > most:
        raise DomainError(
            "a unit owns more rows than was declared; nothing was charged",
            got=f"more than {most}",
            allowed=f"records_per_unit={most}",
            do="declare a larger records_per_unit, or keep fewer rows of each unit",
        )


def missing_units(unit: str) -> DomainError:
    """The error that rows have no unit."""
    return DomainError(
        f"the column '{unit}' names the unit of every row; nothing was charged",
        got="rows without a unit",
        do="drop them, or name their units",
    )


def _counted(data: Any, unit: str, most: int) -> tuple[int, int]:
    """As `most_rows`; of text by its hashes first, which take half the memory and time.

    Equal names have equal hashes, so that no unit's rows are fewer by hashes. They may be more, and
    are then counted by names.
    """
    hashed = _hashed_text(data, unit)
    found = None if hashed is None else most_rows(hashed, unit)
    return found if found is not None and found[0] <= most else most_rows(data, unit)


def _hashed_text(data: Any, unit: str) -> Any:
    """Text of Polars or DuckDB by hashes of 64 bits, missing ones missing; None of all else."""
    module = type(data).__module__
    if module.startswith("polars"):
        polars, lazy = import_module("polars"), data.lazy()
        if lazy.collect_schema()[unit] != polars.String:
            return None
        name = polars.col(unit)
        return lazy.select(polars.when(name.is_not_null()).then(name.hash()).alias(unit))
    if module.startswith(("duckdb", "_duckdb")) and hasattr(data, "project"):
        if str(dict(zip(data.columns, data.types, strict=True))[unit]) != "VARCHAR":
            return None
        name = '"' + unit.replace('"', '""') + '"'
        return data.project(f"case when {name} is not null then hash({name}) end as {name}")
    return None


def most_rows(data: Any, unit: str) -> tuple[int, int]:
    """Largest number of rows that a unit owns, and the number of rows without one.

    NaN is no unit, whatever the engine, and -0.0 is 0.0.
    """
    import narwhals as nw

    module = type(data).__module__
    if module.startswith("dask") and hasattr(data, "npartitions"):
        sizes = data.groupby(unit).size().max()
        return _whole(sizes.compute()), _whole(data[unit].isnull().sum().compute())
    if module.startswith("pyarrow"):
        sizes = nw.from_native(_groups_of_arrow(data, unit)).lazy()
    else:
        frame = nw.from_native(data).lazy()
        value = nw.col(unit)
        if frame.collect_schema()[unit].is_float():
            value = value + 0.0
        units = frame.select(value.alias("unit"))
        sizes = units.group_by("unit").agg(nw.len().alias("rows"))
    nameless = nw.col("unit").is_null()
    if sizes.collect_schema()["unit"].is_float():  # engines differ in whether NaN is null
        nameless = nameless | nw.col("unit").is_nan()
    missing = nw.when(nameless).then(nw.col("rows")).otherwise(0)
    words = {"engine": "streaming"} if sizes.implementation.is_polars() else {}
    found = sizes.select(most=nw.col("rows").max(), missing=missing.sum()).collect(**words)
    return _whole(found["most"][0]), _whole(found["missing"][0])


def _groups_of_arrow(data: Any, unit: str) -> Any:
    """Units and numbers of their rows, of a table or dataset of PyArrow: a batch at a time."""
    arrow, acero = import_module("pyarrow"), import_module("pyarrow.acero")
    dataset, compute = import_module("pyarrow.dataset"), import_module("pyarrow.compute")
    source = data if hasattr(data, "scanner") else dataset.dataset(data)
    value, kind = dataset.field(unit), source.schema.field(unit).type
    if arrow.types.is_dictionary(kind):  # files have dictionaries of their own
        value = value.cast(kind.value_type)
    if arrow.types.is_floating(kind):
        value = compute.add(value, 0.0)
    steps = [
        acero.Declaration("scan", acero.ScanNodeOptions(source, columns=[unit])),
        acero.Declaration("project", acero.ProjectNodeOptions([value], ["unit"])),
        acero.Declaration(
            "aggregate",
            acero.AggregateNodeOptions([([], "hash_count_all", None, "rows")], keys=["unit"]),
        ),
    ]
    return acero.Declaration.from_sequence(steps).to_table()


def _whole(found: Any) -> int:
    """A number of rows; of no rows engines give none, or NaN."""
    return int(found) if found is not None and found == found else 0
