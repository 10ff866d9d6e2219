"""The law of the draws: rounding costs what it should, and the draws follow the posterior."""

from __future__ import annotations

import math

import numpy as np
import pytest
from flint import arb, ctx
from scipy import special

from pymc_private.errors import Unsupported
from pymc_private.privacy import proximal_steps
from pymc_private.samplers.proximal import ProximalSchedule
from pymc_private.samplers.randomness import SeededRandomness, round_unbounded
from pymc_private.samplers.verified.admission import (
    FARTHEST_MEAN,
    LARGEST_TV,
    ROUNDING_SHARE,
    check_box,
    rounding_cost,
)
from pymc_private.samplers.verified.kernel import (
    ChainState,
    ExactPoints,
    VerifiedKernel,
    sample_verified,
)
from tests.samplers.verified.problems import KINDS, WALLS, posterior
from tests.statistics import cdf_envelope

X = np.linspace(-7, 7, 1201)
PAIRS = [(kind, wall) for kind in KINDS for wall in ("line", "box", "half", "far")]


@pytest.mark.parametrize("eta", [1e-3, 0.3, 5.0])
@pytest.mark.parametrize("omega", [1e-6, 1e-2, 1.0])
def test_noise_hides_a_shift(eta, omega):
    """TV(N(0, eta), N(omega, eta)) <= omega / sqrt(2 pi eta), and nearly so for a small omega."""
    exact = special.erf(omega / math.sqrt(8.0 * eta))  # 2 Phi(omega / 2 sqrt(eta)) - 1
    bound = omega / math.sqrt(2 * math.pi * eta)
    assert exact <= bound
    if omega < 0.1 * math.sqrt(eta):
        assert exact >= 0.99 * bound


def log_density(kind, records, x=X):
    u = records.rows[:, 0] * x[:, None] + records.whitened_offset
    y, w = records.curve.y, records.curve.weight
    h = {
        "logistic": lambda: y * u - np.logaddexp(0, u),
        "linear": lambda: -0.5 * (u - y) ** 2,
        "Poisson": lambda: y * u - np.exp(u),
    }[kind]()
    return w * h.sum(axis=1) - x**2 / 2


def normalized(logs):
    weight = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("kind", KINDS)
def test_rounding_costs_what_is_charged(kind):
    """By quadrature: every state shifted by omega, the worst rounding there is to one side."""
    records, _, _ = posterior(kind, 12, 1, 0.7, plain=True)
    eta, width, steps = 0.2, X[1] - X[0], 5
    logs = log_density(kind, records)
    forward = normalized(-((X[:, None] - X) ** 2) / (2 * eta))
    move = forward @ normalized(logs - (X - X[:, None]) ** 2 / (2 * eta))
    ideal = shifted = normalized(-(X**2) / 2)
    for _ in range(steps):
        ideal = ideal @ move
        shifted = np.roll(shifted, 1) @ move  # by omega = one point of the grid
    lost = 0.5 * np.abs(ideal - shifted).sum()
    charged = steps * width / math.sqrt(2 * math.pi * eta)
    assert charged / 20 < lost <= charged


def drawn(kind, draws=1200, wall="line", **changes):
    records, structure, eta = posterior(kind, 12, 1, 0.7, plain=True, weight=1.0, wall=wall)
    schedule = ProximalSchedule(eta, proximal_steps(20.0, 1e-4, eta), 1e-4)
    randomness = SeededRandomness.from_seed(4)
    values = sample_verified(
        records, structure, schedule, changes.get("omega", 1e-11), draws, randomness,
        lambda v: round_unbounded(v, records.scale),
    )  # fmt: skip
    edges = np.linspace(*np.clip(WALLS[wall], -7, 7), 2001)
    weight = normalized(log_density(kind, records, (edges[1:] + edges[:-1]) / 2))
    return values[:, 0], lambda at: np.interp(at, edges, np.append(0.0, np.cumsum(weight)))


@pytest.mark.thin(3)
@pytest.mark.parametrize(("kind", "wall"), PAIRS)
def test_draws_follow_the_posterior(kind, wall):
    values, cdf = drawn(kind, wall=wall)
    low, high = WALLS[wall]
    assert low - 1e-9 <= values.min() <= values.max() <= high + 1e-9
    assert cdf_envelope(values, cdf).passes


@pytest.mark.thin(2)
@pytest.mark.parametrize("wall", ["line", "box"])
def test_draws_decided_by_balls_follow_it_too(wall, monkeypatch):
    """The branch that is never taken, always taken: every comparison and every state."""
    original = VerifiedKernel._gap
    monkeypatch.setattr(
        VerifiedKernel, "_gap", lambda self, *a: (lambda g, m: (g, 1e16 * m))(*original(self, *a))
    )
    values, cdf = drawn("logistic", draws=150, omega=1e-22, wall=wall)
    assert cdf_envelope(values, cdf).passes


@pytest.mark.parametrize("fault", ["rounding", "decisions"])
def test_a_fault_is_caught(fault, monkeypatch):
    if fault == "rounding":
        monkeypatch.setattr(
            ExactPoints, "rounded", lambda self, omega: ChainState(self.value + 2.0, 0 * self.value)
        )
    else:
        original = VerifiedKernel._gap
        monkeypatch.setattr(
            VerifiedKernel,
            "_gap",
            lambda self, *a: (lambda g, m: (g + 3.0, m))(*original(self, *a)),
        )
    values, cdf = drawn("linear")
    assert not cdf_envelope(values, cdf).passes


def test_no_records_give_the_prior():
    records, structure, eta = posterior("logistic", 0, 2, 1.0, plain=True)
    values = sample_verified(
        records, structure, ProximalSchedule(eta, 0, 1e-9), 1e-12, 800,
        SeededRandomness.from_seed(1), lambda v: round_unbounded(v, records.scale),
    )  # fmt: skip
    assert cdf_envelope(values[:, 0], special.ndtr).passes
    assert sample_verified(
        records,
        structure,
        ProximalSchedule(eta, 3, 1e-9),
        1e-12,
        0,
        SeededRandomness.from_seed(1),
        abs,
    ).shape == (0, 2)


def test_the_charge_is_the_theorem_and_public():
    schedule = ProximalSchedule(0.02, 332, 1e-8)
    lost = rounding_cost(schedule, 398, 31, 13.0, 51.0)
    assert lost.tv == pytest.approx(332 * lost.omega / math.sqrt(2 * math.pi * 0.02), rel=1e-8)
    assert ROUNDING_SHARE * 1e-8 <= lost.tv <= 1e-8
    assert lost.tv >= 332 * lost.omega / math.sqrt(2 * math.pi * 0.02)
    assert rounding_cost(ProximalSchedule(0.02, 0, 1e-8), 0, 31, 0.0, 0.0).tv == 0.0
    assert FARTHEST_MEAN < 51.0 < 1 / LARGEST_TV


def test_walls_beyond_the_reach_of_balls_are_refused():
    schedule, walls = ProximalSchedule(0.01, 100, 1e-8), np.array([-np.inf, 3.0])
    check_box(schedule, 1e4, walls)
    for slope, ends in ((1e7, walls), (1.0, 1e7 * np.ones(2))):
        with pytest.raises(Unsupported, match="beyond the box"):
            check_box(schedule, slope, ends)
    with ctx.workprec(128):  # up to there the tails of Arb are numbers
        tail = (arb(2.0**16 + 50) / arb(2).sqrt()).erfc()
        assert 0 < float((tail.erfcinv() * arb(2).sqrt()).rad()) < 1e-20


def test_a_charge_that_buys_nothing_is_refused():
    with pytest.raises(Unsupported, match=r"more than the draws.*\n.*100000 steps"):
        rounding_cost(ProximalSchedule(1e-9, 100_000, 1e-8), 10**7, 1000, 4e9, 1e7)
