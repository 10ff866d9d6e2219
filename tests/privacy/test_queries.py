"""T16 and T17: how far answers from draws, and estimated tails, may be off."""

from __future__ import annotations

import math

import mpmath
import pytest
from scipy.stats import binom, ksone

from pymc_private.errors import DomainError
from pymc_private.privacy import dkw_halfwidth, psaqr_loss


@pytest.mark.parametrize("arguments", [(1, 0.5, 1, 1), (200, 0.05, 4, 10), (10**6, 1e-9, 7, 10**5)])
def test_the_loss_bound_lies_just_above_the_exact_one(arguments):
    n, delta, responses, queries = map(mpmath.mpf, arguments)
    truth = 2 * mpmath.sqrt(mpmath.log(2 * responses * queries / delta) / (2 * n))
    assert truth <= psaqr_loss(*arguments) <= truth * (1 + 1e-13)


@pytest.mark.parametrize("mean", [0.1, 0.5, 0.8])
def test_an_expected_utility_misses_its_mean_by_half_the_loss_as_rarely_as_promised(mean):
    # One response and one query: utilities in {0, 1} of n draws, judged by the binomial law.
    n, delta = 50, 0.1
    half = psaqr_loss(n, delta, 1, 1) / 2
    miss = binom.cdf(n * (mean - half), n, mean) + binom.sf(n * (mean + half), n, mean)
    assert 0 < miss <= delta


@pytest.mark.parametrize("n", [5, 40, 300])
@pytest.mark.parametrize("beta", [0.01, 0.05, 0.5])
def test_the_envelope_fails_as_rarely_as_promised_and_not_much_rarer(n, beta):
    failure = ksone.sf(dkw_halfwidth(n, beta), n)  # the exact law of the one-sided deviation
    assert failure <= beta
    assert failure >= 0.4 * beta
    assert dkw_halfwidth(n, beta) >= math.sqrt(math.log(1 / beta) / (2 * n))


@pytest.mark.parametrize(
    "call",
    [
        lambda: psaqr_loss(0, 0.1, 1, 1),
        lambda: psaqr_loss(1, 0.0, 1, 1),
        lambda: psaqr_loss(1, 1.0, 1, 1),
        lambda: psaqr_loss(1, 0.1, 0, 1),
        lambda: psaqr_loss(1, 0.1, 1, 0),
        lambda: dkw_halfwidth(0, 0.1),
        lambda: dkw_halfwidth(1, 0.51),  # Massart's constant does not hold there
        lambda: dkw_halfwidth(1, 0.0),
    ],
)
def test_impossible_arguments_are_refused(call):
    with pytest.raises(DomainError, match="got"):
        call()
