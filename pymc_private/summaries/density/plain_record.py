"""The log density of one record in operations that act on many records alike.

Written so, a graph can be evaluated for a batch of records and values at once: matrix products of a
single row are sums of products, an entry looked up by a record's category is a sum over categories,
marks that only bounds need are gone, and a check that fails gives NaN.
Sums and products are regrouped so that what reads parameters but no outcome stands together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from functools import reduce
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    AllocEmpty,
    Join,
    MakeVector,
    ScalarFromTensor,
    TensorFromScalar,
)
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import All, Dot
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, indices_from_subtensor

from pymc_private.analysis.continuity import dependent_variables
from pymc_private.analysis.intervals.ops import (
    EqualForms,
    InverseMills,
    LogAddExp,
    LogPhi,
    LogPhiBetween,
    LogPhiGap,
    LogSigmoidGap,
    LogSumExp,
    OnSimplex,
    PowerStep,
    log_phi,
)
from pymc_private.analysis.rewrites.normal_cdf import expand_log_phi
from pymc_private.analysis.traversal import (
    ReplacementRule,
    library_class_name,
    rebuild,
    scalar_op,
)

LOOKUPS = ("Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1")
MOST_CATEGORIES = 2000
"""Longest axis that is looked up as a sum over its entries."""
MOST_PLACES = 4096
"""Most places of a fixed selection of entries that is written as a sum."""


def plain_record(value: Variable, parameters: Set[Variable], data: Set[Variable]) -> Variable:
    """The same log density in operations that vectorize; `data` are the record's entries."""
    read = dependent_variables([value], list(data))
    moving = dependent_variables([value], list(parameters))
    lookups = _lookup_rule(read, moving)

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        for write in WRITERS:
            found = write(node, inputs)
            if found is not None:
                return found
        return lookups(node, inputs)

    return rebuild_by_leaves([value], rule)[0]


def rebuild_by_leaves(outputs: Sequence[Variable], rule: ReplacementRule) -> list[Variable]:
    """Graphs with nodes replaced by a rule; their leaves stay."""
    leaves = {v: v for v in ancestors(list(outputs)) if v.owner is None}
    return rebuild(list(outputs), leaves, rule)


def _without_marks(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Nodes that compute nothing, and checks."""
    op = node.op
    if isinstance(op, SpecifyShape | OnSimplex | ScalarFromTensor | TensorFromScalar):
        return inputs[0]
    if isinstance(scalar_op(node.outputs[0]), EqualForms):
        return inputs[0]
    if isinstance(op, CheckAndRaise):
        holds = [pt.as_tensor(v) for v in inputs[1:]]
        known = [v for v in holds if not (isinstance(v, Constant) and bool(np.all(v.data)))]
        return pt.switch(reduce(pt.and_, known), inputs[0], np.nan) if known else inputs[0]
    if isinstance(op, All) and inputs[0].type.ndim == 1 and _is_joined_scalars(inputs[0]):
        return reduce(pt.and_, _parts(inputs[0].owner))
    return None


def _is_joined_scalars(variable: Variable) -> bool:
    """Whether a vector was made of scalars."""
    node = variable.owner
    return node is not None and isinstance(node.op, MakeVector)


def _parts(node: Apply) -> list[Variable]:
    return [pt.as_tensor(v) for v in node.inputs]


def _joined(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Joined arrays as a sum in which each stands in its own place.

    The derivative of a join cuts an array into parts, which does not vectorize.
    """
    if isinstance(node.op, MakeVector):
        if node.outputs[0].type.dtype == "bool":
            return None
        return join([pt.expand_dims(pt.as_tensor(v), 0) for v in inputs])
    if not isinstance(node.op, Join):
        return None
    fixed = getattr(node.op, "axis", None)  # PyTensor 2 has it as the first input
    axis = fixed if fixed is not None else _constant_axis(inputs[0])
    parts = inputs if fixed is not None else inputs[1:]
    return None if axis is None else join(parts, axis % parts[0].type.ndim)


def join(parts: Sequence[Variable], axis: int = 0) -> Variable | None:
    """Arrays joined along an axis, as a sum; None where it would be long."""
    lengths = [v.type.shape[axis] for v in parts]
    if None in lengths or sum(lengths) > MOST_PLACES:
        return None
    start, placed = 0, []
    for v, length in zip(parts, lengths, strict=True):
        places = np.zeros((length, sum(lengths)), dtype=bool)
        places[np.arange(length), start + np.arange(length)] = True
        placed.append(_placed(v, axis, places))
        start += length
    return reduce(pt.add, placed)


def _constant_axis(axis: Variable) -> int | None:
    return int(axis.data) if isinstance(axis, Constant) else None


def _placed(x: Variable, axis: int, places: np.ndarray) -> Variable:
    """An array whose entry j along an axis is the entry k of x with places[k, j], or 0."""
    if places.shape == (1, 1) and places.all():
        return x
    after = x.type.ndim - axis - 1
    wide = x.dimshuffle(*range(axis + 1), "x", *range(axis + 1, x.type.ndim))
    mask = pt.constant(places).dimshuffle(*("x" for _ in range(axis)), 0, 1, *("x",) * after)
    return pt.switch(mask, wide, pt.zeros((), dtype=x.type.dtype)).sum(axis=axis)


def _product(node: Apply, inputs: list[Variable]) -> Variable | None:
    """A matrix product as a sum of products: of a single row it is the faster way."""
    if not isinstance(node.op, Dot):
        return None
    left, right = inputs
    if right.type.ndim == 1:
        return (left * right).sum(axis=-1)
    if left.type.ndim == 1:
        return (left[:, None] * right).sum(axis=0)
    return (left[:, :, None] * right[None]).sum(axis=1)


def _complement_of_complement(node: Apply, inputs: list[Variable]) -> Variable | None:
    """log(1 - (1 - e^x)) = x and log(1 - Phi(z)) = log Phi(-z), exact in the tails."""
    if not isinstance(scalar_op(node.outputs[0]), psm.Log1mexp):
        return None
    inner = inputs[0]
    while inner.owner is not None and isinstance(scalar_op(inner), ps.Identity):
        inner = inner.owner.inputs[0]
    base, moved = _under_shape_changes(inner)
    if isinstance(scalar_op(base), psm.Log1mexp):
        return moved(base.owner.inputs[0])
    if isinstance(scalar_op(base), LogPhi):
        return moved(log_phi(-base.owner.inputs[0]))
    return None


def _power_for_incomplete_beta(node: Apply, inputs: list[Variable]) -> Variable | None:
    """I_x(a, 1) = x^a: the mass of a negative binomial at 0, which hurdles leave out.

    The derivative of an incomplete beta function is a series, summed number by number.
    """
    if not isinstance(scalar_op(node.outputs[0]), psm.BetaInc):
        return None
    a, b, x = inputs
    if not (isinstance(b, Constant) and np.all(np.asarray(b.data) == 1)):
        return None
    found = pt.power(x, a)
    return found if found.type.shape == node.outputs[0].type.shape else None


def _under_shape_changes(
    variable: Variable,
) -> tuple[Variable, Callable[[Variable], Variable]]:
    """What is below added and dropped axes and outside conditions, and how to come back."""
    node = variable.owner
    if node is not None and isinstance(node.op, DimShuffle):
        base, moved = _under_shape_changes(node.inputs[0])
        return base, lambda v: node.op(moved(v))
    is_condition = isinstance(scalar_op(variable), ps.Switch)
    if is_condition and isinstance(node.inputs[2], Constant) and _is_minus_infinity(node.inputs[2]):
        base, moved = _under_shape_changes(node.inputs[1])
        return base, lambda v: pt.switch(node.inputs[0], moved(v), 0.0)
    if is_condition and isinstance(node.inputs[1], Constant) and _is_minus_infinity(node.inputs[1]):
        base, moved = _under_shape_changes(node.inputs[2])
        return base, lambda v: pt.switch(node.inputs[0], 0.0, moved(v))
    return variable, lambda v: v


def _is_minus_infinity(constant: Constant) -> bool:
    return bool(np.all(np.isneginf(np.asarray(constant.data, dtype=float))))


def _incremented(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Entries set or increased at fixed positions, as a sum of arrays in their own places."""
    if not isinstance(node.op, IncSubtensor):
        return None
    x, y, *rest = inputs
    entries = list(indices_from_subtensor(rest, node.op.idx_list))
    entries += [slice(None)] * (x.type.ndim - len(entries))
    kept = sum(isinstance(entry, slice) for entry in entries)
    y = pt.shape_padleft(y, kept - y.type.ndim) if kept > y.type.ndim else y
    mask = np.ones((1,) * x.type.ndim, dtype=bool)
    for axis, (entry, length) in enumerate(zip(entries, x.type.shape, strict=True)):
        position = _fixed_position(entry)
        if position is None or length is None or length > MOST_PLACES:
            return None
        if not isinstance(position, slice):
            y = pt.expand_dims(y, axis)
        hits = np.zeros(length, dtype=bool)
        hits[position] = True
        mask = mask & hits.reshape([-1 if k == axis else 1 for k in range(x.type.ndim)])
        picked = np.atleast_1d(np.arange(length)[position])
        if y.type.shape[axis] not in (1, len(picked)):
            return None
        one = y.type.shape[axis] == 1
        y = _placed(y, axis, hits[None] if one else picked[:, None] == np.arange(length))
    return pt.switch(mask, y, x) if node.op.set_instead_of_inc else x + y


def _filled(node: Apply, inputs: list[Variable]) -> Variable | None:
    """An array of known shape filled with a value, as an elementwise operation."""
    op, shape = node.op, node.outputs[0].type.shape
    if isinstance(op, AllocEmpty) and None not in shape:
        return pt.constant(np.zeros(shape, dtype=node.outputs[0].type.dtype))
    if isinstance(op, Alloc) and None not in shape:
        zeros = np.zeros(shape, dtype=node.outputs[0].type.dtype)
        return pt.second(pt.constant(zeros), inputs[0])
    return None


WRITERS = (
    _without_marks,
    _product,
    _joined,
    _incremented,
    _filled,
    _complement_of_complement,
    _power_for_incomplete_beta,
)
"""Rules that need the node alone."""


def vectorizable(outputs: Sequence[Variable]) -> list[Variable]:
    """Graphs, derivatives among them, without operations that vectorize to loops in Python."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        for write in (_joined, _incremented, _filled):
            found = write(node, inputs)
            if found is not None:
                return found
        return None

    return rebuild_by_leaves(outputs, rule)


# ---- entries looked up by a record ------------------------------------------------------------


def _lookup_rule(read: Set[Variable], moving: Set[Variable]) -> ReplacementRule:
    """A rule for entries of an array at positions that are read from the record (`read`).

    Entries at fixed positions are written so too where parameters move them: the derivative of
    taking entries does not vectorize.
    """

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if library_class_name(node.op) not in LOOKUPS:
            return None
        if not read.isdisjoint(node.inputs[1:]):
            return _looked_up(inputs[0], index_entries(node.op, inputs))
        if node.inputs[0] in moving:
            return _fixed_entries(inputs[0], index_entries(node.op, inputs))
        return None

    return rule


def _fixed_entries(x: Variable, entries: list[Any]) -> Variable | None:
    """x[entries] for constant slices and integers, along one axis after another."""
    axis, found = 0, x
    for entry, length in zip(entries, x.type.shape, strict=False):
        position = _fixed_position(entry)
        if position is None or length is None:
            return None
        picked = np.atleast_1d(np.arange(length)[position])
        if length * max(len(picked), 1) > MOST_PLACES or not len(picked):
            return None
        if not (isinstance(position, slice) and len(picked) == length and picked[0] == 0):
            places = np.arange(length)[:, None] == picked
            found = _placed(found, axis, places)
        if isinstance(position, slice):
            axis += 1
        else:
            found = found.sum(axis=axis)  # of length 1
    return found


def _fixed_position(entry: Any) -> slice | int | None:
    """A constant index of one axis as Python writes it."""
    if isinstance(entry, slice):
        parts = [_constant_number(part) for part in (entry.start, entry.stop, entry.step)]
        return None if any(part is _UNKNOWN for part in parts) else slice(*parts)
    number = _constant_number(entry)
    return number if isinstance(number, int) else None


_UNKNOWN = object()


def _constant_number(part: Any) -> Any:
    if part is None or isinstance(part, int | np.integer):
        return part if part is None else int(part)
    if isinstance(part, Constant) and np.ndim(part.data) == 0 and part.data is not None:
        return int(part.data)
    return _UNKNOWN


def index_entries(op: Any, inputs: list[Variable]) -> list[Any]:
    """The index as Python would write it: slices and integer variables, one per leading axis."""
    if hasattr(op, "idx_list"):
        entries = list(indices_from_subtensor(inputs[1:], op.idx_list))
    else:
        entries = list(inputs[1:])
    return [getattr(e, "data", e) if _is_slice_constant(e) else e for e in entries]


def _is_slice_constant(entry: Any) -> bool:
    return isinstance(entry, Constant) and isinstance(entry.data, slice)


def _looked_up(x: Variable, entries: list[Any]) -> Variable | None:
    """x[entries] as sums over the axes that integers index; None if the index is of another kind.

    In NumPy's order of axes: those of the index stand where the first indexed axis was.
    """
    if any(not isinstance(e, slice | Variable | int | np.integer) for e in entries):
        return None
    cuts = tuple(e if isinstance(e, slice) else slice(None) for e in entries)
    if any(cut != slice(None) for cut in cuts):
        x = x[cuts]
    axes = [k for k, e in enumerate(entries) if not isinstance(e, slice)]
    lengths = [x.type.shape[k] for k in axes]
    if any(length is None or length > MOST_CATEGORIES for length in lengths):
        return None
    index = [pt.as_tensor(entries[k]) for k in axes]
    if any(not v.type.dtype.startswith(("int", "uint")) for v in index):
        return None
    depth = max(v.type.ndim for v in index)
    contiguous = axes == list(range(axes[0], axes[0] + len(axes)))
    if depth and not contiguous:
        return None
    rest = [k for k in range(x.type.ndim) if k not in axes]
    found = x.dimshuffle(*("x" for _ in range(depth)), *axes, *rest)
    for v, length in zip(index, lengths, strict=True):
        found = _take_next(found, v, int(length), depth)
    before = sum(k < axes[0] for k in rest)
    order = [*range(depth, depth + before), *range(depth), *range(depth + before, found.type.ndim)]
    return found.dimshuffle(*order) if depth and before else found


def _take_next(x: Variable, index: Variable, length: int, depth: int) -> Variable:
    """The entries along the axis after the first `depth` ones, which are those of the index."""
    index = pt.switch(pt.lt(index, 0), index + length, index)
    index = index.dimshuffle(
        *("x" for _ in range(depth - index.type.ndim)), *range(index.type.ndim)
    )
    hits = pt.eq(index[..., None], pt.arange(length))
    hits = hits.dimshuffle(*range(depth + 1), *("x" for _ in range(x.type.ndim - depth - 1)))
    return pt.switch(hits, x, pt.zeros((), dtype=x.type.dtype)).sum(axis=depth)


# ---- sums and products ------------------------------------------------------------------------


def regroup(value: Variable, parameters: Sequence[Variable], outcome: Variable) -> Variable:
    """The same graph with what reads parameters but no outcome put together in sums and products.

    A canonical form writes y - (a + b) as y - a - b; then no node is the predictor a + b.
    """
    moving = dependent_variables([value], list(parameters))
    reads_outcome = dependent_variables([value], [outcome])
    own = {v for v in moving if v not in reads_outcome}

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        found = _regrouped(node, inputs, own)
        if found is None and inputs != node.inputs and len(node.outputs) == 1:
            found = node.op.make_node(*inputs).outputs[0]
        if found is not None and node.outputs[0] in own:
            own.add(found)
        return found

    return rebuild_by_leaves([value], rule)[0]


def _regrouped(node: Apply, inputs: list[Variable], own: set[Variable]) -> Variable | None:
    """A sum or product with its own terms together, those of fewer entries first."""
    if node.outputs[0] in own:
        return None
    scalar = scalar_op(node.outputs[0])
    if isinstance(scalar, ps.Add | ps.Sub):
        terms = _terms(scalar, inputs, (ps.Add, ps.Sub), own)
        plus, minus = pt.add, pt.sub
    elif isinstance(scalar, ps.Mul | ps.TrueDiv):
        terms = _terms(scalar, inputs, (ps.Mul, ps.TrueDiv), own)
        plus, minus = pt.mul, pt.true_div
    else:
        return None
    mine = [(sign, v) for sign, v in terms if v in own]
    others = [(sign, v) for sign, v in terms if v not in own]
    if len(mine) < 2:
        return None
    mine.sort(key=lambda term: _static_size(term[1]))
    sign = mine[0][0]
    group = _combined([(sign * s, v) for s, v in mine], plus, minus, own)
    total = _combined(others, plus, minus, None)
    return plus(total, group) if sign > 0 else minus(total, group)


def _terms(
    scalar: Any, inputs: list[Variable], kinds: tuple[type, type], own: Set[Variable]
) -> list[tuple[int, Variable]]:
    """Signed terms of nested sums (or factors of nested products); those of own sums stay one."""
    signs = [1, -1] if isinstance(scalar, kinds[1]) else [1] * len(inputs)
    found: list[tuple[int, Variable]] = []
    for sign, v in zip(signs, inputs, strict=True):
        if ps.Sub in kinds and _negated(v) is not None:
            sign, v = -sign, _negated(v)
        inner = scalar_op(v)
        if isinstance(inner, kinds) and v not in own:
            found += [(sign * s, w) for s, w in _terms(inner, v.owner.inputs, kinds, own)]
        else:
            found.append((sign, v))
    return found


def _negated(variable: Variable) -> Variable | None:
    """x, of a variable that is -x."""
    scalar = scalar_op(variable)
    if isinstance(scalar, ps.Neg):
        return variable.owner.inputs[0]
    if isinstance(scalar, ps.Mul) and len(variable.owner.inputs) == 2:
        first, second = variable.owner.inputs
        if isinstance(first, Constant) and bool(np.all(np.asarray(first.data) == -1.0)):
            return second
    return None


def _combined(
    terms: list[tuple[int, Variable]], plus: Any, minus: Any, own: set[Variable] | None
) -> Variable:
    """The sum (or product) of signed terms; partial sums of own terms are own."""
    ordered = sorted(terms, key=lambda term: -term[0]) if terms[0][0] < 0 else terms
    sign, total = ordered[0]
    if sign < 0:
        total = minus(np.float64(0.0 if minus is pt.sub else 1.0), total)
    for sign, v in ordered[1:]:
        total = plus(total, v) if sign > 0 else minus(total, v)
        if own is not None:
            own.add(total)
    return total


def _static_size(variable: Variable) -> int:
    return int(np.prod([1 if k == 1 else 2 if k is None else k for k in variable.type.shape]))


# ---- plain operations for PyMC ------------------------------------------------------------------


def in_compiled_operations(value: Variable) -> Variable:
    """The graph in operations that PyTensor's compilers know and differentiate."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        scalar = scalar_op(node.outputs[0])
        for kind, write in COMPILED.items():
            if isinstance(scalar, kind):
                return write(*inputs)
        if isinstance(node.op, LogSumExp):
            return pt.logsumexp(inputs[0], axis=-1)
        return None

    return expand_log_phi(rebuild_by_leaves([value], rule)[0])


def _log_sigmoid_gap(z: Variable, gap: Variable) -> Variable:
    return pt.log(-pt.expm1(-gap)) - pt.softplus(-(z + gap)) - pt.softplus(z)


def _log_phi_between(above: Variable, below: Variable) -> Variable:
    """On the side of the lower tail."""
    flipped = below > -above
    low = pt.switch(flipped, -above, below)
    high = pt.switch(flipped, -below, above)
    top = log_phi(high)
    return top + pt.log(-pt.expm1(log_phi(low) - top))


COMPILED: dict[type, Callable[..., Variable]] = {
    LogAddExp: pt.logaddexp,
    LogSigmoidGap: _log_sigmoid_gap,
    LogPhiBetween: _log_phi_between,
    LogPhiGap: lambda z, gap: _log_phi_between(z + gap, z),
    PowerStep: lambda x, b: (x + 1.0) ** b - x**b,
    InverseMills: lambda z: np.sqrt(2.0 / np.pi) / pt.erfcx(-z / np.sqrt(2.0)),
}
"""Functions of `analysis` that only bounds need as one Op."""
