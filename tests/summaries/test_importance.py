"""Importance sampling against densities whose moments are known."""

import numpy as np

from pymc_private.summaries.importance import WeightedDraws, importance_draws

COVARIANCE = np.array([[4.0, 1.5], [1.5, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)


def normal(points):
    away = points - [3.0, -2.0]
    return -0.5 * np.einsum("si,ij,sj->s", away, PRECISION, away)


def test_moments_and_quantiles_of_a_normal_from_a_poor_start():
    rng = np.random.default_rng(1)
    found = importance_draws(normal, np.zeros(2), 0.1 * np.eye(2), rng, draws=4000)
    assert found.effective > 2000
    np.testing.assert_allclose(found.mean, [3.0, -2.0], atol=0.15)
    np.testing.assert_allclose(found.covariance, COVARIANCE, rtol=0.15)
    low, high = found.quantiles([0.05, 0.95])
    np.testing.assert_allclose(high - low, 2 * 1.645 * found.sd, rtol=0.1)


def test_skewed_tails_and_points_without_density():
    def log_gamma(points):  # of a gamma(3) variable's logarithm; nothing above 20
        logs = 3 * points[:, 0] - np.exp(points[:, 0])
        return np.where(points[:, 0] > 3.0, np.nan, logs)

    rng = np.random.default_rng(2)
    found = importance_draws(log_gamma, np.array([0.0]), np.array([[1.0]]), rng, draws=4000)
    assert abs(found.weights @ np.exp(found.points[:, 0]) - 3.0) < 0.15
    assert not found.weights[found.points[:, 0] > 3.0].any()


def test_a_density_that_is_nowhere_gives_few_effective_draws_not_an_error():
    rng = np.random.default_rng(3)
    found = importance_draws(
        lambda t: np.full(len(t), np.nan), np.zeros(2), np.eye(2), rng, draws=50
    )
    assert np.isfinite(found.mean).all()
    lone = WeightedDraws(np.arange(6.0).reshape(3, 2), np.array([0.0, 1.0, 0.0]))
    assert lone.effective == 1.0
    np.testing.assert_array_equal(lone.quantiles([0.1, 0.9]), [[2.0, 3.0], [2.0, 3.0]])


def test_a_round_with_draws_enough_is_the_last_one():
    counts = []

    def counted(points):
        counts.append(len(points))
        return normal(points)

    start = np.array([3.0, -2.0]), COVARIANCE
    few, many = (
        importance_draws(counted, *start, np.random.default_rng(4), 2000, climb=False, enough=least)
        for least in (500.0, 1e9)
    )
    assert counts == [1000, 1000, 1000, 1000, 1000, 2000]
    assert 500.0 <= few.effective <= 1000.0 < many.effective
    np.testing.assert_allclose(few.mean, [3.0, -2.0], atol=0.3)
