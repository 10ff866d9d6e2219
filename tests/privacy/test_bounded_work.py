"""Questions that once took minutes or all memory: answered in seconds, or refused."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest

from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy import (
    Guarantee,
    beta_bernoulli_C,
    beta_pair_alpha,
    beta_pair_delta,
    beta_pair_delta_two_draws,
    beta_pair_eps,
    dirichlet_plan,
    dirichlet_population_tv,
    dirichlet_sample_size,
    discrete_gaussian_delta,
    gamma_pair_delta,
    gamma_rate_delta,
    mollifier_affordable,
    range_affordable,
)
from pymc_private.privacy.accounting import compose_events
from pymc_private.privacy.beta_gamma_pairs import beta_series_delta, gamma_series_delta

G = Guarantee
SECONDS = 8.0
"""Several times what it takes: a shared machine is slow at times."""


@pytest.fixture(autouse=True)
def in_time():
    start = time.process_time()
    yield
    assert time.process_time() - start < SECONDS


@pytest.mark.parametrize("r", [0.05, 1.0, 6.5])
@pytest.mark.parametrize("alpha", [0.3, 1.0, 20.0, 60.0])
@pytest.mark.parametrize("far", [0.0, 0.5, 3.0])
def test_series_lie_just_above_the_curves(r, alpha, far):
    eps = far * r
    exact = beta_pair_delta(Fraction(eps), Fraction(r), Fraction(alpha))
    assert exact <= beta_series_delta(eps, r, alpha, alpha) <= exact * (1 + 1e-11)
    exact = gamma_pair_delta(Fraction(eps), Fraction(r), Fraction(alpha), "more_second")
    assert exact <= gamma_series_delta(eps, r, alpha, first=False) <= exact * (1 + 1e-11)


def true_gamma(eps, r, a, first):
    """By 60 digits of mpmath."""
    with mpmath.workdps(60):
        eps, r, a = map(mpmath.mpf, (eps, r, a))
        k = mpmath.loggamma(a + r) - mpmath.loggamma(a)
        if first:
            g = mpmath.exp((eps + k) / r)
            more = mpmath.gammainc(a + r, g, mpmath.inf, regularized=True)
            return more - mpmath.exp(eps) * mpmath.gammainc(a, g, mpmath.inf, regularized=True)
        g = mpmath.exp((k - eps) / r)
        less = mpmath.gammainc(a, 0, g, regularized=True)
        return less - mpmath.exp(eps) * mpmath.gammainc(a + r, 0, g, regularized=True)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("eps", "r", "alpha"), [(0.01, 1.0, 3000.0), (0.1, 1.0, 2000.0), (0.3, 2.5, 5000.0)]
)
def test_gamma_pairs_of_large_parameters(eps, r, alpha, first):
    true = true_gamma(eps, r, alpha, first)
    name = "more_first" if first else "more_second"
    for got in (
        gamma_series_delta(eps, r, alpha, first=first),
        gamma_pair_delta(eps, r, alpha, name),
        gamma_pair_delta(Fraction(eps), Fraction(r), Fraction(alpha), name),
    ):
        assert true <= mpmath.mpf(got) <= true * (1 + mpmath.mpf(10) ** -10)


@pytest.mark.parametrize("eps", [0.0, 0.02, 0.1])
def test_beta_pairs_of_large_parameters(eps):
    exact = beta_pair_delta(Fraction(eps), Fraction(1), Fraction(2000))
    got = beta_pair_delta(eps, 1.0, 2000.0)
    assert exact <= got <= exact * (1 + 1e-10)


def test_unequal_beta_pairs_of_large_parameters():
    exact = beta_pair_delta(0.05, Fraction(1), Fraction(200), Fraction(900))
    got = beta_pair_delta(0.05, 1.0, 200.0, 900.0)
    assert exact <= got <= exact * (1 + 1e-10)


def test_huge_parameters_have_bounds():
    r, alpha = 1.0, 1e13
    mu = r * math.sqrt(2 / alpha)
    total_variation = math.erf(mu / 2 / math.sqrt(2))
    assert total_variation <= beta_pair_delta(0.0, r, alpha) <= 2 * total_variation
    assert gamma_pair_delta(1.0, 1e7, 1e12) >= 0.9
    assert gamma_pair_delta(10, 1e6, 1e12) <= 1e-20
    assert beta_pair_delta(1e-6, 1, 1e13, 2e13) <= 1e-8


@pytest.mark.audit
def test_adding_a_record_to_a_large_prior():
    assert gamma_pair_delta(0.1, 1, 1e5) < 1e-200
    epsilon = G.dirichlet_of(1, 1000, neighbors="add_remove").epsilon(1e-6)
    assert 0.11 < epsilon < 0.12
    assert 0.878 < gamma_rate_delta(0.1, 1e5, 1.01, 1.0) < 0.879
    assert gamma_rate_delta(0.1, 1e5, 1.0, 1.01) < 0.8785
    assert gamma_rate_delta(3e4, 1e9, 1.2, 1.0) <= 1.0


@pytest.mark.thin(8)
@pytest.mark.parametrize("neighbors", ["substitute", "add_remove"])
@pytest.mark.parametrize(
    "alpha", [1.0, *(pytest.param(a, marks=pytest.mark.audit) for a in (100.0, 1000.0)), 1e6, 1e8]
)
def test_plans_of_dirichlet_draws(alpha, neighbors):
    one = G.dirichlet_of(1, alpha, neighbors=neighbors)
    epsilon = (3 * one).epsilon(1e-6)
    assert one.epsilon(1e-6) < epsilon
    if alpha >= 100.0:
        assert epsilon < 3 * one.epsilon(1e-6 / 3)


def test_long_plans_take_another_road():
    long = 10**8 * G.pure(1e-3)
    assert long.accounting_method(1e-6) == "zCDP (T4)"
    assert "convolution of a plan" not in long.delta_by_method(1.0)
    with pytest.raises(Unsupported, match="cannot be convolved"):
        compose_events(long.events, "more_first")
    assert compose_events.cache_info().maxsize <= 4


@pytest.mark.parametrize("budget", [(0.0, 1e-10, 1.0), (0.0, 1e-300, 1.0), (1e-6, 1e-300, 100.0)])
def test_no_prior_parameter_is_looked_for_forever(budget):
    with pytest.raises(DomainError, match="1e15"):
        beta_pair_alpha(*budget)


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("eps", "r", "alpha"), [(1e-4, 0.001, 1000.0), (50.0, 1.0, 0.01), (0.1, 1.0, 50.0)]
)
def test_two_draws_have_a_bound(eps, r, alpha):
    two = beta_pair_delta_two_draws(eps, r, alpha)
    assert beta_pair_delta(eps, r, alpha) <= two <= 1.0
    assert beta_pair_delta_two_draws(1.0, 0.001, 1000.0) <= 1e-300


@pytest.mark.parametrize("other", [1e-11, 0.5, 3.0])
def test_tiny_unequal_parameters_are_dominated_by_the_smaller_one(other):
    """By balls above `MIN_BALL_ALPHA`, and so it is used below."""
    tiny, r = 2e-12, 5e-13
    unequal, equal = beta_pair_delta(0.5, r, other, tiny), beta_pair_delta(0.5, r, tiny)
    assert 0.0 < unequal <= equal < 0.1
    assert beta_pair_delta(0.5, 1e-100, other, 1e-100) == beta_pair_delta(0.5, 1e-100, 1e-100)
    assert beta_pair_eps(0.5, 0.5, other, 5e-324) == math.inf


@pytest.mark.parametrize(("eps", "r", "alpha"), [(0.5, 1e5, 0.5), (0.5, 1e308, 0.5), (1e3, 150, 5)])
def test_two_draws_of_large_powers(eps, r, alpha):
    assert beta_pair_delta(eps, r, alpha) <= beta_pair_delta_two_draws(eps, r, alpha) <= 1.0


@pytest.mark.parametrize(("r", "tiny"), [(1e-3, 1e-4), (1e-2, 1e-5), (1e-3, 1.01e-12)])
def test_unequal_parameters_far_from_the_power(r, tiny):
    """Their threshold is so far out that balls would need thousands of bits."""
    assert 0.7 < beta_pair_delta(0.5, r, 3.0, tiny) <= beta_pair_delta(0.5, r, tiny)


def test_numbers_too_small_for_a_double_are_refused():
    least = Fraction(1, 10**400)
    for call in (
        lambda: dirichlet_sample_size(0.1, least, 6, 1.0, 1.0),
        lambda: dirichlet_population_tv(least, 0.1, 6, 1.0, 1.0),
        lambda: beta_pair_delta(0.5, 0.5, Decimal("1e-999999999")),
        lambda: G.dirichlet_of(1, 1, beta=least),
        lambda: G.dirichlet_of(1, least),
        lambda: G.dirichlet_of(1, 1, 2, beta=0.01),
    ):
        with pytest.raises(DomainError):
            call()
    assert beta_pair_delta(0.5, Fraction(1, 10**300), Fraction(10**308)) <= 1e-300
    assert range_affordable(math.inf, 0.1) == math.inf


def test_budgets_and_sizes_beyond_reason_are_refused():
    for epsilon in (5e-324, 1e308):
        with pytest.raises(DomainError, match="no Dirichlet draw is planned"):
            dirichlet_plan(epsilon, 0.5, [2, 3, 1])
    with pytest.raises(DomainError, match="no prior parameter up to 1e15"):
        beta_pair_alpha(0.5, 0.5, 1e308)
    with pytest.raises(DomainError, match="no number of records is enough"):
        dirichlet_sample_size(0.1, 0.05, 6, 5e-324, 1.0)
    assert dirichlet_population_tv(2, 5e-324, 2, 5e-324, 0.5) == 1.0
    assert discrete_gaussian_delta(0.5, 5e-324) == 1.0
    assert discrete_gaussian_delta(Fraction(1, 2), 2.0) == discrete_gaussian_delta(0.5, 2.0)
    assert mollifier_affordable(math.inf, 0.1) == math.inf


def test_enumeration_has_an_end():
    assert beta_bernoulli_C(Fraction(1, 2), 10) == beta_bernoulli_C(0.5, 10)
    with pytest.raises(DomainError):
        beta_bernoulli_C(0.5, 10**9)


def test_a_plan_for_a_small_budget():
    plan = dirichlet_plan(1e-4, 1e-12, [10, 20, 30])
    assert beta_pair_delta(1e-4, plan.r, plan.alpha) <= 1e-12
