"""A printed promise never says less than it costs."""

from __future__ import annotations

import re
from fractions import Fraction

import pytest

from pymc_private.privacy.event import PrivacyEvent

THIRD, TWO_THIRDS = Fraction(1, 3), Fraction(2, 3)
KINDS = ["pure", "bounded_range", "zcdp", "gdp", "approximate", "mollifier", "distance"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("value", [THIRD, TWO_THIRDS, 0.123456789, 0.1, Fraction(1, 2)])
def test_the_printed_value_is_not_below_the_true_one(kind, value):
    printed = re.findall(r"\d[\d.e-]*", str(PrivacyEvent(kind, value)))[0].rstrip("-")
    assert Fraction(value) - Fraction(1, 10**15) <= Fraction(printed)
    assert Fraction(printed) <= Fraction(value) * Fraction(1005, 1000)


def test_a_short_number_is_written_as_it_is():
    assert str(PrivacyEvent("pure", 0.1)) == "0.1-DP"
    assert str(PrivacyEvent("approximate", 1.0, 1e-6, count=3)) == "3 x (1, 1e-6)-DP"


def test_a_third_of_delta_is_rounded_up():
    assert str(PrivacyEvent("approximate", THIRD, THIRD)) == "(0.333334, 0.334)-DP"


def test_what_protects_is_rounded_down():
    assert str(PrivacyEvent("rdp", TWO_THIRDS, shape=5 / 3)) == "(1.66666, 0.666667)-RDP"
    assert "alpha = 1.66666)" in str(PrivacyEvent("beta_pair", 1, shape=5 / 3))
