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
from pymc_private.analysis.intervals.dispatch import EVALUATION_ERRORS
from pymc_private.analysis.row_equivalence import hash_combine, hash_sequence, value_numbers
from pymc_private.analysis.traversal import rebuild
from pymc_private.errors import DomainError, NotCertified
from pymc_private.models.data_variables import Source
from pymc_private.models.sequences.windows import RecordWindow

Values = Mapping[Variable, np.ndarray]
"""Stand-ins for every input of a graph: parameters, private variables, public data."""


STACKED_ROWS = 129
"""Rows in every walk that stacks cells of records: the number the proof was made for."""


def public_data(outs: Sequence[Variable]) -> list[Variable]:
    """Shared variables that are left: public data."""
    return [v for v in ancestors(list(outs)) if v.owner is None and hasattr(v, "get_value")]


def depends_on_row_identity(
    record: Variable, data: Mapping[Variable, Source], values: Values, n: int
) -> bool:
    """Whether what a row computes depends on which row it is, or on how many there are.

    Parameters
    ----------
    record : Variable, shape (n,)
        One record's log-likelihood, private variables symbolic.
    data : mapping of Variable to Source
        The private inputs.
    values : mapping of Variable to array
    n : int
        Number of records in the model.

    Returns
    -------
    bool
        False only if each of n rows, of 2, of 3 and of `STACKED_ROWS` rows carries one and the same
        expression (`analysis.row_equivalence`), and reads its own record and no other: expressions say
        what is computed of a record, not of which. Then a bound for one row holds for all, and 2 or
        `STACKED_ROWS` rows may be stacked in a walk. Otherwise the graph is walked with all n rows.
    """
    seen = []
    counts = [n, 2, 3, STACKED_ROWS]
    axes = {v: source.axis for v, source in data.items()}
    for count in counts:
        sized = _with_row_count(data, values, count)
        try:
            seen.append(row_expressions(record, sized, axes))
        except (NotCertified, *EVALUATION_ERRORS):
            return True  # the model's own n stands somewhere in the graph
        if count != n and not is_row_wise(record, sized, axes, count):
            return True  # of n rows this is known before
    first = seen[0][:1]
    lengths = [len(rows) for rows in seen]
    return lengths != counts or any(np.any(rows != first) for rows in seen)


def is_identified_by_data(
    record: Variable, data: Mapping[Variable, Source], values: Values, n: int
) -> bool:
    """Whether public data variables alone tell the rows apart, and nothing written into the code.

    Each public array with one axis of n entries is taken for one more private variable; then all
    rows must carry one expression. What is left is structure: blocks, subsets, repeats, a list of
    terms, a place in the sequence. It may say which record is which.
    """
    known = [v for v in values if hasattr(v, "get_value") and np.shape(values[v]).count(n) == 1]
    axes = {v: np.shape(values[v]).index(n) for v in known}
    axes |= {v: source.axis for v, source in data.items()}
    try:
        rows = _stand_in_expressions(record, data, values, n, axes)
    except (NotCertified, *EVALUATION_ERRORS):
        return False
    return len(rows) == n and bool(np.all(rows == rows[:1]))


def _stand_in_expressions(
    record: Variable,
    data: Mapping[Variable, Source],
    values: Values,
    count: int,
    axes: Mapping[Variable, int] | None = None,
) -> np.ndarray:
    """Mark of each row's expression, with `count` rows; by `axes` each row's entry has one mark."""
    axes = {v: source.axis for v, source in data.items()} if axes is None else axes
    return row_expressions(record, _with_row_count(data, values, count), axes)


def _with_row_count(data: Mapping[Variable, Source], values: Values, count: int) -> dict:
    """The stand-ins, so many rows of each private variable."""
    return dict(values) | {v: source.stand_in(count) for v, source in data.items()}


def is_row_wise(record: Variable, values: Values, axes: Mapping[Variable, int], n: int) -> bool:
    """Whether row i reads entry i only, of every array that has an axis of rows."""
    labels = {v: np.full(np.shape(value), NONE) for v, value in values.items()}
    for v, axis in axes.items():
        shape = np.shape(values[v])
        row = np.expand_dims(np.arange(n), tuple(a for a in range(len(shape)) if a != axis))
        labels[v] = np.broadcast_to(row, shape)
    try:
        found = element_labels([record], labels, values)[record]
    except (NotCertified, *EVALUATION_ERRORS):
        return False
    own = np.arange(len(found))
    return len(found) == n and MIXED not in found and bool(np.all((found == own) | (found == NONE)))


def row_expressions(record: Variable, values: Values, axes: Mapping[Variable, int]) -> np.ndarray:
    """Mark of each row's expression; by `axes` each row's entry of an array has one mark."""
    marks = {}
    for k, (variable, value) in enumerate(values.items()):
        if variable in axes:
            axis = axes[variable]
            row = np.delete(np.array(np.shape(value)), axis)
            places = hash_combine(k, np.arange(int(np.prod(row))).reshape(row))
            marks[variable] = np.broadcast_to(np.expand_dims(places, axis), np.shape(value))
        elif not hasattr(variable, "get_value"):
            marks[variable] = hash_combine(k, np.arange(np.size(value)).reshape(np.shape(value)))
    return value_numbers([record], marks, values)[0]


def per_record_constants(
    factors: Sequence[Variable], values: dict[Variable, np.ndarray], n: int
) -> list[TensorConstant]:
    """Constants that may hold one entry per record.

    They are as long as the records axis, or read row by row: a flattened predictor or a lag, whose
    length is not n.
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
    """Number of different rows."""
    if marks.ndim == 0:
        return 1
    return len(np.unique(hash_sequence(marks.reshape(marks.shape[0], -1), (1,))))


def with_symbolic_count(record: Variable, axes: Mapping[Variable, int], n: int) -> Variable:
    """A graph that is the given one at n records, and may say what it is at other counts.

    `pt.zeros((n, 1))` beside the scores of other classes, a reshape to n rows, and the positions
    0, 1, ..., n - 1 hold on to the model's own number of records. Here n comes from the length of
    a private variable. What rows compute then is for a proof to say (`pinning.is_pinned`).

    Parameters
    ----------
    record : Variable
    axes : mapping of Variable to int
        The private inputs, and their records axes.
    n : int
        Number of records in the model.

    Returns
    -------
    Variable
        The given one if no n is written in it.
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
    return isinstance(variable, TensorConstant) and variable.data.size == 1 and variable.data == n


def _is_arange(variable: Variable, n: int) -> bool:
    """Whether a constant is 0, 1, ..., n - 1 along one axis, of whole numbers."""
    if not (isinstance(variable, TensorConstant) and variable.data.size == n > 1):
        return False
    whole = np.issubdtype(variable.data.dtype, np.integer)
    return n in variable.data.shape and whole and np.array_equal(variable.data.ravel(), range(n))


def _symbolic_arange(constant: TensorConstant, n: int, size: Variable) -> Variable:
    axis = constant.data.shape.index(n)
    others = tuple(a for a in range(constant.data.ndim) if a != axis)
    return pt.expand_dims(pt.arange(size, dtype=constant.type.dtype), others)


SHORT_REACH = 2
"""Records that a sequence reads back; where they are more, it is no sequence as a rule."""


def check_row_equivalence(
    window: RecordWindow, sources: Sequence[Source], constants: str
) -> RecordWindow:
    """The window, marked as pinned unless all of its rows carry one expression.

    Raises
    ------
    DomainError
        Rows differ by how the model was written, and constants are private.
    """
    if window.count == 1:
        return window
    inputs = window.sources(sources)
    pinned = depends_on_row_identity(window.shifted, inputs, window.values, window.count)
    told = not pinned or is_identified_by_data(window.shifted, inputs, window.values, window.count)
    if constants == "private" and not told:
        raise structural_rows_error([window.name])
    return replace(window, pinned=pinned)


def refuse_many_boundary_rows(windows: Sequence[RecordWindow], n: int) -> None:
    """Refuse more records with factor rows of their own than the two ends of a sequence have.

    A sequence needs a start; a list of terms, one for each record, may say which record is which.
    """
    reach = max(max(window.offsets) - min(window.offsets) for window in windows)
    if max(window.count for window in windows) <= reach:
        names = sorted({window.name for window in windows})
        raise (
            _short_sequence_error(names, n, reach)
            if reach <= SHORT_REACH
            else structural_rows_error(names)
        )
    for name in sorted({window.name for window in windows}):
        short = sum(w.count for w in windows if w.name == name and w.count < n - reach)
        if short > max(reach, 1):
            raise structural_rows_error([name])


def _short_sequence_error(factors: Sequence[str], n: int, reach: int) -> DomainError:
    """The refusal of a sequence that is all ends."""
    return DomainError(
        "the sequence is too short to tell what its rows have in common from what its ends have",
        got=f"{n} records, of which {', '.join(factors)} reads {reach + 1} at a time",
        allowed=f"at least {2 * reach + 1} records",
        do="use a longer sequence, or claim constants='public' if it is no secret how each record "
        "is read",
    )


def structural_rows_error(factors: Sequence[str]) -> DomainError:
    """The refusal of rows that differ by how the model was written."""
    return DomainError(
        "different records are computed differently, by structure written into the model",
        got=f"blocks, subsets, repeats, lists of terms or positions in {', '.join(factors)}",
        allowed="rows that differ by data variables only",
        do="hold what tells the records apart (a group, a time) in pm.Data and declare its domain "
        "or name it in public=, or claim constants='public' if it is no secret",
    )
