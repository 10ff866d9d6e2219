"""The parts that a sum is made of: a log-likelihood whose sum was written by the model.

Distributions over a sequence (AR, a random walk) give one number, the sum over their factor rows.
`addends` takes one step from such a number towards the rows.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections.abc import Callable, Sequence
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import Alloc, Join, MakeVector, ScalarFromTensor, Split, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Reshape, SpecifyShape
from pymc_private.analysis.rewrites.algebra__expand import SUMMED
from pymc_private.analysis.intervals.arrays__shape import parameters_of
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.record_dependence import Concrete

Reads = Callable[[Variable], bool]
"""Whether a variable reads a record."""

SAME = (DimShuffle, Reshape, ScalarFromTensor, SpecifyShape, Sum, TensorFromScalar)
"""Ops after which the sum of all elements is what it was."""


def addends(variable: Variable, reads: Reads, concrete: Concrete) -> list[Variable] | None:
    """Variables whose elements, all added up, give the sum of the elements of another.

    Parameters
    ----------
    variable : Variable
        Of any shape.
    reads : callable
        Whether a variable reads a record: a factor that does is not drawn into the parts.
    concrete : Concrete
        For shapes.

    Returns
    -------
    list of Variable or None
        One step down, or None where `variable` is no sum.
    """
    node = variable.owner
    if node is None or variable.type.dtype not in SUMMED:
        return None
    op = node.op
    if isinstance(op, SAME):
        return [node.inputs[0]] if adds_up(node) else None
    if isinstance(op, MakeVector):
        return list(node.inputs)
    if isinstance(op, Join):
        return list(joined(node))
    if isinstance(op, CheckAndRaise):
        if any(reads(condition) for condition in node.inputs[1:]):
            return None
        inner = addends(node.inputs[0], reads, concrete)
        return None if inner is None else [op(part, *node.inputs[1:]) for part in inner]
    if isinstance(op, Dot):
        return [inner_products(node)]
    if isinstance(op, Elemwise):
        return _of_elementwise(node, reads, concrete)
    return None


def adds_up(node: Apply) -> bool:
    """Whether a Sum adds numbers up as real numbers: one kept in a narrow integer wraps around."""
    return getattr(node.op, "acc_dtype", None) in (None, "uint64", *SUMMED)


def inner_products(node: Apply) -> Variable:
    """The products that an inner product adds up, in its own type."""
    x, y = (pt.cast(v, node.outputs[0].type.dtype) for v in node.inputs)
    left = x if y.type.ndim == 1 else pt.expand_dims(x, x.type.ndim)
    right = y if x.type.ndim == 1 else pt.expand_dims(y, 0)
    return left * right


def _of_elementwise(node: Apply, reads: Reads, concrete: Concrete) -> list[Variable] | None:
    """Terms of a sum, and of a sum times a number that reads no record."""
    kind, first = node.op.scalar_op, node.inputs[0]
    if isinstance(kind, ps.Add | ps.Sub):
        terms = signed(node)
        whole = int(np.prod(concrete.shape(node.outputs[0])))
        # Broadcasting repeats each element of a term equally often.
        times = [whole // max(int(np.prod(concrete.shape(v))), 1) for v in node.inputs]
        return [v * float(k) if k > 1 else v for v, k in zip(terms, times, strict=True)]
    if isinstance(kind, ps.Neg):
        inner = addends(first, reads, concrete)
        wide = node.outputs[0].type.dtype
        return None if inner is None else [-pt.cast(part, wide) for part in inner]
    if isinstance(kind, ps.Mul | ps.TrueDiv):
        return _scaled(node, reads, concrete)
    return None


def signed(node: Apply) -> list[Variable]:
    """What a sum or a difference adds up, in its own type: narrow integers have no minus."""
    minus = isinstance(node.op.scalar_op, ps.Sub)
    wide = [pt.cast(v, node.outputs[0].type.dtype) for v in node.inputs]
    return [-v if k and minus else v for k, v in enumerate(wide)]


def _scaled(node: Apply, reads: Reads, concrete: Concrete) -> list[Variable] | None:
    """(a + b) c and (a + b) / c, for a single number c that reads no record."""
    read = [v for v in node.inputs if reads(v)]
    others = [v for v in node.inputs if v not in read]
    whole = concrete.shape(node.outputs[0])
    divides = isinstance(node.op.scalar_op, ps.TrueDiv)
    if len(read) != 1 or concrete.shape(read[0]) != whole or (divides and node.inputs[1] in read):
        return None
    if any(int(np.prod(concrete.shape(v))) != 1 for v in others):
        return None
    inner = addends(read[0], reads, concrete)
    if inner is None:
        return None
    numbers = [v.sum() for v in others]
    return [part / numbers[0] if divides else pt.mul(part, *numbers) for part in inner]


def joined(node: Apply) -> list[Variable]:
    """The arrays that a Join puts one after the other."""
    known = parameters_of(node.op, len(node.inputs))
    return [v for k, v in enumerate(node.inputs) if k not in known]


def direct(terms: Sequence[Variable], concrete: Concrete) -> list[Variable]:
    """The same graphs without repeats of nothing and without splitting what was just joined.

    PyMC's sequences repeat terms to the shape they have, by sizes that speak of the whole sequence,
    and join differences to a start only to split them off again.
    """
    parts = {v: _rejoined(v, concrete) for v in ancestors(list(terms))}
    splits = {v: part for v, part in parts.items() if part is not None}

    def unrepeated(node: Apply, inputs: list[Variable]) -> Variable | None:
        if not isinstance(node.op, Alloc):
            return None
        same = inputs[0].type.ndim == node.outputs[0].type.ndim
        shapes = (concrete.shape(v) for v in (node.inputs[0], node.outputs[0]))
        return inputs[0] if same and len(set(shapes)) == 1 else None

    kept = rebuild(terms, splits)
    leaves = {v: v for v in ancestors(kept) if v.owner is None}
    return rebuild(kept, leaves, unrepeated)


def _rejoined(variable: Variable, concrete: Concrete) -> Variable | None:
    """The joined array that an output of Split is, if it is one of them."""
    node = variable.owner
    if node is None or not isinstance(node.op, Split):
        return None
    source = node.inputs[0].owner
    if source is None or not isinstance(source.op, Join):
        return None
    parts, place = joined(source), node.outputs.index(variable)
    fits = [concrete.shape(p) for p in parts] == [concrete.shape(v) for v in node.outputs]
    return parts[place] if fits else None
