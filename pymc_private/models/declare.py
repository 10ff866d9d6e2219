"""Declaration of a private model: records, domains, units and embedded constants.

Reads the arguments of `privatize`: which arrays are private, along which axis and within which
domain; what is public; how many records a unit owns (T24). Structures without a record-wise
likelihood (imputed entries, minibatches, simulators, parameters of single records) are refused by
name. `constants` lists arrays that were embedded into a model's graph with a records axis.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from pymc_private.errors import DomainError, Unsupported, nearest_names, suggest_arguments
from pymc_private.models.bambi import (
    automatic_priors,
    is_bambi_model,
    name_formula_variables,
    offset_names,
    stateful_terms,
)
from pymc_private.models.compat import copy_model
from pymc_private.models.data_variables import (
    CONSTANT_KIND,
    ArrayCandidate,
    Source,
    array_candidates,
    constants_with_axis,
    factor_variables,
    is_read_outside_inner_graphs,
    undeclared_shared_arrays,
)
from pymc_private.models.distributions import refuse_transforms
from pymc_private.models.domains import as_domain
from pymc_private.models.metric import Metric
from pymc_private.models.record_graph import per_record_parameter_error
from pymc_private.models.suggestions import censored_by, censoring_error, missing_domain_error
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.rounding import format_count

logger = logging.getLogger("pymc_private")
logger.addHandler(logging.NullHandler())  # facts about the data go to a log or nowhere
SUMS_RECORDS = (
    "a single number sums up all records: write one row for each, such as pm.Bernoulli for "
    "pm.Binomial, or release noisy counts"
)
UNCOUNTED_CLAIM = (
    "no number or array written into the model was computed from the number of records, and that "
    "there are at least 2 is no secret"
)
"""Trusted under add/remove: a graph does not show how a number in it was computed."""


def resolve_model(model: Any) -> pm.Model:
    """The PyMC model that an argument means: itself, that of the context, or a Bambi model's."""
    if model is None:
        try:
            return pm.modelcontext(None)
        except TypeError as error:
            raise DomainError(
                "no model given and none in the context",
                do="pass the model, or call inside 'with model:'",
            ) from error
    if isinstance(model, pm.Model):
        return model
    if is_bambi_model(model):
        if not model.built:
            model.build()
        return model.backend.model
    inner = getattr(model, "model", None)
    raise DomainError(
        "this is not a model",
        got=type(model).__name__,
        allowed="a pm.Model or a bambi.Model",
        do="pass its attribute .model" if isinstance(inner, pm.Model) else None,
    )


@suggest_arguments
def constants(model: Any = None, *, records: str | Mapping[str, int] | None = None) -> pd.DataFrame:
    """List anonymous arrays that may hold records, under the names that `privatize` accepts.

    A NumPy predictor used without `pm.Data`, a lag or a z-score computed before the model existed:
    all are constants of the graph. Each needs a domain, or ``constants="public"`` claims them all
    public. Of a Bambi model the variables of the formula are listed under their own names.

    Parameters
    ----------
    model : pymc.Model or Bambi model, optional
        Default: the model of the context.
    records : str or dict, optional
        As for `privatize`: the dim whose entries are the records, or ``{data variable: axis}``.
        Default: whatever is as long as the longest first axis of the data; say `records` if
        something public is longer.

    Returns
    -------
    pandas.DataFrame
        Columns name, shape, axis, dtype. No values.

    Raises
    ------
    DomainError
        `records` names no dim, array or axis of the model.
    """
    original, model = model, resolve_model(model)
    named: dict[str, str] = {}
    if is_bambi_model(original):
        terms = name_formula_variables(original, model)
        model, named = terms.model, {data: name for name, data in terms.names.items()}
    found = array_candidates(model)
    if records is not None:
        axes = records_axes(found, records, model)
        lengths = [record_count(axes, found)]
    else:
        lengths = sorted({size for c in found for size in c.shape[:1]}, reverse=True)
    rows = [
        (named[c.name], c.shape, 0, str(c.variable.type.dtype)) for c in found if c.name in named
    ]
    for n in lengths[:1]:
        known = [c.variable for c in found]
        embedded = constants_with_axis(factor_variables(model), n, known)
        for name, (variable, axis) in embedded.items():
            rows.append((name, np.shape(variable.data), axis, str(variable.type.dtype)))
    return pd.DataFrame(rows, columns=["name", "shape", "axis", "dtype"])


def refuse_structures(model: pm.Model) -> None:
    """Refuse imputed records, minibatches, simulators, and one array observed twice."""
    observed = [model.rvs_to_values[rv] for rv in model.observed_RVs]
    twice = [
        rv.name for rv, v in zip(model.observed_RVs, observed, strict=True) if observed.count(v) > 1
    ]
    if twice:
        raise Unsupported(
            "several variables observe one and the same array, for which PyMC has no density",
            got=", ".join(twice),
            allowed="an array of its own for each observed variable",
            do="hold the data in one pm.Data for each of them (their ranges add up then), or write "
            "one of the densities as a pm.Potential",
        )
    for rv in model.free_RVs:
        if rv.name.endswith("_unobserved") and f"{rv.name[:-11]}_observed" in model.named_vars:
            raise Unsupported(
                f"'{rv.name[:-11]}' has missing entries that PyMC imputes as parameters",
                got=rv.name,
                allowed="complete records",
                do="drop incomplete records before modeling, or declare a category for 'missing'",
            )
    for rv in model.observed_RVs:
        names = {type(v.owner.op).__name__ for v in ancestors([rv]) if v.owner is not None}
        value = model.rvs_to_values[rv]
        names |= {type(v.owner.op).__name__ for v in ancestors([value]) if v.owner is not None}
        if any("Minibatch" in name for name in names) or "RandomIndex" in names:
            raise Unsupported(
                f"'{rv.name}' is fed by a minibatch, so its likelihood is a random multiple",
                allowed="the full data",
                do="observe the full data; private draws are made once",
            )
        if any("Simulator" in name for name in names):
            raise Unsupported(
                f"'{rv.name}' is a simulator: it has no log-likelihood to bound",
                allowed="likelihoods with a density",
                do="write the likelihood as a distribution or a pm.CustomDist with logp",
            )


@dataclass(frozen=True)
class ModelCopy:
    """A copy of a model, its starts, and its declaration by the names of its data variables.

    `formula_names` are the names that the formula of a Bambi model has for data variables.
    """

    model: pm.Model
    initvals: Mapping[str, Any]
    domain: dict[str, Any]
    public: tuple[str, ...]
    claims: list[str]
    formula_names: Mapping[str, str] = field(default_factory=dict)

    def shown(self, name: str) -> str:
        """A data variable by the name that the user knows."""
        return self.formula_names.get(name, name)


def copy_declared_model(
    model: Any, resolved: pm.Model, domain: Any, public: str | Sequence[str], constants: str
) -> ModelCopy:
    """Copy a model; in a Bambi model the variables of its formula become data variables."""
    domain, public = domains_by_name(domain), public_names(public)
    claims = _formula_claims(model) if is_bambi_model(model) else []
    if not is_bambi_model(model) or constants == "public":
        copy, initvals = copy_model(resolved)
        return ModelCopy(copy, initvals, dict(domain), tuple(public), claims)
    terms = name_formula_variables(model, resolved)
    known = set(terms.model.named_vars) & {c.name for c in array_candidates(terms.model)}
    every = {**offset_names(terms.names), **terms.names}
    names = {k: v for k, v in every.items() if k not in known}
    renamed = {names.get(key, key): value for key, value in domain.items()}
    if len(renamed) < len(domain):
        raise DomainError(
            "one variable has two domains, under two names",
            got=", ".join(domain),
            do="declare it once, by its name in the formula",
        )
    public = tuple(names.get(key, key) for key in public)
    implied = {d: v for d, v in terms.domains.items() if d not in renamed and d not in public}
    shown = {data: name for name, data in names.items()}
    claims = terms.claims + claims
    return ModelCopy(terms.model, terms.initvals, implied | renamed, public, claims, shown)


def _formula_claims(bambi_model: Any) -> list[str]:
    """What is taken on trust of constants that Bambi computed from the data."""
    scaled = ", ".join(f"'{term}'" for term, _ in automatic_priors(bambi_model))
    found = [f"the priors of {scaled}, which Bambi scaled by the data, tell nothing of them"]
    terms = dict.fromkeys(stateful_terms(bambi_model))
    fixed = [f"what '{term}' computes with was fixed without looking at the data" for term in terms]
    return (found if scaled else []) + fixed


def domains_by_name(domain: Any) -> dict[str, Any]:
    """The declared domains by name."""
    if domain is None:
        return {}
    if isinstance(domain, Mapping):
        return dict(domain)
    raise DomainError(
        "domain= gives the domain of each private variable by its name",
        got=type(domain).__name__,
        allowed='a mapping: domain={"age": pmp.Interval(18, 99)}',
    )


def public_names(public: Any) -> tuple[str, ...]:
    """The names listed in public=; a single name may come by itself, and is not split up."""
    if isinstance(public, str):
        return (public,)
    if isinstance(public, Iterable) and np.iterable(public) and not isinstance(public, bytes):
        names = tuple(public)
        if all(isinstance(name, str) for name in names):
            return names
    raise DomainError(
        "public= names variables that are not secret",
        got=type(public).__name__,
        allowed='names: public=["age"]',
    )


Axis = tuple[ArrayCandidate, int]
"""An array and its records axis."""


@dataclass(frozen=True)
class Declaration:
    """What a declaration says of a model.

    `sources` are the private variables, `n` is the number of records, `claims` are taken on trust,
    and `public_constants` are constants of the graph that are public by name.
    """

    sources: list[Source]
    n: int
    claims: list[str]
    public_constants: list[Variable]


def read_declaration(
    declared: ModelCopy,
    records: str | Mapping[str, int] | None,
    constants: str,
    is_count_public: bool = True,
) -> Declaration:
    """The private variables of a copied model, after the arguments of `privatize`.

    Private are the arrays with the records axis that are not `public`, whether they hold data
    variables, observed values or (unless these are public) constants embedded in the graph. Where
    the number of records is protected (`is_count_public` false), no claim names a constant that is
    known by its length alone.
    """
    model, domain, public = declared.model, declared.domain, declared.public
    found = array_candidates(model)
    options = _given_options(declared, constants, is_count_public)
    if records is None:
        raise _missing_domain(declared, found, [], None, options)
    _refuse_unknown_constants(constants)
    axes = records_axes(found, records, model)
    n = record_count(axes, found)
    private = [(c, axis) for c, axis in axes.items() if not _is_listed(c, public)]
    private += [(c, a) for c, a in _undeclared_axes(found, axes, public, n)]
    embedded = _embedded_constants(model, found, n)
    public_embedded = [pair for pair in embedded if _is_listed(pair[0], public)]
    are_secret = constants == "private"
    secret_embedded = [pair for pair in embedded if are_secret and pair not in public_embedded]
    _refuse_inner_constants(model, secret_embedded)
    refuse_transforms(model)
    shared = undeclared_shared_arrays(factor_variables(model), [c.variable for c in found])
    if are_secret:
        _refuse_shared_arrays(shared, n)
    _refuse_unused_names(declared, found, embedded, private + secret_embedded)
    claims = _data_claims(found, private)
    claimed = public_embedded if are_secret or not is_count_public else embedded
    claims += _array_claims(model, shared, [c for c, _ in claimed], constants)
    private += secret_embedded
    missing = [c for c, _ in private if _declared_domain(c, domain) is None]
    if missing:
        listed = [*found, *(c for c, _ in embedded)]
        raise _missing_domain(declared, listed, missing, records, options)
    sources = [
        Source(c.name, c.aliases, c.variable, axis, c.shape, as_domain(_declared_domain(c, domain)))
        for c, axis in private
    ]
    return Declaration(sources, n, claims, [c.variable for c, _ in public_embedded])


def _missing_domain(
    declared: ModelCopy,
    listed: Sequence[ArrayCandidate],
    missing: Sequence[ArrayCandidate],
    records: str | Mapping[str, int] | None,
    options: Mapping[str, object],
) -> DomainError:
    """The error for private variables without a domain; censoring bounds have their own."""
    for c in missing:
        censored = censored_by(declared.model, [c.variable])
        if censored is not None and records is not None:
            return censoring_error(*censored, c.name, records, declared.domain)
    shown = [
        replace(c, name=declared.shown(c.name))
        for c in listed
        if c.kind != CONSTANT_KIND or options["constants"] != "public"
    ]
    names = [declared.shown(c.name) for c in missing]
    domain = {declared.shown(name): value for name, value in declared.domain.items()}
    return missing_domain_error(declared.model, shown, names, records, domain, options)


def _given_options(declared: ModelCopy, constants: str, is_count_public: bool) -> dict[str, object]:
    """Arguments of `privatize` besides records and domain, empty where they are the defaults."""
    return {
        "public": [declared.shown(name) for name in declared.public],
        "constants": "public" if isinstance(constants, str) and constants == "public" else "",
        "neighbors": "" if is_count_public else ADD_REMOVE,
    }


def records_axes(
    found: Sequence[ArrayCandidate], records: str | Mapping[str, int], model: pm.Model
) -> dict[ArrayCandidate, int]:
    """The records axis of each candidate that is declared to have one."""
    if isinstance(records, str):
        axes = {c: c.dims.index(records) for c in found if records in c.dims}
        _refuse_two_records_axes([c.name for c in axes if c.dims.count(records) > 1])
        if not axes:
            dims = sorted({str(d) for c in found for d in c.dims if d})
            known = " (a dim of the model, but of no data)" if records in model.coords else ""
            raise DomainError(
                "no data variable has this dim",
                got=f"{records!r}{known}",
                allowed=", ".join(dims) or "no data variable has dims",
                do=nearest_names(records, dims)
                or "give the likelihood and its data dims=..., or pass records={name: axis}",
            )
        return axes
    names = {name: c for c in found for name in (c.name, *c.aliases)}
    if not isinstance(records, Mapping) or not records:
        raise DomainError(
            "records= names a dim, or the records axis of the data",
            got=repr(records),
            allowed="a dim name, or {data variable: axis}",
        )
    for name, axis in records.items():
        fits = name in names and isinstance(axis, int | np.integer)
        if not fits or not 0 <= axis < len(names[name].shape):
            raise DomainError(
                "records= names an array or an axis that the model does not have",
                got=f"{{{name!r}: {axis}}}",
                allowed=", ".join(f"{c.name} of shape {c.shape}" for c in found),
                do=SUMS_RECORDS if name in names and not names[name].shape else None,
            )
    return {names[name]: axis for name, axis in records.items()}


def record_count(axes: Mapping[ArrayCandidate, int], found: Sequence[ArrayCandidate]) -> int:
    """The number of records, on which all private variables agree."""
    counts = {c.shape[axis] for c, axis in axes.items()}
    if len(counts) != 1:
        raise DomainError(
            "the private variables disagree on the number of records",
            got=", ".join(f"{c.name}: {c.shape[axis]}" for c, axis in axes.items()),
            allowed="one length along the records axis",
            do="check which axis holds the records: records={name: axis}. Samples of different "
            "sizes are one outcome, one below the other, with the number of the sample as pm.Data",
        )
    n = counts.pop()
    if n < 2:
        raise DomainError(
            "too few records",
            got=f"{n} along the records axis",
            allowed="at least 2",
            do="check which axis holds the records",
        )
    return n


def _undeclared_axes(
    found: Sequence[ArrayCandidate],
    axes: Mapping[ArrayCandidate, int],
    public: Sequence[str],
    n: int,
) -> list[Axis]:
    """Data without the declared dim but as long as the records axis; they count as private too."""
    extra = []
    for c in found:
        if c in axes or _is_listed(c, public):
            continue
        fitting = [axis for axis, size in enumerate(c.shape) if size == n]
        if len(fitting) != 1 and (fitting or c.kind == "observed"):
            raise DomainError(
                f"which axis of '{c.name}' holds the records?",
                got=f"shape {c.shape}, {format_count(n, 'record')}",
                allowed="one axis with the records dim, or an entry in records={name: axis}",
                do="give it dims, name its axis, or list it in public=",
            )
        extra += [(c, fitting[0])] if fitting else []
    return extra


def _embedded_constants(model: pm.Model, found: Sequence[ArrayCandidate], n: int) -> list[Axis]:
    """Constants with the records axis, under stable names."""
    skip = [c.variable for c in found]
    embedded = constants_with_axis(factor_variables(model), n, skip)
    _refuse_two_records_axes([k for k, (v, _) in embedded.items() if np.shape(v.data).count(n) > 1])
    return [
        (ArrayCandidate(name, (), variable, (), np.shape(variable.data), None, CONSTANT_KIND), axis)
        for name, (variable, axis) in embedded.items()
    ]


def _declared_domain(candidate: ArrayCandidate, domain: Mapping[str, Any]) -> Any:
    """The declared domain (under any of its names), else the implied support."""
    declared = [domain[name] for name in (candidate.name, *candidate.aliases) if name in domain]
    if len(declared) > 1 and any(as_domain(d) != as_domain(declared[0]) for d in declared[1:]):
        raise DomainError(
            f"'{candidate.name}' is one array under two names with two domains",
            got=", ".join((candidate.name, *candidate.aliases)),
            do="declare it once",
        )
    return declared[0] if declared else candidate.implied


def _is_listed(candidate: ArrayCandidate, names: Sequence[str] | Mapping[str, Any]) -> bool:
    """Whether an array is listed under any of its names."""
    return any(name in names for name in (candidate.name, *candidate.aliases))


def _data_claims(found: Sequence[ArrayCandidate], private: Sequence[Axis]) -> list[str]:
    """Claims about data variables that are public."""
    secret = {c for c, _ in private}
    return [f"'{c.name}' is public" for c in found if c not in secret]


def _array_claims(
    model: pm.Model, shared: Sequence[Any], named: Sequence[ArrayCandidate], constants: str
) -> list[str]:
    """Claims about arrays that no data variable holds."""
    claims = [f"a shared array of shape {np.shape(v.get_value())} is public" for v in shared]
    claims += [f"the constant '{c.name}' baked into the model is public" for c in named]
    for rv, side in (pair for c in named if (pair := censored_by(model, [c.variable]))):
        claims.append(f"the {side} bounds of '{rv.name}' are public, and so is who was censored")
    if constants == "public":
        claims.append("every other array in the likelihood's own code is public")
    return claims


def _refuse_unknown_constants(constants: Any) -> None:
    if not isinstance(constants, str) or constants not in ("private", "public"):
        raise DomainError(
            "constants= is unknown", got=repr(constants)[:60], allowed="private, public"
        )


def _refuse_unused_names(
    declared: ModelCopy,
    found: Sequence[ArrayCandidate],
    embedded: Sequence[Axis],
    private: Sequence[Axis],
) -> None:
    """Refuse a name that no array has, and a domain that would not be used."""
    listed = {name for c in found for name in (c.name, *c.aliases)}
    listed |= {c.name for c, _ in embedded}
    unknown = [name for name in (*declared.domain, *declared.public) if name not in listed]
    if unknown:
        known = sorted(map(declared.shown, listed))
        raise DomainError(
            "a name that is no data variable of the model",
            got=", ".join(map(str, unknown)),
            allowed=", ".join(known),
            do=nearest_names(str(unknown[0]), known) or None,
        )
    secret = {name for c, _ in private for name in (c.name, *c.aliases)}
    unused = [name for name in declared.domain if name not in secret]
    if unused:
        wanted = ", ".join(sorted(map(declared.shown, secret)))
        raise DomainError(
            "a domain for what is public: without the records axis, in public=, or by constants=",
            got=", ".join(map(declared.shown, unused)),
            allowed=f"domains of {wanted or 'private variables'}",
            do="name its records axis if it is private, or leave its domain out",
        )


def _refuse_two_records_axes(names: Sequence[str]) -> None:
    """Refuse an array over pairs of records (distances, adjacency): no row is one record's."""
    if names:
        raise DomainError(
            "an array has the records along two axes, so each entry is about two records",
            got=", ".join(names),
            allowed="one records axis per array",
            do="model the records themselves; pairs of records have no record-wise likelihood",
        )


def _refuse_inner_constants(model: pm.Model, embedded: Sequence[Axis]) -> None:
    """Refuse an array inside an Op's own graph: nothing there can be replaced by a record."""
    outs = factor_variables(model)
    inner = [c for c, _ in embedded if not is_read_outside_inner_graphs(c.variable, outs)]
    if inner:
        raise DomainError(
            "an array with the records axis is baked into an inner graph (Scan, OpFromGraph)",
            got=", ".join(f"an array of shape {c.shape}" for c in inner),
            allowed="arrays that such an Op gets as an argument",
            do="hold it in pm.Data with the records dim and pass it in, or claim "
            "constants='public' if it is no secret",
        )


def _refuse_shared_arrays(shared: Sequence[Any], n: int) -> None:
    """Refuse shared arrays with the records axis that are no data variables of the model."""
    undeclared = [v for v in shared if n in np.shape(v.get_value())]
    if undeclared:
        raise DomainError(
            "a shared variable with the records axis is no data variable of the model",
            got=", ".join(f"shape {np.shape(v.get_value())}" for v in undeclared),
            allowed="pm.Data with the records dim and a declared domain",
            do="hold it in pm.Data, or claim constants='public' if it is no secret",
        )


def clip_into_domain(
    model: pm.Model, sources: Sequence[Source], n: int, records: str | Mapping[str, int]
) -> None:
    """Check and clip the data of a copy in place; what was clipped goes to the log alone."""
    for source in sources:
        data = source.values()
        if not np.issubdtype(data.dtype, np.number) and data.dtype != bool:
            raise DomainError(
                f"'{source.name}' does not hold numbers",
                got=str(data.dtype),
                allowed="numbers; for categories, their codes from a public list",
            )
        if np.issubdtype(data.dtype, np.floating) and not np.isfinite(data).all():
            censored = censored_by(model, [source.variable])
            if censored is not None:
                declared = {s.name: s.domain for s in sources}
                raise censoring_error(*censored, source.name, records, declared)
            raise DomainError(
                f"'{source.name}' holds NaN or infinite entries",
                allowed="finite numbers",
                do="drop incomplete records, or recode them to a declared value, before modeling",
            )
        clipped = np.asarray(_clipped(source, data)).astype(data.dtype)
        moved = np.moveaxis(clipped != data, source.axis, 0).reshape(n, -1).any(axis=1).sum()
        logger.info("privatize: %d of %d rows of %s clipped", moved, n, source.name)
        if moved > n / 2:
            logger.warning("privatize: most rows of %s were clipped; see Scale", source.name)
        store_values(source, clipped)


def _clipped(source: Source, data: np.ndarray) -> np.ndarray:
    """Data in the domain of a variable; a refusal names the variable."""
    try:
        return source.domain.clip(data, source.axis)
    except DomainError as error:
        raise DomainError(
            f"'{source.name}': {error.problem}", got=error.got, allowed=error.allowed, do=error.do
        ) from None


def store_values(source: Source, data: np.ndarray) -> None:
    """Replace the data of a source in a copy of a model."""
    variable: Any = source.variable
    if hasattr(variable, "set_value"):
        variable.set_value(data)
    else:
        variable.data[...] = data


def refuse_per_record_parameters(model: pm.Model, records: str | None) -> None:
    """Refuse parameters with the records dim: each draw of them would describe one record."""
    for rv in model.free_RVs:
        dims = model.named_vars_to_dims.get(rv.name) or ()
        if records is not None and records in dims:
            raise per_record_parameter_error(rv.name, f"dims {dims}")


def check_records_per_unit(records_per_unit: Any, metric: Metric | None) -> int:
    """The number of records of a unit, a whole number; a metric needs one record per unit."""
    is_whole = isinstance(records_per_unit, int | np.integer)
    if not is_whole or isinstance(records_per_unit, bool) or records_per_unit < 1:
        raise DomainError(
            "records_per_unit= says how many records a unit may own",
            got=repr(records_per_unit),
            allowed="a whole number, at least 1",
            do="give a public cap; drop a unit's records beyond it before modeling",
        )
    if metric is not None and records_per_unit > 1:
        raise DomainError(
            "a metric measures whole data sets, whoever owns the records",
            got=f"records_per_unit={records_per_unit} with {metric}",
            allowed="records_per_unit=1",
            do="read the guarantee at a unit's distance: guarantee.at(distance)",
        )
    return int(records_per_unit)


def unit_claims(units: int, relation: str) -> list[str]:
    """Claims about units, and about the number of records where it is protected."""
    counts = [UNCOUNTED_CLAIM] if relation == ADD_REMOVE else []
    public_rows = "" if relation == ADD_REMOVE else "; how many each owns is public"
    owns = [f"one unit owns at most {units} records{public_rows}"] if units > 1 else []
    return [*counts, *owns]
