"""References of covariates, and how noisy moments move them."""

from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_private.errors import DomainError
from pymc_private.models.data_variables import Source
from pymc_private.models.domains import Ball, Categories, Counts, Interval, Simplex
from pymc_private.summaries.noise import SimulatedNoise, chunks_of
from pymc_private.summaries.scores.reference import (
    MOMENT_SHARES,
    CovariateReference,
    covariate_moments,
    reference_rows,
)

N = 6000


def source(name, domain, row=(), dtype="float64"):
    kind = pt.TensorType(dtype, shape=(None,) * (1 + len(row)))
    return Source(name, (), kind(name=name), 0, (N, *row), domain)


def reader(*sources, **public):
    density = SimpleNamespace(covariates=sources, public_rows=public, labels={})
    return SimpleNamespace(base=pm.Model(), sources=sources), density


COLUMNS = (
    source("x", Interval(0, 5)),
    source("X", Interval([-3, -2], [3, 4]), (2,)),
    source("g", Categories(range(3)), (), "int64"),
)


def skewed_data(n=N, seed=0):
    """Skewed, correlated numbers that depend on a category with a rare level."""
    rng = np.random.default_rng(seed)
    z, g = rng.normal(size=(n, 3)), rng.choice(3, p=[0.7, 0.25, 0.05], size=n)
    x = np.clip(0.7 * np.exp(0.5 * z[:, 0]) + 0.5 * g, 0, 5)
    return {"x": x, "X": np.clip(z[:, 1:] @ [[0.5, 0.2], [0.2, 0.3]], -2, 3), "g": 1.0 * g}


def weighted_moments(moments, rows, weights):
    """Weighted mean and covariance of the columns of rows."""
    columns = moments._columns(rows)[:, 1:]
    mean = weights @ columns / weights.sum()
    away = columns - mean
    return mean, (away * weights[:, None]).T @ away / weights.sum()


def own_weights(moments, rows):
    return moments._weights(moments._whitened(moments._columns(rows)))


# ---- rows --------------------------------------------------------------------------------------
def test_rows_spread_over_every_kind_of_domain():
    ball = source("b", Ball(2.0, (1.0, 0.0, 0.0), (1.0, 1.0, 0.5)), (3,))
    others = (
        source("s", Simplex(), (3,)),
        source("k", Interval(0, 9), (), "int64"),
        source("c", Counts(5), (3,)),
    )
    private, density = reader(ball, *others, *COLUMNS)
    rows = reference_rows(private, density, 256).rows
    assert {name: v.shape for name, v in rows.items()} == {
        s.name: (256, *s.row_shape) for s in density.covariates
    }
    radius = np.linalg.norm((rows["b"] - [1, 0, 0]) / [1, 1, 0.5], axis=1)
    assert radius.max() <= 2.0
    assert ((radius / 2.0) ** 3).mean() == pytest.approx(0.5, abs=0.02)  # uniform in the ball
    assert rows["s"].mean(axis=0) == pytest.approx([1 / 3] * 3, abs=0.02)
    assert rows["s"].sum(axis=1) == pytest.approx(1.0)
    assert rows["c"].sum(axis=1) == pytest.approx(5.0)
    assert set(rows["k"]) == set(range(10))
    assert np.bincount(rows["g"].astype(int)) == pytest.approx([85] * 3, abs=1)
    assert rows["X"].mean(axis=0) == pytest.approx([0, 1], abs=0.02)


def test_rows_are_the_same_every_time_and_a_second_reference_differs():
    private, density = reader(*COLUMNS)
    first, again = reference_rows(private, density, 64), reference_rows(private, density, 64)
    other = reference_rows(private, density, 64, skip=64)
    assert all(np.array_equal(first.rows[name], again.rows[name]) for name in first.rows)
    assert not set(first.rows["x"]) & set(other.rows["x"])


def test_few_combinations_are_all_taken():
    private, density = reader(COLUMNS[2], source("t", Categories([0, 1])))
    reference = reference_rows(private, density, 128)
    pairs = set(zip(reference.rows["g"], reference.rows["t"], strict=True))
    assert len(pairs) == len(reference.weights) == 6


def test_public_rows_keep_together():
    offsets = np.arange(1000.0)
    private, density = reader(source("x", Interval(0, 1)), a=offsets, b=-offsets)
    rows = reference_rows(private, density, 128).rows
    assert np.array_equal(rows["a"], -rows["b"])
    assert np.bincount((rows["a"] // 125).astype(int)) == pytest.approx([16] * 8, abs=1)
    assert abs(np.corrcoef(rows["a"], rows["x"])[0, 1]) < 0.1
    private, density = reader(a=offsets[:90])
    assert np.array_equal(reference_rows(private, density, 128).rows["a"], offsets[:90])
    private, density = reader()
    assert reference_rows(private, density, 128).weights.tolist() == [1.0]


def test_a_given_public_sample_is_used_whole_and_inside_the_domain():
    private, density = reader(*COLUMNS)
    given = skewed_data(50, seed=4) | {"x": np.linspace(-1, 6, 50)}
    reference = reference_rows(private, density, 128, given=given)
    assert len(reference.weights) == 50
    assert np.array_equal(reference.rows["X"], given["X"])
    assert np.array_equal(reference.rows["x"], np.clip(given["x"], 0, 5))
    part = reference_rows(private, density, 128, given={"X": given["X"]})
    assert len(part.weights) == 128
    assert {tuple(r) for r in part.rows["X"]} <= {tuple(r) for r in given["X"]}
    with pytest.raises(DomainError, match="does not fit"):
        reference_rows(private, density, 128, given={"X": np.zeros(4)})


# ---- moments -----------------------------------------------------------------------------------
def mechanism():
    private, density = reader(*COLUMNS)
    large = reference_rows(private, density, 128)
    return covariate_moments(density, large), large, reference_rows(private, density, 64, 128)


def noisy_sum(moments, data, mu, relation="substitute", seed=0):
    noise = SimulatedNoise(np.random.default_rng(seed), relation, 1)
    n = len(data["x"])
    terms = (moments.terms(chunk)[:count] for chunk, count in chunks_of(data, n, 1024))
    total = noise.total(terms, moments.bound, True, mu)
    return total, noise.sd(moments.bound, True, mu, len(total))


@pytest.mark.parametrize("n", [N, None])
@pytest.mark.parametrize("which", [0, 1])
def test_without_noise_the_reference_gets_the_moments_of_the_data(which, n):
    moments, *references = mechanism()
    data, reference = skewed_data(), references[which]
    total, sd = noisy_sum(moments, data, 1e9, "substitute" if n else "add_remove")
    moved = moments.moved(reference, total, sd, n)
    assert moved.weights.sum() == pytest.approx(1.0)
    # rows that were moved keep the weights w of where they came from
    shares = moved.weights * own_weights(moments, reference.rows)
    mean, covariance = weighted_moments(moments, moved.rows, shares)
    expected, spread = weighted_moments(moments, data, own_weights(moments, data))
    sds = np.sqrt(np.diag(spread))
    assert mean == pytest.approx(expected, abs=0.03)  # rows are clipped to the domain afterwards
    assert np.abs((covariance - spread) / np.outer(sds, sds)).max() < 0.12
    assert moved.rows["x"].min() >= 0.0
    assert np.abs(moved.rows["X"] - [0, 1]).max() <= 3.0
    assert set(moved.rows["g"]) == {0.0, 1.0, 2.0}


def test_under_huge_noise_the_reference_stays():
    moments, large, _ = mechanism()
    for seed in range(5):
        total, sd = noisy_sum(moments, skewed_data(), 1e-6, seed=seed)
        moved = moments.moved(large, total, sd, N)
        for name, values in large.rows.items():
            assert moved.rows[name] == pytest.approx(values, abs=1e-8)
        assert moved.weights == pytest.approx(large.weights)


def test_at_a_usual_budget_the_reference_comes_nearer():
    moments, large, _ = mechanism()
    data = skewed_data()
    expected, spread = weighted_moments(moments, data, np.ones(N))
    distances = []
    for seed in range(5):
        moved = moments.moved(large, *noisy_sum(moments, data, 0.067, seed=seed), N)
        found = [weighted_moments(moments, r.rows, r.weights)[0] for r in (large, moved)]
        distances.append(np.abs((found - expected) / np.sqrt(np.diag(spread))).max(axis=1))
    assert np.median(distances, axis=0)[0] > 3.0 * np.median(distances, axis=0)[1]


def test_a_second_sum_resolves_covariates_that_vary_little_in_a_wide_domain():
    narrow = source("X", Interval(-8, 8), (2,))
    private, density = reader(narrow)
    rng = np.random.default_rng(3)
    data = {"x": np.zeros(2000), "X": rng.normal(size=(2000, 2)) @ [[0.3, 0.1], [0.1, 0.2]]}
    expected = np.linalg.eigvalsh(np.cov(data["X"].T))
    large = reference_rows(private, density, 128)
    found = []
    for seed in range(7):
        first = covariate_moments(density, large)
        once = first.moved(large, *noisy_sum(first, data, 0.067, seed=seed), 2000)
        shares = [np.sqrt(share) * 0.067 for share in MOMENT_SHARES]
        half = first.moved(large, *noisy_sum(first, data, shares[0], seed=seed), 2000)
        second = first.refined(half)
        twice = second.moved(half, *noisy_sum(second, data, shares[1], seed=seed), 2000)
        found.append([np.cov(r.rows["X"].T, aweights=r.weights) for r in (once, twice)])
    factors = np.linalg.eigvalsh(np.median(found, axis=0)) / expected
    assert factors[0].max() > 2.0 * factors[1].max()
    assert factors[1].max() < 3.0


def test_terms_are_bounded_and_of_single_rows_to_the_bit():
    moments, _, _ = mechanism()
    data = skewed_data(500)
    data["x"][:3] = [1e300, -1e308, np.nan]
    terms = moments.terms(data)
    norms = np.linalg.norm(terms, axis=1)
    assert np.nanmax(norms) <= moments.bound
    assert np.isnan(terms).any(axis=1).sum() <= 3  # such records add nothing, as noise sees to
    for rows in (np.random.default_rng(1).permutation(500), np.arange(7, 8), np.arange(40, 53)):
        part = moments.terms({name: values[rows] for name, values in data.items()})
        assert np.array_equal(part, terms[rows], equal_nan=True)


def test_terms_without_weights_would_be_noticed(monkeypatch):
    moments, _, _ = mechanism()
    monkeypatch.setattr(moments, "_weights", lambda whitened: np.ones(len(whitened)))
    far = skewed_data(500) | {"x": np.full(500, 1e3)}
    assert np.linalg.norm(moments.terms(far), axis=1).max() > moments.bound


def test_simplexes_balls_and_whole_numbers_stay_in_their_domains():
    rng = np.random.default_rng(2)
    ball = source("b", Ball(1.5, (1.0, 0.0)), (2,))
    private, density = reader(
        ball, source("s", Simplex(), (3,)), source("k", Interval(0, 9), (), "int64")
    )
    reference = reference_rows(private, density, 128)
    moments = covariate_moments(density, reference)
    data = {
        "b": ball.domain.clip(rng.normal(size=(N, 2)) * 0.3 + [0.5, 0.3], 0),
        "s": rng.dirichlet([5, 2, 1], N),
        "k": rng.poisson(2.0, N).clip(0, 9) * 1.0,
    }
    moved = moments.moved(reference, moments.terms(data).sum(axis=0), 1e-9, N).rows
    assert np.linalg.norm(moved["b"] - [1, 0], axis=1).max() <= 1.5 * (1 + 1e-12)
    assert moved["s"].min() >= 0.0
    assert moved["s"].sum(axis=1) == pytest.approx(1.0)
    assert np.array_equal(moved["k"], np.rint(moved["k"]))
    for name in data:
        assert moved[name].mean(axis=0) == pytest.approx(data[name].mean(axis=0), abs=0.3)
        assert moved[name].std(axis=0) == pytest.approx(data[name].std(axis=0), rel=0.2)


def test_no_moments_without_private_covariates():
    _, density = reader(a=np.arange(9.0))
    assert (
        covariate_moments(density, CovariateReference({"a": np.arange(9.0)}, np.ones(9) / 9))
        is None
    )
    many = source("g", Categories(range(85)), (), "int64")
    private, density = reader(many)
    assert covariate_moments(density, reference_rows(private, density, 128)) is None
