"""What a graph is in its parameters: constant, affine, or neither (theory T22).

A likelihood that reads its parameters through linear predictors u = a(x)'theta + b(x) is a function
h(u; x). `linear_predictors` finds the nodes u: every path from a parameter to the value runs
through one of them. Their coefficients a(x) are their gradients, which read no parameter.
"""

from __future__ import annotations

import pytensor.scalar.basic as ps
from collections.abc import Collection, Sequence
from enum import IntEnum
from functools import singledispatch
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.op import Op
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.math import Dot, Sum
from pytensor.tensor.shape import Shape, Shape_i, SpecifyShape
from pymc_private.analysis.intervals.ops import AlsoEqual
from pymc_private.analysis.intervals.arrays import PUT, TAKE
from pymc_private.analysis.intervals.arrays__shape import MOVERS, parameters_of
from pymc_private.analysis.traversal import scalar_op

class Kind(IntEnum):
    """How a node depends on the parameters; a sum is of the greatest kind of its terms."""

    CONSTANT = 0
    AFFINE = 1
    OTHER = 2


def kinds(outputs: Sequence[Variable], parameters: Collection[Variable]) -> dict[Variable, Kind]:
    """The kind of every node between `parameters` and `outputs`.

    Parameters
    ----------
    outputs : sequence of Variable
    parameters : collection of Variable
        Real arithmetic; integers are no parameters.

    Returns
    -------
    dict
        Nodes that are missing are constant. AFFINE and CONSTANT are proved; OTHER means that no
        rule proves more.
    """
    found = {p: Kind.AFFINE if _is_real(p) else Kind.OTHER for p in parameters}
    for node in io_toposort(list(parameters), list(outputs)):
        given = [found.get(v, Kind.CONSTANT) for v in node.inputs]
        if any(given):
            kind = _kind(node.op, node, *given)
            found.update((out, kind) for out in node.outputs)
    return found


def _is_real(variable: Variable) -> bool:
    return str(variable.type.dtype).startswith("float")


@singledispatch
def _kind(op: Op, node: Apply, *kinds: Kind) -> Kind:
    """Without a rule a node that reads a parameter is neither."""
    return Kind.OTHER


@_kind.register(Elemwise)
def _elemwise(op: Elemwise, node: Apply, *kinds: Kind) -> Kind:
    """Sums of affine terms, multiples by constants, and choices that no parameter makes."""
    scalar = op.scalar_op
    if not _is_real(node.outputs[0]):
        return Kind.OTHER
    if isinstance(scalar, ps.Add | ps.Sub | ps.Neg | ps.Identity | ps.Cast):
        return max(kinds)
    if isinstance(scalar, ps.Mul):
        return max(kinds) if sum(map(bool, kinds)) == 1 else Kind.OTHER
    if isinstance(scalar, ps.TrueDiv | ps.Switch):
        first = kinds[0]
        if isinstance(scalar, ps.Switch):
            return Kind.OTHER if first else max(kinds[1:])
        return first if not any(kinds[1:]) else Kind.OTHER
    if isinstance(scalar, ps.Second):
        return kinds[1]
    if isinstance(scalar, AlsoEqual):
        return min(kinds)
    return Kind.OTHER


def _first_only(op: Op, node: Apply, *kinds: Kind) -> Kind:
    """Linear in the first input, for any fixed others."""
    return kinds[0] if not any(kinds[1:]) else Kind.OTHER


for _op in (CheckAndRaise, *TAKE):
    _kind.register(_op, _first_only)


def _all_inputs(op: Op, node: Apply, *kinds: Kind) -> Kind:
    """Elements are moved or added."""
    return max(kinds)


for _op in (DimShuffle, Sum):
    _kind.register(_op, _all_inputs)


def _moved(op: Op, node: Apply, *kinds: Kind) -> Kind:
    """Elements move to places that no parameter names."""
    places = parameters_of(op, len(kinds))
    return Kind.OTHER if any(kinds[k] for k in places) else max(kinds)


for _op in MOVERS:
    _kind.register(_op, _moved)


def _put(op: Op, node: Apply, *kinds: Kind) -> Kind:
    """x with y set, or added, at places that no parameter names."""
    return Kind.OTHER if any(kinds[2:]) else max(kinds[:2])


for _op in PUT:
    _kind.register(_op, _put)


@_kind.register(SpecifyShape)
def _specify(op: SpecifyShape, node: Apply, *kinds: Kind) -> Kind:
    """An identity."""
    return kinds[0]


@_kind.register(Shape)
@_kind.register(Shape_i)
def _size(op: Op, node: Apply, *kinds: Kind) -> Kind:
    """Sizes are public."""
    return Kind.CONSTANT


@_kind.register(CumOp)
def _cumulated(op: CumOp, node: Apply, *kinds: Kind) -> Kind:
    """Running sums, not products."""
    return kinds[0] if op.mode == "add" else Kind.OTHER


@_kind.register(Dot)
def _dot(op: Op, node: Apply, *kinds: Kind) -> Kind:
    """Bilinear: affine if one side is constant."""
    return max(kinds) if sum(map(bool, kinds)) == 1 else Kind.OTHER


@_kind.register(Blockwise)
def _blockwise(op: Blockwise, node: Apply, *kinds: Kind) -> Kind:
    """Products, and solutions of systems with a constant matrix."""
    if isinstance(op.core_op, Dot):
        return _dot(op, node, *kinds)
    if type(op.core_op).__name__ == "SolveTriangular":
        return kinds[1] if not kinds[0] else Kind.OTHER
    return Kind.OTHER


def linear_predictors(
    value: Variable, parameters: Collection[Variable], records: Collection[Variable] = ()
) -> list[Variable]:
    """Affine nodes through which alone `value` reads the parameters.

    Parameters
    ----------
    value : Variable
    parameters : collection of Variable
    records : collection of Variable
        Inputs that differ from record to record.

    Returns
    -------
    list of Variable
        Each once. Shifts of one node, and multiples by what is no record's, count as that node:
        what moves or scales it belongs to h.
    """
    private = set(records)
    found = kinds([value], parameters)
    met = [value] if found.get(value, Kind.CONSTANT) is Kind.AFFINE else []
    for node in io_toposort(list(parameters), [value]):
        if Kind.OTHER in (found.get(out) for out in node.outputs):
            met += [v for v in node.inputs if found.get(v) is Kind.AFFINE]
    cores = [_core(v, found, private) for v in met]
    # y eta beside e^eta is eta again; x b alone is not b, whose slope would be looser.
    known = set(cores)
    deeper = ([v for v in _descent(core, found, set()) if v in known] for core in cores)
    return list(dict.fromkeys(path[-1] for path in deeper))


def _core(variable: Variable, found: dict[Variable, Kind], private: set[Variable]) -> Variable:
    """Down to the node where several affine terms meet, or to the parameter itself."""
    return _descent(variable, found, private)[-1]


def _descent(
    variable: Variable, found: dict[Variable, Kind], private: set[Variable]
) -> list[Variable]:
    """The nodes passed on the way to the core, the node itself first."""
    path = [variable]
    while variable.owner is not None:
        op, inputs = variable.owner.op, variable.owner.inputs
        scalar = scalar_op(variable)
        steps = isinstance(scalar, ps.Add | ps.Sub | ps.Neg | ps.Mul | ps.TrueDiv | ps.Identity)
        steps |= isinstance(op, DimShuffle) or (
            isinstance(op, tuple(TAKE)) and _are_public(inputs[1:])
        )
        affine = [v for v in inputs if found.get(v) is Kind.AFFINE]
        if not steps or len(affine) != 1:
            break
        scales = [v for v in inputs if v is not affine[0]]
        if isinstance(scalar, ps.Mul | ps.TrueDiv) and not private.isdisjoint(ancestors(scales)):
            break
        variable = affine[0]
        path.append(variable)
    return path


def _are_public(indexes: Sequence[Variable]) -> bool:
    """Whether indexes are numbers written into the graph."""
    return all(v.owner is not None or isinstance(v, Constant) for v in ancestors(list(indexes)))
