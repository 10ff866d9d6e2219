"""Models of persons with several rows, and their records, for tests of summaries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm

import pymc_private as pmp

MOST = 3
FAMILIES = ("bernoulli", "poisson", "normal")
DOMAINS = {
    "bernoulli": {0, 1},
    "poisson": (0, 40),
    "negative_binomial": (0, 40),
    "normal": (-8, 8),
}
THETA = {"c": 0.2, "b": np.array([0.7, -0.5]), "s": 0.6, "sigma": 0.8}


def visits(family: str, n: int = 40, seed: int = 0, **change: Any) -> pm.Model:
    """Give a model of rows of n persons, simulated at THETA.

    `change`: ``link`` (a function of predictor and effect), ``most`` (rows of a person), ``slopes``
    (an MvNormal pair, intercept and slope of the first covariate, in the place of an intercept).
    """
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, change.get("most", MOST) + 1, n)
    who = rng.permutation(np.repeat(np.arange(n), counts))
    x = rng.uniform(-1, 1, (len(who), 2))
    true = THETA["c"] + x @ THETA["b"] + THETA["s"] * rng.normal(size=n)[who]
    with pm.Model(coords={"person": range(n), "row": range(len(who)), "effect": range(2)}) as model:
        rows = pm.Data("x", x, dims=("row", None))
        eta = pm.Normal("c") + rows @ pm.Normal("b", shape=2)
        if change.get("slopes"):
            sd = pm.LogNormal.dist(-0.5, 0.5, size=2)
            chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=sd)
            both = pm.MvNormal("a", np.zeros(2), chol=chol, dims=("person", "effect"))
            a = both[who, 0] + both[who, 1] * rows[:, 0]
        else:
            a = pm.Normal("a", 0, pm.LogNormal("s", -0.5, 0.5), dims="person")[who]
        eta = change.get("link", lambda eta, a, rows: eta + a)(eta, a, rows)
        if family == "bernoulli":
            y = (rng.random(len(who)) < 1 / (1 + np.exp(-true))).astype(int)
            pm.Bernoulli("y", logit_p=eta, observed=y, dims="row")
        elif family == "poisson":
            y = np.minimum(rng.poisson(np.exp(true)), 40)
            pm.Poisson("y", pm.math.exp(eta), observed=y, dims="row")
        elif family == "negative_binomial":
            y = np.minimum(rng.poisson(np.exp(true) * rng.gamma(2.0, 0.5, len(who))), 40)
            alpha = pm.LogNormal("alpha", 1, 0.5)
            pm.NegativeBinomial("y", mu=pm.math.exp(eta), alpha=alpha, observed=y, dims="row")
        else:
            y = true + THETA["sigma"] * rng.normal(size=len(who))
            pm.Normal("y", eta, pm.LogNormal("sigma", 0, 0.5), observed=y, dims="row")
    return model


def persons(family: str, n: int = 40, seed: int = 0, **change: Any) -> pmp.PrivateModel:
    """Give the same with a record for each person."""
    points = change.pop("points", 31)
    most, public = change.get("most", MOST), change.pop("public", ())
    model = visits(family, n, seed, **change)
    shared = pmp.marginalize(model, "a", points=points, rows_per_record=most)
    domain = {"x": (-1, 1), "y": DOMAINS[family]}
    kept = {name: v for name, v in domain.items() if name not in public}
    return pmp.privatize(shared, records="person", domain=kept, public=public)


def records_of(private: pmp.PrivateModel) -> dict[str, np.ndarray]:
    """Give the records that a private model holds."""
    return {s.name: np.asarray(s.variable.get_value(), float) for s in private.sources}
