"""Models of records with several answers, and records that are no records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_private as pmp

N = 120


def pair(n: int = N, **words: Any) -> pmp.PrivateModel:
    """Two normal answers of one scale."""
    with pm.Model() as model:
        mu, s = pm.Normal("mu", 0, 1, shape=2), pm.LogNormal("s", 0, 0.5)
        y = np.random.default_rng(0).normal(0.2, 1, (n, 2))
        pm.Normal("y", mu, s, observed=y)
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-8, 8)}, **words)


def correlated(n: int = N) -> pmp.PrivateModel:
    """Two normal answers with a correlation."""
    with pm.Model() as model:
        mu, rho = pm.Normal("mu", 0, 1, shape=2), pm.Uniform("rho", -1, 1)
        cov = pt.stack([pt.stack([pt.ones(()), rho]), pt.stack([rho, pt.ones(())])])
        pm.MvNormal("y", mu, cov=cov, observed=np.zeros((n, 2)))
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-8, 8)})


def items(n: int = N, count: int = 3) -> pmp.PrivateModel:
    """Right and wrong answers, abilities integrated out."""
    with pm.Model() as model:
        ability = pm.Normal("ability", 0, 1, shape=n)
        eta = ability[:, None] - pm.Normal("hard", 0, 1, shape=count)
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros((n, count), int))
    shared = pmp.marginalize(model, "ability", points=9)
    return pmp.privatize(shared, records={"y": 0}, domain={"y": {0, 1}})


def kinds(n: int = N, count: int = 4) -> pmp.PrivateModel:
    """Three answers at public times of several kinds, with a random intercept."""
    grid = np.linspace(0, 1, 3) * np.arange(1, count + 1)[:, None]
    with pm.Model() as model:
        t = pm.Data("t", grid[np.arange(n) % count])
        slope, tau = pm.Normal("slope", 0, 1), pm.LogNormal("tau", 0, 0.5)
        cov = tau**2 * t[:, :, None] * t[:, None, :] + np.eye(3)
        pm.MvNormal("y", slope * t, cov=cov, observed=np.zeros((n, 3)))
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-20, 20)}, public=("t",))


def counts(n: int = N) -> pmp.PrivateModel:
    """Counts of three kinds out of ten."""
    with pm.Model() as model:
        a = pm.LogNormal("a", 0, 0.7, shape=3)
        start = np.tile([10, 0, 0], (n, 1))
        pm.DirichletMultinomial("y", n=10, a=a, observed=start)
    return pmp.privatize(model, records={"y": 0}, domain={"y": pmp.Counts(10)})


MODELS = {
    "pair": pair, "correlated": correlated, "items": items, "kinds": kinds, "counts": counts
}  # fmt: skip
EXTREME = (np.inf, -np.inf, np.nan, 1e300, -1e300, 1e154, 5e-324)
"""Entries that no domain allows, in case clipping has failed."""
