"""Walls of the proximal sampler: trials near them, and truncated normal numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from pymc_private.samplers import proximal
from pymc_private.samplers.proximal import WhitenedPosterior, step_size
from pymc_private.samplers.proximal_likelihoods import QuadraticCurve
from pymc_private.samplers.randomness import (
    SeededRandomness,
    truncated_normal_mean,
    truncated_normal_quantile,
)

RNG = np.random.default_rng(4)


def corner(d=24):
    """Records that all lean the same way, where all walls meet: the worst for independent moves."""
    rows = np.full((50, d), 1.0 / math.sqrt(d))
    s = WhitenedPosterior(
        rows, np.zeros(50), QuadraticCurve(np.zeros(50), 1.0), 1.0, np.full(d, 0.0), np.full(d, 3.0)
    )
    return s, step_size(float((rows**2).sum()))


def chance(s, eta, y):
    """How likely a trial of the inner draw at y is to succeed."""
    engine = proximal.ProximalKernel(s, eta)
    center, u, slope = engine.descend(np.tile(y, (400, 1)))
    delta = engine._propose(center, slope, SeededRandomness.from_seed(4))
    return float(np.exp(-s.curve.remainder(u, s.rows @ delta.T).sum(axis=0)).mean())


def test_walls_cost_no_more_trials_than_there_are_without(monkeypatch):
    s, eta = corner()
    places = [np.full(24, at) for at in (-3.0, -0.1, 0.0, 0.1, 0.3, 1.5, 3.0, 4.0)]
    places += list(RNG.uniform(-0.5, 3.5, (8, 24)))
    floor = math.exp(-0.5 * proximal.SMOOTH_COST - proximal.NEAR_NATS)
    assert min(chance(s, eta, y) for y in places) >= floor
    # Proposals about the mode, which lies in the corner, all lean away from the walls.
    monkeypatch.setattr(proximal.ProximalKernel, "_corrected_slope", lambda self, x, slope: slope)
    assert min(chance(s, eta, y) for y in places) < floor / 3


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.0, 2.0), (3.0, math.inf), (-math.inf, -8.0), (30.0, 31.0), (-1e-3, 1e-3), (-9.0, 9.0)],
)
def test_truncated_normal_means(low, high):
    found = truncated_normal_mean(np.array([low]), np.array([high]))[0]
    x = np.linspace(max(low, -40.0), min(high, low + 40.0 if low > -math.inf else -8.0), 400_001)
    logs = -(x**2) / 2
    weight = np.exp(logs - logs.max())
    assert found == pytest.approx(float((weight * x).sum() / weight.sum()), abs=1e-4)
    assert low <= found <= high


@pytest.mark.parametrize(
    ("low", "high"),
    [(-1.0, 2.0), (3.0, math.inf), (-math.inf, -8.0), (30.0, 30.1), (-40.0, -39.0), (-1e-9, 1e-9)],
)
def test_truncated_normal_numbers(low, high):
    u = (np.arange(1000) + 0.5) / 1000
    x = truncated_normal_quantile(u, np.array(low), np.array(high))
    assert np.all((low <= x) & (x <= high))
    assert np.all(np.diff(x) > 0)
    sign = -1.0 if low > 0 else 1.0  # masses by the lower tail
    logs = special.log_ndtr(sign * np.array([low, high])[:: int(sign)])
    masses = np.exp(special.log_ndtr(sign * x) - logs[1])
    floor = math.exp(logs[0] - logs[1])
    share = (masses - floor) / (1 - floor)
    assert np.allclose(share if sign > 0 else 1 - share, u, atol=1e-5)
