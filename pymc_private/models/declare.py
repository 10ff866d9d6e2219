"""Read a declaration: which arrays are private, along which axis, within which domain."""

from __future__ import annotations

import logging
import numpy as np
import pymc as pm
from collections.abc import Mapping, Sequence
from typing import Any
from pytensor.graph.basic import Variable
from pymc_private.errors import DomainError
from pymc_private.models.domains import as_domain
from pymc_private.models.data_variables import CONSTANT, Candidate, Source, candidates, constants_with_axis, is_within, missing_domain, plain_shared
from pymc_private.models.distributions import refuse_transforms
from pymc_private.privacy.rounding__printing import counted

logger = logging.getLogger("pymc_private")
logger.addHandler(logging.NullHandler())  # facts about the data go to a log or nowhere


def sources_of(
    model: pm.Model,
    records: str | Mapping[str, int] | None,
    domain: dict[str, Any],
    public: Sequence[str],
    constants: str,
    counts_records: bool = True,
) -> tuple[list[Source], int, list[str], list[Variable]]:
    """What a declaration says of a model.

    Parameters
    ----------
    model : pymc.Model
    records, domain, public, constants
        As for `privatize`.
    counts_records : bool
        Whether the number of records is public. If not, no claim names a constant because it is as
        long as they are many.

    Returns
    -------
    list of Source
        The private variables.
    int
        The number of records.
    list of str
        Claims made on the way.
    list of Variable
        Constants of the graph that are named in `public`.
    """
    found = candidates(model)
    if records is None:
        raise missing_domain(found, [], None, domain)
    if constants not in ("private", "public"):
        raise DomainError("constants=", got=repr(constants), allowed="'private' or 'public'")
    axes = _axes(found, records, model)
    n = _record_count(axes, found)
    private = [(c, axis) for c, axis in axes.items() if not _named(c, public)]
    private += [(c, a) for c, a in _undeclared_axes(found, axes, public, n)]
    arrays = _baked(model, found, n)
    opened = [pair for pair in arrays if _named(pair[0], public)]
    baked = [pair for pair in arrays if pair not in opened] if constants == "private" else []
    _refuse_inner(model, baked)
    refuse_transforms(model)
    shared = plain_shared(_roots(model), [c.variable for c in found])
    if constants == "private":
        _refuse_shared(shared, n)
    _refuse_names(found, arrays, private + baked, domain, public)
    secret = {c for c, _ in private}
    said = arrays if constants == "public" and counts_records else opened
    claims = [f"'{c.name}' is public" for c in found if c not in secret]
    claims += _claims_of_arrays(shared, [c.name for c, _ in said], constants)
    missing = [c.name for c, _ in private + baked if _domain_of(c, domain) is None]
    if missing:
        raise missing_domain(found + [c for c, _ in baked], missing, _word(records), domain)
    sources = [
        Source(c.name, c.aliases, c.variable, axis, c.shape, as_domain(_domain_of(c, domain)))
        for c, axis in private + baked
    ]
    return sources, n, claims, [c.variable for c, _ in opened]


def _claims_of_arrays(shared: Sequence[Any], named: Sequence[str], constants: str) -> list[str]:
    """What is said of arrays that no data variable holds."""
    claims = [f"a shared array of shape {np.shape(v.get_value())} is public" for v in shared]
    claims += [f"the constant '{name}' baked into the model is public" for name in named]
    if constants == "public":
        claims.append("every other array in the likelihood's own code is public")
    return claims


def _word(records: str | Mapping[str, int]) -> str | None:
    return records if isinstance(records, str) else None


def _named(candidate: Candidate, names: Sequence[str] | Mapping[str, Any]) -> bool:
    return any(name in names for name in (candidate.name, *candidate.aliases))


def _domain_of(candidate: Candidate, domain: Mapping[str, Any]) -> Any:
    """The declared domain (under any of its names), else the implied support."""
    given = [domain[name] for name in (candidate.name, *candidate.aliases) if name in domain]
    if len(given) > 1 and any(as_domain(g) != as_domain(given[0]) for g in given[1:]):
        raise DomainError(
            f"'{candidate.name}' is one array under two names with two domains",
            got=", ".join((candidate.name, *candidate.aliases)),
            do="declare it once",
        )
    return given[0] if given else candidate.implied


def _refuse_names(
    found: Sequence[Candidate],
    arrays: Sequence[tuple[Candidate, int]],
    private: Sequence[tuple[Candidate, int]],
    domain: Mapping[str, Any],
    public: Sequence[str],
) -> None:
    """A name that means nothing, or a domain that nobody would read, is a mistake."""
    listed = {name for c in found for name in (c.name, *c.aliases)}
    listed |= {c.name for c, _ in arrays}
    unknown = [name for name in domain if name not in listed]
    unknown += [name for name in public if name not in listed]
    if unknown:
        raise DomainError(
            "a name that is no data variable of the model",
            got=", ".join(map(str, unknown)),
            allowed=", ".join(sorted(listed)),
        )
    secret = {name for c, _ in private for name in (c.name, *c.aliases)}
    idle = [name for name in domain if name not in secret]
    if idle:
        raise DomainError(
            "a domain for what is public: without the records axis, in public=, or by constants=",
            got=", ".join(idle),
            allowed=f"domains of {', '.join(sorted(secret)) or 'private variables'}",
            do="name its records axis if it is private, or leave its domain out",
        )


def _axes(
    found: Sequence[Candidate], records: str | Mapping[str, int], model: pm.Model
) -> dict[Candidate, int]:
    """The records axis of each candidate that is declared to have one."""
    if isinstance(records, str):
        axes = {c: c.dims.index(records) for c in found if records in c.dims}
        _refuse_pairs([c.name for c in axes if c.dims.count(records) > 1])
        if not axes:
            dims = sorted({str(d) for c in found for d in c.dims if d})
            known = " (a dim of the model, but of no data)" if records in model.coords else ""
            raise DomainError(
                "no data variable has this dim",
                got=f"{records!r}{known}",
                allowed=", ".join(dims) or "no data variable has dims",
                do="give the likelihood and its data dims=..., or pass records={name: axis}",
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
            )
    return {names[name]: axis for name, axis in records.items()}


def _refuse_pairs(names: Sequence[str]) -> None:
    """An array over pairs of records (distances, adjacency) has no row of one record's own."""
    if names:
        raise DomainError(
            "an array has the records along two axes, so each entry is about two records",
            got=", ".join(names),
            allowed="one records axis per array",
            do="model the records themselves; pairs of records have no record-wise likelihood",
        )


def _record_count(axes: Mapping[Candidate, int], found: Sequence[Candidate]) -> int:
    counts = {c.shape[axis] for c, axis in axes.items()}
    if len(counts) != 1:
        raise DomainError(
            "the private variables disagree on the number of records",
            got=", ".join(f"{c.name}: {c.shape[axis]}" for c, axis in axes.items()),
            allowed="one length along the records axis",
        )
    n = counts.pop()
    if n < 2:
        raise DomainError(
            "too few records",
            got=f"{n} along the records axis",
            allowed="at least 2: with one record nothing in the model is public",
            do="check which axis holds the records",
        )
    return n


def _undeclared_axes(
    found: Sequence[Candidate],
    axes: Mapping[Candidate, int],
    public: Sequence[str],
    n: int,
) -> list[tuple[Candidate, int]]:
    """Data without the dim but as long as the records axis are private too: nothing slips by."""
    extra = []
    for c in found:
        if c in axes or _named(c, public):
            continue
        fitting = [axis for axis, size in enumerate(c.shape) if size == n]
        if len(fitting) != 1 and (fitting or c.kind == "observed"):
            raise DomainError(
                f"which axis of '{c.name}' holds the records?",
                got=f"shape {c.shape}, {counted(n, 'record')}",
                allowed="one axis with the records dim, or an entry in records={name: axis}",
                do="give it dims, name its axis, or list it in public=",
            )
        extra += [(c, fitting[0])] if fitting else []
    return extra


def _baked(model: pm.Model, found: Sequence[Candidate], n: int) -> list[tuple[Candidate, int]]:
    """Constants with the records axis, under stable names."""
    skip = [c.variable for c in found]
    baked = constants_with_axis(_roots(model), n, skip)
    _refuse_pairs([k for k, (v, _) in baked.items() if np.shape(v.data).count(n) > 1])
    return [
        (Candidate(name, (), variable, (), np.shape(variable.data), None, CONSTANT), axis)
        for name, (variable, axis) in baked.items()
    ]


def _roots(model: pm.Model) -> list[Variable]:
    return [*model.observed_RVs, *model.potentials, *model.free_RVs]


def _refuse_inner(model: pm.Model, baked: Sequence[tuple[Candidate, int]]) -> None:
    """Refuse an array inside an Op's own graph: nothing there can be swapped for a record."""
    inner = [c for c, _ in baked if not is_within(c.variable, _roots(model))]
    if inner:
        raise DomainError(
            "an array with the records axis is baked into an inner graph (Scan, OpFromGraph)",
            got=", ".join(f"an array of shape {c.shape}" for c in inner),
            allowed="arrays that such an Op gets as an argument",
            do="hold it in pm.Data with the records dim and pass it in, or claim "
            "constants='public' if it is no secret",
        )


def _refuse_shared(shared: Sequence[Any], n: int) -> None:
    """Refuse shared arrays with the records axis that the model does not know as data."""
    odd = [v for v in shared if n in np.shape(v.get_value())]
    if odd:
        raise DomainError(
            "a shared variable with the records axis is no data variable of the model",
            got=", ".join(f"shape {np.shape(v.get_value())}" for v in odd),
            allowed="pm.Data with the records dim and a declared domain",
            do="hold it in pm.Data, or claim constants='public' if it is no secret",
        )


def clip_into_domain(sources: Sequence[Source], n: int) -> None:
    """Check and clip the copy's data in place; what was clipped is for the curator's log alone."""
    for source in sources:
        data = source.values()
        if not np.issubdtype(data.dtype, np.number) and data.dtype != bool:
            raise DomainError(f"'{source.name}' does not hold numbers", got=str(data.dtype))
        if np.issubdtype(data.dtype, np.floating) and not np.isfinite(data).all():
            raise DomainError(
                f"'{source.name}' holds NaN or infinite entries",
                allowed="finite numbers",
                do="drop incomplete records, or recode them to a declared value, before modeling",
            )
        clipped = np.asarray(source.domain.clip(data, source.axis)).astype(data.dtype)
        moved = np.moveaxis(clipped != data, source.axis, 0).reshape(n, -1).any(axis=1).sum()
        logger.info("privatize: %d of %d rows of %s clipped", moved, n, source.name)
        if moved > n / 2:
            logger.warning("privatize: most rows of %s were clipped; see Scale", source.name)
        store(source, clipped)


def store(source: Source, data: np.ndarray) -> None:
    """Put data in the place of a copy's."""
    variable: Any = source.variable
    if hasattr(variable, "set_value"):
        variable.set_value(data)
    else:
        variable.data[...] = data
