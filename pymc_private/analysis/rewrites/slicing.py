"""Slices moved to the leaves of a graph, and arrays split where they were joined, with proofs.

(a + b)[1:] is a[1:] + b[1:]. ``concatenate([[0], y[:-1]])`` reads the record before in all
rows but the first; a difference of differences, ``d[1:] - d[:-1]``, reads records through
slices of slices. Part by part, with every slice one of a leaf, such graphs read neighbors as
plainly as ``y[1:]`` given ``y[:-1]`` does. That each form is the same function is proved by
the value numbers of every element (`analysis.row_equivalence`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Cast
from pytensor.tensor.basic import Alloc, Join, MakeVector
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import All
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, Subtensor, indices_from_subtensor
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis.intervals.arrays import INDEXING_OPS
from pymc_private.analysis.record_dependence import CONJUNCTION_OPS, ConcreteValues
from pymc_private.analysis.rewrites.algebra import joined_arrays
from pymc_private.analysis.row_equivalence import hash_combine, hash_values, value_numbers
from pymc_private.analysis.traversal import (
    EVALUATION_ERRORS,
    arrays_joined_along,
    rebuild,
    rebuild_by_rule,
)

Ranges = tuple[tuple[int, int], ...]
"""First and past-last position along each axis."""


MOST_JOINS = 8
"""Positions in an array at which its rows are split."""


def split_at_joins(
    variable: Variable, reads: Callable[[Variable], bool], prover: SliceProver
) -> list[Variable] | None:
    """All rows in order, split along the first axis where arrays were joined.

    `reads` tells whether a variable reads a record. None where nothing was joined, or without a
    proof.
    """
    shape = prover.concrete.shape(variable)
    found = _join_positions(variable, 0, prover.concrete, {}) if shape else set()
    joins = sorted(k for k in found if 0 < k < shape[0])
    if not 0 < len(joins) <= MOST_JOINS:
        return None
    slicer = Slicer(prover.concrete, reads)
    try:
        blocks = [
            slicer.sliced(variable, (pair, *full_ranges(shape[1:])))
            for pair in itertools.pairwise([0, *joins, shape[0]])
        ]
    except (NotSliceable, *EVALUATION_ERRORS):
        return None
    return blocks if prover.proves(slicer.moved) else None


def slices_of_leaves(
    variable: Variable, reads: Callable[[Variable], bool], prover: SliceProver
) -> Variable | None:
    """The same graph with slices of leaves only, where slices of slices or of sums can be moved.

    Slices of what does not read a record, by `reads`, stay. None where nothing moves, or without a
    proof.
    """
    slicer = Slicer(prover.concrete)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, Shape | Shape_i):  # the number of records is public here
            return pt.constant(prover.concrete(node.outputs[0]))
        if not isinstance(node.op, Subtensor) or not reads(node.outputs[0]):
            return None
        taken = node.op.make_node(*inputs)
        ranges = full_ranges(prover.concrete.shape(taken.outputs[0]))
        return slicer.of_slice(taken, ranges, merge=False)

    try:
        found = rebuild_by_rule(variable, rule)
    except EVALUATION_ERRORS:
        return None
    if found is variable:
        return None
    everything = full_ranges(prover.concrete.shape(variable))
    return found if prover.proves([(variable, everything, found)]) else None


@dataclass(frozen=True, eq=False)
class SliceProver:
    """Proves by value numbers that slices are the same function before and after they were moved.

    Parameters
    ----------
    concrete : ConcreteValues
    values : mapping of Variable to array
        Stand-ins for every input, and shared variables.
    """

    concrete: ConcreteValues
    values: Mapping[Variable, np.ndarray]

    def proves(self, moved: list[tuple[Variable, Ranges, Variable]]) -> bool:
        """Whether every element of each slice has one value number before and after.

        Conditions are ignored: `Slicer` keeps them, or moves them to each block. So are casts.
        """
        pairs = [v for before, _, after in moved for v in (before, after)]
        plain = rebuild(
            pairs, {v: v for v in ancestors(pairs) if v.owner is None}, _without_checks_and_casts
        )
        arrays = [v for v in ancestors(plain) if isinstance(v, TensorConstant) and v.data.ndim]
        inputs = {v: v.type() for v in arrays}
        numbers = {
            v: hash_combine(k, np.arange(np.size(value)).reshape(np.shape(value)))
            for k, (v, value) in enumerate(self.values.items())
            if not hasattr(v, "get_value")
        }
        opened = {inputs[v]: hash_values(v.data) for v in arrays}
        values = dict(self.values) | {inputs[v]: v.data for v in arrays}
        # With public arrays as inputs: what reads nothing else would have its value for a number.
        forms = ((plain, numbers), (rebuild(plain, inputs), numbers | opened))
        slices = [as_slices(ranges) for _, ranges, _ in moved]
        return any(_slices_agree(value_numbers(f, m, values), slices) for f, m in forms)


def _slices_agree(found: list[np.ndarray], slices: list[tuple[slice, ...]]) -> bool:
    """Whether each slice of a first array is the second."""
    pairs = zip(found[::2], found[1::2], slices, strict=True)
    return all(np.array_equal(before[where], after) for before, after, where in pairs)


def _without_checks_and_casts(node: Apply, inputs: list[Variable]) -> Variable | None:
    """A rule without conditions, and without casts that change no number, which joins may add."""
    if isinstance(node.op, CheckAndRaise):
        return inputs[0]
    widens = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast)
    if widens and np.can_cast(node.inputs[0].type.dtype, node.outputs[0].type.dtype):
        return inputs[0]
    return None


# ---- slices moved inwards --------------------------------------------------------------------


class NotSliceable(Exception):
    """Part of a graph cannot be read slice by slice."""


@dataclass
class Slicer:
    """Moves slices towards the leaves of a graph.

    Parameters
    ----------
    concrete : ConcreteValues
        For shapes.
    reads : callable, optional
        Whether a variable reads a record. Given where all rows are visited, block by block: then a
        condition on all rows becomes one on the rows of each block. Else conditions stay as they
        are.
    moved : list of (Variable, Ranges, Variable)
        Claims to be proved: that a slice of the first variable is the second.
    """

    concrete: ConcreteValues
    reads: Callable[[Variable], bool] | None = None
    moved: list[tuple[Variable, Ranges, Variable]] = field(default_factory=list)

    def sliced(self, variable: Variable, ranges: Ranges) -> Variable:
        """A slice of a variable, with the claim noted in `moved`."""
        found = self._inner(variable, ranges)
        self.moved.append((variable, ranges, found))
        return found

    def _inner(self, v: Variable, ranges: Ranges) -> Variable:
        """A slice of a variable, moved inwards if there is a rule."""
        shape, node = self.concrete.shape(v), v.owner
        if ranges == full_ranges(shape) and not (node is not None and self._has_conditions(v)):
            return v
        if isinstance(v, Constant):
            return pt.constant(np.asarray(v.data)[as_slices(ranges)])
        found = None
        if node is not None and len(node.outputs) == 1:
            found = self._of_node(node, ranges, shape)
        return v[as_slices(ranges)] if found is None else found

    def _has_conditions(self, v: Variable) -> bool:
        """Whether a variable is computed through checks of conditions."""
        return self.reads is not None and any(
            a.owner is not None and isinstance(a.owner.op, CheckAndRaise) for a in ancestors([v])
        )

    def _of_node(self, node: Apply, ranges: Ranges, shape: tuple[int, ...]) -> Variable | None:
        """A slice of a node's output, computed from slices of its inputs; None without a rule."""
        op = node.op
        if isinstance(op, Elemwise):
            return op(*(self._inner(v, self._within(v, ranges, shape)) for v in node.inputs))
        if isinstance(op, DimShuffle):
            order = list(op.new_order)
            axes = range(node.inputs[0].type.ndim)
            inner = tuple(ranges[order.index(k)] if k in order else (0, 1) for k in axes)
            return op(self._inner(node.inputs[0], inner))
        if isinstance(op, Join):
            return self._of_join(node, ranges)
        if isinstance(op, Subtensor):
            return self.of_slice(node, ranges)
        if isinstance(op, CheckAndRaise):
            value = self._inner(node.inputs[0], ranges)
            return op(value, *(self._condition(c, ranges, shape) for c in node.inputs[1:]))
        if isinstance(op, SpecifyShape):
            return self._inner(node.inputs[0], ranges)
        if isinstance(op, IncSubtensor):
            return self._of_update(node, ranges)
        if isinstance(op, tuple(INDEXING_OPS)):
            return self._of_take(node, ranges, shape)
        if isinstance(op, CAReduce) and op.axis is not None:
            return self._of_reduction(node, ranges)
        if isinstance(op, Alloc) and node.inputs[0].type.ndim == 0:
            return pt.alloc(node.inputs[0], *(b - a for a, b in ranges))
        return None

    def _within(self, v: Variable, ranges: Ranges, shape: tuple[int, ...]) -> Ranges:
        """The ranges of an argument of an elementwise function, which may be broadcast."""
        own = self.concrete.shape(v)
        return tuple(
            (0, 1) if mine == 1 and size != 1 else part
            for mine, size, part in zip(own, shape, ranges, strict=True)
        )

    def _of_join(self, node: Apply, ranges: Ranges) -> Variable | None:
        """The slices of joined arrays that fall within the ranges, joined."""
        axis = join_axis(node)
        if axis is None:
            return None
        start, stop = ranges[axis]
        pieces, offset = [], 0
        for part in joined_arrays(node):
            size = self.concrete.shape(part)[axis]
            first, last = max(start - offset, 0), min(stop - offset, size)
            if first < last:
                own = (*ranges[:axis], (first, last), *ranges[axis + 1 :])
                pieces.append(pt.cast(self._inner(part, own), node.outputs[0].dtype))
            offset += size
        return pieces[0] if len(pieces) == 1 else pt.concatenate(pieces, axis=axis)

    def of_slice(self, node: Apply, ranges: Ranges, *, merge: bool = True) -> Variable | None:
        """A slice of a slice or of one position; with `merge` it is moved on towards the leaves."""
        positions, base = self.positions(node, 1), node.inputs[0]
        if positions is None:
            return None
        inner, kept, left = [], [], list(ranges)
        for start, _, is_slice in positions:
            first, last = left.pop(0) if is_slice else (0, 1)
            inner.append((start + first, start + last))
            kept.append(slice(None) if is_slice else 0)
        outer, shape = self._outer(), self.concrete.shape(base)
        if merge:
            found = outer._inner(base, tuple(inner))
        elif base.owner is None or len(base.owner.outputs) > 1:
            return None
        else:
            found = outer._of_node(base.owner, tuple(inner), shape)
        return found if found is None or all(k != 0 for k in kept) else found[tuple(kept)]

    def positions(self, node: Apply, first: int) -> list[tuple[int, int, bool]] | None:
        """Start and stop on each axis, and whether it is a slice; None for other indexes.

        The index inputs of the node begin with the one numbered `first`.
        """
        inputs = node.inputs[first:]
        if not all(isinstance(v, Constant) or self.concrete.is_fixed(v) for v in inputs):
            return None
        shape = self.concrete.shape(node.inputs[0])
        index = list(indices_from_subtensor(inputs, node.op.idx_list))
        index += [slice(None)] * (len(shape) - len(index))
        found = []
        for size, at in zip(shape, index, strict=True):
            if isinstance(at, slice):
                limits = (self._number(limit) for limit in (at.start, at.stop, at.step))
                start, stop, step = slice(*limits).indices(size)
                if step != 1 or stop <= start:
                    return None
                found.append((start, stop, True))
            else:
                position = (self._number(at) or 0) % size
                found.append((position, position + 1, False))
        return found

    def _number(self, limit: Any) -> int | None:
        """The value of a limit of a slice, or of a position."""
        if limit is None or isinstance(limit, int):
            return limit
        return int(limit.data if isinstance(limit, Constant) else self.concrete(limit))

    def _of_update(self, node: Apply, ranges: Ranges) -> Variable | None:
        """Rows of the values that were set, or of the array they were set in."""
        base, value = node.inputs[:2]
        if not node.op.set_instead_of_inc or value.type.ndim != base.type.ndim:
            return None
        positions, shape = self.positions(node, 2), self.concrete.shape(base)
        if positions is None:
            return None
        if tuple((a, b) for a, b, _ in positions[1:]) != full_ranges(shape[1:]):
            return None
        (start, stop, _), (first, last) = positions[0], ranges[0]
        if last <= start or first >= stop:
            return self._outer()._inner(base, ranges)
        if start <= first and last <= stop and self.concrete.shape(value)[0] == stop - start:
            return self._inner(value, ((first - start, last - start), *ranges[1:]))
        return None

    def _outer(self) -> Slicer:
        """A slicer for what is not visited as a whole: conditions stay as they are."""
        return self if self.reads is None else Slicer(self.concrete)

    def _of_take(self, node: Apply, ranges: Ranges, shape: tuple[int, ...]) -> Variable | None:
        """x[i, j] with index arrays alone: x at rows of the arrays."""
        x, *indexes = node.inputs
        plain = all(getattr(v.type, "ndim", 0) > 0 and v.type.dtype != "bool" for v in indexes)
        sizes = {self.concrete.shape(v) for v in indexes} if plain else set()
        if len(sizes) != 1:
            return None
        ndim = len(sizes.pop())
        rest = shape[ndim:]
        if ranges[ndim:] != full_ranges(rest) or len(rest) != x.type.ndim - len(indexes):
            return None
        return x[tuple(self._inner(v, ranges[:ndim]) for v in indexes)]

    def _of_reduction(self, node: Apply, ranges: Ranges) -> Variable | None:
        """The reduction of a slice along the axes that are kept."""
        inner, left = [], list(ranges)
        for axis, size in enumerate(self.concrete.shape(node.inputs[0])):
            inner.append((0, size) if axis in node.op.axis else left.pop(0))
        return node.op(self._inner(node.inputs[0], tuple(inner)))

    def _condition(self, c: Variable, ranges: Ranges, shape: tuple[int, ...]) -> Variable:
        """A condition on all rows, as a condition on the rows of one block."""
        if self.reads is None or not self.reads(c):
            return c
        node = c.owner
        if node is None:
            raise NotSliceable
        if isinstance(node.op, All) and not c.type.ndim:
            inner = node.inputs[0]
            sizes = self.concrete.shape(inner)
            if len(sizes) == len(shape) and all(
                mine in (1, size) for mine, size in zip(sizes, shape, strict=True)
            ):
                return node.op(self.sliced(inner, self._within(inner, ranges, shape)))
            if inner.owner is not None and isinstance(inner.owner.op, MakeVector):
                return node.op(self._condition(inner, ranges, shape))
        elif isinstance(node.op, (*CONJUNCTION_OPS, Elemwise)) and all(
            v.type.ndim == 0 for v in node.inputs
        ):
            return node.op(*(self._condition(v, ranges, shape) for v in node.inputs))
        raise NotSliceable


def full_ranges(shape: tuple[int, ...]) -> Ranges:
    """The ranges of a whole array."""
    return tuple((0, size) for size in shape)


def as_slices(ranges: Ranges) -> tuple[slice, ...]:
    """The ranges as NumPy slices."""
    return tuple(slice(a, b) for a, b in ranges)


# ---- positions of joins ----------------------------------------------------------------------


def join_axis(node: Apply) -> int | None:
    """The axis along which arrays are joined, if it is a constant."""
    ndim = node.outputs[0].type.ndim
    return next(
        (k for k in range(ndim) if arrays_joined_along(node.outputs[0], k) is not None), None
    )


def _join_positions(
    v: Variable, axis: int, concrete: ConcreteValues, known: dict[tuple[Variable, int], set[int]]
) -> set[int]:
    """The positions along an axis at which elements come from another joined array."""
    if (v, axis) not in known:
        known[v, axis] = _join_positions_of_node(v, axis, concrete, known) if v.owner else set()
    return known[v, axis]


def _join_positions_of_node(
    v: Variable, axis: int, concrete: ConcreteValues, known: dict[tuple[Variable, int], set[int]]
) -> set[int]:
    """See `_join_positions`, for a variable that is computed."""
    node, op = v.owner, v.owner.op
    size = concrete.shape(v)[axis]

    def of(part: Variable, along: int) -> set[int]:
        return _join_positions(part, along, concrete, known)

    if isinstance(op, Elemwise | CheckAndRaise | SpecifyShape):
        inputs = node.inputs if isinstance(op, Elemwise) else node.inputs[:1]
        return {k for u in inputs if concrete.shape(u)[axis] == size for k in of(u, axis)}
    if isinstance(op, DimShuffle):
        source = op.new_order[axis]
        return set() if source == "x" else of(node.inputs[0], source)
    if isinstance(op, Join):
        parts = joined_arrays(node)
        if join_axis(node) != axis:
            return {k for u in parts for k in of(u, axis)}
        starts = np.cumsum([0, *(concrete.shape(u)[axis] for u in parts)]).tolist()
        inner = {a + k for a, u in zip(starts[:-1], parts, strict=True) for k in of(u, axis)}
        return inner | set(starts[1:-1])
    if isinstance(op, Subtensor):
        positions = Slicer(concrete).positions(node, 1)
        kept = [k for k, (_, _, is_slice) in enumerate(positions or []) if is_slice]
        if positions is None or len(kept) <= axis:
            return set()
        start = positions[kept[axis]][0]
        return {k - start for k in of(node.inputs[0], kept[axis])}
    if isinstance(op, IncSubtensor) and axis == 0:
        positions = Slicer(concrete).positions(node, 2)
        return set() if positions is None else {*positions[0][:2], *of(node.inputs[0], 0)}
    if isinstance(op, tuple(INDEXING_OPS)):
        arrays = [u for u in node.inputs[1:] if getattr(u.type, "ndim", 0) > axis]
        return {k for u in arrays for k in of(u, axis)}
    if isinstance(op, CAReduce) and op.axis is not None:
        kept = [k for k in range(node.inputs[0].type.ndim) if k not in op.axis]
        return of(node.inputs[0], kept[axis])
    return set()
