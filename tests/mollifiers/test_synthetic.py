"""Synthetic records of a PyMC model: what may be read, and what is released."""

from __future__ import annotations

import logging

import numpy as np
import pymc as pm
import pytest
from sklearn.linear_model import LogisticRegression

import pymc_private as pmp
from pymc_private.mollifiers import mollify
from pymc_private.mollifiers.synthetic import _check_secrets, mollified_posterior_predictive

RNG = np.random.default_rng(5)
FAST = {"draws": 30, "tune": 30, "chains": 1}


def normal_model() -> pm.Model:
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1)
        pm.Normal("y", mu, 0.5, observed=RNG.normal(1.0, 0.5, 60))
    return model


def logistic_model() -> pm.Model:
    with pm.Model() as model:
        x = pm.Data("X", RNG.normal(size=(40, 2)))
        w = pm.Normal("w", 0, 1, shape=2)
        pm.Bernoulli("y", logit_p=x @ w, observed=RNG.integers(0, 2, 40))
    return model


def test_an_existing_model_gives_private_records_in_one_call(capfd):
    budget = pmp.Ledger(epsilon=40, neighbors="any")
    release = pmp.mollifiers.synthesize(
        normal_model(),
        draws=20,
        epsilon=1.0,
        pool=512,
        sampling=FAST,
        ledger=budget,
        progressbar=False,
    )
    assert dict(release.posterior.sizes) == {"chain": 1, "draw": 20}
    assert release.guarantee.pure_epsilon == 20.0
    assert list(release.posterior.data_vars) == ["y"]
    assert capfd.readouterr().out == ""
    assert logging.getLogger("pymc").level != logging.CRITICAL


def test_covariates_that_were_not_declared_public_are_refused_by_name():
    with pytest.raises(pmp.errors.NotCertified, match="X") as refusal:
        pmp.mollifiers.synthesize(logistic_model(), epsilon=1.0)
    assert refusal.value.blame == ("X",)
    with pm.Model() as model:
        w = pm.Normal("w", 0, 1)
        pm.Normal("y", RNG.normal(size=40) * w, 1, observed=np.zeros(40))
    with pytest.raises(pmp.errors.NotCertified, match="written into the model"):
        pmp.mollifiers.synthesize(model, epsilon=1.0)
    assert _check_secrets(model, (), "public")
    assert not _check_secrets(normal_model(), (), "private")


@pytest.mark.audit
def test_public_covariates_give_records_that_name_their_row():
    law = mollified_posterior_predictive(
        logistic_model(), epsilon=1.0, public=["X"], pool=512, sampling=FAST
    )
    assert list(law.reference.shapes) == ["row", "y"]
    drawn = law.sample(30, random_seed=1, progressbar=False).posterior
    assert set(drawn.y.values.ravel()) <= {0.0, 1.0}
    assert drawn.row.values.max() < 40


def test_a_model_without_a_predictive_is_refused():
    with pm.Model() as empty:
        pm.Normal("a", 0, 1)
    with pytest.raises(pmp.errors.DomainError, match="no observed variable"):
        pmp.mollifiers.synthesize(empty, epsilon=1.0)
    with pm.Model() as improper:
        mu = pm.Flat("mu")
        pm.Normal("y", mu, 1, observed=np.zeros(5))
    with pytest.raises(pmp.errors.DomainError, match="improper prior"):
        pmp.mollifiers.synthesize(improper, epsilon=1.0)
    with pm.Model() as penalized:
        mu = pm.Normal("mu", 0, 1)
        pm.Potential("p", -mu)
        pm.Normal("y", mu, 1, observed=np.zeros(5))
    with pytest.raises(pmp.errors.Unsupported, match="potentials"):
        pmp.mollifiers.synthesize(penalized, epsilon=1.0)
    with pytest.raises(pmp.errors.DomainError, match="potentials"):
        mollify(np.zeros((3, 1)), penalized, 1.0)


def test_a_budget_that_is_none_is_refused_before_a_chain_is_run(monkeypatch):
    monkeypatch.setattr(pm, "sample", lambda **_: pytest.fail("the chain ran first"))
    for words in ({"epsilon": 0.0}, {}, {"epsilon": 1.0, "total": (1.0, 1e-6, 3)}):
        with pytest.raises(pmp.errors.DomainError, match="epsilon"):
            pmp.mollifiers.synthesize(normal_model(), **words)


@pytest.mark.audit
def test_boosting_takes_a_prior_as_reference():
    with pm.Model() as prior:
        pm.Normal("a", 0, 1)
        pm.HalfNormal("b", 1)
    rows = np.column_stack([RNG.normal(1, 0.3, 300), np.abs(RNG.normal(1, 0.2, 300))])
    model = pmp.MollifiedBoosting(2.0, 2, LogisticRegression(), prior, progressbar=False)
    assert model.fit(rows).gain_ > 0.1
    release = model.sample(10, random_seed=1)
    assert list(release.posterior.data_vars) == ["a", "b"]
    assert (release.posterior.b.values >= 0).all()


def test_a_prior_is_a_reference_with_its_own_density():
    with pm.Model() as model:
        a = pm.Normal("a", 0, 1)
        pm.HalfNormal("b", pm.math.exp(a))
    rows = np.column_stack([RNG.normal(1, 0.1, 50), np.abs(RNG.normal(1, 0.2, 50))])
    law = mollify(rows, model, 1.0, pool=256)
    from scipy import stats

    expected = stats.norm.logpdf(1.0) + stats.halfnorm(scale=np.e).logpdf(0.5)
    assert law.reference.logpdf(np.array([[1.0, 0.5]])) == pytest.approx([expected])
    assert list(law.reference.shapes) == ["a", "b"]


def test_a_word_in_public_is_one_name():
    """Its letters would have been public too."""
    with pm.Model(coords={"i": range(20)}) as model:
        a, b, both = (pm.Data(name, np.ones(20), dims="i") for name in ("a", "b", "ab"))
        pm.Normal("y", pm.Normal("slope") * (a + b + both), 1, observed=np.zeros(20), dims="i")
    with pytest.raises(pmp.errors.NotCertified) as refusal:
        pmp.mollifiers.synthesize(model, epsilon=1.0, public="ab", sampling=FAST)
    assert refusal.value.blame == ("a", "b")
