"""Densities of a person's rows: against numerical integration, differences and their graphs."""

from __future__ import annotations

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.compile.mode import Mode
from scipy import integrate, stats
from scipy.special import expit

from pymc_private.summaries.persons.effect_integrals import FAMILIES, Places
from pymc_private.summaries.persons.row_families import NegativeBinomialRows, PoissonRows

RNG = np.random.default_rng(4)
N, Q, K = 6, 5, 3
HAS = np.arange(K) < np.array([3, 2, 1, 3, 2, 3])[:, None]
OUTCOMES = {
    "BernoulliRV": RNG.integers(0, 2, (N, Q, K)).astype(float),
    "PoissonRV": RNG.poisson(1.5, (N, Q, K)).astype(float),
    "NegBinomialRV": RNG.poisson(1.5, (N, Q, K)).astype(float),
    "NormalRV": RNG.normal(0.3, 1.0, (N, Q, K)),
}
SLOPES = Places(HAS, np.stack([np.ones((N, K)), RNG.uniform(-1, 1, (N, K))], axis=2), False)
PLACES = {"intercept": Places.of_intercepts(HAS), "slope": SLOPES}
LOWER = {"intercept": [0.7], "slope": [0.7, -0.3, 0.5]}
EXTRA = 0.8
CASES = [(kind, effects) for kind in FAMILIES for effects in PLACES]
each_case = pytest.mark.parametrize(("kind", "effects"), CASES)


def predictors(effects: str, extra: int) -> np.ndarray:
    """Give predictors of rows, the factor of the effects' covariance, and a further parameter."""
    parts = [np.full((N, 1), v) for v in (*LOWER[effects], *[EXTRA] * extra)]
    return np.concatenate([RNG.normal(0, 0.6, (N, K)), *parts], axis=1)


def log_mass(kind: str, y: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Give log probabilities of outcomes of rows by SciPy."""
    n, p = EXTRA, EXTRA / (EXTRA + np.exp(t))
    return {
        "BernoulliRV": lambda: stats.bernoulli.logpmf(y, expit(t)),
        "PoissonRV": lambda: stats.poisson.logpmf(y, np.exp(t)),
        "NegBinomialRV": lambda: stats.nbinom.logpmf(y, n, p),
        "NormalRV": lambda: stats.norm.logpdf(y, t, EXTRA),
    }[kind]()


@each_case
def test_densities_are_those_of_numerical_integration(kind, effects):
    """The rule of Simpson over a grid of effects, of both at once where there are two."""
    family, y, places = FAMILIES[kind](), OUTCOMES[kind], PLACES[effects]
    at = predictors(effects, family.extra)
    found = family.log_density(at[None], places, y)[0]
    grid = np.linspace(-7, 7, 113)
    z = [grid] if effects == "intercept" else list(np.meshgrid(grid, grid))
    lower = np.zeros((2, 2))
    lower[np.tril_indices(2)] = [*LOWER[effects], 0.0, 0.0][:3]
    moves = np.tensordot(lower[: len(z), : len(z)], np.array(z), 1)
    for n in range(3):
        rows = [
            log_mass(kind, y[n, 0, j], at[n, j] + np.tensordot(places.loadings[n, j], moves, 1))
            for j in range(K)
            if HAS[n, j]
        ]
        whole = np.exp(sum(rows)) * np.prod(stats.norm.pdf(z), axis=0)
        for _ in z:
            whole = integrate.simpson(whole, x=grid)
        assert found[n, 0] == pytest.approx(np.log(whole), abs=2e-4 if len(z) > 1 else 2e-5)


@pytest.mark.parametrize("kind", ["PoissonRV", "NegBinomialRV", "BernoulliRV"])
def test_rows_that_know_their_effect_well_need_no_more_nodes(kind):
    """Fifty rows of large counts, or a hundred answers: the integrand is far narrower than z."""
    rows = 60
    places = Places.of_intercepts(np.ones((1, rows), bool))
    level = 0.0 if kind == "BernoulliRV" else 3.0
    at = np.concatenate([np.full(rows, level), [1.5], [EXTRA] * (kind[0] == "N")])[None]
    y = np.round(np.full((1, 1, rows), 0.9 if kind == "BernoulliRV" else 300.0))
    z = np.linspace(-6, 6, 20_001)
    logs = rows * log_mass(kind, y[0, 0, 0], level + 1.5 * z) + stats.norm.logpdf(z)
    truth = np.log(integrate.simpson(np.exp(logs - logs.max()), x=z)) + logs.max()
    assert FAMILIES[kind]().log_density(at[None], places, y)[0, 0, 0] == pytest.approx(
        truth, abs=1e-3
    )


@each_case
def test_scores_are_the_derivatives(kind, effects):
    family, y, places = FAMILIES[kind](), OUTCOMES[kind], PLACES[effects]
    at, step = predictors(effects, family.extra), 1e-5
    scores = family.scores(at, places, y)
    for k in range(at.shape[1]):
        moves = np.array([1.0, -1.0])[:, None, None] * step * np.eye(at.shape[1])[k]
        above, below = family.log_density(at + moves, places, y)
        np.testing.assert_allclose(scores[..., k], (above - below) / (2 * step), atol=2e-3)


@each_case
def test_outcomes_of_places_without_a_row_are_not_read(kind, effects):
    family, y, places = FAMILIES[kind](5), OUTCOMES[kind], PLACES[effects]
    at, other = predictors(effects, family.extra), np.where(HAS[:, None], y, 7.0)
    np.testing.assert_array_equal(family.scores(at, places, y), family.scores(at, places, other))
    first, second = (family.log_density(at[None], places, each) for each in (y, other))
    np.testing.assert_array_equal(first, second)
    assert (family.log_density(at[None], places, np.abs(1.0 - y)) != first).any()


@each_case
def test_what_is_of_a_person_reads_no_other_to_the_last_bit(kind, effects):
    """Whatever other persons and outcomes are computed along with it."""
    family, y, places = FAMILIES[kind](), OUTCOMES[kind], PLACES[effects]
    at = predictors(effects, family.extra)
    scores, logs = family.scores(at, places, y), family.log_density(at[None], places, y)[0]
    for n in range(N):
        alone, one = places.part(n, n + 1), slice(n, n + 1)
        np.testing.assert_array_equal(
            family.scores(at[one], alone, y[one, 1:2])[0, 0], scores[n, 1]
        )
        few = family.log_density(at[None, one], alone, y[one, 1:2])
        np.testing.assert_array_equal(few[0, 0, 0], logs[n, 1])


@each_case
def test_the_graph_is_the_same_density(kind, effects):
    family, y, places = FAMILIES[kind](5), OUTCOMES[kind], PLACES[effects]
    at = predictors(effects, family.extra)
    inputs = [pt.dvector(f"predictor_{k}") for k in range(at.shape[1])]
    graph = family.symbolic(inputs, places, y)
    function = pytensor.function(inputs, graph, mode=Mode("py", None))
    np.testing.assert_allclose(
        function(*at.T), family.log_density(at[None], places, y)[0], atol=1e-10
    )


@pytest.mark.parametrize("wide", [2.4, 7.0])
def test_the_graph_is_the_same_density_where_effects_are_wide(wide):
    """Two Newton steps less, and it is off by .02 at 7: a summary would be refused once paid."""
    family = FAMILIES["BernoulliRV"]()
    places = Places.of_intercepts(np.ones((1, 4), bool))
    y = np.array([[[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1]]], dtype=float)
    at = np.array([[-2.8] * 4 + [wide]])
    inputs = [pt.dvector(f"predictor_{k}") for k in range(5)]
    function = pytensor.function(inputs, family.symbolic(inputs, places, y), mode=Mode("py", None))
    own = family.log_density(at[None], places, y)[0]
    np.testing.assert_allclose(function(*at.T), own, atol=1e-10)
    fine = FAMILIES["BernoulliRV"](201).log_density(at[None], places, y)[0]
    np.testing.assert_allclose(own, fine, atol=2e-4 if wide < 3 else 5e-3)


@pytest.mark.parametrize("kind", FAMILIES)
def test_outcomes_have_the_distribution_of_the_family(kind):
    family, places = FAMILIES[kind](), PLACES["slope"].part(0, 1)
    at = predictors("slope", family.extra)[:1]
    unit = (np.arange(20_000) + 0.5)[None, :, None] / 20_000 * np.ones(K)
    z = np.broadcast_to([0.4, -0.9], (1, 20_000, 2))
    found = family.outcomes(at, places, z, unit)[0]
    effects = np.array([[0.7, 0.0], [-0.3, 0.5]]) @ [0.4, -0.9]
    t = at[0, :K] + places.loadings[0] @ effects
    mean = {"BernoulliRV": expit(t), "NormalRV": t}.get(kind, np.exp(t))
    spread = {
        "BernoulliRV": mean * (1 - mean),
        "PoissonRV": mean,
        "NegBinomialRV": mean + mean**2 / EXTRA,
        "NormalRV": np.full(K, EXTRA**2),
    }[kind]
    np.testing.assert_allclose(found.mean(axis=0), mean, atol=2e-3)
    np.testing.assert_allclose(found.var(axis=0), spread, rtol=5e-3)


@pytest.mark.parametrize("rows", [PoissonRows(), NegativeBinomialRows()])
def test_counts_are_the_quantiles(rows):
    unit = np.array([1e-6, 0.03, 0.5, 0.97, 1 - 1e-6])
    t = np.array([-6.0, 0.0, 2.0, 9.0])[:, None] + 0.0 * unit
    alpha = np.full(t.shape, 0.3)
    found = rows.outcomes(t, unit + 0.0 * t, [alpha])
    mean = np.exp(t)
    truth = stats.poisson(mean) if rows.extra == 0 else stats.nbinom(0.3, 0.3 / (0.3 + mean))
    np.testing.assert_array_equal(found, truth.ppf(unit))
    assert np.isnan(rows.outcomes(t * np.nan, unit + 0.0 * t, [alpha])).all()
