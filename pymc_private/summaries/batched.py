"""Functions of one point, evaluated at many points at once.

A graph of one point is vectorized and run by NumPy, one array operation at a time. There is nothing
to compile, and both generations of PyTensor run the same operations. Scalar functions that NumPy
and SciPy lack are written out with those they have, or taken number by number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, reduce
from importlib import import_module
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis import simplify
from pymc_private.analysis.traversal import evaluate_node, rebuild, without_tracebacks


class BatchedFunction:
    """A function of one point as a function of arrays of points.

    Parameters
    ----------
    inputs : sequence of Variable
    outputs : sequence of Variable
        Graphs of one point.
    leading : sequence of tuple of bool, optional
        For each input, whether it varies along each leading axis of the batch; along others its
        length is 1. Default: one axis, along which all vary.
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        leading: Sequence[tuple[bool, ...]] | None = None,
    ) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.leading = list(leading) if leading is not None else [(True,)] * len(self.inputs)

    @cached_property
    def _program(self) -> NumpyProgram:
        swaps: dict[Variable, Variable] = {}
        for v, axes in zip(self.inputs, self.leading, strict=True):
            shape = (*(None if varies else 1 for varies in axes), *v.type.shape)
            swaps[v] = pt.TensorType(v.type.dtype, shape=shape)(name=v.name)
        with without_tracebacks():
            graphs = vectorize_graph(in_numpy_functions(self.outputs), replace=swaps)
            return NumpyProgram(list(swaps.values()), simplify(list(graphs)))

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The outputs, with the batch's axes first; axes along which none varies have length 1."""
        return self._program(*arrays)


class NumpyProgram:
    """Graphs as a list of operations on NumPy arrays.

    Parameters
    ----------
    inputs, outputs : sequence of Variable
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        nodes = io_toposort(list(inputs), list(outputs))
        slots: dict[Variable, int] = {v: k for k, v in enumerate(inputs)}
        self._dtypes = [v.type.dtype for v in inputs]
        self._constants: list[tuple[int, Any]] = []
        self._shared: list[tuple[int, Any]] = []
        self._steps: list[tuple[Callable[..., Any], list[int], list[int]]] = []

        def slot(variable: Variable) -> int:
            if variable not in slots:
                slots[variable] = len(slots)
                if isinstance(variable, Constant):
                    self._constants.append((slots[variable], variable.data))
                elif hasattr(variable, "get_value"):
                    self._shared.append((slots[variable], variable))
            return slots[variable]

        for node in nodes:
            read = [slot(v) for v in node.inputs]
            self._steps.append((_operation(node), read, [slot(v) for v in node.outputs]))
        self._results = [slot(v) for v in outputs]
        self._size = len(slots)

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The outputs at these inputs."""
        memory: list[Any] = [None] * self._size
        for k, (array, dtype) in enumerate(zip(arrays, self._dtypes, strict=True)):
            memory[k] = np.asarray(array, dtype=dtype)
        for k, value in self._constants:
            memory[k] = value
        for k, variable in self._shared:
            memory[k] = variable.get_value(borrow=True)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for run, read, write in self._steps:
                found = run(*(memory[k] for k in read))
                for k, value in zip(write, found, strict=True):
                    memory[k] = value
        return [np.asarray(memory[k]) for k in self._results]


def _operation(node: Apply) -> Callable[..., Any]:
    """What a node computes, as a function of arrays that gives a list of arrays."""
    if isinstance(node.op, Elemwise) and len(node.outputs) == 1:
        function = _numpy_function(node.op.scalar_op, len(node.inputs))
        if function is not None:
            dtype = np.dtype(node.outputs[0].type.dtype)
            return lambda *arrays: [np.asarray(function(*arrays)).astype(dtype, copy=False)]
    return lambda *arrays: evaluate_node(node, list(arrays))


def _numpy_function(scalar_op: Any, count: int) -> Callable[..., Any] | None:
    """The function of NumPy or SciPy that computes a scalar Op on arrays."""
    if isinstance(scalar_op, ps.Add | ps.Mul) and count > 2:
        function = np.add if isinstance(scalar_op, ps.Add) else np.multiply
        return lambda *arrays: reduce(function, arrays)
    for kind, known in NUMPY_FUNCTIONS.items():
        if isinstance(scalar_op, kind):
            return known
    name, inputs, _ = getattr(scalar_op, "nfunc_spec", None) or ("", -1, 0)
    if inputs != count:
        return None
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module or "numpy"), attribute)


NUMPY_FUNCTIONS: Mapping[type, Callable[..., Any]] = {
    ps.Switch: np.where,
    ps.Cast: np.asarray,
    ps.Identity: np.asarray,
    ps.Clip: lambda x, low, high: np.where(x < low, low, np.where(x > high, high, x)),
    ps.Second: lambda shape, fill: np.broadcast_to(
        fill, np.broadcast_shapes(np.shape(shape), np.shape(fill))
    ),
}
"""Functions of NumPy that PyTensor does not name."""


def without_checks(outputs: Sequence[Variable]) -> list[Variable]:
    """The graphs without assertions of values and shapes."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        return inputs[0] if isinstance(node.op, CheckAndRaise | SpecifyShape) else None

    return rebuild(list(outputs), _leaves(outputs), rule)


def in_numpy_functions(outputs: Sequence[Variable]) -> list[Variable]:
    """The graphs without assertions, and with scalar functions that NumPy lacks written out."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        scalar = node.op.scalar_op if isinstance(node.op, Elemwise) else None
        write = next((w for kind, w in WRITTEN_OUT.items() if isinstance(scalar, kind)), None)
        return None if write is None else write(*inputs)

    plain = without_checks(outputs)
    return rebuild(plain, _leaves(plain), rule)


def _leaves(outputs: Sequence[Variable]) -> dict[Variable, Variable]:
    return {v: v for v in ancestors(list(outputs)) if v.owner is None}


def _softplus(x: Variable) -> Variable:
    return pt.maximum(x, 0.0) + pt.log1p(pt.exp(-abs(x)))


def _log1mexp(x: Variable) -> Variable:
    return pt.switch(x < -np.log(2.0), pt.log1p(-pt.exp(x)), pt.log(-pt.expm1(x)))


WRITTEN_OUT: Mapping[type, Callable[..., Variable]] = {
    psm.Softplus: _softplus,
    psm.Log1mexp: _log1mexp,
}
"""Scalar functions without a counterpart in NumPy and SciPy."""
