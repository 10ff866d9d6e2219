"""Levels of categories drawn anew: rare levels of many categories leave rows their weight."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models.domains import Categories, Interval
from pymc_private.summaries.importance import importance_draws
from pymc_private.summaries.noise import SimulatedNoise, largest_mu
from pymc_private.summaries.scores import model_scores, score_likelihood
from pymc_private.summaries.scores import reference as module
from pymc_private.summaries.scores.category_levels import category_levels
from pymc_private.summaries.scores.category_shares import CategoryShares
from pymc_private.summaries.scores.drawn_levels import (
    WantedLevels,
    drawn_levels,
    in_drawing_order,
)
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.reference import (
    CovariateReference,
    covariate_moments,
    reference_rows,
)
from pymc_private.summaries.stretched_mean import stretch
from tests.summaries.scores.test_reference import noisy_sum, reader, source

SHARES = np.resize([0.05, 0.5, 0.12, 0.3, 0.85, 0.08], 12)
N = 20_000


def flags(rng: Any, n: int = N) -> np.ndarray:
    """Give correlated columns of two values."""
    from scipy.special import ndtri

    z = np.sqrt(0.4) * rng.standard_normal((n, 1)) + np.sqrt(0.6) * rng.standard_normal((n, 12))
    return 1.0 * (z < ndtri(SHARES))


def moved_reference() -> tuple[CovariateReference, dict[str, np.ndarray]]:
    """Give a reference moved by sums without noise to speak of, and the records."""
    columns = source("F", Categories([0.0, 1.0]), (12,)), source("x", Interval(-2, 2))
    private, density = reader(*columns)
    large = reference_rows(private, density, 128)
    f = flags(np.random.default_rng(1))
    data = {"F": f, "x": np.clip(0.5 * f[:, 0] - 0.5 * f[:, 1], -2, 2)}
    stage = covariate_moments(density, large)
    large = stage.moved(large, *noisy_sum(stage, data, 1e6), N)
    stage = stage.refined(large)
    return stage.moved(large, *noisy_sum(stage, data, 1e6), N), data


def effective_rows(reference: CovariateReference) -> float:
    """Give the number of rows of equal weight that would be worth as much."""
    return float(1.0 / (reference.weights**2).sum())


def keep_levels(monkeypatch: Any) -> None:
    """Plant the fault: levels stay as they were, and weights alone are moved."""
    monkeypatch.setattr(module, "drawn_levels", lambda rows, *others: rows)


def test_rows_keep_their_weight_and_have_the_shares_of_the_records():
    moved, data = moved_reference()
    assert effective_rows(moved) > 80
    shares = moved.weights @ moved.rows["F"]
    assert shares == pytest.approx(data["F"].mean(axis=0), abs=0.02)
    assert set(np.unique(moved.rows["F"])) == {0.0, 1.0}


def test_weights_alone_would_leave_a_few_rows(monkeypatch):
    """The planted fault."""
    keep_levels(monkeypatch)
    moved, _ = moved_reference()
    assert effective_rows(moved) < 12


def test_levels_depend_on_each_other_as_those_of_the_records_do():
    moved, data = moved_reference()
    common = SHARES > 0.1
    found = np.cov(moved.rows["F"].T, aweights=moved.weights)[common][:, common]
    expected = np.cov(data["F"].T)[common][:, common]
    apart = ~np.eye(len(found), dtype=bool)
    assert np.abs(found - expected)[apart].mean() < 0.5 * expected[apart].mean()
    assert found[apart].mean() == pytest.approx(expected[apart].mean(), rel=0.25)


def test_every_level_has_rows_and_counted_levels_get_their_shares():
    private, density = reader(source("g", Categories(range(20))), source("h", Categories(range(5))))
    large = reference_rows(private, density, 96)
    stage = CategoryShares.of(category_levels(density.covariates), large)
    g = np.r_[16_000, np.full(19, 4_000 / 19)]
    h = np.array([100.0, 14_900, 3000, 1000, 1000])
    noisy = np.concatenate([h, g] if stage.blocks[0].source.name == "h" else [g, h])
    moved = stage.moved(large, noisy, 1e-3, N)
    found = [np.bincount(moved.rows[k].astype(int), moved.weights) for k in "gh"]
    assert found[0] == pytest.approx(g / N, abs=0.01)
    assert found[1] == pytest.approx(np.maximum(h / N, 0.01), abs=0.01)
    assert min(map(np.min, found)) > 0.0
    assert effective_rows(moved) > 30


def test_a_public_sample_keeps_its_rows():
    private, density = reader(source("g", Categories(range(3))), source("h", Categories(range(3))))
    given = {"g": np.resize([0, 1, 2], 30), "h": np.resize([0, 1, 2], 30)}
    large = reference_rows(private, density, 128, given=given)
    assert not large.units
    stage = covariate_moments(density, large)
    rng = np.random.default_rng(2)
    data = {"g": rng.integers(0, 2, N), "h": rng.integers(0, 2, N), "x": np.zeros(N)}
    moved = stage.moved(large, *noisy_sum(stage, data, 1e6), N)
    assert (moved.rows["g"] == moved.rows["h"]).all()


@pytest.mark.parametrize("shares", [[0.0, 0.0, 1.0], [1e-300, 1e300, 1.0], [-0.0, 1.0, 0.0]])
@pytest.mark.parametrize("slope", [0.0, 1e6, -1e300])
def test_no_released_number_stops_it(shares, slope):
    """After the charge nothing may fail, whatever noise made of the sums."""
    private, density = reader(source("g", Categories(range(3)), (5,)))
    large = reference_rows(private, density, 64)
    first, second, *_ = category_levels(density.covariates)
    wanted = [
        WantedLevels(first, np.array(shares)),
        WantedLevels(second, np.array(shares), np.full((2, 2), slope)),
    ]
    rows = drawn_levels(large.rows, large.units, lambda _: large.weights, wanted)
    assert np.isin(rows["g"], [0, 1, 2]).all()


def test_levels_follow_those_that_are_known():
    """A conditional table given a group whose rows are known, means of its indicators unequal."""
    _, density = reader(source("g", Categories(range(3))), source("h", Categories(range(3))))
    rng = np.random.default_rng(4)
    count, table = 6000, np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1]])
    rows = {"g": rng.choice(3, count, p=[0.6, 0.3, 0.1]).astype(float), "h": np.zeros(count)}
    g, h = category_levels(density.covariates)
    units = {"h": rng.random((count, 1))}
    assert in_drawing_order([h, g], units) == [1, 0]
    assert in_drawing_order([g, h], {"h": units["h"], "g": units["h"]}) == [1, 0]
    shares = np.array([0.6, 0.3, 0.1])
    slopes = (table[1:] - table[0])[:, 1:]
    wanted = [WantedLevels(g, shares), WantedLevels(h, shares @ table, slopes)]
    weights = np.full(count, 1.0 / count)
    drawn = drawn_levels(rows, units, lambda _: weights, wanted)
    assert (drawn["g"] == rows["g"]).all()
    found = [np.bincount(drawn["h"][drawn["g"] == k].astype(int)) for k in range(3)]
    assert np.array([f / f.sum() for f in found]) == pytest.approx(table, abs=0.04)


def test_shares_stay_where_probabilities_are_held_within_0_and_1():
    """Such steep regressions that most rows have a probability of 0 or 1."""
    _, density = reader(source("g", Categories(range(2))), source("h", Categories(range(2))))
    rng = np.random.default_rng(5)
    rows = {"g": 1.0 * (rng.random(2000) < 0.3), "h": np.zeros(2000)}
    g, h = category_levels(density.covariates)
    wanted = [
        WantedLevels(g, np.array([0.7, 0.3])),
        WantedLevels(h, np.array([0.5, 0.5]), np.array([[3.0]])),
    ]
    weights = np.full(2000, 1 / 2000)
    drawn = drawn_levels(rows, {"h": rng.random((2000, 1))}, lambda _: weights, wanted)
    assert drawn["h"].mean() == pytest.approx(0.5, abs=0.03)
    assert drawn["h"][drawn["g"] == 1.0].mean() == 1.0


def test_weighted_shares_are_reached_where_weights_go_with_levels():
    _, density = reader(source("h", Categories(range(2))))
    units = {"h": (np.arange(1000.0)[:, None] + 0.5) / 1000}
    (h,) = category_levels(density.covariates)
    wanted = [WantedLevels(h, np.array([0.8, 0.2]))]

    def weigh(rows):
        return np.where(rows["h"] == 1.0, 0.25, 1.0)

    drawn = drawn_levels({"h": np.zeros(1000)}, units, weigh, wanted)
    weights = weigh(drawn)
    assert weights @ drawn["h"] / weights.sum() == pytest.approx(0.2, abs=0.01)


def test_the_second_sum_draws_anew():
    columns = source("F", Categories([0.0, 1.0]), (12,))
    private, density = reader(columns)
    large = reference_rows(private, density, 128)
    stage = covariate_moments(density, large)
    f = flags(np.random.default_rng(1))
    seen = {"F": f, "x": np.zeros(N)}
    other = {"F": 1.0 - f, "x": np.zeros(N)}
    first = stage.moved(large, *noisy_sum(stage, other, 1e6), N)
    second = stage.refined(first)
    moved = second.moved(first, *noisy_sum(second, seen, 1e6), N)
    assert moved.units is large.units
    assert moved.weights @ moved.rows["F"] == pytest.approx(f.mean(axis=0), abs=0.06)
    assert effective_rows(moved) > 40


# ---- the whole road ----------------------------------------------------------------------------
def private_model(n: int) -> pmp.PrivateModel:
    """Give a logistic regression on twelve dummies."""
    f = flags(np.random.default_rng(0), n)
    with pm.Model(coords={"row": np.arange(n)}) as model:
        columns = pm.Data("F", f, dims=("row", None))
        eta = pm.Normal("intercept") + columns @ pm.Normal("slopes", shape=12)
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(n, int), dims="row")
    return pmp.privatize(model, records="row", domain={"F": {0.0, 1.0}})


def distance(seed: int) -> float:
    """Give the root mean square distance of a posterior from the truth, in standard deviations."""
    n = 10_000
    made, rng = (
        score_mechanism(private_model(n), largest_mu(2.0, 1e-6)),
        np.random.default_rng(seed),
    )
    theta = made.parameters.draws(1, seed)[0]
    f = flags(rng, n)
    at = {name: v[0] for name, v in made.parameters.natural(theta[None]).items()}
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-at["intercept"] - f @ at["slopes"]))
    found = made.release({"F": f, "y": 1.0 * y}, SimulatedNoise(rng))
    likelihood, prior = made.log_likelihood(found), made.parameters.log_prior

    def density(t: np.ndarray) -> np.ndarray:
        return likelihood(t) + prior(t)

    posterior = importance_draws(density, *made.start(found), rng, 3000)
    return float(np.sqrt(np.mean(((posterior.mean - theta) / posterior.sd) ** 2)))


def test_a_model_with_twelve_dummies_is_learned():
    assert np.median([distance(seed) for seed in range(3)]) < 2.0


def test_a_reference_moved_by_weights_alone_is_caught(monkeypatch):
    """The planted fault, on the whole road."""
    keep_levels(monkeypatch)
    assert np.median([distance(seed) for seed in range(3)]) > 3.0


def least_steepness(monkeypatch: Any, seed: int) -> float:
    """Give the least steepness of the small reference's means, where the large one's is 1."""
    n, shares = 10_000, list[float]()
    made, rng = (
        score_mechanism(private_model(n), largest_mu(1.0, 1e-6)),
        np.random.default_rng(seed),
    )

    def spied(wide: np.ndarray, narrow: np.ndarray) -> np.ndarray:
        shares.append(float(np.linalg.svd(narrow @ np.linalg.inv(wide))[1][-1]))
        return stretch(wide, narrow)

    monkeypatch.setattr(score_likelihood, "stretch", spied)
    f = flags(rng, n)
    y = rng.random(n) < 1.0 / (1.0 + np.exp(-f @ rng.normal(size=12)))
    made.pooled(made.release({"F": f, "y": 1.0 * y}, SimulatedNoise(rng)))
    return shares[-1]


def test_many_dummies_have_rows_enough_for_the_shape_of_the_likelihood(monkeypatch):
    assert np.mean([least_steepness(monkeypatch, seed) for seed in range(3)]) > 0.45


def test_a_reference_with_the_rows_of_numbers_is_caught(monkeypatch):
    """The planted fault."""
    monkeypatch.setattr(model_scores, "ROWS_OF_INDICATOR_OF_LEVELS", 0)
    monkeypatch.setattr(model_scores, "LARGE_ROWS_OF_INDICATOR", 0)
    assert np.mean([least_steepness(monkeypatch, seed) for seed in range(3)]) < 0.45


@pytest.mark.parametrize("entries", [8, 9])
def test_more_rows_are_no_reason_to_keep_levels(entries):
    """Of 256 or 512 combinations as many rows could be all of them, and only weights move."""
    n = 5000
    with pm.Model(coords={"row": np.arange(n)}) as model:
        f = pm.Data("F", np.zeros((n, entries)), dims=("row", None))
        eta = pm.Normal("intercept") + f @ pm.Normal("slopes", shape=entries)
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(n, int), dims="row")
    private = pmp.privatize(model, records="row", domain={"F": {0.0, 1.0}})
    design = score_mechanism(private, largest_mu(1.0, 1e-6)).design
    for reference in (design.large, design.small):
        assert reference.units["F"].shape[1] == entries


def numbers_of_rows(private: pmp.PrivateModel, reference: Any = None) -> list[int]:
    """Give the sizes of both references."""
    design = score_mechanism(private, largest_mu(1.0, 1e-6), reference=reference).design
    return [len(each.weights) for each in (design.large, design.small)]


def test_dummies_of_public_rows_have_as_many_rows_as_dummies_that_are_drawn():
    """On 128 rows of a public sample up to half of the Poisson summaries were refused, unforeseen.

    A label of groups is no dummy, and numbers have the rows of numbers.
    """
    private = private_model(3000)
    drawn = numbers_of_rows(private)
    assert drawn == [512, 128]
    assert numbers_of_rows(private, {"F": flags(np.random.default_rng(7), 2000)}) == drawn
    public = {"domain": {}, "public": ["F"]}
    assert numbers_of_rows(pmp.privatize(private.base, records="row", **public)) == drawn
    numbers = np.random.default_rng(8).normal(size=(3000, 12))
    with pm.Model(coords={"row": np.arange(3000)}) as model:
        eta = pm.Data("F", numbers, dims=("row", None)) @ pm.Normal("slopes", shape=12)
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(3000, int), dims="row")
    assert numbers_of_rows(pmp.privatize(model, records="row", **public)) == [128, 100]


def grouped(label: Any) -> pmp.PrivateModel:
    """Give a logistic regression with intercepts of four groups whose labels are public."""
    with pm.Model(coords={"row": np.arange(len(label))}) as model:
        effect = pm.Normal("effect", pm.Normal("mean"), pm.LogNormal("sd", -0.7, 0.5), shape=4)
        eta = effect[pm.Data("g", label, dims="row")]
        pm.Bernoulli("y", logit_p=eta, observed=np.zeros(len(label), int), dims="row")
    return pmp.privatize(model, records="row", domain={}, public=["g"])


def test_public_labels_of_groups_are_no_dummies(monkeypatch):
    private = grouped(np.arange(400) % 4)
    with_labels = numbers_of_rows(private)
    monkeypatch.setattr(model_scores, "MOST_OF_ENTRY", 0)  # no column is a dummy
    assert numbers_of_rows(private) == with_labels
