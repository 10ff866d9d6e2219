"""What a reviewer broke once: rounding at a bound, scores of a batch, grids, hostile numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from pymc_private.audit import (
    Allowance,
    cdf_envelope,
    epsilon_lower_bound,
    lattice_leak,
    mean_envelope,
    neighbors_agree,
    proportion,
)
from pymc_private.errors import DomainError

RNG = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def simulated():
    """Rates and attacks are simulated here: the allowance of the session does not pay for them."""
    with Allowance(math.inf):
        yield


# ---- means at a bound --------------------------------------------------------------------------
def test_a_mean_that_no_draw_can_exceed_never_alarms():
    """One or two draws at a bound: the exact distance equals what is tolerated."""
    chance = np.random.default_rng(3)
    for _ in range(1500):
        low = round(float(chance.normal()), 2)
        high = round(low + float(chance.exponential()) + 0.01, 2)
        expected = round(low + (high - low) * chance.random(), 3)
        if low < expected < high:
            for draws in ([low], [high], [low, low], [high, high]):
                verdict = mean_envelope(draws, expected, bounds=(low, high))
                assert verdict.passes, (low, high, expected, verdict)


def test_a_coin_of_unhandy_decimals_alarms_no_more_often_than_stated():
    chance = np.random.default_rng(9)
    for n, stated in ((1, 0.1), (2, 0.1), (5, 1e-3)):
        alarms = 0
        for _ in range(500):
            draws = np.where(chance.random(n) < 0.5, 0.02, -0.16)
            verdict = mean_envelope(draws, -0.07, bounds=(-0.16, 0.02), false_alarm=stated)
            alarms += not verdict.passes
        assert alarms <= 500 * stated + 5 * math.sqrt(500 * stated)


# ---- scores that look at their batch -----------------------------------------------------------
def alternating():
    calls = []

    def score(x):
        calls.append(1)
        return np.full(len(x), float(len(calls) % 2))

    return score


BATCH = {
    "mean": lambda: lambda x: np.full(len(x), x.mean()),
    "centered": lambda: lambda x: x[:, 0] - x.mean(),
    "largest": lambda: lambda x: np.full(len(x), x[:, 0].max()),
    "rank": lambda: lambda x: np.argsort(np.argsort(x[:, 0])) / len(x),
    "place": lambda: lambda x: np.arange(len(x)) / len(x),
    "alternating": alternating,
}


@pytest.mark.parametrize("name", BATCH)
def test_a_score_that_depends_on_its_batch_proves_nothing(name):
    for seed in range(20):
        p, q = np.random.default_rng(seed).normal(size=(2, 200))
        with pytest.raises(DomainError, match="one draw at a time"):
            epsilon_lower_bound(p, q, score=BATCH[name](), false_alarm=0.1)


class BatchNormalized:
    """A classifier left in its training mode."""

    def fit(self, X, y):
        """Learn nothing."""

    def predict_proba(self, X):
        high = 1 / (1 + np.exp(-X.mean() * np.ones(len(X))))
        return np.column_stack([1 - high, high])


def test_a_classifier_that_normalizes_its_batch_proves_nothing():
    p, q = RNG.normal(size=(2, 200))
    with pytest.raises(DomainError, match="one draw at a time"):
        epsilon_lower_bound(p, q, classifier=BatchNormalized(), false_alarm=0.1)


def test_a_score_of_one_draw_may_round_by_its_batch_and_be_infinite():
    p, q = RNG.normal(size=(2, 4000, 7))
    weights = RNG.normal(size=7)

    def score(x):
        found = x @ weights + 1e-13 * RNG.normal(size=len(x))
        return np.where(x[:, 0] > 2, np.inf, np.where(x[:, 0] < -2, -np.inf, found))

    assert epsilon_lower_bound(p + 2, q, score=score, false_alarm=0.01).epsilon > 0


# ---- grids -------------------------------------------------------------------------------------
@pytest.mark.parametrize("width", [0.1, 1 / 3, 0.3, 1e-3, math.pi, 2.0**-40])
@pytest.mark.parametrize("bits", [40, 50, 51, 52, 53])
def test_far_multiples_of_a_width_are_on_its_grid(width, bits):
    steps = np.random.default_rng(1).integers(2 ** (bits - 1), 2**bits, size=2000)
    assert lattice_leak(steps.astype(float) * width, width=width).off_grid == 0


def test_a_number_off_the_grid_by_one_bit_is_still_found():
    steps = np.random.default_rng(1).integers(1, 2**30, size=1000).astype(float)
    off = np.nextafter(steps * 0.1, np.inf)
    assert lattice_leak(off, width=0.1).off_grid == 1000


def test_a_lattice_test_pays_once_whatever_its_decimals():
    draws = np.arange(8.0)
    for stated in [1e-9 * k for k in range(1, 400, 7)]:
        with Allowance(stated) as session:
            lattice_leak(draws, draws, false_alarm=stated)
        assert session.spent == [stated]


# ---- numbers -----------------------------------------------------------------------------------
@pytest.mark.parametrize("value", [2**53, 2**60, -(2**60)])
def test_integers_that_doubles_do_not_tell_apart_are_refused(value):
    with pytest.raises(DomainError, match="tell apart"):
        epsilon_lower_bound(np.full(100, value), np.full(100, value + 1))
    largest = np.full(100, 2**53 - 1)
    assert epsilon_lower_bound(largest, largest).epsilon == 0


def test_unsigned_integers_that_doubles_do_not_tell_apart_are_refused():
    with pytest.raises(DomainError, match="tell apart"):
        epsilon_lower_bound(np.full(100, 2**64 - 1, np.uint64), np.zeros(100, np.uint64))


def test_masks_are_not_lost_but_refused():
    masked = np.ma.masked_array(np.ones(100), mask=[True] + [False] * 99)
    for use in (
        lambda: epsilon_lower_bound(masked, np.zeros(100)),
        lambda: mean_envelope(masked, 0.5, bounds=(0, 1)),
        lambda: lattice_leak(masked, width=1.0),
    ):
        with pytest.raises(DomainError, match="mask"):
            use()


@pytest.mark.parametrize("median", [math.nan, math.inf, -math.inf])
def test_a_median_is_a_number(median):
    with pytest.raises(DomainError, match="median"):
        neighbors_agree(RNG.random(50), median)


def test_more_trials_than_can_be_judged_are_refused_at_once():
    with pytest.raises(DomainError, match="too many trials"):
        proportion(5 * 10**17, 10**18, 0.5)
    assert proportion(5 * 10**11, 10**12, 0.5).passes


@pytest.mark.parametrize("spent", [[1.0], [-1.0], [0.0], [math.nan], [1e-9, 5e-7, 6e-7]])
def test_what_an_allowance_has_spent_is_checked(spent):
    with pytest.raises(DomainError):
        Allowance(1e-6, spent=spent)
    kept = [1e-9, 9e-7]
    assert Allowance(1e-6, spent=kept).spent == kept


def test_the_largest_doubles_overflow_nowhere():
    p, q = RNG.normal(size=(2, 4000)) * 4e307
    p, q = np.clip(p, -1.79e308, 1.79e308), np.clip(q, -np.finfo(float).max, np.finfo(float).max)
    q[:10] = np.finfo(float).max
    assert epsilon_lower_bound(p, q).epsilon == 0
    assert epsilon_lower_bound(p, q / 1e300).epsilon > 1
    large = np.full(1000, 8e307)
    assert mean_envelope(large, 7.9e307, bounds=(0, 1.7e308)).passes
    least = [-np.finfo(float).max, 0.0]
    assert cdf_envelope(
        least, lambda x: np.where(x >= 0, 1.0, np.where(x < -1e308, 0.5, 0.5))
    ).passes
