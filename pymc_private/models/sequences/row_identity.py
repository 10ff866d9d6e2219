"""What tells the rows of a record graph apart: public arrays, positions, or their number."""

from __future__ import annotations

import numpy as np
from collections.abc import Mapping, Sequence
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.variable import TensorConstant
from pymc_private.analysis import MIXED, NONE, row_labels
from pymc_private.analysis.row_equivalence__expressions import expressions, fold, mix
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.errors import NotCertified
from pymc_private.models.data_variables import Source

Values = Mapping[Variable, np.ndarray]
"""Stand-ins for every input of a graph: parameters, private variables, public data."""


STACKED = 129
"""Rows in every walk that stacks cells of records: the number the proof was made for."""


def public_data(outs: Sequence[Variable]) -> list[Variable]:
    """Shared variables that are left: public data."""
    return [v for v in ancestors(list(outs)) if v.owner is None and hasattr(v, "get_value")]


def is_pinned(record: Variable, data: Mapping[Variable, Source], values: Values, n: int) -> bool:
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
        False only if each of n rows, of 2, of 3 and of `STACKED` rows carries one and the same
        expression (`analysis.row_equivalence__expressions`), and reads its own record and no other: expressions say
        what is computed of a record, not of which. Then a bound for one row holds for all, and 2 or
        `STACKED` rows may be stacked in a walk. Otherwise the graph is walked with all n rows.
    """
    seen = []
    counts = [n, 2, 3, STACKED]
    axes = {v: source.axis for v, source in data.items()}
    for count in counts:
        sized = _sized(data, values, count)
        try:
            seen.append(expressions_of_rows(record, sized, axes))
        except (NotCertified, *UNCOMPUTABLE):
            return True  # the model's own n stands somewhere in the graph
        if count != n and not is_row_wise(record, sized, axes, count):
            return True  # of n rows this is known before
    first = seen[0][:1]
    lengths = [len(rows) for rows in seen]
    return lengths != counts or any(np.any(rows != first) for rows in seen)


def is_told(record: Variable, data: Mapping[Variable, Source], values: Values, n: int) -> bool:
    """Whether public data variables alone tell the rows apart, and nothing written into the code.

    Each public array with one axis of n entries is taken for one more private variable; then all
    rows must carry one expression. What is left is structure: blocks, subsets, repeats, a list of
    terms, a place in the sequence. It may say which record is which.
    """
    known = [v for v in values if hasattr(v, "get_value") and np.shape(values[v]).count(n) == 1]
    axes = {v: np.shape(values[v]).index(n) for v in known}
    axes |= {v: source.axis for v, source in data.items()}
    try:
        rows = _row_expressions(record, data, values, n, axes)
    except (NotCertified, *UNCOMPUTABLE):
        return False
    return len(rows) == n and bool(np.all(rows == rows[:1]))


def _row_expressions(
    record: Variable,
    data: Mapping[Variable, Source],
    values: Values,
    count: int,
    axes: Mapping[Variable, int] | None = None,
) -> np.ndarray:
    """Mark of each row's expression, with `count` rows; by `axes` each row's entry has one mark."""
    axes = {v: source.axis for v, source in data.items()} if axes is None else axes
    return expressions_of_rows(record, _sized(data, values, count), axes)


def _sized(data: Mapping[Variable, Source], values: Values, count: int) -> dict:
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
        found = row_labels([record], labels, values)[record]
    except (NotCertified, *UNCOMPUTABLE):
        return False
    own = np.arange(len(found))
    return len(found) == n and MIXED not in found and bool(np.all((found == own) | (found == NONE)))


def expressions_of_rows(
    record: Variable, values: Values, axes: Mapping[Variable, int]
) -> np.ndarray:
    """Mark of each row's expression; by `axes` each row's entry of an array has one mark."""
    marks = {}
    for k, (variable, value) in enumerate(values.items()):
        if variable in axes:
            axis = axes[variable]
            row = np.delete(np.array(np.shape(value)), axis)
            places = mix(k, np.arange(int(np.prod(row))).reshape(row))
            marks[variable] = np.broadcast_to(np.expand_dims(places, axis), np.shape(value))
        elif not hasattr(variable, "get_value"):
            marks[variable] = mix(k, np.arange(np.size(value)).reshape(np.shape(value)))
    return expressions([record], marks, values)[0]


def row_arrays(
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
        or (v.data.size > 1 and tells_rows_apart(factors, v, values | {v: v.data}))
    ]


def tells_rows_apart(factors: Sequence[Variable], variable: Variable, values: Values) -> bool:
    """Whether different rows read different elements of an array by position."""
    plain = {v: mix(np.zeros(np.shape(value))) for v, value in values.items()}
    plain = {v: m for v, m in plain.items() if not hasattr(v, "get_value")}
    size, shape = np.size(values[variable]), np.shape(values[variable])
    marked = plain | {variable: mix(np.arange(size).reshape(shape))}
    inputs = {v: value for v, value in values.items() if not isinstance(v, Constant)}
    before, after = (
        expressions(factors, marks, inputs, by_value=False) for marks in (plain, marked)
    )
    return any(_kinds(b) < _kinds(a) for b, a in zip(before, after, strict=True))


def _kinds(marks: np.ndarray) -> int:
    """Number of different rows."""
    if marks.ndim == 0:
        return 1
    return len(np.unique(fold(marks.reshape(marks.shape[0], -1), (1,))))
