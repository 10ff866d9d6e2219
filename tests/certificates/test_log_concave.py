"""T7 and T22: the constants of log-concave posteriors are never below what a search finds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.certificates import log_concave
from pymc_private.certificates.curvature import SoftmaxBounds
from pymc_private.certificates.linear_predictors import Coefficients, NotConcave
from pymc_private.certificates.log_concave import Concavity, concavity
from pymc_private.certificates.record_gradient import Predictor
from pymc_private.privacy import Guarantee, normal_mean_mu
from tests.certificates.glms import BY_NAME, GLMS, softmax_searched

N = 29
FEW = ("logistic", "negative binomial", "Laplace", "weighted logistic")


def private_of(build, domain, **keywords):
    rng = np.random.default_rng(0)
    with pm.Model(coords={"i": range(N)}) as model:
        build(rng)
    return pmp.privatize(model, records="i", domain=domain, **keywords)


def bernoulli(u, rng):
    pm.Bernoulli("y", logit_p=u, observed=rng.integers(0, 2, N), dims="i")


def proved_and_searched(glm):
    proved = concavity(glm.private())
    return proved, glm.searched(np.random.default_rng(3))


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", FEW)
def test_mu_is_never_below_a_search_and_close_to_it(name):
    glm = BY_NAME[name]
    proved, found = proved_and_searched(glm)
    assert found * (1 - 1e-9) <= proved.mu() <= found * 1.01
    assert proved.mu() <= proved.gradient() / math.sqrt(proved.strength()) * (1 + 1e-6)
    assert proved.strength() == pytest.approx(1 / 25)
    beta = proved.predictors[0].smooth.max()
    assert glm.beta * (1 - 1e-9) <= beta <= glm.beta * 1.03
    part = proved.predictors[0]  # a planted fault, which the comparison catches
    faulty = replace(part, low=0.98 * part.low, high=0.98 * part.high)
    assert replace(proved, predictors=(faulty,)).mu() < found * (1 - 1e-9)


@pytest.mark.audit
@pytest.mark.parametrize("glm", GLMS, ids=lambda glm: glm.name)
def test_mu_of_every_family_is_never_below_a_search(glm):
    proved, found = proved_and_searched(glm)
    assert found * (1 - 1e-9) <= proved.mu() <= found * 1.6
    if glm.beta is not None:
        assert glm.beta * (1 - 1e-9) <= proved.predictors[0].smooth.max()
    alone = concavity(glm.private(neighbors="add_remove")).mu()
    assert glm.searched(np.random.default_rng(4), add_remove=True) * (1 - 1e-9) <= alone
    assert alone <= proved.mu() * 1.003  # each is within 0.2% of its own supremum


def test_logistic_regression_has_the_constants_of_t8():
    certificate = pmp.certify(private_of(slopes_only(3), {"X": pmp.Ball(2.0)}))
    strength, gradient = certificate.gdp
    assert (strength, gradient) == pytest.approx((1 / 0.25**2, 2 * 2.0), rel=1e-6)
    assert certificate.mu == pytest.approx(2 * 2.0 * 0.25, rel=1e-6)
    assert certificate.range == math.inf
    proved = certificate.guarantee(10)
    assert proved.epsilon(1e-6) <= Guarantee.gdp_of(1.0).epsilon(1e-6) * 10
    assert proved.gdp == pytest.approx(math.sqrt(10), rel=1e-6)
    alone = private_of(slopes_only(3), {"X": pmp.Ball(2.0)}, neighbors="add_remove")
    assert pmp.certify(alone).mu == pytest.approx(2.0 * 0.25, rel=1e-6)


def test_one_feature_and_no_intercept_need_more_than_the_bound_of_the_feature():
    """T8: 1.0517 B, where the two records have features of unlike size; B would be too little."""
    z, u = np.linspace(-1, 1, 2001), np.linspace(0.5, 8, 751)[:, None]
    slopes = z / (1 + np.exp(u * z))  # of log sigma(z theta), at theta = u
    searched = np.max(slopes.max(axis=1) - slopes.min(axis=1))
    assert searched == pytest.approx(1.0516, abs=1e-4)

    def build(rng):
        bernoulli(pm.Data("x", rng.uniform(-1, 1, N), dims="i") * pm.Normal("b", 0, 1), rng)

    assert pmp.certify(private_of(build, {"x": (-1, 1)})).mu >= searched


def slopes_only(width):
    def build(rng):
        x = pm.Data("X", rng.normal(size=(N, width)) / 4, dims=("i", None))
        bernoulli(x @ pm.Normal("b", 0, 0.25, shape=width), rng)

    return build


def test_a_predictor_and_its_negative_are_one():
    def build(rng):
        x = pm.Data("x", rng.uniform(-1, 1, N), dims="i")
        bernoulli(pm.Normal("b", 0, 0.5) * x, rng)

    proved = concavity(private_of(build, {"x": (-1, 1)}))
    assert len(proved.predictors) == 1
    assert proved.mu() == pytest.approx(2 * 0.5, rel=1e-6)


def test_the_mean_of_a_normal_is_exact_with_what_all_records_add():
    def build(rng):
        pm.Normal("y", pm.Normal("m", 0, 2), 0.5, observed=np.zeros(N), dims="i")

    certificate = pmp.certify(private_of(build, {"y": (-1, 1)}))
    assert certificate.mu == pytest.approx(normal_mean_mu(N, 0.5, 2.0, 2.0), rel=1e-6)
    assert certificate.mu >= normal_mean_mu(N, 0.5, 2.0, 2.0)


def test_what_all_records_add_is_not_used_where_their_number_is_protected():
    def build(rng):
        pm.Normal("y", pm.Normal("m", 0, 2), 0.5, observed=np.zeros(N), dims="i")

    private = pmp.trim(
        private_of(build, {"y": (-1, 1)}, neighbors="add_remove"), box={"m": (-1, 1)}
    )
    assert not np.any(concavity(private).sure)


def test_what_is_proved_for_a_price_is_not_proved_again_for_a_sampler(monkeypatch):
    """A strongly log-concave prior answers both; another one is proved for samplers alone."""
    proofs, prove = [], log_concave._prove
    monkeypatch.setattr(log_concave, "_prove", lambda one: proofs.append(one) or prove(one))
    private = BY_NAME["logistic"].private()
    assert concavity(private, flat=True) is concavity(private)
    assert len(proofs) == 1

    def build(rng):
        bernoulli(pm.Laplace("b", 0, 1), rng)

    private = private_of(build, {})
    assert concavity(private, flat=True).prior_precision.max() == 0.0
    with pytest.raises(NotConcave, match="not strongly"):
        concavity(private)
    assert len(proofs) == 3


def test_unequal_priors_cost_less_than_g_over_root_m():
    proved = concavity(BY_NAME["logistic"].private())
    assert proved.mu() == pytest.approx(2 * math.hypot(2, 5), rel=1e-6)
    assert proved.gradient() / math.sqrt(proved.strength()) == pytest.approx(5 * 8**0.5, rel=1e-6)


def test_a_power_scales_slopes_and_a_unit_of_k_records_costs_k_times():
    certificate = pmp.certify(private_of(slopes_only(2), {"X": pmp.Ball(1.0)}))
    half = certificate.tempered(certificate.power / 2)
    assert half.mu == pytest.approx(certificate.mu / 2)
    several = private_of(slopes_only(2), {"X": pmp.Ball(1.0)}, records_per_unit=3)
    assert pmp.certify(several).mu == pytest.approx(3 * certificate.mu)


def test_a_predictor_may_be_a_sum_of_products():
    """`(x * b).sum(axis=1)`: PyTensor's Sum holds an addition, as elementwise sums do."""

    def wide(rng):
        x = pm.Data("X", rng.normal(size=(N, 3)) / 4, dims=("i", None))
        bernoulli((x * pm.Normal("b", 0, 0.25, shape=3)).sum(axis=1), rng)

    found, wanted = (private_of(b, {"X": pmp.Ball(1.0)}) for b in (wide, slopes_only(3)))
    assert pmp.certify(found).mu == pytest.approx(pmp.certify(wanted).mu, rel=1e-9)


def test_softmax_has_the_constants_of_t22():
    def build(rng):
        x = pm.Data("X", rng.normal(size=(N, 2)) / 4, dims=("i", None))
        pm.Categorical(
            "y",
            logit_p=x @ pm.Normal("b", 0, 2, shape=(2, 4)),
            observed=rng.integers(0, 4, N),
            dims="i",
        )

    proved = concavity(private_of(build, {"X": pmp.Ball(1.0)}))
    assert proved.gradient() == pytest.approx(2 * math.sqrt(2), rel=1e-6)
    assert proved.trace(np.eye(8), 10) == pytest.approx(10.0, rel=1e-6)
    found = softmax_searched(np.random.default_rng(0), 4, 2.0)
    assert 0.9 * proved.mu() <= found <= proved.mu()


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("apart", [True, False])
def test_the_trace_of_a_softmax_is_above_those_of_its_hessians(classes, apart):
    """Whether every score has its own coefficients, or all share them."""
    rng = np.random.default_rng(3)
    a = np.diag(rng.normal(size=classes)) if apart else rng.normal(size=(classes, 2))
    w = np.diag(rng.uniform(1, 2, a.shape[1])) if apart else rng.normal(size=(2, 2))
    part = Coefficients(a[None], np.zeros((1, *a.shape)), (), True)
    unused = np.zeros(classes)
    predictor = Predictor(part, *5 * (unused,), softmax=SoftmaxBounds(classes, 1.0, 1.0, 2.0))
    shares = rng.dirichlet(np.full(classes, 0.3), size=2_000)
    found = [np.trace(2.0 * w @ a.T @ (np.diag(p) - np.outer(p, p)) @ a @ w.T) for p in shares]
    assert 0.2 * predictor.trace(w) < max(found) <= predictor.trace(w)


def test_kinks_are_counted_apart_by_what_they_change_of_a_slope():
    def build(rng):
        x = pm.Data("X", rng.normal(size=(N, 3)) / 4, dims=("i", None))
        pm.Laplace(
            "y", x @ pm.Normal("b", 0, 1, shape=3), 0.5, observed=rng.normal(size=N), dims="i"
        )

    proved = concavity(private_of(build, {"X": pmp.Ball(1.0), "y": (-1, 1)}))
    assert proved.jumps(np.eye(3), 10, 0.25) == pytest.approx(10 * 0.25 * 4.0, rel=1e-6)
    assert proved.trace(np.eye(3), 10) == 0.0
    assert proved.smoothness() == math.inf


def test_quantile_regression_has_the_slopes_of_its_two_sides():
    def build(rng):
        mu = pm.Data("X", rng.normal(size=(N, 2)) / 4, dims=("i", None)) @ pm.Normal("b", shape=2)
        pm.AsymmetricLaplace("y", mu=mu, b=1.0, kappa=1.5, observed=rng.normal(size=N), dims="i")

    proved = concavity(private_of(build, {"X": pmp.Ball(1.0), "y": (-1, 1)}))
    assert proved.gradient() == pytest.approx(2 * 1.5, rel=1e-6)
    assert proved.jumps(np.eye(2), 1) == pytest.approx(1.5 + 1 / 1.5, rel=1e-6)


def test_group_effects_with_fixed_scales_have_a_joint_precision():
    def build(rng):
        group = pm.Data("g", rng.integers(0, 4, N), dims="i")
        top = pm.Normal("top", 0, 1)
        bernoulli(pm.Normal("a", top, 0.5, shape=4)[group], rng)

    proved = concavity(private_of(build, {"g": range(4)}))
    precision = np.block([[np.eye(1) * (1 + 16), -4 * np.ones((1, 4))],
                          [-4 * np.ones((4, 1)), 4 * np.eye(4)]])  # fmt: skip
    np.testing.assert_allclose(proved.precision(), precision, rtol=1e-6)
    own = np.linalg.inv(precision)[1, 1]  # marginal variance of one effect
    cross = np.linalg.inv(precision)[1, 2]
    exact = math.sqrt(2 * (own + cross))
    assert exact * (1 - 1e-9) <= proved.mu() <= 2 * math.sqrt(own) * (1 + 1e-6)


def test_a_half_normal_coordinate_keeps_its_own_units():
    def build(rng):
        x = pm.Data("x", rng.uniform(0, 1, N), dims="i")
        bernoulli(pm.HalfNormal("b", 0.5) * x + pm.Normal("a", 0, 1), rng)

    proved = concavity(private_of(build, {"x": (0, 1)}))
    np.testing.assert_allclose(np.diag(proved.precision()), [4, 1], rtol=1e-6)


def test_public_predictors_are_shared_by_both_records():
    def build(rng):
        x = pm.Data("x", np.linspace(-1, 1, N), dims="i")
        pm.Normal("y", pm.Normal("b", 0, 1) * x, 1.0, observed=np.zeros(N), dims="i")

    private = private_of(build, {"y": (-2, 2)}, public=["x"])
    assert concavity(private).mu() == pytest.approx(4.0, rel=1e-5)


REFUSED = {
    "a free scale": (
        lambda u, rng: pm.Normal("y", u, pm.HalfNormal("s", 1), observed=np.zeros(N), dims="i"),
        "s, a and b meet",
    ),
    "Student t": (
        lambda u, rng: pm.StudentT("y", nu=4, mu=u, sigma=1, observed=np.zeros(N), dims="i"),
        "not shown to be concave",
    ),
    "a product": (
        lambda u, rng: bernoulli(u * pm.HalfNormal("s", 1), rng),
        "meet in a function",
    ),
}


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_concave_is_refused_by_name(name):
    outcome, words = REFUSED[name]

    def build(rng):
        x = pm.Data("X", rng.normal(size=(N, 2)) / 4, dims=("i", None))
        outcome(pm.Normal("a", 0, 1) + x @ pm.Normal("b", 0, 1, shape=2), rng)

    domain = {"X": pmp.Ball(1.0)} | ({} if "product" in name else {"y": (-2, 2)})
    with pytest.raises(NotConcave, match=words):
        concavity(private_of(build, domain))


@pytest.mark.thin(4)
@pytest.mark.parametrize("prior", [pm.Laplace, pm.Logistic, pm.Uniform, pm.Flat])
def test_priors_that_are_not_strongly_concave_are_refused_by_name(prior):
    def build(rng):
        arguments = {pm.Uniform: (-1, 1), pm.Flat: ()}.get(prior, (0, 1))
        x = pm.Data("x", rng.uniform(-1, 1, N), dims="i")
        bernoulli(prior("b", *arguments) * x + pm.Normal("a", 0, 1), rng)

    with pytest.raises(NotConcave, match="prior of 'b'"):
        concavity(private_of(build, {"x": (-1, 1)}))


def test_a_box_makes_a_weak_prior_strong():
    def build(rng):
        x = pm.Data("x", rng.uniform(-1, 1, N), dims="i")
        bernoulli(pm.Logistic("b", 0, 1) * x + pm.Normal("a", 0, 1), rng)

    private = pmp.trim(private_of(build, {"x": (-1, 1)}), box={"b": (-1, 1)})
    least = 2 * math.exp(1) / (1 + math.exp(1)) ** 2  # of the logistic density at the ends
    found = np.diag(concavity(private).precision()).min()
    assert 0.98 * least <= found <= least


def test_a_record_of_density_zero_is_refused():
    def build(rng):
        pm.Gamma("y", alpha=2, beta=pm.HalfNormal("b", 1), observed=np.ones(N), dims="i")

    with pytest.raises(NotConcave, match="not finite for every record"):
        concavity(pmp.trim(private_of(build, {"y": (0, 5)}), box={"b": (0.5, 2)}))


def test_a_group_that_has_no_effect_is_refused():
    def build(rng):
        group = pm.Data("g", rng.integers(0, 4, N), dims="i")
        bernoulli(pm.Normal("a", 0, 1, shape=4)[group], rng)

    with pytest.raises(NotConcave, match="not bounded for every record"):
        concavity(private_of(build, {"g": range(6)}))


def test_a_clipped_likelihood_has_no_gaussian_road():
    private = pmp.clip(private_of(slopes_only(2), {"X": pmp.Ball(1.0)}), lower=-2.0)
    certificate = pmp.certify(private)
    assert certificate.gdp is None
    assert "clipped" in certificate.not_concave
    assert math.isfinite(certificate.range)


def test_without_any_bound_a_model_is_not_certified_and_both_reasons_are_given():
    def build(rng):
        pm.Normal("y", pm.Normal("m", 0, 1), pm.HalfNormal("s", 1), observed=np.zeros(N), dims="i")

    with pytest.raises(pmp.errors.NotCertified, match=r"gradient \(s, m meet in a function"):
        pmp.certify(private_of(build, {"y": (-1, 1)}))


def test_the_better_of_two_proofs_of_one_draw_counts():
    both = Guarantee.posterior_of(2.0, 0.5, draws=5)
    by_range, by_mu = Guarantee.bounded_range_of(2.0, 5), Guarantee.gdp_of(0.5 * math.sqrt(5))
    for delta in (1e-8, 1e-3):
        assert both.epsilon(delta) <= min(by_range.epsilon(delta), by_mu.epsilon(delta)) * (
            1 + 1e-9
        )
    assert both.pure_epsilon == by_range.pure_epsilon
    assert Guarantee.from_dict(both.to_dict()) == both
    assert both.group(2).gdp == pytest.approx(2 * both.gdp)


def test_the_start_of_a_proximal_sampler_is_bounded():
    def build(rng):
        pm.Bernoulli("y", logit_p=pm.Normal("a", 0, 2), observed=np.ones(N), dims="i")

    proved: Concavity = concavity(private_of(build, {}))
    theta = np.linspace(-30, 30, 20_001)
    prior = np.exp(-(theta**2) / 8) / math.sqrt(8 * math.pi)
    loglik = -N * np.logaddexp(0.0, -theta)  # the worst records are all alike
    evidence = np.trapezoid(prior * np.exp(loglik), theta)
    exact = np.trapezoid(prior * (math.log(evidence) - loglik), theta)
    assert exact <= proved.prior_gap(N)
    assert proved.prior_gap(N, 0.5) == pytest.approx(proved.prior_gap(N) / 4)
