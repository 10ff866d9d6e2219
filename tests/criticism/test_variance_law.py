"""Tails of weighted sums of squares, and the variances that they leave possible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pymc_private.criticism.variance_law import VarianceLaw

WEIGHTS = {
    "one": (2.0,),
    "equal": (1.0,) * 6,
    "falling": (4.0, 1.0, 0.3, 0.02),
    "many": tuple(np.linspace(0.1, 1, 40)),
}


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize("gamma", [0.0, 0.7])
def test_tails_are_those_of_simulated_sums(name, gamma):
    law, rng = VarianceLaw(WEIGHTS[name]), np.random.default_rng(1)
    w = np.array(WEIGHTS[name])
    q = rng.chisquare(1, (200_000, len(w))) @ (w * (1 + gamma * w))
    for share in (0.9, 0.5, 0.1, 0.05, 0.01):
        assert abs(law.tail(np.quantile(q, 1 - share), gamma) - share) < 0.006 + 0.03 * share


def test_equal_weights_are_chi_squared_far_out_and_at_the_mean():
    law = VarianceLaw((1.0,) * 6)
    for value in (0.2, 5.99, 6.0, 6.01, 30.0, 90.0):
        np.testing.assert_allclose(law.tail(value), stats.chi2.sf(value, 6), rtol=0.03)
    assert law.tail(0.0) == 1.0


@pytest.mark.parametrize("name", WEIGHTS)
def test_critical_values_and_variances_undo_tails(name):
    law = VarianceLaw(WEIGHTS[name])
    value = law.critical(0.05)
    assert abs(law.tail(value) - 0.05) < 1e-9
    sizes = [law.gamma(value, share) for share in (0.04, 0.5, 0.8, 0.95)]
    assert sizes[0] == 0.0  # more than 4% exceed it where nothing varies
    assert sizes == sorted(sizes)
    for share, gamma in zip((0.5, 0.8, 0.95), sizes[1:], strict=True):
        assert abs(law.tail(value, gamma) - share) < 1e-9


def test_weights_are_those_of_noisy_sums_of_effects():
    """By simulation: e of unit variance, more by gamma w."""
    rng = np.random.default_rng(2)
    effects, root = rng.normal(size=(5, 5)), rng.normal(size=(5, 5))
    spread = root @ root.T + np.eye(5)
    law, gamma = VarianceLaw.of(spread, effects), 0.6
    b = np.sqrt(gamma) * rng.standard_normal((100_000, 5))
    told = b @ effects.T + rng.standard_normal((100_000, 5)) @ np.linalg.cholesky(spread).T
    q = ((told @ np.linalg.solve(spread, effects)) ** 2).sum(axis=1)
    for value in np.quantile(q, [0.2, 0.5, 0.95]):
        assert abs(law.tail(value, gamma) - (q > value).mean()) < 0.02
    # A planted fault: effects that are forgotten.
    assert abs(law.tail(np.quantile(q, 0.5)) - 0.5) > 0.1
