"""The beta-divergence: its score by hand, its certificates against a search, and refusals."""

from __future__ import annotations

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import scipy.stats as st

import pymc_private as pmp
from pymc_private.analysis.record_dependence import ConcreteValues
from pymc_private.models.scored_model import beta_score
from tests.models.brute_force import natural_logp, stripped

pytestmark = pytest.mark.usefixtures("quick")

N = 4
NODES = np.arange(31)


def normal():
    """A normal sample with a scale that may be zero."""
    with pm.Model(coords={"i": range(N)}) as model:
        mu, sigma = pm.Normal("mu"), pm.HalfNormal("sigma")
        pm.Normal("y", mu, sigma, observed=np.linspace(-1, 1, N), dims="i")
    return pmp.privatize(model, records="i", domain={"y": (-3, 3)})


def poisson():
    """Counts with a covariate, on which the integral depends."""
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", np.linspace(-1, 1, N), dims="i")
        rate = pm.math.exp(pm.Normal("a") + pm.Normal("b") * x)
        pm.Poisson("y", rate, observed=np.arange(N), dims="i")
    return pmp.privatize(model, records="i", domain={"x": (-1, 1), "y": (0, 30)})


def coin():
    """A conjugate model, which a score makes another one."""
    with pm.Model(coords={"i": range(N)}) as model:
        pm.Bernoulli("y", pm.Beta("p", 2, 2), observed=[0, 1, 1, 1], dims="i")
    return pmp.privatize(model, records="i")


def normal_score(beta, y, mu, sigma):
    """The score of a normal outcome, by SciPy."""
    whole = (2 * np.pi * sigma**2) ** (-beta / 2) / np.sqrt(1 + beta)
    density = st.norm(mu, sigma).pdf(y)
    return (density**beta - 1) / beta - (whole - 1) / (1 + beta)


def poisson_score(beta, x, y, a, b):
    """The score of a count, by SciPy; the sum over the domain."""
    rate = np.exp(a + b * np.asarray(x))
    whole = np.sum(st.poisson(rate[..., None]).pmf(NODES) ** (1 + beta), axis=-1)
    return (st.poisson(rate).pmf(y) ** beta - 1) / beta - (whole - 1) / (1 + beta)


def score_in_graph(private, point, data):
    """What the package takes for the score of each record."""
    graph = private.graph
    values = {graph.parameters[k]: np.asarray(v, float) for k, v in point.items()}
    values |= {graph.data[s.name]: data[s.name].astype(s.dtype) for s in private.sources}
    return ConcreteValues(values)(graph.record)


def variation(table):
    """The greatest variation over points (rows) of c(x) - c(y), over all pairs of records."""
    pairs = table[:, :, None] - table[:, None, :]
    return float((pairs.max(axis=0) - pairs.min(axis=0)).max())


@pytest.mark.thin(2)
@pytest.mark.parametrize("beta", [0.1, 0.5, 2.0])
def test_the_record_is_the_score(beta):
    y, x = np.array([-2.0, 0.1, 1.0, 3.0]), np.array([-1.0, 0.0, 0.5, 1.0])
    found = score_in_graph(pmp.beta_divergence(normal(), beta), {"mu": 0.4, "sigma": 0.6}, {"y": y})
    np.testing.assert_allclose(found, normal_score(beta, y, 0.4, 0.6), rtol=1e-9)
    counts = np.array([0, 3, 7, 30])
    scored = pmp.beta_divergence(poisson(), beta)
    found = score_in_graph(scored, {"a": 0.5, "b": -1.0}, {"x": x, "y": counts})
    np.testing.assert_allclose(found, poisson_score(beta, x, counts, 0.5, -1.0), rtol=1e-9)


def test_small_beta_gives_the_log_likelihood():
    y = np.array([-2.0, 0.1, 1.0, 3.0])
    found = score_in_graph(pmp.beta_divergence(normal(), 1e-6), {"mu": 0.4, "sigma": 0.6}, {"y": y})
    np.testing.assert_allclose(found, st.norm(0.4, 0.6).logpdf(y), atol=1e-3)


def test_the_expected_score_is_greatest_at_the_parameters_of_the_records():
    """Also where the sum stops at the end of the domain: divergences are nonnegative pointwise."""
    scored = pmp.beta_divergence(poisson(), 0.5)
    mass = st.poisson(np.exp(3.3)).pmf(NODES)  # a quarter of it beyond the domain
    assert 0.1 < 1 - mass.sum() < 0.3
    data = {"x": np.zeros(len(NODES)), "y": NODES}
    rates = np.linspace(2.9, 3.7, 9)
    expected = [mass @ score_in_graph(scored, {"a": a, "b": 0.0}, data) for a in rates]
    assert rates[np.argmax(expected)] == pytest.approx(3.3)
    mean = [
        np.trapezoid(
            st.norm(0.5, 0.8).pdf(grid := np.linspace(-6, 7, 2001))
            * normal_score(0.5, grid, 0.5, sigma),
            grid,
        )
        for sigma in (0.6, 0.7, 0.8, 0.9, 1.0)
    ]
    assert np.argmax(mean) == 2


@pytest.mark.thin(2)
@pytest.mark.parametrize("beta", [0.2, 1.0])
def test_no_pair_of_records_escapes_the_range(beta):
    """A search over extreme records and parameters; half of the range would be caught."""
    box = {"mu": (-1, 1), "sigma": (0.5, 2)}
    certificate = pmp.certify(pmp.trim(pmp.beta_divergence(normal(), beta), box=box))
    y = np.linspace(-3, 3, 61)
    points = product(np.linspace(-1, 1, 21), np.linspace(0.5, 2, 16))
    found = variation(np.array([normal_score(beta, y, *point) for point in points]))
    assert found <= certificate.range * (1 + 1e-12)
    assert found > certificate.range / 2
    box = {"a": (-1, 3), "b": (-1, 1)}
    certificate = pmp.certify(pmp.trim(pmp.beta_divergence(poisson(), beta), box=box))
    x, y = (each.ravel() for each in np.meshgrid([-1.0, 0.0, 1.0], NODES))
    points = product(np.linspace(-1, 3, 9), (-1.0, 0.0, 1.0))
    found = variation(np.array([poisson_score(beta, x, y, *point) for point in points]))
    assert found <= certificate.range * (1 + 1e-12)
    assert found > certificate.range / 2
    assert certificate.range <= 2 / beta * (1 + 1e-9)


def test_the_plain_model_is_the_prior_and_the_scores():
    private = pmp.beta_divergence(normal(), 0.5)
    model = pmp.temper(private, 0.5).model
    assert type(model) is pm.Model
    assert model.observed_RVs == []
    density, data = natural_logp(stripped(model)), private.sources[0].values()
    for mu, sigma in [(0.0, 1.0), (1.5, 0.3)]:
        prior = st.norm.logpdf(mu) + st.halfnorm.logpdf(sigma)
        expected = prior + 0.5 * normal_score(0.5, data, mu, sigma).sum()
        assert density({"mu": mu, "sigma": sigma}) == pytest.approx(expected, rel=1e-6)


def test_a_score_is_no_conjugate_likelihood():
    assert pmp.certify(coin()).pair is not None
    assert pmp.certify(pmp.beta_divergence(coin(), 0.5)).pair is None


def test_several_entries_of_a_record_are_scored_one_by_one():
    data = np.array([[0.0, 1.0], [2.0, -1.0], [0.5, 0.5]])
    with pm.Model(coords={"i": range(3), "k": range(2)}) as model:
        pm.Normal("y", pm.Normal("mu"), 1.0, observed=data, dims=("i", "k"))
    private = pmp.privatize(model, records="i", domain={"y": (-3, 3)}, neighbors="add_remove")
    scored = pmp.beta_divergence(private, 0.5)
    found = score_in_graph(scored, {"mu": 0.3}, {"y": data})
    np.testing.assert_allclose(found, normal_score(0.5, data, 0.3, 1.0).sum(axis=1), rtol=1e-6)


@pytest.mark.audit
def test_it_is_planned_and_drawn_as_any_model():
    private = pmp.beta_divergence(poisson(), 0.5)
    plan = pmp.calibrate(private, epsilon=1, delta=1e-6, draws=1)
    assert plan.simulated
    assert not plan.chosen.clipped
    assert any("beta-divergence" in claim for claim in plan.guarantee.assumptions)
    assert "BETA-DIVERGENCE" in plan.summary()
    release = pmp.sample(plan, random_seed=1, accept_prior=True, progressbar=False)
    assert set(release.posterior.data_vars) == {"a", "b"}
    told = "WARNING: BETA-DIVERGENCE (beta = 0.5) IN PLACE OF THE LIKELIHOOD"
    assert all(told in text for text in (release.summary(), release._repr_html_()))
    report = pmp.report(release)
    assert told in " ".join(str(report).split())
    assert told in report.html


def test_counts_held_as_data_are_scored_though_pymc_casts_them():
    with pm.Model(coords={"i": range(N)}) as model:
        y = pm.Data("y", np.arange(N), dims="i")
        pm.Poisson("z", pm.Gamma("rate", 3, 1), observed=y, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (0, 30)})
    scored = pmp.beta_divergence(private, 0.5)
    assert [v.name for v in scored.base.data_vars] == ["y"]
    found = pmp.certify(pmp.trim(scored, box={"rate": (0.1, 10)}))
    assert 0 < found.range <= 2 / 0.5 + 1e-6
    assert not any("float32" in claim for claim in found.claims)


def test_the_score_reads_no_data_and_shows_itself():
    kept, moved = normal(), normal()
    moved.sources[0].variable.set_value(np.full(N, 2.5))
    first, second = (pmp.beta_divergence(p, 0.5) for p in (kept, moved))
    box = {"mu": (-1, 1), "sigma": (0.5, 2)}
    texts = {repr(pmp.certify(pmp.trim(p, box=box), seconds=0)) for p in (first, second)}
    assert len({text.split(" ms")[0] for text in texts}) == 1
    assert repr(first) == repr(second)
    assert "beta-divergence: beta = 0.5" in repr(first)


# ---- refusals --------------------------------------------------------------------------------


def test_a_scale_that_may_be_zero_has_no_certificate():
    scored = pmp.beta_divergence(normal(), 0.5)
    with pytest.raises(pmp.errors.NotCertified, match=r"(?s)sigma.*trim"):
        pmp.certify(scored)
    box = {"mu": (-1, 1), "sigma": (0.5, 2)}
    assert np.isfinite(pmp.certify(pmp.trim(scored, box=box), seconds=0).range)


@pytest.mark.parametrize("beta", [0, -1, np.nan, np.inf, "a", True, None, [0.5]])
def test_a_beta_that_is_none_is_refused(beta):
    with pytest.raises(pmp.errors.DomainError, match=r"(?s)beta of a beta-divergence.*allowed"):
        pmp.beta_divergence(normal(), beta)


def test_what_is_no_density_of_single_records_is_refused():
    private = normal()
    for changed in (pmp.clip(private, -4, 1), pmp.beta_divergence(private, 0.5)):
        with pytest.raises(pmp.errors.Unsupported, match="takes the place"):
            pmp.beta_divergence(changed, 0.5)
    with pm.Model(coords={"i": range(N)}) as model:
        x = pm.Data("x", np.zeros(N), dims="i")
        pm.Potential("loss", -abs(x - pm.Normal("mu")))
    potential = pmp.privatize(model, records="i", domain={"x": (-1, 1)})
    with pytest.raises(pmp.errors.Unsupported, match=r"(?s)loss.*clip"):
        pmp.beta_divergence(potential, 0.5)


def test_a_flat_prior_and_a_summary_are_refused():
    with pm.Model(coords={"i": range(N)}) as model:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=np.ones(N), dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-1, 1)})
    with pytest.raises(pmp.errors.DomainError, match=r"(?s)proper prior.*trim"):
        pmp.beta_divergence(private, 0.5)
    with pytest.raises(pmp.errors.Unsupported, match="beta-divergence"):
        pmp.calibrate(pmp.beta_divergence(normal(), 0.5), epsilon=1, delta=1e-6, release="summary")


def test_a_score_without_its_integral_is_caught():
    """The planted fault: powers of the density alone favor narrow densities."""
    rv, value = pm.Normal.dist(0.0, 0.8), pt.dvector("value")
    source = normal().sources[0]
    score = beta_score(rv, value, source, [], 0.5, N).eval({value: np.zeros(2)})
    bare = (st.norm(0, 0.8).pdf(0) ** 0.5 - 1) / 0.5
    assert score[0] == pytest.approx(normal_score(0.5, 0.0, 0.0, 0.8), rel=1e-6)
    assert abs(score[0] - bare) > 0.05
