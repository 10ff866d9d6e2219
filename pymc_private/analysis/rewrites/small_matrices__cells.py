"""The entries of small matrices, each as a graph of its own."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pymc_private.analysis.intervals.dispatch import UNCOMPUTABLE, perform
from pymc_private.analysis.intervals.arrays import PUT
from pymc_private.analysis.traversal import joined_along
from pymc_private.analysis.traversal__own_names import own_name

MOST_ROWS = 4
"""Rows of matrices that are written out."""

Cells = list[list[Variable]]


def cells_of(x: Variable, known: dict[Variable, Cells]) -> Cells | None:
    """All entries of a small square matrix, for each of the leading axes."""
    size = x.type.shape[-1]
    if size is None or x.type.shape[-2] != size or size > MOST_ROWS:
        return None
    return [[cell_of(x, i, j, known) for j in range(size)] for i in range(size)]


def cell_of(x: Variable, i: int, j: int, known: dict[Variable, Cells]) -> Variable:
    """x[..., i, j], without the matrix where it is seen how the entry is made."""
    if x in known:
        return known[x][i][j]
    if isinstance(x, Constant):
        return pt.constant(np.asarray(x.data)[..., i, j])
    node = x.owner
    found = None
    if node is not None and isinstance(node.op, Elemwise):
        found = node.op(*(cell_of(v, *_within(v, i, j), known) for v in node.inputs))
    elif node is not None and isinstance(node.op, DimShuffle):
        found = _shuffled(node, i, j, known)
    elif node is not None and is_product(node):
        found = _of_product(node, i, j, known)
    elif isinstance(getattr(node, "op", None), Join):
        found = _joined(x, i, j, known)
    elif is_put(x):
        found = _put(node, i, j)
    return x[..., i, j] if found is None else found


def _within(x: Variable, i: int, j: int) -> tuple[int, int]:
    """Where an entry stands in an argument that may be stretched."""
    return (0 if x.type.shape[-2] == 1 else i), (0 if x.type.shape[-1] == 1 else j)


def _shuffled(node: Apply, i: int, j: int, known: dict[Variable, Cells]) -> Variable | None:
    """Of a transpose, of leading axes that move, of a number that is stretched to a matrix."""
    x, order = node.inputs[0], tuple(node.op.new_order)
    rest, last, ndim = order[:-2], order[-2:], x.type.ndim
    if last == ("x", "x"):
        return x.dimshuffle(*rest)
    if last in (("x", ndim - 1), (ndim - 1, "x")):
        return _entry(x, j if last[0] == "x" else i).dimshuffle(*rest)
    if ndim < 2 or last not in ((ndim - 2, ndim - 1), (ndim - 1, ndim - 2)):
        return None
    at = (i, j) if last[0] < last[1] else (j, i)  # type: ignore[operator]
    return cell_of(x, *at, known).dimshuffle(*rest)


def _joined(x: Variable, i: int, j: int, known: dict[Variable, Cells]) -> Variable | None:
    """Of matrices put below or beside each other."""
    for axis, place in ((x.type.ndim - 2, i), (x.type.ndim - 1, j)):
        for part in joined_along(x, axis) or ():
            size = part.type.shape[axis]
            if size is None:
                break
            if place < size:
                at = (place, j) if axis == x.type.ndim - 2 else (i, place)
                return cell_of(part, *at, known)
            place -= size
    return None


def _entry(x: Variable, j: int) -> Variable:
    """x[..., j], without the vector where it is seen how the entry is made."""
    if x.owner is not None and isinstance(x.owner.op, MakeVector):
        return x.owner.inputs[j]
    for k, part in enumerate(parts := joined_along(x, x.type.ndim - 1) or []):
        if any(p.type.shape[-1] != 1 for p in parts):
            break
        if k == j:
            return part[..., 0]
    return x[..., j]


def is_product(node: Apply) -> bool:
    """Whether this is a product of matrices."""
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    return isinstance(op, Dot) and all(v.type.ndim >= 2 for v in node.inputs)


def _of_product(node: Apply, i: int, j: int, known: dict[Variable, Cells]) -> Variable | None:
    """sum_k x_ik y_kj."""
    x, y = node.inputs
    size = x.type.shape[-1]
    if size is None or size > MOST_ROWS:
        return None
    return total([times(cell_of(x, i, k, known), cell_of(y, k, j, known)) for k in range(size)])


def is_put(x: Variable) -> bool:
    """Whether numbers were put into an array."""
    return x.owner is not None and isinstance(x.owner.op, tuple(PUT))


def _put(node: Apply, i: int, j: int) -> Variable | None:
    """Of a matrix of zeros into which the numbers of a vector were put at known places."""
    base, packed, *indexes = node.inputs
    shape = (*node.outputs[0].type.shape, *packed.type.shape)
    plain = getattr(node.op, "set_instead_of_inc", False) and packed.type.ndim == 1
    if not plain or len(shape) != 3 or None in shape or not is_zero(base):
        return None
    if not all(isinstance(index, Constant) for index in indexes):
        return None
    places = [np.full(shape[:2], -1.0), np.arange(float(shape[2]))]
    try:
        numbers = perform(node, [*places, *(index.data for index in indexes)])[0]
    except UNCOMPUTABLE:
        return None
    place = int(numbers[i, j])
    return pt.constant(np.float64(0.0)) if place < 0 else packed[place]


def is_zero(x: Variable) -> bool:
    """Whether an array is known to hold zeros only."""
    while x.owner is not None and own_name(x.owner.op) in ("Alloc", "DimShuffle"):
        x = x.owner.inputs[0]
    return isinstance(x, Constant) and not np.any(x.data)


# ---- arithmetic that sees zeros --------------------------------------------------------------


def times(a: Variable, b: Variable) -> Variable:
    """a b."""
    return a if is_zero(a) else b if is_zero(b) else pt.sqr(a) if a is b else a * b


def total(terms: list[Variable]) -> Variable:
    """Their sum."""
    kept = [term for term in terms if not is_zero(term)]
    return pt.add(*kept) if len(kept) > 1 else kept[0] if kept else terms[0]


def less(a: Variable, terms: list[Variable]) -> Variable:
    """a - sum of terms."""
    kept = [term for term in terms if not is_zero(term)]
    if not kept:
        return a
    return -total(kept) if is_zero(a) else a - total(kept)


def over(a: Variable, b: Variable) -> Variable:
    """a / b."""
    return a if is_zero(a) else a / b
