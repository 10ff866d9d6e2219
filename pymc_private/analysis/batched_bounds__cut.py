"""Cutting a graph where many numbers become few: linear predictors, entries picked from a vector.

What lies above a cut counts by its range alone, so the rest is a function of few numbers. That
forgets how the cut numbers hang together; the range of the rest is still an upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.shape import Reshape
from pymc_private.analysis.intervals.arrays import TAKE

MOST = 6
"""Entries of a variable that counts as few numbers."""


def _size(variable: Variable) -> float:
    """Number of entries, where it is known."""
    shape: tuple = getattr(variable.type, "shape", (None,))
    return float("inf") if None in shape else math.prod(shape)


def is_few(variable: Variable) -> bool:
    """Whether a variable is known to hold few numbers."""
    return _size(variable) <= MOST


def picked_from(value: Variable) -> set[Variable]:
    """Inputs out of which entries are picked by an index that is computed."""
    picked = set()
    for variable in ancestors([value]):
        node = variable.owner
        if node is None or not isinstance(node.op, tuple(TAKE)):
            continue
        source = node.inputs[0]
        while source.owner is not None and isinstance(source.owner.op, DimShuffle):
            source = source.owner.inputs[0]
        if not all(isinstance(v, Constant) for v in node.inputs[1:]):
            picked.add(source)
    return {v for v in picked if v.owner is None and not isinstance(v, Constant)}


def _keeps_size(node: Apply) -> bool:
    """Whether a node moves numbers, or changes each by itself: a ball would become a box."""
    return isinstance(node.op, DimShuffle | Elemwise | Reshape)


def frontier(value: Variable, many: Collection[Variable]) -> list[Variable]:
    """The first variables of few numbers on every path from `many` to `value`.

    Parameters
    ----------
    value : Variable
    many : collection of Variable
        Inputs that hold many numbers, or whose shape is no box.

    Returns
    -------
    list of Variable
        Each path from an input in `many` to `value` passes through one of them. `value` itself, if
        nothing better is found.
    """
    wide, cuts = set(many), set()
    for node in io_toposort(list(many), [value]):
        if wide.isdisjoint(node.inputs):
            continue
        for out in node.outputs:
            is_float = str(getattr(out.type, "dtype", "")).startswith("float")
            if is_float and is_few(out) and (_size(out) == 1 or not _keeps_size(node)):
                cuts.add(out)
            else:
                wide.add(out)
    reached = set(ancestors([value], blockers=list(cuts)))
    # A condition, a shape or an index that reads many numbers on its own way cannot be cut.
    if reached & wide - cuts:
        return [value]
    return [cut for cut in cuts if cut in reached]


def one_sided(value: Variable, *sides: Collection[Variable]) -> list[Variable]:
    """The last variables that read one side alone, each computed from several numbers.

    Parameters
    ----------
    value : Variable
    *sides : collections of Variable
        Inputs, disjoint.

    Returns
    -------
    list of Variable
        Floats that read inputs of one side only (and constants), while something they go into reads
        more.
    """
    reads: dict[Variable, frozenset[int]] = {
        v: frozenset([k]) for k, side in enumerate(sides) for v in side
    }
    last: set[Variable] = set()
    for node in io_toposort([], [value]):
        joined: frozenset[int] = frozenset()
        for v in node.inputs:
            if not isinstance(v, Constant):
                # An input of no side keeps a node from being one-sided.
                joined |= reads.get(v, frozenset([-1]) if v.owner is None else frozenset())
        reads.update(dict.fromkeys(node.outputs, joined))
        if len(joined) > 1:
            last |= {v for v in node.inputs if len(reads.get(v, ())) == 1}
    return [v for v in last if v.owner is not None and -1 not in reads[v] and _is_computed(v)]


def _is_computed(variable: Variable) -> bool:
    """Whether this is a float that more than one number went into."""
    if not str(getattr(variable.type, "dtype", "")).startswith("float"):
        return False
    inputs = [v for v in ancestors([variable]) if v.owner is None and not isinstance(v, Constant)]
    return sum(_size(v) for v in inputs) > _size(variable)
