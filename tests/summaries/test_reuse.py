"""Other models on a released summary: free where its likelihood is theirs, refused elsewhere."""

from __future__ import annotations

import logging

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.errors import PymcPrivateError
from tests.summaries.test_refine import declared

N = 400


def variant(slopes, *, link=None, bound=1.0, n=N, name="x"):
    """The model of `declared` with other slopes, which `slopes()` makes; data are placeholders."""
    with pm.Model(coords={"person": range(n)}) as made:
        data = pm.Data(name, np.zeros((n, 2)), dims=("person", None))
        eta = pm.Normal("intercept") + data @ slopes()
        words = {"p": pm.math.invprobit(eta)} if link == "probit" else {"logit_p": eta}
        pm.Bernoulli("y", observed=np.zeros(n, int), dims="person", **words)
    return pmp.privatize(made, records="person", domain={name: (-bound, bound)})


def narrow():
    return pm.Normal("slopes", 0, 0.2, shape=2)


def hierarchy():
    scale = pm.HalfNormal("scale")
    return pm.Deterministic("slopes", scale * pm.Normal("raw", shape=2))


def first_alone():
    return pm.Deterministic("slopes", pm.math.stack([pm.Normal("first"), 0.0]))


@pytest.fixture(scope="module")
def original():
    return declared(n=N)


@pytest.fixture(scope="module")
def summary(original):
    """Seeded: what is reused is the same for a private one, and nothing is charged either way."""
    words = {"epsilon": 2, "delta": 1e-6, "method": "scores", "accept": True}
    return pmp.summarize(original, random_seed=1, progressbar=False, **words)


def log_likelihood(model, **natural):
    potential = next(p for p in model.potentials if p.name.startswith("noisy_summary"))
    return float(potential.eval({model[name]: value for name, value in natural.items()}))


@pytest.mark.audit
@pytest.mark.parametrize("make", [narrow, hierarchy, first_alone])
def test_another_prior_has_the_likelihood_of_the_summary(summary, make, caplog):
    slopes = np.array([0.7, 0.0])
    free = {
        "slopes": slopes,
        "raw": slopes / 0.5,
        "scale": np.array(0.5),
        "first": np.array(0.7),
    }
    private = variant(make)
    with caplog.at_level(logging.INFO, "pymc_private"):
        model = summary.reuse(private, accept=True)
    assert "nothing more is charged" in caplog.text
    assert model.observed_RVs == []
    assert "x" not in model.named_vars
    known = {rv.name for rv in model.free_RVs} - {"intercept"}
    point = {name: free[name] for name in known} | {"intercept": np.array(0.2)}
    own = summary.model(accept=True)
    wanted = log_likelihood(own, slopes=slopes, intercept=np.array(0.2))
    np.testing.assert_allclose(log_likelihood(model, **point), wanted, rtol=1e-6)
    other = log_likelihood(own, slopes=slopes + 0.3, intercept=np.array(0.2))
    assert abs(other - wanted) > 1e-3
    assert np.isfinite(model.point_logps()[next(iter(known))])


@pytest.mark.audit
def test_a_loaded_summary_needs_the_model_it_was_made_of(summary, original, tmp_path):
    loaded = pmp.load(summary.save(tmp_path / "main.nc"))
    with pytest.raises(pmp.errors.DomainError, match="holds no model"):
        loaded.reuse(variant(narrow), accept=True)
    with pytest.raises(pmp.errors.Incompatible, match=r"summary\.reuse\(private\)"):
        loaded.model(variant(narrow), accept=True)
    assert loaded.reuse(variant(narrow), original=original, accept=True).free_RVs


def penalized():
    slopes = pm.Normal("slopes", shape=2)
    pm.Potential("penalty", -50 * pm.math.sum((slopes - 3) ** 2))
    return slopes


BAD = {
    "a potential": (lambda: variant(penalized), "potential of the parameters"),
    "another likelihood": (lambda: variant(narrow, link="probit"), "another likelihood"),
    "a parameter without a name": (
        lambda: variant(lambda: pm.Normal("b", shape=2)),
        "no slopes, which the summary is about",
    ),
    "another meaning": (
        lambda: variant(lambda: 2.0 * pm.Normal("slopes", shape=2)),
        "another likelihood",
    ),
    "another domain": (lambda: variant(narrow, bound=2.0), "not of the records"),
    "other records": (lambda: variant(narrow, n=N + 1), "not of the records"),
    "other names": (lambda: variant(narrow, name="z"), "not of the records"),
    "no private model": (lambda: pm.Model(), "by a private model"),
    "tempered": (lambda: pmp.temper(variant(narrow), 0.5), "keeps the likelihood"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_needs_a_summary_of_its_own_is_refused(name, summary):
    make, text = BAD[name]
    with pytest.raises(PymcPrivateError, match=text) as caught:
        summary.reuse(make(), accept=True)
    assert caught.value.do


def test_a_shape_that_differs_is_refused(summary):
    private = variant(lambda: pm.Deterministic("slopes", pm.Normal("b", shape=(2, 1)))[:, 0])
    with pytest.raises(pmp.errors.Incompatible, match="another shape"):
        summary.reuse(private, accept=True)


def normal(mean, scale, *, error=0.0, public=()):
    """Normal records whose mean and standard deviation have priors; `error` adds to the latter."""
    with pm.Model(coords={"person": range(100)}) as made:
        y = pm.Data("y", np.linspace(-1.0, 1.0, 100), dims="person")
        mu, sigma = mean("mu"), pm.HalfNormal("sigma", scale)
        pm.Normal("o", mu, pm.math.sqrt(sigma**2 + error**2), observed=y, dims="person")
        if public:
            pm.Normal("z", mu, 0.1, observed=np.array(public))
    words = {"public": ["z"]} if public else {}
    return pmp.privatize(made, records="person", domain={"y": (-4, 4)}, **words)


def inside(name):
    return pm.Uniform(name, -1, 1)


@pytest.fixture(scope="module")
def bounded():
    words = {"epsilon": 4, "delta": 1e-6, "method": "scores", "random_seed": 1}
    return pmp.summarize(normal(inside, 1), progressbar=False, accept=True, **words)


OTHERS = {
    "mass outside the support": (lambda: normal(pm.Normal, 1), "reaches beyond the values"),
    "an error that a wide prior hides": (
        lambda: normal(inside, 1000, error=0.02),
        "another likelihood",
    ),
    "public observations": (lambda: normal(inside, 1, public=[3.0, 3.0]), "public observation"),
    "an improper prior": (lambda: normal(pm.Flat, 1), "improper"),
}


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", OTHERS)
def test_a_posterior_that_the_summary_would_get_wrong_is_refused(name, bounded):
    make, text = OTHERS[name]
    with pytest.raises(PymcPrivateError, match=text):
        bounded.reuse(make(), accept=True)


def test_a_prior_inside_the_support_is_free(bounded):
    own = normal(lambda name: pm.Uniform(name, -0.5, 0.5), 2)
    assert bounded.reuse(own, accept=True).free_RVs


def test_chains_of_other_priors_start_where_they_have_density(bounded, summary):
    """One leaves out the center of the summary; the other is discrete."""
    beyond = normal(lambda name: pm.Uniform(name, 0.5, 0.9), 1)
    whole = variant(lambda: pm.DiscreteUniform("slopes", -1, 1, shape=2))
    for model in (bounded.reuse(beyond, accept=True), summary.reuse(whole, accept=True)):
        start = model.initial_point()
        assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(start))
