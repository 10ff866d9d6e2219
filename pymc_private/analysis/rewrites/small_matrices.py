"""Algebra of small matrices written out number by number.

A factor or an inverse as one Op hides how its numbers hang together, and PyTensor's gradients of
them are many Ops long. Written out they are sums, products, quotients and roots: the same function
in real arithmetic wherever the Op has a value.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.tensor.basic import ExtractDiag
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle
from pymc_private.analysis.rewrites.small_matrices__cells import Cells, cells_of, is_product, is_put, is_zero, less, over, times, total
from pymc_private.analysis.traversal import bare, scalar_op
from pymc_private.analysis.traversal__rebuild import rebuild

MOST_INVERTED = 3
"""Rows of matrices of which an inverse is written out."""


@dataclass(frozen=True, eq=False)
class Known:
    """Matrices that were written out: their cells; a number and the cells that it multiplies."""

    cells: dict[Variable, Cells]
    parts: dict[Variable, tuple[Variable, Cells]]


def written_out(value: Variable, leaves: list[Variable]) -> Variable:
    """The same function with small Cholesky factors, inverses and triangular solves written out.

    Parameters
    ----------
    value : Variable
    leaves : list of Variable
        Its inputs, of known shapes.
    """
    known = Known({}, {})

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        found = _rewritten(node, inputs, known)
        if found is None:
            return None
        out = node.outputs[0].type
        found = pt.shape_padleft(found, out.ndim - found.type.ndim)
        return found if found.type.dtype == out.dtype else None

    return rebuild([value], {v: v for v in leaves}, rule)[0]


def _rewritten(node: Apply, inputs: list[Variable], known: Known) -> Variable | None:
    """What takes the place of a node; its cells are remembered."""
    op = node.op.core_op if isinstance(node.op, Blockwise) else node.op
    kind = type(op).__name__
    if isinstance(op, ExtractDiag):
        return _diagonal(op, inputs[0], known.cells)
    if kind not in ("Cholesky", "MatrixInverse", "SolveTriangular"):
        return None
    cells = cells_of(inputs[0], known.cells)
    if cells is None or (kind == "MatrixInverse" and len(cells) > MOST_INVERTED):
        return None
    if all(isinstance(cell, Constant) for row in cells for cell in row):
        return None
    if kind == "SolveTriangular":
        return _solved(op, cells, inputs[1])
    if kind == "MatrixInverse":
        found = _scaled(inputs[0], known, _inverse, pt.reciprocal)
        return _matrix(_inverse(cells), known) if found is None else found

    def factor(a: Cells) -> Cells:
        return _cholesky(a) if op.lower else _transposed(_cholesky(a))

    own = _own_factor(inputs[0], known.cells)
    if own is not None:
        return _matrix(own if op.lower else _transposed(own), known)
    own = _between_scales(cells)
    if own is not None:
        return _matrix(own if op.lower else _transposed(own), known)
    found = _scaled(inputs[0], known, factor, pt.sqrt)
    return _matrix(factor(cells), known) if found is None else found


def _cholesky(a: Cells) -> Cells:
    """l_ij = (a_ij - sum_k l_ik l_jk) / l_jj, of the lower triangle."""
    size, zero = len(a), pt.constant(np.float64(0.0))
    found: Cells = [[zero] * size for _ in range(size)]
    for i in range(size):
        for j in range(i + 1):
            rest = less(a[i][j], [times(found[i][k], found[j][k]) for k in range(j)])
            found[i][j] = pt.sqrt(rest) if i == j else over(rest, found[j][j])
    return found


def _own_factor(x: Variable, known: dict[Variable, Cells]) -> Cells | None:
    """The factor of L L' for a lower triangular L: L with the columns' signs made positive."""
    x = bare(x)
    if x.owner is None or not is_product(x.owner):
        return None
    first, second = x.owner.inputs
    if first.type.shape[-1] != first.type.shape[-2]:
        return None
    cells, other = cells_of(first, known), cells_of(second, known)
    if cells is None or other is None or not _is_transpose(first, second):
        return None
    size = range(len(cells))
    if not all(is_zero(cells[i][j]) for i, j in product(size, size) if j > i):
        return None
    return [[times(cells[i][j], pt.sign(cells[j][j])) for j in size] for i in size]


def _between_scales(a: Cells) -> Cells | None:
    """The factor of D C D for a diagonal D: D times the factor of C, of positive diagonal."""
    scales = [_root_of_square(a[i][i]) for i in range(len(a))]
    if len(a) < 2 or any(scale is None for scale in scales):
        return None
    one = pt.constant(np.float64(1.0))
    inner: Cells = [[one] * len(a) for _ in a]
    for i, j in product(range(len(a)), repeat=2):
        rest = _without(a[i][j], [scales[i], scales[j]]) if i != j else one
        if rest is None:
            return None
        inner[i][j] = rest
    signs = [pt.sign(scale) for scale in scales]
    factor = _cholesky(inner)
    return [
        [times(times(scales[i], factor[i][j]), signs[j]) for j in range(len(a))]
        for i in range(len(a))
    ]


def _root_of_square(x: Variable) -> Variable | None:
    """d, where x is seen to be d^2."""
    x, op = bare(x), scalar_op(bare(x))
    if isinstance(op, ps.Sqr):
        return bare(x.owner.inputs[0])
    inputs = x.owner.inputs if isinstance(op, ps.Pow | ps.Mul) else []
    if len(inputs) != 2:
        return None
    first, second = map(bare, inputs)
    if isinstance(op, ps.Mul):
        return first if first is second else None
    is_two = isinstance(second, Constant) and second.data.size == 1 and second.data.item() == 2
    return first if is_two else None


def _without(x: Variable, factors: list[Variable | None]) -> Variable | None:
    """x without factors that it is seen to have; zero has them all."""
    if is_zero(x):
        return x
    x = bare(x)
    left = list(map(bare, x.owner.inputs)) if isinstance(scalar_op(x), ps.Mul) else [x]
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    return pt.mul(*left) if len(left) > 1 else left[0] if left else pt.constant(np.float64(1.0))


def _is_transpose(first: Variable, second: Variable) -> bool:
    """Whether the second is the first with its last two axes exchanged."""
    node = second.owner
    if node is None or not isinstance(node.op, DimShuffle) or node.inputs[0] is not first:
        return False
    lead = tuple(range(first.type.ndim - 2))
    return tuple(node.op.new_order) == (*lead, first.type.ndim - 1, first.type.ndim - 2)


def _parts(x: Variable, known: Known) -> tuple[Variable, Cells] | None:
    """A number and the cells of a matrix whose product x is."""
    x = bare(x)
    if x in known.parts:
        return known.parts[x]
    if not isinstance(scalar_op(x), ps.Mul):
        return None
    numbers = [v for v in x.owner.inputs if v.type.broadcastable[-2:] == (True, True)]
    matrices = [v for v in x.owner.inputs if v not in numbers]
    if not numbers or len(matrices) != 1:
        return None
    cells = cells_of(matrices[0], known.cells)
    scale = numbers[0] if len(numbers) == 1 else pt.mul(*numbers)
    return None if cells is None else (scale[..., 0, 0], cells)


def _scaled(
    x: Variable,
    known: Known,
    face: Callable[[Cells], Cells],
    power: Callable[[Variable], Variable],
) -> Variable | None:
    """Of a number times a matrix: the number's power times the matrix's."""
    parts = _parts(x, known)
    if parts is None:
        return None
    by, cells = power(parts[0]), face(parts[1])
    found = _matrix([[times(by, cell) for cell in row] for row in cells], known)
    known.parts[found] = by, cells
    return found


def _inverse(a: Cells) -> Cells:
    """The cofactors by the determinant."""
    size = len(a)
    if size == 1:
        return [[1.0 / a[0][0]]]
    minors = [[_minor(a, i, j) for j in range(size)] for i in range(size)]
    whole = total([times(a[0][j], minors[0][j]) for j in range(size)])
    return [[over(minors[j][i], whole) for j in range(size)] for i in range(size)]


def _minor(a: Cells, i: int, j: int) -> Variable:
    """A cofactor, with its sign."""
    rest = [[a[r][c] for c in range(len(a)) if c != j] for r in range(len(a)) if r != i]
    if len(rest) == 1:
        value = rest[0][0]
    else:
        value = less(times(rest[0][0], rest[1][1]), [times(rest[0][1], rest[1][0])])
    return -value if (i + j) % 2 and not is_zero(value) else value


def _solved(op: object, a: Cells, right: Variable) -> Variable | None:
    """Substitution: x_i = (b_i - sum_j a_ij x_j) / a_ii."""
    size = len(a)
    if op.b_ndim != 1 or right.type.shape[-1] != size:  # type: ignore[attr-defined]
        return None
    order = list(range(size) if op.lower else range(size - 1, -1, -1))  # type: ignore[attr-defined]
    found: dict[int, Variable] = {}
    for i in order:
        rest = less(right[..., i], [times(a[i][j], found[j]) for j in found])
        found[i] = rest if op.unit_diagonal else over(rest, a[i][i])  # type: ignore[attr-defined]
    return _stacked([found[i] for i in range(size)])


def _transposed(a: Cells) -> Cells:
    return [list(column) for column in zip(*a, strict=True)]


def _diagonal(op: ExtractDiag, x: Variable, known: dict[Variable, Cells]) -> Variable | None:
    """Of a matrix whose cells are seen."""
    ndim, plain = x.type.ndim, bare(x)
    if op.offset or (op.axis1 % ndim, op.axis2 % ndim) != (ndim - 2, ndim - 1):
        return None
    cells = cells_of(plain, known) if plain in known or is_put(plain) else None
    if cells is None:
        return None
    found = _stacked([cells[i][i] for i in range(len(cells))])
    return pt.shape_padleft(found, ndim - plain.type.ndim)


def _stacked(parts: list[Variable]) -> Variable:
    """One array, with the parts along its last axis."""
    return pt.stack(_alike(parts), axis=-1)


def _alike(parts: list[Variable]) -> list[Variable]:
    """All stretched to one shape."""
    if all(part.type.ndim == 0 for part in parts):
        return parts
    return list(pt.broadcast_arrays(*parts))


def _matrix(cells: Cells, known: Known) -> Variable:
    """One matrix, whose cells are remembered."""
    whole = _alike([cell for row in cells for cell in row])
    size = len(cells)
    rows = [pt.stack(whole[i * size : (i + 1) * size], axis=-1) for i in range(size)]
    found = pt.stack(rows, axis=-2)
    known.cells[found] = cells
    return found
