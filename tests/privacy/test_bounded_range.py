"""T1 to T3: what draws from one posterior cost."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from pymc_private.errors import DomainError
from pymc_private.privacy import br_delta, br_eps, br_tv, br_zcdp_tight, zcdp_to_eps
from pymc_private.privacy.bounded_range import LARGEST_RANGE, MAX_EXACT_DRAWS

# N: (pure, zCDP, exact) for R = 0.01, 0.1, 1 at delta = 1e-6, as printed in theory's table of T4
TABLE = {
    1: (("0.01", "0.01", "0.00980"), ("0.1", "0.1", "0.0994"), ("1", "1", "0.9984")),
    10: (("0.1", "0.0605", "0.0546"), ("1", "0.7002", "0.6286"), ("10", "8.846", "7.713")),
    100: (("1", "0.2059", "0.1889"), ("10", "2.419", "2.246"), ("100", "37.42", "34.77")),
    1000: (("10", "0.7002", "0.6480"), ("100", "8.846", "8.301"), ("1000", "205.9", "196.3")),
}
ranges = st.floats(1e-6, 20.0)


def two_point(t: float, R: float) -> tuple[np.ndarray, np.ndarray]:
    """Laws P and Q on two outcomes with losses t and t - R: the pair that attains T2."""
    q = math.expm1(R - t) / math.expm1(R)
    return np.array([q * math.exp(t), 1 - q * math.exp(t)]), np.array([q, 1 - q])


def product(law: np.ndarray, n: int) -> np.ndarray:
    """Probabilities of all outcomes of n independent draws, by enumeration."""
    return np.array([math.prod(point) for point in itertools.product(law, repeat=n)])


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def at_last_place(printed: str) -> float:
    """Half a unit in the last place of a printed number."""
    return 0.5000001 * float(Decimal(1).scaleb(int(Decimal(printed).as_tuple().exponent)))


@pytest.mark.parametrize("n", TABLE)
@pytest.mark.parametrize("column", [0, 1, 2])
def test_the_table_of_theory_t4_is_reproduced(n, column):
    R = (0.01, 0.1, 1.0)[column]
    pure, zcdp, exact = TABLE[n][column]
    assert br_eps(0.0, n, R) == pytest.approx(float(pure), rel=1e-15)
    road = min(n * R, zcdp_to_eps(n * R * R / 8, 1e-6))
    assert road == pytest.approx(float(zcdp), abs=at_last_place(zcdp))
    assert br_eps(1e-6, n, R) == pytest.approx(float(exact), abs=at_last_place(exact))


@pytest.mark.thin(6)
@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("R", [0.01, 0.3, 1.0, 4.0])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.4, 0.8])
def test_n_draws_reach_their_exact_curve_and_never_exceed_it(n, R, share):
    # Every two-point law is bounded-range, and for some t it is the worst of all: enumeration of
    # the 2^N outcomes must touch the curve from below. Half of R, or one draw less, would fail.
    epsilon = share * n * R
    curve = br_delta(epsilon, n, R)
    reached = 0.0
    for t in np.linspace(0.0, R, 801)[1:-1]:
        p, q = two_point(float(t), R)
        reached = max(reached, hockey_stick(product(p, n), product(q, n), epsilon))
    assert reached <= curve
    assert reached >= 0.9999 * curve


@given(
    prior=st.lists(st.floats(0.01, 1.0), min_size=4, max_size=4),
    log_ratio=st.lists(st.floats(-3.0, 3.0), min_size=4, max_size=4),
    n=st.integers(1, 4),
    share=st.floats(0.0, 0.99),
)
def test_no_pair_of_posteriors_exceeds_the_curve_of_its_range(prior, log_ratio, n, share):
    weights = np.array(prior) * np.exp(log_ratio)
    p, q = weights / weights.sum(), np.array(prior) / np.sum(prior)
    R = max(log_ratio) - min(log_ratio) + 1e-12  # covers the rounding of the posteriors
    curve = br_delta(share * n * R, n, R)
    assert hockey_stick(product(p, n), product(q, n), share * n * R) <= curve + 1e-14
    assert hockey_stick(product(q, n), product(p, n), share * n * R) <= curve + 1e-14


def precise_delta(eps: float, n: int, R: float) -> mpmath.mpf:
    """T3 as printed, with 60 digits."""
    with mpmath.workdps(60):
        eps, R, best = mpmath.mpf(eps), mpmath.mpf(R), mpmath.mpf(0)
        for level in range(n + 1):
            t = min(max((eps + (level + 1) * R) / (n + 1), 0), R)
            p = mpmath.expm1(R - t) / mpmath.expm1(R) * mpmath.exp(t)
            gains = (max(0, -mpmath.expm1(eps - n * t + i * R)) for i in range(n + 1))
            sums = mpmath.fsum(
                mpmath.binomial(n, i) * p ** (n - i) * (1 - p) ** i * gain
                for i, gain in enumerate(gains)
                if gain
            )
            best = max(best, sums)
        return best


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    ("eps", "n", "R"),
    [
        (0.0, 1, 1e-9),
        (0.0, 40, 1e-7),
        (1e-6, 40, 1e-6),
        (0.0499, 1, 0.05),
        (0.5, 3, 50.0),
        (149.0, 3, 50.0),
        (2.0, 40, 0.3),
        (11.99, 40, 0.3),
        (30.0, 60, 2.0),
        (0.0, 25, 20.0),
    ],
)
def test_the_computed_delta_lies_just_above_the_exact_one(eps, n, R):
    truth = precise_delta(eps, n, R)
    assert truth <= br_delta(eps, n, R) <= truth * (1 + 1e-9) + 1e-299


@pytest.mark.parametrize(("eps", "n", "R"), [(0.5, 700, 0.02), (60.0, 300, 1.0), (0.0, 900, 0.1)])
def test_windows_and_pruning_lose_nothing_of_the_maximum(eps, n, R):
    # The other road: all thresholds, each a difference of two binomial distribution functions.
    level = np.arange(n + 1)
    t = np.clip((eps + (level + 1) * R) / (n + 1), 0, R)
    q = np.expm1(R - t) / np.expm1(R)
    p = q * np.exp(t)
    direct = binom.cdf(level, n, 1 - p) - np.exp(eps) * binom.cdf(level, n, 1 - q)
    assert br_delta(eps, n, R) == pytest.approx(direct.max(), rel=1e-7)


@given(
    n=st.integers(1, 60),
    R=ranges,
    delta=st.floats(1e-12, 0.9),
)
def test_the_epsilon_returned_is_the_safe_end(n, R, delta):
    epsilon = br_eps(delta, n, R)
    assert epsilon <= br_eps(0.0, n, R)
    assert br_delta(epsilon, n, R) <= delta
    if epsilon > 0:
        assert br_delta(epsilon * (1 - 1e-6), n, R) > delta  # and no wider than it must be


@given(n=st.integers(1, 40), R=ranges, eps=st.floats(0.0, 10.0))
def test_delta_grows_with_draws_and_range_and_falls_with_epsilon(n, R, eps):
    delta, up = br_delta(eps, n, R), 1 + 1e-8
    assert delta <= up * br_delta(eps, n + 1, R)
    assert delta <= up * br_delta(eps, n, 1.01 * R)
    assert br_delta(eps + 0.01, n, R) <= up * delta


def test_delta_is_zero_from_the_pure_epsilon_on_and_positive_just_below():
    for n, R in ((3, 0.1), (7, 1.3), (1000, 0.7)):
        pure = br_eps(0.0, n, R)
        assert br_delta(pure, n, R) == 0.0
        assert br_delta(math.nextafter(pure, 0) * (1 - 1e-15), n, R) > 0.0
    assert br_delta(10 * 0.1, 10, 0.1) > 0.0  # the double 0.1 exceeds a tenth


def test_beyond_the_exact_size_the_bound_still_holds():
    n, R = MAX_EXACT_DRAWS, 0.01
    assert br_eps(1e-6, n, R) < br_eps(1e-6, n + 1, R) < 1.1 * br_eps(1e-6, n, R)
    assert br_delta(3.0, n, R) < br_delta(3.0, n + 1, R) < 5 * br_delta(3.0, n, R)
    # Some threshold of the two-point law at t = R/2, for a million draws.
    n, R, level = 10**6, 0.001, 499_000
    p, q = two_point(R / 2, R)
    attained = binom.cdf(level, n, p[1]) - math.exp(0.5) * binom.cdf(level, n, q[1])
    assert 0.01 < attained <= br_delta(0.5, n, R)
    assert br_eps(1e-6, n, R) < 0.01 * br_eps(0.0, n, R)


@given(R=ranges)
def test_total_variation_is_the_curve_at_zero(R):
    assert br_tv(R) == pytest.approx(br_delta(0.0, 1, R), rel=1e-9)
    assert br_tv(R) >= math.tanh(R / 4)


@pytest.mark.parametrize(
    "R", [1e-160, 1e-8, 9.99e-4, 1.01e-3, 0.3, 0.99, 1.0, 1.01, 5.0, 50.0, 1e3]
)
def test_the_zcdp_constant_lies_just_above_the_exact_one_and_below_an_eighth(R):
    with mpmath.workdps(400):
        z = mpmath.mpf(R) / mpmath.expm1(mpmath.mpf(R))
        truth = z - 1 - mpmath.log(z)
        assert truth <= br_zcdp_tight(R) <= truth * (1 + mpmath.mpf(2e-8)) + 1e-323
    assert br_zcdp_tight(R) <= R * R / 8 * (1 + 1e-14) + 1e-323


@given(R=st.floats(0.01, 10.0), place=st.floats(0.01, 0.99), order=st.floats(1.001, 50.0))
def test_renyi_divergence_of_a_draw_stays_below_the_zcdp_constant(R, place, order):
    p, q = two_point(place * R, R)
    renyi = math.log((p**order * q ** (1 - order)).sum()) / (order - 1)
    assert renyi <= order * br_zcdp_tight(R) + 1e-12


@pytest.mark.parametrize("R", [0.1, 1.0, 4.0])
def test_the_zcdp_constant_is_attained_as_the_order_falls_to_one(R):
    laws = (two_point(float(t), R) for t in np.linspace(0, R, 2001)[1:-1])
    divergence = max(float((p * np.log(p / q)).sum()) for p, q in laws)
    assert divergence == pytest.approx(br_zcdp_tight(R), rel=1e-5)


def test_absurd_ranges_are_answered_without_overflow():
    assert br_delta(1.0, 3, math.inf) == br_tv(math.inf) == br_delta(1.0, 3, 1e308) == 1.0
    assert br_eps(0.1, 3, math.inf) == br_zcdp_tight(math.inf) == math.inf
    assert br_delta(0.0, 3, 5e-324) > 0.0
    assert br_delta(1.0, 2, 2 * LARGEST_RANGE) == 1.0
    assert br_tv(0.0) == br_zcdp_tight(0.0) == br_delta(0.0, 3, 0.0) == br_eps(0.1, 3, 0.0) == 0.0


@pytest.mark.parametrize(
    "call",
    [
        lambda: br_delta(-0.1, 1, 1.0),
        lambda: br_delta(math.nan, 1, 1.0),
        lambda: br_delta(0.1, 0, 1.0),
        lambda: br_delta(0.1, 1.5, 1.0),
        lambda: br_delta(0.1, True, 1.0),
        lambda: br_delta(0.1, 1, -1.0),
        lambda: br_eps(1.0, 1, 1.0),
        lambda: br_eps(-0.1, 1, 1.0),
        lambda: br_tv(math.nan),
        lambda: br_zcdp_tight(-1e-9),
    ],
)
def test_impossible_arguments_are_refused(call):
    with pytest.raises(DomainError, match="allowed"):
        call()
