"""Integrals of powers of densities against sums and quadrature of SciPy's densities."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st
from scipy.integrate import dblquad, quad

import pymc_private as pmp
from pymc_private.models.density_powers import _counts, _legendre, power_integral

BETAS = (0.1, 0.5, 1.7)
MIXED = [st.norm(-1, 0.5), st.norm(1.5, 0.8)]


def mixture(y):
    """The density of two normals."""
    return 0.3 * MIXED[0].pdf(y) + 0.7 * MIXED[1].pdf(y)


def inflated(k):
    """A Poisson probability with more zeros."""
    return 0.6 * st.poisson(2.0).pmf(k) + 0.4 * (k == 0)


CONTINUOUS = {
    "normal": (pm.Normal.dist(0.3, 0.7), st.norm(0.3, 0.7).pdf, (-np.inf, np.inf)),
    "laplace": (pm.Laplace.dist(0.3, 0.7), st.laplace(0.3, 0.7).pdf, (-np.inf, 0.3, np.inf)),
    "student": (
        pm.StudentT.dist(nu=3.5, mu=0.2, sigma=0.8),
        st.t(3.5, 0.2, 0.8).pdf,
        (-np.inf, np.inf),
    ),
    "cauchy": (pm.Cauchy.dist(0.2, 0.8), st.cauchy(0.2, 0.8).pdf, (-np.inf, np.inf)),
    "exponential": (pm.Exponential.dist(1.6), st.expon(scale=1 / 1.6).pdf, (0, np.inf)),
    "gamma": (pm.Gamma.dist(2.3, 1.4), st.gamma(2.3, scale=1 / 1.4).pdf, (0, np.inf)),
    "steep gamma": (pm.Gamma.dist(0.9, 1.4), st.gamma(0.9, scale=1 / 1.4).pdf, (0, 0.01, np.inf)),
    "weibull": (pm.Weibull.dist(1.7, 2.0), st.weibull_min(1.7, scale=2.0).pdf, (0, np.inf)),
    "beta": (pm.Beta.dist(2.0, 3.5), st.beta(2.0, 3.5).pdf, (0, 1)),
    "log normal": (
        pm.LogNormal.dist(0.4, 0.6),
        st.lognorm(0.6, scale=np.exp(0.4)).pdf,
        (0, 1, np.inf),
    ),
    "mixture": (pm.NormalMixture.dist([0.3, 0.7], [-1, 1.5], [0.5, 0.8]), mixture, (-4, 0, 3)),
    "skew normal": (
        pm.SkewNormal.dist(mu=0.0, sigma=1.0, alpha=2.0),
        st.skewnorm(2.0).pdf,
        (-4, 3),
    ),
}
DISCRETE = {
    "bernoulli": (pm.Bernoulli.dist(0.3), st.bernoulli(0.3).pmf, 1),
    "categorical": (
        pm.Categorical.dist([0.2, 0.3, 0.5]),
        lambda k: np.array([0.2, 0.3, 0.5])[k],
        2,
    ),
    "poisson": (pm.Poisson.dist(2.2), st.poisson(2.2).pmf, 12),
    "negative binomial": (
        pm.NegativeBinomial.dist(mu=3.0, alpha=1.5),
        st.nbinom(1.5, 1.5 / 4.5).pmf,
        12,
    ),
    "binomial": (pm.Binomial.dist(7, 0.4), st.binom(7, 0.4).pmf, 7),
    "zero inflated": (pm.ZeroInflatedPoisson.dist(0.6, 2.0), inflated, 12),
}


def integral_of(rv, low, high, beta, n=50):
    """I over a domain, or in closed form."""
    source = SimpleNamespace(domain=pmp.Interval(low, high), row_shape=())
    return float(np.squeeze(power_integral(rv, source, beta, n).eval()))


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_integrals_are_those_of_quadrature(name):
    rv, density, ends = CONTINUOUS[name]
    for beta in BETAS:
        parts = [
            quad(lambda y, b=beta: density(y) ** (1 + b), low, high, epsabs=1e-12, limit=400)[0]
            for low, high in pairwise(ends)
        ]
        assert integral_of(rv, -4.0, 3.0, beta) == pytest.approx(sum(parts), rel=1e-5)


@pytest.mark.thin(3)
@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_integrals_are_sums_over_the_domain(name):
    rv, mass, most = DISCRETE[name]
    for beta in BETAS:
        expected = np.sum(mass(np.arange(most + 1)) ** (1 + beta))
        assert integral_of(rv, 0, most, beta) == pytest.approx(expected, rel=1e-6)


def test_the_integral_of_a_multivariate_normal():
    covariance = np.array([[1.0, 0.4], [0.4, 0.6]])
    density = st.multivariate_normal([0.2, -0.1], covariance).pdf
    rv = pm.MvNormal.dist([0.2, -0.1], covariance)
    expected = dblquad(lambda x, y: density([x, y]) ** 1.5, -9, 9, -9, 9, epsabs=1e-7)[0]
    assert integral_of(rv, -4, 4, 0.5) == pytest.approx(expected, rel=1e-5)


def test_a_density_that_is_too_steep_has_an_infinite_integral():
    """The gamma function has finite values there, which mean nothing."""
    for rv in (pm.Gamma.dist(0.3, 1.0), pm.Weibull.dist(0.3, 1.0), pm.Beta.dist(0.3, 2.0)):
        assert integral_of(rv, 0.1, 3.0, 1.0) == np.inf
        assert np.isfinite(integral_of(rv, 0.1, 3.0, 0.2))


def test_no_rule_has_as_many_nodes_as_there_are_records():
    """An axis of that length could be taken for the records; a protected number has no effect."""
    assert len(_counts(pm.Poisson.dist(2.0), 0.0, 30.0, 31)[0]) == 32
    assert len(_counts(pm.Poisson.dist(2.0), 0.0, 30.0, None)[0]) == 31
    assert len(_legendre(0.0, 1.0, 101)[0]) == 102
    wide = pm.Poisson.dist(2.0, shape=31)
    source = SimpleNamespace(domain=pmp.Interval(0, 30), row_shape=())
    for n in (30, 31, None):
        assert np.ravel(power_integral(wide, source, 0.5, n).eval())[0] == pytest.approx(
            np.sum(st.poisson(2.0).pmf(np.arange(31)) ** 1.5), rel=1e-7
        )


def gumbel(location, n=30, neighbors="substitute"):
    with pm.Model() as model:
        pm.Gumbel("y", location(pm.Normal("a", 0, 1, shape=1)), 1.0, observed=np.zeros(n))
    return pmp.privatize(model, records={"y": 0}, domain={"y": (-3, 3)}, neighbors=neighbors)


@pytest.mark.audit
def test_a_protected_number_of_records_decides_nothing():
    """Not even one that is the number of nodes of the rule, or of the values of a domain."""
    nodes = len(_legendre(-3.0, 3.0, None)[0])
    for n in (nodes - 1, nodes, nodes + 1):
        pmp.beta_divergence(gumbel(lambda a: a[0], n, "add_remove"), beta=0.5)
    for n in (10, 11, 12):
        with pm.Model() as model:
            pm.Poisson("y", pm.Gamma("rate", 2, 1), observed=np.zeros(n, int))
        declared = {"records": {"y": 0}, "domain": {"y": (0, 10)}, "neighbors": "add_remove"}
        pmp.beta_divergence(pmp.privatize(model, **declared), beta=0.5)


def test_sums_above_a_density_are_not_those_of_one_entry():
    models = [gumbel(lambda a: pt.alloc(a, 4).sum()), gumbel(lambda a: 4 * a[0])]
    scores = [pmp.beta_divergence(private, beta=0.5).model for private in models]
    first, second = (m.compile_fn(m.logp())({"a": np.array([0.3])}) for m in scores)
    assert first == pytest.approx(second, rel=1e-12)


def test_outcomes_with_atoms_have_no_score():
    with pm.Model() as model:
        pm.HurdleGamma("y", pm.Beta("psi", 2, 2), alpha=2.0, beta=1.0, observed=np.ones(30))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (0, 10)})
    with pytest.raises(pmp.errors.Unsupported, match="point of positive probability"):
        pmp.beta_divergence(private, beta=0.5)


def test_several_scored_outcomes_have_no_verdict():
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu", 0, 1), 0.5, observed=np.zeros((40, 2)))
    private = pmp.privatize(model, records={"y": 0}, domain={"y": (-3, 3)})
    scored = pmp.trim(pmp.beta_divergence(private, beta=0.5), box={"mu": (-2, 2)})
    assert "no verdict" in pmp.calibrate(scored, epsilon=1, delta=1e-6, draws=1).summary()
