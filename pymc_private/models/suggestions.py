"""Messages about private variables that are not declared, with a call of `privatize` to paste.

A suggested domain follows from the structure of the model and from data types, never from a value
of the data: an array that is read as an index takes the codes of the axis that it indexes, truth
values are 0 and 1, and everything else is an interval whose bounds the user has to know. Bounds of
a censored likelihood, one for each record, get an advice of their own: with the observed times they
say who was censored, so the record is a pair (time, event).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import constant_fold
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace
from pytensor.graph.traversal import ancestors, io_toposort

from pymc_private.analysis.traversal import library_class_name
from pymc_private.errors import DomainError
from pymc_private.models.data_variables import (
    CONSTANT_KIND,
    ArrayCandidate,
    constants_with_axis,
    factor_variables,
    underlying_array,
)
from pymc_private.models.distributions import distribution_class, public_number
from pymc_private.models.domains import Categories, Domain

UNKNOWN_INTERVAL, UNKNOWN_CATEGORIES = "pmp.Interval(..., ...)", "pmp.Categories([...])"
UNKNOWN_COUNTS = "pmp.Counts(...)"
"""Domains whose numbers the user fills in."""


def missing_domain_error(
    model: pm.Model,
    found: Sequence[ArrayCandidate],
    names: Sequence[str],
    records: str | Mapping[str, int] | None,
    declared: Mapping[str, object],
    options: Mapping[str, object] | None = None,
) -> DomainError:
    """The error for private variables without a domain, or where `records` is not given.

    `options` are further arguments of the call, which the call to paste repeats.
    """
    options = options or {}
    if records is None:
        records = _likely_records(found)
        if options.get("constants") != "public":
            found = [*found, *_likely_constants(model, found, records)]
    public: Any = options.get("public", ())
    constants = [c.name for c in found if c.kind == CONSTANT_KIND and c.name not in public]
    wanted = [c for c in found if (c.name in names if names else c.shape)]
    call = _call_to_paste(model, wanted, records, declared, options)
    return DomainError(
        "a private variable has no declared domain" if names else "say what one record is",
        got=", ".join(names) or None,
        allowed="\n  ".join([*_described(model, found), "paste and fill in:", f"    {call}"]),
        do="declare every value a record could have; take it from the questionnaire or the "
        f"instrument, never from the data{_constants_advice(constants)}",
    )


def _described(model: pm.Model, found: Sequence[ArrayCandidate]) -> list[str]:
    """The data variables of a model: shapes, supports and use, never values."""
    lines = ["data variables of the model:"]
    for c in found:
        implied = f"implied support {_short(c.implied)}" if c.implied else "no implied bound"
        dtype = c.variable.type.dtype
        met = _parameters_met(model, c.variable) if c.kind == CONSTANT_KIND else []
        beside = f"; read beside {', '.join(met)}" if met else ""
        lines.append(
            f"    {c.name}  shape {c.shape}  dims {c.dims or '()'}  {dtype}  {c.kind}; "
            f"{implied}{beside}"
        )
    return lines


def _short(domain: Domain) -> str:
    """A domain in a line; many values by the first and the last of them."""
    if not isinstance(domain, Categories) or len(domain.values) <= MOST_VALUES:
        return str(domain)
    first, last = min(domain.values), max(domain.values)
    return f"Categories of {len(domain.values)} values from {first:g} to {last:g}"


MOST_VALUES = 12


def _parameters_met(model: pm.Model, variable: Variable) -> list[str]:
    """Names of the parameters that an array meets first, by which it may be told from others."""
    parameters = {rv: str(rv.name) for rv in model.free_RVs}
    moving, found = {variable}, dict[str, None]()
    for node in io_toposort(model.free_RVs, factor_variables(model)):
        if moving.isdisjoint(node.inputs):
            continue
        others = [v for v in node.inputs if v not in moving]
        met = [parameters[v] for v in ancestors(others) if v in parameters]
        found |= dict.fromkeys(met)
        moving |= set() if met else set(node.outputs)
    return sorted(found)


def _likely_records(found: Sequence[ArrayCandidate]) -> str | dict[str, int] | None:
    """The first dim of what is observed, else its first axis, as `records` may be given."""
    observed = [c for c in found if c.kind == "observed" and c.shape] or [
        c for c in found if c.shape
    ]
    dims = [c.dims[0] for c in observed if c.dims and c.dims[0] is not None]
    if dims:
        return str(dims[0])
    return {observed[0].name: 0} if observed else None


def _likely_constants(
    model: pm.Model, found: Sequence[ArrayCandidate], records: str | Mapping[str, int] | None
) -> list[ArrayCandidate]:
    """Constants with the records axis, under the names of `constants`."""
    if isinstance(records, str):
        sizes = [c.shape[c.dims.index(records)] for c in found if records in c.dims]
    else:
        sizes = [c.shape[axis] for c in found for name, axis in (records or {}).items()
                 if name == c.name]  # fmt: skip
    if not sizes:
        return []
    known = [c.variable for c in found]
    embedded = constants_with_axis(factor_variables(model), sizes[0], known)
    return [
        ArrayCandidate(name, (), variable, (), np.shape(variable.data), None, CONSTANT_KIND)
        for name, (variable, _) in embedded.items()
    ]


def _call_to_paste(
    model: pm.Model,
    found: Sequence[ArrayCandidate],
    records: str | Mapping[str, int] | None,
    declared: Mapping[str, object],
    options: Mapping[str, object],
) -> str:
    """A call of `privatize`: what was given, and a domain to fill in for what has none."""
    public: Any = options.get("public", ())
    known = {name for c in found if c.implied is not None for name in (c.name, *c.aliases)}
    domains = {name: _as_code(value) for name, value in declared.items()}
    for c in found:
        if not {c.name, *c.aliases} & {*declared, *known, *public}:
            domains[c.name] = _suggested_domain(model, c.variable)
    inside = ", ".join(f"{_as_code(name)}: {code}" for name, code in domains.items())
    arguments = ["model", f"records={'...' if records is None else _as_code(records)}"]
    arguments += [f"domain={{{inside}}}"] if inside else []
    arguments += [f"{name}={_as_code(value)}" for name, value in options.items() if value]
    return f"pmp.privatize({', '.join(arguments)})"


def _suggested_domain(model: pm.Model, variable: Variable) -> str:
    """A domain as code, from the type of an array and how it is used; no value of it is read."""
    of_likelihood = _outcome_domain(model, variable)
    if of_likelihood is not None:
        return of_likelihood
    dtype = str(variable.type.dtype)
    if dtype == "bool":
        return "{0, 1}"
    if not dtype.startswith(("int", "uint")):
        return UNKNOWN_INTERVAL
    lengths = _indexed_lengths(model, variable)
    if not lengths:
        return UNKNOWN_INTERVAL
    if None in lengths or len(lengths) > 1:
        return UNKNOWN_CATEGORIES
    (length,) = lengths
    return "{0, 1}" if length == 2 else f"pmp.Categories(range({length}))"


def _outcome_domain(model: pm.Model, variable: Variable) -> str | None:
    """The domain as code of what a categorical or a multinomial likelihood observes, else None."""
    for rv in model.observed_RVs:
        if underlying_array(model.rvs_to_values[rv]) is not variable:
            continue
        kind, parts = distribution_class(rv), rv.owner.op.dist_params(rv.owner)
        if kind == "CategoricalRV":
            levels = _public_length(model, parts[0])
            return UNKNOWN_CATEGORIES if levels is None else f"pmp.Categories(range({levels}))"
        if kind in ("MultinomialRV", "DirichletMultinomialRV"):
            total = public_number(parts[0])
            if total is not None:
                return f"pmp.Counts({int(total)})"
            arrays = [v for v in ancestors([parts[0]]) if v.owner is None and v.type.ndim > 0]
            return None if arrays else UNKNOWN_COUNTS  # with an array each record has its own
    return None


def _public_length(model: pm.Model, variable: Variable) -> int | None:
    """The length of the last axis, from types and lengths of dims, None if these do not tell."""
    dims = {
        length: pt.constant(length.get_value(), dtype=length.type.dtype)
        for length in model.dim_lengths.values()
        if hasattr(length, "get_value")
    }
    (size,) = graph_replace([variable.shape[-1]], dims, strict=False)
    (found,) = constant_fold([size], raise_not_constant=False)
    return int(found) if isinstance(found, int | np.integer | np.ndarray) else None


def _indexed_lengths(model: pm.Model, variable: Variable) -> set[int | None]:
    """Lengths of the axes that an array indexes by itself, None for one that is not known."""
    found: set[int | None] = set()
    for node in {v.owner: None for v in ancestors(factor_variables(model)) if v.owner is not None}:
        if not library_class_name(node.op).startswith("AdvancedSubtensor"):
            continue
        places = [i for i, v in enumerate(node.inputs[1:]) if underlying_array(v) is variable]
        alone = len(node.inputs) == 2 and node.inputs[0].type.ndim == 1
        found |= {_length(model, node.inputs[0]) if alone else None for _ in places}
    return found


def _length(model: pm.Model, vector: Variable) -> int | None:
    """The length of a vector of parameters, from its type or the coordinates of its dim."""
    if vector.type.shape[0] is not None:
        return int(vector.type.shape[0])
    dims = model.named_vars_to_dims.get(vector.name or "") or (None,)
    coords = model.coords.get(str(dims[0]))
    if coords is not None:
        return len(coords)
    if vector.owner is None or library_class_name(vector.owner.op) != "Elemwise":
        return None
    inputs = [v for v in vector.owner.inputs if v.type.ndim == 1 and v.type.shape != (1,)]
    lengths = {_length(model, v) for v in inputs} - {None}
    return lengths.pop() if len(lengths) == 1 else None


def _as_code(value: Any) -> str:
    """A declared value as Python code."""
    if isinstance(value, Categories) and value.values == tuple(range(len(value.values))):
        return f"pmp.Categories(range({len(value.values)}))"
    if isinstance(value, Domain) and is_dataclass(value) and not isinstance(value, type):
        given = ", ".join(f"{f.name}={_as_code(getattr(value, f.name))}" for f in fields(value))
        return f"pmp.{type(value).__name__}({given})"
    if isinstance(value, np.ndarray | np.generic):
        return _as_code(value.tolist())
    if isinstance(value, Mapping):
        inside = ", ".join(f"{_as_code(key)}: {_as_code(part)}" for key, part in value.items())
        return f"{{{inside}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(map(_as_code, sorted(value)))}}}" if value else "set()"
    if isinstance(value, tuple):
        return f"({', '.join(map(_as_code, value))}{',' * (len(value) == 1)})"
    if isinstance(value, list):
        return f"[{', '.join(map(_as_code, value))}]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)


def _constants_advice(constants: Sequence[str]) -> str:
    """Why constants count as data of the records, and what to do where they are none."""
    if not constants:
        return ""
    return (
        f". {', '.join(constants)}: an array written into the model, taken for data of the records "
        "by its length alone; if it holds nothing of them, say "
        f"public={_as_code(list(constants))}"
    )


def censored_by(model: pm.Model, variables: Iterable[Variable]) -> tuple[Variable, str] | None:
    """The censored likelihood that reads one of these arrays as a bound, and which bound it is."""
    wanted = set(variables)
    for rv in model.observed_RVs:
        if library_class_name(rv.owner.op) != "CensoredRV":
            continue
        for side, bound in zip(("lower", "upper"), rv.owner.inputs[1:3], strict=True):
            if bound in wanted or (bound.owner is not None and underlying_array(bound) in wanted):
                return rv, side
    return None


def censoring_error(
    rv: Variable,
    side: str,
    name: str,
    records: str | Mapping[str, int],
    declared: Mapping[str, object],
) -> DomainError:
    """The refusal of censoring bounds that are given for each record, and the model to write."""
    time = str(rv.name)
    dims, data = (f', dims="{records}"' if isinstance(records, str) else ""), f"{time}_data"
    domains = {k: _as_code(v) for k, v in declared.items() if k not in (time, name)}
    domains |= {data: _as_code(declared[time]) if time in declared else UNKNOWN_INTERVAL}
    inside = ", ".join(f"{_as_code(k)}: {v}" for k, v in (domains | {"event": "{0, 1}"}).items())
    axis = records if isinstance(records, str) else {data: 0}
    lines = [
        f'event = pm.Data("event", np.isinf({side}).astype(int){dims})  # 0: censored',
        f'time = pm.Data("{data}", {time}{dims})  # what pm.Censored observed',
        "lifetime = ...  # the distribution in pm.Censored, such as pm.Weibull.dist(...)",
        f"censored = {_censored_probability(rv, side)}",
        f'pm.Potential("{time}", pm.math.switch(event, pm.logp(lifetime, time), censored){dims})',
        "# outside the model:",
        f"private = pmp.privatize(model, records={_as_code(axis)}, domain={{{inside}}})",
    ]
    return DomainError(
        f"the {side} bounds of the censored variable '{time}' are data of the records: they say "
        "who was censored",
        got=f"{name}, one bound for each record",
        allowed="a record of (time, event), each with its domain",
        do="do not drop the censored records, which would bias the fit, nor claim the bounds "
        "public. In place of pm.Censored write the density of an event and the probability of "
        "being censored:\n      " + "\n      ".join(lines),
    )


def _censored_probability(rv: Variable, side: str) -> str:
    """The log-probability of a censored record as PyMC defines it, as code."""
    if side == "lower":
        return "pm.logcdf(lifetime, time)"
    if str(rv.owner.inputs[0].type.dtype).startswith("float"):
        return "pm.logccdf(lifetime, time)"
    return "pm.math.logaddexp(pm.logccdf(lifetime, time), pm.logp(lifetime, time))"
