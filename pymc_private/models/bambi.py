"""Bambi models with the variables of their formula as named data.

Bambi computes a design matrix, group indexes and offsets before the PyMC model exists, and writes
them into it as constants. Here each is built again from the variables it was computed from: a
numeric variable is its column; a categorical one its codes, which pick rows of a public table of
contrasts; an interaction is a product. So a domain is declared by the name the formula uses, and
what a variable does in several terms is known to be one and the same.

The weights w of ``weighted(y, w) ~ ...``, with log p of a record w log p(y), are a special case:
Bambi keeps the whole column inside the code of a density, where no graph of the model shows it. The
density is written once as a graph, and the column that stands in it becomes a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.custom import CustomSymbolicDistRV
from pymc.logprob.abstract import _logprob
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors
from pytensor.tensor.basic import Join
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.type import RandomType
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorConstant

from pymc_private.analysis.traversal import library_class_name, rebuild
from pymc_private.errors import Unsupported
from pymc_private.models.compat import copy_model
from pymc_private.models.data_variables import (
    array_candidates,
    constants_with_axis,
    factor_variables,
    replace_constants,
)
from pymc_private.models.domains import Categories, Domain

RECORDS_DIM = "__obs__"
"""Bambi's records dim."""


@dataclass(frozen=True)
class FormulaModel:
    """A copy of a PyMC model whose data variables are those of a formula.

    Parameters
    ----------
    model : pymc.Model
    initvals : dict
        Starts that the model states.
    names : dict of str to str
        The data variable of each variable of the formula.
    domains : dict of str to Domain
        Domains of categorical variables, by the data variable: the codes of their levels.
    """

    model: pm.Model
    initvals: Mapping[str, Any]
    names: Mapping[str, str]
    domains: Mapping[str, Domain]

    @property
    def claims(self) -> list[str]:
        """Assumptions that are taken on trust."""
        return [
            f"the levels of '{n}' are public" for n, d in self.names.items() if d in self.domains
        ]


def is_bambi_model(model: Any) -> bool:
    """Whether a model is Bambi's: the one of a formula, not what it was built into."""
    kind = type(model)
    return kind.__module__.split(".")[0] == "bambi" and hasattr(model, "formula")


def name_formula_variables(bambi_model: Any, pymc_model: pm.Model) -> FormulaModel:
    """The PyMC model that was built from a Bambi model, with the formula's variables as data.

    Constants that are not recognized remain constants, and need domains of their own. Predictors
    that Bambi centered are refused: each row holds a mean over all records.
    """
    copy, initvals = copy_model(pymc_model)
    n = len(pymc_model.coords.get(RECORDS_DIM, ()))
    known = FormulaVariables()
    builders = dict(array_builders(bambi_model, pymc_model, n, known))
    constants = constants_with_axis(
        factor_variables(copy), n, [c.variable for c in array_candidates(copy)]
    )
    swaps: dict[Variable, Variable] = {}
    for name, (constant, _) in constants.items():
        if name in builders:
            built = _matched_to_constant(builders[name](known), constant)
            if built is not None:
                swaps[constant] = built
    replace_constants(copy, swaps)
    for name, values in likelihood_weights(bambi_model):
        expose_weights(copy, values, lambda n=name, v=values: known[known.add(n, v)])  # type: ignore[misc]
    read = set(ancestors(factor_variables(copy)))
    used = {name: v for name, v in known.shared.items() if v in read}
    for variable in used.values():
        copy.register_data_var(variable, dims=_data_dims(copy, variable))
    domains = {
        data_name(name): Categories(range(known.levels[name]))
        for name in used
        if name in known.levels
    }
    return FormulaModel(copy, initvals, {name: data_name(name) for name in used}, domains)


ArrayBuilder = Callable[["FormulaVariables"], Variable]
"""Builds an array with one row per record from the variables it was computed from."""


@dataclass
class FormulaVariables:
    """The variables of a formula.

    Attributes
    ----------
    values : dict of str to array
        Values by the name that the formula uses; codes of categorical variables.
    levels : dict of str to int
        The number of levels of each categorical variable.
    shared : dict of str to Variable
        The data variables built so far.
    """

    values: dict[str, np.ndarray] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    shared: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, values: np.ndarray, levels: int | None = None) -> str:
        """Add a variable, under a longer name if another one has its name; returns the name."""
        values = np.asarray(values)
        while name in self.values and not np.array_equal(self.values[name], values):
            name += "'"
        self.values[name] = values
        if levels is not None:
            self.levels[name] = levels
        return name

    def column(self, entry: float) -> Variable:
        """A column of one number, of the length of the records axis."""
        rows = self[next(iter(self.values))].shape[0]
        return pt.full((rows, 1), entry)

    def __getitem__(self, name: str) -> Variable:
        if name not in self.shared:
            values = self.values[name]
            self.shared[name] = pytensor.shared(values, name=data_name(name), shape=values.shape)
        return self.shared[name]


def data_name(name: str) -> str:
    """Name of the data variable of a variable of the formula, whose own name a coefficient has."""
    return f"data[{name}]"


def formula_name(name: str) -> str:
    """The variable of a formula that a data variable of this name holds; "" if it is another."""
    return name[5:-1] if name.startswith("data[") and name.endswith("]") else ""


def offset_names(names: Mapping[str, str]) -> dict[str, str]:
    """The data variable of each offset by what stands in its brackets: x of ``offset(x)``."""
    pairs = ((re.fullmatch(r"offset\((.*)\)", name), data) for name, data in names.items())
    return {found[1]: data for found, data in pairs if found}


def _data_dims(model: pm.Model, variable: Variable) -> tuple[str, ...]:
    """The records dim and one for each further axis: PyMC copies no model with nameless dims."""
    sizes = {f"{variable.name}_dim_{k}": size for k, size in enumerate(variable.type.shape) if k}
    for name, size in sizes.items():
        model.add_coord(name, length=size)
    return (RECORDS_DIM, *sizes)


def _matched_to_constant(built: Variable, constant: Any) -> Variable | None:
    """A built array in the shape and type of the constant, or None if their values differ."""
    shape = np.shape(constant.data)
    if built.type.ndim < len(shape):
        built = pt.expand_dims(built, tuple(range(built.type.ndim, len(shape))))
    built = pt.cast(built, constant.type.dtype)
    if not np.array_equal(np.broadcast_to(built.eval(), shape), constant.data):
        return None
    return built if built.type.shape == shape else pt.broadcast_to(built, shape)


def array_builders(
    bambi_model: Any, pymc_model: pm.Model, n: int, known: FormulaVariables
) -> Iterator[tuple[str, ArrayBuilder]]:
    """Builders of the constants of a model whose computation is recognized, by name."""
    parameters = _versioned_attribute(bambi_model, "parameters", "components")
    components = [c for c in parameters.values() if hasattr(c, "common_terms")]
    arrays = [pair for c in components for pair in _shared_memory_builders(c, known)]
    arguments = list(_response_arguments(bambi_model))
    constants = constants_with_axis(
        factor_variables(pymc_model), n, [c.variable for c in array_candidates(pymc_model)]
    )
    for name, (constant, _) in constants.items():
        own = [b for v, b in arrays if _is_same_memory(v, constant.data)]
        if own:
            yield name, own[0]
            continue
        if _is_filler(constant, pymc_model):
            filled = float(constant.data.flat[0])
            yield name, lambda v, filled=filled: v.column(filled)  # type: ignore[misc]
            continue
        for argument, values in arguments:
            if _is_likelihood_parameter(constant, pymc_model) and np.array_equal(
                values, np.squeeze(constant.data)
            ):
                yield name, _build_variable(known.add(argument, values))
        for component in components:
            if component.common_terms and _is_design_matrix(constant, component, pymc_model):
                _refuse_centered(bambi_model, component)
                yield name, _build_design(component, known)


def _shared_memory_builders(
    component: Any, known: FormulaVariables
) -> Iterator[tuple[np.ndarray, ArrayBuilder]]:
    """Arrays that Bambi puts into the graph without a copy, recognized by their memory."""
    for term in component.offset_terms.values():
        name = known.add(term.name, np.squeeze(term.data))
        yield np.asarray(term.data), _build_variable(name)
    for term in component.group_specific_terms.values():
        factor = term.term.factor
        name = known.add(factor.name, term.group_index, len(term.groups))
        yield np.asarray(term.group_index), _build_variable(name)
        expression, predictor = term.term.expr, np.asarray(term.predictor)
        if type(expression).__name__ == "Intercept":
            yield predictor, lambda v: pt.ones((1,))
        else:
            parts = expression.components
            yield predictor, _build_product(expression.name, parts, predictor, known)


def _is_same_memory(one: np.ndarray, other: np.ndarray) -> bool:
    return one.size == other.size and np.shares_memory(one, other)


def _is_filler(constant: Any, pymc_model: pm.Model) -> bool:
    """Whether a constant is a column of zeros or ones that Bambi writes into categorical families.

    The zeros are the predictor of the reference level; the ones give a predictor its rows.
    """
    shape = np.shape(constant.data)
    if shape[1:] != (1,) or not np.isin(constant.data, (0.0, 1.0)).all():
        return False
    readers = [
        v.owner
        for v in ancestors(factor_variables(pymc_model))
        if v.owner and constant in v.owner.inputs
    ]
    zeros = all(isinstance(node.op, Join) for node in readers) and not np.any(constant.data)
    ones = all(isinstance(node.op, Elemwise) for node in readers) and np.all(constant.data == 1)
    return bool(zeros or ones)


def _is_likelihood_parameter(constant: Any, pymc_model: pm.Model) -> bool:
    """Whether a constant is itself a parameter of a likelihood."""
    nodes = {v.owner for v in ancestors(pymc_model.observed_RVs) if v.owner is not None}
    return any(constant in node.inputs for node in nodes if isinstance(node.op, RandomVariable))


def _is_design_matrix(constant: Any, component: Any, pymc_model: pm.Model) -> bool:
    """Whether a constant is multiplied by the coefficients of this component's common terms."""
    wanted = {_term_label(term) for term in component.common_terms.values()}
    free = {rv: rv.name for rv in pymc_model.free_RVs}
    for variable in ancestors(factor_variables(pymc_model)):
        node = variable.owner
        if node is None or constant not in node.inputs or not _is_matrix_product(node.op):
            continue
        others = [v for v in node.inputs if v is not constant]
        names = {free[v] for v in ancestors(others, blockers=list(free)) if v in free}
        if names == wanted:
            return True
    return False


def _is_matrix_product(op: Any) -> bool:
    return isinstance(op, Dot) or library_class_name(op) == "Blockwise"


def _refuse_centered(bambi_model: Any, component: Any) -> None:
    if bambi_model.center_predictors and component.intercept_term is not None:
        raise Unsupported(
            "Bambi subtracted column means, so each row of the design holds all records",
            got="center_predictors=True",
            allowed="center_predictors=False, or predictors centered at public values",
            do="bmb.Model(..., center_predictors=False); widen the intercept's prior accordingly",
        )


def _build_variable(name: str) -> ArrayBuilder:
    """The builder of a variable by itself."""
    return lambda variables: variables[name]


def _build_design(component: Any, known: FormulaVariables) -> ArrayBuilder:
    """The builder of a design matrix, term by term."""
    terms = [
        _build_product(_term_label(t), t.term.components, np.asarray(t.data), known)
        for t in component.common_terms.values()
    ]

    def build(variables: FormulaVariables) -> Variable:
        blocks = [term(variables) for term in terms]
        return pt.concatenate([b if b.type.ndim == 2 else b[:, None] for b in blocks], axis=1)

    return build


def _build_product(
    label: str, parts: Sequence[Any], data: np.ndarray, known: FormulaVariables
) -> ArrayBuilder:
    """The builder of a term as a product of its variables, or else as a variable of its own."""
    factors = [_build_factor(part, known) for part in parts]
    if all(factor is not None for factor in factors):
        columns = [factor[0] for factor in factors if factor is not None]
        if np.array_equal(np.squeeze(_row_kronecker(columns)), np.squeeze(data)):
            builders = [factor[1] for factor in factors if factor is not None]
            index = (slice(None), 0) if data.ndim == 1 else ...
            return lambda v: _row_kronecker([build(v) for build in builders])[index]
    return _build_variable(known.add(label, np.squeeze(data)))


def _build_factor(part: Any, known: FormulaVariables) -> tuple[np.ndarray, ArrayBuilder] | None:
    """The columns of one variable and their builder; None where they are not recognized."""
    values = np.asarray(part.value)
    if part.kind == "numeric":
        values = values.astype(float)
        return values, _build_variable(known.add(part.name, values))
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


def _row_kronecker(blocks: Sequence[Any]) -> Any:
    """Row-wise Kronecker product; the last block's columns vary fastest, as in formulae."""
    whole = None
    for block in blocks:
        block = block if block.ndim == 2 else block[:, None]
        if whole is None:
            whole = block
            continue
        pair = whole[:, :, None] * block[:, None, :]
        whole = pair.reshape((pair.shape[0], -1))
    return whole


def _term_label(term: Any) -> str:
    return term.alias or term.name


def _response_term(bambi_model: Any) -> Any:
    """The term of the response."""
    term = _versioned_attribute(bambi_model, "response_term", "response_component")
    return getattr(term, "term", term) if not hasattr(term, "family") else term


def _response_arguments(bambi_model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Further arguments of the response: the trials in ``p(y, trials)``, weights."""
    term = _response_term(bambi_model)
    data = np.asarray(term.term.data)
    call = getattr(term.term.components[0], "call", None)
    names = [str(arg) for arg in getattr(call, "args", ())]
    if data.ndim == 2 and len(names) == data.shape[1]:
        yield from list(zip(names, data.T, strict=True))[1:]


def _versioned_attribute(model: Any, name: str, former: str) -> Any:
    """An attribute by its name in this generation of Bambi, or in the one before."""
    return getattr(model, name) if hasattr(model, name) else getattr(model, former)


def stateful_terms(bambi_model: Any) -> list[str]:
    """Terms with a state computed from the data: scale(x), bs(x), hsgp(x), ...

    Each of their rows holds a mean, a range or knots of all records, unless these were given.
    """
    return [
        term
        for term, pieces in _formula_terms(bambi_model)
        if any(
            getattr(getattr(piece, "call", None), "stateful_transform", None) is not None
            for piece in pieces
        )
    ]


def likelihood_parameters(bambi_model: Any) -> dict[str, Any]:
    """Parameters of the likelihood; Bambi called them components before 0.18."""
    return getattr(bambi_model, "parameters", None) or bambi_model.components


def automatic_priors(bambi_model: Any) -> Iterator[tuple[str, Any]]:
    """Terms with their priors that Bambi scaled by means and standard deviations of the data."""
    for name, part in likelihood_parameters(bambi_model).items() if bambi_model.auto_scale else ():
        for term, holder in getattr(part, "terms", {name: part}).items():
            prior = getattr(holder, "prior", None)
            if getattr(prior, "auto_scale", False):
                yield term, prior


def _formula_terms(bambi_model: Any) -> Iterator[tuple[str, list[Any]]]:
    """Each term of the formula with its components, the response last."""
    for part in likelihood_parameters(bambi_model).values():
        for name, holder in getattr(part, "terms", {}).items():
            yield name, _term_components(getattr(holder, "term", None))
    response = getattr(bambi_model, "response_term", None) or bambi_model.response_component.term
    yield response.name, _term_components(getattr(response.term, "term", response.term))


def _term_components(term: Any) -> list[Any]:
    """Variables and calls of a term; a group-specific one has an expression and a factor."""
    sides = (term, getattr(term, "expr", None), getattr(term, "factor", None))
    return [piece for side in sides for piece in getattr(side, "components", None) or []]


Density = Callable[..., Variable]
"""log p of value, weights and parameters."""


def likelihood_weights(bambi_model: Any) -> Iterator[tuple[str, np.ndarray]]:
    """The w of ``weighted(y, w)``, by name."""
    if getattr(_response_term(bambi_model), "is_weighted", False):
        yield from _response_arguments(bambi_model)


def expose_weights(model: pm.Model, values: np.ndarray, weights: Callable[[], Variable]) -> None:
    """Turn the column of weights in a density into a parameter of the distribution, in place.

    The distributions of `model` keep their names, data and draws. `values` is the column, and
    `weights`, called only where it is needed, gives a variable that holds it.
    """
    for rv in list(model.observed_RVs):
        if isinstance(rv.owner.op, CustomSymbolicDistRV):
            density = _density_of_weights(rv, model.rvs_to_values[rv], values)
            if density is not None:
                _replace_observed(model, rv, _weighted_distribution(rv, density, weights()))


def _density_of_weights(rv: Variable, value: Variable, values: np.ndarray) -> Density | None:
    """The density with the column of weights as an argument; None if it holds no such column."""
    size, *parameters = rv.owner.inputs
    inputs = [v.type() for v in (value, *_without_random_states(parameters))]
    whole = _logprob(rv.owner.op, [inputs[0]], size, *inputs[1:])
    held = [
        v
        for v in ancestors([whole])
        if isinstance(v, TensorConstant) and np.array_equal(np.asarray(v.data), values)
    ]
    if len(held) != 1:
        return None

    def density(value: Variable, weights: Variable, *parameters: Variable) -> Variable:
        fresh = (weights, value, *parameters)
        return rebuild([whole], dict(zip([held[0], *inputs], fresh, strict=True)))[0]

    return density


def _weighted_distribution(rv: Variable, density: Density, weights: Variable) -> Variable:
    """The distribution with its weights as the first parameter; draws do not depend on them."""
    size, *parameters = rv.owner.inputs
    inner, (drawn, *_) = rv.owner.op.inner_inputs, rv.owner.op.inner_outputs
    states = parameters[len(_without_random_states(parameters)) :]

    def draw(weights: Variable, *rest: Variable) -> Variable:
        *plain, size = rest
        size = size if isinstance(size.type, TensorType) else weights.shape
        return rebuild([drawn], dict(zip(inner, (size, *plain, *states), strict=True)))[0]

    kind = str(rv.owner.op)
    return pm.CustomDist.dist(
        pt.cast(weights, "float64"),
        *_without_random_states(parameters),
        logp=density,
        dist=draw,
        size=size,
        class_name=kind.split("{")[0],
    )


def _without_random_states(parameters: list[Variable]) -> list[Variable]:
    """Parameters without the states of random generators, which come last."""
    return [v for v in parameters if not isinstance(v.type, RandomType)]


def _replace_observed(model: pm.Model, old: Variable, new: Variable) -> None:
    """Replace an observed variable of a model by another one, with its name and data."""
    new.name = old.name
    list.__setitem__(
        model.observed_RVs, model.observed_RVs.index(old), new
    )  # PyMC's list refuses assignment
    value = model.rvs_to_values.pop(old)
    model.rvs_to_values[new], model.values_to_rvs[value] = value, new
    model.rvs_to_transforms[new] = model.rvs_to_transforms.pop(old, None)
    if old in model.rvs_to_initial_values:
        model.rvs_to_initial_values[new] = model.rvs_to_initial_values.pop(old)
    model.named_vars[new.name] = new
