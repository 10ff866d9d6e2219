"""Sums over records rewritten as one term per record, whatever the number of records.

A log-likelihood may be written as one number, f(x_1, ..., x_n; theta). Here it is rewritten as
sum_i l(x_i, theta) + c(theta), by rules that are identities for every n:

- the number of records is sum_i 1, so x.shape[0] * a(theta) is a(theta) per record;
- what is broadcast along the records is repeated once per record;
- sums, products with numbers and inner products over the records are taken term by term.

c reads neither a record nor their number. So f with one record more is f plus one more l,
which is what add/remove neighbors are compared by (T24). Whatever no rule covers, a mean over
records among it, is no such sum as far as is known here: `NotASum`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Cast
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Prod, Sum
from pytensor.tensor.shape import Shape, Shape_i
from pytensor.tensor.subtensor import Subtensor, indices_from_subtensor

from pymc_private.analysis.record_dependence import NONE, ConcreteValues, element_labels
from pymc_private.analysis.rewrites.algebra import (
    SUM_PRESERVING_OPS,
    SUMMABLE_DTYPES,
    elementwise_products,
    is_real_sum,
    joined_arrays,
    signed_terms,
)
from pymc_private.analysis.traversal import EVALUATION_ERRORS, rebuild
from pymc_private.errors import NotCertified

TEST_COUNTS = (2, 3, 129)
"""Numbers of records at which shapes are compared, beside one more than there are: an axis that is
as long as each of them is the records axis."""

StandInsBySize = Callable[[int], Mapping[Variable, np.ndarray]]
"""Public stand-ins for every input, by the number of records of the private ones."""


class NotASum(Exception):
    """No rule takes a part of a factor to one term per record.

    Attributes
    ----------
    op : str
        The operation that stands in the way.
    """

    def __init__(self, variable: Variable) -> None:
        self.op = str(variable.owner.op) if variable.owner is not None else str(variable)
        super().__init__(self.op)


@dataclass(frozen=True, eq=False)
class RecordSum:
    """A number as a sum over records.

    Parameters
    ----------
    rows : list of Variable, shape (n,)
        Entry i reads record i and no other; all entries and `rest` add up to the number.
    rest : list of Variable, scalars
        They read neither a record nor the number of records.
    """

    rows: list[Variable]
    rest: list[Variable]


class RecordSumSplitter:
    """Rewrites factors of one model as sums over records.

    Parameters
    ----------
    axes : mapping of Variable to int
        The private inputs, of any length along these records axes.
    sized : callable
        Stand-ins by number of records.
    n : int
        Number of records in the model: rows are shown to be row-wise with that many.
    """

    def __init__(self, axes: Mapping[Variable, int], sized: StandInsBySize, n: int) -> None:
        self._axes, self._n = dict(axes), n
        self._count = pt.lscalar("number_of_records")
        self._counts = (*TEST_COUNTS, n + 1)
        sizes = {k: dict(sized(k)) | {self._count: np.asarray(k)} for k in {*TEST_COUNTS, n, n + 1}}
        self._values = sizes[n]
        self._concrete = [ConcreteValues(sizes[k]) for k in self._counts]

    def reads(self, variable: Variable) -> bool:
        """Whether a variable reads a record or their number."""
        return any(v is self._count or v in self._axes for v in ancestors([variable]))

    def split(self, term: Variable) -> RecordSum:
        """The sum of all elements of `term`, record by record.

        Raises
        ------
        NotASum
            Naming the operation for which there is no rule.
        """
        rows, rest = [], []
        queue = [self._counted(term)]
        while queue:
            part = queue.pop()
            if not self.reads(part):
                rest.append(part.sum())
                continue
            own = self._rows(self._of_data(part), self._sizes(part))
            if own is not None:
                rows.append(own)
                continue
            parts = self._parts(part)
            if parts is None:
                raise NotASum(part)
            queue += parts
        return RecordSum(rows, rest)

    def _counted(self, term: Variable) -> Variable:
        """The same graph with the number of records as an input of its own."""
        leaves = {v: v for v in ancestors([term]) if v.owner is None}
        return rebuild([term], leaves, self._size)[0]

    def _size(self, node: Apply, inputs: list[Variable]) -> Variable | None:
        """A rule of `rebuild` for shapes, an entry of a shape, and the product of its entries."""
        if isinstance(node.op, Shape | Shape_i):
            sizes = self._sizes(node.inputs[0])
            if sizes is None:
                return None
            found = [pt.constant(k, dtype="int64") if k else self._count for k in sizes]
            if isinstance(node.op, Shape_i):
                return found[node.op.i]
            return MakeVector("int64")(*found) if found else None
        entries = _vector_entries(inputs[0]) if isinstance(node.op, Prod | Subtensor) else None
        if entries is None:
            return None
        if isinstance(node.op, Prod):
            return pt.mul(*entries) if len(entries) > 1 else entries[0]
        (index,) = indices_from_subtensor(inputs[1:], node.op.idx_list)
        at = index.data if isinstance(index, Constant) else index
        return entries[int(at)] if isinstance(at, int | np.integer | np.ndarray) else None

    def _sizes(self, variable: Variable) -> tuple[int, ...] | None:
        """The shape, with 0 for the number of records; None where it is another function of it."""
        try:
            shapes = [concrete.shape(variable) for concrete in self._concrete]
        except (NotCertified, *EVALUATION_ERRORS):
            return None
        found = []
        for sizes in zip(*shapes, strict=True):
            if sizes == self._counts:
                found.append(0)
            elif len(set(sizes)) == 1 and sizes[0] > 0:
                found.append(sizes[0])
            else:
                return None
        return tuple(found)

    def _rows(self, part: Variable, sizes: tuple[int, ...] | None) -> Variable | None:
        """The part added up to one entry per record, if its elements are of one record each."""
        if sizes is None or sizes.count(0) != 1:
            return None
        axis, values = sizes.index(0), self._values
        labels = {v: np.full(np.shape(value), NONE) for v, value in values.items()}
        for v, own in self._axes.items():
            labels[v] = _index_along(np.shape(values[v]), own)
        try:
            found = element_labels([part], labels, values)[part]
        except (NotCertified, *EVALUATION_ERRORS):
            return None
        row = _index_along(found.shape, axis)
        if found.shape[axis] != self._n or not np.all((found == row) | (found == NONE)):
            return None
        return part.sum(axis=tuple(k for k in range(part.type.ndim) if k != axis))

    def _of_data(self, part: Variable) -> Variable:
        """The graph with the number of records read off the data again."""
        variable, axis = next(iter(self._axes.items()))
        return rebuild([part], {self._count: variable.shape[axis]})[0]

    def _parts(self, variable: Variable) -> list[Variable] | None:
        """Variables whose elements add up to the sum of those of another; None without a rule."""
        if variable is self._count:
            return [pt.alloc(np.float64(1.0), self._count)]
        node = variable.owner
        if node is None or variable.type.dtype not in SUMMABLE_DTYPES:
            return None
        if isinstance(node.op, SUM_PRESERVING_OPS):
            return [node.inputs[0]] if is_real_sum(node) else None
        if isinstance(node.op, MakeVector):
            return list(node.inputs)
        if isinstance(node.op, Join):
            return list(joined_arrays(node))
        if isinstance(node.op, Dot):
            return [elementwise_products(node)]
        if isinstance(node.op, CheckAndRaise):
            return self._checked(node)
        return self._of_elementwise(node) if isinstance(node.op, Elemwise) else None

    def _checked(self, node: Apply) -> list[Variable] | None:
        """A public condition stays with each part."""
        if any(map(self.reads, node.inputs[1:])):
            return None
        inner = self._parts(node.inputs[0])
        return None if inner is None else [node.op(part, *node.inputs[1:]) for part in inner]

    def _of_elementwise(self, node: Apply) -> list[Variable] | None:
        """Terms of a sum, and of a sum times a number."""
        op, first, out = node.op.scalar_op, node.inputs[0], node.outputs[0]
        if isinstance(op, ps.Add | ps.Sub):
            return self._spread(signed_terms(node), self._sizes(out))
        if isinstance(op, ps.Second):
            return self._spread(node.inputs[1:], self._sizes(out))
        if isinstance(op, ps.Neg):
            inner = self._parts(first)
            return None if inner is None else [-pt.cast(part, out.type.dtype) for part in inner]
        if isinstance(op, Cast):
            inner = self._parts(first) if np.can_cast(first.type.dtype, out.type.dtype) else None
            return None if inner is None else [pt.cast(part, out.type.dtype) for part in inner]
        if isinstance(op, ps.Mul | ps.TrueDiv):
            return self._scaled(node)
        return None

    def _spread(
        self, terms: Sequence[Variable], sizes: tuple[int, ...] | None
    ) -> list[Variable] | None:
        """The terms, each broadcast to the shape of their sum."""
        if sizes is None:
            return None
        shape = [pt.constant(k, dtype="int64") if k else self._count for k in sizes]
        return [t if self._sizes(t) == sizes else pt.alloc(t, *shape) for t in terms]

    def _scaled(self, node: Apply) -> list[Variable] | None:
        """The only factor that reads records, times (or over) numbers that read none."""
        reading = [k for k, v in enumerate(node.inputs) if self.reads(v)]
        divides = isinstance(node.op.scalar_op, ps.TrueDiv)
        if len(reading) != 1 or (divides and reading != [0]):
            return None
        read = node.inputs[reading[0]]
        # Products of narrow integers, and quotients in single precision, would be other numbers.
        others = [pt.cast(v, "float64") for k, v in enumerate(node.inputs) if k != reading[0]]
        number = 1.0 / others[0] if divides else pt.mul(*others) if len(others) > 1 else others[0]
        if self._sizes(number) == (1,) * number.type.ndim:
            inner = self._parts(read)
            return None if inner is None else [part * number.sum() for part in inner]
        if self._sizes(read) == (1,) * read.type.ndim:  # a single sum times an array of numbers
            return [read.sum() * number.sum()]
        return _multiplied_inside(read.owner, number)


def _index_along(shape: tuple[int, ...], axis: int) -> np.ndarray:
    """The position of each element of an array along one axis."""
    apart = tuple(k for k in range(len(shape)) if k != axis)
    return np.broadcast_to(np.expand_dims(np.arange(shape[axis]), apart), shape)


def _vector_entries(vector: Variable) -> list[Variable] | None:
    """The entries of a vector that was made of numbers, whatever type it was cast to."""
    node = vector.owner
    if node is None:
        return None
    if isinstance(node.op, MakeVector):
        return [pt.cast(v, vector.type.dtype) for v in node.inputs]
    if isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast):
        inner = _vector_entries(node.inputs[0])
        return None if inner is None else [pt.cast(v, vector.type.dtype) for v in inner]
    return None


def _multiplied_inside(node: Apply | None, number: Variable) -> list[Variable] | None:
    """An array of sums times an array of numbers: each number moved to the terms of its sum."""
    if node is None:
        return None
    if isinstance(node.op, Sum) and is_real_sum(node):
        (terms,) = node.inputs
        axes = range(terms.type.ndim) if node.op.axis is None else node.op.axis
        return [terms * pt.expand_dims(number, tuple(sorted(k % terms.type.ndim for k in axes)))]
    if isinstance(node.op, Dot) and node.outputs[0].type.dtype in SUMMABLE_DTYPES:
        return [elementwise_products(node) * pt.expand_dims(number, node.inputs[0].type.ndim - 1)]
    if isinstance(node.op, DimShuffle):
        return [_multiplied_before_dimshuffle(node, number)]
    if isinstance(node.op, MakeVector):
        each = number + pt.zeros(len(node.inputs))
        return [v * each[k] for k, v in enumerate(node.inputs)]
    return None


def _multiplied_before_dimshuffle(node: Apply, number: Variable) -> Variable:
    """The input of a DimShuffle, times numbers with their axes moved back."""
    order = node.op.new_order
    kept = [k for k in order if k != "x"]
    added = tuple(k for k, axis in enumerate(order) if axis == "x")
    whole = number.sum(axis=added) if added else number
    (inner,) = node.inputs
    return inner * whole.dimshuffle(
        *(kept.index(k) if k in kept else "x" for k in range(inner.type.ndim))
    )
