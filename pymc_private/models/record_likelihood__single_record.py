"""The log-likelihood of one record as a scalar function of that record and the parameters."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import Shape, SpecifyShape
from pytensor.tensor.variable import TensorConstant
from pymc_private.analysis import simplify
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.traversal__rebuild import rebuild, untraced
from pymc_private.errors import NotCertified
from pymc_private.models.sequences.row_identity__counts import of_any_count
from pymc_private.models.sequences.row_identity import STACKED, expressions_of_rows, is_row_wise, public_data
from pymc_private.models.record_graph import RecordGraph
from pymc_private.models.data_variables import Source

@dataclass(frozen=True, eq=False)
class SingleRecord:
    """One record, without the records axis.

    Parameters
    ----------
    value : Variable, scalar
        log p(record | parameters), in nats.
    data : dict of str to Variable
        The record's entries, each of its source's `row_shape`.
    parameters : dict of str to Variable
    public : dict of Variable to array, shape (n, *shape of the variable)
        What is public and differs from row to row, with its values in all rows.
    neighbors : dict of Variable to Source
        Entries of other records that the same factor rows read. Any in their domain, the same for
        both records that are compared.
    """

    value: Variable
    data: dict[str, Variable]
    parameters: dict[str, Variable]
    public: dict[Variable, np.ndarray]
    neighbors: Mapping[Variable, Source] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _RowArray:
    """A public array with one entry per row: as an input of the graph, and its values."""

    original: Variable
    variable: Variable
    axis: int
    values: np.ndarray


Known = tuple[Sequence[Source], SingleRecord | None]
"""Sources, so that their ids stay theirs, and what was found."""

_KNOWN: WeakKeyDictionary[RecordGraph, dict[Hashable, Known]] = WeakKeyDictionary()
"""By graph: regions and powers of a model share it."""


def single_record(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> SingleRecord | None:
    """Take one row out of a record graph, where all rows are proved to be the same function.

    The answer is kept with the graph, for it depends on nothing that trims and powers change.

    Parameters
    ----------
    graph : RecordGraph
    sources : sequence of Source
    n : int
        Number of records.
    shapes : mapping of str to tuple of int
        Of the parameters.

    Returns
    -------
    SingleRecord or None
        None where rows differ by more than public arrays with one entry per row.
    """
    known = _KNOWN.setdefault(graph, {})
    held = [np.asarray(v.get_value()) for v in public_data([graph.record])]  # `set_data` may change
    public = tuple((v.dtype.str, v.shape, v.tobytes()) for v in held)
    key = (tuple(map(id, sources)), n, tuple(shapes.items()), public)
    if key not in known:
        known[key] = tuple(sources), _single_record(graph, sources, n, shapes)
    return known[key][1]


def _single_record(
    graph: RecordGraph,
    sources: Sequence[Source],
    n: int,
    shapes: Mapping[str, tuple[int, ...]],
) -> SingleRecord | None:
    # Of an unpinned graph n, 2, 3 and STACKED rows are proved to carry one expression.
    count = n if graph.pinned else min(n, STACKED)
    whole = graph.record
    if graph.pinned and not graph.windows:
        whole = of_any_count(whole, {graph.data[s.name]: s.axis for s in sources}, n)
    arrays = _row_arrays(whole, n) if graph.pinned else []
    fixed = [v for v in public_data([whole]) if v not in {a.original for a in arrays}]
    record = rebuild([whole], {a.original: a.variable for a in arrays})[0]
    values = {graph.parameters[name]: np.full(shape, 0.5) for name, shape in shapes.items()}
    values = {v: value.astype(v.type.dtype) for v, value in values.items()}
    values |= {v: v.get_value() for v in fixed}
    axes = {graph.data[s.name]: s.axis for s in sources} | {a.variable: a.axis for a in arrays}
    stand_ins = {graph.data[s.name]: s.stand_in(count) for s in sources}
    stand_ins |= {a.variable: a.values for a in arrays}
    if not (
        is_row_wise(record, values | stand_ins, axes, count)
        and _alike(record, values, stand_ins, axes, count)
    ):
        return None
    with untraced():
        known = {v: pt.constant(v.get_value(), name=v.name) for v in fixed}
        return _one_row(rebuild([record], known)[0], graph, sources, shapes, arrays)


def _row_arrays(record: Variable, n: int) -> list[_RowArray]:
    """Public arrays with one axis as long as the records axis."""
    found: list[_RowArray] = []
    for v in ancestors([record]):
        if not (isinstance(v, TensorConstant) or hasattr(v, "get_value")):
            continue
        values = np.asarray(v.data if isinstance(v, TensorConstant) else v.get_value())
        if values.shape.count(n) == 1:
            axis = values.shape.index(n)
            static = [1 if size == 1 else None for size in values.shape]
            fresh = v.type.clone(shape=tuple(static))(name=f"row_{len(found)}")
            found.append(_RowArray(v, fresh, axis, values))
    return found


def _alike(
    record: Variable,
    values: Mapping[Variable, np.ndarray],
    stand_ins: Mapping[Variable, np.ndarray],
    axes: Mapping[Variable, int],
    n: int,
) -> bool:
    """Whether each of n rows, and a single one, carries one and the same expression."""
    seen = []
    for count in (n, 1):
        rows = {v: value.take(range(count), axis=axes[v]) for v, value in stand_ins.items()}
        try:
            seen.append(expressions_of_rows(record, {**values, **rows}, axes))
        except (NotCertified, *UNCOMPUTABLE):
            return False
    return [len(rows) for rows in seen] == [n, 1] and all(np.all(r == seen[0][:1]) for r in seen)


def _one_row(
    record: Variable,
    graph: RecordGraph,
    sources: Sequence[Source],
    shapes: Mapping[str, tuple[int, ...]],
    arrays: Sequence[_RowArray],
) -> SingleRecord:
    """The graph with every row array one row long, and that axis made inside."""
    data = {s.name: pt.TensorType(s.dtype, shape=s.row_shape)(name=s.name) for s in sources}
    swaps = {graph.data[s.name]: pt.expand_dims(data[s.name], s.axis) for s in sources}
    public = {}
    for a in arrays:
        values = np.moveaxis(a.values, a.axis, 0)
        kind = pt.TensorType(a.variable.type.dtype, shape=values.shape[1:])
        entry = kind(name=a.variable.name)
        public[entry] = values
        swaps[a.variable] = pt.expand_dims(entry, a.axis)
    parameters = {
        name: v.type.clone(shape=shapes[name])(name=name) for name, v in graph.parameters.items()
    }
    swaps |= {graph.parameters[name]: v for name, v in parameters.items()}

    row = rebuild([record], swaps, known_size)[0]
    return SingleRecord(simplify([row.sum()])[0], data, parameters, public)


def known_size(node: Apply, inputs: list[Variable]) -> Variable | None:
    """A rule of `rebuild`: sizes of inputs of known shape are numbers."""
    if isinstance(node.op, Shape) and None not in inputs[0].type.shape:
        return pt.constant(np.array(inputs[0].type.shape, dtype="int64"))
    return inputs[0] if isinstance(node.op, SpecifyShape) else None
