"""The Lipschitz function ell(theta): what one record can change of the log-likelihood.

It is built as a graph in theta. Under substitution ell(theta) is the supremum over records
minus the infimum, of the terms of log p(x | theta) that read both; what reads the record
alone, or the parameters alone, cancels in every posterior. Under add/remove it is sup_x |log
p(x | theta)|. For any two parameter points the range is at most ell(theta) + ell(theta'), so
{ell <= L} has R <= 2 L (T24).
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.shape import Shape, Shape_i

from pymc_private.analysis import Bounds, propagate_bounds, simplify
from pymc_private.analysis.batched_bounds import BatchedFunction
from pymc_private.analysis.intervals.functions import without_symbolic_rounding
from pymc_private.analysis.rewrites.specialize import interaction_terms, specialize
from pymc_private.analysis.traversal import rebuild
from pymc_private.certificates.ball_range import variation_in_ball
from pymc_private.certificates.record_bounds import boxes_around, cells_of_each, distinct_rows
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import Source
from pymc_private.models.private_model import PrivateModel
from pymc_private.models.record_likelihood import SingleRecord, single_record
from pymc_private.privacy.neighbors import ADD_REMOVE

MOST_POINTS = 64
"""Most values of one variable that are bounded one by one."""
PIECES = 16
"""Most pieces an interval of one variable is split into."""
MOST_CELLS = 2048
"""Cells of records, times public rows, in one graph."""
MOST_GROUPS = 64
"""Graphs joined into one, where categories must be written into the graph."""
MOST_EVALUATED = 2**18
"""Numbers evaluated at once: cells times parameter points."""

Cell = dict[Variable, Bounds]


@dataclass(frozen=True, eq=False)
class Variation:
    """ell(theta), in nats, for the untempered likelihood of one record.

    Parameters
    ----------
    value : Variable, scalar
        Its graph (mode B: real arithmetic). Infinite where intervals prove nothing.
    parameters : dict of str to Variable
        Inputs, those it reads.
    """

    value: Variable
    parameters: dict[str, Variable]

    def at(self, points: Mapping[str, np.ndarray]) -> np.ndarray:
        """Upper bounds of ell, rounded outward, at N points: arrays of shape (N, *shape)."""
        return self.within(points, points)[1]

    def within(
        self, lower: Mapping[str, np.ndarray], upper: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of the graph on boxes whose bounds have the shape (N, *shape), rounded outward."""
        if not self.parameters:
            fact = propagate_bounds([self.value], {})[self.value]
            count = len(next(iter(lower.values())))
            return np.full(count, float(fact.lower)), np.full(
                count, _nan_to_inf(np.asarray(fact.upper))
            )
        count = len(lower[next(iter(self.parameters))])
        chunk = max(1, MOST_EVALUATED // max(1, self._batch.elements))
        parts = [self._values(lower, upper, slice(k, k + chunk)) for k in range(0, count, chunk)]
        low, high = (np.concatenate(each) for each in zip(*parts, strict=True))
        return low, _nan_to_inf(high)

    def _values(
        self, lower: Mapping[str, np.ndarray], upper: Mapping[str, np.ndarray], part: slice
    ) -> tuple[np.ndarray, np.ndarray]:
        given = {}
        for name, variable in self.parameters.items():
            low = np.asarray(lower[name][part], variable.type.dtype)
            same = upper[name] is lower[name]
            high = low if same else np.asarray(upper[name][part], variable.type.dtype)
            given[variable] = Bounds(low, high)
        return self._batch.values(given)

    @property
    def _batch(self) -> BatchedFunction:
        batch: BatchedFunction | None = self.__dict__.get("batch")
        if batch is None:
            batch = BatchedFunction(self.value, list(self.parameters.values()), ())
            object.__setattr__(self, "batch", batch)
        return batch

    def on(self, inputs: Mapping[str, Variable]) -> Variable:
        """The graph on other variables of the same shapes."""
        swaps = {v: inputs[name] for name, v in self.parameters.items()}
        return rebuild([self.value], swaps)[0]


def variation(private: PrivateModel) -> Variation:
    """Build ell(theta) from the record's graph: the record in its domain, theta symbolic.

    Reads no data. The graph holds for parameters in the model's box.

    Raises
    ------
    Unsupported
        An Op has no rule for symbolic bounds, or rows differ by how the model is written.
    """
    record = single_record(private.graph, private.sources, private.n, private.shapes)
    if record is None:
        raise _unsupported("rows that differ by how the model is written")
    add_remove = private.neighbors == ADD_REMOVE
    value = joint_value(private, record)
    read = set(ancestors([value]))
    parameters = {name: v for name, v in record.parameters.items() if v in read}
    sources = [s for s in private.sources if record.data[s.name] in read]
    if not parameters or not (sources or add_remove):
        return Variation(pt.constant(0.0), {})
    bounds_of = {record.data[s.name]: s.domain.bounds(s.row_shape) for s in sources}
    closed = None if add_remove or record.public else variation_in_ball(value, bounds_of)
    if closed is not None:
        return Variation(closed, parameters)
    rows = _public_row_cells({v: values for v, values in record.public.items() if v in read})
    low, high = _symbolic_bounds(
        value, parameters, [(record.data[s.name], s) for s in sources], rows
    )
    if add_remove:
        total = pt.maximum(high.max(), -low.min())
    else:
        total = (high.max(axis=1) - low.min(axis=1)).max()
    total = simplify([pt.switch(pt.isnan(total), np.inf, total)])[0]
    read = set(ancestors([total]))
    return Variation(total, {name: v for name, v in parameters.items() if v in read})


def joint_value(private: PrivateModel, record: SingleRecord) -> Variable:
    """log p(x | theta) on the box, without what cancels (T1); under add/remove nothing does."""
    data = list(record.data.values())
    whole = {record.data[s.name]: s.domain.bounds(s.row_shape) for s in private.sources}
    whole |= {record.parameters[name]: b for name, b in private.box.items()}
    whole |= {v: Bounds(r.min(axis=0), r.max(axis=0)) for v, r in record.public.items()}
    parameters = list(record.parameters.values())
    varying = data + parameters if private.neighbors == ADD_REMOVE else data
    value = specialize(_without_parameter_checks(record.value, set(data)), whole)
    return interaction_terms(value, varying, parameters)


def _without_parameter_checks(value: Variable, data: set[Variable]) -> Variable:
    """The value without conditions on parameters alone, which fail or hold whatever the data."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, CheckAndRaise) and data.isdisjoint(ancestors(node.inputs[1:])):
            return inputs[0]
        return None

    leaves = {v: v for v in ancestors([value]) if v.owner is None}
    return rebuild([value], leaves, rule)[0]


def _public_row_cells(public: Mapping[Variable, np.ndarray]) -> list[Cell]:
    """Boxes around the distinct rows of what is public and differs from row to row."""
    low, high = boxes_around(distinct_rows(list(public.values())))
    cells: list[Cell] = [{} for _ in low]
    start = 0
    for v, values in public.items():
        shape = values.shape[1:]
        part = slice(start, start := start + int(np.prod(shape)))
        for cell, down, up in zip(cells, low, high, strict=True):
            first, last = (side[part].reshape(shape).astype(v.type.dtype) for side in (down, up))
            cell[v] = Bounds.point(first) if np.array_equal(first, last) else Bounds(first, last)
    return cells


def _symbolic_bounds(
    value: Variable,
    parameters: Mapping[str, Variable],
    sources: Sequence[tuple[Variable, Source]],
    rows: list[Cell],
) -> tuple[Variable, Variable]:
    """Lower and upper bounds of `value`, as graphs of shape (public rows, cells of records)."""
    theta = {v: Bounds(v, v) for v in parameters.values()}
    cells = _record_cells(sources, max(1, MOST_CELLS // len(rows)))
    found = _batched_bounds(value, theta, [row | cell for row in rows for cell in cells])
    if found is None:
        cells = _record_cells(sources, max(1, MOST_GROUPS // len(rows)))
        if len(rows) * len(cells) > MOST_GROUPS:
            raise _unsupported("too many records to be written into one graph")
        found = _bounds_cell_by_cell(value, theta, [row | cell for row in rows for cell in cells])
    low, high = (side.reshape((len(rows), len(cells))) for side in found)
    return low, high


def _record_cells(sources: Sequence[tuple[Variable, Source]], most: int) -> list[Cell]:
    """Cells that cover all records: fewer pieces of each variable if they are too many."""
    choices = cells_of_each(
        lambda pieces: [_source_cells(v, source, pieces) for v, source in sources],
        [source.domain.bounds(source.row_shape) for _, source in sources],
        MOST_POINTS,
        most,
    )
    names = [v for v, _ in sources]
    return [dict(zip(names, cell, strict=True)) for cell in itertools.product(*choices)]


def _source_cells(variable: Variable, source: Source, most: int) -> list[Bounds]:
    """Cells of one variable; points are of its own type."""
    most = most if source.is_whole else min(most, PIECES)
    cells = source.domain.cells(source.row_shape, source.is_whole, most)
    return [
        Bounds.point(cell.lower.astype(variable.type.dtype)) if cell.is_point else cell
        for cell in cells
    ]


def _batched_bounds(
    value: Variable, theta: Mapping[Variable, Bounds], cells: Sequence[Cell]
) -> tuple[Variable, Variable] | None:
    """Bounds on all cells in one walk, along a new first axis; None where a rule is missing."""
    swaps, given = {}, dict(theta)
    for v in cells[0]:
        stacked = pt.TensorType(v.type.dtype, shape=(len(cells), *v.type.shape))(name=v.name)
        swaps[v] = stacked
        low, high = (np.stack([getattr(c[v], side) for c in cells]) for side in ("lower", "upper"))
        points = all(c[v].is_point for c in cells)
        given[stacked] = Bounds.point(low) if points else Bounds(low, high, cells[0][v].within)
    whole = simplify(vectorize_graph([value], replace=swaps))[0] if swaps else value
    with without_symbolic_rounding():
        fact = propagate_bounds([whole], given)[whole]
    if not fact.is_symbolic:
        return None
    shape = (len(cells),)
    low, high = (pt.broadcast_to(pt.as_tensor(side), shape) for side in (fact.lower, fact.upper))
    return low, high


def _bounds_cell_by_cell(
    value: Variable, theta: Mapping[Variable, Bounds], cells: Sequence[Cell]
) -> tuple[Variable, Variable]:
    """Bounds cell by cell, with the entries that are known written into the graph."""
    found = []
    for cell in cells:
        known = {v: pt.constant(b.lower, name=v.name) for v, b in cell.items() if b.is_point}
        written = simplify(rebuild([value], known, _known_sizes))[0]
        given = {v: b for v, b in cell.items() if not b.is_point}
        with without_symbolic_rounding():
            fact = propagate_bounds([written], given | dict(theta))[written]
        if not fact.is_symbolic:
            raise _unsupported("an operation without a rule for symbolic bounds")
        found.append((fact.lower, fact.upper))
    low, high = (pt.stack(list(map(pt.as_tensor, side))) for side in zip(*found, strict=True))
    return low, high


def _known_sizes(node: Apply, inputs: list[Variable]) -> Variable | None:
    """The known sizes of an array, which PyTensor 2 leaves to be computed."""
    if not isinstance(node.op, Shape | Shape_i):
        return None
    shape = inputs[0].type.shape
    sizes = shape if isinstance(node.op, Shape) else shape[node.op.i]
    return None if sizes is None or None in np.ravel(sizes) else pt.constant(sizes, dtype="int64")


def _nan_to_inf(upper: np.ndarray) -> np.ndarray:
    """An upper bound, infinite where nothing is known."""
    return np.where(np.isnan(upper), np.inf, upper)


def _unsupported(got: str) -> Unsupported:
    return Unsupported(
        "how much one record can change the likelihood is not known as a function of parameters",
        got=got,
        allowed="likelihoods whose operations have a rule for symbolic bounds, row by row",
        do="pmp.trim(private, lipschitz=L, shape='box'), mass= or box= need no such function",
    )
