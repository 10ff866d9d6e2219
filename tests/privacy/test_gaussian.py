"""The curve of Gaussian differential privacy (T4)."""

from __future__ import annotations

import math

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from pymc_private.errors import DomainError
from pymc_private.privacy import gdp_delta, gdp_eps


@given(
    mu=st.one_of(st.floats(1e-12, 1e-3), st.floats(1e-3, 30.0)),
    sds=st.floats(0.0, 12.0),
)
def test_the_delta_lies_just_above_the_exact_one(mu, sds):
    eps = mu * sds
    with mpmath.workdps(80):
        x, m = mpmath.mpf(eps), mpmath.mpf(mu)
        truth = mpmath.ncdf(-x / m + m / 2) - mpmath.exp(x) * mpmath.ncdf(-x / m - m / 2)
        got = gdp_delta(eps, mu)
        assert truth <= got
        assert got <= truth * (1 + 1e-10) + 1e-12 * mpmath.npdf(sds - mu / 2)


@pytest.mark.parametrize(("eps", "mu"), [(0.0, 0.3), (0.7, 1.0), (4.0, 1.5), (3.0, 6.0)])
def test_the_curve_is_the_hockey_stick_of_two_normal_laws(eps, mu):
    loss_is_eps = eps / mu + mu / 2

    def gain(x):
        return norm.pdf(x, mu) - math.exp(eps) * norm.pdf(x)

    area, _ = quad(gain, loss_is_eps, loss_is_eps + 40, points=[loss_is_eps + 1], limit=200)
    assert gdp_delta(eps, mu) == pytest.approx(area, rel=1e-8)


@given(mu=st.floats(1e-8, 30.0), delta=st.floats(1e-14, 0.9))
def test_the_epsilon_returned_is_the_safe_end(mu, delta):
    eps = gdp_eps(delta, mu)
    assert gdp_delta(eps, mu) <= delta
    if eps > 1e-6 * mu:
        assert gdp_delta(eps * (1 - 1e-6), mu) > delta


def test_the_limits_are_the_obvious_ones():
    assert gdp_delta(1.0, 0.0) == gdp_eps(0.1, 0.0) == gdp_delta(math.inf, 1.0) == 0.0
    assert gdp_delta(1.0, math.inf) == 1.0
    assert gdp_eps(0.1, math.inf) == math.inf
    assert 0.0 < gdp_delta(1e6, 1e-3) < 1e-300  # an underflow is rounded up


@pytest.mark.parametrize(
    "call",
    [
        lambda: gdp_delta(-1.0, 1.0),
        lambda: gdp_delta(1.0, -1.0),
        lambda: gdp_delta(1.0, math.nan),
        lambda: gdp_eps(0.0, 1.0),
        lambda: gdp_eps(1.0, 1.0),
        lambda: gdp_eps(0.1, -1.0),
    ],
)
def test_impossible_arguments_are_refused(call):
    with pytest.raises(DomainError, match="allowed"):
        call()
