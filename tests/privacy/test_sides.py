"""Pairs that take sides by themselves: no composition presumes that they take the same one.

One replaced record may raise the count behind one release and lower the count behind another. So
several draws of one posterior have a direction in common, several releases have none (T10, T13).
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import special

import pymc_private as pmp
from pymc_private.privacy import Guarantee, beta_pair_delta, gamma_pair_delta
from pymc_private.privacy.accounting import DIRECTIONS, compose_events, event_curve
from pymc_private.privacy.event import PrivacyEvent

LARGE, SMALL = (2.2, 13.0), (0.5, 4.7)
EPSILONS = (0.2, 2.0)
_T = np.linspace(-50, 50, 20_001)
MASS = special.expit(_T) * special.expit(-_T) * (_T[1] - _T[0])


def shift_of(r, a):
    return special.gammaln(a + r) - special.gammaln(a)


def quantiles(shape):
    """Of a Gamma law at expit(_T), without loss in either tail."""
    low, high = (
        special.gammaincinv(shape, special.expit(_T)),
        special.gammainccinv(shape, special.expit(-_T)),
    )
    return np.where(_T < 0, low, high)


def losses(pair, rises):
    """Losses at the quantiles of P, the law of more where the shape rises."""
    r, a = pair
    loss = r * np.log(quantiles(a + r if rises else a)) - shift_of(r, a)
    return loss if rises else -loss


def stick(pair, rises, eps):
    """P - e^eps Q of a pair at any real epsilon, in closed form."""
    r, a = pair
    if rises:
        g = np.exp((eps + shift_of(r, a)) / r)
        return special.gammaincc(a + r, g) - np.exp(eps) * special.gammaincc(a, g)
    g = np.exp((shift_of(r, a) - eps) / r)
    return special.gammainc(a, g) - np.exp(eps) * special.gammainc(a + r, g)


def exact(eps, one, one_rises, two, two_rises):
    """Delta of two independent draws whose pairs take these sides, by quadrature."""
    return float(MASS @ stick(one, one_rises, eps - losses(two, two_rises)))


@pytest.mark.parametrize("eps", EPSILONS)
def test_the_quadrature_knows_the_mixed_pair_in_closed_form(eps):
    """(G(a + r), G(a)) against (G(a), G(a + r)) has the loss of the Beta pair (T9, T11)."""
    for pair in (LARGE, SMALL):
        found = exact(eps, pair, True, pair, False)
        assert found == pytest.approx(beta_pair_delta(eps, *pair), rel=1e-6)


@pytest.mark.thin(2)
@pytest.mark.parametrize("eps", EPSILONS)
def test_two_releases_are_priced_for_all_sides(eps):
    both = Guarantee.jointly(Guarantee.gamma_of(*LARGE), Guarantee.gamma_of(*SMALL))
    sides = {s: exact(eps, LARGE, s[0], SMALL, s[1]) for s in product((True, False), repeat=2)}
    worst = max(sides.values())
    assert worst <= both.delta(eps) <= 1.1 * worst
    # A planted fault: both counts are taken to rise.
    risen = tuple(PrivacyEvent("gamma_pair", r, 0.0, 1, a) for r, a in (LARGE, SMALL))
    assert compose_events(risen, "more_first").delta(eps) < max(
        sides[True, False], sides[False, True]
    )


@pytest.mark.thin(2)
@pytest.mark.parametrize("eps", EPSILONS)
def test_runs_of_a_release_are_not_draws_from_one_posterior(eps):
    r, a = LARGE
    one = Guarantee.gamma_of(r, a)
    draws, runs, listed = Guarantee.gamma_of(r, a, 2), 2 * one, Guarantee.jointly(one, one)
    mixed, alike = exact(eps, LARGE, True, LARGE, False), exact(eps, LARGE, False, LARGE, False)
    assert alike <= draws.delta(eps) <= alike * 1.002
    for several in (runs, listed):
        assert max(mixed, alike) <= several.delta(eps) <= 1.1 * max(mixed, alike)
    assert runs.events == (PrivacyEvent("gamma_either", r, 0.0, 2, a),)
    assert (1 * one).events == one.events
    assert (2 * runs).events[0].count == (2 * draws).events[0].count == 4


def test_the_symmetric_pair_is_above_both_directions():
    eps = np.linspace(0.0, 6.0, 61)
    either = event_curve(PrivacyEvent("gamma_either", *(1.0, 0.0, 1, 2.0)), "either")
    ways = [event_curve(PrivacyEvent("gamma_shift", *(1.0, 0.0, 1, 2.0)), d) for d in DIRECTIONS]
    largest = [max(way(e) for way in ways) for e in eps]
    assert [either(e) for e in eps] == largest
    slopes = np.diff(largest) / np.diff(np.exp(eps))
    assert np.all(np.diff(slopes) >= -1e-12)  # convex in e^epsilon: a curve of a pair of laws


def test_unequal_beta_pairs_beside_others_are_priced_for_all_sides():
    rng, eps = np.random.default_rng(3), 1.0
    r, a, b = 0.5, 0.8, 4.0
    beta, gamma = Guarantee.dirichlet_of(r, a, beta=b), Guarantee.gamma_of(*LARGE)
    pairs = []
    for p, q in ((a, b), (b, a)):
        y = rng.beta(p + r, q, size=400_000)
        pairs.append(r * special.logit(y) + special.betaln(p, q + r) - special.betaln(p + r, q))
    found = [stick(LARGE, rises, eps - one).mean() for one in pairs for rises in (True, False)]
    claim = Guarantee.jointly(beta, gamma).delta(eps)
    assert max(found) <= claim + 3e-3
    assert claim <= 1.1 * max(found)
    two = Guarantee.jointly(beta, beta)
    mixed = np.maximum(0.0, -np.expm1(eps - pairs[0] - rng.permutation(pairs[1]))).mean()
    alike = np.maximum(0.0, -np.expm1(eps - pairs[1] - rng.permutation(pairs[1]))).mean()
    assert max(mixed, alike) - 3e-3 <= two.delta(eps) <= (2 * beta).delta(eps)


def test_adaptive_sums_and_ledgers_add_bounds_of_both_directions():
    one, other = Guarantee.gamma_of(*LARGE), Guarantee.gamma_of(*SMALL)
    total = one + other
    worst = max(exact(2.0, LARGE, i, SMALL, j) for i, j in product((True, False), repeat=2))
    assert "convolution of a plan" not in total.delta_by_method(2.0)
    assert total.delta(2.0) >= worst
    assert total.rdp(1.5) >= one.rdp(1.5) + other.rdp(1.5)
    account = pmp.Ledger(epsilon=20, delta="1e-3", shares={"approximate": "1e-3"})
    account.charge(one, "one", delta="1e-4")
    account.charge(other, "other", delta="1e-4")
    spent = account.spent
    assert exact(float(spent[0]), LARGE, False, SMALL, False) <= float(spent[1])
    assert float(spent[0]) >= one.epsilon(1e-4) + other.epsilon(1e-4) - 1e-12


def test_sides_are_kept_written_and_read():
    one = Guarantee.gamma_of(1.0, 2.0, 3)
    for promise in (one, 4 * one, Guarantee.jointly(one, one)):
        assert Guarantee.from_dict(promise.to_dict()) == promise
    assert Guarantee.gamma_of(1.0, 2.0).delta(0.5) == gamma_pair_delta(0.5, 1.0, 2.0)
    assert one.group(2) == Guarantee.gamma_of(
        2.0, 2.0, 3, assumptions=("a unit owns at most 2 records",)
    )
    with pytest.raises(pmp.errors.DomainError):
        Guarantee.gamma_of(1.0, 2.0, neighbors="any")
    with pytest.raises(pmp.errors.DomainError):
        Guarantee.gamma_of(0.0, 2.0)
