"""Dirichlet draws and noisy counts from outside: nearly all of the claimed epsilon can be shown."""

from __future__ import annotations

import numpy as np
import pytest

import pymc_private as pmp
from pymc_private.counts import tables
from pymc_private.privacy import beta_pair_delta, beta_pair_eps, ponnoprat_r
from pymc_private.samplers.randomness import SeededRandomness, dirichlet_draws
from tests.statistics import epsilon_lower_bound

DRAWS, MANY = 500_000, 8_000_000
pytestmark = pytest.mark.audit


def odds(counts, r, alpha, seed, draws=DRAWS):
    """Log odds of the two touched cells: the sufficient statistic."""
    shape = r * np.asarray(counts, float) + alpha
    logs = dirichlet_draws(shape, draws, SeededRandomness.from_seed(seed))
    return logs[:, :1] - logs[:, 1:2]


def quick(a, b, seed):
    rng = np.random.default_rng(seed)
    return np.log(rng.gamma(a, size=(MANY, 1)) / rng.gamma(b, size=(MANY, 1)))


def test_the_sampler_itself_shows_three_quarters_of_the_claim():
    delta, r, alpha = 1e-2, 0.7, 2.2
    claim = beta_pair_eps(delta, r, alpha)
    p, q = odds([1, 0], r, alpha, 1), odds([0, 1], r, alpha, 2)
    found = epsilon_lower_bound(p, q, delta=delta, score=lambda x: x[:, 0])
    assert 0.75 * claim <= found.epsilon <= claim


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (3.0, 1e-2)])
def test_worst_neighbors_show_nine_tenths_of_the_claim(epsilon, delta):
    account = pmp.Ledger(epsilon=epsilon, delta=delta, shares={"approximate": delta})
    release = pmp.dirichlet([1, 0], epsilon=epsilon, delta=delta, method="exact", ledger=account)
    told = release.facts["counts"]
    r, alpha = told["r"]["p"], told["alpha"]["p"]
    # Many draws of the law that `odds` follows (tests/samplers/test_simplex.py): NumPy's are quick.
    p, q = (quick(a, b, seed) for a, b, seed in ((r + alpha, alpha, 1), (alpha, r + alpha, 2)))
    found = epsilon_lower_bound(p, q, delta=delta, score=lambda x: x[:, 0])
    assert 0.9 * epsilon <= found.epsilon <= epsilon


def test_noisy_counts_show_their_claim():
    scale = 2.0
    p = tables.add_seeded_noise(
        np.tile([1, 0], (DRAWS, 1)), "laplace", scale, np.random.default_rng(1)
    )
    q = tables.add_seeded_noise(
        np.tile([0, 1], (DRAWS, 1)), "laplace", scale, np.random.default_rng(2)
    )
    found = epsilon_lower_bound(p, q, score=lambda x: (x[:, 0] >= 1) & (x[:, 1] <= 0))
    assert 0.95 <= found.epsilon <= 1.0


FAULTS = ["a quarter of alpha", "alpha = 1 + (order - 1) r", "one seed for all tables",
          "the class table as one of one"]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_caught(fault):
    """What published code does, against what it claims."""
    delta = 1e-3
    if fault in FAULTS[:2]:
        order = 8.0
        r = float(ponnoprat_r(order, 0.3, 2.0, 1.0))
        honest = 1.0 + 4.0 * (order - 1.0) * r
        claim = beta_pair_eps(delta, r, honest)
        alpha = honest / 4.0 if fault == FAULTS[0] else 1.0 + (order - 1.0) * r
        p, q = odds([1, 0], r, alpha, 1), odds([0, 1], r, alpha, 2)
        found = epsilon_lower_bound(p, q, delta=delta, score=lambda x: x[:, 0])
    elif fault == FAULTS[2]:
        # Two tables with one seed: the low bits of a difference of draws tell whether counts agree.
        claim = 3.0
        p = odds([1, 0], 0.5, 2.0, 7, 20_000) - odds([1, 0], 0.5, 2.0, 7, 20_000)
        q = odds([1, 0], 0.5, 2.0, 8, 20_000) - odds([0, 1], 0.5, 2.0, 8, 20_000)
        found = epsilon_lower_bound(p, q, delta=delta, score=lambda x: -np.abs(x[:, 0]))
    else:
        # Thirty features: the class counts are released thirty times over, priced as one table.
        r, alpha = 0.1, 4.0
        claim = beta_pair_eps(delta, r, alpha)
        r *= 30
        p, q = odds([1, 0], r, alpha, 1), odds([0, 1], r, alpha, 2)
        found = epsilon_lower_bound(p, q, delta=delta, score=lambda x: x[:, 0])
    assert found.refutes(claim)


def test_the_exact_price_is_not_beaten_by_any_table():
    """Brute force over base counts: the touched cells (1, 0) and (0, 1) are the worst."""
    eps, r, alpha = 0.8, 0.6, 1.7
    worst = float(beta_pair_delta(eps, r, alpha))
    rng = np.random.default_rng(3)
    for base in ((0, 0, 0), (1, 0, 2), (3, 3, 0), (0, 5, 40)):
        u = r * np.array([base[0] + 1, base[1], base[2]]) + alpha
        v = r * np.array([base[0], base[1] + 1, base[2]]) + alpha
        x = rng.dirichlet(u, size=400_000)
        from scipy.special import gammaln

        shift = gammaln(v).sum() - gammaln(u).sum()
        loss = ((u - v) * np.log(x)).sum(axis=1) + shift
        found = np.maximum(0.0, 1.0 - np.exp(eps - loss)).mean()
        assert found <= worst * 1.02 + 1e-4
