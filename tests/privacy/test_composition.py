"""What promises cost together: composition, planned and adaptive, and groups (T24)."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.privacy import Guarantee, br_delta, br_eps, gdp_delta, gdp_eps, zcdp_to_eps

ALL_FINITE = (
    Guarantee.pure(0.3),
    Guarantee.approximate(0.1, 1e-7),
    Guarantee.zcdp_of(0.02),
    Guarantee.gdp_of(0.5),
    Guarantee.bounded_range_of(0.1, draws=10),
)
sizes = st.floats(0.0, 5.0)


def test_planned_draws_merge_and_adaptive_draws_do_not():
    one = Guarantee.bounded_range_of(0.1, draws=5)
    assert 2 * one == one * 2 == Guarantee.bounded_range_of(0.1, draws=10)
    adaptive = one + one
    assert adaptive.accounting_method(1e-6) == "zCDP (T4)"  # T3 is not proved for adaptive choices
    assert adaptive.epsilon(1e-6) == zcdp_to_eps(2 * one.zcdp, 1e-6)
    assert adaptive.epsilon(1e-6) > (2 * one).epsilon(1e-6)
    assert adaptive.pure_epsilon == (2 * one).pure_epsilon


def test_gaussian_parts_compose_exactly_and_lose_that_beside_others():
    together = Guarantee.gdp_of(3.0) + Guarantee.gdp_of(4.0)
    assert together.gdp == 5.0
    assert together.epsilon(1e-6) == gdp_eps(1e-6, 5.0)
    assert together.delta(1.0) == gdp_delta(1.0, 5.0)
    assert (4 * Guarantee.gdp_of(0.5)).gdp == 1.0
    mixed = together + Guarantee.pure(0.1)
    assert mixed.gdp == math.inf
    assert mixed.accounting_method(1e-6) == "zCDP (T4)"
    assert mixed.zcdp == pytest.approx(12.5 + Guarantee.pure(0.1).zcdp)


def test_deltas_already_fixed_are_paid_before_a_road_is_chosen():
    # At the full delta the zCDP road would claim less: epsilon and delta cannot both be kept.
    rest, fixed = Guarantee.zcdp_of(0.02), Guarantee.approximate(0.1, 6e-7)
    both = rest + fixed + fixed
    assert both.epsilon(2e-6) == pytest.approx(0.2 + rest.epsilon(0.8e-6), rel=1e-12)
    assert both.epsilon(2e-6) > 0.2 + rest.epsilon(2e-6) + 1e-3
    assert both.epsilon(1.1e-6) == math.inf
    assert "already fixed" in both.accounting_method(1.1e-6)
    assert both.delta(0.19) == 1.0
    assert both.delta(0.8) == pytest.approx(1.2e-6 + rest.delta(0.6), rel=1e-9)


def test_a_plan_keeps_its_exact_curve_beside_fixed_deltas():
    both = Guarantee.bounded_range_of(0.1, draws=10) + Guarantee.approximate(0.1, 6e-7)
    assert both.accounting_method(2e-6) == "exact curve of N draws (T3)"
    assert both.epsilon(2e-6) == pytest.approx(0.1 + br_eps(1.4e-6, 10, 0.1), rel=1e-10)
    assert both.delta(0.5) == pytest.approx(6e-7 + br_delta(0.4, 10, 0.1), rel=1e-10)


def test_approximate_parts_add_up_basically():
    three = 3 * Guarantee.approximate(0.25, 1e-7)
    assert three.epsilon(3.1e-7) == 0.75
    assert three.accounting_method(3.1e-7) == "basic composition"
    assert three.delta(0.75) >= 3e-7
    assert three.delta(0.749) == 1.0


def written(value: float) -> Fraction:
    """What a float that states a parameter means: its decimal."""
    return Fraction(repr(value))


@given(epsilons=st.lists(sizes, min_size=1, max_size=6), counts=st.lists(st.integers(1, 9)))
def test_sums_are_never_below_the_exact_sum(epsilons, counts):
    parts = [
        count * Guarantee.pure(e) for e, count in zip(epsilons, counts + [1] * 6, strict=False)
    ]
    total = sum(parts[1:], parts[0])
    exact = sum(atom.count * written(e) for atom, e in zip(total.events, epsilons, strict=True))
    assert Fraction(total.pure_epsilon) >= exact or written(total.pure_epsilon) == exact
    assert total.pure_epsilon <= float(exact) * (1 + 1e-14)
    rho = Guarantee((), "substitute")
    for e in epsilons:
        rho = rho + Guarantee.zcdp_of(e)
    assert Fraction(rho.zcdp) >= sum(map(Fraction, epsilons))
    mu = Guarantee((), "substitute")
    for e in epsilons:
        mu = mu + Guarantee.gdp_of(e)
    assert Fraction(mu.gdp) ** 2 >= sum(Fraction(e) ** 2 for e in epsilons)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


def randomized_response(epsilon: float) -> np.ndarray:
    """Laws under the two neighbors, as rows."""
    truth = 1 / (1 + math.exp(-epsilon))
    return np.array([[truth, 1 - truth], [1 - truth, truth]])


def draw(R: float, t: float) -> np.ndarray:
    """A bounded-range draw: losses t and t - R."""
    q = math.expm1(R - t) / math.expm1(R)
    return np.array([[q * math.exp(t), 1 - q * math.exp(t)], [q, 1 - q]])


def leaky(epsilon: float, delta: float) -> np.ndarray:
    """Randomized response that gives the dataset away with probability delta."""
    safe = (1 - delta) * randomized_response(epsilon)
    return np.vstack([[*safe[0], delta, 0.0], [*safe[1], 0.0, delta]])


def adaptively(first: np.ndarray, second: list[np.ndarray]) -> np.ndarray:
    """Laws of both outputs where the second mechanism is chosen by the first output."""
    rows = [np.concatenate([first[d, i] * s[d] for i, s in enumerate(second)]) for d in (0, 1)]
    return np.array(rows)


@given(
    R=st.floats(0.05, 3.0),
    places=st.lists(st.floats(0.05, 0.95), min_size=3, max_size=3),
    epsilon=st.floats(0.0, 2.0),
    delta=st.floats(0.001, 0.2),
    at=st.floats(0.0, 6.0),
)
def test_no_adaptive_composition_exceeds_the_sum_of_its_promises(R, places, epsilon, delta, at):
    first, *second = (draw(R, place * R) for place in places)
    laws = adaptively(first, second)
    laws = adaptively(laws, [leaky(epsilon, delta)] * laws.shape[1])
    one = Guarantee.bounded_range_of(R)
    promise = one + one + Guarantee.approximate(epsilon, delta)
    for p, q in (laws, laws[::-1]):
        assert hockey_stick(p, q, at) <= promise.delta(at) + 1e-12


@given(one=st.sampled_from(ALL_FINITE), two=st.sampled_from(ALL_FINITE), d=st.floats(1e-5, 0.5))
def test_epsilon_and_delta_of_a_sum_agree(one, two, d):
    both = one + two
    epsilon = both.epsilon(d)
    assert both.delta(epsilon) <= d * (1 + 1e-6)
    assert both.epsilon(d) >= max(one.epsilon(d), two.epsilon(d)) * (1 - 1e-9)
    assert both.epsilon(d / 2) >= epsilon
    assert both.accounting_method(d) in both.delta_by_method(epsilon)


# ---- groups (T24) ---------------------------------------------------------------------------
def test_a_group_of_k_pays_by_the_rule_of_its_kind():
    assert Guarantee.pure(0.3).group(4).pure_epsilon == 1.2
    assert Guarantee.zcdp_of(0.25).group(4).zcdp == 4.0
    assert Guarantee.gdp_of(0.5).group(4).gdp == 2.0
    assert Guarantee.bounded_range_of(0.25, 10).group(4) == Guarantee.bounded_range_of(
        1.0, 10, assumptions=("a unit owns at most 4 records",)
    )
    three = Guarantee.approximate(0.5, 1e-6).group(3)
    expected = 1e-6 * (1 + math.exp(0.5) + math.exp(1.0))
    assert three.epsilon(0.5) == 1.5
    assert three.delta(1.5) == pytest.approx(expected, rel=1e-9)
    assert three.delta(1.5) >= expected
    assert Guarantee.approximate(0.0, 1e-6).group(3).delta(0.0) == pytest.approx(3e-6)


def test_a_group_whose_delta_reaches_one_has_no_promise():
    assert Guarantee.approximate(5.0, 0.01).group(2).epsilon(0.999) == math.inf
    assert Guarantee.approximate(800.0, 1e-300).group(2).epsilon(0.999) == math.inf


@given(
    steps=st.lists(st.tuples(st.floats(0.1, 0.9), st.floats(0.0, 1.0)), min_size=2, max_size=4),
    at=st.floats(0.0, 1.0),
)
def test_no_chain_of_neighbors_exceeds_the_promise_of_its_group(steps, at):
    # Laws on three outcomes; the largest delta at 0.3 between successive ones is the promise.
    laws = [np.array([a * b, a * (1 - b), 1 - a]) for a, b in steps]
    pairs = [*pairwise(laws), *pairwise(laws[::-1])]
    delta = max(hockey_stick(p, q, 0.3) for p, q in pairs)
    group = Guarantee.approximate(0.3, delta).group(len(laws) - 1)
    far = 0.3 * (len(laws) - 1) + at
    assert hockey_stick(laws[0], laws[-1], far) <= group.delta(far) + 1e-12


def test_a_group_of_one_is_the_record_itself():
    for one in ALL_FINITE:
        assert one.group(1) == one
    assert "a unit owns at most 3 records" in ALL_FINITE[0].group(3).assumptions
