"""The ways in which records are read: one for all, or several along a sequence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pymc_private.analysis.branch_and_bound__effort import Effort
from pymc_private.certificates.record_bounds__neighbor_rows import NeighborRows
from pymc_private.certificates.record_bounds import Neighborhood, neighborhoods
from pymc_private.certificates.range_bound__partition import Rows
from pymc_private.models.private_model import PrivateModel
from pymc_private.certificates.record_bounds__row_bounds import RowBounds
from pymc_private.certificates.range_bound import searched_range
from pymc_private.models.record_likelihood__single_record import SingleRecord, single_record

FIRST_LOOK = 12.0
"""Effort of a first search, in walks."""


@dataclass(frozen=True, eq=False)
class Kind:
    """Records that are read in the same way.

    Parameters
    ----------
    rows : RowBounds or NeighborRows
    record : SingleRecord or None
        The log-likelihood of all that reads one of them; None where rows differ.
    readers : tuple of str
        The factor of each factor row that reads one of them.
    words : tuple of str
        The same in words, where it is more than the record's own row.
    """

    rows: Rows
    record: SingleRecord | None
    readers: tuple[str, ...]
    words: tuple[str, ...] = ()


def kinds_of_records(private: PrivateModel) -> list[Kind]:
    """Each way in which some record of a model is read."""
    graph, sources = private.graph, private.sources
    if not graph.windows:
        record = single_record(graph, sources, private.n, private.shapes)
        return [Kind(RowBounds(graph, sources, private.n), record, ("",))]
    kinds = []
    for kind in neighborhoods(graph, sources, private.n, private.shapes):
        rows = NeighborRows(kind.record, sources)
        rows.effort = Effort(FIRST_LOOK)
        seen = searched_range(rows, private.box)
        kinds.append((seen, Kind(rows, kind.record, kind.readers, (_words(kind),))))
    # The greatest first: of the others it is enough to prove that they are no greater.
    return [kind for _, kind in sorted(kinds, key=lambda pair: -pair[0])]


def _words(kind: Neighborhood) -> str:
    many = "each" if kind.count > 1 else "it"
    which = f"record {kind.first}" if kind.count == 1 else f"{kind.count} records"
    return f"{which}: {many} is read by {_rows(kind.readers)}"


def _rows(readers: tuple[str, ...]) -> str:
    """2 factor rows (2 of y)."""
    counts = Counter(readers)
    parts = ", ".join(f"{count} of {name}" for name, count in counts.items())
    return f"{len(readers)} factor row{'s' if len(readers) > 1 else ''} ({parts})"


def coupling_words(kinds: Sequence[Kind]) -> str:
    """How many factor rows read a record, if it is more than its own."""
    most = max((kind.readers for kind in kinds), key=len)
    if len(most) == 1:
        return ""
    return f"each record is read by up to {_rows(most)}; what these read besides is any, the same"
