"""A log-likelihood that NumPy evaluates inside a PyTensor graph.

What a compiler makes of a graph runs in microseconds, but each kernel costs it up to a second, and
the likelihood of a summary has a hundred. One Op whose value and derivatives NumPy computes
together costs nothing to compile; the model's own density stays PyTensor's. For other backends and
for second derivatives, the Op writes itself out as the graph it stands for.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import count
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op
from pytensor.graph.rewriting.basic import dfs_rewriter, node_rewriter

OTHER_BACKENDS = ("jax", "mlx")
"""Names of the rewrites of backends that cannot call NumPy."""


class ValueAndSlopes(Protocol):
    """A scalar function of arrays with its derivatives, twice: by NumPy and as a graph."""

    def __call__(self, *arrays: Any, **none: Any) -> tuple[float, Sequence[np.ndarray]]:
        """The value and the derivatives in each array."""

    def symbolic(self, *variables: Any, **none: Any) -> Variable:
        """The value as a graph."""


class NumpyLikelihood(Op):
    """The value of a function and its derivatives in every input, computed by NumPy.

    Parameters
    ----------
    function : ValueAndSlopes
        Of arrays of doubles. A value that is no number becomes minus infinity, with slopes 0.
    """

    def __init__(self, function: ValueAndSlopes) -> None:
        self.function = function
        _run_by_numba_as_it_is()

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy is run by numba too, in whatever process it is made."""
        self.__dict__.update(state)
        _run_by_numba_as_it_is()

    def make_node(self, *inputs: Any) -> Apply:
        """Outputs: the value, and an array of derivatives for each input."""
        given = [pt.as_tensor_variable(x) for x in inputs]
        slopes = [pt.TensorType("float64", shape=x.type.shape)() for x in given]
        return Apply(self, given, [pt.dscalar(), *slopes])

    def perform(self, node: Apply, inputs: Any, output_storage: Any) -> None:
        """Value and slopes."""
        value, slopes = self.function(*inputs)
        if not np.isfinite(value):
            value, slopes = -np.inf, [np.zeros_like(x) for x in inputs]
        output_storage[0][0] = np.array(value)
        for storage, slope in zip(output_storage[1:], slopes, strict=True):
            storage[0] = np.ascontiguousarray(slope)

    def infer_shape(self, *arguments: Any) -> Any:
        """Slopes have the shapes of the inputs."""
        return [(), *arguments[-1]]

    def written_out(self, inputs: Sequence[Variable]) -> list[Variable]:
        """The outputs as graphs of the inputs."""
        value = self.function.symbolic(*inputs)
        slopes = pytensor.grad(
            value, list(inputs), consider_constant=None, disconnected_inputs="ignore"
        )
        return [value, *slopes]

    def _chained(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Variable]:
        """The cotangent of the value times the slopes; those of slopes by the written graph."""
        given, *others = cotangents
        if all(isinstance(g.type, DisconnectedType) for g in others):
            return [given * slope for slope in outputs[1:]]
        whole = [
            out.zeros_like() if isinstance(g.type, DisconnectedType) else g
            for out, g in zip(outputs, cotangents, strict=True)
        ]
        twins = [x.type(name=x.name) for x in inputs]
        total = sum(pt.sum(g * out) for g, out in zip(whole, self.written_out(twins), strict=True))
        found = pytensor.grad(total, twins, disconnected_inputs="ignore")
        swaps = dict(zip(twins, inputs, strict=True))
        return list(pytensor.graph.replace.graph_replace(found, swaps, strict=False))

    # The name that each PyTensor asks for.
    if hasattr(Op, "pullback"):
        pullback = _chained
    else:
        L_op = _chained


@node_rewriter([NumpyLikelihood])
def _write_out(fgraph: Any, node: Apply) -> list[Variable]:
    """The graph that the Op stands for."""
    return node.op.written_out(node.inputs)


optdb.register(
    "write_out_numpy_likelihood", dfs_rewriter(_write_out), *OTHER_BACKENDS, position=0.01
)


def _run_by_numba_as_it_is() -> None:
    """Have numba call `perform` without a warning: that it may is what the Op is for."""
    if not hasattr(Op, "pullback"):  # PyTensor 2 has numba on request alone, and warns
        return
    from pytensor.link.numba.dispatch.basic import generate_fallback_impl, numba_funcify

    if NumpyLikelihood in numba_funcify.registry:
        return

    def called(op: Any, node: Any = None, **others: Any) -> Any:
        light: Any = _OpByNumber.of(op, node)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return generate_fallback_impl(light, light, **others)

    numba_funcify.register(NumpyLikelihood)(called)


_OPS: WeakValueDictionary[int, NumpyLikelihood] = WeakValueDictionary()
_NUMBERS = count()


class _OpByNumber:
    """An Op and its node, as numba is to see them.

    Numba unpickles what it calls at every call, which with the arrays of a summary takes several
    times as long as the call itself. This pickles as a number. The Op lives as long as the function
    that was compiled of it, and numbers are of one process: another one compiles anew.
    """

    def __init__(self, number: int, outputs: Sequence[Variable] = ()) -> None:
        self.number, self.outputs = number, outputs

    @classmethod
    def of(cls, op: NumpyLikelihood, node: Any) -> _OpByNumber:
        """The next number, for this Op."""
        number = next(_NUMBERS)
        _OPS[number] = op
        return cls(number, node.outputs)

    def __reduce__(self) -> tuple[Any, ...]:
        """The number alone."""
        return _OpByNumber, (self.number,)

    def perform(self, node: Any, inputs: Any, output_storage: Any) -> None:
        """What the Op does."""
        _OPS[self.number].perform(node, inputs, output_storage)
