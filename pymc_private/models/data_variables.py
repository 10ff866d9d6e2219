"""Data variables of a model: private sources, implied supports and embedded arrays.

A `Source` is one private variable: where its data sit in the model's graph, its records axis and
its domain. Arrays that were written into a graph as constants are found by the length of an axis,
inner graphs included. Private constants are replaced by shared variables, because PyMC and PyTensor
fold constants whenever they rewrite a graph: the mean of an embedded array would become a number
that looks public although it was computed from every record. A shared variable is never folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pytensor.graph.basic import Variable
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis import Bounds
from pymc_private.analysis.traversal import library_class_name
from pymc_private.models.distributions import casts_between, implied_support, is_constant
from pymc_private.models.domains import Categories, Domain

CONSTANT_KIND = "constant"
"""The kind of an array that was written into the graph."""
VALUE_INPUTS = {
    **dict.fromkeys(("Reshape", "Subtensor", "AdvancedSubtensor", "AdvancedSubtensor1"), 1),
    **dict.fromkeys(("IncSubtensor", "AdvancedIncSubtensor", "AdvancedIncSubtensor1"), 2),
}
"""How many leading inputs of an Op are values; the others are shapes and indexes."""


@dataclass(frozen=True, eq=False)
class Source:
    """One private variable.

    Parameters
    ----------
    name : str
        Name of the data variable, of the observed variable, or of an embedded constant.
    aliases : tuple of str
        Other names a user may know it by.
    variable : Variable
        The shared variable or constant in the model's graph.
    axis : int
        Its records axis.
    shape : tuple of int
        Shape of the whole array.
    domain : Domain
        Every value that one record's entry could have.
    """

    name: str
    aliases: tuple[str, ...]
    variable: Variable
    axis: int
    shape: tuple[int, ...]
    domain: Domain

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of one record's entry."""
        return self.shape[: self.axis] + self.shape[self.axis + 1 :]

    @property
    def dtype(self) -> str:
        """Data type of the variable in the graph."""
        return str(self.variable.type.dtype)

    @property
    def is_whole(self) -> bool:
        """Whether entries are integers by type."""
        return not self.dtype.startswith("float")

    @property
    def number_of_values(self) -> float:
        """How many values an entry may take: of categories and bounded whole numbers finite."""
        if isinstance(self.domain, Categories):
            return len(self.domain.values)
        if not self.is_whole:
            return np.inf
        bounds = self.domain.bounds(self.row_shape)
        return float(np.max(np.floor(bounds.upper) - np.ceil(bounds.lower))) + 1.0

    def is_declared_as(self, other: Source) -> bool:
        """Whether another model declares this variable alike: its name, axis, row and domain."""
        mine, own = vars(self.domain), vars(other.domain)
        return (
            (self.name, self.axis, self.row_shape) == (other.name, other.axis, other.row_shape)
            and type(self.domain) is type(other.domain)
            and mine.keys() == own.keys()
            and all(np.array_equal(np.asarray(mine[k]), np.asarray(own[k])) for k in mine)
        )

    def input(self) -> Variable:
        """A fresh symbolic input of any shape; only axes of length 1 besides the records stay."""
        static = [1 if size == 1 and i != self.axis else None for i, size in enumerate(self.shape)]
        return self.variable.type.clone(shape=tuple(static))(name=self.name)

    def input_of_any_length(self) -> Variable:
        """A fresh symbolic input of the model's shape with any length along the records axis."""
        static = [None if i == self.axis else size for i, size in enumerate(self.shape)]
        return self.variable.type.clone(shape=tuple(static))(name=self.name)

    def stand_in(self, rows: int | None = None) -> np.ndarray:
        """An array inside the domain with `rows` records (default: the model's); holds no data."""
        row = np.expand_dims(self.domain.corners(self.row_shape)[0], self.axis)
        shape = list(self.shape)
        shape[self.axis] = shape[self.axis] if rows is None else rows
        whole = np.broadcast_to(row, shape)
        return np.ascontiguousarray(whole).astype(self.dtype)

    def stack(self, rows: Sequence[Bounds]) -> Bounds:
        """Bounds of several records, stacked along the records axis."""
        if all(r is rows[0] for r in rows):  # broadcasting one record is faster than a stack
            return self._repeat(rows[0], len(rows))
        lower = np.stack([np.broadcast_to(r.lower, self.row_shape) for r in rows], axis=self.axis)
        # A stack of points is exact: integers stay usable as indexes.
        exact = all(r.is_point for r in rows)
        upper = (
            lower
            if exact
            else np.stack([np.broadcast_to(r.upper, self.row_shape) for r in rows], axis=self.axis)
        )
        last = self.axis < len(self.shape) - 1
        return Bounds(lower, upper, rows[0].within if last and _have_one_constraint(rows) else None)

    def _repeat(self, row: Bounds, count: int) -> Bounds:
        """Bounds of the same record, `count` times."""
        shape = list(self.row_shape)
        shape.insert(self.axis, count)
        lower, upper = (
            np.broadcast_to(np.expand_dims(np.broadcast_to(end, self.row_shape), self.axis), shape)
            for end in (row.lower, row.upper)
        )
        last = self.axis < len(self.shape) - 1
        return Bounds(lower, lower if row.is_point else upper, row.within if last else None)

    def values(self) -> np.ndarray:
        """The data. Read by `privatize` and by a charged draw only."""
        variable: Any = self.variable
        return variable.get_value() if hasattr(variable, "get_value") else variable.data


def _have_one_constraint(rows: Sequence[Bounds]) -> bool:
    """Whether all rows carry one and the same constraint object."""
    return all(r.within is rows[0].within for r in rows)


@dataclass(frozen=True, eq=False)
class ArrayCandidate:
    """An array of the model that may be private, before the declaration is read.

    Its `implied` domain is the finite support that a likelihood states; its `kind` is "data",
    "observed" or `CONSTANT_KIND`.
    """

    name: str
    aliases: tuple[str, ...]
    variable: Variable
    dims: tuple[str | None, ...]
    shape: tuple[int, ...]
    implied: Domain | None
    kind: str


def array_candidates(model: pm.Model) -> list[ArrayCandidate]:
    """Every data variable and observed array of the model, each once."""
    readers: dict[Variable, list[Variable]] = {}
    for rv in model.observed_RVs:
        readers.setdefault(underlying_array(model.rvs_to_values[rv]), []).append(rv)
    found = {
        variable: _observed_candidate(model, variable, rvs) for variable, rvs in readers.items()
    }
    for variable in model.data_vars:
        if variable not in found:
            dims = model.named_vars_to_dims.get(variable.name) or ()
            implied = getattr(model, "implied_domains", {}).get(variable.name)  # of `marginalize`
            found[variable] = ArrayCandidate(
                variable.name, (), variable, tuple(dims), _array_shape(variable), implied, "data"
            )
    return list(found.values())


def _observed_candidate(
    model: pm.Model, variable: Variable, rvs: Sequence[Variable]
) -> ArrayCandidate:
    """An array that likelihoods observe: one candidate under all of its names."""
    names = [rv.name for rv in rvs]
    name = variable.name if variable.name in model.named_vars else names[0]
    aliases = tuple(sorted(set(names) - {name}))
    dims = next((d for d in map(model.named_vars_to_dims.get, (name, *names)) if d), ())
    plain = [rv for rv in rvs if keeps_support(model.rvs_to_values[rv], variable)]
    implied = next((d for d in map(implied_support, plain) if d is not None), None)
    return ArrayCandidate(
        name, aliases, variable, tuple(dims), _array_shape(variable), implied, "observed"
    )


def underlying_array(value: Variable) -> Variable:
    """The array behind a value variable (PyMC puts a Cast above integer `pm.Data`)."""
    while value.owner is not None:
        inputs = value.owner.inputs
        value = next((v for v in inputs if not is_constant(v)), inputs[0])
    return value


def keeps_support(value: Variable, variable: Variable) -> bool:
    """Whether the support of the observed values is the array's: casts to wider types only."""
    casts = casts_between(value, variable)
    sizes = [np.dtype(dtype).itemsize for dtype in (variable.type.dtype, *(casts or ()))]
    return casts is not None and sizes == sorted(sizes)


def _array_shape(variable: Any) -> tuple[int, ...]:
    if hasattr(variable, "get_value"):
        return tuple(variable.get_value(borrow=True).shape)
    return tuple(np.shape(variable.data))


def factor_variables(model: pm.Model) -> list[Variable]:
    """The variables from whose graphs every factor of a model is computed."""
    return [*model.observed_RVs, *model.potentials, *model.free_RVs]


def constants_with_axis(
    outs: Iterable[Variable], n: int, skip: Iterable[Variable]
) -> dict[str, tuple[TensorConstant, int]]:
    """Constants embedded in the graph that have an axis as long as the records axis, by name.

    Names are stable: ``constant_0``, ``constant_1``, ... in the order of the graph. Inner graphs
    (a Scan, an OpFromGraph) are searched too: see `is_read_outside_inner_graphs`.
    """
    skipped = set(skip)
    found: dict[str, tuple[TensorConstant, int]] = {}
    for variable in ancestors_with_inner_graphs(outs):
        if not isinstance(variable, TensorConstant) or variable in skipped or n < 2:
            continue
        axes = [axis for axis, size in enumerate(np.shape(variable.data)) if size == n]
        if axes:
            found[f"constant_{len(found)}"] = (variable, axes[0])
    return found


def ancestors_with_inner_graphs(outs: Iterable[Variable]) -> Iterator[Variable]:
    """Ancestors, then the ancestors in the inner graphs of their Ops."""
    outer = list(dict.fromkeys(ancestors(list(outs))))
    yield from outer
    inner = {v.owner.op: None for v in outer if v.owner and isinstance(v.owner.op, HasInnerGraph)}
    for op in inner:
        yield from ancestors_with_inner_graphs(op.inner_outputs)


def is_read_outside_inner_graphs(variable: Variable, outs: Iterable[Variable]) -> bool:
    """Whether the graph itself reads a variable, not only an inner graph of one of its Ops."""
    return variable in set(ancestors(list(outs)))


def undeclared_shared_arrays(outs: Iterable[Variable], known: Iterable[Variable]) -> list[Any]:
    """Shared arrays of several numbers that are not among the `known` data variables."""
    skipped = set(known)
    return [
        v
        for v in ancestors_with_inner_graphs(outs)
        if hasattr(v, "get_value")
        and isinstance(v.type, TensorType)
        and v not in skipped
        and np.size(v.get_value(borrow=True)) > 1
    ]


def embedded_arrays(outs: Iterable[Variable], n: int, known: Iterable[Variable]) -> list[Variable]:
    """Arrays embedded in a graph that could hold values of records.

    These are shared arrays that are not `known`, constants of several numbers, and any constant
    with n entries or more. Shorter constants that are only read as shapes or indexes do not count.
    """
    outs = list(outs)
    every = list(ancestors_with_inner_graphs(outs))
    values = variables_read_as_values(every)
    found: list[Variable] = [
        v
        for v in every
        if isinstance(v, TensorConstant)
        and (np.size(v.data) >= n or (np.size(v.data) > 1 and v in values))
    ]
    return found + undeclared_shared_arrays(outs, known)


def variables_read_as_values(every: Sequence[Variable]) -> set[Variable]:
    """Variables that some Op reads as values, not only as shapes or indexes."""
    found = set()
    for node in {v.owner: None for v in every if v.owner is not None}:
        found |= set(node.inputs[: VALUE_INPUTS.get(library_class_name(node.op), len(node.inputs))])
    return found


def share_embedded_constants(
    model: pm.Model, sources: Sequence[Source], public: Sequence[Variable] = ()
) -> list[Source]:
    """Replace each private constant of `model` by a shared variable, in place.

    The model is a copy of our own. Constants that are `public` by name become shared variables too,
    as public data are. Returns the same private variables, none of them a constant.
    """
    constants = [(s.variable, s.name) for s in sources if isinstance(s.variable, TensorConstant)]
    shared = {v: _shared_copy(v, name) for v, name in constants}
    replace_constants(model, shared | {v: _shared_copy(v, None) for v in public})
    return [replace(s, variable=shared.get(s.variable, s.variable)) for s in sources]


def replace_constants(model: pm.Model, swaps: Mapping[Variable, Variable]) -> None:
    """Make every node of a model that reads a constant read another variable, in place.

    `swaps` gives for each constant a variable of the same type and value.
    """
    if not swaps:
        return
    roots = [*model.basic_RVs, *model.potentials, *model.deterministics]
    roots += list(model.rvs_to_values.values())
    for variable in ancestors(roots):
        node = variable.owner
        if node is not None:
            for position, read in enumerate(node.inputs):
                if read in swaps:
                    node.inputs[position] = swaps[read]
    for rv, value in list(model.rvs_to_values.items()):
        if value in swaps:
            model.rvs_to_values[rv] = swaps[value]
            model.values_to_rvs[swaps[value]] = model.values_to_rvs.pop(value)


def _shared_copy(constant: Any, name: str | None) -> Variable:
    """A shared variable of the constant's exact type and value."""
    data = np.array(constant.data)
    return pytensor.shared(data, name=name, shape=data.shape)
