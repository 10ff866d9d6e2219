"""T15d: the clip is in its window after exact normalization, whatever the estimate, and nearest."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st

from pymc_private import privacy
from pymc_private.errors import DomainError
from pymc_private.mollifiers.mollified_distributions import (
    CLIP_SLACK,
    best_tilt_level,
    clip_to_window,
    log_total_mass,
    window_slack,
)
from pymc_private.mollifiers.window import Window

RATIOS = st.one_of(
    st.floats(-50, 50),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([-math.inf, 0.0, 1e300, -1e300, math.nan]),
)


def exact_log_ratios(weights: np.ndarray, mass: np.ndarray) -> list[arb]:
    """log Q/Q0 of the law in proportion to mass e^weights, in ball arithmetic."""
    with ctx.workprec(200):
        total = sum((Fraction(m) for m in mass), Fraction(0))
        terms = zip(mass, weights, strict=True)
        filled = sum((arb(float(m)) * arb(float(w)).exp() for m, w in terms), arb(0))
        shift = (filled * total.denominator / total.numerator).log()
        return [arb(float(w)) - shift for w in weights]


@given(
    cells=st.lists(st.tuples(RATIOS, st.floats(1e-12, 1.0)), min_size=1, max_size=12),
    epsilon=st.sampled_from([1e-13, 1e-6, 0.1, 1.0, 3.0, 12.0]),
    share=st.sampled_from([None, 0.05, 0.9]),
)
def test_every_estimate_is_inside_its_window_after_exact_normalization(cells, epsilon, share):
    ratio, mass = (np.array(column) for column in zip(*cells, strict=True))
    window = Window.symmetric(epsilon) if share is None else Window.asymmetric(epsilon, share)
    weights, _ = clip_to_window(ratio, mass, window)
    for value in exact_log_ratios(weights, mass):
        assert arb(window.lower) <= value
        assert value <= arb(window.upper)


def test_clip_then_renormalize_leaves_the_window_and_the_exact_check_says_so():
    target, mass = np.array([0.9, 0.08, 0.02]), np.array([0.2, 0.3, 0.5])
    naive = np.clip(np.log(target / mass), -0.5, 0.5)
    assert float(max(exact_log_ratios(naive, mass)).mid()) == pytest.approx(0.7046, abs=1e-4)
    solved, _ = clip_to_window(np.log(target / mass), mass, Window.symmetric(1.0))
    assert max(exact_log_ratios(solved, mass)) <= arb(0.5)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_it_is_the_closed_form_that_is_computed_by_ball_arithmetic(epsilon):
    rng = np.random.default_rng(3)
    for _ in range(15):
        target, mass = rng.dirichlet(np.full(8, 0.3)), rng.dirichlet(np.ones(8))
        target[rng.random(8) < 0.4] = 0.0  # often degenerate
        target = (target + 1e-300) / (target + 1e-300).sum() if not target.any() else target
        target /= target.sum()
        with np.errstate(divide="ignore"):
            weights, _ = clip_to_window(np.log(target / mass), mass, Window.symmetric(epsilon))
        np.testing.assert_allclose(
            mass * np.exp(weights), privacy.mollify(target, mass, epsilon), atol=2e-11
        )


def test_a_support_too_small_takes_the_upper_end_and_leaves_the_rest_to_the_reference():
    mass = np.array([0.2, 0.3, 0.5])
    weights, level = clip_to_window(np.array([0.0, -np.inf, -np.inf]), mass, Window.symmetric(0.3))
    assert level == -math.inf
    assert weights[0] == pytest.approx(0.15, abs=1e-10)
    assert weights[1] == weights[2]
    assert abs(log_total_mass(weights, mass)) <= CLIP_SLACK


@pytest.mark.parametrize("short", [1e-6, 1e-8, 1e-10])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_a_support_that_barely_fits_stays_in_a_window_with_little_room_above(epsilon, short):
    """The rest is then a difference of near equals, off by up to 1e-6 before it was clipped."""
    window = Window.asymmetric(epsilon, 1.0 - short)
    inward = window_slack(window)
    high, low = math.exp(window.upper - inward), math.exp(window.lower + inward)
    rest = (high - 1.0) / (high - low)
    for step in range(-8, 9):
        off = rest * (1.0 + step * 2e-16)
        mass = np.array([1.0 - off, off])
        weights, _ = clip_to_window(np.array([0.0, -np.inf]), mass, window)
        for value in exact_log_ratios(weights, mass):
            assert arb(window.lower) <= value
            assert value <= arb(window.upper)


def test_no_other_law_in_the_window_is_nearer():
    rng = np.random.default_rng(4)
    window = Window.symmetric(1.0)
    for _ in range(50):
        target, mass = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(5))
        best, _ = clip_to_window(np.log(target / mass), mass, window)
        other, _ = clip_to_window(rng.normal(size=5), mass, window)
        for share in (1e-3, 0.5, 1.0):  # the window is convex
            mixed = np.log((1 - share) * np.exp(best) + share * np.exp(other))
            assert target @ mixed <= target @ best + 1e-11


def test_a_million_atoms_are_normalized_to_the_last_bits():
    rng = np.random.default_rng(5)
    target, mass = rng.pareto(0.5, size=10**6), rng.exponential(size=10**6)
    weights, _ = clip_to_window(np.log(target / mass), mass, Window.symmetric(1.0))
    assert abs(log_total_mass(weights, mass / mass.sum())) <= CLIP_SLACK
    assert weights.min() >= -0.5
    assert weights.max() <= 0.5


def test_the_best_tilt_is_the_best_asymmetric_window():
    """Two roads to one number: T15d's table, and the ceiling of MBDE in the reference results."""
    x = np.linspace(-8, 8, 4001)
    mass = np.exp(-(x**2) / 2)
    mass /= mass.sum()
    target = np.exp(-((x - 1) ** 2) / 0.5)
    target /= target.sum()
    ratio = np.log(target / mass)
    for epsilon, table in ((0.5, 0.1296), (1.0, 0.2449), (2.0, 0.4336)):
        width = epsilon / 2
        tilt = np.clip(ratio - best_tilt_level(ratio, mass, width), -width / 2, width / 2)
        gain = target @ tilt - math.log(mass @ np.exp(tilt))
        assert gain == pytest.approx(table, abs=2e-4)


@pytest.mark.parametrize("mass", [[-0.1, 1.1], [np.nan, 1.0], [0.0, 0.0], [[0.5, 0.5]]])
def test_a_reference_that_is_no_law_is_refused(mass):
    with pytest.raises(DomainError, match="the reference masses are finite"):
        clip_to_window(np.zeros(2), np.array(mass), Window.symmetric(1.0))
