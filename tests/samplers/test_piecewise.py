"""Masses, draws and heights of exponential pieces, against arithmetic of 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.samplers import piecewise
from pymc_private.samplers.piecewise import Envelope, draw, height, log_mass
from tests.statistics import cdf_envelope

SLOPES = [0.0, 1e-300, 1e-12, -1e-12, 1e-8, -3e-8, 1e-3, -1e-3, 1.0, -1.0, 50.0, -50.0, 1e5, -1e5]
UNIFORMS = np.concatenate([[2.0**-53, 1e-9], np.linspace(0.001, 0.999, 41), [1.0 - 2.0**-53]])


def side_mass(slope: float, half: float) -> mpmath.mpf:
    """Integral of e^{slope t} over [0, half]."""
    with mpmath.workdps(60):
        s, h = mpmath.mpf(slope), mpmath.mpf(half)
        return h if s == 0 else mpmath.expm1(s * h) / s


def envelope(low: float, high: float, constant: float = 0.0) -> Envelope:
    return Envelope(constant, np.array([low]), np.array([high]))


@pytest.mark.parametrize("half", [1e-9, 0.3, 7.0])
@pytest.mark.parametrize("high", SLOPES)
@pytest.mark.parametrize("low", SLOPES)
def test_the_mass_is_the_integral(low, high, half):
    with mpmath.workdps(60):
        exact = float(mpmath.log(side_mass(-low, half) + side_mass(high, half)))
    found = log_mass(envelope(low, high, 3.5), np.array([half]))
    assert found == pytest.approx(exact + 3.5, rel=1e-14, abs=1e-13)


def test_the_mass_agrees_with_numerical_integration_of_the_height():
    piece, half = envelope(-1.5, 0.7, 0.2), np.array([2.0])
    t = np.linspace(-2.0, 2.0, 400_001)
    values = np.exp([height(piece, np.array([x])) for x in t[::40]])
    assert np.trapezoid(values, t[::40]) == pytest.approx(np.exp(log_mass(piece, half)), rel=1e-6)


@pytest.mark.parametrize("half", [1e-9, 0.3, 7.0])
@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("right", [True, False])
def test_a_draw_inverts_the_exact_cdf(slope, half, right):
    # One side alone: the other is so steep that it has no mass.
    piece = envelope(1e300, slope) if right else envelope(-slope, -1e300)
    uniforms = np.stack([np.full(len(UNIFORMS), 0.5), UNIFORMS], axis=1)
    t = np.array([draw(piece, np.array([half]), u[None])[0] for u in uniforms])
    distance = t if right else -t
    assert np.all((distance >= 0) & (distance <= half))
    total = side_mass(slope, half)
    with mpmath.workdps(60):
        at = [float(side_mass(slope, d) / total) for d in distance]
    # A rounding of the distance by 1 ulp moves the CDF by the density times that.
    reach = 4e-16 * (2.0 + abs(slope) * half)
    assert np.max(np.abs(np.array(at) - UNIFORMS)) < reach


@pytest.mark.parametrize("slope", [1e-9, -1e-9, 3e-8])
def test_nearly_flat_pieces_are_not_taken_for_flat(slope):
    # The share beyond the middle differs from one half by slope / 8: seen in exact arithmetic only.
    piece = envelope(1e300, slope)
    (middle,) = draw(piece, np.array([1.0]), np.array([[0.5, 0.5]]))
    assert middle - 0.5 == pytest.approx(slope / 8, rel=1e-6)


def test_the_sides_are_chosen_by_their_masses():
    low, high, half = -2.0, 1.5, np.array([0.8])
    left, right = float(side_mass(2.0, 0.8)), float(side_mass(1.5, 0.8))
    edge = right / (left + right)
    for u, sign in ((edge * (1 - 1e-12), 1), (edge * (1 + 1e-12), -1)):
        (t,) = draw(envelope(low, high), half, np.array([[u, 0.5]]))
        assert np.sign(t) == sign


def test_coordinates_are_drawn_apart():
    piece = Envelope(0.0, np.array([-1.0, 2.0]), np.array([0.5, -3.0]))
    half = np.array([1.0, 2.0])
    uniforms = np.random.default_rng(5).random((2, 2))
    both = draw(piece, half, uniforms)
    for k in range(2):
        alone = draw(envelope(piece.low[k], piece.high[k]), half[k : k + 1], uniforms[k : k + 1])
        assert both[k] == alone[0]
    assert log_mass(piece, half) == pytest.approx(
        sum(log_mass(envelope(piece.low[k], piece.high[k]), half[k : k + 1]) for k in range(2))
    )


def law(low: float, high: float, half: float):
    """CDF of t."""
    left, right = float(side_mass(-low, half)), float(side_mass(high, half))

    def cdf(t: np.ndarray) -> np.ndarray:
        below = (np.expm1(-low * half) - np.expm1(-low * np.maximum(-t, 0.0))) / -low
        above = np.expm1(high * np.maximum(t, 0.0)) / high
        return (below + above) / (left + right)

    return cdf


def test_draws_follow_the_piece():
    rng = np.random.default_rng(8)
    piece, half = envelope(-3.0, 1.2), np.array([1.5])
    t = [draw(piece, half, rng.random((1, 2)))[0] for _ in range(20_000)]
    verdict = cdf_envelope(np.array(t), law(-3.0, 1.2, 1.5))
    assert verdict.passes
    assert verdict.detects < 0.04


def test_a_slope_of_the_wrong_sign_is_caught(monkeypatch):
    rng = np.random.default_rng(8)
    true = piecewise._inverse
    monkeypatch.setattr(piecewise, "_inverse", lambda slope, half, u: true(-slope, half, u))
    piece, half = envelope(-3.0, 1.2), np.array([1.5])
    t = [draw(piece, half, rng.random((1, 2)))[0] for _ in range(5_000)]
    assert cdf_envelope(np.array(t), law(-3.0, 1.2, 1.5)).fails_on_any_seed


@given(
    low=st.floats(-1e6, 1e6),
    high=st.floats(-1e6, 1e6),
    half=st.floats(1e-12, 1e3),
    u=st.floats(2.0**-53, 1 - 2.0**-53),
    v=st.floats(2.0**-53, 1 - 2.0**-53),
)
def test_nothing_overflows_and_draws_stay_in_the_cell(low, high, half, u, v):
    piece, widths = envelope(low, high), np.array([half])
    assert np.isfinite(log_mass(piece, widths))
    (t,) = draw(piece, widths, np.array([[u, v]]))
    assert abs(t) <= half
    assert np.isfinite(height(piece, np.array([t])))


@pytest.mark.parametrize("constant", [np.inf, -np.inf])
def test_a_constant_without_end_has_a_mass_without_end(constant):
    assert log_mass(envelope(0.0, 0.0, constant), np.array([1.0])) == constant
