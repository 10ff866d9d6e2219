"""Named composites: functions of known range, for expressions whose parts move together.

`joining` puts them into a graph; `intervals/composite.py` holds their rules.
"""

from __future__ import annotations

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import scipy.special as sc
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.tensor.elemwise import Elemwise

class _Composite(ps.BinaryScalarOp):
    """A function of two numbers with its two partial derivatives."""

    def slopes(self, x: Any, y: Any, out: Any) -> tuple[Any, Any]:
        """Partial derivatives, as scalar variables."""
        raise NotImplementedError

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        """Chain rule."""
        first, second = self.slopes(*inputs, *outputs)
        return [gradients[0] * first, gradients[0] * second]

    if not hasattr(Op, "pullback"):  # PyTensor 2
        L_op = pullback


class LogSigmoidGap(_Composite):
    """log(sigmoid(z + g) - sigmoid(z)) for g > 0."""

    def impl(self, z: float, g: float) -> float:
        """log(1 - e^-g) + log sigmoid(z + g) + log(1 - sigmoid(z)): no term cancels another."""
        if not g > 0:
            return np.nan
        return np.log(-np.expm1(-g)) - np.logaddexp(0.0, -(z + g)) - np.logaddexp(0.0, z)

    def slopes(self, z: Any, g: Any, out: Any) -> tuple[Any, Any]:
        """It is z + log(e^g - 1) - softplus(z + g) - softplus(z)."""
        return (
            psm.sigmoid(-z) - psm.sigmoid(z + g),
            psm.sigmoid(-(z + g)) + ps.true_div(1.0, ps.expm1(g)),
        )


def _log_mass(a: float, b: float) -> float:
    """log(Phi(a) - Phi(b)) on the side of the lower tail, where no digit is lost."""
    low, high = (-a, -b) if b > -a else (b, a)
    with np.errstate(all="ignore"):
        top = sc.log_ndtr(high)
        if not np.isfinite(top):
            return -np.inf
        return float(top + np.log(-np.expm1(sc.log_ndtr(low) - top)))


class LogPhiGap(_Composite):
    """log(Phi(z + g) - Phi(z)) for g > 0, Phi the normal distribution function."""

    def impl(self, z: float, g: float) -> float:
        """See `_log_mass`."""
        return _log_mass(z + g, z) if g > 0 else np.nan

    def slopes(self, z: Any, g: Any, out: Any) -> tuple[Any, Any]:
        """The densities at both ends, by the mass between them."""
        above, below = (ps.exp(-0.5 * ps.sqr(x) - out) / np.sqrt(2 * np.pi) for x in (z + g, z))
        return above - below, above


class LogPhiBetween(_Composite):
    """log(Phi(a) - Phi(b)) for a > b."""

    def impl(self, a: float, b: float) -> float:
        """See `_log_mass`."""
        return _log_mass(a, b) if a > b else np.nan

    def slopes(self, a: Any, b: Any, out: Any) -> tuple[Any, Any]:
        """The densities at both ends, by the mass between them."""
        above, below = (ps.exp(-0.5 * ps.sqr(x) - out) / np.sqrt(2 * np.pi) for x in (a, b))
        return above, -below


class LogAddExp(_Composite):
    """log(e^x + e^y)."""

    def impl(self, x: float, y: float) -> float:
        """Without overflow."""
        return float(np.logaddexp(x, y))

    def slopes(self, x: Any, y: Any, out: Any) -> tuple[Any, Any]:
        """The share of each term."""
        return psm.sigmoid(x - y), psm.sigmoid(y - x)


class AlsoEqual(_Composite):
    """The first argument, which is equal to the second: two ways to write one function."""

    def impl(self, x: float, y: float) -> float:
        """The first."""
        return x

    def slopes(self, x: Any, y: Any, out: Any) -> tuple[Any, Any]:
        """All by the first."""
        return ps.constant(1.0), ps.constant(0.0)


class PowerStep(_Composite):
    """(x + 1)^b - x^b for x >= 0, b > 0."""

    def impl(self, x: float, b: float) -> float:
        """As it is written."""
        with np.errstate(all="ignore"):
            step = np.power(x + 1.0, float(b)) - np.power(float(x), float(b))
        return float(step) if x >= 0 and b > 0 else np.nan

    def slopes(self, x: Any, b: Any, out: Any) -> tuple[Any, Any]:
        """In the exponent x^b log x is 0 at x = 0."""
        own = ps.switch(ps.gt(x, 0.0), x**b * ps.log(x), 0.0)
        return b * ((x + 1.0) ** (b - 1.0) - x ** (b - 1.0)), (x + 1.0) ** b * ps.log1p(x) - own


_DOUBLE = ps.specific_out(ps.float64)
log_add_exp = Elemwise(LogAddExp(_DOUBLE, name="log_add_exp"))
log_sigmoid_gap = Elemwise(LogSigmoidGap(_DOUBLE, name="log_sigmoid_gap"))
also_equal = Elemwise(AlsoEqual(_DOUBLE, name="also_equal"))
log_phi_between = Elemwise(LogPhiBetween(_DOUBLE, name="log_phi_between"))
log_phi_gap = Elemwise(LogPhiGap(_DOUBLE, name="log_phi_gap"))
power_step = Elemwise(PowerStep(_DOUBLE, name="power_step"))


class OnSimplex(Op):
    """The identity on an array whose rows along the last axis sum to one, whatever its inputs are.

    Who puts it into a graph has proved that in real arithmetic.

    Parameters
    ----------
    slack : float
        Most by which a sum may miss one.
    """

    __props__ = ("slack",)
    view_map = {0: [0]}  # noqa: RUF012  PyTensor's own way to say so

    def __init__(self, slack: float = 0.0) -> None:
        self.slack = slack

    def make_node(self, x: Variable) -> Apply:
        """One input, one output of its type."""
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """The input."""
        output_storage[0][0] = inputs[0]

    def infer_shape(self, *arguments: Any) -> Any:
        """The input's, which PyTensor gives last."""
        return arguments[-1]

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> Any:
        """The identity's."""
        return gradients

    if not hasattr(Op, "pullback"):
        L_op = pullback


on_simplex = OnSimplex()
