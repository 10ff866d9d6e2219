"""What a plan says before the data are read, beside one average: each parameter, and doubts."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import Unsupported
from pymc_private.summaries.simulated_summaries import simulated_outside

N = 2000


def declared(build, **more):
    """A private model of placeholder outcomes y, N of them."""
    values, domain = more.pop("values", np.zeros(N)), more.pop("domain", (-6, 6))
    with pm.Model(coords={"record": range(N)}) as model:
        build(pm.Data("seen", values, dims="record"))
    return pmp.privatize(model, records="record", domain={"y": domain}, **more)


def observed_normal(y):
    pm.Normal("y", pm.Normal("mean", 0, 1), 1, observed=y, dims="record")


def observed_tails(y):
    degrees = pm.Gamma("degrees", 2, 0.1)
    mean, scale = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1)
    pm.StudentT("y", nu=degrees, mu=mean, sigma=scale, observed=y, dims="record")


def planned(private, method, epsilon=1.0):
    return pmp.calibrate(private, epsilon=epsilon, delta=1e-6, release="summary", method=method)


@pytest.mark.parametrize("method", ["scores", "records", "cells", "sums"])
def test_of_one_parameter_it_is_the_information(method):
    """With one parameter of constant information g, exp(-2 g) of its variance is left."""
    plan = planned(declared(observed_normal), method)
    ((name, removed),) = plan.by_parameter.items()
    assert name == "mean"
    assert 1.0 - removed == pytest.approx(np.exp(-2.0 * plan.nats), rel=0.15)


@pytest.mark.parametrize("method", ["scores", "records", "cells"])
def test_a_parameter_that_is_hardly_learned_is_named(method):
    """Degrees of freedom are hardly learned beside a mean and a scale, whatever their average."""
    plan = planned(declared(observed_tails, domain=(-20, 20)), method)
    found = plan.by_parameter
    assert found["degrees"] == min(found.values())
    assert found["mean"] > 0.9
    told = plan.coverage(simulations=40, draws=400, progressbar=False)
    left = np.mean(told.width**2, axis=0)
    assert 1.0 - left == pytest.approx(list(found.values()), abs=0.25)
    line = [line for line in plan.summary().splitlines() if line.startswith("hardly learned")]
    assert bool(line) == (found["degrees"] < 0.2)
    assert all("degrees (" in one and "mean" not in one for one in line)


def test_an_informative_plan_names_what_it_does_not_tell():
    """Tails of 20 to 100 degrees are nearly alike."""

    def build(y):
        degrees = pm.Uniform("degrees", 20, 100)
        mean, scale = pm.Normal("mean", 0, 1), pm.HalfNormal("scale", 1)
        pm.StudentT("y", nu=degrees, mu=mean, sigma=scale, observed=y, dims="record")

    plan = planned(declared(build, domain=(-20, 20)), "scores")
    assert plan.verdict == "informative"
    assert plan.by_parameter["degrees"] < 0.2 < 0.9 < plan.by_parameter["mean"]
    assert "hardly learned: degrees (" in plan.summary()


@pytest.mark.parametrize(("domain", "is_told"), [((0, 0.2), True), ((-6, 6), False)])
def test_a_domain_narrower_than_the_prior_is_named(domain, is_told):
    """Where little is learned, the plan says that the model simulates values outside."""
    plan = planned(declared(observed_normal, domain=domain), "scores", epsilon=0.02)
    told = [c.text for c in plan.cautions if "outside the domain" in c.text]
    assert bool(told) == is_told
    found = planned(declared(observed_normal, domain=domain), "scores", epsilon=2)
    coverage = found.coverage(simulations=10, draws=300, progressbar=False)
    # 1 - P(0 < y < 0.2), P(|y| > 6) for y ~ N(0, 2)
    expected = 0.9437 if is_told else 0.00002
    assert coverage.outside["seen"] == pytest.approx(expected, abs=0.05)
    assert ("outside the domain" in repr(coverage)) == is_told


@pytest.mark.parametrize(
    ("values", "domain", "is_told"),
    [
        (np.zeros(N), pmp.Categories([0, 1]), True),
        (np.zeros(N), pmp.Categories(range(10)), False),
        (np.zeros(N), (0, 1), False),
    ],
    ids=["two categories", "ten categories", "real numbers"],
)
def test_a_density_of_a_few_values_is_told(values, domain, is_told):
    """A normal likelihood of outcomes 0 and 1 is wrong, and a summary does not see it."""
    plan = planned(declared(observed_normal, values=values, domain=domain), "scores")
    assert any("takes 2 values" in c.text for c in plan.cautions) == is_told


def test_a_density_of_whole_numbers_is_refused_with_what_to_write():
    """By their type outcomes are whole, and probabilities of a density do not sum to one."""
    private = declared(observed_normal, values=np.zeros(N, int), domain=(0, 1))
    with pytest.raises(Unsupported, match=r"y.astype\(float\)"):
        planned(private, "scores")


def test_counts_are_no_density():
    """A Bernoulli likelihood of 0 and 1 is right."""

    def build(y):
        pm.Bernoulli("y", pm.Beta("rate", 2, 2), observed=y, dims="record")

    plan = planned(declared(build, values=np.zeros(N, int), domain=(0, 1)), "scores")
    assert not plan.cautions


def test_scores_say_that_fit_is_hardly_tested():
    """Scores are as many as the parameters; cells and sums have tests of their own."""
    private = declared(observed_normal)
    ledger = pmp.Ledger(epsilon=4, delta=1e-5)
    with ledger:
        scores = pmp.summarize(planned(private, "scores"))
        cells = pmp.summarize(planned(private, "cells"))
    assert "hardly tested" in repr(scores)
    assert "hardly tested" not in repr(cells)


@pytest.mark.parametrize("method", ["cells", "records"])
def test_of_a_hierarchy_no_shares_are_told(method):
    """A spread is not linear in what records tell of its groups: its share would come out as 0."""
    with pm.Model() as model:
        spread = pm.HalfNormal("spread", 1)
        groups = pm.Normal("groups", 0, spread, shape=2 if method == "records" else None)
        y = np.zeros((N, 2) if method == "records" else N)
        pm.Normal("y", groups, 1, observed=pm.Data("seen", y))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-6, 6)})
    plan = planned(private, method)
    assert plan.by_parameter == {}
    assert "hardly learned" not in plan.summary()


def test_a_reference_is_what_covariates_are_simulated_from():
    """Of a narrow reference outcomes stay in a domain that uniform covariates would leave."""
    with pm.Model() as model:
        mean = pm.Normal("slope", 0, 1) * pm.Data("x", np.zeros(N))
        pm.Normal("y", mean, 1, observed=pm.Data("seen", np.zeros(N)))
    domain = {"x": (-50, 50), "y": (-6, 6)}
    private = pmp.privatize(model, records={"x": 0, "y": 0}, domain=domain)
    parameters = planned(private, "scores").mechanism.parameters
    reference = {"x": np.random.default_rng(1).normal(size=200)}
    assert simulated_outside(private, parameters)["seen"] > 0.5
    assert simulated_outside(private, parameters, reference)["seen"] < 0.05
