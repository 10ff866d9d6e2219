"""Shares of categories with many levels: counted with noise, and what they do to a reference."""

from __future__ import annotations

import warnings
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import pymc as pm
import pytest

import pymc_private as pmp
from pymc_private.models.data_variables import Source
from pymc_private.samplers.randomness import SystemRandomness
from pymc_private.summaries.joint_plan import may_read
from pymc_private.summaries.noise import LatticeNoise, SimulatedNoise, largest_mu
from pymc_private.summaries.nuts_posterior import nuts_draws
from pymc_private.summaries.scores import model_scores
from pymc_private.summaries.scores.category_levels import CategoryLevels
from pymc_private.summaries.scores.category_shares import CategoryShares, denoised_counts
from pymc_private.summaries.scores.marginal_moments import MarginalMoments, counted_entries
from pymc_private.summaries.scores.model_scores import score_mechanism
from pymc_private.summaries.scores.reference import CovariateReference, covariate_moments
from pymc_private.summaries.scores.score_terms import LevelCodes
from pymc_private.summaries.term_totals import CountTotals
from tests.summaries.packed_matrices import PackedMatrices

GROUPS, N, MU = 14, 3000, largest_mu(1.0, 1e-6)
LARGEST = 0.75
"""The first group's share."""


def records(theta: dict[str, Any], rng: Any) -> dict[str, np.ndarray]:
    """Give records of which most are in one group."""
    shares = np.full(GROUPS, (1.0 - LARGEST) / (GROUPS - 1))
    shares[0] = LARGEST
    group, x = rng.choice(GROUPS, N, p=shares), rng.uniform(-1, 1, N)
    eta = np.asarray(theta["effect"])[group] + theta["slope"] * x
    return {"g": group, "x": x, "y": np.clip(eta + rng.standard_normal(N), -15, 15)}


def private(covariate: bool = True) -> pmp.PrivateModel:
    """Give a hierarchy of normal outcomes with private labels."""
    at = records({"effect": np.zeros(GROUPS), "slope": 0.5}, np.random.default_rng(0))
    names = ("g", "x") if covariate else ("g",)
    with pm.Model(coords={"row": np.arange(N)}) as model:
        effect = pm.Normal("effect", pm.Normal("mean"), pm.LogNormal("sd", -0.7, 0.5), shape=GROUPS)
        data = {name: pm.Data(name, at[name], dims="row") for name in names}
        eta = effect[data["g"]] + (pm.Normal("slope") * data["x"] if covariate else 0.0)
        pm.Normal("y", eta, 1.0, observed=at["y"], dims="row")
    domain = {"x": (-1.0, 1.0), "g": pmp.Categories(range(GROUPS)), "y": (-15.0, 15.0)}
    return pmp.privatize(model, records="row", domain={k: domain[k] for k in (*names, "y")})


@lru_cache
def mechanism(counted: bool = True, covariate: bool = True) -> Any:
    """Give the mechanism, or (a planted fault) one that takes groups as equally large."""
    with pytest.MonkeyPatch.context() as patch:
        if not counted:
            patch.setattr(model_scores, "covariate_stage", covariate_moments)
        return score_mechanism(private(covariate), MU)


def share_of_largest(made: Any, seed: int, which: str = "large") -> float:
    """Give the first group's share in the moved reference."""
    rng = np.random.default_rng(seed)
    given = records({"effect": np.zeros(GROUPS), "slope": 0.5}, rng)
    given = {name: given[name] for name in (*made.design.large.rows, "y")}
    found = made.release(given, SimulatedNoise(rng))
    return float(found[f"{which}_weights"] @ (np.ravel(found[f"{which}:g"]) == 0))


def test_the_reference_has_the_share_of_a_large_group():
    for which in ("large", "small"):
        assert abs(share_of_largest(mechanism(), 1, which) - LARGEST) < 0.06
    assert share_of_largest(mechanism(counted=False), 1) == pytest.approx(1 / GROUPS)  # the fault


def test_labels_alone_are_counted_too():
    made = mechanism(covariate=False)
    assert isinstance(made.design.moments, MarginalMoments)
    assert made.design.moments.moments is None
    assert abs(share_of_largest(made, 2) - LARGEST) < 0.06


def test_counting_is_paid_for_and_a_record_is_in_one_level_at_most():
    class Counted(PackedMatrices, SimulatedNoise):
        spent = Fraction(0)
        counted: tuple[int, ...] = ()

        def total(self, chunks, bound, positive, mu):
            rows = np.concatenate(list(chunks))
            self.spent += Fraction(mu) ** 2
            return super().total([rows], bound, positive, mu)

        def noisy_counts(self, counts, mu):
            self.counted += (int(sum(counts)),)
            self.spent += Fraction(mu) ** 2
            return super().noisy_counts(counts, mu)

    rng = np.random.default_rng(1)
    noise = Counted(rng)
    wild = records({"effect": np.zeros(GROUPS), "slope": 0.5}, rng)
    wild["g"] = wild["g"].astype(float)
    wild["g"][:6] = [np.nan, np.inf, -np.inf, 1e300, 0.5, -1.0]
    with np.errstate(all="ignore"):
        mechanism().release(wild, noise)
    assert noise.counted == (N - 6,)
    assert noise.spent <= Fraction(MU) ** 2
    assert float(noise.spent) > MU**2 * (1 - 1e-9)


def source(entries: int, levels: int) -> Source:
    """Give a private covariate of several entries a record."""
    made = of_entries(entries, levels)
    return next(each for each in made.sources if each.name == "g")


def of_entries(entries: int, levels: int, **words: Any) -> pmp.PrivateModel:
    """Give a model with a covariate of several entries a record."""
    with pm.Model() as model:
        beta = pm.Normal("beta", shape=entries)
        g = pm.Data("g", np.zeros((N, entries), dtype=int))
        pm.Normal("y", (beta * g).sum(axis=1), 1.0, observed=np.zeros(N))
    domain = {"g": pmp.Categories(range(levels)), "y": (-9.0, 9.0)}
    return pmp.privatize(model, records={"g": 0, "y": 0}, domain=domain, **words)


@pytest.mark.parametrize("words", [{}, {"neighbors": "add_remove"}, {"records_per_unit": 3}])
def test_noise_pays_for_all_levels_that_a_unit_moves(words):
    """k records of V entries move numbers by k sqrt(2 V) in norm, k sqrt(V) under add/remove."""
    entries, private = 3, of_entries(3, 14, **words)
    made = score_mechanism(private, MU, **({"n": N} if words.get("neighbors") else {}))
    given: list[float] = []

    class Told(PackedMatrices, SimulatedNoise):
        def noisy_counts(self, counts, mu):
            given.append(self.counts_sd(mu))
            return super().noisy_counts(counts, mu)

    rng = np.random.default_rng(0)
    records = {"g": rng.integers(0, 14, (N, entries)), "y": rng.standard_normal(N)}
    scale = made.design.scale
    made.release(records, Told(rng, scale.relation, scale.records_per_unit))
    moved = entries * (1 if "neighbors" in words else 2)
    least = words.get("records_per_unit", 1) * np.sqrt(moved) / made.design.budget.moments
    assert len(given) == entries
    assert np.min(given) >= least * (1 - 1e-12)
    assert np.max(given) <= least * (1 + 1e-9)


@pytest.mark.parametrize("on_workers", [False, True])
def test_counts_are_exact_whatever_the_chunks_and_whoever_counts(on_workers):
    labels = np.random.default_rng(0).integers(-1, 15, (N, 2)).astype(float)
    blocks = tuple(CategoryLevels(source(2, 14), k, np.arange(14)) for k in range(2))
    totals = CountTotals(LevelCodes(blocks, "y"), [14, 14])

    class Table:
        reads_on_workers = on_workers

        def chunks(self, size):
            assert not on_workers  # rows stay where they are
            starts = range(0, N, size)
            return ((self.chunk(k, size), min(size, N - k)) for k in starts)

        def chunk(self, start, size):
            rows = np.resize(labels[start : start + size], (size, 2))  # padded, as chunks are
            return {"g": rows, "y": np.zeros(size)}

        def sum_up(self, work, size):
            parts = [work(self.chunk(k, size), min(size, N - k)) for k in range(0, N, size)]
            return [np.sum(part, axis=0).tolist() for part in zip(*parts, strict=True)]

    class Without(LatticeNoise):
        asked: tuple[float, ...] = ()

        def noisy_counts(self, counts, mu):
            self.asked += (mu,)
            return np.asarray(counts)

    expected = [[(labels[:, k] == level).sum() for level in range(14)] for k in range(2)]
    for size in (64, 999, N):
        noise = Without(SystemRandomness())
        np.testing.assert_array_equal(totals.noisy(Table(), noise, size, [0.5, 0.25]), expected)
        assert noise.asked == (0.5, 0.25)


def test_plans_that_count_other_levels_share_no_moments():
    one, same = (
        pmp.calibrate(of_entries(2, 14), epsilon=1, delta=1e-6, release="summary", method="scores")
        for _ in range(2)
    )
    assert may_read(same, one)
    first = one.mechanism.design.moments.categories.blocks[:1]
    fewer = MarginalMoments(None, CategoryShares.of(first, one.mechanism.design.large))
    assert counted_entries(fewer) == {("g", 0, False)}
    one.mechanism.design = replace(one.mechanism.design, moments=fewer)
    assert not may_read(same, one)


def errors_of(counts: np.ndarray, sd: float, releases: int = 20) -> tuple[float, float]:
    """Give root mean square errors of what is found, and of equal shares."""
    rng, equal = np.random.default_rng(3), np.full(len(counts), counts.mean())
    found = [denoised_counts(counts + sd * rng.standard_normal(len(counts)), sd, equal) - counts
             for _ in range(releases)]  # fmt: skip
    return float(np.sqrt(np.mean(np.square(found)))), float(np.std(counts))


def test_noisy_numbers_are_believed_as_far_as_noise_allows():
    sd = 76.0
    large = np.array([900.0] + [100 / 41] * 41)
    ours, equal = errors_of(large, sd)
    assert ours < sd / 4 < equal / 6
    halved = 6000 * 0.5 ** np.arange(20)
    assert errors_of(halved, 60.0)[0] < 60.0
    alike = np.random.default_rng(0).multinomial(3000, np.full(30, 1 / 30)).astype(float)
    ours, equal = errors_of(alike, sd)
    assert ours < 1.3 * equal
    few = np.array([40_000.0] + [130.0] * 41)
    assert errors_of(few, sd)[0] < 1.5 * sd


@pytest.mark.parametrize(("levels", "n", "sd"), [(42, 1000, 76.0), (300, 3000, 76.0),
                                                 (1000, 20_000, 200.0)])  # fmt: skip
def test_one_of_many_levels_is_found_to_have_most_records(levels, n, sd):
    """Read at the middle of an interval, numbers near 0 add up to thousands."""
    counts = np.full(levels, 0.1 * n / (levels - 1))
    counts[0] = 0.9 * n
    rng, shares = np.random.default_rng(5), []
    for _ in range(10):
        noisy = counts + sd * rng.standard_normal(levels)
        found = denoised_counts(noisy, sd, np.full(levels, n / levels))
        shares.append(found[0] / found.sum())
    assert np.mean(shares) == pytest.approx(0.9, abs=0.06)


def test_a_level_that_a_public_sample_hardly_has_is_found():
    rng, counts = np.random.default_rng(6), np.full(20, 3500 / 19)
    counts[0] = 1500
    public = np.full(20, (1 - 5e-5) / 19)
    public[0] = 5e-5

    sample = CovariateReference({"g": np.arange(20)}, public)
    block = CategoryLevels(source(1, 20), 0, np.arange(20))
    stage = CategoryShares.of([block], sample)
    noisy = counts + 150 * rng.standard_normal(20)
    assert stage.moved(sample, noisy, 150.0, 5000.0).weights[0] == pytest.approx(0.3, abs=0.08)
    alone = denoised_counts(noisy, 150.0, 5000 * public)  # the fault: the sample is believed
    assert alone[0] / alone.sum() < 0.2


def test_labels_of_groups_have_their_shares_whatever_else_is_counted():
    """Few rows of a group cannot have the shares of twenty levels, too: raking ends with groups."""
    rng, g = np.random.default_rng(8), source(2, 20)

    rows = np.stack([np.repeat(np.arange(14), 4), rng.permutation(56) % 20], axis=1)
    sample = CovariateReference({"g": rows}, np.full(56, 1 / 56))
    noisy = np.r_[np.full(20, N / 20), 0.75 * N, np.full(13, 0.25 * N / 13)]
    for is_label in (True, False):
        blocks = (
            CategoryLevels(g, 0, np.arange(14), is_label),
            CategoryLevels(g, 1, np.arange(20)),
        )
        stage = CategoryShares.of(blocks, sample)
        numbers = noisy if is_label else np.r_[noisy[20:], noisy[:20]]
        share = stage.moved(sample, numbers, 1.0, N).weights[:4].sum()
        assert (share > 0.7) == is_label


@pytest.mark.parametrize("levels", [13, 400])
@pytest.mark.parametrize("sd", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("n", [1.0, 1e9])
def test_no_noise_raises_after_the_charge(levels, sd, n):
    rng = np.random.default_rng(7)
    for noisy in (sd * rng.standard_normal(levels), np.full(levels, -9 * sd), np.zeros(levels),
                  np.r_[n + 20 * sd, np.zeros(levels - 1)]):  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = denoised_counts(noisy, sd, np.full(levels, n / levels))
        assert np.isfinite(found).all()
        assert (found >= 0.0).all()
        assert found.sum() > 0.0


def test_numbers_add_up_and_none_is_negative():
    rng, sd = np.random.default_rng(4), 50.0
    counts = rng.multinomial(2000, rng.dirichlet(np.full(30, 0.2)))
    found = denoised_counts(counts + sd * rng.standard_normal(30), sd, np.full(30, 2000 / 30))
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(2000, rel=0.02)


def releases(made: Any, count: int) -> Any:
    """Give parameters, a release of their records, and a generator."""
    for k, theta in enumerate(made.parameters.draws(count, 4)):
        rng = np.random.default_rng([4, k])
        natural = {name: v[0] for name, v in made.parameters.natural(theta[None]).items()}
        yield theta, made.release(records(natural, rng), SimulatedNoise(rng)), rng


@pytest.mark.audit
def test_intervals_hold_where_one_group_has_most_records():
    """Taken as equal, groups of these sizes were refused after the charge."""
    fault = mechanism(counted=False)
    refusals = [fault.warnings(found) for _, found, _ in releases(fault, 10)]
    assert sum(any(c.refuse for c in cautions) for cautions in refusals) >= 6
    made, held, refused = mechanism(), [], 0
    for theta, found, rng in releases(made, 3):
        refused += any(caution.refuse for caution in made.warnings(found))
        low, high = nuts_draws(private(), made, found, rng).quantiles([0.05, 0.95])
        held.append(np.mean((low <= theta) & (theta <= high)))
    assert refused <= 1
    assert np.mean(held) > 0.75
