"""Losses on a grid and their convolution: never below the truth, and close to it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_private.privacy import (
    Guarantee,
    accounting,
    beta_pair_delta,
    beta_pair_delta_two_draws,
    beta_pair_rdp,
    br_delta,
    br_eps,
    gdp_delta,
    gdp_eps,
    loss_distributions,
    ponnoprat_r,
    rdp_to_eps,
)
from pymc_private.privacy.accounting import DIRECTIONS, convolved_delta, convolved_epsilon
from pymc_private.privacy.event import PrivacyEvent
from pymc_private.privacy.loss_distributions import (
    ComposedLoss,
    LossDistribution,
    convolve_losses,
    discretize_curve,
)
from pymc_private.privacy.renyi import pure_to_delta


def optimal_pure(epsilon: float, n: int, at: float) -> float:
    """delta of n pure mechanisms at `at`: Kairouz, Oh and Viswanath (2015), by enumeration."""
    truth = 1 / (1 + math.exp(-epsilon))
    return math.fsum(
        math.comb(n, k)
        * truth ** (n - k)
        * (1 - truth) ** k
        * max(0.0, -math.expm1(at - (n - 2 * k) * epsilon))
        for k in range(n + 1)
    )


@pytest.mark.thin(6)
@pytest.mark.parametrize(("epsilon", "n"), [(0.1, 10), (0.5, 7), (1.0, 30), (0.01, 1000)])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_pure_plans_have_their_optimal_composition(epsilon, n, share):
    at = share * epsilon * n
    exact = optimal_pure(epsilon, n, at)
    atoms = (PrivacyEvent("pure", epsilon, 0.0, n),)
    found, error = convolved_delta(atoms, at), accounting.compose_events(atoms, DIRECTIONS[0]).error
    assert found >= exact * (1 - 1e-12)
    assert found <= exact * 1.01 + 1.1 * error
    assert error < 1e-7


@pytest.mark.thin(4)
@pytest.mark.parametrize(
    ("mu", "n", "delta"),
    [
        *((mu, n, delta) for mu, n in ((0.1, 10), (1.0, 4)) for delta in (1e-3, 1e-6, 1e-8)),
        (0.05, 400, 1e-8),
        *(pytest.param(0.05, 400, delta, marks=pytest.mark.audit) for delta in (1e-3, 1e-6)),
    ],
)
def test_gaussian_plans_are_gaussian(mu, n, delta):
    found = convolved_epsilon([PrivacyEvent("gdp", mu, 0.0, n)], delta)
    exact = gdp_eps(delta, mu * math.sqrt(n))
    assert exact * (1 - 1e-10) <= found <= exact * 1.003


@pytest.mark.thin(4)
@pytest.mark.parametrize(("R", "n"), [(0.1, 10), (1.0, 5), (0.1, 300)])
def test_a_plan_of_posterior_draws_is_above_their_exact_curve(R, n):
    found = convolved_epsilon([PrivacyEvent("bounded_range", R, 0.0, n)], 1e-6)
    # One law may not be the worst for each draw at once: the exact curve T3 knows that.
    assert br_eps(1e-6, n, R) * (1 - 1e-9) <= found <= br_eps(1e-6, n, R) * 1.25


@pytest.mark.thin(2)
@pytest.mark.parametrize("eps", [0.0, 0.1, 0.5, 1.0])
def test_two_dirichlet_draws_agree_with_quadrature(eps):
    found = convolved_delta([PrivacyEvent("beta_pair", 0.3, 0.0, 2, 4.0)], eps)
    exact = beta_pair_delta_two_draws(eps, 0.3, 4)
    assert exact * (1 - 1e-12) <= found <= exact * 1.0005 + 1e-11


def test_a_move_between_tables_costs_what_a_move_within_one_costs():
    """T11: (G(a+r), G(a)) x (G(a), G(a+r)) has the loss of the Beta pair."""
    r, alpha, step = 0.5, 2.0, 0.004
    more, less = (
        accounting.event_curve(PrivacyEvent("gamma_pair", r, 0.0, 1, alpha), d) for d in DIRECTIONS
    )
    together = convolve_losses(
        [(discretize_curve(more, less, step), 1), (discretize_curve(less, more, step), 1)]
    )
    for eps in (0.1, 0.5, 1.0):
        exact = beta_pair_delta(eps, r, alpha)
        assert exact <= together.delta(eps) <= exact * 1.001


def test_twenty_one_pairs_of_theory_t11():
    r = ponnoprat_r(20, 1 / 21, 2, 1)
    alpha = 1 + 4 * 19 * r
    tables = Guarantee.dirichlet_of(r, alpha, tables=21)
    assert 1.0310 < tables.epsilon(1e-5) <= 1.032
    assert tables.accounting_method(1e-5) == "convolution of a plan"
    renyi = min(
        rdp_to_eps(order, 21 * beta_pair_rdp(order, r, alpha), 1e-5)
        for order in np.linspace(5, 60, 200)
    )
    assert renyi == pytest.approx(1.127, abs=1e-3)
    assert rdp_to_eps(20, 1.0, 1e-5) == pytest.approx(1.397, abs=1e-3)


@settings(max_examples=30)
@given(
    mu=st.floats(0.05, 3.0), step=st.floats(0.002, 0.5), eps=st.floats(0.0, 4.0),
    n=st.integers(1, 5),
)  # fmt: skip
def test_no_grid_is_too_coarse_to_be_safe(mu, step, eps, n):
    curve = lambda e: gdp_delta(e, mu)  # noqa: E731
    found = convolve_losses([(discretize_curve(curve, curve, step), n)]).delta(eps)
    assert found >= gdp_delta(eps, mu * math.sqrt(n)) * (1 - 1e-9)


def forget() -> None:
    """Planted faults must neither find nor leave a remembered number."""
    for remembered in (
        accounting.event_curve,
        accounting.compose_events,
        accounting._cached_convolved_delta,
        accounting._cached_convolved_epsilon,
    ):
        remembered.cache_clear()


def test_a_grid_that_rounds_losses_down_is_caught(monkeypatch):
    def rounded_down(curve, reverse, step):
        made = discretize_curve(curve, reverse, step)
        return LossDistribution(step, made.first - 1, made.mass, made.infinite)

    monkeypatch.setattr(accounting, "discretize_curve", rounded_down)
    forget()
    found = convolved_epsilon([PrivacyEvent("gdp", 0.1, 0.0, 10)], 1e-6)
    forget()
    assert found < gdp_eps(1e-6, 0.1 * math.sqrt(10)) * (1 - 1e-4)


def test_a_forgotten_tail_is_caught(monkeypatch):
    monkeypatch.setattr(loss_distributions, "NEGLIGIBLE_DELTA", 1e-3)

    def without_infinity(curve, reverse, step):
        made = discretize_curve(curve, reverse, step)
        return LossDistribution(step, made.first, made.mass, 0.0)

    curve = lambda e: gdp_delta(e, 1.0)  # noqa: E731
    honest = convolve_losses([(discretize_curve(curve, curve, 0.01), 3)]).delta(4.0)
    lying = convolve_losses([(without_infinity(curve, curve, 0.01), 3)]).delta(4.0)
    assert lying < gdp_delta(4.0, math.sqrt(3.0)) <= honest


def test_the_error_of_the_transform_is_within_its_bound():
    rng = np.random.default_rng(1)
    for size, count in ((50, 3), (400, 9)):
        mass = rng.random(size) ** 8
        mass /= mass.sum()
        direct = mass
        for _ in range(count - 1):
            direct = np.convolve(direct, mass)
        made = convolve_losses([(LossDistribution(0.1, -size // 2, mass, 0.0), count)])
        error = np.abs(made.mass - direct).sum()
        assert error <= made.error < 1e-9


def test_masses_add_up_and_questions_agree():
    curve = lambda e: pure_to_delta(0.5, e)  # noqa: E731
    made = convolve_losses([(discretize_curve(curve, curve, 0.01), 4)])
    assert made.mass.sum() == pytest.approx(1.0, abs=1e-9)
    assert made.delta(made.epsilon(1e-4)) <= 1e-4
    assert made.delta(2.0) < 1e-9
    all_infinite = ComposedLoss(0.1, 0, np.array([0.5]), 0.5, 0.0)
    assert all_infinite.epsilon(0.1) == math.inf


def test_different_releases_convolve_only_where_declared_together():
    draws, counts = Guarantee.bounded_range_of(0.1, 5), Guarantee.dirichlet_of(0.3, 4.0)
    joint, adaptive = Guarantee.jointly(draws, counts), draws + counts
    assert joint.accounting_method(1e-6) == "convolution of a plan"
    assert "convolution of a plan" not in adaptive.delta_by_method(0.5)
    assert joint.epsilon(1e-6) < adaptive.epsilon(1e-6)
    alone = max(draws.epsilon(1e-6), counts.epsilon(1e-6))
    assert joint.epsilon(1e-6) > alone
    assert "convolution of a plan" not in (joint + Guarantee.pure(0.1)).delta_by_method(0.5)
    assert (Guarantee(()) + joint).planned
    assert Guarantee.from_dict(joint.to_dict()) == joint


def test_added_records_are_counted_in_both_directions():
    draws = Guarantee.dirichlet_of(0.3, 4.0, draws=2, neighbors="add_remove")
    each = [accounting.compose_events(draws.events, d).delta(0.3) for d in DIRECTIONS]
    assert draws.delta(0.3) == max(each)
    assert each[0] != each[1]


def test_the_curve_of_t2_is_the_worst_law_at_each_epsilon():
    """The pair behind the curve has every two-point law of T2 below it."""
    R = 1.0
    curve = [br_delta(e, 1, R) for e in (0.0, 0.2, 0.5, 0.9)]
    for t in np.linspace(0.05, 0.95, 10):
        q = math.expm1(R - t) / math.expm1(R)
        for e, bound in zip((0.0, 0.2, 0.5, 0.9), curve, strict=True):
            assert q * max(0.0, math.exp(t) - math.exp(e)) <= bound * (1 + 1e-12)
