"""Summaries of hierarchies by scores: effects of groups, and parameters above them."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.criticism.fitted_summary import refuse_other_summaries
from pymc_private.errors import NotInformative
from pymc_private.summaries.curvature_check import refuse_unusable, usable_share
from pymc_private.summaries.model_scores import score_mechanism
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.structure import structure_of

GROUPS, RECORDS, MU = 4, 600, 1.0


def hierarchy(centered: bool = True) -> pmp.PrivateModel:
    """Give a logistic regression with effects of private groups."""
    rng = np.random.default_rng(0)
    group, x = rng.integers(0, GROUPS, RECORDS), rng.uniform(-1, 1, RECORDS)
    with pm.Model(coords={"row": np.arange(RECORDS), "group": np.arange(GROUPS)}) as model:
        mean, sd = pm.Normal("mean"), pm.HalfNormal("sd")
        if centered:
            effect = pm.Normal("effect", mean, sd, dims="group")
        else:
            effect = mean + pm.Normal("effect", 0, sd, dims="group")
        group_data, x_data = pm.Data("g", group, dims="row"), pm.Data("x", x, dims="row")
        eta = effect[group_data] + pm.Normal("slope") * x_data
        pm.Bernoulli("y", logit_p=eta, observed=rng.integers(0, 2, RECORDS), dims="row")
    domain = {"g": pmp.Categories(range(GROUPS)), "x": (-1.0, 1.0)}
    return pmp.privatize(model, records="row", domain=domain)


@pytest.fixture(scope="module")
def released() -> tuple:
    """Give a private hierarchy, its mechanism and a release of simulated records."""
    private = hierarchy()
    mechanism = score_mechanism(private, MU)
    rng = np.random.default_rng(3)
    group, x = rng.integers(0, GROUPS, RECORDS), rng.uniform(-1, 1, RECORDS)
    eta = np.array([-1.0, 0.0, 0.5, 1.0])[group] + 0.8 * x
    y = 1.0 * (rng.random(RECORDS) < 1 / (1 + np.exp(-eta)))
    records = {"g": group, "x": x, "y": y}
    return private, mechanism, mechanism.release(records, SimulatedNoise(rng))


def test_scores_are_about_what_records_read(released):
    _, mechanism, found = released
    assert mechanism.parameters.size == GROUPS + 3
    assert mechanism.read.size == GROUPS + 1
    assert found["scores"].shape[1] == GROUPS + 1
    assert mechanism.design.structure.entries == GROUPS + GROUPS + 1


def test_the_likelihood_reads_no_parameter_above_the_effects(released):
    _, mechanism, found = released
    likelihood = mechanism.log_likelihood(found)
    theta = mechanism.parameters.draws(6, 9)
    moved = theta.copy()
    others = np.setdiff1d(np.arange(theta.shape[1]), mechanism.read.places)
    moved[:, others] += 1.0
    np.testing.assert_array_equal(likelihood(theta), likelihood(moved))
    moved[:, mechanism.read.places] += 0.1
    assert np.all(likelihood(theta) != likelihood(moved))


def test_the_model_has_the_hierarchy_on_top(released):
    """Its density is that of the prior and of the likelihood; the build compares gradients."""
    private, mechanism, found = released
    model = noise_aware_model(private, mechanism, found)
    assert {v.name for v in model.free_RVs} == {"mean", "sd", "effect", "slope"}
    center, covariance = mechanism.start(found)
    assert np.linalg.eigvalsh(covariance).min() > 0.0
    points = center + 0.2 * np.random.default_rng(1).standard_normal((3, len(center)))
    whole = mechanism.log_likelihood(found)(points) + mechanism.parameters.log_prior(points)
    logp = model.compile_logp()
    names = {rv.name: model.rvs_to_values[rv].name for rv in model.free_RVs}
    values = [
        float(logp({names[n]: v[k] for n, v in mechanism.parameters.split(points).items()}))
        for k in range(3)
    ]
    np.testing.assert_allclose(np.diff(values), np.diff(whole), rtol=1e-6, atol=1e-6)


def test_start_extends_effects_by_the_prior_of_what_is_above_them(released):
    _, mechanism, found = released
    center, covariance = mechanism.start(found)
    places, pooled = mechanism.read.places, mechanism.pooled(found)
    np.testing.assert_allclose(center[places], pooled.center)
    part = np.linalg.inv(pooled.precision + mechanism.design.prior.precision)
    np.testing.assert_allclose(covariance[np.ix_(places, places)], part)


def test_parameters_that_records_tell_only_in_sums_are_refused_before_the_charge():
    private = hierarchy(centered=False)
    assert score_mechanism(private, MU).usable < 0.2
    with pytest.raises(pmp.errors.PymcPrivateError, match="noise would hide the curvature"):
        pmp.calibrate(private, epsilon=1, delta=1e-6, release="summary", method="scores")


def test_a_plan_says_that_hierarchies_are_little_tried():
    plan = pmp.calibrate(hierarchy(), epsilon=8, delta=1e-6, release="summary", method="scores")
    assert any("a hierarchy" in caution.text for caution in plan.cautions)
    assert "five of eight" in plan.summary()


def test_usable_shares_are_those_of_noisy_curvatures():
    structure = structure_of(np.ones((1, 1), dtype=bool))
    half = usable_share(np.array([[1.0]]), 1.0, structure)
    assert half == pytest.approx(0.5, abs=0.2)
    assert usable_share(np.array([[9.0]]), 1.0, structure) == 1.0
    assert usable_share(np.array([[0.1]]), 0.0, structure) == 1.0
    with pytest.raises(NotInformative, match="10% of simulated summaries usable"):
        refuse_unusable(0.1, 5)


def test_a_check_of_a_hierarchy_is_refused_by_name(released):
    """Its null distribution is about all parameters, and scores here are about some of them."""
    with pytest.raises(pmp.errors.Unsupported, match="checks of hierarchies are not offered"):
        refuse_other_summaries(released[1])
