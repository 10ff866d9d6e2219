"""Metrics that keep structural zeros."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
import pytest

from pymc_private.summaries.scores.quadratic_noise import NoiseOfRounds, RoundNoise, StructuredNoise
from pymc_private.summaries.scores.structure import read_structure, structure_of
from pymc_private.summaries.scores.symmetric import matrix_power

GROUPS, SHARED = 6, 2
SIZE = GROUPS + SHARED


def records(rng: np.random.Generator, count: int) -> np.ndarray:
    """Jacobians (N, 1, p) of records of one group each, shared parameters first."""
    found = np.zeros((count, 1, SIZE))
    found[:, 0, :SHARED] = rng.uniform(0.5, 1.5, (count, SHARED))
    found[np.arange(count), 0, SHARED + rng.integers(0, GROUPS, count)] = 1.0
    return found


@pytest.fixture
def arrow() -> tuple:
    """Give Jacobians of records, their information and its structure."""
    rows = records(np.random.default_rng(1), 200)
    information = np.einsum("nip,niq->pq", rows, rows) / 200 + 1e-3 * np.eye(SIZE)
    return rows, information, read_structure([rows])


def test_groups_are_eliminated_before_what_all_records_share(arrow):
    *_, structure = arrow
    assert set(structure.order[:GROUPS]) == set(range(SHARED, SIZE))
    assert structure.entries == GROUPS + GROUPS * SHARED + SHARED * (SHARED + 1) // 2
    assert not structure.is_full


def test_what_a_record_adds_keeps_the_zeros_in_the_metric(arrow):
    rows, information, structure = arrow
    metric, root = structure.metric(information)
    np.testing.assert_allclose(metric @ information @ metric.T, np.eye(SIZE), atol=1e-6)
    np.testing.assert_allclose(metric @ root, np.eye(SIZE), atol=1e-6)
    for row in rows[:20]:
        vector = metric @ row[0]
        added = np.outer(vector, vector)
        np.testing.assert_array_equal(structure.known(added), added)


def test_a_symmetric_root_would_lose_them(arrow):
    rows, information, structure = arrow
    vector = matrix_power(information, -0.5) @ rows[0, 0]
    added = np.outer(vector, vector)
    assert np.abs(structure.known(added) - added).max() > 0.01


def test_parameters_that_all_meet_have_the_symmetric_root():
    structure = structure_of(np.ones((3, 3), dtype=bool))
    information = np.diag([1.0, 4.0, 9.0]) + 0.5
    assert structure.is_full
    np.testing.assert_array_equal(structure.metric(information)[0], matrix_power(information, -0.5))


def test_what_is_reached_through_later_parameters_has_no_zeros():
    """In a chain 0 - 1 - 2 - 3 the ends are eliminated first, and W mixes what lies behind them."""
    chain = np.eye(4, dtype=bool)
    chain[0, 1] = chain[1, 2] = chain[2, 3] = True
    structure = structure_of(chain)
    information = np.eye(4) * 2.0 + chain + chain.T
    metric, _ = structure.metric(information)
    for k in range(3):
        vector = metric[:, k] + metric[:, k + 1]
        assert np.abs(np.outer(vector, vector) * ~structure.pairs).max() == 0.0


@pytest.mark.parametrize("zeros", [False, True])
def test_noise_of_a_curvature_has_the_covariance_of_simulated_noise(zeros):
    """Without zeros it is that of `RoundNoise`; with them it is less, as simulated."""
    rng = np.random.default_rng(2)
    rounds, k, p, sd = 3, 2, 4, 0.7
    scaling, projection = rng.standard_normal((rounds, p, p)), rng.standard_normal((rounds, k, p))
    means = rng.standard_normal((rounds, p))
    pairs = np.ones((p, p), dtype=bool)
    if zeros:
        pairs[0, 1] = pairs[1, 0] = pairs[2, 3] = pairs[3, 2] = False
    noise = StructuredNoise(sd, scaling, projection, pairs)
    found = noise.covariance(means[None])[0]
    whole = RoundNoise(sd, scaling, projection, common=True).covariance(means[None])[0]
    if not zeros:
        np.testing.assert_allclose(found, whole)
        return
    raw = rng.standard_normal((40_000, p, p)) * sd / np.sqrt(2.0)
    symmetric = np.where(pairs, (raw + np.swapaxes(raw, 1, 2)) / np.sqrt(2.0), 0.0)
    scaled = np.einsum("tab,tb->ta", scaling, means)
    added = np.einsum("tka,sab,tb->sk", projection, symmetric, scaled)
    np.testing.assert_allclose(found, added.T @ added / len(added), rtol=0.05)
    assert np.trace(whole - found) > 0.0


def test_slopes_of_that_covariance_are_its_derivatives():
    rng = np.random.default_rng(4)
    noise = StructuredNoise(
        0.5,
        rng.standard_normal((2, 3, 3)),
        rng.standard_normal((2, 2, 3)),
        np.array([[True, True, False], [True, True, True], [False, True, True]]),
    )
    means, step, outer = rng.standard_normal((2, 3)), 1e-6, np.array([[1.0, 0.3], [0.3, -2.0]])
    _, pullback = noise(means)
    slopes = pullback(outer)
    for at in range(means.size):
        shift = np.zeros(means.size)
        shift[at] = step
        ends = [noise.covariance((means + s * shift.reshape(2, 3))[None])[0] for s in (1, -1)]
        assert ((ends[0] - ends[1]) * outer).sum() / (2 * step) == pytest.approx(slopes[at])


@pytest.mark.parametrize("kind", ["structured", "common", "each round by itself"])
def test_the_sum_of_covariances_is_that_of_each(kind):
    """It makes no covariance of one of the means, nor of numbers that two rounds do not share."""
    rng, pilots = np.random.default_rng(5), 2 if kind == "each round by itself" else 3
    scaling, roots = rng.standard_normal((2, pilots, 4, 4))
    means, projection = rng.standard_normal((6, 3, 4)), rng.standard_normal((3, 5, 4))
    pairs = None
    blocks = projection[:pilots] @ roots
    if kind == "structured":
        pairs = np.eye(4, dtype=bool)
        pairs[-1] = pairs[:, -1] = True
        noise = StructuredNoise(0.7, scaling, blocks, pairs)
    else:
        noise = RoundNoise(0.7, scaling, blocks, common=kind == "common")
    whole = NoiseOfRounds(0.7, scaling, roots, pairs, common=pilots == 3).total(means)
    wide = np.moveaxis(projection, 0, 1).reshape(5, -1)
    np.testing.assert_allclose(wide @ whole @ wide.T, noise.covariance(means).sum(axis=0))


def test_that_covariance_as_a_graph_is_the_same():
    """For backends that cannot call NumPy, and for second derivatives."""
    rng = np.random.default_rng(6)
    pairs = np.eye(4, dtype=bool)
    pairs[-1] = pairs[:, -1] = True
    scaling, projection = rng.standard_normal((3, 4, 4)), rng.standard_normal((3, 2, 4))
    noise, means = StructuredNoise(0.7, scaling, projection, pairs), rng.standard_normal((3, 4))
    found = noise.symbolic(pt.constant(means)).eval()
    np.testing.assert_allclose(found, noise.covariance(means[None])[0])
