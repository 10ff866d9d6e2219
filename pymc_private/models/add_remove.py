"""Add/remove neighbors: refusal of models in which something public tells the number of records.

Under add/remove the number of records is protected. Records of a sequence, public arrays with one
entry per record, and computations with the length of the records axis are refused by name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor

from pymc_private.analysis.record_dependence import sizing_inputs
from pymc_private.analysis.traversal import library_class_name, walk
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.record_likelihood import single_record
from pymc_private.models.record_terms import sequence_error
from pymc_private.models.sequences.row_identity import is_row_wise, public_data


def refuse_public_counts(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
    lengths: Collection[Variable] = (),
    arrays_are_known: bool = False,
) -> None:
    """Refuse models in which something public tells the number of records, n.

    That is, records form a sequence, rows differ by something public, an array that is not private
    has n entries along an axis, or something is computed with the length of the records dim (as
    the model holds it in `lengths`) or of private data. `shapes` are those of the parameters. With
    `arrays_are_known`, those of the user were asked in a model that this one was made of: the
    package's own have lengths that no record changes, and a refusal where one equals n would tell
    n.
    """
    refuse_sequences(graph)
    outs = [graph.record, graph.prior]
    arrays = [v.get_value() for v in public_data(outs)]
    arrays += [v.data for v in ancestors(outs) if isinstance(v, Constant) and np.ndim(v.data) > 0]
    tells_count = (
        (not arrays_are_known and any(n in np.shape(array) for array in arrays))
        or not set(lengths).isdisjoint(ancestors(outs))
        or _prior_reads_length(graph, sources)
        or _computes_with_length(graph, sources)
        or not _is_row_wise_with_one_more(graph, sources, n, shapes)
    )
    if graph.rows_differ or tells_count or single_record(graph, sources, n, shapes) is None:
        raise Unsupported(
            "add/remove protects the number of records, but something public counts them",
            got="a public array with one entry per record, or a model that computes with their "
            "number",
            allowed="models whose records are private in all their entries",
            do="declare domains instead of public=, or use neighbors='substitute'",
        )


def _prior_reads_length(graph: RecordGraph, sources: Sequence[Source]) -> bool:
    """Whether the prior reads private data, if only the length of an axis.

    Lengths of other axes than that of the records are public.
    """
    axes = {graph.data[source.name]: source.axis for source in sources}
    nodes = {v.owner: None for v in ancestors([graph.prior]) if v.owner is not None}
    return any(
        v in axes and not (library_class_name(node.op) == "Shape_i" and node.op.i != axes[v])
        for node in nodes
        for v in node.inputs
    )


def _computes_with_length(graph: RecordGraph, sources: Sequence[Source]) -> bool:
    """Whether the value of a row is computed with the number of records.

    Rows may be equivalent at the present number and differ at others, as by a switch at n > 1000.
    Sizes of outputs do not count.
    """
    axes = {graph.data[source.name]: source.axis for source in sources}

    def rule(node: Apply, facts: Sequence[bool]) -> list[bool]:
        array, axis = _length_that_is_read(node)
        if array in axes and axis != axes[array]:
            return [False] * len(node.outputs)
        if isinstance(node.op, Shape | Shape_i):
            return [not axes.keys().isdisjoint(ancestors(node.inputs))] * len(node.outputs)
        sizing = set(sizing_inputs(node))
        values = zip(node.inputs, facts, strict=True)
        return [any(fact for v, fact in values if v not in sizing)] * len(node.outputs)

    leaves = {v: False for v in ancestors([graph.record]) if v.owner is None}
    return walk([graph.record], leaves, rule, lambda constant: False)[graph.record]


def _length_that_is_read(node: Apply) -> tuple[Variable | None, int]:
    """The array and the axis whose length a node gives, and of its shape nothing else."""
    if isinstance(node.op, Shape_i):
        return node.inputs[0], node.op.i
    shape = node.inputs[0].owner if isinstance(node.op, Subtensor) else None
    if shape is None or not isinstance(shape.op, Shape):
        return None, 0
    (entry,) = indices_from_subtensor(node.inputs[1:], node.op.idx_list)
    if not isinstance(entry, Constant):  # a slice, or a place that is computed
        return None, 0
    return shape.inputs[0], int(entry.data) % shape.inputs[0].type.ndim


def _is_row_wise_with_one_more(
    graph: RecordGraph, sources: Sequence[Source], n: int, shapes: Mapping[str, tuple[int, ...]]
) -> bool:
    """Whether each row reads its own record when there is one record more."""
    axes = {graph.data[s.name]: s.axis for s in sources}
    values = {v: np.full(shapes[k], 0.5, v.type.dtype) for k, v in graph.parameters.items()}
    values |= {graph.data[s.name]: s.stand_in(n + 1) for s in sources}
    values |= {v: v.get_value() for v in public_data([graph.record])}
    return is_row_wise(graph.record, values, axes, n + 1)


def refuse_sequences(graph: RecordGraph) -> None:
    """Refuse models with factor rows that read several records.

    If a record of a sequence is removed, its neighbors become adjacent, and every later record
    changes its position.
    """
    if graph.windows:
        raise sequence_error({window.name for window in graph.windows})


def refuse_with_sequences(graph: RecordGraph, feature: str) -> None:
    """Refuse a feature that reads one factor row per record where several rows read a record."""
    if graph.windows:
        raise Unsupported(
            "this reads one factor row, and several factor rows read each record of a sequence",
            got=f"{feature} with {', '.join(sorted({w.name for w in graph.windows}))}",
            allowed="models whose factor rows read one record each",
            do="use neighbors='substitute' and trim by box= or mass=, or let a whole sequence be "
            "one record (records='person', with time on another axis)",
        )
