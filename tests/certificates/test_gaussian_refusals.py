"""Where T22 says nothing there is no Gaussian bound, whatever was proved of that graph before."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.certificates.linear_predictors import NotConcave
from pymc_private.certificates.log_concave import concavity
from pymc_private.certificates.terms import SamplingTerms

N = 12


def logistic():
    rng = np.random.default_rng(0)
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", rng.uniform(-1, 1, N), dims="i")
        b = pm.Normal("b", 0, 1)
        pm.Bernoulli("y", logit_p=b * x, observed=rng.integers(0, 2, N), dims="i")
    return pmp.privatize(model, records="i", domain={"x": (-1, 1)})


@pytest.mark.audit
def test_a_prior_restricted_to_a_set_has_none_though_the_same_graph_had_one():
    private = pmp.trim(logistic(), box={"b": (-2, 2)})
    concavity(private)
    limited = replace(private, theta_l=pmp.trim(logistic(), lipschitz=1.0).theta_l)
    with pytest.raises(NotConcave, match="set"):
        concavity(limited)
    certificate = pmp.certify(pmp.trim(private, lipschitz=1.0))
    assert certificate.gdp is None
    assert certificate.mu == math.inf
    assert certificate.range == pytest.approx(2.0, rel=1e-6)


def test_neighbors_at_a_distance_have_none():
    rng = np.random.default_rng(0)
    with pm.Model(coords={"i": range(N)}) as model:
        m = pm.Normal("m", 0, 1)
        pm.Normal("y", m, 1.0, observed=rng.uniform(-1, 1, N), dims="i")
    metric = pmp.Metric({"y": "absolute"})
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)}, neighbors=metric)
    private = pmp.trim(private, box={"m": (-1, 1)})
    with pytest.raises(NotConcave, match="distance"):
        concavity(private)
    assert pmp.certify(private).gdp is None


def test_sequences_have_none():
    y = np.random.default_rng(0).uniform(-1, 1, N)
    with pm.Model(coords={"t": range(N)}) as model:
        data = pm.Data("y", y, dims="t")
        slope = pm.Normal("slope", 0, 1)
        pm.Potential("steps", pm.logp(pm.Normal.dist(slope * data[:-1], 1.0), data[1:]).sum())
    private = pmp.privatize(model, records="t", domain={"y": (-1, 1)})
    private = pmp.trim(private, box={"slope": (-1, 1)})
    with pytest.raises(NotConcave, match="several factor rows"):
        concavity(private)
    assert pmp.certify(private).gdp is None


def test_a_discrete_parameter_has_none():
    """On whole numbers nothing is convex, though a binomial log density looks concave."""
    with pm.Model(coords={"i": range(N)}) as model:
        k = pm.Binomial("k", 6, 0.5)
        pm.Normal("y", k, 1.0, observed=np.zeros(N), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    with pytest.raises(NotConcave, match="discrete"):
        concavity(private)


def test_draws_on_a_grid_pay_by_their_range():
    certificate = pmp.certify(pmp.trim(logistic(), box={"b": (-2, 2)}))
    assert math.isfinite(certificate.mu)
    on_grid = certificate.on(SamplingTerms(discrete=True))
    assert on_grid.charged_mu == math.inf
    assert on_grid.guarantee(3).gdp == math.inf
    assert "T7" not in on_grid.guarantee(3).theorem
    alone = pmp.certify(logistic())
    assert alone.range == math.inf
    assert alone.on(SamplingTerms(discrete=True)).guarantee().epsilon(0.5) == math.inf
