"""Ops of known range for expressions whose parts vary together.

An interval rule for each part of log(Phi(a) - Phi(b)) or log sum e^x forgets that the parts
share their arguments, so the whole is made one Op: log-add-exp, log-sum-exp (its gradient is
the softmax), logarithms of sigmoid and normal probabilities of an interval, steps of a power,
an identity that marks rows on the simplex, and log Phi with its two derivatives for probit
links on the whole line. `rewrites` puts them into graphs; `intervals.special` has their rules.

With m = phi / Phi (the inverse Mills ratio of the lower tail), (log Phi)' = m and
m' = -m (z + m). m is positive, decreasing and convex, and -1 < m' < 0 (Sampford 1953; T22 gives
beta = 1 for probit). Written out, m' is the difference of two large numbers in the tail.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
import scipy.special as sc
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.special import softmax
from scipy.special import logsumexp


class _BinaryFunction(ps.BinaryScalarOp):
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


class LogSigmoidGap(_BinaryFunction):
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


def _log_normal_mass(a: float, b: float) -> float:
    """log(Phi(a) - Phi(b)) on the side of the lower tail, where no digit is lost."""
    low, high = (-a, -b) if b > -a else (b, a)
    with np.errstate(all="ignore"):
        top = sc.log_ndtr(high)
        if not np.isfinite(top):
            return -np.inf
        return float(top + np.log(-np.expm1(sc.log_ndtr(low) - top)))


class LogPhiGap(_BinaryFunction):
    """log(Phi(z + g) - Phi(z)) for g > 0, Phi the normal distribution function."""

    def impl(self, z: float, g: float) -> float:
        """See `_log_normal_mass`."""
        return _log_normal_mass(z + g, z) if g > 0 else np.nan

    def slopes(self, z: Any, g: Any, out: Any) -> tuple[Any, Any]:
        """The densities at both arguments, divided by the probability between them."""
        above, below = (ps.exp(-0.5 * ps.sqr(x) - out) / np.sqrt(2 * np.pi) for x in (z + g, z))
        return above - below, above


class LogPhiBetween(_BinaryFunction):
    """log(Phi(a) - Phi(b)) for a > b."""

    def impl(self, a: float, b: float) -> float:
        """See `_log_normal_mass`."""
        return _log_normal_mass(a, b) if a > b else np.nan

    def slopes(self, a: Any, b: Any, out: Any) -> tuple[Any, Any]:
        """The densities at both arguments, divided by the probability between them."""
        above, below = (ps.exp(-0.5 * ps.sqr(x) - out) / np.sqrt(2 * np.pi) for x in (a, b))
        return above, -below


class LogAddExp(_BinaryFunction):
    """log(e^x + e^y)."""

    def impl(self, x: float, y: float) -> float:
        """The value, without overflow."""
        return float(np.logaddexp(x, y))

    def slopes(self, x: Any, y: Any, out: Any) -> tuple[Any, Any]:
        """The weight of each term."""
        return psm.sigmoid(x - y), psm.sigmoid(y - x)


class EqualForms(_BinaryFunction):
    """The first argument, which is equal to the second: two ways to write one function."""

    def impl(self, x: float, y: float) -> float:
        """The first argument."""
        return x

    def slopes(self, x: Any, y: Any, out: Any) -> tuple[Any, Any]:
        """Derivatives of the first argument."""
        return ps.constant(1.0), ps.constant(0.0)


class PowerStep(_BinaryFunction):
    """(x + 1)^b - x^b for x >= 0, b > 0."""

    def impl(self, x: float, b: float) -> float:
        """The difference as it is written."""
        with np.errstate(all="ignore"):
            step = np.power(x + 1.0, float(b)) - np.power(float(x), float(b))
        return float(step) if x >= 0 and b > 0 else np.nan

    def slopes(self, x: Any, b: Any, out: Any) -> tuple[Any, Any]:
        """In the derivative by b, x^b log x is 0 at x = 0."""
        own = ps.switch(ps.gt(x, 0.0), x**b * ps.log(x), 0.0)
        return b * ((x + 1.0) ** (b - 1.0) - x ** (b - 1.0)), (x + 1.0) ** b * ps.log1p(x) - own


_DOUBLE = ps.specific_out(ps.float64)
log_add_exp = Elemwise(LogAddExp(_DOUBLE, name="log_add_exp"))
log_sigmoid_gap = Elemwise(LogSigmoidGap(_DOUBLE, name="log_sigmoid_gap"))
equal_forms = Elemwise(EqualForms(_DOUBLE, name="also_equal"))
log_phi_between = Elemwise(LogPhiBetween(_DOUBLE, name="log_phi_between"))
log_phi_gap = Elemwise(LogPhiGap(_DOUBLE, name="log_phi_gap"))
power_step = Elemwise(PowerStep(_DOUBLE, name="power_step"))


class OnSimplex(Op):
    """The identity on an array whose rows along the last axis sum to one, whatever its inputs are.

    Whoever puts it into a graph has proved that in real arithmetic.

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
        """A node with one output, of the type of its input."""
        return Apply(self, [x], [x.type()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """The input."""
        output_storage[0][0] = inputs[0]

    def infer_shape(self, *arguments: Any) -> Any:
        """The shape of the input, which PyTensor gives last."""
        return arguments[-1]

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> Any:
        """The gradient of an identity."""
        return gradients

    if not hasattr(Op, "pullback"):
        L_op = pullback


on_simplex = OnSimplex()


class LogSumExp(Op):
    """log sum_k e^{x_k} over the last axis; its gradient is the softmax."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        """A node whose output lacks the last axis."""
        x = pt.as_tensor_variable(x)
        out = pt.TensorType(x.type.dtype, shape=x.type.shape[:-1])()
        return Apply(self, [x], [out])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """The value, without overflow."""
        with np.errstate(all="ignore"):
            output_storage[0][0] = np.asarray(logsumexp(inputs[0], axis=-1))

    def _softmax(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        """The softmax, times the gradient of what follows."""
        (x,), (g,) = inputs, cotangents
        return [pt.expand_dims(g, -1) * softmax(x, axis=-1)]

    # The name that each PyTensor asks for.
    if hasattr(Op, "pullback"):
        pullback = _softmax
    else:
        L_op = _softmax


@_vectorize_node.register(LogSumExp)
def _vectorize_log_sum_exp(op: LogSumExp, node: Apply, x: Variable) -> Apply:
    """Leading axes are a batch."""
    return op.make_node(x)


def log_sum_exp(x: Variable, axes: tuple[int, ...]) -> Variable:
    """log sum e^x over any axes, by the Op `LogSumExp`."""
    kept = [axis for axis in range(x.type.ndim) if axis not in axes]
    moved = x.dimshuffle(*kept, *axes)
    if len(axes) > 1:
        moved = moved.reshape((*moved.shape[: len(kept)], -1), ndim=len(kept) + 1)
    return LogSumExp()(moved)


ROOT2 = np.sqrt(2.0)
MILLS_CUTOFF = -1e3
"""Below this -m (z + m) has lost its digits in doubles; it lies between -1 and its value here."""


def inverse_mills_ratio(z: Any) -> Any:
    """phi(z) / Phi(z) without cancellation."""
    with np.errstate(divide="ignore"):
        return np.sqrt(2.0 / np.pi) / sc.erfcx(-np.asarray(z) / ROOT2)


def inverse_mills_slope(z: Any) -> Any:
    """-m (z + m), for z >= MILLS_CUTOFF with a relative error of about 400 (4 + z^2) units."""
    m = inverse_mills_ratio(z)
    with np.errstate(invalid="ignore"):
        return np.where(m == 0.0, 0.0, -m * (z + m))


class _UnaryFunction(ps.UnaryScalarOp):
    """A function of one number with its derivative."""

    def slope(self, x: Any) -> Any:
        """The derivative, as a scalar variable."""
        raise NotImplementedError

    def pullback(self, inputs: Any, outputs: Any, gradients: Any) -> list[Any]:
        """Chain rule."""
        return [gradients[0] * self.slope(inputs[0])]

    if not hasattr(Op, "pullback"):  # PyTensor 2
        L_op = pullback


class InverseMillsSlope(_UnaryFunction):
    """m'(z), increasing from -1 to 0."""

    def impl(self, x: float) -> float:
        """The value; -1 below `MILLS_CUTOFF`."""
        return float(inverse_mills_slope(x)) if x > MILLS_CUTOFF else -1.0

    def slope(self, x: Any) -> Any:
        """m'' = -m' (z + 2 m) - m."""
        m = _scalar_inverse_mills(x)
        return -_scalar_inverse_mills_slope(x) * (x + 2.0 * m) - m


class InverseMills(_UnaryFunction):
    """m(z), decreasing from infinity to 0."""

    def impl(self, x: float) -> float:
        """See `inverse_mills_ratio`."""
        return float(inverse_mills_ratio(x))

    def slope(self, x: Any) -> Any:
        """See `InverseMillsSlope`."""
        return _scalar_inverse_mills_slope(x)


class LogPhi(_UnaryFunction):
    """log Phi(z), increasing to 0."""

    nfunc_spec = ("scipy.special.log_ndtr", 1, 1)

    def impl(self, x: float) -> float:
        """The value by SciPy."""
        return float(sc.log_ndtr(x))

    def slope(self, x: Any) -> Any:
        """See `InverseMills`."""
        return _scalar_inverse_mills(x)


_FLOAT = ps.upgrade_to_float
_scalar_inverse_mills_slope = InverseMillsSlope(_FLOAT, name="mills_slope")
_scalar_inverse_mills = InverseMills(_FLOAT, name="mills")
_scalar_log_phi = LogPhi(_FLOAT, name="log_phi")
log_phi = Elemwise(_scalar_log_phi)
