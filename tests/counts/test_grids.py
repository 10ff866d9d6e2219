"""Grids follow tilts: beside laws laid out count by count."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pymc_private.counts.denoise import (
    cell_grid,
    posterior,
    saddlepoint,
)
from pymc_private.counts.denoise.cell_grid import (
    CellGrid,
    CountNoise,
    GridRequest,
    ObservedCounts,
    noise_distributions,
    refined_request,
)
from pymc_private.counts.denoise.posterior import (
    NoisyRows,
    TablePosterior,
    family_posteriors,
    posteriors_given_priors,
)
from pymc_private.counts.denoise.saddlepoint import match_row_sums

GAUSSIAN, LAPLACE = "discrete_gaussian", "laplace"
LAWS = pytest.mark.parametrize("law", [GAUSSIAN, LAPLACE])
PRIORS = (0.01, 0.03, 0.1, 0.3, 1.0)


def table(
    shape: tuple[int, int], records: int, scale: float, law: str, told: float = np.inf
) -> NoisyRows:
    """Noisy counts of a random table; others tell its rows' sums up to `told`."""
    rng = np.random.default_rng(0)
    n = rng.multinomial(records, rng.dirichlet(np.full(shape[0] * shape[1], 0.5))).reshape(shape)
    noisy = np.round(n + rng.normal(0.0, scale, shape)).astype(int)
    center = n.sum(axis=1) + (0.0 if np.isinf(told) else rng.normal(0.0, told, shape[0]))
    return NoisyRows(
        shape, noisy, CountNoise(law, scale, 0.0), (center, np.full(shape[0], told**2))
    )


def near_one(rows: NoisyRows, size: float, total: float | None) -> TablePosterior:
    """Rows near a common one, of parameters that add up to `size`."""
    common = np.random.default_rng(1).dirichlet(np.full(rows.shape[1], 2.0))
    (found,) = posteriors_given_priors([rows], [np.tile(size * common, (rows.shape[0], 1))], total)
    return found


def count_by_count(monkeypatch, *given) -> TablePosterior:
    with monkeypatch.context() as every:
        every.setattr(cell_grid, "MAX_UNBINNED_SCALE", 1e9)
        return near_one(*given)


def farthest(found: TablePosterior, other: TablePosterior) -> float:
    """Largest ratio of two probabilities."""
    return float(np.exp(np.abs(np.log(found.mean() / other.mean())).max()))


@pytest.mark.thin(4)
@LAWS
@pytest.mark.parametrize(
    ("shape", "records", "scale", "size"),
    [((10, 60), 3000, 1e4, 50.0), ((10, 30), 1000, 500.0, 90.0), ((20, 10), 3000, 3000.0, 40.0)],
)
def test_a_public_total_is_met_where_noise_drowns_all(
    shape, records, scale, size, law, monkeypatch
):
    """In bins for all counts there may be, the first ones alone hold more than there are."""
    given = table(shape, records, scale, law), size, float(records)
    found = near_one(*given)
    assert found.counts().sum() == pytest.approx(records, rel=1e-3)
    assert farthest(found, count_by_count(monkeypatch, *given)) < 1.01
    drawn = found.draw(50, np.random.default_rng(2)) - found.prior
    assert drawn.sum(axis=(1, 2)) == pytest.approx(np.full(50, records))
    monkeypatch.setattr(saddlepoint, "MAX_REFINEMENTS", 0)
    assert farthest(near_one(*given), found) > 1.4


@pytest.mark.thin(4)
@LAWS
@pytest.mark.parametrize(
    ("shape", "records", "scale", "size", "told", "within", "before"),
    [
        ((10, 30), 1000, 500.0, 90.0, 1500.0, 1.25, 2.0),
        ((10, 17), 1797, 1000.0, 10.0, 520.0, 1.03, 1.15),
        ((20, 10), 3000, 3000.0, 40.0, 9000.0, 1.25, 1.7),
    ],
)
def test_rows_told_their_sums_are_near_those_count_by_count(
    shape, records, scale, size, told, within, before, law, monkeypatch
):
    given = table(shape, records, scale, law, told), size, float(records)
    found = near_one(*given)
    assert found.counts().sum() == pytest.approx(records, rel=0.01)
    assert farthest(found, count_by_count(monkeypatch, *given)) < within
    monkeypatch.setattr(saddlepoint, "MAX_REFINEMENTS", 0)
    assert farthest(near_one(*given), found) > before


def test_few_laws_are_on_the_grid_they_were_solved_on():
    """Two thousand cells of a thousand records: a bin of nine counts holds four on average."""
    rows = table((40, 50), 1000, 500.0, GAUSSIAN)
    rows = replace(rows, noisy=np.round(rows.noisy / 100).astype(int) * 100)
    assert rows.few_distinct(1.0)
    (found,) = posteriors_given_priors([rows], [1.0], 1000.0)
    assert found.counts().sum() == pytest.approx(1000.0, rel=1e-3)


def peaked(seed: int) -> np.ndarray:
    """Sums of three rows near rows that are known, under noise that leaves their sums open."""
    rng = np.random.default_rng(seed)
    a = 19.0 * rng.dirichlet(np.full(6, 0.7), 3) + 0.01
    n = np.stack([rng.multinomial(k, p / p.sum()) for k, p in zip((700, 40, 60), a, strict=True)])
    noisy = np.round(n + rng.normal(0.0, 43.5, n.shape)).astype(int)
    told = np.round(n.sum(axis=1) + rng.normal(0.0, 118.0, 3)), np.full(3, 118.0**2)
    (found,) = posteriors_given_priors(
        [NoisyRows((3, 6), noisy, CountNoise(GAUSSIAN, 43.5, 0.0), told)], [a], 800.0
    )
    return found.counts().sum(axis=1)


@pytest.mark.parametrize("seed", [0, 4])
def test_steep_tilts_have_fine_bins(seed, monkeypatch):
    """Over bins that a tilt falls by e or more, three rows would be 679, 51 and 70."""
    found = peaked(seed)
    with monkeypatch.context() as every:
        every.setattr(cell_grid, "MAX_UNBINNED_SCALE", 1e9)
        assert found == pytest.approx(peaked(seed), rel=0.02)
    monkeypatch.setattr(saddlepoint, "MAX_REFINEMENTS", 0)
    assert np.abs(peaked(seed) / found - 1.0).max() > 0.25


def drowned(total: float | None = 3000.0) -> ObservedCounts:
    rows = table((1, 60), 3000, 1e4, GAUSSIAN)
    return ObservedCounts(rows.noisy, rows.noise, total, prior=np.full((1, 60), 5.0))


def test_gentle_tilts_keep_their_grids():
    laws = noise_distributions(drowned()).with_prior(np.full((1, 60), 5.0))
    known, room = GridRequest.unknown(1), np.array([3000.0])
    assert laws.step[0] > 4
    assert refined_request(laws, np.array([-0.7 / laws.step[0]]), room, known) is None
    asked = refined_request(laws, np.array([-0.1]), room, known)
    assert asked is not None
    assert asked.step == pytest.approx([5.0])
    assert 300.0 < asked.largest[0] < 1000.0
    assert -0.1 < asked.valid_tilt[0] < -0.04


def test_windows_are_cut_off_where_nothing_weighs():
    prior = np.full((1, 60), 5.0)
    plain = drowned()
    laws = noise_distributions(plain).with_prior(prior)
    tilt = match_row_sums(laws, 3000.0)
    grid = refined_request(laws, tilt, plain.sum_bound, GridRequest.unknown(1))
    assert grid is not None
    cut = noise_distributions(
        ObservedCounts(plain.noisy, plain.noise, 3000.0, prior=prior, request=grid)
    )
    cut = cut.with_prior(prior)
    ends = (cut.low + cut.step * cut.width).max()
    assert ends < 0.2 * (laws.low + laws.step * laws.width).max()
    tilt = match_row_sums(cut, 3000.0)
    assert tilt[0] < grid.valid_tilt[0]
    assert cut.moments(tilt)[0].sum() == pytest.approx(3000.0, rel=1e-3)
    assert cut.probabilities(tilt)[0, :, -1].max() < 1e-7


def test_windows_are_whole_again_where_a_tilt_is_less_steep():
    plain = drowned()
    laws = noise_distributions(plain).with_prior(np.full((1, 60), 5.0))
    narrow = GridRequest(np.array([2.0]), np.array([400.0]), np.array([-0.05]))
    asked = refined_request(laws, np.array([-0.01]), plain.sum_bound, narrow)
    assert asked is not None
    assert np.isinf(asked.largest).all()
    assert asked.step == pytest.approx([2.0])


def test_finer_bins_do_not_fill_the_memory(monkeypatch):
    """So many bins of a cell, or numbers of all rows of a family, whatever stands beside it."""
    wanted = GridRequest(np.full(4, 1.0), np.full(4, np.inf), np.full(4, np.inf))
    noisy = np.full((4, 25), 10**5)
    many = ObservedCounts(noisy, CountNoise(GAUSSIAN, 10.0**4, 0.0), request=wanted)
    one = GridRequest(wanted.step[:1], wanted.largest[:1], wanted.valid_tilt[:1])
    few = ObservedCounts(noisy[:1, :2], CountNoise(GAUSSIAN, 10.0**4, 0.0), request=one)
    assert CellGrid([few]).bins[0] == pytest.approx(cell_grid.MAX_STEEP_BINS, rel=0.01)
    assert CellGrid([many, few]).bins.tolist() == [*CellGrid([many]).bins, *CellGrid([few]).bins]
    monkeypatch.setattr(cell_grid, "MAX_FAMILY_NUMBERS", 1e5)
    assert noise_distributions(many).log_weights.size == pytest.approx(1e5, rel=0.01)
    monkeypatch.setattr(cell_grid, "MAX_FAMILY_NUMBERS", 1e3)
    assert noise_distributions(many).width == pytest.approx(cell_grid.MAX_BINS, rel=0.01)


@LAWS
@pytest.mark.parametrize(("shape", "records"), [((10, 30), 500), ((40, 50), 1000)])
def test_priors_weigh_what_they_do_count_by_count(shape, records, law, monkeypatch):
    """What bins miss of each cell adds up: under a tenth of a scale the least prior would win."""
    rows = table(shape, records, 200.0, law)
    given = [(rows.noisy, rows.noise)], float(records), PRIORS
    (found,) = saddlepoint.prior_means(*given)
    with monkeypatch.context() as every:
        every.setattr(cell_grid, "MAX_UNBINNED_SCALE", 1e9)
        (expected,) = saddlepoint.prior_means(*given)
    assert found == pytest.approx(expected, rel=0.06)
    monkeypatch.setattr(saddlepoint, "SCORE_TOLERANCE", np.inf)
    (crude,) = saddlepoint.prior_means(*given)
    assert crude < 0.5 * expected


@pytest.mark.thin(2)
@LAWS
def test_draws_of_sums_smaller_than_bins_add_up(law, monkeypatch):
    """Fifty rows of two records each, in bins of sixteen."""
    found = near_one(table((50, 3), 100, 1060.0, law, 106.0), 0.01, 100.0)
    assert found.cells.step.max() > 8
    total = (found.draw(1000, np.random.default_rng(1)) - found.prior).sum(axis=(1, 2))
    assert total.mean() == pytest.approx(100.0, abs=4.0 * total.std() / np.sqrt(1000))
    monkeypatch.setattr(posterior, "MIN_BINS_OF_SUM", 0.0)
    off = near_one(table((50, 3), 100, 1060.0, law, 106.0), 0.01, 100.0)
    crude = (off.draw(1000, np.random.default_rng(1)) - off.prior).sum(axis=(1, 2))
    assert crude.mean() > 108.0


def test_many_tables_are_weighed_together_as_apart():
    families = [
        (t.noisy, t.noise)
        for t in (table((10, 30), 500, 200.0, GAUSSIAN), table((2, 6), 500, 8.0, LAPLACE))
    ]
    together = saddlepoint.prior_means(families, 500.0, PRIORS)
    assert together == [saddlepoint.prior_means([one], 500.0, PRIORS)[0] for one in families]
    (found,) = family_posteriors([table((10, 30), 500, 200.0, GAUSSIAN)], 500.0, PRIORS)
    assert found.prior == together[0]
