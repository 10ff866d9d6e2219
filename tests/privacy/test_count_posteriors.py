"""T9 to T12: Dirichlet draws, by formula, by quadrature and by brute force."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_private import privacy
from pymc_private.errors import DomainError
from pymc_private.privacy import (
    beta_pair_alpha,
    beta_pair_delta,
    beta_pair_delta_two_draws,
    beta_pair_eps,
    beta_pair_rdp,
    dirichlet_expected_kl,
    dirichlet_plan,
    dirichlet_rdp,
    gamma_pair_delta,
    gamma_pair_eps,
    gamma_pair_rdp,
    ponnoprat_r,
    ponnoprat_rdp,
    rdp_to_eps,
)

powers = st.floats(0.05, 3.0)
parameters = st.floats(0.1, 30.0)
epsilons = st.floats(0.0, 3.0)


def hockey_stick(log_p, log_q, epsilon, points):
    """delta of two densities by quadrature."""
    with mpmath.workdps(30):

        def gain(y):
            p, q = log_p(y), log_q(y)
            return mpmath.exp(p) * max(0, 1 - mpmath.exp(epsilon + q - p))

        return float(mpmath.quad(gain, points))


def log_beta(a, b):
    norm = mpmath.log(mpmath.beta(a, b))
    return lambda y: (a - 1) * mpmath.log(y) + (b - 1) * mpmath.log(1 - y) - norm


def log_gamma(a):
    norm = mpmath.loggamma(a)
    return lambda g: (a - 1) * mpmath.log(g) - g - norm


CASES = [(0.5, 0.5, 2.0), (0.0, 1.0, 1.0), (1.0, 0.3, 4.0), (0.2, 2.0, 1.5)]


@pytest.mark.parametrize(("eps", "r", "alpha"), CASES)
def test_the_beta_pair_is_its_hockey_stick(eps, r, alpha):
    cut = 1 / (1 + math.exp(-eps / r))  # where the loss is epsilon
    by_hand = hockey_stick(log_beta(alpha + r, alpha), log_beta(alpha, alpha + r), eps, [cut, 1])
    assert beta_pair_delta(eps, r, alpha) == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.thin(2)
@pytest.mark.parametrize(("eps", "r", "alpha"), CASES)
@pytest.mark.parametrize("direction", ["more_first", "more_second"])
def test_the_gamma_pair_is_its_hockey_stick(eps, r, alpha, direction):
    more, less = log_gamma(alpha + r), log_gamma(alpha)
    shift = math.lgamma(alpha + r) - math.lgamma(alpha)
    sign = 1 if direction == "more_first" else -1
    cut = math.exp((shift + sign * eps) / r)
    pair = (more, less) if sign > 0 else (less, more)
    points = [cut, 5 * cut + 10, mpmath.inf] if sign > 0 else [0, cut / 2, cut]
    by_hand = hockey_stick(*pair, eps, points)
    assert gamma_pair_delta(eps, r, alpha, direction) == pytest.approx(by_hand, rel=1e-8)
    assert gamma_pair_delta(eps, r, alpha) >= gamma_pair_delta(eps, r, alpha, direction)


def beta_delta(eps, p, q):
    """delta of two Beta laws of one total by their threshold test."""
    (a, b), (c, d) = p, q
    log_ratio = math.lgamma(c) + math.lgamma(d) - math.lgamma(a) - math.lgamma(b)
    cut = 1 / (1 + math.exp(-(eps - log_ratio) / (a - c)))
    return stats.beta(a, b).sf(cut) - math.exp(eps) * stats.beta(c, d).sf(cut)


@given(
    r=powers, alpha=parameters, extra=st.tuples(st.integers(0, 9), st.integers(0, 9)), e=epsilons
)
def test_no_pair_of_histograms_exceeds_the_beta_pair(r, alpha, extra, e):
    a, b = (alpha + r * k for k in extra)
    actual = beta_delta(e, (a + r, b), (a, b + r))
    assert actual <= beta_pair_delta(e, r, alpha) * (1 + 1e-6) + 1e-13


def test_the_worst_histogram_reaches_the_beta_pair():
    assert beta_delta(0.5, (2.5, 2.0), (2.0, 2.5)) == pytest.approx(beta_pair_delta(0.5, 0.5, 2.0))


def test_a_gaussian_of_equal_variance_is_no_bound():
    """The loss has exponential tails: the warning of T9, and what this test would catch."""
    r, alpha = 0.5, 2.0
    trigamma = float(mpmath.psi(1, alpha) + mpmath.psi(1, alpha + r))
    mu = r * math.sqrt(trigamma)
    assert privacy.gdp_delta(3.0, mu) < beta_pair_delta(3.0, r, alpha)


@given(r=powers, alpha=parameters, more=st.floats(0.0, 20.0), e=epsilons)
def test_unequal_parameters_are_dominated_by_the_least(r, alpha, more, e):
    unequal = beta_pair_delta(e, r, alpha, alpha + more)
    assert unequal <= beta_pair_delta(e, r, alpha) * (1 + 1e-12)
    assert unequal >= beta_delta(e, (alpha + r, alpha + more), (alpha, alpha + more + r)) - 1e-12
    assert beta_pair_rdp(1.01, r, alpha, alpha + more) <= beta_pair_rdp(1.01, r, alpha) * (1 + 1e-9)


@given(r=powers, alpha=parameters, mass=st.floats(0.5, 400.0), e=epsilons)
def test_an_added_record_costs_at_most_the_gamma_pair(r, alpha, mass, e):
    """Beta(alpha + r, s) against Beta(alpha, s): the touched cell among others of mass s."""
    shift = math.lgamma(alpha + r + mass) - math.lgamma(alpha + r)
    shift += math.lgamma(alpha) - math.lgamma(alpha + mass)
    low, high = math.exp(min((e - shift) / r, 700)), math.exp(min((-e - shift) / r, 700))
    more, less = stats.beta(alpha + r, mass), stats.beta(alpha, mass)
    first = more.sf(min(low, 1.0)) - math.exp(e) * less.sf(min(low, 1.0))
    second = less.cdf(min(high, 1.0)) - math.exp(e) * more.cdf(min(high, 1.0))
    assert first <= gamma_pair_delta(e, r, alpha, "more_first") + 1e-9
    assert second <= gamma_pair_delta(e, r, alpha, "more_second") + 1e-9


@given(order=st.floats(1.0, 3.0), r=powers, alpha=parameters)
def test_two_roads_to_one_divergence(order, r, alpha):
    pair = beta_pair_rdp(order, r, alpha)
    laws = dirichlet_rdp(order, [alpha + r, alpha], [alpha, alpha + r])
    assert pair == pytest.approx(laws, rel=1e-9) or pair == laws == math.inf


def test_divergences_near_their_ends():
    r, alpha = 0.5, 2.0
    last = 1 + alpha / r
    assert beta_pair_rdp(last, r, alpha) == gamma_pair_rdp(last, r, alpha) == math.inf
    assert 9 < beta_pair_rdp(math.nextafter(last, 0), r, alpha) < 20
    near_one = beta_pair_rdp(1 + 1e-9, r, alpha)
    assert near_one == pytest.approx(beta_pair_rdp(1, r, alpha), rel=1e-7)
    assert near_one >= beta_pair_rdp(1, r, alpha)
    assert gamma_pair_rdp(1 + 1e-9, r, alpha) == pytest.approx(
        gamma_pair_rdp(1, r, alpha), rel=1e-7
    )
    assert math.isfinite(gamma_pair_rdp(100.0, r, alpha, "more_first"))


def test_the_smallest_numbers_keep_their_digits():
    with mpmath.workdps(60):
        u = 1 / (1 + mpmath.exp(mpmath.mpf(30)))
        tail = mpmath.betainc(10, 11, 0, u, regularized=True)
        truth = tail - mpmath.exp(30) * mpmath.betainc(11, 10, 0, u, regularized=True)
    assert beta_pair_delta(30.0, 1.0, 10.0) == pytest.approx(float(truth), rel=1e-12)
    assert float(truth) < 1e-100
    assert 0.0 < beta_pair_delta(50.0, 0.01, 2.0) < 1e-300  # e^(eps / r) is no double
    assert gamma_pair_delta(50.0, 0.01, 2.0) >= 5e-324
    assert beta_pair_delta(math.inf, 1.0, 1.0) == 0.0


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 1e3, 1e6])
def test_extreme_parameters(alpha):
    delta = beta_pair_delta(0.01, 1.0, alpha)
    assert 0.0 < delta < 1.0
    assert beta_pair_eps(1e-5, 1.0, alpha) > 0.0


@settings(max_examples=10)
@given(d=st.floats(1e-12, 0.1), r=powers, alpha=parameters)
def test_inverses_are_on_the_safe_side(d, r, alpha):
    e = beta_pair_eps(d, r, alpha)
    assert beta_pair_delta(e, r, alpha) <= d
    assert e == 0.0 or beta_pair_delta(e * (1 - 1e-9), r, alpha) > d
    g = gamma_pair_eps(d, r, alpha)
    assert gamma_pair_delta(g, r, alpha) <= d
    a = beta_pair_alpha(1.0, d, r)
    assert beta_pair_delta(1.0, r, a) <= d
    assert beta_pair_delta(1.0, r, a * (1 - 1e-9)) > d


def test_two_draws_cost_between_one_and_twice_epsilon():
    one, two = beta_pair_delta(0.5, 0.3, 4), beta_pair_delta_two_draws(0.5, 0.3, 4)
    assert one < two < 2 * beta_pair_delta(0.25, 0.3, 4) + 1e-9
    assert beta_pair_delta_two_draws(0.0, 0.3, 4) < 1.0


def test_the_exact_divergence_is_below_the_older_bound():
    """Ponnoprat's bound, at his alpha = 1 + 4 (l - 1) r."""
    for order in (1.5, 2.0, 5.0, 20.0):
        for r in (0.05, 0.5, 2.0):
            exact = beta_pair_rdp(order, r, 1 + 4 * (order - 1) * r)
            assert exact <= ponnoprat_rdp(order, r, 2, 1)
        r = ponnoprat_r(order, 1.0, 2, 1)
        assert ponnoprat_rdp(order, r, 2, 1) <= 1.0 * (1 + 1e-12)
        assert ponnoprat_rdp(order, r * (1 + 1e-9), 2, 1) > 1.0


def test_expected_divergence_is_that_of_draws():
    rng = np.random.default_rng(1)
    counts, r, alpha = np.array([11.0, 8, 65, 25, 38, 1]), 0.5, 3.0
    share = counts / counts.sum()
    draws = rng.dirichlet(r * counts + alpha, 40_000)
    each = np.sum(share * (np.log(share) - np.log(draws)), axis=1)
    error = each.std() / math.sqrt(len(each))
    assert abs(each.mean() - dirichlet_expected_kl(counts, r, alpha)) < 6 * error


# profile, epsilon, and r, alpha, divergence of theory T12 at delta = 1e-5
TABLE = [
    ((11, 8, 65, 25, 38, 1), 0.5, 0.175, 4.15, 0.1572),
    ((11, 8, 65, 25, 38, 1), 1.0, 0.318, 3.96, 0.0933),
    ((11, 8, 65, 25, 38, 1), 2.0, 0.612, 4.09, 0.0504),
    ((11, 8, 65, 25, 38, 1), 5.0, 1.52, 4.60, 0.0202),
    ((119, 74, 618, 272, 13, 187), 0.1, 0.0393, 3.94, 0.0816),
    ((119, 74, 618, 272, 13, 187), 1.0, 0.427, 6.26, 0.0078),
    ((119, 74, 618, 272, 13, 187), 5.0, 2.60, 11.4, 0.0012),
    ((30, 70), 1.0, 0.591, 10.9, 0.0123),
]


@pytest.mark.parametrize(("profile", "epsilon", "r", "alpha", "kl"), TABLE)
def test_the_table_of_calibrations(profile, epsilon, r, alpha, kl):
    plan = dirichlet_plan(epsilon, 1e-5, profile)
    assert plan.expected_kl == pytest.approx(kl, rel=0.05, abs=6e-5)
    assert plan.r == pytest.approx(r, rel=0.02)
    assert plan.alpha == pytest.approx(alpha, rel=0.02)
    assert beta_pair_delta(epsilon, plan.r, plan.alpha) <= 1e-5


def test_the_older_calibration_wastes_half_its_budget():
    r = ponnoprat_r(10.8, 1 - (rdp_to_eps(10.8, 1.0, 1e-5) - 1.0), 2, 1)
    exact = beta_pair_eps(1e-5, r, 1 + 4 * 9.8 * r)
    assert 0.5 < exact < 0.6  # theory T12: 0.547 at nominal 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: beta_pair_delta(-1.0, 1.0, 1.0),
        lambda: beta_pair_delta(1.0, 0.0, 1.0),
        lambda: beta_pair_delta(1.0, 1.0, math.nan),
        lambda: beta_pair_eps(0.0, 1.0, 1.0),
        lambda: beta_pair_rdp(0.5, 1.0, 1.0),
        lambda: gamma_pair_delta(1.0, 1.0, 1.0, "sideways"),
        lambda: dirichlet_rdp(2, [1.0, 2.0], [1.0]),
        lambda: dirichlet_rdp(2, [0.0, 2.0], [1.0, 1.0]),
        lambda: dirichlet_expected_kl([0.0, 0.0], 1.0, 1.0),
        lambda: dirichlet_expected_kl([1.0, -1.0], 1.0, 1.0),
    ],
)
def test_bad_arguments_are_refused(call):
    with pytest.raises(DomainError):
        call()


def test_arrays_broadcast():
    table = beta_pair_delta(np.array([0.1, 0.5])[:, None], 0.5, np.array([1.0, 2.0, 3.0]))
    assert table.shape == (2, 3)
    assert table[1, 1] == beta_pair_delta(0.5, 0.5, 2.0)
    assert privacy.br_delta(np.array([0.1, 0.2]), 10, 0.1).shape == (2,)
