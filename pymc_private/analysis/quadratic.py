"""Quadratic forms in the entries of one row, with graphs as coefficients.

For a row z a node may be sum_k (a_k z_k^2 + b_k z_k) + c with a, b, c that do not read z. What
many entries amount to is then a matter of |z| and of one product <b, z>: see
`certificates.ball_range`. The forms are equal to the nodes in real arithmetic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import io_toposort
from pytensor.tensor.basic import Join
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.subtensor import Subtensor

from pymc_private.analysis.rewrites.algebra import joined_arrays

Coefficient: TypeAlias = Variable | None
"""A coefficient; None is zero."""


@dataclass(frozen=True, eq=False)
class QuadraticForm:
    """square_k z_k^2 + slope_k z_k + constant: for each k, or the sum over k.

    Parameters
    ----------
    square, slope : Variable of 0 or 1 axes, or None
        One for each entry, or one for all; None for zero.
    constant : Variable or None
        Likewise; of a sum it has no axes.
    is_sum : bool
        Whether it is one number.
    entry : int or None
        Of one number that reads one entry alone: which. Then no coefficient has an axis.
    """

    square: Coefficient
    slope: Coefficient
    constant: Coefficient
    is_sum: bool = False
    entry: int | None = None

    @property
    def degree(self) -> int:
        """Degree of the polynomial: 0, 1 or 2."""
        return 2 if self.square is not None else int(self.slope is not None)

    def plus(self, other: QuadraticForm, sign: float = 1.0) -> QuadraticForm:
        """The sum, or with sign -1 the difference."""
        return QuadraticForm(
            _plus(self.square, _scaled(other.square, sign)),
            _plus(self.slope, _scaled(other.slope, sign)),
            _plus(self.constant, _scaled(other.constant, sign)),
            self.is_sum or other.is_sum,
        )

    def times(self, other: QuadraticForm) -> QuadraticForm:
        """The product, where the degrees add up to at most two."""
        (a2, a1, a0), (b2, b1, b0) = (
            (q.square, q.slope, q.constant) for q in (self, other)
        )  # fmt: skip
        return QuadraticForm(
            _plus(_plus(_times(a2, b0), _times(a0, b2)), _times(a1, b1)),
            _plus(_times(a1, b0), _times(a0, b1)),
            _times(a0, b0),
            self.is_sum or other.is_sum,
        )

    def squared(self) -> QuadraticForm:
        """The square of a form of degree at most one, each coefficient once, for tight bounds."""
        twice = _scaled(_times(self.slope, self.constant), 2.0)
        return QuadraticForm(_square(self.slope), twice, _square(self.constant), self.is_sum)

    def over(self, divisor: Variable) -> QuadraticForm:
        """The form divided by what does not read the row."""
        square, slope, constant = (
            None if part is None else part / divisor
            for part in (self.square, self.slope, self.constant)
        )
        return QuadraticForm(square, slope, constant, self.is_sum)

    def summed(self, size: int) -> QuadraticForm:
        """The sum of the form over `size` entries."""
        c = self.constant
        total = None if c is None else c.sum() if c.type.ndim else float(size) * c
        return QuadraticForm(self.square, self.slope, total, True)


def _plus(a: Coefficient, b: Coefficient) -> Coefficient:
    """The sum; None is zero."""
    return b if a is None else a if b is None else a + b


def _times(a: Coefficient, b: Coefficient) -> Coefficient:
    """The product; None is zero, and a factor of one is left out."""
    return None if a is None or b is None else a if _is_one(b) else b if _is_one(a) else a * b


def _square(a: Coefficient) -> Coefficient:
    """The square; None is zero."""
    return None if a is None else a if _is_one(a) else pt.sqr(a)


def _scaled(a: Coefficient, number: float) -> Coefficient:
    """A multiple by a number; None is zero."""
    return None if a is None else a if number == 1.0 else number * a


def _is_one(a: Variable) -> bool:
    """Whether a coefficient is the number one."""
    return isinstance(a, Constant) and a.data.size == 1 and a.data.item() == 1.0


def quadratic_forms(value: Variable, row: Variable, center: np.ndarray, scale: np.ndarray) -> dict:
    """The nodes that are quadratic in a row, as polynomials in z = (row - center) / scale.

    `row` has one axis of known length. The forms are equal to the nodes in real arithmetic; nodes
    that do not read the row are left out.
    """
    (size,) = row.type.shape
    own = QuadraticForm(
        None, _compact_constant(scale), _compact_constant(center) if np.any(center) else None
    )
    found: dict[Variable, QuadraticForm] = {row: own}
    reading = {row}
    for node in io_toposort([row], [value]):
        if reading.isdisjoint(node.inputs):
            continue
        reading.update(node.outputs)
        entry = _entry_form(node, found, size)
        if entry is not None:
            found[node.outputs[0]] = entry
            continue
        if len(node.outputs) != 1 or not _are_doubles([*node.inputs, *node.outputs]):
            continue
        out = node.outputs[0]
        made = _form_of_node(node, found, reading, size)
        # An axis before the last holds this row alone; a sum is one number.
        rest = (
            out.type.broadcastable if made is None or made.is_sum else out.type.broadcastable[:-1]
        )
        if made is not None and all(rest):
            found[out] = made
    return found


def _are_doubles(variables: list[Variable]) -> bool:
    """Whether no value is rounded to a shorter float or wraps around; constants may be integers."""
    computed = [v for v in variables if not isinstance(v, Constant)]
    return all(isinstance(v.type, pt.TensorType) for v in variables) and all(
        v.type.dtype == "float64" for v in computed
    )


def _compact_constant(values: np.ndarray) -> Variable:
    """The values as a constant graph, as one number where all are equal."""
    same = np.all(values == values[..., :1])
    return pt.constant(np.float64(values[0]) if same else np.asarray(values, np.float64))


def _form_of_node(
    node: Apply, found: dict, reading: set[Variable], size: int
) -> QuadraticForm | None:
    """The form of a node, given those of its inputs; None if it is no quadratic form."""
    if _is_dot(node.op):
        return _dot_form(node, found, reading, size)
    if isinstance(node.op, Join):
        return _joined_entries(node, found, size)
    parts = [found.get(v) if v in reading else _constant_form(v, size) for v in node.inputs]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if isinstance(node.op, DimShuffle):
        order, last = node.op.new_order, node.inputs[0].type.ndim - 1
        stays = bool(order) and order[-1] == last
        return known[0] if stays or known[0].is_sum else None
    if isinstance(node.op, Sum):
        return _sum_form(node, known[0], size)
    return _elementwise_form(node, known) if isinstance(node.op, Elemwise) else None


def _constant_form(variable: Variable, size: int) -> QuadraticForm | None:
    """The form of what does not read the row: one number, or one for each entry."""
    shape = variable.type.broadcastable
    if not all(shape[:-1]):
        return None
    if all(shape):
        return QuadraticForm(None, None, variable.dimshuffle([]), True)
    known = variable.type.shape[-1]
    return (
        QuadraticForm(None, None, variable.dimshuffle([len(shape) - 1])) if known == size else None
    )


def _sum_form(node: Apply, part: QuadraticForm, size: int) -> QuadraticForm | None:
    """The sum over the entries, or over axes of length one."""
    last = node.inputs[0].type.ndim - 1
    axes = range(last + 1) if node.op.axis is None else node.op.axis
    if part.is_sum:
        return part
    return part.summed(size) if last in axes else part


def _is_dot(op: Op) -> bool:
    """Whether an Op is a product of matrices or vectors."""
    return isinstance(op, Dot) or (isinstance(op, Blockwise) and isinstance(op.core_op, Dot))


def _dot_form(node: Apply, found: dict, reading: set[Variable], size: int) -> QuadraticForm | None:
    """The product of a row with a vector that does not read it."""
    rows, others = ([v for v in node.inputs if (v in reading) is own] for own in (True, False))
    if len(rows) != 1 or rows[0] not in found or found[rows[0]].is_sum:
        return None
    (other,) = others
    longer = [k for k, size_k in enumerate(other.type.shape) if size_k != 1]
    if [other.type.shape[k] for k in longer] != [size]:
        return None
    return found[rows[0]].times(QuadraticForm(None, None, other.dimshuffle(longer))).summed(size)


def _entry_form(node: Apply, found: dict, size: int) -> QuadraticForm | None:
    """One entry of a row, row[..., k]."""
    row = found.get(node.inputs[0])
    if not isinstance(node.op, Subtensor) or row is None or row.is_sum:
        return None
    *before, last = node.op.idx_list
    whole = len(before) == node.inputs[0].type.ndim - 1 and all(e == slice(None) for e in before)
    if not whole or isinstance(last, slice) or not isinstance(node.inputs[-1], Constant):
        return None
    k = int(node.inputs[-1].data) % size
    square, slope, constant = (
        part[k] if part is not None and part.type.ndim else part
        for part in (row.square, row.slope, row.constant)
    )
    return QuadraticForm(square, slope, constant, True, k)


def _joined_entries(node: Apply, found: dict, size: int) -> QuadraticForm | None:
    """The row put together from all of its entries, in order, along the last axis."""
    parts = [part for v in joined_arrays(node) if (part := found.get(v)) is not None]
    axis = node.op.axis if hasattr(node.op, "axis") else getattr(node.inputs[0], "data", None)
    last = node.outputs[0].type.ndim - 1
    entries = [part.entry for part in parts]
    if (
        len(joined_arrays(node)) != size
        or entries != list(range(size))
        or axis is None
        or int(axis) % (last + 1) != last
    ):
        return None
    square, slope, constant = (
        None if all(each is None for each in some)
        else pt.stack([pt.constant(0.0) if each is None else each for each in some])
        for some in zip(*((p.square, p.slope, p.constant) for p in parts), strict=True)
    )  # fmt: skip
    return QuadraticForm(square, slope, constant)


def _elementwise_form(node: Apply, parts: list[QuadraticForm]) -> QuadraticForm | None:
    """An elementwise function of rows and sums; or of one entry, which may be squared as it is."""
    entries = {part.entry for part in parts if part.entry is not None}
    if not entries:
        return _arithmetic_form(node, parts)
    rest = [part for part in parts if part.entry is None]
    if len(entries) > 1 or any(part.degree or not part.is_sum for part in rest):
        return None
    made = _arithmetic_form(node, [replace(part, entry=None, is_sum=False) for part in parts])
    return None if made is None else replace(made, entry=entries.pop(), is_sum=True)


def _arithmetic_form(node: Apply, parts: list[QuadraticForm]) -> QuadraticForm | None:
    """Sums, products, squares, and quotients by what does not read the row; else None."""
    op, first = node.op.scalar_op, parts[0]
    if isinstance(op, ps.Identity):
        return first
    if isinstance(op, ps.Neg):
        return QuadraticForm(None, None, None, first.is_sum).plus(first, -1.0)
    if isinstance(op, ps.Sqr):
        return first.squared() if _can_multiply([first, first]) else None
    if isinstance(op, ps.Pow):
        number = node.inputs[1]
        two = isinstance(number, Constant) and np.all(np.asarray(number.data) == 2)
        return first.squared() if two and _can_multiply([first, first]) else None
    if isinstance(op, ps.Add | ps.Sub):
        total = first
        for part in parts[1:]:
            if not _can_add(total, part):
                return None
            total = _with_extent(
                total, part, total.plus(part, -1.0 if isinstance(op, ps.Sub) else 1.0)
            )
        return total
    if isinstance(op, ps.Mul):
        total = first
        for part in parts[1:]:
            if not _can_multiply([total, part]):
                return None
            total = _with_extent(total, part, total.times(part))
        return total
    if isinstance(op, ps.TrueDiv) and parts[1].degree == 0 and parts[1].constant is not None:
        if first.is_sum and not parts[1].is_sum:
            return None
        return _with_extent(first, first, first.over(parts[1].constant))
    return None


def _with_extent(a: QuadraticForm, b: QuadraticForm, made: QuadraticForm) -> QuadraticForm:
    """A result that is one number only if both operands are, else one for each entry."""
    return QuadraticForm(made.square, made.slope, made.constant, a.is_sum and b.is_sum)


def _can_add(a: QuadraticForm, b: QuadraticForm) -> bool:
    """Whether forms can be added: a sum of entries, broadcast along a row, would be repeated."""
    return a.is_sum == b.is_sum or all(q.degree == 0 for q in (a, b) if q.is_sum)


def _can_multiply(parts: list[QuadraticForm]) -> bool:
    """Whether the product is of degree two, and no sum of entries is multiplied by a row."""
    a, b = parts
    if a.degree + b.degree > 2:
        return False
    if a.is_sum and b.is_sum:
        return min(a.degree, b.degree) == 0  # the square of a sum has products of entries
    return all(q.degree == 0 for q in parts if q.is_sum)


def quadratic_sums(value: Variable, found: Mapping[Variable, QuadraticForm]) -> list[Variable]:
    """The last nodes on the way to `value` that are sums of a form of degree two."""
    last: list[Variable] = []
    stack, seen = [value], set()
    while stack:
        v = stack.pop()
        if v in seen:
            continue
        seen.add(v)
        part = found.get(v)
        if part is not None and part.is_sum and part.degree > 0 and part.entry is None:
            if part.degree == 2:
                last.append(v)
        elif v.owner is not None:
            stack.extend(v.owner.inputs)
    return last
