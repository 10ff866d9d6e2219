"""Densities of a person's rows: against numerical integration, differences and their graphs."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats
from scipy.special import expit

from pymc_private.summaries.persons.effect_integrals import FAMILIES

RNG = np.random.default_rng(4)
N, Q, K = 6, 5, 3
HAS = np.arange(K) < np.array([3, 2, 1, 3, 2, 3])[:, None]
OUTCOMES = {
    "BernoulliRV": RNG.integers(0, 2, (N, Q, K)).astype(float),
    "PoissonRV": RNG.poisson(1.5, (N, Q, K)).astype(float),
    "NormalRV": RNG.normal(0.3, 1.0, (N, Q, K)),
}


def predictors(extra: int) -> np.ndarray:
    """Give predictors of rows, a scale of effects, and a standard deviation."""
    parts = [RNG.normal(0, 0.6, (N, K)), np.full((N, 1), 0.7), np.full((N, extra), 0.8)]
    return np.concatenate(parts, axis=1)


@pytest.mark.parametrize("kind", FAMILIES)
def test_densities_are_those_of_numerical_integration(kind):
    family, y = FAMILIES[kind](61), OUTCOMES[kind]
    at = predictors(family.extra)
    found = family.log_density(at, HAS, y)
    for n in range(N):
        eta, own = at[n, :K][HAS[n]], y[n, 0][HAS[n]]

        def density(z: float, eta=eta, own=own) -> float:
            t = eta + 0.7 * z
            each = {
                "BernoulliRV": lambda: stats.bernoulli.logpmf(own, expit(t)),
                "PoissonRV": lambda: stats.poisson.logpmf(own, np.exp(t)),
                "NormalRV": lambda: stats.norm.logpdf(own, t, 0.8),
            }[kind]()
            return stats.norm.pdf(z) * np.exp(each.sum())

        truth = np.log(integrate.quad(density, -9, 9)[0])
        assert found[n, 0] == pytest.approx(truth, abs=1e-6)


@pytest.mark.parametrize("kind", FAMILIES)
def test_scores_are_the_derivatives(kind):
    family, y = FAMILIES[kind](21), OUTCOMES[kind]
    at, step = predictors(family.extra), 1e-5
    scores = family.scores(at, HAS, y)
    for k in range(at.shape[1]):
        move = step * np.eye(at.shape[1])[k]
        above, below = (family.log_density(at + s * move, HAS, y) for s in (1.0, -1.0))
        np.testing.assert_allclose(scores[..., k], (above - below) / (2 * step), atol=1e-7)


@pytest.mark.parametrize("kind", FAMILIES)
def test_outcomes_of_places_without_a_row_are_not_read(kind):
    family, y = FAMILIES[kind](11), OUTCOMES[kind]
    at, other = predictors(family.extra), np.where(HAS[:, None], y, 7.0)
    np.testing.assert_array_equal(family.scores(at, HAS, y), family.scores(at, HAS, other))
    first, second = (family.log_density(at, HAS, each) for each in (y, other))
    np.testing.assert_array_equal(first, second)
    assert (family.log_density(at, HAS, y + 1.0) != first).any()


@pytest.mark.parametrize("kind", FAMILIES)
def test_the_graph_is_the_same_density(kind):
    family, y = FAMILIES[kind](15), OUTCOMES[kind]
    at = predictors(family.extra)
    inputs = [pt.dvector(f"predictor_{k}") for k in range(at.shape[1])]
    graph = family.symbolic(inputs, HAS, y)
    function = pytensor.function(inputs, graph, mode="FAST_COMPILE")
    np.testing.assert_allclose(function(*at.T), family.log_density(at, HAS, y), atol=1e-10)


@pytest.mark.parametrize("kind", FAMILIES)
def test_outcomes_have_the_distribution_of_the_family(kind):
    family = FAMILIES[kind](11)
    at = predictors(family.extra)[:1]
    unit = (np.arange(20_000) + 0.5)[None, :, None] / 20_000 * np.ones(K)
    found = family.outcomes(at, np.full((1, 20_000), 0.4), unit)[0]
    t = at[0, :K] + 0.7 * 0.4
    mean = {"BernoulliRV": expit(t), "PoissonRV": np.exp(t), "NormalRV": t}[kind]
    spread = {"BernoulliRV": mean * (1 - mean), "PoissonRV": mean, "NormalRV": 0.64}[kind]
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=2e-3)
    np.testing.assert_allclose(found.var(axis=0), spread, rtol=5e-3)
