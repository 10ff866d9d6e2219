"""T23's counterexample: the smallest epsilon over methods at the full delta is broken adaptively.

epsilon* = 1, delta* = 1e-6. A naive filter admits what either basic composition or Gaussian
privacy proves at the *full* delta*. The analyst first tosses a coin whose heads (probability p
under P, p / e under Q) have a privacy loss of exactly epsilon*. After heads she asks for a Gaussian
with all the mu that is left; after tails, for a mechanism that tells all with probability delta*.
Each course of events satisfies one method, and no method knows of the other.
"""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from pymc_private.errors import BudgetExceeded, Incompatible
from pymc_private.ledger.entry import ChargeCost, Header, make_header
from pymc_private.ledger.filter import proves_budget
from pymc_private.ledger.ledger import Ledger
from pymc_private.privacy.accounting import Budget
from pymc_private.privacy.guarantee import Guarantee
from pymc_private.privacy.inverse import mu_affordable

EPSILON, DELTA = Fraction(1), Fraction(1, 10**6)
STATED = 1.189e-6  # T23
HEADS = [4.4e-6, math.exp(-11), math.exp(-10.5)]


@pytest.fixture(autouse=True)
def digits():
    with mp.workdps(30):
        yield


def quantile(p):
    """Phi^-1 at a small p."""
    return mp.findroot(lambda x: mp.log(mp.ncdf(x)) - mp.log(p), -5)


def gaussian_delta(epsilon, mu):
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def coin_mu(p):
    """The mu of the coin: its trade-off curve has one vertex, (p / e, 1 - p), on mu's curve."""
    return quantile(p) - quantile(p / mp.e)


def full_mu():
    """All the mu that the Gaussian method admits at (epsilon*, delta*)."""
    delta = mp.mpf(DELTA.numerator) / DELTA.denominator
    return mp.findroot(lambda mu: gaussian_delta(1, mu) - delta, mp.mpf("0.24"))


def reached(p, mu, reveal):
    """Give the exact delta at epsilon* = 1 of coin, then Gaussian or revealing mechanism."""
    return p * (2 * mp.ncdf(mu / 2) - 1) + (1 - p) * reveal


def left_mu(p):
    return mp.sqrt(full_mu() ** 2 - coin_mu(p) ** 2)


@pytest.mark.parametrize("p", HEADS)
def test_the_naive_minimum_over_methods_admits_more_than_delta(p):
    p, delta = mp.mpf(p), mp.mpf(1) / 10**6
    mu = left_mu(p)
    # Basic: epsilon of the coin 1, nothing more but delta*. Gaussian: mu's add in squares.
    assert gaussian_delta(1, mp.sqrt(coin_mu(p) ** 2 + mu**2)) <= delta * (1 + mp.mpf(10) ** -20)
    assert reached(p, mu, delta) >= STATED
    print(f"p = {float(p):.3g}: delta reached {float(reached(p, mu, delta)):.4g}")


def test_the_coin_is_as_gaussian_as_it_is_said_to_be():
    p = mp.mpf(HEADS[1])
    q, mu = p / mp.e, coin_mu(p)
    for a, b in ((p, q), (q, p)):
        for epsilon in mp.linspace(-1.5, 1.5, 61):
            e = mp.exp(epsilon)
            delta = max(a - e * b, 0) + max((1 - a) - e * (1 - b), 0)
            assert delta <= gaussian_delta(epsilon, mu) + mp.mpf(10) ** -20


def test_the_delta_reached_is_the_integral_over_all_outcomes():
    p, delta = mp.mpf(HEADS[1]), mp.mpf(1) / 10**6
    q, mu = p / mp.e, left_mu(p)

    def excess(x):
        return max(p * mp.npdf(x, mu / 2, 1) - mp.e * q * mp.npdf(x, -mu / 2, 1), mp.mpf(0))

    heads = mp.quad(excess, [-12, -4, 0, 4, 12])
    told = (1 - p) * delta
    untold = max((1 - p) * (1 - delta) - mp.e * (1 - q) * (1 - delta), mp.mpf(0))
    assert abs(heads + told + untold - reached(p, mu, delta)) < mp.mpf(10) ** -18


def coin_cost(p):
    """Price the coin for our methods: pure epsilon, and rho by a fine search over orders."""
    orders, rho = 1 + np.geomspace(1e-4, 1e5, 6000), 0.0
    for a, b in ((p, p / math.e), (p / math.e, p)):
        top = orders * math.log(a) + (1 - orders) * math.log(b)
        bottom = orders * math.log1p(-a) + (1 - orders) * math.log1p(-b)
        rho = max(rho, float(np.max(np.logaddexp(top, bottom) / (orders - 1) / orders)))
    return ChargeCost(EPSILON, Fraction(1.001 * rho), Budget(EPSILON, Fraction(0)))


def largest(fits):
    """Give the largest number in [0, 1] that fits, from below."""
    low, high = Fraction(0), Fraction(1)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


@pytest.mark.parametrize("p", HEADS)
@pytest.mark.parametrize("part", ["1/100", "1/2", "99/100"])
def test_the_filter_of_shares_admits_no_more_than_delta_however_they_are_divided(p, part):
    share = Fraction(part) * DELTA
    shares = {"zcdp": share, "approximate": DELTA - share}
    header = make_header(EPSILON, DELTA, "substitute", shares, "", "token")
    first = coin_cost(p)
    assert proves_budget([first], header)
    rho = largest(lambda rho: proves_budget([first, ChargeCost(zcdp=rho)], header))
    told = largest(
        lambda d: proves_budget([first, ChargeCost(approximate=Budget(Fraction(0), d))], header)
    )
    assert told <= DELTA - share
    exact = reached(mp.mpf(p), mp.sqrt(2 * mp.mpf(float(rho))), mp.mpf(float(told)))
    assert exact <= mp.mpf(float(DELTA))


def test_the_same_filter_without_shares_would_be_broken():
    # The planted fault: both methods of our own ledger at the full delta.
    both = (("zcdp", DELTA), ("approximate", DELTA))
    faulty = Header(Budget(EPSILON, DELTA), both, "substitute", "", "", "token")
    p = 6e-6
    first = coin_cost(p)
    rho = largest(lambda rho: proves_budget([first, ChargeCost(zcdp=rho)], faulty))
    assert rho > 0
    assert proves_budget([first, ChargeCost(approximate=Budget(Fraction(0), DELTA))], faulty)
    assert reached(mp.mpf(p), mp.sqrt(2 * mp.mpf(float(rho))), mp.mpf(10) ** -6) > 1e-6


def test_a_ledger_refuses_both_branches_of_the_counterexample_in_time():
    for p in HEADS:
        after_heads, after_tails = (Ledger(epsilon=EPSILON, delta=DELTA) for _ in range(2))
        for ledger in (after_heads, after_tails):
            ledger.charge(Guarantee.pure(1.0), "the coin")
        with pytest.raises(BudgetExceeded):
            after_heads.charge(Guarantee.gdp_of(float(left_mu(mp.mpf(p)))), "Gaussian", delta=0)
        with pytest.raises(BudgetExceeded):
            after_tails.charge(Guarantee.approximate(0.0, 1e-6), "tell all", delta="1e-6")
        after_tails.charge(
            Guarantee.approximate(0.0, 4.9e-7), "what its share allows", delta=4.9e-7
        )


@pytest.mark.parametrize("p", HEADS)
@pytest.mark.parametrize("part", ["0", "51/100", "9/10", "1"])
def test_shares_fixed_by_the_first_charge_admit_no_more_than_delta(p, part):
    header = make_header(EPSILON, DELTA, "substitute", None, "", "token")
    # A first charge that tells nothing, entered at whatever delta suits the analyst most.
    free = ChargeCost(Fraction(0), Fraction(0), Budget(Fraction(0), Fraction(part) * DELTA))
    before = [free, coin_cost(p)]
    assert proves_budget(before, header)
    rho = largest(lambda rho: proves_budget([*before, ChargeCost(zcdp=rho)], header))
    told = largest(
        lambda d: proves_budget([*before, ChargeCost(approximate=Budget(Fraction(0), d))], header)
    )
    exact = reached(mp.mpf(p), mp.sqrt(2 * mp.mpf(float(rho))), mp.mpf(float(told)))
    assert exact <= mp.mpf(float(DELTA))


def test_shares_fixed_by_a_later_charge_would_be_broken():
    # The planted fault: after the coin, its second charge may still ask for the whole delta.
    later = (("zcdp", DELTA / 2), ("approximate", DELTA))
    faulty = Header(Budget(EPSILON, DELTA), later, "substitute", "", "", "token")
    found = []
    for p in HEADS:
        rho = largest(lambda rho, p=p: proves_budget([coin_cost(p), ChargeCost(zcdp=rho)], faulty))
        found.append(reached(mp.mpf(p), mp.sqrt(2 * mp.mpf(float(rho))), mp.mpf(10) ** -6))
    assert max(found) > 1e-6


def test_a_ledger_pays_a_first_charge_at_its_whole_delta():
    ledger = Ledger(epsilon=1, delta="1e-6")
    assert "divided over the accounting methods by the first charge" in str(ledger)
    ledger.charge(Guarantee.approximate(0.5, 1e-6), "all of delta", delta="1e-6")
    assert list(ledger.methods) == ["pure", "approximate"]
    assert ledger.methods["approximate"].share == ledger.budget.delta
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.approximate(0.1, 1e-7), "more", delta="1e-7")


def gaussian(delta):
    """A Gaussian guarantee whose epsilon is hardly below 1 at that delta."""
    return Guarantee.gdp_of(0.998 * mu_affordable(1.0, delta))


@pytest.mark.parametrize(
    ("guarantee", "delta", "share"),
    [
        (Guarantee.pure(0.25), None, "5e-7"),  # both methods can take it: half each
        (Guarantee.gdp_of(0.05), "1e-6", "5e-7"),
        (gaussian(1e-6), "1e-6", "1e-6"),  # fits by sums of pairs only, at all of delta
        (gaussian(9e-7), "9e-7", "9e-7"),  # what it leaves is for zCDP
        (Guarantee.approximate(0.5, 7e-7), "7e-7", "1e-6"),  # closes zCDP
        (Guarantee.zcdp_of(0.01), "0", None),  # closes sums of pairs
        (Guarantee.pure(0.25), "2e-6", None),  # a delta beyond the ledger's
    ],
)
def test_the_first_charge_divides_delta_and_no_later_one_does(guarantee, delta, share, tmp_path):
    terms = {"epsilon": 1, "delta": "1e-6"}
    ledger = Ledger(tmp_path / "study.sqlite", **terms)
    ledger.charge(guarantee, "first", delta=delta)
    shares = {name: status.share for name, status in ledger.methods.items()}
    assert shares.get("approximate") == (None if share is None else Fraction(share))
    assert sum(shares.values()) == ledger.budget.delta
    with contextlib.suppress(BudgetExceeded):
        ledger.charge(Guarantee.pure("1/1000000"), "second", delta="1e-6")
    assert {name: status.share for name, status in ledger.methods.items()} == shares
    assert Ledger(tmp_path / "study.sqlite", **terms).methods == ledger.methods
    assert ledger.shares is None


def test_a_first_charge_takes_no_delta_that_it_does_not_need():
    admitted = {}
    for shares in (None, {"zcdp": "5e-7", "approximate": "5e-7"}):
        ledger = Ledger(epsilon=2, delta="1e-6", shares=shares)
        with contextlib.suppress(BudgetExceeded):
            for n in range(80):
                ledger.charge(Guarantee.gdp_of(0.05), "a draw", delta="1e-6")
                admitted[shares is None] = n + 1
    assert admitted[True] == admitted[False] > 50


def test_all_of_delta_serves_the_method_that_is_left():
    ledger = Ledger(epsilon=1, delta="1e-6")
    ledger.charge(Guarantee.approximate(0.1, "8e-7"), "first", delta="8e-7")
    ledger.charge(Guarantee.approximate(0.1, "1e-7"), "second", delta="1e-7")
    assert ledger.spent.delta == Fraction("9e-7")


def test_without_delta_there_is_nothing_to_divide(tmp_path):
    Ledger(tmp_path / "pure.sqlite", epsilon=1)
    assert Ledger(tmp_path / "pure.sqlite", epsilon=1, shares={}).shares == {}


def test_a_refused_first_charge_divides_nothing():
    ledger = Ledger(epsilon=1, delta="1e-6")
    with pytest.raises(BudgetExceeded):
        ledger.charge(Guarantee.approximate(2.0, 1e-6), "too much", delta="1e-6")
    ledger.charge(Guarantee.pure(0.25), "the first that is charged")
    assert ledger.methods["zcdp"].share == ledger.budget.delta / 2


def test_stated_shares_and_shares_by_the_first_charge_are_different_terms(tmp_path):
    path = tmp_path / "study.sqlite"
    Ledger(path, epsilon=1, delta="1e-6")
    with pytest.raises(Incompatible, match="by the first charge"):
        Ledger(path, epsilon=1, delta="1e-6", shares={"zcdp": "5e-7", "approximate": "5e-7"})
