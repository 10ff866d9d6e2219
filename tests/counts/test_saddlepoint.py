"""Tilts at which cells agree with known sums: beside cells laid out count by count."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, special

from pymc_private.counts.denoise import cell_distributions as module
from pymc_private.counts.denoise import saddlepoint
from pymc_private.counts.denoise.cell_distributions import CountNoise, cell_distributions
from pymc_private.counts.denoise.families import NoisyRows, TablePosterior, table_posterior
from pymc_private.counts.denoise.posterior import family_posterior
from pymc_private.counts.denoise.saddlepoint import match_row_sums, match_total, prior_mean

GAUSSIAN, LAPLACE = "discrete_gaussian", "laplace"
LAWS = pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0)
NONE = (np.zeros(1), np.full(1, np.inf))
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


def table(
    shape: tuple[int, int], records: int, scale: float, law: str, known: float = np.inf
) -> NoisyRows:
    """Noisy counts of a random table; other families know its rows' sums up to `known`."""
    rng = np.random.default_rng(0)
    n = rng.multinomial(records, rng.dirichlet(np.full(shape[0] * shape[1], 0.5))).reshape(shape)
    noisy = np.round(n + rng.normal(0.0, scale, shape)).astype(int)
    center = n.sum(axis=1) + (0.0 if np.isinf(known) else rng.normal(0.0, known, shape[0]))
    return NoisyRows(
        shape, noisy, CountNoise(law, scale, 0.0), (center, np.full(shape[0], known**2))
    )


def near_one(rows: NoisyRows, size: float, total: float | None) -> TablePosterior:
    """Rows near a common one, of parameters that add up to `size`."""
    common = np.random.default_rng(1).dirichlet(np.full(rows.shape[1], 2.0))
    return table_posterior(rows, np.tile(size * common, (rows.shape[0], 1)), total)


def count_by_count(monkeypatch, solve, *given):
    """The same with every count as a node."""
    with monkeypatch.context() as every:
        every.setattr(module, "MAX_UNBINNED_SCALE", 1e9)
        return solve(*given)


def farthest(found: TablePosterior, other: TablePosterior) -> float:
    """Largest ratio of two probabilities."""
    return float(np.exp(np.abs(np.log(found.mean() / other.mean())).max()))


@pytest.mark.thin(6)
@LAWS
@pytest.mark.parametrize(
    ("shape", "records", "scale", "size"),
    [((5, 30), 1500, 3e3, 50.0), ((10, 30), 1000, 500.0, 90.0), ((20, 10), 3000, 3000.0, 40.0)],
)
def test_a_public_total_is_met_where_noise_drowns_all(
    shape, records, scale, size, law, monkeypatch
):
    given = table(shape, records, scale, law), size, float(records)
    found = near_one(*given)
    assert found.counts().sum() == pytest.approx(records, rel=1e-3)
    assert farthest(found, count_by_count(monkeypatch, near_one, *given)) < 1.01


@pytest.mark.thin(6)
@LAWS
@pytest.mark.parametrize(
    ("shape", "records", "scale", "size", "known"),
    [
        ((10, 30), 1000, 500.0, 90.0, 1500.0),
        ((10, 17), 1797, 1000.0, 10.0, 520.0),
        ((20, 10), 3000, 3000.0, 40.0, 9000.0),
    ],
)
def test_rows_of_known_sums_are_near_those_count_by_count(
    shape, records, scale, size, known, law, monkeypatch
):
    given = table(shape, records, scale, law, known), size, float(records)
    found = near_one(*given)
    assert found.counts().sum() == pytest.approx(records, rel=0.01)
    assert farthest(found, count_by_count(monkeypatch, near_one, *given)) < 1.03


@pytest.mark.parametrize("a", [0.01, 0.3, 1.0])
def test_a_small_row_among_large_ones_is_what_it_is_count_by_count(a):
    noisy = np.array([[310, -40, 95, 180], [2900, 1700, -220, 350]])
    sums, variance, scale = np.array([112.0, 4900.0]), np.array([30.0, 30.0]) ** 2, 250.0
    most = sums + 4.0 * np.sqrt(variance)
    cells = cell_distributions(noisy, CountNoise(GAUSSIAN, scale, 0.0), a, most)
    found = cells.moments(match_total(cells, sums, variance, None))[0]
    n = np.arange(6000)
    for row in range(2):
        logs = special.gammaln(n + a) - special.gammaln(n + 1.0)
        logs = logs - 0.5 * ((n - noisy[row][:, None]) / scale) ** 2

        def means(tilt, logs=logs):
            return special.softmax(logs + tilt * n, axis=1) @ n

        def gap(tilt, row=row, means=means):
            return tilt - (sums[row] - means(tilt).sum()) / variance[row]

        expected = means(optimize.brentq(gap, -1.0, 0.05))
        assert found[row] == pytest.approx(expected, rel=0.01, abs=0.01 * sums[row])


@LAWS
def test_tilts_of_sparse_rows_are_found(law):
    """Cells of small parameters have two peaks, over which Newton's steps run to and fro."""
    rng = np.random.default_rng(5)
    sums, variance = np.full(40, 400.0), np.full(40, 81.0)
    true = np.array([rng.multinomial(400, rng.dirichlet(np.full(6, 0.4))) for _ in sums])
    noisy = np.round(true + rng.normal(0.0, 60.0, true.shape)).astype(int)
    cells = cell_distributions(noisy, CountNoise(law, 60.0, 0.0), 0.01, sums + 36.0)
    for total in (None, 400.0 * 40 + 300.0):
        tilt = match_total(cells, sums, variance, total)
        mean = cells.moments(tilt)[0].sum(axis=1)
        left = tilt - (sums - mean) / variance  # one number for all rows, 0 if no total is known
        inside = (tilt > 0.999 * cells.min_tilt) & (tilt < 0.999 * cells.max_tilt)
        assert inside.sum() > (35 if law != LAPLACE else 10)  # whose tilts end at 0.7 / scale
        assert np.ptp(left[inside]) < 1e-2
        if total is not None and law != LAPLACE:
            assert mean.sum() == pytest.approx(total, rel=1e-3)
        assert np.abs(mean - sums)[inside].max() < 40.0


def alone(noisy: list[int], scale: float, total: float, law: str = GAUSSIAN) -> TablePosterior:
    rows = NoisyRows((len(noisy),), np.array([noisy]), CountNoise(law, scale, 0.0), NONE)
    return family_posterior(rows, total, (1.0,))


@pytest.mark.parametrize("total", [2250.0, 2470.0, 1930.0])
def test_families_at_odds_with_their_total_meet_it(total, monkeypatch):
    """Up to three scales a cell."""
    found = alone([400, 700, 1100], 30.0, total)
    assert found.counts().sum() == pytest.approx(total, rel=1e-4)
    assert found.counts() == pytest.approx(np.array([400, 700, 1100]) + (total - 2200) / 3, abs=3)
    narrow = module.CountWindow(2.0, 2.0, 0.5)
    monkeypatch.setattr(module, "WINDOWS", {GAUSSIAN: narrow})
    if total != 2250.0:
        assert abs(alone([400, 700, 1100], 30.0, total).counts().sum() - total) > 20.0


@pytest.mark.parametrize("a", [0.001, 0.01, 0.3])
def test_small_totals_under_large_noise_are_met(a):
    """Twice 24 records, noise of 300: the tilt is one of the sum's scale, not of the noise's."""
    noise = CountNoise(GAUSSIAN, 298.0, 0.0)
    cells = cell_distributions(np.array([[-1095, -148]]), noise, a, 24.0)
    found = cells.moments(match_row_sums(cells, 24.0))[0]
    assert found.sum() == pytest.approx(24.0, rel=1e-3)


def test_peaked_priors_of_small_sums_take_large_tilts():
    """A row of 400 records that is next to sure to be as the common one: log(400 / 20000)."""
    known = (np.array([400.0]), np.array([30.0**2]))
    prior = np.array([[13_000.0, 2000.0, 5000.0]])
    rows = NoisyRows((1, 3), np.array([[250, 60, 80]]), CountNoise(GAUSSIAN, 40.0, 0.0), known)
    found = table_posterior(rows, prior, None)
    assert found.tilt[0] < -3.0
    assert found.counts().sum() == pytest.approx(400.0, rel=0.05)
    assert found.mean()[0] == pytest.approx(prior[0] / prior.sum(), abs=0.01)


def peaked(seed: int) -> np.ndarray:
    """Sums of three rows near rows that are known, under noise that leaves their sums open."""
    rng = np.random.default_rng(seed)
    a = 19.0 * rng.dirichlet(np.full(6, 0.7), 3) + 0.01
    n = np.stack([rng.multinomial(k, p / p.sum()) for k, p in zip((700, 40, 60), a, strict=True)])
    noisy = np.round(n + rng.normal(0.0, 43.5, n.shape)).astype(int)
    known = np.round(n.sum(axis=1) + rng.normal(0.0, 118.0, 3)), np.full(3, 118.0**2)
    rows = NoisyRows((3, 6), noisy, CountNoise(GAUSSIAN, 43.5, 0.0), known)
    return table_posterior(rows, a, 800.0).counts().sum(axis=1)


@pytest.mark.parametrize("seed", [0, 4])
def test_sums_at_steep_tilts_are_those_count_by_count(seed, monkeypatch):
    assert peaked(seed) == pytest.approx(count_by_count(monkeypatch, peaked, seed), rel=0.01)


@pytest.mark.parametrize("at_once", [True, False])
def test_records_that_nothing_tells_are_no_more_than_there_are(monkeypatch, at_once):
    """Sums of rows leap from 70 records to 70 000: neither noise nor other tables tell them."""
    if not at_once:
        together = saddlepoint._joint_newton
        monkeypatch.setattr(
            saddlepoint, "_joint_newton", lambda *given: (together(*given)[0], False)
        )
    known = (
        np.array([7930.0, 8269, 9909, 2554, 7895, -5818, 13769, 6011, -1185, -686]),
        np.full(10, 6452.0**2),
    )
    sizes = np.array([32.0, 32.1, 49.1, 25.6, 27.6, 25.6, 51.6, 33.0, 25.6, 25.6])
    prior = np.repeat(sizes[:, None] / 10.0, 10, axis=1)
    rows = NoisyRows((10, 10), np.array(DROWNED), CountNoise(GAUSSIAN, 6452.0, 0.0), known)
    found = table_posterior(rows, prior, 700.0)
    assert found.counts().sum() == pytest.approx(700.0, rel=0.25)
    assert found.mean() == pytest.approx(np.full((10, 10), 0.1), abs=0.02)


def test_a_search_for_the_common_tilt_finds_what_joint_steps_do(monkeypatch):
    rows = table((3, 6), 900, 30.0, GAUSSIAN, 12.0)
    joint = table_posterior(rows, 0.4, 900.0).counts()
    monkeypatch.setattr(saddlepoint, "_joint_newton", lambda *given: (given[-1], False))
    nested = table_posterior(rows, 0.4, 900.0).counts()
    assert nested == pytest.approx(joint, rel=1e-2, abs=0.5)


def test_rows_that_are_there_stay_while_others_are_on_their_way():
    """One pass for all rows; a row's own function is nothing but rounding when it is there."""
    rng = np.random.default_rng(0)
    noisy = rng.integers(-60, 500, (300, 4))
    every = cell_distributions(noisy, CountNoise(GAUSSIAN, 60.0, 0.0), 0.1, 1000.0)
    tilt = match_row_sums(every, 1000.0, 1e-2)
    exact = match_row_sums(every, 1000.0, 1e-9)
    # A step of Newton's beyond the last one of 1e-2: what is left is of its square.
    assert np.abs(tilt - exact).max() < 2e-3 * every.max_tilt[0]


@LAWS
@pytest.mark.parametrize("scale", [7.0, 40.0])
def test_cells_of_one_noisy_count_share_one_distribution(law, scale):
    noisy, noise = np.array([[3, 90, 3, -8, 90, 3, 250, -8]]), CountNoise(law, scale, 0.0)
    values, times = np.unique(noisy, return_counts=True)
    few = cell_distributions(values[None], noise, 0.4, 400.0, times[None])
    every = cell_distributions(noisy, noise, 0.4, 400.0)
    assert match_row_sums(few, 400.0) == pytest.approx(match_row_sums(every, 400.0), rel=1e-6)


@pytest.mark.thin(4)
@LAWS
@pytest.mark.parametrize(("shape", "records"), [((10, 30), 500), ((40, 50), 1000)])
def test_priors_weigh_what_they_do_count_by_count(shape, records, law, monkeypatch):
    """What coarse nodes miss of each cell adds up."""
    rows = table(shape, records, 200.0, law)
    given = rows.noisy, rows.noise, float(records), PRIORS
    expected = count_by_count(monkeypatch, prior_mean, *given)
    assert prior_mean(*given) == pytest.approx(expected, rel=0.06)
    assert prior_mean(*given[:2], None, PRIORS) == 1.0
    monkeypatch.setattr(module, "NODES_PER_FOLD", 0.5)
    assert prior_mean(*given) != pytest.approx(expected, rel=0.06)
