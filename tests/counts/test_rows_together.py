"""Rows of a family drawn together as far as noise explains their differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

from pymc_private.counts.denoise.cell_distributions import CountNoise
from pymc_private.counts.denoise.families import NoisyRows, table_posterior
from pymc_private.counts.denoise.posterior import NoisyTable, noisy_posterior
from pymc_private.counts.denoise.shrinkage import (
    SHARES,
    james_stein,
    share_weights,
    shrinkage_posterior,
)

N, SCALE = 3000, 60.0


def family(seed, difference, name="x", values=8):
    """Two classes whose values differ as told, with noise that hides a typical cell by half."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(values, 2.0))
    other = (1 - difference) * share + difference * rng.dirichlet(np.full(values, 2.0))
    rows = np.array([rng.multinomial(N // 2, p) for p in (share, other)], float)
    noise = np.round(rng.normal(0, SCALE, rows.shape)).astype(int)
    return rows, NoisyTable(rows.astype(int) + noise, ("class", name))


def divergence(rows, tables):
    shares = rows / rows.sum(axis=1, keepdims=True)
    return float(special.rel_entr(shares, tables).sum(axis=1).mean())


def posteriors(seed, difference, families=4):
    found = {f"x{i}": family(100 * seed + i, difference, f"x{i}") for i in range(families)}
    words = ("discrete_gaussian", SCALE, SCALE, float(N))
    noisy = {name: table for name, (_, table) in found.items()}
    plain, mixed = noisy_posterior(noisy, *words), shrinkage_posterior(noisy, *words)
    return [(found[name][0], plain[name], mixed[name]) for name in found]


def test_rows_that_are_alike_are_closer_together_and_rows_that_differ_stay_apart():
    for difference, most in ((0.0, 0.75), (0.3, 0.95), (1.0, 1.25)):
        found = [one for seed in range(6) for one in posteriors(seed, difference)]
        before = np.mean([divergence(rows, plain.mean()) for rows, plain, _ in found])
        after = np.mean([divergence(rows, mixed.mean()) for rows, _, mixed in found])
        assert after < most * before


def test_draws_and_means_tell_the_same():
    _, _, mixed = posteriors(3, 0.3, families=1)[0]
    assert len(mixed.parts) > 1
    drawn = mixed.draw(2000, np.random.default_rng(0))
    assert drawn.shape == (2000, 2, 8)
    means = (drawn / drawn.sum(axis=-1, keepdims=True)).mean(axis=0)
    assert means == pytest.approx(mixed.mean(), abs=0.01)
    assert mixed.mean().sum(axis=-1) == pytest.approx(1.0)


def test_the_posterior_is_that_of_rows_around_a_common_row():
    """Rows by enumeration: Dirichlet-multinomial with sums that are known, Gaussian noise."""
    noisy, common, scale = np.array([[4, -1, 3], [1, 6, 2]]), np.array([0.5, 0.3, 0.2]), 2.0
    sums, a = np.array([7, 6]), np.array([[3.0, 1.8, 1.2], [1.0, 0.6, 0.4]])
    assert a / a.sum(axis=1, keepdims=True) == pytest.approx(np.tile(common, (2, 1)))
    known = sums.astype(float), np.full(2, 1e-6)
    rows = NoisyRows((2, 3), noisy, CountNoise("discrete_gaussian", scale, 0.0), known)
    found = table_posterior(rows, a, None).draw(20_000, np.random.default_rng(1))
    for j in range(2):
        cells3 = [c for c in itertools.product(range(sums[j] + 1), repeat=3) if sum(c) == sums[j]]
        logs = [
            (special.gammaln(c + a[j]) - special.gammaln(np.add(c, 1.0))).sum()
            - 0.5 * ((noisy[j] - c) ** 2).sum() / scale**2
            for c in map(np.array, cells3)
        ]
        expected = special.softmax(logs) @ np.array(cells3, float)
        assert (found[:, j] - a[j]).mean(axis=0) == pytest.approx(expected, abs=0.06)


def test_families_lend_each_other_what_they_know_of_shares():
    flat = np.zeros((1, len(SHARES)))
    sure = np.where(np.arange(len(SHARES)) == 3, 0.0, -50.0)
    assert share_weights(flat)[0] == pytest.approx(1 / len(SHARES))
    together = share_weights(np.vstack([flat, *[sure] * 9]))
    assert together[0, 3] > 0.6
    assert together[1:, 3] == pytest.approx(1.0)


def test_one_row_and_protected_totals_and_one_value_are_ordinary():
    one = NoisyTable(np.array([5, 9]), ("class",))
    rows = NoisyTable(np.array([[3, 4, -1], [2, 2, 6]]), ("class", "x"))
    single = NoisyTable(np.array([[5], [8]]), ("class", "z"))
    for total in (14.0, None):
        tables = {"class": one, "x": rows, "z": single}
        found = shrinkage_posterior(tables, "laplace", 2.0, 2.8, total)
        plain = noisy_posterior({"class": one, "x": rows, "z": single}, "laplace", 2.0, 2.8, total)
        assert found["class"].mean() == pytest.approx(plain["class"].mean())
        assert found["z"].mean() == pytest.approx(1.0)
        assert np.isfinite(found["x"].mean()).all()
        assert found["x"].draw(5, np.random.default_rng(0)).shape == (5, 2, 3)
    free = shrinkage_posterior({"x": rows}, "laplace", 2.0, 2.8, 16.0)["x"]
    assert free.mean().sum(axis=-1) == pytest.approx(1.0)


def test_families_with_the_same_rows_keep_one_share():
    tables = {f"x{i}": family(i, 0.5, f"x{i}")[1] for i in range(4)}
    tables |= {"other": NoisyTable(tables["x0"].noisy, ("region", "other"))}
    found = noisy_posterior(tables, "discrete_gaussian", SCALE, SCALE, float(N))
    kept = {name: table.share_kept for name, table in james_stein(found, tables, SCALE).items()}
    assert len({kept[f"x{i}"] for i in range(4)}) == 1
    assert kept["other"] != kept["x0"]


@pytest.mark.audit
def test_draws_are_counts_where_noise_is_beyond_all_sense():
    """Sums of rows and columns have a product that no integer of 64 bits holds."""
    rng, scale = np.random.default_rng(0), 8e9
    tables = {
        "class": NoisyTable(np.round(rng.normal(0.0, scale, 2)).astype(int), ("class",)),
        "x": NoisyTable(np.round(rng.normal(0.0, scale, (2, 60))).astype(int), ("class", "x")),
    }
    for found in shrinkage_posterior(tables, "discrete_gaussian", scale, scale, None).values():
        assert (found.draw(20, np.random.default_rng(1)) > 0.0).all()


@pytest.mark.parametrize("law", ["discrete_gaussian", "laplace"])
def test_a_public_total_of_nobody_leaves_the_prior(law):
    rng = np.random.default_rng(0)
    noisy = {
        "c": NoisyTable(np.round(rng.normal(0.0, 5.0, 3)).astype(int), ("c",)),
        "x": NoisyTable(np.round(rng.normal(0.0, 5.0, (3, 4))).astype(int), ("c", "x")),
    }
    found = shrinkage_posterior(noisy, law, 5.0, 5.0, 0.0)
    assert found["x"].mean() == pytest.approx(np.full((3, 4), 0.25), abs=0.1)
    assert (found["x"].draw(20, rng) > 0.0).all()
