"""Latent variables of single records, summed out: against numerical integration, and refusals."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, stats
from scipy.special import expit

import pymc_private as pmp
from pymc_private.errors import DomainError, Unsupported
from pymc_private.models import marginalize as module

N, ITEMS = 7, 3
RIGHT = np.random.default_rng(0).integers(0, 2, (N, ITEMS))


def items():
    """An item response model: persons' abilities, difficulties of the items."""
    with pm.Model(coords={"person": range(N), "item": range(ITEMS)}) as model:
        spread = pm.HalfNormal("spread", 1)
        ability = pm.Normal("ability", 0.3, spread, dims="person")
        hard = pm.Normal("hard", 0, 1, dims="item")
        pm.Deterministic("best", ability.max())
        pm.Deterministic("mean_hard", hard.mean())
        pm.Bernoulli("y", logit_p=ability[:, None] - hard, observed=RIGHT, dims=("person", "item"))
    return model


def terms(model, **point):
    """The potential's terms at values of the parameters."""
    (potential,) = model.potentials
    swaps = {model[name]: np.asarray(value) for name, value in point.items()}
    return potential.eval(swaps, on_unused_input="ignore")


def test_abilities_are_integrated_out_of_an_item_response_model():
    model = pmp.marginalize(items(), "ability", points=31)
    assert [rv.name for rv in model.free_RVs] == ["spread", "hard"]
    assert [v.name for v in model.deterministics] == ["mean_hard"]
    hard, spread = np.array([-0.5, 0.2, 1.0]), 0.8

    def density(a, row):
        p = expit(a - hard)
        return stats.norm.pdf(a, 0.3, spread) * np.prod(np.where(row == 1, p, 1 - p))

    truth = [np.log(integrate.quad(density, -12, 12, args=(row,))[0]) for row in RIGHT]
    assert terms(model, hard=hard, spread=spread) == pytest.approx(truth, abs=1e-6)
    # Three nodes are a coarse rule, and still a density: it adds up to one over all answers.
    coarse = pmp.marginalize(items(), "ability", points=3)
    found = terms(coarse, hard=hard, spread=spread)
    assert np.abs(found - truth).max() > 1e-5


def test_the_density_adds_up_to_one_over_all_answers():
    every = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)])
    with pm.Model() as model:
        ability = pm.Normal("ability", 0, 1, shape=8)
        hard = pm.Normal("hard", 0, 1, shape=3)
        pm.Bernoulli("y", logit_p=ability[:, None] - hard, observed=every)
    found = terms(pmp.marginalize(model, "ability", points=3), hard=[0.0, 1.0, -2.0])
    assert np.exp(found).sum() == pytest.approx(1.0, abs=1e-12)


def test_classes_are_summed_out_of_a_mixture():
    y = np.linspace(-2, 2, N)
    with pm.Model() as model:
        weight, mean = pm.Beta("w", 2, 2), pm.Normal("mean", 0, 1, shape=2)
        group = pm.Bernoulli("group", weight, shape=N)
        pm.Normal("y", mean[group], 1.0, observed=y)
    found = terms(pmp.marginalize(model, "group"), w=0.3, mean=[-1.0, 1.5])
    truth = np.log(0.7 * stats.norm.pdf(y, -1.0) + 0.3 * stats.norm.pdf(y, 1.5))
    assert found == pytest.approx(truth, abs=1e-12)


@pytest.mark.audit
def test_a_category_and_an_effect_are_summed_out_together():
    y = np.arange(N)
    with pm.Model() as model:
        p, rate = pm.Dirichlet("p", np.ones(3)), pm.Normal("rate", 0, 1, shape=3)
        kind = pm.Categorical("kind", p, shape=N)
        effect = pm.Normal("effect", 0, 0.4, shape=N)
        pm.Poisson("y", pm.math.exp(rate[kind] + effect), observed=y)
    weights, rates = np.array([0.2, 0.3, 0.5]), np.array([0.0, 1.0, -1.0])

    def density(e, k):
        each = stats.poisson.pmf(k, np.exp(rates + e))
        return stats.norm.pdf(e, 0, 0.4) * (weights * each).sum()

    truth = [np.log(integrate.quad(density, -4, 4, args=(k,))[0]) for k in y]
    found = terms(pmp.marginalize(model, "kind", "effect", points=31), p=weights, rate=rates)
    assert found == pytest.approx(truth, abs=1e-5)


@pytest.mark.usefixtures("quick")
def test_what_is_left_is_privatized_and_certified():
    model = items()
    with pytest.raises(Unsupported, match="one entry per record") as refused:
        pmp.privatize(model, records="person")
    assert 'pmp.marginalize(model, "ability")' in str(refused.value)
    shared = pmp.marginalize(model, "ability", points=7)
    private = pmp.privatize(shared, records="person", domain={"y": {0, 1}})
    box = {"hard": (-1, 1), "spread": (0.3, 1.5)}
    certificate = pmp.certify(pmp.trim(private, box=box), progressbar=False)
    assert 0 < certificate.searched <= certificate.range < 40
    assert not private.graph.rows_differ
    assert "ability" in [rv.name for rv in model.free_RVs]  # the model given is untouched


def with_latent(build, **latent):
    with pm.Model() as model:
        build(pm.Normal("z", 0, 1, **latent))
    return model


def observed(mean, **more):
    pm.Normal("y", mean, 1.0, observed=np.zeros(N), **more)


@pytest.mark.parametrize(
    ("model", "names", "said"),
    [
        (lambda: with_latent(observed), ["z"], "its sum couples them"),
        (lambda: with_latent(lambda z: observed(z.cumsum()), shape=N), ["z"], "entry i alone"),
        (lambda: with_latent(lambda z: observed(z[::-1]), shape=N), ["z"], "entry i alone"),
        (lambda: with_latent(lambda z: observed(z[:1] + z), shape=N), ["z"], "entry i alone"),
        (lambda: with_latent(lambda z: pm.Normal("x", z.sum()), shape=N), ["z"], "may read"),
        (lambda: with_latent(lambda z: pm.Potential("t", z + 0), shape=N), ["z"], "may read"),
    ],
)
def test_what_cannot_be_summed_out_record_by_record_is_refused(model, names, said):
    with pytest.raises(Unsupported, match=said):
        pmp.marginalize(model(), *names)


def test_other_distributions_and_names_are_refused():
    with pm.Model() as model:
        observed(pm.StudentT("t", 4, shape=N) + pm.Poisson("k", 3.0, shape=N))
    for name in ("t", "k"):
        with pytest.raises(Unsupported, match="neither normal nor a discrete"):
            pmp.marginalize(model, name)
    for names in ((), ("absent",)):
        with pytest.raises(DomainError, match="free variables"):
            pmp.marginalize(model, *names)
    with pytest.raises(DomainError, match="3 to 101"):
        pmp.marginalize(model, "t", points=2)


def test_covariates_of_whole_records_pass_the_checks_of_their_answers():
    """Checks of nodes are joined into one condition; each of its parts reads one record."""
    answers = np.random.default_rng(3).integers(0, 2, (6, 2))
    with pm.Model(coords={"person": range(6), "item": range(2)}) as model:
        age = pm.Data("age", np.linspace(-1, 1, 6), dims="person")
        ability = pm.Normal("ability", pm.Normal("slope") * age, 1, dims="person")
        eta = ability[:, None] - pm.Normal("hard", dims="item")
        pm.Bernoulli("right", logit_p=eta, observed=answers, dims=("person", "item"))
    shared = pmp.marginalize(model, "ability", points=3)
    private = pmp.privatize(shared, records="person", domain={"age": (-1, 1), "right": {0, 1}})
    assert private.n == 6


def test_weights_that_do_not_add_up_are_a_fault_that_is_seen(monkeypatch):
    """The check above of answers that add up to one catches weights of another rule."""
    rule = np.polynomial.hermite_e.hermegauss
    monkeypatch.setattr(
        module.np.polynomial.hermite_e, "hermegauss", lambda k: (rule(k)[0] * 2**0.5, rule(k)[1])
    )
    with pytest.raises(AssertionError):
        test_abilities_are_integrated_out_of_an_item_response_model()
