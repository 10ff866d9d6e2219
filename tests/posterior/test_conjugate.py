"""Posteriors that are Dirichlet laws are weighed, priced and drawn as every plan is."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.certificates.conjugate import conjugate_pair
from pymc_private.certificates.terms import ASSUMPTIONS
from pymc_private.privacy import beta_pair_delta, gamma_pair_delta
from tests.statistics import cdf_envelope

N = 400
PEOPLE = {"person": range(N), "kind": ["a", "b", "c"]}


def kinds():
    return np.repeat([0, 1, 2], [250, 100, 50])


def categorical(**words):
    with pm.Model(coords=PEOPLE) as model:
        p = pm.Dirichlet("p", a=np.array([2.0, 3.0, 4.0]), dims="kind")
        pm.Categorical("y", p=p, observed=kinds(), dims="person")
    return pmp.privatize(model, records="person", **words)


def coins(likelihood=None, **words):
    with pm.Model(coords=PEOPLE) as model:
        theta = pm.Beta("theta", 12, 15)
        p = theta if likelihood is None else likelihood(theta)
        pm.Bernoulli("y", p=p, observed=(kinds() > 0).astype(int), dims="person")
    return pmp.privatize(model, records="person", **words)


def ledger(epsilon=1, neighbors="substitute"):
    shares = {"approximate": "1e-4"}
    return pmp.Ledger(epsilon=epsilon, delta="1e-4", shares=shares, neighbors=neighbors)


def test_a_dirichlet_categorical_model_is_drawn_from_its_posterior():
    account = ledger()
    release = pmp.sample(categorical(), draws=1, epsilon=1, delta=1e-4, ledger=account)
    assert release.posterior["p"].dims == ("chain", "draw", "kind")
    assert list(release.posterior["kind"].values) == ["a", "b", "c"]
    assert release.facts["records"] == "person"
    power = float(Fraction(release.facts["power"]))
    assert 0.0 < power < 1.0
    assert beta_pair_delta(1.0, power, 2.0, 3.0) <= 1e-4  # the two least parameters
    assert beta_pair_delta(1.0, power * 1.001, 2.0, 3.0) > 1e-4  # and no more would fit
    assert release.guarantee.theorem == "T9"
    assert len(account.entries) == 1


def test_what_the_price_rests_on_is_said():
    """The prior sets it; on the road from a model, all else that such a draw assumes stands too."""
    account = pmp.Ledger(epsilon=9, delta="1e-3", shares={"approximate": "1e-3"})
    private = replace(categorical(), claims=("'z' is public",))
    release = pmp.sample(private, draws=1, epsilon=1, delta=1e-4, ledger=account)
    assert release.facts["sampler"] == "conjugate"
    assert {*ASSUMPTIONS, "'z' is public"} <= set(release.guarantee.assumptions)
    counts = [250, 100, 50]
    words = {"epsilon": 1, "delta": 1e-4, "method": "exact", "ledger": account}
    direct, plain = pmp.dirichlet(counts, prior=2.0, **words), pmp.dirichlet(counts, **words)
    told = [plan_words(one) for one in (direct, plain)]
    assert [words.startswith("prior, ") for words in told] == [True, False]


def plan_words(release):
    return next(said for said in release.guarantee.assumptions if "categories, tables" in said)


@pytest.mark.audit
@pytest.mark.parametrize("neighbors", ["substitute", "add_remove"])
@pytest.mark.parametrize("build", [categorical, coins])
def test_a_plan_is_the_same_as_what_sample_makes_of_the_model(build, neighbors):
    private = build(neighbors=neighbors)
    plan = pmp.calibrate(private, epsilon=0.3, delta=1e-4, draws=3)
    given = next(row for row in plan.frontier if row.mass is None)
    assert given.certificate.pair is not None
    assert plan.guarantee.epsilon(1e-4) <= 0.3
    direct = pmp.sample(private, draws=3, epsilon=0.3, delta=1e-4, random_seed=5)
    drawn = pmp.sample(plan, random_seed=5)
    assert direct.posterior.identical(drawn.posterior)
    assert direct.facts == drawn.facts
    assert pickle.loads(pickle.dumps(plan)).fingerprint == plan.fingerprint
    assert plan.plot() is not None
    assert plan.sampler in plan.summary()


@pytest.mark.thin(2)
@pytest.mark.parametrize(("build", "least"), [(categorical, 2.0), (coins, 12.0)])
def test_an_added_record_costs_one_gamma_pair(build, least):
    """T10: it puts the power into one cell, at worst the one of the least prior parameter."""
    plan = pmp.calibrate(build(neighbors="add_remove"), epsilon=0.3, delta=1e-4, draws=1)
    power = float(plan.private.power)
    assert plan.guarantee.theorem == "T10"
    assert gamma_pair_delta(0.3, power, least) <= 1e-4
    assert gamma_pair_delta(0.3, power * 1.001, least) > 1e-4
    release = pmp.sample(plan, ledger=ledger(1, "add_remove"), progressbar=False)
    assert release.facts["neighbors"] == "add_remove"
    assert "T10" in release.guarantee.theorem


def ill(power):
    return stats.beta(12 + power * 150, 15 + power * (N - 150))


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [0.5, 60])
def test_beta_bernoulli_draws_follow_the_tempered_posterior(epsilon):
    private = coins(neighbors="add_remove")
    release = pmp.sample(private, draws=60, epsilon=epsilon, delta=1e-4, random_seed=4)
    assert release.facts["trim"] == {}
    law = ill(float(Fraction(release.facts["power"])))
    assert cdf_envelope(release.posterior["theta"].values[0], law.cdf, slack=1e-6).passes


@pytest.mark.audit
def test_dirichlet_draws_follow_the_tempered_posterior():
    release = pmp.sample(categorical(), draws=60, epsilon=5, delta=1e-4, random_seed=4)
    power = float(Fraction(release.facts["power"]))
    assert 0.0 < power < 1.0
    after = np.array([2.0, 3.0, 4.0]) + power * np.array([250, 100, 50])
    for k, a in enumerate(after):
        law = stats.beta(a, after.sum() - a)
        assert cdf_envelope(release.posterior["p"].values[0, :, k], law.cdf, slack=1e-6).passes


def test_what_is_not_counted_in_one_cell_has_no_pair_under_add_remove():
    def is_priced(build, **words):
        return conjugate_pair(build(neighbors="add_remove", **words)) is not None

    assert is_priced(coins)
    assert is_priced(categorical)
    assert not is_priced(coins, records_per_unit=2)
    assert not is_priced(lambda **words: pmp.trim(coins(**words), box={"theta": (0.1, 0.9)}))
    assert not is_priced(lambda **words: coins(lambda t: t * 0.9, **words))
    with pm.Model(coords={"person": range(4), "coin": range(2)}) as pairs:
        theta = pm.Beta("theta", 2, 3)
        pm.Bernoulli("y", p=theta, observed=np.eye(4, 2, dtype=int), dims=("person", "coin"))
    assert conjugate_pair(pmp.privatize(pairs, records="person", neighbors="add_remove")) is None
    with pm.Model(coords=PEOPLE) as trials:
        pm.Binomial("y", 2, pm.Beta("theta", 2, 3), observed=kinds(), dims="person")
    assert conjugate_pair(pmp.privatize(trials, records="person", neighbors="add_remove")) is None


@pytest.mark.thin(8)
@pytest.mark.parametrize("neighbors", ["substitute", "add_remove"])
@pytest.mark.parametrize("total", [1, 2])
def test_one_hot_rows_count_as_categories(total, neighbors):
    with pm.Model(coords=PEOPLE) as model:
        p = pm.Dirichlet("p", a=np.ones(3), dims="kind")
        pm.Multinomial("y", n=total, p=p, observed=total * np.eye(3, dtype=int)[kinds()],
                       dims=("person", "kind"))  # fmt: skip
    domain = {"y": pmp.Counts(total)}
    private = pmp.privatize(model, records="person", domain=domain, neighbors=neighbors)
    assert (conjugate_pair(private) is not None) == (total == 1)
    if total == 1:
        book = ledger(1, neighbors)
        release = pmp.sample(private, draws=1, epsilon=1, delta=1e-4, ledger=book)
        assert release.posterior["p"].dims == ("chain", "draw", "kind")


def test_the_better_road_is_taken():
    """A prior that one record can sway, a tiny delta: a trimmed draw keeps more."""
    plan = pmp.calibrate(coins(), epsilon=1, delta=1e-9, draws=1)
    rows = {row.mass: row.information for row in plan.frontier}
    assert rows[plan.chosen.mass] == max(rows.values()) > rows[None] > 0
    assert plan.certificate.pair is None


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [1e-12, 1e6])
def test_budgets_beyond_all_sense_are_met_or_refused(epsilon):
    private = categorical()
    try:
        plan = pmp.calibrate(private, epsilon=epsilon, delta=1e-4, draws=2)
    except pmp.errors.PymcPrivateError:
        return
    assert plan.guarantee.epsilon(1e-4) <= epsilon
