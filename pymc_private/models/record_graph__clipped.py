"""The record's graph with its log-likelihood clipped, for the analysis and for plain PyMC (T25)."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pytensor.graph.basic import Variable
from pymc_private.analysis import NONE, confine, failing_as_impossible, is_confined, row_labels
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.intervals.ops__normal_tail import spelled_out
from pymc_private.errors import NotCertified
from pymc_private.models.sequences.row_identity import is_pinned
from pymc_private.models.sequences.windows import Window
from pymc_private.models.record_graph import RecordGraph, labels_of_records, stand_ins
from pymc_private.models.data_variables import Source

Ends = tuple[float, float]


def clipped_graph(graph: RecordGraph, ends: Ends, sources: Sequence[Source], n: int) -> RecordGraph:
    """The same graph with every record's total between two ends.

    NaN counts as the lower end, and so does a record for which a condition of the model fails. A
    graph that is clipped already is clipped to what both clips allow.

    Parameters
    ----------
    graph : RecordGraph
    ends : (float, float)
        Lower and upper, in that order.
    sources : sequence of Source
    n : int
        Number of records.

    Raises
    ------
    NotCertified
        A condition of the model that cannot be told apart by records.
    """
    if graph.windows:
        return _with_clipped_windows(graph, ends, sources)
    private = set(graph.data.values())
    total = failing_as_impossible([unclipped(graph)], private)[0]
    # The lower end brings the number of records, which an Op without a rule does not tell.
    count = graph.data[sources[0].name].shape[sources[0].axis]
    floor = pt.full((count,), np.float64(ends[0]))
    record = confine(pt.cast(total, "float64"), floor, np.float64(ends[1]))
    values = stand_ins([record], graph.parameters, graph.data, sources)
    _refuse_shared_conditions(graph, record, values, sources, n)
    pinned = graph.pinned or is_pinned(record, {graph.data[s.name]: s for s in sources}, values, n)
    return replace(graph, record=record, pinned=pinned, clip=ends)


def _with_clipped_windows(graph: RecordGraph, ends: Ends, sources: Sequence[Source]) -> RecordGraph:
    """Every factor row between two ends, where some read several records."""
    windows = tuple(_clipped_window(w, ends, graph, sources) for w in graph.windows)
    bare = pt.concatenate([window.rows.owner.inputs[0] for window in windows])
    count = sum(window.count for window in windows)
    record = confine(bare, pt.full((count,), np.float64(ends[0])), np.float64(ends[1]))
    return replace(graph, record=record, windows=windows, clip=ends)


def _clipped_window(
    window: Window, ends: Ends, graph: RecordGraph, sources: Sequence[Source]
) -> Window:
    """A window with its rows clipped; each row must still stand for itself."""
    inputs = window.sources(sources)
    variable, source = next(iter(inputs.items()))
    own = failing_as_impossible([_bare(window.shifted, graph)], set(inputs))[0]
    floor = pt.full((variable.shape[source.axis],), np.float64(ends[0]))
    shifted = confine(pt.cast(own, "float64"), floor, np.float64(ends[1]))
    rows = failing_as_impossible([_bare(window.rows, graph)], set(graph.data.values()))[0]
    rows = confine(pt.cast(rows, "float64"), np.float64(ends[0]), np.float64(ends[1]))
    data = {s.name: v for v, s in inputs.items()}
    alone = replace(graph, data=data, factors=(window.name,))
    _refuse_shared_conditions(alone, shifted, window.values, list(inputs.values()), window.count)
    pinned = window.pinned or is_pinned(shifted, inputs, window.values, window.count)
    return replace(window, rows=rows, shifted=shifted, pinned=pinned and window.count > 1)


def _bare(rows: Variable, graph: RecordGraph) -> Variable:
    """Factor rows before any clip."""
    return rows.owner.inputs[0] if graph.clip is not None and is_confined(rows.owner) else rows


def unclipped(graph: RecordGraph) -> Variable:
    """Log-likelihood of each record before any clip."""
    node = graph.record.owner
    return node.inputs[0] if graph.clip is not None and is_confined(node) else graph.record


def in_plain_ops(graph: RecordGraph) -> Variable:
    """The log-likelihood of each record, clipped or not, in Ops that every back end compiles."""
    total = spelled_out(unclipped(graph))
    if graph.clip is None:
        return total
    low, high = graph.clip
    return pt.switch(pt.isnan(total), low, pt.clip(total, low, high))


def _refuse_shared_conditions(
    graph: RecordGraph,
    record: Variable,
    values: Mapping[Variable, np.ndarray],
    sources: Sequence[Source],
    n: int,
) -> None:
    """Refuse a condition that would make the value of one record hang on another."""
    labels = labels_of_records(dict(values), graph.data, sources, n)
    try:
        rows = row_labels([record], labels, values)[record]
        apart = np.shape(rows) == (n,) and bool(np.all((rows == np.arange(n)) | (rows == NONE)))
    except UNCOMPUTABLE:
        apart = False
    if not apart:
        raise NotCertified(
            "a condition of the model cannot be told apart by records, so clipping would leave "
            "them coupled",
            blame=graph.factors,
            cure="trim until the condition is certain, and leave the check out of the model",
        )
