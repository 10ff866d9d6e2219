"""Small Cholesky factors, inverses and triangular solves written out entry by entry.

A factor or an inverse as one Op hides how its entries depend on one another, and PyTensor's
gradients of them are many Ops long. Written out they are sums, products, quotients and roots:
the same function in real arithmetic wherever the Op has a value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import ExtractDiag, Join, MakeVector
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot

from pymc_private.analysis.intervals.arrays import INDEX_UPDATE_OPS
from pymc_private.analysis.traversal import (
    EVALUATION_ERRORS,
    arrays_joined_along,
    evaluate_node,
    library_class_name,
    rebuild,
    scalar_op,
    without_leading_axes,
)

MOST_ROWS = 4
"""Rows of matrices that are written out."""


MOST_INVERTED = 3
"""Rows of matrices of which an inverse is written out."""


EntryMatrix = list[list[Variable]]
"""The entries of a matrix, row by row, each a graph of its own."""


@dataclass(frozen=True, eq=False)
class KnownEntries:
    """Entries of matrices that were written out, some as a number times other entries."""

    entries: dict[Variable, EntryMatrix]
    scaled: dict[Variable, tuple[Variable, EntryMatrix]]


def write_out_matrices(value: Variable, leaves: list[Variable]) -> Variable:
    """The same function with small Cholesky factors, inverses and triangular solves written out.

    `leaves` are its inputs, of known shapes.
    """
    known = KnownEntries({}, {})

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        found = _written_out_node(node, inputs, known)
        if found is None:
            return None
        out = node.outputs[0].type
        found = pt.shape_padleft(found, out.ndim - found.type.ndim)
        return found if found.type.dtype == out.dtype else None

    return rebuild([value], {v: v for v in leaves}, rule)[0]


def _written_out_node(node: Apply, inputs: list[Variable], known: KnownEntries) -> Variable | None:
    """The written-out matrix or vector in place of a node, its entries noted in `known`."""
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    name = type(op).__name__
    if isinstance(op, ExtractDiag):
        return _diagonal(op, inputs[0], known.entries)
    if name not in ("Cholesky", "MatrixInverse", "SolveTriangular"):
        return None
    entries = matrix_entries(inputs[0], known.entries)
    if entries is None or (name == "MatrixInverse" and len(entries) > MOST_INVERTED):
        return None
    if all(isinstance(entry, Constant) for row in entries for entry in row):
        return None
    if name == "SolveTriangular":
        return _substituted(op, entries, inputs[1])
    if name == "MatrixInverse":
        found = _apply_to_scaled(inputs[0], known, _inverse, pt.reciprocal)
        return _assembled(_inverse(entries), known) if found is None else found

    def factor(a: EntryMatrix) -> EntryMatrix:
        return _cholesky(a) if op.lower else _transposed(_cholesky(a))

    own = _factor_of_own_product(inputs[0], known.entries)
    if own is not None:
        return _assembled(own if op.lower else _transposed(own), known)
    own = _factor_between_scales(entries)
    if own is not None:
        return _assembled(own if op.lower else _transposed(own), known)
    found = _apply_to_scaled(inputs[0], known, factor, pt.sqrt)
    return _assembled(factor(entries), known) if found is None else found


def _cholesky(a: EntryMatrix) -> EntryMatrix:
    """l_ij = (a_ij - sum_k l_ik l_jk) / l_jj, of the lower triangle."""
    size, zero = len(a), pt.constant(np.float64(0.0))
    found: EntryMatrix = [[zero] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = subtract_entries(
                a[i][j], [multiply_entries(found[i][k], found[j][k]) for k in range(j)]
            )
            found[i][j] = pt.sqrt(rest) if i == j else divide_entries(rest, found[j][j])
    return found


def _factor_of_own_product(x: Variable, known: dict[Variable, EntryMatrix]) -> EntryMatrix | None:
    """The Cholesky factor of L L' for a lower triangular L: L with positive diagonal."""
    x = without_leading_axes(x)
    if x.owner is None or not is_matrix_product(x.owner):
        return None
    first, second = x.owner.inputs
    if first.type.shape[-1] != first.type.shape[-2]:
        return None
    entries, other = matrix_entries(first, known), matrix_entries(second, known)
    if entries is None or other is None or not _is_transpose(first, second):
        return None
    size = range(len(entries))
    if not all(is_zero(entries[i][j]) for i, j in product(size, size) if j > i):
        return None
    return [[multiply_entries(entries[i][j], pt.sign(entries[j][j])) for j in size] for i in size]


def _is_transpose(first: Variable, second: Variable) -> bool:
    """Whether the second is the first with its last two axes exchanged."""
    node = second.owner
    if node is None or not isinstance(node.op, DimShuffle) or node.inputs[0] is not first:
        return False
    lead = tuple(range(first.type.ndim - 2))
    return tuple(node.op.new_order) == (*lead, first.type.ndim - 1, first.type.ndim - 2)


def _factor_between_scales(a: EntryMatrix) -> EntryMatrix | None:
    """The Cholesky factor of D C D for a diagonal D: D times that of C, with positive diagonal."""
    scales = [_root_of_square(a[i][i]) for i in range(len(a))]
    if len(a) < 2 or any(scale is None for scale in scales):
        return None
    one = pt.constant(np.float64(1.0))
    inner: EntryMatrix = [[one] * len(a) for _ in a]
    for i, j in product(range(len(a)), repeat=2):
        rest = _without_factors(a[i][j], [scales[i], scales[j]]) if i != j else one
        if rest is None:
            return None
        inner[i][j] = rest
    signs = [pt.sign(scale) for scale in scales]
    factor = _cholesky(inner)
    return [
        [
            multiply_entries(multiply_entries(scales[i], factor[i][j]), signs[j])
            for j in range(len(a))
        ]
        for i in range(len(a))
    ]


def _root_of_square(x: Variable) -> Variable | None:
    """d, where x is written as d^2."""
    x = without_leading_axes(x)
    op = scalar_op(x)
    if isinstance(op, ps.Sqr):
        return without_leading_axes(x.owner.inputs[0])
    inputs = x.owner.inputs if isinstance(op, ps.Pow | ps.Mul) else []
    if len(inputs) != 2:
        return None
    first, second = map(without_leading_axes, inputs)
    if isinstance(op, ps.Mul):
        return first if first is second else None
    is_two = isinstance(second, Constant) and second.data.size == 1 and second.data.item() == 2
    return first if is_two else None


def _without_factors(x: Variable, factors: list[Variable | None]) -> Variable | None:
    """x without factors that it is written with; zero has them all."""
    if is_zero(x):
        return x
    x = without_leading_axes(x)
    left = (
        list(map(without_leading_axes, x.owner.inputs)) if isinstance(scalar_op(x), ps.Mul) else [x]
    )
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return pt.mul(*left) if len(left) > 1 else left[0] if left else pt.constant(np.float64(1.0))


def _inverse(a: EntryMatrix) -> EntryMatrix:
    """The inverse: cofactors divided by the determinant."""
    size = len(a)
    if size == 1:
        return [[1.0 / a[0][0]]]
    minors = [[_cofactor(a, i, j) for j in range(size)] for i in range(size)]
    whole = add_entries([multiply_entries(a[0][j], minors[0][j]) for j in range(size)])
    return [[divide_entries(minors[j][i], whole) for j in range(size)] for i in range(size)]


def _cofactor(a: EntryMatrix, i: int, j: int) -> Variable:
    """The cofactor of an entry, with its sign."""
    rest = [[a[r][c] for c in range(len(a)) if c != j] for r in range(len(a)) if r != i]
    if len(rest) == 1:
        value = rest[0][0]
    else:
        value = subtract_entries(
            multiply_entries(rest[0][0], rest[1][1]), [multiply_entries(rest[0][1], rest[1][0])]
        )
    return -value if (i + j) % 2 and not is_zero(value) else value


def _apply_to_scaled(
    x: Variable,
    known: KnownEntries,
    function: Callable[[EntryMatrix], EntryMatrix],
    power: Callable[[Variable], Variable],
) -> Variable | None:
    """A homogeneous function of a number times a matrix: a power of the number times its value."""
    parts = _number_times_matrix(x, known)
    if parts is None:
        return None
    number, entries = power(parts[0]), function(parts[1])
    found = _assembled(
        [[multiply_entries(number, entry) for entry in row] for row in entries], known
    )
    known.scaled[found] = number, entries
    return found


def _number_times_matrix(x: Variable, known: KnownEntries) -> tuple[Variable, EntryMatrix] | None:
    """A number and the entries of a matrix, where x is their product."""
    x = without_leading_axes(x)
    if x in known.scaled:
        return known.scaled[x]
    if not isinstance(scalar_op(x), ps.Mul):
        return None
    numbers = [v for v in x.owner.inputs if v.type.broadcastable[-2:] == (True, True)]
    matrices = [v for v in x.owner.inputs if v not in numbers]
    if not numbers or len(matrices) != 1:
        return None
    entries = matrix_entries(matrices[0], known.entries)
    scale = numbers[0] if len(numbers) == 1 else pt.mul(*numbers)
    return None if entries is None else (scale[..., 0, 0], entries)


def _substituted(op: object, a: EntryMatrix, right: Variable) -> Variable | None:
    """The solution by substitution: x_i = (b_i - sum_j a_ij x_j) / a_ii."""
    size = len(a)
    if op.b_ndim != 1 or right.type.shape[-1] != size:  # type: ignore[attr-defined]
        return None
    order = list(range(size) if op.lower else range(size - 1, -1, -1))  # type: ignore[attr-defined]
    found: dict[int, Variable] = {}
    for i in order:
        rest = subtract_entries(right[..., i], [multiply_entries(a[i][j], found[j]) for j in found])
        found[i] = rest if op.unit_diagonal else divide_entries(rest, a[i][i])  # type: ignore[attr-defined]
    return _stack_last([found[i] for i in range(size)])


def _transposed(a: EntryMatrix) -> EntryMatrix:
    """The entries of the transpose."""
    return [list(column) for column in zip(*a, strict=True)]


def _diagonal(op: ExtractDiag, x: Variable, known: dict[Variable, EntryMatrix]) -> Variable | None:
    """The diagonal of a matrix whose entries are known."""
    ndim, plain = x.type.ndim, without_leading_axes(x)
    if op.offset or (op.axis1 % ndim, op.axis2 % ndim) != (ndim - 2, ndim - 1):
        return None
    entries = matrix_entries(plain, known) if plain in known or is_index_update(plain) else None
    if entries is None:
        return None
    found = _stack_last([entries[i][i] for i in range(len(entries))])
    return pt.shape_padleft(found, ndim - plain.type.ndim)


def _stack_last(parts: list[Variable]) -> Variable:
    """One array, with the parts along its last axis."""
    return pt.stack(_broadcast_alike(parts), axis=-1)


def _broadcast_alike(parts: list[Variable]) -> list[Variable]:
    """The parts broadcast to one shape."""
    if all(part.type.ndim == 0 for part in parts):
        return parts
    return list(pt.broadcast_arrays(*parts))


def _assembled(entries: EntryMatrix, known: KnownEntries) -> Variable:
    """One matrix, with its entries noted in `known`."""
    whole = _broadcast_alike([entry for row in entries for entry in row])
    size = len(entries)
    rows = [pt.stack(whole[i * size : (i + 1) * size], axis=-1) for i in range(size)]
    found = pt.stack(rows, axis=-2)
    known.entries[found] = entries
    return found


# ---- entries of matrices ---------------------------------------------------------------------


def matrix_entries(x: Variable, known: dict[Variable, EntryMatrix]) -> EntryMatrix | None:
    """All entries of a small square matrix, for each of the leading axes."""
    size = x.type.shape[-1]
    if size is None or x.type.shape[-2] != size or size > MOST_ROWS:
        return None
    return [[matrix_entry(x, i, j, known) for j in range(size)] for i in range(size)]


def matrix_entry(x: Variable, i: int, j: int, known: dict[Variable, EntryMatrix]) -> Variable:
    """x[..., i, j], computed without the matrix where its entries are known expressions."""
    if x in known:
        return known[x][i][j]
    if isinstance(x, Constant):
        return pt.constant(np.asarray(x.data)[..., i, j])
    node = x.owner
    found = None
    if node is not None and isinstance(node.op, Elemwise):
        found = node.op(*(matrix_entry(v, *_broadcast_index(v, i, j), known) for v in node.inputs))
    elif node is not None and isinstance(node.op, DimShuffle):
        found = _entry_of_dimshuffle(node, i, j, known)
    elif node is not None and is_matrix_product(node):
        found = _entry_of_product(node, i, j, known)
    elif isinstance(getattr(node, "op", None), Join):
        found = _entry_of_join(x, i, j, known)
    elif is_index_update(x):
        found = _entry_of_update(node, i, j)
    return x[..., i, j] if found is None else found


def _broadcast_index(x: Variable, i: int, j: int) -> tuple[int, int]:
    """The index of an entry in an argument that may be broadcast."""
    return (0 if x.type.shape[-2] == 1 else i), (0 if x.type.shape[-1] == 1 else j)


def _entry_of_dimshuffle(
    node: Apply, i: int, j: int, known: dict[Variable, EntryMatrix]
) -> Variable | None:
    """An entry of a transpose, of moved leading axes, or of a number broadcast to a matrix."""
    x, order = node.inputs[0], tuple(node.op.new_order)
    rest, last, ndim = order[:-2], order[-2:], x.type.ndim
    if last == ("x", "x"):
        return x.dimshuffle(*rest)
    if last in (("x", ndim - 1), (ndim - 1, "x")):
        return _vector_entry(x, j if last[0] == "x" else i).dimshuffle(*rest)
    if ndim < 2 or last not in ((ndim - 2, ndim - 1), (ndim - 1, ndim - 2)):
        return None
    at = (i, j) if last[0] < last[1] else (j, i)  # type: ignore[operator]
    return matrix_entry(x, *at, known).dimshuffle(*rest)


def _entry_of_join(
    x: Variable, i: int, j: int, known: dict[Variable, EntryMatrix]
) -> Variable | None:
    """An entry of matrices put below or beside each other."""
    for axis, position in ((x.type.ndim - 2, i), (x.type.ndim - 1, j)):
        for part in arrays_joined_along(x, axis) or ():
            size = part.type.shape[axis]
            if size is None:
                break
            if position < size:
                at = (position, j) if axis == x.type.ndim - 2 else (i, position)
                return matrix_entry(part, *at, known)
            position -= size
    return None


def _vector_entry(x: Variable, j: int) -> Variable:
    """x[..., j], computed without the vector where its entries are known expressions."""
    if x.owner is not None and isinstance(x.owner.op, MakeVector):
        return x.owner.inputs[j]
    for k, part in enumerate(parts := arrays_joined_along(x, x.type.ndim - 1) or []):
        if any(p.type.shape[-1] != 1 for p in parts):
            break
        if k == j:
            return part[..., 0]
    return x[..., j]


def is_matrix_product(node: Apply) -> bool:
    """Whether this is a product of matrices."""
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    return isinstance(op, Dot) and all(v.type.ndim >= 2 for v in node.inputs)


def _entry_of_product(
    node: Apply, i: int, j: int, known: dict[Variable, EntryMatrix]
) -> Variable | None:
    """An entry of a product, sum_k x_ik y_kj."""
    x, y = node.inputs
    size = x.type.shape[-1]
    if size is None or size > MOST_ROWS:
        return None
    return add_entries(
        [
            multiply_entries(matrix_entry(x, i, k, known), matrix_entry(y, k, j, known))
            for k in range(size)
        ]
    )


def is_index_update(x: Variable) -> bool:
    """Whether a variable is an array with elements set or added."""
    return x.owner is not None and isinstance(x.owner.op, tuple(INDEX_UPDATE_OPS))


def _entry_of_update(node: Apply, i: int, j: int) -> Variable | None:
    """An entry of a matrix of zeros in which a vector was set at known positions."""
    base, packed, *indexes = node.inputs
    shape = (*node.outputs[0].type.shape, *packed.type.shape)
    plain = getattr(node.op, "set_instead_of_inc", False) and packed.type.ndim == 1
    if not plain or len(shape) != 3 or None in shape or not is_zero(base):
        return None
    if not all(isinstance(index, Constant) for index in indexes):
        return None
    positions = [np.full(shape[:2], -1.0), np.arange(float(shape[2]))]
    try:
        numbers = evaluate_node(node, [*positions, *(index.data for index in indexes)])[0]
    except EVALUATION_ERRORS:
        return None
    position = int(numbers[i, j])
    return pt.constant(np.float64(0.0)) if position < 0 else packed[position]


# ---- arithmetic without zeros ----------------------------------------------------------------


def is_zero(x: Variable) -> bool:
    """Whether an array is known to hold zeros only."""
    while x.owner is not None and library_class_name(x.owner.op) in ("Alloc", "DimShuffle"):
        x = x.owner.inputs[0]
    return isinstance(x, Constant) and not np.any(x.data)


def multiply_entries(a: Variable, b: Variable) -> Variable:
    """a b, or zero."""
    return a if is_zero(a) else b if is_zero(b) else pt.sqr(a) if a is b else a * b


def add_entries(terms: list[Variable]) -> Variable:
    """The sum, without zeros."""
    kept = [term for term in terms if not is_zero(term)]
    return pt.add(*kept) if len(kept) > 1 else kept[0] if kept else terms[0]


def subtract_entries(a: Variable, terms: list[Variable]) -> Variable:
    """a minus the sum of terms, without zeros."""
    kept = [term for term in terms if not is_zero(term)]
    if not kept:
        return a
    return -add_entries(kept) if is_zero(a) else a - add_entries(kept)


def divide_entries(a: Variable, b: Variable) -> Variable:
    """a / b, or zero."""
    return a if is_zero(a) else a / b
