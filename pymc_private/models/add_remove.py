"""Add/remove neighbors: models in which something public tells the number of records.

Under add/remove the number of records is protected: dims, arrays and numbers of a model that
tell it are refused by name, and what a release would otherwise show of it is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, Shape_i

from pymc_private.analysis.record_dependence import sizing_inputs
from pymc_private.analysis.traversal import library_class_name, walk
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.record_likelihood import single_record
from pymc_private.models.record_terms import sequence_error
from pymc_private.models.sequences.row_identity import is_row_wise, public_data

if TYPE_CHECKING:
    from pymc_private.models.private_model import PrivateModel


def refuse_sequences(graph: RecordGraph) -> None:
    """Refuse records that stand in a sequence.

    Raises
    ------
    Unsupported
        Some factor row reads several records: without one of them its neighbors would meet, and
        every later record would have another place.
    """
    if graph.windows:
        raise sequence_error({window.name for window in graph.windows})


def refuse_with_sequences(graph: RecordGraph, what: str) -> None:
    """Refuse what is of one record's own row where several factor rows read each record.

    Raises
    ------
    Unsupported
    """
    if graph.windows:
        raise Unsupported(
            "this reads one factor row, and several factor rows read each record of a sequence",
            got=f"{what} with {', '.join(sorted({w.name for w in graph.windows}))}",
            allowed="models whose factor rows read one record each",
            do="use neighbors='substitute' and trim by box= or mass=, or let a whole sequence be "
            "one record (records='person', with time on another axis)",
        )


def record_dims(private: PrivateModel) -> set[str]:
    """The dims whose entries are records, also where `records` named an axis and no dim."""
    dims = private.base.named_vars_to_dims
    named = [(s, dims.get(name)) for s in private.sources for name in (s.name, *s.aliases)]
    found = {private.records} | {found[s.axis] for s, found in named if found}
    return {name for name in found if name is not None}


def record_lengths(private: PrivateModel) -> list[Variable]:
    """The number of records as the model's dims hold it."""
    lengths = private.base.dim_lengths
    return [lengths[name] for name in sorted(record_dims(private)) if name in lengths]


def refuse_public_counts(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
    lengths: Collection[Variable] = (),
) -> None:
    """Refuse models in which something public tells how many records there are.

    Parameters
    ----------
    graph : RecordGraph
    sources : sequence of Source
    n : int
        Number of records.
    shapes : mapping of str to tuple of int
        Of the parameters.
    lengths : collection of Variable
        The number of records as the model's dims hold it.

    Raises
    ------
    Unsupported
        Records stand in a sequence, rows differ by something public, an array that is not private
        has n entries along an axis, or something is computed with the length of the records dim or
        of private data.
    """
    refuse_sequences(graph)
    outs = [graph.record, graph.prior]
    arrays = [v.get_value() for v in public_data(outs)]
    arrays += [v.data for v in ancestors(outs) if isinstance(v, Constant) and np.ndim(v.data) > 0]
    counted = any(n in np.shape(array) for array in arrays)
    counted = counted or not set(lengths).isdisjoint(ancestors(outs))
    counted = (
        counted or _prior_reads_length(graph, sources) or _computes_with_length(graph, sources)
    )
    counted = counted or not _is_row_wise_with_one_more(graph, sources, n, shapes)
    if graph.pinned or counted or single_record(graph, sources, n, shapes) is None:
        raise Unsupported(
            "add/remove protects the number of records, but something public counts them",
            got="a public array with one entry per record, or a model that computes with their "
            "number",
            allowed="models whose records are private in all their entries",
            do="declare domains instead of public=, or use neighbors='substitute'",
        )


def _computes_with_length(graph: RecordGraph, sources: Sequence[Source]) -> bool:
    """Whether what a row computes reads the number of records, and not its own size alone.

    Rows may be as at hand for some numbers of records and not for others: a switch at n > 1000.
    """
    axes = {graph.data[source.name]: source.axis for source in sources}

    def rule(node: Apply, facts: Sequence[bool]) -> list[bool]:
        if isinstance(node.op, Shape | Shape_i):
            axis = axes.get(node.inputs[0])
            public = axis is not None and isinstance(node.op, Shape_i) and node.op.i != axis
            reads = not public and not axes.keys().isdisjoint(ancestors(node.inputs))
            return [reads] * len(node.outputs)
        sizing = set(sizing_inputs(node))
        values = zip(node.inputs, facts, strict=True)
        return [any(fact for v, fact in values if v not in sizing)] * len(node.outputs)

    leaves = {v: False for v in ancestors([graph.record]) if v.owner is None}
    return walk([graph.record], leaves, rule, lambda constant: False)[graph.record]


def _is_row_wise_with_one_more(
    graph: RecordGraph, sources: Sequence[Source], n: int, shapes: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether with one record more each row still reads its own record."""
    axes = {graph.data[s.name]: s.axis for s in sources}
    values = {v: np.full(shapes[k], 0.5, v.type.dtype) for k, v in graph.parameters.items()}
    values |= {graph.data[s.name]: s.stand_in(n + 1) for s in sources}
    values |= {v: v.get_value() for v in public_data([graph.record])}
    return is_row_wise(graph.record, values, axes, n + 1)


def _prior_reads_length(graph: RecordGraph, sources: Sequence[Source]) -> bool:
    """Whether the prior reads private data: no value of theirs, so the length of an axis.

    That of another axis than the records' is public.
    """
    axes = {graph.data[source.name]: source.axis for source in sources}
    nodes = {v.owner: None for v in ancestors([graph.prior]) if v.owner is not None}
    return any(
        v in axes and not (library_class_name(node.op) == "Shape_i" and node.op.i != axes[v])
        for node in nodes
        for v in node.inputs
    )
