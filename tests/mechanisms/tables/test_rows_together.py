"""Rows of a family drawn together as far as noise explains their differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

from pymc_private.mechanisms.tables.cells import cells, distinct_cells, match_sum
from pymc_private.mechanisms.tables.posterior import NoisyTable, noisy_posterior, shrunk

N, SCALE = 3000, 60.0


def family(seed, difference, values=8):
    """Two classes whose values differ as told, with noise that hides a typical cell by half."""
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(values, 2.0))
    other = (1 - difference) * share + difference * rng.dirichlet(np.full(values, 2.0))
    rows = np.array([rng.multinomial(N // 2, p) for p in (share, other)], float)
    noise = np.round(rng.normal(0, SCALE, rows.shape)).astype(int)
    return rows, NoisyTable(rows.astype(int) + noise, ("class", "x"))


def divergence(rows, tables):
    shares = rows / rows.sum(axis=1, keepdims=True)
    return float(special.rel_entr(shares, tables).sum(axis=1).mean())


def posteriors(seed, difference):
    rows, noisy = family(seed, difference)
    plain = noisy_posterior({"x": noisy}, "discrete_gaussian", SCALE, SCALE, float(N))["x"]
    return rows, plain, shrunk({"x": plain}, {"x": noisy}, SCALE)["x"]


def test_rows_that_are_alike_are_closer_together_and_rows_that_differ_stay_apart():
    for difference, most in ((0.0, 0.75), (1.0, 1.02)):
        found = [posteriors(seed, difference) for seed in range(12)]
        before = np.mean([divergence(rows, plain.mean()) for rows, plain, _ in found])
        after = np.mean([divergence(rows, drawn.mean()) for rows, _, drawn in found])
        assert after < most * before
    assert np.mean([s.kept for _, _, s in (posteriors(i, 0.0) for i in range(12))]) < 0.3
    assert np.mean([s.kept for _, _, s in (posteriors(i, 1.0) for i in range(12))]) > 0.6


def test_draws_and_means_tell_the_same_and_margins_stay():
    _, plain, drawn = posteriors(3, 0.3)
    assert 0.0 < drawn.kept < 1.0
    some = drawn.draw(600, np.random.default_rng(0)) - drawn.prior
    assert some.mean(axis=0) == pytest.approx(drawn.counts(), abs=0.05 * N / 8)
    for axis in (0, 1):
        assert drawn.counts().sum(axis=axis) == pytest.approx(plain.counts().sum(axis=axis))
    one = {"p": NoisyTable(np.array([5, 9]), ("k",))}
    alone = noisy_posterior(one, "laplace", 2.0, 2.8, 14.0)
    assert shrunk(alone, one, 2.8)["p"].kept == 1.0


def test_families_with_the_same_rows_keep_one_share():
    tables = {f"x{i}": family(i, 0.5)[1] for i in range(4)}
    tables |= {"other": NoisyTable(tables["x0"].noisy, ("region", "other"))}
    found = noisy_posterior(tables, "discrete_gaussian", SCALE, SCALE, float(N))
    kept = {name: table.kept for name, table in shrunk(found, tables, SCALE).items()}
    assert len({kept[f"x{i}"] for i in range(4)}) == 1
    assert kept["other"] != kept["x0"]


@pytest.mark.parametrize(("law", "scale"), [("laplace", 7.0), ("discrete_gaussian", 40.0)])
def test_cells_of_one_noisy_count_share_one_law(law, scale):
    noisy = np.array([[3, 90, 3, -8], [90, 3, 250, -8]])
    few = distinct_cells(noisy, law, scale, 0.0, 400.0)
    every = cells(noisy, law, scale, 0.4, 0.0, 400.0).flat()
    assert few.low.shape == (1, 4)
    assert few.times.sum() == noisy.size
    expected = match_sum(every, 400.0)
    assert match_sum(few.with_prior(0.4), 400.0) == pytest.approx(expected, rel=1e-6)
