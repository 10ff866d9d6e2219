"""Checks of a hierarchy are about what records read, with the posterior of the whole model."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.criticism import log_bayes_factor
from pymc_private.criticism.extended_model import extended_fit
from pymc_private.criticism.fitted_summary import fitted_summary, posterior_of

N, GROUPS, CURVE = 1500, 6, 2.0
BUDGET = {"epsilon": 1.0, "delta": 1e-6}
ROWS = {
    "g": np.arange(N) % GROUPS,
    "x": np.random.default_rng(3).uniform(-1, 1, N),
}
EFFECTS = 0.5 * np.random.default_rng(4).standard_normal(GROUPS)


def outcomes(curve):
    eta = EFFECTS[ROWS["g"]] + 0.7 * ROWS["x"] + curve * ROWS["x"] ** 2
    return (np.random.default_rng(5).random(N) < 1 / (1 + np.exp(-eta))).astype(int)


def model_of(y, gamma=False):
    with pm.Model(coords={"row": range(N), "group": range(GROUPS)}) as model:
        mean, sd = pm.Normal("mean"), pm.LogNormal("sd", -0.7, 0.5)
        effect = pm.Normal("effect", mean, sd, dims="group")
        g, x = (pm.Data(name, ROWS[name], dims="row") for name in ("g", "x"))
        eta = effect[g] + pm.Normal("slope") * x
        eta = eta + pm.Normal("gamma") * x**2 if gamma else eta
        pm.Bernoulli("y", logit_p=eta, observed=y, dims="row")
    return model


@pytest.fixture(scope="module")
def summaries():
    found = {}
    for curve in (0.0, CURVE):
        private = pmp.privatize(
            model_of(outcomes(curve)), records="row", public=["g"], domain={"x": (-1, 1)}
        )
        plan = pmp.calibrate(private, release="summary", method="scores", **BUDGET)
        found[curve] = pmp.summarize(plan, random_seed=1, progressbar=False)
    return found


@pytest.mark.audit
def test_a_curve_is_seen_and_nothing_else(summaries):
    z = {}
    for curve, summary in summaries.items():
        plan = pmp.check_plan(summary, "quadratic(x)", **BUDGET)
        (test,) = pmp.check(plan, random_seed=2).tests
        z[curve] = test.z
        assert abs(test.estimate - curve) < 4 * test.estimate_sd
    assert abs(z[0.0]) < 3.0 < 4.0 < abs(z[CURVE])


@pytest.mark.audit
def test_what_is_known_is_the_posterior_of_the_coefficients(summaries):
    summary = summaries[0.0]
    _, mechanism = summary.of_model(None)
    fit = fitted_summary(mechanism, summary.released)
    assert len(fit.mean) == GROUPS + 1 == mechanism.parameters.size - 2
    draws = posterior_of(mechanism, summary.released)
    effects = mechanism.parameters.natural(draws.points)["effect"]
    place = mechanism.read.slices["effect"]
    np.testing.assert_allclose(fit.mean[place], draws.weights @ effects)
    away = effects - draws.weights @ effects
    np.testing.assert_allclose(
        fit.covariance[place, place], (away * draws.weights[:, None]).T @ away
    )


@pytest.mark.audit
def test_a_curve_is_fitted_in_the_extended_model(summaries):
    plan = pmp.check_plan(summaries[CURVE], model_of(np.zeros(N, int), gamma=True), **BUDGET)
    result = pmp.check(plan, random_seed=2)
    fit = extended_fit(plan, result)
    draws = fit.posterior()
    place = fit.parameters.slices["gamma"].start
    assert draws.effective > 300
    assert abs(draws.mean[place] - CURVE) < 3 * draws.sd[place]
    assert draws.sd[place] < 0.6  # of 1 in the prior
    assert log_bayes_factor(plan, result) > 3.0
