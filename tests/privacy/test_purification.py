"""T29: whatever laws are within the divergence, mixed with a few uniform draws they are pure."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import kl_div

from pymc_private.errors import DomainError
from pymc_private.privacy import proximal_steps, proximal_steps_to, purified_log_kl

Q = np.geomspace(1e-9, 1.0 - 1e-9, 4001)
"""Probabilities of one point of Y under the exact law of the second neighbor."""


def kl(p, q):
    return kl_div(p, q) + kl_div(1.0 - p, 1.0 - q)


def furthest(q, near, end):
    """The probability of a point, towards `end`, in the most adversarial law within `near`."""
    low, high = np.array(q), np.full_like(q, end)
    for _ in range(200):
        middle = (low + high) / 2
        inside = kl(middle, q) <= near
        low, high = np.where(inside, middle, low), np.where(inside, high, middle)
    return np.where(kl(np.full_like(q, end), q) <= near, end, high)


def worst_loss(b, near, gamma, points):
    """The largest log ratio of mixtures, over all laws with q1 <= e^b q2 on all points of Y."""
    p1 = furthest(np.minimum(math.exp(b) * Q, 1.0 - 1e-12), near, 1.0)
    p2 = furthest(Q, near, 0.0)
    with np.errstate(divide="ignore"):
        return np.log((1 - gamma) * p1 + gamma / points) - np.log((1 - gamma) * p2 + gamma / points)


@pytest.mark.thin(4)
@pytest.mark.parametrize("b", [0.0, 1e-3, 0.1, 1.0, 3.0])
@pytest.mark.parametrize(("slack", "gamma", "points"), [(0.4, 0.1, 50), (0.02, 1e-3, 500)])
def test_no_law_within_the_divergence_loses_more(b, slack, gamma, points):
    near = math.exp(purified_log_kl(slack, gamma, math.log(points)))
    assert worst_loss(b, near, gamma, points).max() <= b + slack / 2


@pytest.mark.parametrize("fault", ["points", "gamma", "slack"])
def test_each_part_of_the_price_is_needed(fault):
    slack, gamma, points = 0.4, 0.1, 50
    near = math.exp(purified_log_kl(slack, gamma, 0.0 if fault == "points" else math.log(points)))
    found = worst_loss(1.0, near, 1e-300 if fault == "gamma" else gamma, points).max()
    assert found > 1.0 + (0.0 if fault == "slack" else slack / 2)


def loss_interval(law, other, gamma):
    ratio = np.log((1 - gamma) * law + gamma / len(law)) - np.log(
        (1 - gamma) * other + gamma / len(law)
    )
    return min(0.0, ratio.min()), max(0.0, ratio.max())


def perturbed(law, near, rng):
    """A law at about the divergence `near`: towards a random one, or with points taken away."""
    aim = rng.dirichlet(np.full(len(law), rng.choice([0.02, 1.0])))
    if rng.random() < 0.5:
        kept = law * (rng.random(len(law)) < 0.5)
        aim = kept / kept.sum() if kept.any() else aim
    low, high = 0.0, 1.0
    for _ in range(80):
        middle = (low + high) / 2
        inside = kl_div(law + middle * (aim - law), law).sum() <= near
        low, high = (middle, high) if inside else (low, middle)
    return law + low * (aim - law)


@given(seed=st.integers(0, 2**32 - 1), reach=st.floats(0.0, 3.0))
def test_the_range_grows_by_the_slack_alone(seed, reach):
    rng, points, slack, gamma = np.random.default_rng(seed), 40, 0.05, 1e-2
    near = math.exp(purified_log_kl(slack, gamma, math.log(points)))
    first = rng.dirichlet(np.full(points, rng.choice([0.05, 1.0])))
    first = (first + 1e-12) / (first + 1e-12).sum()
    second = first * np.exp(reach * rng.random(points))
    second /= second.sum()
    low, high = loss_interval(perturbed(first, near, rng), perturbed(second, near, rng), gamma)
    exact = np.log(first) - np.log(second)
    assert high <= max(0.0, exact.max()) + slack / 2 + 1e-12
    assert low >= min(0.0, exact.min()) - slack / 2 - 1e-12


def test_nothing_underflows():
    here = purified_log_kl(1e-6, 2.0**-30, 10.0)
    assert purified_log_kl(1e-6, 2.0**-30, 10_010.0) == pytest.approx(here - 10_000.0, abs=1e-8)
    # 2 a (1 - a) gamma / (1 - gamma) tanh(s / 2), to first order.
    first = math.log(2 * 0.25e-6**2 * 2.0**-30) - 10.0
    assert here == pytest.approx(first, abs=1e-6)
    assert proximal_steps_to(3.0, -10_000.0, 0.5) == math.ceil(
        (math.log(3.0) + 10_000.0) / (2 * math.log1p(0.5))
    )


def test_steps_to_a_divergence_are_those_to_its_distance():
    for kl0, tv, speed in ((3.0, 1e-10, 0.3), (1e4, 1e-3, 2.0), (0.1, 0.5, 1e-3)):
        found = proximal_steps_to(kl0, math.log(2 * tv**2), speed)
        assert abs(found - proximal_steps(kl0, tv, speed)) <= 1
    assert proximal_steps_to(0.0, -5.0, 1.0) == proximal_steps_to(1e-9, -5.0, 1.0) == 0


@pytest.mark.parametrize(
    "ask",
    [
        lambda: purified_log_kl(0.0, 0.1, 1.0),
        lambda: purified_log_kl(0.1, 0.0, 1.0),
        lambda: purified_log_kl(0.1, 1.0, 1.0),
        lambda: purified_log_kl(0.1, 0.1, -1.0),
        lambda: purified_log_kl(0.1, 0.1, math.inf),
        lambda: proximal_steps_to(-1.0, -5.0, 1.0),
        lambda: proximal_steps_to(1.0, math.nan, 1.0),
        lambda: proximal_steps_to(1.0, -5.0, 0.0),
    ],
)
def test_arguments_out_of_range_are_refused(ask):
    with pytest.raises(DomainError):
        ask()
