"""The proximal sampler: each step against quadrature, its contraction, and its draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special, stats

from pymc_private.privacy import proximal_steps
from pymc_private.samplers import proximal
from pymc_private.samplers.proximal import (
    FastAcceptance,
    FastSums,
    ProximalSchedule,
    WhitenedPosterior,
    sample_proximal,
    step_size,
)
from pymc_private.samplers.proximal_likelihoods import (
    ExponentialCurve,
    GeneralCurve,
    LogisticCurve,
    QuadraticCurve,
)
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import cdf_envelope

RNG = np.random.default_rng(4)
ROWS = RNG.uniform(-2, 2, (30, 1))
BINARY = (RNG.random(30) < special.expit(1.5 * ROWS[:, 0])).astype(float)
COUNTS = RNG.poisson(np.exp(0.5 * ROWS[:, 0])).astype(float)
REALS = 0.7 * ROWS[:, 0] + RNG.normal(size=30)


def log_logistic(u, y):
    return y * u - np.logaddexp(0.0, u)


def log_poisson(u, y):
    return y * u - np.exp(u)


def log_quadratic(u, y):
    return -0.5 * (u - y) ** 2


def log_median(u, y):
    return -2.0 * np.abs(u - y)


def median(y, weight):
    """Laplace errors: a kink at each record."""
    return GeneralCurve(
        lambda u: weight * log_median(u, y[:, None]),
        lambda u: -2.0 * weight * np.sign(u - y[:, None]),
    )


CURVES = {
    "logistic": (LogisticCurve, log_logistic, BINARY, 0.25),
    "Poisson": (ExponentialCurve, log_poisson, COUNTS, math.exp(1.0)),
    "linear": (QuadraticCurve, log_quadratic, REALS, 1.0),
    "median": (median, log_median, REALS, 1.0),  # any curvature will do: it sets the cost alone
}
WALLS = {"line": (-math.inf, math.inf), "box": (-0.6, 0.3), "half": (0.2, math.inf)}
WEIGHT = 0.4
# e^u bends without bound: counts have a box.
KINKS = 0.02
"""Steps for 30 kinks: a trial of a longer one hardly ever succeeds."""
PAIRS = [(n, w) for n in CURVES for w in WALLS if n != "Poisson" or w == "box"]


def structure(name, wall="line", rows=ROWS):
    curve, _, y, beta = CURVES[name]
    d = rows.shape[1]
    low, high = WALLS[wall]
    return WhitenedPosterior(
        rows,
        np.zeros(len(rows)),
        curve(y, WEIGHT),
        WEIGHT * beta,
        np.full(d, low),
        np.full(d, high),
    )


def grid_of(wall):
    low, high = (np.clip(end, -5, 5) for end in WALLS[wall])
    edges = np.linspace(low, high, 2001)
    return (edges[1:] + edges[:-1]) / 2, edges


def log_density(name, x):
    _, h, y, _ = CURVES[name]
    return WEIGHT * h(ROWS[:, 0] * x[:, None], y).sum(axis=1) - x**2 / 2


def normalized(logs):
    weight = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return weight / weight.sum(axis=-1, keepdims=True)


def kernel(name, wall, eta):
    """The ideal iteration on a grid: from x to the law of x', without a sampler."""
    x, _ = grid_of(wall)
    wide = 6 * math.sqrt(eta)
    y = np.arange(x[0] - wide, x[-1] + wide, math.sqrt(eta) / 12)
    forward = normalized(-((x[:, None] - y) ** 2) / (2 * eta))
    back = normalized(log_density(name, x) - (x - y[:, None]) ** 2 / (2 * eta))
    return forward @ back


def cdf_of(edges, weight):
    return lambda at: np.interp(at, edges, np.append(0.0, np.cumsum(weight)))


@pytest.mark.thin(12)
@pytest.mark.parametrize(("name", "wall"), PAIRS)
@pytest.mark.parametrize("eta", [0.02, 0.5])
def test_a_step_is_the_ideal_one(name, wall, eta):
    # Exact at any eta and from any start, however unlikely.
    s, (x, edges) = structure(name, wall), grid_of(wall)
    eta = min(eta, KINKS) if name == "median" else eta
    start = x[400]
    z = proximal.ProximalKernel(s, eta).step(
        np.full((4000, 1), start), SeededRandomness.from_seed(5)
    )
    law = kernel(name, wall, eta)[400]
    assert cdf_envelope(z[:, 0], cdf_of(edges, law)).passes


@pytest.mark.parametrize(
    "fault",
    ["remainder", "sums", "eta", "walls"],
    ids=["too many accepted", "the same by sums", "too little noise", "walls ignored"],
)
def test_a_step_with_a_fault_is_caught(fault, monkeypatch):
    eta, wall = 0.5, "box" if fault == "walls" else "line"
    s, (_, edges) = structure("logistic", wall), grid_of(wall)
    if fault == "remainder":
        monkeypatch.setattr(LogisticCurve, "remainder", lambda self, u, du: np.zeros_like(du))
        monkeypatch.setattr(FastSums, "of", lambda *_: None)
    if fault == "sums":
        right = FastAcceptance.decide
        monkeypatch.setattr(
            FastAcceptance, "decide", lambda c, k, by, limit: right(c, k, by, limit + 9.0)
        )
    engine = proximal.ProximalKernel(s, 0.2 if fault == "eta" else eta)
    if fault == "walls":
        monkeypatch.setattr(
            proximal, "truncated_normal_quantile",
            lambda u, low, high: np.clip(special.ndtri(u), low, high),
        )  # fmt: skip
    start = grid_of(wall)[0][400]
    z = engine.step(np.full((4000, 1), start), SeededRandomness.from_seed(5))
    assert not cdf_envelope(z[:, 0], cdf_of(edges, kernel("logistic", wall, eta)[400])).passes


@pytest.mark.thin(8)
@pytest.mark.parametrize(("name", "wall"), PAIRS)
def test_the_divergence_contracts_as_promised(name, wall):
    eta = 0.05
    x, _ = grid_of(wall)
    target, move = normalized(log_density(name, x)), kernel(name, wall, eta)
    law = normalized(-(x**2) / 2)  # the prior on the box

    def divergence(p):
        return float(np.sum(special.rel_entr(p, target)))

    start = divergence(law)
    for k in range(1, 9):
        law = law @ move
        assert divergence(law) <= start * (1 + eta) ** (-2 * k) * (1 + 1e-6) + 1e-9


@pytest.mark.thin(8)
@pytest.mark.parametrize(("name", "wall"), PAIRS)
def test_draws_follow_the_posterior(name, wall):
    s, (x, edges) = structure(name, wall), grid_of(wall)
    eta, t = (KINKS, 1e-3) if name == "median" else (step_size(20.0), 1e-6)
    steps = proximal_steps(10.0, t, eta)
    z = sample_proximal(s, ProximalSchedule(eta, steps, t), 1500, SeededRandomness.from_seed(6))
    assert cdf_envelope(z[:, 0], cdf_of(edges, normalized(log_density(name, x)))).passes


def test_too_few_steps_are_caught():
    s, (x, edges) = structure("logistic"), grid_of("line")
    z = sample_proximal(s, ProximalSchedule(0.05, 1, 0.0), 1500, SeededRandomness.from_seed(6))
    law = normalized(log_density("logistic", x))
    assert not cdf_envelope(z[:, 0], cdf_of(edges, law)).passes


def test_linear_models_in_many_dimensions_have_their_normal_posterior():
    d = 12
    rows = RNG.normal(size=(40, d)) / 5
    y = rows @ RNG.normal(size=d)
    wall = np.full(d, math.inf)
    s = WhitenedPosterior(rows, np.zeros(40), QuadraticCurve(y, 1.0), 1.0, -wall, wall)
    eta = step_size(float((rows**2).sum()))
    schedule = ProximalSchedule(eta, proximal_steps(1e3, 1e-4, eta), 1e-4)
    z = sample_proximal(s, schedule, 500, SeededRandomness.from_seed(8))
    cov = np.linalg.inv(np.eye(d) + rows.T @ rows)
    mean = cov @ rows.T @ y
    white = np.linalg.solve(np.linalg.cholesky(cov), (z - mean).T)
    for direction in (np.eye(d)[0], np.ones(d) / math.sqrt(d), np.sign(np.sin(np.arange(d) + 1))):
        at = direction @ white / np.linalg.norm(direction)
        assert cdf_envelope(at, stats.norm.cdf).passes
    assert cdf_envelope((white**2).sum(axis=0), stats.chi2(d).cdf).passes
    # Neighbors in the list of draws are independent: chains share nothing.
    lag = white[0, 1:] * white[0, :-1]
    assert abs(lag.mean()) < 6 / math.sqrt(len(lag))


def test_a_box_in_several_dimensions():
    # Independent coordinates: each marginal is a one-dimensional posterior.
    rows = np.kron(np.eye(3), ROWS)
    y = np.tile(BINARY, 3)
    s = WhitenedPosterior(
        rows,
        np.zeros(90),
        LogisticCurve(y, WEIGHT),
        WEIGHT * 0.25,
        np.full(3, -0.6),
        np.full(3, 0.3),
    )
    eta = step_size(5.0)
    z = sample_proximal(s, ProximalSchedule(eta, 60, 0.0), 1000, SeededRandomness.from_seed(8))
    x, edges = grid_of("box")
    law = cdf_of(edges, normalized(log_density("logistic", x)))
    for k in range(3):
        assert cdf_envelope(z[:, k], law).passes


def test_no_records_give_the_prior():
    s = WhitenedPosterior(
        np.empty((0, 2)), np.empty(0), LogisticCurve(np.empty(0), 1.0), 0.25,
        np.full(2, -math.inf), np.full(2, math.inf),
    )  # fmt: skip
    z = sample_proximal(s, ProximalSchedule(1.0, 5, 0.0), 1500, SeededRandomness.from_seed(3))
    assert cdf_envelope(z[:, 1], stats.norm.cdf).passes


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_extreme_scales_and_separable_data_end(scale):
    rows = np.array([[-1.0], [-0.5], [0.5], [1.0]]) * scale
    s = WhitenedPosterior(
        rows, np.zeros(4), LogisticCurve(np.array([0.0, 0, 1, 1]), 1.0), 0.25,
        np.array([-math.inf]), np.array([math.inf]),
    )  # fmt: skip
    eta = min(step_size(float((rows**2).sum()) / 4), 1.0)
    z = sample_proximal(s, ProximalSchedule(eta, 3, 0.0), 5, SeededRandomness.from_seed(3))
    assert np.isfinite(z).all()


@pytest.mark.parametrize("name", CURVES)
def test_bends_are_the_rest_of_the_tangent(name):
    curve, h, y, _ = CURVES[name]
    made = curve(y[:1], WEIGHT)
    for u in (-3.0, 0.0, 2.0):
        for du in (-4.0, -1e-2, 1e-2, 4.0):
            at, by = np.array([[u]]), np.array([[du]])
            rest = WEIGHT * (h(u, y[0]) - h(u + du, y[0])) + made.slope(at) * du
            assert made.remainder(at, by) == pytest.approx(rest[0, 0], rel=1e-6, abs=1e-12)


def test_bends_keep_their_digits_where_sums_would_lose_them():
    made = LogisticCurve(np.array([1.0]), 1.0)
    exact = 0.125e-12  # h'' / 2 du^2 at u = 0
    assert made.remainder(np.zeros((1, 1)), np.full((1, 1), 1e-6)) == pytest.approx(exact, rel=1e-3)
    far = made.remainder(np.full((1, 1), 800.0), np.full((1, 1), 700.0))
    assert 0.0 <= far[0, 0] < 1e-300


def test_a_general_curve_is_the_special_one():
    special_one = LogisticCurve(BINARY, WEIGHT)
    y = BINARY[:, None]
    general = GeneralCurve(
        lambda u: WEIGHT * log_logistic(u, y), lambda u: WEIGHT * (y - special.expit(u))
    )
    u, du = RNG.normal(size=(30, 4)), RNG.normal(size=(30, 4))
    assert np.allclose(general.slope(u), special_one.slope(u))
    assert np.allclose(general.remainder(u, du), special_one.remainder(u, du), atol=1e-14)
