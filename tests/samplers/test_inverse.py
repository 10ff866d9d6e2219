"""Inverse CDFs that are rounded correctly, in the middle and far out."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pymc_private.samplers.inverse_cdf import (
    BetaDistribution,
    GammaDistribution,
    NormalDistribution,
    RoundedDraws,
    RoundingGrid,
)
from pymc_private.samplers.randomness import SeededRandomness
from tests.statistics import cdf_envelope

F = Fraction
EVEN = RoundingGrid.linear(F(1, 2**40))


class Words:
    """A uniform number whose leading bits are given; the rest are zeros and a one."""

    def __init__(self, share: Fraction) -> None:
        self.left = share

    def below(self, end: int) -> int:
        word = math.floor(self.left * end)
        self.left = self.left * end - word
        return word


def truncated(law, low, high):
    """CDF of a SciPy law on an interval."""
    a, b = law.cdf(low), law.cdf(high)
    return lambda x: (law.cdf(x) - a) / (b - a)


CASES = {
    "beta": (BetaDistribution(F(3), F(5)), EVEN, 0.0, 1.0, stats.beta(3, 5), float),
    "trimmed beta": (BetaDistribution(F(3), F(5)), EVEN, 0.3, 0.4, stats.beta(3, 5), float),
    "beta near its edges": (
        BetaDistribution(F(1, 10), F(1, 5)), RoundingGrid.logistic(), 0.0, 1.0,
        stats.beta(0.1, 0.2), lambda y: 1 / (1 + math.exp(-y)),
    ),
    "large beta": (BetaDistribution(F(900), F(1100)), EVEN, 0.1, 0.9, stats.beta(900, 1100), float),
    "gamma": (GammaDistribution(F(7, 2), F(3)), RoundingGrid.logarithmic(), 0.0, math.inf,
              stats.gamma(3.5, scale=1 / 3), math.exp),
    "trimmed gamma": (GammaDistribution(F(7, 2), F(3)), EVEN, 0.5, 1.0,
                      stats.gamma(3.5, scale=1 / 3), float),
    "small gamma": (GammaDistribution(F(1, 50), F(3)), RoundingGrid.logarithmic(), 0.0, math.inf,
                    stats.gamma(0.02, scale=1 / 3), math.exp),
    "normal": (NormalDistribution(F(2), F(9)), EVEN, -math.inf, math.inf, stats.norm(2, 3), float),
    "one-sided normal": (NormalDistribution(F(2), F(9)), EVEN, 1.0, math.inf,
                         stats.norm(2, 3), float),
}  # fmt: skip


@pytest.mark.thin(8)
@pytest.mark.parametrize("name", CASES)
def test_draws_follow_their_law(name):
    law, lattice, low, high, exact, back = CASES[name]
    source, draws = SeededRandomness.from_seed(17), RoundedDraws(law, lattice, low, high)
    found = np.array(
        [back(float(draws.draw(source))) for _ in range(60 if name == "large beta" else 800)]
    )
    assert cdf_envelope(found, truncated(exact, low, high)).passes


def test_a_shifted_law_is_caught():
    source, draws = (
        SeededRandomness.from_seed(17),
        RoundedDraws(BetaDistribution(F(3), F(4)), EVEN, 0.0, 1.0),
    )
    found = np.array([float(draws.draw(source)) for _ in range(800)])
    assert not cdf_envelope(found, stats.beta(3, 5).cdf).passes


@settings(max_examples=12)
@given(
    share=st.fractions(F(1, 10**6), 1 - F(1, 10**6)),
    mean=st.integers(-4, 4),
    spread=st.sampled_from([F(1, 100), F(1), F(400)]),
)
def test_the_draw_is_the_ideal_one_correctly_rounded(share, mean, spread):
    # Far tails too: the region [-1, 1] may lie dozens of deviations off.
    law = NormalDistribution(F(mean), spread)
    place = RoundedDraws(law, EVEN, -1.0, 1.0).draw(Words(share))
    with mpmath.workdps(700):
        sd = mpmath.sqrt(mpmath.mpf(spread.numerator) / spread.denominator)

        def cdf(x):
            return mpmath.erfc(
                (mean - mpmath.mpf(x.numerator) / x.denominator) / sd / mpmath.sqrt(2)
            )

        ends = cdf(F(-1)), cdf(F(1))
        borders = [min(max(place + k * F(1, 2**41), F(-1)), F(1)) for k in (-1, 1)]
        below, above = ((cdf(b) - ends[0]) / (ends[1] - ends[0]) for b in borders)
        u = mpmath.mpf(share.numerator) / share.denominator
        assert below <= u <= above


@pytest.mark.parametrize(
    ("law", "low", "high"),
    [
        (GammaDistribution(F(30000), F(5)), 10.0, 20.0),
        (GammaDistribution(F(30000), F(5)), 7000.0, 9000.0),
        (BetaDistribution(F(300), F(50000)), 0.45, 0.9),
        (NormalDistribution(F(30000), F(1, 400)), -1.0, 1.0),
    ],
)
def test_regions_far_in_a_tail_are_drawn_from(law, low, high):
    found = float(RoundedDraws(law, EVEN, low, high).draw(SeededRandomness.from_seed(2)))
    near = high if law.center > high else low
    assert low <= found <= high
    assert abs(found - near) < 0.1 * (high - low)


@pytest.mark.parametrize(
    "law",
    [
        BetaDistribution(F(9, 2), F(300)),
        GammaDistribution(F(301), F(7)),
        NormalDistribution(F(1), F(2)),
    ],
)
def test_slopes_and_both_tails_belong_to_one_law(law):
    x = law.center
    with ctx.workprec(200):
        one, two = arb(x), arb(x) + arb(2) ** -40
        rise = (law.mass_below(two) - law.mass_below(one)) * arb(2) ** 40
        assert law.density(one.union(two)).overlaps(rise)
        assert float((law.mass_below(one) + law.mass_above(one)).mid()) == pytest.approx(law.total)


def test_more_bits_are_asked_for_where_the_first_ones_leave_it_open():
    # The shares next to a border of a uniform law: 64 bits do not tell on which side they lie.
    law = BetaDistribution(F(1), F(1))
    half_cell = F(1, 2) + F(1, 2**41)
    for tail, cell in ((F(1, 2**200), F(1, 2) + F(1, 2**40)), (-F(1, 2**200), F(1, 2))):
        assert RoundedDraws(law, EVEN, 0.0, 1.0).draw(Words(half_cell + tail)) == cell
