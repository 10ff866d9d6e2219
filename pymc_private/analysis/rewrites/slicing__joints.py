"""Arrays parted where they were put together, and slices moved to leaves, with the proof of both.

``concatenate([[0], y[:-1]])`` reads the record before in all rows but the first; a difference of
differences, ``d[1:] - d[:-1]``, reads records through slices of slices. Part by part, with every
slice one of a leaf, such graphs read neighbors as plainly as ``y[1:]`` given ``y[:-1]`` does. That
each form is the same function is proved by marks of every element (`analysis.row_equivalence__expressions`).
"""

from __future__ import annotations

import itertools
import numpy as np
import pytensor.tensor as pt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.scalar.basic import Cast
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from pytensor.tensor.variable import TensorConstant
from pymc_private.analysis.rewrites.algebra import joined
from pymc_private.analysis.row_equivalence__expressions import expressions, mix, of_value
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE
from pymc_private.analysis.intervals.arrays import TAKE
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.record_dependence import Concrete
from pymc_private.analysis.rewrites.slicing import NoSlice, Ranges, Slicer, join_axis, slices_of, whole

MOST_JOINTS = 8
"""Joints of an array at which its rows are parted."""


def blocks(
    variable: Variable, reads: Callable[[Variable], bool], given: Given
) -> list[Variable] | None:
    """Runs of rows along the first axis, parted where arrays were joined.

    Parameters
    ----------
    variable : Variable
    reads : callable
        Whether a variable reads a record.
    given : Given

    Returns
    -------
    list of Variable or None
        All rows in order; None where there is no joint, or no proof.
    """
    shape = given.concrete.shape(variable)
    ends = (
        sorted(k for k in _joints(variable, 0, given.concrete, {}) if 0 < k < shape[0])
        if shape
        else []
    )
    if not 0 < len(ends) <= MOST_JOINTS:
        return None
    slicer = Slicer(given.concrete, reads)
    try:
        found = [
            slicer.sliced(variable, (pair, *whole(shape[1:])))
            for pair in itertools.pairwise([0, *ends, shape[0]])
        ]
    except (NoSlice, *UNCOMPUTABLE):
        return None
    return found if given.proves(slicer.moved) else None


def lifted(variable: Variable, reads: Callable[[Variable], bool], given: Given) -> Variable | None:
    """The same with slices of leaves only, where slices of slices or of sums can be moved.

    Parameters
    ----------
    variable : Variable
    reads : callable
        Whether a variable reads a record: other slices are left where they stand.
    given : Given

    Returns
    -------
    Variable or None
        None where nothing moves, or without a proof.
    """
    slicer = Slicer(given.concrete)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if isinstance(node.op, Shape | Shape_i):  # how many records there are is no secret here
            return pt.constant(given.concrete(node.outputs[0]))
        if not isinstance(node.op, Subtensor) or not reads(node.outputs[0]):
            return None
        taken = node.op.make_node(*inputs)
        ranges = whole(given.concrete.shape(taken.outputs[0]))
        return slicer.of_slice(taken, ranges, merge=False)

    try:
        leaves = {v: v for v in ancestors([variable]) if v.owner is None}
        (found,) = rebuild([variable], leaves, rule)
    except UNCOMPUTABLE:
        return None
    if found is variable:
        return None
    everything = whole(given.concrete.shape(variable))
    return found if given.proves([(variable, everything, found)]) else None


@dataclass(frozen=True, eq=False)
class Given:
    """What a graph is read with.

    Parameters
    ----------
    concrete : Concrete
    values : mapping of Variable to array
        Stand-ins for every input, and shared variables.
    """

    concrete: Concrete
    values: Mapping[Variable, np.ndarray]

    def proves(self, moved: list[tuple[Variable, Ranges, Variable]]) -> bool:
        """Whether every element of each slice carries one expression before and after.

        Conditions are left aside: `Slicer` keeps them, or asks them of each block. So are casts.
        """
        ends = [v for before, _, after in moved for v in (before, after)]
        plain = rebuild(ends, {v: v for v in ancestors(ends) if v.owner is None}, _bare)
        arrays = [v for v in ancestors(plain) if isinstance(v, TensorConstant) and v.data.ndim]
        inputs = {v: v.type() for v in arrays}
        marks = {
            v: mix(k, np.arange(np.size(value)).reshape(np.shape(value)))
            for k, (v, value) in enumerate(self.values.items())
            if not hasattr(v, "get_value")
        }
        opened = {inputs[v]: of_value(v.data) for v in arrays}
        values = dict(self.values) | {inputs[v]: v.data for v in arrays}
        # With public arrays as inputs: what reads nothing else would have its value for a mark.
        forms = ((plain, marks), (rebuild(plain, inputs), marks | opened))
        slices = [slices_of(ranges) for _, ranges, _ in moved]
        return any(_agree(expressions(f, m, values), slices) for f, m in forms)


def _agree(found: list[np.ndarray], slices: list[tuple[slice, ...]]) -> bool:
    """Whether each slice of a first array is the second."""
    pairs = zip(found[::2], found[1::2], slices, strict=True)
    return all(np.array_equal(before[where], after) for before, after, where in pairs)


def _bare(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Without conditions, and without casts that change no number: joins make them unsaid."""
    if isinstance(node.op, CheckAndRaise):
        return inputs[0]
    widens = isinstance(node.op, Elemwise) and isinstance(node.op.scalar_op, Cast)
    if widens and np.can_cast(node.inputs[0].type.dtype, node.outputs[0].type.dtype):
        return inputs[0]
    return None


def _joints(
    v: Variable, axis: int, concrete: Concrete, known: dict[tuple[Variable, int], set[int]]
) -> set[int]:
    """Where rows along an axis change the array they come from."""
    if (v, axis) not in known:
        known[v, axis] = _joints_of_node(v, axis, concrete, known) if v.owner else set()
    return known[v, axis]


def _joints_of_node(
    v: Variable, axis: int, concrete: Concrete, known: dict[tuple[Variable, int], set[int]]
) -> set[int]:
    node, op = v.owner, v.owner.op
    size = concrete.shape(v)[axis]

    def of(part: Variable, place: int) -> set[int]:
        return _joints(part, place, concrete, known)

    if isinstance(op, Elemwise | CheckAndRaise | SpecifyShape):
        inputs = node.inputs if isinstance(op, Elemwise) else node.inputs[:1]
        return {k for u in inputs if concrete.shape(u)[axis] == size for k in of(u, axis)}
    if isinstance(op, DimShuffle):
        place = op.new_order[axis]
        return set() if place == "x" else of(node.inputs[0], place)
    if isinstance(op, Join):
        parts, along = joined(node), join_axis(node)
        if along != axis:
            return {k for u in parts for k in of(u, axis)}
        starts = np.cumsum([0, *(concrete.shape(u)[axis] for u in parts)]).tolist()
        inner = {a + k for a, u in zip(starts[:-1], parts, strict=True) for k in of(u, axis)}
        return inner | set(starts[1:-1])
    if isinstance(op, Subtensor):
        places = Slicer(concrete).places(node, 1)
        kept = [k for k, (_, _, is_slice) in enumerate(places or []) if is_slice]
        if places is None or len(kept) <= axis:
            return set()
        start = places[kept[axis]][0]
        return {k - start for k in of(node.inputs[0], kept[axis])}
    if isinstance(op, IncSubtensor) and axis == 0:
        places = Slicer(concrete).places(node, 2)
        return set() if places is None else {*places[0][:2], *of(node.inputs[0], 0)}
    if isinstance(op, tuple(TAKE)):
        arrays = [u for u in node.inputs[1:] if getattr(u.type, "ndim", 0) > axis]
        return {k for u in arrays for k in of(u, axis)}
    if isinstance(op, CAReduce) and op.axis is not None:
        kept = [k for k in range(node.inputs[0].type.ndim) if k not in op.axis]
        return of(node.inputs[0], kept[axis])
    return set()
