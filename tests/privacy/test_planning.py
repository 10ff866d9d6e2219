"""Inverse questions, the table of T4, constructors, and pictures."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pymc_private import privacy
from pymc_private.errors import DomainError, Unsupported
from pymc_private.privacy import (
    Guarantee,
    br_eps,
    compare,
    draws_affordable,
    gdp_delta,
    mu_affordable,
    power_affordable,
    range_affordable,
    rho_affordable,
    zcdp_to_eps,
)

# R, N, pure, exact at delta = 1e-6 (theory T4)
TABLE = [
    (0.01, 1, 0.01, 0.00980), (0.01, 10, 0.1, 0.0546), (0.01, 100, 1, 0.1889),
    (0.01, 1000, 10, 0.6480), (0.1, 1, 0.1, 0.0994), (0.1, 10, 1, 0.6286),
    (0.1, 100, 10, 2.246), (0.1, 1000, 100, 8.301), (1, 1, 1, 0.9984),
    (1, 10, 10, 7.713), (1, 100, 100, 34.77), (1, 1000, 1000, 196.3),
]  # fmt: skip


@pytest.mark.parametrize(("R", "n", "pure", "exact"), TABLE)
def test_the_table_of_t4(R, n, pure, exact):
    ((count, by_pure, by_zcdp, by_curve),) = compare(R, [n]).rows
    assert (count, by_pure) == (n, pytest.approx(pure, rel=1e-12))
    assert by_curve == pytest.approx(exact, rel=6e-4)
    assert by_curve <= by_zcdp <= by_pure


@settings(max_examples=20 if settings.default.max_examples < 1000 else 1000)
@given(e=st.floats(0.05, 10.0), d=st.floats(1e-9, 0.01), n=st.integers(1, 60))
def test_what_is_affordable_fits_and_hardly_more_does(e, d, n):
    R = range_affordable(e, d, n)
    assert br_eps(d, n, R) <= e
    assert br_eps(d, n, R * (1 + 1e-6)) > e
    assert draws_affordable(e, d, R) >= n
    mu, rho = mu_affordable(e, d), rho_affordable(e, d)
    assert gdp_delta(e, mu) <= d < gdp_delta(e, mu * (1 + 1e-6))
    assert zcdp_to_eps(rho, d) <= e < zcdp_to_eps(rho * (1 + 1e-6), d)
    w = power_affordable(e, d, n, 8.0)
    assert br_eps(d, n, 8.0 * w) <= e


def test_edges_of_a_budget():
    assert draws_affordable(1.0, 0.0, 0.25) == 4
    assert draws_affordable(0.1, 1e-6, 5.0) == 0
    assert range_affordable(1.0, 0.0, 10) == pytest.approx(0.1)
    assert power_affordable(10.0, 0.0, 1, 2.0) == pytest.approx(1.0)
    assert mu_affordable(0.0, 1e-6) > 0
    for call in (
        lambda: draws_affordable(1.0, 1e-6, 0.0),
        lambda: mu_affordable(1.0, 0.0),
        lambda: rho_affordable(-1.0, 0.1),
        lambda: power_affordable(1.0, 0.1, 1, math.inf),
        lambda: compare(0.1, [0]),
        lambda: compare(0.1, delta=1.0),
    ):
        with pytest.raises(DomainError):
            call()


# ---- constructors ---------------------------------------------------------------------------
def test_ten_tenths_are_one():
    ten = 10 * Guarantee.pure(0.1)
    assert ten.exact_pure == 1
    assert ten.epsilon() == 1.0
    assert ten.delta(1.0) == 0.0
    assert sum((Guarantee.pure(0.1) for _ in range(9)), Guarantee.pure(0.1)).exact_pure == 1
    assert Guarantee.pure(Fraction(0.1)).exact_pure > Fraction(1, 10)
    ten = 10 * Guarantee.approximate(0.1, 1e-7)
    assert (ten.epsilon(1e-6), ten.delta(1.0)) == (1.0, 1e-6)


def test_other_peoples_mechanisms():
    assert Guarantee.laplace_of(1, 4).pure_epsilon == 0.25
    assert Guarantee.gaussian_of(1, 4).gdp == 0.25
    assert Guarantee.discrete_gaussian_of(1, 4).zcdp == 1 / 32
    assert Guarantee.exponential_mechanism_of(0.5).epsilon(1e-6) == br_eps(1e-6, 1, 0.5)
    response = Guarantee.randomized_response_of(0.75)
    assert response.pure_epsilon == pytest.approx(math.log(3), rel=1e-15)
    assert Guarantee.randomized_response_of(0.25, levels=4).pure_epsilon == 0.0
    rdp = Guarantee.rdp_of(10, 0.5)
    assert rdp.epsilon(1e-5) == pytest.approx(privacy.rdp_to_eps(10, 0.5, 1e-5), rel=1e-12)
    assert (rdp.rdp(10), rdp.rdp(2), rdp.rdp(11)) == (0.5, 0.5, math.inf)
    for call in (
        lambda: Guarantee.laplace_of(1, 0),
        lambda: Guarantee.gaussian_of(math.inf, 1),
        lambda: Guarantee.randomized_response_of(0.2),
        lambda: Guarantee.rdp_of(1.0, 0.5),
        lambda: Guarantee.dirichlet_of(0, 1),
        lambda: Guarantee.noisy_counts_of(3, 1.0, "uniform"),
        lambda: Guarantee.pure(0.1).within(1.5),
    ):
        with pytest.raises(DomainError):
            call()


def test_noisy_counts_touch_two_cells_of_each_table():
    tables = 5  # K + 1
    assert Guarantee.noisy_counts_of(tables, 2.0).zcdp == pytest.approx(tables / 4)
    gauss = Guarantee.noisy_counts_of(tables, 2.0, "gaussian")
    assert gauss.gdp == pytest.approx(math.sqrt(2 * tables) / 2)
    assert Guarantee.noisy_counts_of(tables, 2.0, "laplace").pure_epsilon == tables
    added = Guarantee.noisy_counts_of(tables, 2.0, neighbors="add_remove")
    assert added.zcdp == pytest.approx(tables / 8)


def test_dirichlet_and_mollifier_draws():
    one = Guarantee.dirichlet_of(0.5, 3.0)
    assert one.epsilon(1e-5) == privacy.beta_pair_eps(1e-5, 0.5, 3.0)
    assert one.delta(1.0) == privacy.beta_pair_delta(1.0, 0.5, 3.0)
    assert one.accounting_method(1e-5) == "exact curve (T9-T15)"
    assert one.pure_epsilon == one.zcdp == math.inf
    added = Guarantee.dirichlet_of(0.5, 3.0, neighbors="add_remove")
    assert added.epsilon(1e-5) == privacy.gamma_pair_eps(1e-5, 0.5, 3.0)
    many = Guarantee.mollifier_of(0.5, draws=8)
    assert many.delta(1.0) == privacy.moll_delta_k(1.0, 0.5, 8)
    assert many.group(5).epsilon(1e-6) == many.epsilon(1e-6)
    with pytest.raises(Unsupported, match="T11"):
        one.group(2)


def test_groups_of_a_divergence():
    grouped = Guarantee.rdp_of(32, 0.1).group(4)
    assert grouped.rdp(8) == pytest.approx(0.9)
    assert Guarantee.rdp_of(3, 0.1).group(4).epsilon(1e-6) == math.inf


@given(tv=st.floats(1e-12, 1e-8), n=st.integers(1, 20), delta=st.floats(1e-6, 1e-3))
@settings(max_examples=40)
def test_distance_is_paid_out_of_delta(tv, n, delta):
    exact = Guarantee.bounded_range_of(0.1, n)
    near = exact.within(tv, n)
    epsilon = near.epsilon(delta)
    assert epsilon >= exact.epsilon(delta)
    assert privacy.approx_delta_n(epsilon, exact.delta(epsilon), tv, n) <= delta * (1 + 1e-9)
    assert near.delta(epsilon) <= delta * (1 + 1e-9)
    assert near.pure_epsilon == math.inf
    assert any("total variation" in words for words in near.assumptions)


def test_a_distance_that_is_too_large_leaves_nothing():
    assert Guarantee.bounded_range_of(0.1, 10).within(1e-6).epsilon(1e-6) == math.inf
    assert (Guarantee.approximate(0.1, 1e-7).within(1e-9) + Guarantee.pure(0.1)).epsilon(
        1e-6
    ) == pytest.approx(0.2, rel=1e-4)


@pytest.mark.parametrize("name", ["plot", "compare"])
def test_pictures_show_every_road(name):
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    if name == "plot":
        axes = Guarantee.bounded_range_of(0.1, 20).plot(points=12)
        labels = axes.get_legend_handles_labels()[1]
        assert labels == [
            "pure", "zCDP (T4)", "exact curve of N draws (T3)", "what may be claimed",
        ]  # fmt: skip
    else:
        axes = compare(0.1).plot()
        assert axes.get_legend_handles_labels()[1] == ["pure", "zCDP (T4)", "exact (T3)"]
        assert "<table" in compare(0.1)._repr_html_()
    plt.close(axes.figure)


@pytest.mark.parametrize(
    ("epsilon", "delta", "draws"), [(1.0, 0.0, 7), (1.0, 1e-6, 100), (3, 0.01, 2)]
)
def test_mollifier_affordable_is_the_widest_whose_draws_fit(epsilon, delta, draws):
    width = privacy.mollifier_affordable(epsilon, delta, draws)
    price = lambda w: Guarantee.mollifier_of(w, draws).epsilon(delta)  # noqa: E731
    assert price(width) <= epsilon
    assert price(width * 1.001) > epsilon


def test_a_curve_that_says_nothing_is_not_plotted():
    """Gaussian noise has no pure guarantee: its delta would be 1 at every epsilon."""
    labels = [line.get_label() for line in Guarantee.gaussian_of(1.0, 1.0).plot().lines]
    assert "what may be claimed" in labels
    assert "pure" not in labels
    assert "pure" in [line.get_label() for line in Guarantee.pure(1.0).plot().lines]
