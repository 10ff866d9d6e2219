"""Lipschitz tails: lemmas against brute force and against draws; estimates that claim nothing."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pymc as pm
import pytest
from scipy import special, stats

import pymc_private as pmp
from pymc_private.certificates.lipschitz.lemmas import recognize_lemma
from pymc_private.certificates.lipschitz.tail import lipschitz_tail
from pymc_private.certificates.restrict import temper
from tests.statistics import proportion

N = 6


def build(kind: str, box=None, **keywords):
    """A model of one of the lemmas; `poisson` belongs to none."""
    with pm.Model(coords={"p": range(N)}) as model:
        if kind in ("bernoulli", "binomial"):
            theta = pm.Beta("theta", 3, 3)
        else:
            theta = pm.Exponential("theta", 2.0)
        zeros = np.zeros(N, dtype=int)
        {
            "exponential": lambda: pm.Exponential("y", lam=theta, observed=0.0 + zeros, dims="p"),
            "laplace": lambda: pm.Laplace("y", 0.2, 1 / theta, observed=0.0 + zeros, dims="p"),
            "normal": lambda: pm.Normal("y", 0.2, tau=theta, observed=0.0 + zeros, dims="p"),
            "bernoulli": lambda: pm.Bernoulli("y", theta, observed=zeros, dims="p"),
            "binomial": lambda: pm.Binomial("y", 3, theta, observed=zeros, dims="p"),
            "poisson": lambda: pm.Poisson("y", theta, observed=zeros, dims="p"),
        }[kind]()
    domain = {"exponential": (0, 2), "poisson": (0, 6)}.get(kind, (-1, 1))
    given = {} if kind in ("bernoulli", "binomial") else {"y": domain}
    private = pmp.privatize(model, records="p", domain=given, **keywords)
    return pmp.trim(private, box={"theta": box}) if box else private


def density(kind: str, y, theta):
    """p(y | theta) by SciPy."""
    return {
        "exponential": lambda: stats.expon.pdf(y, scale=1 / theta),
        "laplace": lambda: stats.laplace.pdf(y, 0.2, 1 / theta),
        "normal": lambda: stats.norm.pdf(y, 0.2, theta**-0.5),
        "bernoulli": lambda: stats.bernoulli.pmf(y, theta),
        "binomial": lambda: stats.binom.pmf(y, 3, theta) / special.comb(3, y),
    }[kind]()


RECORDS = {
    "exponential": np.linspace(0, 2, 41),
    "laplace": np.append(np.linspace(-1, 1, 41), 0.2),
    "normal": np.append(np.linspace(-1, 1, 41), 0.2),
    "bernoulli": np.arange(2),
    "binomial": np.arange(4),
}
BOXES = {"bernoulli": None, "binomial": None}
LEMMAS = {
    "exponential": "Lemma 19",
    "laplace": "Lemma 20",
    "normal": "Lemma 22",
    "bernoulli": "Lemma 21",
    "binomial": "Lemma 21",
}


@pytest.mark.thin(4)
@pytest.mark.parametrize("kind", LEMMAS)
def test_a_lemma_is_recognized_and_its_ell_is_what_brute_force_finds(kind):
    box = BOXES.get(kind, (0.5, 3.0))
    family = recognize_lemma(build(kind, box))
    assert family.lemma == LEMMAS[kind]
    low, high = box or (0.05, 0.95)
    for theta in np.linspace(low, high, 7):
        logs = np.log(density(kind, RECORDS[kind], theta))
        assert family.ell({"theta": np.array(theta)}) == pytest.approx(
            logs.max() - logs.min(), rel=1e-9, abs=1e-12
        )


@pytest.mark.thin(2)
@pytest.mark.parametrize("kind", LEMMAS)
def test_the_prior_tail_of_a_lemma_is_below_its_exponential_everywhere(kind):
    """By the prior's own distribution function on a fine grid, and not by much."""
    box = BOXES.get(kind, (0.5, 3.0))
    family = recognize_lemma(build(kind, box))
    prior = stats.beta(3, 3) if box is None else stats.expon(scale=0.5)
    low, high = box or (0.0, 1.0)
    grid = np.linspace(low, high, 20001)[1:-1]
    weights = np.diff(prior.cdf(np.linspace(low, high, 20001)))
    ell = np.sort(family.ell({"theta": grid}))
    order = np.argsort(family.ell({"theta": grid}))
    above = 1.0 - np.cumsum(weights[1:][order]) / weights.sum()
    bound = np.exp(-family.c * (ell - family.L0))
    held = ell >= family.L0
    assert np.all(above[held] <= bound[held] + 1e-3)  # the grid's own error
    assert (above / bound)[held].max() > 0.75
    worse = np.exp(-1.3 * family.c * (ell - family.L0))  # a planted fault
    assert np.any(above[held] > worse[held] + 1e-3)


@pytest.mark.parametrize("kind", ["exponential", "laplace", "normal"])
def test_the_constant_of_all_records_bounds_likelihood_over_marginal(kind):
    low, high = 0.5, 3.0
    family = recognize_lemma(build(kind, (low, high)))
    rates = np.linspace(low, high, 2001)
    prior = stats.expon(scale=0.5).pdf(rates)
    prior /= prior.sum()
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(60):
        y = rng.choice(RECORDS[kind], N)
        y[:] = y[0] if rng.random() < 0.5 else y
        logs = np.log(density(kind, y[:, None], rates)).sum(axis=0)
        worst = max(worst, float(logs.max() - np.log(np.exp(logs) @ prior)))
    assert 0 < worst <= family.log_constant


def test_a_proved_tail_prices_one_draw_by_t6():
    tail = lipschitz_tail(build("bernoulli"), draws=500)
    assert tail.is_proved
    delta = 1e-6
    C = pmp.privacy.beta_bernoulli_C(3.0, N)
    expected = pmp.privacy.sl_eps(0.0, pmp.privacy.beta_binomial_c(3.0), C, 1.0, delta)
    price = tail.guarantee(delta)
    assert price.epsilon(delta) == pytest.approx(expected, rel=1e-9)
    assert price.epsilon(delta) >= expected
    assert price.theorem == "T6"
    assert math.isinf(price.pure_epsilon)
    # Exact, by the Beta posteriors themselves (T9 speaks of any counts), it is far less.
    assert price.epsilon(delta) > pmp.privacy.beta_pair_eps(delta, 1.0, 3.0)


def test_power_and_units_scale_ell_in_the_price():
    private = build("bernoulli")
    whole, half = lipschitz_tail(private, draws=50), None
    half = lipschitz_tail(temper(private, Fraction(1, 2)), draws=50)
    pair = lipschitz_tail(replace(private, records_per_unit=2), draws=50)
    at = 1e-6
    one = whole.guarantee(at).epsilon(at)
    assert half.guarantee(at).epsilon(at) == pytest.approx(one / 2, rel=1e-5)
    assert pair.guarantee(at).epsilon(at) == pytest.approx(one * 2, rel=1e-5)


def test_a_certificate_carries_the_tail_of_its_lemma():
    found = pmp.certify(build("exponential", (0.5, 3.0)))
    assert found.lipschitz.lemma == "Lemma 19"
    assert "proved by Lemma 19" in repr(found)
    assert pytest.approx(1.0) == found.lipschitz.L0
    assert found.lipschitz.c == pytest.approx(1.0)
    assert found.range == pytest.approx(2.5 * 2, rel=1e-6)  # the pure price is what is charged
    half = found.tempered(Fraction(1, 2)).lipschitz
    assert half.power == 0.5
    assert pmp.certify(pmp.trim(build("poisson"), box={"theta": (1, 2)})).lipschitz is None


def test_an_estimated_tail_is_an_envelope_that_claims_nothing():
    private = build("poisson")
    tail = lipschitz_tail(private, draws=400)
    assert not tail.is_proved
    assert "diagnostic, not a privacy claim" in repr(tail)
    with pytest.raises(pmp.errors.Unsupported, match="T17"):
        tail.guarantee(1e-6)
    finite = tail.values[np.isfinite(tail.values)]
    fitted = np.minimum(1.0, np.exp(-tail.c * (finite - tail.L0)))
    before = tail.survival(np.nextafter(finite, -np.inf))
    assert np.all(before <= fitted + 1e-12)


def test_the_envelope_fails_as_seldom_as_it_says():
    """T17 on 300 samples of a known distribution: failures at 0.05 (false alarm, power)."""
    rng, failures, runs, size = np.random.default_rng(1), 0, 300, 200
    template = lipschitz_tail(build("poisson"), draws=2)
    for _ in range(runs):
        sample = np.sort(rng.exponential(size=size))
        tail = replace(template, values=sample, beta=0.05)
        at = np.concatenate([sample, np.nextafter(sample, -np.inf)])
        failures += bool(np.any(tail.survival(at) < np.exp(-at) - 1e-12))
    assert proportion(failures, runs, 0.047).passes  # theory T17: 0.05 is not quite reached


@pytest.mark.thin(2)
@pytest.mark.parametrize(
    "private",
    [
        lambda: build("poisson"),
        lambda: build("bernoulli", neighbors="add_remove"),
        lambda: build("bernoulli", (0.0, 0.9)),
        lambda: pmp.clip(build("bernoulli"), -3.0),
    ],
    ids=["other family", "add/remove", "a lopsided trim", "clipped"],
)
def test_what_no_lemma_speaks_of_is_not_recognized(private):
    assert recognize_lemma(private()) is None


@pytest.mark.parametrize("keywords", [{"draws": 0}, {"draws": True}, {"beta": 0.0}, {"beta": 0.6}])
def test_impossible_arguments_are_refused(keywords):
    with pytest.raises(pmp.errors.DomainError):
        lipschitz_tail(build("poisson"), **keywords)


def test_a_region_without_prior_draws_is_refused():
    with pytest.raises(pmp.errors.DomainError, match="no prior draw"):
        lipschitz_tail(build("poisson", (40.0, 41.0)), draws=50)


def test_the_plot_shows_draws_envelope_and_bound():
    ax = lipschitz_tail(build("bernoulli"), draws=200).plot()
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels == ["prior draws", "holds with probability 0.95", "Lemma 21, proved"]
