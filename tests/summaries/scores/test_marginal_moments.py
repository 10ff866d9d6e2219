"""Moments of covariates beside labels of groups, in sums of their own where one would be noise."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores import score_mechanism as module
from pymc_private.summaries.scores.marginal_moments import MarginalMoments, moment_rounds
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.reference import CovariateMoments
from tests.summaries.packed_matrices import PackedMatrices

GROUPS, N, MU = 10, 1000, largest_mu(0.5, 1e-6)


def records(theta: dict[str, Any], rng: Any, n: int = N) -> dict[str, np.ndarray]:
    """Give records whose covariate lies at the low end of its interval."""
    group, x = rng.integers(0, GROUPS, n), np.clip(rng.exponential(0.4, n) - 1, -1, 1)
    eta = np.asarray(theta["effect"])[group] + theta["slope"] * x
    return {"g": group, "x": x, "y": np.clip(eta + rng.standard_normal(n), -15, 15)}


def private(n: int = N, groups: int = GROUPS) -> pmp.PrivateModel:
    """Give a hierarchy of normal outcomes with private labels."""
    rng = np.random.default_rng(0)
    at = records({"effect": np.zeros(GROUPS), "slope": 0.5}, rng, n)
    with pm.Model(coords={"row": np.arange(n)}) as model:
        effect = pm.Normal("effect", pm.Normal("mean"), pm.LogNormal("sd", -0.7, 0.5), shape=groups)
        g, x = (pm.Data(name, at[name] % groups if name == "g" else at[name]) for name in "gx")
        pm.Normal("y", effect[g] + pm.Normal("slope") * x, 1.0, observed=at["y"], dims="row")
    domain = {"x": (-1.0, 1.0), "g": pmp.Categories(range(groups)), "y": (-15.0, 15.0)}
    return pmp.privatize(model, records={"x": 0, "g": 0, "y": 0}, domain=domain)


@lru_cache
def mechanism(parted: bool = True) -> Any:
    """Give the mechanism, or (a planted fault) the one of a single sum whatever its noise."""
    with pytest.MonkeyPatch.context() as patch:
        if not parted:
            patch.setattr(module, "settled_moments", lambda moments, *words: moments)
        return score_mechanism(private(), MU)


def test_sums_are_parted_where_noise_would_hide_what_one_tells():
    assert isinstance(mechanism().design.moments, MarginalMoments)
    assert isinstance(mechanism(parted=False).design.moments, CovariateMoments)
    many_records = score_mechanism(private(40_000), MU)
    assert isinstance(many_records.design.moments, CovariateMoments)
    few_groups = score_mechanism(private(groups=3), MU)
    assert isinstance(few_groups.design.moments, CovariateMoments)


def mean_of_reference(made: Any, seed: int) -> float:
    """Give the mean of the covariate in the moved reference; that of the records is about -.6."""
    rng = np.random.default_rng(seed)
    found = made.release(records({"effect": np.zeros(GROUPS), "slope": 0.5}, rng),
                         SimulatedNoise(rng))  # fmt: skip
    return float(found["large_weights"] @ np.ravel(found["large:x"]))


def test_the_reference_has_the_mean_of_a_skewed_covariate():
    apart = [mean_of_reference(mechanism(), seed) for seed in range(3)]
    assert abs(np.median(apart) + 0.6) < 0.15
    together = [mean_of_reference(mechanism(parted=False), seed) for seed in range(3)]
    assert np.median(together) > -0.2  # the planted fault: noise of one sum hides it


def test_parted_sums_cost_what_one_does():
    """Each stage keeps to its bound, and all together to the price of the summary."""

    class Counted(PackedMatrices, SimulatedNoise):
        spent = Fraction(0)

        def total(self, chunks, bound, positive, mu):
            rows = np.concatenate(list(chunks))
            assert np.nanmax(np.linalg.norm(rows, axis=1)) <= bound * (1 + 1e-12)
            self.spent += Fraction(mu) ** 2
            return super().total([rows], bound, positive, mu)

        def noisy_counts(self, counts, mu):
            assert sum(counts) == N  # a record is in one level
            self.spent += Fraction(mu) ** 2
            return super().noisy_counts(counts, mu)

    rng = np.random.default_rng(1)
    noise = Counted(rng)
    wild = records({"effect": np.zeros(GROUPS), "slope": 0.5}, rng)
    wild["x"][:4] = [np.nan, np.inf, 1e300, -1.0]
    with np.errstate(all="ignore"):
        mechanism().release(wild, noise)
    assert noise.spent <= Fraction(MU) ** 2
    assert float(noise.spent) > MU**2 * (1 - 1e-9)
    shares = [share for share, _ in moment_rounds(mechanism().design.moments)]
    assert sum(shares) == pytest.approx(1.0)


@pytest.mark.audit
def test_intervals_hold_beside_a_skewed_covariate():
    """With one sum .61 +- .07 of 90% intervals held."""
    made, held = mechanism(), []
    draws = made.parameters.draws(16, 4)
    for k, theta in enumerate(draws):
        rng = np.random.default_rng([4, k])
        natural = {name: v[0] for name, v in made.parameters.natural(theta[None]).items()}
        found = made.release(records(natural, rng), SimulatedNoise(rng))
        likelihood, prior = made.log_likelihood(found), made.parameters.log_prior

        def density(at, likelihood=likelihood, prior=prior):
            return likelihood(at) + prior(at)

        posterior = importance_draws(density, *made.start(found), rng, 6000)
        low, high = posterior.quantiles([0.05, 0.95])
        held.append(np.mean((low <= theta) & (theta <= high)))
    assert np.mean(held) > 0.78
