"""Verdicts on plans: what they mean, that they come true, and that `sample` refuses the prior."""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pymc_private as pmp
from pymc_private.models.verdict import (
    free_coordinates,
    relative_width,
    variance_removed,
    verdict_of,
)
from pymc_private.posterior.calibrate import plan_at_cost


def coins(n, seed=0):
    """A Bernoulli model with a uniform prior."""
    rng = np.random.default_rng(seed)
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=(rng.random(n) < rng.random()).astype(int))
    return pmp.privatize(model, records={"y": 0})


def plan_for(n, **asked):
    return pmp.calibrate(coins(n), **{"epsilon": 1, "delta": 1e-6, "draws": 10} | asked)


@given(st.floats(0, 50), st.integers(1, 40))
def test_the_share_is_of_a_gaussian_whose_variance_falls_by_as_much(nats, coordinates):
    share = variance_removed(nats, coordinates)
    assert 0 <= share <= 1
    assert 1 - share == pytest.approx(math.exp(-2 * nats / coordinates), abs=1e-15)
    assert relative_width(share) ** 2 == pytest.approx(1 - share)


def test_verdicts_go_up_with_the_share_and_are_silent_where_it_is_unknown():
    shares = [0.0, 0.19, 0.2, 0.7, 0.75, 1.0]
    assert [verdict_of(share) for share in shares] == ["prior"] * 2 + ["weak"] * 2 + [
        "informative"
    ] * 2
    assert verdict_of(math.nan) == ""


def test_coordinates_are_those_of_the_unconstrained_parameters():
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(4))
        pm.Poisson("k", 3.0)
        pm.Categorical("y", w, observed=np.zeros(5, int))
    assert free_coordinates(pmp.privatize(model, records={"y": 0})) == 3


@pytest.mark.audit
def test_more_records_turn_the_prior_into_an_informative_plan():
    verdicts = [plan_for(n, epsilon=0.2).verdict for n in (8, 100, 4000)]
    assert verdicts == ["prior", "weak", "informative"]


def test_sample_refuses_the_prior_before_anything_is_charged():
    plan, ledger = plan_for(8, epsilon=0.2), pmp.Ledger(epsilon=9, delta=1e-5)
    with pytest.raises(pmp.errors.NotInformative, match="fewer draws") as caught:
        pmp.sample(plan, ledger=ledger, progressbar=False)
    assert "accept_prior=True" in str(caught.value)
    assert ledger.entries == ()
    release = pmp.sample(plan, ledger=ledger, accept_prior=True, progressbar=False, name="main")
    assert release.private
    # What was paid for is given again, whatever it is worth.
    again = pmp.sample(plan, ledger=ledger, progressbar=False, name="main")
    assert again.posterior.identical(release.posterior)
    assert len(ledger.entries) == 1


def test_plans_that_tell_something_are_drawn_and_say_how_much():
    plan, ledger = plan_for(2000), pmp.Ledger(epsilon=1, delta=1e-6)
    assert plan.summary().split("\n")[1].startswith("INFORMATIVE: expected to remove")
    assert pmp.sample(plan, ledger=ledger, progressbar=False).private


def test_a_verdict_reads_no_data():
    assert (
        plan_for(40).information
        == pmp.calibrate(coins(40, seed=1), epsilon=1, delta=1e-6, draws=10).information
    )


@pytest.mark.audit
@pytest.mark.parametrize("n", [8, 2000])
def test_the_draws_remove_what_the_plan_expects(n):
    """Simulated studies: share of prior variance that released draws remove, beside the plan's."""
    rng, errors = np.random.default_rng(3), []
    for seed in range(40):
        p = rng.random()
        with pm.Model() as model:
            pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=(rng.random(n) < p).astype(int))
        private = pmp.privatize(model, records={"y": 0})
        plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=10)
        release = pmp.sample(plan, random_seed=seed, progressbar=False)
        errors.append(np.mean((release.posterior["p"].values - p) ** 2) * 12)  # prior variance 1/12
    realized = 1 - np.mean(errors) / 2  # a draw of the prior is off by twice its variance
    assert abs(realized - plan.information) < 0.25


def potential(f, prior, **keywords):
    """Records in [-1, 1] that enter by a potential, which has no generator."""
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(2000))
        pm.Potential("p", f(x, prior()))
    return pmp.privatize(model, records={"x": 0}, domain={"x": (-1, 1)}, **keywords)


@pytest.mark.audit
def test_potentials_are_judged_by_records_of_the_domain():
    flat = potential(lambda x, mu: 1e-4 * pm.math.tanh(mu) * x, lambda: pm.Normal("mu", 0, 1))
    plan = pmp.calibrate(flat, epsilon=1, delta=1e-6)
    assert plan.verdict == "prior"
    with pytest.raises(pmp.errors.NotInformative):
        pmp.sample(plan, ledger=pmp.Ledger(epsilon=9, delta=1e-5), progressbar=False)
    steep = potential(lambda x, mu: -4 * abs(x - mu), lambda: pm.Normal("mu", 0, 0.3))
    plan = pmp.calibrate(steep, epsilon=1, delta=1e-6)
    assert plan.verdict == "informative"
    assert "each in proportion to its likelihood" in plan.summary()
    assert "if the likelihood is a density of records on their domain" in plan.summary()


def test_no_verdict_where_nothing_can_be_simulated(monkeypatch):
    def refused(*_, **__):
        raise pmp.errors.Unsupported("no record can be simulated")

    monkeypatch.setattr("pymc_private.posterior.calibrate.simulated_information", refused)
    plan = pmp.calibrate(coins(50), epsilon=1, delta=1e-6)
    assert plan.verdict == ""
    assert "no verdict" in plan.summary()
    assert "INFORMATIVE" not in plan.summary()


@pytest.mark.audit
def test_no_verdict_where_no_draw_of_the_prior_is_near_what_records_tell():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Bernoulli("y", 0.2 + 0.6 * (mu > 6), observed=np.zeros(50, int))
    private = pmp.privatize(model, records={"y": 0})
    assert pmp.calibrate(private, epsilon=1, delta=1e-6).verdict == ""


def test_no_verdict_where_the_number_of_records_is_protected_and_not_given():
    with pm.Model() as model:
        pm.Bernoulli("y", pm.Beta("p", 1, 1), observed=np.zeros(20, int))
    private = pmp.privatize(model, records={"y": 0}, neighbors="add_remove")
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6)
    assert plan.verdict == ""
    assert "n= is not given" in plan.summary()
    assert pmp.calibrate(private, epsilon=1, delta=1e-6, n=2000).verdict == "informative"


def test_draws_at_cost_have_no_verdict_and_a_low_power_is_said():
    assert "power" in plan_at_cost(pmp.temper(coins(50), 1e-3), 1, 0.0).summary()
    assert plan_at_cost(coins(50), 1, 0.0).verdict == ""
