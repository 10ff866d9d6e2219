"""Publication of tables of counts: charge first, then draw.

A `CountJob` says what a release will hold and how its numbers are made: noisy counts,
Dirichlet draws, or draws from the posterior given noisy counts. `publish` builds the release
once on made-up numbers, charges the ledger, then makes the numbers from the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr

from pymc_private.counts import tables as tables__noise
from pymc_private.counts.denoise.posterior import NoisyTable, TablePosterior, noisy_posterior
from pymc_private.counts.denoise.shrinkage import MixedPosterior
from pymc_private.counts.noise_plan import CountPlan
from pymc_private.counts.tables import CountFamily, CountTables
from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.release import charge
from pymc_private.release.allowed import check_netcdf_names
from pymc_private.release.charge import ReleaseJob, ReleaseOptions
from pymc_private.release.release import Release
from pymc_private.release.storage import package_version
from pymc_private.samplers.randomness import (
    SIMPLEX_GRID,
    SeededRandomness,
    SystemRandomness,
    dirichlet_draws,
    simplex_probabilities,
)

PACKAGES = ("pymc-private", "numpy", "scipy", "opendp")
CLAIM = "proved (real arithmetic, ideal randomness)"
Arrays = dict[str, np.ndarray]
_DRY_RUNS: set[tuple[object, ...]] = set()


@dataclass(frozen=True)
class CountJob:
    """What a release will hold, and how it is made.

    Attributes
    ----------
    families : tuple of Family
    draws : int
    sampler, grid : str
    dtype : type
    ranges : tuple of float or None
        Ends of every number.
    make : callable
        ``(seed or None)`` to arrays by family name, shape (draws, ...). Reads the data.
    told : mapping
        More public facts.
    """

    families: tuple[CountFamily, ...]
    draws: int
    sampler: str
    grid: str
    dtype: type
    ranges: tuple[float, float] | None
    make: Callable[[int | None], Arrays]
    told: Mapping[str, Any] = field(default_factory=dict)


MAX_NUMBERS = 10**8
"""Of one release: with copies, and the file made of it, they take some 6 gigabytes."""


def publish(plan: CountPlan, content: CountJob, where: ReleaseOptions) -> Release:
    """Charge, then draw; see `charge.publish`."""
    offer = ReleaseJob(
        guarantee=plan.guarantee,
        delta=plan.budget.delta,
        exact_delta=Fraction(repr(plan.budget.delta)),
        key=f"{plan.fingerprint}|{content.sampler}",
        label=f"tables of counts ({plan.method})",
        another="other tables, another plan",
        rehearse=lambda: _dry_run(plan, content, where),
        draw=content.make,
        build=lambda values, told: _build_release(plan, content, values, where.name, told),
        depth=2,
    )
    return charge.publish(offer, where)


def _dry_run(plan: CountPlan, content: CountJob, where: ReleaseOptions) -> None:
    """Build the release on made-up numbers: what would fail after the charge fails here.

    It depends on what is public alone, so once is enough.
    """
    check_memory(content.draws, sum(math.prod(family.shape) for family in content.families))
    known = (plan.fingerprint, content.sampler, where.name, where.stored)
    if known in _DRY_RUNS:
        return
    middle = {
        f.name: np.full((content.draws, *f.shape), 1 if content.dtype is int else 0.5)
        for f in content.families
    }
    release = _build_release(plan, content, middle, where.name, {})
    check_netcdf_names(release.posterior)
    if where.stored:
        release.to_bytes()
    _DRY_RUNS.add(known)


def check_memory(draws: int, cells: int) -> None:
    """Refuse more numbers than a release can hold, before any of them is made.

    Raises
    ------
    DomainError
        As many draws of as many cells are too many.
    """
    if draws * cells > MAX_NUMBERS:
        raise DomainError(
            "so many draws of these tables do not fit the memory; nothing was charged",
            got=f"{draws:,} draws of {cells:,} cells",
            allowed=f"{MAX_NUMBERS // cells:,} draws, or {MAX_NUMBERS:,} numbers in all",
            do="ask for fewer draws",
        )


def _build_release(
    plan: CountPlan,
    content: CountJob,
    values: Mapping[str, np.ndarray],
    name: str | None,
    told: Mapping[str, Any] | None,
) -> Release:
    """Name the numbers and add public facts; without any, the release is a seeded one."""
    private = told is not None
    guarantee = plan.guarantee if private else charge.seeded_guarantee(plan.guarantee)
    ends = None if content.ranges is None else list(content.ranges)
    facts = {
        "sampler": content.sampler,
        "claim": CLAIM,
        "draws": content.draws,
        "epsilon": guarantee.epsilon(plan.budget.delta),
        "delta": plan.budget.delta,
        "neighbors": guarantee.neighbors,
        "records": plan.design.unit,
        "counts": plan.facts() | _public_total(plan),
        "grid": content.grid,
        "model": plan.fingerprint,
        "ranges": {f.variable: ends for f in content.families},
        "name": name,
        "versions": {package: package_version(package) for package in PACKAGES},
        "withheld": [],
        "charges": [],
        "budget": None,
        "citations": [],
    }
    facts |= dict(content.told) | dict(told or {})
    return Release(_dataset(content, values), guarantee, facts, private=private)


def _public_total(plan: CountPlan) -> dict[str, float]:
    if plan.design.neighbors == ADD_REMOVE or plan.design.total is None:
        return {}
    return {"total": plan.design.total}


def _dataset(content: CountJob, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for family in content.families:
        array: np.ndarray = np.asarray(values[family.name]).astype(content.dtype)
        variables[family.variable] = (("chain", "draw", *family.dims), array[None])
        coords |= family.coords
    # Without indexes: `check_posterior` makes the dataset anew.
    return xr.Dataset(variables, coords=xr.Coordinates(coords, indexes={}))


DIRICHLET_SAMPLER = "Dirichlet draws by log-Gamma inversion"
NOISE_SAMPLERS = {
    "discrete_gaussian": "discrete Gaussian noise on every count (OpenDP)",
    "laplace": "discrete Laplace noise on every count (OpenDP)",
}
INTEGER_GRID = "whole numbers"


def check_whole_numbers(tables: CountTables) -> None:
    """Refuse counts that integer noise is not for; before anything is charged."""
    for array in tables.counts.values():
        tables__noise.as_integers(array)


def has_whole_counts(tables: CountTables) -> bool:
    """Whether no count has a fractional part."""
    return all(bool((array == np.round(array)).all()) for array in tables.counts.values())


def noisy_count_job(plan: CountPlan, tables: CountTables) -> CountJob:
    """Say how noisy counts are made."""
    found = plan.noise
    if found is None:
        raise Incompatible("this plan adds no noise", got=plan.method)
    _check_planned(plan, tables)
    tables__noise.import_opendp()

    def make(seed: int | None) -> Arrays:
        return {name: array[None] for name, array in _noisy_counts(plan, tables, seed).items()}

    told = {"law": "law of the noisy counts"}
    return CountJob(
        tables.families, 1, NOISE_SAMPLERS[found.law], INTEGER_GRID, int, None, make, told
    )


def dirichlet_job(plan: CountPlan, tables: CountTables) -> CountJob:
    """Say how Dirichlet draws are made."""
    _check_planned(plan, tables)

    def make(seed: int | None) -> Arrays:
        randomness = SystemRandomness() if seed is None else SeededRandomness.from_seed(seed)
        found = {}
        for family, r, alpha in zip(tables.families, plan.r, plan.alpha, strict=True):
            logs = dirichlet_draws(r * tables.counts[family.name] + alpha, plan.draws, randomness)
            found[family.name] = simplex_probabilities(logs)
        return found

    return CountJob(
        tables.families, plan.draws, DIRICHLET_SAMPLER, SIMPLEX_GRID, float, (0.0, 1.0), make
    )


def denoised_job(plan: CountPlan, tables: CountTables) -> CountJob:
    """Say how draws from the posterior given noisy counts are made."""
    found = plan.noise
    if found is None:
        raise Incompatible("this plan adds no noise", got=plan.method)
    _check_planned(plan, tables)
    tables__noise.import_opendp()

    def make(seed: int | None) -> Arrays:
        counts = _noisy_counts(plan, tables, seed)
        noisy = {f.name: NoisyTable(counts[f.name], f.dims) for f in tables.families}
        posterior = noisy_posterior(
            noisy, found.law, found.scale, found.sd, plan.design.total, plan.design.minimum
        )
        generator = np.random.default_rng(seed)
        return {n: draw_probabilities(t, plan.draws, generator) for n, t in posterior.items()}

    sampler = f"posterior given {NOISE_SAMPLERS[found.law]}"
    return CountJob(tables.families, plan.draws, sampler, SIMPLEX_GRID, float, (0.0, 1.0), make)


def _check_planned(plan: CountPlan, tables: CountTables) -> None:
    """Refuse tables that are not those of the price; before anything is charged."""
    if tables.families != plan.design.families:
        raise Incompatible(
            "these are not the tables that the plan has a price for; nothing was charged",
            got=", ".join(f.name for f in tables.families),
            allowed=", ".join(f.name for f in plan.design.families) + ", of its shapes and labels",
            do="plan anew; an estimator whose declarations changed is fitted anew",
        )


def _noisy_counts(plan: CountPlan, tables: CountTables, seed: int | None) -> Arrays:
    found = plan.noise
    if found is None:
        raise Incompatible("this plan adds no noise", got=plan.method)
    if seed is None:
        return tables__noise.add_noise(tables.counts, found.law, found.scale)
    generator = np.random.default_rng(seed)
    return {
        n: tables__noise.add_seeded_noise(a, found.law, found.scale, generator)
        for n, a in tables.counts.items()
    }


def draw_probabilities(
    table: TablePosterior | MixedPosterior, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw probabilities from a posterior given noisy counts."""
    parameters = table.draw(draws, generator)
    logs = dirichlet_draws(parameters, 1, SeededRandomness(generator))[0]
    return simplex_probabilities(logs)
