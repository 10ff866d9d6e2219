"""Numbers that were once below the truth, and prints and arguments that hid it."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from pymc_private.errors import DomainError, Incompatible, PymcPrivateError
from pymc_private.privacy import (
    Guarantee,
    br_delta,
    compare,
    draws_affordable,
    from_event,
    normal_mean_mu,
    power_affordable,
    proximal_steps,
    psaqr_loss,
    range_affordable,
    zcdp_to_eps,
)
from pymc_private.privacy.dp_accounting import _dp_event
from pymc_private.privacy.event import PrivacyEvent
from pymc_private.privacy.renyi import pure_to_eps

G = Guarantee


class SomeEvent:
    def __init__(self, **fields):
        self.__dict__.update(fields)


class RandomizedResponseDpEvent(SomeEvent):
    pass


class SelfComposedDpEvent(SomeEvent):
    pass


class ZCDpEvent(SomeEvent):
    pass


def true_pure_eps(total, delta):
    with mpmath.workdps(80):
        e, d = mpmath.mpf(total), mpmath.mpf(delta)
        return mpmath.log(mpmath.exp(e) * (1 - d) - d)


@pytest.mark.parametrize(
    ("total", "delta"),
    [(25.0, 0.9999999999), (40.0, 1 - 1e-13), (2.0, 0.3), (30.0, 0.999), (1e-9, 1e-10)],
)
def test_pure_epsilon_is_safe_for_delta_near_one(total, delta):
    true = true_pure_eps(total, delta)
    with mpmath.workdps(80):
        assert true <= mpmath.mpf(pure_to_eps(total, delta)) <= true * (1 + mpmath.mpf(2) ** -50)


def test_pure_epsilon_has_its_ends():
    assert pure_to_eps(1.0, 0.9) == 0.0
    assert pure_to_eps(1e308, 1e-6) == pytest.approx(1e308)
    assert G.pure(25).epsilon(0.9999999999) >= 1.8246284066


def test_a_distance_is_paid_at_any_epsilon():
    far = G.pure(800).within(1e-320)
    epsilon = far.epsilon(1e-6)
    assert math.isinf(epsilon) or far.delta(epsilon) <= 1e-6


def test_distances_sum_to_one_at_most():
    assert G.pure(1).within(0.9).within(0.9).within(0.9).delta(1) == 1.0


@pytest.mark.parametrize("parameter", [1e-10, 1e-6, 0.03, 0.3, 1.0])
@pytest.mark.parametrize("buckets", [2, 3, 7])
def test_randomized_response_events_are_safe(parameter, buckets):
    read = from_event(RandomizedResponseDpEvent(noise_parameter=parameter, num_buckets=buckets))
    truth = 1 - Fraction(parameter) * (1 - Fraction(1, buckets))
    odds = truth * (buckets - 1) / (1 - truth)
    with mpmath.workdps(60):
        true = mpmath.log(mpmath.mpf(odds.numerator) / odds.denominator)
        assert mpmath.mpf(read.pure_epsilon) >= true


def test_a_count_of_an_event_is_whole():
    part = ZCDpEvent(rho=0.1, xi=0)
    assert from_event(SelfComposedDpEvent(count=3, event=part)).events[0].count == 3
    with pytest.raises(DomainError):
        from_event(SelfComposedDpEvent(count=2.9, event=part))


def test_a_huge_pure_promise_is_no_gaussian_event():
    class Library:
        NonPrivateDpEvent = type("NonPrivateDpEvent", (), {})

        @staticmethod
        def GaussianDpEvent(multiplier):  # noqa: N802
            assert multiplier > 0
            return multiplier

    assert isinstance(_dp_event(Library, PrivacyEvent("pure", 1e5)), Library.NonPrivateDpEvent)
    assert _dp_event(Library, PrivacyEvent("pure", 1.0)) > 0


@pytest.mark.parametrize("value", [0.1, 0.3, 0.7, 1.1])
@pytest.mark.parametrize("k", [2, 3, 5, 6, 7])
def test_groups_multiply_exactly(value, k):
    assert Fraction(G.zcdp_of(value).group(k).zcdp) >= k * k * Fraction(value)
    assert Fraction(G.gdp_of(value).group(k).gdp) >= k * Fraction(value)
    ranged = G.bounded_range_of(value).group(k).events[0]
    assert Fraction(ranged.number) >= k * Fraction(value)
    renyi = G.rdp_of(1e6, value).group(k).events[0]
    assert Fraction(renyi.number) >= 3 ** (k - 1).bit_length() * Fraction(value)


def test_a_huge_group_has_no_promise_left():
    with pytest.raises(DomainError, match="too large"):
        G.zcdp_of(0.1).group(10**200)
    group = G.zcdp_of(1e300).group(10**18)
    assert math.isinf(group.zcdp)
    assert math.isinf(group.epsilon(1e-6))


def test_mollifiers_never_fall_below_their_pure_epsilon():
    assert Fraction(G.mollifier_of(0.1, draws=5).epsilon(1e-300)) >= 5 * Fraction(0.1)


def test_a_truth_just_below_one_in_three_is_not_free():
    assert G.randomized_response_of(1 / 3, 3).pure_epsilon > 0.0
    with pytest.raises(DomainError):
        G.randomized_response_of(0.3, 3)


def test_an_order_is_rounded_down():
    assert Fraction(G.rdp_of(Fraction(11, 10), 1).events[0].shape) <= Fraction(11, 10)


@pytest.mark.parametrize("noise", [0.1, 0.3, 0.6, 0.7, 0.9])
def test_noise_is_the_double_it_is_made_with(noise):
    assert Fraction(G.laplace_of(1, noise).pure_epsilon) >= 1 / Fraction(noise)
    assert Fraction(G.gaussian_of(1, noise).gdp) >= 1 / Fraction(noise)
    assert Fraction(G.laplace_of(0.3, noise).pure_epsilon) >= Fraction(0.3) / Fraction(noise)


# ---- prints -------------------------------------------------------------------------------------
def test_comparisons_print_upwards():
    made = compare(0.123454, draws=(1, 10))
    head, _, *lines = repr(made).splitlines()
    assert Fraction(head.split()[-1]) >= Fraction(0.123454) - Fraction(1, 10**17)
    for row, line in zip(made.rows, lines, strict=True):
        for number, text in zip(row, line.split(), strict=True):
            assert float(text) >= number
    assert "0.12346" in made._repr_html_()


def test_guarantees_print_upwards():
    assert "epsilon = 1.00001 (pure)" in repr(G.pure(1.0000000005))


def test_too_much_delta_is_said():
    assert "no epsilon: the deltas sum to 1 or more" in repr(3 * G.approximate(1.0, 0.5))


@pytest.mark.parametrize("delta", [Fraction(1e-5), Fraction(1, 3), 1 / 3, 1e-5])
def test_epsilon_is_shown_at_a_fixed_delta(delta):
    assert "at delta =" in repr(G.approximate(1.0, delta) + G.gdp_of(0.1))


# ---- what is stored -----------------------------------------------------------------------------
def stored(**changes):
    return G.pure(0.1).to_dict() | changes


@pytest.mark.parametrize(
    "changes",
    [
        {"events": [["pure", "0.1", "0x0p0", 1, "0x0p0"]]},
        {"events": [["pure", "1", "0x0p0", 1, "0x0p0"]]},
        {"events": [["pure", "0x1p0", "0x0p0", 1, "0.1"]]},
        {"events": [["pure", "1/0", "0x0p0", 1, "0x0p0"]]},
        {"events": [["pure", "0x1p9999", "0x0p0", 1, "0x0p0"]]},
        {"events": [["beta_pair", "0x0p0", "0x0p0", 1, "0x1p0"]]},
        {"events": [["gamma_pair", "0x0p0", "0x0p0", 1, "0x1p0"]]},
        {"planned": "false"},
        {"planned": 1},
        {"theorem": 5},
        {"assumptions": "abc"},
        {"assumptions": [1, 2]},
    ],
)
def test_only_what_was_written_is_read(changes):
    assert G.from_dict(stored()) == G.pure(0.1)
    with pytest.raises(Incompatible):
        G.from_dict(stored(**changes))


@pytest.mark.parametrize(
    "call",
    [
        lambda: G(("x",)),
        lambda: G((), planned="no"),
        lambda: G((), theorem=5),
        lambda: G((), assumptions=(1,)),
        lambda: G.jointly(1, 2),
        lambda: G.rdp_of("five", 1.0),
        lambda: G.rdp_of(True, 1.0),
        lambda: G.pure(1).epsilon(True),
        lambda: G.pure(1).rdp(True),
        lambda: br_delta(True, 1, 1.0),
        lambda: br_delta("0", 1, 1.0),
        lambda: br_delta(1 + 0j, 1, 1.0),
        lambda: zcdp_to_eps(True, 0.1),
        lambda: normal_mean_mu(0.5, 1, 1, 1),
        lambda: psaqr_loss(2.5, 0.1, 1, 1),
        lambda: range_affordable(-1, 1e-6),
        lambda: range_affordable(math.nan, 1e-6),
        lambda: power_affordable(math.nan, 1e-6, 1, 1.0),
        lambda: power_affordable(-1.0, 1e-6, 1, 1.0),
        lambda: draws_affordable(math.inf, 1e-6, 0.1),
        lambda: proximal_steps(1, 1e-3, 5e-324),
    ],
)
def test_what_is_no_number_is_refused(call):
    with pytest.raises(PymcPrivateError):
        call()


@pytest.mark.parametrize(
    "value", [np.True_, True, b"0.5", "half", np.complex128(1), 1 + 0j, None, Decimal("nan")]
)
def test_only_real_numbers_state_a_promise(value):
    for make in (G.pure, G.zcdp_of, G.bounded_range_of, lambda v: G.laplace_of(v, 1)):
        with pytest.raises(DomainError):
            make(value)


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), np.int8(1), Fraction(1, 2), Decimal(1)])
def test_real_numbers_of_any_library_do(value):
    assert G.pure(value).pure_epsilon == G.laplace_of(value, 1).pure_epsilon == float(value)


def test_numbers_beyond_the_doubles_are_infinite_or_counted():
    assert math.isinf((10 * G.pure(1e308)).pure_epsilon)
    assert math.isinf((10 * G.pure(1e308)).epsilon(0.5))
    for other in (math.inf, 1e308):
        joint = G.jointly(G.pure(1), G.bounded_range_of(other)).delta_by_method(2)
        assert all(0.0 <= delta <= 1.0 for delta in joint.values())
    assert draws_affordable(1, 1e-6, 1e-300) == 10**18
