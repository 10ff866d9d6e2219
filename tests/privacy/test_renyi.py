"""T4: from Renyi divergences to (epsilon, delta)."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pymc_private.errors import DomainError
from pymc_private.privacy import (
    gdp_delta,
    gdp_eps,
    rdp_to_delta,
    rdp_to_eps,
    zcdp_to_delta,
    zcdp_to_eps,
)
from pymc_private.privacy.renyi import pure_to_delta, pure_to_eps

orders = st.one_of(st.floats(1 + 1e-9, 1.1), st.floats(1.1, 300.0), st.floats(300.0, 1e8))
rhos = st.floats(1e-8, 1e3)
deltas = st.floats(1e-15, 0.5)


def precise_delta(order, rdp, eps):
    order, rdp, eps = map(mpmath.mpf, (order, rdp, eps))
    return mpmath.exp((order - 1) * (rdp - eps)) / (order - 1) * (1 - 1 / order) ** order


def precise_eps(order, rdp, delta):
    order, rdp, delta = map(mpmath.mpf, (order, rdp, delta))
    logs = mpmath.log(delta) + order * mpmath.log(order)
    return rdp + mpmath.log(order - 1) - logs / (order - 1)


@given(order=orders, rdp=st.floats(0.0, 30.0), delta=deltas)
def test_the_epsilon_of_one_order_lies_just_above_the_exact_one(order, rdp, delta):
    with mpmath.workdps(50):
        truth = max(mpmath.mpf(0), precise_eps(order, rdp, delta))
        size = 1 + rdp + (1 - mpmath.log(delta) + mpmath.log(order)) / (order - 1)
        assert truth <= rdp_to_eps(order, rdp, delta) <= truth + 1e-13 * size


@given(order=orders, rdp=st.floats(0.0, 30.0), eps=st.floats(0.0, 60.0))
def test_the_delta_of_one_order_lies_just_above_the_exact_one(order, rdp, eps):
    with mpmath.workdps(50):
        truth = min(mpmath.mpf(1), precise_delta(order, rdp, eps))
        size = 1 + order * (1 + rdp + eps)
        got = rdp_to_delta(order, rdp, eps)
        assert truth <= got <= truth * mpmath.exp(1e-13 * size) + 1e-320


@given(rho=rhos, delta=deltas, order=orders)
def test_every_order_gives_a_bound_and_the_search_finds_the_best(rho, delta, order):
    assert zcdp_to_eps(rho, delta) <= rdp_to_eps(order, rho * order, delta) * (1 + 1e-7) + 1e-12


@given(rho=rhos, eps=st.floats(0.0, 50.0), order=orders)
def test_every_order_bounds_delta_and_the_search_finds_the_best(rho, eps, order):
    assert zcdp_to_delta(rho, eps) <= rdp_to_delta(order, rho * order, eps) * (1 + 1e-6) + 1e-320


@given(rho=st.floats(1e-6, 100.0), delta=deltas)
def test_zcdp_conversions_invert_each_other(rho, delta):
    eps = zcdp_to_eps(rho, delta)
    if eps > 0:
        assert zcdp_to_delta(rho, eps) == pytest.approx(delta, rel=1e-6)


@given(mu=st.floats(0.01, 5.0), delta=st.floats(1e-9, 0.1))
def test_the_zcdp_road_never_undercuts_the_exact_gaussian_curve(mu, delta):
    assert zcdp_to_eps(mu**2 / 2, delta) >= gdp_eps(delta, mu) * (1 - 1e-9)
    assert zcdp_to_delta(mu**2 / 2, 1.0) >= gdp_delta(1.0, mu) * (1 - 1e-9)


def test_the_limits_of_order_and_divergence_are_the_obvious_ones():
    assert rdp_to_eps(math.inf, 0.7, 1e-6) == 0.7
    assert rdp_to_delta(math.inf, 0.7, 0.7) == 0.0
    assert rdp_to_delta(math.inf, 0.7, 0.6) == 1.0
    assert rdp_to_eps(2.0, math.inf, 1e-6) == zcdp_to_eps(math.inf, 1e-6) == math.inf
    assert rdp_to_delta(2.0, math.inf, 3.0) == zcdp_to_delta(math.inf, 3.0) == 1.0
    assert zcdp_to_eps(0.0, 1e-6) == zcdp_to_delta(0.0, 0.0) == zcdp_to_delta(1.0, math.inf) == 0.0
    assert 0.0 < zcdp_to_delta(1e-3, 1e3) < 1e-300  # an underflow is rounded up


@given(total=st.floats(1e-6, 30.0), share=st.floats(0.0, 0.999))
def test_pure_privacy_has_the_curve_of_randomized_response(total, share):
    eps = share * total
    truth, lie = 1 / (1 + math.exp(-total)), math.exp(-total) / (1 + math.exp(-total))
    p, q = np.array([truth, lie]), np.array([lie, truth])
    attained = float(np.maximum(p - math.exp(eps) * q, 0).sum())
    assert pure_to_delta(total, eps) == pytest.approx(attained, rel=1e-7, abs=1e-15)
    with mpmath.workdps(40):
        top, low = mpmath.exp(total), mpmath.exp(eps)
        assert pure_to_delta(total, eps) >= (top - low) / (top + 1)


@given(total=st.floats(1e-6, 30.0), delta=st.floats(1e-12, 0.9))
def test_the_pure_epsilon_at_delta_is_the_safe_end(total, delta):
    eps = pure_to_eps(total, delta)
    assert eps <= total
    with mpmath.workdps(40):
        top = mpmath.exp(total)
        assert (top - mpmath.exp(eps)) / (top + 1) <= delta
    assert pure_to_eps(total, 0.0) == total


@pytest.mark.parametrize(
    "call",
    [
        lambda: rdp_to_eps(1.0, 0.1, 0.1),
        lambda: rdp_to_eps(2.0, -0.1, 0.1),
        lambda: rdp_to_eps(2.0, 0.1, 0.0),
        lambda: rdp_to_eps(2.0, 0.1, 1.0),
        lambda: rdp_to_delta(0.5, 0.1, 0.1),
        lambda: rdp_to_delta(2.0, 0.1, -0.1),
        lambda: zcdp_to_eps(-1.0, 0.1),
        lambda: zcdp_to_eps(1.0, 0.0),
        lambda: zcdp_to_delta(math.nan, 0.1),
        lambda: zcdp_to_delta(1.0, math.nan),
    ],
)
def test_impossible_arguments_are_refused(call):
    with pytest.raises(DomainError, match="allowed"):
        call()
