"""The local model: every user's draw is private, and averages over users can be undone."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from pymc_private import Ledger
from pymc_private.errors import DomainError
from pymc_private.mollifiers import LocalSampler, local_model
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import proportion

K = 5
UNIFORM = np.full(K, 1 / K)
RESPONSE = LocalSampler(UNIFORM, 1.0, kind="response")


@pytest.mark.parametrize("window", ["symmetric", "minimax", 0.3])
@pytest.mark.parametrize("kind", ["clip", "response"])
def test_any_two_holdings_are_within_epsilon(window, kind):
    sampler = LocalSampler(UNIFORM, 1.0, window=window, kind=kind)
    rng = np.random.default_rng(0)
    holdings = [*np.eye(K), *rng.dirichlet(np.full(K, 0.1), size=30)]
    laws = np.log([sampler.distribution(h).probabilities for h in holdings])
    assert (laws.max(axis=0) - laws.min(axis=0)).max() <= 1.0 + 1e-9


def test_the_minimax_window_is_randomized_response_for_users_with_one_category():
    law = LocalSampler(UNIFORM, 1.0, window="minimax").distribution(np.eye(K)[2]).probabilities
    assert law[2] == pytest.approx(math.e / (math.e + K - 1), abs=1e-9)
    assert np.delete(law, 2) == pytest.approx(1 / (math.e + K - 1), abs=1e-9)


def test_a_user_may_hold_a_law_rows_counts_or_a_sampler():
    sampler = LocalSampler({"a": 0.5, "b": 0.25, "c": 0.25}, 2.0)
    held = [0.5, 0.5, 0.0], ["a", "b", "a", "b"], {"a": 1, "b": 1}, lambda n: ["a", "b"] * (n // 2)
    laws = [sampler.distribution(holding).probabilities for holding in held]
    for law in laws[1:]:
        np.testing.assert_allclose(law, laws[0], atol=1e-12)


def test_a_law_that_may_be_called_is_a_law_and_no_sampler():
    kernel = stats.gaussian_kde(np.random.default_rng(3).normal(1, 0.5, 200))
    law = LocalSampler(stats.norm(), 2.0).distribution(kernel)
    assert law.log_ratio(1.0) > 0.5
    assert law.log_ratio(-2.0) < -0.9


def test_aggregation_undoes_the_response_of_many_users():
    truth = np.array([0.5, 0.3, 0.1, 0.1, 0.0])
    sampler = LocalSampler(UNIFORM, 2.0, kind="response", window="minimax")
    draws = sampler.collect([truth] * 4000, progressbar=False, random_seed=1)
    assert np.abs(draws.aggregate() - truth).sum() < 0.2
    assert np.abs(draws.aggregate("plain") - truth).sum() > 0.3  # shrunk toward the reference
    released = truth @ sampler._channel
    assert np.abs(draws.frequencies() - released).max() <= draws.margin(1e-9)
    assert not draws.private
    assert draws.guarantee.pure_epsilon == math.inf


def test_users_with_numbers_send_numbers():
    sampler = LocalSampler(stats.norm(), 2.0, estimate="histogram")
    rng = np.random.default_rng(2)
    draws = sampler.collect([rng.normal(1, 0.3, 40) for _ in range(12)], progressbar=False)
    assert draws.values.shape == (12, 1)
    assert -3.0 < draws.values.mean() < 3.0
    assert np.isfinite(draws.density()(np.array([[0.5]]))).all()


def test_each_user_has_a_ledger_of_their_own():
    budget = Ledger(epsilon=1, neighbors="any")
    release = LocalSampler(UNIFORM, 1.0).release(UNIFORM, ledger=budget, progressbar=False)
    assert release.posterior.sizes["draw"] == 1
    assert budget.left.epsilon == 0


def test_what_is_printed_of_users_is_short_and_shows_no_draw():
    draws = LocalSampler([0.25] * 4, 2.0).collect([[0.7, 0.1, 0.1, 0.1]] * 50, progressbar=False)
    assert repr(draws).splitlines()[0] == "LocalDraws: one draw of each of 50 users"
    assert "2 nats" in repr(draws)
    assert "2 nats" in repr(draws.sampler)
    seeded = draws.sampler.collect([[0.7, 0.1, 0.1, 0.1]], progressbar=False, random_seed=1)
    assert "NOT private" in repr(seeded)


def test_a_user_with_one_number_is_told_what_to_hold():
    with pytest.raises(DomainError, match="a public width"):
        LocalSampler(stats.norm(), 1.0).distribution([1.3])
    law = LocalSampler(stats.norm(), 1.0).distribution(stats.norm(1.3, 0.2))
    assert law.log_ratio(1.3) == pytest.approx(0.5)


def test_the_baselines_tell_the_truth_as_often_as_they_say():
    n, source = 20_000, SeededRandomness.from_seed(3)
    told = local_model.randomized_response(np.full(n, 2), K, 1.0, source)
    assert proportion(int((told == 2).sum()), n, math.e / (math.e + K - 1)).passes
    assert proportion(int((told == 0).sum()), n, 1 / (math.e + K - 1)).passes
    assert local_model.invert_randomized_response(told, K, 1.0)[2] > 0.9
    noisy = local_model.clipped_laplace(np.full(n, 9.0), 0.0, 1.0, 2.0, source)
    assert proportion(int((noisy > 1.0).sum()), n, 0.5).passes
    assert proportion(int((noisy > 1.5).sum()), n, 0.5 * math.exp(-1.0)).passes


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LocalSampler(UNIFORM, 0.0), "epsilon"),
        (lambda: LocalSampler(UNIFORM, 1.0, kind="loud"), "kind="),
        (lambda: LocalSampler(stats.norm(), 1.0, window="minimax"), "finite references"),
        (lambda: LocalSampler(stats.norm(), 1.0, kind="response"), "finite references"),
        (lambda: LocalSampler(UNIFORM, 1.0).collect([]), "no value of a user"),
        (lambda: LocalSampler(UNIFORM, 1.0).distribution([7, 8]), "no such category"),
        (lambda: RESPONSE.distribution([1.5, -0.5, 0.0, 0.0, 0.0]), "holds probabilities"),
        (lambda: RESPONSE.distribution({0: math.nan, 1: 1.0}), "holds probabilities"),
        (lambda: RESPONSE.distribution({0: -1, 1: 2}), "holds probabilities"),
        (lambda: RESPONSE.distribution({0: 0}), "holds probabilities"),
        (lambda: RESPONSE.distribution([]), "holds nothing"),
        (lambda: RESPONSE.distribution(lambda n: np.zeros(0)), "holds nothing"),
    ],
)
def test_bad_input_gets_a_clear_error(make, message):
    with pytest.raises(DomainError, match=message):
        make()


@pytest.mark.parametrize(
    ("holding", "message"),
    [
        ({0: -1.0, 1: -3.0}, ">= 0"),
        ({0: 0.0, 1: 0.0}, ">= 0"),
        (np.ma.array([0, 1, 2], mask=[1, 0, 0]), "without a mask"),
    ],
)
def test_what_is_no_mass_is_refused(holding, message):
    with pytest.raises(DomainError, match=message):
        LocalSampler([0.5, 0.3, 0.2], 1.0).distribution(holding)
