"""Priors with unequal parameters: the pair of the two least, in its worse direction (T9)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import pymc_private as pmp
from pymc_private.privacy import Guarantee, beta_pair_delta, beta_pair_rdp, dirichlet_rdp
from pymc_private.privacy.dirichlet_tables import TableSensitivity, largest_posterior_power
from pymc_private.privacy.event import PrivacyEvent
from pymc_private.privacy.noisy_counts import CountBudget

R, A, B = 0.5, 0.8, 4.0


def losses(a, b, draws, runs=400_000):
    """Losses of so many draws in one direction."""
    rng = np.random.default_rng([int(10 * a), draws])
    y = rng.beta(a + R, b, size=(runs, draws))
    shift = special.betaln(a, b + R) - special.betaln(a + R, b)
    return (R * special.logit(y) + shift).sum(axis=1)


@pytest.mark.parametrize("draws", [1, 3])
def test_the_price_is_that_of_the_worse_direction(draws):
    """Within 5 standard errors of a simulation of it, and far below that of equal parameters."""
    epsilon = 1.2
    claim = Guarantee.dirichlet_of(R, A, 1, draws, beta=B).delta(epsilon)
    found, error = [], 0.0
    for a, b in ((A, B), (B, A)):
        gain = np.maximum(0.0, 1.0 - np.exp(epsilon - losses(a, b, draws)))
        found.append(gain.mean())
        error = max(error, gain.std() / len(gain) ** 0.5)
    assert abs(claim - max(found)) < 5 * error
    assert min(found) < 0.9 * claim  # one direction alone would be too little
    assert claim < 0.8 * Guarantee.dirichlet_of(R, A, 1, draws).delta(epsilon)


def test_no_two_cells_cost_more_than_the_two_least():
    """Brute force over cells and base counts, both ways, at several orders."""
    rng = np.random.default_rng(4)
    for _ in range(60):
        prior = np.exp(rng.uniform(-2, 2, 4))
        r, order = np.exp(rng.uniform(-2, 0.5)), float(rng.choice([1.5, 2.0, 4.0]))
        least, second = np.sort(prior)[:2]
        claim = beta_pair_rdp(order, r, least, second)
        i, j = rng.choice(4, 2, replace=False)
        base = rng.integers(0, 3, 4) * (rng.random() < 0.5)
        u, v = prior + r * base, prior + r * base
        u[i] += r
        v[j] += r
        assert dirichlet_rdp(order, u, v) <= claim * (1 + 1e-9)


def test_several_families_may_have_several_directions():
    """So the least parameter stands for both there; `test_sides` has plans of two such pairs."""
    several = TableSensitivity(2)
    power, promise = largest_posterior_power(CountBudget.of(1, 1e-5), A, several, B)
    assert promise.events == several.guarantee(power, A).events
    one = Guarantee.dirichlet_of(R, A, beta=B)
    assert (2 * one).events == (2 * Guarantee.dirichlet_of(R, A)).events
    assert (1 * one).events == one.events


def test_it_is_kept_written_and_read():
    one = Guarantee.dirichlet_of(R, A, beta=B)
    assert Guarantee.from_dict(one.to_dict()) == one
    assert one.delta(1.0) == beta_pair_delta(1.0, R, A, B)
    assert beta_pair_delta(one.epsilon(1e-5), R, A, B) <= 1e-5
    assert Guarantee.dirichlet_of(R, A, beta=A) == Guarantee.dirichlet_of(R, A)
    assert "0.8 and 4 or more" in repr(one)
    with pytest.raises(pmp.errors.DomainError):
        PrivacyEvent("beta_pair", 1.0, shape=2.0, other=1.0)
    with pytest.raises(pmp.errors.DomainError):
        PrivacyEvent("gamma_pair", 1.0, shape=2.0, other=3.0)


@pytest.mark.audit
def test_a_stated_prior_keeps_more_of_the_counts():
    powers = []
    for prior in (0.5, [0.5, 5.0, 5.0]):
        account = pmp.Ledger(epsilon=1, delta="1e-5", shares={"approximate": "1e-5"})
        words = {"epsilon": 1, "delta": 1e-5, "method": "exact", "draws": 4, "ledger": account}
        release = pmp.dirichlet([50, 30, 20], prior=prior, **words)
        assert release.guarantee.epsilon(1e-5) <= 1.0
        powers.append(release.facts["counts"]["r"]["p"])
    assert powers[1] > 1.05 * powers[0]
