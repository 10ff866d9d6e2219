"""Simulation-based calibration of every exact sampler.

Parameters come from the prior, data from the likelihood; then the rank of the parameter among
posterior draws is uniform (Cook, Gelman and Rubin 2006; Talts et al. 2018). With L draws it takes L
+ 1 values; smoothed by a uniform number it is uniform on (0, 1), and the CDF test states its error.
Posterior and prior are those of the trimmed region, so the data are drawn from there as well.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.samplers.choose import SAMPLERS_BY_NAME
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import cdf_envelope

RUNS, DRAWS, N = 150, 7, 6


def coin(rng):
    p = stats.beta(2, 2).ppf(rng.uniform(*stats.beta(2, 2).cdf([0.2, 0.8])))
    with pm.Model(coords={"i": range(N)}) as model:
        rate = pm.Beta("p", 2, 2)
        pm.Bernoulli("y", p=rate, observed=rng.binomial(1, p, N), dims="i")
    private = pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.2, 0.8)})
    return private, "p", p


def middle_of_normal(rng):
    mu = stats.truncnorm(-2, 2).rvs(random_state=rng)
    with pm.Model(coords={"i": range(N)}) as model:
        mean = pm.Normal("mu", 0, 1)
        y = np.clip(rng.normal(mu, 1.0, N), -8, 8)
        pm.Normal("y", mean, 1.0, observed=y, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-8, 8)})
    return pmp.trim(private, box={"mu": (-2, 2)}), "mu", mu


def curved(rng):
    """Two parameters, one of them a scale: no conjugate posterior."""
    mu, sigma = rng.uniform(-1, 1), rng.uniform(0.4, 2.0)
    with pm.Model(coords={"i": range(N)}) as model:
        spread, mean = pm.Uniform("sigma", 0.4, 2.0), pm.Uniform("mu", -1, 1)
        y = np.clip(rng.normal(mu, sigma, N), -12, 12)
        pm.Normal("y", mean, spread, observed=y, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-12, 12)})
    return private, "sigma", sigma


def ranks(build, sampler, change=lambda draws: draws, seed=5) -> np.ndarray:
    """Smoothed ranks of the true parameters."""
    rng, found = np.random.default_rng(seed), np.empty(RUNS)
    for k in range(RUNS):
        private, name, true = build(rng)
        randomness = SeededRandomness.from_seed(int(rng.integers(2**31)))
        draws = SAMPLERS_BY_NAME[sampler]().sample(private, DRAWS, randomness, lambda done: None)
        below = np.sum(change(draws[name].ravel()) < true)
        found[k] = (below + rng.random()) / (DRAWS + 1)
    return found


CASES = [
    (coin, "conjugate"), (coin, "boxes"), (middle_of_normal, "conjugate"),
    (middle_of_normal, "boxes"), (curved, "boxes"),
]  # fmt: skip


@pytest.mark.audit
@pytest.mark.parametrize(("build", "sampler"), CASES)
def test_ranks_of_true_parameters_are_uniform(build, sampler):
    assert cdf_envelope(ranks(build, sampler), stats.uniform.cdf).passes


@pytest.mark.audit
def test_draws_of_the_mirror_image_are_caught():
    # A posterior that ignores the data has uniform ranks too: this is not what ranks can see.
    found = ranks(middle_of_normal, "conjugate", change=lambda draws: -draws)
    assert not cdf_envelope(found, stats.uniform.cdf).passes
