"""Rows whose sums are known with an error: beside sums over all counts, by convolution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import fft, special

from pymc_private.counts.denoise import families, sum_distributions
from pymc_private.counts.denoise.cell_distributions import CountNoise
from pymc_private.counts.denoise.families import NoisyRows, TablePosterior, table_posterior
from pymc_private.counts.denoise.posterior import NoisyTable, family_posterior, noisy_posterior

MOST = 900
CENTER, SD, SCALE = 55.0, 20.0, 30.0
ROWS = {
    "level": ([30, -14, 60, 12], [1.0, 1.0, 1.0, 1.0]),
    "sparse": ([30, -14, 60, 12], [0.1, 0.1, 0.1, 0.1]),
    "peaked": ([30, -14, 60, 12], [40.0, 10.0, 25.0, 8.0]),
    "one large": ([60, 4], [150.0, 0.3]),
    "mixed": ([30, -14, 60, 12, 5, -9, 18, 22], [4.0, 1.0, 2.5, 0.8, 0.3, 3.0, 2.0, 1.0]),
}


def posterior(noisy: list[int], prior: list[float], law: str, sd: float = SD) -> TablePosterior:
    margins = (np.array([CENTER]), np.array([sd**2]))
    rows = NoisyRows((1, len(noisy)), np.array([noisy]), CountNoise(law, SCALE, 0.0), margins)
    return table_posterior(rows, np.array([prior]), None)


def exact(found: TablePosterior, law: str, known: bool = True, sd: float = SD) -> np.ndarray:
    """Posterior means of the counts, Dirichlet-multinomial given a sum that is level a priori.

    With `known` False, the product of the cells' priors weighs the sum as well.
    """
    noisy, prior, tilt = found.rows.noisy[0], np.asarray(found.prior)[0], float(found.tilt[0])
    n, cells = np.arange(MOST), len(noisy)
    away = (n - noisy[:, None]) / SCALE
    logs = special.gammaln(n + prior[:, None]) - special.gammaln(n + 1.0) + tilt * n
    logs = logs - (np.abs(away) if law == "laplace" else 0.5 * away**2)
    laws = np.exp(logs - logs.max(axis=1, keepdims=True))
    length = fft.next_fast_len(cells * MOST)
    sums = np.arange(length)
    weight = -0.5 * ((sums - CENTER) / sd) ** 2 - tilt * sums
    if known:
        size = prior.sum()
        weight = weight + special.gammaln(sums + 1.0) - special.gammaln(sums + size)
    each = fft.rfft(laws, length)

    def mass(product: np.ndarray) -> float:
        law_of_sum = fft.irfft(product, length)
        likely = law_of_sum > 1e-14 * law_of_sum.max()
        top = weight[likely].max()
        return float(law_of_sum[likely] @ np.exp(weight[likely] - top)) * np.exp(top)

    means = []
    for i in range(cells):
        product = each.copy()
        product[i] = fft.rfft(laws[i] * n, length)
        means.append(mass(product.prod(axis=0)))
    return np.array(means) / mass(each.prod(axis=0))


@pytest.mark.thin(8)
@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
@pytest.mark.parametrize("which", ROWS)
def test_draws_of_a_row_with_a_known_sum_are_exact(which, law):
    found = posterior(*ROWS[which], law)
    drawn = found.draw(6000, np.random.default_rng(2))[:, 0] - found.prior[0]
    expected = exact(found, law)
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert (np.abs(drawn.mean(axis=0) - expected) < 4.5 * error + 0.05 + 0.01 * expected).all()
    assert drawn.sum(axis=1).mean() == pytest.approx(expected.sum(), abs=1.0)


@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
@pytest.mark.parametrize("which", ROWS)
def test_means_of_a_row_with_a_known_sum_are_near(which, law):
    """Tilts are an approximation: shares are near, and sums within a tenth."""
    found, (_, prior) = posterior(*ROWS[which], law), ROWS[which]
    expected = exact(found, law)
    assert found.counts().sum() == pytest.approx(expected.sum(), rel=0.13)
    smooth = (expected + prior) / (expected + prior).sum()
    assert found.mean()[0] == pytest.approx(smooth, abs=0.02)


@pytest.mark.parametrize("which", ["peaked", "mixed"])
def test_cells_priors_do_not_fix_the_sum(which):
    """What the tests above would miss it by: 59 records would be 100 and more."""
    found = posterior(*ROWS[which], "discrete_gaussian")
    right, wrong = (exact(found, "discrete_gaussian", known).sum() for known in (True, False))
    assert found.counts().sum() == pytest.approx(right, rel=0.13)
    assert wrong > 1.5 * right


@pytest.mark.thin(4)
@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
@pytest.mark.parametrize("a", [0.05, 0.3])
def test_draws_add_up_to_a_public_total(a, law):
    """Most cells are empty and drowned by noise: their first bins decide."""
    d, total, scale = 40, 2000, 200.0
    rng, none = np.random.default_rng(4), (np.zeros(1), np.full(1, np.inf))
    off, spread = [], []
    for _ in range(4):
        noisy = rng.multinomial(total, rng.dirichlet(np.full(d, a))) + rng.normal(0.0, scale, d)
        rows = NoisyRows((d,), np.round(noisy).astype(int)[None], CountNoise(law, scale, 0.0), none)
        found = family_posterior(rows, float(total), (a,))
        sums = (found.draw(300, rng) - a).sum(axis=1)
        off.append(sums.mean() - total)
        spread.append(sums.std())
    assert abs(np.mean(off)) < 0.002 * total
    assert np.mean(spread) < 0.01 * total


def test_bins_are_as_fine_as_partial_sums_allow(monkeypatch):
    found = posterior(*ROWS["level"], "discrete_gaussian")
    steps = []
    keep = sum_distributions.Lattice.draw_within_bins

    def draw(lattice, *rest):
        steps.append(lattice.step)
        return keep(lattice, *rest)

    monkeypatch.setattr(sum_distributions.Lattice, "draw_within_bins", draw)
    for most in (2**24, 2000, 100):
        monkeypatch.setattr(sum_distributions, "MAX_PARTIAL_SUMS", most)
        drawn = found.draw(500, np.random.default_rng(1))[:, 0] - found.prior[0]
        assert drawn.sum(axis=1).mean() == pytest.approx(58.0, abs=15.0)
    assert steps == [1, 2, 4]


@pytest.mark.thin(2)
@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
def test_draws_of_sums_smaller_than_bins_add_up(law):
    """Twenty rows of two records each, under noise of a thousand."""
    rng, scale, known = np.random.default_rng(0), 1060.0, 106.0
    n = rng.multinomial(40, rng.dirichlet(np.full(60, 0.5))).reshape(20, 3)
    noisy = np.round(n + rng.normal(0.0, scale, n.shape)).astype(int)
    margins = n.sum(axis=1) + rng.normal(0.0, known, 20), np.full(20, known**2)
    rows = NoisyRows((20, 3), noisy, CountNoise(law, scale, 0.0), margins)
    found = table_posterior(rows, np.tile(0.01 * rng.dirichlet(np.full(3, 2.0)), (20, 1)), 40.0)
    total = (found.draw(1000, np.random.default_rng(1)) - found.prior).sum(axis=(1, 2))
    assert total.mean() == pytest.approx(40.0, abs=4.0 * total.std() / np.sqrt(1000))


def test_tilts_at_their_ends_leave_draws_as_they_are():
    """Sparse cells under Laplace noise, their sum unknown: the tilt ends at 0.7."""
    sparse = [20, -9, 4, -30], [0.02] * 4
    found = posterior(*sparse, "laplace", np.inf)
    assert found.tilt[0] > 0.99 * 0.7 / SCALE
    expected = exact(found, "laplace", sd=np.inf).sum()
    drawn = (found.draw(4000, np.random.default_rng(3))[:, 0] - found.prior[0]).sum(axis=1)
    assert drawn.mean() == pytest.approx(expected, rel=0.1)


@pytest.mark.audit
def test_cells_that_are_not_made_consistent_are_drawn_independently():
    rng = np.random.default_rng(8)
    table = NoisyTable(rng.integers(-40, 200, 200), ("x",))
    found = noisy_posterior({"x": table}, "discrete_gaussian", 30.0, 30.0, None, consistent=False)[
        "x"
    ]
    drawn = found.draw(2000, rng)
    apart = np.sqrt(drawn.var(axis=0).sum())
    assert drawn.sum(axis=1).std() == pytest.approx(apart, rel=0.06)


def several(seed: int, law: str) -> tuple[TablePosterior, float]:
    """Four rows of 300 records in all, the sum of each known up to its noise."""
    rng, scale = np.random.default_rng(seed), 40.0
    a = np.maximum(3.0 * rng.dirichlet(np.full(6, 0.7), 4), 1e-3)
    sizes = rng.multinomial(300, rng.dirichlet(np.full(4, 2.0)))
    n = np.stack([rng.multinomial(k, rng.dirichlet(p)) for k, p in zip(sizes, a, strict=True)])
    noisy = np.round(n + rng.normal(0.0, scale, n.shape)).astype(int)
    margins = sizes + rng.normal(0.0, scale, 4), np.full(4, scale**2)
    rows = NoisyRows((4, 6), noisy, CountNoise(law, scale, 0.0), margins)
    return table_posterior(rows, a, 300.0), 300.0


def sums_given_total(found: TablePosterior, law: str, total: int) -> np.ndarray:
    """Posterior means of the rows' sums, by convolution count by count."""
    n, rows = np.arange(total + 1), []
    for noisy, a, tilt, center, variance in zip(
        found.rows.noisy, found.prior, found.tilt, *found.rows.margins, strict=True
    ):
        away = (n - noisy[:, None]) / found.rows.noise.scale
        logs = special.gammaln(n + a[:, None]) - special.gammaln(n + 1.0) + tilt * n
        logs = logs - (np.abs(away) if law == "laplace" else 0.5 * away**2)
        sums = np.ones(1)
        for cell in np.exp(logs - logs.max(axis=1, keepdims=True)):
            sums = np.convolve(sums, cell)[: total + 1]
        size = a.sum()
        weight = special.gammaln(n + 1.0) - special.gammaln(n + size) - tilt * n
        with np.errstate(divide="ignore"):
            own = np.log(sums) + weight - 0.5 * (n - center) ** 2 / variance
        rows.append(np.exp(own - own.max()))
    means = []
    for j, own in enumerate(rows):
        rest = np.ones(1)
        for other in rows[:j] + rows[j + 1 :]:
            rest = np.convolve(rest, other)[: total + 1]
        joint = own * rest[::-1]
        means.append(joint @ n / joint.sum())
    return np.array(means)


@pytest.mark.thin(4)
@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_draws_of_several_rows_of_known_sums_add_up_to_a_public_total(seed, law, monkeypatch):
    found, total = several(seed, law)
    drawn = (found.draw(3000, np.random.default_rng(5)) - found.prior).sum(axis=2)
    error = drawn.sum(axis=1).std() / np.sqrt(len(drawn))
    assert drawn.sum(axis=1).mean() == pytest.approx(total, abs=4.0 * error)
    expected = sums_given_total(found, law, 300)
    assert expected.sum() == pytest.approx(total)
    assert drawn.mean(axis=0) == pytest.approx(expected, abs=0.03 * total)
    monkeypatch.setattr(families, "match_total_of_sums", lambda rows, total: 0.0)
    (off, _) = several(seed, law)
    drawn = (off.draw(500, np.random.default_rng(5)) - off.prior).sum(axis=(1, 2))
    assert abs(drawn.mean() - total) > 0.03 * total


@pytest.mark.thin(8)
@pytest.mark.parametrize(
    ("cells", "a", "scale", "center", "spread"),
    [
        (100, 10.0, 50.0, 2500.0, np.inf),
        (100, 10.0, 50.0, 2500.0, 900.0),
        (30, 40.0, 500.0, 100.0, 3000.0),
    ],
)
def test_sums_that_are_hardly_known_vary_as_they_should(
    cells, a, scale, center, spread, monkeypatch
):
    """Their law is several times as wide as that of cells at one tilt, which tells its middle."""
    rng = np.random.default_rng(3)
    n = rng.multinomial(25 * cells, rng.dirichlet(np.full(cells, a)))
    noisy = np.round(n + rng.normal(0.0, scale, cells)).astype(int)
    margins = np.array([center]), np.array([spread**2])
    rows = NoisyRows((1, cells), noisy[None], CountNoise("discrete_gaussian", scale, 0.0), margins)
    found = table_posterior(rows, np.full((1, cells), a), None)

    tilt, most = float(found.tilt[0]), 11000
    counts = np.arange(1500)
    logs = special.gammaln(counts + a) - special.gammaln(counts + 1.0) + tilt * counts
    logs = logs - 0.5 * ((counts - noisy[:, None]) / scale) ** 2
    law = np.ones(1)
    for own in np.exp(logs - logs.max(axis=1, keepdims=True)):  # all digits of all sums
        law = np.convolve(law, own / own.sum())[:most]
    at = np.arange(len(law))
    weight = special.gammaln(at + 1.0) - special.gammaln(at + a * cells) - tilt * at
    with np.errstate(divide="ignore"):
        logs = np.log(law) + weight - 0.5 * ((at - center) / spread) ** 2
    chance = special.softmax(logs)
    mean = chance @ at
    sd = np.sqrt(chance @ (at - mean) ** 2)

    drawn = (found.draw(3000, rng) - found.prior).sum(axis=(1, 2))
    assert drawn.mean() == pytest.approx(mean, abs=0.1 * sd)
    assert drawn.std() == pytest.approx(sd, rel=0.06)
    tails = np.interp([0.01, 0.99], np.cumsum(chance), at)
    assert np.quantile(drawn, [0.01, 0.99]) == pytest.approx(tails, abs=0.2 * sd)
    monkeypatch.setattr(sum_distributions, "MAX_EXTRA_TILTS", 0)
    drawn = (found.draw(1000, rng) - found.prior).sum(axis=(1, 2))
    assert drawn.std() < 0.93 * sd
