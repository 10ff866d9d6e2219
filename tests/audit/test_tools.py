"""Numbers of the statistical tests by other computations, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

from pymc_private.audit.statistical_tests import clopper_pearson_lower, clopper_pearson_upper
from pymc_private.errors import DomainError
from tests.statistics import Allowance, cdf_envelope, mean_envelope, neighbors_agree, proportion


@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 50_000), (3, 7), (500, 1000), (49_999, 50_000)])
@pytest.mark.parametrize("error", [0.05, 1e-9, 1e-15])
def test_the_limits_are_those_of_clopper_and_pearson_by_exact_tails(k, n, error):
    with mp.workdps(40):
        low, high = (
            mp.mpf(float(clopper_pearson_lower(k, n, error))),
            mp.mpf(float(clopper_pearson_upper(n - k, n, error))),
        )
        for limit in (low, 1 - high):
            # P(at least k successes) at the limit: just below the error, and above it a hair on.
            at = mp.betainc(k, n - k + 1, 0, limit, regularized=True)
            above = mp.betainc(
                k, n - k + 1, 0, limit * (1 + mp.mpf("1e-7")) + 3e-9, regularized=True
            )
            assert at <= error
            assert above > error


def test_limits_at_the_ends():
    assert clopper_pearson_lower(0, 10, 0.05) == 0.0
    assert clopper_pearson_upper(10, 10, 0.05) == 1.0
    assert clopper_pearson_lower(10, 10, 0.05) == pytest.approx(0.05**0.1)
    assert clopper_pearson_upper(0, 10, 0.05) == pytest.approx(1 - 0.05**0.1)
    assert np.array_equal(clopper_pearson_lower(np.array([0, 5]), 10, 0.05) > 0, [False, True])


@pytest.mark.parametrize("law", [stats.poisson(1.3), stats.binom(4, 0.3), stats.expon()])
def test_the_distance_of_cdfs_is_that_of_a_dense_search(law):
    draws = law.rvs(60, random_state=np.random.default_rng(2)).astype(float)
    places = np.unique(np.concatenate([draws, np.arange(-1, 12), np.linspace(-1, 12, 20_001)]))
    empirical = np.searchsorted(np.sort(draws), places, side="right") / len(draws)
    before = np.searchsorted(np.sort(draws), places, side="left") / len(draws)
    left = law.cdf(np.nextafter(places, -np.inf))
    dense = max(np.max(np.abs(empirical - law.cdf(places))), np.max(np.abs(before - left)))
    assert cdf_envelope(draws, law.cdf).seen == pytest.approx(dense, abs=1e-12)


def test_a_slack_widens_the_band_and_what_it_sees():
    draws = np.random.default_rng(1).random(100)
    plain, slack = (cdf_envelope(draws, lambda x: x, slack=s) for s in (0.0, 0.01))
    assert slack.tolerated == pytest.approx(plain.tolerated + 0.01)
    assert slack.detects == pytest.approx(plain.detects + 0.02)


@pytest.mark.parametrize(("mean", "deviation"), [(0.5, None), (0.1, None), (0.1, 0.05), (0.9, 0.2)])
def test_the_band_of_a_mean_is_where_hoeffdings_bound_meets_the_alarm(mean, deviation):
    n, alarm = 400, 1e-3
    with Allowance(1.0):
        verdict = mean_envelope(
            np.full(n, mean), mean, bounds=(0, 1), deviation=deviation, false_alarm=alarm
        )
    t, bounds = verdict.tolerated, []
    for b in (1 - mean, mean):  # Theorem 3 as it is printed, in both directions
        s = mean * (1 - mean) if deviation is None else deviation**2
        if t < b:
            power = (1 + b * t / s) * s / (b * b + s), (1 - t / b) * b * b / (b * b + s)
            bounds.append(((1 + b * t / s) ** -power[0] * (1 - t / b) ** -power[1]) ** n)
    assert max(bounds) == pytest.approx(alarm / 2, rel=1e-5)
    assert max(bounds) <= alarm / 2


def test_the_mean_test_scales_with_its_unit():
    draws = np.random.default_rng(1).random(100)
    one = mean_envelope(draws, 0.5, bounds=(0, 1), deviation=0.3)
    ten = mean_envelope(10 * draws - 3, 2.0, bounds=(-3, 7), deviation=3.0)
    for name in ("seen", "tolerated", "detects"):
        assert getattr(ten, name) == pytest.approx(10 * getattr(one, name), rel=1e-6)


def test_a_verdict_is_not_true_or_false():
    with pytest.raises(TypeError, match="passes"):
        bool(proportion(1, 3, 0.5))


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (lambda: cdf_envelope([], lambda x: x), "one number or more"),
        (lambda: cdf_envelope([0.1, np.nan], lambda x: x), "one number or more"),
        (lambda: cdf_envelope(["a"], lambda x: x), "an array of numbers"),
        (lambda: cdf_envelope([1 + 1j], lambda x: x), "an array of numbers"),
        (lambda: cdf_envelope([0.1], lambda x: 2 + x), "one probability per value"),
        (lambda: cdf_envelope([0.1, 0.2], lambda x: 0.5), "one probability per value"),
        (lambda: cdf_envelope([0.1], lambda x: x * np.nan), "one probability per value"),
        (lambda: cdf_envelope([0.1], lambda x: x, slack=-1), "slack is not negative"),
        (lambda: cdf_envelope([0.1], lambda x: x, power=1), "power lies in"),
        (lambda: mean_envelope([0.1], 0.5, bounds=(0, 0.05)), "inside its bounds"),
        (lambda: mean_envelope([0.1], 0.5, bounds=(-np.inf, 1)), "inside its bounds"),
        (lambda: mean_envelope([1.1], 0.5, bounds=(0, 1)), "outside the bounds"),
        (lambda: mean_envelope([0.1], 0.5, bounds=(0, 1), deviation=0.0), "deviation is positive"),
        (lambda: proportion(4, 3, 0.5), "count of successes"),
        (lambda: proportion(-1, 3, 0.5), "count of successes"),
        (lambda: proportion(0, 0, 0.5), "trials"),
        (lambda: proportion(1, 3, 1.0), "expected lies in"),
        (lambda: neighbors_agree([0.1], 0.5), "trials"),
    ],
)
def test_what_is_no_sample_is_refused_without_quoting_it(test, message):
    with pytest.raises(DomainError, match=message):
        test()
