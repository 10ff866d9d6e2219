"""One step: every float within its bound of 200 bits, every decision that of the balls."""

from __future__ import annotations

import numpy as np
import pytest
from flint import ctx

from pymc_private.samplers.randomness import SeededRandomness, round_unbounded
from pymc_private.samplers.verified.arithmetic import BoundedFloats
from pymc_private.samplers.verified.kernel import (
    ChainState,
    ExactPoints,
    VerifiedKernel,
    draw_prior_points,
)
from tests.samplers.verified.problems import KINDS, SHAPES, WALLS, posterior, ratios

OMEGA = 1e-12


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_floats_are_within_their_bounds(kind, shape):
    if (kind, shape) == ("Poisson", "huge"):
        pytest.skip("rates of e^1e8: no public number of steps")
    assert ratios(kind, shape).worst <= 1.0
    assert ratios(kind, shape, low=1e-6, separable=True, seed=3).worst <= 1.0


@pytest.mark.thin(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wall", sorted(set(WALLS) - {"line"}))
def test_floats_are_within_their_bounds_between_walls(kind, wall):
    for shape in ("plain", "one parameter", "none"):
        assert ratios(kind, shape, wall=wall).worst <= 1.0
        assert ratios(kind, shape, wall=wall, low=1e-6, seed=3).worst <= 1.0


@pytest.mark.audit
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s != "huge"])
@pytest.mark.parametrize("wall", WALLS)
def test_floats_are_within_their_bounds_for_many_posteriors(kind, shape, wall):
    for seed in range(30):
        low, separable = [0.0, 1e-14, 1e-7, 1e-4][seed % 4], seed % 2 > 0
        found = ratios(kind, shape, wall=wall, low=low, seed=seed, separable=separable)
        assert found.worst <= 1.0


def _hundredth(name):
    """A bound divided by a hundred."""

    def tamper(kernel):
        original = getattr(kernel, name)

        def divided(*args):
            found = original(*args)
            if name != "_prepare":
                return found[0], found[1] / 100.0
            found.slope = BoundedFloats(found.slope.value, found.slope.error / 100.0)
            return found

        setattr(kernel, name, divided)

    return tamper


def _without_slopes(kernel):
    """The log acceptance does not hear how far its proposal is off."""
    original = kernel._gap
    kernel._gap = lambda now, left, delta, moved, coins: original(
        now, left, delta, 0.0 * moved, coins
    )


def _single(kernel):
    """Rows in single precision."""
    kernel.posterior.__dict__["rows"] = kernel.posterior.rows.astype(np.float32).astype(float)


@pytest.mark.parametrize(
    ("tamper", "low"),
    [
        (_hundredth("_prepare"), 1e-6),
        (_hundredth("_propose"), 1e-6),
        (_hundredth("_gap"), 1e-6),
        (_without_slopes, 1e-6),
        (_single, 0.0),
    ],
)
def test_bounds_with_a_fault_are_caught(tamper, low):
    assert ratios("linear", "one parameter", low=low, tamper=tamper).worst > 1.0
    assert ratios("linear", "one parameter", low=low).worst <= 1.0


def stepped(loose, kind="logistic", chains=40, seed=2):
    """A step of many chains, and how many were decided by balls, at bounds `loose` times theirs."""
    records, structure, eta = posterior(kind, 12, 2, 0.7, seed=5)
    kernel, asked = VerifiedKernel(records, structure, eta), []
    original = kernel._gap
    kernel._gap = lambda *args: (lambda g, m: (g, m * loose))(*original(*args))
    exactly = kernel._exactly
    kernel._exactly = lambda *args: asked.append(args[1]) or exactly(*args)
    state = ChainState(np.full((chains, 2), 0.3), np.zeros((chains, 2)))
    return kernel.step(state, SeededRandomness.from_seed(seed)), asked


@pytest.mark.parametrize("kind", KINDS)
def test_balls_decide_as_floats_do(kind, monkeypatch):
    # The same words: what balls need beyond them comes from elsewhere.
    floats, asked = stepped(1.0, kind)
    assert not asked
    below = SeededRandomness.from_seed(9).below
    monkeypatch.setattr(SeededRandomness, "below", lambda self, end: below(end))
    balls, asked = stepped(1e15, kind)
    assert len(asked) >= 40
    np.testing.assert_allclose(balls.value, floats.value, rtol=0, atol=1e-13)
    with ctx.workprec(256):
        for k in range(40):
            point = balls.exact(k)(256)
            far = sum(float(p - float(v)) ** 2 for p, v in zip(point, balls.value[k], strict=True))
            assert far**0.5 <= balls.error[k]


def test_states_are_within_omega_of_the_points():
    points, _ = stepped(1.0)
    wild = ExactPoints(points.value + 1e-3, np.full(40, 2e-3), points.exact)  # balls bring it back
    state = wild.rounded(OMEGA)
    plain = points.rounded(OMEGA)
    np.testing.assert_array_equal(plain.low, 0.0)
    np.testing.assert_array_equal(plain.high, points.value)
    with ctx.workprec(256):
        for s in (state, plain):
            for k in range(40):
                balls = points.exact(k)(256)
                left = [float(b - float(h) - float(w))
                        for b, h, w in zip(balls, s.high[k], s.low[k], strict=True)]  # fmt: skip
                assert np.linalg.norm(left) <= OMEGA


def test_far_out_a_state_is_two_doubles():
    records, _, _ = posterior("linear", 3, 2, 1.0)
    points = draw_prior_points(records, 5, SeededRandomness.from_seed(1))
    state = ExactPoints(points.value, np.full(5, np.inf), points.exact).rounded(1e-25)
    assert np.any(state.low != 0.0)
    assert np.all(np.abs(state.low) <= 2.0**-53 * np.abs(state.high))


def test_what_leaves_is_what_the_point_says():
    """Where floats leave a cell open the point's own bits say which."""
    points, _ = stepped(1.0)
    records, _, _ = posterior("logistic", 12, 2, 0.7, seed=5)

    def coarse(values):
        return np.round(values * 8.0) / 8.0

    found = points.published(records, coarse)
    wide = ExactPoints(points.value, np.full(40, 1.0), points.exact)
    np.testing.assert_array_equal(wide.published(records, coarse), found)
    np.testing.assert_array_equal(found, coarse(records.center + records.scale * points.value))
    fine = points.published(records, lambda v: round_unbounded(v, records.scale))
    np.testing.assert_allclose(fine, found, atol=0.07)


def test_overflow_is_left_to_balls():
    """Floats that are no numbers decide nothing."""
    with np.errstate(all="ignore"):
        records, structure, _ = posterior("linear", 5, 2, 1e160, weight=1e-3)
        kernel = VerifiedKernel(records, structure, 1.0)
        state = ChainState(np.ones((2, 2)), np.zeros((2, 2)))
        now = kernel._prepare(state, SeededRandomness.from_seed(1))
        gap, margin = kernel._gap(
            now, np.arange(2), np.full((2, 2), 1e160), np.ones(2), np.ones(2, np.uint64)
        )
    assert not np.any(np.abs(gap) > margin)
