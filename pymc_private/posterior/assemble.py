"""From arrays of draws to a Release: names, dims, deterministics, public facts."""

from __future__ import annotations

import os
import numpy as np
import xarray as xr
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any
from pymc_private.errors import DomainError, Incompatible, PymcPrivateError, Unsupported
from pymc_private.posterior.assemble__computed import deterministics
from pymc_private.posterior.assemble__guards import check_names
from pymc_private.release.allowed__luggage import check_posterior
from pymc_private.release.release import Release
from pymc_private.release.storage import try_place
from pymc_private.models.add_remove import record_dims
from pymc_private.models.fingerprint import model_fingerprint
from pymc_private.posterior.plan import Plan
from pymc_private.models.private_model import PrivateModel
from pymc_private.privacy import Guarantee
from pymc_private.samplers.randomness import GRID, OPEN_GRID

PACKAGES = ("pymc-private", "pymc", "pytensor", "arviz", "numpy", "scipy")
OWN_GRID = "the points of the sampler's own public grid: see the assumptions"


def assemble(
    plan: Plan,
    values: Mapping[str, np.ndarray],
    guarantee: Guarantee,
    private: bool,
    name: str | None,
    ledger: Mapping[str, Any] | None = None,
) -> Release:
    """Build the release: draws by name, deterministics recomputed, facts from the plan alone.

    ``ledger`` holds the public facts of the ledger that paid: charges, budget and head.
    """
    model = plan.private
    found = deterministics(model, values, lambda d: _fits(model, d))
    posterior = _dataset(model, dict(values) | found.values)
    facts = {
        "sampler": plan.sampler,
        "claim": plan.method.claim(model),
        "draws": plan.draws,
        "epsilon": plan.guarantee.epsilon(plan.delta) if private else float("inf"),
        "delta": plan.delta,
        "neighbors": model.neighbors,
        "records": model.records,
        "domain": model.domain,
        "trim": {k: _ends(b.lower, b.upper) for k, b in model.region.items()},
        "power": str(model.power),
        "clip": None if model.graph.clip is None else list(model.graph.clip),
        "withheld": [*found.private, *found.failed],
        "grid": OWN_GRID if plan.certificate.terms.discrete else f"{GRID}; {OPEN_GRID}",
        "model": model_fingerprint(model),
        "versions": {package: version_of(package) for package in PACKAGES},
        "name": name,
        "certificate": repr(plan.certificate),
        "charges": [],
        "budget": None,
        "ranges": {k: _ends(b.lower, b.upper) for k, b in model.box.items()},
        "citations": [],
    } | dict(ledger or {})
    if found.failed:
        facts["uncomputed"] = found.failed
    return Release(posterior, guarantee, facts, private=private)


def rehearse(plan: Plan, name: str | None) -> None:
    """Build the release on the middle of the box: what would fail after the charge fails here.

    Reads no data.

    Raises
    ------
    DomainError
        A name that cannot be stored, or whatever else would keep a release from being stored.
    Unsupported
        A Deterministic that cannot be computed.
    """
    middle = {
        key: np.repeat(_inside(b.lower, b.upper)[None], plan.draws, axis=0)
        for key, b in plan.private.box.items()
    }
    try:
        release = assemble(plan, middle, plan.guarantee, True, name)
        check_names(release.posterior)
        release.to_bytes()
    except PymcPrivateError:
        raise
    except Exception as cause:  # of xarray or HDF5; no data were read
        raise DomainError(
            "this release could not be stored; nothing was charged",
            got=f"{type(cause).__name__}: {cause}",
            do="rename variables, dims or labels that a netCDF file cannot hold",
        ) from cause
    failed = release.facts.get("uncomputed")
    if failed:
        raise Unsupported(
            "a Deterministic cannot be computed; nothing was charged",
            got=", ".join(failed),
            do="leave it out of the model and compute it from the released draws: that is free",
        )


def _inside(lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """A point of a box: the middle, or one next to its only end."""
    low = np.where(np.isfinite(lower), lower, np.where(np.isfinite(upper), upper - 2.0, -1.0))
    return (low + np.where(np.isfinite(upper), upper, low + 2.0)) / 2.0


def _ends(lower: np.ndarray, upper: np.ndarray) -> list[Any]:
    return [np.asarray(lower, float).tolist(), np.asarray(upper, float).tolist()]


@lru_cache(maxsize=16)
def version_of(package: str) -> str:
    """Give the version of an installed package, as text."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "run from its source folder"


def _dataset(private: PrivateModel, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    """Dims and coords as the model names them; labels of the records never enter."""
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    coords: dict[str, Any] = {}
    unlabeled = record_dims(private)
    for name, array in values.items():
        dims = private.base.named_vars_to_dims.get(name) or [None] * (array.ndim - 1)
        named = tuple(d or f"{name}_dim_{i}" for i, d in enumerate(dims))
        variables[name] = (("chain", "draw", *named), array[None])
        for dim, size in zip(named, array.shape[1:], strict=True):
            labels = None if dim in unlabeled else private.base.coords.get(dim)
            coords[dim] = np.arange(size) if labels is None else np.asarray(labels)
    return xr.Dataset(variables, coords=coords)


def _fits(private: PrivateModel, values: Mapping[str, np.ndarray]) -> None:
    """Raise if a release could not hold these arrays."""
    check_posterior(_dataset(private, values), records=private.records)


def check_destination(save: str | os.PathLike[str] | None, *, overwrite: bool) -> None:
    """Refuse a place that cannot be written, before anything is charged.

    Raises
    ------
    DomainError
        No such folder, or it cannot be written, or no file is named.
    Incompatible
        A file is there already.
    """
    if save is None:
        return
    try:
        is_folder, exists = Path(save).is_dir(), Path(save).exists()
        if not is_folder:
            try_place(save)
    except (OSError, ValueError) as error:  # a name with a null character is a ValueError
        raise DomainError(
            "the release cannot be saved there",
            got=f"{Path(save).name} in {Path(save).absolute().parent.name}: {type(error).__name__}",
            allowed="a file in a folder that exists and can be written",
            do="make the folder first; nothing was charged",
        ) from error
    if is_folder:
        raise DomainError("a release is saved as a file", got=f"the folder {Path(save).name}")
    if exists and not overwrite:
        raise Incompatible(
            "a file is there already, and a new draw would replace it",
            got=Path(save).name,
            allowed="a new file name",
            do="choose another file, load this one with pmp.load, or say again=True to replace it",
        )


def save_as(
    release: Release, save: str | os.PathLike[str] | None, *, overwrite: bool = False
) -> Release:
    """Save a release that is already stored in the ledger."""
    if save is not None:
        release.save(save, overwrite=overwrite)
    return release
