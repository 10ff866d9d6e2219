"""Products and signs multiplied out are taken back, so that a predictor is seen to be one."""

from __future__ import annotations

import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from collections import Counter
from collections.abc import Collection
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import MergeOptimizer, WalkingGraphRewriter, node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pymc_private.analysis.traversal import scalar_op

def predictors_apart(value: Variable, parameters: Collection[Variable]) -> Variable:
    """The same graph with equal nodes merged, and what is multiplied out taken back.

    c x y is written c (x y), -x - y is -(x + y), and y x b is y (x b) where x b stands elsewhere:
    PyTensor multiplies the minus of -eta out and the y of y eta in, so that a graph that reads eta
    alone seems to read two things.

    Parameters
    ----------
    value : Variable
    parameters : collection of Variable
    """
    graph = FunctionGraph(outputs=[value], clone=True, copy_inputs=False)
    for _ in range(2):
        for rule in (_number_apart, _minus_apart):
            WalkingGraphRewriter(rule).rewrite(graph)
            MergeOptimizer().rewrite(graph)
    _products_apart(graph, set(parameters))
    return graph.outputs[0]


def _products_apart(graph: FunctionGraph, parameters: set[Variable]) -> None:
    """y x b = y (x b), where x b stands in the graph and reads a parameter."""
    products = [n for n in graph.toposort() if isinstance(scalar_op(n.outputs[0]), ps.Mul)]
    reading = [n for n in products if not parameters.isdisjoint(ancestors(n.outputs))]
    for node in reading:
        factors = Counter(node.inputs)
        parts = [p for p in reading if len(p.inputs) < len(node.inputs)]
        part = max(
            (p for p in parts if Counter(p.inputs) <= factors),
            key=lambda p: len(p.inputs),
            default=None,
        )
        if part is None:
            continue
        rest = (factors - Counter(part.inputs)).elements()
        new = _same_type(pt.mul(*rest, part.outputs[0]), node.outputs[0])
        if new is not None:
            graph.replace(node.outputs[0], new[0])


@node_rewriter([Elemwise])
def _number_apart(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """c x y = c (x y)."""
    if not isinstance(node.op.scalar_op, ps.Mul) or len(node.inputs) < 3:
        return None
    numbers = [v for v in node.inputs if _is_number(v)]
    rest = [v for v in node.inputs if not _is_number(v)]
    if not numbers or len(rest) < 2:
        return None
    return _same_type(pt.mul(*numbers, pt.mul(*rest)), node.outputs[0])


@node_rewriter([Elemwise])
def _minus_apart(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """-x - y = -(x + y)."""
    if not isinstance(node.op.scalar_op, ps.Add):
        return None
    parts = [_negated(v) for v in node.inputs]
    if any(part is None for part in parts):
        return None
    return _same_type(pt.constant(-1.0) * pt.add(*parts), node.outputs[0])


def _is_number(variable: Variable) -> bool:
    while variable.owner is not None and isinstance(variable.owner.op, DimShuffle):
        variable = variable.owner.inputs[0]
    return isinstance(variable, Constant) and variable.data.size == 1


def _negated(variable: Variable) -> Variable | None:
    """x, if the variable is -x."""
    node = variable.owner
    scalar = scalar_op(variable)  # of elementwise nodes alone: a Prod has one, too
    if isinstance(scalar, ps.Neg):
        return node.inputs[0]
    if isinstance(scalar, ps.Mul) and len(node.inputs) == 2:
        for number, other in (node.inputs, node.inputs[::-1]):
            if isinstance(number, Constant) and number.data.size == 1 and number.data.item() == -1:
                return other
    return None


def _same_type(new: Variable, old: Variable) -> list[Variable] | None:
    alike = new.type.dtype == old.type.dtype and new.type.broadcastable == old.type.broadcastable
    return [new] if alike else None
