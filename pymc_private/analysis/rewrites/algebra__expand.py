"""Products of sums written out, so that what cancels in a difference can be left out.

In -(b - rho x)^2 / (2 s^2) the square of b reads no record x and cancels; interval arithmetic would
count it. Real arithmetic throughout.
"""

from __future__ import annotations

import pytensor.scalar.basic as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Sum
from pytensor.tensor.variable import TensorConstant

MOST_TERMS = 64
"""Terms of a product that is written out; one of more stays as it is."""
SUMMED = ("float64", "float32", "int64")
"""Numbers of which sums are taken as sums of real numbers."""


def expand(value: Variable) -> Variable:
    """The same function as a sum of products.

    Parameters
    ----------
    value : Variable

    Returns
    -------
    Variable
    """
    terms = _terms(value)
    return pt.add(*terms) if len(terms) > 1 else terms[0]


def _terms(value: Variable) -> list[Variable]:
    """Variables that add up to another, each of its shape."""
    node = value.owner
    if node is None:
        return [value]
    if isinstance(node.op, DimShuffle | Sum):
        return [node.op(term) for term in _terms(node.inputs[0])]
    # Sums of narrow integers wrap around, and sums of truth values are no sums.
    if not isinstance(node.op, Elemwise) or value.type.dtype not in SUMMED:
        return [value]
    found = _of_elementwise(node.op.scalar_op, node.inputs)
    if found is None or len(found) > MOST_TERMS:
        return [value]
    # A term that is broadcast would be counted once where it counts for many: s ** [2, 2].
    alike = all(term.type.broadcastable == value.type.broadcastable for term in found)
    return found if alike else [value]


def _of_elementwise(op: ps.ScalarOp, inputs: list[Variable]) -> list | None:
    """Of a sum, a product, a square, or a quotient."""
    if isinstance(op, ps.Add | ps.Sub | ps.Neg):
        turned = isinstance(op, ps.Neg)
        signs = [turned or (k > 0 and isinstance(op, ps.Sub)) for k in range(len(inputs))]
        parts = zip(signs, inputs, strict=True)
        return [-t if minus else t for minus, v in parts for t in _terms(v)]
    if isinstance(op, ps.Mul):
        found = _terms(inputs[0])
        for factor in inputs[1:]:
            found = [a * b for a in found for b in _terms(factor)][: MOST_TERMS + 1]
        return found
    if isinstance(op, ps.TrueDiv):
        return [term / inputs[1] for term in _terms(inputs[0])]
    if isinstance(op, ps.Sqr) or (isinstance(op, ps.Pow) and _is_two(inputs[1])):
        terms = _terms(inputs[0])
        pairs = [(a, b) for k, a in enumerate(terms) for b in terms[k + 1 :]]
        return [pt.sqr(a) for a in terms] + [2.0 * a * b for a, b in pairs]
    return None


def _is_two(exponent: Variable) -> bool:
    return isinstance(exponent, TensorConstant) and bool((exponent.data == 2).all())
