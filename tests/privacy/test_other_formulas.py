"""T5, T6, T13 to T15, T18 to T21: each formula against another road to its number."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from scipy.special import ndtr

from pymc_private.errors import DomainError
from pymc_private.privacy import (
    approx_delta,
    approx_delta_n,
    bayes_net_row_eps,
    beta_bernoulli_C,
    beta_binomial_c,
    beta_pair_eps,
    br_eps,
    exp_exp_C,
    gamma_rate_delta,
    gamma_rate_rdp,
    gdp_delta,
    laplace_C,
    mbde_drop_bound,
    mbde_theta_sum,
    mode_capture_bound,
    moll_delta,
    moll_delta_k,
    mollify,
    mollify_gain,
    normal_gamma_rdp,
    normal_mean_mu,
    normal_var_C,
    proximal_steps,
    rounding_tv,
    sl_eps,
    sl_kl_bound,
    sl_tv_bound,
    winf_gdp_mu,
    winf_pure_eps,
)
from pymc_private.privacy.renyi import pure_to_delta

small = st.floats(0.05, 3.0)


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


# ---- T13: conjugate posteriors -------------------------------------------------------------
@pytest.mark.thin(4)
@pytest.mark.parametrize("rates", [(3.0, 4.0), (4.0, 3.0), (3.0, 3.1)])
@pytest.mark.parametrize("eps", [0.0, 0.3, 1.0])
def test_gamma_rates_by_quadrature(rates, eps):
    p, q = (stats.gamma(6, scale=1 / rate) for rate in rates)
    gain = lambda x: max(0.0, p.pdf(x) - math.exp(eps) * q.pdf(x))  # noqa: E731
    by_hand = integrate.quad(gain, 0, 20, limit=400, epsabs=1e-13)[0]
    assert gamma_rate_delta(eps, 6, *rates) == pytest.approx(by_hand, abs=1e-8)


def test_gamma_rates_divergence_by_quadrature():
    p, q = stats.gamma(6, scale=1 / 3), stats.gamma(6, scale=1 / 4)
    for order in (1.5, 2.0, 3.5):
        f = lambda x, o=order: math.exp(o * p.logpdf(x) + (1 - o) * q.logpdf(x))  # noqa: E731
        by_hand = math.log(integrate.quad(f, 0, 60, limit=400)[0]) / (order - 1)
        assert gamma_rate_rdp(order, 6, 3, 4) == pytest.approx(by_hand, rel=1e-7)
    assert gamma_rate_rdp(4.0, 6, 3, 4) == math.inf  # 4 * 3 - 3 * 4 = 0
    assert gamma_rate_rdp(1.0, 6, 3, 4) == pytest.approx(
        gamma_rate_rdp(1 + 1e-9, 6, 3, 4), rel=1e-6
    )
    assert gamma_rate_rdp(math.inf, 6, 4, 3) == pytest.approx(6 * math.log(4 / 3), rel=1e-14)
    assert gamma_rate_rdp(math.inf, 6, 3, 4) == math.inf


def test_normal_gamma_divergence_of_equal_means_is_that_of_its_rates():
    found = normal_gamma_rdp(2, 5, 11, 4, 4.5, 0.3, 0.3)
    assert found == pytest.approx(gamma_rate_rdp(2, 5, 4, 4.5), rel=1e-12)
    assert normal_gamma_rdp(2, 5, 11, 4, 4.5, 0.0, 5.0) == math.inf


def test_the_normal_mean_is_a_shift_of_its_posterior():
    n, sigma, s, D = 10, 1.3, 2.0, 1.7
    sd = (1 / s**2 + n / sigma**2) ** -0.5
    shift = D / sigma**2 * sd**2
    assert normal_mean_mu(n, sigma, s, D) == pytest.approx(shift / sd, rel=1e-14)


# ---- T15: mollifiers ------------------------------------------------------------------------
@pytest.mark.parametrize("k", [1, 2, 3, 6])
@pytest.mark.parametrize("eps", [0.0, 0.4, 1.1])
def test_draws_from_a_mollifier_by_enumeration(k, eps):
    width = 0.7
    h, q = width / 2, 1 / (1 + math.exp(width / 2))
    losses = (width, 0.0, -width)
    law = (q * math.exp(h), (1 - 2 * q) * math.exp(-h), q * math.exp(-h))
    total = sum(
        math.prod(law[i] for i in path) * max(0.0, -math.expm1(eps - sum(losses[i] for i in path)))
        for path in itertools.product(range(3), repeat=k)
    )
    assert moll_delta_k(eps, width, k) == pytest.approx(total, rel=1e-12, abs=1e-300)
    if k == 1:
        assert moll_delta(eps, width) == pytest.approx(total, rel=1e-12, abs=1e-300)


@settings(max_examples=60)
@given(
    data=st.lists(st.tuples(st.floats(0.01, 1), st.floats(0, 1), st.floats(0, 1)), min_size=2,
                  max_size=6),
    width=small, eps=st.floats(0.0, 2.0),
)  # fmt: skip
def test_no_two_members_of_a_mollifier_are_further_apart(data, width, eps):
    q0, p1, p2 = (np.array(x) for x in zip(*data, strict=True))
    q0 = q0 / q0.sum()
    members = []
    for p in (p1, p2):
        p = (p + 1e-9) / (p + 1e-9).sum()
        made = mollify(p, q0, width)
        assert made.sum() == pytest.approx(1.0, abs=1e-12)
        assert np.all(np.abs(np.log(made / q0)) <= width / 2 + 1e-12)
        members.append(made)
    assert hockey_stick(*members, eps) <= moll_delta(eps, width) + 1e-12
    assert moll_delta(eps, width) <= pure_to_delta(width, eps)


def test_mollify_is_the_best_member():
    rng = np.random.default_rng(1)
    p, q0, eps = np.array([0.7, 0.2, 0.1]), np.array([0.3, 0.3, 0.4]), 1.0
    best = mollify_gain(p, q0, eps)
    assert 0 < best <= eps / 2
    for _ in range(300):
        other = q0 * np.exp(rng.uniform(-eps / 2, eps / 2, 3))
        other /= other.sum()
        if np.all(np.abs(np.log(other / q0)) <= eps / 2):
            assert np.sum(p * np.log(other / q0)) <= best + 1e-12
    np.testing.assert_array_equal(mollify(p, q0, 0.0), q0)
    np.testing.assert_allclose(mollify(q0, q0, 1.0), q0, rtol=1e-14)


def test_the_left_over_mass_of_a_sparse_law():
    made = mollify([1.0, 0.0, 0.0], [0.25, 0.25, 0.5], 1.0)
    assert made[0] == pytest.approx(0.25 * math.exp(0.5))
    assert made[2] == pytest.approx(2 * made[1])
    far = mollify([1.0, 0.0, 0.0], [1 / 3] * 3, 1.0)  # the erratum's case: no C exists
    assert np.all(np.abs(np.log(far * 3)) <= 0.5 + 1e-12)


def test_weights_of_boosting_stay_below_their_limit():
    eps = 1.0
    theta = eps / (eps + 4 * math.log(2))
    assert mbde_theta_sum(eps, 3) == pytest.approx(theta + theta**2 + theta**3, rel=1e-14)
    assert mbde_theta_sum(eps, 10**6) <= eps / (4 * math.log(2)) * (1 + 1e-15)


@given(theta=st.floats(0.01, 0.9), c=st.floats(0.05, math.log(2)), g=st.floats(0.05, 0.95))
def test_a_round_of_boosting_gains_what_it_promises(theta, c, g):
    """Equality for a classifier of two values +-c with these edges."""
    p, q = np.array([(1 + g) / 2, (1 - g) / 2]), np.array([(1 - g) / 2, (1 + g) / 2])
    tilted = q * np.exp(theta * np.array([c, -c]))
    gain = float(np.sum(p * np.log(tilted / tilted.sum() / q)))
    assert mbde_drop_bound(theta, c, g, g) == pytest.approx(gain, rel=1e-9, abs=1e-15)


# ---- T18, T20, T21: approximate draws ---------------------------------------------------------
@settings(max_examples=200)
@given(seed=st.integers(0, 2**32), eps=st.floats(0.0, 2.0), t=st.floats(1e-4, 0.2))
def test_no_approximate_law_exceeds_its_delta(seed, eps, t):
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
    delta = hockey_stick(p, q, eps)
    near = [(1 - t) * law + t * rng.dirichlet(0.2 * np.ones(5)) for law in (p, q)]
    assert hockey_stick(*near, eps) <= approx_delta(eps, delta, t) + 1e-12


def test_distance_is_attained_and_counts_runs():
    assert approx_delta(1.0, 1e-6, 1e-7) == pytest.approx(1e-6 + (1 + math.e) * 1e-7, rel=1e-14)
    assert approx_delta_n(1.0, 0.0, 0.01, 3) == pytest.approx(
        (1 + math.e) * (1 - 0.99**3), rel=1e-14
    )
    assert approx_delta(1.0, 0.25, 0.0) == 0.25
    assert approx_delta(1.0, 0.0, 1.0) == 1.0


def test_noise_pays_for_a_distance_twice():
    assert winf_pure_eps(1.0, 0.01, 0.1) == pytest.approx(1.2)
    assert winf_gdp_mu(0.5, 0.0, 1.0) == 0.5
    # Two normal laws of sd 1 whose means are moved by w towards each other's far side.
    moved = gdp_delta(0.5, winf_gdp_mu(0.5, 0.2, 1.0))
    assert moved >= gdp_delta(0.5, 0.5 + 0.4) * (1 - 1e-12)


@settings(max_examples=50)
@given(omega=st.floats(1e-4, 0.05), shift=st.floats(-1.0, 1.0), sd=st.floats(0.2, 3.0))
def test_a_grid_leaves_no_more_distance_than_is_charged(omega, shift, sd):
    # The worst computed draw: the ideal normal one, always omega too far to the right.
    width, edges = 0.25, 0.25 * (np.arange(-200, 201) + 0.5) + shift
    ideal, computed = (np.diff(ndtr((edges - move) / sd)) for move in (0.0, omega))
    distance = 0.5 * np.abs(ideal - computed).sum()
    assert distance <= rounding_tv(omega, width, 1.0 / (sd * math.sqrt(2 * math.pi)))


def test_the_charge_for_a_grid_grows_with_the_coordinates():
    assert rounding_tv(1e-12, 0.5, 0.0, 3) == pytest.approx(3 * rounding_tv(1e-12, 0.5, 0.0))
    with pytest.raises(DomainError, match="half the width"):
        rounding_tv(0.3, 0.5, 1.0)


def test_proximal_steps_reach_their_distance():
    for kl, tv, em in ((10.0, 1e-10, 0.01), (3.0, 1e-3, 0.5)):
        k = proximal_steps(kl, tv, em)
        assert math.sqrt(kl * (1 + em) ** (-2 * k) / 2) <= tv
        assert math.sqrt(kl * (1 + em) ** (-2 * (k - 1)) / 2) > tv
    assert proximal_steps(1e-9, 1.0, 0.1) == 0
    assert proximal_steps(0.0, 1e-9, 0.1) == 0


# ---- T5, T6 -------------------------------------------------------------------------------
def test_a_row_of_a_network_reaches_its_range():
    a, K = 0.1, 2
    # Each factor moves from its least to its largest entry, for both values of the child.
    assert bayes_net_row_eps(K, a) == pytest.approx(K * 2 * math.log((1 - a) / a), rel=1e-14)
    assert bayes_net_row_eps(3, 0.5) == 0.0


@pytest.mark.parametrize("alpha", [2.0, 5.0])
@pytest.mark.parametrize("n", [1, 7, 50])
def test_constants_of_the_beta_bernoulli_model(alpha, n):
    theta = np.linspace(1e-4, 1 - 1e-4, 4001)
    worst = 0.0
    for k in range(n + 1):
        log_phi = math.lgamma(alpha + k) + math.lgamma(alpha + n - k) - math.lgamma(2 * alpha + n)
        log_phi -= 2 * math.lgamma(alpha) - math.lgamma(2 * alpha)
        worst = max(worst, np.max(k * np.log(theta) + (n - k) * np.log1p(-theta)) - log_phi)
    assert math.log(beta_bernoulli_C(alpha, n)) == pytest.approx(worst, abs=0.02)
    prior, c = stats.beta(alpha, alpha), beta_binomial_c(alpha)
    for L in (0.5, 1.0, 3.0):
        beyond = 2 * prior.cdf(1 / (1 + math.exp(L)))
        assert beyond <= math.exp(-c * L) * (1 + 1e-9)


def test_a_large_number_of_trials():
    assert 1e3 < beta_bernoulli_C(1.0, 10**6) < 1e7


def test_stochastic_lipschitz_bounds_hold_and_are_looser_than_the_truth():
    alpha, n, delta = 5.0, 50, 1e-6
    c, C = beta_binomial_c(alpha), beta_bernoulli_C(alpha, n)
    assert sl_eps(0.0, c, C, 1.0, delta) == pytest.approx(39.7, abs=0.05)  # theory T6
    exact = beta_pair_eps(delta, 1.0, alpha)
    assert exact == pytest.approx(3.462, abs=2e-3)
    # KL both ways of the worst neighbors, Beta(a + 1, a) and Beta(a, a + 1).
    kl = 2 * float(np.sum([1 / (alpha)]))
    assert kl <= sl_kl_bound(0.0, c, C, 1.0)
    assert sl_tv_bound(0.0, c, C, 1.0) <= 1.0


def test_corrected_constants_bound_the_ratio_they_are_about():
    c1, c2, B, mu = 0.5, 1.5, 1.0, 0.3
    theta = np.linspace(c1, c2, 201)
    for x in np.linspace(-B, B, 41):
        d = abs(x - mu)
        laplace = theta / 2 * np.exp(-theta * d)
        normal = np.sqrt(theta / (2 * np.pi)) * np.exp(-theta * d**2 / 2)
        # Whatever the prior on [c1, c2], phi is at least the least likelihood.
        assert laplace.max() / laplace.min() <= laplace_C(c1, c2, B, mu)
        assert normal.max() / normal.min() <= normal_var_C(c1, c2, B, mu)
    rates = np.linspace(0.5, 3.0, 201)
    for x in np.linspace(0, 1, 21):
        density = rates * np.exp(-rates * x)
        assert density.max() / density.min() <= exp_exp_C(0.5, 3, 1)


def test_a_logistic_row_is_one_draw_of_its_range():
    assert br_eps(0.0, 1, 2 * 1.0 * 4.0) == 8.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: gamma_rate_rdp(0.5, 1, 1, 1),
        lambda: gamma_rate_delta(1, 0, 1, 1),
        lambda: normal_gamma_rdp(1, 1, 1, 1, 1, 0, 0),
        lambda: normal_mean_mu(0, 1, 1, 1),
        lambda: moll_delta_k(1.0, 1.0, 0),
        lambda: moll_delta_k(1.0, 1.0, 2.5),
        lambda: mollify([0.5, 0.6], [0.5, 0.5], 1),
        lambda: mollify([0.5, 0.5], [1.0, 0.0], 1),
        lambda: mbde_drop_bound(0.1, 0.1, 2.0, 0.1),
        lambda: approx_delta(1.0, 0.1, 1.5),
        lambda: approx_delta(-1.0, 0.1, 0.5),
        lambda: winf_pure_eps(1, 1, 0),
        lambda: winf_gdp_mu(-1, 1, 1),
        lambda: proximal_steps(1.0, 0.0, 1.0),
        lambda: sl_eps(0, 0, 1, 1, 0.1),
        lambda: sl_eps(0, 1, 0.5, 1, 0.1),
        lambda: beta_binomial_c(1.0),
        lambda: laplace_C(2, 1, 1, 0),
        lambda: bayes_net_row_eps(1, 0.7),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(DomainError):
        call()


def test_mode_capture_is_rounded_down_and_refuses_what_is_no_mass():
    """T28: P(B) - KL_B + gain - (eps / 2) (1 - P(B))."""
    found = mode_capture_bound(0.5, 0.1, 0.2, 0.1)
    assert found <= 0.575
    assert found == pytest.approx(0.575)
    assert mode_capture_bound(0.1, 5.0, 0.0, 1.0) == 0.0
    with pytest.raises(DomainError, match="a mass lies in"):
        mode_capture_bound(1.5, 0.1, 0.2, 0.1)
