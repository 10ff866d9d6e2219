"""Theorem T23: several accounting methods with shares of delta, under adaptive queries."""

from __future__ import annotations

import math
from fractions import Fraction

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from scipy.stats import norm

from pymc_private.errors import BudgetExceeded, DomainError, Incompatible
from pymc_private.ledger.entry import ChargeCost, Header, make_header
from pymc_private.ledger.filter import method_statuses, proves_budget
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy import renyi
from pymc_private.privacy.accounting import Budget
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.rounding import float_down, float_up

TENTH = Fraction(1, 10)


def header(epsilon, delta=0, shares=None):
    return make_header(epsilon, delta, "substitute", shares, "", "token")


def test_ten_tenths_fill_a_budget_of_one_and_no_trifle_more_fits():
    costs = [ChargeCost(pure=TENTH)] * 10
    assert method_statuses(costs, header(1))["pure"].total == 1
    assert proves_budget(costs, header(1))
    assert not proves_budget([*costs, ChargeCost(pure=Fraction(1e-300))], header(1))
    assert 1.0 + 1e-300 == 1.0  # doubles would have admitted it


def test_ten_tenths_fit_a_budget_of_one_and_ten_doubles_do_not():
    ledger = Ledger(epsilon=1)
    for _ in range(10):
        ledger.charge(Guarantee.pure(0.1), "a stated tenth")
    assert ledger.spent.epsilon == 1
    ledger = Ledger(epsilon=1)
    for _ in range(9):
        ledger.charge(Guarantee.bounded_range_of(0.1), "a computed bound")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.bounded_range_of(0.1), "the double 0.1 is more than a tenth")


def test_without_delta_there_is_the_pure_method_only():
    assert list(Ledger(epsilon=1).methods) == ["pure"]


def test_half_of_delta_goes_to_each_method_by_default():
    statuses = Ledger(epsilon=1, delta=1e-5).methods
    half = Fraction(1, 200_000)
    assert {name: status.share for name, status in statuses.items()} == {
        "pure": 0,
        "zcdp": half,
        "approximate": half,
    }


def test_a_method_without_a_share_is_not_there():
    assert list(Ledger(epsilon=1, delta=1e-5, shares={"zcdp": 1e-5}).methods) == ["pure", "zcdp"]
    assert list(Ledger(epsilon=1, delta=1e-5, shares={}).methods) == ["pure"]


def test_zcdp_admits_what_pure_would_not():
    guarantee = Guarantee.bounded_range_of(0.1, draws=10)  # pure 1
    ledger = Ledger(epsilon=2, delta=1e-5)
    for i in range(4):
        ledger.charge(guarantee, f"{i}")
    statuses = ledger.methods
    assert not statuses["pure"].open
    assert statuses["pure"].spent.epsilon == 4 * guarantee.exact_pure
    assert statuses["zcdp"].open
    assert ledger.spent == statuses["zcdp"].spent
    assert ledger.spent.epsilon <= 2
    assert ledger.spent.delta == Fraction(1, 200_000)


def test_the_zcdp_method_is_priced_at_its_own_share_and_rounded_up():
    ledger = Ledger(epsilon=1, delta=1e-5, shares={"zcdp": 2e-6})
    ledger.charge(Guarantee.zcdp_of(0.003), "a")
    ledger.charge(Guarantee.zcdp_of(0.004), "b")
    total = Fraction(0.003) + Fraction(0.004)
    status = ledger.methods["zcdp"]
    assert status.total == total
    assert status.spent.epsilon >= Fraction(renyi.zcdp_to_eps(0.007, 2e-6))
    assert status.spent.epsilon <= Fraction(renyi.zcdp_to_eps(0.007, 2e-6)) * (
        1 + Fraction(1, 10**9)
    )
    assert status.spent.delta == Fraction(2, 10**6)


def test_the_approximate_method_adds_one_pair_per_charge():
    ledger = Ledger(epsilon=2, delta=1e-5, shares={"approximate": 1e-5})
    for i in range(4):
        ledger.charge(Guarantee.approximate(0.25, 1e-6), f"{i}", delta="1e-6")
    assert ledger.spent == (1, Fraction(4, 10**6))
    ledger.charge(Guarantee.approximate(0.25, 5e-6), "fills delta", delta="6e-6")
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.charge(Guarantee.approximate(0.25, 1e-9), "too much delta", delta="1e-9")
    assert refusal.value.left == (Fraction(3, 4), 0)


@pytest.mark.parametrize("delta", [1e-6, 3e-6, 6e-6, 7e-5, 0.1])
def test_a_guarantee_enters_at_the_very_delta_it_was_made_for(delta):
    ledger = Ledger(epsilon=2, delta=0.5)
    entry = ledger.charge(Guarantee.approximate(0.25, delta), "x", delta=delta)
    assert entry.cost.approximate.epsilon == Fraction(1, 4)
    assert entry.cost.approximate.delta == Fraction(str(delta))
    assert float(entry.cost.approximate.delta) == delta


def test_a_delta_just_below_the_guarantee_costs_infinitely_much():
    ledger = Ledger(epsilon=2, delta=1e-5)
    with pytest.raises(Incompatible, match="No accounting method"):
        ledger.charge(Guarantee.approximate(0.25, 1e-6), "x", delta=1e-7)


def test_a_guarantee_without_pure_epsilon_must_say_its_delta():
    ledger = Ledger(epsilon=2, delta=1e-5)
    with pytest.raises(DomainError, match="needs the delta"):
        ledger.charge(Guarantee.gdp_of(0.1), "x")
    assert ledger.entries == ()
    ledger.charge(Guarantee.gdp_of(0.1), "x", delta=1e-7)
    (entry,) = ledger.entries
    assert entry.cost.pure is None
    assert entry.cost.approximate.delta == Fraction(1, 10**7)
    assert entry.cost.approximate.epsilon >= Fraction(Guarantee.gdp_of(0.1).epsilon(1e-7))


def test_a_method_that_a_charge_cannot_enter_is_closed_for_good():
    ledger = Ledger(epsilon=2, delta=1e-5)
    ledger.charge(Guarantee.pure(0.25), "pure")
    ledger.charge(Guarantee.gdp_of(0.1), "Gaussian", delta=0)  # gives up two methods
    ledger.charge(Guarantee.pure(0.25), "pure again")
    statuses = ledger.methods
    assert [statuses[name].closed_by for name in ("pure", "zcdp", "approximate")] == [2, None, 2]
    assert [statuses[name].open for name in ("pure", "zcdp", "approximate")] == [False, True, False]
    with pytest.raises(BudgetExceeded, match="charge 2 has no bound of this kind"):
        ledger.charge(Guarantee.approximate(0.1, 1e-6), "only the closed method", delta=1e-6)


def test_a_ledger_whose_last_method_would_close_refuses():
    ledger = Ledger(epsilon=1)
    with pytest.raises(Incompatible, match="No accounting method"):
        ledger.charge(Guarantee.zcdp_of(1e-9), "needs a share of delta")
    ledger.charge(Guarantee.pure(0.5), "fits")


costs = st.builds(
    ChargeCost,
    pure=st.none() | st.fractions(0, 1),
    zcdp=st.none() | st.fractions(0, "1/20"),
    approximate=st.none() | st.builds(Budget, st.fractions(0, 1), st.fractions(0, "1/1000")),
)


@given(st.lists(costs, max_size=8))
def test_totals_only_grow_and_what_was_refused_stays_refused(charges):
    fixed = header(2, "1/100")
    open_before = {"pure", "zcdp", "approximate"}
    for n in range(len(charges) + 1):
        statuses = method_statuses(charges[:n], fixed)
        open_now = {name for name, status in statuses.items() if status.open}
        assert open_now <= open_before
        assert proves_budget(charges[:n], fixed) == bool(open_now)
        for name in open_now:
            assert statuses[name].spent.epsilon <= 2
            assert statuses[name].spent.delta <= statuses[name].share
        open_before = open_now


@given(st.fractions(0, 3))
def test_rounding_to_doubles_goes_to_the_safe_side(value):
    assert Fraction(float_down(value)) <= value <= Fraction(float_up(value))
    assert float_up(value) <= math.nextafter(float_down(value), math.inf)


# An adaptive analyst against two methods. First a coin whose privacy loss is EPSILON with
# probability HEADS and slightly negative otherwise. After heads a Gaussian, which only the method
# zcdp can take; after tails a mechanism that tells all with probability d, which only the method
# approximate can take. Exact delta of the whole at EPSILON:
#   HEADS * TV(Gaussian with what rho is left) + (1 - HEADS) * d.
EPSILON, DELTA, HEADS = 1, Fraction(1, 100), 0.0884


def coin():
    """Price the coin: pure epsilon, and rho by a fine search over orders in both directions."""
    p, q = HEADS, HEADS * math.exp(-EPSILON)
    orders = 1 + np.geomspace(1e-4, 3000, 4000)
    rho = 0.0
    for a, b in ((p, q), (q, p)):
        top = orders * math.log(a) + (1 - orders) * math.log(b)
        bottom = orders * math.log1p(-a) + (1 - orders) * math.log1p(-b)
        rho = max(rho, float(np.max(np.logaddexp(top, bottom) / (orders - 1) / orders)))
    return ChargeCost(
        Fraction(EPSILON), Fraction(1.001 * rho), Budget(Fraction(EPSILON), Fraction(0))
    )


def reached_delta(fixed):
    """Give the exact delta that the analyst reaches with all that the filter admits."""
    first = coin()
    assert proves_budget([first], fixed)
    low, high = Fraction(0), Fraction(1)
    for _ in range(40):
        middle = (low + high) / 2
        if proves_budget([first, ChargeCost(zcdp=middle)], fixed):
            low = middle
        else:
            high = middle
    mu = math.sqrt(2 * low)
    share = dict(fixed.shares)["approximate"]
    reveal = ChargeCost(approximate=Budget(Fraction(0), share))
    assert proves_budget([first, reveal], fixed)
    return HEADS * (2 * norm.cdf(mu / 2) - 1) + (1 - HEADS) * float(share)


def test_methods_at_the_full_delta_would_be_broken_by_an_adaptive_analyst():
    shares = {"zcdp": DELTA, "approximate": DELTA}
    with pytest.raises(DomainError, match="add up to more"):
        header(EPSILON, DELTA, shares)
    faulty = Header(Budget(Fraction(EPSILON), DELTA), tuple(shares.items()), "", "", "", "")
    assert reached_delta(faulty) > 1.4 * float(DELTA)


@pytest.mark.parametrize("part", ["1/10", "1/2", "9/10"])
def test_shares_that_add_up_to_delta_withstand_the_adaptive_analyst(part):
    part = Fraction(part)
    shares = {"zcdp": part * DELTA, "approximate": (1 - part) * DELTA}
    reached = reached_delta(header(EPSILON, DELTA, shares))
    assert 0.05 * float(DELTA) < reached <= float(DELTA)
