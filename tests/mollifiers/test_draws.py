"""T15c: draws are exact, and an audit of k of them finds what is promised and no more.

Each statistical test pays its false alarm from the suite's allowance; the planted faults must be
caught at the same rates.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pymc_private import Guarantee
from pymc_private.errors import Unsupported
from pymc_private.mollifiers import mollify
from pymc_private.mollifiers.mollified_distributions import (
    PublicPool,
    Tilted,
    WeightedPoints,
    check_rejection_effort,
    rejection_draws,
)
from pymc_private.mollifiers.references import QuantileReference
from pymc_private.samplers.randomness import SeededRandomness, SystemRandomness
from tests.statistics import cdf_envelope, epsilon_lower_bound, proportion

N = 20_000


def seeded(seed: int = 1) -> SeededRandomness:
    return SeededRandomness.from_seed(seed)


def test_a_finite_law_is_drawn_with_its_probabilities():
    law = mollify([0.7, 0.2, 0.1, 0.0], [0.25, 0.25, 0.3, 0.2], 1.5)
    drawn = rejection_draws(law._distribution, N, seeded())[:, 0]
    for category, probability in enumerate(law.probabilities):
        assert proportion(int((drawn == category).sum()), N, float(probability)).passes
    raw = int((drawn == 0).sum())
    assert not proportion(raw, N, 0.7).passes  # the target itself is another law


@pytest.mark.parametrize("kind", ["clip", "tilt"])
def test_a_continuous_law_is_drawn_as_its_density_says(kind):
    target = stats.norm(0.7, 0.3)
    law = mollify(target, stats.norm(), 2.0, kind=kind)
    x = np.linspace(-9, 9, 200_001)
    density = stats.norm.pdf(x) * np.exp(law.log_ratio(x))
    cdf = np.cumsum(density) / density.sum()
    if kind == "clip":
        assert density.sum() * (x[1] - x[0]) == pytest.approx(1.0, abs=1e-5)
    drawn = rejection_draws(law._distribution, N, seeded())[:, 0]
    assert cdf_envelope(drawn, lambda t: np.interp(t, x, cdf), slack=1e-4).passes
    assert not cdf_envelope(drawn, target.cdf).passes


def test_proposals_have_the_law_that_weights_are_normalized_for():
    table = WeightedPoints(np.array([1e-3, 0.3, 0.0, 0.699]))
    assert table.mass.sum() == 1.0
    assert table.mass[2] == 0.0
    assert (table.mass * 2.0**52 == np.round(table.mass * 2.0**52)).all()
    drawn = table.propose(N, SystemRandomness())
    assert proportion(int((drawn == 1).sum()), N, 0.3).passes


def test_weights_that_are_no_numbers_are_least_likely_and_raise_nothing():
    law = Tilted(
        QuantileReference([stats.norm()]), lambda x: np.where(x[:, 0] > 0, np.nan, 9.0), 0.5
    )
    drawn = rejection_draws(law, N, seeded())[:, 0]
    odds = math.exp(0.5)
    assert proportion(int((drawn < 0).sum()), N, odds / (odds + 1 / odds)).passes


def test_what_would_never_end_is_refused_by_public_numbers():
    pool = PublicPool(np.zeros((4, 1)))
    pool.weigh(np.zeros(4), 20.0, math.exp(20.0))
    with pytest.raises(Unsupported, match="too many proposals"):
        check_rejection_effort(pool, 1000)


def worst_pair(epsilon: float, k: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """k draws each from the two laws that T15b calls worst."""
    q = 1 / (1 + math.exp(epsilon / 2))
    reference = [q, q, 1 - 2 * q]
    laws = [mollify(target, reference, epsilon)._distribution for target in ([1, 0, 0], [0, 1, 0])]
    first, second = (rejection_draws(law, k * n, seeded(7)).reshape(n, k) for law in laws)
    return first, second


def loss(x: np.ndarray) -> np.ndarray:
    return (x == 0).sum(axis=1) - (x == 1).sum(axis=1).astype(float)


@pytest.mark.parametrize(("k", "delta"), [(1, 0.0), (4, 0.01)])
def test_k_draws_cost_what_is_promised_and_hardly_less(k, delta):
    promised = Guarantee.mollifier_of(1.0, k, neighbors="any")
    bound = epsilon_lower_bound(*worst_pair(1.0, k, 100_000), delta=delta, score=loss)
    assert not bound.refutes(promised)
    assert bound.epsilon >= 0.85 * promised.epsilon(delta)


@pytest.mark.parametrize(("k", "delta"), [(1, 0.0), (5, 0.01)])
def test_k_draws_of_a_tilt_cost_at_most_what_is_promised(k, delta):
    """On a skewed reference the normalizers differ, and nearly all of epsilon shows."""
    promised = Guarantee.bounded_range_of(1.0, k, neighbors="any")
    targets, n = ([1.0, 0.0], [0.0, 1.0]), 100_000
    laws = [mollify(target, [0.2, 0.8], 1.0, kind="tilt")._distribution for target in targets]
    pair = [rejection_draws(law, k * n, seeded(11)).reshape(n, k) for law in laws]
    bound = epsilon_lower_bound(*pair, delta=delta, score=lambda x: (x == 0).sum(axis=1) * 1.0)
    assert not bound.refutes(promised)
    assert bound.epsilon >= 0.55 * promised.epsilon(delta)


def test_the_audit_catches_a_missing_clip_and_a_clip_that_is_renormalized():
    reference = np.array([0.05, 0.05, 0.9])
    rng = np.random.default_rng(2)

    def outputs(law: np.ndarray) -> np.ndarray:
        return rng.choice(3, size=50_000, p=law)[:, None]

    def renormalized(target: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            made = reference * np.exp(np.clip(np.log(target / reference), -0.5, 0.5))
        return made / made.sum()

    targets = np.array([0.98, 0.01, 0.01]), np.array([0.01, 0.01, 0.98])
    score = lambda x: -x[:, 0].astype(float)  # noqa: E731
    for faulty in (lambda target: target, renormalized):
        samples = [outputs(faulty(target)) for target in targets]
        assert epsilon_lower_bound(*samples, score=score).refutes(1.0)
    right = [outputs(mollify(target, reference, 1.0).probabilities) for target in targets]
    assert not epsilon_lower_bound(*right, score=score).refutes(1.0)
