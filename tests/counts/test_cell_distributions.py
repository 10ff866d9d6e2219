"""Distributions of single counts: beside sums over all counts, one by one."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import special

from pymc_private.counts.denoise import cell_distributions as module
from pymc_private.counts.denoise.cell_distributions import (
    CountNoise,
    cell_distributions,
    log_prior,
)

GAUSSIAN, LAPLACE = "discrete_gaussian", "laplace"
LAWS = pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])


def count_by_count(noisy, law, scale, a, tilt, most=None, least=0):
    """Log sum of the weights of all counts, their mean and their variance."""
    n = np.arange(least, int(45 * scale + 500) if most is None else most)
    away = (n - noisy) / scale
    logs = special.gammaln(n + a) - special.gammaln(n + 1.0) - special.gammaln(a)
    logs = logs - (np.abs(away) if law == LAPLACE else 0.5 * away**2) + tilt * n
    chance = special.softmax(logs)
    mean = chance @ n
    return special.logsumexp(logs), mean, chance @ (n - mean) ** 2


@pytest.mark.thin(3)
@LAWS
@pytest.mark.parametrize("a", [0.01, 0.3, 1.0, 6.0])
@pytest.mark.parametrize("scale", [5.0, 37.0, 600.0])
def test_moments_are_those_count_by_count(law, a, scale):
    """Noisy counts far below 0 to far above, tilts steep and gentle."""
    noisy = np.round(np.array([-3.0, -0.6, 0.0, 0.7, 4.0, 12.0]) * scale)
    cells = cell_distributions(noisy[None], CountNoise(law, scale, 0.0), a)
    for tilt in (0.5 / scale, 0.0, -0.3 / scale, -0.9 / scale, -0.1, -2.0):
        means, variances, logs = (own[0] for own in cells.moments(np.array([tilt])))
        for i, value in enumerate(noisy):
            exact = count_by_count(value, law, scale, a, tilt)
            assert means[i] == pytest.approx(exact[1], rel=2e-3, abs=0.002 * scale)
            assert variances[i] == pytest.approx(exact[2], rel=0.01, abs=1e-6)
            assert logs[i] == pytest.approx(exact[0], abs=0.005)


def test_a_few_nodes_replace_many_counts_but_not_too_few(monkeypatch):
    """What the test above guards against: one distance for all nodes."""
    given = np.array([[-40.0, 900.0]]), CountNoise(GAUSSIAN, 1e4, 0.0), 0.05
    cells = cell_distributions(*given)
    assert cells.away.shape[-1] < 150
    _, exact, _ = count_by_count(-40.0, GAUSSIAN, 1e4, 0.05, -1e-3, 50_000)
    tilt = np.array([-1e-3])
    assert cells.moments(tilt)[0][0, 0] == pytest.approx(exact, rel=1e-3)
    monkeypatch.setattr(module, "NODES_PER_FOLD", 1.0)
    monkeypatch.setattr(module, "NODES_PER_SCALE", {GAUSSIAN: 1.0})
    coarse = cell_distributions(*given).moments(tilt)[0][0, 0]
    assert abs(coarse - exact) > 1e-3 * exact


def test_peaked_priors_have_nodes_enough():
    for a in (300.0, 13_000.0):
        cells = cell_distributions(np.array([[500.0]]), CountNoise(GAUSSIAN, 5000.0, 0.0), a)
        tilt = -np.log1p(a / 2000.0)
        _, mean, variance = count_by_count(500.0, GAUSSIAN, 5000.0, a, tilt, 60_000)
        found = cells.moments(np.array([tilt]))
        assert found[0][0, 0] == pytest.approx(mean, rel=1e-3)
        assert found[1][0, 0] == pytest.approx(variance, rel=0.01)


@LAWS
@pytest.mark.parametrize("least", [1, 5, 400])
def test_a_public_minimum_is_the_least_count(law, least):
    cells = cell_distributions(np.array([[-30.0, 90.0]]), CountNoise(law, 40.0, least - 0.5), 0.1)
    found = cells.moments(np.zeros(1))[0][0]
    assert cells.low.min() == least
    for value, mean in zip((-30.0, 90.0), found, strict=True):
        exact = count_by_count(value, law, 40.0, 0.1, 0.0, 4000, least)[1]
        assert mean == pytest.approx(exact, rel=5e-3)


@pytest.mark.parametrize("tilt", [0.0, 0.02, -0.02, 0.7, -3.0, -60.0])
@pytest.mark.parametrize("prior", [0.3, 90.0])
def test_moments_are_those_of_the_tilted_probabilities(tilt, prior):
    cells = cell_distributions(
        np.array([[-40, 0, 300], [7, 90, 5000]]), CountNoise(GAUSSIAN, 30.0, 0.0), prior
    )
    tilts = np.array([tilt, 0.5 * tilt])
    means, variances, logs = cells.moments(tilts)
    chance = cells.probabilities(tilts)
    mean = (chance * cells.counts).sum(axis=-1)
    assert means == pytest.approx(mean, rel=1e-9)
    spread = (chance * (cells.counts - mean[..., None]) ** 2).sum(axis=-1)
    assert variances == pytest.approx(spread, rel=1e-5, abs=1e-3)
    whole = special.logsumexp(cells.log_weights + tilts[:, None, None] * cells.counts, axis=-1)
    assert logs == pytest.approx(whole, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("a", [0.001, 0.1, 1.0, 1.7, 50.0, 300.0])
def test_priors_are_ratios_of_gammas(a):
    """By mpmath with 40 digits: small, middling and large counts, between whole numbers too."""
    mpmath.mp.dps = 40
    counts = np.array([0.0, 1.0, *(3 * 1.7**k for k in range(18)), 2.0**20 + 0.5, 1e8, 1e12])
    for x, found in zip(counts, log_prior(counts, a), strict=True):
        x = mpmath.mpf(x)
        exact = mpmath.loggamma(x + a) - mpmath.loggamma(x + 1) - mpmath.loggamma(a)
        assert found == pytest.approx(float(exact), abs=1e-6)


def test_cells_of_a_small_row_end_near_its_sum():
    noisy = np.array([[310, -40, 95], [2900, 1700, -220]])
    cells = cell_distributions(
        noisy, CountNoise(GAUSSIAN, 250.0, 0.0), 0.3, np.array([100.0, 4000.0])
    )
    ends = np.where(np.isfinite(cells.log_weights), cells.counts, 0.0).max(axis=(1, 2))
    assert ends[0] <= 510.0 < 4000.0 < ends[1]


def test_absurd_counts_have_distributions():
    cells = cell_distributions(
        np.array([[-(2**62), 0, 2**62]]), CountNoise(LAPLACE, 1e12, 0.0), 0.01
    )
    means, variances, logs = cells.moments(np.zeros(1))
    for values in (means, variances, logs):
        assert np.isfinite(values).all()
    assert means[0, 2] == pytest.approx(2.0**62, rel=1e-6)
