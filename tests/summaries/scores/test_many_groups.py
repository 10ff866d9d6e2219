"""Summaries of hierarchies with many groups: noise of the curvature explains no wrong scale."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_private as pmp
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.read_parameters import of_read
from pymc_private.summaries.scores.score_likelihood import MANY_GROUPS
from pymc_private.summaries.scores.score_slopes import PooledSlopes

SIGMA, SLOPE, BOUND, MU = 0.8, 0.3, 15.0, 0.23


def outcomes(group: np.ndarray, x: np.ndarray, effect: np.ndarray, rng: Any) -> np.ndarray:
    """Give normal outcomes within their domain."""
    eta = effect[group] + SLOPE * x
    return np.clip(eta + SIGMA * rng.standard_normal(len(x)), -BOUND, BOUND)


@lru_cache
def released(groups: int, n: int, public: bool = False) -> tuple:
    """Give a private hierarchy, its mechanism, a release of simulated records, and the effects."""
    rng = np.random.default_rng(5)
    group, x = rng.integers(0, groups, n), rng.uniform(-1, 1, n)
    effect = 1.0 + 0.45 * rng.standard_normal(groups)
    y = outcomes(group, x, effect, rng)
    with pm.Model(coords={"row": np.arange(n), "group": np.arange(groups)}) as model:
        effects = pm.Normal(
            "effect", pm.Normal("mean"), pm.LogNormal("sd", -0.7, 0.5), dims="group"
        )
        eta = effects[pm.Data("g", group, dims="row")] + pm.Normal("slope") * pm.Data("x", x)
        pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
    domain = {"x": (-1.0, 1.0), "g": pmp.Categories(range(groups)), "y": (-BOUND, BOUND)}
    known = ["x", "g"] if public else []
    declared = {name: values for name, values in domain.items() if name not in known}
    private = pmp.privatize(model, records="row", domain=declared, public=known)
    mechanism = score_mechanism(private, MU)
    records = {"y": y} if public else {"g": group, "x": x, "y": y}
    found = mechanism.release(records, SimulatedNoise(rng))
    return private, mechanism, found, effect


def true_point(mechanism: Any, effect: np.ndarray, sigma: float) -> np.ndarray:
    """Give the unconstrained parameters of the records, but for sigma, shape (1, p)."""
    natural = {"effect": effect, "mean": 1.0, "sd": 0.45, "slope": SLOPE, "sigma": sigma}
    return mechanism.parameters.unconstrained({k: np.array([v]) for k, v in natural.items()})


@pytest.mark.parametrize("public", [False, True])
@pytest.mark.parametrize("groups", [MANY_GROUPS + 4, 4])
def test_noise_of_many_groups_does_not_depend_on_parameters(groups, public):
    _, mechanism, found, _ = released(groups, 60 * groups, public)
    pooled = mechanism.pooled(found)
    # Each group's own terms stay 0 in the others' rows: terms are not stretched.
    assert (np.mean(pooled.node_terms == 0.0) > 0.8) == (groups > MANY_GROUPS)
    rounds, p, _ = pooled.curvature_noise.scaling.shape
    means = 5.0 * np.random.default_rng(0).standard_normal((2, rounds * p))
    first, second = pooled.covariance(means, np.ones(2))
    assert np.array_equal(first, second) == (groups > MANY_GROUPS)


def test_a_wrong_scale_is_contradicted_the_more_the_more_it_is_wrong():
    """With noise that grows with sigma the scores would allow of any."""
    _, mechanism, found, effect = released(MANY_GROUPS + 4, 3_000)
    likelihood = mechanism.log_likelihood(found)
    right, wrong, worse = (
        float(likelihood(true_point(mechanism, effect, SIGMA * factor))[0])
        for factor in (1.0, 1.5, 2.25)
    )
    assert right - wrong > 20.0
    assert right - worse > 3.5 * (right - wrong)


def test_independent_numbers_have_the_density_of_those_they_are_made_of():
    """By Cholesky's method, value and slopes; numbers that are not scaled would differ."""
    _, mechanism, found, _ = released(MANY_GROUPS + 4, 60 * (MANY_GROUPS + 4))
    pooled, model = mechanism.pooled(found), mechanism.model
    numbers = replace(pooled)
    numbers.__dict__["independent"] = None
    theta = mechanism.start(found)[0]
    points = theta + 0.05 * np.random.default_rng(1).standard_normal((5, len(theta)))
    points = of_read(mechanism.read, points)
    plain = numbers.log_likelihood(model, points)
    np.testing.assert_allclose(pooled.log_likelihood(model, points), plain, rtol=1e-8)
    logs = model.log_density(points[:1], pooled.rows, pooled.values)[0]
    value, slopes = PooledSlopes(pooled)(logs.copy(), points[0])
    expected, by_cholesky = PooledSlopes(numbers)(logs.copy(), points[0])
    assert value == pytest.approx(expected, rel=1e-8)
    for one, other in zip(slopes, by_cholesky, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6 * np.abs(other).max())
    symbols = pt.constant(logs), pt.constant(points[0])
    assert float(PooledSlopes(pooled).symbolic(*symbols).eval()) == pytest.approx(value, rel=1e-8)
    wrong = replace(pooled.independent, variances=2.0 * pooled.independent.variances)
    pooled.__dict__["independent"] = wrong
    assert abs(pooled.log_likelihood(model, points) - plain).max() > 1.0
    pooled.__dict__.pop("independent")


@pytest.mark.parametrize("width", [1e3, 1e4])
def test_priors_so_wide_that_digits_run_out_leave_a_finite_likelihood(width):
    rng, n, groups = np.random.default_rng(1), 3_000, MANY_GROUPS
    group, x = rng.integers(0, groups, n), rng.uniform(-1, 1, n)
    y = np.clip(rng.standard_normal(n), -8, 8)
    with pm.Model(coords={"row": np.arange(n)}) as model:
        effects, slope = pm.Normal("a", 0, width, shape=groups), pm.Normal("s", 0, width)
        eta = effects[pm.Data("g", group, dims="row")] + slope * pm.Data("x", x)
        pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
    domain = {"x": (-1.0, 1.0), "g": pmp.Categories(range(groups)), "y": (-8.0, 8.0)}
    mechanism = score_mechanism(pmp.privatize(model, records="row", domain=domain), 0.5)
    found = mechanism.release({"g": group, "x": x, "y": y}, SimulatedNoise(rng))
    assert np.isfinite(mechanism.pooled(found).noise_covariance).all()


@pytest.mark.audit
def test_intervals_of_85_groups_hold_scale_spread_and_effects():
    """With noise that grows with parameters sigma is .91 +- .04, and the slope half as precise."""
    private, mechanism, found, effect = released(85, 10_000)
    with noise_aware_model(private, mechanism, found):
        idata = pm.sample(
            300, tune=500, chains=2, cores=1, random_seed=1, progressbar=False,
            compute_convergence_checks=False,
        )  # fmt: skip
    draws = idata.posterior
    for name, value in (("sigma", SIGMA), ("sd", effect.std()), ("slope", SLOPE)):
        one = draws[name].to_numpy()
        assert abs(one.mean() - value) < min(0.06, 3.5 * one.std()), name
    effects = draws["effect"].to_numpy().reshape(-1, 85)
    away = (effects.mean(axis=0) - effect) / effects.std(axis=0)
    assert 0.7 < np.sqrt(np.mean(away**2)) < 1.3


@pytest.mark.audit
def test_coverage_of_many_groups_is_judged_in_every_simulation():
    """Importance sampling found a fifth of such posteriors; NUTS takes some 15 s for each."""
    groups, n = 30, 3_000
    x, group = np.linspace(-1, 1, n), np.arange(n) % groups
    with pm.Model(coords={"row": np.arange(n)}) as model:
        effects = pm.Normal(
            "effect", pm.Normal("mean"), pm.LogNormal("sd", -0.7, 0.5), shape=groups
        )
        eta = effects[pm.Data("g", group, dims="row")] + pm.Normal("slope") * pm.Data("x", x)
        pm.Bernoulli("y", logit_p=eta, observed=group % 2, dims="row")
    private = pmp.privatize(
        model, records="row", domain={"x": (-1.0, 1.0), "g": pmp.Categories(range(groups))}
    )
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary", method="scores")
    found = plan.coverage(simulations=2, progressbar=False)
    assert found.simulations + found.refused == 2
    assert found.effective.min() >= 100
    assert 0.75 < found.found[1] < 1.0
