"""Read a declaration: which arrays are private, along which axis, within which domain."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm

from pymc_private.errors import DomainError
from pymc_private.models.domain import as_domain
from pymc_private.models.sources import (
    Candidate,
    Source,
    candidates,
    constants_with_axis,
    missing_domain,
)

logger = logging.getLogger("pymc_private")


def sources_of(
    model: pm.Model,
    records: str | Mapping[str, int] | None,
    domain: dict[str, Any],
    public: Sequence[str],
    constants: str,
) -> tuple[list[Source], int, list[str]]:
    """Private variables of `model`, the number of records, and the claims made on the way."""
    found = candidates(model)
    if records is None:
        raise missing_domain(found, [], None, domain)
    _refuse_unknown_names(found, domain, public, model, constants)
    axes = _axes(found, records, model)
    n = _record_count(axes, found)
    claims = [f"'{name}' is public" for name in public]
    private = [(c, axis) for c, axis in axes.items() if not _named(c, public)]
    private += [(c, a) for c, a in _undeclared_axes(found, axes, public, records, n)]
    baked = _baked(model, found, n) if constants == "private" else []
    if constants == "public":
        claims += [
            f"the constant '{c.name}' baked into the model is public"
            for c, _ in _baked(model, found, n)
        ]
    elif constants != "private":
        raise DomainError("constants=", got=repr(constants), allowed="'private' or 'public'")
    missing = [c.name for c, _ in private + baked if _domain_of(c, domain) is None]
    if missing:
        raise missing_domain(found + [c for c, _ in baked], missing, _word(records), domain)
    sources = [
        Source(c.name, c.aliases, c.variable, axis, c.shape, as_domain(_domain_of(c, domain)))
        for c, axis in private + baked
    ]
    return sources, n, claims


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


def _refuse_unknown_names(
    found: Sequence[Candidate],
    domain: Mapping[str, Any],
    public: Sequence[str],
    model: pm.Model,
    constants: str,
) -> None:
    known = {name for c in found for name in (c.name, *c.aliases)}
    unknown = [name for name in (*domain, *public) if name not in known]
    unknown = [name for name in unknown if not name.startswith("constant_")]
    if unknown:
        raise DomainError(
            "a name that is no data variable of the model",
            got=", ".join(unknown),
            allowed=", ".join(sorted(known)),
        )


def _axes(
    found: Sequence[Candidate], records: str | Mapping[str, int], model: pm.Model
) -> dict[Candidate, int]:
    """The records axis of each candidate that is declared to have one."""
    if isinstance(records, str):
        axes = {c: c.dims.index(records) for c in found if records in c.dims}
        _refuse_pairs([c.name for c in axes if c.dims.count(records) > 1])
        if not axes:
            dims = sorted({str(d) for c in found for d in c.dims if d} | set(model.coords))
            raise DomainError(
                "no data variable has this dim",
                got=repr(records),
                allowed=", ".join(dims) or "the model has no dims",
                do="give the likelihood and its data dims=..., or pass records={name: axis}",
            )
        return axes
    names = {name: c for c in found for name in (c.name, *c.aliases)}
    for name, axis in records.items():
        if name not in names or not 0 <= axis < len(names[name].shape):
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
    return counts.pop()


def _undeclared_axes(
    found: Sequence[Candidate],
    axes: Mapping[Candidate, int],
    public: Sequence[str],
    records: str | Mapping[str, int],
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
                got=f"shape {c.shape}, {n} records",
                allowed="one axis with the records dim, or an entry in records={name: axis}",
                do="give it dims, name its axis, or list it in public=",
            )
        extra += [(c, fitting[0])] if fitting else []
    return extra


def _baked(model: pm.Model, found: Sequence[Candidate], n: int) -> list[tuple[Candidate, int]]:
    """Constants with the records axis, under stable names."""
    outs = [*model.observed_RVs, *model.potentials, *model.free_RVs]
    skip = [c.variable for c in found]
    baked = constants_with_axis(outs, n, skip)
    _refuse_pairs([k for k, (v, _) in baked.items() if np.shape(v.data).count(n) > 1])
    return [
        (Candidate(name, (), variable, (), np.shape(variable.data), None, "constant"), axis)
        for name, (variable, axis) in baked.items()
    ]


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
        _store(source, clipped)


def _store(source: Source, data: np.ndarray) -> None:
    variable: Any = source.variable
    if hasattr(variable, "set_value"):
        variable.set_value(data)
    else:
        variable.data[...] = data
