"""Publication of tables of counts: charge first, then draw.

A `CountJob` says what a release will hold and how its numbers are made: noisy counts,
Dirichlet draws, or draws from the posterior given noisy counts. `publish` builds the release
once on made-up numbers, charges the ledger, then makes the numbers from the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import xarray as xr

from pymc_private.counts.denoise.families import TablePosterior
from pymc_private.counts.denoise.posterior import NoisyTable, noisy_posterior
from pymc_private.counts.denoise.shrinkage import MixedPosterior
from pymc_private.counts.noise_plan import CountPlan
from pymc_private.counts.tables import (
    CountFamily,
    CountTables,
    add_noise,
    add_seeded_noise,
    as_integers,
    check_minimum,
    import_opendp,
)
from pymc_private.errors import DomainError, Incompatible
from pymc_private.privacy.neighbors import ADD_REMOVE
from pymc_private.privacy.noisy_counts import NoisePlan
from pymc_private.release import charge
from pymc_private.release.charge import ReleaseOptions
from pymc_private.release.draws_job import draws_job
from pymc_private.release.release import Release
from pymc_private.samplers.randomness import (
    SIMPLEX_GRID,
    SeededRandomness,
    SystemRandomness,
    dirichlet_draws,
    simplex_probabilities,
)

PACKAGES = ("pymc-private", "numpy", "scipy", "opendp")
CLAIM = "proved (real arithmetic, ideal randomness)"
MAX_NUMBERS = 10**8
"""Numbers in one release at most: with copies, and the file, they take some 6 gigabytes."""
DIRICHLET_SAMPLER = "Dirichlet draws by log-Gamma inversion"
NOISE_SAMPLERS = {
    "discrete_gaussian": "discrete Gaussian noise on every count (OpenDP)",
    "laplace": "discrete Laplace noise on every count (OpenDP)",
}
INTEGER_GRID = "whole numbers"
FamilyArrays = dict[str, np.ndarray]
_REHEARSED: set[tuple[object, ...]] = set()


@dataclass(frozen=True)
class CountJob:
    """What a release of counts will hold, and how its numbers are made.

    Attributes
    ----------
    families : tuple of CountFamily
    draws : int
    sampler, grid : str
    dtype : type
    ranges : tuple of float or None
        Bounds of every number.
    make : callable
        ``(seed or None)`` to arrays by family name, shape (draws, ...). Reads the data.
    extra_facts : mapping
        Public facts beside those of the plan.
    prepare : callable
        Counts and checks a table, after the ledger was asked and before it is charged.
    unit : str or None
        The column whose units were checked: those of another one were not, so that a name belongs
        to one.
    """

    families: tuple[CountFamily, ...]
    draws: int
    sampler: str
    grid: str
    dtype: type
    ranges: tuple[float, float] | None
    make: Callable[[int | None], FamilyArrays]
    extra_facts: Mapping[str, Any] = field(default_factory=dict)
    prepare: Callable[[], None] = lambda: None
    unit: str | None = None

    def key(self, plan: CountPlan) -> str:
        """Everything public that the numbers depend on."""
        known = f"{plan.fingerprint}|{self.sampler}"
        return known if self.unit is None else f"{known}|{self.unit}"


def publish(plan: CountPlan, job: CountJob, options: ReleaseOptions) -> Release:
    """Charge, then draw; see `charge.publish`."""

    def draw(seed: int | None) -> FamilyArrays:
        if seed is not None:  # no ledger is asked, and nothing was rehearsed
            job.prepare()
        return job.make(seed)

    release_job = draws_job(
        plan.guarantee,
        plan.budget.delta,
        exact_delta=Fraction(repr(plan.budget.delta)),
        key=job.key(plan),
        label=f"tables of counts ({plan.method})",
        another="other tables, another plan, other units",
        name=options.name,
        draw=draw,
        contents=lambda values: (_dataset(job, values), _facts(plan, job)),
        made_up=lambda: _made_up_numbers(job),
        packages=PACKAGES,
        depth=3,
    )
    rehearse = release_job.rehearse
    known = (plan.fingerprint, job.sampler, options.name)

    def rehearse_once() -> None:  # its outcome depends on public facts alone
        if known not in _REHEARSED:
            rehearse()
            _REHEARSED.add(known)
        job.prepare()

    return charge.publish(replace(release_job, rehearse=rehearse_once), options)


def _made_up_numbers(job: CountJob) -> FamilyArrays:
    """Numbers in the place of the draws."""
    check_memory(job.draws, sum(math.prod(family.shape) for family in job.families))
    number = 1 if job.dtype is int else 0.5
    return {f.name: np.full((job.draws, *f.shape), number) for f in job.families}


def check_memory(draws: int, cells: int) -> None:
    """Refuse more numbers than a release can hold, before any of them is made."""
    if draws * cells > MAX_NUMBERS:
        raise DomainError(
            "so many draws of these tables do not fit the memory; nothing was charged",
            got=f"{draws:,} draws of {cells:,} cells",
            allowed=f"{MAX_NUMBERS // cells:,} draws, or {MAX_NUMBERS:,} numbers in all",
            do="ask for fewer draws",
        )


def _facts(plan: CountPlan, job: CountJob) -> dict[str, Any]:
    """The public facts of the numbers."""
    bounds = None if job.ranges is None else list(job.ranges)
    return {
        "sampler": job.sampler,
        "claim": CLAIM,
        "draws": job.draws,
        "records": plan.design.unit,
        "counts": plan.facts() | _public_total(plan),
        "grid": job.grid,
        "model": plan.fingerprint,
        "ranges": {f.variable: bounds for f in job.families},
        "withheld": [],
    } | dict(job.extra_facts)


def _public_total(plan: CountPlan) -> dict[str, float]:
    if plan.design.neighbors == ADD_REMOVE or plan.design.total is None:
        return {}
    return {"total": plan.design.total}


def _dataset(job: CountJob, values: Mapping[str, np.ndarray]) -> xr.Dataset:
    variables: dict[str, Any] = {}
    coords: dict[str, Any] = {}
    for family in job.families:
        array: np.ndarray = np.asarray(values[family.name]).astype(job.dtype)
        variables[family.variable] = (("chain", "draw", *family.dims), array[None])
        coords |= family.coords
    # Without indexes: `Release` makes the dataset anew.
    return xr.Dataset(variables, coords=xr.Coordinates(coords, indexes={}))


def noisy_count_job(plan: CountPlan, tables: CountTables) -> CountJob:
    """The job of releasing noisy counts."""
    noise = _planned_noise(plan)
    _check_planned(plan, tables)
    import_opendp()

    def make(seed: int | None) -> FamilyArrays:
        return {name: array[None] for name, array in _noisy_counts(plan, tables, seed).items()}

    facts = {"distribution": "distribution of the noisy counts"}
    words = _of_table(plan, tables) | {"extra_facts": facts}
    sampler = NOISE_SAMPLERS[noise.distribution]
    return CountJob(tables.families, 1, sampler, INTEGER_GRID, int, None, make, **words)


def dirichlet_job(plan: CountPlan, tables: CountTables) -> CountJob:
    """The job of releasing Dirichlet draws."""
    _check_planned(plan, tables)

    def make(seed: int | None) -> FamilyArrays:
        randomness = SystemRandomness() if seed is None else SeededRandomness.from_seed(seed)
        found = {}
        for family, r, alpha in zip(tables.families, plan.r, plan.alpha, strict=True):
            logs = dirichlet_draws(r * tables.counts[family.name] + alpha, plan.draws, randomness)
            found[family.name] = simplex_probabilities(logs)
        return found

    words = _of_table(plan, tables)
    bounds = (0.0, 1.0)
    return CountJob(
        tables.families, plan.draws, DIRICHLET_SAMPLER, SIMPLEX_GRID, float, bounds, make, **words
    )


def denoised_job(plan: CountPlan, tables: CountTables) -> CountJob:
    """The job of releasing draws from the posterior given noisy counts."""
    noise = _planned_noise(plan)
    _check_planned(plan, tables)
    import_opendp()

    def make(seed: int | None) -> FamilyArrays:
        counts = _noisy_counts(plan, tables, seed)
        noisy = {f.name: NoisyTable(counts[f.name], f.dims) for f in tables.families}
        posterior = noisy_posterior(
            noisy, noise.distribution, noise.scale, noise.sd, plan.design.total, plan.design.minimum
        )
        generator = np.random.default_rng(seed)
        return {n: draw_probabilities(t, plan.draws, generator) for n, t in posterior.items()}

    sampler = f"posterior given {NOISE_SAMPLERS[noise.distribution]}"
    words = _of_table(plan, tables)
    bounds = (0.0, 1.0)
    return CountJob(
        tables.families, plan.draws, sampler, SIMPLEX_GRID, float, bounds, make, **words
    )


def _of_table(plan: CountPlan, tables: CountTables) -> dict[str, Any]:
    """What a job says of a table."""
    return {"prepare": partial(_count_table, plan, tables), "unit": tables.unit}


def _count_table(plan: CountPlan, tables: CountTables) -> None:
    """Count a table that was not counted yet, and refuse what was not declared."""
    if tables.counted_later:
        check_minimum(tables, plan.design.minimum)


def _check_planned(plan: CountPlan, tables: CountTables) -> None:
    """Refuse tables that are not those of the plan, before anything is charged."""
    if tables.families != plan.design.families:
        raise Incompatible(
            "these are not the tables that the plan has a price for; nothing was charged",
            got=", ".join(f.name for f in tables.families),
            allowed=", ".join(f.name for f in plan.design.families) + ", of its shapes and labels",
            do="plan anew; an estimator whose declarations changed is fitted anew",
        )


def _planned_noise(plan: CountPlan) -> NoisePlan:
    if plan.noise is None:
        raise Incompatible(
            "this plan adds no noise",
            got=plan.method,
            allowed="a plan with method='noisy'",
            do="draw from this one by pmp.dirichlet, or call counts.noisy_counts",
        )
    return plan.noise


def _noisy_counts(plan: CountPlan, tables: CountTables, seed: int | None) -> FamilyArrays:
    noise = _planned_noise(plan)
    if seed is None:
        return add_noise(tables.counts, noise.distribution, noise.scale)
    generator = np.random.default_rng(seed)
    return {
        n: add_seeded_noise(a, noise.distribution, noise.scale, generator)
        for n, a in tables.counts.items()
    }


def draw_probabilities(
    table: TablePosterior | MixedPosterior, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw probabilities from a posterior given noisy counts."""
    parameters = table.draw(draws, generator)
    logs = dirichlet_draws(parameters, 1, SeededRandomness(generator))[0]
    return simplex_probabilities(logs)


def check_whole_numbers(tables: CountTables) -> None:
    """Refuse counts that are no whole numbers, before anything is charged."""
    if tables.counted_later:
        return
    for array in tables.counts.values():
        as_integers(array)


def has_whole_counts(tables: CountTables) -> bool:
    """Whether no count has a fractional part."""
    return tables.counted_later or all(
        bool((array == np.round(array)).all()) for array in tables.counts.values()
    )
