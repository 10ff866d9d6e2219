"""log Phi and its two derivatives as named functions, for probit links on the whole line.

With m = phi / Phi (the inverse Mills ratio of the lower tail): (log Phi)' = m, m' = -m (z + m).
m falls, is positive and convex, and -1 < m' < 0 (Sampford 1953; T22 gives beta = 1 for probit).
Written out, m' is the difference of two large numbers in the tail.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
import scipy.special as sc
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import node_rewriter
from pytensor.graph.traversal import ancestors
from pytensor.tensor.elemwise import Elemwise
from pymc_private.analysis.traversal import bare, multiple, scalar_op
from pymc_private.analysis.traversal__rebuild import rebuild
from pymc_private.analysis.traversal__rewriting import walked

ROOT2 = np.sqrt(2.0)
FAR = -1e3
"""Below this -m (z + m) has lost its digits in doubles; it lies between -1 and its value here."""


def mills(z: Any) -> Any:
    """phi(z) / Phi(z) without cancellation."""
    with np.errstate(divide="ignore"):
        return np.sqrt(2.0 / np.pi) / sc.erfcx(-np.asarray(z) / ROOT2)


def mills_slope(z: Any) -> Any:
    """-m (z + m), for z >= FAR with a relative error of about 400 (4 + z^2) units."""
    m = mills(z)
    with np.errstate(invalid="ignore"):
        return np.where(m == 0.0, 0.0, -m * (z + m))


class _Unary(ps.UnaryScalarOp):
    """A function of one number with its derivative."""

    def slope(self, x: Any) -> Any:
        """The derivative, as a scalar variable."""
        raise NotImplementedError

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        """Chain rule."""
        return [gradients[0] * self.slope(inputs[0])]

    if not hasattr(Op, "pullback"):  # PyTensor 2
        L_op = pullback


class MillsSlope(_Unary):
    """m'(z), rising from -1 to 0."""

    def impl(self, x: float) -> float:
        """Minus one far out."""
        return float(mills_slope(x)) if x > FAR else -1.0

    def slope(self, x: Any) -> Any:
        """m'' = -m' (z + 2 m) - m."""
        m = _mills(x)
        return -_mills_slope(x) * (x + 2.0 * m) - m


class Mills(_Unary):
    """m(z), falling from infinity to 0."""

    def impl(self, x: float) -> float:
        """See `mills`."""
        return float(mills(x))

    def slope(self, x: Any) -> Any:
        """See `MillsSlope`."""
        return _mills_slope(x)


class LogPhi(_Unary):
    """log Phi(z), rising to 0."""

    nfunc_spec = ("scipy.special.log_ndtr", 1, 1)

    def impl(self, x: float) -> float:
        """See SciPy."""
        return float(sc.log_ndtr(x))

    def slope(self, x: Any) -> Any:
        """See `Mills`."""
        return _mills(x)


_FLOAT = ps.upgrade_to_float
_mills_slope = MillsSlope(_FLOAT, name="mills_slope")
_mills = Mills(_FLOAT, name="mills")
_log_phi = LogPhi(_FLOAT, name="log_phi")
log_phi = Elemwise(_log_phi)


def has_log_phi(value: Variable) -> bool:
    """Whether log Phi stands in a graph as a named function."""
    return any(isinstance(scalar_op(v), LogPhi) for v in ancestors([value]))


def spelled_out(value: Variable) -> Variable:
    """The same graph with log Phi in Ops that every back end compiles, to the last digits."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        if not isinstance(scalar_op(node.outputs[0]), LogPhi):
            return None
        z = inputs[0]
        tail = pt.log(pt.erfcx(-z / ROOT2) / 2.0) - z**2 / 2.0
        return pt.switch(pt.lt(z, -1.0), tail, pt.log1p(-pt.erfc(z / ROOT2) / 2.0))

    return rebuild([value], {v: v for v in ancestors([value]) if v.owner is None}, rule)[0]


def name_normal_tails(value: Variable) -> Variable:
    """The same graph with log Phi where it is spelled by erf or erfc."""
    return walked(value, _named)


@node_rewriter([Elemwise])
def _named(graph: FunctionGraph, node: Apply) -> list[Variable] | None:
    """log(erfc(w) / 2) = log Phi(-sqrt2 w), log(1 - erfc(w) / 2) = log Phi(sqrt2 w), erf alike."""
    op, out = node.op.scalar_op, node.outputs[0]
    if not isinstance(op, ps.Log | ps.Log1p):
        return None
    found = _argument(node.inputs[0], 1.0 if isinstance(op, ps.Log) else -1.0)
    if found is None or found.type.broadcastable != out.type.broadcastable:
        return None
    return [log_phi(found)] if out.type.dtype == found.type.dtype == "float64" else None


def _argument(variable: Variable, sign: float) -> Variable | None:
    """The z of Phi(z) if `variable` is Phi(z) (sign 1) or -Phi(-z), hence 1 - Phi(-z) (sign -1)."""
    part, number = _single(variable)
    if part is not None and number == 0.5 * sign and isinstance(scalar_op(part), psm.Erfc):
        return (-sign * ROOT2) * part.owner.inputs[0]
    if sign < 0:  # -(1/2 + erf(w) / 2)
        inner = _argument(part, 1.0) if part is not None and number == -1.0 else None
        return None if inner is None else -inner
    if not isinstance(scalar_op(variable), ps.Add) or len(bare(variable).owner.inputs) != 2:
        return None
    for half, other in (bare(variable).owner.inputs, bare(variable).owner.inputs[::-1]):
        part, number = _single(other)
        halved = _number(half) == 0.5 and abs(number) == 0.5
        if halved and part is not None and isinstance(scalar_op(part), psm.Erf):
            return (np.sign(number) * ROOT2) * part.owner.inputs[0]
    return None


def _single(variable: Variable) -> tuple[Variable | None, float]:
    """A variable as a number times one node."""
    found = multiple(variable)
    if len(found.above) == 1 and not found.below and found.above[0].owner is not None:
        return found.above[0], found.number
    return None, 0.0


def _number(variable: Variable) -> float | None:
    found = multiple(variable)
    return found.number if not found.above and not found.below else None
