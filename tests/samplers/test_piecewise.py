"""Masses, draws and heights of exponential pieces, against arithmetic of 60 digits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from pymc_private.samplers import envelope_pieces
from pymc_private.samplers.envelope_pieces import (
    Envelopes,
    draw_from_envelopes,
    envelope_height,
    keeps_curvature,
    log_mass,
)
from tests.statistics import cdf_envelope

SLOPES = [0.0, 1e-300, 1e-12, -1e-12, 1e-8, -3e-8, 1e-3, -1e-3, 1.0, -1.0, 50.0, -50.0, 1e5, -1e5]
UNIFORMS = np.concatenate([[2.0**-53, 1e-9], np.linspace(0.001, 0.999, 41), [1.0 - 2.0**-53]])


def side_mass(slope: float, half: float) -> mpmath.mpf:
    """Integral of e^{slope t} over [0, half]."""
    with mpmath.workdps(60):
        s, h = mpmath.mpf(slope), mpmath.mpf(half)
        return h if s == 0 else mpmath.expm1(s * h) / s


def envelope(
    low, high, constant: float = 0.0, half=1.0, curve=0.0, back=None, matrix=None
) -> Envelopes:
    """One envelope of one box: a product, or with a matrix a normal density."""
    low, high, half = (np.atleast_1d(np.asarray(x, float)) for x in (low, high, half))
    back = half if back is None else np.atleast_1d(np.asarray(back, float))
    d, normal = len(low), matrix is not None
    bend = np.broadcast_to(np.asarray(curve, float), (d,))
    matrix = np.zeros((d, d)) if matrix is None else np.asarray(matrix, float)
    return Envelopes(
        *(x[None] for x in (np.broadcast_to(back, d), np.broadcast_to(half, d))),
        np.array([constant]), low[None], high[None], bend[None], matrix[None], np.array([normal]),
    )  # fmt: skip


def draw_one(piece: Envelopes, uniforms: np.ndarray) -> np.ndarray:
    """t of one envelope from its uniforms, shape (d, 2)."""
    return draw_from_envelopes(piece, uniforms[None], np.zeros((1, len(uniforms))))[0]


@pytest.mark.thin(6)
@pytest.mark.parametrize("half", [1e-9, 0.3, 7.0])
@pytest.mark.parametrize("high", SLOPES)
@pytest.mark.parametrize("low", SLOPES)
def test_the_mass_is_the_integral(low, high, half):
    with mpmath.workdps(60):
        exact = float(mpmath.log(side_mass(-low, half) + side_mass(high, half)))
    (found,) = log_mass(envelope(low, high, 3.5, half))
    assert found == pytest.approx(exact + 3.5, rel=1e-14, abs=1e-13)


def test_the_mass_agrees_with_numerical_integration_of_the_height():
    piece = envelope(-1.5, 0.7, 0.2, 2.0)
    t = np.linspace(-2.0, 2.0, 10_001)
    values = np.exp(envelope_height(piece.take(np.zeros(len(t), int)), t[:, None]))
    assert np.trapezoid(values, t) == pytest.approx(np.exp(log_mass(piece)[0]), rel=1e-6)


def bend_mass(slope, curve, back, ahead) -> mpmath.mpf:
    """Integral of e^(slope t + curve t^2 / 2) over [-back, ahead], in 60 digits."""
    with mpmath.workdps(60):
        g, c, a, b = (mpmath.mpf(float(x)) for x in (slope, curve, back, ahead))
        sd, peak = 1 / mpmath.sqrt(-c), -g / c
        ends = [(x - peak) / sd / mpmath.sqrt(2) for x in (-a, b)]
        flip = ends[0] + ends[1] > 0
        tails = [mpmath.erfc(e if flip else -e) for e in ends]
        mass = abs(tails[0] - tails[1]) / 2
        return mass * sd * mpmath.sqrt(2 * mpmath.pi) * mpmath.exp(-g * g / c / 2)


@settings(max_examples=200)
@given(
    slope=st.floats(-1e4, 1e4),
    curve=st.floats(-1e6, -1e-6),
    back=st.floats(0.0, 10.0),
    ahead=st.floats(1e-6, 10.0),
    u=st.floats(2.0**-50, 1 - 2.0**-50),
)
def test_the_mass_and_the_draw_of_a_bend_are_exact(slope, curve, back, ahead, u):
    g, c, a, b = (np.array([[x]]) for x in (slope, curve, back, ahead))
    if not keeps_curvature(g, c, a, b)[0, 0]:
        return
    piece = envelope(slope, slope, 0.0, ahead, curve, back)
    exact = bend_mass(slope, curve, back, ahead)
    assert log_mass(piece)[0] == pytest.approx(float(mpmath.log(exact)), rel=1e-12, abs=1e-11)
    (t,) = draw_one(piece, np.array([[0.5, u]]))
    assert -back <= t <= ahead
    if -back < t < ahead:
        at = bend_mass(slope, curve, back, t) / exact
        assert float(at) == pytest.approx(u, abs=1e-9)


def test_a_bend_is_left_out_upward():
    # Without it the envelope is higher: slope t + curve t^2 / 2 <= slope t.
    rng = np.random.default_rng(4)
    for _ in range(50):
        slope, curve, back, ahead = rng.normal(0, 30), -(10 ** rng.uniform(-8, 6)), *rng.random(2)
        if bend_mass(slope, curve, back, ahead) > 0:
            flat = log_mass(envelope(slope, slope, 0.0, ahead, 0.0, back))[0]
            assert float(mpmath.log(bend_mass(slope, curve, back, ahead))) <= flat + 1e-12


def test_a_normal_density_has_the_mass_of_the_whole_space_and_its_own_law():
    rng = np.random.default_rng(5)
    root = rng.normal(size=(3, 3))
    precision, slope = root @ root.T + np.eye(3), np.array([0.4, -1.0, 0.3])
    piece = envelope(slope, slope, -2.0, [1.0, 1.0, 1.0], 0.0, None, -precision)
    peak = np.linalg.solve(precision, slope)
    exact = -2.0 + slope @ peak / 2 + 1.5 * np.log(2 * np.pi)
    assert log_mass(piece)[0] == pytest.approx(exact - np.linalg.slogdet(precision)[1] / 2)
    t = rng.normal(size=(5, 3))
    values = -2.0 + t @ slope - np.einsum("ni,ij,nj->n", t, precision, t) / 2
    assert envelope_height(piece.take(np.zeros(5, int)), t) == pytest.approx(values)
    many = piece.take(np.zeros(20_000, int))
    found = draw_from_envelopes(many, rng.random((20_000, 3, 2)), rng.normal(size=(20_000, 3)))
    turned = (found - peak) @ np.linalg.cholesky(precision)
    for k in range(3):
        assert cdf_envelope(turned[:, k], ndtr).passes
    assert np.abs(np.cov(turned.T) - np.eye(3)).max() < 0.06  # 8 standard errors


@pytest.mark.thin(4)
@pytest.mark.parametrize("half", [1e-9, 0.3, 7.0])
@pytest.mark.parametrize("slope", SLOPES)
@pytest.mark.parametrize("right", [True, False])
def test_a_draw_inverts_the_exact_cdf(slope, half, right):
    # One side alone: the other is so steep that it has no mass.
    low, high = (1e300, slope) if right else (-slope, -1e300)
    piece = envelope(low, high, half=half)
    uniforms = np.stack([np.full(len(UNIFORMS), 0.5), UNIFORMS], axis=1)
    t = np.array([draw_one(piece, u[None])[0] for u in uniforms])
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
    (middle,) = draw_one(piece, np.array([[0.5, 0.5]]))
    assert middle - 0.5 == pytest.approx(slope / 8, rel=1e-6)


def test_the_sides_are_chosen_by_their_masses():
    low, high, half = -2.0, 1.5, 0.8
    left, right = float(side_mass(2.0, 0.8)), float(side_mass(1.5, 0.8))
    edge = right / (left + right)
    for u, sign in ((edge * (1 - 1e-12), 1), (edge * (1 + 1e-12), -1)):
        (t,) = draw_one(envelope(low, high, half=half), np.array([[u, 0.5]]))
        assert np.sign(t) == sign


def test_coordinates_are_drawn_apart():
    low, high, half = np.array([-1.0, 2.0]), np.array([0.5, -3.0]), np.array([1.0, 2.0])
    piece = envelope(low, high, half=half)
    uniforms = np.random.default_rng(5).random((2, 2))
    both = draw_one(piece, uniforms)
    parts = [envelope(low[k], high[k], half=half[k]) for k in range(2)]
    for k in range(2):
        assert both[k] == draw_one(parts[k], uniforms[k : k + 1])[0]
    assert log_mass(piece)[0] == pytest.approx(sum(log_mass(part)[0] for part in parts))


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
    piece = envelope(-3.0, 1.2, half=1.5).take(np.zeros(20_000, int))
    t = draw_from_envelopes(piece, rng.random((20_000, 1, 2)), np.zeros((20_000, 1)))[:, 0]
    verdict = cdf_envelope(np.array(t), law(-3.0, 1.2, 1.5))
    assert verdict.passes
    assert verdict.detects < 0.04


def test_a_slope_of_the_wrong_sign_is_caught(monkeypatch):
    rng = np.random.default_rng(8)
    true = envelope_pieces._exponential_quantile
    monkeypatch.setattr(
        envelope_pieces, "_exponential_quantile", lambda slope, half, u: true(-slope, half, u)
    )
    piece = envelope(-3.0, 1.2, half=1.5).take(np.zeros(5_000, int))
    t = draw_from_envelopes(piece, rng.random((5_000, 1, 2)), np.zeros((5_000, 1)))[:, 0]
    assert cdf_envelope(np.array(t), law(-3.0, 1.2, 1.5)).fails_on_any_seed


@given(
    low=st.floats(-1e6, 1e6),
    high=st.floats(-1e6, 1e6),
    half=st.floats(1e-12, 1e3),
    u=st.floats(2.0**-53, 1 - 2.0**-53),
    v=st.floats(2.0**-53, 1 - 2.0**-53),
)
def test_nothing_overflows_and_draws_stay_in_the_cell(low, high, half, u, v):
    piece = envelope(low, high, half=half)
    assert np.isfinite(log_mass(piece)[0])
    t = draw_one(piece, np.array([[u, v]]))
    assert abs(t[0]) <= half
    assert np.isfinite(envelope_height(piece, t[None])[0])


@pytest.mark.parametrize("constant", [np.inf, -np.inf])
def test_a_constant_without_end_has_a_mass_without_end(constant):
    assert log_mass(envelope(0.0, 0.0, constant))[0] == constant
