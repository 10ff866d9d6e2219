"""The extended model, from a summary and a check of it."""

from __future__ import annotations

import numpy as np
import pytest

import pymc_private as pmp
from pymc_private.criticism import extended_model, log_bayes_factor
from pymc_private.criticism.extended_model import extended_fit
from pymc_private.errors import DomainError
from pymc_private.summaries.scores import model_scores, pilot_part
from tests.criticism.criticized_models import (
    PLANTED,
    SLOPES,
    N,
    covariates,
    model_of,
    planted_summary,
    private_of,
    summary_of,
)
from tests.scaled_coordinates import scaled_point

BUDGET = {"epsilon": 0.5, "delta": 1e-6}


def extended():
    rows = covariates()
    nothing = np.zeros(len(rows["x"]), int)
    return model_of("bernoulli", rows, nothing, extended=lambda x, z, gamma: gamma * x * z)


@pytest.fixture(scope="module")
def checked():
    plan = pmp.check_plan(planted_summary(), extended(), **BUDGET)
    return plan, pmp.check(plan, random_seed=3)


@pytest.mark.audit
def test_the_extended_posterior_holds_what_the_records_have(checked):
    draws = extended_fit(*checked).posterior()
    (test,) = checked[1].tests
    assert draws.effective > 500
    assert (np.abs(draws.mean - [*SLOPES, PLANTED]) < 4 * draws.sd).all()
    # To first order it is the estimate of the check, pulled a little towards the prior.
    assert abs(draws.mean[3] - test.estimate) < test.estimate_sd
    assert draws.sd[3] == pytest.approx(test.estimate_sd, rel=0.25)


def mean_slopes(pooled, model, step=1e-4):
    """Derivatives of means at the center, by central differences; shape (numbers, parameters)."""
    moves = step * np.eye(len(pooled.center))
    points = pooled.center + np.concatenate([moves, -moves])
    means, _ = pooled.moments(pooled.node_mass(model, points), points)
    up, down = np.split(means, 2)
    return (up - down).T / (2 * step)


def test_the_model_is_an_ordinary_one_without_records(checked):
    model = extended_model(*checked)  # its likelihood was compared with the NumPy one
    assert {rv.name for rv in model.free_RVs} == {"slopes", "gamma"}
    assert model.observed_RVs == []
    fit = extended_fit(*checked)
    theta = fit.start()[0]
    values, scales = scaled_point(model, fit.parameters.split(theta))
    whole = float(model.compile_logp()(values)) - scales
    parts = fit.log_likelihood()(theta[None])[0] + fit.parameters.log_prior(theta[None])[0]
    assert whole == pytest.approx(float(parts), rel=1e-6)


def test_means_of_pilots_of_a_part_of_the_records_have_the_slope_of_that_part(monkeypatch):
    for module, name, least in (
        (model_scores, "LEAST_IN_MEMORY", N),
        (pilot_part, "LEAST_RECORDS", N),
        (pilot_part, "LEAST_PILOTS", N // 2),
    ):
        monkeypatch.setattr(module, name, least)
    planned = pmp.calibrate(
        private_of("bernoulli"), epsilon=4, delta=1e-6, release="summary", method="scores"
    )
    assert planned.mechanism.part is not None
    summary = pmp.summarize(planned, random_seed=4, progressbar=False)
    plan = pmp.check_plan(summary, extended(), **BUDGET)
    fit = extended_fit(plan, pmp.check(plan, random_seed=3))
    fitted = mean_slopes(planned.mechanism.pooled(summary.released), planned.mechanism.model)
    # Along the parameters of the fitted model both are the same model.
    own = mean_slopes(fit.pooled, fit.model)[: len(fitted), :3]
    np.testing.assert_allclose(own, fitted, rtol=1e-5, atol=1e-5 * np.abs(fitted).max())


@pytest.mark.audit
def test_a_bayes_factor_is_of_what_the_check_adds(checked):
    assert log_bayes_factor(*checked) > 3
    plan = pmp.check_plan(summary_of("bernoulli"), extended(), **BUDGET)
    result = pmp.check(plan, random_seed=3)
    (test,) = result.tests
    # log N(estimate; 0, 1 + sd^2) - log N(estimate; 0, sd^2), where gamma ~ N(0, 1).
    ratio = 1.0 + 1.0 / test.estimate_sd**2
    expected = 0.5 * (test.z**2 * (1.0 - 1.0 / ratio) - np.log(ratio))
    assert log_bayes_factor(plan, result) == pytest.approx(expected, abs=0.5)


def test_what_has_no_extended_model_is_refused(checked):
    plan, result = checked
    named = pmp.check_plan(planted_summary(), "link", **BUDGET)
    with pytest.raises(DomainError, match="fitted to a check against it"):
        extended_model(named, pmp.check(named, random_seed=1))
    with pytest.raises(DomainError, match="not the check of the plan"):
        extended_model(plan, pmp.check(named, random_seed=1))
    with pytest.raises(DomainError, match="fitted to a check against it"):
        log_bayes_factor(plan, result, name="delta")
