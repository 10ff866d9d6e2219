"""Row identity: dependence of a row's computation on its position or on the row count.

Rows of a record graph are equivalent if each carries the same expression for n, 2, 3 and
`STACKED_ROWS` rows and reads its own record only; then a bound for one row holds for all. Rows that
differ must differ by declared data variables, not by structure written into the model. Where a
model writes out its number of records, the number can be read off the data instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Alloc
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis import MIXED, NONE, element_labels, simplify
from pymc_private.analysis.row_equivalence import hash_combine, hash_sequence, value_numbers
from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild
from pymc_private.errors import DomainError, NotCertified
from pymc_private.models.data_variables import Source
from pymc_private.models.sequences.windows import RecordWindow, row_numbers

Values = Mapping[Variable, np.ndarray]
"""Stand-ins for every input of a graph: parameters, private variables, public data."""
STACKED_ROWS = 129
"""Rows in every evaluation that stacks cells of records: the number for which rows were proved
equivalent."""
SHORT_REACH = 2
"""A factor that reads more records back than this is taken for a list of terms, not a sequence."""


def depends_on_row_identity(
    record: Variable, data: Mapping[Variable, Source], values: Values, n: int
) -> bool:
    """Whether the computation of a row depends on its position, or on the number of rows.

    False only if each of n rows, of 2, of 3 and of `STACKED_ROWS` rows carries one and the same
    expression (`analysis.row_equivalence`) and reads its own record and no other: an expression
    says what is computed from a record, not from which one. Then a bound for one row holds for all,
    and 2 or `STACKED_ROWS` rows may be stacked in an evaluation. Otherwise the graph has to be
    evaluated with all n rows. Expressions are compared by 64-bit hashes.
    """
    seen = []
    counts = [n, 2, 3, STACKED_ROWS]
    axes = {v: source.axis for v, source in data.items()}
    for count in counts:
        sized = _with_row_count(data, values, count)
        try:
            seen.append(row_expressions(record, sized, axes))
        except (NotCertified, *EVALUATION_ERRORS):
            return True  # the graph holds the model's own n
        if count != n and not is_row_wise(record, sized, axes, count):
            return True  # with n rows the graph is known to be row-wise
    first = seen[0][:1]
    lengths = [len(rows) for rows in seen]
    return lengths != counts or any(np.any(rows != first) for rows in seen)


def is_identified_by_data(
    record: Variable, data: Mapping[Variable, Source], values: Values, n: int
) -> bool:
    """Whether rows differ by public data variables alone, not by structure of the model.

    Each public array with one axis of n entries is treated as one more private variable; then all
    rows must carry one expression. What remains is structure: blocks, subsets, repeats, a list of
    terms, a position in the sequence. Structure may identify records.
    """
    known = [v for v in values if hasattr(v, "get_value") and np.shape(values[v]).count(n) == 1]
    axes = {v: np.shape(values[v]).index(n) for v in known}
    axes |= {v: source.axis for v, source in data.items()}
    try:
        rows = row_expressions(record, _with_row_count(data, values, n), axes)
    except (NotCertified, *EVALUATION_ERRORS):
        return False
    return len(rows) == n and bool(np.all(rows == rows[:1]))


def _with_row_count(data: Mapping[Variable, Source], values: Values, count: int) -> dict:
    """The stand-ins, with `count` rows of each private variable."""
    return dict(values) | {v: source.stand_in(count) for v, source in data.items()}


def row_expressions(record: Variable, values: Values, axes: Mapping[Variable, int]) -> np.ndarray:
    """A number for the expression of each row, equal for rows that compute the same.

    All entries of an array along its axis in `axes` get the same number: rows may read their own.
    """
    marks = {}
    for k, (variable, value) in enumerate(values.items()):
        if variable in axes:
            axis = axes[variable]
            row = np.delete(np.array(np.shape(value)), axis)
            entries = hash_combine(k, np.arange(int(np.prod(row))).reshape(row))
            marks[variable] = np.broadcast_to(np.expand_dims(entries, axis), np.shape(value))
        elif not hasattr(variable, "get_value"):
            marks[variable] = hash_combine(k, np.arange(np.size(value)).reshape(np.shape(value)))
    return value_numbers([record], marks, values)[0]


def is_row_wise(record: Variable, values: Values, axes: Mapping[Variable, int], n: int) -> bool:
    """Whether row i reads entry i only, of every array with an axis of rows in `axes`."""
    labels = {v: np.full(np.shape(value), NONE) for v, value in values.items()}
    labels |= {v: row_numbers(np.shape(values[v]), axis) for v, axis in axes.items()}
    try:
        found = element_labels([record], labels, values)[record]
    except (NotCertified, *EVALUATION_ERRORS):
        return False
    own = np.arange(len(found))
    return len(found) == n and MIXED not in found and bool(np.all((found == own) | (found == NONE)))


def with_symbolic_count(record: Variable, axes: Mapping[Variable, int], n: int) -> Variable:
    """A graph that equals the given one at n records and reads their number off the data.

    `pt.zeros((n, 1))` beside the scores of other classes, a reshape to n rows, and the positions
    0, 1, ..., n - 1 hold the model's own number of records. Here it comes from the length of a
    private variable; whether rows are equivalent then, `depends_on_row_identity` has to prove. The
    graph itself is returned if it does not hold n. `axes` are the records axes of private inputs.
    """
    variable, axis = next(iter(axes.items()))
    size = variable.shape[axis]

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, Alloc) and any(_is_count(v, n) for v in node.inputs[1:]):
            return pt.alloc(inputs[0], *(size if _is_count(v, n) else v for v in inputs[1:]))
        if isinstance(node.op, Reshape) and isinstance(node.inputs[1], TensorConstant):
            sizes = [int(k) for k in node.inputs[1].data]
            if n in sizes:
                return inputs[0].reshape([size if k == n else k for k in sizes])
        if isinstance(node.op, SpecifyShape):
            return inputs[0]
        return None

    positions = {v: _symbolic_arange(v, n, size) for v in ancestors([record]) if _is_arange(v, n)}
    found = rebuild([record], positions, rule)[0]
    return record if found is record else simplify([found])[0]


def _is_count(variable: Variable, n: int) -> bool:
    """Whether it is the number n: a constant, or the length of a dim."""
    if isinstance(variable, TensorConstant):
        return variable.data.size == 1 and variable.data == n
    length = hasattr(variable, "get_value") and variable.type.ndim == 0
    return length and variable.type.dtype == "int64" and variable.get_value() == n


def _is_arange(variable: Variable, n: int) -> bool:
    """Whether a constant holds the whole numbers 0, 1, ..., n - 1 along one axis."""
    if not (isinstance(variable, TensorConstant) and variable.data.size == n > 1):
        return False
    whole = np.issubdtype(variable.data.dtype, np.integer)
    return n in variable.data.shape and whole and np.array_equal(variable.data.ravel(), range(n))


def _symbolic_arange(constant: TensorConstant, n: int, size: Variable) -> Variable:
    axis = constant.data.shape.index(n)
    others = tuple(a for a in range(constant.data.ndim) if a != axis)
    return pt.expand_dims(pt.arange(size, dtype=constant.type.dtype), others)


def check_row_equivalence(
    window: RecordWindow, sources: Sequence[Source], constants: str
) -> RecordWindow:
    """The window, marked by whether its rows differ.

    Where constants are private, rows that differ by structure of the model are refused.
    """
    if window.count == 1:
        return window
    inputs = window.sources(sources)
    rows = window.shifted, inputs, window.values, window.count
    differ = depends_on_row_identity(*rows)
    if constants == "private" and differ and not is_identified_by_data(*rows):
        raise structural_rows_error([window.name])
    return replace(window, rows_differ=differ)


def refuse_many_boundary_rows(windows: Sequence[RecordWindow], n: int) -> None:
    """Refuse factors with more boundary rows than the start of a sequence needs.

    Rows of a window are boundary rows if there are fewer than n - reach of them, where the reach is
    the widest span of offsets. A sequence has at most `reach` of them (at least one is allowed); a
    list of terms, one for each record, has more, and it may identify records.
    """
    names = sorted({window.name for window in windows})
    reach = max(max(window.offsets) - min(window.offsets) for window in windows)
    if max(window.count for window in windows) <= reach:
        if reach <= SHORT_REACH:
            raise _short_sequence_error(names, n, reach)
        raise structural_rows_error(names)
    for name in names:
        boundary = sum(w.count for w in windows if w.name == name and w.count < n - reach)
        if boundary > max(reach, 1):
            raise structural_rows_error([name])


def _short_sequence_error(factors: Sequence[str], n: int, reach: int) -> DomainError:
    """The error for a sequence of boundary rows only."""
    return DomainError(
        "the sequence is too short to tell what its rows have in common from what its ends have",
        got=f"{n} records, of which {', '.join(factors)} reads {reach + 1} at a time",
        allowed=f"at least {2 * reach + 1} records",
        do="use a longer sequence, or claim constants='public' if it is no secret how each record "
        "is read",
    )


def structural_rows_error(factors: Sequence[str]) -> DomainError:
    """The error for rows that differ by structure of the model."""
    return DomainError(
        "different records are computed differently, by structure written into the model",
        got=f"blocks, subsets, repeats, lists of terms or positions in {', '.join(factors)}",
        allowed="rows that differ by data variables only",
        do="hold what tells the records apart (a group, a time) in pm.Data and declare its domain "
        "or name it in public=, or claim constants='public' if it is no secret",
    )


def per_record_constants(
    factors: Sequence[Variable], values: dict[Variable, np.ndarray], n: int
) -> list[TensorConstant]:
    """Constants that may hold one entry per record.

    They have the length of the records axis, or are read row by row, such as a flattened predictor
    or a lag, whose length is not n.
    """
    arrays = [v for v in ancestors(list(factors)) if isinstance(v, TensorConstant)]
    return [
        v
        for v in arrays
        if n in np.shape(v.data)
        or (v.data.size > 1 and distinguishes_rows(factors, v, values | {v: v.data}))
    ]


def distinguishes_rows(factors: Sequence[Variable], variable: Variable, values: Values) -> bool:
    """Whether different rows read different elements of an array by position."""
    plain = {v: hash_combine(np.zeros(np.shape(value))) for v, value in values.items()}
    plain = {v: m for v, m in plain.items() if not hasattr(v, "get_value")}
    size, shape = np.size(values[variable]), np.shape(values[variable])
    marked = plain | {variable: hash_combine(np.arange(size).reshape(shape))}
    inputs = {v: value for v, value in values.items() if not isinstance(v, Constant)}
    before, after = (
        value_numbers(factors, marks, inputs, by_value=False) for marks in (plain, marked)
    )
    return any(
        _count_distinct_rows(b) < _count_distinct_rows(a)
        for b, a in zip(before, after, strict=True)
    )


def _count_distinct_rows(marks: np.ndarray) -> int:
    """Number of different rows of an array of numbers."""
    if marks.ndim == 0:
        return 1
    return len(np.unique(hash_sequence(marks.reshape(marks.shape[0], -1), (1,))))


def public_data(outs: Sequence[Variable]) -> list[Variable]:
    """Public data: the shared variables of a graph in which private variables are inputs."""
    return [v for v in ancestors(list(outs)) if v.owner is None and hasattr(v, "get_value")]
