"""Box draws against quadrature, with both error rates stated.

The test compares the empirical CDF of each coordinate with a CDF computed on a fine grid from a log
density written here by hand. By the Dvoretzky-Kiefer-Wolfowitz inequality (Massart 1990) it
rejects a right sampler with probability at most FALSE_ALARM per coordinate, and misses a marginal
that is off by more than ``detectable(N)`` somewhere with probability at most MISS. The seeds are
fixed; any would do.
"""

from __future__ import annotations

import math

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.samplers import rejection
from pymc_private.samplers.envelope_pieces import constant_envelopes, log_mass
from pymc_private.samplers.log_density import Target
from pymc_private.samplers.randomness import SeededRandomness
from pymc_private.samplers.rejection import CellEnvelopes

FALSE_ALARM, MISS = 1e-8, 1e-3
QUADRATURE = 2e-3
"""Error allowed to the grid."""


def halfwidth(n: int, error: float) -> float:
    """Half-width of the DKW band."""
    return math.sqrt(math.log(2.0 / error) / (2.0 * n))


def detectable(n: int) -> float:
    """Distance between CDFs that is found with probability 1 - MISS."""
    return halfwidth(n, FALSE_ALARM) + halfwidth(n, MISS) + QUADRATURE


def distance(draws: np.ndarray, grid: np.ndarray, density: np.ndarray) -> float:
    """Kolmogorov distance between draws and a density on midpoints of a uniform grid."""
    step = grid[1] - grid[0]
    edges = np.append(grid - step / 2, grid[-1] + step / 2)
    cdf = np.append(0.0, np.cumsum(density)) / density.sum()
    x = np.sort(draws)
    at = np.interp(x, edges, cdf)
    n = len(x)
    return max(np.max(np.arange(1, n + 1) / n - at), np.max(at - np.arange(n) / n))


def marginals(log_density, ends, points: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Marginal densities of each coordinate on midpoints of a product grid."""
    axes = []
    for low, high in ends:
        step = (high - low) / points
        axes.append(low + step * (np.arange(points) + 0.5))
    value = log_density(*np.meshgrid(*axes, indexing="ij"))
    weight = np.exp(value - value.max())
    found = []
    for k, axis in enumerate(axes):
        others = tuple(j for j in range(len(axes)) if j != k)
        found.append((axis, weight.sum(axis=others)))
    return found


SUCCESSES = np.array([0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0])
HEIGHTS = np.array([-1.0, 0.2, 0.4, 1.5, -0.3, 0.9, 0.1, -0.7])
FEATURE = np.array([-1.0, -0.8, -0.5, -0.3, 0.0, 0.1, 0.4, 0.6, 0.8, 1.0])
ANSWERS = np.array([0, 0, 1, 0, 0, 1, 1, 1, 1, 1])
POWER = 0.5


def bernoulli():
    """One parameter, skewed by the box."""
    with pm.Model(coords={"i": range(len(SUCCESSES))}) as model:
        p = pm.Beta("p", 2, 2)
        pm.Bernoulli("y", p=p, observed=SUCCESSES, dims="i")
    private = pmp.trim(pmp.privatize(model, records="i"), box={"p": (0.2, 0.95)})
    s, n = SUCCESSES.sum(), len(SUCCESSES)

    def log_density(p):
        return (1 + POWER * s) * np.log(p) + (1 + POWER * (n - s)) * np.log1p(-p)

    return private, log_density, [(0.2, 0.95)], 4000, 3000


def normal():
    """Two parameters, mean and scale."""
    with pm.Model(coords={"i": range(len(HEIGHTS))}) as model:
        mu = pm.Normal("mu", 0, 1)
        sigma = pm.HalfNormal("sigma", 1)
        pm.Normal("y", mu, sigma, observed=HEIGHTS, dims="i")
    private = pmp.privatize(model, records="i", domain={"y": (-2, 2)})
    private = pmp.trim(private, box={"mu": (-1.5, 1.0), "sigma": (0.3, 2.0)})

    def log_density(mu, sigma):
        z = (HEIGHTS - mu[..., None]) / sigma[..., None]
        likelihood = (-0.5 * z**2).sum(axis=-1) - len(HEIGHTS) * np.log(sigma)
        return POWER * likelihood - mu**2 / 2 - sigma**2 / 2

    return private, log_density, [(-1.5, 1.0), (0.3, 2.0)], 400, 1500


def logistic():
    """Three parameters: intercept, slope, curvature."""
    rows = np.stack([FEATURE, FEATURE**2], axis=1) / np.sqrt(2)
    with pm.Model(coords={"i": range(len(ANSWERS)), "f": ["x", "x2"]}) as model:
        x = pm.Data("x", rows, dims=("i", "f"))
        a = pm.Normal("a", 0, 1)
        b = pm.Normal("b", 0, 1.5, dims="f")
        pm.Bernoulli("y", logit_p=a + x @ b, observed=ANSWERS, dims="i")
    private = pmp.privatize(model, records="i", domain={"x": pmp.Ball(1.0)})
    private = pmp.trim(private, box={"a": (-2, 2), "b": (-2, 3)})

    def log_density(a, b, c):
        eta = a[..., None] + b[..., None] * rows[:, 0] + c[..., None] * rows[:, 1]
        likelihood = (ANSWERS * eta - np.logaddexp(0.0, eta)).sum(axis=-1)
        return POWER * likelihood - a**2 / 2 - (b**2 + c**2) / (2 * 1.5**2)

    return private, log_density, [(-2, 2), (-2, 3), (-2, 3)], 80, 1000


def autoregression():
    """Two parameters of a sequence whose factor rows read two records each."""
    with pm.Model(coords={"t": range(len(HEIGHTS))}) as model:
        rho, sigma = pm.Normal("rho", 0, 0.5, shape=1), pm.HalfNormal("sigma", 1)
        start = pm.Normal.dist(0, 2, shape=1)
        pm.AR("y", rho, sigma=sigma, init_dist=start, observed=HEIGHTS, dims="t")
    private = pmp.privatize(model, records="t", domain={"y": (-2, 2)})
    private = pmp.trim(private, box={"rho": (-0.9, 0.9), "sigma": (0.3, 2.0)})

    def log_density(rho, sigma):
        z = (HEIGHTS[1:] - rho[..., None] * HEIGHTS[:-1]) / sigma[..., None]
        likelihood = (-0.5 * z**2).sum(axis=-1) - (len(HEIGHTS) - 1) * np.log(sigma)
        return POWER * likelihood - rho**2 / (2 * 0.5**2) - sigma**2 / 2

    return private, log_density, [(-0.9, 0.9), (0.3, 2.0)], 400, 600


MODELS = {
    "bernoulli": bernoulli,
    "normal": normal,
    "logistic": logistic,
    "autoregression": autoregression,
}


def distances(name: str, seed: int, power: float = POWER) -> tuple[list[float], int]:
    """Distances of each marginal of fresh draws, and the number of draws."""
    private, log_density, ends, points, n = MODELS[name]()
    target = Target(pmp.temper(private, power))
    draws = rejection.sample_by_rejection(target, n, SeededRandomness.from_seed(seed))
    exact = marginals(log_density, ends, points)
    return [distance(draws[:, k], *exact[k]) for k in range(len(exact))], n


@pytest.mark.thin(4)
@pytest.mark.parametrize("name", MODELS)
def test_box_draws_follow_the_posterior(name):
    found, n = distances(name, seed=11)
    assert max(found) < halfwidth(n, FALSE_ALARM) + QUADRATURE


@pytest.mark.parametrize("name", ["bernoulli", pytest.param("normal", marks=pytest.mark.audit)])
def test_a_sampler_that_ignores_the_power_is_caught(name):
    found, n = distances(name, seed=12, power=0.02)
    assert max(found) > halfwidth(n, FALSE_ALARM) + QUADRATURE


def test_an_envelope_that_cuts_off_the_top_is_caught(monkeypatch):
    # The acceptance is clipped at one: every proposal passes, and no rejection ever refines it.
    true_height = rejection.envelope_height
    monkeypatch.setattr(
        rejection, "envelope_height", lambda pieces, t: true_height(pieces, t) - 50.0
    )
    with pytest.raises(rejection.EnvelopeTooLow):
        distances("bernoulli", seed=13)
    monkeypatch.setattr(rejection, "_check_envelope", lambda *arguments: None)
    monkeypatch.setattr(rejection, "build_envelopes", _flat)
    found, n = distances("bernoulli", seed=13)
    assert max(found) > halfwidth(n, FALSE_ALARM) + QUADRATURE


def _flat(target, lower, upper, start, rounds=1):
    """Constants alone."""
    start = np.clip(start, lower, upper)
    pieces = constant_envelopes(
        target.on_boxes(lower, upper).value[1], start - lower, upper - start
    )
    zero = np.zeros_like(lower)
    return CellEnvelopes(start, pieces, log_mass(pieces), zero, zero, np.full(len(zero), -np.inf))


@pytest.mark.thin(8)
@pytest.mark.parametrize("form", range(4))
def test_every_form_of_the_envelope_gives_the_same_law(monkeypatch, form):
    # A curvature that is wrong by a tenth is caught too, below.
    monkeypatch.setattr(rejection, "build_envelopes", _only(form))
    found, n = distances("normal", seed=20 + form)
    assert max(found) < halfwidth(n, FALSE_ALARM) + QUADRATURE


def _only(form):
    """The constants, or one other form wherever it has less mass."""

    def bounded(target, lower, upper, start, rounds=1):
        anchor, hessian = rejection._climb_to_mode(
            target, lower, upper, np.clip(start, lower, upper), 1
        )
        found = rejection.envelope_forms(target, lower, upper, anchor, hessian)
        (flat, _), (chosen, gap) = found[0], found[form]
        pieces = chosen.where(log_mass(chosen) < log_mass(flat), flat)
        zero, none = np.zeros_like(lower), np.full(len(lower), -np.inf)
        return CellEnvelopes(anchor, pieces, log_mass(pieces), gap, zero, none)

    return bounded


def test_a_memory_cap_leaves_the_draws_exact(monkeypatch):
    monkeypatch.setattr(rejection, "MOST_CELLS", 6)
    monkeypatch.setattr(rejection, "build_envelopes", _flat)
    seen = []
    refine = rejection.Partition.refine

    def watched(cells, rate):
        refine(cells, 1.0)
        seen.append(len(cells))

    monkeypatch.setattr(rejection.Partition, "refine", watched)
    found, n = distances("bernoulli", seed=15)
    assert max(found) < halfwidth(n, FALSE_ALARM) + QUADRATURE
    assert max(seen) == 6


def test_a_cell_forgotten_when_cutting_is_caught(monkeypatch):
    true_replace, cuts = rejection.Partition._replace, []

    def forgetful(cells, places, lower, upper, found):
        if not cuts:
            found.log_mass[len(places) :] = -np.inf
        cuts.append(len(places))
        true_replace(cells, places, lower, upper, found)

    monkeypatch.setattr(rejection.Partition, "_replace", forgetful)
    monkeypatch.setattr(
        rejection, "build_envelopes", _flat
    )  # whose first cell is cut in the middle
    found, n = distances("bernoulli", seed=14)
    assert max(found) > halfwidth(n, FALSE_ALARM) + QUADRATURE


def test_what_these_tests_can_see_is_stated():
    sizes = {name: MODELS[name]()[4] for name in MODELS}
    assert {name: round(detectable(n), 3) for name, n in sizes.items()} == {
        "bernoulli": 0.094,
        "normal": 0.132,
        "logistic": 0.161,
        "autoregression": 0.208,
    }
