"""The statistical tests have the error rates they state, and catch planted faults."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import pytest
from scipy import stats

from tests.audit.rates import RUNS, how_often, within
from tests.statistics import cdf_envelope, mean_envelope, neighbors_agree, proportion

N = 300
RATES = {"false_alarm": 0.1, "power": 0.8}
SKEWED = stats.beta(0.3, 2.0)
COUNTS = stats.poisson(2.0)


def uniform_cdf(x: np.ndarray) -> np.ndarray:
    return np.clip(x, 0.0, 1.0)


RIGHT = {
    "cdf": lambda rng: cdf_envelope(rng.random(N), uniform_cdf, **RATES),
    "cdf with jumps": lambda rng: cdf_envelope(
        COUNTS.rvs(N, random_state=rng), COUNTS.cdf, **RATES
    ),
    "mean": lambda rng: mean_envelope(rng.random(N), 0.5, bounds=(0, 1), **RATES),
    "mean of known deviation": lambda rng: mean_envelope(
        SKEWED.rvs(N, random_state=rng), SKEWED.mean(), bounds=(0, 1), deviation=SKEWED.std(),
        **RATES,
    ),
    "mean of coins": lambda rng: mean_envelope(
        rng.random(N) < 0.05, 0.05, bounds=(0, 1), **RATES
    ),
    "proportion": lambda rng: proportion(int(rng.binomial(N, 0.2)), N, 0.2, **RATES),
    "neighbors": lambda rng: neighbors_agree(rng.random(N), 0.5, **RATES),
}  # fmt: skip


@pytest.mark.thin(8)
@pytest.mark.parametrize("test", RIGHT.values(), ids=RIGHT.keys())
def test_right_code_is_rejected_no_more_often_than_stated(test):
    assert within(how_often(lambda rng: not test(rng).passes), 0.1)


@pytest.mark.thin(2)
@pytest.mark.parametrize("name", ["cdf", "proportion", "neighbors"])
def test_a_band_a_third_too_narrow_would_reject_more_often_than_stated(name):
    # The simulation above can tell: these bands are sharp.
    def narrow(rng):
        verdict = RIGHT[name](rng)
        return not dataclasses.replace(verdict, tolerated=verdict.tolerated / 1.5).passes

    assert not within(how_often(narrow), 0.1)


@functools.cache
def visible(name: str) -> float:
    return RIGHT[name](np.random.default_rng(0)).detects


def shifted(rng):
    """Uniform draws of which just the detectable share was moved to zero."""
    return cdf_envelope(np.maximum(rng.random(N) - visible("cdf"), 0.0), uniform_cdf, **RATES)


def raised(rng):
    """Coins on 0 and 1, the hardest law of their mean, which is off by the detectable shift."""
    coins = rng.random(N) < 0.5 + visible("mean")
    return mean_envelope(coins, 0.5, bounds=(0, 1), **RATES)


def biased(rng):
    return proportion(int(rng.binomial(N, 0.2 + visible("proportion"))), N, 0.2, **RATES)


def sticky(rng):
    """Draws that agree with the one before more often, by just the detectable shift."""
    turns = rng.random(N - 1) > 0.5 + visible("neighbors")
    sides = np.concatenate([[0], np.cumsum(turns)]) % 2
    return neighbors_agree(sides + rng.random(N) / 2, 0.75, **RATES)


@pytest.mark.thin(4)
@pytest.mark.parametrize("test", [shifted, raised, biased, sticky])
def test_a_defect_of_the_stated_size_is_missed_no_more_often_than_stated(test):
    assert within(how_often(lambda rng: test(rng).passes), 0.2)


def test_a_shift_towards_an_edge_that_is_too_near_is_said_to_be_invisible():
    assert mean_envelope(np.zeros(N), 0.01, bounds=(0, 1)).detects == np.inf
    assert proportion(1, 3, 0.5).detects == np.inf


NOISE = stats.laplace(scale=1.0)


def test_noise_halved_is_caught_by_each_tool_on_any_seed():
    draws = NOISE.rvs(20_000, random_state=np.random.default_rng(3))
    size = {"bounds": (0, 4), "deviation": 1.0}
    expected = 1 - np.exp(-4)  # of min(|noise|, 4)

    def verdicts(noise):
        return [
            cdf_envelope(noise, NOISE.cdf),
            mean_envelope(np.minimum(np.abs(noise), 4), expected, **size),
            proportion(int(np.sum(np.abs(noise) > 1)), noise.size, np.exp(-1)),
        ]

    assert all(verdict.passes for verdict in verdicts(draws))
    halved = verdicts(draws / 2)
    assert all(verdict.seen > verdict.tolerated for verdict in halved)
    assert [v.fails_on_any_seed for v in halved] == [True, True, True]


def test_range_halved_is_caught_by_each_tool_on_any_seed():
    # Two-point posterior: the record's log likelihoods differ by R = 2 instead of 4.
    rng, n, right = np.random.default_rng(4), 20_000, 1 / (1 + np.exp(-2.0))
    for likelier, passes in ((right, True), (1 / (1 + np.exp(-1.0)), False)):
        draws = rng.random(n) < likelier
        found = [
            cdf_envelope(draws, lambda x: np.where(x < 0, 0.0, np.where(x < 1, 1 - right, 1.0))),
            mean_envelope(draws, right, bounds=(0, 1)),
            proportion(int(draws.sum()), n, right),
        ]
        assert [v.passes for v in found] == [passes] * 3
        assert [v.fails_on_any_seed for v in found] == [not passes] * 3


def test_draws_that_repeat_are_caught():
    repeated = np.repeat(np.random.default_rng(5).random(2000), 2)
    assert neighbors_agree(repeated, 0.5).fails_on_any_seed


def test_smaller_rates_cost_more_draws_or_see_less():
    draws = np.random.default_rng(1).random(1000)
    for tool in (
        functools.partial(cdf_envelope, cdf=uniform_cdf),
        functools.partial(mean_envelope, expected=0.5, bounds=(0, 1)),
        functools.partial(neighbors_agree, median=0.5),
    ):
        coarse, fine = tool(draws, false_alarm=1e-12), tool(draws, false_alarm=1e-8)
        assert coarse.tolerated > fine.tolerated
        assert coarse.detects > fine.detects
        assert tool(np.tile(draws, 4)).detects < fine.detects


def test_a_known_deviation_sharpens_the_mean_test():
    draws = SKEWED.rvs(RUNS, random_state=np.random.default_rng(6))
    ignorant = mean_envelope(draws, SKEWED.mean(), bounds=(0, 1))
    informed = mean_envelope(draws, SKEWED.mean(), bounds=(0, 1), deviation=SKEWED.std())
    assert informed.tolerated < 0.75 * ignorant.tolerated
    assert informed.seen == ignorant.seen
