"""The statistical tests have the error rates they state."""

from __future__ import annotations

import numpy as np
import pytest

from tests import statistics
from tests.statistics import Allowance, cdf_envelope, neighbors_agree, proportion

RUNS = 400


def uniform_cdf(x: np.ndarray) -> np.ndarray:
    return np.clip(x, 0.0, 1.0)


def rejections(test) -> int:
    """How many of RUNS runs reject; they are no alarms of the suite and cost it nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "SESSION", Allowance(np.inf))
        return sum(not test(np.random.default_rng(seed)).passes for seed in range(RUNS))


def within(count: int, most: float) -> bool:
    """Whether a count of RUNS trials fits a probability of `most` or less."""
    verdict = proportion(count, RUNS, most)
    return count <= most * RUNS or verdict.passes


@pytest.mark.parametrize(
    "test",
    [
        lambda rng, **rates: cdf_envelope(rng.random(500), uniform_cdf, **rates),
        lambda rng, **rates: proportion(int(rng.binomial(500, 0.2)), 500, 0.2, **rates),
        lambda rng, **rates: neighbors_agree(rng.random(500), 0.5, **rates),
    ],
    ids=["cdf", "proportion", "neighbors"],
)
def test_right_code_is_rejected_no_more_often_than_stated(test):
    assert within(rejections(lambda rng: test(rng, false_alarm=0.1)), 0.1)


def shifted(rng: np.random.Generator) -> statistics.Verdict:
    """Uniform draws of which just the detectable share was moved to zero."""
    rates = {"false_alarm": 0.05, "power": 0.8}
    share = cdf_envelope(rng.random(500), uniform_cdf, **rates).detects
    return cdf_envelope(np.maximum(rng.random(500) - share, 0.0), uniform_cdf, **rates)


def biased(rng: np.random.Generator) -> statistics.Verdict:
    rates = {"false_alarm": 0.05, "power": 0.8}
    shift = proportion(100, 500, 0.2, **rates).detects
    return proportion(int(rng.binomial(500, 0.2 + shift)), 500, 0.2, **rates)


def sticky(rng: np.random.Generator) -> statistics.Verdict:
    """Draws that agree with the one before more often, by just the detectable shift."""
    rates = {"false_alarm": 0.05, "power": 0.8}
    shift = neighbors_agree(rng.random(500), 0.5, **rates).detects
    turns = rng.random(499) > 0.5 + shift
    sides = np.concatenate([[0], np.cumsum(turns)]) % 2
    return neighbors_agree(sides + rng.random(500) / 2, 0.75, **rates)


@pytest.mark.parametrize("test", [shifted, biased, sticky])
def test_a_defect_of_the_stated_size_is_missed_no_more_often_than_stated(test):
    assert within(RUNS - rejections(test), 0.2)


def test_smaller_rates_cost_more_draws_or_see_less():
    draws = np.random.default_rng(1).random(1000)
    coarse = cdf_envelope(draws, uniform_cdf, false_alarm=1e-12)
    fine = cdf_envelope(draws, uniform_cdf, false_alarm=1e-8)
    assert coarse.tolerated > fine.tolerated
    assert coarse.detects > fine.detects
    assert cdf_envelope(np.tile(draws, 4), uniform_cdf).detects < fine.detects


def test_an_impossible_power_is_said_to_be_one():
    assert proportion(1, 3, 0.5).detects == np.inf


def test_the_allowance_cannot_be_overdrawn():
    allowance = Allowance(1e-6)
    for _ in range(999):
        allowance.spend(1e-9)
    with pytest.raises(AssertionError, match="1000 statistical tests"):
        allowance.spend(2e-9)


def test_each_test_pays_from_the_session():
    before = len(statistics.SESSION.spent)
    cdf_envelope(np.linspace(0.01, 0.99, 50), uniform_cdf)
    proportion(25, 50, 0.5)
    neighbors_agree(np.random.default_rng(3).random(50), 0.5)
    assert len(statistics.SESSION.spent) == before + 3
    assert statistics.SESSION.limit <= statistics.ALLOWANCE
