"""Affine dependence of a graph on its parameters, and its linear predictors (T22).

A node is constant, affine, or neither in the parameters. A likelihood that reads its
parameters through linear predictors u = a(x)'theta + b(x) is a function h(u; x).
`linear_predictors` finds the nodes u: every path from a parameter to the value runs through
one of them. Their coefficients a(x) are their gradients, which read no parameter.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import singledispatch

import pytensor.scalar.basic as ps
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape

from pymc_private.analysis.intervals.arrays import (
    INDEX_UPDATE_OPS,
    INDEXING_OPS,
    LAYOUT_OPS,
    layout_inputs,
)
from pymc_private.analysis.intervals.ops import EqualForms
from pymc_private.analysis.traversal import scalar_op


class AffineKind(IntEnum):
    """How a node depends on the parameters; a sum is of the greatest kind of its terms."""

    CONSTANT = 0
    AFFINE = 1
    OTHER = 2


def affine_kinds(
    outputs: Sequence[Variable], parameters: Collection[Variable], *, integers: bool = False
) -> dict[Variable, AffineKind]:
    """How every node between `parameters` and `outputs` depends on the parameters.

    Nodes that are missing are constant. AFFINE and CONSTANT are proved, in real arithmetic; OTHER
    means that no rule proves more, as for integer parameters, unless `integers` may be read as the
    real numbers that they are; what is computed of them in integers stays OTHER.
    """
    found = {
        p: AffineKind.AFFINE if integers or _is_float(p) else AffineKind.OTHER for p in parameters
    }
    for node in io_toposort(list(parameters), list(outputs)):
        given = [found.get(v, AffineKind.CONSTANT) for v in node.inputs]
        if any(given):
            kind = _affine_kind(node.op, node, *given)
            found.update((out, kind) for out in node.outputs)
    return found


def _is_float(variable: Variable) -> bool:
    """Whether the values of a variable are floats."""
    return str(variable.type.dtype).startswith("float")


@singledispatch
def _affine_kind(op: Op, node: Apply, *kinds: AffineKind) -> AffineKind:
    """How a node depends on the parameters; without a rule neither constant nor affine."""
    return AffineKind.OTHER


@_affine_kind.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Sums of affine terms, multiples by constants, and switches that no parameter decides."""
    scalar = op.scalar_op
    if not _is_float(node.outputs[0]):
        return AffineKind.OTHER
    if isinstance(scalar, ps.Add | ps.Sub | ps.Neg | ps.Identity | ps.Cast):
        return max(kinds)
    if isinstance(scalar, ps.Mul):
        return max(kinds) if sum(map(bool, kinds)) == 1 else AffineKind.OTHER
    if isinstance(scalar, ps.TrueDiv | ps.Switch):
        first = kinds[0]
        if isinstance(scalar, ps.Switch):
            return AffineKind.OTHER if first else max(kinds[1:])
        return first if not any(kinds[1:]) else AffineKind.OTHER
    if isinstance(scalar, ps.Second):
        return kinds[1]
    if isinstance(scalar, EqualForms):
        return min(kinds)
    return AffineKind.OTHER


def _first_only(op: Op, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Linear in the first input, for any fixed others."""
    return kinds[0] if not any(kinds[1:]) else AffineKind.OTHER


for _op in (CheckAndRaise, *INDEXING_OPS):
    _affine_kind.register(_op, _first_only)


def _all_inputs(op: Op, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Elements are moved or added."""
    return max(kinds)


for _op in (DimShuffle, Sum):
    _affine_kind.register(_op, _all_inputs)


def _moved(op: Op, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Elements move to positions that no parameter decides."""
    layout = layout_inputs(op, len(kinds))
    return AffineKind.OTHER if any(kinds[k] for k in layout) else max(kinds)


for _op in LAYOUT_OPS:
    _affine_kind.register(_op, _moved)


def _update(op: Op, node: Apply, *kinds: AffineKind) -> AffineKind:
    """x with y set, or added, at positions that no parameter decides."""
    return AffineKind.OTHER if any(kinds[2:]) else max(kinds[:2])


for _op in INDEX_UPDATE_OPS:
    _affine_kind.register(_op, _update)


@_affine_kind.register(SpecifyShape)
def _specify(op: SpecifyShape, node: Apply, *kinds: AffineKind) -> AffineKind:
    """An identity."""
    return kinds[0]


@_affine_kind.register(Shape)
@_affine_kind.register(Shape_i)
def _size(op: Op, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Sizes are public."""
    return AffineKind.CONSTANT


@_affine_kind.register(CumOp)
def _cumulated(op: CumOp, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Cumulative sums, not products."""
    return kinds[0] if op.mode == "add" else AffineKind.OTHER


@_affine_kind.register(Dot)
def _dot(op: Op, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Bilinear: affine if one side is constant."""
    return max(kinds) if sum(map(bool, kinds)) == 1 else AffineKind.OTHER


@_affine_kind.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, *kinds: AffineKind) -> AffineKind:
    """Products, and solutions of systems with a constant matrix."""
    if isinstance(op.core_op, Dot):
        return _dot(op, node, *kinds)
    if type(op.core_op).__name__ == "SolveTriangular":
        return kinds[1] if not kinds[0] else AffineKind.OTHER
    return AffineKind.OTHER


def linear_predictors(
    value: Variable, parameters: Collection[Variable], records: Collection[Variable] = ()
) -> list[Variable]:
    """Affine nodes, each once, through which alone `value` reads the parameters.

    `records` are inputs that differ from record to record. Shifts of one node, and multiples by
    what reads no record, count as that node: what moves or scales it belongs to h.
    """
    private = set(records)
    found = affine_kinds([value], parameters)
    used = [value] if found.get(value, AffineKind.CONSTANT) is AffineKind.AFFINE else []
    for node in io_toposort(list(parameters), [value]):
        if AffineKind.OTHER in (found.get(out) for out in node.outputs):
            used += [v for v in node.inputs if found.get(v) is AffineKind.AFFINE]
    cores = [_predictor_core(v, found, private) for v in used]
    # y eta beside e^eta is eta again; x b alone is not b, whose slope would be looser.
    known = set(cores)
    deeper = ([v for v in _path_to_core(core, found, set()) if v in known] for core in cores)
    return list(dict.fromkeys(path[-1] for path in deeper))


def _predictor_core(
    variable: Variable, found: dict[Variable, AffineKind], private: set[Variable]
) -> Variable:
    """The node below shifts and scales: several affine terms added up, or a parameter."""
    return _path_to_core(variable, found, private)[-1]


def _path_to_core(
    variable: Variable, found: dict[Variable, AffineKind], private: set[Variable]
) -> list[Variable]:
    """The nodes passed on the way down to the core, the node itself first.

    Shifts, moves and scales by what reads no `private` input are passed through.
    """
    path = [variable]
    while variable.owner is not None:
        op, inputs = variable.owner.op, variable.owner.inputs
        scalar = scalar_op(variable)
        passes = isinstance(scalar, ps.Add | ps.Sub | ps.Neg | ps.Mul | ps.TrueDiv | ps.Identity)
        passes |= isinstance(op, DimShuffle) or (
            isinstance(op, tuple(INDEXING_OPS)) and _are_constants(inputs[1:])
        )
        affine = [v for v in inputs if found.get(v) is AffineKind.AFFINE]
        if not passes or len(affine) != 1:
            break
        scales = [v for v in inputs if v is not affine[0]]
        if isinstance(scalar, ps.Mul | ps.TrueDiv) and not private.isdisjoint(ancestors(scales)):
            break
        variable = affine[0]
        path.append(variable)
    return path


def _are_constants(indexes: Sequence[Variable]) -> bool:
    """Whether indexes are numbers written into the graph."""
    return all(v.owner is not None or isinstance(v, Constant) for v in ancestors(list(indexes)))
