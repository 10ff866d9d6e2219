"""Grids of counts: fine enough for the smallest row, exact in mean where counts are near 0."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy import optimize, special

from pymc_private.counts.denoise.cell_distributions import (
    draw_within_bin,
    first_bins,
    first_masses,
    log_bin_priors,
)
from pymc_private.counts.denoise.cell_grid import (
    MIN_BINS_PER_SCALE,
    CountNoise,
    ObservedCounts,
    cell_distributions,
    noise_distributions,
)
from pymc_private.counts.denoise.posterior import NoisyRows, family_posteriors
from pymc_private.counts.denoise.saddlepoint import match_total

SCALE = 250.0
NOISY = np.array([[310, -40, 95, 180], [2900, 1700, -220, 350]])
SUMS, VARIANCE = np.array([112.0, 4900.0]), np.array([30.0, 30.0]) ** 2


def one_by_one(noisy, a, center, variance):
    """Posterior mean counts of a row, count by count, at the tilt where all agree on the sum."""
    n = np.arange(6000)
    logs = special.gammaln(n + a) - special.gammaln(n + 1.0)
    logs = logs - 0.5 * ((n - noisy[:, None]) / SCALE) ** 2
    means = lambda tilt: special.softmax(logs + tilt * n, axis=1) @ n  # noqa: E731
    gap = lambda tilt: tilt - (center - means(tilt).sum()) / variance  # noqa: E731
    return means(optimize.brentq(gap, -1.0, 0.05))


@pytest.mark.parametrize("a", [0.01, 0.3, 1.0])
def test_a_small_row_among_large_ones_has_bins_of_its_own(a):
    most = SUMS + 4.0 * np.sqrt(VARIANCE)
    laws = cell_distributions(NOISY, "discrete_gaussian", SCALE, a, 0.0, 5012.0, most)
    assert laws.step[0] < laws.step[1]
    found = laws.moments(match_total(laws, SUMS, VARIANCE, None))[0]
    for row in range(2):
        expected = one_by_one(NOISY[row], a, SUMS[row], VARIANCE[row])
        assert found[row] == pytest.approx(expected, rel=0.05, abs=0.02 * SUMS[row])


def test_bins_of_the_largest_row_would_blur_the_small_one():
    """What the test above guards against: one grid for all rows, and counts in middles of bins."""
    laws = noise_distributions(
        ObservedCounts(NOISY, CountNoise("discrete_gaussian", SCALE, 0.0), 5012.0)
    ).with_prior(0.01)
    assert laws.step[0] == laws.step[1] >= 16
    expected = one_by_one(NOISY[0], 0.01, SUMS[0], VARIANCE[0])
    first = laws.probabilities(match_total(laws, SUMS, VARIANCE, None))[0, 1, 0]
    assert first > 0.8
    assert first * 0.5 * (laws.step[0] - 1) > expected[1]


@pytest.mark.thin(2)
@pytest.mark.parametrize("a", [0.05, 2.0])
def test_counts_in_a_first_bin_follow_the_prior(a):
    """The least cell of one row whose noise is nearly level over the bin."""
    none = (np.zeros(1), np.full(1, np.inf))
    noise = CountNoise("discrete_gaussian", 2000.0, 0.0)
    rows = NoisyRows((1, 2), np.array([[0, 40_000]]), noise, none)
    (found,) = family_posteriors([rows], None, (a,))
    step = int(found.cells.step[0])
    assert step > 100
    drawn = found.draw(60_000, np.random.default_rng(3))[:, 0, 0] - found.prior
    inside = np.round(drawn[drawn < step - 0.5]).astype(int)
    n = np.arange(step)
    a = float(found.prior)
    logs = special.gammaln(n + a) - special.gammaln(n + 1.0) - 0.5 * (n / 2000.0) ** 2
    chance = special.softmax(logs)
    upto = np.cumsum(np.bincount(inside, minlength=step)) / len(inside)
    assert len(inside) > 2000
    assert np.abs(upto - np.cumsum(chance)).max() < 1.63 / np.sqrt(len(inside))


@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
def test_tilts_of_sparse_rows_are_found(law):
    """Cells of small parameters: laws of two peaks, over which Newton's steps run to and fro."""
    rng = np.random.default_rng(5)
    sums, variance = np.full(40, 400.0), np.full(40, 81.0)
    true = np.array([rng.multinomial(400, rng.dirichlet(np.full(6, 0.4))) for _ in sums])
    noisy = np.round(true + rng.normal(0.0, 60.0, true.shape)).astype(int)
    most = sums + 36.0
    laws = cell_distributions(noisy, law, 60.0, 0.01, 0.0, None, most)
    for total in (None, 400.0 * 40 + 300.0):
        tilt = match_total(laws, sums, variance, total)
        mean = laws.moments(tilt)[0].sum(axis=1)
        left = tilt - (sums - mean) / variance  # one number for all rows, 0 where no total is told
        inside = (tilt > 0.999 * laws.min_tilt) & (tilt < 0.999 * laws.max_tilt)
        assert inside.sum() > (35 if law != "laplace" else 10)  # whose tilts end at 0.7 / scale
        assert np.ptp(left[inside]) < 1e-2
        if total is not None and law != "laplace":
            assert mean.sum() == pytest.approx(total, rel=1e-3)
        assert np.abs(mean - sums)[inside].max() < 40.0


@pytest.mark.parametrize("a", [0.001, 0.1, 1.0, 1.7, 50.0, 300.0])
def test_priors_of_middles_are_ratios_of_gammas(a):
    """By mpmath with 40 digits: small, middling and large counts."""
    mpmath.mp.dps = 40
    firsts = [0, 1, *(int(3 * 1.7**k) for k in range(18)), 2**20 + 1, 10**8, 10**12]
    for step in (1, 4, 16, 1023):
        found = log_bin_priors(
            np.array([firsts]), np.array([step]), np.full((1, len(firsts)), a), 3
        )
        for first, own in zip(firsts, found[0], strict=True):
            for k, value in enumerate(own):
                x = first + k * step + (step - 1) / mpmath.mpf(2)
                exact = mpmath.loggamma(x + a) - mpmath.loggamma(x + 1) - mpmath.loggamma(a)
                assert value == pytest.approx(float(mpmath.log(step) + exact), abs=2e-6)
        assert (log_bin_priors(np.array([firsts]), np.array([step]), a, 3) == found).all()


@pytest.mark.parametrize("a", [0.001, 0.1, 1.0, 2.0])
@pytest.mark.parametrize("low", [0, 3, 50])
@pytest.mark.parametrize("step", [2, 7, 64])
def test_two_first_bins_give_a_law_its_moments(a, low, step):
    """A prior that falls like e^(-n / theta), count by count and by bins of half a theta."""
    n = np.arange(low, low + 80 * step)
    count_by_count = np.exp(special.gammaln(n + a) - special.gammaln(n + 1.0) - special.gammaln(a))
    weights = np.exp(log_bin_priors(np.array([[low]]), np.array([step]), a, 80)[0, 0])
    places = low + step * np.arange(80) + 0.5 * (step - 1)
    plain = _moments(weights, places, 2 * step)
    logs, shift = first_bins(np.array([low]), np.array([step]), np.array([a]))
    weights[:2], places[0] = np.exp(logs[0]), places[0] + shift[0]
    found, exact = _moments(weights, places, 2 * step), _moments(count_by_count, n, 2 * step)
    assert found == pytest.approx(exact, rel=0.04)
    if low == 0 and a < 1.0:  # what they are for: middles alone are far off
        assert plain[1] > 1.2 * exact[1]


@pytest.mark.parametrize("a", [1e-9, 1e-6, 1e-3, 0.3, 1.5])
@pytest.mark.parametrize(
    ("low", "step"), [(0, 10**9), (1, 1000), (10**6, 10**6), (7 * 10**8, 10**8)]
)
def test_first_bins_of_tiny_priors_and_huge_counts_keep_their_digits(a, low, step):
    """The mass of a block is told from its parts, by mpmath with 40 digits."""
    mpmath.mp.dps = 40
    logs, shift = first_bins(np.array([low]), np.array([step]), np.array([a]))
    assert abs(shift[0]) <= 0.5 * step
    below = lambda x: mpmath.gammaprod([x + a], [a + 1, x]) if x else 0  # noqa: E731
    middles = log_bin_priors(np.array([[low]]), np.array([step]), a, 8)[0, 0, 2:]
    found = np.exp(logs[0]).sum() + np.exp(middles).sum()
    exact = float(below(mpmath.mpf(low + 8 * step)) - below(mpmath.mpf(low)))
    assert found == pytest.approx(exact, rel=0.01)


@pytest.mark.parametrize("a", [1e-6, 0.1, 1.0, 40.0])
@pytest.mark.parametrize(("low", "step"), [(0, 7), (3, 50), (200, 30)])
def test_first_masses_are_those_count_by_count(a, low, step):
    n = np.arange(low, low + 2 * step).reshape(2, step)
    each = np.exp(special.gammaln(n + a) - special.gammaln(n + 1.0) - special.gammaln(a))
    logs, shift = first_masses(np.array([low]), np.array([step]), np.array([a]))
    assert np.exp(logs[0]) == pytest.approx(each.sum(axis=1), rel=1e-6)
    mean = low + 0.5 * (step - 1) + shift[0]
    assert mean == pytest.approx((each[0] @ n[0]) / each[0].sum(), rel=1e-6)


def _moments(weights, places, theta):
    """Mass, mean and variance of weights times e^(-places / theta)."""
    each = weights * np.exp(-places / theta)
    mean = each @ places / each.sum()
    return np.array([each.sum(), mean, each @ (places - mean) ** 2 / each.sum()])


@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
@pytest.mark.parametrize("a", [0.05, 0.4, 1.0, 6.0])
def test_means_are_those_count_by_count(law, a):
    """Noisy counts far below 0 to far above, all tilts: `MIN_BINS_PER_SCALE` promises 0.005."""
    scale, n = 37.0, np.arange(2500)
    noisy = np.array([[-90, -30, 0, 20, 60, 130, 700]])
    laws = cell_distributions(noisy, law, scale, a)
    assert laws.step[0] == int(scale / MIN_BINS_PER_SCALE)
    away = (n - noisy[0][:, None]) / scale
    logs = special.gammaln(n + a) - special.gammaln(n + 1.0)
    logs = logs - (np.abs(away) if law == "laplace" else 0.5 * away**2)
    for tilt in (-1.0, -0.3, 0.0, 0.5):
        exact = special.softmax(logs + tilt * n / scale, axis=1) @ n
        found = laws.moments(np.array([tilt / scale]))[0][0]
        assert np.abs(found - exact).max() < 0.005 * scale


@pytest.mark.parametrize("minimum", [0, 1, 5])
def test_counts_within_a_first_bin_have_the_mean_of_the_prior_wherever_it_begins(minimum):
    n = np.arange(minimum, minimum + 64)
    chance = special.softmax(special.gammaln(n + 0.01) - special.gammaln(n + 1.0))
    drawn = draw_within_bin(minimum, 64, 0.01, np.linspace(0.0, 1.0, 20_001)[:-1] + 2.5e-5)
    assert (drawn + minimum).mean() == pytest.approx(chance @ n, rel=2e-3)


def test_steps_are_no_wider_than_peaked_laws():
    """Rows near a common one: their parameters add up to much more than there are cells."""
    noise, most = CountNoise("discrete_gaussian", 900.0, 0.0), np.array([400.0])
    rows = np.array([[100, 200, 100]])
    wide = noise_distributions(ObservedCounts(rows, noise, None, most))
    prior = np.array([[12.0, 24.0, 12.0]])
    peaked = noise_distributions(ObservedCounts(rows, noise, None, most, prior=prior))
    assert wide.step[0] == int(400 / 6)
    assert peaked.step[0] == max(int(400 / 96), int(2010 / 512))
