"""Bins in which counts are drawn: their masses and the counts in them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from pymc_private.counts.denoise.cell_distributions import CountNoise, cell_distributions
from pymc_private.counts.denoise.families import NoisyRows
from pymc_private.counts.denoise.lattices import NoisyRow, _exact_masses, draw_within_bin
from pymc_private.counts.denoise.posterior import family_posterior

GAUSSIAN = "discrete_gaussian"


@pytest.mark.parametrize("a", [1e-6, 0.1, 1.0, 40.0])
@pytest.mark.parametrize(("low", "step"), [(0, 7), (3, 50), (200, 30)])
def test_exact_masses_are_those_count_by_count(a, low, step):
    n = np.arange(low, low + 2 * step).reshape(2, step)
    each = np.exp(special.gammaln(n + a) - special.gammaln(n + 1.0) - special.gammaln(a))
    logs, mean = _exact_masses(np.array([low]), step, np.array([a]))
    assert np.exp(logs[0]) == pytest.approx(each.sum(axis=1), rel=1e-6)
    assert mean[0] == pytest.approx((each[0] @ n[0]) / each[0].sum(), rel=1e-6)


@pytest.mark.parametrize("minimum", [0, 1, 5])
def test_counts_within_a_first_bin_have_the_mean_of_the_prior_wherever_it_begins(minimum):
    n = np.arange(minimum, minimum + 64)
    chance = special.softmax(special.gammaln(n + 0.01) - special.gammaln(n + 1.0))
    drawn = draw_within_bin(minimum, 64, 0.01, np.linspace(0.0, 1.0, 20_001)[:-1] + 2.5e-5)
    assert (drawn + minimum).mean() == pytest.approx(chance @ n, rel=2e-3)


@pytest.mark.thin(2)
@pytest.mark.parametrize("a", [0.05, 2.0])
def test_counts_in_a_first_bin_follow_the_prior(a):
    """The least cell of one row whose noise is nearly level over the bin."""
    none = (np.zeros(1), np.full(1, np.inf))
    noise = CountNoise(GAUSSIAN, 2000.0, 0.0)
    found = family_posterior(NoisyRows((1, 2), np.array([[0, 40_000]]), noise, none), None, (a,))
    a, step = float(found.prior), found._row_on_lattice(0)[0].steps(found.means[0].sum())[0]
    assert step > 100
    drawn = found.draw(60_000, np.random.default_rng(3))[:, 0, 0] - found.prior
    inside = np.round(drawn[drawn < step - 0.5]).astype(int)
    n = np.arange(step)
    logs = special.gammaln(n + a) - special.gammaln(n + 1.0) - 0.5 * (n / 2000.0) ** 2
    upto = np.cumsum(np.bincount(inside, minlength=step)) / len(inside)
    assert len(inside) > 2000
    assert np.abs(upto - np.cumsum(special.softmax(logs))).max() < 1.63 / np.sqrt(len(inside))


@pytest.mark.parametrize("a", [0.3, 4.0, 40.0])
def test_bins_hold_the_distributions_of_the_cells(a):
    noise, noisy = CountNoise(GAUSSIAN, 70.0, 0.0), np.array([-90, 20, 60, 700])
    lattice = NoisyRow(noisy, noise, np.full(4, a), 900.0).lattice(4)
    cells = cell_distributions(noisy[None], noise, a, 900.0)
    for tilt in (-1.0, 0.0, 0.5):
        both = [each.moments(np.array([tilt / 70.0])) for each in (lattice.cells, cells)]
        assert both[0][0] == pytest.approx(both[1][0], rel=0.01, abs=0.1)
        assert both[0][1] == pytest.approx(both[1][1], rel=0.03)


def test_bins_are_no_wider_than_sums_and_peaked_priors_allow():
    noise, noisy = CountNoise(GAUSSIAN, 900.0, 0.0), np.array([100, 200, 100])
    wide = NoisyRow(noisy, noise, np.ones(3), 400.0)
    assert wide.steps(4000.0)[0] == 400 // 24
    assert wide.steps(80.0)[0] == 10
    assert NoisyRow(noisy, noise, 12.0 * np.ones(3), 400.0).steps(4000.0)[0] == 1
    assert NoisyRow(noisy, noise, np.ones(3), np.inf).steps(1e6)[0] == 900 // 16
    assert NoisyRow(noisy, CountNoise(GAUSSIAN, 9.0, 0.0), np.ones(3), np.inf).steps(1e6)[0] == 1
