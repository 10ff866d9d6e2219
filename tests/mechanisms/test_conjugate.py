"""Conjugate models are recognized and drawn exactly; others are left to the samplers."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_private as pmp
from pymc_private.mechanisms.conjugate import recognize
from pymc_private.models.assumptions import ASSUMPTIONS
from pymc_private.privacy import beta_pair_delta
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


def ledger(epsilon=1):
    return pmp.Ledger(epsilon=epsilon, delta="1e-4", shares={"approximate": "1e-4"})


def test_a_dirichlet_categorical_model_is_drawn_from_its_posterior():
    account = ledger()
    release = pmp.sample(categorical(), draws=1, epsilon=1, delta=1e-4, ledger=account)
    assert release.posterior["p"].dims == ("chain", "draw", "kind")
    assert list(release.posterior["kind"].values) == ["a", "b", "c"]
    assert release.facts["records"] == "person"
    assert 0.0 < float(release.facts["power"]) < 1.0
    power = float(release.facts["power"])
    assert beta_pair_delta(1.0, power, 2.0, 3.0) <= 1e-4  # the two least parameters
    assert release.guarantee.theorem == "T9-T11"
    assert len(account.entries) == 1


def test_what_the_price_rests_on_is_said():
    """The prior sets it; on the road from a model, all else that such a draw assumes stands too."""
    account = pmp.Ledger(epsilon=9, delta="1e-3", shares={"approximate": "1e-3"})
    private = replace(categorical(), claims=("'z' is public",))
    release = pmp.sample(private, draws=1, epsilon=1, delta=1e-4, ledger=account)
    assert release.facts["counts"]["method"] == "exact"
    assert {*ASSUMPTIONS, "'z' is public"} <= set(release.guarantee.assumptions)
    counts = [250, 100, 50]
    words = {"epsilon": 1, "delta": 1e-4, "method": "exact", "ledger": account}
    direct, plain = pmp.dirichlet(counts, prior=2.0, **words), pmp.dirichlet(counts, **words)
    told = [plan_words(one) for one in (release, direct, plain)]
    assert [words.startswith("prior, ") for words in told] == [True, True, False]


def plan_words(release):
    return next(said for said in release.guarantee.assumptions if "categories, tables" in said)


@pytest.mark.audit
@pytest.mark.parametrize("epsilon", [0.5, 60])
def test_beta_bernoulli_draws_follow_the_tempered_posterior(epsilon):
    release = pmp.sample(coins(), draws=60, epsilon=epsilon, delta=1e-4, random_seed=4)
    if "counts" not in release.facts:
        pytest.fail("not answered by conjugacy")
    power, ill = float(release.facts["power"]), 150
    law = stats.beta(12 + power * ill, 15 + power * (N - ill))
    assert cdf_envelope(release.posterior["theta"].values[0], law.cdf, slack=1e-6).passes


def test_what_is_not_conjugate_is_not_recognized():
    assert recognize(coins()).scalar
    assert recognize(categorical()).prior.tolist() == [2.0, 3.0, 4.0]
    assert recognize(coins(lambda t: t * 0.9)) is None
    assert recognize(pmp.trim(coins(), box={"theta": (0.1, 0.9)})) is None
    assert recognize(pmp.temper(coins(), 0.5)) is None
    assert recognize(coins(records_per_unit=2)) is None
    with pm.Model(coords=PEOPLE) as hyper:
        a = pm.Gamma("a", 2, 1)
        theta = pm.Beta("theta", a, 3)
        pm.Bernoulli("y", p=theta, observed=(kinds() > 0).astype(int), dims="person")
    assert recognize(pmp.privatize(hyper, records="person")) is None
    with pm.Model(coords=PEOPLE) as tilted:
        theta = pm.Beta("theta", 2, 3)
        pm.Bernoulli("y", p=theta, observed=(kinds() > 0).astype(int), dims="person")
        pm.Potential("tilt", theta)
    assert recognize(pmp.privatize(tilted, records="person")) is None


def test_one_hot_rows_count_as_categories():
    with pm.Model(coords=PEOPLE) as model:
        p = pm.Dirichlet("p", a=np.ones(3), dims="kind")
        pm.Multinomial("y", n=1, p=p, observed=np.eye(3, dtype=int)[kinds()],
                       dims=("person", "kind"))  # fmt: skip
    try:
        private = pmp.privatize(model, records="person", domain={"y": pmp.Counts(1)})
    except (pmp.DomainError, TypeError) as error:
        pytest.skip(f"rows of a public total are declared otherwise: {error}")
    assert recognize(private) is not None


@pytest.mark.audit
def test_the_better_road_is_taken():
    """A flat prior and a tiny delta: a trimmed draw keeps more, and is what is given."""
    with pm.Model(coords=PEOPLE) as model:
        theta = pm.Beta("theta", 1, 1)
        pm.Bernoulli("y", p=theta, observed=(kinds() > 0).astype(int), dims="person")
    private = pmp.privatize(model, records="person")
    release = pmp.sample(
        private, draws=1, epsilon=1, delta=1e-9, ledger=ledger(2), progressbar=False
    )
    assert "counts" not in release.facts
    assert Fraction(release.facts["power"]) > 0
