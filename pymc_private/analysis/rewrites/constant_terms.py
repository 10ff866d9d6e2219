"""Terms of a log density that read no parameter are no part of a posterior: they become zeros.

At an end of a domain such a term may be infinite, as (a - 1) log y of a Gamma density is at y = 0.
Kept, it would leave no mass anywhere for a sampler to find, and whether a draw ever comes would
tell that a record lies there. Ranges do without these terms, too: they cancel in differences.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import ancestors
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum

from pymc_private.analysis.rewrites.canonical import simplify


def without_constant_terms(value: Variable, parameters: Collection[Variable]) -> Variable:
    """A simplified log density, up to a constant, whose terms without parameters are zeros.

    Looked for in sums, in sums of these and so on, behind factors and in branches that no parameter
    chooses.
    """

    def moves(term: Variable) -> bool:
        return not set(ancestors([term])).isdisjoint(parameters)

    part = _moving_part(value, moves)
    return value if part is value else simplify([part])[0]


def _moving_part(value: Variable, moves: Callable[[Variable], bool]) -> Variable:
    if not moves(value):
        return pt.zeros_like(value)
    node = value.owner
    places = [] if node is None else _places_of_terms(node, moves)
    found = {k: _moving_part(node.inputs[k], moves) for k in places}
    if all(part is node.inputs[k] for k, part in found.items()):
        return value
    return node.op(*(found.get(k, v) for k, v in enumerate(node.inputs)))


def _places_of_terms(node: Apply, moves: Callable[[Variable], bool]) -> list[int]:
    """Inputs whose terms are terms of the output, but for a factor that no parameter moves."""
    op = getattr(node.op, "scalar_op", None)
    if isinstance(node.op, Sum | DimShuffle | CheckAndRaise) or isinstance(op, ps.Neg):
        return [0]
    if isinstance(op, ps.Add | ps.Sub):
        return list(range(len(node.inputs)))
    moving = [k for k, v in enumerate(node.inputs) if moves(v)]
    if isinstance(op, ps.Mul):
        return moving if len(moving) == 1 else []
    if isinstance(op, ps.Switch) and 0 not in moving:
        return [1, 2]
    return []
