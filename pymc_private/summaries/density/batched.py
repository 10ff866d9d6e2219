"""Functions of one point, evaluated at many points at once.

A graph of one point is vectorized and run by NumPy, one array operation at a time. There is nothing
to compile, and both generations of PyTensor run the same operations. A scalar function that neither
NumPy nor SciPy has is computed number by number.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, reduce
from importlib import import_module
from typing import Any

import numpy as np
import pytensor.scalar.basic as ps
import pytensor.scalar.math as psm
import pytensor.tensor as pt
from pytensor.compile.mode import optdb
from pytensor.graph.basic import Apply, Constant, Variable, clone
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.replace import vectorize_graph
from pytensor.graph.rewriting.basic import MergeOptimizer
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.shape import SpecifyShape
from pytensor.tensor.subtensor import IncSubtensor, Subtensor
from scipy import special

from pymc_private.analysis.continuity import dependent_variables
from pymc_private.analysis.intervals import ops
from pymc_private.analysis.rewrites.known_forms import by_structure
from pymc_private.analysis.traversal import evaluate_node, rebuild, without_tracebacks
from pymc_private.errors import Unsupported
from pymc_private.summaries.density.plain_record import MOST_CATEGORIES, vectorizable

LOOKUPS = ("AdvancedSubtensor", "AdvancedSubtensor1")
"""Operations that raise where an index lies outside of a table."""
SHORT_AXIS = 12
"""Axes up to this length are reduced slice by slice: NumPy is slow along short ones."""
LARGE_ARRAY = 1024
"""Arrays of fewer numbers are left to NumPy as they are: looking at them takes as long."""
SHORT_AND_ONE = [{1, width} for width in range(2, SHORT_AXIS + 1)]


class VectorizedFunction:
    """A function of one point as a function of arrays of points, made at its first call.

    Parameters
    ----------
    inputs : sequence of Variable
    outputs : sequence of Variable
        Graphs of one point.
    leading : sequence of tuple of bool, optional
        For each input, whether it varies along each leading axis of the batch; along others its
        length is 1. Axes of a batch are aligned at the last one. Default: one axis for all.
    derivatives : bool
        Whether the outputs are derivatives; see `NumpyProgram`.
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        leading: Sequence[tuple[bool, ...]] | None = None,
        *,
        derivatives: bool = False,
    ) -> None:
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.leading = list(leading) if leading is not None else [(True,)] * len(self.inputs)
        self.derivatives = derivatives

    @cached_property
    def program(self) -> NumpyProgram:
        """The vectorized graph as a program."""
        swaps: dict[Variable, Variable] = {}
        for v, axes in zip(self.inputs, self.leading, strict=True):
            shape = (*(None if varies else 1 for varies in axes), *v.type.shape)
            swaps[v] = pt.TensorType(v.type.dtype, shape=shape)(name=v.name)
        with without_tracebacks():
            core = vectorizable(rewritten(without_checks(self.outputs)))
            graphs = merged(vectorize_graph(core, replace=swaps))
            return NumpyProgram(list(swaps.values()), graphs, derivatives=self.derivatives)

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The outputs, with the batch's axes first; axes along which none varies have length 1."""
        return self.program(*arrays)


class NumpyProgram:
    """Graphs as a list of operations on NumPy arrays.

    Parameters
    ----------
    inputs, outputs : sequence of Variable
    derivatives : bool
        Whether 0 times infinity or NaN, and 0 / 0, are 0: the derivative of a branch that a switch
        leaves out is 0 times whatever that branch gives there.
    """

    def __init__(
        self,
        inputs: Sequence[Variable],
        outputs: Sequence[Variable],
        *,
        derivatives: bool = False,
    ) -> None:
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
            run = _operation(node, derivatives)
            self._steps.append((run, read, [slot(v) for v in node.outputs]))
        self._results = [slot(v) for v in outputs]
        self._size = len(slots)
        self._last_use = self._last_uses()

    def _last_uses(self) -> list[list[int]]:
        """For each step, the slots that nothing reads afterwards."""
        kept, found = set(self._results), []
        for _, read, write in reversed(self._steps):
            found.append([k for k in {*read, *write} if k not in kept])
            kept.update(read)
        return found[::-1]

    def __call__(self, *arrays: np.ndarray) -> list[np.ndarray]:
        """The outputs at these inputs."""
        memory: list[Any] = [None] * self._size
        for k, value in self._constants:
            memory[k] = value
        for k, variable in self._shared:
            memory[k] = variable.get_value(borrow=True)
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for k, (array, dtype) in enumerate(zip(arrays, self._dtypes, strict=True)):
                memory[k] = np.asarray(array).astype(dtype, copy=False)
            for (run, read, write), last in zip(self._steps, self._last_use, strict=True):
                found = run(*[memory[k] for k in read])
                for k, value in zip(write, found, strict=True):
                    memory[k] = value
                for k in last:
                    memory[k] = None
        return [np.asarray(memory[k]) for k in self._results]


def _operation(node: Apply, derivatives: bool) -> Callable[..., Any]:
    """What a node computes, as a function of arrays that gives a list of arrays."""
    if isinstance(node.op, Elemwise) and len(node.outputs) == 1:
        function = _numpy_function(node.op.scalar_op, len(node.inputs), derivatives)
        if function is not None:
            dtype = np.dtype(node.outputs[0].type.dtype)
            return lambda *arrays: [np.asarray(function(*arrays)).astype(dtype, copy=False)]
    if isinstance(node.op, ops.LogSumExp):
        return lambda x: [_log_sum_exp(x)]
    if isinstance(node.op, DimShuffle):
        return _dimshuffle(node.op)
    if isinstance(node.op, CAReduce):
        known = _short_reduction(node)
        if known is not None:
            return known
    if isinstance(node.op, SpecifyShape | CheckAndRaise):  # written by rewrites
        return lambda *arrays: [arrays[0]]
    if isinstance(node.op, Blockwise):
        known = _stacked(node.op)
        if known is not None:
            return lambda *arrays: [known(*(np.asarray(array) for array in arrays))]
        if isinstance(node.op.core_op, Subtensor | IncSubtensor):
            return _slices(node.op)
        return lambda *arrays: evaluate_node(node, _same_batch(node.op, arrays))
    return lambda *arrays: evaluate_node(node, [_as_array(v) for v in arrays])


def _as_array(value: Any) -> Any:
    """An array; slices and their ends, inputs of lookups in PyTensor 2, as they are."""
    return value if value is None or isinstance(value, slice) else np.asarray(value)


def _numpy_function(scalar_op: Any, count: int, derivatives: bool) -> Callable[..., Any] | None:
    """The function of NumPy or SciPy that computes a scalar Op on arrays."""
    if isinstance(scalar_op, ps.Add):
        return lambda *arrays: reduce(_added, arrays)
    if isinstance(scalar_op, ps.Mul):
        times = _times if derivatives else np.multiply
        return lambda *arrays: reduce(times, arrays)
    if isinstance(scalar_op, ps.TrueDiv) and derivatives:
        return _divided
    for kind, known in NUMPY_FUNCTIONS.items():
        if isinstance(scalar_op, kind):
            return known
    name, inputs, _ = getattr(scalar_op, "nfunc_spec", None) or ("", -1, 0)
    if inputs != count:
        return None
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module or "numpy"), attribute)


def _dimshuffle(op: DimShuffle) -> Callable[..., Any]:
    """Axes in another order, some of length 1 dropped or added: a view where there is one."""
    kept = [axis for axis in op.new_order if axis != "x"]
    order = (*kept, *(k for k in range(op.input_ndim) if k not in kept))
    places = [k for k, axis in enumerate(op.new_order) if axis != "x"]
    rank = len(op.new_order)

    def run(x: Any) -> list[np.ndarray]:
        moved = np.asarray(x).transpose(order)
        shape = [1] * rank
        for place, length in zip(places, moved.shape, strict=False):
            shape[place] = length
        return [moved.reshape(shape)]

    return run


def _short_reduction(node: Apply) -> Callable[..., Any] | None:
    """A reduction along one axis, slice by slice where it is short."""
    op, out = node.op, node.outputs[0].type.dtype
    ufunc, axis = getattr(op, "ufunc", None), op.axis
    accumulated = np.dtype(getattr(op, "acc_dtype", None) or out)
    if ufunc is None or axis is None or len(axis) != 1:
        return None
    (place,) = axis

    def run(x: Any) -> list[np.ndarray]:
        array = np.asarray(x).astype(accumulated, copy=False)
        if 0 < array.shape[place] <= SHORT_AXIS:
            found = reduce(ufunc, np.moveaxis(array, place, 0))
        else:
            found = ufunc.reduce(array, axis=place, dtype=accumulated)
        return [np.array(found, dtype=out, copy=None, order="C")]

    return run


def _switch(condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Entries of x or y; x or y itself where all are its own: most switches guard a domain."""
    together = np.broadcast(condition, x, y)
    if together.size < LARGE_ARRAY:
        return np.where(condition, x, y)
    shape, choice = together.shape, np.asarray(condition)
    chosen = x if choice.all() else None if choice.any() else y
    if chosen is not None and np.shape(chosen) == shape and chosen.flags.c_contiguous:
        return chosen
    is_row = choice.shape[-1:] == (choice.size,) == shape[-1:]
    if is_row and shape[-1] <= SHORT_AXIS:
        found = np.empty(shape, np.result_type(x, y))  # a stack of arrays, written as choices
        for k, first in enumerate(choice.ravel()):
            found[..., k] = _along_last(x if first else y, k)
        return found
    return np.where(condition, x, y)


def _along_last(x: Any, place: int) -> Any:
    """Entries at one place of the last axis, which an array of length 1 has everywhere."""
    return x[..., place if np.shape(x)[-1] > 1 else 0] if np.ndim(x) else x


def _added(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x + y, slice by slice where one of them is repeated along a short last axis."""
    shapes = np.shape(x), np.shape(y)
    if (
        np.size(x) + np.size(y) < LARGE_ARRAY
        or not all(shapes)
        or {shape[-1] for shape in shapes} not in SHORT_AND_ONE
    ):
        return np.add(x, y)
    width = max(shape[-1] for shape in shapes)
    found = np.empty((*np.broadcast_shapes(*shapes)[:-1], width), np.result_type(x, y))
    for k in range(width):
        np.add(_along_last(x, k), _along_last(y, k), out=found[..., k])
    return found


def _has_nan(array: np.ndarray) -> bool:
    """Whether a NaN is in an array: squares, unlike numbers, add up to one only if one is there."""
    flat = np.ravel(array)
    return bool(np.isnan(np.dot(flat, flat)))


def _times(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x y, where 0 times anything is 0."""
    product = np.multiply(x, y)
    if _has_nan(product):
        product = np.where(np.isnan(product) & (np.equal(x, 0) | np.equal(y, 0)), 0.0, product)
    return product


def _divided(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y, where 0 divided by anything is 0."""
    quotient = np.true_divide(x, y)
    if _has_nan(quotient):
        quotient = np.where(np.isnan(quotient) & np.equal(x, 0), 0.0, quotient)
    return quotient


def _log_sum_exp(x: np.ndarray) -> np.ndarray:
    if not 0 < x.shape[-1] <= SHORT_AXIS:
        top = np.max(x, axis=-1, keepdims=True)
        top = np.where(np.isfinite(top), top, 0.0)
        return np.log(np.sum(np.exp(x - top), axis=-1)) + top[..., 0]
    parts = np.ascontiguousarray(np.moveaxis(x, -1, 0))
    top = reduce(np.maximum, parts)
    top = np.where(np.isfinite(top), top, 0.0)
    return np.log(reduce(np.add, (np.exp(part - top) for part in parts))) + top


def _stacked(blockwise: Blockwise) -> Callable[..., np.ndarray] | None:
    """Linear algebra of stacks of small matrices, which NumPy broadcasts; NaN where it fails.

    Entries of stacks of tables too.
    """
    op = blockwise.core_op
    name = type(op).__name__
    if name == "Cholesky":
        flip = (lambda x: x) if op.lower else (lambda x: np.swapaxes(x, -1, -2))
        return lambda x: flip(_each_matrix(np.linalg.cholesky, x))
    if name == "Dot":
        return _matrix_products
    if name in LOOKUPS and getattr(op, "idx_list", (0,)) == (0,):
        _, *places = blockwise.inputs_sig
        return _entries if [len(axes) for axes in places] == [1] else None
    if name == "SolveTriangular" and not op.unit_diagonal:
        half = np.tril if op.lower else np.triu
        if op.b_ndim == 2:
            return lambda a, b: _each_matrix(np.linalg.solve, half(a), b)
        return lambda a, b: _each_matrix(np.linalg.solve, half(a), b[..., None])[..., 0]
    return None


def _entries(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Entries of stacks of tables (..., L, *rest) at stacks of places (..., J)."""
    rest = x.ndim - places.ndim
    return np.take_along_axis(x, places.reshape(*places.shape, *[1] * rest), axis=x.ndim - rest - 1)


def _matrix_products(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x @ y; of matrices (S, 1, m, r) and vectors (1, N, r, 1) as one product for all vectors."""
    if x.ndim == y.ndim == 4 and x.shape[1] == y.shape[0] == y.shape[3] == 1:
        return np.matmul(y[0, :, :, 0], np.swapaxes(x[:, 0], 1, 2))[..., None]
    return np.matmul(x, y)


def _slices(blockwise: Blockwise) -> Callable[..., list[np.ndarray]]:
    """Slices of stacks of arrays, read, set or added to; PyTensor 2 takes other positions.

    Its compiled loops over a stack read the positions, which are scalars, as arrays.
    """
    op = blockwise.core_op
    changed = isinstance(op, IncSubtensor)
    first = 2 if changed else 1

    def place(positions: Sequence[Any]) -> tuple[Any, ...]:
        found = iter(positions)
        return tuple(
            slice(*(None if end is None else next(found) for end in (e.start, e.stop, e.step)))
            if isinstance(e, slice)
            else next(found)
            for e in op.idx_list
        )

    def at(x: np.ndarray, y: list[np.ndarray], index: tuple[Any, ...]) -> np.ndarray:
        """Of a stack; `y` has fewer axes than the part of `x`, or as many."""
        if not changed:
            return x[index]
        x, (values,) = x.copy(), y
        batch = values.ndim - len(blockwise.inputs_sig[1])
        missing = x[index].ndim - values.ndim
        values = values.reshape(*values.shape[:batch], *[1] * missing, *values.shape[batch:])
        x[index] = values if op.set_instead_of_inc else x[index] + values
        return x

    def run(*arrays: Any) -> list[np.ndarray]:
        given = _same_batch(blockwise, arrays)
        x, y, positions = given[0], given[1:first], given[first:]
        batch = x.shape[: x.ndim - len(blockwise.inputs_sig[0])]
        if all(p.size and (p == p.flat[0]).all() for p in positions):
            index = place([int(p.flat[0]) for p in positions])
            return [at(x, y, (*[slice(None)] * len(batch), *index))]
        each = []
        for k in np.ndindex(*batch):
            index = place([int(p[k]) for p in positions])
            each.append(at(x[k][None], [values[k][None] for values in y], (slice(None), *index)))
        return [np.concatenate(each).reshape(*batch, *each[0].shape[1:])]

    return run


def _same_batch(op: Blockwise, arrays: Sequence[Any]) -> list[np.ndarray]:
    """Arrays with equal leading axes: an Op refuses lengths of 1 that its types do not tell."""
    given = [np.asarray(array) for array in arrays]
    cores = [np.ndim(x) - len(axes) for x, axes in zip(given, op.inputs_sig, strict=True)]
    batch = np.broadcast_shapes(*(x.shape[:k] for x, k in zip(given, cores, strict=True)))
    return [np.broadcast_to(x, (*batch, *x.shape[k:])) for x, k in zip(given, cores, strict=True)]


def _each_matrix(function: Callable[..., np.ndarray], *stacks: np.ndarray) -> np.ndarray:
    """A function of matrices on stacks of them; those at which it fails give NaN."""
    try:
        return function(*stacks)
    except np.linalg.LinAlgError:
        pass
    batch = np.broadcast_shapes(*(stack.shape[:-2] for stack in stacks))
    whole = [np.broadcast_to(stack, (*batch, *stack.shape[-2:])) for stack in stacks]
    found = np.full(whole[-1].shape, np.nan)
    for place in np.ndindex(*batch):
        try:
            found[place] = function(*(stack[place] for stack in whole))
        except np.linalg.LinAlgError:
            continue
    return found


def _log1mexp(x: np.ndarray) -> np.ndarray:
    return np.where(x < -np.log(2.0), np.log1p(-np.exp(x)), np.log(-np.expm1(x)))


def _log_sigmoid_gap(z: np.ndarray, gap: np.ndarray) -> np.ndarray:
    inside = np.log(-np.expm1(-gap)) - np.logaddexp(0.0, -(z + gap)) - np.logaddexp(0.0, z)
    return np.where(gap > 0, inside, np.nan)


def _log_phi_between(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    """log(Phi(above) - Phi(below)) on the side of the lower tail."""
    flipped = below > -above
    low, high = np.where(flipped, -above, below), np.where(flipped, -below, above)
    top = special.log_ndtr(high)
    found = top + np.log(-np.expm1(special.log_ndtr(low) - top))
    return np.where(above > below, np.where(np.isfinite(top), found, -np.inf), np.nan)


def _mills_slope(z: np.ndarray) -> np.ndarray:
    return np.where(z > ops.MILLS_CUTOFF, ops.inverse_mills_slope(z), -1.0)


NUMPY_FUNCTIONS: Mapping[type, Callable[..., Any]] = {
    ps.Switch: _switch,
    ps.Cast: np.asarray,
    ps.Identity: np.asarray,
    ps.Clip: lambda x, low, high: np.where(x < low, low, np.where(x > high, high, x)),
    ps.Second: lambda shape, fill: np.broadcast_to(
        fill, np.broadcast_shapes(np.shape(shape), np.shape(fill))
    ),
    psm.Softplus: lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x))),
    psm.Log1mexp: _log1mexp,
    psm.TriGamma: lambda x: special.polygamma(1, x),
    ops.LogAddExp: np.logaddexp,
    ops.LogSigmoidGap: _log_sigmoid_gap,
    ops.LogPhiBetween: _log_phi_between,
    ops.LogPhiGap: lambda z, gap: _log_phi_between(z + gap, z),
    ops.InverseMills: ops.inverse_mills_ratio,
    ops.InverseMillsSlope: _mills_slope,
}
"""Functions of arrays for scalar functions whose counterpart PyTensor does not name."""


def refuse_open_lookups(value: Variable, data: Sequence[Variable]) -> None:
    """Refuse a table that is read at an entry of a record: what lies outside of it would raise.

    Short tables were rewritten as sums of choices, which no index breaks.

    Raises
    ------
    Unsupported
    """
    outputs = vectorizable([value])
    moving = dependent_variables(list(outputs), list(data))
    for node in io_toposort(list(data), list(outputs)):
        if type(node.op).__name__ in LOOKUPS and not moving.isdisjoint(node.inputs[1:]):
            raise Unsupported(
                "a table is looked up by an entry of a record, and an entry outside of it would "
                "make a release fail",
                got=f"{type(node.op).__name__} of {node.inputs[0].name or 'a table'}",
                allowed=f"tables of known length, up to {MOST_CATEGORIES}",
                do="write the values as a function of the entry, or release draws: pmp.sample",
            )


# ---- graphs -------------------------------------------------------------------------------------


def graph_variables(value: Variable, inputs: Sequence[Variable]) -> list[Variable]:
    """All computed variables and inputs of a graph."""
    outs = [out for node in io_toposort(list(inputs), [value]) for out in node.outputs]
    return [*inputs, *outs]


def without_checks(outputs: Sequence[Variable]) -> list[Variable]:
    """The graphs without assertions of values and shapes."""

    def rule(node: Apply, inputs: list[Variable]) -> Variable | None:
        return inputs[0] if isinstance(node.op, CheckAndRaise | SpecifyShape) else None

    leaves = {v: v for v in ancestors(list(outputs)) if v.owner is None}
    return rebuild(list(outputs), leaves, rule)


def rewritten(outputs: Sequence[Variable]) -> list[Variable]:
    """PyTensor's canonical and stable forms of graphs; their inputs stay."""
    return by_structure(_rewritten, outputs)


def _rewritten(outputs: Sequence[Variable]) -> list[Variable]:
    graph = _function_graph(outputs)
    with warnings.catch_warnings():  # nothing is compiled here that a BLAS could speed up
        warnings.filterwarnings("ignore", message=".*could not link to a BLAS")
        _rewriter().rewrite(graph)
    return list(graph.outputs)


def merged(outputs: Sequence[Variable]) -> list[Variable]:
    """The graphs with equal nodes made one; their inputs stay."""
    graph = _function_graph(outputs)
    MergeOptimizer().rewrite(graph)
    return list(graph.outputs)


def _function_graph(outputs: Sequence[Variable]) -> FunctionGraph:
    leaves = [v for v in ancestors(list(outputs)) if v.owner is None]
    _, copies = clone(leaves, list(outputs), False, False)
    return FunctionGraph(outputs=list(copies), clone=False)


@cache
def _rewriter() -> Any:
    """PyTensor's rewrites towards fewer and more stable operations, without compiled ones."""
    wrong = ("local_zero_div", "local_pow_to_nested_squaring")
    of_shapes = ("local_adv_sub1_adv_inc_sub1",)  # fails aloud in PyTensor 2 where none are known
    query = RewriteDatabaseQuery(
        include=("canonicalize", "stabilize", "specialize"),
        exclude=(*wrong, *of_shapes, "fusion", "inplace", "BlasOpt"),
    )
    return optdb.query(query)
