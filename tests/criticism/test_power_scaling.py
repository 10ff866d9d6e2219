"""Sensitivity to prior and summary by power-scaling."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_private as pmp
from pymc_private.criticism.power_scaling import distance, log_priors, power_scaling
from pymc_private.errors import DomainError
from pymc_private.models.compat import ARVIZ_GENERATION, to_groups
from pymc_private.summaries.importance import importance_draws
from tests.criticism.criticized_models import summary_of

PRIOR_MEAN, PRIOR_SD = 3.0, 0.1
N = 200


def drawn(mechanism, released, count=2000):
    """Equally weighted draws of the posterior, with a Deterministic."""
    parameters, likelihood = mechanism.parameters, mechanism.log_likelihood(released)
    rng = np.random.default_rng(1)
    found = importance_draws(
        lambda t: likelihood(t) + parameters.log_prior(t), *mechanism.start(released), rng, 4000
    )
    theta = found.points[rng.choice(4000, count, p=found.weights)]
    values = parameters.natural(theta) | {"first": parameters.natural(theta)["slopes"][:, 0]}
    return theta, xr.Dataset(
        {k: (("chain", "draw", *"ab"[: v.ndim - 1]), v[None]) for k, v in values.items()}
    )


@pytest.fixture(scope="module")
def normal():
    summary = summary_of("normal")
    mechanism = summary.of_model(None)[1]
    return summary, mechanism, *drawn(mechanism, summary.released)


def test_priors_are_densities_of_natural_units(normal):
    _, mechanism, theta, draws = normal
    slopes, sigma = draws["slopes"].values[0], draws["sigma"].values[0]
    expected = stats.norm.logpdf(slopes).sum(axis=1) + stats.lognorm.logpdf(sigma, 0.5)
    np.testing.assert_allclose(
        log_priors(mechanism.parameters, theta, ("slopes", "sigma")), expected
    )
    # That of the unconstrained vector has a Jacobian, which is not scaled.
    jacobian = mechanism.parameters.log_prior(theta) - expected
    np.testing.assert_allclose(jacobian, np.log(sigma), atol=1e-9)


@pytest.mark.skipif(ARVIZ_GENERATION == 0, reason="ArviZ 1 has power-scaling of draws")
def test_sensitivities_are_those_of_arviz(normal):
    import arviz as az

    summary, mechanism, theta, draws = normal
    likelihood = mechanism.log_likelihood(summary.released)(theta)
    prior = log_priors(mechanism.parameters, theta, ("slopes", "sigma"))
    groups = {
        name: xr.Dataset({"value": (("chain", "draw"), values[None])})
        for name, values in (("log_prior", prior), ("log_likelihood", likelihood))
    }
    data = to_groups(posterior=draws, **groups)
    found = power_scaling(summary, draws)
    assert found.names[:2] == ("slopes[0]", "slopes[1]")
    for group, mine in (("prior", found.prior), ("likelihood", found.likelihood)):
        theirs = az.psense(data, group=group)
        flat = np.concatenate([np.ravel(theirs[name].values) for name in draws.data_vars])
        np.testing.assert_allclose(mine, flat, rtol=0.02, atol=1e-4)
    assert (found.likelihood > 0.05).all()
    assert "none of 5 elements" in repr(found)


def informed(center):
    """A logistic model whose intercept has a narrow prior, and a seeded summary of it."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, N)
    y = (rng.random(N) < 1 / (1 + np.exp(-0.5 - x))).astype(int)
    with pm.Model() as model:
        data = pm.Data("x", x)
        slopes = pm.Normal("slopes", [center, 0.0], [PRIOR_SD, 1.0])
        pm.Bernoulli("y", logit_p=slopes[0] + slopes[1] * data, observed=y)
    private = pmp.privatize(model, records={"x": 0, "y": 0}, domain={"x": (-1, 1)})
    plan = pmp.calibrate(private, epsilon=4, delta=1e-6, release="summary", method="scores")
    return pmp.summarize(plan, random_seed=1, progressbar=False)


@pytest.mark.audit
def test_a_prior_against_the_records_is_seen():
    summary = informed(PRIOR_MEAN)
    mechanism = summary.of_model(None)[1]
    _, draws = drawn(mechanism, summary.released)
    found = power_scaling(summary, draws).to_frame()
    assert found.loc["slopes[0]", "prior"] > 0.05
    assert "both pull" in found.loc["slopes[0]", "finding"]
    # With more weight on its prior the intercept moves towards the prior's mean, of which it
    # falls short.
    assert draws["slopes"].values[0, :, 0].mean() < PRIOR_MEAN
    assert found.loc["slopes[0]", "mean moves"] > 0.2
    assert list(found.loc["first"]) == list(found.loc["slopes[0]"])
    assert power_scaling(summary, draws, var_names=["first"]).names == ("first",)
    assert len(power_scaling(summary, draws).plot().lines) == 3


def test_distance_of_two_normal_distributions():
    """By weights and by quadrature."""
    x = np.linspace(-9.0, 9.0, 40_001)
    p, q = stats.norm.cdf(x), stats.norm.cdf(x - 0.3)
    draws = stats.norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    middle = np.log2(0.5 * (p + q))

    def divergence(a, b):
        inside = np.where(a > 0, a * (np.log2(np.maximum(a, 1e-300)) - middle), 0.0)
        return np.trapezoid(inside, x) + 0.5 / np.log(2.0) * np.trapezoid(b - a, x)

    away = x < draws[-1]  # both are cut where the draws end
    p, q, middle, x = p[away], q[away], middle[away], x[away]
    expected = np.sqrt((divergence(p, q) + divergence(q, p)) / np.trapezoid(p + q, x))
    assert distance(draws, np.exp(0.3 * draws)) == pytest.approx(expected, rel=0.01)
    assert distance(draws, np.ones_like(draws)) < 1e-6


def test_what_is_no_posterior_of_the_summary_is_refused(normal):
    summary, _, _, draws = normal
    for text, action in (
        ("free variable", lambda: power_scaling(summary, draws, prior=["slope"])),
        ("variable of the draws", lambda: power_scaling(summary, draws, var_names=["y"])),
        ("none of sigma", lambda: power_scaling(summary, draws.drop_vars("sigma"))),
        ("50 draws", lambda: power_scaling(summary, draws.isel(draw=slice(50)))),
        ("posterior of a summary", lambda: power_scaling(draws, summary)),
    ):
        with pytest.raises(DomainError, match=text):
            action()
