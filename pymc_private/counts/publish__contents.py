"""What a release of counts will hold, and how each kind is made."""

from __future__ import annotations

import numpy as np
from pymc_private.errors import Incompatible
from pymc_private.counts import tables__noise
from pymc_private.counts.denoise.shrinkage import MixedPosterior
from pymc_private.counts.tables import Tables
from pymc_private.counts.denoise.posterior import TablePosterior
from pymc_private.counts.noise_plan import CountPlan
from pymc_private.counts.denoise.posterior__posterior import NoisyTable, noisy_posterior
from pymc_private.counts.publish import Arrays, Content
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness
from pymc_private.samplers.randomness__simplex import GRID, dirichlet_draws, probabilities

LOG_GAMMA = "Dirichlet draws by log-Gamma inversion"
OPENDP = {
    "discrete_gaussian": "discrete Gaussian noise on every count (OpenDP)",
    "laplace": "discrete Laplace noise on every count (OpenDP)",
}
INTEGERS = "whole numbers"


def whole_numbers(tables: Tables) -> None:
    """Refuse counts that integer noise is not for; before anything is charged."""
    for array in tables.counts.values():
        tables__noise.as_whole(array)


def has_whole_counts(tables: Tables) -> bool:
    """Whether no count has a fractional part."""
    return all(bool((array == np.round(array)).all()) for array in tables.counts.values())


def noise_content(plan: CountPlan, tables: Tables) -> Content:
    """Say how noisy counts are made."""
    found = plan.noise
    if found is None:
        raise Incompatible("this plan adds no noise", got=plan.method)
    _check_priced(plan, tables)
    tables__noise.opendp()

    def make(seed: int | None) -> Arrays:
        return {name: array[None] for name, array in _noisy(plan, tables, seed).items()}

    told = {"law": "law of the noisy counts"}
    return Content(tables.families, 1, OPENDP[found.law], INTEGERS, int, None, make, told)


def drawn_content(plan: CountPlan, tables: Tables) -> Content:
    """Say how Dirichlet draws are made."""
    _check_priced(plan, tables)

    def make(seed: int | None) -> Arrays:
        randomness = SystemRandomness() if seed is None else SeededRandomness.from_seed(seed)
        found = {}
        for family, r, alpha in zip(tables.families, plan.r, plan.alpha, strict=True):
            logs = dirichlet_draws(r * tables.counts[family.name] + alpha, plan.draws, randomness)
            found[family.name] = probabilities(logs)
        return found

    return Content(tables.families, plan.draws, LOG_GAMMA, GRID, float, (0.0, 1.0), make)


def denoised_content(plan: CountPlan, tables: Tables) -> Content:
    """Say how draws from the posterior given noisy counts are made."""
    found = plan.noise
    if found is None:
        raise Incompatible("this plan adds no noise", got=plan.method)
    _check_priced(plan, tables)
    tables__noise.opendp()

    def make(seed: int | None) -> Arrays:
        counts = _noisy(plan, tables, seed)
        noisy = {f.name: NoisyTable(counts[f.name], f.dims) for f in tables.families}
        posterior = noisy_posterior(
            noisy, found.law, found.scale, found.sd, plan.design.total, plan.design.minimum
        )
        generator = np.random.default_rng(seed)
        return {n: simplices(t, plan.draws, generator) for n, t in posterior.items()}

    sampler = f"posterior given {OPENDP[found.law]}"
    return Content(tables.families, plan.draws, sampler, GRID, float, (0.0, 1.0), make)


def _check_priced(plan: CountPlan, tables: Tables) -> None:
    """Refuse tables that are not those of the price; before anything is charged."""
    if tables.families != plan.design.families:
        raise Incompatible(
            "these are not the tables that the plan has a price for; nothing was charged",
            got=", ".join(f.name for f in tables.families),
            allowed=", ".join(f.name for f in plan.design.families) + ", of its shapes and labels",
            do="plan anew; an estimator whose declarations changed is fitted anew",
        )


def _noisy(plan: CountPlan, tables: Tables, seed: int | None) -> Arrays:
    found = plan.noise
    if found is None:
        raise Incompatible("this plan adds no noise", got=plan.method)
    if seed is None:
        return tables__noise.noisy(tables.counts, found.law, found.scale)
    generator = np.random.default_rng(seed)
    return {n: tables__noise.seeded(a, found.law, found.scale, generator) for n, a in tables.counts.items()}


def simplices(
    table: TablePosterior | MixedPosterior, draws: int, generator: np.random.Generator
) -> np.ndarray:
    """Draw probabilities from a posterior given noisy counts."""
    parameters = table.draw(draws, generator)
    logs = dirichlet_draws(parameters, 1, SeededRandomness(generator))[0]
    return probabilities(logs)
