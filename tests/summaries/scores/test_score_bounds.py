"""The choice of clipping bounds: what noise it is for, and who wins among near equals."""

import numpy as np

from pymc_private.summaries.scores.clipped_scores import clip_rows, score_rows
from pymc_private.summaries.scores.score_bounds import (
    JOINT_LOSS,
    PILOT_LOSS,
    WIDER,
    joint_bounds,
    pilot_bound,
    weighted_quantile,
)
from tests.summaries.score_models import Normal

RNG = np.random.default_rng(3)
N, P = 1000.0, 5
ROWS = {"x": RNG.uniform(-1, 1, (64, 3))}
WEIGHTS = np.full(64, N / 64)


def never(_):
    """Noise of all rounds together, which no bound makes small."""
    return 1e9


def setting():
    model = Normal(np.zeros(P), np.ones(P))
    scored = score_rows(model, np.array([0.1, 0.5, -0.5, 0.2, -0.3]), ROWS)
    metric, root = scored.metric(WEIGHTS / N)
    np.testing.assert_allclose(metric @ root, np.eye(P), atol=1e-10)
    return scored.framed(metric), metric @ metric


def test_in_its_metric_a_record_has_unit_information():
    frame, _ = setting()
    curvature, second = clip_rows(frame, 1e9).moments(WEIGHTS / N)
    np.testing.assert_allclose(curvature, np.eye(P), atol=1e-9)
    np.testing.assert_allclose(second, np.eye(P), atol=1e-9)


def test_more_noise_asks_for_a_smaller_bound():
    frame, prior = setting()
    found = [
        pilot_bound(frame, WEIGHTS, prior, lambda bound, mu=mu: 2 * bound / mu, never)
        for mu in (0.01, 0.1, 1.0, 1e4)
    ]
    shares = [choice.quantile for choice in found]
    assert shares == sorted(shares)
    assert shares[0] < shares[-1] == 2.0
    assert [c.log_det for c in found] == sorted(c.log_det for c in found)


def test_the_largest_bounds_within_the_loss_are_taken():
    frame, prior = setting()
    spread = 0.02 * np.eye(P)

    def noise(bound):
        return 2 * bound / 0.15

    def curvature_noise(bound):
        return np.sqrt(2) * bound / 0.09

    choice = joint_bounds(frame, WEIGHTS, prior, spread, noise, curvature_noise, never)

    def log_det(bound, weight_bound):
        curvature, second = clip_rows(frame, bound, weight_bound).moments(WEIGHTS)
        tau = curvature_noise(weight_bound)
        sd = noise(bound) ** 2 + tau**2 / 2 * np.trace(spread)
        covariance = second + sd * np.eye(P) + tau**2 / 2 * spread
        return np.linalg.slogdet(prior + curvature @ np.linalg.solve(covariance, curvature))[1]

    np.testing.assert_allclose(log_det(choice.bound, choice.weight_bound), choice.log_det)
    norms = np.quantile(frame.norms(), [0.1, 0.3, 0.5, 0.7, 0.9])
    rivals = [log_det(c, k) for c in norms for k in np.geomspace(0.3, 3, 8) * choice.weight_bound]
    assert choice.log_det > max(rivals) - JOINT_LOSS - 0.2  # rivals are not on the same grid
    public = joint_bounds(frame, WEIGHTS, prior, spread, noise, None, never)
    assert public.weight_bound == np.inf
    assert public.log_det >= choice.log_det
    exact = joint_bounds(frame, WEIGHTS, prior, spread, lambda _: 1e-9, lambda _: 1e-9, never)
    assert (exact.quantile, exact.weight_quantile) == (4.0, 4.0)  # nothing is clipped
    assert PILOT_LOSS > JOINT_LOSS


def test_of_many_records_a_clip_is_not_worth_its_bias():
    """Noise of all rounds that widens intervals little: no clip, whatever one round would gain."""
    frame, prior = setting()
    weights, spread = 100.0 * WEIGHTS, 1e-4 * np.eye(P)

    def noise(bound):
        return 2 * bound / 0.02

    def together(bound):
        return 2 * bound / 0.3

    clipped = [
        pilot_bound(frame, weights, prior, noise, never),
        joint_bounds(frame, weights, prior, spread, noise, None, never),
    ]
    found = [
        pilot_bound(frame, weights, prior, noise, together),
        joint_bounds(frame, weights, prior, spread, noise, None, together),
    ]
    assert all(c.quantile < 0.9 < f.quantile for c, f in zip(clipped, found, strict=True))
    whole, second = clip_rows(frame, 1e9).moments(weights)
    for choice in found:
        curvature, clipped_second = clip_rows(frame, choice.bound).moments(weights)
        covariance = clipped_second + together(choice.bound) ** 2 * np.eye(P)
        precision = prior + curvature @ np.linalg.solve(covariance, curvature)
        exact = prior + whole @ np.linalg.solve(second, whole)
        wider = np.linalg.slogdet(exact)[1] - np.linalg.slogdet(precision)[1]
        assert wider <= 2 * P * np.log(WIDER) + 1e-9


def test_weighted_quantiles():
    values, weights = np.array([3.0, 1.0, 2.0]), np.array([0.5, 0.25, 0.25])
    assert [weighted_quantile(values, weights, q) for q in (0.0, 0.25, 0.3, 0.5, 0.51, 1.0)] == [
        1.0, 1.0, 2.0, 2.0, 3.0, 3.0,
    ]  # fmt: skip
