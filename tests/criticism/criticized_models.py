"""Small models with two covariates, seeded summaries of them, and their extensions."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pymc as pm

import pymc_private as pmp
from pymc_private.criticism.charged_check import noisy_sums
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.summary_job import records_of
from tests.summaries.packed_matrices import PackedMatrices

N = 2000
DOMAIN = {"x": (-1, 1), "z": (-1, 1)}
OUTCOMES = {"bernoulli": None, "poisson": (0, 40), "normal": (-8, 8), "negative binomial": (0, 60)}
SLOPES = np.array([0.3, 0.8, -0.6])
SD, ALPHA = 0.7, 2.0


def covariates(n=N, seed=0):
    return dict(zip("xz", np.random.default_rng(seed).uniform(-1, 1, (2, n)), strict=True))


def outcomes(family, rows, extra=0.0, seed=1, slopes=SLOPES):
    """Outcomes of the fitted model, or with something added to the linear predictor."""
    rng = np.random.default_rng(seed)
    eta = slopes[0] + slopes[1] * rows["x"] + slopes[2] * rows["z"] + extra
    if family == "bernoulli":
        return (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int)
    if family == "poisson":
        return np.minimum(rng.poisson(np.exp(eta)), 40)
    if family == "negative binomial":
        return np.minimum(rng.poisson(np.exp(eta) * rng.gamma(ALPHA, 1 / ALPHA, len(eta))), 60)
    return np.clip(eta + SD * rng.standard_normal(len(eta)), -8, 8)


def model_of(family, rows, y, extended=None):
    """The model; `extended(x, z, gamma)` is added to its linear predictor, gamma ~ N(0, 1)."""
    with pm.Model() as model:
        x, z = (pm.Data(name, rows[name]) for name in "xz")
        slopes = pm.Normal("slopes", 0, 1, shape=3)
        eta = slopes[0] + slopes[1] * x + slopes[2] * z
        if extended is not None:
            eta = eta + extended(x, z, pm.Normal("gamma", 0, 1))
        if family == "bernoulli":
            pm.Bernoulli("y", logit_p=eta, observed=y)
        elif family == "poisson":
            pm.Poisson("y", pm.math.exp(eta), observed=y)
        elif family == "negative binomial":
            alpha = pm.LogNormal("alpha", 0.5, 0.5)
            pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=alpha, observed=y)
        else:
            pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y)
    return model


def declared(model, family, **words):
    domain = DOMAIN | ({"y": OUTCOMES[family]} if OUTCOMES[family] else {})
    return pmp.privatize(model, records=dict.fromkeys("xzy", 0), domain=domain, **words)


@cache
def private_of(family, n=N, neighbors="substitute"):
    rows = covariates(n)
    return declared(model_of(family, rows, outcomes(family, rows)), family, neighbors=neighbors)


@cache
def mechanism_of(family, epsilon=1.0, n=N):
    return score_mechanism(private_of(family, n), largest_mu(epsilon, 1e-6))


@cache
def released_of(family, epsilon=1.0, n=N, seed=3):
    """A summary of the model's own records, with simulated noise."""
    rows = covariates(n)
    records = rows | {"y": outcomes(family, rows)}
    return mechanism_of(family, epsilon, n).release(
        records, SimulatedNoise(np.random.default_rng(seed))
    )


@cache
def summary_of(family, n=N):
    """A seeded summary: not private, and charged to nobody."""
    plan = pmp.calibrate(
        private_of(family, n), epsilon=1, delta=1e-6, release="summary", method="scores"
    )
    return pmp.summarize(plan, random_seed=4, progressbar=False)


PLANTED = 1.5


@cache
def planted_summary():
    """A seeded summary of a logistic model, whose records have an interaction as well."""
    rows = covariates()
    y = outcomes("bernoulli", rows, extra=PLANTED * rows["x"] * rows["z"])
    wrong = declared(model_of("bernoulli", rows, y), "bernoulli")
    plan = pmp.calibrate(wrong, epsilon=1, delta=1e-6, release="summary", method="scores")
    return pmp.summarize(plan, random_seed=2, progressbar=False)


class CountedNoise(PackedMatrices, SimulatedNoise):
    """Simulated noise that adds up the squared mu of its sums."""

    spent = Fraction(0)

    def total(self, chunks, bound, positive, mu):
        self.spent += Fraction(mu) ** 2
        return super().total(chunks, bound, positive, mu)


def assert_sums_cost_what_is_charged(plan):
    """Noise of a check is that of the budget of all its sums together."""
    noise = CountedNoise(np.random.default_rng(0))
    noisy_sums(plan, records_of(plan.private), noise)
    assert noise.spent <= Fraction(plan.guarantee.gdp) ** 2
    assert float(noise.spent) > plan.guarantee.gdp**2 * (1.0 - 1e-9)
