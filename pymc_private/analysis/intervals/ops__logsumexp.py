"""log sum e^x as one Op, on both generations of PyTensor.

Its parts move together, which a rule for each part would forget; its gradient is the softmax.
`rewrites.simplify` puts it into graphs, and `intervals.special` has its rule.
"""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from typing import Any
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.replace import _vectorize_node
from pytensor.tensor.special import softmax
from scipy.special import logsumexp

class LogSumExp(Op):
    """log sum_k e^{x_k} over the last axis; its gradient is the softmax."""

    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        """One node: the last axis goes."""
        x = pt.as_tensor_variable(x)
        kind = pt.TensorType(x.type.dtype, shape=x.type.shape[:-1])
        return Apply(self, [x], [kind()])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """In floats, without overflow."""
        with np.errstate(all="ignore"):
            output_storage[0][0] = np.asarray(logsumexp(inputs[0], axis=-1))

    def _softmax(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        """Softmax, times the gradient of what follows."""
        (x,), (g,) = inputs, cotangents
        return [pt.expand_dims(g, -1) * softmax(x, axis=-1)]

    # The name that each PyTensor asks for.
    if hasattr(Op, "pullback"):
        pullback = _softmax
    else:
        L_op = _softmax


@_vectorize_node.register(LogSumExp)
def _vectorize(op: LogSumExp, node: Apply, x: Variable) -> Apply:
    """Leading axes do not matter."""
    return op.make_node(x)


def log_sum_exp(x: Variable, axes: tuple[int, ...]) -> Variable:
    """log sum e^x over any axes, as the composite."""
    kept = [axis for axis in range(x.type.ndim) if axis not in axes]
    moved = x.dimshuffle(*kept, *axes)
    if len(axes) > 1:
        moved = moved.reshape((*moved.shape[: len(kept)], -1), ndim=len(kept) + 1)
    return LogSumExp()(moved)
