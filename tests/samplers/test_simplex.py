"""Dirichlet draws: their law, no atoms at 0 and 1, and the public grid."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from pymc_private.samplers.randomness import (
    LOG_STEP,
    SystemRandomness,
    dirichlet_draws,
    round_simplex,
    simplex_probabilities,
)
from tests.statistics import cdf_envelope, lattice_leak


@pytest.mark.parametrize("parameters", [(0.05, 0.3), (2.0, 7.0, 0.5), (4000.0, 90.0, 12.0)])
def test_draws_have_beta_margins(parameters):
    """By log odds: near 1 doubles are too few for the law of a small parameter."""
    a = np.array(parameters)
    logs = dirichlet_draws(a, 3000, SystemRandomness())
    assert simplex_probabilities(logs).sum(axis=1) == pytest.approx(1.0, abs=1e-9)
    for i in range(len(a)):
        rest = special.logsumexp(np.delete(logs, i, axis=1), axis=1)
        b = a.sum() - a[i]

        def cdf(odds, a=a[i], b=b):
            below = special.betainc(a, b, special.expit(odds))
            return np.where(odds < 0, below, 1 - special.betainc(b, a, special.expit(-odds)))

        assert cdf_envelope(logs[:, i] - rest, cdf, slack=1e-6).passes


def test_no_atoms_at_the_ends():
    """NumPy's Beta(0.01, 0.01) is exactly 1 in a third of all draws."""
    logs = dirichlet_draws(np.full((50, 2), 1e-3), 40, SystemRandomness())
    drawn = simplex_probabilities(logs)
    assert np.isfinite(logs).all()
    assert (drawn > 0.0).all()
    assert (drawn < 1.0).all()
    assert np.isfinite(np.log1p(-drawn)).all()


def test_logarithms_lie_on_the_grid_before_they_are_normalized():
    logs = np.log(np.random.default_rng(1).dirichlet(np.ones(3), size=50))
    rounded = round_simplex(logs)
    ratios = rounded - rounded[:, :1]
    steps = ratios / LOG_STEP
    assert steps == pytest.approx(np.round(steps), abs=1e-3)
    assert rounded == pytest.approx(logs, abs=2 * LOG_STEP)


def test_low_bits_say_nothing_of_a_neighbor():
    p = dirichlet_draws(np.array([2.0, 1.0]), 4000, SystemRandomness())
    q = dirichlet_draws(np.array([1.0, 2.0]), 4000, SystemRandomness())
    steps = [np.round((x[:, 0] - x[:, 1]) / LOG_STEP) for x in (p, q)]
    assert not lattice_leak(*steps, width=np.array([1.0]), claim=20.0).leaks
