"""How the arrays that Bambi bakes into a graph were computed from the variables of a formula."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable
from pymc_private.analysis.traversal__own_names import own_name
from pymc_private.errors import Unsupported
from pymc_private.models.data_variables import candidates, constants_with_axis

Block = Callable[["Variables"], Variable]
"""Writes an array with one row per record from the variables it was computed from."""


@dataclass
class Variables:
    """The variables of a formula.

    Attributes
    ----------
    values : dict of str to array
        By the name the formula uses; codes of categorical ones.
    levels : dict of str to int
        The number of levels of each categorical one.
    shared : dict of str to Variable
        The data variables written into the model so far.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, values: np.ndarray, levels: int | None = None) -> str:
        """Know a variable; a second one of the same name but other entries gets a name."""
        values = np.asarray(values)
        while name in self.values and not np.array_equal(self.values[name], values):
            name += "'"
        self.values[name] = values
        if levels is not None:
            self.levels[name] = levels
        return name

    def column(self, entry: float) -> Variable:
        """A column of one number, as long as there are records."""
        rows = self[next(iter(self.values))].shape[0]
        return pt.full((rows, 1), entry)

    def __getitem__(self, name: str) -> Variable:
        if name not in self.shared:
            values = self.values[name]
            self.shared[name] = pytensor.shared(values, name=data_name(name), shape=values.shape)
        return self.shared[name]


def data_name(name: str) -> str:
    """The data variable that holds a variable of the formula: coefficients have its own name."""
    return f"data[{name}]"


def roots(model: pm.Model) -> list[Variable]:
    """What a model's factors are computed from."""
    return [*model.observed_RVs, *model.potentials, *model.free_RVs]


def blocks_of(
    bambi_model: Any, given: pm.Model, n: int, known: Variables
) -> Iterator[tuple[str, Block]]:
    """How each constant of a model was computed, where that is known."""
    parameters = _either(bambi_model, "parameters", "components")
    components = [c for c in parameters.values() if hasattr(c, "common_terms")]
    arrays = [pair for c in components for pair in _own_arrays(c, known)]
    beside = list(_beside_response(bambi_model))
    constants = constants_with_axis(roots(given), n, [c.variable for c in candidates(given)])
    for name, (constant, _) in constants.items():
        own = [b for v, b in arrays if _is_same_memory(v, constant.data)]
        if own:
            yield name, own[0]
            continue
        if _is_filler(constant, given):
            filled = float(constant.data.flat[0])
            yield name, lambda v, filled=filled: v.column(filled)  # type: ignore[misc]
            continue
        for word, values in beside:
            if _is_parameter(constant, given) and np.array_equal(values, np.squeeze(constant.data)):
                yield name, _one(known.add(word, values))
        for component in components:
            if component.common_terms and _is_design(constant, component, given):
                _refuse_centered(bambi_model, component)
                yield name, _design(component, known)


def _either(model: Any, name: str, former: str) -> Any:
    """An attribute by its name in this generation of Bambi, or in the one before."""
    return getattr(model, name) if hasattr(model, name) else getattr(model, former)


def _is_filler(constant: Any, given: pm.Model) -> bool:
    """Whether a constant is a column of zeros or ones that Bambi writes into categorical families.

    The zeros are the predictor of the reference level; the ones give a predictor its rows.
    """
    shape = np.shape(constant.data)
    if shape[1:] != (1,) or not np.isin(constant.data, (0.0, 1.0)).all():
        return False
    readers = [v.owner for v in ancestors(roots(given)) if v.owner and constant in v.owner.inputs]
    zeros = all(isinstance(node.op, Join) for node in readers) and not np.any(constant.data)
    ones = all(isinstance(node.op, Elemwise) for node in readers) and np.all(constant.data == 1)
    return bool(zeros or ones)


def _is_same_memory(one: np.ndarray, other: np.ndarray) -> bool:
    return one.size == other.size and np.shares_memory(one, other)


def _one(name: str) -> Block:
    """A variable by itself."""
    return lambda variables: variables[name]


def _own_arrays(component: Any, known: Variables) -> Iterator[tuple[np.ndarray, Block]]:
    """Arrays that Bambi puts into the graph as they are: they share its memory."""
    for term in component.offset_terms.values():
        name = known.add(term.name, np.squeeze(term.data))
        yield np.asarray(term.data), _one(name)
    for term in component.group_specific_terms.values():
        factor = term.term.factor
        name = known.add(factor.name, term.group_index, len(term.groups))
        yield np.asarray(term.group_index), _one(name)
        expression, predictor = term.term.expr, np.asarray(term.predictor)
        if type(expression).__name__ == "Intercept":
            yield predictor, lambda v: pt.ones((1,))
        else:
            yield predictor, _product(expression.name, expression.components, predictor, known)


def weights_of(bambi_model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The w of ``weighted(y, w)``, by name."""
    if getattr(_response(bambi_model), "is_weighted", False):
        yield from _beside_response(bambi_model)


def _response(bambi_model: Any) -> Any:
    """The term of the response."""
    term = _either(bambi_model, "response_term", "response_component")
    return getattr(term, "term", term) if not hasattr(term, "family") else term


def _beside_response(bambi_model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """What stands beside the response, as the trials in ``p(y, trials)``; weights."""
    term = _response(bambi_model)
    data = np.asarray(term.term.data)
    call = getattr(term.term.components[0], "call", None)
    names = [str(arg) for arg in getattr(call, "args", ())]
    if data.ndim == 2 and len(names) == data.shape[1]:
        yield from list(zip(names, data.T, strict=True))[1:]


def _is_parameter(constant: Any, given: pm.Model) -> bool:
    """Whether a likelihood takes a constant as a parameter as it is."""
    nodes = {v.owner for v in ancestors(given.observed_RVs) if v.owner is not None}
    return any(constant in node.inputs for node in nodes if isinstance(node.op, RandomVariable))


def _is_design(constant: Any, component: Any, given: pm.Model) -> bool:
    """Whether a constant is multiplied by the coefficients of this component's common terms."""
    wanted = {_label(term) for term in component.common_terms.values()}
    free = {rv: rv.name for rv in given.free_RVs}
    for variable in ancestors(roots(given)):
        node = variable.owner
        if node is None or constant not in node.inputs or not _multiplies(node.op):
            continue
        others = [v for v in node.inputs if v is not constant]
        names = {free[v] for v in ancestors(others, blockers=list(free)) if v in free}
        if names == wanted:
            return True
    return False


def _multiplies(op: Any) -> bool:
    return isinstance(op, Dot) or own_name(op) == "Blockwise"


def _label(term: Any) -> str:
    return term.alias or term.name


def _refuse_centered(bambi_model: Any, component: Any) -> None:
    if bambi_model.center_predictors and component.intercept_term is not None:
        raise Unsupported(
            "Bambi subtracted column means, so each row of the design holds all records",
            got="center_predictors=True",
            allowed="center_predictors=False, or predictors centered at public values",
            do="bmb.Model(..., center_predictors=False); widen the intercept's prior accordingly",
        )


def _design(component: Any, known: Variables) -> Block:
    """All columns, term by term."""
    terms = [
        _product(_label(t), t.term.components, np.asarray(t.data), known)
        for t in component.common_terms.values()
    ]

    def write(variables: Variables) -> Variable:
        blocks = [block(variables) for block in terms]
        return pt.concatenate([b if b.type.ndim == 2 else b[:, None] for b in blocks], axis=1)

    return write


def _product(label: str, parts: Sequence[Any], data: np.ndarray, known: Variables) -> Block:
    """A term as the product of its variables; as one variable of its own if that is not it."""
    factors = [_factor(part, known) for part in parts]
    if all(factor is not None for factor in factors):
        columns = [factor[0] for factor in factors if factor is not None]
        if np.array_equal(np.squeeze(_columnwise(columns)), np.squeeze(data)):
            blocks = [factor[1] for factor in factors if factor is not None]
            flat = data.ndim == 1
            return lambda v: _columnwise([block(v) for block in blocks])[
                (slice(None), 0) if flat else ...
            ]
    return _one(known.add(label, np.squeeze(data)))


def _factor(part: Any, known: Variables) -> tuple[np.ndarray, Block] | None:
    """The columns of one variable, and how to write them."""
    values = np.asarray(part.value)
    if part.kind == "numeric":
        values = values.astype(float)
        return values, _one(known.add(part.name, values))
    table = getattr(getattr(part, "contrast_matrix", None), "matrix", None)
    if part.kind != "categoric" or table is None:
        return None
    table, rows = np.asarray(table, float), values.reshape(len(values), -1).astype(float)
    if table.shape[1] != rows.shape[1] or len(np.unique(table, axis=0)) < len(table):
        return None
    codes = np.abs(rows[:, None, :] - table[None]).sum(axis=2).argmin(axis=1)
    if not np.array_equal(table[codes], rows):
        return None
    name = known.add(part.name, codes, len(table))
    return rows, lambda v: pt.constant(table)[v[name]]


def _columnwise(blocks: Sequence[Any]) -> Any:
    """Products of columns; the last block's columns run fastest, as in formulae."""
    whole = None
    for block in blocks:
        block = block if block.ndim == 2 else block[:, None]
        if whole is None:
            whole = block
            continue
        pair = whole[:, :, None] * block[:, None, :]
        whole = pair.reshape((pair.shape[0], -1))
    return whole
