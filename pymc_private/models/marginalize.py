"""`marginalize`: latent variables of single records summed or integrated out of a model.

A variable with one entry per record (an ability, a random effect, a class) cannot be released: each
entry reads one record. Its sum or integral depends on the shared parameters alone, and is one
term per record:

    log sum_k w_k prod_j p(y_ij | a_k, theta),

over all values of a discrete variable, or over the nodes of a Gauss-Hermite rule of a normal one.
The nodes and weights depend on the parameters, not on the data, and the weights add up to one. So
the result is an exact likelihood of another model, in which the normal variable is replaced by a
discrete one with the same first 2 K - 1 moments: privacy does not rest on the accuracy of the rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.logprob.basic import conditional_logp
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors
from pytensor.tensor.shape import SpecifyShape

from pymc_private.analysis.record_dependence import NONE, element_labels
from pymc_private.analysis.traversal import rebuild_by_rule
from pymc_private.errors import DomainError, NotCertified, Unsupported, suggest_arguments
from pymc_private.models.compat import copy_model
from pymc_private.models.data_variables import keeps_support, underlying_array
from pymc_private.models.distributions import distribution_class, implied_support
from pymc_private.models.domains import Domain
from pymc_private.models.person_rows import PersonRows, person_rows

MOST_NODES = 1024
"""Most combinations of values of all the variables that are summed over together."""
DISCRETE = {
    "BernoulliRV": pm.Bernoulli,
    "BinomialRV": pm.Binomial,
    "DiscreteUniformRV": pm.DiscreteUniform,
}
"""Discrete distributions whose values can be known to be few, and whose density PyMC gives."""
MOST_VALUES = 64
"""Most values of one discrete variable."""


@suggest_arguments
def marginalize(
    model: Any, *names: str, points: int = 21, rows_per_record: int | None = None
) -> pm.Model:
    """Sum or integrate out variables with one entry per record; the model given is untouched.

    Parameters
    ----------
    model : pymc.Model
    *names : str
        Free variables with one entry per record: normal, or discrete with few values (Bernoulli,
        Categorical, Binomial, DiscreteUniform); or an MvNormal with two, such as an intercept and a
        slope. Together they are summed over all combinations.
    points : int
        Nodes of the Gauss-Hermite rule of a normal variable, 3 to 101. A record that tells much
        about its own entry (many items) needs more. Summaries of persons with several rows have
        nodes of their own.
    rows_per_record : int, optional
        For a model with one line per row of a person, which reads the variables by an index of
        persons: the most rows that a person may own, a public number. Arrays of rows become arrays
        (persons, rows_per_record, ...), and ``<dim>_rows`` the number of rows of each person. A
        person is then one record, with all rows.

    Returns
    -------
    pymc.Model
        A plain model of the other variables. What was observed given the variables is a data
        variable of the same name and a potential ``<name>_marginal``, one term per record; its
        domain is declared in `privatize`. Deterministics that read the variables are left out.

    Raises
    ------
    DomainError
        No such variable; `points` out of range; a person with more rows than declared, or none.
    Unsupported
        A variable that is shared by records (its sum would couple them), that another variable's
        prior reads, or of another distribution.

    Notes
    -----
    By the rule a normal variable is replaced by a discrete one: the likelihood is exact for that
    model, and so is what `certify` proves of it. Records are simulated from the variables as they
    were, before the rule.

    References
    ----------
    Bock and Aitkin (1981) for marginal item response models; Golub and Welsch (1969).

    Examples
    --------
    >>> import numpy as np, pymc as pm, pymc_private as pmp
    >>> with pm.Model(coords={"person": range(4), "item": range(3)}) as model:
    ...     ability = pm.Normal("ability", 0, 1, dims="person")
    ...     hard = pm.Normal("hard", 0, 1, dims="item")
    ...     right = np.zeros((4, 3), int)
    ...     _ = pm.Bernoulli("y", logit_p=ability[:, None] - hard, observed=right,
    ...                      dims=("person", "item"))
    >>> shared = pmp.marginalize(model, "ability")
    >>> [variable.name for variable in shared.free_RVs]
    ['hard']
    >>> private = pmp.privatize(shared, records="person")
    """
    _check_arguments(model, names, points)
    copy, _ = copy_model(model)
    latents = [copy[name] for name in names]
    outcomes = [rv for rv in copy.observed_RVs if not set(latents).isdisjoint(ancestors([rv]))]
    _refuse_shared(copy, latents)
    _refuse_other_readers(copy, latents, outcomes)
    values = {rv: _value_of(copy, rv) for rv in outcomes}
    rows = None
    if rows_per_record is not None:
        rows = person_rows(copy, latents, values, rows_per_record)
    inputs = {rv: rv.type(name=rv.name) for rv in copy.free_RVs}
    logps = conditional_logp({**inputs, **values}, warn_rvs=False)
    logps |= {
        values[rv]: _categorical_logp(rv, values[rv], inputs)
        for rv in outcomes
        if distribution_class(rv) == "CategoricalRV"
    }
    if rows is None:
        for rv in outcomes:
            _check_rows(logps[values[rv]], rv, inputs, latents, copy.eval_rv_shapes())
        each = [_sum_of_row(logps[values[rv]]) for rv in outcomes]
    else:
        each = [rows.term(logps[values[rv]]) for rv in outcomes]
    term = pt.add(*each) if len(each) > 1 else each[0]
    if _are_several_normal(latents):
        whole = _integrated(term, latents, inputs, points)
    else:
        whole = _summed(term, [_nodes_of(rv, inputs[rv], points) for rv in latents])
    back = {variable: rv for rv, variable in inputs.items() if rv not in latents}
    (whole,) = graph_replace([whole], back, strict=False)
    return _rebuilt(copy, latents, values, whole, rows)


@dataclass(frozen=True)
class Nodes:
    """The values over which one variable is summed.

    Attributes
    ----------
    entry : Variable
        The variable's stand-in in the graph of the outcomes.
    values : sequence of Variable
        Each of the shape of the variable.
    log_weights : sequence of Variable
        Of the same shape, or scalars.
    """

    entry: Variable
    values: Sequence[Variable]
    log_weights: Sequence[Variable]


@dataclass(frozen=True)
class Generator:
    """How the outcomes of a marginal potential are drawn: with the variables that it sums over.

    Attributes
    ----------
    factor : str
        The potential.
    outcomes : dict of str to Variable
        By data variable, the random variable that generates it.
    latents : tuple of Variable
        Random variables with one entry per record.
    """

    factor: str
    outcomes: dict[str, Variable]
    latents: tuple[Variable, ...]
    rows: RowsOfRecord | None = None


@dataclass(frozen=True, eq=False)
class RowsOfRecord:
    """What a marginal potential knows of the rows of its records.

    Attributes
    ----------
    count : str
        The data variable with the number of rows of each record.
    most : int
        K, the most rows.
    parameters : tuple of tuple of Variable
        The parameters of the outcome's distribution at each place, one entry per record.
    arrays : tuple of str
        Data variables with an entry for each place of each record.
    """

    count: str
    most: int
    parameters: tuple[tuple[Variable, ...], ...]
    arrays: tuple[str, ...]


def _check_arguments(model: Any, names: Sequence[str], points: Any) -> None:
    """Refuse what is no model, an unknown variable, or an impossible number of nodes."""
    if not isinstance(model, pm.Model):
        raise DomainError("marginalize takes a model", got=type(model).__name__, allowed="pm.Model")
    free = [rv.name for rv in model.free_RVs]
    unknown = [name for name in names if not (isinstance(name, str) and name in free)]
    if unknown or not names:
        raise DomainError(
            "marginalize sums over free variables",
            got=", ".join(map(str, unknown)) or "no name",
            allowed=", ".join(free),
        )
    whole = isinstance(points, int | np.integer) and not isinstance(points, bool)
    if not whole or not 3 <= points <= 101:
        raise DomainError(
            "points= is the number of quadrature nodes for a normal variable",
            got=repr(points),
            allowed="3 to 101",
        )


def _refuse_shared(model: pm.Model, latents: Sequence[Variable]) -> None:
    """Refuse variables that do not have one entry per record, all of the same number."""
    known = model.eval_rv_shapes()
    shapes = {rv: tuple(int(size) for size in known[rv.name]) for rv in latents}
    counts = {shape[0] if shape else 0 for shape in shapes.values()}
    pairs = [rv for rv in latents if distribution_class(rv) == "MvNormalRV"]
    bad = [
        rv.name
        for rv, shape in shapes.items()
        if not shape or shape[0] < 2 or shape[1:] != ((2,) if rv in pairs else ())
    ]
    if bad or len(counts) != 1:
        raise Unsupported(
            "a variable that is shared by records cannot be summed out: its sum couples them",
            got=", ".join(f"{rv.name}: shape {shape}" for rv, shape in shapes.items()),
            allowed="variables with one entry per record, or an MvNormal with two",
            do="leave it in the model: sampler='grid' draws discrete ones",
        )


def _refuse_other_readers(
    model: pm.Model, latents: Sequence[Variable], outcomes: Sequence[Variable]
) -> None:
    """Refuse priors and potentials that read the variables, and variables that nothing reads."""
    others = [rv for rv in (*model.free_RVs, *model.potentials) if rv not in latents]
    reading = [rv.name for rv in others if not set(latents).isdisjoint(ancestors([rv]))]
    nested = [rv.name for rv in latents if not (set(latents) - {rv}).isdisjoint(ancestors([rv]))]
    if reading or nested or not outcomes:
        raise Unsupported(
            "only the distributions of observed variables may read what is summed out",
            got=", ".join([*reading, *nested]) or "nothing observed reads it",
            allowed="variables that enter the model by observed variables",
            do="write potentials as distributions, and sum out one level at a time",
        )


def _value_of(model: pm.Model, rv: Variable) -> Variable:
    """The observed value of a variable: a data variable, made of the array written into it."""
    value = model.rvs_to_values[rv]
    if not isinstance(value, Constant):
        return value
    array = np.asarray(value.data)
    return pytensor.shared(array, name=rv.name, shape=array.shape)


def _check_rows(
    term: Variable,
    rv: Variable,
    inputs: Mapping[Variable, Variable],
    latents: Sequence[Variable],
    shapes: Mapping[str, Any],
) -> None:
    """Refuse an outcome of which a row reads another entry than its own."""
    known = {v: v.get_value() for v in ancestors([term]) if hasattr(v, "get_value")}
    known |= {
        variable: np.ones(tuple(shapes[free.name]), variable.type.dtype)
        for free, variable in inputs.items()
    }
    labels = {variable: np.full(np.shape(value), NONE) for variable, value in known.items()}
    n = int(shapes[latents[0].name][0])
    for latent in latents:
        own = np.arange(n).reshape(-1, *[1] * (latent.type.ndim - 1))
        labels[inputs[latent]] = np.broadcast_to(own, tuple(shapes[latent.name])).copy()
    try:
        found = np.asarray(element_labels([term], labels, known)[term])
    except NotCertified as error:
        raise _rows_error(rv.name, error.problem) from error
    own = np.arange(n).reshape(-1, *([1] * (found.ndim - 1)))
    if found.ndim < 1 or found.shape[0] != n or not np.all((found == NONE) | (found == own)):
        raise _rows_error(rv.name, f"a term of shape {found.shape}")


def _categorical_logp(
    rv: Variable, value: Variable, inputs: Mapping[Variable, Variable]
) -> Variable:
    """log p[value] as a sum over categories: taking entries does not vectorize over nodes."""
    (shares,) = graph_replace(list(rv.owner.op.dist_params(rv.owner)), inputs, strict=False)
    size = shares.type.shape[-1] if shares.type.shape[-1] is not None else shares.shape[-1]
    chosen = pt.eq(value[..., None], pt.arange(size))
    return pt.log(pt.switch(chosen, shares, 0.0).sum(axis=-1))


def _rows_error(name: str, got: str) -> Unsupported:
    """The error for an outcome whose rows are not those of the variable."""
    return Unsupported(
        f"row i of the log-density of '{name}' is not proved to read entry i alone",
        got=got,
        allowed="an observed variable whose first axis is that of the records",
        do="one row per record: an array (persons, items) in the place of one line per answer; or "
        "rows_per_record=, the most rows that a person may own",
    )


def _is_random(variable: Variable) -> bool:
    """Whether it is drawn: an output of a random variable."""
    return hasattr(variable.owner.op, "dist_params") and variable.type.ndim >= 0


def _sum_of_row(term: Variable) -> Variable:
    """The sum over all axes but the first."""
    return term.sum(axis=tuple(range(1, term.type.ndim))) if term.type.ndim > 1 else term


def _nodes_of(rv: Variable, entry: Variable, points: int) -> Nodes:
    """The values that a variable is summed over, and their log weights.

    Of one entry where they are those of every record.
    """
    kind = distribution_class(rv)
    if kind == "NormalRV":
        mean, scale = rv.owner.op.dist_params(rv.owner)
        at, weights = np.polynomial.hermite_e.hermegauss(points)
        shares = np.log(weights / weights.sum())
        values = [pt.atleast_1d(mean + scale * x).astype(entry.type.dtype) for x in at]
        return Nodes(entry, values, [pt.constant(np.array([w])) for w in shares])
    support = _support_of(rv, kind)
    values = [pt.constant(np.array([k], entry.type.dtype)) for k in support]
    parts = rv.owner.op.dist_params(rv.owner)
    if kind == "CategoricalRV":
        logs = [pt.log(parts[0][..., k]) for k in support]
    else:  # the density of one entry where all have the same: that of `rv` has its size
        unsized = DISCRETE[kind].dist(*parts)
        logs = [pm.logp(unsized, pt.constant(k, dtype=entry.type.dtype)) for k in support]
    return Nodes(entry, values, [pt.atleast_1d(each) for each in logs])


def normal_pair(mean: Variable, covariance: Variable, z: Sequence[Any]) -> Variable:
    """Two normal numbers at standard normal ones, the last axis: of each record, or of one."""
    first = pt.sqrt(covariance[..., 0, 0])
    beside = covariance[..., 1, 0] / first
    last = pt.sqrt(covariance[..., 1, 1] - beside**2)
    found = [mean[..., 0] + first * z[0], mean[..., 1] + beside * z[0] + last * z[1]]
    return pt.stack([pt.atleast_1d(v) for v in found], axis=-1)


def _support_of(rv: Variable, kind: str) -> list[int]:
    """All values of a discrete variable."""
    if kind == "BernoulliRV":
        return [0, 1]
    parts = rv.owner.op.dist_params(rv.owner)
    found: list[int] = []
    if kind == "CategoricalRV":
        size = parts[0].type.shape[-1]
        found = list(range(int(size if size is not None else parts[0].shape[-1].eval())))
    elif kind == "BinomialRV" and _is_fixed(parts[0]):
        found = list(range(int(np.max(parts[0].eval())) + 1))
    elif kind == "DiscreteUniformRV" and all(map(_is_fixed, parts)):
        low, high = (part.eval() for part in parts)
        found = list(range(int(np.min(low)), int(np.max(high)) + 1))
    if not found or len(found) > MOST_VALUES:
        raise Unsupported(
            f"'{rv.name}' is neither normal nor a discrete variable with few known values",
            got=kind.removesuffix("RV") + (f" of {len(found)} values" if found else ""),
            allowed="Normal, Bernoulli, Categorical, Binomial and DiscreteUniform of fixed bounds, "
            f"at most {MOST_VALUES} values",
            do="write the variable as a normal one (a log-normal effect is exp of it), or the "
            "likelihood by a distribution with the variable integrated out: NegativeBinomial, "
            "BetaBinomial, StudentT, Mixture",
        )
    return found


def _is_fixed(variable: Variable) -> bool:
    """Whether no variable of the model, random or data, is read."""
    return all(isinstance(v, Constant) or v.owner is not None for v in ancestors([variable])) and (
        not any(v.owner is not None and _is_random(v) for v in ancestors([variable]))
    )


def _are_several_normal(latents: Sequence[Variable]) -> bool:
    """Whether all are normal, and together more than one number of each record."""
    kinds = [distribution_class(rv) for rv in latents]
    return set(kinds) <= {"NormalRV", "MvNormalRV"} and kinds != ["NormalRV"]


def _integrated(
    each: Variable, latents: Sequence[Variable], inputs: Mapping[Variable, Variable], points: int
) -> Variable:
    """The log of the integral over normal variables, one entry per record.

    All nodes are one array, (G, 1): hundreds of them would be as many pieces of a graph.
    """
    sizes = [2 if distribution_class(rv) == "MvNormalRV" else 1 for rv in latents]
    _refuse_many(points ** sum(sizes))
    at, weights = np.polynomial.hermite_e.hermegauss(points)
    grid = np.array(list(product(at, repeat=sum(sizes))))
    shares = np.array(list(product(np.log(weights / weights.sum()), repeat=sum(sizes))))
    swaps, first = {}, 0
    for rv, size in zip(latents, sizes, strict=True):
        z = [pt.constant(grid[:, first + k, None]) for k in range(size)]
        first += size
        parts = rv.owner.op.dist_params(rv.owner)
        found = normal_pair(parts[0], parts[1], z) if size == 2 else parts[0] + parts[1] * z[0]
        swaps[inputs[rv]] = found.astype(inputs[rv].type.dtype)
    logs = vectorize_graph(each, swaps) + pt.constant(shares.sum(axis=1)[:, None])
    return rebuild_by_rule(pt.logsumexp(logs, axis=0), _without_static_shape)


def _refuse_many(count: int) -> None:
    """Refuse more nodes than can be summed over."""
    if count > MOST_NODES:
        raise DomainError(
            "too many combinations of values to sum over",
            got=count,
            allowed=f"at most {MOST_NODES}",
            do="fewer points=, or fewer variables",
        )


def _summed(each: Variable, nodes: Sequence[Nodes]) -> Variable:
    """log sum of weights times densities, one entry per record."""
    _refuse_many(math.prod(len(one.values) for one in nodes))
    pairs = [list(zip(one.values, one.log_weights, strict=True)) for one in nodes]
    choices = list(product(*pairs))
    swaps = {
        one.entry: pt.stack([choice[k][0] for choice in choices]) for k, one in enumerate(nodes)
    }
    weights = pt.stack([
        pt.add(*[part[1] for part in choice]) if len(choice) > 1 else choice[0][1]
        for choice in choices
    ])  # fmt: skip
    whole = pt.logsumexp(vectorize_graph(each, swaps) + weights, axis=0)
    return rebuild_by_rule(whole, _without_static_shape)


def _without_static_shape(node: Apply, inputs: list[Variable]) -> Variable | None:
    """Values that are those of every record have one entry, where the variable had one for each."""
    return inputs[0] if isinstance(node.op, SpecifyShape) else None


def _rebuilt(
    old: pm.Model,
    latents: Sequence[Variable],
    values: dict[Variable, Variable],
    whole: Variable,
    rows: PersonRows | None,
) -> pm.Model:
    """A model of what is left, with a potential of one term per record."""
    drawn, of_rows = {values[rv].name: rv for rv in values}, None
    if rows is not None:
        _refuse_several(values)
        ((rv, value),) = values.items()
        made, parameters = rows.drawn(rv)
        names = tuple(str(v.name) for v in rows.wide.values())
        drawn = {rows.wide[value].name: made}
        of_rows = RowsOfRecord(rows.count.name, rows.most, parameters, names)
    new = model_without(old, latents, values, rows)
    name = "_".join(rv.name for rv in values)
    first = old.named_vars_to_dims.get(next(iter(values)).name) or (None,)
    if rows is not None:
        first = (rows.person,)
    with new:
        pm.Potential(f"{name}_marginal", whole, dims=first[:1] if first[0] else None)
    add_generator(new, Generator(f"{name}_marginal", drawn, tuple(latents), of_rows))
    return new


def _refuse_several(values: Mapping[Variable, Variable]) -> None:
    """Refuse several outcomes of a row."""
    if len(values) > 1:
        raise Unsupported(
            "with rows_per_record= the rows have one observed variable",
            got=", ".join(rv.name for rv in values),
            allowed="one observed variable",
            do="a model for each outcome",
        )


def model_without(
    old: pm.Model,
    latents: Sequence[Variable],
    values: Mapping[Variable, Variable],
    rows: PersonRows | None = None,
) -> pm.Model:
    """The model without some free variables, and with some observed ones as data variables.

    `values` are the data of the latter; those that PyMC casts are data variables as they are.
    Deterministics that read what is left out are left out. With `rows`, arrays of persons take the
    place of arrays of rows; all else that has an entry for each row is left out, since rows are
    private now.
    """
    dims, row_dims = old.named_vars_to_dims, _row_dims(old, rows)
    new = pm.Model(coords={k: v for k, v in old.coords.items() if k not in row_dims})
    held = [v for v in values.values() if v.owner is None and v not in old.data_vars]
    gone = {*latents, *values}
    new.implied_domains = getattr(old, "implied_domains", {}) | _stated_supports(values, rows)
    if rows is not None:
        gone |= rows.replaced | _unread_rows(old, rows)
        new.add_coord(rows.row_dim, range(rows.most))
        if rows.person not in new.coords:
            new.add_coord(rows.person, range(rows.count.get_value().size))
        for variable, names in rows.dims.items():
            new.register_data_var(variable, dims=names)
    for variable in (*old.data_vars, *held):
        if variable not in gone:
            new.register_data_var(variable, dims=dims.get(variable.name))
    for rv in (*old.free_RVs, *old.observed_RVs):
        if rv in latents or rv in values:
            continue
        observed = None if rv in old.free_RVs else old.rvs_to_values[rv]
        options: dict[str, Any] = {"default_transform": None}
        options |= {"transform": old.rvs_to_transforms[rv]} if observed is None else {}
        new.register_rv(rv, rv.name, observed=observed, dims=dims.get(rv.name), **options)
    for potential in old.potentials:
        new.potentials.append(potential)
        new.add_named_variable(potential, dims=dims.get(potential.name))
    for variable in old.deterministics:
        of_rows = row_dims.intersection(dims.get(variable.name) or ())
        if not of_rows and gone.isdisjoint(ancestors([variable])):
            new.deterministics.append(variable)
            new.add_named_variable(variable, dims=dims.get(variable.name))
    for rv in values:
        rv.tag.observations = None  # the data, which nothing of the drawn variable needs
    new.generators = tuple(getattr(old, "generators", ()))
    return new


def _stated_supports(
    values: Mapping[Variable, Variable], rows: PersonRows | None
) -> dict[str, Domain]:
    """Domains of the data variables of outcomes that their distributions state: {0, 1}, say."""
    found: dict[str, Domain] = {} if rows is None else {rows.count.name: rows.domain}
    for rv, value in values.items():
        array = underlying_array(value) if rows is None else rows.wide[value]
        domain = implied_support(rv) if rows or keeps_support(value, array) else None
        if domain is not None:
            found[array.name] = domain
    return found


def _row_dims(old: pm.Model, rows: PersonRows | None) -> set[Any]:
    """Dims of the rows that persons take the place of."""
    if rows is None:
        return set()
    names = (old.named_vars_to_dims.get(v.name) or () for v in rows.replaced)
    return {dim for dims in names for dim in dims[:1]} - {rows.person}


def _unread_rows(old: pm.Model, rows: PersonRows) -> set[Variable]:
    """Data with an entry for each row that neither likelihood nor prior reads."""
    read = set(ancestors([*old.free_RVs, *old.potentials]))
    long = (v for v in old.data_vars if v.get_value(borrow=True).shape[:1] == (rows.total,))
    return {v for v in long if v not in read}


def add_generator(model: pm.Model, made: Generator) -> None:
    """Say how the outcomes of a potential are drawn."""
    model.generators = (*model.generators, made)
