"""Near windows serve most families; those whose tilts would leave them have far ones."""

from __future__ import annotations

import numpy as np
import pytest

from pymc_private.counts.denoise import cell_grid, saddlepoint
from pymc_private.counts.denoise.cell_grid import (
    NARROW_WINDOWS,
    CountNoise,
    ObservedCounts,
    at_window_edge,
    cell_distributions,
    noise_distributions,
)
from pymc_private.counts.denoise.posterior import (
    NoisyRows,
    family_posteriors,
    posteriors_given_priors,
)
from pymc_private.counts.denoise.saddlepoint import match_row_sums

DROWNED = [
    [-3823, -13078, 12083, -4794, 3792, 8729, 3153, 4152, -1315, -4934],
    [8597, 2254, -11040, -1255, 1493, 240, -9886, 6340, 3741, 330],
    [-977, -2658, 666, 13669, 5833, -571, 2547, 5222, 13293, -2688],
    [-15089, -6600, -417, 14508, 1073, -2556, -1135, -13539, 3485, -638],
    [-3863, -9346, -1442, -14803, -2387, 774, 2072, -2216, 9875, 2682],
    [-4608, 5379, 10264, 2136, 5568, 1499, -1301, -523, -2338, -2279],
    [99, -7191, 555, 5223, -2581, -1345, -3291, -5665, 9805, 4749],
    [4888, 4092, 1423, 3751, 2953, 5561, -5385, -7865, 13495, 4388],
    [-2857, -1130, -982, -6084, 431, 8, -3045, -1751, 2218, -3712],
    [-5255, -2010, -12240, -946, 572, -2878, 9949, -14768, 2629, -1779],
]
"""Of 700 records, under noise of 6500."""
NONE = (np.zeros(1), np.full(1, np.inf))
GAUSSIAN = "discrete_gaussian"


def alone(noisy: list[int], scale: float, total: float, law: str = GAUSSIAN):
    rows = NoisyRows((len(noisy),), np.array([noisy]), CountNoise(law, scale, 0.0), NONE)
    (found,) = family_posteriors([rows], total, (1.0,))
    return found


def test_likely_families_have_near_windows():
    found = alone([400, 700, 1100], 30.0, 2250.0)
    assert found.cells.max_tilt[0] == NARROW_WINDOWS[GAUSSIAN].max_tilt / 30.0
    assert found.counts().sum() == pytest.approx(2250.0, rel=1e-4)


@pytest.mark.parametrize("total", [2200.0 + 270.0, 2200.0 - 270.0])
def test_families_at_odds_with_their_total_have_far_ones(total):
    """Three cells, each three scales off: no near window goes there."""
    found = alone([400, 700, 1100], 30.0, total)
    ends = np.array([NARROW_WINDOWS[GAUSSIAN].min_tilt, NARROW_WINDOWS[GAUSSIAN].max_tilt]) / 30.0
    assert not ends[0] < found.tilt[0] < ends[1]
    assert found.counts().sum() == pytest.approx(total, rel=1e-4)
    assert found.counts() == pytest.approx(np.array([400, 700, 1100]) + (total - 2200) / 3, abs=3)


def test_without_far_windows_they_would_miss_it(monkeypatch):
    monkeypatch.setattr(cell_grid, "WIDE_WINDOWS", cell_grid.WIDE_WINDOWS | NARROW_WINDOWS)
    assert abs(alone([400, 700, 1100], 30.0, 2470.0).counts().sum() - 2470.0) > 20.0


def test_near_and_far_windows_tell_the_same():
    observed = ObservedCounts(
        np.array([[35, 260, 900], [-40, 12, 77]]), CountNoise(GAUSSIAN, 25.0, 0.0)
    )
    near, far = (noise_distributions(observed, which).with_prior(0.3) for which in (True, False))
    assert near.width < 0.7 * far.width
    for tilt in (-2.4, -0.3, 0.0, 1.0, 2.4):
        both = [laws.moments(np.full(2, tilt / 25.0))[0] for laws in (near, far)]
        assert both[0] == pytest.approx(both[1], abs=0.02 * 25.0)


def test_only_tilts_at_ends_are_pressed():
    observed = ObservedCounts(
        np.array([[35, 260, 900], [-40, 12, 77]]), CountNoise(GAUSSIAN, 25.0, 0.0)
    )
    near, far = (noise_distributions(observed, which) for which in (True, False))
    for share, row in (
        (0.5, [False, False]),
        (0.99, [True, True]),
        (-0.7, [False, False]),
        (-0.99, [True, False]),
    ):
        tilt = np.full(2, share * NARROW_WINDOWS[GAUSSIAN].max_tilt / 25.0)
        assert at_window_edge(near, tilt).tolist() == row  # the lower row's windows begin at 0
        assert not at_window_edge(far, tilt).any()


@pytest.mark.parametrize("a", [0.001, 0.01, 0.3])
def test_small_totals_under_large_noise_are_met(a):
    """Twice 24 records, noise of 300: the tilt is one of the sum's scale, not of the noise's."""
    laws = cell_distributions(np.array([[-1095, -148]]), GAUSSIAN, 298.0, a, 0.0, 24.0)
    found = laws.moments(match_row_sums(laws, 24.0))[0]
    assert found.sum() == pytest.approx(24.0, rel=1e-3)


def test_peaked_priors_of_small_sums_take_large_tilts():
    """A row of 400 records that is next to sure to be as the common one: log(400 / 20000)."""
    told = (np.array([400.0]), np.array([30.0**2]))
    prior = np.array([[13_000.0, 2000.0, 5000.0]])
    rows = NoisyRows((1, 3), np.array([[250, 60, 80]]), CountNoise(GAUSSIAN, 40.0, 0.0), told)
    (found,) = posteriors_given_priors([rows], [prior], None)
    assert found.tilt[0] < -3.0
    assert found.counts().sum() == pytest.approx(400.0, rel=0.05)
    assert found.mean()[0] == pytest.approx(prior[0] / prior.sum(), abs=0.01)


def test_finer_bins_hold_the_same_laws():
    laws = cell_distributions(
        np.array([[-90, 20, 60, 700], [5, 5, 5, 5]]), GAUSSIAN, 70.0, 0.4, 0.0, 900.0
    )
    finer = laws.refined(4)
    assert (finer.step == np.maximum(laws.step // 4, 1)).all()
    for tilt in (-1.0, 0.0, 0.5):
        both = [each.moments(np.full(2, tilt / 70.0))[0] for each in (laws, finer)]
        assert both[0] == pytest.approx(both[1], abs=0.01 * 70.0)
    single = cell_distributions(np.array([[3, 4]]), GAUSSIAN, 2.0, 0.4)
    assert single.refined(4) is single


@pytest.mark.parametrize("tilt", [-0.3, -0.1, 0.0])
def test_peaked_priors_are_those_of_single_counts(tilt, monkeypatch):
    """On bins to draw in, at tilts up to those that better grids leave."""
    given = np.array([[-90, 20, 60, 700]]), GAUSSIAN, 280.0, 4.0, 0.0, 900.0
    laws = cell_distributions(*given).refined(4)
    assert laws.step[0] > 8
    monkeypatch.setattr(cell_grid, "MAX_UNBINNED_SCALE", 1e9)
    at = np.array([tilt / laws.step[0]])
    means, variances, _ = laws.moments(at)
    expected, spread, _ = cell_distributions(*given).moments(at)
    assert means == pytest.approx(expected, rel=1e-3)
    assert variances == pytest.approx(spread, rel=0.03)


@pytest.mark.parametrize("at_once", [True, False])
def test_records_that_nothing_tells_are_no_more_than_there_are(monkeypatch, at_once):
    """Sums of rows leap from 70 records to 70 000: neither noise nor other tables tell them."""
    if not at_once:
        together = saddlepoint._joint_newton

        def none_met(*given):
            tilt, means, met = together(*given)
            return tilt, means, met & False

        monkeypatch.setattr(saddlepoint, "_joint_newton", none_met)
    told = (
        np.array([7930.0, 8269, 9909, 2554, 7895, -5818, 13769, 6011, -1185, -686]),
        np.full(10, 6452.0**2),
    )
    sizes = np.array([32.0, 32.1, 49.1, 25.6, 27.6, 25.6, 51.6, 33.0, 25.6, 25.6])
    prior = np.repeat(sizes[:, None] / 10.0, 10, axis=1)
    rows = NoisyRows((10, 10), np.array(DROWNED), CountNoise(GAUSSIAN, 6452.0, 0.0), told)
    (found,) = posteriors_given_priors([rows], [prior], 700.0)
    assert found.counts().sum() == pytest.approx(700.0, rel=0.25)
    assert found.mean() == pytest.approx(np.full((10, 10), 0.1), abs=0.02)


def test_finer_bins_end_where_their_rows_did():
    """Rows of one family have steps, and so numbers of bins, of their own."""
    observed = ObservedCounts(
        np.array([[4000, 7000], [30, -20]]),
        CountNoise(GAUSSIAN, 200.0, 0.0),
        likely_max=np.array([12000.0, 40.0]),
    )
    laws = noise_distributions(observed).with_prior(0.5)
    finer = laws.refined(4)
    assert laws.step[0] != laws.step[1]
    for row in range(2):
        ends = [
            (own.low[row] + own.step[row] * np.isfinite(own.log_weights[row]).sum(axis=-1)).max()
            for own in (laws, finer)
        ]
        assert ends[0] <= ends[1] < ends[0] + laws.step[row]
    assert finer.width == max(np.isfinite(finer.log_weights).sum(axis=-1).max(axis=-1))
