"""The job of releasing draws: what every `Release` says, and the rehearsal of its storage.

Rooms that draw state what is their own (guarantee, key, a function that draws, names and facts of
the draws); `draws_job` makes a `ReleaseJob` of it, the argument of `charge.publish`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import xarray as xr

from pymc_private.errors import DomainError, PymcPrivateError
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.release.allowed import check_netcdf_names
from pymc_private.release.charge import ReleaseJob, seeded_guarantee
from pymc_private.release.release import Release
from pymc_private.release.storage import REPORTED_PACKAGES, package_version

LedgerFacts: TypeAlias = Mapping[str, Any] | None
"""Public facts of the ledger that was charged; None for what is seeded and not private."""
Contents: TypeAlias = tuple[xr.Dataset, Mapping[str, Any]]
"""Draws with their names, and the facts that are their own."""


def publication_facts(
    promised: Guarantee,
    delta: float,
    name: str | None,
    ledger_facts: LedgerFacts,
    packages: Sequence[str] = REPORTED_PACKAGES,
) -> dict[str, Any]:
    """The facts of all that is published: promise, name, versions, charges of the ledger."""
    return {
        "epsilon": promised.epsilon(delta),
        "delta": delta,
        "neighbors": promised.neighbors,
        "name": name,
        "versions": {package: package_version(package) for package in packages},
        "charges": [],
        "budget": None,
        "citations": [],
    } | dict(ledger_facts or {})


def promised_guarantee(guarantee: Guarantee, ledger_facts: LedgerFacts) -> Guarantee:
    """The guarantee of what was charged; none of what is seeded."""
    return seeded_guarantee(guarantee) if ledger_facts is None else guarantee


def build_release(
    contents: Contents,
    guarantee: Guarantee,
    delta: float,
    name: str | None,
    ledger_facts: LedgerFacts,
    packages: Sequence[str] = REPORTED_PACKAGES,
) -> Release:
    """The release of these draws; without facts of a ledger it is a seeded one."""
    promised = promised_guarantee(guarantee, ledger_facts)
    facts = publication_facts(promised, delta, name, ledger_facts, packages)
    draws, own = contents
    return Release(draws, promised, dict(own) | facts, private=ledger_facts is not None)


def check_storable(release: Release) -> None:
    """Refuse before the charge what no file could hold after it.

    Raises
    ------
    DomainError
        A name, or a label, that cannot be stored.
    """
    try:
        check_netcdf_names(release.posterior)
        release.to_bytes()
    except PymcPrivateError:
        raise
    except Exception as cause:  # of xarray or HDF5; no data were read
        raise DomainError(
            "this release could not be stored; nothing was charged",
            got=f"{type(cause).__name__}: {cause}",
            do="rename variables, dims or labels that a netCDF file cannot hold",
        ) from cause


def draws_job(
    guarantee: Guarantee,
    delta: float,
    *,
    key: str,
    label: str,
    another: str,
    name: str | None,
    draw: Callable[[int | None], Any],
    contents: Callable[[Any], Contents],
    made_up: Callable[[], Any],
    exact_delta: Fraction | None = None,
    packages: Sequence[str] = REPORTED_PACKAGES,
    depth: int = 2,
) -> ReleaseJob[Release]:
    """The job whose product is a `Release`; the rehearsal builds and stores it with made-up draws.

    Parameters
    ----------
    guarantee, delta, key, label, another, draw, exact_delta, depth
        As in `ReleaseJob`.
    name : str or None
        Of the release.
    contents : callable
        What `draw` gave to the dataset of the draws and the facts that are their own.
    made_up : callable
        Numbers in the place of what `draw` gives, without data.
    packages : sequence of str
        Those whose versions are told.
    """

    def build(values: Any, ledger_facts: LedgerFacts) -> Release:
        return build_release(contents(values), guarantee, delta, name, ledger_facts, packages)

    return ReleaseJob(
        guarantee=guarantee,
        delta=delta,
        exact_delta=Fraction(delta) if exact_delta is None else exact_delta,
        key=key,
        label=label,
        another=another,
        rehearse=lambda: check_storable(build(made_up(), {})),
        draw=draw,
        build=build,
        restore=Release.from_bytes,
        depth=depth,
    )
