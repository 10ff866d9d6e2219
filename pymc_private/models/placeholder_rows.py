"""Models that hold placeholder rows, for records that lie in a table.

A table of many records is summarized by a model that was built on a handful of made-up rows and
told how many the table has. What is public of such a model must not depend on how many rows it
holds.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from pytensor.graph.basic import Variable

from pymc_private.errors import DomainError, Incompatible, Unsupported
from pymc_private.models.add_remove import refuse_public_counts
from pymc_private.models.data_variables import Source
from pymc_private.models.metric import Metric
from pymc_private.models.record_graph import RecordGraph
from pymc_private.privacy.validation import is_number


def checked_table_rows(n: Any, metric: Metric | None) -> int | None:
    """The number of rows of a table, if the model's own rows are placeholders."""
    if n is None:
        return None
    if not (is_number(n) and 1 <= n < math.inf and n == int(n)):
        raise DomainError(
            "n= is the public number of rows of a table, for which the model holds placeholders",
            got=repr(n)[:40],
            allowed="1, 2, ...",
            do="leave it out if the model holds its records",
        )
    if metric is not None:
        raise Unsupported(
            "a table is summarized record by record, and no summary protects by a distance",
            got="n= beside a Metric",
            do="neighbors='substitute' or 'add_remove'",
        )
    return int(n)


def refuse_counted_placeholders(
    graph: RecordGraph,
    sources: Sequence[Source],
    held: int,
    shapes: Mapping[str, tuple[int, ...]],
    lengths: Collection[Variable],
) -> None:
    """Refuse a model whose likelihood of a record depends on how many rows it holds."""
    try:
        refuse_public_counts(graph, sources, held, shapes, lengths)
    except Unsupported as error:
        raise Unsupported(
            "a model that holds placeholder rows depends on their number",
            got="a sequence, a public array as long as they are many, or a model that computes "
            "with their number",
            allowed="models whose records are private in all their entries",
            do="declare domains instead of public=; and hold a number of placeholder rows "
            f"(now {held}) that is the length of no other array or dim of the model",
        ) from error


def require_own_records(private: Any, caller: str) -> None:
    """Refuse to read the records of a private model that holds placeholder rows.

    Raises
    ------
    Incompatible
        Its records are those of a table.
    """
    if private.table_rows is None:
        return
    raise Incompatible(
        f"this model holds placeholder rows, which {caller} would take for records; nothing was "
        "charged",
        got=f"privatize(..., n={private.table_rows})",
        allowed="pmp.summarize(plan, data=table), which reads the records of a table",
        do="for anything else summarize a model that holds its records, privatized without n=",
    )
