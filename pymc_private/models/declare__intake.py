"""What `privatize` takes in, and the structures it refuses by name."""

from __future__ import annotations

import pymc as pm
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from pytensor.graph.traversal import ancestors
from pymc_private.errors import DomainError, PymcPrivateError, Unsupported
from pymc_private.models.bambi__formula import fitted_terms
from pymc_private.models.bambi__terms import is_bambi, named_terms
from pymc_private.models.compat import copy_model
from pymc_private.models.data_variables import candidates

Result = TypeVar("Result")


def derived(logps: Callable[[], Result]) -> Result:
    """Derive log-densities; PyMC's refusal of a distribution that has none is ours.

    Raises
    ------
    Unsupported
    """
    try:
        return logps()
    except (NotImplementedError, RuntimeError) as error:
        if isinstance(error, PymcPrivateError):
            raise
        raise Unsupported(
            "PyMC derives no log-density of a distribution of this model",
            got=str(error).splitlines()[0][:200] if str(error) else type(error).__name__,
            allowed="distributions whose log-density is known, or derived from dist=",
            do="pass logp= to the CustomDist, or write it with distributions of PyMC",
        ) from error


def resolve(model: Any) -> pm.Model:
    """The PyMC model meant: given, of the context, or inside a Bambi model."""
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
    if is_bambi(model):
        if not model.built:
            model.build()
        return model.backend.model
    raise DomainError("this is not a model", got=type(model).__name__, allowed="pymc.Model")


def names_of(public: Any) -> tuple[str, ...]:
    """The names listed in public=; one name may come by itself.

    Raises
    ------
    DomainError
        Something that holds no names: letters of a word must not be taken for them.
    """
    if isinstance(public, str):
        return (public,)
    if isinstance(public, Iterable) and not isinstance(public, bytes):
        names = tuple(public)
        if all(isinstance(name, str) for name in names):
            return names
    raise DomainError(
        "public= names variables that are not secret",
        got=type(public).__name__,
        allowed='names: public=["age"]',
    )


def domains_of(domain: Any) -> dict[str, Any]:
    """The declared domains by name.

    Raises
    ------
    DomainError
        A domain that does not say of which variable it is.
    """
    if domain is None:
        return {}
    if isinstance(domain, Mapping):
        return dict(domain)
    raise DomainError(
        "domain= gives the domain of each private variable by its name",
        got=type(domain).__name__,
        allowed='a mapping: domain={"age": pmp.Interval(18, 99)}',
    )


@dataclass(frozen=True)
class Taken:
    """A copy of a model, its starts, and what was declared, in the names of its data variables."""

    copy: pm.Model
    initvals: Mapping[str, Any]
    domain: dict[str, Any]
    public: tuple[str, ...]
    claims: list[str]


def take(
    model: Any, resolved: pm.Model, domain: Any, public: str | Sequence[str], constants: str
) -> Taken:
    """Copy a model; of a Bambi one, the variables of its formula become data variables."""
    domain, public = domains_of(domain), names_of(public)
    fitted = dict.fromkeys(fitted_terms(model)) if is_bambi(model) else ()
    claims = [
        f"what '{term}' computes with was fixed without looking at the data" for term in fitted
    ]
    if not is_bambi(model) or constants == "public":
        copy, initvals = copy_model(resolved)
        return Taken(copy, initvals, dict(domain), tuple(public), claims)
    terms = named_terms(model, resolved)
    known = set(terms.model.named_vars) & {c.name for c in candidates(terms.model)}
    names = {k: v for k, v in terms.names.items() if k not in known}
    renamed = {names.get(key, key): value for key, value in domain.items()}
    secret = {d: v for d, v in terms.domains.items() if d not in renamed}
    given = tuple(names.get(key, key) for key in public)
    implied = {d: v for d, v in secret.items() if d not in given}
    return Taken(terms.model, terms.initvals, implied | renamed, given, terms.claims + claims)


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


def refuse_record_latents(model: pm.Model, records: str | None) -> None:
    """Refuse parameters with the records dim: their draws would be about one person each."""
    for rv in model.free_RVs:
        dims = model.named_vars_to_dims.get(rv.name) or ()
        if records is not None and records in dims:
            raise record_latent(rv.name, f"dims {dims}")


def record_latent(name: str, got: str) -> Unsupported:
    """The refusal of a parameter that belongs to single records."""
    return Unsupported(
        f"the parameter '{name}' has one entry per record",
        got=got,
        allowed="parameters shared by all records",
        do="integrate it out of the likelihood (for example a mixture or an overdispersed "
        "likelihood) so that only shared parameters are drawn",
    )
