"""Private variables of a model: where the data sit, what their supports imply, what is missing."""

from __future__ import annotations

import numpy as np
import pymc as pm
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant
from pymc_private.analysis import Interval as Bounds
from pymc_private.errors import DomainError
from pymc_private.models.domains import Categories, Domain
from pymc_private.models.distributions__laws import casts_of, is_constant, law_name

@dataclass(frozen=True, eq=False)
class Source:
    """One private variable.

    Parameters
    ----------
    name : str
        Name of the data variable, of the observed variable, or of a baked-in constant.
    aliases : tuple of str
        Other names a user may know it by.
    variable : Variable
        The shared variable or constant in the model's graph.
    axis : int
        Its records axis.
    shape : tuple of int
        Of the whole array.
    domain : Domain
        All that one record's entry could be.
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

    def input(self) -> Variable:
        """A fresh symbolic input of any length along the records axis."""
        static = [1 if size == 1 and i != self.axis else None for i, size in enumerate(self.shape)]
        kind = self.variable.type.clone(shape=tuple(static))
        return kind(name=self.name)

    def of_any_length(self) -> Variable:
        """An input that may be of any length along the records axis; other axes are as they are."""
        static = [None if i == self.axis else size for i, size in enumerate(self.shape)]
        return self.variable.type.clone(shape=tuple(static))(name=self.name)

    def stand_in(self, rows: int | None = None) -> np.ndarray:
        """Any array inside the domain, of so many rows (default: the model's); holds no data."""
        row = np.expand_dims(self.domain.corners(self.row_shape)[0], self.axis)
        shape = list(self.shape)
        shape[self.axis] = shape[self.axis] if rows is None else rows
        whole = np.broadcast_to(row, shape)
        return np.ascontiguousarray(whole).astype(self.dtype)

    def stack(self, rows: Sequence[Bounds]) -> Bounds:
        """Bounds of several records, stacked along the records axis."""
        lower = np.stack([np.broadcast_to(r.lower, self.row_shape) for r in rows], axis=self.axis)
        # A stack of points is exact: integers stay usable as indexes.
        exact = all(r.is_point for r in rows)
        upper = (
            lower
            if exact
            else np.stack([np.broadcast_to(r.upper, self.row_shape) for r in rows], axis=self.axis)
        )
        last = self.axis < len(self.shape) - 1
        return Bounds(lower, upper, rows[0].within if last and _same(rows) else None)

    def values(self) -> np.ndarray:
        """The data. Read by `privatize` and by a charged draw only."""
        variable: Any = self.variable
        return variable.get_value() if hasattr(variable, "get_value") else variable.data


def _same(rows: Sequence[Bounds]) -> bool:
    """Whether what is known of the rows is one and the same fact."""
    return all(r.within is rows[0].within for r in rows)


@dataclass(frozen=True, eq=False)
class Candidate:
    """An array of the model that may be private."""

    name: str
    aliases: tuple[str, ...]
    variable: Variable
    dims: tuple[str | None, ...]
    shape: tuple[int, ...]
    implied: Domain | None
    kind: str


def candidates(model: pm.Model) -> list[Candidate]:
    """Every data variable and observed array of the model, each once."""
    readers: dict[Variable, list[Variable]] = {}
    for rv in model.observed_RVs:
        readers.setdefault(root(model.rvs_to_values[rv]), []).append(rv)
    found = {variable: _observed(model, variable, rvs) for variable, rvs in readers.items()}
    for variable in model.data_vars:
        if variable not in found:
            dims = model.named_vars_to_dims.get(variable.name) or ()
            found[variable] = Candidate(
                variable.name, (), variable, tuple(dims), _shape(variable), None, "data"
            )
    return list(found.values())


def _observed(model: pm.Model, variable: Variable, rvs: Sequence[Variable]) -> Candidate:
    """An array that likelihoods observe: one candidate under all of its names."""
    names = [rv.name for rv in rvs]
    name = variable.name if variable.name in model.named_vars else names[0]
    aliases = tuple(sorted(set(names) - {name}))
    dims = next((d for d in map(model.named_vars_to_dims.get, (name, *names)) if d), ())
    plain = [rv for rv in rvs if _is_told(model.rvs_to_values[rv], variable)]
    implied = next((d for d in map(implied_support, plain) if d is not None), None)
    return Candidate(name, aliases, variable, tuple(dims), _shape(variable), implied, "observed")


def root(value: Variable) -> Variable:
    """The array behind a value variable (PyMC puts a Cast above integer `pm.Data`)."""
    while value.owner is not None:
        inputs = value.owner.inputs
        value = next((v for v in inputs if not is_constant(v)), inputs[0])
    return value


def _is_told(value: Variable, variable: Variable) -> bool:
    """Whether the support of observed values is that of the array: it is that, at most widened."""
    casts = casts_of(value, variable)
    sizes = [np.dtype(kind).itemsize for kind in (variable.type.dtype, *(casts or ()))]
    return casts is not None and sizes == sorted(sizes)


def _shape(variable: Any) -> tuple[int, ...]:
    if hasattr(variable, "get_value"):
        return tuple(variable.get_value(borrow=True).shape)
    return tuple(np.shape(variable.data))


MOST_IMPLIED = 1000
"""Values of a uniform law that are taken for categories."""


def implied_support(rv: Variable) -> Domain | None:
    """A finite support that the likelihood itself states."""
    name = law_name(rv)
    if name == "BernoulliRV":
        return Categories([0, 1])
    if name not in ("CategoricalRV", "BinomialRV", "BetaBinomialRV", "DiscreteUniformRV"):
        return None
    parameters = rv.owner.op.dist_params(rv.owner)
    if name == "DiscreteUniformRV":
        first, last = (_public_number(end) for end in parameters)
        if first is None or last is None or not 0 <= last - first <= MOST_IMPLIED:
            return None
        return Categories(range(int(first), int(last) + 1))
    if name == "CategoricalRV":
        levels = parameters[0].type.shape[-1]
        return None if levels is None else Categories(range(levels))
    if name in ("BinomialRV", "BetaBinomialRV"):
        trials = _public_number(parameters[0])
        return None if trials is None else Categories(range(int(trials) + 1))
    return None


def _public_number(variable: Variable) -> float | None:
    """The one number that single constants amount to, or None.

    An array may belong to the records, so what it holds must imply nothing.
    """
    arrays = [v for v in ancestors([variable]) if isinstance(v, TensorConstant)]
    return constant_value(variable) if all(v.data.size == 1 for v in arrays) else None


def constant_value(variable: Variable) -> float | None:
    """The one number a graph of constants holds, or None."""
    from pymc_private.analysis.record_dependence import Concrete

    leaves = [v for v in ancestors([variable]) if v.owner is None]
    if not all(isinstance(leaf, Constant) for leaf in leaves):
        return None
    values = np.unique(np.asarray(Concrete({})(variable)))
    return float(values[0]) if values.size == 1 else None


def constants_with_axis(
    outs: Iterable[Variable], n: int, skip: Iterable[Variable]
) -> dict[str, tuple[TensorConstant, int]]:
    """Arrays baked into the graph that have an axis as long as the records axis.

    Names are stable: ``constant_0``, ``constant_1``, ... in the order of the graph. Inner graphs
    (a Scan, an OpFromGraph) are searched too: see `is_within`.
    """
    skipped = set(skip)
    found: dict[str, tuple[TensorConstant, int]] = {}
    for variable in every_ancestor(outs):
        if not isinstance(variable, TensorConstant) or variable in skipped or n < 2:
            continue
        axes = [axis for axis, size in enumerate(np.shape(variable.data)) if size == n]
        if axes:
            found[f"constant_{len(found)}"] = (variable, axes[0])
    return found


def every_ancestor(outs: Iterable[Variable]) -> Iterator[Variable]:
    """Ancestors, then those in the inner graphs of the Ops met."""
    own = list(dict.fromkeys(ancestors(list(outs))))
    yield from own
    inner = {v.owner.op: None for v in own if v.owner and isinstance(v.owner.op, HasInnerGraph)}
    for op in inner:
        yield from every_ancestor(op.inner_outputs)


def plain_shared(outs: Iterable[Variable], known: Iterable[Variable]) -> list[Any]:
    """Arrays in shared variables that are not `known`, no random state, and no lone number."""
    skipped = set(known)
    return [
        v
        for v in every_ancestor(outs)
        if hasattr(v, "get_value")
        and isinstance(v.type, TensorType)
        and v not in skipped
        and np.size(v.get_value(borrow=True)) > 1
    ]


def is_within(variable: Variable, outs: Iterable[Variable]) -> bool:
    """Whether the graph itself reads a variable, not only an inner graph of one of its Ops."""
    return variable in set(ancestors(list(outs)))


def listing(found: Sequence[Candidate], records: str | None, given: Mapping[str, object]) -> str:
    """What the model reads, and a snippet to paste: shapes and supports, never values."""
    lines = ["data variables of the model:"]
    wanted = []
    for c in found:
        implied = f"implied support {c.implied}" if c.implied else "no implied bound"
        lines.append(f"    {c.name}  shape {c.shape}  dims {c.dims or '()'}  {c.kind}; {implied}")
        if c.implied is None and not {c.name, *c.aliases} & set(given):
            wanted.append(f'"{c.name}": pmp.Interval(..., ...)')
    snippet = ", ".join(wanted) or "..."
    lines.append("paste and fill in:")
    dim = f'"{records}"' if records else "..."
    lines.append(f"    pmp.privatize(model, records={dim}, domain={{{snippet}}})")
    return "\n  ".join(lines)


def missing_domain(
    found: Sequence[Candidate],
    names: Sequence[str],
    records: str | None,
    given: Mapping[str, object],
) -> DomainError:
    """The error for private variables without a domain."""
    constants = [c.name for c in found if c.kind == CONSTANT]
    return DomainError(
        "a private variable has no declared domain" if names else "say what one record is",
        got=", ".join(names) or None,
        allowed=listing(found, records, given),
        do="declare every value a record could have; take it from the questionnaire or the "
        f"instrument, never from the data{_by_length(constants)}",
    )


CONSTANT = "constant"
"""The kind of an array that was written into the graph."""


def _by_length(constants: Sequence[str]) -> str:
    """How constants came to be taken for data of records, and what to do where they are none."""
    if not constants:
        return ""
    return (
        f". {', '.join(constants)}: an array written into the model, taken for data of the records "
        "by its length alone; if it holds nothing of them, say "
        f"public={list(constants)}"
    )
