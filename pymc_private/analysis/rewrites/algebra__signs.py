"""Products with signs as sums of kinks: the asymmetric Laplace density of PyMC.

    v sign(v) k^sign(v) = (k + 1/k) / 2 |v| + (k - 1/k) / 2 v        for a number k > 0,

both sides being k v above zero, -v / k below it and 0 at zero. What is continuous and concave on
the right looks like neither on the left.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.tensor.elemwise import Elemwise
from pymc_private.analysis.traversal import bare, same, scalar_op
from pymc_private.analysis.traversal__rewriting import walked

def without_signs(value: Variable) -> Variable:
    """The same function, such products written as kinks; `value` itself if there are none."""
    return walked(value, _kinks)


@node_rewriter([Elemwise])
def _kinks(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    if not isinstance(node.op.scalar_op, ps.Mul):
        return None
    factors = list(node.inputs)
    for power in factors:
        base = _positive_base(power)
        if base is None:
            continue
        inner = bare(power).owner.inputs[1]
        others = [f for f in factors if f is not power]
        sign = next((f for f in others if same(f, inner)), None)
        v = None if sign is None else bare(sign).owner.inputs[0]
        term = next((f for f in others if f is not sign and v is not None and same(f, v)), None)
        if term is None:
            continue
        rest = [f for f in others if f is not sign and f is not term]
        kinked = 0.5 * (base + 1.0 / base) * abs(term) + 0.5 * (base - 1.0 / base) * term
        found = pt.mul(kinked, *rest) if rest else kinked
        out = node.outputs[0]
        return [found] if found.type.is_super(out.type) and out.type.is_super(found.type) else None
    return None


def _positive_base(power: Variable) -> Variable | None:
    """The number k > 0 of k^sign(v)."""
    core = bare(power)
    if not isinstance(scalar_op(core), ps.Pow):
        return None
    base, exponent = core.owner.inputs
    is_number = isinstance(base, pt.TensorConstant) and bool(np.all(np.asarray(base.data) > 0.0))
    return base if is_number and isinstance(scalar_op(bare(exponent)), ps.Sign) else None
