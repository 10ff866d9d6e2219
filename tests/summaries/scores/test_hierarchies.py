"""Summaries of hierarchies by scores: effects of groups, and parameters above them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.basic import Variable

import pymc_private as pmp
from pymc_private.errors import NotInformative
from pymc_private.summaries.density.record_density import RecordDensity
from pymc_private.summaries.noise import SimulatedNoise
from pymc_private.summaries.noise_aware_model import noise_aware_model
from pymc_private.summaries.scores.curvature_check import refuse_unusable, usable_share
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.score_mechanism import ExpectedRelease, ScoreMechanism
from pymc_private.summaries.scores.structure import structure_of
from tests.scaled_coordinates import scaled_point

GROUPS, RECORDS, MU = 4, 600, 1.0
KNOWN = pt.constant(np.array([0.3, -1.2, 0.5, 2.0]))
"""What is known of the groups."""


def effects(form: str) -> Variable:
    """Give the effects of four groups in a form that people write; groups are looked up later."""
    mean, sd = pm.Normal("mean"), pm.HalfNormal("sd")
    if form == "centered":
        return pm.Normal("effect", mean, sd, dims="group")
    if form == "an intercept beside effects":
        return mean + pm.Normal("effect", 0, sd, dims="group")
    return pm.Deterministic("effect", mean + sd * pm.Normal("z", dims="group"), dims="group")


def predictor(form: str, group: Variable, x: Variable) -> Variable:
    """Give the linear predictor of records in groups, which share a slope or have their own."""
    if form == "sums after the lookup":
        mean, sd = pm.Normal("mean"), pm.HalfNormal("sd")
        return mean + sd * pm.Normal("z", dims="group")[group] + pm.Normal("slope") * x
    if form == "crossed":
        mean, sd = pm.Normal("mean"), pm.HalfNormal("sd", shape=2)
        z, other = pm.Normal("z", dims="group"), pm.Normal("other", 0, sd[1], shape=3)
        return mean + sd[0] * z[group] + pm.Normal("slope") * x + other[group % 3]
    if form == "slopes of their own":
        mean, sd, slope = pm.Normal("mean"), pm.HalfNormal("sd", shape=2), pm.Normal("slope")
        z, w = pm.Normal("z", dims="group"), pm.Normal("w", dims="group")
        return mean + sd[0] * z[group] + slope * x - x * sd[1] * w[group] / 2.0
    if form == "correlated":
        deviations = pm.Exponential.dist(1.0)
        chol, *_ = pm.LKJCholeskyCov("chol", n=2, eta=2, sd_dist=deviations, compute_corr=True)
        raw = pm.math.dot(chol, pm.Normal("z", shape=(2, GROUPS))).T
        both = pm.Deterministic("both", pm.Normal("mean", shape=2) + raw, dims=("group", "term"))
        return both[group, 0] + both[group, 1] * x
    if form == "known groups":
        return (
            effects("centered")[group] + pm.Normal("trend") * KNOWN[group] + pm.Normal("slope") * x
        )
    if form == "known groups, not centered":
        own = effects(form) + pm.Normal("trend") * KNOWN
        return own[group] + pm.Normal("slope") * x
    if form == "known groups by a matrix":
        known, two = pt.stack([KNOWN, KNOWN**2], axis=1), pm.Normal("trend", shape=2)
        terms = two[0] * known[group, 0] - known[group, 1] / two[1]
        return effects("centered")[group] + terms + pm.Normal("slope") * x
    if form == "known others":  # what is known of another group, by an array of another length
        more = pt.concatenate([KNOWN, KNOWN])
        return (
            effects("centered")[group] + pm.Normal("trend") * more[group] + pm.Normal("slope") * x
        )
    if form == "known groups of slopes":
        own = pm.Normal("own", dims="group")[group] - pm.Normal("trend") * KNOWN[group]
        return effects("centered")[group] + own * x
    if form == "known groups without effects":
        return pm.Normal("mean") + pm.Normal("trend") * KNOWN[group] + pm.Normal("slope") * x
    return effects(form)[group] + pm.Normal("slope") * x


def hierarchy(form: str = "centered", public: bool = False) -> pmp.PrivateModel:
    """Give a logistic regression with effects of groups."""
    rng = np.random.default_rng(0)
    group, x = rng.integers(0, GROUPS, RECORDS), rng.uniform(-1, 1, RECORDS)
    with pm.Model(
        coords={"row": np.arange(RECORDS), "group": [*"abcd"], "term": ["1", "x"]}
    ) as model:
        group_data, x_data = pm.Data("g", group, dims="row"), pm.Data("x", x, dims="row")
        eta = predictor(form, group_data, x_data)
        pm.Bernoulli("y", logit_p=eta, observed=rng.integers(0, 2, RECORDS), dims="row")
    domain = {"x": (-1.0, 1.0)} | ({} if public else {"g": pmp.Categories(range(GROUPS))})
    words: dict[str, Any] = {"public": ["g"] if public else [], "constants": "public"}
    return pmp.privatize(model, records="row", domain=domain, **words)


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
    likelihood, slices = mechanism.log_likelihood(found), mechanism.parameters.slices
    theta = mechanism.parameters.draws(6, 9)
    moved = theta.copy()
    moved[:, slices["mean"]] += 1.0
    moved[:, slices["sd"]] += 1.0
    np.testing.assert_array_equal(likelihood(theta), likelihood(moved))
    moved[:, slices["effect"]] += 0.1
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
    scaled = [scaled_point(model, mechanism.parameters.split(one)) for one in points]
    values = [float(logp(point)) - scales for point, scales in scaled]
    np.testing.assert_allclose(np.diff(values), np.diff(whole), rtol=1e-6, atol=1e-6)


def test_start_extends_effects_by_the_prior_of_what_is_above_them(released):
    _, mechanism, found = released
    center, covariance = mechanism.start(found)
    slices, pooled = mechanism.parameters.slices, mechanism.pooled(found)
    places = np.r_[slices["effect"], slices["slope"]]
    np.testing.assert_allclose(center[places], pooled.center)
    part = np.linalg.inv(pooled.precision + mechanism.design.prior.precision)
    np.testing.assert_allclose(covariance[np.ix_(places, places)], part, rtol=1e-6)


@pytest.mark.thin(6)
@pytest.mark.parametrize(
    ("form", "read"),
    [
        ("an intercept beside effects", GROUPS + 1),
        ("not centered", GROUPS + 1),
        ("sums after the lookup", GROUPS + 1),
        ("slopes of their own", 2 * GROUPS),
        ("correlated", 2 * GROUPS),
        ("crossed", GROUPS + 1 + 2),
        ("known groups", GROUPS + 1),
        ("known groups, not centered", GROUPS + 1),
        ("known groups of slopes", 2 * GROUPS),
        ("known groups by a matrix", GROUPS + 1),
        ("known others", GROUPS + 2),
    ],
)
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.parametrize("public", [False, True], ids=["private labels", "public labels"])
def test_what_records_tell_in_sums_and_products_is_read_as_such(form, read, public):
    """The density of a record is a function of the sums alone, and one predictor stays one."""
    private = hierarchy(form, public)
    by_sums, by_all = (RecordDensity(private, of_coefficients=sums) for sums in (True, False))
    assert (by_sums.parameters.size, by_sums.size) == (read, 1)
    theta = by_all.parameters.draws(5, 4)
    rng = np.random.default_rng(2)
    rows = {"x": rng.uniform(-1, 1, 30)} | {n: rows[:30] for n, rows in by_all.public_rows.items()}
    rows |= {} if public else {"g": rng.integers(0, GROUPS, 30)}
    y = rng.integers(0, 2, (30, 1))
    found = by_sums.log_density(by_sums.parameters.of(theta), rows, y)
    np.testing.assert_allclose(found, by_all.log_density(theta, rows, y), rtol=1e-10)


def test_what_is_known_of_groups_without_effects_is_no_array_of_coefficients():
    assert RecordDensity(
        hierarchy("known groups without effects"), of_coefficients=True
    ).parameters.shapes == {"mean": (), "trend": (), "slope": ()}


@pytest.mark.thin(4)
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.parametrize("form", ["sums after the lookup", "correlated"])
def test_models_that_are_not_centered_have_summaries(form):
    """All names, dims and coords are there; the build compares gradients in all parameters."""
    private = hierarchy(form)
    mechanism = score_mechanism(private, MU)
    assert mechanism.usable > 0.8
    rng = np.random.default_rng(3)
    records = {"g": rng.integers(0, GROUPS, RECORDS), "x": rng.uniform(-1, 1, RECORDS)}
    records["y"] = 1.0 * rng.integers(0, 2, RECORDS)
    model = noise_aware_model(private, mechanism, mechanism.release(records, SimulatedNoise(rng)))
    base = private.base
    names = {v.name for v in [*base.free_RVs, *base.deterministics]}
    assert names == set(model.named_vars) - {"noisy_summary"}
    assert all(model.named_vars_to_dims.get(n) == base.named_vars_to_dims.get(n) for n in names)
    assert list(model.coords["group"]) == [*"abcd"]


def test_effects_of_a_bambi_model_are_read_with_its_intercept():
    bambi = pytest.importorskip("bambi")
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"y": rng.integers(0, 2, 90), "x": rng.uniform(-1, 1, 90)})
    data["g"] = pd.Categorical(rng.integers(0, 3, 90))
    unit = bambi.Prior("Normal", mu=0, sigma=1)
    effect = bambi.Prior("Normal", mu=0, sigma=bambi.Prior("HalfNormal", sigma=1))
    priors = {"Intercept": unit, "x": unit, "1|g": effect, "x|g": effect}
    model = bambi.Model(
        "y ~ x + (x|g)",
        data,
        family="bernoulli",
        priors=priors,
        auto_scale=False,
        center_predictors=False,
    )
    private = pmp.privatize(model, records="__obs__", domain={"x": (-1.0, 1.0)})
    assert RecordDensity(private, of_coefficients=True).parameters.size == 6


def test_a_plan_says_that_hierarchies_are_little_tried():
    plan = pmp.calibrate(hierarchy(), epsilon=8, delta=1e-6, release="summary", method="scores")
    assert any("a hierarchy" in caution.text for caution in plan.cautions)
    assert "measured for few settings" in plan.summary()


def test_summaries_that_noise_spoils_tell_nothing():
    mechanism = object.__new__(ScoreMechanism)
    expected = [(4.0, 0.5), (3.0, 1.0), (5.0, 0.0)]
    mechanism.__dict__["_expected_releases"] = [ExpectedRelease(*e, np.ones(1)) for e in expected]
    assert mechanism.information == pytest.approx(5.0 / 3.0)
    assert mechanism.usable == 0.5


def test_usable_shares_are_those_of_noisy_curvatures():
    structure = structure_of(np.ones((1, 1), dtype=bool))
    half = usable_share(np.array([[1.0]]), 1.0, structure)
    assert half == pytest.approx(0.5, abs=0.2)
    assert usable_share(np.array([[9.0]]), 1.0, structure) == 1.0
    assert usable_share(np.array([[0.1]]), 0.0, structure) == 1.0
    with pytest.raises(NotInformative, match="10% of simulated summaries usable"):
        refuse_unusable(0.1, 5)
