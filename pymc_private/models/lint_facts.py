"""Facts that lint rules read: columns of private arrays and numbers in a model.

Reads the model and its data, and changes neither. Shapes and indexes are not numbers of a model.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
from pymc.distributions.custom import CustomDistRV
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.op import HasInnerGraph
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type import TensorType

from pymc_private.analysis.traversal import library_class_name
from pymc_private.models.bambi import is_bambi_model
from pymc_private.models.data_variables import (
    VALUE_INPUTS,
    array_candidates,
    constants_with_axis,
    factor_variables,
    undeclared_shared_arrays,
    underlying_array,
)
from pymc_private.models.declare import record_count, records_axes
from pymc_private.models.private_model import PrivateModel

MOST_COLUMNS = 500
"""Most columns of one array that are examined."""
MOST_NUMBERS = 1000
"""Most entries of one array without the records axis that are examined."""
LINT_VALUE_INPUTS = VALUE_INPUTS | {
    "Alloc": 1,
    "AllocEmpty": 0,
    "ARange": 0,
    "BroadcastTo": 1,
    "Eye": 0,
    "SpecifyShape": 1,
}
"""How many leading inputs of an Op are values in which numbers of a model are looked for."""


@dataclass(frozen=True)
class Finding:
    """A part of a model that looks computed from the data.

    Parameters
    ----------
    rule : str
        Name of the rule.
    severity : {"warning", "hint"}
        A warning would void the guarantee if true; a hint may well be innocent.
    where : str
        The variable or array concerned.
    message : str
        What was found, without any number of the data.
    fix : str
        What to write instead.
    """

    rule: str
    severity: str
    where: str
    message: str
    fix: str


@dataclass(frozen=True, eq=False)
class DataColumn:
    """One column of an array with the records axis, or such an array as a whole."""

    name: str
    values: np.ndarray
    array: Variable
    observed: bool
    private: bool

    @property
    def finite(self) -> np.ndarray:
        """The finite values."""
        return self.values[np.isfinite(self.values)]


@dataclass(frozen=True)
class EmbeddedNumber:
    """A number written into the model, and the factor or array that it is in."""

    where: str
    value: float
    whole: bool


@dataclass(frozen=True, eq=False)
class LintFacts:
    """All that the rules of `lint` may read.

    Parameters
    ----------
    original : pymc.Model, Bambi model or PrivateModel
        The argument of `lint`.
    model : pymc.Model
    n : int
        Number of records.
    columns : list of Column
        Columns of arrays with the records axis.
    arrays : list of Column
        The arrays with several columns, each as a whole.
    numbers : list of Number
    public : frozenset of float
        Numbers of the declared domains.
    """

    original: Any
    model: pm.Model
    n: int
    columns: list[DataColumn]
    arrays: list[DataColumn]
    numbers: list[EmbeddedNumber]
    public: frozenset[float]

    @property
    def is_bambi(self) -> bool:
        """Whether a Bambi model was given."""
        return is_bambi_model(self.original)


def collect_facts(
    original: Any, model: pm.Model, records: str | Mapping[str, int] | None
) -> LintFacts:
    """Read the model and its data; changes neither."""
    if isinstance(original, PrivateModel):
        n = original.n
        axes = {s.variable: s.axis for s in original.sources}
        public = frozenset(_declared_numbers(original))
    else:
        n, axes = _records_axis(model, records)
        public = frozenset()
    arrays = _arrays(model, n, axes, isinstance(original, PrivateModel))
    columns = [column for array in arrays for column in _data_columns(array)]
    whole = [_whole_array(array) for array in arrays if np.size(held_values(array.variable)) > n]
    numbers = list(_embedded_numbers(model, {array.variable for array in arrays}))
    return LintFacts(original, model, n, columns, whole, numbers, public)


@dataclass(frozen=True, eq=False)
class _RecordsArray:
    """An array with the records axis."""

    name: str
    variable: Variable
    axis: int
    observed: bool
    private: bool


def _records_axis(
    model: pm.Model, records: str | Mapping[str, int] | None
) -> tuple[int, dict[Variable, int]]:
    """The number of records, and the records axis of each declared array."""
    found = array_candidates(model)
    if records is not None:
        axes = records_axes(found, records, model)
        return record_count(axes, found), {c.variable: a for c, a in axes.items()}
    observed = [size for c in found if c.kind == "observed" for size in c.shape]
    return max(observed or [size for c in found for size in c.shape], default=0), {}


def _arrays(
    model: pm.Model, n: int, axes: Mapping[Variable, int], only_named: bool
) -> list[_RecordsArray]:
    """Every numeric array with the records axis, by name."""
    found = array_candidates(model)
    known = [c.variable for c in found]
    seen = {underlying_array(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    named = [(c.name, c.variable, c.shape) for c in found]
    embedded = constants_with_axis(factor_variables(model), n, known)  # names as in privatize
    named += [(name, v, np.shape(v.data)) for name, (v, _) in embedded.items()]
    named += [
        (v.name or f"shared_{i}", v, held_values(v).shape)
        for i, v in enumerate(undeclared_shared_arrays(model_factors(model), known))
    ]
    return [
        _RecordsArray(name, v, axes.get(v, shape.index(n)), v in seen, v in axes or not only_named)
        for name, v, shape in named
        if n > 1 and n in shape and held_values(v).dtype.kind in "biuf"
    ]


def _data_columns(array: _RecordsArray) -> Iterator[DataColumn]:
    values = np.moveaxis(held_values(array.variable), array.axis, 0).astype(float)
    flat = values.reshape(len(values), -1)
    single = flat.shape[1] == 1
    for j in range(min(flat.shape[1], MOST_COLUMNS)):
        name = f"'{array.name}'" if single else f"column {j} of '{array.name}'"
        yield DataColumn(name, flat[:, j], array.variable, array.observed, array.private)


def _whole_array(array: _RecordsArray) -> DataColumn:
    values = held_values(array.variable).astype(float).ravel()
    name = f"'{array.name}' as a whole"
    return DataColumn(name, values, array.variable, array.observed, array.private)


def held_values(variable: Any) -> np.ndarray:
    """The values of a shared variable or of a constant."""
    held = variable.get_value(borrow=True) if hasattr(variable, "get_value") else variable.data
    return np.asarray(held)


def _declared_numbers(private: PrivateModel) -> Iterator[float]:
    """Bounds, middle and half the width of each declared domain."""
    for source in private.sources:
        corners = np.stack(source.domain.corners(source.row_shape)).astype(float)
        low, high = corners.min(axis=0), corners.max(axis=0)
        for values in (corners, (high - low) / 2, (high + low) / 2):
            yield from np.unique(values).tolist()


def model_factors(model: pm.Model) -> list[Variable]:
    """The variables of all factors, in the order of their titles in `_embedded_numbers`."""
    return [*model.free_RVs, *model.observed_RVs, *model.potentials]


def _embedded_numbers(model: pm.Model, arrays: set[Variable]) -> Iterator[EmbeddedNumber]:
    """Numbers in priors, likelihoods and potentials, each with the first factor that reads it."""
    titles = [f"the prior of '{rv.name}'" for rv in model.free_RVs]
    titles += [f"the likelihood of '{rv.name}'" for rv in model.observed_RVs]
    titles += [f"the potential '{rv.name}'" for rv in model.potentials]
    factors = model_factors(model)
    seen: set[Variable] = set()
    for factor, title in zip(factors, titles, strict=True):
        for graph in (factor, *_written_logp(factor)):
            for leaf in value_leaves(graph, set(factors) - {factor}, seen):
                if leaf not in arrays:
                    yield from _leaf_numbers(leaf, title)


def _written_logp(factor: Variable) -> list[Variable]:
    """The log-density that a user wrote for a pm.CustomDist, which holds numbers of its own."""
    if factor.owner is None or not isinstance(factor.owner.op, CustomDistRV):
        return []
    try:
        return [pm.logp(factor, factor.type())]
    except NotImplementedError:  # only a sampler was given: such a model cannot be fitted
        return []


def _leaf_numbers(leaf: Any, title: str) -> Iterator[EmbeddedNumber]:
    """The numbers of one leaf; arrays of several integers count as indexes."""
    values = held_values(leaf)
    if values.dtype.kind not in "iuf" or values.size > MOST_NUMBERS:
        return
    whole = values.dtype.kind != "f"
    if whole and values.size > 1:
        return
    where = title if isinstance(leaf, Constant) or not leaf.name else f"'{leaf.name}', in {title}"
    for value in np.unique(values[np.isfinite(values)]):
        yield EmbeddedNumber(where, float(value), whole)


def value_leaves(out: Variable, stops: set[Variable], seen: set[Variable]) -> Iterator[Variable]:
    """Constants and shared arrays that a graph reads as values, inner graphs included."""
    todo: list[Variable] = [out]
    while todo:
        variable = todo.pop()
        if variable in seen or variable in stops:
            continue
        seen.add(variable)
        if variable.owner is not None:
            todo += _value_inputs(variable.owner)
            if isinstance(variable.owner.op, HasInnerGraph):
                todo += variable.owner.op.inner_outputs
        elif isinstance(variable.type, TensorType) and (
            hasattr(variable, "data") or hasattr(variable, "get_value")
        ):
            yield variable


def _value_inputs(node: Any) -> Sequence[Variable]:
    if isinstance(node.op, RandomVariable):
        return list(node.op.dist_params(node))
    if library_class_name(node.op) == "Scan":
        return list(node.inputs[1:])
    return list(node.inputs[: LINT_VALUE_INPUTS.get(library_class_name(node.op))])


def list_column_names(columns: Iterable[DataColumn]) -> str:
    """Names of the first few columns."""
    names = list(dict.fromkeys(column.name for column in columns))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
