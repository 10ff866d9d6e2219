"""What noisy counts say: against enumeration, and tables that help each other."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import special

from pymc_private.counts import tables as count_tables
from pymc_private.counts.denoise.posterior import NoisyTable, noisy_posterior
from pymc_private.errors import DomainError
from tests.statistics import proportion


def enumerated(noisy, law, scale, total, a):
    """Posterior means of true counts by adding up all tables with this total."""
    found, weights = [], []
    for n in itertools.product(range(total + 1), repeat=len(noisy)):
        if sum(n) == total:
            n = np.array(n)
            away = np.abs(n - noisy) / scale
            prior = (special.gammaln(n + a) - special.gammaln(n + 1)).sum()
            weights.append(prior - (away if law == "laplace" else 0.5 * away**2).sum())
            found.append(n)
    chance = special.softmax(weights)
    return np.array(found), chance


CASES = [
    ([12, 6, -3], "discrete_gaussian", 4.0, 20, 0.5),
    ([12, 6, -3], "laplace", 3.0, 20, 0.5),
    ([-6, -4, 30, 2], "discrete_gaussian", 6.0, 12, 0.1),
    ([5, 4], "laplace", 2.0, 15, 1.0),
]


@pytest.mark.parametrize(("noisy", "law", "scale", "total", "a"), CASES)
def test_draws_follow_the_posterior_over_all_tables(noisy, law, scale, total, a):
    tables, chance = enumerated(np.array(noisy), law, scale, total, a)
    sd = scale if law != "laplace" else scale * 2**0.5
    found = noisy_posterior(
        {"p": NoisyTable(np.array(noisy), ("k",))}, law, scale, sd, total, priors=(a,)
    )["p"]
    draws = found.draw(4000, np.random.default_rng(5)) - a
    assert np.all(np.round(draws).sum(axis=1) == total)
    assert np.allclose(draws, np.round(draws))
    for cell in range(len(noisy)):
        for at in (0, total // 3):
            expected = float(chance[tables[:, cell] <= at].sum())
            hits = int((draws[:, cell] <= at + 0.5).sum())
            if 1e-6 < expected < 1 - 1e-6:
                assert proportion(hits, 4000, expected).passes
    mean = chance @ tables
    assert np.abs(found.counts() - mean).max() < 0.06 * total
    assert found.counts().sum() == pytest.approx(total, rel=1e-6)


def simulated(seed, scale, features=8, values=6, classes=2, n=3000):
    """Naive Bayes tables of random data, and the same with noise."""
    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(n, rng.dirichlet(np.full(classes, 3.0)))
    tables = {"class": sizes.astype(float)}
    for k in range(features):
        rows = [rng.multinomial(m, rng.dirichlet(np.full(values, 0.5))) for m in sizes]
        tables[f"x{k}"] = np.array(rows, float)
    noisy = {
        name: NoisyTable(
            table.astype(int) + np.round(rng.normal(0, scale, table.shape)).astype(int),
            ("class",) if table.ndim == 1 else ("class", name),
        )
        for name, table in tables.items()
    }
    return tables, noisy, n


def divergence(tables, posterior):
    total = 0.0
    for name, table in tables.items():
        shares = table / np.maximum(table.sum(axis=-1, keepdims=True), 1)
        gain = special.xlogy(shares, shares) - special.xlogy(shares, posterior[name].mean())
        total += float((gain.sum(axis=-1) * table.sum(axis=-1)).sum() / table.sum())
    return total


@pytest.mark.thin(2)
@pytest.mark.parametrize("scale", [5.0, 20.0, 60.0])
def test_tables_that_learn_from_each_other_are_closer(scale):
    better = []
    for seed in range(6):
        tables, noisy, n = simulated(seed, scale)
        words = ("discrete_gaussian", scale, scale, n)
        together = divergence(tables, noisy_posterior(noisy, *words))
        apart = divergence(tables, noisy_posterior(noisy, *words, consistent=False))
        better.append(together / apart)
    assert np.mean(better) < 0.97


def test_margins_of_the_other_families_correct_the_rows():
    """A row whose own cells came out too high is pulled to what nine other families say."""
    tables, noisy, n = simulated(3, 1.0, features=10)
    off = noisy["x0"].noisy + np.array([[60], [0]])
    noisy["x0"] = NoisyTable(off, noisy["x0"].dims)
    found = noisy_posterior(noisy, "discrete_gaussian", 20.0, 20.0, n)["x0"].counts()
    assert found.sum(axis=1)[0] == pytest.approx(tables["class"][0], abs=70)
    assert off.sum(axis=1)[0] > tables["class"][0] + 250


def test_protected_totals_are_not_used():
    _, noisy, _ = simulated(4, 5.0)
    found = noisy_posterior(noisy, "discrete_gaussian", 5.0, 5.0, None)
    assert all(np.isfinite(table.mean()).all() for table in found.values())
    assert found["class"].counts().sum() == pytest.approx(noisy["class"].noisy.sum(), rel=0.01)


def test_a_public_minimum_bounds_the_counts():
    table = NoisyTable(np.array([3, 40, 8]), ("k",))
    found = noisy_posterior({"p": table}, "laplace", 2.0, 2.8, 60, 5.0)["p"]
    assert (found.draw(200, np.random.default_rng(0)) - found.prior >= 5.0 - 1e-9).all()


def test_noise_is_whole_and_of_its_scale():
    zeros = np.zeros((40, 50))
    for law, scale, variance in (("discrete_gaussian", 7.0, 49.0), ("laplace", 3.0, 17.85)):
        both = count_tables.add_noise({"a": zeros, "b": zeros[:3]}, law, scale)
        drawn = both["a"]
        assert both["b"].shape == (3, 50)
        assert (both["b"] != drawn[:3]).any()  # each table has noise of its own
        assert drawn.dtype == np.int64
        assert drawn.shape == zeros.shape
        assert drawn.var() == pytest.approx(variance, rel=0.35)
        again = count_tables.add_seeded_noise(zeros, law, scale, np.random.default_rng(1))
        assert again.var() == pytest.approx(variance, rel=0.35)
    assert count_tables.add_noise({"a": np.array([2.0**40])}, "laplace", 0.1)["a"][0] > 2**39
    for bad in (np.array([0.5]), np.array([np.nan]), np.array([2.0**60])):
        with pytest.raises(DomainError):
            count_tables.add_noise({"a": zeros, "b": bad}, "laplace", 1.0)


def class_sizes(law, scale, alone, runs=60):
    """Errors of posterior means of class sizes, and how often 90% of the draws hold the truth."""
    errors, held = [], []
    for seed in range(runs):
        rng = np.random.default_rng([seed, 3])
        sizes = rng.multinomial(3000, [0.2, 0.3, 0.5])
        tables = {"class": (sizes, ("class",))}
        for k in range(8):
            rows = np.array([rng.multinomial(m, [0.3, 0.7]) for m in sizes])
            tables[f"x{k}"] = (rows, ("class", f"x{k}"))
        kept = {"class": tables["class"]} if alone else tables
        noisy = {
            n: NoisyTable(count_tables.add_seeded_noise(t, law, scale, rng), d)
            for n, (t, d) in kept.items()
        }
        sd = scale if law != "laplace" else scale * 2**0.5
        found = noisy_posterior(noisy, law, scale, sd, 3000.0, priors=(1.0,))["class"]
        errors.append(found.counts() - sizes)
        low, high = np.quantile(found.draw(200, rng) - found.prior, [0.05, 0.95], axis=0)
        held.append((low <= sizes) & (sizes <= high))
    return np.array(errors), np.array(held)[:, 0]


@pytest.mark.thin(4)
@pytest.mark.parametrize(("law", "scale"), [("discrete_gaussian", 60.0), ("laplace", 45.0)])
def test_every_table_of_the_classes_tells_their_sizes(law, scale):
    """Eight margins of two cells weigh four times what the class table says by itself.

    Draws that held the truth nine times of ten would fail one time in a thousand; of a posterior
    of half the standard deviation, which holds it six times of ten, all but one in a thousand do.
    """
    errors, held = class_sizes(law, scale, alone=False)
    alone, _ = class_sizes(law, scale, alone=True, runs=20)
    assert np.sqrt((errors**2).mean()) < 0.65 * np.sqrt((alone**2).mean())
    assert held.sum() >= 46


def test_laplace_noise_is_left_alone_where_others_say_less():
    table = NoisyTable(np.array([40, 60]), ("class",))
    wide = {f"x{k}": NoisyTable(np.full((2, 9), 7), ("class", f"x{k}")) for k in range(3)}
    words = ("laplace", 5.0, 5.0 * 2**0.5, 100.0)
    alone = noisy_posterior({"class": table}, *words)["class"].mean()
    assert noisy_posterior({"class": table} | wide, *words)["class"].mean() == pytest.approx(alone)
    gaussian = ("discrete_gaussian", 5.0, 5.0, 100.0)
    told = noisy_posterior({"class": table} | wide, *gaussian)["class"].mean()
    assert told[0] > noisy_posterior({"class": table}, *gaussian)["class"].mean()[0] + 0.01


@pytest.mark.parametrize("dims", [("answer",), ("group", "answer")])
def test_questions_of_one_scale_do_not_tell_of_each_other(dims):
    """What two tables have in common is what their rows are known by, not what they are of."""
    one = NoisyTable(np.array([10, 20, 30]), ("answer",))
    shape = (2, 3) if len(dims) == 2 else (3,)
    other = NoisyTable(np.full(shape, 20), dims)
    words = ("discrete_gaussian", 2.0, 2.0, 60.0)
    both, alone = ({**two, "one": one} for two in ({"other": other}, {}))
    found, wanted = (noisy_posterior(tables, *words)["one"].mean() for tables in (both, alone))
    assert np.array_equal(found, wanted)
