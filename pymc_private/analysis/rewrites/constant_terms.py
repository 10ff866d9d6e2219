"""Terms of a log density that read no parameter are no part of a posterior: they become zeros.

At an end of a domain such a term may be infinite, as (a - 1) log y of a Gamma density is at y = 0.
Kept, it would leave no mass anywhere for a sampler to find, and whether a draw ever comes would
tell that a record lies there. Ranges do without these terms, too: they cancel in differences.
"""

from __future__ import annotations

from collections.abc import Collection

import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.traversal import graph_inputs, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.math import Sum

from pymc_private.analysis.rewrites.canonical import simplify


def without_constant_terms(value: Variable, parameters: Collection[Variable]) -> Variable:
    """A simplified log density, up to a constant, whose terms without parameters are zeros.

    Looked for in sums, in sums of these and so on, behind factors and in branches that no parameter
    chooses.
    """
    moving = set(parameters)
    for node in io_toposort(graph_inputs([value]), [value]):
        if not moving.isdisjoint(node.inputs):
            moving.update(node.outputs)
    part = _moving_part(value, moving, {})
    return value if part is value else simplify([part])[0]


def _moving_part(
    value: Variable, moving: Collection[Variable], known: dict[Variable, Variable]
) -> Variable:
    """A term without its terms that do not move; `known` are those that were met before."""
    if value not in moving:
        return pt.zeros_like(value)
    if value not in known:
        node = value.owner
        places = [] if node is None else _places_of_terms(node, moving)
        found = {k: _moving_part(node.inputs[k], moving, known) for k in places}
        is_whole = all(part is node.inputs[k] for k, part in found.items())
        inputs = [] if is_whole else [found.get(k, v) for k, v in enumerate(node.inputs)]
        known[value] = value if is_whole else node.op(*inputs)
    return known[value]


def _places_of_terms(node: Apply, moving: Collection[Variable]) -> list[int]:
    """Inputs whose terms are terms of the output, but for a factor that no parameter moves."""
    op = getattr(node.op, "scalar_op", None)
    if isinstance(node.op, Sum | DimShuffle | CheckAndRaise) or isinstance(op, ps.Neg):
        return [0]
    if isinstance(op, ps.Add | ps.Sub):
        return list(range(len(node.inputs)))
    places = [k for k, v in enumerate(node.inputs) if v in moving]
    if isinstance(op, ps.Mul):
        return places if len(places) == 1 else []
    if isinstance(op, ps.Switch) and 0 not in places:
        return [1, 2]
    return []
